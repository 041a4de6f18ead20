"""
The lock server of mypyvy's tutorial, and its inductive invariant, in this language.

Published as `examples/lockserv.pyv` of github wilcoxjay/mypyvy (cd80557), after the running example
of Wilcox et al., *Verdi*, PLDI 2015. Five transitions, the promise of mutual exclusion, and eight
supporting invariants; there as here all messages are relations from clients.
"""

from __future__ import annotations

from herdspec import Sort, Spec, action, always, each, lemma, require, sometimes, specification


class Node(Sort):
    """A client."""


class LockService(Spec):
    """A server owns one lock, and lends it to its clients."""

    server_holds: bool = True
    asked: dict[Node, bool] = each(False)  # client to server: the lock, please
    granted: dict[Node, bool] = each(False)  # server to client: it is yours
    returned: dict[Node, bool] = each(False)  # client to server: have it back
    holds: dict[Node, bool] = each(False)

    @action
    def send_lock(self, n: Node) -> None:
        """{n} asks for the lock."""
        self.asked[n] = True

    @action
    def recv_lock(self, n: Node) -> None:
        """The server grants the lock to {n}."""
        require(self.server_holds and self.asked[n])
        self.server_holds = False
        self.asked[n] = False
        self.granted[n] = True

    @action
    def recv_grant(self, n: Node) -> None:
        """{n} has the lock."""
        require(self.granted[n])
        self.granted[n] = False
        self.holds[n] = True

    @action
    def unlock(self, n: Node) -> None:
        """{n} gives the lock back."""
        require(self.holds[n])
        self.holds[n] = False
        self.returned[n] = True

    @action
    def recv_unlock(self, n: Node) -> None:
        """The server has the lock again."""
        require(self.returned[n])
        self.returned[n] = False
        self.server_holds = True


@always
def mutex(s: LockService) -> bool:
    """At most one client has the lock."""
    return all(not (s.holds[a] and s.holds[b]) or a == b for a in Node for b in Node)


@lemma
def one_grant(s: LockService) -> bool:
    """At most one grant is under way."""
    return all(not (s.granted[a] and s.granted[b]) or a == b for a in Node for b in Node)


@lemma
def one_return(s: LockService) -> bool:
    """At most one client is giving it back."""
    return all(not (s.returned[a] and s.returned[b]) or a == b for a in Node for b in Node)


@lemma
def held_or_granted(s: LockService) -> bool:
    """What somebody has is not under way to anybody."""
    return all(not (s.holds[a] and s.granted[b]) for a in Node for b in Node)


@lemma
def held_or_returned(s: LockService) -> bool:
    """What somebody has is not under way back."""
    return all(not (s.holds[a] and s.returned[b]) for a in Node for b in Node)


@lemma
def granted_or_returned(s: LockService) -> bool:
    """What is under way to somebody is not under way back."""
    return all(not (s.granted[a] and s.returned[b]) for a in Node for b in Node)


@lemma
def granted_by_the_server(s: LockService) -> bool:
    """What is under way to somebody the server has not."""
    return all(not (s.granted[n] and s.server_holds) for n in Node)


@lemma
def held_not_by_the_server(s: LockService) -> bool:
    """What somebody has the server has not."""
    return all(not (s.holds[n] and s.server_holds) for n in Node)


@lemma
def returned_to_the_server(s: LockService) -> bool:
    """What is under way back the server has not."""
    return all(not (s.returned[n] and s.server_holds) for n in Node)


@sometimes
def somebody_has_it(s: LockService) -> bool:
    """Somebody has the lock."""
    return any(s.holds[n] for n in Node)


LOCK_SERVICE = specification(
    LockService, mutex, one_grant, one_return, held_or_granted, held_or_returned,
    granted_or_returned, granted_by_the_server, held_not_by_the_server, returned_to_the_server,
    somebody_has_it,
)  # fmt: skip
ALONE = specification(LockService, mutex, somebody_has_it)
"""Without its supporting invariants: what a search for lemmas begins with."""
