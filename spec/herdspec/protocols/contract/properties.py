"""
The contract's sentences, each under its number, and the two forms of the first.

`CONTRACT` is the strict form: every consumer is seen. `RESETTING` is it with starts that members
resolve by themselves; a protocol that does not model these is held against `CONTRACT`, and what
keeps that keeps the other. `FENCED` is for protocols in which a paused member may consume on: at
the handover, consumption of an older generation ceases to count, and nothing that its member does
from then on is accepted (a map of such a protocol counts as consuming only who does so in the
present generation). Sentence 7 is stated under the contract's own fairness, and says that what it
owes can be had; that a protocol settles is its own to show, since no refinement tells it.

Source: PROTOCOLS.md, "The contract: what a group coordination protocol owes its users".
"""

from __future__ import annotations

from herdspec.language.specification import specification
from herdspec.language.surface import (
    action,
    always,
    command,
    leads_to,
    lemma,
    require,
    sometimes,
    step,
)
from herdspec.protocols.contract.spec import GroupContract, Stage
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member, Partition

# ── The sentences ─────────────────────────────────────────────────────────────────


@always
def exclusive(s: GroupContract) -> bool:
    """1: at no time do two members consume the same partition."""
    return all(
        not (s.consumes[a, p] and s.consumes[b, p])
        for p in Partition
        for a in Member
        for b in Member
        if a != b
    )


@always
def who_consumes_owns(s: GroupContract) -> bool:
    """1: who consumes a partition is the owner that is stored."""
    return all(not s.consumes[m, p] or s.owner[p] == m for m in Member for p in Partition)


@step
def exclusive_fenced(before: GroupContract, after: GroupContract) -> bool:
    """1 and 2: an offset is taken only as its owner said it."""
    return all(
        after.accepted[p] <= before.accepted[p]
        or any(
            before.owner[p] == m
            and after.accepted[p] in (before.reported[m, p], before.committing[m, p])
            for m in Member
        )
        for p in Partition
    )


@step
def what_is_said_is_of_the_present_generation(before: GroupContract, after: GroupContract) -> bool:
    """1 and 2: only who has begun says how far it is, and that counts in its generation alone."""
    return all(
        (
            after.generation == before.generation
            and after.reported[m, p] in (0, before.reported[m, p])
            and after.committing[m, p] in (0, before.committing[m, p])
        )
        or (after.reported[m, p] == 0 and after.committing[m, p] == 0)
        or (after.generation == before.generation and before.current[m])
        for m in Member
        for p in Partition
    )


@step
def stored_as_taken(before: GroupContract, after: GroupContract) -> bool:
    """2: what is stored was taken before."""
    return all(
        after.committed[p] == before.committed[p] or after.committed[p] == before.storing[p]
        for p in Partition
    )


@step
def what_was_taken_is_stored_at_the_handover(before: GroupContract, after: GroupContract) -> bool:
    """2: what the old generation's owners were heard to say is stored before the handover."""
    return after.generation == before.generation or all(
        before.accepted[p] <= after.committed[p] for p in Partition
    )


@step
def only_the_present_epoch_writes(before: GroupContract, after: GroupContract) -> bool:
    """2: owners and offsets are written by the coordinator of the current epoch alone."""
    return any(
        after.author == b and before.term[b] > 0 and before.term[b] == before.epoch for b in Broker
    ) or (
        after.generation == before.generation
        and all(
            after.committed[p] == before.committed[p]
            and (after.owner[p] == before.owner[p] or after.owner[p] is None)
            for p in Partition
        )
    )


@step
def epochs_never_go_back(before: GroupContract, after: GroupContract) -> bool:
    """3: no epoch is followed by an older one."""
    return before.epoch <= after.epoch


@step
def generations_never_go_back(before: GroupContract, after: GroupContract) -> bool:
    """3: no generation is followed by an older one."""
    return before.generation <= after.generation


@step
def members_follow_no_older_epoch(before: GroupContract, after: GroupContract) -> bool:
    """3: a member follows no coordinator of an older epoch than it has followed before."""
    return all(before.heeded[m] <= after.heeded[m] for m in Member)


@step
def committed_offsets_never_go_back(before: GroupContract, after: GroupContract) -> bool:
    """3: no committed offset is followed by a smaller one."""
    return all(before.committed[p] <= after.committed[p] for p in Partition)


@step
def owners_change_with_the_generation(before: GroupContract, after: GroupContract) -> bool:
    """3: a partition passes from one member to another in a new generation only."""
    return after.generation > before.generation or all(
        after.owner[p] == before.owner[p] or after.owner[p] is None for p in Partition
    )


@always
def only_finished_is_committed(s: GroupContract) -> bool:
    """4: nothing is committed of a record before which one is unfinished."""
    return all(s.committed[p] <= s.finished[p] for p in Partition)


@always
def nobody_is_past_the_unfinished(s: GroupContract) -> bool:
    """4: nobody is at a record before which one is unfinished."""
    return all(s.position[m, p] <= s.finished[p] for m in Member for p in Partition)


@step
def who_begins_does_so_at_the_stored_offset(before: GroupContract, after: GroupContract) -> bool:
    """4: who begins to consume a partition begins where its offset is stored."""
    return all(
        before.consumes[m, p]
        or not after.consumes[m, p]
        or after.position[m, p] == before.committed[p]
        for m in Member
        for p in Partition
    )


@step
def a_resolved_start_is_stored_first(before: GroupContract, after: GroupContract) -> bool:
    """4: who resolved by itself where to begin goes on once it knows that this is stored."""
    return all(
        not before.resolved[m, p]
        or (
            after.position[m, p] <= before.position[m, p]
            and (after.resolved[m, p] or before.committed[p] > 0 or not after.consumes[m, p])
        )
        for m in Member
        for p in Partition
    )


@always
def complete(s: GroupContract) -> bool:
    """5: once the group is stable, each partition of interest is a live member's who has begun."""
    return s.stage != Stage.STABLE or all(
        has_begun(s, p) or not (s.known[p] and s.live[m] and s.interest[m, p])
        for m in Member
        for p in Partition
    )


def has_begun(s: GroupContract, p: Partition) -> bool:
    """The partition's owner lives, is interested, and is known to have begun."""
    owner = s.owner[p]
    return owner is not None and s.live[owner] and s.interest[owner, p] and s.informed[owner]


@always
def one_coordinator(s: GroupContract) -> bool:
    """6: at most one broker coordinates in any epoch, and in the present one who has won it."""
    return all(
        s.term[a] == 0 or s.term[a] != s.term[b] for a in Broker for b in Broker if a != b
    ) and all(s.term[b] == 0 or s.term[b] != s.epoch or s.elected == b for b in Broker)


@step
def an_epoch_is_won_by_one(before: GroupContract, after: GroupContract) -> bool:
    """6: an epoch that one broker has won is never another's."""
    return after.elected == before.elected or before.epoch < after.epoch


@leads_to
def settles(s: GroupContract) -> tuple[bool, bool]:
    """7: without further faults the group becomes stable, and knows every partition."""
    return True, s.stage == Stage.STABLE and all(s.known[p] or not s.exists[p] for p in Partition)


# ── What must be possible: every noun is met ────────────────────────────────────────────────


@sometimes
def a_partition_is_consumed(s: GroupContract) -> bool:
    """A member consumes a partition."""
    return any(s.consumes[m, p] for m in Member for p in Partition)


@sometimes
def an_offset_is_stored(s: GroupContract) -> bool:
    """An offset is stored."""
    return any(s.committed[p] > 0 for p in Partition)


@sometimes
def an_offset_waits_to_be_stored(s: GroupContract) -> bool:
    """An offset was taken, and is not stored yet."""
    return any(s.accepted[p] > s.committed[p] for p in Partition)


@sometimes
def a_group_with_members_is_stable(s: GroupContract) -> bool:
    """A group is stable, and some partition of it is consumed."""
    return s.stage == Stage.STABLE and any(
        s.is_wanted(p) and s.consumes[m, p] for m in Member for p in Partition
    )


@sometimes
def two_coordinate(s: GroupContract) -> bool:
    """Two brokers coordinate, each in an epoch of its own."""
    return any(s.term[a] > 0 and s.term[b] > 0 for a in Broker for b in Broker if a != b)


@sometimes
def a_second_owner_follows_the_first(s: GroupContract) -> bool:
    """A partition is consumed by its second owner, from an offset that the first one stored."""
    return s.generation > 1 and any(
        s.consumes[m, p] and s.committed[p] > 0 for m in Member for p in Partition
    )


# ── Lemmas: with them the promises are inductive ────────────────────────────────────────────


@lemma
def who_does_not_consume_is_nowhere(s: GroupContract) -> bool:
    """Who does not consume a partition is at no record of it, and has resolved nothing."""
    return all(
        s.consumes[m, p] or (s.position[m, p] == 0 and not s.resolved[m, p])
        for m in Member
        for p in Partition
    )


@lemma
def reports_are_of_finished_records(s: GroupContract) -> bool:
    """What was said was finished, and so was what is taken of it, and stored next."""
    return all(
        s.reported[m, p] <= s.finished[p] and s.committing[m, p] <= s.finished[p]
        for m in Member
        for p in Partition
    ) and all(s.storing[p] <= s.accepted[p] <= s.finished[p] for p in Partition)


@lemma
def terms_have_begun(s: GroupContract) -> bool:
    """No epoch lies ahead."""
    return all(s.term[b] <= s.epoch for b in Broker) and all(
        s.heeded[m] <= s.epoch and s.told[m] <= s.epoch for m in Member
    )


PROMISES = (
    exclusive, who_consumes_owns, exclusive_fenced, what_is_said_is_of_the_present_generation,
    stored_as_taken, what_was_taken_is_stored_at_the_handover, only_the_present_epoch_writes,
    epochs_never_go_back, generations_never_go_back, members_follow_no_older_epoch,
    committed_offsets_never_go_back, owners_change_with_the_generation, only_finished_is_committed,
    nobody_is_past_the_unfinished, who_begins_does_so_at_the_stored_offset,
    a_resolved_start_is_stored_first, complete, one_coordinator, an_epoch_is_won_by_one,
)  # fmt: skip
POSSIBLE = (
    a_partition_is_consumed, an_offset_is_stored, an_offset_waits_to_be_stored,
    a_group_with_members_is_stable, two_coordinate, a_second_owner_follows_the_first,
)  # fmt: skip
LEMMAS = (who_does_not_consume_is_nowhere, reports_are_of_finished_records, terms_have_begun)

CONTRACT = specification(GroupContract, *PROMISES, settles, *POSSIBLE, *LEMMAS)
"""The contract in its strict form: every consumer is seen."""

# ── With resets ─────────────────────────────────────────────────────────────────────────────


@action(kind=command, disturbs=True)
def resolve(self: GroupContract, m: Member, p: Partition) -> None:
    """No offset of {p} is stored: {m} resolves by itself where to begin."""
    require(self.consumes[m, p] and not self.resolved[m, p])
    require(self.position[m, p] == 0 and self.committed[p] == 0)
    self.resolved[m, p] = True
    self.position[m, p] = 1
    self.finished[p] = max(self.finished[p], 1)


@action
def confirm(self: GroupContract, m: Member, p: Partition) -> None:
    """{m} hears that where it begins in {p} is stored."""
    require(self.resolved[m, p] and self.committed[p] > 0)
    self.resolved[m, p] = False


@sometimes
def a_resolved_start_is_stored(s: GroupContract) -> bool:
    """Where somebody has resolved to begin is stored, and it does not know yet."""
    return any(s.resolved[m, p] and s.committed[p] > 0 for m in Member for p in Partition)


RESETTING = specification(
    GroupContract, *PROMISES, settles, *POSSIBLE, a_resolved_start_is_stored, *LEMMAS
).add("ResettingContract", resolve=resolve, confirm=confirm)
"""The contract whose members may resolve by themselves where to begin (`auto.offset.reset`)."""

# ── The fenced form ─────────────────────────────────────────────────────────────────────────


def nobody_is_waited_for(self: GroupContract, m: Member, p: Partition, heir: Member | None) -> bool:
    """The handover ends whatever is consumed."""
    return True


def nobody_is_heard(self: GroupContract, m: Member) -> bool:
    """Who goes on does so unheard, until it has begun in the new generation."""
    return False


@action(kind=command, disturbs=True)
def finish_unheard(self: GroupContract, p: Partition) -> None:
    """The application of a member that counts no more finishes with the next record of {p}."""
    self.finished[p] = self.finished[p] + 1


FENCED = CONTRACT.replace(
    "Fenced", makes_way=nobody_is_waited_for, consumes_on=nobody_is_heard
).add("FencedContract", finish_unheard=finish_unheard)
"""The contract in its fenced form: only who consumes in the present generation is seen."""
