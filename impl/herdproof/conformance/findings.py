"""
Findings of checks of an implementation, for authors of such checks (`Implementation.checks`).

Each makes one `Check` for the column that it is told. A check yields findings: `conforms` makes one
that passed, `differs` one that did not, `unknown` one without a verdict. Where a check cannot be
carried out (a `HerdError`: no Java, say) that is its note, its verdict is "unknown", and `verify`
ends with 3.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from herdspec.check.digest import sources, versions
from herdspec.check.verdict import Finding, Mark

if TYPE_CHECKING:
    from herdspec.check.conformance.conform import Outcome


def conforms(subject: str, row: str, sentence: str, bounds: str, note: str = "") -> Finding:
    """
    The implementation was run within these bounds (say what, and how much) and conformed.

    The note says what that does not show.
    """
    return Finding(
        subject=subject, row=row, kind="check", mark=Mark.CONFORMS, bounds=bounds,
        sentence=sentence, note=note,
    )  # fmt: skip


def differs(subject: str, row: str, sentence: str, bounds: str, story: str) -> Finding:
    """The implementation did what its spec does not allow; the story's lines say what."""
    lines = tuple(story.splitlines())
    return Finding(
        subject=subject, row=row, kind="check", mark=Mark.FAILS, bounds=bounds,
        sentence=sentence, note="differs", story=lines,
    )  # fmt: skip


def unknown(subject: str, row: str, sentence: str, bounds: str, note: str) -> Finding:
    """The check came to no verdict; the note says why."""
    return Finding(
        subject=subject, row=row, kind="check", mark=Mark.UNKNOWN, bounds=bounds,
        sentence=sentence, note=note,
    )  # fmt: skip


def implementation() -> tuple[Any, ...]:
    """The basis of runs of the implementation: its sources and, of ZooKeeper, client and jars."""
    import herdproof

    return sources(Path(herdproof.__file__).parent), versions(("kazoo", "pyspark"))


def replayed(subject: str, row: str, sentence: str, bounds: str, outcome: Outcome) -> Finding:
    """The finding of a replay."""
    if outcome.mismatch is not None:
        return differs(subject, row, sentence, bounds, "\n".join(outcome.mismatch.lines))
    if outcome.reason or outcome.matched < outcome.lines or not outcome.lines:
        return unknown(subject, row, sentence, bounds, outcome.reason or "lines were left over")
    return conforms(subject, row, sentence, bounds)
