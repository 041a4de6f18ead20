"""Composition: parts interleave, but for what a joint action takes together."""

from herdspec import (
    Nat,
    Sort,
    Spec,
    action,
    always,
    each,
    fault,
    initial,
    leads_to,
    never,
    recoverable,
    require,
    sometimes,
    step,
    weak,
)


class T(Sort):
    """An element."""


class Switch(Spec):
    """A part: a switch that may jam."""

    on: bool = False
    jammed: bool = False

    @action
    def press(self) -> None:
        require(not self.jammed)
        self.on = not self.on

    @action(kind=fault)
    def jam(self) -> None:
        require(not self.jammed)
        self.jammed = True

    def usable(self) -> bool:
        return not self.jammed


class Valve(Spec):
    """A part: a valve that is opened once, by itself."""

    open: bool = False

    @action(fair=weak)
    def open_up(self) -> None:
        require(not self.open)
        self.open = True

    @action
    def close(self) -> None:
        require(self.open)
        self.open = False


class Counter(Spec):
    """A part: a counter without end."""

    n: Nat = 0

    @action
    def count(self) -> None:
        self.n += 1


class Pair(Spec):
    """
    Two switches that know nothing of each other.

    not_both_on: fails 2
    not_both_jammed: fails 2
    one_at_a_time: holds
    next: fails 2
    at faults=1:
    not_both_on: fails 2
    not_both_jammed: holds
    one_at_a_time: holds
    """

    left: Switch
    right: Switch


@never
def not_both_on(s: Pair) -> bool:
    return s.left.on and s.right.on


@never
def not_both_jammed(s: Pair) -> bool:
    return s.left.jammed and s.right.jammed


@step
def one_at_a_time(before: Pair, after: Pair) -> bool:
    return before.left.on == after.left.on or before.right.on == after.right.on


class Coupled(Spec):
    """
    A joint action presses both: they are always alike.

    alike: holds
    lit: holds 1
    next: fails 2
    at faults=0:
    alike: holds
    lit: holds 1
    dead: left.jam, right.jam
    """

    left: Switch
    right: Switch

    @action
    def press_both(self) -> None:
        self.left.press()
        self.right.press()

    @action
    def idle(self) -> None:
        require(self.left.usable() and not self.right.jammed)


@always
def alike(s: Coupled) -> bool:
    return s.left.on == s.right.on


@sometimes
def lit(s: Coupled) -> bool:
    return s.left.on and s.right.on


class HalfCoupled(Spec):
    """
    A joint action takes one part's action; the other's is free.

    follows: fails 1
    left_never_alone: fails 1
    """

    left: Switch
    right: Valve

    @action
    def press_and_open(self) -> None:
        self.left.press()
        require(not self.right.open)


@always
def follows(s: HalfCoupled) -> bool:
    return s.left.on or not s.right.open


@never
def left_never_alone(s: HalfCoupled) -> bool:
    return s.left.on and not s.right.open


class Valves(Spec):
    """
    A part for each element, each fair by itself.

    opens: holds
    all_open: holds 2
    shut_again: holds
    """

    valve: dict[T, Valve]


@leads_to
def opens(s: Valves, t: T) -> tuple[bool, bool]:
    return not s.valve[t].open, s.valve[t].open


@sometimes
def all_open(s: Valves) -> bool:
    return all(s.valve[t].open for t in T)


@recoverable
def shut_again(s: Valves) -> bool:
    return not any(s.valve[t].open for t in T)


class Alarm(Spec):
    """
    An alarm closes a valve and the front in one step; parts open by themselves.

    front_shut: fails 4
    rooms_shut_with_it: holds
    next: fails 6
    """

    front: Valve
    rooms: dict[T, Valve]
    rung: bool = False

    @action
    def fire(self, t: T) -> None:
        require(not self.rung)
        self.front.close()
        self.rooms[t].close()
        self.rung = True


@always
def front_shut(s: Alarm) -> bool:
    return not (s.rung and s.front.open)


@step
def rooms_shut_with_it(before: Alarm, after: Alarm) -> bool:
    return (
        not before.front.open
        or after.front.open
        or any(before.rooms[t].open and not after.rooms[t].open for t in T)
    )


class BegunOpen(Spec):
    """
    The initial method takes a part's action; the action remains free.

    open_at_first: fails 1
    closed_once: holds 1
    """

    front: Valve

    @initial
    def opened(self) -> None:
        self.front.open_up()


@always
def open_at_first(s: BegunOpen) -> bool:
    return s.front.open


@sometimes
def closed_once(s: BegunOpen) -> bool:
    return not s.front.open


class TwoCounters(Spec):
    """
    Two parts count without end, jointly: they never differ.

    never_apart: open
    meaning: open
    next: open
    """

    one: Counter
    two: Counter

    @action
    def both(self) -> None:
        self.one.count()
        self.two.count()


@always
def never_apart(s: TwoCounters) -> bool:
    return s.one.n == s.two.n


class TwoCountersApart(Spec):
    """
    The same, each by itself: six apart after six steps, beyond the default bound.

    near: fails 6
    next: open
    meaning: open
    """

    one: Counter
    two: Counter


@always
def near(s: TwoCountersApart) -> bool:
    return s.one.n < 6


class Box(Spec):
    """A part with a part."""

    inner: Valve
    sealed: bool = False

    @action
    def seal(self) -> None:
        require(not self.inner.open)
        self.sealed = not self.sealed


class Nested(Spec):
    """
    Parts may have parts: nothing keeps the innermost from opening.

    sealed_is_shut: fails 2
    inner_opens: holds 1
    """

    box: Box


@always
def sealed_is_shut(s: Nested) -> bool:
    return not (s.box.sealed and s.box.inner.open)


@sometimes
def inner_opens(s: Nested) -> bool:
    return s.box.inner.open


def valve_shut(v: Valve) -> bool:
    """A helper about a part."""
    return not v.open


class ByPartsHelper(Spec):
    """
    A property of the whole calls a helper of a part.

    all_shut: fails 1
    """

    valve: dict[T, Valve]
    extra: bool = False

    @action
    def note(self, t: T) -> None:
        require(self.valve[t].open)
        self.extra = True


@always
def all_shut(s: ByPartsHelper) -> bool:
    return all(valve_shut(s.valve[t]) for t in T)


class WritesPart(Spec):
    """
    The whole writes a part's field.

    never_forced: fails 1
    """

    valves: dict[T, Valve]
    forced: dict[T, bool] = each(False)

    @action
    def force(self, t: T) -> None:
        require(not self.valves[t].open)
        self.valves[t].open = True
        self.forced[t] = True


@never
def never_forced(s: WritesPart) -> bool:
    return any(s.forced[t] and s.valves[t].open for t in T)
