"""
The connections of the coordinator's wire: bytes in, frames out, and the limits that a peer meets.

A `ServerChannel` is one connection. It decides nothing about the protocol; it gives its owner whole
frames, in order, and it ends a connection on which none can come or go: a frame that cannot be
read is answered by an error and the connection closed; a frame that does not become whole, a first
frame that does not come, and answers that are not read, end it too. No connection's trouble is
another one's: what a peer floods is taken in portions, between which others have their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

from herdproof.protocols.central_coordinator.server.configuration import Listener
from herdproof.protocols.central_coordinator.wire.conversation import Conversation
from herdproof.protocols.central_coordinator.wire.errors import FrameError, Unsendable, WireError
from herdproof.protocols.central_coordinator.wire.messages import Frame

PORTION = 64
"""How many frames of one connection are taken before others have their turn."""


class ChannelOwner(Protocol):
    """Whose the channels are."""

    @property
    def epoch(self) -> int:
        """The epoch to say in an error frame; 0 if it does not lead."""

    def opened(self, channel: ServerChannel) -> None:
        """A connection came: it gets its number, or is ended at once."""

    def received(self, channel: ServerChannel, frame: Frame, legacy: bool) -> None:
        """A frame came."""

    def cut(self, channel: ServerChannel, reason: str, error: FrameError | None) -> None:
        """The channel itself ends the connection, for this reason (a word or two)."""

    def closed(self, channel: ServerChannel) -> None:
        """The connection is over; told last, and once, of each that was opened."""


class ServerChannel(asyncio.Protocol):
    """One connection; `number` is what its owner calls it."""

    def __init__(self, owner: ChannelOwner, limits: Listener) -> None:
        self.number = 0
        self.peer = ""
        self._owner = owner
        self._limits = limits
        self._conversation = Conversation(max_frame_bytes=limits.max_frame_bytes)
        self._frames: Iterator[Frame] = iter(())
        self._deadline: asyncio.TimerHandle | None = None
        self._ended = False
        """Nothing is taken or sent any more."""
        self._over = False
        """The transport is gone."""

    # ── What the owner asks for ─────────────────────────────────────────────────────────────

    def send(self, frame: Frame) -> bool:
        """Send a frame; False, and the connection is ended, if it cannot be said to this peer."""
        if self._ended:
            return False
        try:
            self._transport.write(self._conversation.encode(frame))
        except Unsendable as error:
            self._cut("unsendable", error)
            return False
        return True

    def close(self) -> None:
        """End the connection once what was sent on it is sent, or `close_timeout_ms` are over."""
        if self._ended:
            return
        self._ended = True
        self._give_up_deadline()
        self._transport.close()
        self._deadline = self._after(self._limits.close_timeout_ms, self._transport.abort)

    def abort(self) -> None:
        """End the connection now, if it is not over."""
        self._ended = True
        if not self._over:
            self._transport.abort()

    # ── What the loop tells ─────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self.peer = "{}:{}".format(*(transport.get_extra_info("peername") or ("?", "?"))[:2])
        transport.set_write_buffer_limits(high=self._limits.max_unsent_bytes)
        self._deadline = self._after(self._limits.frame_timeout_ms, self._silent)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if not self._ended:
            self._frames = self._conversation.feed(data)
            self._take()

    def eof_received(self) -> bool:
        """The peer sends no more; what was begun is lost. False: the transport is to close."""
        if not self._ended:
            try:
                self._conversation.eof()
            except WireError as error:
                self._refuse(error)
        return False

    def pause_writing(self) -> None:
        """More is unsent than is allowed: the peer does not read."""
        if not self._ended:
            self._cut("slow reader", None)
        self._transport.abort()

    def connection_lost(self, _why: Exception | None) -> None:
        """The connection is over, whoever ended it."""
        self._ended = self._over = True
        self._give_up_deadline()
        self._owner.closed(self)

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    def _take(self) -> None:
        """Take a portion of the frames that are there; the next one in the loop's next round."""
        try:
            for _ in range(PORTION):
                frame = next(self._frames, None)
                if frame is None:
                    self._transport.resume_reading()
                    self._watch_the_begun_frame()
                    return
                self._give_up_deadline()
                self._owner.received(self, frame, self._conversation.legacy)
                if self._ended:
                    return
        except WireError as error:
            self._refuse(error)
            return
        self._transport.pause_reading()
        self._loop.call_soon(self._take_the_rest)

    def _take_the_rest(self) -> None:
        """Go on, unless the connection has ended meanwhile."""
        if not self._ended:
            self._take()

    def _watch_the_begun_frame(self) -> None:
        """A frame that was begun has to become whole in time."""
        if self._deadline is None and self._conversation.begun:
            self._deadline = self._after(self._limits.frame_timeout_ms, self._silent)

    def _silent(self) -> None:
        """A first frame did not come, or a frame did not become whole."""
        self._deadline = None
        self._cut("no whole frame in time", None)

    def _refuse(self, error: WireError) -> None:
        """Answer what cannot be read, and close."""
        answer = self._conversation.refusal(error, self._owner.epoch)
        if answer:
            self._transport.write(answer)
        self._cut("malformed frame", error)

    def _cut(self, reason: str, error: FrameError | None) -> None:
        """End the connection for a reason of this end's own."""
        self.close()
        self._owner.cut(self, reason, error)

    def _after(self, milliseconds: int, what: object) -> asyncio.TimerHandle:
        return self._loop.call_later(milliseconds / 1000, what)  # type: ignore[arg-type]

    def _give_up_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
