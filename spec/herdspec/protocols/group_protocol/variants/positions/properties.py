"""The properties of fetch positions: the group protocol's, and where everybody begins."""

from __future__ import annotations

from herdspec import always, leads_to, lemma, recoverable, sometimes, specification, step
from herdspec.protocols.group_protocol.lemmas import (
    LEMMAS,
    LEMMAS_OF_STOPPING,
    offsets_are_of_finished_records,
    owners_are_ahead,
    what_is_said_is_ahead,
    what_is_taken_is_ahead,
)
from herdspec.protocols.group_protocol.properties import (
    PROMISES,
    nobody_is_past_the_unfinished,
    wanted,
)
from herdspec.protocols.group_protocol.seen import what_is_given_is_of_this_generation
from herdspec.protocols.group_protocol.values import (
    Awaited,
    Entry,
    GroupState,
    MemberState,
)
from herdspec.protocols.group_protocol.variants.positions.spec import (
    Member,
    OffsetFetch,
    OffsetReset,
    Partition,
    PositionedGroup,
)


@always
def nothing_is_skipped(s: PositionedGroup) -> bool:
    """Nobody is past a record that the group has begun with, that is there, and is unfinished."""
    return all(
        not s.consumes(m, p) or s.position[m, p] <= s.finished[p] for m in Member for p in Partition
    )


@step
def a_position_is_of_the_present_assignment(
    before: PositionedGroup, after: PositionedGroup
) -> bool:
    """Who begins has asked for its offsets in the generation that it is in."""
    return all(
        before.ready[m] or not after.ready[m] or before.fetches_at[m] == after.at[m] for m in Member
    )


@step
def only_what_is_not_stored_is_reset(before: PositionedGroup, after: PositionedGroup) -> bool:
    """A reset finds a start only where nothing is stored, or where the position is out of range."""
    return all(
        after.position[m, p] == before.position[m, p]
        or not before.ready[m]
        or not after.ready[m]
        or after.position[m, p] == before.position[m, p] + 1
        or before.committed[p] == 0
        or 0 < before.position[m, p] < before.log_start[p]
        for m in Member
        for p in Partition
    )


@always
def a_start_is_stored_before_it_is_handed_out(s: PositionedGroup) -> bool:
    """Nobody consumes a partition of which no offset is stored, whoever has found its start."""
    return all(not s.consumes(m, p) or s.committed[p] > 0 for m in Member for p in Partition)


@step
def none_invents_no_offset(before: PositionedGroup, after: PositionedGroup) -> bool:
    """Under NONE a position is what is stored, or is what the application has gone on to."""
    return before.reset != OffsetReset.NONE or all(
        after.position[m, p] in (0, before.position[m, p], before.committed[p])
        or (
            before.consumes(m, p)
            and before.log_start[p] <= before.position[m, p] < before.log_end[p]
            and after.position[m, p] == before.position[m, p] + 1
        )
        for m in Member
        for p in Partition
    )


@step
def earliest_loses_only_what_is_gone(before: PositionedGroup, after: PositionedGroup) -> bool:
    """Under EARLIEST what is counted as done is finished, or is no longer there."""
    return before.reset != OffsetReset.EARLIEST or all(
        after.finished[p] == before.finished[p]
        or after.finished[p] <= before.log_start[p]
        or any(
            before.consumes(m, p) and after.finished[p] == before.position[m, p] + 1 for m in Member
        )
        for p in Partition
    )


@always
def positions_go_with_their_assignment(s: PositionedGroup) -> bool:
    """Who is not STABLE is at no offset, has found no start, and its user was told of none."""
    return all(
        s.client[m] == MemberState.STABLE
        or (not s.has_failed[m] and s.position[m, p] == 0 and not s.unstored[m, p])
        for m in Member
        for p in Partition
    )


@step
def what_is_finished_is_committed_before_it_is_given_up(
    before: PositionedGroup, after: PositionedGroup
) -> bool:
    """Who joins again has said how far it is; and no OffsetCommit takes the place of another."""
    return all(
        (
            before.commit_at[m] == 0
            or after.commit_at[m] == 0
            or before.committing[m, p] == after.committing[m, p]
        )
        and (
            not before.consumes(m, p)
            or before.position[m, p] == before.committed[p]
            or after.client[m] != MemberState.REBALANCING
            or after.committing[m, p] == before.position[m, p]
        )
        for m in Member
        for p in Partition
    )


@step
def users_are_told_of_what_is_missing(before: PositionedGroup, after: PositionedGroup) -> bool:
    """Users are told under NONE alone: of what is not stored, or of what is out of range."""
    return all(
        before.has_failed[m]
        or not after.has_failed[m]
        or (
            before.reset == OffsetReset.NONE
            and any(
                before.given[m, p]
                and (before.committed[p] == 0 or before.position[m, p] < before.log_start[p])
                and (before.committed[p] == 0 or before.ready[m])
                for p in Partition
            )
        )
        for m in Member
    )


def has_begun(s: PositionedGroup, m: Member) -> bool:
    """The client consumes, or its user was told why it does not."""
    return s.ready[m] or s.has_failed[m]


def placed(s: PositionedGroup, p: Partition) -> bool:
    """Somebody consumes the partition, or its user was told why it does not."""
    return any(s.consumes(m, p) or (s.given[m, p] and s.has_failed[m]) for m in Member)


def settled(s: PositionedGroup) -> bool:
    """The group is settled, and each client knows where to begin, or its user that it does not."""
    return (
        s.coordinator is not None
        and s.seat == s.coordinator
        and s.state in (GroupState.EMPTY, GroupState.STABLE)
        and all(
            (s.client[m] == MemberState.OFF and s.entry[m] == Entry.NONE)
            or (has_begun(s, m) and not s.rejoin[m] and s.is_member(m) and s.at[m] == s.generation)
            for m in Member
        )
        and all(not wanted(s, p) or (s.listed[p] and placed(s, p)) for p in Partition)
    )


@leads_to
def settles(s: PositionedGroup) -> tuple[bool, bool]:
    """Without further faults each partition is consumed in the end, or a user told why not."""
    return True, settled(s)


@recoverable
def it_can_settle(s: PositionedGroup) -> bool:
    """Without further faults each partition can come to be consumed, or a user be told."""
    return settled(s)


# ── What must be possible ───────────────────────────────────────────────────────────────────


@sometimes
def offsets_come_too_late(s: PositionedGroup) -> bool:
    """Offsets are under way to a client that is in a later generation by now."""
    return any(
        s.fetch[m] == OffsetFetch.TOLD
        and s.fetches_at[m] == 0
        and s.client[m] == MemberState.STABLE
        for m in Member
    )


@sometimes
def a_start_waits_to_be_stored(s: PositionedGroup) -> bool:
    """A reset has found a start that is not the log's first record, and nothing is stored."""
    return any(
        s.unstored[m, p] and s.committed[p] == 0 and s.position[m, p] > s.log_start[p]
        for m in Member
        for p in Partition
    )


@sometimes
def what_is_stored_is_out_of_range(s: PositionedGroup) -> bool:
    """Retention has removed the record that a client goes on from."""
    return any(
        s.ready[m] and 0 < s.committed[p] == s.position[m, p] < s.log_start[p]
        for m in Member
        for p in Partition
    )


@sometimes
def a_user_is_told_that_nothing_is_stored(s: PositionedGroup) -> bool:
    """NONE: nothing is stored, and the user is told so."""
    return any(s.has_failed[m] and not s.ready[m] for m in Member)


# ── Lemmas ──────────────────────────────────────────────────────────────────────────────────


@lemma
def the_group_has_begun_where_an_offset_is_stored(s: PositionedGroup) -> bool:
    """The group has begun with just what an offset is stored of; no log ends before it begins."""
    return all(
        (s.finished[p] == 0) == (s.committed[p] == 0) and 1 <= s.log_start[p] <= s.log_end[p]
        for p in Partition
    )


@lemma
def what_is_heeded_is_stored(s: PositionedGroup) -> bool:
    """Offsets that a client waits for are of its assignment, and those that it is told stored."""
    return all(
        s.fetches_at[m] == 0
        or (
            s.client[m] == MemberState.STABLE
            and not s.ready[m]
            and s.fetches_at[m] == s.at[m]
            and s.fetch[m] != OffsetFetch.NONE
            and (
                s.fetch[m] != OffsetFetch.TOLD
                or not s.given[m, p]
                or (s.told[m, p] == s.committed[p] and not s.is_new(p))
            )
        )
        for m in Member
        for p in Partition
    )


@lemma
def who_has_not_begun_commits_nothing(s: PositionedGroup) -> bool:
    """Who has its assignment, or waits for it, and has not begun has no OffsetCommit under way."""
    return all(
        (not s.given[m, p] or s.ready[m] or s.commit_at[m] == 0)
        and (not s.synced[m] or not s.is_awaited(m, Awaited.SYNC) or s.commit_at[m] == 0)
        for m in Member
        for p in Partition
    )


@lemma
def who_begins_is_not_behind(s: PositionedGroup) -> bool:
    """Whoever is at an offset is not before what is stored or taken; a start is as it is sent."""
    return all(
        not (s.ready[m] and s.given[m, p])
        or (
            s.noted[p] <= s.position[m, p]
            and s.committed[p] <= s.position[m, p]
            and (s.commit_at[m] != s.at[m] or s.committing[m, p] <= s.position[m, p])
            and (s.finished[p] == 0 or s.position[m, p] <= s.finished[p])
            and (s.position[m, p] == 0 or s.unstored[m, p] or s.finished[p] > 0)
            and (
                s.finished[p] > 0
                or (
                    s.noted[p] in (0, s.position[m, p])
                    and (s.commit_at[m] != s.at[m] or s.committing[m, p] in (0, s.position[m, p]))
                )
            )
        )
        for m in Member
        for p in Partition
    )


@lemma
def offsets_are_finished_or_begun_with(s: PositionedGroup) -> bool:
    """Whatever is taken, or will be, is finished, or is where the group is about to begin."""
    return all(
        s.finished[p] == 0
        or (
            s.noted[p] <= s.finished[p]
            and s.sent[p] <= s.finished[p]
            and all(not s.owns(m, p) or s.committing[m, p] <= s.finished[p] for m in Member)
        )
        for p in Partition
    )


@lemma
def owners_are_not_behind(s: PositionedGroup) -> bool:
    """What an owner says is not before what was taken of it; where nothing is done, it is that."""
    return all(what_is_taken_is_ahead(s, p) for p in Partition) and all(
        what_is_said_is_ahead(s, m, p)
        and (
            not s.owns(m, p)
            or s.finished[p] > 0
            or s.committing[m, p] == 0
            or s.noted[p] in (0, s.committing[m, p])
        )
        for m in Member
        for p in Partition
    )


@lemma
def earliest_starts_are_at_the_beginning(s: PositionedGroup) -> bool:
    """Under EARLIEST no start is after the first record that there is."""
    return s.reset != OffsetReset.EARLIEST or all(
        s.finished[p] > 0
        or (
            s.noted[p] <= s.log_start[p]
            and s.sent[p] <= s.log_start[p]
            and all(
                s.committing[m, p] <= s.log_start[p]
                and (not (s.ready[m] and s.given[m, p]) or s.position[m, p] <= s.log_start[p])
                for m in Member
            )
        )
        for p in Partition
    )


NOT_OF_POSITIONS = (offsets_are_of_finished_records, owners_are_ahead)
"""Lemmas of the group protocol that speak of positions, which begin otherwise here."""
POSITIONS_LEMMAS = (
    *(each for each in (*LEMMAS, *LEMMAS_OF_STOPPING) if each not in NOT_OF_POSITIONS),
    what_is_given_is_of_this_generation, the_group_has_begun_where_an_offset_is_stored,
    what_is_heeded_is_stored, who_has_not_begun_commits_nothing, who_begins_is_not_behind,
    offsets_are_finished_or_begun_with, owners_are_not_behind,
    earliest_starts_are_at_the_beginning,
)  # fmt: skip
"""Lemmas with which the promises of fetch positions are inductive."""
ANEW = (nothing_is_skipped,)
"""Properties in the place of what the group protocol says of all positions, kept ones, too."""
SAID_OF_ALL = (nobody_is_past_the_unfinished,)
"""Properties whose place those of `ANEW` take."""
OF_POSITIONS = (
    a_position_is_of_the_present_assignment, only_what_is_not_stored_is_reset,
    a_start_is_stored_before_it_is_handed_out, none_invents_no_offset,
    earliest_loses_only_what_is_gone, positions_go_with_their_assignment,
    what_is_finished_is_committed_before_it_is_given_up, users_are_told_of_what_is_missing,
)  # fmt: skip
POSITIONS_PROMISES = (*(p for p in PROMISES if p not in SAID_OF_ALL), *ANEW, *OF_POSITIONS)
"""Promises of fetch positions, under the assumption `evicted_has_stopped`."""
POSITIONS_HELD = specification(PositionedGroup, *POSITIONS_PROMISES).drop("Positions", "appear")
"""Fetch positions and their promises."""
POSITIONS = POSITIONS_HELD.with_properties(
    *POSITIONS_LEMMAS, settles, it_can_settle, offsets_come_too_late, a_start_waits_to_be_stored,
    what_is_stored_is_out_of_range, a_user_is_told_that_nothing_is_stored,
)  # fmt: skip
"""Fetch positions, and all that is known of them."""
