"""The properties of cooperative rebalancing: the group protocol's, and what stops no more."""

from __future__ import annotations

from functools import cache

from herdspec import Specification, always, sometimes, specification, step
from herdspec.protocols.group_protocol.properties import (
    OF_STOPPING,
    PROMISES,
    gone_at_once,
    it_can_settle,
    settles,
)
from herdspec.protocols.group_protocol.values import GroupAnswer
from herdspec.protocols.group_protocol.variants.cooperative.spec import (
    CooperativeGroup,
    Member,
    Partition,
)


@step
def who_joins_again_consumes_on(before: CooperativeGroup, after: CooperativeGroup) -> bool:
    """Who keeps its member id, however it joins again, stops nothing but what it is not given."""
    return all(
        not (before.consumes(m, p) and not after.consumes(m, p))
        or not before.has_id[m]
        or not after.has_id[m]
        or (before.down[m] == GroupAnswer.ASSIGNMENT and not before.offered[m, p])
        for m in Member
        for p in Partition
    )


@always
def what_is_withheld_is_its_last_owners(s: CooperativeGroup) -> bool:
    """A partition that moves is offered to nobody before its owner has given it up."""
    return all(
        not s.offered[a, p] or not s.given[b, p]
        for p in Partition
        for a in Member
        for b in Member
        if a != b
    )


@sometimes
def one_consumes_while_it_joins(s: CooperativeGroup) -> bool:
    """A member waits for the answer to its JoinGroup, and consumes."""
    return any(s.joined[m] and s.consumes(m, p) for m in Member for p in Partition)


@sometimes
def a_partition_is_withheld(s: CooperativeGroup) -> bool:
    """A partition is to move, and its owner has not been told yet."""
    return any(s.withheld[p] and s.consumes(m, p) for m in Member for p in Partition)


@sometimes
def what_is_given_up_is_committed(s: CooperativeGroup) -> bool:
    """A member's OffsetCommit of the present generation is under way, for what it has given up."""
    return any(
        s.withheld[p] and s.owns(m, p) and s.committing[m, p] > 0 and not s.given[m, p]
        for m in Member
        for p in Partition
    )


COOPERATIVE_PROMISES = (
    *PROMISES, who_joins_again_consumes_on, what_is_withheld_is_its_last_owners,
)  # fmt: skip
"""Promises of cooperative rebalancing, under the assumption `evicted_has_stopped`."""
COOPERATIVE_HELD = specification(CooperativeGroup, *COOPERATIVE_PROMISES, settles)
"""Cooperative rebalancing and its promises."""
COOPERATIVE = COOPERATIVE_HELD.with_properties(
    it_can_settle, one_consumes_while_it_joins, a_partition_is_withheld,
    what_is_given_up_is_committed,
)  # fmt: skip
"""Cooperative rebalancing, and all that is known of it."""


@cache
def cooperative_without_stopping() -> Specification:
    """The spec of what cooperative rebalancing promises without `evicted_has_stopped`."""
    needing = (*OF_STOPPING, what_is_withheld_is_its_last_owners)
    promises = (p for p in COOPERATIVE_PROMISES if p not in needing)
    return specification(CooperativeGroup, *promises).replace(
        "CooperativeWithoutStopping", has_stopped=gone_at_once
    )
