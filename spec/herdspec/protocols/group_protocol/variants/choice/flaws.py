"""
Flaws of a choice among protocols: each is the choice with one mistake.

Two are Kafka's own, and our coordinator's, which does the same: the choice as it is, held to what
it does not promise. What must come of each is declared, as in the protocol's `flaws.py`.

Source: apache/kafka, `ClassicGroup.selectProtocol`, `GroupMetadataManager.classicGroupJoin`.
"""

from __future__ import annotations

from functools import partial

from herdspec import action, command, require, weak
from herdspec.protocols.flaws import Failure
from herdspec.protocols.group_protocol.flaws import flaw_of_form
from herdspec.protocols.group_protocol.values import GroupWrite
from herdspec.protocols.group_protocol.variants.choice.properties import (
    CHOICE_HELD,
    nobody_is_refused_for_what_it_was,
    nobody_is_refused_who_fits,
)
from herdspec.protocols.group_protocol.variants.choice.spec import (
    Assignor,
    ChoosingGroup,
    Member,
    Partition,
)

# ── A world in which one is seen, and the mistakes ──────────────────────────────────────────


@action(kind=command)
def support_everything(self: ChoosingGroup, m: Member, wanted: set[Partition]) -> None:
    """{m} subscribes to {wanted}, and supports all assignors."""
    self.begin_life(m)
    for p in Partition:
        self.interest[m, p] = p in wanted
    for a in Assignor:
        self.supports[m, a] = True


@action(fair=weak)
def choose_the_leaders(self: ChoosingGroup, leader: Member, protocol: Assignor) -> None:
    """The next generation is stored; {leader} leads it, and supports {protocol}."""
    self.stores(GroupWrite.GENERATION)
    require(self.has_members())
    require(self.leader == leader or self.leader is None or not self.joined[self.leader])
    require(self.joined[leader] and self.listed_by[leader, protocol])
    self.begin_generation()
    self.leader = leader
    self.protocol = protocol


def whoever_comes(self: ChoosingGroup, m: Member) -> bool:
    """Nobody is refused."""
    return True


def whatever_it_lists(self: ChoosingGroup, m: Member) -> bool:
    """Who asks again is told its generation once more, whatever it lists by now."""
    return self.belongs_already(m)


def forget_the_protocol(self: ChoosingGroup) -> None:
    """The protocol was in memory alone, and so was what JoinGroups have listed."""
    self.protocol = None
    for m in Member:
        for a in Assignor:
            self.listed_by[m, a] = False


CALM = (
    "lose", "expire", "session_time_out", "poll_time_out", "close", "kill", "appear", "consume",
)  # fmt: skip
"""Actions that the flaws' stories do without."""

_flaw = partial(
    flaw_of_form, form="choice", spec=CHOICE_HELD, faults=0, other_sizes={"Assignor": 2},
    without=CALM,
)  # fmt: skip

CHOICE_FLAWS = {
    "leaders_protocol": _flaw(
        {
            "the_protocol_is_one_that_all_support": Failure(19, "answer_joins"),
            "nobody_uses_what_it_does_not_support": Failure(19, "answer_joins"),
        },
        "leaders_protocol",
        store_generation=choose_the_leaders,
    ),
    "nothing_in_common": _flaw(
        {
            "members_have_a_protocol_in_common": Failure(16, "handle_join_group"),
            "settles": Failure(17, "complete_join"),
        },
        "nothing_in_common",
        fits=whoever_comes,
    ),
    "other_protocols_unnoticed": _flaw(
        {
            "the_protocol_is_one_that_all_support": Failure(28, "handle_join_group"),
            "nobody_uses_what_it_does_not_support": Failure(28, "handle_join_group"),
            "other_protocols_begin_a_rebalance": Failure(17, "handle_join_group"),
        },
        "other_protocols_unnoticed",
        faults=1,
        subscribe=support_everything,
        answers_at_once=whatever_it_lists,
    ),
    "protocol_unstored": _flaw(
        {
            "members_have_a_protocol_in_common": Failure(13, "load_group"),
            "the_protocol_is_one_that_all_support": Failure(13, "load_group"),
            "who_is_in_a_generation_uses_its_protocol": Failure(13, "doubt"),
        },
        "protocol_unstored",
        faults=1,
        members=1,
        note_unloaded=forget_the_protocol,
    ),
    "only_the_chosen_is_stored": _flaw(
        {"nobody_is_refused_who_fits": Failure(17, "handle_join_group")},
        "only_the_chosen_is_stored",
        spec=CHOICE_HELD.with_properties(nobody_is_refused_who_fits).drop(
            "Kept", "change_protocols"
        ),
        faults=1,
    ),
    "held_to_what_it_was": _flaw(
        {"nobody_is_refused_for_what_it_was": Failure(19, "handle_join_group")},
        "held_to_what_it_was",
        spec=CHOICE_HELD.with_properties(nobody_is_refused_for_what_it_was),
        faults=1,
        members=1,
    ),
}
"""Flaws that a choice among protocols takes care of; the last two are Kafka's own."""
