"""Records and partitions of topics, as a consumer tells its application of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic, by its number; it equals the plain pair of both."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Record:
    """One record; `key` and `value` are as they were produced (None: it has none)."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    """When it was created or appended, in milliseconds since 1970; None if Kafka does not know."""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    generation: int = field(default=0, repr=False)
    """Of the assignment that it was delivered in: only in that can it be committed."""
