"""
Every edge of a small explored graph, taken by real brokers on a real ZooKeeper.

A real service cannot be set back to a state, so edges are covered by *plans*: paths from the
initial state that together take every edge, greedily the nearest one not taken yet. Edges that are
the same but for the brokers' names count as one, and one of them is taken. What cannot be driven
(`not_driven`), and what lies only behind it, is counted and said, never passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from herdproof.link.election import Differs
from herdproof.link.real import RealLockstep
from herdproof.link.real_world import RealElection
from herdspec.check.explore import Explorer
from herdspec.check.run import Step
from herdspec.engine.ground import Slot
from herdspec.language.surface import Kind
from herdspec.language.types import Option, SortOf
from herdspec.protocols.election_properties import ELECTION

Plan = list[int]
"""Numbers of edges, each from where the one before it led to, the first from the initial state."""


class Graph:
    """
    The election's graph at so many brokers and faults, each state by itself.

    `why_not` says what a world cannot do: `RealElection.why_not`, unless another is named.
    """

    def __init__(
        self, size: int, faults: int,
        why_not: Callable[[str, bool], str | None] = RealElection.why_not,
    ) -> None:  # fmt: skip
        self.explorer = Explorer(ELECTION, {"Broker": size}, faults, symmetry=False)
        self.explorer.run()
        assert self.explorer.edges is not None, "edges are kept where a promise is `recoverable`"
        self.why_not = why_not
        self.size, self.faults = size, faults
        self.source: list[int] = self.explorer.edges.source.tolist()
        self.instance: list[int] = self.explorer.edges.instance.tolist()
        self.target: list[int] = self.explorer.edges.target.tolist()
        self.actions = [i.action for i in self.explorer.ground.instances]

    @cached_property
    def classes(self) -> list[int]:
        """For each edge the least of those that are the same but for the brokers' names."""
        number = {pair: e for e, pair in enumerate(zip(self.source, self.instance, strict=True))}
        least = list(range(len(self.source)))
        for order in permutations(range(self.size)):
            states, instances = self._states_renamed(order), self._instances_renamed(order)
            for e, (source, instance) in enumerate(zip(self.source, self.instance, strict=True)):
                least[e] = min(least[e], number[states[source], instances[instance]])
        return least

    def _instances_renamed(self, order: Sequence[int]) -> list[int]:
        instances = self.explorer.ground.instances
        number = {(i.action.name, i.arguments): k for k, i in enumerate(instances)}
        return [number[i.action.name, tuple(order[b] for b in i.plain)] for i in instances]

    def _states_renamed(self, order: Sequence[int]) -> list[int]:
        """The number of each state, the k-th broker called the `order[k]`-th."""
        packing, rows = self.explorer.packing, self.explorer.rows
        made = np.zeros_like(rows)
        for (name, index), slot in self.explorer.ground.slots.items():
            values = _renaming(slot, order)[packing.read(rows, (name, index))]
            packing.write(made, (name, tuple(order[k] for k in index)), values)
        found: list[int] = self.explorer.visited.find(made).tolist()
        return found

    @cached_property
    def drivable(self) -> list[list[int]]:
        """From each state the edges that can be driven: the protocol's, users', then faults."""
        leaving: list[list[int]] = [[] for _ in self.explorer.rows]
        for e, source in enumerate(self.source):
            if self.reasons[e] is None:
                leaving[source].append(e)
        for edges in leaving:
            edges.sort(key=lambda e: list(Kind).index(self.actions[self.instance[e]].kind))
        return leaving

    @cached_property
    def reasons(self) -> list[str | None]:
        """For each edge, why it cannot be driven, or `None`."""
        packing, rows = self.explorer.packing, self.explorer.rows
        lags = [packing.read(rows, ("behind", (b,))).tolist() for b in range(self.size)]
        who = [i.plain for i in self.explorer.ground.instances]
        return [
            self.why_not(self.actions[i].name, any(lags[b][source] for b in who[i]))
            for source, i in zip(self.source, self.instance, strict=True)
        ]

    def not_driven(self) -> dict[str, int]:
        """How many classes of edges cannot be driven, by reason."""
        reachable, found = self.reachable(), dict[str, int]()
        for e, least in enumerate(self.classes):
            if e == least and least not in reachable:
                reason = self.reasons[e] or "come only after such"
                found[reason] = found.get(reason, 0) + 1
        return found

    def reachable(self) -> set[int]:
        """The classes of edges that paths of drivable edges come to."""
        seen, waiting, found = {0}, deque([0]), set()
        while waiting:
            for e in self.drivable[waiting.popleft()]:
                found.add(self.classes[e])
                if self.target[e] not in seen:
                    seen.add(self.target[e])
                    waiting.append(self.target[e])
        return found

    def plans(self, but: AbstractSet[int] = frozenset()) -> Iterator[Plan]:
        """Paths that together take every reachable edge (up to renaming), `but` those classes."""
        wanted = self.reachable() - but
        while wanted:
            at, plan = 0, list[int]()
            while path := self._nearest(at, wanted):
                plan += path
                wanted.difference_update(self.classes[e] for e in path)
                at = self.target[path[-1]]
            yield plan

    def _nearest(self, start: int, wanted: set[int]) -> Plan:
        """A shortest path to a wanted edge, that included; what disturbs only if nothing else."""
        return self._search(start, wanted, False) or self._search(start, wanted, True)

    def _search(self, start: int, wanted: set[int], disturbing: bool) -> Plan:
        by: dict[int, int] = {start: -1}
        waiting = deque([start])
        while waiting:
            at = waiting.popleft()
            for e in self.drivable[at]:
                if not disturbing and self.actions[self.instance[e]].disturbs:
                    continue
                if self.classes[e] in wanted:
                    return self._path(by, at, e)
                if self.target[e] not in by:
                    by[self.target[e]] = e
                    waiting.append(self.target[e])
        return []

    def _path(self, by: dict[int, int], at: int, last: int) -> Plan:
        path = [last]
        while (e := by[at]) >= 0:
            path.append(e)
            at = self.source[e]
        return path[::-1]


def _renaming(slot: Slot, order: Sequence[int]) -> NDArray[np.uint8]:
    """What becomes of each value of a slot."""
    if isinstance(slot.kind, SortOf):
        return np.array(order, np.uint8)
    if isinstance(slot.kind, Option) and isinstance(slot.kind.of, SortOf):
        return np.array([0, *(k + 1 for k in order)], np.uint8)
    return np.arange(slot.values, dtype=np.uint8)


@dataclass
class RealCoverage:
    """What was covered; edges that differ only in the brokers' names count once."""

    size: int
    faults: int
    edges: int = 0
    elsewhere: int = 0
    """Edges that were left to another run."""
    taken: dict[str, int] = field(default_factory=dict)
    """Edges taken, by action; the spec's state and the real one agreed after each."""
    not_driven: dict[str, int] = field(default_factory=dict)
    """Edges that cannot be driven here, by reason."""
    differing: dict[str, str] = field(default_factory=dict)
    """Stories of edges after which the implementation was elsewhere, by label."""
    missed: int = 0
    """Edges that were not taken because their plan ended at a differing one."""
    plans: int = 0
    steps: int = 0
    seconds: float = 0.0

    @property
    def covered(self) -> int:
        """How many edges were taken."""
        return sum(self.taken.values())

    @property
    def line(self) -> str:
        """All of it in one line."""
        left = {"left to another run": self.elsewhere, **self.not_driven}
        rest = "".join(f", {n:,} {why}" for why, n in left.items() if n)
        return (
            f"real ZooKeeper, {self.size} brokers, {self.faults} faults: {self.covered:,} of "
            f"{self.edges:,} edges taken, {len(self.differing)} differ, {self.missed} missed"
            f"{rest}; {self.plans} plans, {self.steps:,} steps in "
            f"{self.seconds:.1f} s ({self.steps / (self.seconds or 1):.0f} steps/s, "
            f"{self.covered / (self.seconds or 1):.1f} edges/s)"
        )


def cover(
    world: RealElection, graph: Graph, *, but: AbstractSet[int] = frozenset(),
    progress: Callable[[int, int], None] = lambda *_: None,
) -> RealCoverage:  # fmt: skip
    """
    Take every edge of the graph that can be driven (`but` these), each plan from the beginning.

    After a difference the next plan goes on. `progress` is told how many edges are taken, and of
    how many, after each plan.
    """
    began = perf_counter()
    result = RealCoverage(graph.size, graph.faults, len(set(graph.classes)), len(but))
    lockstep, done, wanted = RealLockstep(world), set[int](), graph.reachable() - but
    for plan in graph.plans(but):
        lockstep.begin()
        result.plans += 1
        try:
            for e in plan:
                result.steps += 1
                _take(lockstep, graph, e)
                done.add(graph.classes[e])
        except Differs as difference:
            result.differing[lockstep.steps[-1].label] = str(difference)
        progress(len(done & wanted), len(wanted))
    for e in done & wanted:
        name = graph.actions[graph.instance[e]].name
        result.taken[name] = result.taken.get(name, 0) + 1
    result.not_driven = graph.not_driven()
    result.missed = len(wanted - done)
    result.seconds = perf_counter() - began
    return result


def _take(lockstep: RealLockstep, graph: Graph, e: int) -> None:
    """Take one edge; the spec's Python must arrive where the graph says."""
    action, numbers = graph.actions[graph.instance[e]], graph.explorer.ground.instances
    arguments = lockstep.machine.arguments(action, numbers[graph.instance[e]].arguments)
    lockstep.step(action.name, arguments)
    faults = _faults(lockstep.steps)
    row = graph.explorer.row(lockstep.state, faults)[0]
    assert np.array_equal(row, graph.explorer.rows[graph.target[e]]), "run and explore disagree"


def _faults(steps: Sequence[Step]) -> int:
    return sum(step.action.disturbs for step in steps)
