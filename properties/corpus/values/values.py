"""Records, sets, relations and cardinalities."""

from dataclasses import dataclass
from enum import Enum

from herdspec import (
    Sort,
    Spec,
    action,
    always,
    each,
    empty,
    never,
    recoverable,
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
    """A record."""

    light: Light
    who: T


@dataclass(frozen=True)
class Letter:
    """A record within a record."""

    note: Note
    urgent: bool


class Joined(Spec):
    """
    Elements join and leave a set.

    out_is_the_rest: holds
    all_in: holds 2
    never_all: fails 2
    """

    inside: set[T] = empty()
    out: dict[T, bool] = each(True)

    @action
    def join(self, t: T) -> None:
        require(t not in self.inside)
        self.inside.add(t)
        self.out[t] = False

    @action
    def leave(self, t: T) -> None:
        require(t in self.inside)
        self.inside.discard(t)
        self.out[t] = True


@always
def out_is_the_rest(s: Joined) -> bool:
    return all((t in s.inside) != s.out[t] for t in T)


@sometimes
def all_in(s: Joined) -> bool:
    return all(t in s.inside for t in T)


@never
def never_all(s: Joined) -> bool:
    return len(s.inside) == 2


class TwoSets(Spec):
    """
    One set stays within another.

    within: holds
    the_same: holds
    apart: fails 2
    """

    known: set[T] = empty()
    heard: set[T] = empty()

    @action
    def hear(self, t: T) -> None:
        self.heard |= {t}

    @action
    def learn(self, t: T) -> None:
        require(t in self.heard)
        self.known = self.known | {t}

    @action
    def forget(self) -> None:
        self.known = self.known & empty()
        self.heard = self.heard - self.known


@always
def within(s: TwoSets) -> bool:
    return s.known <= s.heard


@recoverable
def the_same(s: TwoSets) -> bool:
    return s.known == s.heard


@never
def apart(s: TwoSets) -> bool:
    return len(s.known) == 1 and s.known == s.heard


class Marks(Spec):
    """
    A set of pairs, and a relation of two sorts of key.

    same: holds
    both_colours: fails 2
    next: fails 4
    """

    marks: set[tuple[T, Light]] = empty()
    rel: dict[tuple[T, Light], bool] = each(False)

    @action
    def mark(self, t: T, c: Light) -> None:
        require((t, c) not in self.marks)
        self.marks.add((t, c))
        self.rel[t, c] = True


@always
def same(s: Marks) -> bool:
    return all(((t, c) in s.marks) == s.rel[t, c] for t in T for c in Light)


@never
def both_colours(s: Marks) -> bool:
    return any(s.rel[t, Light.RED] and s.rel[t, Light.GREEN] for t in T)


class Sent(Spec):
    """
    A set of records that only grows.

    grows: holds
    one_light_each: fails 2
    somebody_red: holds 1
    """

    sent: set[Note] = empty()

    @action
    def send(self, t: T, c: Light) -> None:
        self.sent.add(Note(light=c, who=t))


@step
def grows(before: Sent, after: Sent) -> bool:
    return before.sent <= after.sent


@always
def one_light_each(s: Sent) -> bool:
    return all(m.who != k.who or m.light == k.light for m in s.sent for k in s.sent)


@sometimes
def somebody_red(s: Sent) -> bool:
    return any(m.light == Light.RED for m in s.sent)


class Letters(Spec):
    """
    A record within a record.

    urgent_is_red: holds
    green_is_there: holds 1
    not_urgent: fails 1
    """

    last: Letter | None = None

    @action
    def write(self, t: T) -> None:
        self.last = Letter(Note(Light.GREEN, t), False)

    @action
    def hurry(self, t: T) -> None:
        self.last = Letter(note=Note(Light.RED, t), urgent=True)


@always
def urgent_is_red(s: Letters) -> bool:
    return s.last is None or not s.last.urgent or s.last.note.light == Light.RED


@sometimes
def green_is_there(s: Letters) -> bool:
    return s.last is not None and s.last.note.light == Light.GREEN


@never
def not_urgent(s: Letters) -> bool:
    return s.last is not None and s.last.urgent


class Copied(Spec):
    """
    Assignment copies: two fields never share a map.

    old_is_behind: holds
    next: fails 2
    """

    now: dict[T, bool] = each(False)
    old: dict[T, bool] = each(False)
    stage: Light = Light.RED

    @action
    def keep(self) -> None:
        require(self.stage == Light.RED)
        self.old = self.now
        self.stage = Light.GREEN

    @action
    def change(self, t: T) -> None:
        require(self.stage == Light.GREEN and not any(self.now[x] for x in T))
        self.now[t] = True


@always
def old_is_behind(s: Copied) -> bool:
    return not any(s.old[t] for t in T)


class CopiedAtOnce(Spec):
    """
    The same within one step.

    one_behind: holds
    both_up: holds 2
    """

    now: dict[T, bool] = each(False)
    old: dict[T, bool] = each(False)

    @action
    def change(self, t: T) -> None:
        self.old = self.now
        self.now[t] = not self.now[t]


@step
def one_behind(before: CopiedAtOnce, after: CopiedAtOnce) -> bool:
    return all(before.now[t] == after.old[t] for t in T)


@sometimes
def both_up(s: CopiedAtOnce) -> bool:
    return all(s.now[t] for t in T)


class Majority(Spec):
    """
    A majority by counting.

    decided_by_most: holds
    decided: holds 3
    at T=3:
    decided_by_most: holds
    decided: holds 3
    at T=1:
    decided_by_most: holds
    decided: holds 2
    """

    yes: set[T] = empty()
    won: bool = False

    @action
    def vote(self, t: T) -> None:
        self.yes.add(t)

    @action
    def count(self) -> None:
        require(len(self.yes) + len(self.yes) > sum(1 for t in T))
        self.won = True


@always
def decided_by_most(s: Majority) -> bool:
    return not s.won or len(s.yes) > 0


@sometimes
def decided(s: Majority) -> bool:
    return s.won


class Counted(Spec):
    """
    `sum` counts what is up; two of three are too many.

    one_up: holds
    at T=3:
    one_up: fails 2
    """

    up: dict[T, bool] = each(False)

    @action
    def rise(self, t: T) -> None:
        require(sum(1 for x in T if not self.up[x]) > 1)
        self.up[t] = True

    @action
    def fall(self, t: T) -> None:
        self.up[t] = False


@always
def one_up(s: Counted) -> bool:
    return sum(1 for t in T if s.up[t]) <= 1


class Chosen(Spec):
    """
    A set and a map as parameters: every choice is made.

    any_set: holds 1
    no_pair: fails 1
    opposite: holds
    """

    chosen: set[T] = empty()
    not_chosen: dict[T, bool] = each(True)

    @action
    def choose(self, these: set[T]) -> None:
        self.chosen = these
        self.not_chosen = {t: t not in these for t in T}

    @action
    def flip(self, given: dict[T, bool]) -> None:
        self.not_chosen = given
        self.chosen = {t for t in T if not given[t]}


@sometimes
def any_set(s: Chosen) -> bool:
    return all(t in s.chosen for t in T)


@never
def no_pair(s: Chosen) -> bool:
    return len(s.chosen) > 1


@always
def opposite(s: Chosen) -> bool:
    return all((t in s.chosen) != s.not_chosen[t] for t in T)


class Hints(Spec):
    """
    A map of optional records, and equality of records.

    same_hint: fails 2
    hinted: holds 1
    """

    hint: dict[Light, Note | None] = each(None)

    @action
    def note(self, c: Light, t: T) -> None:
        self.hint[c] = Note(c, t)


@never
def same_hint(s: Hints) -> bool:
    red = s.hint[Light.RED]
    green = s.hint[Light.GREEN]
    return red is not None and green is not None and red.who == green.who


@sometimes
def hinted(s: Hints) -> bool:
    return any(s.hint[Light.GREEN] == Note(Light.GREEN, t) for t in T)


class Turned(Spec):
    """
    A set is replaced by its complement.

    halves: holds
    none_or_all: fails 1
    """

    side: set[T] = empty()
    odd: bool = False

    @action
    def turn(self) -> None:
        self.side = {t for t in T if t not in self.side}
        self.odd = not self.odd


@always
def halves(s: Turned) -> bool:
    return all((t in s.side) == s.odd for t in T)


@always
def none_or_all(s: Turned) -> bool:
    return not any(t in s.side for t in T)
