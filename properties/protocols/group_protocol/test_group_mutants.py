"""The planted mistakes of the group coordinator's core, hunted: who finds which, in which run."""

from functools import cache

import pytest

from herdproof.conformance.traces.replay import conform_lines
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.judged.eyes import judged_group_run
from herdproof.protocols.group_protocol.simulated.traced import GroupRunTracers, traced_groups
from herdproof.protocols.group_protocol.traces.trace_map import map_of
from herdspec.check.conformance.conform import Verdict
from properties.protocols.group_protocol.group_hunts import (
    ALL_MUTANTS,
    PLAYED,
    REPLAY,
    RUNS,
    UNHURRIED,
    WORLD,
)
from properties.protocols.group_protocol.group_mutants import MUTANTS
from properties.protocols.group_protocol.group_mutants_seen import SEEN_MUTANTS
from properties.protocols.group_protocol.group_world import GROUP, TracedAlone, commit_of, fetch_of


@cache
def is_clean(seed: int) -> bool:
    """Whether the core itself passes a run."""
    replayed = conform_lines(traced_groups(seed), map_of(), invariants=False)
    return replayed.verdict is Verdict.CONFORMS and not judged_group_run(seed).broken


@pytest.mark.parametrize("name", RUNS)
def test_a_planted_mistake_is_found(name: str) -> None:
    """By those who are said to find it, and by nobody else; the core itself passes that run."""
    hunt = RUNS[name]
    tracers = GroupRunTracers()
    found = judged_group_run(hunt.seed, coordinator=ALL_MUTANTS[name], observe=tracers)
    outcome = conform_lines(tracers.lines(hunt.seed), map_of(), invariants=False)
    by = {WORLD: bool(found.broken), REPLAY: outcome.verdict is Verdict.DIFFERS}

    assert tuple(finder for finder, finds in by.items() if finds) == hunt.finders
    stops_at = "" if outcome.mismatch is None else outcome.mismatch.action
    assert stops_at.startswith(hunt.action)
    assert bool(stops_at) == bool(hunt.action)
    assert is_clean(hunt.seed)


@pytest.mark.parametrize("core", [GroupCoordinator, MUTANTS[UNHURRIED]])
def test_a_fetch_before_its_commit_is_stored_is_found(core: type[GroupCoordinator]) -> None:
    """Our own clients ask for nothing that is still being stored; anybody else may."""
    alone = TracedAlone(core=core).traced()
    (leader,) = alone.stable()
    alone.holds = True
    alone.ask(commit_of(leader, p0=7))
    alone.ask(fetch_of(GROUP))
    alone.store_next()
    outcome = alone.outcome()

    assert outcome.verdict is (Verdict.CONFORMS if core is GroupCoordinator else Verdict.DIFFERS)


def test_two_dozen_are_hunted() -> None:
    """Each that is planted, in simulated runs or in a scenario of the broker for tests."""
    assert len(MUTANTS) == len(SEEN_MUTANTS) == 12
    assert {*RUNS, *PLAYED, UNHURRIED} == {*ALL_MUTANTS}
