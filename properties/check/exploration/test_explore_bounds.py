"""What an exploration says of its limits: constraints, checkpoints, estimates, starts, branches."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

from herdspec import (
    Nat,
    Sort,
    Spec,
    UpTo,
    UsageError,
    action,
    always,
    axiom,
    each,
    initial,
    recoverable,
    require,
    sometimes,
    specification,
    step,
)
from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED
from herdspec.check.exploration.explore import Explorer, explore
from herdspec.check.exploration.size import Estimate, estimated_states
from herdspec.engine import ground
from herdspec.language.surface import Property
from properties.specs import LOCK_SERVER, TWO_PHASE_COMMIT, Client

ENGINES = ["numpy", "native"]


class Walker(Spec):
    """Somebody walks, as far as the road goes."""

    place: Nat = 0

    @action
    def go(self) -> None:
        """One step on."""
        require(self.place < 6)
        self.place = self.place + 1


@always
def near(s: Walker) -> bool:
    """Still near."""
    return s.place < 3


@always
def never_at_three(s: Walker) -> bool:
    """Never at three."""
    return s.place != 3


@sometimes
def at_five(s: Walker) -> bool:
    """Far away."""
    return s.place == 5


@recoverable
def back_home(s: Walker) -> bool:
    """Home again."""
    return s.place == 0


WALKER = specification(Walker, never_at_three, at_five, back_home)

# ── Constraints ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ENGINES)
def test_a_state_beyond_the_constraint_is_looked_at_but_not_gone_on_from(engine: str) -> None:
    """Where the constraint fails, promises are checked and nothing follows; it is no deadlock."""
    found = explore(WALKER, {}, faults=0, bound=9, constraint=near, engine=engine)

    assert (found.states, found.constrained, found.depth) == (4, 1, 3)
    assert found.constraint == "near"
    assert list(found.violations) == ["never_at_three"]
    assert found.deadlock is None


def test_within_a_constraint_nothing_is_concluded_of_what_is_beyond() -> None:
    """A search within a constraint is not complete: recovery is undecided, witnesses missing."""
    found = explore(WALKER, {}, faults=0, bound=9, constraint=near)

    assert not found.complete
    assert found.undecided == ["back_home"]
    assert found.missing == ["at_five"]


def test_a_plain_function_is_a_constraint_too() -> None:
    """The constraint may be a function of the state without a decorator."""

    def near_home(s: Walker) -> bool:
        """At home, or nearly."""
        return s.place < 2

    assert explore(WALKER, {}, faults=0, bound=9, constraint=near_home).states == 3


def test_a_constraint_about_two_states_is_refused() -> None:
    """What speaks of steps constrains no state."""

    @step
    def on(before: Walker, after: Walker) -> bool:
        """On and on."""
        return after.place > before.place

    with pytest.raises(UsageError, match="the constraint on is no function of one state"):
        explore(WALKER, {}, faults=0, constraint=on)


# ── Checkpoints ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ENGINES)
def test_a_search_that_was_truncated_goes_on_where_it_ended(engine: str, tmp_path: Path) -> None:
    """A search cut into pieces by its memory budget finds what one search finds."""
    file = tmp_path / "search.npz"
    sizes = {"Manager": 5}
    whole = Explorer(TWO_PHASE_COMMIT, sizes, 0, symmetry=False)
    told = whole.run()
    first = Explorer(TWO_PHASE_COMMIT, sizes, 0, symmetry=False, memory_bytes=1, engine=engine)
    part = first.run(save=file)
    pieces = 1
    while part.truncated:
        # Each piece gets as far as one level further: the budget is checked after each.
        again = Explorer(TWO_PHASE_COMMIT, sizes, 0, symmetry=False, memory_bytes=1, engine=engine)
        part = again.run(save=file, resume=file)
        pieces += 1

    assert pieces == told.depth + 1  # the last level leads nowhere
    assert (part.states, part.generated, part.taken) == (told.states, told.generated, told.taken)
    assert (part.depth, list(part.witnesses)) == (told.depth, list(told.witnesses))
    assert [s.labels for s in part.witnesses.values()] == [
        s.labels for s in told.witnesses.values()
    ]
    assert np.array_equal(again.rows, whole.rows)


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Python's own handler of an interrupt, wherever another test (of Spark) put one."""
    other = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, other)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupted_search_is_put_aside(tmp_path: Path) -> None:
    """An interrupt saves the search before it is passed on."""
    file = tmp_path / "search.npz"

    def interrupt(depth: int, _states: int, _waiting: int) -> None:
        if depth == 4:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        explore(TWO_PHASE_COMMIT, {"Manager": 4}, faults=0, progress=interrupt, save=file)

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    whole = explore(TWO_PHASE_COMMIT, {"Manager": 4}, faults=0)
    resumed = explore(TWO_PHASE_COMMIT, {"Manager": 4}, faults=0, resume=file)
    assert (resumed.states, resumed.generated) == (whole.states, whole.generated)


def saved(tmp_path: Path) -> Path:
    """The checkpoint of a truncated search of the walker."""
    file = tmp_path / "walker.npz"
    explore(WALKER, {}, faults=0, bound=9, memory_bytes=1, save=file)
    return file


def test_a_checkpoint_of_another_search_is_refused(tmp_path: Path) -> None:
    """Another bound, another constraint, another spec: a checkpoint goes on as itself only."""
    file = saved(tmp_path)

    others: list[tuple[int, Property | None]] = [(8, None), (9, near)]
    for bound, constraint in others:
        with pytest.raises(UsageError, match="is a checkpoint of another search"):
            explore(WALKER, {}, faults=0, bound=bound, constraint=constraint, resume=file)
    with pytest.raises(UsageError, match="is a checkpoint of another search"):
        explore(specification(Walker), {}, faults=0, bound=9, resume=file)


def test_a_checkpoint_of_other_checkers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another version found, or overlooked, is not taken for what this one would find."""
    file = saved(tmp_path)
    monkeypatch.setattr("herdspec.check.exploration.checkpoint.engine", lambda: "another")

    with pytest.raises(UsageError, match="is a checkpoint of another search"):
        explore(WALKER, {}, faults=0, bound=9, resume=file)


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    """A missing, a foreign, a torn and an empty file are refused, each with what is wrong."""
    file = saved(tmp_path)
    torn, foreign, empty = (tmp_path / f"{name}.npz" for name in ("torn", "foreign", "empty"))
    empty.touch()
    torn.write_bytes(file.read_bytes()[:200])
    foreign.write_text("something else")

    with pytest.raises(UsageError, match="cannot be read: No such file"):
        explore(WALKER, {}, faults=0, bound=9, resume=tmp_path / "missing.npz")
    for wrong in (torn, foreign, empty):
        with pytest.raises(UsageError, match="is no complete checkpoint"):
            explore(WALKER, {}, faults=0, bound=9, resume=wrong)


def test_a_checkpoint_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A place where nothing can be written is an error with its reason."""
    with pytest.raises(UsageError, match="cannot be written"):
        explore(
            WALKER, {}, faults=0, bound=9, memory_bytes=1, save=tmp_path / "no" / "such" / "place"
        )


# ── Estimates, and why a space is large ─────────────────────────────────────────────────────


def test_the_size_is_estimated_on_the_way() -> None:
    """From the middle levels on, the estimate of the size is right to a factor of two."""
    found: list[Estimate] = []
    whole = explore(
        TWO_PHASE_COMMIT, {"Manager": 6}, faults=0, symmetry=False, estimates=found.append
    )

    later = [e.states for e in found[len(found) // 2 :]]
    assert later
    assert all(whole.states / 2 < states < whole.states * 2 for states in later)
    assert all(e.seconds >= 0 for e in found)


def test_without_falling_ratios_there_is_no_estimate() -> None:
    """Levels that double say nothing of where that ends; nor do two or three levels."""
    assert estimated_states([1, 2, 4, 8, 16, 32]) is None
    assert estimated_states([1, 5]) is None


def test_it_is_said_why_the_space_is_large() -> None:
    """Each field's different values, and each action's steps, are counted over all states."""
    found = explore(LOCK_SERVER, {"Client": 2}, faults=1, symmetry=False)

    assert found.why.values["holds"] == 2
    assert found.why.successors["ask"] == found.taken["ask"] / found.states
    assert list(found.why.successors.values()) == sorted(
        found.why.successors.values(), reverse=True
    )
    assert any(line.startswith("holds: 2 different values") for line in found.why.lines)


# ── Several initial states ──────────────────────────────────────────────────────────────────


class Chosen(Spec):
    """Somebody is chosen before anything happens, and passes it on."""

    holder: Client | None = None
    level: Nat = 0
    quick: bool = False

    @initial
    def somebody(self, c: Client, high: bool, quick: bool) -> None:
        """It is {c}."""
        self.holder = c
        self.quick = quick
        if high:
            self.level = self.level + 2

    @action
    def climb(self) -> None:
        """Up."""
        require(self.level < 4)
        self.level = self.level + 1


@always
def below_three(s: Chosen) -> bool:
    """Below three."""
    return s.level < 3


@axiom
def nobody_is_quick(s: Chosen) -> bool:
    """Nobody is quick."""
    return not s.quick


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("symmetry", "states"), [(None, 5), (False, 10)])
def test_a_search_begins_with_all_initial_states(
    engine: str, symmetry: bool | None, states: int
) -> None:
    """Each initial state is one, up to renaming; a story begins with the nearest."""
    spec = specification(Chosen, below_three, nobody_is_quick)
    found = explore(spec, {"Client": 2}, faults=0, bound=4, symmetry=symmetry, engine=engine)

    assert (found.states, found.orbits, found.depth) == (states, 10, 2)
    story = found.violations["below_three"]
    assert vars(story.initial)["level"] == 2
    assert story.labels == ["climb()"]


def test_an_initial_state_beyond_the_bound_is_dropped() -> None:
    """An initial state beyond the bound of naturals is dropped, counted and said."""
    found = explore(specification(Chosen), {"Client": 1}, faults=0, bound=1)

    assert (found.states, found.dropped) == (4, 2 + 2)
    assert not found.complete


def test_an_axiom_chooses_among_the_initial_states() -> None:
    """An axiom is assumed: where it fails, nothing begins."""
    one, all_of_them = (
        explore(specification(Chosen, *axioms), {"Client": 1}, faults=0, bound=4).states
        for axioms in ([nobody_is_quick], [])
    )

    assert 2 * one == all_of_them


def test_without_an_initial_state_nothing_is_explored() -> None:
    """A spec that cannot begin is refused: it would hold everything."""

    class Never(Spec):
        """It never begins."""

        n: Nat = 0

        @initial
        def impossible(self) -> None:
            """It cannot be."""
            require(self.n > 0)

        @action
        def go(self) -> None:
            """On."""
            self.n = 0

    with pytest.raises(UsageError, match="Never has no initial state here: no choice is possible"):
        explore(specification(Never), {}, faults=0)


# ── Steps without a meaning, branches without a step ────────────────────────────────────────


class Item(Sort):
    """A thing."""


class Shelf(Spec):
    """Things are taken off a shelf, of which there may be none left."""

    best: Item | None = None
    left: Annotated[Nat, UpTo(2)] = 2
    taken: dict[Item, bool] = each(False)

    @action
    def praise(self, i: Item) -> None:
        """{i} is the best."""
        require(self.best is None)
        self.best = i

    @action
    def take(self) -> None:
        """The best is taken."""
        require(self.left > 0)
        self.taken[self.best] = True  # type: ignore[index]  # there may be none
        self.left = self.left - 1

    @action
    def tidy(self, i: Item) -> None:
        """{i} is tidied up."""
        if self.taken[i] and self.left == 2:
            self.taken[i] = False
        elif self.taken[i]:
            self.best = None


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("symmetry", [None, False])
def test_a_step_without_a_meaning_is_a_violation(engine: str, symmetry: bool | None) -> None:
    """Looking at what is absent is a failure; its story ends with the step that was tried."""
    found = explore(
        specification(Shelf), {"Item": 2}, faults=0, bound=3, symmetry=symmetry, engine=engine
    )

    story = found.violations[EVERY_VALUE_IS_DEFINED]
    assert story.labels == ["take()"]
    assert found.deadlock is None


@pytest.mark.parametrize("engine", ENGINES)
def test_a_branch_that_no_step_takes_is_named(engine: str) -> None:
    """Of two branches of an action, the one that is never taken is told by its line."""
    found = explore(specification(Shelf), {"Item": 2}, faults=0, engine=engine)

    [branch] = found.branches
    assert branch.action == "tidy"
    assert branch.file == __file__
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert "self.left == 2" in source[branch.line - 1] + source[branch.line - 2]


def test_more_actions_than_can_be_numbered_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spec with more actions with chosen parameters than can be numbered is refused."""
    monkeypatch.setattr(ground, "MOST_INSTANCES", 20)

    assert explore(LOCK_SERVER, {"Client": 2}, faults=0).states
    with pytest.raises(UsageError, match="more than 20: take smaller sizes"):
        explore(LOCK_SERVER, {"Client": 9}, faults=0)


def test_states_are_given_back_with_the_last_name_for_them() -> None:
    """No circle keeps a search, whose states may be gigabytes, until the collector comes by."""
    gc.disable()
    try:
        found = explore(LOCK_SERVER, {"Client": 2}, faults=1)
        gone = weakref.ref(found)
        assert found.states > 1
        assert not found.branches
        del found

        assert gone() is None
    finally:
        gc.enable()
