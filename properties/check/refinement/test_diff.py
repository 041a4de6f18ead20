"""`diff`: what a change changes in words, verdicts and behaviour, and whether versions mix."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.cli.specs import find
from herdspec.check.exploration.explore import explore
from herdspec.check.refinement.changes import changes, verdicts
from herdspec.check.refinement.diff import Compared, Parts, compare
from herdspec.check.running.run import Machine
from herdspec.check.verdict import Finding, Mark, Standing, explored
from herdspec.engine.ground import Ground
from herdspec.language.surface import Spec
from properties.language.net import NET, ONLY_ONE
from properties.locks import EXPIRES_UNSEEN, GHOST, LOCK, VARIANTS, spec

FAULTY = "@action(kind=fault)\n    def release"
HOLDS, FAILS, NOT_ASKED, UNKNOWN = 0, 1, 2, 3


def compared(old: str, new: str, **options: Any) -> Compared:
    """Two locks compared, with two clients and two faults."""
    return compare(spec(old), spec(new), {"Client": 2}, faults=2, **options)


# ── Behaviour ───────────────────────────────────────────────────────────────────────────────


def test_a_spec_never_parts_from_itself() -> None:
    """A spec and its copy never part, and every pair of states was looked at."""
    found = compared(LOCK, LOCK)

    assert not found.partings
    assert found.exhausted
    assert found.pairs == explore(spec(LOCK), {"Client": 2}, faults=2, symmetry=False).states


def test_what_is_forbidden_now_is_told_with_the_line_that_forbids_it() -> None:
    """The shortest behaviour that only the old one allows ends in the step the new one refuses."""
    found = compared(VARIANTS["unguarded"], LOCK)

    assert set(found.partings) == {Parts.OLD_ALONE}
    parting = found.partings[Parts.OLD_ALONE]
    assert [s.label for s in parting.steps] == ["grant(client1)", "grant(client1)"]
    line = LOCK.splitlines().index("        require(self.free())") + 1
    assert parting.why[0].startswith("the new one refuses it: require(self.free())")
    assert f":{line}]" in parting.why[0]
    assert parting.why[1] == "self.holder is None does not hold: holder is client1"


def test_what_is_allowed_now_is_told_the_other_way_round() -> None:
    """What only the new one allows is told as its behaviour."""
    found = compared(LOCK, VARIANTS["unguarded"])

    assert set(found.partings) == {Parts.NEW_ALONE}
    assert found.partings[Parts.NEW_ALONE].why[0].startswith("the old one refuses it")


def test_another_effect_is_told_with_both_values() -> None:
    """A step that both allow, and that does something else, names the entry and both values."""
    found = compared(LOCK, EXPIRES_UNSEEN)

    assert set(found.partings) == {Parts.EFFECT}
    parting = found.partings[Parts.EFFECT]
    assert [s.label for s in parting.steps] == ["grant(client1)", "expire(client1)"]
    assert parting.why == ("lease[client1] becomes stale in the old one, held in the new one",)


def test_another_start_is_told() -> None:
    """Where they start differently, that is all there is to say."""
    found = compared(LOCK, VARIANTS["starts as held"])

    assert set(found.partings) == {Parts.START}
    assert found.partings[Parts.START].why[0] == (
        "lease[client1] starts as none in the old one, held in the new one"
    )


def plain_depths(old: str, new: str) -> dict[Parts, int]:
    """The oracle: partings by a breadth-first search in plain Python, one state at a time."""
    machines = [Machine(Ground(spec(text), {"Client": 2}, 3, 2)) for text in (old, new)]
    initial = tuple(m.initial() for m in machines)
    if alike(machines, initial) is False:
        return {Parts.START: 0}
    found: dict[Parts, int] = {}
    none = (0, 0)
    level, seen, depth = [(initial, none)], {(key(machines, initial), none)}, 0
    while level:
        depth += 1
        after = []
        for states, taken in level:
            for way, made, cost in both_steps(machines, states, taken):
                if way is not None:
                    found.setdefault(way, depth)
                elif (key(machines, made), cost) not in seen:
                    seen.add((key(machines, made), cost))
                    after.append((made, cost))
        level = after
    return found


def both_steps(
    machines: list[Machine], states: tuple[Spec, ...], faults: tuple[int, int]
) -> Iterator[tuple[Parts | None, tuple[Spec, ...], tuple[int, int]]]:
    """Each step from a pair of states: how it parts them, or where it leads both."""
    for action, arguments in machines[0].choices:
        twin = machines[1].spec.action(action.name)
        cost = faults[0] + action.disturbs, faults[1] + twin.disturbs
        may = cost[0] <= 2, cost[1] <= 2
        numbers = [a.index for a in arguments]
        made = [
            m.take(s, action.name, tuple(m.elements("Client")[n] for n in numbers))
            for m, s in zip(machines, states, strict=True)
        ]
        match made:
            case [None, None]:
                continue
            case [_, None]:
                yield from [(Parts.OLD_ALONE, states, cost)] * may[0]
            case [None, _]:
                yield from [(Parts.NEW_ALONE, states, cost)] * may[1]
            case _ if may[0] != may[1]:
                yield Parts.BUDGET, states, cost
            case _ if all(may):
                pair = tuple(s for s in made if s is not None)
                yield (None if alike(machines, pair) else Parts.EFFECT), pair, cost


def key(machines: list[Machine], states: tuple[Spec, ...]) -> tuple[tuple[int, ...], ...]:
    """A pair of states as numbers."""
    return tuple(m.numbers(s) for m, s in zip(machines, states, strict=True))


def alike(machines: list[Machine], states: tuple[Spec, ...]) -> bool:
    """Whether two states are the same."""
    return len(set(key(machines, states))) == 1


UNCOUNTED = LOCK.replace("@action(kind=fault)", "@action")
MARKED = {
    **VARIANTS,
    "expires by itself": UNCOUNTED,
    "gives back by mistake": LOCK.replace("@action\n    def release", FAULTY),
}


@pytest.mark.parametrize(("old", "new"), [*permutations(MARKED, 2)])
def test_partings_are_those_of_a_search_in_plain_python(old: str, new: str) -> None:
    """Every parting, and its length, is what a search of the plain Python finds."""
    found = compared(MARKED[old], MARKED[new])

    lengths = {kind: len(parting.steps) for kind, parting in found.partings.items()}
    expected = plain_depths(MARKED[old], MARKED[new])
    if not found.truncated or len(expected) < 3:
        assert lengths == expected
    assert found.exhausted or set(found.partings) >= set(expected) - {Parts.BUDGET}


def test_an_action_that_changes_only_what_is_new_is_no_difference() -> None:
    """Steps of an added action that change nothing of what both have are not held against it."""
    found = compared(LOCK, GHOST)

    assert not found.partings
    assert found.exhausted
    assert found.alone == ("ask",)


def test_an_action_that_is_gone_is_missed() -> None:
    """A dropped action is a behaviour that only the old one allows."""
    dropped = spec(LOCK).drop("Short", "expire")

    found = compare(spec(LOCK), dropped, {"Client": 2}, faults=2)

    assert found.partings[Parts.OLD_ALONE].why == ("the new one has no expire",)


def test_an_action_that_takes_other_arguments_is_another_action() -> None:
    """A changed parameter is told as what it is."""
    text = LOCK.replace("def release(self, c: Client)", "def release(self, c: Client, f: bool)")

    found = compared(LOCK, text)

    why = "the new one has no such release: it takes other arguments"
    assert found.partings[Parts.OLD_ALONE].why == (why,)


def test_a_comparison_that_is_cut_short_says_so() -> None:
    """At the limit of pairs nothing is said of the rest."""
    found = compared(LOCK, LOCK, pairs=3)

    assert found.truncated
    assert not found.exhausted
    assert "cut short" in found.line


def test_specs_with_everything_the_language_has_are_compared() -> None:
    """Channels, records, sets, parts and several starts are compared entry by entry."""
    found = compare(NET, ONLY_ONE, {"Client": 2}, faults=0)

    assert set(found.partings) == {Parts.EFFECT, Parts.OLD_ALONE}
    assert found.partings[Parts.EFFECT].why == (
        "last becomes client1 in the old one, client2 in the new one",
    )
    assert compare(NET, NET, {"Client": 2}, faults=0).exhausted


# ── Words and verdicts ──────────────────────────────────────────────────────────────────────


def test_a_change_is_told_in_the_specs_words() -> None:
    """Added and dropped parts, and the lines of what changed, are listed."""
    new = GHOST.replace("return self.holder is None", "return True")
    new = new.replace("def somebody_holds_it", "def it_is_held")

    told = changes(spec(LOCK), spec(new))

    assert told == [
        "1 field added: asked",
        "1 action added: ask",
        "action grant:",
        "    does something else through free",
        "helper free:",
        "    -     return self.holder is None",
        "    +     return True",
        "1 property dropped: somebody_holds_it",
        "1 property added: it_is_held",
    ]


def test_words_that_mean_the_same_are_no_change() -> None:
    """A guard that moves out of its helper, and a bound name, change nothing."""
    new = LOCK.replace("require(self.free())", "require(self.holder is None)")
    new = new.replace("for c in Client)", "for d in Client)").replace(
        "any(s.lease[c]", "any(s.lease[d]"
    )

    assert changes(spec(LOCK), spec(new)) == [
        "action grant:",
        "    is written otherwise, and means the same",
    ]


def test_kinds_types_and_starts_are_told() -> None:
    """Another kind, another type and another start are named."""
    new = LOCK.replace("@action(kind=fault)", "@action(kind=command)")
    new = new.replace(
        "holder: Client | None = None", "holder: Client | None = None\n    n: Nat = 1"
    )
    newer = new.replace("n: Nat = 1", "n: bool = True")

    assert "    is command, was fault" in changes(spec(LOCK), spec(new))
    assert "field n is bool, was Nat" in changes(spec(new), spec(newer))
    assert "field n starts as 2, not as 1" in changes(
        spec(new), spec(new.replace("n: Nat = 1", "n: Nat = 2"))
    )


def findings(text: str) -> list[Finding]:
    """What an exploration finds of a lock."""
    return explored("lock", explore(spec(text), {"Client": 2}, faults=2), {})


def test_a_verdict_gets_worse_and_better() -> None:
    """A property that fails now got worse; seen from there, it got better."""
    good, bad = findings(LOCK), findings(VARIANTS["unguarded"])

    worse = {c.row: c.standing for c in verdicts(good, bad) if c.changed}
    better = {c.row: c.standing for c in verdicts(bad, good) if c.changed}

    assert worse["one_holder"] is Standing.FAILS
    assert better["one_holder"] is Standing.HOLDS


def test_a_promise_that_is_gone_got_worse_and_a_lemma_did_not() -> None:
    """Who promises no more what held has got worse, but for lemmas; what failed is not missed."""
    held = Finding(subject="", row="p", kind="always", mark=Mark.EXHAUSTED, bounds="")
    lemma = Finding(subject="", row="l", kind="lemma", mark=Mark.EXHAUSTED, bounds="")
    failed = Finding(subject="", row="f", kind="always", mark=Mark.FAILS, bounds="")
    vague = Finding(subject="", row="u", kind="always", mark=Mark.UNKNOWN, bounds="")

    gone = {c.row: c.standing for c in verdicts([held, lemma, failed], [])}
    came = {c.row: c.standing for c in verdicts([], [held, failed, vague])}

    assert gone == {"p": Standing.FAILS, "l": Standing.HOLDS, "f": Standing.HOLDS}
    assert came == {"p": Standing.HOLDS, "f": Standing.FAILS, "u": Standing.UNKNOWN}


# ── The command ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def locks(tmp_path: Path) -> tuple[str, str]:
    """The lock, and the lock without its guard, each in a file."""
    for name, text in (("old", LOCK), ("new", VARIANTS["unguarded"])):
        (tmp_path / f"{name}.py").write_text(text)
    return f"{tmp_path}/old.py:Lock", f"{tmp_path}/new.py:Lock"


def run(*arguments: str | Path) -> tuple[int, str]:
    """Run a command; its exit code and all it printed."""
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    return done.exit_code, done.output


def test_a_verdict_that_got_worse_ends_with_1(locks: tuple[str, str], tmp_path: Path) -> None:
    """The command lists words, verdicts and behaviour, and ends with 1 where one got worse."""
    code, told = run("diff", *locks, "--json", tmp_path / "out.json")

    assert code == FAILS
    assert "does something else through free" in told
    assert "Allowed by the new one only, 2 steps:" in told
    assert "A verdict got worse." in told
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["behaviour"]["partings"]["new_alone"]["steps"] == ["grant(client1)"] * 2


def test_a_verdict_that_got_better_ends_with_0(locks: tuple[str, str]) -> None:
    """The other way round nothing got worse."""
    code, told = run("diff", *reversed(locks))

    assert code == HOLDS
    assert "No verdict got worse." in told


def test_no_difference_is_a_verdict(locks: tuple[str, str]) -> None:
    """A spec beside itself says the same, holds the same and does the same."""
    code, told = run("diff", locks[0], locks[0])

    assert code == HOLDS
    assert "They say the same." in told
    assert "they allow the same behaviour at this size" in told


def test_what_is_unknown_ends_with_3(tmp_path: Path) -> None:
    """What can be recovered is undecided where numbers were cut, and so is the comparison."""
    text = (
        "from herdspec import *\nclass C(Spec):\n    '''It counts.'''\n    n: Nat = 0\n"
        "    @action\n    def tick(self) -> None:\n        '''Tick.'''\n        self.n += 1\n"
        "@recoverable\ndef zero(s: C) -> bool:\n    '''Zero.'''\n    return s.n == 0\n"
    )
    (tmp_path / "c.py").write_text(text)

    code, told = run("diff", tmp_path / "c.py", tmp_path / "c.py")

    assert code == UNKNOWN
    assert "beyond a bound (naturals, a channel) left out" in told
    assert "whether there is one is not known" in told


def test_upgrade_without_together_is_refused(locks: tuple[str, str]) -> None:
    """An option without its meaning is refused."""
    assert run("diff", *locks, "--upgrade", "Client")[0] == NOT_ASKED
    assert run("diff", *locks, "--size", "Broker=3")[0] == NOT_ASKED


# ── git ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a lock of two commits, whose type stands in a file beside it."""
    head, rest = LOCK.split("class Lock(Spec)")
    (tmp_path / "kinds.py").write_text(head)
    (tmp_path / "lock.py").write_text(f"from kinds import *\nclass Lock(Spec){rest}")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    unguarded = (tmp_path / "lock.py").read_text().replace("self.holder is None", "True")
    (tmp_path / "lock.py").write_text(unguarded)
    (tmp_path / "kinds.py").write_text(head.replace("    STALE", "    LOST = 2\n    STALE"))
    return tmp_path


def test_a_file_is_compared_with_what_it_was(repository: Path) -> None:
    """`git:HEAD:` is the file as it was committed, with the neighbours that it had."""
    lock = repository / "lock.py"

    code, told = run("diff", f"git:HEAD:{lock}:Lock", f"{lock}:Lock")

    assert code == FAILS
    assert "helper free:" in told
    assert "field lease has the members NONE, HELD, LOST, STALE, had NONE, HELD, STALE" in told


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("git:HEAD", "write git:REVISION:path/to/file.py:ClassName"),
        ("git:nowhere:{}/lock.py:Lock", "git ls-tree in"),
        ("git:HEAD:{}/gone.py:Lock", "there is no gone.py in"),
        ("git:HEAD:{}/gone/lock.py:Lock", "there is no folder"),
    ],
)
def test_what_git_cannot_give_is_one_sentence(repository: Path, name: str, said: str) -> None:
    """A revision or file that is not there is refused with what git says."""
    code, told = run("diff", name.format(repository), f"{repository}/lock.py:Lock")

    assert code == NOT_ASKED
    assert said in told


def test_two_files_of_one_name_are_two_specs(repository: Path) -> None:
    """The sorts and enums of a file of the same name elsewhere are not mistaken for its own."""
    other = repository / "other"
    other.mkdir()
    (other / "lock.py").write_text(LOCK)

    a, b = (find(f"{path}:Lock").spec for path in (repository / "lock.py", other / "lock.py"))

    assert a.state.__module__ != b.state.__module__
