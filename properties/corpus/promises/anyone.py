"""Fairness of any choice, and what holds from some time on for ever."""

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
    fault,
    leads_to,
    require,
    specification,
    strong,
    weak,
)

Few = Annotated[Nat, UpTo(3)]


class T(Sort):
    """An element."""


class Clerk(Spec):
    """
    A clerk who serves somebody, perhaps always the same.

    somebody_is_served: holds
    whoever_asks_is_served: fails
    nobody_asks_at_last: fails
    at T=1:
    somebody_is_served: holds
    whoever_asks_is_served: holds
    nobody_asks_at_last: fails
    """

    asks: dict[T, bool] = each(True)

    @action(kind=command)
    def ask(self, t: T) -> None:
        require(not self.asks[t])
        self.asks[t] = True

    @action(fair=weak.any)
    def serve(self, t: T) -> None:
        require(self.asks[t])
        self.asks[t] = False


@leads_to
def somebody_is_served(s: Clerk) -> tuple[bool, bool]:
    return all(s.asks[t] for t in T), any(not s.asks[t] for t in T)


@leads_to
def whoever_asks_is_served(s: Clerk, t: T) -> tuple[bool, bool]:
    return s.asks[t], not s.asks[t]


@eventually_always
def nobody_asks_at_last(s: Clerk) -> bool:
    return all(not s.asks[t] for t in T)


class Gate(Spec):
    """
    A gate that opens and closes: what is only weakly fair may always come too late.

    somebody_passes: fails
    everybody_passes: fails
    """

    is_open: bool = False
    last: T | None = None

    @action(fair=weak)
    def turn(self) -> None:
        self.is_open = not self.is_open

    @action(fair=weak.any)
    def let_pass(self, t: T) -> None:
        require(self.is_open and self.last != t)
        self.last = t


@eventually
def somebody_passes(s: Gate) -> bool:
    return s.last is not None


@eventually
def everybody_passes(s: Gate, t: T) -> bool:
    return s.last == t


GATE = specification(Gate, somebody_passes, everybody_passes)


@action(fair=strong.any)
def let_pass_in_time(self: Gate, t: T) -> None:
    require(self.is_open and self.last != t)
    self.last = t


STRONG = GATE.drop("Shut", "let_pass").add("Strong", let_pass_in_time=let_pass_in_time)
"""
Two must take turns, of three one may starve.

somebody_passes: holds
everybody_passes: holds
at T=3:
somebody_passes: holds
everybody_passes: fails
"""


class NoExcuse(Spec):
    """
    To choose what changes nothing is not possible: it excuses nobody.

    grown: holds
    full_for_ever: holds
    next: fails 3
    """

    n: Few = 0

    @action(fair=weak.any)
    def grow(self, really: bool) -> None:
        require(self.n < 3)
        if really:
            self.n += 1


@eventually
def grown(s: NoExcuse) -> bool:
    return s.n == 3


@eventually_always
def full_for_ever(s: NoExcuse) -> bool:
    return s.n == 3


class Either(Spec):
    """
    Of two ways one may be taken for ever; each by itself must be taken.

    out: fails
    out_by_itself: holds
    """

    here: bool = False
    left: bool = False
    right: bool = False

    @action(fair=weak.any)
    def go(self, away: bool) -> None:
        self.here = not self.here
        if away:
            self.left = True

    @action(fair=weak)
    def go_each(self, away: bool) -> None:
        if away:
            self.right = True


@eventually
def out(s: Either) -> bool:
    return s.left


@eventually
def out_by_itself(s: Either) -> bool:
    return s.right


class Room(Spec):
    """A room whose lamp is switched on and off for ever."""

    on: bool = False
    used: bool = False

    @action(fair=weak.any)
    def switch(self, to: bool) -> None:
        require(self.on != to)
        self.on = to
        self.used = True


class House(Spec):
    """
    The action of a part is fair for each part: no room's lamp excuses another's.

    every_room_is_used: holds
    used_for_ever: holds
    dark_for_ever: fails
    """

    rooms: dict[T, Room]


@eventually
def every_room_is_used(s: House, t: T) -> bool:
    return s.rooms[t].used


@eventually_always
def used_for_ever(s: House) -> bool:
    return all(s.rooms[t].used for t in T)


@eventually_always
def dark_for_ever(s: House, t: T) -> bool:
    return not s.rooms[t].on


class ForAWhile(Spec):
    """
    A round without end, into which a way leads that is never gone again.

    at_two: holds
    at_two_for_ever: fails
    never_at_zero_again: holds
    """

    n: Few = 0

    @action(fair=weak)
    def go_on(self) -> None:
        self.n = self.n % 3 + 1


@eventually
def at_two(s: ForAWhile) -> bool:
    return s.n == 2


@eventually_always
def at_two_for_ever(s: ForAWhile) -> bool:
    return s.n == 2


@eventually_always
def never_at_zero_again(s: ForAWhile) -> bool:
    return s.n > 0


class FaultsAreFew(Spec):
    """
    What faults undo is done again; what commands undo, again and again.

    up_for_good: holds
    quiet_for_good: fails
    torn_for_good: fails
    """

    up: bool = False
    quiet: bool = True

    @action(kind=fault)
    def crash(self) -> None:
        require(self.up)
        self.up = False

    @action(fair=weak)
    def restart(self) -> None:
        require(not self.up)
        self.up = True

    @action(kind=command)
    def call(self) -> None:
        self.quiet = False

    @action(fair=strong)
    def answer(self) -> None:
        require(not self.quiet)
        self.quiet = True


@eventually_always
def up_for_good(s: FaultsAreFew) -> bool:
    return s.up


@eventually_always
def quiet_for_good(s: FaultsAreFew) -> bool:
    return s.quiet


@eventually_always
def torn_for_good(s: FaultsAreFew) -> bool:
    return not s.up


class Nobody(Spec):
    """
    Where a promise has no meaning it does not hold; a `leads_to` is due there.

    asked_by_the_first: fails
    the_chosen_is_lit: fails
    lit_for_ever: fails
    """

    chosen: T | None = None
    lit: dict[T, bool] = each(True)

    @action(kind=command)
    def choose(self, t: T) -> None:
        self.chosen = t


@leads_to
def asked_by_the_first(s: Nobody) -> tuple[bool, bool]:
    return not s.lit[s.chosen], s.lit[s.chosen]  # type: ignore[index]


@eventually
def the_chosen_is_lit(s: Nobody) -> bool:
    return s.lit[s.chosen]  # type: ignore[index]


@eventually_always
def lit_for_ever(s: Nobody) -> bool:
    return s.lit[s.chosen]  # type: ignore[index]


NOBODY = specification(Nobody, asked_by_the_first, the_chosen_is_lit, lit_for_ever)
"""
asked_by_the_first: fails
the_chosen_is_lit: fails
lit_for_ever: fails
"""


@action(fair=weak.any)
def choose_at_last(self: Nobody, t: T) -> None:
    self.chosen = t


SOMEBODY = NOBODY.drop("None", "choose").add("Somebody", choose_at_last=choose_at_last)
"""
The same where somebody is chosen at last; nothing ever has the premise but for want of a meaning.

asked_by_the_first: holds
the_chosen_is_lit: holds
lit_for_ever: holds
"""
