"""
Liveness: what must happen, on the explored graph, if what is fair is not put off for ever.

Two kinds of promise are judged: *eventually* (from every start, the goal holds at some time) and
*leads to* (wherever the premise holds, the goal holds then or later). Actions say how fair they
are (`@action(fair=weak)`, `fair=strong`), and fairness is **per instance**: `grant(client1)` and
`grant(client2)` each have their own. Faults, commands and unmarked actions are never fair: any
state may last for ever unless a fair action is possible in it.

What must not go wrong:

- Renaming is not used (symmetry): client1 being served would count as client2 being served. Asked
  for, it is refused.
- A graph that was cut (memory, or a successor beyond the bound of naturals) has behaviours that
  were not seen: every promise is then undecided, and never "holds".
- A counterexample is a path and a cycle (a *lasso*); it is replayed in the plain Python, promise
  and fairness included, before it is told.

The graph's edges are kept, and searching it takes room too: see `BYTES_PER_EDGE`. What would need
more than `memory_bytes` is undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from herdspec.check.exploration import EVERY_VALUE_IS_DEFINED, Progress, Story
from herdspec.check.explore import CHUNK, MEMORY_BYTES, Explorer
from herdspec.check.fair import Demands, Flags, Graph, Lasso, lasso
from herdspec.check.run import Step, said, written
from herdspec.engine.columns import Columns
from herdspec.engine.ground import Ground, Instance
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import Promise, Specification
from herdspec.language.surface import Expectation, Fairness, Spec
from herdspec.language.types import SortOf
from herdspec.language.values import decode

LIVE = (Expectation.EVENTUALLY, Expectation.LEADS_TO)
"""The expectations that are judged here, and by no other reading."""
BYTES_PER_EDGE = 60
"""At most so much is needed while checking, for the graph and its components (measured: 45)."""
FOR_EVER = "     and now for ever:"
NOTHING_MORE = "     nothing more happens"


@dataclass(frozen=True)
class Endless(Story):
    """A path whose steps from number `back` on recur for ever; if none are left, it rests there."""

    back: int
    possible: tuple[str, ...] = ()
    """Where it rests: the steps that could be taken there, none of them fair."""
    about: str = ""
    """Which elements the promise is broken for: `c = client1`."""

    @property
    def cycle(self) -> list[Step]:
        """The steps that recur."""
        return self.steps[self.back :]

    @property
    def lines(self) -> list[str]:
        """The path as numbered sentences, with the place from which it recurs."""
        lines = super().lines
        split = len(Story(self.initial, self.steps[: self.back]).lines)
        about = [f"     for {self.about}:"] if self.about else []
        return [*about, *lines[:split], FOR_EVER if self.cycle else self._rest(), *lines[split:]]

    def _rest(self) -> str:
        if not self.possible:
            return f"{NOTHING_MORE}: no step is possible"
        more = f" and {len(self.possible) - 3} more" if len(self.possible) > 3 else ""
        return f"{NOTHING_MORE}: {', '.join(self.possible[:3])}{more} need never happen"


@dataclass
class Liveness:
    """What was found of each promise of liveness: it fails, is undecided (why), or holds."""

    spec: Specification
    sizes: Mapping[str, int]
    faults: int
    bound: int
    memory_bytes: int
    needed_bytes: int = 0
    states: int = 0
    edges: int = 0
    violations: dict[str, Endless] = field(default_factory=dict)
    undecided: dict[str, str] = field(default_factory=dict)
    vacuous: list[str] = field(default_factory=list)
    """Promises that hold because nothing ever has their premise."""

    @property
    def promised(self) -> list[str]:
        """The names of what was judged."""
        return [p.name for p in live(self.spec)]

    @property
    def held(self) -> list[str]:
        """The names of the promises that hold in every fair behaviour of this size."""
        return [n for n in self.promised if n not in self.violations and n not in self.undecided]

    @property
    def measured(self) -> str:
        """The graph in one line: what was looked at, and the memory that it takes of the cap."""
        need, cap = (f"{n / (1 << 20):,.0f} MiB" for n in (self.needed_bytes, self.memory_bytes))
        return f"{self.states:,} states, {self.edges:,} steps, about {need} of {cap}"

    @property
    def fairness(self) -> str:
        """What was taken to be fair, as verdicts say it."""
        kinds = {f: [a.name for a in self.spec.actions if a.fair is f] for f in Fairness}
        told = [f"{f.value} fairness of {', '.join(names)}" for f, names in kinds.items() if names]
        each = ", for each choice of parameters by itself"
        return f"under {' and '.join(told)}{each}" if told else "nothing is fair"


def live(spec: Specification) -> list[Promise]:
    """A spec's promises of liveness."""
    return [p for p in spec.properties if p.expectation in LIVE]


def liveness(
    spec: Specification,
    sizes: Mapping[str, int],
    *,
    faults: int,
    bound: int | None = None,
    symmetry: bool | None = None,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress | None = None,
) -> Liveness:
    """
    Judge each `eventually` and `leads_to` of a spec under its fairness, at these sizes.

    `faults` is the budget of what disturbs, `bound` the largest natural (by default one more).
    Raises `UsageError` if there is nothing to judge, or if symmetry is asked for.
    """
    if symmetry:
        why = "it takes elements for one another, and fairness is owed to each of them"
        raise UsageError(f"liveness is never checked up to renaming ({why}): leave symmetry out")
    if not live(spec):
        advice = "write one with @eventually or @leads_to"
        raise UsageError(f"{spec.name} has no promise of liveness: {advice}")
    return Checker(spec, sizes, faults, bound, memory_bytes).run(progress)


class Checker:
    """One exploration, and the promises judged on its graph."""

    graph: Graph
    demands: Demands

    def __init__(
        self, spec: Specification, sizes: Mapping[str, int], faults: int, bound: int | None,
        memory_bytes: int,
    ) -> None:  # fmt: skip
        axioms = tuple(p for p in spec.properties if p.expectation is Expectation.AXIOM)
        bare = replace(spec, properties=axioms)  # safety is judged elsewhere, up to renaming
        self.explorer = Explorer(
            bare, sizes, faults, bound=bound, symmetry=False, memory_bytes=memory_bytes
        )
        self.explorer.keeps_edges = True
        self.machine = self.explorer.machine
        self.instances = self.explorer.ground.instances
        self.ground = Ground(spec, dict(sizes), self.explorer.ground.bound, faults)
        self.initial = 0
        self.result = Liveness(spec, sizes, faults, self.ground.bound, memory_bytes)

    def run(self, progress: Progress | None = None) -> Liveness:
        """Explore, then judge each promise."""
        found = self.explorer.run(progress)
        self.result.states, self.result.edges = found.states, found.generated
        self.result.needed_bytes = self.explorer.bytes() + BYTES_PER_EDGE * found.generated
        if cut := self.cut():
            self.result.undecided = dict.fromkeys(self.result.promised, cut)
            return self.result
        self.demands = demands(self.instances)
        self.prepare()
        for promise in live(self.result.spec):
            self.check(promise)
        return self.result

    def cut(self) -> str:
        """Why nothing can be said of the graph, if so."""
        found = self.explorer.result
        if found.truncated:
            return "cut short at the memory budget"
        if found.dropped:
            return f"cut at bound: {found.dropped:,} successors were dropped"
        if EVERY_VALUE_IS_DEFINED in found.violations:
            story = found.violations[EVERY_VALUE_IS_DEFINED]
            return f"{story.labels[-1]} looks at a value that is not there"
        if self.result.needed_bytes > self.result.memory_bytes:
            need, cap = self.result.needed_bytes / (1 << 30), self.result.memory_bytes / (1 << 30)
            return f"the graph needs about {need:.1f} GiB to check, the cap is {cap:.1f} GiB"
        return ""

    def prepare(self) -> None:
        """Sort the edges, and count the initial states (they have the first numbers)."""
        edges = self.explorer.edges
        assert edges is not None, "edges were kept"
        self.graph = Graph.of(self.result.states, edges.source, edges.instance, edges.target)
        self.explorer.edges = None  # the graph has them
        self.initial = self.explorer.levels[0]

    def check(self, promise: Promise) -> None:
        """Judge a promise, for each choice of its parameters, up to one for which it fails."""
        starts = np.arange(self.initial)
        meant = False
        for arguments, premise, goal in self.ground.cases(promise):
            if is_renamed(promise, arguments):
                continue  # as good as an earlier one: the whole graph is renamed with it
            given, wanted = self.truth(premise), self.truth(goal)
            if promise.expectation is Expectation.EVENTUALLY:
                given[len(starts) :] = False
            meant |= bool(given.any())
            found = lasso(self.graph, self.demands, starts, given, wanted)
            if found is not None:
                self.result.violations[promise.name] = self.told(promise, arguments, found)
                return
        if not meant:
            self.result.vacuous.append(promise.name)

    def truth(self, formula: Expr) -> Flags:
        """In which states a formula over slots holds."""
        rows = self.explorer.rows
        found = np.zeros(len(rows), bool)
        for low in range(0, len(rows), CHUNK):
            part = Columns(self.explorer.packing, rows[low : low + CHUNK])
            found[low : low + CHUNK] = part.of(formula)
        return found

    # ── The counterexample, told ────────────────────────────────────────────────────────────

    def told(self, promise: Promise, chosen: Sequence[Any], found: Lasso) -> Endless:
        """A lasso, replayed in the plain Python, with what it is a counterexample to."""
        row = self.explorer.rows[found.start]
        initial = self.explorer.teller.start(tuple(row.tolist()))
        steps = self.replay(initial, [*found.stem, *found.cycle])
        kinds = [p.kind for _, p in promise.parameters]
        arguments = [
            decode(kind, n, self.machine.sorts)  # type: ignore[arg-type]
            for kind, n in zip(kinds, chosen, strict=True)
        ]
        names = [name for name, _ in promise.parameters]
        about = ", ".join(f"{n} = {said(a)}" for n, a in zip(names, arguments, strict=True))
        story = Endless(initial, steps, len(found.stem), self.possible(found), about)
        self.confirm(promise, arguments, story)
        return story

    def replay(self, initial: Spec, edges: list[int]) -> list[Step]:
        """The steps of the plain Python along these edges, each to the state that was explored."""
        steps: list[Step] = []
        state, faults = initial, 0
        for edge in edges:
            instance = self.instances[self.graph.instance[edge]]
            arguments = self.machine.arguments(instance.action, instance.arguments)
            after = self.machine.take(state, instance.action.name, arguments)
            faults += instance.action.disturbs
            assert after is not None, "run and liveness disagree: the step is not possible"
            explored = self.explorer.rows[self.graph.target[edge]]
            same = np.array_equal(self.explorer.row(after, faults)[0], explored)
            assert same, "run and liveness disagree: the step leads elsewhere"
            steps.append(Step(instance.action, arguments, after))
            state = after
        return steps

    def possible(self, found: Lasso) -> tuple[str, ...]:
        """The steps that are possible where a lasso rests."""
        if found.cycle:
            return ()
        rest = int(self.graph.target[found.stem[-1]]) if found.stem else found.start
        return tuple(self.label(i) for i in sorted(self.graph.possible(rest)))

    def label(self, number: int) -> str:
        """An instance, as a call."""
        instance = self.instances[number]
        arguments = self.machine.arguments(instance.action, instance.arguments)
        return f"{instance.action.name}({', '.join(map(written, arguments))})"

    def confirm(self, promise: Promise, arguments: list[Any], story: Endless) -> None:
        """Judge a story by the plain Python alone: what it shows must be so, and be fair."""
        states = [story.initial, *(step.state for step in story.steps)]
        said_so = [self.machine.evaluated(promise, state, *arguments) for state in states]
        if promise.expectation is Expectation.EVENTUALLY:
            given, wanted = [True, *(False for _ in story.steps)], [bool(x) for x in said_so]
        else:
            given, wanted = [bool(x and x[0]) for x in said_so], [bool(x and x[1]) for x in said_so]
        after = max((k + 1 for k, reached in enumerate(wanted) if reached), default=0)
        assert any(given[after:]), "run and liveness disagree about a premise or a goal"
        assert states[story.back] == states[-1], "what recurs ends where it began"
        self.confirm_fairness(states[story.back :], story)

    def confirm_fairness(self, recurring: list[Spec], story: Endless) -> None:
        """No demand is put off for ever by what recurs."""
        taken = {step.label for step in story.cycle}
        spent = sum(step.action.disturbs for step in story.steps) >= self.result.faults
        for number, instance in enumerate(self.instances):
            if instance.action.fair is None or self.label(number) in taken:
                continue
            arguments = self.machine.arguments(instance.action, instance.arguments)
            enabled = [
                self.machine.take(state, instance.action.name, arguments) is not None
                and not (instance.action.disturbs and spent)
                for state in recurring
            ]
            put_off = all if instance.action.fair is Fairness.WEAK else any
            assert not put_off(enabled), "run and liveness disagree about fairness"


def is_renamed(promise: Promise, chosen: Sequence[Any]) -> bool:
    """
    Whether other names for elements make an earlier choice of this one.

    The elements of a sort differ in nothing, so renaming maps fair behaviours to fair behaviours,
    and what holds for the one choice holds for the other. (No states are merged by it.)
    """
    known: dict[str, list[int]] = {}
    for (_, parameter), n in zip(promise.parameters, chosen, strict=True):
        if isinstance(parameter.kind, SortOf):
            seen = known.setdefault(parameter.kind.name, [])
            if n not in seen:
                if n > len(seen):
                    return True
                seen.append(n)
    return False


def demands(instances: Sequence[Instance]) -> Demands:
    """What the marks of the actions demand of their instances."""
    marks = [i.action.fair for i in instances]
    weak = np.array([m is Fairness.WEAK for m in marks], bool)
    return Demands(weak, np.array([m is Fairness.STRONG for m in marks], bool))
