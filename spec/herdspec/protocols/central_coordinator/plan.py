"""The checks of system B, and system B as every command knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from herdspec.check.plans import (
    QUICK,
    CheckConfig,
    Scale,
    exploration,
    flawed,
    liveness,
    proof,
    refinement_seen,
    said_of,
)
from herdspec.check.protocol import Protocol
from herdspec.check.verify import Check, Plan
from herdspec.language.specification import Specification

if TYPE_CHECKING:
    from herdspec.check.refinement.refine import Refinement
    from herdspec.check.sentences import Column
    from herdspec.protocols.flaws import Flaw

ALONE_TIMED, LENGTH = {"Broker": 2, "Member": 1, "Partition": 1}, 8
"""The size at which the coordinator with clocks is explored, and how long its lengths may be."""
OTHERS = ("without_lease", "timed", "contract", "resuming", "timed_resuming")
"""The subjects of rows beside the verified one's."""


def verified() -> Specification:
    """The verified central coordinator."""
    from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR

    return CENTRAL_COORDINATOR


def contract() -> Specification:
    """The contract: promises that every group protocol owes its users."""
    from herdspec.protocols.contract.properties import RESETTING

    return RESETTING


def drafted() -> Flaw:
    """The central coordinator as drafted, with its own consumer."""
    from herdspec.protocols.central_coordinator.flaws import DRAFTED_002

    return DRAFTED_002


def columns() -> tuple[Column, ...]:
    """The columns that show the contract's sentences, drafted and as it should be."""
    from herdspec.protocols.central_coordinator.kept import COLUMNS

    return COLUMNS


def variants() -> dict[str, Specification]:
    """Members that say which registrations have stopped, or where; and who resumes, as ours do."""
    from herdspec.protocols.central_coordinator.variants.bringing_properties import BRINGING
    from herdspec.protocols.central_coordinator.variants.resuming_properties import RESUMING
    from herdspec.protocols.central_coordinator.variants.returning_properties import RETURNING

    return {"returning": RETURNING, "bringing": BRINGING, "resuming": RESUMING}


def resumed() -> tuple[Check, ...]:
    """The checks of members that resume, which is how ours are by default."""
    from herdspec.protocols.central_coordinator.variants.resuming_properties import (
        RESUMING,
        RESUMING_HELD,
        RESUMING_REFINEMENT,
    )
    from herdspec.protocols.central_coordinator.variants.resuming_timed import (
        DISCHARGE_ALONE,
        TIMED_RESUMING,
    )

    looked = replace(central(RESUMING, 2, 1, 2, faults=1), subject="resuming")
    alone = replace(central(RESUMING_HELD, 2, 1, 1, faults=1), subject="resuming")
    return (
        exploration(looked),
        liveness(alone),
        proof("resuming", RESUMING, ()),
        refinement_seen("resuming", RESUMING_REFINEMENT, looked.sizes, faults=1, bound=5),
        proof("timed_resuming", TIMED_RESUMING, ()),
        refinement_seen("timed_resuming", DISCHARGE_ALONE, ALONE_TIMED, faults=1, bound=LENGTH),
    )


def flaws() -> Mapping[str, Flaw]:
    """It, or one of its forms, with one mistake each, and `002` with `000`'s consumer."""
    from herdspec.protocols.central_coordinator.flaws import DRAFTED_000, FLAWS, FOUND
    from herdspec.protocols.central_coordinator.variants.bringing_flaws import BRINGING_FLAWS
    from herdspec.protocols.central_coordinator.variants.resuming_flaws import RESUMING_FLAWS
    from herdspec.protocols.central_coordinator.variants.returning_flaws import RETURNING_FLAWS

    of_variants = {**RETURNING_FLAWS, **BRINGING_FLAWS, **RESUMING_FLAWS}
    return {"drafted-000": DRAFTED_000, **FLAWS, **FOUND, **of_variants}


def planned(scale: Scale) -> Plan:
    """The plan of system B: the verified protocol, the two drafts, and single mistakes."""
    from herdspec.protocols.central_coordinator.flaws import (
        ALONE,
        DRAFTED_000,
        DRAFTED_002,
        FLAWS,
        FOUND,
    )
    from herdspec.protocols.central_coordinator.kept import DISCHARGES
    from herdspec.protocols.central_coordinator.properties import (
        CENTRAL_COORDINATOR,
        HELD,
        without_lease,
    )
    from herdspec.protocols.central_coordinator.refinement import REFINEMENT, REFINEMENT_FENCED
    from herdspec.protocols.central_coordinator.timed import DISCHARGE, TIMED
    from herdspec.protocols.central_coordinator.variants.resuming_timed import TIMED_RESUMING
    from herdspec.protocols.contract.properties import RESETTING

    quick = scale == QUICK
    flaws = {"drafted-000": DRAFTED_000, **FLAWS, **FOUND}
    checks = (
        exploration(central(CENTRAL_COORDINATOR, 2, 2, 2, faults=1)),
        exploration(central(CENTRAL_COORDINATOR, 2, 1, 2, faults=2)),
        liveness(central(HELD, 2, 1, 2, faults=1)),
        *(() if quick else (liveness(central(HELD, 2, 2, 1, faults=1)),)),
        proof("verified", CENTRAL_COORDINATOR, ()),
        proof("without_lease", without_lease(), ()),
        seen_as("verified", REFINEMENT, faults=1),
        *(() if quick else (seen_as("verified", REFINEMENT_FENCED, faults=2),)),
        proof("timed", TIMED, ()),
        refinement_seen("timed", DISCHARGE, ALONE_TIMED, faults=1, bound=LENGTH),
        exploration(owed(2, 1, 2, faults=2)),
        liveness(owed(2, 1, 1, faults=2)),
        proof("contract", RESETTING, ()),
        *resumed(),
        *flawed("drafted", DRAFTED_002),
        flawed("drafted", ALONE)[-1],
        *(check for name, flaw in flaws.items() for check in flawed(name, flaw)),
    )
    specs = {
        "verified": CENTRAL_COORDINATOR, "without_lease": without_lease(), "contract": RESETTING,
        "timed": TIMED, "timed_resuming": TIMED_RESUMING, "drafted": DRAFTED_002.spec, **variants(),
    }  # fmt: skip
    assumed, not_modelled = said_of(CENTRAL_COORDINATOR)
    return Plan(
        "central_coordinator", checks, others=OTHERS,
        flaws=tuple(flaws), assumed=assumed, not_modelled=not_modelled, discharges=DISCHARGES,
        specs=specs | {n: flaw.spec for n, flaw in flaws.items()},
    )  # fmt: skip


def central(
    spec: Specification, members: int, partitions: int, brokers: int, *, faults: int
) -> CheckConfig:
    """The verified central coordinator, at a size at which nothing is cut."""
    sizes = {"Broker": brokers, "Member": members, "Partition": partitions}
    return CheckConfig("verified", spec, sizes, faults, bound=4 + faults)


def held() -> CheckConfig:
    """The central coordinator, at a size at which code is taken along every step in minutes."""
    return central(verified(), 1, 1, 1, faults=1)


def brought() -> CheckConfig:
    """Members that say where they stopped, at a size at which code is taken on walks."""
    from herdspec.protocols.central_coordinator.variants.bringing_properties import BRINGING_HELD

    return replace(central(BRINGING_HELD, 2, 1, 2, faults=2), subject="bringing")


def mistaken() -> list[CheckConfig]:
    """All that the central coordinator promises, at sizes at which most of its mistakes show."""
    from herdspec.protocols.central_coordinator.properties import NOTICING

    return [
        central(NOTICING, 1, 1, 1, faults=1),
        central(NOTICING, 1, 2, 1, faults=1),
        central(NOTICING, 1, 1, 2, faults=2),
        central(NOTICING, 2, 1, 1, faults=1),
    ]


def owed(members: int, partitions: int, brokers: int, *, faults: int) -> CheckConfig:
    """The contract of every group protocol, at a size at which nothing is cut."""
    from herdspec.protocols.contract.properties import RESETTING

    sizes = {"Broker": brokers, "Member": members, "Partition": partitions}
    return CheckConfig("contract", RESETTING, sizes, faults, bound=14)


def seen_as(subject: str, through: Refinement, *, faults: int) -> Check:
    """Every step of the central coordinator is the contract's: seen where nothing is cut."""
    sizes = {"Broker": 2, "Member": 2, "Partition": 1}
    return refinement_seen(subject, through, sizes, faults=faults, bound=4 + faults)


PROTOCOL = Protocol(
    "central_coordinator", verified, sizes={"Partition": 1}, contract=contract, drafted=drafted,
    variants=variants, flaws=flaws, plan=planned, mistaken=mistaken, columns=columns, held=held,
    builds_on=("election",),
)  # fmt: skip
