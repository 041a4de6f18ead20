"""
The consumer's fetch thread, with a client of Kafka's that is played: what becomes of its death.

A member whose fetchers are dead would hold its partitions, alive by its pings, and read nothing of
them. So the application gets the error, and the consumer leaves its group: others go on.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from herdproof import Consumer
from herdproof.consumer import ApplicationAway, BadArgument, KafkaUnusable, Misused, Record
from herdproof.consuming import session
from herdproof.consuming.fetching import fetchers
from herdproof.consuming.fetching.fetchers import Fetchers
from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.client.consumer import ConsumerCore, ConsumerPhase
from herdproof.protocols.central_coordinator.events import ConsumerEffect, ConsumerEvent, Send
from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    Leave,
    Ping,
    Start,
    StartResponse,
)
from integration.central_coordinator.played_coordinator import PlayedCoordinator

T0 = Offset("t", "0", 40)


class PlayedKafka:
    """A client of Kafka's that has no records, and fails when it is told to; `last` is the last."""

    last: PlayedKafka

    def __init__(self, _settings: object, **_logger: object) -> None:
        self.fails_at: dict[str, BaseException] = {}
        """What a method raises, by its name."""
        self.is_closed = threading.Event()
        PlayedKafka.last = self

    def __getattr__(self, method: str) -> Any:
        """Whatever else the fetchers call does nothing, or fails."""
        return lambda *_: self._answer(method)

    def _answer(self, method: str) -> Any:
        if method in self.fails_at:
            raise self.fails_at[method]
        return SimpleNamespace(topics={}) if method == "list_topics" else None

    def poll(self, timeout_s: float) -> None:
        """No record comes."""
        self._answer("poll")
        time.sleep(timeout_s)

    def close(self) -> None:
        """It is used no more."""
        self.is_closed.set()


class Watched:
    """Follows a consumer's core: what it sends, and its phase."""

    def __init__(self) -> None:
        self.sent: list[type] = []
        self.phase: ConsumerPhase | None = None
        self._changed = threading.Condition()

    def observe(
        self, core: ConsumerCore, _event: ConsumerEvent, effects: Sequence[ConsumerEffect]
    ) -> None:
        """Look at the core after an event."""
        with self._changed:
            self.phase = core.phase
            self.sent += [type(e.frame.message) for e in effects if isinstance(e, Send)]
            self._changed.notify_all()

    def await_end(self) -> None:
        """Wait until the consumer has left."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.phase is ConsumerPhase.CLOSED, 10)


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    """Closes what a test has opened; Kafka's client is played."""
    monkeypatch.setattr(fetchers, "Consumer", PlayedKafka)
    with ExitStack() as stack:
        yield stack


def consuming(stack: ExitStack, **options: Any) -> tuple[Consumer, Watched, PlayedCoordinator]:
    """A consumer that has registered with a played coordinator."""
    coordinator, watched = stack.enter_context(PlayedCoordinator()), Watched()
    consumer = Consumer(
        "g", bootstrap_servers="127.0.0.1:1", coordinators=coordinator.address, **options
    )
    consumer._observe = watched.observe
    stack.callback(consumer.close, 2)
    consumer.subscribe("t")
    return consumer, watched, coordinator


DEATHS: dict[str, BaseException] = {
    "an error of its own": RuntimeError("it is dead"),
    "an error of Kafka's": KafkaException(KafkaError(KafkaError._STATE, "it is dead")),
    "an exit, of which Python says nothing": SystemExit("it is dead"),
}


@pytest.mark.parametrize("method", ["assign", "consume", "poll"])
@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)
def test_a_fetch_thread_that_dies_is_an_error_of_the_application_s(
    stack: ExitStack, method: str, death: BaseException
) -> None:
    """Whatever ends the thread, whoever waits for a record is told so, and the group is left."""
    consumer, watched, coordinator = consuming(stack)
    coordinator.await_registrations(1)
    if method == "assign":
        PlayedKafka.last.fails_at[method] = death
    answer = coordinator.ask(Start((T0,)), generation=1)
    assert answer.message == StartResponse(ErrorCode.NONE)
    PlayedKafka.last.fails_at[method] = death

    with pytest.raises(KafkaUnusable, match=r"the fetchers failed: .*it is dead"):
        consumer.poll(10)

    watched.await_end()
    assert Leave in watched.sent
    assert PlayedKafka.last.is_closed.wait(10)


def test_a_fetch_thread_that_dies_at_once_takes_the_consumer_with_it(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fetchers that are dead before the consumer has begun leave no member that reads nothing."""
    start = Fetchers.start

    def start_and_die(self: Fetchers) -> None:
        PlayedKafka.last.fails_at["consume"] = RuntimeError("it is dead")
        start(self)
        self._thread.join(10)

    monkeypatch.setattr(Fetchers, "start", start_and_die)
    consumer, watched, _ = consuming(stack)

    with pytest.raises(KafkaUnusable, match="the fetchers failed: it is dead"):
        consumer.poll(10)

    watched.await_end()


def test_fetchers_that_stand_still_take_the_consumer_with_them(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pings go on, and nothing is read: the session sees that, and leaves the partitions."""
    monkeypatch.setattr(session, "STUCK_S", 0.2)
    consumer, watched, coordinator = consuming(stack)
    coordinator.await_registrations(1)
    coordinator.ask(Start((T0,)), generation=1)
    goes_on = threading.Event()
    stack.callback(goes_on.set)
    PlayedKafka.last.poll = lambda _: goes_on.wait(30)  # type: ignore[assignment, method-assign]

    def pinged() -> None:
        while watched.phase is not ConsumerPhase.CLOSED:
            with contextlib.suppress(OSError, AssertionError):
                coordinator.ask(Ping(0), generation=1)
            time.sleep(0.02)

    pings = threading.Thread(target=pinged, daemon=True)
    pings.start()
    with pytest.raises(KafkaUnusable, match=r"the fetchers have stood still for \d+ s"):
        consumer.poll(10)

    watched.await_end()
    assert Leave in watched.sent
    goes_on.set()
    pings.join(10)


def test_an_application_that_does_not_come_back_has_left(stack: ExitStack) -> None:
    """Who leaves records waiting is taken for stuck: others go on, and it is told when it asks."""
    consumer, watched, coordinator = consuming(stack, max_poll_interval_s=0.3)
    coordinator.await_registrations(1)
    coordinator.ask(Start((T0,)), generation=1)
    fetched = Record("t", 0, 40, None, b"", None, (), 1)

    assert consumer.poll(0.5) is None  # however long no record comes, it is no fault of its own
    consumer._streams.put(1, 0, [fetched])
    assert consumer.poll(1) == fetched
    assert watched.phase is not ConsumerPhase.CLOSED

    watched.await_end()
    assert Leave in watched.sent
    with pytest.raises(ApplicationAway, match=r"not asked for a record .*max_poll_interval_s"):
        consumer.poll(10)


@pytest.mark.parametrize("interval", [0, -1, float("inf"), float("nan")])
def test_a_senseless_interval_is_refused(interval: float) -> None:
    """It is above 0, or None."""
    with pytest.raises(BadArgument, match="max_poll_interval_s is"):
        Consumer("g", bootstrap_servers="h:1", coordinators="h:2", max_poll_interval_s=interval)


def test_fetchers_that_are_closed_are_no_error(stack: ExitStack) -> None:
    """A thread that ends because it is told to has not died."""
    consumer, watched, coordinator = consuming(stack)
    coordinator.await_registrations(1)

    consumer.close()

    watched.await_end()
    with pytest.raises(Misused, match="is closed: make a new one"):
        consumer.poll(0)
    assert PlayedKafka.last.is_closed.is_set()
