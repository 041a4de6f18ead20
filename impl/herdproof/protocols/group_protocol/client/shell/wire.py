"""
The client's requests as kafka-python's objects, and its answers read back; of any spoken version.

The other side of `server.translation`: what a version has no room for is left out by the codec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from herdproof.protocols.group_protocol import messages as group
from herdproof.protocols.group_protocol.client.core import events
from herdproof.protocols.group_protocol.client.core.events import ClientRequest, ClientResponse
from herdproof.protocols.group_protocol.messages import Error
from herdproof.protocols.group_protocol.server.translation import (
    GROUPS_FETCHED_FROM,
    MANY_LEAVE_FROM,
)

SEVERAL_KEYS_FROM = 4
"""The version from which FindCoordinator asks for several at once."""
NO_TOPIC_IDS = 9
"""The last version of Metadata that knows topics by name alone."""

SPOKEN: Mapping[int, tuple[int, int]] = {
    ApiKey.Metadata: (1, NO_TOPIC_IDS),
    ApiKey.FindCoordinator: (0, 6),
    ApiKey.JoinGroup: (0, 9),
    ApiKey.SyncGroup: (0, 5),
    ApiKey.Heartbeat: (0, 4),
    ApiKey.LeaveGroup: (0, 5),
    ApiKey.OffsetCommit: (2, 9),
    ApiKey.OffsetFetch: (1, 9),
}
"""The oldest and the newest version of each request that is sent."""
STATIC_FROM: Mapping[int, int] = {
    ApiKey.JoinGroup: 5, ApiKey.SyncGroup: 3, ApiKey.Heartbeat: 3, ApiKey.OffsetCommit: 7,
}  # fmt: skip
"""The version from which each request has room for a static member's name (KIP-345)."""


def api_of(request: ClientRequest) -> int:
    """The type of a request."""
    return APIS[type(request)]


def oldest_for(request: ClientRequest) -> int:
    """The oldest version that has room for all that a request says."""
    api = api_of(request)
    is_static = getattr(request, "group_instance_id", None) is not None
    return STATIC_FROM[api] if is_static else SPOKEN[api][0]


def write(request: ClientRequest, version: int) -> ApiMessage:
    """A request in that version."""
    return WRITE[api_of(request)](request, version)


def read(api: int, body: Any, version: int) -> ClientResponse:
    """The answer to a request of that type and version."""
    return READ[api](body, version)


def error_of(code: int) -> Error:
    """Kafka's error; one that a coordinator never gives counts as a failure of its own."""
    return Error(code) if code in Error._value2member_map_ else Error.UNKNOWN_SERVER_ERROR


# ── Brokers and topics ──────────────────────────────────────────────────────────────────────


def write_metadata(request: events.MetadataRequest, version: int) -> ApiMessage:
    """Metadata, which creates no topic where its version can say so."""
    made = MetadataRequest.MetadataRequestTopic
    topics = None if request.topics is None else [made(name=name) for name in request.topics]
    return MetadataRequest(version=version, topics=topics, allow_auto_topic_creation=False)


def read_metadata(body: Any, version: int) -> ClientResponse:
    """The brokers, and the topics that there are."""
    del version
    return events.MetadataResponse(
        tuple(events.Node(each.node_id, each.host, each.port) for each in body.brokers),
        tuple((each.name, len(each.partitions)) for each in body.topics if not each.error_code),
    )


def write_find(request: events.FindCoordinatorRequest, version: int) -> ApiMessage:
    """FindCoordinator."""
    if version < SEVERAL_KEYS_FROM:
        return FindCoordinatorRequest(version=version, key=request.group_id, key_type=0)
    keys = [request.group_id]
    return FindCoordinatorRequest(version=version, key_type=0, coordinator_keys=keys)


def read_found(body: Any, version: int) -> ClientResponse:
    """Who coordinates."""
    found = body if version < SEVERAL_KEYS_FROM else body.coordinators[0]
    if found.error_code:
        return events.FindCoordinatorResponse(error_of(found.error_code))
    return events.FindCoordinatorResponse(
        node=events.Node(found.node_id, found.host, found.port)
    )  # fmt: skip


# ── Membership ──────────────────────────────────────────────────────────────────────────────


def write_join(request: group.JoinGroupRequest, version: int) -> ApiMessage:
    """JoinGroup."""
    made = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        version=version, group_id=request.group_id,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        member_id=request.member_id, group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols=[made(name=each.name, metadata=each.metadata) for each in request.protocols],
        reason=request.reason,
    )  # fmt: skip


def read_joined(body: Any, version: int) -> ClientResponse:
    """JoinGroup's."""
    del version
    return group.JoinGroupResponse(
        error=error_of(body.error_code), generation_id=body.generation_id,
        protocol_type=body.protocol_type, protocol_name=body.protocol_name or None,
        leader=body.leader, skip_assignment=bool(body.skip_assignment), member_id=body.member_id,
        members=tuple(
            group.JoinedMember(each.member_id, each.group_instance_id, each.metadata)
            for each in body.members
        ),
    )  # fmt: skip


def write_sync(request: group.SyncGroupRequest, version: int) -> ApiMessage:
    """SyncGroup."""
    made = SyncGroupRequest.SyncGroupRequestAssignment
    return SyncGroupRequest(
        version=version, group_id=request.group_id, generation_id=request.generation_id,
        member_id=request.member_id, group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type, protocol_name=request.protocol_name,
        assignments=[
            made(member_id=each.member_id, assignment=each.assignment)
            for each in request.assignments
        ],
    )  # fmt: skip


def read_synced(body: Any, version: int) -> ClientResponse:
    """SyncGroup's."""
    del version
    return group.SyncGroupResponse(
        error=error_of(body.error_code), protocol_type=body.protocol_type,
        protocol_name=body.protocol_name, assignment=body.assignment or b"",
    )  # fmt: skip


def write_heartbeat(request: group.HeartbeatRequest, version: int) -> ApiMessage:
    """Heartbeat."""
    return HeartbeatRequest(
        version=version, group_id=request.group_id, generation_id=request.generation_id,
        member_id=request.member_id, group_instance_id=request.group_instance_id,
    )  # fmt: skip


def read_heartbeat(body: Any, version: int) -> ClientResponse:
    """Heartbeat's."""
    del version
    return group.HeartbeatResponse(error=error_of(body.error_code))


def write_leave(request: group.LeaveGroupRequest, version: int) -> ApiMessage:
    """LeaveGroup."""
    if version < MANY_LEAVE_FROM:
        (member,) = request.members
        fields: dict[str, Any] = {"member_id": member.member_id}
    else:
        made = LeaveGroupRequest.MemberIdentity
        fields = {
            "members": [
                made(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    reason=each.reason,
                )
                for each in request.members
            ]
        }
    return LeaveGroupRequest(version=version, group_id=request.group_id, **fields)


def read_left(body: Any, version: int) -> ClientResponse:
    """LeaveGroup's."""
    del version
    return group.LeaveGroupResponse(error=error_of(body.error_code))


# ── Offsets ─────────────────────────────────────────────────────────────────────────────────


def write_commit(request: group.OffsetCommitRequest, version: int) -> ApiMessage:
    """OffsetCommit."""
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    of_partition = of_topic.OffsetCommitRequestPartition
    return OffsetCommitRequest(
        version=version, group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id, member_id=request.member_id,
        group_instance_id=request.group_instance_id, retention_time_ms=-1,
        topics=[
            of_topic(
                name=topic.name,
                partitions=[
                    of_partition(
                        partition_index=each.partition, committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        committed_metadata=each.metadata or "",
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )  # fmt: skip


def read_committed(body: Any, version: int) -> ClientResponse:
    """OffsetCommit's."""
    del version
    return group.OffsetCommitResponse(
        topics=tuple(
            group.TopicResult(
                topic.name,
                tuple(
                    group.PartitionResult(each.partition_index, error_of(each.error_code))
                    for each in topic.partitions
                ),
            )
            for topic in body.topics
        )
    )


def write_fetch(request: group.OffsetFetchRequest, version: int) -> ApiMessage:
    """OffsetFetch of one group."""
    (asked,) = request.groups
    stable = {"require_stable": request.require_stable}
    if version < GROUPS_FETCHED_FROM:
        made = OffsetFetchRequest.OffsetFetchRequestTopic
        topics = topics_to_fetch(made, asked)
        return OffsetFetchRequest(version=version, group_id=asked.group_id, topics=topics, **stable)
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = topics_to_fetch(of_group.OffsetFetchRequestTopics, asked)
    one = of_group(group_id=asked.group_id, topics=topics, member_id=None, member_epoch=-1)
    return OffsetFetchRequest(version=version, groups=[one], **stable)


def topics_to_fetch(made: Any, asked: group.GroupToFetch) -> list[Any]:
    """The partitions that are asked for, in a request's own class."""
    return [
        made(name=topic.name, partition_indexes=list(topic.partitions))
        for topic in asked.topics or ()
    ]


def read_fetched(body: Any, version: int) -> ClientResponse:
    """OffsetFetch's."""
    one = body if version < GROUPS_FETCHED_FROM else body.groups[0]
    topics = tuple(
        group.FetchedTopic(
            topic.name,
            tuple(
                group.FetchedPartition(
                    each.partition_index, each.committed_offset, error=error_of(each.error_code)
                )
                for each in topic.partitions
            ),
        )
        for topic in one.topics
    )
    name = "" if version < GROUPS_FETCHED_FROM else one.group_id
    told = group.FetchedGroup(name, topics, error_of(one.error_code or 0))
    return group.OffsetFetchResponse(groups=(told,))


APIS: Mapping[type[Any], int] = {
    events.MetadataRequest: ApiKey.Metadata,
    events.FindCoordinatorRequest: ApiKey.FindCoordinator,
    group.JoinGroupRequest: ApiKey.JoinGroup,
    group.SyncGroupRequest: ApiKey.SyncGroup,
    group.HeartbeatRequest: ApiKey.Heartbeat,
    group.LeaveGroupRequest: ApiKey.LeaveGroup,
    group.OffsetCommitRequest: ApiKey.OffsetCommit,
    group.OffsetFetchRequest: ApiKey.OffsetFetch,
}
WRITE: Mapping[int, Callable[[Any, int], ApiMessage]] = {
    ApiKey.Metadata: write_metadata,
    ApiKey.FindCoordinator: write_find,
    ApiKey.JoinGroup: write_join,
    ApiKey.SyncGroup: write_sync,
    ApiKey.Heartbeat: write_heartbeat,
    ApiKey.LeaveGroup: write_leave,
    ApiKey.OffsetCommit: write_commit,
    ApiKey.OffsetFetch: write_fetch,
}
READ: Mapping[int, Callable[[Any, int], ClientResponse]] = {
    ApiKey.Metadata: read_metadata,
    ApiKey.FindCoordinator: read_found,
    ApiKey.JoinGroup: read_joined,
    ApiKey.SyncGroup: read_synced,
    ApiKey.Heartbeat: read_heartbeat,
    ApiKey.LeaveGroup: read_left,
    ApiKey.OffsetCommit: read_committed,
    ApiKey.OffsetFetch: read_fetched,
}
