"""Traces of real runs, held against the spec and the contract as users hold them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from herdproof.conformance.traces.line import read_files
from herdproof.pipeline.audit.here import AuditHere
from herdproof.pipeline.audit.summary import Summary
from herdproof.pipeline.audit.work import protocol_work
from herdproof.pipeline.spark.sources import find_sources
from herdproof.pipeline.spark.store import OutputDirectory
from herdproof.protocols.implementation import implementation
from herdspec.check.conformance.conform import Verdict

Counts = Counter[tuple[str, str]]
"""By action and outcome, how often that was."""


def conforms(protocol: str, *traces: Path) -> Counts:
    """The traces conform, all of them; how often what was done."""
    code = implementation(protocol)
    outcome = code.conform(traces, 0, lambda *_: None, invariants=True)
    assert outcome.verdict is Verdict.CONFORMS, (str(outcome.mismatch)[:2000], outcome.reason)
    assert outcome.matched == outcome.lines
    lines = read_files(traces, code.table.formats)
    return Counter((line.action, line.arguments.get("outcome", "")) for line in lines)


def audited(out: Path, *traces: Path) -> Summary:
    """The audit in this process; of replays `conforms` says more."""
    job = AuditHere(protocol_work(), lambda *_: None, False, "cluster")
    return job.run(find_sources(map(str, traces)), OutputDirectory(None, str(out)))


def violated(summary: Summary) -> list[str]:
    """The violations, and where they are."""
    return [f"{each.property}: {each.told} ({each.place})" for each in summary.told]


def judge_traces(protocol: str, traces: Sequence[Path], *, hold: int) -> Counts:
    """They conform, nothing is violated, and so many sentences hold; how often what was done."""
    seen = conforms(protocol, *traces)
    summary = audited(traces[0].with_suffix(".tables"), *traces)
    assert not violated(summary)
    assert not summary.quarantined
    holding = [name for name, counts in summary.verdicts.items() if "holds" in counts]
    assert len(holding) >= hold, (summary.verdicts, summary.unknown)
    return seen
