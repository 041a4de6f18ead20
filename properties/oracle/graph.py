"""The graph of all reachable states, breadth first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from properties.oracle.source import Specification
from properties.oracle.steps import Choice, Interpreter
from properties.oracle.values import Impossible, Instance, NoMeaning, World, key, leaves

HORIZON = 3000
"""The number of states after which a search ends, where nothing else is said."""


@dataclass(frozen=True)
class Limits:
    """
    What a search is limited by.

    `bound` is that of naturals, `capacity` says whether channels are held to theirs; where these
    are left out there is none, and the search ends at the horizon. Proofs do not assume a
    `@constraint`: without `constrained` it is gone on from every state.
    """

    faults: int = 2
    bound: int | None = None
    capacity: bool = False
    constrained: bool = True
    horizon: int = HORIZON


@dataclass(frozen=True)
class Edge:
    """A step: what was chosen, and the number of the state that it leads to."""

    choice: Choice
    target: int


@dataclass
class Graph:
    """
    States in the order of their depth, with every step between them.

    `outside` are those that a `@constraint` lets nobody go on from, `idle` the labels of the
    choices, of actions that are fair to any, that change nothing in a state.
    """

    states: list[Instance] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    edges: dict[int, list[Edge]] = field(default_factory=dict)
    possible: dict[int, list[Choice]] = field(default_factory=dict)
    undefined: list[tuple[int, Choice | None]] = field(default_factory=list)
    outside: set[int] = field(default_factory=set)
    idle: dict[int, set[Any]] = field(default_factory=dict)
    dropped: int = 0
    largest: int = 0
    longest: int = 0

    @property
    def complete(self) -> bool:
        """Whether every state was gone on from that may be, and nothing was dropped."""
        return self.dropped == 0 and len(self.edges) == len(self.states)

    @property
    def whole(self) -> bool:
        """Whether every reachable state was gone on from."""
        return self.complete and not self.outside

    @property
    def looked(self) -> int:
        """The greatest depth of which every state was gone on from."""
        return min((d for k, d in enumerate(self.depth) if k not in self.edges),
                   default=max(self.depth, default=0))  # fmt: skip


class Search:
    """A breadth-first search of one spec at one size."""

    def __init__(self, of: Specification, world: World, limits: Limits) -> None:
        self.of = of
        self.limits = limits
        self.interpreter = Interpreter(world)
        self.world = world
        self.graph = Graph()
        self.numbers: dict[Any, int] = {}

    def run(self) -> Graph:
        """The graph, up to the horizon."""
        try:
            starts = self.interpreter.initial_states(self.of.spec)
        except NoMeaning:
            self.graph.undefined.append((-1, None))
            return self.graph
        for start in starts:
            if self._all("axiom", start):
                self._add(start, 0, 0)
        every = self.interpreter.choices(self.of.spec)
        number = 0
        while number < len(self.graph.states) <= self.limits.horizon:
            self._expand(number, every)
            number += 1
        return self.graph

    def _all(self, kind: str, state: Instance) -> bool:
        """Whether a state satisfies all properties of this kind."""
        names = [p for p, k in self.of.properties.items() if k == kind]
        return all(holds(self.interpreter, name, state) for name in names)

    def _add(self, state: Instance, used: int, depth: int) -> int | None:
        """The number of a state; nothing where it is beyond a bound."""
        if self._beyond(state):
            self.graph.dropped += 1
            return None
        name = (key(state), used)
        if name not in self.numbers:
            self.numbers[name] = len(self.graph.states)
            self.graph.states.append(state)
            self.graph.depth.append(depth)
            self.graph.used.append(used)
        return self.numbers[name]

    def _beyond(self, state: Instance) -> bool:
        beyond = False
        for name, kind in self.world.fields(state.spec).items():
            for what, value, capacity in leaves(state.fields[name], kind, self.world):
                if what == "nat":
                    bound = self.limits.bound
                    self.graph.largest = max(self.graph.largest, value)
                    beyond |= bound is not None and value > bound
                else:
                    self.graph.longest = max(self.graph.longest, value)
                    beyond |= self.limits.capacity and value > capacity
        return beyond

    def _expand(self, number: int, every: list[Choice]) -> None:
        graph = self.graph
        graph.edges[number] = []
        graph.possible[number] = []
        graph.idle[number] = set()
        state, used = graph.states[number], graph.used[number]
        if self.limits.constrained and not self._all("constraint", state):
            graph.outside.add(number)
        for choice in every:
            if used + choice.costs <= self.limits.faults:
                self._take(number, state, choice)

    def _take(self, number: int, state: Instance, choice: Choice) -> None:
        """Take one step, if it is possible; one from a state outside is seen and not taken."""
        graph, costs = self.graph, choice.costs
        undefined, after = False, None
        try:
            after = self.interpreter.after(state, choice)
        except NoMeaning:
            undefined = True
        if after is not None or undefined:
            graph.possible[number].append(choice)
        if number in graph.outside:
            return
        if undefined:
            graph.undefined.append((number, choice))
        if after is None:
            return
        if choice.any_of_them and key(after) == key(state):
            graph.idle[number].add(choice.label)
        target = self._add(after, graph.used[number] + costs, graph.depth[number] + 1)
        if target is not None:
            graph.edges[number].append(Edge(choice, target))


def explore(of: Specification, world: World, limits: Limits) -> Graph:
    """All that is reachable within the limits."""
    return Search(of, world, limits).run()


def value(interpreter: Interpreter, name: str, *given: Any) -> Any:
    """The value of a property; nothing where it has no meaning."""
    try:
        return interpreter.call(interpreter.source.functions[name], list(given), {})
    except (NoMeaning, Impossible):
        return None


def holds(interpreter: Interpreter, name: str, *given: Any) -> bool:
    """Whether a property holds; one that has no meaning does not."""
    return bool(value(interpreter, name, *given))
