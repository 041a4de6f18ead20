"""Measured values: the distribution of what occurred, and what whole groups came to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

import numpy as np
import pyarrow.compute as pc

from herdproof.pipeline.report.reading import Tables

MOST = 2_000_000
"""Values of one figure that are looked at: 16 MB."""
QUANTILES = (0.5, 0.9, 0.99, 1.0)
STEPS = (1.0, 2.0, 5.0)
"""Within a decade, where one bar of a histogram ends and the next begins."""


@dataclass(frozen=True)
class Bar:
    """Number of values that lie from here (included) to there (not)."""

    begin: float
    end: float
    count: int


@dataclass(frozen=True)
class Distribution:
    """Distribution of values."""

    count: int
    total: float
    quantiles: Mapping[str, float]
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Most:
    """The largest value of a figure, and whose it is."""

    value: float
    run: str
    group: str
    about: str


@dataclass(frozen=True)
class FigureValues:
    """A figure: each time that it occurred, or one value for each group."""

    name: str
    unit: str
    each: str
    """`occurrence`, or `group`."""
    spread: Distribution
    most: Most
    cut: bool
    """There were more values than were looked at."""


def figures_of(tables: Tables) -> list[FigureValues]:
    """All figures, durations first."""
    values: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    seen: Counter[tuple[str, str, str]] = Counter()
    most: dict[tuple[str, str, str], Most] = {}
    columns = ("run", "group", "name", "time_ns", "about", "value", "unit")
    for batch in tables.batches("figures", columns):
        for (name, unit, each), rows in _parted(batch).items():
            at = name, unit, each
            found = rows["value"]
            if seen[at] < MOST:
                values[at].append(found[: MOST - seen[at]])
            seen[at] += len(found)
            best = int(found.argmax())
            if at not in most or found[best] > most[at].value:
                whose = (str(rows[c][best] or "") for c in ("run", "group", "about"))
                most[at] = Most(float(found[best]), *whose)
    made = [
        FigureValues(*at, spread(np.concatenate(values[at])), most[at], seen[at] > MOST)
        for at in values
    ]
    return sorted(made, key=lambda f: (f.unit != "s", f.each != "occurrence", f.name))


def unseen(tables: Tables) -> dict[str, int]:
    """Figures that nobody could see: of how many groups."""
    null = ~pc.field("value").is_valid()
    return {str(n): k for (n,), k in tables.counts("figures", "name", where=null).items()}


def _parted(batch: Any) -> dict[tuple[str, str, str], dict[str, Any]]:
    """A batch's rows by name, unit, and whether they are occurrences; values are numbers."""
    frame = batch.to_pandas()
    frame = frame[np.isfinite(frame["value"].to_numpy(dtype=float))]
    each = frame["time_ns"].isna().map({True: "group", False: "occurrence"})
    grouped = frame.groupby([frame["name"].fillna(""), frame["unit"].fillna(""), each], sort=True)
    return {
        (str(name), str(unit), str(kind)): {
            "value": rows["value"].to_numpy(dtype=float),
            **{c: rows[c].tolist() for c in ("run", "group", "about")},
        }
        for (name, unit, kind), rows in grouped
    }


def spread(values: Any) -> Distribution:
    """The distribution of these values; bars of a logarithmic scale, as latencies want it."""
    ordered = np.sort(values)
    quantiles = np.quantile(ordered, QUANTILES, method="inverted_cdf")
    named = {f"{100 * q:g} %": float(v) for q, v in zip(QUANTILES, quantiles, strict=True)}
    return Distribution(len(ordered), float(ordered.sum()), named, _bars(ordered))


def _bars(ordered: Any) -> list[Bar]:
    """One bar for each part of a decade from the least value to the greatest; zeros apart."""
    above = ordered[ordered > 0]
    bars = [Bar(0.0, 0.0, len(ordered) - len(above))] if len(above) < len(ordered) else []
    if not len(above):
        return bars
    edges = _edges(float(above[0]), float(above[-1]))
    at = np.searchsorted(above, edges, side="left")
    return bars + [
        Bar(a, b, int(j - i))
        for a, b, i, j in zip(edges, edges[1:], at, at[1:], strict=False)
    ]  # fmt: skip


def _edges(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, … from not above the lowest to above the highest value."""
    first, last = floor(log10(low)), floor(log10(high)) + 1
    edges = [float(f"{s:g}e{d}") for d in range(first, last + 1) for s in STEPS]
    begin = max(i for i, edge in enumerate(edges) if edge <= low)
    end = next(i for i, edge in enumerate(edges) if edge > high)
    return edges[begin : end + 1]
