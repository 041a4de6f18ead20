"""
Consumers of three libraries as a user's own tests would start them, for `scenarios.play`; and ours.

Each handles a record by telling the broker, and commits it before the next one.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException
from kafka import KafkaConsumer
from kafka.errors import KafkaError

from herdproof import Consumer
from herdproof.consumer import CommitFailed
from herdproof.testing import LocalBroker

TOPIC, GROUP = "orders", "billing"
HEARTBEAT_MS, SESSION_MS, POLL_MS = 100, 10_000, 30_000
TURN_S = 0.05
"""How long a turn waits for records."""
HELD_UP_S = 0.5
"""And how long what a rebalance holds up may go on."""


class ExampleConsumers:
    """Two consumers, `a` and `b`; a subclass knows the library."""

    def __init__(self, broker: LocalBroker, topic: str = TOPIC) -> None:
        self.names: Sequence[str] = ("a", "b")
        self.topic, self.group = topic, GROUP
        self.broker = broker
        self.running: dict[str, Any] = {}
        self.is_static = False
        """Whether a consumer's name is its `group.instance.id`, too."""
        self.poll_ms = POLL_MS
        """Of consumers that are started from now on: `max.poll.interval.ms`."""
        broker.create_topic(topic, partitions=4)

    def start(self, name: str) -> None:
        """Start a consumer."""
        self.running[name] = self.made(name)

    def made(self, name: str) -> Any:
        """A consumer of this library, which has subscribed."""
        raise NotImplementedError

    def settings(self, name: str) -> dict[str, Any]:
        """The settings as kafka-python and aiokafka call them; commits are by hand."""
        instance = {"group_instance_id": name} if self.is_static else {}
        return {
            "bootstrap_servers": self.broker.bootstrap, "group_id": GROUP, "client_id": name,
            "auto_offset_reset": "earliest", "enable_auto_commit": False,
            "heartbeat_interval_ms": HEARTBEAT_MS, "session_timeout_ms": SESSION_MS,
            "max_poll_interval_ms": self.poll_ms, "retry_backoff_ms": 50, **instance,
        }  # fmt: skip

    def turn(self, name: str) -> None:
        """Poll for one record."""
        raise NotImplementedError

    def stop(self, name: str) -> None:
        """Close a consumer."""
        raise NotImplementedError

    def close(self) -> None:
        """End what the library needs beside its consumers."""


class ConfluentConsumers(ExampleConsumers):
    """Those of confluent-kafka."""

    def made(self, name: str) -> ConfluentConsumer:
        """A consumer that commits by hand."""
        instance = {"group.instance.id": name} if self.is_static else {}
        consumer = ConfluentConsumer({
            "bootstrap.servers": self.broker.bootstrap, "group.id": GROUP, "client.id": name,
            "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0,
            "heartbeat.interval.ms": HEARTBEAT_MS, "session.timeout.ms": SESSION_MS,
            "max.poll.interval.ms": self.poll_ms,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 50, **instance,
        })  # fmt: skip
        consumer.subscribe([self.topic])
        return consumer

    def turn(self, name: str) -> None:
        """Poll for one record."""
        message = self.running[name].poll(TURN_S)
        if message is None or message.error():
            return
        self.broker.delivered(name, message)
        with suppress(KafkaException):  # it is another's now, or goes with the next one
            self.running[name].commit(message, asynchronous=False)

    def stop(self, name: str) -> None:
        """Close it."""
        self.running.pop(name).close()


class KafkaPythonConsumers(ExampleConsumers):
    """
    Those of kafka-python, each polled by a thread of its own: a poll may outlast its turn.

    kafka-python 3.0.12 drops a join that has ended between two of its polls, and joins again. While
    a group is joined, its members have to be within a poll at the same time.
    """

    def made(self, name: str) -> KafkaPythonConsumer:
        """A consumer that commits by hand."""
        return KafkaPythonConsumer(KafkaConsumer(self.topic, **self.settings(name)))

    def turn(self, name: str) -> None:
        """Poll for one record, or wait for the poll of the turn before."""
        self.running[name].turn(partial(self._poll, name))

    def _poll(self, name: str, consumer: KafkaConsumer) -> None:
        for records in consumer.poll(timeout_ms=HELD_UP_S * 1000, max_records=1).values():
            for record in records:
                self.broker.delivered(name, record)
                with suppress(KafkaError):  # it is another's now, or goes with the next one
                    consumer.commit()

    def stop(self, name: str) -> None:
        """Close it."""
        self.running.pop(name).close()


class KafkaPythonConsumer:
    """A consumer, and the thread that it belongs to."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self._own = ThreadPoolExecutor(1)
        self._polled: Future[None] | None = None

    def turn(self, poll: Callable[[KafkaConsumer], None]) -> None:
        """Begin a poll if none is under way, and wait for it for as long as a turn lasts."""
        if self._polled is None:
            self._polled = self._own.submit(poll, self._consumer)
        if wait([self._polled], TURN_S).done:
            polled, self._polled = self._polled, None
            polled.result()

    def close(self) -> None:
        """Close it, after what is under way."""
        with self._own:
            self._own.submit(self._consumer.close).result()


class AiokafkaConsumers(ExampleConsumers):
    """Those of aiokafka, in a loop of their own."""

    def __init__(self, broker: LocalBroker, topic: str = TOPIC) -> None:
        super().__init__(broker, topic)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def made(self, name: str) -> Any:
        """A consumer that commits by hand, and its start, which ends when it has joined."""
        return self._run(self._made(name))

    async def _made(self, name: str) -> Any:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(self.topic, **self.settings(name))
        return consumer, asyncio.ensure_future(consumer.start())

    def turn(self, name: str) -> None:
        """Poll for one record."""
        self._run(self._turn(name))

    async def _turn(self, name: str) -> None:
        from aiokafka.errors import KafkaError as AiokafkaError

        consumer, starting = self.running[name]
        if not starting.done():
            await asyncio.sleep(TURN_S)
            return
        with suppress(TimeoutError):  # a rebalance that waits for others holds up both calls
            found = await asyncio.wait_for(
                consumer.getmany(timeout_ms=50, max_records=1), HELD_UP_S
            )
            for record in itertools.chain.from_iterable(found.values()):
                self.broker.delivered(name, record)
                with suppress(AiokafkaError):  # it is another's now, or goes with the next one
                    await asyncio.wait_for(consumer.commit(), HELD_UP_S)

    def stop(self, name: str) -> None:
        """Close it."""
        self._run(self._stop(*self.running.pop(name)))

    async def _stop(self, consumer: Any, starting: Any) -> None:
        starting.cancel()
        await asyncio.wait([starting])
        await consumer.stop()

    def close(self) -> None:
        """End the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class OwnConsumers(ExampleConsumers):
    """Those of Herdproof."""

    def made(self, name: str) -> Consumer:
        """A consumer that commits by hand."""
        consumer = Consumer(
            GROUP, protocol="group_protocol", bootstrap_servers=self.broker.bootstrap,
            consumer_id=name, auto_offset_reset="earliest", auto_commit=False,
            heartbeat_interval_s=HEARTBEAT_MS / 1000, session_timeout_s=SESSION_MS / 1000,
            max_poll_interval_s=self.poll_ms / 1000, group_instance_id=name
            if self.is_static else None,
        )  # fmt: skip
        consumer.subscribe([self.topic])
        return consumer

    def turn(self, name: str) -> None:
        """Poll for one record."""
        record = self.running[name].poll(TURN_S)
        if record is None:
            return
        self.broker.delivered(name, record)
        with suppress(CommitFailed):  # it is another's now, or goes with the next one
            self.running[name].commit(record)

    def stop(self, name: str) -> None:
        """Close it."""
        self.running.pop(name).close()


KINDS: Mapping[str, Callable[[LocalBroker], ExampleConsumers]] = {
    "confluent-kafka": ConfluentConsumers,
    "kafka-python": KafkaPythonConsumers,
    "aiokafka": AiokafkaConsumers,
}
OURS: Mapping[str, Callable[[LocalBroker], ExampleConsumers]] = {"herdproof": OwnConsumers}
"""Our own, whose suites are elsewhere."""
