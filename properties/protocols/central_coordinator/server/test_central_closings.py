"""A coordinator that is deposed closes all its connections, in portions of its loop's time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from herdproof.protocols.central_coordinator.events import Deposed, Elected
from herdproof.protocols.central_coordinator.server import server
from herdproof.protocols.central_coordinator.server.configuration import Configuration
from herdproof.protocols.central_coordinator.server.metrics import Metrics
from herdproof.protocols.central_coordinator.server.server import CLOSED_AT_ONCE, Server


class NoKeeper:
    """A ZooKeeper that never answers."""

    def __init__(self, *_: object) -> None:
        self.session = 0

    def submit(self, *_: object) -> None:
        """Answer nothing."""

    ask = submit


class Peer:
    """A connection, which only counts."""

    def __init__(self, closed: list[int]) -> None:
        self.number, self.peer, self._closed = 0, "127.0.0.1:1", closed

    def close(self) -> None:
        """Take note of it."""
        self._closed.append(self.number)


def test_all_connections_are_closed_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, others have their turn meanwhile; their order is kept."""
    monkeypatch.setattr(server, "ZooKeeperSession", NoKeeper)
    many, closed = 5 * CLOSED_AT_ONCE, list[int]()

    async def deposed() -> list[int]:
        """The number of those that are closed, turn by turn of the loop."""
        made: Any = Server(Configuration(broker_id=1), Metrics())
        made.give(Elected(1))
        for _ in range(many):
            made.opened(Peer(closed))
        made.give(Deposed(1))
        turns = [len(closed)]
        while len(closed) < many:
            await asyncio.sleep(0)
            turns.append(len(closed))
        return turns

    turns, portion = asyncio.run(deposed()), CLOSED_AT_ONCE

    assert closed == list(range(1, many + 1))
    assert max(after - before for before, after in zip([0, *turns], turns, strict=False)) == portion
