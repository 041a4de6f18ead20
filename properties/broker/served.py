"""A broker by itself in this process, for tests: asked without sockets, or over them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec

from kafka.record import MemoryRecordsBuilder

from herdproof.broker.alone import AloneBroker
from herdproof.broker.answering import BrokerNode
from herdproof.broker.codec import KafkaRequest, RequestHead, read_answer, write_request
from herdproof.broker.front import FrontBroker
from herdproof.broker.metrics import BrokerMetrics
from herdproof.broker.sasl import SaslUsers
from herdproof.broker.server import BrokerServer
from herdproof.broker.settings import KafkaListener, RecordLimits
from herdproof.protocols.group_protocol.server.shell import GroupShell
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.stores.memory import MemoryGroupStore

P = ParamSpec("P")
SIZE = struct.Struct(">i")
PATIENCE_S = 10.0
"""How long a test waits for what must come; only a failing test waits that long."""


@dataclass
class Served:
    """A broker that serves, and what it was made of."""

    server: BrokerServer
    alone: AloneBroker
    groups: GroupShell
    here: BrokerNode = field(default_factory=lambda: BrokerNode(0, "", 0))
    clients: list[WireClient] = field(default_factory=list)
    front: FrontBroker | None = None
    objects: int = 0
    """The number of objects that there were, when a test has counted them."""


@asynccontextmanager
async def served(
    topics: dict[str, int] | None = None, records: RecordLimits | None = None,
    groups: GroupSettings | None = None, users: SaslUsers | None = None, **limits: Any,
) -> AsyncIterator[Served]:  # fmt: skip
    """A broker by itself on a free port."""
    listener = KafkaListener(port=0, **limits)
    async with BrokerServer(listener, None, BrokerMetrics()) as server:
        alone = AloneBroker(server, 1, records or RecordLimits())
        shell = GroupShell(
            groups or GroupSettings(group_initial_rebalance_delay_ms=0), MemoryGroupStore(),
            fail=server.fail, knows_partition=alone.log.has,
        )  # fmt: skip
        shell.elected(epoch=1)
        there = Served(server, alone, shell)
        there.here = await alone.open(listener, topics or {"t": 2}, shell, users)
        try:
            yield there
        finally:
            for client in there.clients:
                await client.hang_up()


class WireClient:
    """A client over a real socket that writes frames, or what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._asked: list[RequestHead] = []

    def send(self, request: Any, version: int) -> None:
        """Send a request."""
        head = RequestHead(request.API_KEY, version, len(self._asked) + 100)
        self._asked.append(head)
        frame = write_request(head, request)
        self.write(SIZE.pack(len(frame)) + frame)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)

    async def answer(self, patience_s: float | None = PATIENCE_S) -> Any:
        """The next answer, which is that to the oldest request."""
        (size,) = SIZE.unpack(await self.read(SIZE.size, patience_s))
        frame = await self.read(size, patience_s)
        head = self._asked.pop(0)
        assert SIZE.unpack_from(frame) == (head.correlation_id,)
        return read_answer(head, frame)

    async def ask(self, request: Any, version: int) -> Any:
        """Send a request, and wait for its answer."""
        self.send(request, version)
        return await self.answer()

    async def read(self, size: int, patience_s: float | None = PATIENCE_S) -> bytes:
        """So many bytes."""
        async with asyncio.timeout(patience_s):
            return await self._reader.readexactly(size)

    async def ends(self) -> bool:
        """Whether the broker ends the connection, before it says anything more."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self._reader.read(1) == b""
            except ConnectionError:
                return True

    async def hang_up(self) -> None:
        """Close the connection."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


async def client_of(there: Served) -> WireClient:
    """A new client, which hangs up at the end at the latest."""
    client = WireClient(*await asyncio.open_connection(there.here.host, there.here.port))
    there.clients.append(client)
    return client


def in_a_loop(test: Callable[P, Coroutine[None, None, None]]) -> Callable[P, None]:
    """Let a test's coroutine run in a loop of its own."""

    @wraps(test)
    def run(*arguments: P.args, **more: P.kwargs) -> None:
        asyncio.run(test(*arguments, **more))

    return run


def request_of(body: Any, version: int) -> KafkaRequest:
    """A request as a handler gets it."""
    return KafkaRequest(RequestHead(body.API_KEY, version, 1), "me", "here", body)


def batch(
    *values: bytes, timestamp: int = 1_000, compression: int = 0, producer: int = -1,
    epoch: int = -1, sequence: int = -1,
) -> bytes:  # fmt: skip
    """A batch of records, a millisecond apart."""
    builder = MemoryRecordsBuilder(
        magic=2, compression_type=compression, batch_size=2**20, producer_id=producer,
        producer_epoch=epoch, base_sequence=sequence,
    )  # fmt: skip
    for number, value in enumerate(values):
        builder.append(timestamp=timestamp + number, key=None, value=value, headers=[])
    builder.close()
    return bytes(builder.buffer())
