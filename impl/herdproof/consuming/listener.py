"""
The user's rebalance listener, heard in a thread of its own.

It may take its time, and commit, without holding up the answers to pings; only the answer to a
Stop waits for it, and the first record of an assignment.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from herdproof.record import TopicPartition

log = logging.getLogger(__name__)


class RebalanceListener:
    """
    To be told of assignments: override what you want to hear.

    Both are called in one thread, in turns, never at once. An exception is logged, and counts as a
    return.
    """

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are consumed here now; their first record comes when this returns."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """
        These partitions are no longer consumed here: no record of theirs comes any more.

        As long as this has not returned, nobody else gets them, and `commit` works; unless it takes
        longer than the session time-out, or the connection to the coordinator was lost: then they
        may be another's already, and a commit says so. The application may still be at a record
        that it has taken before.
        """


class ListenerThread:
    """Calls a listener, in order; `close` waits for the call that runs."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener = listener
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="herdproof-listener", daemon=True)
        self._thread.start()

    def assigned(self, partitions: Sequence[TopicPartition], then: Callable[[], None]) -> None:
        """Tell of an assignment; `then` is called when the listener has returned."""
        self._calls.put(lambda: self._tell(self._listener.on_assigned, partitions, then))

    def revoked(self, partitions: Sequence[TopicPartition], then: Callable[[], None]) -> None:
        """Tell of a revocation; `then` is called when the listener has returned."""
        self._calls.put(lambda: self._tell(self._listener.on_revoked, partitions, then))

    def close(self, timeout_s: float) -> None:
        """Let what was put before be told, and end."""
        self._calls.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def _tell(
        self, listener: Callable[[Sequence[TopicPartition]], None],
        partitions: Sequence[TopicPartition], then: Callable[[], None],
    ) -> None:  # fmt: skip
        try:
            listener(partitions)
        except Exception:
            log.exception("The rebalance listener failed.")
        finally:
            then()
