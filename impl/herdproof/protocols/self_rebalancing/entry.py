"""System A, entered: its spec, and what is checked of the consumers' code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdproof.pipeline.checks import held, simulated_runs
from herdproof.protocols.implementation import Implementation, made
from herdspec.check.protocol import later
from herdspec.protocols.self_rebalancing.plan import PROTOCOL, noticing

if TYPE_CHECKING:
    from herdproof.conformance.adapter import Adapter

HERE = "herdproof.protocols.self_rebalancing"
RUNS = 20
ON_RUNS = (
    "simulated runs keep the contract, settle, and conform",
    "What the core does in the simulated world, disturbed, contract and spec allow.",
)


def adapter(variant: str) -> type[Adapter] | None:
    """The cores behind gates, with the variant's mistakes; None where no core has them."""
    from herdproof.protocols.self_rebalancing.held.adapter import RebalancingCores, cores
    from herdproof.protocols.self_rebalancing.held.flawed import FLAWS

    if not variant:
        return RebalancingCores
    flaw = PROTOCOL.variant(variant)
    return cores(flaw.switches, flaw.spec) if flaw and flaw.switches <= FLAWS.keys() else None


IMPLEMENTATION = Implementation(
    PROTOCOL,
    checks=(
        simulated_runs(
            PROTOCOL, ON_RUNS, runs=RUNS, name=f"simulate, judge and replay {RUNS} runs"
        ),
        held(adapter, "walks", lambda: noticing(2, 2, faults=1)),
        held(adapter, "edges", lambda: noticing(2, 1, faults=0), seconds=None),
        held(adapter, "stories", lambda: noticing(2, 1, faults=1)),
    ),
    adapter=adapter,
    trace_map=made(f"{HERE}.traces.trace_map:map_of"),
    auditor=later(f"{HERE}.traces.auditor:ConnectorAuditor"),
    simulated=made(f"{HERE}.campaign:Rebalancing"),
)
