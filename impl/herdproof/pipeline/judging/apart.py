"""
Lines of nodes whose clocks are apart: what every order says that causes allow.

How far apart clocks can be is shown by messages, within bounds (`conformance.traces.clocks`). A
group is judged as if they stood in the middle of these, and as if they stood as far apart as they
can. What each of these orders says is said; all else is unknown. That the spec explains the lines
asks for one order in which it does: so others are tried only where the first one differs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from herdproof.pipeline.spark.tables import Rows

APART = "its nodes' clocks contradict their messages: in another order of lines it may be otherwise"
"""Why a sentence is unknown of which not every order of lines that there is says the same."""


def of_all(orders: Iterator[Rows]) -> Rows:
    """The first order's rows; what not each order says of a sentence is unknown."""
    rows = next(orders)
    said = [_verdicts(rows), *map(_verdicts, orders)]
    names = {name for each in said for name in each}
    return doubted(rows, {name for name in names if len({each.get(name) for each in said}) > 1})


def of_any(orders: Iterator[Rows]) -> Rows:
    """The first order's rows; what they violate is unknown if another order violates nothing."""
    rows = next(orders)
    if not _violated(rows) or all(map(_violated, orders)):
        return rows
    return doubted(rows)


def _verdicts(rows: Rows) -> dict[str, str]:
    return {row["property"]: row["verdict"] for row in rows["verdicts"]}


def _violated(rows: Rows) -> set[Any]:
    return {row["property"] for row in rows.get("violations", [])}


def doubted(rows: Rows, names: Collection[str] | None = None) -> Rows:
    """The rows with these sentences unknown (None: all that are decided)."""
    if names is None:
        decided = (row for row in rows["verdicts"] if row["verdict"] in ("holds", "violated"))
        names = {row["property"] for row in decided}
    rows["violations"] = [row for row in rows.get("violations", []) if row["property"] not in names]
    rows["verdicts"] = [
        {**row, "verdict": "unknown", "why": APART} if row["property"] in names else row
        for row in rows["verdicts"]
    ]
    return rows
