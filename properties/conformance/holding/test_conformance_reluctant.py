"""Code that may refuse what its spec allows, and code that does more within one call."""

from __future__ import annotations

from typing import ClassVar

import pytest

from herdproof.conformance.adapter import Adapter, AdapterError, Refused
from herdproof.conformance.graphs.edges import REFUSED, cover
from herdproof.conformance.holding.held import Differs, Held
from herdspec import Spec, action, require, weak


class Door(Spec):
    """Who knocks is let in."""

    is_open: bool = False
    is_knocked: bool = False

    @action
    def knock(self) -> None:
        """Somebody knocks."""
        require(not self.is_open and not self.is_knocked)
        self.is_knocked = True

    @action(fair=weak)
    def unlock(self) -> None:
        """The door is unlocked."""
        require(self.is_knocked)
        self.is_open = True
        self.is_knocked = False

    @action
    def shut(self) -> None:
        """Somebody shuts the door."""
        require(self.is_open)
        self.is_open = False


class QuickDoor(Adapter):
    """It is unlocked at once, and nobody can shut it."""

    silent: ClassVar = ("unlock",)
    pumped = True
    follows: ClassVar = {"knock": ("unlock",)}
    reluctant: ClassVar[tuple[str, ...]] = ("shut",)
    timeout = None

    def begin(self) -> None:
        """It is closed."""
        self.is_open = False

    def knock(self) -> None:
        """It opens."""
        if self.is_open:
            raise Refused("it is open")
        self.is_open = True

    def shut(self) -> None:
        """It stays open."""
        raise Refused("it is stuck")

    def observe(self) -> dict[str, bool]:
        """All of it."""
        return {"is_open": self.is_open, "is_knocked": False}

    def snapshot(self) -> bool:
        """All of it."""
        return self.is_open

    def restore(self, snapshot: bool) -> None:
        """Be there again."""
        self.is_open = snapshot


class LazyDoor(QuickDoor):
    """The same; nobody hears a knock."""

    undue: ClassVar[tuple[str, ...]] = ("unlock",)

    def knock(self) -> None:
        """It stays closed."""

    def observe(self) -> dict[str, bool]:
        """Whether it is open."""
        return {"is_open": self.is_open}


class PlainDoor(QuickDoor):
    """The same; nothing is said of what follows a knock."""

    follows: ClassVar = {}


class WillingDoor(QuickDoor):
    """The same; nothing is said of what may be refused."""

    reluctant: ClassVar[tuple[str, ...]] = ()


def test_what_follows_at_once_is_allowed_where_it_is_named() -> None:
    """The door is open after the knock; where no action is named for that, it is elsewhere."""
    with Held(Door, QuickDoor) as held:
        held.offer("knock")
        assert [at.step and at.step.action.name for at in held.states] == ["unlock"]

    with Held(Door, PlainDoor) as held, pytest.raises(Differs, match="is_open"):
        held.offer("knock")


def test_what_nobody_waits_for_is_not_due() -> None:
    """A door that is never unlocked owes that; unless it is named, and then it may still come."""
    with Held(Door, LazyDoor) as held:
        held.offer("knock")
        held.wait()
        held.code.is_open = True  # type: ignore[union-attr]
        held.wait()
        assert [at.step and at.step.action.name for at in held.states] == ["unlock"]

    class Due(LazyDoor):
        """A lazy door that owes what it does not do."""

        undue: ClassVar[tuple[str, ...]] = ()

    with Held(Door, Due) as held:
        held.offer("knock")
        with pytest.raises(Differs, match="does not do what is due"):
            held.wait()
    assert cover(Door, LazyDoor).mismatch is None
    assert cover(Door, Due).mismatch is not None


def test_what_code_may_refuse_is_no_difference_and_is_counted() -> None:
    """A door that cannot be shut differs, unless that is named; then it is not passed, either."""
    with Held(Door, QuickDoor) as held:
        held.offer("knock")
        held.offer("shut")
        assert held.report.open == {"shut": 1}
        assert held.report.taken == {"knock": 1}

    with Held(Door, WillingDoor) as held:
        held.offer("knock")
        with pytest.raises(Differs, match="refused it"):
            held.offer("shut")


def test_edges_that_code_refuses_are_named() -> None:
    """Of three edges two are taken, and the third is not for a reason of the code's own."""
    found = cover(Door, QuickDoor)

    assert found.mismatch is None
    assert found.taken == {"knock": 1, "unlock": 1, "shut": 0}
    assert [(one.action, one.reason) for one in found.missed] == [("shut", REFUSED)]


def test_tables_that_name_no_action_are_refused() -> None:
    """In each table."""

    class Misspelt(QuickDoor):
        """Names an action that there is not, as one it may refuse."""

        reluctant: ClassVar[tuple[str, ...]] = ("shutt",)

    class Unlocked(QuickDoor):
        """Names another table's action."""

        undue: ClassVar[tuple[str, ...]] = ("unlok",)

    class Followed(QuickDoor):
        """Names what follows wrongly."""

        follows: ClassVar = {"knock": ("unlok",)}

    with pytest.raises(AdapterError, match="reluctant names 'shutt'"):
        Held(Door, Misspelt)
    with pytest.raises(AdapterError, match="undue names 'unlok'"):
        Held(Door, Unlocked)
    with pytest.raises(AdapterError, match="follows names 'unlok'"):
        Held(Door, Followed)
