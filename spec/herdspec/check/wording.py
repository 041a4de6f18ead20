"""
Expressions in the spec's words: as Python that reads like the spec, and that runs.

What is printed of a guard is the very text that was evaluated, over a state named `self`; so an
explanation cannot say anything else than what was found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from herdspec.check.run import Machine, said
from herdspec.language.graph import Expr
from herdspec.language.specification import Action
from herdspec.language.surface import Spec
from herdspec.language.types import EnumOf, SortOf

Truth = Callable[..., bool]
"""A guard or a part of one: takes the state, then the action's arguments."""


@dataclass(frozen=True)
class Conjunct:
    """One part of a guard; all of them must hold."""

    text: str
    holds: Truth
    reads: tuple[str, ...]
    """The entries that it looks at, as text: `self.answer[b]`."""
    values: Callable[..., tuple[Any, ...]]

    def seen(self, state: Spec, arguments: tuple[Any, ...]) -> str:
        """The values that it looked at."""
        found = zip(self.reads, self.values(state, *arguments), strict=True)
        return ", ".join(f"{text} is {said(value)}" for text, value in found)


def text(e: Expr) -> str:
    """An expression as Python, in parentheses where that may be needed."""
    a = [text(x) for x in e.args] if e.op not in ("all", "any", "lam", "or") else []
    match e.op:
        case "const":
            return _constant(e)
        case "field":
            return f"self.{e.data}"
        case "var":
            return str(e.data).partition("#")[0]
        case "not":
            return _negated(e.args[0])
        case "and":
            return f"({' and '.join(a)})"
        case "or":
            return _alternatives(e)
        case "eq":
            return _equality(e, "==")
        case "le" | "lt":
            return f"{a[0]} {'<=' if e.op == 'le' else '<'} {a[1]}"
        case "add":
            return f"{a[0]} + {e.data}"
        case "some" | "the":
            return a[0]
        case "select":
            return f"{a[0]}[{a[1]}]"
        case "ite":
            return f"({a[1]} if {a[0]} else {a[2]})"
        case "all" | "any":
            return f"{e.op}({text(e.args[1])} for {text(e.args[0])} in {_sort(e.args[0])})"
        case "lam":
            bound = text(e.args[0])
            return f"{{{bound}: {text(e.args[1])} for {bound} in {_sort(e.args[0])}}}"
        case "store":
            return f"{{**{a[0]}, {a[1]}: {a[2]}}}"
    raise AssertionError(f"the graph has no operator {e.op!r} that could be said")


def conjuncts(action: Action, machine: Machine) -> tuple[Conjunct, ...]:
    """The parts of an action's guard, in the spec's order."""
    parts = action.guard.args if action.guard.op == "and" else (action.guard,)
    return tuple(_conjunct(part, action, machine) for part in parts)


def guard(action: Action, machine: Machine) -> Truth:
    """The whole guard."""
    return _compiled(text(action.guard), action, machine)  # type: ignore[no-any-return]


def _conjunct(part: Expr, action: Action, machine: Machine) -> Conjunct:
    said_so = text(part)
    reads = tuple(sorted({text(entry) for entry in _entries(part)}, key=said_so.find))
    values = _compiled(f"({''.join(f'{read}, ' for read in reads)})", action, machine)
    return Conjunct(said_so, _compiled(said_so, action, machine), reads, values)


def _entries(e: Expr) -> list[Expr]:
    """The entries of the state that an expression names without a bound variable."""
    if e.op == "field":
        return [e]
    if e.op == "select" and e.args[0].op == "field":
        bound = e.args[1].op == "var" and "#" in str(e.args[1].data)
        return [] if bound else [e]
    return [found for x in e.args for found in _entries(x)]


def _compiled(words: str, action: Action, machine: Machine) -> Any:
    names = ", ".join(["self", *(name for name, _ in action.parameters)])
    return eval(f"lambda {names}: {words}", _vocabulary(machine))


def _vocabulary(machine: Machine) -> dict[str, Any]:
    """The names that texts use: the spec's enums and sorts."""
    found: dict[str, Any] = dict(machine.sorts)
    for field in machine.spec.fields:
        kinds = [field.kind, getattr(field.kind, "value", None), getattr(field.kind, "of", None)]
        found.update({k.cls.__name__: k.cls for k in kinds if isinstance(k, EnumOf)})
    for action in machine.spec.actions:
        kinds = [p.kind for _, p in action.parameters]
        found.update({k.cls.__name__: k.cls for k in kinds if isinstance(k, EnumOf)})
    return found


def _constant(e: Expr) -> str:
    if isinstance(e.kind, EnumOf):
        return f"{e.kind.cls.__name__}.{e.kind.members[e.data].name}"
    if isinstance(e.kind, SortOf):
        return f"{e.kind.name}({e.data})"
    return str(e.data)


def _negated(e: Expr) -> str:
    match e.op:
        case "eq":
            return _equality(e, "!=")
        case "le":
            return f"{text(e.args[1])} < {text(e.args[0])}"
    return f"not {text(e)}"


def _equality(e: Expr, sign: str) -> str:
    left, right = e.args
    if left.op == "const":
        left, right = right, left
    if right.op == "const" and right.data is None:
        return f"{text(left)} is {'not ' if sign == '!=' else ''}None"
    return f"{_grouped(left)} {sign} {_grouped(right)}"


def _grouped(e: Expr) -> str:
    """An operand of a comparison: Python would chain a comparison of its own."""
    return f"({text(e)})" if e.op in ("eq", "le", "lt", "not") else text(e)


def _alternatives(e: Expr) -> str:
    """`x in (A, B)` where one entry is compared with constants, else `or`."""
    sides = [x.args if x.args and x.args[0].op != "const" else x.args[::-1] for x in e.args]
    constants = all(x.op == "eq" and s[1].op == "const" for x, s in zip(e.args, sides, strict=True))
    if constants and len({s[0] for s in sides}) == 1:
        return f"{text(sides[0][0])} in ({', '.join(text(s[1]) for s in sides)})"
    return f"({' or '.join(map(text, e.args))})"


def _sort(bound: Expr) -> str:
    assert isinstance(bound.kind, SortOf), "what is bound runs over a sort"
    return bound.kind.name
