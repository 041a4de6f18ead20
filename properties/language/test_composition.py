"""Composed specs: machines interleave, joint actions call theirs, and who writes what is told."""

from __future__ import annotations

import pytest

from herdspec import (
    Sort,
    Spec,
    SpecError,
    action,
    always,
    each,
    fault,
    initial,
    require,
    sometimes,
    specification,
)
from herdspec.check.exploration.explore import explore
from herdspec.check.proof.prove import prove
from herdspec.language.specification import from_source
from properties.engine.readings import compare_steps, compare_with_z3, explorer
from properties.language.test_rich_language import some_states


class Room(Sort):
    """A room."""


class Guest(Sort):
    """A guest."""


class Door(Spec):
    """A door that opens and closes, and may jam."""

    is_open: bool = False
    jammed: bool = False

    @action
    def push(self) -> None:
        """The door is opened."""
        require(not self.is_open and not self.jammed)
        self.is_open = True

    @action
    def close(self) -> None:
        """The door is closed."""
        require(self.is_open)
        self.is_open = False

    @action(kind=fault)
    def jam(self) -> None:
        """The door jams."""
        require(not self.jammed)
        self.jammed = True

    def passable(self) -> bool:
        """Whether one can go through."""
        return self.is_open


@always
def no_ghost(s: Door) -> bool:
    """A door is no ghost."""
    return s.is_open or not s.is_open


class House(Spec):
    """A house with a front door and rooms; guests enter through open doors."""

    front: Door
    rooms: dict[Room, Door]
    where: dict[Guest, Room | None] = each(None)
    alarm: bool = False

    @initial
    def furnished(self) -> None:
        """The front door stands open."""
        self.front.push()

    @action
    def enter(self, g: Guest, r: Room) -> None:
        """{g} goes into {r}."""
        require(self.front.is_open and self.rooms[r].passable())
        self.where[g] = r

    @action
    def fire(self, r: Room) -> None:
        """Fire in {r}: its door and the front door close together."""
        self.front.close()
        self.rooms[r].close()
        self.alarm = True


@always
def alarm_closes(s: House) -> bool:
    """After an alarm the front door is closed: nothing but a push opens it."""
    return not (s.alarm and s.front.is_open and not s.front.is_open)


@always
def doors_are_no_ghosts(s: House) -> bool:
    """What holds of a door holds of each."""
    return no_ghost(s.front) and all(no_ghost(s.rooms[r]) for r in Room)


@sometimes
def somebody_is_inside(s: House) -> bool:
    """Somebody is inside."""
    return any(s.where[g] is not None for g in Guest)


HOUSE = specification(House, alarm_closes, doors_are_no_ghosts, somebody_is_inside)


def test_machines_interleave_but_for_what_a_joint_action_calls() -> None:
    """A part's actions are taken by themselves, unless the whole takes them together."""
    assert [a.name for a in HOUSE.actions] == [
        "enter", "fire", "front.push", "front.jam", "rooms.push", "rooms.jam",
    ]  # fmt: skip


def test_a_composed_spec_tells_who_writes_what() -> None:
    """Each flat field has its writers."""
    assert HOUSE.writers["front.is_open"] == ("fire", "front.push")
    assert HOUSE.writers["rooms.jammed"] == ("rooms.jam",)
    assert HOUSE.writers["where"] == ("enter",)


def test_a_composed_spec_means_the_same_in_every_reading() -> None:
    """Joint actions, indexed machines and their own actions agree in Python, columns and z3."""
    ex = explorer(HOUSE)
    rows = some_states(ex, 40)

    compare_steps(ex, rows)
    for row in rows[:2]:
        compare_with_z3(ex, row)


def test_a_composed_spec_is_explored_and_proved() -> None:
    """The readings take a composed spec like any other; stories name the part."""
    found = explore(HOUSE, {"Room": 1, "Guest": 1}, faults=1)

    assert not found.violations
    assert [s.label for s in found.witnesses["somebody_is_inside"].steps] == [
        "rooms.push(room1)", "enter(guest1, room1)",
    ]  # fmt: skip
    assert prove(HOUSE).proved


class Street(Spec):
    """Houses, in a street with a gate."""

    gate: Door
    houses: dict[Guest, House]

    @action
    def knock(self, g: Guest, r: Room) -> None:
        """Somebody opens the door of {r} in the house of {g}, if the gate is open."""
        require(self.gate.is_open)
        self.houses[g].rooms[r].push()


STREET = specification(Street)


def test_parts_may_have_parts() -> None:
    """Machines in machines take their steps, each with the indices that select it."""
    names = [a.name for a in STREET.actions]
    ex = explorer(STREET)

    assert "houses.rooms.push" in names
    assert [n for n, _ in STREET.action("houses.rooms.push").parameters] == ["at1", "at2"]
    assert "gate.push" in names
    compare_steps(ex, some_states(ex, 10))


def test_a_part_is_no_value() -> None:
    """A part cannot be assigned or compared; the error says what to write."""
    text = """
from herdspec import *
class Part(Spec):
    x: bool = False
class Whole(Spec):
    part: Part
    @action
    def act(self) -> None:
        self.part = self.part  # here
"""
    with pytest.raises(SpecError, match=r":9: .*assign a name, self.field"):
        from_source(text, "Whole")
