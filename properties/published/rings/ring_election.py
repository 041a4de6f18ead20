"""
Leader election in a ring (Chang and Roberts): the smallest identifier goes all the way round.

After `specifications/chang_roberts/ChangRoberts.tla` of the TLA+ examples (Merz), at the constants
of `MCChangRoberts.cfg`: three nodes, whose identifiers are their numbers. Which of them begin is
chosen at the start.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from herdspec import (
    Nat,
    Spec,
    UpTo,
    action,
    always,
    each,
    empty,
    initial,
    require,
    sometimes,
    specification,
)

NODES = 3
Node = Annotated[Nat, UpTo(2)]
"""A node, and its identifier."""


class Standing(Enum):
    """What a node believes of itself."""

    CANDIDATE = "cand"
    LOST = "lost"
    WON = "won"


class RingElection(Spec):
    """Nodes send identifiers round; each passes on what is less than its own."""

    begins: dict[Node, bool] = each(False)
    begun: dict[Node, bool] = each(False)
    standing: dict[Node, Standing] = each(Standing.LOST)
    inbox: set[tuple[Node, Node]] = empty()  # (n, i): the identifier i is on its way to n

    @initial
    def start(self, begins: dict[Node, bool]) -> None:
        """Some nodes begin an election."""
        for n in range(NODES):
            self.begins[n] = begins[n]
            self.standing[n] = Standing.CANDIDATE if begins[n] else Standing.LOST

    @action
    def begin(self, n: Node) -> None:
        """{n} begins, and sends its identifier on if it is a candidate."""
        require(not self.begun[n])
        self.begun[n] = True
        if self.begins[n]:
            self.inbox.add((0 if n == NODES - 1 else n + 1, n))

    @action
    def receive(self, n: Node, identifier: Node) -> None:
        """{n} receives the identifier {identifier}."""
        require(self.begun[n] and (n, identifier) in self.inbox)
        self.inbox.discard((n, identifier))
        if self.standing[n] == Standing.LOST or identifier < n:
            self.inbox.add((0 if n == NODES - 1 else n + 1, identifier))
        if self.standing[n] != Standing.LOST:
            if identifier < n:
                self.standing[n] = Standing.LOST
            elif identifier == n:
                self.standing[n] = Standing.WON


@always
def one_winner(s: RingElection) -> bool:
    """Who wins has begun, all others lose, and none of them that began has a smaller identifier."""
    return all(
        s.standing[n] != Standing.WON
        or (
            s.begins[n]
            and all(
                m == n or (s.standing[m] == Standing.LOST and (not s.begins[m] or m > n))
                for m in range(NODES)
            )
        )
        for n in range(NODES)
    )


@sometimes
def somebody_wins(s: RingElection) -> bool:
    """Somebody wins."""
    return any(s.standing[n] == Standing.WON for n in range(NODES))


RING_ELECTION = specification(RingElection, one_winner, somebody_wins)
