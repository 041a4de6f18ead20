"""The checks of system A, and system A as every command knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from herdspec.check.plans import (
    MISTAKEN,
    QUICK,
    CheckConfig,
    Scale,
    exploration,
    flawed,
    liveness,
    proof,
    refinement,
    said_of,
)
from herdspec.check.protocol import Protocol
from herdspec.check.verify import Check, Plan
from herdspec.language.specification import Specification

if TYPE_CHECKING:
    from herdspec.check.sentences import Column
    from herdspec.protocols.flaws import Flaw


BOUND = 8
"""The largest natural of explorations: nothing is cut."""
LENGTH = 16
"""The length of simulated runs of leases, whose clocks go further."""


def verified() -> Specification:
    """The corrected self-rebalancing consumers."""
    from herdspec.protocols.self_rebalancing.properties import SELF_REBALANCING

    return SELF_REBALANCING


def drafted() -> Flaw:
    """The self-rebalancing consumers as drafted."""
    from herdspec.protocols.self_rebalancing.flaws import DRAFTED

    return DRAFTED


def columns() -> tuple[Column, ...]:
    """The columns that show the contract's sentences, drafted and as it should be."""
    from herdspec.protocols.self_rebalancing.kept import COLUMNS

    return COLUMNS


def flaws() -> Mapping[str, Flaw]:
    """The corrected protocol with one mistake each."""
    from herdspec.protocols.self_rebalancing.flaws import FLAWS, FOUND, READINGS

    return {**FLAWS, **READINGS, **FOUND}


def contract() -> Specification:
    """The contract: promises that a group without a coordinator owes its users."""
    from herdspec.protocols.self_rebalancing.contract import CLAIMED

    return CLAIMED


def planned(scale: Scale) -> Plan:
    """The plan of system A: the corrected protocol, the draft, both in a group, single mistakes."""
    from herdspec.protocols.lease import flaws as of_leases
    from herdspec.protocols.lease.properties import LEASE_CLOCKS
    from herdspec.protocols.self_rebalancing.complete import IN_ANY_ORDER
    from herdspec.protocols.self_rebalancing.contract import CLAIMED, CLAIMED_FENCED
    from herdspec.protocols.self_rebalancing.kept import DISCHARGES
    from herdspec.protocols.self_rebalancing.properties import (
        HELD,
        PROVED,
        SELF_REBALANCING,
        without_lease,
    )
    from herdspec.protocols.self_rebalancing.refinement import REFINEMENT, REFINEMENT_FENCED
    from herdspec.protocols.self_rebalancing.timed import TIMED
    from herdspec.protocols.self_rebalancing.variants.mixed import MIXED, OWED_TO_NOBODY
    from herdspec.protocols.self_rebalancing.variants.one_topic import ONE_TOPIC

    quick, named = scale == QUICK, {**flaws(), **of_leases.FLAWS}
    mixed = replace(group(MIXED, 2, 1, faults=1), subject="mixed", declared=OWED_TO_NOBODY)
    shared = replace(group(ONE_TOPIC, 2, 2, faults=1), subject="one_topic")
    owed = {"Broker": 1, "Member": 2, "Partition": 1}
    checks = (
        exploration(group(SELF_REBALANCING, 2, 1, faults=2)),
        exploration(group(SELF_REBALANCING, 2, 2, faults=1)),
        *(() if quick else (exploration(group(SELF_REBALANCING, 3, 1, faults=1)),)),
        liveness(group(HELD, 2, 1, faults=2)),
        *(() if quick else (liveness(group(HELD, 2, 2, faults=1)),)),
        proof("verified", PROVED),
        refinement("verified", REFINEMENT, MISTAKEN, sizes=owed, bound=BOUND),
        proof("without_lease", without_lease()),
        refinement("without_lease", REFINEMENT_FENCED, MISTAKEN, sizes=owed, bound=BOUND),
        proof("in_any_order", IN_ANY_ORDER),
        *leases(),
        *(() if quick else (exploration(shared), liveness(shared))),
        exploration(mixed),
        liveness(mixed),
        proof("contract", CLAIMED),
        proof("contract_fenced", CLAIMED_FENCED),
        *flawed("drafted", drafted()),
        *(check for name, flaw in named.items() for check in flawed(name, flaw)),
    )
    assumed, not_modelled = said_of(SELF_REBALANCING)
    beside = {
        "without_lease": without_lease(), "in_any_order": IN_ANY_ORDER, "lease": LEASE_CLOCKS,
        "timed": TIMED, "one_topic": ONE_TOPIC, "mixed": MIXED,
        "contract": CLAIMED, "contract_fenced": CLAIMED_FENCED,
    }  # fmt: skip
    specs = {"verified": SELF_REBALANCING, "drafted": drafted().spec, **beside}
    return Plan(
        "self_rebalancing", checks, others=tuple(beside), flaws=tuple(named), assumed=assumed,
        not_modelled=not_modelled, discharges=DISCHARGES,
        specs=specs | {n: flaw.spec for n, flaw in named.items()},
    )  # fmt: skip


def leases() -> tuple[Check, ...]:
    """Leases under clocks that drift, and that consumers whose sessions are such stop in time."""
    from herdspec.protocols.lease.properties import ANY_CLOCKS, LEASE_CLOCKS
    from herdspec.protocols.lease.refinement import REFINEMENT, REFINEMENT_ANY
    from herdspec.protocols.self_rebalancing.timed import ALONE, DISCHARGE, TIMED

    one, alone = {"Member": 1}, {"Member": 1, "Partition": 1}
    return (
        exploration(CheckConfig("lease", LEASE_CLOCKS, {"Member": 2}, 1, bound=LENGTH)),
        proof("lease", ANY_CLOCKS),
        refinement(
            "lease", REFINEMENT_ANY, MISTAKEN, sizes=one, bound=LENGTH, looked_at=REFINEMENT
        ),
        proof("timed", TIMED),
        refinement("timed", DISCHARGE, MISTAKEN, sizes=alone, bound=LENGTH, looked_at=ALONE),
    )


def group(spec: Specification, members: int, partitions: int, *, faults: int) -> CheckConfig:
    """Self-rebalancing consumers, at a size at which nothing is cut."""
    sizes = {"Member": members, "Partition": partitions}
    return CheckConfig("verified", spec, sizes, faults, bound=BOUND)


def noticing(members: int, partitions: int, *, faults: int) -> CheckConfig:
    """All that is promised, of a group at such a size."""
    from herdspec.protocols.self_rebalancing.properties import NOTICING

    return group(NOTICING, members, partitions, faults=faults)


def held() -> CheckConfig:
    """The herd, at a size at which code is taken along every step in seconds."""
    return noticing(2, 1, faults=0)


def mistaken() -> list[CheckConfig]:
    """All that is promised, at a size at which most mistakes show."""
    return [noticing(2, 1, faults=1)]


PROTOCOL = Protocol(
    "self_rebalancing", verified, contract=contract, drafted=drafted, flaws=flaws, plan=planned,
    mistaken=mistaken, columns=columns, held=held,
)  # fmt: skip
