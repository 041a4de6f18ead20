"""A lock as text, and the same lock changed in one way or another: what the suites compare."""

from __future__ import annotations

from herdspec import Specification, from_source

LOCK = '''
from enum import Enum
from herdspec import *

class Client(Sort):
    """A client."""

class Lease(Enum):
    NONE = "none"
    HELD = "held"
    STALE = "stale"

class Lock(Spec):
    """A lock server."""
    holder: Client | None = None
    lease: dict[Client, Lease] = each(Lease.NONE)

    def free(self) -> bool:
        """Nobody holds it."""
        return self.holder is None

    @action
    def grant(self, c: Client) -> None:
        """{c} gets the lease."""
        require(self.free())
        self.holder = c
        self.lease[c] = Lease.HELD

    @action
    def release(self, c: Client) -> None:
        """{c} gives it back."""
        require(self.lease[c] == Lease.HELD)
        self.lease[c] = Lease.NONE
        self.holder = None

    @action(kind=fault)
    def expire(self, c: Client) -> None:
        """The lease of {c} expires."""
        require(self.holder == c)
        self.holder = None
        self.lease[c] = Lease.STALE

@always
def one_holder(s: Lock) -> bool:
    """At most one client holds the lease."""
    return all(
        not (s.lease[a] == Lease.HELD and s.lease[b] == Lease.HELD)
        for a in Client for b in Client if a != b
    )

@sometimes
def somebody_holds_it(s: Lock) -> bool:
    """Somebody holds the lease."""
    return any(s.lease[c] == Lease.HELD for c in Client)
'''
EXPIRES_UNSEEN = LOCK.replace("Lease.STALE\n\n@always", "Lease.HELD\n\n@always")
VARIANTS = {
    "as it was": LOCK,
    "unguarded": LOCK.replace("return self.holder is None", "return True"),
    "never stale again": LOCK.replace(
        "self.free())", "self.free() and self.lease[c] != Lease.STALE)"
    ),
    "expires unseen": EXPIRES_UNSEEN,
    "kept on release": LOCK.replace(
        "        self.holder = None\n\n    @action(k", "\n    @action(k"
    ),
    "starts as held": LOCK.replace("each(Lease.NONE)", "each(Lease.HELD)"),
    "no expiry": LOCK.replace("require(self.holder == c)", "require(False)"),
}
ASK = '''    @action
    def ask(self, c: Client) -> None:
        """{c} asks."""
        require(not self.asked[c])
        self.asked[c] = True

    @action
    def grant'''
GHOST = LOCK.replace("    @action\n    def grant", ASK).replace(
    "    holder:", "    asked: dict[Client, bool] = each(False)\n    holder:"
)


def spec(text: str) -> Specification:
    """The lock of a text."""
    return from_source(text, "Lock")
