"""
Gates: steps of a core that wait until a test lets them go.

A core that goes on by itself takes several steps of its spec within one event. Before a gate it
stops, as if that step took its time. A process of which the test plays the shell (`GatedProcess`)
has its core behind such gates: what the core asks of others waits until the test has it done.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from herdproof.conformance.adapter import Refused


class StepGates:
    """
    Gates before methods of a part of a core; they can be pickled, together with the part.

    A method that is `polled` is called whenever something may have changed: the core does not wait
    there, and looks when the test has it look.
    """

    def __init__(self, part: object, steps: Iterable[str], polled: Iterable[str] = ()) -> None:
        self._part = part
        self.waits = ""
        """The step before which the core waits."""
        self._arguments: tuple[Any, ...] = ()
        for step in steps:
            vars(part)[step] = partial(self._wait, step)
        for step in polled:
            vars(part)[step] = self._stay

    def let(self, step: str) -> None:
        """Let a step go; raises `Refused` if the core does not wait before it."""
        if self.waits != step:
            raise Refused(f"it is {self.waits or 'nothing'} that waits, not {step}")
        self.waits = ""
        getattr(type(self._part), step)(self._part, *self._arguments)

    def look(self, polled: str) -> None:
        """Let the core look whether it is time for this step."""
        getattr(type(self._part), polled)(self._part)

    def _wait(self, step: str, *arguments: Any) -> None:
        self.waits, self._arguments = step, arguments

    def _stay(self) -> None:
        """Do nothing: it is not time yet."""


class TakesEvents(Protocol):
    """A core: takes an event at a time, and answers with its effects, in their order."""

    def receive(self, event: Any, now_ms: int, /) -> Iterable[Any]:
        """Take an event, at this time of its process's clock."""


Core = TypeVar("Core", bound=TakesEvents)


class GatedProcess(Generic[Core]):
    """A process whose shell the test is: its core, the gates of its steps, its clock."""

    now_ms = 0

    def __init__(
        self, core: Core, part: object, steps: Iterable[str] = (), polled: Iterable[str] = ()
    ) -> None:
        self.core = core
        self.gates = StepGates(part, steps, polled)

    @abstractmethod
    def perform(self, effect: Any) -> Iterable[Any]:
        """Do what the core asks for, or hold it back; returns the events that come of it."""

    def give(self, *some: Any) -> None:
        """Give the core these events, and then those that come of what it asks for."""
        todo = deque(some)
        while todo:
            for effect in self.core.receive(todo.popleft(), self.now_ms):
                todo += self.perform(effect)

    def let(self, step: str, *then: Any) -> None:
        """Let a step go, and the core go on with these events."""
        self.gates.let(step)
        self.give(*then)

    def look(self, polled: str, *then: Any) -> None:
        """Let the core look whether it is time for this step, and go on with these events."""
        self.gates.look(polled)
        self.give(*then)
