"""
Bars: bounds that figures of a benchmark are to keep, and what `--bars` says and ends with.

Each program has its own in one table. With `--bars` it says on stderr which are missed, a line
each, and ends with 1 if there is one; which were not measured (`--quick` has not all figures) is
said, and misses nothing. Without it nothing is judged.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Bar:
    """
    A bound of one figure, by its key (`part.figure`); with `times` it is so many times another's.

    >>> Bar(figure="join.seconds", at_most=2).judged({"join": {"seconds": 3.5}})
    'join.seconds is 3.5, at most 2'
    >>> Bar(figure="a", at_least=0.5, times="b").judged({"a": 1, "b": 4})
    'a is 1, at least 0.5 times b, which is 4'
    >>> Bar(figure="a", at_most=0.5, times="b").judged({"a": 1, "b": 4})
    ''
    """

    figure: str
    at_most: float | None = None
    at_least: float | None = None
    times: str = ""

    def judged(self, figures: Mapping[str, Any]) -> str | None:
        """What is missed, in words; "" if it is kept, None if it was not measured."""
        found = figure_of(figures, self.figure)
        unit = figure_of(figures, self.times) if self.times else 1.0
        if found is None or unit is None:
            return None
        is_kept = (self.at_most is None or found <= self.at_most * unit) and (
            self.at_least is None or found >= self.at_least * unit
        )
        return "" if is_kept else f"{self.figure} is {found:g}, {self._bound(unit)}"

    def _bound(self, unit: float) -> str:
        bounds = (("at most", self.at_most), ("at least", self.at_least))
        said = " and ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)
        return f"{said} times {self.times}, which is {unit:g}" if self.times else said


def figure_of(figures: Mapping[str, Any], name: str) -> float | None:
    """A figure by its key; None if there is none, because it was not measured, or failed."""
    found: Any = figures
    for key in name.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return float(found) if isinstance(found, int | float) else None


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let `--bars` be asked for."""
    parser.add_argument(
        "--bars", action="store_true", help="say which bars are missed, and end with 1 if one is"
    )


def are_kept(figures: Mapping[str, Any], bars: Sequence[Bar]) -> bool:
    """Tells whether no bar is missed; on stderr, which are, and which were not measured."""
    judged = {bar.figure: bar.judged(figures) for bar in bars}
    missed = [said for said in judged.values() if said]
    print("\n".join(_lines(judged, missed)), file=sys.stderr, flush=True)
    return not missed


def _lines(judged: Mapping[str, str | None], missed: Sequence[str]) -> Iterator[str]:
    yield from (f"bar missed: {said}" for said in missed)
    unknown = [figure for figure, said in judged.items() if said is None]
    if unknown:
        yield f"not measured in this run: {', '.join(unknown)}"
    kept = len(judged) - len(missed) - len(unknown)
    yield f"{kept} of {len(judged)} bars are kept"
