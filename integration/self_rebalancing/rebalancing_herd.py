"""
A group that rebalances by itself, of ours and of Kafka 0.8.2.2's consumers, and what is seen of it.

Kafka and ZooKeeper are given. Each member is a process, which can be killed, paused, or closed; of
ours, each may have a network of its own to ZooKeeper. A member that starts anew has a new name.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from herdproof.kafka.topics import Topics
from herdproof.protocols.self_rebalancing.registries.paths import parents
from herdproof.supervisor import Supervisor
from herdproof.zookeeper.operations import Children, Create, Data, Get, Names
from integration.clients import TestClient
from integration.flow import Flow, Place
from integration.self_rebalancing.old_consumers import OldConsumers
from integration.self_rebalancing.rebalancing_judgement import Evidence, Line, Printed

SESSION_S = 4.0
BACKOFF_S = 0.3
PATIENCE_S = 90.0
"""How long a scenario waits for what must come; only a failing one waits that long."""
PROGRAM = Path(__file__).with_name("rebalancing_programs.py")


class RebalancingHerd:
    """One group; all who are in it subscribe to the topics that begin with `topics`."""

    def __init__(
        self, folder: Path, group: str, topics: str, *, bootstrap: str, zookeeper: str,
        flaws: Sequence[str] = (), is_mixed: bool = False,
    ) -> None:  # fmt: skip
        self.folder, self.group, self.topics = folder, group, topics
        self.bootstrap, self.zookeeper, self.flaws = bootstrap, zookeeper, [*flaws]
        self.is_mixed = is_mixed
        """Theirs are in it, too, or will be."""
        self.began = time.time()
        self.flow = Flow(bootstrap)
        self.theirs = OldConsumers(zookeeper, group, f"{topics}.*", is_pattern=True)
        self.onlooker = TestClient(zookeeper)
        self.deaths: dict[str, float] = {}
        """When a member was killed, or closed."""
        self.deeds: list[tuple[float, str]] = []
        """What was done to the group."""
        self.minder = Supervisor()
        self._admin = Topics(bootstrap)
        self._ours: dict[str, Path] = {}
        self._old: list[str] = []
        self._printed: list[Printed] = []
        self._lines: dict[str, int] = {}
        self._ends = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self.onlooker.__enter__()
        self.flow.start()
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.end()
        self.onlooker.__exit__(kind, error, trace)

    def end(self) -> None:
        """Everybody ends; may be repeated."""
        self.flow.stop()
        self._ends.set()
        self._reader.join()
        self.minder.close()
        self.theirs.close()  # and what they have printed is gone

    # ── Members ─────────────────────────────────────────────────────────────────────────────

    def start(self, *names: str, zookeeper: str = "") -> None:
        """Members of ours start."""
        for name in names:
            self._deed(f"{name} starts")
            told = {
                "name": name, "group": self.group, "topics": f"^{self.topics}.*",
                "bootstrap_servers": self.bootstrap, "zookeeper": zookeeper or self.zookeeper,
                "session_timeout_s": SESSION_S, "rebalance_backoff_s": BACKOFF_S,
                "auto_commit_interval_s": 0.5, "flaws": self.flaws,
                "trace": str(self.folder / f"{name}.ndjson"), "run": self.group,
            }  # fmt: skip
            self._ours[name] = self.folder / f"{name}.log"
            self.launch(name, told, self._ours[name])

    def launch(self, name: str, told: Mapping[str, object], log: Path) -> None:
        """Start a process that is told this; what it says goes to `log`."""
        self.minder.start(name, [sys.executable, str(PROGRAM), json.dumps(told)], log)

    def send(self, name: str, number: signal.Signals) -> None:
        """One of ours gets one of the four signals that end, close, pause and resume."""
        self.minder.signal(name, number)

    def start_old(self, *names: str) -> None:
        """Members of Kafka 0.8.2.2's start."""
        for name in names:
            self._deed(f"{name} starts")
            self._old.append(name)
            self.theirs.start(name)

    def kill(self, name: str) -> None:
        """It is no more (SIGKILL)."""
        self._signal(name, signal.SIGKILL, "is killed")
        self.deaths[name] = time.time()

    def close(self, name: str) -> None:
        """It closes (SIGTERM)."""
        self._signal(name, signal.SIGTERM, "closes")

    def pause(self, name: str) -> None:
        """It stands still."""
        self._signal(name, signal.SIGSTOP, "is paused")

    def resume(self, name: str) -> None:
        """It goes on."""
        self._signal(name, signal.SIGCONT, "goes on")

    def _signal(self, name: str, number: signal.Signals, what: str) -> None:
        self._deed(f"{name} {what}")
        if name in self._ours:
            self.send(name, number)
        else:
            self.theirs.send(name, number)

    def _deed(self, what: str) -> None:
        self.deeds.append((time.time(), what))

    def add_topic(self, name: str, partitions: int, replicas: int = 1) -> str:
        """Create a topic that everybody wants, with records from now on."""
        topic = self.topics + name
        self._deed(f"the topic {topic} appears")
        self._store_starts(topic, range(partitions))
        self._admin.create(topic, partitions, replicas)
        self.flow.places += [(topic, partition) for partition in range(partitions)]
        return topic

    def add_partition(self, topic: str) -> None:
        """Give a topic one partition more, with records from now on."""
        partitions = sum(place[0] == topic for place in self.flow.places)
        self._deed(f"{topic} gets partition {partitions}")
        self._store_starts(topic, range(partitions, partitions + 1))
        self._admin.add_partitions(topic, partitions + 1)
        self.flow.places.append((topic, partitions))

    def _store_starts(self, topic: str, partitions: Iterable[int]) -> None:
        """Where theirs are to begin: 0.8's console begins at the end, whatever its settings say."""
        for partition in partitions if self.is_mixed else ():
            path = f"/consumers/{self.group}/offsets/{topic}/{partition}"
            for above in parents(path):
                self.onlooker.perform(Create(above))
            self.onlooker.perform(Create(path, b"0"))

    @property
    def traces(self) -> list[Path]:
        """Those of ours."""
        return [self.folder / f"{name}.ndjson" for name in self._ours]

    def traced(self, name: str) -> int:
        """The bytes of one's trace so far."""
        return (self.folder / f"{name}.ndjson").stat().st_size

    # ── What is seen ────────────────────────────────────────────────────────────────────────

    def _read(self) -> None:
        """Note what theirs have printed, as it comes."""
        while not self._ends.wait(0.01):
            for name in [*self._old]:
                values = self.theirs.values(name)
                before = self._lines.get(name, 0)
                now = time.time()
                self._printed += [Printed(now, name, value) for value in values[before:]]
                self._lines[name] = len(values)

    def lines(self) -> list[Line]:
        """What ours have reported."""
        return [
            Line.read(name, json.loads(line))
            for name, log in self._ours.items()
            for line in (log.read_text().splitlines(keepends=True) if log.exists() else ())
            if line.startswith('{"event"') and line.endswith("\n")
        ]

    def delivered(self) -> dict[tuple[Place, int], list[str]]:
        """Who has got each record."""
        found: dict[tuple[Place, int], list[str]] = {}
        for line in self.lines():
            if line.event == "record":
                found.setdefault(line.place, []).append(line.member)
        for printed in self._printed:
            if place := self.flow.values.get(printed.value):
                found.setdefault(place, []).append(printed.member)
        return found

    def owners(self) -> dict[Place, str]:
        """The owner of each partition, as ZooKeeper has it."""
        found = {}
        for topic, partition in self.flow.places:
            path = f"/consumers/{self.group}/owners/{topic}/{partition}"
            node = self.onlooker.perform(Get(path))
            if isinstance(node, Data):
                thread, _, _ = node.data.decode().rpartition("-")
                found[topic, partition] = thread.removeprefix(f"{self.group}_")
        return found

    def await_flow(self, *members: str) -> float:
        """
        Wait until these members, and only they, own all partitions, and new records come of each.

        The answer is how long that took, in seconds.
        """
        since, began = time.monotonic(), time.time()

        def flows() -> bool:
            owners = self.owners()
            if owners.keys() != set(self.flow.places) or {*owners.values()} != set(members):
                return False
            new = {
                place for (place, offset), who in self.delivered().items()
                if self.flow.is_new(place, offset, since) and owners[place] in who
            }  # fmt: skip
            return new == owners.keys()

        self.eventually(flows)
        self._deed(f"all flows to {', '.join(sorted(members))}")
        return time.time() - began

    def await_a_record_of(self, member: str) -> None:
        """Wait until a member gets a record that is produced from now on, whoever owns it."""
        since = time.monotonic()
        self.eventually(
            lambda: any(
                member in who and self.flow.is_new(place, offset, since)
                for (place, offset), who in self.delivered().items()
            )
        )

    def await_all_delivered(self) -> None:
        """Produce no more, and wait until everything has come; what has not, the judge tells."""
        self.flow.stop()
        deadline = time.monotonic() + 3 * SESSION_S
        while time.monotonic() < deadline and not self.flow.produced.keys() <= {*self.delivered()}:
            time.sleep(0.1)

    def registered(self) -> tuple[str, ...]:
        """The nodes below ids."""
        found = self.onlooker.perform(Children(f"/consumers/{self.group}/ids"))
        return found.names if isinstance(found, Names) else ()

    def eventually(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds; a failure shows who has what, and what ours said last."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"it did not come about\n{self.said()}"
            time.sleep(0.1)

    def said(self) -> str:
        """Owners, deeds, and the complaints of ours."""
        told = [f"{at:.3f} {what}" for at, what in self.deeds]
        told += [f"{place}: {who}" for place, who in sorted(self.owners().items())]
        told.append(f"registered: {', '.join(self.registered())}")
        for name, log in self._ours.items():
            text = log.read_text() if log.exists() else ""
            told += [f"--- {name}", *[t for t in text.splitlines() if t[:1] != "{"][-12:]]
        return "\n".join(told)

    def evidence(self, directory: Path, servers: int = 1) -> Evidence:
        """All there is to be judged; `directory` is ZooKeeper's."""
        from integration.zookeeper.zookeeper_log import transactions

        return Evidence(
            group=self.group, lines=self.lines(), printed=[*self._printed],
            values=dict(self.flow.values), produced=[*self.flow.produced], theirs=[*self._old],
            deaths=dict(self.deaths), deeds=[*self.deeds], operator=self.onlooker.session,
            done=[t for t in transactions(directory, servers) if t.at >= self.began - 1],
        )  # fmt: skip
