"""
Rows of all tables on their way from their judges: many of one table in one row of a frame.

Each is packed by Python, in Arrow's own format, and unpacked by Python when its table is written:
of what a frame of all tables would be otherwise, a wide row of nulls for each row of a table, Spark
would have to make and to keep every cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from herdproof.pipeline.spark.sources import place_of
from herdproof.pipeline.spark.tables import ARROW, TABLES, Row, Rows

OUT_DDL = "`table` string, payload binary"
OUT_ARROW = pa.schema([("table", pa.string()), ("payload", pa.binary())])

COUNTED = (
    ("protocol", "string"), ("run", "string"), ("group", "string"), ("lines", "long"),
    ("shared", "long"), ("set_aside", "long"), ("seconds", "double"),
)  # fmt: skip
"""
Counts of one group's judging: its own lines, those of no group that it was given too, its lines
that went into quarantine, and how long it took. Lines of no group are counted in a row of no group,
malformed records in one of no protocol.
"""
COUNTED_ARROW = pa.schema([(name, ARROW[kind]) for name, kind in COUNTED])

_DDL = {
    **{table.name: table.ddl for table in TABLES.values()},
    "counted": ", ".join(f"`{name}` {kind}" for name, kind in COUNTED),
}

FLUSH_ROWS = 5_000
"""The number of rows of a table that are handed on at once."""

RAW_MOST = 64 * 1024
"""The most bytes of a record that are kept in quarantine."""


@dataclass
class Outgoing:
    """Rows on their way out, some thousands at a time."""

    rows: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, found: Rows) -> None:
        """Rows of tables."""
        for table, rows in found.items():
            self.rows.setdefault(table, []).extend(rows)

    def quarantine(self, found: Sequence[Row]) -> None:
        """Records that could not be read."""
        self.add({"quarantine": list(found)})
        self.count(None, None, None, lines=len(found), set_aside=len(found))

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


def quarantined(source: str, position: int, raw: bytes | None, reason: str, why: str) -> Row:
    """A row of the quarantine."""
    return {
        "run": None, "group": None, "reason": reason, "why": why,
        "place": place_of(source, position), "raw": None if raw is None else raw[:RAW_MOST],
    }  # fmt: skip


def filled(table: str, rows: Sequence[Row]) -> pa.Table:
    """Rows of a table, or of `counted`, as Arrow has them."""
    if table == "counted":
        return pa.Table.from_pylist(list(rows), schema=COUNTED_ARROW)
    return TABLES[table].filled(rows)


def ipc(table: pa.Table) -> bytes:
    """A table packed."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _outgoing(table: str, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows of one table as a row of the frame of all."""
    return pa.RecordBatch.from_pydict(
        {"table": [table], "payload": [ipc(filled(table, rows))]}, schema=OUT_ARROW
    )


def rows_of(whole: Any, table: str) -> Any:
    """The frame of one table's rows, from the frame of all."""

    def opened(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column(0).to_pylist():
                yield from pa.ipc.open_stream(payload)

    return whole.where(whole["table"] == table).select("payload").mapInArrow(opened, _DDL[table])


def gathered(batches: Iterable[pa.RecordBatch]) -> dict[str, pa.Table]:
    """All tables, and `counted`, from batches of the frame of all rows."""
    return unpacked(
        packed
        for batch in batches
        for packed in zip(*(c.to_pylist() for c in batch.columns), strict=True)
    )


def unpacked(packed: Iterable[tuple[str, bytes]]) -> dict[str, pa.Table]:
    """All tables, and `counted`, from rows of that frame: a table's name, and rows of it."""
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in _DDL}
    for name, payload in packed:
        found[name] += pa.ipc.open_stream(payload)
    schemas = {"counted": COUNTED_ARROW, **{name: t.arrow for name, t in TABLES.items()}}
    return {name: pa.Table.from_batches(some, schemas[name]) for name, some in found.items()}
