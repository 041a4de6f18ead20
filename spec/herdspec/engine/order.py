"""
Naturals as an abstract order, for proofs that need no more of them.

Generations and epochs are compared, and followed by a later one; nobody computes with them. So a
proof may take them from *any* total order with a least element, and read `x + 1` as some element
above `x`. Whatever is proved of all these orders is true of the naturals, which are one of them;
what fails may hold of the naturals all the same. What is gained: no arithmetic, hence formulas that
stay in the fragment that z3 decides, and counterexamples that are small.

The facts about `+ 1` are stated of the terms that occur, not of all (`facts`): an order in which
*every* element has a larger one is infinite, and no counterexample would ever be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import z3

from herdspec.engine.smt import Emitter
from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.types import NAT, Option, Range, Type, is_number

MOST_STEPS = 100
"""The length to which an abstract order counts: one numeral up, or in one sum."""


@dataclass
class OrderEmitter(Emitter):
    """The z3 emitter with naturals as a sort of its own, totally ordered."""

    def _sort(self, kind: Type) -> z3.SortRef:
        if is_number(kind):
            return z3.DeclareSort("natural number", self.context)
        return super()._sort(kind)

    def sort(self, kind: Type) -> z3.SortRef:
        """The z3 sort of a type; all numbers are of one."""
        return super().sort(NAT if is_number(kind) else kind)

    @cached_property
    def at_most(self) -> z3.FuncDeclRef:
        """The order."""
        number = self.sort(NAT)
        return z3.Function("at most", number, number, z3.BoolSort(self.context))

    @cached_property
    def above(self) -> z3.FuncDeclRef:
        """Some larger number: what `+ 1` is read as."""
        return z3.Function("one above", self.sort(NAT), self.sort(NAT))

    @cached_property
    def below(self) -> z3.FuncDeclRef:
        """Some smaller number, of any but the least: what `- 1` is read as."""
        return z3.Function("one below", self.sort(NAT), self.sort(NAT))

    @cached_property
    def least(self) -> Any:
        """The number 0."""
        return z3.Const("the least", self.sort(NAT))

    def _formula(self, e: Expr) -> Any:
        if e.op == "const" and is_number(e.kind):
            return self.steps(self.above, self.least, e.data)
        if e.op == "le":
            return self.at_most(*map(self.formula, e.args))
        if e.op == "add":
            way = self.above if e.data > 0 else self.below
            return self.steps(way, self.formula(e.args[0]), abs(e.data))
        if e.op in ("plus", "minus", "mod", "div", "count", "number"):
            what = "sums and counts have no meaning in an abstract order"
            raise UsageError(f"{self.spec.name}: {what}: prove it without --abstract-order")
        return super()._formula(e)

    def steps(self, way: z3.FuncDeclRef, term: Any, number: int) -> Any:
        """Move a term by a number of steps, up or down."""
        for _ in range(self.few(number)):
            term = way(term)
        return term

    def few(self, number: int) -> int:
        """A number of steps, of which there must not be many: each is a term, and a fact."""
        if number > MOST_STEPS:
            what = f"{self.spec.name}: an abstract order counts to {MOST_STEPS} at most"
            raise UsageError(f"{what}, not to {number}: prove it without --abstract-order")
        return number

    def natural(self, kind: Type, term: Any) -> list[Any]:
        """The formulas about a number: none, but where it has a bound."""
        match kind:
            case Range(top=top) if top >= 0:
                return [self.at_most(term, self.steps(self.above, self.least, top))]
            case Option(of=of):
                sort = self.sort(kind)
                inner = self.natural(of, sort.accessor(1, 0)(term))
                return [z3.Or(sort.recognizer(0)(term), e) for e in inner]
        return []

    def order(self) -> list[Any]:
        """The facts that the order is total, with a least element."""
        x, y, z = (z3.Const(n, self.sort(NAT)) for n in "xyz")
        le = self.at_most
        return [
            z3.ForAll([x], le(self.least, x)),
            z3.ForAll([x, y], z3.Or(le(x, y), le(y, x))),
            z3.ForAll([x, y], z3.Implies(z3.And(le(x, y), le(y, x)), x == y)),
            z3.ForAll([x, y, z], z3.Implies(z3.And(le(x, y), le(y, z)), le(x, z))),
        ]

    def facts(self, *formulas: Expr) -> list[Any]:
        """The order of the sums and numerals in these formulas: which is above which."""
        found: dict[Any, None] = {}
        for e in formulas:
            bound = set(_bound(e))
            for sum_ in _sums(e):
                free = [self.formula(v) for v in g.leaves(sum_, "var") if v in bound]
                for fact in self._steps_of(sum_):
                    found[z3.ForAll(free, fact) if free else fact] = None
        return list(found)

    def _steps_of(self, e: Expr) -> list[Any]:
        number = e.data
        term = self.least if e.op == "const" else self.formula(e.args[0])
        made = []
        for _ in range(self.few(abs(number))):
            if number > 0:
                made.append(z3.Not(self.at_most(self.above(term), term)))
                term = self.above(term)
            else:
                smaller = z3.Not(self.at_most(term, self.below(term)))
                made.append(z3.Or(term == self.least, smaller))
                term = self.below(term)
        return made


def _sums(e: Expr) -> list[Expr]:
    """The numerals and sums in an expression."""
    numerals = [c for c in g.leaves(e, "const") if is_number(c.kind) and c.data]
    return numerals + list(g.leaves(e, "add"))


def _bound(e: Expr) -> Iterable[Expr]:
    """The variables that are bound somewhere in an expression."""
    return [q.args[0] for op in ("all", "any") for q in g.leaves(e, op)]


def numerals(emit: Emitter, model: z3.ModelRef) -> Callable[[Any], int]:
    """The reader of a model's numbers: as they are, or by their rank in an abstract order."""
    if not isinstance(emit, OrderEmitter):
        return lambda value: int(value.as_long())
    universe = model.get_universe(emit.sort(NAT)) or [emit.least]

    def rank(value: Any) -> int:
        least = [u for u in universe if z3.is_true(model.eval(emit.at_most(u, value)))]
        return max(len(least) - 1, 0)

    return rank
