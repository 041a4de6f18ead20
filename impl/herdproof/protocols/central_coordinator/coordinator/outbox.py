"""
Collects what taking one event leads to, in order, and who waits for ZooKeeper's answers.

Every part of the coordinator's core says through its one `Outbox` what must now happen. What is to
be done with an answer is a bound method (or a `partial` of one), so that it can be read and copied.

One event leads to no more than its shell can carry out soon: once it is full, further questions
wait for the next tick, and so do requests of members (`socket_server.py`), and rebalances.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from herdproof.protocols.central_coordinator.events import Ask, CoordinatorEffect, Report
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.zookeeper.operations import Answer, Operation

Then: TypeAlias = Callable[[Answer], None]
"""Goes on with ZooKeeper's answer."""
Question: TypeAlias = tuple[Operation, Then]
T = TypeVar("T")

FULL = 200
"""After so many effects an event is full: a shell needs 25 to 60 µs for each."""


class Outbox:
    """The effects of the event that is being taken, its time, and the questions that are open."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.effects: list[CoordinatorEffect] = []
        self.asked: dict[int, Then] = {}
        self.waiting: deque[tuple[Ask, CoordinationStep | None] | _Each] = deque()
        """Questions that are put by the next ticks, in order."""
        self.number = 0

    def begin(self, now_ms: int) -> None:
        """An event is taken at this time."""
        self.now_ms = now_ms
        self.effects = []

    def emit(self, effect: CoordinatorEffect) -> None:
        """This must happen, after what must happen already."""
        self.effects.append(effect)

    def is_full(self) -> bool:
        """True if this event has led to so much that the rest is better done by the next tick."""
        return len(self.effects) >= FULL

    def ask(self, operation: Operation, then: Then, step: CoordinationStep | None = None) -> int:
        """Ask ZooKeeper, which may be a step, and go on with its answer; the question's number."""
        ask = self._numbered(operation, then)
        if self.waiting or self.is_full():
            self.waiting.append((ask, step))
        else:
            self._put(ask, step)
        return self.number

    def ask_each(self, things: Iterable[T], question: Callable[[T], Question]) -> None:
        """Ask the same of each; of very many, one is made when there is room for it."""
        self.waiting.append(_Each(things, question))
        if len(self.waiting) == 1:
            self.go_on()

    def _numbered(self, operation: Operation, then: Then) -> Ask:
        self.number += 1
        self.asked[self.number] = then
        return Ask(self.number, operation)

    def _put(self, ask: Ask, step: CoordinationStep | None) -> None:
        if step is not None:
            self.effects.append(replace(step, number=ask.number))
        self.effects.append(ask)

    def go_on(self) -> None:
        """Put the questions that wait, as many as fit into this event."""
        while self.waiting and not self.is_full():
            first = self.waiting[0]
            if not isinstance(first, _Each):
                self._put(*first)
            elif first.things:
                self._put(self._numbered(*first.question(first.things.popleft())), None)
                continue
            self.waiting.popleft()

    def answered(self, number: int, answer: Answer) -> None:
        """Go on with an answer; nobody waits for those that were asked before a `forget`."""
        then = self.asked.pop(number, None)
        if then is not None:
            then(answer)

    def forget(self) -> None:
        """No answer to what was asked is wanted any more."""
        self.asked.clear()
        self.waiting.clear()

    def report(self, what: What, group: str = "", **details: str | int) -> None:
        """Tell the operators."""
        self.effects.append(Report(what, group, tuple(details.items())))


class _Each:
    """Things that are still to be asked for, and how."""

    def __init__(self, things: Iterable[Any], question: Callable[[Any], Question]) -> None:
        self.things = deque(things)
        self.question = question


def ignore(answer: Answer) -> None:
    """Go on with nothing, whatever the answer is."""
    del answer
