"""
The trace of system A: one line for each step of a consumer.

Format: `docs/self_rebalancing_trace.md`. The tracer is an observer of the consumer's shell, or of
the simulator's processes: it is told of every event after the core has taken it, and before
anything that it decided is done. Every `ConnectorStep` among the core's effects is a line of
version 2, named as the step is; the tracer adds who and when.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from msgspec import structs

from herdproof.conformance.traces.tracer import Clock, Tracer
from herdproof.protocols.self_rebalancing.steps import ConnectorStep

SELF_REBALANCING = "self_rebalancing"
"""The protocol of these traces."""

FOR_EVER_NS = 2**62
"""The lease of somebody who takes no notice of one."""


class ConnectorTracer:
    """Writes the trace of one consumer's process; `now_ms` is its core's clock."""

    def __init__(
        self, consumer: str, group: str, run: str, stream: TextIO, now_ms: Callable[[], int],
        clock: Clock = time.time_ns,
    ) -> None:  # fmt: skip
        self._tracer = Tracer(
            SELF_REBALANCING, consumer, stream, run=run, group=group, clock=clock, repeats=True
        )
        self._now_ms = now_ms
        self._clock = clock

    def __call__(self, _core: object, _event: object, effects: Sequence[object]) -> None:
        """The core has taken an event, which has led to these effects."""
        for effect in effects:
            if isinstance(effect, ConnectorStep):
                self._tracer.step(effect.action, arguments=self._told(effect))

    def _told(self, step: ConnectorStep) -> dict[str, Any]:
        """The arguments that a step tells; what has no meaning for it is left out."""
        told = structs.asdict(step)
        for known in ("action", "group", "consumer", "until_ms"):
            del told[known]
        told["partitions"] = [[o.topic, o.partition, o.offset] for o in step.partitions]
        left_ns = (step.until_ms - self._now_ms()) * 1_000_000
        told["until_ns"] = min(self._clock() + left_ns, FOR_EVER_NS)
        return {name: value for name, value in told.items() if value}
