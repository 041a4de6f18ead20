"""
Is a rebalance necessary? The checks 3.1 to 3.5 of `002`, one function each.

The draft's 3.5 looks at the stored owners alone. So a consumer that lost its connection, closed its
fetchers and came back would never be started again if the new plan equals those owners. Here a
rebalance is unnecessary only if, beside that, every live registration has acknowledged exactly that
Start in this epoch.

Source: `002` (rebalance, step 3), PROTOCOLS.md, ruling 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import StrEnum

from herdproof.consuming.assignment import Partition
from herdproof.protocols.central_coordinator.coordinator.groups import Group, Owner

Plan = Mapping[Partition, str]
"""The registration that each partition is meant for."""
Owners = Mapping[Partition, Owner]


class Necessity(StrEnum):
    """Why a rebalance is necessary; 3.1 to 3.5 in this order, as operators read it."""

    NOTHING_REGISTERED = "no owner is registered"
    NOT_OWNED = "a partition has no owner"
    GONE = "a partition that has an owner is gone"
    MISMATCH = "the owners are not those planned"
    NOT_STARTED = "a consumer has not acknowledged its Start"


def nothing_registered(group: Group) -> bool:
    """3.1: no ownership of this group was ever registered in ZooKeeper."""
    return group.generation == 0


def some_not_owned(owners: Owners, plan: Plan) -> bool:
    """3.2: some partition is not owned by anybody."""
    return any(partition not in owners for partition in plan)


def some_gone(owners: Owners, existing: Set[Partition]) -> bool:
    """3.3: some partition that has an owner does not exist any longer."""
    return any(partition not in existing for partition in owners)


def some_mismatch(owners: Owners, plan: Plan) -> bool:
    """3.4: the owners are not those of the new plan."""
    return len(owners) != len(plan) or any(
        owner.registration != plan.get(partition) for partition, owner in owners.items()
    )


def some_not_started(group: Group) -> bool:
    """3.5 as corrected: some live registration has not acknowledged the present Start."""
    return any(member.acked != group.generation for member in group.members.values())


def why_necessary(group: Group, plan: Plan, existing: Set[Partition]) -> Necessity | None:
    """Why a rebalance is necessary, or None if it is not."""
    if nothing_registered(group):
        return Necessity.NOTHING_REGISTERED
    if some_not_owned(group.owners, plan):
        return Necessity.NOT_OWNED
    if some_gone(group.owners, existing):
        return Necessity.GONE
    if some_mismatch(group.owners, plan):
        return Necessity.MISMATCH
    if some_not_started(group):
        return Necessity.NOT_STARTED
    return None
