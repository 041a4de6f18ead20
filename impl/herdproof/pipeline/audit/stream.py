"""
The audit of what goes on coming: a topic, or a directory into which files are moved.

Spark keeps a state for every bucket of every run, in its checkpoint, and gives each part of the
stream to it once. What comes out of a part is written below `DIR.stream/rows/batch=N`, and written
again if that part is repeated; the tables are made of that from time to time, and at the end. So a
stream that was killed goes on where it was, and nothing is there twice.

Spark's own watermark is not used, since it drops late rows without a word: what is late is decided
by the state (`following.py`), and told.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from herdproof.errors import CallerError, WorldError
from herdproof.pipeline.audit.audit import STORED, Audit
from herdproof.pipeline.audit.job import RecordsLost, Tell
from herdproof.pipeline.audit.stream_work import (
    KEPT,
    PACKED_DDL,
    STATE_DDL,
    follow_part,
    replay_groups,
    unpack,
)
from herdproof.pipeline.audit.summary import SparkTallies, Summary, summed_up
from herdproof.pipeline.audit.work import Work
from herdproof.pipeline.spark.outgoing import OUT_DDL
from herdproof.pipeline.spark.packets import Packet
from herdproof.pipeline.spark.sources import LINES, Sources, for_spark, text_columns, topic_columns
from herdproof.pipeline.spark.store import OutputDirectory, write_tables

WHOLE_FILES = str(2**60)
"""A limit that no file reaches: a file of a stream is read in one part, its lines numbered."""

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

LOOK_EVERY_S = 0.2


class OtherStream(CallerError):
    """A directory belongs to a stream that was asked something else."""


class StreamFailed(WorldError):
    """Spark has given the stream up."""


class Follow:
    """A streaming audit of `sources` into `out`; `late_ns` says how late a line may come."""

    def __init__(
        self, spark: Any, work: Work, sources: Sources, out: str, tell: Tell, replay: bool,
        late_ns: int, at_once: int | None = None,
    ) -> None:  # fmt: skip
        self.spark, self.work, self.sources, self.tell = spark, work, sources, tell
        self.replay, self.late_ns, self.at_once = replay, late_ns, at_once
        self.audit = Audit(spark, work, tell, replay)
        self.store = OutputDirectory(spark, out)
        self.place = OutputDirectory(spark, f"{out.rstrip('/')}.stream")
        self._busy_at = time.monotonic()
        self._came: dict[int, int] = {}
        """By batch, how many records Spark says that it has read."""

    def run(self, until_idle: float | None, refresh_s: float) -> Summary:
        """Follow until nothing comes any more, or somebody interrupts."""
        self.store.check()
        self._remember()
        query = self._query(until_idle)
        ended = False
        try:
            ended = self._look_on(query, until_idle, refresh_s)
        except KeyboardInterrupt:
            pass
        finally:
            query.stop()
        self._note_progress(query)
        return self.compose(replay_now=ended)

    # ── The query ───────────────────────────────────────────────────────────────────────────

    def _remember(self) -> None:
        """Bind those who resume a stream to the settings that it was begun with."""
        asked = {
            "buckets": self.audit.buckets, "late_ns": self.late_ns, "replay": self.replay,
            "sources": self.sources.words,
        }  # fmt: skip
        before = self.place.read("asked.json")
        if before is None:
            self.place.write("asked.json", json.dumps(asked, indent=2))
        elif (former := json.loads(before)) != asked:
            changed = ", ".join(k for k in asked if former.get(k) != asked[k])
            raise OtherStream(
                f"{self.place.name} is of a stream with other {changed}: ask the same, or name"
                " another --out"
            )

    @contextmanager
    def _settings(self) -> Iterator[None]:
        """Give the session, while a query starts, the settings that the query takes from there."""
        wanted = {
            "spark.sql.files.maxPartitionBytes": WHOLE_FILES,
            "spark.sql.files.openCostInBytes": WHOLE_FILES,
            "spark.sql.streaming.stateStore.providerClass": ROCKS,
        }
        before = {key: self.spark.conf.get(key) for key in wanted}
        for key, value in wanted.items():
            self.spark.conf.set(key, value)
        try:
            yield
        finally:
            for key, value in before.items():
                self.spark.conf.set(key, value)

    def _records(self) -> Any:
        """The stream of records."""
        from pyspark.sql import functions as f

        read = self.spark.readStream
        if (topic := self.sources.topic) is not None:
            read = read.format("kafka").option("kafka.bootstrap.servers", topic.bootstrap)
            read = read.option("subscribe", topic.name).option("startingOffsets", "earliest")
            if self.at_once is not None:
                read = read.option("maxOffsetsPerTrigger", self.at_once)
            return read.load().select(*topic_columns())
        kinds = ",".join(f"{suffix[1:]},{suffix[1:]}.gz" for suffix in sorted(LINES))
        read = read.format("text").option("lineSep", "\n").option("recursiveFileLookup", "true")
        read = read.option("pathGlobFilter", f"*.{{{kinds}}}")
        read = read.option("maxFilesPerTrigger", self.at_once or 100)
        (folder,) = self.sources.folders
        return read.load(for_spark(folder)).select(*text_columns(f))

    def _query(self, until_idle: float | None) -> Any:
        """The running query."""
        import pandas as pd

        work, late_ns, keep = self.work, self.late_ns, self.replay
        names = [part.split()[0].strip("`") for part in PACKED_DDL.split(", ")]

        def follow(key: Any, frames: Iterable[Any], state: Any) -> Iterator[Any]:
            rows = (row for frame in frames for row in frame.itertuples(index=False, name=None))
            packets = (Packet(*row) for row in rows)
            before = state.get[0] if state.exists else None
            found, after = follow_part(key, packets, before, work, late_ns, keep)
            if after is not None:
                state.update((after,))
            yield pd.DataFrame(found, columns=names)

        packets = self.audit.packets(self._records(), {})
        followed = packets.groupBy("protocol", "run", "bucket").applyInPandasWithState(
            follow, PACKED_DDL, STATE_DDL, "append", "NoTimeout"
        )
        write = followed.writeStream.foreachBatch(self._write).outputMode("append")
        write = write.option("checkpointLocation", self.place.of("checkpoint"))
        if until_idle == 0:
            write = write.trigger(availableNow=True)
        with self._settings():
            return write.start()

    def _write(self, batch: Any, number: int) -> None:
        """Write the rows that came of a part; of one that is repeated, again."""
        self._busy_at = time.monotonic()
        batch.write.mode("overwrite").parquet(self.place.of("rows", f"batch={number}"))
        self._busy_at = time.monotonic()

    def _look_on(self, query: Any, until_idle: float | None, refresh_s: float) -> bool:
        """
        Renew the tables while the stream runs; whether it has ended by itself.

        With an `until_idle` of 0 Spark takes what is there, and ends the query.
        """
        from pyspark.errors import StreamingQueryException

        renewed_at, told = time.monotonic(), -1
        while True:
            try:
                if query.awaitTermination(LOOK_EVERY_S):
                    return True
            except StreamingQueryException as problem:
                raise StreamFailed(f"Spark has given up: {_first_line(problem)}") from problem
            self._note_progress(query)
            latest = max(self._came, default=-1)
            if latest > told:
                told = latest
                self.tell(f"part {told:,}: {sum(self._came.values()):,} records so far", None)
            status = query.status
            busy = status["isTriggerActive"] or status["isDataAvailable"]
            idle_s = time.monotonic() - self._busy_at
            if until_idle and not busy and idle_s > until_idle:
                return True
            if told >= 0 and time.monotonic() - renewed_at > refresh_s:
                self.compose(replay_now=False)
                renewed_at = time.monotonic()

    def _note_progress(self, query: Any) -> None:
        """Note the number of records that Spark has read, by part."""
        for progress in query.recentProgress:
            if progress["numInputRows"]:
                self._came[progress["batchId"]] = progress["numInputRows"]

    # ── The tables ──────────────────────────────────────────────────────────────────────────

    def compose(self, *, replay_now: bool) -> Summary:
        """Make the tables of what has come so far."""
        from pyspark import StorageLevel

        rows = self._rows()
        later = self.replay and not replay_now

        def unpacked(batches: Iterable[Any]) -> Iterator[Any]:
            return unpack(batches, later)

        tables = rows.where(rows["table"] != KEPT).coalesce(self.audit.buckets)
        whole = tables.mapInArrow(unpacked, OUT_DDL)
        if self.replay and replay_now:
            whole = whole.unionByName(self._replayed(rows))
        whole = whole.persist(StorageLevel.DISK_ONLY)
        try:
            with self.audit.stage("writing the tables"):
                self._check(rows)
                write_tables(self.store, whole, STORED, lambda words: self.tell(words, None))
            with self.audit.stage("summing up"):
                counts = self.audit.counts(whole)
                came = sum(row["lines"] for row in counts)
                tallies = SparkTallies(self.spark, self.store.fresh)
                summary = summed_up(tallies, counts, came, self.sources.words)
            summary.seconds.update({k: round(v, 3) for k, v in self.audit.seconds.items()})
            self.store.swap(summary.as_json())
        except BaseException:
            self.store.give_up()
            raise
        finally:
            whole.unpersist()
        return summary

    def _rows(self) -> Any:
        """The packed rows that stand: finished ones, and of each group its latest open ones."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        commits = self.place.names("checkpoint", "commits")
        done = max((int(name) for name in commits if name.isdecimal()), default=-1)
        if done < 0:
            return self.spark.createDataFrame([], f"{PACKED_DDL}, batch long")
        read = self.spark.read.schema(f"{PACKED_DDL}, batch long").parquet(self.place.of("rows"))
        rows = read.where(f.col("batch") <= done)
        latest = Window.partitionBy("protocol", "run", "group")
        opened = rows.where("open").withColumn("latest", f.max("batch").over(latest))
        return rows.where("not open").unionByName(
            opened.where(f.col("batch") == f.col("latest")).drop("latest")
        )

    def _replayed(self, rows: Any) -> Any:
        """The kept lines of every group, replayed."""
        work = self.work

        def replayed(batches: Iterable[Any]) -> Iterator[Any]:
            return replay_groups(batches, work)

        key = ("protocol", "run", "group")
        kept = rows.where(rows["table"] == KEPT).repartition(self.audit.buckets, *key)
        return kept.sortWithinPartitions(*key, "open", "batch").mapInArrow(replayed, OUT_DDL)

    def _check(self, rows: Any) -> None:
        """Raises `RecordsLost` unless each part's records were all counted."""
        sums = rows.where(rows["lines"] > 0).groupBy("batch").sum("lines").collect()
        out = {row["batch"]: row["sum(lines)"] for row in sums}
        done = max(out, default=-1)
        for number, came in self._came.items():
            if number <= done and out.get(number, 0) != came:
                raise RecordsLost(
                    f"part {number}: {came:,} records went in, {out.get(number, 0):,} came out"
                )


def _first_line(problem: Exception) -> str:
    """The first line of Spark's message, without its stack."""
    return str(problem).strip().splitlines()[0]
