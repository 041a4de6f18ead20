"""
The queues between fetchers and application, one for each stream, and what the application took.

Three sides meet here, each in threads of its own: the session (which opens and closes), the
fetchers (which fill) and the application (which takes). What binds them:

- once `stop` has returned, nothing of before is handed out any more: the answer to a Stop says so;
- nothing is handed out when the lease is over, whether or not anybody has noticed;
- a record is finished when its reader asks for the next one, and only then counts as consumed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from herdproof.errors import HerdError
from herdproof.protocols.central_coordinator.client.clock import now_ms
from herdproof.protocols.central_coordinator.events import Consumed, StartFetchers
from herdproof.protocols.central_coordinator.wire.messages import Offset
from herdproof.protocols.central_coordinator.wire.partition import number_of
from herdproof.record import Record


class Reader:
    """Who takes records, from one queue or (None) from all; it holds at most one at a time."""

    def __init__(self, queue: int | None = None) -> None:
        self.queue = queue
        self.held: Record | None = None


class Streams:
    """
    The queues of one consumer.

    `max_records` and `max_bytes` bound each queue: `is_full` tells fetchers to pause. `clock` is
    that of the lease, in milliseconds.
    """

    def __init__(
        self, max_records: int = 5_000, max_bytes: int = 16 * 2**20,
        clock: Callable[[], int] = now_ms,
    ) -> None:  # fmt: skip
        self.max_records = max_records
        self.max_bytes = max_bytes
        self._clock = clock
        self._changed = threading.Condition()
        self._queues: dict[int, deque[Record]] = {}
        self._bytes: dict[int, int] = {}
        self._turn = 0
        self._generation: int | None = None
        self._open = False
        self._until_ms = 0
        self._names: Mapping[tuple[str, int], str] = {}
        self._consumed: dict[tuple[str, str, int], int] = {}
        self._ended = False
        self._error: HerdError | None = None

    # ── The session ─────────────────────────────────────────────────────────────────────────

    def begin(self, start: StartFetchers, *, is_open: bool) -> None:
        """Take records of this assignment; hand them out at once, or after `open`."""
        with self._changed:
            self._clear()
            self._generation = start.generation
            self._open = is_open
            self._names = {
                (offset.topic, number_of(offset.partition)): offset.partition
                for offset in start.partitions
            }
            for queue in start.queues:
                self._queues.setdefault(queue, deque())
            self._changed.notify_all()

    def open(self, generation: int) -> None:
        """Hand out what is taken, if it is still this assignment's."""
        with self._changed:
            self._open = self._open or generation == self._generation
            self._changed.notify_all()

    def stop(self) -> None:
        """Clear the queues; from now on nothing of this assignment is handed out."""
        with self._changed:
            self._clear()
            self._generation = None
            self._open = False

    def hand_out_until(self, time_ms: int) -> None:
        """The lease's end, as the core has it now."""
        with self._changed:
            self._until_ms = time_ms
            self._changed.notify_all()  # what waited for a late ping may go on

    def consumed(self) -> list[Consumed]:
        """What was finished since this was asked last: the core must be told before it answers."""
        with self._changed:
            consumed, self._consumed = self._consumed, {}
        return [
            Consumed(Offset(topic, partition, offset), generation)
            for (topic, partition, generation), offset in consumed.items()
        ]

    def end(self, error: HerdError | None = None) -> None:
        """No record comes any more; readers are told so, or raise this error."""
        with self._changed:
            self._ended = True
            self._error = self._error or error
            self._changed.notify_all()

    # ── Fetchers ────────────────────────────────────────────────────────────────────────────

    def put(self, generation: int, queue: int, records: Iterable[Record]) -> None:
        """Take fetched records, in order; those of a past assignment are dropped."""
        with self._changed:
            if generation != self._generation:
                return
            waiting = self._queues[queue]
            for record in records:
                waiting.append(record)
                self._bytes[queue] = self._bytes.get(queue, 0) + _size(record)
            self._changed.notify_all()

    def is_full(self, queue: int, share: float = 1.0) -> bool:
        """Whether a queue holds as much as it may, or as this share of it."""
        with self._changed:
            return (
                len(self._queues.get(queue, ())) >= share * self.max_records
                or self._bytes.get(queue, 0) >= share * self.max_bytes
            )

    def waiting(self, queue: int) -> int:
        """How many records a queue holds."""
        with self._changed:
            return len(self._queues.get(queue, ()))

    # ── The application ─────────────────────────────────────────────────────────────────────

    def take(self, reader: Reader, timeout_s: float | None = None) -> Record | None:
        """
        The next record for this reader, whose last one is finished by asking.

        Waits for one, `timeout_s` seconds at most; None if none came, or none will (`ended`).
        Raises the error that ended it.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            self._finish(reader)
            while not self._ended:
                if (record := self._next(reader)) is not None:
                    reader.held = record
                    return record
                left_s = None if deadline is None else deadline - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return None
                self._changed.wait(left_s)
            if self._error is not None:
                raise self._error
            return None

    @property
    def ended(self) -> bool:
        """Whether no record comes any more."""
        return self._ended

    # ── Parts, under the lock ───────────────────────────────────────────────────────────────

    def _finish(self, reader: Reader) -> None:
        record, reader.held = reader.held, None
        if record is None:
            return
        # Whether the assignment still stands is for the core to say.
        name = self._names.get((record.topic, record.partition), str(record.partition))
        self._consumed[record.topic, name, record.generation] = record.offset + 1

    def _next(self, reader: Reader) -> Record | None:
        if not self._open or self._clock() >= self._until_ms:
            return None
        queue = self._filled() if reader.queue is None else reader.queue
        if queue is None or not self._queues.get(queue):
            return None
        record = self._queues[queue].popleft()
        self._bytes[queue] -= _size(record)
        return record

    def _filled(self) -> int | None:
        """A queue that is not empty: all get their turn."""
        queues: Sequence[int] = list(self._queues)
        for place in range(len(queues)):
            queue = queues[(self._turn + place) % len(queues)]
            if self._queues[queue]:
                self._turn = (self._turn + place + 1) % len(queues)
                return queue
        return None

    def _clear(self) -> None:
        self._queues.clear()
        self._bytes.clear()
        self._turn = 0


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
