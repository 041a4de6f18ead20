"""Runs of the simulated world of system C, traced as real ones are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TextIO

from herdproof.conformance.traces.line import TraceLine, read_texts
from herdproof.protocols.group_protocol.simulated.broker import SimulatedGroupBroker
from herdproof.protocols.group_protocol.simulated.world import GroupRun
from herdproof.protocols.group_protocol.tracing import CONSUMER, GroupTracer
from herdproof.simulator.process import Process
from herdproof.simulator.traced import ProcessTracers


def tracer_of(who: Process, stream: TextIO) -> Callable[[Any, Any, Sequence[Any]], None]:
    """The tracer of a process."""
    timeline = who.timeline
    node, role = who.name, CONSUMER
    if isinstance(who, SimulatedGroupBroker):
        node, role = str(who.number), ""
    tracer = GroupTracer(node, "simulated", stream, lambda: int(timeline.now * 1_000_000), role)
    return lambda who, _event, effects: tracer(who, effects)


class GroupRunTracers(ProcessTracers):
    """The tracers of a run's brokers, and of its `clients` if it is so, on one stream."""

    def __init__(self, *, clients: bool = False) -> None:
        super().__init__(tracer_of)
        self._clients = clients

    def __call__(self, who: Process, event: object, effects: Sequence[object]) -> None:
        """A process's core has taken an event."""
        if self._clients or isinstance(who, SimulatedGroupBroker):
            super().__call__(who, event, effects)

    def lines(self, seed: int) -> list[TraceLine]:
        """All that was traced so far, in the run of this seed."""
        return read_texts(self.texts(), f"seed {seed}")


def traced_groups(seed: int, *, clients: bool = False, **options: Any) -> list[TraceLine]:
    """The trace of the run of a seed; the rest is as `GroupRun` has it."""
    tracers = GroupRunTracers(clients=clients)
    GroupRun(seed, observe=tracers, **options).live()
    return tracers.lines(seed)
