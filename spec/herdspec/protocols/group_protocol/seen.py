"""
The group, with what the contract remembers of it, and the lemmas by which its steps are seen.

The contract remembers whom a client follows, and since when a handover is under way. The lemmas say
how that goes with the protocol's own state; no guard reads it, and no promise speaks of it.
"""

from __future__ import annotations

from herdspec import each, lemma
from herdspec.language.surface import Nat
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group_protocol.spec import (
    Awaited,
    GroupAnswer,
    GroupProtocol,
    GroupWrite,
    Member,
    MemberState,
    Partition,
)


class SeenGroup(GroupProtocol):
    """The group, with what the contract remembers of it; no guard reads that."""

    told: dict[Member, Nat] = each(0)  # the epoch of whoever has read its last JoinGroup
    heeded: dict[Member, Nat] = each(0)  # that epoch, once the client has begun to consume
    handovers: Nat = 0  # how many assignments were stored
    handing: bool = True  # the members of the next one are being gathered
    heard: bool = False  # the coordinator has heard of partitions since it has loaded the group

    def note_unloaded(self) -> None:
        """Nothing of the group is in memory."""
        self.handing = True
        self.heard = False

    def note_joined(self, m: Member) -> None:
        """A member's JoinGroup was read."""
        assert self.coordinator is not None
        self.told[m] = self.election.token[self.coordinator]

    def note_all_joined(self) -> None:
        """All have joined, and the next generation is to be stored."""
        self.handing = True

    def note_partitions(self) -> None:
        """The leader's SyncGroup was read."""
        self.heard = True

    def note_handed_over(self) -> None:
        """An assignment was stored."""
        self.handing = False
        self.handovers = self.handovers + 1

    def note_begun(self, m: Member) -> None:
        """A client begins to consume."""
        self.heeded[m] = self.told[m]

    def note_stopped(self, m: Member) -> None:
        """A client consumes nothing any more."""
        self.told[m] = 0


# ── Lemmas ──────────────────────────────────────────────────────────────────────────────────


@lemma
def the_seat_is_the_winners(s: SeenGroup) -> bool:
    """Who has the seat has won the present epoch, and nobody else has won any."""
    return all(
        (s.seat == b) == (s.election.won[b] > 0)
        and s.election.won[b] in (0, s.election.epoch)
        and (not s.election.leads[b] or s.election.won[b] in (0, s.election.token[b]))
        for b in Broker
    )


@lemma
def who_is_followed_was_read(s: SeenGroup) -> bool:
    """Whoever goes on with a join follows who has read it, and nobody follows an older epoch."""
    return all(
        s.told[m] <= s.election.epoch
        and s.heeded[m] <= s.election.epoch
        and (s.told[m] == 0 or s.heeded[m] <= s.told[m])
        and all(
            s.coordinator != b
            or (s.told[m] <= s.election.token[b] and s.heeded[m] <= s.election.token[b])
            for b in Broker
        )
        and (
            s.told[m] > 0
            or (
                s.down[m] not in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
                and s.awaits[m] != Awaited.SYNC
                and s.client[m] != MemberState.STABLE
                and not (s.joined[m] and s.awaits[m] == Awaited.JOIN and not s.up[m])
            )
        )
        for m in Member
    )


@lemma
def a_handover_is_under_way(s: SeenGroup) -> bool:
    """It goes on until the assignment is stored; who has joined for it has said how far it is."""
    return (
        (s.write != GroupWrite.GENERATION or s.handing)
        and (s.assigned >= s.generation or s.handing)
        and (s.write != GroupWrite.ASSIGNMENT or s.heard)
        and all(not s.listed[p] or s.exists[p] for p in Partition)
        and all(not s.joined[m] or s.commit_at[m] == 0 for m in Member)
    )


@lemma
def who_is_current_has_all_of_it(s: SeenGroup) -> bool:
    """Who was told the stored assignment, or is about to be, has just what it owns by that."""
    return all(
        not (s.client[m] == MemberState.STABLE or s.down[m] == GroupAnswer.ASSIGNMENT)
        or s.at[m] != s.assigned
        or s.given[m, p] == (s.owner[p] == m)
        for m in Member
        for p in Partition
    )


@lemma
def what_is_sent_is_new(s: SeenGroup) -> bool:
    """Some offset is sent when offsets are; until the next owners are stored there is none."""
    return (s.write != GroupWrite.OFFSETS or s.done or any(s.sent[p] > 0 for p in Partition)) and (
        s.coordinator is None
        or s.assigned >= s.generation
        or all(s.noted[p] in (0, s.committed[p]) for p in Partition)
    )


@lemma
def what_is_given_is_of_this_generation(s: SeenGroup) -> bool:
    """Whoever has a partition, or is about to be told, was told the present generation."""
    return all(
        (not s.given[m, p] or (s.at[m] == s.generation and s.assigned == s.generation))
        and (
            not s.synced[m]
            or (
                (s.awaits[m] != Awaited.SYNC or s.at[m] == s.generation)
                and (
                    s.down[m] not in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
                    or s.said[m] == s.generation
                )
            )
        )
        for m in Member
        for p in Partition
    )


SEEN_LEMMAS = (
    the_seat_is_the_winners, who_is_followed_was_read, a_handover_is_under_way,
    who_is_current_has_all_of_it, what_is_sent_is_new,
)  # fmt: skip
"""Lemmas of the refinement, with the assumption `evicted_has_stopped` and without it."""
SEEN_LEMMAS_OF_STOPPING = (what_is_given_is_of_this_generation,)
"""Further lemmas of the refinement, with the assumption `evicted_has_stopped`."""
