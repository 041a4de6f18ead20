"""
Termination detection in a ring: a token goes round, and machines are white or black.

After `specifications/ewd840/EWD840.tla` of the TLA+ examples (Merz; the algorithm is Dijkstra's,
Feijen's and van Gasteren's, EWD 840), at the constants of `EWD840_json.cfg`: four nodes. It has
1,024 initial states: any nodes may be active, any be black, any have the token. TLC counts a step
once for each disjunct of its guard that holds; the parameter `reason` says which that is.
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
    empty,
    initial,
    require,
    sometimes,
    specification,
)

NODES = 4
Node = Annotated[Nat, UpTo(3)]
"""A node; node 0 begins the probes, and the token goes from each to the one before."""


class Reason(Enum):
    """Why the token may go on."""

    PASSIVE = "its node is passive"
    BLACK = "its node is black"
    TOKEN_BLACK = "it is black"


class TerminationRing(Spec):
    """Node 0 finds out that all are passive."""

    active: set[Node] = empty()
    black: set[Node] = empty()
    token: Node = 0
    token_black: bool = True

    @initial
    def start(self, active: set[Node], black: set[Node], token: Node) -> None:
        """Anything may be so; only the token is black."""
        self.active = active
        self.black = black
        self.token = token

    def holds(self, reason: Reason) -> bool:
        """Whether this is a reason for the token to go on."""
        return (
            (reason == Reason.PASSIVE and self.token not in self.active)
            or (reason == Reason.BLACK and self.token in self.black)
            or (reason == Reason.TOKEN_BLACK and self.token_black)
        )

    @action
    def probe(self, reason: Reason) -> None:
        """Node 0 sends a white token round, for the last came in vain: {reason}."""
        require(self.token == 0 and reason != Reason.PASSIVE and self.holds(reason))
        self.token = NODES - 1
        self.token_black = False
        self.black.discard(0)

    @action
    def pass_token(self, n: Node, reason: Reason) -> None:
        """{n} passes the token on: {reason}."""
        require(n > 0 and self.token == n and self.holds(reason))
        self.token = n - 1
        self.token_black = self.token_black or n in self.black
        self.black.discard(n)

    @action
    def send(self, n: Node, to: Node) -> None:
        """{n} sends a message to {to}, which is active then."""
        require(n in self.active and n != to)
        self.active.add(to)
        if to > n:
            self.black.add(n)

    @action
    def rest(self, n: Node) -> None:
        """{n} becomes passive."""
        require(n in self.active)
        self.active.discard(n)


def detected(s: TerminationRing) -> bool:
    """Node 0 has a white token, is white and passive."""
    return s.token == 0 and not s.token_black and 0 not in s.black and 0 not in s.active


@always
def what_is_detected_is_so(s: TerminationRing) -> bool:
    """When node 0 finds that all are passive, they are."""
    return not detected(s) or len(s.active) == 0


@always
def the_invariant(s: TerminationRing) -> bool:
    """Behind the token all are passive, or a node before it is black, or the token is."""
    return (
        all(n <= s.token or n not in s.active for n in range(NODES))
        or any(n <= s.token and n in s.black for n in range(NODES))
        or s.token_black
    )


@sometimes
def it_is_detected(s: TerminationRing) -> bool:
    """Node 0 finds that all are passive."""
    return detected(s)


TERMINATION_RING = specification(
    TerminationRing, what_is_detected_is_so, the_invariant, it_is_detected
)
