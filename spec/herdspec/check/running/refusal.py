"""
Why a step is not possible: the statement of the spec that refuses it, and what that saw.

The plain Python is run once more; where it stops is the very `require` (or `assert`) that does not
hold, also inside of a helper. What it looked at is told by the parts of the action's guard that do
not hold, as the other readings have it, so that a reader need not work values out.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from herdspec.check.running.run import Machine, Step, said
from herdspec.check.running.wording import text
from herdspec.engine.ground import SlotKey
from herdspec.language.graph import Expr, leaves
from herdspec.language.reading.source import definitions
from herdspec.language.specification import Action
from herdspec.language.surface import Disabled, Spec, require, sizes_of_sorts
from herdspec.language.types import MapOf
from herdspec.language.values import decode

MOST_SEEN = 8
"""The number of entries that are told of one part of a guard."""


@dataclass(frozen=True)
class Refusal:
    """
    A step that is not possible.

    `statement` at `file`:`line` (1-based) refuses it; `parts` are the parts of the guard that do
    not hold, and `seen` the values that each of them saw ("" if it saw none).
    """

    label: str
    statement: str
    file: str
    line: int
    parts: tuple[str, ...]
    seen: tuple[str, ...]

    @property
    def place(self) -> str:
        """The file's name, and the line."""
        return f"{Path(self.file).name}:{self.line}"

    @property
    def summary(self) -> str:
        """In one line."""
        seen = next((f": {values}" for values in self.seen if values), "")
        return f"{self.label}: {self.statement} ({self.place}) does not hold{seen}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The statement and its place, then the parts that do not hold."""
        pairs = zip(self.parts, self.seen, strict=True)
        parts = (f"{part} does not hold" + (f": {seen}" if seen else "") for part, seen in pairs)
        return (f"{self.statement}  [{self.place}]", *parts)


def refusal(machine: Machine, state: Spec, action: Action, arguments: tuple[Any, ...]) -> Refusal:
    """Why this step is not possible in this state (it must not be)."""
    ground = machine.ground
    numbers = dict(zip(ground.slots, machine.numbers(state), strict=True))
    env = ground.environment(action.parameters, machine.arguments_numbers(action, arguments))
    parts, seen = [], []
    for part in action.guard.args if action.guard.op == "and" else (action.guard,):
        lowered = ground.lower(part, env)
        if not value(lowered, numbers):
            parts.append(text(part))
            seen.append(_seen(machine, lowered, numbers))
    label = Step(action, arguments, state).label
    file, line = _where(machine, state, action, arguments)
    return Refusal(label, _statement(file, line), file, line, tuple(parts), tuple(seen))


def value(e: Expr, numbers: Mapping[SlotKey, int]) -> int:
    """The value of a lowered expression in a state, given as the numbers of its slots."""
    if e.op == "const":
        return int(e.data)
    if e.op == "slot":
        return numbers[e.data]
    if e.op == "ite":
        return value(e.args[1] if value(e.args[0], numbers) else e.args[2], numbers)
    return _OPERATORS[e.op](e, (value(a, numbers) for a in e.args))


_OPERATORS: dict[str, Callable[[Expr, Iterator[int]], int]] = {
    "not": lambda _, a: not next(a),
    "and": lambda _, a: all(a),
    "or": lambda _, a: any(a),
    "eq": lambda _, a: next(a) == next(a),
    "le": lambda _, a: next(a) <= next(a),
    "add": lambda e, a: next(a) + int(e.data),
    "plus": lambda _, a: next(a) + next(a),
    "minus": lambda _, a: next(a) - next(a),
    "mod": lambda _, a: next(a) % next(a),
    "div": lambda _, a: next(a) // next(a),
    "count": lambda _, a: sum(a),
}


def _seen(machine: Machine, e: Expr, numbers: Mapping[SlotKey, int]) -> str:
    """The entries that a lowered expression reads, and their values."""
    read = {leaf.data for leaf in leaves(e, "slot")}
    slots = {key: slot for key, slot in machine.ground.slots.items() if key in read}
    values = [said(decode(s.kind, numbers[key], machine.sorts)) for key, s in slots.items()]
    found = [f"{entry_name(machine, key)} is {v}" for key, v in zip(slots, values, strict=True)]
    return ", ".join([*found[:MOST_SEEN], *(["…"] if found[MOST_SEEN:] else [])])


def entry_name(machine: Machine, key: SlotKey) -> str:
    """A slot's name, as stories print it: `lease[client1]`."""
    name, index = key
    kind = next((f.kind for f in machine.spec.fields if f.name == name), None)
    keys = kind.keys if isinstance(kind, MapOf) else ()
    inner = [said(decode(k, i, machine.sorts)) for k, i in zip(keys, index, strict=True)]
    return f"{name}[{', '.join(inner)}]" if inner else name


def _where(
    machine: Machine, state: Spec, action: Action, arguments: tuple[Any, ...]
) -> tuple[str, int]:
    """The file and the line at which the Python refuses the step."""
    after = state.copy()
    with sizes_of_sorts(machine.sizes):
        try:
            machine.method(after, action.name, arguments)
        except (Disabled, AssertionError) as refused:
            return _last(refused.__traceback__)
    return action.file, action.line


def _last(trace: TracebackType | None) -> tuple[str, int]:
    """The innermost place that is not `require` itself."""
    found = ("<unknown>", 1)
    while trace is not None:
        code = trace.tb_frame.f_code
        if code is not require.__code__:
            found = (code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _statement(file: str, line: int) -> str:
    """The statement around a line, on one line."""
    best: ast.stmt | None = None
    for definition in definitions(file).values():
        for node in ast.walk(definition):
            inside = isinstance(node, ast.Expr | ast.Assert) and (
                node.lineno <= line <= (node.end_lineno or node.lineno)
            )
            if inside and isinstance(node, ast.stmt):
                best = node
    return ast.unparse(best) if best else linecache.getline(file, line).strip()
