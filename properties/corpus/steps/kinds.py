"""Kinds of actions, budgets, initial states, axioms."""

from enum import Enum
from typing import Annotated

from herdspec import (
    Nat,
    Sort,
    Spec,
    UpTo,
    action,
    always,
    axiom,
    command,
    each,
    fault,
    initial,
    lemma,
    never,
    recoverable,
    require,
    sometimes,
    step,
)


class T(Sort):
    """An element."""


class Quorum(Sort):
    """A set of elements, of which any two meet."""


class Light(Enum):
    RED = "red"
    GREEN = "green"


class TwoFaults(Spec):
    """
    Two faults of different kinds share one budget.

    not_all_three: holds
    both: holds 2
    dead: third
    at faults=3:
    not_all_three: fails 3
    both: holds 2
    at faults=1:
    not_all_three: holds
    both: fails
    dead: third
    """

    a: bool = False
    b: bool = False
    c: bool = False

    @action(kind=fault)
    def first(self) -> None:
        require(not self.a)
        self.a = True

    @action(kind=fault)
    def second(self) -> None:
        require(not self.b)
        self.b = True

    @action(kind=fault)
    def third(self) -> None:
        require(self.a and self.b)
        self.c = True

    @action
    def idle(self) -> None:
        pass


@never
def not_all_three(s: TwoFaults) -> bool:
    return s.c


@sometimes
def both(s: TwoFaults) -> bool:
    return s.a and s.b


class Disturbing(Spec):
    """
    A command that disturbs counts against the budget.

    at_most_twice: holds
    at_least_once: holds 1
    at faults=3:
    at_most_twice: fails 3
    at_least_once: holds 1
    at faults=0:
    at_most_twice: holds
    at_least_once: fails
    dead: poke
    """

    n: Annotated[Nat, UpTo(3)] = 0

    @action(kind=command, disturbs=True)
    def poke(self) -> None:
        require(self.n < 3)
        self.n += 1

    @action
    def idle(self) -> None:
        pass


@always
def at_most_twice(s: Disturbing) -> bool:
    return s.n <= 2


@sometimes
def at_least_once(s: Disturbing) -> bool:
    return s.n >= 1


class UserForFree(Spec):
    """
    A command that does not disturb is free.

    at_most_two: fails 3
    """

    n: Annotated[Nat, UpTo(3)] = 0

    @action(kind=command)
    def poke(self) -> None:
        require(self.n < 3)
        self.n += 1

    @action
    def reset(self) -> None:
        self.n = 0


@always
def at_most_two(s: UserForFree) -> bool:
    return s.n <= 2


class FaultThenDisturb(Spec):
    """
    Faults and what disturbs are counted together.

    never_hit_and_poked_twice: holds
    hit_and_poked: holds 2
    at faults=3:
    never_hit_and_poked_twice: fails 3
    hit_and_poked: holds 2
    """

    hit: bool = False
    pokes: Annotated[Nat, UpTo(3)] = 0

    @action(kind=fault)
    def strike(self) -> None:
        self.hit = True

    @action(disturbs=True)
    def poke(self) -> None:
        require(self.pokes < 3)
        self.pokes += 1

    @action
    def idle(self) -> None:
        pass


@never
def never_hit_and_poked_twice(s: FaultThenDisturb) -> bool:
    return s.hit and s.pokes == 2


@sometimes
def hit_and_poked(s: FaultThenDisturb) -> bool:
    return s.hit and s.pokes == 1


class SomeStart(Spec):
    """
    Every choice that the guards of the initial method allow is an initial state.

    one_is_up: holds
    red_at_start: holds 0
    the_first: fails 1
    """

    up: dict[T, bool] = each(False)
    light: Light = Light.GREEN

    @initial
    def begin(self, t: T, c: Light) -> None:
        self.up[t] = True
        self.light = c

    @action
    def rise(self, t: T) -> None:
        self.up[t] = True


@always
def one_is_up(s: SomeStart) -> bool:
    return any(s.up[t] for t in T)


@sometimes
def red_at_start(s: SomeStart) -> bool:
    return s.light == Light.RED


@never
def the_first(s: SomeStart) -> bool:
    return all(s.up[t] for t in T)


class ChosenLeader(Spec):
    """
    An element that is chosen at the beginning.

    follows_leader: holds
    next: fails 2
    """

    leader: T | None = None
    follows: dict[T, bool] = each(False)

    @initial
    def elect(self, t: T) -> None:
        self.leader = t

    @action
    def follow(self, t: T) -> None:
        require(not self.follows[t])
        assert self.leader is not None
        require(t == self.leader or self.follows[self.leader])
        self.follows[t] = True


@always
def follows_leader(s: ChosenLeader) -> bool:
    return s.leader is not None and (s.follows[s.leader] or not any(s.follows[t] for t in T))


class GuardedStart(Spec):
    """
    A guard of the initial method leaves out the bad choice.

    not_all_votes_yes: holds
    some_yes: holds 0
    """

    yes: dict[T, bool] = each(False)

    @initial
    def vote(self, votes: dict[T, bool]) -> None:
        require(any(not votes[t] for t in T))
        self.yes = votes

    @action
    def withdraw(self, t: T) -> None:
        self.yes[t] = False


@always
def not_all_votes_yes(s: GuardedStart) -> bool:
    return not all(s.yes[t] for t in T)


@sometimes
def some_yes(s: GuardedStart) -> bool:
    return any(s.yes[t] for t in T)


class NumbersAtStart(Spec):
    """
    Numbers chosen at the beginning, and counted down.

    goes_down: holds
    begins_with_two: holds 0
    next: fails 0
    """

    n: Annotated[Nat, UpTo(2)] = 0

    @initial
    def choose(self, i: Annotated[Nat, UpTo(2)]) -> None:
        self.n = i

    @action
    def down(self) -> None:
        require(self.n > 0)
        self.n -= 1


@step
def goes_down(before: NumbersAtStart, after: NumbersAtStart) -> bool:
    return after.n < before.n


@sometimes
def begins_with_two(s: NumbersAtStart) -> bool:
    return s.n == 2


class Quorums(Spec):
    """
    Quorums of which any two meet, by an axiom: two decisions never differ.

    one_decision: holds
    by_a_quorum: holds
    decided_once: holds 2
    next: fails 2
    """

    within: dict[tuple[Quorum, T], bool] = each(False)
    voted: dict[T, Light | None] = each(None)
    decided: dict[Light, bool] = each(False)

    @initial
    def any_quorums(self, members: dict[tuple[Quorum, T], bool]) -> None:
        self.within = members

    @action
    def vote(self, t: T, c: Light) -> None:
        require(self.voted[t] is None)
        self.voted[t] = c

    @action
    def decide(self, q: Quorum, c: Light) -> None:
        require(all(not self.within[q, t] or self.voted[t] == c for t in T))
        self.decided[c] = True


@axiom
def they_meet(s: Quorums) -> bool:
    return all(any(s.within[p, t] and s.within[q, t] for t in T) for p in Quorum for q in Quorum)


@lemma
def by_a_quorum(s: Quorums) -> bool:
    return all(
        not s.decided[c]
        or any(all(not s.within[q, t] or s.voted[t] == c for t in T) for q in Quorum)
        for c in Light
    )


@always
def one_decision(s: Quorums) -> bool:
    return not (s.decided[Light.RED] and s.decided[Light.GREEN])


@sometimes
def decided_once(s: Quorums) -> bool:
    return any(s.decided[c] for c in Light)


class QuorumsApart(Spec):
    """
    The same without the axiom.

    never_both: fails 2
    next: fails 2
    """

    member: dict[tuple[Quorum, T], bool] = each(False)
    vote: dict[T, Light | None] = each(None)
    done: dict[Light, bool] = each(False)

    @initial
    def any_quorums(self, members: dict[tuple[Quorum, T], bool]) -> None:
        self.member = members

    @action
    def cast(self, t: T, c: Light) -> None:
        require(self.vote[t] is None)
        self.vote[t] = c

    @action
    def decide(self, q: Quorum, c: Light) -> None:
        require(all(not self.member[q, t] or self.vote[t] == c for t in T))
        self.done[c] = True


@always
def never_both(s: QuorumsApart) -> bool:
    return not (s.done[Light.RED] and s.done[Light.GREEN])


class ConstantByAxiom(Spec):
    """
    An axiom about a constant that is chosen at the beginning.

    never_wrong: holds
    works: holds
    """

    honest: dict[T, bool] = each(True)
    said: dict[T, bool] = each(False)

    @initial
    def begin(self, given: dict[T, bool]) -> None:
        self.honest = given

    @action
    def say(self, t: T) -> None:
        self.said[t] = True

    @action
    def hush(self, t: T) -> None:
        require(self.honest[t])
        self.said[t] = False


@axiom
def all_honest(s: ConstantByAxiom) -> bool:
    return all(s.honest[t] for t in T)


@always
def never_wrong(s: ConstantByAxiom) -> bool:
    return all(s.honest[t] or not s.said[t] for t in T)


@recoverable
def works(s: ConstantByAxiom) -> bool:
    return not any(s.said[t] for t in T)
