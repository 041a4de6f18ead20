r"""
A member of a group, as a process: one of three unmodified clients, none of which knows of us.

    python broker_member.py confluent-kafka|kafka-python|aiokafka|herdproof BOOTSTRAP GROUP TOPIC \
        [range|cooperative-sticky]

The fourth is ours. Of these aiokafka has no cooperative assignor.

Each record that it gets is a line on stdout, `PARTITION VALUE`, and committed once it is printed.
SIGTERM lets it leave.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import warnings
from functools import partial
from types import FrameType
from typing import Any

SESSION_MS, HEARTBEAT_MS, POLL_MS = 2_000, 300, 200

over = False


def end(_number: int, _frame: FrameType | None) -> None:
    """Leave at the next opportunity."""
    global over
    over = True


def got(partition: int, value: bytes) -> None:
    """A record came."""
    print(partition, value.decode(), flush=True)


def confluent_kafka(bootstrap: str, group: str, topic: str, assignor: str) -> None:
    """Librdkafka's consumer."""
    from confluent_kafka import Consumer

    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
        "partition.assignment.strategy": assignor, "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS, "enable.auto.commit": False, "log_level": 0,
    })  # fmt: skip
    consumer.subscribe([topic])
    while not over:
        message: Any = consumer.poll(POLL_MS / 1000)
        if message is not None and not message.error():
            got(message.partition(), message.value())
            commit(partial(consumer.commit, message=message, asynchronous=False))
    consumer.close()


def kafka_python(bootstrap: str, group: str, topic: str, assignor: str) -> None:
    """kafka-python's consumer."""
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    chosen = RangePartitionAssignor if assignor == "range" else CooperativeStickyAssignor
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
        partition_assignment_strategy=[chosen], session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS, enable_auto_commit=False,
    )  # fmt: skip
    while not over:
        for records in consumer.poll(POLL_MS).values():
            for record in records:
                got(record.partition, record.value)
            commit(consumer.commit)
    consumer.close()


async def aiokafka(bootstrap: str, group: str, topic: str) -> None:
    """Aiokafka's consumer."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
        partition_assignment_strategy=[RangePartitionAssignor], session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS, enable_auto_commit=False,
    )  # fmt: skip
    await consumer.start()
    while not over:
        for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
            for record in records:
                got(record.partition, record.value)
        try:
            await consumer.commit()
        except Exception as refusal:
            print(f"not committed: {refusal!r}", file=sys.stderr)
    await consumer.stop()


def herdproof(bootstrap: str, group: str, topic: str, assignor: str) -> None:
    """Our own."""
    from herdproof import Consumer

    with Consumer(
        group, protocol="group_protocol", bootstrap_servers=bootstrap, auto_offset_reset="earliest",
        assignors=assignor, session_timeout_s=SESSION_MS / 1000,
        heartbeat_interval_s=HEARTBEAT_MS / 1000, auto_commit=False,
    ) as consumer:  # fmt: skip
        consumer.subscribe(topic)
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
        print(f"not committed: {refusal!r}", file=sys.stderr)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGTERM, end)
    kind, bootstrap, group, topic, *chosen = sys.argv[1:]
    if kind == "aiokafka":
        asyncio.run(aiokafka(bootstrap, group, topic))
    else:
        {
            "confluent-kafka": confluent_kafka,
            "kafka-python": kafka_python,
            "herdproof": herdproof,
        }[kind](bootstrap, group, topic, *chosen or ["range"])
