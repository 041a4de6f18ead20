"""
Fair behaviours of a finite graph: the part of liveness checking that knows no spec.

A behaviour is an infinite path; at any time it may also stay where it is (*stutter*), for ever if
nothing forbids it. What forbids it is fairness, demanded for an *instance* (an action with its
parameters chosen), or for several together (an action with any choice of them):

- **weakly fair**: if from some time on one of them is possible in every state, one is taken;
- **strongly fair**: if one of them is possible again and again, one is taken again and again.

Whether an instance is possible is judged on the whole graph, so a demand cannot be escaped by
leaving the part that is searched. For a single instance, taking a step that changes nothing is
taking it. (TLA+ excuses such steps from its demands instead. That is the same for weak fairness;
for strong fairness ours demands less, hence never says "holds" where TLA+ does not.) For several,
such a step would be an excuse for not taking the others: it counts as not possible, as in TLA+.

A promise "wherever the premise holds, the goal holds then or later" is broken by a *lasso*: a path
from a start to a state with the premise (the stem goes on from there), all without the goal, and a
cycle without the goal that meets every demand. The states of such a cycle are strongly connected,
so it is enough to look at strongly connected components of the states without the goal. One of them
carries a fair behaviour if what is weakly fair is impossible somewhere in it or taken inside it,
and what is strongly fair and possible anywhere in it is taken inside it. Where the weak demand
fails, it fails for every part of the component; where a strong one fails, the states in which it
is possible are taken out, and what is left is looked at again. (Lichtenstein and Pnueli 1985. A
single state with nothing but stuttering is a component too.)

A promise "from some time on it holds for ever" is broken by a lasso whose cycle comes again and
again to a state without it: of a component, one such state must be left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
"""A truth per state, or per instance."""
Numbers = NDArray[np.int64]
"""States, or edges, by number."""

UNSEEN, ROOT = -2, -1
"""Marks of states not reached, and of those that a search began with (else: an edge's number)."""


@dataclass(frozen=True)
class Graph:
    """
    Edges in the order of their source, then of their instance.

    The edges `first[s]` up to `first[s + 1]` leave state s. There is at most one edge for each
    state and instance: a step is a function. An instance is possible where it has an edge.
    """

    first: Numbers
    source: NDArray[np.uint32]
    instance: NDArray[np.uint16]
    target: NDArray[np.uint32]

    @classmethod
    def of(
        cls, states: int, source: NDArray[Any], instance: NDArray[Any], target: NDArray[Any]
    ) -> Graph:
        """The graph of so many states, with three columns of one length for its edges."""
        rank = source.astype(np.int64) << 16 | instance
        if len(rank) and (rank[1:] <= rank[:-1]).any():
            order = np.argsort(rank)
            source, instance, target, rank = (x[order] for x in (source, instance, target, rank))
        assert (rank[1:] > rank[:-1]).all(), "one edge for each state and instance"
        first = np.zeros(states + 1, np.int64)
        np.cumsum(np.bincount(source, minlength=states), out=first[1:])
        narrow = source.astype(np.uint32), instance.astype(np.uint16), target.astype(np.uint32)
        return cls(first, *narrow)

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self.first) - 1

    def leaving(self, states: Numbers) -> Numbers:
        """The edges that leave these states, in order."""
        low, count = self.first[states], self.first[states + 1] - self.first[states]
        ends = np.cumsum(count)
        total = int(ends[-1]) if len(ends) else 0
        edges: Numbers = np.arange(total) + np.repeat(low - (ends - count), count)
        return edges

    def possible(self, state: int) -> set[int]:
        """The instances that are possible in a state."""
        return set(self.instance[self.first[state] : self.first[state + 1]].tolist())


@dataclass(frozen=True)
class Demands:
    """
    Which demands are weak, by number (the others are strong), and which one each edge `meets`.

    A demand that several edges of a state meet is met by any of them; -1 stands for none.
    """

    weak: Flags
    meets: NDArray[np.int32]

    @property
    def fair(self) -> Flags:
        """Which edges meet a demand."""
        found: Flags = self.meets >= 0
        return found


@dataclass(frozen=True)
class Lasso:
    """A path as numbers of edges; the cycle leads back to its start (empty: nothing happens)."""

    start: int
    stem: list[int]
    cycle: list[int]

    def __len__(self) -> int:
        return len(self.stem) + len(self.cycle)


def lasso(
    graph: Graph, demands: Demands, starts: Numbers, premise: Flags, goal: Flags,
    recurring: Flags | None = None,
) -> Lasso | None:  # fmt: skip
    """
    A short fair behaviour that reaches the premise and then never the goal, if there is one.

    Its cycle begins with one of the `recurring` states (by default, of all). Of all ways into such
    a cycle the stem is a shortest; the cycle is short, not always shortest. Every state is taken to
    be reachable from `starts`. Raises nothing: the answer is complete for the graph that is given.
    """
    again = np.ones(graph.states, bool) if recurring is None else recurring
    begun = premise & ~goal
    roots = np.flatnonzero(begun)
    alive = begun if (begun | goal).all() else grow(graph, roots, within=~goal).reached
    fair = fair_components(graph, alive, demands, again)
    if not (fair >= 0).any():
        return None
    way = Way(graph, starts, roots, ~goal)
    quiet = alive & again & ~somewhere(graph, demands.fair)
    found = []
    if quiet.any():
        found.append(Lasso(*way.to(quiet), cycle=[]))
    start, stem = way.to((fair >= 0) & again)
    entry = int(graph.target[stem[-1]]) if stem else start
    found.append(Lasso(start, stem, Circle(graph, demands, fair == fair[entry]).through(entry)))
    return min(found, key=len)


def somewhere(graph: Graph, edges: Flags) -> Flags:
    """The states that one of these edges leaves."""
    found = np.zeros(graph.states, bool)
    found[graph.source[edges]] = True
    return found


# ── Components ──────────────────────────────────────────────────────────────────────────────


def components(graph: Graph, alive: Flags) -> tuple[int, NDArray[np.int32]]:
    """The number of strongly connected components of these states, and each one's (else -1)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    kept = alive[graph.source] & alive[graph.target]
    number = np.cumsum(alive) - 1
    size = int(number[-1]) + 1
    first = np.zeros(size + 1, np.int32)
    np.cumsum(np.bincount(number[graph.source[kept]], minlength=size), out=first[1:])
    target = number[graph.target[kept]].astype(np.int32)
    links = csr_array((np.ones(len(target)), target, first), shape=(size, size))
    links.sum_duplicates()  # scipy's search does not end where two edges link the same states
    count, labels = connected_components(links, directed=True, connection="strong")
    found = np.full(graph.states, -1, np.int32)
    found[alive] = labels
    return int(count), found


def fair_components(
    graph: Graph, alive: Flags, demands: Demands, again: Flags
) -> NDArray[np.int32]:
    """
    For each state the number of its fair component among `alive`, or -1.

    In a fair component a behaviour can stay for ever and meet every demand by going everywhere; and
    it has a state to which the behaviour is to come `again` and again.
    """
    found, total = np.full(graph.states, -1, np.int32), 0
    fair = np.flatnonzero(demands.fair & alive[graph.source])
    fair = fair[np.argsort(narrow(demands.meets[fair]), kind="stable")]
    pending = alive.copy()
    while pending.any():
        count, labels = components(graph, pending)
        fair = fair[pending[graph.source[fair]]]
        unmet = Unmet.of(graph, demands, count, labels, fair)
        unmet.hopeless[np.bincount(labels[pending & again], minlength=count) == 0] = True
        good = pending & ~unmet.hopeless[labels] & ~unmet.restless[labels]
        found[good] = labels[good] + total
        total += count
        pending &= unmet.restless[labels] & ~unmet.hopeless[labels]
        pending &= ~unmet.barred
    return found


def narrow(numbers: NDArray[np.int32]) -> NDArray[Any]:
    """Numbers of demands in as few bytes as they need: two are sorted by counting."""
    small = not len(numbers) or numbers.max() < 1 << 16
    return numbers.astype(np.uint16) if small else numbers


@dataclass(frozen=True)
class Unmet:
    """
    The demands that each component does not meet.

    In a `hopeless` one no part meets them; a `restless` one may, without its states `barred`.
    """

    hopeless: Flags
    restless: Flags
    barred: Flags

    @classmethod
    def of(
        cls, graph: Graph, demands: Demands, count: int, labels: NDArray[np.int32], fair: Numbers
    ) -> Unmet:
        """Look, by demand (as `fair` is ordered), where it is possible and if it is met inside."""
        size = np.bincount(labels[labels >= 0], minlength=count)
        found = cls(np.zeros(count, bool), np.zeros(count, bool), np.zeros(graph.states, bool))
        numbers, starts = np.unique(demands.meets[fair], return_index=True)
        for demand, mine in zip(numbers, np.split(fair, starts[1:]), strict=False):
            home = labels[graph.source[mine]]
            taken = np.zeros(count, bool)
            taken[home[labels[graph.target[mine]] == home]] = True
            if not demands.weak[demand]:
                found.restless[home[~taken[home]]] = True
                found.barred[graph.source[mine[~taken[home]]]] = True
            else:
                once = np.diff(graph.source[mine].astype(np.int64), prepend=-1) != 0
                everywhere = np.bincount(home[once], minlength=count) == size
                np.logical_or(found.hopeless, everywhere & ~taken, out=found.hopeless)
        return found


# ── Paths ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Tree:
    """Shortest paths: by which edge each state was first reached, and after how many."""

    graph: Graph
    came: Numbers
    depth: NDArray[np.int32]
    hit: int | None

    @property
    def reached(self) -> Flags:
        """The states that were reached."""
        found: Flags = self.came != UNSEEN
        return found

    def path(self, state: int) -> tuple[int, list[int]]:
        """The root of a state, and the edges from there."""
        edges: list[int] = []
        while (edge := int(self.came[state])) != ROOT:
            edges.append(edge)
            state = int(self.graph.source[edge])
        return state, edges[::-1]


def grow(
    graph: Graph, roots: Numbers, *, within: Flags | None = None, wanted: Flags | None = None,
    joins: NDArray[np.int32] | None = None,
) -> Tree:  # fmt: skip
    """
    Search breadth first from `roots` among the states `within`, up to a state that is `wanted`.

    A root joins at a depth of its own (`joins`, per state; by default all at 0). Of paths of one
    length the one over the least states is kept, then that by the least instances.
    """
    came = np.full(graph.states, UNSEEN, np.int64)
    depth = np.full(graph.states, -1, np.int32)
    at = np.zeros(len(roots), np.int32) if joins is None else joins[roots]
    roots, at = roots[np.argsort(at, kind="stable")], np.sort(at)
    frontier, level = roots[:0], 0
    while len(frontier) or len(roots):
        joining = int(np.searchsorted(at, level, "right"))
        more, roots, at = roots[:joining], roots[joining:], at[joining:]
        more = more[came[more] == UNSEEN]
        came[more] = ROOT
        frontier = np.sort(np.concatenate((frontier, more)))
        depth[frontier] = level
        if wanted is not None and len(hits := frontier[wanted[frontier]]):
            return Tree(graph, came, depth, int(hits[0]))
        frontier = _next(graph, frontier, came, within)
        level += 1
    return Tree(graph, came, depth, None)


def _next(graph: Graph, frontier: Numbers, came: Numbers, within: Flags | None) -> Numbers:
    """The states one edge further, noted in `came`."""
    edges = graph.leaving(frontier)
    new = came[graph.target[edges]] == UNSEEN
    if within is not None:
        new &= within[graph.target[edges]]
    edges = edges[new]
    states = graph.target[edges]
    came[states[::-1]] = edges[::-1]  # of several edges to one state the first stays
    return np.sort(states[came[states] == edges]).astype(np.int64)


class Way:
    """Shortest ways from a start over a root (where the premise holds) on among the open states."""

    def __init__(self, graph: Graph, starts: Numbers, roots: Numbers, open_states: Flags) -> None:
        self.graph, self.roots, self.open = graph, roots, open_states
        self.before = grow(graph, starts)

    def to(self, wanted: Flags) -> tuple[int, list[int]]:
        """The start, and the edges to the nearest state that is wanted (there must be one)."""
        depth = self.before.depth
        after = grow(self.graph, self.roots, within=self.open, wanted=wanted, joins=depth)
        assert after.hit is not None, "what is wanted was reached from these roots before"
        root, late = after.path(after.hit)
        start, early = self.before.path(root)
        return start, early + late


# ── Cycles ──────────────────────────────────────────────────────────────────────────────────


class Circle:
    """Short cycles that meet every demand, inside one fair component."""

    def __init__(self, graph: Graph, demands: Demands, inside: Flags) -> None:
        self.graph, self.inside, self.meets = graph, inside, demands.meets
        self.weak = set(np.flatnonzero(demands.weak).tolist())
        self.strong = set(np.flatnonzero(~demands.weak).tolist())
        mine = demands.fair & inside[graph.source]
        self.possible = np.flatnonzero(mine)
        self.taken = np.flatnonzero(mine & inside[graph.target])

    def through(self, entry: int) -> list[int]:
        """The edges of a cycle through a state; none where resting there meets every demand."""
        walk: list[int] = []
        here = entry
        while (unmet := self.unmet(entry, walk)) or here != entry:
            home = np.arange(self.graph.states) == entry
            walk += self.errand(here, unmet) if unmet else self.go(here, home)
            here = int(self.graph.target[walk[-1]])
        return self.shortened(entry, walk)

    def unmet(self, entry: int, walk: list[int]) -> set[int]:
        """The demands that a walk from a state does not meet."""
        passed = [self.possibly(int(s)) for s in {entry, *self.graph.target[walk].tolist()}]
        taken = set(self.meets[walk].tolist())
        weak = self.weak.intersection(*passed)
        strong = self.strong & set().union(*passed)
        return (weak | strong) - taken

    def possibly(self, state: int) -> set[int]:
        """The demands that a step from a state can meet."""
        return set(self.meets[self.graph.first[state] : self.graph.first[state + 1]].tolist())

    def errand(self, here: int, unmet: set[int]) -> list[int]:
        """The way to the nearest state that serves an unmet demand, and the step that does."""
        wanted = np.zeros(self.graph.states, bool)
        open_ = np.isin(self.meets[self.taken], list(unmet))
        wanted[self.graph.source[self.taken[open_]]] = True
        for demand in unmet & self.weak:
            impossible = self.inside.copy()
            where = self.possible[self.meets[self.possible] == demand]
            impossible[self.graph.source[where]] = False
            wanted |= impossible
        walk = self.go(here, wanted)
        here = int(self.graph.target[walk[-1]]) if walk else here
        leaving = self.graph.leaving(np.array([here]))
        serving = np.intersect1d(leaving, self.taken[open_])
        return [*walk, int(serving[0])] if len(serving) else walk

    def go(self, here: int, wanted: Flags) -> list[int]:
        """A shortest way to a state that is wanted."""
        tree = grow(self.graph, np.array([here]), within=self.inside, wanted=wanted)
        assert tree.hit is not None, "a component is strongly connected"
        return tree.path(tree.hit)[1]

    def shortened(self, entry: int, walk: list[int]) -> list[int]:
        """The cycle without round trips that meet no demand."""
        states = [entry, *self.graph.target[walk].tolist()]
        for low in range(len(walk)):
            for high in range(len(walk), low, -1):
                less = walk[:low] + walk[high:]
                if states[low] == states[high] and less and not self.unmet(entry, less):
                    return self.shortened(entry, less)
        return walk
