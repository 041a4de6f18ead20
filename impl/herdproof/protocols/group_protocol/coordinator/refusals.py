"""A request that is refused as a whole: its response with an error where Kafka puts it."""

from __future__ import annotations

from typing import assert_never

from herdproof.protocols.group_protocol.messages import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    Error,
    FetchedGroup,
    FetchedPartition,
    FetchedTopic,
    GroupRequest,
    GroupResponse,
    GroupToFetch,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    PartitionResult,
    SyncGroupRequest,
    SyncGroupResponse,
    TopicResult,
)

GROUP_ERROR_FROM_VERSION = 2
"""From here on OffsetFetch has room for an error of the group."""


def refusal(request: GroupRequest, error: Error) -> GroupResponse:
    """The response to a request that is refused as a whole."""
    match request:
        case JoinGroupRequest(member_id=member_id):
            return JoinGroupResponse(error=error, member_id=member_id)
        case SyncGroupRequest():
            return SyncGroupResponse(error=error)
        case HeartbeatRequest():
            return HeartbeatResponse(error=error)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error=error)
        case OffsetCommitRequest():
            return _commit_refused(request, error)
        case OffsetFetchRequest():
            return _fetch_refused(request, error)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error=error)
        case DescribeGroupsRequest():
            described = tuple(DescribedGroup(group_id=g, error=error) for g in request.groups)
            return DescribeGroupsResponse(groups=described)
        case ListGroupsRequest():
            return ListGroupsResponse(error=error)
        case DeleteGroupsRequest():
            results = tuple(DeletedGroup(g, error) for g in dict.fromkeys(request.groups))
            return DeleteGroupsResponse(results=results)
        case _:
            assert_never(request)


def _commit_refused(request: OffsetCommitRequest, error: Error) -> OffsetCommitResponse:
    topics = []
    for topic in request.topics:
        partitions = tuple(PartitionResult(each.partition, error) for each in topic.partitions)
        topics.append(TopicResult(topic.name, partitions))
    return OffsetCommitResponse(topics=tuple(topics))


def _fetch_refused(request: OffsetFetchRequest, error: Error) -> OffsetFetchResponse:
    has_room = request.version >= GROUP_ERROR_FROM_VERSION
    refused = _group_refused if has_room else _partitions_refused
    return OffsetFetchResponse(groups=tuple(refused(group, error) for group in request.groups))


def _group_refused(group: GroupToFetch, error: Error) -> FetchedGroup:
    return FetchedGroup(group.group_id, error=error)


def _partitions_refused(group: GroupToFetch, error: Error) -> FetchedGroup:
    topics = []
    for topic in group.topics or ():
        partitions = tuple(FetchedPartition(number, error=error) for number in topic.partitions)
        topics.append(FetchedTopic(topic.name, partitions))
    return FetchedGroup(group.group_id, tuple(topics))
