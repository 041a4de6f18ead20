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
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from herdproof.consuming.events import Consumed, StartFetchers
from herdproof.consuming.offsets import NO_OFFSET, Offset, number_of
from herdproof.errors import HerdError
from herdproof.record import Record
from herdproof.shells.clock import now_ms

Place: TypeAlias = tuple[str, int]
"""A topic, and the number of a partition."""


class RecordReader:
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
        self._names: Mapping[Place, str] = {}
        self._queue_of: Mapping[Place, int] = {}
        self._aside: dict[Place, deque[Record]] = {}
        """Of partitions that are paused, the records that were fetched before."""
        self._sought: set[Place] = set()
        """Partitions whose fetcher has not heard yet from where on it is to fetch."""
        self._positions: dict[Place, int] = {}
        self._finished: dict[Place, int] = {}
        self._stored: dict[Place, int] = {}
        self._consumed: dict[tuple[str, str, int], int] = {}
        self._inside: Counter[int | None] = Counter()
        """Number of readers of each queue, or (None) of all, that wait for a record at present."""
        self._holding: Counter[int | None] = Counter()
        """Number of readers of each queue, or (None) of all, that hold a record."""
        self._asks: Counter[int | None] = Counter()
        self._asked = self._held = 0
        """Number of times that a record was asked for, and of records that readers hold."""
        self._ended = False
        self._error: HerdError | None = None

    # ── The session ─────────────────────────────────────────────────────────────────────────

    def begin(self, start: StartFetchers, *, is_open: bool) -> None:
        """Take records of this assignment; hand them out at once, or after `open`."""
        with self._changed:
            self._clear()
            self._generation = start.generation
            self._open = is_open
            places = [(o.topic, number_of(o.partition)) for o in start.partitions]
            self._names = dict(zip(places, (o.partition for o in start.partitions), strict=True))
            self._queue_of = dict(zip(places, start.queues, strict=True))
            self._positions = {
                place: offset.offset
                for place, offset in zip(places, start.partitions, strict=True)
                if offset.offset != NO_OFFSET
            }
            self._stored = dict(self._positions)
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
        """Records finished since this was asked last: the core must be told before it answers."""
        with self._changed:
            consumed, self._consumed = self._consumed, {}
        return [
            Consumed(Offset(topic, partition, offset), generation)
            for (topic, partition, generation), offset in consumed.items()
        ]

    def resolved(self, place: Place, offset: int) -> None:
        """Where a partition begins that had no offset."""
        with self._changed:
            if place in self._queue_of:
                self._positions[place] = self._stored[place] = offset

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
                place = record.topic, record.partition
                if place in self._sought:
                    continue
                if place in self._aside:
                    self._aside[place].append(record)
                    continue
                waiting.append(record)
                self._bytes[queue] = self._bytes.get(queue, 0) + _size(record)
            self._changed.notify_all()

    def fetches_from_there(self, place: Place) -> None:
        """The fetcher has heard of a `seek`: what it brings from now on is of there."""
        with self._changed:
            self._sought.discard(place)

    def is_full(self, queue: int, share: float = 1.0) -> bool:
        """True if a queue holds as much as it may, or as this share of it."""
        with self._changed:
            return (
                len(self._queues.get(queue, ())) >= share * self.max_records
                or self._bytes.get(queue, 0) >= share * self.max_bytes
            )

    def waiting(self, queue: int) -> int:
        """The number of records that a queue holds."""
        with self._changed:
            return len(self._queues.get(queue, ()))

    # ── The application ─────────────────────────────────────────────────────────────────────

    def take(self, reader: RecordReader, timeout_s: float | None = None) -> Record | None:
        """
        The next record for this reader, whose last one is finished by asking.

        Waits for one, `timeout_s` seconds at most; None if none came, or none will (`ended`).
        Raises the error that ended it.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            self._asked += 1
            self._asks[reader.queue] += 1
            self._finish(reader)
            self._inside[reader.queue] += 1
            try:
                return self._awaited(reader, deadline)
            finally:
                self._inside[reader.queue] -= 1

    def neglected(self) -> dict[int, int]:
        """
        The queues for whose records nobody asks at present, with how often somebody has.

        A record that is held counts as one that waits: what is behind it is not read.
        """
        with self._changed:
            return {
                queue: self._asks[queue] + self._asks[None]
                for queue, waiting in self._queues.items()
                if (waiting or self._holding[queue] or self._holding[None])
                and not (self._inside[queue] or self._inside[None] or self._ended)
            }

    def polls(self) -> tuple[int, bool]:
        """Number of requests for a record, and True while the application is at work on any."""
        with self._changed:
            return self._asked, self._held > 0

    def position(self, place: Place) -> int | None:
        """The offset of the next record of a partition; None where nobody knows, or has it."""
        with self._changed:
            return self._positions.get(place)

    def finished(self) -> dict[Place, int]:
        """By partition of this assignment, the first offset that is not finished with."""
        with self._changed:
            return dict(self._finished)

    def stored(self, place: Place) -> int | None:
        """The offset of a partition that is stored, as far as anybody was told."""
        with self._changed:
            return self._stored.get(place)

    def are_stored(self, offsets: Mapping[Place, int]) -> None:
        """A commit of these was accepted."""
        with self._changed:
            for place, offset in offsets.items():
                if place in self._queue_of:
                    self._stored[place] = max(offset, self._stored.get(place, 0))

    def generation_of(self, place: Place) -> int | None:
        """The assignment that a partition is in at present; None if it is in none."""
        with self._changed:
            return self._generation if place in self._queue_of else None

    def pause(self, place: Place) -> None:
        """Hand nothing of a partition out until `resume`; what is fetched is kept."""
        with self._changed:
            if place not in self._aside and place in self._queue_of:
                self._aside[place] = self._taken_out(place)

    def resume(self, place: Place) -> None:
        """Hand out what was kept, and what comes."""
        with self._changed:
            kept = self._aside.pop(place, None)
            if kept is not None:
                queue = self._queue_of[place]
                self._queues[queue].extend(kept)
                self._bytes[queue] = self._bytes.get(queue, 0) + sum(map(_size, kept))
                self._changed.notify_all()

    def paused(self) -> tuple[Place, ...]:
        """The partitions of which nothing is handed out."""
        with self._changed:
            return tuple(self._aside)

    def seek(self, place: Place, generation: int, offset: int) -> bool:
        """
        Go on from there: what was fetched is dropped, until the fetcher has heard of it.

        False, and nothing, where it is not known yet where the partition begins, or in another
        assignment: its fetcher would not hear of it.
        """
        with self._changed:
            if place not in self._positions or generation != self._generation:
                return False
            self._taken_out(place)
            if place in self._aside:
                self._aside[place].clear()
            self._sought.add(place)
            self._positions[place] = offset
            return True

    @property
    def ended(self) -> bool:
        """True if no record comes any more."""
        return self._ended

    # ── Parts, under the lock ───────────────────────────────────────────────────────────────

    def _awaited(self, reader: RecordReader, deadline: float | None) -> Record | None:
        while not self._ended:
            if (record := self._next(reader)) is not None:
                reader.held = record
                self._held += 1
                self._holding[reader.queue] += 1
                return record
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                return None
            self._changed.wait(left_s)
        if self._error is not None:
            raise self._error
        return None

    def _finish(self, reader: RecordReader) -> None:
        record, reader.held = reader.held, None
        if record is None:
            return
        self._held -= 1
        self._holding[reader.queue] -= 1
        # Whether the assignment still stands is for the core to say.
        name = self._names.get((record.topic, record.partition), str(record.partition))
        self._consumed[record.topic, name, record.generation] = record.offset + 1
        if record.generation == self._generation:
            self._finished[record.topic, record.partition] = record.offset + 1

    def _next(self, reader: RecordReader) -> Record | None:
        if not self._open or self._clock() >= self._until_ms:
            return None
        queue = self._filled() if reader.queue is None else reader.queue
        if queue is None or not self._queues.get(queue):
            return None
        record = self._queues[queue].popleft()
        self._bytes[queue] -= _size(record)
        self._positions[record.topic, record.partition] = record.offset + 1
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

    def _taken_out(self, place: Place) -> deque[Record]:
        """The records of a partition, out of its queue."""
        queue = self._queue_of[place]
        taken, left = deque[Record](), deque[Record]()
        for record in self._queues[queue]:
            (taken if (record.topic, record.partition) == place else left).append(record)
        self._queues[queue] = left
        self._bytes[queue] = self._bytes.get(queue, 0) - sum(map(_size, taken))
        return taken

    def _clear(self) -> None:
        for table in (self._queues, self._bytes, self._aside):
            table.clear()
        for offsets in (self._positions, self._finished, self._stored):
            offsets.clear()
        self._sought.clear()
        self._queue_of = {}
        self._turn = 0


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
