"""The *search* reading: bounded model checking finds what breadth-first search finds, as short."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated

import pytest

from herdspec import (
    Nat,
    Sort,
    Spec,
    Specification,
    UpTo,
    UsageError,
    action,
    always,
    each,
    initial,
    require,
    specification,
    step,
)
from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED, Exploration
from herdspec.check.exploration.explore import explore
from herdspec.check.simulation.search import Search, search
from herdspec.check.verdict import Mark, Standing, searched, standing_of
from herdspec.engine.bits import BitEmitter
from herdspec.engine.ground import Ground
from herdspec.language.graph import Expr
from herdspec.language.surface import Expectation
from herdspec.protocols.election.flaws import DRAFTED, FLAWS
from properties.check.proof.test_prove import WALK, Walk
from properties.specs import (
    LOCK_SERVER,
    TWO_PHASE_COMMIT,
    Client,
    Counter,
    LockServer,
    Manager,
    Phase,
    TwoPhaseCommit,
    it_never_counts_to_two,
    never_above_one,
    never_above_three,
)

LONG_WAY = 15
"""Longer stories of the flawed elections are left to the long run: z3 needs minutes for them."""
SAFETY = (Expectation.ALWAYS, Expectation.STEP)


def lengths(found: Search | Exploration) -> dict[str, int]:
    """How long the stories of broken safety promises are."""
    return {
        name: len(story.steps)
        for name, story in found.violations.items()
        if found.spec.promise(name).expectation in SAFETY
    }


def compare(spec: Specification, sizes: Mapping[str, int], faults: int, most: int = 99) -> None:
    """Both find violations of the same promises, equally short, up to `most` steps."""
    wanted = {n: k for n, k in lengths(explore(spec, sizes, faults=faults)).items() if k <= most}
    assert wanted, "there is something to find"
    depth = max(wanted.values())
    found = search(spec, sizes, faults=faults, depth=depth)
    assert lengths(found) == wanted
    for name, story in found.violations.items():
        assert len(story.lines) == 2 * len(story.steps) + bool(spec.starts), name


# ── As short as breadth first ───────────────────────────────────────────────────────────────


@always
def nobody_has_it(s: LockServer) -> bool:
    """Nobody holds the lock (somebody will)."""
    return not any(s.holds[c] for c in Client)


@step
def nothing_is_returned(before: LockServer, after: LockServer) -> bool:
    """No step returns the lock (one does)."""
    return all(before.returned[c] or not after.returned[c] for c in Client)


@always
def not_all_commit(s: TwoPhaseCommit) -> bool:
    """Not all resource managers commit (they may)."""
    return not all(s.phase[m] == Phase.COMMITTED for m in Manager)


BROKEN = {
    "lock server": (specification(LockServer, nobody_has_it, nothing_is_returned), {"Client": 2}),
    "two-phase commit": (specification(TwoPhaseCommit, not_all_commit), {"Manager": 3}),
    "counter": (specification(Counter, never_above_one, it_never_counts_to_two), {}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_shortest_violation_is_found(name: str) -> None:
    """A bounded search finds each violation at the depth of breadth-first search, not before."""
    spec, sizes = BROKEN[name]

    compare(spec, sizes, faults=1)


@pytest.mark.parametrize("flaw", ["ignores_lost", "mine_by_data", "believes_lost_reply"])
def test_flaws_of_the_election_are_found(flaw: str) -> None:
    """What the flaws of elections break within nine steps is found by both, equally short."""
    compare(FLAWS[flaw].spec, {"Broker": 2}, FLAWS[flaw].faults, most=9)


@pytest.mark.long
@pytest.mark.parametrize("flaw", [*FLAWS, "drafted"])
def test_all_flaws_of_the_election_are_found(flaw: str) -> None:
    """What the flaws of elections break within fifteen steps is found by both, equally short."""
    flawed = FLAWS.get(flaw, DRAFTED)

    compare(flawed.spec, {"Broker": 2}, flawed.faults, most=LONG_WAY)


# ── What is not found ───────────────────────────────────────────────────────────────────────


def test_nothing_is_found_where_nothing_is_broken() -> None:
    """A correct spec has no violation within the depth, and the verdict says within what."""
    found = search(LOCK_SERVER, {"Client": 2}, faults=1, depth=8)
    (finding, *_) = searched("lock", found, {})

    assert not found.violations
    assert found.depth == 8
    assert finding.mark is Mark.EXHAUSTED
    assert "runs of up to 8 steps" in finding.bounds


def test_what_lies_beyond_the_depth_is_not_found() -> None:
    """One step less than the shortest violation, and nothing is found."""
    spec, sizes = BROKEN["two-phase commit"]
    (length,) = lengths(explore(spec, sizes, faults=0)).values()

    assert not search(spec, sizes, faults=0, depth=length - 1).violations
    assert search(spec, sizes, faults=0, depth=length).violations


def test_what_z3_gives_up_is_unknown() -> None:
    """With hardly any resources nothing is found, and that is not "none"."""
    found = search(TWO_PHASE_COMMIT, {"Manager": 3}, faults=0, depth=6, resources=10)

    assert found.unknown
    assert standing_of(searched("2pc", found, {})) is Standing.UNKNOWN


def test_naturals_are_bounded_as_in_exploration() -> None:
    """A step beyond the bound of naturals is no step: the counter does not pass it."""

    @always
    def never_above_two(s: Counter) -> bool:
        """It never counts above two (it does, where it may)."""
        return s.n <= 2

    spec = specification(Counter, never_above_two)

    assert not search(spec, {}, faults=0, depth=5, bound=2).violations
    assert search(spec, {}, faults=0, depth=5, bound=3).violations


def test_a_search_for_nothing_is_refused() -> None:
    """A spec without a promise that a run could break is a usage error that names it."""
    with pytest.raises(UsageError, match="Counter has no @always or @step"):
        search(specification(Counter), {}, faults=0, depth=1)


def test_only_the_named_promise_is_searched() -> None:
    """Only the promises that were asked for are looked at."""
    spec = specification(Counter, never_above_three, never_above_one)
    found = search(spec, {}, faults=0, depth=3, only=frozenset({"never_above_three"}))

    assert found.promises == ("never_above_three",)
    assert not found.violations


# ── Richer specs ────────────────────────────────────────────────────────────────────────────


class Seat(Sort):
    """A place in a ring."""


class Ring(Spec):
    """A token goes round from wherever it began, in a bounded number of steps."""

    begun: Seat | None = None
    next: dict[tuple[Seat, Seat], bool] = each(False)
    at: dict[Seat, bool] = each(False)
    left: Annotated[Nat, UpTo(3)] = 3

    @initial
    def begin(self, s: Seat, t: Seat) -> None:
        """The token begins at {s}, and {t} comes after it."""
        require(s != t)
        self.begun = s
        self.at[s] = True
        self.next[s, t] = True
        self.next[t, s] = True

    @action
    def go(self, s: Seat, t: Seat) -> None:
        """The token goes from {s} to {t}."""
        require(self.left > 0 and self.at[s] and self.next[s, t])
        self.at[s] = False
        self.at[t] = True
        self.left = self.left - 1


@always
def it_stays_where_it_began(s: Ring) -> bool:
    """The token is where it began (it goes)."""
    return all(not s.at[x] or s.begun == x for x in Seat)


@always
def it_may_go_twice_more(s: Ring) -> bool:
    """There are two moves left (they are used)."""
    return s.left >= 2


def test_initial_states_relations_and_ranges_are_searched() -> None:
    """Nondeterministic initial states, binary relations and bounded naturals are searched too."""
    compare(specification(Ring, it_stays_where_it_began, it_may_go_twice_more), {"Seat": 3}, 0)


def test_axioms_are_assumed_of_initial_states() -> None:
    """Runs begin where the axioms hold: without its axiom a step promise is broken at once."""
    spec = specification(Walk, *WALK)
    without = specification(Walk, *WALK[1:])

    assert not search(spec, {"Site": 2}, faults=0, depth=3).violations
    assert lengths(search(without, {"Site": 2}, faults=0, depth=3)) == {"there_is_a_way_back": 1}


class Stack(Spec):
    """A number that goes down without looking."""

    left: Annotated[Nat, UpTo(3)] = 2

    @action
    def go(self) -> None:
        """It goes down."""
        self.left = self.left - 1


@always
def it_is_left(s: Stack) -> bool:
    """It is at most two."""
    return s.left <= 2


def test_a_step_without_a_meaning_is_found() -> None:
    """Where the only step leaves the range of a natural, it is found, and is the story's last."""
    spec = specification(Stack, it_is_left)
    found = search(spec, {}, faults=0, depth=4)
    story = found.violations[EVERY_VALUE_IS_DEFINED]
    by_breadth = explore(spec, {}, faults=0).violations[EVERY_VALUE_IS_DEFINED]

    assert [s.action.name for s in story.steps] == ["go"] * 3
    assert len(by_breadth.steps) == len(story.steps)
    assert standing_of(searched("stack", found, {})) is Standing.FAILS
    assert not search(spec, {}, faults=0, depth=2).violations


# ── It can fail ─────────────────────────────────────────────────────────────────────────────


@cache
def ground() -> Ground:
    """A ground spec with a natural."""
    return Ground(specification(Counter, never_above_one), {}, 3, 0)


def test_a_wrong_operator_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons that are off by one give another depth than breadth-first search."""
    from herdspec.engine import bits

    plain = bits.Terms._term

    def wrong(self: bits.Terms, e: Expr) -> object:
        return self.of(e.args[0]) < self.of(e.args[1]) if e.op == "le" else plain(self, e)

    monkeypatch.setattr(bits.Terms, "_term", wrong)
    spec, sizes = BROKEN["counter"]

    assert BitEmitter(ground()).width > 2
    with pytest.raises(AssertionError):
        compare(spec, sizes, faults=1)


def test_numbers_that_are_larger_than_any_value_are_no_others() -> None:
    """A constant above all that the state holds is compared as what it is."""

    @always
    def far_below(s: Counter) -> bool:
        """It stays far below."""
        return s.n + 700 < 5000 and s.n < 600

    spec = specification(Counter, far_below)

    assert search(spec, {}, faults=0, bound=3, depth=2).violations == {}
