"""
The connections of the coordinator's wire: bytes in, frames out, and the limits that a peer meets.

A `ServerChannel` is one connection. It decides nothing about the protocol; it gives its owner whole
frames, in order, and it ends a connection on which none can come or go: a frame that cannot be
read is answered by an error and the connection closed; a frame that does not become whole, a first
frame that does not come, and answers that are not read, end it too. No connection's trouble is
another one's: what a peer floods is taken in portions, between which others have their turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from herdproof.protocols.central_coordinator.wire.conversation import Conversation
from herdproof.protocols.central_coordinator.wire.errors import FrameError, Unsendable, WireError
from herdproof.protocols.central_coordinator.wire.messages import Frame
from herdproof.shells.configuration import Listener
from herdproof.shells.connections import LimitedConnection
from herdproof.who_listens import stranger

PORTION = 64
"""Number of frames of one connection that are taken before others have their turn."""

UNASKED_BYTES = 64 * 1024
"""The most of a frame that speaks of nothing that this peer was told: twice a Register."""

NONE: Iterator[Frame] = iter(())
"""The frames of whoever has sent none: what is kept of 10,000 is looked through for garbage."""


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


class ServerChannel(LimitedConnection):
    """One connection of the coordinator's wire."""

    def __init__(self, owner: ChannelOwner, limits: Listener) -> None:
        super().__init__(limits)
        self._owner = owner
        self._conversation = Conversation(None, limits.max_frame_bytes, UNASKED_BYTES)
        self._frames = NONE
        self._is_paused = False
        """No more is read before all that came is taken."""
        self._first = b""
        """First bytes that came, as far as they tell who speaks."""

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

    # ── What the loop tells ─────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if not self._ended:
            self._first = self._first or data[:8]
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

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    def _take(self) -> None:
        """Take a portion of the frames that are there; the next one in the loop's next round."""
        try:
            for _ in range(PORTION):
                frame = next(self._frames, None)
                if frame is None:
                    self._all_taken()
                    return
                if self._deadline is not None:
                    self._give_up_deadline()
                self._owner.received(self, frame, self._conversation.legacy)
                if self._ended:
                    return
        except WireError as error:
            self._refuse(error)
            return
        self._is_paused = True
        self._transport.pause_reading()
        self._loop.call_soon(self._take_the_rest)

    def _all_taken(self) -> None:
        """All frames that are there are taken: more may come."""
        self._frames = NONE
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        if self._deadline is None and self._conversation.begun:
            self._watch_the_begun_frame()

    def _take_the_rest(self) -> None:
        """Go on, unless the connection has ended meanwhile."""
        if not self._ended:
            self._take()

    def _refuse(self, error: WireError) -> None:
        """Answer what cannot be read, and close."""
        answer = self._conversation.refusal(error, self._owner.epoch)
        if answer:
            self._transport.write(answer)
        self._cut(stranger(self._first) or "malformed frame", error)

    @property
    def _begun(self) -> bool:
        return self._conversation.begun

    def _tell_opened(self) -> None:
        self._owner.opened(self)

    def _tell_cut(self, reason: str, error: FrameError | None) -> None:
        self._owner.cut(self, reason, error)

    def _tell_closed(self) -> None:
        self._owner.closed(self)
