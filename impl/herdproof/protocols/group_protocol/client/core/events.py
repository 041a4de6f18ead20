"""
Events and effects of the client's core: plain values, no socket, no clock.

The core is a state machine, `receive(event, now_ms) -> list[ClientEffect]`. Its shell owes it:

1. events one at a time, with a time (ms) that never goes back; effects carried out in order;
2. every `SendRequest` to its node, those to one node over one connection, in order; the answer
   comes back as `RequestAnswered`, or its loss as `Disconnected`, after which no answer over that
   connection comes any more; after a `HangUp` likewise, and the next request opens another one;
3. a `Poll` whenever the application asks for records, or waits for some;
4. what it owes the consuming parts of every core (`herdproof.consuming.events`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from herdproof.consuming.events import (
    Assigned,
    CommitAsked,
    Committed,
    Consumed,
    Deliver,
    Report,
    Resolved,
    RevocationHandled,
    Revoked,
    Shutdown,
    StartFetchers,
    StopFetchers,
    Tick,
    WakeAt,
)
from herdproof.consuming.subscription import Subscription
from herdproof.errors import CallerError, HerdError, PeerError
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.messages import Error, GroupRequest, GroupResponse
from herdproof.protocols.group_protocol.steps import GroupStep

# ── Nodes, and what is asked beside the group APIs ──────────────────────────────────────────

COORDINATOR_IDS_FROM = 2**31 - 1
"""Kafka's clients keep a connection for what a node coordinates: its id is this less the node's."""


@dataclass(frozen=True, slots=True)
class Node:
    """A broker, as a connection is opened to it; an id below zero: it is not known by one yet."""

    node_id: int
    host: str
    port: int

    @property
    def as_coordinator(self) -> Node:
        """This node over a connection of its own: a parked JoinGroup holds nothing else up."""
        return Node(COORDINATOR_IDS_FROM - self.node_id, self.host, self.port)


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest:
    """Who coordinates a group?"""

    group_id: str


@dataclass(frozen=True, slots=True)
class FindCoordinatorResponse:
    """Who coordinates; nobody, with an error."""

    error: Error = Error.NONE
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """Which brokers are there, and how many partitions has each topic?"""

    topics: tuple[str, ...] | None
    """None: all."""


@dataclass(frozen=True, slots=True)
class MetadataResponse:
    """Brokers, and topics with their numbers of partitions; who is not there is left out."""

    nodes: tuple[Node, ...]
    topics: tuple[tuple[str, int], ...]


ClientRequest: TypeAlias = GroupRequest | FindCoordinatorRequest | MetadataRequest
ClientResponse: TypeAlias = GroupResponse | FindCoordinatorResponse | MetadataResponse

# ── Events ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SubscribeTo:
    """The user subscribes: its group shares the partitions of these topics."""

    subscription: Subscription


@dataclass(frozen=True, slots=True)
class AssignTo:
    """The user assigns partitions by hand: no group shares them."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Poll:
    """The application asks for records; its assignment may take so long to be brought about."""

    timeout_ms: int
    at_work: bool = False
    """It has taken another record since, which is not finished with."""


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """The request of this number was answered."""

    number: int
    response: ClientResponse


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection to a node is over, or could not be made."""

    node: Node


ClientEvent: TypeAlias = (
    SubscribeTo | AssignTo | Poll | RequestAnswered | Disconnected | Tick | Shutdown
    | Consumed | Resolved | RevocationHandled | CommitAsked
)  # fmt: skip

# ── Effects ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send a request to a node, over its connection, which is opened if there is none."""

    number: int
    node: Node
    request: ClientRequest


@dataclass(frozen=True, slots=True)
class HangUp:
    """End the connection to a node: nothing that was asked over it is waited for any more."""

    node: Node


@dataclass(frozen=True, slots=True)
class Polled:
    """Result of a poll: True, if the assignment stands and every partition has its start."""

    ok: bool


class CommitResult(Enum):
    """Result of a user's commit."""

    STORED = "stored"
    REFUSED = "refused"
    """The partition is not (or no longer) this consumer's."""
    REBALANCING = "rebalancing"
    """The group is in a rebalance, and this member in no generation until that has ended."""
    NOT_SENT = "not sent"
    """Nobody is known who coordinates the group."""
    UNKNOWN = "unknown"
    """The connection was lost before the answer, or no answer came."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Nothing can come of it any more: the application is told why."""

    error: HerdError


@dataclass(frozen=True, slots=True)
class EndClient:
    """The core has closed: end all connections."""


ClientEffect: TypeAlias = (
    SendRequest | HangUp | Polled | WakeAt | StopFetchers | StartFetchers | Deliver | Revoked
    | Assigned | Committed | Fail | EndClient | Report | GroupStep
)  # fmt: skip

# ── Errors ──────────────────────────────────────────────────────────────────────────────────


class ModesMixed(CallerError):
    """`subscribe` and `assign` exclude each other."""


class RequestLost(PeerError):
    """A request, or its answer, was lost with its connection."""


class CoordinatorUnknown(PeerError):
    """Nobody is known who coordinates the group."""


class UnjoinedGroup(PeerError):
    """The answer to a JoinGroup came when it was no longer waited for."""


class RefusedBy(PeerError):
    """The coordinator refused, with this error."""

    def __init__(self, what: str, error: Error) -> None:
        super().__init__(what, error)
        self.what, self.error = what, error

    def __str__(self) -> str:
        return f"{self.what} was refused by the group's coordinator: {self.error.name}"


class Fenced(PeerError):
    """Another consumer has come with this one's `group_instance_id`, and is the member now."""

    def __str__(self) -> str:
        (name,) = self.args
        return f"another consumer has come with group_instance_id {name!r}: give each its own"


class NoOffsetForPartition(PeerError):
    """Nothing is stored of a partition, and no reset is set."""
