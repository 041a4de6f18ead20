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
from herdproof.protocols.group_protocol.held.administered import (
    ADMINISTERED_CORES,
    HeldAdministered,
    administered,
)
from herdproof.protocols.group_protocol.held.choosing import (
    CHOOSING_CORES,
    HeldChoosing,
    choosing,
)
from herdproof.protocols.group_protocol.held.clients import HeldClients
from herdproof.protocols.group_protocol.held.drafted_client import printed_client
from herdproof.protocols.group_protocol.held.flawed import FLAWS
from herdproof.protocols.group_protocol.held.resubscribing import (
    RESUBSCRIBING_CORES,
    HeldResubscribing,
    resubscribing,
)
from herdproof.protocols.group_protocol.held.variants import CORES, CommitsAtGates, cores
from herdspec.check.exploration.exploration import Story
from herdspec.check.exploration.explore import Explorer
from herdspec.check.liveness.liveness import liveness
from herdspec.check.running.run import Machine, Step, machine
from herdspec.language.specification import Specification
from herdspec.language.surface import Expectation
from herdspec.protocols.group_protocol.plan import BOUND, PROTOCOL, varied_told
from herdspec.protocols.group_protocol.properties import HELD
from herdspec.protocols.group_protocol.variants.administered.properties import ADMINISTERED_HELD
from herdspec.protocols.group_protocol.variants.choice.properties import CHOICE_HELD
from herdspec.protocols.group_protocol.variants.subscriptions.properties import SUBSCRIPTIONS_HELD
from properties.protocols.group_protocol.held.group_constraints import CONSTRAINTS, constrained

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
    "rejoin_unnoticed", "nothing_in_common", "protocol_unstored", "deleted_while_subscribed",
    "offsets_outlive_their_group", "deleted_unfenced", "deleted_offsets_come_back",
    "change_lost_in_join", "reads_on_unsubscribed", "drafted",
]  # fmt: skip
"""Mistakes of the store, the world and time, and of static and cooperative members."""
RIGHT_TOO = ("errors_complete_nothing", "join_future_never_reset")
"""What is broken there is that nothing follows, or too late to be seen: right cores come so far."""
BY_RIGHT_CORES = {
    "rejoin_flag_lost": ["complete"],
    "late_offsets_used": ["a_position_is_of_the_present_assignment"],
}  # fmt: skip
"""Stories that right cores follow, too: who has no partition asks for no offsets."""
AWAY: dict[tuple[str, str], Outcome] = {
    ("generation_unstored", "complete"): Outcome.DIFFERS,
    ("expels_who_waits", "nobody_is_expelled_who_waits"): Outcome.ELSEWHERE,
    ("new_member_expires", "nobody_is_expelled_who_waits"): Outcome.ELSEWHERE,
    ("late_offsets_used", "committed_offsets_never_go_back"): Outcome.STUCK,
    ("late_offsets_used", "only_what_is_not_stored_is_reset"): Outcome.STUCK,
    ("late_offsets_used", "users_are_told_of_what_is_missing"): Outcome.STUCK,
    ("error_taken_for_nothing", "nothing_is_skipped"): Outcome.STUCK,
}
"""
Stories that cores do not follow to their end, by variant and promise.

What was stored before a generation that was not is loaded by the core with its own members, in the
variant with the later ones; an empty generation is begun at once. Whom a partition goes to is what
the core's leader has planned; no OffsetFetch is answered while a generation is being stored; that a
start is stored is told when the coordinator has heard of it.
"""
BEYOND: dict[str, set[str]] = {
    "late_offsets_used": {"nothing_is_skipped", "only_finished_is_committed"},
    "commits_what_is_at_work": {"what_is_finished_is_committed_before_it_is_given_up"},
}  # fmt: skip
"""What a variant breaks only with more faults than it is looked at with under step constraints."""


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


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] * (n == "late_offsets_used")) for n in CORES],
)
def test_cores_follow_the_stories_of_their_variant(name: str) -> None:
    """The mistake in the spec is the one in the core: both come to where a promise is broken."""
    flaw = PROTOCOL.flaws()[name]
    spec, _ = constrained(name, flaw.spec, flaw.faults)
    code = cores(flaw.switches, spec)
    check_adapter(spec, code)

    came = replayed(name, code)

    wanted = dict.fromkeys(flaw.failures.keys() - BEYOND.get(name, set()), Outcome.FOLLOWED)
    assert came == wanted | {broken: of for (flawed, broken), of in AWAY.items() if flawed == name}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_stories_under_step_constraints_are_the_variants_own(name: str) -> None:
    """It takes the same steps to the same broken property, or to where nothing fair is left."""
    flaw = PROTOCOL.flaws()[name]
    at = machine(flaw.spec, **dict(flaw.sizes or {}))
    properties = {each.name: each for each in flaw.spec.properties}

    for broken, story in stories_of(name)[1].items():
        *_, before, last = (step.state for step in replayed_in(at, name, story))
        if broken == "settles":
            assert not [step for step in at.steps(last) if step.action.fair]
        else:
            of = properties[broken]
            is_of_steps = of.expectation is Expectation.STEP
            assert not at.holds(of, *((before, last) if is_of_steps else (last,)))


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

    followed = [broken for broken, of in came.items() if of is Outcome.FOLLOWED]
    assert followed == BY_RIGHT_CORES.get(name, [])


# ── A choice among protocols, administration, and subscriptions that change ─────────────────


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        pytest.param(CHOICE_HELD, HeldChoosing, id="choice"),
        pytest.param(ADMINISTERED_HELD, HeldAdministered, id="administered"),
        pytest.param(SUBSCRIPTIONS_HELD, HeldResubscribing, id="subscriptions"),
    ],
)
def test_every_action_of_a_variant_is_offered_or_waited_for(
    spec: Specification, code: type[HeldCoordinators]
) -> None:
    """Nothing is absent."""
    check_adapter(spec, code)
    offered = [action.name for action in controlled(spec, code)]

    assert sorted([*offered, *code.silent]) == sorted(a.name for a in spec.actions)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("near", "faults", "part", "taken"),
    [
        ("one_is_refused", 0, 0.02, 1_000),
        pytest.param("change_protocols", 1, 0.000_5, 5_000, marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_the_core_goes_where_the_choice_goes(
    near: str, faults: int, part: float, taken: int
) -> None:
    """Edges near a refusal, and near a change of protocols."""
    at = varied_told("choice")
    found = cover(
        at.spec, HeldChoosing, faults=faults, bound=BOUND, part=part, near=near, seed=1,
        Broker=1, Member=2, Partition=1, Assignor=2,
    )  # fmt: skip
    print("\n".join(found.lines))

    assert found.mismatch is None
    assert found.covered >= taken


@pytest.mark.timeout(300)
def test_the_core_walks_where_the_choice_goes() -> None:
    """With changes of protocols and failovers, and members that are refused."""
    at = varied_told("choice", faults=0)
    found = walk(at.spec, HeldChoosing, at.sizes, runs=40, steps=200)

    assert found.difference is None, str(found.difference)
    assert min(found.report.taken[name] for name in ("change_protocols", "be_refused")) > 3


@pytest.mark.parametrize("name", CHOOSING_CORES)
def test_a_core_follows_what_its_choice_breaks(name: str) -> None:
    """The mistake in the variant is the one in the core; the right core has those of Kafka."""
    flaw = PROTOCOL.flaws()[name]
    code = choosing(flaw.switches, flaw.spec)

    followed = replayed(name, code)
    right = replayed(name, type("RightCores", (code,), {"core": GroupCoordinator}))

    assert followed == dict.fromkeys(flaw.failures, Outcome.FOLLOWED)
    assert (Outcome.FOLLOWED in right.values()) == (CHOOSING_CORES[name] is GroupCoordinator)


@pytest.mark.timeout(600)
def test_the_core_goes_where_subscriptions_change() -> None:
    """Edges near a change of a subscription."""
    at = varied_told("subscriptions", faults=1)
    found = cover(
        at.spec, HeldResubscribing, faults=1, bound=BOUND, part=0.002,
        near="change_subscription", seed=1, Broker=1, Member=2, Partition=1,
    )  # fmt: skip
    print("\n".join(found.lines))

    assert found.mismatch is None
    assert found.covered >= 1_000


@pytest.mark.timeout(300)
def test_the_core_walks_where_subscriptions_change() -> None:
    """With members that ask for something else while they join, and failovers."""
    at = varied_told("subscriptions", faults=0)
    found = walk(at.spec, HeldResubscribing, at.sizes, runs=40, steps=200)

    assert found.difference is None, str(found.difference)
    assert min(found.report.taken[n] for n in ("change_subscription", "on_join_follower")) > 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", RESUBSCRIBING_CORES)
def test_a_core_follows_what_breaks_as_subscriptions_change(name: str) -> None:
    """The mistake in the variant is the one in the core; the right core does not follow."""
    flaw = PROTOCOL.flaws()[name]
    code = resubscribing(flaw.switches, flaw.spec)

    followed = replayed(name, code)
    right = replayed(name, type("RightCores", (code,), {"core": GroupCoordinator}))

    assert followed == dict.fromkeys({*flaw.failures} - LIVES, Outcome.FOLLOWED)
    assert Outcome.FOLLOWED not in right.values()


LIVES = {"settles_with_all_subscriptions"}
"""Failures whose stories do not end, and are not replayed."""
ASKED_OUTSIDE = ("commit_from_outside", "delete_offsets", "delete_group")
"""Actions that nobody takes who is a member."""


@pytest.mark.timeout(300)
def test_the_core_walks_along_its_administration() -> None:
    """What is asked from outside is done where the variant says so, and refused elsewhere."""
    at = varied_told("administered", faults=0)
    found = walk(at.spec, HeldAdministered, at.sizes, runs=40, steps=200)

    assert found.difference is None, str(found.difference)
    assert min(found.report.taken[name] for name in ASKED_OUTSIDE) > 10
    assert min(found.report.refused[name] for name in ASKED_OUTSIDE) > 10


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("part", "taken"), [(0.1, 500), pytest.param(1.0, 4_995, marks=pytest.mark.long)]
)
def test_the_core_goes_where_its_administration_goes(part: float, taken: int) -> None:
    """One member, and one request from outside, or one fault: each edge, or a part of them."""
    found = cover(
        ADMINISTERED_HELD, HeldAdministered, faults=1, bound=BOUND, part=part,
        Broker=1, Member=1, Partition=1,
    )  # fmt: skip
    print("\n".join(found.lines))

    assert found.mismatch is None
    assert found.covered >= taken
    assert {*left(found)} <= {RESTLESS, BEHIND, REFUSED}


FLUSHED_AT_ONCE: dict[str, dict[str, Outcome]] = {
    "deleted_with_members": dict.fromkeys(
        ("nobody_is_expelled_who_waits", "offsets_go_back_only_for_nobody", "settles"),
        Outcome.STUCK,
    ),
    "commits_from_anywhere": {"only_owners_commit_but_in_an_empty_group": Outcome.ELSEWHERE},
}
"""Stories in which an offset that was committed from outside is not sent to the store at once."""


@pytest.mark.parametrize("name", ADMINISTERED_CORES)
def test_a_core_follows_what_its_administration_breaks(name: str) -> None:
    """The mistake in the variant is the one in the core; the right core goes elsewhere."""
    flaw = PROTOCOL.flaws()[name]
    code = administered(flaw.switches, flaw.spec)

    followed = replayed(name, code)
    right = replayed(name, type("RightCores", (code,), {"core": GroupCoordinator}))

    assert followed == dict.fromkeys(flaw.failures, Outcome.FOLLOWED) | FLUSHED_AT_ONCE[name]
    assert Outcome.FOLLOWED not in right.values()
