"""The traces of a simulated run: every process with its own tracer, all on one stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any, TextIO

from herdproof.simulator.process import Process

Tells = Callable[[Any, Any, Sequence[Any]], None]
"""Told of the core, of an event that it has taken, and of what that has led to."""


class ProcessTracers:
    """Observes a run; `tracer_of` makes the tracer of a process when it first does something."""

    def __init__(self, tracer_of: Callable[[Process, TextIO], Tells]) -> None:
        self._tracer_of = tracer_of
        self._stream = StringIO()
        self._tracers: dict[int, tuple[Process, Tells]] = {}

    def __call__(self, who: Process, event: object, effects: Sequence[object]) -> None:
        """A process's core has taken an event."""
        if id(who) not in self._tracers:
            self._tracers[id(who)] = (who, self._tracer_of(who, self._stream))
        self._tracers[id(who)][1](who, event, effects)

    def texts(self) -> list[str]:
        """The lines of the trace, as they stand in a file."""
        return self._stream.getvalue().splitlines()
