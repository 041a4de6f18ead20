"""
Records of `__consumer_offsets` for tests, written by another hand than the one that reads them.

The encoder is kafka-python's, fed with the same descriptions of fields that our reader has, and
shares no line of code with that. Logs are written by kafka-python's builders of batches.
"""

from __future__ import annotations

import base64
import struct
import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from herdproof.consuming.consumer_protocol import ASSIGNMENT
from herdproof.consuming.layouts import Layout
from herdproof.pipeline.offsets import TOPIC
from herdproof.pipeline.offsets import records as r
from herdproof.pipeline.offsets.segments import LogRecord

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's, when it is loaded
    from kafka.protocol.schemas import StructField  # type: ignore[import-untyped,unused-ignore]
    from kafka.record import MemoryRecordsBuilder  # type: ignore[import-untyped,unused-ignore]
    from kafka.record.util import calc_crc32c  # type: ignore[import-untyped,unused-ignore]

COMMIT, GROUP = 1, 2
"""The kinds of classic records, as keys begin."""

# ── Encoding ────────────────────────────────────────────────────────────────────────────────


@cache
def encoder(layout: Layout) -> Any:
    """Kafka-python's encoder of a message."""
    versions = f"{layout.first}-{layout.last}"
    return StructField(
        {"name": "M", "type": "M", "fields": described(layout), "versions": versions}
    )


def described(layout: Layout, struct_name: str = "") -> list[dict[str, Any]]:
    """Fields as Kafka's JSON describes them."""
    made = []
    for field in layout.fields(struct_name):
        versions = f"{field.first}+" if field.last > layout.last else f"{field.first}-{field.last}"
        told: dict[str, Any] = {"name": field.name, "type": field.kind, "versions": versions}
        inner = field.kind.removeprefix("[]")
        if inner[0].isupper():
            told["fields"] = described(layout, inner)
        if field.nullable:
            told["nullableVersions"] = "0+"
        if field.tag is not None:
            told |= {"tag": field.tag, "taggedVersions": versions}
            if field.nullable:
                told["default"] = "null"
        made.append(told)
    return made


def encoded(layout: Layout, version: int, values: Mapping[str, Any]) -> bytes:
    """A message with its version before it; UUIDs are given as Kafka prints them."""
    flexible = layout.is_flexible(version)
    body = encoder(layout).encode(
        _with_uuids(dict(values)), version=version, compact=flexible, tagged=flexible
    )
    return struct.pack(">h", version) + bytes(body)


def _with_uuids(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: uuid_of(inner) if name == "topic_id" and inner else _with_uuids(inner)
            for name, inner in value.items()
        }
    return [_with_uuids(inner) for inner in value] if isinstance(value, list) else value


def uuid_of(text: str) -> uuid.UUID:
    """The UUID that Kafka prints so."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def key(kind: int, *words: str | int) -> bytes:
    """A record's key."""
    fields = [field.name for field in r.KINDS[kind].key.fields()]
    body = encoded(r.KINDS[kind].key, 0, dict(zip(fields, words, strict=True)))
    return struct.pack(">h", kind) + body[2:]


# ── Records ─────────────────────────────────────────────────────────────────────────────────

Pair = tuple[bytes, bytes | None]
"""A key and a value."""


def commit(group: str, topic: str, partition: int, offset: int | None, version: int = 3) -> Pair:
    """An offset is committed; None: it is deleted."""
    values = {
        "offset": offset, "leader_epoch": 0, "metadata": "", "commit_timestamp": 1_700_000_000_000,
        "expire_timestamp": -1,
    }  # fmt: skip
    value = None if offset is None else encoded(r.OFFSET_COMMIT_VALUE, version, values)
    return key(COMMIT, group, topic, partition), value


def generation(
    group: str, number: int, members: Mapping[str, Sequence[tuple[str, int]]], version: int = 3,
    static: Mapping[str, str] | None = None,
) -> Pair:  # fmt: skip
    """A generation: by member, what it is to have."""
    values = {
        "protocol_type": "consumer", "generation": number, "protocol": "range", "leader": None,
        "current_state_timestamp": 0,
        "members": [
            {
                "member_id": member, "group_instance_id": (static or {}).get(member),
                "client_id": "c", "client_host": "/127.0.0.1", "rebalance_timeout": 1,
                "session_timeout": 1, "subscription": b"", "assignment": assignment(given),
            }
            for member, given in members.items()
        ],
    }  # fmt: skip
    return key(GROUP, group), encoded(r.GROUP_METADATA_VALUE, version, values)


def assignment(given: Sequence[tuple[str, int]]) -> bytes:
    """What a member is to have, as a consumer's leader writes it."""
    topics: dict[str, list[int]] = {}
    for topic, number in given:
        topics.setdefault(topic, []).append(number)
    told = [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()]
    return encoded(ASSIGNMENT, 1, {"assigned_partitions": told, "user_data": None})


def modern(kind: int, words: Sequence[str], values: Mapping[str, Any] | None) -> Pair:
    """A record of KIP-848; no values: a tombstone."""
    layout = r.KINDS[kind].values[0]
    return key(kind, *words), None if values is None else encoded(layout, 0, values)


def in_log(pairs: Iterable[Pair], partition: int = 0, step_ms: int = 1000) -> list[LogRecord]:
    """Records as they stand in a log, a second apart."""
    return [
        LogRecord(partition, offset, (1_700_000_000_000 + offset * step_ms) * 1_000_000, k, v)
        for offset, (k, v) in enumerate(pairs)
    ]


# ── Logs ────────────────────────────────────────────────────────────────────────────────────


def batch(
    records: Sequence[tuple[bytes | None, bytes | None]], first: int = 0, *, magic: int = 2,
    compression: int = 0, producer: int | None = None,
) -> bytes:  # fmt: skip
    """A batch of records; with a `producer`, within its transaction."""
    builder = MemoryRecordsBuilder(
        magic=magic, compression_type=compression, batch_size=1 << 20,
        transactional=producer is not None, producer_id=-1 if producer is None else producer,
        producer_epoch=-1 if producer is None else 0, base_sequence=-1 if producer is None else 0,
    )  # fmt: skip
    for number, (k, v) in enumerate(records):
        assert builder.append(1_700_000_000_000 + first + number, k, v) is not None
    builder.close()
    return renumbered(bytes(builder.buffer()), first, magic)


def renumbered(data: bytes, first: int, magic: int) -> bytes:
    """A batch as it lies in a log from that offset on: the offset is in no checksum."""
    assert magic == 2 or first == 0, "of old formats each message has an offset"
    return struct.pack(">q", first) + data[8:]


def marker(offset: int, producer: int, *, committed: bool) -> bytes:
    """The end of a transaction: a control batch, which only brokers write."""
    told = (struct.pack(">hh", 0, int(committed)), struct.pack(">hi", 0, 0))
    data = bytearray(batch([told], offset, producer=producer))
    data[22] |= 0x20
    struct.pack_into(">I", data, 17, calc_crc32c(memoryview(data)[21:]))
    return bytes(data)


def write_segment(folder: Path, data: bytes, partition: int = 0, first: int = 0) -> Path:
    """A segment as Kafka names it."""
    path = folder / f"{TOPIC}-{partition}" / f"{first:020}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
