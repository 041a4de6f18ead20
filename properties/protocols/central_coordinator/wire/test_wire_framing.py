"""Streams of frames: split as they come, in the form that their first one has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.wire import legacy, version1
from herdproof.protocols.central_coordinator.wire.conversation import Conversation
from herdproof.protocols.central_coordinator.wire.errors import Unsendable, WireError
from herdproof.protocols.central_coordinator.wire.framing import Form, Splitter, form_of
from herdproof.protocols.central_coordinator.wire.messages import (
    BrokerInfo,
    Commit,
    Consult,
    ConsultResponse,
    ErrorCode,
    Frame,
    Ping,
    PingResponse,
    RegisterResponse,
    Request,
    Start,
    StartResponse,
    Stop,
)
from properties.protocols.central_coordinator.wire.wire_frames import (
    LEGACY,
    REGISTER,
    VERSION_1,
    frames,
    from_hex,
    requests,
)

OVERSIZED = from_hex("7f ff ff ff 00")
NEGATIVE = from_hex("ff ff ff ff 00")


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """Some bytes, cut at these places."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(places)]


# ── Splitting ───────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.binary(max_size=30), max_size=6), st.lists(st.integers(0, 500), max_size=8))
def test_a_stream_is_split_alike_however_it_comes(payloads: list[bytes], cuts: list[int]) -> None:
    """However the bytes of a stream come, byte by byte or at once, its frames are the same."""
    stream = b"".join(map(version1.sized, payloads))

    for way in (pieces(stream, cuts), [stream[i : i + 1] for i in range(len(stream))]):
        splitter = Splitter()
        assert [frame for piece in way for frame in splitter.feed(piece)] == payloads
        splitter.eof()


@pytest.mark.parametrize("name", VERSION_1)
def test_a_stream_that_ends_within_a_frame_is_refused(name: str) -> None:
    """A stream that ends anywhere within a frame is an error, and gives no frame."""
    data = VERSION_1[name][1]
    for length in range(1, len(data)):
        conversation = Conversation()
        assert list(conversation.feed(data[:length])) == []
        with pytest.raises(WireError, match=f"ended {length} bytes into a frame") as caught:
            conversation.eof()
        assert caught.value.code is ErrorCode.MALFORMED


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (OVERSIZED, "a frame of 2147483647 bytes, 1048576 are the limit"),
        (NEGATIVE, "a frame's size is -1"),
        (b"GET / HTTP/1.1\r\n", "a frame of 1195725856 bytes"),
    ],
    ids=["oversized", "negative", "another protocol"],
)
def test_a_size_that_cannot_be_is_refused_at_once(data: bytes, told: str) -> None:
    """A size that is negative or beyond the limit is refused once its four bytes are there."""
    splitter = Splitter()
    assert list(splitter.feed(data[:3])) == []
    with pytest.raises(WireError, match=re.escape(told)) as caught:
        list(splitter.feed(data[3:4]))
    assert caught.value.code is ErrorCode.MALFORMED


def test_the_rest_of_a_frame_is_taken_for_no_other() -> None:
    """What looks like a whole frame is none where one has begun before it."""
    inner = bytes.fromhex("00 00 00 02 61 62")
    splitter = Splitter()
    begun = list(splitter.feed(bytes.fromhex("00 00 00 06")))

    assert not begun
    assert list(splitter.feed(inner)) == [inner]


def test_the_limit_of_a_frame_is_the_setting() -> None:
    """A frame of just the limit passes, one byte more does not."""
    assert list(Splitter(8).feed(version1.sized(b"8 bytes.")))
    with pytest.raises(WireError, match="a frame of 9 bytes, 8 are the limit"):
        list(Splitter(8).feed(version1.sized(b"9 bytes..")))


def test_a_broken_stream_stays_broken() -> None:
    """After a size that cannot be, nothing that comes is taken for a frame, nor is any kept."""
    splitter = Splitter()
    with pytest.raises(WireError, match="negative"):
        list(splitter.feed(NEGATIVE))
    with pytest.raises(WireError, match="negative"):
        list(splitter.feed(version1.sized(b"good")))
    with pytest.raises(WireError, match="negative"):
        splitter.eof()


def test_the_frames_before_a_bad_one_are_given() -> None:
    """The frames that stand before a bad one are given, and only then is the error raised."""
    good, bad = VERSION_1["Ping"][1], NEGATIVE
    given_frames: list[Frame] = []
    with pytest.raises(WireError, match="negative"):
        given_frames.extend(Conversation().feed(good + good + bad))
    frames_before = Conversation().feed(good + good + bad)
    assert [next(frames_before), next(frames_before)] == [VERSION_1["Ping"][0]] * 2


# ── The form ────────────────────────────────────────────────────────────────────────────────


@given(frames)
def test_any_frame_of_version_1_is_told_by_its_first_byte(frame: Frame) -> None:
    """Every frame of version 1 begins with 0 or 1, which tells its form."""
    assert form_of(version1.encode(frame)[4:]) is Form.VERSION_1


@given(requests)
def test_any_legacy_request_is_told_by_its_type(request: Request) -> None:
    """Every legacy request begins with a type id that no frame of version 1 can begin with."""
    if type(request) in legacy.BODIES:
        assert form_of(legacy.encode(request)[4:]) is Form.LEGACY


def test_the_form_of_a_legacy_response_cannot_be_told() -> None:
    """A legacy response begins with anything: a good one of a Start looks like version 1."""
    assert form_of(legacy.encode(StartResponse(ErrorCode.NONE))[4:]) is Form.VERSION_1


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ("", ErrorCode.MALFORMED),
        ("03", ErrorCode.MALFORMED),
        ("02 00", ErrorCode.UNKNOWN_TYPE),
        ("03 ff", ErrorCode.UNKNOWN_TYPE),
        ("ff ff", ErrorCode.UNKNOWN_TYPE),
    ],
)
def test_what_is_in_neither_form_is_refused(payload: str, code: ErrorCode) -> None:
    """A first frame in neither form is refused, not guessed at; the answer is in version 1."""
    conversation = Conversation()
    with pytest.raises(WireError) as caught:
        list(conversation.feed(version1.sized(from_hex(payload))))
    assert caught.value.code is code
    assert conversation.refusal(caught.value)[13:15] == code.to_bytes(2, "big")


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (LEGACY["Consult"][1], VERSION_1["Register"][1]),
        (VERSION_1["Consult"][1], LEGACY["Register"][1]),
    ],
    ids=["legacy first", "version 1 first"],
)
def test_a_connection_keeps_its_form(first: bytes, then: bytes) -> None:
    """The first frame's form is the connection's: a frame of the other one is refused."""
    conversation = Conversation()
    assert len(list(conversation.feed(first))) == 1
    with pytest.raises(WireError):
        list(conversation.feed(then))


# ── A conversation ──────────────────────────────────────────────────────────────────────────

DIALOGUE = [
    Frame(Consult(), 1),
    Frame(ConsultResponse(ErrorCode.NONE, 1, (BrokerInfo("a", 1, "h", 9000),)), 1),
    Frame(REGISTER, 2),
    Frame(Ping(0), 3),
    Frame(PingResponse(()), 3),
    Frame(Stop(), 4),
    Frame(Start((Offset("t", "0", 5),)), 5),
    Frame(StartResponse(ErrorCode.NONE), 5),
    Frame(Ping(0), 6),
    Frame(PingResponse((Offset("t", "0", 9),)), 6),
]
"""What a consumer and a coordinator of `002` say to each other, in both forms."""

OF_THE_CONSUMER = (Consult, type(REGISTER), PingResponse, StartResponse)


@pytest.mark.parametrize("form", Form)
def test_both_sides_of_a_conversation_understand_each_other(form: Form) -> None:
    """A whole dialogue, each frame read as it was meant, although responses may carry no type."""
    consumer, coordinator = Conversation(form), Conversation()
    for frame in DIALOGUE:
        mine = isinstance(frame.message, OF_THE_CONSUMER)
        sender, receiver = (consumer, coordinator) if mine else (coordinator, consumer)
        (read,) = receiver.feed(sender.encode(frame))
        if isinstance(frame.message, type(REGISTER)):
            assert isinstance(read.message, type(REGISTER))
            assert read.message.group_id == frame.message.group_id
        else:
            assert read.message == frame.message
    assert consumer.legacy == coordinator.legacy == (form is Form.LEGACY)


def test_a_legacy_response_has_its_request_s_correlation_id() -> None:
    """In the legacy form a response is given the correlation id of the request it answers."""
    coordinator = Conversation(Form.LEGACY)
    coordinator.encode(Frame(Ping(0), 41))
    coordinator.encode(Frame(Start(()), 42))
    data = legacy.encode(PingResponse(None)) + legacy.encode(StartResponse(ErrorCode.ILLEGAL_STATE))

    assert list(coordinator.feed(data)) == [
        Frame(PingResponse(None), 41),
        Frame(StartResponse(ErrorCode.ILLEGAL_STATE), 42, error=ErrorCode.ILLEGAL_STATE),
    ]


def test_a_repeated_legacy_ping_is_no_new_request() -> None:
    """A retry of a ping renews no lease: in the legacy form, too, it keeps its request's number."""
    consumer = Conversation(Form.LEGACY)
    asked: list[Request] = [Ping(0), Ping(1), Ping(2), Ping(0), Stop()]
    read = consumer.feed(b"".join(legacy.encode(request) for request in asked))
    assert [frame.correlation_id for frame in read] == [1, 1, 1, 2, 3]


def test_a_frame_beyond_the_limit_is_not_sent() -> None:
    """A frame that the peer would refuse for its size is not sent: the error names the setting."""
    message = Start((Offset("t", "0", 5),) * 10)
    for form in Form:
        conversation = Conversation(form, max_frame_bytes=100)
        with pytest.raises(Unsendable, match=r"Start: a frame of .*the setting max_frame_bytes"):
            conversation.encode(Frame(message, 7))
        assert next(conversation.feed(conversation.encode(Frame(Stop(), 8)))).message == Stop()


def test_a_malformed_frame_is_answered_in_its_form() -> None:
    """The answer to a bad frame is in the form of its connection: an error and nothing else."""
    for form, bad, answer in (
        (Form.VERSION_1, VERSION_1["Stop"][1], "00 00 00 17 01 03 ec 00 01 00 00 00 05 00 06"),
        (Form.LEGACY, LEGACY["Stop"][1], "00 00 00 02 00 06"),
    ):
        conversation = Conversation()
        with pytest.raises(WireError) as caught:
            list(conversation.feed(version1.sized(bad[4:] + b"\0")))
        assert conversation.form is form
        assert conversation.refusal(caught.value).hex(" ").startswith(answer)


def test_a_malformed_legacy_response_is_not_answered() -> None:
    """In the legacy form, too, a response that cannot be read is answered by nothing."""
    conversation = Conversation(Form.LEGACY)
    conversation.encode(Frame(Start(()), 1))
    with pytest.raises(WireError, match="StartResponse") as caught:
        list(conversation.feed(from_hex("00 00 00 01 00")))
    assert conversation.refusal(caught.value) == b""


def test_a_refused_registration_is_told_in_both_forms() -> None:
    """A refused Register is answered in both forms, though `002` has no RegisterResponse."""
    refusal = Frame(RegisterResponse(ErrorCode.FENCED_FORM_REQUIRED), 2)
    assert Conversation(Form.VERSION_1).encode(refusal) == version1.encode(refusal)
    assert Conversation(Form.LEGACY).encode(refusal) == from_hex("00 00 00 02 00 09")


@given(
    st.lists(st.binary(max_size=60) | st.binary(max_size=60).map(version1.sized), max_size=4),
    st.sampled_from([None, *Form]),
)
def test_a_conversation_survives_any_stranger(data: list[bytes], form: Form | None) -> None:
    """Whatever comes, what is raised is a `WireError`, and it can be answered."""
    conversation = Conversation(form)
    if form:
        conversation.encode(Frame(Ping(0), 1))
    read: list[Frame] = []
    told = True
    try:
        for piece in data:
            read.extend(conversation.feed(piece))
        conversation.eof()
    except WireError as error:
        answer = conversation.refusal(error)
        told = bool(answer) == error.answerable and len(answer) in (0, 6, 27)
    assert told
    assert all(isinstance(frame, Frame) for frame in read)


def test_nobody_says_more_than_twice_what_it_was_told() -> None:
    """What a peer names is bounded by what it was given; never by less than a Register takes."""
    member = Conversation(Form.VERSION_1)
    named = tuple(Offset("a-topic", str(number), 0) for number in range(400))
    commit = member.encode(Frame(Commit(named), 1, 1, 1))
    coordinator = Conversation(Form.VERSION_1, unasked_bytes=len(commit) // 4)
    with pytest.raises(WireError, match="are the limit"):
        list(Conversation(Form.VERSION_1, unasked_bytes=len(commit) // 4).feed(commit))

    coordinator.encode(Frame(Start(named[:200]), 1, 1, 1))

    assert [frame.message for frame in coordinator.feed(commit)] == [Commit(named)]
    coordinator.encode(Frame(Ping(0), 2, 1, 1))  # what was given once may still be spoken of
    assert [frame.message for frame in coordinator.feed(commit)] == [Commit(named)]
