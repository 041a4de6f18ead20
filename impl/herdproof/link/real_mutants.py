"""
Some of the elector's known mistakes, switched on in real brokers on a real ZooKeeper.

Each is taken through the story that the checker told of the spec with that mistake, twice: beside
the flawed spec, which it must follow to the end (so that the broken promise is really broken), and
beside the verified one, which it must leave on the way. On the simulated ZooKeeper,
`herdproof.link.mutants` tries all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from herdproof.link.election import Differs
from herdproof.link.mutants import runs_without_faults
from herdproof.link.real import RealLockstep
from herdproof.link.real_world import RealElection
from herdspec.check.explore import Explorer, Story
from herdspec.protocols.election_flaws import FLAWS

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
    runs_without_faults: bool
    story: int
    """Steps of the checker's story, all of them done by the mutant."""
    steps: int | None
    """Steps of it after which the mutant was not where the verified spec is; None if never."""
    action: str
    """The last of those steps."""
    difference: str
    """The whole story of that difference."""


def real_mutants(world: RealElection) -> Iterator[RealMutant]:
    """What comes of each of `REAL_MUTANTS` on this world, one after the other."""
    return (real_mutant(world, flaw, promise) for flaw, promise in REAL_MUTANTS.items())


def real_mutant(world: RealElection, flaw: str, promise: str) -> RealMutant:
    """Try one mistake; `Differs` if the mutant does not do what the flawed spec says."""
    switches, told = FLAWS[flaw].switches, story(flaw, promise, world.size)
    RealLockstep(world, FLAWS[flaw].spec, flaws=switches).follow(told.steps)
    lockstep = RealLockstep(world, flaws=switches, patience_s=_PATIENCE_S)
    harmless = runs_without_faults(switches)
    try:
        lockstep.follow(told.steps)
    except Differs as difference:
        taken = lockstep.steps
        return RealMutant(
            flaw, promise, harmless, len(told.steps), len(taken), taken[-1].label, str(difference)
        )
    return RealMutant(flaw, promise, harmless, len(told.steps), None, "", "")


def story(flaw: str, promise: str, size: int) -> Story:
    """The checker's shortest story of a flawed spec breaking a promise, at so many brokers."""
    spec, faults = FLAWS[flaw].spec, FLAWS[flaw].faults
    return Explorer(spec, {"Broker": size}, faults).run().violations[promise]
