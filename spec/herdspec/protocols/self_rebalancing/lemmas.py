"""
Lemmas of the self-rebalancing consumers: with these its properties are inductive.

Each is needed, and is proved with the promises, for any number of members and partitions.
"""

from __future__ import annotations

from herdspec import lemma
from herdspec.protocols.self_rebalancing.spec import (
    Member,
    Partition,
    Rebalance,
    SelfRebalancing,
    Session,
)


def may_believe(phase: Rebalance) -> bool:
    """While a consumer may have something in topicRegistry."""
    return phase in (
        Rebalance.RESTING,
        Rebalance.COMMITTING,
        Rebalance.RELEASING,
        Rebalance.BACKING_OFF,
    )


@lemma
def tokens_are_of_claims(s: SelfRebalancing) -> bool:
    """No token lies ahead, none is given to two, and the latest claim's is its owner's."""
    return all(
        s.token[m, p] <= s.version[p]
        and (not s.holds(m, p) or s.owner[p] is None or s.owner[p] == m)
        for m in Member
        for p in Partition
    ) and all(
        s.token[a, p] == 0 or s.token[a, p] != s.token[b, p]
        for p in Partition
        for a in Member
        for b in Member
        if a != b
    )


@lemma
def owner_nodes_are_of_sessions(s: SelfRebalancing) -> bool:
    """An owner's session lives, and so does the session of who is registered."""
    return all(
        (s.owner[p] != m or s.registered[m])
        and s.registered[m]
        == (s.session[m] in (Session.CONNECTED, Session.SUSPENDED, Session.DEAD))
        for m in Member
        for p in Partition
    )


@lemma
def what_is_claimed_is_owned(s: SelfRebalancing) -> bool:
    """
    Who knows of its claim knows the latest, if it owns the partition.

    Who is about to pull from what it has claimed owns it, while its session lives.
    """
    return all(
        (s.owner[p] != m or s.token[m, p] == 0 or s.holds(m, p))
        and (
            s.phase[m] not in (Rebalance.CLAIMING, Rebalance.STARTING)
            or s.token[m, p] == 0
            or not s.registered[m]
            or s.owner[p] == m
        )
        for m in Member
        for p in Partition
    )


@lemma
def each_phase_has_its_beliefs(s: SelfRebalancing) -> bool:
    """What a consumer believes goes with how far it is; of who is gone nothing is left."""
    return all(
        (not s.registry[m, p] or (s.token[m, p] > 0 and may_believe(s.phase[m])))
        and (
            s.token[m, p] == 0
            or s.phase[m] not in (Rebalance.TOPICS, Rebalance.IDS, Rebalance.OFFSETS)
        )
        and (not s.fetching[m, p] or (s.registry[m, p] and s.phase[m] == Rebalance.RESTING))
        and (s.phase[m] != Rebalance.STARTING or not s.planned[m, p] or s.token[m, p] > 0)
        and (
            s.session[m] not in (Session.NONE, Session.DEAD)
            or (s.phase[m] == Rebalance.RESTING and s.token[m, p] == 0)
        )
        for m in Member
        for p in Partition
    )


@lemma
def who_holds_a_partition_is_ahead(s: SelfRebalancing) -> bool:
    """Nobody but who claimed last stores an offset, and that one began at the stored offset."""
    return all(
        (not s.registry[m, p] or not s.holds(m, p) or s.committed[p] <= s.consumed[m, p])
        and (
            s.phase[m] != Rebalance.STARTING
            or not s.planned[m, p]
            or not s.holds(m, p)
            or s.committed[p] == s.consumed[m, p]
        )
        and (
            s.phase[m] != Rebalance.RELEASING
            or not s.registry[m, p]
            or not s.holds(m, p)
            or s.committed[p] == s.consumed[m, p]
        )
        and s.consumed[m, p] <= s.fetched[m, p] <= s.consumed[m, p] + 1
        for m in Member
        for p in Partition
    )


@lemma
def what_is_owned_was_planned(s: SelfRebalancing) -> bool:
    """A running consumer's owner nodes are of its last plan: none is forgotten by a release."""
    return all(
        s.owner[p] != m
        or s.session[m] == Session.DEAD
        or (
            s.planned[m, p]
            and s.phase[m] not in (Rebalance.TOPICS, Rebalance.IDS, Rebalance.OFFSETS)
        )
        for m in Member
        for p in Partition
    )


LEMMAS = (
    tokens_are_of_claims, owner_nodes_are_of_sessions, what_is_claimed_is_owned,
    each_phase_has_its_beliefs, who_holds_a_partition_is_ahead, what_is_owned_was_planned,
)  # fmt: skip
"""Lemmas of the promises and of the refinement; none needs the assumption `session_lease`."""
