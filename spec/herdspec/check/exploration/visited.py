"""
The set of states seen so far: rows of words, found again by a 64-bit hash and compared in full.

Hashes are kept in sorted runs of growing length (as a log-structured merge tree does), so that
adding a level costs its own sorting and now and then a merge. Two different rows with one hash
would be told apart by the comparison; the set then rehashes with another seed instead of guessing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herdspec.engine.columns import Words

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Merged:
    """The number of each row given, and the rank of each row that was new, in their order."""

    numbers: NDArray[np.int64]
    ranks: NDArray[np.int64]


class Visited:
    """A growing set of rows; a row's number is its position in `rows`."""

    def __init__(self, words: int) -> None:
        self._store: Words = np.zeros((1024, words), np.uint64)
        self._count = 0
        self._runs: list[tuple[Hashes, NDArray[np.int64]]] = []
        self._seed = 0
        self._is_indexed = True

    @classmethod
    def of(cls, rows: Words) -> Visited:
        """The set of these rows, no two of which are the same; hashed when first asked."""
        made = cls(rows.shape[1])
        made._store, made._count, made._is_indexed = rows, len(rows), False
        return made

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Words:
        """All rows, in the order in which they came."""
        return self._store[: self._count]

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self._store.nbytes + sum(h.nbytes + i.nbytes for h, i in self._runs)

    def find(self, rows: Words) -> NDArray[np.int64]:
        """Each row's number, or -1."""
        return self._find(rows, self._hash(rows))

    def merge(self, rows: Words, rank: NDArray[np.int64]) -> Merged:
        """
        Number the rows: those that are known, and those that are new, which are added.

        Equal new rows get one number; new numbers follow the least rank of the equal ones.
        """
        hashes = self._hash(rows)
        order = np.argsort(hashes)
        first = np.ones(len(order), bool)
        first[1:] = hashes[order[1:]] != hashes[order[:-1]]
        heads = order[first]
        group = np.cumsum(first) - 1
        if (rows[order] != rows[heads][group]).any():
            self._rehash()
            return self.merge(rows, rank)
        known = self._find(rows[heads], hashes[heads])
        least = np.minimum.reduceat(rank[order], np.flatnonzero(first))
        new = np.flatnonzero(known < 0)
        new = new[np.argsort(least[new])]
        known[new] = np.arange(self._count, self._count + len(new))
        self._append(rows[heads[new]], hashes[heads[new]])
        numbers = np.empty(len(rows), np.int64)
        numbers[order] = known[group]
        return Merged(numbers, least[new])

    def _find(self, rows: Words, hashes: Hashes) -> NDArray[np.int64]:
        if not self._is_indexed:
            self._is_indexed = True
            self._push(self._hash(self.rows), np.arange(self._count))
        found = np.full(len(rows), -1, np.int64)
        for known, numbers in self._runs:
            at = np.searchsorted(known, hashes)
            at[at == len(known)] = 0
            hit = np.flatnonzero(known[at] == hashes)
            if len(hit):
                number = numbers[at[hit]]
                if (self._store[number] != rows[hit]).any():
                    self._rehash()
                    return self.find(rows)
                found[hit] = number
        return found

    def _append(self, rows: Words, hashes: Hashes) -> None:
        low, high = self._count, self._count + len(rows)
        if high > len(self._store):
            grown = np.zeros((max(high, 2 * len(self._store)), self._store.shape[1]), np.uint64)
            grown[:low] = self.rows
            self._store = grown
        self._store[low:high] = rows
        self._count = high
        if len(rows):
            self._push(hashes, np.arange(low, high))

    def _push(self, hashes: Hashes, numbers: NDArray[Any]) -> None:
        """Add a run; runs of like length are merged, so that there are few."""
        while self._runs and len(self._runs[-1][0]) < 4 * len(hashes):
            more, others = self._runs.pop()
            hashes, numbers = np.concatenate((more, hashes)), np.concatenate((others, numbers))
        order = np.argsort(hashes, kind="stable")
        self._runs.append((hashes[order], numbers[order]))

    def _rehash(self) -> None:
        """Two rows share a hash: hash all rows anew, with another seed."""
        self._seed += 1
        self._runs, self._is_indexed = [], True
        self._push(self._hash(self.rows), np.arange(self._count))

    def _hash(self, rows: Words) -> Hashes:
        """Mix the words of each row (multiply, shift and xor, as splitmix64 does)."""
        found = np.full(len(rows), 0x9E3779B97F4A7C15 + self._seed, np.uint64)
        for k in range(rows.shape[1]):
            found = (found ^ rows[:, k]) * np.uint64(0xBF58476D1CE4E5B9)
            found ^= found >> np.uint64(31)
            found *= np.uint64(0x94D049BB133111EB)
            found ^= found >> np.uint64(29)
        return found
