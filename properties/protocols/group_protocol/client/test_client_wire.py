"""The client's requests and answers on the wire, in every version, against our broker's codec."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from herdproof.broker.codec import (
    SIZE,
    RequestHead,
    read_answer,
    read_head,
    read_request,
    write_answer,
    write_request,
)
from herdproof.protocols.group_protocol import messages as group
from herdproof.protocols.group_protocol.client.shell import wire
from herdproof.protocols.group_protocol.client.shell.connections import NotSpoken, version_for
from herdproof.protocols.group_protocol.messages import GroupRequest
from herdproof.protocols.group_protocol.server import translation

REQUESTS: tuple[GroupRequest, ...] = (
    group.JoinGroupRequest(
        group_id="g", session_timeout_ms=10, rebalance_timeout_ms=20, member_id="m",
        protocol_type="consumer", protocols=(group.GroupProtocol("range", b"wants"),),
    ),
    group.SyncGroupRequest(
        group_id="g", generation_id=3, member_id="m", protocol_type="consumer",
        protocol_name="range", assignments=(group.MemberAssignment("m", b"share"),),
    ),
    group.HeartbeatRequest(group_id="g", generation_id=3, member_id="m"),
    group.LeaveGroupRequest(group_id="g", members=(group.LeavingMember("m"),)),
    group.OffsetCommitRequest(
        group_id="g", generation_id=3, member_id="m",
        topics=(group.TopicToCommit("t", (group.PartitionToCommit(0, 7, metadata=""),)),),
    ),
    group.OffsetFetchRequest(
        groups=(group.GroupToFetch("g", (group.TopicToFetch("t", (0, 1)),)),)
    ),
)  # fmt: skip
FETCHED = group.FetchedTopic("t", (group.FetchedPartition(0, 7),))
RESPONSES = (
    group.JoinGroupResponse(
        generation_id=3, protocol_type="consumer", protocol_name="range", leader="m",
        member_id="m", members=(group.JoinedMember("m", None, b"wants"),),
    ),
    group.SyncGroupResponse(
        protocol_type="consumer", protocol_name="range", assignment=b"share"
    ),
    group.HeartbeatResponse(error=group.Error.REBALANCE_IN_PROGRESS),
    group.LeaveGroupResponse(),
    group.OffsetCommitResponse(
        topics=(group.TopicResult("t", (group.PartitionResult(0, group.Error.NONE),)),)
    ),
    group.OffsetFetchResponse(
        groups=(group.FetchedGroup("g", (FETCHED,)),)
    ),
)  # fmt: skip
ALL = [
    (request, response, version)
    for request, response in zip(REQUESTS, RESPONSES, strict=True)
    for oldest, newest in [wire.SPOKEN[wire.api_of(request)]]
    for version in range(oldest, newest + 1)
]


def name_of(case: Any) -> str:
    """The type, or the version, of a case."""
    return f"{case}" if isinstance(case, int) else type(case).__name__


@pytest.mark.parametrize(("request_", "response", "version"), ALL, ids=name_of)
def test_requests_and_answers_are_understood_in_every_version(
    request_: Any, response: Any, version: int
) -> None:
    """What the client writes the broker reads, and the other way round."""
    head = RequestHead(wire.api_of(request_), version, 5)
    frame = write_request(head, wire.write(request_, version), "own")
    read = read_request(read_head(frame), frame, "/here")
    told = write_answer(head, translation.write(read, response))[SIZE.size :]
    answered = wire.read(head.api, read_answer(head, told), version)

    assert read.client_id == "own"
    assert shown(translation.read(read)) == shown(request_)
    assert shown(answered) == shown(response)


def shown(message: Any) -> dict[str, Any]:
    """The fields that every version has."""
    fields = {name: getattr(message, name) for name in message.__dataclass_fields__}
    if isinstance(message, group.OffsetFetchRequest | group.OffsetFetchResponse):
        fields = {"groups": [replace(each, group_id="g") for each in fields["groups"]]}
        if isinstance(message, group.OffsetFetchRequest):
            fields = {"topics": message.groups[0].topics}
    older = ("version", "client_id", "client_host", "rebalance_timeout_ms", "protocol_type")
    return {k: v for k, v in fields.items() if k not in (*older, "protocol_name")}


def test_the_newest_version_of_both_sides_is_spoken() -> None:
    """A broker that speaks none of ours is named with what is missing."""
    assert version_for(11, {11: (2, 7)}, 0) == 7
    assert version_for(11, {11: (0, 40)}, 0) == 9
    with pytest.raises(NotSpoken, match="no version of JoinGroup from 0 to 9"):
        version_for(11, {11: (10, 12)}, 0)
    with pytest.raises(NotSpoken, match="no version of Metadata"):
        version_for(3, {}, 1)
