"""The values that fields of the group protocol's specification hold."""

from __future__ import annotations

from enum import Enum


class MemberState(Enum):
    """State of a client, in `003`'s words; OFF: it has not subscribed."""

    OFF = "off"
    UNJOINED = "unjoined"
    REBALANCING = "rebalancing"
    STABLE = "stable"


class Awaited(Enum):
    """The one request whose answer a client's joinFuture waits for."""

    NOTHING = "nothing"
    JOIN = "join"
    SYNC = "sync"


class GroupAnswer(Enum):
    """Answer under way to a client, to what it awaits, by its contents or its error."""

    NONE = "none"
    MEMBER_ID_REQUIRED = "member id required"  # it bears the id
    LEADER = "leader"  # JoinGroup's, with the members
    FOLLOWER = "follower"
    ASSIGNMENT = "assignment"  # SyncGroup's
    UNKNOWN_MEMBER_ID = "unknown member id"
    ILLEGAL_GENERATION = "illegal generation"
    REBALANCE_IN_PROGRESS = "rebalance in progress"
    FENCED_INSTANCE_ID = "fenced instance id"  # a static member's; a later life has its place
    INCONSISTENT_GROUP_PROTOCOL = "inconsistent group protocol"  # none is common to all members


class GroupState(Enum):
    """State of the group at its coordinator: Kafka's states, under Kafka's names."""

    DEAD = "dead"  # it is loaded nowhere
    EMPTY = "empty"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"


class Entry(Enum):
    """Entry of a member id in the coordinator's memory."""

    NONE = "none"
    PENDING = "pending"  # handed out, and its bearer has not joined
    MEMBER = "member"


class GroupWrite(Enum):
    """Write that the coordinator has sent to be stored, one thing at a time."""

    NONE = "none"
    OFFSETS = "offsets"
    GENERATION = "generation"  # and its members, and who leads them
    ASSIGNMENT = "assignment"
    REPLACEMENT = "replacement"  # a static member's next life, under its new member id
    DELETED_OFFSETS = "deleted offsets"
    DELETED_GROUP = "deleted group"  # with its offsets
