"""A tiny spec as a text, in which the suites of the language put what they are about."""

from __future__ import annotations

HEADER = '''
from __future__ import annotations
from enum import Enum
from herdspec import *

LIMIT = 2

class Node(Sort):
    """A node."""

class Other(Sort):
    """Another sort."""

class Light(Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"

GO = Light.GREEN

class Tiny(Spec):
    """A tiny spec."""
    flag: bool = False
    n: Nat = 0
    light: Light = Light.RED
    who: Node | None = None
    on: dict[Node, bool] = each(False)
    off: dict[Node, bool] = each(True)
    count: dict[Node, Nat] = each(0)
    next: dict[Node, Node | None] = each(None)
    sure: bool | None = None
    hint: Light | None = None
    last: dict[Node, Nat | None] = each(None)
    seen: dict[Other, bool] = each(False)

    def marked(self, a: Node) -> bool:
        """Whether a node is on, or it is the one."""
        if self.on[a]:
            return True
        seen = self.who == a
        return seen

    def add(self, a: Node) -> None:
        """Count a node."""
        require(self.count[a] < 3)
        self.count[a] += 1

    def sum(self) -> None:
        """Count all nodes."""
        for c in Node:
            if self.on[c]:
                self.count[c] = self.count[c] + 1

'''
ACTION = "    @action\n    def act(self, a: Node, b: Node, f: bool, c: Light) -> None:\n"


def tiny(body: str) -> str:
    """The text of a tiny spec whose one action does this."""
    lines = ["        " + line for line in body.splitlines()]
    return HEADER + ACTION + "\n".join(lines) + "\n"
