"""
A stream of bytes, split into frames, and which form its first one has.

The size before every frame is all that the two forms share; a size that is negative or beyond the
limit is refused as soon as it is read, before anything is kept for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from herdproof.protocols.central_coordinator.wire import primitives
from herdproof.protocols.central_coordinator.wire.errors import WireError
from herdproof.protocols.central_coordinator.wire.exchanges import REQUESTS, Direction
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode
from herdproof.protocols.central_coordinator.wire.primitives import malformed

MAX_FRAME_BYTES = 2**20
"""The default limit: a Start of some 30,000 partitions."""

SIZE_BYTES = primitives.INT32.size
"""Bytes of the size that stands before a frame, and does not count itself."""


class Form(Enum):
    """The two forms of the wire."""

    LEGACY = "legacy"
    VERSION_1 = "version 1"


class Splitter:
    """
    Splits what comes in into frames' payloads (what follows the size).

    Keeps no more than one frame and what was just fed. After a `WireError` the stream is of no use:
    every further call raises the same.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._broken: WireError | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take in some bytes at once; give the payloads that are complete, as they are wanted."""
        if not self._buffer and not self._broken and self._is_one_frame(data):
            return iter((data[SIZE_BYTES:],))
        self._buffer += data
        return self._payloads()

    def _is_one_frame(self, data: bytes) -> bool:
        """Tell whether some bytes are just one whole frame, as nearly all that come are."""
        size = len(data) - SIZE_BYTES
        return 0 <= size <= self.max_frame_bytes and primitives.INT32.unpack_from(data)[0] == size

    @property
    def begun(self) -> bool:
        """True if bytes are kept that no frame given so far had in it."""
        return bool(self._buffer)

    def eof(self) -> None:
        """Nothing more comes; `WireError` if a frame was begun."""
        if self._broken:
            raise self._broken
        if self._buffer:
            raise self._break(f"the stream ended {len(self._buffer)} bytes into a frame")

    def _payloads(self) -> Iterator[bytes]:
        while (payload := self._next()) is not None:
            yield payload

    def _next(self) -> bytes | None:
        if self._broken:
            raise self._broken
        if len(self._buffer) < SIZE_BYTES:
            return None
        (size,) = primitives.INT32.unpack_from(self._buffer)
        if size < 0:
            raise self._break(f"a frame's size is {size}, it cannot be negative")
        if size > self.max_frame_bytes:
            raise self._break(f"a frame of {size} bytes, {self.max_frame_bytes} are the limit")
        end = SIZE_BYTES + size
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[SIZE_BYTES:end])
        del self._buffer[:end]
        return payload

    def _break(self, why: str) -> WireError:
        self._buffer.clear()
        self._broken = WireError(ErrorCode.MALFORMED, why)
        return self._broken


def form_of(payload: bytes) -> Form:
    """
    The form of a *request*, from its first bytes.

    A frame of version 1 begins with its direction, 0 or 1; a legacy request with its type id, whose
    first byte is 3. A legacy *response* can begin with anything: of those nothing can be told.
    `WireError`: UNKNOWN_TYPE if it is neither, MALFORMED if there is too little to tell.
    """
    if not payload:
        raise malformed("an empty frame, but a first frame is a request", 0)
    if payload[0] in (Direction.REQUEST, Direction.RESPONSE):
        return Form.VERSION_1
    if len(payload) < primitives.INT16.size:
        raise malformed("a frame of 1 byte is in neither form", 0)
    (type_id,) = primitives.INT16.unpack_from(payload)
    if type_id in REQUESTS:
        return Form.LEGACY
    why = f"neither a direction (0, 1) nor a known type id stands here, but {payload[:2].hex(' ')}"
    raise WireError(ErrorCode.UNKNOWN_TYPE, why, 0)
