"""
Kafka's own coordinator that goes, beside ours: three brokers, and a group of confluent-kafka's.

A coordinator of Kafka's is one of its brokers. When that ends, it takes along what else it is: the
leader of some partitions, whose records nobody can write until another broker leads them, and a
follower of others, whose records nobody may read until it counts no more among their replicas in
sync. So the topic's first four partitions have nothing to do with that broker: what happens to them
is the coordinator's doing alone. Of the last two it leads one, and follows in the other. It is not
the controller either, whose end would cost another election. Each of the three kinds is written to
by a producer of its own: a broker answers what comes over a connection in turn, so that a write
that waits for a follower that is gone holds up those to partitions that lack nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from socket import create_connection

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from benchmarks import kafka_wire
from benchmarks.failover_group import (
    HEARTBEATS,
    PARTITIONS,
    PATIENCE_S,
    TOPIC,
    Group,
    idle,
)
from benchmarks.processes import Figures, NoFigures
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.topics import Topics
from herdproof.protocols.central_coordinator.client.settings import ConsumerSettings
from herdproof.servers import eventually
from herdproof.shells.configuration import ZooKeeperSection
from herdproof.zookeeper.embedded import EmbeddedZooKeeper

BROKERS = (1, 2, 3)
APART, LED, FOLLOWED = range(4), 4, 5
"""Partitions of which the coordinator's broker has no replica, which it leads, or follows in."""
NAMES = 64
"""So many groups' names are tried, for one whose coordinator is not the controller."""


@dataclass(frozen=True)
class Times:
    """Time-outs of a broker with ZooKeeper, and of members with their coordinator."""

    zookeeper_ms: int
    session_ms: int
    heartbeat_ms: int


KAFKAS = Times(18_000, 45_000, 3_000)
"""Kafka 3.9's defaults."""


def ours(session_ms: int | None) -> Times:
    """Those of our side: our defaults, or all of them so long."""
    if session_ms is not None:
        return Times(session_ms, session_ms, int(HEARTBEATS * session_ms))
    client = ConsumerSettings()
    zookeeper_ms = ZooKeeperSection().session_timeout_ms
    return Times(zookeeper_ms, client.session_timeout_ms, client.ping_interval_ms)


class KafkaGroup(Group):
    """A group of Kafka's own coordinator."""

    def __init__(self, bootstrap: str, name: str, times: Times) -> None:
        super().__init__(bootstrap, (APART, [LED], [FOLLOWED]))
        self._settings = {
            "bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest",
            "session.timeout.ms": times.session_ms, "heartbeat.interval.ms": times.heartbeat_ms,
            "log_level": 0,
        }  # fmt: skip

    def consume(self, name: str) -> None:
        """Consume as consumers of librdkafka's do, by default but for the time-outs."""
        consumer = Consumer({**self._settings, "client.id": name})
        try:
            consumer.subscribe([TOPIC])
            while not self.is_over():
                message = consumer.poll(0.1)
                # What goes wrong, as that a broker is gone, is said by messages as well.
                if message is not None and message.error() is None:
                    self.delivered(message.partition() or 0)
        finally:
            consumer.close()


@dataclass(frozen=True)
class KafkaCluster:
    """What runs: the brokers, by their ids, and which of them coordinates the group."""

    brokers: Mapping[int, EmbeddedKafka]
    name: str
    coordinator: int
    group: KafkaGroup

    def measured(self, name: str, way: str) -> Figures:
        """End the coordinator's broker so; how long partitions had no reader."""
        since, mended = self.group.broken(lambda: self._ended(way))
        figures = idle(name, self.group, since, mended, APART)
        waited = self.group.waited_since(since)
        return {**figures, "led_seconds": waited[LED], "followed_seconds": waited[FOLLOWED]}

    def _ended(self, way: str) -> float:
        """Let it go; when another broker was known to coordinate."""
        broker = self.brokers[self.coordinator]
        other = next(each for each in BROKERS if each != self.coordinator)
        with ThreadPoolExecutor(1) as aside:
            gone = aside.submit(broker.kill if way == "kill_9" else broker.shut_down)
            deadline = time.monotonic() + PATIENCE_S
            while port_of_coordinator(self.brokers[other], self.name) in (None, broker.port):
                if time.monotonic() > deadline:
                    raise NoFigures("no other broker coordinates the group")
                time.sleep(0.005)
            mended = time.monotonic()
            gone.result()
        return mended


def port_of_coordinator(broker: EmbeddedKafka, group: str) -> int | None:
    """Where the coordinator of a group listens by this broker's word; None if it names nobody."""
    body = kafka_wire.find_coordinator(group)
    asked = kafka_wire.request(kafka_wire.Api.FIND_COORDINATOR, 1, "failover", body)
    host, _, port = broker.bootstrap.rpartition(":")
    buffer = bytearray()
    with create_connection((host, int(port)), 10) as line:
        line.sendall(asked)
        while not (answers := list(kafka_wire.split(buffer))):
            if not (data := line.recv(65_536)):
                return None
            buffer += data
    [(_, told)] = answers
    error, where = kafka_wire.found_coordinator(told)
    return None if error else where[1]


@contextmanager
def cluster(times: Times) -> Iterator[KafkaCluster]:
    """ZooKeeper, three brokers, and a group of three whose coordinator is not the controller."""
    settings = {
        "offsets.topic.replication.factor": "3",
        "group.initial.rebalance.delay.ms": "3000",  # Kafka's default
        "group.min.session.timeout.ms": "1000",
    }
    with ExitStack() as stack:
        zookeeper = stack.enter_context(EmbeddedZooKeeper(tick_time_ms=500))
        brokers = {
            number: EmbeddedKafka(
                zookeeper.hosts, broker_id=number, settings=settings,
                session_timeout_ms=times.zookeeper_ms,
            )
            for number in BROKERS
        }  # fmt: skip
        for broker in brokers.values():
            stack.enter_context(broker)
        bootstrap = ",".join(broker.bootstrap for broker in brokers.values())
        name, coordinator = placed(bootstrap, brokers)
        Topics(bootstrap).create(TOPIC, PARTITIONS, placed=placing(coordinator))
        group = KafkaGroup(bootstrap, name, times)
        stack.enter_context(group.running())
        yield KafkaCluster(brokers, name, coordinator, group)


def placed(bootstrap: str, brokers: Mapping[int, EmbeddedKafka]) -> tuple[str, int]:
    """The name of a group, and its coordinator, which is not the controller."""
    controller = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).controller_id
    asked = brokers[BROKERS[0]]
    # The topic of offsets is made when somebody asks first.
    if not eventually(lambda: port_of_coordinator(asked, "failover-0") is not None, PATIENCE_S):
        raise NoFigures("no broker coordinates any group")
    ports = {broker.port: number for number, broker in brokers.items() if number != controller}
    for name in (f"failover-{number}" for number in range(NAMES)):
        port = port_of_coordinator(asked, name)
        if port in ports:
            return name, ports[port]
    raise NoFigures("the controller coordinates all groups")


def placing(coordinator: int) -> Sequence[Sequence[int]]:
    """The brokers of each partition, its leader first."""
    one, other = (number for number in BROKERS if number != coordinator)
    apart = [[one, other] if partition % 2 else [other, one] for partition in APART]
    return [*apart, [coordinator, one], [other, coordinator]]


def measured(name: str, way: str, times: Times) -> Figures:
    """What the end of the coordinator's broker costs, of a cluster of its own."""
    with cluster(times) as made:
        return made.measured(name, way)
