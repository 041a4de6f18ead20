"""The checks of system C, and system C as every command knows it."""

from __future__ import annotations

from herdspec.check.plans import QUICK, Looked, Scale, exploration, liveness, proof, said_of
from herdspec.check.protocol import Protocol
from herdspec.check.verify import Plan
from herdspec.language.specification import Specification

BOUND = 8
"""The largest natural of explorations: nothing is cut."""


def verified() -> Specification:
    """The verified group protocol."""
    from herdspec.protocols.group_protocol.properties import GROUP_PROTOCOL

    return GROUP_PROTOCOL


def planned(scale: Scale) -> Plan:
    """The plan of system C."""
    from herdspec.protocols.group_protocol.properties import (
        GROUP_PROTOCOL,
        HELD,
        KEPT,
        without_stopping,
    )

    quick = scale == QUICK
    checks = (
        exploration(group(GROUP_PROTOCOL, 2, 2, 1, faults=1)),
        *(() if quick else (exploration(group(KEPT, 1, 2, 2, faults=1)),)),
        liveness(group(HELD, 1, 2, 1, faults=1)),
        liveness(group(HELD, 2, 1, 1, faults=2)),
        proof("verified", GROUP_PROTOCOL),
        proof("without_stopping", without_stopping()),
    )
    assumed, not_modelled = said_of(GROUP_PROTOCOL)
    specs = {"verified": GROUP_PROTOCOL, "without_stopping": without_stopping()}
    return Plan(
        "group_protocol", checks, others=("without_stopping",), assumed=assumed,
        not_modelled=not_modelled, specs=specs,
    )  # fmt: skip


def group(
    spec: Specification, brokers: int, members: int, partitions: int, *, faults: int
) -> Looked:
    """The group protocol, at a size at which nothing is cut."""
    sizes = {"Broker": brokers, "Member": members, "Partition": partitions}
    return Looked("verified", spec, sizes, faults, bound=BOUND)


PROTOCOL = Protocol(
    "group_protocol", verified, sizes={"Partition": 1}, plan=planned, builds_on=("election",),
)  # fmt: skip
