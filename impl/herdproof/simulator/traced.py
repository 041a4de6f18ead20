"""The traces of a simulated run: every process with its own tracer, all on one stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any, TextIO

Tells = Callable[[Any, Any, Sequence[Any]], None]
"""Told of the core, of an event that it has taken, and of what that has led to."""


class ProcessTracers:
    """Observes a run; `tracer_of` makes the tracer of a process when it first does something."""

    def __init__(self, tracer_of: Callable[[Any, TextIO], Tells]) -> None:
        self._tracer_of = tracer_of
        self.stream = StringIO()
        self._tracers: dict[int, tuple[Any, Tells]] = {}

    def __call__(self, who: Any, event: object, effects: Sequence[object]) -> None:
        """A process's core has taken an event."""
        self.of(who)(who, event, effects)

    def of(self, who: Any) -> Any:
        """The tracer of a process, or of its core; another one of its name has its own."""
        if id(who) not in self._tracers:
            self._tracers[id(who)] = (who, self._tracer_of(who, self.stream))
        return self._tracers[id(who)][1]

    def texts(self) -> list[str]:
        """The lines of the trace, as they stand in a file."""
        return self.stream.getvalue().splitlines()
