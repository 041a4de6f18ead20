"""What must happen: weak and strong fairness, and what nothing brings about."""

from typing import Annotated

from herdspec import (
    Nat,
    Sort,
    Spec,
    UpTo,
    action,
    always,
    command,
    each,
    eventually,
    fault,
    leads_to,
    require,
    strong,
    weak,
)


class T(Sort):
    """An element."""


class Unfair(Spec):
    """
    Possible for ever, and never taken: nothing is fair.

    done_at_last: fails
    """

    done: bool = False

    @action
    def finish(self) -> None:
        self.done = True


@eventually
def done_at_last(s: Unfair) -> bool:
    return s.done


class Weak(Spec):
    """
    The same, weakly fair.

    comes_to_an_end: holds
    """

    done: bool = False

    @action(fair=weak)
    def finish(self) -> None:
        self.done = True


@eventually
def comes_to_an_end(s: Weak) -> bool:
    return s.done


class Blinking(Spec):
    """
    Possible again and again, but not without interruption: weak fairness is not enough.

    caught: fails
    """

    lit: bool = False
    done: bool = False

    @action(fair=weak)
    def blink(self) -> None:
        self.lit = not self.lit

    @action(fair=weak)
    def catch(self) -> None:
        require(self.lit)
        self.done = True


@eventually
def caught(s: Blinking) -> bool:
    return s.done


class BlinkingStrong(Spec):
    """
    The same, strongly fair.

    caught_at_last: holds
    """

    lit: bool = False
    done: bool = False

    @action(fair=weak)
    def blink(self) -> None:
        self.lit = not self.lit

    @action(fair=strong)
    def catch(self) -> None:
        require(self.lit)
        self.done = True


@eventually
def caught_at_last(s: BlinkingStrong) -> bool:
    return s.done


class StrongButStill(Spec):
    """
    Strong fairness is of no use where nothing makes it possible again.

    got: fails
    """

    lit: bool = False
    done: bool = False

    @action
    def blink(self) -> None:
        self.lit = not self.lit

    @action(fair=strong)
    def catch(self) -> None:
        require(self.lit)
        self.done = True


@eventually
def got(s: StrongButStill) -> bool:
    return s.done


class FairCounter(Spec):
    """
    A counter whose tick is fair, and an end that nothing brings about.

    over: fails
    turns: holds
    """

    n: Annotated[Nat, UpTo(2)] = 0
    end: bool = False

    @action(fair=weak)
    def tick(self) -> None:
        self.n = self.n + 1 if self.n < 2 else 0

    @action
    def stop(self) -> None:
        require(self.n == 1)
        self.end = True


@eventually
def over(s: FairCounter) -> bool:
    return s.end


@leads_to
def turns(s: FairCounter) -> tuple[bool, bool]:
    return s.n == 0, s.n == 2


class Starving(Spec):
    """
    A lock that is granted with weak fairness starves somebody.

    granted: fails
    at T=1:
    granted: holds
    at T=3:
    granted: fails
    """

    wants: dict[T, bool] = each(False)
    holder: T | None = None

    @action(kind=command)
    def ask(self, t: T) -> None:
        require(not self.wants[t] and self.holder != t)
        self.wants[t] = True

    @action(fair=weak)
    def grant(self, t: T) -> None:
        require(self.holder is None and self.wants[t])
        self.holder = t
        self.wants[t] = False

    @action(fair=weak)
    def release(self, t: T) -> None:
        require(self.holder == t)
        self.holder = None


@leads_to
def granted(s: Starving, t: T) -> tuple[bool, bool]:
    return s.wants[t], s.holder == t


class InTurn(Spec):
    """
    The same with strong fairness.

    granted_in_turn: holds
    freed: holds
    asked: fails
    """

    wants: dict[T, bool] = each(False)
    holder: T | None = None

    @action(kind=command)
    def ask(self, t: T) -> None:
        require(not self.wants[t] and self.holder != t)
        self.wants[t] = True

    @action(fair=strong)
    def grant(self, t: T) -> None:
        require(self.holder is None and self.wants[t])
        self.holder = t
        self.wants[t] = False

    @action(fair=weak)
    def release(self, t: T) -> None:
        require(self.holder == t)
        self.holder = None


@leads_to
def granted_in_turn(s: InTurn, t: T) -> tuple[bool, bool]:
    return s.wants[t], s.holder == t


@leads_to
def freed(s: InTurn) -> tuple[bool, bool]:
    return s.holder is not None, s.holder is None


@eventually
def asked(s: InTurn, t: T) -> bool:
    return s.holder == t


class EachForItself(Spec):
    """
    Fairness is of each choice of arguments: everybody is served, in any order.

    everybody: holds
    all_at_once: holds
    next: fails 2
    """

    served: dict[T, bool] = each(False)

    @action(fair=weak)
    def serve(self, t: T) -> None:
        require(not self.served[t])
        self.served[t] = True


@eventually
def everybody(s: EachForItself, t: T) -> bool:
    return s.served[t]


@eventually
def all_at_once(s: EachForItself) -> bool:
    return all(s.served[t] for t in T)


class FaultsEnd(Spec):
    """
    Faults interrupt as often as their budget allows, and no more.

    up_again: holds
    up_for_good: holds
    """

    down: bool = False

    @action(kind=fault)
    def crash(self) -> None:
        require(not self.down)
        self.down = True

    @action(fair=weak)
    def restart(self) -> None:
        require(self.down)
        self.down = False

    @action
    def idle(self) -> None:
        require(not self.down)


@leads_to
def up_again(s: FaultsEnd) -> tuple[bool, bool]:
    return s.down, not s.down


@eventually
def up_for_good(s: FaultsEnd) -> bool:
    return not s.down


class CommandsNeedNotCome(Spec):
    """
    A command may never be given, and a fault may never strike.

    opened: fails
    broken: fails
    """

    open: bool = False
    torn: bool = False

    @action(kind=command)
    def unlock(self) -> None:
        self.open = True

    @action(kind=fault)
    def tear(self) -> None:
        self.torn = True


@eventually
def opened(s: CommandsNeedNotCome) -> bool:
    return s.open


@eventually
def broken(s: CommandsNeedNotCome) -> bool:
    return s.torn


class Overtaken(Spec):
    """
    Two fair actions that undo each other; the goal lies between them.

    middle: holds
    both_at_once: fails
    """

    a: bool = False
    b: bool = False

    @action(fair=weak)
    def left(self) -> None:
        require(self.a == self.b)
        self.a = not self.a

    @action(fair=weak)
    def right(self) -> None:
        require(self.a != self.b)
        self.b = not self.b


@leads_to
def middle(s: Overtaken) -> tuple[bool, bool]:
    return s.a == s.b, s.a != s.b


@eventually
def both_at_once(s: Overtaken) -> bool:
    return s.a and s.b and not s.a


class Detour(Spec):
    """
    An unfair detour is possible for ever, and interrupts the weakly fair way out.

    out: fails
    out_strongly: holds
    next: fails 2
    """

    place: Annotated[Nat, UpTo(2)] = 0
    left_by_strong: bool = False

    @action
    def go_round(self) -> None:
        require(self.place < 2)
        self.place = 1 - self.place

    @action(fair=weak)
    def leave(self) -> None:
        require(self.place == 1)
        self.place = 2

    @action(fair=strong)
    def mark(self) -> None:
        require(self.place == 0 and not self.left_by_strong)
        self.left_by_strong = True


@eventually
def out(s: Detour) -> bool:
    return s.place == 2


@leads_to
def out_strongly(s: Detour) -> tuple[bool, bool]:
    return s.place == 0, s.left_by_strong or s.place == 1


class FalseAfterGoal(Spec):
    """
    The premise comes again after the goal, and is then not answered.

    answered: fails
    first_answered: holds
    """

    asked: bool = False
    turns_left: Annotated[Nat, UpTo(1)] = 1
    answers: bool = False

    @action(fair=weak)
    def ask(self) -> None:
        require(not self.asked)
        self.asked = True
        self.answers = False

    @action(fair=weak)
    def answer(self) -> None:
        require(self.asked and self.turns_left > 0)
        self.asked = False
        self.answers = True
        self.turns_left = 0

    @action
    def wait(self) -> None:
        pass


@leads_to
def answered(s: FalseAfterGoal) -> tuple[bool, bool]:
    return s.asked, s.answers


@eventually
def first_answered(s: FalseAfterGoal) -> bool:
    return s.answers


class SafeAndLive(Spec):
    """
    A promise of each kind, all true.

    never_two: holds
    returns: holds
    """

    n: Annotated[Nat, UpTo(3)] = 0

    @action(fair=weak)
    def on(self) -> None:
        require(self.n == 0)
        self.n = 1

    @action(fair=weak)
    def back(self) -> None:
        require(self.n == 1)
        self.n = 0


@always
def never_two(s: SafeAndLive) -> bool:
    return s.n < 2


@leads_to
def returns(s: SafeAndLive) -> tuple[bool, bool]:
    return True, s.n == 0
