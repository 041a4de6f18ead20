"""Kafka's wire read strictly: every version of every message, and nothing that is not one."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest
from kafka.protocol.metadata import MetadataRequest

from herdproof.broker.codec import (
    RequestHead,
    messages,
    read_answer,
    read_head,
    read_request,
    unsupported_version,
    write_answer,
)
from herdproof.broker.reading import MalformedRequest, read_message
from properties.broker.frames import any_message, any_request, mutated

ALL = sorted(messages())
JOIN, HEARTBEAT, LEAVE, METADATA = 11, 12, 13, 3


def versions(api: int) -> range:
    """The versions that Kafka has of a request; older ones of kafka-python's are its own."""
    _, oldest_to_newest = messages()[api][0], messages()[api][0].valid_versions
    return range(oldest_to_newest[0], oldest_to_newest[1] + 1)


@pytest.mark.parametrize("api", ALL)
def test_every_version_of_every_request_is_read_as_it_was_written(api: int) -> None:
    """What kafka-python writes is read as what it was, in every version, by our reader alone."""
    chance = Random(api)
    kind, _ = messages()[api]
    for version in versions(api):
        for _ in range(8):
            frame = any_request(chance, api, version)

            request = read_request(read_head(frame), frame, "here")

            assert request.head.version == version
            assert request.client_id == "herdproof"
            assert bytes(request.body.encode(version=version)) == body_of(kind, version, frame)


@pytest.mark.parametrize("api", ALL)
def test_every_version_of_every_answer_is_written_and_read(api: int) -> None:
    """So it is with answers, which whoever stands in front of a real Kafka reads."""
    chance = Random(api)
    _, kind = messages()[api]
    for version in versions(api):
        for _ in range(8):
            head = RequestHead(api, version, 7)
            written = write_answer(head, any_message(chance, kind, version))

            answer = read_answer(head, written[4:])

            assert write_answer(head, answer) == written


def body_of(kind: Any, version: int, frame: bytes) -> bytes:
    """A frame's body, behind type, version, correlation id, the client's name, and tags."""
    return frame[8 + 2 + len("herdproof") + kind.flexible_version_q(version) :]


def refused(kind: Any, version: int, data: bytes) -> str:
    """Why a message is refused."""
    with pytest.raises(MalformedRequest) as refusal:
        read_message(kind, version, data, 0)
    return str(refusal.value)


def test_null_where_none_may_be_is_refused() -> None:
    """A group's name is never null: kafka-python would read one, and write it again."""
    assert HeartbeatRequest.decode(b"\xff\xff\0\0\0\1\xff\xff", version=0).group_id is None
    assert "is -1" in refused(HeartbeatRequest, 0, b"\xff\xff\0\0\0\1\xff\xff")


def test_a_negative_count_is_refused() -> None:
    """A count of -2 is no empty list."""
    begin = b"\0\1g\0\0\0\1\0\1m\0\1c"
    assert "is -2" in refused(JoinGroupRequest, 0, begin + b"\xff\xff\xff\xfe")


def test_bytes_that_are_left_over_are_refused() -> None:
    """A message ends where its frame does."""
    assert "1 bytes follow" in refused(LeaveGroupRequest, 0, b"\0\1g\0\1mx")


def test_a_message_that_is_cut_off_is_refused_wherever_that_is() -> None:
    """No beginning of a message is one."""
    whole = any_request(Random(1), JOIN, 9)
    for end in range(len(whole)):
        with pytest.raises(MalformedRequest):
            read_request(RequestHead(JOIN, 9, 1), whole[:end], "here")


def test_what_librdkafka_leaves_behind_its_metadata_request_is_passed_over() -> None:
    """Its count of all topics has three bytes too many; Kafka does not look at them either."""
    frame = bytes.fromhex("0003000c00000003000772646b61666b610000000000010000")

    request = read_request(read_head(frame), frame, "here")

    assert request.body.topics is None
    assert "3 bytes follow" in refused(MetadataRequest, 12, frame[18:])


@pytest.mark.parametrize(
    ("what", "data"),
    [
        (
            "a count of two thousand million",
            b"\0\1g\0\0\0\1\0\1m\0\1c\x7f\xff\xff\xff" + b"\0" * 99,
        ),
        ("a number without end", b"\x81" * 2_000_000),
        ("tags without end", b"\2g\0\0\0\0\2m\0\xff\xff\xff\xff\x0f" + b"\1\0" * 99),
    ],
)
def test_no_length_is_believed(what: str, data: bytes) -> None:
    """A frame that says much, and has little, is refused in no time."""
    begun = time.process_time()

    refused(JoinGroupRequest, 0 if what.startswith("a count") else 9, data)

    assert time.process_time() - begun < 0.1


def test_tags_that_go_back_or_lie_about_their_size_are_refused() -> None:
    """Tagged fields come in order, each once, and each as long as was said."""
    begin = b"\2g\0\0\0\1\2m\0"
    assert read_message(HeartbeatRequest, 4, begin + b"\2\5\1x\6\0", 0).group_id == "g"
    assert "tag 5 comes after" in refused(HeartbeatRequest, 4, begin + b"\2\6\0\5\1x")
    assert "frame is over" in refused(HeartbeatRequest, 4, begin + b"\1\5\7x")


def test_an_api_versions_that_is_too_new_is_answered_in_version_0() -> None:
    """So that a client of the future learns what it may ask: error 35, and the versions."""
    answer = unsupported_version(RequestHead(18, 99, 5))

    assert answer == b"\0\0\0\x10\0\0\0\5\0\x23\0\0\0\1\0\x12\0\0\0\4"


def test_whatever_is_read_can_be_written_again() -> None:
    """Of frames with something wrong, each is refused as malformed, or is a whole message."""
    chance = Random(2026)
    read = 0
    for _ in range(3_000):
        api = chance.choice(ALL)
        version = chance.choice(versions(api))
        frame = mutated(chance, any_request(chance, api, version))
        try:
            request = read_request(RequestHead(api, version, 1), frame, "here")
        except MalformedRequest:
            continue
        request.body.encode(version=version)
        read += 1
    assert 100 < read < 2_700
