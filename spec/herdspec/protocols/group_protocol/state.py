"""The state of a group under the group protocol, and what its actions share."""

from __future__ import annotations

from herdspec import Nat, Spec, each, require
from herdspec.protocols.election.contract import ElectionContract
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.values import (
    Awaited,
    Entry,
    GroupAnswer,
    GroupState,
    GroupWrite,
    MemberState,
)


class ProtocolGroup(Spec):
    """A group: what is stored of it, what its coordinator keeps in memory, and its clients."""

    # What is stored.
    election: ElectionContract
    seat: Broker | None = None  # whose session owns the leader's node
    exists: dict[Partition, bool] = each(False)
    generation: Nat = 0
    belongs: dict[Member, bool] = each(False)  # it is a member of that generation
    leader: Member | None = None  # of that generation
    assigned: Nat = 0  # the generation of the assignment that is stored
    owner: dict[Partition, Member | None] = each(None)  # by that assignment
    committed: dict[Partition, Nat] = each(0)
    listed: dict[Partition, bool] = each(False)  # whoever led last knew it, when it shared out

    # What the coordinator keeps in memory.
    coordinator: Broker | None = None  # who has loaded the group
    state: GroupState = GroupState.DEAD
    entry: dict[Member, Entry] = each(Entry.NONE)
    joined: dict[Member, bool] = each(False)  # its JoinGroup waits for the others'
    synced: dict[Member, bool] = each(False)  # its SyncGroup waits for the leader's
    noted: dict[Partition, Nat] = each(0)  # offsets taken since the group was loaded
    sent: dict[Partition, Nat] = each(0)  # offsets on their way to be stored
    write: GroupWrite = GroupWrite.NONE
    done: bool = False  # it was stored, and its coordinator does not know yet

    # What a client knows.
    client: dict[Member, MemberState] = each(MemberState.OFF)
    interest: dict[tuple[Member, Partition], bool] = each(False)  # its subscription
    knows: dict[Member, bool] = each(False)  # it knows who the coordinator is
    has_id: dict[Member, bool] = each(False)  # it knows its member id
    at: dict[Member, Nat] = each(0)  # Generation: the last that it was told
    leads: dict[Member, bool] = each(False)  # it was told that it leads that one
    rejoin: dict[Member, bool] = each(False)  # rejoinNeeded
    awaits: dict[Member, Awaited] = each(Awaited.NOTHING)  # joinFuture
    given: dict[tuple[Member, Partition], bool] = each(False)  # its assignment, or one under way
    ready: dict[Member, bool] = each(False)  # its positions are fetched: it consumes
    position: dict[tuple[Member, Partition], Nat] = each(0)  # kept, when a partition is revoked

    # What is under way.
    up: dict[Member, bool] = each(False)  # the request that it awaits the answer of
    down: dict[Member, GroupAnswer] = each(GroupAnswer.NONE)
    said: dict[Member, Nat] = each(0)  # the generation in an answer to JoinGroup
    leaving: dict[Member, bool] = each(False)  # a LeaveGroup
    commit_at: dict[Member, Nat] = each(0)  # the generation of an OffsetCommit; 0: there is none
    committing: dict[tuple[Member, Partition], Nat] = each(0)  # and its offsets

    # For the properties only; no guard reads it.
    finished: dict[Partition, Nat] = each(0)  # the first record that no application finished

    # ── What the drafts do otherwise, and what is assumed ───────────────────────────────────

    def has_stopped(self, m: Member) -> bool:
        """
        Assumption `evicted_has_stopped`: whom the coordinator counts no more has stopped.

        It consumes nothing, and no assignment is on its way to it. A client keeps this if it stops
        by itself once no heartbeat was answered for its session time-out; Kafka's do not.
        """
        return all(not self.given[m, p] for p in Partition)

    def accepts_offset(self, m: Member, p: Partition) -> bool:
        """An offset is taken from the partition's owner in the present generation."""
        return self.owns(m, p)

    def are_stored(self, m: Member) -> bool:
        """OffsetFetch waits until all is stored that was taken of what the client asks for."""
        return all(not (self.asks_for(m, p) and self.is_new(p)) for p in Partition)

    # ── What variants do otherwise ──────────────────────────────────────────────────────────

    def on_join_prepare(self, m: Member) -> None:
        """A client that is about to join gives up whatever it has."""
        self.revoke(m)

    def asks_for(self, m: Member, p: Partition) -> bool:
        """The client asks where to begin with a partition."""
        return self.given[m, p]

    def hand_over(self, p: Partition, heir: Member | None) -> None:
        """A partition is given to who is to have it."""
        self.owner[p] = heir

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def owns(self, m: Member, p: Partition) -> bool:
        """The stored assignment is of the present generation, the commit too, and names it."""
        return (
            self.owner[p] == m
            and self.commit_at[m] == self.generation
            and self.assigned == self.generation
        )

    def is_new(self, p: Partition) -> bool:
        """An offset was taken that is not stored."""
        return self.noted[p] > 0 and self.noted[p] != self.committed[p]

    def consumes(self, m: Member, p: Partition) -> bool:
        """The client has the partition, and knows where to begin."""
        return self.ready[m] and self.given[m, p]

    def is_member(self, m: Member) -> bool:
        """The coordinator counts it as a member."""
        return self.entry[m] == Entry.MEMBER

    def has_members(self) -> bool:
        """The coordinator counts somebody."""
        return any(self.is_member(m) for m in Member)

    def wants(self, m: Member, p: Partition) -> bool:
        """A member of the present generation is interested in a partition that its leader knows."""
        return self.listed[p] and self.belongs[m] and self.interest[m, p]

    def is_wanted(self, p: Partition) -> bool:
        """Some member of the present generation is interested in the partition."""
        return any(self.wants(m, p) for m in Member)

    def is_right(self, p: Partition, owner: Member | None) -> bool:
        """The plan gives a partition to who wants it; or nobody does."""
        if owner is None:
            return not self.is_wanted(p)
        return self.wants(owner, p)

    def attends(self) -> None:
        """A coordinator is there, and waits for nothing to be stored: it may decide."""
        require(self.coordinator is not None and self.write == GroupWrite.NONE)

    def hears(self, m: Member, awaited: Awaited) -> None:
        """The coordinator reads a request of this kind, after what was sent before it."""
        self.attends()
        require(self.up[m] and self.awaits[m] == awaited)
        require(self.commit_at[m] == 0 and not self.leaving[m])
        self.up[m] = False

    def takes(self, m: Member, answer: GroupAnswer) -> None:
        """The client takes this answer to what it awaits."""
        require(self.down[m] == answer)
        self.down[m] = GroupAnswer.NONE

    def ask(self, m: Member, awaited: Awaited) -> None:
        """The client sends a request."""
        self.awaits[m] = awaited
        self.up[m] = True

    def fail_future(self, m: Member) -> None:
        """The joinFuture fails, and the client has nothing any more."""
        self.end_future(m)
        self.revoke(m)

    def end_future(self, m: Member) -> None:
        """The joinFuture fails: whatever was to be answered is not, or is not heard."""
        self.client[m] = MemberState.UNJOINED
        self.awaits[m] = Awaited.NOTHING
        self.up[m] = False
        self.down[m] = GroupAnswer.NONE
        self.said[m] = 0
        self.leads[m] = False

    def revoke(self, m: Member) -> None:
        """The client has no partition any more."""
        self.ready[m] = False
        self.note_stopped(m)
        for p in Partition:
            self.given[m, p] = False

    def answer_join(self, m: Member) -> None:
        """The answer to a JoinGroup: the present generation, and who leads it."""
        self.down[m] = GroupAnswer.LEADER if self.leader == m else GroupAnswer.FOLLOWER
        self.said[m] = self.generation

    def answer_sync(self, m: Member) -> None:
        """The answer to a SyncGroup: the member's part of the stored assignment."""
        self.down[m] = GroupAnswer.ASSIGNMENT
        for p in Partition:
            self.given[m, p] = self.owner[p] == m

    def is_awaited(self, m: Member, awaited: Awaited) -> bool:
        """Its last request was read, so that it will get the answer; else only an older one was."""
        return self.awaits[m] == awaited and not self.up[m]

    def prepare_rebalance(self) -> None:
        """prepareRebalance: who waits for an assignment is told to join again."""
        self.state = GroupState.PREPARING_REBALANCE
        for m in Member:
            if self.synced[m] and self.is_awaited(m, Awaited.SYNC):
                self.down[m] = GroupAnswer.REBALANCE_IN_PROGRESS
            self.synced[m] = False

    def remove(self, m: Member) -> None:
        """The coordinator counts a member no more: the others rebalance."""
        was_member = self.is_member(m)
        self.entry[m] = Entry.NONE
        if was_member and self.state != GroupState.PREPARING_REBALANCE:
            self.prepare_rebalance()

    def unload(self) -> None:
        """The group is in no coordinator's memory, and what was sent there is lost."""
        self.coordinator = None
        self.state = GroupState.DEAD
        self.write = GroupWrite.NONE
        self.done = False
        self.note_unloaded()
        for m in Member:
            self.entry[m] = Entry.NONE
            self.joined[m] = False
            self.synced[m] = False
            self.knows[m] = False
            self.up[m] = False
            self.leaving[m] = False
            self.drop_commit(m)
        for p in Partition:
            self.noted[p] = 0
            self.sent[p] = 0

    def drop_commit(self, m: Member) -> None:
        """An OffsetCommit is under way no more."""
        self.commit_at[m] = 0
        for p in Partition:
            self.committing[m, p] = 0

    # ── What variants, and the contract's view (`refinement.py`), remember beside ───────────

    def note_unloaded(self) -> None:
        """Nothing of the group is in memory."""

    def note_joined(self, m: Member) -> None:
        """A member's JoinGroup was read."""

    def note_all_joined(self) -> None:
        """All have joined, and the next generation is to be stored."""

    def note_partitions(self) -> None:
        """The leader's SyncGroup was read."""

    def note_handed_over(self) -> None:
        """An assignment was stored."""

    def note_begun(self, m: Member) -> None:
        """A client begins to consume."""

    def note_stopped(self, m: Member) -> None:
        """A client consumes nothing any more."""
