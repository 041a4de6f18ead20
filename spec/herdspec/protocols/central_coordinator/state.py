"""The state of a group under a central coordinator, and what its actions share."""

from __future__ import annotations

from typing import Annotated

from herdspec import Capacity, Nat, Spec, each, empty, require
from herdspec.protocols.central_coordinator.values import Asked, Kind, Message, Phase, Write
from herdspec.protocols.election.contract import ElectionContract
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member, Partition


class CoordinatedGroup(Spec):
    """A group: ZooKeeper, the connections, the consumers, and the coordinators' books."""

    # What ZooKeeper knows.
    election: ElectionContract
    seat: Broker | None = None  # whose session owns the leader's node
    exists: dict[Partition, bool] = each(False)
    generation: Nat = 0
    owner: dict[Partition, Member | None] = each(None)
    orphan: dict[Partition, bool] = each(False)  # its owner is a former life of that member
    committed: dict[Partition, Nat] = each(0)

    # What is true of each connection; what is under way outlives it, until its reader has closed.
    link: dict[Member, bool] = each(False)  # it stands
    down: dict[Member, Annotated[list[Message], Capacity(2)]] = each(empty())  # to the consumer
    up: dict[Member, Annotated[list[Message], Capacity(2)]] = each(empty())  # to the coordinator
    given: dict[tuple[Member, Partition], bool] = each(False)  # what the last Start says
    begin: dict[tuple[Member, Partition], Nat] = each(0)  # and from where on
    term: dict[Member, Nat] = each(0)  # the epoch of whoever has taken its sender's Register
    reported: dict[tuple[Member, Partition], Nat] = each(0)  # the offsets of the answer under way
    committing: dict[tuple[Member, Partition], Annotated[list[Nat], Capacity(1)]] = each(
        empty()
    )  # and those of the commits

    # What the consumer knows.
    via: dict[Member, Broker | None] = each(None)  # to whom it believes to be connected
    seen: dict[Member, Nat] = each(0)  # the latest epoch that it has been told
    barred: dict[Member, Nat] = each(0)  # the generation of the last Stop: Starts up to it are old
    at: dict[Member, Nat] = each(0)  # the generation that it consumes in
    fetching: dict[tuple[Member, Partition], bool] = each(False)
    position: dict[tuple[Member, Partition], Nat] = each(0)  # consumedOffset, where it fetches

    # What the coordinator has in its books.
    books: dict[Member, Broker | None] = each(None)  # by whom it is counted as a live member
    interest: dict[tuple[Member, Partition], bool] = each(False)
    asked: dict[Member, Asked] = each(Asked.NONE)
    stopped: dict[Member, bool] = each(False)  # it has answered the present rebalance's Stop
    acked: dict[Member, Nat] = each(0)  # the generation whose Start it has acknowledged
    phase: dict[Broker, Phase] = each(Phase.IDLE)
    dirty: dict[Broker, bool] = each(False)  # something changed while the flag was set
    knows: dict[tuple[Broker, Partition], bool] = each(False)  # partitions that it was told of
    noted: dict[tuple[Broker, Partition], Nat] = each(0)  # offsets that are to be written
    write: dict[Broker, Write] = each(Write.NONE)  # what it has asked of ZooKeeper
    assigned: dict[tuple[Broker, Partition], bool] = each(False)  # owners on their way name one
    heir: dict[tuple[Member, Partition], Broker | None] = each(None)  # namely this one
    sent: dict[tuple[Broker, Partition], Nat] = each(0)  # offsets on their way

    # For the properties only; no guard reads them.
    end: dict[Partition, Nat] = each(0)  # how many records there are
    finished: dict[Partition, Nat] = each(0)  # the first record that no application finished
    stale_commit_accepted: bool = False

    # ── What the drafts do otherwise, and what is assumed ───────────────────────────────────

    def lease_is_over(self, m: Member) -> bool:
        """
        Assumption `lease`: whom the coordinator takes for gone has closed its fetchers for good.

        No Start is under way to it either, though one that was sent in time may be read late. The
        consumer looks at its lease before it takes anything, and a request that it takes renews it
        only from its answer to the one before. The coordinator waits from the time at which it sent
        the last request: that was later. So a Start is carried out, if at all, and what it gave is
        let go again, within the time that is waited for.
        """
        return (
            not self.link[m]
            and all(not self.fetching[m, p] for p in Partition)
            and all(x.kind != Kind.START for x in self.down[m])
        )

    def may_commit(self, m: Member) -> bool:
        """Its last commit was read: the bound of explorations; the proof needs none."""
        return all(x.kind != Kind.COMMIT for x in self.up[m])

    def accepts(self, m: Member, b: Broker) -> bool:
        """A coordinator accepts who has not heard of a later epoch."""
        return self.election.leads[b] and self.seen[m] <= self.election.token[b]

    def necessary(self, b: Broker) -> bool:
        """
        3.1 to 3.5, and: only if every registration has acknowledged the present Start.

        Before the first generation there is none: who has nothing to consume waits (handleNewGroup,
        3.2), or is given nothing, if its coordinator finds the shares uneven.
        """
        return self.has_members(b) and (
            (
                any(self.books[m] == b and not self.follows(m) for m in Member)
                and (self.generation > 0 or any(self.wanted(p, b) for p in Partition))
            )
            or any(self.wanted(p, b) and not self.is_owned(p, b) for p in Partition)
            or any(self.owner[p] is not None and not self.is_owned(p, b) for p in Partition)
        )

    def is_free(self, p: Partition, b: Broker) -> bool:
        """Its owner has stopped with all the others, or is gone for good: nobody fetches it."""
        owner = self.owner[p]
        return (
            owner is None or self.orphan[p] or self.books[owner] == b or self.lease_is_over(owner)
        )

    def request_rebalance(self, b: Broker) -> None:
        """Set the flag and queue the group; or remember it, if the flag is set already."""
        if self.phase[b] == Phase.IDLE:
            self.phase[b] = Phase.QUEUED
        else:
            self.dirty[b] = True

    def is_given(self, m: Member, p: Partition) -> bool:
        """A member is a registration: what its consumer owned in a former life is not its own."""
        return self.owner[p] == m and not self.orphan[p]

    def accepts_offset(self, m: Member, p: Partition, generation: Nat) -> bool:
        """Offsets are taken from the partition's owner in the present generation."""
        return self.owns(m, p, generation)

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def owns(self, m: Member, p: Partition, generation: Nat) -> bool:
        """ZooKeeper names this member, in this life, and this is its generation."""
        return self.owner[p] == m and not self.orphan[p] and generation == self.generation

    def handle_group_member_change(self, b: Broker) -> None:
        """handleNewGroup, handleGroupMemberChange: somebody came or went."""
        self.request_rebalance(b)

    def follows(self, m: Member) -> bool:
        """The member has acknowledged exactly the present Start."""
        return self.acked[m] > 0 and self.acked[m] == self.generation

    def merged(self, before: Nat, now: Nat) -> Nat:
        """A stored offset never goes back."""
        return max(before, now)

    def fenced_write(self, b: Broker) -> None:
        """A write checks the epoch node's version."""
        self.election.write(b)

    def refuse_write(self, b: Broker) -> None:
        """Refuse the write that the broker has sent."""
        require(self.write[b] == Write.OWNERS or self.write[b] == Write.OFFSETS)
        self.write[b] = Write.REFUSED
        self.forget_plan(b)

    def forget_plan(self, b: Broker) -> None:
        """No owners are on their way to ZooKeeper."""
        for p in Partition:
            self.assigned[b, p] = False
            for m in Member:
                if self.heir[m, p] == b:
                    self.heir[m, p] = None

    def names(self, b: Broker, p: Partition, owner: Member | None) -> bool:
        """Whom the owners that the broker has sent to ZooKeeper name for a partition."""
        if owner is None:
            return not self.assigned[b, p]
        return self.assigned[b, p] and self.heir[owner, p] == b

    def has_members(self, b: Broker) -> bool:
        """The group contains a live consumer."""
        return any(self.books[m] == b for m in Member)

    def wanted(self, p: Partition, b: Broker) -> bool:
        """A live member is interested in a partition that the coordinator knows."""
        return self.knows[b, p] and any(self.serves(m, p, b) for m in Member)

    def serves(self, m: Member, p: Partition, b: Broker) -> bool:
        """The member lives, and is interested in the partition."""
        return self.books[m] == b and self.interest[m, p]

    def is_owned(self, p: Partition, b: Broker) -> bool:
        """ZooKeeper names a live member as the partition's owner."""
        owner = self.owner[p]
        return owner is not None and not self.orphan[p] and self.serves(owner, p, b)

    def all_stopped(self, b: Broker) -> bool:
        """Every live member has answered the Stop, and there are some."""
        return self.has_members(b) and all(self.books[m] != b or self.stopped[m] for m in Member)

    def nobody_fetches(self, b: Broker) -> bool:
        """Every live member has answered the Stop, and whoever is gone has let go."""
        return all(self.books[m] != b or self.stopped[m] for m in Member) and all(
            self.is_free(p, b) for p in Partition
        )

    def connect(self, m: Member, b: Broker) -> None:
        """A connection, over which the consumer sends its Register."""
        self.via[m] = b
        self.link[m] = True
        self.barred[m] = 0
        self.up[m].append(Message(kind=Kind.REGISTER, generation=0))

    def asks(self, m: Member, kind: Kind) -> bool:
        """A request of this kind is outstanding."""
        return (
            (kind == Kind.PING and self.asked[m] == Asked.PING)
            or (kind == Kind.STOP and self.asked[m] == Asked.STOP)
            or (kind == Kind.START and self.asked[m] == Asked.START)
        )

    def ask(self, m: Member, b: Broker, asked: Asked, kind: Kind) -> None:
        """
        Send a request over a connection on which none is outstanding.

        That no answer is on its way then, follows; but not for proofs, which know no order.
        """
        require(self.election.leads[b] and self.books[m] == b and self.link[m])
        require(self.asked[m] == Asked.NONE)
        require(all(x.kind == Kind.COMMIT for x in self.up[m]))
        self.asked[m] = asked
        self.down[m].append(Message(kind=kind, generation=self.generation))

    def take(self, m: Member, kind: Kind) -> None:
        """The next request is of this kind."""
        require(len(self.down[m]) > 0)
        require(self.down[m][0].kind == kind)
        self.seen[m] = self.term[m]

    def answer(self, m: Member, kind: Kind, generation: Nat) -> None:
        """Answer a request; over a connection that is broken nothing is sent."""
        if self.link[m]:
            self.up[m].append(Message(kind=kind, generation=generation))

    def report(self, m: Member) -> None:
        """The offsets of the answer that is being sent."""
        for p in Partition:
            if self.link[m]:
                self.reported[m, p] = self.position[m, p]

    def hear(self, m: Member, b: Broker, kind: Kind) -> None:
        """Require that a message of this kind is next, at the coordinator that has its sender."""
        require(self.books[m] == b and len(self.up[m]) > 0)
        require(self.up[m][0].kind == kind)

    def hear_answer(self, m: Member, b: Broker, kind: Kind) -> None:
        """Hear the answer to the request that is outstanding, of this kind."""
        self.hear(m, b, kind)
        require(self.asks(m, kind))
        self.asked[m] = Asked.NONE

    def note_answer(self, m: Member, b: Broker, generation: Nat) -> None:
        """Remember the offsets of an answer, which is under way no more."""
        if any(self.is_stale(m, p, generation, self.reported[m, p]) for p in Partition):
            self.stale_commit_accepted = True
        for p in Partition:
            self.note(m, b, p, generation, self.reported[m, p])
            self.reported[m, p] = 0

    def note_commit(self, m: Member, b: Broker, generation: Nat) -> None:
        """Remember the offsets of a commit, which is under way no more."""
        if any(self.is_stale(m, p, generation, self.committing[m, p][0]) for p in Partition):
            self.stale_commit_accepted = True
        for p in Partition:
            self.note(m, b, p, generation, self.committing[m, p][0])
            self.committing[m, p].pop(0)

    def note(self, m: Member, b: Broker, p: Partition, generation: Nat, offset: Nat) -> None:
        """Remember an offset, to be written."""
        if self.phase[b] != Phase.WRITING and self.accepts_offset(m, p, generation):
            self.noted[b, p] = self.merged(self.noted[b, p], offset)

    def is_stale(self, m: Member, p: Partition, generation: Nat, offset: Nat) -> bool:
        """An offset that is accepted, and should not be."""
        return (
            self.accepts_offset(m, p, generation) and offset > 0 and not self.owns(m, p, generation)
        )

    def let_go(self, m: Member) -> None:
        """onLostConnection: close the fetchers, clear the queues, shut the connection down."""
        self.via[m] = None
        self.at[m] = 0
        self.barred[m] = 0
        for p in Partition:
            self.fetching[m, p] = False
            self.position[m, p] = 0
        self.hang_up(m)

    def hang_up(self, m: Member) -> None:
        """The consumer's end is closed: it reads nothing more of what is on its way to it."""
        self.link[m] = False
        self.down[m].clear()
        self.term[m] = 0
        for p in Partition:
            self.given[m, p] = False
            self.begin[m, p] = 0
        if self.books[m] is None:
            self.forget_answers(m)

    def close_channel(self, m: Member) -> None:
        """The coordinator's end is closed: it reads nothing more of what is on its way to it."""
        self.link[m] = False
        self.forget_answers(m)

    def forget_answers(self, m: Member) -> None:
        """Nobody will read what the consumer has sent."""
        self.up[m].clear()
        for p in Partition:
            self.reported[m, p] = 0
            self.committing[m, p].clear()

    def remove(self, m: Member) -> None:
        """Strike a member from the books."""
        self.books[m] = None
        self.asked[m] = Asked.NONE
        self.stopped[m] = False
        self.acked[m] = 0

    def reset(self, b: Broker) -> None:
        """handleNewSession: close every channel, clear all state."""
        self.phase[b] = Phase.IDLE
        self.dirty[b] = False
        self.write[b] = Write.NONE
        self.forget_plan(b)
        for p in Partition:
            self.knows[b, p] = False
            self.noted[b, p] = 0
            self.sent[b, p] = 0
        for m in Member:
            if self.books[m] == b or self.via[m] == b:
                self.close_channel(m)
            if self.books[m] == b:
                self.remove(m)
