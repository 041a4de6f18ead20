"""Edges from several beginnings, a part of them drawn by a seed; adapters of variants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from herdproof.conformance.adapter import (
    NO_SUCH_STEP,
    Adapter,
    AdapterError,
    Refused,
    check_adapter,
    varied,
)
from herdproof.conformance.graphs.edges import BEHIND, BEYOND, FIRST, OTHERWISE, cover
from herdspec import Nat, Spec, action, initial, require, sometimes
from herdspec.language.errors import UsageError
from herdspec.language.specification import specification


class Lamp(Spec):
    """A lamp that is lit in steps; how many it has is chosen once."""

    is_dimmable: bool = False
    light: Nat = 0

    @initial
    def some_kind(self, dimmable: bool) -> None:
        """It can be dimmed, or not."""
        self.is_dimmable = dimmable

    @action
    def press(self) -> None:
        """Somebody presses the switch."""
        most = 4 if self.is_dimmable else 1
        self.light = self.light + 1 if self.light < most else 0

    @action
    def unplug(self) -> None:
        """Somebody pulls the plug."""
        require(self.light > 0)
        self.light = 0


class PlainLamp(Adapter):
    """One that cannot be dimmed."""

    most = 1
    timeout = None
    offered = ("unplug",)
    dimmed = 4

    def begin(self) -> None:
        """It is dark."""
        self.light = 0

    def press(self) -> None:
        """The next step."""
        self.light = self.light + 1 if self.light < self.most else 0

    def unplug(self) -> None:
        """It goes out."""
        if not self.light:
            raise Refused("it is dark")
        self.light = 0

    def observe(self) -> dict[str, Any]:
        """All of it."""
        return {"is_dimmable": self.most > 1, "light": self.light}

    def snapshot(self) -> tuple[int, int]:
        """All of it."""
        return self.most, self.light

    def restore(self, snapshot: tuple[int, int]) -> None:
        """Be there again."""
        self.most, self.light = snapshot


class AnyLamp(PlainLamp):
    """One of either kind."""

    def start(self, state: Lamp) -> None:
        """Be of this kind."""
        self.most = self.dimmed if state.is_dimmable else 1


class DullLamp(AnyLamp):
    """One that can be dimmed, but has a step too few."""

    dimmed = 3


def test_edges_are_taken_from_each_beginning_that_the_code_can_have() -> None:
    """From one only, where the adapter knows of no other; the rest is named."""
    assert {one.reason for one in cover(Lamp, PlainLamp).missed} == {BEHIND, FIRST}
    found = cover(Lamp, AnyLamp)
    assert found.is_complete
    assert (found.edges, found.starts, found.refused) == (12, 2, {"unplug": 2})


def test_a_difference_behind_another_beginning_is_told_from_there() -> None:
    """Its story begins there, and keeps that when it is shortened."""
    found = cover(Lamp, DullLamp)

    assert found.mismatch is not None
    assert [deed.kind for deed in found.mismatch.deeds] == ["start", *["offer"] * 4]
    assert "held.start({'is_dimmable': True})" in found.mismatch.story


@pytest.mark.parametrize("seed", range(5))
def test_a_part_of_the_edges_is_drawn(seed: int) -> None:
    """About as many as are wanted, and the same for a seed; no other is said to be missed."""
    found = cover(Lamp, AnyLamp, part=0.5, seed=seed)

    assert 5 <= found.covered <= 8
    assert not found.missed
    assert found.taken == cover(Lamp, AnyLamp, part=0.5, seed=seed).taken
    assert not found.is_complete


@sometimes
def it_is_bright(s: Lamp) -> bool:
    """It has the most light that there is."""
    return s.light == 4


@pytest.mark.parametrize(("near", "least"), [("unplug", 1), ("press", 0), ("it_is_bright", 4)])
def test_a_part_is_drawn_from_where_something_is_possible_first(near: str, least: int) -> None:
    """The code is led along the shortest story to that, and then goes on by chance."""
    found = cover(specification(Lamp, it_is_bright), AnyLamp, part=0.1, seed=1, near=near)

    assert found.starts == 1
    assert found.taken["press"] >= least
    assert sum(found.taken.values()) > least
    assert found.taken.get(near, 1)


def test_a_part_near_what_is_never_possible_is_refused() -> None:
    """There is no story to it."""
    with pytest.raises(UsageError, match=r"^there is no story to smash at this size$"):
        cover(Lamp, AnyLamp, part=0.5, near="smash")


@action
def smash(self: Lamp) -> None:
    """Nothing lights any more."""
    self.light = 0


def test_an_adapter_is_fitted_to_a_variant() -> None:
    """What the variant drops is not asked for, what it adds is named as absent."""
    spec = specification(Lamp)
    variant = spec.drop("FixedLamp", "unplug").add("FragileLamp", smash=smash)
    fixed = varied(AnyLamp, spec, variant)
    with pytest.raises(AdapterError, match="offered names 'unplug'"):
        check_adapter(variant, AnyLamp)

    found = cover(variant, fixed)
    assert {one.reason for one in found.missed} == {f"absent: {NO_SUCH_STEP}"}
    assert found.taken == {"press": 7, "smash": 0}


class Ladder(Spec):
    """It is climbed by one rung or by nine; a door in it is opened wide, or not."""

    rung: Nat = 0
    opened: bool = False
    wide: bool = False

    @action
    def climb(self, far: bool) -> None:
        """Somebody climbs."""
        self.rung += 9 if far else 1

    @action
    def open(self, wide: bool) -> None:
        """The door is opened."""
        require(not self.opened)
        self.opened = True
        self.wide = wide


class Leaper(Adapter):
    """Climbs by nine, and opens the door a little."""

    chosen: ClassVar[Mapping[str, tuple[str, ...]]] = {"climb": ("far",), "open": ("wide",)}

    def begin(self) -> None:
        """On the ground."""
        self.rung, self.opened = 0, False

    def climb(self) -> bool:
        """Far."""
        self.rung += 9
        return True

    def open(self) -> bool:
        """A little."""
        if self.opened:
            raise Refused
        self.opened = True
        return False

    def observe(self) -> dict[str, Any]:
        """All."""
        return {"rung": self.rung, "opened": self.opened, "wide": False}


def test_what_lies_behind_a_bound_is_told_from_what_was_not_taken() -> None:
    """Higher rungs are where the code leapt over; of a wide door, it only opened none."""
    found = cover(Ladder, Leaper, bound=2)

    assert found.mismatch is None
    assert (found.states, found.edges, found.covered) == (9, 12, 1)
    missed = {(one.action, one.reason): one.edges for one in found.missed}
    assert missed == {
        ("climb", OTHERWISE): 2,
        ("open", OTHERWISE): 1,
        ("climb", BEHIND): 1,
        ("climb", BEYOND): 3,
        ("open", BEYOND): 4,
    }
