"""
The server: its ports, their connections, and who answers what comes over them.

    async with BrokerServer(listener, None, BrokerMetrics()) as server:
        port = await server.open_port(9092)
        port.handlers = handlers
        await server.until_it_ends()

No connection's trouble is another one's: a request that cannot be answered ends its own connection.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsResponse

from herdproof.broker.answering import BrokerNode, Handler, Handlers, at_once
from herdproof.broker.codec import (
    KafkaRequest,
    RequestHead,
    Versions,
    api_version,
    read_head,
    read_request,
    unsupported_version,
    write_answer,
)
from herdproof.broker.connection import KafkaConnection
from herdproof.broker.metrics import BrokerMetrics
from herdproof.broker.reading import MalformedRequest
from herdproof.broker.settings import KafkaListener
from herdproof.shells.listening import listen
from herdproof.shells.logs import fields
from herdproof.shells.tls import Tls

log = logging.getLogger(__name__)

API_VERSIONS = (0, 4)
NUMBERS = " -0123456789"
"""End of a cut's reason, which may be any number of a stranger's: none has a series of its own."""
OLDEST_ANNOUNCED: Mapping[int, int] = {ApiKey.Produce: 0}
"""Announced from older versions on than are taken: librdkafka does not compress otherwise."""

Forward: TypeAlias = Callable[[KafkaConnection, RequestHead, bytes], None]
"""Takes a request that has no handler, with its frame."""


class RequestGate(Protocol):
    """Who looks at every request first."""

    def lets(self, connection: KafkaConnection, head: RequestHead, frame: bytes) -> bool:
        """Tells whether handlers get a request; else it is answered, or its connection ends."""

    def forget(self, connection: KafkaConnection) -> None:
        """A connection is over."""


class BrokerPort:
    """
    One port: `handlers` answer; what has none is for `forward`, or ends its connection.

    With a `gate`, only what that lets through comes to either.
    """

    def __init__(self, server: BrokerServer) -> None:
        self.address = ("", 0)
        self.handlers: Handlers = {}
        self.forward: Forward | None = None
        self.gate: RequestGate | None = None
        self._server = server

    # ── What connections tell ───────────────────────────────────────────────────────────────

    def opened(self, connection: KafkaConnection) -> None:
        """Somebody connected."""
        self._server.opened(connection)

    def received(self, connection: KafkaConnection, frame: bytes) -> None:
        """A request came."""
        head = read_head(frame)
        self._server.metrics.requested(head.api)
        if self.gate is not None and not self.gate.lets(connection, head, frame):
            return
        handler = self.handlers.get(head.api)
        if handler is None:
            if self.forward is None:
                connection.refuse(f"unknown request {head.api}")
            else:
                self.forward(connection, head, frame)
        elif not handler.versions[0] <= head.version <= handler.versions[1]:
            if head.api == ApiKey.ApiVersions:
                connection.reply(unsupported_version(head))
            else:
                connection.refuse(f"unknown version {head.version} of request {head.api}")
        else:
            request = read_request(head, frame, connection.host)
            self.hand(handler, request, connection)

    def hand(self, handler: Handler, request: KafkaRequest, connection: KafkaConnection) -> None:
        """Have a handler answer a request."""
        try:
            handler.answer(request, partial(self.reply, connection, request.head))
        except Exception:
            self._failed(connection, request.head)

    def reply(
        self, connection: KafkaConnection, head: RequestHead, answer: ApiMessage | None
    ) -> None:
        """Send an answer; None: there is none to be sent."""
        if answer is None:
            connection.reply_nothing()
            return
        try:
            data = write_answer(head, answer)
        except Exception:
            self._failed(connection, head)
            return
        connection.reply(data)

    def cut(self, connection: KafkaConnection, reason: str, error: MalformedRequest | None) -> None:
        """A connection ended itself."""
        self._server.cut(connection, reason, error)

    def closed(self, connection: KafkaConnection) -> None:
        """A connection is over."""
        if self.gate is not None:
            self.gate.forget(connection)
        self._server.closed(connection)

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    def _failed(self, connection: KafkaConnection, head: RequestHead) -> None:
        """A mistake of this end's own: nobody else is to notice."""
        log.exception("request %d of version %d was not answered", head.api, head.version)
        connection.refuse("failed")


def with_api_versions(handlers: Handlers, more: Versions) -> Handlers:
    """The handlers, and the one that says which there are, beside what else is spoken."""
    spoken = {**more, **{api: handler.versions for api, handler in handlers.items()}}
    return {**handlers, ApiKey.ApiVersions: versions_handler(spoken, {})}


def versions_handler(spoken: Versions, more: dict[str, Any]) -> Handler:
    """Who says which requests are spoken, with more fields of that answer."""
    told = [
        api_version(api, (OLDEST_ANNOUNCED.get(api, versions[0]), versions[1]))
        for api, versions in sorted({**spoken, ApiKey.ApiVersions: API_VERSIONS}.items())
    ]

    def answer(request: KafkaRequest) -> ApiMessage:
        return ApiVersionsResponse(version=request.head.version, api_keys=told, **more)

    return Handler(API_VERSIONS, at_once(answer))


class BrokerServer:
    """
    All ports of a broker, in the loop that it is made in; `metrics` are its figures.

    Ports are made by `make_port`, so that one can be made that does more than answer.
    """

    def __init__(
        self, limits: KafkaListener, tls: Tls | None, metrics: BrokerMetrics,
        make_port: Callable[[BrokerServer], BrokerPort] = BrokerPort,
    ) -> None:  # fmt: skip
        self.metrics = metrics
        self._limits = limits
        self._tls = tls
        self._make_port = make_port
        self._loop = asyncio.get_running_loop()
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._listening: list[asyncio.Server] = []
        self._connections: dict[int, KafkaConnection] = {}
        self._last_connection = 0
        self._closing = False
        self._sweep: asyncio.TimerHandle | None = None

    async def open_port(self, port: int) -> BrokerPort:
        """Listen on a port (0: a free one); raises `CannotListen` and `BadTls`."""
        opened = self._make_port(self)
        limits = self._limits
        listening = await listen(
            lambda: KafkaConnection(opened, limits), replace(limits, port=port), self._tls
        )
        self._listening.append(listening)
        opened.address = listening.sockets[0].getsockname()[:2]
        return opened

    async def until_it_ends(self) -> None:
        """Wait until the server ends by itself, which it does by failing; raises why."""
        await self._failed

    def fail(self, problem: Exception) -> None:
        """Nothing can be relied on any more: close every connection, and have the server end."""
        if not self._failed.done():
            self._failed.set_exception(problem)
        for connection in list(self._connections.values()):
            connection.close()

    async def __aenter__(self) -> Self:
        self._sweep_idle()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing = True
        if self._sweep is not None:
            self._sweep.cancel()
        for listening in self._listening:
            listening.close()
        for connection in list(self._connections.values()):
            connection.close()
        while self._connections:  # which `close_timeout_ms` bounds
            await asyncio.sleep(0.005)
        if not self._failed.cancel():
            self._failed.exception()  # `until_it_ends` raised it, or nobody asked

    # ── What connections tell ───────────────────────────────────────────────────────────────

    def opened(self, connection: KafkaConnection) -> None:
        """Somebody connected."""
        self._last_connection += 1
        connection.number = self._last_connection
        self._connections[connection.number] = connection
        self.metrics.connections.set(len(self._connections))
        if self._closing or self._failed.done():
            connection.abort()
        elif len(self._connections) > self._limits.max_connections:
            connection.refuse("too many connections")

    def cut(self, connection: KafkaConnection, reason: str, error: MalformedRequest | None) -> None:
        """A connection ended itself."""
        self.metrics.cut(reason.partition(" of ")[0].rstrip(NUMBERS))
        why = reason if error is None else f"{reason}: {error}"
        more = fields(connection=connection.number, peer=connection.peer, why=why)
        log.warning("connection ended", extra=more)

    def closed(self, connection: KafkaConnection) -> None:
        """A connection is over."""
        del self._connections[connection.number]
        self.metrics.connections.set(len(self._connections))

    def _sweep_idle(self) -> None:
        """Close connections over which nothing came for too long; look again later."""
        idle_s = self._limits.idle_timeout_ms / 1000
        since = time.monotonic() - idle_s
        for connection in list(self._connections.values()):
            if connection.is_idle and connection.active_s < since:
                connection.refuse("idle")
        self._sweep = self._loop.call_later(idle_s / 10, self._sweep_idle)


def advertised(node_id: int, listener: KafkaListener, port: BrokerPort) -> BrokerNode:
    """The node that clients are told to connect to."""
    host = listener.advertised_host or listener.host
    return BrokerNode(node_id, host, listener.advertised_port or port.address[1])
