"""
Ground expressions as Python functions over rows of numbers: the emitter of random walks.

`columns.py` looks every node of an expression up each time, which costs more than the arithmetic
where there are few states. Walks evaluate the same expressions again and again: here they become
the text of a function, a line for each node that is shared, compiled once.

A table holds a row of numbers for each slot, in the order of the ground spec, and a column for each
state: bytes, or wider numbers where a slot needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herdspec.engine.columns import Column, Key
from herdspec.language.graph import Expr
from herdspec.language.types import BOOL

Table = NDArray[np.unsignedinteger[Any]]
"""One row for each slot, one column for each state."""
Picked = NDArray[np.int64]
"""The numbers of some columns."""
Evaluated = Callable[[Table, Table | None, Picked | slice], list[Column]]
"""Takes the table, that after a step (if it is asked), and of which columns; gives a row each."""


def emitted(wanted: Sequence[Expr], order: Mapping[Key, int]) -> Evaluated:
    """A function that evaluates these expressions; `order` says which row a slot has."""
    text = Text(order)
    names = [text.name(e) for e in wanted]
    lines = "".join(f"    {line}\n" for line in text.lines)
    source = f"def evaluate(now, after, picked):\n{lines}    return [{', '.join(names)}]\n"
    made: dict[str, Any] = {"np": np, "truths": truths}
    exec(compile(source, "<rows>", "exec"), made)
    found: Evaluated = made["evaluate"]
    return found


def truths(row: Column) -> Column:
    """A row of zeros and ones as truths; bytes need not be copied."""
    return row.view(bool) if row.itemsize == 1 else row != 0


class Text:
    """The body of a function: a line for each node, what comes first first."""

    def __init__(self, order: Mapping[Key, int]) -> None:
        self.order = order
        self.lines: list[str] = []
        self.names: dict[Expr, str] = {}

    def name(self, e: Expr) -> str:
        """The name of a node's value, or the constant itself where it stands in another node."""
        if e not in self.names:
            if e.op == "const":
                self.names[e] = self._line(f"np.full(now.shape[1], {e.data!r})[picked]")
            else:
                self.names[e] = self._line(self._said(e, [self._part(a) for a in e.args]))
        return self.names[e]

    def _line(self, said: str) -> str:
        name = f"x{len(self.lines)}"
        self.lines.append(f"{name} = {said}")
        return name

    def _part(self, e: Expr) -> str:
        """An argument: a number stands for itself, widely typed where it is no byte."""
        if e.op != "const" or e.kind == BOOL:
            return self.name(e)
        return repr(e.data) if 0 <= e.data < 256 else f"np.int64({e.data!r})"

    def _said(self, e: Expr, a: list[str]) -> str:
        match e.op:
            case "slot" | "slot after":
                table = "now" if e.op == "slot" else "after"
                row = f"{table}[{self.order[e.data]}, picked]"
                return f"truths({row})" if e.kind == BOOL else row
            case "not":
                return f"~{a[0]}"
            case "and" | "or":
                return (" & " if e.op == "and" else " | ").join(a)
            case "ite":
                return f"np.where({', '.join(a)})"
            case "eq":
                return f"{a[0]} == {a[1]}"
            case "le":
                return f"{a[0]} <= {a[1]}"
            case "add":
                return f"{a[0]} + np.int64({e.data!r})"  # may leave a byte
            case "plus" | "minus":
                return f"np.int64(0) + {a[0]} {'+' if e.op == 'plus' else '-'} {a[1]}"
            case "mod" | "div":
                return f"(np.int64(0) + {a[0]}) {'%' if e.op == 'mod' else '//'} {a[1]}"
            case "count":
                return " + ".join([f"{a[0]}.astype(np.int64)", *a[1:]])
        raise AssertionError(f"not a ground operator: {e.op}")
