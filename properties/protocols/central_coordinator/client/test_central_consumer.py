"""
What system B's consumer answers, while it has a coordinator: its core, by scripted frames.

The quotations are from the drafts `000` and `002`, and from PROTOCOLS.md, section B (rulings).
"""

from __future__ import annotations

import pytest

from herdproof.consuming.events import (
    Assigned,
    Consumed,
    Deliver,
    Resolved,
    RevocationHandled,
    Revoked,
    StartFetchers,
    StopFetchers,
)
from herdproof.consuming.offsets import NO_OFFSET, NamedPartition, Offset
from herdproof.consuming.subscription import InvalidSubscription
from herdproof.protocols.central_coordinator.client.consumer import ConsumerPhase
from herdproof.protocols.central_coordinator.events import (
    Close,
    Closed,
    CommitAsked,
    Committed,
    Connect,
    Send,
    Tick,
)
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    CommitResponse,
    ErrorCode,
    Frame,
    Ping,
    PingResponse,
    StartResponse,
    Stop,
    StopResponse,
)
from properties.protocols.central_coordinator.client.consumer_script import (
    SESSION_MS,
    T0,
    T1,
    Script,
    started,
)

# ── Stop and Start ──────────────────────────────────────────────────────────────────────────


def test_a_start_fetches_what_was_assigned_and_is_answered() -> None:
    """
    "Update topicRegistry with the newly assigned partition map; start fetchers; set
    fetcherStopped to false."
    Reference: 002, handleStartRequest 4 to 6.
    """
    script = Script().register()
    assert script.core.fetcher_stopped

    script.start(T0, T1, generation=5)

    assert script.of(StartFetchers) == [StartFetchers((T0, T1), 5, (0, 0))]
    assert script.of(Assigned) == [Assigned((NamedPartition("t", "0"), NamedPartition("t", "1")))]
    [answer] = script.of(Send)
    assert answer.frame == Frame(StartResponse(ErrorCode.NONE), script.correlation_id, 1, 5)
    assert not script.core.fetcher_stopped
    assert script.core.may_deliver(script.now_ms)


def test_a_stop_closes_the_fetchers_before_it_is_answered() -> None:
    """
    "Stop the fetchers of the consumer and clean the corresponding queues; send the consumed
    partitions' consumed offset as the response."
    Reference: 000, Connector.handleStopFetcherRequest.
    """
    script = started()
    script(Consumed(Offset("t", "0", 45), 1))

    script.read(Stop(), generation=1)

    partitions = (NamedPartition("t", "0"), NamedPartition("t", "1"))
    assert script.effects[:2] == [StopFetchers(), Revoked(partitions)]
    assert script.sent == [StopResponse((Offset("t", "0", 45), T1))]
    assert script.of(Send)[0].frame.generation == 1
    assert not script.core.may_deliver(script.now_ms)


def test_every_stop_is_answered_also_where_nothing_is_fetched() -> None:
    """
    "Stop is idempotent and always answered."
    Reference: PROTOCOLS.md, B, ruling 7.
    """
    script = started()
    script.read(Stop(), generation=1)
    first = script.sent
    stop_id = script.correlation_id

    assert script.read(Stop(), generation=1, correlation_id=stop_id).sent == first
    assert script.of(StopFetchers) == []
    assert script.read(Stop(), generation=1).sent == [StopResponse(())]
    assert Script().register().read(Stop()).sent == [StopResponse(())]


def test_the_drafts_stop_is_not_answered_where_nothing_is_fetched() -> None:
    """
    "If fetcherStopped is true then do nothing."
    Reference: 002, handleStopRequest 1.1: the flaw `stop_not_answered`.
    """
    script = Script(flaws=frozenset({"stop_not_answered"})).register()

    assert script.read(Stop()).sent == []


def test_without_auto_commit_no_answer_has_offsets() -> None:
    """
    "If auto_commit is not enabled, just sends a PingResponse with no num_partition and
    offset_info."
    Reference: 002, handlePingRequest 1.1; a Stop's offsets follow the same rule (ruling 7).
    """
    script = started(auto_commit=False)

    assert script.read(Ping(0)).sent == [PingResponse(None)]
    assert script.read(Stop(), generation=1).sent == [StopResponse(None)]


def test_a_start_while_fetchers_run_for_something_else_is_an_illegal_state() -> None:
    """
    "If fetcherStopped is false and the newly assigned partition map does not match topicRegistry,
    throw IllegalStateException."
    Reference: 002, handleStartRequest 3.
    """
    script = started(T0)

    script.start(T0, T1, generation=2)

    assert script.sent == [StartResponse(ErrorCode.ILLEGAL_STATE)]
    assert script.of(Send)[0].frame.error is ErrorCode.ILLEGAL_STATE
    assert script.of(StartFetchers) == []
    assert script.core.topic_registry["t"].keys() == {"0"}
    assert script.core.consumption.generation == 1


def test_a_start_while_fetchers_run_for_the_same_goes_on_where_they_are() -> None:
    """A repeated Start does nothing; one of a new generation goes on from the consumed offsets."""
    script = started(T0)
    script(Consumed(Offset("t", "0", 50), 1))

    assert script.start(T0, generation=1).of(StartFetchers) == []
    assert script.sent == [StartResponse(ErrorCode.NONE)]
    assert script.start(T0, generation=2).effects[:2] == [
        StopFetchers(), StartFetchers((Offset("t", "0", 50),), 2, (0,))
    ]  # fmt: skip


def test_a_start_of_before_the_last_stop_is_not_carried_out() -> None:
    """Starts up to the generation of the last Stop are old: another owner may have begun."""
    script = started()
    script.read(Stop(), generation=3)

    assert script.start(T0, generation=3).sent == [StartResponse(ErrorCode.STALE_GENERATION)]
    assert script.core.fetcher_stopped
    assert script.start(T0, generation=4).sent == [StartResponse(ErrorCode.NONE)]


@pytest.mark.parametrize(
    ("partition", "code"),
    [
        (Offset("other", "0", 0), ErrorCode.INVALID_SUBSCRIPTION),
        (Offset("t", "x", 0), ErrorCode.MALFORMED),
    ],
)
def test_a_start_that_cannot_be_meant_is_refused(partition: Offset, code: ErrorCode) -> None:
    """A topic that nobody subscribed to, or a partition that is none, starts no fetcher."""
    script = Script().register()

    script.start(T0, partition)

    assert script.sent == [StartResponse(code)]
    assert script.core.fetcher_stopped


# ── Streams ─────────────────────────────────────────────────────────────────────────────────


def test_partitions_are_shared_out_to_the_threads_by_range() -> None:
    """
    "Five partitions, two consumers with two threads each: P0 C1_0, P1 C1_0, P2 C1_1, …"
    Reference: PROTOCOLS.md, A, Assignment: what the coordinator's plan gives C1's threads.
    """
    script = Script('{"t": 2, "u": 1}').register()

    script.start(
        Offset("t", "10", 0), Offset("u", "0", 0), Offset("t", "2", 0), Offset("t", "1", 0)
    )

    threads = script.core.topic_thread_id_and_queues
    assert threads == {("t", "c-0"): 0, ("t", "c-1"): 1, ("u", "c-0"): 2}
    [start] = script.of(StartFetchers)
    queues = {
        (offset.topic, offset.partition): queue
        for offset, queue in zip(start.partitions, start.queues, strict=True)
    }
    assert queues == {("t", "1"): 0, ("t", "2"): 0, ("t", "10"): 1, ("u", "0"): 2}


def test_the_threads_of_a_wildcard_are_rebuilt_with_each_start() -> None:
    """
    "If the consumer's topic interests are wildcard, re-construct topicThreadIdAndQueues."
    Reference: 002, handleStartRequest 1.
    """
    script = Script("*2*t.*").register()
    assert script.core.topic_thread_id_and_queues == {}

    script.start(Offset("t1", "0", 0), Offset("t2", "0", 0), Offset("t2", "1", 0))

    assert script.core.topic_thread_id_and_queues == {
        ("t1", "c-0"): 0, ("t1", "c-1"): 1, ("t2", "c-0"): 0, ("t2", "c-1"): 1,
    }  # fmt: skip
    assert script.of(StartFetchers)[0].queues == (0, 0, 1)
    script.read(Stop(), generation=1)
    script.start(Offset("t3", "0", 0), generation=2)
    assert script.core.topic_thread_id_and_queues == {("t3", "c-0"): 0, ("t3", "c-1"): 1}


def test_a_subscription_that_says_nothing_is_refused_at_once() -> None:
    """What the coordinator would refuse, the consumer refuses before it connects."""
    with pytest.raises(InvalidSubscription, match="no topic is named"):
        Script("{}")


# ── Offsets ─────────────────────────────────────────────────────────────────────────────────


def test_a_ping_is_answered_with_what_is_consumed() -> None:
    """
    "Otherwise read topicRegistry and sends a PingResponse with the created num_partitions."
    Reference: 002, handlePingRequest 1.2.
    """
    script = started(T0, Offset("t", "1", NO_OFFSET))

    assert script.read(Ping(0)).sent == [PingResponse((T0,))]
    script(Consumed(Offset("t", "0", 44), 1))
    script(Consumed(Offset("t", "0", 43), 1))
    assert script.read(Ping(0)).sent == [PingResponse((Offset("t", "0", 44),))]


def test_what_was_delivered_in_a_past_generation_does_not_count_in_this_one() -> None:
    """A record that the application held through a rebalance must not move the new start."""
    script = started(T0)
    script.read(Stop(), generation=1)
    script.start(Offset("t", "0", 10), generation=2)

    script(Consumed(Offset("t", "0", 60), 1))

    assert script.read(Ping(0)).sent == [PingResponse((Offset("t", "0", 10),))]


def test_a_start_resolved_by_reset_is_stored_before_the_first_delivery() -> None:
    """
    "A start that was resolved by reset is stored before the first delivery."
    Reference: PROTOCOLS.md, the contract, 4.
    """
    script = started(Offset("t", "0", NO_OFFSET))

    script(Resolved(Offset("t", "0", 17), 1))

    assert script.sent == [Commit((Offset("t", "0", 17),))]
    assert script.of(Send)[0].frame.generation == 1
    assert script.of(Deliver) == []
    script.answer(CommitResponse(ErrorCode.NONE))
    assert script.of(Deliver) == [Deliver(NamedPartition("t", "0"), 1)]


def test_a_resolved_start_that_was_not_stored_is_stored_again() -> None:
    """Until it is stored nothing is delivered; the coordinator may lack a ZooKeeper."""
    script = started(Offset("t", "0", NO_OFFSET))
    script(Resolved(Offset("t", "0", 17), 1))

    script.answer(CommitResponse(ErrorCode.NOT_STORED))
    assert script.sent == []
    assert script.of(Deliver) == []
    script(Tick(), after_ms=5_000)

    assert script.sent == [Commit((Offset("t", "0", 17),))]


@pytest.mark.parametrize("code", [ErrorCode.STALE_GENERATION, ErrorCode.NONE])
def test_a_resolved_start_of_a_past_generation_delivers_nothing(code: ErrorCode) -> None:
    """Its partition has been stopped meanwhile, or another generation has begun."""
    script = started(Offset("t", "0", NO_OFFSET))
    commit = script(Resolved(Offset("t", "0", 17), 1)).of(Send)[0].frame
    if code is ErrorCode.NONE:
        script.read(Stop(), generation=1)
        script.start(Offset("t", "0", NO_OFFSET), generation=2)

    script.read(CommitResponse(code), correlation_id=commit.correlation_id)

    assert script.of(Deliver) == []
    assert script(Resolved(Offset("t", "0", 18), 0)).sent == []


@pytest.mark.parametrize("begins", [17, 44])
def test_a_start_that_is_out_of_range_is_resolved_like_one_that_is_not_stored(begins: int) -> None:
    """Wherever the reset leads, back or on, the records from there on are what is consumed."""
    script = started(T0)

    script(Resolved(Offset("t", "0", begins), 1))
    assert script.sent == [Commit((Offset("t", "0", begins),))]
    script.answer(CommitResponse(ErrorCode.NONE))
    assert script.of(Deliver) == [Deliver(NamedPartition("t", "0"), 1)]
    script(Consumed(Offset("t", "0", begins + 1), 1))

    assert script.read(Ping(0)).sent == [PingResponse((Offset("t", "0", begins + 1),))]


# ── The user's commit ───────────────────────────────────────────────────────────────────────


def test_a_users_commit_is_a_frame_of_its_own_and_its_answer_is_told() -> None:
    """
    "A user's `commit` is an explicit frame."
    Reference: PROTOCOLS.md, B, ruling 8.
    """
    script = started(T0)
    script(Consumed(Offset("t", "0", 44), 1))

    script(CommitAsked(9))

    assert script.sent == [Commit((Offset("t", "0", 44),))]
    assert script.of(Send)[0].frame.generation == 1
    assert script.answer(CommitResponse(ErrorCode.STALE_GENERATION)).of(Committed) == [
        Committed(9, ErrorCode.STALE_GENERATION)
    ]


def test_committing_a_record_says_that_it_is_finished() -> None:
    """Offsets that the user names are finished with, though no further record was asked for."""
    script = started(T0)

    script(CommitAsked(9, (Offset("t", "0", 42),)))

    assert script.sent == [Commit((Offset("t", "0", 42),))]
    assert script.read(Ping(0)).sent == [PingResponse((Offset("t", "0", 42),))]


def test_a_commit_that_cannot_be_sent_is_answered_at_once() -> None:
    """Who is not registered, or does not own the partition, is told so."""
    not_registered = [Committed(1, ErrorCode.NOT_REGISTERED)]
    assert Script()(CommitAsked(1)).of(Committed) == not_registered
    assert Script().register()(CommitAsked(1)).of(Committed) == [Committed(1, ErrorCode.NONE)]
    script = started(T0)
    stale = [Committed(1, ErrorCode.STALE_GENERATION)]
    assert script(CommitAsked(1, (T1,))).of(Committed) == stale
    assert script(CommitAsked(1, (T0,), generation=0)).of(Committed) == stale
    script(Closed(script.channel))
    assert script(CommitAsked(1)).of(Committed) == not_registered


@pytest.mark.parametrize("lost", [False, True])
def test_of_a_commit_without_an_answer_nobody_knows(lost: bool) -> None:
    """Whether it was stored is unknown when the connection is lost, or after a while."""
    script = started(T0)
    script(CommitAsked(9))

    script(Closed(script.channel)) if lost else script(Tick(), after_ms=5_000)

    assert script.of(Committed) == [Committed(9, ErrorCode.NOT_STORED)]


# ── The lease ───────────────────────────────────────────────────────────────────────────────


def test_the_lease_begins_with_the_answer_to_the_request_before() -> None:
    """
    "A consumer stops by itself `session_timeout` after the sending of the last request it
    acknowledged."
    Reference: PROTOCOLS.md, B, ruling 2; the consumer's bound on that sending is its own answer.
    """
    script = Script().register()  # at 0 its Register was sent
    script.start(T0, after_ms=1_000)
    assert script.core.may_deliver(SESSION_MS - 1)
    assert not script.core.may_deliver(SESSION_MS)

    script.read(Ping(0), after_ms=3_000)  # at 4,000; the answer to the Start was sent at 1,000

    assert script.core.may_deliver(1_000 + SESSION_MS - 1)
    assert not script.core.may_deliver(1_000 + SESSION_MS)


def test_a_copy_of_a_ping_renews_nothing() -> None:
    """
    "A retry of a ping is the same request; a retry does not renew the lease."
    Reference: rulings of issue 5 on PROTOCOLS.md, B, 2.
    """
    script = started(T0)
    script.read(Ping(0), after_ms=3_000)
    ping = script.correlation_id

    assert script.read(Ping(1), after_ms=3_000, correlation_id=ping).sent == [PingResponse((T0,))]

    assert not script.core.may_deliver(SESSION_MS)
    # Nor does the answer to the copy move the begin of the next lease.
    script.read(Ping(0), after_ms=1_000)
    assert not script.core.may_deliver(3_000 + SESSION_MS)


@pytest.mark.parametrize("late_ms", [0, 1_000, SESSION_MS - 2_001, SESSION_MS - 2_000, SESSION_MS])
def test_a_start_that_is_read_late_is_over_when_its_sender_gives_its_partitions_away(
    late_ms: int,
) -> None:
    """
    "The coordinator reassigns only after that has passed."
    Reference: PROTOCOLS.md, B, ruling 2. A member that was struck may still read its old Start: it
    looks at its lease first, and renews it from its answer to the Stop, which the Start came after.
    """
    script = Script().register().read(Stop(), after_ms=1_000)
    sent_ms = 2_000  # from here on the coordinator counts
    script.start(T0, after_ms=1_000 + late_ms)

    assert script.core.fetcher_stopped == (script.now_ms >= SESSION_MS)  # after its Register
    assert script.core.delivers_until_ms < sent_ms + SESSION_MS


def test_the_flaw_no_lease_renews_with_any_request() -> None:
    """
    "If no request is received within the session timeout": a late copy holds the consumer attached.
    Reference: 000, Connector.onStartup 3: the flaw `no_lease`.
    """
    script = started(T0, flaws=frozenset({"no_lease"}))
    script.read(Ping(0), after_ms=3_000)

    script.read(Ping(1), after_ms=6_000, correlation_id=script.correlation_id)

    assert script.core.may_deliver(9_000 + SESSION_MS - 1)


def test_when_the_lease_is_over_the_fetchers_are_closed_first() -> None:
    """
    "If no request is received within the session timeout, trigger the lost-connection procedure.
    Close all fetchers and clean their corresponding queues; shutdown the connector; retry."
    Reference: 000, Connector.onStartup 3, Consumer.onLostConnection.
    """
    script = started(T0)
    channel = script.channel

    script(Tick(), after_ms=SESSION_MS)

    assert script.effects[:3] == [
        StopFetchers(),
        Revoked((NamedPartition("t", "0"),)),
        Close(channel, "no new request came within session_timeout"),
    ]
    assert script.core.topic_registry == {}
    assert script.wake().of(Connect) != []


def test_a_request_that_is_read_after_the_lease_is_not_answered() -> None:
    """A process that was paused finds requests waiting; they are too late for it."""
    script = started(T0)

    script.read(Ping(0), after_ms=SESSION_MS)

    assert script.sent == []
    assert script.core.fetcher_stopped


def test_a_wake_is_asked_for_before_the_lease_ends() -> None:
    """The end of the lease is noticed without any frame."""
    script = started(T0)
    wakes = 0

    while not script.core.fetcher_stopped:
        script.wake()
        wakes += 1

    assert script.now_ms == SESSION_MS
    assert wakes < 10  # from a ping's absence on it looks out, once a second


# ── The rebalance listener ──────────────────────────────────────────────────────────────────


def test_a_stop_is_answered_after_the_listener_has_returned() -> None:
    """The listener's last commits count, since the partitions are not given away before."""
    script = started(T0, listens=True, auto_commit=False)

    script.read(Stop(), generation=1)
    assert script.effects[:2] == [StopFetchers(), Revoked((NamedPartition("t", "0"),))]
    assert script.sent == []
    stop = script.correlation_id
    script(CommitAsked(3, (Offset("t", "0", 42),)))
    assert script.sent == [Commit((Offset("t", "0", 42),))]
    script.answer(CommitResponse(ErrorCode.NONE))
    script(RevocationHandled())

    assert script.sent == [StopResponse(None)]
    assert script.of(Send)[0].frame.correlation_id == stop


def test_the_answer_that_waited_is_where_the_next_lease_begins() -> None:
    """A lease counts from the sending of the answer, however long the listener took."""
    script = started(T0, listens=True)
    script.read(Stop(), generation=1)
    script(RevocationHandled(), after_ms=4_000)

    script.start(T0, generation=2, after_ms=1_000)

    assert script.core.may_deliver(4_000 + SESSION_MS - 1)
    assert not script.core.may_deliver(4_000 + SESSION_MS)


def test_a_listener_that_never_returns_ends_with_the_lease() -> None:
    """Nothing blocks for ever: a Stop without an answer ends as a lost connection."""
    script = started(T0, listens=True)
    script.read(Stop(), generation=1)

    script(Tick(), after_ms=SESSION_MS)

    assert script.core.phase is ConsumerPhase.BACKING_OFF
    assert script(RevocationHandled()).sent == []
