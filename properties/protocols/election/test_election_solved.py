"""The electors' cores in states of the election that z3 picks, at five brokers and more."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import pytest

from herdproof.conformance.adapter import Adapter
from herdproof.conformance.holding.held import Held
from herdproof.conformance.solver.found import NOT_LOADABLE, Solved
from herdproof.conformance.solver.solved import solved
from herdproof.protocols.election.elector import Effect, Elector
from herdproof.protocols.election.gate import Shell
from herdproof.protocols.election.held.adapter import SimulatedElectors
from herdproof.protocols.election.simulated import SimulatedElection
from herdspec.check.proof.prove import Proof, prove
from herdspec.check.running.run import Machine, machine
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.election.spec import Broker, Election

pytestmark = pytest.mark.xdist_group("election solved")


@cache
def proof() -> Proof:
    """What is proved of the election."""
    return prove(ELECTION)


def run(adapter: type[Adapter], most: int, **more: Any) -> Solved:
    """States of five brokers, so many for each case."""
    return solved(
        ELECTION, adapter, Broker=5, most=most, seconds=300, looking=0, proof=proof(), **more
    )


class HoldsOn(Elector):
    """Leads once it has won, though it resigned in the meantime."""

    def _hold(self, epoch: int) -> list[Effect]:
        self.token = epoch
        return self._lead(epoch) + self._finish()


class WorldThatHoldsOn(SimulatedElection):
    """A world of such electors."""

    def _start(self, name: str) -> tuple[Shell, int]:
        shell, session = super()._start(name)
        shell.core.__class__ = HoldsOn
        return shell, session


class WrongElectors(SimulatedElectors):
    """Such electors, held to the spec."""

    world_of: ClassVar[Callable[[int], SimulatedElection]] = WorldThatHoldsOn


def test_the_cores_do_as_the_spec_does_in_states_that_are_picked() -> None:
    """
    All states are loaded but those of lagging servers, to which it is led, and none differs.

    What nobody can promise, that one coordinator leads at a time, is not assumed.
    """
    found = run(SimulatedElectors, most=3)

    assert found.standing == "agrees", "\n".join(found.lines)
    assert {t.case.action.name for t in found.tallies if t.ended} == {"catch_up"}
    assert {t.ended for t in found.tallies if t.ended} == {NOT_LOADABLE}
    assert all(t.loaded == t.picked == 3 for t in found.tallies if not t.ended)
    assert all(t.led for t in found.tallies if t.ended)
    assert found.states > 90
    assert found.unseen == ()
    assert set(found.known.left_out) == {"one_coordinator_at_a_time"}


def test_a_wrong_core_differs_with_its_story() -> None:
    """Who leads after it has resigned differs where it handles its victory; a run comes there."""
    found = run(WrongElectors, most=3)

    assert found.standing == "differs", "\n".join(found.lines)
    actions = {q.case.action.name for q in found.differences}
    assert "handle_create" in actions
    assert all("elsewhere" in q.walked for q in found.differences)


@pytest.mark.parametrize("steps", [0, 60])
def test_states_that_are_reached_can_be_loaded(steps: int) -> None:
    """A state on the way of a run, loaded, is seen as that state; the step from there is taken."""
    election = machine(ELECTION, Broker=3)
    with Held(ELECTION, SimulatedElectors, Broker=3) as held:
        for state, action, arguments in walked(election, steps):
            held.put(vars(state))
            assert held.offer(action, *arguments)


def walked(election: Machine, steps: int) -> list[tuple[Election, str, tuple[Broker, ...]]]:
    """States along a run without lagging servers, each with a step that it allows."""
    state: Any = election.initial()
    found = []
    for number in range(steps + 1):
        possible = [s for s in election.steps(state) if s.action.name != "fall_behind"]
        step = possible[number * 7 % len(possible)]
        found.append((state, step.action.name, step.arguments))
        state = step.state
    return found
