"""The planted mistakes of the group coordinator's core, hunted: who finds which, and where."""

from functools import cache

import pytest

from herdproof.conformance.graphs.edges import cover
from herdproof.conformance.traces.replay import conform_lines
from herdproof.conformance.walks.walk import walk
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.held.adapter import HeldCoordinators
from herdproof.protocols.group_protocol.judged.eyes import judged_group_run
from herdproof.protocols.group_protocol.simulated.traced import GroupRunTracers, traced_groups
from herdproof.protocols.group_protocol.traces.trace_map import map_of
from herdspec.check.conformance.conform import Verdict
from herdspec.protocols.group_protocol.plan import BOUND
from herdspec.protocols.group_protocol.properties import HELD
from properties.protocols.group_protocol.coordinator.group_world import (
    GROUP,
    TracedAlone,
    commit_of,
    fetch_of,
)
from properties.protocols.group_protocol.held.group_hunts import (
    ALL_MUTANTS,
    PLAYED,
    REPLAY,
    RUNS,
    UNHURRIED,
    WORLD,
)
from properties.protocols.group_protocol.held.group_mutants import MUTANTS
from properties.protocols.group_protocol.held.group_mutants_seen import SEEN_MUTANTS


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


# ── Held to the spec ────────────────────────────────────────────────────────────────────────

EDGES, EDGES_OF_TWO, WALKS = "edges", "edges of two members", "walks"
HELD_BY: dict[str, tuple[str, ...]] = {
    "welcomes_strangers": (WALKS, EDGES),
    "leader_unheard": (WALKS, EDGES, EDGES_OF_TWO),
    "never_says_rebalance": (WALKS, EDGES_OF_TWO),
    "nobody_leaves": (WALKS, EDGES),
    "waits_for_nobody": (WALKS,),
    "skips_generations": (WALKS, EDGES),
    "forgets_a_member": (WALKS,),
    "assigns_unstored": (WALKS, EDGES, EDGES_OF_TWO),
    "forgets_offsets": (),
    "fetches_at_once": (),
    "answers_unstored": (),
    "beats_any_generation": (),
}
"""
By mistake: who finds it of those that take the core and its spec through the same steps.

Edges are those of one member and one fault, or of two members and none; walks have two of each. To
forget offsets takes more faults. The spec's clients do not fetch what is being stored, nor hear
what comes of their commits, nor send heartbeats of a generation that was followed by another.
"""


def finds(way: str, code: type[HeldCoordinators]) -> bool:
    """Whether code is found to differ from its spec in this way."""
    if way == WALKS:
        sizes = {"Broker": 2, "Member": 2, "Partition": 1}
        return walk(HELD, code, sizes, runs=40, steps=200, shorten=0).difference is not None
    members, faults = (2, 0) if way == EDGES_OF_TWO else (1, 1)
    found = cover(HELD, code, faults=faults, bound=BOUND, Broker=1, Member=members, Partition=1)
    return found.mismatch is not None


def held(name: str) -> type[HeldCoordinators]:
    """The adapter of a mistaken core."""
    return type("HeldMistake", (HeldCoordinators,), {"core": MUTANTS[name]})


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name, by in HELD_BY.items() if by])
def test_a_planted_mistake_leads_elsewhere_than_the_spec(name: str) -> None:
    """Those that take single steps show most of them, too."""
    assert finds(HELD_BY[name][:2][-1], held(name))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", HELD_BY)
def test_nobody_else_finds_it(name: str) -> None:
    """The table says what each way is worth."""
    assert (
        tuple(way for way in (WALKS, EDGES, EDGES_OF_TWO) if finds(way, held(name)))
        == (HELD_BY[name])
    )


def test_two_dozen_are_hunted() -> None:
    """Each that is planted, in simulated runs or in a scenario of the broker for tests."""
    assert len(MUTANTS) == len(SEEN_MUTANTS) == 12
    assert {*RUNS, *PLAYED, UNHURRIED} == {*ALL_MUTANTS}
    assert {*MUTANTS} == {*HELD_BY}
