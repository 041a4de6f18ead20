"""
What is wrong is said within seconds, in one sentence, by the consumer itself; and when it is over.

Nothing here is a Kafka or a ZooKeeper: librdkafka, kazoo and our own shells are, with the loopback.
"""

from __future__ import annotations

import logging
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from confluent_kafka import KafkaError

from herdproof import Consumer
from herdproof.consuming.fetching import fetchers
from integration.central_coordinator.played_coordinator import PlayedCoordinator
from properties.consuming.test_fetchers import PlayedKafka
from properties.shells.test_who_listens import as_kafka, as_tls, listener

SOON_S = 3.0
"""Within this, whoever has made a mistake is told of it."""
NOWHERE = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> None:
    """Warnings are what is shown where no log is set up."""
    caplog.set_level(logging.WARNING)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a test has opened."""
    with ExitStack() as stack:
        yield stack


def consuming(stack: ExitStack, **arguments: Any) -> Consumer:
    """A consumer of the topic t."""
    consumer = Consumer("g", **{"bootstrap_servers": NOWHERE, **arguments})
    stack.callback(consumer.close, 1)
    consumer.subscribe("t")
    return consumer


def told(consumer: Consumer, sentence: str, within_s: float = SOON_S) -> None:
    """Wait until one of its troubles is this."""
    await_it(lambda: any(re.search(sentence, each) for each in consumer.troubles), within_s)


def await_it(holds: Callable[[], bool], within_s: float = SOON_S) -> None:
    """Wait until it holds; fail when that takes too long."""
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until, "it was not told in time"
        time.sleep(0.01)


# ── Coordinators ────────────────────────────────────────────────────────────────────────────


def test_that_no_coordinator_listens(stack: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
    """Told once, not at each attempt."""
    consumer = consuming(stack, coordinators=NOWHERE)

    told(consumer, "the coordinator at 127.0.0.1:1 cannot be consulted: nobody listens there")
    assert caplog.text.count("cannot be consulted") == 1


def test_that_kafka_was_given_as_a_coordinator(stack: ExitStack) -> None:
    """Whoever has swapped the two is told so, not that "a broker is not available"."""
    port = stack.enter_context(listener(as_kafka))

    consumer = consuming(stack, coordinators=f"127.0.0.1:{port}")

    told(consumer, f"Kafka itself answers at 127.0.0.1:{port}, where a coordinator is looked for")


def test_that_a_coordinator_was_given_as_kafka(stack: ExitStack) -> None:
    """The other half of the same mistake."""
    coordinator = stack.enter_context(PlayedCoordinator())

    consumer = consuming(
        stack, coordinators=coordinator.address, bootstrap_servers=coordinator.address
    )

    told(consumer, "who listens at .* is neither Kafka nor ZooKeeper.*not Kafka's own address")


def test_that_the_coordinator_alone_speaks_tls(stack: ExitStack) -> None:
    """And not that somebody has reset a connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    coordinator = stack.enter_context(PlayedCoordinator(context))

    consumer = consuming(stack, coordinators=coordinator.address)

    told(consumer, f"{coordinator.address} cannot be consulted: it speaks TLS, and this consumer d")


def test_that_the_consumer_alone_speaks_tls(stack: ExitStack) -> None:
    """The other half: a coordinator hangs up on what it cannot read."""
    port = stack.enter_context(listener(lambda line: line.close()))

    consumer = consuming(stack, coordinators=f"127.0.0.1:{port}", tls=ssl.create_default_context())

    told(consumer, "cannot be consulted: it speaks no TLS, and this consumer does")


def test_that_it_has_recovered(stack: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
    """Once it is registered again."""
    coordinator = stack.enter_context(PlayedCoordinator())
    consumer = consuming(stack, coordinators=coordinator.address)
    coordinator.await_registrations(1)

    coordinator.cut()

    await_it(lambda: "recovered after" in caplog.text)
    assert [each for each in consumer.troubles if "consults" in each] == []
    own = [each for each in caplog.messages if each.startswith("consumer") and "Kafka" not in each]
    told_first, told_last = own[0], own[-1]
    assert told_first.endswith(": it consults the brokers again, since the connection was closed")
    assert re.search(r"consumer \S+: recovered after \d\.\d s: it is registered", told_last)


def test_that_an_id_is_taken(stack: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
    """Two that share an id share a line of the group's description: that looks like one."""
    coordinator = stack.enter_context(PlayedCoordinator())
    first = consuming(stack, coordinators=coordinator.address, consumer_id="same")
    assert not [each for each in first.troubles if "id" in each]

    second = consuming(stack, coordinators=coordinator.address, consumer_id="same")

    told(second, "another consumer of this process has its id in group 'g'")
    first.close(1)
    await_it(lambda: not [each for each in second.troubles if "id" in each])
    assert "no other consumer of this process has its id" in caplog.text


# ── Kafka ───────────────────────────────────────────────────────────────────────────────────


class KafkaWithTopics(PlayedKafka):
    """A Kafka that has some topics."""

    topics: dict[str, SimpleNamespace] = {}  # noqa: RUF012 - the test's own

    def list_topics(self, topic: str, timeout_s: float) -> SimpleNamespace:
        """What Kafka says of a topic that it has, or has not."""
        assert timeout_s < 1
        unknown = SimpleNamespace(error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return SimpleNamespace(topics={topic: self.topics.get(topic, unknown)})


def test_that_a_topic_is_not_there_and_then_is(
    stack: ExitStack, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for records of it waits in vain until then."""
    monkeypatch.setattr(fetchers, "Consumer", KafkaWithTopics)
    monkeypatch.setattr(KafkaWithTopics, "topics", {})
    coordinator = stack.enter_context(PlayedCoordinator())
    consumer = consuming(stack, coordinators=coordinator.address)

    told(consumer, "Kafka at 127.0.0.1:1 has no topic 't': nothing is read of it until it is creat")
    assert consumer.poll(0) is None
    KafkaWithTopics.topics["t"] = SimpleNamespace(error=None)

    await_it(lambda: consumer.troubles == ())
    assert re.search("recovered after .* s: the topic 't' is there", caplog.text)


def test_that_kafka_is_not_reached(stack: ExitStack) -> None:
    """Told before the consumer has any partition to fetch."""
    coordinator = stack.enter_context(PlayedCoordinator())

    consumer = consuming(stack, coordinators=coordinator.address)

    told(consumer, "Kafka at 127.0.0.1:1 is not reached: nobody listens there; it is tried on")


def test_that_kafka_alone_speaks_tls(stack: ExitStack) -> None:
    """The client of Kafka would say that the broker's version may be too old."""
    coordinator = stack.enter_context(PlayedCoordinator())
    port = stack.enter_context(listener(as_tls))

    consumer = consuming(
        stack, coordinators=coordinator.address, bootstrap_servers=f"127.0.0.1:{port}"
    )

    told(consumer, "is not reached: it speaks TLS, and this consumer does not .security.protocol")


# ── ZooKeeper ───────────────────────────────────────────────────────────────────────────────


def test_that_zookeeper_is_not_reached(stack: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
    """Of a group that rebalances by itself; no line of each attempt."""
    consumer = consuming(stack, protocol="self_rebalancing", zookeeper=NOWHERE)

    told(consumer, "ZooKeeper at 127.0.0.1:1 is not reached: nobody listens at 127.0.0.1:1")
    assert "Connection dropped" not in caplog.text


def test_that_kafka_was_given_as_zookeeper(stack: ExitStack) -> None:
    """The ports are often mistaken for each other."""
    port = stack.enter_context(listener(as_kafka))

    consumer = consuming(stack, protocol="self_rebalancing", zookeeper=f"127.0.0.1:{port}")

    told(consumer, f"is not reached: Kafka itself answers at 127.0.0.1:{port}")


# ── Where no log is set up ──────────────────────────────────────────────────────────────────

BARE = """
from herdproof import Consumer
with Consumer("g", coordinators="127.0.0.1:1", bootstrap_servers="127.0.0.1:1") as consumer:
    consumer.subscribe("t")
    assert consumer.poll(2.5) is None
"""


def test_a_script_that_has_no_log_says_it_on_stderr() -> None:
    """Whoever tries it out is told, and not only that no record came."""
    ran = subprocess.run(
        [sys.executable, "-c", BARE], capture_output=True, text=True, check=True, timeout=60
    )

    for sentence in ("127.0.0.1:1 cannot be consulted: nobody", "Kafka at 127.0.0.1:1 is not reac"):
        assert ran.stderr.count(sentence) >= 1
    assert "Traceback" not in ran.stderr
