"""
The connections of Kafka's wire: frames in, answers out, one at a time and in order.

A client may send as many requests as it likes before the first is answered; the next is looked at
when the one before has its answer, as Kafka does, and some clients insist on it. A connection on
which a request waits, for records or for other members, keeps reading as far as it must to notice
that its client is gone, and keeps little of what comes.
"""

from __future__ import annotations

import time
from typing import Protocol

from herdproof.broker.codec import SIZE
from herdproof.broker.reading import MalformedRequest
from herdproof.broker.settings import KafkaListener
from herdproof.shells.connections import LimitedConnection

PORTION = 64
"""The number of requests of one connection that are answered before others have their turn."""
KEPT_BYTES = 1 << 16
"""The number of bytes that are kept of what comes while a request waits."""


class Door(Protocol):
    """Whose the connections of one port are."""

    def opened(self, connection: KafkaConnection) -> None:
        """A connection came: it gets its number, or is ended at once."""

    def received(self, connection: KafkaConnection, frame: bytes) -> None:
        """A request came; it must be answered by `reply` or `reply_nothing`, now or later."""

    def cut(self, connection: KafkaConnection, reason: str, error: MalformedRequest | None) -> None:
        """The connection was ended by this end, for this reason (a word or two)."""

    def closed(self, connection: KafkaConnection) -> None:
        """The connection is over; told last, and once, of each that was opened."""


class Upstream(Protocol):
    """Where what comes over a connection is forwarded to."""

    def pause(self) -> None:
        """Let no more of an answer come: the client does not read."""

    def resume(self) -> None:
        """Go on."""

    def close(self) -> None:
        """The client is gone."""


class KafkaConnection(LimitedConnection):
    """One connection of Kafka's wire; `upstream` is there if what comes over it is forwarded."""

    def __init__(self, door: Door, limits: KafkaListener) -> None:
        super().__init__(limits)
        self.upstream: Upstream | None = None
        self.active_s = time.monotonic()
        """When something last came or went."""
        self._door = door
        self._buffer = bytearray()
        self._waits = False
        """A request is being answered."""
        self._is_full = False
        """More is unsent than there should be: the client does not read."""
        self._is_taking = False

    @property
    def is_idle(self) -> bool:
        """Tells whether nothing is being answered."""
        return not self._waits

    @property
    def is_over(self) -> bool:
        """Tells whether nothing can be sent any more."""
        return self._ended

    @property
    def host(self) -> str:
        """From where the client came."""
        return self.peer.rpartition(":")[0]

    def reply(self, answer: bytes) -> None:
        """Answer the request that waits; a connection that is over drops it."""
        if not self._ended:
            self._transport.write(answer)
            self.reply_nothing()

    def reply_part(self, part: bytes) -> None:
        """Send a part of an answer; `reply_nothing` follows the last one."""
        if not self._ended:
            self._transport.write(part)

    def reply_nothing(self) -> None:
        """Go on with the next request: the one that waited has its answer, or gets none."""
        self._waits = False
        self.active_s = time.monotonic()
        if not self._is_taking:
            self._take()

    def refuse(self, reason: str, error: MalformedRequest | None = None) -> None:
        """End the connection on a request that has no answer, for this reason (a word or two)."""
        if not self._ended:
            self._cut(reason, error)

    # ── What the loop tells ─────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._ended:
            return
        self._buffer += data
        self.active_s = time.monotonic()
        if not self._waits and not self._is_full:
            self._take()
        elif len(self._buffer) > KEPT_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """The client sends no more. False: the transport is to close."""
        return False

    def pause_writing(self) -> None:
        """The client does not read its answers as they come: it gets no further ones."""
        self._is_full = True
        if self.upstream is not None:
            self.upstream.pause()

    def resume_writing(self) -> None:
        """The client has read."""
        self._is_full = False
        self.active_s = time.monotonic()
        if self.upstream is not None:
            self.upstream.resume()
        if not self._waits:
            self._take()

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    def _take(self) -> None:
        """Take requests as long as each is answered at once; the rest in the loop's next round."""
        if self._ended:
            return
        self._is_taking = True
        try:
            for _ in range(PORTION):
                if self._waits or self._is_full or self._ended:
                    return
                frame = self._next_frame()
                if frame is None:
                    self._transport.resume_reading()
                    self._watch_the_begun_frame()
                    return
                self._give_up_deadline()
                self._waits = True
                self._door.received(self, frame)
        except MalformedRequest as error:
            self.refuse("malformed request", error)
            return
        finally:
            self._is_taking = False
        if not self._waits:
            self._transport.pause_reading()
            self._loop.call_soon(self._take)

    def _next_frame(self) -> bytes | None:
        """Take a whole frame off the buffer; raises `MalformedRequest` if there can be none."""
        buffer = self._buffer
        if len(buffer) < SIZE.size:
            return None
        (size,) = SIZE.unpack_from(buffer)
        if not 0 <= size <= self._limits.max_frame_bytes:
            raise MalformedRequest(
                f"a request of {size} bytes; 0 to {self._limits.max_frame_bytes} can be "
                f"(the setting listener.max_frame_bytes)"
            )
        end = SIZE.size + size
        if len(buffer) < end:
            return None
        with memoryview(buffer) as view:
            frame = bytes(view[SIZE.size : end])
        del buffer[:end]
        return frame

    @property
    def _begun(self) -> bool:
        return bool(self._buffer)

    def _tell_opened(self) -> None:
        self._door.opened(self)

    def _tell_cut(self, reason: str, error: MalformedRequest | None) -> None:
        self._door.cut(self, reason, error)

    def _tell_closed(self) -> None:
        if self.upstream is not None:
            self.upstream.close()
        self._door.closed(self)
