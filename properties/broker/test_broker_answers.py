"""Answers about offsets, in every version: read again, they say what was meant."""

from typing import Any

import pytest
from kafka.protocol.api_key import ApiKey

from herdproof.broker.codec import KafkaRequest, RequestHead, read_answer, write_answer
from herdproof.protocols.group_protocol import messages as group
from herdproof.protocols.group_protocol.server.translation import VERSIONS, write

PARTITIONS = range(3)


def written(api: ApiKey, version: int, response: object) -> dict[str, Any]:
    """An answer of the coordinator's, as a client of this version reads it."""
    head = RequestHead(api, version, 7)
    answer = write(KafkaRequest(head, "c", "h", None), response)
    frame = write_answer(head, answer)[4:]
    found: dict[str, Any] = read_answer(head, frame).to_dict(json=False)
    return found


def versions(api: ApiKey) -> list[int]:
    """Those that are spoken."""
    first, last = VERSIONS[api]
    return list(range(first, last + 1))


@pytest.mark.parametrize("version", versions(ApiKey.OffsetFetch))
def test_fetched_offsets_are_read_as_they_were_meant(version: int) -> None:
    """Each partition's offset, metadata and error; of several groups from version 8 on."""
    parts = tuple(group.FetchedPartition(n, 10 + n, -1, f"m{n}") for n in PARTITIONS)
    one = group.FetchedGroup("g", (group.FetchedTopic("t", parts),))
    found = written(ApiKey.OffsetFetch, version, group.OffsetFetchResponse(groups=(one,)))

    (topic,) = found["groups"][0]["topics"] if "groups" in found else found["topics"]
    assert topic["name"] == "t"
    assert [
        (p["partition_index"], p["committed_offset"], p["metadata"], p["error_code"])
        for p in topic["partitions"]
    ] == [(n, 10 + n, f"m{n}", 0) for n in PARTITIONS]


@pytest.mark.parametrize(
    ("api", "version", "kind"),
    [(ApiKey.OffsetCommit, v, group.OffsetCommitResponse) for v in versions(ApiKey.OffsetCommit)]
    + [(ApiKey.OffsetDelete, v, group.OffsetDeleteResponse) for v in versions(ApiKey.OffsetDelete)],
)
def test_results_are_read_as_they_were_meant(api: ApiKey, version: int, kind: type) -> None:
    """An error, or none, for each partition."""
    errors = (group.Error.NONE, group.Error.ILLEGAL_GENERATION, group.Error.UNKNOWN_MEMBER_ID)
    results = tuple(group.PartitionResult(n, e) for n, e in enumerate(errors))
    found = written(api, version, kind(topics=(group.TopicResult("t", results),)))

    (topic,) = found["topics"]
    assert [(p["partition_index"], p["error_code"]) for p in topic["partitions"]] == [
        (n, error.value) for n, error in enumerate(errors)
    ]
