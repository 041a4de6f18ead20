"""Specs whose fairness is of any choice, or of each: servers that may serve one again and again."""

from __future__ import annotations

from typing import Annotated

from herdspec import (
    Nat,
    Sort,
    Spec,
    UpTo,
    action,
    command,
    each,
    eventually,
    eventually_always,
    leads_to,
    require,
    specification,
    strong,
    weak,
)


class Client(Sort):
    """Whoever is served."""


class Counter(Spec):
    """A counter where clients ask again and again, and the clerk may serve one for ever."""

    asks: dict[Client, bool] = each(True)

    @action(fair=weak)
    def serve(self, c: Client) -> None:
        """{c} is served."""
        require(self.asks[c])
        self.asks[c] = False

    @action(kind=command)
    def ask(self, c: Client) -> None:
        """{c} asks."""
        require(not self.asks[c])
        self.asks[c] = True


def serve(self: Counter, c: Client) -> None:
    """{c} is served."""
    require(self.asks[c])
    self.asks[c] = False


@leads_to
def whoever_asks_is_served(s: Counter, c: Client) -> tuple[bool, bool]:
    """Whoever asks is served."""
    return s.asks[c], not s.asks[c]


@leads_to
def somebody_is_served(s: Counter) -> tuple[bool, bool]:
    """Where all ask, somebody is served."""
    return all(s.asks[c] for c in Client), any(not s.asks[c] for c in Client)


@eventually_always
def nobody_asks(s: Counter, c: Client) -> bool:
    """At last nobody asks any more."""
    return not s.asks[c]


COUNTER = specification(Counter, whoever_asks_is_served, somebody_is_served)


class Gate(Spec):
    """A gate that opens and closes by itself; whoever passes it comes back."""

    is_open: bool = False
    passed: Client | None = None

    @action(fair=weak)
    def turn(self) -> None:
        """The gate opens, or closes."""
        self.is_open = not self.is_open

    @action(fair=weak)
    def let_pass(self, c: Client) -> None:
        """{c} passes."""
        require(self.is_open and self.passed != c)
        self.passed = c


def let_pass(self: Gate, c: Client) -> None:
    """{c} passes."""
    require(self.is_open and self.passed != c)
    self.passed = c


@eventually
def it_passes(s: Gate, c: Client) -> bool:
    """The client passes."""
    return s.passed == c


@eventually
def somebody_passes(s: Gate) -> bool:
    """Somebody passes."""
    return s.passed is not None


GATE = specification(Gate, it_passes, somebody_passes)


class Growing(Spec):
    """A number that may grow by nothing or by one: to grow by nothing is no excuse."""

    n: Annotated[Nat, UpTo(2)] = 0

    @action(fair=weak.any)
    def grow(self, really: bool) -> None:
        """It grows, or not."""
        require(self.n < 2)
        if really:
            self.n += 1


@eventually_always
def it_is_grown(s: Growing) -> bool:
    """It comes to two, and stays there."""
    return s.n == 2


class Desk(Spec):
    """One of several desks, which serves anybody."""

    served: dict[Client, bool] = each(False)
    again: bool = False

    @action(fair=strong.any)
    def serve(self, c: Client) -> None:
        """{c} is served."""
        require(not self.served[c])
        self.served[c] = True
        self.again = True

    @action
    def forget(self, c: Client) -> None:
        """The desk forgets {c}."""
        require(self.served[c])
        self.served[c] = False


class Room(Sort):
    """Where a desk stands."""


class Hall(Spec):
    """A desk in each room."""

    desks: dict[Room, Desk]


@eventually
def each_desk_serves(s: Hall, r: Room) -> bool:
    """The desk of each room serves somebody."""
    return s.desks[r].again


class Traffic(Spec):
    """A lamp that flickers for a while, or for ever."""

    lit: bool = False
    fixed: bool = False

    @action(fair=weak)
    def flicker(self) -> None:
        """It flickers."""
        require(not self.fixed)
        self.lit = not self.lit

    @action(fair=weak)
    def fix(self) -> None:
        """It is lit, and stays so."""
        require(self.lit and not self.fixed)
        self.fixed = True


def flicker(self: Traffic) -> None:
    """It flickers."""
    require(not self.fixed)
    self.lit = not self.lit


def fix(self: Traffic) -> None:
    """It is lit, and stays so."""
    require(self.lit and not self.fixed)
    self.fixed = True


@eventually
def it_is_lit(s: Traffic) -> bool:
    """It is lit at last."""
    return s.lit


@eventually_always
def it_stays_lit(s: Traffic) -> bool:
    """From some time on it is lit for ever."""
    return s.lit


TRAFFIC = specification(Traffic, it_is_lit, it_stays_lit)
