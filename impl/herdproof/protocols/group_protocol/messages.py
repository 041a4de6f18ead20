"""
The requests of the group APIs and their responses, without any codec: Kafka's fields and errors.

Each class has the fields of the newest version that is spoken (`VERSIONS`); whoever decodes an
older one fills in what that lacks: JoinGroup 0 has no rebalance timeout (`None`: the session
timeout), LeaveGroup up to 2 and OffsetFetch up to 7 name one member and one group. Whoever encodes
a response leaves out what its version has no room for, and adds what the coordinator does not
decide (`throttle_time_ms`). The version counts where Kafka behaves by it: MEMBER_ID_REQUIRED from
JoinGroup 4, and the place of an error in LeaveGroup below 3 and OffsetFetch below 2.

Left to whoever serves the wire, since a coordinator knows no topics: FindCoordinator, and commits
for topics or partitions that don't exist (UNKNOWN_TOPIC_OR_PARTITION).

What there may be hundreds of in a request is a struct: a frozen dataclass takes ten times as long
to be made.

Source: apache/kafka, `clients/src/main/resources/common/message`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

NO_GENERATION = -1
"""The generation of whoever is no member: one that assigns partitions by hand, or JoinGroup's."""
NO_OFFSET = -1
"""The offset in OffsetFetch's answer where nothing is committed."""
NO_LEADER_EPOCH = -1
NO_OPERATIONS = -(2**31)
"""DescribeGroups' authorized operations where none were asked for."""


class Error(IntEnum):
    """Kafka's error codes, as far as the group APIs give them."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """The common part of every request: its version, and who asks from where."""

    version: int = 0
    client_id: str = ""
    client_host: str = ""


# ── JoinGroup 0–9 ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class GroupProtocol:
    """A protocol that a member can be assigned by, with what it says of itself in that."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest(ApiRequest):
    """Somebody wants to be a member, or a member rejoins."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int | None = None
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    """In its order of preference."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member, as its leader is told of it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse:
    """A member's generation; its leader is told of all members, the others of none."""

    error: Error = Error.NONE
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    """None with an error; versions below 7 write it as an empty one."""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinedMember, ...] = ()


# ── SyncGroup 0–5 ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """The assignment that a leader gives a member."""

    member_id: str
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequest(ApiRequest):
    """A member asks for its assignment; the leader brings those of all."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[MemberAssignment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse:
    """A member's assignment."""

    error: Error = Error.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


# ── Heartbeat 0–4 ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest(ApiRequest):
    """A member is alive."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """A member is told whether it still is one, and whether to rejoin."""

    error: Error = Error.NONE


# ── LeaveGroup 0–5 ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """Who leaves; a static member may be named by its instance id alone."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequest(ApiRequest):
    """Members leave; below version 3 it is one."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class LeftMember:
    """The fate of a member that was to leave."""

    member_id: str
    group_instance_id: str | None
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse:
    """The fates of those that were to leave; below version 3 the error is the one member's."""

    error: Error = Error.NONE
    members: tuple[LeftMember, ...] = ()


# ── OffsetCommit 2–9 ────────────────────────────────────────────────────────────────────────


class PartitionToCommit(Struct, frozen=True, gc=False):
    """An offset that is to be committed."""

    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class TopicToCommit:
    """The offsets of one topic's partitions."""

    name: str
    partitions: tuple[PartitionToCommit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest(ApiRequest):
    """A member commits offsets; so does, with no generation, whoever consumes without a group."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int | None = None
    """None: by the coordinator's settings (-1 on the wire, where there is such a field)."""
    topics: tuple[TopicToCommit, ...] = ()


class PartitionResult(Struct, frozen=True, gc=False):
    """An error, or none, for a partition."""

    partition: int
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True)
class TopicResult:
    """An error, or none, for each of a topic's partitions that were asked about."""

    name: str
    partitions: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    """The fate of each offset, in the order of the request."""

    topics: tuple[TopicResult, ...] = ()


# ── OffsetFetch 1–9 ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TopicToFetch:
    """Partitions of a topic; also those of OffsetDelete."""

    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupToFetch:
    """Whose committed offsets are asked for."""

    group_id: str
    topics: tuple[TopicToFetch, ...] | None
    """None: all that there are."""
    member_id: str | None = None
    member_epoch: int = NO_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest(ApiRequest):
    """Somebody asks for committed offsets of groups; below version 8 of one."""

    groups: tuple[GroupToFetch, ...]
    require_stable: bool = False


class FetchedPartition(Struct, frozen=True, gc=False):
    """A partition's committed offset, if there is one."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = ""
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True)
class FetchedTopic:
    """The committed offsets of one topic's partitions."""

    name: str
    partitions: tuple[FetchedPartition, ...]


@dataclass(frozen=True, slots=True)
class FetchedGroup:
    """A group's committed offsets; below version 2 an error is each partition's."""

    group_id: str
    topics: tuple[FetchedTopic, ...] = ()
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """The committed offsets of the groups, in the order of the request."""

    groups: tuple[FetchedGroup, ...] = ()


# ── OffsetDelete 0 ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequest(ApiRequest):
    """Committed offsets are to be forgotten."""

    group_id: str
    topics: tuple[TopicToFetch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponse:
    """The fate of each; with an error nothing was deleted, and there are no topics."""

    error: Error = Error.NONE
    topics: tuple[TopicResult, ...] = ()


# ── DescribeGroups 0–6, ListGroups 0–5, DeleteGroups 0–2 ────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsRequest(ApiRequest):
    """Somebody wants to know all of groups."""

    groups: tuple[str, ...]
    include_authorized_operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member, with what it said of itself and what it was assigned."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """All there is to know of a group."""

    group_id: str
    error: Error = Error.NONE
    error_message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    authorized_operations: int = NO_OPERATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResponse:
    """The groups, in the order of the request."""

    groups: tuple[DescribedGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest(ApiRequest):
    """Somebody wants to know which groups there are; with no filter, all."""

    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group that there is."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse:
    """The groups that there are, by name."""

    error: Error = Error.NONE
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsRequest(ApiRequest):
    """Groups are to be forgotten."""

    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeletedGroup:
    """The fate of a group that was to be forgotten."""

    group_id: str
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse:
    """The fate of each, in the order of the request."""

    results: tuple[DeletedGroup, ...] = ()


GroupRequest: TypeAlias = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetFetchRequest
    | OffsetDeleteRequest
    | DescribeGroupsRequest
    | ListGroupsRequest
    | DeleteGroupsRequest
)

GroupResponse: TypeAlias = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | OffsetDeleteResponse
    | DescribeGroupsResponse
    | ListGroupsResponse
    | DeleteGroupsResponse
)

VERSIONS: Mapping[type[GroupRequest], tuple[int, int]] = {
    JoinGroupRequest: (0, 9),
    SyncGroupRequest: (0, 5),
    HeartbeatRequest: (0, 4),
    LeaveGroupRequest: (0, 5),
    OffsetCommitRequest: (2, 9),
    OffsetFetchRequest: (1, 9),
    OffsetDeleteRequest: (0, 0),
    DescribeGroupsRequest: (0, 6),
    ListGroupsRequest: (0, 5),
    DeleteGroupsRequest: (0, 2),
}
"""The oldest and the newest version of each that is spoken."""
