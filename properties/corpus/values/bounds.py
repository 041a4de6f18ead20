"""Numbers that leave the bound of naturals: a successor that was dropped proves nothing."""

from dataclasses import dataclass

from herdspec import (
    Nat,
    Sort,
    Spec,
    action,
    always,
    each,
    eventually,
    fault,
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


class Jump(Spec):
    """
    Jumps beyond the bound in one step.

    not_five: fails 1
    """

    n: Nat = 0

    @action
    def go(self) -> None:
        self.n = 5


@always
def not_five(s: Jump) -> bool:
    return s.n != 5


class FarJump(Spec):
    """
    Jumps further than the bound is ever doubled.

    not_two_hundred: fails 1
    """

    n: Nat = 0

    @action
    def go(self) -> None:
        self.n = 200


@always
def not_two_hundred(s: FarJump) -> bool:
    return s.n != 200


class JumpAndBack(Spec):
    """
    Jumps, and comes back: what is beyond the bound is only in between.

    small: fails 1
    odd_only_after_seven: fails 2
    comes_back: holds
    """

    n: Nat = 0
    odd: bool = False

    @action
    def out(self) -> None:
        require(self.n == 0)
        self.n = 7

    @action
    def back(self) -> None:
        require(self.n == 7)
        self.n = 0
        self.odd = True


@always
def small(s: JumpAndBack) -> bool:
    return s.n < 7


@always
def odd_only_after_seven(s: JumpAndBack) -> bool:
    return not s.odd


@recoverable
def comes_back(s: JumpAndBack) -> bool:
    return s.n == 0


class Endless(Spec):
    """
    Counts without end.

    below_six: fails 6
    below_twenty: fails 20
    below_a_thousand: fails 1000
    next: open
    meaning: open
    """

    n: Nat = 0

    @action
    def tick(self) -> None:
        self.n += 1


@always
def below_six(s: Endless) -> bool:
    return s.n < 6


@always
def below_twenty(s: Endless) -> bool:
    return s.n < 20


@always
def below_a_thousand(s: Endless) -> bool:
    return s.n < 1000


class Lockstep(Spec):
    """
    Two counters without end that are always equal: only a proof can tell.

    equal: open
    next: open
    meaning: open
    """

    a: Nat = 0
    b: Nat = 0

    @action
    def both(self) -> None:
        self.a += 1
        self.b += 1


@always
def equal(s: Lockstep) -> bool:
    return s.a == s.b


class EndlessFlag(Spec):
    """
    A counter without end beside a flag that nothing changes.

    still_down: open
    raised_sometimes: open
    next: open
    meaning: open
    """

    n: Nat = 0
    up: bool = False

    @action
    def tick(self) -> None:
        self.n += 1


@always
def still_down(s: EndlessFlag) -> bool:
    return not s.up


@sometimes
def raised_sometimes(s: EndlessFlag) -> bool:
    return s.up


class Guarded(Spec):
    """
    Ends by its own guard, above the bound that is taken by default.

    at_most_nine: holds
    at_most_eight: fails 9
    reaches_nine: holds 9
    next: fails 9
    """

    n: Nat = 0

    @action
    def tick(self) -> None:
        require(self.n < 9)
        self.n += 1


@always
def at_most_nine(s: Guarded) -> bool:
    return s.n <= 9


@always
def at_most_eight(s: Guarded) -> bool:
    return s.n <= 8


@sometimes
def reaches_nine(s: Guarded) -> bool:
    return s.n == 9


class Turning(Spec):
    """
    Counts to six and begins again.

    within_six: holds
    never_six: fails 6
    grows: fails 7
    to_six: holds
    """

    n: Nat = 0

    @action(fair=weak)
    def tick(self) -> None:
        self.n = self.n + 1 if self.n < 6 else 0


@always
def within_six(s: Turning) -> bool:
    return s.n <= 6


@never
def never_six(s: Turning) -> bool:
    return s.n == 6


@step
def grows(before: Turning, after: Turning) -> bool:
    return before.n < after.n


@eventually
def to_six(s: Turning) -> bool:
    return s.n == 6


class ByFaults(Spec):
    """
    Grows with its faults, two at a time.

    at_most_four: holds
    below_four: fails 2
    at faults=3:
    at_most_four: fails 3
    below_four: fails 2
    at faults=1:
    at_most_four: holds
    below_four: holds
    """

    n: Nat = 0

    @action(kind=fault)
    def burst(self) -> None:
        self.n += 2

    @action
    def wait(self) -> None:
        self.n = self.n


@always
def at_most_four(s: ByFaults) -> bool:
    return s.n <= 4


@always
def below_four(s: ByFaults) -> bool:
    return s.n < 4


class DieHard(Spec):
    """
    The jugs of three and five gallons.

    big_holds_five: holds
    small_holds_three: holds
    not_four: fails 6
    """

    big: Nat = 0
    small: Nat = 0

    @action
    def fill_big(self) -> None:
        self.big = 5

    @action
    def fill_small(self) -> None:
        self.small = 3

    @action
    def empty_big(self) -> None:
        self.big = 0

    @action
    def empty_small(self) -> None:
        self.small = 0

    @action
    def pour_small(self) -> None:
        poured = min(self.small, 5 - self.big)
        self.big += poured
        self.small -= poured

    @action
    def pour_big(self) -> None:
        poured = min(self.big, 3 - self.small)
        self.small += poured
        self.big -= poured


@always
def big_holds_five(s: DieHard) -> bool:
    return s.big <= 5


@always
def small_holds_three(s: DieHard) -> bool:
    return s.small <= 3


@always
def not_four(s: DieHard) -> bool:
    return s.big != 4


class Counters(Spec):
    """
    A counter for each element, each to five.

    each_at_most_five: holds
    not_all_five: fails 10
    next: fails 10
    """

    n: dict[T, Nat] = each(0)

    @action
    def tick(self, t: T) -> None:
        require(self.n[t] < 5)
        self.n[t] += 1


@always
def each_at_most_five(s: Counters) -> bool:
    return all(s.n[t] <= 5 for t in T)


@always
def not_all_five(s: Counters) -> bool:
    return not all(s.n[t] == 5 for t in T)


class Doubling(Spec):
    """
    Doubles to a hundred and twenty-eight.

    reaches_128: holds 7
    below_100: fails 7
    next: fails 7
    """

    n: Nat = 1

    @action
    def double(self) -> None:
        require(self.n < 128)
        self.n = self.n + self.n


@sometimes
def reaches_128(s: Doubling) -> bool:
    return s.n == 128


@always
def below_100(s: Doubling) -> bool:
    return s.n < 100


@dataclass(frozen=True)
class Stamp:
    """A number in a record."""

    at: Nat


class Stamped(Spec):
    """
    A number within a record.

    not_stamped_six: fails 1
    """

    last: Stamp = Stamp(0)

    @action
    def stamp(self) -> None:
        self.last = Stamp(6 if self.last.at == 0 else 0)


@always
def not_stamped_six(s: Stamped) -> bool:
    return s.last.at != 6


class LateAction(Spec):
    """
    An action that is possible only beyond the default bound.

    rung: fails 7
    """

    n: Nat = 0
    bell: bool = False

    @action
    def tick(self) -> None:
        require(self.n < 6)
        self.n += 1

    @action
    def ring(self) -> None:
        require(self.n == 6)
        self.bell = True


@never
def rung(s: LateAction) -> bool:
    return s.bell


class LateWay(Spec):
    """
    The way back leads through seven.

    calm_again: holds
    """

    n: Nat = 0
    calm: bool = True

    @action(kind=fault)
    def upset(self) -> None:
        require(self.calm)
        self.calm = False

    @action
    def climb(self) -> None:
        require(self.n < 7)
        self.n += 1

    @action
    def rest(self) -> None:
        require(self.n == 7)
        self.n = 0
        self.calm = True


@recoverable
def calm_again(s: LateWay) -> bool:
    return s.calm


class NoWay(Spec):
    """
    The way back is lost at seven.

    calm_once_more: fails 7
    next: fails 7
    """

    n: Nat = 0

    @action
    def climb(self) -> None:
        require(self.n < 7)
        self.n += 1

    @action
    def rest(self) -> None:
        require(0 < self.n < 7)
        self.n = 0


@recoverable
def calm_once_more(s: NoWay) -> bool:
    return s.n == 0


class EndlessWait(Spec):
    """
    A counter whose fair tick brings nothing about: it would "stop" at a bound.

    comes: open
    follows: open
    next: open
    meaning: open
    """

    n: Nat = 0
    done: bool = False

    @action(fair=weak)
    def tick(self) -> None:
        self.n += 1

    @action
    def finish(self) -> None:
        self.done = True


@eventually
def comes(s: EndlessWait) -> bool:
    return s.done


@leads_to
def follows(s: EndlessWait) -> tuple[bool, bool]:
    return s.n == 1, s.done


class Reset(Spec):
    """
    A counter without end that may be reset: beyond any bound there is a way back.

    zero_again: open
    next: open
    meaning: open
    """

    n: Nat = 0

    @action
    def tick(self) -> None:
        self.n += 1

    @action
    def reset(self) -> None:
        self.n = 0


@recoverable
def zero_again(s: Reset) -> bool:
    return s.n == 0
