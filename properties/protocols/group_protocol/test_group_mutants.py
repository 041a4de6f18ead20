"""The planted mistakes of the group coordinator's core, hunted: who finds which, in which run."""

import pytest

from herdproof.conformance.traces.replay import conform_lines
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.judged.eyes import judged_group_run
from herdproof.protocols.group_protocol.simulated.traced import GroupRunTracers, traced_groups
from herdproof.protocols.group_protocol.traces.trace_map import map_of
from herdspec.check.conformance.conform import Verdict
from properties.protocols.group_protocol.group_mutants import MUTANTS
from properties.protocols.group_protocol.group_world import GROUP, TracedAlone, commit_of, fetch_of

UNHURRIED = "fetches_at_once"
WORLD, REPLAY = "simulated world", "replay"

HUNTED: dict[str, tuple[int, tuple[str, ...], str]] = {
    "welcomes_strangers": (0, (REPLAY,), "handle_join_group"),
    "leader_unheard": (0, (REPLAY,), "handle_join_group"),
    "beats_any_generation": (2, (REPLAY,), "heartbeat"),
    "never_says_rebalance": (0, (WORLD, REPLAY), "heartbeat"),
    "nobody_leaves": (2, (REPLAY,), "heartbeat"),
    "answers_unstored": (0, (REPLAY,), "answer_commits"),
    "waits_for_nobody": (0, (WORLD, REPLAY), "complete_join"),
    "skips_generations": (0, (WORLD, REPLAY), "heartbeat"),
    "forgets_offsets": (0, (WORLD, REPLAY), "handle_offset_fetch"),
    "forgets_a_member": (0, (REPLAY,), "complete_join"),
    "assigns_unstored": (0, (REPLAY,), "answer_syncs"),
}
"""By mistake: a run, who finds it there, and the line that the replay stops at."""


@pytest.mark.parametrize("name", HUNTED)
def test_a_planted_mistake_is_found(name: str) -> None:
    """By those who are said to find it, and by nobody else; the core itself passes that run."""
    seed, finders, action = HUNTED[name]
    tracers = GroupRunTracers()
    found = judged_group_run(seed, coordinator=MUTANTS[name], observe=tracers)
    outcome = conform_lines(tracers.lines(seed), map_of(), invariants=False)
    by = {WORLD: bool(found.broken), REPLAY: outcome.verdict is Verdict.DIFFERS}

    assert tuple(finder for finder, finds in by.items() if finds) == finders
    assert outcome.mismatch is not None
    assert outcome.mismatch.action.startswith(action)
    clean = conform_lines(traced_groups(seed), map_of(), invariants=False)
    assert clean.verdict is Verdict.CONFORMS
    assert not judged_group_run(seed).broken


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


def test_a_dozen_are_hunted() -> None:
    """Each that is planted."""
    assert len(MUTANTS) == 12
    assert {*HUNTED, UNHURRIED} == {*MUTANTS}
