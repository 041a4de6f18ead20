"""
Events and effects of the connector's core: plain values, no socket, no clock.

The core is a state machine, `receive(event, now_ms) -> list[ConnectorEffect]`. Its shell owes it:
events one at a time; of ZooKeeper's client, links, watches and answers in the client's order; the
effects carried out in order; each `Ask` sent in the session that the core names, or refused. Times
are milliseconds of a clock of the shell's own that never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from herdproof.consuming.events import (
    Answered,
    Ask,
    Assigned,
    CommitAsked,
    Committed,
    Consumed,
    Deliver,
    Fired,
    Report,
    Resolved,
    RevocationHandled,
    Revoked,
    Shutdown,
    StartFetchers,
    StopFetchers,
    Subscribe,
    Tick,
    WakeAt,
)
from herdproof.protocols.self_rebalancing.steps import ConnectorStep
from herdproof.zookeeper.operations import Link


@dataclass(frozen=True, slots=True)
class LinkTold:
    """The fate of the session with ZooKeeper; `timeout_ms` is what the server granted."""

    link: Link
    session: int
    timeout_ms: int


ConnectorEvent: TypeAlias = (
    Subscribe | Shutdown | LinkTold | Answered | Fired | Tick
    | Consumed | Resolved | RevocationHandled | CommitAsked
)  # fmt: skip


class CommitOutcome(Enum):
    """The outcome of a user's commit."""

    STORED = "stored"
    REFUSED = "refused"
    """The partition is not (or no longer) this consumer's, or its offset was changed."""
    NOT_SENT = "not sent"
    """There is no connection to ZooKeeper at present."""
    UNKNOWN = "unknown"
    """The connection was lost before the answer."""


@dataclass(frozen=True, slots=True)
class EndSession:
    """The core has closed: end the session with ZooKeeper, and with it all that it owns."""


ConnectorEffect: TypeAlias = (
    Ask | WakeAt | StopFetchers | StartFetchers | Deliver | Revoked | Assigned
    | Committed | EndSession | Report | ConnectorStep
)  # fmt: skip
