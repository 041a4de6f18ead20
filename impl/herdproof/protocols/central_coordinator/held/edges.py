"""
The edges of system B's explored graph, taken on its cores from snapshots of their gated world.

The graph has initial states with partitions and without; the code begins in one of them at a time.
So it is taken twice, and what either took counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from herdproof.conformance.adapter import Adapter
from herdproof.conformance.graphs.edge_walk import Belief, EdgeWalk, Mismatch, Path, Wrong
from herdproof.conformance.graphs.edges import Missed, missed
from herdproof.conformance.graphs.graph import Graph, explored
from herdproof.conformance.graphs.snapshots import Snapshots, Try
from herdproof.protocols.central_coordinator.held.adapter import CentralEdges, CentralEdgesAppearing
from herdspec.check.exploration.explore import Explorer
from herdspec.protocols.central_coordinator.properties import HELD

SIZES = {"Broker": 1, "Member": 1, "Partition": 1}
BEGINNINGS: tuple[type[Adapter], ...] = (CentralEdges, CentralEdgesAppearing)


@dataclass
class Cover:
    """What was taken of the graph's edges."""

    edges: dict[str, int]
    """By action, how many edges the graph has."""
    taken: dict[str, int] = field(default_factory=dict)
    """By action, how many of them the code certainly went along."""
    missed: list[Missed] = field(default_factory=list)
    steps: int = 0
    mismatch: Mismatch | None = None

    @property
    def share(self) -> float:
        """Which part of all edges was taken."""
        return sum(self.taken.values()) / sum(self.edges.values())

    @property
    def lines(self) -> list[str]:
        """What was taken, and what was not, and why."""
        count, total = sum(self.taken.values()), sum(self.edges.values())
        return [
            f"{count:,} of {total:,} edges in {self.steps:,} steps ({self.share:.1%})",
            ", ".join(f"{name} {self.taken[name]}/{n}" for name, n in self.edges.items()),
            *(one.line for one in self.missed),
            *(self.mismatch.story.splitlines() if self.mismatch else []),
        ]


class Shuffled(deque[tuple[Belief, Any, Path]]):
    """A line in which anybody may be next, by chance."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self.chance = chance

    def popleft(self) -> tuple[Belief, Any, Path]:
        """Whoever is next."""
        self.rotate(self.chance.randrange(len(self)))
        return super().popleft()


class Some(Snapshots):
    """A walk in a random order, which waits for nothing, and ends after so many edges."""

    def __init__(self, graph: Graph, edges: int, seed: int) -> None:
        super().__init__(graph)
        self.edges = edges
        self._todo = Shuffled(Random(seed))

    @property
    def is_over(self) -> bool:
        """Whether enough was taken."""
        return self.taken.count(1) >= self.edges

    def _tries(self, at: Belief) -> Iterator[Try]:
        return (attempt for attempt in super()._tries(at) if attempt != self.wait)


def graph_of(faults: int, bound: int = 5) -> Explorer:
    """The graph at `SIZES`, of so many faults, with no natural number above `bound`."""
    return explored(HELD, SIZES, faults=faults, bound=bound, symmetry=False)


def cover(
    explorer: Explorer, *, adapters: tuple[type[Adapter], ...] = BEGINNINGS,
    share: float = 1.0, seed: int = 0,
) -> Cover:  # fmt: skip
    """Take every edge, or about this share of them, in an order by `seed`; stop at a difference."""
    both = np.zeros(0, bool)
    walk: EdgeWalk | None = None
    found: Cover | None = None
    for adapter in adapters:
        graph = Graph(explorer, adapter)
        found = found or Cover(graph.counts(np.ones(len(graph), bool)))
        both = both if len(both) else np.zeros(len(graph), bool)
        some = round(share * len(graph) / len(adapters))
        walk = Snapshots(graph) if share == 1.0 else Some(graph, some, seed)
        try:
            walk.run()
        except Wrong as wrong:
            found.mismatch = walk.told(wrong)
        both |= np.frombuffer(walk.taken, bool)
        found.steps += walk.steps
        found.taken = graph.counts(both)
        if found.mismatch is not None:
            return found
    assert walk is not None, "there is a beginning"
    assert found is not None, "there is a beginning"
    walk.taken = bytearray(both.tobytes())
    if share == 1.0:
        found.missed = [*missed(walk, np.flatnonzero(~both).tolist())]
    return found


__all__ = ["BEGINNINGS", "SIZES", "Cover", "cover", "graph_of"]
