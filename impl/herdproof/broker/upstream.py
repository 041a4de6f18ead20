"""
Connections to a real Kafka: one for each client's, over which its requests go on unread.

An answer is passed on as it comes, in whatever parts, unless somebody has to read it whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

from herdproof.broker.codec import (
    SIZE,
    RequestHead,
    framed,
    has_answer,
    messages,
    read_answer,
    write_request,
)
from herdproof.broker.connection import KafkaConnection
from herdproof.broker.reading import MalformedRequest
from herdproof.broker.sasl import LoginFailed, SaslLogin
from herdproof.errors import WorldError

Address: TypeAlias = tuple[str, int]
TakeWhole: TypeAlias = Callable[[bytes], None]
"""Takes an answer's frame, and has it answered."""

CONNECT_S = 10.0
MOST_READ_BYTES = 64 << 20
"""An answer that has to be read may have so many bytes: the metadata of some 500,000 partitions."""


class NoKafkaBehind(WorldError):
    """The Kafka in front of which a broker stands does not answer."""


class UpstreamLink(asyncio.Protocol):
    """One client's connection to a broker of the real Kafka."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._cut = b""
        """The size of an answer, or its beginning, behind which nothing has come yet."""
        self._left = 0
        """Bytes of the present answer, its size among them, that have not come yet."""
        self._whole: bytearray | None = None
        self._take: TakeWhole | None = None
        self._transport: asyncio.Transport

    def forward(self, head: RequestHead, frame: bytes, take: TakeWhole | None) -> None:
        """Send a request on; `take` gets its answer, or, without one, the client does."""
        self._take = take
        self._transport.write(framed(frame))
        if not has_answer(head, frame):
            self._connection.reply_nothing()

    def pause(self) -> None:
        """Let no more of an answer come: the client does not read."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Go on."""
        self._transport.resume_reading()

    def close(self) -> None:
        """The client is gone."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _why: Exception | None) -> None:
        """Kafka ended the connection, or the client did."""
        self._connection.refuse("Kafka ended the connection")

    def data_received(self, data: bytes) -> None:
        """
        A part of an answer came: it is passed on as it is, in one piece with the answer's size.

        (A slice of all of it is no copy; and a size that is sent alone wakes the client for it.)
        """
        data, self._cut = self._cut + data, b""
        at = 0
        while at < len(data):
            if not self._left and not self._begin(data, at):
                return
            part = data[at : at + self._left]
            self._left -= len(part)
            at += len(part)
            if self._whole is None:
                self._connection.reply_part(part)
            else:
                self._whole += part
            if not self._left:
                self._end()

    def _begin(self, data: bytes, at: int) -> bool:
        """Read the size of the answer that begins there; false where nothing is to go on yet."""
        self._cut = data[at : at + SIZE.size]
        if len(self._cut) < SIZE.size:
            return False
        (size,) = SIZE.unpack(self._cut)
        if size <= 0 or (self._take is not None and size > MOST_READ_BYTES):
            self._connection.refuse("an answer of Kafka's is too large, or empty")
            return False
        if len(data) - at == SIZE.size:
            return False
        self._cut, self._left = b"", SIZE.size + size
        self._whole = None if self._take is None else bytearray()
        return True

    def _end(self) -> None:
        """An answer is there."""
        whole, take = self._whole, self._take
        self._whole = self._take = None
        if whole is None or take is None:
            self._connection.reply_nothing()
            return
        try:
            take(bytes(memoryview(whole)[SIZE.size :]))
        except MalformedRequest as problem:
            self._connection.refuse("an answer of Kafka's cannot be read", problem)


async def link(connection: KafkaConnection, addresses: list[Address]) -> UpstreamLink:
    """Connect a client on to the first of these brokers that can be reached; or `OSError`."""
    loop = asyncio.get_running_loop()
    problem: OSError = OSError("no broker is known")
    for host, port in addresses:
        try:
            async with asyncio.timeout(CONNECT_S):
                made, upstream = await loop.create_connection(
                    lambda: UpstreamLink(connection), host, port
                )
                del made
                return upstream
        except OSError as failed:  # a time-out is one, too
            problem = failed
    raise problem


async def ask_kafka(
    addresses: list[Address], head: RequestHead, fields: dict[str, object],
    login: SaslLogin | None = None,
) -> Any:  # fmt: skip
    """Ask the first broker that answers a question of our own; raises `NoKafkaBehind`."""
    problems = []
    for host, port in addresses:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await exchange(host, port, head, fields, login)
        except (OSError, asyncio.IncompleteReadError, MalformedRequest) as problem:
            problems.append(f"{host}:{port} ({str(problem) or type(problem).__name__})")
    raise NoKafkaBehind(
        f"No Kafka answers at {', '.join(problems)}: check that it runs, that --in-front-of names "
        f"it, that it asks for no TLS there, and that the table kafka of the settings has a user "
        f"if it asks for SASL."
    )


async def exchange(
    host: str, port: int, head: RequestHead, fields: dict[str, object], login: SaslLogin | None
) -> Any:
    """Send one request over a connection of its own, logged in if need be; its answer."""
    reader, writer = await asyncio.open_connection(host, port)

    async def ask(head: RequestHead, fields: dict[str, object]) -> Any:
        """Ask once."""
        request, _ = messages()[head.api]
        writer.write(framed(write_request(head, request(version=head.version, **fields))))
        (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
        if not 0 < size <= MOST_READ_BYTES:
            raise MalformedRequest(f"an answer of {size} bytes")
        return read_answer(head, await reader.readexactly(size))

    try:
        if login is not None:
            await log_in(ask, login)
        return await ask(head, fields)
    finally:
        writer.close()


async def log_in(
    ask: Callable[[RequestHead, dict[str, object]], Awaitable[Any]], login: SaslLogin
) -> None:
    """Log in over a connection; raises `MalformedRequest` with what Kafka says against it."""
    requests = login.begin()
    try:
        with suppress(StopIteration):
            request = next(requests)
            while True:
                request = requests.send(await ask(*request))
    except LoginFailed as problem:
        raise MalformedRequest(str(problem)) from problem
