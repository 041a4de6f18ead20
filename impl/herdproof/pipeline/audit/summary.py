"""What an audit came to, in figures small enough for one screen: read from its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from herdproof.pipeline.spark.tables import TABLES

TOLD_MOST = 20
"""So many violations are told in the summary; the table has all."""

VERDICTS = ("holds", "violated", "unknown", "not observable")


@dataclass
class Violation:
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
    told: list[Violation]
    """The first of the violations."""
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def exit(self) -> int:
        """0 it holds, 1 something is violated, 3 something is unknown."""
        found = {verdict for counts in self.verdicts.values() for verdict in counts}
        if self.violations or "violated" in found:
            return 1
        return 0 if "holds" in found and "unknown" not in found else 3

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"command": "audit", "exit": self.exit, **asdict(self)}


def summed_up(
    spark: Any, path_of: Callable[[str], str], counts: Iterable[Mapping[str, Any]],
    records: int, sources: str,
) -> Summary:  # fmt: skip
    """The summary of the tables at these paths."""
    from pyspark.sql import functions as f

    def table(name: str) -> Any:
        return spark.read.schema(TABLES[name].ddl).parquet(path_of(name))

    quarantined = {
        r["reason"]: r["count"] for r in table("quarantine").groupBy("reason").count().collect()
    }
    verdicts: dict[str, dict[str, int]] = {}
    counted = table("verdicts").groupBy("property", "verdict").count()
    for row in counted.orderBy("property", "verdict").collect():
        verdicts.setdefault(row["property"], {})[row["verdict"]] = row["count"]
    why = table("verdicts").where("verdict = 'unknown'").groupBy("why").count()
    violations = table("violations")
    first = violations.orderBy("time_ns", "run", "group", "property", "place").limit(TOLD_MOST)
    told = first.select(*(f.col(c) for c in Violation.__dataclass_fields__)).collect()
    named = [row for row in counts if row["protocol"] is not None]
    return Summary(
        sources=sources,
        records=records,
        judged=records - sum(quarantined.values()),
        quarantined=dict(sorted(quarantined.items())),
        runs=len({row["run"] for row in named}),
        groups=sum(row["groups"] for row in named),
        verdicts=verdicts,
        unknown=[
            f"{row['why']} ({row['count']:,})"
            for row in why.orderBy(f.desc("count"), "why").limit(5).collect()
        ],
        violations=violations.count(),
        told=[Violation(**row.asDict()) for row in told],
    )
