"""
Cooperative rebalancing, as traces are replayed in it: beside `replayed.py`, what clients keep.

A client's lines say what it keeps while it joins, and what it is assigned. Of one generation they
need no clock: whoever was told of that generation has kept, from its JoinGroup to its assignment,
what it has said. Members that coordinators' lines name say nothing of what they keep, so that
nothing is withheld from them here: leaders plan as they like, and what a plan leaves out is
nobody's. Groups in which some members are eager are replayed here, too: these give up all that they
have before they join.
"""

from __future__ import annotations

from herdspec import action, require
from herdspec.language.specification import Specification
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.replays.replayed import SHOWN, in_replays
from herdspec.protocols.group_protocol.values import Awaited, GroupAnswer, MemberState
from herdspec.protocols.group_protocol.variants.cooperative.properties import COOPERATIVE_HELD
from herdspec.protocols.group_protocol.variants.cooperative.spec import CooperativeGroup


@action
def give_all_up(self: CooperativeGroup, m: Member) -> None:
    """{m} has no partition any more: it is eager, and about to join, or others may have them."""
    self.revoke(m)
    for p in Partition:
        self.claims[m, p] = False


@action
def be_counted_with(self: CooperativeGroup, m: Member) -> None:
    """The generation that {m} is told of is the first that it could be told of with what it has."""
    require(
        self.said[m] != self.at[m] or all(self.claims[m, p] == self.given[m, p] for p in Partition)
    )
    require(
        all(
            not (self.given[m, p] and self.given[o, p] and not self.claims[o, p])
            or self.at[o] != self.said[m]
            or o == m
            for o in Member
            for p in Partition
        )
    )
    self.note_joined(m)


@action
def be_offered(self: CooperativeGroup, m: Member, which: set[Partition]) -> None:
    """{m} is answered that {which} are its, none of which another one has in its generation."""
    require(self.awaits[m] == Awaited.SYNC)
    require(
        all(
            p not in which or o == m or self.at[o] != self.at[m] or not self.claims[o, p]
            for o in Member
            for p in Partition
        )
    )
    self.up[m] = False
    self.down[m] = GroupAnswer.ASSIGNMENT
    for p in Partition:
        self.offered[m, p] = p in which


@action
def commit_what_it_gave_up(self: CooperativeGroup, m: Member, which: set[Partition]) -> None:
    """{m} sends OffsetCommit of {which}, which its last assignment has taken from it."""
    require(self.client[m] == MemberState.STABLE and self.knows[m])
    require(self.commit_at[m] == 0 and not self.up[m])
    require(all(p not in which or (self.claims[m, p] and not self.given[m, p]) for p in Partition))
    self.commit_at[m] = self.at[m]
    for p in Partition:
        self.committing[m, p] = self.position[m, p] if p in which else 0


def cooperative_in_replays() -> Specification:
    """Cooperative rebalancing, whose clients may be anybody's."""
    further = (give_all_up, be_counted_with, be_offered, commit_what_it_gave_up)
    return in_replays(COOPERATIVE_HELD, SHOWN, **{each.__name__: each for each in further})
