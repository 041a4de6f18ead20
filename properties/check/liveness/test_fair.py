"""
Fairness on graphs: the verdict is that of an oracle, and every lasso is what it claims to be.

The algorithm on arrays is held against `fair_worlds.World`, which tries every set of states; the
reading of random specs against the same oracle over what the plain Python does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from herdspec import Specification, from_source
from herdspec.check.liveness.fair import Demands, Graph, Lasso, lasso
from herdspec.check.liveness.liveness import liveness
from herdspec.check.running.run import Machine
from herdspec.engine.ground import Ground
from herdspec.language.specification import DeclaredProperty
from herdspec.language.surface import Expectation, Fairness
from herdspec.language.types import EnumOf
from properties.check.liveness.fair_worlds import Case, World, cases

# ── Graphs ──────────────────────────────────────────────────────────────────────────────────


def judged(case: Case, seed: int) -> tuple[Lasso | None, Graph]:
    """What the algorithm says of a case, its edges given in some order."""
    steps = enumerate(case.world.steps)
    edges = np.array([(s, i, t) for s, row in steps for i, t in row.items()], int).reshape(-1, 3)
    edges = np.random.default_rng(seed).permutation(edges)
    graph = Graph.of(len(case.world.steps), edges[:, 0], edges[:, 1], edges[:, 2])
    starts = np.array(sorted(case.world.starts))
    premise, goal = (flags(x, graph.states) for x in (case.premise, case.goal))
    again = None if case.again is None else flags(case.again, graph.states)
    return lasso(graph, demanded(case.world, graph), starts, premise, goal, again), graph


def demanded(world: World, graph: Graph) -> Demands:
    """The demands of a world, in the form in which the algorithm takes them."""
    single = [(frozenset({i}), True) for i in sorted(world.weak)]
    single += [(frozenset({i}), False) for i in sorted(world.strong)]
    several = [(a, True) for a in world.weak_any] + [(a, False) for a in world.strong_any]
    meets = np.full(len(graph.source), -1, np.int32)
    for number, (instances, _) in enumerate(single + several):
        counts = np.isin(graph.instance, list(instances))
        counts &= (number < len(single)) | (graph.source != graph.target)
        meets[counts] = number
    return Demands(np.array([weak for _, weak in single + several], bool), meets)


def flags(true: frozenset[int], size: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A set of numbers as truths."""
    found = np.zeros(size, bool)
    found[list(true)] = True
    return found


@settings(max_examples=400)
@given(cases(), st.integers(0, 99))
def test_a_promise_fails_just_where_a_fair_behaviour_breaks_it(case: Case, seed: int) -> None:
    """On random graphs the verdict is that of an oracle that tries every set of states."""
    found, _ = judged(case, seed)

    assert (found is not None) == case.world.breaks(set(case.premise), set(case.goal), case.again)


@settings(max_examples=400)
@given(cases(states=12, instances=5), st.integers(0, 99))
def test_every_lasso_is_a_fair_behaviour_that_breaks_the_promise(case: Case, seed: int) -> None:
    """A counterexample starts, goes on, breaks the promise, recurs, and meets every demand."""
    found, graph = judged(case, seed)

    assert found is None or case.world.is_counterexample(
        found, graph, set(case.premise), set(case.goal), case.again
    )


@settings(max_examples=200)
@given(cases(), st.integers(0, 99))
def test_the_order_of_the_edges_changes_no_lasso(case: Case, seed: int) -> None:
    """The same graph tells the same story, in whatever order an engine found its edges."""
    one, graph = judged(case, seed)
    other, same = judged(case, seed + 1)

    assert one == other
    assert (graph.target == same.target).all()


@settings(max_examples=200)
@given(cases(), st.integers(0, 99))
def test_no_lasso_is_longer_than_a_shortest_way_to_rest(case: Case, seed: int) -> None:
    """Where a behaviour can break the promise by resting, no longer story is told than that."""
    found, _ = judged(case, seed)
    rest = shortest_to_rest(case)

    assert rest is None or (found is not None and len(found) <= rest)
    assert found is None or found.cycle or len(found.stem) == rest


def test_of_two_ways_the_first_instance_is_told() -> None:
    """Where two instances lead to one state, the story takes the first, as explored stories do."""
    world = World(({0: 1, 1: 1}, {}), frozenset(), frozenset(), frozenset({0}))
    case = Case(world, 2, premise=frozenset({1}), goal=frozenset())

    found, graph = judged(case, seed=0)

    assert found is not None
    assert [int(graph.instance[edge]) for edge in found.stem] == [0]


def shortest_to_rest(case: Case) -> int | None:
    """The length of a shortest path over the premise to where nothing fair is possible, if any."""
    world = case.world
    fair, whole = world.weak | world.strong, frozenset().union(*world.weak_any, *world.strong_any)
    todo = deque((s, s in case.premise and s not in case.goal, 0) for s in case.world.starts)
    seen = {(s, due) for s, due, _ in todo}
    while todo:
        state, due, length = todo.popleft()
        owed = any(i in fair or (i in whole and t != state) for i, t in world.steps[state].items())
        if due and not owed and (case.again is None or state in case.again):
            return length
        for after in case.world.steps[state].values():
            node = (after, (due or after in case.premise) and after not in case.goal)
            if node not in seen:
                seen.add(node)
                todo.append((*node, length + 1))
    return None


# ── The reading of specs, against the plain Python ──────────────────────────────────────────

HEADER = '''
from enum import Enum
from herdspec import *

class At(Enum):
    A = "a"
    B = "b"
    C = "c"

class Random(Spec):
    """A random walk with a lamp."""
    at: At = At.A
    lamp: bool = False
    start_lit: bool = False
'''
WALKERS = '''
from herdspec import *

class Walker(Sort):
    """A walker."""

class Random(Spec):
    """Walkers with lamps, one of them ahead."""
    lit: dict[Walker, bool] = each(False)
    ahead: Walker | None = None

    @action{marks[0]}
    def lead(self, a: Walker) -> None:
        """{{a}} goes ahead."""
        require({guards[0]} and self.ahead != a)
        self.ahead = a

    @action{marks[1]}
    def switch(self, a: Walker) -> None:
        """{{a}} switches its lamp."""
        require({guards[1]})
        self.lit[a] = {value}

    @action{marks[2]}
    def rest(self) -> None:
        """Nobody is ahead."""
        require(self.ahead is not None)
        self.ahead = None

@leads_to
def follows(s: Random, a: Walker, b: Walker) -> tuple[bool, bool]:
    """The one leads to the other."""
    return {facts[0]}, {facts[1]}
'''
PROMISES = '''
@eventually
def comes(s: Random) -> bool:
    """It comes to this."""
    return {0}

@eventually_always
def stays(s: Random) -> bool:
    """It comes to this for ever."""
    return {0}

@leads_to
def follows(s: Random, x: At) -> tuple[bool, bool]:
    """The one leads to the other, wherever it is."""
    return {1}, {2}
'''
MARK = st.sampled_from(["", "(fair=weak)", "(fair=strong)", "(fair=weak.any)", "(fair=strong.any)"])
PLACES = st.sampled_from(["At.A", "At.B", "At.C"])
FACTS = st.one_of(
    st.builds("s.at == {}".format, PLACES),
    st.builds("(s.lamp and s.at != {})".format, PLACES),
    st.builds("(s.at == x or {}s.lamp)".format, st.sampled_from(["", "not "])),
    st.sampled_from(["s.lamp", "not s.lamp", "s.at == x", "s.at != x", "s.lamp == s.start_lit"]),
)
ACTION = '''
    @action{mark}
    def act{number}(self, x: At, lit: bool) -> None:
        """It moves."""
        require({guard})
        self.at = {place}
        self.lamp = {lamp}
'''


@st.composite
def sources(draw: st.DrawFn) -> str:
    """A spec with a few marked actions, one or two starts, and two promises."""
    text = HEADER
    if draw(st.booleans()):
        start = (
            '    @initial\n    def lit(self, lit: bool) -> None:\n        """It may be lit."""\n'
        )
        text += f"{start}        self.lamp = lit\n        self.start_lit = lit\n"
    guards = st.sampled_from([
        "self.at != x", "self.at == x", "self.lamp == lit", "self.lamp and self.at == x",
        "lit and self.at == x", "lit and x == At.B", "lit and self.at == At.C and x == At.A",
    ])  # fmt: skip
    for number in range(draw(st.integers(1, 3))):
        text += ACTION.format(
            number=number,
            mark=draw(MARK),
            guard=f"{draw(guards)} and {draw(guards)}",
            place=draw(st.one_of(st.just("x"), st.just("self.at"), PLACES)),
            lamp=draw(st.sampled_from(["lit", "self.lamp", "not self.lamp", "True", "False"])),
        )
    plain = FACTS.filter(lambda fact: "x" not in fact)
    return text + PROMISES.format(draw(plain), draw(FACTS), draw(FACTS))


@st.composite
def walkers(draw: st.DrawFn) -> str:
    """A spec of two elements of a sort, and a promise about two of them."""
    guards = ["self.lit[a]", "not self.lit[a]", "self.ahead == a", "self.ahead is None", "True"]
    guards += ["any(self.lit[b] for b in Walker)", "all(not self.lit[b] for b in Walker)"]
    facts = ["s.lit[a]", "not s.lit[b]", "s.ahead == a", "s.ahead == b", "(s.lit[a] and s.lit[b])"]
    return WALKERS.format(
        marks=[draw(MARK) for _ in range(3)],
        guards=[draw(st.sampled_from(guards)) for _ in range(2)],
        value=draw(st.sampled_from(["not self.lit[a]", "True", "self.ahead == a"])),
        facts=[draw(st.sampled_from(facts)) for _ in range(2)],
    )


def judged_in_python(spec: Specification) -> Iterator[tuple[str, bool]]:
    """Whether each promise fails, for each choice of elements, over the plain Python's graph."""
    machine = Machine(Ground(spec, dict.fromkeys(spec.sorts, 2), 1, 0))
    states = [*machine.starts()]
    starts = frozenset(states.index(s) for s in states)
    steps: list[dict[Any, int]] = []
    for state in states:  # grows while it is walked
        row = {}
        for taken in machine.steps(state):
            if taken.state not in states:
                states.append(taken.state)
            row[taken.label] = states.index(taken.state)
        steps.append(row)
    labels = {label for row in steps for label in row}
    fair: dict[Fairness, list[frozenset[Any]]] = {f: [] for f in Fairness}
    for action in spec.actions:
        if action.fair:
            mine = frozenset(x for x in labels if x.split("(")[0] == action.name)
            fair[action.fair].append(mine)
    each = [frozenset().union(*fair[f]) for f in (Fairness.WEAK, Fairness.STRONG)]
    whole = [tuple(fair[f]) for f in (Fairness.WEAK_ANY, Fairness.STRONG_ANY)]
    world = World(tuple(steps), each[0], each[1], starts, whole[0], whole[1])
    for promise in spec.properties:
        if promise.expectation is not Expectation.LEADS_TO:
            goal = {k for k, s in enumerate(states) if machine.evaluated(promise, s)}
            again = None
            if promise.expectation is Expectation.EVENTUALLY_ALWAYS:
                goal, again = set(), frozenset(range(len(states))) - goal
            yield promise.name, world.breaks(set(starts), goal, again)
            continue
        for chosen in elements(spec, promise, machine):
            said = [machine.evaluated(promise, s, *chosen) for s in states]
            premise, goal = ({k for k, x in enumerate(said) if x[n]} for n in (0, 1))
            yield promise.name, world.breaks(premise, goal)


def elements(
    spec: Specification, promise: DeclaredProperty, machine: Machine
) -> Iterator[tuple[Any, ...]]:
    """All choices of a promise's parameters, as plain values."""
    kinds = [p.kind for _, p in promise.parameters]
    plain = [
        [*kind.members] if isinstance(kind, EnumOf) else machine.elements(spec.sorts[0])
        for kind in kinds
    ]
    return product(*plain)


@settings(max_examples=30)
@given(walkers())
def test_promises_about_elements_are_judged_for_all_of_them(text: str) -> None:
    """What is judged for some elements, the others being renamed, is so for every choice."""
    spec = from_source(text, "Random")

    found = liveness(spec, {"Walker": 2}, faults=0)

    broken = any(fails for _, fails in judged_in_python(spec))
    assert bool(found.violations) == broken


@settings(max_examples=100)
@given(sources())
def test_random_specs_are_judged_as_their_plain_python_behaves(text: str) -> None:
    """Explored, lowered and replayed, a spec's promises fail just where the Python breaks them."""
    spec = from_source(text, "Random")

    found = liveness(spec, {}, faults=0)

    broken = {name for name, fails in judged_in_python(spec) if fails}
    assert set(found.violations) == broken
    assert not found.undecided
