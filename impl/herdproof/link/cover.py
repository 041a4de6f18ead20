"""
Every edge of an explored graph, taken by the implementation: same action, same state after it.

The walk goes through the states as the explorer found them, breadth first. For each it holds a
snapshot of the simulated world in that state (the brokers in the representative's order); for each
edge it goes back to that snapshot, does what the edge's action names, observes the world and
demands the edge's target. A world that is the first to arrive in a state is kept as that state's,
until its edges have been taken: so at most two levels of the search are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from operator import itemgetter, lshift
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herdproof.link.election import Differs, Lockstep, Observer, act
from herdproof.link.flawed_election import simulated_with
from herdproof.simulator.election import Snapshot
from herdproof.simulator.gated import Impossible
from herdproof.zookeeper.shell import NothingWaits
from herdspec.check.explore import Explorer
from herdspec.engine.columns import Packing
from herdspec.engine.ground import FAULTS
from herdspec.protocols.election_properties import ELECTION

Progress = Callable[[int, int], None]
"""Told now and then: how many edges the walk has passed, of how many."""

CHUNK = 4096
"""States whose edges are turned into Python's numbers at once."""


@dataclass(frozen=True)
class Mismatch:
    """An edge on which the implementation does not arrive where the spec does."""

    action: str
    edges: int
    """How many edges had been taken, this one included."""
    steps: int
    """The length of a shortest way to where they differ."""
    story: str


@dataclass
class Coverage:
    """What a walk covered; `taken` counts the edges that were checked, by action."""

    size: int
    faults: int
    states: int = 0
    edges: int = 0
    taken: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    mismatch: Mismatch | None = None

    @property
    def line(self) -> str:
        """The walk in one line."""
        rate = self.edges / self.seconds if self.seconds else 0.0
        what = f"{self.size} brokers, {self.faults} faults"
        return f"{what}: {self.edges:,} edges of {self.states:,} states, {rate:,.0f} edges/s"


class Packer:
    """Observed numbers as the words of a packed row, in plain Python."""

    def __init__(self, packing: Packing) -> None:
        keys = list(packing.ground.slots)
        self.blocks = packing.blocks
        self._words: list[tuple[itemgetter[Any], tuple[int, ...]]] = []
        for word in range(packing.words):
            places = [
                (keys.index(key), place.shift)
                for key, place in packing.places.items()
                if place.word == word
            ]
            getter: itemgetter[Any] = itemgetter(*(at for at, _ in places))
            self._words.append((getter, tuple(shift for _, shift in places)))
        self._one_hot = [
            (keys.index(key), tuple((p.word, 1 << p.shift) for p in places))
            for key, places in packing.one_hot.items()
        ]

    def __call__(self, numbers: tuple[int, ...]) -> list[int]:
        """The row's words, its blocks in the order of the brokers."""
        words = [sum(map(lshift, get(numbers), shifts)) for get, shifts in self._words]
        for at, places in self._one_hot:
            if numbers[at]:
                word, bit = places[numbers[at] - 1]
                words[word] += bit
        return words


@dataclass(frozen=True)
class Edge:
    """An edge of the explored graph: from and to which state, by which of the ground instances."""

    source: int
    instance: int
    target: int


class Walk:
    """
    One walk over the graph of an `Explorer` that has run and kept its edges.

    `flaws` are those of the world. Of several walks that are to check all edges together, each
    goes through all states but checks only its `share` of `shares` (0-based) of the edges.
    """

    def __init__(
        self, explorer: Explorer, *, flaws: frozenset[str] = frozenset(),
        share: int = 0, shares: int = 1,
    ) -> None:  # fmt: skip
        if explorer.edges is None:
            raise ValueError("the explorer kept no edges: run it, with a `recoverable` property")
        ground = explorer.ground
        self.explorer = explorer
        self.flaws = flaws
        self.share, self.shares = share, shares
        self.size = ground.sizes["Broker"]
        self.world = simulated_with(flaws, self.size)
        self.observer = Observer(ground)
        self.packer = Packer(explorer.packing)
        self.steps = [(i.action.name, i.plain) for i in ground.instances]
        self.order = np.argsort(explorer.edges.source, kind="stable")
        self.held: dict[int, Snapshot] = {0: self.world.snapshot()}
        self.coverage = Coverage(self.size, ground.faults)

    def run(self, progress: Progress | None = None) -> Coverage:
        """Walk to the end, or to the first mismatch."""
        began = perf_counter()
        counts, passed = [0] * len(self.steps), 0
        for edges in self._batches():
            wrong = self._take(edges, counts)
            if wrong is not None:
                self.coverage.mismatch = self._told(wrong, sum(counts) + 1)
                break
            passed += len(edges)
            if progress:
                progress(passed, len(self.order))
        self._conclude(counts, perf_counter() - began)
        return self.coverage

    def _conclude(self, counts: list[int], seconds: float) -> None:
        taken = {a.name: 0 for a in self.explorer.ground.spec.actions}
        for (action, _), count in zip(self.steps, counts, strict=True):
            taken[action] += count
        self.coverage.taken, self.coverage.edges = taken, sum(counts)
        self.coverage.states = len(self.explorer.rows)
        self.coverage.seconds = seconds

    def _batches(self) -> Iterator[NDArray[np.int64]]:
        """The edges' numbers by source, some states' at a time."""
        assert self.explorer.edges is not None
        source = self.explorer.edges.source[self.order]
        for low in range(0, len(self.explorer.rows), CHUNK):
            first, last = np.searchsorted(source, np.array((low, low + CHUNK), source.dtype))
            yield self.order[first:last]

    def _take(self, edges: NDArray[np.int64], counts: list[int]) -> Edge | None:
        """Take a batch of edges, ordered by source; the one that goes wrong, if any."""
        graph, rows, packing = self.explorer.edges, self.explorer.rows, self.explorer.packing
        assert graph is not None
        sources, targets = graph.source[edges], graph.target[edges]
        reached = rows[targets]
        faults = packing.read(reached, (FAULTS, ())).tolist()
        present, snapshot = -1, self.world.snapshot()
        for source, instance, target, fault, row, number in zip(
            sources.tolist(), graph.instance[edges].tolist(), targets.tolist(), faults,
            reached.tolist(), edges.tolist(), strict=True,
        ):  # fmt: skip
            if source != present:
                present, snapshot = source, self.held.pop(source)
            new = target > source and target not in self.held
            mine = number % self.shares == self.share
            if new or mine:
                self.world.restore(snapshot)
                if not self._arrives(instance, target if new else None, fault, row):
                    return Edge(source, instance, target)
                counts[instance] += mine
        return None

    def _arrives(self, instance: int, new: int | None, faults: int, row: list[int]) -> bool:
        """Take one edge from the world as it is; a `new` state's world is kept."""
        try:
            act(self.world, *self.steps[instance])
            words = self.packer(self.observer(self.world, faults))
        except (Impossible, NothingWaits, AssertionError):
            return False
        blocks = self.packer.blocks
        if sorted(words[:blocks]) + words[blocks:] != row:
            return False
        if new is not None:
            order = sorted(range(self.size), key=words.__getitem__)
            self.held[new] = self.world.snapshot().permuted(order)
        return True

    def _told(self, edge: Edge, edges: int) -> Mismatch:
        """How the implementation comes to the edge, and where it goes instead."""
        action, arguments = self.steps[edge.instance]
        lockstep = Lockstep(self.explorer.ground.spec, self.size, flaws=self.flaws)
        steps = self.explorer.story(edge.source, edge.instance).steps
        story = (
            f"{action}{arguments} from state {edge.source} goes elsewhere, though the shortest way"
            " to that state does not show it: the world has a memory that the spec lacks.\n"
            "It came to that state by another way; run the Hypothesis suite, which tries many."
        )
        try:
            lockstep.follow(steps)
        except Differs as told:
            story = str(told)
        return Mismatch(action, edges, len(steps), story)


def explored(size: int, faults: int) -> Explorer:
    """The verified election's graph at this size."""
    explorer = Explorer(ELECTION, {"Broker": size}, faults)
    explorer.run()
    return explorer


def cover(size: int, faults: int, *, processes: int = 1) -> Coverage:
    """
    Take every edge of the verified election at this size.

    Each process explores the graph for itself, goes through all of its states and checks its share
    of the edges; memory and the time to explore are needed once for each.
    """
    if processes == 1:
        return Walk(explored(size, faults)).run()
    began = perf_counter()
    shares = [(size, faults, share, processes) for share in range(processes)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(_share, shares))
    return _joined(parts, perf_counter() - began)


def _share(part: tuple[int, int, int, int]) -> Coverage:
    size, faults, share, shares = part
    return Walk(explored(size, faults), share=share, shares=shares).run()


def _joined(parts: list[Coverage], seconds: float) -> Coverage:
    """What the shares covered together; of mismatches, the one found first."""
    found = [part.mismatch for part in parts if part.mismatch]
    return Coverage(
        parts[0].size,
        parts[0].faults,
        parts[0].states,
        sum(part.edges for part in parts),
        {action: sum(part.taken[action] for part in parts) for action in parts[0].taken},
        seconds,
        min(found, key=lambda mismatch: mismatch.edges, default=None),
    )
