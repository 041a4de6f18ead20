"""
Traces in which offsets are brought conform to the variant that lets them, and are judged.

A group's lines choose the map: where nothing is brought, as before.
"""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from herdproof.protocols.central_coordinator.judged.judge import judge
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.simulated.traced import traced
from herdproof.protocols.central_coordinator.traces.lines import CentralStep, read_central_line
from herdproof.protocols.central_coordinator.traces.trace_map import conform_lines, map_of
from herdspec.check.conformance.conform import Verdict
from herdspec.check.observation.observed import Ruling

SEEDS = range(6)
BROUGHT = 2
"""A seed of a run in which what is brought is not known to its coordinator."""


@cache
def run(seed: int, resumes: float = 0.0) -> list[CentralStep]:
    """The lines of a run, faults included."""
    return traced(seed, Config(resumes=resumes, brings=1.0)).lines


def changed(lines: list[CentralStep], by: int) -> list[CentralStep]:
    """The lines, but that so much more is brought."""
    return [
        replace(x, brought=tuple((t, n, o + by) for t, n, o in x.brought)) if x.brought else x
        for x in lines
    ]


@pytest.mark.parametrize("resumes", [0.0, 0.6])
def test_runs_in_which_offsets_are_brought_conform(resumes: float) -> None:
    """Every line is explained, whoever resumes meanwhile."""
    outcomes = {seed: conform_lines(run(seed, resumes)) for seed in SEEDS}
    brought = [seed for seed in SEEDS if any(x.brought for x in run(seed, resumes))]

    assert {s: o.reason for s, o in outcomes.items() if o.verdict is not Verdict.CONFORMS} == {}
    assert len(brought) > 2
    assert all("register_again" in outcomes[seed].covered for seed in brought)


def test_who_was_paused_beyond_its_lease_has_finished_what_it_tells_later() -> None:
    """It lets go, as all suppose, before it can say so; a coordinator is brought all of it."""
    outcome = conform_lines(traced(1_074).lines)

    assert outcome.verdict is Verdict.CONFORMS, outcome.reason


def test_what_was_proved_holds_in_every_state_of_a_run() -> None:
    """Promises and lemmas, evaluated where the replay comes."""
    outcome = conform_lines(run(BROUGHT), invariants=True)

    assert outcome.verdict is Verdict.CONFORMS, outcome.reason


def test_the_lines_choose_the_variant() -> None:
    """Both variants are held to no less than they need."""
    lines = run(BROUGHT)
    silent = [replace(x, brought=()) for x in lines]

    assert map_of().chosen(lines).specification.state.__name__ == "BringingResumers"
    assert map_of().chosen(silent) is map_of()


@pytest.mark.parametrize(
    ("by", "why"), [(1, "is brought: the spec has"), (-1, "is brought: its owner stopped at")]
)
def test_another_offset_than_where_it_stopped_is_not_brought(by: int, why: str) -> None:
    """The line that differs is the Register's; its consumer has told where it stopped."""
    lines = changed(run(BROUGHT), by)

    outcome = conform_lines(lines)

    assert outcome.verdict is Verdict.DIFFERS
    assert outcome.mismatch is not None
    assert lines[outcome.matched].action == "handle_register"
    assert why in "\n".join(outcome.mismatch.lines)


def test_what_nobody_has_brought_is_not_stored() -> None:
    """Without what the Register brought, nobody has said what the coordinator stores."""
    silent = [replace(x, brought=()) for x in run(BROUGHT)]

    found = judge(silent, "g1")

    assert conform_lines(silent).verdict is Verdict.DIFFERS
    assert found.rulings["exclusive_fenced"].ruling is Ruling.VIOLATED
    assert judge(run(BROUGHT), "g1").rulings["exclusive_fenced"].ruling is Ruling.HOLDS


def test_lines_of_before_are_read_as_ever() -> None:
    """A line tells what was brought where anything was, and is read back as it is written."""
    told = [x for x in run(BROUGHT) if x.brought]
    others = [x for x in run(BROUGHT) if not x.brought]

    assert told
    assert all('"brought"' in x.written() for x in told)
    assert not any('"brought"' in x.written() for x in others)
    for line in (*told, *others[:200]):
        assert replace(read_central_line(line.written()), place=line.place) == line
