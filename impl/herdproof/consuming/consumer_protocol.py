"""
What consumers put into the group protocol, which is opaque to it: subscriptions and assignments.

Each begins with the version of its layout. Whatever cannot be read raises `Malformed`.

Source: apache/kafka, `clients/…/ConsumerProtocolSubscription.json` and `…Assignment.json`.
"""

from __future__ import annotations

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


def _embedded(layout: Layout, data: bytes) -> Values:
    """A client's own message; of a later version that is read which is known, as clients do."""
    version = version_of(data, layout.name)
    if version < layout.first:
        raise Malformed("unknown_version", f"{layout.name} v{version}")
    known = min(version, layout.last)
    return layout.read(data, VERSION_BYTES, known, longer=version > known)
