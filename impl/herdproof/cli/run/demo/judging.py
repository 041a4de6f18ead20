"""The end of a demonstration: the audit of its traces, its pages, and what it all comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from herdproof.cli.run.demo.observation import Observations
from herdspec.check.verdict import Standing, counted

if TYPE_CHECKING:
    from herdproof.pipeline.audit.summary import Summary

REPORT, TABLES = "report.html", "tables"


@dataclass(frozen=True, slots=True)
class Ending:
    """Result of a demonstration; `code` is its exit code."""

    code: int
    sentence: str
    report: str
    """Where the audit's page is."""

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


def judged(out: Path, seen: Observations, tell: Callable[[str], None]) -> Ending:
    """Audit this run's traces, write the page of that, and say what it comes to."""
    from herdproof.cli.code.audit import audited_here
    from herdproof.pipeline.report.facts import facts_of
    from herdproof.pipeline.report.page import page
    from herdproof.pipeline.spark.sources import find_sources

    tell("the audit judges the traces")
    tables = out / TABLES
    summary = audited_here(
        find_sources([str(out / "traces")]), str(tables), lambda _words, _share: None,
        replay=True, run="demo",
    )  # fmt: skip
    report = out / REPORT
    report.write_text(page(facts_of(tables)), encoding="utf-8")
    code, sentence = concluded(summary, seen)
    return Ending(code, sentence, str(report))


def concluded(summary: Summary, seen: Observations) -> tuple[int, str]:
    """The exit code and its sentence: by the audit, and by what consumers were given."""
    wrong = [
        f"{n:,} {what}"
        for n, what in (
            (seen.read_by_two, "× a partition read by two at once"),
            (seen.lost, "× a record lost"),
            (summary.violations, "× a violation that the audit found"),
        )
        if n
    ]
    if wrong or summary.exit == Standing.FAILS.value:
        return Standing.FAILS.value, f"The contract is violated: {', '.join(wrong)}."
    if seen.waiting:
        late = counted(seen.waiting, "record")
        return Standing.UNKNOWN.value, f"Unknown: {late} had been given to nobody at the end."
    if summary.exit != Standing.HOLDS.value:
        why = f": {summary.unknown[0]}" if summary.unknown else ""
        return Standing.UNKNOWN.value, f"Unknown: the audit could not judge all{why}."
    return Standing.HOLDS.value, (
        f"The contract held in this run: of {seen.acknowledged:,} records none was lost,"
        f" no partition was read by two at once, {seen.again:,} were read again."
    )
