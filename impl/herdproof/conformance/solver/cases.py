"""
The cases of an action: how its guard may hold, or fail, and what its text tells apart.

A guard that is a disjunction holds in as many ways; `require(a or b)` has two cases, `x in (A, B)`
two as well, and what is required one after the other multiplies. They need not exclude each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from herdspec.check.running.wording import text
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Action
from herdspec.language.types import BOOL, MapOf

MOST_CASES = 32
"""A guard is not split into more cases than these."""


@dataclass(frozen=True, eq=False)
class GuardCase:
    """
    One way in which an action's guard holds (`allowed`), or fails.

    `formula` is over the state's fields and the action's parameters.
    """

    action: Action
    way: Expr
    allowed: bool

    @property
    def formula(self) -> Expr:
        """The way, and that the step has a meaning."""
        return g.conj(self.way, self.action.defined, self.action.fits) if self.allowed else self.way

    @property
    def text(self) -> str:
        """The way in the spec's words."""
        return _bare(text(self.way)).replace("self.", "")


def _bare(told: str) -> str:
    """Without the brackets around all of it, where the first one ends at the last letter."""
    depths = list(accumulate((letter == "(") - (letter == ")") for letter in told))
    return told[1:-1] if told.startswith("(") and all(depths[:-1]) else told


def cases_of(action: Action, *, allowed: bool) -> list[GuardCase]:
    """All cases of an action."""
    whole = action.guard if allowed else g.negate(action.guard)
    return [GuardCase(action, way, allowed) for way in disjuncts(whole)]


def disjuncts(e: Expr) -> list[Expr]:
    """The ways in which a condition holds; quantified ones are taken whole."""
    match e.op:
        case "or":
            found = [way for a in e.args for way in disjuncts(a)]
        case "and":
            found = _product(e.args)
        case "ite":
            test, a, b = e.args
            found = [*_product((test, a)), *_product((g.negate(test), b))]
        case "not" if e.args[0].op in ("and", "or", "ite"):
            found = disjuncts(_inward(e.args[0]))
        case _:
            found = [e]
    found = [way for way in dict.fromkeys(found) if way is not g.FALSE]
    return found if len(found) <= MOST_CASES else [e]


def _product(parts: Iterable[Expr]) -> list[Expr]:
    """The ways in which all of these hold."""
    found = [g.TRUE]
    for part in parts:
        ways = disjuncts(part)
        if len(found) * len(ways) > MOST_CASES:
            ways = [part]
        found = [g.conj(one, way) for one in found for way in ways]
    return found


def _inward(e: Expr) -> Expr:
    """The negation of a condition, a step further inside."""
    if e.op == "ite":
        return g.node("ite", BOOL, (e.args[0], *map(g.negate, e.args[1:])))
    parts = map(g.negate, e.args)
    return g.disj(*parts) if e.op == "and" else g.conj(*parts)


def nodes(parts: Iterable[Expr]) -> list[Expr]:
    """Every node of some expressions, once, in order."""
    found: dict[Expr, None] = {}
    todo = list(parts)[::-1]
    while todo:
        e = todo.pop()
        if e not in found:
            found[e] = None
            todo.extend(reversed(e.args))
    return list(found)


def conditions(parts: Iterable[Expr]) -> list[Expr]:
    """The comparisons and look-ups of the state in expressions without quantifiers."""
    kinds = ("eq", "le", "select", "field")
    found = [e for e in nodes(parts) if e.kind == BOOL and e.op in kinds]
    return [e for e in found if g.leaves(e, "field")]


def looked_at(parts: Iterable[Expr]) -> list[Expr]:
    """The fields, and the entries of maps, that expressions without quantifiers look at."""
    return [
        e
        for e in nodes(parts)
        if (e.op == "field" and not isinstance(e.kind, MapOf))
        or (e.op == "select" and e.args[0].op == "field")
    ]
