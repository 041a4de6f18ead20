"""Ways back, ends, and what is possible once."""

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
    fault,
    never,
    recoverable,
    require,
    sometimes,
)


class T(Sort):
    """An element."""


class Repaired(Spec):
    """
    What a fault breaks, the protocol repairs.

    whole: holds
    ever_broken: holds 1
    """

    broken: bool = False

    @action(kind=fault)
    def hit(self) -> None:
        require(not self.broken)
        self.broken = True

    @action
    def repair(self) -> None:
        self.broken = False


@recoverable
def whole(s: Repaired) -> bool:
    return not s.broken


@sometimes
def ever_broken(s: Repaired) -> bool:
    return s.broken


class ByUserOnly(Spec):
    """
    Only a user repairs: the protocol alone cannot.

    whole_again: fails 1
    """

    broken: bool = False

    @action(kind=fault)
    def hit(self) -> None:
        require(not self.broken)
        self.broken = True

    @action(kind=command)
    def repair(self) -> None:
        self.broken = False


@recoverable
def whole_again(s: ByUserOnly) -> bool:
    return not s.broken


class ByFaultOnly(Spec):
    """
    Only another fault would lead back.

    back_home: fails 1
    """

    away: bool = False

    @action(kind=fault)
    def swap(self) -> None:
        self.away = not self.away

    @action
    def idle(self) -> None:
        pass


@recoverable
def back_home(s: ByFaultOnly) -> bool:
    return not s.away


class Trap(Spec):
    """
    A trap that shows after three steps.

    calm: fails 3
    not_trapped: fails 3
    """

    place: Annotated[Nat, UpTo(4)] = 0

    @action
    def go(self, f: bool) -> None:
        require(self.place < 2)
        self.place = self.place + 1 if f else 0

    @action
    def choose(self, f: bool) -> None:
        require(self.place == 2)
        self.place = 3 if f else 0

    @action
    def turn(self) -> None:
        require(self.place >= 3)
        self.place = 7 - self.place


@recoverable
def calm(s: Trap) -> bool:
    return s.place == 0


@always
def not_trapped(s: Trap) -> bool:
    return s.place < 3


class NeverThere(Spec):
    """
    What cannot be reached cannot be recovered, from the first state on.

    there: fails 0
    """

    on: bool = False
    far: bool = False

    @action
    def switch(self) -> None:
        self.on = not self.on


@recoverable
def there(s: NeverThere) -> bool:
    return s.far


class Ends(Spec):
    """
    Ends after three steps, as meant or not.

    three: holds 3
    next: fails 3
    """

    n: Annotated[Nat, UpTo(3)] = 0

    @action
    def go(self) -> None:
        require(self.n < 3)
        self.n += 1


@sometimes
def three(s: Ends) -> bool:
    return s.n == 3


class Deadlock(Spec):
    """
    Two forks, two hands: everybody holds one and waits.

    somebody_eats: holds 2
    all_idle: fails 2
    next: fails 2
    """

    left: T | None = None
    right: T | None = None

    @action
    def take_left(self, t: T) -> None:
        require(self.left is None)
        self.left = t

    @action
    def take_right(self, t: T) -> None:
        require(self.right is None)
        self.right = t

    @action
    def give_back(self, t: T) -> None:
        require(self.left == t and self.right == t)
        self.left = None
        self.right = None


@sometimes
def somebody_eats(s: Deadlock) -> bool:
    return any(s.left == t and s.right == t for t in T)


@recoverable
def all_idle(s: Deadlock) -> bool:
    return s.left is None and s.right is None


class StutterOnly(Spec):
    """
    A step that changes nothing is a step: no end.

    still: holds
    """

    on: bool = False

    @action
    def idle(self) -> None:
        pass


@always
def still(s: StutterOnly) -> bool:
    return not s.on


class EndsWithoutFaults(Spec):
    """
    Where the budget is spent, nothing more happens.

    twice: holds 2
    next: fails 2
    at faults=0:
    twice: fails
    next: fails 0
    dead: hit
    """

    n: Annotated[Nat, UpTo(3)] = 0

    @action(kind=fault)
    def hit(self) -> None:
        require(self.n < 3)
        self.n += 1


@sometimes
def twice(s: EndsWithoutFaults) -> bool:
    return s.n == 2


class OneWay(Spec):
    """
    Whoever has left cannot come back, but the last may stay.

    all_home: fails 1
    somebody_home: fails 2
    nobody_home: fails 2
    next: fails 2
    """

    home: dict[T, bool] = each(True)

    @action
    def leave(self, t: T) -> None:
        require(self.home[t])
        self.home[t] = False


@recoverable
def all_home(s: OneWay) -> bool:
    return all(s.home[t] for t in T)


@recoverable
def somebody_home(s: OneWay) -> bool:
    return any(s.home[t] for t in T)


@never
def nobody_home(s: OneWay) -> bool:
    return not any(s.home[t] for t in T)


class LongWayBack(Spec):
    """
    A way back of many steps is a way.

    home_again: holds
    far_away: holds 5
    """

    n: Annotated[Nat, UpTo(9)] = 0

    @action(kind=fault)
    def throw(self) -> None:
        require(self.n == 0)
        self.n = 1

    @action
    def walk(self) -> None:
        require(0 < self.n)
        self.n = self.n + 1 if self.n < 9 else 0

    @action
    def rest(self) -> None:
        require(self.n == 0)


@recoverable
def home_again(s: LongWayBack) -> bool:
    return s.n == 0


@sometimes
def far_away(s: LongWayBack) -> bool:
    return s.n == 5
