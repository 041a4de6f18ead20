"""`herdproof report DIRECTORY`: what the tables of an audit or a campaign say, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from herdproof.report.render import COLOURS, JsonOption, Output, check_writable, spoken, table_of
from herdspec.check.verdict import Standing, counted
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.pipeline.report.facts import Facts


def report(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Where the tables are.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The page (DIRECTORY/report.html).",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
    junit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the verdicts as JUnit XML.", show_default=False),
    ] = None,
) -> None:  # fmt: skip
    """Make a page of HTML from the tables of an audit or campaign. It needs no network."""
    from herdproof.pipeline.report.facts import facts_json, facts_of
    from herdproof.pipeline.report.junit import write_junit
    from herdproof.pipeline.report.page import page

    out = Output(json)
    if not directory.is_dir():
        raise UsageError(f"there is no directory {directory}")
    to = directory / "report.html" if output is None else output
    check_writable({"--output": to, "--junit": junit})
    with out.progress(f"report {directory.name}") as tell:
        tell("reading the tables", None)
        facts = facts_of(directory)
        tell("writing the page", None)
        to.write_text(page(facts), encoding="utf-8")
        if junit is not None:
            write_junit(directory, junit)
    print_facts(out, facts, to)
    standing = standing_of(facts)
    out.json({**facts_json(facts), "exit": standing.value, "page": str(to)})
    raise typer.Exit(standing.value)


def standing_of(facts: Facts) -> Standing:
    """The standing of the tables."""
    from herdproof.pipeline.report.facts import HOLDS, VIOLATED

    return {VIOLATED: Standing.FAILS, HOLDS: Standing.HOLDS}.get(facts.worst, Standing.UNKNOWN)


def print_facts(out: Output, facts: Facts, page: Path) -> None:
    """The verdicts in short, and where the page is."""
    from herdproof.pipeline.report.facts import VERDICTS
    from herdproof.pipeline.report.page import ENDS, called

    out.line(f"{counted(facts.runs, 'run')}, {counted(facts.groups, 'group')}")
    if facts.promises:
        shown = [v for v in reversed(VERDICTS) if facts.verdicts.get(v)]
        table = table_of("protocol", "property", *shown)
        for promise in facts.promises:
            numbers = (f"{n:,}" if (n := promise.groups.get(v)) else "" for v in shown)
            table.add_row(promise.protocol, called(promise.name), *numbers)
        out.table(table)
    for name, count in facts.violations.items():
        out.line(f"{called(name)}: {counted(count, 'violation')}")
    for reason in facts.quarantine:
        out.line(f"{spoken(reason.reason)}: {counted(reason.records, 'record')} in quarantine")
    out.line(f"the page: {page}")
    out.line()
    out.line(ENDS[facts.worst], style=COLOURS[standing_of(facts)])
