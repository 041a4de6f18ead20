"""System C, entered: its spec, and what is checked of the coordinator's code, and the client's."""

from __future__ import annotations

from herdproof.conformance.adapter import Adapter
from herdproof.conformance.flawed import switched
from herdproof.pipeline.checks import at, held, simulated_runs
from herdproof.protocols.implementation import Implementation, made
from herdspec.check.protocol import later
from herdspec.protocols.group_protocol.plan import BOUND, PROTOCOL, told, varied_told

HERE = "herdproof.protocols.group_protocol"
DRAFT = "drafted"
ON_RUNS = (
    "simulated runs keep the contract, settle, and conform",
    "What the coordinator does in the simulated world, disturbed, contract and spec allow.",
)
ON_CHOICE = (
    "the core goes on random walks along the choice of protocols",
    "Whatever clients list, the core refuses, rebalances and chooses as the variant says.",
)
ON_ADMINISTERED = (
    "the core goes on random walks along the administration of groups",
    "DeleteGroups, OffsetDelete and commits from outside do, or are refused, as the variant says.",
)
ON_SUBSCRIPTIONS = (
    "the core goes on random walks where members change their subscriptions",
    "Whoever joins with another subscription, the core rebalances and stores as the variant says.",
)

_cores = later(f"{HERE}.held.variants:cores")
_one_mistake = switched(
    PROTOCOL, _cores, later(f"{HERE}.held.variants:KNOWN"),
    forms={
        "choice": later(f"{HERE}.held.choosing:choosing"),
        "administered": later(f"{HERE}.held.administered:administered"),
        "positions": _cores,
        "subscriptions": later(f"{HERE}.held.resubscribing:resubscribing"),
    },
)  # fmt: skip


def adapter(variant: str) -> type[Adapter] | None:
    """The code of a variant with one mistake; none has those of the printed client together."""
    return None if variant == DRAFT else _one_mistake(variant)


clients = later(f"{HERE}.held.clients:HeldClients")

IMPLEMENTATION = Implementation(
    PROTOCOL,
    checks=(
        simulated_runs(PROTOCOL, ON_RUNS, runs=20),
        held(lambda _: clients(), "walks", lambda: told(2, 2, 1, faults=0), runs=40, turns=200),
        held(
            adapter, "walks", lambda: varied_told("choice", faults=0), form="choice",
            row=ON_CHOICE, runs=40, turns=200,
        ),
        held(
            adapter, "walks", lambda: varied_told("administered", faults=0), form="administered",
            row=ON_ADMINISTERED, runs=40, turns=200,
        ),
        held(
            adapter, "walks", lambda: varied_told("subscriptions", faults=0), form="subscriptions",
            row=ON_SUBSCRIPTIONS, runs=40, turns=200,
        ),
        held(adapter, "edges", lambda: told(1, 1, 1, faults=1), seconds=None),
        held(adapter, "stories", lambda: told(1, 1, 1, faults=1)),
        held(
            adapter,
            "edges",
            at(PROTOCOL, 1, faults=0, bound=BOUND, form="positions"),
            form="positions",
            seconds=None,
        ),
    ),
    adapter=adapter,
    trace_map=made(f"{HERE}.traces.trace_map:map_of"),
    auditor=later(f"{HERE}.traces.auditor:GroupsAuditor"),
    simulated=made(f"{HERE}.campaign:GroupRuns"),
)  # fmt: skip
