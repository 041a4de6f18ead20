"""
The expression graph: what every reading but the plain Python is made from.

A node is immutable and hash-consed: equal expressions are one object, so that sharing is free and a
dictionary over nodes is a memo. The constructors simplify: `select` pushes through `store`, `lam`
and `ite`, so that a finished expression looks up nothing but the fields of the state before the
step. Bound variables are unique; substitution therefore never captures.

Operators (arguments; type): `const` (value), `field`, `var`, `slot`, `not`, `and`, `or`, `ite`,
`eq`, `le`, `lt`, `add` (number, constant), `some`, `the` (the value of a present optional),
`select` (map, index), `store` (map, index, value), `lam` (variable, body), `all` and `any`
(variable, body).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any

from herdspec.language.types import BOOL, NAT, MapOf, Option, Scalar, SortOf, Type


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
_fresh = count()


def node(op: str, kind: Type, args: tuple[Expr, ...] = (), data: Any = None) -> Expr:
    """The one node with this operator, type, arguments and datum."""
    key = (op, kind, tuple(a.key for a in args), data, type(data))
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
    """All of them."""
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
    return node("ite", a.kind, (test, a, b))


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
    if a.kind == BOOL and b.op == "const":
        return a if b.data else negate(a)
    for one, other in ((a, b), (b, a)):
        if one.op == "ite" and other.op == "const" and "const" in (one.args[1].op, one.args[2].op):
            return ite(one.args[0], eq(one.args[1], other), eq(one.args[2], other))
    return node("eq", BOOL, (a, b) if a.key <= b.key else (b, a))


def le(a: Expr, b: Expr) -> Expr:
    """At most."""
    if a is b:
        return TRUE
    if a.op == "const" and b.op == "const":
        return boolean(a.data <= b.data)
    return node("le", BOOL, (a, b))


def lt(a: Expr, b: Expr) -> Expr:
    """Less than."""
    return negate(le(b, a))


def add(a: Expr, amount: int) -> Expr:
    """A number and a constant."""
    if amount == 0:
        return a
    return const(NAT, a.data + amount) if a.op == "const" else node("add", NAT, (a,), amount)


def some(a: Expr) -> Expr:
    """A present optional value."""
    assert not isinstance(a.kind, MapOf | Option), "only plain values are optional"
    return node("some", Option(a.kind), (a,))


def lam(bound: Expr, body: Expr) -> Expr:
    """The map that takes each element to the body."""
    assert isinstance(bound.kind, SortOf), "maps go from sorts"
    assert not isinstance(body.kind, MapOf), "maps of maps are not part of this version"
    return node("lam", MapOf(bound.kind, body.kind), (bound, body))


def store(table: Expr, index: Expr, value: Expr) -> Expr:
    """The map with one entry replaced."""
    if table.op == "store" and table.args[1] is index:
        table = table.args[0]
    return node("store", table.kind, (table, index, value))


def select(table: Expr, index: Expr) -> Expr:
    """An entry of a map."""
    match table.op:
        case "lam":
            return substitute(table.args[1], {table.args[0]: index})
        case "store":
            before, at, value = table.args
            return ite(eq(at, index), value, select(before, index))
        case "ite":
            test, a, b = table.args
            return ite(test, select(a, index), select(b, index))
    assert isinstance(table.kind, MapOf), "only maps are looked up"
    return node("select", table.kind.value, (table, index))


def forall(bound: Expr, body: Expr) -> Expr:
    """For every element."""
    return body if body.op == "const" else node("all", BOOL, (bound, body))


def exists(bound: Expr, body: Expr) -> Expr:
    """For some element (sorts are never empty)."""
    return body if body.op == "const" else node("any", BOOL, (bound, body))


def rebuild(a: Expr, args: tuple[Expr, ...]) -> Expr:
    """The node over other arguments, simplified again."""
    match a.op:
        case "not":
            return negate(*args)
        case "and":
            return conj(*args)
        case "or":
            return disj(*args)
        case "add":
            return add(args[0], a.data)
    simple: dict[str, Callable[..., Expr]] = {
        "ite": ite, "eq": eq, "le": le, "some": some, "select": select,
        "store": store, "lam": lam, "all": forall, "any": exists,
    }  # fmt: skip
    return simple[a.op](*args) if args else a


def substitute(a: Expr, by: Mapping[Expr, Expr]) -> Expr:
    """The expression with leaves (variables, fields) replaced."""
    memo: dict[Expr, Expr] = dict(by)

    def walk(e: Expr) -> Expr:
        found = memo.get(e)
        if found is None:
            found = memo[e] = rebuild(e, tuple(map(walk, e.args))) if e.args else e
        return found

    return walk(a)


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
