"""
A coordinator adopts whoever consumes as ZooKeeper says, and stops nobody for that.

Reference: docs/wire.md, "Bodies of version 3"; herdspec's variant `resuming`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.coordinator.groups import Phase
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    CommitResponse,
    ErrorCode,
    Ping,
    RegisterResponse,
    Start,
    Stop,
)
from herdproof.zookeeper.operations import Get, Operation, Refusal, Why
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    LEASE_MS,
    PATHS,
    SETTINGS,
    Consumer,
    World,
    elected,
    phase,
    sent,
    settled,
)


def joined(w: World, consumer_id: str) -> Consumer:
    """A consumer that registers in version 2."""
    return w.register(consumer_id, former=())


def name_of(consumer: Consumer) -> str:
    """What it was told that its registration is called."""
    told = consumer.last(RegisterResponse)
    assert isinstance(told, RegisterResponse)
    assert told.member is not None
    return told.member


def back(w: World, was: Consumer, *, generation: int = 0, mute: bool = False) -> Consumer:
    """A consumer that was cut off, and asks to resume; it consumes meanwhile."""
    fetches, was.fetches = was.fetches, {}
    again = w.register(
        was.consumer_id, former=(), resumes=name_of(was), mute=True,
        generation=generation or was.generation,
    )  # fmt: skip
    again.fetches, again.generation = fetches, was.generation
    if not mute:
        w.speak(again)
    return again


def taken_over(w: World) -> int:
    """Another coordinator is elected; answers with its epoch."""
    w.depose()
    return w.elect()


def test_a_successor_stops_nobody_if_all_come_back() -> None:
    """No Stop, no Start, no write of owners; the answer has the new epoch and the old name."""
    w = elected()
    was = [joined(w, "a"), joined(w, "b")]
    names, generation = [name_of(c) for c in was], w.generation()
    epoch = taken_over(w)

    a, b = back(w, was[0]), back(w, was[1])

    assert [name_of(a), name_of(b)] == names
    assert {f.epoch for c in (a, b) for f in c.frames} == {epoch}
    assert (sent(w, a), sent(w, b), w.generation()) == ([], [], generation)
    assert settled(w, a, b)
    assert w.told(What.REBALANCE_UNNECESSARY)
    assert [report["member"] for report in w.told(What.MEMBER_RESUMED)] == names


def test_whoever_is_not_back_is_waited_for_and_the_others_consume_meanwhile() -> None:
    """Then its partitions are the others': a rebalance, as ever."""
    w = elected()
    was = [joined(w, "a"), joined(w, "b")]
    taken_over(w)
    a = back(w, was[0])

    w.advance(LEASE_MS - 1)
    assert (sent(w, a), phase(w)) == ([], Phase.WAITING)

    was[1].fetches = {}
    w.advance(1)
    assert sent(w, a) == [Stop, Start]
    assert settled(w, a)


def test_a_newcomer_leads_to_a_rebalance_of_all() -> None:
    """Who resumes is stopped with the others, by its new coordinator."""
    w = elected()
    was = joined(w, "a")
    taken_over(w)
    new = joined(w, "b")

    a = back(w, was)

    assert sent(w, a) == [Stop, Start]
    assert settled(w, a, new)


def test_partitions_that_have_appeared_lead_to_a_rebalance() -> None:
    """What nobody owns has to be given to somebody."""
    w = elected(partitions=2)
    was = joined(w, "a")
    w.depose()
    w.topic("t", 3)
    w.elect()

    a = back(w, was)

    assert sent(w, a) == [Stop, Start]
    assert settled(w, a)


def test_who_is_adopted_is_pinged_at_once() -> None:
    """Its lease is as old as it was, and may end at any moment."""
    w = elected()
    was = joined(w, "a")
    taken_over(w)

    a = back(w, was)

    assert a.count(Ping) == 1


@pytest.mark.parametrize("by", [-1, 1])
def test_who_consumes_in_another_generation_is_refused(by: int) -> None:
    """It has to let go, and is waited for until it says so."""
    w = elected()
    was = joined(w, "a")
    joined(w, "b")
    taken_over(w)

    a = back(w, was, generation=w.generation() + by)

    assert (a.error, a.closed) == (ErrorCode.STALE_GENERATION, True)
    assert name_of(was) in w.core.groups[GROUP].ghosts


def test_who_goes_by_another_consumer_s_registration_is_refused() -> None:
    """What ZooKeeper says of it is not true of this one."""
    w = elected()
    was = joined(w, "a")
    taken_over(w)
    was.consumer_id = "thief"

    assert back(w, was).error is ErrorCode.STALE_GENERATION


def test_of_two_that_resume_one_registration_the_last_has_it() -> None:
    """A connection that is half open: its coordinator has not heard that it broke."""
    w = elected()
    was = joined(w, "a")

    a = back(w, was)

    assert was.closed
    assert (a.error, sent(w, a)) == (ErrorCode.NONE, [])
    assert settled(w, a)


def test_a_member_that_its_coordinator_took_for_gone_is_adopted() -> None:
    """Its connection broke, and it is back before its lease is over."""
    w = elected()
    was, other = joined(w, "a"), joined(w, "b")
    stops = other.count(Stop)
    w.close(was)
    assert name_of(was) in w.core.groups[GROUP].ghosts

    a = back(w, was)

    assert (sent(w, a), other.count(Stop)) == ([], stops)
    assert settled(w, a, other)


def test_who_is_back_amid_the_stops_is_stopped_before_owners_are_written() -> None:
    """The barrier knows of it before its lease is forgotten: else it would be passed."""
    w = elected()
    was, slow = joined(w, "a"), joined(w, "b")
    slow.mute = True
    joined(w, "c")
    assert phase(w) is Phase.STOPPING
    w.close(was)
    before = w.generation()

    a = back(w, was, mute=True)

    w.speak(slow)
    assert (sent(w, a), phase(w), w.generation()) == ([Stop], Phase.STOPPING, before)
    w.speak(a)
    assert w.generation() == before + 1
    assert not {p for p, who in w.fetchers().items() if len(who) > 1}


def test_who_is_back_while_owners_are_written_is_refused_afterwards() -> None:
    """It waits until they are; then its generation is over."""
    w = elected()
    was, slow = joined(w, "a"), joined(w, "b")
    slow.mute = True
    joined(w, "c")
    w.close(was)
    w.advance(LEASE_MS - 500)
    was.fetches = {}
    w.hold()
    w.speak(slow)
    w.advance(500)
    assert phase(w) in (Phase.FLUSHING, Phase.WRITING), phase(w)

    a = back(w, was)
    w.release_all()

    assert a.error is ErrorCode.STALE_GENERATION


def test_who_is_adopted_while_others_start_is_sent_no_start() -> None:
    """It has begun already; a Start with nothing would be another assignment."""
    w = elected()
    was, slow = joined(w, "a"), joined(w, "b")
    slow.mute = True
    third = joined(w, "c")
    w.answer(slow)
    assert phase(w) is Phase.STARTING
    w.close(was)

    a = back(w, was)

    assert (a.error, sent(w, a)) == (ErrorCode.NONE, [])
    w.speak(slow)
    assert settled(w, a, slow, third)


def test_who_is_the_last_that_was_waited_for_is_refused() -> None:
    """Its former connection is closed, and with that the barrier passed: owners are written."""
    w = elected(partitions=1)
    joined(w, "a")
    was = joined(w, "b")
    was.mute = True
    joined(w, "c")
    assert phase(w) is Phase.STOPPING

    b = back(w, was)

    assert (was.closed, b.error) == (True, ErrorCode.STALE_GENERATION)


def test_the_lease_of_who_was_adopted_is_waited_for_if_it_is_lost_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even before anything was sent to it."""
    w = elected()
    monkeypatch.setattr(w.core.ping_scheduler, "ping", lambda _: False)
    was = joined(w, "a")
    other = joined(w, "b")
    taken_over(w)
    b = back(w, other)
    a = back(w, was, mute=True)

    w.close(a)

    w.advance(LEASE_MS - 1)
    assert (sent(w, b), phase(w)) == ([], Phase.WAITING)
    a.fetches = {}
    w.advance(1)
    assert settled(w, b)


def test_an_older_offset_than_is_stored_is_not_stored() -> None:
    """Offsets are read before who resumes may say any."""
    w = elected(partitions=1, settings=replace(SETTINGS, offset_flush_ms=0))
    was = joined(w, "a")
    w.send(was, Commit((Offset("t", "0", 50),)))
    taken_over(w)

    a = back(w, was)
    w.send(a, Commit((Offset("t", "0", 3),)))

    assert a.last(CommitResponse) == CommitResponse(ErrorCode.NONE)
    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"50"


def test_whose_offsets_cannot_be_read_is_told_to_ask_again() -> None:
    """Nobody can say what is stored: neither is it adopted, nor has it to let go."""
    w = elected()
    was = joined(w, "a")
    taken_over(w)
    offset = PATHS.offset(GROUP, "t", "0")

    def spoilt(operation: Operation) -> Refusal | None:
        lost = isinstance(operation, Get) and operation.path == offset
        return Refusal(Why.CONNECTION_LOSS) if lost else None

    w.spoil = spoilt
    a = back(w, was)
    assert a.error is ErrorCode.NOT_COORDINATOR

    w.spoil = lambda _: None
    a.requests.insert(0, RegisterResponse(ErrorCode.NONE, name_of(was)))
    a.requests = [r for r in a.requests if r != RegisterResponse(ErrorCode.NOT_COORDINATOR)]
    assert back(w, a).error is ErrorCode.NONE


def test_members_of_all_versions_are_in_one_group() -> None:
    """Who speaks version 1 is stopped and started, as ever, and so are all others then."""
    w = elected()
    old, new = w.register("old"), joined(w, "new")
    taken_over(w)
    new = back(w, new)
    assert sent(w, new) == []

    old.fetches = {}
    old = w.register("old")
    w.advance(LEASE_MS)

    assert settled(w, old, new)
    assert old.last(RegisterResponse) == RegisterResponse(ErrorCode.NONE)
