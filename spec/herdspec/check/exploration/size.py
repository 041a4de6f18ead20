"""
Estimates how large a space will be while it is searched, and says afterwards why it is large.

Levels of a breadth-first search first grow and then shrink, by a ratio that falls rather evenly:
a line through the logarithms of the last ratios tells when the levels will have died out. That is
an estimate, good to a factor of two or so once the ratios have begun to fall, and said as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

import numpy as np

from herdspec.engine.columns import Packing, Words
from herdspec.engine.ground import FAULTS

RECENT = 6
"""The number of the last ratios through which the line is laid."""
LARGEST_ESTIMATE = 10**12
CHUNK = 1 << 16


@dataclass(frozen=True)
class Estimate:
    """An estimate of a running search: states in all, and seconds still to go."""

    states: int
    seconds: float


def estimated_states(levels: Sequence[int]) -> int | None:
    """
    The states that there may be in all, from their numbers by level; None is "no idea".

    >>> estimated_states([1, 4, 10, 20, 31, 40])
    189
    >>> estimated_states([1, 2, 4, 8, 16, 32]) is None
    True
    """
    ratios = [log(b / a) for a, b in pairwise(levels)][-RECENT:]
    if len(ratios) < 3:
        return None
    slope, height = np.polyfit(np.arange(len(ratios)), ratios, 1)
    if slope > -1e-3:
        return None
    total, level, at = float(sum(levels)), float(levels[-1]), float(height + slope * len(ratios))
    while level >= 1 and total < LARGEST_ESTIMATE:
        level *= exp(min(at, 20.0))
        total, at = total + level, at + float(slope)
    return int(total) if total < LARGEST_ESTIMATE else None


@dataclass(frozen=True)
class Why:
    """
    Why a space is large: how many values each field takes, and what leads on from a state.

    `values` counts the different values of each entry of the state that were reached, largest
    first; `successors` how many steps of each action there are for each state, on average.
    """

    values: dict[str, int]
    successors: dict[str, float]

    @property
    def lines(self) -> list[str]:
        """Lines of text: one for each field, and one for each action."""
        values = [f"{name}: {count} different values" for name, count in self.values.items()]
        steps = [f"{name}: {mean:.2f} steps a state" for name, mean in self.successors.items()]
        return [*values, *steps]


def why(packing: Packing, rows: Words, taken: dict[str, int]) -> Why:
    """Count over all states that were found."""
    values: dict[str, int] = {}
    for key, slot in packing.ground.slots.items():
        seen: set[int] = set()
        for low in range(0, len(rows), CHUNK):
            if len(seen) == slot.values:
                break
            seen.update(np.unique(packing.read(rows[low : low + CHUNK], key)).tolist())
        if key[0] != FAULTS or slot.values > 1:
            values[key[0]] = max(values.get(key[0], 0), len(seen))
    states = max(len(rows), 1)
    return Why(
        dict(sorted(values.items(), key=lambda v: -v[1])),
        dict(sorted(((n, t / states) for n, t in taken.items()), key=lambda v: -v[1])),
    )
