"""
What an audit's workers do: records into lines, lines into groups, groups into rows of tables.

Pure functions on Arrow batches. Every record passes through here once and is counted where it
comes out: as a line that was judged, or as a row of the quarantine.

How lines meet: each has a bucket, and a bucket is one task. Lines of a group share a bucket; lines
that belong to no group (a coordinator's election) go to every bucket, so that they are at hand
wherever a group of their run is, and nobody has to know beforehand where that is. They come first
in the order of a bucket, which is: protocol, run, group, time.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, groupby, islice
from operator import itemgetter
from time import perf_counter
from typing import Any, NamedTuple

import pyarrow as pa

from herdproof.pipeline.numbers import Numbers
from herdproof.pipeline.sources import Bases, place_of, shown
from herdproof.pipeline.tables import ARROW, TABLES, Row, Rows

LINE_COLUMNS = {
    "bucket": "int", "protocol": "string", "run": "string", "group": "string",
    "time_ns": "long", "source": "string", "position": "long", "raw": "binary",
    "reason": "string", "why": "string",
}  # fmt: skip
"""A record that was read; `reason` and `why` where it is none that can be judged."""

LINES_DDL = ", ".join(f"`{name}` {kind}" for name, kind in LINE_COLUMNS.items())
_LINES_ARROW = pa.schema(
    [(name, pa.int32() if kind == "int" else ARROW[kind]) for name, kind in LINE_COLUMNS.items()]
)

NUMBERS = "numbers"
"""The reason of a row that is no record, but the numbers of those that belong to many groups."""

ORDER = ("protocol", "run", "group", "time_ns")
"""The order of a bucket's lines."""

COUNTED = (
    ("protocol", "string"), ("run", "string"), ("group", "string"), ("lines", "long"),
    ("shared", "long"), ("set_aside", "long"), ("seconds", "double"),
)  # fmt: skip
"""
What one group's judging came to: its own lines, those of no group that it was given too, its lines
that went into quarantine, and how long it took. Lines of no group are counted in a row of no group,
malformed records in one of no protocol.
"""

FLUSH_ROWS = 5_000
"""So many rows of a table are handed on at once."""

LONG_PART = 20_000
"""So many lines of a long group are judged at once."""

CLOCK_BACK_NS = 60_000_000_000
"""In a long group, a process's clock may be set back so far without disturbing its order."""

RAW_MOST = 64 * 1024
"""So much of a record is kept in quarantine."""


@dataclass(frozen=True)
class Work:
    """How lines are read and judged; workers get it by pickle."""

    read: Callable[[str, str], Any]
    """A line from its text and place; raises an exception with `reason` and `why`."""
    malformed: type[Exception]
    judge: Callable[..., Rows]
    """As `herdproof.pipeline.judge.judge`."""
    ungrouped: frozenset[str] = frozenset()
    """Protocols whose lines name no group: a run is one group."""
    long: int = 200_000
    """A group of so many lines is followed, not judged as a whole: it need not fit in memory."""


# ── Records into lines ──────────────────────────────────────────────────────────────────────


def read_records(
    batches: Iterable[pa.RecordBatch], work: Work, buckets: int, bases: Bases
) -> Iterator[pa.RecordBatch]:
    """
    Records, in the order of their file, as lines with their keys and bucket.

    A text file's records are numbered here, from the number of lines before their part of it.
    """
    number = Numbering(bases)
    for batch in batches:
        columns = [batch.column(i).to_pylist() for i in range(4)]
        rows: list[tuple[Any, ...]] = []
        noted: dict[tuple[str, str], Numbers] = defaultdict(Numbers)
        for source, block, position, raw in zip(*columns, strict=True):
            at = number(source, block) if position is None else position
            rows += line_rows(shown(source), at, raw, work, buckets, noted)
        rows += number_rows(noted, buckets)
        if rows:
            yield as_batch(rows)


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


def line_rows(
    source: str, position: int, raw: bytes | None, work: Work, buckets: int,
    noted: dict[tuple[str, str], Numbers],
) -> list[tuple[Any, ...]]:  # fmt: skip
    """One record as a row, or as one for every bucket, or as one for the quarantine."""
    place = place_of(source, position)
    try:
        line = work.read(_text(raw, work), place)
    except work.malformed as wrong:
        bucket = zlib.crc32(place.encode()) % buckets
        why = (getattr(wrong, "reason", "malformed"), getattr(wrong, "why", str(wrong)))
        return [(bucket, None, None, None, None, source, position, raw, *why)]
    key = (line.protocol, line.run, line.group)
    if line.shared:
        noted[key[:2]].note(line.role, line.node, line.sequence, line.time_ns)
    told = (line.time_ns, source, position, raw, None, None)
    if line.group or line.protocol in work.ungrouped:
        return [(bucket_of(*key, buckets), *key, *told)]
    return [(bucket, *key, *told) for bucket in range(buckets)]


def number_rows(
    noted: Mapping[tuple[str, str], Numbers], buckets: int
) -> Iterator[tuple[Any, ...]]:
    """The numbers of shared lines, for every bucket."""
    for (protocol, run), numbers in noted.items():
        key = (protocol, run, "", 0, "", 0, numbers.packed, NUMBERS, None)
        yield from ((bucket, *key) for bucket in range(buckets))


def _text(raw: bytes | None, work: Work) -> str:
    """A record's text; what has none is read as malformed."""
    if raw is None:
        raise _bad(work, "it has no value")
    try:
        return raw.decode()
    except UnicodeDecodeError as problem:
        raise _bad(
            work, f"this is no UTF-8 ({problem.reason} at byte {problem.start})"
        ) from problem


def _bad(work: Work, why: str) -> Exception:
    """A malformed record."""
    return work.malformed("malformed", why)


def bucket_of(protocol: str, run: str, group: str, buckets: int) -> int:
    """Where a group is judged: the same on every machine, in every Python."""
    return zlib.crc32("\0".join((protocol, run, group)).encode()) % buckets


def as_batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows of lines as Arrow has them."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _LINES_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_LINES_ARROW)


# ── Groups into rows ────────────────────────────────────────────────────────────────────────


class Told(NamedTuple):
    """A line as it arrives at its judge."""

    time_ns: int
    source: str
    position: int
    raw: bytes

    @property
    def place(self) -> str:
        """Where it stands."""
        return place_of(self.source, self.position)


def judge_bucket(
    batches: Iterable[pa.RecordBatch], work: Work, replay: bool
) -> Iterator[pa.RecordBatch]:
    """
    A bucket's lines, in its order, as rows of all tables and of `counted`.

    Lines of no group are in every bucket; the first one counts them.
    """
    out = Outgoing()
    common = Common(("", ""))
    for (protocol, run, group), rows in groupby(_rows(batches), key=itemgetter(1, 2, 3)):
        if protocol is None:
            yield from out.quarantine(rows)
            continue
        if common.whose != (protocol, run):
            common = Common((protocol, run))
        if not group and protocol not in work.ungrouped:
            common.take(rows, out)
        else:
            yield from _judge_group(work, (protocol, run, group), rows, common, out, replay)
        yield from out.full()
    yield from out.rest()


class Common:
    """What all groups of a run share: lines of no group, and where numbers are missing."""

    def __init__(self, whose: tuple[str, str]) -> None:
        self.whose = whose
        self.lines: list[Told] = []
        self.missing: list[tuple[int, str, int]] = []

    def take(self, rows: Iterable[tuple[Any, ...]], out: Outgoing) -> None:
        """Rows of no group; they are in every bucket, and the first bucket counts them."""
        numbers, counts = Numbers(), False
        for row in rows:
            counts = row[0] == 0
            if row[8] == NUMBERS:
                numbers.add(row[7])
            else:
                self.lines.append(Told(*row[4:8]))
        self.missing = numbers.gaps()
        if counts and self.lines:
            out.count(*self.whose, None, lines=len(self.lines))


def _judge_group(
    work: Work, key: tuple[str, str, str], rows: Iterator[tuple[Any, ...]], common: Common,
    out: Outgoing, replay: bool,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Judge one group: its lines, and those of all."""
    began, aside, counting = perf_counter(), 0, _Counting(rows)
    arriving = iter(counting)
    own = [Told(*row[4:8]) for row in islice(arriving, work.long)]
    found: Iterable[Rows]
    if len(own) < work.long:
        lines = [work.read(t.raw.decode(), t.place) for t in chain(own, common.lines)]
        found = [work.judge(*key, lines, replay=replay, missing=common.missing)]
    else:
        own_rest = (Told(*row[4:8]) for row in arriving)
        found = _followed(work, key, chain(own, own_rest), common, replay)
    of_all = {t.place for t in common.lines}
    for some in found:
        # A line that belongs to all groups is none's; each bucket tells it, the table has it once.
        left = [
            {**row, "group": ""} if row["place"] in of_all else row
            for row in some.get("quarantine", ())
        ]
        aside += len(left)
        out.add({**some, "quarantine": left})
        yield from out.full()
    out.count(
        *key, lines=counting.count, shared=len(common.lines), set_aside=aside,
        seconds=perf_counter() - began,
    )  # fmt: skip


class _Counting:
    """Passes rows on and counts them."""

    def __init__(self, rows: Iterable[tuple[Any, ...]]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for row in self._rows:
            self.count += 1
            yield row


def _followed(
    work: Work, key: tuple[str, str, str], own: Iterable[Told], common: Common, replay: bool
) -> Iterator[Rows]:
    """A long group's rows, from its lines in the order of time, some thousands at a time."""
    from herdproof.pipeline.following import Came, Following, not_replayed

    following = Following(*key)
    following.miss(common.missing)
    merged = merge(own, sorted(common.lines), key=itemgetter(0))
    while some := list(islice(merged, LONG_PART)):
        came = [Came(work.read(told.raw.decode(), told.place), b"") for told in some]
        aside = following.take(came)
        more, _ = following.tell(some[-1].time_ns - CLOCK_BACK_NS)
        yield {**following.drain(), "quarantine": [*aside, *more]}
    rows, _, _ = following.ended()
    if replay:
        why = f"a group of {work.long:,} lines or more is not replayed"
        rows = {**rows, "verdicts": [*rows["verdicts"], not_replayed(*key, why)]}
    yield rows


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """Rows, one after the other."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _struct(kinds: Iterable[tuple[str, str]]) -> pa.DataType:
    return pa.struct([(name, ARROW[kind]) for name, kind in kinds])


_KINDS: Mapping[str, Sequence[tuple[str, str]]] = {
    **{t.name: [(c.name, c.kind) for c in t.columns] for t in TABLES.values()},
    "counted": COUNTED,
}
COUNTED_ARROW = pa.schema(list(_struct(COUNTED)))
OUT_DDL = "`table` string, " + ", ".join(
    f"`{table}` struct<{', '.join(f'`{name}`: {kind}' for name, kind in kinds)}>"
    for table, kinds in _KINDS.items()
)
"""Rows of all tables in one frame: a column for each table, of which a row fills one."""
OUT_ARROW = pa.schema(
    [("table", pa.string()), *((table, _struct(kinds)) for table, kinds in _KINDS.items())]
)


@dataclass
class Outgoing:
    """Rows on their way out, some thousands at a time."""

    rows: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, found: Rows) -> None:
        """Rows of tables."""
        for table, rows in found.items():
            self.rows.setdefault(table, []).extend(rows)

    def quarantine(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
        """Records that could not be read."""
        while found := [quarantined(*row[5:]) for row in islice(rows, FLUSH_ROWS)]:
            self.add({"quarantine": found})
            self.count(None, None, None, lines=len(found), set_aside=len(found))
            yield from self.full()

    def count(self, protocol: str | None, run: str | None, group: str | None, **told: Any) -> None:
        """A row of `counted`."""
        zero = {"lines": 0, "shared": 0, "set_aside": 0, "seconds": 0.0}
        row = {"protocol": protocol, "run": run, "group": group, **zero, **told}
        self.add({"counted": [row]})

    def full(self) -> Iterator[pa.RecordBatch]:
        """Batches of those tables that have many rows by now."""
        for table in [t for t, rows in self.rows.items() if len(rows) >= FLUSH_ROWS]:
            yield _outgoing(table, self.rows.pop(table))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """All that is left."""
        for table, rows in self.rows.items():
            if rows:
                yield _outgoing(table, rows)
        self.rows = {}


def protocol_work() -> Work:
    """The work on the protocols that there are."""
    from herdproof.pipeline.judge import judge
    from herdproof.pipeline.protocols import PROTOCOLS, Malformed, read_line

    ungrouped = frozenset(name for name, auditor in PROTOCOLS.items() if not auditor.grouped)
    return Work(read_line, Malformed, judge, ungrouped)


def quarantined(source: str, position: int, raw: bytes | None, reason: str, why: str) -> Row:
    """A row of the quarantine."""
    return {
        "run": None, "group": None, "reason": reason, "why": why,
        "place": place_of(source, position), "raw": None if raw is None else raw[:RAW_MOST],
    }  # fmt: skip


def _outgoing(table: str, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows of one table as a batch of the frame of all."""
    if table == "counted":
        made = pa.Table.from_pylist(list(rows), schema=COUNTED_ARROW)
    else:
        made = TABLES[table].filled(rows)
    struct = pa.concat_arrays(made.to_struct_array().chunks)
    arrays = [
        pa.array([table] * len(rows)) if f.name == "table"
        else struct.cast(f.type) if f.name == table else pa.nulls(len(rows), f.type)
        for f in OUT_ARROW
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=OUT_ARROW)
