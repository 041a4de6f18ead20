"""Constraints: states without them are looked at, and not gone on from."""

from typing import Annotated

from herdspec import (
    Capacity,
    Nat,
    Sort,
    Spec,
    action,
    always,
    constraint,
    each,
    empty,
    eventually,
    eventually_always,
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


class Counts(Spec):
    """
    A constraint hides what is broken behind it, and not what is broken at its edge.

    not_three: fails 3
    not_four: holds
    by_one: holds
    by_one_to_two: fails 3
    three_is_seen: holds 3
    four_is_seen: open
    """

    n: Nat = 0

    @action
    def count(self) -> None:
        self.n += 1


@constraint
def few(s: Counts) -> bool:
    return s.n < 3


@always
def not_three(s: Counts) -> bool:
    return s.n != 3


@never
def not_four(s: Counts) -> bool:
    return s.n == 4


@step
def by_one(before: Counts, after: Counts) -> bool:
    return after.n == before.n + 1


@step
def by_one_to_two(before: Counts, after: Counts) -> bool:
    return after.n <= 2


@sometimes
def three_is_seen(s: Counts) -> bool:
    return s.n == 3


@sometimes
def four_is_seen(s: Counts) -> bool:
    return s.n == 4


class Beyond(Spec):
    """
    What comes at last, or can come again, is not known where some states are not gone on from.

    back: open
    begun: open
    far_at_last: open
    counted: fails
    stays_large: fails
    two_follows: fails
    """

    n: Nat = 0

    @action(fair=weak)
    def count(self) -> None:
        self.n += 1

    @action
    def reset(self) -> None:
        require(self.n == 1)
        self.n = 0


@constraint
def small(s: Beyond) -> bool:
    return s.n < 3


@recoverable
def back(s: Beyond) -> bool:
    return s.n == 0


@eventually
def begun(s: Beyond) -> bool:
    return s.n == 1


@leads_to
def far_at_last(s: Beyond) -> tuple[bool, bool]:
    return s.n == 2, s.n == 9


@eventually
def counted(s: Beyond) -> bool:
    return s.n == 9


@eventually_always
def stays_large(s: Beyond) -> bool:
    return s.n > 2


@leads_to
def two_follows(s: Beyond) -> tuple[bool, bool]:
    return s.n == 0, s.n == 2


class Edge(Spec):
    """
    Beyond the edge there may be an end: it is neither seen nor a deadlock. Two constraints bind.

    none_twice: holds
    all_lit: open
    two_lit: holds 2
    at T=3:
    none_twice: holds
    all_lit: open
    two_lit: holds 2
    """

    lit: dict[T, bool] = each(False)
    steps: Nat = 0

    @action
    def light(self, t: T) -> None:
        require(not self.lit[t])
        self.lit[t] = True
        self.steps += 1


@constraint
def two_steps(s: Edge) -> bool:
    return s.steps < 2


@constraint
def two_lamps(s: Edge) -> bool:
    return sum(1 for t in T if s.lit[t]) < 3


@always
def none_twice(s: Edge) -> bool:
    return s.steps <= sum(1 for t in T if s.lit[t])


@sometimes
def all_lit(s: Edge) -> bool:
    return all(s.lit[t] for t in T) and s.steps == 3


@sometimes
def two_lit(s: Edge) -> bool:
    return s.steps == 2


class NotBegun(Spec):
    """
    A constraint without a meaning does not hold: the first state is looked at, and no other.

    That somebody may be chosen there is seen; the choice is not taken.

    nobody_yet: holds 0
    nobody_ever: holds
    """

    chosen: T | None = None
    on: dict[T, bool] = each(True)

    @action
    def choose(self, t: T) -> None:
        self.chosen = t


@constraint
def the_chosen_is_on(s: NotBegun) -> bool:
    return s.on[s.chosen]  # type: ignore[index]


@sometimes
def nobody_yet(s: NotBegun) -> bool:
    return s.chosen is None


@always
def nobody_ever(s: NotBegun) -> bool:
    return s.chosen is None


class Harmless(Spec):
    """
    A constraint that all states satisfy: nothing is left out, not even of what comes at last.

    emptied: holds
    sent_at_last: holds
    settled: fails
    """

    q: Annotated[list[T], Capacity(1)] = empty()

    @action(fair=weak.any)
    def send(self, t: T) -> None:
        require(len(self.q) == 0)
        self.q.append(t)

    @action(fair=weak)
    def take(self) -> None:
        require(len(self.q) > 0)
        self.q.pop(0)


@constraint
def short(s: Harmless) -> bool:
    return len(s.q) < 2


@recoverable
def emptied(s: Harmless) -> bool:
    return len(s.q) == 0


@leads_to
def sent_at_last(s: Harmless) -> tuple[bool, bool]:
    return len(s.q) == 0, len(s.q) == 1


@eventually_always
def settled(s: Harmless) -> bool:
    return len(s.q) == 0
