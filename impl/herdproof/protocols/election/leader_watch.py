"""Who leads, by ZooKeeper, for a broker that does not: looked at anew whenever it may change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from herdproof.protocols.election.elector import read_leader
from herdproof.zookeeper.operations import Answer, Data, Get, Operation, Watched

LOOK_AGAIN_S = 0.2
"""The time until it looks again, where nobody leads: nothing tells that somebody does."""


class LeaderWatch:
    """
    Tells the name of who leads from `path`; "" while nobody does, or nobody but `own`.

    Made in a running loop. Its owner calls `look` once it is connected, and `fired` with each watch
    that fires.
    """

    def __init__(
        self, path: str, own: str, submit: Callable[[Operation, Callable[[Answer], None]], None],
        tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._get = Get(path, watch=True)
        self._own = own
        self._submit = submit
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Look now."""
        self.rest()
        self._submit(self._get, self._told)

    def look_soon(self) -> None:
        """Look in a while."""
        self.rest()
        self._again = self._loop.call_later(LOOK_AGAIN_S, self.look)

    def rest(self) -> None:
        """Look no more, until a watch fires or somebody asks."""
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def fired(self, watched: Watched) -> None:
        """Look, if it is about the leader."""
        if watched.path == self._get.path:
            self.look()

    def _told(self, answer: Answer) -> None:
        name = read_leader(answer.data)[0] if isinstance(answer, Data) else ""
        if not name:
            self.look_soon()
        self._tell("" if name == self._own else name)
