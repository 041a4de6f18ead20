"""
Small graphs with demands of fairness, and what plain Python says of them.

The oracle of liveness: it tries every set of states that a behaviour could stay in for ever. It is
slow, and shares nothing with the algorithm that it judges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from hypothesis import strategies as st

from herdspec.check.liveness.fair import Graph, Lasso
from herdspec.language.surface import Fairness

MARKS = [None, Fairness.WEAK, Fairness.STRONG, *Fairness]
"""The marks that random instances get."""


@dataclass(frozen=True)
class World:
    """
    A small graph in plain Python: for each state its steps, as instance → next state.

    `weak` and `strong` demand an instance; `weak_any` and `strong_any` a set of them, of which
    steps that change nothing do not count.
    """

    steps: tuple[dict[Any, int], ...]
    weak: frozenset[Any]
    strong: frozenset[Any]
    starts: frozenset[int]
    weak_any: tuple[frozenset[Any], ...] = ()
    strong_any: tuple[frozenset[Any], ...] = ()

    def reached(self, roots: set[int], within: set[int]) -> set[int]:
        """All states that can be reached inside a set."""
        found, todo = set(roots), list(roots)
        while todo:
            new = (set(self.steps[todo.pop()].values()) & within) - found
            found |= new
            todo += new
        return found

    def can_stay_in(self, states: set[int]) -> bool:
        """Whether a fair behaviour can go on for ever and be in each of these again and again."""
        if any(self.reached({s}, states) != states for s in states):
            return False
        taken = {i for s in states for i, t in self.steps[s].items() if t in states}
        possible = [set(self.steps[s]) for s in states]
        put_off = self.weak.intersection(*possible) | (self.strong & set().union(*possible))
        moving = {i for s in states for i, t in self.steps[s].items() if t in states and t != s}
        return put_off <= taken and self.owes_none_of_any(states, moving)

    def owes_none_of_any(self, states: set[int], taken: set[Any]) -> bool:
        """Whether no set of instances is put off by who comes to these states and takes those."""
        moving = [{i for i, t in self.steps[s].items() if t != s} for s in states]
        owed = [a for a in self.weak_any if all(a & here for here in moving)]
        owed += [a for a in self.strong_any if any(a & here for here in moving)]
        return all(a & taken for a in owed)

    def breaks(
        self, premise: set[int], goal: set[int], again: frozenset[int] | None = None
    ) -> bool:
        """
        Whether a fair behaviour has the premise, and at no time from then on the goal.

        It is to come to one of the states `again` and again (by default: of all).
        """
        open_states = set(range(len(self.steps))) - goal
        alive = self.reached(premise & open_states, open_states)
        return any(
            (again is None or again & set(states)) and self.can_stay_in(set(states))
            for size in range(1, len(alive) + 1)
            for states in combinations(sorted(alive), size)
        )

    def is_counterexample(
        self, found: Lasso, edges: Graph, premise: set[int], goal: set[int],
        again: frozenset[int] | None = None,
    ) -> bool:  # fmt: skip
        """Whether a lasso is a path, breaks the promise, recurs, and is fair: word by word."""
        walk = [found.start]
        for edge in (*found.stem, *found.cycle):
            assert edges.source[edge] == walk[-1], "the path is connected"
            walk.append(self.steps[walk[-1]][int(edges.instance[edge])])
            assert walk[-1] == edges.target[edge], "the path is one of this graph"
        ring = walk[len(found.stem) :]
        last = max((k for k, s in enumerate(walk) if s in goal), default=-1)
        put_off = self.weak.intersection(*(self.steps[s] for s in ring))
        put_off |= self.strong & {i for s in ring for i in self.steps[s]}
        steps = zip(found.cycle, ring, ring[1:], strict=False)
        moving = {int(edges.instance[e]) for e, s, t in steps if s != t}
        return (
            found.start in self.starts
            and ring[0] == ring[-1]
            and any(s in premise for s in walk[last + 1 :])
            and put_off <= {int(edges.instance[e]) for e in found.cycle}
            and self.owes_none_of_any(set(ring), moving)
            and (again is None or ring[0] in again)
        )


@dataclass(frozen=True)
class Case:
    """A world with all its states reachable, and a promise."""

    world: World
    instances: int
    premise: frozenset[int]
    goal: frozenset[int]
    again: frozenset[int] | None = None


@st.composite
def cases(draw: st.DrawFn, states: int = 7, instances: int = 4) -> Case:
    """A random graph (few edges or many), demands, a premise and a goal."""
    count, kinds = draw(st.integers(1, states)), draw(st.integers(0, instances))
    target = st.none() | st.integers(0, count - 1)
    table = [{i: t for i in range(kinds) if (t := draw(target)) is not None} for _ in range(count)]
    marks = [draw(st.sampled_from(MARKS)) for _ in range(kinds)]
    together = [draw(st.integers(0, 1)) for _ in range(kinds)]  # whose choices instances are
    starts = draw(st.frozensets(st.integers(0, count - 1), min_size=1, max_size=2))
    world = World(
        tuple(table),
        frozenset(i for i, m in enumerate(marks) if m is Fairness.WEAK),
        frozenset(i for i, m in enumerate(marks) if m is Fairness.STRONG),
        starts,
        *(sets_of(mark, marks, together) for mark in (Fairness.WEAK_ANY, Fairness.STRONG_ANY)),
    )
    known = sorted(world.reached(set(starts), set(range(count))))
    number = {s: k for k, s in enumerate(known)}
    steps = tuple({i: number[t] for i, t in table[s].items()} for s in known)
    renamed = replace(world, steps=steps, starts=frozenset(number[s] for s in starts))
    some = st.frozensets(st.sampled_from(range(len(known))))
    return Case(
        renamed, kinds, draw(some | st.just(renamed.starts)), draw(some), draw(st.none() | some)
    )


def sets_of(
    mark: Fairness, marks: list[Fairness | None], together: list[int]
) -> tuple[frozenset[int], ...]:
    """The instances of this mark, as the choices of two actions."""
    pairs = [*enumerate(zip(marks, together, strict=True))]
    found = [frozenset(i for i, (m, a) in pairs if m is mark and a == action) for action in (0, 1)]
    return tuple(filter(None, found))
