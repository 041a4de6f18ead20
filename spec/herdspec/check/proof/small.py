"""
Small models: counterexamples over one, two or three elements of each sort, made as small as can be.

Over so few elements there are no quantifiers, so z3 answers at once; and who reads a counterexample
wants the least one. First the fewest elements, then the fewest entries that differ from those of
the initial state, then small numbers. All of it under a limit of z3's resources: a limit that is
hit leaves a larger counterexample, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import z3

from herdspec.check.proof.counterexample import Model
from herdspec.check.proof.universe import Elements, entries, expand
from herdspec.engine.order import OrderEmitter
from herdspec.engine.smt import Emitter, constant
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import ANY, Specification
from herdspec.language.types import MapOf, Option, SortOf, Type

LARGEST = 3
"""The largest size of the small models that are looked for first."""
NUMBERS = (1, 2, 3, 4, 6, 8)
"""The bounds within which the numbers of a counterexample are tried to be kept."""

Sizes = tuple[int, ...]
"""The numbers of elements of each sort, in the spec's order."""


@dataclass
class Universe:
    """A number of elements of each sort, and a solver that holds the hypotheses over them."""

    sizes: Sizes
    elements: Elements
    solver: z3.Solver


class Small:
    """The hypotheses of a proof over small universes."""

    def __init__(
        self, spec: Specification, emit: Emitter, hypotheses: Sequence[Expr], resources: int
    ) -> None:
        self.spec = spec
        self.emit = emit
        self.hypotheses = hypotheses
        self.resources = resources
        self._universes: dict[Sizes, Universe] = {}

    def find(self, *wanted: Expr) -> Model | None:
        """A least state that satisfies the hypotheses and this, with few elements, if there is."""
        number = len(self.spec.sorts)
        for size in range(1, LARGEST + 1):
            if self.possible((size,) * number, wanted):
                return self.least((size,) * number, wanted)
            if not number:
                break
        return None

    def least(self, sizes: Sizes, wanted: Sequence[Expr]) -> Model | None:
        """A model with at most so many elements, made as small as the resources allow."""
        for k in range(len(sizes)):
            for fewer in range(1, sizes[k]):
                tried = (*sizes[:k], fewer, *sizes[k + 1 :])
                if self.possible(tried, wanted):
                    sizes = tried
                    break
        universe = self.at(sizes)
        solver = universe.solver
        solver.push()
        self._want(universe, wanted)
        model = Minimiser(self, universe).minimised()
        solver.pop()
        return model

    def possible(self, sizes: Sizes, wanted: Sequence[Expr]) -> bool:
        """Tells whether there is a model of just this size."""
        universe = self.at(sizes)
        universe.solver.push()
        self._want(universe, wanted)
        answer = universe.solver.check()
        universe.solver.pop()
        return bool(answer == z3.sat)

    def _want(self, universe: Universe, wanted: Sequence[Expr]) -> None:
        for e in wanted:
            universe.solver.add(*self.formulas(e, universe.elements))

    def formulas(self, e: Expr, elements: Elements) -> list[Any]:
        """An expression over these elements, with what has to be said of its sums."""
        expanded = expand(e, elements)
        facts = self.emit.facts(expanded) if isinstance(self.emit, OrderEmitter) else []
        return [self.emit.formula(expanded), *facts]

    def at(self, sizes: Sizes) -> Universe:
        """The hypotheses over so many elements of each sort, made once."""
        if sizes not in self._universes:
            elements = {
                SortOf(n): [g.variable(f"{n.lower()}{k + 1}", SortOf(n)) for k in range(size)]
                for n, size in zip(self.spec.sorts, sizes, strict=True)
            }
            solver = z3.Solver(ctx=self.emit.context)
            solver.set("rlimit", self.resources)
            solver.set("random_seed", 0)
            if isinstance(self.emit, OrderEmitter):
                solver.add(*self.emit.order())
            solver.add(*self.closed(elements))
            for e in self.hypotheses:
                solver.add(*self.formulas(e, elements))
            self._universes[sizes] = Universe(sizes, elements, solver)
        return self._universes[sizes]

    def closed(self, elements: Elements) -> list[Any]:
        """The facts that elements differ, that these are all, and that no natural is below 0."""
        found: list[Any] = []
        for all_of in elements.values():
            found.append(z3.Distinct(*(self.emit.formula(e) for e in all_of)))
        leaves = [g.field(f.name, f.kind) for f in self.spec.fields]
        actions = [*self.spec.actions, *self.spec.starts]
        leaves += [p for a in actions for _, p in a.parameters]
        for leaf in leaves:
            for _, entry in entries(leaf, elements):
                found += self.within(entry.kind, self.emit.formula(entry), elements)
        return found

    def within(self, kind: Type, term: Any, elements: Elements) -> list[Any]:
        """The facts that a value is one of its type's in this universe."""
        assert not isinstance(kind, MapOf), "an entry of a map is no map"
        if isinstance(kind, SortOf):
            return [z3.Or(*(term == self.emit.formula(e) for e in elements[kind]))]
        if isinstance(kind, Option):
            sort = self.emit.sort(kind)
            inner = self.within(kind.of, sort.accessor(1, 0)(term), elements)
            return [z3.Or(sort.recognizer(0)(term), z3.And(*inner))] if inner else []
        return self.emit.natural(kind, term)


class Minimiser:
    """Makes the model of one universe smaller, as long as there is one."""

    def __init__(self, small: Small, universe: Universe) -> None:
        self.small = small
        self.universe = universe
        self.solver = universe.solver
        self.emit = small.emit

    def minimised(self) -> Model | None:
        """A model with the fewest entries that are not as they start, and with small numbers."""
        if self.solver.check() != z3.sat:
            return None
        model = self.solver.model()
        changed = self.changed()
        if changed:
            model = self.fewer(model, changed)
        return Model(self.smaller(model), self.universe.elements)

    def changed(self) -> list[Any]:
        """Per entry of the state: that it is not as it starts."""
        found = []
        for f in self.small.spec.fields:
            kind = f.kind.value if isinstance(f.kind, MapOf) else f.kind
            if f.initial is ANY:
                continue
            start = self.emit.formula(constant(kind, f.initial))
            for _, entry in entries(g.field(f.name, f.kind), self.universe.elements):
                found.append(self.emit.formula(entry) != start)
        return found

    def fewer(self, model: z3.ModelRef, changed: list[Any]) -> z3.ModelRef:
        """The model with the fewest of these true that the resources allow to find."""
        count = sum(z3.is_true(model.eval(c, model_completion=True)) for c in changed)
        while count:
            self.solver.push()
            self.solver.add(z3.AtMost(*changed, count - 1))
            found = self.solver.check() == z3.sat
            better = self.solver.model() if found else None
            self.solver.pop()
            if better is None:
                break
            model = better
            count = sum(z3.is_true(model.eval(c, model_completion=True)) for c in changed)
        self.solver.add(z3.AtMost(*changed, count))
        return model

    def smaller(self, model: z3.ModelRef) -> z3.ModelRef:
        """The model with the least bound of all numbers."""
        numbers = [term for term in self.numbers() if z3.is_int(term)]
        for bound in NUMBERS if numbers else ():
            if self.solver.check(*(term <= bound for term in numbers)) == z3.sat:
                return self.solver.model()
        return model

    def numbers(self) -> list[Any]:
        """The entries of the state; of optional ones what they hold."""
        found = []
        for f in self.small.spec.fields:
            for _, entry in entries(g.field(f.name, f.kind), self.universe.elements):
                term, kind = self.emit.formula(entry), entry.kind
                while isinstance(kind, Option):
                    term, kind = self.emit.sort(kind).accessor(1, 0)(term), kind.of
                found.append(term)
        return found
