"""Runs of the simulated world of system A, traced as real ones are."""

from __future__ import annotations

from typing import Any, TextIO

from herdproof.conformance.traces.line import TraceLine, read_texts
from herdproof.protocols.self_rebalancing.simulated.member import SimulatedMember
from herdproof.protocols.self_rebalancing.simulated.random_runs import WorldConfig
from herdproof.protocols.self_rebalancing.simulated.world import DEFAULT, RebalancingRun
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


class RunTracers(ProcessTracers):
    """The tracers of a run's members, on one stream."""

    def __init__(self) -> None:
        super().__init__(tracer_of)

    def lines(self, seed: int) -> list[TraceLine]:
        """All that was traced so far, in the run of this seed."""
        return read_texts(self.texts(), f"seed {seed}")


def traced(seed: int, config: WorldConfig = DEFAULT, **options: Any) -> list[TraceLine]:
    """The trace of the run of a seed; the rest is as `RebalancingRun` has it."""
    tracers = RunTracers()
    RebalancingRun(seed, config, observe=tracers, **options).live()
    return tracers.lines(seed)
