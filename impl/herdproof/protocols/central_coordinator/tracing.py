"""
The trace of system B: one line for each step of a coordinator or of a consumer.

Both tracers are observers of their shells (`Server`, the session, the simulator's processes): they
are told of every event after the core has taken it, and before anything that it decided is done.
Every `CoordinationStep` among the core's effects is a line of version 2, named as the step is; a
tracer adds only who and when. The format is documented in `docs/central_trace.md`;
`traces/lines.py` reads it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from msgspec import structs

from herdproof.conformance.traces.tracer import Clock, Tracer
from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.steps import CoordinationStep

CENTRAL = "central_coordinator"
"""The protocol of these traces."""

COORDINATOR, CONSUMER = "coordinator", "consumer"

Place = tuple[str, str, int]
"""A topic, a partition's number as text, and an offset (-1: none)."""


def places(offsets: Iterable[Offset]) -> tuple[Place, ...]:
    """
    Offsets as a trace tells them: a partition by its number alone, without the broker before it.

    >>> places([Offset("t", "0-3", 42)])
    (('t', '3', 42),)
    """
    return tuple((o.topic, o.partition.rpartition("-")[2], o.offset) for o in offsets)


class CoordinatorTracer:
    """Writes the trace of one coordinator's process, from its first line on."""

    role = COORDINATOR
    chained = True
    """Its lines are about many groups: each says which was the last one about its own."""

    def __init__(self, node: str, run: str, stream: TextIO, clock: Clock = time.time_ns) -> None:
        self._tracer = Tracer(
            CENTRAL, node, stream, run=run, role=self.role, clock=clock, chained=self.chained
        )

    def __call__(self, _core: object, _event: object, effects: Sequence[object]) -> None:
        """The core has taken an event, which has led to these effects."""
        for effect in effects:
            if isinstance(effect, CoordinationStep):
                told: dict[str, Any] = structs.asdict(effect)
                told["partitions"] = places(effect.partitions)
                if told.pop("brought"):  # else its lines are as they always were
                    told["brought"] = places(effect.brought)
                told["until_ns"] = self._until_ns(told.pop("until_ms"))
                action, group = told.pop("action"), told.pop("group")
                self._tracer.step(action, group=group, seen={}, arguments=told)

    def _until_ns(self, _until_ms: int) -> int:
        """A coordinator has no lease."""
        return 0


FOR_EVER_NS = 2**62
"""The lease of somebody who takes no notice of one."""


class ConsumerTracer(CoordinatorTracer):
    """Writes the trace of one consumer's process; `now_ms` is its core's clock."""

    role = CONSUMER
    chained = False

    def __init__(
        self, node: str, run: str, stream: TextIO, now_ms: Callable[[], int],
        clock: Clock = time.time_ns,
    ) -> None:  # fmt: skip
        super().__init__(node, run, stream, clock)
        self._clock = clock
        self._now_ms = now_ms

    def _until_ns(self, until_ms: int) -> int:
        """A time of the core's clock, by the trace's; one that is over is now."""
        ends_ns = self._clock() + max(0, until_ms - self._now_ms()) * 1_000_000
        return min(ends_ns, FOR_EVER_NS)
