"""
The election on a real ensemble of three, one of whose followers can be made to lag.

Each of at most two brokers is connected to a follower of its own; nothing of what the leader
sends reaches one that has fallen behind (`EmbeddedZooKeeper.hold_back`), so that it serves its
broker reads of the past, and fires no watch.

The flaw `no_sync` cannot be shown here. The spec, which assumes less than ZooKeeper gives, lets a
client come back to a server that still lags; a real follower lets a client in only when the
leader's word on its session has come through, behind everything that was decided before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from herdproof.protocols.election.elector import Call, Elector
from herdproof.protocols.election.gated import Impossible
from herdproof.protocols.election.real.world import (
    NEEDS_A_TIMEOUT,
    ProxiedSession,
    RealBroker,
    RealElection,
)
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Exists

TICK_MS = 1000
"""A follower that hears nothing gives up after 15 ticks, and with it its clients' connections."""


@contextmanager
def ensemble() -> Iterator[EmbeddedZooKeeper]:
    """Three servers for a `LaggingElection`."""
    with EmbeddedZooKeeper(3, isolatable=True, tick_time_ms=TICK_MS) as zookeeper:
        yield zookeeper


class LaggingElection(RealElection):
    """
    One or two brokers, each on a follower of its own; at most one of them lags at a time.

    Through a server that lags nobody writes: the leader would never hear of it.
    """

    absent: ClassVar[Mapping[str, str]] = {"expire_told": NEEDS_A_TIMEOUT}
    reluctant = ("write", "swallow_create", "swallow_delete")

    def __init__(
        self, zookeeper: EmbeddedZooKeeper, size: int, *, patience_s: float = 20.0
    ) -> None:
        self._leader = zookeeper.leader()
        self._followers = [s for s in range(3) if s != self._leader]
        super().__init__(zookeeper, size, patience_s=patience_s)

    @property
    def truth(self) -> int:
        """The ensemble's leader."""
        return self._leader

    def server_of(self, b: int) -> int:
        """The broker's follower."""
        return self._followers[b]

    def _broker(self, b: int) -> RealBroker:
        reader = ProxiedSession(self.hosts_of(self.server_of(b)), self.mail)
        reader.client.start()
        reader.client.perform(Exists("/"))  # its sync is done with: later reads may be of the past
        self.readers.append(reader)
        return super()._broker(b)

    def stop(self) -> None:
        """End all clients and proxies, and remove the nodes."""
        self._all_catch_up()
        super().stop()
        for reader in self.readers:
            reader.client.close()

    def reset(self, elector: type[Elector] = Elector) -> None:
        """Begin anew, with no server behind."""
        self._all_catch_up()
        super().reset(elector)
        self._await_watches()

    def fall_behind(self, b: int) -> None:
        """From now on the broker's server hears nothing from the leader."""
        if self.lagging:
            raise Impossible("one server lags already: with two behind, none could write")
        self._await_watches()
        self.zookeeper.hold_back(self.server_of(b))
        self.lagging.add(b)

    def catch_up(self, b: int) -> None:
        """The broker's server hears all that it missed, and tells what was watched."""
        self.zookeeper.let_go(self.server_of(b))
        self.lagging.discard(b)
        self._await_watches()

    def write(self, b: int) -> None:
        """Not through a server that lags."""
        self._check_up_to_date(b)
        super().write(b)

    def _serve(self, b: int, call: Call) -> None:
        """What one follower's broker has changed, the others' must know before they are read."""
        super()._serve(b, call)
        if call in (Call.CREATE, Call.DELETE):
            self._await_watches()

    def _swallow(self, b: int, call: Call) -> None:
        self._check_up_to_date(b)
        super()._swallow(b, call)

    def _check_up_to_date(self, b: int) -> None:
        if b in self.lagging:
            raise Impossible("a write through a server that lags")

    def handle_reconnected(self, b: int) -> None:
        """The client comes back, which its server lets it only when it has caught up."""
        self._catch_up_if_behind(b)
        super().handle_reconnected(b)

    def expire(self, b: int) -> None:
        """The leader ends the session; its server hears of that, too."""
        self.cut(b)
        self._catch_up_if_behind(b)
        super().expire(b)

    def restart(self, b: int) -> None:
        """A new session is known only to a server that has caught up."""
        self.cut(b)
        self._catch_up_if_behind(b)
        super().restart(b)

    def _catch_up_if_behind(self, b: int) -> None:
        if b in self.lagging:
            self.catch_up(b)

    def _all_catch_up(self) -> None:
        for b in list(self.lagging):
            self.catch_up(b)
