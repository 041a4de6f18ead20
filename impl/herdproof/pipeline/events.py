"""
What happened to a group, whatever protocol or log tells it.

Sources (`central_trace.py`, Kafka's `__consumer_offsets`) turn their lines into these events;
`history.py` makes tables, figures and verdicts of them. A field that a source does not tell is
None: what cannot be known from it is "not observable", never "holds".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Partition: TypeAlias = tuple[str, str]
"""A topic and a partition's number, both as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened; `place`: file and line, or topic and offset."""

    time_ns: int
    place: str
    epoch: int | None = None
    generation: int | None = None
    node: str | None = None
    """Who tells it: a broker's id, or a consumer's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected(Event):
    """A broker coordinates, in this epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deposed(Event):
    """A broker coordinates no more, and knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(Event):
    """A member was accepted."""

    member: str
    consumer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(Event):
    """A member is counted as gone; `how`: left, closed, failed or deposed."""

    member: str
    consumer: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance(Event):
    """A rebalance begins (it is necessary)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned(Event):
    """A generation's owners are stored: who is to have what. `owners`: partition, member."""

    owners: tuple[tuple[Partition, str], ...]
    members: int | None = None
    """How many members the generation has, where the source tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(Event):
    """Every member of a generation has started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceFailed(Event):
    """A rebalance has failed; the group will be rebalanced again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commanded(Event):
    """A coordinator's request was obeyed by a consumer (`node`): it named this epoch."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Began(Event):
    """A consumer may deliver a partition's records from here on; `until_ns`: its lease."""

    consumer: str
    partition: Partition
    offset: int
    """-1: none is stored, it is to be found by the reset."""
    until_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed(Event):
    """A consumer may deliver what it has until then."""

    consumer: str
    until_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Event):
    """A consumer delivers nothing of a partition any more; `how`: stopped, lost_connection."""

    consumer: str
    partition: Partition
    how: str
    offset: int | None = None
    """Up to where it has finished, where it tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(Event):
    """A consumer says up to where it has finished: in a commit, or an answer."""

    consumer: str
    partition: Partition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Event):
    """An offset was taken or not; `outcome`: accepted, refused, stored or unknown."""

    partition: Partition
    offset: int | None
    """None: it was deleted, or expired."""
    outcome: str
    consumer: str | None = None


Told: TypeAlias = (
    Elected
    | Deposed
    | Joined
    | Left
    | Rebalance
    | Assigned
    | Settled
    | RebalanceFailed
    | Commanded
    | Began
    | Renewed
    | Ended
    | Reported
    | Committed
)
"""Any of the events."""
