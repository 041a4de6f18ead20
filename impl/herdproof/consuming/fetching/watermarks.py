"""Finds where Kafka's partitions begin and end, for those who reckon with offsets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from herdproof.consuming.addresses import BadArgument
from herdproof.consuming.assignment import Partition
from herdproof.errors import WorldError

PATIENCE_S = 10.0
"""Longest time that Kafka may take to answer."""

Settings: TypeAlias = Mapping[str, str | int | float | bool]
"""Settings of Kafka's client."""

silent = logging.getLogger("herdproof.librdkafka")
silent.propagate = False
silent.addHandler(logging.NullHandler())


class KafkaUnreachable(WorldError):
    """No broker told where a partition begins or ends."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A partition's records: from the first that is kept to the one that will be appended next."""

    earliest: int
    latest: int


def watermarks(
    bootstrap: str,
    partitions: Iterable[Partition],
    settings: Settings | None = None,
) -> dict[Partition, OffsetRange]:
    """
    The range of each partition, as the brokers at `bootstrap` ("host:port,host:port") have it.

    `settings` are further ones of Kafka's client. Raises `KafkaUnreachable`, which names the
    partition, or `BadArgument`.
    """
    wanted = {p: TopicPartition(p[0], int(p[1])) for p in partitions}
    if not wanted:
        return {}
    admin = administrator(bootstrap, settings)
    ends: list[OffsetSpec] = [OffsetSpec.earliest(), OffsetSpec.latest()]  # type: ignore[no-untyped-call]
    asked = [
        admin.list_offsets(dict.fromkeys(wanted.values(), end), request_timeout=PATIENCE_S)
        for end in ends
    ]
    found = {}
    for partition, at in wanted.items():
        try:
            earliest, latest = (each[at].result(PATIENCE_S).offset for each in asked)
        except (KafkaException, TimeoutError) as problem:
            raise KafkaUnreachable(
                f"Kafka at {bootstrap} did not tell the offsets of {partition[0]} "
                f"{partition[1]}: {problem}. Check --bootstrap-servers, and that the topic exists."
            ) from problem
        found[partition] = OffsetRange(earliest, latest)
    return found


def partition_numbers(bootstrap: str, topic: str, settings: Settings | None = None) -> list[str]:
    """
    The partitions that the brokers at `bootstrap` say a topic has, in order.

    Raises `KafkaUnreachable`, or `BadArgument`.
    """
    try:
        told = administrator(bootstrap, settings).list_topics(topic, timeout=PATIENCE_S)
    except KafkaException as problem:
        raise KafkaUnreachable(
            f"Kafka at {bootstrap} did not tell of {topic!r}: {problem}. Check --bootstrap-servers."
        ) from problem
    found = told.topics[topic]
    if found.error is not None or not found.partitions:
        raise BadArgument(f"Kafka has no topic {topic!r}: check its name.")
    return [str(number) for number in sorted(found.partitions)]


def administrator(bootstrap: str, settings: Settings | None) -> AdminClient:
    """A client of Kafka's for whoever asks about topics; raises `BadArgument`."""
    try:
        return AdminClient({**(settings or {}), "bootstrap.servers": bootstrap}, logger=silent)
    except KafkaException as problem:
        raise BadArgument(f"Kafka's client cannot be set up so: {problem.args[0].str()}") from None
