"""What is not seen of code is not compared: it is named, and where that is all, nothing is said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from unittest.mock import ANY

import pytest

from herdproof.conformance.adapter import Adapter, AdapterError, Refused
from herdproof.conformance.graphs.edges import cover
from herdproof.conformance.holding.held import Held
from herdproof.conformance.solver.solved import solved
from herdproof.conformance.stories import Outcome, on_the_code
from herdproof.conformance.suites import shortfall
from herdproof.conformance.walks.stateful import stateful
from herdproof.conformance.walks.walk import walk
from herdspec import Nat, Sort, Spec, action, each, require
from herdspec.check.running.run import machine


class Door(Sort):
    """What is opened."""


class Lock(Spec):
    """A lock, and how often it was opened."""

    opened: bool = False
    count: Nat = 0

    @action
    def open(self) -> None:
        """It is opened."""
        require(not self.opened)
        self.opened = True
        self.count += 1


class House(Spec):
    """Doors with locks, and marks on them."""

    lock: dict[Door, Lock]
    mark: dict[Door, bool] = each(False)

    @action
    def open(self, d: Door) -> None:
        """{d} is opened."""
        self.lock[d].open()

    @action
    def paint(self, d: Door) -> None:
        """{d} is marked."""
        require(not self.mark[d])
        self.mark[d] = True


class Houses(Adapter):
    """Its locks count wrongly; `sees` says what is shown."""

    sees: ClassVar[Any] = staticmethod(lambda _opened, _marked: {"lock": {}, "mark": {}})

    def begin(self, Door: int) -> None:  # noqa: N803, ARG002 - a sort's name
        """All doors are closed."""
        self.opened: set[Any] = set()
        self.marked: set[Any] = set()

    def open(self, d: Any) -> None:
        """Open it."""
        if d in self.opened:
            raise Refused
        self.opened.add(d)

    def paint(self, d: Any) -> None:
        """Mark it."""
        if d in self.marked:
            raise Refused
        self.marked.add(d)

    def observe(self) -> Mapping[str, Any]:
        """What is to be seen."""
        found: Mapping[str, Any] = type(self).sees(self.opened, self.marked)
        return found


class Empty(Houses):
    """It shows both fields, of which no entry."""

    def load(self, state: Any) -> None:
        """Whatever it is."""


class EmptyParts(Houses):
    """It shows an entry for each door, of which nothing."""

    sees = staticmethod(lambda _opened, _marked: {"lock": {d: {} for d in _doors()}})


class SomeOfParts(Houses):
    """Of the locks it shows if they are open, and of one door not even that."""

    sees = staticmethod(
        lambda opened, _marked: {"lock": {d: {"opened": d in opened} for d in _doors()[:1]}}
    )


def _doors() -> list[Any]:
    return list(globals()["Door"])


@pytest.mark.parametrize("adapter", [Empty, EmptyParts])
def test_a_map_without_entries_shows_nothing(adapter: type[Adapter]) -> None:
    """No way passes where of all fields no single value was seen."""
    walked = walk(House, adapter, {"Door": 2}, runs=5, steps=10)
    covered = cover(House, adapter, Door=2)

    assert walked.unseen == ("lock", "mark")
    assert not walked.holds
    assert walked.unknown == "nothing was seen of the code"
    assert shortfall(covered) == "nothing was seen of the code"
    with pytest.raises(AdapterError, match=r"shows no field of House: nothing was seen"):
        stateful(House, adapter, Door=2)("runTest").runTest()  # type: ignore[attr-defined]


class Anything(Houses):
    """It shows what is equal to everything, of all fields or of one entry."""

    sees = staticmethod(lambda _opened, _marked: {"mark": ANY})


class AnythingThere(Houses):
    """It shows what is equal to everything, as one entry."""

    sees = staticmethod(lambda _opened, _marked: {"mark": {_doors()[0]: ANY}})


class AnythingLater(Houses):
    """It shows what is equal to everything of a door that is marked, and not from the beginning."""

    sees = staticmethod(
        lambda _opened, marked: {"mark": {d: ANY if d in marked else False for d in _doors()}}
    )


@pytest.mark.parametrize("adapter", [Anything, AnythingThere, AnythingLater])
def test_what_is_equal_to_everything_shows_nothing(adapter: type[Adapter]) -> None:
    """It agrees with each state of the spec: it is no value of one."""
    with pytest.raises(AdapterError, match=r"<ANY> \(_ANY\), which no state of House has"):
        walk(House, adapter, {"Door": 2}, runs=5, steps=10)
    with pytest.raises(AdapterError, match=r"<ANY> \(_ANY\), which no state of House has"):
        cover(House, adapter, Door=2)


def test_states_of_code_of_which_nothing_is_seen_are_unknown() -> None:
    """Put into a state or not, it looks the same."""
    found = solved(Marked, Unmarked, seconds=2, most=2, looking=0.0, Door=2)

    assert found.standing == "unknown"


class Marked(Spec):
    """Marks on doors."""

    mark: dict[Door, bool] = each(False)

    @action
    def paint(self, d: Door) -> None:
        """{d} is marked."""
        require(not self.mark[d])
        self.mark[d] = True


class Unmarked(Adapter):
    """It does nothing, and shows nothing."""

    def begin(self, Door: int) -> None:  # noqa: N803 - a sort's name
        """Nothing."""

    def paint(self, d: Any) -> None:
        """Nothing."""

    def load(self, state: Any) -> None:
        """Nothing."""

    def observe(self) -> Mapping[str, Any]:
        """Nothing."""
        return {"mark": {}}


def test_fields_of_parts_in_maps_that_were_never_seen_are_named() -> None:
    """A part's fields that no look shows are named, door by door."""
    with Held(House, SomeOfParts, Door=2) as held:
        held.offer("open", Door(0))

    unseen = ("lock[door1].count", "lock[door2].count", "lock[door2].opened", "mark")
    assert held.report.unseen == unseen


def test_a_story_on_code_of_which_nothing_is_seen_shows_nothing() -> None:
    """It takes every step, and nobody knows where it is."""
    run = machine(Marked, Door=2)
    [after] = [s for s in run.steps(run.initial()) if s.arguments == (Door(0),)]

    found = on_the_code(run, Unmarked, [after])

    assert found.outcome is Outcome.UNCLEAR
    assert "nothing was seen of the code" in found.line
