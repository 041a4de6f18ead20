"""
Liveness: what must happen, on the explored graph, if what is fair is not put off for ever.

Three kinds of promise are judged: *eventually* (from every start, the goal holds at some time),
*eventually always* (from some time on, it holds for ever) and *leads to* (wherever the premise
holds, the goal holds then or later). Actions say how fair they are (`@action(fair=weak)`,
`fair=strong`), and fairness is **per instance**: `grant(client1)` and `grant(client2)` each have
their own; but with `fair=weak.any` or `strong.any` it is the action's, whichever the choice (a
part's action: for each part). Faults, commands and unmarked actions are never fair: any state may
last for ever unless a fair action is possible in it.

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

from herdspec.check.exploration.bounds import TIMES, first_bound, raised
from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED, Progress, Story
from herdspec.check.exploration.explore import CHUNK, MEMORY_BYTES, Explorer, is_cut_by_naturals
from herdspec.check.liveness.fair import Demands, Flags, Graph, Lasso, lasso
from herdspec.check.running.run import Step, said, written
from herdspec.check.running.starts import initially
from herdspec.engine.columns import Columns
from herdspec.engine.ground import Ground, GroundAction
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import LIVE, Expectation, Fairness, Spec
from herdspec.language.types import SortOf
from herdspec.language.values import decode

JUDGED = (
    *LIVE, Expectation.ALWAYS, Expectation.STEP, Expectation.SOMETIMES, Expectation.RECOVERABLE,
)  # fmt: skip
"""Expectations of properties that may be demanded; the others say which states there are."""
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
        stem = Story(self.initial, self.steps[: self.back], initially=self.initially)
        split = len(stem.lines)
        about = [f"     for {self.about}:"] if self.about else []
        return [*about, *lines[:split], FOR_EVER if self.cycle else self._rest(), *lines[split:]]

    def _rest(self) -> str:
        if not self.possible:
            return f"{NOTHING_MORE}: no step is possible"
        more = f" and {len(self.possible) - 3} more" if len(self.possible) > 3 else ""
        return f"{NOTHING_MORE}: {', '.join(self.possible[:3])}{more} need never happen"


@dataclass
class Liveness:
    """The finding on each promise of liveness: it fails, is undecided (why), or holds."""

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
        """The names of the promises that hold in every fair behaviour of this size, for a cause."""
        others = {*self.violations, *self.undecided, *self.vacuous}
        return [n for n in self.promised if n not in others]

    @property
    def measured(self) -> str:
        """The graph in one line: what was looked at, and the memory that it takes of the cap."""
        need, cap = (f"{n / (1 << 20):,.0f} MiB" for n in (self.needed_bytes, self.memory_bytes))
        return f"{self.states:,} states, {self.edges:,} steps, about {need} of {cap}"

    @property
    def fairness(self) -> str:
        """The fairness that was assumed, as verdicts say it."""
        each = self._fair("for each choice of parameters by itself", of_any=False)
        whole = self._fair("for any choice of parameters", of_any=True)
        return f"under {'; '.join([*each, *whole])}" if each or whole else "nothing is fair"

    def _fair(self, owed: str, *, of_any: bool) -> list[str]:
        """Which actions are fair to each choice, or to any; nothing where none is."""
        told = []
        for fair in (Fairness.WEAK, Fairness.STRONG):
            mark = fair.any if of_any else fair
            if names := [a.name for a in self.spec.actions if a.fair is mark]:
                told.append(f"{fair.value} fairness of {', '.join(names)}")
        return [f"{' and '.join(told)}, {owed}"] if told else []


def live(spec: Specification) -> list[DeclaredProperty]:
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
    Judge each promise of liveness of a spec under its fairness, at these sizes.

    `faults` is the budget of what disturbs, `bound` the largest natural (by default raised as far
    as need be, as an exploration raises it). Raises `UsageError` if there is nothing to judge, or
    if symmetry is asked for.
    """
    if symmetry:
        why = "it takes elements for one another, and fairness is owed to each of them"
        raise UsageError(f"liveness is never checked up to renaming ({why}): leave symmetry out")
    if not live(spec):
        advice = "write one with @eventually or @leads_to (or @eventually_always)"
        raise UsageError(f"{spec.name} has no promise of liveness: {advice}")

    def attempt(bound: int, seconds: float | None) -> Checker | None:
        checker = Checker(spec, sizes, faults, bound, memory_bytes, seconds)
        checker.explorer.run(progress)
        return None if checker.explorer.out_of_time else checker

    first = first_bound(spec, faults) if bound is None else bound
    times = TIMES if bound is None else 0
    checker, _ = raised(first, attempt, lambda c: is_cut_by_naturals(c.explorer.result), times)
    return checker.judged()


class Checker:
    """One exploration, and the promises judged on its graph."""

    graph: Graph
    demands: Demands

    def __init__(
        self, spec: Specification, sizes: Mapping[str, int], faults: int, bound: int,
        memory_bytes: int, seconds: float | None = None,
    ) -> None:  # fmt: skip
        # Safety is judged elsewhere, up to renaming; what bounds the graph bounds this one, too.
        assumed = tuple(p for p in spec.properties if p.expectation not in JUDGED)
        bare = replace(spec, properties=assumed)
        self.explorer = Explorer(
            bare, sizes, faults, bound=bound, symmetry=False, memory_bytes=memory_bytes,
            seconds=seconds,
        )  # fmt: skip
        self.explorer.keeps_edges = True
        self.machine = self.explorer.machine
        self.instances = self.explorer.ground.instances
        self.ground = Ground(spec, dict(sizes), self.explorer.ground.bound, faults)
        self.initial = 0
        self.result = Liveness(spec, sizes, faults, self.ground.bound, memory_bytes)

    def judged(self) -> Liveness:
        """Judge each promise on what was explored."""
        found = self.explorer.result
        self.result.states, self.result.edges = found.states, found.generated
        self.result.needed_bytes = self.explorer.bytes() + BYTES_PER_EDGE * found.generated
        if cut := self.cut():
            self.result.undecided = dict.fromkeys(self.result.promised, cut)
            return self.result
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
        if found.constrained:
            return f"cut at the constraint {found.constraint}: behaviours go on beyond it"
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
        self.demands = demands(self.instances, self.graph)
        self.initial = self.explorer.levels[0]

    def check(self, promise: DeclaredProperty) -> None:
        """Judge a promise, for each choice of its parameters, up to one for which it fails."""
        starts = np.arange(self.initial)
        meant = False
        for arguments, premise, goal in self.ground.cases(promise):
            if is_renamed(promise, arguments):
                continue  # as good as an earlier one: the whole graph is renamed with it
            given, wanted, again = self.truth(premise), self.truth(goal), None
            if promise.expectation is not Expectation.LEADS_TO:
                given[len(starts) :] = False
            if promise.expectation is Expectation.EVENTUALLY_ALWAYS:
                wanted, again = np.zeros(len(wanted), bool), ~wanted
            meant |= bool(given.any())
            found = lasso(self.graph, self.demands, starts, given, wanted, again)
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

    def told(self, promise: DeclaredProperty, chosen: Sequence[Any], found: Lasso) -> Endless:
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
        story = Endless(
            initial, steps, len(found.stem), self.possible(found), about,
            initially=initially(self.machine, initial),
        )  # fmt: skip
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

    def confirm(self, promise: DeclaredProperty, arguments: list[Any], story: Endless) -> None:
        """Judge a story by the plain Python alone: what it shows must be so, and be fair."""
        states = [story.initial, *(step.state for step in story.steps)]
        said_so = [self.machine.evaluated(promise, state, *arguments) for state in states]
        match promise.expectation:
            case Expectation.EVENTUALLY:
                broken = not any(said_so)
            case Expectation.EVENTUALLY_ALWAYS:
                broken = not all(said_so[story.back :])
            case _:
                reached = [k + 1 for k, x in enumerate(said_so) if x and x[1]]
                due = [k for k, x in enumerate(said_so) if x and x[0]]
                broken = bool(due) and due[-1] >= max(reached, default=0)
        assert broken, "run and liveness disagree about a premise or a goal"
        assert states[story.back] == states[-1], "what recurs ends where it began"
        self.confirm_fairness(states[story.back :], story)

    def confirm_fairness(self, recurring: list[Spec], story: Endless) -> None:
        """No demand is put off for ever by what recurs."""
        spent = sum(step.action.disturbs for step in story.steps) >= self.result.faults
        owed: dict[object, list[GroundAction]] = {}
        for instance in self.instances:
            if instance.action.fair is not None:
                owed.setdefault(instance.owed_to, []).append(instance)
        for several in owed.values():
            action, idle = several[0].action, several[0].action.disturbs and spent
            possible = [[] if idle else self.ways(several, state) for state in recurring]
            taken = [
                (step.label, step.state) in before
                for before, step in zip(possible, story.cycle, strict=False)
                if step.action.name == action.name
            ]
            assert action.fair is not None, "only what is fair is owed anything"
            put_off = any if action.fair.is_strong else all
            assert any(taken) or not put_off(possible), "run and liveness disagree about fairness"

    def ways(self, several: list[GroundAction], state: Spec) -> list[tuple[str, Spec]]:
        """The steps from a state that meet a demand that these instances are owed together."""
        found = []
        for instance in several:
            action = instance.action
            arguments = self.machine.arguments(action, instance.arguments)
            after = self.machine.take(state, action.name, arguments)
            assert action.fair is not None, "only what is fair is owed anything"
            moves = after != state or action.disturbs or not action.fair.is_of_any
            if after is not None and moves:
                found.append((Step(action, arguments, after).label, after))
        return found


def is_renamed(promise: DeclaredProperty, chosen: Sequence[Any]) -> bool:
    """
    Tells whether other names for elements make an earlier choice of this one.

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


def demands(instances: Sequence[GroundAction], graph: Graph) -> Demands:
    """The demands of the actions' marks, and the edges that meet them."""
    numbers: dict[object, int] = {}
    met = np.full(len(instances), -1, np.int32)
    moving = np.zeros(len(instances), bool)
    weak: list[bool] = []
    for k, instance in enumerate(instances):
        if (fair := instance.action.fair) is not None:
            met[k] = numbers.setdefault(instance.owed_to, len(numbers))
            moving[k] = fair.is_of_any
            weak += [not fair.is_strong] if met[k] == len(weak) else []
    meets = met[graph.instance]
    meets[moving[graph.instance] & (graph.source == graph.target)] = -1
    return Demands(np.array(weak, bool), meets)
