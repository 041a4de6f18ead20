"""
The group protocol: members join, one of them shares the partitions out, all are told by SyncGroup.

A client looks the coordinator up and sends JoinGroup, first for a member id, then with it. Once all
members' JoinGroups wait, the coordinator stores the next generation and answers; the leader among
them shares the partitions out, and sends that with its SyncGroup; once it is stored, every
SyncGroup is answered. Who has its assignment asks how far the partitions are, and consumes.
Heartbeats tell it that the others wait for it again.

Generation, members, leader, assignment and offsets are stored before anybody is told, by writes
that the election's epoch fences; a coordinator that takes over loads them. A deposed coordinator
goes on until its successor has loaded the group: what it answers from memory is heard, what it
writes is refused. What the printed client and Kafka's own coordinator do otherwise stands in
`mistakes.py`.

A member is a member id, with the client that it was given to: a client that has lost its id begins
anew as another one, or as the same once the coordinator counts that no more.

Source: system C, `003`, with the facts of Kafka that PROTOCOLS.md takes over (section C).

Assumed: of the requests of one client, none is read after one that was sent later; a coordinator is
silent once its successor has loaded the group; while something of a group is being stored, nothing
else of it is decided. Under the assumption `evicted_has_stopped`, and only where a property says
so: whom the coordinator counts no more has stopped consuming.
Not modelled: several groups, `assign` mode; static members, cooperative ones, a choice among
protocols, subscriptions that change, groups that are deleted, or to which somebody commits from
outside, and where clients begin (fetch positions), are `variants`.
Which partitions there are, the leader reads when its SyncGroup is read. A heartbeat and an
OffsetFetch are answered at once, and the answer to an OffsetCommit tells nobody anything. Time-outs
are faults, but for clients that are no more.
"""

from __future__ import annotations

from herdspec import action, command, fault, initial, require, weak
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member as Member
from herdspec.protocols.group import Partition as Partition
from herdspec.protocols.group_protocol.accepted_mutants import (
    SURVIVORS as SURVIVORS,
)  # `mutate` looks here
from herdspec.protocols.group_protocol.state import ProtocolGroup
from herdspec.protocols.group_protocol.values import Awaited as Awaited
from herdspec.protocols.group_protocol.values import Entry as Entry
from herdspec.protocols.group_protocol.values import GroupAnswer as GroupAnswer
from herdspec.protocols.group_protocol.values import GroupState as GroupState
from herdspec.protocols.group_protocol.values import GroupWrite as GroupWrite
from herdspec.protocols.group_protocol.values import MemberState as MemberState


class GroupProtocol(ProtocolGroup):
    """A coordinator and its clients."""

    @initial
    def some_topics(self, there: set[Partition]) -> None:
        """Some partitions are there from the beginning."""
        for p in Partition:
            self.exists[p] = p in there

    # ── Coordinators ────────────────────────────────────────────────────────────────────────

    @action(fair=weak)
    def elect(self, b: Broker) -> None:
        """{b} is elected."""
        require(self.seat is None and not self.election.leads[b])
        self.election.elect(b)
        self.seat = b

    @action(fair=weak)
    def load_group(self, b: Broker) -> None:
        """{b} loads what is stored of the group; whoever had it before is silent from now on."""
        require(not self.election.leads[b])
        self.election.take_up(b, True, True)
        self.unload()
        self.coordinator = b
        if all(not self.belongs[m] for m in Member):
            self.state = GroupState.EMPTY
        elif self.assigned == self.generation:
            self.state = GroupState.STABLE
        else:
            self.state = GroupState.COMPLETING_REBALANCE
        for m in Member:
            self.entry[m] = Entry.MEMBER if self.belongs[m] else Entry.NONE

    @action(kind=fault)
    def lose_session(self, b: Broker) -> None:
        """The session of {b} expires; {b} does not know."""
        require(self.seat == b)
        self.election.give_up(b)
        self.seat = None

    @action(kind=fault)
    def doubt(self, b: Broker) -> None:
        """{b} is not sure that its session lives, or its write was done: it loads all again."""
        require(self.election.leads[b] and self.seat == b)
        self.election.step_down(b, True)
        self.unload_if_there(b)

    @action(fair=weak)
    def step_down(self, b: Broker) -> None:
        """{b} learns that it coordinates no more."""
        require(self.election.leads[b] and self.seat != b)
        self.election.step_down(b, False)
        self.unload_if_there(b)

    @action(kind=fault)
    def restart(self, b: Broker) -> None:
        """The process of {b} is killed and starts anew."""
        self.election.restart(b)
        if self.seat == b:
            self.seat = None
        self.unload_if_there(b)

    def unload_if_there(self, b: Broker) -> None:
        """Lose what the broker had in memory, if it is the coordinator."""
        if self.coordinator == b:
            self.unload()

    # ── Clients and topics come and go ──────────────────────────────────────────────────────

    @action(kind=command)
    def subscribe(self, m: Member, wanted: set[Partition]) -> None:
        """{m} subscribes to {wanted}; what it owned in a former life is nobody's."""
        self.begin_life(m)
        for p in Partition:
            self.interest[m, p] = p in wanted

    def begin_life(self, m: Member) -> None:
        """A client begins, of which nothing is known, or under way, any more."""
        require(self.client[m] == MemberState.OFF and self.entry[m] == Entry.NONE)
        require(not self.belongs[m])
        require(self.commit_at[m] == 0 and not self.leaving[m])
        self.client[m] = MemberState.UNJOINED
        for p in Partition:
            self.position[m, p] = 0
            if self.owner[p] == m:
                self.owner[p] = None

    @action(kind=command, disturbs=True)
    def close(self, m: Member) -> None:
        """{m} closes, and sends LeaveGroup."""
        require(self.client[m] != MemberState.OFF)
        self.leave_group(m)
        self.forget(m)

    @action(kind=fault)
    def kill(self, m: Member) -> None:
        """{m} is killed."""
        require(self.client[m] != MemberState.OFF)
        self.forget(m)

    @action(kind=command, disturbs=True)
    def appear(self, p: Partition) -> None:
        """{p} appears, with its topic or as a further partition."""
        require(not self.exists[p])
        self.exists[p] = True

    @action(fair=weak)
    def update_metadata(self, m: Member) -> None:
        """{m}, which leads, learns of a partition that its assignment did not know."""
        require(self.leads[m] and self.awaits[m] != Awaited.JOIN and not self.rejoin[m])
        require(any(self.exists[p] and not self.listed[p] for p in Partition))
        self.rejoin[m] = True

    # ── Joining: the client ─────────────────────────────────────────────────────────────────

    @action(fair=weak)
    def lookup_coordinator(self, m: Member) -> None:
        """{m} asks the least loaded node who coordinates, and is told."""
        require(self.client[m] != MemberState.OFF and not self.knows[m])
        require(self.coordinator is not None)
        self.knows[m] = True

    @action(fair=weak)
    def initiate_join_group(self, m: Member) -> None:
        """{m} gives up its partitions, and sends JoinGroup; it sends no heartbeats meanwhile."""
        require(self.knows[m] and self.awaits[m] == Awaited.NOTHING)
        require(
            self.client[m] == MemberState.UNJOINED
            or (self.client[m] == MemberState.STABLE and self.rejoin[m])
        )
        self.client[m] = MemberState.REBALANCING
        self.rejoin[m] = False
        self.on_join_prepare(m)
        self.ask(m, Awaited.JOIN)

    @action(fair=weak)
    def learn_member_id(self, m: Member) -> None:
        """JoinGroupResponseHandler: {m} is told its member id, and that it must come with it."""
        self.takes(m, GroupAnswer.MEMBER_ID_REQUIRED)
        self.fail_future(m)
        self.has_id[m] = True

    @action(fair=weak)
    def on_join_leader(self, m: Member) -> None:
        """JoinGroupResponseHandler: {m} leads, shares the partitions out, and sends SyncGroup."""
        self.takes(m, GroupAnswer.LEADER)
        self.begin_sync(m, True)

    @action(fair=weak)
    def on_join_follower(self, m: Member) -> None:
        """JoinGroupResponseHandler: {m} does not lead, and sends SyncGroup without assignment."""
        self.takes(m, GroupAnswer.FOLLOWER)
        self.begin_sync(m, False)

    @action(fair=weak)
    def on_join_complete(self, m: Member) -> None:
        """SyncGroupResponseHandler: {m} is STABLE, has its assignment, and tells its listener."""
        self.takes(m, GroupAnswer.ASSIGNMENT)
        self.client[m] = MemberState.STABLE
        self.awaits[m] = Awaited.NOTHING

    @action(fair=weak)
    def reset_generation(self, m: Member) -> None:
        """{m} is told that nobody knows its member id, and will join without one."""
        self.takes(m, GroupAnswer.UNKNOWN_MEMBER_ID)
        self.fail_future(m)
        self.forget_id(m)

    @action(fair=weak)
    def join_again(self, m: Member) -> None:
        """{m} is told that its generation is over, or soon will be, and will join again."""
        require(
            self.down[m] == GroupAnswer.ILLEGAL_GENERATION
            or self.down[m] == GroupAnswer.REBALANCE_IN_PROGRESS
        )
        self.fail_future(m)

    @action(kind=fault)
    def lose(self, m: Member) -> None:
        """The request of {m}, or its answer, is lost with their connection; or the time is up."""
        require(self.awaits[m] != Awaited.NOTHING)
        self.fail_future(m)

    @action(fair=weak)
    def notice_lost(self, m: Member) -> None:
        """Nobody is left who would answer {m}: its connection is closed."""
        require(self.awaits[m] != Awaited.NOTHING and not self.up[m])
        require(self.down[m] == GroupAnswer.NONE and not self.joined[m] and not self.synced[m])
        self.fail_future(m)

    # ── Joining: the coordinator ────────────────────────────────────────────────────────────

    @action(fair=weak)
    def handle_join_group(self, m: Member) -> None:
        """The coordinator reads the JoinGroup of {m}."""
        self.hears(m, Awaited.JOIN)
        self.read_join(m)

    def read_join(self, m: Member) -> None:
        """A JoinGroup was read."""
        if not self.has_id[m]:
            require(self.entry[m] == Entry.NONE)  # else it is another one's, or its own former id
            self.entry[m] = Entry.PENDING
            self.down[m] = GroupAnswer.MEMBER_ID_REQUIRED
        elif self.entry[m] == Entry.NONE:
            self.down[m] = GroupAnswer.UNKNOWN_MEMBER_ID
        elif self.answers_at_once(m):
            self.answer_join(m)
            self.note_joined(m)
        else:
            self.wait_for_others(m)

    @action(fair=weak)
    def complete_join(self) -> None:
        """onCompleteJoin: all have joined, and the next generation is sent to be stored."""
        self.attends()
        require(self.state == GroupState.PREPARING_REBALANCE and self.all_have_joined())
        require(all(not self.is_new(p) for p in Partition))
        self.write = GroupWrite.GENERATION
        self.note_all_joined()

    @action(fair=weak)
    def store_generation(self, leader: Member) -> None:
        """The next generation is stored, with its members; {leader} leads them."""
        self.stores(GroupWrite.GENERATION)
        require(self.has_members())
        require(self.leader == leader or self.leader is None or not self.joined[self.leader])
        require(self.joined[leader])
        self.begin_generation()
        self.leader = leader

    @action(fair=weak)
    def store_empty_generation(self) -> None:
        """The next generation is stored, which has no members."""
        self.stores(GroupWrite.GENERATION)
        require(not self.has_members())
        self.begin_generation()
        self.leader = None

    @action(fair=weak)
    def answer_joins(self) -> None:
        """The coordinator hears that the generation is stored, and answers all who wait for it."""
        self.hears_of(GroupWrite.GENERATION)
        self.state = GroupState.COMPLETING_REBALANCE if self.has_members() else GroupState.EMPTY
        for m in Member:
            if self.joined[m] and self.is_awaited(m, Awaited.JOIN):
                self.answer_join(m)
            self.joined[m] = False

    @action(fair=weak)
    def handle_sync_group(self, m: Member) -> None:
        """The coordinator reads the SyncGroup of {m}."""
        self.hears(m, Awaited.SYNC)
        self.read_sync(m)

    def read_sync(self, m: Member) -> None:
        """A SyncGroup was read."""
        if not self.is_member(m):
            self.down[m] = GroupAnswer.UNKNOWN_MEMBER_ID
        elif self.at[m] != self.generation:
            self.down[m] = GroupAnswer.ILLEGAL_GENERATION
        elif self.state == GroupState.PREPARING_REBALANCE:
            self.down[m] = GroupAnswer.REBALANCE_IN_PROGRESS
        elif self.state == GroupState.STABLE:
            self.answer_sync(m)
        else:
            self.synced[m] = True
            if self.leader == m:
                self.share_out()

    @action(fair=weak)
    def store_assignment(self, plan: dict[Partition, Member | None]) -> None:
        """The assignment that the leader has sent is stored: {plan}."""
        self.stores(GroupWrite.ASSIGNMENT)
        require(all(self.is_right(p, plan[p]) for p in Partition))
        self.assigned = self.generation
        for p in Partition:
            self.hand_over(p, plan[p])
        self.note_handed_over()

    @action(fair=weak)
    def answer_syncs(self) -> None:
        """The coordinator hears that the assignment is stored, and tells all who wait for it."""
        self.hears_of(GroupWrite.ASSIGNMENT)
        self.state = GroupState.STABLE
        for m in Member:
            if self.synced[m] and self.is_awaited(m, Awaited.SYNC):
                self.answer_sync(m)
            self.synced[m] = False

    # ── Members come to be counted no more ──────────────────────────────────────────────────

    @action(kind=fault)
    def expire(self, m: Member) -> None:
        """The session of {m}, or the time in which it should join again, is over."""
        require(not self.is_gone(m))
        self.evict(m)

    @action(fair=weak)
    def expire_gone(self, m: Member) -> None:
        """The session of {m}, which is no more or has lost its id, is over."""
        require(self.is_gone(m))
        self.evict(m)

    @action(fair=weak)
    def heartbeat(self, m: Member) -> None:
        """{m} sends a heartbeat, and is told if it must join again."""
        require(self.client[m] == MemberState.STABLE and self.knows[m] and not self.rejoin[m])
        self.attends()
        self.read_heartbeat(m)

    def read_heartbeat(self, m: Member) -> None:
        """A heartbeat was read, and is answered at once."""
        if not self.is_member(m):
            self.has_id[m] = False
            self.rejoin[m] = True
        elif self.at[m] != self.generation or self.state == GroupState.PREPARING_REBALANCE:
            self.rejoin[m] = True

    @action(kind=fault)
    def session_time_out(self, m: Member) -> None:
        """{m} has no answer to its heartbeats: who coordinates, it knows no more."""
        require(self.knows[m])
        self.knows[m] = False

    @action(kind=fault)
    def poll_time_out(self, m: Member) -> None:
        """The user of {m} has not polled in time: it stops, and sends LeaveGroup."""
        require(self.client[m] == MemberState.STABLE)
        self.leave_group(m)
        self.fail_future(m)
        self.forget_id(m)

    @action(fair=weak)
    def handle_leave_group(self, m: Member) -> None:
        """The coordinator reads the LeaveGroup of {m}."""
        self.attends()
        require(self.leaving[m] and self.commit_at[m] == 0)
        self.leaving[m] = False
        self.joined[m] = False
        self.synced[m] = False
        if self.entry[m] != Entry.NONE:
            self.remove(m)
            if self.state not in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE):
                self.prepare_rebalance()  # Kafka does so for whoever is pending, too

    # ── Records and offsets ─────────────────────────────────────────────────────────────────

    @action(fair=weak)
    def update_fetch_positions(self, m: Member) -> None:
        """{m} asks how far its partitions are, and begins there."""
        require(self.client[m] == MemberState.STABLE and not self.ready[m])
        require(self.knows[m] and self.coordinator is not None and self.commit_at[m] == 0)
        require(self.are_stored(m))
        self.ready[m] = True
        for p in Partition:
            if self.asks_for(m, p):
                self.position[m, p] = self.committed[p]
        self.note_begun(m)

    @action(kind=command, disturbs=True)
    def consume(self, m: Member, p: Partition) -> None:
        """The application of {m} finishes with its next record of {p}."""
        require(self.consumes(m, p))
        self.position[m, p] = self.position[m, p] + 1
        self.finished[p] = max(self.finished[p], self.position[m, p])

    @action(kind=command)
    def commit(self, m: Member) -> None:
        """{m} sends OffsetCommit of all that its application has finished."""
        require(self.ready[m] and self.knows[m] and self.commit_at[m] == 0 and not self.up[m])
        require(any(self.position[m, p] > 0 for p in Partition))
        self.commit_at[m] = self.at[m]
        for p in Partition:
            self.committing[m, p] = self.position[m, p]

    @action(fair=weak)
    def handle_offset_commit(self, m: Member) -> None:
        """The coordinator reads the OffsetCommit of {m}."""
        self.attends()
        require(self.commit_at[m] > 0)
        if self.is_member(m):
            for p in Partition:
                if self.committing[m, p] > 0 and self.accepts_offset(m, p):
                    self.noted[p] = self.committing[m, p]
        self.drop_commit(m)

    @action(fair=weak)
    def flush_offsets(self) -> None:
        """The coordinator sends the offsets that it has taken to be stored."""
        self.attends()
        require(any(self.is_new(p) for p in Partition))
        self.write = GroupWrite.OFFSETS
        for p in Partition:
            self.sent[p] = self.noted[p] if self.is_new(p) else 0

    @action(fair=weak)
    def store_offsets(self) -> None:
        """The offsets are stored."""
        self.stores(GroupWrite.OFFSETS)
        for p in Partition:
            if self.sent[p] > 0:
                self.committed[p] = self.sent[p]
            self.sent[p] = 0

    @action(fair=weak)
    def answer_commits(self) -> None:
        """The coordinator hears that the offsets are stored, and answers who has sent them."""
        self.hears_of(GroupWrite.OFFSETS)

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def begin_sync(self, m: Member, leading: bool) -> None:
        """A client is told its generation, and sends SyncGroup."""
        self.at[m] = self.said[m]
        self.said[m] = 0
        self.leads[m] = leading
        self.ask(m, Awaited.SYNC)

    def wait_for_others(self, m: Member) -> None:
        """A member's JoinGroup waits for the next generation, and all must join it."""
        self.entry[m] = Entry.MEMBER
        self.joined[m] = True
        self.note_joined(m)
        if self.state != GroupState.PREPARING_REBALANCE:
            self.prepare_rebalance()

    def answers_at_once(self, m: Member) -> bool:
        """A member that asks again for a generation that it belongs to is told of it once more."""
        return self.belongs_already(m)

    def belongs_already(self, m: Member) -> bool:
        """It is a member of a generation that is handed out, and does not lead a Stable group."""
        return self.is_member(m) and (
            self.state == GroupState.COMPLETING_REBALANCE
            or (self.state == GroupState.STABLE and self.leader != m)
        )

    def all_have_joined(self) -> bool:
        """Every member's JoinGroup waits; for whoever is pending nobody has to wait."""
        return all(self.joined[m] or not self.is_member(m) for m in Member)

    def share_out(self) -> None:
        """The leader's assignment is sent to be stored: of the partitions that there are."""
        self.write = GroupWrite.ASSIGNMENT
        self.note_partitions()
        for p in Partition:
            self.listed[p] = self.exists[p]

    def stores(self, what: GroupWrite) -> None:
        """This is stored, if its coordinator is the present one."""
        require(self.write == what and not self.done)
        self.done = True
        self.fenced_write()

    def fenced_write(self) -> None:
        """A write checks the epoch."""
        assert self.coordinator is not None
        self.election.write(self.coordinator)

    def hears_of(self, what: GroupWrite) -> None:
        """The coordinator hears that this was stored."""
        require(self.write == what and self.done)
        self.write = GroupWrite.NONE
        self.done = False

    def begin_generation(self) -> None:
        """Whoever has joined is a member of the next generation."""
        self.generation = self.generation + 1
        for m in Member:
            self.belongs[m] = self.is_member(m)

    def is_gone(self, m: Member) -> bool:
        """Nobody bears the member id, nor will be told it."""
        return self.client[m] == MemberState.OFF or (
            not self.has_id[m] and self.down[m] != GroupAnswer.MEMBER_ID_REQUIRED
        )

    def evict(self, m: Member) -> None:
        """No session timer expels a member whose JoinGroup or SyncGroup waits."""
        self.attends()
        require(self.entry[m] != Entry.NONE and not self.joined[m] and not self.synced[m])
        require(self.has_stopped(m))
        self.remove(m)

    def leave_group(self, m: Member) -> None:
        """LeaveGroup is sent, where it is known by whom and to whom."""
        self.leaving[m] = self.leaving[m] or (self.knows[m] and self.has_id[m])

    def forget_id(self, m: Member) -> None:
        """The client has neither member id nor generation."""
        self.has_id[m] = False
        self.at[m] = 0

    def forget(self, m: Member) -> None:
        """The client is no more."""
        self.fail_future(m)
        self.forget_id(m)
        self.client[m] = MemberState.OFF
        self.knows[m] = False
        self.rejoin[m] = False
