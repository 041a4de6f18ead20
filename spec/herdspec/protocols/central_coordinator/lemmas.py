"""
Lemmas of the central coordinator: with these its properties are inductive.

Each is needed, and is proved with the promises, for any number of members, partitions and brokers.
"""

from __future__ import annotations

from herdspec import lemma
from herdspec.protocols.central_coordinator.spec import (
    Asked,
    CentralCoordinator,
    Kind,
    Member,
    Partition,
    Phase,
    Write,
)
from herdspec.protocols.election.contract import epochs_are_won_by_one as won_by_one
from herdspec.protocols.election.spec import Broker


def present(s: CentralCoordinator, b: Broker) -> bool:
    """The broker coordinates in the present epoch."""
    return s.election.leads[b] and s.election.token[b] == s.election.epoch


def owner_has_started_or_is_gone(s: CentralCoordinator, p: Partition) -> bool:
    """The partition's owner consumes in the present generation, or has let go."""
    owner = s.owner[p]
    return owner is not None and (
        s.orphan[p] or s.via[owner] is None or s.at[owner] == s.generation
    )


@lemma
def epochs_are_won_by_one(s: CentralCoordinator) -> bool:
    """No epoch was won by two, and the present one is its winner's (the election's lemma)."""
    return won_by_one(s.election)  # type: ignore[no-any-return]


@lemma
def one_request_at_a_time(s: CentralCoordinator) -> bool:
    """What is on its way is the one request outstanding, or its answer; and commits."""
    return all(
        all(
            s.via[m] is not None
            and (not s.link[m] or s.books[m] is not None)
            and (s.books[m] is None or (s.asks(m, x.kind) and s.books[m] == s.via[m]))
            for x in s.down[m]
        )
        and all(
            (x.kind == Kind.REGISTER and is_registering(s, m))
            or (x.kind == Kind.COMMIT and s.books[m] is not None)
            or (x.kind != Kind.REGISTER and is_the_answer(s, m, x.kind))
            for x in s.up[m]
        )
        for m in Member
    )


def is_registering(s: CentralCoordinator, m: Member) -> bool:
    """The member has connected, and nobody has handled its Register yet."""
    return s.via[m] is not None and s.books[m] is None and len(s.down[m]) == 0


def is_the_answer(s: CentralCoordinator, m: Member, kind: Kind) -> bool:
    """
    A message of this kind answers what was asked last of a member.

    Proofs know no order, and of a message that was taken not that it was the only one like it.
    """
    return (
        s.books[m] is not None
        and len(s.down[m]) == 0
        and (s.asks(m, kind) or s.asked[m] == Asked.NONE)
    )


@lemma
def books_are_true(s: CentralCoordinator) -> bool:
    """Who is in a coordinator's books is connected to it, or its connection is gone."""
    return all(
        (s.via[m] is not None or (not s.link[m] and s.term[m] == 0))
        and (not s.link[m] or s.term[m] == 0 or s.books[m] is not None)
        and (s.books[m] is None or not s.link[m] or s.books[m] == s.via[m])
        and (
            s.books[m] is not None
            or (s.asked[m] == Asked.NONE and s.acked[m] == 0 and not s.stopped[m])
        )
        for m in Member
    )


@lemma
def nobody_follows_an_older_epoch(s: CentralCoordinator) -> bool:
    """Who is told anything, or may be, has heard of no later epoch than that of who tells it."""
    return all(
        (s.books[m] is None or not s.link[m] or s.seen[m] <= s.term[m])
        and (len(s.down[m]) == 0 or s.seen[m] <= s.term[m])
        for m in Member
    )


@lemma
def who_does_not_lead_has_noted_nothing(s: CentralCoordinator) -> bool:
    """A broker that does not coordinate has no offsets to write, and writes nothing."""
    return all(
        s.election.leads[b]
        or (s.noted[b, p] == 0 and s.sent[b, p] == 0 and s.write[b] == Write.NONE)
        for b in Broker
        for p in Partition
    )


@lemma
def generations_have_been(s: CentralCoordinator) -> bool:
    """No generation lies ahead, and the first one is not before the first owners."""
    return all(
        s.acked[m] <= s.generation
        and s.at[m] <= s.generation
        and all(x.generation <= s.generation for x in s.down[m])
        and all(x.generation <= s.generation for x in s.up[m])
        for m in Member
    ) and all(
        s.generation > 0
        or (
            s.phase[b] != Phase.STARTING
            and (s.phase[b] != Phase.WRITING or s.write[b] != Write.DONE)
        )
        for b in Broker
    )


def is_told_in_order(s: CentralCoordinator, m: Member) -> bool:
    """No Start of a member is of an earlier generation, and no other answer of a later one."""
    return (
        all(x.kind != Kind.START or s.at[m] <= x.generation for x in s.down[m])
        and all(x.kind != Kind.START or s.at[m] <= x.generation for x in s.up[m])
        and all(
            x.kind == Kind.START or x.generation <= s.at[m] or s.via[m] is None for x in s.up[m]
        )
        and (s.via[m] is not None or s.at[m] == 0)
    )


@lemma
def nobody_goes_back(s: CentralCoordinator) -> bool:
    """No Start is of an earlier generation, and no other answer of a later one."""
    return all(
        is_told_in_order(s, m) and (s.books[m] is not None or not s.link[m] or s.at[m] == 0)
        for m in Member
    )


@lemma
def starts_are_told_once(s: CentralCoordinator) -> bool:
    """Who is told the present Start has not started, and who has started has said so, or will."""
    return (
        all(
            all(
                x.kind != Kind.START or x.generation != s.generation or s.at[m] < s.generation
                for x in s.down[m]
            )
            for m in Member
        )
        and all(
            s.phase[b] != Phase.STARTING
            or s.books[m] != b
            or not s.link[m]
            or s.at[m] != s.generation
            or s.asked[m] == Asked.START
            or s.follows(m)
            for m in Member
            for b in Broker
        )
        and all(
            s.phase[b] != Phase.WRITING
            or s.write[b] != Write.DONE
            or s.books[m] != b
            or not s.link[m]
            or s.at[m] != s.generation
            for m in Member
            for b in Broker
        )
    )


@lemma
def who_fetches_owns(s: CentralCoordinator) -> bool:
    """Who fetches a partition, or is about to, is the owner that ZooKeeper names."""
    return all(
        (not s.fetching[m, p] or (s.via[m] is not None and s.owner[p] == m and not s.orphan[p]))
        and (
            not s.given[m, p]
            or all(
                x.kind != Kind.START
                or (s.owner[p] == m and not s.orphan[p] and x.generation == s.generation)
                for x in s.down[m]
            )
        )
        for m in Member
        for p in Partition
    )


@lemma
def what_is_noted_is_its_owners(s: CentralCoordinator) -> bool:
    """An offset that is still to be written is of a member that has started, or is gone."""
    return all(
        not present(s, b)
        or (s.noted[b, p] <= s.committed[p] and s.sent[b, p] <= s.committed[p])
        or owner_has_started_or_is_gone(s, p)
        for b in Broker
        for p in Partition
    )


@lemma
def who_has_stopped_does_not_fetch(s: CentralCoordinator) -> bool:
    """Who has answered a Stop fetches nothing, and has no Start to come."""
    return all(
        not s.fetching[m, p] or all(x.kind != Kind.STOP for x in s.up[m])
        for m in Member
        for p in Partition
    ) and all(
        (s.phase[b] != Phase.STOPPING and s.phase[b] != Phase.WRITING)
        or s.books[m] != b
        or (
            (
                (not s.stopped[m] and s.phase[b] == Phase.STOPPING)
                or s.asked[m] == Asked.NONE
                or s.asked[m] == Asked.PING
            )
            and (not s.stopped[m] or all(not s.fetching[m, p] for p in Partition))
        )
        for m in Member
        for b in Broker
    )


@lemma
def offsets_are_of_finished_records(s: CentralCoordinator) -> bool:
    """Whatever offset is noted, reported or given, the records before it are finished."""
    return all(
        s.reported[m, p] <= s.finished[p]
        and s.begin[m, p] <= s.finished[p]
        and all(offset <= s.finished[p] for offset in s.committing[m, p])
        for m in Member
        for p in Partition
    ) and all(
        s.noted[b, p] <= s.finished[p] and s.sent[b, p] <= s.finished[p]
        for b in Broker
        for p in Partition
    )


@lemma
def who_is_started_does_not_follow_yet(s: CentralCoordinator) -> bool:
    """A Start of the present coordinator is the present one, and is not yet acknowledged."""
    return all(
        not present(s, b)
        or s.books[m] != b
        or s.asked[m] != Asked.START
        or (
            not s.follows(m)
            and all(x.generation == s.generation for x in s.down[m])
            and all(x.kind != Kind.START or x.generation == s.generation for x in s.up[m])
        )
        for m in Member
        for b in Broker
    )


@lemma
def one_write_at_a_time(s: CentralCoordinator) -> bool:
    """Owners are on their way while the phase says so; then, or served, nothing else is."""
    return all(
        (s.write[b] != Write.OWNERS or s.phase[b] == Phase.WRITING)
        and (s.write[b] != Write.OFFSETS or s.phase[b] != Phase.WRITING)
        and (s.write[b] != Write.NONE or s.phase[b] != Phase.WRITING)
        and all(
            s.heir[m, p] != b
            or (s.write[b] == Write.OWNERS and all(n == m or s.heir[n, p] != b for n in Member))
            for m in Member
            for p in Partition
        )
        for b in Broker
    )


@lemma
def nobody_fetches_while_owners_are_written(s: CentralCoordinator) -> bool:
    """Until ZooKeeper has written them, every owner is gone or has stopped, and all is stored."""
    return all(
        not present(s, b)
        or s.write[b] != Write.OWNERS
        or (
            s.noted[b, p] <= s.committed[p]
            and s.sent[b, p] == 0
            and s.is_free(p, b)
            and all(
                not s.fetching[m, p]
                and (not s.given[m, p] or all(x.kind != Kind.START for x in s.down[m]))
                for m in Member
            )
        )
        for b in Broker
        for p in Partition
    )


@lemma
def what_is_missed_is_remembered(s: CentralCoordinator) -> bool:
    """Once owners are sent, what is wanted is given away, or the group will be queued again."""
    return all(
        not present(s, b)
        or s.dirty[b]
        or not s.wanted(p, b)
        or (
            (s.phase[b] != Phase.STARTING or s.is_owned(p, b))
            and (s.write[b] != Write.OWNERS or s.assigned[b, p])
            and (s.write[b] != Write.DONE or s.phase[b] != Phase.WRITING or s.is_owned(p, b))
        )
        for b in Broker
        for p in Partition
    ) and all(
        not present(s, b) or s.dirty[b] or s.heir[m, p] != b or s.serves(m, p, b)
        for m in Member
        for b in Broker
        for p in Partition
    )


LEMMAS = (
    epochs_are_won_by_one, one_request_at_a_time, books_are_true, nobody_follows_an_older_epoch,
    who_does_not_lead_has_noted_nothing, who_has_stopped_does_not_fetch,
    offsets_are_of_finished_records,
    who_is_started_does_not_follow_yet, one_write_at_a_time, what_is_missed_is_remembered,
)  # fmt: skip
"""Lemmas of the promises that hold without the assumption `lease`."""
LEMMAS_OF_THE_LEASE = (
    generations_have_been, nobody_goes_back, starts_are_told_once, who_fetches_owns,
    what_is_noted_is_its_owners, nobody_fetches_while_owners_are_written,
)  # fmt: skip
"""Further lemmas, of the promises that need the assumption `lease`."""
