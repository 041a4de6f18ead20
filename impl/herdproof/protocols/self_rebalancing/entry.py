"""System A, entered: its spec, and what is checked of the consumers' code."""

from __future__ import annotations

from herdproof.conformance.flawed import switched
from herdproof.pipeline.checks import held, simulated_runs
from herdproof.protocols.implementation import Implementation, made
from herdspec.check.protocol import later
from herdspec.protocols.self_rebalancing.plan import PROTOCOL, noticing

HERE = "herdproof.protocols.self_rebalancing"
ON_RUNS = (
    "simulated runs keep the contract, settle, and conform",
    "What the core does in the simulated world, disturbed, contract and spec allow.",
)

adapter = switched(
    PROTOCOL, later(f"{HERE}.held.adapter:cores"), later(f"{HERE}.held.flawed:FLAWS"),
    own=("herd_effect",),
)  # fmt: skip
IMPLEMENTATION = Implementation(
    PROTOCOL,
    checks=(
        simulated_runs(PROTOCOL, ON_RUNS, runs=20),
        held(adapter, "walks", lambda: noticing(2, 2, faults=1)),
        held(adapter, "edges", lambda: noticing(2, 1, faults=0), seconds=None),
        held(adapter, "stories", lambda: noticing(2, 1, faults=1)),
    ),
    adapter=adapter,
    trace_map=made(f"{HERE}.traces.trace_map:map_of"),
    auditor=later(f"{HERE}.traces.auditor:ConnectorAuditor"),
    simulated=made(f"{HERE}.campaign:Rebalancing"),
)
