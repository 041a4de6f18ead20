"""
Properties of single steps of the group protocol, and of nothing else: they notice mistakes.

The promises say what members are owed. These say how the protocol goes about it: who reads what,
what is answered, when a rebalance begins, what a coordinator finds. They are explored, not proved,
and use none of the protocol's own helpers where a mistake in one would hide itself.
"""

from __future__ import annotations

from herdspec import always, step
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group_protocol.properties import GROUP_PROTOCOL, HELD
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

# ── Clients ─────────────────────────────────────────────────────────────────────────────────


@always
def a_client_is_of_a_piece(s: GroupProtocol) -> bool:
    """What a client knows, has and awaits goes with how far it is."""
    return all(
        (s.client[m] == MemberState.REBALANCING) == (s.awaits[m] != Awaited.NOTHING)
        and (s.awaits[m] != Awaited.NOTHING or (not s.up[m] and s.down[m] == GroupAnswer.NONE))
        and (s.said[m] > 0) == (s.down[m] in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER))
        and (s.client[m] not in (MemberState.OFF, MemberState.UNJOINED) or not s.leads[m])
        and (
            s.client[m] != MemberState.OFF
            or (not s.knows[m] and not s.has_id[m] and not s.rejoin[m] and s.at[m] == 0)
        )
        for m in Member
    )


@step
def a_client_goes_from_state_to_state(before: GroupProtocol, after: GroupProtocol) -> bool:
    """Who begins is nobody's past; who joins knows where; who has not polled in time leaves."""
    return all(
        (
            before.client[m] != MemberState.OFF
            or after.client[m] == MemberState.OFF
            or (
                before.entry[m] == Entry.NONE
                and not before.belongs[m]
                and not before.leaving[m]
                and all(after.owner[p] != m for p in Partition)
            )
        )
        and (
            before.client[m] == MemberState.OFF
            or all(before.interest[m, p] == after.interest[m, p] for p in Partition)
        )
        and (
            before.awaits[m] != Awaited.NOTHING
            or after.awaits[m] != Awaited.JOIN
            or (
                before.knows[m]
                and not after.rejoin[m]
                and (before.client[m] == MemberState.UNJOINED or before.rejoin[m])
            )
        )
        and (
            before.client[m] != MemberState.STABLE
            or after.client[m] != MemberState.UNJOINED
            or (
                not after.has_id[m]
                and after.at[m] == 0
                and (after.leaving[m] or not before.knows[m] or not before.has_id[m])
            )
        )
        and (before.knows[m] or not after.knows[m] or before.coordinator is not None)
        and (before.leaving[m] or not after.leaving[m] or (before.knows[m] and before.has_id[m]))
        for m in Member
    )


@step
def who_joins_again_has_a_reason(before: GroupProtocol, after: GroupProtocol) -> bool:
    """A heartbeat is answered by who knows, or a leader sees what it has not shared out."""
    return all(
        (
            before.rejoin[m]
            or not after.rejoin[m]
            or (
                before.leads[m]
                and before.awaits[m] != Awaited.JOIN
                and any(before.exists[p] and not before.listed[p] for p in Partition)
                and before.has_id[m] == after.has_id[m]
            )
            or (
                before.client[m] == MemberState.STABLE
                and before.knows[m]
                and before.coordinator is not None
                and before.write == GroupWrite.NONE
                and (
                    not after.has_id[m]
                    if before.entry[m] != Entry.MEMBER
                    else before.at[m] != before.generation
                    or before.state == GroupState.PREPARING_REBALANCE
                )
            )
        )
        and (
            not (before.rejoin[m] and before.has_id[m] and not after.has_id[m])
            or after.client[m] != MemberState.STABLE
        )
        for m in Member
    )


@step
def who_consumes_goes_on(before: GroupProtocol, after: GroupProtocol) -> bool:
    """Record by record, and only of what a client has and began at the coordinator's word."""
    return all(
        (
            before.position[m, p] == after.position[m, p]
            or before.given[m, p]
            or before.client[m] == MemberState.OFF
        )
        and (
            not (before.ready[m] and before.given[m, p])
            or before.position[m, p] <= after.position[m, p] <= before.position[m, p] + 1
        )
        and (
            before.ready[m]
            or not after.ready[m]
            or (
                before.knows[m]
                and before.commit_at[m] == 0
                and (
                    not before.given[m, p]
                    or before.noted[p] == 0
                    or before.noted[p] == before.committed[p]
                )
            )
        )
        for m in Member
        for p in Partition
    ) and all(
        before.finished[p] == after.finished[p]
        or any(before.ready[m] and before.given[m, p] for m in Member)
        for p in Partition
    )


# ── Requests and answers ────────────────────────────────────────────────────────────────────


@step
def each_request_is_read_once(before: GroupProtocol, after: GroupProtocol) -> bool:
    """What is read was under way, after all that was sent before it; it is answered, or waits."""
    return all(
        (
            not (after.joined[m] and not before.joined[m])
            or (before.up[m] and before.awaits[m] == Awaited.JOIN)
        )
        and (
            not (after.synced[m] and not before.synced[m])
            or (before.up[m] and before.awaits[m] == Awaited.SYNC)
        )
        and (
            not (before.up[m] and not after.up[m])
            or after.awaits[m] == Awaited.NOTHING
            or after.coordinator is None
            or before.coordinator != after.coordinator
            or (
                before.commit_at[m] == 0
                and not before.leaving[m]
                and (after.down[m] != GroupAnswer.NONE or after.joined[m] or after.synced[m])
            )
        )
        for m in Member
    )


@step
def each_answer_is_due(before: GroupProtocol, after: GroupProtocol) -> bool:
    """Who waited is answered when it waits no more, once, and by a coordinator that is there."""
    return all(
        (
            after.down[m] in (GroupAnswer.NONE, before.down[m])
            or (
                before.down[m] == GroupAnswer.NONE
                and before.coordinator is not None
                and (before.up[m] or before.joined[m] or before.synced[m])
                and (
                    after.down[m] != GroupAnswer.MEMBER_ID_REQUIRED or before.entry[m] == Entry.NONE
                )
                and (
                    after.down[m] != GroupAnswer.UNKNOWN_MEMBER_ID
                    or before.entry[m] != Entry.MEMBER
                )
                and (
                    after.down[m] not in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
                    or (
                        after.said[m] == after.generation
                        and (after.down[m] == GroupAnswer.LEADER) == (after.leader == m)
                    )
                )
            )
        )
        and (
            not (before.joined[m] and not after.joined[m])
            or before.coordinator != after.coordinator
            or before.leaving[m]
            or before.up[m]
            or before.awaits[m] != Awaited.JOIN
            or after.down[m] in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
        )
        and (
            not (before.synced[m] and not after.synced[m])
            or before.coordinator != after.coordinator
            or before.leaving[m]
            or before.up[m]
            or before.awaits[m] != Awaited.SYNC
            or after.down[m] in (GroupAnswer.ASSIGNMENT, GroupAnswer.REBALANCE_IN_PROGRESS)
        )
        and (
            before.has_id[m]
            or not after.has_id[m]
            or (
                before.down[m] == GroupAnswer.MEMBER_ID_REQUIRED
                and after.down[m] == GroupAnswer.NONE
            )
        )
        and (
            not (before.leaving[m] and not after.leaving[m])
            or after.entry[m] == Entry.NONE
            or before.coordinator != after.coordinator
        )
        for m in Member
    )


@step
def a_commit_is_taken_from_the_owner(before: GroupProtocol, after: GroupProtocol) -> bool:
    """An offset is taken of whom the stored assignment names; a commit says something."""
    return all(
        after.noted[p] in (0, before.noted[p])
        or any(
            before.owner[p] == m
            and before.commit_at[m] == before.generation
            and before.assigned == before.generation
            and after.noted[p] == before.committing[m, p]
            for m in Member
        )
        for p in Partition
    ) and all(
        before.commit_at[m] > 0
        or after.commit_at[m] == 0
        or any(after.committing[m, p] > 0 for p in Partition)
        for m in Member
    )


# ── The coordinator ─────────────────────────────────────────────────────────────────────────


@step
def a_rebalance_has_a_reason(before: GroupProtocol, after: GroupProtocol) -> bool:
    """It begins when somebody comes or goes, or the leader asks; who asks again is answered."""
    return (
        before.state == GroupState.PREPARING_REBALANCE
        or after.state != GroupState.PREPARING_REBALANCE
        or any(comes_goes_or_asks(before, after, m) for m in Member)
    )


def comes_goes_or_asks(before: GroupProtocol, after: GroupProtocol, m: Member) -> bool:
    """The member comes or goes; or it leads, and asks for a rebalance."""
    return (
        (before.entry[m] == Entry.MEMBER and after.entry[m] != Entry.MEMBER)
        or (before.entry[m] == Entry.PENDING and before.leaving[m] and not after.leaving[m])
        or (
            after.joined[m]
            and (
                before.entry[m] != Entry.MEMBER
                or before.state == GroupState.EMPTY
                or (before.state == GroupState.STABLE and before.leader == m)
            )
        )
    )


@step
def who_leaves_begins_a_rebalance(before: GroupProtocol, after: GroupProtocol) -> bool:
    """Be it a member or about to be one, as Kafka does; a group that nobody is left in is empty."""
    return all(
        not before.leaving[m]
        or after.leaving[m]
        or before.entry[m] == Entry.NONE
        or before.coordinator != after.coordinator
        or after.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
        for m in Member
    )


@step
def what_is_loaded_is_what_is_stored(before: GroupProtocol, after: GroupProtocol) -> bool:
    """Who takes the group up finds its stored members, and nothing of what was under way."""
    return before.coordinator == after.coordinator or (
        all(
            (after.entry[m] == Entry.MEMBER) == (after.coordinator is not None and after.belongs[m])
            and not (after.knows[m] or after.up[m] or after.leaving[m] or after.joined[m])
            and after.commit_at[m] == 0
            for m in Member
        )
        and all(after.noted[p] == 0 and after.sent[p] == 0 for p in Partition)
        and (
            after.coordinator is None
            or after.state
            == (
                GroupState.EMPTY
                if all(not after.belongs[m] for m in Member)
                else (
                    GroupState.STABLE
                    if after.assigned == after.generation
                    else GroupState.COMPLETING_REBALANCE
                )
            )
        )
    )


@step
def a_write_goes_its_way(before: GroupProtocol, after: GroupProtocol) -> bool:
    """It is sent, stored once, and heard of; until then nothing else is decided."""
    return (
        (before.write == after.write or GroupWrite.NONE in (before.write, after.write))
        and (
            before.generation == after.generation
            or (
                after.generation == before.generation + 1
                and not before.done
                and after.done
                and (
                    after.leader == before.leader
                    or before.leader is None
                    or all(before.leader != m or not before.joined[m] for m in Member)
                )
                and (after.leader is None) == all(not after.belongs[m] for m in Member)
            )
        )
        and (before.assigned == after.assigned or (not before.done and after.done))
        and (
            before.write == GroupWrite.NONE
            or before.coordinator != after.coordinator
            or all(before.commit_at[m] == 0 or after.commit_at[m] > 0 for m in Member)
        )
        and (
            before.write != GroupWrite.GENERATION
            or after.write != GroupWrite.NONE
            or before.coordinator != after.coordinator
            or after.state
            == (
                GroupState.COMPLETING_REBALANCE
                if any(after.entry[m] == Entry.MEMBER for m in Member)
                else GroupState.EMPTY
            )
        )
        and all(
            (after.sent[p] == 0 or (after.write == GroupWrite.OFFSETS and not after.done))
            and (
                before.write == after.write
                or after.write != GroupWrite.ASSIGNMENT
                or after.listed[p] == after.exists[p]
            )
            for p in Partition
        )
    )


@step
def what_is_shared_out_is_wanted(before: GroupProtocol, after: GroupProtocol) -> bool:
    """Of the partitions that the leader knows, those have an owner that a member wants."""
    return before.assigned == after.assigned or all(
        (after.owner[p] is None)
        != (after.listed[p] and any(after.belongs[m] and after.interest[m, p] for m in Member))
        for p in Partition
    )


@step
def one_is_elected_where_nobody_is(before: GroupProtocol, after: GroupProtocol) -> bool:
    """An epoch begins when nobody has the seat, and its winner has it."""
    return before.election.epoch == after.election.epoch or (
        before.seat is None and any(after.seat == b and after.election.elected == b for b in Broker)
    )


WATCHED = (
    a_client_is_of_a_piece, a_client_goes_from_state_to_state, who_joins_again_has_a_reason,
    who_consumes_goes_on, each_request_is_read_once, each_answer_is_due,
    a_commit_is_taken_from_the_owner, a_rebalance_has_a_reason, who_leaves_begins_a_rebalance,
    what_is_loaded_is_what_is_stored, a_write_goes_its_way, what_is_shared_out_is_wanted,
    one_is_elected_where_nobody_is,
)  # fmt: skip
"""Properties that are watched beside the promises and their lemmas."""
WATCHED_HELD = HELD.with_properties(*WATCHED)
"""The verified protocol, its promises, and all that is watched."""
WATCHED_GROUP = GROUP_PROTOCOL.with_properties(*WATCHED)
"""The verified protocol, all that is known of it, and all that is watched: mistakes show in it."""
