"""
Requests and answers of Kafka's wire, between frames and kafka-python's objects.

A frame is what follows its size. Every request begins alike: its type, its version, a correlation
id that its answer repeats, and the client's name. What it says beyond is read only by whoever
answers it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import TypeAlias

from kafka.protocol import admin, consumer, metadata, producer, sasl
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from msgspec import Struct

from herdproof.broker.reading import (
    MalformedRequest,
    read_first,
    read_message,
    read_string,
    skip_tags,
)

SIZE = struct.Struct(">i")
"""The size that stands before every frame, and does not count itself."""
HEAD = struct.Struct(">hhi")
CORRELATION = struct.Struct(">i")

MAY_LEAVE = frozenset({ApiKey.Metadata})
"""
Requests after which bytes are passed over, as Kafka does with all: librdkafka (2.16, Metadata 12)
writes the count of all topics with three bytes too many, and is understood by luck.
"""

Versions: TypeAlias = Mapping[int, tuple[int, int]]
"""The oldest and the newest version of each request that is spoken, by its type."""


class KafkaError(IntEnum):
    """Kafka's error codes, as far as answers about topics, records and coordinators give them."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    MESSAGE_TOO_LARGE = 10
    COORDINATOR_NOT_AVAILABLE = 15
    INVALID_TOPIC_EXCEPTION = 17
    INVALID_REQUIRED_ACKS = 21
    INVALID_GROUP_ID = 24
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    SASL_AUTHENTICATION_FAILED = 58
    FETCH_SESSION_ID_NOT_FOUND = 70
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    INVALID_RECORD = 87
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103


class RequestHead(Struct, frozen=True, gc=False):
    """The head of a request, before that is read."""

    api: int
    version: int
    correlation_id: int


class AnswerHead(Struct, frozen=True, gc=False):
    """The head of an answer; kafka-python's own takes as long as the answer to a heartbeat."""

    correlation_id: int

    def encode(self, flexible: bool) -> bytes:
        """Its bytes; from the flexible versions on, the count of its tags is among them."""
        return CORRELATION.pack(self.correlation_id) + (b"\0" if flexible else b"")


class KafkaRequest(Struct, frozen=True):
    """A request that was read, and from where it came."""

    head: RequestHead
    client_id: str
    client_host: str
    body: ApiMessage


@cache
def messages() -> Mapping[int, tuple[type[ApiMessage], type[ApiMessage]]]:
    """The classes of every request that kafka-python knows, and of its answer, by its type."""
    found = {}
    for module in (admin, consumer, metadata, producer):
        for name in module.__all__:
            if name.endswith("Request"):
                request = getattr(module, name)
                answer = getattr(module, name.removesuffix("Request") + "Response")
                found[int(request.API_KEY)] = (request, answer)
    for request, answer in (
        (sasl.SaslHandshakeRequest, sasl.SaslHandshakeResponse),
        (sasl.SaslAuthenticateRequest, sasl.SaslAuthenticateResponse),
    ):
        found[int(request.API_KEY)] = (request, answer)
    return found


def read_head(frame: bytes) -> RequestHead:
    """The head of a request; raises `MalformedRequest` where the frame does not have even that."""
    if len(frame) < HEAD.size:
        raise MalformedRequest(f"a frame of {len(frame)} bytes is no request")
    return RequestHead(*HEAD.unpack_from(frame))


def read_body_start(head: RequestHead, frame: bytes) -> tuple[str, int]:
    """The client's name, and where a request's body begins; raises `MalformedRequest`."""
    kind, _ = messages()[head.api]
    try:
        client_id, at = read_string(frame, HEAD.size)
        if kind.flexible_version_q(head.version):
            at = skip_tags(frame, at)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise MalformedRequest(f"a request's head cannot be read: {problem}") from None
    return client_id or "", at


def read_request(head: RequestHead, frame: bytes, client_host: str) -> KafkaRequest:
    """The whole request, of a type and version that is spoken; raises `MalformedRequest`."""
    client_id, at = read_body_start(head, frame)
    kind, _ = messages()[head.api]
    body = read_message(kind, head.version, frame, at, may_leave=head.api in MAY_LEAVE)
    return KafkaRequest(head, client_id, client_host, body)


def read_answer(head: RequestHead, frame: bytes) -> ApiMessage:
    """The answer to a request of ours, or to one that was forwarded; raises `MalformedRequest`."""
    _, kind = messages()[head.api]
    at = CORRELATION.size
    if kind.flexible_version_q(head.version) and head.api != ApiKey.ApiVersions:
        at = skip_tags(frame, at)
    return read_message(kind, head.version, frame, at)


def write_request(
    head: RequestHead, request: ApiMessage, client_id: str = "herdproof"
) -> bytes:  # fmt: skip
    """A request's frame, without its size."""
    request.API_VERSION = head.version
    request.with_header(correlation_id=head.correlation_id, client_id=client_id)
    return bytes(request.encode(header=True))


def has_answer(head: RequestHead, frame: bytes) -> bool:
    """Tells whether a request is answered: a Produce that wants no acknowledgement is not."""
    if head.api != ApiKey.Produce:
        return True
    _, at = read_body_start(head, frame)
    acks = read_first(producer.ProduceRequest, head.version, frame, at, "acks")
    return bool(acks != 0)


def write_answer(head: RequestHead, answer: ApiMessage) -> bytes:
    """An answer's bytes, with its size, in the version of its request."""
    answer.API_VERSION = head.version
    answer._header = AnswerHead(head.correlation_id)
    return bytes(answer.encode(header=True, framed=True))


def framed(frame: bytes) -> bytes:
    """A frame behind its size."""
    return SIZE.pack(len(frame)) + frame


def unsupported_version(head: RequestHead) -> bytes:
    """The answer to an ApiVersions that is too new: version 0, which everybody can read."""
    answer = metadata.ApiVersionsResponse(
        version=0, error_code=KafkaError.UNSUPPORTED_VERSION,
        api_keys=[api_version(ApiKey.ApiVersions, (0, 4))],
    )  # fmt: skip
    return write_answer(RequestHead(head.api, 0, head.correlation_id), answer)


def api_version(api: int, spoken: tuple[int, int]) -> ApiMessage:
    """One line of ApiVersions' answer."""
    made: ApiMessage = metadata.ApiVersionsResponse.ApiVersion(
        api_key=api, min_version=spoken[0], max_version=spoken[1]
    )
    return made
