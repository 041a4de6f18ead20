"""A port to listen on, with the limits and the TLS of the settings."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable

from herdproof.errors import WorldError
from herdproof.shells.configuration import Listener
from herdproof.shells.logs import fields
from herdproof.shells.tls import Tls, server_context

log = logging.getLogger(__name__)

BACKLOG = 1024
"""Connections that wait to be accepted: after a failover all consumers come at once."""
AT_ONCE = 32
"""Number of connections that are taken on at a time, before others have their turn."""
HANDSHAKES = 256
"""
The number of TLS handshakes under way at once; each costs some 300 kB, whoever it is.

One more takes the place of the oldest: who means it has done with its own in a moment.
"""


class CannotListen(WorldError):
    """The address to listen on is not to be had."""


async def listen(
    connection: Callable[[], asyncio.Protocol], limits: Listener, tls: Tls | None
) -> asyncio.Server:
    """Open the port, in the running loop; raises `CannotListen` and `BadTls`."""
    if tls is not None:
        threshold = Threshold(connection, limits, server_context(tls))
        connection = threshold.arrival
    try:
        server = await asyncio.get_running_loop().create_server(
            connection, limits.host, limits.port, backlog=AT_ONCE
        )
    except OSError as problem:
        raise CannotListen(
            f"{limits.host}:{limits.port} cannot be listened on "
            f"({problem.strerror or problem}): "
            f"{remedy(problem, 'choose another --port (0 takes a free one), or end what has it')}."
        ) from problem
    for shared in server.sockets:  # asyncio takes on at a time as many as may wait
        with socket.fromfd(shared.fileno(), shared.family, shared.type) as same:
            same.listen(BACKLOG)
    return server


def remedy(problem: OSError, port: str) -> str:
    """Advice to one who cannot listen: `port` says what to do about the port."""
    if isinstance(problem, socket.gaierror) or problem.errno == errno.EADDRNOTAVAIL:
        return "choose a host that is an address of this machine"
    return port


class Threshold:
    """The connections whose handshake is under way, the oldest first."""

    def __init__(
        self, connection: Callable[[], asyncio.Protocol], limits: Listener, tls: ssl.SSLContext
    ) -> None:
        self.connection = connection
        self.limits = limits
        self.tls = tls
        self.waiting: dict[Arrival, None] = {}

    def arrival(self) -> asyncio.Protocol:
        """The protocol that a new connection comes to first."""
        return Arrival(self)

    def enter(self, arrival: Arrival) -> None:
        """A connection waits for its handshake."""
        if len(self.waiting) >= HANDSHAKES:
            next(iter(self.waiting)).give_up()
        self.waiting[arrival] = None


class Arrival(asyncio.Protocol):
    """One connection until its handshake is done; what comes right behind that is kept for it."""

    def __init__(self, threshold: Threshold) -> None:
        self._threshold = threshold
        self._early = bytearray()
        self._over = False

    # ── What the loop tells ─────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected: shake hands."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._threshold.enter(self)
        self._shaking = asyncio.get_running_loop().create_task(self._shake_hands())

    def data_received(self, data: bytes) -> None:
        """The peer speaks already."""
        self._early += data

    def connection_lost(self, _why: Exception | None) -> None:
        """The connection is over."""
        self._over = True

    def give_up(self) -> None:
        """Somebody else needs the place."""
        self._threshold.waiting.pop(self, None)
        self._tell("more connections came than there may be handshakes at once")
        self._shaking.cancel()
        self._transport.abort()

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    async def _shake_hands(self) -> None:
        limits = self._threshold.limits
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self._transport, self, self._threshold.tls, server_side=True,
                ssl_handshake_timeout=limits.frame_timeout_ms / 1000,
                ssl_shutdown_timeout=limits.close_timeout_ms / 1000,
            )  # fmt: skip
        except (OSError, EOFError) as problem:  # what TLS refuses is an OSError, too
            self._tell(getattr(problem, "reason", None) or str(problem) or "the peer has gone")
            self._transport.abort()
            return
        finally:
            self._threshold.waiting.pop(self, None)
        if secured is not None:
            self._let_in(secured)

    def _let_in(self, secured: asyncio.Transport) -> None:
        """From now on the connection is its owner's."""
        if self._over:
            return
        connection = self._threshold.connection()
        secured.set_protocol(connection)
        connection.connection_made(secured)
        if self._early:
            connection.data_received(bytes(self._early))

    def _tell(self, why: str) -> None:
        peer = "{}:{}".format(*(self._transport.get_extra_info("peername") or ("?", "?"))[:2])
        log.warning("TLS handshake failed", extra=fields(peer=peer, why=why))
