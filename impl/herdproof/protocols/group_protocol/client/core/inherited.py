"""
Tells a static leader's next life which partitions its assignment knew.

A leader that comes back in a stable group is told to leave the assignment as it is (KIP-814), and
looks for partitions that are new since. Kafka's clients take all for known that are there when they
come back, so that nobody consumes what appeared while they were away. Ours puts the topics that it
shares out into the user data of its own part, where its next life finds them: the coordinator keeps
that with the assignment, and no client of Kafka's reads it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from herdproof.consuming.consumer_protocol import read_user_data, write_assignment
from herdproof.errors import Malformed
from herdproof.protocols.group_protocol.effects import TopicPartition


def write_with_topics(partitions: list[TopicPartition], topics: Mapping[str, int]) -> bytes:
    """A static leader's own part, with the topics of its assignment, each with its partitions."""
    return write_assignment(partitions, msgspec.json.encode(topics))


def topics_shared_out(assignment: bytes) -> Mapping[str, int] | None:
    """The topics that a part names so; None where it names none."""
    try:
        data = read_user_data(assignment)
        return msgspec.json.decode(data, type=dict[str, int]) if data else None
    except (Malformed, msgspec.DecodeError):
        return None
