"""
Flaws of subscriptions that change: each is that form with one mistake, as found in real clients.

What must come of each is declared, as in the protocol's `flaws.py`.

Source: apache/kafka, `AbstractCoordinator.rejoinNeeded` (003 resets it once a join has succeeded),
`GroupMetadataManager.classicGroupJoin`, `SubscriptionState`.
"""

from __future__ import annotations

from functools import partial

from herdspec import action, command, require, weak
from herdspec.protocols.flaws import Failure
from herdspec.protocols.group_protocol.flaws import flaw_of_form
from herdspec.protocols.group_protocol.values import Awaited, GroupAnswer, MemberState
from herdspec.protocols.group_protocol.variants.subscriptions.properties import SUBSCRIPTIONS_HELD
from herdspec.protocols.group_protocol.variants.subscriptions.spec import (
    Member,
    Partition,
    ResubscribingGroup,
)


@action(fair=weak)
def forget_what_came_meanwhile(self: ResubscribingGroup, m: Member) -> None:
    """{m} is STABLE, and believes that its JoinGroup has said all that it wants."""
    self.takes(m, GroupAnswer.ASSIGNMENT)
    self.client[m] = MemberState.STABLE
    self.awaits[m] = Awaited.NOTHING
    self.rejoin[m] = False


def whatever_it_says(self: ResubscribingGroup, m: Member) -> bool:
    """Who asks again is told its generation once more, whatever it subscribes to by now."""
    return self.belongs_already(m)


def keep_what_was_said_first(self: ResubscribingGroup, m: Member) -> None:
    """A member subscribes for ever to what it has said when it came."""
    if not self.belongs[m]:
        for p in Partition:
            self.says[m, p] = self.asked_for[m, p]


@action(kind=command, disturbs=True)
def read_on(self: ResubscribingGroup, m: Member, p: Partition) -> None:
    """The application of {m} finishes with its next record of {p}, which it has."""
    require(self.consumes(m, p))
    self.position[m, p] = self.position[m, p] + 1
    self.finished[p] = max(self.finished[p], self.position[m, p])


CALM = ("lose", "expire", "session_time_out", "poll_time_out", "close", "kill", "appear")
"""Actions that the flaws' stories do without."""

_flaw = partial(
    flaw_of_form, form="subscriptions", spec=SUBSCRIPTIONS_HELD, faults=1, members=1, without=CALM
)

SUBSCRIPTION_FLAWS = {
    "change_lost_in_join": _flaw(
        {
            "who_wants_something_else_joins_again": Failure(18, "on_join_complete"),
            "settles_with_all_subscriptions": Failure(20, "heartbeat"),
        },
        "change_lost_in_join",
        on_join_complete=forget_what_came_meanwhile,
    ),
    "other_subscription_unnoticed": _flaw(
        {
            "a_generation_counts_what_was_asked_for": Failure(29, "handle_join_group"),
            "another_subscription_begins_a_rebalance": Failure(29, "handle_join_group"),
            "settles_with_all_subscriptions": Failure(37, "heartbeat"),
        },
        "other_subscription_unnoticed",
        members=2,
        answers_at_once=whatever_it_says,
    ),
    "first_subscription_kept": _flaw(
        {
            "a_generation_counts_what_was_asked_for": Failure(23, "answer_joins"),
            "settles_with_all_subscriptions": Failure(30, "heartbeat"),
        },
        "first_subscription_kept",
        note_joined=keep_what_was_said_first,
    ),
    "reads_on_unsubscribed": _flaw(
        {"only_what_is_wanted_is_read": Failure(20, "consume")},
        "reads_on_unsubscribed",
        faults=2,
        consume=read_on,
    ),
}
"""Flaws that the protocol takes care of where subscriptions change."""
