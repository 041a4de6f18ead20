"""
Properties of single steps of the group protocol's forms: they notice mistakes (`watched.py`).

What is watched of the protocol is watched of each form, but for what is otherwise there; that is
said anew, and so are the steps that a form has of its own. They are explored, not proved.
"""

from __future__ import annotations

from herdspec import always, sometimes, step
from herdspec.protocols.group_protocol.properties import POSSIBLE
from herdspec.protocols.group_protocol.values import (
    Awaited,
    Entry,
    GroupState,
    GroupWrite,
    MemberState,
)
from herdspec.protocols.group_protocol.variants.administered.properties import ADMINISTERED
from herdspec.protocols.group_protocol.variants.administered.spec import AdministeredGroup
from herdspec.protocols.group_protocol.variants.choice.properties import CHOICE
from herdspec.protocols.group_protocol.variants.choice.spec import Assignor, ChoosingGroup
from herdspec.protocols.group_protocol.variants.positions.properties import POSITIONS
from herdspec.protocols.group_protocol.variants.positions.spec import (
    Member,
    OffsetFetch,
    OffsetReset,
    Partition,
    PositionedGroup,
)
from herdspec.protocols.group_protocol.watched import (
    WATCHED,
    a_client_goes_from_state_to_state,
    a_commit_is_taken_from_the_owner,
    a_rebalance_has_a_reason,
    a_write_goes_its_way,
    comes_goes_or_asks,
    who_consumes_goes_on,
)

# ── A choice among protocols ────────────────────────────────────────────────────────────────


@always
def who_is_nobody_lists_nothing(s: ChoosingGroup) -> bool:
    """A client that is no more supports nothing; nobody has listed anything who is no member."""
    return all(
        (s.client[m] != MemberState.OFF or not s.supports[m, a])
        and (s.coordinator is None or s.entry[m] == Entry.MEMBER or not s.listed_by[m, a])
        for m in Member
        for a in Assignor
    ) and (s.protocol is None) == all(not s.belongs[m] for m in Member)


@step
def who_changes_protocols_has_others(before: ChoosingGroup, after: ChoosingGroup) -> bool:
    """Who joins knows where; unasked it joins only with other protocols, and once with these."""
    return all(
        before.awaits[m] != Awaited.NOTHING
        or after.awaits[m] != Awaited.JOIN
        or (
            before.knows[m]
            and not after.rejoin[m]
            and (
                before.client[m] == MemberState.UNJOINED
                or before.rejoin[m]
                or any(before.supports[m, a] != after.supports[m, a] for a in Assignor)
            )
        )
        for m in Member
    )


@step
def other_protocols_are_a_reason(before: ChoosingGroup, after: ChoosingGroup) -> bool:
    """A rebalance begins when somebody comes or goes, lists something else, or leads and asks."""
    return (
        before.state == GroupState.PREPARING_REBALANCE
        or after.state != GroupState.PREPARING_REBALANCE
        or any(
            comes_goes_or_asks(before, after, m)
            or (
                after.joined[m]
                and any(before.listed_by[m, a] != after.listed_by[m, a] for a in Assignor)
            )
            for m in Member
        )
    )


CHOICE_WATCHED = CHOICE.with_properties(
    *(
        p
        for p in WATCHED
        if p not in (a_client_goes_from_state_to_state, a_rebalance_has_a_reason)
    ),
    *POSSIBLE, who_is_nobody_lists_nothing, who_changes_protocols_has_others,
    other_protocols_are_a_reason,
)  # fmt: skip
"""A choice among protocols, and all that is watched of it: mistakes show in it."""

# ── Administration ──────────────────────────────────────────────────────────────────────────


@step
def what_comes_from_outside_is_taken(before: AdministeredGroup, after: AdministeredGroup) -> bool:
    """What counts as finished was consumed, or is what somebody outside has committed just now."""
    return all(
        before.finished[p] == after.finished[p]
        or any(before.ready[m] and before.given[m, p] for m in Member)
        or (before.state == GroupState.EMPTY and after.noted[p] == after.finished[p])
        for p in Partition
    )


@step
def who_waits_for_a_write_hears_of_nothing(
    before: AdministeredGroup, after: AdministeredGroup
) -> bool:
    """While something is stored no offset is taken; none is forgotten but what is deleted."""
    return before.coordinator != after.coordinator or all(
        before.noted[p] == after.noted[p]
        or (
            before.write == GroupWrite.NONE
            and (after.noted[p] > 0 or after.going[p] or after.write == GroupWrite.DELETED_GROUP)
        )
        for p in Partition
    )


@step
def what_is_deleted_was_stored(before: AdministeredGroup, after: AdministeredGroup) -> bool:
    """Something is to be deleted that is stored, and once all is stored that was taken before."""
    return (
        before.write == after.write
        or after.write not in (GroupWrite.DELETED_OFFSETS, GroupWrite.DELETED_GROUP)
        or (
            all(before.noted[p] in (0, before.committed[p]) for p in Partition)
            and (before.generation > 0 or any(before.committed[p] > 0 for p in Partition))
        )
    )


@step
def of_a_deleted_group_nothing_is_known(
    before: AdministeredGroup, after: AdministeredGroup
) -> bool:
    """Whoever was about to join is unknown; nothing is assigned, listed, or led by anybody."""
    return (
        before.write != GroupWrite.DELETED_GROUP
        or after.write != GroupWrite.NONE
        or before.coordinator != after.coordinator
        or (after.state == GroupState.EMPTY and all(after.entry[m] == Entry.NONE for m in Member))
    ) and (
        before.lives == after.lives
        or (
            after.lives == before.lives + 1
            and after.assigned == 0
            and all(not after.listed[p] for p in Partition)
        )
    )


@step
def generations_go_on_or_begin_anew(before: AdministeredGroup, after: AdministeredGroup) -> bool:
    """A generation is followed by the next one, or by none as the group is deleted, once stored."""
    return before.generation == after.generation or (
        not before.done
        and after.done
        and (
            after.generation == before.generation + 1
            or (after.generation == 0 and before.write == GroupWrite.DELETED_GROUP)
        )
        and (after.leader is None) == all(not after.belongs[m] for m in Member)
    )


@always
def a_life_goes_with_its_generation(s: AdministeredGroup) -> bool:
    """Who was told no generation, or is about to be told none, was told none of any life."""
    return all(
        (s.at[m] > 0 or s.told_in[m] == 0) and (s.said[m] > 0 or s.said_in[m] == 0) for m in Member
    )


@sometimes
def a_group_is_deleted_that_had_no_generation(s: AdministeredGroup) -> bool:
    """A group is to be deleted of which one offset is stored, of one record, and nothing else."""
    return s.write == GroupWrite.DELETED_GROUP and any(
        s.generation == 0 and s.committed[p] == 1 for p in Partition
    )


@sometimes
def a_group_is_deleted_after_its_first_generation(s: AdministeredGroup) -> bool:
    """A group is to be deleted whose first generation was its last, and has no offset."""
    return (
        s.write == GroupWrite.DELETED_GROUP
        and s.generation == 1
        and all(s.committed[p] == 0 for p in Partition)
    )


@sometimes
def an_offset_is_deleted_beside_a_member(s: AdministeredGroup) -> bool:
    """An offset of one record is to be deleted, and a stored member wants something else."""
    return any(
        s.going[p] and s.committed[p] == 1 and s.belongs[m] and not s.interest[m, p]
        for m in Member
        for p in Partition
    )


ADMINISTERED_WATCHED = ADMINISTERED.with_properties(
    *(
        p
        for p in WATCHED
        if p not in (who_consumes_goes_on, a_commit_is_taken_from_the_owner, a_write_goes_its_way)
    ),
    *POSSIBLE, what_comes_from_outside_is_taken, who_waits_for_a_write_hears_of_nothing,
    what_is_deleted_was_stored, of_a_deleted_group_nothing_is_known,
    generations_go_on_or_begin_anew, a_life_goes_with_its_generation,
    a_group_is_deleted_that_had_no_generation, a_group_is_deleted_after_its_first_generation,
    an_offset_is_deleted_beside_a_member,
)  # fmt: skip
"""Groups that somebody administers, and all that is watched of them: mistakes show in it."""

# ── Fetch positions ─────────────────────────────────────────────────────────────────────────


@step
def an_offset_fetch_goes_its_way(before: PositionedGroup, after: PositionedGroup) -> bool:
    """Who has no positions asks where it knows; it is told what is stored, after what it has said.

    Whoever has not been answered by a coordinator that is no more is not answered.
    """
    return all(
        (
            before.fetch[m] == after.fetch[m]
            or after.fetch[m] == OffsetFetch.NONE
            or (
                after.fetch[m] == OffsetFetch.ASKED
                and before.fetch[m] == OffsetFetch.NONE
                and before.client[m] == MemberState.STABLE
                and not before.ready[m]
                and before.knows[m]
                and after.fetches_at[m] == before.at[m]
            )
            or (
                after.fetch[m] == OffsetFetch.TOLD
                and before.fetch[m] == OffsetFetch.ASKED
                and before.coordinator is not None
                and before.commit_at[m] == 0
                and all(
                    not before.given[m, p]
                    or (
                        after.told[m, p] == before.committed[p]
                        and before.noted[p] in (0, before.committed[p])
                    )
                    for p in Partition
                )
            )
        )
        and (
            before.coordinator == after.coordinator
            or after.fetch[m]
            == (OffsetFetch.NONE if before.fetch[m] == OffsetFetch.ASKED else before.fetch[m])
        )
        and (
            after.fetch[m] != OffsetFetch.NONE
            or before.fetch[m] == OffsetFetch.NONE
            or after.fetches_at[m] == 0
        )
        for m in Member
    )


@always
def what_is_under_way_is_of_a_piece(s: PositionedGroup) -> bool:
    """Offsets are told by an answer alone, generations asked for by a request or its answer."""
    return all(
        (s.fetch[m] == OffsetFetch.TOLD or s.told[m, p] == 0)
        and (s.fetch[m] != OffsetFetch.NONE or s.fetches_at[m] == 0)
        and (s.client[m] != MemberState.OFF or s.fetch[m] == OffsetFetch.NONE)
        and (s.reset == OffsetReset.NONE or s.generation > 0 or s.committed[p] == 0)
        and (s.generation > 0 or s.finished[p] == s.committed[p])
        for m in Member
        for p in Partition
    )


@step
def positions_go_on(before: PositionedGroup, after: PositionedGroup) -> bool:
    """By one record that there is, to what was told, or to where the reset says; or to none."""
    return all(
        after.position[m, p] in (0, before.position[m, p])
        or (
            before.given[m, p]
            and (
                (
                    before.ready[m]
                    and not before.unstored[m, p]
                    and before.log_start[p] <= before.position[m, p] < before.log_end[p]
                    and after.position[m, p] == before.position[m, p] + 1
                )
                or (
                    before.fetch[m] == OffsetFetch.TOLD
                    and before.fetches_at[m] == before.at[m]
                    and after.position[m, p] == before.told[m, p]
                )
                or (
                    before.ready[m]
                    and before.position[m, p] < before.log_start[p]
                    and after.unstored[m, p]
                    and after.position[m, p]
                    == (
                        before.log_end[p]
                        if before.reset == OffsetReset.LATEST
                        else before.log_start[p]
                    )
                )
            )
        )
        for m in Member
        for p in Partition
    )


@step
def a_start_is_found_and_handed_out(before: PositionedGroup, after: PositionedGroup) -> bool:
    """It is found where none was in range, and handed out where a coordinator says it is stored."""
    return all(
        (
            before.unstored[m, p]
            or not after.unstored[m, p]
            or before.position[m, p] < before.log_start[p]
        )
        and (
            not (before.unstored[m, p] and after.ready[m])
            or after.unstored[m, p]
            or (before.knows[m] and before.coordinator is not None)
        )
        for m in Member
        for p in Partition
    )


@step
def a_commit_is_of_what_one_has(before: PositionedGroup, after: PositionedGroup) -> bool:
    """Who has positions, and knows where, says all of them; something of it is not to be stored."""
    return all(
        before.commit_at[m] > 0
        or after.commit_at[m] == 0
        or (
            before.ready[m]
            and before.knows[m]
            and not before.up[m]
            and after.commit_at[m] == before.at[m]
            and any(before.given[m, p] and before.position[m, p] > 0 for p in Partition)
            and all(
                after.committing[m, p] == (before.position[m, p] if before.given[m, p] else 0)
                for p in Partition
            )
        )
        for m in Member
    )


@step
def logs_go_on(before: PositionedGroup, after: PositionedGroup) -> bool:
    """Logs gain and lose a record at a time, and no reset becomes another."""
    return before.reset == after.reset and all(
        before.log_start[p] <= after.log_start[p] <= before.log_start[p] + 1
        and before.log_end[p] <= after.log_end[p] <= before.log_end[p] + 1
        and after.log_start[p] <= after.log_end[p]
        for p in Partition
    )


@step
def what_is_finished_has_a_reason(before: PositionedGroup, after: PositionedGroup) -> bool:
    """Some application has finished a record, a start was stored, or a reset gives records up."""
    return all(
        before.finished[p] == after.finished[p]
        or (before.finished[p] == 0 and after.finished[p] == after.committed[p])
        or any(
            before.ready[m]
            and before.given[m, p]
            and before.position[m, p] > 0
            and after.finished[p] == after.position[m, p]
            and after.finished[p] > before.finished[p]
            for m in Member
        )
        for p in Partition
    )


@sometimes
def a_log_is_emptied(s: PositionedGroup) -> bool:
    """Retention has removed all that there was."""
    return any(s.log_start[p] == s.log_end[p] for p in Partition)


@sometimes
def a_record_is_produced(s: PositionedGroup) -> bool:
    """There are two records."""
    return any(s.log_end[p] > s.log_start[p] + 1 for p in Partition)


@sometimes
def the_first_record_is_consumed(s: PositionedGroup) -> bool:
    """Under EARLIEST a client has finished with the first record, which is still there."""
    return any(
        s.reset == OffsetReset.EARLIEST
        and s.consumes(m, p)
        and s.log_start[p] == 1
        and s.position[m, p] == 2
        for m in Member
        for p in Partition
    )


@sometimes
def a_user_is_told_that_its_place_is_gone(s: PositionedGroup) -> bool:
    """NONE: retention has removed what a client is at, and the user is told so."""
    return any(s.has_failed[m] and s.ready[m] for m in Member)


POSITIONS_WATCHED = POSITIONS.with_properties(
    *(p for p in WATCHED if p is not who_consumes_goes_on), *POSSIBLE,
    an_offset_fetch_goes_its_way, what_is_under_way_is_of_a_piece, positions_go_on,
    a_start_is_found_and_handed_out, a_commit_is_of_what_one_has, logs_go_on,
    what_is_finished_has_a_reason, a_log_is_emptied, a_record_is_produced,
    the_first_record_is_consumed, a_user_is_told_that_its_place_is_gone,
)  # fmt: skip
"""Fetch positions, and all that is watched of them: mistakes show in it."""

FORMS_WATCHED = {
    "choice": CHOICE_WATCHED, "administered": ADMINISTERED_WATCHED, "positions": POSITIONS_WATCHED,
}  # fmt: skip
"""Each form into which mistakes are put, by its name."""
