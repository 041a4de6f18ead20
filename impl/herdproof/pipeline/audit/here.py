"""
The audit in this process, of sources that are judged before a Spark would have started.

What it does with records is what Spark's workers do, in one bucket; its tables are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from herdproof.errors import WorldError
from herdproof.pipeline.audit.audit_work import judge_packets
from herdproof.pipeline.audit.job import TableJob, Tell
from herdproof.pipeline.audit.summary import FIRST
from herdproof.pipeline.audit.work import Work
from herdproof.pipeline.spark.outgoing import gathered
from herdproof.pipeline.spark.packets import Packet, pack, packets_of
from herdproof.pipeline.spark.sources import Sources
from herdproof.pipeline.spark.store import ON_DISK, OutputDirectory
from herdproof.pipeline.spark.tables import TABLES, Row
from herdproof.pipeline.spark.text_files import is_readable, lines_of, told_as_source

LINES_MOST = 200_000
"""The most lines that are judged in this process."""
BYTES_MOST = 200_000_000
"""The most bytes of lines that are judged in this process."""
LOG_BYTES_MOST = 20_000_000
"""The most bytes of Kafka's own log, whose records nobody has counted, that are judged here."""


# ── Records ─────────────────────────────────────────────────────────────────────────────────


def fits_here(sources: Sources) -> bool:
    """True if these sources can be read here, and are small; raises `NoSource`."""
    if sources.topic or sources.folders or not all(map(is_readable, sources.text)):
        return False
    if not all(map(_of_values, sources.parquet)):
        return False
    files = [*sources.text, *sources.parquet]
    if sum(Path(file).stat().st_size for file in files) > BYTES_MOST:
        return False
    if sum(Path(file).stat().st_size for file in _segments(sources)) > LOG_BYTES_MOST:
        return False
    size = 0
    for count, (_, _, raw) in enumerate(records(sources), start=1):
        size += len(raw or b"")
        if count > LINES_MOST or size > BYTES_MOST:
            return False
    return True


def _of_values(path: str) -> bool:
    """True if a Parquet file is here, and has lines; of columns Spark makes some."""
    if "://" in path:
        return False
    with told_as_source(path):
        schema = pq.read_schema(path)
    return "value" in schema.names and schema.field("value").type in (pa.string(), pa.binary())


def _segments(sources: Sources) -> list[str]:
    """The files of Kafka's own log."""
    if not sources.segments:
        return []
    from herdproof.pipeline.offsets.source import find_segments

    return [path for paths in find_segments(sources.segments).values() for path in paths]


def records(sources: Sources) -> Iterator[tuple[str, int, bytes | None]]:
    """The records of these files: source, position, and the line; raises `NoSource`."""
    for paths, read in ((sources.text, lines_of), (sources.parquet, _values)):
        for path in paths:
            with told_as_source(path):
                for position, raw in enumerate(read(path), start=1):
                    yield path, position, raw


def _values(path: str) -> Iterator[bytes | None]:
    """The lines in a Parquet file's column `value`."""
    for batch in pq.ParquetFile(path).iter_batches(columns=["value"]):
        yield from batch.column(0).cast(pa.binary()).to_pylist()


# ── The audit ───────────────────────────────────────────────────────────────────────────────


@dataclass
class AuditHere(TableJob):
    """An audit in this process: its settings, and its run."""

    work: Work
    tell: Tell = lambda _words, _fraction: None
    replay: bool = True
    run_name: str = "cluster"
    """As that of an `Audit`."""
    seconds: dict[str, float] = field(default_factory=dict)

    def plan(self, sources: Sources) -> tuple[int, Whole]:
        """The number of records, and the rows that will come of them."""
        came = sum(1 for _ in records(sources))
        packets = packets_of(pack(records(sources), self.work, buckets=1))
        judged = judge_packets(sorted(packets, key=in_order), self.work, self.replay)
        if not sources.segments:
            return came, Whole(judged)
        from herdproof.pipeline.offsets.source import judged_here

        log, of_log = judged_here(sources.segments, self.run_name)
        return came + log, Whole(chain(judged, of_log))

    def counts(self, whole: Whole) -> list[dict[str, Any]]:
        """The counts, by protocol and run."""
        return counts_of(whole.tables["counted"].to_pylist())

    def write(self, store: OutputDirectory, whole: Whole) -> TalliesHere:
        """Write every table."""
        return written_here(store, whole.tables)


def in_order(packet: Packet) -> tuple[Any, ...]:
    """The order of a bucket, as `packets.ORDER` has it; nothing comes first."""
    return (packet.protocol or "", packet.run or "", packet.group or "", packet.slice)


class Whole:
    """The rows of all tables, made when they are first looked at."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """The tables by name, and `counted`."""
        return gathered(self._batches)


def counts_of(counted: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows of `counted`, summed up by protocol and run."""
    whose = itemgetter("protocol", "run")
    ordered = sorted(counted, key=lambda row: [name or "" for name in whose(row)])
    found = []
    for (protocol, run), rows in groupby(ordered, whose):
        own = list(rows)
        named = [row for row in own if row["group"] is not None]
        shared = [row["shared"] for row in named]
        found.append(
            {
                "protocol": protocol, "run": run,
                "lines": sum(row["lines"] for row in own),
                "set_aside": sum(row["set_aside"] for row in own),
                "shared": sum(row["lines"] for row in own if row["group"] is None),
                "least_shared": min(shared, default=None),
                "most_shared": max(shared, default=None),
                "groups": len({row["group"] for row in named}),
            }
        )  # fmt: skip
    return found


def written_here(store: OutputDirectory, found: Mapping[str, pa.Table]) -> TalliesHere:
    """Write every table to this machine's disk, a file each; a record is in quarantine once."""
    tables = {name: found[name] for name in TABLES}
    tables["quarantine"] = _each_once(tables["quarantine"])
    try:
        for name, table in tables.items():
            folder = Path(store.fresh(name).removeprefix(ON_DISK))
            folder.mkdir(parents=True)
            pq.write_table(table, folder / "part-00000.parquet")
    except OSError as problem:
        raise WorldError(f"{store.name} cannot be written: {problem}") from problem
    return TalliesHere(tables)


def _each_once(quarantine: pa.Table) -> pa.Table:
    """The quarantine, with one row of each place."""
    first: dict[str, int] = {}
    for index, place in enumerate(quarantine["place"].to_pylist()):
        first.setdefault(place, index)
    return quarantine.take(pa.array(first.values(), pa.int64()))


class TalliesHere:
    """Figures that a summary asks of tables in memory."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = tables

    def counts(self, table: str, *by: str) -> Counter[tuple[Any, ...]]:
        """The number of rows for each value of these columns."""
        columns = (self._tables[table][column].to_pylist() for column in by)
        return Counter(zip(*columns, strict=True))

    def unknown(self, most: int) -> list[tuple[str | None, int]]:
        """Why verdicts are unknown, and how often."""
        reasons = [
            (why, count)
            for (verdict, why), count in self.counts("verdicts", "verdict", "why").items()
            if verdict == "unknown"
        ]
        return sorted(reasons, key=lambda told: (-told[1], told[0] or ""))[:most]

    def violations(self, most: int) -> tuple[int, list[Row]]:
        """The number of violations, and the first of them."""
        rows = self._tables["violations"].to_pylist()
        rows.sort(key=lambda row: [(row[column] is not None, row[column]) for column in FIRST])
        return len(rows), rows[:most]
