"""The election, entered: its spec, the electors' code, and what is checked of that."""

from __future__ import annotations

from herdproof.conformance.flawed import switched
from herdproof.pipeline.checks import edges, real_runs
from herdproof.protocols.implementation import Implementation, made
from herdspec.check.protocol import later
from herdspec.protocols.election.plan import PROTOCOL

HERE = "herdproof.protocols.election"
ON_EDGES = (
    "the cores take every step as specified",
    "In every reachable state, each step leads the cores where the spec says.",
)
ON_REAL_EDGES = (
    "real brokers take steps as specified",
    "On a real ZooKeeper, each step that was taken leads the brokers where the spec says.",
)
ON_REAL_RUNS = (
    "traces of real runs conform",
    "What real brokers do, undirected and disturbed, the spec allows.",
)

IMPLEMENTATION = Implementation(
    PROTOCOL,
    checks=(
        edges(
            PROTOCOL, ON_EDGES, later(f"{HERE}.held.adapter:SimulatedElectors"),
            where="on the simulated ZooKeeper", size=2, faults=2,
        ),
        edges(
            PROTOCOL, ON_REAL_EDGES, made(f"{HERE}.held.real:one_real_elector"),
            where="on a real ZooKeeper", size=1, faults=1, by="tours",
        ),
        real_runs(
            PROTOCOL, ON_REAL_RUNS, later(f"{HERE}.held.real_runs:lived"),
            name="run and disturb brokers on a real ZooKeeper",
        ),
    ),
    adapter=switched(PROTOCOL, later(f"{HERE}.held.adapter:electors")),
    trace_map=later(f"{HERE}.traces.trace_map:TRACES"),
    auditor=later(f"{HERE}.traces.auditor:ElectionAuditor"),
    simulated=made(f"{HERE}.campaign:Election"),
)  # fmt: skip
