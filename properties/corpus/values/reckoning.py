"""Remainders and quotients, messages by their number, functions of the module in actions."""

from enum import Enum
from typing import Annotated

from herdspec import (
    Capacity,
    Nat,
    Sort,
    Spec,
    UpTo,
    action,
    always,
    each,
    empty,
    require,
    sometimes,
    step,
)

SEATS = 3
Few = Annotated[Nat, UpTo(2)]
Seat = Annotated[Nat, UpTo(5)]


class T(Sort):
    """An element."""


class Hand(Enum):
    LEFT = "left"
    RIGHT = "right"


class Ring(Spec):
    """
    Seats of a ring, by remainder and quotient.

    within: holds
    the_same_side: fails 3
    again: holds 5
    parts_make_it_whole: holds
    """

    seat: Seat = 0

    @action
    def go_on(self) -> None:
        self.seat = (self.seat + 1) % 6


@always
def within(s: Ring) -> bool:
    return s.seat % SEATS <= 2 and s.seat // SEATS <= 1


@always
def the_same_side(s: Ring) -> bool:
    return s.seat // SEATS == 0


@sometimes
def again(s: Ring) -> bool:
    return s.seat % SEATS == 2 and s.seat // SEATS == 1


@always
def parts_make_it_whole(s: Ring) -> bool:
    halves = s.seat // 2
    return halves + halves + s.seat % 2 == s.seat


class Shares(Spec):
    """
    Something is shared among nobody: that has no meaning, in an action and in a property.

    fits: fails 0
    fits_among_some: fails 2
    meaning: fails 1
    """

    among: Few = 0
    share: Nat = 0

    @action
    def come(self) -> None:
        require(self.among < 2)
        self.among += 1

    @action
    def divide(self) -> None:
        self.share = 3 // self.among


@always
def fits(s: Shares) -> bool:
    return 4 % s.among == 0


@always
def fits_among_some(s: Shares) -> bool:
    return s.among == 0 or 3 % s.among == 0


class Downwards(Spec):
    """
    Below zero, quotients go down: in conditions, where numbers may be below zero.

    rounds_down: holds
    remains_above: holds
    rounds_to_zero: fails 1
    next: fails 2
    """

    n: Few = 0

    @action
    def count(self) -> None:
        require(self.n < 2)
        self.n += 1


@always
def rounds_down(s: Downwards) -> bool:
    return (0 - s.n) // 2 + (s.n + 1) // 2 == 0


@always
def remains_above(s: Downwards) -> bool:
    return 0 <= (0 - s.n) % 3 < 3


@always
def rounds_to_zero(s: Downwards) -> bool:
    return (1 - s.n) // 2 == 0 and (0 - s.n) // 2 == 0


class ShortQueue(Spec):
    """
    A look at the third message of two, and at the last of none.

    second_is_there: fails 0
    second_if_any: holds
    last_is_true: fails 0
    last_if_any: fails 1
    meaning: fails 1
    """

    q: Annotated[list[bool], Capacity(3)] = empty()
    got: bool = False

    @action
    def send(self, what: bool) -> None:
        require(len(self.q) < 2)
        self.q.append(what)

    @action
    def look(self) -> None:
        self.got = self.q[2]


@always
def second_is_there(s: ShortQueue) -> bool:
    return s.q[1] or not s.q[1]


@always
def second_if_any(s: ShortQueue) -> bool:
    return len(s.q) < 2 or s.q[1] in (True, False)


@always
def last_is_true(s: ShortQueue) -> bool:
    return s.q[-1] or True


@always
def last_if_any(s: ShortQueue) -> bool:
    return len(s.q) == 0 or s.q[-1]


class Order(Spec):
    """
    The last is what was sent last, the first what was sent first; a look at one changes nothing.

    last_is_newest: holds
    last_by_length: holds
    first_is_newest: fails 2
    seen_was_there: holds
    looks_are_harmless: holds
    second_is_seen: holds 3
    """

    q: Annotated[list[T], Capacity(2)] = empty()
    newest: T | None = None
    seen: T | None = None

    @action
    def send(self, t: T) -> None:
        require(len(self.q) < 2)
        self.q.append(t)
        self.newest = self.q[-1]

    @action
    def look(self, k: Annotated[Nat, UpTo(1)]) -> None:
        require(len(self.q) > 1 or (k == 0 and len(self.q) > 0))
        self.seen = self.q[k]

    @action
    def take(self) -> None:
        require(len(self.q) > 0)
        self.q.pop(0)
        self.seen = None


@always
def last_is_newest(s: Order) -> bool:
    return len(s.q) == 0 or s.q[-1] == s.newest


@always
def last_by_length(s: Order) -> bool:
    return len(s.q) == 0 or s.q[len(s.q) - 1] == s.q[-1]


@always
def first_is_newest(s: Order) -> bool:
    return len(s.q) == 0 or s.q[0] == s.newest


@always
def seen_was_there(s: Order) -> bool:
    return s.seen is None or s.seen in s.q


@step
def looks_are_harmless(before: Order, after: Order) -> bool:
    return before.seen == after.seen or all(t in after.q for t in T if t == after.seen)


@sometimes
def second_is_seen(s: Order) -> bool:
    return len(s.q) == 2 and s.seen == s.q[1] and s.seen != s.q[0]


class Once(Spec):
    """
    Nobody stands in a queue twice; `in` asks for all messages, not for the first.

    no_twins: holds
    everybody_waits: holds 2
    first_waits: fails 1
    at T=3:
    no_twins: holds
    everybody_waits: fails
    first_waits: fails 1
    """

    q: Annotated[list[T], Capacity(2)] = empty()

    @action
    def join(self, t: T) -> None:
        require(t not in self.q and len(self.q) < 2)
        self.q.append(t)

    @action
    def leave(self) -> None:
        require(len(self.q) > 0)
        self.q.pop(0)


@always
def no_twins(s: Once) -> bool:
    return len(s.q) < 2 or s.q[0] != s.q[1]


@sometimes
def everybody_waits(s: Once) -> bool:
    return all(t in s.q for t in T)


@always
def first_waits(s: Once) -> bool:
    return all(t not in s.q for t in T)


def free(s: "Desk", t: T) -> bool:
    """Whether a hand of the element is free, seen by way of a branch."""
    if s.left[t]:
        return not s.right[t]
    return True


def hand(s: "Desk", t: T) -> Hand:
    """The hand that takes."""
    return Hand.RIGHT if s.left[t] else Hand.LEFT


def take(s: "Desk", t: T, n: int) -> None:
    """Takes so many; not possible with both hands full."""
    require(free(s, t))
    match hand(s, t):
        case Hand.LEFT:
            s.left[t] = True
        case Hand.RIGHT:
            s.right[t] = True
    s.taken = more(s.taken, n)


def more(n: int, by: int) -> int:
    """A number and some."""
    return n + by


class Desk(Spec):
    """
    Functions of the module that give a value, change the state, forbid, and call each other.

    left_first: holds
    counted: holds
    never_four: fails 4
    never_both: fails 2
    next: fails 4
    """

    left: dict[T, bool] = each(False)
    right: dict[T, bool] = each(False)
    taken: Nat = 0

    @action
    def reach(self, t: T) -> None:
        take(self, t, more(0, 1))


@always
def left_first(s: Desk) -> bool:
    return all(s.left[t] or not s.right[t] for t in T)


@always
def counted(s: Desk) -> bool:
    hands = sum(1 for t in T if s.left[t]) + sum(1 for t in T if s.right[t])
    return s.taken == hands


@always
def never_four(s: Desk) -> bool:
    return s.taken < 4


@always
def never_both(s: Desk) -> bool:
    return all(free(s, t) for t in T)


def shut(s: "Lift") -> None:
    """Shuts the door of a lift, which the door allows while it is open."""
    s.door.close()


class Door(Spec):
    """A door of a lift."""

    is_open: bool = True

    @action
    def close(self) -> None:
        require(self.is_open)
        self.is_open = False

    @action
    def open(self) -> None:
        require(not self.is_open)
        self.is_open = True


class Lift(Spec):
    """
    An action is joint though it calls a part's action by a function: the door is never shut alone.

    shut_while_gone: holds
    goes: holds 1
    """

    door: Door
    trips: Few = 0

    @action
    def go(self) -> None:
        shut(self)
        self.trips = (self.trips + 1) % 3


@step
def shut_while_gone(before: Lift, after: Lift) -> bool:
    return after.door.is_open or after.trips == (before.trips + 1) % 3


@sometimes
def goes(s: Lift) -> bool:
    return s.trips == 1
