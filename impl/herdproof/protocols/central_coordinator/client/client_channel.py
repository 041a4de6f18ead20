"""
A consumer's end of a connection: bytes in, frames out, and back; it decides nothing.

It tells its owner, in order: `connected` or `failed`, then each frame, and `closed` once at the
end, whoever ended it. After `close` it tells nothing more of what still comes, but `closed`.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Protocol

from herdproof.protocols.central_coordinator.wire.conversation import Conversation
from herdproof.protocols.central_coordinator.wire.errors import Unsendable, WireError
from herdproof.protocols.central_coordinator.wire.framing import Form
from herdproof.protocols.central_coordinator.wire.messages import Frame

LINGER_S = 2.0
"""Longest time that what was sent may take to leave after `close`."""


class ClientOwner(Protocol):
    """Whose the channels are."""

    def connected(self, number: int) -> None:
        """The connection stands."""

    def failed(self, number: int, why: str) -> None:
        """The connection cannot be had."""

    def received(self, number: int, frame: Frame) -> None:
        """A frame came."""

    def closed(self, number: int, why: str) -> None:
        """The connection is over; `why` is empty where both ends just closed it."""


class ClientChannel(asyncio.Protocol):
    """One connection to a broker; made in the loop that it lives in."""

    def __init__(
        self, owner: ClientOwner, number: int, host: str, port: int, tls: ssl.SSLContext | None
    ) -> None:
        self.number = number
        self._owner = owner
        self._conversation = Conversation(Form.VERSION_1)
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self._why = ""
        self._loop = asyncio.get_running_loop()
        self._dialling = self._loop.create_task(self._dial(host, port, tls))

    @property
    def stands(self) -> bool:
        """True if it was connected: then, and only then, `closed` will be told."""
        return self._transport is not None

    def send(self, frame: Frame) -> None:
        """Send a frame; one that this wire cannot carry ends the connection."""
        if self._ended or self._transport is None:
            return
        try:
            self._transport.write(self._conversation.encode(frame))
        except Unsendable as error:
            self._cut(str(error))

    def close(self) -> None:
        """End it, once what was sent has left."""
        self._ended = True
        if self._transport is None:
            self._dialling.cancel()
        else:
            self._transport.close()
            self._loop.call_later(LINGER_S, self._transport.abort)

    async def _dial(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        try:
            await self._loop.create_connection(lambda: self, host, port, ssl=tls)
        except (OSError, ValueError) as problem:  # ValueError: no such host name can be
            self._ended = True
            self._owner.failed(self.number, str(problem))

    # ── What the loop tells ─────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands, unless nobody wants it any more."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._ended:
            transport.abort()
        else:
            self._owner.connected(self.number)

    def data_received(self, data: bytes) -> None:
        """Bytes came: give the frames that are whole."""
        if self._ended:
            return
        try:
            for frame in self._conversation.feed(data):
                self._owner.received(self.number, frame)
                if self._ended:
                    return
        except WireError as error:
            assert self._transport is not None
            self._transport.write(self._conversation.refusal(error))
            self._cut(f"what it sent cannot be read: {error}")

    def connection_lost(self, problem: Exception | None) -> None:
        """The connection is over."""
        self._ended = True
        self._owner.closed(self.number, self._why or str(problem or ""))

    def _cut(self, why: str) -> None:
        self._why = why
        self.close()
