"""
Promises that the central coordinator does not make: each would notice mistakes that survive.

`central_coordinator/accepted_mutants.py` names them as reasons; `test_mutate_central.py` shows that
each holds, and kills what it is said to kill.
"""

from __future__ import annotations

from herdspec import always, sometimes, step
from herdspec.language.surface import Property
from herdspec.protocols.central_coordinator import accepted_mutants as why
from herdspec.protocols.central_coordinator.properties import stable
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


def leads_on(before: CentralCoordinator, after: CentralCoordinator, b: Broker) -> bool:
    """The broker coordinates before and after a step."""
    return before.election.leads[b] and after.election.leads[b]


@step
def phases_in_order(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """A rebalance goes from phase to phase in order, and none begins without members."""
    return all(
        not leads_on(before, after, b)
        or before.phase[b] == after.phase[b]
        or (before.phase[b] == Phase.IDLE and after.phase[b] == Phase.QUEUED)
        or (before.phase[b] == Phase.QUEUED and after.phase[b] == Phase.IDLE)
        or (
            before.phase[b] == Phase.QUEUED
            and after.phase[b] == Phase.STOPPING
            and any(before.books[m] == b for m in Member)
        )
        or (
            before.phase[b] == Phase.STOPPING
            and (after.phase[b] == Phase.IDLE or after.phase[b] == Phase.FAILED)
        )
        or (
            before.phase[b] == Phase.STOPPING
            and after.phase[b] == Phase.WRITING
            and any(before.books[m] == b for m in Member)
        )
        or (
            before.phase[b] == Phase.WRITING
            and after.phase[b] in (Phase.STARTING, Phase.STOPPING, Phase.FAILED)
        )
        or (before.phase[b] == Phase.STARTING and after.phase[b] != Phase.STOPPING)
        or (before.phase[b] == Phase.FAILED and after.phase[b] == Phase.QUEUED)
        for b in Broker
    )


@step
def who_takes_up_begins_anew(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """Who takes an epoch up reads the topics, and queues the group."""
    return all(
        before.election.leads[b]
        or not after.election.leads[b]
        or (
            after.phase[b] == Phase.QUEUED
            and all(after.knows[b, p] == after.exists[p] for p in Partition)
        )
        for b in Broker
    )


@step
def changes_queue_the_group(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """Whoever comes or goes is a reason for a rebalance, and nothing else but new partitions is."""
    return all(
        not leads_on(before, after, b)
        or (
            (
                all((before.books[m] == b) == (after.books[m] == b) for m in Member)
                or after.phase[b] == Phase.QUEUED
                or after.dirty[b]
            )
            and (
                before.phase[b] != Phase.IDLE
                or after.phase[b] == Phase.IDLE
                or any((before.books[m] == b) != (after.books[m] == b) for m in Member)
                or any(before.knows[b, p] != after.knows[b, p] for p in Partition)
            )
            and all(not before.knows[b, p] or after.knows[b, p] for p in Partition)
        )
        for b in Broker
    )


@step
def a_rebalance_begins_with_nothing_to_remember(
    before: CentralCoordinator, after: CentralCoordinator
) -> bool:
    """What changed before a rebalance began, or has queued it, is not remembered any more."""
    return all(
        before.phase[b] == after.phase[b]
        or not after.dirty[b]
        or (after.phase[b] != Phase.STOPPING and before.phase[b] != Phase.STARTING)
        or before.phase[b] == Phase.WRITING
        or after.phase[b] == Phase.FAILED
        for b in Broker
    )


@always
def who_is_idle_remembers_nothing(s: CentralCoordinator) -> bool:
    """Where the flag is reset, no change is remembered."""
    return all(s.phase[b] != Phase.IDLE or not s.dirty[b] for b in Broker)


@always
def who_does_not_lead_rests(s: CentralCoordinator) -> bool:
    """A broker that does not coordinate knows nothing, and has nothing to do."""
    return all(
        s.election.leads[b]
        or (
            s.phase[b] == Phase.IDLE
            and not s.dirty[b]
            and all(not s.knows[b, p] and s.noted[b, p] == 0 for p in Partition)
        )
        for b in Broker
    )


@always
def only_what_exists_is_known(s: CentralCoordinator) -> bool:
    """Nobody knows of a partition that is not there, and none has a record."""
    return all(
        s.exists[p] or (s.end[p] == 0 and all(not s.knows[b, p] for b in Broker)) for p in Partition
    )


@step
def records_one_by_one(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """Records are appended, and finished, one by one; generations are counted up by one."""
    return (
        all(
            after.end[p] <= before.end[p] + 1 and after.finished[p] <= before.finished[p] + 1
            for p in Partition
        )
        and after.generation <= before.generation + 1
    )


@always
def no_record_is_finished_before_it_is_there(s: CentralCoordinator) -> bool:
    """What was finished was appended before."""
    return all(s.finished[p] <= s.end[p] for p in Partition)


@always
def who_does_not_fetch_is_nowhere(s: CentralCoordinator) -> bool:
    """Who does not fetch a partition has no position in it."""
    return all(s.fetching[m, p] or s.position[m, p] == 0 for m in Member for p in Partition)


@always
def nothing_travels_without_a_connection(s: CentralCoordinator) -> bool:
    """What is on its way to an end that is closed is gone; a Register is of no generation."""
    return all(
        (s.via[m] is not None or (not s.link[m] and len(s.down[m]) == 0 and s.term[m] == 0))
        and all(
            s.via[m] is not None or (not s.given[m, p] and s.begin[m, p] == 0) for p in Partition
        )
        and (s.books[m] is None or not s.link[m] or s.books[m] == s.via[m])
        and (
            s.books[m] is not None
            or all(
                x.kind == Kind.REGISTER and x.generation == 0 and s.via[m] is not None
                for x in s.up[m]
            )
        )
        and all(
            (s.reported[m, p] == 0 or any(x.kind in (Kind.PING, Kind.STOP) for x in s.up[m]))
            and (len(s.committing[m, p]) > 0) == any(x.kind == Kind.COMMIT for x in s.up[m])
            for p in Partition
        )
        and all(
            not s.link[m] or s.books[m] != b or s.term[m] == s.election.token[b] for b in Broker
        )
        for m in Member
    )


@always
def who_begins_anew_has_no_generation(s: CentralCoordinator) -> bool:
    """Who is not connected, or has just registered, has heard of no generation."""
    return all(
        (s.via[m] is not None and (s.books[m] is not None or not s.link[m]))
        or (s.at[m] == 0 and s.barred[m] == 0)
        for m in Member
    )


@always
def who_is_struck_is_forgotten(s: CentralCoordinator) -> bool:
    """Of who is in no books, nothing is remembered."""
    return all(s.books[m] is not None or (not s.stopped[m] and s.acked[m] == 0) for m in Member)


@always
def the_seat_is_the_winners(s: CentralCoordinator) -> bool:
    """Who has won an epoch has the seat, until it has lost it."""
    return all((s.seat == b) == (s.election.won[b] > 0) for b in Broker)


@step
def answers_are_noted(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """An owner's offset is noted when its answer, or its commit, is read."""
    return all(
        not leads_on(before, after, b)
        or before.books[m] != b
        or after.books[m] != b
        or len(before.up[m]) <= len(after.up[m])
        or before.up[m][0].kind == Kind.START
        or before.up[m][0].generation != before.generation
        or before.owner[p] != m
        or before.orphan[p]
        or (
            before.committing[m, p][0] <= after.noted[b, p]
            if before.up[m][0].kind == Kind.COMMIT
            else before.reported[m, p] <= after.noted[b, p]
        )
        for b in Broker
        for m in Member
        for p in Partition
    )


@step
def answers_are_true(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """Who answers tells how far it is, and heeds the epoch; only who fetches commits."""
    return all(
        after.via[m] is None
        or (
            (len(after.down[m]) >= len(before.down[m]) or after.seen[m] == before.term[m])
            and (
                len(after.up[m]) <= len(before.up[m])
                or after.up[m][-1].kind == Kind.REGISTER
                or (before.link[m] and says_how_far_it_is(before, after, m))
            )
        )
        for m in Member
    )


def says_how_far_it_is(before: CentralCoordinator, after: CentralCoordinator, m: Member) -> bool:
    """What a member has sent is an answer, or a commit of who fetches, and true."""
    if after.up[m][-1].kind == Kind.COMMIT:
        return any(before.fetching[m, p] for p in Partition) and all(
            after.committing[m, p][-1] == before.position[m, p] for p in Partition
        )
    return len(after.down[m]) < len(before.down[m]) and (
        after.up[m][-1].kind == Kind.START
        or all(after.reported[m, p] == before.position[m, p] for p in Partition)
    )


@always
def one_stop_in_a_rebalance(s: CentralCoordinator) -> bool:
    """Who has answered the Stop is not stopped again, nor is its answer there any more."""
    return all(
        s.asked[m] != Asked.STOP
        or s.books[m] != b
        or s.phase[b] != Phase.STOPPING
        or not s.stopped[m]
        for m in Member
        for b in Broker
    )


@always
def an_answer_is_awaited(s: CentralCoordinator) -> bool:
    """A request or an answer that is on its way is the one that is outstanding."""
    return all(
        all(s.asks(m, x.kind) or s.books[m] is None for x in s.down[m])
        and len(s.down[m]) < 2
        and all(
            x.kind == Kind.REGISTER
            or x.kind == Kind.COMMIT
            or (s.asks(m, x.kind) and len(s.down[m]) == 0)
            for x in s.up[m]
        )
        for m in Member
    )


@step
def what_is_wanted_is_handed_over(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """Owners are sent for just what the coordinator knows and somebody is interested in."""
    return all(
        before.write[b] == after.write[b]
        or after.write[b] != Write.OWNERS
        or all(
            after.assigned[b, p]
            == (
                before.knows[b, p]
                and any(before.books[m] == b and before.interest[m, p] for m in Member)
            )
            for p in Partition
        )
        for b in Broker
    )


@always
def nobody_else_is_named(s: CentralCoordinator) -> bool:
    """Once a group with members is stable, ZooKeeper names nobody who does not serve."""
    return all(
        not stable(s, b)
        or not s.has_members(b)
        or all(s.owner[p] is None or s.is_owned(p, b) for p in Partition)
        for b in Broker
    )


@step
def who_steps_down_closes_every_channel(
    before: CentralCoordinator, after: CentralCoordinator
) -> bool:
    """Who steps down closes every channel, also to who has only just connected."""
    return all(
        not before.election.leads[b]
        or after.election.leads[b]
        or all(after.via[m] != b or not after.link[m] for m in Member)
        for b in Broker
    )


@sometimes
def a_member_comes_back(s: CentralCoordinator) -> bool:
    """A member comes back to the coordinator whose epoch it has heard of."""
    return any(
        s.books[m] == b and s.orphan[p] and s.owner[p] == m and s.election.token[b] == 1
        for b in Broker
        for m in Member
        for p in Partition
    )


@step
def starts_where_it_is_told(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """Who starts to fetch a partition begins where the Start says."""
    return all(
        before.fetching[m, p]
        or not after.fetching[m, p]
        or after.position[m, p] == before.begin[m, p]
        for m in Member
        for p in Partition
    )


@step
def a_write_goes_its_way(before: CentralCoordinator, after: CentralCoordinator) -> bool:
    """A write is sent, done or refused, and answered, in this order; nothing is left of it then."""
    return all(
        (
            before.write[b] == after.write[b]
            or after.write[b] == Write.NONE
            or (
                (before.write[b] == Write.NONE)
                == (after.write[b] == Write.OFFSETS or after.write[b] == Write.OWNERS)
                and before.write[b] not in (Write.DONE, Write.REFUSED)
            )
        )
        and (after.election.leads[b] or after.write[b] == Write.NONE)
        and (after.write[b] != Write.OWNERS or after.phase[b] == Phase.WRITING)
        and (after.write[b] != Write.OFFSETS or any(after.sent[b, p] > 0 for p in Partition))
        and all(
            (after.election.leads[b] or after.sent[b, p] == 0)
            and (after.write[b] != Write.DONE or after.sent[b, p] == 0)
            and (after.write[b] == Write.OWNERS or not after.assigned[b, p])
            for p in Partition
        )
        for b in Broker
    ) and all(
        (before.via[m] is not None or after.via[m] is None or after.heir[m, p] is None)
        and all(after.heir[m, p] != b or after.assigned[b, p] for b in Broker)
        for m in Member
        for p in Partition
    )


MISSING: dict[str, Property] = {
    why.WRITES: a_write_goes_its_way,
    why.FOR_EVER: a_write_goes_its_way,
    why.PHASES: phases_in_order,
    why.TAKES_UP: who_takes_up_begins_anew,
    why.QUEUES: changes_queue_the_group,
    why.BEGINS_CLEAN: a_rebalance_begins_with_nothing_to_remember,
    why.IDLE_IS_CLEAN: who_is_idle_remembers_nothing,
    why.RESTS: who_does_not_lead_rests,
    why.EXISTS: only_what_exists_is_known,
    why.ONE_BY_ONE: records_one_by_one,
    why.FINISHED_IS_THERE: no_record_is_finished_before_it_is_there,
    why.NOWHERE: who_does_not_fetch_is_nowhere,
    why.CONNECTION: nothing_travels_without_a_connection,
    why.ANEW: who_begins_anew_has_no_generation,
    why.STRUCK: who_is_struck_is_forgotten,
    why.SEAT: the_seat_is_the_winners,
    why.NOTED: answers_are_noted,
    why.ANSWERS: answers_are_true,
    why.ONE_STOP: one_stop_in_a_rebalance,
    why.AWAITED: an_answer_is_awaited,
    why.HANDED_OVER: what_is_wanted_is_handed_over,
    why.NAMED: nobody_else_is_named,
    why.CHANNELS: who_steps_down_closes_every_channel,
    why.COMES_BACK: a_member_comes_back,
    why.STARTS_AT: starts_where_it_is_told,
}
"""The promise that each reason names, in its words."""
