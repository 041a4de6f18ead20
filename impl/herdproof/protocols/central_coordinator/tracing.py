"""
The trace of system B: one line for each step of a coordinator or of a consumer.

Both tracers are observers of their shells (`Server`, the session, the simulator's processes): they
are told of every event after the core has taken it, and before anything that it decided is done.
Every `Step` among the core's effects is a line, named as the step is; a tracer adds only who and
when. The format is documented in `docs/central_trace.md`; `traces/lines.py` reads it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TextIO

from msgspec import structs

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.events import ConsumerEffect, CoordinatorEffect
from herdproof.protocols.central_coordinator.steps import Step

SCHEMA = 1
"""The version of the format."""

CENTRAL = "central_coordinator"
"""The protocol of these traces."""

COORDINATOR, CONSUMER = "coordinator", "consumer"

Place = tuple[str, str, int]
"""A topic, a partition's number as text, and an offset (-1: none)."""

Clock = Callable[[], int]
"""Nanoseconds since 1970, the same for all nodes of a run."""


TOLD = {f.name: f.default for f in structs.fields(Step) if f.name not in ("action", "until_ms")}
"""Fields of a line beside who, when and which step, with the values that mean none."""
NAMES = (
    "schema", "protocol", "run", "node", "role", "sequence", "time_ns", "action", *TOLD,
    "until_ns",
)  # fmt: skip
"""The fields of a line, in their order."""


def written(line: Mapping[str, object]) -> str:
    """A line as it stands in a file, without its end."""
    return json.dumps(line, separators=(",", ":"))


class LineWriter:
    """Numbers and writes one process's lines; may be called by any thread."""

    def __init__(self, node: str, role: str, run: str, stream: TextIO, clock: Clock) -> None:
        self.clock = clock
        self._node = node
        self._role = role
        self._run = run
        self._stream = stream
        self._sequence = 0
        self._lock = threading.Lock()
        self.write("start")

    def write(self, action: str, until_ns: int = 0, **told: object) -> None:
        """Write a line, and flush it."""
        with self._lock:
            self._sequence += 1
            who = (SCHEMA, CENTRAL, self._run, self._node, self._role)
            line = dict(zip(NAMES, (*who, self._sequence, self.clock(), action), strict=False))
            line |= TOLD | told | {"until_ns": until_ns}
            self._stream.write(written(line) + "\n")
            self._stream.flush()

    def write_step(self, step: Step, until_ns: int = 0) -> None:
        """Write the line of a step."""
        told = structs.asdict(step) | {"partitions": places(step.partitions)}
        del told["until_ms"]
        self.write(until_ns=until_ns, **told)


def places(offsets: Iterable[Offset]) -> tuple[Place, ...]:
    """
    Offsets as a trace tells them: a partition by its number alone, without the broker before it.

    >>> places([Offset("t", "0-3", 42)])
    (('t', '3', 42),)
    """
    return tuple((o.topic, o.partition.rpartition("-")[2], o.offset) for o in offsets)


class CoordinatorTracer:
    """Writes the trace of one coordinator's process, from `start` on."""

    def __init__(self, node: str, run: str, stream: TextIO, clock: Clock = time.time_ns) -> None:
        self._writer = LineWriter(node, COORDINATOR, run, stream, clock)

    def __call__(self, _core: object, _event: object, effects: Sequence[CoordinatorEffect]) -> None:
        """The core has taken an event, which has led to these effects."""
        for effect in effects:
            if isinstance(effect, Step):
                self._writer.write_step(effect)


FOR_EVER_NS = 2**62
"""The lease of somebody who takes no notice of one."""


class ConsumerTracer:
    """Writes the trace of one consumer's process, from `start` on; `now_ms` is its core's clock."""

    def __init__(
        self, node: str, run: str, stream: TextIO, now_ms: Callable[[], int],
        clock: Clock = time.time_ns,
    ) -> None:  # fmt: skip
        self._writer = LineWriter(node, CONSUMER, run, stream, clock)
        self._now_ms = now_ms

    def __call__(self, _core: object, _event: object, effects: Sequence[ConsumerEffect]) -> None:
        """The core has taken an event, which has led to these effects."""
        for effect in effects:
            if isinstance(effect, Step):
                self._writer.write_step(effect, self._until_ns(effect.until_ms))

    def _until_ns(self, until_ms: int) -> int:
        """A time of the core's clock, by the trace's; one that is over is now."""
        ends_ns = self._writer.clock() + max(0, until_ms - self._now_ms()) * 1_000_000
        return min(ends_ns, FOR_EVER_NS)
