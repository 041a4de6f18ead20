"""
The group APIs between kafka-python's objects, of any version, and the coordinator's messages.

`READ` makes a message of each request, `WRITE` an answer of each response. What a version has no
room for is left out by the codec; what it lacks is filled in here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafka.protocol.admin import (
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    ListGroupsResponse,
)
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
)
from msgspec import Struct

from herdproof.broker.codec import KafkaRequest, Versions
from herdproof.protocols.group_protocol import messages as group
from herdproof.protocols.group_protocol.messages import GroupRequest

API_OF: Mapping[type[GroupRequest], int] = {
    group.JoinGroupRequest: ApiKey.JoinGroup,
    group.SyncGroupRequest: ApiKey.SyncGroup,
    group.HeartbeatRequest: ApiKey.Heartbeat,
    group.LeaveGroupRequest: ApiKey.LeaveGroup,
    group.OffsetCommitRequest: ApiKey.OffsetCommit,
    group.OffsetFetchRequest: ApiKey.OffsetFetch,
    group.OffsetDeleteRequest: ApiKey.OffsetDelete,
    group.DescribeGroupsRequest: ApiKey.DescribeGroups,
    group.ListGroupsRequest: ApiKey.ListGroups,
    group.DeleteGroupsRequest: ApiKey.DeleteGroups,
}
VERSIONS: Versions = {API_OF[kind]: spoken for kind, spoken in group.VERSIONS.items()}

REBALANCE_TIMEOUT_FROM = 1
MANY_LEAVE_FROM = 3
NO_NULL_NAME_BEFORE = 7
GROUPS_FETCHED_FROM = 8
BY_SETTINGS = -1
"""A retention time that a commit does not say."""


def read(request: KafkaRequest) -> GroupRequest:
    """The coordinator's message of a request."""
    asked_by = {
        "version": request.head.version,
        "client_id": request.client_id,
        "client_host": f"/{request.client_host}",  # as Java writes an address without a name
    }
    return READ[request.head.api](request.body, asked_by)


def write(request: KafkaRequest, response: Any) -> ApiMessage:
    """The answer to a request that a response of the coordinator's is."""
    return WRITE[request.head.api](response, request.head.version)


# ── Requests ────────────────────────────────────────────────────────────────────────────────


def read_join(body: Any, asked_by: dict[str, Any]) -> GroupRequest:
    """JoinGroup."""
    has_timeout = asked_by["version"] >= REBALANCE_TIMEOUT_FROM
    return group.JoinGroupRequest(
        group_id=body.group_id,
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=body.rebalance_timeout_ms if has_timeout else None,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        protocols=tuple(group.GroupProtocol(each.name, each.metadata) for each in body.protocols),
        reason=body.reason,
        **asked_by,
    )


def read_sync(body: Any, asked_by: dict[str, Any]) -> GroupRequest:
    """SyncGroup."""
    return group.SyncGroupRequest(
        group_id=body.group_id,
        generation_id=body.generation_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        protocol_name=body.protocol_name,
        assignments=tuple(
            group.MemberAssignment(each.member_id, each.assignment) for each in body.assignments
        ),
        **asked_by,
    )


def read_heartbeat(body: Any, asked_by: dict[str, Any]) -> GroupRequest:
    """Heartbeat."""
    return group.HeartbeatRequest(
        group_id=body.group_id,
        generation_id=body.generation_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        **asked_by,
    )


def read_leave(body: Any, asked_by: dict[str, Any]) -> GroupRequest:
    """LeaveGroup."""
    if asked_by["version"] < MANY_LEAVE_FROM:
        members: tuple[group.LeavingMember, ...] = (group.LeavingMember(body.member_id),)
    else:
        members = tuple(
            group.LeavingMember(each.member_id, each.group_instance_id, each.reason)
            for each in body.members
        )
    return group.LeaveGroupRequest(group_id=body.group_id, members=members, **asked_by)


def read_commit(body: Any, asked_by: dict[str, Any]) -> GroupRequest:
    """OffsetCommit."""
    retention = body.retention_time_ms
    return group.OffsetCommitRequest(
        group_id=body.group_id,
        generation_id=body.generation_id_or_member_epoch,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        retention_time_ms=None if retention == BY_SETTINGS else retention,
        topics=tuple(
            group.TopicToCommit(topic.name, tuple(map(read_offset, topic.partitions)))
            for topic in body.topics
        ),
        **asked_by,
    )


def read_offset(each: Any) -> group.PartitionToCommit:
    """An offset that is to be committed."""
    return group.PartitionToCommit(
        each.partition_index,
        each.committed_offset,
        each.committed_leader_epoch,
        each.committed_metadata,
    )


def read_fetch(body: Any, asked_by: dict[str, Any]) -> GroupRequest:
    """OffsetFetch."""
    if asked_by["version"] < GROUPS_FETCHED_FROM:
        groups: tuple[group.GroupToFetch, ...] = (
            group.GroupToFetch(body.group_id, topics_to_fetch(body.topics)),
        )
    else:
        groups = tuple(
            group.GroupToFetch(
                each.group_id, topics_to_fetch(each.topics), each.member_id, each.member_epoch
            )
            for each in body.groups
        )
    return group.OffsetFetchRequest(
        groups=groups, require_stable=bool(body.require_stable), **asked_by
    )


def topics_to_fetch(topics: Any) -> tuple[group.TopicToFetch, ...] | None:
    """Of which topics' partitions; None: of all."""
    if topics is None:
        return None
    return tuple(group.TopicToFetch(each.name, tuple(each.partition_indexes)) for each in topics)


def read_delete_offsets(body: Any, asked_by: dict[str, Any]) -> GroupRequest:
    """OffsetDelete."""
    topics = tuple(
        group.TopicToFetch(each.name, tuple(part.partition_index for part in each.partitions))
        for each in body.topics
    )
    return group.OffsetDeleteRequest(group_id=body.group_id, topics=topics, **asked_by)


def read_describe(body: Any, asked_by: dict[str, Any]) -> GroupRequest:
    """DescribeGroups."""
    return group.DescribeGroupsRequest(
        groups=tuple(body.groups),
        include_authorized_operations=bool(body.include_authorized_operations),
        **asked_by,
    )


def read_list(body: Any, asked_by: dict[str, Any]) -> GroupRequest:
    """ListGroups."""
    return group.ListGroupsRequest(
        states_filter=tuple(body.states_filter or ()),
        types_filter=tuple(body.types_filter or ()),
        **asked_by,
    )


def read_delete(body: Any, asked_by: dict[str, Any]) -> GroupRequest:
    """DeleteGroups."""
    return group.DeleteGroupsRequest(groups=tuple(body.groups_names), **asked_by)


# ── Responses ───────────────────────────────────────────────────────────────────────────────


def write_join(response: group.JoinGroupResponse, version: int) -> ApiMessage:
    """JoinGroup's."""
    name = response.protocol_name
    made = JoinGroupResponse.JoinGroupResponseMember
    return JoinGroupResponse(
        version=version,
        error_code=response.error,
        generation_id=response.generation_id,
        protocol_type=response.protocol_type,
        protocol_name=name or "" if version < NO_NULL_NAME_BEFORE else name,
        leader=response.leader,
        skip_assignment=response.skip_assignment,
        member_id=response.member_id,
        members=[
            made(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                metadata=each.metadata,
            )
            for each in response.members
        ],
    )


def write_sync(response: group.SyncGroupResponse, version: int) -> ApiMessage:
    """SyncGroup's."""
    return SyncGroupResponse(
        version=version,
        error_code=response.error,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol_name,
        assignment=response.assignment,
    )


def write_heartbeat(response: group.HeartbeatResponse, version: int) -> ApiMessage:
    """Heartbeat's."""
    return HeartbeatResponse(version=version, error_code=response.error)


def write_leave(response: group.LeaveGroupResponse, version: int) -> ApiMessage:
    """LeaveGroup's."""
    made = LeaveGroupResponse.MemberResponse
    members = [
        made(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=each.error,
        )
        for each in response.members
    ]
    return LeaveGroupResponse(version=version, error_code=response.error, members=members)


def write_commit(response: group.OffsetCommitResponse, version: int) -> ApiMessage:
    """OffsetCommit's."""
    made = OffsetCommitResponse.OffsetCommitResponseTopic
    return OffsetCommitResponse(version=version, topics=results(made, response.topics))


class AnswerPart(Struct, kw_only=True, gc=False):
    """A partition in an answer: kafka-python encodes and tells it as it does its own."""

    tags: None = None
    unknown_tags: None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of what the answer says of the partition."""
        own: tuple[str, ...] = self.__struct_fields__
        return tuple(name for name in own if not name.endswith("tags"))

    def _to_dict_vals(self, **_how: object) -> Iterator[tuple[str, object]]:
        return ((name, getattr(self, name)) for name in self.fields)


class FetchedAnswer(AnswerPart, kw_only=True, gc=False):
    """A partition in the answer to an OffsetFetch."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int


class ResultAnswer(AnswerPart, kw_only=True, gc=False):
    """A partition in an answer that has an error for each."""

    partition_index: int
    error_code: int


def results(made: Any, topics: tuple[group.TopicResult, ...]) -> list[Any]:
    """An error, or none, for each partition; `made` is the class of an answer's topic."""
    return [
        made(
            name=topic.name,
            partitions=[
                ResultAnswer(partition_index=part.partition, error_code=part.error)
                for part in topic.partitions
            ],
        )
        for topic in topics
    ]


def write_fetch(response: group.OffsetFetchResponse, version: int) -> ApiMessage:
    """OffsetFetch's."""
    if version < GROUPS_FETCHED_FROM:
        (of_one,) = response.groups
        made = OffsetFetchResponse.OffsetFetchResponseTopic
        topics = [fetched(made, each) for each in of_one.topics]
        return OffsetFetchResponse(version=version, error_code=of_one.error, topics=topics)
    of_group = OffsetFetchResponse.OffsetFetchResponseGroup
    of_topic = of_group.OffsetFetchResponseTopics
    return OffsetFetchResponse(
        version=version,
        groups=[
            of_group(
                group_id=one.group_id,
                error_code=one.error,
                topics=[fetched(of_topic, each) for each in one.topics],
            )
            for one in response.groups
        ],
    )


def fetched(of_topic: Any, topic: group.FetchedTopic) -> Any:
    """The committed offsets of a topic, in an answer's own class."""
    partitions = [
        FetchedAnswer(
            partition_index=part.partition,
            committed_offset=part.offset,
            committed_leader_epoch=part.leader_epoch,
            metadata=part.metadata,
            error_code=part.error,
        )
        for part in topic.partitions
    ]
    return of_topic(name=topic.name, partitions=partitions)


def write_delete_offsets(response: group.OffsetDeleteResponse, version: int) -> ApiMessage:
    """OffsetDelete's."""
    topics = results(OffsetDeleteResponse.OffsetDeleteResponseTopic, response.topics)
    return OffsetDeleteResponse(version=version, error_code=response.error, topics=topics)


def write_describe(response: group.DescribeGroupsResponse, version: int) -> ApiMessage:
    """DescribeGroups'."""
    return DescribeGroupsResponse(version=version, groups=list(map(described, response.groups)))


def described(one: group.DescribedGroup) -> Any:
    """All there is to know of a group."""
    made = DescribeGroupsResponse.DescribedGroup
    return made(
        group_id=one.group_id,
        error_code=one.error,
        error_message=one.error_message,
        group_state=one.state,
        protocol_type=one.protocol_type,
        protocol_data=one.protocol_data,
        authorized_operations=operations(one.authorized_operations),
        members=[
            made.DescribedGroupMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                member_metadata=each.metadata,
                member_assignment=each.assignment,
            )
            for each in one.members
        ],
    )


def operations(bits: int) -> set[int] | None:
    """Operations as kafka-python's codec has them: the set of the bits, None for none told."""
    if bits == group.NO_OPERATIONS:
        return None
    return {bit for bit in range(31) if bits >> bit & 1}


def write_list(response: group.ListGroupsResponse, version: int) -> ApiMessage:
    """ListGroups'."""
    made = ListGroupsResponse.ListedGroup
    groups = [
        made(
            group_id=each.group_id,
            protocol_type=each.protocol_type,
            group_state=each.state,
            group_type=each.group_type,
        )
        for each in response.groups
    ]
    return ListGroupsResponse(version=version, error_code=response.error, groups=groups)


def write_delete(response: group.DeleteGroupsResponse, version: int) -> ApiMessage:
    """DeleteGroups'."""
    made = DeleteGroupsResponse.DeletableGroupResult
    return DeleteGroupsResponse(
        version=version,
        results=[made(group_id=each.group_id, error_code=each.error) for each in response.results],
    )


READ: Mapping[int, Callable[[Any, dict[str, Any]], GroupRequest]] = {
    ApiKey.JoinGroup: read_join,
    ApiKey.SyncGroup: read_sync,
    ApiKey.Heartbeat: read_heartbeat,
    ApiKey.LeaveGroup: read_leave,
    ApiKey.OffsetCommit: read_commit,
    ApiKey.OffsetFetch: read_fetch,
    ApiKey.OffsetDelete: read_delete_offsets,
    ApiKey.DescribeGroups: read_describe,
    ApiKey.ListGroups: read_list,
    ApiKey.DeleteGroups: read_delete,
}
WRITE: Mapping[int, Callable[[Any, int], ApiMessage]] = {
    ApiKey.JoinGroup: write_join,
    ApiKey.SyncGroup: write_sync,
    ApiKey.Heartbeat: write_heartbeat,
    ApiKey.LeaveGroup: write_leave,
    ApiKey.OffsetCommit: write_commit,
    ApiKey.OffsetFetch: write_fetch,
    ApiKey.OffsetDelete: write_delete_offsets,
    ApiKey.DescribeGroups: write_describe,
    ApiKey.ListGroups: write_list,
    ApiKey.DeleteGroups: write_delete,
}
