"""
Traces conform to the variant in which members say which of their registrations have stopped.

The verified spec takes whoever is gone for stopped (the assumption `lease`); here it was said, and
has to be true.
"""

from __future__ import annotations

from functools import cache

from msgspec.structs import replace

from herdproof.conformance.traces.replay import conform_lines as conform
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.simulated.traced import traced
from herdproof.protocols.central_coordinator.traces import trace_map
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdspec.check.conformance.conform import Outcome, Verdict
from properties.protocols.central_coordinator.held.traces.returning_map import returning_map

SEEDS = range(12)
SAID = 2
"""A seed of a run in which somebody says that it has stopped, and is waited for no more."""


@cache
def run(seed: int) -> list[CentralStep]:
    """The lines of a run, faults included, in which nobody resumes, or brings offsets."""
    return traced(seed, Config(resumes=0, brings=0)).lines


def replayed(lines: list[CentralStep]) -> Outcome:
    """What the variant makes of them."""
    return conform(lines, returning_map(), invariants=False)


def test_runs_conform_and_say_what_has_stopped() -> None:
    """Every line is explained, and in some runs what was said is what is relied on."""
    outcomes = {seed: replayed(run(seed)) for seed in SEEDS}

    assert {
        seed: o.reason for seed, o in outcomes.items() if o.verdict is not Verdict.CONFORMS
    } == {}
    assert "register_again" in outcomes[SAID].covered
    assert [seed for seed, o in outcomes.items() if o.matched != len(run(seed))] == []


def test_what_was_proved_holds_in_every_state_of_a_run() -> None:
    """Promises and lemmas, evaluated where the replay comes."""
    outcome = conform(run(SAID), returning_map(), invariants=True)

    assert outcome.verdict is Verdict.CONFORMS, outcome.reason


def told_too_early(lines: list[CentralStep]) -> list[CentralStep]:
    """The same lines, but those who have said that they have stopped go on for an hour."""
    named = {name for line in lines for name in line.former}
    whose = {
        (line.consumer, line.connection)
        for line in lines
        if line.action == "handle_register" and line.member in named
    }
    return [
        replace(line, until_ns=line.time_ns + 3_600 * 10**9)
        if line.action == "on_lost_connection" and (line.consumer, line.connection) in whose
        else line
        for line in lines
    ]


def test_who_says_too_early_that_it_has_stopped_is_found() -> None:
    """The line that differs is the Register's; to the verified spec nothing was said."""
    lines = told_too_early(run(SAID))

    outcome = replayed(lines)

    assert outcome.verdict is Verdict.DIFFERS
    assert outcome.mismatch is not None
    assert lines[outcome.matched].action == "register"
    assert "has_stopped" in "\n".join(outcome.mismatch.lines)
    assert trace_map.conform_lines(lines).verdict is Verdict.CONFORMS
