"""`herdproof prove` and `herdproof search`: what they print, write, and exit with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from herdspec.check.proof import smtlib
from properties.cli.test_cli import FAILS, HOLDS, NOT_ASKED, UNKNOWN, run

HERE = Path(__file__).parents[1]
LOCK = f"{HERE / 'published' / 'exclusion' / 'mypyvy_lockserv.py'}:LOCK_SERVICE"
ALONE = f"{HERE / 'published' / 'exclusion' / 'mypyvy_lockserv.py'}:ALONE"
COUNTER = f"{HERE / 'specs.py'}:Counter"
CHANNELS = f"{HERE / 'language' / 'test_channels.py'}:LOCK"

# ── prove ───────────────────────────────────────────────────────────────────────────────────


def test_lemmas_are_suggested(tmp_path: Path) -> None:
    """What is not inductive fails, with what would exclude the state, and lemmas to paste."""
    file = tmp_path / "found.json"
    done = run("prove", ALONE, "--suggest", "--json", file)

    assert done.exit_code == UNKNOWN
    assert "not inductive: recv_grant" in done.stdout
    assert "a lemma would exclude the state before" in done.stdout
    assert "With these lemmas it is proved" in done.stdout
    assert "def suggested_8(s: LockService) -> bool:" in done.stdout
    found = json.loads(file.read_text())
    assert found["suggestion"]["found"]
    assert len(found["suggestion"]["conjuncts"]) == 8


def test_no_lemmas_are_said_not_to_be_found() -> None:
    """For a broken promise no lemmas are found, and that is said."""
    done = run("prove", COUNTER, "--suggest")

    assert done.exit_code == FAILS
    assert "No lemmas were found" in done.stdout


def test_what_each_lemma_is_needed_for_is_told(tmp_path: Path) -> None:
    """Each invariant is left out once, and what fails without it is listed."""
    file = tmp_path / "needed.json"
    done = run("prove", LOCK, "--leave-one-out", "--json", file)

    assert done.exit_code == HOLDS
    assert "is not inductive" in done.stdout
    assert json.loads(file.read_text())["needed_for"]["mutex"] == ["held_or_returned"]


def test_obligations_are_written_and_asked_again(tmp_path: Path) -> None:
    """Obligations are written to files, and cvc5 agrees with z3 on each of them."""
    done = run("prove", LOCK, "--export", tmp_path / "out", "--recheck")

    assert done.exit_code == HOLDS
    written = list((tmp_path / "out").glob("*.smt2"))
    assert f"{len(written)} obligations were written" in done.stdout
    assert "cvc5: ●" in done.stdout


def test_a_disagreement_of_the_solvers_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where cvc5 says otherwise than z3, the command fails and names the obligation."""
    monkeypatch.setattr(smtlib, "answer", lambda *_: "sat")
    done = run("prove", LOCK, "--recheck")

    assert done.exit_code == FAILS
    assert "cvc5 and z3 differ on" in done.stdout


def test_what_the_second_solver_gives_up_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where cvc5 cannot tell, the answer is unknown, and exits with 3."""
    monkeypatch.setattr(smtlib, "answer", lambda *_: "unknown")

    assert run("prove", LOCK, "--recheck").exit_code == UNKNOWN


def test_an_abstract_order_is_said(tmp_path: Path) -> None:
    """A proof over any total order says so; where it fails, what to try instead."""
    file = tmp_path / "proof.json"
    done = run("prove", LOCK, "--abstract-order", "--json", file)
    failing = run("prove", COUNTER, "--abstract-order")

    assert done.exit_code == HOLDS
    assert "● one or more nodes, naturals as any total order" in done.stdout
    assert json.loads(file.read_text())["abstract_order"]
    assert failing.exit_code == FAILS
    assert "try again without --abstract-order" in failing.stdout


def test_a_proof_over_channels_says_what_they_are() -> None:
    """Channels are sets of messages to a proof, which is said beside the verdict."""
    done = run("prove", CHANNELS)

    assert done.exit_code == HOLDS
    assert "one or more clients and messages in flight" in done.stdout
    assert "● one or more clients and messages in flight, channels as sets" in done.stdout


# ── search ──────────────────────────────────────────────────────────────────────────────────


def test_a_violation_is_found_and_told(tmp_path: Path) -> None:
    """The shortest run that breaks a promise is told, and the command fails."""
    file = tmp_path / "found.json"
    done = run("search", COUNTER, "--depth", "3", "--json", file)

    assert done.exit_code == FAILS
    assert "✗ 2 steps" in done.stdout
    assert 'Counter, broken: "It never counts above one (it does)."' in done.stdout
    found = {f["property"]: f["found"] for f in json.loads(file.read_text())["findings"]}
    assert found["never_above_one"] == {"steps": 2, "last": "tick"}
    assert found["never_above_three"] is None


def test_nothing_found_is_no_proof() -> None:
    """Where nothing is found, the last line says within how many steps, and no more."""
    done = run("search", LOCK, "--depth", "4", "--property", "mutex")

    assert done.exit_code == HOLDS
    assert done.stdout.splitlines()[-1] == (
        "Nothing was found within 4 steps (no longer run was tried)."
    )


def test_a_search_that_is_given_up_is_unknown() -> None:
    """Where z3 gives up, the command exits with 3."""
    done = run("search", LOCK, "--depth", "4", "--resources", "10")

    assert done.exit_code == UNKNOWN
    assert "z3 gave up" in done.stdout


def test_a_declared_failure_is_expected() -> None:
    """A failure that is declared of a flaw passes."""
    name = "a node is taken for its own session only"
    done = run("search", "election/mine_by_data", "--depth", "9", "--property", name)

    assert done.exit_code == HOLDS
    assert "✗ 9 steps (expected)" in done.stdout
    assert "It fails as declared." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["search", COUNTER], "Missing option '--depth'"),
        (["search", COUNTER, "--depth", "2", "--property", "no such"], "its properties"),
        (["search", COUNTER, "--depth", "2", "--property", "it gets to three"], "no @always"),
        (["prove", LOCK, "--export", __file__], "is no directory"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], words: str) -> None:
    """What cannot be asked is told in a sentence, with exit code 2."""
    done = run(*arguments)

    assert done.exit_code == NOT_ASKED
    assert words in done.stderr
