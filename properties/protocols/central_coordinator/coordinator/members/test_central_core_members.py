"""
The coordinator's core: consumers, their connections, their pings and registrations.

References: PROTOCOLS.md, section B (consumers, pingScheduler, rulings 2 and 5).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from herdproof.protocols.central_coordinator.coordinator import pings
from herdproof.protocols.central_coordinator.events import (
    Close,
    CoordinatorEffect,
    CoordinatorEvent,
    Opened,
    Received,
    Send,
)
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.settings import BadSettings, Settings
from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    Frame,
    Message,
    Ping,
    PingResponse,
    Register,
    RegisterResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)
from herdproof.zookeeper.operations import Create, Delete, Multi, Refusal, Set, Why
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    LEASE_MS,
    PATHS,
    Consumer,
    World,
    elected,
)

# ── Pings, and the window of one ────────────────────────────────────────────────────────────


def test_a_consumer_is_pinged_once_per_interval() -> None:
    """Ping when scheduledTime <= now, and move on only then."""
    w = elected()
    a = w.register("a", ping_interval_ms=700)
    b = w.register("b", ping_interval_ms=1_000)

    w.advance(699)
    assert (a.count(Ping), b.count(Ping)) == (0, 0)
    w.advance(1)
    assert (a.count(Ping), b.count(Ping)) == (1, 0)
    w.advance(6_300)
    assert (a.count(Ping), b.count(Ping)) == (10, 7)


def test_a_crowd_is_not_pinged_in_one_event() -> None:
    """Of more consumers than go into one event each is pinged, and other events come in between."""
    w = elected()
    crowd = [w.register("a", group=f"g{number}") for number in range(pings.AT_ONCE + 44)]
    taken = w.core.receive
    sent: list[int] = []

    def counted(event: CoordinatorEvent, now_ms: int) -> list[CoordinatorEffect]:
        effects = taken(event, now_ms)
        sent.append(sum(isinstance(e, Send) and e.frame.message == Ping(0) for e in effects))
        return effects

    w.core.receive = counted  # type: ignore[method-assign]
    w.advance(1_000)

    assert [a.count(Ping) for a in crowd] == [1] * len(crowd)
    assert max(sent) == pings.AT_ONCE


def test_a_crowd_that_came_at_once_is_pinged_by_turns() -> None:
    """Of very many that register at once few are pinged at once, and none later than alone."""
    w = elected()
    scheduler = w.core.ping_scheduler
    interval_ms, crowd = 1_000, 30 * pings.CROWD
    for channel in range(crowd):
        scheduler.schedule(channel, w.now_ms, interval_ms)

    due = [due_ms - w.now_ms for due_ms, _ in scheduler.queue]
    moments = Counter(each // pings.MOMENT_MS for each in due)
    assert len(due) == crowd
    assert max(moments.values()) == pings.CROWD
    assert 0 < min(due) <= max(due) == interval_ms
    for channel in range(crowd, 200 * pings.CROWD):
        scheduler.schedule(channel, w.now_ms, interval_ms)
    due = [due_ms - w.now_ms for due_ms, _ in scheduler.queue]
    moments = Counter(each // pings.MOMENT_MS for each in due)
    assert 0 < min(due) <= max(due) == interval_ms
    assert max(moments.values()) <= 3 * pings.CROWD


def test_a_crowd_that_is_gone_leaves_no_room_taken() -> None:
    """Whoever is not pinged any more is not reckoned with."""
    w = elected()
    crowd = [w.register("a", group=f"g{number}") for number in range(pings.CROWD)]
    w.advance(5_000)
    for member in crowd:
        w.close(member)
    w.advance(60_000)

    assert not w.core.ping_scheduler.queue
    assert not w.core.ping_scheduler._due


def test_a_ping_that_is_not_answered_is_sent_again() -> None:
    """A retry is the same request: the same correlation id, and num_retries one more."""
    w = elected()
    a = w.register("a")
    a.mute = True

    w.advance(3_999)

    pings = [f for f in a.frames if isinstance(f.message, Ping)]
    assert [frame.message for frame in pings] == [Ping(0), Ping(1), Ping(2)]
    assert len({frame.correlation_id for frame in pings}) == 1
    assert not a.closed
    w.advance(1)
    assert a.closed


def test_a_late_answer_saves_the_consumer() -> None:
    """An answer to any copy is one; the answers to the other copies are none, and no fault."""
    w = elected()
    a = w.register("a")
    a.mute = True
    w.advance(2_999)
    assert a.count(Ping) == 2

    w.speak(a)
    w.advance(5_000)

    assert not a.closed
    assert not w.told(What.PEER_AT_FAULT)


def test_the_answer_to_a_second_copy_answers_nothing_else() -> None:
    """The answer to a ping's second copy is not taken for one to the Stop that came after it."""
    w = elected()
    a = w.register("a")
    a.mute = True
    w.advance(2_999)
    b = w.register("b")
    assert [type(frame.message) for frame in a.unanswered] == [Ping, Ping]

    w.answer(a)
    assert [type(frame.message) for frame in a.unanswered] == [Ping, Stop]
    w.answer(a)

    assert not a.closed
    assert not b.fetches
    w.speak(a)
    assert len(b.fetches) == 2


def test_at_most_one_request_is_outstanding() -> None:
    """A Stop waits for the answer to a ping, and has the next correlation id."""
    w = elected()
    a = w.register("a")
    a.mute = True
    w.advance(1_000)
    assert a.count(Ping) == 1

    w.register("b")
    assert a.count(Stop) == 1  # that of its own registration
    w.answer(a)

    assert a.count(Stop) == 2
    ids = [f.correlation_id for f in a.frames if isinstance(f.message, Ping | Stop | Start)]
    assert ids == [1, 2, 3, 4]


def test_no_ping_is_sent_while_another_request_is_outstanding() -> None:
    """A ping is skipped while the channel is busy with a rebalance."""
    w = elected()
    a = w.register("a", mute=True)

    w.advance(2_999)

    assert a.count(Ping) == 0
    assert a.count(Stop) == 1
    w.speak(a)
    w.advance(1_000)
    assert a.count(Ping) == 1


def test_missed_pings_are_not_made_up_for() -> None:
    """After a standstill a consumer is pinged once, not once for each interval that has passed."""
    w = elected()
    a = w.register("a", ping_interval_ms=100)
    w.advance(100)

    w.wake_ms, w.now_ms = w.now_ms, w.now_ms + 3_000
    w.advance(50)

    assert a.count(Ping) == 2


@pytest.mark.parametrize(
    ("answer", "correlation_id"),
    [(StopResponse(()), 3), (PingResponse(()), 9), (StartResponse(ErrorCode.NONE), 3)],
)
def test_who_answers_nonsense_is_closed(answer: Message, correlation_id: int) -> None:
    """A response of another kind, or to a request that was never sent, ends the connection."""
    w = elected()
    a = w.register("a")
    a.mute = True
    w.advance(1_000)
    assert a.frames[-1].correlation_id == 3

    w.give(Received(a.channel, Frame(answer, correlation_id, 1, 1)))

    assert a.closed
    assert len(w.told(What.PEER_AT_FAULT)) == 1
    assert w.told(What.MEMBER_LOST)[0]["lease_ms"] == LEASE_MS


@pytest.mark.parametrize("message", [Ping(0), Stop(), RegisterResponse(ErrorCode.NONE)])
def test_who_sends_what_is_a_coordinators_is_closed(message: Message) -> None:
    """A consumer sends no requests of the coordinator's, and no answers to its own."""
    w = elected()
    a = w.register("a")

    w.send(a, message)

    assert a.closed


def test_the_answer_to_a_register_and_every_request_carry_the_epoch() -> None:
    """Every frame to a consumer carries the epoch, so that it can refuse a smaller one."""
    w = elected()
    w.depose()
    epoch = w.elect()
    a = w.register("a")
    w.advance(1_000)

    assert {type(f.message) for f in a.frames} == {RegisterResponse, Stop, Start, Ping}
    assert {frame.epoch for frame in a.frames} == {epoch}


# ── Register ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "changed"),
    [
        (ErrorCode.INVALID_SUBSCRIPTION, {"topics": "not a subscription"}),
        (ErrorCode.INVALID_SUBSCRIPTION, {"topics": "*1*("}),
        (ErrorCode.INVALID_SUBSCRIPTION, {"group": ""}),
        (ErrorCode.INVALID_SUBSCRIPTION, {"group": "g" * 256}),
        (ErrorCode.INVALID_TIMEOUTS, {"ping_interval_ms": 0}),
        (ErrorCode.INVALID_TIMEOUTS, {"max_ping_retries": -1}),
        (ErrorCode.INVALID_TIMEOUTS, {"session_timeout_ms": 2_000}),
        (ErrorCode.INVALID_TIMEOUTS, {"session_timeout_ms": 2**31 - 1}),
        (ErrorCode.FENCED_FORM_REQUIRED, {"legacy": True}),
    ],
)
def test_a_bad_registration_is_refused(error: ErrorCode, changed: dict[str, Any]) -> None:
    """What makes no sense is answered by an error code, and the connection closed."""
    w = elected()

    a = w.register("a", **changed)

    assert a.requests == [RegisterResponse(error)]
    assert a.frames[0].error is error
    assert a.frames[0].correlation_id == 7
    assert a.closed
    assert not w.core.groups
    assert not w.children(PATHS.groups)


def test_who_does_not_coordinate_refuses() -> None:
    """A broker that was not elected, or was deposed, answers NOT_COORDINATOR."""
    w = World()
    assert w.register("a").error is ErrorCode.NOT_COORDINATOR

    w.elect()
    w.depose()

    late = w.register("b")
    assert late.error is ErrorCode.NOT_COORDINATOR
    assert late.closed


def later_epoch(w: World) -> None:
    """Somebody else is elected, and this coordinator does not know."""
    w.zookeeper.perform(w.operator, Set(PATHS.election.epoch, b"2"))


def test_a_consumer_that_has_seen_a_later_epoch_deposes() -> None:
    """Refused with STALE_EPOCH; then every channel is closed, and the broker steps down."""
    w = elected()
    other = w.register("other")
    later_epoch(w)

    a = w.register("a", epoch=2)

    assert a.error is ErrorCode.STALE_EPOCH
    assert a.closed
    assert other.closed
    assert len(w.stepped_down) == 1
    assert w.core.epoch is None


@pytest.mark.parametrize("header", [{"epoch": 2}, {"error": ErrorCode.STALE_EPOCH}])
def test_an_answer_from_a_later_epoch_deposes(header: dict[str, Any]) -> None:
    """A consumer that answers from a later epoch, or refuses this one, knows another leader."""
    w = elected()
    a, other = w.register("a"), w.register("other")
    a.mute = True
    w.advance(1_000)
    later_epoch(w)

    frame = Frame(PingResponse(()), a.frames[-1].correlation_id, **{"epoch": 1, **header})
    w.give(Received(a.channel, frame))

    assert len(w.stepped_down) == 1
    assert other.closed


@pytest.mark.parametrize("header", [{"epoch": 2}, {"error": ErrorCode.STALE_EPOCH}])
def test_who_makes_up_an_epoch_deposes_nobody(header: dict[str, Any]) -> None:
    """A stranger's claim is looked up: one connection more or less, and nobody else is hurt."""
    w = elected()
    a = w.register("a")
    liar = Consumer(w.open(), "liar")
    w.consumers[liar.channel] = liar

    w.give(Received(liar.channel, Frame(PingResponse(()), **header)))
    refused = w.register("liar", epoch=2**40)

    assert liar.closed
    assert refused.error is ErrorCode.STALE_EPOCH
    assert not w.stepped_down
    assert not a.closed


def test_who_cannot_look_up_a_later_epoch_steps_down() -> None:
    """A claim that ZooKeeper does not answer about is believed: to lead in doubt is worse."""
    w = elected()
    w.spoil = lambda _: Refusal(Why.CONNECTION_LOSS)

    w.register("a", epoch=2)

    assert len(w.stepped_down) == 1


def test_a_group_has_room_for_so_many_members() -> None:
    """One more than max_members_per_group is GROUP_FULL, until somebody goes."""
    w = elected(settings=Settings(max_members_per_group=2))
    a, b = w.register("a"), w.register("b")

    assert w.register("c").error is ErrorCode.GROUP_FULL
    assert w.register("c", group="other").error is ErrorCode.NONE

    w.close(b)
    assert w.register("d").error is ErrorCode.NONE
    assert not a.closed


def test_a_group_of_another_protocol_is_refused() -> None:
    """Members below the group's ids are another protocol's: the first of ours is refused."""
    w = elected()
    w.make("/consumers/g/ids/old-1")
    refused = w.register("a")

    assert refused.error is ErrorCode.OTHER_PROTOCOL
    assert refused.closed
    assert "members of another protocol (old-1, below /consumers/g/ids)" in str(
        w.told(What.REGISTRATION_REFUSED)
    )
    assert w.children(PATHS.subscriptions("g")) == (), "nothing is left in the others' way"
    w.zookeeper.perform(w.operator, Delete("/consumers/g/ids/old-1"))
    assert len(w.register("a").fetches) == 4


def test_owners_of_another_protocol_have_no_lease_here() -> None:
    """A coordinator that has just been elected waits for nobody whose node was ephemeral."""
    w = World()
    w.topic("t", 4)
    w.make("/consumers/g/ids/old-1")
    w.make("/consumers/g/owners/t")
    session = w.zookeeper.open()
    w.zookeeper.perform(session, Create("/consumers/g/owners/t/0", b"old-1-0", ephemeral=True))
    w.elect()
    assert w.register("a").error is ErrorCode.OTHER_PROTOCOL
    w.zookeeper.perform(w.operator, Delete("/consumers/g/ids/old-1"))
    w.zookeeper.close(session)

    assert len(w.register("a").fetches) == 4


def test_a_stranger_stops_no_group_that_has_members() -> None:
    """Who registers below ids of a group that is coordinated keeps no member of it out."""
    w = elected()
    a = w.register("a")
    w.make("/consumers/g/ids/old-1")

    assert w.register("b").error is ErrorCode.NONE
    assert not a.closed


def test_there_is_room_for_so_many_groups() -> None:
    """One more than max_groups is GROUP_FULL, until a group is empty."""
    w = elected(settings=Settings(max_groups=1), partitions=1)
    a = w.register("a")

    assert w.register("b", group="other").error is ErrorCode.GROUP_FULL

    w.close(a)
    w.advance(LEASE_MS)
    assert w.register("b", group="other").error is ErrorCode.NONE


def test_there_is_room_for_so_many_channels() -> None:
    """One connection too many is closed unread."""
    w = World(Settings(max_channels=2))
    w.open(), w.open()

    effects = w.give(Opened(3))

    assert [type(e) for e in effects if isinstance(e, Close)] == [Close]
    assert w.told(What.CHANNEL_REFUSED)


def test_who_does_not_register_is_closed() -> None:
    """A connection over which nobody registers is closed after a while, and only such a one."""
    w = elected(settings=Settings(register_timeout_ms=3_000))
    silent = Consumer(w.open(), "")
    w.consumers[silent.channel] = silent
    a = w.register("a")

    w.advance(3_000)

    assert silent.closed
    assert not a.closed


def test_who_has_sent_its_register_is_not_closed_for_waiting() -> None:
    """However long its registration takes (ten thousand came before it), it is not cut off."""
    w = elected(settings=Settings(register_timeout_ms=3_000))
    w.hold()
    a = w.register("a")

    w.advance(3_000)
    assert not a.closed
    w.release_all()

    assert a.count(RegisterResponse) == 1


def test_nobody_registers_twice_over_one_connection() -> None:
    """A second Register over a channel ends it."""
    w = elected()
    a = w.register("a")

    w.send(a, Register("g", "b", '{"t": 1}', True, *_REST))

    assert a.closed
    assert w.told(What.PEER_AT_FAULT)


_REST: Any = (None, 1_000, 2, 5_000)


def test_a_registration_is_answered_once_its_subscription_is_stored() -> None:
    """The epoch that a consumer is told was ZooKeeper's when it came: the write was fenced."""
    w = elected()
    w.register("first")
    w.hold()

    a = w.register("a")
    assert a.error is None
    [write] = [ask.operation for ask in w.held or ()]
    assert isinstance(write, Multi)
    assert write.operations[0].path == PATHS.election.epoch
    w.release_all()

    assert a.error is ErrorCode.NONE
    assert w.stored(PATHS.subscription(GROUP, "a")) == b'{"t": 1}'


def test_who_goes_while_it_registers_leaves_nothing_behind() -> None:
    """A connection that breaks before the answer to its Register leaves no subscription."""
    w = elected()
    w.register("first")
    w.hold()
    a = w.register("a")

    w.close(a)
    w.release_all()

    assert w.children(PATHS.subscriptions(GROUP)) == ("first",)
    assert len(w.core.groups[GROUP].members) == 1


def test_a_subscription_goes_with_the_last_registration_and_its_lease() -> None:
    """A consumer's subscription stays while any registration of it lives or may fetch."""
    w = elected(partitions=1)
    a = w.register("a")
    w.register("b")
    w.close(a)

    w.advance(LEASE_MS - 1)
    assert w.children(PATHS.subscriptions(GROUP)) == ("a", "b")
    w.advance(1)
    assert w.children(PATHS.subscriptions(GROUP)) == ("b",)


def test_an_empty_group_is_not_rebalanced() -> None:
    """2.1 of handleGroupMemberChange: a group without consumers is left alone."""
    w = elected()

    w.close(w.register("a"))

    assert w.core.groups[GROUP].ghosts
    assert not w.core.groups_being_rebalanced[GROUP].is_set


def test_a_group_is_forgotten_with_its_last_consumer() -> None:
    """What is kept in memory goes; what ZooKeeper keeps stays, and is gone on from."""
    w = elected()
    a = w.register("a")
    a.fetches["t", "1"] = 5
    w.advance(3_000)
    w.close(a)
    w.advance(LEASE_MS)

    assert not w.core.groups
    assert not w.core.offsets.known
    assert not w.core.store.standing.get(GROUP)
    assert w.told(What.GROUP_EMPTY) == [{"generation": 1}]

    b = w.register("b")
    assert b.generation == 2
    assert b.fetches["t", "1"] == 5


# ── Settings ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wrong",
    [
        {"drift": -0.1}, {"drift": float("nan")}, {"max_channels": 0}, {"request_handlers": 0},
        {"max_transaction_bytes": 2_000_000}, {"max_transaction_bytes": 100},
        {"rebalance_backoff_ms": 500, "rebalance_backoff_max_ms": 400},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    """A setting out of its range is an error that names it."""
    with pytest.raises(BadSettings, match=f"^{next(reversed(wrong))} is "):
        Settings(**wrong)


def test_a_lease_includes_the_drift_of_the_clocks() -> None:
    """A lease is waited for longer by the drift, rounded up."""
    assert Settings(drift=0.05).lease_ms(5_000) == LEASE_MS
    assert Settings(drift=0.001).lease_ms(10) == 11
    assert Settings(drift=0).lease_ms(10) == 10
