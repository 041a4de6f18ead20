"""The electors' cores, gated, as adapters of the election's spec: simulated, or on a ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, ClassVar

from herdproof.conformance.adapter import Adapter, Refused, forwards
from herdproof.protocols.election.gate import NothingWaits
from herdproof.protocols.election.gated import Impossible
from herdproof.protocols.election.held.flawed import simulated_with
from herdproof.protocols.election.held.loaded import load, no_server_lags
from herdproof.protocols.election.held.observer import Observer
from herdproof.protocols.election.simulated import SimulatedElection, WorldSnapshot
from herdspec.check.running.run import Machine, machine
from herdspec.engine.ground import Ground
from herdspec.language.specification import Specification
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.election.spec import Election

_at_size = cache(partial(machine, ELECTION))


@forwards(ELECTION)
class Electors(Adapter):
    """
    Brokers with real cores; the gates of their shells let a test decide what comes when.

    Nothing is offered where the spec forbids it: the world does what it is told, right or wrong.
    """

    refusals: ClassVar[tuple[type[BaseException], ...]] = (Refused, Impossible, NothingWaits)
    timeout = None
    switches: ClassVar[frozenset[str]] = frozenset()
    """The mistakes of the cores."""
    world_of: ClassVar[Callable[[int], Any]]
    """Makes the world of so many brokers."""

    def begin(self, Broker: int) -> None:  # noqa: N803 - a sort's name
        """Begin with a number of brokers, with their sessions."""
        self.world = type(self).world_of(Broker)
        self.machine: Machine = _at_size(Broker=Broker)
        self.observer = Observer(self.machine.ground)

    def _seen(self) -> SimulatedElection:
        """The world, or a simulated one that is in the same state."""
        world: SimulatedElection = self.world
        return world

    def observe(self) -> dict[str, Any]:
        """Everything: the nodes, the sessions, what the cores know, and what is on its way."""
        return vars(self.machine.state(self.observer(self._seen())))


class SimulatedElectors(Electors):
    """On the simulated ZooKeeper."""

    world_of: ClassVar[Callable[[int], SimulatedElection]] = SimulatedElection
    loadable = no_server_lags

    def reader(self, ground: Ground) -> Callable[[], tuple[int, ...]]:
        """Reads all of the world as numbers: what `observe` shows, and much faster."""
        return partial(Observer(ground), self.world)

    def snapshot(self) -> WorldSnapshot:
        """All of the world."""
        snapshot: WorldSnapshot = self.world.snapshot()
        return snapshot

    def restore(self, snapshot: WorldSnapshot) -> None:
        """Be there again."""
        self.world.restore(snapshot)

    def load(self, state: Election) -> None:
        """Be in a state of the spec, if no server lags there."""
        load(self.world, state)

    def renamed(self, snapshot: WorldSnapshot, order: Sequence[int]) -> WorldSnapshot:
        """A snapshot's world, its brokers numbered anew."""
        return snapshot.permuted(order)


def electors(
    switches: frozenset[str] = frozenset(), spec: Specification = ELECTION, **told: Any
) -> type[SimulatedElectors]:
    """
    The adapter of cores with these mistakes; who is `told` is as in `SimulatedElection`.

    Variants of the spec have the same actions and fields, so one adapter fits them all.
    """
    del spec
    world = staticmethod(partial(simulated_with, switches, **told))
    members = {"world_of": world, "switches": switches}
    return type("SimulatedElectors", (SimulatedElectors,), members)
