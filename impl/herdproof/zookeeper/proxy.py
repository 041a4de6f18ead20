"""
A TCP proxy on the loopback that does to a ZooKeeper connection what networks do.

    with FaultProxy("127.0.0.1", 2181) as proxy:
        client = Client(proxy.hosts, …)
        proxy.swallow_replies()          # what is sent now is done, and nobody hears of it
        client.submit(Create("/a"), …)
        proxy.wait_swallowed_reply()
        proxy.cut()

All faults take hold before the method that asks for them returns: every byte that arrives at the
proxy afterwards is treated accordingly (bytes that it passed on before may still be under way to
the other side). One event loop, in a thread of its own, does the forwarding, so that a fault is
never half done.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Self

from herdproof.errors import NotInTime, WorldError
from herdproof.servers import Embedded

LOOPBACK = "127.0.0.1"

_NO_REPLIES = {-1, -2}
"""The xids of watches and of pings."""

_INT = struct.Struct(">i")
_LARGEST_FRAME = 1 << 25

_RETRY_S = 0.02
"""The time between two attempts of the proxy to reach a server that does not listen yet."""


class NothingSwallowed(WorldError):
    """The server did not answer in time while the replies were swallowed."""


class FaultProxy(Embedded):
    """
    Forwards connections to one server, until it is told otherwise.

    `port` (chosen free) and `hosts` are where it listens; the listening port stays its own while it
    refuses connections, too. `patience_s`: how long a connection waits for a server that does not
    listen yet. A context manager; all methods can be called from any thread.
    """

    def __init__(self, target_host: str, target_port: int, *, patience_s: float = 0.0) -> None:
        self._target = (target_host, target_port)
        self._patience_s = patience_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._changed = threading.Condition()
        self._server: asyncio.Server | None = None
        self._port = 0
        self._lines: set[_Line] = set()
        self._allowed: int | None = None
        self._held: dict[bool, list[Callable[[], None]]] = {}
        self._swallowing = False
        self._connections = self._refused = self._to_server = self._to_client = 0
        self._swallowed = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port on which it listens; 0 before it is started."""
        return self._port

    @property
    def hosts(self) -> str:
        """Its address, as clients want it."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def connections(self) -> int:
        """The number of connections that it has let through."""
        return self._connections

    @property
    def refused(self) -> int:
        """The number of connections that it has closed at once."""
        return self._refused

    @property
    def bytes_to_server(self) -> int:
        """The number of bytes that it has passed on to the server."""
        return self._to_server

    @property
    def bytes_to_client(self) -> int:
        """The number of bytes passed on to clients (those that it swallowed do not count)."""
        return self._to_client

    def start(self) -> Self:
        """Listen."""
        self._thread.start()
        self._await(self._listen())
        return self

    def stop(self) -> None:
        """Close all connections and the port."""
        if self._loop.is_closed():
            return
        self._await(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Break all connections; ends `swallow_replies`, so that new ones get their replies."""

        def cut() -> None:
            self._swallowing = False
            for line in list(self._lines):
                line.abort()

        self._now(cut)

    def refuse(self) -> None:
        """Close new connections at once; those that stand are left alone."""
        self._now(lambda: setattr(self, "_allowed", 0))

    def accept(self, connections: int | None = None) -> None:
        """Let new connections through again: all, or the next so many and then no more."""
        self._now(lambda: setattr(self, "_allowed", connections))

    def freeze(self, *, to_server: bool = True, to_client: bool = True) -> None:
        """Hold what arrives, ends of connections included, as a half-dead network does."""

        def freeze() -> None:
            for towards_server, wanted in ((True, to_server), (False, to_client)):
                if wanted:
                    self._held.setdefault(towards_server, [])

        self._now(freeze)

    def thaw(self) -> None:
        """Pass on what was held, in order, and go on."""

        def thaw() -> None:
            held, self._held = self._held, {}
            for pass_on in [*held.get(True, []), *held.get(False, [])]:
                pass_on()

        self._now(thaw)

    def swallow_replies(self) -> None:
        """Let requests through and drop everything that comes back, until `cut`."""

        def swallow() -> None:
            self._swallowing = True
            self._swallowed = 0

        self._now(swallow)

    def wait_swallowed_reply(self, replies: int = 1, timeout_s: float = 10.0) -> None:
        """
        Wait until so many replies to requests were swallowed: their operations are decided.

        Replies to pings, watches that fired and the greeting of a new connection do not count.
        Raises `NothingSwallowed`.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._swallowed >= replies, timeout_s):
                raise NothingSwallowed(
                    f"{self._swallowed} of {replies} replies came from "
                    f"{self._target[0]}:{self._target[1]} within {timeout_s:g} s: was the request "
                    f"sent on a connection through {self.hosts}, after swallow_replies()?"
                )

    def wait_connections(self, connections: int, timeout_s: float = 10.0) -> None:
        """Wait until it has met so many connections in all, or raise `NotInTime`."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: self._connections + self._refused >= connections, timeout_s
            ):
                raise NotInTime(
                    f"Fewer than {connections} connections came to {self.hosts} "
                    f"within {timeout_s:g} s: is a client told of that address?"
                )

    def _run(self) -> None:
        """The thread's life."""
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _now(self, change: Callable[[], None]) -> None:
        """Have something changed in the loop's thread, and wait until it is."""

        async def run() -> None:
            """The change, as work for the loop."""
            change()

        self._await(run())

    def _await(self, work: Coroutine[None, None, None]) -> None:
        """Have the loop's thread finish a piece of work."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self) -> None:
        """Open the port."""
        self._server = await self._loop.create_server(lambda: _End(_Line(self), True), LOOPBACK, 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        """Close the port and all connections, and wait until they are closed."""
        assert self._server is not None
        self._server.close()
        self._held = {}
        for line in list(self._lines):
            line.abort()
        while self._lines or self._tasks:
            await asyncio.sleep(0)

    def admit(self, line: _Line) -> bool:
        """Tells whether a new connection may stand; run, like all below, by the loop's thread."""
        with self._changed:
            if self._allowed == 0:
                self._refused += 1
            else:
                self._connections += 1
                self._lines.add(line)
            self._changed.notify_all()
        if line not in self._lines:
            return False
        if self._allowed is not None:
            self._allowed -= 1
        task = self._loop.create_task(self._reach_the_server(line))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _reach_the_server(self, line: _Line) -> None:
        """Connect a client's new connection to the server, or close it."""
        deadline = self._loop.time() + self._patience_s
        while line in self._lines:
            try:
                await self._loop.create_connection(lambda: _End(line, False), *self._target)
                return
            except OSError:
                if self._loop.time() >= deadline:
                    line.abort()
                    return
            await asyncio.sleep(_RETRY_S)

    def when_it_flows(self, towards_server: bool, pass_on: Callable[[], None]) -> None:
        """Do something now, or when the direction is thawed."""
        held = self._held.get(towards_server)
        if held is None:
            pass_on()
        else:
            held.append(pass_on)

    def swallows(self, xids: list[int]) -> bool:
        """Tells whether replies are dropped; those that are, are counted."""
        if self._swallowing:
            with self._changed:
                self._swallowed += sum(xid not in _NO_REPLIES for xid in xids)
                self._changed.notify_all()
        return self._swallowing

    def count(self, towards_server: bool, size: int) -> None:
        """Count bytes that were passed on."""
        if towards_server:
            self._to_server += size
        else:
            self._to_client += size

    def remember(self, line: _Line) -> None:
        """An end of a connection stands."""
        self._lines.add(line)

    def forget(self, line: _Line) -> None:
        """Both ends of a connection are closed."""
        self._lines.discard(line)


class _End(asyncio.Protocol):
    """One end of a connection through the proxy."""

    def __init__(self, line: _Line, of_client: bool) -> None:
        self._line = line
        self._of_client = of_client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Someone connected to us, or we to the server."""
        assert isinstance(transport, asyncio.Transport)
        self._line.opened(self._of_client, transport)

    def data_received(self, data: bytes) -> None:
        """Bytes came in at this end."""
        self._line.arrived(self._of_client, data)

    def connection_lost(self, _why: Exception | None) -> None:
        """This end is closed."""
        self._line.ended(self._of_client)


class _Line:
    """A connection through it; `True` is the client's end, and the way to the server."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy
        self._ends: dict[bool, asyncio.Transport] = {}
        self._early: list[bytes] = []
        self._replies = _Replies()
        self._aborted = False

    def opened(self, of_client: bool, transport: asyncio.Transport) -> None:
        """One end stands."""
        if self._aborted or (of_client and not self._proxy.admit(self)):
            transport.abort()
            return
        self._ends[of_client] = transport
        if not of_client:
            self._proxy.remember(self)  # its client may have gone, unseen by the server so far
            for data in self._early:
                self._forward(True, data)

    def arrived(self, of_client: bool, data: bytes) -> None:
        """Bytes came in at one end, for the other."""
        self._proxy.when_it_flows(of_client, lambda: self._forward(of_client, data))

    def ended(self, of_client: bool) -> None:
        """One end is closed: so shall be the other, as soon as the word gets through."""
        self._ends.pop(of_client, None)
        self._proxy.when_it_flows(of_client, self._close)
        if not self._ends:
            self._proxy.forget(self)

    def abort(self) -> None:
        """Close both ends now."""
        self._aborted = True
        for end in list(self._ends.values()):
            end.abort()
        if not self._ends:
            self._proxy.forget(self)

    def _close(self) -> None:
        """Close what is still open, after what is still to be written."""
        self._aborted = True
        for end in list(self._ends.values()):
            end.close()

    def _forward(self, towards_server: bool, data: bytes) -> None:
        """Pass bytes on, keep them until the server is reached, or swallow them."""
        if not towards_server and self._proxy.swallows(self._replies.read(data)):
            return
        if towards_server and False not in self._ends and not self._aborted:
            self._early.append(data)
            return
        if (end := self._ends.get(not towards_server)) is not None:
            self._proxy.count(towards_server, len(data))
            end.write(data)


class _Replies:
    """Reads the xid of each frame that a server sends; the first, a greeting, has none."""

    def __init__(self) -> None:
        self._unread = bytearray()
        self._greeted = False
        self._is_zookeeper = True

    def read(self, data: bytes) -> list[int]:
        """The xids of the frames that are complete with these bytes."""
        xids: list[int] = []
        self._unread += data if self._is_zookeeper else b""
        while len(self._unread) >= _INT.size:
            size = _INT.unpack_from(self._unread)[0]
            if not _INT.size <= size <= _LARGEST_FRAME:
                self._is_zookeeper = False  # a four-letter word's answer, for instance
                self._unread.clear()
            elif len(self._unread) < _INT.size + size:
                break
            else:
                if self._greeted:
                    xids.append(_INT.unpack_from(self._unread, _INT.size)[0])
                self._greeted = True
                del self._unread[: _INT.size + size]
        return xids
