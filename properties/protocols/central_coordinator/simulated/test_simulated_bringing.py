"""
Members that bring offsets, in the simulated world: what they had finished is not read again.

Where a consumer's fetchers stopped is told by its own lines, where the next one begins by the
coordinator's: neither knows what was brought.
"""

from __future__ import annotations

from dataclasses import replace as replaced
from functools import cache

import pytest
from msgspec.structs import replace

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.client.connector import Connector
from herdproof.protocols.central_coordinator.simulated.random_runs import Config, Kind
from herdproof.protocols.central_coordinator.simulated.traced import Traced, traced
from herdproof.protocols.central_coordinator.traces.lines import CentralStep

SEEDS = range(8)
CUTS = Config(resumes=0.0, consumers=4, kinds=frozenset({Kind.CUT}), faults=25)
"""Connections break, and nothing else happens: nobody is waited for until its lease is over."""
HARD = Config(brings=1.0, resumes=0.0, consumers=5, faults=60)
WITHIN = 12
"""Number of runs of these within which a mistake shows."""


@cache
def run(seed: int, brings: float) -> Traced:
    """A run in which connections break, and its lines."""
    made = traced(seed, replaced(CUTS, brings=brings))
    assert made.outcome.violation is None
    return made


def next_start(lines: list[CentralStep], group: str, place: tuple[str, str]) -> tuple[str, int]:
    """Who is given a partition next, and where it begins."""
    return next(
        ((x.consumer, o) for x in lines if x.action == "send_start" and x.group == group
         for t, n, o in x.partitions if (t, n) == place),
        ("", 2**62),
    )  # fmt: skip


def read_again(lines: list[CentralStep]) -> list[tuple[CentralStep, str, int]]:
    """Of each partition that somebody lets go: its line, who is next, how much it reads again."""
    found = []
    for at, line in enumerate(lines):
        if line.action == "on_lost_connection":
            for t, n, stopped in line.partitions:
                who, begins = next_start(lines[at + 1 :], line.group, (t, n))
                found.append((line, who, max(0, stopped - begins)))
    return found


def test_nothing_that_was_finished_is_read_again_by_whoever_is_next() -> None:
    """What was finished since the last ping is brought, and stored before the next Start."""
    found = [each for seed in SEEDS for each in read_again(run(seed, 1.0).lines)]

    assert len(found) > 100
    assert [(line.place, many) for line, _, many in found if many] == []
    assert any(who not in ("", line.consumer) for line, who, _ in found), "it goes to another one"


def test_of_who_says_nothing_it_is() -> None:
    """Members of version 2: records are read again, so that there was something to bring."""
    found = [each for seed in SEEDS for each in read_again(run(seed, 0.0).lines)]

    assert sum(many for _, _, many in found) > 50


@pytest.mark.parametrize("brings", [0.5, 1.0])
def test_members_of_all_versions_are_in_one_group(brings: float) -> None:
    """With all faults, and whoever resumes: every promise holds, whoever says what."""
    for seed in range(40, 46):
        found = traced(seed, Config(brings=brings, resumes=0.3))
        assert found.outcome.violation is None


# ── A mistake ────────────────────────────────────────────────────────────────────────────────


def as_given(self: Connector) -> tuple[Offset, ...]:
    """A record that it was given counts as finished."""
    return tuple(replace(o, offset=o.offset + 1) for o in self.consumption.consumed())


def test_who_brings_what_it_has_not_finished_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a promise of the contract, in one of the first runs."""
    monkeypatch.setattr(Connector, "where_it_stops", as_given)

    found = (traced(seed, HARD).outcome.violation for seed in range(WITHIN))

    broken = next(violation for violation in found if violation is not None)
    assert broken.promise == "only_finished_is_committed"
