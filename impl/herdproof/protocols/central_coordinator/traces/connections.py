"""
Connections of one consumer that go by the same number: two of its processes have drawn it.

A consumer's process registers over each of its connections once, and a registration that is
accepted has a name of its own. So who registers again is on another connection, and so is a
registration of another name; each gets a number that no process draws.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from herdproof.protocols.central_coordinator.client.connector import IDS
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.tracing import CONSUMER

REGISTERS = frozenset({"register", "handle_register"})
"""Lines by which connections are told apart."""

REMEMBERED = 4096
"""The number of numbers of connections that are known when they come again."""


class Namesakes(Struct):
    """The connections of one number, counted from 0."""

    many: int = 0
    of_node: dict[str, int] = {}
    """By the node that has registered, which one its lines are about."""
    of_name: dict[str, int] = {}
    """By the name of a registration, which one that is about."""

    def registers(self, node: str) -> None:
        """A process registers: over another connection than all that were registered before."""
        is_late = self.many - 1 not in self.of_node.values()
        self.of_node[node] = self.many - 1 if is_late and self.many else self._another()

    def is_registered(self, name: str) -> None:
        """A registration is accepted: the last one, if that has no name yet."""
        if name not in self.of_name:
            is_new = self.many - 1 not in self.of_name.values()
            self.of_name[name] = self.many - 1 if is_new and self.many else self._another()

    def _another(self) -> int:
        self.many += 1
        return self.many - 1


class Connections:
    """Tells them apart, line by line, in their order."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Namesakes] = {}
        self._again: set[tuple[str, int]] = set()
        """Numbers that were drawn twice."""

    def apart(self, line: CentralStep) -> CentralStep:
        """The line, with its connection's own number."""
        if not self._again and line.action not in REGISTERS:
            return line
        name = (line.consumer, line.connection)
        if line.action == "register":
            self._of(name).registers(line.node)
        elif line.action == "handle_register" and line.member:
            self._of(name).is_registered(line.member)
        elif name not in self._again:
            return line
        same = self._of(name)
        if same.many > 1:
            self._again.add(name)
        last = same.many - 1
        is_own = line.role == CONSUMER
        number = (
            same.of_node.get(line.node, last) if is_own else same.of_name.get(line.member, last)
        )
        return replace(line, connection=line.connection + number * IDS) if number else line

    def _of(self, name: tuple[str, int]) -> Namesakes:
        if name not in self._known:
            if len(self._known) == REMEMBERED:
                oldest = next(iter(self._known))
                del self._known[oldest]
                self._again.discard(oldest)
            self._known[name] = Namesakes()
        return self._known[name]
