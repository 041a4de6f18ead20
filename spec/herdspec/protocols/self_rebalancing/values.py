"""The values that fields of the self-rebalancing consumers' specification hold."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from herdspec import Nat, UpTo

RETRIES = 2
"""`rebalance.max.retries`: as many attempts, until the failure is reported."""
RANKS = 3
"""The greatest rank of an exploration; a proof has no need of any."""

Attempts = Annotated[Nat, UpTo(RETRIES)]
Rank = Annotated[Nat, UpTo(RANKS)]


class Session(Enum):
    """State of a consumer's ZooKeeper session."""

    NONE = "none"  # there is no such consumer
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # cut off; it may end, or find a server again
    DEAD = "dead"  # the process is gone, and the session has yet to end
    EXPIRED = "expired"  # ended at the server; the consumer has not been told


class Rebalance(Enum):
    """Phase of a consumer's rebalance: the step that comes next."""

    RESTING = "resting"  # none is under way
    COMMITTING = "committing"  # (1) fetchers are closed, and offsets are to be submitted
    RELEASING = "releasing"  # (2)
    TOPICS = "topics"  # (3) the subscribed topics' partitions are to be read
    IDS = "ids"  # (3) and who else is in the group
    OFFSETS = "offsets"  # (3) as drafted: offsets are read before anything is owned
    CLAIMING = "claiming"  # (4)
    STARTING = "starting"  # (5)
    BACKING_OFF = "backing off"  # an attempt has failed; the operator sees it
