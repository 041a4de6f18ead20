"""
A session with the simulated ZooKeeper, over time: what `herdproof.zookeeper.client` promises of it.

The service performs an operation when it arrives; the answer, and what watches saw before it, come
back in order. A connection breaks: of what was sent some was done and its reply is lost, some never
arrived. A client that the service hears nothing of (its connection is broken, its process paused,
or the network between them carries nothing) loses its session after the session's time-out, and is
told when it is back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from herdproof.simulator.clock import Timeline
from herdproof.simulator.network import Network, Pipe
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Exists,
    Get,
    Link,
    Multi,
    NodeChange,
    Operation,
    Refusal,
    Sync,
    Watched,
    Why,
)

HOST = "zookeeper"
"""The name of the service in the network."""

FENCED = Refusal(Why.BAD_VERSION, 0)
"""The answer to a transaction whose first part, the check of the epoch, fails."""

PATIENCE = 2 / 3
"""The part of a session's time-out after which a client gives a silent connection up."""


class Host(Protocol):
    """The process that a client is part of."""

    name: str
    alive: bool
    paused: bool

    def post(self, source: str, happen: Callable[..., None], *arguments: object) -> None:
        """Have the process do this, when it next does anything."""


class SimulatedService:
    """The simulated ZooKeeper with a network before it; slow, for a while, if asked to be."""

    def __init__(self, timeline: Timeline, network: Network, chance: Random) -> None:
        self.timeline = timeline
        self.network = network
        self.chance = chance
        self.zookeeper = ZooKeeper()
        self.clients: list[SimulatedClient] = []
        self.wrote: Callable[[SimulatedClient, Open], None] = ignore
        """Told of every write that was done, before its answer is on its way."""
        self.fenced = 0
        """The number of coordinators' writes that were refused because their epoch was over."""
        self._slow_until = 0.0
        self._slow_ms = 0.0

    def slow_down(self, until_ms: float, by_ms: float) -> None:
        """Let every operation take so much longer, until then."""
        self._slow_until, self._slow_ms = until_ms, by_ms

    @property
    def is_slow(self) -> bool:
        """Tells whether it was slowed down."""
        return self.timeline.now < self._slow_until

    def delay(self) -> float:
        """The time for which a message between a client and the service is under way (ms)."""
        delay = 0.3 + 3.0 * self.chance.random()
        return delay + self._slow_ms * self.chance.random() if self.is_slow else delay

    def perform(self, client: SimulatedClient, opened: Open, *, answered: bool) -> Answer:
        """Do it now; whoever watched has events on the way before the answer is."""
        zookeeper, operation = self.zookeeper, opened.operation
        if isinstance(operation, Exists | Get | Children | Sync):
            if not client.synced:
                zookeeper.catch_up(client.session)
                client.synced = True
            answer = zookeeper.perform(client.session, operation)
        else:
            answer = zookeeper.perform(client.session, operation, answered=answered)
            if not isinstance(answer, Refusal):
                self.wrote(client, opened)
            elif opened.coordinates and answer == FENCED:
                self.fenced += 1
        self.send_events()
        return answer

    def send_events(self) -> None:
        """Put the watch events of every session on their way."""
        for client in self.clients:
            if not client.session:
                continue
            for event in self.zookeeper.take_events(client.session):
                client.down.put(self.delay(), client.watch_fired, event)

    def expire(self, client: SimulatedClient, *, told: bool) -> None:
        """End a client's session; if it is `told`, its connection brings what its watches saw."""
        if client.session and self.zookeeper.alive(client.session):
            self.zookeeper.expire(client.session, told=told)
            self.send_events()
        client.hung_up()


@dataclass(eq=False, slots=True)
class Open:
    """An operation that was sent, and has no answer yet."""

    operation: Operation
    answer: Callable[[Answer], None]
    coordinates: bool
    """The coordinator's core asked for it; else the elector, or the broker for itself."""


FIRES = {
    NodeChange.CREATED: (NodeChange.DATA,),
    NodeChange.DATA: (NodeChange.DATA,),
    NodeChange.CHILDREN: (NodeChange.CHILDREN,),
    NodeChange.DELETED: (NodeChange.DATA, NodeChange.CHILDREN),
}
"""Which of the two kinds of watches each change fires."""


def kind_of(operation: Get | Exists | Children) -> NodeChange:
    """The kind of the watch that a read leaves."""
    return NodeChange.CHILDREN if isinstance(operation, Children) else NodeChange.DATA


def ignore(client: SimulatedClient, opened: Open) -> None:
    """Who is told what was written, where nobody wants to know."""


class SimulatedClient:
    """One process' client; it opens a session anew whenever it has lost one."""

    def __init__(
        self, service: SimulatedService, host: Host, timeout_ms: float, *,
        on_link: Callable[[Link, int], None], on_watch: Callable[[Watched], None],
        on_lost: Callable[[Watched], None],
    ) -> None:  # fmt: skip
        self.service = service
        self.host = host
        self.timeout_ms = timeout_ms
        self.on_link = on_link
        self.on_watch = on_watch
        self.on_lost = on_lost
        """Told of each watch that a broken connection took, once there is another."""
        self.session = 0
        self.link = Link.LOST
        self.watches: set[tuple[str, NodeChange]] = set()
        """The watches that the process has left, by path and kind (DATA or CHILDREN)."""
        self.lost_watches: set[tuple[str, NodeChange]] = set()
        """The watches that a broken connection has taken: they are said to fire on the next one."""
        self.stands = False
        """The connection stands, as far as the client's kernel knows."""
        self.synced = False
        self.swallows = False
        """A fault waits: the next write is done, and the connection breaks before the reply."""
        self._silent_since: float | None = None
        self._open: deque[Open] = deque()
        self._pair = service.network.pair(host.name, HOST)
        self.up, self.down = self._pipes()
        service.clients.append(self)
        service.timeline.after(service.delay(), host.post, "zookeeper", self._connect)

    # ── What the process asks for ───────────────────────────────────────────────────────────

    def submit(
        self, operation: Operation, answer: Callable[[Answer], None], *, coordinates: bool = False
    ) -> None:
        """Send an operation; its answer comes, or CONNECTION_LOSS, in the order of submission."""
        opened = Open(operation, answer, coordinates)
        if isinstance(operation, Get | Exists | Children) and operation.watch and coordinates:
            self.watches.add((operation.path, kind_of(operation)))
        self._open.append(opened)
        if self.link is not Link.CONNECTED:
            self.service.timeline.after(0, self.host.post, "zookeeper", self._refuse, opened)
        elif self.stands:
            self.up.put(self.service.delay(), self._arrive, opened)
            if self.service.is_slow:
                patience = self.timeout_ms * PATIENCE
                self.service.timeline.after(patience, self._lose_patience, opened)

    def close(self) -> None:
        """End the session; nothing is told any more."""
        self.stands = False
        self.service.zookeeper.close(self.session)
        self.service.send_events()
        self.abandon()

    def abandon(self) -> None:
        """The process is no more: its session lives on until the service has had enough."""
        self._break()
        self._fall_silent()

    # ── What happens to it ──────────────────────────────────────────────────────────────────

    def cut(self) -> None:
        """The connection breaks."""
        if self.stands:
            self._break()
            self._fall_silent()
            self.host.post("zookeeper", self._suspend)

    def hung_up(self) -> None:
        """The service has closed the connection; the client reads what was sent before."""
        if self.stands:
            self.down.put(self.service.delay(), self._hear_of_the_end, self.down)

    def paused(self) -> None:
        """Its process is paused: the service hears nothing of it."""
        self._fall_silent()

    def resumed(self) -> None:
        """Its process goes on; if it still hears nothing, it soon gives the connection up."""
        assert not self.host.paused, "who is told before it is awake is not heard"
        self.speak()
        if self.stands and self._is_parted():
            self.service.timeline.after(self.timeout_ms * PATIENCE / 2, self._give_up, self.down)

    def parted(self, until_ms: float) -> None:
        """Nothing gets through to the service until then: the client gives up before, perhaps."""
        self._fall_silent()
        self.service.timeline.at(until_ms, self.speak)
        patience = self.timeout_ms * PATIENCE
        if self.stands:
            self.service.timeline.after(patience, self._give_up, self.down)

    def speak(self) -> None:
        """The service hears of it again, if nothing stands between."""
        if self.stands and not self.host.paused and not self._is_parted():
            self._silent_since = None

    # ── The service's side ──────────────────────────────────────────────────────────────────

    def _arrive(self, opened: Open) -> None:
        """An operation arrives at the service."""
        service = self.service
        if not service.zookeeper.alive(self.session):
            service.expire(self, told=False)
            return
        swallowed = self.swallows and isinstance(opened.operation, Multi)
        answer = service.perform(self, opened, answered=not swallowed)
        if swallowed:
            self.swallows = False
            self.cut()
        else:
            self.down.put(service.delay(), self._answered, opened, answer)

    def _fall_silent(self) -> None:
        if self._silent_since is None:
            self._silent_since = self.service.timeline.now
            self.service.timeline.after(
                self.timeout_ms, self._expire, self.session, self._silent_since
            )

    def _expire(self, session: int, since: float) -> None:
        """The session's time is over, if the client was silent all the time."""
        if self.session == session and self._silent_since == since:
            self.service.expire(self, told=False)
            if not self.host.alive:
                self.service.clients.remove(self)

    def _is_parted(self) -> bool:
        return self.service.network.parted.get(self._pair, 0.0) > self.service.timeline.now

    # ── The client's side ───────────────────────────────────────────────────────────────────

    def watch_fired(self, event: Watched) -> None:
        """An event arrives."""
        self.host.post("zookeeper", self.on_watch, event)

    def _answered(self, opened: Open, answer: Answer) -> None:
        self.host.post("zookeeper", self._tell_answer, opened, answer)

    def _tell_answer(self, opened: Open, answer: Answer) -> None:
        if opened in self._open:
            self._open.remove(opened)
            opened.answer(answer)

    def _refuse(self, opened: Open) -> None:
        self._tell_answer(opened, Refusal(Why.CONNECTION_LOSS))

    def _lose_patience(self, opened: Open) -> None:
        """An operation has waited too long: hang up."""
        if opened in self._open and not self.host.paused:
            self.cut()

    def _give_up(self, down: Pipe) -> None:
        """The connection has been silent for too long, if it is still that one."""
        if down is self.down and self._is_parted() and not self.host.paused:
            self.cut()

    def _hear_of_the_end(self, down: Pipe) -> None:
        """The connection's end arrives."""
        if down is self.down:
            self.cut()

    def _break(self) -> None:
        """The connection is no more; of what was under way, the first few arrive all the same."""
        self.stands = False
        sent = self.up.lose()
        self.down.lose()
        arriving = self.service.chance.randint(0, len(sent))
        for _, arguments in sent[:arriving]:
            opened = arguments[0]
            if isinstance(opened, Open) and self.service.zookeeper.alive(self.session):
                self.service.perform(self, opened, answered=False)
        if self.session:
            self.service.zookeeper.lose_connection(self.session)
            self.service.zookeeper.take_events(self.session)
        self.up, self.down = self._pipes()

    def _suspend(self) -> None:
        """The process learns that its connection is lost; what was open is answered first."""
        self.link = Link.SUSPENDED
        while self._open:
            self._open.popleft().answer(Refusal(Why.CONNECTION_LOSS))
        self.lost_watches |= self.watches
        self.watches.clear()
        self.on_link(Link.SUSPENDED, self.session)
        self._connect_later(60.0)

    def _connect_later(self, at_most_ms: float) -> None:
        delay = 1.0 + at_most_ms * self.service.chance.random()
        self.service.timeline.after(delay, self.host.post, "zookeeper", self._connect)

    def _connect(self) -> None:
        """Find the service again: in the old session, if it lives, or in a new one."""
        if self._is_parted():
            self._connect_later(400.0)
            return
        zookeeper = self.service.zookeeper
        if self.session and not zookeeper.alive(self.session):
            self.link = Link.LOST
            self.on_link(Link.LOST, self.session)
            self.session = 0
        if not self.session:
            self.session = zookeeper.open()
        self.stands, self.synced, self._silent_since = True, False, None
        self.link = Link.CONNECTED
        self.on_link(Link.CONNECTED, self.session)
        lost, self.lost_watches = self.lost_watches, set()
        for path, kind in sorted(lost, key=str):
            self.on_lost(Watched(path, kind))

    def _pipes(self) -> tuple[Pipe, Pipe]:
        parted = self.service.network.parted

        def blocked() -> float:
            return parted.get(self._pair, 0.0)

        return Pipe(self.service.timeline, blocked), Pipe(self.service.timeline, blocked)
