"""
How much of the spec's explored graph the real cores take, in simulated runs.

The graph is explored at a small size; runs of that size are traced and replayed in the spec, and
every step that the replay takes is looked up among the graph's edges. An edge is a state and an
action with its arguments; how many faults came before is no part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from herdproof.link.central import STEPS
from herdproof.link.central_replay import GroupReplay
from herdproof.link.central_runs import traced
from herdproof.link.central_view import NoElement, View
from herdproof.simulator.chance import Config
from herdspec.check.explore import Explorer
from herdspec.check.run import Machine
from herdspec.protocols.central_coordinator_properties import HELD

Edge = tuple[tuple[int, ...], str, tuple[Any, ...]]

SIZES = {"Broker": 1, "Member": 1, "Partition": 1}
CONFIG = Config(
    brokers=1, consumers=1, topics=(("logs", 1),), faults=3, duration_ms=7_000, quiet_ms=500,
    settle_ms=100, ping_interval_ms=400, session_timeout_ms=1_500, zookeeper_timeouts_ms=(1_000,),
)  # fmt: skip
"""Runs of the size of `SIZES`, too short to leave the graph's bounds, or to settle."""


@dataclass
class Cover:
    """What was taken of a graph's edges."""

    edges: dict[str, int]
    """How many edges the graph has, by action."""
    taken: set[Edge] = field(default_factory=set)
    beyond: int = 0
    """Steps that lie outside of the graph's bounds."""
    runs: int = 0
    larger: int = 0
    """Runs that needed more members than the graph has."""
    curve: list[int] = field(default_factory=list)
    """After each run, how many edges had been taken."""

    @property
    def by_action(self) -> dict[str, tuple[int, int]]:
        """For each action, how many of its edges were taken, and how many there are."""
        taken = Counter(action for _, action, _ in self.taken)
        return {action: (taken[action], count) for action, count in self.edges.items()}

    def __str__(self) -> str:
        total = sum(self.edges.values())
        return f"{len(self.taken):,} of {total:,} edges by {self.runs:,} runs"


class Graph:
    """The explored graph, its edges to be looked up; `faults` and `bound` are the exploration's."""

    def __init__(self, faults: int, bound: int) -> None:
        explorer = Explorer(HELD, SIZES, faults, bound)
        explorer.keeps_edges = True
        explorer.run()
        assert explorer.edges is not None, "they are kept"
        self.machine: Machine = explorer.machine
        ground, packing, rows = explorer.ground, explorer.packing, explorer.rows
        columns = [packing.read(rows, key).tolist() for key in ground.slots][:-1]
        states = list(zip(*columns, strict=True))
        self.edges: set[Edge] = {
            (states[source], ground.instances[instance].action.name, self._plain(ground, instance))
            for source, instance in zip(
                explorer.edges.source.tolist(), explorer.edges.instance.tolist(), strict=True
            )
        }

    def _plain(self, ground: Any, instance: int) -> tuple[Any, ...]:
        found = ground.instances[instance]
        return hashable(self.machine.arguments(found.action, found.arguments))

    def edge(self, before: Any, action: str, arguments: tuple[Any, ...]) -> Edge:
        """A step of a replay, as the graph has its edges."""
        return self.machine.numbers(before)[:-1], action, hashable(arguments)


def hashable(arguments: Iterable[Any]) -> tuple[Any, ...]:
    """Arguments that can be looked up: sets and maps frozen."""
    return tuple(
        frozenset(a) if isinstance(a, set)
        else tuple(sorted(a.items(), key=repr)) if isinstance(a, dict)
        else a
        for a in arguments
    )  # fmt: skip


def cover(graph: Graph, seeds: Iterable[int], config: Config = CONFIG) -> Cover:
    """Replay the runs of these seeds, and note every edge that they take."""
    found = Cover(dict(Counter(action for _, action, _ in graph.edges)))

    def watch(before: Any, action: str, arguments: tuple[Any, ...], after: Any) -> None:
        del after
        edge = graph.edge(before, action, arguments)
        if edge in graph.edges:
            found.taken.add(edge)
        else:
            found.beyond += 1

    for seed in seeds:
        lines = traced(seed, config).lines
        view = View.of(lines, "g1")
        view.most_members = SIZES["Member"]
        try:
            replay = GroupReplay(view, STEPS, HELD, watch, plain=True)
            outcome = replay.run(None)
            assert outcome.mismatch is None, outcome.mismatch
        except NoElement:
            found.larger += 1
        found.runs += 1
        found.curve.append(len(found.taken))
    return found
