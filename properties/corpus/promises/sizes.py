"""Promises that fail only where there are three, or hold only of one."""

from enum import Enum

from herdspec import (
    Nat,
    Sort,
    Spec,
    action,
    always,
    each,
    eventually,
    never,
    recoverable,
    require,
    sometimes,
    weak,
)


class T(Sort):
    """An element."""


class Place(Sort):
    """Another sort."""


class Phase(Enum):
    IDLE = "idle"
    WAIT = "wait"
    IN = "in"


class ThreeMeet(Spec):
    """
    Fails only where there are three.

    not_three: holds
    at T=3:
    not_three: fails 3
    at T=1:
    not_three: holds
    """

    up: dict[T, bool] = each(False)

    @action
    def flip(self, t: T) -> None:
        self.up[t] = not self.up[t]


@never
def not_three(s: ThreeMeet) -> bool:
    return any(
        s.up[a] and s.up[b] and s.up[c] and a != b and b != c and a != c
        for a in T
        for b in T
        for c in T
    )


class LimitOfTwo(Spec):
    """
    A semaphore of two, with a mistake that the third shows.

    two_inside: holds
    at T=3:
    two_inside: fails 3
    """

    inside: dict[T, bool] = each(False)

    @action
    def enter(self, t: T) -> None:
        require(not self.inside[t])
        self.inside[t] = True

    @action
    def leave(self, t: T) -> None:
        require(self.inside[t])
        self.inside[t] = False


@always
def two_inside(s: LimitOfTwo) -> bool:
    return sum(1 for t in T if s.inside[t]) <= 2


class RoundTrip(Spec):
    """
    A chain of three pointers closes; one of two cannot.

    no_triangle: holds
    at T=3:
    no_triangle: fails 3
    next: holds
    """

    after: dict[T, T | None] = each(None)

    @action
    def link(self, a: T, b: T) -> None:
        require(a != b and self.after[a] is None)
        self.after[a] = b

    @action
    def cut(self, a: T) -> None:
        self.after[a] = None


@never
def no_triangle(s: RoundTrip) -> bool:
    return any(
        a != b and b != c and a != c and s.after[a] == b and s.after[b] == c and s.after[c] == a
        for a in T
        for b in T
        for c in T
    )


class OnlyOne(Spec):
    """
    Holds of one alone.

    one_in: fails 4
    at T=1:
    one_in: holds
    at T=3:
    one_in: fails 4
    """

    phase: dict[T, Phase] = each(Phase.IDLE)

    @action
    def want(self, t: T) -> None:
        require(self.phase[t] == Phase.IDLE)
        self.phase[t] = Phase.WAIT

    @action
    def enter(self, t: T) -> None:
        require(self.phase[t] == Phase.WAIT)
        self.phase[t] = Phase.IN

    @action
    def leave(self, t: T) -> None:
        require(self.phase[t] == Phase.IN)
        self.phase[t] = Phase.IDLE


@always
def one_in(s: OnlyOne) -> bool:
    return all(a == b or s.phase[a] != Phase.IN or s.phase[b] != Phase.IN for a in T for b in T)


class TwoSorts(Spec):
    """
    Two sorts: more elements than places.

    nobody_alone: fails 1
    all_placed: fails
    next: fails 1
    at T=1:
    nobody_alone: fails 1
    all_placed: holds 1
    next: fails 1
    at T=2, Place=3:
    nobody_alone: fails 1
    all_placed: holds 2
    next: fails 2
    """

    where: dict[T, Place | None] = each(None)

    @action
    def sit(self, t: T, p: Place) -> None:
        require(all(self.where[x] != p for x in T) and self.where[t] is None)
        require(any(q != p and all(self.where[x] != q for x in T) for q in Place))
        self.where[t] = p


@never
def nobody_alone(s: TwoSorts) -> bool:
    return sum(1 for t in T if s.where[t] is not None) == 1


@sometimes
def all_placed(s: TwoSorts) -> bool:
    return all(s.where[t] is not None for t in T)


class CountedToThree(Spec):
    """
    A number that counts the elements: the third is beyond nothing.

    below_three: holds
    next: fails 2
    at T=3:
    below_three: fails 3
    next: fails 3
    """

    seen: dict[T, bool] = each(False)
    n: Nat = 0

    @action
    def count(self, t: T) -> None:
        require(not self.seen[t])
        self.seen[t] = True
        self.n += 1


@always
def below_three(s: CountedToThree) -> bool:
    return s.n < 3


class StuckOfThree(Spec):
    """
    Three can wait for each other in a ring; two cannot, by the rule about pairs.

    untangled: holds
    at T=3:
    untangled: fails 3
    next: fails 3
    """

    waits: dict[T, T | None] = each(None)

    @action
    def wait(self, a: T, b: T) -> None:
        require(a != b and self.waits[a] is None and self.waits[b] != a)
        self.waits[a] = b

    @action
    def go_on(self, a: T) -> None:
        require(
            self.waits[a] is not None
            and any(self.waits[a] == b and self.waits[b] is None for b in T)
        )
        self.waits[a] = None


@recoverable
def untangled(s: StuckOfThree) -> bool:
    return all(s.waits[t] is None for t in T)


class Everybody(Spec):
    """
    Served in a queue of one: whoever is served makes room, at any size.

    served_at_last: holds
    next: fails 4
    at T=3:
    served_at_last: holds
    next: fails 6
    """

    served: dict[T, bool] = each(False)
    turn: T | None = None

    @action(fair=weak)
    def call(self, t: T) -> None:
        require(self.turn is None and not self.served[t])
        self.turn = t

    @action(fair=weak)
    def serve(self, t: T) -> None:
        require(self.turn == t)
        self.turn = None
        self.served[t] = True


@eventually
def served_at_last(s: Everybody) -> bool:
    return all(s.served[t] for t in T)


class LastSeat(Spec):
    """
    The last of them finds no seat, where there are more than two.

    all_may_sit: holds 2
    at T=3:
    all_may_sit: fails
    """

    sits: dict[T, bool] = each(False)

    @action
    def sit(self, t: T) -> None:
        require(sum(1 for x in T if self.sits[x]) < 2)
        self.sits[t] = True

    @action
    def rise(self, t: T) -> None:
        self.sits[t] = False


@sometimes
def all_may_sit(s: LastSeat) -> bool:
    return all(s.sits[t] for t in T)
