"""
A spec led along lines: silent steps, steps under way, promises; in plain Python and compiled.

All of it on a lock whose leases expire (`locks.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from herdspec.check.conformance.follow import (
    Follower,
    PlainSteps,
    StepConstraint,
    Steps,
    TooManyStates,
)
from herdspec.check.conformance.invariants import Invariants, invariants_of
from herdspec.check.running.generated import GeneratedSpec
from herdspec.check.running.run import Machine, machine
from herdspec.language.specification import Specification
from herdspec.language.surface import sizes_of_sorts
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.group_protocol.properties import GROUP_PROTOCOL
from herdspec.protocols.self_rebalancing.properties import SELF_REBALANCING
from properties.locks import EXPIRES_UNSEEN, LOCK, spec


def steps_of(how: str, text: str, clients: int = 2) -> Steps:
    """The lock's steps, taken in one of the two ways."""
    if how == "compiled":
        return GeneratedSpec(spec(text), {"Client": clients})
    return PlainSteps(machine(spec(text), Client=clients))


@pytest.fixture(name="how", params=["plain", "compiled"])
def way(request: pytest.FixtureRequest) -> str:
    """How steps are taken."""
    return str(request.param)


@pytest.fixture(name="lock")
def follower(how: str) -> Iterator[Follower]:
    """A lock at its beginning."""
    steps = steps_of(how, LOCK)
    with sizes_of_sorts(steps.machine.sizes):
        yield Follower(steps, [steps.initial({})])


def test_a_silent_step_may_come_before_a_line(lock: Follower) -> None:
    """The lease of the first has expired before the second got it: nobody told, and it counts."""
    one, two = lock.steps.machine.elements("Client")
    assert lock.follow(StepConstraint([[("grant", (one,))]])) is None

    assert lock.follow(StepConstraint([[("grant", (two,))]])) is not None
    assert lock.follow(StepConstraint([[("grant", (two,))]], silent=["expire"])) is None

    assert lock.silently == {"expire"}
    assert [s.holder for s in lock.states] == [two]


def test_a_silent_step_that_is_put_off_is_supposed_only_where_it_is_needed(lock: Follower) -> None:
    """What is put off is noted: whoever finds no way has to look again without."""
    one, two = lock.steps.machine.elements("Client")
    lock.put_off = frozenset({"expire"})
    lock.follow(StepConstraint([[("grant", (one,))]], silent=["expire"]))
    assert len(lock.states) == 1
    assert lock.has_put_off

    assert lock.follow(StepConstraint([[("grant", (two,))]], silent=["expire"])) is None
    assert lock.silently == {"expire"}


def test_a_step_under_way_counts_at_any_moment_until_its_end(lock: Follower) -> None:
    """A grant that was asked for before a release and answered after the next grant's end."""
    one, two = lock.steps.machine.elements("Client")
    late = StepConstraint([[("grant", (two,))]])
    lock.begin(7, late)
    for action, client in (("grant", one), ("release", one)):
        assert lock.follow(StepConstraint([[(action, (client,))]])) is None
    assert (
        lock.follow(StepConstraint([[]], lambda s: [] if s.holder == two else ["not yet"])) is None
    )

    assert lock.follow(late, ends=7) is None

    assert [s.holder for s in lock.states] == [two]
    assert [c.early for c in lock.carried] == [frozenset()]


def test_a_step_that_never_was_possible_while_it_was_under_way_is_missed(lock: Follower) -> None:
    """From its beginning to its end the other one had the lease."""
    one, two = lock.steps.machine.elements("Client")
    lock.follow(StepConstraint([[("grant", (one,))]]))
    late = StepConstraint([[("grant", (two,))]])
    lock.begin(7, late)

    missed = lock.follow(late, ends=7)

    assert missed is not None
    assert missed.kind == "guard"


def test_more_states_than_may_be_carried_are_no_verdict(how: str) -> None:
    """Nine clients come and go silently, which makes ten states, and more than four."""
    steps = steps_of(how, LOCK, clients=9)
    with sizes_of_sorts(steps.machine.sizes):
        lock = Follower(steps, [steps.initial({})], cap=4)
        with pytest.raises(TooManyStates):
            lock.follow(StepConstraint([[]], silent=["grant", "release"]))


@pytest.mark.parametrize("text", [LOCK, EXPIRES_UNSEEN], ids=["kept", "broken"])
def test_promises_are_evaluated_in_every_state(how: str, text: str) -> None:
    """The line after which a promise is broken is told, with the promise and the state."""
    steps = steps_of(how, text)
    with sizes_of_sorts(steps.machine.sizes):
        promises = Invariants(steps, invariants_of(steps.machine.spec))
        lock = Follower(steps, [steps.initial({})], promises=promises)
        one, two = steps.machine.elements("Client")
        calls = [("grant", (one,)), ("expire", (one,)), ("grant", (two,))]
        found = [lock.follow(StepConstraint([[call]])) for call in calls]

    assert found[:2] == [None, None]
    if text is LOCK:
        assert found[2] is None
    else:
        assert found[2] is not None
        assert found[2].kind == "promise"
        assert found[2].differences[0].startswith("one_holder: At most one client holds the lease.")
        assert "in the state Lock(holder=client2" in found[2].differences[1]


def test_a_promise_that_may_be_broken_is_a_doubt(how: str) -> None:
    """Where it is open whether the second got the lease, it is open whether two have it."""
    steps = steps_of(how, EXPIRES_UNSEEN)
    with sizes_of_sorts(steps.machine.sizes):
        promises = Invariants(steps, invariants_of(steps.machine.spec))
        lock = Follower(steps, [steps.initial({})], promises=promises)
        one, two = steps.machine.elements("Client")
        lock.follow(StepConstraint([[("grant", (one,)), ("expire", (one,))]]))
        assert not lock.doubts
        assert lock.follow(StepConstraint([[("grant", (two,))], []], every=True)) is None
        assert lock.doubts

        assert (
            lock.follow(StepConstraint([[]], lambda s: ["somebody has it"] if s.holder else []))
            is None
        )
        assert not lock.doubts


def test_a_lemma_counts_and_what_is_known_to_fail_does_not() -> None:
    """Of the coordinator's spec, what is about single states: promises and lemmas."""
    names = {p.name for p in invariants_of(CENTRAL_COORDINATOR, {"one_coordinator"})}

    assert {"exclusive", "books_are_true"} <= names
    assert "one_coordinator" not in names


def test_both_ways_find_the_same_broken_along_walks() -> None:
    """Along random walks of a spec that breaks its promise, after each step."""
    made = spec(EXPIRES_UNSEEN)
    plain, compiled = PlainSteps(machine(made, Client=3)), GeneratedSpec(made, {"Client": 3})
    of: Machine = plain.machine
    kept = [Invariants(steps, invariants_of(of.spec)) for steps in (plain, compiled)]
    chance, seen = Random(1), set()
    for _ in range(30):
        state: Any = plain.initial({})
        for _ in range(12):
            step = chance.choice(list(of.steps(state)))
            call = step.action.name, step.arguments
            with sizes_of_sorts(of.sizes):
                found = [
                    bool(kept[0].after(*call, state, step.state)),
                    bool(kept[1].after(*call, compiled.of(state), compiled.of(step.state))),
                ]
            assert found[0] == found[1]
            seen.add(found[0])
            if found[0]:
                break
            state = step.state
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("made", "elements"),
    [
        (CENTRAL_COORDINATOR, {"Broker": 2, "Member": 2, "Partition": 2}),
        (ELECTION, {"Broker": 2}),
        (GROUP_PROTOCOL, {"Broker": 1, "Member": 2, "Partition": 1}),
        (SELF_REBALANCING, {"Member": 2, "Partition": 2}),
    ],
    ids=lambda of: of.name if isinstance(of, Specification) else "",
)
def test_a_plain_step_leaves_the_state_before_as_it_was(
    made: Specification, elements: dict[str, int]
) -> None:
    """Though what the action leaves alone is shared; along a random walk, of all its choices."""
    of = machine(made, **{sort: elements[sort] for sort in made.sorts})
    plain, chance = PlainSteps(of), Random(1)
    state: Any = of.initial()
    with sizes_of_sorts(of.sizes):
        for _ in range(40):
            before = state.copy()

            taken = {
                (action.name, repr(arguments)): plain.take(state, action.name, arguments)
                for action, arguments in of.choices
            }

            assert state == before
            steps = [step for step in of.steps(state) if not step.undefined]
            for step in steps:
                assert taken[step.action.name, repr(step.arguments)] == step.state
            if not steps:
                break
            state = chance.choice(steps).state
