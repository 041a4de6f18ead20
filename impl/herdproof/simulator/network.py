"""
The simulated network: connections that keep the order of what they carry, and break.

A connection is TCP as a process sees it. What one side sends arrives in order and late, or the
connection breaks and everything under way is lost; each side learns of that at a time of its own
(half-open: one side learns much later). While two hosts are parted nothing gets through between
them; it comes late, or never, if the connection breaks in between. A process that is killed takes
its connections with it; one that is paused does not read, but its kernel accepts.

Frames are passed on as the values that they are: a protocol's wire has tests of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from herdproof.simulator.clock import Timeline

CONNECT_TIMEOUT_MS = 1500
"""The time for which a connection is waited for across a network that carries nothing."""


class Side(Protocol):
    """A process at one end: it is told in the order in which its end learns."""

    name: str
    alive: bool

    def accept(self, connection: Connection) -> int:
        """Its kernel accepts a connection; the number under which it will be told of it."""

    def opened(self, channel: int) -> None:
        """A connection stands: one that it asked for, or one that was accepted for it."""

    def refused(self, channel: int) -> None:
        """A connection that it asked for cannot be had."""

    def received(self, channel: int, frame: Any) -> None:
        """A frame came in."""

    def closed(self, channel: int) -> None:
        """The connection is over, and nothing more comes over it."""


class Pipe:
    """One direction of something that keeps order: what is put in comes out later, in order."""

    def __init__(self, timeline: Timeline, blocked_until: Callable[[], float]) -> None:
        self._timeline = timeline
        self._blocked_until = blocked_until
        self._under_way: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._last = 0.0
        self.cut = False

    def put(self, delay_ms: float, arrive: Callable[..., None], *arguments: object) -> None:
        """Have `arrive(*arguments)` called after the delay, and after all that was put before."""
        if self.cut:
            return
        self._last = max(self._last, self._timeline.now + delay_ms)
        self._under_way.append((arrive, arguments))
        self._timeline.at(self._last, self._next)

    def lose(self) -> list[tuple[Callable[..., None], tuple[object, ...]]]:
        """Lose what is under way, and carry nothing any more; answers what was lost."""
        lost, self._under_way = list(self._under_way), deque()
        self.cut = True
        return lost

    def _next(self) -> None:
        if not self._under_way:
            return
        until = self._blocked_until()
        if until > self._timeline.now:
            self._last = max(self._last, until)
            self._timeline.at(until, self._next)
            return
        arrive, arguments = self._under_way.popleft()
        arrive(*arguments)


class End:
    """One end of a connection: whose it is, under which number, and whether it is over there."""

    __slots__ = ("channel", "hung_up", "over", "pipe", "side")

    def __init__(self, side: Side, channel: int, pipe: Pipe) -> None:
        self.side = side
        self.channel = channel
        self.pipe = pipe
        """The pipe of what this end sends."""
        self.over = False
        """Its process was told that it is closed, or is no more."""
        self.hung_up = False
        """Its process asked for the close, and reads no more."""


class Connection:
    """A connection between a client's process and a server's."""

    def __init__(self, network: Network, client: Side, server: Side, channel: int) -> None:
        self.network = network
        pair = network.pair(client.name, server.name)

        def blocked() -> float:
            return network.parted.get(pair, 0.0)

        self.client = End(client, channel, Pipe(network.timeline, blocked))
        self.server = End(server, 0, Pipe(network.timeline, blocked))
        self.established = False
        """The client was told that it stands."""
        self.broken = False

    def other(self, end: End) -> End:
        """The end opposite."""
        return self.server if end is self.client else self.client

    def send(self, end: End, frame: Any) -> None:
        """Send from this end; dropped if it is over there, or broken."""
        if not (end.over or end.hung_up):
            end.pipe.put(self.network.delay(), self._arrive, self.other(end), frame)

    def close(self, end: End) -> None:
        """Close from this end, after what was sent; its process is told at once that it is over."""
        if end.over or end.hung_up:
            return
        end.hung_up = True
        end.pipe.put(self.network.delay(), self._learn, self.other(end))
        self.network.timeline.after(0, self._learn, end)

    def die(self, end: End) -> None:
        """This end's process is killed: its kernel says so to the other end, or resets it."""
        other = self.other(end)
        end.over = end.hung_up = True
        if self.broken:
            return
        if self.network.chance.random() < 0.5:
            end.pipe.lose()
            end.pipe.cut = False
        end.pipe.put(self.network.delay(), self._learn, other)

    def cut(self, client_learns_ms: float, server_learns_ms: float) -> None:
        """Break: what is under way is lost, and each end learns of it after so long."""
        if self.broken:
            return
        self.broken = True
        self.client.pipe.lose()
        self.server.pipe.lose()
        self.network.timeline.after(client_learns_ms, self._learn, self.client)
        self.network.timeline.after(server_learns_ms, self._learn, self.server)

    def _arrive(self, end: End, frame: Any) -> None:
        if not (end.over or end.hung_up):
            end.side.received(end.channel, frame)

    def _learn(self, end: End) -> None:
        """This end learns that the connection is over."""
        if end.over:
            return
        end.over = True
        if end is self.client and not (self.established or end.hung_up):
            end.side.refused(end.channel)
        elif end is self.client or end.channel:
            end.side.closed(end.channel)
        if not self.broken:
            end.pipe.put(self.network.delay(), self._learn, self.other(end))


@dataclass(frozen=True, slots=True)
class Lateness:
    """The lateness of messages: little for most, for a share of them up to so many milliseconds."""

    share: float = 0.02
    most_ms: float = 850.0


class Network:
    """Every connection between consumers and brokers; `chance` decides how late things are."""

    def __init__(self, timeline: Timeline, chance: Random, lateness: Lateness = Lateness()) -> None:
        self.timeline = timeline
        self.chance = chance
        self.lateness = lateness
        self.connections: list[Connection] = []
        self.parted: dict[tuple[str, str], float] = {}
        """Pairs of hosts between which nothing gets through, and until when."""
        self.listening: dict[tuple[str, int], Callable[[], Side | None]] = {}
        """Who listens where; None while the process is down."""

    def delay(self) -> float:
        """The time for which a message is under way (ms)."""
        random = self.chance.random()
        if random < self.lateness.share:
            return 5.0 + self.lateness.most_ms * random / self.lateness.share
        return 0.5 + 6.0 * random

    @staticmethod
    def pair(one: str, other: str) -> tuple[str, str]:
        """The name of two hosts together, in whichever order."""
        return (one, other) if one < other else (other, one)

    def part(self, one: str, other: str, until_ms: float) -> None:
        """Let nothing through between two hosts until then."""
        pair = self.pair(one, other)
        self.parted[pair] = max(self.parted.get(pair, 0.0), until_ms)

    def connect(self, client: Side, channel: int, host: str, port: int) -> Connection | None:
        """Ask for a connection to where somebody may listen; the answer comes to `client`."""
        listener = self.listening.get((host, port))
        server = listener() if listener else None
        if server is None:
            self.timeline.after(self.delay(), client.refused, channel)
            return None
        connection = Connection(self, client, server, channel)
        self.connections.append(connection)
        connection.client.pipe.put(self.delay(), self._accept, connection)
        self.timeline.after(CONNECT_TIMEOUT_MS, self._give_up, connection)
        return connection

    def _accept(self, connection: Connection) -> None:
        """The request to connect arrives, and the server's kernel accepts."""
        server = connection.server
        if connection.client.over or connection.client.hung_up or server.over:
            return
        if not server.side.alive:
            self.timeline.after(self.delay(), connection._learn, connection.client)
            return
        server.channel = server.side.accept(connection)
        server.side.opened(server.channel)
        server.pipe.put(self.delay(), self._established, connection)

    def _established(self, connection: Connection) -> None:
        client = connection.client
        if not (client.over or client.hung_up):
            connection.established = True
            client.side.opened(client.channel)

    def _give_up(self, connection: Connection) -> None:
        """The client waits no longer for a connection that never came to stand."""
        if not connection.established:
            connection._learn(connection.client)

    def tidy(self) -> None:
        """Forget the connections that are over at both ends."""
        self.connections = [c for c in self.connections if not (c.client.over and c.server.over)]
