"""System B, entered: its spec, the coordinators' and consumers' code, what is checked of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdproof.conformance.flawed import switched
from herdproof.pipeline.checks import at, held, simulated_runs
from herdproof.protocols.implementation import Implementation, made
from herdspec.check.protocol import later
from herdspec.protocols.central_coordinator.plan import PROTOCOL, brought

if TYPE_CHECKING:
    from herdproof.conformance.holding.held import Held

HERE = "herdproof.protocols.central_coordinator"
RUNS = 60
ON_RUNS = (
    "simulated runs keep the contract, their traces conform",
    "What the cores do in the simulated world, disturbed, contract and spec allow.",
)
ON_EDGES = (
    "the cores take steps as specified",
    "In states near where a member commits, each step leads the cores where the spec says.",
)
ON_RESUMED_EDGES = (
    "the cores resume members as specified",
    "In states near where one asks to, each step leads the cores where the variant says.",
)
ON_BROUGHT = (
    "the cores take what is brought as specified",
    "On random walks from where a member says where it stopped, the code does as the variant says.",
)

CONSUMED, RESUMED = "a_commit_is_on_its_way", "somebody_consumes_and_asks_to_resume"
"""Near these edges are drawn: chance alone, from the beginning, seldom leads so far."""

adapter = switched(
    PROTOCOL, later(f"{HERE}.held.mistaken:cores"),
    forms={
        "resuming": later(f"{HERE}.held.resuming:resuming_cores"),
        "bringing": later(f"{HERE}.held.bringing:bringing_cores"),
    },
)  # fmt: skip


def somebody_is_back(world: Held) -> None:
    """Begin where a member that had finished what nobody knows says where it stopped."""
    later(f"{HERE}.held.bringing:somebody_is_back")()(world)


IMPLEMENTATION = Implementation(
    PROTOCOL,
    checks=(
        simulated_runs(
            PROTOCOL, ON_RUNS, runs=RUNS, name=f"simulate and replay {RUNS} runs", invariants=False
        ),
        held(
            adapter, "edges", at(PROTOCOL, 1, faults=2, bound=5), quietly=True, row=ON_EDGES,
            seconds=None, part=0.1, seed=13, near=CONSUMED,
        ),
        held(
            adapter, "edges", at(PROTOCOL, 1, faults=2, bound=5, form="resuming"),
            form="resuming", quietly=True, row=ON_RESUMED_EDGES, seconds=None, part=0.025, seed=13,
            near=RESUMED,
        ),
        held(
            adapter, "walks", brought, form="bringing", row=ON_BROUGHT, runs=40, turns=60,
            first=somebody_is_back,
        ),
    ),
    adapter=adapter,
    trace_map=made(f"{HERE}.traces.trace_map:map_of"),
    auditor=later(f"{HERE}.traces.auditor:CentralAuditor"),
    simulated=made(f"{HERE}.campaign:Central"),
)  # fmt: skip
