"""Sets in expressions: written out, joined, compared; membership."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from herdspec.language import graph as g
from herdspec.language import rich
from herdspec.language.graph import Expr
from herdspec.language.reading import channels
from herdspec.language.reading.quantifiers import check_order
from herdspec.language.reading.quantifiers import turns as turns_of
from herdspec.language.rich import Struct, Value
from herdspec.language.types import ChannelOf, Option, OptionalRecord, Rich, SetOf

if TYPE_CHECKING:
    from herdspec.language.reading.expressions import Scope


JOINS: dict[type[ast.operator], Callable[[Expr, Expr], Expr]] = {
    ast.BitOr: g.disj,
    ast.BitAnd: g.conj,
    ast.Sub: lambda a, b: g.conj(a, g.negate(b)),
}
"""Connectives of membership, by the operator that joins the sets."""


def set_of(scope: Scope, e: ast.SetComp | ast.Set, want: Rich | None) -> Value:
    """A set written out, or as a comprehension."""
    if not isinstance(want, SetOf):
        raise scope.refuse(e, "a whole set here", "assign it to a field, or join it with one")
    keys = tuple(g.fresh("x", k) for k in want.keys)
    if isinstance(e, ast.Set):
        inside = g.disj(*(_are(keys, member(scope, m, want)) for m in e.elts))
        return Struct(want, {"": g.lam(keys, inside)})

    check_order(scope, e.generators)

    def some_turn(scope: Scope, rest: list[ast.comprehension]) -> Expr:
        if not rest:
            return _are(keys, member(scope, e.elt, want))
        found = []
        for bound, kept, inner in turns_of(scope, rest[0]):
            truth = g.conj(kept, some_turn(inner, rest[1:]))
            for variable in reversed(bound):
                truth = _one_point(variable, truth)
            found.append(truth)
        return g.disj(*found)

    return Struct(want, {"": g.lam(keys, some_turn(scope, list(e.generators)))})


def member(scope: Scope, e: ast.expr, kind: SetOf) -> tuple[Expr, ...]:
    """An element of a set, as the keys of a relation."""
    if kind.record is None:
        return scope.indices(e, kind.keys)
    found = scope.fit(e, scope.value(e, kind.record), kind.record)
    assert isinstance(found, Struct), "fitted to a record"
    for key, part in zip(kind.keys, found.flat, strict=True):
        scope.oblige(rich.within(key, part))
    return found.flat


def sought(scope: Scope, e: ast.expr, kind: SetOf) -> tuple[Expr, tuple[Expr, ...]]:
    """
    The element looked for in a set: the condition that a set can hold it, and the relation's keys.

    As in Python, what is absent, or a number that the set cannot hold, is in none.
    """
    if kind.record is not None:
        there, found = held(scope.value(e, kind.record))
        made = scope.fit(e, found, kind.record)
        assert isinstance(made, Struct), "fitted to a record"
        keys = made.flat
    else:
        given = e.elts if isinstance(e, ast.Tuple) else [e]
        if len(given) != len(kind.keys):
            return g.TRUE, scope.indices(e, kind.keys)  # which refuses it
        values = [held(scope.value(x, k)) for x, k in zip(given, kind.keys, strict=True)]
        there = g.conj(*(here for here, _ in values))
        fitted = [scope.fit(x, v, k) for x, (_, v), k in zip(given, values, kind.keys, strict=True)]
        keys = tuple(v for v in fitted if isinstance(v, Expr))
    fits = (rich.within(k, key) for k, key in zip(kind.keys, keys, strict=True))
    return g.conj(there, *fits), keys


def check_own(scope: Scope, value: ast.expr, kind: Rich) -> None:
    """Refuse `empty()` as what a helper returns: Python cannot change it where it is put."""
    if isinstance(kind, SetOf) and any(scope.means(e, "empty") for e in _names_in(value)):
        raise scope.refuse(value, "`empty()` as the value of a helper", "write set()")


def _names_in(e: ast.expr) -> Iterator[ast.Name]:
    return (n for n in ast.walk(e) if isinstance(n, ast.Name))


def held(value: Value) -> tuple[Expr, Value]:
    """The condition that an optional value is there, and its value then; a plain one always is."""
    if isinstance(value, Struct) and isinstance(value.kind, OptionalRecord):
        return value.present, value.held
    if isinstance(value, Expr) and isinstance(value.kind, Option):
        return g.negate(g.eq(value, g.none(value.kind))), g.the(value)
    return g.TRUE, value


def subset(a: Struct, b: Value) -> Expr:
    """The condition that every element of one set is in the other."""
    assert isinstance(b, Struct), "fitted to a set"
    assert isinstance(a.kind, SetOf), "asked of sets"
    bounds = tuple(g.fresh("x", k) for k in a.kind.keys)
    found = g.implies(g.select(a.parts[""], *bounds), g.select(b.parts[""], *bounds))
    for bound in reversed(bounds):
        found = g.forall(bound, found)
    return found


def pointwise(a: Struct, b: Value, join: Callable[[Expr, Expr], Expr]) -> Struct:
    """The set of what this function makes of membership in two sets."""
    assert isinstance(a.kind, SetOf), "asked of sets"
    assert isinstance(b, Struct), "fitted to a set"
    bounds = tuple(g.fresh("x", k) for k in a.kind.keys)
    inside = join(g.select(a.parts[""], *bounds), g.select(b.parts[""], *bounds))
    return Struct(a.kind, {"": g.lam(bounds, inside)})


def _are(keys: tuple[Expr, ...], values: tuple[Expr, ...]) -> Expr:
    return g.conj(*(g.eq(k, v) for k, v in zip(keys, values, strict=True)))


def _one_point(variable: Expr, truth: Expr) -> Expr:
    """`any(x == k and P(x) for x in …)` is `P(k)`: no quantifier is needed."""
    for part in truth.args if truth.op == "and" else (truth,):
        if part.op == "eq" and variable in part.args:
            other = part.args[1] if part.args[0] is variable else part.args[0]
            if variable not in g.leaves(other, "var"):
                # Numbers of all ranges compare: the other one may be none of the variable's.
                here = rich.within(variable.kind, other)
                return g.conj(here, g.substitute(truth, {variable: other}))
    return g.exists(variable, truth)


def some_of(turns: Iterator[tuple[Expr, Expr, tuple[Expr, ...]]]) -> Expr:
    """The condition that something holds of one of these: when it is there, what, variables."""
    found = []
    for kept, truth, bound in turns:
        here = g.conj(kept, truth)
        for variable in bound:
            here = g.exists(variable, here)
        found.append(here)
    return g.disj(*found)


def among(scope: Scope, left: ast.expr, right: ast.expr) -> Expr:
    """Membership: of a few values, of a set, of a channel."""
    if isinstance(right, ast.Tuple | ast.List | ast.Set):
        return g.disj(*(scope.equal(left, member) for member in right.elts))
    place = scope.place(right)
    if place is not None and isinstance(place.kind, ChannelOf):
        turns = list(channels.messages(scope, right, place))
        item = place.kind.item
        value = scope.value(left, item)
        there, plain = (g.TRUE, value) if isinstance(item, Option) else held(value)
        wanted = scope.fit(left, plain, item)
        return g.conj(there, some_of((kept, rich.equal(m, wanted), b) for m, kept, b in turns))
    found = scope.value(right)
    if isinstance(found, Struct) and isinstance(found.kind, SetOf):
        there, keys = sought(scope, left, found.kind)
        return g.conj(there, g.select(found.parts[""], *keys))
    raise scope.refuse(right, f"`in {ast.unparse(right)}`", "write a tuple of values, or a set")


def length(scope: Scope, e: ast.expr) -> Expr:
    """The number of elements of a set, or of messages in a channel."""
    place = scope.place(e)
    if place is not None and isinstance(place.kind, ChannelOf):
        return channels.length(scope, e, place)
    found = scope.value(e)
    if isinstance(found, Struct) and isinstance(found.kind, SetOf):
        bounds = tuple(g.fresh("x", k) for k in found.kind.keys)
        return g.number(bounds, g.select(found.parts[""], *bounds))
    raise scope.refuse(e, f"the length of `{ast.unparse(e)}`", "sets and channels have one")
