"""The connections of the coordinator's wire, on loopback: what a peer can do, and cannot."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import struct
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.server.channels import ServerChannel
from herdproof.protocols.central_coordinator.wire import legacy, version1
from herdproof.protocols.central_coordinator.wire.conversation import Conversation
from herdproof.protocols.central_coordinator.wire.errors import FrameError
from herdproof.protocols.central_coordinator.wire.framing import Form
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    Consult,
    ErrorCode,
    Frame,
    Ping,
)
from herdproof.shells.configuration import Listener

SIZE = struct.Struct(">i")
REFUSAL = struct.Struct(">ibhhihqi")
"""An error frame: size, direction, type, version, correlation id, error, epoch, generation."""
CONSULT = version1.encode(Frame(Consult(), correlation_id=5))
PATIENCE_S = 10.0
"""How long a test waits for what must come; only a failing test waits that long."""


Told = tuple[object, ...]


def say_nothing(channel: ServerChannel, frame: Frame) -> object:
    """How an owner answers a frame where the test does not say it."""


@dataclass
class Owner:
    """Whose the channels are: it writes down what it is told, and answers as the test says."""

    epoch: int = 3
    channels: list[ServerChannel] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    answer: Callable[[ServerChannel, Frame], object] = say_nothing

    def opened(self, channel: ServerChannel) -> None:
        """It gets a number."""
        self.channels.append(channel)
        channel.number = len(self.channels)

    def received(self, channel: ServerChannel, frame: Frame, legacy: bool) -> None:
        """Write it down."""
        self.told.append((channel.number, frame, legacy))
        self.answer(channel, frame)

    def cut(self, channel: ServerChannel, reason: str, error: FrameError | None) -> None:
        """Write it down."""
        self.told.append((channel.number, reason, error.code if error else None))

    def closed(self, channel: ServerChannel) -> None:
        """Write it down."""
        self.told.append((channel.number, "closed"))

    async def eventually(self, *told: Told) -> None:
        """Wait until exactly this was told, and fail if that takes too long."""
        with contextlib.suppress(AssertionError):
            await self.have_been_told(len(told))
        assert self.told == list(told)

    async def have_been_told(self, number: int) -> None:
        """Wait until so much was told, and fail if that takes too long."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while len(self.told) < number and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.002)
        assert len(self.told) >= number


@dataclass
class Peer:
    """Who connects."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        """Send some bytes."""
        self.writer.write(data)

    async def read(self, size: int) -> bytes:
        """So many bytes that were sent to it."""
        return await asyncio.wait_for(self.reader.readexactly(size), PATIENCE_S)

    async def frames_until_eof(self) -> list[Frame]:
        """What the server still says before it closes the connection."""
        data = await asyncio.wait_for(self.reader.read(), PATIENCE_S)
        return list(Conversation(Form.VERSION_1).feed(data))

    async def refusal(self) -> tuple[int, ErrorCode, int]:
        """The correlation id, error and epoch of the last frame before the connection's end."""
        data = await asyncio.wait_for(self.reader.read(), PATIENCE_S)
        size, direction, _, _, correlation_id, error, epoch, _ = REFUSAL.unpack(data)
        assert (size, direction) == (REFUSAL.size - 4, 1)
        return correlation_id, ErrorCode(error), epoch


@dataclass
class Stage:
    """A port whose connections are the owner's channels, and those who connect to it."""

    port: int
    owner: Owner
    peers: list[Peer] = field(default_factory=list)

    async def connect(self) -> Peer:
        """Connect once more."""
        self.peers.append(Peer(*await asyncio.open_connection("127.0.0.1", self.port)))
        return self.peers[-1]


def on_loopback(scene: Callable[[Stage], Awaitable[None]], limits: Listener | None = None) -> None:
    """Play a scene under these limits, and tidy up."""

    async def play() -> None:
        """What the loop runs."""
        owner = Owner()
        server = await asyncio.get_running_loop().create_server(
            lambda: ServerChannel(owner, limits or Listener()), "127.0.0.1", 0
        )
        stage = Stage(server.sockets[0].getsockname()[1], owner)
        try:
            await asyncio.wait_for(scene(stage), 3 * PATIENCE_S)
        finally:
            server.close()
            for channel in owner.channels:
                channel.abort()
            for peer in stage.peers:
                peer.writer.transport.abort()
                with contextlib.suppress(OSError):
                    await peer.writer.wait_closed()

    asyncio.run(play())


def test_frames_go_both_ways_in_order() -> None:
    """What a peer sends arrives in order, however it is cut; what is sent arrives there."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        owner.answer = lambda channel, frame: channel.send(Frame(Ping(frame.correlation_id)))
        peer = await stage.connect()
        for correlation_id in range(1, 4):
            for byte in version1.encode(Frame(Consult(), correlation_id)):
                peer.send(bytes([byte]))
                await peer.writer.drain()

        data = await peer.read(3 * len(version1.encode(Frame(Ping(1)))))

        assert [f.message for f in Conversation(Form.VERSION_1).feed(data)] == [
            Ping(1),
            Ping(2),
            Ping(3),
        ]
        assert owner.told == [(1, Frame(Consult(), n), False) for n in range(1, 4)]
        peer.writer.close()
        await owner.eventually(*owner.told, (1, "closed"))

    on_loopback(scene)


def test_a_peer_of_the_legacy_form_is_told_as_one() -> None:
    """The form of the first frame is the form of the connection, and the owner is told."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        peer = await stage.connect()
        peer.send(legacy.encode(Consult()))
        await owner.eventually((1, Frame(Consult(), 1), True))

    on_loopback(scene)


GARBAGE = {
    "a negative size": SIZE.pack(-1),
    "an oversized frame": SIZE.pack(2**30),
    "an empty frame": SIZE.pack(0),
    "an unknown version": CONSULT[:7] + b"\x00\x63" + CONSULT[9:],
    "an unknown type": CONSULT[:5] + b"\x7f\x7f" + CONSULT[7:],
    "trailing bytes": SIZE.pack(len(CONSULT) - 3) + CONSULT[4:] + b"?",
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
}


GARBAGE_IS = {
    "an unknown version": ErrorCode.UNKNOWN_VERSION,
    "an unknown type": ErrorCode.UNKNOWN_TYPE,
}
"""What is not simply malformed."""
REASONS = {"another protocol": "a client of HTTP"}


@pytest.mark.parametrize("name", GARBAGE)
def test_what_cannot_be_read_is_answered_and_ends_that_connection_alone(name: str) -> None:
    """An error frame with the owner's epoch, then the end; a neighbour notices nothing."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        peer = await stage.connect()
        neighbour = await stage.connect()
        peer.send(GARBAGE[name] + CONSULT)

        _, error, epoch = await peer.refusal()

        assert (error, epoch) == (GARBAGE_IS.get(name, ErrorCode.MALFORMED), 3)
        reason = REASONS.get(name, "malformed frame")
        await owner.eventually((1, reason, error), (1, "closed"))
        neighbour.send(CONSULT)
        await owner.eventually(*owner.told[:2], (2, Frame(Consult(), 5), False))

    on_loopback(scene)


def test_an_error_says_which_request_it_is_about() -> None:
    """Where the frame's head could be read, the error frame carries its correlation id."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        peer = await stage.connect()
        peer.send(GARBAGE["an unknown version"])
        assert (await peer.refusal())[:2] == (5, ErrorCode.UNKNOWN_VERSION)

    on_loopback(scene)


def test_what_came_before_is_taken_and_what_comes_after_is_not() -> None:
    """Good frames before a bad one count; after it nothing of the connection does."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        peer = await stage.connect()
        peer.send(CONSULT + SIZE.pack(-1) + CONSULT)
        await owner.eventually(
            (1, Frame(Consult(), 5), False),
            (1, "malformed frame", ErrorCode.MALFORMED),
            (1, "closed"),
        )

    on_loopback(scene)


def test_a_frame_that_is_cut_off_is_answered() -> None:
    """A peer that stops amid a frame and still listens is told that it was malformed."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        peer = await stage.connect()
        peer.send(CONSULT + CONSULT[:-1])
        peer.writer.write_eof()
        assert (await peer.refusal())[1] is ErrorCode.MALFORMED
        await owner.eventually(
            (1, Frame(Consult(), 5), False),
            (1, "malformed frame", ErrorCode.MALFORMED),
            (1, "closed"),
        )

    on_loopback(scene)


@pytest.mark.parametrize("sent", [b"", CONSULT[:3], CONSULT + CONSULT[:9]], ids=len)
def test_a_frame_has_to_become_whole_in_time(sent: bytes) -> None:
    """Neither silence at the beginning nor half a frame holds a connection for ever."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        peer = await stage.connect()
        peer.send(sent)
        taken = [(1, Frame(Consult(), 5), False)] if len(sent) > len(CONSULT) else []
        await owner.eventually(*taken, (1, "no whole frame in time", None), (1, "closed"))

    on_loopback(scene, Listener(frame_timeout_ms=150))


def test_a_connection_may_be_silent_between_frames() -> None:
    """Who owes no frame is not ended for silence: that is for the core to judge."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        peer = await stage.connect()
        peer.send(CONSULT)
        await owner.eventually((1, Frame(Consult(), 5), False))
        await asyncio.sleep(0.3)
        peer.send(CONSULT)
        await owner.eventually(*[(1, Frame(Consult(), 5), False)] * 2)

    on_loopback(scene, Listener(frame_timeout_ms=100))


def test_a_slow_reader_is_ended_and_others_are_not() -> None:
    """What a peer leaves unread is bounded; beyond that its connection ends, and only that."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        slow = await stage.connect()
        other = await stage.connect()
        slow.send(CONSULT)
        await owner.eventually((1, Frame(Consult(), 5), False))
        large = Frame(Commit((Offset("t" * 30_000, "0", 0),)))
        sent = 0
        while owner.channels[0].send(large):
            sent += 1
            assert sent < 10_000, "nothing bounds what is unsent"
            await asyncio.sleep(0)

        await owner.eventually(owner.told[0], (1, "slow reader", None), (1, "closed"))
        assert owner.channels[1].send(Frame(Ping(0)))
        assert await other.read(8)

    on_loopback(scene, Listener(max_unsent_bytes=100_000))


def test_a_flood_is_taken_in_portions() -> None:
    """Between two portions of a peer's flood another peer's frame is taken."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        flood = await stage.connect()
        other = await stage.connect()
        flood.send(CONSULT * 2_560)
        await flood.writer.drain()
        other.send(CONSULT)
        await owner.have_been_told(2_561)

        numbers = [told[0] for told in owner.told]
        assert numbers.count(1) == 2_560
        assert numbers.index(2) < 2_000

    on_loopback(scene)


def test_a_flood_is_not_read_faster_than_it_is_taken() -> None:
    """What is read and not yet taken is what one reading brings (asyncio: 256 KiB), no more."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        frame = version1.encode(Frame(Commit((Offset("t" * 1_000, "0", 0),))))
        kept: list[int] = []
        owner.answer = lambda channel, _: kept.append(len(channel._conversation._splitter._buffer))
        flood = await stage.connect()
        flood.send(frame * 4_000)
        await owner.have_been_told(4_000)

        assert max(kept) <= 256 * 1024 + len(frame)

    on_loopback(scene)


def test_a_message_that_does_not_fit_the_form_ends_the_connection() -> None:
    """What cannot be said to a peer is not left out silently: its connection ends."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        peer = await stage.connect()
        peer.send(legacy.encode(Consult()))
        await owner.eventually((1, Frame(Consult(), 1), True))

        assert not owner.channels[0].send(Frame(Commit(())))
        assert not owner.channels[0].send(Frame(Ping(0)))

        assert owner.told[1][:2] == (1, "unsendable")
        await owner.eventually(*owner.told[:2], (1, "closed"))

    on_loopback(scene)


def test_a_closed_connection_first_sends_what_was_sent() -> None:
    """To close is not to cut off: what was sent before still arrives; what comes is not taken."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        large = Frame(Commit((Offset("t" * 30_000, "0", 0),) * 30))

        def answer(channel: ServerChannel, frame: Frame) -> None:
            """Much, and then no more."""
            for _ in range(20):
                channel.send(large)
            channel.close()

        owner.answer = answer
        peer = await stage.connect()
        peer.send(CONSULT * 2)

        assert await peer.frames_until_eof() == [large] * 20
        await owner.eventually((1, Frame(Consult(), 5), False), (1, "closed"))

    on_loopback(scene, Listener(max_unsent_bytes=2**30, close_timeout_ms=10_000))


def test_a_closed_connection_that_nobody_reads_is_cut_off_in_the_end() -> None:
    """A peer that does not read what is unsent cannot keep a closed connection open."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        peer = await stage.connect()
        peer.send(CONSULT)
        await owner.eventually((1, Frame(Consult(), 5), False))
        large = Frame(Commit((Offset("t" * 30_000, "0", 0),) * 30))
        for _ in range(20):
            assert owner.channels[0].send(large)

        owner.channels[0].close()

        await owner.eventually((1, Frame(Consult(), 5), False), (1, "closed"))

    on_loopback(scene, Listener(max_unsent_bytes=2**30, close_timeout_ms=100))


@pytest.mark.parametrize(
    ("first", "who"),
    [
        (b"\x00\x00\x00\x0a\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff", "a client of Kafka"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "a client that speaks TLS"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "a client of HTTP"),
    ],
)
def test_who_is_wrong_here_is_said(first: bytes, who: str) -> None:
    """A client that was given this address for another one's: its bytes tell."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        peer = await stage.connect()
        peer.send(first)
        await stage.owner.have_been_told(2)
        assert [told[1] for told in stage.owner.told] == [who, "closed"]

    on_loopback(scene)


def test_a_closed_connection_is_gone_before_anybody_looks_for_garbage() -> None:
    """Whoever connects again and again leaves nothing: old objects are hardly ever looked at."""

    async def scene(stage: Stage) -> None:
        """The scene."""
        owner = stage.owner
        peer = await stage.connect()
        peer.send(CONSULT)
        await owner.have_been_told(1)
        transport = weakref.ref(owner.channels.pop()._transport)
        peer.writer.close()
        await owner.eventually(*owner.told, (1, "closed"))

        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while transport() is not None and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.002)

        assert transport() is None

    gc.disable()
    try:
        on_loopback(scene)
    finally:
        gc.enable()
