"""
What the queues between fetchers and application promise, whoever is late.

The quotations are from PROTOCOLS.md: section B (rulings) and the contract.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof.consuming.events import Consumed, StartFetchers
from herdproof.consuming.fetching.streams import RecordReader, Streams
from herdproof.consuming.offsets import Offset
from herdproof.errors import HerdError
from herdproof.record import Record

LEASE_MS = 1_000


class Desk:
    """Streams with a clock of the test's, and an assignment that is open."""

    def __init__(self, max_records: int = 100, max_bytes: int = 1_000) -> None:
        self.now_ms = 0
        self.streams = Streams(max_records, max_bytes, lambda: self.now_ms)
        self.reader = RecordReader()
        self.begin()

    def begin(self, generation: int = 1, *, is_open: bool = True) -> None:
        """An assignment of partitions 0 and 1 of topic t, each with a queue of its own."""
        partitions = (Offset("t", "3-0", 0), Offset("t", "1", 0))
        self.streams.begin(StartFetchers(partitions, generation, (0, 1)), is_open=is_open)
        self.streams.hand_out_until(LEASE_MS)

    def put(self, *offsets: int, partition: int = 0, generation: int = 1) -> None:
        """Records were fetched."""
        self.streams.put(
            generation, partition, [record(partition, offset, generation) for offset in offsets]
        )

    def take(self, reader: RecordReader | None = None) -> int | None:
        """The offset of the record that is handed out at once, if any is."""
        taken = self.streams.take(reader or self.reader, 0)
        return None if taken is None else taken.offset


def record(partition: int, offset: int, generation: int = 1, value: bytes = b"x") -> Record:
    """A record of topic t."""
    return Record("t", partition, offset, None, value, None, (), generation)


def test_asking_for_the_next_record_finishes_the_last() -> None:
    """
    "An offset is committed only for what the application has finished with (asking for the next
    record finishes the last)."
    Reference: the contract, 4.
    """
    desk = Desk()
    desk.put(7, 8)

    assert desk.take() == 7
    assert desk.streams.consumed() == []
    assert desk.take() == 8
    assert desk.streams.consumed() == [Consumed(Offset("t", "3-0", 8), 1)]
    assert desk.take() is None
    assert desk.streams.consumed() == [Consumed(Offset("t", "3-0", 9), 1)]
    assert desk.streams.consumed() == []


def test_after_a_stop_nothing_of_before_is_handed_out() -> None:
    """
    "Nothing is delivered any more" is what the answer to a Stop says.
    Reference: B, ruling 1; 000, handleStopFetcherRequest: "clean the corresponding queues".
    """
    desk = Desk()
    desk.put(7, 8)

    desk.streams.stop()
    assert desk.take() is None
    desk.put(9)
    assert desk.take() is None
    desk.begin(2)
    desk.put(9)
    assert desk.take() is None


def test_when_the_lease_is_over_nothing_is_handed_out() -> None:
    """
    "A consumer stops by itself": also where its own thread has not noticed yet.
    Reference: B, ruling 2.
    """
    desk = Desk()
    desk.put(7, 8)
    desk.now_ms = LEASE_MS - 1
    assert desk.take() == 7

    desk.now_ms = LEASE_MS
    assert desk.take() is None

    desk.streams.hand_out_until(2 * LEASE_MS)
    assert desk.take() == 8


def test_a_reader_that_waits_is_woken_when_the_lease_is_renewed() -> None:
    """A late ping that comes in time after all must not leave its records lying."""
    desk = Desk()
    desk.now_ms = LEASE_MS
    desk.put(7)

    taken = in_thread(lambda: desk.streams.take(desk.reader, 60))
    desk.streams.hand_out_until(2 * LEASE_MS)

    assert taken() == record(0, 7)


def test_a_record_of_a_past_assignment_counts_for_that_one() -> None:
    """The core decides whether it still counts, so it is told of which assignment it was."""
    desk = Desk()
    desk.put(7)
    assert desk.take() == 7

    desk.streams.stop()
    desk.begin(2)
    desk.put(7, generation=2)
    assert desk.take() == 7

    assert desk.streams.consumed() == [Consumed(Offset("t", "3-0", 8), 1)]


def test_nothing_is_handed_out_before_the_listener_has_returned() -> None:
    """What `on_assigned` prepares is there when the first record comes."""
    desk = Desk()
    desk.begin(2, is_open=False)
    desk.put(7, generation=2)

    desk.streams.open(1)
    assert desk.take() is None
    desk.streams.open(2)
    assert desk.take() == 7


def test_a_stream_gets_the_records_of_its_own_queue_in_order() -> None:
    """One queue per stream, shared by all partitions of that stream."""
    desk = Desk()
    desk.put(1, 2, partition=0)
    desk.put(5, 6, partition=1)
    zero, one = RecordReader(0), RecordReader(1)

    assert [desk.take(zero), desk.take(one), desk.take(one)] == [1, 5, 6]
    assert [desk.take(one), desk.take(zero), desk.take(zero)] == [None, 2, None]


def test_a_reader_of_all_queues_starves_none() -> None:
    """Queues are read in turns, so that a full one does not hold up the others."""
    desk = Desk()
    desk.put(*range(10), partition=0)
    desk.put(100, 101, partition=1)

    assert [desk.take() for _ in range(5)] == [0, 100, 1, 101, 2]


def test_a_full_queue_says_so_by_records_or_by_bytes() -> None:
    """Fetchers pause for a queue that is full, and go on when it is half empty."""
    desk = Desk(max_records=4, max_bytes=1_000)
    desk.put(1, 2, 3)
    assert not desk.streams.is_full(0)
    desk.put(4)
    assert desk.streams.is_full(0)
    assert not desk.streams.is_full(1)
    desk.take()
    assert not desk.streams.is_full(0)
    assert desk.streams.is_full(0, 0.5)

    desk.streams.put(1, 1, [record(1, 1, value=bytes(1_000))])
    assert desk.streams.is_full(1)
    desk.take(RecordReader(1))
    assert not desk.streams.is_full(1, 0.5)


def test_an_end_wakes_who_waits() -> None:
    """Closing ends every iteration; what made the end is raised."""
    desk = Desk()
    ended = in_thread(lambda: desk.streams.take(desk.reader))
    desk.streams.end()
    assert ended() is None

    desk.streams.end(HerdError("why"))
    with pytest.raises(HerdError, match="why"):
        desk.streams.take(desk.reader)


def test_a_wait_ends_with_its_time() -> None:
    """`timeout_s` bounds a wait, also while records lie there that may not be handed out."""
    desk = Desk()
    desk.now_ms = LEASE_MS
    desk.put(7)
    since = time.monotonic()

    assert desk.streams.take(desk.reader, 0.2) is None

    assert 0.2 <= time.monotonic() - since < 5


@given(
    deeds=st.lists(
        st.one_of(
            st.sampled_from(["take", "take", "stop", "begin", "expire", "renew", "report"]),
            st.tuples(st.integers(0, 1), st.integers(1, 3)),
        )
    )
)
def test_each_assignment_is_handed_out_in_order_without_a_gap(deeds: list[object]) -> None:
    """Whatever stops and starts: from each assignment on, records come in order, none twice."""
    desk, generation, running = Desk(), 1, True
    fetched = {0: 0, 1: 0}
    expected = {0: 0, 1: 0}
    reported: dict[tuple[int, str], int] = {}
    for deed in deeds:
        match deed:
            case (int(queue), int(count)):
                offsets = range(fetched[queue], fetched[queue] + count)
                desk.put(*offsets, partition=queue, generation=generation)
                fetched[queue] += count if running else 0
            case "stop":
                desk.streams.stop()
                running = False
            case "begin":
                generation += 1
                desk.begin(generation)
                desk.now_ms, running = 0, True
                fetched, expected = {0: 0, 1: 0}, {0: 0, 1: 0}
            case "expire":
                desk.now_ms = LEASE_MS
            case "renew":
                desk.now_ms = 0
            case "report":
                for consumed in desk.streams.consumed():
                    key = consumed.generation or 0, consumed.offset.partition
                    assert consumed.offset.offset > reported.get(key, 0)
                    reported[key] = consumed.offset.offset
            case _:
                taken = desk.streams.take(desk.reader, 0)
                if taken is not None:
                    assert running
                    assert desk.now_ms < LEASE_MS
                    assert (taken.offset, taken.generation) == (
                        expected[taken.partition], generation
                    )  # fmt: skip
                    expected[taken.partition] += 1


def in_thread(call: Callable[[], Record | None]) -> Callable[[], Record | None]:
    """Let it begin in another thread; give its result when asked."""
    results: list[Record | None] = []
    begun = threading.Event()

    def run() -> None:
        begun.set()
        results.append(call())

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    time.sleep(0.02)  # it is very probably waiting by now; if not, nothing is lost

    def result() -> Record | None:
        thread.join(10)
        assert not thread.is_alive(), "it still waits"
        return results[0]

    return result


def test_what_nobody_asks_for_is_neglected() -> None:
    """Records that wait, or wait behind one that is held; but not while somebody waits for one."""
    desk = Desk()
    assert desk.streams.neglected() == {}

    desk.put(7, partition=1)
    assert desk.streams.neglected() == {1: 0}
    assert desk.take() == 7
    assert desk.streams.neglected() == {0: 1, 1: 1}  # all queues are this reader's
    assert desk.take() is None
    assert desk.streams.neglected() == {}


def test_each_queue_has_its_own_reader() -> None:
    """Of several readers, one that stays away is seen though the others come back."""
    desk = Desk()
    first, second = RecordReader(0), RecordReader(1)
    desk.put(1, 2)
    desk.put(5, partition=1)

    assert [desk.take(first), desk.take(second), desk.take(first)] == [1, 5, 2]

    assert desk.streams.neglected() == {0: 2, 1: 1}


def test_who_waits_for_a_record_is_there() -> None:
    """A reader that is inside asks for what comes, however long that takes."""
    desk = Desk()
    desk.streams.hand_out_until(0)  # nothing may be handed out at present
    desk.put(7)
    assert desk.streams.neglected() == {0: 0}

    waits = threading.Thread(target=desk.streams.take, args=(desk.reader, 5))
    waits.start()
    while desk.streams.polls()[0] == 0:
        time.sleep(0.001)
    assert desk.streams.neglected() == {}

    desk.streams.end()
    waits.join(10)
