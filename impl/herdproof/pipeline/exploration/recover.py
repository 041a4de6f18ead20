"""
Checks `recoverable` on Spark: can the protocol alone always get to where a property holds?

The graph's edges are made anew, as the local explorer makes them
(`herdspec.check.exploration.graph`): each state is expanded once more, the shards answer which
states the successors are. Then the states from which the promise is reached are marked, backwards,
until no more are: a job for each round, whose tasks read one bit for each state, and keep only the
edges of states that are not marked.

A state's *position* is its number, but for gaps: each task's states begin with a whole byte of
marks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from herdproof.pipeline.exploration.kernel import Kernel, received, shards_of
from herdproof.pipeline.exploration.store import Entries, Piece, SearchDirectory, with_ranks
from herdproof.pipeline.exploration.worker import Search, parts_of
from herdspec.check.exploration.numpy_engine import CHUNK, NumPyEngine, truths
from herdspec.check.exploration.visited import Visited
from herdspec.engine.columns import Columns, Words
from herdspec.language.graph import Expr

PLACED, ASKED, LINKS, MARKS = "placed", "asked", "links", "marks"
"""The kinds of files: states with their positions, successors, edges, and marks."""
KINDS = (PLACED, ASKED, LINKS, MARKS)
Bits = NDArray[np.uint8]
"""A bit for each position."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """States with numbers in a row, a list of pieces for each level; and the first's position."""

    runs: list[list[Piece]]
    base: int
    count: int
    position: int

    @property
    def bytes(self) -> int:
        """The number of bytes of marks for it."""
        return -(-self.count // 8)


@dataclass(frozen=True, kw_only=True)
class Linked:
    """The files in which a range's states and their successors go to their shards."""

    placed: str
    asked: str
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer for this shard which states the successors are, to each of the ranges."""

    shard: int
    bits: int
    linked: list[Linked]


@dataclass(frozen=True, kw_only=True)
class EdgeFile:
    """A file of edges (from position, to position), and how many each range has in it."""

    file: str
    counts: list[int]


@dataclass(frozen=True, kw_only=True)
class Marked:
    """A range's marks: where they are, how many, the number of the first state without."""

    file: str
    count: int
    first_left: int | None
    links: list[Piece]
    """The edges of states that have none."""


def rows_of(store: SearchDirectory, wanted: Range) -> Iterator[tuple[int, Words]]:
    """The states of a range, some thousands at a time, and the position of the first of them."""
    position = wanted.position
    for pieces in wanted.runs:
        rows, _ = store.numbered(pieces)
        for low in range(0, len(rows), CHUNK):
            part = rows[low : low + CHUNK]
            yield position, part
            position += len(part)


# ── Edges ───────────────────────────────────────────────────────────────────────────────────


def link(bits: int, mine: list[bool], search: Search, wanted: Range) -> Linked:
    """Send a range's states and their successors by `mine`, with positions, to their shards."""
    kernel = received(search.kernel)
    store = SearchDirectory(search.folder, kernel.packing.words)
    placed, asked = store.fresh(PLACED, 0), store.fresh(ASKED, 0)
    sizes: tuple[list[list[int]], list[list[int]]] = ([], [])
    with placed.open("wb") as states, asked.open("wb") as successors:
        for position, rows in rows_of(store, wanted):
            columns = Columns(kernel.packing, rows)
            here = np.arange(position, position + len(rows), dtype=np.uint64)
            found = list(_successors(kernel, columns, here, mine))
            for file, entries, written in (
                (states, with_ranks(rows, here), sizes[0]),
                (successors, np.concatenate(found), sizes[1]),
            ):
                shards = shards_of(entries[:, :-1], bits)
                parts = [entries[shards == k] for k in range(1 << bits)]
                for part in parts:
                    file.write(np.ascontiguousarray(part).data)
                written.append([len(part) for part in parts])
        states.write(np.array(sizes[0], np.uint64).data)
        successors.write(np.array(sizes[1], np.uint64).data)
    return Linked(placed=placed.name, asked=asked.name, rounds=len(sizes[0]))


def _successors(
    kernel: Kernel, columns: Columns, here: NDArray[np.uint64], mine: list[bool]
) -> Iterator[Entries]:
    """The successors of some states, each with the position that it comes from."""
    engine = NumPyEngine(kernel.packing, kernel.checks)
    yield np.zeros((0, kernel.packing.words + 1), np.uint64)
    for source, number, made in engine.successors(columns, 0):
        if mine[number]:
            yield with_ranks(made, here[source])


def answer(search: Search, wanted: Answer) -> EdgeFile:
    """Write the edges that lead to a shard, in the order of the ranges that they come from."""
    kernel = received(search.kernel)
    store = SearchDirectory(search.folder, kernel.packing.words)
    parts = [
        piece
        for one in wanted.linked
        for piece in parts_of(store, one.placed, one.rounds, wanted.bits)[wanted.shard]
    ]
    none = np.zeros((0, kernel.packing.words + 1), np.uint64)
    held = np.concatenate([none, *map(store.entries, parts)])
    visited = Visited.of(np.ascontiguousarray(held[:, :-1]))
    path, counts = store.fresh(LINKS, 0), []
    with path.open("wb") as file:
        for one in wanted.linked:
            pieces = parts_of(store, one.asked, one.rounds, wanted.bits)[wanted.shard]
            for piece in pieces:
                entries = store.entries(piece)
                at = visited.find(np.ascontiguousarray(entries[:, :-1]))
                assert (at >= 0).all(), "every successor was found"
                file.write(np.column_stack([entries[:, -1], held[at, -1]]).data)
            counts.append(sum(piece.size for piece in pieces))
    return EdgeFile(file=path.name, counts=counts)


# ── Marks ───────────────────────────────────────────────────────────────────────────────────


def mark(formula: Expr, search: Search, wanted: Range) -> Marked:
    """Mark the states of a range of which the formula holds."""
    kernel = received(search.kernel)
    store = SearchDirectory(search.folder, kernel.packing.words)
    found = [truths(Columns(kernel.packing, rows), formula) for _, rows in rows_of(store, wanted)]
    return _written(store, wanted, np.concatenate(found), [])


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mark the states of a range from which an edge leads to a marked one."""

    range: Range
    marks: list[str]
    """The files of all ranges' marks, in order."""
    links: list[Piece]


def spread(search: Search, wanted: Spread) -> Marked:
    """Mark more states of a range, until within it there are no more."""
    kernel = received(search.kernel)
    store = SearchDirectory(search.folder, kernel.packing.words)
    edges = SearchDirectory(search.folder, 1)
    marks: Bits = np.concatenate(
        [np.fromfile(store.folder / name, np.uint8) for name in wanted.marks]
    )
    links = np.concatenate([np.zeros((0, 2), np.uint64), *map(edges.entries, wanted.links)])
    while len(links):
        links = links[~marked(marks, links[:, 0])]
        reached = links[marked(marks, links[:, 1]), 0]
        if not len(reached):
            break
        np.bitwise_or.at(marks, reached >> np.uint64(3), _bit(reached))
    low = wanted.range.position // 8
    own = np.unpackbits(marks[low : low + wanted.range.bytes], bitorder="little")
    pieces: list[Piece] = []
    if len(links):
        path = store.fresh(LINKS, 0)
        path.write_bytes(np.ascontiguousarray(links).data)
        pieces.append(Piece(path.name, 0, len(links)))
    return _written(store, wanted.range, own[: wanted.range.count] == 1, pieces)


def marked(marks: Bits, positions: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of some positions are marked."""
    found: NDArray[np.bool_] = (marks[positions >> np.uint64(3)] & _bit(positions)) != 0
    return found


def _bit(positions: NDArray[np.uint64]) -> Bits:
    """The bit of each position in its byte."""
    return np.left_shift(np.uint8(1), (positions & np.uint64(7)).astype(np.uint8))


def _written(
    store: SearchDirectory, of: Range, truth: NDArray[np.bool_], links: list[Piece]
) -> Marked:
    """A range's marks, written to a file."""
    path = store.fresh(MARKS, 0)
    path.write_bytes(np.packbits(truth, bitorder="little").data)
    left = None if truth.all() else of.base + int(np.argmin(truth))
    return Marked(file=path.name, count=int(truth.sum()), first_left=left, links=links)
