"""
The audit: every record read, every group judged, the tables written, on whatever Spark there is.

    spark-submit --py-files herdproof.zip audit.py SOURCE... --out DIR
    herdproof audit SOURCE... --out DIR --spark MASTER

The plan is one shuffle. Records are read where they lie, spread over buckets by group, sorted there
(Spark spills what does not fit), and judged group by group; the rows of all tables come out of that
one pass as one frame, kept on disk until every table is written. Where all rows are few, they
come to the driver, packed, which writes the tables: a dozen jobs of Spark would take longer. Else
nothing but counts comes there. Where the workers are on this machine, they read its text files
themselves, without Java.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from threading import Event, Thread
from typing import Any

from herdproof.garbage import task_of_worker
from herdproof.pipeline.audit.audit_work import judge_bucket
from herdproof.pipeline.audit.here import counts_of, written_here
from herdproof.pipeline.audit.job import TableJob, Tell
from herdproof.pipeline.audit.summary import SparkTallies, Tallies
from herdproof.pipeline.audit.work import Work
from herdproof.pipeline.spark.outgoing import OUT_DDL, rows_of, unpacked
from herdproof.pipeline.spark.packets import ORDER, PACKETS_DDL, pack, pack_records
from herdproof.pipeline.spark.sources import Bases, Sources, records
from herdproof.pipeline.spark.store import OutputDirectory, write_tables
from herdproof.pipeline.spark.tables import TABLES
from herdproof.pipeline.spark.text_files import TextPart, is_readable, parts_of, records_of

SETTINGS = {
    "spark.rdd.compress": "true",  # what is kept on disk between the stages
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",  # some megabytes of lines
}
"""Settings that the session of an audit wants besides."""

STORED = tuple(TABLES)

FEW_BYTES = 64 * 1024 * 1024
"""The most bytes of packed rows for the driver; a million lines make about half of that."""


def _together(frames: Sequence[Any]) -> Any:
    """The rows of all these frames."""
    return reduce(lambda one, other: one.unionByName(other), frames)


@dataclass
class Audit(TableJob):
    """An audit on Spark: its settings, and its run."""

    spark: Any
    work: Work
    tell: Tell = lambda _words, _fraction: None
    replay: bool = True
    run_name: str = "cluster"
    """Name of the run that Kafka's own log is told to be of; traces name their runs themselves."""
    seconds: dict[str, float] = field(default_factory=dict)
    few_bytes: int = FEW_BYTES
    """The most bytes of packed rows that are written by the driver."""
    _few: Mapping[str, Any] | None = field(default=None, init=False, repr=False)
    """All tables, where their rows are that few."""

    def plan(self, sources: Sources) -> tuple[int, Any]:
        """The number of records, and the frame of all tables' rows that comes of them."""
        frames, came = [], 0
        if sources.lines:
            packets, came = self._packets(sources)
            frames.append(self.judged(_together(packets)))
        for log in self._logs(sources):
            from herdproof.pipeline.offsets.source import judged

            came += log.count()
            frames.append(judged(log, self.run_name, self.buckets))
        return came, _together(frames)

    def _packets(self, sources: Sources) -> tuple[list[Any], int]:
        """The frames of all lines as packets, and how many records there are."""
        found, came, left = [], 0, sources
        if self.is_local:
            mine = [path for path in sources.text if is_readable(path)]
            left = replace(sources, text=tuple(p for p in sources.text if not is_readable(p)))
            parts, came = parts_of(mine)
            found += [self.packets_of_parts(parts)] if parts or not left.lines else []
        if left.lines:
            raw, bases, count = records(self.spark, left)
            found.append(self.packets(raw, bases))
            came += count
        return found, came

    @property
    def is_local(self) -> bool:
        """True if the workers are on this machine, too."""
        return str(self.spark.sparkContext.master).partition("[")[0] == "local"

    def _logs(self, sources: Sources) -> Iterator[Any]:
        """The records of Kafka's own log."""
        if not sources.segments and not (sources.topic and sources.topic.is_log):
            return
        from herdproof.pipeline.offsets.source import segment_records, topic_records

        if sources.segments:
            yield segment_records(self.spark, sources.segments)
        if sources.topic and sources.topic.is_log:
            yield topic_records(self.spark, sources.topic)

    def packets(self, raw: Any, bases: Bases) -> Any:
        """Records as packets of lines, each in its bucket."""
        work, buckets = self.work, self.buckets

        def pack_all(batches: Iterable[Any]) -> Iterator[Any]:
            return pack_records(batches, work, buckets, bases)

        return raw.mapInArrow(pack_all, PACKETS_DDL)

    def packets_of_parts(self, parts: Sequence[TextPart]) -> Any:
        """The packets of parts of text files, which the workers read themselves."""
        work, buckets = self.work, self.buckets

        def pack_parts(batches: Iterable[Any]) -> Iterator[Any]:
            with task_of_worker():
                for batch in batches:
                    for number in batch.column(0).to_pylist():
                        yield from pack(records_of(parts[number]), work, buckets)

        numbers = self.spark.range(0, len(parts), 1, max(1, len(parts)))
        return numbers.mapInArrow(pack_parts, PACKETS_DDL)

    def judged(self, packets: Any) -> Any:
        """Rows of all tables, from packets."""
        work, replay = self.work, self.replay

        def judge(batches: Iterable[Any]) -> Iterator[Any]:
            with task_of_worker():
                yield from judge_bucket(batches, work, replay)

        spread = packets.repartitionById(self.buckets, "bucket")
        return spread.sortWithinPartitions(*ORDER).mapInArrow(judge, OUT_DDL)

    @property
    def buckets(self) -> int:
        """The number of tasks that judge: as many as Spark would shuffle into."""
        return int(self.spark.conf.get("spark.sql.shuffle.partitions"))

    @contextmanager
    def kept(self, rows: Any) -> Iterator[Any]:
        """The frame, kept on the workers' disks."""
        from pyspark import StorageLevel

        whole = rows.persist(StorageLevel.DISK_ONLY)
        try:
            yield whole
        finally:
            whole.unpersist()

    def write(self, store: OutputDirectory, whole: Any) -> Tallies:
        """Write every table, and read from them again what a summary asks."""
        if self._few is not None and store.is_on_disk:
            return written_here(store, self._few)
        write_tables(store, whole, STORED, lambda words: self.tell(words, None))
        return SparkTallies(self.spark, store.fresh)

    def counts(self, whole: Any) -> list[dict[str, Any]]:
        """The counts, by protocol and run: some hundred bytes for each."""
        from pyspark.sql import functions as f

        (size,) = whole.agg(f.sum(f.length("payload"))).first()
        if (size or 0) <= self.few_bytes:
            packed = ((row["table"], bytes(row["payload"])) for row in whole.collect())
            self._few = unpacked(packed)
            return counts_of(self._few["counted"].to_pylist())
        of = rows_of(whole, "counted")
        named = f.col("group").isNotNull()
        sums = of.groupBy("protocol", "run").agg(
            f.sum("lines").alias("lines"),
            f.sum("set_aside").alias("set_aside"),
            f.sum(f.when(~named, f.col("lines")).otherwise(0)).alias("shared"),
            f.min(f.when(named, f.col("shared"))).alias("least_shared"),
            f.max(f.when(named, f.col("shared"))).alias("most_shared"),
            f.countDistinct("group").alias("groups"),
        )
        return [row.asDict() for row in sums.collect()]

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stage: told while it lasts, with its tasks, and timed."""
        done = Event()
        watch = Thread(target=self._watch, args=(name, done), daemon=True)
        with super().stage(name):
            watch.start()
            try:
                yield
            finally:
                done.set()
                watch.join()

    def _watch(self, name: str, done: Event) -> None:
        """Tell how many of the running tasks are done."""
        tracker = self.spark.sparkContext.statusTracker()
        while not done.wait(0.5):
            stages = [tracker.getStageInfo(s) for s in tracker.getActiveStageIds()]
            total = sum(s.numTasks for s in stages if s)
            if total:
                ready = sum(s.numCompletedTasks for s in stages if s)
                self.tell(f"{name}: {ready} of {total} tasks", ready / total)
