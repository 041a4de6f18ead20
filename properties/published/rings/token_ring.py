"""
A token ring that stabilises by itself: whatever the counters hold, one token is left.

After `specifications/ewd426/TokenRing.tla` of the TLA+ examples (Kuppe, Demirbas; the algorithm is
Dijkstra's, EWD 426), at the constants of `TokenRing.cfg`: six nodes whose counters have six values.
Every state is an initial one, 46,656 of them.
"""

from __future__ import annotations

from typing import Annotated

from herdspec import (
    Nat,
    Spec,
    UpTo,
    action,
    always,
    each,
    initial,
    require,
    sometimes,
    specification,
)

NODES = 6
VALUES = 6
Node = Annotated[Nat, UpTo(5)]
Value = Annotated[Nat, UpTo(5)]


class TokenRing(Spec):
    """Each node compares its counter with that of the node before it."""

    counter: dict[Node, Value] = each(0)

    @initial
    def start(self, counter: dict[Node, Value]) -> None:
        """The counters hold anything."""
        self.counter = counter

    @action
    def create(self) -> None:
        """Node 0 has the token, and passes it on: it counts."""
        require(self.counter[0] == self.counter[NODES - 1])
        self.counter[0] = 0 if self.counter[0] == VALUES - 1 else self.counter[0] + 1

    @action
    def pass_on(self, n: Node) -> None:
        """{n} has a token, and passes it on: it counts as the node before."""
        require(n > 0)
        require(self.counter[n] != self.counter[n - 1])
        self.counter[n] = self.counter[n - 1]


@always
def there_is_a_token(s: TokenRing) -> bool:
    """Some node has a token."""
    return s.counter[0] == s.counter[NODES - 1] or any(
        n > 0 and s.counter[n] != s.counter[n - 1] for n in range(NODES)
    )


@sometimes
def each_has_one(s: TokenRing) -> bool:
    """All nodes but the first have a token."""
    return all(n == 0 or s.counter[n] != s.counter[n - 1] for n in range(NODES))


TOKEN_RING = specification(TokenRing, there_is_a_token, each_has_one)
