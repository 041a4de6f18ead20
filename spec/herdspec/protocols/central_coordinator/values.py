"""The values that fields of the central coordinator's specification hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from herdspec import Nat


class Kind(Enum):
    """Kind of a message; a response has its request's name."""

    REGISTER = "register"
    PING = "ping"
    STOP = "stop"
    START = "start"
    COMMIT = "commit"


class Asked(Enum):
    """The one request that is outstanding over a connection."""

    NONE = "none"
    PING = "ping"
    STOP = "stop"
    START = "start"


class Phase(Enum):
    """Phase of the group at its coordinator; all but IDLE: `groupsBeingRebalanced`."""

    IDLE = "idle"
    QUEUED = "queued"
    STOPPING = "stopping"
    WRITING = (
        "writing"  # the owners are on their way to ZooKeeper, or its answer is on its way back
    )
    STARTING = "starting"
    FAILED = "failed"  # visible to the operator; queued again after a back-off


class Write(Enum):
    """State of the one write that a coordinator has sent to ZooKeeper."""

    NONE = "none"
    OFFSETS = "offsets"  # sent
    OWNERS = "owners"  # sent
    DONE = "done"  # and its sender does not know yet
    REFUSED = "refused"  # neither


@dataclass(frozen=True)
class Message:
    """A request or a response, with the generation that it is about."""

    kind: Kind
    generation: Nat
