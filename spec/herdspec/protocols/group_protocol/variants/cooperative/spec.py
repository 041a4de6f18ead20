"""
Cooperative (incremental) rebalancing: who joins again keeps its partitions, and consumes on.

A client sends JoinGroup with the partitions that it has. The leader's plan gives away only what
nobody else has: a partition that is to move is withheld in this generation. Its owner learns that
from its assignment, gives it up, and joins again with what is left; the next generation gives it to
its heir. So nothing stops but what moves.

Whoever commits for a partition that was withheld from it is still heard, until the partition is
another one's. A client that has lost its member id has lost its partitions, too.

Source: apache/kafka, KIP-429; `ConsumerCoordinator` and `AbstractStickyAssignor`.

Assumed: as in the group protocol; whom the coordinator counts no more has stopped
(`evicted_has_stopped`).
Not modelled: as in the group protocol. All of a group's members are cooperative: there is no
upgrade from eager ones. Revoked partitions may be committed any time later, not only before.
"""

from __future__ import annotations

from herdspec import action, each, weak
from herdspec.protocols.group import Member as Member
from herdspec.protocols.group import Partition as Partition
from herdspec.protocols.group_protocol.spec import GroupProtocol
from herdspec.protocols.group_protocol.values import Awaited, GroupAnswer, MemberState


class CooperativeGroup(GroupProtocol):
    """A coordinator, and clients that keep what they have while they rebalance."""

    # What is stored.
    withheld: dict[Partition, bool] = each(False)  # taken from its owner, and nobody's yet
    claimed: dict[tuple[Member, Partition], bool] = each(False)  # by this generation's JoinGroups

    # What the coordinator keeps in memory.
    claims: dict[tuple[Member, Partition], bool] = each(False)  # by the member's last JoinGroup

    # What a client knows, or is about to.
    offered: dict[tuple[Member, Partition], bool] = each(False)  # an assignment under way
    started: dict[tuple[Member, Partition], bool] = each(False)  # its position was fetched

    # ── The client ──────────────────────────────────────────────────────────────────────────

    @action(fair=weak)
    def on_join_complete(self, m: Member) -> None:
        """SyncGroupResponseHandler: {m} gives up what it was not given again, and keeps the rest.

        If it has given up anything, it joins again.
        """
        self.takes(m, GroupAnswer.ASSIGNMENT)
        self.client[m] = MemberState.STABLE
        self.awaits[m] = Awaited.NOTHING
        self.ready[m] = False
        self.rejoin[m] = self.rejoin[m] or any(
            self.given[m, p] and not self.offered[m, p] for p in Partition
        )
        for p in Partition:
            self.started[m, p] = self.started[m, p] and self.offered[m, p]
            self.given[m, p] = self.offered[m, p]
            self.offered[m, p] = False

    @action(fair=weak)
    def join_again(self, m: Member) -> None:
        """{m} is told to join again; if its generation is over, it has lost its partitions."""
        if self.down[m] == GroupAnswer.ILLEGAL_GENERATION:
            self.takes(m, GroupAnswer.ILLEGAL_GENERATION)
            self.revoke(m)
        else:
            self.takes(m, GroupAnswer.REBALANCE_IN_PROGRESS)
        self.fail_future(m)

    def on_join_prepare(self, m: Member) -> None:
        """A client that is about to join keeps what it has, if it is still a member."""
        if not self.has_id[m]:
            self.revoke(m)

    def fail_future(self, m: Member) -> None:
        """The joinFuture fails; the client keeps what it has."""
        self.end_future(m)
        for p in Partition:
            self.offered[m, p] = False

    def forget_id(self, m: Member) -> None:
        """The client has neither member id nor generation, nor any partition."""
        self.has_id[m] = False
        self.at[m] = 0
        self.revoke(m)

    def revoke(self, m: Member) -> None:
        """The client has no partition any more."""
        self.ready[m] = False
        self.note_stopped(m)
        for p in Partition:
            self.given[m, p] = False
            self.started[m, p] = False

    def consumes(self, m: Member, p: Partition) -> bool:
        """The client has the partition, and knows where to begin."""
        return self.given[m, p] and self.started[m, p]

    def asks_for(self, m: Member, p: Partition) -> bool:
        """The client asks where to begin with a partition that it did not have before."""
        return self.given[m, p] and not self.started[m, p]

    def note_begun(self, m: Member) -> None:
        """A client begins to consume all that it has."""
        for p in Partition:
            self.started[m, p] = self.given[m, p]

    # ── The coordinator ─────────────────────────────────────────────────────────────────────

    def has_stopped(self, m: Member) -> bool:
        """Assumption `evicted_has_stopped`: whom the coordinator counts no more has stopped."""
        return all(not self.given[m, p] and not self.offered[m, p] for p in Partition)

    def note_joined(self, m: Member) -> None:
        """A member's JoinGroup was read, and says what the member has."""
        for p in Partition:
            self.claims[m, p] = self.given[m, p]

    def answers_at_once(self, m: Member) -> bool:
        """A member that asks again, and still has what it had, is told of its generation again."""
        return self.belongs_already(m) and all(
            self.claims[m, p] == self.given[m, p] for p in Partition
        )

    def begin_generation(self) -> None:
        """Whoever has joined is a member of the next generation, and has what it has said."""
        self.generation = self.generation + 1
        for m in Member:
            self.belongs[m] = self.is_member(m)
            for p in Partition:
                self.claimed[m, p] = self.is_member(m) and self.claims[m, p]

    def hand_over(self, p: Partition, heir: Member | None) -> None:
        """A partition is its heir's if nobody else has it; else its owner is to give it up."""
        self.withheld[p] = any(self.claimed[m, p] and heir != m for m in Member)
        if not self.withheld[p]:
            self.owner[p] = heir

    def answer_sync(self, m: Member) -> None:
        """The answer to a SyncGroup: the member's part of the stored assignment."""
        self.down[m] = GroupAnswer.ASSIGNMENT
        for p in Partition:
            self.offered[m, p] = self.owner[p] == m and not self.withheld[p]

    def note_unloaded(self) -> None:
        """Of what JoinGroups have said, only what is stored with the generation is known."""
        for m in Member:
            for p in Partition:
                self.claims[m, p] = self.claimed[m, p]
