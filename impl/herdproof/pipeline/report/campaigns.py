"""Reads a campaign's own tables: how many runs of which kind, what broke, the curve of edges."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from herdproof.pipeline.report.reading import Tables

BROKEN = "broken"
FAILED = 20
"""Broken runs that are listed."""


@dataclass(frozen=True)
class Mix:
    """The runs of one configuration, with one flaw or none."""

    protocol: str
    mix: str
    flaw: str
    runs: int
    broken: int
    seconds: float
    configuration: str


@dataclass(frozen=True)
class BrokenRun:
    """A run in which a promise was broken, and how it is called for again."""

    protocol: str
    run: str
    mix: str
    seed: int
    flaw: str
    broken: Sequence[str]
    told: str


@dataclass(frozen=True)
class Point:
    """A number of runs, and how many edges they took together."""

    runs: int
    new: int
    edges: int


@dataclass(frozen=True)
class Campaign:
    """A campaign."""

    runs: int
    broken: int
    seconds: float
    mixes: Sequence[Mix]
    failed: Sequence[BrokenRun]
    edges: Mapping[str, int]
    """By action, how many of its edges were taken."""
    curve: Mapping[str, Sequence[Point]]
    """By protocol."""


def campaign_of(tables: Tables) -> Campaign | None:
    """The campaign of these tables, if they are one's."""
    if "runs" not in tables:
        return None
    by = "protocol", "mix", "flaw"
    outcomes = tables.counts("runs", *by, "outcome", "configuration")
    seconds = tables.sums("runs", "seconds", *by)
    found: dict[Any, Counter[str]] = defaultdict(Counter)
    asked = {}
    for (protocol, mix, flaw, outcome, configuration), count in outcomes.items():
        found[protocol, mix, flaw][str(outcome)] += count
        asked[protocol, mix, flaw] = str(configuration or "")
    mixes = [
        Mix(
            protocol=str(at[0] or ""), mix=str(at[1] or ""), flaw=str(at[2] or ""),
            runs=of.total(), broken=of[BROKEN], seconds=seconds[at], configuration=asked[at],
        )
        for at, of in found.items()
    ]  # fmt: skip
    curve: dict[str, list[Point]] = defaultdict(list)
    for row in tables.rows("curve"):
        curve[str(row["protocol"])].append(Point(row["runs"], row["new"], row["edges"]))
    edges = {str(action): n for (action,), n in tables.counts("edges", "action").items()}
    return Campaign(
        sum(m.runs for m in mixes), sum(m.broken for m in mixes), sum(m.seconds for m in mixes),
        sorted(mixes, key=lambda m: (not m.broken, m.protocol, m.flaw, m.mix)), _failed(tables),
        dict(sorted(edges.items())),
        {p: sorted(points, key=lambda point: point.runs) for p, points in curve.items()},
    )  # fmt: skip


_TEXTS = ("protocol", "run", "mix", "flaw", "told")


def _failed(tables: Tables) -> list[BrokenRun]:
    """The broken runs in the campaign's order, as many as are listed."""
    found: list[tuple[int, BrokenRun]] = []
    columns = ("number", "seed", "broken", *_TEXTS)
    for batch in tables.batches("runs", columns, pc.field("outcome") == BROKEN):
        for row in batch.to_pylist():
            texts = {name: str(row[name] or "") for name in _TEXTS}
            failed = BrokenRun(**texts, seed=row["seed"], broken=row["broken"] or [])
            found.append((row["number"], failed))
        found = sorted(found, key=lambda f: f[0])[:FAILED]
    return [failed for _, failed in found]
