"""System A, entered: its spec, and what is checked of the consumers' code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from herdproof.conformance.findings import differs, implementation, replayed
from herdproof.protocols.implementation import Implementation
from herdspec.check.cache import Result
from herdspec.check.verdict import Mark, counted
from herdspec.check.verify import Check, Tell
from herdspec.protocols.self_rebalancing.plan import PROTOCOL

if TYPE_CHECKING:
    from herdproof.conformance.adapter import Adapter
    from herdproof.conformance.traces.mapping import TraceMap
    from herdproof.pipeline.audit.map_trace import MapAuditor
    from herdproof.pipeline.campaign.runs import Simulated

SIMULATED_RUNS = 20


def of_self_rebalancing() -> tuple[Any, ...]:
    """What the verdicts about the implementation of self-rebalancing consumers rest on."""
    from herdspec.protocols.self_rebalancing.contract import CLAIMED

    return CLAIMED, implementation()


def simulated_runs(subject: str) -> Check:
    """Disturbed runs of the core in the simulated world, judged by the contract, and replayed."""
    row = "simulated runs keep the contract, settle, and conform"
    sentence = "What the core does in the simulated world, disturbed, contract and spec allow."

    def run(tell: Tell) -> Result:
        from herdproof.conformance.traces.replay import conform_lines
        from herdproof.protocols.self_rebalancing.judged.eyes import judged
        from herdproof.protocols.self_rebalancing.traces.runs import RunTracers

        lines = 0
        for seed in range(SIMULATED_RUNS):
            tell(f"{seed} of {counted(SIMULATED_RUNS, 'run')}", seed / SIMULATED_RUNS)
            tracers = RunTracers()
            found = judged(seed, observe=tracers)
            bounds = f"{counted(seed + 1, 'run')}, {counted(lines, 'line')}"
            if found.broken:
                finding = differs(subject, row, sentence, bounds, "\n".join(found.story))
                return Result((finding,), f"seed {seed}")
            outcome = conform_lines(tracers.lines(seed), trace_map())
            lines += outcome.lines
            bounds = f"{counted(seed + 1, 'run')}, {counted(lines, 'line')}"
            finding = replayed(subject, row, sentence, bounds, outcome)
            if finding.mark is not Mark.CONFORMS:
                return Result((finding,), f"seed {seed}")
        return Result((finding,), bounds)

    return Check(f"simulate, judge and replay {SIMULATED_RUNS} runs", run, of_self_rebalancing)


def held(
    way: str, members: int, partitions: int, faults: int, **options: Any
) -> Callable[[str], Check]:
    """The core held to its spec, in one of the ways for all code."""

    def make(subject: str) -> Check:
        from herdproof.conformance import checks
        from herdspec.protocols.self_rebalancing.plan import group
        from herdspec.protocols.self_rebalancing.properties import NOTICING

        looked = group(NOTICING, members, partitions, faults=faults)
        looked = replace(looked, subject=subject, within=True)
        code = checks.Code(IMPLEMENTATION.code(""), "")
        check: Check = getattr(checks, way)(looked, code, **options)
        return check

    return make


def adapter(variant: str) -> type[Adapter] | None:
    """The cores behind gates, with the variant's mistakes; None where no core has them."""
    from herdproof.protocols.self_rebalancing.held.adapter import RebalancingCores, cores
    from herdproof.protocols.self_rebalancing.held.flawed import FLAWS

    if not variant:
        return RebalancingCores
    flaw = PROTOCOL.drafted() if variant == "drafted" else PROTOCOL.flaws().get(variant)
    return cores(flaw.switches, flaw.spec) if flaw and flaw.switches <= FLAWS.keys() else None


def trace_map() -> TraceMap:
    """What the lines of its traces are to its spec."""
    from herdproof.protocols.self_rebalancing.traces.trace_map import map_of

    return map_of()


def auditor() -> MapAuditor:
    """What the pipeline knows of its traces."""
    from herdproof.protocols.self_rebalancing.traces.auditor import ConnectorAuditor

    return ConnectorAuditor(PROTOCOL.name, trace_map(), PROTOCOL.declared())


def simulated() -> Simulated:
    """Its simulator."""
    from herdproof.protocols.self_rebalancing.campaign import Rebalancing

    return Rebalancing(auditor())


CHECKS = (
    simulated_runs, held("walks", 2, 2, 1), held("edges", 2, 1, 0, seconds=None),
    held("stories", 2, 1, 1),
)  # fmt: skip
IMPLEMENTATION = Implementation(
    PROTOCOL, checks=CHECKS, adapter=adapter, trace_map=trace_map, auditor=auditor,
    simulated=simulated,
)  # fmt: skip
