"""The electors' cores on the simulated ZooKeeper, as an adapter of the election's spec."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from herdproof.conformance.adapter import Adapter, Refused
from herdproof.link.election import (
    OF_A_BROKER,
    OF_THE_WORLD,
    Observer,
    act,
    read_broker,
    read_world,
)
from herdproof.link.election_loaded import load, no_server_lags
from herdproof.link.flawed_election import simulated_with
from herdproof.simulator.election import SimulatedElection, Snapshot
from herdproof.simulator.gated import Impossible
from herdproof.zookeeper.shell import NothingWaits
from herdspec.engine.ground import Ground
from herdspec.language.specification import Specification
from herdspec.language.types import Bool, MapOf, Nat
from herdspec.language.values import decode
from herdspec.protocols.election import Broker, Election
from herdspec.protocols.election_properties import ELECTION

SORTS = {"Broker": Broker}
MOST_BROKERS = 16
"""Values of a sort's elements are looked up in tables of so many."""


def _reader(kind: Any) -> Callable[[int], Any]:
    """What turns a number of a field into its plain value."""
    match kind:
        case Nat():
            return int
        case Bool():
            return bool
    table = []
    for number in range(MOST_BROKERS + 1):
        try:
            table.append(decode(kind, number, SORTS))
        except IndexError:  # an enum has fewer members
            break
    return table.__getitem__


_KINDS = {f.name: f.kind.value if isinstance(f.kind, MapOf) else f.kind for f in ELECTION.fields}
_OF_THE_WORLD = [(name, _reader(_KINDS[name])) for name in OF_THE_WORLD if name in _KINDS]
_OF_A_BROKER = [(name, _reader(_KINDS[name])) for name in OF_A_BROKER]


class _Electors(Adapter):
    """
    Brokers with real cores; the gates of their shells let a test decide what comes when.

    Nothing is offered where the spec forbids it: the world does what it is told, right or wrong.
    """

    refusals = (Refused, Impossible, NothingWaits)
    timeout = None
    loadable = no_server_lags
    switches: ClassVar[frozenset[str]] = frozenset()
    """The mistakes of the cores."""
    world_of: ClassVar[Callable[[int], SimulatedElection]] = SimulatedElection
    """Makes the world; another one for cores with a mistake."""

    def begin(self, Broker: int) -> None:  # noqa: N803 - a sort's name
        """So many brokers, with their sessions."""
        self.world = type(self).world_of(Broker)
        self.elements = [SORTS["Broker"](k) for k in range(Broker)]

    def observe(self) -> dict[str, Any]:
        """Everything: the nodes, the sessions, what the cores know, and what is on its way."""
        nodes, sessions, _ = self.world.zookeeper.snapshot()
        flat = read_world(self.world, nodes)
        look: dict[str, Any] = {name: read(flat[k]) for k, (name, read) in enumerate(_OF_THE_WORLD)}
        of_brokers = [
            read_broker(broker, sessions[broker.session], self.world)
            for broker in self.world.brokers
        ]
        for k, (name, read) in enumerate(_OF_A_BROKER):
            values = [read(numbers[k]) for numbers in of_brokers]
            look[name] = dict(zip(self.elements, values, strict=True))
        return look

    def snapshot(self) -> Snapshot:
        """All of the world."""
        return self.world.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Be there again."""
        self.world.restore(snapshot)

    def load(self, state: Election) -> None:
        """Be in a state of the spec, if no server lags there."""
        load(self.world, state)

    def renamed(self, snapshot: Snapshot, order: Sequence[int]) -> Snapshot:
        """The same world, its brokers numbered anew."""
        return snapshot.permuted(order)

    def reader(self, ground: Ground) -> Callable[[], tuple[int, ...]]:
        """Reads all of the world as numbers: what `observe` shows, and much faster."""
        return partial(Observer(ground), self.world)


def electors(
    switches: frozenset[str] = frozenset(), spec: Specification = ELECTION
) -> type[_Electors]:
    """The adapter of cores with these mistakes, for a spec of the election that has them, too."""
    methods = {action.name: _method(action.name) for action in spec.actions}
    world = staticmethod(partial(simulated_with, switches))
    members = {"world_of": world, "switches": switches, **methods}
    return type("SimulatedElectors", (_Electors,), members)


def _method(action: str) -> Callable[..., None]:
    """Does to the world what an action names."""

    def method(self: _Electors, *brokers: Broker) -> None:
        act(self.world, action, [broker.index for broker in brokers])

    return method


class SimulatedElectors(_Electors):
    """The verified cores."""


for _action in ELECTION.actions:
    setattr(SimulatedElectors, _action.name, _method(_action.name))
