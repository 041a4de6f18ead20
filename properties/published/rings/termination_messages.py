"""
Termination detection with messages in flight: a token counts what was sent and received.

After `specifications/ewd998/EWD998PCal.tla` of the TLA+ examples (Kuppe; the algorithm is Safra's,
EWD 998), at the constants of `EWD998PCal.cfg`: three nodes, counters below 3. The bag of messages
on the way to a node is here their number, as all are alike, and the token is a message of its own.
Counters may be negative there; here they stand `ZERO` above what they mean. TLC discards states
with a counter beyond its constraint; here that is the bound of naturals, with the same effect. The
parameter `reason` says which disjunct of TLA+'s guard holds, because TLC counts each.
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
ZERO = 8
"""What stands for a count of 0."""
BOUND = ZERO + 2
"""What the largest counter within the constraint is."""
Node = Annotated[Nat, UpTo(2)]
"""A node; node 0 begins the probes, and the token goes from each to the one before."""
Sum = Annotated[Nat, UpTo(15)]
"""A sum of counters, `ZERO` above what it means."""


class Reason(Enum):
    """Why a token came in vain."""

    BLACK = "node 0 is black"
    COUNT = "messages are on their way"
    TOKEN_BLACK = "the token is black"


class TerminationMessages(Spec):
    """Node 0 finds out that all are passive and no message is on its way."""

    active: set[Node] = empty()
    black: dict[Node, bool] = each(True)
    counter: dict[Node, Nat] = each(ZERO)  # messages sent, less those received
    pending: dict[Node, Annotated[Nat, UpTo(7)]] = each(0)  # messages on their way to the node
    token: Node = 0
    token_count: Sum = ZERO
    token_black: bool = True

    @initial
    def start(self, active: set[Node]) -> None:
        """Any nodes may be active."""
        self.active = active

    @action
    def send(self, n: Node, to: Node) -> None:
        """{n} sends {to} a message."""
        require(n in self.active and n != to)
        self.pending[to] = self.pending[to] + 1
        self.counter[n] = self.counter[n] + 1

    @action
    def receive(self, n: Node) -> None:
        """{n} receives a message, and is active and black."""
        require(self.pending[n] > 0)
        self.pending[n] = self.pending[n] - 1
        self.counter[n] = self.counter[n] - 1
        self.active.add(n)
        self.black[n] = True

    @action
    def rest(self, n: Node) -> None:
        """{n} is passive."""
        self.active.discard(n)

    @action
    def pass_token(self, n: Node) -> None:
        """{n} adds its counter to the token, and passes it on."""
        require(n > 0 and self.token == n and n not in self.active)
        self.token = n - 1
        self.token_count = self.token_count + self.counter[n] - ZERO
        self.token_black = self.token_black or self.black[n]
        self.black[n] = False

    @action
    def probe(self, reason: Reason) -> None:
        """Node 0 sends a new token round, for {reason}."""
        require(self.token == 0)
        match reason:
            case Reason.BLACK:
                require(self.black[0])
            case Reason.COUNT:
                require(self.token_count + self.counter[0] != ZERO + ZERO)
            case Reason.TOKEN_BLACK:
                require(self.token_black)
        self.token = NODES - 1
        self.token_count = ZERO
        self.token_black = False
        self.black[0] = False


def detected(s: TerminationMessages) -> bool:
    """Node 0 is passive and white, has a white token, and all counters add up to nothing."""
    return (
        s.token == 0
        and not s.token_black
        and not s.black[0]
        and 0 not in s.active
        and s.token_count + s.counter[0] == ZERO + ZERO
    )


@always
def what_is_detected_is_so(s: TerminationMessages) -> bool:
    """When node 0 finds that all has ended, all are passive and no message is on its way."""
    return not detected(s) or (len(s.active) == 0 and all(s.pending[n] == 0 for n in range(NODES)))


@sometimes
def it_is_detected(s: TerminationMessages) -> bool:
    """Node 0 finds that all has ended."""
    return detected(s)


TERMINATION_MESSAGES = specification(TerminationMessages, what_is_detected_is_so, it_is_detected)
