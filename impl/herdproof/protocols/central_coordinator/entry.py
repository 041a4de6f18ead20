"""System B, entered: its spec, the coordinators' and consumers' code, what is checked of that."""

from __future__ import annotations

from herdproof.conformance.flawed import switched
from herdproof.pipeline.checks import edges, simulated_runs
from herdproof.protocols.implementation import Implementation, made
from herdspec.check.protocol import later
from herdspec.protocols.central_coordinator.plan import PROTOCOL

HERE = "herdproof.protocols.central_coordinator"
RUNS = 60
ON_RUNS = (
    "simulated runs keep the contract, their traces conform",
    "What the cores do in the simulated world, disturbed, contract and spec allow.",
)
ON_EDGES = (
    "the cores take steps as specified",
    "In reachable states, drawn by chance, each step leads the cores where the spec says.",
)

adapter = switched(PROTOCOL, later(f"{HERE}.held.adapter:cores"))
IMPLEMENTATION = Implementation(
    PROTOCOL,
    checks=(
        simulated_runs(
            PROTOCOL, ON_RUNS, runs=RUNS, name=f"simulate and replay {RUNS} runs", invariants=False
        ),
        edges(
            PROTOCOL, ON_EDGES, later(f"{HERE}.held.adapter:CentralEdges"),
            where="in the gated world", size=1, faults=2, bound=5, part=0.1, seed=13,
        ),
    ),
    adapter=adapter,
    trace_map=made(f"{HERE}.traces.trace_map:map_of"),
    auditor=later(f"{HERE}.traces.auditor:CentralAuditor"),
    simulated=made(f"{HERE}.campaign:Central"),
)  # fmt: skip
