"""
The groups that `benchmarks/herd` measures: of ours, and of Kafka 0.8.2.2's own consumers.

Each is asked for one event at a time and then waited for: it has settled when every member has what
the range assignor gives it, and nothing has changed for a while.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # a script of this directory imports it without its package

from benchmarks.parts import described, ignore, process_of  # noqa: E402
from benchmarks.processes import Figures, NoFigures, Process  # noqa: E402
from herdproof.consuming.assignment import range_assign  # noqa: E402
from herdproof.kafka.embedded import EmbeddedKafka  # noqa: E402
from herdproof.kafka.topics import TopicRecord  # noqa: E402
from herdproof.zookeeper.client import Client  # noqa: E402
from herdproof.zookeeper.embedded import EmbeddedZooKeeper  # noqa: E402
from herdproof.zookeeper.operations import (  # noqa: E402
    Answer,
    Children,
    Data,
    Exists,
    Get,
    Names,
    Operation,
    Set,
    Watched,
)
from integration.self_rebalancing.old_consumers import SETTINGS, OldConsumers  # noqa: E402

MEMBERS = Path(__file__).resolve().parent / "herd_members.py"
GROUP = "herd"
IDS = f"/consumers/{GROUP}/ids"
"""Where members that rebalance by themselves are registered."""
PATIENCE_S = 60.0
"""How long a group may take to settle."""
LOOK_EVERY_S = 0.01

Plan = Mapping[str, Sequence[int]]


def planned(members: Sequence[str], partitions: int) -> dict[str, list[int]]:
    """What the range assignor gives to each of these members; who gets nothing is left out."""
    plan: dict[str, list[int]] = {}
    for partition, member in range_assign(range(partitions), sorted(members)).items():
        plan.setdefault(member, []).append(partition)
    return plan


class Herd(ABC):
    """The members of one group, on a topic of their own."""

    topic = "orders"
    partitions = 0
    """How many that has, as things stand."""

    @abstractmethod
    def start(self, names: Sequence[str]) -> Callable[[], float]:
        """These join; what is returned says, once they have settled, when that began."""

    @abstractmethod
    def close(self, name: str) -> Callable[[], float]:
        """This one leaves; as in `start`."""

    @abstractmethod
    def consume(self) -> None:
        """Everybody finishes with one more record of each partition."""

    @abstractmethod
    def held(self) -> Plan:
        """What each member has, who has anything."""

    @abstractmethod
    def changed(self) -> float:
        """When that changed last."""

    @abstractmethod
    def cpu_seconds(self) -> float:
        """What all members have used so far."""

    def settle(self, plan: Plan, quiet_s: float) -> float:
        """Wait until every member has its part of a plan, for a while; since when it has."""
        deadline, looked = time.monotonic() + PATIENCE_S, 0.0
        while time.monotonic() < deadline:
            changed = self.changed()
            if changed > looked and time.monotonic() - changed >= quiet_s:
                looked = changed  # what has been looked at is looked at again when it has changed
                if self.held() == plan:
                    return changed
            time.sleep(LOOK_EVERY_S)
        held = self.held()
        wrong = [name for name in {**plan, **held} if held.get(name) != plan.get(name)]
        raise NoFigures(
            f"not settled after {PATIENCE_S:g} s: {', '.join(wrong[:3])} (of {len(plan)} members) "
            f"have not what is planned"
        )


# ── Ours ────────────────────────────────────────────────────────────────────────────────────


class Worker:
    """A process of members, and what it prints."""

    def __init__(
        self, protocol: str, address: str, hear: Callable[[Figures], None], *more: str
    ) -> None:
        self._hear = hear
        command = [sys.executable, str(MEMBERS), protocol, address]
        options = ["--group", GROUP, *more]
        self._process = subprocess.Popen(
            [*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            bufsize=1,
        )  # fmt: skip
        self._answers: SimpleQueue[Figures] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, *command: str) -> Figures:
        """Give a command, and wait for its answer."""
        assert self._process.stdin is not None, "it was asked for a pipe"
        self._process.stdin.write(f"{json.dumps(command)}\n")
        self._process.stdin.flush()
        try:
            return self._answers.get(timeout=PATIENCE_S)
        except Empty:
            raise NoFigures(f"a process of members does not answer {command[0]}") from None

    def end(self) -> None:
        """End it, as a crash would."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> None:
        assert self._process.stdout is not None, "it was asked for a pipe"
        for line in self._process.stdout:
            figures = json.loads(line)
            if "member" in figures:
                self._hear(figures)
            else:
                self._answers.put(figures)


class OurHerd(Herd):
    """Consumers of ours, spread over some processes."""

    def __init__(self, protocol: str, address: str, processes: int, *more: str) -> None:
        self._held: dict[str, list[int]] = {}
        self._changed = 0.0
        self._workers = [Worker(protocol, address, self._hear, *more) for _ in range(processes)]
        self._of: dict[str, Worker] = {}

    def start(self, names: Sequence[str]) -> Callable[[], float]:
        """Begun is just before the first of them looks for ZooKeeper, or for its coordinator."""
        turns = itertools.islice(itertools.cycle(self._workers), len(self._of), None)
        new = dict(zip(names, turns, strict=False))
        self._of |= new
        begun = []
        for worker in self._workers:
            if mine := [name for name in names if new[name] is worker]:
                begun.append(worker.ask("start", *mine)["begun"])
        return lambda: min(begun)

    def close(self, name: str) -> Callable[[], float]:
        """Begun is just before it is asked to close."""
        begun: float = self._of.pop(name).ask("close", name)["begun"]
        return lambda: begun

    def consume(self) -> None:
        """The records are handed to the members' streams, and taken."""
        for worker in self._workers:
            worker.ask("consume")

    def held(self) -> Plan:
        """What the members' fetchers were told to fetch."""
        return {name: had for name, had in sorted(self._held.items()) if had and name in self._of}

    def changed(self) -> float:
        """When a member last began to fetch, or ceased to."""
        return self._changed

    def cpu_seconds(self) -> float:
        """That of the processes."""
        total: float = sum(worker.ask("look")["cpu_seconds"] for worker in self._workers)
        return total

    def resident_bytes(self) -> int:
        """Their memory."""
        total: int = sum(worker.ask("look")["bytes"] for worker in self._workers)
        return total

    def end(self) -> None:
        """All end, as a crash would."""
        for worker in self._workers:
            worker.end()

    def _hear(self, told: Figures) -> None:
        self._held[told["member"]] = sorted(told["partitions"] or ())
        self._changed = told["at"]


# ── An operator's eyes ──────────────────────────────────────────────────────────────────────


class Operator:
    """A session that counts its own requests, and ZooKeeper's of all."""

    def __init__(self, zookeeper: EmbeddedZooKeeper, part: str, topic: str) -> None:
        self._zookeeper = zookeeper
        self._topic = f"/brokers/topics/{topic}"
        self._own = 0
        self._times: dict[str, float] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._client = Client(part, session_timeout_s=60.0, on_link=ignore, on_watch=self._fired)
        self._client.start()
        self.perform(Exists("/"))  # with the first read goes a sync

    def requests(self) -> int:
        """How many requests ZooKeeper has had so far, of others than this one."""
        told = self._zookeeper.ask(0, "mntr").splitlines()
        [received] = [line.split()[1] for line in told if line.startswith("zk_packets_received")]
        self._own += 1  # the question itself
        return int(received) - self._own

    def perform(self, operation: Operation) -> Answer:
        """Ask ZooKeeper something."""
        self._own += 1
        return self._client.perform(operation)

    def add_partition(self, partitions: int) -> float:
        """From now on the topic has so many; when it was told."""
        begun = time.monotonic()
        self.perform(Set(self._topic, described(partitions)))
        return begun

    def watch(self, path: str) -> None:
        """Notice from now on when a node's children change."""
        self._own += 1
        self._client.submit(Children(path, watch=True), lambda told: self._listed(path, told))

    def names(self, path: str) -> tuple[str, ...]:
        """The children of a watched node, as they were told last."""
        return self._names.get(path, ())

    def changed(self, path: str) -> float:
        """When they last changed."""
        return self._times.get(path, 0.0)

    def end(self) -> None:
        """End the session."""
        self._client.close()

    def _fired(self, watched: Watched) -> None:
        self._times[watched.path] = time.monotonic()
        self.watch(watched.path)

    def _listed(self, path: str, told: Answer) -> None:
        """A node that is not there yet is looked for again, until it is."""
        if isinstance(told, Names):
            self._names[path] = told.names
            self._times.setdefault(path, time.monotonic())
        else:
            time.sleep(LOOK_EVERY_S)
            self.watch(path)


# ── Kafka 0.8.2.2's ─────────────────────────────────────────────────────────────────────────


class OldHerd(Herd):
    """Console consumers of Kafka 0.8.2.2, each a process; what they have, ZooKeeper says."""

    def __init__(
        self, operator: Operator, part: str, kafka: EmbeddedKafka, topic: str, backoff_ms: int,
        session_s: float,
    ) -> None:  # fmt: skip
        timing = {
            "rebalance.backoff.ms": str(backoff_ms), "auto.commit.interval.ms": "60000",
            "zookeeper.session.timeout.ms": str(round(1000 * session_s)),
        }  # fmt: skip
        self._operator, self._kafka, self._topic = operator, kafka, topic
        self._consumers = OldConsumers(part, GROUP, topic, settings=SETTINGS | timing)
        self._processes: dict[str, Process] = {}
        self._used = 0.0
        self._owners = f"/consumers/{GROUP}/owners/{topic}"
        operator.watch(self._owners)

    def start(self, names: Sequence[str]) -> Callable[[], float]:
        """Begun is when the last one's registration is told, so that no JVM's start counts."""
        for name in names:
            self._consumers.start(name)
            self._processes[name] = process_of(self._consumers.settings(name))
        return lambda: self._operator.changed(IDS)

    def close(self, name: str) -> Callable[[], float]:
        """Begun is when it is told that its registration is gone."""
        self._used += self._processes.pop(name).cpu_seconds()
        self._consumers.ask_to_end(name)
        return lambda: self._operator.changed(IDS)

    def consume(self) -> None:
        """A record for each partition; what they print is not waited for."""
        numbers = range(self.partitions)
        self._kafka.topics.produce(self._topic, [TopicRecord(b"x", None, n) for n in numbers])

    def held(self) -> Plan:
        """By their owner nodes; nothing counts before all are registered, and nobody else is."""
        names, ids = self._operator.names(self._owners), self._operator.names(IDS)
        if len(names) < self.partitions or len(ids) != len(self._processes):
            return {}
        plan: dict[str, list[int]] = {}
        for name in sorted(names, key=int):
            told = self._operator.perform(Get(f"{self._owners}/{name}"))
            owner = told.data.decode() if isinstance(told, Data) else "nobody"
            member = owner.removeprefix(f"{GROUP}_").removesuffix("-0")
            plan.setdefault(member, []).append(int(name))
        return plan

    def changed(self) -> float:
        """When a partition last got an owner, or lost one."""
        return max(self._operator.changed(self._owners), self._operator.changed(IDS))

    def cpu_seconds(self) -> float:
        """That of all JVMs, but for the end of those that were asked to end."""
        return self._used + sum(each.cpu_seconds() for each in self._processes.values())

    def end(self) -> None:
        """All are killed."""
        self._consumers.close()
