"""Metrics of a process, served as Prometheus reads them, by one thread and in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry

from herdproof.errors import WorldError
from herdproof.shells.health import Health, page
from herdproof.shells.listening import remedy

PATIENCE_S = 5.0
"""The time that a reader may take from its connection to the last byte of the answer."""
READERS = 16
"""The number of readers at once: one more takes the place of who is there longest."""
HEAD_BYTES = 8_192
"""The most of a request's head."""


class MetricsPortTaken(WorldError):
    """The metrics cannot be served where they should be."""


class MetricsServer:
    """Serves a registry, and its service's health, over HTTP; port 0 chooses a free one."""

    def __init__(
        self, registry: CollectorRegistry, host: str, port: int, health: Health | None = None
    ) -> None:
        self._registry = registry
        self._health = health or Health()
        self._readers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="herdproof-metrics", daemon=True
        )
        self._thread.start()
        opening = asyncio.start_server(self._accept, host, port, limit=HEAD_BYTES)
        try:
            self._server = asyncio.run_coroutine_threadsafe(opening, self._loop).result()
        except OSError as problem:
            self._end()
            raise MetricsPortTaken(
                f"metrics cannot be served on {host}:{port}: {problem.strerror or problem}; "
                f"{remedy(problem, 'choose another --metrics-port')}."
            ) from problem
        self.port: int = self._server.sockets[0].getsockname()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._end()

    # ── The thread ──────────────────────────────────────────────────────────────────────────

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Somebody connected."""
        if len(self._readers) >= READERS:
            next(iter(self._readers)).cancel()
        serving = self._loop.create_task(self._serve(reader, writer))
        self._readers[serving] = writer
        serving.add_done_callback(self._let_go)

    def _let_go(self, serving: asyncio.Task[None]) -> None:
        """A reader is answered, or given up, perhaps before it was looked at."""
        self._readers.pop(serving).transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close."""
        incomplete = (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError)
        with contextlib.suppress(*incomplete):
            async with asyncio.timeout(PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                writer.write(await asyncio.to_thread(self._answer, lines))  # health may wait
                await writer.drain()
                writer.close()
                await writer.wait_closed()

    def _answer(self, head: list[str]) -> bytes:
        """The answer to a request, by its head's lines."""
        method, _, rest = head[0].partition(" ")
        if method not in ("GET", "HEAD"):
            return b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"
        fields = dict(line.lower().partition(":")[::2] for line in head[1:])
        accept = fields.get("accept", "").strip()
        status, kind, body = page(rest.partition(" ")[0], accept, self._registry, self._health)
        said = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        whole = f"{said}Connection: close\r\n\r\n".encode()
        return whole if method == "HEAD" else whole + body

    async def _close(self) -> None:
        """Listen no more, and let nobody wait."""
        self._server.close()
        for serving in list(self._readers):
            serving.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        await asyncio.sleep(0.01)  # in which the connections are closed

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
