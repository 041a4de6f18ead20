"""
The variants: other members, choice, administration, fetch positions, other subscriptions.

Of each the size of its world, and what breaks it.

Quotations are from apache/kafka: KIP-345, KIP-814, KIP-429, pull request 9656; `003`.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated

import pytest

from herdspec import Nat, UpTo, action, command, require
from herdspec.check.exploration.exploration import Exploration
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.liveness import liveness
from herdspec.check.mutation.mutants import mutants
from herdspec.check.proof.prove import SolverAnswer, prove
from herdspec.protocols.flaws import Flaw
from herdspec.protocols.group_protocol.plan import (
    BOUND,
    PROVED,
    PROVED_ALONE,
    resized,
    variants,
    varied,
    varied_told,
)
from herdspec.protocols.group_protocol.properties import GROUP_PROTOCOL
from herdspec.protocols.group_protocol.variants.administered.flaws import ADMINISTERED_FLAWS
from herdspec.protocols.group_protocol.variants.administered.properties import (
    ADMINISTERED,
    LEMMAS_OF_LIVES,
    SAID_WITH,
    SAID_WITHOUT,
)
from herdspec.protocols.group_protocol.variants.administered.spec import (
    AdministeredGroup,
    Partition,
)
from herdspec.protocols.group_protocol.variants.choice.flaws import CHOICE_FLAWS
from herdspec.protocols.group_protocol.variants.choice.properties import CHOICE, CHOICE_LEMMAS
from herdspec.protocols.group_protocol.variants.cooperative.flaws import COOPERATIVE_FLAWS
from herdspec.protocols.group_protocol.variants.cooperative.properties import COOPERATIVE
from herdspec.protocols.group_protocol.variants.positions.flaws import POSITIONS_FLAWS
from herdspec.protocols.group_protocol.variants.positions.properties import (
    ANEW as OF_BEGINNINGS,
)
from herdspec.protocols.group_protocol.variants.positions.properties import (
    POSITIONS,
    POSITIONS_HELD,
    SAID_OF_ALL,
)
from herdspec.protocols.group_protocol.variants.static.flaws import STATIC_FLAWS
from herdspec.protocols.group_protocol.variants.static.properties import (
    ANEW,
    SAID_OF_MEMBERS,
    STATIC,
)
from herdspec.protocols.group_protocol.variants.subscriptions.flaws import SUBSCRIPTION_FLAWS
from herdspec.protocols.group_protocol.variants.subscriptions.properties import (
    SUBSCRIPTION_LEMMAS,
    SUBSCRIPTIONS,
)
from properties.protocols.flawed_worlds import explored_of, lived_of
from properties.protocols.varied import breaks

ALL_FLAWS: dict[str, Flaw] = {
    **STATIC_FLAWS, **COOPERATIVE_FLAWS, **CHOICE_FLAWS, **ADMINISTERED_FLAWS, **POSITIONS_FLAWS,
    **SUBSCRIPTION_FLAWS,
}  # fmt: skip
LIVE = {"settles", "settles_with_all_subscriptions"}


@cache
def explored(name: str) -> Exploration:
    """A variant with two members, and one fault or two; naturals reach far enough."""
    at = varied_told(name)
    return explore(at.spec, at.sizes, faults=at.faults, bound=BOUND)


flawed, lived = explored_of(ALL_FLAWS), lived_of(ALL_FLAWS)


# ── The variants ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "states", "steps", "depth"),
    [
        ("static", 429_286, 1_059_977, 72),
        pytest.param("static_without_stopping", 441_645, 1_089_844, 72, marks=pytest.mark.long),
        ("cooperative", 316_341, 762_671, 106),
        pytest.param("cooperative_without_stopping", 331_755, 797_370, 106, marks=pytest.mark.long),
        ("choice", 2_225_725, 5_735_949, 98),
        ("administered", 2_948_488, 8_968_562, 87),
        pytest.param(
            "administered_without_stopping", 3_157_583, 9_565_259, 87, marks=pytest.mark.long
        ),
        pytest.param("positions", 2_853_644, 9_626_476, 103, marks=pytest.mark.long),
        pytest.param("subscriptions", 2_942_421, 9_187_270, 87, marks=pytest.mark.long),
    ],
)
def test_a_variants_world_is_pinned_and_nothing_fails_in_it(
    name: str, states: int, steps: int, depth: int
) -> None:
    """Every promise holds, every possibility is met, every action is taken."""
    found = explored(name)

    assert (found.states, found.generated, found.depth) == (states, steps, depth)
    assert found.complete
    assert not found.violations
    assert not found.missing
    assert found.deadlock is None
    assert all(found.taken.values())


def test_the_world_of_positions_is_pinned_with_a_single_member_and_nothing_fails_in_it() -> None:
    """What takes two members is in the long tests; each reset, and all else, is met with one."""
    found = explore(POSITIONS, dict.fromkeys(POSITIONS.sorts, 1), faults=2, bound=BOUND)

    assert (found.states, found.generated, found.depth) == (244_745, 682_670, 80)
    assert found.complete
    assert not found.violations
    assert not found.missing
    assert found.deadlock is None
    assert {n for n, times in found.taken.items() if not times} == {
        "on_join_follower", "join_again",
    }  # fmt: skip


def test_the_world_of_subscriptions_is_pinned_with_one_fault_and_nothing_fails_in_it() -> None:
    """A partition that was read is let go with two; all else, and each action, is met with one."""
    at = varied_told("subscriptions", faults=1)
    found = explore(at.spec, at.sizes, faults=1, bound=BOUND)

    assert (found.states, found.generated, found.depth) == (157_118, 389_896, 72)
    assert found.complete
    assert not found.violations
    assert [*found.missing] == ["a_partition_is_let_go"]
    assert found.deadlock is None
    assert all(found.taken.values())


def test_positions_are_proved_for_any_size() -> None:
    """Each promise and lemma, by each action; no action is vacuous."""
    found = prove(POSITIONS)

    assert [
        (o.promise, o.action) for o in found.obligations if o.outcome is not SolverAnswer.PROVED
    ] == []
    assert (found.vacuous, found.unsure, found.begins) == ([], [], SolverAnswer.PROVED)
    assert found.proved
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("members", "faults"), [(1, 2), (2, 0), pytest.param(2, 1, marks=pytest.mark.long)]
)
def test_positions_are_found_in_the_end(members: int, faults: int) -> None:
    """Without further faults all is consumed, in every fair behaviour, or a user told why not."""
    sizes = {"Broker": 1, "Member": members, "Partition": 1}
    found = liveness(POSITIONS, sizes, faults=faults, bound=BOUND)

    assert not found.violations
    assert not found.undecided


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("static_without_stopping", marks=pytest.mark.long),
        "cooperative",
        pytest.param("choice", marks=pytest.mark.long),
        "administered",
        "subscriptions",
    ],
)
def test_a_variant_settles(name: str) -> None:
    """Without further faults the group is stable again, in every fair behaviour."""
    at = varied_told(name, faults=1 if name == "subscriptions" else None)
    at = resized(at, Broker=2, Member=1) if name == "administered" else at
    found = liveness(at.spec, at.sizes, faults=at.faults, bound=BOUND)

    assert not found.violations
    assert not found.undecided


def test_what_is_verified_is_what_is_tested() -> None:
    """`herdproof verify` looks at the variants at the sizes of these tests, and proves as many."""
    checks = [check.name for check in varied()]
    explored_too = [name for name in variants() if name not in PROVED_ALONE]

    assert [name.split(":")[0].split()[-1] for name in checks] == [
        *explored_too, "static_without_stopping", "cooperative", "choice", "administered",
        "subscriptions", *PROVED, "positions", "positions", "positions",
    ]  # fmt: skip
    assert all(f"explore {name}: {varied_told(name).size}" in checks for name in explored_too)


def test_a_variant_promises_all_that_the_protocol_promises() -> None:
    """None is left out; of lives four are said, with administration five, of positions one."""
    said = {
        p.name
        for p in GROUP_PROTOCOL.properties
        if not p.lemma and p.expectation.name != "SOMETIMES"
    }
    promised = said - {"settles", "it_can_settle"}
    of_members = {p.name for p in SAID_OF_MEMBERS}

    assert len(ANEW) == len(SAID_OF_MEMBERS)
    assert promised - {p.name for p in STATIC.properties} == of_members
    assert promised <= {p.name for p in COOPERATIVE.properties}
    assert promised <= {p.name for p in CHOICE.properties}
    assert promised <= {p.name for p in SUBSCRIPTIONS.properties}
    without = {p.name for p in SAID_WITHOUT}
    assert len(SAID_WITH) == len(SAID_WITHOUT)
    assert promised - {p.name for p in ADMINISTERED.properties} == without
    assert len(OF_BEGINNINGS) == len(SAID_OF_ALL)
    assert promised - {p.name for p in POSITIONS.properties} == {p.name for p in SAID_OF_ALL}


# ── What is proved ──────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    [
        "choice",
        "administered",
        "subscriptions",
        *(pytest.param(n, marks=pytest.mark.long) for n in PROVED_ALONE),
    ],
)
def test_a_variant_is_proved_for_any_size(name: str) -> None:
    """Each obligation is proved; z3 is warned that it might have given up, and has not."""
    found = prove(variants()[name])

    assert [
        (o.promise, o.action) for o in found.obligations if o.outcome is not SolverAnswer.PROVED
    ] == []
    assert (found.vacuous, found.unsure, found.begins) == ([], [], SolverAnswer.PROVED)
    assert found.proved


OF_THE_CHOICE = {
    "only_one_that_joins_is_told_a_protocol": (
        "nobody_uses_what_it_does_not_support",
        "subscribe",
    ),
    "what_is_listed_was_said": ("nobody_uses_what_it_does_not_support", "answer_joins"),
    "each_client_supports_something": ("members_have_a_protocol_in_common", "handle_join_group"),
    "a_stored_generation_has_its_protocol": (
        "the_protocol_is_one_that_all_support",
        "answer_joins",
    ),
}
"""For each lemma of the choice what is no longer kept without it, and by which action."""
OF_LIVES = {
    "nothing_goes_on_while_something_is_deleted": (
        "what_is_deleted_stays_so",
        "store_deleted_offsets",
    ),
    "members_are_of_this_life": ("owners_are_ahead_where_one_is_subscribed", "commit"),
    "generations_of_each_life_have_been": (
        "what_is_handed_out_is_stored_or_deleted",
        "store_deleted_group",
    ),
    "each_generation_of_a_life_has_one_leader": ("one_leader_in_each_life", "on_join_leader"),
    "who_is_at_present_has_all_of_it": ("owners_are_ahead_where_one_is_subscribed", "commit"),
    "owners_are_ahead_where_one_is_subscribed": (
        "offsets_go_back_only_for_nobody",
        "store_offsets",
    ),
}
"""Likewise for each lemma of administration."""
OF_SUBSCRIPTIONS_CHANGED = {
    "what_is_said_was_asked_for": ("a_generation_counts_what_was_asked_for", "answer_joins"),
    "a_stored_generation_has_what_was_said": (
        "a_generation_counts_what_was_asked_for",
        "handle_join_group",
    ),
}
"""Likewise for each lemma of subscriptions that change."""


def test_no_lemma_is_left_out() -> None:
    """Each lemma of a variant's own is among those that are shown to be needed."""
    assert [*OF_THE_CHOICE] == [p.name for p in CHOICE_LEMMAS]
    assert [*OF_LIVES] == [p.name for p in LEMMAS_OF_LIVES]
    assert [*OF_SUBSCRIPTIONS_CHANGED] == [p.name for p in SUBSCRIPTION_LEMMAS]


@pytest.mark.parametrize(
    ("variant", "lemma"),
    [
        *(("choice", n) for n in OF_THE_CHOICE),
        *(("administered", n) for n in OF_LIVES),
        *(("subscriptions", n) for n in OF_SUBSCRIPTIONS_CHANGED),
    ],
)
def test_each_lemma_is_needed(variant: str, lemma: str) -> None:
    """Without it a step breaks a promise; with it, it does not."""
    spec = variants()[variant]
    promise, action = (OF_THE_CHOICE | OF_LIVES | OF_SUBSCRIPTIONS_CHANGED)[lemma]

    assert breaks(spec, lemma, promise, action)
    assert not breaks(spec, "", promise, action)


@action(kind=command, disturbs=True)
def commit_anything(
    self: AdministeredGroup, p: Partition, offset: Annotated[Nat, UpTo(10**9)]
) -> None:
    """Somebody who is no member commits {offset} of {p}, be it 0, and the group is Empty."""
    self.attends()
    require(self.takes_from_outside())
    self.noted[p] = offset
    self.finished[p] = max(self.finished[p], offset)


@pytest.mark.long
def test_administration_is_proved_whatever_the_offset_from_outside() -> None:
    """What is explored has small ones that are more than 0; no proof rests on that."""
    found = prove(ADMINISTERED.replace("AnyOffset", commit_from_outside=commit_anything))

    assert found.proved


# ── What goes wrong ─────────────────────────────────────────────────────────────────────────

MUST_CONTAIN = {
    # an "old member.id" that is not fenced stores what its next life has gone beyond
    "former_life_commits": {"commit", "store_replacement", "handle_offset_commit"},
    # KIP-814: the leader that comes back does not know that it leads, and watches no partitions
    "leader_comes_back_as_follower": {"store_replacement", "on_join_follower", "appear"},
    # "static members … updated its subscription": nobody shares out anew
    "subscription_changed_unnoticed": {"kill", "store_replacement", "answer_replacement"},
    # PR 9656: it commits for what it has given up, and another one owns
    "revoked_commits": {"consume", "on_join_complete", "commit", "handle_offset_commit"},
    # KIP-429: who has given something up joins again
    "rejoin_unnoticed": {"on_join_complete", "initiate_join_group"},
    # "the protocol supported by all members" is not what the leader alone supports
    "leaders_protocol": {"store_generation", "answer_joins"},
    # "INCONSISTENT_GROUP_PROTOCOL": whoever is let in without one, no generation has a protocol
    "nothing_in_common": {"handle_join_group", "complete_join"},
    # "member is joining with different metadata … trigger a rebalance"
    "other_protocols_unnoticed": {"change_protocols", "handle_join_group"},
    # what is handed out is stored: the protocol, too
    "protocol_unstored": {"store_generation", "load_group"},
    # Kafka's loadClassicGroup knows of a member the protocol that was chosen, and no other
    "only_the_chosen_is_stored": {"load_group", "handle_join_group"},
    # KIP-229: a group that has members is "non-empty"
    "deleted_with_members": {"delete_group", "store_deleted_group"},
    # UNKNOWN_MEMBER_ID: generation -1 "is only allowed for an empty group"
    "commits_from_anywhere": {"commit_from_outside"},
    # KIP-496: GROUP_SUBSCRIBED_TO_TOPIC
    "deleted_while_subscribed": {"delete_offsets", "store_deleted_offsets"},
    # a group's tombstone is followed by those of its offsets
    "offsets_outlive_their_group": {"delete_group", "store_deleted_group"},
    # who is deposed deletes nothing
    "deleted_unfenced": {"elect", "store_deleted_group"},
    # what is deleted is not written again
    "deleted_offsets_come_back": {"delete_offsets", "store_deleted_offsets"},
    # "supportsProtocols" counts the member that asks, too
    "held_to_what_it_was": {"change_protocols", "handle_join_group"},
    # 66, "asynchronously": what was asked for comes when another assignment is there
    "late_offsets_used": {"fetch_committed", "initiate_join_group", "handle_offset_fetch"},
    # 65, LATEST: what is produced until somebody else begins is nobody's
    "start_unstored": {"resolve_start", "produce", "kill"},
    # KIP-447, UNSTABLE_OFFSET_COMMIT: "the consumer should retry"
    "error_taken_for_nothing": {"store_offsets", "lose_offset_fetch", "resolve_start"},
    # 88: "rejoinNeeded" is not to be reset by a join that has begun before
    "change_lost_in_join": {"change_subscription", "on_join_complete"},
    # "member is joining with different metadata … trigger a rebalance", a subscription's
    "other_subscription_unnoticed": {"change_subscription", "handle_join_group"},
    "first_subscription_kept": {"change_subscription", "store_generation"},
    # SubscriptionState: what nobody subscribes to is not fetched
    "reads_on_unsubscribed": {"change_subscription", "consume"},
    # 71: what the application is at is committed by the next poll
    "commits_what_is_at_work": {"maybe_auto_commit_offsets_async", "store_offsets"},
}
"""What the story of each flaw must tell."""


@pytest.mark.parametrize("name", ALL_FLAWS)
def test_a_variants_flaw_breaks_just_what_is_declared(name: str) -> None:
    """The properties that fail, the lengths of their shortest stories, and their last actions."""
    flaw, found = ALL_FLAWS[name], flawed(name)
    stories = {**found.violations, **(lived(name).violations if LIVE & {*flaw.failures} else {})}
    shown = {n: (len(s.steps), s.steps[-1].action.name) for n, s in stories.items()}

    assert shown == {n: (f.steps, f.last) for n, f in flaw.failures.items()}
    assert found.complete
    assert any(MUST_CONTAIN[name] <= {x.action.name for x in s.steps} for s in stories.values())


GUARDS = {
    # When offsets are heeded, and what is begun with.
    "stop_fetching: skip `self.fetches_at[m] = 0`": "a_position_is_of_the_present_assignment",
    "fetch_committed: drop `not self.ready[m]`": "only_what_is_not_stored_is_reset",
    "update_fetch_positions: skip `self.drop_fetch(m)`": "committed_offsets_never_go_back",
    "note_stopped: skip `self.position[m, p] = 0`": "positions_go_with_their_assignment",
    # What the reset finds, and that it is stored first.
    "resolve_start: drop `self.position[m, p] < self.log_start[p]`": (
        "only_what_is_not_stored_is_reset"
    ),
    "resolve_start: drop `self.reset != OffsetReset.NONE`": "none_invents_no_offset",
    "resolve_start: skip `self.unstored[m, p] = True`": "nothing_is_skipped",
    "deliver: drop `self.is_stored(m, p)`": "nothing_is_skipped",
    # What a user is told.
    "update_fetch_positions: drop `lacks`": "users_are_told_of_what_is_missing",
    "report_out_of_range: drop `self.position[m, p] < self.log_start[p]`": (
        "users_are_told_of_what_is_missing"
    ),
    # What is committed before it is given up.
    "on_join_prepare: skip `self.send_commit(m)`": (
        "what_is_finished_is_committed_before_it_is_given_up"
    ),
    "store_starts: drop `self.commit_at[m] == 0`": (
        "what_is_finished_is_committed_before_it_is_given_up"
    ),
}
"""Mistakes in the spec of fetch positions, and a promise of which each is noticed."""


@pytest.mark.parametrize("mistake", GUARDS)
def test_a_mistake_in_fetch_positions_is_noticed(mistake: str) -> None:
    """With one member and one fault."""
    (mutant,) = (each for each in mutants(POSITIONS_HELD) if each.id == mistake)

    found = explore(
        mutant.of(POSITIONS_HELD), dict.fromkeys(POSITIONS.sorts, 1), faults=1, bound=BOUND
    )

    assert GUARDS[mistake] in found.violations
