"""
What the consumer's queues promise of partitions that are paused, and of those that are sought.

A partition's records go on from where the application wants them, in order; nothing of before comes
after a `seek`, nothing is lost by a pause, and other partitions of the same queue go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof import Consumer
from herdproof.consumer import BadArgument, Misused
from herdproof.consuming.events import StartFetchers
from herdproof.consuming.fetching.streams import RecordReader, Streams
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.record import Record, TopicPartition

P0, P1, LATER = (TopicPartition("t", number) for number in range(3))


@dataclass
class Log:
    """Partitions without an end, whose fetcher brings what it is asked for, in its own time."""

    streams: Streams = field(default_factory=lambda: Streams(clock=lambda: 0))
    reader: RecordReader = field(default_factory=RecordReader)
    at: dict[TopicPartition, int] = field(default_factory=dict)
    on_its_way: dict[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        starts = (Offset("t", "0-0", 5), Offset("t", "1", 7), Offset("t", "2", NO_OFFSET))
        self.streams.begin(StartFetchers(starts, 1, (0, 0, 0)), is_open=True)
        self.streams.hand_out_until(1)
        self.at = {P0: 5, P1: 7}

    def fetch(self, place: TopicPartition, count: int) -> None:
        """The fetcher brings the next records, after it has heard of a seek."""
        if place in self.on_its_way:
            # What it had fetched before it heard is put, too, and must not be seen.
            self.put(place, count)
            self.at[place] = self.on_its_way.pop(place)
            self.streams.fetches_from_there(place)
        self.put(place, count)

    def put(self, place: TopicPartition, count: int) -> None:
        """So many records, from where the fetcher is."""
        begin = self.at[place]
        self.at[place] += count
        self.streams.put(
            1, 0, [Record(*place, at, None, b"", None, (), 1) for at in range(begin, begin + count)]
        )

    def seek(self, place: TopicPartition, offset: int) -> None:
        """The application goes elsewhere; the fetcher hears of it later."""
        assert self.streams.seek(place, 1, offset)
        self.on_its_way[place] = offset

    def take(self) -> tuple[TopicPartition, int] | None:
        """The next record's place."""
        record = self.streams.take(self.reader, 0)
        return None if record is None else (TopicPartition(record.topic, record.partition),
                                            record.offset)  # fmt: skip


PLACES = st.sampled_from([P0, P1])
DEEDS = st.one_of(
    st.tuples(st.just("fetch"), PLACES, st.integers(1, 4)),
    st.tuples(st.just("take"), PLACES, st.integers(1, 3)),
    st.tuples(st.just("seek"), PLACES, st.integers(0, 30)),
    st.tuples(st.just("pause"), PLACES, st.none()),
    st.tuples(st.just("resume"), PLACES, st.none()),
)


@given(st.lists(DEEDS, max_size=60))
def test_every_partition_goes_on_from_where_it_is_wanted(
    deeds: list[tuple[str, TopicPartition, int]],
) -> None:
    """Without gap or repetition from each seek on; nothing while paused; `position` is the next."""
    log, wanted, paused = Log(), {P0: 5, P1: 7}, set[TopicPartition]()
    for deed, place, number in deeds:
        match deed:
            case "fetch":
                log.fetch(place, number)
            case "seek":
                log.seek(place, number)
                wanted[place] = number
            case "pause":
                log.streams.pause(place)
                paused.add(place)
            case "resume":
                log.streams.resume(place)
                paused.discard(place)
            case _:
                for _ in range(number):
                    taken = log.take()
                    if taken is not None:
                        assert taken == (taken[0], wanted[taken[0]])
                        assert taken[0] not in paused
                        wanted[taken[0]] += 1
        assert {p: log.streams.position(p) for p in wanted} == wanted
        assert set(log.streams.paused()) == paused
    for place in wanted:
        log.streams.resume(place)
        log.fetch(place, 1)
    rest: dict[TopicPartition, list[int]] = {P0: [], P1: []}
    while (taken := log.take()) is not None:
        rest[taken[0]].append(taken[1])
    for place, offsets in rest.items():
        assert offsets == list(range(wanted[place], log.at[place])), "a pause has lost records"


def test_a_paused_partition_takes_no_room_of_the_others() -> None:
    """Its records are put aside: else its queue would be full of what nobody may have."""
    log = Log(Streams(max_records=4, clock=lambda: 0))
    log.fetch(P0, 4)
    assert log.streams.is_full(0)

    log.streams.pause(P0)

    assert not log.streams.is_full(0)
    log.fetch(P1, 1)
    assert log.take() == (P1, 7)
    log.streams.resume(P0)
    assert log.streams.is_full(0)
    assert log.take() == (P0, 5)


def test_where_a_partition_begins_must_be_known_before_a_seek() -> None:
    """Its start is looked up, and stored before the first delivery: a seek would go past that."""
    log = Log()

    assert log.streams.position(LATER) is None
    assert not log.streams.seek(LATER, 1, 3)
    log.streams.resolved(LATER, 2)
    assert (log.streams.position(LATER), log.streams.stored(LATER)) == (2, 2)
    assert log.streams.seek(LATER, 1, 3)


def test_a_seek_of_a_past_assignment_changes_nothing() -> None:
    """Its fetcher does not hear of it: it would wait for ever for what is there."""
    log = Log()

    assert not log.streams.seek(P0, 0, 3)
    log.fetch(P0, 1)
    assert log.take() == (P0, 5)


def test_what_is_stored_is_what_was_assigned_or_committed_since() -> None:
    """It never goes back, and a new assignment begins with its own."""
    log = Log()
    log.fetch(P0, 3)
    assert log.streams.stored(P0) == 5
    for _ in range(3):
        log.take()

    assert log.streams.finished() == {P0: 7}
    log.streams.are_stored(log.streams.finished())
    log.streams.are_stored({P0: 6})
    assert (log.streams.stored(P0), log.streams.stored(LATER)) == (7, None)
    log.streams.stop()
    assert (log.streams.stored(P0), log.streams.finished()) == (None, {})


@pytest.mark.parametrize("call", ["position", "committed", "pause", "resume"])
def test_what_is_not_assigned_is_refused(call: str) -> None:
    """With the partition's name, and what to ask instead."""
    consumer = Consumer("g", coordinators="127.0.0.1:1", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(Misused, match="subscribe first"):
        getattr(consumer, call)(P0)
    consumer.subscribe("t")
    with consumer, pytest.raises(Misused, match="t-0 is not assigned to this consumer: ask its"):
        getattr(consumer, call)(P0)


def test_an_offset_below_0_is_refused() -> None:
    """Relative seeks, as some clients have them, are not meant."""
    consumer = Consumer("g", coordinators="127.0.0.1:1", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(BadArgument, match="offset is -1"):
        consumer.seek(P0, -1)
