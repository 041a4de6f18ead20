"""The last part of a report of `verify`: which sentences of the contract each protocol keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.markup import escape

from herdproof.report.render import Output, table_of
from herdspec.check.sentences import (
    Cell,
    Column,
    Discharge,
    Kept,
    Sentence,
    cell_json,
    is_discharged,
    judged,
)
from herdspec.check.verify import PlanReport

COLOURS = {
    Kept.PROVED: "green", Kept.EXHAUSTED: "green", Kept.FAILS: "cyan",
    Kept.NO_MEANING: "dim", Kept.UNKNOWN: "yellow",
}  # fmt: skip


def columns(
    reports: Sequence[PlanReport],
) -> Iterator[tuple[PlanReport, Column, dict[Sentence, Cell]]]:
    """Each column, with the report that its cells are computed from; system by system."""
    of = [(report, column) for report in reports for column in report.plan.sentences]
    for report, column in sorted(of, key=lambda found: found[1].title.partition(" ")[0]):
        yield report, column, judged(column, report.findings, report.plan.discharges)


def print_sentences(out: Output, reports: Sequence[PlanReport]) -> None:
    """Print the table, if there is anything in it."""
    found = [(column.title, cells) for _, column, cells in columns(reports)]
    if not found:
        return
    out.line()
    table = table_of("contract", *(title for title, _ in found))
    for sentence in dict.fromkeys(s for _, cells in found for s in cells):
        of = (cells.get(sentence, Cell(Kept.UNKNOWN)) for _, cells in found)
        table.add_row(escape(sentence.name), *map(coloured, of))
    out.table(table)


def coloured(cell: Cell) -> str:
    """A cell's text, in the colour of its verdict."""
    colour = COLOURS[cell.verdict]
    return f"[{colour}]{escape(cell.text)}[/{colour}]"


def sentences_json(reports: Sequence[PlanReport]) -> list[dict[str, Any]]:
    """Each cell of the table as JSON."""
    return [
        cell_json(report.plan.protocol, column.title, sentence, cell)
        for report, column, cells in columns(reports)
        for sentence, cell in cells.items()
    ]


# ── Assumptions ─────────────────────────────────────────────────────────────────────────────


def discharged(report: PlanReport, discharge: Discharge) -> str:
    """An assumption in a line: what it follows from, if the run shows that, and what remains."""
    subject, row = discharge.by
    if is_discharged(discharge, report.findings):
        return f"follows, as `{subject}` {row}, if {discharge.remaining}"
    return f"is not shown to follow: `{subject}` {row} is not proved by this run"


def assumptions_json(report: PlanReport) -> list[dict[str, Any]]:
    """The fate of each assumption, as JSON."""
    return [
        {
            "assumption": d.assumption, "discharged": is_discharged(d, report.findings),
            "subject": d.by[0], "row": d.by[1], "remaining": d.remaining,
        }
        for d in report.plan.discharges
    ]  # fmt: skip
