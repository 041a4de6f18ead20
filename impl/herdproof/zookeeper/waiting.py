"""Waiting on kazoo's behalf: for its sockets, and for what a submitter has put into its queue."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Sequence
from typing import Protocol


class Pollable(Protocol):
    """A socket, or what stands for one."""

    def fileno(self) -> int:
        """Its file descriptor."""


def ready(
    readers: Sequence[Pollable], writers: Sequence[Pollable],
    _exceptional: Sequence[Pollable], timeout: float | None = None,
) -> tuple[list[Pollable], list[Pollable], list[Pollable]]:  # fmt: skip
    """
    The sockets among these that can be read, and written, after `timeout` seconds at most.

    kazoo waits five times for each request, and makes an epoll for each of these.
    """
    poller = select.poll()
    for flag, sockets in ((select.POLLIN, readers), (select.POLLOUT, writers)):
        for one in sockets:
            poller.register(one, flag)
    found = {fd for fd, _ in poller.poll(None if timeout is None else timeout * 1000)}
    can_be_read, can_be_written = (
        [one for one in sockets if one.fileno() in found] for sockets in (readers, writers)
    )
    return can_be_read, can_be_written, []


class Doorbell:
    """
    Both ends of kazoo's wake-up line: rung for each request, heard by the connection's thread.

    kazoo's own line holds one byte for each request and blocks the submitter when some 280 are in
    it, as long as no connection comes about. Here one byte stands for any number of requests.
    """

    def __init__(self, waiting: Callable[[], bool]) -> None:
        self._waiting = waiting
        self._ear, self._button = socket.socketpair()
        self._ear.setblocking(False)
        self._button.setblocking(False)

    def fileno(self) -> int:
        """The file descriptor that kazoo selects on."""
        return self._ear.fileno()

    def send(self, ring: bytes) -> int:
        """Ring; a bell that is ringing need not be rung."""
        with contextlib.suppress(BlockingIOError):
            self._button.send(ring)
        return len(ring)

    def recv(self, _size: int) -> bytes:
        """One request was taken: silence the bell, then ring again if there are more."""
        with contextlib.suppress(BlockingIOError):
            self._ear.recv(4096)
        if self._waiting():
            self.send(b"\0")
        return b"\0"

    def close(self) -> None:
        """Close both ends."""
        self._ear.close()
        self._button.close()
