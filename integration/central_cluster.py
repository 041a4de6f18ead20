"""
Brokers with coordinators and consumers that can be killed and paused, and what is seen of them.

Kafka and ZooKeeper are given; coordinators and consumers are child processes. A `Herd` starts and
breaks them, keeps records flowing, looks at ZooKeeper, and answers with what was delivered to whom.
What must hold of all that is in `central_judgement.py`.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from herdproof.central_coordinator.paths import Paths
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.minder import Minder
from herdproof.ports import free_ports
from herdproof.zookeeper.elector import read_leader
from herdproof.zookeeper.operations import Children, Data, Get, Names
from integration.central_judgement import Place, Seen, Tenure, tenures
from integration.clients import TestClient
from integration.commands import COMMAND

SESSION_S = 6.0
"""Of consumers with coordinators, and of coordinators with ZooKeeper: the machine is a busy one."""
PING_S = 1.0
EVERY_S = 0.02
"""A record is produced so often."""
PATIENCE_S = 60.0
"""How long a scenario waits for what must come; only a failing one waits that long."""
PATHS = Paths()
PROGRAM = Path(__file__).with_name("central_programs.py")
SETTINGS = f"""
[coordinator]
failover_grace_ms = 500
leadership_lease_ms = 3_000
offset_flush_ms = 100
[zookeeper]
session_timeout_ms = {SESSION_S * 1000:.0f}
[log]
form = "json"
"""


class Herd:
    """
    One group of consumers, with its coordinators, on a Kafka; all of it is gone at the end.

    `topics` is the pattern that all consumers subscribe to.
    """

    def __init__(self, folder: Path, kafka: EmbeddedKafka, group: str, topics: str) -> None:
        self.folder = folder
        self.kafka = kafka
        self.group = group
        self.topics = topics
        self.minder = Minder()
        self.flow = Flow(kafka.bootstrap)
        self.onlooker = TestClient(kafka.zookeeper)
        self.watcher = Watcher(self.onlooker, group)
        self._consumers: list[Path] = []
        self._coordinators: dict[str, Path] = {}
        self._ports: dict[str, int] = {}

    def __enter__(self) -> Self:
        self.onlooker.__enter__()
        self.flow.start()
        self.watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.flow.stop()
        self.watcher.stop()
        self.minder.close()
        self.onlooker.__exit__(kind, error, trace)

    # ── Processes ───────────────────────────────────────────────────────────────────────────

    def start_coordinator(self, broker: str, flaw: str = "") -> None:
        """
        Start the coordinator of this broker id, and wait until it can be consulted.

        It comes back on its old port, by which consumers know it.
        """
        settings, log = self.folder / "settings.toml", self.folder / f"coordinator-{broker}.log"
        settings.write_text(SETTINGS)
        port = self._ports.setdefault(broker, free_ports(1)[0])
        lives = log.read_text().count("listening ") if log.exists() else 0
        own = [sys.executable, str(PROGRAM), "coordinator", flaw]
        command = own if flaw else [*COMMAND, "coordinator"]
        arguments = ["--config", str(settings), "--broker-id", broker, "--port", str(port)]
        self.minder.start(broker, [*command, *arguments, "--zookeeper", self.kafka.zookeeper], log)
        self._coordinators[broker] = log
        self.eventually(lambda: log.read_text().count("listening ") > lives)

    def start_consumers(self, process: str, **members: float) -> None:
        """Start a process with these members, each with how long it winds up, in seconds."""
        said = {
            "members": members, "group": self.group, "topics": self.topics,
            "brokers": [f"127.0.0.1:{port}" for port in self._ports.values()],
            "bootstrap_servers": self.kafka.bootstrap,
            "session_timeout_s": SESSION_S, "ping_interval_s": PING_S,
        }  # fmt: skip
        log = self.folder / f"consumers-{process}.jsonl"
        command = [sys.executable, str(PROGRAM), "consumers", json.dumps(said)]
        self.minder.start(process, command, log)
        self._consumers.append(log)

    def signal(self, process: str, number: signal.Signals) -> None:
        """Send a signal to the process of this name, a coordinator's or consumers'."""
        self.minder.signal(process, number)

    # ── What is seen ────────────────────────────────────────────────────────────────────────

    def leader(self) -> str:
        """The broker id of the coordinator that leads; "" if none does."""
        node = self.onlooker.perform(Get(PATHS.election.leader))
        return read_leader(node.data)[0] if isinstance(node, Data) else ""

    def await_leader(self, other_than: str = "") -> str:
        """Wait until a coordinator leads that is not this one; its broker id."""
        self.eventually(lambda: self.leader() not in ("", other_than))
        return self.leader()

    def seen(self) -> list[Seen]:
        """What all consumers have reported, each one's in its order."""
        lines = [line for log in self._consumers for line in whole_lines(log)]
        return [Seen.read(json.loads(line)) for line in lines if line.startswith('{"event"')]

    def tenures(self) -> list[Tenure]:
        """Who had which partition, when, and what was delivered to it."""
        return tenures(self.seen())

    def await_flow(self, *members: str) -> float:
        """
        Wait until these members, and only they, have what there is, and records reach each place.

        The answer is how long that took, in seconds.
        """
        since = time.monotonic()

        def flows() -> bool:
            last: dict[Place, Tenure] = {}
            for tenure in sorted(self.tenures(), key=lambda tenure: tenure.since):
                last[tenure.place] = tenure
            return (
                set(last) == set(self.flow.places)
                and {tenure.consumer for tenure in last.values()} == set(members)
                and all(self.flow.is_new(place, t.last, since) for place, t in last.items())
            )

        self.eventually(flows, every_s=0.3)
        return time.monotonic() - since

    def await_all_delivered(self) -> None:
        """Produce no more, and wait until everything that was produced has been delivered."""
        self.flow.stop()

        def delivered() -> bool:
            got = {(s.place, s.offset) for s in self.seen() if s.event == "record"}
            return got >= set(self.flow.produced)

        self.eventually(delivered, every_s=0.3)

    def eventually(self, holds: Callable[[], bool], every_s: float = 0.05) -> None:
        """Wait until it holds; a failure shows what coordinators and consumers said last."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"it did not come about\n{self.said()}"
            time.sleep(every_s)

    def said(self) -> str:
        """The end of what each process said."""
        logs = [*self._coordinators.values(), *self._consumers]
        return "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in logs)


class Flow:
    """Records that are produced all the time, to each partition in turn, in a thread."""

    def __init__(self, bootstrap: str) -> None:
        self.places: list[Place] = []
        self.produced: dict[tuple[Place, int], float] = {}
        """When (monotonic, in seconds) each acknowledged record was produced."""
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 5,
                "log_level": 0,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin; nothing is produced before there are places."""
        self._thread.start()

    def stop(self) -> None:
        """Produce no more; what was produced is acknowledged. May be repeated."""
        self._ends.set()
        self._thread.join(PATIENCE_S)

    def is_new(self, place: Place, offset: int, since: float) -> bool:
        """Whether the record at this offset was produced since then."""
        return self.produced.get((place, offset), 0.0) > since

    def _run(self) -> None:
        for number in count():
            if self._ends.wait(EVERY_S):
                break
            if places := list(self.places):
                topic, partition = places[number % len(places)]
                with suppress(KafkaException):  # it does not know a new partition yet
                    self._producer.produce(
                        topic, str(number), partition=partition, on_delivery=self._delivered
                    )
            self._producer.poll(0)
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: KafkaError | None, record: Message) -> None:
        """Only what was acknowledged has to be delivered."""
        topic, partition, offset = record.topic(), record.partition(), record.offset()
        if error is None and topic is not None and partition is not None and offset is not None:
            self.produced[(topic, partition), offset] = time.monotonic()


class Watcher:
    """Looks at the group's nodes in ZooKeeper again and again, in a thread."""

    def __init__(self, client: TestClient, group: str) -> None:
        self.committed: dict[Place, list[int]] = {}
        """The offsets of each place, in the order in which they were seen."""
        self.points: list[tuple[float, int, int]] = []
        """When (monotonic, in seconds) which epoch and generation was seen, as they changed."""
        self._client = client
        self._group = group
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more. May be repeated."""
        self._ends.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        while not self._ends.wait(0.1):
            self._look()

    def _look(self) -> None:
        node = self._client.perform(Get(PATHS.group(self._group)))
        if isinstance(node, Data) and node.data:  # it is empty at first
            point: dict[str, Any] = json.loads(node.data)
            now = (point["epoch"], point["generation"])
            if not self.points or self.points[-1][1:] != now:
                self.points.append((time.monotonic(), *now))
        root = PATHS.offsets(self._group)
        for topic in self._names(root):
            for partition in self._names(f"{root}/{topic}"):
                offset = self._client.perform(Get(f"{root}/{topic}/{partition}"))
                seen = self.committed.setdefault((topic, int(partition)), [])
                if isinstance(offset, Data) and offset.data and seen[-1:] != [int(offset.data)]:
                    seen.append(int(offset.data))

    def _names(self, path: str) -> tuple[str, ...]:
        """A node's children; none where it does not stand."""
        told = self._client.perform(Children(path))
        return tuple(told.names) if isinstance(told, Names) else ()


def whole_lines(log: Path) -> list[str]:
    """The lines of a log; an unfinished last one is not."""
    return log.read_text(encoding="utf-8").split("\n")[:-1]
