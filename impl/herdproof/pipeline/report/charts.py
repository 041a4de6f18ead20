"""Small charts: how values are spread, and how many edges so many runs had taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from herdproof.pipeline.report.campaigns import Point
from herdproof.pipeline.report.figures import Bar

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 320, 120, 6, 22, 16


@dataclass(frozen=True)
class HistogramBar:
    """A bar of a histogram, and what is written at its foot."""

    x: float
    y: float
    width: float
    height: float
    label: str
    title: str


def columns(bars: Sequence[Bar], unit: str) -> list[HistogramBar]:
    """A histogram; its labels are left out where they would lie upon each other."""
    most = max((bar.count for bar in bars), default=0) or 1
    width = (WIDTH - 2 * LEFT) / max(len(bars), 1)
    every = max(1, round(34 / width + 0.49))
    made = []
    for k, bar in enumerate(bars):
        height = (HEIGHT - TOP - BOTTOM) * bar.count / most
        reach = "0" if bar.end == 0 else f"{said(bar.begin)} to {said(bar.end)} {unit}"
        label = said(bar.begin) if k % every == 0 else ""
        made.append(
            HistogramBar(LEFT + k * width, HEIGHT - BOTTOM - height, width * 0.9, height, label,
                   f"{reach}: {bar.count:,}")
        )  # fmt: skip
    return made


def said(value: float) -> str:
    """A value in a few digits."""
    if value and (abs(value) < 0.0005 or abs(value) >= 1e7):
        return f"{value:.2g}"
    return f"{value:,.3f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:,.0f}"


@dataclass(frozen=True)
class Curve:
    """A curve as the points of a polyline, with the ends of its axes."""

    points: str
    dots: Sequence[tuple[float, float, str]]
    runs: int
    edges: int


def line(points: Sequence[Point]) -> Curve:
    """The curve of visited edges, by the number of runs."""
    runs = max((p.runs for p in points), default=0) or 1
    edges = max((p.edges for p in points), default=0) or 1
    inner = HEIGHT - TOP - BOTTOM
    dots = [
        (
            LEFT + (WIDTH - 2 * LEFT) * p.runs / runs,
            HEIGHT - BOTTOM - inner * p.edges / edges,
            f"{p.edges:,} edges after {p.runs:,} runs, {p.new:,} of them new",
        )
        for p in points
    ]
    origin = (float(LEFT), float(HEIGHT - BOTTOM))
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in [origin, *(d[:2] for d in dots)])
    return Curve(path, dots, runs, edges)
