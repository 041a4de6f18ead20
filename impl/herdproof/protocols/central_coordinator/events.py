"""
Events and effects of system B's cores: plain values, no socket, no clock.

A core is a state machine, `receive(event, now_ms) -> list[Effect]`. Its shell owes it: events one
at a time; a channel's frames in order, `Closed` last and once; the effects carried out in order.
Times are milliseconds of a clock of the shell's own that never goes back.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from herdproof.consuming.events import Answered as Answered
from herdproof.consuming.events import Ask as Ask
from herdproof.consuming.events import (
    Assigned,
    Consumed,
    Deliver,
    Resolved,
    RevocationHandled,
    Revoked,
    StartFetchers,
    StopFetchers,
)
from herdproof.consuming.events import CommitAsked as CommitAsked
from herdproof.consuming.events import Committed as Committed
from herdproof.consuming.events import Fired as Fired
from herdproof.consuming.events import Report as Report
from herdproof.consuming.events import Shutdown as Shutdown
from herdproof.consuming.events import Subscribe as Subscribe
from herdproof.consuming.events import Tick as Tick
from herdproof.consuming.events import WakeAt as WakeAt
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.wire.messages import Frame

# ── What both cores take ────────────────────────────────────────────────────────────────────


class Received(Struct, frozen=True, gc=False):
    """A frame came over a channel; `legacy` if in the form that carries no header."""

    channel: int
    frame: Frame
    legacy: bool = False


class Closed(Struct, frozen=True, gc=False):
    """A channel is closed, by the peer, by the network, or because it was asked for."""

    channel: int


# ── What the coordinator's core takes beside ────────────────────────────────────────────────


class Elected(Struct, frozen=True, gc=False):
    """This broker coordinates, in this epoch: `coordinatorStartup`."""

    epoch: int


class Deposed(Struct, frozen=True, gc=False):
    """It coordinates no more, or cannot be sure: every channel is closed first."""

    epoch: int


class Opened(Struct, frozen=True, gc=False):
    """A consumer connected."""

    channel: int


CoordinatorEvent: TypeAlias = (
    Elected | Deposed | Opened | Received | Closed | Answered | Fired | Tick
)

# ── What the consumer's core takes beside ───────────────────────────────────────────────────


class Connected(Struct, frozen=True, gc=False):
    """The connection that `Connect` asked for stands; `channel` is the one named there."""

    channel: int


class ConnectFailed(Struct, frozen=True, gc=False):
    """The connection that `Connect` asked for cannot be had."""

    channel: int


ConsumerEvent: TypeAlias = (
    Subscribe | Shutdown | Connected | ConnectFailed | Received | Closed
    | Consumed | CommitAsked | Resolved | RevocationHandled | Tick
)  # fmt: skip

# ── Effects ─────────────────────────────────────────────────────────────────────────────────


class Send(Struct, frozen=True, gc=False):
    """Send a frame over a channel; to one that is closed it is dropped."""

    channel: int
    frame: Frame
    legacy: bool = False


class Close(Struct, frozen=True, gc=False):
    """Close a channel, after what was sent on it."""

    channel: int
    why: str


class StepDown(Struct, frozen=True, gc=False):
    """This broker cannot coordinate (a write was refused by the fence): resign and stand anew."""

    why: str


CoordinatorEffect: TypeAlias = Send | Close | WakeAt | Ask | StepDown | Report | CoordinationStep


class Connect(Struct, frozen=True, gc=False):
    """Open a connection, under a number that the core has chosen."""

    channel: int
    host: str
    port: int


class Failed(Struct, frozen=True, gc=False):
    """The consumer gives up, for this reason: `AllKnownBrokersNotAvailable`, a refusal."""

    error: str
    why: str


ConsumerEffect: TypeAlias = (
    Connect | Send | Close | WakeAt | StopFetchers | StartFetchers | Deliver
    | Revoked | Assigned | Committed | Failed | Report | CoordinationStep
)  # fmt: skip
