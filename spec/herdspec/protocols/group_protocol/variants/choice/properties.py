"""Properties of a choice among protocols: the group protocol's, and what is promised of these."""

from __future__ import annotations

from functools import cache

from herdspec import Specification, always, lemma, sometimes, specification, step
from herdspec.protocols.group_protocol.lemmas import LEMMAS, LEMMAS_OF_STOPPING
from herdspec.protocols.group_protocol.properties import (
    OF_STOPPING,
    PROMISES,
    gone_at_once,
    it_can_settle,
    settles,
)
from herdspec.protocols.group_protocol.values import (
    Awaited,
    GroupAnswer,
    GroupState,
    GroupWrite,
    MemberState,
)
from herdspec.protocols.group_protocol.variants.choice.spec import Assignor, ChoosingGroup, Member

# ── Promises ────────────────────────────────────────────────────────────────────────────────


@always
def members_have_a_protocol_in_common(s: ChoosingGroup) -> bool:
    """There is a protocol that all members whom the coordinator counts have listed."""
    return not s.has_members() or any(s.is_common(a) for a in Assignor)


@always
def the_protocol_is_one_that_all_support(s: ChoosingGroup) -> bool:
    """All members of a generation that is handed out have listed its protocol."""
    return s.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or all(
        not s.is_member(m) or s.lists_the_protocol(m) for m in Member
    )


@always
def nobody_uses_what_it_does_not_support(s: ChoosingGroup) -> bool:
    """Who is in a generation, or is about to be told, supports its protocol."""
    return all(s.uses[m] != a or s.supports[m, a] for m in Member for a in Assignor)


@always
def who_is_in_a_generation_uses_its_protocol(s: ChoosingGroup) -> bool:
    """The leader assigns by the protocol by which all others read what they are assigned."""
    return all(
        not (
            s.client[m] == MemberState.STABLE
            or s.awaits[m] == Awaited.SYNC
            or s.down[m] in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
        )
        or (
            s.uses[m] is not None
            and (max(s.at[m], s.said[m]) != s.generation or s.uses[m] == s.protocol)
        )
        for m in Member
    )


@step
def other_protocols_begin_a_rebalance(before: ChoosingGroup, after: ChoosingGroup) -> bool:
    """A member that lists something else is not told of the generation that there is."""
    return all(
        not (before.is_member(m) and after.is_member(m))
        or before.coordinator != after.coordinator
        or before.listed_by[m, a] == after.listed_by[m, a]
        or (after.state == GroupState.PREPARING_REBALANCE and after.joined[m])
        for m in Member
        for a in Assignor
    )


@step
def who_is_refused_does_not_fit(before: ChoosingGroup, after: ChoosingGroup) -> bool:
    """Who is refused has nothing in common with what the members have listed, as far as known."""
    return all(
        after.down[m] in (before.down[m], GroupAnswer.NONE)
        or after.down[m] != GroupAnswer.INCONSISTENT_GROUP_PROTOCOL
        or (
            before.entry[m] == after.entry[m]
            and all(
                not before.supports[m, a]
                or any(before.is_member(o) and not before.listed_by[o, a] for o in Member)
                for a in Assignor
            )
        )
        for m in Member
    )


# ── Lemmas ──────────────────────────────────────────────────────────────────────────────────


@lemma
def only_one_that_joins_is_told_a_protocol(s: ChoosingGroup) -> bool:
    """Who is to be told a generation has no protocol yet; who has none is in no generation."""
    return all(
        (
            s.uses[m] is None
            or s.client[m] == MemberState.STABLE
            or s.awaits[m] == Awaited.SYNC
            or s.down[m] in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
        )
        and (s.awaits[m] == Awaited.JOIN or s.down[m] != GroupAnswer.INCONSISTENT_GROUP_PROTOCOL)
        for m in Member
    )


@lemma
def what_is_listed_was_said(s: ChoosingGroup) -> bool:
    """Of who waits for the answer to its JoinGroup, the coordinator knows what it supports."""
    return all(
        (
            not (s.joined[m] and s.is_awaited(m, Awaited.JOIN))
            or s.supports[m, a] == s.listed_by[m, a]
        )
        for m in Member
        for a in Assignor
    )


@lemma
def each_client_supports_something(s: ChoosingGroup) -> bool:
    """No client lists nothing."""
    return all(
        s.client[m] == MemberState.OFF or any(s.supports[m, a] for a in Assignor) for m in Member
    )


@lemma
def a_stored_generation_has_its_protocol(s: ChoosingGroup) -> bool:
    """What is stored and not heard of is one that all support; a generation has a protocol."""
    return (
        (
            s.write != GroupWrite.GENERATION
            or not s.done
            or all(not s.is_member(m) or s.lists_the_protocol(m) for m in Member)
        )
        and (s.protocol is not None or all(not s.belongs[m] for m in Member))
        and (
            s.coordinator is not None
            or all(
                s.listed_by[m, a] == (s.belongs[m] and s.protocol == a)
                for m in Member
                for a in Assignor
            )
        )
    )


# ── What must be possible ───────────────────────────────────────────────────────────────────


@sometimes
def one_supports_more_than_is_chosen(s: ChoosingGroup) -> bool:
    """Two members use one protocol, and one of them supports another one besides."""
    return any(
        s.ready[m] and s.ready[o] and s.uses[m] == s.uses[o] and s.supports[m, a]
        and not s.supports[o, a] and s.at[m] == s.at[o]
        for m in Member
        for o in Member
        for a in Assignor
        if m != o
    )  # fmt: skip


@sometimes
def generations_differ_in_protocol(s: ChoosingGroup) -> bool:
    """One uses the protocol of the present generation, another one that of an older."""
    return any(
        s.uses[m] == s.protocol and s.uses[o] == a and s.protocol != a
        for m in Member
        for o in Member
        for a in Assignor
        if s.protocol is not None
    )


@sometimes
def one_is_refused(s: ChoosingGroup) -> bool:
    """Somebody is told that it has no protocol in common with a member that is there."""
    return any(s.down[m] == GroupAnswer.INCONSISTENT_GROUP_PROTOCOL for m in Member)


# ── What Kafka does not promise ─────────────────────────────────────────────────────────────


@step
def nobody_is_refused_who_fits(before: ChoosingGroup, after: ChoosingGroup) -> bool:
    """Who is refused has no protocol in common with what all members support."""
    return all(
        after.down[m] in (before.down[m], GroupAnswer.NONE)
        or after.down[m] != GroupAnswer.INCONSISTENT_GROUP_PROTOCOL
        or before.is_member(m)
        or all(
            not before.supports[m, a]
            or any(before.is_member(o) and not before.supports[o, a] for o in Member)
            for a in Assignor
        )
        for m in Member
    )


@step
def nobody_is_refused_for_what_it_was(before: ChoosingGroup, after: ChoosingGroup) -> bool:
    """Who is refused has no protocol in common with what the other members have listed."""
    return all(
        after.down[m] in (before.down[m], GroupAnswer.NONE)
        or after.down[m] != GroupAnswer.INCONSISTENT_GROUP_PROTOCOL
        or all(
            not before.supports[m, a]
            or any(o != m and before.is_member(o) and not before.listed_by[o, a] for o in Member)
            for a in Assignor
        )
        for m in Member
    )


OF_PROTOCOLS = (
    members_have_a_protocol_in_common, the_protocol_is_one_that_all_support,
    nobody_uses_what_it_does_not_support, who_is_in_a_generation_uses_its_protocol,
    other_protocols_begin_a_rebalance, who_is_refused_does_not_fit,
)  # fmt: skip
"""Properties of protocols, beside all that the group protocol promises."""
CHOICE_LEMMAS = (
    only_one_that_joins_is_told_a_protocol, what_is_listed_was_said,
    each_client_supports_something, a_stored_generation_has_its_protocol,
)  # fmt: skip
"""Lemmas of what is promised of protocols."""
CHOICE_PROMISES = (*PROMISES, *OF_PROTOCOLS)
"""Promises of a choice among protocols, under the assumption `evicted_has_stopped`."""
CHOICE_HELD = specification(ChoosingGroup, *CHOICE_PROMISES, settles)
"""A choice among protocols, and its promises, without the lemmas."""
CHOICE = CHOICE_HELD.with_properties(
    *LEMMAS, *LEMMAS_OF_STOPPING, *CHOICE_LEMMAS, it_can_settle,
    one_supports_more_than_is_chosen, generations_differ_in_protocol, one_is_refused,
)  # fmt: skip
"""A choice among protocols, and all that is known of it."""


@cache
def choice_without_stopping() -> Specification:
    """The spec of what a choice promises without the assumption `evicted_has_stopped`."""
    promises = (p for p in CHOICE_PROMISES if p not in OF_STOPPING)
    return specification(ChoosingGroup, *promises, *LEMMAS, *CHOICE_LEMMAS).replace(
        "ChoiceWithoutStopping", has_stopped=gone_at_once
    )
