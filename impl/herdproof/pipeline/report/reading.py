"""Reading the tables of a directory, batch by batch: none of them needs to fit into memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from herdproof.errors import CallerError
from herdproof.pipeline.campaign.tables import CAMPAIGN_TABLES
from herdproof.pipeline.spark.tables import TABLES, Table

Subject: TypeAlias = tuple[str, str]
"""A run and a group."""

ALL_TABLES: Mapping[str, Table] = {**TABLES, **CAMPAIGN_TABLES}
BATCH = 65_536
SURELY_A_DATE_NS = 10**18
"""Smaller times are a simulator's, which begins at 0."""


class NoTables(CallerError):
    """A directory holds no tables, or others than ours."""


class Tables:
    """The tables in a directory; one that is not there has no rows."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        found = {name: self._open(table) for name, table in ALL_TABLES.items()}
        self._datasets: dict[str, Any] = {name: d for name, d in found.items() if d is not None}
        if not self._datasets:
            raise NoTables(
                f"there are no tables in {directory}: an audit's or a campaign's directory has"
                f" {', '.join(list(TABLES)[:3])} and others in it"
            )

    def __contains__(self, name: str) -> bool:
        return name in self._datasets

    def _open(self, table: Table) -> Any:
        """A table's files; None where there are none."""
        place = self.directory / table.name
        if not place.is_dir():
            return None
        files = sorted(
            str(path)
            for path in place.rglob("*.parquet")
            if not any(part[0] in "._" for part in path.relative_to(place).parts)
        )
        if not files:
            return None
        try:
            for file in files:
                _check(table, ds.dataset(file, format="parquet").schema)
            return ds.dataset(files, schema=table.arrow, format="parquet")
        except (pa.ArrowException, OSError) as problem:
            raise NoTables(f"{place} cannot be read: {problem}") from problem

    def batches(
        self, name: str, columns: Sequence[str], where: Any = None, largest: int = BATCH
    ) -> Iterator[Any]:
        """A table's rows, some thousands at a time."""
        if name not in self._datasets:
            return
        try:
            yield from self._datasets[name].to_batches(
                columns=list(columns), filter=where, batch_size=largest
            )
        except (pa.ArrowException, OSError) as problem:
            raise NoTables(f"{self.directory / name} cannot be read: {problem}") from problem

    def rows(self, name: str, where: Any = None, most: int | None = None) -> list[dict[str, Any]]:
        """A table's rows as mappings, at most so many."""
        found: list[dict[str, Any]] = []
        columns = [column.name for column in ALL_TABLES[name].columns]
        for batch in self.batches(name, columns, where):
            found += batch.slice(0, None if most is None else most - len(found)).to_pylist()
            if most is not None and len(found) >= most:
                break
        return found

    def counts(self, name: str, *by: str, where: Any = None) -> Counter[tuple[Any, ...]]:
        """The number of rows for each value of these columns."""
        found: Counter[tuple[Any, ...]] = Counter()
        for batch in self.batches(name, by, where):
            grouped = (
                pa.Table.from_batches([batch]).group_by(list(by)).aggregate([([], "count_all")])
            )
            columns = [grouped.column(column).to_pylist() for column in (*by, "count_all")]
            for *values, count in zip(*columns, strict=True):
                found[tuple(values)] += count
        return found

    def sums(self, name: str, what: str, *by: str) -> Counter[tuple[Any, ...]]:
        """The sum of a column for each value of these others; null counts as nothing."""
        found: Counter[tuple[Any, ...]] = Counter()
        for batch in self.batches(name, (*by, what)):
            grouped = pa.Table.from_batches([batch]).group_by(list(by)).aggregate([(what, "sum")])
            columns = [grouped.column(column).to_pylist() for column in (*by, f"{what}_sum")]
            for *values, total in zip(*columns, strict=True):
                found[tuple(values)] += total or 0
        return found

    def span(self, name: str, first: str, last: str) -> tuple[int, int] | None:
        """From the least value of a column to the greatest of another."""
        lows, highs = [], []
        for batch in self.batches(name, sorted({first, last})):
            low = pc.min(batch.column(first)).as_py()
            high = pc.max(batch.column(last)).as_py()
            lows += [] if low is None else [low]
            highs += [] if high is None else [high]
        return (min(lows), max([*highs, *lows])) if lows else None


def of_subjects(subjects: Sequence[Subject]) -> Any:
    """The condition that a row is about one of these."""
    where = pc.scalar(False)
    for run, group in subjects:
        where = where | ((pc.field("run") == run) & (pc.field("group") == group))
    return where


def _check(table: Table, schema: Any) -> None:
    """`NoTables` if a file has not the table's columns."""
    missing = [column.name for column in table.columns if column.name not in schema.names]
    if missing:
        raise NoTables(f"this is no table of {table.name}: it has no column {', '.join(missing)}")
