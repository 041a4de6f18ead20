"""
Every edge taken by tours: on from where the code is to the nearest edge that was not taken yet.

For code that cannot be put back. A new beginning is made only where nothing that is left to take
can be reached; where the code goes otherwise than the graph (it acts by itself, or chooses), the
way is planned anew from where it is, and what it did there is remembered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from herdproof.conformance.graphs.edge_walk import Belief, EdgeWalk, Outside
from herdproof.conformance.graphs.graph import Graph
from herdproof.conformance.graphs.snapshots import refusals

TRIES = 3
"""The number of times that an edge is aimed at."""


class Leg(NamedTuple):
    """A step of a plan: to offer an instance (None: to wait), and where that should lead."""

    instance: int | None
    target: int
    number: int
    """The edge's number."""


class Tours(EdgeWalk):
    """A walk that goes on; `tried` counts how often an edge was aimed at."""

    def __init__(self, graph: Graph, seconds: float | None = None) -> None:
        super().__init__(graph, seconds)
        self.tried: dict[int, int] = {}
        self._went: dict[tuple[int, int | None], int | None] = {}
        """Where the code went from a state by an instance (None: by itself), if not as planned."""
        self._refusals_tried: set[Belief] = set()

    def run(self) -> None:
        """Tour until no beginning leads to anything that is left; raises `Wrong`."""
        while not self.is_over and self.on_new_code(self._tour):
            pass

    def _tour(self, at: Belief) -> bool:
        """One tour, to its end; whether there was anything to take."""
        is_some = bool(self._plan(at))
        with suppress(Outside):
            at = self._refuse(at)
            plan = self._plan(at)
            while plan and not self.is_over:
                at = self._follow(at, plan)
                plan = self._plan(at)
        return is_some

    def _follow(self, at: Belief, plan: list[Leg]) -> Belief:
        """Take the steps of a plan, as long as the code goes along."""
        self.tried[plan[-1].number] = self.tried.get(plan[-1].number, 0) + 1
        for leg in plan:
            if leg.instance is None:
                then = self.wait(at)
            else:
                name = self.graph.instances[leg.instance][0].name
                given = self.graph.given[leg.instance]
                assert given is not None, "what the test cannot take is in no plan"
                then = self.offer(at, name, given)
            then = self._refuse(then)
            if len(at) == 1:
                [before] = at
                self._went[before, leg.instance] = min(then) if len(then) == 1 else None
            at = then
            if at != {leg.target}:
                break
        return at

    def _refuse(self, at: Belief) -> Belief:
        """Offer what is to be refused, where that was not tried."""
        while at not in self._refusals_tried:
            self._refusals_tried.add(at)
            for refuse in refusals(self, at):
                then = refuse(at)
                if then != at:  # it went on by itself
                    at = then
                    break
        return at

    # ── Plans ───────────────────────────────────────────────────────────────────────────────

    def _plan(self, at: Belief) -> list[Leg]:
        """A shortest way to an edge that is left to take, that included; empty if there is none."""
        by: dict[int, tuple[int, Leg] | None] = dict.fromkeys(at)
        todo = deque(at)
        while todo:
            state = todo.popleft()
            for leg, arrives in self._legs(state):
                if self._is_wanted(leg.number):
                    return [*_way(by, state), leg]
                if arrives is not None and arrives not in by:
                    by[arrives] = state, leg
                    todo.append(arrives)
        return []

    def _is_wanted(self, edge: int) -> bool:
        return not self.taken[edge] and self.tried.get(edge, 0) < TRIES

    def _legs(self, state: int) -> Iterator[tuple[Leg, int | None]]:
        """The steps from a state, and where the code is expected after each."""
        graph = self.graph
        for number, _, instance, target in graph.leaving(state):
            if graph.silent[instance]:
                arrives = self._went.get((state, None), target)
                yield Leg(None, target, number), arrives
            if graph.given[instance] is not None:
                arrives = self._went.get((state, instance), target)
                yield Leg(instance, target, number), arrives


def _way(by: dict[int, tuple[int, Any] | None], state: int) -> list[Leg]:
    """The steps that lead to a state."""
    found = []
    while (came := by[state]) is not None:
        state, leg = came
        found.append(leg)
    return found[::-1]
