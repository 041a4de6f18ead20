"""Offsets, and the partitions that they are of, under the names that protocols have for these."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from msgspec import Struct

from herdproof.errors import PeerError

NO_OFFSET = -1
"""Nothing is stored: begin where `auto_offset_reset` says."""

_PARTITION = re.compile(r"(?:[0-9]+-)?([0-9]{1,9})", re.ASCII)


class OffsetReset(Enum):
    """Where to begin where no offset is stored, or where it is out of range."""

    SMALLEST = "smallest"
    LARGEST = "largest"


class BadPartition(PeerError):
    """A text that names no partition."""


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """A partition by the text that its protocol has for it: "3", or `002`'s "0-3"."""

    topic: str
    partition: str


class Offset(Struct, frozen=True, gc=False):
    """The first offset of a partition that its consumer has not finished with."""

    topic: str
    partition: str
    offset: int


def text_of(number: int) -> str:
    """The text of a partition of a Kafka 3.9 topic; `2` is "2"."""
    return str(number)


def number_of(partition: str) -> int:
    """
    A partition's number within its topic: 3 for "3" and for `002`'s "0-3" (broker 0, partition 3).

    `BadPartition` if the text is in neither form.
    """
    found = _PARTITION.fullmatch(partition)
    if not found:
        raise BadPartition(f"{partition[:80]!r} is no partition, like 3 or 0-3")
    return int(found[1])
