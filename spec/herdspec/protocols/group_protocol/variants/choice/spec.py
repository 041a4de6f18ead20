"""
A choice among protocols: members list the assignors that they support, and the coordinator chooses.

A client's JoinGroup names its protocols, each of them an assignor. Who has none in common with all
members that there are is told INCONSISTENT_GROUP_PROTOCOL: its application hears of that, and
closes it. With each generation the coordinator chooses a protocol that all its members support; it
is stored with the generation and told with it, the leader assigns by it, and the others read their
assignments by it. A member that joins again with other protocols (as in a rolling change from one
assignor to another) begins a rebalance, be the generation assigned or not.

A coordinator that takes over knows of each member the chosen protocol alone: nothing else of what
it has listed is stored. So whoever supports something else that they all have in common is refused,
until the members have joined again; that is Kafka's, too. So is that a member which joins again is
held to what it has listed before, as if that were another one's.

Source: apache/kafka, `ClassicGroup` (supportsProtocols, selectProtocol) and
`GroupMetadataManager.classicGroupJoin`.

Assumed: as in the group protocol. A client lists other protocols only with a JoinGroup, since it
needs a listener that has given its partitions up.
Not modelled: as in the group protocol. Votes: of the protocols that all support any may be chosen,
while Kafka takes the one that most members list first. The protocol's type; and what a protocol
tells its assignor, so that all protocols plan alike.
"""

from __future__ import annotations

from herdspec import action, command, each, require, weak
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


class Assignor(Sort):
    """A partition assignor, as JoinGroup names it: one of the protocols that a client supports."""


class ChoosingGroup(GroupProtocol):
    """A coordinator and clients, each of which supports some protocols."""

    # What is stored.
    protocol: Assignor | None = None  # of the stored generation

    # What the coordinator keeps in memory.
    listed_by: dict[tuple[Member, Assignor], bool] = each(False)  # in the member's last JoinGroup

    # What a client knows, or is about to.
    supports: dict[tuple[Member, Assignor], bool] = each(False)  # what it lists
    uses: dict[Member, Assignor | None] = each(None)  # by the answer to its last JoinGroup

    # ── The client ──────────────────────────────────────────────────────────────────────────

    @action(kind=command)
    def subscribe(  # type: ignore[override]
        self, m: Member, wanted: set[Partition], assignors: set[Assignor]
    ) -> None:
        """{m} subscribes to {wanted}, and supports {assignors}."""
        require(any(a in assignors for a in Assignor))
        self.begin_life(m)
        for p in Partition:
            self.interest[m, p] = p in wanted
        for a in Assignor:
            self.supports[m, a] = a in assignors

    @action(kind=command, disturbs=True)
    def change_protocols(self, m: Member, assignors: set[Assignor]) -> None:
        """{m} gives up its partitions, and sends JoinGroup with other protocols: {assignors}."""
        require(self.knows[m] and self.awaits[m] == Awaited.NOTHING)
        require(self.client[m] in (MemberState.UNJOINED, MemberState.STABLE))
        require(any(a in assignors for a in Assignor))
        require(any((a in assignors) != self.supports[m, a] for a in Assignor))
        for a in Assignor:
            self.supports[m, a] = a in assignors
        self.client[m] = MemberState.REBALANCING
        self.rejoin[m] = False
        self.on_join_prepare(m)
        self.ask(m, Awaited.JOIN)

    @action(fair=weak)
    def be_refused(self, m: Member) -> None:
        """{m} is told that no protocol is common to all, and its application closes it."""
        self.takes(m, GroupAnswer.INCONSISTENT_GROUP_PROTOCOL)
        self.leave_group(m)
        self.forget(m)

    def on_join_prepare(self, m: Member) -> None:
        """A client that is about to join gives up whatever it has, and its protocol."""
        self.revoke(m)
        self.uses[m] = None

    def end_future(self, m: Member) -> None:
        """The joinFuture fails: whatever was to be answered is not, or is not heard."""
        self.client[m] = MemberState.UNJOINED
        self.awaits[m] = Awaited.NOTHING
        self.up[m] = False
        self.down[m] = GroupAnswer.NONE
        self.said[m] = 0
        self.uses[m] = None
        self.leads[m] = False

    def forget(self, m: Member) -> None:
        """The client is no more."""
        self.fail_future(m)
        self.forget_id(m)
        self.client[m] = MemberState.OFF
        self.knows[m] = False
        self.rejoin[m] = False
        for a in Assignor:
            self.supports[m, a] = False

    def is_awaited(self, m: Member, awaited: Awaited) -> bool:
        """Its last request was read, and it is not answered yet: not even by a refusal."""
        return self.awaits[m] == awaited and not self.up[m] and self.down[m] == GroupAnswer.NONE

    # ── The coordinator ─────────────────────────────────────────────────────────────────────

    @action(fair=weak)
    def handle_join_group(self, m: Member) -> None:
        """The coordinator reads the JoinGroup of {m}, and looks at its protocols first."""
        self.hears(m, Awaited.JOIN)
        if self.fits(m):
            self.read_join(m)
        else:
            self.down[m] = GroupAnswer.INCONSISTENT_GROUP_PROTOCOL

    @action(fair=weak)
    def store_generation(  # type: ignore[override]
        self, leader: Member, protocol: Assignor
    ) -> None:
        """The next generation is stored; {leader} leads its members, and will use {protocol}."""
        self.stores(GroupWrite.GENERATION)
        require(self.has_members())
        require(self.leader == leader or self.leader is None or not self.joined[self.leader])
        require(self.joined[leader])
        require(self.is_common(protocol))
        self.begin_generation()
        self.leader = leader
        self.protocol = protocol

    @action(fair=weak)
    def store_empty_generation(self) -> None:
        """The next generation is stored, which has no members, and no protocol."""
        self.stores(GroupWrite.GENERATION)
        require(not self.has_members())
        self.begin_generation()
        self.leader = None
        self.protocol = None

    def fits(self, m: Member) -> bool:
        """A group without members takes anybody; else one of the protocols is common to all."""
        return self.state == GroupState.EMPTY or any(
            self.supports[m, a] and self.is_common(a) for a in Assignor
        )

    def is_common(self, a: Assignor) -> bool:
        """All members that the coordinator counts have listed the protocol."""
        return all(self.listed_by[m, a] or not self.is_member(m) for m in Member)

    def lists_the_protocol(self, m: Member) -> bool:
        """A member has listed the protocol of the stored generation."""
        return any(self.protocol == a and self.listed_by[m, a] for a in Assignor)

    def lists_the_same(self, m: Member) -> bool:
        """The JoinGroup of a member lists what its last one did."""
        return all(self.supports[m, a] == self.listed_by[m, a] for a in Assignor)

    def answers_at_once(self, m: Member) -> bool:
        """A member that asks again, and lists the same, is told of its generation once more."""
        return self.belongs_already(m) and self.lists_the_same(m)

    def note_joined(self, m: Member) -> None:
        """A member's JoinGroup was read, and says what it supports."""
        for a in Assignor:
            self.listed_by[m, a] = self.supports[m, a]

    def answer_join(self, m: Member) -> None:
        """The answer to a JoinGroup: the present generation, who leads it, and its protocol."""
        self.down[m] = GroupAnswer.LEADER if self.leader == m else GroupAnswer.FOLLOWER
        self.said[m] = self.generation
        self.uses[m] = self.protocol

    def remove(self, m: Member) -> None:
        """The coordinator counts a member no more, whatever it has listed: the others rebalance."""
        was_member = self.is_member(m)
        self.entry[m] = Entry.NONE
        for a in Assignor:
            self.listed_by[m, a] = False
        if was_member and self.state != GroupState.PREPARING_REBALANCE:
            self.prepare_rebalance()

    def note_unloaded(self) -> None:
        """Of what JoinGroups have listed, only what was chosen is stored, with the generation."""
        for m in Member:
            for a in Assignor:
                self.listed_by[m, a] = self.belongs[m] and self.protocol == a
