"""
A coordinator whose every word a test says: real sockets and bytes, and no decision of its own.

It answers Consult (it coordinates itself), Register and Commit as it is set to, and Leave; all else
it says when the test lets it.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Self

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.wire.conversation import Conversation
from herdproof.protocols.central_coordinator.wire.errors import WireError
from herdproof.protocols.central_coordinator.wire.exchanges import is_request
from herdproof.protocols.central_coordinator.wire.messages import (
    BrokerInfo,
    Commit,
    CommitResponse,
    Consult,
    ConsultResponse,
    ErrorCode,
    Frame,
    Leave,
    LeaveResponse,
    Message,
    Register,
    RegisterResponse,
)

LOOPBACK = "127.0.0.1"
PATIENCE_S = 10.0


class PlayedCoordinator:
    """Listens at `address` while it is in its context."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.epoch = 1
        self.register_code = ErrorCode.NONE
        self.commit_code: ErrorCode | None = ErrorCode.NONE
        """What a Commit is answered; None: nothing."""
        self.registrations: list[Register] = []
        self.commits: list[tuple[Offset, ...]] = []
        self._tls = tls
        self._listening = socket.create_server((LOOPBACK, 0))
        self.port = self._listening.getsockname()[1]
        self.address = f"{LOOPBACK}:{self.port}"
        self._changed = threading.Condition()
        self._answers: deque[Frame] = deque()
        self._correlation_id = 0
        self._connections: list[socket.socket] = []
        self._registered: tuple[socket.socket, Conversation] | None = None
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._connections:
            _end(connection)
        for thread in self._threads:
            thread.join(PATIENCE_S)

    # ── What a test says ────────────────────────────────────────────────────────────────────

    def await_registrations(self, count: int) -> Register:
        """Wait until so many consumers have registered; the last of them."""
        self.until(lambda: len(self.registrations) >= count, f"{count} registrations")
        return self.registrations[-1]

    def tell(self, message: Message, generation: int = 0) -> int:
        """Send a new request over the last registered connection; its correlation id."""
        assert self._registered is not None, "nobody has registered"
        connection, conversation = self._registered
        self._correlation_id += 1
        frame = Frame(message, self._correlation_id, self.epoch, generation, "played")
        connection.sendall(conversation.encode(frame))
        return self._correlation_id

    def ask(self, message: Message, generation: int = 0) -> Frame:
        """Send a new request, and wait for its response."""
        asked = self.tell(message, generation)
        self.until(lambda: self.answer_to(asked) is not None, f"an answer to {message}")
        answer = self.answer_to(asked)
        assert answer is not None
        return answer

    def answer_to(self, correlation_id: int) -> Frame | None:
        """The response to a request, if it has come."""
        answers = (frame for frame in list(self._answers) if frame.correlation_id == correlation_id)
        return next(answers, None)

    def write(self, data: bytes) -> None:
        """Send bytes that need not mean anything."""
        assert self._registered is not None, "nobody has registered"
        self._registered[0].sendall(data)

    def cut(self) -> None:
        """Close the registered connection."""
        assert self._registered is not None, "nobody has registered"
        _end(self._registered[0])

    def until(self, holds: object, what: str) -> None:
        """Wait until it holds; fail if that takes too long."""
        assert callable(holds)
        with self._changed:
            assert self._changed.wait_for(holds, PATIENCE_S), f"it did not come: {what}"

    # ── Its threads ─────────────────────────────────────────────────────────────────────────

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        conversation = Conversation()
        with suppress(OSError, WireError):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._connections.append(connection)
            while data := connection.recv(65536):
                for frame in conversation.feed(data):
                    self._hear(connection, conversation, frame)
        with suppress(OSError):
            while connection.recv(65536):
                pass  # what cannot be read is for the other side to end
        _end(connection)

    def _hear(self, connection: socket.socket, conversation: Conversation, frame: Frame) -> None:
        with self._changed:
            answer = self._answer(connection, conversation, frame.message)
            if not is_request(frame.message):
                self._answers.append(frame)
            if answer is not None:
                error = getattr(answer, "error_code", ErrorCode.NONE)
                response = Frame(answer, frame.correlation_id, self.epoch, error=error)
                connection.sendall(conversation.encode(response))
            self._changed.notify_all()

    def _answer(
        self, connection: socket.socket, conversation: Conversation, message: Message
    ) -> Message | None:
        match message:
            case Consult():
                brokers = (BrokerInfo("", 1, LOOPBACK, self.port),)
                return ConsultResponse(ErrorCode.NONE, 1, brokers)
            case Register():
                self.registrations.append(message)
                self._registered = connection, conversation
                return RegisterResponse(self.register_code)
            case Commit(offsets):
                self.commits.append(offsets)
                return None if self.commit_code is None else CommitResponse(self.commit_code)
            case Leave():
                return LeaveResponse(ErrorCode.NONE)
            case _:
                return None


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
