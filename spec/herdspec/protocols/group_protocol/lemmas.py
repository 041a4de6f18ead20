"""
Lemmas of the group protocol: with these its properties are inductive.

Each is needed, and is proved with the promises, for any number of members, partitions and brokers.
"""

from __future__ import annotations

from herdspec import lemma
from herdspec.protocols.election.contract import epochs_are_won_by_one as won_by_one
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group_protocol.spec import (
    Awaited,
    Entry,
    GroupAnswer,
    GroupProtocol,
    GroupState,
    GroupWrite,
    Member,
    MemberState,
    Partition,
)


@lemma
def epochs_are_won_by_one(s: GroupProtocol) -> bool:
    """No epoch was won by two, and the present one is its winner's (the election's lemma)."""
    return won_by_one(s.election)  # type: ignore[no-any-return]


@lemma
def memory_is_a_coordinators(s: GroupProtocol) -> bool:
    """Who has loaded the group believes that it leads; where nobody has, nothing is in memory."""
    return (
        all(s.coordinator != b or s.election.leads[b] for b in Broker)
        and (s.coordinator is None) == (s.state == GroupState.DEAD)
        and (
            s.coordinator is not None
            or (s.write == GroupWrite.NONE and all(s.entry[m] == Entry.NONE for m in Member))
        )
    )


@lemma
def each_answer_is_awaited(s: GroupProtocol) -> bool:
    """What is under way to a client answers what it awaits, which was read."""
    return all(
        (s.down[m] == GroupAnswer.NONE or not s.up[m])
        and (
            s.awaits[m] == Awaited.JOIN
            or s.down[m]
            not in (GroupAnswer.MEMBER_ID_REQUIRED, GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
        )
        and (s.awaits[m] == Awaited.SYNC or s.down[m] != GroupAnswer.ASSIGNMENT)
        and (s.awaits[m] == Awaited.NOTHING or s.client[m] == MemberState.REBALANCING)
        and (s.awaits[m] != Awaited.NOTHING or s.down[m] == GroupAnswer.NONE)
        and (not s.ready[m] or s.client[m] == MemberState.STABLE)
        and (
            not s.leaving[m]
            or (
                s.client[m] != MemberState.STABLE
                and s.down[m] == GroupAnswer.NONE
                and (s.awaits[m] == Awaited.NOTHING or (s.awaits[m] == Awaited.JOIN and s.up[m]))
            )
        )
        for m in Member
    )


@lemma
def generations_have_been(s: GroupProtocol) -> bool:
    """No generation lies ahead, and none that a client is about to be told is older than its."""
    return s.assigned <= s.generation and all(
        s.at[m] <= s.generation
        and s.said[m] <= s.generation
        and s.commit_at[m] <= s.generation
        and (
            s.down[m] not in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER) or 0 < s.said[m] >= s.at[m]
        )
        and (s.awaits[m] != Awaited.SYNC or s.at[m] > 0)
        and (s.client[m] != MemberState.STABLE or s.at[m] > 0)
        and (not s.belongs[m] or s.generation > 0)
        for m in Member
    )


@lemma
def each_generation_has_one_leader(s: GroupProtocol) -> bool:
    """Who leads the present generation, or is about to be told, is its leader; so it was."""
    return all(
        (not s.leads[m] or s.at[m] != s.generation or s.leader == m)
        and (s.down[m] != GroupAnswer.LEADER or s.said[m] != s.generation or s.leader == m)
        for m in Member
    ) and all(
        (s.down[a] != GroupAnswer.LEADER or not s.leads[b] or s.said[a] != s.at[b])
        and (
            s.down[a] != GroupAnswer.LEADER
            or s.down[b] != GroupAnswer.LEADER
            or s.said[a] != s.said[b]
        )
        for a in Member
        for b in Member
        if a != b
    )


@lemma
def each_state_has_its_members(s: GroupProtocol) -> bool:
    """Who waits is a member that does not consume, and the state says for what it waits."""
    return all(
        (not s.joined[m] or (s.is_member(m) and s.state == GroupState.PREPARING_REBALANCE))
        and (not s.synced[m] or (s.is_member(m) and s.state == GroupState.COMPLETING_REBALANCE))
        and (
            not (s.joined[m] or s.synced[m])
            or (s.client[m] != MemberState.STABLE and s.down[m] != GroupAnswer.ASSIGNMENT)
        )
        and (
            not s.joined[m]
            or (
                (s.has_id[m] or s.client[m] == MemberState.OFF)
                and s.down[m] != GroupAnswer.UNKNOWN_MEMBER_ID
            )
        )
        and (s.state != GroupState.EMPTY or not s.is_member(m))
        and (
            s.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
            or s.belongs[m] == s.is_member(m)
        )
        for m in Member
    )


@lemma
def each_state_has_its_write(s: GroupProtocol) -> bool:
    """What is being stored goes with the state, and the state with what is stored."""
    return (
        (s.write != GroupWrite.GENERATION or s.state == GroupState.PREPARING_REBALANCE)
        and (s.write != GroupWrite.ASSIGNMENT or s.state == GroupState.COMPLETING_REBALANCE)
        and (not s.done or s.write != GroupWrite.NONE)
        and (s.state != GroupState.STABLE or s.assigned == s.generation)
        and (
            s.state != GroupState.COMPLETING_REBALANCE
            or (s.assigned == s.generation) == (s.write == GroupWrite.ASSIGNMENT and s.done)
        )
    )


@lemma
def all_wait_while_the_generation_is_stored(s: GroupProtocol) -> bool:
    """Until the next generation is stored all wait for it, and all that was taken is stored."""
    return s.write != GroupWrite.GENERATION or (
        s.all_have_joined()
        and all(not s.is_new(p) for p in Partition)
        and (
            not s.done
            or (all(s.belongs[m] == s.is_member(m) for m in Member) and s.assigned < s.generation)
        )
    )


@lemma
def what_is_listed_is_owned(s: GroupProtocol) -> bool:
    """The stored assignment leaves out no partition that it knew and a member wants."""
    return s.assigned != s.generation or all(
        not (s.belongs[m] and s.interest[m, p] and s.listed[p]) or belongs_to_one(s, p)
        for m in Member
        for p in Partition
    )


def belongs_to_one(s: GroupProtocol, p: Partition) -> bool:
    """The partition's owner belongs to the generation, and is interested."""
    owner = s.owner[p]
    return owner is not None and s.belongs[owner] and s.interest[owner, p]


@lemma
def offsets_are_of_finished_records(s: GroupProtocol) -> bool:
    """Whatever offset is said, taken or sent, the records before it are finished."""
    return all(s.committing[m, p] <= s.finished[p] for m in Member for p in Partition) and all(
        s.noted[p] <= s.finished[p] and s.sent[p] <= s.finished[p] for p in Partition
    )


@lemma
def who_has_its_assignment_has_all_of_it(s: GroupProtocol) -> bool:
    """Who was told the present assignment, or is about to be, has just what it owns."""
    return all(
        (
            not (s.synced[m] and s.is_awaited(m, Awaited.SYNC) and s.down[m] == GroupAnswer.NONE)
            or s.at[m] == s.generation
        )
        and (
            not (s.client[m] == MemberState.STABLE or s.down[m] == GroupAnswer.ASSIGNMENT)
            or s.at[m] != s.generation
            or (
                s.assigned == s.generation
                and all(s.given[m, p] == (s.owner[p] == m) for p in Partition)
            )
        )
        for m in Member
    )


@lemma
def owners_are_ahead(s: GroupProtocol) -> bool:
    """What an owner says is not before what was taken of it, nor that before what is stored."""
    return all(what_is_taken_is_ahead(s, p) for p in Partition) and all(
        what_is_said_is_ahead(s, m, p)
        and (
            not (s.consumes(m, p) and s.at[m] == s.generation)
            or (
                s.noted[p] <= s.position[m, p]
                and s.committed[p] <= s.position[m, p]
                and (not s.owns(m, p) or s.committing[m, p] <= s.position[m, p])
            )
        )
        for m in Member
        for p in Partition
    )


def what_is_taken_is_ahead(s: GroupProtocol, p: Partition) -> bool:
    """No offset that was taken is before what is stored; it is what is sent to be stored."""
    return (s.noted[p] == 0 or s.committed[p] <= s.noted[p]) and (
        s.write != GroupWrite.OFFSETS or s.done or s.sent[p] in (0, s.noted[p])
    )


def what_is_said_is_ahead(s: GroupProtocol, m: Member, p: Partition) -> bool:
    """The OffsetCommit of an owner is not before what was taken, nor before what is stored."""
    return (
        (s.commit_at[m] > 0 or s.committing[m, p] == 0)
        and (s.commit_at[m] < s.generation or s.assigned == s.generation)
        and (
            not s.owns(m, p)
            or s.committing[m, p] == 0
            or (s.noted[p] <= s.committing[m, p] and s.committed[p] <= s.committing[m, p])
        )
    )


@lemma
def what_is_given_is_owned(s: GroupProtocol) -> bool:
    """Whatever a client has, or is about to be told, is its own, and it belongs to the group."""
    return all(
        not s.given[m, p]
        or (
            s.owner[p] == m
            and s.belongs[m]
            and s.assigned == s.generation
            and not s.joined[m]
            and (s.coordinator is None or s.is_member(m))
            and (s.client[m] == MemberState.STABLE or s.down[m] == GroupAnswer.ASSIGNMENT)
        )
        for m in Member
        for p in Partition
    )


LEMMAS = (
    epochs_are_won_by_one, memory_is_a_coordinators, each_answer_is_awaited,
    generations_have_been, each_generation_has_one_leader, each_state_has_its_members,
    each_state_has_its_write, all_wait_while_the_generation_is_stored, what_is_listed_is_owned,
    offsets_are_of_finished_records, who_has_its_assignment_has_all_of_it, owners_are_ahead,
)  # fmt: skip
"""Lemmas of the promises that hold without the assumption `evicted_has_stopped`."""
LEMMAS_OF_STOPPING = (what_is_given_is_owned,)
"""Further lemmas, of the promises that need the assumption `evicted_has_stopped`."""
