"""System C, entered: its spec, and what is checked of the coordinator's code, and the client's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdproof.conformance.flawed import switched
from herdproof.pipeline.checks import held, simulated_runs
from herdproof.protocols.implementation import Implementation, made
from herdspec.check.protocol import later
from herdspec.protocols.group_protocol.plan import PROTOCOL, told

if TYPE_CHECKING:
    from herdproof.conformance.adapter import Adapter

HERE = "herdproof.protocols.group_protocol"
RUNS = 20
ON_RUNS = (
    "simulated runs keep the contract, settle, and conform",
    "What the coordinator does in the simulated world, disturbed, contract and spec allow.",
)

adapter = switched(
    PROTOCOL, later(f"{HERE}.held.variants:cores"), later(f"{HERE}.held.variants:CORES")
)


def both(_variant: str) -> type[Adapter]:
    """The coordinator's core, with our client's."""
    from herdproof.protocols.group_protocol.held.clients import HeldClients

    return HeldClients


IMPLEMENTATION = Implementation(
    PROTOCOL,
    checks=(
        simulated_runs(
            PROTOCOL, ON_RUNS, runs=RUNS, name=f"simulate, judge and replay {RUNS} runs"
        ),
        held(both, "walks", lambda: told(2, 2, 1, faults=0), runs=40, turns=200),
        held(adapter, "edges", lambda: told(1, 1, 1, faults=1), seconds=None),
        held(adapter, "stories", lambda: told(1, 1, 1, faults=1)),
    ),
    adapter=adapter,
    trace_map=made(f"{HERE}.traces.trace_map:map_of"),
    auditor=later(f"{HERE}.traces.auditor:GroupsAuditor"),
    simulated=made(f"{HERE}.campaign:GroupRuns"),
)
