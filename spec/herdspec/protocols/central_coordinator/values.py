"""The values that fields of the central coordinator's specification hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from herdspec import Nat


class Kind(Enum):
    """What a message is; a response has its request's name."""

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
    """How far the coordinator is with the group; all but IDLE: `groupsBeingRebalanced`."""

    IDLE = "idle"
    QUEUED = "queued"
    STOPPING = "stopping"
    WRITING = (
        "writing"  # the owners are on their way to ZooKeeper, or its answer is on its way back
    )
    STARTING = "starting"
    FAILED = "failed"  # visible to the operator; queued again after a back-off


class Write(Enum):
    """How far the one write is that a coordinator has sent to ZooKeeper."""

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
