"""
Records into lines, and lines on their way to their judges: many of one group in one row.

How lines meet: each has a bucket, and a bucket is one task. Lines of a group share a bucket; lines
that belong to no group (a coordinator's election) go to every bucket, so that they are at hand
wherever a group of their run is, and nobody has to know beforehand where that is. They come first
in the order of a bucket, which is: protocol, run, group, time.

Spark shuffles and sorts rows; what a row costs it is paid once for some hundred lines. They are
compressed, to a ninth: whatever Java is given it copies several times. The lines of a row are of
one group, one source and one slice of time: a long group still comes in the order of time, slice by
slice, however its lines came.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from msgspec import msgpack

from herdproof.conformance.traces.chained import process_of
from herdproof.pipeline.audit.numbers import Numbers
from herdproof.pipeline.audit.work import Work
from herdproof.pipeline.spark.sources import Bases, place_of, shown
from herdproof.pipeline.spark.tables import ARROW

PACKET_COLUMNS = {
    "bucket": "int", "protocol": "string", "run": "string", "group": "string", "slice": "long",
    "kind": "string", "payload": "binary",
}  # fmt: skip
PACKETS_DDL = ", ".join(f"`{name}` {kind}" for name, kind in PACKET_COLUMNS.items())
PACKETS_ARROW = pa.schema(
    [(n, pa.int32() if kind == "int" else ARROW[kind]) for n, kind in PACKET_COLUMNS.items()]
)

ORDER = ("protocol", "run", "group", "slice")
"""The order of a bucket's packets."""

LINES = "lines"
"""Lines of a group, or of none."""
NUMBERS = "numbers"
"""No records, but the numbers of those that belong to many groups."""
MALFORMED = "malformed"
"""Records that are no lines which could be judged; they have no protocol."""

SLICE_NS = 60_000_000_000
"""The length of a slice of time."""

AT_ONCE = 20_000
"""The number of records that are packed at once."""

Record = tuple[int, bytes]
"""A record's position in its source, and itself."""
Bad = tuple[str, int, bytes | None, str, str]
"""Source, position, the record, the reason, and why."""

_CODEC = pa.Codec("lz4")
_SIZE_BYTES = 8
"""The size of what is compressed stands before it."""

_LINES = msgpack.Decoder(tuple[str, list[Record]])
_BAD = msgpack.Decoder(list[Bad])


class Packet(NamedTuple):
    """A row, as it arrives at its judge."""

    bucket: int
    protocol: str | None
    run: str | None
    group: str | None
    slice: int
    kind: str
    payload: bytes

    def records(self) -> tuple[str, list[Record]]:
        """Where its lines come from, and these as they were there."""
        return _LINES.decode(expanded(self.payload))

    def lines(self, work: Work) -> list[Any]:
        """Its lines, read."""
        source, records = self.records()
        return [work.read(raw.decode(), place_of(source, at)) for at, raw in records]

    def bad(self) -> list[Bad]:
        """Its records, of those that are malformed."""
        return _BAD.decode(expanded(self.payload))


def compressed(told: Any) -> bytes:
    """Records as they are handed over."""
    encoded = msgpack.encode(told)
    packed: bytes = _CODEC.compress(encoded, asbytes=True)
    return len(encoded).to_bytes(_SIZE_BYTES, "big") + packed


def expanded(payload: bytes) -> bytes:
    """The reverse of `compressed`, still encoded."""
    size = int.from_bytes(payload[:_SIZE_BYTES], "big")
    encoded: bytes = _CODEC.decompress(payload[_SIZE_BYTES:], size, asbytes=True)
    return encoded


def packets_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Packet]:
    """Packets, one after the other."""
    for batch in batches:
        yield from map(Packet, *(column.to_pylist() for column in batch.columns))


def pack_records(
    batches: Iterable[pa.RecordBatch], work: Work, buckets: int, bases: Bases
) -> Iterator[pa.RecordBatch]:
    """
    Records, in the order of their file, as packets of lines with their keys and bucket.

    A text file's records are numbered here, from the number of lines before their part of it.
    """
    return pack(_numbered(batches, bases), work, buckets)


def pack(
    records: Iterable[tuple[str, int, bytes | None]], work: Work, buckets: int
) -> Iterator[pa.RecordBatch]:
    """Records with their source and position, as packets of lines with their keys and bucket."""
    packing = Packing(work, buckets)
    for record in records:
        packing.take(*record)
        if packing.count >= AT_ONCE:
            yield packing.packed()
    if packing.count:
        yield packing.packed()


def _numbered(
    batches: Iterable[pa.RecordBatch], bases: Bases
) -> Iterator[tuple[str, int, bytes | None]]:
    """Records with their source, as people read it, and their position there."""
    number = Numbering(bases)
    names: dict[str, str] = {}
    for batch in batches:
        columns = (batch.column(i).to_pylist() for i in range(4))
        for source, block, position, raw in zip(*columns, strict=True):
            at = number(source, block) if position is None else position
            yield names.get(source) or names.setdefault(source, shown(source)), at, raw


class Numbering:
    """Numbers the lines of text files, part by part."""

    def __init__(self, bases: Bases) -> None:
        self._bases = bases
        self._part: tuple[str, int] | None = None
        self._last = 0

    def __call__(self, source: str, block: int) -> int:
        """The number of this part's next line."""
        if (source, block) != self._part:
            self._part = (source, block)
            self._last = self._bases.get(self._part, 0)
        self._last += 1
        return self._last


class Packing:
    """Records that wait until there are enough of them for rows."""

    def __init__(self, work: Work, buckets: int) -> None:
        self._work = work
        self._buckets = buckets
        self._begin()

    def _begin(self) -> None:
        self.count = 0
        self._lines: dict[tuple[str, str, str, int, str], list[Record]] = defaultdict(list)
        self._noted: dict[tuple[str, str], Numbers] = defaultdict(Numbers)
        self._bad: list[Bad] = []

    def take(self, source: str, position: int, raw: bytes | None) -> None:
        """The next record."""
        self.count += 1
        try:
            line = self._work.read(self._text(raw), place_of(source, position))
        except self._work.malformed as wrong:
            why = (getattr(wrong, "reason", "malformed"), getattr(wrong, "why", str(wrong)))
            self._bad.append((source, position, raw, *why))
            return
        assert raw is not None, "what has no value is malformed"
        protocol, run, time_ns = line.protocol, line.run, line.time_ns
        of = self._lines[protocol, run, line.group, time_ns // SLICE_NS, source]
        of.append((position, raw))
        if line.shared:
            noted = self._noted[protocol, run]
            noted.note(line.role, line.node, line.sequence, time_ns, process_of(line))

    def _text(self, raw: bytes | None) -> str:
        """A record's text; what has none is read as malformed."""
        if raw is None:
            raise self._work.malformed("malformed", "it has no value")
        try:
            return raw.decode()
        except UnicodeDecodeError as problem:
            why = f"this is no UTF-8 ({problem.reason} at byte {problem.start})"
            raise self._work.malformed("malformed", why) from problem

    def packed(self) -> pa.RecordBatch:
        """Rows of all that came since the last time."""
        columns = zip(*self._rows(), strict=True)
        self._begin()
        arrays = [pa.array(c, f.type) for c, f in zip(columns, PACKETS_ARROW, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=PACKETS_ARROW)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        for (protocol, run, group, time, source), records in self._lines.items():
            told = (protocol, run, group, time, LINES, compressed((source, records)))
            if group or protocol in self._work.ungrouped:
                yield (bucket_of(protocol, run, group, self._buckets), *told)
            else:
                yield from ((bucket, *told) for bucket in range(self._buckets))
        yield from self._numbers()
        if self._bad:
            bucket = zlib.crc32(place_of(*self._bad[0][:2]).encode()) % self._buckets
            yield (bucket, None, None, None, 0, MALFORMED, compressed(self._bad))

    def _numbers(self) -> Iterator[tuple[Any, ...]]:
        """The numbers of shared lines, for every bucket."""
        for (protocol, run), numbers in self._noted.items():
            told = (protocol, run, "", 0, NUMBERS, numbers.packed)
            yield from ((bucket, *told) for bucket in range(self._buckets))


def bucket_of(protocol: str, run: str, group: str, buckets: int) -> int:
    """Where a group is judged: the same on every machine, in every Python."""
    return zlib.crc32("\0".join((protocol, run, group)).encode()) % buckets
