"""
Our client's core beside the coordinator's, and the spec: taken through the same steps.

What clients send is what their cores send; what these know is compared after each step.
"""

from collections import Counter
from typing import cast

import pytest

from herdproof.conformance.adapter import check_adapter
from herdproof.conformance.graphs.edges import (
    ABSENT,
    BEHIND,
    OTHERWISE,
    REFUSED,
    RESTLESS,
    Coverage,
    cover,
)
from herdproof.conformance.walks.walk import walk
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.held.clients import HeldClients
from herdproof.protocols.group_protocol.held.drafted_client import HABITS, printed_client
from herdproof.protocols.group_protocol.held.positions import HeldPositions
from herdproof.protocols.group_protocol.held.positions_flawed import CLIENTS
from herdspec.protocols.group_protocol.plan import BOUND
from herdspec.protocols.group_protocol.properties import HELD
from herdspec.protocols.group_protocol.variants.positions.properties import POSITIONS

SIZES = {"Broker": 2, "Member": 2, "Partition": 1}


def covered(members: int, faults: int, client: type[GroupConsumer] = GroupConsumer) -> Coverage:
    """The edges at so many members, one broker, one partition; told."""
    code = cast(type[HeldClients], type("HeldClients", (HeldClients,), {"client": client}))
    found = cover(HELD, code, faults=faults, bound=BOUND, Broker=1, Member=members, Partition=1)
    print("\n".join(found.lines))
    return found


def left(found: Coverage) -> Counter[str]:
    """How many edges were not taken, by the reason."""
    reasons = Counter[str]()
    for missed in found.missed:
        reasons[missed.reason] += missed.edges
    return reasons


def test_every_action_is_there() -> None:
    """The adapter fits its spec, and leaves nothing out."""
    check_adapter(HELD, HeldClients)

    assert not HeldClients.absent


@pytest.mark.timeout(300)
def test_clients_and_coordinator_go_where_the_spec_goes() -> None:
    """Both cores at once, in any order, disturbed."""
    found = walk(HELD, HeldClients, SIZES, runs=40, steps=200)

    assert found.difference is None, str(found.difference)
    assert found.steps > 2_000


@pytest.mark.timeout(300)
def test_edges_are_taken_by_clients_and_the_rest_is_named() -> None:
    """
    Each edge leads both cores where the spec says.

    A core looks at topics for its assignment before it says what that is, and joins again only for
    what its group wants; it misses heartbeats only while it sends them. So it refuses what the spec
    allows there, and what lies behind that is not taken.
    """
    found = covered(1, 1)

    assert found.mismatch is None
    assert (found.covered, found.edges) == (2_796, 5_105)
    assert left(found) == {REFUSED: 120, RESTLESS: 52, BEHIND: 2_137}


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("members", "faults"), [(1, 2), (2, 0)])
def test_more_edges_are_taken_by_clients(members: int, faults: int) -> None:
    """A second fault, a second member."""
    found = covered(members, faults)

    assert found.mismatch is None
    assert {*left(found)} <= {RESTLESS, BEHIND, OTHERWISE, REFUSED}


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_clients_do_so_for_long() -> None:
    """Longer walks, other chances."""
    found = walk(HELD, HeldClients, SIZES, runs=1_000, steps=400, seed=1)

    assert found.difference is None, str(found.difference)


# ── Where it begins ─────────────────────────────────────────────────────────────────────────


NEVER = f"{ABSENT}{HeldPositions.absent['update_metadata']}"
"""Why its assignment never lacks a partition."""


def edges_of_positions(
    members: int, faults: int, client: type[GroupConsumer] = GroupConsumer, part: float = 1.0
) -> Coverage:
    """The edges of so many members that find out where to begin, or a part of them; told."""
    code = cast(type[HeldPositions], type("HeldPositions", (HeldPositions,), {"client": client}))
    found = cover(
        POSITIONS, code, faults=faults, bound=BOUND, part=part, Broker=1, Member=members,
        Partition=1,
    )  # fmt: skip
    print("\n".join(found.lines))
    return found


@pytest.mark.timeout(300)
def test_a_client_begins_where_the_spec_begins() -> None:
    """
    OffsetFetch, resets, starts that are stored first, commits: each of them is taken.

    What is left lies behind what it refuses elsewhere, too; that a start is stored it is told when
    the coordinator has heard of it, and it commits only what it has not committed.
    """
    found = edges_of_positions(1, 0)

    assert found.mismatch is None
    assert (found.covered, found.edges) == (279, 1_360)
    assert left(found) == {REFUSED: 11, NEVER: 8, RESTLESS: 10, BEHIND: 1_052}
    assert found.untaken == ()


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("members", "faults", "part", "taken"), [(1, 1, 1.0, 9_000), (2, 0, 0.05, 5_000)]
)
def test_clients_begin_there_with_a_fault_and_another_member_too(
    members: int, faults: int, part: float, taken: int
) -> None:
    """Out of range, lost and late answers, failovers amid a start: nothing leads elsewhere."""
    found = edges_of_positions(members, faults, part=part)

    assert found.mismatch is None
    assert found.covered > taken
    assert {*left(found)} <= {RESTLESS, BEHIND, OTHERWISE, REFUSED, NEVER}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("mistake", "members", "faults"),
    [
        ("start_unstored", 1, 0),
        ("commits_what_is_at_work", 1, 0),
        pytest.param("error_taken_for_nothing", 1, 1, marks=pytest.mark.long),
        pytest.param("late_offsets_used", 2, 0, marks=pytest.mark.long),
    ],
)
def test_a_client_that_begins_otherwise_is_found(mistake: str, members: int, faults: int) -> None:
    """Some edge leads it elsewhere."""
    found = edges_of_positions(members, faults, CLIENTS[mistake], part=1.0 / members**3)

    assert found.mismatch is not None


# ── What is mistaken is found ───────────────────────────────────────────────────────────────

UNSEEN = ("no_back_off",)
"""A habit that is one of time alone: cores are told of none here."""
OF_TWO = ("joins_with_partitions",)
"""It takes another member to make one join again that has partitions."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("habit", [habit for habit in HABITS if habit not in UNSEEN])
def test_a_printed_habit_leads_elsewhere(habit: str) -> None:
    """Some edge of the verified spec leads a core with that habit elsewhere."""
    members, faults = (2, 0) if habit in OF_TWO else (1, 1)

    assert covered(members, faults, printed_client(habit)).mismatch is not None
