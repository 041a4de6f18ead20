"""The driver's part of `explore_recover`: which jobs there are, until no more states are marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from herdproof.pipeline.exploration.recover import (
    Answer,
    EdgeFile,
    Linked,
    Marked,
    Range,
    Spread,
    answer,
    link,
    mark,
    spread,
)
from herdproof.pipeline.exploration.store import Level, Piece
from herdspec.language.graph import Expr

RunTasks = Callable[[Callable[..., Any], Sequence[Any]], list[Any]]


class GraphRecovery:
    """The graph of a search that came to its end, and what can be reached in it."""

    def __init__(
        self, run: RunTasks, committed: Sequence[Level], ranges: list[Range], mine: list[bool]
    ) -> None:
        self._run, self.ranges = run, ranges
        self._bits, self._mine = committed[-1].bits, mine
        self._links: list[list[Piece]] = []

    def stuck(self, formula: Expr) -> int | None:
        """The number of the first state from which no path leads to where the formula holds."""
        if not self._links:
            self._links = self._linked()
        marks: list[Marked] = self._run(partial(mark, formula), self.ranges)
        links, count = self._links, -1
        while count != (count := sum(m.count for m in marks)):
            if all(m.first_left is None for m in marks):
                return None
            files = [m.file for m in marks]
            wanted = [
                Spread(range=of, marks=files, links=links[k]) for k, of in enumerate(self.ranges)
            ]
            marks = self._run(spread, wanted)
            links = [m.links for m in marks]
        return min(m.first_left for m in marks if m.first_left is not None)

    def _linked(self) -> list[list[Piece]]:
        """For each range, where the edges of its states are."""
        linked: list[Linked] = self._run(partial(link, self._bits, self._mine), self.ranges)
        shards = range(1 << self._bits)
        wanted = [Answer(shard=k, bits=self._bits, linked=linked) for k in shards]
        answered: list[EdgeFile] = self._run(answer, wanted)
        found: list[list[Piece]] = [[] for _ in self.ranges]
        for one in answered:
            for k, (offset, count) in enumerate(
                zip(np.cumsum([0, *one.counts]), one.counts, strict=False)
            ):
                if count:
                    found[k].append(Piece(one.file, int(offset), count))
        return found
