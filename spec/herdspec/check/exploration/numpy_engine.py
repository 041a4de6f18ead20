"""
The NumPy engine: levels of states, expanded by whole columns.

It needs no compilation, so that small spaces are searched with it; and it is the reference that the
native engine is compared with, number by number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herdspec.check.exploration.visited import Visited
from herdspec.engine.columns import Columns, Key, Packing, Words
from herdspec.engine.ground import GroundAction
from herdspec.engine.native import NO_PARENT
from herdspec.engine.native_emit import DEADLOCK, UNDEFINED, Checks
from herdspec.language import graph as g

CHUNK = 1 << 15
"""States that are expanded at one time."""
BATCH = 1 << 21
"""Successors that are numbered at one time."""


class Batch:
    """Successors that wait to be numbered; their rank is their parent, then their instance."""

    def __init__(self, words: int) -> None:
        self._rows: list[Words] = [np.zeros((0, words), np.uint64)]
        self._ranks: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        self.size = 0

    def take(self, parents: NDArray[np.int64], number: int, rows: Words) -> None:
        """Add the successors by one instance."""
        self._rows.append(rows)
        self._ranks.append(parents << 16 | number)
        self.size += len(rows)

    def columns(self) -> tuple[Words, NDArray[np.int64]]:
        """All rows, and their ranks."""
        return np.concatenate(self._rows), np.concatenate(self._ranks)


class NumPyEngine:
    """The states of one search, expanded by columns. The same questions as of `Native`."""

    def __init__(self, packing: Packing, checks: Checks, visited: Visited | None = None) -> None:
        self.packing = packing
        self.checks = checks
        self.visited = visited or Visited(packing.words)
        self._parents: list[NDArray[np.uint32]] = []
        self._by: list[NDArray[np.uint16]] = []
        self.taken = np.zeros(len(packing.ground.instances), np.int64)
        self.dropped = 0
        self.limited = 0
        self.firsts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.visited)

    @property
    def rows(self) -> Words:
        """All states, in the order in which they were found."""
        return self.visited.rows

    @property
    def parents(self) -> NDArray[np.uint32]:
        """For each state, where it was found from (`NO_PARENT` of an initial one)."""
        self._parents = [np.concatenate([np.zeros(0, np.uint32), *self._parents])]
        return self._parents[0]

    @property
    def by(self) -> NDArray[np.uint16]:
        """For each state, by which instance it was found."""
        self._by = [np.concatenate([np.zeros(0, np.uint16), *self._by])]
        return self._by[0]

    @property
    def nbytes(self) -> int:
        """Memory in use for states."""
        return self.visited.nbytes + 6 * len(self.visited)

    def load(self, rows: Words, parents: NDArray[np.uint32], by: NDArray[np.uint16]) -> None:
        """Take over states that were found elsewhere."""
        self.visited = Visited.of(rows)
        self._parents, self._by = [parents], [by]

    def start(self, rows: Words) -> None:
        """Begin with these states; of equal ones the first counts."""
        self.visited.merge(rows, np.arange(len(rows)))
        self._parents = [np.full(len(self), NO_PARENT, np.uint32)]
        self._by = [np.zeros(len(self), np.uint16)]

    # ── The search ──────────────────────────────────────────────────────────────────────────

    def search(self, first: int, last: int, expected: int = 0) -> int:  # noqa: ARG002
        """Expand the states from `first` to before `last`; returns where to go on: `last`."""
        batch = Batch(self.packing.words)
        for low in range(first, last, CHUNK):
            columns = Columns(self.packing, self.rows[low : min(low + CHUNK, last)])
            self.look(columns, low)
            for source, number, made in self.successors(columns, low):
                batch.take(source + low, number, made)
            if batch.size > BATCH:
                self.add(batch)
                batch = Batch(self.packing.words)
        self.add(batch)
        return last

    def add(self, batch: Batch) -> None:
        """Number what was generated, and keep what is new of it."""
        if not batch.size:
            return
        rows, rank = batch.columns()
        merged = self.visited.merge(rows, rank)
        self._parents.append((merged.ranks >> 16).astype(np.uint32))
        self._by.append((merged.ranks & 0xFFFF).astype(np.uint16))

    def note(self, name: str, low: int, truth: NDArray[Any]) -> None:
        """Note the first of these states, if any, of which something looked for is true."""
        if truth.any():
            found = low + int(np.argmax(truth))
            self.firsts[name] = min(self.firsts.get(name, found), found)

    def look(self, columns: Columns, low: int) -> None:
        """Note the first states that break an invariant, or witness a possibility."""
        for name, formula in self.checks.states.items():
            if name not in self.firsts:
                self.note(name, low, truths(columns, formula))

    def successors(
        self, columns: Columns, low: int
    ) -> Iterator[tuple[NDArray[np.int64], int, Words]]:
        """For each instance that is possible somewhere: from which states, its number, to which."""
        allowed = truths(columns, self.checks.limit)
        self.limited += int(len(allowed) - allowed.sum())
        moved = ~allowed
        before = dict(self.firsts)
        for number, instance in enumerate(self.packing.ground.instances):
            possible = truths(columns, instance.guard) & allowed
            if not possible.any():
                continue
            moved |= possible
            possible = self.meant(columns, number, possible, low)
            source = np.flatnonzero(possible)
            kept, made = step(columns, instance, source)
            self.dropped += len(source) - len(kept)
            self.taken[number] += len(kept)
            self.look_at_steps(columns, number, kept, low, before)
            yield kept, number, self.packing.canonical(made)
        if DEADLOCK not in self.firsts:
            self.note(DEADLOCK, low, ~moved)

    def meant(
        self, columns: Columns, number: int, possible: NDArray[Any], low: int
    ) -> NDArray[Any]:
        """Where a step that is possible also has a meaning; note the first where it has none."""
        if number not in self.checks.undefined:
            return possible
        lost = possible & truths(columns, self.checks.undefined[number])
        self.note(UNDEFINED, low, lost)
        return possible & ~lost

    def look_at_steps(
        self, columns: Columns, number: int, source: NDArray[Any], low: int, before: dict[str, int]
    ) -> None:
        """Note the first state from which a step by this instance is looked for."""
        if not len(source):
            return
        for name, formula in self.checks.steps.get(number, {}).items():
            if name not in before:
                found = np.zeros(len(columns.rows), bool)
                found[source] = truths(columns, formula)[source]
                self.note(name, low, found)


def truths(columns: Columns, formula: g.Expr) -> NDArray[np.bool_]:
    """A formula's truth in each state."""
    found: NDArray[np.bool_] = np.broadcast_to(columns.of(formula), len(columns.rows))
    return found


def step(
    columns: Columns, instance: GroundAction, source: NDArray[Any]
) -> tuple[NDArray[np.int64], Words]:
    """The successors of these states by one instance; those beyond a bound are left out."""
    packing = columns.packing
    within = truths(columns, instance.fits)[source]
    values: dict[Key, Any] = {}
    for key, new in instance.updates.items():
        values[key] = int(new.data) if new.op == "const" else columns.of(new)[source]
        if packing.ground.slots[key].is_bounded:
            within = within & (values[key] <= packing.ground.slots[key].values - 1)
    made = columns.rows[source]
    for key, value in values.items():
        packing.write(made, key, value)
    if within.all():
        return source, made
    return source[within], made[within]
