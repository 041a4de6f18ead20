"""
The log in memory: topics, their partitions' batches, and who waits for more of them.

It knows no wire, clock or loop. All that it takes is bounded (`RecordLimits`): what goes beyond is
refused, and what was taken stays until its topic is deleted.

Source: Kafka 3.9, `UnifiedLog` and `ProducerStateManager` as far as one replica needs them.
"""

from __future__ import annotations

import re
import uuid
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from herdproof.broker.batches import NO_PRODUCER, BadBatch, ProducedBatch, RecordBatch, read_batch
from herdproof.broker.codec import KafkaError
from herdproof.broker.settings import RecordLimits
from herdproof.errors import PeerError

LEADER_EPOCH = 0
"""The only one: a partition has one broker, as long as that lives."""
REMEMBERED_BATCHES = 5
"""Batches of a producer of which a copy is recognised; no client has more in flight."""
SEQUENCES = 2**31
TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
NO_NAMES = (".", "..")


class LogRefused(PeerError):
    """A refusal of the log's, with Kafka's error for it."""

    def __init__(self, error: KafkaError, why: str) -> None:
        super().__init__(why)
        self.error = error


class Waiting(Protocol):
    """Who waits for records of a partition."""

    def appended(self, size: int) -> None:
        """Count bytes that have come."""

    def gone(self) -> None:
        """The partition is no more."""


@dataclass(slots=True)
class ProducerState:
    """The state that a partition keeps of an idempotent producer."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES)
    )
    """First and last sequence number, and base offset, of the last ones."""

    def copy_at(self, batch: ProducedBatch) -> int | None:
        """Where the batch stands already, if it was sent before."""
        last = last_sequence(batch)
        for first_known, last_known, offset in self.batches:
            if (first_known, last_known) == (batch.base_sequence, last):
                return offset
        return None


def last_sequence(batch: ProducedBatch) -> int:
    """The sequence number of a batch's last record; after the largest one comes 0."""
    return (batch.base_sequence + batch.count - 1) % SEQUENCES


class PartitionLog:
    """One partition's records."""

    def __init__(self, limits: RecordLimits) -> None:
        self.next_offset = 0
        self.waiting: dict[Waiting, None] = {}
        """In the order in which they came."""
        self._limits = limits
        self._batches: list[RecordBatch] = []
        self._producers: OrderedDict[int, ProducerState] = OrderedDict()

    def append(self, batch: ProducedBatch) -> tuple[int, int]:
        """Take a batch: its offset, and its size (0 for a copy). Raises `BadBatch`."""
        known = self._check_producer(batch)
        if known is not None:
            return known, 0
        placed = batch.placed(self.next_offset, LEADER_EPOCH)
        self._batches.append(placed)
        self.next_offset = placed.last_offset + 1
        self._remember(batch, placed.base_offset)
        return placed.base_offset, len(placed.data)

    def tell_waiting(self, size: int) -> None:
        """Tell whoever waits that so many bytes have come."""
        for waiting in list(self.waiting):
            waiting.appended(size)

    def since(self, offset: int) -> Iterator[RecordBatch]:
        """The batches from the one on that holds this offset."""
        begin = bisect_right(self._batches, offset, key=lambda batch: batch.base_offset)
        for place in range(max(0, begin - 1), len(self._batches)):
            if self._batches[place].last_offset >= offset:
                yield self._batches[place]

    def first_since(self, timestamp: int) -> tuple[int, int] | None:
        """The offset and time of the first record from a time on, if there is one."""
        for batch in self._batches:
            if batch.max_timestamp >= timestamp:
                return batch.first_since(timestamp)
        return None

    def youngest(self) -> tuple[int, int] | None:
        """The offset and time of the first record with the latest time, if there is one."""
        latest = max((batch.max_timestamp for batch in self._batches), default=None)
        return None if latest is None else self.first_since(latest)

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(len(batch.data) for batch in self._batches)

    def _check_producer(self, batch: ProducedBatch) -> int | None:
        """The offset of an idempotent batch that is a copy; raises `BadBatch` if it is no next."""
        state = self._producers.get(batch.producer_id)
        if batch.producer_id == NO_PRODUCER or state is None:
            return None
        if batch.producer_epoch < state.epoch:
            raise BadBatch(
                KafkaError.INVALID_PRODUCER_EPOCH,
                f"producer {batch.producer_id} is in epoch {state.epoch} already",
            )
        if batch.producer_epoch > state.epoch:
            expected = 0
        elif (offset := state.copy_at(batch)) is not None:
            return offset
        else:
            expected = (state.batches[-1][1] + 1) % SEQUENCES
        if batch.base_sequence != expected:
            raise BadBatch(
                KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence number {batch.base_sequence} of producer {batch.producer_id}, where "
                f"{expected} would be next",
            )
        return None

    def _remember(self, batch: ProducedBatch, offset: int) -> None:
        """Remember an idempotent batch, and forget the producer that is silent the longest."""
        if batch.producer_id == NO_PRODUCER:
            return
        state = self._producers.get(batch.producer_id)
        if state is None or state.epoch != batch.producer_epoch:
            state = self._producers[batch.producer_id] = ProducerState(batch.producer_epoch)
        state.batches.append((batch.base_sequence, last_sequence(batch), offset))
        self._producers.move_to_end(batch.producer_id)
        if len(self._producers) > self._limits.max_producers:
            self._producers.popitem(last=False)


@dataclass(frozen=True, slots=True)
class LoggedTopic:
    """A topic and its partitions."""

    name: str
    id: uuid.UUID
    partitions: list[PartitionLog]


class MemoryLog:
    """All topics, by name."""

    def __init__(self, limits: RecordLimits) -> None:
        self.topics: dict[str, LoggedTopic] = {}
        self.bytes = 0
        self._limits = limits
        self._by_id: dict[uuid.UUID, LoggedTopic] = {}
        self._last_producer = 0

    def create(self, name: str, partitions: int, *, only_check: bool = False) -> LoggedTopic:
        """Create a topic; raises `LogRefused`."""
        if not TOPIC_NAME.fullmatch(name) or name in NO_NAMES:
            raise LogRefused(
                KafkaError.INVALID_TOPIC_EXCEPTION,
                "a topic's name is 1 to 249 letters, digits, dots, _ and -",
            )
        if name in self.topics:
            raise LogRefused(KafkaError.TOPIC_ALREADY_EXISTS, f"there is a topic {name} already")
        self._check_count(partitions, partitions)
        topic = LoggedTopic(name, uuid.uuid4(), [])
        if not only_check:
            self.topics[name] = self._by_id[topic.id] = topic
            self._extend(topic, partitions)
        return topic

    def has(self, name: str, partition: int) -> bool:
        """Tells whether there is this partition."""
        topic = self.topics.get(name)
        return topic is not None and 0 <= partition < len(topic.partitions)

    def delete(self, topic: LoggedTopic) -> None:
        """Delete a topic with its records; who waits for them is told."""
        del self.topics[topic.name], self._by_id[topic.id]
        for partition in topic.partitions:
            self.bytes -= partition.size
            for waiting in list(partition.waiting):
                waiting.gone()

    def extend(self, topic: LoggedTopic, total: int, *, only_check: bool = False) -> None:
        """Let a topic have so many partitions, more than now; raises `LogRefused`."""
        more = total - len(topic.partitions)
        if more < 1:
            raise LogRefused(
                KafkaError.INVALID_PARTITIONS,
                f"topic {topic.name} has {len(topic.partitions)} partitions, and gets only more",
            )
        self._check_count(total, more)
        if not only_check:
            self._extend(topic, more)

    def by_id(self, topic_id: uuid.UUID | None) -> LoggedTopic | None:
        """The topic of this id."""
        return None if topic_id is None else self._by_id.get(topic_id)

    def partition(self, name: str, number: int) -> PartitionLog | None:
        """A partition, if there is such a one."""
        topic = self.topics.get(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            return None
        return topic.partitions[number]

    def append(self, partition: PartitionLog, records: bytes | None) -> int:
        """Take a batch as its producer sent it: its offset. Raises `BadBatch`."""
        batch = read_batch(records, self._limits.max_batch_bytes)
        if self.bytes + len(batch.data) > self._limits.max_bytes:
            raise BadBatch(
                KafkaError.POLICY_VIOLATION,
                f"the broker's log in memory has its {self._limits.max_bytes} bytes (the setting "
                f"records.max_bytes): delete a topic",
            )
        offset, size = partition.append(batch)
        self.bytes += size
        if size:
            partition.tell_waiting(size)
        return offset

    def new_producer(self) -> int:
        """The id of a new idempotent producer."""
        self._last_producer += 1
        return self._last_producer

    def _check_count(self, total: int, more: int) -> None:
        """Raises `LogRefused` unless a topic may have so many partitions, so many more than now."""
        there = sum(len(topic.partitions) for topic in self.topics.values())
        if total < 1:
            raise LogRefused(KafkaError.INVALID_PARTITIONS, "a topic has 1 partition at least")
        if there + more > self._limits.max_partitions:
            raise LogRefused(
                KafkaError.INVALID_PARTITIONS,
                f"there would be more than {self._limits.max_partitions} partitions (the setting "
                f"records.max_partitions)",
            )

    def _extend(self, topic: LoggedTopic, more: int) -> None:
        """Give a topic more partitions."""
        topic.partitions.extend(PartitionLog(self._limits) for _ in range(more))
