"""
What consumers put into the group protocol, which is opaque to it: subscriptions and assignments.

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
    """What a member wants; or `Malformed`."""
    return _embedded(SUBSCRIPTION, data)


def read_assignment(data: bytes) -> list[tuple[str, int]]:
    """The partitions that a member is to have, none for empty bytes; or `Malformed`."""
    if not data:
        return []
    topics = _embedded(ASSIGNMENT, data)["assigned_partitions"]
    return [(topic["topic"], number) for topic in topics for number in topic["partitions"]]


def write_subscription(topics: Sequence[str]) -> bytes:
    """What a member wants, in version 0."""
    names = b"".join(_string(topic) for topic in topics)
    return _VERSION_0 + _INT32.pack(len(topics)) + names + _NO_USER_DATA


def write_assignment(partitions: Iterable[tuple[str, int]]) -> bytes:
    """What a member is to have, in version 0; the partitions of a topic stand together."""
    topics = [
        (topic, [number for _, number in found])
        for topic, found in groupby(sorted(partitions), key=lambda partition: partition[0])
    ]
    written = b"".join(
        _string(topic) + _INT32.pack(len(numbers)) + b"".join(map(_INT32.pack, numbers))
        for topic, numbers in topics
    )
    return _VERSION_0 + _INT32.pack(len(topics)) + written + _NO_USER_DATA


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


_INT32 = struct.Struct(">i")
_VERSION_0 = struct.pack(">h", 0)
_NO_USER_DATA = _INT32.pack(-1)


def _embedded(layout: Layout, data: bytes) -> Values:
    """A client's own message; of a later version that is read which is known, as clients do."""
    version = version_of(data, layout.name)
    if version < layout.first:
        raise Malformed("unknown_version", f"{layout.name} v{version}")
    known = min(version, layout.last)
    return layout.read(data, VERSION_BYTES, known, longer=version > known)
