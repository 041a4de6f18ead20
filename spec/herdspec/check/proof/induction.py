"""
Induction: what has to be asked of z3 for a spec's promises, and how it is asked.

A `Question` is one obligation: wherever the hypotheses hold (all promises, before a step) and an
action is possible, does its goal hold (a promise, after the step)? z3 is asked for a state where it
does not, over any number of elements, with few resources: first among those that keep this promise,
whatever the others say (what holds there, holds where more is assumed; most promises are kept by
most steps for their own sake, and the other hypotheses would cost many times as much), then among
those that keep all. No such state: proved. Otherwise such a state is looked for in small universes,
which gives the least one; only then z3 gets all resources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from time import perf_counter
from typing import Any

import z3

from herdspec.check.proof.counterexample import Counterexample, Model, read
from herdspec.check.proof.small import Small
from herdspec.engine.order import OrderEmitter
from herdspec.engine.smt import Emitter, initial_values
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Action, DeclaredProperty, Specification
from herdspec.language.surface import Expectation, Property

RESOURCES = 50_000_000
"""z3's resource limit (`rlimit`) for each obligation, in each of `WAYS`."""
AT_FIRST = 500_000
"""The limit of the first attempt: what holds is nearly always proved with less."""
ALONE = 200_000
"""The limit of the attempt with no other promise than the one that is asked about."""
FEW = 5_000_000
"""The limit of each look into a small universe."""

WAYS: tuple[Mapping[str, bool], ...] = (
    {"ematching": False, "pull_nested_quantifiers": True},
    {},
)
"""
Settings of z3's with which it is asked, one after the other until one answers.

By models first: what is said of all is instantiated just where the model that is being tried breaks
it. By default it is also matched with every term there is, and where a spec has many fields, z3
drowns in what comes of that; it remains for what models do not settle. Both are sound.
"""

DEFINED = "every_value_is_defined"
"""The obligation that no step looks up what is absent, or leaves the type of a bounded natural."""


class SolverAnswer(Enum):
    """The answer of z3 to an obligation."""

    PROVED = "proved"
    FAILED = "fails"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Obligation:
    """One question: does this step (or, with no action, the initial state) keep this promise?"""

    promise: str
    action: str | None
    outcome: SolverAnswer
    seconds: float
    resources: int
    counterexample: Counterexample | None = None
    reason: str = ""


@dataclass(frozen=True)
class Question:
    """An obligation before it is answered: `before` and `given` must imply `goal`."""

    promise: str
    action: Action | None
    goal: Expr
    given: tuple[Expr, ...] = ()
    """Formulas that hold beside the hypotheses: the action's guard."""
    inductive: bool = True
    """True if the promises are assumed of the state before (initially they are not)."""
    before: Mapping[str, Expr] = field(default_factory=dict)
    """The state that the goal speaks about, where it is not just any: the initial one."""

    @property
    def name(self) -> str:
        """The action, or None for the declared initial state."""
        return f"{self.promise} {self.action.name if self.action else 'initially'}"

    @property
    def is_trivial(self) -> bool:
        """Tells whether there is nothing to ask."""
        return self.goal is g.TRUE


def provable(spec: Specification) -> list[DeclaredProperty]:
    """The promises that induction speaks about; none about a channel's order or length."""
    kinds = (Expectation.ALWAYS, Expectation.STEP)
    return [p for p in spec.properties if p.expectation in kinds and p.provable]


class Prover:
    """The obligations of one spec under one set of hypotheses."""

    def __init__(
        self, spec: Specification, promises: Sequence[DeclaredProperty], resources: int = RESOURCES,
        *, order: bool = False,
    ) -> None:  # fmt: skip
        self.spec = spec
        self.promises = list(promises)
        self.resources = resources
        self.emit: Emitter = OrderEmitter(spec) if order else Emitter(spec)
        self.axioms = [p.formula for p in spec.properties if p.expectation is Expectation.AXIOM]
        self.always = [p.formula for p in promises if p.expectation is Expectation.ALWAYS]
        few = min(resources, FEW)
        self.small = Small(spec, self.emit, [*self.axioms, *self.always], few)
        self.anywhere = Small(spec, self.emit, self.axioms, few)
        self._counted = 0

    # ── Questions ───────────────────────────────────────────────────────────────────────────

    def questions(self) -> Iterator[Question]:
        """Each promise initially and after each action, and that each action is defined."""
        for promise in self.promises:
            if promise.expectation is Expectation.ALWAYS:
                yield from self.initially(promise)
        for start in self.spec.starts:
            yield from self.start_definedness(start)
        for action in self.spec.actions:
            yield from self.definedness(action)
            for promise in self.promises:
                yield self.after(action, promise)

    def initially(self, promise: DeclaredProperty) -> Iterator[Question]:
        """The questions whether a promise holds in each initial state."""
        declared = initial_values(self.spec)
        if not self.spec.starts:
            yield self._initially(promise, None, declared, ())
        for start in self.spec.starts:
            new = {n: g.substitute(e, declared) for n, e in start.updates.items()}
            fields = (g.field(f.name, f.kind) for f in self.spec.fields)
            made = declared | {leaf: new[leaf.data] for leaf in fields if leaf.data in new}
            given = tuple(g.substitute(e, declared) for e in self.taken(start))
            yield self._initially(promise, start, made, given)

    def _initially(
        self, promise: DeclaredProperty, start: Action | None, made: Mapping[Expr, Expr],
        given: tuple[Expr, ...],
    ) -> Question:  # fmt: skip
        axioms = tuple(g.substitute(e, made) for e in self.axioms)
        fields = (g.field(f.name, f.kind) for f in self.spec.fields)
        state = {leaf.data: made.get(leaf, leaf) for leaf in fields}
        goal = g.substitute(promise.formula, made)
        return Question(promise.name, start, goal, (*given, *axioms), False, state)

    def definedness(self, action: Action) -> Iterator[Question]:
        """The questions whether an action looks up nothing that is absent."""
        if action.defined is not g.TRUE:
            yield Question(DEFINED, action, action.defined, (action.guard,))

    def start_definedness(self, start: Action) -> Iterator[Question]:
        """The questions whether what makes an initial state looks up nothing that is absent."""
        declared = initial_values(self.spec)
        goal, guard = (g.substitute(e, declared) for e in (start.defined, start.guard))
        if start.defined is not g.TRUE:
            yield Question(DEFINED, start, goal, (guard,), False, declared_fields(self.spec))

    def after(self, action: Action, promise: DeclaredProperty) -> Question:
        """The question whether one action keeps one promise."""
        goal = after(promise, action)
        if goal is promise.formula and promise.expectation is Expectation.ALWAYS:
            goal = g.TRUE
        return Question(promise.name, action, goal, self.taken(action))

    def taken(self, action: Action) -> tuple[Expr, ...]:
        """The formulas that hold where an action is taken."""
        return tuple(e for e in (action.guard, action.defined) if e is not g.TRUE)

    # ── Answers ─────────────────────────────────────────────────────────────────────────────

    def obligations(self) -> Iterator[Obligation]:
        """All questions, answered one by one."""
        return map(self.solve, self.questions())

    def step(self, action: Action, promise: DeclaredProperty) -> Obligation:
        """The obligation that one action keeps one promise."""
        return self.solve(self.after(action, promise))

    def holds(self, name: str, action: Action | None, goal: Expr) -> Obligation:
        """The obligation that a formula holds wherever the hypotheses and an action's guard do."""
        given = self.taken(action) if action else ()
        return self.solve(Question(name, action, goal, given, inductive=action is not None))

    def solve(self, question: Question) -> Obligation:
        """Answer one question."""
        if question.is_trivial:
            return self._said(question, SolverAnswer.PROVED, 0.0, 0)
        begun = perf_counter()
        solver, result, used = self.asked_at_first(question)
        if result == z3.unsat:
            return self._said(question, SolverAnswer.PROVED, perf_counter() - begun, used)
        small = self.shrunk(question, solver if result == z3.sat else None)
        if small is not None:
            return self._failed(question, small, begun, used)
        if result == z3.unknown and self.resources > AT_FIRST:
            solver, result, more = self.asked(question, self.resources)
            used += more
        if result == z3.sat:
            found = Model.of(solver.model(), self.spec, self.emit)
            return self._failed(question, found, begun, used)
        outcome = SolverAnswer.PROVED if result == z3.unsat else SolverAnswer.UNKNOWN
        reason = solver.reason_unknown() if outcome is SolverAnswer.UNKNOWN else ""
        return self._said(question, outcome, perf_counter() - begun, used, None, reason)

    def asked_at_first(self, question: Question) -> tuple[z3.Solver, z3.CheckSatResult, int]:
        """z3's answer with few resources, its solver, and what it took; see `asked`."""
        resources, used = min(AT_FIRST, self.resources), 0
        if question.inductive and len(self.always) > 1:
            solver = self.solver(question, min(ALONE, resources), self.own(question))
            solver.set(**WAYS[0])
            result, used = self.checked(solver)
            if result == z3.unsat:
                return solver, result, used
        solver, result, more = self.asked(question, resources)
        return solver, result, used + more

    def own(self, question: Question) -> list[Expr]:
        """The promise that a question is about, as its only hypothesis; none, if it is no such."""
        return [
            p.formula
            for p in self.promises
            if p.name == question.promise and p.expectation is Expectation.ALWAYS
        ]

    def asked(self, question: Question, resources: int) -> tuple[z3.Solver, z3.CheckSatResult, int]:
        """z3's answer in the first of `WAYS` that gives one, whose solver, and what all took."""
        used = 0
        for way in WAYS:
            solver = self.solver(question, resources)
            solver.set(**way)
            result, more = self.checked(solver)
            used += more
            if result != z3.unknown:
                break
        return solver, result, used

    def checked(self, solver: z3.Solver) -> tuple[z3.CheckSatResult, int]:
        """z3's answer, and the resources that it took: z3 counts those of a whole context."""
        before = self._counted
        result = solver.check()
        statistics = solver.statistics()
        counts = dict(statistics[k] for k in range(len(statistics)))
        self._counted = int(counts.get("rlimit count", before))
        return result, self._counted - before

    def keeps(self, question: Question) -> bool:
        """Tells whether a question is answered with yes at little expense; a no shows nothing."""
        if question.is_trivial:
            return True
        return bool(self.asked_at_first(question)[1] == z3.unsat)

    def shrunk(self, question: Question, found: z3.Solver | None) -> Model | None:
        """A least state that refutes; one no larger than what z3 has found, if it has."""
        small = self.small if question.inductive else self.anywhere
        wanted = (*question.given, g.negate(question.goal))
        model = small.find(*wanted)
        if model is None and found is not None:
            elements = Model.of(found.model(), self.spec, self.emit).elements
            sizes = tuple(len(of) for of in elements.values())
            if max(sizes, default=0) <= 2 * len(sizes) + 6:
                model = small.least(sizes, wanted)
        return model

    def _failed(self, question: Question, model: Model, begun: float, used: int) -> Obligation:
        shown = self.counterexample(question, model)
        return self._said(question, SolverAnswer.FAILED, perf_counter() - begun, used, shown)

    @staticmethod
    def _said(
        question: Question, outcome: SolverAnswer, seconds: float, resources: int,
        shown: Counterexample | None = None, reason: str = "",
    ) -> Obligation:  # fmt: skip
        action = question.action.name if question.action else None
        return Obligation(question.promise, action, outcome, seconds, resources, shown, reason)

    def counterexample(self, question: Question, model: Model) -> Counterexample:
        """The states before and after the step that refutes a question."""
        fields = {f.name: g.field(f.name, f.kind) for f in self.spec.fields}
        action = question.action
        if not question.inductive:
            state = question.before or fields
            parameters = action.parameters if action else ()
            return read(self.spec, self.emit, model, {}, parameters, state)
        assert action is not None, "induction is over the steps of actions"
        return read(self.spec, self.emit, model, action.updates, action.parameters, fields)

    # ── Solvers ─────────────────────────────────────────────────────────────────────────────

    def solver(
        self, question: Question, resources: int, always: Sequence[Expr] | None = None
    ) -> z3.Solver:
        """A solver that holds one question: it is unsatisfiable where the goal is implied."""
        solver = self.fresh_solver(resources)
        for formula in self.assertions(question, always):
            solver.add(formula)
        return solver

    def assertions(self, question: Question, always: Sequence[Expr] | None = None) -> list[Any]:
        """
        The formulas of one question: hypotheses, what is given, and not the goal.

        `always`: those promises that are assumed, if not all.
        """
        if always is None:
            always = self.always if question.inductive else []
        expressions = [*self.axioms, *always, *question.given, g.negate(question.goal)]
        kept = [*self.background, *self.parameters(question.action)]
        return [*kept, *map(self.emit.formula, expressions), *self.facts(expressions)]

    @cached_property
    def background(self) -> list[Any]:
        """The axioms of the types: no natural is negative, or: their order is total."""
        order = self.emit.order() if isinstance(self.emit, OrderEmitter) else []
        return [*order, *self.emit.naturals()]

    @cached_property
    def hypotheses(self) -> list[Any]:
        """The assumptions on a state: the types, the axioms and all promises."""
        expressions = [*self.axioms, *self.always]
        return [*self.background, *map(self.emit.formula, expressions), *self.facts(expressions)]

    def facts(self, expressions: Sequence[Expr]) -> list[Any]:
        """The facts about sums in these, where numbers are an abstract order."""
        return self.emit.facts(*expressions) if isinstance(self.emit, OrderEmitter) else []

    def parameters(self, action: Action | None) -> list[Any]:
        """The facts that the types of an action's parameters give."""
        parameters = action.parameters if action else ()
        return [e for _, p in parameters for e in self.emit.ranges(p)]

    def fresh_solver(self, resources: int | None = None) -> z3.Solver:
        """A solver with the limit set, in a fixed order of chance."""
        solver = z3.Tactic("smt", ctx=self.emit.context).solver()
        solver.set("rlimit", self.resources if resources is None else resources)
        solver.set("random_seed", 0)
        return solver

    # ── Vacuity ─────────────────────────────────────────────────────────────────────────────

    def vacuous(self) -> list[str]:
        """Actions that no state allows that satisfies the hypotheses."""
        return [a.name for a in self.spec.actions if self.possible(a) is SolverAnswer.FAILED]

    def possible(self, action: Action) -> SolverAnswer:
        """
        Ask for a state (a large one, if need be) that fits the hypotheses and allows an action.

        `PROVED`: it was found. `FAILED`: there is none. `UNKNOWN`: z3 could not tell.
        """
        taken = self.taken(action)
        if self._some_small(taken):
            return SolverAnswer.PROVED
        solver = self.fresh_solver()
        solver.add(*self.hypotheses, *self.parameters(action))
        solver.add(*map(self.emit.formula, taken), *self.facts(taken))
        return POSSIBLE[str(solver.check())]

    def _some_small(self, wanted: Sequence[Expr], where: Small | None = None) -> bool:
        number = len(self.spec.sorts)
        small = where or self.small
        return any(small.possible((size,) * number, wanted) for size in (1, 2, 3))

    def begins(self) -> SolverAnswer:
        """Ask for an initial state that satisfies the axioms (outcomes as of `possible`)."""
        # A promise that is never kept: its questions carry all that is given of initial states.
        nothing = DeclaredProperty("", Expectation.ALWAYS, g.FALSE, "", False, "", 0, NOTHING)
        questions = list(self.initially(nothing))
        if any(self._some_small(q.given, self.anywhere) for q in questions):
            return SolverAnswer.PROVED
        found = {POSSIBLE[str(self.solver(q, self.resources).check())] for q in questions}
        for better in (SolverAnswer.PROVED, SolverAnswer.UNKNOWN):
            if better in found:
                return better
        return SolverAnswer.FAILED

    def contradiction(self) -> tuple[str, ...]:
        """The promises that contradict each other, if no state keeps all of them; else none."""
        solver = z3.Solver(ctx=self.emit.context)
        solver.set("rlimit", self.resources)
        solver.add(*self.background, *map(self.emit.formula, self.axioms), *self.facts(self.axioms))
        names = {}
        for promise in self.promises:
            if promise.expectation is Expectation.ALWAYS:
                mark = z3.FreshConst(z3.BoolSort(self.emit.context), "assumed")
                names[mark] = promise.name
                solver.add(z3.Implies(mark, self.emit.formula(promise.formula)))
                solver.add(*self.facts([promise.formula]))
        if solver.check(*names) != z3.unsat:
            return ()
        core = {mark.decl().name() for mark in solver.unsat_core()}
        found = [name for mark, name in names.items() if mark.decl().name() in core]
        axioms = [p for p in self.spec.properties if p.expectation is Expectation.AXIOM]
        return tuple(found) or tuple(p.name for p in axioms)


def declared_fields(spec: Specification) -> dict[str, Expr]:
    """Each flat field as the expression of its declared initial value."""
    declared = initial_values(spec)
    fields = (g.field(f.name, f.kind) for f in spec.fields)
    return {leaf.data: declared.get(leaf, leaf) for leaf in fields}


NOTHING = Property(Expectation.ALWAYS, lambda _: False)
POSSIBLE = {
    "sat": SolverAnswer.PROVED,
    "unsat": SolverAnswer.FAILED,
    "unknown": SolverAnswer.UNKNOWN,
}


def after(promise: DeclaredProperty, action: Action) -> Expr:
    """A promise's formula over the state before a step, about the state after it."""
    by: dict[Expr, Expr] = {}
    if promise.expectation is Expectation.STEP:
        for leaf in g.leaves(promise.formula, "after"):
            by[leaf] = action.updates.get(leaf.data, g.field(leaf.data, leaf.kind))
        return g.substitute(promise.formula, by)
    for leaf in g.leaves(promise.formula, "field"):
        by[leaf] = action.updates.get(leaf.data, leaf)
    return g.substitute(promise.formula, by)
