"""
Promises as clauses: `for all bounds: body`, and which changes of the state can break which of them.

A promise is brought into negation normal form and taken apart, its universal quantifiers outside.
Of a clause, an *instance* is a choice of elements for its bounds. A change of an entry concerns
those instances only that read it; and it can break one only where

- the clause is about states, or reads the entry as it is after a step: a step that changes nothing
  breaks no clause that *stutters*, which is shown by simplification. (Of others, an instance is
  held against every step that changes anything that it reads.)
- the change is to the worse: an entry of which the body only wants to be larger, or true, breaks
  nothing when it grows (in a clause about states, or one that stutters).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from herdspec.check.observation.inconclusive import Inconclusive
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import DeclaredProperty
from herdspec.language.surface import Expectation
from herdspec.language.types import BOOL, EnumOf, MapOf, Nat, Type, is_number

LEAVES = ("field", "after")
Place = tuple[Expr | None, ...]
"""An entry that is read: for each part of its key what it is; None: it ranges over something."""


@dataclass(frozen=True)
class Clause:
    """One conjunct of a promise."""

    promise: DeclaredProperty
    bounds: tuple[Expr, ...]
    body: Expr

    @property
    def is_step(self) -> bool:
        """Tells whether it is about two states."""
        return self.promise.expectation is Expectation.STEP

    @cached_property
    def stutters(self) -> bool:
        """Tells whether it plainly holds of a step that changes nothing."""
        same = {x: g.field(x.data, x.kind) for x in g.leaves(self.body, "after")}
        return self.is_step and g.substitute(self.body, same) is g.TRUE

    @cached_property
    def watched(self) -> Mapping[str, tuple[Place, ...]]:
        """By field, the entries that an instance reads and whose change can break it."""
        return places(self.body, self.bounds, ("after",) if self.stutters else LEAVES)

    @cached_property
    def read(self) -> Mapping[str, tuple[Place, ...]]:
        """By field, all entries that an instance reads."""
        return places(self.body, self.bounds, LEAVES)

    @cached_property
    def wishes(self) -> Mapping[str, bool]:
        """The fields of which it only wants that they be large, or true; or only the contrary."""
        found: dict[str, set[bool]] = {}
        if self.is_step and not self.stutters:
            return {}  # it may fail where nothing has become worse
        for field, wish in wishes(self.body, ("after",) if self.stutters else LEAVES):
            found.setdefault(field, set()).update((True, False) if wish is None else (wish,))
        return {field: both.pop() for field, both in found.items() if len(both) == 1}

    def is_easy(self, field: str, place: Place, kind: Type, value: Any) -> bool:
        """Tells whether it holds wherever an entry is this (after a step), whatever others are."""
        op = "after" if self.is_step else "field"
        here = {
            x: _constant(kind, value)
            for x in _below(self.body, "select") | g.leaves(self.body, op)
            for table, *key in [x.args or (x,)]
            if (table.op, table.data, tuple(key)) == (op, field, place)
        }
        return _of_literals(self.body, lambda literal: _where(literal, here)) is g.TRUE

    def minds(self, sort: Type, initial: Mapping[str, Any]) -> Iterator[Expr | None]:
        """
        The bounds at which a new element of a sort may break it; None: any instance may break.

        `initial` is what an entry is before anything is said of it. A step changes none of those.
        """
        if self.is_step:
            return
        for bound in self.bounds:
            if bound.kind == sort and _of_new(self.body, bound, initial) is not g.TRUE:
                yield bound
        within = [e for op in ("all", "number") for e in _below(self.body, op)]
        if any(
            b.kind == sort and _of_new(e.args[-1], b, initial) is not g.TRUE
            for e in within
            for b in e.args[:-1]
        ):
            yield None


def needs(promise: DeclaredProperty) -> frozenset[str]:
    """The fields that a promise speaks of."""
    return frozenset(x.data for op in LEAVES for x in g.leaves(promise.formula, op))


def clauses_of(promise: DeclaredProperty) -> Iterator[Clause]:
    """A promise's clauses."""
    for bounds, body in _clauses(normal(promise.formula)):
        yield Clause(promise, bounds, body)


def normal(e: Expr, yes: bool = True) -> Expr:
    """A formula, or its negation, with negations of its literals only."""
    match e.op:
        case "not":
            return normal(e.args[0], not yes)
        case "and" | "or":
            join = g.conj if (e.op == "and") == yes else g.disj
            return join(*(normal(a, yes) for a in e.args))
        case "all" | "any":
            ranged = g.forall if (e.op == "all") == yes else g.exists
            return ranged(e.args[0], normal(e.args[1], yes))
    return e if yes else g.negate(e)


def _below(e: Expr, op: str) -> set[Expr]:
    return g.leaves(e, op)


def _clauses(e: Expr) -> Iterator[tuple[tuple[Expr, ...], Expr]]:
    """
    A formula in normal form as conjuncts, universal quantifiers outside.

    A bound of which a conjunct does not speak is dropped: no sort is empty.
    """
    if e.op == "and":
        for part in e.args:
            yield from _clauses(part)
    elif e.op == "all":
        for bounds, body in _clauses(e.args[1]):
            used = (e.args[0],) if e.args[0] in g.leaves(body, "var") else ()
            yield (*used, *bounds), body
    elif e.op == "or" and (pulled := _to_pull(e)) is not None:
        rest = [other for other in e.args if other is not pulled]
        if pulled.op == "all":
            yield from _clauses(g.forall(pulled.args[0], g.disj(pulled.args[1], *rest)))
        else:
            for conjunct in pulled.args:
                yield from _clauses(g.disj(conjunct, *rest))
    else:
        yield (), e


def _to_pull(e: Expr) -> Expr | None:
    """Of a disjunction, the part whose quantifiers come outside next."""
    every = [part for part in e.args if part.op == "all"]
    both = [part for part in e.args if part.op == "and"]
    if every:
        return every[0]
    return both[0] if len(both) == 1 and _below(both[0], "all") else None


def places(
    body: Expr, bounds: tuple[Expr, ...], kinds: tuple[str, ...]
) -> Mapping[str, tuple[Place, ...]]:
    """The entries that a formula reads, by field: of `kinds` of states only."""
    found: dict[str, dict[Place, None]] = {}
    read = _below(body, "select") | {x for op in kinds for x in g.leaves(body, op)}
    for e in sorted(read, key=attrgetter("key")):
        table, *key = e.args or (e,)
        if table.op in kinds and (e.args or not isinstance(e.kind, MapOf)):
            place = tuple(k if g.leaves(k, "var") <= {*bounds} else None for k in key)
            found.setdefault(table.data, {})[place] = None
    return {field: tuple(there) for field, there in found.items()}


def wishes(
    e: Expr, kinds: tuple[str, ...], yes: bool | None = True
) -> Iterator[tuple[str, bool | None]]:
    """For each place where a field is read: whether larger is better there; None: nobody knows."""
    match e.op:
        case "not":
            yield from wishes(e.args[0], kinds, None if yes is None else not yes)
        case "and" | "or" | "all" | "any":
            for part in e.args:
                yield from wishes(part, kinds, yes)
        case "le":
            yield from wishes(e.args[0], kinds, None if yes is None else not yes)
            yield from wishes(e.args[1], kinds, yes)
        case "add":
            yield from wishes(e.args[0], kinds, yes)
        case "select" if e.args[0].op in LEAVES:
            if e.args[0].op in kinds:
                yield e.args[0].data, yes if e.kind == BOOL or is_number(e.kind) else None
            for k in e.args[1:]:
                yield from wishes(k, kinds, None)
        case "field" | "after":
            if e.op in kinds:
                yield e.data, yes if e.kind == BOOL or is_number(e.kind) else None
        case _:
            for part in e.args:
                yield from wishes(part, kinds, None)


def _of_new(e: Expr, element: Expr, initial: Mapping[str, Any]) -> Expr:
    """The rest to show of a new element: TRUE where its entries, as they are, make it hold."""

    def left(literal: Expr) -> Expr:
        own = [x for x in _below(literal, "select") if element in x.args[1:] and _is_entry(x)]
        if any(isinstance(initial[x.args[0].data], Inconclusive) for x in own):
            return g.TRUE  # it may hold
        return _where(literal, {x: _constant(x.kind, initial[x.args[0].data]) for x in own})

    return _of_literals(e, left)


def _is_entry(e: Expr) -> bool:
    return e.args[0].op in LEAVES


def _of_literals(e: Expr, of: Callable[[Expr], Expr]) -> Expr:
    """A formula in normal form, with something else for each of its literals."""
    match e.op:
        case "and" | "or":
            join = g.conj if e.op == "and" else g.disj
            return join(*(_of_literals(a, of) for a in e.args))
        case "all" | "any":
            ranged = g.forall if e.op == "all" else g.exists
            return ranged(e.args[0], _of_literals(e.args[1], of))
    return of(e)


def _where(literal: Expr, known: Mapping[Expr, Expr]) -> Expr:
    """The rest of a literal where some entries are known."""
    return _with_naturals(g.substitute(literal, known))


def _constant(kind: Type, value: Any) -> Expr:
    if kind == BOOL:
        return g.boolean(value)
    if isinstance(kind, EnumOf):
        return g.const(kind, kind.members.index(value))
    return g.const(kind, value)


def _with_naturals(e: Expr) -> Expr:
    """A literal, where it says that a natural is not below 0."""
    if e.op == "le" and e.args[0].op == "const" and isinstance(e.args[1].kind, Nat):
        return g.TRUE if e.args[0].data <= 0 else e
    return e
