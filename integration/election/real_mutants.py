"""
Some of the elector's known mistakes, switched on in real brokers on a real ZooKeeper.

Each is taken through the story that the checker told of the spec with that mistake, twice: beside
the flawed spec, which it must follow to the end (so that the broken promise is really broken), and
beside the verified one, which it must leave on the way. On the simulated ZooKeeper,
`properties/protocols/election/test_election_link.py` tries all of them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import pytest

from herdproof.conformance.graphs.edge_walk import redo
from herdproof.conformance.holding.deeds import Deed
from herdproof.conformance.holding.held import Differs, Held
from herdproof.conformance.stories import on_the_code
from herdproof.protocols.election.held.real import real_electors
from herdproof.protocols.election.real.world import RealElection
from herdspec.check.exploration.explore import Explorer, Story
from herdspec.check.running.run import Step, machine
from herdspec.language.surface import ActionKind, Spec
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
    """Steps of the story, all of them done by the mutant."""
    steps: int
    """Steps of it after which the mutant was not where the verified spec is."""
    action: str
    """The last of those steps."""
    difference: str
    """The whole story of that difference."""


def real_mutant(world: RealElection, flaw: str, promise: str) -> RealMutant:
    """Try one mistake: the mutant must do what the flawed spec says, and not what the true one."""
    switches, steps = FLAWS[flaw].switches, until_told_apart(flaw, promise, world.size)
    patient = real_electors(world, switches)
    flawed = on_the_code(machine(FLAWS[flaw].spec, Broker=world.size), patient, steps)
    assert flawed.follows, "\n".join(flawed.difference)
    impatient = type("Impatient", (patient,), {"patience": _PATIENCE_S})
    with Held(ELECTION, impatient, Broker=world.size) as held:
        deeds = [Deed("offer", step.action.name, step.arguments) for step in steps]
        with pytest.raises(Differs) as found:
            redo(held, deeds)
    *_, last = found.value.deeds
    return RealMutant(
        flaw, promise, len(steps), len(found.value.deeds),
        f"{last.name}({', '.join(map(repr, last.arguments))})", str(found.value),
    )  # fmt: skip


def story(flaw: str, promise: str, size: int) -> Story:
    """The checker's shortest story of a flawed spec breaking a promise, at so many brokers."""
    spec, faults = FLAWS[flaw].spec, FLAWS[flaw].faults
    return Explorer(spec, {"Broker": size}, faults).run().violations[promise]


def until_told_apart(flaw: str, promise: str, size: int) -> list[Step]:
    """
    The checker's story, gone on with, where need be, up to what the verified spec does otherwise.

    A story of what can no longer come about ends where that is settled: before the mistake is made,
    if nothing leads around it.
    """
    flawed, verified = (machine(s, Broker=size) for s in (FLAWS[flaw].spec, ELECTION))

    def is_right(before: Spec, step: Step) -> bool:
        there = verified.state(flawed.numbers(before))
        after = verified.take(there, step.action.name, step.arguments)
        return after is not None and verified.numbers(after) == flawed.numbers(step.state)

    told = [*story(flaw, promise, size).steps]
    states = [flawed.initial(), *(step.state for step in told)]
    todo = deque([told])
    if not all(map(is_right, states, told)):
        return told
    known = {flawed.numbers(states[-1])}
    while todo:
        steps = todo.popleft()
        for step in flawed.steps(steps[-1].state):
            if step.action.kind is not ActionKind.FAULT and flawed.numbers(step.state) not in known:
                if not is_right(steps[-1].state, step):
                    return [*steps, step]
                known.add(flawed.numbers(step.state))
                todo.append([*steps, step])
    raise AssertionError(f"{flaw} does what is right, however its story goes on")
