"""
What system B's consumer promises its users, over real sockets, beside a coordinator that is played.

Records come from fetchers that are played, too; real ones are those of
`integration/central_coordinator/test_consumer.py`.
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
import trustme

import herdproof.consumer
from herdproof import Consumer
from herdproof.consumer import (
    AllKnownBrokersNotAvailable,
    BadArgument,
    CommitFailed,
    KafkaUnusable,
    Misused,
    RebalanceListener,
    RegistrationRefused,
)
from herdproof.consuming.events import Deliver, Resolved, StopFetchers
from herdproof.consuming.fetching.streams import Streams
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.errors import HerdError
from herdproof.protocols.central_coordinator.events import ConsumerEvent, Received
from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    Ping,
    PingResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)
from herdproof.record import Record, TopicPartition
from integration.central_coordinator.played_coordinator import PlayedCoordinator

T0 = Offset("t", "0", 40)


class PlayedFetchers:
    """Fetchers that have what the test says; `last` are those of the consumer made last."""

    last: PlayedFetchers

    def __init__(
        self, _settings: object, _reset: object, streams: Streams,
        post: Callable[[ConsumerEvent], None], fail: Callable[[HerdError], None],
        _troubles: object, _topics: object, _max_poll_interval_s: float | None,
    ) -> None:  # fmt: skip
        self.rounds = 0
        self.streams = streams
        self.post = post
        self.fail = fail
        self.orders: list[object] = []
        self.ordered = threading.Condition()
        PlayedFetchers.last = self

    def start(self) -> None:
        """Nothing is to be started."""

    def order(self, order: object) -> None:
        """Note what the core wants."""
        with self.ordered:
            self.orders.append(order)
            self.ordered.notify_all()

    def close(self) -> None:
        """Nothing is to be closed."""

    def await_order(self, kind: type, count: int = 1) -> None:
        """Wait until so many orders of a kind have come."""
        with self.ordered:
            assert self.ordered.wait_for(
                lambda: sum(isinstance(order, kind) for order in self.orders) >= count, 10
            )

    def fetch(self, *offsets: int, generation: int = 1) -> None:
        """Records of partition 0 of topic t have come."""
        records = [Record("t", 0, at, b"k", b"v", 0, (), generation) for at in offsets]
        self.streams.put(generation, 0, records)


class Stage:
    """A played coordinator, and the consumers that a test makes."""

    def __init__(self, coordinator: PlayedCoordinator, stack: ExitStack) -> None:
        self.coordinator = coordinator
        self._stack = stack

    def consumer(self, topics: Any = "t", **arguments: Any) -> Consumer:
        """A consumer that has subscribed; it is closed after the test."""
        arguments = {"coordinators": self.coordinator.address, **arguments}
        observe = arguments.pop("observe", None)
        consumer = Consumer("g", bootstrap_servers="127.0.0.1:1", **arguments)
        consumer._observe = observe or consumer._observe
        self._stack.callback(consumer.close, 2)
        consumer.subscribe(topics)
        return consumer

    def started(self, *offsets: int, **arguments: Any) -> Consumer:
        """A consumer that was given partition 0 of topic t, with these records fetched."""
        registrations = len(self.coordinator.registrations)
        consumer = self.consumer(**arguments)
        self.coordinator.await_registrations(registrations + 1)
        answer = self.coordinator.ask(Start((T0,)), generation=1)
        assert answer.message == StartResponse(ErrorCode.NONE)
        PlayedFetchers.last.fetch(*offsets)
        return consumer

    def offsets(self) -> tuple[Offset, ...] | None:
        """What the consumer answers to a ping."""
        message = self.coordinator.ask(Ping(0), generation=1).message
        assert isinstance(message, PingResponse)
        return message.offsets


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A played coordinator, and consumers with played fetchers."""
    monkeypatch.setattr(herdproof.consumer, "Fetchers", PlayedFetchers)
    with PlayedCoordinator() as coordinator, ExitStack() as stack:
        yield Stage(coordinator, stack)


def take(consumer: Consumer) -> int:
    """The offset of the next record."""
    record = consumer.poll(10)
    assert record is not None, "no record came"
    return record.offset


# ── Records and offsets ─────────────────────────────────────────────────────────────────────


def test_it_registers_consumes_and_answers_with_what_is_finished(stage: Stage) -> None:
    """From the first byte to the offsets in the answer to a ping."""
    consumer = stage.started(40, 41, consumer_id="me", session_timeout_s=9, ping_interval_s=1)

    assert stage.offsets() == (T0,)
    assert take(consumer) == 40
    assert stage.offsets() == (T0,)
    assert take(consumer) == 41
    assert stage.offsets() == (Offset("t", "0", 41),)
    assert consumer.assignment == (TopicPartition("t", 0),)
    [register] = stage.coordinator.registrations
    assert (register.group_id, register.consumer_id, register.topic_count) == (
        "g",
        "me",
        '{"t": 1}',
    )
    assert (register.session_timeout_ms, register.ping_interval_ms) == (9_000, 1_000)


def test_after_the_answer_to_a_stop_nothing_is_delivered(stage: Stage) -> None:
    """
    "Stop all the fetchers and clean the corresponding queues", then answer.
    Reference: 000, handleStopFetcherRequest.
    """
    consumer = stage.started(40, 41, 42)
    assert take(consumer) == 40

    answer = stage.coordinator.ask(Stop(), generation=1)

    assert answer.message == StopResponse((T0,))  # 40 is not finished with
    PlayedFetchers.last.fetch(43)
    assert consumer.poll(0.05) is None
    assert consumer.assignment == ()


def test_a_lost_connection_stops_delivery_and_it_registers_anew(stage: Stage) -> None:
    """
    "If the connection is closed or failed, trigger the lost-connection procedure."
    Reference: 000, Connector.onStartup 3.
    """
    consumer = stage.started(40, 41)
    assert take(consumer) == 40

    stage.coordinator.cut()
    PlayedFetchers.last.await_order(StopFetchers)

    assert consumer.poll(0.05) is None
    stage.coordinator.await_registrations(2)
    stage.coordinator.ask(Start((T0,)), generation=2)
    PlayedFetchers.last.fetch(40, generation=2)
    assert take(consumer) == 40


def test_a_coordinator_that_talks_nonsense_is_left(stage: Stage) -> None:
    """Bytes that cannot be read end the connection, never the consumer."""
    stage.started()

    stage.coordinator.write(b"\x00\x00\x00\x02\xff\xff")

    stage.coordinator.await_registrations(2)


def test_a_silent_coordinator_is_left_when_the_lease_is_over(stage: Stage) -> None:
    """
    "If no request is received within the session timeout, trigger the lost-connection procedure."
    Reference: 000, Connector.onStartup 3.
    """
    consumer = stage.started(40, 41, session_timeout_s=1.5, ping_interval_s=0.1)

    PlayedFetchers.last.await_order(StopFetchers)

    assert consumer.poll(0) is None
    stage.coordinator.await_registrations(2)


def test_nothing_is_delivered_after_the_lease_though_nobody_noticed(stage: Stage) -> None:
    """
    "A consumer stops by itself", even if the thread that should tell it so is stuck.
    Reference: B, ruling 2.
    """
    goes_on = threading.Event()

    def stick(core: object, event: ConsumerEvent, effects: object) -> None:
        if isinstance(event, Received) and isinstance(event.frame.message, Ping):
            goes_on.wait(10)

    consumer = stage.started(40, session_timeout_s=1.5, ping_interval_s=0.1, observe=stick)
    assert take(consumer) == 40
    stage.coordinator.tell(Ping(0), generation=1)
    time.sleep(1.6)

    PlayedFetchers.last.fetch(41)
    late = consumer.poll(0.05)
    goes_on.set()

    assert late is None


def test_a_start_without_an_offset_is_stored_before_its_first_record(stage: Stage) -> None:
    """
    "A start that was resolved by reset is stored before the first delivery."
    Reference: the contract, 4.
    """
    stage.consumer()
    stage.coordinator.await_registrations(1)
    stage.coordinator.ask(Start((Offset("t", "0", NO_OFFSET),)), generation=1)
    fetchers = PlayedFetchers.last
    stage.coordinator.commit_code = None

    fetchers.post(Resolved(Offset("t", "0", 17), 1))
    stage.coordinator.until(lambda: stage.coordinator.commits, "a commit")
    stage.offsets()
    assert not any(isinstance(order, Deliver) for order in fetchers.orders)
    stage.coordinator.commit_code = ErrorCode.NONE
    fetchers.post(Resolved(Offset("t", "0", 18), 1))

    fetchers.await_order(Deliver)
    assert stage.coordinator.commits == [(Offset("t", "0", 17),), (Offset("t", "0", 18),)]


def test_streams_are_read_one_by_one(stage: Stage) -> None:
    """Each stream has the records of its own partitions; who reads by stream reads only so."""
    consumer = stage.consumer({"t": 2})
    stage.coordinator.await_registrations(1)
    stage.coordinator.ask(Start((T0, Offset("t", "1", 0))), generation=1)
    streams = consumer.streams()
    PlayedFetchers.last.fetch(40)
    PlayedFetchers.last.streams.put(1, 1, [Record("t", 1, 0, None, None, None, (), 1)])

    taken = [stream.poll(10) for stream in streams]

    assert [(record.partition, record.offset) for record in taken if record] == [(0, 40), (1, 0)]
    with pytest.raises(Misused, match="one by one"):
        consumer.poll(0)
    with pytest.raises(Misused, match="taken before"):
        consumer.streams()


# ── Commits ─────────────────────────────────────────────────────────────────────────────────


def test_a_commit_stores_what_is_finished_or_through_a_record(stage: Stage) -> None:
    """`commit()` is of what is finished with; `commit(record)` says that the record is."""
    consumer = stage.started(40, 41, 42, auto_commit=False)
    assert take(consumer) == 40
    record = consumer.poll(10)
    assert record is not None

    consumer.commit()
    consumer.commit(record)

    assert stage.coordinator.commits == [(Offset("t", "0", 41),), (Offset("t", "0", 42),)]
    assert stage.offsets() is None


@pytest.mark.parametrize("code", [ErrorCode.STALE_GENERATION, ErrorCode.NOT_STORED])
def test_a_refused_commit_is_an_error_with_its_reason(stage: Stage, code: ErrorCode) -> None:
    """The user is told, and why; the error has the wire's code."""
    consumer = stage.started(40)
    stage.coordinator.commit_code = code

    with pytest.raises(CommitFailed) as refused:
        consumer.commit()

    assert refused.value.code is code
    assert "commit" in str(refused.value)


def test_a_commit_without_an_answer_ends_with_its_time(stage: Stage) -> None:
    """Nothing blocks for ever, and nobody knows whether it was stored."""
    consumer = stage.started(40)
    stage.coordinator.commit_code = None

    with pytest.raises(CommitFailed, match="nobody knows"):
        consumer.commit(timeout_s=0.05)

    stage.coordinator.cut()  # else closing would wait for the answer for a while


def test_a_record_of_a_past_assignment_cannot_be_committed(stage: Stage) -> None:
    """
    "An offset commit is accepted only from the partition's owner in the current generation."
    Reference: the contract, 2.
    """
    consumer = stage.started(40)
    record = consumer.poll(10)
    stage.coordinator.ask(Stop(), generation=1)
    with pytest.raises(CommitFailed, match="not \\(or no longer\\) this"):
        consumer.commit(record)
    stage.coordinator.ask(Start((T0,)), generation=2)

    with pytest.raises(CommitFailed, match="not \\(or no longer\\) this"):
        consumer.commit(record)

    assert stage.coordinator.commits == []


def test_without_a_coordinator_a_commit_says_so(stage: Stage) -> None:
    """A commit that was never sent is told apart from one that got no answer."""
    consumer = stage.consumer(coordinators="127.0.0.1:1")

    with pytest.raises(CommitFailed, match="no coordinator at present"):
        consumer.commit()


# ── The rebalance listener ──────────────────────────────────────────────────────────────────


class Told(RebalanceListener):
    """A listener that writes down what it is told, and commits when it is revoked."""

    def __init__(self) -> None:
        self.consumer: Consumer
        self.told: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.goes_on = threading.Event()
        self.goes_on.set()

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Write it down, and wait until it may go on."""
        self.told.append(("assigned", tuple(partitions)))
        self.goes_on.wait(10)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Write it down, and commit."""
        self.told.append(("revoked", tuple(partitions)))
        self.consumer.commit()


def test_a_listener_commits_before_its_stop_is_answered(stage: Stage) -> None:
    """What it commits when it is told counts, since nobody else has the partitions yet."""
    told = Told()
    told.consumer = consumer = stage.started(40, 41, listener=told, auto_commit=False)
    assert [take(consumer), take(consumer)] == [40, 41]

    stop = stage.coordinator.ask(Stop(), generation=1)

    assert stop.message == StopResponse(None)
    assert stage.coordinator.commits == [(Offset("t", "0", 41),)]
    t0 = (TopicPartition("t", 0),)
    assert told.told == [("assigned", t0), ("revoked", t0)]


def test_no_record_comes_before_the_listener_knows_of_its_partition(stage: Stage) -> None:
    """`on_assigned` returns, then the first record comes."""
    told = Told()
    told.goes_on.clear()
    told.consumer = consumer = stage.started(40, listener=told)

    assert consumer.poll(0.05) is None
    told.goes_on.set()

    assert take(consumer) == 40


def test_a_listener_that_fails_holds_nothing_up(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Its exception is logged, and the Stop is answered."""
    stage.started(40, listener=Told())  # it knows of no consumer to commit with

    assert stage.coordinator.ask(Stop(), generation=1).message == StopResponse((T0,))

    assert "The rebalance listener failed." in caplog.text


# ── The end ─────────────────────────────────────────────────────────────────────────────────


def test_a_close_commits_what_is_finished_and_ends_iterations(stage: Stage) -> None:
    """The user's close: iterations end, what is finished is stored."""
    consumer = stage.started(40, 41)
    assert [take(consumer), take(consumer)] == [40, 41]
    others: list[int] = []
    waiting = threading.Thread(target=lambda: others.extend(r.offset for r in consumer))
    waiting.start()
    while stage.offsets() != (Offset("t", "0", 42),):  # until that thread has asked
        pass

    consumer.close()

    waiting.join(10)
    assert not waiting.is_alive()
    assert others == []
    assert stage.coordinator.commits == [(Offset("t", "0", 42),)]
    consumer.close()
    with pytest.raises(Misused, match="closed"):
        consumer.subscribe("t")


def test_whoever_gives_up_says_which_brokers_it_knows() -> None:
    """`AllKnownBrokersNotAvailable`, with every address and the last reason."""
    with Consumer(
        "g",
        coordinators=["127.0.0.1:1", "127.0.0.1:2"],
        bootstrap_servers="127.0.0.1:1",
        gives_up=True,
    ) as consumer:
        consumer.subscribe("t")

        with pytest.raises(AllKnownBrokersNotAvailable, match=r"127\.0\.0\.1:1, 127\.0\.0\.1:2"):
            consumer.poll(10)


def test_a_refusal_that_nothing_can_change_is_raised(stage: Stage) -> None:
    """The user is told what the coordinator said."""
    stage.coordinator.register_code = ErrorCode.INVALID_SUBSCRIPTION
    consumer = stage.consumer()

    with pytest.raises(RegistrationRefused, match="INVALID_SUBSCRIPTION"):
        consumer.poll(10)


def test_a_refusal_that_may_change_is_logged_and_tried_again(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """A full group may be less full a moment later."""
    stage.coordinator.register_code = ErrorCode.GROUP_FULL
    stage.consumer()

    stage.coordinator.await_registrations(2)

    assert "the registration was refused: GROUP_FULL" in caplog.text


def test_a_trouble_is_told_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that is away for an hour must not fill a log."""
    caplog.set_level(logging.WARNING)
    with Consumer("g", coordinators="127.0.0.1:1", bootstrap_servers="127.0.0.1:1") as consumer:
        consumer.subscribe("t")
        consumer.poll(0.4)  # it consults several times meanwhile

    told = [entry for entry in caplog.records if "cannot be consulted" in entry.message]
    assert len(told) == 1


def test_fetchers_that_fail_are_an_error_of_the_users(stage: Stage) -> None:
    """What Kafka refuses for good ends the iteration with the reason."""
    consumer = stage.started()

    PlayedFetchers.last.fail(KafkaUnusable("no credentials"))

    with pytest.raises(KafkaUnusable, match="no credentials"):
        consumer.poll(10)


def test_coordinators_can_be_spoken_to_by_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tls` is for the coordinators' wire; a server that is not trusted is none."""
    monkeypatch.setattr(herdproof.consumer, "Fetchers", PlayedFetchers)
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with PlayedCoordinator(server) as coordinator:
        for tls in (trusting, ssl.create_default_context()):
            consumer = Consumer(
                "g", coordinators=coordinator.address, bootstrap_servers="127.0.0.1:1", tls=tls,
                gives_up=True,
            )  # fmt: skip
            with consumer:
                consumer.subscribe("t")
                if tls is trusting:
                    coordinator.await_registrations(1)
                else:
                    with pytest.raises(AllKnownBrokersNotAvailable):
                        consumer.poll(10)
        assert len(coordinator.registrations) == 1


# ── Subscribing ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("topics", "text"),
    [
        ("t", '{"t": 1}'),
        (["b", "a"], '{"a": 1, "b": 1}'),
        ({"t": 3}, '{"t": 3}'),
        ("^t-.*", "*1*^t-.*"),
        (re.compile("t-[0-9]+"), "*1*t-[0-9]+"),
    ],
)
def test_topics_are_named_counted_or_matched(stage: Stage, topics: Any, text: str) -> None:
    """What `subscribe` takes, and what the coordinator is sent for it."""
    stage.consumer(topics)

    assert stage.coordinator.await_registrations(1).topic_count == text


def test_calls_that_do_not_go_together_are_refused(stage: Stage) -> None:
    """Subscribe first, and once; flags of a pattern cannot be sent."""
    unsubscribed = Consumer("g", coordinators="h:1", bootstrap_servers="h:1")
    with pytest.raises(Misused, match="subscribe first"):
        unsubscribed.poll(0)
    with pytest.raises(BadArgument, match="flags cannot be sent"):
        unsubscribed.subscribe(re.compile("t", re.IGNORECASE))
    with pytest.raises(Misused, match="subscribed before"):
        stage.consumer().subscribe("u")
