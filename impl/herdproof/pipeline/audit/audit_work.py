"""
Work of an audit's workers: packets of lines into groups, groups into rows of tables.

Pure functions on Arrow batches. Every record passes through here once and is counted where it
comes out: as a line that was judged, or as a row of the quarantine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from heapq import merge
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from time import perf_counter
from typing import Any

import pyarrow as pa

from herdproof.pipeline.audit.numbers import Numbers
from herdproof.pipeline.audit.work import Work
from herdproof.pipeline.judging.gaps import MissingNumbers
from herdproof.pipeline.spark.outgoing import FLUSH_ROWS, Outgoing, quarantined
from herdproof.pipeline.spark.packets import NUMBERS, Bad, Packet, packets_of
from herdproof.pipeline.spark.tables import Rows

LONG_PART = 20_000
"""The number of lines of a long group that are judged at once."""

CLOCK_BACK_NS = 60_000_000_000
"""In a long group, a process's clock may be set back so far without disturbing its order."""

Key = tuple[str, str, str]
"""Protocol, run and group."""

_time = attrgetter("time_ns")


def judge_bucket(
    batches: Iterable[pa.RecordBatch], work: Work, replay: bool
) -> Iterator[pa.RecordBatch]:
    """A bucket's packets, in their order, as rows of all tables and of `counted`."""
    return judge_packets(packets_of(batches), work, replay)


def judge_packets(packets: Iterable[Packet], work: Work, replay: bool) -> Iterator[pa.RecordBatch]:
    """
    A bucket's packets, in their order, as rows of all tables and of `counted`.

    Lines of no group are in every bucket; the first one counts them.
    """
    out = Outgoing()
    common = Common(("", ""))
    for (protocol, run, group), own in groupby(packets, key=itemgetter(1, 2, 3)):
        if protocol is None:
            yield from _set_aside(chain.from_iterable(p.bad() for p in own), out)
            continue
        if common.whose != (protocol, run):
            common = Common((protocol, run))
        if not group and protocol not in work.ungrouped:
            common.take(own, work, out)
        else:
            yield from _judge_group(work, (protocol, run, group), own, common, out, replay)
        yield from out.full()
    yield from out.rest()


def _set_aside(records: Iterator[Bad], out: Outgoing) -> Iterator[pa.RecordBatch]:
    """Records that could not be read."""
    while found := [quarantined(*record) for record in islice(records, FLUSH_ROWS)]:
        out.quarantine(found)
        yield from out.full()


class Common:
    """Lines of no group, and where numbers are missing: all groups of a run share them."""

    def __init__(self, whose: tuple[str, str]) -> None:
        self.whose = whose
        self.lines: list[Any] = []
        self.missing: list[MissingNumbers] = []

    def take(self, packets: Iterable[Packet], work: Work, out: Outgoing) -> None:
        """Packets of no group; they are in every bucket, and the first bucket counts them."""
        numbers, counts = Numbers(), False
        for packet in packets:
            counts = packet.bucket == 0
            if packet.kind == NUMBERS:
                numbers.add(packet.payload)
            else:
                self.lines += packet.lines(work)
        self.missing = numbers.gaps()
        if counts and self.lines:
            out.count(*self.whose, None, lines=len(self.lines))

    @cached_property
    def places(self) -> set[str]:
        """Where its lines stand."""
        return {line.place for line in self.lines}


def _judge_group(
    work: Work, key: Key, packets: Iterator[Packet], common: Common, out: Outgoing, replay: bool
) -> Iterator[pa.RecordBatch]:
    """Judge one group: its lines, and those of all."""
    began, aside = perf_counter(), 0
    slices = _Slices(packets, work)
    own = slices.first(work.long)
    found: Iterable[Rows]
    if len(own) < work.long:
        found = [work.judge(*key, own + common.lines, replay=replay, missing=common.missing)]
    else:
        found = _followed(work, key, slices.after(own), common, replay)
    for some in found:
        # A line that belongs to all groups is none's; each bucket tells it, the table has it once.
        left = [
            {**row, "group": ""} if row["place"] in common.places else row
            for row in some.get("quarantine", ())
        ]
        aside += len(left)
        out.add({**some, "quarantine": left})
        yield from out.full()
    out.count(
        *key, lines=slices.count, shared=len(common.lines), set_aside=aside,
        seconds=perf_counter() - began,
    )  # fmt: skip


class _Slices:
    """A group's lines, slice of time by slice, counted."""

    def __init__(self, packets: Iterator[Packet], work: Work) -> None:
        self._slices = groupby(packets, key=attrgetter("slice"))
        self._work = work
        self.count = 0

    def __iter__(self) -> Iterator[list[Any]]:
        for _, packets in self._slices:
            lines = [line for packet in packets for line in packet.lines(self._work)]
            self.count += len(lines)
            yield lines

    def first(self, most: int) -> list[Any]:
        """The first slices, until these are so many lines."""
        found: list[Any] = []
        for lines in self:
            found += lines
            if len(found) >= most:
                break
        return found

    def after(self, first: list[Any]) -> Iterator[Any]:
        """These lines and all others, in the order of time."""
        for lines in chain([first], self):
            yield from sorted(lines, key=_time)


def _followed(
    work: Work, key: Key, own: Iterable[Any], common: Common, replay: bool
) -> Iterator[Rows]:
    """A long group's rows, from its lines in the order of time, some thousands at a time."""
    from herdproof.pipeline.audit.following import Came, FollowedGroup, not_replayed

    following = FollowedGroup(*key)
    following.miss(common.missing)
    merged = merge(own, sorted(common.lines, key=_time), key=_time)
    while some := list(islice(merged, LONG_PART)):
        aside = following.take([Came(line, b"") for line in some])
        more, _ = following.tell(some[-1].time_ns - CLOCK_BACK_NS)
        yield {**following.drain(), "quarantine": [*aside, *more]}
    rows, _, _ = following.ended()
    if replay:
        why = f"a group of {work.long:,} lines or more is not replayed"
        rows = {**rows, "verdicts": [*rows["verdicts"], not_replayed(*key, why)]}
    yield rows
