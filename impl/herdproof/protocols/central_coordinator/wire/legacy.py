"""
The legacy form: system B's draft `002` as it stands; size, type id of requests, body.

It exists for the drafted variant. A response carries no type and no correlation id, so its bytes
mean something only to who knows what was asked: an empty `PingResponse` and a good `StartResponse`
are the same bytes, 00 00. Nor does it carry an epoch, hence fences nothing. `002` has no answer to
Register and Stop, no Commit and no Leave: those are `Unsendable`.

Settled where `002` is silent: its arrays without a count of their own (the brokers) have an int32
count, those with one (`num_partition`, `num_partitions`) have that int16 alone; a refusal is an
error code alone. `auto_offset_rest` is its misspelling of `auto_offset_reset`.
"""

from __future__ import annotations

from typing import Any

from herdproof.protocols.central_coordinator.wire.errors import Unsendable, WireError
from herdproof.protocols.central_coordinator.wire.exchanges import REQUESTS, TYPE_IDS, is_request
from herdproof.protocols.central_coordinator.wire.layout import (
    ERROR_CODE,
    INT16,
    INT32,
    Array,
    Perhaps,
    Struct,
    StructField,
)
from herdproof.protocols.central_coordinator.wire.messages import (
    NO_COORDINATOR,
    Consult,
    ConsultResponse,
    ErrorCode,
    Message,
    Ping,
    PingResponse,
    Register,
    RegisterResponse,
    Request,
    Response,
    Start,
    StartResponse,
    Stop,
)
from herdproof.protocols.central_coordinator.wire.primitives import (
    ByteReader,
    ByteWriter,
    unsendable,
)
from herdproof.protocols.central_coordinator.wire.version1 import (
    BROKER,
    COORDINATOR_ID,
    OFFSET,
    REGISTER_FIELDS,
    RETRIES,
    sized,
)

NO_SESSION_TIMEOUT = 0
"""The `session_timeout_ms` of a Register that came in this form: it does not carry one."""

OFFSETS = Array(OFFSET, INT16)

BODIES: dict[type[Any], Struct[Any]] = {
    Consult: Struct(Consult),
    ConsultResponse: Struct(
        ConsultResponse,
        (
            StructField("error_code", ERROR_CODE),
            StructField("coordinator_id", COORDINATOR_ID),
            StructField("brokers", Array(BROKER, INT32)),
        ),
    ),
    Register: Struct(Register, REGISTER_FIELDS),
    Ping: Struct(Ping, (StructField("num_retries", RETRIES),)),
    PingResponse: Struct(PingResponse, (StructField("offsets", Perhaps(OFFSETS)),)),
    Stop: Struct(Stop),
    Start: Struct(Start, (StructField("partitions", OFFSETS),)),
    StartResponse: Struct(StartResponse, (StructField("error_code", ERROR_CODE),)),
}
"""Layouts of what follows the size and a request's type id."""

ANSWERED: dict[type[Any], type[Response]] = {
    Consult: ConsultResponse,
    Ping: PingResponse,
    Start: StartResponse,
}
"""The requests that have a response in this form, and which."""


def encode(message: Message) -> bytes:
    """
    A message's bytes, its size (int32) first; a Register's session timeout is not among them.

    A `RegisterResponse` that refuses is sent as its error code alone. `Unsendable` if this form
    has no such message, or a value is outside its field.
    """
    name = type(message).__name__
    if isinstance(message, RegisterResponse) and message.error_code:
        return refusal(message.error_code)
    if type(message) not in BODIES:
        raise unsendable("the legacy form has no such message").within(name)
    writer = ByteWriter()
    if is_request(message):
        INT16.write(writer, TYPE_IDS[type(message)])
    try:
        BODIES[type(message)].write(writer, message)
    except Unsendable as error:
        raise error.within(name) from None
    return sized(writer.written())


def refusal(code: ErrorCode) -> bytes:
    """The answer to a frame that is refused or cannot be read: the error code, no more."""
    writer = ByteWriter()
    ERROR_CODE.write(writer, code)
    return sized(writer.written())


def decode_request(payload: bytes) -> Request:
    """The request that these bytes are, its size not among them; `WireError` if they are none."""
    reader = ByteReader(payload)
    try:
        type_id = INT16.read(reader)
    except WireError as error:
        raise error.within("type_id") from None
    message_type = REQUESTS.get(type_id)
    if message_type not in BODIES:
        raise WireError(ErrorCode.UNKNOWN_TYPE, f"the legacy form has no type {type_id}", 0)
    beside = {"session_timeout_ms": NO_SESSION_TIMEOUT} if message_type is Register else {}
    try:
        message: Request = BODIES[message_type].read_beside(reader, beside)
        reader.end()
    except WireError as error:
        raise error.within(message_type.__name__) from None
    return message


def decode_response(payload: bytes, expected: type[Response]) -> Response:
    """
    The response of this type that these bytes are, its size not among them.

    The type has to be known: it is not in the bytes.

    After an error the rest of a `ConsultResponse` may be missing. `WireError` if they are none.
    """
    reader = ByteReader(payload)
    try:
        if expected is ConsultResponse and reader.left == ERROR_CODE.least_bytes:
            code = ERROR_CODE.read(reader)
            if code:
                return ConsultResponse(code, NO_COORDINATOR, ())
        message: Response = BODIES[expected].read(reader)
        reader.end()
    except WireError as error:
        error.answerable = False
        raise error.within(expected.__name__) from None
    return message
