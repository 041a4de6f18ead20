"""
Coordinator that may be anybody's: it tells a client what the client's own lines say.

The reverse of `replayed.py`. A client's lines say what it was answered, so each answer is put to it
where it awaits one; whether a coordinator has told it so, its own lines say (`answers.py`). Here a
client is an element beside the members that coordinators' lines name: nothing that the spec's
coordinator does reaches it, but that its connections end.
"""

from __future__ import annotations

from herdspec import action, require
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.spec import Awaited, GroupAnswer, GroupProtocol, MemberState


@action
def find(self: GroupProtocol, m: Member) -> None:
    """{m} is told who coordinates; what it has sent before is under way no more."""
    self.knows[m] = True
    self.leaving[m] = False
    self.drop_commit(m)


@action
def be_given_an_id(self: GroupProtocol, m: Member) -> None:
    """{m} is answered that it must come with a member id, and with which."""
    require(self.awaits[m] == Awaited.JOIN and not self.has_id[m])
    self.up[m] = False
    self.down[m] = GroupAnswer.MEMBER_ID_REQUIRED


@action
def be_told_of_generation(self: GroupProtocol, m: Member, leading: bool) -> None:
    """{m} is answered that the first generation has begun, and whether it leads."""
    require(self.awaits[m] == Awaited.JOIN and self.has_id[m])
    self.up[m] = False
    self.down[m] = GroupAnswer.LEADER if leading else GroupAnswer.FOLLOWER
    self.said[m] = 1


@action
def be_told_of_the_next(self: GroupProtocol, m: Member) -> None:
    """It was the generation after that of which {m} is told."""
    require(self.said[m] > 0)
    self.said[m] = self.said[m] + 1


@action
def be_assigned(self: GroupProtocol, m: Member, which: set[Partition]) -> None:
    """{m} is answered that {which} are its."""
    require(self.awaits[m] == Awaited.SYNC)
    self.up[m] = False
    self.down[m] = GroupAnswer.ASSIGNMENT
    for p in Partition:
        self.given[m, p] = p in which


@action
def be_refused(self: GroupProtocol, m: Member, known: bool) -> None:
    """The JoinGroup or SyncGroup of {m} is refused, whose member id is known, or not."""
    require(self.awaits[m] != Awaited.NOTHING)
    self.up[m] = False
    self.down[m] = (
        GroupAnswer.REBALANCE_IN_PROGRESS if known else GroupAnswer.UNKNOWN_MEMBER_ID
    )  # fmt: skip


@action
def hear_it_is_over(self: GroupProtocol, m: Member, known: bool) -> None:
    """{m} is told that it has to join again, with its member id or without one."""
    require(self.client[m] == MemberState.STABLE)
    self.rejoin[m] = True
    self.has_id[m] = self.has_id[m] and known


@action
def be_told_where(self: GroupProtocol, m: Member) -> None:
    """{m} is told how far partitions are that it asks for, and begins: each at its beginning."""
    require(self.client[m] == MemberState.STABLE and not self.ready[m])
    self.ready[m] = True
    for p in Partition:
        if self.asks_for(m, p):
            self.position[m, p] = 0
    self.note_begun(m)


@action
def look_again(self: GroupProtocol, m: Member) -> None:
    """{m} sees that topics are otherwise than its assignment knew."""
    require(self.client[m] == MemberState.STABLE and not self.rejoin[m])
    self.rejoin[m] = True


@action
def commit_some(self: GroupProtocol, m: Member, which: set[Partition]) -> None:
    """{m} sends OffsetCommit of what its application has finished of {which}."""
    require(self.client[m] == MemberState.STABLE and self.knows[m])
    require(self.commit_at[m] == 0 and not self.up[m])
    require(all(self.consumes(m, p) or p not in which for p in Partition))
    self.commit_at[m] = self.at[m]
    for p in Partition:
        self.committing[m, p] = self.position[m, p] if p in which else 0


ANY_COORDINATOR = (
    find, be_given_an_id, be_told_of_generation, be_told_of_the_next, be_assigned, be_refused,
    hear_it_is_over, be_told_where, look_again, commit_some,
)  # fmt: skip
