"""
Partitions that nobody read: outages of a group, with their causes on an axis of clock time.

Intervals of one group that overlap in time are one outage. What nobody wanted to be read (a group
without members, a partition that is given to nobody) is told, but is no outage of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import Any

import pyarrow.compute as pc

from herdproof.pipeline.judging.unread import NOBODY, UNASSIGNED
from herdproof.pipeline.report.reading import SURELY_A_DATE_NS, Tables

OUTAGES, ROWS = 8, 12
"""Outages that are told, the longest first; and partitions of each that are drawn."""
MOST = 500_000
"""Stretches that are looked at."""
LONG_S = 5.0
"""An outage of that length is no good sign, whatever else holds."""
UNWANTED = frozenset({NOBODY, UNASSIGNED})
LEFT, WIDTH, RIGHT, BAR, GAP, TOP, AXIS = 110, 860, 30, 14, 5, 6, 24


@dataclass(frozen=True)
class CausedPart:
    """A stretch without a reader, with its cause."""

    from_ns: int
    until_ns: int
    why: str
    who: str
    certain: bool


@dataclass(frozen=True)
class GroupOutage:
    """A time in which some partitions of a group had no reader."""

    run: str
    group: str
    from_ns: int
    until_ns: int
    seconds: float
    """For how long that was so of one partition, at most, but for what nobody wanted."""
    many: int
    """Of how many partitions."""
    partitions: Mapping[str, Sequence[CausedPart]]
    """Some of these, the longest first."""
    causes: Mapping[str, float]
    """Of the longest, by cause the seconds."""
    who: Sequence[str]
    """Who was waited for meanwhile."""


@dataclass(frozen=True)
class UnreadFacts:
    """Facts of partitions without a reader."""

    outages: Sequence[GroupOutage]
    count: int
    longest_s: float
    causes: Mapping[str, float]
    """By cause, the seconds of all partitions."""
    cut: bool
    """There were more stretches than were looked at."""


def availability_of(tables: Tables) -> UnreadFacts | None:
    """The facts that the table holds; None where it is not there."""
    if "unread" not in tables:
        return None
    rows = tables.rows("unread", pc.field("from_ns").is_valid(), most=MOST)
    causes: dict[str, float] = defaultdict(float)
    of: dict[tuple[str, str], dict[tuple[str, int], list[CausedPart]]] = defaultdict(dict)
    for row in rows:
        causes[str(row["why"])] += row["seconds"] or 0
        name = f"{row['topic']}-{row['partition']}"
        intervals = of[str(row["run"] or ""), str(row["group"] or "")]
        intervals.setdefault((name, row["since_ns"]), []).append(_part(row))
    found = [outage for subject, own in of.items() for outage in _outages(*subject, own)]
    found.sort(key=lambda o: (-o.seconds, o.from_ns, o.run, o.group))
    return UnreadFacts(
        found[:OUTAGES], len(found), max((o.seconds for o in found), default=0.0),
        _most_first(causes), len(rows) == MOST,
    )  # fmt: skip


def _part(row: Mapping[str, Any]) -> CausedPart:
    until_ns = row["until_ns"]
    if until_ns is None:
        until_ns = row["from_ns"] + round((row["seconds"] or 0) * 1e9)
    return CausedPart(
        row["from_ns"], until_ns, str(row["why"]), row["who"] or "", row["certain"] is not False
    )


def _outages(
    run: str, group: str, intervals: Mapping[tuple[str, int], list[CausedPart]]
) -> Iterator[GroupOutage]:
    """Intervals that overlap are one outage; those of which nobody wanted anything are none."""
    ordered = sorted((parts[0].from_ns, name, parts) for (name, _), parts in intervals.items())
    together: dict[str, list[CausedPart]] = {}
    until_ns = 0
    for from_ns, name, parts in ordered:
        if not wanted_s(parts):
            continue
        if together and from_ns > until_ns:
            yield _outage(run, group, together)
            together = {}
        until_ns = max(until_ns if together else 0, parts[-1].until_ns)
        together.setdefault(name, []).extend(parts)
    if together:
        yield _outage(run, group, together)


def _outage(run: str, group: str, together: Mapping[str, list[CausedPart]]) -> GroupOutage:
    ordered = sorted(together.items(), key=lambda item: (-wanted_s(item[1]), item[0]))
    causes: dict[str, float] = defaultdict(float)
    for part in ordered[0][1]:
        causes[part.why] += (part.until_ns - part.from_ns) / 1e9
    return GroupOutage(
        run, group, min(parts[0].from_ns for parts in together.values()),
        max(parts[-1].until_ns for parts in together.values()), wanted_s(ordered[0][1]),
        len(together), dict(ordered[:ROWS]), _most_first(causes),
        sorted({name for part in ordered[0][1] if part.who for name in part.who.split(", ")}),
    )  # fmt: skip


def _most_first(causes: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(causes.items(), key=lambda item: -item[1]))


def wanted_s(parts: Sequence[CausedPart]) -> float:
    """The time for which a partition had no reader that should have had one."""
    return sum(p.until_ns - p.from_ns for p in parts if p.why not in UNWANTED) / 1e9


# ── Drawn ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class StretchBar:
    """A bar of a drawing."""

    x: float
    y: float
    width: float
    why: str
    certain: bool
    title: str


@dataclass(frozen=True)
class OutageDrawing:
    """An outage on an axis of clock time."""

    title: str
    names: Sequence[tuple[float, str]]
    bars: Sequence[StretchBar]
    ticks: Sequence[tuple[float, str]]
    height: float
    width: int = LEFT + WIDTH + RIGHT
    left: int = LEFT


def drawing_of(outage: GroupOutage) -> OutageDrawing:
    """A row for each partition, a bar for each stretch."""
    low, high = outage.from_ns, max(outage.until_ns, outage.from_ns + 1_000_000)

    def x(time_ns: int) -> float:
        return LEFT + WIDTH * (time_ns - low) / (high - low)

    names, bars = [], []
    y = float(TOP)
    for name, parts in sorted(outage.partitions.items()):
        names.append((y + BAR - 3, name if len(name) <= 15 else f"{name[:14]}…"))
        bars += [
            StretchBar(
                x(p.from_ns), y, max(x(p.until_ns) - x(p.from_ns), 1.0), p.why, p.certain,
                f"{name}: {p.why}{f' ({p.who})' if p.who else ''}, "
                f"{(p.until_ns - p.from_ns) / 1e9:,.3f} s from {clock(p.from_ns)}"
                f"{'' if p.certain else '; uncertain'}",
            )
            for p in parts
        ]  # fmt: skip
        y += BAR + GAP
    title = f"Partitions of {outage.group} without a reader from {clock(low)} on"
    return OutageDrawing(title, names, bars, [*_ticks(low, high, x)], y + AXIS)


def _ticks(low: int, high: int, x: Any) -> Iterator[tuple[float, str]]:
    """Some round moments."""
    rough = (high - low) / 1e9 / 6
    decade = 10.0 ** floor(log10(rough))
    step_ns = max(1, round(next(s * decade for s in (1, 2, 5, 10) if s * decade >= rough) * 1e9))
    for k in range(ceil(low / step_ns), floor(high / step_ns) + 1):
        yield x(k * step_ns), clock(k * step_ns, fine=step_ns < 10**9)


def clock(time_ns: int, *, fine: bool = True) -> str:
    """A moment by the clock; of a simulator's, how long after its beginning."""
    if abs(time_ns) < SURELY_A_DATE_NS:
        return f"{time_ns / 1e9:,.3f}".rstrip("0").rstrip(".") + " s"
    try:
        then = datetime.fromtimestamp(time_ns / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ns} ns"
    return f"{then:%H:%M:%S}" + (f".{then.microsecond // 1000:03}" if fine else "")
