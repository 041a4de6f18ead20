"""The *explore* reading: counts known from elsewhere, shortest stories, and nothing hidden."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from herdspec import (
    Nat,
    Sort,
    Spec,
    UsageError,
    action,
    each,
    fault,
    recoverable,
    require,
    specification,
)
from herdspec.check.exploration.explore import Exploration, explore
from herdspec.check.exploration.visited import Visited
from herdspec.engine.columns import Words
from herdspec.protocols.election.properties import ELECTION
from properties.specs import (
    LOCK_SERVER,
    TWO_PHASE_COMMIT,
    Counter,
    it_can_get_to_three,
    it_can_get_to_zero,
    it_counts_by_one,
    it_gets_to_four,
    it_gets_to_three,
    it_never_counts_to_two,
    never_above_one,
    never_above_three,
)

COUNTER = specification(
    Counter, never_above_three, it_gets_to_three, it_can_get_to_three, it_counts_by_one
)


def count(*promises: object, bound: int = 3, memory_bytes: int = 1 << 30) -> Exploration:
    """Explore the counter, held to these properties."""
    spec = specification(Counter, *promises)  # type: ignore[arg-type]
    return explore(spec, {}, faults=0, bound=bound, memory_bytes=memory_bytes)


# ── Counts ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("managers", "states"), [(3, 288), (5, 8_832), (7, 296_448)])
def test_two_phase_commit_has_the_states_that_other_checkers_count(
    managers: int, states: int
) -> None:
    """Two-phase commit has as many states as TLC and Stateright count."""
    found = explore(TWO_PHASE_COMMIT, {"Manager": managers}, faults=0, symmetry=False)

    assert (found.states, found.orbits) == (states, states)
    assert found.complete
    assert not found.violations
    assert not found.missing


def test_two_phase_commit_generates_as_many_states_as_elsewhere() -> None:
    """With seven resource managers, 2,744,706 states are generated (the initial one is one)."""
    found = explore(TWO_PHASE_COMMIT, {"Manager": 7}, faults=0, symmetry=False)

    assert found.generated + 1 == 2_744_706
    assert sum(found.taken.values()) == found.generated


@pytest.mark.parametrize(
    ("managers", "representatives", "states"), [(3, 80, 288), (5, 314, 8_832), (7, 920, 296_448)]
)
def test_symmetry_is_exact(managers: int, representatives: int, states: int) -> None:
    """One representative is left of each orbit, and the orbits make up all states."""
    found = explore(TWO_PHASE_COMMIT, {"Manager": managers}, faults=0)

    assert found.symmetric
    assert (found.states, found.orbits) == (representatives, states)


@pytest.mark.parametrize(("brokers", "faults"), [(2, 2), (3, 1)])
def test_the_election_is_the_same_with_and_without_symmetry(brokers: int, faults: int) -> None:
    """Symmetry changes no verdict, no length of a story, no depth, and no count of all states."""
    plain = explore(ELECTION, {"Broker": brokers}, faults=faults, symmetry=False)
    found = explore(ELECTION, {"Broker": brokers}, faults=faults)

    assert (found.orbits, found.depth) == (plain.states, plain.depth)
    assert found.states < plain.states
    assert lengths(found) == lengths(plain)
    assert found.missing == plain.missing
    assert (found.deadlock is None) == (plain.deadlock is None)


def lengths(found: Exploration) -> dict[str, int]:
    """The length of every story."""
    return {n: len(s.steps) for n, s in [*found.violations.items(), *found.witnesses.items()]}


class Child(Sort):
    """A child with a parent."""


class Counted(Sort):
    """Somebody who is asked."""


class Tree(Spec):
    """Children choose parents: a map whose values are elements."""

    parent: dict[Child, Child | None] = each(None)

    @action
    def choose(self, a: Child, b: Child) -> None:
        """{a} gets the parent {b}."""
        require(self.parent[a] is None and a != b)
        self.parent[a] = b


class Couple(Spec):
    """Two sorts at once."""

    asked: dict[Child, bool] = each(False)
    answered: dict[Counted, bool] = each(False)

    @action
    def ask(self, a: Child, c: Counted) -> None:
        """{a} asks {c}."""
        self.asked[a] = True
        self.answered[c] = True


def test_where_symmetry_would_not_be_exact_it_is_visibly_not_used() -> None:
    """With a map from elements to elements every state counts, and the result says so."""
    found = explore(specification(Tree), {"Child": 3}, faults=0)

    assert not found.symmetric
    assert (found.states, found.orbits) == (3**3, 3**3)


def test_of_two_sorts_one_is_renamed() -> None:
    """With two sorts, states are taken up to renaming of the larger one, which is exact."""
    found = explore(specification(Couple), {"Child": 3, "Counted": 2}, faults=0)

    assert found.symmetric
    assert (found.states, found.orbits) == (1 + 3 * 3, 1 + 7 * 3)


def test_symmetry_that_would_lose_states_is_refused() -> None:
    """Who asks for symmetry where it is not exact is told why it cannot be had."""
    with pytest.raises(UsageError, match=r"parent maps Child to Child; .* or off"):
        explore(specification(Tree), {"Child": 3}, faults=0, symmetry=True)


def test_symmetry_that_is_exact_can_be_asked_for() -> None:
    """Who asks for symmetry where it is exact gets it."""
    assert explore(TWO_PHASE_COMMIT, {"Manager": 3}, faults=0, symmetry=True).states == 80


# ── Stories ─────────────────────────────────────────────────────────────────────────────────


def test_a_violation_has_a_shortest_story() -> None:
    """The story of a violation is as short as can be, and says each step in the spec's words."""
    found = count(never_above_one, never_above_three)

    assert list(found.violations) == ["never_above_one"]
    assert found.violations["never_above_one"].labels == ["tick()", "tick()"]
    assert found.violations["never_above_one"].lines == [
        "  1. It counts.  [tick()]", "       n: 0 → 1",
        "  2. It counts.  [tick()]", "       n: 1 → 2",
    ]  # fmt: skip


def test_a_broken_step_promise_ends_its_story_with_that_step() -> None:
    """The last step of the story of a step promise is the one that breaks it."""
    found = count(it_counts_by_one, it_never_counts_to_two)

    assert list(found.violations) == ["it_never_counts_to_two"]
    story = found.violations["it_never_counts_to_two"]
    assert [vars(s.state)["n"] for s in story.steps] == [1, 2]


def test_a_deadlock_has_a_story() -> None:
    """A state without a next step is found, with the way to it."""
    found = count()

    assert found.deadlock is not None
    assert found.deadlock.labels == ["tick()"] * 3


def test_who_can_go_on_is_in_no_deadlock() -> None:
    """A system that can always go on has no deadlock."""
    assert explore(LOCK_SERVER, {"Client": 2}, faults=1).deadlock is None


def test_the_depth_is_the_length_of_the_longest_shortest_path() -> None:
    """The depth counts steps: three ticks lead to the last state."""
    assert count().depth == 3


# ── Possibilities and recovery ──────────────────────────────────────────────────────────────


def test_what_is_never_seen_is_missing() -> None:
    """A possibility without a witness is missing; one with a witness has a story."""
    found = count(it_gets_to_three, it_gets_to_four, bound=5)

    assert found.missing == ["it_gets_to_four"]
    assert found.witnesses["it_gets_to_three"].labels == ["tick()"] * 3


def test_what_cannot_be_recovered_has_a_story() -> None:
    """A state from which there is no way back is told; one that all states lead to is not."""
    found = count(it_can_get_to_three, it_can_get_to_zero)

    assert list(found.violations) == ["it_can_get_to_zero"]
    assert found.violations["it_can_get_to_zero"].labels == ["tick()"]


class Lamp(Spec):
    """A lamp that only a fault turns on again."""

    lit: bool = True

    @action
    def burn_out(self) -> None:
        """It burns out."""
        self.lit = False

    @action(kind=fault)
    def relight(self) -> None:
        """Lightning strikes, and it is lit."""
        self.lit = True


def test_a_fault_recovers_nothing() -> None:
    """What only a fault could bring about again cannot be recovered."""

    @recoverable
    def it_is_lit(s: Lamp) -> bool:
        """It is lit."""
        return s.lit

    found = explore(specification(Lamp, it_is_lit), {}, faults=1)

    assert found.violations["it_is_lit"].labels == ["burn_out()"]


# ── Bounds: what is cut is said ─────────────────────────────────────────────────────────────


def test_successors_beyond_the_bound_are_counted_and_nothing_is_concluded() -> None:
    """A successor that is dropped is counted; then the search is not complete, recovery unknown."""
    found = count(never_above_three, it_can_get_to_three, it_gets_to_three, bound=2)

    assert (found.states, found.dropped) == (3, 1)
    assert not found.complete
    assert found.undecided == ["it_can_get_to_three"]
    assert found.missing == ["it_gets_to_three"]
    assert not found.violations
    assert found.deadlock is None


def test_an_optional_number_is_bounded_too() -> None:
    """A number that may be absent is dropped beyond the bound, and spoils no other field."""

    class Ticket(Spec):
        """A ticket is drawn, and another."""

        last: Nat | None = None
        n: Nat = 0
        seen: bool = False

        @action
        def draw(self) -> None:
            """It is drawn."""
            self.last = self.n + 1
            self.n = self.n + 1

    found = explore(specification(Ticket), {}, faults=0, bound=2)

    assert (found.states, found.dropped, found.depth) == (3, 1, 2)


def test_sums_do_not_wrap_around() -> None:
    """A sum beyond a byte is beyond the bound, and not a small number again."""

    class Meter(Spec):
        """A meter that jumps."""

        n: Nat = 0

        @action
        def jump(self) -> None:
            """It jumps."""
            self.n = self.n + 250 + 3

        @action
        def go(self) -> None:
            """It goes."""
            require(self.n < 300)
            self.n = self.n + 4

    found = explore(specification(Meter), {}, faults=0, bound=8)

    assert (found.states, found.dropped) == (3, 1 + 3)


@pytest.mark.parametrize("bound", [1 << 31, 4])
def test_a_bound_that_cannot_be_is_refused(bound: int) -> None:
    """A bound that 31 bits do not hold, or below a start value, is refused with what to do."""

    class High(Spec):
        """It starts high."""

        n: Nat = 5

    with pytest.raises(UsageError, match=r"n starts with 5 .* bound it"):
        explore(specification(High), {}, faults=0, bound=bound)


def test_a_sort_without_a_size_is_refused() -> None:
    """Every sort needs a size."""
    with pytest.raises(UsageError, match="needs a size for its sort Client"):
        explore(LOCK_SERVER, {}, faults=0)


def test_a_search_that_outgrows_its_memory_is_truncated() -> None:
    """A search that ends at its memory budget says so, and decides no recovery."""
    found = count(it_can_get_to_three, memory_bytes=1)

    assert found.truncated
    assert not found.complete
    assert found.undecided == ["it_can_get_to_three"]


def test_the_budget_of_faults_is_kept() -> None:
    """With no faults allowed none is taken; with two, at most two on any path."""
    none, two = (explore(LOCK_SERVER, {"Client": 2}, faults=n, symmetry=False) for n in (0, 2))

    assert none.taken["lose_request"] == 0
    assert two.states == 3 * none.states


# ── The set of states ───────────────────────────────────────────────────────────────────────


class Colliding(Visited):
    """A set whose first hash is the same for all rows."""

    def _hash(self, rows: Words) -> NDArray[np.uint64]:
        return super()._hash(rows) if self._seed > 2 else np.zeros(len(rows), np.uint64)


def test_two_states_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes that collide lose no state: rows are compared in full."""
    monkeypatch.setattr("herdspec.check.exploration.explore.Visited", Colliding)

    found = explore(TWO_PHASE_COMMIT, {"Manager": 3}, faults=0, symmetry=False)

    assert found.states == 288
