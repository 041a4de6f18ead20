"""System B, entered: its spec, the coordinators' and consumers' code, what is checked of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdproof.conformance.findings import differs, implementation, replayed
from herdproof.protocols.implementation import Implementation
from herdspec.check.cache import Result
from herdspec.check.verdict import Mark, counted
from herdspec.check.verify import Check, Tell
from herdspec.protocols.central_coordinator_plan import PROTOCOL

if TYPE_CHECKING:
    from herdproof.conformance.traces.mapping import TraceMap
    from herdproof.pipeline.auditor import Auditor
    from herdproof.pipeline.campaign_runs import Simulated

SIMULATED_RUNS = 60


def of_central_coordinator() -> tuple[Any, ...]:
    """What the verdicts about the implementation of the central coordinator rest on."""
    from herdspec.protocols.central_coordinator_properties import CENTRAL_COORDINATOR

    return CENTRAL_COORDINATOR, implementation()


def simulated_runs(subject: str) -> Check:
    """Disturbed runs of the cores in the simulated world: the contract watched, traces replayed."""
    row = "simulated runs keep the contract, their traces conform"
    sentence = "What the cores do in the simulated world, disturbed, contract and spec allow."

    def run(tell: Tell) -> Result:
        from herdproof.link.central import conform_lines
        from herdproof.link.central_runs import traced

        lines = 0
        for seed in range(SIMULATED_RUNS):
            tell(f"{seed} of {counted(SIMULATED_RUNS, 'run')}", seed / SIMULATED_RUNS)
            made = traced(seed)
            bounds = f"{counted(seed + 1, 'run')}, {counted(lines + len(made.lines), 'line')}"
            if made.outcome.violation is not None:
                found = differs(subject, row, sentence, bounds, str(made.outcome))
                return Result((found,), bounds)
            outcome = conform_lines(made.lines)
            finding = replayed(subject, row, sentence, bounds, outcome)
            if finding.mark is not Mark.CONFORMS:
                return Result((finding,), f"seed {seed}")
            lines += outcome.lines
        return Result((finding,), bounds)

    return Check(f"simulate and replay {SIMULATED_RUNS} runs", run, of_central_coordinator)


def trace_map() -> TraceMap:
    """What the lines of its traces are to its spec."""
    from herdproof.link.central import map_of

    return map_of()


def auditor() -> Auditor:
    """What the pipeline knows of its traces."""
    from herdproof.pipeline.central_trace import CentralAuditor

    return CentralAuditor()


def simulated() -> Simulated:
    """Its simulator."""
    from herdproof.pipeline.campaign_central import Central

    return Central()


IMPLEMENTATION = Implementation(
    PROTOCOL, checks=(simulated_runs,), trace_map=trace_map, auditor=auditor, simulated=simulated
)
