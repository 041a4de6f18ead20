"""Bounded naturals: they stay within their range, or the step has no meaning."""

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
    never,
    require,
    sometimes,
    step,
)

Few = Annotated[Nat, UpTo(2)]
Some = Annotated[Nat, UpTo(5)]


class T(Sort):
    """An element."""


class Overflow(Spec):
    """
    Counts one too far.

    in_range: holds
    meaning: fails 3
    """

    k: Few = 0

    @action
    def tick(self) -> None:
        self.k += 1


@always
def in_range(s: Overflow) -> bool:
    return s.k <= 2


class Underflow(Spec):
    """
    Counts below zero.

    not_negative: holds
    meaning: fails 2
    """

    k: Few = 1

    @action
    def down(self) -> None:
        self.k -= 1


@always
def not_negative(s: Underflow) -> bool:
    return s.k >= 0


class NatBelowZero(Spec):
    """
    An unbounded natural counts below zero.

    at_least_zero: holds
    meaning: fails 1
    """

    n: Nat = 0

    @action
    def down(self) -> None:
        self.n -= 1


@always
def at_least_zero(s: NatBelowZero) -> bool:
    return s.n >= 0


class Careful(Spec):
    """
    Stops in time; its range is greater than the bound of naturals.

    full: holds 5
    not_full: fails 5
    """

    k: Some = 0

    @action
    def tick(self) -> None:
        require(self.k < 5)
        self.k += 1

    @action
    def empty(self) -> None:
        self.k = 0


@sometimes
def full(s: Careful) -> bool:
    return s.k == 5


@never
def not_full(s: Careful) -> bool:
    return s.k == 5


class InBetween(Spec):
    """
    Leaves the range between two assignments, where nobody looks.

    stays: holds
    """

    k: Few = 2

    @action
    def swing(self) -> None:
        self.k += 1
        self.k -= 1


@always
def stays(s: InBetween) -> bool:
    return s.k == 2


class Chosen(Spec):
    """
    A bounded natural as a parameter.

    any_of_three: holds 1
    never_two: fails 1
    """

    k: Few = 0

    @action
    def choose(self, i: Few) -> None:
        self.k = i


@sometimes
def any_of_three(s: Chosen) -> bool:
    return s.k == 1


@never
def never_two(s: Chosen) -> bool:
    return s.k == 2


class TooMuchChosen(Spec):
    """
    A choice plus one leaves the range, for one of its choices only.

    never_none: holds
    meaning: fails 1
    """

    k: Few = 1

    @action
    def choose(self, i: Few) -> None:
        self.k = i + 1


@always
def never_none(s: TooMuchChosen) -> bool:
    return s.k > 0


class Slots(Spec):
    """
    A map from bounded naturals.

    not_all_taken: fails 3
    next: fails 3
    """

    taken: dict[Few, bool] = each(False)

    @action
    def take(self, i: Few) -> None:
        require(not self.taken[i])
        self.taken[i] = True


@always
def not_all_taken(s: Slots) -> bool:
    return not all(s.taken[i] for i in range(3))


class BesideTheSlots(Spec):
    """
    Looks up a number that is no key.

    quiet: holds
    meaning: fails 1
    """

    n: Nat = 3
    taken: dict[Few, bool] = each(False)

    @action
    def look(self) -> None:
        require(self.taken[self.n])


@always
def quiet(s: BesideTheSlots) -> bool:
    return not any(s.taken[i] for i in range(3))


class ByFaultOnly(Spec):
    """
    Only the third fault leaves the range.

    low: holds
    at faults=3:
    low: holds
    meaning: fails 3
    """

    k: Few = 0

    @action(kind=fault)
    def hit(self) -> None:
        self.k += 1

    @action
    def wait(self) -> None:
        pass


@always
def low(s: ByFaultOnly) -> bool:
    return s.k <= 2


class PerElement(Spec):
    """
    A bounded natural for each element.

    one_at_a_time: holds
    sum_below_four: fails 4
    next: fails 4
    """

    k: dict[T, Few] = each(0)

    @action
    def tick(self, t: T) -> None:
        require(self.k[t] < 2)
        self.k[t] += 1


@step
def one_at_a_time(before: PerElement, after: PerElement) -> bool:
    return all(after.k[t] <= before.k[t] + 1 for t in T)


@always
def sum_below_four(s: PerElement) -> bool:
    return not all(s.k[t] == 2 for t in T)


class GuardAfterOverflow(Spec):
    """
    A guard behind the write refuses what would leave the range.

    two_is_most: holds
    next: fails 2
    """

    k: Few = 0

    @action
    def tick(self) -> None:
        self.k += 1
        require(self.k <= 2)


@always
def two_is_most(s: GuardAfterOverflow) -> bool:
    return s.k <= 2
