"""The election, entered: its spec, the electors' code, and what is checked of that."""

from __future__ import annotations

from herdproof.conformance.flawed import switched
from herdproof.pipeline.checks import at, held, real_runs
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

adapter = switched(PROTOCOL, later(f"{HERE}.held.adapter:electors"))
real = later(f"{HERE}.held.real:RealElectors")
IMPLEMENTATION = Implementation(
    PROTOCOL,
    checks=(
        held(
            adapter, "edges", at(PROTOCOL, 2, faults=2), row=ON_EDGES, seconds=None, whole=True
        ),
        held(
            lambda _: real(), "edges", at(PROTOCOL, 1, faults=1), row=ON_REAL_EDGES, seconds=None,
            whole=True, by="tours", world=made(f"{HERE}.held.real:one_real_elector"),
        ),
        real_runs(
            PROTOCOL, ON_REAL_RUNS, later(f"{HERE}.held.real:lived"),
            name="run and disturb brokers on a real ZooKeeper",
        ),
    ),
    adapter=adapter,
    trace_map=later(f"{HERE}.traces.trace_map:TRACES"),
    auditor=later(f"{HERE}.traces.auditor:ElectionAuditor"),
    simulated=made(f"{HERE}.campaign:Election"),
)  # fmt: skip
