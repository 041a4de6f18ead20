"""Promises that hold of nothing: actions that are never possible, premises that never come."""

from herdspec import (
    Nat,
    Sort,
    Spec,
    action,
    always,
    command,
    each,
    eventually,
    fault,
    leads_to,
    require,
    sometimes,
    step,
    weak,
)


class T(Sort):
    """An element."""


class NeverEnabled(Spec):
    """
    An action whose guard is never true.

    quiet: holds
    dead: shout
    """

    loud: bool = False
    ready: bool = False

    @action
    def shout(self) -> None:
        require(self.ready)
        self.loud = True

    @action
    def wait(self) -> None:
        self.loud = False


@always
def quiet(s: NeverEnabled) -> bool:
    return not s.loud


class Contradiction(Spec):
    """
    A guard that no state at all can satisfy.

    not_moved: holds
    dead: move
    """

    moved: bool = False

    @action
    def move(self) -> None:
        require(self.moved and not self.moved)
        self.moved = True

    @action
    def rest(self) -> None:
        pass


@always
def not_moved(s: Contradiction) -> bool:
    return not s.moved


class NeverPossibleFault(Spec):
    """
    A fault that never strikes.

    whole: holds
    dead: break_it
    """

    broken: bool = False
    weakened: bool = False

    @action(kind=fault)
    def break_it(self) -> None:
        require(self.weakened)
        self.broken = True

    @action
    def rest(self) -> None:
        pass


@always
def whole(s: NeverPossibleFault) -> bool:
    return not s.broken


class NoPremise(Spec):
    """
    An implication whose antecedent is never true.

    if_on_then_lit: holds
    after_on_lit: holds
    dead: light
    """

    on: bool = False
    lit: bool = False

    @action
    def light(self) -> None:
        require(self.on)
        self.lit = True

    @action
    def rest(self) -> None:
        pass


@always
def if_on_then_lit(s: NoPremise) -> bool:
    return not s.on or s.lit


@leads_to
def after_on_lit(s: NoPremise) -> tuple[bool, bool]:
    return s.on, s.lit


class ImpliesNothing(Spec):
    """
    All actions are possible, and still no premise is ever true.

    red_implies_up: holds
    """

    up: bool = False
    red: bool = False

    @action
    def rise(self) -> None:
        self.up = not self.up


@always
def red_implies_up(s: ImpliesNothing) -> bool:
    return not s.red or s.up


class CannotMove(Spec):
    """
    No step is ever possible.

    stays: holds
    next: fails 0
    dead: move
    """

    moved: bool = False

    @action
    def move(self) -> None:
        require(self.moved)
        self.moved = True


@always
def stays(s: CannotMove) -> bool:
    return not s.moved


class NoPromise(Spec):
    """
    Promises nothing at all.
    """

    on: bool = False

    @action
    def switch(self) -> None:
        self.on = not self.on


class NoPromiseAndStuck(Spec):
    """
    Promises nothing, and ends.

    next: fails 1
    """

    on: bool = False

    @action
    def switch(self) -> None:
        require(not self.on)
        self.on = True


class OnlySometimes(Spec):
    """
    Promises only that something is possible.

    can_be_on: holds 1
    """

    on: bool = False

    @action
    def switch(self) -> None:
        self.on = not self.on


@sometimes
def can_be_on(s: OnlySometimes) -> bool:
    return s.on


class NeverWitnessed(Spec):
    """
    What is said to be possible is not.

    both_up: fails
    """

    a: bool = False
    b: bool = False

    @action
    def left(self) -> None:
        self.a = not self.a
        self.b = False

    @action
    def right(self) -> None:
        self.b = not self.b
        self.a = False


@sometimes
def both_up(s: NeverWitnessed) -> bool:
    return s.a and s.b


class WitnessedAtTheStart(Spec):
    """
    Possible at once, and never again.

    down: holds 0
    next: fails 1
    """

    up: bool = False

    @action
    def rise(self) -> None:
        require(not self.up)
        self.up = True


@sometimes
def down(s: WitnessedAtTheStart) -> bool:
    return not s.up


class WithTwoOnly(Spec):
    """
    An action that needs two elements.

    alone: fails 1
    at T=1:
    alone: holds
    dead: meet
    next: fails 0
    """

    met: bool = False

    @action
    def meet(self, a: T, b: T) -> None:
        require(a != b)
        self.met = True


@always
def alone(s: WithTwoOnly) -> bool:
    return not s.met


class WithFaultsOnly(Spec):
    """
    Repairs only what a fault has broken: without faults it is never possible.

    never_two: fails 2
    repaired: holds
    at faults=0:
    never_two: holds
    repaired: holds
    dead: hit, repair
    """

    hits: Nat = 0

    @action(kind=fault)
    def hit(self) -> None:
        self.hits += 1

    @action(fair=weak)
    def repair(self) -> None:
        require(self.hits > 0)
        self.hits = 0

    @action(kind=command)
    def look(self) -> None:
        require(self.hits < 2)


@always
def never_two(s: WithFaultsOnly) -> bool:
    return s.hits < 2


@leads_to
def repaired(s: WithFaultsOnly) -> tuple[bool, bool]:
    return s.hits > 0, s.hits == 0


class StepsOnlyOfOthers(Spec):
    """
    A step promise whose antecedent no step ever has.

    once_on_stays: holds
    """

    on: bool = False
    other: bool = False

    @action
    def flip(self) -> None:
        self.other = not self.other


@step
def once_on_stays(before: StepsOnlyOfOthers, after: StepsOnlyOfOthers) -> bool:
    return not before.on or after.on


class NobodyIsThere(Spec):
    """
    True of any number but zero.

    somebody: holds
    """

    up: dict[T, bool] = each(False)

    @action
    def rise(self, t: T) -> None:
        self.up[t] = not self.up[t]


@always
def somebody(s: NobodyIsThere) -> bool:
    return any(True for t in T)


class EventuallyAtOnce(Spec):
    """
    What eventually comes is there from the beginning.

    begun: holds
    """

    on: bool = True

    @action
    def switch(self) -> None:
        self.on = not self.on


@eventually
def begun(s: EventuallyAtOnce) -> bool:
    return s.on
