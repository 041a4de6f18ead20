"""
The table at the end of `verify`: which sentences of a contract each protocol keeps, in each form.

A `Column` is a protocol in one form (drafted, corrected). For each sentence it says which rows of
its own report tell of it (`ShownBy`); what the cell says is computed from the findings of the run,
and from nothing else: what was cut or not run is unknown, and the weakest of the rows counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from herdspec.check.verdict import Finding, Mark, Standing, counted


@dataclass(frozen=True)
class Sentence:
    """A sentence of a contract, and the contract's properties that say it."""

    number: str
    title: str
    properties: tuple[str, ...]

    @property
    def name(self) -> str:
        """The number and the title, as tables have them."""
        return f"{self.number} {self.title}"


Row = tuple[str, str]
"""A subject of a report, and the property (or other row) that was looked at."""


@dataclass(frozen=True)
class ShownBy:
    """
    The rows that together show a sentence, in a report.

    `assuming` names the assumption under which they do; `without` are the rows that fail where it
    is not made. Of no rows nothing is known; `NO_MEANING` says that there can be none.
    """

    rows: tuple[Row, ...]
    assuming: str = ""
    without: tuple[Row, ...] = ()


NO_MEANING = ShownBy(())
"""The sentence has no meaning for the protocol."""


def shown(subject: str, *names: str, assuming: str = "", without: Sequence[Row] = ()) -> ShownBy:
    """The evidence that these properties of one subject give."""
    return ShownBy(tuple((subject, name) for name in names), assuming, tuple(without))


@dataclass(frozen=True)
class Column:
    """A protocol in one form, and what shows each sentence."""

    title: str
    cells: Mapping[Sentence, ShownBy]


@dataclass(frozen=True)
class Discharge:
    """An assumption that a row shows to follow, given what remains to be assumed."""

    assumption: str
    by: Row
    remaining: str


class Kept(Enum):
    """The verdict on a sentence in one column; the value is its name in JSON."""

    PROVED = "proved"
    EXHAUSTED = "exhausted"
    FAILS = "fails"
    NO_MEANING = "no meaning"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Cell:
    """
    The cell of a sentence in one column: what a run says of it.

    `bounds` are the sizes that were exhausted; `steps` is the length of the shortest story of what
    fails. What holds does so under the assumption `assuming`, if there is one; `without` it, the
    shortest story has so many steps. `discharged` says whether the run has shown the assumption.
    """

    verdict: Kept
    bounds: str = ""
    steps: int | None = None
    assuming: str = ""
    without: int | None = None
    discharged: bool = False

    @property
    def text(self) -> str:
        """The cell in words."""
        match self.verdict:
            case Kept.PROVED:
                said = f"{Mark.PROVED.value} proved"
            case Kept.EXHAUSTED:
                said = f"{Mark.EXHAUSTED.value} {self.bounds}"
            case Kept.FAILS:
                return f"{Mark.FAILS.value} {of_steps(self.steps)}"
            case Kept.NO_MEANING:
                return "no meaning"
            case Kept.UNKNOWN:
                return f"{Mark.UNKNOWN.value} unknown"
        if not self.assuming:
            return said
        more = ", discharged" if self.discharged else ""
        without = f"; without {Mark.FAILS.value} {of_steps(self.without)}" if self.without else ""
        return f"{said} under {self.assuming}{more}{without}"


def of_steps(steps: int | None) -> str:
    """The length of a story, where there is one."""
    return counted(steps, "step") if steps is not None else "fails"


def judged(
    column: Column, findings: Sequence[Finding], discharges: Iterable[Discharge] = ()
) -> dict[Sentence, Cell]:
    """The cells of a column, by sentence, as the findings of a run make them."""
    done = {d.assumption for d in discharges if is_discharged(d, findings)}
    return {
        sentence: _cell(of, findings, of.assuming in done) for sentence, of in column.cells.items()
    }


def is_discharged(discharge: Discharge, findings: Sequence[Finding]) -> bool:
    """Tells whether a run has proved what an assumption is discharged by."""
    return _of_row(discharge.by, findings).verdict is Kept.PROVED


def _cell(of: ShownBy, findings: Sequence[Finding], discharged: bool) -> Cell:
    """The weakest of the rows; what fails without the assumption is said beside what holds."""
    if of is NO_MEANING:
        return Cell(Kept.NO_MEANING)
    cells = [_of_row(row, findings) for row in of.rows]
    stories = [c.steps for c in cells if c.steps is not None]
    found = {c.verdict for c in cells} or {Kept.UNKNOWN}
    for verdict in (Kept.FAILS, Kept.UNKNOWN):
        if verdict in found:
            return Cell(verdict, steps=min(stories, default=None))
    others = [_of_row(row, findings).steps for row in of.without]
    without = min((steps for steps in others if steps is not None), default=None)
    weakest = Kept.EXHAUSTED if Kept.EXHAUSTED in found else Kept.PROVED
    bounds = "; ".join(dict.fromkeys(c.bounds for c in cells if c.bounds))
    return Cell(weakest, bounds, None, of.assuming, without, discharged and bool(of.assuming))


def _of_row(row: Row, findings: Sequence[Finding]) -> Cell:
    """The cell that one row makes: a story is the end of it; a proof needs no size."""
    of = [f for f in findings if (f.subject, f.row) == row]
    marks = {f.mark for f in of}
    if Mark.FAILS in marks:
        stories = [f.found.steps for f in of if f.found and f.mark is Mark.FAILS]
        return Cell(Kept.FAILS, steps=min(stories, default=None))
    if Mark.PROVED in marks and Standing.HOLDS in {f.standing for f in of}:
        return Cell(Kept.PROVED)
    if not of or Mark.UNKNOWN in marks:
        return Cell(Kept.UNKNOWN)
    return Cell(Kept.EXHAUSTED, "; ".join(dict.fromkeys(f.bounds for f in of)))


# ── For other programs ──────────────────────────────────────────────────────────────────────


def cell_json(protocol: str, title: str, sentence: Sentence, cell: Cell) -> dict[str, Any]:
    """One cell as JSON."""
    return {
        "protocol": protocol, "column": title, "sentence": sentence.name,
        "properties": list(sentence.properties), "verdict": cell.verdict.value,
        "bounds": cell.bounds, "steps": cell.steps, "assuming": cell.assuming or None,
        "steps_without": cell.without, "discharged": cell.discharged, "text": cell.text,
    }  # fmt: skip
