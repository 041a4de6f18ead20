"""
The *search* reading: bounded model checking, where states are too many to enumerate.

The steps of a ground spec are written down as formulas, one copy for each depth, and z3 is asked
for a run of that length to a state that breaks a promise. It goes depth by depth, so the first run
that is found is a shortest one, as breadth-first search would find. What is not found up to a depth
may be there beyond it: the answer is "none within N steps", never "holds".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import z3

from herdspec.check.exploration.bounds import (
    TIMES,
    Cut,
    Overflow,
    cut_by,
    cut_by_start,
    first_bound,
    overflows,
    raised,
)
from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED, Story
from herdspec.check.exploration.initial import Initial
from herdspec.check.running.run import Machine, Step
from herdspec.check.running.starts import initially
from herdspec.check.running.undefined import undefined_step
from herdspec.engine.bits import BitEmitter, Key, Terms
from herdspec.engine.ground import Ground, GroundAction
from herdspec.engine.starts import Start, starts
from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation, Spec
from herdspec.language.types import BOOL

RESOURCES = 200_000_000
"""z3's resource limit for each question: one depth, one promise."""

Progress = Callable[[int], None]
"""Told each depth that was searched."""


@dataclass
class Search:
    """The result of a search: the shortest run that breaks each promise, up to `depth` steps."""

    spec: Specification
    sizes: Mapping[str, int]
    faults: int
    bound: int
    promises: tuple[str, ...]
    """The promises looked at; also that every step has a meaning, where one may have none."""
    depth: int = 0
    """Every run of so many steps was looked at (but for what is `unknown`)."""
    violations: dict[str, Story] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    """Promises that z3 gave up on, and at which depth."""
    cut: int | None = None
    """The first step at which a run was left out, since it leaves a bound."""
    within: bool = False
    """The bounds are meant: nothing is asked of what lies beyond them."""
    left_out: Cut | None = None
    """The bound that the first of them leaves."""
    constraint: str = ""
    """The spec's constraints: no run goes on from a state without them."""
    bounds_tried: tuple[int, ...] = ()
    """The bounds of naturals that were tried; the last of them is `bound`."""

    @property
    def is_raisable(self) -> bool:
        """Tells whether a larger bound of naturals might show more."""
        return self.left_out is not None and not self.left_out.is_channel


def search(
    spec: Specification,
    sizes: Mapping[str, int],
    *,
    faults: int,
    depth: int,
    bound: int | None = None,
    only: frozenset[str] | None = None,
    resources: int = RESOURCES,
    progress: Progress | None = None,
    within: bool = False,
) -> Search:
    """
    Look for runs of up to `depth` steps that break an `always` or `step` promise (or `only` these).

    `faults`, `bound` and `within` as in `explore`; a bound that is not given is raised while runs
    are left out for it. Raises `UsageError` where there is nothing to look for.
    """

    def attempt(at: int, left: float | None) -> Search:
        del left  # z3 is limited by its resources
        found = _search(spec, sizes, faults, depth, at, only, resources, progress)
        found.within = within
        return found

    first = first_bound(spec, faults) if bound is None else bound
    times = 0 if bound is not None or within else TIMES
    found, tried = raised(first, attempt, lambda found: found.is_raisable, times)
    found.bounds_tried = tried
    return found


def _search(
    spec: Specification, sizes: Mapping[str, int], faults: int, depth: int, bound: int,
    only: frozenset[str] | None, resources: int, progress: Progress | None,
) -> Search:  # fmt: skip
    """Look for runs within one bound."""
    ground = Ground(spec, dict(sizes), bound, faults)
    kinds = (Expectation.ALWAYS, Expectation.STEP)
    promises = [p for p in spec.properties if p.expectation in kinds]
    promises = [p for p in promises if only is None or p.name in only]
    if not promises:
        raise UsageError(f"{spec.name} has no @always or @step promise to search a violation of")
    found = Search(spec, sizes, faults, ground.bound, tuple(p.name for p in promises))
    searcher = Searcher(ground, promises, resources, found)
    if searcher.undefined and only is None:
        found.promises = (*found.promises, EVERY_VALUE_IS_DEFINED)
    for k in range(depth + 1):
        searcher.look(k, last=k == depth)
        found.depth = k
        if progress:
            progress(k)
        if not searcher.open or k == depth or not searcher.extend():
            break
    return found


class Searcher:
    """The runs of a ground spec as formulas, one step longer at a time."""

    def __init__(
        self, ground: Ground, promises: list[DeclaredProperty], resources: int, found: Search
    ) -> None:
        self.ground = ground
        self.found = found
        self.machine = Machine(ground)
        self.emit = BitEmitter(ground)
        self.solver = z3.SolverFor("QF_FD", ctx=self.emit.context)
        self.solver.set("rlimit", resources)
        self.open: dict[str, DeclaredProperty | None] = {p.name: p for p in promises}
        self.formulas = {p.name: ground.property(p) for p in promises}
        self.starts = starts(ground) if ground.spec.starts else []
        self.instances = ground.instances
        self.undefined = [i for i in self.instances if i.defined is not g.TRUE]
        if self.undefined:
            self.open[EVERY_VALUE_IS_DEFINED] = None
        self.states: list[dict[Key, Any]] = []
        self.choices: list[Any] = []
        constraints = [p for p in ground.spec.properties if p.expectation is Expectation.CONSTRAINT]
        self.limit = g.conj(*map(ground.property, constraints))
        self.overflows = list(overflows(ground))
        found.constraint = " and ".join(p.name for p in constraints)
        self.begin()

    def begin(self) -> None:
        """The initial states: those of which the axioms hold."""
        state = declared = self.emit.start()
        nowhere = f"{self.ground.spec.name} has no initial state at this size"
        if self.starts:
            self.begin_with_meaning()
            state = self.emit.fresh("s0")
            ways = [self.begins(n, start, declared, state) for n, start in enumerate(self.starts)]
            self.solver.add(z3.Or(*ways))
        self.states.append(state)
        for promise in self.ground.spec.properties:
            if promise.expectation is Expectation.AXIOM:
                self.solver.add(self.emit.over(state).of(self.ground.property(promise)))
        if self.solver.check() == z3.unsat:
            raise UsageError(nowhere)

    def begin_with_meaning(self) -> None:
        """Refuse initial states that have no meaning."""
        if any(start.defined is not g.TRUE for start in self.starts):
            for _ in Initial(self.machine):
                pass

    def begins(
        self, number: int, start: Start, declared: Mapping[Key, Any], state: Mapping[Key, Any]
    ) -> Any:
        """The formula that this start makes a state, by some choice of its parameters."""
        digits = [digit for digits in start.choices.digits for digit in digits]
        given = self.emit.fresh(f"start{number}", digits)
        chosen = self.emit.over({**declared, **given})
        for digit in digits:
            if digit.expr.kind != BOOL:
                term = chosen.of(digit.expr)
                self.solver.add(z3.ULE(term, self.emit.number(digit.values - 1, term.size())))
        self.note_start_cut(start, chosen)
        said = [chosen.of(g.conj(start.possible, start.defined, start.within))]
        for key, term in state.items():
            new = start.updates.get(key)
            made = declared[key] if new is None else self.emit.narrowed(chosen.of(new), term)
            said.append(term == made)
        return z3.And(*said)

    def note_start_cut(self, start: Start, chosen: Terms) -> None:
        """Note if some initial state is left out since it leaves a bound."""
        if start.action is None or start.within is g.TRUE or self.found.left_out is not None:
            return
        beyond = chosen.of(g.conj(start.possible, start.defined, g.negate(start.within)))
        if self.solver.check(self.switch(beyond)) != z3.unsat:
            self.found.cut, self.found.left_out = 0, cut_by_start(self.ground, start)

    def choice(self, name: str, instances: tuple[GroundAction, ...]) -> Any:
        """Which of these instances is taken."""
        chosen = z3.BitVec(name, max(len(instances).bit_length(), 1), self.emit.context)
        self.solver.add(z3.ULT(chosen, len(instances)))
        return chosen

    def extend(self) -> bool:
        """One further step; whether there is any."""
        if not self.instances:
            return False
        k = len(self.choices)
        before = self.emit.over(self.states[-1])
        self.solver.add(before.of(self.limit))
        self.note_cut(k + 1, self.overflows, before)
        chosen = self.choice(f"c{k}", self.instances)
        after = self.emit.fresh(f"s{k + 1}")
        self.step_between(chosen, self.instances, before, after)
        self.choices.append(chosen)
        self.states.append(after)
        return True

    def note_cut(self, step: int, ways: list[Overflow], before: Terms) -> None:
        """Note the first step that is left out since it leaves a bound."""
        if self.found.cut is not None:
            return
        for way in ways:
            leaves = before.of(way.full)
            if way.key is not None:
                leaves = z3.Not(self.emit.fits(way.key, before.of(way.new)))
            if self.solver.check(self.switch(z3.And(before.of(way.possible), leaves))) != z3.unsat:
                self.found.cut, self.found.left_out = step, cut_by(self.ground, way)
                return

    def step_between(
        self,
        chosen: Any,
        instances: tuple[GroundAction, ...],
        before: Terms,
        after: Mapping[Key, Any],
    ) -> None:
        """The chosen instance is possible, and leads from one state to the other."""
        taken = [chosen == k for k in range(len(instances))]
        made: dict[Key, Any] = {}
        for mine, instance in zip(taken, instances, strict=True):
            guard = g.conj(instance.guard, instance.defined, instance.fits)
            self.solver.add(z3.Implies(mine, before.of(guard)))
            for key, new in instance.updates.items():
                term = before.of(new)
                if self.ground.slots[key].is_bounded:
                    self.solver.add(z3.Implies(mine, self.emit.fits(key, term)))
                narrow = self.emit.narrowed(term, after[key])
                made[key] = z3.If(mine, narrow, made.get(key, before.state[key]))
        for key, term in after.items():
            self.solver.add(term == made.get(key, before.state[key]))

    # ── Questions ───────────────────────────────────────────────────────────────────────────

    def look(self, depth: int, *, last: bool) -> None:
        """Look for runs of just this length that break a promise; of the `last` length or not."""
        broken = dict(self.broken(depth))
        if self.undefined and not last and EVERY_VALUE_IS_DEFINED in self.open:
            meaningless = [self.is_undefined(i) for i in self.undefined]
            broken[EVERY_VALUE_IS_DEFINED] = z3.Or(*meaningless)
        if not broken:
            return
        if self.solver.check(self.switch(z3.Or(*broken.values()))) == z3.unsat:
            return
        for name, formula in broken.items():
            answer = self.solver.check(self.switch(formula))
            if answer == z3.sat:
                model = self.solver.model()
                undefined = name == EVERY_VALUE_IS_DEFINED
                story = self.story(model, depth)
                self.found.violations[name] = self.attempted(model, story) if undefined else story
                del self.open[name]
            elif answer == z3.unknown:
                self.found.unknown[name] = depth
                del self.open[name]

    def switch(self, formula: Any) -> Any:
        """A name for a formula, so that it can be asked and forgotten."""
        name = z3.FreshConst(z3.BoolSort(self.emit.context), "asked")
        self.solver.add(z3.Implies(name, formula))
        return name

    def broken(self, depth: int) -> Iterator[tuple[str, Any]]:
        """The conditions under which the last state, or the last step, breaks each open promise."""
        last = self.emit.over(self.states[-1])
        for name, promise in self.open.items():
            if promise is None:
                continue
            if promise.expectation is Expectation.ALWAYS:
                yield name, z3.Not(last.of(self.formulas[name]))
            elif depth:
                yield name, z3.Not(self.between(self.formulas[name]))

    def is_undefined(self, instance: GroundAction) -> Any:
        """The formula that a step from the last state would have no meaning."""
        last = self.emit.over(self.states[-1])
        return last.of(g.conj(self.limit, instance.guard, g.negate(instance.defined)))

    def between(self, formula: Expr) -> Any:
        """A step promise about the last step."""
        both: dict[Key, Any] = dict(self.states[-2])
        by: dict[Expr, Expr] = {}
        for leaf in g.leaves(formula, "slot after"):
            key = ("after", *leaf.data)
            by[leaf] = g.node("slot", leaf.kind, data=key)
            both[key] = self.states[-1][leaf.data]
        return self.emit.over(both).of(g.substitute(formula, by))

    # ── Runs ────────────────────────────────────────────────────────────────────────────────

    def story(self, model: z3.ModelRef, depth: int) -> Story:
        """A run that z3 found, taken in the plain Python."""
        first = present = self.initial(model)
        steps: list[Step] = []
        for chosen in self.choices[:depth]:
            number = model.eval(chosen, model_completion=True).as_long()
            instance = self.instances[number]
            arguments = self.machine.arguments(instance.action, instance.arguments)
            after = self.machine.take(present, instance.action.name, arguments)
            assert after is not None, f"run and search disagree: {instance.action.name} {present}"
            steps.append(Step(instance.action, arguments, after))
            present = after
        return Story(first, steps, initially=initially(self.machine, first))

    def attempted(self, model: z3.ModelRef, story: Story) -> Story:
        """A run, and the step without a meaning that is possible at its end."""
        present = story.steps[-1].state if story.steps else story.initial
        instance = next(
            i
            for i in self.undefined
            if z3.is_true(model.eval(self.is_undefined(i), model_completion=True))
        )
        arguments = self.machine.arguments(instance.action, instance.arguments)
        last = undefined_step(self.machine, present, instance.action, arguments)
        return replace(story, steps=[*story.steps, last])

    def initial(self, model: z3.ModelRef) -> Spec:
        """The initial state of a run that z3 found."""
        if not self.starts:
            return self.machine.initial()
        numbers = []
        for term in self.states[0].values():
            value = model.eval(term, model_completion=True)
            numbers.append(int(z3.is_true(value)) if z3.is_bool(value) else value.as_long())
        return self.machine.state(tuple(numbers))
