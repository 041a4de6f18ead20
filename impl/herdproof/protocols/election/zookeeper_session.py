"""
ZooKeeper as a coordinator's loop sees it: one session, for the election and for its core alike.

Why one session, where the elector could have one of its own: then a broken connection *is* a
deposition. Whoever leads has, on that very connection, the watches and the order of answers that
its knowledge rests on; with two sessions a coordinator could lead on while its reads and watches
are dead. What ZooKeeper refuses to the one, it refuses to the other.

ZooKeeper forgets watches with their connection. So when a connection is there again, every watch
that was lost is said to have fired: whoever left it reads anew, which is all that a watch is for.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from herdproof.protocols.election.elector import ElectionPaths
from herdproof.protocols.election.shell import ZkElection
from herdproof.shells.configuration import ZooKeeperSection
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Exists,
    Get,
    Link,
    NodeChange,
    Operation,
    Watched,
)

CHILDREN, DATA = NodeChange.CHILDREN, NodeChange.DATA

PORTION_S = 0.005
"""Longest time that the loop hears what ZooKeeper told before others have their turn."""

FIRES = {
    NodeChange.CREATED: (DATA,),
    NodeChange.DATA: (DATA,),
    NodeChange.CHILDREN: (CHILDREN,),
    NodeChange.DELETED: (DATA, CHILDREN),
}
"""Which of the two kinds of watches each change fires."""


class SessionListener(Protocol):
    """Who is told; always by the loop's thread, in order."""

    def elected(self, epoch: int) -> None:
        """This broker leads."""

    def deposed(self, epoch: int) -> None:
        """It leads no more."""

    def fired(self, watched: Watched) -> None:
        """A watch fired that was left by `submit`, or may have."""

    def linked(self, link: Link) -> None:
        """The link to ZooKeeper changed."""

    def over(self) -> None:
        """The session is closed, or the elector has failed: nothing more comes."""

    def asked(self, operation: Operation, answer: Answer, seconds: float) -> None:
        """An operation was answered after so long."""


class ZooKeeperSession:
    """The session of broker `broker_id`; made within the loop that its owner lives in."""

    def __init__(
        self,
        settings: ZooKeeperSection,
        broker_id: int,
        paths: ElectionPaths,
        owner: SessionListener,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._watches: set[tuple[str, NodeChange]] = set()
        self._lost: set[tuple[str, NodeChange]] = set()
        self._told: deque[Callable[[], None]] = deque()
        """Calls that another thread has handed over, and the loop has not made yet."""
        self._is_called = False
        """The loop was asked to hear it."""
        self._election = ZkElection(
            settings.hosts,
            str(broker_id),
            on_elected=self._teller(owner.elected),
            on_deposed=self._teller(owner.deposed),
            session_timeout_s=settings.session_timeout_ms / 1000,
            paths=paths,
            digest=settings.digest(),
            on_link=self._teller(self._link_changed),
            on_watch=self._teller(self._watch_fired),
            on_over=self._teller(owner.over),
        )

    @property
    def session(self) -> int:
        """The session's id; 0 before the first."""
        return self._election.client.session

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout that ZooKeeper has granted; 0 before the first connection."""
        return round(self._election.client.negotiated_timeout_s * 1000)

    async def start(self, timeout_s: float) -> None:
        """Connect; raises `ZooKeeperUnreachable`."""
        await asyncio.to_thread(self._election.start, timeout_s)

    def stand(self) -> None:
        """Take part in the election."""
        self._election.stand()

    def resign(self) -> None:
        """Take part in it no more; a leader is deposed."""
        self._election.resign()

    async def close(self) -> None:
        """Resign, and end the session: its nodes are gone. What is still asked is refused."""
        await asyncio.to_thread(self._election.close)

    def submit(self, operation: Operation, tell: Callable[[Answer], None]) -> None:
        """Send an operation; its answer is told by the loop. The client's promises hold."""
        if isinstance(operation, Get | Exists | Children) and operation.watch:
            kind = CHILDREN if isinstance(operation, Children) else DATA
            self._watches.add((operation.path, kind))
        answered = partial(self._answered, operation, time.perf_counter(), tell)
        self._election.client.submit(operation, self._teller(answered))

    def _answered(
        self, operation: Operation, since: float, tell: Callable[[Answer], None], answer: Answer
    ) -> None:
        self._owner.asked(operation, answer, time.perf_counter() - since)
        tell(answer)

    async def ask(self, operation: Operation) -> Answer:
        """Send an operation and wait for its answer."""
        told: asyncio.Future[Answer] = self._loop.create_future()
        self.submit(operation, lambda answer: None if told.done() else told.set_result(answer))
        return await told

    def _teller(self, tell: Callable[..., None]) -> Callable[..., None]:
        """Have the loop's thread call `tell`; when the loop has ended, nobody wants to know."""
        return partial(self._hand_over, tell)

    def _hand_over(self, tell: Callable[..., None], *what: object) -> None:
        """Have this told by the loop's thread; run by any."""
        self._told.append(partial(tell, *what))
        self._call()

    def _call(self) -> None:
        """Ask the loop to hear what was told, once for all that is told until it does."""
        if not self._is_called:
            self._is_called = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        """Hear what was told, in order, for a while."""
        self._is_called = False  # whatever is told from now on asks again
        end = time.perf_counter() + PORTION_S
        try:
            while self._told and time.perf_counter() < end:
                self._told.popleft()()
        finally:
            if self._told:
                self._call()

    def _link_changed(self, link: Link, _session: int) -> None:
        """Keep the watches that a lost connection took, and say that they fired on the next."""
        if link is Link.CONNECTED:
            lost, self._lost = self._lost, set()
        else:
            lost = set()
            self._lost |= self._watches
            self._watches.clear()
        self._owner.linked(link)
        # Before whatever else was told, but not all at once: there may be thousands.
        again = [Watched(path, kind) for path, kind in sorted(lost, key=str)]
        self._told.extendleft(partial(self._owner.fired, watched) for watched in reversed(again))

    def _watch_fired(self, watched: Watched) -> None:
        """Tell of it, unless it was the elector's alone."""
        left = {(watched.path, kind) for kind in FIRES[watched.change]} & self._watches
        if left:
            self._watches -= left
            self._owner.fired(watched)
