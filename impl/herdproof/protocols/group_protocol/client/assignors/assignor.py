"""
PartitionAssignor: what every assignor is, and what its plan is held to before anybody is told.

A user's own is any object of this shape; the simplest one:

    class EverythingToTheFirst(PlainAssignor):
        name = "first"

        def assign(self, topics, members):
            first = min(members)
            return {first: [(t, n) for t, count in topics.items() for n in range(count)]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from herdproof.consuming.consumer_protocol import read_subscription
from herdproof.errors import CallerError, Malformed
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.messages import NO_GENERATION, JoinedMember

Plan: TypeAlias = Mapping[str, Sequence[TopicPartition]]
"""The partitions of each member, by its member id."""


class RebalanceProtocol(Enum):
    """The protocol of a rebalance: what members do with their partitions before they join again."""

    EAGER = "eager"
    """Members give all up before a rebalance."""
    COOPERATIVE = "cooperative"
    """Members keep what they have, give up what they are not assigned any more, and join again."""


class AssignorFailed(CallerError):
    """An assignor has no plan, or one that cannot be; the join fails, and is tried again."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """The subscription of a member, as its leader is told of it."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    """Of what it owns."""
    group_instance_id: str | None = None


class PartitionAssignor(Protocol):
    """Shares partitions out among a group's members."""

    name: str
    """By which members agree on it."""
    protocol: RebalanceProtocol

    def subscription_user_data(self, topics: Sequence[str]) -> bytes | None:
        """The data that a member adds to its subscription for the leader."""

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> Plan:  # fmt: skip
        """The plan, for so many partitions of each topic."""

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        """This member has been assigned these."""


class PlainAssignor:
    """An assignor that knows nothing of what was before."""

    protocol = RebalanceProtocol.EAGER

    def subscription_user_data(self, topics: Sequence[str]) -> bytes | None:
        """Nothing."""
        del topics
        return None

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        """Nothing is kept of it."""


def chosen(assignors: Sequence[PartitionAssignor], name: str | None) -> PartitionAssignor:
    """The assignor that the group has agreed on."""
    found = next((assignor for assignor in assignors if assignor.name == name), None)
    if found is None:
        known = ", ".join(assignor.name for assignor in assignors)
        raise AssignorFailed(f"the group has chosen the assignor {name!r}; here are {known}")
    return found


def read_member(member: JoinedMember) -> MemberSubscription:
    """The subscription of a member; raises `AssignorFailed` where it cannot be read."""
    try:
        told = read_subscription(member.metadata)
    except Malformed as problem:
        raise AssignorFailed(
            f"the subscription of member {member.member_id} cannot be read: {problem}"
        ) from None
    owned = told.get("owned_partitions") or ()
    return MemberSubscription(
        tuple(told["topics"]),
        told["user_data"],
        tuple((topic["topic"], number) for topic in owned for number in topic["partitions"]),
        told.get("generation_id", NO_GENERATION),
        member.group_instance_id,
    )


def checked_plan(
    assignor: PartitionAssignor, topics: Mapping[str, int],
    members: Mapping[str, MemberSubscription],
) -> dict[str, list[TopicPartition]]:  # fmt: skip
    """An assignor's plan for all members; raises `AssignorFailed` where it is none."""
    try:
        plan = assignor.assign(topics, members)
    except Exception as problem:
        raise AssignorFailed(f"the assignor {assignor.name} raised {problem!r}") from problem
    owner: dict[TopicPartition, str] = {}
    for member, partitions in plan.items():
        for where in partitions:
            _check(assignor.name, topics, members, member, where)
            if where in owner:
                what = f"{where[0]}-{where[1]} twice: to {owner[where]} and to {member}"
                raise AssignorFailed(f"the assignor {assignor.name} gives {what}")
            owner[where] = member
    if assignor.protocol is RebalanceProtocol.EAGER:
        _check_complete(assignor.name, topics, members, owner)
    return {member: list(plan.get(member, ())) for member in members}


def _check(
    name: str, topics: Mapping[str, int], members: Mapping[str, MemberSubscription],
    member: str, where: TopicPartition,
) -> None:  # fmt: skip
    topic, number = where
    if member not in members:
        raise AssignorFailed(f"the assignor {name} gives {topic}-{number} to {member}, no member")
    if not 0 <= number < topics.get(topic, 0):
        raise AssignorFailed(f"the assignor {name} gives {topic}-{number}, which is not there")
    if topic not in members[member].topics:
        what = f"{topic}-{number} to {member}, which has not subscribed to {topic}"
        raise AssignorFailed(f"the assignor {name} gives {what}")


def _check_complete(
    name: str, topics: Mapping[str, int], members: Mapping[str, MemberSubscription],
    owner: Mapping[TopicPartition, str],
) -> None:  # fmt: skip
    wanted = {topic for member in members.values() for topic in member.topics}
    for topic in sorted(wanted & set(topics)):
        for number in range(topics[topic]):
            if (topic, number) not in owner:
                raise AssignorFailed(f"the assignor {name} gives {topic}-{number} to nobody")
