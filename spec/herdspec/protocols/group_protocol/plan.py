"""The checks of system C, and system C as every command knows it."""

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
PROVED_ALONE = (
    "choice_without_stopping", "administered_without_stopping", "subscriptions_without_stopping",
)  # fmt: skip
"""Variants that are proved for any size, and not explored besides."""
PROVED = ("choice", "administered", "subscriptions", *PROVED_ALONE)
"""Variants that are proved."""


def verified() -> Specification:
    """The verified group protocol."""
    from herdspec.protocols.group_protocol.properties import GROUP_PROTOCOL

    return GROUP_PROTOCOL


def drafted() -> Flaw:
    """The group protocol with its client as it is printed."""
    from herdspec.protocols.group_protocol.flaws import DRAFTED

    return DRAFTED


def columns() -> tuple[Column, ...]:
    """The columns that show the contract's sentences, drafted and as it should be."""
    from herdspec.protocols.group_protocol.kept import COLUMNS

    return COLUMNS


def flaws() -> Mapping[str, Flaw]:
    """The verified group protocol, and its variants, with one mistake each."""
    from herdspec.protocols.group_protocol.flaws import FOUND, KAFKAS, PRINTED
    from herdspec.protocols.group_protocol.variants.administered.flaws import ADMINISTERED_FLAWS
    from herdspec.protocols.group_protocol.variants.choice.flaws import CHOICE_FLAWS
    from herdspec.protocols.group_protocol.variants.cooperative.flaws import COOPERATIVE_FLAWS
    from herdspec.protocols.group_protocol.variants.positions.flaws import POSITIONS_FLAWS
    from herdspec.protocols.group_protocol.variants.static.flaws import STATIC_FLAWS
    from herdspec.protocols.group_protocol.variants.subscriptions.flaws import SUBSCRIPTION_FLAWS

    return {
        **PRINTED, **KAFKAS, **FOUND, **STATIC_FLAWS, **COOPERATIVE_FLAWS, **CHOICE_FLAWS,
        **ADMINISTERED_FLAWS, **POSITIONS_FLAWS, **SUBSCRIPTION_FLAWS,
    }  # fmt: skip


def planned(scale: Scale) -> Plan:
    """The plan of system C."""
    from herdspec.protocols.group_protocol.properties import (
        GROUP_PROTOCOL,
        HELD,
        KEPT,
        LATER,
        without_stopping,
    )
    from herdspec.protocols.group_protocol.refinement import (
        REFINEMENT,
        REFINEMENT_FENCED,
        REFINEMENT_FENCED_ALONE,
    )
    from herdspec.protocols.group_protocol.stored_members import STORED_MEMBERS
    from herdspec.protocols.group_protocol.watched import WATCHED_HELD

    quick, named = scale == QUICK, flaws()
    seen = {"Broker": 2, "Member": 2, "Partition": 1}
    checks = (
        exploration(group(GROUP_PROTOCOL, 2, 2, 1, faults=1)),
        *(() if quick else (exploration(group(KEPT, 1, 2, 2, faults=1)),)),
        *(() if quick else (exploration(group(LATER, 1, 2, 1, faults=2)),)),
        liveness(group(HELD, 1, 2, 1, faults=1)),
        liveness(group(HELD, 2, 1, 1, faults=2)),
        proof("verified", REFINEMENT.concrete),
        refinement("verified", REFINEMENT, MISTAKEN, sizes=seen, bound=BOUND),
        proof("without_stopping", REFINEMENT_FENCED.concrete),
        refinement(
            "without_stopping",
            REFINEMENT_FENCED,
            QUICK,
            sizes={**seen, "Broker": 1},
            bound=BOUND,
            looked_at=REFINEMENT_FENCED_ALONE,
        ),
        proof("contract", STORED_MEMBERS),
        exploration(group(WATCHED_HELD, 1, 2, 1, faults=1)),
        *varied(),
        *flawed("drafted", drafted()),
        *(check for name, flaw in named.items() for check in flawed(name, flaw)),
    )
    assumed, not_modelled = said_of(GROUP_PROTOCOL)
    beside = {
        "without_stopping": without_stopping(), "contract": STORED_MEMBERS, **variants(),
    }  # fmt: skip
    specs = {"verified": GROUP_PROTOCOL, "drafted": drafted().spec, **beside}
    return Plan(
        "group_protocol", checks, others=tuple(beside), flaws=tuple(named), assumed=assumed,
        not_modelled=not_modelled, specs=specs | {n: flaw.spec for n, flaw in named.items()},
    )  # fmt: skip


def variants() -> dict[str, Specification]:
    """The variants: other members, choice, administration, positions, subscriptions that change."""
    from herdspec.protocols.group_protocol.variants.administered.properties import (
        ADMINISTERED,
        administered_without_stopping,
    )
    from herdspec.protocols.group_protocol.variants.choice.properties import (
        CHOICE,
        choice_without_stopping,
    )
    from herdspec.protocols.group_protocol.variants.cooperative.properties import (
        COOPERATIVE,
        cooperative_without_stopping,
    )
    from herdspec.protocols.group_protocol.variants.positions.properties import POSITIONS
    from herdspec.protocols.group_protocol.variants.static.properties import (
        STATIC,
        static_without_stopping,
    )
    from herdspec.protocols.group_protocol.variants.subscriptions.properties import (
        SUBSCRIPTIONS,
        subscriptions_without_stopping,
    )

    return {
        "static": STATIC, "static_without_stopping": static_without_stopping(),
        "cooperative": COOPERATIVE, "cooperative_without_stopping": cooperative_without_stopping(),
        "choice": CHOICE, "choice_without_stopping": choice_without_stopping(),
        "administered": ADMINISTERED,
        "administered_without_stopping": administered_without_stopping(),
        "positions": POSITIONS, "subscriptions": SUBSCRIPTIONS,
        "subscriptions_without_stopping": subscriptions_without_stopping(),
    }  # fmt: skip


def varied() -> tuple[Check, ...]:
    """The checks of the variants: two members, one fault where nothing else is said; or any."""
    looked = {name: varied_told(name) for name in variants()}
    living = (
        looked["static_without_stopping"], looked["cooperative"], looked["choice"],
        resized(looked["administered"], Broker=2, Member=1),
        varied_told("subscriptions", faults=1),
    )  # fmt: skip
    return (
        *(exploration(at) for at in looked.values() if at.subject not in PROVED_ALONE),
        *(liveness(at) for at in living),
        *(proof(name, looked[name].spec) for name in PROVED),
        *positioned(),
    )


def positioned() -> tuple[Check, ...]:
    """Further checks of fetch positions: their proof, and that they settle."""
    from herdspec.protocols.group_protocol.variants.positions.properties import POSITIONS

    alone = {"Broker": 1, "Member": 1, "Partition": 1}
    return (
        proof("positions", POSITIONS),
        liveness(CheckConfig("positions", POSITIONS, alone, 2, bound=BOUND)),
        liveness(CheckConfig("positions", POSITIONS, {**alone, "Member": 2}, 0, bound=BOUND)),
    )


def varied_told(name: str, *, faults: int | None = None) -> CheckConfig:
    """A variant: two members, two protocols to choose from, one of everything else."""
    spec = variants()[name]
    sizes = {sort: 2 if sort in ("Member", "Assignor") else 1 for sort in spec.sorts}
    most = 2 if name.startswith(("administered", "subscriptions")) else 1
    return CheckConfig(name, spec, sizes, most if faults is None else faults, bound=BOUND)


def resized(looked: CheckConfig, **sizes: int) -> CheckConfig:
    """A check configuration with other numbers of some sorts."""
    return replace(looked, sizes={**looked.sizes, **sizes})


def group(
    spec: Specification, brokers: int, members: int, partitions: int, *, faults: int
) -> CheckConfig:
    """The group protocol, at a size at which nothing is cut."""
    sizes = {"Broker": brokers, "Member": members, "Partition": partitions}
    return CheckConfig("verified", spec, sizes, faults, bound=BOUND)


def told(brokers: int, members: int, partitions: int, *, faults: int) -> CheckConfig:
    """The group protocol and all that is known of it, as code is held to it."""
    from herdspec.protocols.group_protocol.properties import GROUP_PROTOCOL

    return group(GROUP_PROTOCOL, brokers, members, partitions, faults=faults)


def held() -> CheckConfig:
    """The group protocol, at a size at which code is taken along every step in seconds."""
    return told(1, 1, 1, faults=1)


def contract() -> Specification:
    """The contract: promises that a group whose members are stored owes its users."""
    from herdspec.protocols.group_protocol.stored_members import STORED_MEMBERS

    return STORED_MEMBERS


def mistaken() -> list[CheckConfig]:
    """All that is promised and watched, at sizes at which most mistakes show."""
    from herdspec.protocols.group_protocol.watched import WATCHED_GROUP

    return [
        group(WATCHED_GROUP, 1, 1, 1, faults=1),
        group(WATCHED_GROUP, 2, 1, 1, faults=1),
        group(WATCHED_GROUP, 1, 2, 1, faults=1),
    ]


def mistaken_forms() -> dict[str, CheckConfig]:
    """Forms into which mistakes are put, with one member, and all that is watched of each."""
    from herdspec.protocols.group_protocol.variants.watched_forms import FORMS_WATCHED

    return {
        name: replace(resized(varied_told(name), Member=1), spec=spec)
        for name, spec in FORMS_WATCHED.items()
    }


PROTOCOL = Protocol(
    "group_protocol", verified, sizes={"Partition": 1}, contract=contract, drafted=drafted,
    variants=variants, flaws=flaws, plan=planned, mistaken=mistaken,
    columns=columns, held=held, builds_on=("election",),
)  # fmt: skip
