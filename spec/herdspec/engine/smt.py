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

from herdspec.engine.z3_operators import applied
from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.outside import unchanged
from herdspec.language.specification import ANY, Specification
from herdspec.language.types import NAT, Bool, EnumOf, MapOf, Nat, Option, Range, SortOf, Type


@dataclass
class Emitter:
    """Translates expressions of one spec; one per z3 context of use."""

    spec: Specification
    context: z3.Context = field(default_factory=z3.Context)
    sorts: dict[Type, z3.SortRef] = field(default_factory=dict)
    values: dict[Type, tuple[z3.ExprRef, ...]] = field(default_factory=dict)
    memo: dict[Expr, z3.ExprRef] = field(default_factory=dict)
    leaves: dict[Expr, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unchanged(self.spec.shape)

    def sort(self, kind: Type) -> z3.SortRef:
        """The z3 sort of a type of values."""
        kind = _plain(kind)
        if kind not in self.sorts:
            self.sorts[kind] = self._sort(kind)
        return self.sorts[kind]

    def _sort(self, kind: Type) -> z3.SortRef:
        match kind:
            case Bool():
                return z3.BoolSort(self.context)
            case Nat() | Range():
                return z3.IntSort(self.context)
            case EnumOf(cls=cls, members=members):
                names = [f"{cls.__name__}.{m.name}" for m in members]
                sort, self.values[kind] = z3.EnumSort(cls.__name__, names, self.context)
                return sort
            case SortOf(name=name):
                return z3.DeclareSort(name, self.context)
            case Option(of=of):
                inner = self.sort(of)
                name = f"Optional[{inner}]"  # in every name: other solvers know no overloading
                made = z3.Datatype(name, self.context)
                made.declare(f"absent {name}")
                made.declare(f"present {name}", (f"value of {name}", inner))
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
                return self.leaf(e.args[0])(*map(self.formula, e.args[1:]))
            case "all" | "any":
                return self._quantified(e)
            case "the":
                inner = self.formula(e.args[0])
                return self.sort(e.args[0].kind).accessor(1, 0)(inner)
            case "number":
                what = f"{self.spec.name} counts (len, sum), which has no meaning for any number"
                raise UsageError(f"{what} of elements; explore it, or say it with quorums")
            case "some":
                return self._present(e.kind)(self.formula(e.args[0]))
        # A `count` comes of a finite universe only: see `herdspec.check.proof.universe`.
        return applied(e, [self.formula(a) for a in e.args], self.number)

    def number(self, value: int) -> Any:
        """A constant number."""
        return z3.IntVal(value, self.context)

    def _quantified(self, e: Expr) -> Any:
        """For all values, or some; numbers are integers to z3, so that their type must be said."""
        bound, body = self.leaf(e.args[0]), self.formula(e.args[1])
        within = self.natural(e.args[0].kind, bound)
        if e.op == "all":
            return z3.ForAll([bound], z3.Implies(z3.And(*within), body) if within else body)
        return z3.Exists([bound], z3.And(*within, body) if within else body)

    def _constant(self, e: Expr) -> Any:
        if e.kind == g.TRUE.kind:
            return z3.BoolVal(e.data, self.context)
        if isinstance(e.kind, EnumOf):
            self.sort(e.kind)
            return self.values[e.kind][e.data]
        if isinstance(e.kind, Option):
            return self.sort(e.kind).constructor(0)()
        return self.number(e.data)

    def _present(self, kind: Type) -> Any:
        return self.sort(kind).constructor(1)

    def leaf(self, e: Expr) -> Any:
        """The constant or function that a field or variable is."""
        if e not in self.leaves:
            # A parameter may have a field's name, and a field that of a solver's own function.
            name = {"field": "self.{}", "after": "self.{}'", "var": "?{}"}[e.op].format(e.data)
            if isinstance(e.kind, MapOf):
                domain, value = map(self.sort, e.kind.keys), self.sort(e.kind.value)
                self.leaves[e] = z3.Function(name, *domain, value)
            else:
                self.leaves[e] = z3.Const(name, self.sort(e.kind))
        return self.leaves[e]

    def naturals(self) -> list[Any]:
        """The facts that each number of the state is within its type."""
        return [e for f in self.spec.fields for e in self.ranges(g.field(f.name, f.kind))]

    def ranges(self, e: Expr) -> list[Any]:
        """The facts that each number of a field or parameter (a map, too) is within its type."""
        leaf = self.leaf(e)
        if not isinstance(e.kind, MapOf):
            return self.natural(e.kind, leaf)
        xs = [z3.Const(f"x{n}", self.sort(k)) for n, k in enumerate(e.kind.keys)]
        return [z3.ForAll(xs, within) for within in self.natural(e.kind.value, leaf(*xs))]

    def natural(self, kind: Type, term: Any) -> list[Any]:
        """The facts that no number in a value of this type is negative or too large."""
        if isinstance(kind, Nat):
            return [term >= 0]
        if isinstance(kind, Range):
            return [term >= 0, term <= kind.top] if kind.top >= 0 else []
        if isinstance(kind, Option):
            sort = self.sort(kind)
            inner = self.natural(kind.of, sort.accessor(1, 0)(term))
            return [z3.Or(sort.recognizer(0)(term), e) for e in inner]
        return []


def _plain(kind: Type) -> Type:
    """The type whose z3 sort a type shares: all numbers are integers."""
    if isinstance(kind, Option):
        inner = _plain(kind.of)
        assert not isinstance(inner, MapOf), "only plain values are optional"
        return Option(inner)
    return NAT if isinstance(kind, Range) else kind


def initial_values(spec: Specification) -> dict[Expr, Expr]:
    """The fields' values in the declared initial state; those that may be anything are left out."""
    found = {}
    for f in spec.fields:
        leaf = g.field(f.name, f.kind)
        if f.initial is ANY:
            continue
        if isinstance(f.kind, MapOf):
            bounds = tuple(g.fresh("x", k) for k in f.kind.keys)
            found[leaf] = g.lam(bounds, constant(f.kind.value, f.initial))
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
