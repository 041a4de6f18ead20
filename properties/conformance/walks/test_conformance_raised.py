"""What code or its adapter raises while every edge is taken: told as a story, or as a sentence."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from herdproof.conformance.adapter import Adapter, AdapterError, Refused, check_adapter
from herdproof.conformance.graphs.edges import cover
from herdspec import Nat, Spec, action, require
from herdspec.language.specification import specification


class Switch(Spec):
    """A switch, and how often it was used while it was on."""

    on: bool = False
    uses: Nat = 0

    @action
    def flip(self) -> None:
        """It is turned on, or off."""
        self.on = not self.on

    @action
    def use(self) -> None:
        """It is used."""
        require(self.on)
        self.uses += 1


class Switches(Adapter):
    """A switch that keeps snapshots."""

    def begin(self) -> None:
        """Off."""
        self.on, self.uses = False, 0

    def flip(self) -> None:
        """On, or off."""
        self.on = not self.on

    def use(self) -> None:
        """Use it."""
        if not self.on:
            raise Refused
        if self.uses == 1:
            self._fail()
        self.uses += 1

    def _fail(self) -> None:
        """Nothing goes wrong."""

    def observe(self) -> Mapping[str, Any]:
        """All."""
        return {"on": self.on, "uses": self.uses}

    def snapshot(self) -> Any:
        """All."""
        return self.on, self.uses

    def restore(self, snapshot: Any) -> None:
        """All."""
        self.on, self.uses = snapshot


class Raising(Switches):
    """It is worn after one use."""

    def _fail(self) -> None:
        raise KeyError("worn")


class Leaving(Switches):
    """It ends the process."""

    def _fail(self) -> None:
        raise SystemExit(0)


class Hanging(Switches):
    """It never comes back."""

    timeout = 0.3

    def begin(self) -> None:
        """Off."""
        super().begin()
        self.over = threading.Event()

    def _fail(self) -> None:
        self.over.wait()

    def end(self) -> None:
        """Come back."""
        self.over.set()


class Unwatched(Raising):
    """The same as the first, in the test's own thread."""

    timeout = None


class UnwatchedLeaving(Leaving):
    """The same as the second, in the test's own thread."""

    timeout = None


@pytest.mark.parametrize(
    ("adapter", "said"),
    [
        (Raising, "`use` raised KeyError: 'worn'"),
        (Leaving, "`use` raised SystemExit: 0"),
        (Hanging, "`use` did not return within 0.3 s."),
        (Unwatched, "`use` raised KeyError: 'worn'"),
        (UnwatchedLeaving, "`use` raised SystemExit: 0"),
    ],
)
def test_what_an_edge_raises_is_told_with_the_way_to_it(adapter: type[Adapter], said: str) -> None:
    """Whatever code raises on an edge, and whoever calls it, the story leads to that edge."""
    found = cover(Switch, adapter, bound=3)

    assert found.mismatch is not None
    assert [deed.name for deed in found.mismatch.deeds] == ["flip", "use", "use"]
    assert said in found.mismatch.story


@pytest.mark.parametrize("offered", [(), ("use",)])
@pytest.mark.parametrize("method", ["snapshot", "restore"])
def test_a_snapshot_that_fails_is_the_adapters_fault(method: str, offered: tuple[str]) -> None:
    """What `snapshot` and `restore` raise is said of these, and not of the code."""

    def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    adapter = type("Failing", (Switches,), {method: fail, "offered": offered})

    with pytest.raises(AdapterError, match=rf"Failing\.{method} raised OSError: the disk is full"):
        cover(Switch, adapter, bound=3)


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("chosen is ('use',): write a dict", {"chosen": ("use",)}),
        ("disturbed is ('flip',): write a dict", {"disturbed": ("flip",)}),
        ("absent is ['use']: write a dict", {"absent": ["use"]}),
        ("timeout is -1: write seconds", {"timeout": -1}),
        ("timeout is 'long': write seconds", {"timeout": "long"}),
        ("patience is None: write seconds", {"patience": None}),
    ],
)
def test_tables_of_the_wrong_kind_are_refused(said: str, wrong: Mapping[str, Any]) -> None:
    """A list where a dict is wanted is said in a sentence, before anything is run."""
    adapter: Any = type("Odd", (Switches,), dict(wrong))

    with pytest.raises(AdapterError) as told:
        check_adapter(specification(Switch), adapter)

    assert said in str(told.value)
