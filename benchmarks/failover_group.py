"""
A group whose records flow while something breaks: who was without a reader, and for how long.

Three consumers and a producer are threads of this process; coordinators, ZooKeeper and Kafka are
processes of their own. Here is our coordinator's group; `failover_kafka.py` has Kafka's own.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Producer

from benchmarks.processes import Coordinator, Figures, NoFigures, tell
from herdproof.consumer import Consumer
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.topics import Topics
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.election.elector import read_leader
from herdproof.record import Record
from herdproof.supervisor import Supervisor
from herdproof.zookeeper.client import Client
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Data, Get
from herdproof.zookeeper.proxy import FaultProxy

TOPIC, PARTITIONS = "orders", 6
CONSUMERS = ("c1", "c2", "c3")
EVERY_S = 0.01
"""A record is sent to each partition so often."""
QUIET_S = 2.0
"""A group is stable when each partition was read for so long, never waiting longer than a tenth."""
PATIENCE_S = 120.0
SETTLES_S = 5.0
"""For so long it is watched what else happens."""
HEARTBEATS = 0.3
"""Of a session that is asked for, how often its member is pinged, or says that it lives."""
PAUSED_S, SILENT_S, DOWN_S = 30.0, 2.0, 23.0
"""For so long a leader is paused, and ZooKeeper silent or down."""


class Group(ABC):
    """
    Consumers of a topic to which records flow, and when each partition was delivered.

    Each of `flows` has a producer of its own, which writes to these partitions.
    """

    def __init__(
        self, bootstrap: str, flows: Sequence[Sequence[int]] = (range(PARTITIONS),)
    ) -> None:
        self._bootstrap = bootstrap
        self._flows = flows
        self._delivered: list[list[float]] = [[] for _ in range(PARTITIONS)]
        """When (monotonic, in seconds) records of each partition were delivered, to whomever."""
        self._ends = threading.Event()

    @abstractmethod
    def consume(self, name: str) -> None:
        """Consume the topic as the member of this name until it ends; say what is `delivered`."""

    def delivered(self, partition: int) -> None:
        """A record of this partition was handed out now."""
        self._delivered[partition].append(time.monotonic())

    def is_over(self) -> bool:
        """Whether its consumers are to end."""
        return self._ends.is_set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Records flow, and are consumed."""
        work = [partial(self._produce, partitions) for partitions in self._flows]
        work += [partial(self.consume, name) for name in CONSUMERS]
        threads = [threading.Thread(target=each, daemon=True) for each in work]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ends.set()
            for thread in threads:
                thread.join(PATIENCE_S)

    def await_stable(self) -> None:
        """Wait until nothing but the flow of records decides when the next one comes."""
        deadline = time.monotonic() + PATIENCE_S
        time.sleep(QUIET_S)
        while not self._is_stable():
            if time.monotonic() > deadline:
                raise NoFigures("the group did not become stable")
            time.sleep(0.1)

    def _is_stable(self) -> bool:
        since = time.monotonic() - QUIET_S
        return max(self.waited_since(since)) < QUIET_S / 10

    def broken(self, way: Callable[[], float]) -> tuple[float, float]:
        """Break something, and see it mended; when it broke, and when it could be otherwise."""
        self.await_stable()
        since = time.monotonic()
        mended = way()
        # Who was paused or cut off may find out what to do about that only afterwards.
        time.sleep(SETTLES_S)
        self.await_stable()
        return since, mended

    def waited_since(self, since: float) -> list[float]:
        """Of each partition, the longest time without a delivery since then."""
        return [longest(times, since, time.monotonic()) for times in self._delivered]

    def _produce(self, partitions: Sequence[int]) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "linger.ms": 1, "log_level": 0}
        producer = Producer(settings)
        while not self._ends.wait(EVERY_S):
            for partition in partitions:
                producer.produce(TOPIC, b"", partition=partition)
            producer.poll(0)
        producer.flush(PATIENCE_S)


class CoordinatedGroup(Group):
    """A group of `herdproof coordinator`; its time-outs are those of `session_ms`, or defaults."""

    def __init__(self, bootstrap: str, coordinators: list[str], session_ms: int | None) -> None:
        super().__init__(bootstrap)
        self._coordinators = coordinators
        session_s = (session_ms or 0) / 1000
        self._times: dict[str, Any] = (
            {"session_timeout_s": session_s, "ping_interval_s": HEARTBEATS * session_s}
            if session_s
            else {}
        )

    def consume(self, name: str) -> None:
        """Consume as our consumers do."""
        with Consumer(
            "failover", bootstrap_servers=self._bootstrap, coordinators=self._coordinators,
            consumer_id=name, auto_offset_reset="smallest", **self._times,
        ) as consumer:  # fmt: skip
            consumer.subscribe([TOPIC])
            while not self.is_over():
                record = consumer.poll(0.1)
                if record is not None:
                    self.take(record)

    def take(self, record: Record) -> None:
        """A record was handed out."""
        self.delivered(record.partition)


def longest(times: list[float], since: float, until: float) -> float:
    """The longest time without any of these, from `since` to `until`."""
    within = [since, *(at for at in list(times) if since < at < until), until]
    return max(b - a for a, b in pairwise(within))


def idle(
    name: str, group: Group, since: float, mended: float, partitions: Sequence[int]
) -> Figures:
    """How long these partitions had no reader since something broke, and since it was mended."""
    waited = sorted(group.waited_since(since)[partition] for partition in partitions)
    later = group.waited_since(mended)
    beyond_s = max(later[partition] for partition in partitions)
    tell(
        f"{name}: {waited[-1]:.2f} s without a reader; it could be otherwise after "
        f"{mended - since:.2f} s, and {beyond_s:.2f} s of them came later"
    )
    return {
        "idle_seconds": waited[-1], "idle_seconds_least": waited[0],
        "mended_seconds": mended - since, "beyond_seconds": beyond_s,
    }  # fmt: skip


@dataclass(frozen=True)
class Cluster:
    """What runs, and what of it is broken."""

    coordinators: dict[str, Coordinator]
    group: Group
    zookeeper: EmbeddedZooKeeper
    client: Client
    roads: dict[str, FaultProxy] = field(default_factory=dict)
    """Of each coordinator its way to ZooKeeper, where that can be broken."""

    def leader(self) -> str:
        """The broker id of who leads; "" if nobody does."""
        node = self.client.perform(Get(Paths().election.leader))
        return read_leader(node.data)[0] if isinstance(node, Data) else ""

    def next_after(self, leader: str) -> None:
        """Wait until another one is elected."""
        deadline = time.monotonic() + PATIENCE_S
        while self.leader() in ("", leader):
            if time.monotonic() > deadline:
                raise NoFigures("nobody was elected")
            time.sleep(0.005)

    def measured(self, way: Way) -> Figures:
        """Break something; how long partitions had no reader, and since it could be otherwise."""
        since, mended = self.group.broken(lambda: way(self))
        return idle(way.__name__, self.group, since, mended, range(PARTITIONS))


Way = Callable[[Cluster], float]
"""Breaks something; answers with when it was mended: when group and records could go on."""


def clean_stop(cluster: Cluster) -> float:
    """The leader is asked to end, by SIGTERM, and the next is elected."""
    return _elected_after(cluster, Coordinator.ask_to_end)


def kill_9(cluster: Cluster) -> float:
    """The leader is killed, and the next is elected once its ZooKeeper session is over."""
    return _elected_after(cluster, Coordinator.kill)


def leader_paused(cluster: Cluster) -> float:
    """The leader stands still; the next is elected meanwhile, and then it wakes."""
    since, leader = time.monotonic(), cluster.coordinators[cluster.leader()]
    elected = _elected_after(cluster, Coordinator.pause)
    time.sleep(max(0.0, since + PAUSED_S - time.monotonic()))
    leader.resume()
    return elected


def zookeeper_silent(cluster: Cluster) -> float:
    """ZooKeeper stands still for a moment: its connections stand, and nothing is answered."""
    cluster.zookeeper.pause(0)
    time.sleep(SILENT_S)
    cluster.zookeeper.resume(0)
    return time.monotonic()


def zookeeper_down(cluster: Cluster) -> float:
    """ZooKeeper is killed, and serves again much later."""
    cluster.zookeeper.kill(0)
    time.sleep(DOWN_S)
    cluster.zookeeper.restart(0)
    return time.monotonic()


def _elected_after(cluster: Cluster, end: Callable[[Coordinator], None]) -> float:
    """Let the leader go so; when the next one was elected."""
    leader = cluster.leader()
    end(cluster.coordinators[leader])
    cluster.next_after(leader)
    return time.monotonic()


@contextmanager
def cluster(
    session_ms: int | None, kind: type[CoordinatedGroup] = CoordinatedGroup, *, roads: bool = False
) -> Iterator[Cluster]:
    """ZooKeeper, Kafka, two coordinators, on `roads` of their own if asked for, and a group."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(EmbeddedZooKeeper(tick_time_ms=500))
        kafka = stack.enter_context(EmbeddedKafka(zookeeper.hosts))
        Topics(kafka.bootstrap).create(TOPIC, PARTITIONS, 1)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="herdproof-failover-")))
        stack.callback((minder := Supervisor()).close)
        hosts, slash, chroot = kafka.zookeeper.partition("/")
        host, port = hosts.split(":")
        ways = {
            name: stack.enter_context(FaultProxy(host, int(port)))
            for name in (("1", "2") if roads else ())
        }
        coordinators = {
            name: Coordinator(
                minder, folder, f"{ways[name].hosts if roads else hosts}{slash}{chroot}",
                int(name), session_ms,
            )
            for name in ("1", "2")
        }  # fmt: skip
        client = stack.enter_context(
            Client(kafka.zookeeper, session_timeout_s=10.0, on_link=_ignore, on_watch=_ignore)
        )
        addresses = [coordinator.address() for coordinator in coordinators.values()]
        group = kind(kafka.bootstrap, addresses, session_ms)
        stack.enter_context(group.running())
        yield Cluster(coordinators, group, zookeeper, client, ways)


def _ignore(*_: object) -> None:
    """Who is told what nobody here wants to know."""


def measured(way: Way, session_ms: int | None = None) -> Figures:
    """What is broken so, of a cluster of its own; with time-outs of so long, or the defaults."""
    with cluster(session_ms) as made:
        return made.measured(way)
