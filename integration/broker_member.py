r"""
A member of a group, as a process: one of three unmodified clients, none of which knows of us.

    python broker_member.py confluent-kafka|kafka-python|aiokafka|herdproof BOOTSTRAP GROUP TOPIC \
        [--assignor range|cooperative-sticky|default] [--session-ms MS] \
        [--instance GROUP.INSTANCE.ID]

The fourth is ours. Of these aiokafka has no cooperative assignor. With `default` nothing is said of
assignors, and each client has its own.

Each record that it gets is a line on stdout, `PARTITION VALUE`, and committed once it is printed.
SIGTERM lets it leave. One whose instance id another one has taken ends by itself, FENCED.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import warnings
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


def got(partition: int, value: bytes) -> None:
    """A record came."""
    print(partition, value.decode(), flush=True)


def confluent_kafka(member: argparse.Namespace) -> None:
    """Librdkafka's consumer."""
    from confluent_kafka import Consumer, KafkaError

    instance = {"group.instance.id": member.instance} if member.instance else {}
    consumer = Consumer({
        "bootstrap.servers": member.bootstrap, "group.id": member.group,
        "auto.offset.reset": "earliest", **assignors_of(member, {
            "partition.assignment.strategy": member.assignor
        }),
        "session.timeout.ms": member.session_ms, "heartbeat.interval.ms": HEARTBEAT_MS,
        "enable.auto.commit": False, "log_level": 0, **instance,
    })  # fmt: skip
    consumer.subscribe([member.topic])
    while not over:
        message: Any = consumer.poll(POLL_MS / 1000)
        if message is not None and not message.error():
            got(message.partition(), message.value())
            commit(partial(consumer.commit, message=message, asynchronous=False))
        elif message is not None and message.error().code() == KafkaError._FATAL:
            fenced(message.error())
    consumer.close()


def kafka_python(member: argparse.Namespace) -> None:
    """kafka-python's consumer."""
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import FencedInstanceIdError

    chosen = RangePartitionAssignor if member.assignor == "range" else CooperativeStickyAssignor
    said = assignors_of(member, {"partition_assignment_strategy": [chosen]})
    consumer = KafkaConsumer(member.topic, **said, **python_settings(member))
    try:
        while not over:
            for records in consumer.poll(POLL_MS).values():
                for record in records:
                    got(record.partition, record.value)
                commit(consumer.commit)
    except FencedInstanceIdError as refusal:
        fenced(refusal)
    consumer.close()


async def aiokafka(member: argparse.Namespace) -> None:
    """Aiokafka's consumer."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    said = assignors_of(member, {"partition_assignment_strategy": [RangePartitionAssignor]})
    consumer = AIOKafkaConsumer(member.topic, **said, **python_settings(member))
    await consumer.start()
    while not over:
        for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
            for record in records:
                got(record.partition, record.value)
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
        "bootstrap_servers": member.bootstrap, "group_id": member.group,
        "group_instance_id": member.instance, "auto_offset_reset": "earliest",
        "session_timeout_ms": member.session_ms, "heartbeat_interval_ms": HEARTBEAT_MS,
        "enable_auto_commit": False,
    }  # fmt: skip


def herdproof(member: argparse.Namespace) -> None:
    """Our own."""
    from herdproof import Consumer

    with Consumer(
        member.group, protocol="group_protocol", bootstrap_servers=member.bootstrap,
        auto_offset_reset="earliest", **assignors_of(member, {"assignors": member.assignor}),
        session_timeout_s=member.session_ms / 1000, heartbeat_interval_s=HEARTBEAT_MS / 1000,
        auto_commit=False, group_instance_id=member.instance,
    ) as consumer:  # fmt: skip
        consumer.subscribe(member.topic)
        while not over:
            record = consumer.poll(POLL_MS / 1000)
            if record is not None and record.value is not None:
                got(record.partition, record.value)
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


def told() -> argparse.Namespace:
    """The command line."""
    words = argparse.ArgumentParser()
    for name in ("kind", "bootstrap", "group", "topic"):
        words.add_argument(name)
    words.add_argument("--assignor", default="range")
    words.add_argument("--session-ms", type=int, default=SESSION_MS)
    words.add_argument("--instance")
    return words.parse_args()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGTERM, end)
    member = told()
    if member.kind == "aiokafka":
        asyncio.run(aiokafka(member))
    else:
        {
            "confluent-kafka": confluent_kafka,
            "kafka-python": kafka_python,
            "herdproof": herdproof,
        }[member.kind](member)
