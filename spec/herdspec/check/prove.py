"""
The *prove* reading: invariants that hold for any number of elements, by induction, with z3.

Every invariant (promise or lemma) is assumed before a step; for each action and each promise z3 is
asked for a step that breaks it. No such step: proved. A step: a *counterexample to induction*, two
states and their difference (the first of them need not be reachable; then a lemma is missing).
Limits are z3's resource count, not seconds, and an `unknown` is reported as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from time import perf_counter
from typing import Any

import z3

from herdspec.engine.smt import Emitter, initial_values
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Action, Promise, Specification
from herdspec.language.surface import Expectation
from herdspec.language.types import MapOf, Option, SortOf

RESOURCES = 50_000_000
"""z3's resource limit (`rlimit`) for each obligation."""


class Outcome(Enum):
    """What z3 said of an obligation."""

    PROVED = "proved"
    FAILED = "fails"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Obligation:
    """One question: does this step (or, with no action, the initial state) keep this promise?"""

    promise: str
    action: str | None
    outcome: Outcome
    seconds: float
    resources: int
    counterexample: Counterexample | None = None
    reason: str = ""


@dataclass(frozen=True)
class Counterexample:
    """Two states of a small model, and the arguments of the step between them."""

    sizes: dict[str, int]
    arguments: dict[str, str]
    before: dict[str, str]
    after: dict[str, str]

    @property
    def lines(self) -> list[str]:
        """The state before the step, and what the step changes."""
        sizes = ", ".join(f"{n} {name.lower()}s" for name, n in self.sizes.items())
        given = ", ".join(f"{k} = {v}" for k, v in self.arguments.items())
        lines = [f"a state with {sizes}" + (f", {given}" if given else "")]
        lines += [f"    {entry} = {value}" for entry, value in self.before.items()]
        changed = {k: v for k, v in self.after.items() if self.before.get(k) != v}
        lines += ["the step changes"] if changed else []
        lines += [f"    {k}: {self.before.get(k)} → {v}" for k, v in changed.items()]
        return lines


@dataclass
class Proof:
    """All obligations of a spec; it is `proved` if each of them is and no action is vacuous."""

    spec: Specification
    promises: tuple[str, ...]
    obligations: list[Obligation] = field(default_factory=list)
    vacuous: list[str] = field(default_factory=list)

    @property
    def proved(self) -> bool:
        """Whether everything was proved."""
        return not self.vacuous and all(o.outcome is Outcome.PROVED for o in self.obligations)

    def of(self, promise: str) -> Outcome:
        """What can be said of one promise: the worst of its obligations."""
        found = {o.outcome for o in self.obligations if o.promise == promise}
        for worst in (Outcome.FAILED, Outcome.UNKNOWN):
            if worst in found:
                return worst
        return Outcome.PROVED

    @property
    def seconds(self) -> float:
        """The time of all obligations."""
        return sum(o.seconds for o in self.obligations)


Progress = Callable[[Obligation], None]
Elements = dict[SortOf, list[Expr]]
LARGEST = 3
"""The largest size of the small models that are looked for first."""


def provable(spec: Specification) -> list[Promise]:
    """The promises that induction speaks about."""
    return [p for p in spec.properties if p.expectation in (Expectation.ALWAYS, Expectation.STEP)]


def prove(
    spec: Specification,
    *,
    leave_out: frozenset[str] = frozenset(),
    resources: int = RESOURCES,
    progress: Progress | None = None,
) -> Proof:
    """Prove a spec's invariants and step promises, but for those left out (also as hypotheses)."""
    promises = [p for p in provable(spec) if p.name not in leave_out]
    prover = Prover(spec, promises, resources)
    proof = Proof(spec, tuple(p.name for p in promises))
    proof.vacuous = prover.vacuous()
    for obligation in prover.obligations():
        proof.obligations.append(obligation)
        if progress:
            progress(obligation)
    return proof


class Prover:
    """The obligations of one spec under one set of hypotheses."""

    def __init__(self, spec: Specification, promises: list[Promise], resources: int) -> None:
        self.spec = spec
        self.promises = promises
        self.resources = resources
        self.emit = Emitter(spec)
        self.always = [p.formula for p in promises if p.expectation is Expectation.ALWAYS]
        self._small: dict[int, tuple[Elements, z3.Solver]] = {}
        self.hypotheses = [*self.emit.naturals(), *map(self.emit.formula, self.always)]

    def vacuous(self) -> list[str]:
        """Actions for which no state was found that satisfies the hypotheses and allows them."""
        return [a.name for a in self.spec.actions if not self.possible(a)]

    def possible(self, action: Action) -> bool:
        """Whether some state (if need be, a large one) satisfies the hypotheses and allows it."""
        if self.small_model(action, g.TRUE):
            return True
        solver = self.fresh_solver()
        solver.add(*self.hypotheses)
        solver.add(self.emit.formula(action.guard))
        return bool(solver.check() == z3.sat)

    def obligations(self) -> Iterator[Obligation]:
        """Each promise in the initial state and after each action, answered one by one."""
        start = initial_values(self.spec)
        for promise in self.promises:
            if promise.expectation is Expectation.ALWAYS:
                solver = self.fresh_solver()
                solver.add(z3.Not(self.emit.formula(g.substitute(promise.formula, start))))
                yield self.answer(promise.name, None, solver)
        for action in self.spec.actions:
            for promise in self.promises:
                yield self.step(action, promise)

    def step(self, action: Action, promise: Promise) -> Obligation:
        """Whether one action keeps one promise."""
        goal = after(promise, action)
        if goal is promise.formula and promise.expectation is Expectation.ALWAYS:
            return Obligation(promise.name, action.name, Outcome.PROVED, 0.0, 0)
        return self.holds(promise.name, action, goal)

    def holds(self, name: str, action: Action, goal: Expr) -> Obligation:
        """Whether a formula holds wherever the hypotheses and an action's guard do."""
        if goal is g.TRUE:
            return Obligation(name, action.name, Outcome.PROVED, 0.0, 0)
        begun = perf_counter()
        small = self.small_model(action, g.negate(goal))
        if small is not None:
            shown = self.counterexample(small, action)
            spent = perf_counter() - begun
            return Obligation(name, action.name, Outcome.FAILED, spent, 0, shown)
        solver = self.fresh_solver()
        solver.add(*self.hypotheses)
        solver.add(self.emit.formula(action.guard))
        solver.add(z3.Not(self.emit.formula(goal)))
        return self.answer(name, action, solver)

    def fresh_solver(self) -> z3.Solver:
        """A solver with the limit set, in a fixed order of chance."""
        solver = z3.Solver(ctx=self.emit.context)
        solver.set("rlimit", self.resources)
        solver.set("random_seed", 0)
        return solver

    def answer(self, promise: str, action: Action | None, solver: z3.Solver) -> Obligation:
        """Ask z3, and read its model where it has one."""
        begun, before = perf_counter(), resources_used(solver)
        result = solver.check()
        spent = resources_used(solver) - before
        name = action.name if action else None
        seconds = perf_counter() - begun
        if result == z3.unsat:
            return Obligation(promise, name, Outcome.PROVED, seconds, spent)
        if result == z3.unknown:
            why = solver.reason_unknown()
            return Obligation(promise, name, Outcome.UNKNOWN, seconds, spent, None, why)
        shown = self.counterexample(Model.of(solver.model(), self), action)
        return Obligation(promise, name, Outcome.FAILED, seconds, spent, shown)

    # ── Counterexamples ─────────────────────────────────────────────────────────────────────

    def small_model(self, action: Action, wanted: Expr) -> Model | None:
        """A state of up to `LARGEST` elements a sort that satisfies the hypotheses, if there is."""
        for size in range(1, LARGEST + 1):
            elements, solver = self.small(size)
            solver.push()
            for e in (action.guard, wanted):
                solver.add(self.emit.formula(expand(e, elements)))
            found = solver.check() == z3.sat
            model = Model(solver.model(), elements) if found else None
            solver.pop()
            if model is not None:
                return model
        return None

    def small(self, size: int) -> tuple[Elements, z3.Solver]:
        """The hypotheses over so many elements of each sort, made once."""
        if size not in self._small:
            elements = {
                SortOf(n): [g.variable(f"{n.lower()}{k + 1}", SortOf(n)) for k in range(size)]
                for n in self.spec.sorts
            }
            solver = self.fresh_solver()
            solver.add(*self.closed(elements))
            solver.add(*(self.emit.formula(expand(e, elements)) for e in self.always))
            self._small[size] = elements, solver
        return self._small[size]

    def closed(self, elements: Elements) -> list[Any]:
        """That the elements differ, that there are no others, and that no natural is below 0."""
        found: list[Any] = []
        for all_of in elements.values():
            terms = [self.emit.formula(e) for e in all_of]
            found.append(z3.Distinct(*terms))
        leaves = [g.field(f.name, f.kind) for f in self.spec.fields]
        leaves += [p for a in self.spec.actions for _, p in a.parameters]
        for leaf in leaves:
            for entry in entries(leaf, elements):
                found += self._within(entry, elements)
        return found

    def _within(self, entry: Expr, elements: Elements) -> list[Any]:
        kind = entry.kind
        assert not isinstance(kind, MapOf), "an entry of a map is no map"
        inner = kind.of if isinstance(kind, Option) else kind
        if not isinstance(inner, SortOf):
            return self.emit.natural(kind, self.emit.formula(entry))
        cases = [g.eq(entry, g.some(e) if isinstance(kind, Option) else e) for e in elements[inner]]
        if isinstance(kind, Option):
            cases.append(g.eq(entry, g.none(kind)))
        return [self.emit.formula(g.disj(*cases))]

    def counterexample(self, model: Model, action: Action | None) -> Counterexample:
        """Read the two states off a model."""
        reader = Reader(self, model)
        start = initial_values(self.spec)
        fields = {f.name: g.field(f.name, f.kind) for f in self.spec.fields}
        if action is None:
            state = reader.state({n: start[leaf] for n, leaf in fields.items()})
            return Counterexample(reader.sizes, {}, state, state)
        given = {name: reader.value(p) for name, p in action.parameters}
        before = reader.state(fields)
        after_step = reader.state({n: action.updates.get(n, leaf) for n, leaf in fields.items()})
        return Counterexample(reader.sizes, given, before, after_step)


@dataclass
class Model:
    """A z3 model and the elements of its sorts."""

    z3: z3.ModelRef
    elements: Elements

    @staticmethod
    def of(model: z3.ModelRef, prover: Prover) -> Model:
        """A model that z3 found with a universe of its own making."""
        elements = {}
        for name in prover.spec.sorts:
            kind = SortOf(name)
            sort = prover.emit.sort(kind)
            universe = model.get_universe(sort) or [z3.Const("any", sort)]  # sorts are never empty
            # Fresh ones: the elements of the small models are other terms.
            elements[kind] = [g.fresh(f"{name.lower()}{k + 1}", kind) for k in range(len(universe))]
            prover.emit.memo.update(zip(elements[kind], universe, strict=True))
        return Model(model, elements)


class Reader:
    """Reads a model in the spec's words."""

    def __init__(self, prover: Prover, model: Model) -> None:
        self.emit = prover.emit
        self.model = model
        self.names = {
            str(model.z3.eval(self.emit.formula(e), model_completion=True)): named(e)
            for elements in model.elements.values()
            for e in elements
        }
        self.sizes = {kind.name: len(found) for kind, found in model.elements.items()}

    def value(self, e: Expr) -> str:
        """A value as text."""
        term = self.emit.formula(expand(e, self.model.elements))
        found = str(self.model.z3.eval(term, model_completion=True))
        if found.startswith("present("):
            found = found[len("present(") : -1]
        return self.names.get(found, found.partition(".")[2] or found)

    def state(self, fields: dict[str, Expr]) -> dict[str, str]:
        """Every entry of a state."""
        found = {}
        for name, new in fields.items():
            if isinstance(new.kind, MapOf):
                for e in self.model.elements[new.kind.key]:
                    found[f"{name}[{named(e)}]"] = self.value(g.select(new, e))
            else:
                found[name] = self.value(new)
        return found


def named(element: Expr) -> str:
    """An element's name, as the spec's own Python prints it."""
    return str(element.data).partition("#")[0]


def entries(e: Expr, elements: Elements) -> list[Expr]:
    """A value itself, or each of a map's."""
    if isinstance(e.kind, MapOf):
        return [g.select(e, at) for at in elements[e.kind.key]]
    return [e]


def expand(e: Expr, elements: Elements) -> Expr:
    """An expression without quantifiers, over these elements."""
    memo: dict[Expr, Expr] = {}

    def walk(x: Expr) -> Expr:
        if x not in memo:
            memo[x] = quantified(x) if x.op in ("all", "any") else inner(x)
        return memo[x]

    def quantified(x: Expr) -> Expr:
        bound, body = x.args
        assert isinstance(bound.kind, SortOf), "loops run over sorts"
        join = g.conj if x.op == "all" else g.disj
        return join(*(walk(g.substitute(body, {bound: at})) for at in elements[bound.kind]))

    def inner(x: Expr) -> Expr:
        return g.rebuild(x, tuple(map(walk, x.args))) if x.args else x

    return walk(e)


def after(promise: Promise, action: Action) -> Expr:
    """A promise's formula over the state before a step, about the state after it."""
    by: dict[Expr, Expr] = {}
    if promise.expectation is Expectation.STEP:
        for leaf in g.leaves(promise.formula, "after"):
            by[leaf] = action.updates.get(leaf.data, g.field(leaf.data, leaf.kind))
        return g.substitute(promise.formula, by)
    for name, new in action.updates.items():
        by[g.field(name, new.kind)] = new
    return g.substitute(promise.formula, by)


def resources_used(solver: z3.Solver) -> int:
    """z3's resource count so far."""
    statistics = solver.statistics()
    found = dict(statistics[k] for k in range(len(statistics)))
    return int(found.get("rlimit count", 0))


__all__ = ["Counterexample", "Obligation", "Outcome", "Proof", "prove"]
