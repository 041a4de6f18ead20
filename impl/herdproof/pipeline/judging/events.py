"""
What happened to a group, whatever protocol or log tells it.

Auditors of protocols, and the source of Kafka's `__consumer_offsets`, turn their lines into these
events; `history.py` makes tables, figures and verdicts of them. A field that a source does not tell
is None: what cannot be known from it is "not observable", never "holds".

Events are made by the million: as structs of msgspec they cost a tenth of what dataclasses would.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

Partition: TypeAlias = tuple[str, str]
"""A topic and a partition's number, both as text."""


class Event(Struct, frozen=True, kw_only=True, gc=False):
    """Something that happened; `place`: file and line, or topic and offset."""

    time_ns: int
    place: str
    epoch: int | None = None
    generation: int | None = None
    node: str | None = None
    """Who tells it: a broker's id, or a consumer's."""


# ── Coordinators ────────────────────────────────────────────────────────────────────────────


class ProcessStarted(Event, frozen=True, kw_only=True):
    """A process of a node starts: what another one knew, held or was connected to is gone."""

    role: str
    """`coordinator` or `consumer`."""


class Elected(Event, frozen=True, kw_only=True):
    """A broker coordinates, in this epoch."""


class Deposed(Event, frozen=True, kw_only=True):
    """A broker coordinates no more, and knows it."""


class TopicsChanged(Event, frozen=True, kw_only=True):
    """A coordinator knows of a topic, or of partitions, that it did not know."""


class Wrote(Event, frozen=True, kw_only=True):
    """A coordinator's write was accepted; `asked_ns`: when it was sent."""

    asked_ns: int


# ── Members and generations ─────────────────────────────────────────────────────────────────


class Joined(Event, frozen=True, kw_only=True):
    """A member was accepted."""

    member: str
    consumer: str
    connection: int | None = None


class Left(Event, frozen=True, kw_only=True):
    """A member is counted as gone; `how`: left, closed, failed or deposed."""

    member: str
    consumer: str
    how: str


class Rebalance(Event, frozen=True, kw_only=True):
    """A rebalance begins (it is necessary)."""


Share: TypeAlias = tuple[str, tuple[str, ...], tuple[tuple[str, int], ...]]
"""A topic, its partitions, and who wants it: each member with the number of its threads."""


class Assigned(Event, frozen=True, kw_only=True):
    """A generation's owners are stored: who is to have what. `owners`: partition, member."""

    owners: tuple[tuple[Partition, str], ...]
    members: int | None = None
    """How many members the generation has, where the source tells it."""
    subscribed: tuple[Share, ...] | None = None
    """What was to be shared out, where the source tells it."""


class GroupDeleted(Event, frozen=True, kw_only=True):
    """The group is no more; another of its name begins anew, with its generations too."""


class Settled(Event, frozen=True, kw_only=True):
    """Every member of a generation has started."""


class Unneeded(Event, frozen=True, kw_only=True):
    """Nothing is to be rebalanced: the generation is as it should be, its coordinator finds."""

    subscribed: tuple[Share, ...] | None = None
    """What was to be shared out, where the source tells it."""


class RebalanceFailed(Event, frozen=True, kw_only=True):
    """A rebalance has failed; the group will be rebalanced again."""


# ── Requests ────────────────────────────────────────────────────────────────────────────────


class Requested(Event, frozen=True, kw_only=True):
    """A coordinator sends a member a request; `what`: ping, stop or start."""

    what: str
    consumer: str
    member: str
    connection: int | None = None
    partitions: tuple[tuple[Partition, int], ...] = ()
    """Of a start: what is given, and from which offset on (-1: none is stored)."""


class Commanded(Event, frozen=True, kw_only=True):
    """A coordinator's request was obeyed by a consumer (`node`): it named this epoch."""

    what: str
    consumer: str
    connection: int | None = None


class Heard(Event, frozen=True, kw_only=True):
    """A consumer has heard of this epoch."""


# ── Consumption ─────────────────────────────────────────────────────────────────────────────


class Began(Event, frozen=True, kw_only=True):
    """A consumer may deliver a partition's records from here on; `until_ns`: its lease."""

    consumer: str
    partition: Partition
    offset: int
    """-1: none is stored, it is to be found by the reset."""
    until_ns: int | None = None
    connection: int | None = None


class Renewed(Event, frozen=True, kw_only=True):
    """A consumer may deliver what it has until then."""

    consumer: str
    until_ns: int


class Ended(Event, frozen=True, kw_only=True):
    """A consumer delivers nothing of a partition any more; `how`: stopped, lost_connection."""

    consumer: str
    partition: Partition
    how: str
    offset: int | None = None
    """Up to where it has finished, where it tells."""


class Reported(Event, frozen=True, kw_only=True):
    """A consumer says up to where it has finished: in a commit, or an answer."""

    consumer: str
    partition: Partition
    offset: int
    asks: bool | None = None
    """Whether it asks for that to be stored, and waits for the answer."""


# ── Offsets ─────────────────────────────────────────────────────────────────────────────────


class Noted(Event, frozen=True, kw_only=True):
    """A coordinator takes note of where a member is, to store that later."""

    member: str
    consumer: str
    partitions: tuple[tuple[Partition, int], ...]


class Committed(Event, frozen=True, kw_only=True):
    """An offset was taken or not; `outcome`: accepted, refused, stored or unknown."""

    partition: Partition
    offset: int | None
    """None: it was deleted, or expired."""
    outcome: str
    consumer: str | None = None
    member: str | None = None
    reset: bool = False
    """The group had no member: whoever did it set the offset, and may set it back."""


# ── What is not there ───────────────────────────────────────────────────────────────────────


class Missing(Event, frozen=True, kw_only=True):
    """Lines are missing, here; `lasting`: from here on, until `Resumed`, if that ever comes."""

    why: str
    role: str = ""
    """Who should have told them: `coordinator`, `consumer`, or empty for both."""
    lasting: bool = False


class Resumed(Event, frozen=True, kw_only=True):
    """From here on nothing is missing any more of what was, for this reason."""

    why: str
    role: str = ""


Told: TypeAlias = (
    ProcessStarted
    | Elected
    | Deposed
    | TopicsChanged
    | Wrote
    | Joined
    | Left
    | Rebalance
    | Assigned
    | GroupDeleted
    | Settled
    | Unneeded
    | RebalanceFailed
    | Requested
    | Commanded
    | Heard
    | Began
    | Renewed
    | Ended
    | Reported
    | Noted
    | Committed
    | Missing
    | Resumed
)
"""Any of the events."""
