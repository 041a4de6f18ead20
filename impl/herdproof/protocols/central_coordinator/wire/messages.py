"""
The messages of a consumer and a coordinator, as plain values.

Both forms of the wire (`legacy`, `version1`) encode these. A message knows nothing of frames; a
`Frame` is a message with the header that version 1 puts before it.

They are structs, not dataclasses: a coordinator makes thousands of them a second, and a frozen
dataclass takes ten times as long to be made.

Source: system B's drafts `002` and `001`, as PROTOCOLS.md lays them out (Wire format of B).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from herdproof.consuming.offsets import Offset, OffsetReset

NO_COORDINATOR = -1
"""The `coordinator_id` of an answer that knows of none."""


class ErrorCode(IntEnum):
    """Reason why a request failed; 0 where it did not."""

    NONE = 0
    NOT_COORDINATOR = 1
    """This broker does not lead, or no longer: consult again."""
    UNKNOWN_VERSION = 2
    STALE_EPOCH = 3
    """The receiver has seen a later epoch than the sender's."""
    GROUP_FULL = 4
    UNKNOWN_TYPE = 5
    MALFORMED = 6
    """The frame is cut off, too large, or no encoding of what it says it is."""
    NOT_REGISTERED = 7
    STALE_GENERATION = 8
    """
    A commit of a partition that its sender does not own in the present generation; or a Register
    that would resume what the coordinator does not find there: it has to stop, and begin anew.
    """
    FENCED_FORM_REQUIRED = 9
    """The group is fenced: the legacy form, which carries no epoch, is refused."""
    ILLEGAL_STATE = 10
    """A Start for fetchers that run, with another assignment (`IllegalStateException`)."""
    INVALID_SUBSCRIPTION = 11
    NOT_STORED = 12
    """Nobody knows whether the offsets were stored: ZooKeeper gave no answer in time."""
    INVALID_TIMEOUTS = 13
    """A Register whose ping interval, retries or session timeout the coordinator does not grant."""
    OTHER_PROTOCOL = 14
    """The group has members of another protocol, as Kafka 0.8's."""


class BrokerInfo(Struct, frozen=True, gc=False):
    """A broker of the cluster, as a consumer is told of it."""

    creator_id: str
    id: int
    host: str
    port: int


# ── A consumer's requests, and their answers ────────────────────────────────────────────────


class Consult(Struct, frozen=True, gc=False):
    """Which broker coordinates? Any broker answers."""


class ConsultResponse(Struct, frozen=True, gc=False):
    """The coordinator's broker id (`NO_COORDINATOR`: none known), and the cluster's brokers."""

    error_code: ErrorCode
    coordinator_id: int
    brokers: tuple[BrokerInfo, ...]


class Brought(Struct, frozen=True, gc=False):
    """Where the fetchers of a registration that is over have stopped, in a generation."""

    registration: str
    generation: int
    """The generation in which it consumed: of another one nothing counts."""
    offsets: tuple[Offset, ...]


class Register(Struct, frozen=True, gc=False):
    """A consumer's first request over a new connection; `subscription` reads its `topic_count`."""

    group_id: str
    consumer_id: str
    topic_count: str
    auto_commit: bool
    auto_offset_reset: OffsetReset
    ping_interval_ms: int
    max_ping_retries: int
    session_timeout_ms: int
    """Not in the legacy form."""
    former: tuple[str, ...] | None = None
    """Registrations of this process that have stopped for good; None before version 2."""
    resumes: str | None = None
    """Registration that goes on, in the generation of the frame; of version 3 alone."""
    brought: tuple[Brought, ...] | None = None
    """Where some of the former registrations have stopped; of version 4 alone."""


class RegisterResponse(Struct, frozen=True, gc=False):
    """Not in the legacy form: accepted, or why not."""

    error_code: ErrorCode
    member: str | None = None
    """Name of the registration at the coordinator; None before version 2, and where it is none."""


class Commit(Struct, frozen=True, gc=False):
    """Version 1 only: the user's own commit."""

    offsets: tuple[Offset, ...]


class CommitResponse(Struct, frozen=True, gc=False):
    """Version 1 only: stored, or why not; all of the offsets or none."""

    error_code: ErrorCode


class Leave(Struct, frozen=True, gc=False):
    """Version 1 only: nothing is fetched any more, and no commit is to come: no lease to wait."""


class LeaveResponse(Struct, frozen=True, gc=False):
    """Version 1 only: the registration is gone, or never was; then the connection is closed."""

    error_code: ErrorCode


# ── The coordinator's requests, and their answers ───────────────────────────────────────────


class Ping(Struct, frozen=True, gc=False):
    """Are you alive? `num_retries` counts the copies of this request that went before."""

    num_retries: int


class PingResponse(Struct, frozen=True, gc=False):
    """Alive; the consumed offsets, or None without auto_commit."""

    offsets: tuple[Offset, ...] | None


class Stop(Struct, frozen=True, gc=False):
    """Close the fetchers and clear the queues."""


class StopResponse(Struct, frozen=True, gc=False):
    """Version 1 only: nothing is fetched any more; the consumed offsets, or None as in a ping."""

    offsets: tuple[Offset, ...] | None


class Start(Struct, frozen=True, gc=False):
    """Fetch these partitions, each from its offset on (`NO_OFFSET`: as auto_offset_reset says)."""

    partitions: tuple[Offset, ...]


class StartResponse(Struct, frozen=True, gc=False):
    """The fetchers run, or why not."""

    error_code: ErrorCode


Request: TypeAlias = Consult | Register | Commit | Leave | Ping | Stop | Start
Response: TypeAlias = (
    ConsultResponse
    | RegisterResponse
    | CommitResponse
    | LeaveResponse
    | PingResponse
    | StopResponse
    | StartResponse
)
Message: TypeAlias = Request | Response


class Frame(Struct, frozen=True, gc=False):
    """
    A message with version 1's header.

    A response carries the correlation id of its request. `epoch` is the sender's: a coordinator's
    own, the latest that a consumer has seen. `generation` is that of the assignment which the
    message is about, 0 before the first. `error` is a response's; it is that of its body, where
    the body has one (the wire has it once).
    """

    message: Message
    correlation_id: int = 0
    epoch: int = 0
    generation: int = 0
    client_id: str = ""
    """A request's sender, for logs."""
    error: ErrorCode = ErrorCode.NONE
