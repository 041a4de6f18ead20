"""
What the central coordinator promises: the contract's sentences, each under its name.

`exclusive` holds under the assumption `lease` alone, which `CENTRAL_COORDINATOR` makes;
`exclusive_fenced` and all the others hold without it, too (`WITHOUT_LEASE`).
"""

from __future__ import annotations

from herdspec import always, lemma, leads_to, sometimes, specification, step
from herdspec.protocols.central_coordinator import (
    Asked,
    CentralCoordinator,
    Kind,
    Member,
    Partition,
    Phase,
)
from herdspec.protocols.election import Broker
from herdspec.protocols.election_contract import epochs_are_won_by_one as won_by_one

# ── The contract ────────────────────────────────────────────────────────────────────────────


@always
def exclusive(s: CentralCoordinator) -> bool:
    """At no time do two members consume the same partition."""
    return all(
        not (s.fetching[a, p] and s.fetching[b, p])
        for p in Partition
        for a in Member
        for b in Member
        if a != b
    )


@always
def exclusive_fenced(s: CentralCoordinator) -> bool:
    """An offset is taken from the partition's owner in the present generation only."""
    return not s.stale_commit_accepted


@always
def only_the_present_epoch_writes(s: CentralCoordinator) -> bool:
    """A write is accepted only from the coordinator of the current epoch."""
    return not s.election.stale_write_accepted


@always
def one_coordinator(s: CentralCoordinator) -> bool:
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


@step
def monotone(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """Generations, epochs and committed offsets never go back."""
    return (
        before.generation <= after.generation
        and before.election.epoch <= after.election.epoch
        and all(before.committed[p] <= after.committed[p] for p in Partition)
    )


@always
def nothing_skipped(s: CentralCoordinator) -> bool:
    """Nobody is at, and nothing is committed of, a record before which one is unfinished."""
    return all(s.committed[p] <= s.finished[p] for p in Partition) and all(
        s.position[m, p] <= s.finished[p] for m in Member for p in Partition
    )


def stable(s: CentralCoordinator, b: Broker) -> bool:
    """The broker coordinates, and has the group in no queue."""
    return (
        s.election.leads[b] and s.election.token[b] == s.election.epoch and s.phase[b] == Phase.IDLE
    )


@always
def complete(s: CentralCoordinator) -> bool:
    """Once the group is stable, each partition of interest is a live member's, who was told so."""
    return all(
        not stable(s, b) or not s.wanted(p, b) or (s.is_owned(p, b) and owner_follows(s, p))
        for b in Broker
        for p in Partition
    )


def owner_follows(s: CentralCoordinator, p: Partition) -> bool:
    """The partition's owner has acknowledged the present Start."""
    owner = s.owner[p]
    return owner is not None and s.follows(owner)


@leads_to
def settles(s: CentralCoordinator) -> tuple[bool, bool]:
    """Without further faults the group becomes stable, knows every partition, and stays so."""
    return True, any(
        stable(s, b)
        and all(s.knows[b, p] or not s.exists[p] for p in Partition)
        and all(s.books[m] != b or s.follows(m) for m in Member)
        and all(not s.wanted(p, b) or any(s.fetching[m, p] for m in Member) for p in Partition)
        for b in Broker
    )


# ── What must be possible ───────────────────────────────────────────────────────────────────


@sometimes
def a_partition_is_consumed(s: CentralCoordinator) -> bool:
    """A member consumes a partition."""
    return any(s.fetching[m, p] for m in Member for p in Partition)


@sometimes
def offsets_are_stored(s: CentralCoordinator) -> bool:
    """An offset is stored."""
    return any(s.committed[p] > 0 for p in Partition)


@sometimes
def two_coordinators_believe_in_themselves(s: CentralCoordinator) -> bool:
    """Two brokers coordinate, each in an epoch of its own."""
    return any(
        s.election.leads[a] and s.election.leads[b] for a in Broker for b in Broker if a != b
    )


# ── Lemmas: with them the promises are inductive ────────────────────────────────────────────


@lemma
def epochs_are_won_by_one(s: CentralCoordinator) -> bool:
    """No epoch was won by two, and the present one is its winner's (the election's lemma)."""
    return won_by_one(s.election)


@lemma
def one_request_at_a_time(s: CentralCoordinator) -> bool:
    """What is on its way over a connection is the one request outstanding, or its answer."""
    return all(
        all(
            s.asks(m, x.kind) and s.link[m] and s.via[m] is not None and s.books[m] == s.via[m]
            for x in s.down[m]
        )
        and all(
            s.link[m]
            and (
                x.kind == Kind.COMMIT
                or (x.kind == Kind.REGISTER and s.books[m] is None)
                or (x.kind != Kind.REGISTER and s.asks(m, x.kind) and len(s.down[m]) == 0)
            )
            for x in s.up[m]
        )
        for m in Member
    )


@lemma
def books_are_true(s: CentralCoordinator) -> bool:
    """Who is in a coordinator's books is connected to it, or its connection is gone."""
    return all(
        (not s.link[m] or s.via[m] is not None)
        and (s.books[m] is None or not s.link[m] or s.books[m] == s.via[m])
        and (
            s.books[m] is not None
            or (s.asked[m] == Asked.NONE and s.acked[m] == 0 and not s.stopped[m])
        )
        and all(s.books[m] != b or s.election.leads[b] for b in Broker)
        for m in Member
    )


@lemma
def who_does_not_lead_does_nothing(s: CentralCoordinator) -> bool:
    """A broker that does not coordinate has no group under way, and nothing noted."""
    return all(
        s.election.leads[b]
        or (
            s.phase[b] == Phase.IDLE
            and not s.dirty[b]
            and all(not s.knows[b, p] and s.noted[b, p] == 0 for p in Partition)
        )
        for b in Broker
    )


@lemma
def who_fetches_owns(s: CentralCoordinator) -> bool:
    """Who fetches a partition, or is about to, is the owner that ZooKeeper names."""
    return all(
        (not s.fetching[m, p] or (s.via[m] is not None and s.owner[p] == m and not s.orphan[p]))
        and (
            not s.given[m, p]
            or not any(x.kind == Kind.START for x in s.down[m])
            or (s.owner[p] == m and not s.orphan[p] and s.begin[m, p] <= s.finished[p])
        )
        for m in Member
        for p in Partition
    )


@lemma
def who_has_stopped_does_not_fetch(s: CentralCoordinator) -> bool:
    """Who has answered a Stop fetches nothing, and has no Start to come."""
    return all(
        not any(s.fetching[m, p] for p in Partition)
        or (
            not any(x.kind == Kind.STOP for x in s.up[m])
            and all(
                s.phase[b] != Phase.STOPPING or s.books[m] != b or not s.stopped[m] for b in Broker
            )
        )
        for m in Member
    ) and all(
        s.phase[b] != Phase.STOPPING
        or s.books[m] != b
        or not s.stopped[m]
        or s.asked[m] == Asked.NONE
        for m in Member
        for b in Broker
    )


@lemma
def offsets_are_of_finished_records(s: CentralCoordinator) -> bool:
    """Whatever offset is noted, reported or given, the records before it are finished."""
    return all(
        s.reported[m, p] <= s.finished[p] and s.begin[m, p] <= s.finished[p]
        for m in Member
        for p in Partition
    ) and all(s.noted[b, p] <= s.finished[p] for b in Broker for p in Partition)


@lemma
def generations_have_been(s: CentralCoordinator) -> bool:
    """No generation lies ahead."""
    return all(
        s.acked[m] <= s.generation
        and s.at[m] <= s.generation
        and s.barred[m] <= s.generation
        and all(x.generation <= s.generation for x in s.down[m])
        and all(x.generation <= s.generation for x in s.up[m])
        for m in Member
    )


def present(s: CentralCoordinator, b: Broker) -> bool:
    """The broker coordinates in the present epoch."""
    return s.election.leads[b] and s.election.token[b] == s.election.epoch


@lemma
def the_flag_is_true(s: CentralCoordinator) -> bool:
    """While nothing is queued, every member follows the present generation."""
    return all(
        not present(s, b)
        or (
            (
                s.phase[b] != Phase.IDLE
                or all(
                    s.books[m] != b or (s.follows(m) and s.asked[m] in (Asked.NONE, Asked.PING))
                    for m in Member
                )
            )
            and (
                s.phase[b] == Phase.QUEUED
                or s.phase[b] == Phase.STOPPING
                or s.dirty[b]
                or all(not s.wanted(p, b) or s.is_owned(p, b) for p in Partition)
            )
            and all(
                s.books[m] != b
                or s.asked[m] != Asked.START
                or (
                    not s.follows(m)
                    and all(x.generation == s.generation for x in s.down[m])
                    and all(x.generation == s.generation or x.kind != Kind.START for x in s.up[m])
                )
                for m in Member
            )
        )
        for b in Broker
    )


PROMISES = (
    exclusive, exclusive_fenced, only_the_present_epoch_writes, one_coordinator, monotone,
    nothing_skipped, complete,
)  # fmt: skip
POSSIBLE = (
    a_partition_is_consumed, offsets_are_stored, two_coordinators_believe_in_themselves,
)  # fmt: skip
LEMMAS = (
    epochs_are_won_by_one, one_request_at_a_time, books_are_true, who_does_not_lead_does_nothing,
    who_fetches_owns, who_has_stopped_does_not_fetch, offsets_are_of_finished_records,
    generations_have_been, the_flag_is_true,
)  # fmt: skip

CENTRAL_COORDINATOR = specification(CentralCoordinator, *PROMISES, *POSSIBLE, *LEMMAS)
