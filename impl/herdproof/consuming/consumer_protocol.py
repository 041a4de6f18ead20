"""
Subscriptions and assignments as consumers put them into the group protocol, opaque to it.

Each begins with the version of its layout. Whatever cannot be read raises `Malformed`.

Source: apache/kafka, `clients/…/ConsumerProtocolSubscription.json` and `…Assignment.json`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import groupby

from herdproof.consuming.layouts import NEVER, VERSION_BYTES, Layout, Values, version_of
from herdproof.errors import Malformed

_OWNED = {"TopicPartition": "topic string\npartitions []int32"}

SUBSCRIPTION = Layout(
    "ConsumerProtocolSubscription", (0, 3), NEVER,
    """
    topics []string
    user_data bytes null
    owned_partitions []TopicPartition 1+
    generation_id int32 2+
    rack_id string 3+ null
    """,
    _OWNED,
)  # fmt: skip

ASSIGNMENT = Layout(
    "ConsumerProtocolAssignment", (0, 3), NEVER,
    """
    assigned_partitions []TopicPartition
    user_data bytes null
    """,
    _OWNED,
)  # fmt: skip


def read_subscription(data: bytes) -> Values:
    """A member's subscription; or `Malformed`."""
    return _embedded(SUBSCRIPTION, data)


def read_assignment(data: bytes) -> list[tuple[str, int]]:
    """The partitions that a member is to have, none for empty bytes; or `Malformed`."""
    if not data:
        return []
    topics = _embedded(ASSIGNMENT, data)["assigned_partitions"]
    return [(topic["topic"], number) for topic in topics for number in topic["partitions"]]


def read_user_data(assignment: bytes) -> bytes | None:
    """The words that an assignment has for its member, if any; or `Malformed`."""
    return _embedded(ASSIGNMENT, assignment)["user_data"] if assignment else None


def write_subscription(
    topics: Sequence[str], user_data: bytes | None = None,
    owned: Iterable[tuple[str, int]] | None = None, generation: int = -1,
) -> bytes:  # fmt: skip
    """A member's subscription, in version 0; with what it owns, and since when, in version 2."""
    names = b"".join(_string(topic) for topic in topics)
    wants = _INT32.pack(len(topics)) + names + _bytes(user_data)
    if owned is None:
        return _VERSION_0 + wants
    return _VERSION_2 + wants + write_partitions(owned) + _INT32.pack(generation)


def write_assignment(
    partitions: Iterable[tuple[str, int]], user_data: bytes | None = None
) -> bytes:  # fmt: skip
    """A member's assignment, in version 0; the partitions of a topic stand together."""
    return _VERSION_0 + write_partitions(partitions) + _bytes(user_data)


def write_partitions(partitions: Iterable[tuple[str, int]]) -> bytes:
    """An array of topics, each with its partitions."""
    topics = [
        (topic, [number for _, number in found])
        for topic, found in groupby(sorted(partitions), key=lambda partition: partition[0])
    ]
    return _INT32.pack(len(topics)) + b"".join(
        _string(topic) + _INT32.pack(len(numbers)) + b"".join(map(_INT32.pack, numbers))
        for topic, numbers in topics
    )


def _bytes(data: bytes | None) -> bytes:
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


_INT32 = struct.Struct(">i")
_VERSION_0 = struct.pack(">h", 0)
_VERSION_2 = struct.pack(">h", 2)


def _embedded(layout: Layout, data: bytes) -> Values:
    """A client's own message; of a later version that is read which is known, as clients do."""
    version = version_of(data, layout.name)
    if version < layout.first:
        raise Malformed("unknown_version", f"{layout.name} v{version}")
    known = min(version, layout.last)
    return layout.read(data, VERSION_BYTES, known, longer=version > known)
