"""Obligations as SMT-LIB 2 files, and what a second solver says of them."""

from __future__ import annotations

import builtins
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
import z3

from herdspec import (
    Nat,
    Sort,
    Spec,
    Specification,
    UpTo,
    UsageError,
    action,
    always,
    each,
    require,
    specification,
)
from herdspec.check.proof import smtlib
from herdspec.check.proof.prove import Proof, Prover, SolverAnswer, prove, prover_of
from herdspec.check.verdict import Mark
from properties.group_spec import GROUP
from properties.published.agreement.mypyvy_paxos import PAXOS
from properties.specs import LOCK_SERVER, TWO_PHASE_COMMIT, LockServer, one_client_at_a_time


class Shop(Sort):
    """A place to buy things."""


class Stock(Spec):
    """Fields of every type, some with the names of a solver's own functions."""

    select: dict[tuple[Shop, bool], Annotated[Nat, UpTo(2)]] = each(0)
    value: Nat | None = None
    mod: Shop | None = None
    best: dict[Shop, Shop | None] = each(None)
    open: dict[Shop, bool | None] = each(None)

    @action
    def buy(self, a: Shop, b: Shop, best: bool) -> None:
        """{a} buys from {b}."""
        require(self.select[a, best] < 2 and self.open[b] is None)
        self.select[a, best] = self.select[a, best] + 1
        self.value = 0
        self.mod = a
        self.best[a] = b
        self.open[b] = best


@always
def nothing_is_negative(s: Stock) -> bool:
    """No stock is above two, and who has a best shop has bought there."""
    return all(s.select[a, True] <= 2 and s.select[a, False] <= 2 for a in Shop) and (
        s.mod is None or s.value is not None
    )


@always
def the_best_are_open(s: Stock) -> bool:
    """Whoever is somebody's best has been open or closed."""
    return all(s.best[a] != b or s.open[b] is not None for a in Shop for b in Shop)


STOCK = specification(Stock, nothing_is_negative, the_best_are_open)
SPECS = {
    "lock server": LOCK_SERVER,
    "bare lock server": specification(LockServer, one_client_at_a_time),
    "two-phase commit": TWO_PHASE_COMMIT,
    "paxos": PAXOS,
    "stock": STOCK,
}


def both(spec: Specification, *, order: bool = False) -> tuple[Prover, Proof]:
    """A proof, and the prover that knows its questions."""
    return prover_of(spec.for_proof, order=order), prove(spec, order=order)


@pytest.mark.parametrize("name", SPECS)
def test_a_second_solver_agrees(name: str) -> None:
    """Of each obligation cvc5 says what z3 says, proved or refuted; it gives up on none."""
    prover, proof = both(SPECS[name])
    seconds = smtlib.recheck(prover, proof)
    finding = smtlib.agreed(name, proof, seconds)

    assert seconds
    assert all(s.agrees for s in seconds), [s.script.name for s in seconds if not s.agrees]
    assert finding.mark is Mark.PROVED
    wanted = {"proved": "unsat", "fails": "sat"}
    assert {s.answer for s in seconds} == {wanted[s.script.expected.value] for s in seconds}


def test_a_second_solver_agrees_on_abstract_orders() -> None:
    """Obligations over an abstract order are understood, and answered alike."""
    prover, proof = both(STOCK, order=True)

    assert all(s.agrees for s in smtlib.recheck(prover, proof))


@pytest.mark.long
def test_a_second_solver_agrees_on_the_group() -> None:
    """Of all obligations of the large group protocol cvc5 says what z3 says."""
    prover, proof = both(GROUP)

    assert all(s.agrees for s in smtlib.recheck(prover, proof))


# ── Files ───────────────────────────────────────────────────────────────────────────────────


def test_each_obligation_is_a_file_of_its_own(tmp_path: Path) -> None:
    """Each file names what it is about, and z3 reads it and comes to the same answer."""
    prover, proof = both(SPECS["bare lock server"])
    written = smtlib.export(prover, proof, tmp_path / "obligations")

    asked = [q for q in prover.questions() if not q.is_trivial]
    assert len({path.name for path in written}) == len(written) == len(asked)
    (failing,) = [p for p in written if p.name == "one_client_at_a_time__take.smt2"]
    text = failing.read_text(encoding="utf-8")
    assert text.startswith("; LockServer: one_client_at_a_time, after take.\n")
    assert "; At most one client holds the lock." in text
    assert "(set-info :status sat)" in text
    for path in written:
        solver = z3.Solver(ctx=z3.Context())
        solver.from_file(str(path))
        said = f"(set-info :status {solver.check()})"
        assert said in path.read_text(encoding="utf-8"), path.name


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    """Writing to a file's name is a usage error that names it."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    prover, proof = both(LOCK_SERVER)

    with pytest.raises(UsageError, match="file is no directory"):
        smtlib.export(prover, proof, tmp_path / "file")


# ── It can fail ─────────────────────────────────────────────────────────────────────────────


def test_an_obligation_that_z3_took_for_proved_is_noticed() -> None:
    """A planted "proved" that is wrong is a disagreement, and fails with the obligation's name."""
    prover, proof = both(SPECS["bare lock server"])
    proof.obligations = [replace(o, outcome=SolverAnswer.PROVED) for o in proof.obligations]
    seconds = smtlib.recheck(prover, proof)
    finding = smtlib.agreed("lock", proof, seconds)

    assert [s.script.name for s in seconds if s.agrees is False] == [
        "one_client_at_a_time__take.smt2"
    ]
    assert finding.mark is Mark.FAILS
    assert "one_client_at_a_time__take" in finding.note


def test_what_the_second_solver_gives_up_is_said() -> None:
    """With hardly any resources cvc5 gives up, and that is neither agreement nor an error."""
    prover, proof = both(PAXOS)
    seconds = smtlib.recheck(prover, proof, limit=1)
    finding = smtlib.agreed("paxos", proof, seconds)

    assert {s.answer for s in seconds} == {"unknown"}
    assert finding.mark is Mark.UNKNOWN
    assert finding.note.startswith("cvc5 or z3 gave up on")


def test_a_text_that_is_no_script_is_refused() -> None:
    """What cvc5 cannot read is an error that quotes it."""
    with pytest.raises(UsageError, match="cvc5 does not understand an obligation"):
        smtlib.answer("(assert (no-such-function x))")


def test_without_the_second_solver_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where cvc5 is not installed, the error says so, and what to do."""
    plain = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name == "cvc5":
            raise ImportError(name)
        return plain(name, *args, **more)

    monkeypatch.delitem(sys.modules, "cvc5", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(UsageError, match="pip install cvc5"):
        smtlib.answer("(check-sat)")
