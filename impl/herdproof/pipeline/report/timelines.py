"""
Lays out a group's timeline: a row for each partition, a bar for each interval.

Two bars that are there at once lie below each other: that two consumers had a partition together is
what a reader is to see first. Sizes are in SVG's user units, one of them about a pixel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from herdproof.pipeline.report.facts import DeliveryInterval, GenerationBegun, History

LEFT, WIDTH, RIGHT = 110, 860, 14
"""Of the partitions' names; of the time's axis; of what is right of it."""
BAR, GAP, TOP, AXIS = 18, 7, 42, 26
ROWS = 40
"""Partitions that are drawn: those with the most owners."""
COLOURS = 8
CHARACTER = 6.6
"""The width of one, on average."""
LEAST = 1.5
"""The width of the shortest bar."""
BEFORE_NS, AFTER_NS = 12 * 10**9, 6 * 10**9
"""Time that is shown around a violation, where the whole time is much longer."""
NAME = 15
"""Characters of a partition's name."""
BETWEEN_MARKS = 16


@dataclass(frozen=True)
class Box:
    """An interval: its bar, how it is coloured, what is written into it."""

    x: float
    y: float
    width: float
    colour: int
    label: str
    title: str
    known: bool
    open: bool


@dataclass(frozen=True)
class Mark:
    """A moment: a generation, or a violation."""

    x: float
    label: str
    title: str


@dataclass(frozen=True)
class PartitionRow:
    """A partition's name, and how high its bars are together."""

    name: str
    title: str
    y: float
    height: float


@dataclass(frozen=True)
class TimelineDrawing:
    """A drawing."""

    about: str
    title: str
    rows: Sequence[PartitionRow]
    boxes: Sequence[Box]
    generations: Sequence[Mark]
    violations: Sequence[Mark]
    ticks: Sequence[Mark]
    height: float
    consumers: Sequence[tuple[str, int]]
    left_out: int
    """Partitions that are not drawn."""

    width = LEFT + WIDTH + RIGHT
    left = LEFT
    top = TOP


def timelines_of(history: History, until_ns: int = 0) -> list[TimelineDrawing]:
    """
    The whole time; and, where that is long, what was around the first violation.

    What is open lasts until the end of what was audited: `until_ns`, where that is known.
    """
    ends = [e for i in history.intervals for e in (i.begin_ns, i.end_ns) if e is not None]
    times = [*ends, *(g.time_ns for g in history.generations)]
    low, high = min(times), max(times)
    high = high if history.cut else max(high, until_ns)
    drawn = []
    if history.violations_ns:
        first = history.violations_ns[0]
        near = (max(low, first - BEFORE_NS), first + AFTER_NS)
        high = max(high, first)
        if high - low > 2 * (near[1] - near[0]):
            drawn.append(_timeline(history, *near, low, "Around the first violation"))
    return [*drawn, _timeline(history, low, high, low, history.cut or "The whole time")]


def _timeline(history: History, low: int, high: int, zero: int, about: str) -> TimelineDrawing:
    """The timeline between two moments; times are told from `zero` on."""
    high = max(high, low + 1_000_000)
    scale = _Scale(low, high, zero)
    colours = {
        c: k % COLOURS for k, c in enumerate(sorted({i.consumer for i in history.intervals}))
    }
    seen = [i for i in history.intervals if i.begin_ns <= high and (i.end_ns or high) >= low]
    by: dict[str, list[DeliveryInterval]] = defaultdict(list)
    for interval in seen:
        by[interval.partition].append(interval)
    names = sorted(sorted(by, key=lambda p: (-len(by[p]), p))[:ROWS], key=_natural)
    rows, boxes, y = [], [], float(TOP)
    for name in names:
        lanes = _lanes(by[name])
        height = BAR * (max(lanes, default=0) + 1)
        rows.append(PartitionRow(_short(name, NAME), name, y, height))
        boxes += [
            _box(scale, interval, y + BAR * lane, colours[interval.consumer])
            for interval, lane in zip(by[name], lanes, strict=True)
        ]
        y += height + GAP
    drawn = {interval.consumer for name in names for interval in by[name]}
    return TimelineDrawing(
        about, f"Who owned which partition of {history.group}, run {history.run}", rows, boxes,
        _generations(scale, history.generations),
        [
            Mark(scale.x(t), "✗", f"a promise is broken at {scale.told(t)}")
            for t in history.violations_ns if low <= t <= high
        ],
        scale.ticks(), y + AXIS,
        [(consumer, colours[consumer]) for consumer in sorted(drawn)], len(by) - len(names),
    )  # fmt: skip


class _Scale:
    """From times to places."""

    def __init__(self, low: int, high: int, zero: int) -> None:
        self.low, self.high, self.zero = low, high, zero

    def x(self, time_ns: int) -> float:
        """Where a moment lies; what is outside lies at the edge."""
        inside = min(max(time_ns, self.low), self.high)
        return LEFT + WIDTH * (inside - self.low) / (self.high - self.low)

    def told(self, time_ns: int) -> str:
        """A moment as seconds since the beginning."""
        return f"{(time_ns - self.zero) / 1e9:,.3f} s"

    def ticks(self) -> list[Mark]:
        """Some round times."""
        rough = (self.high - self.low) / 1e9 / 8
        decade = 10.0 ** floor(log10(rough))
        step = next(s * decade for s in (1, 2, 5, 10) if s * decade >= rough)
        begin = ceil((self.low - self.zero) / 1e9 / step)
        end = floor((self.high - self.zero) / 1e9 / step)
        times = [(k * step, self.zero + round(k * step * 1e9)) for k in range(begin, end + 1)]
        return [Mark(self.x(ns), f"{seconds:g} s", "") for seconds, ns in times]


def _box(scale: _Scale, interval: DeliveryInterval, y: float, colour: int) -> Box:
    """An interval's bar, with its consumer's name where there is room."""
    begin, end = scale.x(interval.begin_ns), scale.x(interval.end_ns or scale.high)
    width = max(end - begin, LEAST)
    until = "still open" if interval.end_ns is None else scale.told(interval.end_ns)
    generation = "" if interval.generation is None else f", generation {interval.generation}"
    title = (
        f"{interval.partition}: {interval.consumer} from {scale.told(interval.begin_ns)} to {until}"
        f" ({interval.ended or 'its end is not told'}{generation})"
        f"{'' if interval.known else '; what happened is not known'}"
    )
    room = int((width - 6) / CHARACTER)
    label = _short(interval.consumer, room) if room >= 2 else ""
    return Box(
        begin, y, width, colour, label, title, interval.known, interval.end_ns is None
    )  # fmt: skip


def _generations(scale: _Scale, generations: Sequence[GenerationBegun]) -> list[Mark]:
    """Their marks; the number is left out where it would lie upon the one before."""
    made: list[Mark] = []
    last = float("-inf")
    for generation in generations:
        if not scale.low <= generation.time_ns <= scale.high:
            continue
        x = scale.x(generation.time_ns)
        number = "?" if generation.number is None else str(generation.number)
        room = x - last >= BETWEEN_MARKS
        last = x if room else last
        title = (
            f"generation {number}, epoch {'?' if generation.epoch is None else generation.epoch},"
            f" at {scale.told(generation.time_ns)}: {generation.outcome}"
        )
        made.append(Mark(x, number if room else "", title))
    return made


def _lanes(intervals: Sequence[DeliveryInterval]) -> list[int]:
    """For each interval (in order of begin) the first lane that is free by then."""
    free: list[float] = []
    lanes = []
    for interval in intervals:
        lane = next((k for k, t in enumerate(free) if t <= interval.begin_ns), len(free))
        end = float("inf") if interval.end_ns is None else float(interval.end_ns)
        free[lane : lane + 1] = [end]
        lanes.append(lane)
    return lanes


def _natural(name: str) -> tuple[str, int, str]:
    """Sorts `logs-10` after `logs-9`."""
    topic, _, number = name.rpartition("-")
    return topic, int(number) if number.isdecimal() and len(number) < 10 else -1, number


def _short(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
