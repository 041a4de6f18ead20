"""`verify` of specs of one's own: a plan for any file, and what the file declares of its specs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from herdproof.cli import app
from properties.check.test_cache import LOCK, ONE_HOLDER, RETURNED, changed

HOLDS, FAILS, NOT_ASKED, UNKNOWN = 0, 1, 2, 3

VARIANT = '''
LOCK = specification(Lock, the_server_knows, somebody_holds_it)

def keep(self: Lock, c: Client) -> None:
    """{c} gives it back, and goes on."""
    require(self.lease[c] == Lease.HELD)
    self.holder = None

CARELESS = LOCK.replace("Careless", release=keep)
'''
LIVE = '''
@eventually
def somebody_gets_it(s: Lock) -> bool:
    """Somebody comes to hold it."""
    return any(s.lease[c] == Lease.HELD for c in Client)
'''


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec in a file, in the directory in which commands are called."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "lock.py"
    file.write_text(LOCK)
    return file


def run(*arguments: str | Path) -> Result:
    """Run `verify` in this process."""
    return CliRunner().invoke(app, ["verify", "--no-cache", *(str(a) for a in arguments)])


def findings(*arguments: str | Path) -> list[dict[str, Any]]:
    """What is found of each property."""
    run(*arguments, "--json", "o.json")
    found: list[dict[str, Any]] = json.loads(Path("o.json").read_text())["protocols"][0]["findings"]
    return found


# ── The plan ────────────────────────────────────────────────────────────────────────────────


def test_a_spec_is_explored_and_proved(lock: Path) -> None:
    """Without a word of configuration, a file's spec is explored at 2 × 2 and proved."""
    marks = {(f["property"], f["mark"], f["bounds"]) for f in findings("lock.py")}

    assert ("the_server_knows", "exhausted", "2 clients, 2 faults") in marks
    assert ("the_server_knows", "proved", "one or more clients") in marks
    assert "prove Lock" not in run("lock.py", "--no-prove").stdout


def test_every_finding_says_where_its_property_stands(lock: Path) -> None:
    """The JSON holds the file and the line of each property."""
    (found, *_) = [f for f in findings("lock.py") if f["property"] == "somebody_holds_it"]

    assert found["file"] == "lock.py"
    assert "def somebody_holds_it" in lock.read_text().splitlines()[found["line"] - 1]


def test_all_specs_of_a_file_stand_side_by_side(lock: Path) -> None:
    """A file's variants are compared in one table; a class is left out if a spec is made of it."""
    lock.write_text(LOCK + VARIANT)

    subjects = {f["subject"] for f in findings("lock.py")}
    only = {f["subject"] for f in findings("lock.py:CARELESS")}

    assert (subjects, only) == ({"LOCK", "CARELESS"}, {"CARELESS"})


def test_what_must_happen_is_judged_where_it_is_promised(lock: Path) -> None:
    """A promise of liveness is judged; its lasso is a failure that is drawn as going on."""
    lock.write_text(LOCK + LIVE)

    unfair = run("lock.py", "--html", "o.html")
    changed(lock, "@action\n    def grant", "@action(fair=weak)\n    def grant")
    fair = run("lock.py")

    assert (unfair.exit_code, fair.exit_code) == (FAILS, HOLDS)
    assert "somebody gets it" in unfair.stdout
    assert "under weak fairness of grant" in fair.stdout
    assert "nothing more happens: grant(client1)" in Path("o.html").read_text()


def test_what_goes_on_for_ever_is_drawn_as_such(lock: Path) -> None:
    """A promise that fair steps put off for ever fails, and the page frames what recurs."""
    lock.write_text(
        LOCK + LIVE.replace("any(s.lease[c] == Lease.HELD for c in Client)", "s.losses > 0")
    )
    for name in ("grant", "release"):
        changed(lock, f"@action\n    def {name}", f"@action(fair=weak)\n    def {name}")

    done = run("lock.py", "--html", "o.html")

    assert done.exit_code == FAILS
    assert "and now for ever:" in done.stdout
    assert '<rect class="loop"' in Path("o.html").read_text()


def test_a_mistake_that_nobody_notices_is_told(lock: Path) -> None:
    """With `--mutate`, mistakes that no property notices are failures, each with its line."""
    done = run("lock.py", "--mutate", "--size", "Client=2")

    assert done.exit_code == FAILS
    assert "mistakes are noticed" in done.stdout
    assert "no property" in done.stdout
    assert "(line " in done.stdout


def test_what_the_prover_refuses_is_unknown(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the prover refuses a spec, the rest is checked, and the exit code is 3."""
    from herdspec import UsageError
    from herdspec.check.proof import prove

    def refuse(*_: object, **__: object) -> None:
        raise UsageError("no proof of sums")

    monkeypatch.setattr(prove, "prove", refuse)

    done = run("lock.py")

    assert done.exit_code == UNKNOWN
    assert "no proof of sums (or leave the proof out: --no-prove)" in done.stdout
    assert "○ 2 clients, 2 faults" in done.stdout
    assert run("lock.py", "--no-prove").exit_code == HOLDS


def test_options_of_ones_own_do_not_go_with_a_protocol() -> None:
    """A protocol has its plan: sizes of one's own are refused, with what to do."""
    done = run("election", "--size", "Broker=3")

    assert done.exit_code == NOT_ASKED
    assert "herdproof explore election" in done.stderr


def test_to_keep_and_not_to_keep_are_refused_together(lock: Path) -> None:
    """`--fresh` with `--no-cache` contradicts itself."""
    done = run("lock.py", "--fresh")

    assert done.exit_code == NOT_ASKED
    assert "--fresh" in done.stderr


def test_two_saves_within_a_second_are_not_taken_for_one(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text as long as the last one, saved in the same second, is read, whatever Python kept."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    codes = []
    for declared in ("3, 'release'", "2, 'release'", "2, 'grant'  "):
        text = LOCK.replace(*RETURNED)
        lock.write_text(f"{text}\nEXPECTED = {{'the_server_knows': Failure({declared})}}\n")
        os.utime(lock, (1_000_000_000, 1_000_000_000))
        codes.append(run("lock.py", "--no-prove").exit_code)

    assert codes == [FAILS, HOLDS, FAILS]


# ── What a file declares ────────────────────────────────────────────────────────────────────


def test_a_failure_as_the_file_declares_it_is_a_pass(lock: Path) -> None:
    """A declared failure must come just so; a missing, different or further one fails."""
    changed(lock, *RETURNED)
    text = lock.read_text()
    codes = {}
    for declared in ("2, 'release'", "3, 'release'", "2, 'grant'"):
        lock.write_text(f"{text}\nEXPECTED = {{'the_server_knows': Failure({declared})}}\n")
        codes[declared] = run("lock.py").exit_code

    assert codes == {"2, 'release'": HOLDS, "3, 'release'": FAILS, "2, 'grant'": FAILS}
    assert run("lock.py", "--size", "Client=3").exit_code == HOLDS, "declared for another size"
    lock.write_text(LOCK + "\nEXPECTED = {'the_server_knows': Failure(2, 'release')}\n")
    assert run("lock.py").exit_code == FAILS, "the failure is missing"
    lock.write_text(text + ONE_HOLDER + "EXPECTED = {'the_server_knows': Failure(2, 'release')}\n")
    assert run("lock.py").exit_code == FAILS, "another property fails, too"


def test_a_failure_is_declared_of_one_of_several_specs(lock: Path) -> None:
    """In a file of several specs each has declarations of its own, by its name."""
    declared = "EXPECTED = {'CARELESS': {'the_server_knows': Failure(2, 'release')}}\n"
    lock.write_text(LOCK + VARIANT + declared)

    assert run("lock.py").exit_code == HOLDS
    assert run("lock.py:CARELESS").exit_code == HOLDS
    assert run("lock.py:LOCK").exit_code == HOLDS


def test_the_size_is_what_the_file_says(lock: Path) -> None:
    """`SIZES` and `FAULTS` say at which size a spec is explored, unless the command does."""
    lock.write_text(LOCK + "SIZES = {'Client': 1}\nFAULTS = 3\n")

    assert "explore Lock: 1 client, 3 faults" in run("lock.py").stdout
    assert "explore Lock: 4 clients, 3 faults" in run("lock.py", "--size", "Client=4").stdout
    assert "explore Lock: 1 client, 0 faults" in run("lock.py", "--faults", "0").stdout


def test_a_spec_may_end_if_its_file_says_so(lock: Path) -> None:
    """A state without a next step fails, is declared, or is allowed by `MAY_END`."""
    changed(
        lock, "self.lease[c] = Lease.NONE\n        self.holder = None", "self.lease[c] = Lease.NONE"
    )
    text = lock.read_text()
    declared = "EXPECTED = {'there is always a next step': Failure(2, 'release')}\n"
    codes = []
    for more in ("", "MAY_END = True\n", declared):
        lock.write_text(text + more)
        codes.append(run("lock.py", "--no-prove").exit_code)

    assert codes == [FAILS, HOLDS, HOLDS]


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("EXPECTED = {'the_sever_knows': Failure(2, 'release')}", "did you mean the_server_knows"),
        ("EXPECTED = {'the_server_knows': Failure(2, 'relaese')}", "an action of Lock: grant"),
        ("EXPECTED = {'the_server_knows': 2}", "write Failure(steps, last)"),
        ("EXPECTED = ['the_server_knows']", "write {"),
        ("SIZES = {'Client': 0}", "a whole number of at least 1"),
        ("SIZES = 3", "number of its elements"),
        ("SIZES = {'Clinet': 3}", "SIZES names 'Clinet'; the sorts of the file: Client"),
        ("EXPECTED = {'Lokc': {}}", "EXPECTED names 'Lokc'; write the name of a spec"),
        ("FAULTS = 'two'", "a whole number of at least 0"),
        ("FAULTS = True", "a whole number of at least 0"),
    ],
)
def test_a_wrong_declaration_is_refused(declared: str, said: str, lock: Path) -> None:
    """A declaration that means nothing is refused with the file, what is wrong, what to write."""
    lock.write_text(f"{LOCK}\n{declared}\n")

    done = run("lock.py")

    assert done.exit_code == NOT_ASKED
    assert said in done.stderr
    assert f"lock.py: {declared.partition(' ')[0]}" in done.stderr


def test_a_file_without_a_spec_is_refused(lock: Path) -> None:
    """A file that defines no spec is told what to define."""
    lock.write_text("x = 1\n")

    done = run("lock.py")

    assert done.exit_code == NOT_ASKED
    assert "lock.py holds no spec" in done.stderr
