"""
A group whose records flow while its coordinator goes: who was without a reader, and for how long.

Three consumers and a producer are threads of this process; coordinators, ZooKeeper and Kafka are
processes of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Producer

from benchmarks.processes import Coordinator, Figures, NoFigures, tell
from herdproof.consumer import Consumer
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.topics import Topics
from herdproof.minder import Minder
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.election.elector import read_leader
from herdproof.zookeeper.client import Client
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Data, Get

TOPIC, PARTITIONS = "orders", 6
CONSUMERS = ("c1", "c2", "c3")
EVERY_S = 0.01
"""A record is sent to each partition so often."""
QUIET_S = 2.0
"""A group is stable when each partition was read for so long, never waiting longer than a tenth."""
PATIENCE_S = 120.0


class Group:
    """Consumers of a topic to which records flow, and when each partition was delivered."""

    def __init__(self, bootstrap: str, coordinators: list[str], session_ms: int) -> None:
        self._bootstrap, self._coordinators = bootstrap, coordinators
        self._session_s = session_ms / 1000
        self._delivered: list[list[float]] = [[] for _ in range(PARTITIONS)]
        """When (monotonic, in seconds) records of each partition were delivered, to whomever."""
        self._ends = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Records flow, and are consumed."""
        work = [self._produce, *(lambda name=name: self._consume(name) for name in CONSUMERS)]
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

    def waited_since(self, since: float) -> list[float]:
        """Of each partition, the longest time without a delivery since then."""
        return [longest(times, since, time.monotonic()) for times in self._delivered]

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 1})
        while not self._ends.wait(EVERY_S):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, b"", partition=partition)
            producer.poll(0)
        producer.flush(PATIENCE_S)

    def _consume(self, name: str) -> None:
        with Consumer(
            "failover", bootstrap_servers=self._bootstrap, coordinators=self._coordinators,
            consumer_id=name, auto_offset_reset="smallest", session_timeout_s=self._session_s,
            ping_interval_s=0.3 * self._session_s,
        ) as consumer:  # fmt: skip
            consumer.subscribe([TOPIC])
            while not self._ends.is_set():
                record = consumer.poll(0.1)
                if record is not None:
                    self._delivered[record.partition].append(time.monotonic())


def longest(times: list[float], since: float, until: float) -> float:
    """The longest time without any of these, from `since` to `until`."""
    within = [since, *(at for at in list(times) if since < at < until), until]
    return max(b - a for a, b in pairwise(within))


@dataclass(frozen=True)
class Cluster:
    """What runs, and whose leader is broken."""

    coordinators: dict[str, Coordinator]
    group: Group
    zookeeper: Client

    def leader(self) -> str:
        """The broker id of who leads; "" if nobody does."""
        node = self.zookeeper.perform(Get(Paths().election.leader))
        return read_leader(node.data)[0] if isinstance(node, Data) else ""

    def without(self, end: Callable[[Coordinator], None]) -> Figures:
        """Let the leader go so; how long partitions had no reader."""
        self.group.await_stable()
        leader = self.leader()
        since = time.monotonic()
        end(self.coordinators[leader])
        while self.leader() in ("", leader):
            if time.monotonic() > since + PATIENCE_S:
                raise NoFigures("nobody was elected")
            time.sleep(0.005)
        elected_s = time.monotonic() - since
        self.group.await_stable()
        waited = sorted(self.group.waited_since(since))
        tell(f"without a leader: {waited[-1]:.2f} s, {elected_s:.2f} s of them until the next")
        return {
            "idle_seconds": waited[-1], "idle_seconds_least": waited[0],
            "elected_seconds": elected_s,
        }  # fmt: skip


@contextmanager
def cluster(session_ms: int) -> Iterator[Cluster]:
    """ZooKeeper, Kafka, two coordinators, and a group of three."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(EmbeddedZooKeeper(tick_time_ms=500))
        kafka = stack.enter_context(EmbeddedKafka(zookeeper.hosts))
        Topics(kafka.bootstrap).create(TOPIC, PARTITIONS, 1)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="herdproof-failover-")))
        stack.callback((minder := Minder()).close)
        coordinators = {
            str(n): Coordinator(minder, folder, kafka.zookeeper, n, session_ms) for n in (1, 2)
        }
        client = stack.enter_context(
            Client(kafka.zookeeper, session_timeout_s=10.0, on_link=_ignore, on_watch=_ignore)
        )
        group = Group(kafka.bootstrap, [c.address() for c in coordinators.values()], session_ms)
        stack.enter_context(group.running())
        yield Cluster(coordinators, group, client)


def _ignore(*_: object) -> None:
    """Who is told what nobody here wants to know."""


def measured(end: Callable[[Coordinator], None], session_ms: int) -> Figures:
    """A leader that goes so, of a cluster of its own."""
    with cluster(session_ms) as made:
        return made.without(end) | {"session_seconds": session_ms / 1000}
