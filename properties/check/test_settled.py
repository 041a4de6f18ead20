"""Verdicts read with each other: what one check leaves open another may settle, or must."""

from __future__ import annotations

from dataclasses import replace

from herdspec.check.cache import Coverage, Result
from herdspec.check.verdict import EVERY_ACTION_IS_POSSIBLE, Finding, Mark
from herdspec.check.verify import Done, settled


def marks(*findings: Finding, taken: tuple[tuple[str, int], ...] = ()) -> list[Mark]:
    """The marks of these findings, each of a check of its own, once they are read together."""
    covered = (Coverage("x", taken),)
    done = settled([Done("a", Result((f,), "", covered), 0.0) for f in findings])
    return [f.mark for d in done for f in d.result.findings]


SAFE = Finding(subject="x", row="safe", kind="always", mark=Mark.PROVED, bounds="")


def test_what_leans_on_an_invariant_of_another_check_needs_its_proof() -> None:
    """A proved refinement that assumes invariants is unknown where they are not proved."""
    leaning = replace(SAFE, row="refines", kind="check", assumed=("safe",))

    assert marks(leaning, SAFE) == [Mark.PROVED, Mark.PROVED]
    assert marks(leaning, replace(SAFE, mark=Mark.EXHAUSTED)) == [Mark.UNKNOWN, Mark.EXHAUSTED]
    assert marks(leaning, replace(SAFE, subject="y")) == [Mark.UNKNOWN, Mark.PROVED]


def test_what_was_cut_is_settled_by_a_proof_of_the_same_property() -> None:
    """Not by one of another property, nor of another subject."""
    cut = replace(SAFE, mark=Mark.UNKNOWN, cut="n up to 3")

    assert marks(cut, SAFE) == [Mark.EXHAUSTED, Mark.PROVED]
    assert marks(cut, replace(SAFE, row="other")) == [Mark.UNKNOWN, Mark.PROVED]
    assert marks(replace(cut, cut=""), SAFE) == [Mark.UNKNOWN, Mark.PROVED]


def test_an_action_that_is_taken_at_another_size_is_not_vacuous() -> None:
    """It is, where no size takes it."""
    row = replace(SAFE, row=EVERY_ACTION_IS_POSSIBLE, kind="check", mark=Mark.FAILS)
    vacuous = replace(row, never=("meet",))

    assert marks(vacuous, taken=(("meet", 3),)) == [Mark.EXHAUSTED]
    assert marks(vacuous, taken=(("meet", 0),)) == [Mark.FAILS]
