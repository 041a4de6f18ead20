"""What is possible is told quickly, as by taking the step; arguments are solved for."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof.conformance.adapter import Adapter
from herdproof.conformance.holding.frozen import frozen, may
from herdproof.conformance.holding.possible import Possible, turned
from herdproof.conformance.holding.solve import Solver
from herdspec.check.running.run import Machine, machine
from herdspec.language.specification import Specification
from herdspec.language.surface import Spec, sizes_of_sorts
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR
from herdspec.protocols.contract.properties import CONTRACT
from herdspec.protocols.election.properties import ELECTION
from properties.conformance.plans import PLANS, Member, Plans

SPECS = pytest.mark.parametrize(
    "spec", [CENTRAL_COORDINATOR, CONTRACT, ELECTION], ids=lambda spec: spec.name
)


def small(spec: Specification) -> Machine:
    """Two of everything."""
    return machine(spec, **dict.fromkeys(spec.sorts, 2))


def states(of: Machine, count: int) -> Iterator[tuple[Spec, list[bool]]]:
    """States along a random walk, each with which of the machine's choices it takes."""
    state, random = of.initial(), Random(1)
    choices = [(action.name, arguments) for action, arguments in of.choices]
    for _ in range(count):
        afters = [of.take(state, *choice) for choice in choices]
        yield state, [after is not None for after in afters]
        state = random.choice([after for after in afters if after is not None] or [state])


@SPECS
def test_what_is_possible_is_what_can_be_taken(spec: Specification) -> None:
    """Without a copy of the state, guards say the same as the step itself."""
    of = small(spec)
    possible = Possible(of, Adapter)

    for state, taken in states(of, 10):
        with sizes_of_sorts(of.sizes):
            assert [possible.takes(state, *choice) for choice in of.choices] == taken


@SPECS
def test_a_frozen_state_is_the_same_and_stays_it(spec: Specification) -> None:
    """A frozen state equals its own; no action changes it, whatever it tries."""
    of = small(spec)

    for state, _ in states(of, 5):
        ice = frozen(state)
        with sizes_of_sorts(of.sizes):
            for action, arguments in of.choices:
                may(ice, of, action.name, arguments)
        assert ice.__dict__ == state.__dict__


@SPECS
def test_arguments_that_are_solved_for_are_possible_and_are_found_if_there_are_some(
    spec: Specification,
) -> None:
    """Entry by entry, the solver finds arguments where there are some, and says where not."""
    of, random = small(spec), Random(2)
    solvers = {action.name: Solver(of, action) for action in of.spec.actions}
    solved = 0

    for state, taken in states(of, 8):
        names = {a.name for (a, _), ok in zip(of.choices, taken, strict=True) if ok}
        for action in of.spec.actions:
            found = solvers[action.name].solve(state, {}, random)
            if isinstance(found, tuple):
                solved += 1
                assert of.take(state, action.name, of.arguments(action, found)) is not None
            else:
                assert found is False
                assert action.name not in names

    assert solved > 8


def test_what_is_given_is_kept_and_the_rest_is_solved_for() -> None:
    """With some parameters given, the others are found; where those rule all out, none are."""
    of = machine(PLANS, Part=9, Member=4)
    state: Plans = of.take(of.initial(), "join", (Member(2),))  # type: ignore[assignment]
    solver = Solver(of, of.spec.action("plan"))

    found = solver.solve(state, {"number": 4_000}, Random(1))

    assert found == (4_000, (2,) * 9)
    assert solver.solve(state, {"number": 0}, Random(1)) is False
    assert solver.solve(state, {"whom": (2,) * 8 + (1,)}, Random(1)) is False


def test_where_not_all_numbers_were_tried_nothing_is_said() -> None:
    """That no number of very many was found is unknown, not impossible."""
    of = machine(PLANS, Part=2, Member=1)
    state: Plans = of.take(of.initial(), "join", (Member(0),))  # type: ignore[assignment]
    state.number = 5_000  # there is no larger one

    assert Solver(of, of.spec.action("plan")).solve(state, {}, Random(1)) is None


@given(st.integers(0, 40), st.integers(0, 1 << 24))
def test_a_turn_comes_to_each_thing_once(count: int, number: int) -> None:
    """Whatever the number, all things come, and none twice."""
    assert sorted(turned(range(count), number)) == [*range(count)]
