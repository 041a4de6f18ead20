"""
The legacy form of the wire: `002` byte by byte, and what it cannot tell apart.

Reference: `002`, ConsultRequest to StartResponse; PROTOCOLS.md, Wire format of B.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.wire import legacy
from herdproof.protocols.central_coordinator.wire.errors import Unsendable, WireError
from herdproof.protocols.central_coordinator.wire.exchanges import RESPONSES, is_request
from herdproof.protocols.central_coordinator.wire.messages import (
    NO_COORDINATOR,
    Commit,
    CommitResponse,
    ConsultResponse,
    ErrorCode,
    Leave,
    LeaveResponse,
    Message,
    PingResponse,
    Register,
    RegisterResponse,
    Start,
    StartResponse,
    StopResponse,
)
from properties.protocols.central_coordinator.wire.wire_frames import (
    LEGACY,
    REGISTER,
    coded_responses,
    from_hex,
    other_responses,
    requests,
)

REQUESTS = [name for name in LEGACY if is_request(LEGACY[name][0])]
MAY_END_HERE = {
    "PingResponse of no partition": {0},
    "PingResponse": {0},
}
"""Where a response is cut off and is still one: without auto_commit it has no body."""


def decode(payload: bytes, like: Message) -> Message:
    """A payload read as a request, or as a response of the type that is expected."""
    if is_request(like):
        return legacy.decode_request(payload)
    expected = next(response for response in RESPONSES.values() if isinstance(like, response))
    return legacy.decode_response(payload, expected)


def test_every_message_of_002_has_golden_bytes() -> None:
    """Every message that `002` has is there with its bytes, and no other."""
    assert {type(message) for message, _ in LEGACY.values()} == set(legacy.BODIES)


@pytest.mark.parametrize("name", LEGACY)
def test_a_message_is_these_bytes(name: str) -> None:
    """A message is encoded as the bytes that `002` prescribes, and they are read as it."""
    message, data = LEGACY[name]
    assert int.from_bytes(data[:4], "big") == len(data) - 4, "the golden size itself"
    assert legacy.encode(message).hex(" ") == data.hex(" ")
    assert decode(data[4:], message) == message


def test_a_session_timeout_is_not_sent() -> None:
    """A Register's session timeout is not among the legacy form's fields: it is read as 0."""
    data = legacy.encode(REGISTER)
    read = legacy.decode_request(data[4:])
    assert data == LEGACY["Register"][1]
    assert isinstance(read, Register)
    assert read.session_timeout_ms == legacy.NO_SESSION_TIMEOUT


@given(st.one_of(requests, coded_responses, other_responses))
def test_what_is_encoded_is_read_back(message: Message) -> None:
    """Every message that the form has is read back as it was; the others cannot be sent."""
    if type(message) not in legacy.BODIES:
        return
    read = decode(legacy.encode(message)[4:], message)
    if isinstance(message, Register):
        assert isinstance(read, Register)
        assert legacy.encode(read) == legacy.encode(message)
    else:
        assert read == message


# ── What cannot be told apart ───────────────────────────────────────────────────────────────


def test_an_empty_ping_response_and_a_good_start_response_are_the_same_bytes() -> None:
    """
    "It cannot be told apart safely": an empty PingResponse and a good StartResponse are the same.

    Only who knows what was asked can read them. Reference: PROTOCOLS.md, Wire format of B.
    """
    data = legacy.encode(PingResponse(()))

    assert data == legacy.encode(StartResponse(ErrorCode.NONE)) == from_hex("00 00 00 02 00 00")
    assert legacy.decode_response(data[4:], PingResponse) == PingResponse(())
    assert legacy.decode_response(data[4:], StartResponse) == StartResponse(ErrorCode.NONE)


def test_a_ping_response_can_be_a_stop_request() -> None:
    """Nor are requests and responses apart: the offsets of 1004 partitions begin like a Stop."""
    offsets = (Offset("t", "0", 5),) * 1004
    response = legacy.encode(PingResponse(offsets))[4:]
    stop = LEGACY["Stop"][1][4:]
    assert response[:2] == stop[:2]


# ── What is refused ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", LEGACY)
def test_a_payload_that_is_cut_off_is_refused(name: str) -> None:
    """A payload cut off anywhere is refused, unless its body may be absent and is, whole."""
    message, data = LEGACY[name]
    payload = data[4:]
    for length in range(len(payload)):
        if length in MAY_END_HERE.get(name, ()):
            assert decode(payload[:length], message) == PingResponse(None)
            continue
        with pytest.raises(WireError) as caught:
            decode(payload[:length], message)
        assert caught.value.code is ErrorCode.MALFORMED
        assert caught.value.answerable == is_request(message)


@pytest.mark.parametrize("name", LEGACY)
def test_a_payload_with_one_wrong_byte_is_refused_or_is_another_message(name: str) -> None:
    """Any one byte replaced by any other: refused, or exactly another message of the form."""
    message, data = LEGACY[name]
    payload = data[4:]
    for at in range(len(payload)):
        for value in range(256):
            wrong = payload[:at] + bytes([value]) + payload[at + 1 :]
            try:
                read = decode(wrong, message)
            except WireError:
                continue
            assert legacy.encode(read)[4:] == wrong


@given(st.binary(max_size=80), st.sampled_from(sorted(LEGACY)))
def test_random_bytes_are_refused_or_are_a_message(payload: bytes, name: str) -> None:
    """Bytes of any content are refused as `WireError` and in no other way."""
    message, data = LEGACY[name]
    for attempt in (payload, data[4:6] + payload):
        try:
            read = decode(attempt, message)
        except WireError:
            continue
        if not isinstance(read, ConsultResponse):
            assert legacy.encode(read)[4:] == attempt


@pytest.mark.parametrize(
    ("payload", "code", "told"),
    [
        ("03 ea 00 00", ErrorCode.UNKNOWN_TYPE, "the legacy form has no type 1002"),
        ("03 ee", ErrorCode.UNKNOWN_TYPE, "the legacy form has no type 1006"),
        ("00 01", ErrorCode.UNKNOWN_TYPE, "the legacy form has no type 1"),
        ("", ErrorCode.MALFORMED, "type_id: needs 2 bytes, 0 are left"),
        ("03 ec 00", ErrorCode.MALFORMED, "Stop: 1 bytes too many at its end"),
        ("03 ed 7f ff", ErrorCode.MALFORMED, "Start.partitions: 32767 elements need at least"),
        ("03 ed ff ff", ErrorCode.MALFORMED, "Start.partitions: a count is -1"),
    ],
)
def test_what_is_wrong_with_a_request_is_named(payload: str, code: ErrorCode, told: str) -> None:
    """What is wrong with a request is told by its code and its field."""
    with pytest.raises(WireError, match=re.escape(told)) as caught:
        legacy.decode_request(from_hex(payload))
    assert caught.value.code is code
    assert caught.value.answerable


@pytest.mark.parametrize(
    "message",
    [
        Commit(()),
        CommitResponse(ErrorCode.NONE),
        Leave(),
        LeaveResponse(ErrorCode.NONE),
        RegisterResponse(ErrorCode.NONE),
        StopResponse(None),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_002_does_not_have_cannot_be_sent(message: Message) -> None:
    """`002` has no answer to Register and Stop, no Commit and no Leave: they cannot be sent."""
    with pytest.raises(Unsendable, match=f"{type(message).__name__}: the legacy form has no such"):
        legacy.encode(message)


def test_more_partitions_than_002_can_count_cannot_be_sent() -> None:
    """A Start of more partitions than an int16 counts cannot be sent."""
    most = (Offset("t", "0", 0),) * (2**15 - 1)
    assert legacy.decode_request(legacy.encode(Start(most))[4:]) == Start(most)
    with pytest.raises(Unsendable, match=r"Start\.partitions: 32768 is no integer of 16 bits"):
        legacy.encode(Start((*most, most[0])))


def test_a_refusal_is_an_error_code_alone() -> None:
    """A refusal, of a Register or of a frame that cannot be read, is an error code, no more."""
    refusal = legacy.encode(RegisterResponse(ErrorCode.FENCED_FORM_REQUIRED))
    assert refusal == from_hex("00 00 00 02 00 09") == legacy.refusal(ErrorCode(9))
    assert legacy.decode_response(refusal[4:], ConsultResponse) == ConsultResponse(
        ErrorCode.FENCED_FORM_REQUIRED, NO_COORDINATOR, ()
    )
