"""
The properties of groups that somebody administers: the group protocol's, and what is said anew.

Offsets and generations go back where somebody outside wants it, and only there: five of the group
protocol's sentences are said anew, each with what it allows. All the others stand as they are.
"""

from __future__ import annotations

from functools import cache

from herdspec import Specification, always, lemma, sometimes, specification, step
from herdspec.protocols.group_protocol.lemmas import (
    LEMMAS,
    LEMMAS_OF_STOPPING,
    each_generation_has_one_leader,
    generations_have_been,
    owners_are_ahead,
    what_is_said_is_ahead,
    who_has_its_assignment_has_all_of_it,
)
from herdspec.protocols.group_protocol.properties import (
    OF_STOPPING,
    PROMISES,
    committed_offsets_never_go_back,
    exclusive_fenced,
    generations_never_go_back,
    gone_at_once,
    it_can_settle,
    one_leader,
    settles,
    what_is_handed_out_is_stored,
)
from herdspec.protocols.group_protocol.values import (
    Awaited,
    GroupAnswer,
    GroupState,
    GroupWrite,
    MemberState,
)
from herdspec.protocols.group_protocol.variants.administered.spec import (
    AdministeredGroup,
    Member,
    Partition,
)

# ── Said anew ───────────────────────────────────────────────────────────────────────────────


@step
def only_owners_commit_but_in_an_empty_group(
    before: AdministeredGroup, after: AdministeredGroup
) -> bool:
    """An offset is taken from the partition's owner, as it said; in an Empty group from anybody."""
    return all(
        after.noted[p] in (0, before.noted[p])
        or before.state == GroupState.EMPTY
        or any(before.owns(m, p) and after.noted[p] == before.committing[m, p] for m in Member)
        for p in Partition
    )


@step
def offsets_go_back_only_for_nobody(before: AdministeredGroup, after: AdministeredGroup) -> bool:
    """A committed offset is followed by a smaller one where no stored member is subscribed."""
    return all(
        before.committed[p] <= after.committed[p]
        or all(not (before.belongs[m] and before.interest[m, p]) for m in Member)
        for p in Partition
    )


@step
def generations_go_back_only_with_the_group(
    before: AdministeredGroup, after: AdministeredGroup
) -> bool:
    """No generation is followed by an older one of the same life of the group, nor is one told."""
    return (before.generation <= after.generation or before.lives < after.lives) and all(
        before.at[m] <= after.at[m] or after.at[m] == 0 or before.told_in[m] < after.told_in[m]
        for m in Member
    )


@always
def one_leader_in_each_life(s: AdministeredGroup) -> bool:
    """No two members are told to lead the same generation of the same life of the group."""
    return all(
        not (s.leads[a] and s.leads[b]) or s.at[a] != s.at[b] or s.told_in[a] != s.told_in[b]
        for a in Member
        for b in Member
        if a != b
    )


@always
def what_is_handed_out_is_stored_or_deleted(s: AdministeredGroup) -> bool:
    """No generation is told to anybody that is not stored, or was until the group was deleted."""
    return all(
        (s.at[m] <= s.generation or s.told_in[m] < s.lives)
        and (s.said[m] <= s.generation or s.said_in[m] < s.lives)
        for m in Member
    )


# ── Of administration ───────────────────────────────────────────────────────────────────────


@step
def only_an_empty_group_is_deleted(before: AdministeredGroup, after: AdministeredGroup) -> bool:
    """Of a group that is deleted no member is stored, or counted, and no offset is on its way."""
    return before.lives == after.lives or all(
        not before.belongs[m] and not before.is_member(m) and not before.is_new(p)
        for m in Member
        for p in Partition
    )


@step
def nothing_is_left_of_a_deleted_group(before: AdministeredGroup, after: AdministeredGroup) -> bool:
    """Who takes over, or goes on, finds neither a generation nor an offset."""
    return before.lives == after.lives or (
        after.generation == 0
        and after.leader is None
        and all(after.committed[p] == 0 and after.owner[p] is None for p in Partition)
        and all(not after.belongs[m] for m in Member)
    )


@step
def what_is_deleted_stays_so(before: AdministeredGroup, after: AdministeredGroup) -> bool:
    """Of an offset that is deleted nothing is in memory: only a later commit sets it again."""
    return all(
        before.committed[p] == 0
        or after.committed[p] > 0
        or (after.noted[p] == 0 and after.sent[p] == 0)
        for p in Partition
    )


@step
def only_what_is_to_be_deleted_is(before: AdministeredGroup, after: AdministeredGroup) -> bool:
    """An offset goes where that was asked for, and then some offset does."""
    return all(
        before.committed[p] == 0
        or after.committed[p] > 0
        or before.write in (GroupWrite.DELETED_OFFSETS, GroupWrite.DELETED_GROUP)
        for p in Partition
    ) and (
        before.write != GroupWrite.DELETED_OFFSETS
        or before.done
        or not after.done
        or any(before.committed[p] > 0 and after.committed[p] == 0 for p in Partition)
    )


# ── Lemmas ──────────────────────────────────────────────────────────────────────────────────


@lemma
def nothing_goes_on_while_something_is_deleted(s: AdministeredGroup) -> bool:
    """An Empty group has no stored members; until something is deleted all else is stored."""
    return (
        all(s.state != GroupState.EMPTY or not s.belongs[m] for m in Member)
        and (s.write != GroupWrite.DELETED_GROUP or s.state == GroupState.EMPTY)
        and (
            s.write != GroupWrite.DELETED_OFFSETS
            or s.done
            or any(s.going[p] and s.committed[p] > 0 for p in Partition)
        )
        and all(
            (s.sent[p] == 0 or (s.write == GroupWrite.OFFSETS and not s.done))
            and (s.write != GroupWrite.DELETED_GROUP or s.noted[p] == 0)
            and (not s.going[p] or (s.write == GroupWrite.DELETED_OFFSETS and not s.done))
            and (not s.going[p] or (s.noted[p] == 0 and not s.is_subscribed(p)))
            for p in Partition
        )
    )


@lemma
def members_are_of_this_life(s: AdministeredGroup) -> bool:
    """A member that is in a generation, or is about to be told, was told one of this life."""
    return all(
        not (s.is_member(m) or s.belongs[m])
        or (
            (not is_in_a_generation(s, m) or s.told_in[m] == s.lives)
            and (not is_about_to_be_told(s, m) or s.said_in[m] == s.lives)
        )
        for m in Member
    )


def is_in_a_generation(s: AdministeredGroup, m: Member) -> bool:
    """The client was told a generation, and goes on with that."""
    return s.client[m] == MemberState.STABLE or s.awaits[m] == Awaited.SYNC


def is_about_to_be_told(s: AdministeredGroup, m: Member) -> bool:
    """A generation is under way to the client."""
    return s.down[m] in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)


def is_at_present(s: AdministeredGroup, m: Member) -> bool:
    """The present generation, of this life of the group, is the last that the client was told."""
    return s.at[m] == s.generation and s.told_in[m] == s.lives


@lemma
def generations_of_each_life_have_been(s: AdministeredGroup) -> bool:
    """No generation of this life lies ahead, nor any life; none that is told is an older one."""
    return s.assigned <= s.generation and all(
        s.told_in[m] <= s.lives
        and s.said_in[m] <= s.lives
        and (s.told_in[m] < s.lives or s.at[m] <= s.generation)
        and (s.said_in[m] < s.lives or s.said[m] <= s.generation)
        and (not s.is_member(m) or s.commit_at[m] <= s.generation)
        and (
            not is_about_to_be_told(s, m)
            or (
                s.said[m] > 0
                and (
                    s.told_in[m] < s.said_in[m]
                    or (s.told_in[m] == s.said_in[m] and s.at[m] <= s.said[m])
                )
            )
        )
        and (not is_in_a_generation(s, m) or s.at[m] > 0)
        and (not s.belongs[m] or s.generation > 0)
        for m in Member
    )


@lemma
def each_generation_of_a_life_has_one_leader(s: AdministeredGroup) -> bool:
    """Who leads the present generation, or is about to be told, is its leader; so it was."""
    return all(
        (not (s.leads[m] and is_at_present(s, m)) or s.leader == m)
        and (
            s.down[m] != GroupAnswer.LEADER
            or s.said[m] != s.generation
            or s.said_in[m] != s.lives
            or s.leader == m
        )
        for m in Member
    ) and all(
        s.down[a] != GroupAnswer.LEADER
        or (
            (not s.leads[b] or s.said[a] != s.at[b] or s.said_in[a] != s.told_in[b])
            and (
                s.down[b] != GroupAnswer.LEADER
                or s.said[a] != s.said[b]
                or s.said_in[a] != s.said_in[b]
            )
        )
        for a in Member
        for b in Member
        if a != b
    )


@lemma
def who_is_at_present_has_all_of_it(s: AdministeredGroup) -> bool:
    """Who was told the present generation belongs to it, and its assignment is what it owns."""
    return all(
        (
            not (s.synced[m] and s.is_awaited(m, Awaited.SYNC) and s.down[m] == GroupAnswer.NONE)
            or s.at[m] == s.generation
        )
        and (not (is_in_a_generation(s, m) and is_at_present(s, m)) or s.belongs[m])
        and (
            not is_about_to_be_told(s, m)
            or s.said[m] != s.generation
            or s.said_in[m] != s.lives
            or s.belongs[m]
        )
        and (
            not (s.client[m] == MemberState.STABLE or s.down[m] == GroupAnswer.ASSIGNMENT)
            or not is_at_present(s, m)
            or (
                s.assigned == s.generation
                and all(s.given[m, p] == (s.owner[p] == m) for p in Partition)
            )
        )
        for m in Member
    )


@lemma
def owners_are_ahead_where_one_is_subscribed(s: AdministeredGroup) -> bool:
    """What a member says that owns is not before what was taken, nor that before what is stored."""
    return all(
        (s.noted[p] == 0 or s.committed[p] <= s.noted[p] or not s.is_subscribed(p))
        and (s.write != GroupWrite.OFFSETS or s.done or s.sent[p] in (0, s.noted[p]))
        for p in Partition
    ) and all(
        (s.commit_at[m] > 0 or s.committing[m, p] == 0)
        and (not s.is_member(m) or what_is_said_is_ahead(s, m, p))
        and (
            not (s.consumes(m, p) and is_at_present(s, m))
            or (
                max(s.noted[p], s.committed[p]) <= s.position[m, p]
                and (
                    not (s.is_member(m) and s.owns(m, p)) or s.committing[m, p] <= s.position[m, p]
                )
            )
        )
        for m in Member
        for p in Partition
    )


# ── What must be possible ───────────────────────────────────────────────────────────────────


@sometimes
def a_deleted_group_lives_again(s: AdministeredGroup) -> bool:
    """A member consumes in a group that was deleted, and that has a generation again."""
    return s.lives > 0 and any(s.ready[m] and s.at[m] == s.generation for m in Member)


@sometimes
def one_is_of_a_former_life(s: AdministeredGroup) -> bool:
    """A client believes in a generation of the group as it was before it was deleted."""
    return any(s.at[m] > 0 and s.told_in[m] < s.lives for m in Member)


@sometimes
def a_member_begins_where_somebody_said(s: AdministeredGroup) -> bool:
    """A member consumes from an offset that was committed from outside."""
    return any(
        s.ready[m] and s.given[m, p] and s.position[m, p] == s.committed[p] and s.generation == 1
        and s.committed[p] > 0
        for m in Member
        for p in Partition
    )  # fmt: skip


SAID_WITHOUT = (
    exclusive_fenced, committed_offsets_never_go_back, generations_never_go_back, one_leader,
    what_is_handed_out_is_stored,
)  # fmt: skip
"""Properties that do not know of administration; `SAID_WITH` take their place."""
SAID_WITH = (
    only_owners_commit_but_in_an_empty_group, offsets_go_back_only_for_nobody,
    generations_go_back_only_with_the_group, one_leader_in_each_life,
    what_is_handed_out_is_stored_or_deleted,
)  # fmt: skip
OF_ADMINISTRATION = (
    only_an_empty_group_is_deleted, nothing_is_left_of_a_deleted_group, what_is_deleted_stays_so,
    only_what_is_to_be_deleted_is,
)  # fmt: skip
NOT_OF_LIVES = (
    generations_have_been, each_generation_has_one_leader, who_has_its_assignment_has_all_of_it,
    owners_are_ahead,
)  # fmt: skip
"""Lemmas of the group protocol that do not know of administration."""
LEMMAS_OF_LIVES = (
    nothing_goes_on_while_something_is_deleted, members_are_of_this_life,
    generations_of_each_life_have_been, each_generation_of_a_life_has_one_leader,
    who_is_at_present_has_all_of_it, owners_are_ahead_where_one_is_subscribed,
)  # fmt: skip
"""Lemmas in their place, and of what is deleted."""
ADMINISTERED_LEMMAS = (*(each for each in LEMMAS if each not in NOT_OF_LIVES), *LEMMAS_OF_LIVES)
"""Lemmas of what is promised without the assumption `evicted_has_stopped`."""
ADMINISTERED_PROMISES = (
    *(p for p in PROMISES if p not in SAID_WITHOUT), *SAID_WITH, *OF_ADMINISTRATION,
)  # fmt: skip
"""Promises of groups that somebody administers, under the assumption `evicted_has_stopped`."""
ADMINISTERED_HELD = specification(AdministeredGroup, *ADMINISTERED_PROMISES, settles)
"""Groups that somebody administers, and their promises."""
ADMINISTERED = ADMINISTERED_HELD.with_properties(
    *ADMINISTERED_LEMMAS, *LEMMAS_OF_STOPPING, it_can_settle, a_deleted_group_lives_again,
    one_is_of_a_former_life, a_member_begins_where_somebody_said,
)  # fmt: skip
"""Groups that somebody administers, and all that is known of them."""


@cache
def administered_without_stopping() -> Specification:
    """The spec of what is promised without the assumption `evicted_has_stopped`."""
    promises = (p for p in ADMINISTERED_PROMISES if p not in OF_STOPPING)
    return specification(AdministeredGroup, *promises, *ADMINISTERED_LEMMAS).replace(
        "AdministeredWithoutStopping", has_stopped=gone_at_once
    )
