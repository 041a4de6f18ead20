"""
Some of the elector's known mistakes, switched on in real brokers on a real ZooKeeper.

Each is taken through the story that the checker told of the spec with that mistake, twice: beside
the flawed spec, which it must follow to the end (so that the broken promise is really broken), and
beside the verified one, which it must leave on the way. On the simulated ZooKeeper,
`properties/protocols/election/test_election_link.py` tries all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from herdproof.conformance.graphs.edge_walk import redo
from herdproof.conformance.holding.held import Deed, Differs, Held
from herdproof.conformance.stories import on_the_code
from herdproof.protocols.election.held.real import real_electors
from herdproof.protocols.election.held.real_world import RealElection
from herdspec.check.exploration.explore import Explorer, Story
from herdspec.check.running.run import machine
from herdspec.protocols.election.flaws import FLAWS
from herdspec.protocols.election.properties import ELECTION

REAL_MUTANTS = {
    "unfenced_write": "only_the_present_epoch_writes",
    "mine_by_data": "a_node_is_taken_for_its_own_session_only",
    "believes_lost_reply": "one_coordinator_per_epoch",
}
"""Mistakes that are tried in `make test`, each with the promise that it breaks."""

_PATIENCE_S = 2.0
"""How long a mutant may be elsewhere: it will stay there."""


@dataclass(frozen=True)
class RealMutant:
    """A mistake, the promise that it broke on the real ZooKeeper, and how it was caught."""

    flaw: str
    promise: str
    story: int
    """Steps of the checker's story, all of them done by the mutant."""
    steps: int
    """Steps of it after which the mutant was not where the verified spec is."""
    action: str
    """The last of those steps."""
    difference: str
    """The whole story of that difference."""


def real_mutant(world: RealElection, flaw: str, promise: str) -> RealMutant:
    """Try one mistake: the mutant must do what the flawed spec says, and not what the true one."""
    switches, told = FLAWS[flaw].switches, story(flaw, promise, world.size)
    patient = real_electors(world, switches)
    flawed = on_the_code(machine(FLAWS[flaw].spec, Broker=world.size), patient, told.steps)
    assert flawed.follows, "\n".join(flawed.difference)
    impatient = type("Impatient", (patient,), {"patience": _PATIENCE_S})
    with Held(ELECTION, impatient, Broker=world.size) as held:
        deeds = [Deed("offer", step.action.name, step.arguments) for step in told.steps]
        with pytest.raises(Differs) as found:
            redo(held, deeds)
    *_, last = found.value.deeds
    return RealMutant(
        flaw, promise, len(told.steps), len(found.value.deeds),
        f"{last.name}({', '.join(map(repr, last.arguments))})", str(found.value),
    )  # fmt: skip


def story(flaw: str, promise: str, size: int) -> Story:
    """The checker's shortest story of a flawed spec breaking a promise, at so many brokers."""
    spec, faults = FLAWS[flaw].spec, FLAWS[flaw].faults
    return Explorer(spec, {"Broker": size}, faults).run().violations[promise]
