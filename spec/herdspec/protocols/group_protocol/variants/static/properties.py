"""
The properties of static membership: the group protocol's, and what is promised of lives.

Three of the group protocol's sentences speak of a member where they mean whoever bears its member
id; with several lives of one member each is said anew here. All the others stand as they are.
"""

from __future__ import annotations

from functools import cache

from herdspec import Specification, always, sometimes, specification, step
from herdspec.protocols.group_protocol.properties import (
    OF_STOPPING,
    PROMISES,
    complete,
    gone_at_once,
    no_ghosts,
    nobody_is_expelled_who_waits,
    one_leader,
    settles,
)
from herdspec.protocols.group_protocol.values import (
    GroupAnswer,
    GroupState,
    GroupWrite,
    MemberState,
)
from herdspec.protocols.group_protocol.variants.static.spec import Member, Partition, StaticGroup

# ── Said anew ───────────────────────────────────────────────────────────────────────────────


@always
def one_leader_with_its_lives(s: StaticGroup) -> bool:
    """No two members, but for lives of one, are told to lead the same generation."""
    return all(
        not (s.leads[a] and s.leads[b]) or s.at[a] != s.at[b] or s.are_lives(a, b)
        for a in Member
        for b in Member
        if a != b
    )


@always
def complete_once_it_is_stored(s: StaticGroup) -> bool:
    """Once the group is Stable, and no next life is being stored, it is complete."""
    return s.write == GroupWrite.REPLACEMENT or complete(s)


@step
def only_a_next_life_expels_who_waits(before: StaticGroup, after: StaticGroup) -> bool:
    """No session timer expels a member whose JoinGroup or SyncGroup waits; its next life does."""
    return all(
        not (before.joined[m] or before.synced[m])
        or before.entry[m] == after.entry[m]
        or before.coordinator != after.coordinator
        or before.leaving[m]
        or any(o != m and before.are_lives(o, m) and after.is_member(o) for o in Member)
        for m in Member
    )


@step
def no_dynamic_ghosts(before: StaticGroup, after: StaticGroup) -> bool:
    """Who has joined a generation knows its member id, or can take it up by its instance id."""
    return all(
        not before.joined[m]
        or after.state != GroupState.COMPLETING_REBALANCE
        or after.has_id[m]
        or after.instance[m] is not None
        or after.client[m] == MemberState.OFF
        or after.down[m] in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
        for m in Member
    )


# ── Of lives ────────────────────────────────────────────────────────────────────────────────


@always
def one_life_has_the_place(s: StaticGroup) -> bool:
    """Of a static member's lives the coordinator counts one at most, and one is stored."""
    return all(
        not s.are_lives(a, b)
        or not ((s.is_member(a) and s.is_member(b)) or (s.belongs[a] and s.belongs[b]))
        for a in Member
        for b in Member
        if a != b
    )


@step
def a_next_life_has_what_its_former_one_had(before: StaticGroup, after: StaticGroup) -> bool:
    """Who takes a place in a Stable group has its partitions, and neither more nor less of them."""
    return all(
        not after.belongs[m]
        or before.belongs[m]
        or before.generation != after.generation
        or all(
            (after.owner[p] == m) == before.is_former(before.owner[p], m)
            and (after.owner[p] == before.owner[p] or after.owner[p] == m)
            for p in Partition
        )
        for m in Member
    )


@always
def who_is_told_to_be_a_member_is_stored(s: StaticGroup) -> bool:
    """Whoever has the present generation is stored as its member, or a later life of it is."""
    return all(
        s.at[m] != s.generation
        or s.generation == 0
        or s.belongs[m]
        or any(s.belongs[o] and s.are_lives(o, m) for o in Member)
        for m in Member
    )


@sometimes
def a_next_life_consumes_in_the_same_generation(s: StaticGroup) -> bool:
    """Two lives have been told the same generation, and the later one consumes in it."""
    return any(
        s.consumes(m, p) and s.are_lives(o, m) and s.at[m] == s.generation and s.position[o, p] > 0
        for m in Member
        for o in Member
        for p in Partition
        if o != m
    )


@sometimes
def a_former_life_is_fenced(s: StaticGroup) -> bool:
    """A former life is told that it is fenced."""
    return any(s.down[m] == GroupAnswer.FENCED_INSTANCE_ID for m in Member)


@sometimes
def a_generation_has_a_member_that_has_not_joined(s: StaticGroup) -> bool:
    """A static member that was waited for in vain belongs to the next generation."""
    return any(s.belongs[m] and 0 < s.at[m] < s.assigned for m in Member)


ANEW = (
    one_leader_with_its_lives, complete_once_it_is_stored, only_a_next_life_expels_who_waits,
    no_dynamic_ghosts,
)  # fmt: skip
"""Properties of lives, in the place of what the group protocol says of members."""
SAID_OF_MEMBERS = (one_leader, complete, nobody_is_expelled_who_waits, no_ghosts)
"""Properties of members whose place those of lives (`ANEW`) take."""
OF_LIVES = (
    one_life_has_the_place, a_next_life_has_what_its_former_one_had,
    who_is_told_to_be_a_member_is_stored,
)  # fmt: skip
STATIC_PROMISES = (*(p for p in PROMISES if p not in SAID_OF_MEMBERS), *ANEW, *OF_LIVES)
"""Promises of static membership, under the assumption `evicted_has_stopped`."""
STATIC_HELD = specification(StaticGroup, *STATIC_PROMISES)
"""Static membership and its promises."""
STATIC = STATIC_HELD.with_properties(
    a_former_life_is_fenced, a_generation_has_a_member_that_has_not_joined
)
"""Static membership, and all that is known of it."""


@cache
def static_without_stopping() -> Specification:
    """The spec of what static membership promises without the assumption `evicted_has_stopped`."""
    promises = (p for p in STATIC_PROMISES if p not in OF_STOPPING)
    return specification(StaticGroup, *promises, settles).replace(
        "StaticWithoutStopping", has_stopped=gone_at_once
    )
