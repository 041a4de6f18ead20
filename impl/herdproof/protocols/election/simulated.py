"""
The deterministic world of an election: brokers' cores in their gates, on one simulated ZooKeeper.

Each method is one thing that can happen, and happens at once: a broker takes what waits for it, the
service performs a call, something breaks. Methods take the broker's index (0-based). Whether it may
happen now is the caller's to know; what cannot happen at all raises `HerdError`.

Assumed of ZooKeeper, as everywhere: a session gets its watch events before the answers to what it
asked later, so events are brought to the inboxes before the answer of the call that caused them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from herdproof.conformance.traces.tracer import Clock
from herdproof.protocols.election.elector import (
    Call,
    ElectionPaths,
    Elector,
    LeaderChanged,
    LinkChanged,
    OperationAnswered,
    read_leader,
)
from herdproof.protocols.election.gate import Observe, Shell, ignore_event
from herdproof.protocols.election.gated import GatedElection, Impossible
from herdproof.protocols.election.tracing import ElectorTracer
from herdproof.simulator.traced import ProcessTracers
from herdproof.simulator.zookeeper import ServiceSnapshot as Service
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import Answer, Create, Done, Link, Operation, Refusal, Set, Why

WRITTEN = "/herdproof/election/written"
"""The node that the brokers' applications write, each under its epoch."""
Wrote = Callable[[Elector, int, Answer], None]
"""Told of a write of a broker's application: the core, the epoch that it was under, the answer."""
CONSTANT = frozenset({"paths"})
"""Attributes of a core that never change, and need no snapshot."""


class SimulatedElector:
    """One broker: its elector behind its gate, its session, and what is true of its connection."""

    __slots__ = ("connected", "former", "name", "paused", "session", "shell")

    def __init__(self, name: str, shell: Shell, session: int) -> None:
        self.name = name
        self.shell = shell
        self.session = session
        self.former: tuple[int, ...] = ()  # its earlier sessions, of this process or another
        self.connected = True
        self.paused = False

    def begin(self, session: int) -> None:
        """Have a new session, over a connection of its own."""
        self.former = (*self.former, self.session)
        self.session = session
        self.connected = True


class ElectorTracers(ProcessTracers):
    """The tracers of the cores of a run: a new core of a broker is another process of it."""

    def __init__(self, run: str, clock: Clock = time.time_ns) -> None:
        super().__init__(lambda core, stream: ElectorTracer(core.broker, run, stream, clock))

    def wrote(self, core: Elector, epoch: int, answer: Answer) -> None:
        """A write of this core's owner was answered."""
        self.of(core).wrote(epoch, answer)


class WorldSnapshot(NamedTuple):
    """All of a world's state: one tuple for each broker, the service, what the ghost saw."""

    brokers: tuple[tuple[Any, ...], ...]
    service: Service
    stale_write_accepted: bool

    def permuted(self, order: Sequence[int]) -> Self:
        """This world, its brokers numbered anew: the k-th is the one that was `order[k]`."""
        return self._replace(brokers=tuple(self.brokers[k] for k in order))


class SimulatedElection(GatedElection[SimulatedElector]):
    """
    `size` brokers, whose cores `elector` makes.

    `observe` is told each of their events, `wrote` each write of their applications.
    """

    def __init__(
        self, size: int, *, elector: Callable[[str, ElectionPaths], Elector] = Elector,
        observe: Observe = ignore_event, wrote: Wrote = lambda *_: None,
    ) -> None:  # fmt: skip
        self.elector = elector
        self.observe = observe
        self.wrote = wrote
        self.paths = ElectionPaths()
        self.zookeeper = ZooKeeper()
        self._prepare()
        self.brokers = [self._broker(f"broker{k + 1}") for k in range(size)]
        self.stale_write_accepted = False
        self._varying = tuple(n for n in vars(self.brokers[0].shell.core) if n not in CONSTANT)

    def _prepare(self) -> None:
        """Make the persistent nodes, as an operator does once."""
        operator = self.zookeeper.open()
        for path in ("/herdproof", "/herdproof/election", self.paths.epoch, WRITTEN):
            self.zookeeper.perform(operator, Create(path))
        self.zookeeper.close(operator)

    def _broker(self, name: str) -> SimulatedElector:
        return SimulatedElector(name, *self._start(name))

    def _start(self, name: str) -> tuple[Shell, int]:
        """A new process: a core that knows nothing, told of its first session."""
        core = self.elector(name, self.paths)
        shell, session = Shell(core, observe=self.observe), self.zookeeper.open()
        shell.give(LinkChanged(Link.CONNECTED, session))
        return shell, session

    # ── What users ask for ──────────────────────────────────────────────────────────────────

    def write(self, b: int) -> None:
        """The broker's application writes; the answer is left on its way."""
        broker = self.brokers[b]
        core = broker.shell.core
        operation = core.fenced(Set(WRITTEN, broker.name.encode()))
        answer = self.zookeeper.perform(broker.session, operation, answered=False)
        self.wrote(core, core.token, answer)
        if isinstance(answer, Done) and self.winner() != broker.name:
            self.stale_write_accepted = True
        self._deliver()

    # ── What the elector does with what its inbox holds ─────────────────────────────────────

    def handle_suspended(self, b: int) -> None:
        """The client says that call and connection are lost; what still waits comes too late."""
        broker = self.brokers[b]
        shell, core = broker.shell, broker.shell.core
        if core.call is not Call.NONE and not any(
            isinstance(e, OperationAnswered) for e in shell.inbox
        ):
            shell.give(OperationAnswered(core.number, Refusal(Why.CONNECTION_LOSS)))
        shell.give(LinkChanged(Link.SUSPENDED, broker.session))
        while shell.inbox:
            shell.take()
        shell.outbox.clear()

    def handle_reconnected(self, b: int) -> None:
        """The client has a connection again, and syncs before it says so."""
        broker = self.brokers[b]
        broker.connected = True
        self._sync(b)
        broker.shell.give(LinkChanged(Link.CONNECTED, broker.session))

    def handle_lost(self, b: int) -> None:
        """The client has been told that its session expired."""
        broker = self.brokers[b]
        broker.shell.give(LinkChanged(Link.LOST, broker.session))

    def handle_new_session(self, b: int) -> None:
        """The client has a new session."""
        broker = self.brokers[b]
        broker.begin(self.zookeeper.open())
        broker.shell.give(LinkChanged(Link.CONNECTED, broker.session))

    # ── What ZooKeeper does with a call ─────────────────────────────────────────────────────

    def catch_up(self, b: int) -> None:
        """The broker's server applies what it missed."""
        self.zookeeper.catch_up(self.brokers[b].session)
        self._deliver()

    def expire_orphan(self) -> None:
        """The session that owns the leader's node, whose broker has a later one, expires."""
        node = self.zookeeper.snapshot().nodes.get(self.paths.leader)
        if node is None or any(node.owner == b.session for b in self.brokers):
            raise Impossible("no former session owns the leader's node: restart its owner first")
        self.zookeeper.expire(node.owner)
        self._deliver()

    # ── Faults ──────────────────────────────────────────────────────────────────────────────

    def cut(self, b: int) -> None:
        """The connection breaks; a call under way never reaches the service."""
        broker = self.brokers[b]
        broker.connected = False
        self.zookeeper.lose_connection(broker.session)

    def expire(self, b: int) -> None:
        """The service ends the broker's session; the broker does not know."""
        broker = self.brokers[b]
        broker.connected = False
        self.zookeeper.expire(broker.session)
        self._deliver()

    def expire_told(self, b: int) -> None:
        """The service ends the broker's session, whose connection brings its own watch's event."""
        broker = self.brokers[b]
        self.zookeeper.expire(broker.session, told=True)
        self._deliver()
        broker.connected = False

    def restart(self, b: int) -> None:
        """
        The process is killed and started again, with a new session.

        Its old session lives on as long as that matters: while it owns the leader's node.
        """
        broker = self.brokers[b]
        self.zookeeper.lose_connection(broker.session)
        node = self.zookeeper.snapshot().nodes.get(self.paths.leader)
        if node is None or node.owner != broker.session:
            self.zookeeper.close(broker.session)
        broker.shell, session = self._start(broker.name)
        broker.begin(session)
        broker.paused = False

    def fall_behind(self, b: int) -> None:
        """The broker's server applies nothing from now on."""
        self.zookeeper.fall_behind(self.brokers[b].session)

    # ── Left to itself ──────────────────────────────────────────────────────────────────────

    def settle(self) -> None:
        """Let the brokers take their events, and the service their calls, until nothing waits."""
        shells = [(b, broker.shell) for b, broker in enumerate(self.brokers)]
        while any(shell.inbox or shell.outbox for _, shell in shells):
            for b, shell in shells:
                if shell.inbox:
                    shell.take()
                elif shell.outbox:
                    self._serve(b, shell.core.call)

    # ── What it looks like ──────────────────────────────────────────────────────────────────

    def winner(self) -> str:
        """The broker that won the present epoch, "" before the first: the epoch node's data."""
        return self.zookeeper.snapshot().nodes[self.paths.epoch].data.decode()

    def leader(self) -> str:
        """The broker named in the leader's node, "" while none stands."""
        node = self.zookeeper.snapshot().nodes.get(self.paths.leader)
        return read_leader(node.data)[0] if node else ""

    def snapshot(self) -> WorldSnapshot:
        """All of the state, to come back to; what can be shared is."""
        return WorldSnapshot(
            tuple(self._saved(broker) for broker in self.brokers),
            self.zookeeper.snapshot(),
            self.stale_write_accepted,
        )

    def restore(self, snapshot: WorldSnapshot) -> None:
        """Go to a snapshot of this world or of a like one, brokers in the snapshot's order."""
        for broker, saved in zip(self.brokers, snapshot.brokers, strict=True):
            self._load(broker, saved)
        self.zookeeper.restore(snapshot.service)
        self.stale_write_accepted = snapshot.stale_write_accepted

    # ── Inside ──────────────────────────────────────────────────────────────────────────────

    def _saved(self, broker: SimulatedElector) -> tuple[Any, ...]:
        shell, core = broker.shell, vars(broker.shell.core)
        return (
            broker.name, broker.session, broker.former, broker.connected, broker.paused,
            tuple(shell.inbox), tuple(shell.outbox), *[core[name] for name in self._varying],
        )  # fmt: skip

    def _load(self, broker: SimulatedElector, saved: tuple[Any, ...]) -> None:
        broker.name, broker.session, broker.former, broker.connected, broker.paused, *rest = saved
        inbox, outbox, *core = rest
        shell = broker.shell
        shell.inbox.clear()
        shell.inbox.extend(inbox)
        shell.outbox.clear()
        shell.outbox.extend(outbox)
        vars(shell.core).update(zip(self._varying, core, strict=True))

    def _serve(self, b: int, call: Call) -> None:
        self._expect(b, call)
        broker = self.brokers[b]

        def submit(operation: Operation, answer: Callable[[Answer], None]) -> None:
            answered = self.zookeeper.perform(broker.session, operation)
            self._deliver()
            answer(answered)

        broker.shell.release(submit)

    def _sync(self, b: int) -> None:
        """Have the broker's server catch up before anything is read from it."""
        self.zookeeper.catch_up(self.brokers[b].session)
        self._deliver()

    def _swallow(self, b: int, call: Call) -> None:
        self._expect(b, call)
        self.cut(b)
        session = self.brokers[b].session

        def submit(operation: Operation, answer: Callable[[Answer], None]) -> None:
            del answer  # nobody will ever hear it
            self.zookeeper.perform(session, operation, answered=False)
            self._deliver()

        self.brokers[b].shell.release(submit)

    def _deliver(self) -> None:
        """Bring every watch event that was sent to its inbox."""
        for broker in self.brokers:
            for event in self.zookeeper.take_events(broker.session):
                if event.path == self.paths.leader:
                    broker.shell.post(LeaderChanged())
