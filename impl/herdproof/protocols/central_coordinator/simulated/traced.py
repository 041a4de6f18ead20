"""Runs of the simulated world of system B, traced as real ones are, and replayed in the spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from herdproof.protocols.central_coordinator.simulated.broker import SimulatedBroker
from herdproof.protocols.central_coordinator.simulated.consumer import SimulatedConsumer
from herdproof.protocols.central_coordinator.simulated.random_runs import Config, Fault
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT, Run, RunOutcome
from herdproof.protocols.central_coordinator.traces.lines import CentralStep, lines_of
from herdproof.protocols.central_coordinator.tracing import ConsumerTracer, CoordinatorTracer
from herdproof.simulator.process import Process
from herdproof.simulator.traced import ProcessTracers


@dataclass(frozen=True)
class Traced:
    """Result of a run, and its trace."""

    outcome: RunOutcome
    lines: list[CentralStep]


def traced(seed: int, config: Config = DEFAULT, faults: Sequence[Fault] | None = None) -> Traced:
    """Live through the run of a seed, every process with its tracer."""
    tracers = Tracers()
    tracers.run = run = Run(seed, config, faults, observe=tracers)
    outcome = run.run()
    return Traced(outcome, tracers.lines())


class Tracers(ProcessTracers):
    """The tracers of a run's processes, on one stream; `run` is to be set before it begins."""

    run: Run

    def __init__(self) -> None:
        super().__init__(lambda who, stream: _tracer(who, self.run, stream))

    def lines(self) -> list[CentralStep]:
        """All that was traced so far."""
        return lines_of(self.texts(), f"seed {self.run.seed}")


def _tracer(who: Process, run: Run, stream: TextIO) -> CoordinatorTracer | ConsumerTracer:
    def clock() -> int:
        return int(run.timeline.now * 1_000_000)

    if isinstance(who, SimulatedBroker):
        return CoordinatorTracer(who.name, str(run.seed), stream, clock)
    assert isinstance(who, SimulatedConsumer), "there are brokers and consumers"
    return ConsumerTracer(who.name, str(run.seed), stream, who.clock.now_ms, clock)
