"""
The properties of the group protocol: the contract's sentences, each under its name.

`exclusive` and what follows from it hold under the assumption `evicted_has_stopped` alone, which
`GROUP_PROTOCOL` makes; all the others hold without it, too (`without_stopping`).
"""

from __future__ import annotations

from functools import cache

from herdspec import Specification, always, leads_to, recoverable, sometimes, specification, step
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group_protocol.lemmas import LEMMAS as LEMMAS
from herdspec.protocols.group_protocol.lemmas import LEMMAS_OF_STOPPING as LEMMAS_OF_STOPPING
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

# ── The contract ────────────────────────────────────────────────────────────────────────────


@always
def exclusive(s: GroupProtocol) -> bool:
    """At no time do two members consume the same partition."""
    return all(
        not (s.consumes(a, p) and s.consumes(b, p))
        for p in Partition
        for a in Member
        for b in Member
        if a != b
    )


@always
def who_consumes_owns(s: GroupProtocol) -> bool:
    """Who consumes a partition is its owner by the stored assignment."""
    return all(not s.consumes(m, p) or s.owner[p] == m for m in Member for p in Partition)


@step
def exclusive_fenced(before: GroupProtocol, after: GroupProtocol) -> bool:
    """An offset is taken only from the partition's owner in the present generation, as it said."""
    return all(
        after.noted[p] in (0, before.noted[p])
        or any(before.owns(m, p) and after.noted[p] == before.committing[m, p] for m in Member)
        for p in Partition
    )


@always
def only_the_present_epoch_writes(s: GroupProtocol) -> bool:
    """A write is accepted only from the coordinator of the current epoch."""
    return not s.election.stale_write_accepted


@step
def what_is_stored_is_of_the_present_epoch(before: GroupProtocol, after: GroupProtocol) -> bool:
    """Generation, owners and offsets change only by who has taken up the current epoch."""
    return (
        before.generation == after.generation
        and before.assigned == after.assigned
        and all(
            (after.owner[p] == before.owner[p] or after.owner[p] is None)
            and before.committed[p] == after.committed[p]
            for p in Partition
        )
    ) or any(
        before.coordinator == b and before.election.token[b] == before.election.epoch
        for b in Broker
    )


@step
def what_was_taken_is_stored_at_the_handover(before: GroupProtocol, after: GroupProtocol) -> bool:
    """What the old generation's owners were heard to say is stored before the next begins."""
    return after.generation == before.generation or all(not before.is_new(p) for p in Partition)


@always
def one_coordinator(s: GroupProtocol) -> bool:
    """At most one broker coordinates in any epoch."""
    return all(
        not (
            s.election.leads[a]
            and s.election.leads[b]
            and s.election.token[a] == s.election.token[b]
        )
        for a in Broker
        for b in Broker
        if a != b
    )


@always
def one_leader(s: GroupProtocol) -> bool:
    """No two members are told to lead the same generation."""
    return all(
        not (s.leads[a] and s.leads[b]) or s.at[a] != s.at[b]
        for a in Member
        for b in Member
        if a != b
    )


@always
def what_is_handed_out_is_stored(s: GroupProtocol) -> bool:
    """No generation is told to anybody that is not stored: none is handed out again."""
    return all(s.at[m] <= s.generation and s.said[m] <= s.generation for m in Member)


@step
def generations_never_go_back(before: GroupProtocol, after: GroupProtocol) -> bool:
    """No generation is followed by an older one, nor is what a client is told of it."""
    return before.generation <= after.generation and all(
        before.at[m] <= after.at[m] or after.at[m] == 0 for m in Member
    )


@step
def epochs_never_go_back(before: GroupProtocol, after: GroupProtocol) -> bool:
    """No epoch is followed by an older one."""
    return before.election.epoch <= after.election.epoch


@step
def committed_offsets_never_go_back(before: GroupProtocol, after: GroupProtocol) -> bool:
    """No committed offset is followed by a smaller one."""
    return all(before.committed[p] <= after.committed[p] for p in Partition)


@always
def only_finished_is_committed(s: GroupProtocol) -> bool:
    """Nothing is committed of a record before which one is unfinished."""
    return all(s.committed[p] <= s.finished[p] for p in Partition)


@always
def nobody_is_past_the_unfinished(s: GroupProtocol) -> bool:
    """Nobody is at a record before which one is unfinished."""
    return all(s.position[m, p] <= s.finished[p] for m in Member for p in Partition)


@step
def a_start_is_at_the_stored_offset(before: GroupProtocol, after: GroupProtocol) -> bool:
    """Who begins to consume a partition begins where its offset is stored."""
    return all(
        before.consumes(m, p)
        or not after.consumes(m, p)
        or after.position[m, p] == before.committed[p]
        for m in Member
        for p in Partition
    )


@always
def complete(s: GroupProtocol) -> bool:
    """Once the group is Stable, each partition that a member wants is a member's that wants it."""
    return s.state != GroupState.STABLE or all(
        not (s.is_member(m) and s.interest[m, p] and s.listed[p]) or is_owned(s, p)
        for m in Member
        for p in Partition
    )


def is_owned(s: GroupProtocol, p: Partition) -> bool:
    """The partition's owner is a member that is interested in it."""
    owner = s.owner[p]
    return owner is not None and s.is_member(owner) and s.interest[owner, p]


@step
def nobody_is_expelled_who_waits(before: GroupProtocol, after: GroupProtocol) -> bool:
    """No session timer expels a member whose JoinGroup or SyncGroup waits for others."""
    return all(
        not (before.joined[m] or before.synced[m])
        or before.entry[m] == after.entry[m]
        or before.coordinator != after.coordinator
        or before.leaving[m]
        for m in Member
    )


@step
def no_ghosts(before: GroupProtocol, after: GroupProtocol) -> bool:
    """Who has joined a generation knows its member id, or is about to be told; or it was killed."""
    return all(
        not before.joined[m]
        or after.state != GroupState.COMPLETING_REBALANCE
        or after.has_id[m]
        or after.client[m] == MemberState.OFF
        or after.down[m] in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
        for m in Member
    )


def wanted(s: GroupProtocol, p: Partition) -> bool:
    """A client is interested in a partition that there is."""
    return s.exists[p] and any(s.client[m] != MemberState.OFF and s.interest[m, p] for m in Member)


def settled(s: GroupProtocol) -> bool:
    """Who has subscribed is a member and consumes, nobody else is, and nothing is left to do."""
    return (
        s.coordinator is not None
        and s.seat == s.coordinator
        and s.state in (GroupState.EMPTY, GroupState.STABLE)
        and all(
            (s.client[m] == MemberState.OFF and s.entry[m] == Entry.NONE)
            or (s.ready[m] and not s.rejoin[m] and s.is_member(m) and s.at[m] == s.generation)
            for m in Member
        )
        and all(
            not wanted(s, p) or (s.listed[p] and any(s.consumes(m, p) for m in Member))
            for p in Partition
        )
    )


@leads_to
def settles(s: GroupProtocol) -> tuple[bool, bool]:
    """Without further faults the group becomes stable, in the end, and each partition consumed."""
    return True, settled(s)


@recoverable
def it_can_settle(s: GroupProtocol) -> bool:
    """Without further faults the group can become stable, with each partition consumed."""
    return settled(s)


# ── What must be possible: every noun is met ────────────────────────────────────────────────


@sometimes
def a_partition_is_consumed(s: GroupProtocol) -> bool:
    """A member has finished with a record, and the offset is stored."""
    return any(
        s.consumes(m, p) and s.position[m, p] > 0 and s.committed[p] == s.position[m, p]
        for m in Member
        for p in Partition
    )


@sometimes
def two_members_are_stable(s: GroupProtocol) -> bool:
    """Two members are in a generation that is assigned."""
    return s.state == GroupState.STABLE and any(
        s.ready[a] and s.ready[b] and s.at[a] == s.generation and s.at[b] == s.generation
        for a in Member
        for b in Member
        if a != b
    )


@sometimes
def a_second_owner_follows_the_first(s: GroupProtocol) -> bool:
    """A partition is consumed by its second owner, from an offset that the first one stored."""
    return any(
        s.consumes(a, p) and s.committed[p] > 0 and s.position[b, p] > 0 and not s.given[b, p]
        for p in Partition
        for a in Member
        for b in Member
        if a != b
    )


@sometimes
def a_commit_is_of_an_older_generation(s: GroupProtocol) -> bool:
    """An OffsetCommit is under way whose generation is over."""
    return any(0 < s.commit_at[m] < s.generation for m in Member)


@sometimes
def a_generation_outlives_its_coordinator(s: GroupProtocol) -> bool:
    """A coordinator has loaded a generation of which no assignment is stored."""
    return (
        s.state == GroupState.COMPLETING_REBALANCE
        and any(s.coordinator == b and s.election.epoch > 1 for b in Broker)
        and all(not s.synced[m] and not s.leads[m] for m in Member)
    )


@sometimes
def a_member_is_counted_that_is_no_more(s: GroupProtocol) -> bool:
    """A client was killed, and its coordinator counts it as a member."""
    return any(s.client[m] == MemberState.OFF and s.is_member(m) for m in Member)


@sometimes
def a_join_waits_whose_client_has_given_up(s: GroupProtocol) -> bool:
    """A JoinGroup waits for the others', and nobody waits for its answer."""
    return any(s.joined[m] and s.awaits[m] == Awaited.NOTHING for m in Member)


@sometimes
def a_member_id_is_nobodys(s: GroupProtocol) -> bool:
    """A member id was handed out, and the answer was lost."""
    return any(
        s.entry[m] == Entry.PENDING
        and not s.has_id[m]
        and s.down[m] != GroupAnswer.MEMBER_ID_REQUIRED
        for m in Member
    )


@sometimes
def a_write_is_too_late(s: GroupProtocol) -> bool:
    """A deposed coordinator has something to be stored."""
    return s.write != GroupWrite.NONE and any(
        s.coordinator == b and s.election.token[b] != s.election.epoch for b in Broker
    )


OF_STOPPING = (exclusive, who_consumes_owns)
"""Properties that hold under the assumption `evicted_has_stopped` alone."""
PROMISES = (
    exclusive, who_consumes_owns, exclusive_fenced, only_the_present_epoch_writes,
    what_is_stored_is_of_the_present_epoch, what_was_taken_is_stored_at_the_handover,
    one_coordinator, one_leader, what_is_handed_out_is_stored, generations_never_go_back,
    epochs_never_go_back, committed_offsets_never_go_back, only_finished_is_committed,
    nobody_is_past_the_unfinished, a_start_is_at_the_stored_offset, complete,
    nobody_is_expelled_who_waits, no_ghosts,
)  # fmt: skip
"""Properties that are proved."""
POSSIBLE = (
    a_partition_is_consumed, two_members_are_stable, a_second_owner_follows_the_first,
    a_generation_outlives_its_coordinator,
    a_member_is_counted_that_is_no_more, a_join_waits_whose_client_has_given_up,
    a_member_id_is_nobodys, a_write_is_too_late,
)  # fmt: skip

HELD = specification(GroupProtocol, *PROMISES, settles)
"""The verified protocol and its promises, without the lemmas."""
NOTICING = specification(GroupProtocol, *PROMISES, settles, it_can_settle, *POSSIBLE)
"""All that it promises, and what must be possible."""
LATER = HELD.with_properties(a_commit_is_of_an_older_generation)
"""Spec of a property for which a second fault must be possible."""
KEPT = HELD.with_properties(*LEMMAS, *LEMMAS_OF_STOPPING)
"""The verified protocol, and what holds of it at any size."""
GROUP_PROTOCOL = NOTICING.with_properties(*LEMMAS, *LEMMAS_OF_STOPPING)
"""The verified protocol, and all that is known of it."""


# ── Without the assumption ──────────────────────────────────────────────────────────────────


def gone_at_once(self: GroupProtocol, m: Member) -> bool:
    """Whom the coordinator counts no more may consume on."""
    return True


@cache
def without_stopping() -> Specification:
    """The spec of what is proved without the assumption `evicted_has_stopped`."""
    promises = [p for p in PROMISES if p not in OF_STOPPING]
    return specification(GroupProtocol, *promises, *LEMMAS).replace(
        "WithoutStopping", has_stopped=gone_at_once
    )
