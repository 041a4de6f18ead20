"""
Initial states by columns: those of the plain Python, in its order, whatever the choices are.

Every reading that begins somewhere begins there: exploration, walks, liveness and bounded search.
"""

from __future__ import annotations

from time import thread_time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from herdspec import Specification, UsageError, from_source
from herdspec.check.exploration.explore import Explorer, explore
from herdspec.check.exploration.initial import Initial
from herdspec.check.proof.prove import prove
from herdspec.check.running.run import Machine, machine
from herdspec.check.simulation.search import search
from herdspec.check.simulation.simulate import simulate, starts_of
from herdspec.engine import starts as engine_starts
from properties.engine.readings import Numbers
from properties.language.random_specs import sources
from properties.published.rings.token_ring import TOKEN_RING

TEXT = '''
from enum import Enum
from typing import Annotated
from herdspec import *

class T(Sort):
    """An element."""

class Color(Enum):
    RED = "red"
    GREEN = "green"

class Begun(Spec):
    """It begins in many ways."""

    n: Nat = 1
    low: Annotated[Nat, UpTo(300)] = 7
    who: T | None = None
    up: set[T] = empty()
    hue: dict[T, Color] = each(Color.RED)
    sent: Annotated[list[T], Capacity(1)] = empty()

    @initial
    def one_way(self, low: Annotated[Nat, UpTo(300)], up: set[T], hue: dict[T, Color]) -> None:
        """By a map and a set."""
        require(low > 255 or low == 3)
        self.low = low
        self.up = up
        self.hue = hue
        if any(t in up and hue[t] == Color.GREEN for t in T):
            self.n = low - 254 if low > 254 else 0

    @initial
    def another(self, who: T, color: Color, twice: bool) -> None:
        """By one of each."""
        self.who = who
        self.hue[who] = color
        self.sent.append(who)
        if twice:
            self.sent.append(who)

    @action
    def go(self, t: T) -> None:
        """It goes on."""
        require(self.who is None)
        self.who = t

@axiom
def not_all_are_up(s: Begun) -> bool:
    """Somebody is not up, or the number is not 3."""
    return any(t not in s.up for t in T) or s.low != 3

@always
def low_is_not_299_beside_green(s: Begun) -> bool:
    """No green one is at 299."""
    return s.low != 299 or all(s.hue[t] == Color.RED for t in T) or s.who is None
'''
BEGUN = from_source(TEXT, "Begun")
BOUND = 40


def by_hand(machine: Machine) -> tuple[list[Numbers], int]:
    """The initial states within the bounds as the plain Python makes them, and how many are not."""
    tops = [slot.values for slot in machine.ground.slots.values()]
    made = [machine.numbers(state) for state in machine.starts()]
    within = [m for m in made if all(n < top for n, top in zip(m, tops, strict=True))]
    return within, len(made) - len(within)


def compare(spec: Specification, sizes: dict[str, int], bound: int) -> None:
    """Columns make the initial states that the plain Python makes, in the same order."""
    ex = Explorer(spec, sizes, 2, bound, symmetry=False)
    expected, dropped = by_hand(ex.machine)
    initial = Initial(ex.machine)
    found = [tuple(row) for begun in initial for row in begun.numbers(ex.ground).tolist()]

    assert found == expected
    assert initial.dropped == dropped
    packed = [ex.packing.pack(numbers) for numbers in expected]
    rows = [begun.rows(ex.packing) for begun in initial]
    assert (np.concatenate(rows) == np.concatenate(packed)).all() if rows else not packed


def test_maps_sets_enums_and_numbers_are_chosen() -> None:
    """Choices of all kinds make the states of the plain Python; an axiom chooses among them."""
    compare(BEGUN, {"T": 2}, BOUND)
    compare(BEGUN, {"T": 1}, 300)


@pytest.mark.parametrize("at_once", [7, 64])
def test_it_makes_no_difference_how_many_are_looked_at(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Choices that are looked at in portions make the same states."""
    monkeypatch.setattr("herdspec.check.exploration.initial.AT_ONCE", at_once)

    compare(BEGUN, {"T": 2}, BOUND)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(text=sources())
def test_random_specs_begin_as_the_plain_python_does(text: str) -> None:
    """Of a random spec, the initial states are those of the plain Python."""
    spec = from_source(text, "Random")

    compare(spec, dict.fromkeys(spec.sorts, 2), 3)


@pytest.mark.parametrize("symmetry", [None, False])
def test_a_story_begins_with_the_least_choice(symmetry: bool | None) -> None:
    """Of several initial states that a story may begin with it is the first, in every engine."""
    told = []
    for engine in ("numpy", "native"):
        found = explore(BEGUN, {"T": 2}, faults=0, bound=300, symmetry=symmetry, engine=engine)
        assert found.dropped == 2 * 2  # a message too many
        story = found.violations["low_is_not_299_beside_green"]
        told.append((story.initial, story.labels))
    looked = search(BEGUN, {"T": 2}, faults=0, bound=300, depth=1)

    assert told[0] == told[1]
    assert vars(told[0][0])["low"] == 299
    assert len(looked.violations["low_is_not_299_beside_green"].steps) == len(told[0][1])


def test_walks_begin_in_every_initial_state() -> None:
    """Walks begin with each choice, and what they find begins in one of them."""
    machine = Explorer(BEGUN, {"T": 2}, 0, 300).machine
    found = simulate(BEGUN, {"T": 2}, faults=0, bound=300, steps=3_000)

    assert [tuple(row) for row in starts_of(machine).tolist()] == by_hand(machine)[0]
    assert "low_is_not_299_beside_green" in found.violations


def test_many_initial_states_take_no_time() -> None:
    """46,656 initial states are there in a fraction of a second, and begin a story as well."""
    ex = Explorer(TOKEN_RING, {}, 0, 1)
    began = thread_time()
    rows = np.concatenate([begun.rows(ex.packing) for begun in ex.teller.initial])
    last = ex.teller.start(tuple(rows[-1].tolist()))
    seconds = thread_time() - began

    assert len(rows) == 6**6
    assert set(vars(last)["counter"].values()) == {5}
    assert seconds < 1
    assert len(starts_of(ex.machine)) == 6**6
    assert search(TOKEN_RING, {}, faults=0, depth=1).violations == {}


def test_a_start_without_a_meaning_is_refused_with_its_reason() -> None:
    """An initial choice that looks at what is not there: which one, at what, and where."""
    spec = from_source(TEXT.replace("self.hue[who] = color", "self.hue[self.who] = color"), "Begun")
    explore(spec, {"T": 2}, faults=0, bound=300)
    wrong = TEXT.replace("self.who = who\n        self.hue[who]", "self.hue[self.who]")
    broken = from_source(wrong, "Begun")
    why = r"Begun cannot begin by another\(t1, .*by `self\.hue\[self\.who\] = color`"

    with pytest.raises(UsageError, match=why):
        explore(broken, {"T": 2}, faults=0, bound=300)
    with pytest.raises(UsageError, match=why):
        list(machine(broken, T=2).starts())
    with pytest.raises(UsageError, match=why):
        search(broken, {"T": 2}, faults=0, depth=1, bound=300)
    assert not prove(broken, look=2).proved


def test_too_many_choices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """More choices than can be looked at are refused, with what to do."""
    monkeypatch.setattr(engine_starts, "MOST_STARTS", 1_000)

    with pytest.raises(UsageError, match=r"one_way has more than 1,000 choices .* smaller sizes"):
        explore(BEGUN, {"T": 2}, faults=0, bound=300)
