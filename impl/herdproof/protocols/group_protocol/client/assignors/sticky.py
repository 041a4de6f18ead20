"""
StickyAssignor and CooperativeStickyAssignor: as even as can be, then with as few moves as can be.

What is promised (KIP-54): no partition can be moved to a member that has two less than its owner;
and whoever had a partition keeps it, unless that would be uneven. Which of several such plans it
is, each implementation decides for itself.

What a member had it tells its leader: the sticky one in its user data, in Java's layout
(`StickyAssignorUserData` 1), the cooperative one in its subscription. Where two claim a partition,
the one of the later generation had it last; in one generation, neither.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from herdproof.consuming.consumer_protocol import write_partitions
from herdproof.consuming.layouts import NEVER, Layout
from herdproof.errors import Malformed
from herdproof.protocols.group_protocol.client.assignors.assignor import (
    MemberSubscription,
    Plan,
    RebalanceProtocol,
)
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.messages import NO_GENERATION

_GENERATION = struct.Struct(">i")
USER_DATA = Layout(
    "StickyAssignorUserData", (0, 1), NEVER,
    """
    previous_assignment []TopicAssignment
    generation int32 1+
    """,
    {"TopicAssignment": "topic string\npartitions []int32"},
)  # fmt: skip
"""Java's, which has no version of its own in the bytes: 1, where the generation is there."""


class StickyAssignor:
    """Members give all partitions up before they join, and get most of them back."""

    name = "sticky"
    protocol = RebalanceProtocol.EAGER

    def __init__(self) -> None:
        self._had: tuple[TopicPartition, ...] = ()
        self._generation = NO_GENERATION

    def subscription_user_data(self, topics: Sequence[str]) -> bytes | None:
        """The last assignment of this member, and when that was; nothing before the first time."""
        del topics
        if self._generation == NO_GENERATION:
            return None
        return write_partitions(self._had) + _GENERATION.pack(self._generation)

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        """Remember it."""
        self._had, self._generation = tuple(partitions), generation

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> Plan:  # fmt: skip
        """The plan."""
        return sticky_plan(topics, members, {m: self._told(each) for m, each in members.items()})

    def _told(self, member: MemberSubscription) -> tuple[int, tuple[TopicPartition, ...]]:
        return read_user_data(member.user_data)


class CooperativeStickyAssignor:
    """Members keep their partitions; what is to move is nobody's for one generation."""

    name = "cooperative-sticky"
    protocol = RebalanceProtocol.COOPERATIVE

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def subscription_user_data(self, topics: Sequence[str]) -> bytes | None:
        """Since when this member has what its subscription says that it owns."""
        del topics
        return _GENERATION.pack(self._generation)

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        """Remember when."""
        del partitions
        self._generation = generation

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> Plan:  # fmt: skip
        """The plan, without those partitions that their owners have to give up first."""
        had = {member: (since(each), each.owned) for member, each in members.items()}
        plan = sticky_plan(topics, members, had)
        claims: dict[TopicPartition, list[str]] = {}
        for member, each in members.items():
            for where in each.owned:
                claims.setdefault(where, []).append(member)
        return {
            member: [where for where in partitions if claims.get(where, [member]) == [member]]
            for member, partitions in plan.items()
        }


def since(member: MemberSubscription) -> int:
    """The generation of what a member owns, by its subscription or by its user data."""
    told = member.user_data or b""
    if member.generation == NO_GENERATION and len(told) == _GENERATION.size:
        return int(_GENERATION.unpack(told)[0])
    return member.generation


def read_user_data(data: bytes | None) -> tuple[int, tuple[TopicPartition, ...]]:
    """The partitions that a member had, and in which generation; none if that cannot be read."""
    for version in (1, 0) if data else ():
        try:
            told = USER_DATA.read(data or b"", 0, version)
        except Malformed:
            continue
        places = ((t["topic"], n) for t in told["previous_assignment"] for n in t["partitions"])
        return told.get("generation", NO_GENERATION), tuple(places)
    return NO_GENERATION, ()


def sticky_plan(
    topics: Mapping[str, int], members: Mapping[str, MemberSubscription],
    had: Mapping[str, tuple[int, Sequence[TopicPartition]]],
) -> dict[str, list[TopicPartition]]:  # fmt: skip
    """As even as can be; each member keeps of what it had, in that generation, what it may."""
    wanted: dict[str, list[str]] = {
        topic: [m for m in sorted(members) if topic in members[m].topics] for topic in topics
    }
    owner = kept(wanted, topics, had)
    plan: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for where, member in sorted(owner.items()):
        plan[member].append(where)
    everything = [(topic, n) for topic in sorted(topics) for n in range(topics[topic])]
    free = [where for where in everything if where not in owner and wanted[where[0]]]
    for where in sorted(free, key=lambda where: len(wanted[where[0]])):
        plan[min(wanted[where[0]], key=lambda m: len(plan[m]))].append(where)
    while (move := uneven(plan, wanted)) is not None:
        where, giver, taker = move
        plan[giver].remove(where)
        plan[taker].append(where)
    return {member: sorted(partitions) for member, partitions in plan.items()}


def kept(
    wanted: Mapping[str, Sequence[str]], topics: Mapping[str, int],
    had: Mapping[str, tuple[int, Sequence[TopicPartition]]],
) -> dict[TopicPartition, str]:  # fmt: skip
    """Who had each partition last, if it may keep it."""
    last: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in sorted(had):
        generation, partitions = had[member]
        for where in partitions:
            former, whose = last.get(where, (generation - 1, None))
            if generation > former:
                last[where] = generation, member
            elif generation == former and whose != member:
                last[where] = generation, None
    return {
        (topic, number): member
        for (topic, number), (_, member) in last.items()
        if number < topics.get(topic, 0) and member is not None and member in wanted[topic]
    }


def uneven(
    plan: Mapping[str, Sequence[TopicPartition]], wanted: Mapping[str, Sequence[str]]
) -> tuple[TopicPartition, str, str] | None:
    """A partition that is to move: from who has most to who has least; None, if none need."""
    least = {
        topic: min(takers, key=lambda m: len(plan[m])) for topic, takers in wanted.items() if takers
    }
    for giver in sorted(plan, key=lambda m: -len(plan[m])):
        moves = [(len(plan[least[where[0]]]), where) for where in plan[giver]]
        if moves and min(moves)[0] + 1 < len(plan[giver]):
            _, where = min(moves)
            return where, giver, least[where[0]]
    return None
