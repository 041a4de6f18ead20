"""Runs of the simulated world of system A, traced as real ones are."""

from __future__ import annotations

from typing import Any, TextIO

from herdproof.conformance.traces.line import TraceLine, read_texts
from herdproof.protocols.self_rebalancing.simulated.member import SimulatedMember
from herdproof.protocols.self_rebalancing.simulated.world import RebalancingRun
from herdproof.protocols.self_rebalancing.tracing import ConnectorTracer
from herdproof.simulator.process import Process
from herdproof.simulator.traced import ProcessTracers


def tracer_of(who: Process, stream: TextIO) -> ConnectorTracer:
    """The tracer of a member's process."""
    assert isinstance(who, SimulatedMember), "there are no others"
    timeline, core = who.timeline, who.core
    return ConnectorTracer(
        core.consumer_id, core.context.dirs.group, str(who.here.seed), stream,
        who.clock.now_ms, lambda: int(timeline.now * 1_000_000),
    )  # fmt: skip


def traced(seed: int, *arguments: Any, **options: Any) -> list[TraceLine]:
    """The trace of the run of a seed; the rest is as `RebalancingRun` has it."""
    tracers = ProcessTracers(tracer_of)
    run = RebalancingRun(seed, *arguments, observe=tracers, **options)
    run.live()
    return read_texts(tracers.texts(), f"seed {seed}")
