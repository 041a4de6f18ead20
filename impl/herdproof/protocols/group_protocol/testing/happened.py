"""
Events at a broker for tests, in order, as far as a judge needs them.

It is only written down here. Who judges reads it all, from the beginning, when a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from herdproof.broker.log import LoggedTopic
from herdproof.consuming.consumer_protocol import read_assignment
from herdproof.errors import Malformed
from herdproof.protocols.group_protocol.effects import (
    StoredClassicGroup,
    StoreGroup,
    TopicPartition,
)
from herdproof.protocols.group_protocol.stores.memory import MemoryGroupStore
from herdproof.protocols.group_protocol.stores.port import WrittenThen
from herdproof.protocols.group_protocol.testing.errors import BadBrokerUse
from herdproof.protocols.group_protocol.testing.exchanges import WireExchange


@dataclass(frozen=True, slots=True)
class TopicAppeared:
    """A topic has so many partitions."""

    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TermBegan:
    """A coordinator was elected; its epoch says which one."""

    epoch: int


@dataclass(frozen=True, slots=True)
class GroupWasStored:
    """This is stored of a group from now on."""

    group: str
    stored: StoredClassicGroup
    epoch: int


@dataclass(frozen=True, slots=True)
class GenerationTold:
    """A member was told of its generation."""

    group: str
    client: str
    generation: int
    leader: str


@dataclass(frozen=True, slots=True)
class OffsetsAsked:
    """A client asks for offsets to be stored."""

    group: str
    client: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class RecordDelivered:
    """The test says that a member was given a record."""

    group: str
    member: str
    where: TopicPartition
    offset: int


BrokerEvent: TypeAlias = (
    TopicAppeared | TermBegan | GroupWasStored | GenerationTold | OffsetsAsked | RecordDelivered
)


@dataclass
class Happened:
    """Events, each with the coordinator's time; `groups` has each client's last one."""

    now_ms: Callable[[], int]
    topics: Mapping[str, LoggedTopic] = field(default_factory=dict)
    """The topics of the log, as they are."""
    events: list[tuple[int, BrokerEvent]] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    done: dict[tuple[str, TopicPartition], set[int]] = field(default_factory=dict)
    """By group and partition, the offsets of what was delivered."""
    _partitions: dict[str, int] = field(default_factory=dict)

    def note(self, event: BrokerEvent) -> None:
        """Something happened now; topics that are new, or have grown, are noted before it."""
        for name, topic in self.topics.items():
            if self._partitions.get(name) != len(topic.partitions):
                self._partitions[name] = len(topic.partitions)
                self.events.append((self.now_ms(), TopicAppeared(name, len(topic.partitions))))
        self.events.append((self.now_ms(), event))

    def asked(self, exchange: WireExchange) -> None:
        """A request is about to be taken."""
        body = exchange.request
        if exchange.api == "OffsetCommit":
            offsets = {
                (topic.name, part.partition_index): part.committed_offset
                for topic in body.topics
                for part in topic.partitions
            }
            self.note(OffsetsAsked(body.group_id, exchange.client, offsets))

    def answered(self, exchange: WireExchange) -> None:
        """A request is answered."""
        answer: Any = exchange.answer
        if exchange.api == "JoinGroup" and answer is not None and not answer.error_code:
            group = exchange.request.group_id
            self.groups[exchange.client] = group
            told = GenerationTold(group, exchange.client, answer.generation_id, answer.leader)
            self.note(told)

    def delivered(self, member: str, where: TopicPartition, offset: int) -> None:
        """A test says that a member was given a record; raises `BadBrokerUse`."""
        if member not in self.groups:
            raise BadBrokerUse(
                f"delivered to {member!r}, who never joined a group: say the consumer's client.id "
                f"(joined have {', '.join(map(repr, self.groups)) or 'none'})"
            )
        topic, number = where
        there = self.topics[topic].partitions if topic in self.topics else []
        produced = there[number].next_offset if 0 <= number < len(there) else 0
        if not 0 <= offset < produced:
            raise BadBrokerUse(
                f"delivered record {offset} of {topic}-{number}, where {produced} were produced"
            )
        group = self.groups[member]
        self.done.setdefault((group, where), set()).add(offset)
        self.note(RecordDelivered(group, member, where, offset))

    def undelivered(self, group: str, topic: str) -> dict[TopicPartition, list[int]]:
        """The offsets of a topic's records that nobody of a group was given."""
        found = {}
        for number, partition in enumerate(self.topics[topic].partitions):
            done = self.done.get((group, (topic, number)), set())
            left = [offset for offset in range(partition.next_offset) if offset not in done]
            if left:
                found[topic, number] = left
        return found


class WatchedStore(MemoryGroupStore):
    """A store in memory of which every change is noted."""

    def __init__(self, happened: Happened) -> None:
        super().__init__()
        self._happened = happened

    def write(self, change: StoreGroup, then: WrittenThen) -> None:
        """Do a change, and note it before anybody is told."""

        def told(written: Any) -> None:
            stored = self.groups.get(change.group)
            if stored is not None:
                self._happened.note(GroupWasStored(change.group, stored, self.epoch))
            then(written)

        super().write(change, told)


def assigned_to(assignment: bytes) -> list[TopicPartition]:
    """The partitions of an assignment; none where that cannot be read."""
    try:
        return read_assignment(assignment)
    except Malformed:
        return []
