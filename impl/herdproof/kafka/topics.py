"""
Topics on a running Kafka, for tests and trials: create them, fill them, read them whole.

Each call waits for its outcome, within a limit; nothing is retried behind the caller's back but
what librdkafka retries. What Kafka refuses is a `KafkaRefused` with Kafka's own reason.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from herdproof.errors import PeerError
from herdproof.servers import LOOK_EVERY_S, eventually

POLL_S = 0.2
HEARSAY_S = 2.0
"""The time by which a broker may hear of a topic later than another."""
MOST_RECORDS = 1_000_000
"""The number of records that one call can write: they wait in memory."""
UNASSIGNED = -1
"""No number: as a partition, Kafka's client chooses one; as an offset, not yet written."""


class KafkaRefused(PeerError):
    """Kafka did not do what was asked, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record of a topic; `offset` is its place in its partition, once it is written."""

    value: bytes
    key: bytes | None = None
    partition: int = UNASSIGNED
    offset: int = UNASSIGNED


class Topics:
    """The topics of the Kafka at `bootstrap` ("host:port,…"); each wait ends after `timeout_s`."""

    def __init__(self, bootstrap: str, timeout_s: float = 30.0) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._admin = AdminClient(self._settings())

    def served_by(self, broker: int, topics: Collection[str], timeout_s: float = 1.0) -> bool:
        """
        Tells whether that broker answers, and knows itself, these topics, and what it must lead.

        A broker that has just started knows its topics a little later than itself. Librdkafka may
        well ask another broker: so a new client asks, and only that broker's answer counts.
        """
        try:
            cluster = AdminClient(self._settings()).list_topics(timeout=timeout_s)
        except KafkaException:
            return False
        only_its_own = [
            part
            for name in topics
            if name in cluster.topics
            for part in cluster.topics[name].partitions.values()
            if part.replicas == [broker]
        ]
        return (
            cluster.orig_broker_id == broker
            and broker in cluster.brokers
            and set(topics) <= set(cluster.topics)
            and all(part.leader == broker for part in only_its_own)
        )

    def partitions(self) -> dict[str, int]:
        """The number of partitions of each topic, Kafka's own topics aside."""
        try:
            cluster = self._admin.list_topics(timeout=self._timeout_s)
        except KafkaException as refusal:
            raise self._refused("list the topics", refusal) from refusal
        return {
            name: len(topic.partitions)
            for name, topic in cluster.topics.items()
            if not name.startswith("__")
        }

    def create(
        self,
        name: str,
        partitions: int,
        replicas: int = 1,
        *,
        placed: Sequence[Sequence[int]] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """
        Create a topic, each partition on so many brokers; returns when it can be written to.

        `placed` names the brokers of each partition, its first leader first, instead of
        `replicas`; `settings` are the topic's own.
        """
        config = dict(settings or {})
        if placed is None:
            topic = NewTopic(name, partitions, replicas, config=config)
        else:
            where = [list(brokers) for brokers in placed]
            topic = NewTopic(name, partitions, replica_assignment=where, config=config)
        created = self._admin.create_topics([topic])[name]
        self._outcome(f"create topic {name!r}", created)
        self._await_leaders(name, partitions)

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic have so many partitions, more than now; returns when all can be written."""
        grown = self._admin.create_partitions([NewPartitions(name, total)])[name]
        self._outcome(f"give topic {name!r} {total} partitions", grown)
        self._await_leaders(name, total)

    def delete(self, name: str) -> None:
        """Delete a topic; Kafka does so soon after it has agreed."""
        self._outcome(f"delete topic {name!r}", self._admin.delete_topics([name])[name])

    def produce(
        self, topic: str, records: Iterable[TopicRecord], *, compression: str = "none"
    ) -> list[TopicRecord]:
        """Write records, in this order in each partition; answers with where they stand now."""
        self._partitions_of(topic)  # librdkafka would wait long for a topic that is not there
        producer = Producer(
            {
                **self._settings(),
                "linger.ms": 0,
                "compression.type": compression,
                "queue.buffering.max.messages": MOST_RECORDS,
            }
        )
        written: dict[int, TopicRecord] = {}
        refusals: list[KafkaError] = []

        def delivered(
            place: int, record: TopicRecord, error: KafkaError | None, told: Message
        ) -> None:
            if error is not None:
                refusals.append(error)
                return
            partition, offset = told.partition(), told.offset()
            assert partition is not None
            assert offset is not None
            written[place] = replace(record, partition=partition, offset=offset)

        for place, record in enumerate(records):
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                on_delivery=partial(delivered, place, record),
            )
            producer.poll(0)
        if left := producer.flush(self._timeout_s):
            raise KafkaRefused(
                f"{left} records for topic {topic!r} were not written within {self._timeout_s:g} s:"
                f" check that the Kafka at {self._bootstrap} runs, and has this topic."
            )
        if refusals:
            raise self._refused(f"write to topic {topic!r}", KafkaException(refusals[0]))
        return [written[place] for place in sorted(written)]

    def read(self, topic: str) -> list[TopicRecord]:
        """All records that stand in a topic now, each partition's in order, without a group."""
        count = self._partitions_of(topic)
        consumer = Consumer(
            {**self._settings(), "group.id": "herdproof-reads", "enable.auto.commit": False}
        )
        try:
            return self._read(consumer, topic, count)
        except KafkaException as refusal:
            raise self._refused(f"read topic {topic!r}", refusal) from refusal
        finally:
            consumer.close()

    def _read(self, consumer: Consumer, topic: str, count: int) -> list[TopicRecord]:
        """Read each partition up to where it ends now."""
        places = [TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(count)]
        ends = {}
        for place in places:
            low, high = self._ends(consumer, place)
            if high > low:
                ends[place.partition] = high
        consumer.assign([place for place in places if place.partition in ends])
        found: list[TopicRecord] = []

        def all_read() -> bool:
            message = consumer.poll(POLL_S) if ends else None
            if message is not None:
                record = _record_of(message)
                if record.offset < ends.get(record.partition, 0):
                    found.append(record)
                if record.offset + 1 >= ends.get(record.partition, 0):
                    ends.pop(record.partition, None)
            return not ends

        if not eventually(all_read, self._timeout_s):
            raise KafkaRefused(
                f"Partitions {sorted(ends)} of topic {topic!r} were not read to their ends within "
                f"{self._timeout_s:g} s: check that all brokers run."
            )
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def _partitions_of(self, topic: str) -> int:
        """The number of a topic's partitions; raises `KafkaRefused` if there is no such topic."""
        deadline = time.monotonic() + HEARSAY_S
        try:
            while True:
                found = self._admin.list_topics(topic, timeout=self._timeout_s).topics[topic]
                if found.error is None:
                    return len(found.partitions)
                if time.monotonic() > deadline:
                    raise KafkaException(found.error)
                time.sleep(LOOK_EVERY_S)
        except KafkaException as refusal:
            raise self._refused(f"tell of topic {topic!r}", refusal) from refusal

    def _ends(self, consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
        """The first offset of a partition, and the one that its next record will get."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                offsets = consumer.get_watermark_offsets(place, timeout=self._timeout_s)
            except KafkaException:  # a broker hears of a new partition or leader a little later
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_EVERY_S)
                continue
            if offsets is None:
                raise KafkaRefused(f"No leader answers for {place.topic}-{place.partition}.")
            return offsets

    def _await_leaders(self, name: str, partitions: int) -> None:
        """Wait until clients are told a leader of each partition."""

        def led() -> bool:
            topic = self._admin.list_topics(name, timeout=self._timeout_s).topics[name]
            return sum(part.leader >= 0 for part in topic.partitions.values()) == partitions

        try:
            if eventually(led, self._timeout_s):
                return
        except KafkaException as refusal:
            raise self._refused(f"tell the leaders of topic {name!r}", refusal) from refusal
        raise KafkaRefused(
            f"Topic {name!r} had no leader for each of its {partitions} partitions within "
            f"{self._timeout_s:g} s: check that all brokers run."
        )

    def _outcome(self, deed: str, asked: Future[Any]) -> None:
        """Wait for an administrator's deed."""
        try:
            asked.result(self._timeout_s)
        except (KafkaException, TimeoutError) as refusal:
            raise self._refused(deed, refusal) from refusal

    def _refused(self, deed: str, refusal: Exception) -> KafkaRefused:
        """The error for a refusal."""
        error = refusal.args[0] if refusal.args else None
        why = error.str() if isinstance(error, KafkaError) else str(refusal) or "no answer"
        return KafkaRefused(f"The Kafka at {self._bootstrap} did not {deed}: {why}")

    def _settings(self) -> dict[str, str | int | float | bool]:
        """The settings of all clients of librdkafka's here: wait no longer, and do not chatter."""
        wait_ms = int(self._timeout_s * 1000)
        return {
            "bootstrap.servers": self._bootstrap,
            "reconnect.backoff.max.ms": 200,
            "socket.timeout.ms": min(wait_ms, 60_000),
            "log_level": 0,
        }


def _record_of(message: Message) -> TopicRecord:
    """A message of librdkafka's; raises its error, if it is one."""
    if (error := message.error()) is not None:
        raise KafkaException(error)
    value, key = message.value(), message.key()
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return TopicRecord(value or b"", key, partition, offset)
