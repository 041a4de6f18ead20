"""
Groups that somebody administers: DeleteGroups, OffsetDelete, and commits from outside of a group.

Whoever is no member commits with generation -1 (a tool that resets offsets, a consumer in `assign`
mode): that is taken only in an Empty group. A group is deleted only if it is Empty, else the answer
is NON_EMPTY_GROUP; all that is stored of it goes, by one write that the election's epoch fences,
and nobody who takes over later finds anything: the next generation is the first one. Offsets of a
partition are deleted unless a member of the stored generation is subscribed to it. Each waits until
all offsets that were taken before are stored.

What it does to the contract's sentences, in writing: offsets go back, and generations begin anew,
where and when somebody outside wants it, so that these sentences are said anew
(`properties.py`); and whatever a commit from outside skips counts as finished.

Source: apache/kafka, `GroupCoordinatorShard` (deleteGroups, deleteOffsets),
`ClassicGroup.validateOffsetCommit`.

Assumed: as in the group protocol.
Not modelled: as in the group protocol, but for these. Whether anybody who is no member may do so is
a matter of authorisation; the retention of offsets, which deletes them by the clock.
"""

from __future__ import annotations

from typing import Annotated

from herdspec import Nat, UpTo, action, command, each, require, weak
from herdspec.protocols.group import Member as Member
from herdspec.protocols.group import Partition as Partition
from herdspec.protocols.group_protocol.spec import GroupProtocol
from herdspec.protocols.group_protocol.values import (
    Awaited,
    Entry,
    GroupAnswer,
    GroupState,
    GroupWrite,
    MemberState,
)

FURTHEST = 2
"""The largest offset that is committed from outside."""


class AdministeredGroup(GroupProtocol):
    """A coordinator and its clients, and somebody who administers the group."""

    # What the coordinator keeps in memory.
    going: dict[Partition, bool] = each(False)  # offsets on their way to be deleted

    # For the properties only; no guard reads it.
    lives: Nat = 0  # how many times the group was deleted
    said_in: dict[Member, Nat] = each(0)  # the group's life in which an answer was given
    told_in: dict[Member, Nat] = each(0)  # the group's life that a client's generation is of

    # ── Who administers ─────────────────────────────────────────────────────────────────────

    @action(kind=command, disturbs=True)
    def commit_from_outside(self, p: Partition, offset: Annotated[Nat, UpTo(FURTHEST)]) -> None:
        """Somebody who is no member commits {offset} of {p}, and the group is Empty."""
        self.attends()
        require(offset > 0)
        require(self.takes_from_outside())
        self.noted[p] = offset
        self.finished[p] = max(self.finished[p], offset)

    @action(kind=command, disturbs=True)
    def delete_offsets(self, p: Partition) -> None:
        """The offset of {p}, to which no member is subscribed, is to be deleted."""
        self.attends()
        require(self.committed[p] > 0 and all(not self.is_new(q) for q in Partition))
        require(not self.is_subscribed(p))
        self.write = GroupWrite.DELETED_OFFSETS
        self.going[p] = True
        self.noted[p] = 0

    @action(fair=weak)
    def store_deleted_offsets(self) -> None:
        """The offsets are stored no more."""
        self.stores(GroupWrite.DELETED_OFFSETS)
        for p in Partition:
            if self.going[p]:
                self.committed[p] = 0
            self.going[p] = False

    @action(fair=weak)
    def answer_deleted_offsets(self) -> None:
        """The coordinator hears that the offsets are deleted, and answers."""
        self.hears_of(GroupWrite.DELETED_OFFSETS)

    @action(kind=command, disturbs=True)
    def delete_group(self) -> None:
        """The group, of which something is stored, is to be deleted, and is Empty."""
        self.attends()
        require(self.generation > 0 or any(self.committed[p] > 0 for p in Partition))
        require(self.may_be_deleted() and all(not self.is_new(p) for p in Partition))
        self.write = GroupWrite.DELETED_GROUP
        for p in Partition:
            self.noted[p] = 0

    @action(fair=weak)
    def store_deleted_group(self) -> None:
        """Nothing is stored of the group any more."""
        self.stores(GroupWrite.DELETED_GROUP)
        self.bury()
        for p in Partition:
            self.committed[p] = 0

    @action(fair=weak)
    def answer_deleted_group(self) -> None:
        """The coordinator hears that the group is deleted; whoever was about to join is unknown."""
        self.hears_of(GroupWrite.DELETED_GROUP)
        self.state = GroupState.EMPTY
        for m in Member:
            self.entry[m] = Entry.NONE

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def takes_from_outside(self) -> bool:
        """A commit of no member is taken in a group that has none."""
        return self.state == GroupState.EMPTY

    def may_be_deleted(self) -> bool:
        """A group is deleted that has no members."""
        return self.state == GroupState.EMPTY

    def is_subscribed(self, p: Partition) -> bool:
        """A member of the stored generation is interested in the partition."""
        return any(self.belongs[m] and self.interest[m, p] for m in Member)

    def bury(self) -> None:
        """Neither members nor a generation are stored, and nobody leads or owns anything."""
        self.lives = self.lives + 1
        self.generation = 0
        self.assigned = 0
        self.leader = None
        for m in Member:
            self.belongs[m] = False
        for p in Partition:
            self.owner[p] = None
            self.listed[p] = False

    def answer_join(self, m: Member) -> None:
        """The answer to a JoinGroup: the present generation, and who leads it."""
        self.down[m] = GroupAnswer.LEADER if self.leader == m else GroupAnswer.FOLLOWER
        self.said[m] = self.generation
        self.said_in[m] = self.lives

    def begin_sync(self, m: Member, leading: bool) -> None:
        """A client is told its generation, and sends SyncGroup."""
        self.at[m] = self.said[m]
        self.told_in[m] = self.said_in[m]
        self.said[m] = 0
        self.said_in[m] = 0
        self.leads[m] = leading
        self.ask(m, Awaited.SYNC)

    def end_future(self, m: Member) -> None:
        """The joinFuture fails: whatever was to be answered is not, or is not heard."""
        self.client[m] = MemberState.UNJOINED
        self.awaits[m] = Awaited.NOTHING
        self.up[m] = False
        self.down[m] = GroupAnswer.NONE
        self.said[m] = 0
        self.said_in[m] = 0
        self.leads[m] = False

    def forget_id(self, m: Member) -> None:
        """The client has neither member id nor generation."""
        self.has_id[m] = False
        self.at[m] = 0
        self.told_in[m] = 0

    def note_unloaded(self) -> None:
        """Nothing of the group is in memory."""
        for p in Partition:
            self.going[p] = False
