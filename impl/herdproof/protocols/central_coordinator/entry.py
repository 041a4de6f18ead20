"""System B, entered: its spec, the coordinators' and consumers' code, what is checked of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdproof.conformance.findings import conforms, differs, implementation, replayed, unknown
from herdproof.protocols.implementation import Implementation
from herdspec.check.cache import Result
from herdspec.check.verdict import Mark, counted
from herdspec.check.verify import Check, Tell
from herdspec.protocols.central_coordinator.plan import PROTOCOL

if TYPE_CHECKING:
    from herdproof.conformance.adapter import Adapter
    from herdproof.conformance.traces.mapping import TraceMap
    from herdproof.pipeline.audit.auditor import Auditor
    from herdproof.pipeline.campaign.runs import Simulated

SIMULATED_RUNS = 60


def of_central_coordinator() -> tuple[Any, ...]:
    """What the verdicts about the implementation of the central coordinator rest on."""
    from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR

    return CENTRAL_COORDINATOR, implementation()


def simulated_runs(subject: str) -> Check:
    """Disturbed runs of the cores in the simulated world: the contract watched, traces replayed."""
    row = "simulated runs keep the contract, their traces conform"
    sentence = "What the cores do in the simulated world, disturbed, contract and spec allow."

    def run(tell: Tell) -> Result:
        from herdproof.protocols.central_coordinator.traces.runs import traced
        from herdproof.protocols.central_coordinator.traces.trace_map import conform_lines

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


EDGES_FAULTS, EDGES_BOUND, EDGES_PART, EDGES_SEED = 2, 5, 0.1, 13


def edges(subject: str) -> Check:
    """Some edges of the explored graph, taken on the cores in their gated world."""
    row = "the cores take steps as specified"
    sentence = (
        "In reachable states, drawn by chance, each step leads the cores where the spec says."
    )

    def run(tell: Tell) -> Result:
        from herdproof.conformance.graphs.edges import cover
        from herdproof.protocols.central_coordinator.held.adapter import CentralEdges

        tell("in the gated world", None)
        sizes: dict[str, Any] = dict.fromkeys(PROTOCOL.verified().sorts, 1)
        found = cover(
            PROTOCOL.verified(), CentralEdges, faults=EDGES_FAULTS, bound=EDGES_BOUND,
            part=EDGES_PART, seed=EDGES_SEED, **sizes,
        )  # fmt: skip
        bounds = f"{found.covered:,} of {counted(found.edges, 'edge')}, seed {EDGES_SEED}"
        if found.mismatch is not None:
            story = found.mismatch.story
            return Result((differs(subject, row, sentence, bounds, story),), bounds)
        never = [name for name, n in found.taken.items() if not n]
        note = f"never taken: {', '.join(never)}" if never else ""
        make = conforms if found.covered else unknown
        return Result((make(subject, row, sentence, bounds, note),), bounds)

    size = f"1 broker, 1 member, 1 partition, {counted(EDGES_FAULTS, 'fault')}"
    return Check(f"cover some steps in the gated world: {size}", run, of_central_coordinator)


def adapter(variant: str) -> type[Adapter] | None:
    """The cores in their gated world, with the variant's mistakes; None where no core has them."""
    from herdproof.protocols.central_coordinator.held.adapter import cores

    if not variant:
        return cores()
    flaw = PROTOCOL.drafted() if variant == "drafted" else PROTOCOL.flaws().get(variant)
    return cores(flaw.switches, flaw.spec) if flaw and flaw.switches else None


def trace_map() -> TraceMap:
    """What the lines of its traces are to its spec."""
    from herdproof.protocols.central_coordinator.traces.trace_map import map_of

    return map_of()


def auditor() -> Auditor:
    """What the pipeline knows of its traces."""
    from herdproof.protocols.central_coordinator.traces.auditor import CentralAuditor

    return CentralAuditor()


def simulated() -> Simulated:
    """Its simulator."""
    from herdproof.protocols.central_coordinator.campaign import Central

    return Central()


IMPLEMENTATION = Implementation(
    PROTOCOL, checks=(simulated_runs, edges), adapter=adapter, trace_map=trace_map,
    auditor=auditor, simulated=simulated,
)  # fmt: skip
