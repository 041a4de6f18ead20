"""
The NumPy emitter: a ground spec over many packed states at once.

A state is a row of 64-bit words. Where the spec has a sort whose elements appear only as keys of
maps (once for each map) and as values of what has no such key, each element has a word of its own
(a *block*: its entries of all maps, and one bit for each value that may name it); sorting a row's
blocks then gives the one representative of all states that differ only by renaming (exact symmetry,
no n!). Other specs are packed slot after slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herdspec.engine.ground import Ground, Slot, SlotKey
from herdspec.language.graph import Expr
from herdspec.language.types import BOOL, MapOf, Option, Scalar, SortOf

Words = NDArray[np.uint64]
"""Packed states: one row each."""
Column = NDArray[Any]
"""A value per state: `uint8` or wider, as its slot needs (of sums `int64`), or `bool`."""
Key = SlotKey
CHUNK = 1 << 14
"""Rows that are looked at together where there may be millions."""


@dataclass(frozen=True)
class BitField:
    """Where a slot's number lies in a row."""

    word: int
    shift: int
    width: int


class Packing:
    """A layout of states as rows: `blocks` leading words hold one element each (0: no symmetry)."""

    def __init__(self, ground: Ground, symmetry: bool = True) -> None:
        self.ground = ground
        self.sort = symmetric(ground) if symmetry else None
        self.blocks = ground.sizes[self.sort] if self.sort else 0
        self.places: dict[Key, BitField] = {}
        self.one_hot: dict[Key, list[BitField]] = {}
        self.first: dict[Key, int] = {}  # the number that the first place of a one-hot slot means
        self.words = self.blocks
        self._fill = [0] * self.blocks
        self._positions = _positions(ground, self.sort) if self.sort else {}
        for key, slot in ground.slots.items():
            self._place(key, slot)
        self.bits = sum(self._fill)

    def _place(self, key: Key, slot: Slot) -> None:
        position = self._positions.get(slot.field)
        if position is not None:
            self.places[key] = self._reserve(slot.index[position], (slot.values - 1).bit_length())
        elif self.sort and _named(slot.kind) == self.sort:
            self.one_hot[key] = [self._reserve(k, 1) for k in range(self.blocks)]
            self.first[key] = slot.values - self.blocks  # 1 where 0 is absence
        else:
            width = (slot.values - 1).bit_length()
            if self.words == self.blocks or self._fill[-1] + width > 64:
                self._fill.append(0)
                self.words += 1
            self.places[key] = self._reserve(self.words - 1, width)

    def _reserve(self, word: int, width: int) -> BitField:
        place = BitField(word, self._fill[word], width)
        self._fill[word] += width
        assert self._fill[word] <= 64, "a block fits a word (symmetric() has checked)"
        return place

    def read(self, rows: Words, key: Key) -> Column:
        """A slot's column."""
        if key in self.one_hot:
            places = self.one_hot[key]
            found = np.zeros(len(rows), holding((self.first[key] + len(places)).bit_length()))
            for k, place in enumerate(places, start=self.first[key]):
                found += found.dtype.type(k) * self._bits(rows, place)
            return found
        return self._bits(rows, self.places[key])

    @staticmethod
    def _bits(rows: Words, place: BitField) -> Column:
        mask = np.uint64((1 << place.width) - 1)
        wide = (rows[:, place.word] >> np.uint64(place.shift)) & mask
        return wide.astype(holding(place.width))

    def write(self, rows: Words, key: Key, value: Column | int) -> None:
        """Set a slot in every row, in place."""
        if key in self.one_hot:
            for k, place in enumerate(self.one_hot[key], start=self.first[key]):
                self._set(rows, place, np.equal(value, k))
        else:
            self._set(rows, self.places[key], value)

    @staticmethod
    def _set(rows: Words, place: BitField, value: Any) -> None:
        mask = ((1 << place.width) - 1) << place.shift
        column = rows[:, place.word]
        column &= np.uint64(~mask & (2**64 - 1))
        column |= np.asarray(value).astype(np.uint64) << np.uint64(place.shift)

    def canonical(self, rows: Words) -> Words:
        """Each row's representative under renaming, in place."""
        if self.blocks > 1:
            rows[:, : self.blocks] = np.sort(rows[:, : self.blocks], axis=1)
        return rows

    def orbits(self, rows: Words) -> int:
        """The number of states that the representatives stand for."""
        if self.blocks < 2:
            return len(rows)
        return sum(self._orbits(rows[k : k + CHUNK]) for k in range(0, len(rows), CHUNK))

    def _orbits(self, rows: Words) -> int:
        """As many as stay in the processor's cache while they are counted."""
        total = np.full(len(rows), factorial(self.blocks), np.int64)
        run = np.ones(len(rows), np.int64)
        for k in range(1, self.blocks):  # n! divided by the factorials of the runs of equal blocks
            run = np.where(rows[:, k] == rows[:, k - 1], run + 1, 1)
            total //= run
        return int(total.sum())

    def pack(self, numbers: Sequence[int]) -> Words:
        """One state, its slots' numbers in the ground spec's order, as a row."""
        row = np.zeros((1, self.words), np.uint64)
        for key, number in zip(self.ground.slots, numbers, strict=True):
            self.write(row, key, number)
        return row

    def unpack(self, row: Words) -> tuple[int, ...]:
        """The reverse of `pack`."""
        return tuple(int(self.read(row.reshape(1, -1), key)[0]) for key in self.ground.slots)


def holding(bits: int) -> type[np.unsignedinteger[Any]]:
    """The narrowest type of columns that holds numbers of so many bits: a byte, if that does."""
    return np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32


def symmetric(ground: Ground) -> str | None:
    """The largest sort for which the packing by blocks is exact; None if there is none."""
    by_size = sorted(ground.spec.sorts, key=lambda name: -ground.sizes[name])
    return next((name for name in by_size if not asymmetric(ground, name)), None)


def asymmetric(ground: Ground, sort: str) -> str:
    """Why states cannot be taken up to renaming of a sort's elements; empty if they can."""
    bits = 0
    for f in ground.spec.fields:
        keys = f.kind.keys if isinstance(f.kind, MapOf) else ()
        scalar = f.kind.value if isinstance(f.kind, MapOf) else f.kind
        own = sum(isinstance(k, SortOf) and k.name == sort for k in keys)
        entries = len(ground.indices(f.kind))
        if own > 1:
            return f"{f.name} has two keys of {sort}"
        if _names(scalar, sort):
            if own:
                return f"{f.name} maps {sort} to {sort}"
            if _named(scalar) != sort:
                return f"{f.name} holds an optional part that is a {sort}"
            bits += entries
        elif own:
            bits += (ground.values(scalar) - 1).bit_length() * entries // ground.sizes[sort]
    return f"an element of {sort} would need {bits} bits, more than a word" if bits > 64 else ""


def _positions(ground: Ground, sort: str) -> dict[str, int]:
    """At which key each map from this sort has it."""
    return {
        f.name: position
        for f in ground.spec.fields
        if isinstance(f.kind, MapOf)
        for position, key in enumerate(f.kind.keys)
        if isinstance(key, SortOf) and key.name == sort
    }


def _named(kind: Scalar) -> str | None:
    """The sort whose elements a value names, directly or optionally."""
    inner = kind.of if isinstance(kind, Option) else kind
    return inner.name if isinstance(inner, SortOf) else None


def _names(kind: Scalar, sort: str) -> bool:
    while isinstance(kind, Option):
        kind = kind.of
    return isinstance(kind, SortOf) and kind.name == sort


class Columns:
    """Ground expressions over a chunk of states; what was computed once is kept."""

    def __init__(self, packing: Packing, rows: Words) -> None:
        self.packing = packing
        self.rows = rows
        self.memo: dict[Expr, Column] = {}

    def of(self, e: Expr) -> Column:
        """The expression's value in each state."""
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = self._compute(e)
        return found

    def read(self, key: Key) -> Column:
        """A slot's number in each state."""
        return self.packing.read(self.rows, key)

    def _compute(self, e: Expr) -> Column:
        match e.op:
            case "slot":
                column = self.read(e.data)
                return column.astype(bool) if e.kind == BOOL else column
            case "const":
                kind = np.bool_ if isinstance(e.data, bool) else np.min_scalar_type(e.data)
                return np.full(len(self.rows), e.data, kind)
            case "not":
                return ~self.of(e.args[0])
            case "and":
                return self._join(np.logical_and, e)
            case "or":
                return self._join(np.logical_or, e)
            case "ite":
                test, a, b = map(self.of, e.args)
                chosen: Column = np.where(test, a, b)
                return chosen
            case "eq":
                return self._compare(np.equal, e)
            case "le":
                return self._compare(np.less_equal, e)
            case "add":
                sums: Column = self.of(e.args[0]).astype(np.int64) + e.data  # may leave a byte
                return sums
            case "plus" | "minus":
                a, b = (self.of(x).astype(np.int64) for x in e.args)
                both: Column = a + b if e.op == "plus" else a - b
                return both
            case "mod" | "div":
                x, y = (self.of(x).astype(np.int64) for x in e.args)
                rest: Column = x % y if e.op == "mod" else x // y
                return rest
            case "count":
                counted: Column = np.stack([self.of(x) for x in e.args]).sum(axis=0, dtype=np.int64)
                return counted
        raise AssertionError(f"not a ground operator: {e.op}")

    def _compare(self, relation: np.ufunc, e: Expr) -> Column:
        a, b = (x.data if x.op == "const" else self.of(x) for x in e.args)
        found: Column = relation(a, b)
        return found

    def _join(self, join: np.ufunc, e: Expr) -> Column:
        found: Column = self.of(e.args[0])
        for a in e.args[1:]:
            found = join(found, self.of(a))
        return found
