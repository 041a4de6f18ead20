"""
The explored graph that code is taken through: its states, its edges, and where silent steps lead.

States and edges are numbered as the explorer found them. Code may be in several of the states at
once, as far as anybody can tell; which edges it went along is said only where no other way leads
from where it was to where it is (`certain`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from herdproof.conformance.adapter import Adapter, check_adapter, given
from herdproof.conformance.holding.closure import hashable, owed_to
from herdproof.conformance.holding.possible import Instance, Possible
from herdspec.check.exploration.bounds import TIMES, first_bound, raised
from herdspec.check.exploration.exploration import Exploration
from herdspec.check.exploration.explore import Explorer, is_cut_by_naturals
from herdspec.check.verdict import counted
from herdspec.language.errors import UsageError
from herdspec.language.specification import Specification
from herdspec.language.surface import Spec

CHUNK = 4_096
"""States that are turned into Python's values at once."""
CHUNKS = 32
"""The number of chunks of states that are kept."""


def explored(
    spec: Specification, sizes: Mapping[str, int], *, faults: int = 0, bound: int | None = None,
    symmetry: bool | None = None,
) -> Explorer:  # fmt: skip
    """
    An explorer that has seen every state and kept every edge; for the arguments see `explore`.

    Raises `UsageError` where the space is too large for that.
    """
    found: list[Explorer] = []

    def attempt(bound: int, _: float | None) -> Exploration | None:
        explorer = Explorer(spec, sizes, faults, bound, symmetry)
        explorer.keeps_edges = True
        found.append(explorer)
        return explorer.run()

    first, times = (first_bound(spec, faults), TIMES) if bound is None else (bound, 0)
    raised(first, attempt, is_cut_by_naturals, times)
    *_, explorer = found
    if explorer.edges is None:
        raise UsageError(
            f"{spec.name} has too many states at this size: {counted(len(explorer.rows), 'state')}"
            f" were seen when memory ended; take a smaller size, or fewer faults"
        )
    return explorer


class Edge(NamedTuple):
    """An edge of the graph: its number, and from which state to which, by which instance."""

    number: int
    source: int
    instance: int
    target: int


class Graph:
    """An explorer's graph, as an adapter of its spec can take it."""

    def __init__(self, explorer: Explorer, adapter: type[Adapter]) -> None:
        assert explorer.edges is not None, "the explorer has run, and kept its edges"
        self.explorer = explorer
        self.adapter = adapter
        self.machine = explorer.machine
        self.spec = self.machine.spec
        check_adapter(self.spec, adapter)
        self.possible = Possible(self.machine, adapter)
        self.edges = explorer.edges
        self.states = len(explorer.rows)
        self.first: NDArray[np.int64] = np.searchsorted(
            self.edges.source, np.arange(self.states + 1, dtype=self.edges.source.dtype)
        )
        self.instances: list[Instance] = [
            (i.action, self.machine.arguments(i.action, i.arguments))
            for i in explorer.ground.instances
        ]
        self.silent = [action.name in adapter.silent for action, _ in self.instances]
        controlled = set(self.possible.controlled)
        self.given = [self._given(i, controlled) for i in self.instances]
        self._given_to: dict[str, list[tuple[Any, ...]]] = {}
        self._leaving: dict[int, list[list[Edge]]] = {}
        self._plain: dict[int, list[Spec | tuple[int, ...]]] = {}

    def __len__(self) -> int:
        return len(self.edges.source)

    def _given(self, instance: Instance, controlled: Collection[str]) -> tuple[Any, ...] | None:
        """The arguments of an instance's method; None if the test cannot take it."""
        action, arguments = instance
        if action.name not in controlled:
            return None
        names = {name for name, _ in given(action, self.adapter)}
        pairs = zip(action.parameters, arguments, strict=True)
        return tuple(value for (name, _), value in pairs if name in names)

    def given_to(self, name: str) -> list[tuple[Any, ...]]:
        """Every choice of what an action's method gets, kept."""
        if name not in self._given_to:
            self._given_to[name] = self.possible.choices(name)
        return self._given_to[name]

    # ── States and edges ────────────────────────────────────────────────────────────────────

    def leaving(self, state: int) -> list[Edge]:
        """The edges from a state, in the spec's order."""
        chunk, at = divmod(state, CHUNK)
        if chunk not in self._leaving:
            _make_room(self._leaving)
            self._leaving[chunk] = self._edges(chunk)
        return self._leaving[chunk][at]

    def _edges(self, chunk: int) -> list[list[Edge]]:
        states = range(chunk * CHUNK, min((chunk + 1) * CHUNK, self.states))
        low, high = self.first[states.start], self.first[states.stop]
        columns = (self.edges.source, self.edges.instance, self.edges.target)
        rows = zip(range(low, high), *(c[low:high].tolist() for c in columns), strict=True)
        found: list[list[Edge]] = [[] for _ in states]
        for edge in map(Edge._make, rows):
            found[edge.source - states.start].append(edge)
        return found

    def plain(self, state: int) -> Spec:
        """A state as the spec's plain Python has it."""
        chunk, at = divmod(state, CHUNK)
        if chunk not in self._plain:
            _make_room(self._plain)
            rows, packing = self.explorer.rows, self.explorer.packing
            some = rows[chunk * CHUNK : (chunk + 1) * CHUNK]
            columns = [packing.read(some, key).tolist() for key in self.explorer.ground.slots]
            self._plain[chunk] = [*zip(*columns, strict=True)]
        found = self._plain[chunk][at]
        if isinstance(found, tuple):  # its numbers: nobody has asked for it
            found = self._plain[chunk][at] = self.machine.state(found)
        return found

    @property
    def initial(self) -> range:
        """The numbers of the initial states."""
        return range(self.explorer.levels[0])

    def number(self, name: str, whole: tuple[Any, ...]) -> int | None:
        """The number of an action with these arguments; None if it is never possible here."""
        return self._numbers.get((name, hashable(whole)))

    def shortest(self, name: str) -> tuple[int, int] | None:
        """Where the shortest story to an action takes it, and which instance; None if none does."""
        numbers = [k for k, (action, _) in enumerate(self.instances) if action.name == name]
        which = np.flatnonzero(np.isin(self.edges.instance, numbers))
        if not len(which):
            return None
        return int(self.edges.source[which[0]]), int(self.edges.instance[which[0]])

    @cached_property
    def _numbers(self) -> dict[tuple[str, Any], int]:
        return {(a.name, hashable(whole)): k for k, (a, whole) in enumerate(self.instances)}

    def counts(self, edges: NDArray[Any]) -> dict[str, int]:
        """The number of edges of each action, of these (numbers, or a truth value for each)."""
        per = np.bincount(self.edges.instance[edges], minlength=len(self.instances)).tolist()
        found = {a.name: 0 for a in self.spec.actions}
        for (action, _), count in zip(self.instances, per, strict=True):
            found[action.name] += count
        return found

    def labels(self, state: int) -> list[str]:
        """The steps of a shortest way to a state, as calls."""
        return self.explorer.story(state).labels

    # ── Where code may go ───────────────────────────────────────────────────────────────────

    def moves(self, state: int, names: Collection[str]) -> Iterator[Edge]:
        """The edges from a state by actions of these names."""
        return (e for e in self.leaving(state) if self.instances[e.instance][0].name in names)

    def closed(self, states: Iterable[int], names: Collection[str]) -> set[int]:
        """With every state that these actions lead to, any number of times."""
        found = set(states)
        todo = list(found) if names else []
        while todo:
            for edge in self.moves(todo.pop(), names):
                if edge.target not in found:
                    found.add(edge.target)
                    todo.append(edge.target)
        return found

    def owing(self, states: Collection[int], names: Collection[str]) -> frozenset[int]:
        """
        Of that closed set, the states in which a fair step is owed: it was possible all the way.

        Where a state can be come to in two ways, it owes what it owes in both.
        """
        owed = {k: self._fair(k, names) for k in states}
        todo = list(owed)
        while todo:
            before = todo.pop()
            for edge in self.moves(before, names):
                done = owed_to(self.instances[edge.instance])
                left = (owed[before] - {done}) & self._fair(edge.target, names)
                known = owed.get(edge.target)
                if known is None or not known <= left:
                    owed[edge.target] = left if known is None else known & left
                    todo.append(edge.target)
        return frozenset(k for k, some in owed.items() if some)

    def _fair(self, state: int, names: Collection[str]) -> frozenset[object]:
        """The fair steps that are possible in a state, by whom they are owed to."""
        some = (self.instances[e.instance] for e in self.moves(state, names))
        return frozenset(owed_to(i) for i in some if self.possible.must(i[0]))

    def leaks(self, states: Iterable[int], names: Collection[str]) -> bool:
        """Tells whether some step by these actions leads out of the graph: a bound, or a budget."""
        some = self.possible.instances(names) if names else []
        with self.possible.sized():
            for state in states:
                kept = {e.instance for e in self.moves(state, names)}
                for action, whole in some:
                    if self.number(action.name, whole) in kept:
                        continue
                    if self.possible.takes(self.plain(state), action, whole):
                        return True
        return False

    def certain(
        self, before: Collection[int], instance: int | None, after: Collection[int],
        names: Collection[str], first: Collection[str] | None = None,
    ) -> tuple[list[Edge], list[Edge]]:  # fmt: skip
        """
        The edges that lie on every way from where code was to where it is; those that are on some.

        In between it has taken `instance` (None: nothing), and any of `names` by itself; before
        the instance those of `first` only, if that is given.
        """
        layers = (False, True) if instance is not None else (False,)
        at = {(k, False) for k in before}
        ends = {(k, layers[-1]) for k in after}
        if at & ends:
            return [], []
        ways = list(self._ways(at, instance, names, names if first is None else first))
        lead = _reached(ends, [(b, a) for _, a, b in ways])
        ways = [(edge, a, b) for edge, a, b in ways if b in lead]
        every, some = list[Edge](), list[Edge]()
        for edge in dict.fromkeys(edge for edge, _, _ in ways):
            left = [(a, b) for other, a, b in ways if other != edge]
            (some if _reached(at, left) & ends else every).append(edge)
        return every, some

    def _ways(
        self,
        at: Collection[tuple[int, bool]],
        instance: int | None,
        names: Collection[str],
        first: Collection[str],
    ) -> Iterator[tuple[Edge, tuple[int, bool], tuple[int, bool]]]:
        """The edges that code may have gone along: each with the places that it joins."""
        todo, seen = list(at), set(at)
        while todo:
            place = state, is_later = todo.pop()
            for edge in self.leaving(state):
                chosen = edge.instance == instance and not is_later
                may = names if is_later or instance is None else first
                silent = self.instances[edge.instance][0].name in may
                for later in [True] * chosen + [is_later] * silent:
                    then = (edge.target, later)
                    yield edge, place, then
                    if then not in seen:
                        seen.add(then)
                        todo.append(then)


def _reached(at: Collection[Any], ways: list[tuple[Any, Any]]) -> set[Any]:
    """The places that these ways lead to."""
    found, grown = set(at), True
    while grown:
        more = {b for a, b in ways if a in found} - found
        found |= more
        grown = bool(more)
    return found


def _make_room(kept: dict[int, Any]) -> None:
    while len(kept) >= CHUNKS:
        del kept[next(iter(kept))]
