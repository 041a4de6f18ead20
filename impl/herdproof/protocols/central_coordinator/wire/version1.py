"""
Version 1 of the wire: a header with version, correlation id, epoch and generation, then the body.

Version 2 is the same, of a Register and its answer alone: each says one thing more.

Ours, from the header fields of system B's draft `001`; PROTOCOLS.md lays it out (Wire format of B),
docs/wire.md byte by byte. The header up to the correlation id, and a response's error after it, are
the same in every version to come: so a frame of an unknown version can be answered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

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
    Number,
    Perhaps,
    Struct,
    StructField,
)
from herdproof.protocols.central_coordinator.wire.messages import (
    NO_COORDINATOR,
    BrokerInfo,
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

VERSION, LATER = 1, 2
"""Version 1 is spoken of every message; version 2 of those in `ADDED`."""

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

ADDED: dict[type[Any], StructField] = {
    Register: StructField("former", Array(STRING, INT32)),
    RegisterResponse: StructField("member", STRING),
}
"""Field that follows that in version 2: None in a message that says no more than version 1 can."""
LATER_BODIES = {of: Struct(of, (*BODIES[of].fields, field)) for of, field in ADDED.items()}


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


def encode(frame: Frame) -> bytes:
    """
    A frame's bytes, its size (int32) first.

    A request's error cannot be sent, nor an error beside another in the body: `Unsendable`, as is
    any value that is outside its field. A response's `client_id` is not sent.
    """
    message = frame.message
    direction = DIRECTIONS[type(message)]
    error = _error_of(frame)
    spoken = frame if error is frame.error else replace(frame, error=error)
    writer = ByteWriter()
    try:
        version = version_of(message)
        Header(direction, TYPE_IDS[type(message)], version, frame.correlation_id).write(writer)
        AFTER[direction].write(writer, spoken)
        bodies_of(version)[type(message)].write(writer, message)
    except Unsendable as wrong:
        raise wrong.within(type(message).__name__) from None
    return sized(writer.written())


def version_of(message: Message) -> int:
    """The least version that says all of a message."""
    field = ADDED.get(type(message))
    return VERSION if field is None or getattr(message, field.name) is None else LATER


def bodies_of(version: int) -> dict[type[Any], Struct[Any]]:
    """The bodies of a version's messages."""
    return BODIES if version == VERSION else LATER_BODIES


def sized(payload: bytes) -> bytes:
    """A frame's bytes behind their size."""
    return primitives.INT32.pack(len(payload)) + payload


def _error_of(frame: Frame) -> ErrorCode:
    """The one error that a frame tells of: its own, or that of its message."""
    inner: ErrorCode = getattr(frame.message, "error_code", ErrorCode.NONE)
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
    if header.version_id not in (VERSION, LATER):
        why = f"version {header.version_id} is not spoken here, but {VERSION} and {LATER}"
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
    """Only some messages have a version 2."""
    if message_type not in bodies_of(header.version_id):
        why = f"there is no version {header.version_id} of {message_type.__name__}, but {VERSION}"
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
    message: Message = bodies_of(version)[message_type].read_beside(reader, given)
    reader.end()
    return message


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
