"""
Real brokers on a real ZooKeeper, as an adapter of the election's spec.

All fields of the spec are seen. Three kinds of them say little: `paused` and `behind` are what the
test itself did, `stale_write_accepted` is what the world noted when ZooKeeper accepted a write. As
the gates hold everything back, the spec allows exactly one state at rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from herdproof.conformance.adapter import AdapterError
from herdproof.errors import NotInTime
from herdproof.protocols.election.held.adapter import Electors
from herdproof.protocols.election.held.flawed import elector_with
from herdproof.protocols.election.held.real_world import RealElection
from herdproof.protocols.election.simulated import SimulatedElection
from herdproof.zookeeper.embedded import EmbeddedZooKeeper


class RealElectors(Electors):
    """In a world that is there, and that each run begins anew."""

    refusals = (*Electors.refusals, NotInTime)
    patience = 10.0
    outlives = True

    def _seen(self) -> SimulatedElection:
        """A picture of the world."""
        world: RealElection = self.world
        return world.picture()


def real_electors(
    world: RealElection, switches: frozenset[str] = frozenset()
) -> type[RealElectors]:
    """The adapter of this world's brokers, whose cores have these mistakes."""

    def begun(size: int) -> RealElection:
        if size != world.size:
            raise AdapterError(f"this world has Broker={world.size}, not {size}: write that")
        world.reset(elector_with(switches))
        return world

    members = {
        "world_of": staticmethod(begun), "switches": switches,
        "absent": world.absent, "reluctant": world.reluctant,
    }  # fmt: skip
    return type("RealElectors", (RealElectors,), members)


@contextmanager
def one_real_elector() -> Iterator[type[RealElectors]]:
    """The adapter of a world of one broker, for as long as that stands."""
    with EmbeddedZooKeeper() as zookeeper, RealElection(zookeeper, 1) as world:
        yield real_electors(world)
