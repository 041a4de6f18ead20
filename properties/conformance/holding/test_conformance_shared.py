"""What test and code both hold: what the one changes in place, the other must not see changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from herdproof.conformance.adapter import Adapter, Refused
from herdproof.conformance.graphs.edges import cover
from herdproof.conformance.holding.held import Differs, Held
from herdproof.conformance.walks.walk import walk
from herdspec import Nat, Sort, Spec, action, each, require, weak


class Ball(Sort):
    """What lies in a bag."""


class Bag(Spec):
    """Some balls."""

    inside: set[Ball] = set()  # noqa: RUF012 - an initial value

    @action
    def fill(self, balls: set[Ball]) -> None:
        """The bag has {balls}."""
        self.inside = balls

    @action
    def drop(self, b: Ball) -> None:
        """{b} is dropped."""
        require(b in self.inside)
        self.inside.discard(b)


class Bags(Adapter):
    """A bag that keeps the very set that it gets, and shows it."""

    offered = ("drop",)

    def begin(self, Ball: int) -> None:  # noqa: N803, ARG002 - a sort's name
        """An empty bag."""
        self.inside: set[Any] = set()

    def fill(self, balls: set[Any]) -> None:
        """Keep what is given."""
        self.inside = balls

    def drop(self, b: Any) -> None:
        """Drop one."""
        if b not in self.inside:
            raise Refused
        self.inside.remove(b)

    def observe(self) -> Mapping[str, Any]:
        """All."""
        return {"inside": self.inside}

    def snapshot(self) -> frozenset[Any]:
        """What is inside."""
        return frozenset(self.inside)

    def restore(self, snapshot: frozenset[Any]) -> None:
        """What was inside."""
        self.inside = set(snapshot)


class Losing(Bags):
    """It takes one out of what it gets, and so has one too few."""

    def fill(self, balls: set[Any]) -> None:
        """Keep all but one."""
        if len(balls) > 1:
            balls.pop()
        self.inside = balls


class LosingExactly(Losing):
    """The same, and it refuses nothing: each edge is taken from one state."""

    offered = ()  # type: ignore[assignment]


def test_code_that_changes_its_arguments_is_compared_with_what_it_was_given() -> None:
    """A walk differs where code loses what it got, though it changes the argument as well."""
    found = walk(Bag, Losing, {"Ball": 3}, runs=5, steps=40)
    right = walk(Bag, Bags, {"Ball": 3}, runs=5, steps=40)

    assert found.difference is not None
    assert "There the code is elsewhere: inside" in found.difference.why
    assert right.holds


@pytest.mark.parametrize("by", ["snapshots", "tours"])
@pytest.mark.parametrize("adapter", [Losing, LosingExactly])
def test_every_edge_is_taken_with_its_own_arguments(adapter: type[Adapter], by: str) -> None:
    """What code does to an argument changes no other edge: the difference is told as it is."""
    found = cover(Bag, adapter, by=by, Ball=2)

    assert found.mismatch is not None
    assert "inside: {ball1, ball2} in the spec" in found.mismatch.story
    assert cover(Bag, Bags, by=by, Ball=2).is_complete


class Marks(Spec):
    """Who may be marked, once."""

    marked: dict[Ball, bool] = each(False)

    @action
    def mark(self, b: Ball) -> None:
        """{b} is marked."""
        require(not self.marked[b])
        self.marked[b] = True


class Loaded(Adapter):
    """It keeps the state that it is put into; what it refuses, it does."""

    offered = ("mark",)

    def begin(self, Ball: int) -> None:  # noqa: N803, ARG002 - a sort's name
        """Nobody is marked."""
        self.marked = dict.fromkeys(globals()["Ball"], False)

    def load(self, state: Marks) -> None:
        """Keep what is given."""
        self.marked = state.marked

    def mark(self, b: Any) -> None:
        """Mark; where that is not possible, mark all."""
        if self.marked[b]:
            for other in self.marked:
                self.marked[other] = True
            raise Refused
        self.marked[b] = True

    def observe(self) -> Mapping[str, Any]:
        """All."""
        return {"marked": self.marked}


def test_code_that_keeps_the_state_that_it_is_put_into_does_not_change_the_specs() -> None:
    """A refusal that changes something is seen, though the code changes the state it was given."""
    with Held(Marks, Loaded, Ball=2) as held:
        held.put({"marked": {Ball(0): True}})
        with pytest.raises(Differs, match=r"marked\[ball2\]: False in the spec, True in the code"):
            held.offer("mark", Ball(0))


class Countdown(Spec):
    """What is begun is brought to its end."""

    left: dict[Ball, Nat] = each(0)

    @action
    def begin_it(self, b: Ball) -> None:
        """{b} has three steps to go."""
        require(self.left[b] == 0)
        self.left[b] = 3

    @action(fair=weak)
    def go(self, b: Ball) -> None:
        """{b} takes a step."""
        require(self.left[b] > 0)
        self.left[b] -= 1


class Slow(Adapter):
    """It takes one step each time that it is pumped, and shows the very map that it works on."""

    silent = ("go",)
    pumped = True

    def begin(self, Ball: int) -> None:  # noqa: N803, ARG002 - a sort's name
        """Nothing is left."""
        self.look = {"left": dict.fromkeys(globals()["Ball"], 0)}

    def begin_it(self, b: Any) -> None:
        """Three are left."""
        if self.look["left"][b]:
            raise Refused
        self.look["left"][b] = 3

    def pump(self) -> None:
        """One step."""
        for b, left in self.look["left"].items():
            if left:
                self.look["left"][b] = left - 1
                return

    def observe(self) -> Mapping[str, Any]:
        """The map itself."""
        return self.look


def test_code_that_shows_its_own_map_is_seen_to_change() -> None:
    """It is pumped for as long as it goes on, though each look is the same object."""
    found = walk(Countdown, Slow, {"Ball": 2}, runs=10, steps=30)

    assert found.holds, found.difference
    assert cover(Countdown, Slow, Ball=2).mismatch is None
