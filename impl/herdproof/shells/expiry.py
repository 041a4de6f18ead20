"""
The request-expiry purgatory: what happens at a time, unless it is cleared before.

A watcher is set on a request and cleared by its response (`002`: "initializes an expire watcher for
the request … when it received the corresponding response it needs to clear the watcher"). Leases,
grace periods and back-offs wait here too. A key names what is waited for; setting a watcher on it
again replaces the one before.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TypeAlias

Key: TypeAlias = tuple[str, int | str | tuple[str, str]]
"""The key of what is waited for: a kind, and whose."""
Expired: TypeAlias = Callable[[], None]

AT_ONCE = 256
"""The number of watchers that expire in one event: all of a large crowd would hold up all else."""


class Purgatory:
    """Watchers by key, and a priority queue of when they expire (in ms)."""

    def __init__(self) -> None:
        self.watchers: dict[Key, tuple[int, Expired]] = {}
        self._queue: list[tuple[int, int, Key]] = []
        self._number = 0

    def watch(self, key: Key, due_ms: int, expired: Expired) -> None:
        """Call `expired` once it is `due_ms`, unless the key is cleared or watched anew."""
        self._number += 1
        self.watchers[key] = (self._number, expired)
        heapq.heappush(self._queue, (due_ms, self._number, key))

    def clear(self, key: Key) -> None:
        """It has happened, or is no longer waited for; nothing is wrong if it never was."""
        self.watchers.pop(key, None)

    def clear_all(self) -> None:
        """Nothing is waited for any more."""
        self.watchers.clear()
        self._queue.clear()

    def due(self) -> int | None:
        """When the next watcher expires, if there is one."""
        self._drop_cleared()
        return self._queue[0][0] if self._queue else None

    def expire(self, now_ms: int, most: int = AT_ONCE) -> None:
        """Call what is due, not too much at once: what `due` says then is due already."""
        for _ in range(min(most, AT_ONCE)):
            due = self.due()
            if due is None or due > now_ms:
                return
            _, _, key = heapq.heappop(self._queue)
            _, expired = self.watchers.pop(key)
            expired()

    def _drop_cleared(self) -> None:
        """Take from the queue's head what was cleared or replaced."""
        while self._queue:
            _, number, key = self._queue[0]
            watcher = self.watchers.get(key)
            if watcher is not None and watcher[0] == number:
                return
            heapq.heappop(self._queue)
