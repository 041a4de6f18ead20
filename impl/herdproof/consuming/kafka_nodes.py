"""Reads the ZooKeeper nodes of Kafka, and of its consumers of version 0.8, garbage and all."""

from __future__ import annotations

import json
import re

from herdproof.consuming.offsets import NO_OFFSET

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


def read_partitions(data: bytes) -> tuple[str, ...] | None:
    """
    The partitions that a topic's node names, in order; None if it cannot be understood.

    >>> read_partitions(b'{"version": 3, "partitions": {"10": [1], "9": [1]}}')
    ('9', '10')
    """
    try:
        partitions = json.loads(data)["partitions"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not isinstance(partitions, dict) or not all(map(_NUMBER.fullmatch, partitions)):
        return None
    return tuple(sorted(partitions, key=int))


def read_offset(data: bytes) -> int:
    """
    The offset that a node's data says; `NO_OFFSET` if it says none.

    >>> read_offset(b"42"), read_offset(b"")
    (42, -1)
    """
    text = data.decode("ascii", "replace")
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 20 else NO_OFFSET
