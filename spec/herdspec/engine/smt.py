"""
The z3 emitter: a spec's expressions over uninterpreted sorts, for any number of elements.

Fields become constants and functions, maps are only ever looked up (`graph.select` has pushed every
update away), naturals are integers that are assumed not to be negative, enums are enumerations and
optional values datatypes. A step is described by substituting the new values into a formula: there
are no primed symbols and no frame axioms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import z3

from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Specification
from herdspec.language.types import Bool, EnumOf, MapOf, Nat, Option, Scalar, SortOf, Type


@dataclass
class Emitter:
    """Translates expressions of one spec; one per z3 context of use."""

    spec: Specification
    context: z3.Context = field(default_factory=z3.Context)
    sorts: dict[Type, z3.SortRef] = field(default_factory=dict)
    values: dict[Type, tuple[z3.ExprRef, ...]] = field(default_factory=dict)
    memo: dict[Expr, z3.ExprRef] = field(default_factory=dict)
    leaves: dict[Expr, Any] = field(default_factory=dict)

    def sort(self, kind: Type) -> z3.SortRef:
        """The z3 sort of a type of values."""
        if kind not in self.sorts:
            self.sorts[kind] = self._sort(kind)
        return self.sorts[kind]

    def _sort(self, kind: Type) -> z3.SortRef:
        match kind:
            case Bool():
                return z3.BoolSort(self.context)
            case Nat():
                return z3.IntSort(self.context)
            case EnumOf(cls=cls, members=members):
                names = [f"{cls.__name__}.{m.name}" for m in members]
                sort, self.values[kind] = z3.EnumSort(cls.__name__, names, self.context)
                return sort
            case SortOf(name=name):
                return z3.DeclareSort(name, self.context)
            case Option(of=of):
                inner = self.sort(of)
                made = z3.Datatype(f"Optional[{inner}]", self.context)
                made.declare("absent")
                made.declare("present", ("value", inner))
                return made.create()
        raise AssertionError(f"no values of {kind}")

    def formula(self, e: Expr) -> Any:
        """An expression as a z3 term; leaves are fields (constants, functions) and variables."""
        if e not in self.memo:
            self.memo[e] = self._formula(e)
        return self.memo[e]

    def _formula(self, e: Expr) -> Any:
        match e.op:
            case "const":
                return self._constant(e)
            case "field" | "after" | "var":
                return self.leaf(e)
            case "select":
                return self.leaf(e.args[0])(self.formula(e.args[1]))
            case "all" | "any":
                quantifier = z3.ForAll if e.op == "all" else z3.Exists
                return quantifier([self.leaf(e.args[0])], self.formula(e.args[1]))
            case "some":
                return self._present(e.kind)(self.formula(e.args[0]))
        args = [self.formula(a) for a in e.args]
        match e.op:
            case "not":
                return z3.Not(*args)
            case "and":
                return z3.And(*args)
            case "or":
                return z3.Or(*args)
            case "ite":
                return z3.If(*args)
            case "eq":
                return args[0] == args[1]
            case "le":
                return args[0] <= args[1]
            case "add":
                return args[0] + e.data
        raise AssertionError(f"no operator of proofs: {e.op}")

    def _constant(self, e: Expr) -> Any:
        if e.kind == g.TRUE.kind:
            return z3.BoolVal(e.data, self.context)
        if isinstance(e.kind, EnumOf):
            self.sort(e.kind)
            return self.values[e.kind][e.data]
        if isinstance(e.kind, Option):
            return self.sort(e.kind).constructor(0)()
        return z3.IntVal(e.data, self.context)

    def _present(self, kind: Type) -> Any:
        return self.sort(kind).constructor(1)

    def leaf(self, e: Expr) -> Any:
        """The constant or function that a field or variable is."""
        if e not in self.leaves:
            # A parameter may have a field's name, and is something else.
            name = {"field": "{}", "after": "{}'", "var": "?{}"}[e.op].format(e.data)
            if isinstance(e.kind, MapOf):
                domain, value = self.sort(e.kind.key), self.sort(e.kind.value)
                self.leaves[e] = z3.Function(name, domain, value)
            else:
                self.leaves[e] = z3.Const(name, self.sort(e.kind))
        return self.leaves[e]

    def naturals(self) -> list[Any]:
        """That no natural of the state is negative."""
        found = []
        for f in self.spec.fields:
            leaf = self.leaf(g.field(f.name, f.kind))
            if isinstance(f.kind, MapOf):
                x = z3.Const("x", self.sort(f.kind.key))
                found += [z3.ForAll([x], e) for e in self.natural(f.kind.value, leaf(x))]
            else:
                found += self.natural(f.kind, leaf)
        return found

    def natural(self, kind: Scalar, term: Any) -> list[Any]:
        """That a value of this type is not negative, if it is or holds a number."""
        if isinstance(kind, Nat):
            return [term >= 0]
        if isinstance(kind, Option) and isinstance(kind.of, Nat):
            sort = self.sort(kind)
            return [z3.Or(sort.recognizer(0)(term), sort.accessor(1, 0)(term) >= 0)]
        return []


def initial_values(spec: Specification) -> dict[Expr, Expr]:
    """What each field is in the initial state."""
    found = {}
    for f in spec.fields:
        leaf = g.field(f.name, f.kind)
        if isinstance(f.kind, MapOf):
            bound = g.fresh("x", f.kind.key)
            found[leaf] = g.lam(bound, constant(f.kind.value, f.initial))
        else:
            found[leaf] = constant(f.kind, f.initial)
    return found


def constant(kind: Type, value: Any) -> Expr:
    """A plain start value as an expression."""
    if isinstance(kind, Option):
        return g.none(kind) if value is None else g.some(constant(kind.of, value))
    if isinstance(kind, EnumOf):
        return g.const(kind, kind.members.index(value))
    return g.boolean(value) if isinstance(value, bool) else g.const(kind, value)
