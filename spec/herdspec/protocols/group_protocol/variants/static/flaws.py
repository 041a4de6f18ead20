"""
Flaws of static members: each is static membership with one mistake.

Two are Kafka's own, of older versions or still; what must come of each is declared, as in the
protocol's `flaws.py`.

Source: apache/kafka, KIP-345, KIP-814; `GroupMetadataManager.updateStaticMemberThenRebalance…`.
"""

from __future__ import annotations

from functools import partial

from herdspec import initial, require
from herdspec.protocols.flaws import Failure
from herdspec.protocols.group_protocol.flaws import flaw_of_form
from herdspec.protocols.group_protocol.values import GroupAnswer
from herdspec.protocols.group_protocol.variants.static.properties import (
    STATIC_HELD,
    static_without_stopping,
)
from herdspec.protocols.group_protocol.variants.static.spec import (
    Instance,
    Member,
    Partition,
    StaticGroup,
)

# ── A world in which each is seen, and the mistakes  ──────────────────────────────────────────


@initial
def lives_of_one(self: StaticGroup, there: set[Partition], one: Instance) -> None:
    """All clients are lives of one static member; some partitions are there from the beginning."""
    for m in Member:
        self.instance[m] = one
    for p in Partition:
        self.exists[p] = p in there


def commit_of_any_life(self: StaticGroup, m: Member) -> None:
    """The coordinator reads the OffsetCommit of {m}, and looks at its instance id alone."""
    self.attends()
    require(self.commit_at[m] > 0)
    if any(o == m or self.are_lives(o, m) for o in Member if self.is_member(o)):
        for p in Partition:
            if self.committing[m, p] > 0 and self.accepts_offset(m, p):
                self.noted[p] = self.committing[m, p]
    self.drop_commit(m)


def owns_by_instance(self: StaticGroup, m: Member, p: Partition) -> bool:
    """An offset is taken from any life of the partition's owner, in the present generation."""
    return (
        (self.owner[p] == m or self.is_former(self.owner[p], m))
        and self.commit_at[m] == self.generation
        and self.assigned == self.generation
    )


def follow_in_any_case(self: StaticGroup, m: Member) -> None:
    """A leader that comes back in a Stable group is told that another one leads."""
    self.down[m] = (
        GroupAnswer.LEADER
        if self.leader == m and self.assigned != self.generation
        else GroupAnswer.FOLLOWER
    )
    self.said[m] = self.generation


def never_mind(self: StaticGroup, m: Member) -> bool:
    """True of any subscription: nobody looks at what a next life has subscribed to."""
    return True


# ── What comes of them ──────────────────────────────────────────────────────────────────────


CALM = (
    "start_twice", "lose", "expire", "session_time_out", "poll_time_out", "close",
    "complete_join_late",
)  # fmt: skip
"""Actions that the flaws' stories do without."""

_flaw = partial(
    flaw_of_form, form="static", faults=2, other_sizes={"Instance": 1}, some_topics=lives_of_one
)

STATIC_FLAWS = {
    "former_life_commits": _flaw(
        {"exclusive_fenced": Failure(25, "handle_offset_commit")},
        "former_life_commits",
        spec=STATIC_HELD,
        without=(*CALM, "appear"),
        handle_offset_commit=commit_of_any_life,
        accepts_offset=owns_by_instance,
    ),
    "leader_comes_back_as_follower": _flaw(
        {"settles": Failure(26, "heartbeat")},
        "leader_comes_back_as_follower",
        spec=static_without_stopping(),
        without=(*CALM, "consume"),
        answer_join=follow_in_any_case,
    ),
    "subscription_changed_unnoticed": _flaw(
        {
            "complete_once_it_is_stored": Failure(20, "answer_replacement"),
            "settles": Failure(25, "heartbeat"),
        },
        "subscription_changed_unnoticed",
        spec=static_without_stopping(),
        without=(*CALM, "consume", "appear"),
        faults=1,
        wants_the_same=never_mind,
    ),
}
"""Flaws that static membership takes care of; the last two are Kafka's own."""
