"""
Numbers that no byte holds, and those about the limits of two bytes: every reading takes them alike.

A sum that wraps around silently is a wrong verdict. So each spec counts across a limit (254 … 257,
65,534 … 65,537), by one, by adding up and by counting down, and what each reading says of it is
what Python says.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest

from herdspec import Specification, UsageError, from_source
from herdspec.check.exploration.explore import Exploration, Explorer, explore
from herdspec.check.liveness.liveness import liveness
from herdspec.check.running.generated import GeneratedSpec
from herdspec.check.running.run import machine
from herdspec.check.simulation.search import search
from herdspec.check.simulation.simulate import simulate
from herdspec.engine.ground import LARGEST, Ground
from properties.engine.readings import Numbers, by_columns, compare_properties, compare_steps
from properties.engine.test_emitters import by_bits

LIMITS = (256, 65_536)
"""The first numbers that one byte, and two, do not hold."""
NEAR = (-2, -1, 0, 1)
TEXT = '''
from typing import Annotated
from herdspec import *

Narrow = Annotated[Nat, UpTo({limit} + 1)]

class T(Sort):
    """An element."""

class Meter(Spec):
    """It counts across a limit."""

    n: Nat = {limit} - 2
    narrow: Narrow = {limit} - 3
    last: Nat | None = None
    kept: dict[T, Narrow] = each({limit} - 1)
    few: Annotated[Nat, UpTo(3)] = 0
    done: bool = False

    @action(fair=weak)
    def count(self) -> None:
        """It counts."""
        require(self.narrow < {limit} + 1)
        self.narrow += 1
        self.done = self.narrow == {limit} + 1

    @action
    def double(self) -> None:
        """It adds up."""
        require(self.few == 0)
        self.few += 1
        self.n = self.n + self.narrow - {limit} + 3

    @action
    def overflow(self) -> None:
        """It would wrap around to a small number."""
        self.n = self.n + self.n + {limit}

    @action
    def fall(self, t: T) -> None:
        """It counts down."""
        require(self.few < 2 and self.n > {limit} - 2)
        self.kept[t] = self.n - 1 if self.n <= {limit} + 2 else 0
        self.last = self.n + 2 if self.narrow + self.kept[t] > 2 * {limit} - 5 else None
        self.few = 3 - self.few

@always
def the_sum_is_large(s: Meter) -> bool:
    """A sum of three is larger than two of them, and their difference small."""
    return s.n + s.narrow + {limit} > {limit} + s.n and s.n - s.narrow < 9

@always
def never_at_the_limit(s: Meter) -> bool:
    """It never passes the limit."""
    return s.n + 1 < {limit} + 2 and s.narrow <= {limit}

@sometimes
def it_is_kept(s: Meter) -> bool:
    """A number at the limit is kept."""
    return any(s.kept[t] == {limit} for t in T) and s.last is not None and s.last >= {limit}

@step
def it_falls_by_little(before: Meter, after: Meter) -> bool:
    """No number falls far."""
    return before.narrow <= after.narrow and after.n >= {limit} - 2

@eventually
def it_is_done(s: Meter) -> bool:
    """It comes to its end."""
    return s.done
'''
SIZES = {"T": 2}


@cache
def meter(limit: int) -> Specification:
    """The spec that counts across this limit."""
    return from_source(TEXT.replace("2 * {limit}", str(2 * limit)).format(limit=limit), "Meter")


@cache
def explored(limit: int, engine: str) -> Exploration:
    """Every state of it, a few beyond the limit."""
    return explore(meter(limit), SIZES, faults=0, bound=limit + 9, engine=engine, symmetry=False)


def states(ground: Ground, limit: int) -> list[Numbers]:
    """States with all choices of numbers near the limit."""
    initial = {key: slot.initial for key, slot in ground.slots.items()}
    found = []
    for n, narrow, kept, last in product((0, *NEAR), NEAR, NEAR, (-limit, *NEAR)):
        state = {**initial, ("n", ()): limit + n if n else 0, ("narrow", ()): limit + narrow}
        state |= {("kept", (0,)): limit + kept, ("last", ()): limit + last}
        found.append(tuple(state.values()))
    return found


@pytest.mark.parametrize("limit", LIMITS)
def test_readings_agree_near_the_limits(limit: int) -> None:
    """From states near a limit, Python, columns, emitted Python and bits take the same steps."""
    ex = Explorer(meter(limit), SIZES, 0, limit + 9, symmetry=False)
    rows = states(ex.ground, limit)

    compare_steps(ex, rows)
    compare_properties(ex, rows)
    some = rows[::23]
    assert [by_bits(ex, row) for row in some] == by_columns(ex, some)


@pytest.mark.parametrize("limit", LIMITS)
def test_the_engines_agree_on_large_numbers(limit: int) -> None:
    """NumPy and LLVM find the same states, drop the same, and tell the same stories."""
    one, two = explored(limit, "numpy"), explored(limit, "native")

    assert (one.states, one.generated, one.dropped) == (two.states, two.generated, two.dropped)
    assert one.dropped
    assert one.taken == two.taken
    for found in (one, two):
        assert set(found.violations) == {"never_at_the_limit"}
        assert set(found.witnesses) == {"it_is_kept"}
    assert {n: s.labels for n, s in one.violations.items()} == {
        n: s.labels for n, s in two.violations.items()
    }


def by_hand(limit: int) -> set[Numbers]:
    """All states within the bound, as the plain Python alone finds them."""
    made = Explorer(meter(limit), SIZES, 0, limit + 9, symmetry=False).machine
    tops = [slot.values for slot in made.ground.slots.values()]
    todo = [made.initial()]
    seen = {made.numbers(todo[0])}
    for state in todo:
        for step in made.steps(state):
            numbers = made.numbers(step.state)
            if numbers not in seen and all(n < top for n, top in zip(numbers, tops, strict=True)):
                seen.add(numbers)
                todo.append(step.state)
    return seen


@pytest.mark.parametrize("limit", LIMITS)
def test_a_search_by_hand_finds_the_same_states(limit: int) -> None:
    """The states are those that the plain Python finds, number by number."""
    ex = Explorer(meter(limit), SIZES, 0, limit + 9, symmetry=False)
    ex.run()

    assert {ex.packing.unpack(row) for row in ex.rows} == by_hand(limit)


@pytest.mark.parametrize("limit", LIMITS)
def test_search_and_walks_find_what_exploration_finds(limit: int) -> None:
    """Bounded search finds violations as near, walks find them; both keep to the bound."""
    expected = {n: len(s.steps) for n, s in explored(limit, "numpy").violations.items()}
    found = search(meter(limit), SIZES, faults=0, bound=limit + 9, depth=6)
    walked = simulate(meter(limit), SIZES, faults=0, bound=limit + 9, steps=30_000)

    assert {n: len(s.steps) for n, s in found.violations.items()} == expected
    assert walked.violations.keys() == expected.keys()
    assert walked.seen == ["it_is_kept"]
    assert walked.dropped


@pytest.mark.parametrize("limit", LIMITS)
def test_liveness_counts_to_a_large_number(limit: int) -> None:
    """A promise that a large number is reached is judged on the whole graph."""
    spec = meter(limit).drop("Endless", "overflow")

    assert liveness(spec, SIZES, faults=0, bound=limit + 9).held == ["it_is_done"]


def test_symmetry_leaves_no_large_number_out() -> None:
    """Blocks hold large numbers, too: up to renaming there are as many states as without."""
    whole = explored(65_536, "numpy")
    found = explore(meter(65_536), SIZES, faults=0, bound=65_545, symmetry=True)

    assert found.symmetric
    assert found.orbits == whole.states > found.states


@pytest.mark.parametrize("constant", [511, 512, 1023, 65_535, 65_536])
def test_a_search_takes_constants_that_no_slot_holds(constant: int) -> None:
    """A constant, or a sum, that is larger than all slots is no small number to bits."""
    spec = leap("Nat", constant, f"s.n + {constant} > 5 and s.n + s.n + s.n < {constant}")
    found = search(spec, {}, faults=0, bound=255, depth=2)

    assert found.violations == {}


# ── Where nothing is bounded ────────────────────────────────────────────────────────────────


def test_a_machine_takes_any_number() -> None:
    """A spec that is run by hand needs no bound: a `Nat` may start, and go, wherever it likes."""
    made = machine(meter(65_536), T=1)
    state: Any = made.initial()
    assert state.n == 65_534
    for _ in range(3):
        state.overflow()

    assert state.n == 15 * 65_536 - 16


def test_compiled_steps_take_any_number() -> None:
    """What replays traces starts with a large number, and adds to it."""
    compiled = GeneratedSpec(meter(65_536), {"T": 1})
    state = compiled.initial({})
    assert (state.narrow, state.kept[next(iter(state.kept))], state.last) == (65_533, 65_535, None)
    for _ in range(3):
        state = compiled.take(state, "overflow", ())

    assert state.n == 15 * 65_536 - 16


# ── Limits that are said ────────────────────────────────────────────────────────────────────

WIDE = '''
from typing import Annotated
from herdspec import *

class Wide(Spec):
    """It is wide."""

    n: {kind} = 0
    at: dict[Annotated[Nat, UpTo({entries} - 1)], bool] = each(False)

    @action
    def count(self) -> None:
        """It counts on from wherever nothing is noted."""
        require(not self.at[self.n])
        self.at[self.n] = True
        self.n = self.n + {step} if self.n < 2 else 0

@sometimes
def two_are_noted(s: Wide) -> bool:
    """Two are noted."""
    return s.at[0] and any(k > 0 and s.at[k] for k in range({entries}))
'''


def wide(kind: str, entries: int, step: int) -> Specification:
    """A spec with a map from so many numbers."""
    return from_source(WIDE.format(kind=kind, entries=entries, step=step), "Wide")


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_a_map_from_many_numbers_is_looked_up(engine: str) -> None:
    """A map from more than 256 numbers is read and written at a number that a step computes."""
    spec = wide("Annotated[Nat, UpTo(999)]", 1000, 700)
    found = explore(spec, {}, faults=0, engine=engine)

    assert (found.states, len(found.witnesses["two_are_noted"].steps)) == (3, 2)


def test_a_map_with_too_many_entries_is_refused() -> None:
    """A map has a slot for each entry: more than 16,384 are refused, with what to do."""
    with pytest.raises(UsageError, match=r"at is from 65,536 numbers, more than 16,384: take sm"):
        explore(wide("Annotated[Nat, UpTo(9)]", 65_536, 1), {}, faults=0)


LEAP = """
from typing import Annotated
from herdspec import *

class Leap(Spec):
    \"\"\"It leaps.\"\"\"

    n: {kind} = 0

    @action
    def leap(self) -> None:
        \"\"\"It leaps.\"\"\"
        self.n = self.n + self.n + {step} if self.n >= 0 else {step}

@always
def it_is_zero_or_large(s: Leap) -> bool:
    \"\"\"It is zero or large.\"\"\"
    return {claim}
"""


def leap(kind: str, step: int, claim: str = "s.n + s.n == 0 or s.n + s.n > s.n") -> Specification:
    """A spec that leaps so far."""
    return from_source(LEAP.format(kind=kind, step=step, claim=claim), "Leap")


def test_a_number_that_is_too_large_is_refused() -> None:
    """A bound, a range or a constant that 31 bits do not hold is refused, with what to do."""
    large = LARGEST + 1
    with pytest.raises(UsageError, match=r"n starts with 0 .* by at most 2,147,483,647"):
        explore(leap("Nat", 1), {}, faults=0, bound=large)
    with pytest.raises(UsageError, match=r"n starts with 0 .* by at most 2,147,483,647"):
        explore(leap(f"Annotated[Nat, UpTo({large})]", 1), {}, faults=0)
    with pytest.raises(UsageError, match=rf"speaks of the number {large}, .* take a smaller one"):
        explore(leap("Nat", large), {}, faults=0, bound=9)


@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize("step", [LARGEST, LARGEST - 1, LARGEST // 3])
def test_the_largest_number_does_not_wrap_around(engine: str, step: int) -> None:
    """Beyond the largest bound there is is beyond the bound, in every engine."""
    found = explore(leap("Nat", step), {}, faults=0, bound=LARGEST, engine=engine)

    assert (found.states, found.dropped, found.violations) == (2 + (step < 1 << 30), 1, {})
