"""
Static membership: a member that goes away and comes back in time keeps its place and partitions.

A static member is configured with an instance id (`group.instance.id`). It joins at once, without
being given a member id first; it sends no LeaveGroup; and who comes without a member id, but with
an instance id that a member bears, is that member's next life: it takes over the former life's
place, leadership and partitions under a new member id, in the same generation, and nobody else
notices. Whoever says something under the former member id is fenced, and stops. What is stored of
the group then names the new member id, before it is told.

Where members wait for a static one's JoinGroup longer than the rebalance time-out, the next
generation begins without it, and counts it all the same.

Source: apache/kafka, KIP-345 and KIP-814; `GroupMetadataManager.classicGroupJoin`.

Assumed: as in the group protocol. Under `evicted_has_stopped`: also whom a next life follows has
stopped, and who is counted although it has not joined again.
Not modelled: as in the group protocol. A life is a member id, so that a client which is told that
it is unknown, and joins again, bears the same one.
"""

from __future__ import annotations

from herdspec import action, command, each, fault, initial, require, weak
from herdspec.language.surface import Sort
from herdspec.protocols.group import Member as Member
from herdspec.protocols.group import Partition as Partition
from herdspec.protocols.group_protocol.spec import GroupProtocol
from herdspec.protocols.group_protocol.values import (
    Awaited,
    Entry,
    GroupAnswer,
    GroupState,
    GroupWrite,
    MemberState,
)


class Instance(Sort):
    """Identity of a static member, the same in each of its lives: its group.instance.id."""


class StaticGroup(GroupProtocol):
    """A coordinator and its clients, each of which may be a life of a static member."""

    instance: dict[Member, Instance | None] = each(None)

    @initial
    def some_topics(  # type: ignore[override]
        self, there: set[Partition], configured: dict[Member, Instance | None]
    ) -> None:
        """Some partitions are there from the beginning; some clients are configured as static."""
        self.instance = configured
        for p in Partition:
            self.exists[p] = p in there

    # ── The client ──────────────────────────────────────────────────────────────────────────

    @action(kind=command)
    def subscribe(self, m: Member, wanted: set[Partition]) -> None:
        """{m} subscribes to {wanted}; where it is a static member's life, no other one runs."""
        require(all(not self.are_lives(o, m) or self.client[o] == MemberState.OFF for o in Member))
        self.begin_life(m)
        for p in Partition:
            self.interest[m, p] = p in wanted

    @action(kind=fault)
    def start_twice(self, m: Member, wanted: set[Partition]) -> None:
        """{m} is started, and subscribes to {wanted}, while another life of it still runs."""
        require(any(self.are_lives(o, m) and self.client[o] != MemberState.OFF for o in Member))
        self.begin_life(m)
        for p in Partition:
            self.interest[m, p] = p in wanted

    @action(fair=weak)
    def be_fenced(self, m: Member) -> None:
        """{m} is told that a later life has its place, and stops for good."""
        self.takes(m, GroupAnswer.FENCED_INSTANCE_ID)
        self.forget(m)

    def begin_sync(self, m: Member, leading: bool) -> None:
        """A client is told its generation, and with it its member id, and sends SyncGroup."""
        self.has_id[m] = True
        self.at[m] = self.said[m]
        self.said[m] = 0
        self.leads[m] = leading
        self.ask(m, Awaited.SYNC)

    def leave_group(self, m: Member) -> None:
        """LeaveGroup is sent, where it is known by whom and to whom; no static member sends one."""
        self.leaving[m] = self.leaving[m] or (
            self.knows[m] and self.has_id[m] and self.instance[m] is None
        )

    # ── The coordinator ─────────────────────────────────────────────────────────────────────

    @action(fair=weak)
    def handle_join_group(self, m: Member) -> None:
        """The coordinator reads the JoinGroup of {m}."""
        self.hears(m, Awaited.JOIN)
        if self.is_fenced(m):
            self.down[m] = GroupAnswer.FENCED_INSTANCE_ID
        elif self.has_id[m] or self.instance[m] is None:
            self.read_join(m)
        elif any(self.has_place(o, m) for o in Member):
            self.replace(m)
        else:
            self.wait_for_others(m)

    @action(fair=weak)
    def handle_sync_group(self, m: Member) -> None:
        """The coordinator reads the SyncGroup of {m}."""
        self.hears(m, Awaited.SYNC)
        if self.is_fenced(m):
            self.down[m] = GroupAnswer.FENCED_INSTANCE_ID
        else:
            self.read_sync(m)

    @action(fair=weak)
    def heartbeat(self, m: Member) -> None:
        """{m} sends a heartbeat, and is told if it must join again, or is fenced."""
        require(self.client[m] == MemberState.STABLE and self.knows[m] and not self.rejoin[m])
        self.attends()
        if self.is_fenced(m):
            self.forget(m)
        else:
            self.read_heartbeat(m)

    @action(kind=fault)
    def complete_join_late(self) -> None:
        """All have waited for too long, and go on with those static members that have not come."""
        self.attends()
        require(self.state == GroupState.PREPARING_REBALANCE and not self.all_have_joined())
        require(any(self.joined[m] for m in Member) and all(self.may_miss(m) for m in Member))
        require(all(not self.is_new(p) for p in Partition))
        self.write = GroupWrite.GENERATION
        self.note_all_joined()

    @action(fair=weak)
    def store_replacement(self, m: Member) -> None:
        """{m} is stored in the place of its former life."""
        require(self.joined[m])
        self.stores(GroupWrite.REPLACEMENT)
        for p in Partition:
            if self.is_former(self.owner[p], m):
                self.owner[p] = m
        if self.is_former(self.leader, m):
            self.leader = m
        for o in Member:
            self.belongs[o] = o == m or (self.belongs[o] and not self.are_lives(o, m))

    @action(fair=weak)
    def answer_replacement(self, m: Member) -> None:
        """The coordinator hears that {m} is stored, and answers it: the group is still Stable."""
        require(self.joined[m])
        self.hears_of(GroupWrite.REPLACEMENT)
        self.joined[m] = False
        if self.is_awaited(m, Awaited.JOIN):
            self.answer_join(m)

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def are_lives(self, o: Member, m: Member) -> bool:
        """Both are lives of the same static member; or they are one."""
        return self.instance[m] is not None and self.instance[o] == self.instance[m]

    def is_former(self, o: Member | None, m: Member) -> bool:
        """Somebody is named, and is a life of the same static member."""
        return o is not None and self.are_lives(o, m)

    def has_place(self, o: Member, m: Member) -> bool:
        """The coordinator counts this life of that static member."""
        return self.is_member(o) and self.are_lives(o, m)

    def is_fenced(self, m: Member) -> bool:
        """Who comes with its member id, where the coordinator counts another life."""
        return self.has_id[m] and any(o != m and self.has_place(o, m) for o in Member)

    def replace(self, m: Member) -> None:
        """A life takes the place of another; whatever waits for that one's answer is fenced."""
        require(all(not self.has_place(o, m) or self.has_stopped(o) for o in Member))
        is_same = self.wants_the_same(m)
        for o in Member:
            if o != m and self.has_place(o, m):
                if self.waits(o):
                    self.down[o] = GroupAnswer.FENCED_INSTANCE_ID
                self.joined[o] = False
                self.synced[o] = False
                self.entry[o] = Entry.NONE
        if self.state == GroupState.STABLE and is_same:
            self.entry[m] = Entry.MEMBER
            self.joined[m] = True
            self.note_joined(m)
            self.write = GroupWrite.REPLACEMENT
        else:
            self.wait_for_others(m)

    def waits(self, m: Member) -> bool:
        """Its JoinGroup or SyncGroup waits, and it waits for the answer."""
        return (self.joined[m] and self.is_awaited(m, Awaited.JOIN)) or (
            self.synced[m] and self.is_awaited(m, Awaited.SYNC)
        )

    def wants_the_same(self, m: Member) -> bool:
        """A life has subscribed to the same as the one whose place it takes."""
        return all(
            not self.has_place(o, m) or self.interest[o, p] == self.interest[m, p]
            for o in Member
            for p in Partition
        )

    def may_miss(self, m: Member) -> bool:
        """Nobody waits any longer for this one: it has joined, or is static, and has stopped."""
        return (
            self.joined[m]
            or self.entry[m] == Entry.NONE
            or (self.is_member(m) and self.instance[m] is not None and self.has_stopped(m))
        )

    def is_gone(self, m: Member) -> bool:
        """Nobody bears the member id, nor will be told it."""
        return self.client[m] == MemberState.OFF or (
            not self.has_id[m]
            and self.down[m]
            not in (GroupAnswer.MEMBER_ID_REQUIRED, GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
        )
