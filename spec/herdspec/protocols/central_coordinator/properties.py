"""
The properties of the central coordinator: the contract's sentences, each under its name.

`exclusive` and `a_start_is_at_the_stored_offset` hold under the assumption `lease` alone, which
`CENTRAL_COORDINATOR` makes; `exclusive_fenced` and all the others hold without it, too
(`without_lease`). All are proved for any number of members, partitions and brokers.
"""

from __future__ import annotations

from functools import cache

from herdspec import Specification, always, leads_to, sometimes, specification, step
from herdspec.protocols.central_coordinator.lemmas import LEMMAS as LEMMAS
from herdspec.protocols.central_coordinator.lemmas import LEMMAS_OF_THE_LEASE as LEMMAS_OF_THE_LEASE
from herdspec.protocols.central_coordinator.lemmas import present as present
from herdspec.protocols.central_coordinator.spec import (
    Asked,
    CentralCoordinator,
    Kind,
    Member,
    Partition,
    Phase,
    Write,
)
from herdspec.protocols.election.spec import Broker

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


@step
def what_is_stored_is_of_the_present_epoch(
    before: CentralCoordinator, after: CentralCoordinator
) -> bool:
    """Owners and offsets change only by who has taken up the current epoch."""
    return (
        (
            before.generation == after.generation
            and all(before.owner[p] == after.owner[p] for p in Partition)
        )
        or any(
            before.write[b] == Write.OWNERS
            and after.write[b] == Write.DONE
            and before.election.token[b] == before.election.epoch
            for b in Broker
        )
    ) and all(
        before.committed[p] == after.committed[p]
        or any(
            before.sent[b, p] == after.committed[p]
            and before.election.token[b] == before.election.epoch
            for b in Broker
        )
        for p in Partition
    )


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
def epochs_never_go_back(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """No epoch is followed by an older one."""
    return before.election.epoch <= after.election.epoch


@step
def generations_never_go_back(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """No generation is followed by an older one."""
    return before.generation <= after.generation


@step
def members_follow_no_older_epoch(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """A consumer follows no coordinator of an older epoch than it has followed before."""
    return all(before.seen[m] <= after.seen[m] for m in Member)


@step
def committed_offsets_never_go_back(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """No committed offset is followed by a smaller one."""
    return all(before.committed[p] <= after.committed[p] for p in Partition)


@always
def only_finished_is_committed(s: CentralCoordinator) -> bool:
    """Nothing is committed of a record before which one is unfinished."""
    return all(s.committed[p] <= s.finished[p] for p in Partition)


@always
def nobody_is_past_the_unfinished(s: CentralCoordinator) -> bool:
    """Nobody is at a record before which one is unfinished."""
    return all(s.position[m, p] <= s.finished[p] for m in Member for p in Partition)


def stable(s: CentralCoordinator, b: Broker) -> bool:
    """The broker coordinates, and has the group in no queue."""
    return (
        s.election.leads[b] and s.election.token[b] == s.election.epoch and s.phase[b] == Phase.IDLE
    )


@always
def a_start_is_at_the_stored_offset(s: CentralCoordinator) -> bool:
    """A Start names the stored offset: what was finished and committed is not delivered again."""
    return all(
        not s.given[m, p]
        or s.begin[m, p] == s.committed[p]
        or not any(x.kind == Kind.START for x in s.down[m])
        for m in Member
        for p in Partition
    )


@step
def a_start_says_what_is_stored(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """
    Who is told to start owns what it is given, and is told the stored offsets.

    Its coordinator sends that once it has heard that the owners are written.
    """
    return all(
        before.asked[m] == Asked.START
        or after.asked[m] != Asked.START
        or (
            all(before.books[m] != b or before.phase[b] != Phase.WRITING for b in Broker)
            and all(
                not after.given[m, p]
                or (
                    before.owner[p] == m
                    and not before.orphan[p]
                    and after.begin[m, p] == before.committed[p]
                )
                for p in Partition
            )
        )
        for m in Member
    )


@always
def who_does_not_lead_commands_nobody(s: CentralCoordinator) -> bool:
    """Who knows that it was deposed has closed every channel."""
    return all(s.books[m] != b or s.election.leads[b] for m in Member for b in Broker)


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
        and (s.generation == 0 or all(s.books[m] != b or s.follows(m) for m in Member))
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


@sometimes
def a_broken_connection_is_unnoticed(s: CentralCoordinator) -> bool:
    """A connection is broken, and neither of its ends has learnt of it."""
    return any(s.books[m] is not None and s.via[m] is not None and not s.link[m] for m in Member)


@sometimes
def a_member_is_counted_that_has_given_up(s: CentralCoordinator) -> bool:
    """A member has given up, and its coordinator counts it as a live one."""
    return any(s.books[m] is not None and s.via[m] is None for m in Member)


@sometimes
def an_expired_coordinator_goes_on(s: CentralCoordinator) -> bool:
    """A coordinator's session has expired, and it does not know."""
    return any(s.election.leads[b] and s.seat != b for b in Broker)


@sometimes
def an_epoch_may_be_taken_up_again(s: CentralCoordinator) -> bool:
    """A coordinator that was in doubt has stepped down, and its node stands."""
    return any(
        not s.election.leads[b]
        and s.election.won[b] > 0
        and s.election.token[b] == s.election.won[b]
        for b in Broker
    )


@sometimes
def a_partition_is_not_known_yet(s: CentralCoordinator) -> bool:
    """A partition has appeared, and the coordinator was not told of it."""
    return any(
        s.election.leads[b] and s.exists[p] and not s.knows[b, p] for b in Broker for p in Partition
    )


@sometimes
def a_rebalance_fails_before_the_handover(s: CentralCoordinator) -> bool:
    """A rebalance has failed before any owner was written."""
    return any(s.phase[b] == Phase.FAILED for b in Broker) and s.generation == 0


@sometimes
def a_rebalance_fails_after_the_handover(s: CentralCoordinator) -> bool:
    """A rebalance has failed whose owners are written, and whose Start is on its way."""
    return any(
        s.phase[b] == Phase.FAILED and s.books[m] == b and s.asked[m] == Asked.START
        for b in Broker
        for m in Member
    )


@sometimes
def a_commit_is_on_its_way(s: CentralCoordinator) -> bool:
    """A user's commit of some record is on its way."""
    return any(any(offset > 0 for offset in s.committing[m, p]) for m in Member for p in Partition)


@sometimes
def who_has_stopped_is_pinged(s: CentralCoordinator) -> bool:
    """A member that has stopped is asked whether it lives."""
    return any(
        s.phase[b] == Phase.STOPPING
        and s.books[m] == b
        and s.stopped[m]
        and s.asked[m] == Asked.PING
        for b in Broker
        for m in Member
    )


@sometimes
def who_has_started_is_pinged(s: CentralCoordinator) -> bool:
    """A member that has started is asked whether it lives, before the rebalance has ended."""
    return any(
        s.phase[b] == Phase.STARTING
        and s.books[m] == b
        and s.follows(m)
        and s.asked[m] == Asked.PING
        for b in Broker
        for m in Member
    )


@sometimes
def a_ping_is_answered_with_an_offset(s: CentralCoordinator) -> bool:
    """The answer to a Ping tells how far the member is."""
    return any(
        s.reported[m, p] > 0 and any(x.kind == Kind.PING for x in s.up[m])
        for m in Member
        for p in Partition
    )


@sometimes
def a_change_is_remembered(s: CentralCoordinator) -> bool:
    """Something has changed while the flag was set, and is remembered."""
    return any(s.dirty[b] for b in Broker)


@sometimes
def owners_are_written_unheard(s: CentralCoordinator) -> bool:
    """ZooKeeper has written the owners, and their coordinator has not heard of it."""
    return any(s.phase[b] == Phase.WRITING and s.write[b] == Write.DONE for b in Broker)


@sometimes
def a_write_of_the_past_is_refused(s: CentralCoordinator) -> bool:
    """ZooKeeper has refused the write of a coordinator whose epoch is over."""
    return any(
        s.write[b] == Write.REFUSED and s.election.token[b] < s.election.epoch for b in Broker
    )


PROMISES = (
    exclusive, exclusive_fenced, only_the_present_epoch_writes,
    what_is_stored_is_of_the_present_epoch, one_coordinator, epochs_never_go_back,
    generations_never_go_back, members_follow_no_older_epoch, committed_offsets_never_go_back,
    only_finished_is_committed, nobody_is_past_the_unfinished, a_start_is_at_the_stored_offset,
    a_start_says_what_is_stored, who_does_not_lead_commands_nobody, complete,
)  # fmt: skip
OF_ITS_OWN = (a_start_says_what_is_stored, who_does_not_lead_commands_nobody)
"""Promises about its messages, beside the contract; traces are judged by them, too."""
OF_THE_LEASE = (exclusive, a_start_is_at_the_stored_offset)
"""Properties that are promised under the assumption `lease` alone."""
POSSIBLE = (
    a_partition_is_consumed, offsets_are_stored, two_coordinators_believe_in_themselves,
    a_broken_connection_is_unnoticed, a_member_is_counted_that_has_given_up,
    an_expired_coordinator_goes_on, an_epoch_may_be_taken_up_again, a_partition_is_not_known_yet,
    a_rebalance_fails_before_the_handover, a_rebalance_fails_after_the_handover,
    a_commit_is_on_its_way, who_has_stopped_is_pinged, who_has_started_is_pinged,
    a_ping_is_answered_with_an_offset, a_change_is_remembered, owners_are_written_unheard,
    a_write_of_the_past_is_refused,
)  # fmt: skip

CENTRAL_COORDINATOR = specification(
    CentralCoordinator, *PROMISES, *POSSIBLE, *LEMMAS, *LEMMAS_OF_THE_LEASE
)
HELD = specification(CentralCoordinator, *PROMISES, settles)
"""The verified protocol and its promises, without the lemmas."""
NOTICING = specification(CentralCoordinator, *PROMISES, *POSSIBLE, settles)
"""All that should notice a mistake in the protocol, without what only its proof needs."""


def gone_at_once(self: CentralCoordinator, m: Member) -> bool:
    """Whoever is in no books is taken for gone, though it may fetch on."""
    return True


@cache
def without_lease() -> Specification:
    """The protocol without the assumption, and what it promises all the same."""
    promised = (p for p in PROMISES if p not in OF_THE_LEASE)
    made = specification(CentralCoordinator, *promised, *POSSIBLE, *LEMMAS)
    return made.replace("WithoutLease", lease_is_over=gone_at_once)
