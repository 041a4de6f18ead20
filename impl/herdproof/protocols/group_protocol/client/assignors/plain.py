"""RangeAssignor and RoundRobinAssignor: Kafka's plans that know nothing of what was before."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from herdproof.consuming.assignment import range_assign
from herdproof.protocols.group_protocol.client.assignors.assignor import (
    MemberSubscription,
    PlainAssignor,
    Plan,
)
from herdproof.protocols.group_protocol.effects import TopicPartition


class RangeAssignor(PlainAssignor):
    """Topic by topic, each member a run of its partitions, the first ones one more."""

    name = "range"

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> Plan:  # fmt: skip
        """The plan."""
        plan: dict[str, list[TopicPartition]] = {member: [] for member in members}
        for topic in sorted(topics):
            interested = [m for m in in_order(members) if topic in members[m].topics]
            shares = range_assign(range(topics[topic]), interested)
            for number, member in shares.items():
                plan[member].append((topic, number))
        return plan


class RoundRobinAssignor(PlainAssignor):
    """All partitions in order, one to each member in turn that wants its topic."""

    name = "roundrobin"

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> Plan:  # fmt: skip
        """The plan."""
        plan: dict[str, list[TopicPartition]] = {member: [] for member in members}
        turns = cycle(in_order(members))
        for topic in sorted(topics):
            if any(topic in member.topics for member in members.values()):
                for number in range(topics[topic]):
                    member = next(m for m in turns if topic in members[m].topics)
                    plan[member].append((topic, number))
        return plan


def in_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Members as Kafka's assignors sort them: static ones first, by their instance ids."""
    return sorted(
        members,
        key=lambda m: (members[m].group_instance_id is None, members[m].group_instance_id or m),
    )
