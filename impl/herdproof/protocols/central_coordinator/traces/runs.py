"""Runs of the simulated world of system B, traced as real ones are, and replayed in the spec."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from herdproof.protocols.central_coordinator.simulated.broker import SimulatedBroker
from herdproof.protocols.central_coordinator.simulated.chance import Config, Fault
from herdproof.protocols.central_coordinator.simulated.consumer import SimulatedConsumer
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT, Outcome, Run
from herdproof.protocols.central_coordinator.traces.lines import CentralStep, lines_of
from herdproof.protocols.central_coordinator.tracing import ConsumerTracer, CoordinatorTracer
from herdproof.simulator.process import Process


@dataclass(frozen=True)
class Traced:
    """What came of a run, and its trace."""

    outcome: Outcome
    lines: list[CentralStep]


def traced(seed: int, config: Config = DEFAULT, faults: Sequence[Fault] | None = None) -> Traced:
    """Live through the run of a seed, every process with its tracer."""
    tracers = Tracers()
    tracers.run = run = Run(seed, config, faults, observe=tracers)
    outcome = run.run()
    return Traced(outcome, tracers.lines())


class Tracers:
    """The tracers of a run's processes, on one stream; `run` is to be set before it begins."""

    run: Run

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self._tracers: dict[int, tuple[Process, CoordinatorTracer | ConsumerTracer]] = {}

    def __call__(self, who: Process, event: object, effects: Sequence[object]) -> None:
        """A process's core has taken an event."""
        assert isinstance(who, SimulatedBroker | SimulatedConsumer), "there are no others"
        if id(who) not in self._tracers:
            self._tracers[id(who)] = (who, _tracer(who, self.run, self._stream))
        self._tracers[id(who)][1](who.core, event, effects)  # type: ignore[arg-type]

    def lines(self) -> list[CentralStep]:
        """All that was traced so far."""
        return lines_of(self.texts(), f"seed {self.run.seed}")

    def texts(self) -> list[str]:
        """The lines of the trace, as they stand in a file."""
        return self._stream.getvalue().splitlines()


def _tracer(who: Process, run: Run, stream: io.StringIO) -> CoordinatorTracer | ConsumerTracer:
    def clock() -> int:
        return int(run.timeline.now * 1_000_000)

    if isinstance(who, SimulatedBroker):
        return CoordinatorTracer(who.name, str(run.seed), stream, clock)
    assert isinstance(who, SimulatedConsumer), "there are brokers and consumers"
    return ConsumerTracer(who.name, str(run.seed), stream, who.clock.now_ms, clock)
