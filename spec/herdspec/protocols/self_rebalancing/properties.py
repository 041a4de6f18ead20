"""
The properties of the self-rebalancing consumers: the contract's sentences, each under its name.

`exclusive` and `who_fetches_owns` hold under the assumption `session_lease` alone, which
`SELF_REBALANCING` makes; all the others hold without it, too (`without_lease`).
"""

from __future__ import annotations

from herdspec import Specification, always, leads_to, recoverable, sometimes, specification, step
from herdspec.protocols.self_rebalancing.lemmas import LEMMAS as LEMMAS
from herdspec.protocols.self_rebalancing.spec import (
    Member,
    Partition,
    Rebalance,
    SelfRebalancing,
    Session,
)
from herdspec.protocols.self_rebalancing.values import Rank

# ── The contract ────────────────────────────────────────────────────────────────────────────


@always
def exclusive(s: SelfRebalancing) -> bool:
    """At no time do two members consume the same partition."""
    return all(
        not (s.fetching[a, p] and s.fetching[b, p])
        for p in Partition
        for a in Member
        for b in Member
        if a != b
    )


@step
def exclusive_fenced(before: SelfRebalancing, after: SelfRebalancing) -> bool:
    """No offset is written for a partition that ZooKeeper names another's."""
    return all(
        before.committed[p] == after.committed[p]
        or any(
            before.registry[m, p]
            and (before.owner[p] is None or before.owner[p] == m)
            and after.committed[p] in (before.consumed[m, p], before.fetched[m, p])
            for m in Member
        )
        for p in Partition
    )


@step
def who_owns_is_not_deleted_by_others(before: SelfRebalancing, after: SelfRebalancing) -> bool:
    """An owner node goes with its owner's session, or by its owner's own second step."""
    return all(
        before.owner[p] == after.owner[p]
        or before.owner[p] != m
        or before.registered[m] != after.registered[m]
        or (before.phase[m] == Rebalance.RELEASING and after.phase[m] == Rebalance.TOPICS)
        for p in Partition
        for m in Member
    )


@step
def versions_never_go_back(before: SelfRebalancing, after: SelfRebalancing) -> bool:
    """No version of a partition's node is followed by an older one."""
    return all(before.version[p] <= after.version[p] for p in Partition)


@step
def committed_offsets_never_go_back(before: SelfRebalancing, after: SelfRebalancing) -> bool:
    """No committed offset is followed by a smaller one."""
    return all(before.committed[p] <= after.committed[p] for p in Partition)


@always
def only_finished_is_committed(s: SelfRebalancing) -> bool:
    """Nothing is committed of a record before which one is unfinished."""
    return all(s.committed[p] <= s.finished[p] for p in Partition)


@always
def nobody_is_past_the_unfinished(s: SelfRebalancing) -> bool:
    """Nobody is at a record before which one is unfinished."""
    return all(s.consumed[m, p] <= s.finished[p] for m in Member for p in Partition)


@step
def a_start_is_at_the_stored_offset(before: SelfRebalancing, after: SelfRebalancing) -> bool:
    """Who begins to pull from a partition begins where its offset is stored."""
    return all(
        before.fetching[m, p]
        or not after.fetching[m, p]
        or after.consumed[m, p] == before.committed[p]
        for m in Member
        for p in Partition
    )


@step
def what_is_finished_is_stored_at_a_release(
    before: SelfRebalancing, after: SelfRebalancing
) -> bool:
    """Who gives a partition back in order has stored how far it is."""
    return all(
        before.phase[m] != Rebalance.RELEASING
        or after.phase[m] != Rebalance.TOPICS
        or before.owner[p] != m
        or not before.registry[m, p]
        or before.committed[p] >= before.consumed[m, p]
        for m in Member
        for p in Partition
    )


@always
def who_fetches_owns(s: SelfRebalancing) -> bool:
    """Who pulls from a partition is its owner."""
    return all(not s.fetching[m, p] or s.owner[p] == m for m in Member for p in Partition)


def rests(s: SelfRebalancing, m: Member) -> bool:
    """The consumer reaches ZooKeeper, and nothing is left for it to do; or there is none."""
    return s.session[m] == Session.NONE or (
        s.session[m] == Session.CONNECTED and s.phase[m] == Rebalance.RESTING and not s.due[m]
    )


def stable(s: SelfRebalancing) -> bool:
    """Every consumer rests."""
    return all(rests(s, m) for m in Member)


def wanted(s: SelfRebalancing, p: Partition) -> bool:
    """A consumer is interested in a partition that there is."""
    return s.exists[p] and any(s.registered[m] and s.interest[m, p] for m in Member)


def is_pulled(s: SelfRebalancing, p: Partition) -> bool:
    """The partition's owner is interested in it, and pulls from it."""
    return any(s.owner[p] == m and s.fetching[m, p] and s.interest[m, p] for m in Member)


@always
def complete(s: SelfRebalancing) -> bool:
    """Once the group is stable, each partition that is wanted is pulled from by its owner."""
    return not stable(s) or all(not wanted(s, p) or is_pulled(s, p) for p in Partition)


def settled(s: SelfRebalancing) -> bool:
    """The group is stable, and every partition that is wanted is pulled from."""
    return stable(s) and all(not wanted(s, p) or is_pulled(s, p) for p in Partition)


@leads_to
def settles(s: SelfRebalancing) -> tuple[bool, bool]:
    """Without further faults the group is stable, in the end, and every partition is pulled."""
    return True, settled(s)


@recoverable
def it_can_settle(s: SelfRebalancing) -> bool:
    """Without further faults the group can become stable, with every partition pulled."""
    return settled(s)


# ── What must be possible: every noun is met ────────────────────────────────────────────────


@sometimes
def a_partition_is_consumed(s: SelfRebalancing) -> bool:
    """A consumer has finished with a record, and the offset is stored."""
    return any(
        s.fetching[m, p] and s.consumed[m, p] > 0 and s.committed[p] == s.consumed[m, p]
        for m in Member
        for p in Partition
    )


@sometimes
def a_second_owner_follows_the_first(s: SelfRebalancing) -> bool:
    """A partition is consumed by its second owner, from an offset that the first one stored."""
    return any(
        s.fetching[m, p] and s.version[p] > 1 and s.token[m, p] == s.version[p]
        and s.committed[p] > 0
        for m in Member
        for p in Partition
    )  # fmt: skip


@sometimes
def plans_disagree(s: SelfRebalancing) -> bool:
    """Two consumers have planned the same partition for themselves."""
    return any(
        s.planned[a, p] and s.planned[b, p] and s.phase[a] == Rebalance.CLAIMING
        for p in Partition
        for a in Member
        for b in Member
        if a != b
    )  # fmt: skip


@sometimes
def a_claim_waits(s: SelfRebalancing) -> bool:
    """A claim was refused, and waits for the node in its way."""
    return any(s.waits[m, p] for m in Member for p in Partition)


@sometimes
def a_session_expires_before_its_consumer_knows(s: SelfRebalancing) -> bool:
    """A session has ended, and another consumer owns what its consumer believes to own."""
    return any(
        s.session[m] == Session.EXPIRED and s.registry[m, p] and s.owner[p] is not None
        for m in Member
        for p in Partition
    )


@sometimes
def a_claim_is_in_doubt(s: SelfRebalancing) -> bool:
    """A consumer owns a partition, and was not told."""
    return any(s.in_doubt(m, p) for m in Member for p in Partition)


@sometimes
def a_stale_commit_is_refused(s: SelfRebalancing) -> bool:
    """A consumer is about to submit an offset that its token is too old for."""
    return any(
        s.phase[m] == Rebalance.COMMITTING and s.registry[m, p] and not s.accepts_commit(m, p)
        and s.consumed[m, p] < s.committed[p]
        for m in Member
        for p in Partition
    )  # fmt: skip


@sometimes
def a_failed_attempt_is_seen(s: SelfRebalancing) -> bool:
    """An attempt has failed."""
    return any(s.phase[m] == Rebalance.BACKING_OFF for m in Member)


# ── What this architecture cannot promise ───────────────────────────────────────────────────


@step
def who_stops_has_a_reason(before: SelfRebalancing, after: SelfRebalancing) -> bool:
    """Whoever closes its fetchers for a rebalance has something to lose or to gain by it."""
    return all(
        before.phase[m] != Rebalance.RESTING
        or after.phase[m] != Rebalance.COMMITTING
        or not any(before.fetching[m, p] for p in Partition)
        or any(before.registry[m, p] != before.would_be_first(m, p) for p in Partition)
        for m in Member
    )


OF_THE_LEASE = (exclusive, who_fetches_owns)
"""Properties that hold under the assumption `session_lease` alone."""
PROMISES = (
    *OF_THE_LEASE, exclusive_fenced, who_owns_is_not_deleted_by_others,
    versions_never_go_back, committed_offsets_never_go_back, only_finished_is_committed,
    nobody_is_past_the_unfinished,
    a_start_is_at_the_stored_offset, what_is_finished_is_stored_at_a_release,
)  # fmt: skip
"""Properties that are proved."""
WITHOUT_LEASE = tuple(p for p in PROMISES if p not in OF_THE_LEASE)
"""Properties that are proved without the assumption `session_lease`, too."""
POSSIBLE = (
    a_partition_is_consumed, a_second_owner_follows_the_first, plans_disagree, a_claim_waits,
    a_session_expires_before_its_consumer_knows, a_claim_is_in_doubt, a_stale_commit_is_refused,
    a_failed_attempt_is_seen,
)  # fmt: skip

HELD = specification(SelfRebalancing, *PROMISES, complete, settles)
"""The corrected protocol and its promises, without the lemmas."""
NOTICING = specification(SelfRebalancing, *PROMISES, complete, settles, it_can_settle, *POSSIBLE)
"""All that it promises, and what must be possible."""
SELF_REBALANCING = NOTICING.with_properties(*LEMMAS)
"""The corrected protocol, and all that is known of it; `complete` is explored, and not proved."""


# ── For any number of consumers ─────────────────────────────────────────────────────────────


def any_plan(self: SelfRebalancing, m: Member, p: Partition, mine: bool) -> bool:
    """Whatever is planned, by whatever assignor."""
    return True


def any_order(self: SelfRebalancing, one: Rank, other: Rank) -> bool:
    """However the threads are ordered: a bounded rank would bound their number."""
    return True


PROVED = specification(SelfRebalancing, *PROMISES, *LEMMAS).replace(
    "AnyPlan", agrees=any_plan, differ=any_order
)
"""Spec that is proved, for any number of consumers and partitions, and whatever they plan."""


def session_ends_at_will(self: SelfRebalancing, m: Member) -> bool:
    """A session may end while its consumer still delivers."""
    return True


def without_lease() -> Specification:
    """The spec of what is proved without the assumption `session_lease`."""
    return specification(SelfRebalancing, *WITHOUT_LEASE, *LEMMAS).replace(
        "WithoutLease", agrees=any_plan, differ=any_order, lease_is_over=session_ends_at_will
    )
