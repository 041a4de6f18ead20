"""
From one level to the next: which tasks there are, and what their answers add up to.

The driver plans so for the whole of Spark. A level of few states is not worth a job: one task then
plans for itself alone, and goes on for as long as levels are small (`hop`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from herdproof.pipeline.exploration.store import Level
from herdproof.pipeline.exploration.worker import (
    Expand,
    Expanded,
    Search,
    Settle,
    SettledStates,
    expand,
    settle,
)

SHARD = 1 << 22
"""States from which on a shard is split."""
STATES_A_TASK = 1 << 20
"""States that a task expands, at most (more, if many were found from few)."""
FEW = 4096
"""The number of states that one task expands."""
FEW_ENTRIES = 20_000
"""The most successors that one task settles, if there is little to compare them with."""
LITTLE = 1 << 20
"""The most states in all that one task may read."""
SECTIONS, STATES_A_SECTION, MOST_SECTIONS = 64, 200_000, 2048
"""Into how many sections a level is cut: so many, or by the states that it comes from."""
HOP_SECONDS = 2.0
"""The time for which one task goes on by itself: what it has found is lost if it is."""

Run = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Applies a function to each of some tasks, wherever; what is given back are counts."""


@dataclass(frozen=True, kw_only=True)
class Planner:
    """The planner of the next level of one: `parallel` is how many tasks run at once."""

    run: Run
    search: Search
    parallel: int
    native: bool

    def advance(self, level: Level, before: int) -> Level:
        """The level after this one; `before` is how many states were in the one before."""
        shards = max(self.parallel, coming(level, before) // SHARD + 1)
        bits = max(level.bits, (shards - 1).bit_length())
        known = sorted(level.found)
        wanted = [
            Expand(
                level=level.number, pieces=level.pieces(low, high), bits=bits, known=known,
                base=level.first + int(level.sections[low]), native=self.native,
            )
            for low, high in runs_of(level, self.parallel)
        ]  # fmt: skip
        expanded: list[Expanded] = self.run(partial(expand, self.search), wanted)
        settled = self._settled(level, bits, expanded)
        return next_level(level, bits, expanded, settled)

    def _settled(self, level: Level, bits: int, expanded: list[Expanded]) -> list[SettledStates]:
        """Find what is new among all successors of a level."""
        entries = sum(e.entries for e in expanded)
        tasks = 1 << bits
        if level.last <= LITTLE:
            tasks = min(tasks, max(1, entries // FEW_ENTRIES))
        sections = min(max(SECTIONS, level.count // STATES_A_SECTION), MOST_SECTIONS, level.count)
        cuts = [(level.first + k * level.count // sections) << 16 for k in range(1, sections)]
        wanted = [
            Settle(
                level=level.number + 1, shards=own.tolist(), bits=bits, cuts=cuts,
                passed=[(e.file, e.rounds) for e in expanded], native=self.native,
            )
            for own in np.array_split(np.arange(1 << bits), tasks)
        ]  # fmt: skip
        return self.run(partial(settle, self.search), wanted)


def is_small(level: Level) -> bool:
    """Tells whether one task does for a level: of few states, and few before it to compare with."""
    return level.count <= FEW and level.last <= LITTLE


def coming(level: Level, before: int) -> int:
    """About how many states there will be with the next level: it may grow as this one did."""
    return level.last + int(level.count * max(level.count / max(before, 1), 1))


def runs_of(level: Level, parallel: int) -> Iterator[tuple[int, int]]:
    """Runs of sections, with about as many states each: one for each task."""
    tasks = 1
    if level.count > FEW:
        tasks = max(parallel, -(-level.count // STATES_A_TASK))
    ends = np.searchsorted(level.sections, np.arange(1, tasks + 1) * level.count / tasks, "left")
    low = 0
    for high in ends.tolist():
        if level.sections[high] > level.sections[low]:
            yield low, high
            low = high


def next_level(
    level: Level, bits: int, expanded: list[Expanded], settled: list[SettledStates]
) -> Level:
    """The next level, of what its tasks have told."""
    found = dict(level.found)
    for e in expanded:
        for name, state in e.found.items():
            found[name] = min(found.get(name, state), state)
    return Level(
        number=level.number + 1, first=level.last, bits=bits,
        files=[s.file for s in settled],
        places=[(k, offset) for k, s in enumerate(settled) for offset in s.offsets],
        counts=[counts for s in settled for counts in s.counts],
        orbits=level.orbits + sum(s.orbits for s in settled),
        taken=np.sum([level.taken, *(e.taken for e in expanded)], axis=0).tolist(),
        dropped=level.dropped + sum(e.dropped for e in expanded),
        limited=level.limited + sum(e.limited for e in expanded),
        found=found,
    )  # fmt: skip


# ── Small levels ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Hop:
    """Go on from this level while levels are small; `native` as of `Expand`."""

    level: Level
    before: int
    native: bool


def hop(search: Search, wanted: Hop) -> list[Level]:
    """The next levels, up to the first that is not small, or is empty."""
    began, found = perf_counter(), [wanted.level]
    before = wanted.before
    while found[-1].count and is_small(found[-1]) and perf_counter() - began < HOP_SECONDS:
        pending = {level.number: level for level in found}
        own = replace(search, pending=pending)
        alone = Planner(run=_here, search=own, parallel=1, native=wanted.native)
        level = found[-1]
        found.append(alone.advance(level, before))
        before = level.count
    return found[1:]


def _here(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Run tasks in this process."""
    return [function(task) for task in tasks]
