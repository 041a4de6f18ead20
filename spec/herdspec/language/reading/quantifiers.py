"""Quantifiers, sums and maps written as comprehensions: what loops inside an expression mean."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING

from herdspec.language import graph as g
from herdspec.language import rich
from herdspec.language.graph import Expr
from herdspec.language.reading import channels
from herdspec.language.rich import Struct, Value
from herdspec.language.surface import Sort
from herdspec.language.types import (
    NAT,
    ChannelOf,
    EnumOf,
    Key,
    Range,
    Rich,
    SetOf,
    SortOf,
    Table,
    is_key,
    said,
)

if TYPE_CHECKING:
    from herdspec.language.reading.expressions import Scope


def quantified(scope: Scope, name: str, body: ast.expr, loops: list[ast.comprehension]) -> Expr:
    """`all` or `any` of a generator, from its outermost loop."""
    if not loops:
        return scope.truth(body)
    found = []
    for bound, kept, inner in turns(scope, loops[0]):
        truth = quantified(inner, name, body, loops[1:])
        truth = g.implies(kept, truth) if name == "all" else g.conj(kept, truth)
        quantify = g.forall if name == "all" else g.exists
        for variable in reversed(bound):
            truth = quantify(variable, truth)
        found.append(truth)
    return g.conj(*found) if name == "all" else g.disj(*found)


def check_order(scope: Scope, loops: list[ast.comprehension]) -> None:
    """Refuse a name of a later loop: Python finds no value there, not the one from outside."""
    for position, turn in enumerate(loops):
        bound = {n for t in loops[:position] for n in _names(t.target)}
        late = {n for t in loops[position:] for n in _names(t.target)} - bound
        after = late - _names(turn.target)
        looked = [(n, after) for e in turn.ifs for n in ast.walk(e)]
        if position:
            looked += [(n, late) for n in ast.walk(turn.iter)]
        for n, forbidden in looked:
            if isinstance(n, ast.Name) and n.id in forbidden:
                what = f"`{n.id}`, which a later loop of the comprehension binds"
                raise scope.refuse(n, what, "use another name")


def _names(target: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}


def turns(scope: Scope, turn: ast.comprehension) -> Iterator[tuple[tuple[Expr, ...], Expr, Scope]]:
    """The turns of a loop in an expression: its variables, when it is taken, its scope."""
    for names, kept, bound in domain(scope, turn.target, turn.iter):
        inner = scope.within(names, kept)
        for e in turn.ifs:
            also = inner.truth(e)
            kept, inner = g.conj(kept, also), inner.under(also)
        yield bound, kept, inner


def domain(
    scope: Scope, target: ast.expr, source: ast.expr
) -> Iterator[tuple[dict[str, Value], Expr, tuple[Expr, ...]]]:
    """The turns of a loop: the names' values, when there is such a turn, and variables."""
    place = scope.place(source)
    if place is not None and isinstance(place.kind, ChannelOf):
        for message, there, bound in channels.messages(scope, source, place):
            yield {target_name(scope, target): message}, there, bound
        return
    kind = ranged(scope, source)
    if is_key(kind):
        made = g.fresh(target_name(scope, target), kind)
        yield {made.data.partition("#")[0]: made}, g.TRUE, (made,)
        return
    found = scope.value(source)
    if not (isinstance(found, Struct) and isinstance(found.kind, SetOf)):
        what = f"a loop over `{ast.unparse(source)}`"
        raise scope.refuse(source, what, "loop over a Sort, an Enum, range(n), a set, a channel")
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    bound = tuple(g.fresh("x", k) for k in found.kind.keys)
    inside = g.select(found.parts[""], *bound)
    if found.kind.record:
        suffixes = [name for name, _ in rich.parts(found.kind.record)]
        whole = Struct(found.kind.record, dict(zip(suffixes, bound, strict=True)))
        yield {target_name(scope, target): whole}, inside, bound
    elif len(names) == len(bound):
        given = {target_name(scope, n): b for n, b in zip(names, bound, strict=True)}
        yield dict(given), inside, bound
    else:
        raise scope.refuse(target, "this loop variable", f"write {len(bound)} names")


def ranged(scope: Scope, source: ast.expr) -> Key | None:
    """The type that a loop runs over all values of, if it does."""
    match source:
        case ast.Name(id=name) if name not in scope.names:
            found = scope.known(source, name)
            if isinstance(found, type) and issubclass(found, Sort) and found is not Sort:
                return SortOf(found.__name__, found)
            if isinstance(found, type) and issubclass(found, Enum):
                return EnumOf(found)
        case ast.Call(func=func, args=[top]) if scope.means(func, "range"):
            number = scope.value(top)
            if isinstance(number, Expr) and number.op == "const" and number.data > 0:
                return Range(number.data - 1)
            raise scope.refuse(source, f"`{ast.unparse(source)}`", "write range(a constant)")
    return None


def target_name(scope: Scope, e: ast.expr) -> str:
    """The one name of a loop's variable."""
    if isinstance(e, ast.Name):
        return e.id
    raise scope.refuse(e, "this loop variable", "use one name")


def summed(scope: Scope, body: ast.expr, loops: list[ast.comprehension]) -> Expr:
    """For how many turns a condition holds: `sum(1 for … if …)`, `sum(… for …)`."""
    found: Expr = g.const(NAT, 0)
    for bound, held in _counted(scope, body, loops):
        found = g.plus(found, g.number(bound, held) if bound else g.count([held]))
    return found


def _counted(
    scope: Scope, body: ast.expr, loops: list[ast.comprehension]
) -> Iterator[tuple[tuple[Expr, ...], Expr]]:
    if not loops:
        one = isinstance(body, ast.Constant) and body.value == 1
        yield (), g.TRUE if one else scope.truth(body)
        return
    for bound, kept, inner in turns(scope, loops[0]):
        for more, held in _counted(inner, body, loops[1:]):
            yield (*bound, *more), g.conj(kept, held)


def table(
    scope: Scope, e: ast.expr, key: ast.expr, body: ast.expr, loops: list[ast.comprehension],
    want: Rich | None,
) -> Value:  # fmt: skip
    """A map written as a comprehension."""
    if not isinstance(want, Table):
        raise scope.refuse(e, "a whole map here", "assign it to a field")
    written = ast.unparse(key)
    named = ", ".join(ast.unparse(t.target) for t in loops)
    twice = len({ast.unparse(t.target) for t in loops}) < len(loops)
    if twice or written.strip("()") != named or any(t.ifs for t in loops):
        raise scope.refuse(e, "this comprehension", "write {x: value for x in Sort}")
    bounds: tuple[Expr, ...] = ()
    for turn, kind in zip(loops, want.keys, strict=False):
        if ranged(scope, turn.iter) != kind:
            raise scope.refuse(e, "this comprehension", f"its keys are {said(want)}'s")
        made = g.fresh(target_name(scope, turn.target), kind)
        bounds = (*bounds, made)
        scope = scope.within({target_name(scope, turn.target): made})
    if len(loops) != len(want.keys):
        raise scope.refuse(e, "this comprehension", f"write {len(want.keys)} loops")
    found = scope.fit(body, scope.value(body, want.value), want.value)
    flat = {"": found} if isinstance(found, Expr) else found.parts
    return Struct(want, {name: _lambda(bounds, inner) for name, inner in flat.items()})


def _lambda(bounds: tuple[Expr, ...], body: Expr) -> Expr:
    """A map from the variables to a value, which may be a map itself."""
    inner = getattr(body.kind, "keys", ())
    more = tuple(g.fresh("k", k) for k in inner)
    return g.lam((*bounds, *more), g.select(body, *more))
