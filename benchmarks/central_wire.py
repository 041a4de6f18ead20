"""
A consumer's end of the central coordinator's wire, in version 1: without socket, loop or thread.

What is said, and when, is its owner's; what a coordinator asks of any consumer is answered here.
"""

from __future__ import annotations

from collections.abc import Iterator

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.wire.conversation import Conversation
from herdproof.protocols.central_coordinator.wire.framing import Form
from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    Frame,
    Message,
    Ping,
    PingResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)


class ConsumerEnd:
    """One connection's frames, there and back."""

    def __init__(self) -> None:
        self._conversation = Conversation(Form.VERSION_1)

    def encode(self, frame: Frame) -> bytes:
        """The bytes of a frame."""
        return self._conversation.encode(frame)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that have become whole; raises `WireError`."""
        return iter(self._conversation.feed(data))

    def answer(
        self, frame: Frame, offsets: tuple[Offset, ...] | None = None, epoch: int | None = None
    ) -> bytes:  # fmt: skip
        """The answer to a Ping, Stop or Start; b"" to what asks nothing of a consumer."""
        message = answer_to(frame.message, offsets)
        if message is None:
            return b""
        epoch = frame.epoch if epoch is None else epoch
        return self.encode(Frame(message, frame.correlation_id, epoch, frame.generation))


def answer_to(asked: Message, offsets: tuple[Offset, ...] | None) -> Message | None:
    """The answer of a consumer that does as it is told, and has consumed so far."""
    match asked:
        case Ping():
            return PingResponse(offsets)
        case Stop():
            return StopResponse(offsets)
        case Start():
            return StartResponse(ErrorCode.NONE)
    return None
