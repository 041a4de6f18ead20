"""A scripted consumer: a plain socket that says what a test says, and answers when told to."""

from __future__ import annotations

import socket
import ssl
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from benchmarks.central_wire import ConsumerEnd
from herdproof.consuming.offsets import Offset, OffsetReset
from herdproof.protocols.central_coordinator.wire.messages import (
    Consult,
    ConsultResponse,
    ErrorCode,
    Frame,
    Message,
    Ping,
    Register,
    RegisterResponse,
    Start,
)

PATIENCE_S = 20.0
"""How long a test waits for what must come; only a failing test waits that long."""


class ConnectionOver(Exception):
    """The other end has closed the connection."""


class WireClient:
    """One connection to a coordinator, in version 1."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket = tls.wrap_socket(plain, server_hostname="localhost") if tls else plain
        self._end = ConsumerEnd()
        self._frames: deque[Frame] = deque()
        self._asked = 0
        self.offsets: tuple[Offset, ...] = ()
        """What it says that it has consumed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, frame: Frame) -> None:
        """Send a frame."""
        self.socket.sendall(self._end.encode(frame))

    def take(self) -> Frame:
        """The next frame that comes; raises `ConnectionOver`."""
        while not self._frames:
            try:
                data = self.socket.recv(65_536)
            except ConnectionResetError:
                data = b""
            if not data:
                raise ConnectionOver
            self._frames.extend(self._end.feed(data))
        return self._frames.popleft()

    def ask(self, message: Message, epoch: int = 0, generation: int = 0) -> Frame:
        """Send a request and take its answer; the coordinator's requests are answered meanwhile."""
        self._asked += 1
        self.send(Frame(message, self._asked, epoch, generation, "test"))
        return self.answer_until(type(None), correlation_id=self._asked)

    def consult(self) -> ConsultResponse:
        """Who coordinates?"""
        answer = self.ask(Consult()).message
        assert isinstance(answer, ConsultResponse)
        return answer

    def register(
        self, group: str, consumer: str, topics: str = '{"orders": 1}', *,
        ping_interval_ms: int = 250, session_timeout_ms: int = 1_500,
    ) -> ErrorCode:  # fmt: skip
        """Register, with offsets in every answer to a ping or Stop."""
        message = Register(
            group, consumer, topics, True, OffsetReset.SMALLEST, ping_interval_ms, 5,
            session_timeout_ms,
        )  # fmt: skip
        answer = self.ask(message).message
        assert isinstance(answer, RegisterResponse), answer
        return answer.error_code

    def started(self) -> Frame:
        """Answer what comes, up to and with the next Start."""
        return self.answer_until(Start)

    def answer_until(self, kind: type[Message] | type[None], correlation_id: int = 0) -> Frame:
        """Answer what comes, up to and with a request of this kind, or the response of this id."""
        while True:
            frame = self.take()
            if answer := self._end.answer(frame, self.offsets):
                self.socket.sendall(answer)
            elif frame.correlation_id == correlation_id:
                return frame
            if isinstance(frame.message, kind):
                return frame

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Within this context a thread answers what comes; whoever is in it says nothing itself."""
        ends = threading.Event()

        def answer() -> None:
            while not ends.is_set():
                with suppress(TimeoutError):
                    self.answer_until(Ping)

        self.socket.settimeout(0.05)
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()
            self.socket.settimeout(PATIENCE_S)
