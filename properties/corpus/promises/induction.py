"""Promises that are true and not inductive, and such as are false near and far."""

from typing import Annotated

from herdspec import (
    Nat,
    Sort,
    Spec,
    UpTo,
    action,
    always,
    each,
    fault,
    initial,
    lemma,
    never,
    require,
    sometimes,
    step,
)


class T(Sort):
    """An element."""


class ByTwo(Spec):
    """
    True, and not inductive: an odd number is never reached.

    not_three: holds
    """

    n: Annotated[Nat, UpTo(7)] = 0

    @action
    def hop(self) -> None:
        self.n = self.n + 2 if self.n < 5 else 0


@always
def not_three(s: ByTwo) -> bool:
    return s.n != 3


class ByTwoHelped(Spec):
    """
    The same with the lemma that makes it inductive.

    even: holds
    nor_five: holds
    """

    n: Annotated[Nat, UpTo(7)] = 0

    @action
    def hop(self) -> None:
        self.n = self.n + 2 if self.n < 5 else 0


@lemma
def even(s: ByTwoHelped) -> bool:
    return s.n in (0, 2, 4, 6)


@always
def nor_five(s: ByTwoHelped) -> bool:
    return s.n != 5


class FalseLemma(Spec):
    """
    A lemma that is false proves nothing.

    never_moves: fails 1
    stays_home: fails 2
    """

    moved: bool = False
    away: bool = False

    @action
    def move(self) -> None:
        self.moved = True

    @action
    def leave(self) -> None:
        require(self.moved)
        self.away = True


@lemma
def never_moves(s: FalseLemma) -> bool:
    return not s.moved


@always
def stays_home(s: FalseLemma) -> bool:
    return not s.away


class UnreachableCycle(Spec):
    """
    A state that leads to the bad one is never reached.

    never_c: holds
    dead: second
    """

    a: bool = False
    b: bool = False
    c: bool = False

    @action
    def first(self) -> None:
        self.a = not self.a

    @action
    def second(self) -> None:
        require(self.b)
        self.c = True


@always
def never_c(s: UnreachableCycle) -> bool:
    return not s.c


class FalseAtOnce(Spec):
    """
    False before the first step.

    off: fails 0
    on_at_last: holds 0
    """

    on: bool = True

    @action
    def switch(self) -> None:
        self.on = not self.on


@always
def off(s: FalseAtOnce) -> bool:
    return not s.on


@sometimes
def on_at_last(s: FalseAtOnce) -> bool:
    return s.on


class FalseAtOneStart(Spec):
    """
    False in one of the initial states.

    not_all_up: fails 0
    """

    up: dict[T, bool] = each(False)

    @initial
    def begin(self, given: dict[T, bool]) -> None:
        self.up = given

    @action
    def fall(self, t: T) -> None:
        self.up[t] = False


@always
def not_all_up(s: FalseAtOneStart) -> bool:
    return not all(s.up[t] for t in T)


class FalseAfterOne(Spec):
    """
    False after one step, by one of two actions.

    not_lit: fails 1
    not_both: fails 2
    """

    lit: bool = False
    loud: bool = False

    @action
    def light(self) -> None:
        self.lit = True

    @action
    def shout(self) -> None:
        require(self.lit)
        self.loud = True


@always
def not_lit(s: FalseAfterOne) -> bool:
    return not s.lit


@never
def not_both(s: FalseAfterOne) -> bool:
    return s.lit and s.loud


class Deep(Spec):
    """
    False after eleven steps.

    locked: fails 11
    digit_in_range: holds
    """

    open: bool = False
    place: Annotated[Nat, UpTo(10)] = 0

    @action
    def right(self, f: bool) -> None:
        require(self.place < 10)
        self.place = self.place + 1 if f == (self.place in (0, 2, 3, 7)) else 0

    @action
    def turn(self) -> None:
        require(self.place == 10)
        self.open = True


@always
def locked(s: Deep) -> bool:
    return not s.open


@always
def digit_in_range(s: Deep) -> bool:
    return s.place <= 10


class StepNotInductive(Spec):
    """
    A step promise that only unreachable states break.

    no_jump: holds
    """

    armed: bool = False
    ready: bool = False
    n: Annotated[Nat, UpTo(3)] = 0

    @action
    def tick(self) -> None:
        require(self.n < 3)
        self.n += 1

    @action
    def leap(self) -> None:
        self.n = 3 if self.armed else 0


@step
def no_jump(before: StepNotInductive, after: StepNotInductive) -> bool:
    return after.n <= before.n + 1


class StepFails(Spec):
    """
    A step promise that the third step breaks, while no state is wrong.

    one_more_or_none: fails 3
    small: holds
    """

    n: Annotated[Nat, UpTo(3)] = 0

    @action
    def tick(self) -> None:
        require(self.n < 2)
        self.n += 1

    @action
    def fall(self) -> None:
        require(self.n == 2)
        self.n = 0


@step
def one_more_or_none(before: StepFails, after: StepFails) -> bool:
    return after.n >= before.n


@always
def small(s: StepFails) -> bool:
    return s.n < 3


class MutualHelp(Spec):
    """
    Two promises, inductive only together.

    owner_has_it: holds
    one_at_most: holds
    """

    owner: T | None = None
    has: dict[T, bool] = each(False)

    @action
    def take(self, t: T) -> None:
        require(self.owner is None)
        self.owner = t
        self.has[t] = True

    @action
    def drop(self, t: T) -> None:
        require(self.has[t])
        self.has[t] = False
        self.owner = None


@always
def owner_has_it(s: MutualHelp) -> bool:
    return all(not s.has[t] or s.owner == t for t in T)


@always
def one_at_most(s: MutualHelp) -> bool:
    return all(not (s.has[a] and s.has[b]) or a == b for a in T for b in T)


class Draft(Spec):
    """
    The same without its guard.

    one_has_it: fails 2
    owner_if_any: fails 2
    """

    owner: T | None = None
    holds: dict[T, bool] = each(False)

    @action
    def take(self, t: T) -> None:
        self.owner = t
        self.holds[t] = True

    @action
    def drop(self, t: T) -> None:
        require(self.holds[t])
        self.holds[t] = False
        self.owner = None


@always
def one_has_it(s: Draft) -> bool:
    return all(not (s.holds[a] and s.holds[b]) or a == b for a in T for b in T)


@always
def owner_if_any(s: Draft) -> bool:
    return all(not s.holds[t] or s.owner == t for t in T)


class OnlyAfterFault(Spec):
    """
    Broken by the second fault alone.

    survives: fails 2
    at faults=1:
    survives: holds
    at faults=0:
    survives: holds
    dead: crash
    """

    alive: dict[T, bool] = each(True)

    @action(kind=fault)
    def crash(self, t: T) -> None:
        require(self.alive[t])
        self.alive[t] = False

    @action
    def work(self) -> None:
        pass


@always
def survives(s: OnlyAfterFault) -> bool:
    return any(s.alive[t] for t in T)


class DefinedByFalse(Spec):
    """
    Every step would have a meaning if a false promise were true.

    always_there: fails 1
    quiet_marks: fails 1
    meaning: fails 2
    """

    who: T | None = None
    mark: dict[T, bool] = each(False)
    begun: bool = False

    @initial
    def begin(self, t: T) -> None:
        self.who = t

    @action
    def lose(self) -> None:
        self.who = None

    @action
    def mark_it(self) -> None:
        self.mark[self.who] = True  # type: ignore[index]


@always
def always_there(s: DefinedByFalse) -> bool:
    return s.who is not None


@always
def quiet_marks(s: DefinedByFalse) -> bool:
    return not any(s.mark[t] for t in T)
