"""Values that may be absent: to look into one that is has no meaning."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from herdspec import (
    Capacity,
    Nat,
    Sort,
    Spec,
    action,
    always,
    each,
    empty,
    never,
    require,
    sometimes,
    step,
)


class T(Sort):
    """An element."""


class Light(Enum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True)
class Note:
    """A message that somebody sent."""

    light: Light
    who: T | None


class IndexAbsent(Spec):
    """
    Looks up whoever is absent.

    all_down: holds
    meaning: fails 1
    """

    pick: T | None = None
    up: dict[T, bool] = each(False)

    @action
    def raise_it(self) -> None:
        self.up[self.pick] = True  # type: ignore[index]


@always
def all_down(s: IndexAbsent) -> bool:
    return not any(s.up[t] for t in T)


class Narrowed(Spec):
    """
    The assert guards.

    picked_is_up: holds
    up_once: holds 2
    """

    pick: T | None = None
    up: dict[T, bool] = each(False)

    @action
    def choose(self, t: T) -> None:
        require(not any(self.up[x] for x in T))
        self.pick = t

    @action
    def raise_it(self) -> None:
        assert self.pick is not None
        self.up[self.pick] = True


@always
def picked_is_up(s: Narrowed) -> bool:
    return all(not s.up[t] or s.pick == t for t in T)


@sometimes
def up_once(s: Narrowed) -> bool:
    return any(s.up[t] for t in T)


class AfterRelease(Spec):
    """
    Looks up a holder that has gone in between.

    none_marked: fails 2
    meaning: fails 1
    """

    holder: T | None = None
    mark: dict[T, bool] = each(False)

    @action
    def take(self, t: T) -> None:
        require(self.holder is None)
        self.holder = t

    @action
    def release(self) -> None:
        self.mark[self.holder] = True  # type: ignore[index]
        self.holder = None


@always
def none_marked(s: AfterRelease) -> bool:
    return not any(s.mark[t] for t in T)


class AbsentInProperty(Spec):
    """
    A property without a meaning does not hold, and is no witness either.

    green: fails 0
    green_if_any: holds
    ever_red: fails
    next: fails 1
    """

    last: Light | None = None
    note: Note | None = None

    @action
    def write(self) -> None:
        require(self.note is None)
        self.note = Note(Light.GREEN, None)


@always
def green(s: AbsentInProperty) -> bool:
    return s.note.light == Light.GREEN  # type: ignore[union-attr]


@always
def green_if_any(s: AbsentInProperty) -> bool:
    return s.note is None or s.note.light == Light.GREEN


@sometimes
def ever_red(s: AbsentInProperty) -> bool:
    return s.note.light == Light.RED  # type: ignore[union-attr]


class ShortCircuit(Spec):
    """
    `and` and `or` look at their right side only where it matters.

    fine: holds
    ends_up: holds 2
    """

    pick: T | None = None
    up: dict[T, bool] = each(False)

    @action
    def choose(self, t: T) -> None:
        require(self.pick is None or not self.up[self.pick])
        self.pick = t

    @action
    def raise_it(self) -> None:
        require(self.pick is not None and not self.up[self.pick])
        for t in T:
            if self.pick == t:
                self.up[t] = True

    @action
    def reset(self) -> None:
        require(self.pick is not None and self.up[self.pick])
        self.pick = None
        self.up = {t: self.pick == t for t in T}


@always
def fine(s: ShortCircuit) -> bool:
    return s.pick is None or all(not s.up[t] or s.pick == t for t in T)


@sometimes
def ends_up(s: ShortCircuit) -> bool:
    return any(s.up[t] for t in T)


class WrongSide(Spec):
    """
    The guard stands behind what it should guard.

    still_none: fails 1
    meaning: fails 1
    """

    pick: T | None = None
    up: dict[T, bool] = each(True)

    @action
    def ask(self) -> None:
        require(self.up[self.pick] and self.pick is not None)  # type: ignore[index]

    @action
    def choose(self, t: T) -> None:
        self.pick = t


@always
def still_none(s: WrongSide) -> bool:
    return s.pick is None


class OptionalNumber(Spec):
    """
    An optional number, and one of each element.

    two_at_most: holds
    knows_two: holds 3
    next: fails 3
    """

    n: Nat | None = None

    @action
    def tick(self) -> None:
        require(self.n is None or self.n < 2)
        self.n = 0 if self.n is None else self.n + 1


@always
def two_at_most(s: OptionalNumber) -> bool:
    return s.n is None or s.n <= 2


@sometimes
def knows_two(s: OptionalNumber) -> bool:
    return s.n == 2


class AddsAbsent(Spec):
    """
    Adds to a number that is not there.

    none_yet: holds
    meaning: fails 1
    """

    n: Nat | None = None

    @action
    def tick(self) -> None:
        self.n += 1  # type: ignore[operator]


@always
def none_yet(s: AddsAbsent) -> bool:
    return s.n is None


class Pointers(Spec):
    """
    A map whose values may be absent; two steps along it.

    no_own_successor: holds
    two_cycle: holds 2
    """

    after: dict[T, T | None] = each(None)

    @action
    def link(self, a: T, b: T) -> None:
        require(a != b and self.after[a] is None)
        self.after[a] = b

    @action
    def cut(self, a: T) -> None:
        require(self.after[a] is not None)
        self.after[a] = None


@always
def no_own_successor(s: Pointers) -> bool:
    return all(s.after[a] != a for a in T)


@sometimes
def two_cycle(s: Pointers) -> bool:
    return any(s.after[a] == b and s.after[b] == a for a in T for b in T)


class Unsure(Spec):
    """
    An optional bool: absent is neither true nor false.

    decided_once: fails 2
    never_both: holds
    """

    sure: bool | None = None

    @action
    def decide(self, f: bool) -> None:
        self.sure = f


@step
def decided_once(before: Unsure, after: Unsure) -> bool:
    return before.sure is None or before.sure == after.sure


@never
def never_both(s: Unsure) -> bool:
    return (s.sure is None) == (s.sure is not None)


class MatchAbsent(Spec):
    """
    `match` on an optional value.

    goes_round: holds
    reds: holds 1
    greens: holds 2
    """

    light: Light | None = None

    @action
    def turn(self) -> None:
        match self.light:
            case None:
                self.light = Light.RED
            case Light.RED:
                self.light = Light.GREEN
            case _:
                self.light = None


@step
def goes_round(before: MatchAbsent, after: MatchAbsent) -> bool:
    return before.light != after.light


@sometimes
def reds(s: MatchAbsent) -> bool:
    return s.light == Light.RED


@sometimes
def greens(s: MatchAbsent) -> bool:
    return s.light == Light.GREEN


class AbsentPartOfRecord(Spec):
    """
    An optional part of a record is looked at where it is absent, once only.

    never_marked: holds
    meaning: fails 2
    """

    note: Note | None = None
    mark: dict[T, bool] = each(False)

    @action
    def write(self, f: bool) -> None:
        self.note = Note(Light.RED if f else Light.GREEN, None)

    @action
    def mark_it(self) -> None:
        require(self.note is not None and self.note.light == Light.RED)
        assert self.note is not None
        self.mark[self.note.who] = True  # type: ignore[index]


@always
def never_marked(s: AbsentPartOfRecord) -> bool:
    return not any(s.mark[t] for t in T)


class SoughtInVain(Spec):
    """
    Whoever is absent is in no set and in no channel, and discarding him changes nothing.

    found_only_if_there: holds
    found: holds 3
    never_waits: fails 1
    next: holds
    """

    pick: T | None = None
    up: set[T] = empty()
    queue: Annotated[list[T], Capacity(1)] = empty()
    seen: bool = False

    @action
    def put(self, t: T) -> None:
        require(len(self.queue) == 0)
        self.up.add(t)
        self.queue.append(t)

    @action
    def choose(self, t: T) -> None:
        self.pick = t

    @action
    def look(self) -> None:
        self.seen = self.pick in self.queue and self.pick in self.up

    @action
    def drop(self) -> None:
        require(not self.seen)
        self.up.discard(self.pick)


@always
def found_only_if_there(s: SoughtInVain) -> bool:
    return s.pick not in s.queue or s.pick is not None


@sometimes
def found(s: SoughtInVain) -> bool:
    return s.seen and s.pick in s.up and s.pick in s.queue


@never
def never_waits(s: SoughtInVain) -> bool:
    return len(s.queue) > 0 and s.pick not in s.up
