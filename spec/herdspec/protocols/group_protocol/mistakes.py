"""
Habits of the printed client (`003`) and of Kafka's own coordinator, one function each.

Each replaces the action or the part of an action that it is named for in `flaws.py`.
"""

from __future__ import annotations

from herdspec import require
from herdspec.language.surface import action, fault
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group_protocol.properties import gone_at_once as gone_at_once
from herdspec.protocols.group_protocol.spec import (
    Awaited,
    Entry,
    GroupAnswer,
    GroupProtocol,
    GroupState,
    Member,
    MemberState,
    Partition,
)

# ── The client as it is printed ─────────────────────────────────────────────────────────────


def join_only_once(self: GroupProtocol, m: Member) -> None:
    """{m} sends JoinGroup; once that has succeeded, every later poll finds the old future."""
    require(self.knows[m] and self.awaits[m] == Awaited.NOTHING)
    require(self.client[m] == MemberState.UNJOINED)
    self.client[m] = MemberState.REBALANCING
    self.rejoin[m] = False
    self.ask(m, Awaited.JOIN)


def join_with_partitions(self: GroupProtocol, m: Member) -> None:
    """{m} sends JoinGroup, and consumes on: nothing tells it to give up its partitions."""
    require(self.knows[m] and self.awaits[m] == Awaited.NOTHING)
    require(
        self.client[m] == MemberState.UNJOINED
        or (self.client[m] == MemberState.STABLE and self.rejoin[m])
    )
    self.client[m] = MemberState.REBALANCING
    self.rejoin[m] = False
    self.ask(m, Awaited.JOIN)


def complete_and_forget(self: GroupProtocol, m: Member) -> None:
    """SyncGroupResponseHandler: {m} is STABLE, and rejoinNeeded is false, whatever has set it."""
    self.takes(m, GroupAnswer.ASSIGNMENT)
    self.client[m] = MemberState.STABLE
    self.awaits[m] = Awaited.NOTHING
    self.rejoin[m] = False


def notice_once(self: GroupProtocol, m: Member) -> None:
    """{m}, which leads, is told once of a partition that its assignment did not know."""
    require(self.leads[m] and self.awaits[m] != Awaited.JOIN and not self.rejoin[m])
    require(any(self.exists[p] and not self.listed[p] for p in Partition))
    self.rejoin[m] = True
    for p in Partition:
        self.listed[p] = self.exists[p]


def leave_and_go_on(self: GroupProtocol, m: Member) -> None:
    """The user of {m} has not polled in time: LeaveGroup is sent, and it works on."""
    require(self.client[m] == MemberState.STABLE and self.has_id[m])
    self.leave_group(m)
    self.has_id[m] = False
    self.rejoin[m] = True


# ── The coordinator ─────────────────────────────────────────────────────────────────────────


def join_without_id(self: GroupProtocol, m: Member) -> None:
    """The coordinator reads the JoinGroup of {m}, which is told its id with the generation."""
    self.hears(m, Awaited.JOIN)
    if self.has_id[m] and self.entry[m] == Entry.NONE:
        self.down[m] = GroupAnswer.UNKNOWN_MEMBER_ID
    elif self.answers_at_once(m):
        self.answer_join(m)
    else:
        require(self.has_id[m] or self.entry[m] == Entry.NONE)
        self.entry[m] = Entry.MEMBER
        self.joined[m] = True
        if self.state != GroupState.PREPARING_REBALANCE:
            self.prepare_rebalance()


def bears_no_id(self: GroupProtocol, m: Member) -> bool:
    """Nobody bears the member id, nor will be told it with a generation."""
    return self.client[m] == MemberState.OFF or (
        not self.has_id[m] and self.down[m] not in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
    )


def sync_with_id(self: GroupProtocol, m: Member, leading: bool) -> None:
    """A client is told its generation, and with it its member id."""
    self.has_id[m] = True
    self.at[m] = self.said[m]
    self.said[m] = 0
    self.leads[m] = leading
    self.ask(m, Awaited.SYNC)


def only_the_generation(self: GroupProtocol, m: Member, p: Partition) -> bool:
    """An offset is taken from whoever is in the present generation, for any partition."""
    return self.commit_at[m] == self.generation and self.assigned == self.generation


def load_what_was_assigned(self: GroupProtocol, b: Broker) -> None:
    """{b} loads the group: a generation is stored with its assignment, and not before."""
    require(not self.election.leads[b])
    self.election.take_up(b, True, True)
    self.unload()
    self.coordinator = b
    self.generation = self.assigned
    self.state = GroupState.STABLE if self.assigned > 0 else GroupState.EMPTY
    for m in Member:
        self.belongs[m] = self.belongs[m] and self.assigned > 0
        self.entry[m] = Entry.MEMBER if self.belongs[m] else Entry.NONE


def expel_whoever(self: GroupProtocol, m: Member) -> None:
    """A session timer goes on while JoinGroup or SyncGroup waits."""
    self.attends()
    require(self.entry[m] != Entry.NONE)
    require(self.has_stopped(m))
    if (self.joined[m] and self.is_awaited(m, Awaited.JOIN)) or (
        self.synced[m] and self.is_awaited(m, Awaited.SYNC)
    ):
        self.down[m] = GroupAnswer.UNKNOWN_MEMBER_ID
    self.joined[m] = False
    self.synced[m] = False
    self.remove(m)


@action(kind=fault)
def expire_new_member(self: GroupProtocol, m: Member) -> None:
    """{m}, which has been in no generation, has waited for too long: it is a member no longer."""
    self.attends()
    require(self.joined[m] and not self.belongs[m])
    if self.is_awaited(m, Awaited.JOIN):
        self.down[m] = GroupAnswer.UNKNOWN_MEMBER_ID
    self.joined[m] = False
    self.remove(m)


def any_write(self: GroupProtocol) -> None:
    """Whatever is written is accepted."""
    assert self.coordinator is not None
    broker = self.coordinator
    if self.election.token[broker] != self.election.epoch:
        self.election.stale_write_accepted = True


# ── The world ───────────────────────────────────────────────────────────────────────────────


@action(kind=fault)
def read_late_join(self: GroupProtocol, m: Member) -> None:
    """The coordinator reads a JoinGroup of {m} that it gave up, and that it has sent again."""
    self.attends()
    require(self.state == GroupState.PREPARING_REBALANCE and self.is_member(m))
    require(self.client[m] == MemberState.STABLE and not self.joined[m])
    self.joined[m] = True
