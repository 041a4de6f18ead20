"""
Connections that peers make, with the limits that every peer meets, whatever the wire.

A new connection has to send something whole in time, whatever was begun has to become whole in
time, and a connection that is closed has to take what is still unsent in time.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from herdproof.shells.configuration import Listener


class LimitedConnection(asyncio.Protocol, ABC):
    """One connection; `number` is what its owner calls it."""

    def __init__(self, limits: Listener) -> None:
        self.number = 0
        self.peer = ""
        self._limits = limits
        self._deadline: asyncio.TimerHandle | None = None
        self._ended = False
        """Nothing is taken or sent any more."""
        self._over = False
        """The transport is gone."""

    # ── What a wire says of itself ──────────────────────────────────────────────────────────

    @property
    @abstractmethod
    def _begun(self) -> bool:
        """Tells whether a frame has begun to come, and is not whole yet."""

    @abstractmethod
    def _tell_opened(self) -> None:
        """Tell the owner that somebody connected."""

    @abstractmethod
    def _tell_cut(self, reason: str, error: Any) -> None:
        """Tell the owner that this end ended the connection, for this reason (a word or two)."""

    @abstractmethod
    def _tell_closed(self) -> None:
        """Tell the owner that the connection is over: last, and once."""

    # ── What the owner asks for ─────────────────────────────────────────────────────────────

    def close(self) -> None:
        """End the connection once what was sent on it is sent, or `close_timeout_ms` are over."""
        if self._ended:
            return
        self._ended = True
        self._give_up_deadline()
        self._transport.close()
        self._deadline = self._after(self._limits.close_timeout_ms, self._transport.abort)

    def abort(self) -> None:
        """End the connection now, if it is not over."""
        self._ended = True
        if not self._over:
            self._transport.abort()

    # ── What the loop tells ─────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self.peer = "{}:{}".format(*(transport.get_extra_info("peername") or ("?", "?"))[:2])
        transport.set_write_buffer_limits(high=self._limits.max_unsent_bytes)
        self._deadline = self._after(self._limits.frame_timeout_ms, self._silent)
        self._tell_opened()

    def connection_lost(self, _why: Exception | None) -> None:
        """The connection is over, whoever ended it."""
        self._ended = self._over = True
        self._give_up_deadline()
        # By this a transport of asyncio's holds itself: it would stay until all garbage is sought.
        vars(self._transport).pop("_read_ready_cb", None)
        self._tell_closed()

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    def _watch_the_begun_frame(self) -> None:
        """A frame that was begun has to become whole in time."""
        if self._deadline is None and self._begun:
            self._deadline = self._after(self._limits.frame_timeout_ms, self._silent)

    def _silent(self) -> None:
        """A first frame did not come, or a frame did not become whole."""
        self._deadline = None
        self._cut("no whole frame in time", None)

    def _cut(self, reason: str, error: Any) -> None:
        """End the connection for a reason of this end's own."""
        self.close()
        self._tell_cut(reason, error)

    def _after(self, milliseconds: int, what: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later(milliseconds / 1000, what)

    def _give_up_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
