"""
*Explore* against published numbers: specs of others, with the counts that their tools print.

A row pins what `docs/published.md` tabulates. Distinct states and depth must be the published ones
exactly, and so must generated states (TLC counts the initial ones and what it discards beyond a
constraint, too). The spec's own promises must hold, and every witness be found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from herdspec.check.exploration.explore import Exploration, explore
from herdspec.language.specification import Specification
from properties.published.agreement.atomic_commit import ATOMIC_COMMIT
from properties.published.agreement.nonblocking_commit import NONBLOCKING_COMMIT, WRONG_COMMIT
from properties.published.agreement.paxos_commit import PAXOS_COMMIT
from properties.published.agreement.slush import SLUSH
from properties.published.exclusion.allocator import SCHEDULING_ALLOCATOR, SIMPLE_ALLOCATOR
from properties.published.exclusion.bakery import BAKERY
from properties.published.exclusion.lamport_mutex import LAMPORT_MUTEX
from properties.published.exclusion.readers_writers import READERS_WRITERS
from properties.published.puzzles.game_of_life import GAME_OF_LIFE
from properties.published.puzzles.hanoi import HANOI
from properties.published.replication.alternating_bit import ALTERNATING_BIT
from properties.published.replication.byzantine_broadcast import BYZANTINE_BROADCAST
from properties.published.replication.checkpoint_leases import CHECKPOINT_LEASES, OPTIMISED
from properties.published.rings.ring_election import RING_ELECTION
from properties.published.rings.termination_messages import BOUND, TERMINATION_MESSAGES
from properties.published.rings.termination_ring import TERMINATION_RING
from properties.published.rings.token_ring import TOKEN_RING
from properties.specs import TWO_PHASE_COMMIT


@dataclass(frozen=True)
class Published:
    """A spec at published constants, and what was published of it."""

    spec: Specification
    distinct: int
    generated: int | None
    depth: int | None  # as TLC counts it, in states: one more than the steps of the longest path
    sizes: Mapping[str, int] = field(default_factory=dict)
    bound: int = 1
    starts: int = 1
    violated: frozenset[str] = frozenset()


def two_phase(
    managers: int, distinct: int, generated: int | None = None, depth: int | None = None
) -> Published:
    """Two-phase commit with so many resource managers."""
    return Published(TWO_PHASE_COMMIT, distinct, generated, depth, {"Manager": managers})


ROWS = [
    two_phase(3, 288, 1_146, 11),
    two_phase(5, 8_832),
    two_phase(6, 50_816),
    two_phase(7, 296_448),
    Published(HANOI, 243, 913, 32, violated=frozenset({"not_solved"})),
    Published(ALTERNATING_BIT, 240, 1_392, 10, {"Value": 2}, starts=8),
    Published(RING_ELECTION, 137, 227, 10, starts=8),
    Published(TERMINATION_RING, 1_566, 15_986, 12, starts=1_024),
    Published(NONBLOCKING_COMMIT, 4_284, None, 19, {"Participant": 2}, starts=4),
    Published(SIMPLE_ALLOCATOR, 400, 1_633, 6, {"Client": 3, "Resource": 2}),
    Published(SCHEDULING_ALLOCATOR, 1_690, 5_854, 7, {"Client": 3, "Resource": 2}),
    Published(BYZANTINE_BROADCAST, 14_424, 227_344, 7, {"Process": 4}, starts=64),
    Published(READERS_WRITERS, 21_527, 59_674, 13, {"Actor": 3}),
    Published(ATOMIC_COMMIT, 54_944, 218_352, 21, {"Participant": 3}, starts=8),
    Published(SLUSH, 274_678, 1_621_541, 43, {"Node": 3}),
    Published(TERMINATION_MESSAGES, 321_370, 2_808_396, 47, bound=BOUND, starts=8),
    Published(TOKEN_RING, 46_656, 248_832, 1, starts=46_656),
    Published(GAME_OF_LIFE, 65_536, 131_072, 1, starts=65_536),
    Published(BAKERY, 655_200, 3_403_584, 1, starts=655_200),
    Published(LAMPORT_MUTEX, 724_274, 2_729_079, 61, bound=6),
    Published(PAXOS_COMMIT, 1_321_761, 16_959_159, 28, {"Manager": 2, "Acceptor": 3}),
    two_phase(8, 1_745_408),
]


def name_of(row: Published) -> str:
    """What a row is called in the run."""
    return "-".join([row.spec.name, *map(str, row.sizes.values())])


def explored(row: Published) -> Exploration:
    """All states of a published model, none left out for symmetry."""
    return explore(row.spec, row.sizes, faults=0, bound=row.bound, symmetry=False)


def check(row: Published) -> None:
    """Explore a model, and compare what was found with what was published."""
    found = explored(row)

    assert (found.states, found.orbits) == (row.distinct, row.distinct)
    assert row.depth in (None, found.depth + 1)
    assert row.generated in (None, row.starts + found.generated + found.dropped)
    assert not found.truncated
    assert not found.missing
    assert found.violations.keys() == row.violated


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_it_has_the_states_that_were_published(row: Published) -> None:
    """A published model has the published numbers of states, generated states, and levels."""
    check(row)


def test_the_steps_of_the_nonblocking_commit_are_those_that_were_published() -> None:
    """Counted once for each choice of `j`, as TLC does, 23,988 steps are generated."""
    taken = explored(Published(NONBLOCKING_COMMIT, 4_284, None, 19, {"Participant": 2})).taken
    alone = "send_vote abort_on_vote abort_unasked decide die hear_from_the_coordinator"
    twice = sum(taken[name] for name in (*alone.split(), "abort_on_timeout"))

    assert 4 + sum(taken.values()) + twice == 23_988


@pytest.mark.long
def test_two_phase_commit_with_nine_managers() -> None:
    """Two-phase commit with nine resource managers has 10,340,352 states."""
    check(two_phase(9, 10_340_352))


@pytest.mark.parametrize(
    "row",
    [r for r in ROWS if r.spec in (TWO_PHASE_COMMIT, ALTERNATING_BIT, READERS_WRITERS)],
    ids=name_of,
)
def test_symmetry_leaves_nothing_out(row: Published) -> None:
    """Where a published model is explored up to renaming, its orbits add up to all its states."""
    found = explore(row.spec, row.sizes, faults=0, bound=row.bound, symmetry=True)

    assert found.symmetric
    assert found.orbits == row.distinct > found.states
    assert row.depth in (None, found.depth + 1)


# ── Published models that fail ──────────────────────────────────────────────────────────────


def test_hanoi_fails_as_published() -> None:
    """The published model of the towers of Hanoi fails, by the shortest solution: 31 moves."""
    found = explore(HANOI, {}, faults=0)

    assert len(found.violations["not_solved"].steps) == 31


def test_the_wrong_commit_protocol_fails_as_published() -> None:
    """Who decides before it forwards breaks AC1, in the published model with two participants."""
    found = explore(WRONG_COMMIT, {"Participant": 2}, faults=0)

    assert found.violations.keys() == {"ac1"}
    assert len(found.violations["ac1"].steps) == 12


def leases(spec: Specification) -> dict[str, int]:
    """The violated promises of the checkpoint leases, with the lengths of their stories."""
    found = explore(spec, {"Node": 3}, faults=0)
    assert not found.truncated
    return {name: len(story.steps) for name, story in found.violations.items()}


def test_the_optimised_leases_fail_as_published() -> None:
    """A leader's own lease must not be replaced: twelve states (eleven steps) show it, no fewer."""
    optimised = OPTIMISED.drop("OptimisedLeasesConnected", "cut", "mend")
    plain = CHECKPOINT_LEASES.drop("LeasesConnected", "cut", "mend")

    assert leases(optimised) == {"one_at_a_time": 11, "the_leader_knows": 12}
    assert leases(plain) == {}


@pytest.mark.long
def test_the_optimised_leases_fail_as_published_where_links_fail() -> None:
    """In the whole published model the story is as long; without the optimisation all is well."""
    assert leases(OPTIMISED) == {"one_at_a_time": 11, "the_leader_knows": 12}
    assert leases(CHECKPOINT_LEASES) == {}
