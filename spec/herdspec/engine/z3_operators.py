"""The operators that z3 writes alike for integers and for bits: both emitters of z3 share them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import z3

from herdspec.language.graph import Expr

OPERATORS: Mapping[str, Callable[..., Any]] = {
    "not": z3.Not, "and": z3.And, "or": z3.Or, "ite": z3.If,
    "eq": operator.eq,
    "le": operator.le,  # of bits it is the signed one: a difference may be below 0
    "plus": operator.add, "minus": operator.sub,
    "mod": operator.mod,  # what divides is above 0: then both kinds round down, as Python does
    "div": lambda a, b: (a - a % b) / b,
}  # fmt: skip
"""Each takes the terms of an expression's arguments."""


def applied(e: Expr, args: list[Any], number: Callable[[int], Any]) -> Any:
    """An expression's operator, applied to the terms of its arguments; `number` makes constants."""
    match e.op:
        case "add":
            return args[0] + number(e.data)
        case "count":
            return z3.Sum(*(z3.If(a, number(1), number(0)) for a in args))
    assert e.op in OPERATORS, f"not an operator of z3's emitters: {e.op}"
    return OPERATORS[e.op](*args)
