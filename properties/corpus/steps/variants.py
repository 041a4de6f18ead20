"""Specs that are made of others: `specification`, `replace`, `drop`, `add`."""

from herdspec import (
    Sort,
    Spec,
    action,
    always,
    each,
    fault,
    recoverable,
    require,
    sometimes,
    specification,
)


class T(Sort):
    """An element."""


class Lock(Spec):
    """
    A lock with one holder.

    one_holder: holds
    held: holds 1
    had_again: holds
    """

    holder: T | None = None
    has: dict[T, bool] = each(False)

    @action
    def grant(self, t: T) -> None:
        require(self.holder is None)
        self.holder = t
        self.has[t] = True

    @action
    def release(self, t: T) -> None:
        require(self.has[t])
        self.has[t] = False
        self.holder = None

    @action(kind=fault)
    def expire(self, t: T) -> None:
        require(self.holder == t)
        self.holder = None
        self.has[t] = False


@always
def one_holder(s: Lock) -> bool:
    return all(a == b or not (s.has[a] and s.has[b]) for a in T for b in T)


@sometimes
def held(s: Lock) -> bool:
    return any(s.has[t] for t in T)


@recoverable
def had_again(s: Lock) -> bool:
    return s.holder is None


def careless(self: Lock, t: T) -> None:
    """The lease expires, and its holder does not know."""
    require(self.holder == t)
    self.holder = None


def anybody(self: Lock, t: T) -> None:
    """Given without a look."""
    self.holder = t
    self.has[t] = True


@action
def steal(self: Lock, t: T) -> None:
    """Somebody takes it from another."""
    require(self.holder is not None and not self.has[t])
    self.has = {x: x == t for x in T}
    self.holder = t


LOCK = specification(Lock, one_holder, held, had_again)
CARELESS = LOCK.replace("Careless", expire=careless)
"""
one_holder: fails 3
held: holds 1
had_again: holds
at faults=0:
one_holder: holds
held: holds 1
had_again: holds
dead: expire
"""
ANYBODY = LOCK.replace("Anybody", grant=anybody)
"""
one_holder: fails 2
held: holds 1
had_again: holds
"""
FOR_EVER = LOCK.drop("ForEver", "release")
"""
one_holder: holds
held: holds 1
had_again: fails 1
next: fails 5
at faults=0:
one_holder: holds
held: holds 1
had_again: fails 1
next: fails 1
dead: expire
"""
WITHOUT_FAULTS = LOCK.drop("WithoutFaults", "expire")
"""
one_holder: holds
held: holds 1
had_again: holds
"""
STEALING = LOCK.add("Stealing", steal=steal)
"""
one_holder: holds
held: holds 1
had_again: holds
"""
FORGOTTEN = specification(Lock, held)
"""
held: holds 1
"""
