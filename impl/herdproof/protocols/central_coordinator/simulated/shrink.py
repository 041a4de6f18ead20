"""
A failing run made small: the faults that it does not need are taken away, one after the other.

A fault that is gone changes what chance does after it, so a shorter plan may fail later, or by
another story; it has to break the same promise. What remains is a plan from which
no fault can be taken, nor any be made shorter, without the promise being kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from herdproof.errors import CallerError
from herdproof.protocols.central_coordinator.simulated.random_runs import Config, Fault
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT, Run, RunOutcome


class NothingToShrink(CallerError):
    """The run breaks no promise."""


def shrink(seed: int, config: Config = DEFAULT, *, most_runs: int = 400) -> RunOutcome:
    """
    The outcome of the run with the fewest and shortest faults that breaks the same promise.

    Tries at most so many runs. Raises `NothingToShrink` if the whole run breaks none.
    """
    best = Run(seed, config).run()
    if best.violation is None:
        raise NothingToShrink(f"Seed {seed} breaks no promise: there is nothing to shrink.")
    runs = 0
    while runs < most_runs:
        for faults in shorter(best.faults):
            runs += 1
            outcome = Run(seed, config, faults).run()
            if outcome.violation and outcome.violation.promise == best.violation.promise:
                best = outcome
                break
            if runs >= most_runs:
                return best
        else:
            return best
    return best


def shorter(faults: tuple[Fault, ...]) -> Iterator[tuple[Fault, ...]]:
    """Shorter plans, the most promising first: halves, all but one, one of them made shorter."""
    half = len(faults) // 2
    if half > 1:
        yield faults[:half]
        yield faults[half:]
    for number in reversed(range(len(faults))):
        yield faults[:number] + faults[number + 1 :]
    for number, fault in enumerate(faults):
        if fault.for_ms > 100:
            yield (
                *faults[:number],
                replace(fault, for_ms=fault.for_ms // 2),
                *faults[number + 1 :],
            )
