"""
Gates: steps of a core that wait until a test lets them go.

A core that goes from step to step by itself takes several steps of its spec within one event. A
gate stands before a step: the core comes there and stops, as if the step took its time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from herdproof.conformance.adapter import Refused


class Gates:
    """
    Gates before some methods of a part of a core; with the part, they can be pickled.

    A method that is `polled` is called whenever something may have changed: there the core is never
    waiting, and it is let to look when the test says so.
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
            raise Refused(f"{self.waits or 'nothing'} waits, and not {step}")
        self.waits = ""
        getattr(type(self._part), step)(self._part, *self._arguments)

    def look(self, polled: str) -> None:
        """Let the core look if it is time for this step."""
        getattr(type(self._part), polled)(self._part)

    def clear(self) -> None:
        """What waited does so no more: the core has begun anew."""
        self.waits = ""

    def _wait(self, step: str, *arguments: Any) -> None:
        self.waits, self._arguments = step, arguments

    def _stay(self) -> None:
        """Nothing."""
