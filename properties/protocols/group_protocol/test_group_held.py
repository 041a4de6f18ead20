"""
The group coordinator's core and its spec, taken through the same steps: by chance, edge by edge,
and along stories.

Clients are the spec's own; what the core makes of what they send is compared after each step.
"""

from collections import Counter

import pytest

from herdproof.conformance.adapter import check_adapter, controlled
from herdproof.conformance.graphs.edges import (
    BEHIND,
    NOT_BY_ITSELF,
    OTHERWISE,
    REFUSED,
    RESTLESS,
    Coverage,
    cover,
)
from herdproof.conformance.stories import Outcome, on_the_code
from herdproof.conformance.walks.walk import walk
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.entry import adapter
from herdproof.protocols.group_protocol.held.adapter import HeldCoordinators
from herdproof.protocols.group_protocol.held.flawed import FLAWS
from herdproof.protocols.group_protocol.held.variants import CORES, cores
from herdspec.check.exploration.explore import Explorer
from herdspec.check.liveness.liveness import liveness
from herdspec.check.running.run import machine
from herdspec.protocols.group_protocol.plan import BOUND, PROTOCOL
from herdspec.protocols.group_protocol.properties import HELD

SIZES = {"Broker": 2, "Member": 2, "Partition": 1}
VARIANTS = [*PROTOCOL.flaws(), "drafted"]


def covered(
    members: int, faults: int, *, brokers: int = 1, part: float = 1.0
) -> Coverage:  # fmt: skip
    """The edges at so many members and brokers, one partition; told."""
    found = cover(
        HELD, HeldCoordinators, faults=faults, bound=BOUND, part=part,
        Broker=brokers, Member=members, Partition=1,
    )  # fmt: skip
    print("\n".join(found.lines))
    return found


def left(found: Coverage) -> Counter[str]:
    """How many edges were not taken, by the reason."""
    reasons = Counter[str]()
    for missed in found.missed:
        reasons[missed.reason] += missed.edges
    return reasons


# ── The core does what the spec says ────────────────────────────────────────────────────────


def test_every_action_is_offered_or_waited_for() -> None:
    """Nothing is absent."""
    offered = [action.name for action in controlled(HELD, HeldCoordinators)]

    assert sorted([*offered, *HeldCoordinators.silent]) == sorted(a.name for a in HELD.actions)


@pytest.mark.timeout(300)
def test_the_core_goes_where_its_spec_goes() -> None:
    """Brokers, clients and the store in any order: what is seen of the core is as in the spec."""
    found = walk(HELD, HeldCoordinators, SIZES, runs=40, steps=200)

    assert found.difference is None, str(found.difference)
    assert found.steps > 2_000


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("members", "faults", "taken", "edges", "reasons"),
    [
        (1, 1, 4_465, 5_105, {RESTLESS: 111, BEHIND: 519, REFUSED: 10}),
        pytest.param(
            2,
            0,
            8_536,
            10_190,
            {RESTLESS: 32, OTHERWISE: 49, NOT_BY_ITSELF: 24, BEHIND: 1_549},
            marks=pytest.mark.long,
        ),
    ],
)
def test_edges_are_taken_and_the_rest_is_named(
    members: int, faults: int, taken: int, edges: int, reasons: dict[str, int]
) -> None:
    """
    Each edge leads the core where the spec says; of those that are left, each is left for a reason.

    The core begins a generation, and has offsets stored, as soon as that is possible, and so does
    not rest where the spec might wait; it waits for whoever has only a member id. It answers no
    OffsetFetch while a generation is being stored. What it chooses, it chooses in one way.
    """
    found = covered(members, faults)

    assert found.mismatch is None
    assert (found.covered, found.edges) == (taken, edges)
    assert left(found) == reasons


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("brokers", "members", "faults"), [(1, 1, 2), (2, 1, 1)])
def test_more_edges_are_taken(brokers: int, members: int, faults: int) -> None:
    """A second fault, a second broker: nothing but those reasons is left."""
    found = covered(members, faults, brokers=brokers)

    assert found.mismatch is None
    assert {*left(found)} <= {RESTLESS, BEHIND, OTHERWISE, NOT_BY_ITSELF, REFUSED}


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_edges_of_two_members_and_a_fault_are_taken() -> None:
    """A twentieth part of them, drawn by chance: no difference."""
    found = covered(2, 1, part=0.05)

    assert found.mismatch is None
    assert found.covered > 10_000


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_it_does_so_for_long() -> None:
    """Longer walks, other chances."""
    found = walk(HELD, HeldCoordinators, SIZES, runs=1_000, steps=400, seed=1)

    assert found.difference is None, str(found.difference)
    assert [a for a, n in found.report.taken.items() if not n] == []


# ── Variants ────────────────────────────────────────────────────────────────────────────────

WITHOUT_A_CORE = [
    "join_future_never_reset", "leave_while_processing", "joins_with_partitions",
    "evicted_goes_on", "unfenced", "late_join", "former_life_commits",
    "leader_comes_back_as_follower", "subscription_changed_unnoticed", "revoked_commits",
    "rejoin_unnoticed", "drafted",
]  # fmt: skip
"""
Mistakes of the store, the world, and static and cooperative members; of clients that are seen to be
UNJOINED where the variant's are not, or whose stories cores cannot follow.
"""
RIGHT_TOO = ("errors_complete_nothing", "complete")
"""What is broken there is that nothing follows, or too late to be seen: right cores come so far."""
AWAY: dict[tuple[str, str], Outcome] = {
    ("generation_unstored", "complete"): Outcome.DIFFERS,
    ("commit_by_generation", "exclusive_fenced"): Outcome.ELSEWHERE,
    ("commit_by_generation", "committed_offsets_never_go_back"): Outcome.STUCK,
    ("expels_who_waits", "nobody_is_expelled_who_waits"): Outcome.ELSEWHERE,
}
"""
Stories that cores do not follow to their end, by variant and promise.

What was stored before a generation that was not is loaded by the core with its own members, in the
variant with the later ones; offsets are sent, and an empty generation begun, at once; an answer to
OffsetFetch waits until it is heard that the offsets are stored.
"""


def replayed(name: str, code: type[HeldCoordinators]) -> dict[str, Outcome]:
    """By what a variant breaks, what comes of its story on a core."""
    flaw = PROTOCOL.flaws()[name]
    sizes = dict(flaw.sizes or {})
    stories = dict(Explorer(flaw.spec, sizes, flaw.faults, flaw.bound).run().violations)
    if "settles" in flaw.failures:
        stories |= liveness(flaw.spec, sizes, faults=flaw.faults, bound=flaw.bound).violations
    at, came = machine(flaw.spec, **sizes), {}
    for broken, story in stories.items():
        found = on_the_code(at, code, story.steps, story.initial)
        print(f"{name}, {broken}: {found.line}")
        came[broken] = found.outcome
    return came


def test_which_variants_have_no_core() -> None:
    """All the others have: one that is made to have their mistake."""
    assert [name for name in VARIANTS if adapter(name) is None] == WITHOUT_A_CORE
    assert {*FLAWS} <= {*CORES}


@pytest.mark.parametrize("name", CORES)
def test_cores_follow_the_stories_of_their_variant(name: str) -> None:
    """The mistake in the spec is the one in the core: both come to where a promise is broken."""
    flaw = PROTOCOL.flaws()[name]
    code = cores(flaw.switches, flaw.spec)
    check_adapter(flaw.spec, code)

    came = replayed(name, code)

    wanted = dict.fromkeys(flaw.failures, Outcome.FOLLOWED)
    assert came == wanted | {broken: of for (flawed, broken), of in AWAY.items() if flawed == name}


@pytest.mark.parametrize("name", [name for name in CORES if name not in RIGHT_TOO])
def test_the_right_core_does_not_follow_them(name: str) -> None:
    """It refuses, or is seen to be elsewhere."""
    flawed = cores(frozenset({name}), PROTOCOL.flaws()[name].spec)
    right = {"core": GroupCoordinator, "client": GroupConsumer}

    came = replayed(name, type("RightCores", (flawed,), right))

    assert [broken for broken, of in came.items() if of is Outcome.FOLLOWED] == [
        broken for broken in came if broken in RIGHT_TOO and name == "rejoin_flag_lost"
    ]
