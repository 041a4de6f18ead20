"""The state of a group that rebalances by itself, and what its actions share."""

from __future__ import annotations

from herdspec import Nat, Spec, each
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.self_rebalancing.values import RETRIES, Attempts, Rank, Rebalance, Session


class RebalancingGroup(Spec):
    """A group: what ZooKeeper keeps, the sessions, and what each consumer believes."""

    # What ZooKeeper knows.
    exists: dict[Partition, bool] = each(False)  # /brokers/topics/[topic]
    registered: dict[Member, bool] = each(False)  # /consumers/[group]/ids/[consumer], ephemeral
    owner: dict[Partition, Member | None] = each(None)  # owners/[topic]/[partition], ephemeral
    version: dict[Partition, Nat] = each(0)  # of a persistent node: each claim raises it
    committed: dict[Partition, Nat] = each(0)  # offsets/[topic]/[partition]
    watches_ids: dict[Member, bool] = each(False)  # a one-shot watch on the children of ids
    watches_topics: dict[Member, bool] = each(False)  # one on the subscribed topics
    waits: dict[tuple[Member, Partition], bool] = each(False)  # one on the owner node in its way

    # What is true of each consumer's session.
    session: dict[Member, Session] = each(Session.NONE)

    # What a consumer knows and does.
    rank: dict[Member, Rank] = each(0)  # where its thread stands in the order of threads
    interest: dict[tuple[Member, Partition], bool] = each(False)  # its subscription
    due: dict[Member, bool] = each(False)  # the flag that a watch sets: there is a reason
    phase: dict[Member, Rebalance] = each(Rebalance.RESTING)
    attempts: dict[Member, Attempts] = each(0)  # that have failed in a row; all: it is reported
    seen: dict[tuple[Member, Partition], bool] = each(False)  # topics, as this attempt read them
    planned: dict[tuple[Member, Partition], bool] = each(False)  # its own part of its last plan
    token: dict[tuple[Member, Partition], Nat] = each(0)  # the version that its claim made; 0: none
    registry: dict[tuple[Member, Partition], bool] = each(False)  # topicRegistry: what it believes
    fetching: dict[tuple[Member, Partition], bool] = each(False)  # a pull thread runs
    fetched: dict[tuple[Member, Partition], Nat] = each(0)  # fetchedOffset
    consumed: dict[tuple[Member, Partition], Nat] = each(0)  # consumedOffset

    # The log, and for the properties only: no guard reads `finished`.
    end: dict[Partition, Nat] = each(1)  # how many records there are
    finished: dict[Partition, Nat] = each(0)  # the first record that no application finished

    # ── What the drafts do otherwise, and what is assumed ───────────────────────────────────

    def lease_is_over(self, m: Member) -> bool:
        """
        Assumption `session_lease`: whose session ends has stopped delivering.

        A consumer that has heard nothing from ZooKeeper for its lease closes its fetchers; the
        lease is shorter than the session's time-out by what clocks may drift.
        """
        return all(not self.fetching[m, p] for p in Partition)

    def agrees(self, m: Member, p: Partition, mine: bool) -> bool:
        """The plan is the range assignor's, of what was read."""
        return mine == self.is_first(m, p)

    def accepts_commit(self, m: Member, p: Partition) -> bool:
        """An offset is written in a multi that checks the partition's version."""
        return self.holds(m, p)

    def may_release(self, m: Member, p: Partition) -> bool:
        """An owner node is deleted in a multi that checks the partition's version."""
        return self.holds(m, p)

    def progress(self, m: Member, p: Partition) -> Nat:
        """The offset to submit: consumedOffset, which follows what the application has finished."""
        return self.consumed[m, p]

    def drags_in(self, changed: Member, m: Member) -> bool:
        """Whoever comes or goes is a reason for all the others of the group."""
        return changed != m

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def is_first(self, m: Member, p: Partition) -> bool:
        """Of the threads that want the one partition of a topic, range gives it to the first."""
        return self.seen[m, p] and self.would_be_first(m, p)

    def would_be_first(self, m: Member, p: Partition) -> bool:
        """Range would give the partition to the member, of all that are registered now."""
        return self.interest[m, p] and all(
            not self.registered[c] or not self.interest[c, p] or self.rank[c] >= self.rank[m]
            for c in Member
        )

    def holds(self, m: Member, p: Partition) -> bool:
        """The member's claim is the latest one of the partition."""
        return self.token[m, p] > 0 and self.token[m, p] == self.version[p]

    def in_doubt(self, m: Member, p: Partition) -> bool:
        """The member's own session owns the node, by a claim whose answer it never got."""
        return self.planned[m, p] and self.owner[p] == m and not self.holds(m, p)

    def has_all(self, m: Member) -> bool:
        """Everything planned is claimed."""
        return all(not self.planned[m, p] or self.token[m, p] > 0 for p in Partition)

    def close_fetchers_for_queues(self, m: Member) -> None:
        """closeFetchersForQueues: no pull thread runs, and what it fetched in vain is lost."""
        for p in Partition:
            self.fetching[m, p] = False
            self.fetched[m, p] = self.consumed[m, p]

    def submit(self, m: Member) -> None:
        """Offsets of all that the member believes to own."""
        for p in Partition:
            if self.registry[m, p] and self.accepts_commit(m, p):
                self.committed[p] = self.progress(m, p)

    def fail_and_back_off(self, m: Member) -> None:
        """The attempt has failed."""
        self.phase[m] = Rebalance.BACKING_OFF
        self.attempts[m] = min(self.attempts[m] + 1, RETRIES)
        for p in Partition:
            self.seen[m, p] = False
            self.waits[m, p] = False

    def create_owner(self, m: Member, p: Partition) -> None:
        """One multi: the owner node is created, and the partition's version raised."""
        self.owner[p] = m
        self.version[p] = self.version[p] + 1

    def end_session(self, m: Member) -> None:
        """The session's ephemeral nodes and watches go, and whoever watches the nodes is told."""
        self.registered[m] = False
        self.watches_ids[m] = False
        self.watches_topics[m] = False
        self.due[m] = False
        for p in Partition:
            if self.owner[p] == m:
                self.owner[p] = None
        for c in Member:
            if self.watches_ids[c] and self.drags_in(m, c):
                self.watches_ids[c] = False
                self.due[c] = True
            for p in Partition:
                self.waits[c, p] = self.waits[c, p] and self.owner[p] is not None and c != m
