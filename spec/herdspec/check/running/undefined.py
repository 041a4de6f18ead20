"""
Why a step has no meaning: the value, the expression that it stands in, and the line.

The plain Python is run once more. Where it looks into what is absent or empty, the place at which
it stops says what; where a number leaves its range (which binds at the end of a step only), the
lines are watched, and the last one that made the state so is named.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from herdspec.check.running.refusal import entry_name
from herdspec.check.running.run import NOT_THERE, Machine, Step, said
from herdspec.check.running.turns import every_turn
from herdspec.engine.ground import FAULTS, Slot
from herdspec.language.errors import UsageError
from herdspec.language.specification import Action
from herdspec.language.surface import Disabled, Spec, sizes_of_sorts
from herdspec.language.types import Bool, Option, Range, Rich, Table, is_scalar
from herdspec.language.values import BEYOND, OUTSIDE, encode

COMPOUND = (ast.If, ast.For, ast.Match, ast.FunctionDef, ast.ClassDef)
"""Statements that hold others."""
MACHINERY = ("herdspec.check", "herdspec.language")
"""Packages whose frames are none of a spec."""


def undefined_step(
    machine: Machine, state: Spec, action: Action, arguments: tuple[Any, ...]
) -> Step:
    """A step that has no meaning here: it leads nowhere, and says why."""
    why = why_undefined(machine, state, action, arguments)
    return Step(action, arguments, state, why)


def undefined_start(machine: Machine, action: Action, arguments: tuple[Any, ...]) -> UsageError:
    """The error for an initial state that has no meaning: which choice it is, and why."""
    initial = machine.initial()
    why = why_undefined(machine, initial, action, arguments)
    label = Step(action, arguments, initial).label
    what = f"{machine.spec.name} cannot begin by {label}, which looks at a value that is not there"
    return UsageError(f"{what}, or leaves a range: {why}; require that it is there")


def why_undefined(machine: Machine, state: Spec, action: Action, arguments: tuple[Any, ...]) -> str:
    """Why a step has no meaning in a state in which it has none."""
    after = state.copy()
    watch = _Watch(machine, after)
    with sizes_of_sorts(machine.sizes), every_turn():
        try:
            watch.run(action, arguments)
        except (Disabled, AssertionError):
            pass
        except NOT_THERE as error:
            return _looked_up(error)
    return watch.sentence or "a value has left its range"


# ── What was looked up ──────────────────────────────────────────────────────────────────────


def _looked_up(error: Exception) -> str:
    """The words for what Python did not find, and where."""
    trace = next(reversed([t for t in _traces(error) if _is_of_spec(t.tb_frame)]))
    frame, file = trace.tb_frame, trace.tb_frame.f_code.co_filename
    node = _expression(trace)
    place = f"{Path(file).name}:{trace.tb_lineno}"
    if node is None:
        by = _statement(file, trace.tb_lineno)
        return f"{type(error).__name__}: {error}, by `{by}` ({place})"
    why = next(_absences(node, frame), str(error))
    return f"{why}, in `{ast.unparse(node)}` ({place})"


def _traces(error: Exception) -> Iterator[TracebackType]:
    """The places that an error went through, the innermost last."""
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_of_spec(frame: FrameType) -> bool:
    """Tells whether a spec's text is running, and no machinery of ours."""
    return not str(frame.f_globals.get("__name__")).startswith(MACHINERY)


def _expression(trace: TracebackType) -> ast.expr | ast.stmt | None:
    """The expression (or `+=`) that Python was evaluating."""
    code = trace.tb_frame.f_code
    at = _position(code, trace.tb_lasti)
    for node in ast.walk(_tree(code.co_filename)):
        if isinstance(node, ast.expr | ast.AugAssign) and at == (
            node.lineno, node.end_lineno, node.col_offset, node.end_col_offset,
        ):  # fmt: skip
            return node
    return None


def _position(code: CodeType, instruction: int) -> tuple[int | None, ...]:
    return [*code.co_positions()][instruction // 2]


def _absences(node: ast.AST, frame: FrameType) -> Iterator[str]:
    """The parts of an expression that are absent or empty, or look up where nothing is."""
    values = {}
    for part in _parts(node):
        text = ast.unparse(part)
        try:
            value = values[text] = eval(text, frame.f_globals, frame.f_locals)
        except Exception:  # what cannot be seen is not told
            continue
        if value is None:
            yield f"`{text}` is absent"
        elif value == []:
            yield f"`{text}` is empty"
    if isinstance(node, ast.Subscript) and (at := ast.unparse(node.slice)) in values:
        yield f"`{ast.unparse(node.value)}` has nothing at {said(values[at])}"


def _parts(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Attribute(value=owner) | ast.Call(func=ast.Attribute(value=owner)):
            return [owner]
        case ast.Subscript(value=owner, slice=ast.Tuple(elts=keys)):
            return [owner, *keys]
        case ast.Subscript(value=owner, slice=key):
            return [owner, key]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.AugAssign(target=target, value=value):
            return [target, value]
    return []


# ── What was assigned ───────────────────────────────────────────────────────────────────────


@dataclass
class _Watch:
    """Runs an action line by line; `problem` is what is wrong with the state, `by` the line."""

    machine: Machine
    state: Spec
    problem: str = ""
    by: tuple[str, int] | None = None
    _last: tuple[str, int] | None = field(default=None, repr=False)

    def run(self, action: Action, arguments: tuple[Any, ...]) -> None:
        """Take the action, in place."""
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            self.machine.method(self.state, action.name, arguments)
        finally:
            sys.settrace(before)
            self._look()

    @property
    def sentence(self) -> str:
        """The sentence on what is wrong with the last state, and by which statement; or nothing."""
        if not self.problem or self.by is None:
            return self.problem
        file, line = self.by
        return f"{self.problem}, by `{_statement(file, line)}` ({Path(file).name}:{line})"

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        return self._line if _is_of_spec(frame) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if event == "line":
            self._look()
            self._last = (frame.f_code.co_filename, frame.f_lineno)
        return self._line

    def _look(self) -> None:
        """Look whether the line before has made the state so."""
        trace = sys.gettrace()
        sys.settrace(None)
        found = next(_problems(self.machine, self.state), "")
        sys.settrace(trace)
        if found != self.problem:
            self.problem, self.by = found, self._last


def _problems(machine: Machine, state: Spec) -> Iterator[str]:
    """The parts of a state that are no values of their types."""
    for name, kind in machine.spec.rich.items():
        yield from _of_field(machine, name, kind, state.__dict__[name])
    try:
        numbers = machine.numbers(state)
    except (*NOT_THERE, ValueError):
        yield "an absent value would be assigned"
        return
    for (key, slot), number in zip(machine.ground.slots.items(), numbers, strict=True):
        if isinstance(slot.kind, Bool) and number == OUTSIDE:  # it is not said of which member
            yield f"`{slot.field}` would hold an absent value"
        elif slot.field != FAULTS and (why := _outside(slot, number)):
            yield f"`{entry_name(machine, key)}` {why}"


def _of_field(machine: Machine, name: str, kind: Rich, value: Any) -> Iterator[str]:
    """Of a map: a key that it has not; of a plain entry: what is no value of its type."""
    entries = [(name, value)]
    if isinstance(kind, Table):
        keys = machine.plain.keys(kind.keys)
        for key in value:
            if key not in keys:
                yield f"`{name}` would be written at {_key(key)}"
        entries = [(f"{name}[{said(k)}]", value[k]) for k in keys if k in value]
        kind = kind.value
    for entry, v in entries if is_scalar(kind) else ():
        try:
            encode(kind, v)  # type: ignore[arg-type]
        except (*NOT_THERE, ValueError):
            yield f"`{entry}` would be {'absent' if v is None else said(v)}"


def _key(key: Any) -> str:
    """A key that is none."""
    absent = key is None or (isinstance(key, tuple) and None in key)
    return "an absent key" if absent else f"{said(key)}, which is no key of it"


def _outside(slot: Slot, number: int) -> str:
    """Why this is no value of a slot, if it is none."""
    if number < 0:
        return f"would be {number}, below zero"
    kind = slot.kind
    while isinstance(kind, Option):
        kind, number = kind.of, number - 1
    if isinstance(kind, Range) and kind.top < number < BEYOND:
        return f"would be {number}, beyond UpTo({kind.top})"
    return ""


# ── Texts ───────────────────────────────────────────────────────────────────────────────────


def _tree(file: str) -> ast.Module:
    return ast.parse("".join(linecache.getlines(file)))


def _statement(file: str, line: int) -> str:
    """The innermost statement around a line."""
    best: ast.stmt | None = None
    for node in ast.walk(_tree(file)):
        if not isinstance(node, ast.stmt) or isinstance(node, COMPOUND):
            continue
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            best = node
    return ast.unparse(best) if best else linecache.getline(file, line).strip()
