"""
Every edge of a spec's explored graph, taken on the code: the same step, the same state after it.

`cover` takes them from snapshots where the adapter has `snapshot` and `restore`, else by tours that
go on to the nearest edge that is left. An edge counts as taken only where the code certainly went
along it; every other one is listed by its action, with the reason and an example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from herdproof.conformance.adapter import Adapter, AdapterError
from herdproof.conformance.graphs.edge_walk import EdgeWalk, Mismatch, Wrong
from herdproof.conformance.graphs.exact import Exact, has_snapshots, is_exact, renames
from herdproof.conformance.graphs.graph import Graph, explored
from herdproof.conformance.graphs.snapshots import Snapshots
from herdproof.conformance.graphs.tours import TRIES, Tours
from herdspec.check.verdict import counted
from herdspec.language.errors import UsageError
from herdspec.language.specification import Specification, specification
from herdspec.language.surface import Spec

SNAPSHOTS, TOURS = "snapshots", "tours"
"""The ways in which edges are taken."""
ABSENT = "absent: "
"""The adapter's own reason follows."""
BEYOND = "the code may have left the bounds there"
FIRST = "the code does not begin in the state where it starts"
BEHIND = "only behind steps that were not taken"
RESTLESS = "the code never rests in the state where it starts"
UNTOLD = "it could not be told from another step"
OTHERWISE = "the code chose otherwise there"
NOT_BY_ITSELF = "the code did not do it by itself there"
REFUSED = "the code had a reason of its own to refuse it there"
NO_TIME = "the time was over"
GONE = f"the code had gone on, {counted(TRIES, 'time')}"


@dataclass(frozen=True)
class Missed:
    """Edges of an action that were not taken, and why; a shortest way to one of them."""

    action: str
    reason: str
    edges: int
    example: tuple[str, ...]
    """The steps to the edge and the edge itself, as calls."""

    @property
    def line(self) -> str:
        """In one line."""
        return f"{self.action}: {counted(self.edges, 'edge')}, {self.reason}, such as " + ", ".join(
            self.example
        )


@dataclass
class Coverage:
    """The part of a spec's graph that was taken on the code, and the part that was not."""

    spec: str
    adapter: str
    sizes: Mapping[str, int]
    faults: int
    bound: int
    states: int
    edges: int
    """All edges of the graph."""
    by: str
    """`snapshots` or `tours`."""
    is_symmetric: bool = False
    """True if edges that are the same but for renaming count once."""
    is_cut: bool = False
    """True if steps lead beyond the bounds: those are no edges of the graph."""
    taken: dict[str, int] = field(default_factory=dict)
    """By action, how many edges the code certainly went along."""
    missed: list[Missed] = field(default_factory=list)
    untaken: tuple[str, ...] = ()
    """Actions of which no edge was taken, though not only for what never happens to this code."""
    refused: dict[str, int] = field(default_factory=dict)
    """By action, how many steps that the spec forbids the code refused."""
    disturbed: dict[str, int] = field(default_factory=dict)
    untried: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Things never done of which the adapter says that they can be, by what they are."""
    unseen: tuple[str, ...] = ()
    """Fields of which nothing was seen: they were not compared."""
    saw_nothing: bool = False
    """True if nothing at all was seen: then nothing was compared."""
    starts: int = 0
    steps: int = 0
    seconds: float = 0.0
    mismatch: Mismatch | None = None

    @property
    def covered(self) -> int:
        """The number of edges that were taken."""
        return sum(self.taken.values())

    @property
    def is_complete(self) -> bool:
        """Tells whether every edge was taken, and nothing was wrong."""
        return self.mismatch is None and self.covered == self.edges

    @property
    def is_whole(self) -> bool:
        """Tells whether all edges were taken but what never happens to this code, or only after."""
        excused = (m.reason == BEHIND or m.reason.startswith(ABSENT) for m in self.missed)
        return self.mismatch is None and self.covered > 0 and all(excused)

    @property
    def line(self) -> str:
        """In one line."""
        sizes = ", ".join(counted(n, name.lower()) for name, n in self.sizes.items())
        what = ", ".join(filter(None, [sizes, counted(self.faults, "fault")]))
        return f"{what}: {self.measured}"

    @property
    def measured(self) -> str:
        """Sentence on what was taken, and how fast."""
        rate = self.covered / self.seconds if self.seconds else 0.0
        return (
            f"{self.covered:,} of {counted(self.edges, 'edge')} taken, of"
            f" {counted(self.states, 'state')}, by {self.by}: {counted(self.steps, 'step')},"
            f" {counted(self.starts, 'start')}, {rate:,.0f} edges/s"
        )

    @property
    def lines(self) -> list[str]:
        """All that there is to say: what was taken, what was not and why, what is wrong."""
        lines = [self.line, *(f"  {missed.line}" for missed in self.missed)]
        if self.unseen:
            lines.append(f"  never seen, and not compared: {', '.join(self.unseen)}")
        lines += [f"  {what}: {', '.join(names)}" for what, names in self.untried.items()]
        if self.is_cut:
            lines.append(f"  steps beyond the bound {self.bound} are no part of the graph")
        return [*lines, *(self.mismatch.story.splitlines() if self.mismatch else [])]


def cover(
    spec: type[Spec] | Specification, adapter: type[Adapter], *, faults: int = 0,
    bound: int | None = None, by: str | None = None, seconds: float | None = None,
    part: float = 1.0, seed: int = 0, near: str | None = None, **sizes: int,
) -> Coverage:  # fmt: skip
    """
    Take every edge of a spec at these sizes on the code.

    `faults` is the budget of actions that disturb, `bound` the largest natural (by default raised
    while steps are cut off by it). `by` chooses `snapshots` or `tours`; by default the former where
    the adapter has them. After `seconds` no further step is begun. About a `part` of the edges is
    taken, drawn by `seed`, if it is less than 1: by snapshots, and without a word of the others; if
    it is to be `near` an action, or what is so `sometimes`, from where the shortest story to that
    has led.

    States are taken up to renaming only if the adapter can rename (see `exact.py`).
    """
    made = spec if isinstance(spec, Specification) else specification(spec)
    _check_way(adapter, by)
    symmetry = None if hasattr(adapter, "renamed") and by != TOURS else False
    graph = Graph(explored(made, sizes, faults=faults, bound=bound, symmetry=symmetry), adapter)
    if symmetry is None and not renames(graph):
        graph = Graph(explored(made, sizes, faults=faults, bound=bound, symmetry=False), adapter)
    if part == 1.0:
        return covered(graph, by=by, seconds=seconds)
    return covered(graph, by=SNAPSHOTS, seconds=seconds, part=part, seed=seed, near=near)


def covered(
    graph: Graph, *, by: str | None = None, seconds: float | None = None, **options: Any
) -> Coverage:
    """Covers the edges of a graph; `options` are those of `Snapshots`, or of `Exact`."""
    _check_way(graph.adapter, by)
    by = by or (SNAPSHOTS if has_snapshots(graph.adapter) else TOURS)
    exact = is_exact(graph) and "part" not in options
    kind = Tours if by == TOURS else Exact if exact else Snapshots
    is_symmetric = graph.explorer.packing.blocks > 1
    if is_symmetric and (kind is not Exact or not renames(graph)):
        raise AdapterError(
            f"{graph.adapter.__name__} cannot take a graph up to renaming by {by}: explore with"
            f" symmetry=False"
        )
    walk: EdgeWalk = kind(graph, seconds, **options)
    explorer = graph.explorer
    coverage = Coverage(
        graph.spec.name, graph.adapter.__name__, dict(graph.machine.sizes),
        explorer.ground.faults, explorer.ground.bound, graph.states, len(graph), by,
        is_symmetric=is_symmetric, is_cut=not explorer.result.complete,
    )  # fmt: skip
    began = perf_counter()
    try:
        walk.run()
    except Wrong as wrong:
        coverage.mismatch = walk.told(wrong)
    coverage.seconds = perf_counter() - began
    _conclude(coverage, walk)
    return coverage


def _check_way(adapter: type[Adapter], by: str | None) -> None:
    """Raise for a way of taking edges that there is not, or that an adapter has no methods for."""
    if by not in (None, SNAPSHOTS, TOURS):
        raise UsageError(f"edges cannot be taken by {by!r}: write {SNAPSHOTS!r} or {TOURS!r}")
    if by == SNAPSHOTS and not has_snapshots(adapter):
        raise AdapterError(
            f"{adapter.__name__} has no snapshots: write `def snapshot(self)` and"
            f" `def restore(self, snapshot)`, or take edges by {TOURS!r}"
        )


def _conclude(coverage: Coverage, walk: EdgeWalk) -> None:
    """Conclude what a walk came to."""
    taken = np.frombuffer(walk.taken, bool)
    coverage.taken = walk.graph.counts(taken)
    coverage.refused, coverage.disturbed = walk.refused, walk.disturbed
    untried = {
        "never refused": tuple(n for n in walk.adapter.offered if n not in walk.refused),
        "never brought about": tuple(n for n in walk.adapter.disturbed if n not in walk.disturbed),
    }
    coverage.untried = {what: names for what, names in untried.items() if names}
    coverage.starts, coverage.steps = walk.starts, walk.steps
    coverage.unseen = tuple(walk.seen.unseen) if walk.seen.fields else ()
    reads_all = isinstance(walk, Exact) and hasattr(walk.adapter, "reader")
    coverage.saw_nothing = not reads_all and not walk.seen.fields
    if coverage.mismatch is None and walk.is_whole:
        coverage.missed = list(missed(walk, np.flatnonzero(~taken).tolist()))
        coverage.untaken = tuple(n for n in _possible(walk) if not coverage.taken[n])


def _possible(walk: EdgeWalk) -> Iterator[str]:
    """The actions that are possible somewhere though what is absent never happens."""
    graph, absent = walk.graph, walk.adapter.absent
    happens = np.array([
        action.name not in absent or given is not None
        for (action, _), given in zip(graph.instances, graph.given, strict=True)
    ])  # fmt: skip
    source, target = graph.edges.source, graph.edges.target
    along = happens[graph.edges.instance]
    reached = np.zeros(graph.states, bool)
    reached[[*graph.initial]] = True
    before = 0
    while before < (before := int(reached.sum())):
        reached[target[along & reached[source]]] = True
    counts = graph.counts(along & reached[source])
    yield from (name for name, count in counts.items() if count)


def missed(walk: EdgeWalk, left: list[int]) -> Iterator[Missed]:
    """Why these edges were not taken, by action and reason."""
    graph = walk.graph
    passed = {*graph.initial, *graph.edges.target[np.frombuffer(walk.taken, bool)].tolist()}
    beyond = _only_from(walk, passed)
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for number in left:
        source, instance = int(graph.edges.source[number]), int(graph.edges.instance[number])
        action = graph.instances[instance][0].name
        reason = _reason(walk, number, passed, beyond)
        found.setdefault((action, reason), []).append((source, instance))
    for (action, reason), edges in found.items():
        source, instance = min(edges)
        labels = graph.explorer.story(source, instance).labels
        yield Missed(action, reason, len(edges), tuple(labels))


def _only_from(walk: EdgeWalk, passed: set[int]) -> set[int]:
    """The states to which steps lead that the code perhaps took beyond the bounds instead."""
    graph, found = walk.graph, set[int]()
    todo = [
        edge.target
        for state, name in walk.outside
        for edge in graph.leaving(state)
        if graph.instances[edge.instance][0].name == name
    ]
    while todo:
        state = todo.pop()
        if state not in passed and state not in found:
            found.add(state)
            todo += [edge.target for edge in graph.leaving(state)]
    return found


def _reason(walk: EdgeWalk, number: int, passed: set[int], beyond: set[int]) -> str:
    """Why an edge was not taken."""
    graph, adapter = walk.graph, walk.adapter
    source, instance = int(graph.edges.source[number]), int(graph.edges.instance[number])
    name = graph.instances[instance][0].name
    if name in adapter.absent and graph.given[instance] is None:
        return f"{ABSENT}{adapter.absent[name]}"
    if walk.is_over:
        return NO_TIME
    if number in walk.doubtful:
        return UNTOLD
    if source in walk.rests:
        if graph.given[instance] is None:
            return NOT_BY_ITSELF
        if adapter.chosen.get(name):
            return OTHERWISE
        if name in adapter.reluctant:
            return REFUSED
        return GONE if isinstance(walk, Tours) and walk.tried.get(number) else UNTOLD
    if source in walk.possibly:
        return UNTOLD
    if source in passed:
        return RESTLESS if source not in graph.initial or source in walk.possibly else FIRST
    return BEYOND if source in beyond else BEHIND
