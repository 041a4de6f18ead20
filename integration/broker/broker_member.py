r"""
A member of a group, as a process: one of three unmodified clients, none of which knows of us.

    python broker_member.py confluent-kafka|kafka-python|aiokafka|herdproof BOOTSTRAP GROUP TOPIC \
        [--assignor range|cooperative-sticky|default] [--session-ms MS] \
        [--instance GROUP.INSTANCE.ID] [--client CLIENT.ID]

The fourth is ours. Of these aiokafka has no cooperative assignor. With `default` nothing is said of
assignors, and each client has its own.

It reports in lines of JSON on stdout, each with the machine's clock (`at`, seconds): the partitions
that its library says it has, when they change, and each record that it gets, which is committed
once it is told. SIGTERM lets it leave. One whose instance id another one has taken ends by itself,
FENCED.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from functools import partial
from types import FrameType
from typing import Any

SESSION_MS, HEARTBEAT_MS, POLL_MS = 2_000, 300, 200
FENCED = "fenced"

over = False


def end(_number: int, _frame: FrameType | None) -> None:
    """Leave at the next opportunity."""
    global over
    over = True


class Told:
    """A member's reports; libraries may call listeners in threads of their own."""

    def __init__(self, member: argparse.Namespace) -> None:
        self._consumer, self._topic = member.client, member.topic
        self._has: set[int] = set()
        self._one_line = threading.Lock()

    def record(self, partition: int, offset: int, value: bytes) -> None:
        """A record came; a stray is of a partition that was taken away meanwhile."""
        with self._one_line:
            event = "record" if partition in self._has else "stray"
            self._tell(event, partition=partition, offset=offset, value=value.decode())

    def assigned(self, partitions: Iterable[int]) -> None:
        """These came to those that it has."""
        self._changed(self._has.union(partitions))

    def revoked(self, partitions: Iterable[int], *, stopped: bool = True) -> None:
        """These are taken from it; it has stopped, unless they were lost before it heard."""
        self._changed(self._has.difference(partitions), stopped=stopped)

    def has_anew(self, partitions: Iterable[int]) -> None:
        """It has these in another generation, and stopped with what it had some time before."""
        self._changed(set())
        self._changed(set(partitions))

    def _changed(self, now: set[int], *, stopped: bool = False) -> None:
        with self._one_line:
            if now == self._has:
                return
            self._has = now
            if now:
                where = [(self._topic, partition) for partition in sorted(now)]
                self._tell("assigned", partitions=where)
            else:
                self._tell("revoked", stopped=stopped)

    def _tell(self, event: str, **more: object) -> None:
        always = {"consumer": self._consumer, "at": time.time(), "topic": self._topic}
        print(json.dumps({"event": event, **always, **more}), flush=True)


def numbers(partitions: Iterable[Any]) -> list[int]:
    """The partitions' numbers."""
    return [each.partition for each in partitions]


def listener_of(base: type, told: Told) -> Any:
    """A listener as aiokafka and ours have it, with their own base class."""

    class Listener(base):  # type: ignore[misc]
        """Tells of what it is told."""

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            """New ones, or all."""
            told.assigned(numbers(assigned))

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            """Before the next assignment."""
            told.revoked(numbers(revoked))

        def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            """It is a member no longer."""
            told.revoked(numbers(lost), stopped=False)

        on_assigned, on_revoked, on_lost = (
            on_partitions_assigned, on_partitions_revoked, on_partitions_lost,
        )  # fmt: skip

    return Listener()


def confluent_kafka(member: argparse.Namespace) -> None:
    """Librdkafka's consumer."""
    from confluent_kafka import Consumer, KafkaError

    instance = {"group.instance.id": member.instance} if member.instance else {}
    told = Told(member)
    consumer = Consumer({
        "client.id": member.client, "bootstrap.servers": member.bootstrap, "group.id": member.group,
        "auto.offset.reset": "earliest", **assignors_of(member, {
            "partition.assignment.strategy": member.assignor
        }),
        "session.timeout.ms": member.session_ms, "heartbeat.interval.ms": HEARTBEAT_MS,
        "enable.auto.commit": False, "log_level": 0, **instance,
    })  # fmt: skip

    def lost(_consumer: object, partitions: Iterable[Any]) -> None:
        """It is a member no longer."""
        told.revoked(numbers(partitions), stopped=False)

    consumer.subscribe(
        [member.topic],
        on_assign=lambda _, partitions: told.assigned(numbers(partitions)),
        on_revoke=lambda _, partitions: told.revoked(numbers(partitions)),
        on_lost=lost,
    )
    while not over:
        message: Any = consumer.poll(POLL_MS / 1000)
        if message is not None and not message.error():
            told.record(message.partition(), message.offset(), message.value())
            commit(partial(consumer.commit, message=message, asynchronous=False))
        elif message is not None and message.error().code() == KafkaError._FATAL:
            fenced(message.error())
    consumer.close()


def kafka_python(member: argparse.Namespace) -> None:
    """
    kafka-python's consumer, which is asked what it has where it hands records out.

    With a listener, and its topic said by `subscribe`, 3.0.12 was seen to hang as it joined. While
    no broker can be reached it raises out of `poll` what can be tried again: so it is.
    """
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import FencedInstanceIdError, RetriableError

    chosen = RangePartitionAssignor if member.assignor == "range" else CooperativeStickyAssignor
    told, known = Told(member), None
    said = assignors_of(member, {"partition_assignment_strategy": [chosen]})
    consumer = KafkaConsumer(member.topic, **said, **python_settings(member))
    try:
        while not over:
            try:
                polled = consumer.poll(POLL_MS).values()
            except RetriableError as refusal:
                print(f"polls again: {refusal!r}", file=sys.stderr, flush=True)
                continue
            has = (consumer._coordinator._generation.generation_id, consumer.assignment())
            if polled and has != known:  # else it may be about to join
                known = has
                told.has_anew(numbers(has[1]))
            for records in polled:
                for record in records:
                    told.record(record.partition, record.offset, record.value)
            if polled:
                commit(consumer.commit)  # it is of all partitions
    except FencedInstanceIdError as refusal:
        fenced(refusal)
    consumer.close()


async def aiokafka(member: argparse.Namespace) -> None:
    """Aiokafka's consumer."""
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    told = Told(member)
    said = assignors_of(member, {"partition_assignment_strategy": [RangePartitionAssignor]})
    consumer = AIOKafkaConsumer(**said, **python_settings(member))
    consumer.subscribe([member.topic], listener=listener_of(ConsumerRebalanceListener, told))
    await consumer.start()
    while not over:
        for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
            for record in records:
                told.record(record.partition, record.offset, record.value)
        try:
            await consumer.commit()
        except Exception as refusal:
            not_committed(refusal)
    await consumer.stop()


def assignors_of(member: argparse.Namespace, said: dict[str, Any]) -> dict[str, Any]:
    """The setting that says which assignor a member has; none, if that is its client's to say."""
    return {} if member.assignor == "default" else said


def python_settings(member: argparse.Namespace) -> dict[str, Any]:
    """What kafka-python and aiokafka call alike."""
    return {
        "client_id": member.client, "bootstrap_servers": member.bootstrap,
        "group_id": member.group,
        "group_instance_id": member.instance, "auto_offset_reset": "earliest",
        "session_timeout_ms": member.session_ms, "heartbeat_interval_ms": HEARTBEAT_MS,
        "enable_auto_commit": False,
    }  # fmt: skip


def herdproof(member: argparse.Namespace) -> None:
    """Our own."""
    from herdproof import Consumer
    from herdproof.consumer import RebalanceListener

    told = Told(member)
    with Consumer(
        member.group, protocol="group_protocol", bootstrap_servers=member.bootstrap,
        auto_offset_reset="earliest", **assignors_of(member, {"assignors": member.assignor}),
        session_timeout_s=member.session_ms / 1000, heartbeat_interval_s=HEARTBEAT_MS / 1000,
        auto_commit=False, group_instance_id=member.instance, consumer_id=member.client,
        listener=listener_of(RebalanceListener, told),
    ) as consumer:  # fmt: skip
        consumer.subscribe(member.topic)
        while not over:
            record = consumer.poll(POLL_MS / 1000)
            if record is not None and record.value is not None:
                told.record(record.partition, record.offset, record.value)
                commit(partial(consumer.commit, record))


def commit(deed: Any) -> None:
    """Commit; who is a member no longer is told so, and its successor gets the records again."""
    try:
        deed()
    except Exception as refusal:
        not_committed(refusal)


def not_committed(refusal: Exception) -> None:
    """The commit was refused; all libraries name this error alike."""
    print(f"not committed: {refusal!r}", file=sys.stderr)
    if "fenced" in repr(refusal).lower():
        fenced(refusal)


def fenced(refusal: object) -> None:
    """Another one has come under this one's instance id."""
    print(f"{FENCED}: {refusal}", file=sys.stderr, flush=True)
    end(0, None)


def command_line() -> argparse.Namespace:
    """The words of the command line."""
    words = argparse.ArgumentParser()
    for name in ("kind", "bootstrap", "group", "topic"):
        words.add_argument(name)
    words.add_argument("--assignor", default="range")
    words.add_argument("--session-ms", type=int, default=SESSION_MS)
    words.add_argument("--instance")
    words.add_argument("--client", default="member")
    return words.parse_args()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGTERM, end)
    member = command_line()
    if member.kind == "aiokafka":
        asyncio.run(aiokafka(member))
    else:
        {
            "confluent-kafka": confluent_kafka,
            "kafka-python": kafka_python,
            "herdproof": herdproof,
        }[member.kind](member)
