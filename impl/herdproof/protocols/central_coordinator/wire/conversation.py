"""
One connection: bytes in, frames out, and frames in, bytes out, in the form that the peer speaks.

This is what shells use; it has no socket. In version 1 it only goes between frames and bytes. In
the legacy form, where responses carry no type, it remembers what was asked: a frame that comes
while a request of ours is unanswered is taken for its response, any other for a request. That is
no more than a guess if the peer does not keep to it; only version 1 is safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from herdproof.protocols.central_coordinator.wire import legacy, version1
from herdproof.protocols.central_coordinator.wire.errors import WireError
from herdproof.protocols.central_coordinator.wire.framing import (
    MAX_FRAME_BYTES,
    SIZE_BYTES,
    Form,
    Splitter,
    form_of,
)
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode, Frame, Ping, Response
from herdproof.protocols.central_coordinator.wire.primitives import unsendable


class Conversation:
    """
    A connection's two directions.

    `form` is the form spoken; None until the first frame came, which decides it: so for a server.
    Whoever connects says which it speaks. With `unasked_bytes` a peer may say no more than that in
    a frame, and twice what it was told in one: it speaks of the partitions that it was given.
    """

    def __init__(
        self, form: Form | None = None, max_frame_bytes: int = MAX_FRAME_BYTES,
        unasked_bytes: int | None = None,
    ) -> None:  # fmt: skip
        self.form = form
        self._max_frame_bytes = max_frame_bytes
        self._unasked_bytes = max_frame_bytes if unasked_bytes is None else unasked_bytes
        self._splitter = Splitter(min(max_frame_bytes, self._unasked_bytes))
        self._asked: deque[tuple[type[Response], int]] = deque()
        self._requests_read = 0

    @property
    def legacy(self) -> bool:
        """True if the peer speaks the legacy form (`Received.legacy`)."""
        return self.form is Form.LEGACY

    def feed(self, data: bytes) -> Iterator[Frame]:
        """
        Take in some bytes at once; give the frames that are complete, as they are wanted.

        `WireError` where one cannot be read: those before it were given. Answer it with `refusal`,
        and close the connection.
        """
        return map(self._decode, self._splitter.feed(data))

    @property
    def begun(self) -> bool:
        """True if a frame has begun to come, and is not whole yet."""
        return self._splitter.begun

    def eof(self) -> None:
        """The peer sends no more; `WireError` if it stopped amid a frame."""
        self._splitter.eof()

    def encode(self, frame: Frame) -> bytes:
        """A frame's bytes, in the form spoken; `Unsendable` if it cannot be sent in it."""
        is_legacy = self.form is Form.LEGACY
        data = legacy.encode(frame.message) if is_legacy else version1.encode(frame)
        size, most = len(data) - SIZE_BYTES, self._max_frame_bytes
        answer = self._unasked_bytes + 2 * size
        if answer > self._splitter.max_frame_bytes:
            self._splitter.max_frame_bytes = min(most, answer)
        if size > most:
            why = f"a frame of {size} bytes, {most} are the limit (the setting max_frame_bytes)"
            raise unsendable(why).within(type(frame.message).__name__)
        if is_legacy and (response := legacy.ANSWERED.get(type(frame.message))):
            self._asked.append((response, frame.correlation_id))
        return data

    def refusal(self, error: WireError, epoch: int = 0) -> bytes:
        """The bytes to send before the connection is closed on this error; may be empty."""
        if not self.legacy:
            return version1.refusal(error, epoch)
        return legacy.refusal(error.code) if error.answerable else b""

    def _decode(self, payload: bytes) -> Frame:
        if self.form is None:
            self.form = form_of(payload)
        return self._decode_legacy(payload) if self.legacy else version1.decode(payload)

    def _decode_legacy(self, payload: bytes) -> Frame:
        """
        A frame whose correlation id is its request's, or, of a request, its number.

        A repeated ping keeps the number of the ping before, as it keeps its correlation id in
        version 1.
        """
        if self._asked:
            expected, correlation_id = self._asked.popleft()
            response = legacy.decode_response(payload, expected)
            error = getattr(response, "error_code", ErrorCode.NONE)
            return Frame(response, correlation_id, error=error)
        message = legacy.decode_request(payload)
        if not (isinstance(message, Ping) and message.num_retries):
            self._requests_read += 1
        return Frame(message, self._requests_read)
