"""
A real consumer of Kafka 0.8 among corrected ones: what is still owed to whom?

A consumer that is `old` keeps to the drafted rules, as a stranger does that knows of no partition's
version: it claims without raising it, commits and deletes whatever it believes to own, and keeps no
lease. All others keep to the corrected rules. At most one is old at a time.
"""

from __future__ import annotations

from herdspec import always, each, leads_to, require, specification, step
from herdspec.language.surface import action, command, weak
from herdspec.protocols.flaws import Failure
from herdspec.protocols.self_rebalancing import mistakes
from herdspec.protocols.self_rebalancing.properties import (
    committed_offsets_never_go_back,
    exclusive,
    nobody_is_past_the_unfinished,
    only_finished_is_committed,
    rests,
    settles,
)
from herdspec.protocols.self_rebalancing.spec import (
    Member,
    Partition,
    Rebalance,
    SelfRebalancing,
    Session,
)

# ── The rules of both ───────────────────────────────────────────────────────────────────────

corrected_suspend = SelfRebalancing.suspend
corrected_reconnect = SelfRebalancing.reconnect
corrected_new_session = SelfRebalancing.handle_new_session
corrected_close = SelfRebalancing.close_fetchers
corrected_read_topics = SelfRebalancing.read_topics
corrected_read_offsets = SelfRebalancing.read_offsets
corrected_claim = SelfRebalancing.claim
corrected_refusal = SelfRebalancing.refuse_claim
corrected_start = SelfRebalancing.start_fetchers
drafted_reconnect = mistakes.reconnect_and_go_on
drafted_new_session = mistakes.go_on_with_a_new_session
drafted_close = mistakes.close_while_retries_last
drafted_read_topics = mistakes.read_topics_unwatched
drafted_read_offsets = mistakes.read_offsets_before_claims
drafted_refusal = mistakes.refuse_and_forget
drafted_start = mistakes.start_once_all_is_claimed
drafted_renewal = mistakes.renew_watches


class MixedGroup(SelfRebalancing):
    """Corrected consumers, and an old one, in one group."""

    old: dict[Member, bool] = each(False)

    @action(kind=command)
    def keep_to_the_draft(self, m: Member) -> None:
        """{m}, which has yet to start, is a consumer of Kafka 0.8."""
        require(self.session[m] == Session.NONE)
        require(not any(self.old[c] for c in Member))
        self.old[m] = True

    @action(fair=weak)
    def renew_watches(self, m: Member) -> None:
        """{m}, which is old, sets the watches again that have fired."""
        require(self.old[m])
        drafted_renewal(self, m)


# ── Each to its own ─────────────────────────────────────────────────────────────────────────


def suspend(self: MixedGroup, m: Member) -> None:
    """{m} cannot reach ZooKeeper, and closes its fetchers, unless it is old."""
    require(not self.old[m])
    corrected_suspend(self, m)


def reconnect(self: MixedGroup, m: Member) -> None:
    """{m} finds ZooKeeper again in time."""
    if self.old[m]:
        drafted_reconnect(self, m)
    else:
        corrected_reconnect(self, m)


def handle_new_session(self: MixedGroup, m: Member) -> None:
    """{m} learns that its session has ended: it registers again."""
    if self.old[m]:
        drafted_new_session(self, m)
    else:
        corrected_new_session(self, m)


def close_fetchers(self: MixedGroup, m: Member) -> None:
    """(1) {m} takes the flag, or tries once more: it closes its fetchers."""
    if self.old[m]:
        drafted_close(self, m)
    else:
        corrected_close(self, m)


def read_topics(self: MixedGroup, m: Member) -> None:
    """(3) {m} reads which partitions there are."""
    if self.old[m]:
        drafted_read_topics(self, m)
    else:
        corrected_read_topics(self, m)


def read_ids(self: MixedGroup, m: Member, mine: set[Partition]) -> None:
    """(3) {m} reads who is in the group, and plans for all: {mine} are its."""
    self.does(m, Rebalance.IDS)
    require(all(self.agrees(m, p, p in mine) for p in Partition))
    self.watches_ids[m] = self.watches_ids[m] or not self.old[m]
    for p in Partition:
        self.planned[m, p] = p in mine
        self.seen[m, p] = False
    self.phase[m] = Rebalance.OFFSETS if self.old[m] else Rebalance.CLAIMING


def read_offsets(self: MixedGroup, m: Member) -> None:
    """{m} reads how far each partition of its plan is consumed."""
    if self.old[m]:
        drafted_read_offsets(self, m)
    else:
        corrected_read_offsets(self, m)


def claim(self: MixedGroup, m: Member, p: Partition) -> None:
    """(4) {m} becomes the owner of {p}."""
    corrected_claim(self, m, p)
    if self.old[m]:
        self.token[m, p] = 1  # it knows that it has created the node


def create_owner(self: MixedGroup, m: Member, p: Partition) -> None:
    """The owner node is created; an old consumer knows of no version."""
    self.owner[p] = m
    if not self.old[m]:
        self.version[p] = self.version[p] + 1


def refuse_claim(self: MixedGroup, m: Member, p: Partition) -> None:
    """(4) {m} is refused {p}, which has an owner."""
    if self.old[m]:
        drafted_refusal(self, m, p)
    else:
        corrected_refusal(self, m, p)


def start_fetchers(self: MixedGroup, m: Member) -> None:
    """(5) updateFetcher: {m} updates topicRegistry, and pulls from all that is in it."""
    if self.old[m]:
        drafted_start(self, m)
    else:
        corrected_start(self, m)


def lease_is_over(self: MixedGroup, m: Member) -> bool:
    """Assumption `session_lease`, which an old consumer does not keep."""
    return self.old[m] or all(not self.fetching[m, p] for p in Partition)


def accepts_commit(self: MixedGroup, m: Member, p: Partition) -> bool:
    """Who is not old checks the partition's version."""
    return self.old[m] or self.holds(m, p)


def may_release(self: MixedGroup, m: Member, p: Partition) -> bool:
    """Who is not old checks the partition's version, and looks whose the node is."""
    if self.old[m]:
        return self.registry[m, p]
    return self.holds(m, p) and self.owner[p] == m


def in_doubt(self: MixedGroup, m: Member, p: Partition) -> bool:
    """The member's own session owns the node, by a claim whose answer it never got."""
    return not self.old[m] and self.planned[m, p] and self.owner[p] == m and not self.holds(m, p)


# ── What is owed ────────────────────────────────────────────────────────────────────────────


@always
def exclusive_among_corrected(s: MixedGroup) -> bool:
    """At no time do two corrected members consume the same partition."""
    return all(
        not (s.fetching[a, p] and s.fetching[b, p]) or s.old[a] or s.old[b]
        for p in Partition
        for a in Member
        for b in Member
        if a != b
    )


@always
def fenced_among_corrected(s: MixedGroup) -> bool:
    """Of all corrected members, at most one can store offsets of a partition."""
    return all(
        not (s.holds(a, p) and s.holds(b, p)) or s.old[a] or s.old[b]
        for p in Partition
        for a in Member
        for b in Member
        if a != b
    )


@step
def only_the_old_go_back(before: MixedGroup, after: MixedGroup) -> bool:
    """A stored offset goes back only by an old member's commit."""
    return all(
        before.committed[p] <= after.committed[p]
        or any(before.old[m] and after.committed[p] == before.consumed[m, p] for m in Member)
        for p in Partition
    )


@step
def only_the_old_delete(before: MixedGroup, after: MixedGroup) -> bool:
    """An owner node that is not deleted by its owner is deleted by an old member's release."""
    return all(
        before.owner[p] == after.owner[p]
        or before.owner[p] != m
        or before.registered[m] != after.registered[m]
        or (before.phase[m] == Rebalance.RELEASING and after.phase[m] == Rebalance.TOPICS)
        or any(
            before.old[o]
            and before.phase[o] == Rebalance.RELEASING
            and after.phase[o] == Rebalance.TOPICS
            for o in Member
        )
        for p in Partition
        for m in Member
    )


@leads_to
def corrected_ones_settle(s: MixedGroup) -> tuple[bool, bool]:
    """Without further faults each corrected member rests, in the end, or waits for an old one."""
    return True, all(s.old[m] or rests(s, m) or waits_for_the_old(s, m) for m in Member)


def waits_for_the_old(s: MixedGroup, m: Member) -> bool:
    """An old member's node stands in the way of the member."""
    return any(s.waits[m, p] and s.owner[p] == o and s.old[o] for p in Partition for o in Member)


OWED_TO_NOBODY = {
    "exclusive": Failure(21, "start_fetchers"),
    "committed_offsets_never_go_back": Failure(23, "commit"),
    "only_the_old_go_back": Failure(26, "commit"),
    "settles": Failure(11, "renew_watches"),
}
"""Failures, with two members and one partition, for what the old one does."""
MIXED = specification(
    MixedGroup, exclusive, exclusive_among_corrected, fenced_among_corrected,
    committed_offsets_never_go_back, only_the_old_go_back, only_the_old_delete,
    only_finished_is_committed, nobody_is_past_the_unfinished, settles, corrected_ones_settle,
).replace(
    "MixedGroup", suspend=suspend, reconnect=reconnect,
    handle_new_session=handle_new_session, close_fetchers=close_fetchers, read_topics=read_topics,
    read_ids=read_ids, read_offsets=read_offsets, claim=claim, create_owner=create_owner,
    refuse_claim=refuse_claim, start_fetchers=start_fetchers, lease_is_over=lease_is_over,
    accepts_commit=accepts_commit, may_release=may_release, in_doubt=in_doubt,
)  # fmt: skip
