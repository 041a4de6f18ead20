"""The checks of system A, and system A as every command knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from herdspec.check.plans import QUICK, Looked, Scale, exploration, flawed, liveness, proof, said_of
from herdspec.check.protocol import Protocol
from herdspec.check.verify import Plan
from herdspec.language.specification import Specification

if TYPE_CHECKING:
    from herdspec.protocols.flaws import Flaw


def verified() -> Specification:
    """The corrected self-rebalancing consumers."""
    from herdspec.protocols.self_rebalancing.properties import SELF_REBALANCING

    return SELF_REBALANCING


def drafted() -> Flaw:
    """The self-rebalancing consumers as drafted."""
    from herdspec.protocols.self_rebalancing.flaws import DRAFTED

    return DRAFTED


def flaws() -> Mapping[str, Flaw]:
    """The corrected protocol with one mistake each."""
    from herdspec.protocols.self_rebalancing.flaws import FLAWS, FOUND, READINGS

    return {**FLAWS, **READINGS, **FOUND}


def planned(scale: Scale) -> Plan:
    """The plan of system A: the corrected protocol, the draft, and single mistakes."""
    from herdspec.protocols.self_rebalancing.properties import (
        HELD,
        PROVED,
        SELF_REBALANCING,
        without_lease,
    )

    quick, named = scale == QUICK, flaws()
    checks = (
        exploration(group(SELF_REBALANCING, 2, 1, faults=2)),
        exploration(group(SELF_REBALANCING, 2, 2, faults=1)),
        *(() if quick else (exploration(group(SELF_REBALANCING, 3, 1, faults=1)),)),
        liveness(group(HELD, 2, 1, faults=2)),
        *(() if quick else (liveness(group(HELD, 2, 2, faults=1)),)),
        proof("verified", PROVED, ()),
        proof("without_lease", without_lease(), ()),
        *flawed("drafted", drafted()),
        *(check for name, flaw in named.items() for check in flawed(name, flaw)),
    )
    assumed, not_modelled = said_of(SELF_REBALANCING)
    specs = {"verified": SELF_REBALANCING, "without_lease": without_lease()}
    return Plan(
        "self_rebalancing", checks, others=("without_lease",), flaws=tuple(named),
        assumed=assumed, not_modelled=not_modelled,
        specs=specs | {"drafted": drafted().spec} | {n: flaw.spec for n, flaw in named.items()},
    )  # fmt: skip


def group(spec: Specification, members: int, partitions: int, *, faults: int) -> Looked:
    """Self-rebalancing consumers, at a size at which nothing is cut."""
    sizes = {"Member": members, "Partition": partitions}
    return Looked("verified", spec, sizes, faults, bound=8)


def mistaken() -> list[Looked]:
    """All that is promised, at sizes at which most mistakes show."""
    from herdspec.protocols.self_rebalancing.properties import NOTICING

    return [group(NOTICING, 2, 1, faults=1), group(NOTICING, 2, 1, faults=2)]


PROTOCOL = Protocol(
    "self_rebalancing", verified, drafted=drafted, flaws=flaws, plan=planned, mistaken=mistaken,
)  # fmt: skip
