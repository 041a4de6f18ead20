"""
Each operator of the columns and of z3 (integers, bits), made wrong, is noticed by the comparison
with plain Python, or with the columns that agree with it.

The native code's operators are made wrong in test_native.py, against the columns.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import z3

from herdspec.check.exploration.explore import Explorer
from herdspec.engine import bits
from herdspec.engine.columns import Columns
from herdspec.engine.smt import Emitter
from herdspec.language.graph import Expr
from herdspec.language.specification import from_source
from properties.engine.readings import (
    UNDEFINED,
    Call,
    Numbers,
    by_columns,
    compare_steps,
    compare_with_z3,
    explorer,
)
from properties.language.test_rich_language import HEADER, some_states

BODIES = (
    "self.knows[a, b] = not self.knows[b, a] and (self.flag or a == b)",
    "require(self.n >= self.few)\nself.n = self.n - self.few",
    "require(self.n + self.few <= 3)\nself.n = min(self.n + self.few, 2)",
    "require(self.few < 3)\nself.few += 1",
    "self.flag = self.last is not None and self.last.sender == a",
    "self.kept[a] = self.kept[b] if self.who == a else Message(Kind.PING, b, 1)",
    "self.up = {x for x in Node if self.knows[a, x] or x in self.down}",
    "self.flag = all(self.knows[a, x] for x in self.up)",
    "self.n = (self.n + self.few) % 3\nself.few = (self.few - 1) // 2 + 1",
    "require(len(self.inbox[a]) > 0)\nself.last = self.inbox[a].pop(0)",
    "self.inbox[a].append(Message(Kind.PONG, b, 2))",
)
COUNTING = (
    "require(sum(self.knows[x, y] for x in Node for y in Node) < 3)\nself.n = len(self.up)",
)
COLUMNS = ("not", "and", "or", "ite", "eq", "le", "add", "plus", "minus", "mod", "div", "count")
FORMULAS = (
    "not",
    "and",
    "or",
    "ite",
    "eq",
    "le",
    "add",
    "plus",
    "minus",
    "mod",
    "div",
    "some",
    "the",
    "all",
)


@cache
def explored(bodies: tuple[str, ...]) -> tuple[Explorer, list[Numbers]]:
    """A spec with an action for each of these bodies, and some of its states."""
    text = HEADER
    for k, body in enumerate(bodies):
        lines = "".join(f"        {line}\n" for line in body.splitlines())
        text += f"    @action\n    def act{k}(self, a: Node, b: Node) -> None:\n{lines}\n"
    ex = explorer(from_source(text, "Rich"))
    return ex, some_states(ex, 8)


def compare_all_with_z3(ex: Explorer, rows: list[Numbers]) -> None:
    """The formulas say of each of these states what the plain Python says."""
    for row in rows:
        compare_with_z3(ex, row)


@pytest.mark.parametrize("operator", COLUMNS)
def test_an_operator_of_the_columns_made_wrong_is_noticed(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns in which one operator gives something else disagree with the plain Python."""
    ex, rows = explored((*BODIES, *COUNTING))
    right = Columns._compute

    def wrong(self: Columns, e: Expr) -> Any:
        found = right(self, e)
        if e.op != operator:
            return found
        return ~found if found.dtype == np.bool_ else found.astype(np.int64) + 1

    compare_steps(ex, rows)
    monkeypatch.setattr(Columns, "_compute", wrong)
    with pytest.raises((AssertionError, IndexError)):
        compare_steps(ex, rows)


@pytest.mark.parametrize("operator", FORMULAS)
def test_an_operator_of_the_formulas_made_wrong_is_noticed(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Formulas in which one operator means something else disagree with the plain Python."""
    ex, rows = explored(BODIES)
    right = Emitter._formula

    def wrong(self: Emitter, e: Expr) -> Any:
        found = right(self, e)
        return _other(found) if e.op == operator else found

    compare_all_with_z3(ex, rows)
    monkeypatch.setattr(Emitter, "_formula", wrong)
    with pytest.raises(AssertionError, match=r"z3 says|possible"):
        compare_all_with_z3(ex, rows)


@pytest.mark.parametrize("operator", COLUMNS)
def test_an_operator_of_the_bits_made_wrong_is_noticed(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terms over bits in which one operator means something else disagree with the columns."""
    ex, rows = explored((*BODIES, *COUNTING))
    expected = by_columns(ex, rows)
    right = bits.Terms._term

    def wrong(self: bits.Terms, e: Expr) -> Any:
        found = right(self, e)
        return _other(found) if e.op == operator else found

    assert [by_bits(ex, row) for row in rows] == expected
    monkeypatch.setattr(bits.Terms, "_term", wrong)
    assert any(by_bits(ex, row) != of for row, of in zip(rows, expected, strict=True))


def by_bits(ex: Explorer, row: Numbers) -> dict[Call, Numbers]:
    """The successors of a state within the bounds, as terms over bits have them."""
    emit, slots = bits.BitEmitter(ex.ground), list(ex.ground.slots)
    like, numbers = emit.fresh("s"), dict(zip(slots, row, strict=True))
    terms = emit.over({k: constant(emit, like[k], n) for k, n in numbers.items()})

    def value(e: Expr) -> int:
        term = z3.simplify(terms.of(e))
        return int(z3.is_true(term)) if z3.is_bool(term) else int(term.as_long())

    found: dict[Call, Numbers] = {}
    for instance in ex.ground.instances:
        call = instance.action.name, instance.arguments
        if not value(instance.guard):
            continue
        if not value(instance.defined):
            found[call] = UNDEFINED
            continue
        after = numbers | {k: value(e) for k, e in instance.updates.items()}
        within = all(after[k] < s.values for k, s in ex.ground.slots.items())
        if within and value(instance.fits):
            found[call] = tuple(after.values())
    return found


def constant(emit: bits.BitEmitter, like: Any, number: int) -> Any:
    """A slot's value as a term."""
    if z3.is_bool(like):
        return z3.BoolVal(bool(number), emit.context)
    return emit.narrowed(emit.number(number), like)


def _other(term: Any) -> Any:
    """A term of the same sort that is not equal to this one."""
    if z3.is_bool(term):
        return z3.Not(term)
    if z3.is_int(term) or z3.is_bv(term):
        return term + 1
    return z3.FreshConst(term.sort(), "wrong")
