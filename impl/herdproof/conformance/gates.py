"""
Gates: steps of a core that wait until a test lets them go.

A core that goes on by itself takes several steps of its spec within one event. Before a gate it
stops, as if that step took its time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

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
