"""
Brokers with coordinators and consumers that can be killed and paused, and what is seen of them.

Kafka and ZooKeeper are given. A `Herd` starts and breaks coordinators and consumers, keeps records
flowing, looks at ZooKeeper, and answers with what was delivered to whom; here they are child
processes, in `central_docker.py` containers. What must hold of all that is in
`central_judgement.py`.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.topics import Topics
from herdproof.ports import free_ports
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.election.elector import read_leader
from herdproof.supervisor import Supervisor
from herdproof.zookeeper.operations import Children, Data, Get, Names
from integration.central_coordinator.central_judgement import Evidence, Place, Seen, Tenure, tenures
from integration.clients import TestClient
from integration.commands import COMMAND
from integration.flow import Flow

SESSION_S = 6.0
"""Of consumers with coordinators, and of coordinators with ZooKeeper: the machine is a busy one."""
PING_S = 1.0
BEHIND_S = SESSION_S + 2 * PING_S + 2.0
"""For so long before a lost connection offsets may not be stored: a lease, two pings, our slack."""
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


class Herd(ABC):
    """
    One group of consumers, with its coordinators, on a Kafka; all of it is gone at the end.

    `topics` is the prefix of the topics that all consumers subscribe to, by a pattern. `bootstrap`
    and `zookeeper` are as they are reached from here; what is started may reach them otherwise.
    """

    def __init__(
        self, folder: Path, group: str, topics: str, *, bootstrap: str, zookeeper: str
    ) -> None:
        self.folder = folder
        self.traces = folder / "traces"
        """What each coordinator and consumer traced, a folder for each life of a process."""
        self.group = group
        self.topics = topics
        self.resumes = True
        """Consumers that are started resume; else they stop when their connection is lost."""
        self.minder = Supervisor()
        self.flow = Flow(bootstrap)
        self.onlooker = TestClient(zookeeper)
        self.watcher = Watcher(self.onlooker, group)
        self._admin = Topics(bootstrap)
        self._numbers = count(1)
        self._consumers: list[Log] = []
        self._coordinators: dict[str, Path] = {}

    @abstractmethod
    def wire(self, broker: str) -> str:
        """Where consumers reach this broker's coordinator, the same for all its lives."""

    @abstractmethod
    def launch_coordinator(self, broker: str, flaw: str, log: Path) -> None:
        """Start a coordinator with `SETTINGS`, whose output goes to `log`, and which traces."""

    @abstractmethod
    def launch_consumers(self, process: str, told: Mapping[str, Any], log: Path) -> None:
        """Start consumers that are told this, and besides where Kafka is and where to trace."""

    @abstractmethod
    def kill(self, process: str) -> None:
        """End a coordinator or consumers by SIGKILL."""

    @abstractmethod
    def pause(self, process: str) -> None:
        """Stop a coordinator or consumers in their tracks."""

    @abstractmethod
    def resume(self, process: str) -> None:
        """Let a paused process go on."""

    @abstractmethod
    def end(self) -> None:
        """End all coordinators and consumers; all that they said and traced is here then."""

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

    # ── What runs ───────────────────────────────────────────────────────────────────────────

    def start_coordinator(self, broker: str, flaw: str = "") -> None:
        """
        Start the coordinator of this broker id, and wait until it can be consulted.

        It comes back at its old address, by which consumers know it.
        """
        self.start_coordinators(broker, flaw=flaw)

    def start_coordinators(self, *brokers: str, flaw: str = "") -> None:
        """Start several at once."""
        for broker in brokers:
            self._coordinators[broker] = self._new_log(f"coordinator-{broker}")
            self.launch_coordinator(broker, flaw, self._coordinators[broker])
        for broker in brokers:
            self.eventually(partial(says, self._coordinators[broker], "listening "))

    def start_consumers(self, process: str, **members: float) -> None:
        """Start a process with these members, each with how long it winds up, in seconds."""
        told = {
            "members": members, "group": self.group, "topics": f"^{self.topics}.*",
            "coordinators": [self.wire(broker) for broker in self._coordinators],
            "session_timeout_s": SESSION_S, "ping_interval_s": PING_S,
            "resumes": self.resumes,
        }  # fmt: skip
        log = self._new_log(f"consumers-{process}")
        self._consumers.append(Log(log))
        self.launch_consumers(process, told, log)

    def _new_log(self, name: str) -> Path:
        """A file for the output of one life of a process."""
        log = self.folder / f"{name}-{next(self._numbers)}.log"
        log.touch()
        return log

    def add_topic(self, name: str, partitions: int, replicas: int = 2) -> str:
        """Create a topic that the consumers' pattern matches, with records from now on."""
        topic = self.topics + name
        in_sync = {"min.insync.replicas": str(replicas - 1)}
        self._admin.create(topic, partitions, replicas, settings=in_sync)
        self.flow.places += [(topic, partition) for partition in range(partitions)]
        return topic

    def add_partition(self, topic: str) -> None:
        """Give a topic one partition more, with records from now on."""
        partitions = sum(place[0] == topic for place in self.flow.places)
        self._admin.add_partitions(topic, partitions + 1)
        self.flow.places.append((topic, partitions))

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
        return [seen for log in self._consumers for seen in log.read()]

    def tenures(self) -> list[Tenure]:
        """Who had which partition, when, and what was delivered to it."""
        return tenures(self.seen())

    def trace_files(self) -> list[Path]:
        """The traces of all who have run, after `end`."""
        return sorted(self.traces.rglob("*.trace"))

    def evidence(self) -> Evidence:
        """All there is to be judged."""
        return Evidence(
            seen=self.seen(), produced=self.flow.produced,
            committed=self.watcher.committed, points=self.watcher.points,
        )  # fmt: skip

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

    def await_stored(self) -> float:
        """Wait until ZooKeeper has a newer offset of each place; how long that took, in seconds."""
        since = time.monotonic()
        before = {place: self.watcher.last(place) for place in self.flow.places}
        self.eventually(lambda: all(self.watcher.last(p) > last for p, last in before.items()))
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

    def is_rebalancing(self, broker: str) -> bool:
        """Whether the coordinator of this broker has begun a rebalance that is not done."""
        log = self._coordinators[broker].read_text()
        return log.count('"rebalance_started"') > log.count('"rebalance_done"')

    def said(self) -> str:
        """The end of what each process said."""
        logs = [*self._coordinators.values(), *(log.path for log in self._consumers)]
        return "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in logs)


class Processes(Herd):
    """Child processes on a Kafka that is one, too."""

    def __init__(self, folder: Path, kafka: EmbeddedKafka, group: str, topics: str) -> None:
        super().__init__(
            folder, group, topics, bootstrap=kafka.bootstrap, zookeeper=kafka.zookeeper
        )
        self._kafka = kafka
        self._ports: dict[str, int] = {}

    def wire(self, broker: str) -> str:
        """On loopback."""
        return f"127.0.0.1:{self._ports[broker]}"

    def launch_coordinator(self, broker: str, flaw: str, log: Path) -> None:
        """The command; with a flaw, this suite's program."""
        settings = self.folder / "settings.toml"
        settings.write_text(SETTINGS)
        port = self._ports.setdefault(broker, free_ports(1)[0])
        own = [sys.executable, str(PROGRAM), "coordinator", flaw]
        command = own if flaw else [*COMMAND, "coordinator"]
        arguments = ["--config", str(settings), "--broker-id", broker, "--port", str(port)]
        trace = self._trace_folder(log) / "coordinator.trace"
        where = ["--zookeeper", self._kafka.zookeeper, "--trace", str(trace)]
        self.minder.start(broker, [*command, *arguments, *where], log)

    def launch_consumers(self, process: str, told: Mapping[str, Any], log: Path) -> None:
        """This suite's program."""
        traces = str(self._trace_folder(log))
        told = {**told, "bootstrap_servers": self._kafka.bootstrap, "traces": traces}
        command = [sys.executable, str(PROGRAM), "consumers", json.dumps(told)]
        self.minder.start(process, command, log)

    def _trace_folder(self, log: Path) -> Path:
        """A folder for the traces of the process that has this log."""
        folder = self.traces / log.stem
        folder.mkdir(parents=True)
        return folder

    def kill(self, process: str) -> None:
        """SIGKILL."""
        self.minder.signal(process, signal.SIGKILL)

    def pause(self, process: str) -> None:
        """SIGSTOP."""
        self.minder.signal(process, signal.SIGSTOP)

    def resume(self, process: str) -> None:
        """SIGCONT."""
        self.minder.signal(process, signal.SIGCONT)

    def end(self) -> None:
        """They write into files themselves."""
        self.minder.close()


def says(log: Path, words: str) -> bool:
    """Whether these words stand in a log."""
    return words in log.read_text()


class Log:
    """A log of consumers, read as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = 0
        self._seen: list[Seen] = []

    def read(self) -> list[Seen]:
        """What was reported so far; an unfinished last line is not there yet."""
        with self.path.open("rb") as log:
            log.seek(self._place)
            whole, end, _ = log.read().rpartition(b"\n")
        self._place += len(whole) + len(end)
        self._seen += [
            Seen.read(json.loads(line))
            for line in whole.split(b"\n")
            if line.startswith(b'{"event"')
        ]
        return self._seen


class Watcher:
    """Looks at the group's nodes in ZooKeeper again and again, in a thread."""

    def __init__(self, client: TestClient, group: str) -> None:
        self.committed: dict[Place, list[tuple[float, int]]] = {}
        """When (monotonic, in seconds) which offset of each place was seen, as they changed."""
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

    def last(self, place: Place) -> int:
        """The offset of a place that was seen last; -1 if none was."""
        seen = self.committed.get(place)
        return seen[-1][1] if seen else -1

    def _run(self) -> None:
        while not self._ends.wait(0.2):
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
                node = self._client.perform(Get(f"{root}/{topic}/{partition}"))
                place = (topic, int(partition))
                if isinstance(node, Data) and node.data and int(node.data) != self.last(place):
                    seen = self.committed.setdefault(place, [])
                    seen.append((time.monotonic(), int(node.data)))

    def _names(self, path: str) -> tuple[str, ...]:
        """A node's children; none where it does not stand."""
        told = self._client.perform(Children(path))
        return tuple(told.names) if isinstance(told, Names) else ()
