"""
Real consumers of real groups: confluent-kafka's and kafka-python's join, commit, leave, are killed.

Whoever writes records into `__consumer_offsets` by hand calls itself as Kafka's own administrator
does: brokers take them from no other client.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.topics import TopicRecord
from herdproof.pipeline.offsets import TOPIC
from herdproof.servers import eventually
from properties.pipeline.offsets.offset_records import Pair

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "500",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""A broker for groups that change within a test's time."""

ADMINISTRATOR = "__admin_client"
"""The client whose records for internal topics a broker takes."""

TIMES = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 300, "auto.commit.interval.ms": 150}

DOOMED = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({settings!r})
consumer.subscribe([{topic!r}])
while True:
    message = consumer.poll(0.2)
    if message is not None and not message.error():
        print("consumes", flush=True)
"""
"""A consumer in a process of its own, which is there to be killed."""


def settings(kafka: EmbeddedKafka, group: str, name: str, **more: Any) -> dict[str, Any]:
    """A confluent-kafka consumer's settings."""
    own = {"group.id": group, "client.id": name, "auto.offset.reset": "earliest", "log_level": 0}
    return {"bootstrap.servers": kafka.bootstrap, **own, **TIMES, **more}


@dataclass
class Herd:
    """Consumers that live beside each other, each in a thread; `topic` is fed all the while."""

    kafka: EmbeddedKafka
    topic: str
    partitions: int = 4
    over: threading.Event = field(default_factory=threading.Event)
    lives: list[threading.Thread] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def live(self, deed: Callable[..., None], *args: Any, **more: Any) -> threading.Thread:
        """Let somebody live beside the others."""

        def life() -> None:
            try:
                deed(*args, **more)
            except BaseException as problem:  # told to the test at its end
                self.failures.append(problem)

        thread = threading.Thread(target=life, daemon=True)
        thread.start()
        self.lives.append(thread)
        return thread

    def feed(self) -> None:
        """Write records until all is over."""
        while not self.over.wait(0.1):
            self.kafka.topics.produce(
                self.topic, [TopicRecord(b"r", partition=n % self.partitions) for n in range(24)]
            )

    def confluent(self, group: str, name: str, seconds: float, **more: Any) -> None:
        """A confluent-kafka consumer joins, consumes, and leaves."""
        consumer = Consumer(settings(self.kafka, group, name, **more))
        consumer.subscribe([self.topic])
        try:
            self._for(seconds, lambda: consumer.poll(0.1))
        finally:
            consumer.close()

    def kafka_python(self, group: str, name: str, seconds: float) -> None:
        """So does one of kafka-python's."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from kafka import KafkaConsumer  # type: ignore[import-untyped,unused-ignore]

            consumer = KafkaConsumer(
                self.topic, bootstrap_servers=self.kafka.bootstrap, group_id=group,
                client_id=name, auto_offset_reset="earliest",
                **{key.replace(".", "_"): value for key, value in TIMES.items()},
            )  # fmt: skip
            try:
                self._for(seconds, lambda: consumer.poll(timeout_ms=100))
            finally:
                consumer.close()

    def killed(self, group: str, name: str, seconds: float, **more: Any) -> None:
        """One consumes in a process of its own, until it is killed."""
        code = DOOMED.format(settings=settings(self.kafka, group, name, **more), topic=self.topic)
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"consumes\n"
                self._for(seconds, lambda: time.sleep(0.1))
            finally:
                process.kill()

    def _for(self, seconds: float, deed: Callable[[], object]) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.over.is_set():
            deed()

    def wait(self, threads: Iterable[threading.Thread] | None = None) -> None:
        """Wait for these, or for all; raises what any of them raised."""
        for thread in list(threads if threads is not None else self.lives):
            thread.join(60)
            assert not thread.is_alive(), "a client does not end"
        if self.failures:
            raise self.failures[0]


@contextmanager
def herd(kafka: EmbeddedKafka, topic: str) -> Iterator[Herd]:
    """Consumers of a new topic, which all end with this context."""
    kafka.create_topic(topic, partitions=4)
    found = Herd(kafka, topic)
    found.live(found.feed)
    try:
        yield found
    finally:
        found.over.set()
        for thread in found.lives:
            thread.join(30)


def transactions(kafka: EmbeddedKafka, group: str, topic: str) -> None:
    """Two transactions of a producer commit an offset each: the second one is aborted."""
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": group, "log_level": 0}
    )
    producer.init_transactions(30)
    consumer = Consumer(settings(kafka, group, "tx", **{"enable.auto.commit": False}))
    consumer.subscribe([topic])
    try:
        assert eventually(lambda: bool(consumer.poll(0.2)), 30)
        (partition, *_) = consumer.assignment()
        for offset in (3, 9):
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                [TopicPartition(topic, partition.partition, offset)],
                consumer.consumer_group_metadata(),
            )
            end = producer.commit_transaction if offset == 3 else producer.abort_transaction
            end(30)
    finally:
        consumer.close()


def forge(kafka: EmbeddedKafka, partition: int, pairs: Iterable[Pair]) -> list[str]:
    """Write records into the log of groups; answers with their places."""
    places: list[str] = []
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "client.id": ADMINISTRATOR, "acks": "all"}
    )

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        places.append(f"{TOPIC}-{message.partition()}@{message.offset()}")

    for key, value in pairs:
        producer.produce(TOPIC, key=key, value=value, partition=partition, on_delivery=delivered)
    assert producer.flush(30) == 0
    return places


def copied(kafka: EmbeddedKafka, into: Path) -> Path:
    """The log of groups, copied while the broker runs."""
    for folder in kafka.directory.rglob(f"{TOPIC}-*"):
        shutil.copytree(folder, into / folder.name, ignore_dangling_symlinks=True)
    return into
