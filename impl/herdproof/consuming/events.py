"""
What a consumer's core, its fetchers and its rebalance listener tell each other: plain values.

Effects are the core's wishes, to be carried out in order; events are what came of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from herdproof.consuming.offsets import NamedPartition, Offset

# ── Events ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Consumed:
    """The application has finished with the records before this offset."""

    offset: Offset
    generation: int | None = None
    """Of the `StartFetchers` that delivered them (then a late one is dropped); None: not known."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Where a partition begins that had no stored offset (the fetchers looked it up)."""

    offset: Offset
    generation: int | None = None
    """Of the `StartFetchers` that asked for it; None: not known."""


@dataclass(frozen=True, slots=True)
class RevocationHandled:
    """The user's rebalance listener has returned from a `Revoked` (only if it `listens`)."""


# ── Effects ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class StopFetchers:
    """Close every fetcher and clear its queue, now: when this is done nothing is delivered."""


@dataclass(frozen=True, slots=True)
class StartFetchers:
    """
    Fetch these partitions from these offsets on, and deliver to the streams.

    One whose offset is `NO_OFFSET` begins where auto_offset_reset says: look it up, tell `Resolved`
    (also where an offset turns out to be out of range), and deliver nothing of it before `Deliver`.
    """

    partitions: tuple[Offset, ...]
    generation: int
    queues: tuple[int, ...] = ()
    """For each partition, the number of the queue (a stream has one) that its records go to."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """The start of this partition that was `Resolved` is stored: its records may be delivered."""

    partition: NamedPartition
    generation: int


@dataclass(frozen=True, slots=True)
class Revoked:
    """For the user's rebalance listener: these partitions are no longer consumed here."""

    partitions: tuple[NamedPartition, ...]


@dataclass(frozen=True, slots=True)
class Assigned:
    """For the user's rebalance listener: these partitions are consumed here now."""

    partitions: tuple[NamedPartition, ...]
