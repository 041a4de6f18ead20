"""Channels: what is full when explored goes on in truth."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from herdspec import (
    Capacity,
    Sort,
    Spec,
    action,
    always,
    command,
    each,
    empty,
    eventually,
    fault,
    leads_to,
    recoverable,
    require,
    sometimes,
    step,
    weak,
)


class T(Sort):
    """An element."""


class Kind(Enum):
    ASK = "ask"
    TELL = "tell"


@dataclass(frozen=True)
class Note:
    """A message."""

    kind: Kind
    who: T


class Flood(Spec):
    """
    Sends without end.

    at_most_two: fails 3
    next: open
    meaning: open
    """

    q: Annotated[list[T], Capacity(2)] = empty()

    @action
    def send(self, t: T) -> None:
        self.q.append(t)


@always
def at_most_two(s: Flood) -> bool:
    return len(s.q) <= 2


class OneTooMany(Spec):
    """
    Three messages, where two have room when explored.

    at_most_three: holds
    not_three: fails 3
    next: fails 3
    """

    q: Annotated[list[bool], Capacity(2)] = empty()

    @action
    def send(self) -> None:
        require(len(self.q) < 3)
        self.q.append(True)


@always
def at_most_three(s: OneTooMany) -> bool:
    return len(s.q) <= 3


@always
def not_three(s: OneTooMany) -> bool:
    return len(s.q) < 3


class WithinCapacity(Spec):
    """
    Never sends more than there is room for.

    two_at_most: holds
    both_there: holds 2
    drained: holds
    """

    q: Annotated[list[T], Capacity(2)] = empty()

    @action
    def send(self, t: T) -> None:
        require(len(self.q) < 2)
        self.q.append(t)

    @action
    def take(self) -> None:
        require(len(self.q) > 0)
        self.q.pop(0)


@always
def two_at_most(s: WithinCapacity) -> bool:
    return len(s.q) <= 2


@sometimes
def both_there(s: WithinCapacity) -> bool:
    return len(s.q) == 2 and all(t in s.q for t in T)


@recoverable
def drained(s: WithinCapacity) -> bool:
    return len(s.q) == 0


class InOrder(Spec):
    """
    First in, first out: a TELL never overtakes its ASK.

    tell_after_ask: holds
    asked_twice: fails 4
    """

    q: Annotated[list[Kind], Capacity(2)] = empty()
    asked: bool = False
    told: bool = False
    heard: bool = False

    @action
    def ask(self) -> None:
        require(not self.asked)
        self.asked = True
        self.q.append(Kind.ASK)

    @action
    def tell(self) -> None:
        require(self.asked and not self.told)
        self.told = True
        self.q.append(Kind.TELL)

    @action
    def hear(self) -> None:
        require(len(self.q) > 0)
        m = self.q.pop(0)
        if m == Kind.ASK:
            self.heard = True
        else:
            require(self.heard)
            self.heard = False

    @action
    def again(self) -> None:
        require(self.told and len(self.q) == 0)
        self.asked = False
        self.told = False


@always
def tell_after_ask(s: InOrder) -> bool:
    return not (len(s.q) > 0 and s.q[0] == Kind.TELL) or s.heard


@always
def asked_twice(s: InOrder) -> bool:
    return not (s.told and len(s.q) == 0)


class ReadEmpty(Spec):
    """
    Reads a channel that is empty.

    never_got: holds
    meaning: fails 1
    """

    q: Annotated[list[T], Capacity(2)] = empty()
    got: T | None = None

    @action
    def take(self) -> None:
        self.got = self.q.pop(0)


@always
def never_got(s: ReadEmpty) -> bool:
    return s.got is None


class FirstOfEmpty(Spec):
    """
    A property that looks at the first message of an empty channel does not hold there.

    first_is_true: fails 0
    first_is_true_if_any: holds
    """

    q: Annotated[list[bool], Capacity(1)] = empty()

    @action
    def send(self) -> None:
        require(len(self.q) == 0)
        self.q.append(True)

    @action
    def take(self) -> None:
        require(len(self.q) > 0)
        self.q.pop(0)


@always
def first_is_true(s: FirstOfEmpty) -> bool:
    return s.q[0]


@always
def first_is_true_if_any(s: FirstOfEmpty) -> bool:
    return len(s.q) == 0 or s.q[0]


class Inboxes(Spec):
    """
    A channel for each element; a message may be lost.

    for_its_owner: holds
    none_lost: fails 2
    """

    box: dict[T, Annotated[list[Note], Capacity(1)]] = each(empty())
    lost: bool = False

    @action
    def send(self, t: T, kind: Kind) -> None:
        require(len(self.box[t]) == 0)
        self.box[t].append(Note(kind, t))

    @action(kind=fault)
    def lose(self, t: T) -> None:
        require(len(self.box[t]) > 0)
        self.box[t].clear()
        self.lost = True

    @action
    def take(self, t: T) -> None:
        require(len(self.box[t]) > 0)
        self.box[t].pop(0)


@always
def for_its_owner(s: Inboxes) -> bool:
    return all(m.who == t for t in T for m in s.box[t])


@always
def none_lost(s: Inboxes) -> bool:
    return not s.lost


class Delivered(Spec):
    """
    A message that is fairly delivered is delivered.

    heard_at_last: holds
    asked_at_last: fails
    """

    q: Annotated[list[bool], Capacity(1)] = empty()
    heard: bool = False

    @action(kind=command)
    def send(self) -> None:
        require(len(self.q) == 0)
        self.q.append(True)

    @action(fair=weak)
    def take(self) -> None:
        require(len(self.q) > 0)
        self.q.pop(0)
        self.heard = True


@leads_to
def heard_at_last(s: Delivered) -> tuple[bool, bool]:
    return len(s.q) > 0, s.heard


@eventually
def asked_at_last(s: Delivered) -> bool:
    return s.heard


class DeliveredBeyond(Spec):
    """
    Two are sent at once into a channel of one: what follows is beyond the capacity.

    two_heard: fails 3
    next: fails 3
    """

    q: Annotated[list[bool], Capacity(1)] = empty()
    once: bool = False
    twice: bool = False

    @action
    def send(self) -> None:
        require(not self.once and len(self.q) == 0)
        self.q.append(True)
        self.q.append(True)

    @action
    def take(self) -> None:
        require(len(self.q) > 0)
        self.q.pop(0)
        self.twice = self.once
        self.once = True


@always
def two_heard(s: DeliveredBeyond) -> bool:
    return not s.twice


class Cleared(Spec):
    """
    A channel is emptied, and never shrinks by two otherwise.

    one_less: fails 3
    """

    q: Annotated[list[bool], Capacity(2)] = empty()

    @action
    def send(self, what: bool) -> None:
        require(len(self.q) < 2)
        self.q.append(what)

    @action
    def forget(self) -> None:
        require(len(self.q) == 2)
        self.q.clear()


@step
def one_less(before: Cleared, after: Cleared) -> bool:
    return len(before.q) <= len(after.q) + 1


class Somebody(Spec):
    """
    Membership and quantifiers over messages.

    true_within: holds 1
    both_kinds: holds 2
    """

    q: Annotated[list[bool], Capacity(2)] = empty()

    @action
    def send(self, what: bool) -> None:
        require(len(self.q) < 2)
        self.q.append(what)

    @action
    def reset(self) -> None:
        self.q.clear()


@sometimes
def true_within(s: Somebody) -> bool:
    return any(m for m in s.q)


@sometimes
def both_kinds(s: Somebody) -> bool:
    return any(m for m in s.q) and not all(m for m in s.q)
