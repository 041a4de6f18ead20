"""The words of actions: branches, loops, helpers, numbers, comprehensions."""

from enum import Enum
from typing import Annotated

from herdspec import (
    Nat,
    Sort,
    Spec,
    UpTo,
    action,
    always,
    each,
    never,
    require,
    sometimes,
    step,
)

Few = Annotated[Nat, UpTo(2)]
LIMIT = 2
GO = 1


class T(Sort):
    """An element."""


class Light(Enum):
    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"


class Signal(Spec):
    """
    `match` on members, with an alternative.

    never_red_to_red: holds
    green_after_two: holds 2
    stands: fails 3
    """

    light: Light = Light.RED

    @action
    def turn(self) -> None:
        match self.light:
            case Light.RED:
                self.light = Light.YELLOW
            case Light.YELLOW:
                self.light = Light.GREEN
            case _:
                self.light = Light.RED


@step
def never_red_to_red(before: Signal, after: Signal) -> bool:
    return before.light != after.light


@sometimes
def green_after_two(s: Signal) -> bool:
    return s.light == Light.GREEN


@step
def stands(before: Signal, after: Signal) -> bool:
    return not (before.light == Light.GREEN and after.light in (Light.RED, Light.YELLOW))


class Branches(Spec):
    """
    `if`, `elif`, `else`, and a guard within a branch.

    odd_at_one: holds
    reaches_two: holds 2
    """

    n: Few = 0
    odd: bool = False

    @action
    def go(self, f: bool) -> None:
        if self.n == 0:
            self.n = 1
        elif self.n == 1:
            require(f)
            self.n = 2
        else:
            self.n = 0
        self.odd = self.n == 1


@always
def odd_at_one(s: Branches) -> bool:
    return s.odd == (s.n == 1)


@sometimes
def reaches_two(s: Branches) -> bool:
    return s.n == LIMIT


class GuardLast(Spec):
    """
    A guard after a write: where it fails nothing has happened.

    only_one: holds
    one_is_up: holds 1
    next: fails 1
    """

    up: dict[T, bool] = each(False)

    @action
    def rise(self, t: T) -> None:
        require(not self.up[t])
        self.up[t] = True
        require(sum(1 for x in T if self.up[x]) == 1)


@never
def only_one(s: GuardLast) -> bool:
    return sum(1 for t in T if s.up[t]) > 1


@sometimes
def one_is_up(s: GuardLast) -> bool:
    return any(s.up[t] for t in T)


class Loops(Spec):
    """
    A loop's turns are all at once.

    all_alike: fails 1
    after_sweep_down: holds
    """

    up: dict[T, bool] = each(False)
    swept: bool = False

    @action
    def rise(self, t: T) -> None:
        self.up[t] = True
        self.swept = False

    @action
    def sweep(self) -> None:
        for t in T:
            if self.up[t]:
                self.up[t] = False
        self.swept = True


@always
def all_alike(s: Loops) -> bool:
    return all(s.up[a] == s.up[b] for a in T for b in T)


@always
def after_sweep_down(s: Loops) -> bool:
    return not s.swept or not any(s.up[t] for t in T)


class LoopGuard(Spec):
    """
    A guard within a loop is one for every turn.

    done_means_all: holds
    done_once: holds 3
    at T=3:
    done_means_all: holds
    done_once: holds 4
    at T=1:
    done_means_all: holds
    done_once: holds 2
    """

    ready: dict[T, bool] = each(False)
    done: bool = False

    @action
    def prepare(self, t: T) -> None:
        self.ready[t] = True

    @action
    def finish(self) -> None:
        for t in T:
            require(self.ready[t])
        self.done = True


@always
def done_means_all(s: LoopGuard) -> bool:
    return not s.done or all(s.ready[t] for t in T)


@sometimes
def done_once(s: LoopGuard) -> bool:
    return s.done


class Helped(Spec):
    """
    A helper that changes the state, and one that only returns a value.

    counted_right: holds
    two_up: holds 2
    """

    up: dict[T, bool] = each(False)
    any_up: bool = False

    def some(self) -> bool:
        return any(self.up[t] for t in T)

    def put(self, t: T, to: bool) -> None:
        require(self.up[t] != to)
        self.up[t] = to

    @action
    def rise(self, t: T) -> None:
        self.put(t, True)
        self.any_up = self.some()

    @action
    def fall(self, t: T) -> None:
        self.put(t, False)
        self.any_up = self.some()


@always
def counted_right(s: Helped) -> bool:
    return s.any_up == s.some()


@sometimes
def two_up(s: Helped) -> bool:
    return all(s.up[t] for t in T)


class EarlyReturn(Spec):
    """
    A helper whose branches return.

    state_of: holds
    yellow: holds 1
    """

    a: bool = False
    b: bool = False
    shown: Light = Light.GREEN

    def colour(self) -> Light:
        if self.a and self.b:
            return Light.RED
        if self.a or self.b:
            return Light.YELLOW
        return Light.GREEN

    @action
    def set_a(self, to: bool) -> None:
        self.a = to
        self.shown = self.colour()

    @action
    def set_b(self, to: bool) -> None:
        self.b = to
        self.shown = self.colour()


@always
def state_of(s: EarlyReturn) -> bool:
    return s.shown == s.colour()


@sometimes
def yellow(s: EarlyReturn) -> bool:
    return s.shown == Light.YELLOW


class Arithmetic(Spec):
    """
    Sums, differences, `min`, `max`, and a chained comparison.

    between: holds
    meets_in_the_middle: holds 2
    low_is_low: fails 1
    """

    low: Annotated[Nat, UpTo(4)] = 0
    high: Annotated[Nat, UpTo(4)] = 4

    @action
    def close_in(self) -> None:
        require(self.low + 1 < self.high)
        self.low = min(self.low + 1, self.high)
        self.high = max(self.high - 1, self.low)

    @action
    def reset(self) -> None:
        require(self.high - self.low < 2)
        self.low = 0
        self.high = 4


@always
def between(s: Arithmetic) -> bool:
    return 0 <= s.low <= s.high <= 4


@sometimes
def meets_in_the_middle(s: Arithmetic) -> bool:
    return s.low == s.high == LIMIT


@never
def low_is_low(s: Arithmetic) -> bool:
    return s.low == GO


class Exchange(Spec):
    """
    Local names hold what was: two entries change places.

    one_token: holds
    moved: fails 1
    """

    token: dict[T, bool] = each(False)

    @action
    def swap(self, a: T, b: T) -> None:
        kept = self.token[a]
        self.token[a] = self.token[b]
        self.token[b] = kept

    @action
    def make(self, t: T) -> None:
        require(not any(self.token[x] for x in T))
        self.token[t] = True


@always
def one_token(s: Exchange) -> bool:
    return sum(1 for t in T if s.token[t]) <= 1


@never
def moved(s: Exchange) -> bool:
    return any(s.token[t] for t in T)


class LaterReadsSee(Spec):
    """
    Later reads see what was assigned before.

    b_follows: holds
    c_is_old: fails 1
    """

    a: bool = False
    b: bool = False
    c: bool = False

    @action
    def flip(self) -> None:
        self.c = self.a
        self.a = not self.a
        self.b = self.a


@always
def b_follows(s: LaterReadsSee) -> bool:
    return s.a == s.b


@always
def c_is_old(s: LaterReadsSee) -> bool:
    return s.c == s.a


class Relation(Spec):
    """
    A relation of one sort with itself, made whole by a comprehension.

    symmetric: holds
    somebody_knows: holds 1
    loops_only: fails 1
    """

    knows: dict[tuple[T, T], bool] = each(False)

    @action
    def meet(self, a: T, b: T) -> None:
        self.knows = {
            (x, y): self.knows[x, y] or (x == a and y == b) or (x == b and y == a)
            for x in T
            for y in T
        }


@always
def symmetric(s: Relation) -> bool:
    return all(s.knows[a, b] == s.knows[b, a] for a in T for b in T)


@sometimes
def somebody_knows(s: Relation) -> bool:
    return any(s.knows[a, b] for a in T for b in T if a != b)


@always
def loops_only(s: Relation) -> bool:
    return all(not s.knows[a, b] for a in T for b in T if a != b)


class PerLight(Spec):
    """
    Loops and quantifiers over an enum and over `range`.

    lit_in_order: holds
    all_lit: holds 3
    next: fails 3
    """

    lit: dict[Light, bool] = each(False)
    n: dict[Few, bool] = each(False)

    @action
    def light(self, c: Light) -> None:
        require(not self.lit[c])
        self.lit[c] = True
        for i in range(3):
            self.n[i] = sum(1 for k in Light if self.lit[k]) > i


@always
def lit_in_order(s: PerLight) -> bool:
    return all(not s.n[i] or all(s.n[j] for j in range(3) if j < i) for i in range(3))


@sometimes
def all_lit(s: PerLight) -> bool:
    return all(s.lit[c] for c in Light) and s.n[2]
