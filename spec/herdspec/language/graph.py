"""
The expression graph: what every reading but the plain Python is made from.

A node is immutable and hash-consed: equal expressions are one object, so that sharing is free and a
dictionary over nodes is a memo. The constructors simplify: `select` pushes through `store`, `lam`
and `ite`, so that a finished expression looks up nothing but the fields of the state before the
step. Bound variables are unique; substitution therefore never captures.

Operators (arguments; type): `const` (value), `field`, `after` (a field of the state after a step),
`var`, `slot`, `not`, `and`, `or`, `ite`, `eq`, `le`, `add` (number, constant), `plus` and `minus`
(two numbers), `mod` and `div` (two numbers, the second above 0; as Python's), `count` (bools: how
many are true), `number` (variables, body: of how many it is true), `some`, `the` (the value of a
present optional), `select` (map, indices), `store` (map, indices, value), `lam` (variables, body),
`all` and `any` (variable, body).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count as counter
from typing import Any

from herdspec.language.types import (
    BOOL,
    INT,
    NAT,
    MapOf,
    Option,
    Range,
    Scalar,
    Type,
    is_key,
    is_number,
)


class Expr:
    """One node of the graph. Compare with `is`; build with the functions of this module."""

    __slots__ = ("args", "data", "key", "kind", "op")

    def __init__(self, op: str, kind: Type, args: tuple[Expr, ...], data: Any, key: int) -> None:
        self.op = op
        self.kind = kind
        self.args = args
        self.data = data
        self.key = key

    def __repr__(self) -> str:
        """The node in prefix form, for debugging."""
        inner = " ".join(map(repr, self.args))
        name = self.op if self.data is None else f"{self.op}:{self.data}"
        return f"({name} {inner})" if inner else name

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled expressions are hash-consed again where they arrive."""
        return (node, (self.op, self.kind, self.args, self.data))


_nodes: dict[tuple[Any, ...], Expr] = {}
_fresh = counter()


def node(op: str, kind: Type, args: tuple[Expr, ...] = (), data: Any = None) -> Expr:
    """The one node with this operator, type, arguments and datum."""
    key = (op, kind, args, data, type(data))
    found = _nodes.get(key)
    if found is None:
        found = _nodes[key] = Expr(op, kind, args, data, len(_nodes))
    return found


TRUE = node("const", BOOL, data=True)
FALSE = node("const", BOOL, data=False)


def boolean(value: bool) -> Expr:
    """The constant."""
    return TRUE if value else FALSE


def const(kind: Type, value: Any) -> Expr:
    """A number, an enum's member, or an element's index in its sort."""
    return node("const", kind, data=value)


def none(kind: Option) -> Expr:
    """The absent value of an optional type."""
    return node("const", kind, data=None)


def field(name: str, kind: Type) -> Expr:
    """A field of the state before the step."""
    return node("field", kind, data=name)


def variable(name: str, kind: Scalar) -> Expr:
    """A parameter, named."""
    return node("var", kind, data=name)


def fresh(name: str, kind: Scalar) -> Expr:
    """A bound variable that occurs nowhere else."""
    return node("var", kind, data=f"{name}#{next(_fresh)}")


def negate(a: Expr) -> Expr:
    """Not."""
    if a.op == "const":
        return boolean(not a.data)
    return a.args[0] if a.op == "not" else node("not", BOOL, (a,))


def _join(op: str, unit: Expr, zero: Expr, parts: Iterable[Expr]) -> Expr:
    flat: dict[Expr, None] = {}
    for part in parts:
        for piece in part.args if part.op == op else (part,):
            if piece is zero or negate(piece) in flat:
                return zero
            if piece is not unit:
                flat[piece] = None
    if len(flat) <= 1:
        return next(iter(flat), unit)
    return node(op, BOOL, tuple(flat))


def conj(*parts: Expr) -> Expr:
    """The conjunction of expressions."""
    return _join("and", TRUE, FALSE, parts)


def disj(*parts: Expr) -> Expr:
    """Any of them."""
    return _join("or", FALSE, TRUE, parts)


def implies(a: Expr, b: Expr) -> Expr:
    """B wherever A."""
    return disj(negate(a), b)


def ite(test: Expr, a: Expr, b: Expr) -> Expr:
    """A where the test holds, else B."""
    if a is b or test is TRUE:
        return a
    if test is FALSE:
        return b
    plain = "const" in (a.op, b.op) or a is negate(b) if a.kind == BOOL else False
    if plain:
        return disj(conj(test, a), conj(negate(test), b))
    if test.op == "not":
        return ite(test.args[0], b, a)
    kind = NAT if a.kind != b.kind and is_number(a.kind) else a.kind
    if INT in (a.kind, b.kind):
        kind = INT
    return node("ite", kind, (test, a, b))


def eq(a: Expr, b: Expr) -> Expr:
    """Equal; both of one type."""
    if a is b:
        return TRUE
    if a.op == "const" and b.op == "const":
        return boolean(a.data == b.data)
    if a.op == "some" and b.op == "some":
        return eq(a.args[0], b.args[0])
    if {a.op, b.op} == {"some", "const"}:
        return FALSE  # constants of optional type are absences, or ground values folded above
    if a.kind == BOOL and a.op == "const":
        return b if a.data else negate(b)
    if b.kind == BOOL and b.op == "const":
        return a if b.data else negate(a)
    for one, other in ((a, b), (b, a)):
        if _among_constants(one, other):
            return ite(one.args[0], eq(one.args[1], other), eq(one.args[2], other))
    return node("eq", BOOL, (a, b) if a.key <= b.key else (b, a))


def _among_constants(one: Expr, other: Expr) -> bool:
    """Tells whether comparing a choice with a constant is better done in its branches."""
    return one.op == "ite" and other.op == "const" and "const" in (one.args[1].op, one.args[2].op)


def le(a: Expr, b: Expr) -> Expr:
    """At most."""
    if a is b:
        return TRUE
    if a.op == "const" and b.op == "const":
        return boolean(a.data <= b.data)
    if isinstance(a.kind, Range) and b.op == "const" and 0 <= a.kind.top <= b.data:
        return TRUE
    if _among_constants(a, b):
        return ite(a.args[0], le(a.args[1], b), le(a.args[2], b))
    if _among_constants(b, a):
        return ite(b.args[0], le(a, b.args[1]), le(a, b.args[2]))
    return node("le", BOOL, (a, b))


def lt(a: Expr, b: Expr) -> Expr:
    """Less than."""
    return negate(le(b, a))


def add(a: Expr, amount: int) -> Expr:
    """A number and a constant, which may be negative."""
    if a.op == "add":
        a, amount = a.args[0], a.data + amount
    if amount == 0:
        return a
    if a.op == "const":
        total = a.data + amount
        return const(NAT if total >= 0 else INT, total)
    return node("add", INT if amount < 0 or a.kind == INT else NAT, (a,), amount)


def plus(a: Expr, b: Expr) -> Expr:
    """The sum of two numbers."""
    for one, other in ((a, b), (b, a)):
        if other.op == "const":
            return add(one, other.data)
    return node("plus", INT if INT in (a.kind, b.kind) else NAT, (a, b))


def minus(a: Expr, b: Expr) -> Expr:
    """The difference of two numbers, which may be negative."""
    return add(a, -b.data) if b.op == "const" else node("minus", INT, (a, b))


def mod(a: Expr, b: Expr) -> Expr:
    """The remainder of two numbers, the second of which must be above 0 (see `divisor`)."""
    if a.op == "const" and b.op == "const":
        return const(NAT, a.data % b.data)
    if b.op != "const":
        return node("mod", NAT, (a, b))
    return node("mod", Range(b.data - 1), (a, b)) if b.data > 1 else const(NAT, 0)


def div(a: Expr, b: Expr) -> Expr:
    """The quotient of two numbers, rounded down; the second must be above 0 (see `divisor`)."""
    if a.op == "const" and b.op == "const":
        return const(INT if a.data < 0 else NAT, a.data // b.data)
    if b.op == "const" and b.data == 1:
        return a
    return node("div", INT if a.kind == INT else NAT, (a, b))


def divisor(b: Expr) -> Expr:
    """A natural to divide by: 1 for 0, of which the quotient is nobody's (see `the`)."""
    zero = eq(b, const(NAT, 0))
    return ite(zero, const(NAT, 1), b)


def count(parts: Iterable[Expr]) -> Expr:
    """The number of these conditions that hold."""
    kept = [p for p in parts if p is not FALSE]
    certain = sum(p is TRUE for p in kept)
    open_ones = tuple(p for p in kept if p is not TRUE)
    return add(node("count", NAT, open_ones), certain) if open_ones else const(NAT, certain)


def number(bounds: tuple[Expr, ...], body: Expr) -> Expr:
    """For how many choices of the variables the body holds."""
    return node("number", NAT, (*bounds, body))


def some(a: Expr) -> Expr:
    """A present optional value."""
    assert not isinstance(a.kind, MapOf), "only plain values are optional"
    return node("some", Option(a.kind), (a,))


def the(a: Expr) -> Expr:
    """The value of an optional one, which must be present (what else it would be is nobody's)."""
    assert isinstance(a.kind, Option), "only an optional value has one inside"
    if a.op == "some":
        return a.args[0]
    if a.op == "ite" and "some" in (a.args[1].op, a.args[2].op):
        return ite(a.args[0], the(a.args[1]), the(a.args[2]))
    return node("the", a.kind.of, (a,))


def lam(bounds: tuple[Expr, ...], body: Expr) -> Expr:
    """The map that takes each choice of the variables to the body."""
    assert all(is_key(b.kind) for b in bounds), "maps go from finite types"
    assert not isinstance(body.kind, MapOf), "a map of maps is a map from more keys"
    return node("lam", MapOf(tuple(b.kind for b in bounds), body.kind), (*bounds, body))  # type: ignore[misc]


def store(table: Expr, indices: tuple[Expr, ...], value: Expr) -> Expr:
    """The map with one entry replaced; with fewer indices than keys, `value` is a map itself."""
    assert isinstance(table.kind, MapOf), "only maps have entries"
    if len(indices) < len(table.kind.keys):
        bounds = tuple(fresh("k", kind) for kind in table.kind.keys)
        here = conj(*(eq(b, i) for b, i in zip(bounds, indices, strict=False)))
        new = select(value, *bounds[len(indices) :])
        return lam(bounds, ite(here, new, select(table, *bounds)))
    if table.op == "store" and table.args[1:-1] == indices:
        table = table.args[0]
    return node("store", table.kind, (table, *indices, value))


def select(table: Expr, *indices: Expr) -> Expr:
    """An entry of a map; with fewer indices than keys, the map from the other keys."""
    if not indices:
        return table
    assert isinstance(table.kind, MapOf), "only maps are looked up"
    if len(indices) < len(table.kind.keys):
        bounds = tuple(fresh("k", kind) for kind in table.kind.keys[len(indices) :])
        return lam(bounds, select(table, *indices, *bounds))
    match table.op:
        case "lam":
            return substitute(table.args[-1], dict(zip(table.args[:-1], indices, strict=True)))
        case "store":
            before, *at, value = table.args
            here = conj(*(eq(a, i) for a, i in zip(at, indices, strict=True)))
            return ite(here, value, select(before, *indices))
        case "ite":
            test, a, b = table.args
            return ite(test, select(a, *indices), select(b, *indices))
    return node("select", table.kind.value, (table, *indices))


def forall(bound: Expr, body: Expr) -> Expr:
    """For every value of the variable."""
    return body if body.op == "const" else node("all", BOOL, (bound, body))


def exists(bound: Expr, body: Expr) -> Expr:
    """For some value of the variable (no type is empty)."""
    return body if body.op == "const" else node("any", BOOL, (bound, body))


def same(a: Expr, b: Expr) -> Expr:
    """Equality of values or, entry by entry, of maps."""
    if not isinstance(a.kind, MapOf):
        return eq(a, b)
    bounds = tuple(fresh("x", kind) for kind in a.kind.keys)
    found = eq(select(a, *bounds), select(b, *bounds))
    for bound in reversed(bounds):
        found = forall(bound, found)
    return found


def rebuild(a: Expr, args: tuple[Expr, ...]) -> Expr:
    """The node over other arguments, simplified again."""
    return _REBUILT[a.op](a, args) if args else a


_REBUILT: dict[str, Callable[[Expr, tuple[Expr, ...]], Expr]] = {
    "not": lambda _, args: negate(args[0]),
    "and": lambda _, args: _join("and", TRUE, FALSE, args),
    "or": lambda _, args: _join("or", FALSE, TRUE, args),
    "ite": lambda _, args: ite(*args),
    "eq": lambda _, args: eq(*args),
    "le": lambda _, args: le(*args),
    "add": lambda a, args: add(args[0], a.data),
    "plus": lambda _, args: plus(*args),
    "minus": lambda _, args: minus(*args),
    "mod": lambda _, args: mod(*args),
    "div": lambda _, args: div(*args),
    "count": lambda _, args: count(args),
    "number": lambda _, args: number(args[:-1], args[-1]),
    "some": lambda _, args: some(*args),
    "the": lambda _, args: the(*args),
    "select": lambda _, args: select(*args),
    "store": lambda _, args: store(args[0], args[1:-1], args[-1]),
    "lam": lambda _, args: lam(args[:-1], args[-1]),
    "all": lambda _, args: forall(*args),
    "any": lambda _, args: exists(*args),
}
"""Builders of nodes with arguments, by operator."""


def substitute(a: Expr, by: Mapping[Expr, Expr]) -> Expr:
    """The expression with leaves (variables, fields) replaced."""
    return substitution(by)(a)


def substitution(by: Mapping[Expr, Expr]) -> Callable[[Expr], Expr]:
    """The function that replaces these in an expression; what several share is made once."""
    memo: dict[Expr, Expr] = dict(by)

    def walk(e: Expr) -> Expr:
        found = memo.get(e)
        if found is None:
            found = memo[e] = rebuild(e, tuple(map(walk, e.args))) if e.args else e
        return found

    return walk


def leaves(a: Expr, op: str) -> set[Expr]:
    """Every leaf with this operator below an expression."""
    seen: set[Expr] = set()
    todo = [a]
    while todo:
        e = todo.pop()
        if e not in seen:
            seen.add(e)
            todo.extend(e.args)
    return {e for e in seen if e.op == op}
