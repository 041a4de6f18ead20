"""
Connections to Kafka's brokers: one for each node, with a thread that opens it and reads answers.

The first request over each is ApiVersions, a log-in may follow; every other one is sent in the
newest version that both sides speak. Whatever goes wrong ends the connection, and is told once.
"""

from __future__ import annotations

import logging
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.protocol.api_key import ApiKey

from herdproof.broker.codec import (
    CORRELATION,
    SIZE,
    RequestHead,
    framed,
    messages,
    read_answer,
    write_request,
)
from herdproof.broker.reading import MalformedRequest
from herdproof.broker.sasl import LoginFailed
from herdproof.broker.upstream import MOST_READ_BYTES
from herdproof.protocols.group_protocol.client.core.events import (
    ClientRequest,
    ClientResponse,
    Node,
)
from herdproof.protocols.group_protocol.client.shell import wire
from herdproof.protocols.group_protocol.client.shell.security import ClientLogin, Security

log = logging.getLogger(__name__)

CONNECT_S = 10.0
SEND_S = 10
"""Longest time that a broker that does not read may hold a request up."""
VERSIONS_HEAD = RequestHead(ApiKey.ApiVersions, 0, 0)


@dataclass(frozen=True)
class ConnectionCallbacks:
    """Whom a connection tells, in its own thread: of an answer by its number, and of its end."""

    answered: Callable[[int, ClientResponse], None]
    ended: Callable[[str], None]
    refused: Callable[[LoginFailed], None]
    """Of a log-in that failed, before its end: no other attempt would fare better."""


class BrokerConnection:
    """A connection to one node; it is opened at once, and ended by `close`."""

    def __init__(
        self, node: Node, client_id: str, security: Security, told: ConnectionCallbacks
    ) -> None:
        self._node = node
        self._client_id = client_id
        self._security = security
        self._told = told
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._waiting: list[tuple[int, ClientRequest]] = []
        self._versions: dict[int, tuple[int, int]] | None = None
        self._heads: dict[int, RequestHead] = {}
        """Of each request that is not answered: what it was sent as."""
        self._closed = False
        self._thread = threading.Thread(
            target=self._run, name=f"herdproof-node-{node.host}:{node.port}", daemon=True
        )
        self._thread.start()

    def send(self, number: int, request: ClientRequest) -> None:
        """Send a request, now or once it stands; should that fail, the connection ends."""
        with self._lock:
            if self._versions is None:
                self._waiting.append((number, request))
                return
            try:
                self._send(number, request)
            except (OSError, NotSpoken) as problem:
                log.debug("%s: %s", self._node, problem)
                self._shut()

    def close(self) -> None:
        """End it; nothing of it is told any more."""
        self._closed = True
        with self._lock:
            self._shut()

    def join(self, timeout_s: float) -> None:
        """Wait until its thread has ended."""
        self._thread.join(timeout_s)

    # ── The thread ──────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        why = "it was closed"
        try:
            self._open()
            while not self._closed:
                self._read()
        except (OSError, EOFError, MalformedRequest, NotSpoken) as problem:
            why = str(problem) or type(problem).__name__
        except LoginFailed as problem:
            why = str(problem)
            if not self._closed:
                self._told.refused(problem)
        except Exception as problem:
            log.exception("A connection to %s:%d failed.", self._node.host, self._node.port)
            why = repr(problem)
        with self._lock:
            self._shut()
        if not self._closed:
            self._told.ended(why)

    def _open(self) -> None:
        plain = socket.create_connection((self._node.host, self._node.port), CONNECT_S)
        tls = self._security.tls
        made = plain if tls is None else tls.wrap_socket(plain, server_hostname=self._node.host)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._socket = made
            if self._closed:
                raise EOFError("it was closed")
        told = self._ask(made, VERSIONS_HEAD, {})
        if self._security.login is not None:
            self._log_in(made, self._security.login)
        made.settimeout(None)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_S, 0))
        with self._lock:
            self._versions = {e.api_key: (e.min_version, e.max_version) for e in told.api_keys}
            waiting, self._waiting = self._waiting, []
            for number, asked in waiting:
                self._send(number, asked)

    def _log_in(self, made: socket.socket, login: ClientLogin) -> None:
        """Say who this is; raises `LoginFailed`."""
        requests = login.begin()
        with suppress(StopIteration):
            head, fields = next(requests)
            while True:
                head, fields = requests.send(self._ask(made, head, fields))

    def _ask(self, made: socket.socket, head: RequestHead, fields: dict[str, object]) -> Any:
        """Ask once, before anything else is under way."""
        request, _ = messages()[head.api]
        written = write_request(head, request(version=head.version, **fields), self._client_id)
        made.sendall(framed(written))
        return read_answer(head, self._frame(made))

    def _read(self) -> None:
        made = self._socket
        if made is None:
            raise EOFError("it was closed")
        frame = self._frame(made)
        (number,) = CORRELATION.unpack_from(frame)
        with self._lock:
            head = self._heads.pop(number, None)
        if head is None:
            raise MalformedRequest(f"an answer to request {number}, which was not asked")
        response = wire.read(head.api, read_answer(head, frame), head.version)
        if not self._closed:
            self._told.answered(number, response)

    def _frame(self, made: socket.socket) -> bytes:
        (size,) = SIZE.unpack(_exactly(made, SIZE.size))
        if not CORRELATION.size <= size <= MOST_READ_BYTES:
            raise MalformedRequest(f"an answer of {size} bytes")
        return _exactly(made, size)

    # ── Parts, under the lock ───────────────────────────────────────────────────────────────

    def _send(self, number: int, request: ClientRequest) -> None:
        if self._socket is None:
            return
        assert self._versions is not None
        api = wire.api_of(request)
        version = version_for(api, self._versions, wire.oldest_for(request))
        head = RequestHead(api, version, number)
        self._heads[number] = head
        written = write_request(head, wire.write(request, head.version), self._client_id)
        self._socket.sendall(framed(written))

    def _shut(self) -> None:
        made, self._socket = self._socket, None
        if made is not None:
            with suppress(OSError):  # it may have ended by itself
                made.shutdown(socket.SHUT_RDWR)
            made.close()


class NotSpoken(Exception):
    """A broker does not speak what is to be asked of it."""


def version_for(api: int, spoken: dict[int, tuple[int, int]], oldest: int) -> int:
    """The newest version that both sides speak, from the oldest on; raises `NotSpoken`."""
    _, newest = wire.SPOKEN[api]
    theirs = spoken.get(api, (0, -1))
    found = min(newest, theirs[1])
    if found < max(oldest, theirs[0]):
        raise NotSpoken(f"it speaks no version of {ApiKey(api).name} from {oldest} to {newest}")
    return found


class BrokerConnections:
    """The connections of one client, by node."""

    def __init__(
        self, client_id: str, security: Security,
        answered: Callable[[int, ClientResponse], None], ended: Callable[[Node, str], None],
        refused: Callable[[Node, LoginFailed], None],
    ) -> None:  # fmt: skip
        self._client_id = client_id
        self._security = security
        self._answered = answered
        self._ended = ended
        self._refused = refused
        self._open: dict[Node, BrokerConnection] = {}

    def send(self, number: int, node: Node, request: ClientRequest) -> None:
        """Send a request to a node."""
        if node not in self._open:
            told = ConnectionCallbacks(
                self._answered, partial(self._ended, node), partial(self._refused, node)
            )
            self._open[node] = BrokerConnection(node, self._client_id, self._security, told)
        self._open[node].send(number, request)

    def hang_up(self, node: Node) -> None:
        """End the connection to a node, if there is one."""
        found = self._open.pop(node, None)
        if found is not None:
            found.close()

    def close(self) -> None:
        """End all."""
        ended = list(self._open.values())
        self._open.clear()
        for connection in ended:
            connection.close()
        for connection in ended:
            connection.join(1.0)


def _exactly(made: socket.socket, size: int) -> bytes:
    """Read this many bytes; raises `EOFError` where the connection ends before."""
    parts = bytearray()
    while len(parts) < size:
        part = made.recv(min(size - len(parts), 1 << 16))
        if not part:
            raise EOFError("the broker ended the connection")
        parts += part
    return bytes(parts)
