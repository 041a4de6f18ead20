"""
The group coordinator's core and its spec, taken through the same steps: by chance, edge by edge,
and along stories.

Clients are the spec's own; what the core makes of what they send is compared after each step.
"""

from collections import Counter
from functools import cache

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
from herdproof.protocols.group_protocol.held.clients import HeldClients
from herdproof.protocols.group_protocol.held.drafted_client import printed_client
from herdproof.protocols.group_protocol.held.flawed import FLAWS
from herdproof.protocols.group_protocol.held.variants import CORES, CommitsAtGates, cores
from herdspec.check.exploration.exploration import Story
from herdspec.check.exploration.explore import Explorer
from herdspec.check.liveness.liveness import liveness
from herdspec.check.running.run import Machine, Step, machine
from herdspec.protocols.group_protocol.plan import BOUND, PROTOCOL
from herdspec.protocols.group_protocol.properties import HELD
from properties.protocols.group_protocol.group_constraints import CONSTRAINTS, constrained

SIZES = {"Broker": 2, "Member": 2, "Partition": 1}
VARIANTS = [*PROTOCOL.flaws(), "drafted"]


def covered(
    members: int, faults: int, *, brokers: int = 1, part: float = 1.0,
    code: type[HeldCoordinators] = HeldCoordinators,
) -> Coverage:  # fmt: skip
    """The edges at so many members and brokers, one partition; told."""
    found = cover(
        HELD, code, faults=faults, bound=BOUND, part=part,
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
    "evicted_goes_on", "unfenced", "late_join", "former_life_commits",
    "leader_comes_back_as_follower", "subscription_changed_unnoticed", "revoked_commits",
    "rejoin_unnoticed", "drafted",
]  # fmt: skip
"""Mistakes of the store, the world and time, and of static and cooperative members."""
RIGHT_TOO = ("errors_complete_nothing", "join_future_never_reset", "complete")
"""What is broken there is that nothing follows, or too late to be seen: right cores come so far."""
AWAY: dict[tuple[str, str], Outcome] = {
    ("generation_unstored", "complete"): Outcome.DIFFERS,
    ("expels_who_waits", "nobody_is_expelled_who_waits"): Outcome.ELSEWHERE,
}
"""
Stories that cores do not follow to their end, by variant and promise.

What was stored before a generation that was not is loaded by the core with its own members, in the
variant with the later ones; an empty generation is begun at once.
"""


@cache
def stories_of(name: str) -> tuple[Machine, dict[str, Story]]:
    """A variant, with its step constraints, at its size, and by what it breaks its story."""
    flaw = PROTOCOL.flaws()[name]
    spec, faults = constrained(name, flaw.spec, flaw.faults)
    sizes = dict(flaw.sizes or {})
    stories = dict(Explorer(spec, sizes, faults, flaw.bound).run().violations)
    if "settles" in flaw.failures:
        stories |= liveness(spec, sizes, faults=faults, bound=flaw.bound).violations
    return machine(spec, **sizes), stories


def replayed(name: str, code: type[HeldCoordinators]) -> dict[str, Outcome]:
    """By what a variant breaks, what comes of its story on a core."""
    at, stories = stories_of(name)
    came = {}
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
    spec, _ = constrained(name, flaw.spec, flaw.faults)
    code = cores(flaw.switches, spec)
    check_adapter(spec, code)

    came = replayed(name, code)

    wanted = dict.fromkeys(flaw.failures, Outcome.FOLLOWED)
    assert came == wanted | {broken: of for (flawed, broken), of in AWAY.items() if flawed == name}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_stories_under_step_constraints_are_the_variants_own(name: str) -> None:
    """It takes the same steps to the same broken property, or to where nothing fair is left."""
    flaw = PROTOCOL.flaws()[name]
    at = machine(flaw.spec, **dict(flaw.sizes or {}))
    properties = {each.name: each for each in flaw.spec.properties}

    for broken, story in stories_of(name)[1].items():
        state = replayed_in(at, name, story)[-1].state
        if broken == "settles":
            assert not [step for step in at.steps(state) if step.action.fair]
        else:
            assert not at.holds(properties[broken], state)


def replayed_in(at: Machine, name: str, story: Story) -> list[Step]:
    """The steps of a variant's story in another spec, which allows each of them."""
    begun = stories_of(name)[0].flat(story.initial)
    state = next(start for start in at.starts() if at.flat(start) == begun)
    steps = []
    for step in story.steps:
        (taken,) = [
            each
            for each in at.steps(state, by=step.action.name)
            if each.arguments == step.arguments
        ]
        steps.append(taken)
        state = taken.state
    return steps


def test_who_keeps_its_join_future_sends_no_other_join() -> None:
    """Where its story ends the right client goes on: it joins again, as its spec does."""
    name = "join_future_never_reset"
    story = stories_of(name)[1]["settles"]
    at = machine(HELD, **dict(PROTOCOL.flaws()[name].sizes or {}))
    steps = replayed_in(at, name, story)
    (again,) = at.steps(steps[-1].state, by="initiate_join_group")
    start = next(each for each in at.starts() if at.flat(each) == at.flat(story.initial))
    keeps = type("KeepsJoinFuture", (HeldClients,), {"client": printed_client(name)})

    assert on_the_code(at, HeldClients, [*steps, again], start).outcome is Outcome.FOLLOWED
    assert on_the_code(at, keeps, steps, start).outcome is Outcome.FOLLOWED
    assert on_the_code(at, keeps, [*steps, again], start).outcome is Outcome.DIFFERS


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("part", "taken"), [(0.2, 800), pytest.param(1.0, 4_482, marks=pytest.mark.long)]
)
def test_the_gates_of_commits_change_nothing_of_the_right_core(part: float, taken: int) -> None:
    """Sent to the store, and answered, when they may be, commits are as in the spec."""
    found = covered(1, 1, part=part, code=CommitsAtGates)

    assert found.mismatch is None
    assert found.covered >= taken


@pytest.mark.parametrize("name", [name for name in CORES if name not in RIGHT_TOO])
def test_the_right_core_does_not_follow_them(name: str) -> None:
    """It refuses, or is seen to be elsewhere."""
    flaw = PROTOCOL.flaws()[name]
    flawed = cores(frozenset({name}), constrained(name, flaw.spec, flaw.faults)[0])
    right = {"core": GroupCoordinator, "client": GroupConsumer}

    came = replayed(name, type("RightCores", (flawed,), right))

    assert [broken for broken, of in came.items() if of is Outcome.FOLLOWED] == [
        broken for broken in came if broken in RIGHT_TOO and name == "rejoin_flag_lost"
    ]
