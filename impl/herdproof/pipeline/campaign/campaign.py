"""
The campaign: many runs of a simulator, each audited where it is made, on one core or on a cluster.

    herdproof campaign central_coordinator --runs 1000 --out DIR --spark MASTER

On Spark a task is a range of runs; a run depends on its number alone, so that neither the number of
tasks nor a task that is tried again changes a row. Edges are put together by Spark; the driver gets
counts, and the first broken runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from herdproof.pipeline.campaign.tables import CAMPAIGN_TABLES
from herdproof.pipeline.campaign.work import (
    BROKEN,
    UNKNOWN,
    Merged,
    Plan,
    audited,
    campaign_rows,
    curve,
)
from herdproof.pipeline.spark.store import OutputDirectory
from herdproof.pipeline.spark.tables import TABLES, Row, Rows, Table

Tell = Callable[[str, float | None], None]
"""Hears what is being done, and how much of it is done, where that is known."""

WRITTEN: Mapping[str, Table] = {**TABLES, **CAMPAIGN_TABLES}
SHOWN = 10
"""Broken runs, and runs that could not be judged, that the summary names."""
FLUSH_ROWS = 5_000
TASKS = 8
"""The number of tasks for each core: the more, the less a slow run holds up."""
LARGEST_TASK = 200
"""At most so many runs are in one task, so that little is lost with it."""


@dataclass
class CampaignSummary:
    """The outcome of a campaign."""

    plan: Plan
    outcomes: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    """By promise, in how many runs."""
    first: list[Row] = field(default_factory=list)
    """The first broken runs."""
    unjudged: list[Row] = field(default_factory=list)
    """The first runs of which nothing is known."""
    edges: int = 0
    curve: Sequence[Row] = ()
    cpu_s: float = 0.0
    """Processor time of the runs and their audits."""
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The summary as plain data."""
        keep = ("seed", "mix", "broken", "told")
        return {
            **asdict(self.plan), "outcomes": dict(self.outcomes), "broken": dict(self.broken),
            "first_broken": [{k: row[k] for k in keep} for row in self.first],
            "first_unknown": [
                {k: row[k] for k in keep if k != "broken"} for row in self.unjudged
            ],
            "edges": self.edges,
            "curve": [{k: row[k] for k in ("runs", "new", "edges")} for row in self.curve],
            "cpu_s": round(self.cpu_s, 3), "seconds": round(self.seconds, 3),
        }  # fmt: skip


# ── In this process ─────────────────────────────────────────────────────────────────────────


def run_here(plan: Plan, out: Path, tell: Tell = lambda _words, _fraction: None) -> CampaignSummary:
    """All runs in this process, one after the other; the tables go to `out`."""
    began, store = perf_counter(), OutputDirectory(None, str(out))
    store.check()
    summary, merged = CampaignSummary(plan), Merged(plan)
    try:
        with _Writers(Path(store.begin())) as writers:
            tell(f"0 of {plan.runs:,} runs", 0.0)
            for rows in campaign_rows(plan):
                merged.add(rows["edges"])
                (run,) = rows["runs"]
                _count(summary, run)
                writers.write({**rows, "edges": []})
                done = summary.outcomes.total()
                words = f"{done:,} of {plan.runs:,} runs, {summary.outcomes[BROKEN]:,} broken"
                tell(words, done / plan.runs)
            tell("writing the tables", None)
            edges, summary.curve = merged.edges(), merged.curve()
            writers.write({"edges": edges, "curve": summary.curve})
        summary.edges, summary.seconds = len(edges), perf_counter() - began
        store.swap(summary.as_json())
    except BaseException:
        store.give_up()
        raise
    return summary


def _count(summary: CampaignSummary, run: Row) -> None:
    """A run's row."""
    summary.outcomes[run["outcome"]] += 1
    summary.cpu_s += run["seconds"]
    summary.broken.update(run["broken"])
    shown = {BROKEN: summary.first, UNKNOWN: summary.unjudged}.get(run["outcome"])
    if shown is not None and len(shown) < SHOWN:
        shown.append(run)


class _Writers:
    """A Parquet file for each table, written as rows come."""

    def __init__(self, directory: Path) -> None:
        self._rows: Rows = {name: [] for name in WRITTEN}
        self._files = {}
        for name, table in WRITTEN.items():
            (directory / name).mkdir(parents=True)
            self._files[name] = pq.ParquetWriter(
                directory / name / "part-00000.parquet", table.arrow
            )

    def __enter__(self) -> _Writers:
        return self

    def __exit__(self, *_error: object) -> None:
        for name, file in self._files.items():
            self._flush(name)
            file.close()

    def write(self, rows: Rows) -> None:
        """Rows of tables."""
        for name, of in rows.items():
            self._rows[name] += of
            if len(self._rows[name]) >= FLUSH_ROWS:
                self._flush(name)

    def _flush(self, name: str) -> None:
        self._files[name].write_table(WRITTEN[name].filled(self._rows[name]))
        self._rows[name] = []


# ── On Spark ────────────────────────────────────────────────────────────────────────────────


def run_on_spark(
    spark: Any, plan: Plan, store: OutputDirectory, tell: Tell = lambda _words, _fraction: None
) -> CampaignSummary:
    """The runs of a plan on Spark's workers, to the tables of the store."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as f

    began = perf_counter()
    store.check()
    tell(f"{plan.runs:,} runs", None)
    whole = rows_on_spark(spark, plan).persist(StorageLevel.DISK_ONLY)
    try:
        summary = _summed_up(whole, plan)
        for name in WRITTEN:
            tell(f"writing {name}", None)
            rows = whole.where(whole["table"] == name).select(f"`{name}`.*")
            if name == "edges":
                rows = _edges(rows, plan).persist(StorageLevel.DISK_ONLY)
                firsts = rows.groupBy((f.floor(f.col("first") / plan.stretch)).alias("k"))
                new = {row["k"]: row["count"] for row in firsts.count().collect()}
                at = (k * plan.stretch for k, count in new.items() for _ in range(count))
                summary.curve, summary.edges = curve(plan, at), sum(new.values())
            if name == "curve":
                made = CAMPAIGN_TABLES["curve"].filled(summary.curve)
                rows = spark.createDataFrame(made, CAMPAIGN_TABLES["curve"].ddl)
            rows.write.parquet(store.fresh(name))
        summary.seconds = perf_counter() - began
        store.swap(summary.as_json())
    except BaseException:
        store.give_up()
        raise
    finally:
        whole.unpersist()
    return summary


def rows_on_spark(spark: Any, plan: Plan) -> Any:
    """The rows of all tables but the curve, a column for each; edges once for each run."""
    tasks = task_count(plan.runs, spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, plan.runs, 1, tasks)
    return numbers.mapInArrow(_worker(plan), frame_ddl())


def task_count(runs: int, cores: int) -> int:
    """The number of tasks: some for each core, and none too large."""
    return min(runs, max(TASKS * cores, ceil(runs / LARGEST_TASK)))


def _worker(plan: Plan) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The work of a task: it gets numbers of runs, and knows the plan alone."""

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        kept: Rows = {}
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for name, rows in audited(plan.asked(number)).items():
                    kept.setdefault(name, []).extend(rows)
                for name in [n for n, rows in kept.items() if len(rows) >= FLUSH_ROWS]:
                    yield framed(name, kept.pop(name))
        for name, rows in kept.items():
            if rows:
                yield framed(name, rows)

    return work


def frame_ddl() -> str:
    """The frame of all tables, in Spark's words."""
    structs = (
        f"`{name}` struct<{', '.join(f'`{c.name}`: {c.kind}' for c in table.columns)}>"
        for name, table in WRITTEN.items()
    )
    return ", ".join(["`table` string", *structs])


@cache
def _frame() -> Any:
    """The schema of rows of all tables together, as Arrow has it."""
    structs = [(name, pa.struct(list(table.arrow))) for name, table in WRITTEN.items()]
    return pa.schema([("table", pa.string()), *structs])


def framed(name: str, rows: Sequence[Row]) -> Any:
    """Rows of one table as a batch of that frame; the other tables' columns are null."""
    struct = pa.concat_arrays(WRITTEN[name].filled(rows).to_struct_array().chunks)
    arrays = [
        pa.array([name] * len(rows)) if column.name == "table"
        else struct.cast(column.type) if column.name == name
        else pa.nulls(len(rows), column.type)
        for column in _frame()
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=_frame())


def _edges(rows: Any, plan: Plan) -> Any:
    """The edges of all runs, each once."""
    from pyspark.sql import functions as f

    found = rows.groupBy("protocol", "edge", "action").agg(
        f.min("first").alias("first"), f.sum("runs").alias("runs")
    )
    run = (f.col("first") + f.lit(plan.first_seed)).cast("string")
    columns = [c.name for c in CAMPAIGN_TABLES["edges"].columns]
    return found.withColumns({"run": run, "group": f.lit("")}).select(*columns).orderBy("edge")


def _summed_up(whole: Any, plan: Plan) -> CampaignSummary:
    """The sum of the runs: counts, and the first broken ones."""
    from pyspark.sql import functions as f

    runs = whole.where(whole["table"] == "runs").select("runs.*")
    summary = CampaignSummary(plan)
    for row in runs.groupBy("outcome").agg(f.count("*").alias("n"), f.sum("seconds")).collect():
        summary.outcomes[row["outcome"]] = row["n"]
        summary.cpu_s += row["sum(seconds)"]
    bad = runs.where(f.col("outcome") == BROKEN)
    for row in bad.select(f.explode("broken").alias("name")).groupBy("name").count().collect():
        summary.broken[row["name"]] = row["count"]
    summary.first = _first(bad)
    summary.unjudged = _first(runs.where(f.col("outcome") == UNKNOWN))
    return summary


def _first(runs: Any) -> list[Row]:
    """The first of some runs."""
    return [row.asDict() for row in runs.orderBy("number").limit(SHOWN).collect()]
