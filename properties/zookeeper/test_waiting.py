"""Waiting for sockets on kazoo's behalf: who can be read, who can be written, and for how long."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from herdproof.zookeeper.waiting import ready

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two sockets that are connected."""
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_who_can_be_read_is_told_apart(pair: Pair) -> None:
    """Of two that are waited for, the one to which something was sent is told."""
    one, other = pair
    other.send(b"x")

    assert ready([one, other], [], [], 5.0) == ([one], [], [])


def test_who_can_be_written_is_told(pair: Pair) -> None:
    """A socket with room can be written at once; another, of which nothing came, not be read."""
    one, other = pair

    assert ready([other], [one], [], 5.0) == ([], [one], [])


def test_an_end_can_be_read(pair: Pair) -> None:
    """A peer that is gone is noticed: its end can be read."""
    one, other = pair
    other.close()

    assert ready([one], [], [], 5.0) == ([one], [], [])


def test_nothing_is_told_when_time_is_over(pair: Pair) -> None:
    """Whoever waits in vain goes on when its time is over, in seconds, and not before."""
    begun = time.monotonic()

    assert ready([pair[0]], [], [], 0.05) == ([], [], [])
    assert time.monotonic() - begun >= 0.05
