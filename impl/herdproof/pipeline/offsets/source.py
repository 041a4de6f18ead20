"""
`__consumer_offsets` in Spark: from copied log segments or the live topic, then group by group.

Spark adds distribution and nothing else: what reads a partition, and what judges a group, are the
pure functions of this package. A partition's segments are read by one task, one file at a time. The
plan is one shuffle, by group; a group's records come in the order of its log and may be many: rows
are handed on while they are judged.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from time import perf_counter
from typing import Any

import pyarrow as pa

from herdproof.errors import Malformed
from herdproof.pipeline.offsets import TOPIC
from herdproof.pipeline.offsets.judge import OffsetsJudging, group_of, quarantined
from herdproof.pipeline.offsets.segments import (
    DIRECTORY,
    File,
    LogRecord,
    partitions_of,
    read_partition,
)
from herdproof.pipeline.spark.outgoing import OUT_DDL, Outgoing
from herdproof.pipeline.spark.packets import bucket_of
from herdproof.pipeline.spark.sources import NoSource, Topic, check_topic
from herdproof.pipeline.spark.tables import ARROW

RECORD_COLUMNS = {
    "place": "string", "partition": "int", "offset": "long", "time_ns": "long", "key": "binary",
    "value": "binary", "transaction": "string", "reason": "string", "why": "string",
}  # fmt: skip
"""A record of the log; `reason` and `why` where it is none, and `value` has what was read."""

KEYED_COLUMNS = {"bucket": "int", "group": "string", **RECORD_COLUMNS}
"""A record of the log with its group (null: its key cannot be read), and where that is judged."""

ORDER = ("group", "partition", "offset")

ROWS = 5_000
"""Rows of one batch, and records that are judged before rows are handed on."""


def ddl(columns: dict[str, str]) -> str:
    """Columns in Spark's words."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def _arrow(columns: dict[str, str]) -> pa.Schema:
    kinds = {**ARROW, "int": pa.int32()}
    return pa.schema([(name, kinds[kind]) for name, kind in columns.items()])


_RECORDS, _KEYED = _arrow(RECORD_COLUMNS), _arrow(KEYED_COLUMNS)


# ── Copied segments ─────────────────────────────────────────────────────────────────────────


def find_segments(directories: Iterable[str]) -> dict[int, list[str]]:
    """
    Segments by partition: of log directories, or of directories of one partition each.

    Raises `NoSource` where there is none, and `TwoCopies`.
    """
    named = list(directories)
    files = [file for name in named for file in _files_of(name)]
    found = partitions_of(files)
    if not found:
        raise NoSource(f"no segment of {TOPIC} (…/{TOPIC}-0/00000000000000000000.log) in {named}")
    return found


def _files_of(directory: str) -> list[str]:
    """The files of a partition's directory, or of all such directories within a log directory."""
    from pyarrow.fs import FileSelector, FileSystem, FileType

    system, path = FileSystem.from_uri(directory)

    def within(folder: str, kind: Any) -> list[str]:
        return [i.path for i in system.get_file_info(FileSelector(folder)) if i.type == kind]

    folders = [path]
    if not DIRECTORY.fullmatch(path.rstrip("/").rsplit("/", 1)[-1]):
        below = within(path, FileType.Directory)
        folders = [folder for folder in below if DIRECTORY.fullmatch(folder.rsplit("/", 1)[-1])]
    scheme = directory.partition("://")[0] + "://" if "://" in directory else ""
    return [f"{scheme}{file}" for folder in folders for file in within(folder, FileType.File)]


def segment_records(spark: Any, directories: Iterable[str]) -> Any:
    """All records of copied segments: a frame of `RECORD_COLUMNS`."""
    found = find_segments(directories)
    rows = [(partition, paths) for partition, paths in found.items()]
    frame = spark.createDataFrame(rows, "partition int, paths array<string>")
    return frame.repartition(len(rows)).mapInArrow(read_segments, ddl(RECORD_COLUMNS))


def read_segments(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Partitions with their files' paths, as records."""
    for batch in batches:
        for row in batch.to_pylist():
            files = [file_of(path) for path in row["paths"]]
            yield from _batches(map(_row, read_partition(row["partition"], files)), _RECORDS)


def file_of(path: str) -> File:
    """A file of whatever file system, to be read when it is its turn."""

    def load() -> bytes:
        from pyarrow.fs import FileSystem

        system, inner = FileSystem.from_uri(path)
        with system.open_input_stream(inner, compression=None) as file:
            data: bytes = file.read()
        return data

    return path, load


def _row(record: LogRecord) -> tuple[Any, ...]:
    return (record.place, *record)


def _batches(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow has them, some thousands at a time."""
    waiting = iter(rows)
    while some := list(islice(waiting, ROWS)):
        columns = zip(*some, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


# ── The live topic ──────────────────────────────────────────────────────────────────────────


ASK_BROKERS = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Spark's newer way to ask for offsets passes over Kafka's own topics, without a word."""


def topic_records(spark: Any, topic: Topic) -> Any:
    """
    All records that the live topic has now, as a frame of `RECORD_COLUMNS`.

    It is kept on disk once it was read: Kafka compacts its log at any time, and who counts records
    and then judges them must see the same. What transactions wrote that were aborted, or have not
    ended, Kafka leaves out. Partitions are named one by one: to subscribe would found a group, and
    be written into the very log. Raises `NoSource` where no broker answers that has the topic.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as f

    spark.conf.set(ASK_BROKERS, "true")
    ends = {str(partition): end for partition, end in _ends(topic).items()}
    read = spark.read.format("kafka").option("kafka.bootstrap.servers", topic.bootstrap)
    read = read.option("assign", json.dumps({topic.name: list(map(int, ends))}))
    read = read.option("startingOffsets", "earliest")
    read = read.option("endingOffsets", json.dumps({topic.name: ends}))
    read = read.option("kafka.isolation.level", "read_committed").option("failOnDataLoss", "false")
    nothing = f.lit(None).cast("string")
    records = read.load().select(
        f.concat("topic", f.lit("-"), "partition", f.lit("@"), "offset").alias("place"),
        "partition", "offset",
        (f.unix_micros("timestamp") * 1000).alias("time_ns"),
        "key", "value",
        *(nothing.alias(name) for name in ("transaction", "reason", "why")),
    )  # fmt: skip
    return records.persist(StorageLevel.DISK_ONLY)


def _ends(topic: Topic, timeout_s: float = 10.0) -> dict[int, int]:
    """By partition of a topic, up to which offset all transactions have ended now."""
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

    check_topic(topic, timeout_s)
    client = AdminClient({"bootstrap.servers": topic.bootstrap, "log_level": 0})
    known = client.list_topics(topic.name, timeout=timeout_s).topics[topic.name].partitions
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = client.list_offsets(
        {TopicPartition(topic.name, number): latest for number in sorted(known)},
        isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=timeout_s,
    )  # fmt: skip
    try:
        return {place.partition: told.result(timeout_s).offset for place, told in asked.items()}
    except KafkaException as problem:
        raise NoSource(f"{topic.bootstrap} does not tell where {topic.name} ends: {problem}") from (
            problem
        )


# ── Groups ──────────────────────────────────────────────────────────────────────────────────


def judged(records: Any, run: str, buckets: int) -> Any:
    """Rows of all tables (`outgoing.OUT_DDL`), from records; `run` names the cluster."""

    def key(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return keyed(batches, run, buckets)

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return judge_groups(batches, run)

    spread = records.mapInArrow(key, ddl(KEYED_COLUMNS)).repartitionById(buckets, "bucket")
    return spread.sortWithinPartitions(*ORDER).mapInArrow(judge, OUT_DDL)


def judged_here(directories: Iterable[str], run: str) -> tuple[int, Iterator[pa.RecordBatch]]:
    """The number of records in copied segments, and their rows, without Spark."""
    found = find_segments(directories)
    rows = [{"partition": partition, "paths": paths} for partition, paths in found.items()]
    read = keyed(read_segments([pa.RecordBatch.from_pylist(rows)]), run, buckets=1)
    whole = pa.Table.from_batches(read, _KEYED).sort_by([(name, "ascending") for name in ORDER])
    return whole.num_rows, judge_groups(whole.to_batches(), run)


def keyed(batches: Iterable[pa.RecordBatch], run: str, buckets: int) -> Iterator[pa.RecordBatch]:
    """Records with their groups."""
    for batch in batches:
        yield from _batches((_with_group(row, run, buckets) for row in _rows(batch)), _KEYED)


def _with_group(row: tuple[Any, ...], run: str, buckets: int) -> tuple[Any, ...]:
    place, *rest = row
    record = LogRecord(*rest)
    try:
        group = group_of(record)
    except Malformed as wrong:
        if record.reason is None:
            record = record._replace(reason=wrong.reason, why=wrong.why)
        return (zlib.crc32(place.encode()) % buckets, None, place, *record)
    return (bucket_of(TOPIC, run, group, buckets), group, place, *record)


def judge_groups(batches: Iterable[pa.RecordBatch], run: str) -> Iterator[pa.RecordBatch]:
    """Records in the order `ORDER`, as rows of all tables and of `counted`."""
    out = Outgoing()
    rows = (row for batch in batches for row in _rows(batch))
    for group, own in groupby(rows, key=itemgetter(1)):
        records = (LogRecord(*row[3:]) for row in own)
        if group is None:
            yield from _nobodys(out, run, records)
        else:
            yield from _judge(out, OffsetsJudging(run, group), records)
        yield from out.full()
    yield from out.rest()


def _judge(
    out: Outgoing, judge: OffsetsJudging, records: Iterator[LogRecord]
) -> Iterator[pa.RecordBatch]:
    """One group's records, some thousands at a time."""
    began, lines = perf_counter(), 0
    while some := list(islice(records, ROWS)):
        for record in some:
            judge.feed(record)
        lines += len(some)
        out.add(judge.drain())
        yield from out.full()
    out.add(judge.close())
    out.count(
        TOPIC, judge.run, judge.group, lines=lines, set_aside=judge.set_aside,
        seconds=perf_counter() - began,
    )  # fmt: skip


def _nobodys(out: Outgoing, run: str, records: Iterator[LogRecord]) -> Iterator[pa.RecordBatch]:
    """Records whose key cannot be read, and what is none."""
    while some := list(islice(records, ROWS)):
        rows = [quarantined(run, "", r, r.reason or "malformed", r.why or "") for r in some]
        out.quarantine(rows)
        yield from out.full()


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    columns: Sequence[list[Any]] = [column.to_pylist() for column in batch.columns]
    return zip(*columns, strict=True)
