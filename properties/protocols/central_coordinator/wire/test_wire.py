"""
Version 1 of the wire: bytes as docs/wire.md lays them out, and an error for all other bytes.

Reference: PROTOCOLS.md, Wire format of B; `001` for the header fields, `002` for the bodies.
"""

from __future__ import annotations

import re
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from herdproof.consuming.offsets import Offset
from herdproof.errors import HerdError
from herdproof.protocols.central_coordinator.wire import version1
from herdproof.protocols.central_coordinator.wire.errors import (
    NO_CORRELATION,
    NO_TYPE,
    Unsendable,
    WireError,
)
from herdproof.protocols.central_coordinator.wire.exchanges import EXCHANGES, is_request
from herdproof.protocols.central_coordinator.wire.messages import (
    NO_COORDINATOR,
    BrokerInfo,
    Commit,
    ConsultResponse,
    ErrorCode,
    Frame,
    Ping,
    PingResponse,
    RegisterResponse,
    Start,
    StartResponse,
)
from herdproof.protocols.central_coordinator.wire.messages import Message as AnyMessage
from properties.protocols.central_coordinator.wire.wire_frames import REGISTER, VERSION_1, frames

RESPONSE_HEADER_BYTES = 23
MAY_LACK_THEIR_BODY = (
    "ConsultResponse, none known",
    "PingResponse of no partition",
    "PingResponse",
    "StopResponse",
)
"""Responses that are still ones when their body is cut off whole: an error, or no auto_commit."""


def golden(name: str) -> tuple[Frame, bytes]:
    """A frame and its payload, without the size."""
    frame, data = VERSION_1[name]
    return frame, data[4:]


def changed(name: str, offset: int, piece: bytes) -> bytes:
    """A golden payload with other bytes at this offset."""
    payload = golden(name)[1]
    return payload[:offset] + piece + payload[offset + len(piece) :]


def refused(payload: bytes) -> WireError:
    """The error of bytes that must not be read."""
    with pytest.raises(WireError) as caught:
        version1.decode(payload)
    return caught.value


def test_every_message_has_golden_bytes() -> None:
    """Every message of every exchange has golden bytes, so no layout goes untested."""
    shown = {type(frame.message) for frame, _ in VERSION_1.values()}
    assert shown == {kind for one in EXCHANGES for kind in (one.request, one.response)}


@pytest.mark.parametrize("name", VERSION_1)
def test_a_frame_is_these_bytes(name: str) -> None:
    """A frame is encoded as the bytes that the layout prescribes, and they are read as it."""
    frame, data = VERSION_1[name]
    assert int.from_bytes(data[:4], "big") == len(data) - 4, "the golden size itself"
    assert version1.encode(frame).hex(" ") == data.hex(" ")
    assert version1.decode(data[4:]) == frame


@given(frames)
def test_what_is_encoded_is_read_back(frame: Frame) -> None:
    """Every frame is read back as it was, whatever its values."""
    data = version1.encode(frame)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert version1.decode(data[4:]) == frame


def test_the_error_of_a_body_need_not_be_said_twice() -> None:
    """A response whose message has an error code is sent with it, `Frame.error` or not."""
    message = StartResponse(ErrorCode.ILLEGAL_STATE)
    said_twice = Frame(message, error=ErrorCode.ILLEGAL_STATE)
    assert version1.encode(Frame(message)) == version1.encode(said_twice)


@pytest.mark.parametrize("name", VERSION_1)
def test_a_payload_that_is_cut_off_is_refused(name: str) -> None:
    """A payload cut off anywhere is refused, unless its body may be absent and is, whole."""
    frame, payload = golden(name)
    for length in range(len(payload)):
        if length == RESPONSE_HEADER_BYTES and name in MAY_LACK_THEIR_BODY:
            assert version1.decode(payload[:length]).error == frame.error
            continue
        assert refused(payload[:length]).code is ErrorCode.MALFORMED, f"{length} bytes of it"


@pytest.mark.parametrize("name", VERSION_1)
def test_a_payload_that_is_too_long_is_refused(name: str) -> None:
    """One byte more than a body has is another body, hence refused."""
    assert refused(golden(name)[1] + b"\0").code is ErrorCode.MALFORMED


def reads_alike_or_refuses(payload: bytes) -> None:
    """Bytes are refused, or are the very encoding of the frame that they are read as."""
    try:
        frame = version1.decode(payload)
    except WireError:
        return
    if isinstance(frame.message, ConsultResponse) and len(payload) == RESPONSE_HEADER_BYTES:
        payload += b"\xff\xff\0\0\0\0"  # the one body that may be absent and stand for itself
    assert version1.encode(frame)[4:] == payload


@pytest.mark.parametrize("name", VERSION_1)
def test_a_payload_with_one_wrong_byte_is_refused_or_is_another_frame(name: str) -> None:
    """Any one byte of a frame replaced by any other: refused, or exactly another frame."""
    payload = golden(name)[1]
    for at in range(len(payload)):
        for value in range(256):
            reads_alike_or_refuses(payload[:at] + bytes([value]) + payload[at + 1 :])


@given(st.binary(max_size=120))
def test_random_bytes_are_refused_or_are_a_frame(payload: bytes) -> None:
    """Bytes of any content are refused as `WireError` and in no other way."""
    reads_alike_or_refuses(payload)


@given(st.sampled_from(sorted(VERSION_1)), st.binary(max_size=80))
def test_random_bytes_behind_a_good_header_are_refused_or_are_a_frame(
    name: str, body: bytes
) -> None:
    """Behind a good header, where the body's layouts are reached, nothing else is raised either."""
    frame, payload = golden(name)
    length = 21 + 2 + len(frame.client_id) if payload[0] == 0 else RESPONSE_HEADER_BYTES
    reads_alike_or_refuses(payload[:length] + body)


WRONG: dict[str, tuple[bytes, ErrorCode, str]] = {
    "a third direction": (changed("Ping", 0, b"\x02"), ErrorCode.MALFORMED, "direction 2"),
    "an unknown type": (changed("Ping", 1, b"\x03\xff"), ErrorCode.UNKNOWN_TYPE, "no type 1023"),
    "Kafka's Fetch": (changed("Ping", 1, b"\0\x01"), ErrorCode.UNKNOWN_TYPE, "no type 1"),
    "an unknown type of response": (
        changed("StartResponse", 1, b"\x03\xff\0\x01\0\0\0\x06\0\0"),
        ErrorCode.UNKNOWN_TYPE,
        "no type 1023",
    ),
    "version 0": (changed("Ping", 3, b"\0\0"), ErrorCode.UNKNOWN_VERSION, "version 0"),
    "version 2": (changed("Ping", 3, b"\0\x02"), ErrorCode.UNKNOWN_VERSION, "version 2 of Ping"),
    "version 2 of a response": (
        changed("StartResponse", 3, b"\0\x02"),
        ErrorCode.UNKNOWN_VERSION,
        "version 2 of StartResponse",
    ),
    "an unknown version and type": (
        changed("Ping", 1, b"\x7f\xff\0\x05"),
        ErrorCode.UNKNOWN_VERSION,
        "version 5",
    ),
    "offsets brought of very many registrations": (
        changed("Register, version 4", 71, b"\x7f\xff\xff\xff"),
        ErrorCode.MALFORMED,
        "Register.brought: 2147483647 elements need at least 21474836470 bytes",
    ),
    "very many offsets that are brought": (
        changed("Register, version 4", 84, b"\x7f\xff\xff\xff"),
        ErrorCode.MALFORMED,
        "Register.brought[0].offsets: 2147483647 elements need at least 25769803764 bytes",
    ),
    "fewer registrations than none": (
        changed("Register, version 4", 71, b"\xff\xff\xff\xff"),
        ErrorCode.MALFORMED,
        "Register.brought: a count is -1",
    ),
    "offsets brought of no generation": (
        changed("Register, version 4", 80, b"\0\0\0\0"),
        ErrorCode.MALFORMED,
        "Register.brought[0].generation: 0 is not int32 ≥ 1",
    ),
    "an offset brought that none can be": (
        changed("Register, version 4", 94, b"\xff" * 7 + b"\xfe"),
        ErrorCode.MALFORMED,
        "Register.brought[0].offsets[0].offset: -2 is not int64 ≥ -1",
    ),
    "an unknown error": (
        changed("StartResponse", 9, b"\x03\xe7"),
        ErrorCode.MALFORMED,
        "StartResponse.error: 999 is no ErrorCode",
    ),
    "a negative string": (
        changed("Register", 9, b"\xff\xff"),
        ErrorCode.MALFORMED,
        "Register.client_id: a string's length is -1",
    ),
    "a string beyond the end": (
        changed("Register", 25, b"\x7f\xff"),
        ErrorCode.MALFORMED,
        "Register.group_id: needs 32767 bytes, 35 are left (at byte 27",
    ),
    "no UTF-8": (
        changed("Start", 29, b"\xff"),
        ErrorCode.MALFORMED,
        "Start.partitions[0].topic: is not UTF-8 (invalid start byte) (at byte 29",
    ),
    "a surrogate": (
        changed("Register", 34, b"\xed\xa0\x80"),
        ErrorCode.MALFORMED,
        "Register.topic_count: is not UTF-8",
    ),
    "a bool of 2": (
        changed("Register", 41, b"\x02"),
        ErrorCode.MALFORMED,
        "Register.auto_commit: 2 is no bool",
    ),
    "a third reset": (
        changed("Register", 44, b"S"),
        ErrorCode.MALFORMED,
        "auto_offset_reset: 'Smallest' is no OffsetReset, but smallest or largest",
    ),
    "an interval of 0": (
        changed("Register", 52, b"\0\0\0\0"),
        ErrorCode.MALFORMED,
        "Register.ping_interval_ms: 0 is not int32 ≥ 1",
    ),
    "negative retries": (
        changed("Ping", 24, b"\xff\xff"),
        ErrorCode.MALFORMED,
        "Ping.num_retries: -1 is not int16 ≥ 0",
    ),
    "an offset below -1": (
        changed("Commit", 35, b"\xff\xff\xff\xff\xff\xff\xff\xfe"),
        ErrorCode.MALFORMED,
        "Commit.offsets[0].offset: -2 is not int64 ≥ -1",
    ),
    "a port too high": (
        changed("ConsultResponse", 39, b"\0\x01\0\0"),
        ErrorCode.MALFORMED,
        "ConsultResponse.brokers[0].port: 65536 is not int32 from 0 to 65535",
    ),
    "a coordinator below -1": (
        changed("ConsultResponse", 23, b"\xff\xfe"),
        ErrorCode.MALFORMED,
        "ConsultResponse.coordinator_id: -2 is not int16 ≥ -1",
    ),
    "a negative count": (
        changed("Start", 23, b"\xff\xff\xff\xff"),
        ErrorCode.MALFORMED,
        "Start.partitions: a count is -1",
    ),
    "a count beyond the end": (
        changed("Start", 23, b"\0\0\0\x03"),
        ErrorCode.MALFORMED,
        "Start.partitions: 3 elements need at least 36 bytes, 30 are left",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    """What is wrong with a frame is told by its code and its field; its request by its id."""
    payload, code, told = WRONG[name]

    error = refused(payload)

    assert isinstance(error, HerdError)
    assert error.code is code
    assert told in str(error)
    assert error.type_id == int.from_bytes(payload[1:3], "big", signed=True)
    assert error.correlation_id == int.from_bytes(payload[5:9], "big", signed=True)
    assert error.answerable == (payload[0] != 1), "a response is never answered"


def test_a_count_allocates_nothing() -> None:
    """A count of two thousand million elements costs no memory: what is left is compared."""
    payload = changed("Start", 23, b"\x7f\xff\xff\xff")
    refused(payload)

    tracemalloc.start()
    error = refused(payload)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert "2147483647 elements" in str(error)
    assert peak < 50_000


def test_many_tiny_elements_are_read() -> None:
    """The check of a count against what is left allows the smallest elements: empty strings."""
    message = Start((Offset("", "", 0),) * 1000)
    assert version1.decode(version1.encode(Frame(message))[4:]).message == message


UNSENDABLE: dict[str, tuple[AnyMessage, str]] = {
    "num_retries": (Ping(2**15), "Ping.num_retries: 32768 is no integer of 16 bits"),
    "negative": (Ping(-1), "Ping.num_retries: -1 is not int16 ≥ 0"),
    "no integer": (Ping(1.5), "Ping.num_retries: 1.5 is no integer"),  # type: ignore[arg-type]
    "interval": (
        replace(REGISTER, ping_interval_ms=2**31),
        "Register.ping_interval_ms: 2147483648 is no integer of 32 bits",
    ),
    "no session timeout": (
        replace(REGISTER, session_timeout_ms=0),
        "Register.session_timeout_ms: 0 is not int32 ≥ 1",
    ),
    "string": (
        replace(REGISTER, group_id="ü" * 16384),
        "Register.group_id: takes 32768 bytes, 32767 are the most",
    ),
    "surrogate": (replace(REGISTER, consumer_id="\ud800"), "Register.consumer_id: has no UTF-8"),
    "offset": (
        Commit((Offset("t", "0", 0), Offset("t", "1", 2**63))),
        "Commit.offsets[1].offset: 9223372036854775808 is no integer of 64 bits",
    ),
    "coordinator": (
        ConsultResponse(ErrorCode.NONE, 2**15, ()),
        "ConsultResponse.coordinator_id: 32768 is no integer of 16 bits",
    ),
    "port": (
        ConsultResponse(ErrorCode.NONE, 1, (BrokerInfo("a", 1, "h", 65536),)),
        "ConsultResponse.brokers[0].port: 65536 is not int32 from 0 to 65535",
    ),
}


@pytest.mark.parametrize("name", UNSENDABLE)
def test_a_value_that_does_not_fit_is_refused_before_it_is_sent(name: str) -> None:
    """A value outside its field's range cannot be sent: the error names the field and the range."""
    message, told = UNSENDABLE[name]
    with pytest.raises(Unsendable, match=re.escape(told)):
        version1.encode(Frame(message))


def test_the_longest_string_fits() -> None:
    """A string of 32,767 bytes is the longest that fits, and it does."""
    message = replace(REGISTER, group_id="g" * 32_767)
    assert version1.decode(version1.encode(Frame(message))[4:]).message == message


HEADERS: dict[str, tuple[dict[str, Any], str]] = {
    "correlation id": ({"correlation_id": 2**31}, "Ping.correlation_id: 2147483648 is no integer"),
    "epoch": ({"epoch": 2**63}, "Ping.epoch: 9223372036854775808 is no integer of 64 bits"),
    "generation": ({"generation": 2**31}, "Ping.generation: 2147483648 is no integer of 32 bits"),
    "client id": ({"client_id": "c" * 32768}, "Ping.client_id: takes 32768 bytes"),
    "error of a request": ({"error": ErrorCode.MALFORMED}, "a request has no error"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_does_not_fit_is_refused_before_it_is_sent(name: str) -> None:
    """A header's value outside its range cannot be sent either, nor an error of a request."""
    values, told = HEADERS[name]
    with pytest.raises(Unsendable, match=re.escape(told)):
        version1.encode(Frame(Ping(0), **values))


def test_two_errors_cannot_be_sent_as_one() -> None:
    """A frame whose error is another than its message's cannot be sent: the wire has it once."""
    frame = Frame(RegisterResponse(ErrorCode.GROUP_FULL), error=ErrorCode.STALE_EPOCH)
    with pytest.raises(Unsendable, match="two errors, STALE_EPOCH and GROUP_FULL"):
        version1.encode(frame)


def test_to_resume_and_to_bring_cannot_be_said_at_once() -> None:
    """No version says both: who resumes has nothing to bring."""
    both = replace(REGISTER, former=("3-1",), resumes="3-1", brought=())
    with pytest.raises(Unsendable, match="no version says what versions 3 and 4 do at once"):
        version1.encode(Frame(both))


# ── The answer to a frame that cannot be read ───────────────────────────────────────────────


def test_a_bad_request_is_answered_under_its_own_type_and_correlation_id() -> None:
    """The answer to a request that cannot be read is an error response to that very request."""
    error = refused(changed("Register", 41, b"\x02"))

    answer = version1.refusal(error, epoch=258)

    assert answer.hex(" ") == (
        "00 00 00 17 01 03 e9 00 01 00 00 00 02 00 06 00 00 00 00 00 00 01 02 00 00 00 00"
    )
    assert version1.decode(answer[4:]) == Frame(
        RegisterResponse(ErrorCode.MALFORMED), 2, epoch=258, error=ErrorCode.MALFORMED
    )


def test_a_bad_consult_is_answered_without_a_body() -> None:
    """An error without a body reads as a ConsultResponse that knows nothing."""
    error = refused(golden("Consult")[1] + b"\0")
    assert version1.decode(version1.refusal(error)[4:]).message == ConsultResponse(
        ErrorCode.MALFORMED, NO_COORDINATOR, ()
    )


def test_an_unknown_version_is_answered_with_its_correlation_id() -> None:
    """A frame of a later version is answered: its header begins as ours, whatever its rest is."""
    error = refused(from_later_version := b"\x00\x7f\xff\x00\x05\x00\x00\x00\x2a????")

    answer = version1.refusal(error)

    assert from_later_version[5:9] == answer[9:13], "the correlation id"
    assert answer[13:15] == b"\0\x02", "UNKNOWN_VERSION"


def test_who_gets_a_complaint_of_an_unknown_request_learns_it() -> None:
    """An error response that belongs to no request of ours is told as the peer's complaint."""
    complaint = version1.refusal(refused(changed("Ping", 1, b"\x03\xff")))

    error = refused(complaint[4:])

    assert error.told
    assert error.code is ErrorCode.UNKNOWN_TYPE
    assert "the peer could not read a frame of ours" in str(error)
    assert version1.refusal(error) == b"", "a complaint is not answered"


def test_a_header_that_cannot_be_read_is_answered_without_type_and_id() -> None:
    """Where not even the header can be read, the answer has type 0 and correlation id -1."""
    error = refused(b"\x00\x03")

    answer = version1.refusal(error)

    assert (error.type_id, error.correlation_id) == (NO_TYPE, NO_CORRELATION)
    assert answer[4:15].hex(" ") == "01 00 00 00 01 ff ff ff ff 00 06"
    assert refused(answer[4:]).told


@pytest.mark.parametrize("name", [n for n in VERSION_1 if golden(n)[1][0] == 1])
def test_a_bad_response_is_never_answered(name: str) -> None:
    """A response that cannot be read is not answered, or two peers would complain for ever."""
    payload = golden(name)[1]
    for bad in (payload + b"\0", payload[:3]):
        assert version1.refusal(refused(bad)) == b""


# ── What the ids keep apart ─────────────────────────────────────────────────────────────────


def test_the_broker_apis_of_kafka_are_free() -> None:
    """No request of Kafka's (api key, its version, its correlation id) is taken for one of ours."""
    for api_key in range(200):
        for api_version in range(40):
            kafka = struct.pack(">hhih4s", api_key, api_version, 7, 4, b"java")
            assert refused(kafka).code in (ErrorCode.UNKNOWN_VERSION, ErrorCode.UNKNOWN_TYPE)


def test_no_two_messages_of_version_1_are_the_same_bytes() -> None:
    """What is ambiguous in the legacy form is not in version 1: the type tells them apart."""
    assert version1.encode(Frame(PingResponse(()))) != version1.encode(
        Frame(StartResponse(ErrorCode.NONE))
    )
    assert len({data for _, data in VERSION_1.values()}) == len(VERSION_1)


@given(frames)
def test_a_header_is_the_same_at_once_and_by_its_fields(frame: Frame) -> None:
    """What most frames are written and read by is what the tables of docs/wire.md say."""
    version = version1.version_of(frame.message)
    assert version1._head_at_once(frame, version) == version1._head_by_fields(frame, version)

    payload = version1.encode(frame)[4:]
    assert version1._decode_by_fields(payload) == frame
    is_well = not is_request(frame.message) and not frame.error and version == version1.VERSION
    assert version1._answer_at_once(payload) == (frame if is_well else None)
