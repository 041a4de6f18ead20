"""
A real Kafka broker as a child process, beside a ZooKeeper, on this machine's loopback.

Made for tests and for trying things out: its data lie in a temporary directory that goes with it
(unless a directory is named), its heap is small, and topics are made only when they are asked for.
It never outlives its owner, not even one that dies by `kill -9` (see `herdproof.supervisor`). A
cluster is several brokers, each with an id of its own, beside one ZooKeeper.

    with EmbeddedZooKeeper() as zookeeper, EmbeddedKafka(zookeeper.hosts) as kafka:
        kafka.create_topic("t", partitions=2)

Source: the Kafka 3.9 documentation (broker configs).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from herdproof.errors import CallerError, WorldError
from herdproof.java import QUICK_START, find_java
from herdproof.kafka.jars import VERSION, kafka_jars
from herdproof.kafka.topics import TopicRecord, Topics
from herdproof.ports import LOOPBACK, free_ports, refuse_a_port_in_use
from herdproof.servers import Embedded, ServerFailed, Servers, eventually
from herdproof.zookeeper.client import Client
from herdproof.zookeeper.operations import Children, Data, Exists, Found, Get, Names

_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showShortLogName=true",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.ZooKeeper=warn",
)
"""Kafka's log goes to stderr, line by line; without its settings' 300 lines."""

FORGETTING_S = 20.0
"""The time for which a broker's id may stand after its death: Kafka's own sessions last 18 s."""


class BrokerIdInUse(WorldError):
    """Another broker has this id in that ZooKeeper."""


class EmbeddedKafka(Embedded):
    """
    One running broker beside the ZooKeeper at `zookeeper` ("host:port,…", or "host:port/chroot").

    `port` is where it listens; without it, a free one is chosen. `directory` keeps the data;
    without it, they lie in a temporary directory that is removed. After a crash its id stands in
    ZooKeeper for `session_timeout_ms`; the ZooKeeper may insist on longer. `settings` are lines of
    `server.properties` and outdo ours. Every wait is limited by `timeout_s`, in seconds.

    Raises `JavaMissing`, `JavaTooOld`, `JarsMissing`, `KafkaMissing`, `PortInUse`,
    `ZooKeeperUnreachable`, `BrokerIdInUse` and `ServerFailed` when it starts.
    """

    version: ClassVar[str] = VERSION

    def __init__(
        self,
        zookeeper: str,
        *,
        broker_id: int = 1,
        port: int | None = None,
        directory: Path | None = None,
        heap_mb: int = 256,
        session_timeout_ms: int = 4000,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        self.zookeeper = zookeeper
        self.broker_id = broker_id
        self._port = port
        self._kept = directory
        self._heap_mb = heap_mb
        self._session_timeout_ms = session_timeout_ms
        self._settings = dict(settings or {})
        self._timeout_s = timeout_s
        self._servers: Servers | None = None
        self._directory = Path()
        self._command: list[str] = []

    @property
    def port(self) -> int:
        """The port at which it listens, once it was started."""
        if self._port is None:
            raise CallerError("This Kafka has no port yet: call start(), or use it in a `with`.")
        return self._port

    @property
    def bootstrap(self) -> str:
        """`host:port`, as clients want it."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def directory(self) -> Path:
        """Where its data and its log (`1/server.log` for broker 1) lie."""
        return self._directory

    @property
    def topics(self) -> Topics:
        """Its topics."""
        return Topics(self.bootstrap, self._timeout_s)

    def start(self) -> Self:
        """Start the broker and wait until it serves."""
        java, jars = find_java(), kafka_jars(version=self.version)
        if self._port is None:
            (self._port,) = free_ports(1)
        else:
            refuse_a_port_in_use(self._port)
        self._servers = Servers("Kafka broker", self._kept)
        self._directory = self._servers.directory
        try:
            properties = self._servers.home(self._name) / "server.properties"
            lines = {**self._own_settings(), **self._settings}
            properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
            java_with_jars = [
                *(java.path, *QUICK_START, *_LOGGING, f"-Xmx{self._heap_mb}m"),
                *("-cp", os.pathsep.join(map(str, jars))),
            ]
            self._prepare(java_with_jars, properties)
            self._command = [*java_with_jars, "kafka.Kafka", str(properties)]
            self._launch()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kill the broker and remove the temporary directory."""
        if self._servers is not None:
            self._servers.close()
            self._servers = None

    def kill(self) -> None:
        """End the broker at once (SIGKILL), as a crash would; its data stay for `restart`."""
        self._running().kill(self._name)

    def shut_down(self) -> None:
        """End the broker as an operator would: it hands over what it leads and takes its id out."""
        self._running().ask_to_end(self._name)
        if not eventually(lambda: not self.alive(), self._timeout_s):
            raise ServerFailed(
                f"Kafka broker {self.broker_id} did not end within {self._timeout_s:g} s "
                f"(is it paused?): kill() ends it at once."
            )

    def restart(self) -> None:
        """
        Kill the broker if it runs, start it again on its data, and wait until it serves.

        After a crash that takes as long as ZooKeeper still has its id, which no second session may
        take over.
        """
        if self.alive():
            self.kill()
        self._launch()

    def pause(self) -> None:
        """Stop the broker in its tracks (SIGSTOP): its connections stay, nothing answers."""
        self._running().pause(self._name)

    def resume(self) -> None:
        """Let the paused broker go on (SIGCONT)."""
        self._running().resume(self._name)

    def alive(self) -> bool:
        """Tells whether the broker's process runs (or is paused)."""
        return self._running().alive(self._name)

    def create_topic(self, name: str, partitions: int, replicas: int = 1) -> None:
        """Create a topic; returns when it can be written to. Raises `KafkaRefused`."""
        self.topics.create(name, partitions, replicas)

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic have so many partitions, more than now. Raises `KafkaRefused`."""
        self.topics.add_partitions(name, total)

    def produce(self, topic: str, *values: bytes, partition: int) -> list[TopicRecord]:
        """Write records to one partition, in this order. Raises `KafkaRefused`."""
        return self.topics.produce(topic, [TopicRecord(value, None, partition) for value in values])

    def read(self, topic: str) -> list[TopicRecord]:
        """All records of a topic, each partition's in order. Raises `KafkaRefused`."""
        return self.topics.read(topic)

    @property
    def _name(self) -> str:
        """Its name among the processes and in the directory."""
        return str(self.broker_id)

    def _running(self) -> Servers:
        """The broker's process; misuse if there is none."""
        if self._servers is None:
            raise CallerError("This Kafka is not running: call start(), or use it in a `with`.")
        return self._servers

    def _prepare(self, java: Sequence[str], properties: Path) -> None:
        """Prepare the first start."""

    def _launch(self) -> None:
        """Start the process once ZooKeeper has forgotten an earlier one; wait until it serves."""
        with Client(
            self.zookeeper,
            session_timeout_s=10.0,
            on_link=lambda _link, _session: None,
            on_watch=lambda _watched: None,
        ) as onlooker:
            if not eventually(lambda: not self._has_id(onlooker), FORGETTING_S):
                raise BrokerIdInUse(
                    f"Broker {self.broker_id} stands in the ZooKeeper at {self.zookeeper}: "
                    f"stop that broker, or choose another broker_id."
                )
            self._running().launch(self._name, self._command)
            self._running().await_ready(
                [self._name],
                lambda _name: self._registered(onlooker) and self._serves(onlooker),
                self._timeout_s,
            )

    @property
    def _node(self) -> str:
        """The node of its id."""
        return f"/brokers/ids/{self.broker_id}"

    def _has_id(self, onlooker: Client) -> bool:
        """Tells whether its id stands in ZooKeeper, or that is not known."""
        return onlooker.perform(Exists(self._node)) != Found(None)

    def _registered(self, onlooker: Client) -> bool:
        """Tells whether its id stands in ZooKeeper with its port."""
        found = onlooker.perform(Get(self._node))
        return isinstance(found, Data) and json.loads(found.data)["port"] == self.port

    def _serves(self, onlooker: Client) -> bool:
        """Tells whether it tells clients of itself, and of all topics that stand in ZooKeeper."""
        standing = _children(onlooker, "/brokers/topics")
        return self.topics.served_by(
            self.broker_id, standing - _children(onlooker, "/admin/delete_topics")
        )

    def _own_settings(self) -> dict[str, str]:
        """`server.properties`, without the user's settings."""
        return {
            "broker.id": self._name,
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "zookeeper.connect": self.zookeeper,
            "zookeeper.session.timeout.ms": str(self._session_timeout_ms),
            "zookeeper.connection.timeout.ms": str(int(self._timeout_s * 1000)),
            "log.dirs": str(self._running().home(self._name) / "data"),
            **FOR_TESTS,
        }


def _children(onlooker: Client, path: str) -> set[str]:
    """The names of a node's children; none where it does not stand."""
    told = onlooker.perform(Children(path))
    return set(told.names) if isinstance(told, Names) else set()


FOR_TESTS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "log.index.size.max.bytes": "1048576",
    "log.cleaner.dedupe.buffer.size": "4194304",
}
"""Few threads, small buffers (the cleaner's alone is 128 MiB elsewhere), no waiting for members."""
