"""Self-rebalancing consumers on a real ZooKeeper and a real Kafka, as an application uses them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from herdproof import Consumer
from herdproof.consumer import CommitFailed, RebalanceListener
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.protocols.self_rebalancing.tracing import SELF_REBALANCING
from herdproof.record import Record, TopicPartition
from herdproof.zookeeper.client import Client
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Children, Data, Get, Names
from herdproof.zookeeper.proxy import FaultProxy
from integration.clients import eventually
from integration.trace_judgement import judge_traces

pytestmark = pytest.mark.real

_names = count(1)


class Members:
    """The consumers that a test makes, each of which is traced; they are closed after it."""

    def __init__(
        self, kafka: EmbeddedKafka, zookeeper: str, stack: ExitStack, folder: Path
    ) -> None:
        self._folder = folder
        self.traces: list[Path] = []
        self._kafka = kafka
        self._zookeeper = zookeeper
        self._stack = stack

    def __call__(self, topics: Any, group: str, **more: Any) -> Consumer:
        """A consumer that has subscribed."""
        arguments = {
            "auto_offset_reset": "smallest", "zookeeper": self._zookeeper, "session_timeout_s": 4,
            "rebalance_backoff_s": 0.2, **more,
        }  # fmt: skip
        self.traces.append(self._folder / f"{len(self.traces)}.ndjson")
        consumer = Consumer(
            group, protocol="self_rebalancing", bootstrap_servers=self._kafka.bootstrap,
            trace=self.traces[-1], run="monday", **arguments,
        )  # fmt: skip
        self._stack.enter_context(consumer)
        consumer.subscribe(topics)
        return consumer


@pytest.fixture
def member(kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Members]:
    """Makes consumers; when they have closed, what they have done conforms, and keeps all."""
    with ExitStack() as stack:
        made = Members(kafka, zookeeper.hosts, stack, tmp_path)
        yield made
    judge_traces(SELF_REBALANCING, made.traces, hold=3)


@pytest.fixture
def topic(kafka: EmbeddedKafka) -> str:
    """A topic of the test's own with four partitions, each with records 0 to 49."""
    name = f"rebalanced-{next(_names)}"
    kafka.create_topic(name, 4)
    for partition in range(4):
        produce(kafka, name, partition, range(50))
    return name


def produce(kafka: EmbeddedKafka, topic: str, partition: int, numbers: range) -> None:
    """Append records whose values say which they are."""
    values = [f"{partition}/{number}".encode() for number in numbers]
    kafka.produce(topic, *values, partition=partition)


def take(consumers: Sequence[Consumer], number: int) -> list[Record]:
    """The next records of any of these, so many; all of them are finished with."""
    records: list[Record] = []

    def enough() -> bool:
        for consumer in consumers:
            while (record := consumer.poll(0.02)) is not None:
                records.append(record)
        return len(records) >= number

    eventually(enough)
    return records


def owned(consumer: Consumer) -> list[int]:
    """The partitions that it has."""
    return sorted(place.partition for place in consumer.assignment)


def test_one_consumer_reads_everything(topic: str, member: Members) -> None:
    """A consumer alone has all partitions, and gets each record once, in order."""
    only = member(topic, f"g-{topic}")
    records = take([only], 200)

    assert owned(only) == [0, 1, 2, 3]
    for partition in range(4):
        got = [record.value for record in records if record.partition == partition]
        assert got == [f"{partition}/{number}".encode() for number in range(50)]


def test_two_share_and_the_one_that_stays_takes_over(topic: str, member: Members) -> None:
    """They share; when one closes, the other goes on where it stopped, and reads nothing twice."""
    first, second = member(topic, f"g-{topic}"), member(topic, f"g-{topic}")
    eventually(lambda: sorted([*owned(first), *owned(second)]) == [0, 1, 2, 3])
    eventually(lambda: len(owned(first)) == 2 and len(owned(second)) == 2)
    records = take([first, second], 200)
    first.close()
    eventually(lambda: owned(second) == [0, 1, 2, 3])

    assert len({(record.partition, record.offset) for record in records}) == 200
    again = second.poll(1.0)
    assert again is None, f"{again} was finished with, and stored at closing"


def test_offsets_and_owners_stand_where_kafka_0_8_has_them(
    topic: str, member: Members, kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper
) -> None:
    """Registration, owners and offsets are 0.8's, in names and data."""
    group = f"g-{topic}"
    only = member({topic: 2}, group, consumer_id=f"{group}_h-1-00000001")
    take([only], 200)
    asked = only.commit_async()
    assert asked.result(30) is None

    def ignore(*told: object) -> None:
        del told

    with Client(zookeeper.hosts, session_timeout_s=5, on_link=ignore, on_watch=ignore) as look:
        ids = look.perform(Children(f"/consumers/{group}/ids"))
        owner = look.perform(Get(f"/consumers/{group}/owners/{topic}/3"))
        offset = look.perform(Get(f"/consumers/{group}/offsets/{topic}/3"))
        registration = look.perform(Get(f"/consumers/{group}/ids/{group}_h-1-00000001"))

    assert isinstance(ids, Names)
    assert ids.names == (f"{group}_h-1-00000001",)
    assert isinstance(owner, Data)
    assert owner.data == f"{group}_h-1-00000001-1".encode()
    assert owner.stat.ephemeral_owner != 0
    assert isinstance(offset, Data)
    assert offset.data == b"50"
    assert isinstance(registration, Data)
    said = json.loads(registration.data)
    assert {**said, "timestamp": ""} == {
        "version": 1, "subscription": {topic: 2}, "pattern": "static", "timestamp": ""
    }  # fmt: skip


def test_a_white_list_takes_a_new_topic_in(kafka: EmbeddedKafka, member: Members) -> None:
    """A topic that appears, and that the pattern matches, is consumed by itself."""
    name = f"listed-{next(_names)}"
    kafka.create_topic(f"{name}-a", 1)
    only = member(f"^{name}-.*", f"g-{name}")
    eventually(lambda: len(only.assignment) == 1)
    kafka.create_topic(f"{name}-b", 1)
    produce(kafka, f"{name}-b", 0, range(3))

    assert [record.value for record in take([only], 3)] == [b"0/0", b"0/1", b"0/2"]


def test_who_is_cut_off_stops_and_the_other_goes_on(
    topic: str, member: Members, proxy: FaultProxy
) -> None:
    """Cut off from ZooKeeper: nothing is handed out, the other has everything, and gives back."""
    group = f"g-{topic}"
    lost = member(topic, group, zookeeper=proxy.hosts)
    eventually(lambda: owned(lost) == [0, 1, 2, 3])
    other = member(topic, group)
    eventually(lambda: len(owned(lost)) == 2 and len(owned(other)) == 2)
    proxy.refuse()
    proxy.cut()
    eventually(lambda: owned(other) == [0, 1, 2, 3])
    assert owned(lost) == []
    assert lost.poll(0.2) is None
    with pytest.raises(CommitFailed, match="no connection to ZooKeeper"):
        lost.commit()
    assert isinstance(lost.commit_async().exception(30), CommitFailed)
    proxy.accept()

    eventually(lambda: len(owned(lost)) == 2 and len(owned(other)) == 2)


def test_without_zookeeper_it_is_waited_for(topic: str, member: Members, proxy: FaultProxy) -> None:
    """No ensemble at the start is no end: the consumer begins when it is there."""
    proxy.refuse()
    early = member(topic, f"g-{topic}", zookeeper=proxy.hosts)
    assert early.poll(0.5) is None
    proxy.accept()

    assert len(take([early], 200)) == 200


def test_a_listener_hears_of_its_partitions(topic: str, member: Members) -> None:
    """Assigned and revoked partitions are told, and what the listener commits is stored."""

    class Told(RebalanceListener):
        """What was told."""

        def __init__(self) -> None:
            self.heard: list[tuple[str, int]] = []

        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            """Write it down."""
            self.heard.append(("assigned", len(partitions)))

        def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            """Write it down."""
            self.heard.append(("revoked", len(partitions)))

    told = Told()
    first = member(topic, f"g-{topic}", listener=told)
    eventually(lambda: told.heard == [("assigned", 4)])
    second = member(topic, f"g-{topic}")
    eventually(lambda: len(owned(second)) == 2)

    eventually(lambda: told.heard == [("assigned", 4), ("revoked", 4), ("assigned", 2)])
    assert len(owned(first)) == 2
