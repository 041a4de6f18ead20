"""
The processes of a demonstration: ZooKeeper, Kafka, coordinators and consumers, and ways to break.

Each coordinator has two proxies: one before it, for consumers, and one between it and ZooKeeper.
All are child processes of one minder, or embedded servers: none outlives this process.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from herdproof.cli.run.demo.plan import LEASE_S, PING_S, SESSION_S, Do
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.ports import LOOPBACK, free_ports
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.election.elector import read_leader
from herdproof.servers import ServerFailed, eventually
from herdproof.supervisor import Supervisor
from herdproof.zookeeper.client import Client
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Answer, Data, Get
from herdproof.zookeeper.proxy import FaultProxy

TOPIC, GROUP, RUN = "orders", "demo", "demo"
COORDINATORS = 3
END_S = 8.0
"""Longest time that a process may take to end by itself."""
STAYS_S = 2.0
"""Time that a connection through a proxy waits for a coordinator that starts."""

HERDPROOF = (sys.executable, "-c", "from herdproof.cli import app; app()")
MEMBER = (sys.executable, "-m", "herdproof.cli.run.demo.member")

Said = dict[str, Any]
"""A line of a consumer's, as JSON."""


@dataclass
class Child:
    """A coordinator or a consumer: its number, what was last done to it, and what it printed."""

    number: int
    kind: str
    done: Do | None = None
    """None before its first life."""
    life: int = 0
    has: list[int] = field(default_factory=list)
    """Of a consumer, the partitions that it says to have."""
    log: Path = Path()
    place: int = 0

    @property
    def name(self) -> str:
        """As sentences call it."""
        return f"{self.kind} {self.number}"

    def lines(self) -> Iterator[bytes]:
        """The whole lines that it has printed since this was asked last."""
        if not self.log.exists():
            return
        with self.log.open("rb") as file:
            file.seek(self.place)
            whole, end, _ = file.read().rpartition(b"\n")
        self.place += len(whole) + len(end)
        yield from whole.split(b"\n") if end else ()

    def said(self) -> Iterator[Said]:
        """The lines, of these, that are a consumer's JSON."""
        for line in self.lines():
            if line.startswith(b'{"said"'):
                yield json.loads(line)


class Cluster:
    """Processes that run; `say` hears what is being started. `out` keeps traces and logs."""

    def __init__(
        self, out: Path, consumers: int, partitions: int, say: Callable[[str], None]
    ) -> None:
        self.out = out
        self.partitions = partitions
        self.coordinators = [Child(n + 1, "coordinator") for n in range(COORDINATORS)]
        self.consumers = [Child(n + 1, "consumer") for n in range(consumers)]
        self.leader: int | None = None
        """The coordinator that ZooKeeper names at present."""
        self._say = say
        self._stack = ExitStack()
        self._asking = False

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._stack.close()

    def _start(self) -> None:
        (self.out / "traces").mkdir()
        (self.out / "logs").mkdir()
        self._say("ZooKeeper starts")
        self.zookeeper = self._stack.enter_context(EmbeddedZooKeeper())
        self._minder = Supervisor()
        self._stack.callback(self._minder.close)
        self._open_roads()
        self._say("Kafka and the coordinators start")
        for child in self.coordinators:
            self._launch(child)
        self.kafka = self._stack.enter_context(
            EmbeddedKafka(self.zookeeper.hosts, session_timeout_ms=10_000)
        )
        self.kafka.create_topic(TOPIC, self.partitions)
        self._onlooker = self._stack.enter_context(
            Client(
                self.zookeeper.hosts, session_timeout_s=SESSION_S,
                on_link=lambda _link, _session: None, on_watch=lambda _watched: None,
            )
        )  # fmt: skip
        for child in self.coordinators:
            self._await_listening(child)
        self._say("consumers start")
        for child in self.consumers:
            self._launch(child)

    def _open_roads(self) -> None:
        host, _, port = self.zookeeper.hosts.rpartition(":")
        self._ports = free_ports(len(self.coordinators))
        self._to_zookeeper = [FaultProxy(host, int(port)) for _ in self.coordinators]
        self._to_coordinators = [FaultProxy(LOOPBACK, p, patience_s=STAYS_S) for p in self._ports]
        for road in (*self._to_zookeeper, *self._to_coordinators):
            self._stack.enter_context(road)

    # ── Processes ───────────────────────────────────────────────────────────────────────────

    def _launch(self, child: Child) -> None:
        """Start a process, with a log and a trace of its own life."""
        child.life += 1
        child.done, child.has, child.place = Do.START, [], 0
        name = f"{child.kind}-{child.number}-{child.life}"
        child.log = self.out / "logs" / f"{name}.log"
        trace = self.out / "traces" / f"{name}.ndjson"
        of = self._coordinator if child.kind == "coordinator" else self._consumer
        self._minder.start(child.name, of(child, trace), child.log)

    def _coordinator(self, child: Child, trace: Path) -> list[str]:
        n = child.number - 1
        settings = self.out / "logs" / f"coordinator-{child.number}.toml"
        settings.write_text(
            f"[coordinator]\nleadership_lease_ms = {LEASE_S * 1000:.0f}\n"
            f"failover_grace_ms = 1_000\noffset_flush_ms = 200\n"
            f"[listener]\nadvertised_port = {self._to_coordinators[n].port}\n"
            f"[zookeeper]\nsession_timeout_ms = {SESSION_S * 1000:.0f}\n"
        )
        options = {
            "--config": settings, "--broker-id": child.number, "--port": self._ports[n],
            "--zookeeper": self._to_zookeeper[n].hosts, "--trace": trace, "--run": RUN,
        }  # fmt: skip
        return [
            *HERDPROOF,
            "coordinator",
            *(str(word) for each in options.items() for word in each),
        ]

    def _consumer(self, child: Child, trace: Path) -> list[str]:
        told = {
            "topic": TOPIC, "group": GROUP, "consumer_id": f"consumer-{child.number}",
            "bootstrap_servers": self.kafka.bootstrap,
            "coordinators": [road.hosts for road in self._to_coordinators],
            "session_timeout_s": SESSION_S, "ping_interval_s": PING_S, "run": RUN,
            "trace": str(trace),
        }  # fmt: skip
        return [*MEMBER, json.dumps(told)]

    def _await_listening(self, child: Child) -> None:
        def listens() -> bool:
            self.look_after(child)
            return any(line.startswith(b"listening ") for line in child.lines())

        if not eventually(listens, 60.0):
            raise ServerFailed(f"{child.name} did not listen within 60 s: see {child.log}")

    def look_after(self, child: Child) -> None:
        """Raises `ServerFailed` if it has ended and nobody has ended it."""
        if child.done not in (Do.KILL, Do.STOP) and self._minder.ended(child.name) is not None:
            raise ServerFailed(f"{child.name} has ended by itself: {child.log} says why")

    def look(self) -> None:
        """Look after all processes, and ask ZooKeeper who leads; the answer comes later."""
        for child in (*self.coordinators, *self.consumers):
            self.look_after(child)
        if not self._asking:
            self._asking = True
            self._onlooker.submit(Get(Paths().election.leader), self._heard)

    def _heard(self, answer: Answer) -> None:
        if isinstance(answer, Data):
            broker, _ = read_leader(answer.data)
            self.leader = int(broker) if broker.isdecimal() else None
        else:
            self.leader = None
        self._asking = False

    # ── What may go wrong ───────────────────────────────────────────────────────────────────

    def break_zookeeper(self, do: Do) -> None:
        """Pause ZooKeeper, or let it go on."""
        (self.zookeeper.pause if do is Do.PAUSE else self.zookeeper.resume)(0)

    def break_child(self, do: Do, child: Child) -> None:
        """Do this to a coordinator or a consumer."""
        n = child.number - 1
        match do:
            case Do.START:
                self._launch(child)
                return
            case Do.CUT:
                self._to_zookeeper[n].freeze()
            case Do.MEND:
                self._to_zookeeper[n].thaw()
            case Do.BREAK:
                self._to_coordinators[n].cut()
                return
            case _:
                self._minder.signal(child.name, _SIGNALS[do])
        child.done = Do.START if do in (Do.RESUME, Do.MEND) else do
        if do in (Do.KILL, Do.STOP):
            child.has = []

    def end(self) -> None:
        """Let consumers leave, and then coordinators end; who does not is killed in the end."""
        self._end(self.consumers)
        self._end(self.coordinators)

    def _end(self, children: Sequence[Child]) -> None:
        for child in children:
            if child.done is not Do.KILL:
                self._minder.signal(child.name, signal.SIGTERM)
                child.done = Do.STOP
        names = [child.name for child in children]
        eventually(lambda: all(self._minder.ended(name) is not None for name in names), END_S)


_SIGNALS = {
    Do.KILL: signal.SIGKILL, Do.STOP: signal.SIGTERM, Do.PAUSE: signal.SIGSTOP,
    Do.RESUME: signal.SIGCONT,
}  # fmt: skip
