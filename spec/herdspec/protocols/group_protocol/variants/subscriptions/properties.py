"""Properties of subscriptions that change: the group protocol's, and what is promised of these."""

from __future__ import annotations

from functools import cache

from herdspec import (
    Specification,
    always,
    leads_to,
    lemma,
    recoverable,
    sometimes,
    specification,
    step,
)
from herdspec.protocols.group_protocol.lemmas import LEMMAS, LEMMAS_OF_STOPPING
from herdspec.protocols.group_protocol.properties import (
    OF_STOPPING,
    PROMISES,
    gone_at_once,
    settled,
)
from herdspec.protocols.group_protocol.values import (
    Awaited,
    GroupAnswer,
    GroupState,
    GroupWrite,
    MemberState,
)
from herdspec.protocols.group_protocol.variants.subscriptions.spec import (
    Member,
    Partition,
    ResubscribingGroup,
)

# ── Promises ────────────────────────────────────────────────────────────────────────────────


@step
def only_what_is_wanted_is_read(before: ResubscribingGroup, after: ResubscribingGroup) -> bool:
    """Whoever has a partition goes on with its records only while it subscribes to it."""
    return all(
        not before.consumes(m, p)
        or before.subscribed[m, p]
        or before.position[m, p] == after.position[m, p]
        for m in Member
        for p in Partition
    )


@always
def a_generation_counts_what_was_asked_for(s: ResubscribingGroup) -> bool:
    """Who is in the present generation, or is to be told, is stored with what it asked for."""
    return all(
        not (is_in_a_generation(s, m) and max(s.at[m], s.said[m]) == s.generation)
        or s.interest[m, p] == s.asked_for[m, p]
        for m in Member
        for p in Partition
    )


def is_in_a_generation(s: ResubscribingGroup, m: Member) -> bool:
    """The client was told a generation, or is about to be."""
    return (
        s.client[m] == MemberState.STABLE
        or s.awaits[m] == Awaited.SYNC
        or s.down[m] in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
    )


@always
def who_wants_something_else_joins_again(s: ResubscribingGroup) -> bool:
    """A client that has joined with another subscription than it has now is to join again."""
    return all(
        s.client[m] in (MemberState.OFF, MemberState.UNJOINED)
        or s.rejoin[m]
        or s.subscribed[m, p] == s.asked_for[m, p]
        for m in Member
        for p in Partition
    )


@step
def another_subscription_begins_a_rebalance(
    before: ResubscribingGroup, after: ResubscribingGroup
) -> bool:
    """A member that says something else is not told of the generation that there is."""
    return all(
        not (before.is_member(m) and after.is_member(m))
        or before.coordinator != after.coordinator
        or before.says[m, p] == after.says[m, p]
        or (after.state == GroupState.PREPARING_REBALANCE and after.joined[m])
        for m in Member
        for p in Partition
    )


def all_is_known(s: ResubscribingGroup) -> bool:
    """The group is settled, and the coordinator knows what each client wants."""
    return settled(s) and all(
        s.client[m] == MemberState.OFF or s.interest[m, p] == s.subscribed[m, p]
        for m in Member
        for p in Partition
    )


@leads_to
def settles_with_all_subscriptions(s: ResubscribingGroup) -> tuple[bool, bool]:
    """Without further faults the group becomes stable, in the end, and all have what they want."""
    return True, all_is_known(s)


@recoverable
def it_can_settle_with_all_subscriptions(s: ResubscribingGroup) -> bool:
    """Without further faults the group can become stable, with all that is wanted consumed."""
    return all_is_known(s)


# ── Lemmas ──────────────────────────────────────────────────────────────────────────────────


@lemma
def what_is_said_was_asked_for(s: ResubscribingGroup) -> bool:
    """The coordinator knows what was asked for by who waits for the answer to its JoinGroup."""
    return all(
        not (s.joined[m] and s.is_awaited(m, Awaited.JOIN)) or s.says[m, p] == s.asked_for[m, p]
        for m in Member
        for p in Partition
    )


@lemma
def a_stored_generation_has_what_was_said(s: ResubscribingGroup) -> bool:
    """The members of a generation that is not over have said what is stored with it."""
    return (
        not (
            s.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
            or (s.write == GroupWrite.GENERATION and s.done)
        )
        or all(
            not s.is_member(m) or s.says[m, p] == s.interest[m, p]
            for m in Member
            for p in Partition
        )
    ) and (
        s.coordinator is not None
        or all(
            s.says[m, p] == (s.belongs[m] and s.interest[m, p]) for m in Member for p in Partition
        )
    )


# ── What must be possible ───────────────────────────────────────────────────────────────────


@sometimes
def one_is_stable_that_wants_something_else(s: ResubscribingGroup) -> bool:
    """A client has what it asked for, and has changed its mind meanwhile."""
    return any(
        s.client[m] == MemberState.STABLE and s.owner[p] == m and not s.subscribed[m, p]
        for m in Member
        for p in Partition
    )


@sometimes
def a_partition_is_let_go(s: ResubscribingGroup) -> bool:
    """A partition is consumed by a member; the one that had it stays, and wants it no more."""
    return any(
        s.consumes(m, p) and s.position[o, p] > 0 and not s.subscribed[o, p]
        and s.ready[o] and s.at[o] == s.at[m]
        for m in Member
        for o in Member
        for p in Partition
        if m != o
    )  # fmt: skip


OF_SUBSCRIPTIONS = (
    only_what_is_wanted_is_read, a_generation_counts_what_was_asked_for,
    who_wants_something_else_joins_again, another_subscription_begins_a_rebalance,
)  # fmt: skip
"""Properties of subscriptions, beside all that the group protocol promises."""
SUBSCRIPTION_LEMMAS = (
    what_is_said_was_asked_for, a_stored_generation_has_what_was_said)  # fmt: skip
"""Lemmas of what is promised of subscriptions."""
SUBSCRIPTION_PROMISES = (*PROMISES, *OF_SUBSCRIPTIONS)
"""Promises of subscriptions that change, under the assumption `evicted_has_stopped`."""
SUBSCRIPTIONS_HELD = specification(
    ResubscribingGroup, *SUBSCRIPTION_PROMISES, settles_with_all_subscriptions
)
"""Subscriptions that change, and their promises, without the lemmas."""
SUBSCRIPTIONS = SUBSCRIPTIONS_HELD.with_properties(
    *LEMMAS, *LEMMAS_OF_STOPPING, *SUBSCRIPTION_LEMMAS, it_can_settle_with_all_subscriptions,
    one_is_stable_that_wants_something_else, a_partition_is_let_go,
)  # fmt: skip
"""Subscriptions that change, and all that is known of them."""


@cache
def subscriptions_without_stopping() -> Specification:
    """The spec of what such members promise without the assumption `evicted_has_stopped`."""
    promises = (p for p in SUBSCRIPTION_PROMISES if p not in OF_STOPPING)
    return specification(ResubscribingGroup, *promises, *LEMMAS, *SUBSCRIPTION_LEMMAS).replace(
        "SubscriptionsWithoutStopping", has_stopped=gone_at_once
    )
