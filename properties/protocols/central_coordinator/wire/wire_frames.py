"""Frames of the wire for the suites: golden bytes, written by hand, and arbitrary messages."""

from __future__ import annotations

import re

from hypothesis import strategies as st
from msgspec.structs import replace

from herdproof.consuming.offsets import Offset, OffsetReset
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

REGISTER = Register(
    group_id="g",
    consumer_id="c1",
    topic_count='{"t":1}',
    auto_commit=True,
    auto_offset_reset=OffsetReset.SMALLEST,
    ping_interval_ms=3000,
    max_ping_retries=3,
    session_timeout_ms=10_000,
)
BROKER = BrokerInfo("a", 2, "h", 9000)
OFFSET = Offset("t", "0", 5)
UNICODE = Offset("ü", "12", -1)


def from_hex(text: str) -> bytes:
    """The bytes of a commented dump: what follows a # on a line says what they are."""
    return bytes.fromhex(re.sub(r"#.*", "", text))


REGISTER_BODY = """
    00 01 67                       # group_id "g"
    00 02 63 31                    # consumer_id "c1"
    00 07 7b 22 74 22 3a 31 7d     # topic_count {"t":1}
    01                             # auto_commit
    00 08 73 6d 61 6c 6c 65 73 74  # auto_offset_reset "smallest"
    00 00 0b b8                    # ping_interval_ms 3000
    00 03                          # max_ping_retries
"""
BROKERS = """
    00 00 00 01                    # one broker
    00 01 61                       # creator_id "a"
    00 00 00 02                    # id 2
    00 01 68                       # host "h"
    00 00 23 28                    # port 9000
"""
OFFSET_BYTES = """
    00 01 74                       # topic "t"
    00 01 30                       # partition "0"
    00 00 00 00 00 00 00 05        # offset 5
"""
UNICODE_BYTES = """
    00 02 c3 bc                    # topic "ü"
    00 02 31 32                    # partition "12"
    ff ff ff ff ff ff ff ff        # offset -1: none stored
"""

# Frames of version 1. After the size (int32): direction, type id, version, correlation id; then
# "client_id" of a request or the error of a response; epoch (int64), generation (int32); body.

VERSION_1: dict[str, tuple[Frame, bytes]] = {
    "Consult": (
        Frame(Consult(), correlation_id=1, client_id="c1"),
        from_hex("""
            00 00 00 19
            00 03 e8 00 01 00 00 00 01      # request, 1000, version 1, correlation 1
            00 02 63 31                     # client_id "c1"
            00 00 00 00 00 00 00 00         # epoch
            00 00 00 00                     # generation
        """),
    ),
    "ConsultResponse": (
        Frame(ConsultResponse(ErrorCode.NONE, 2, (BROKER,)), correlation_id=1, epoch=258),
        from_hex(f"""
            00 00 00 2b
            01 03 e8 00 01 00 00 00 01      # response, 1000, version 1, correlation 1
            00 00                           # error
            00 00 00 00 00 00 01 02         # epoch 258
            00 00 00 00                     # generation
            00 02                           # coordinator_id 2
            {BROKERS}
        """),
    ),
    "ConsultResponse, none known": (
        Frame(
            ConsultResponse(ErrorCode.NOT_COORDINATOR, NO_COORDINATOR, ()),
            correlation_id=2**31 - 1,
            error=ErrorCode.NOT_COORDINATOR,
        ),
        from_hex("""
            00 00 00 1d
            01 03 e8 00 01 7f ff ff ff
            00 01                           # error 1
            00 00 00 00 00 00 00 00
            00 00 00 00
            ff ff                           # coordinator_id -1
            00 00 00 00                     # no broker
        """),
    ),
    "Register": (
        Frame(REGISTER, correlation_id=2, epoch=258, client_id="c1"),
        from_hex(f"""
            00 00 00 3e
            00 03 e9 00 01 00 00 00 02      # request, 1001, version 1, correlation 2
            00 02 63 31
            00 00 00 00 00 00 01 02         # epoch 258: the latest that the consumer has seen
            00 00 00 00
            {REGISTER_BODY}
            00 00 27 10                     # session_timeout_ms 10000
        """),
    ),
    "Register, version 2": (
        Frame(replace(REGISTER, former=("3-1", "4-2")), correlation_id=2, client_id="c1"),
        from_hex(f"""
            00 00 00 4c
            00 03 e9 00 02 00 00 00 02      # request, 1001, version 2, correlation 2
            00 02 63 31
            00 00 00 00 00 00 00 00
            00 00 00 00
            {REGISTER_BODY}
            00 00 27 10                     # session_timeout_ms 10000
            00 00 00 02                     # two former registrations
            00 03 33 2d 31                  # "3-1"
            00 03 34 2d 32                  # "4-2"
        """),
    ),
    "Register, version 3": (
        Frame(
            replace(REGISTER, former=(), resumes="3-1"),
            correlation_id=2,
            epoch=258,
            generation=7,
            client_id="c1",
        ),
        from_hex(f"""
            00 00 00 47
            00 03 e9 00 03 00 00 00 02      # request, 1001, version 3, correlation 2
            00 02 63 31
            00 00 00 00 00 00 01 02
            00 00 00 07                     # generation 7: that in which it consumes
            {REGISTER_BODY}
            00 00 27 10                     # session_timeout_ms 10000
            00 00 00 00                     # no former registrations
            00 03 33 2d 31                  # "3-1" goes on
        """),
    ),
    "Register, version 4": (
        Frame(
            replace(REGISTER, former=("3-1",), brought=(Brought("3-1", 7, (OFFSET,)),)),
            correlation_id=2,
            epoch=258,
            client_id="c1",
        ),
        from_hex(f"""
            00 00 00 66
            00 03 e9 00 04 00 00 00 02      # request, 1001, version 4, correlation 2
            00 02 63 31
            00 00 00 00 00 00 01 02
            00 00 00 00
            {REGISTER_BODY}
            00 00 27 10                     # session_timeout_ms 10000
            00 00 00 01                     # one former registration
            00 03 33 2d 31                  # "3-1"
            00 00 00 01                     # of one is said where it stopped
            00 03 33 2d 31                  # "3-1"
            00 00 00 07                     # in generation 7
            00 00 00 01                     # one offset
            {OFFSET_BYTES}
        """),
    ),
    "RegisterResponse, version 2": (
        Frame(RegisterResponse(ErrorCode.NONE, "5-1"), correlation_id=2, epoch=258),
        from_hex("""
            00 00 00 1c
            01 03 e9 00 02 00 00 00 02      # response, 1001, version 2, correlation 2
            00 00                           # error
            00 00 00 00 00 00 01 02
            00 00 00 00
            00 03 35 2d 31                  # member "5-1"
        """),
    ),
    "RegisterResponse": (
        Frame(
            RegisterResponse(ErrorCode.GROUP_FULL),
            correlation_id=2,
            epoch=258,
            generation=7,
            error=ErrorCode.GROUP_FULL,
        ),
        from_hex("""
            00 00 00 17
            01 03 e9 00 01 00 00 00 02
            00 04                           # error 4
            00 00 00 00 00 00 01 02
            00 00 00 07                     # generation 7
        """),
    ),
    "Commit": (
        Frame(Commit((OFFSET,)), correlation_id=3, epoch=258, generation=7, client_id="c1"),
        from_hex(f"""
            00 00 00 2b
            00 03 ea 00 01 00 00 00 03      # request, 1002
            00 02 63 31
            00 00 00 00 00 00 01 02
            00 00 00 07
            00 00 00 01                     # one offset
            {OFFSET_BYTES}
        """),
    ),
    "CommitResponse": (
        Frame(
            CommitResponse(ErrorCode.STALE_GENERATION),
            correlation_id=3,
            epoch=258,
            generation=8,
            error=ErrorCode.STALE_GENERATION,
        ),
        from_hex("""
            00 00 00 17
            01 03 ea 00 01 00 00 00 03
            00 08                           # error 8
            00 00 00 00 00 00 01 02
            00 00 00 08
        """),
    ),
    "Ping": (
        Frame(Ping(2), correlation_id=-2, epoch=258, generation=7, client_id="k"),
        from_hex("""
            00 00 00 1a
            00 03 eb 00 01 ff ff ff fe      # request, 1003, version 1, correlation -2
            00 01 6b                        # client_id "k"
            00 00 00 00 00 00 01 02
            00 00 00 07
            00 02                           # num_retries 2
        """),
    ),
    "PingResponse without offsets": (
        Frame(PingResponse(None), correlation_id=4, epoch=258, generation=7),
        from_hex("""
            00 00 00 17
            01 03 eb 00 01 00 00 00 04
            00 00
            00 00 00 00 00 00 01 02
            00 00 00 07
        """),
    ),
    "PingResponse of no partition": (
        Frame(PingResponse(()), correlation_id=4, epoch=258, generation=7),
        from_hex("""
            00 00 00 1b
            01 03 eb 00 01 00 00 00 04
            00 00
            00 00 00 00 00 00 01 02
            00 00 00 07
            00 00 00 00                     # no offset
        """),
    ),
    "PingResponse": (
        Frame(PingResponse((OFFSET,)), correlation_id=4, epoch=258, generation=7),
        from_hex(f"""
            00 00 00 29
            01 03 eb 00 01 00 00 00 04
            00 00
            00 00 00 00 00 00 01 02
            00 00 00 07
            00 00 00 01
            {OFFSET_BYTES}
        """),
    ),
    "PingResponse that refuses": (
        Frame(PingResponse(None), correlation_id=4, epoch=259, error=ErrorCode.STALE_EPOCH),
        from_hex("""
            00 00 00 17
            01 03 eb 00 01 00 00 00 04
            00 03                           # error 3
            00 00 00 00 00 00 01 03         # epoch 259
            00 00 00 00
        """),
    ),
    "Stop": (
        Frame(Stop(), correlation_id=5, epoch=258, generation=7),
        from_hex("""
            00 00 00 17
            00 03 ec 00 01 00 00 00 05      # request, 1004
            00 00                           # client_id ""
            00 00 00 00 00 00 01 02
            00 00 00 07
        """),
    ),
    "StopResponse without offsets": (
        Frame(StopResponse(None), correlation_id=5, epoch=258, generation=7),
        from_hex("""
            00 00 00 17
            01 03 ec 00 01 00 00 00 05
            00 00
            00 00 00 00 00 00 01 02
            00 00 00 07
        """),
    ),
    "StopResponse": (
        Frame(StopResponse((OFFSET, UNICODE)), correlation_id=5, epoch=258, generation=7),
        from_hex(f"""
            00 00 00 39
            01 03 ec 00 01 00 00 00 05
            00 00
            00 00 00 00 00 00 01 02
            00 00 00 07
            00 00 00 02                     # two offsets
            {OFFSET_BYTES} {UNICODE_BYTES}
        """),
    ),
    "Start": (
        Frame(Start((OFFSET, UNICODE)), correlation_id=6, epoch=258, generation=8),
        from_hex(f"""
            00 00 00 39
            00 03 ed 00 01 00 00 00 06      # request, 1005
            00 00
            00 00 00 00 00 00 01 02
            00 00 00 08
            00 00 00 02                     # two partitions
            {OFFSET_BYTES} {UNICODE_BYTES}
        """),
    ),
    "StartResponse": (
        Frame(
            StartResponse(ErrorCode.ILLEGAL_STATE),
            correlation_id=6,
            epoch=258,
            generation=8,
            error=ErrorCode.ILLEGAL_STATE,
        ),
        from_hex("""
            00 00 00 17
            01 03 ed 00 01 00 00 00 06
            00 0a                           # error 10
            00 00 00 00 00 00 01 02
            00 00 00 08
        """),
    ),
    "Leave": (
        Frame(Leave(), correlation_id=7, epoch=258, generation=8, client_id="c1"),
        from_hex("""
            00 00 00 19
            00 03 ee 00 01 00 00 00 07      # request, 1006
            00 02 63 31
            00 00 00 00 00 00 01 02
            00 00 00 08
        """),
    ),
    "LeaveResponse": (
        Frame(LeaveResponse(ErrorCode.NONE), correlation_id=7, epoch=258, generation=8),
        from_hex("""
            00 00 00 17
            01 03 ee 00 01 00 00 00 07
            00 00
            00 00 00 00 00 00 01 02
            00 00 00 08
        """),
    ),
    "LeaveResponse to nobody's": (
        Frame(
            LeaveResponse(ErrorCode.NOT_REGISTERED),
            correlation_id=7,
            epoch=258,
            error=ErrorCode.NOT_REGISTERED,
        ),
        from_hex("""
            00 00 00 17
            01 03 ee 00 01 00 00 00 07
            00 07                           # error 7
            00 00 00 00 00 00 01 02
            00 00 00 00
        """),
    ),
}

LEGACY: dict[str, tuple[Message, bytes]] = {
    "Consult": (Consult(), from_hex("00 00 00 02 03 e8")),
    "ConsultResponse": (
        ConsultResponse(ErrorCode.NONE, 2, (BROKER,)),
        from_hex(f"00 00 00 16 00 00 00 02 {BROKERS}"),
    ),
    "Register": (
        Register(
            group_id="g",
            consumer_id="c1",
            topic_count='{"t":1}',
            auto_commit=True,
            auto_offset_reset=OffsetReset.SMALLEST,
            ping_interval_ms=3000,
            max_ping_retries=3,
            session_timeout_ms=0,
        ),
        from_hex(f"00 00 00 23 03 e9 {REGISTER_BODY}"),
    ),
    "Ping": (Ping(2), from_hex("00 00 00 04 03 eb 00 02")),
    "PingResponse without offsets": (PingResponse(None), from_hex("00 00 00 00")),
    "PingResponse of no partition": (PingResponse(()), from_hex("00 00 00 02 00 00")),
    "PingResponse": (
        PingResponse((OFFSET,)),
        from_hex(f"00 00 00 10 00 01 {OFFSET_BYTES}"),
    ),
    "Stop": (Stop(), from_hex("00 00 00 02 03 ec")),
    "Start": (
        Start((OFFSET, UNICODE)),
        from_hex(f"00 00 00 22 03 ed 00 02 {OFFSET_BYTES} {UNICODE_BYTES}"),
    ),
    "StartResponse": (StartResponse(ErrorCode.ILLEGAL_STATE), from_hex("00 00 00 02 00 0a")),
}

# ── Arbitrary messages ──────────────────────────────────────────────────────────────────────

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
errors = st.sampled_from(ErrorCode)
int16s = st.integers(0, 2**15 - 1)
milliseconds = st.integers(1, 2**31 - 1)
offsets = st.lists(st.builds(Offset, texts, texts, st.integers(-1, 2**63 - 1)), max_size=5).map(
    tuple
)
brokers = st.lists(
    st.builds(
        BrokerInfo, texts, st.integers(-(2**31), 2**31 - 1), texts, st.integers(0, 2**16 - 1)
    ),
    max_size=3,
).map(tuple)

registers = st.builds(
    Register,
    texts,
    texts,
    texts,
    st.booleans(),
    st.sampled_from(OffsetReset),
    milliseconds,
    int16s,
    milliseconds,
    st.none() | st.lists(texts, max_size=3).map(tuple),
)
brought = st.lists(
    st.builds(Brought, texts, st.integers(1, 2**31 - 1), offsets), max_size=3
).map(tuple)  # fmt: skip
later = st.one_of(
    st.just({}),
    st.builds(lambda name: {"former": (), "resumes": name}, texts),
    st.builds(lambda some: {"former": ("3-1",), "brought": some}, brought),
)
"""Fields of a Register of version 3, or of version 4."""

requests = st.one_of(
    st.just(Consult()),
    st.builds(lambda register, more: replace(register, **more), registers, later),
    st.builds(Commit, offsets),
    st.builds(Ping, int16s),
    st.just(Stop()),
    st.builds(Start, offsets),
    st.just(Leave()),
)
coded_responses = st.one_of(
    st.builds(ConsultResponse, errors, st.integers(-1, 2**15 - 1), brokers),
    st.builds(RegisterResponse, errors, st.none() | texts),
    st.builds(CommitResponse, errors),
    st.builds(StartResponse, errors),
    st.builds(LeaveResponse, errors),
)
other_responses = st.one_of(
    st.builds(PingResponse, st.none() | offsets), st.builds(StopResponse, st.none() | offsets)
)

_header = {
    "correlation_id": st.integers(-(2**31), 2**31 - 1),
    "epoch": st.integers(-(2**63), 2**63 - 1),
    "generation": st.integers(-(2**31), 2**31 - 1),
}
frames = st.one_of(
    st.builds(Frame, requests, **_header, client_id=texts),
    coded_responses.flatmap(
        lambda message: st.builds(
            Frame, st.just(message), **_header, error=st.just(message.error_code)
        )
    ),
    st.builds(Frame, other_responses, **_header, error=errors),
)
"""Frames as `version1.decode` gives them: the error of a body is the frame's, too."""
