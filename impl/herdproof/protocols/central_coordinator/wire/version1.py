"""
Version 1 of the wire: a header with version, correlation id, epoch and generation, then the body.

Version 2 is the same, of a Register and its answer alone: each says one thing more. Versions 3 and
4 are of a Register alone, and say one thing more than that: which registration it resumes, or where
former ones have stopped.

Ours, from the header fields of system B's draft `001`; PROTOCOLS.md lays it out (Wire format of B),
docs/wire.md byte by byte. The header up to the correlation id, and a response's error after it, are
the same in every version to come: so a frame of an unknown version can be answered.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.protocols.central_coordinator.wire import primitives
from herdproof.protocols.central_coordinator.wire.errors import Unsendable, WireError
from herdproof.protocols.central_coordinator.wire.exchanges import (
    DIRECTIONS,
    REQUESTS,
    RESPONSES,
    TYPE_IDS,
    Direction,
)
from herdproof.protocols.central_coordinator.wire.layout import (
    BOOL,
    ERROR_CODE,
    INT8,
    INT16,
    INT32,
    INT64,
    OFFSET_RESET,
    STRING,
    Array,
    Coded,
    Number,
    Perhaps,
    Struct,
    StructField,
)
from herdproof.protocols.central_coordinator.wire.messages import (
    NO_COORDINATOR,
    BrokerInfo,
    Brought,
    Commit,
    CommitResponse,
    Consult,
    ConsultResponse,
    ErrorCode,
    Frame,
    Leave,
    LeaveResponse,
    Message,
    Ping,
    PingResponse,
    Register,
    RegisterResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)
from herdproof.protocols.central_coordinator.wire.primitives import (
    ByteReader,
    ByteWriter,
    malformed,
    unsendable,
)

VERSION = 1
"""Spoken of every message; a later one of those in `ADDED`."""

BROKER = Struct(
    BrokerInfo,
    (
        StructField("creator_id", STRING),
        StructField("id", INT32),
        StructField("host", STRING),
        StructField("port", Number("int32", primitives.INT32, 0, 65535)),
    ),
)
COORDINATOR_ID = Number("int16", primitives.INT16, NO_COORDINATOR)
OFFSET = Struct(
    Offset,
    (
        StructField("topic", STRING),
        StructField("partition", STRING),
        StructField("offset", Number("int64", primitives.INT64, NO_OFFSET)),
    ),
)
RETRIES = Number("int16", primitives.INT16, 0)
MILLISECONDS = Number("int32", primitives.INT32, 1)
OFFSETS = Array(OFFSET, INT32)

REGISTER_FIELDS = (
    StructField("group_id", STRING),
    StructField("consumer_id", STRING),
    StructField("topic_count", STRING),
    StructField("auto_commit", BOOL),
    StructField("auto_offset_reset", OFFSET_RESET),
    StructField("ping_interval_ms", MILLISECONDS),
    StructField("max_ping_retries", RETRIES),
)
"""Fields that both forms send; version 1 adds the session timeout."""

BODIES: dict[type[Any], Struct[Any]] = {
    Consult: Struct(Consult),
    ConsultResponse: Struct(
        ConsultResponse,
        (
            StructField("coordinator_id", COORDINATOR_ID),
            StructField("brokers", Array(BROKER, INT32)),
        ),
    ),
    Register: Struct(Register, (*REGISTER_FIELDS, StructField("session_timeout_ms", MILLISECONDS))),
    RegisterResponse: Struct(RegisterResponse),
    Commit: Struct(Commit, (StructField("offsets", OFFSETS),)),
    CommitResponse: Struct(CommitResponse),
    Ping: Struct(Ping, (StructField("num_retries", RETRIES),)),
    PingResponse: Struct(PingResponse, (StructField("offsets", Perhaps(OFFSETS)),)),
    Stop: Struct(Stop),
    StopResponse: Struct(StopResponse, (StructField("offsets", Perhaps(OFFSETS)),)),
    Start: Struct(Start, (StructField("partitions", OFFSETS),)),
    StartResponse: Struct(StartResponse),
    Leave: Struct(Leave),
    LeaveResponse: Struct(LeaveResponse),
}
"""Layouts of what follows the header; an `error_code` is in the header, hence in no body."""

BROUGHT = Struct(
    Brought,
    (
        StructField("registration", STRING),
        StructField("generation", Number("int32", primitives.INT32, 1)),
        StructField("offsets", OFFSETS),
    ),
)
FORMER = StructField("former", Array(STRING, INT32))
ADDED: dict[int, dict[type[Any], tuple[StructField, ...]]] = {
    2: {Register: (FORMER,), RegisterResponse: (StructField("member", STRING),)},
    3: {Register: (FORMER, StructField("resumes", STRING))},
    4: {Register: (FORMER, StructField("brought", Array(BROUGHT, INT32)))},
}
"""
By later version, the fields that follow those of version 1.

The last one is what this version alone says: None in a message of an earlier one.
"""


BRIEF = {Ping, Stop, StartResponse, CommitResponse, LeaveResponse}
"""Messages of which there are only a few different ones."""


def bodies_of(version: int) -> dict[type[Any], Struct[Any]]:
    """The bodies of the messages that there are in a later version."""
    added = ADDED[version].items()
    return {of: Struct(of, (*BODIES[of].fields, *fields)) for of, fields in added}


VERSIONS = {VERSION: BODIES, **{version: bodies_of(version) for version in ADDED}}
"""By version, the bodies of its messages."""

SINGLE = 2
"""Versions after this one say what this one does, and each one thing more; not each other's."""

SAYS: dict[type[Any], tuple[tuple[int, str], ...]] = {
    of: tuple((n, ADDED[n][of][-1].name) for n in sorted(ADDED, reverse=True) if of in ADDED[n])
    for of in (Register, RegisterResponse)
}
"""Of messages with later versions, the field that each of these adds, the last version first."""


@dataclass(frozen=True, slots=True)
class Header:
    """The part of a header that every version has."""

    direction: int
    type_id: int
    version_id: int
    correlation_id: int

    def write(self, writer: ByteWriter) -> None:
        """Write it; `Unsendable` if the correlation id does not fit."""
        HEADER_STRUCT.write(writer, self)


HEADER = (
    StructField("direction", INT8),
    StructField("type_id", INT16),
    StructField("version_id", INT16),
    StructField("correlation_id", INT32),
)
EPOCHS = (StructField("epoch", INT64), StructField("generation", INT32))
AFTER_OF_A_REQUEST = (StructField("client_id", STRING), *EPOCHS)
AFTER_OF_A_RESPONSE = (StructField("error", ERROR_CODE), *EPOCHS)

HEADER_STRUCT = Struct(Header, HEADER)
AFTER: dict[int, Struct[Any]] = {
    Direction.REQUEST: Struct(dict, AFTER_OF_A_REQUEST),
    Direction.RESPONSE: Struct(dict, AFTER_OF_A_RESPONSE),
}
"""Layouts of what follows the common part of the header, and is followed by the body."""


def packed(*fields: StructField) -> struct.Struct:
    """The layout of numbers that follow one another."""
    kinds = [field.kind for field in fields if isinstance(field.kind, Number | Coded)]
    assert len(kinds) == len(fields), "they are numbers"
    return struct.Struct(">" + "".join(kind.layout.format.lstrip(">") for kind in kinds))


HEAD, EPOCHS_HEAD = packed(*HEADER), packed(*EPOCHS)
RESPONSE_HEAD = packed(*HEADER, *AFTER_OF_A_RESPONSE)
ANSWERED_WELL = {
    (Direction.RESPONSE, TYPE_IDS[of], VERSION, ErrorCode.NONE): of for of in RESPONSES.values()
}
"""The responses without an error, by direction, type id, version and error."""


@lru_cache
def request_head(sender_bytes: int) -> struct.Struct:
    """A request's whole header, from a sender whose name takes so many bytes."""
    sender = f"{primitives.INT16.format.lstrip('>')}{sender_bytes}s"
    return struct.Struct(HEAD.format + sender + EPOCHS_HEAD.format.lstrip(">"))


def encode(frame: Frame) -> bytes:
    """
    A frame's bytes, its size (int32) first.

    A request's error cannot be sent, nor an error beside another in the body: `Unsendable`, as is
    any value that is outside its field. A response's `client_id` is not sent.
    """
    message = frame.message
    error = _error_of(frame)
    spoken = frame if error is frame.error else replace(frame, error=error)
    try:
        version = version_of(message)
        head = _head_at_once(spoken, version) or _head_by_fields(spoken, version)
        body = (_brief_body if type(message) in BRIEF else _body_of)(message, version)
    except Unsendable as wrong:
        raise wrong.within(type(message).__name__) from None
    return sized(head + body)


def _body_of(message: Message, version: int) -> bytes:
    """A message's fields; `Unsendable` names the one that does not fit."""
    writer = ByteWriter()
    VERSIONS[version][type(message)].write(writer, message)
    return writer.written()


_brief_body = lru_cache(_body_of)
"""The fields of a message in `BRIEF`: the same few are said again and again."""


def _head_at_once(frame: Frame, version: int) -> bytes | None:
    """A frame's whole header; None where something in it is wrong: its fields tell what."""
    kind = type(frame.message)
    common = DIRECTIONS[kind], TYPE_IDS[kind], version, frame.correlation_id
    try:
        if common[0] is Direction.RESPONSE:
            return RESPONSE_HEAD.pack(*common, frame.error, frame.epoch, frame.generation)
        sender = frame.client_id.encode()
        size = len(sender)
        return request_head(size).pack(*common, size, sender, frame.epoch, frame.generation)
    except (struct.error, UnicodeEncodeError):
        return None


def _head_by_fields(frame: Frame, version: int) -> bytes:
    """A frame's whole header; `Unsendable` names the field that does not fit."""
    kind, writer = type(frame.message), ByteWriter()
    Header(DIRECTIONS[kind], TYPE_IDS[kind], version, frame.correlation_id).write(writer)
    AFTER[DIRECTIONS[kind]].write(writer, frame)
    return writer.written()


def version_of(message: Message) -> int:
    """The version that says all of a message; `Unsendable` if none says it all at once."""
    if type(message) not in SAYS:
        return VERSION
    said = [n for n, name in SAYS[type(message)] if getattr(message, name) is not None]
    if len(said) > 1 and said[1] > SINGLE:
        raise unsendable(f"no version says what versions {said[1]} and {said[0]} do at once")
    return said[0] if said else VERSION


def sized(payload: bytes) -> bytes:
    """A frame's bytes behind their size."""
    return primitives.INT32.pack(len(payload)) + payload


def _error_of(frame: Frame) -> ErrorCode:
    """The one error that a frame tells of: its own, or that of its message."""
    inner: ErrorCode = getattr(frame.message, "error_code", ErrorCode.NONE)
    if frame.error is inner is ErrorCode.NONE:
        return inner
    name = type(frame.message).__name__
    if frame.error not in (ErrorCode.NONE, inner) and hasattr(frame.message, "error_code"):
        raise unsendable(f"two errors, {frame.error.name} and {inner.name}").within(name)
    if frame.error and DIRECTIONS[type(frame.message)] is Direction.REQUEST:
        raise unsendable(f"a request has no error, but {frame.error.name}").within(name)
    return frame.error or inner


def decode(payload: bytes) -> Frame:
    """
    The frame that these bytes are, its size not among them.

    A response's error is both `Frame.error` and, where its message has one, its `error_code`. After
    an error the body may be missing. `WireError` carries the code to answer with, and what could be
    read of the header.
    """
    return _answer_at_once(payload) or _decode_by_fields(payload)


def _answer_at_once(payload: bytes) -> Frame | None:
    """A response that is well, as most frames are; None where its fields have to tell more."""
    if len(payload) < RESPONSE_HEAD.size:
        return None
    direction, type_id, version, correlation_id, error, epoch, generation = (
        RESPONSE_HEAD.unpack_from(payload)
    )
    message_type = ANSWERED_WELL.get((direction, type_id, version, error))
    if message_type is None:
        return None
    message = WITHOUT_BODY.get(message_type) if len(payload) == RESPONSE_HEAD.size else None
    try:
        if message is None:
            reader = ByteReader(payload, RESPONSE_HEAD.size)
            message = _response(message_type, reader, ErrorCode.NONE, VERSION)
    except WireError:
        return None
    return Frame(message, correlation_id, epoch, generation)


def _decode_by_fields(payload: bytes) -> Frame:
    """A frame; `WireError` names the field that is wrong."""
    reader = ByteReader(payload)
    try:
        header = HEADER_STRUCT.read(reader)
        try:
            return _decode_after(header, reader)
        except WireError as error:
            error.type_id = header.type_id
            error.correlation_id = header.correlation_id
            raise
    except WireError as error:
        error.answerable = payload[:1] != bytes([Direction.RESPONSE])
        raise


def _decode_after(header: Header, reader: ByteReader) -> Frame:
    if header.version_id not in VERSIONS:
        why = f"version {header.version_id} is not spoken here, but {VERSION} to {max(VERSIONS)}"
        raise WireError(ErrorCode.UNKNOWN_VERSION, why, 3)
    if header.direction == Direction.REQUEST:
        return _decode_request(header, reader)
    if header.direction == Direction.RESPONSE:
        return _decode_response(header, reader)
    raise malformed(f"direction {header.direction} is neither 0 (request) nor 1 (response)", 0)


def _decode_request(header: Header, reader: ByteReader) -> Frame:
    message_type = REQUESTS.get(header.type_id)
    if message_type is None:
        raise WireError(ErrorCode.UNKNOWN_TYPE, f"there is no type {header.type_id}", 1)
    _check_version(header, message_type)
    try:
        beside = AFTER[Direction.REQUEST].read(reader)
        message = _body(message_type, reader, {}, header.version_id)
    except WireError as error:
        raise error.within(message_type.__name__) from None
    return Frame(message, header.correlation_id, **beside)


def _decode_response(header: Header, reader: ByteReader) -> Frame:
    message_type = RESPONSES.get(header.type_id)
    name = message_type.__name__ if message_type else f"response to type {header.type_id}"
    if message_type:
        _check_version(header, message_type)
    try:
        beside = AFTER[Direction.RESPONSE].read(reader)
        if message_type is None:
            raise _unknown_response(header.type_id, beside["error"])
        message = _response(message_type, reader, beside["error"], header.version_id)
    except WireError as error:
        raise error.within(name) from None
    return Frame(message, header.correlation_id, **beside)


def _check_version(header: Header, message_type: type[Any]) -> None:
    """Only some messages have a version 2, and only one has later ones."""
    if message_type not in VERSIONS[header.version_id]:
        known = " and ".join(str(n) for n, bodies in VERSIONS.items() if message_type in bodies)
        why = f"there is no version {header.version_id} of {message_type.__name__}, but {known}"
        raise WireError(ErrorCode.UNKNOWN_VERSION, why, 3)


def _response(
    message_type: type[Any], reader: ByteReader, error: ErrorCode, version: int
) -> Message:
    given: dict[str, Any] = {}
    if hasattr(message_type, "error_code"):
        given["error_code"] = error
    if error and not reader.left and message_type is ConsultResponse:
        return ConsultResponse(error, NO_COORDINATOR, ())
    return _body(message_type, reader, given, version)


def _body(
    message_type: type[Any], reader: ByteReader, given: dict[str, Any], version: int
) -> Message:
    message: Message = VERSIONS[version][message_type].read_beside(reader, given)
    reader.end()
    return message


WITHOUT_BODY: dict[type[Any], Message] = {
    of: _response(of, ByteReader(b""), ErrorCode.NONE, VERSION)
    for of in RESPONSES.values()
    if not BODIES[of].least_bytes
}
"""The responses that are well, and say no more than that."""


def _unknown_response(type_id: int, error: ErrorCode) -> WireError:
    """The error for a response that belongs to no request of ours: mostly the peer's complaint."""
    if not error:
        return WireError(ErrorCode.UNKNOWN_TYPE, f"there is no type {type_id}", 1)
    wrong = WireError(error, "the peer could not read a frame of ours", None)
    wrong.told = True
    return wrong


def refusal(error: WireError, epoch: int = 0, generation: int = 0) -> bytes:
    """
    The answer to a frame that cannot be read: its type and correlation id, the error, no body.

    What could not be read of these is `NO_TYPE`, `NO_CORRELATION`. Empty bytes for a bad response:
    it is not answered.
    """
    if not error.answerable:
        return b""
    writer = ByteWriter()
    Header(Direction.RESPONSE, error.type_id, VERSION, error.correlation_id).write(writer)
    ERROR_CODE.write(writer, error.code)
    Struct(Frame, EPOCHS).write(writer, Frame(Stop(), epoch=epoch, generation=generation))
    return sized(writer.written())
