"""
The trace of system C: one line for each step of a coordinator, or of a client of ours.

Format: `docs/group_protocol_trace.md`. The tracer is an observer of either's shell, or of the
simulator's processes: it is told of every event after the core has taken it, and before anything
that it decided is done. Every `Step` among the core's effects is a line of version 2, named as the
step is; the tracer adds who and when.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TextIO

from msgspec import structs

from herdproof.conformance.traces.tracer import Clock, Tracer
from herdproof.protocols.group_protocol.steps import Step

GROUP_PROTOCOL = "group_protocol"
"""The protocol of these traces."""
CONSUMER = "consumer"
"""The role in a client's lines; a coordinator's have none."""


class GroupTracer:
    """Writes the trace of one process, which is a broker, or has the role `CONSUMER`."""

    def __init__(
        self, node: str, run: str, stream: TextIO, clock: Clock = time.time_ns, role: str = ""
    ) -> None:
        self._tracer = Tracer(GROUP_PROTOCOL, node, stream, run=run, clock=clock, role=role)

    def __call__(self, _core: object, effects: Sequence[object]) -> None:
        """The core has taken an event, which has led to these effects."""
        for effect in effects:
            if isinstance(effect, Step):
                told = {name: value for name, value in structs.asdict(effect).items() if value}
                action, group = told.pop("action"), told.pop("group", "")
                self._tracer.step(action, group=group, arguments=told)
