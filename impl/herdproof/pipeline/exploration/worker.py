"""
The two kinds of tasks of a search on Spark, each a function of what it is asked and of files.

*Expand* takes a run of states of a level and writes their successors, by shard, into one file.
*Settle* takes all successors of some shards, finds those that are new, and writes them as the next
level's. Both read only what is committed, and write only into files of their own, so that a task
may be lost, repeated or run twice at once; what they tell the driver are counts.

A worker keeps the shards that it had, as long as there is room: to settle the next level, one of
them lacks nothing, or what other workers found in between. A shard that is not kept is read anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from herdproof.pipeline.exploration.kernel import (
    Counted,
    Kernel,
    Shard,
    expander_of,
    received,
    shard_of,
    shards_of,
)
from herdproof.pipeline.exploration.store import Entries, Level, Piece, SearchDirectory

PASSED, STATES = "passed", "states"
"""The kinds of files: successors on their way to their shards, and states."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """The common ground of all tasks of a search."""

    folder: str
    run: str
    """Which of the searches that were ever made in this directory; see `Kept`."""
    kernel: bytes
    keep_bytes: int
    """The memory in which a worker keeps shards."""
    pending: Mapping[int, Level] = field(default_factory=dict)
    """Levels that a task has found by itself, and that are not committed yet."""

    def level(self, number: int, words: int) -> Level:
        """A level that was committed, or is pending."""
        if number in self.pending:
            return self.pending[number]
        return _committed(self.folder, self.run, words, number)


@dataclass(frozen=True, kw_only=True)
class Expand:
    """Expand the states in these pieces, the first of which has the number `base`."""

    level: int
    pieces: list[Piece]
    base: int
    bits: int
    known: list[str]
    native: bool


@dataclass(frozen=True, kw_only=True)
class Expanded:
    """The successors of a block: how many, in which file, what was counted and found on the way."""

    file: str
    entries: int
    rounds: int
    taken: list[int]
    dropped: int
    limited: int
    found: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Settle:
    """Settle these shards: what they hold before this level, and what the files bring them."""

    level: int
    shards: list[int]
    bits: int
    passed: list[tuple[str, int]]
    """The files of successors in order, and how many rounds each has."""
    cuts: list[int]
    """The ranks before which sections end, the last left out."""
    native: bool


@dataclass(frozen=True, kw_only=True)
class SettledStates:
    """The new states of each shard: where in the file, and how many in each section."""

    file: str
    offsets: list[int]
    counts: list[list[int]]
    orbits: int


# ── Expand ──────────────────────────────────────────────────────────────────────────────────


def expand(search: Search, wanted: Expand) -> Expanded:
    """Write the successors of some states; the file ends with how many there are by round."""
    kernel = received(search.kernel)
    store = SearchDirectory(search.folder, kernel.packing.words)
    rows, _ = store.numbered(wanted.pieces)
    counted = Counted(np.zeros(kernel.instances, np.int64))
    expander = expander_of(kernel, wanted.native)
    path = store.fresh(PASSED, wanted.level + 1)
    rounds: list[list[int]] = []
    with path.open("wb") as file:
        for parts in expander.expand(rows, wanted.base, wanted.bits, wanted.known, counted):
            for part in parts:
                file.write(np.ascontiguousarray(part).data)
            rounds.append([len(part) for part in parts])
        file.write(np.array(rounds, np.uint64).data)
    return Expanded(
        file=path.name, entries=int(np.sum(rounds)), rounds=len(rounds),
        taken=counted.taken.tolist(), dropped=counted.dropped, limited=counted.limited,
        found=counted.found,
    )  # fmt: skip


def parts_of(store: SearchDirectory, name: str, rounds: int, bits: int) -> list[list[Piece]]:
    """Where in a file of successors each shard's are, in order."""
    shards = 1 << bits
    path = store.folder / name
    with path.open("rb") as file:
        file.seek(-8 * rounds * shards, 2)
        counts = np.fromfile(file, np.uint64, rounds * shards).astype(np.int64)
    ends = np.cumsum(counts)
    begins = (ends - counts).reshape(rounds, shards)
    by_round = counts.reshape(rounds, shards)
    return [
        [
            Piece(name, int(begins[r, s]), int(by_round[r, s]))
            for r in range(rounds)
            if by_round[r, s]
        ]
        for s in range(shards)
    ]


# ── Settle ──────────────────────────────────────────────────────────────────────────────────


def settle(search: Search, wanted: Settle) -> SettledStates:
    """Write what is new of all that came for some shards."""
    kernel = received(search.kernel)
    store = SearchDirectory(search.folder, kernel.packing.words)
    passed = [parts_of(store, name, rounds, wanted.bits) for name, rounds in wanted.passed]
    path = store.fresh(STATES, wanted.level)
    offsets, counts, orbits, written = [], [], 0, 0
    with path.open("wb") as file:
        for number in wanted.shards:
            key = (search.run, wanted.bits, number, wanted.native)
            shard = KEPT.take(key, wanted.level, search, kernel)
            pieces = [piece for parts in passed for piece in parts[number]]
            ends, total = np.zeros(len(wanted.cuts), np.int64), 0
            for new in shard.settle(_entries(store, pieces), sum(p.size for p in pieces)):
                file.write(np.ascontiguousarray(new).data)
                orbits += kernel.packing.orbits(np.ascontiguousarray(new[:, :-1]))
                ends += np.searchsorted(new[:, -1], np.array(wanted.cuts, np.uint64))
                total += len(new)
            KEPT.give(key, wanted.level, shard, search.keep_bytes)
            counts.append([int(n) for n in np.diff([0, *ends, total])])
            offsets.append(written)
            written += total
    return SettledStates(file=path.name, offsets=offsets, counts=counts, orbits=orbits)


def _entries(store: SearchDirectory, pieces: list[Piece]) -> Iterator[Entries]:
    """The entries of these pieces, a part at a time; pieces that follow each other are small."""
    waiting: list[Entries] = []
    size = 0
    for piece in pieces:
        waiting.append(store.entries(piece))
        size += piece.size
        if size >= ENOUGH:
            yield np.concatenate(waiting)
            waiting, size = [], 0
    if waiting:
        yield np.concatenate(waiting)


ENOUGH = 1 << 18
"""Entries that are settled at one time, about."""

Key = tuple[str, int, int, bool]
"""Of which search, of how many shards (in bits) which one, and whether the native engine's."""


@dataclass
class Kept:
    """The shards that a worker keeps from one task to the next."""

    shards: dict[Key, tuple[int, Shard]] = field(default_factory=dict)

    def take(self, key: Key, level: int, search: Search, kernel: Kernel) -> Shard:
        """A shard with all states before a level; until it is given back it is not kept."""
        _, bits, number, native = key
        store = SearchDirectory(search.folder, kernel.packing.words)
        have, shard = self.shards.pop(key, (0, None))
        if shard is None or have > level:
            have, shard = 0, shard_of(kernel, native)
        for earlier in range(have, level):
            committed = search.level(earlier, store.words)
            piece = committed.shard(number, bits)
            if piece is not None:
                rows = np.ascontiguousarray(store.entries(piece)[:, :-1])
                if committed.bits != bits:
                    rows = rows[shards_of(rows, bits) == number]
                if len(rows):
                    shard.load(rows)
        return shard

    def give(self, key: Key, level: int, shard: Shard, most: int) -> None:
        """Keep a shard that has the states of this level, too, if there is room."""
        old = [k for k in self.shards if k[:2] != key[:2]]
        for stale in old:
            del self.shards[stale]
        if shard.nbytes + sum(s.nbytes for _, s in self.shards.values()) <= most:
            self.shards[key] = (level + 1, shard)


KEPT = Kept()
"""Of this process."""


@lru_cache(maxsize=64)
def _committed(folder: str, run: str, words: int, level: int) -> Level:  # noqa: ARG001
    """A level that was committed, read once: while a search runs it does not change."""
    return SearchDirectory(folder, words).level(level)
