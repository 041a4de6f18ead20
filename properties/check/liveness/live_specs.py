"""Small specs with promises of liveness: clocks, doors, waiters; most from other tools' bugs."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from herdspec import (
    Capacity,
    Nat,
    Sort,
    Spec,
    UpTo,
    action,
    axiom,
    command,
    constraint,
    each,
    empty,
    eventually,
    fault,
    initial,
    leads_to,
    recoverable,
    require,
    specification,
    strong,
    weak,
)

# ── Clocks ──────────────────────────────────────────────────────────────────────────────────────


class Clock(Spec):
    """A clock that never stops."""

    n: Nat = 0
    rang: bool = False

    @action(fair=weak)
    def tick(self) -> None:
        """It ticks."""
        self.n += 1


class ShortClock(Spec):
    """A clock that stops at three."""

    n: Annotated[Nat, UpTo(3)] = 0
    rang: bool = False

    @action(fair=weak)
    def tick(self) -> None:
        """It ticks."""
        require(self.n < 3)
        self.n += 1


class LateClock(Spec):
    """A clock that stops at seven, which only its guard says."""

    n: Nat = 0
    rang: bool = False

    @action(fair=weak)
    def tick(self) -> None:
        """It ticks."""
        require(self.n < 7)
        self.n += 1


@constraint
def not_beyond_two(s: ShortClock) -> bool:
    """The clock is looked at up to two."""
    return s.n < 2


@eventually
def it_rings(s: Clock) -> bool:
    """At last it rings."""
    return s.rang


@eventually
def it_comes_to_two(s: Clock) -> bool:
    """At last it comes to two."""
    return s.n == 2


@leads_to
def what_rings_is_at_two(s: Clock) -> tuple[bool, bool]:
    """A clock that rings comes to two."""
    return s.rang, s.n == 2


# ── Spending and sending ────────────────────────────────────────────────────────────────────────


class Spending(Spec):
    """Somebody spends what may not be there."""

    n: Annotated[Nat, UpTo(2)] = 1
    done: bool = False

    @action(fair=weak)
    def spend(self) -> None:
        """It spends one."""
        self.done = self.n == 0
        self.n -= 1


class Sending(Spec):
    """Messages are sent, and never read."""

    queue: Annotated[list[bool], Capacity(2)] = empty()
    done: bool = False

    @action(fair=weak)
    def send(self) -> None:
        """One more is sent."""
        self.queue.append(True)


@eventually
def it_is_done(s: Spending) -> bool:
    """It is done at last."""
    return s.done


# ── Doors ───────────────────────────────────────────────────────────────────────────────────────


class Door(Spec):
    """A door that may be opened once."""

    is_open: bool = False

    @action
    def open(self) -> None:
        """It is opened."""
        require(not self.is_open)
        self.is_open = True


class FairDoor(Spec):
    """A door that is opened at last."""

    is_open: bool = False

    @action(fair=weak)
    def open(self) -> None:
        """It is opened."""
        require(not self.is_open)
        self.is_open = True


@eventually
def it_opens(s: Door) -> bool:
    """At last it is open."""
    return s.is_open


@leads_to
def it_never_stays_open(s: Door) -> tuple[bool, bool]:
    """It is always closed again (it is not)."""
    return True, not s.is_open


# ── A diamond ───────────────────────────────────────────────────────────────────────────────────


class Place(Enum):
    """Where a walker is."""

    TOP = "top"
    LEFT = "left"
    RIGHT = "right"
    BOTTOM = "bottom"


class Diamond(Spec):
    """Two ways lead from the top to the bottom."""

    at: Place = Place.TOP

    @action(fair=weak)
    def fork(self, left: bool) -> None:
        """It goes left, or right."""
        require(self.at == Place.TOP)
        self.at = Place.LEFT if left else Place.RIGHT

    @action(fair=weak)
    def join(self) -> None:
        """It goes to the bottom."""
        require(self.at in (Place.LEFT, Place.RIGHT))
        self.at = Place.BOTTOM


@eventually
def it_goes_left(s: Diamond) -> bool:
    """It goes left at last (it need not)."""
    return s.at == Place.LEFT


@eventually
def it_comes_down(s: Diamond) -> bool:
    """It comes to the bottom at last."""
    return s.at == Place.BOTTOM


# ── A round ─────────────────────────────────────────────────────────────────────────────────────


class Round(Spec):
    """A walker who goes round for ever, past a door."""

    at: Place = Place.TOP
    inside: bool = False

    @action(fair=weak)
    def walk(self) -> None:
        """It walks on."""
        require(not self.inside)
        match self.at:
            case Place.TOP:
                self.at = Place.RIGHT
            case Place.RIGHT:
                self.at = Place.BOTTOM
            case Place.BOTTOM:
                self.at = Place.TOP

    @action(fair=weak)
    def enter(self) -> None:
        """It goes in."""
        require(self.at == Place.BOTTOM and not self.inside)
        self.inside = True


def enter_firmly(self: Round) -> None:
    """It goes in."""
    require(self.at == Place.BOTTOM and not self.inside)
    self.inside = True


@eventually
def it_gets_in(s: Round) -> bool:
    """It gets in at last."""
    return s.inside


@recoverable
def it_can_get_in(s: Round) -> bool:
    """It can get in from wherever it is."""
    return s.inside


ROUND = specification(Round, it_gets_in)
FIRM = ROUND.replace("Firm", enter=action(fair=strong)(enter_firmly))


class Stroll(Spec):
    """A walker between two places, who may pass a gate."""

    at: Place = Place.TOP
    inside: bool = False

    @action(fair=weak)
    def walk(self) -> None:
        """It walks to the other side."""
        require(self.at in (Place.TOP, Place.LEFT) and not self.inside)
        self.at = Place.LEFT if self.at == Place.TOP else Place.TOP

    @action
    def stray(self) -> None:
        """It strays to the gate, or back."""
        require(self.at in (Place.TOP, Place.RIGHT) and not self.inside)
        self.at = Place.RIGHT if self.at == Place.TOP else Place.TOP

    @action(fair=strong)
    def enter(self) -> None:
        """It goes in."""
        require(self.at == Place.RIGHT and not self.inside)
        self.inside = True


# ── Tables ──────────────────────────────────────────────────────────────────────────────────────


class Guest(Sort):
    """Somebody at a table."""


class Table(Spec):
    """A waiter serves whoever is hungry."""

    hungry: dict[Guest, bool] = each(True)

    @action(fair=weak)
    def serve(self, g: Guest) -> None:
        """{g} is served."""
        require(self.hungry[g])
        self.hungry[g] = False

    @action(kind=command)
    def ask(self, g: Guest) -> None:
        """{g} is hungry again."""
        require(not self.hungry[g])
        self.hungry[g] = True


@leads_to
def whoever_is_hungry_is_served(s: Table, g: Guest) -> tuple[bool, bool]:
    """Whoever is hungry is served."""
    return s.hungry[g], not s.hungry[g]


@leads_to
def somebody_is_served(s: Table) -> tuple[bool, bool]:
    """Somebody is not hungry, again and again."""
    return True, any(not s.hungry[g] for g in Guest)


class Busy(Spec):
    """A waiter who serves anybody: what is fair is to serve, not to serve this one."""

    hungry: dict[Guest, bool] = each(True)
    chosen: Guest | None = None

    @action
    def choose(self, g: Guest) -> None:
        """The waiter looks at {g}."""
        require(self.chosen is None and self.hungry[g])
        self.chosen = g

    @action(fair=weak)
    def serve(self, g: Guest) -> None:
        """{g} is served."""
        require(self.chosen == g)
        self.chosen = None
        self.hungry[g] = False

    @action(fair=weak)
    def digest(self, g: Guest) -> None:
        """{g} is hungry again."""
        require(not self.hungry[g])
        self.hungry[g] = True


def choose_at_last(self: Busy, g: Guest) -> None:
    """The waiter looks at {g}."""
    require(self.chosen is None and self.hungry[g])
    self.chosen = g


BUSY = specification(Busy, whoever_is_hungry_is_served, somebody_is_served)

# ── A broadcast ─────────────────────────────────────────────────────────────────────────────────


class Value(Sort):
    """What is broadcast."""


class Process(Sort):
    """Who gets it."""


class Broadcast(Spec):
    """One value is broadcast, and delivered to every process (TLC, issue 644)."""

    sent: Value | None = None
    got: dict[Process, Value | None] = each(None)

    @action(fair=weak)
    def broadcast(self, v: Value) -> None:
        """{v} is broadcast."""
        require(self.sent is None)
        self.sent = v

    @action(fair=weak)
    def deliver(self, p: Process, v: Value) -> None:
        """{p} gets {v}."""
        require(self.sent == v and self.got[p] is None)
        self.got[p] = v


@eventually
def every_process_gets_it(s: Broadcast, p: Process) -> bool:
    """Every process gets a value."""
    return s.got[p] is not None


@leads_to
def one_gets_what_another_got(s: Broadcast, p: Process, q: Process, v: Value) -> tuple[bool, bool]:
    """What one process gets, every other gets too."""
    return s.got[p] == v, s.got[q] == v


# ── Steps that change nothing ───────────────────────────────────────────────────────────────────


class Pinging(Spec):
    """A server that answers pings, by which nothing changes, and may be asked to stop."""

    stopped: bool = False

    @action(fair=strong)
    def ping(self) -> None:
        """It answers a ping."""
        require(not self.stopped)
        self.stopped = False

    @action
    def stop(self) -> None:
        """It stops."""
        self.stopped = True


class Growing(Spec):
    """A number that may grow by nothing or by one (tla-rs, issue 63)."""

    n: Annotated[Nat, UpTo(3)] = 0

    @action(fair=weak)
    def grow(self, really: bool) -> None:
        """It grows, or not."""
        require(self.n < 3)
        if really:
            self.n += 1


@eventually
def it_stops(s: Pinging) -> bool:
    """It stops at last."""
    return s.stopped


@eventually
def it_is_grown(s: Growing) -> bool:
    """It comes to three."""
    return s.n == 3


# ── A lamp ──────────────────────────────────────────────────────────────────────────────────────


class Lamp(Spec):
    """A lamp that is on or off at first, and may break."""

    lit: bool = False
    broken: bool = False

    @initial
    def as_it_was(self, lit: bool) -> None:
        """It is as it was left."""
        self.lit = lit

    @action(fair=weak)
    def switch(self) -> None:
        """It is switched."""
        require(not self.broken)
        self.lit = not self.lit

    @action(kind=fault)
    def breaks(self) -> None:
        """It breaks."""
        require(not self.broken)
        self.broken = True


@eventually
def it_shines(s: Lamp) -> bool:
    """It shines at last."""
    return s.lit


@leads_to
def what_breaks_shines_again(s: Lamp) -> tuple[bool, bool]:
    """Whatever breaks shines again."""
    return s.broken, s.lit


LAMP = specification(Lamp, it_shines, what_breaks_shines_again)


class Wired(Spec):
    """A lamp in a house with power, or without."""

    powered: bool = False
    lit: bool = False

    @initial
    def found(self, powered: bool) -> None:
        """The house is found with power, or without."""
        self.powered = powered

    @action(fair=weak)
    def light(self) -> None:
        """It is lit."""
        require(self.powered and not self.lit)
        self.lit = True


@eventually
def it_is_lit(s: Wired) -> bool:
    """It is lit at last."""
    return s.lit


@axiom
def there_is_power(s: Wired) -> bool:
    """The house has power."""
    return s.powered
