"""Results of an audit, in figures small enough for one screen: read from its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from herdproof.pipeline.spark.tables import TABLES

TOLD_MOST = 20
"""The most violations that are told in the summary; the table has all."""

UNKNOWN_MOST = 5
"""The most reasons that are told why something is unknown."""

DUPLICATE = "duplicate"
"""The only reason for quarantine that leaves nothing open: what the record says was judged."""

VERDICTS = ("holds", "violated", "unknown", "not observable")


@dataclass
class ToldViolation:
    """A violation, as the summary tells it."""

    run: str
    group: str
    property: str
    place: str
    told: str


@dataclass
class Summary:
    """Counts and verdicts of one audit."""

    sources: str
    records: int
    judged: int
    quarantined: dict[str, int]
    """By reason."""
    runs: int
    groups: int
    verdicts: dict[str, dict[str, int]]
    """By property: how many groups have which verdict."""
    unknown: list[str]
    """Why something is unknown: the reasons that come most often."""
    violations: int
    told: list[ToldViolation]
    """The first of the violations."""
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def exit(self) -> int:
        """0 it holds, 1 something is violated, 3 something is unknown, or could not be read."""
        found = {verdict for counts in self.verdicts.values() for verdict in counts}
        if self.violations or "violated" in found:
            return 1
        return 0 if "holds" in found and "unknown" not in found and not self.unjudged else 3

    @property
    def unjudged(self) -> int:
        """The number of records that say nobody knows what."""
        return sum(n for reason, n in self.quarantined.items() if reason != DUPLICATE)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"command": "audit", "exit": self.exit, **asdict(self)}


class Tallies(Protocol):
    """Figures that a summary wants of an audit's tables, wherever they are."""

    def counts(self, table: str, *by: str) -> Mapping[tuple[Any, ...], int]:
        """The number of rows for each value of these columns."""

    def unknown(self, most: int) -> list[tuple[str | None, int]]:
        """Why verdicts are unknown, and how often: the reasons that come most often."""

    def violations(self, most: int) -> tuple[int, list[Mapping[str, Any]]]:
        """The number of violations, and the first of them, in the order `FIRST`."""


FIRST = ("time_ns", "run", "group", "property", "place")
"""The order of the violations that are told; where one is null, it comes first."""


def summed_up(
    tallies: Tallies, counts: Iterable[Mapping[str, Any]], records: int, sources: str
) -> Summary:
    """The summary of tables, and of what was counted while they were made."""
    quarantined = {reason: n for (reason,), n in tallies.counts("quarantine", "reason").items()}
    verdicts: dict[str, dict[str, int]] = {}
    for (name, verdict), n in sorted(tallies.counts("verdicts", "property", "verdict").items()):
        verdicts.setdefault(name, {})[verdict] = n
    violations, first = tallies.violations(TOLD_MOST)
    named = [row for row in counts if row["protocol"] is not None]
    return Summary(
        sources=sources,
        records=records,
        judged=records - sum(quarantined.values()),
        quarantined=dict(sorted(quarantined.items())),
        runs=len({row["run"] for row in named}),
        groups=sum(row["groups"] for row in named),
        verdicts=verdicts,
        unknown=[f"{why} ({n:,})" for why, n in tallies.unknown(UNKNOWN_MOST)],
        violations=violations,
        told=[
            ToldViolation(**{c: row[c] for c in ToldViolation.__dataclass_fields__})
            for row in first
        ],
    )


class SparkTallies:
    """The tallies of tables that Spark has written."""

    def __init__(self, spark: Any, path_of: Callable[[str], str]) -> None:
        self._spark, self._path_of = spark, path_of

    def _table(self, name: str) -> Any:
        return self._spark.read.schema(TABLES[name].ddl).parquet(self._path_of(name))

    def counts(self, table: str, *by: str) -> Mapping[tuple[Any, ...], int]:
        """The number of rows for each value of these columns."""
        rows = self._table(table).groupBy(*by).count().collect()
        return {tuple(values): n for *values, n in rows}

    def unknown(self, most: int) -> list[tuple[str | None, int]]:
        """Why verdicts are unknown, and how often."""
        from pyspark.sql import functions as f

        why = self._table("verdicts").where("verdict = 'unknown'").groupBy("why").count()
        return [tuple(row) for row in why.orderBy(f.desc("count"), "why").limit(most).collect()]

    def violations(self, most: int) -> tuple[int, list[Mapping[str, Any]]]:
        """The number of violations, and the first of them."""
        found = self._table("violations")
        first = found.orderBy(*FIRST).limit(most).collect()
        return found.count(), [row.asDict() for row in first]
