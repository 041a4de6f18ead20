"""
A finite universe for formulas that speak of any number of elements.

A counterexample to induction is a state with so many elements of each sort. Over such a universe
quantifiers are conjunctions and disjunctions, and a map has so many entries: what z3 then has to
solve is finite, and small.
"""

from __future__ import annotations

from itertools import product

from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.types import NAT, Bool, EnumOf, MapOf, Range, SortOf, Type, said

Elements = dict[SortOf, list[Expr]]
"""The elements of each sort, as expressions."""


def domain(kind: Type, elements: Elements) -> list[Expr]:
    """All values of a type that a map may be from, or a quantifier range over."""
    match kind:
        case SortOf():
            return elements[kind]
        case Bool():
            return [g.FALSE, g.TRUE]
        case EnumOf(members=members):
            return [g.const(kind, k) for k in range(len(members))]
        case Range(top=top):
            return [g.const(NAT, k) for k in range(top + 1)]
    raise AssertionError(f"no quantifier ranges over {said(kind)}")


def entries(e: Expr, elements: Elements) -> list[tuple[tuple[int, ...], Expr]]:
    """A value itself, or each of a map's, by its position in the domains of the keys."""
    if not isinstance(e.kind, MapOf):
        return [((), e)]
    domains = [domain(kind, elements) for kind in e.kind.keys]
    found = []
    for at in product(*(range(len(d)) for d in domains)):
        chosen = [d[k] for d, k in zip(domains, at, strict=True)]
        found.append((at, g.select(e, *chosen)))
    return found


def expand(e: Expr, elements: Elements) -> Expr:
    """An expression without quantifiers, over these elements."""
    memo: dict[Expr, Expr] = {}

    def walk(x: Expr) -> Expr:
        if x not in memo:
            kinds = {"all": quantified, "any": quantified, "number": counted}
            memo[x] = kinds.get(x.op, inner)(x)
        return memo[x]

    def quantified(x: Expr) -> Expr:
        bound, body = x.args
        join = g.conj if x.op == "all" else g.disj
        return join(*(walk(g.substitute(body, {bound: at})) for at in domain(bound.kind, elements)))

    def counted(x: Expr) -> Expr:
        *bounds, body = x.args
        choices = product(*(domain(b.kind, elements) for b in bounds))
        by = (dict(zip(bounds, chosen, strict=True)) for chosen in choices)
        return g.count(walk(g.substitute(body, of)) for of in by)

    def inner(x: Expr) -> Expr:
        return g.rebuild(x, tuple(map(walk, x.args))) if x.args else x

    return walk(e)


def named(element: Expr) -> str:
    """An element's or a constant's name, as the spec's own Python prints it."""
    if element.op == "const":
        kind: Type = element.kind
        return kind.members[element.data].name if isinstance(kind, EnumOf) else str(element.data)
    return str(element.data).partition("#")[0]
