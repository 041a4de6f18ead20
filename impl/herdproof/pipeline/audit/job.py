"""
The course of an audit, wherever it is done: look through the records, judge, write, sum up.

`audit.py` does it on Spark, `here.py` in this process.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from herdproof.errors import HerdError
from herdproof.pipeline.audit.summary import Summary, Tallies, summed_up
from herdproof.pipeline.spark.sources import Sources
from herdproof.pipeline.spark.store import OutputDirectory

Tell = Callable[[str, float | None], None]
"""Hears what is being done, and how much of it is done, where that is known."""


class RecordsLost(HerdError):
    """Loss of records between input and output: a fault of ours, never the trace's."""


class TableJob(ABC):
    """An audit; `seconds` says how long each of its stages took."""

    tell: Tell
    seconds: dict[str, float]

    @abstractmethod
    def plan(self, sources: Sources) -> tuple[int, Any]:
        """The number of records, and the rows of all tables that will come of them."""

    def kept(self, rows: Any) -> AbstractContextManager[Any]:
        """Rows that are each made once, however often they are looked at."""
        return nullcontext(rows)

    @abstractmethod
    def counts(self, whole: Any) -> list[dict[str, Any]]:
        """The counts, by protocol and run: some hundred bytes for each."""

    @abstractmethod
    def write(self, store: OutputDirectory, whole: Any) -> Tallies:
        """Write every table, a record of the quarantine once; what a summary asks of them."""

    def run(self, sources: Sources, store: OutputDirectory) -> Summary:
        """Audit these sources into that store."""
        store.check()
        with self.stage("looking through the records"):
            came, rows = self.plan(sources)
        try:
            with self.kept(rows) as whole:
                with self.stage("judging"):
                    counts = self.counts(whole)
                with self.stage("writing the tables"):
                    tallies = self.write(store, whole)
                with self.stage("summing up"):
                    summary = summed_up(tallies, counts, came, sources.words)
                    check_counts(summary, counts)
            summary.seconds.update({k: round(v, 3) for k, v in self.seconds.items()})
            store.swap(summary.as_json())
        except BaseException:
            store.give_up()
            raise
        return summary

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stage: told, and timed."""
        began = time.perf_counter()
        self.tell(name, None)
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - began


def check_counts(summary: Summary, counts: Iterable[Mapping[str, Any]]) -> None:
    """Raises `RecordsLost` unless every record was judged, or is in quarantine."""
    out = sum(row["lines"] for row in counts)
    if summary.records != out:
        raise RecordsLost(f"{summary.records:,} records went in, {out:,} came out")
    for row in counts:
        given = {row["shared"], row["least_shared"], row["most_shared"]} - {None}
        if row["least_shared"] is not None and row["protocol"] is not None and len(given) > 1:
            raise RecordsLost(f"run {row['run']}: not all groups got the lines of all groups")
    malformed = sum(row["set_aside"] for row in counts if row["protocol"] is None)
    if malformed > sum(summary.quarantined.values()):
        raise RecordsLost(f"{malformed:,} records are malformed; not all are in quarantine")
