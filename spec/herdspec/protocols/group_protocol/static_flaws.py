"""
What goes wrong with static members: each is static membership with one mistake.

Two are Kafka's own, of older versions or still; what must come of each is declared, as in
`flaws.py`.

Source: apache/kafka, KIP-345, KIP-814; `GroupMetadataManager.updateStaticMemberThenRebalance…`.
"""

from __future__ import annotations

from collections.abc import Callable

from herdspec import require
from herdspec.protocols.flaws import Failure, Flaw
from herdspec.protocols.group_protocol.static import Member, Partition, StaticGroup
from herdspec.protocols.group_protocol.static_properties import STATIC_HELD
from herdspec.protocols.group_protocol.properties import settles
from herdspec.protocols.group_protocol.values import Entry, GroupAnswer

# ── The mistakes, one function each ─────────────────────────────────────────────────────────


def nobody_is_fenced(self: StaticGroup, m: Member) -> bool:
    """The instance id alone says who it is: any life of a member counts as the member."""
    return False


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
    """What a next life has subscribed to, nobody looks at."""
    return True


# ── What comes of them ──────────────────────────────────────────────────────────────────────


def _flaw(
    failures: dict[str, Failure], name: str, *, faults: int = 1, **functions: Callable[..., object]
) -> Flaw:
    spec = STATIC_HELD.with_properties(settles).replace(
        "".join(word.title() for word in name.split("_")), **functions
    )
    sizes = {"Broker": 1, "Member": 2, "Instance": 1, "Partition": 1}
    return Flaw(spec, frozenset({name}), failures, faults, sizes, bound=8)


STATIC_FLAWS = {
    "former_life_commits": _flaw(
        {"exclusive_fenced": Failure(1, "handle_offset_commit")},
        "former_life_commits",
        faults=2,
        is_fenced=nobody_is_fenced,
        handle_offset_commit=commit_of_any_life,
        accepts_offset=owns_by_instance,
    ),
    "leader_comes_back_as_follower": _flaw(
        {"settles": Failure(1, "x")},
        "leader_comes_back_as_follower",
        faults=2,
        answer_join=follow_in_any_case,
    ),
    "subscription_changed_unnoticed": _flaw(
        {"complete_once_it_is_stored": Failure(1, "x")},
        "subscription_changed_unnoticed",
        wants_the_same=never_mind,
    ),
}
"""What static membership takes care of; the last two are Kafka's own."""
