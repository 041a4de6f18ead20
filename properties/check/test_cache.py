"""What `verify` keeps: nothing unchanged is done again, and nothing stale is believed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from herdproof.cli import app
from herdproof.conformance import findings as checks
from herdproof.protocols.election import entry as election
from herdspec import from_source
from herdspec.check import digest as digests
from herdspec.check.cache import Cache, Coverage, Memory, finding_of, key_of, result_json, result_of
from herdspec.check.cache import Result as Found
from herdspec.check.digest import digest, digest_of, sources
from herdspec.check.exploration import explore as explorer
from herdspec.check.proof import induction
from herdspec.check.refinement.refine import refine_by_proof
from herdspec.check.verdict import Finding, Mark, Shown, StoryStep
from herdspec.check.verify import Check, Plan, verify
from herdspec.language import graph as g
from herdspec.language.types import BOOL
from herdspec.protocols.election.flaws import AT_ONCE, any_write
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.election.refinement import REFINEMENT

HOLDS, FAILS, UNKNOWN = 0, 1, 3

LOCK = '''
from enum import Enum
from herdspec import *
from herdspec.check.verdict import Failure

class Client(Sort):
    """A client."""

class Lease(Enum):
    NONE = "none"
    HELD = "held"

class Lock(Spec):
    """A lock."""
    holder: Client | None = None
    lease: dict[Client, Lease] = each(Lease.NONE)
    losses: Nat = 0

    @action
    def grant(self, c: Client) -> None:
        """{c} is given the lock."""
        require(self.holder is None)
        self.holder = c
        self.lease[c] = Lease.HELD

    @action
    def release(self, c: Client) -> None:
        """{c} gives it back."""
        require(self.lease[c] == Lease.HELD)
        self.lease[c] = Lease.NONE
        self.holder = None

    @action(kind=fault)
    def lose(self, c: Client) -> None:
        """{c} loses it, and knows."""
        require(self.lease[c] == Lease.HELD)
        self.lease[c] = Lease.NONE
        self.losses = self.losses + 1
        self.holder = None

@always
def the_server_knows(s: Lock) -> bool:
    """Whoever holds a lease is the holder."""
    return all(s.lease[c] != Lease.HELD or s.holder == c for c in Client)

@sometimes
def somebody_holds_it(s: Lock) -> bool:
    """Somebody holds it."""
    return any(s.lease[c] == Lease.HELD for c in Client)
'''

ONE_HOLDER = '''
@always
def one_holder(s: Lock) -> bool:
    """At most one client holds a lease."""
    return all(
        not (s.lease[a] == Lease.HELD and s.lease[b] == Lease.HELD)
        for a in Client for b in Client if a != b
    )
'''
RETURNED = (
    "self.lease[c] = Lease.NONE\n        self.holder = None",
    "self.holder = None",
)
"""A mistake: the client that gives the lock back goes on believing that it holds it."""


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec in a file, in the directory in which commands are called."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "lock.py"
    file.write_text(LOCK)
    return file


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is really done here from now on: explorations, questions to z3 that are not trivial."""
    done: list[str] = []
    explore, solve = explorer.explore, induction.Prover.solve

    def noted_explore(spec: Any, *args: Any, **more: Any) -> Any:
        done.append(f"explore {spec.name}")
        return explore(spec, *args, **more)

    def noted_solve(self: induction.Prover, question: induction.Question) -> Any:
        if not question.is_trivial:
            done.append(question.name)
        return solve(self, question)

    monkeypatch.setattr(explorer, "explore", noted_explore)
    monkeypatch.setattr(induction.Prover, "solve", noted_solve)
    return done


def run(*arguments: str | Path) -> Result:
    """Run `verify` in this process."""
    return CliRunner().invoke(app, ["verify", *(str(a) for a in arguments)])


def of_text(text: str) -> str:
    """The digest of the lock of a text, held to the properties beside it."""
    return digest(from_source(text, "Lock"))


def changed(file: Path, old: str, new: str) -> None:
    """Replace a part of a file."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


# ── Digests ─────────────────────────────────────────────────────────────────────────────────


def test_a_digest_is_the_same_in_every_process_and_place(tmp_path: Path) -> None:
    """Neither hash seeds, nor paths, nor what a process did before changes a spec's digest."""
    program = """
import sys
from pathlib import Path
from herdproof.cli.specs import find
from herdspec.check.digest import digest
for other in sys.argv[2:]:
    find(other)
print(digest(find(sys.argv[1]).spec))
"""
    found = set()
    for seed, place in enumerate(("a", "b/c")):
        file = tmp_path / place / "lock.py"
        file.parent.mkdir(parents=True)
        file.write_text("# a comment\n\n" * seed + LOCK)
        before = ["election-drafted"] * seed
        command = [sys.executable, "-c", program, f"{file}:Lock", *before]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout)

    assert len(found) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("require(self.holder is None)", "require(self.holder != c)"),
        ("self.lease[c] = Lease.HELD", "self.lease[c] = Lease.NONE"),
        ("{c} is given the lock.", "{c} gets the lock."),
        ("losses: Nat = 0", "losses: Nat = 1"),
        ("self.losses + 1", "self.losses + 2"),
        ('"held"', '"taken"'),
        ("@action(kind=fault)", "@action(kind=command)"),
        ("kind=fault)", "kind=fault, disturbs=False)"),
        ("def grant(self, c: Client)", "def grant(self, c: Client, d: Client)"),
        ("def grant", "def lend"),
        ('"""A lock."""', '"""Another lock."""'),
    ],
)
def test_whatever_a_spec_says_is_in_its_digest(old: str, new: str) -> None:
    """A change of a guard, an update, a sentence, a type or a mark changes the digest."""
    assert old in LOCK

    assert of_text(LOCK) != of_text(LOCK.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("require(self.holder is None)", "# free?\n        require(self.holder is None)"),
        (
            "all(s.lease[c] != Lease.HELD or s.holder == c for c in Client)",
            "all(s.lease[k] != Lease.HELD or s.holder == k for k in Client)",
        ),
        ("s.holder == c", "c == s.holder"),
    ],
)
def test_what_a_spec_does_not_say_is_not_in_its_digest(old: str, new: str) -> None:
    """Comments, the names of bound variables and the sides of an equality change nothing."""
    assert old in LOCK

    assert of_text(LOCK) == of_text(LOCK.replace(old, new))


def test_bound_variables_are_told_apart() -> None:
    """Two quantifiers over one sort do not digest like one: which variable is meant counts."""
    two = "all({} for c in Client for d in Client)"
    old = "all(s.lease[c] != Lease.HELD or s.holder == c for c in Client)"
    bodies = [f"s.lease[c] == s.lease[d] or s.holder == {v}" for v in ("c", "d")]
    texts = [LOCK.replace(old, two.format(body)) for body in bodies]

    assert len({of_text(text) for text in texts}) == 2


def test_the_sides_of_an_equality_have_no_order() -> None:
    """Which side of an equality a process happened to build first is not in the digest."""
    a, b = g.field("a", BOOL), g.field("b", BOOL)

    assert digest_of(g.node("eq", BOOL, (a, b))) == digest_of(g.node("eq", BOOL, (b, a)))
    assert digest_of(g.node("le", BOOL, (a, b))) != digest_of(g.node("le", BOOL, (b, a)))


def test_what_has_no_stable_digest_is_refused() -> None:
    """An object that prints its address has no digest, rather than a wrong one."""
    with pytest.raises(TypeError, match="no stable digest of object"):
        digest_of(object())


def test_the_digest_of_sources_sees_every_file(tmp_path: Path) -> None:
    """A changed, moved or further file changes what an implementation's checks rest on."""
    found = []
    for number, files in enumerate(({"a.py": "1"}, {"a.py": "2"}, {"b.py": "1"}, {"c/a.py": "1"})):
        for name, text in files.items():
            path = tmp_path / str(number) / name
            path.parent.mkdir(parents=True)
            path.write_text(text)
        found.append(sources(tmp_path / str(number)))

    assert len(set(found)) == 4


def test_runs_of_the_implementation_rest_on_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of the election's implementation have another key when its sources change."""
    rested = [make("x").rests_on for make in election.IMPLEMENTATION.checks]
    before = [key_of(*rests_on()) for rests_on in rested if rests_on is not None]
    monkeypatch.setattr(checks, "sources", lambda _: "changed")
    after = [key_of(*rests_on()) for rests_on in rested if rests_on is not None]

    assert len(before) == len(rested) == 3
    assert not set(before).intersection(after)


# ── What is kept ────────────────────────────────────────────────────────────────────────────


def test_what_is_unchanged_is_not_done_again(lock: Path, asked: list[str]) -> None:
    """The second run asks nothing, says so, and comes to the same table and exit code."""
    first = run("lock.py", "--json", "first.json")
    assert "explore Lock" in asked
    asked.clear()
    lock.write_text("# a comment moves every line\n" + LOCK)

    second = run("lock.py", "--json", "second.json")

    assert (first.exit_code, second.exit_code) == (HOLDS, HOLDS)
    assert asked == []
    assert "(kept)" not in first.stdout
    assert second.stdout.count("(kept)") == 2
    names = ("first.json", "second.json")
    before, now = (json.loads(Path(n).read_text())["protocols"][0]["findings"] for n in names)
    assert now == [finding | {"line": finding["line"] + 1} for finding in before]


def test_of_a_changed_action_only_its_own_obligations_are_proved_again(
    lock: Path, asked: list[str]
) -> None:
    """When one action changes, only what depends on it is done again: not the others' proofs."""
    run("lock.py")
    everything = set(asked)
    asked.clear()
    changed(lock, "self.losses = self.losses + 1", "require(self.holder == c)")

    done = run("lock.py")

    assert done.exit_code == HOLDS
    assert {"the_server_knows grant", "the_server_knows release"} <= everything
    assert asked == ["explore Lock", "the_server_knows lose"]
    assert "obligations (2 kept)" in done.stdout


def test_of_a_change_that_no_promise_is_about_nothing_is_proved_again(
    lock: Path, asked: list[str]
) -> None:
    """An update that no promise reads changes no obligation, though it changes the spec."""
    run("lock.py")
    asked.clear()
    changed(lock, "self.losses + 1", "self.losses + 2")

    done = run("lock.py")

    assert asked == ["explore Lock"]
    assert "obligations (3 kept)" in done.stdout


def test_of_a_changed_promise_everything_that_assumes_it_is_proved_again(
    lock: Path, asked: list[str]
) -> None:
    """When a promise changes, every obligation that has it as a hypothesis is asked again."""
    run("lock.py")
    everything = list(asked)
    asked.clear()
    changed(lock, "s.lease[c] != Lease.HELD or s.holder == c", "s.holder == c or not True")

    done = run("lock.py")

    assert done.exit_code == FAILS
    assert set(everything) <= set(asked)


def test_a_proof_that_holds_no_longer_is_not_believed(lock: Path) -> None:
    """With another update under the same guard, the action's obligations are others."""
    run("lock.py")
    changed(lock, *RETURNED)

    done = run("lock.py")

    assert done.exit_code == FAILS
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("the server knows")]
    assert "✗" in row
    assert "●" not in row


def test_what_was_proved_by_a_lemma_is_asked_again_without_it(lock: Path) -> None:
    """A proof is not believed when one of its hypotheses is gone, though its goal is the same."""
    lock.write_text(LOCK + ONE_HOLDER)
    first = run("lock.py")
    changed(lock, "@always\ndef the_server_knows", "@sometimes\ndef the_server_knows")

    second = run("lock.py")

    assert (first.exit_code, second.exit_code) == (HOLDS, UNKNOWN)
    assert "not inductive: grant" in second.stdout


@pytest.mark.parametrize(
    "options", [["--size", "Client=3"], ["--faults", "1"], ["--no-prove"], ["--fresh"]]
)
def test_other_options_are_other_checks(lock: Path, asked: list[str], options: list[str]) -> None:
    """At another size, or `--fresh`, nothing that was found at the old one is believed."""
    run("lock.py")
    asked.clear()

    run("lock.py", *options)

    assert ("explore Lock" in asked) is (options != ["--no-prove"])


def test_other_checkers_are_asked_again(
    lock: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With other sources of herdspec, or another solver, everything is done again."""
    run("lock.py")
    before = list(asked)
    asked.clear()
    digests.engine.cache_clear()
    monkeypatch.setattr(digests, "installed", lambda library: f"{library} 99.0")
    try:
        run("lock.py")
    finally:
        digests.engine.cache_clear()

    assert asked == before


def test_a_changed_declaration_changes_the_verdict(lock: Path) -> None:
    """What is declared to fail is part of the key: a declaration is never read from the cache."""
    changed(lock, *RETURNED)
    text = lock.read_text()
    codes = []
    for declared in ("", "EXPECTED = {'the_server_knows': Failure(2, 'release')}\n"):
        lock.write_text(text + declared)
        codes.append(run("lock.py").exit_code)

    assert codes == [FAILS, HOLDS]


def test_a_failure_is_kept_with_its_story(lock: Path, asked: list[str]) -> None:
    """A counterexample that was found is told again, in the same words, and still fails."""
    changed(lock, *RETURNED)
    first = run("lock.py", "--no-prove")
    asked.clear()

    second = run("lock.py", "--no-prove")

    assert (first.exit_code, second.exit_code, asked) == (FAILS, FAILS, [])
    assert "2. client1 gives it back.  [release(client1)]" in second.stdout


def test_without_a_cache_nothing_is_read_or_written(lock: Path, asked: list[str]) -> None:
    """`--no-cache` does everything, and leaves no file behind."""
    run("lock.py", "--no-cache")
    run("lock.py", "--no-cache")

    assert asked.count("explore Lock") == 2
    assert not Path(".herdproof").exists()


# ── What is not believed ────────────────────────────────────────────────────────────────────


def truncated(text: str) -> str:
    """Half of a file."""
    return text[: len(text) // 2]


def brightened(text: str) -> str:
    """A file in which a failure was made a pass."""
    assert '"FAILS"' in text
    return text.replace('"FAILS"', '"EXHAUSTED"')


def of_the_future(text: str) -> str:
    """A file of another version."""
    return text.replace('"version": 2', '"version": 3')


@pytest.mark.parametrize(
    "damage",
    [truncated, brightened, of_the_future, lambda _: "[]", lambda _: "\0", lambda _: "[" * 200_000],
)
def test_a_damaged_file_is_left_aside_with_a_note(
    lock: Path, asked: list[str], damage: Callable[[str], str]
) -> None:
    """A file that is not what was written is not believed: the check is done again, and said."""
    changed(lock, *RETURNED)
    run("lock.py", "--no-prove")
    (file,) = Path(".herdproof/cache").iterdir()
    file.write_text(damage(file.read_text()))
    asked.clear()

    done = run("lock.py", "--no-prove")

    assert done.exit_code == FAILS
    assert asked == ["explore Lock"]
    assert f"{file} is left aside" in done.stderr
    assert "is left aside" not in run("lock.py", "--no-prove").stderr, "it was written anew"


def test_a_file_of_another_check_is_not_believed(tmp_path: Path) -> None:
    """A file that was given another's name tells nothing, though it is whole and of one key."""
    cache = Cache(tmp_path)
    cache.keep("explore", "key", Found((found(Mark.EXHAUSTED),), ""))
    cache.path("liveness").write_text(cache.path("explore").read_text())

    assert cache.recall("explore", "key")
    assert cache.recall("liveness", "key") is None


def test_a_cache_that_cannot_be_written_is_said(lock: Path) -> None:
    """Where nothing can be kept, verdicts are the same, and the user is told."""
    Path("kept").write_text("I am a file")

    done = run("lock.py", "--cache", "kept")

    assert done.exit_code == HOLDS
    assert "could not be kept" in done.stderr


def found(mark: Mark, **more: Any) -> Finding:
    """A finding."""
    return Finding(subject="x", row="p", kind="always", mark=mark, bounds="2 lamps", **more)


def test_what_is_unknown_is_asked_again(tmp_path: Path) -> None:
    """An unknown verdict is never kept, also not beside others that are known."""
    asked = []

    def look(_: object) -> Found:
        asked.append("look")
        return Found((found(Mark.PROVED), found(Mark.UNKNOWN)), "")

    plan = Plan("toy", (Check("look", look, lambda: ("it",)),))
    cache = Cache(tmp_path)
    for _ in range(2):
        verify(plan, cache=cache)

    assert asked == ["look", "look"]
    assert cache.notes == [], "it was not even written"


def test_a_check_that_rests_on_who_knows_what_is_never_kept(tmp_path: Path) -> None:
    """A check that does not say what it depends on is done every time."""
    plan = Plan("toy", (Check("look", lambda _: Found((found(Mark.PROVED),), "")),))

    reports = [verify(plan, cache=Cache(tmp_path)) for _ in range(2)]

    assert [r.done[0].kept for r in reports] == [False, False]
    assert list(tmp_path.iterdir()) == []


def test_a_result_comes_back_as_it_went() -> None:
    """Findings, stories and coverage survive being written and read, hostile texts and all."""
    step = StoryStep("a", ("x", "y"), ("y",), 'says "]]>"\n\x00', ("z: 1 → 2",))
    finding = found(
        Mark.FAILS, found=Shown(2, "a"), expected=Shown(3, "b"), story=("1. a", ""), steps=(step,),
        repeats=1, sentence="ß \ud800", note="n",
    )  # fmt: skip
    coverage = Coverage("x", (("a", 3), ("b", 0)), (("a", 4),))
    whole = Found((finding, found(Mark.PROVED)), "m", (coverage, Coverage("y", ())))

    assert result_of(json.loads(json.dumps(result_json(whole)))) == whole


def test_a_file_cannot_say_that_something_is_unknown() -> None:
    """A verdict that could not have been written is refused."""
    kept = json.loads(json.dumps(result_json(Found((found(Mark.PROVED),), ""))))["findings"][0]
    kept["mark"] = "UNKNOWN"

    with pytest.raises(ValueError, match="no mark of a verdict"):
        finding_of(kept)


def test_of_a_refinement_only_what_changed_is_proved_again(asked: list[str]) -> None:
    """The meanings of actions that did not change are not proved again when another one does."""
    left_out = frozenset(AT_ONCE)
    memory = Memory()
    refine_by_proof(REFINEMENT, leave_out=left_out, memory=memory, assume=True)
    everything = list(asked)
    asked.clear()
    other = ELECTION.replace("Other", accepts_write=any_write)

    refine_by_proof(
        replace(REFINEMENT, concrete=other), leave_out=left_out,
        memory=Memory(frozenset(memory.now)), assume=True,
    )  # fmt: skip

    assert len(everything) > 5
    assert asked == ["refines write"]
