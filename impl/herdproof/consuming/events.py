"""
Values that a consumer's core, its fetchers and its rebalance listener exchange.

Effects are the core's wishes, to be carried out in order; events are what came of them. Those of
which a coordinator makes thousands a second are structs: a frozen dataclass takes ten times as long
to be made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from msgspec import Struct

from herdproof.consuming.offsets import NamedPartition, Offset
from herdproof.zookeeper.operations import Answer, Operation, Watched

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


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The user starts."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The user closes the consumer."""


@dataclass(frozen=True, slots=True)
class CommitAsked:
    """The user's `commit`: of these offsets, or of all that is consumed."""

    number: int
    offsets: tuple[Offset, ...] | None = None
    generation: int | None = None
    """Of the assignment in which they were delivered; as `Consumed` has it."""


class Tick(Struct, frozen=True, gc=False):
    """It is time: what `WakeAt` asked for (one that is early or superfluous does no harm)."""


class Fired(Struct, frozen=True, gc=False):
    """A watch fired that a read of this core had left."""

    watched: Watched


class Answered(Struct, frozen=True, gc=False):
    """ZooKeeper answered what `Ask` of this number asked."""

    number: int
    answer: Answer


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


@dataclass(frozen=True, slots=True)
class Committed:
    """The user's commit of this number was answered: what came of it, in the protocol's words."""

    number: int
    outcome: Enum


class WakeAt(Struct, frozen=True, gc=False):
    """Give a `Tick` at this time (ms); the latest one asked for replaces those before."""

    time_ms: int


class Ask(Struct, frozen=True, gc=False):
    """Ask ZooKeeper, and bring the answer back under this number."""

    number: int
    operation: Operation


class Report(Struct, frozen=True, gc=False):
    """For operators: logs and metrics. `what` is a name of its protocol's vocabulary."""

    what: str
    group: str = ""
    details: tuple[tuple[str, str | int], ...] = ()
