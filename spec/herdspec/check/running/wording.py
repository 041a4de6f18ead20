"""
Expressions in the spec's words: as Python that reads like the spec, and that runs.

What is printed of a guard is the very text that was evaluated, over a state named `self`; so an
explanation cannot say anything else than what was found. Where a spec has records, sets, channels
or parts, the text names their flat fields (`self.inbox.0.kind[b]`), and is evaluated over these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from itertools import count
from typing import Any, Protocol

from herdspec.check.running.run import Machine, said
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Action
from herdspec.language.surface import Spec
from herdspec.language.types import (
    Bool,
    EnumOf,
    MapOf,
    Option,
    Range,
    Rich,
    SortOf,
    Table,
    is_scalar,
)
from herdspec.language.types import said as said_kind

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


class FieldName(Protocol):
    """The name of a flat field in a text."""

    def __call__(self, name: str, /) -> str:
        """The text for the field of this name."""


def _shown(name: str) -> str:
    return f"self.{name}"


def _evaluated(name: str) -> str:
    return f"self[{name!r}]"


def _divisor(e: Expr) -> Expr:
    """The divisor, as it was written: it is 1 where that would be 0 (`graph.divisor`)."""
    guarded = e.op == "ite" and e.args[1].op == "const" and e.args[1].data == 1
    return e.args[2] if guarded else e


@dataclass(frozen=True)
class Words:
    """Expressions as Python text; `field` says how fields are named, `names` what is bound."""

    field: FieldName = _shown
    names: Mapping[Expr, str] = field_of(default_factory=dict)

    def text(self, e: Expr) -> str:
        """An expression as Python, in parentheses where that may be needed."""
        if e.op in ("all", "any", "number", "lam", "or", "not", "eq"):
            return self._special(e)
        a = [self.text(x) for x in e.args]
        match e.op:
            case "const":
                return _constant(e)
            case "field" | "after":
                return self.field(e.data)
            case "var":
                return self.names.get(e, _base(e))
            case "and":
                return f"({' and '.join(a)})"
            case "le":
                return f"{a[0]} <= {a[1]}"
            case "add":
                return f"{a[0]} {'-' if e.data < 0 else '+'} {abs(e.data)}"
            case "plus" | "minus":
                return f"({a[0]} {'+' if e.op == 'plus' else '-'} {a[1]})"
            case "mod" | "div":
                return f"({a[0]} {'%' if e.op == 'mod' else '//'} {self.text(_divisor(e.args[1]))})"
            case "count":
                return f"sum(({''.join(f'{x}, ' for x in a)}))"
            case "some" | "the":
                return a[0]
            case "select":
                return f"{a[0]}[{', '.join(a[1:])}]"
            case "ite":
                return f"({a[1]} if {a[0]} else {a[2]})"
            case "store":
                return f"{{**{a[0]}, {_key(a[1:-1])}: {a[-1]}}}"
        raise AssertionError(f"the graph has no operator {e.op!r} that could be said")

    def _special(self, e: Expr) -> str:
        """The text of an expression that binds names, or is said in more than one way."""
        match e.op:
            case "not":
                return self._negated(e.args[0])
            case "eq":
                return self._equality(e, "==")
            case "or":
                return self._alternatives(e)
        *bounds, body = e.args
        inner = self.binding(bounds, body)
        names = [inner.text(b) for b in bounds]
        loops = " ".join(f"for {n} in {_domain(b)}" for n, b in zip(names, bounds, strict=True))
        match e.op:
            case "lam":
                return f"{{{_key(names)}: {inner.text(body)} {loops}}}"
            case "number":
                return f"sum(1 {loops} if {inner.text(body)})"
        return f"{e.op}({inner.text(body)} {loops})"

    def binding(self, bounds: list[Expr], body: Expr) -> Words:
        """The words for what is inside: each variable has a name that means nothing else there."""
        names = dict(self.names)
        free = g.leaves(body, "var") - {*bounds}
        for bound in bounds:
            taken = {names.get(x, _base(x)) for x in (*free, *names)}
            name = candidate = _base(bound)
            number = count(2)
            while name in taken:
                name = f"{candidate}{next(number)}"
            names[bound] = name
        return replace(self, names=names)

    def _negated(self, e: Expr) -> str:
        match e.op:
            case "eq":
                return self._equality(e, "!=")
            case "le":
                return f"{self.text(e.args[1])} < {self.text(e.args[0])}"
        return f"not {self.text(e)}"

    def _equality(self, e: Expr, sign: str) -> str:
        left, right = e.args
        if left.op == "const":
            left, right = right, left
        if right.op == "const" and right.data is None:
            return f"{self.text(left)} is {'not ' if sign == '!=' else ''}None"
        return f"{self._grouped(left)} {sign} {self._grouped(right)}"

    def _grouped(self, e: Expr) -> str:
        """An operand of a comparison: Python would chain a comparison of its own."""
        return f"({self.text(e)})" if e.op in ("eq", "le", "not") else self.text(e)

    def _alternatives(self, e: Expr) -> str:
        """`x in (A, B)` where one entry is compared with constants, else `or`."""
        sides = [x.args if x.args and x.args[0].op != "const" else x.args[::-1] for x in e.args]
        pairs = list(zip(e.args, sides, strict=True))
        constants = all(x.op == "eq" and s[1].op == "const" for x, s in pairs)
        if constants and len({s[0] for s in sides}) == 1:
            return f"{self.text(sides[0][0])} in ({', '.join(self.text(s[1]) for s in sides)})"
        return f"({' or '.join(map(self.text, e.args))})"


def _base(variable: Expr) -> str:
    """The name that the spec's author gave a variable."""
    return str(variable.data).partition("#")[0]


text = Words().text
"""An expression as Python."""


def conjuncts(action: Action, machine: Machine) -> tuple[Conjunct, ...]:
    """The parts of an action's guard, in the spec's order."""
    parts = action.guard.args if action.guard.op == "and" else (action.guard,)
    return tuple(_conjunct(part, action, machine) for part in parts)


def guard(action: Action, machine: Machine) -> Truth:
    """The whole guard."""
    found: Truth = _compiled([action.guard], action, machine, _one)
    return found


def _conjunct(part: Expr, action: Action, machine: Machine) -> Conjunct:
    said_so = text(part)
    entries = sorted(set(_entries(part)), key=lambda entry: said_so.find(text(entry)))
    values = _compiled(entries, action, machine, _tuple)
    truth = _compiled([part], action, machine, _one)
    return Conjunct(said_so, truth, tuple(map(text, entries)), values)


Frame = Callable[[list[str]], str]


def _one(texts: list[str]) -> str:
    return texts[0]


def _tuple(texts: list[str]) -> str:
    return f"({''.join(f'{t}, ' for t in texts)})"


def _entries(e: Expr) -> list[Expr]:
    """The entries of the state that an expression names without a bound variable."""
    if e.op == "field":
        return [e]
    if e.op == "select" and e.args[0].op == "field":
        bound = any(i.op == "var" and "#" in str(i.data) for i in e.args[1:])
        return [] if bound else [e]
    return [found for x in e.args for found in _entries(x)]


def _compiled(parts: list[Expr], action: Action, machine: Machine, frame: Frame) -> Any:
    """These expressions as a function of the state and the action's arguments."""
    plain = all(_is_plain(kind) for kind in machine.spec.rich.values())
    words = Words(_shown if plain else _evaluated)
    names = ", ".join(["self", *(name for name, _ in action.parameters)])
    found = eval(f"lambda {names}: {frame(list(map(words.text, parts)))}", _vocabulary(machine))
    if plain:
        return found
    return lambda state, *arguments: found(machine.flat(state), *arguments)


def _is_plain(kind: Rich) -> bool:
    """Tells whether a field's Python value is its flat value."""
    return is_scalar(kind) or (isinstance(kind, Table) and is_scalar(kind.value))


def _vocabulary(machine: Machine) -> dict[str, Any]:
    """The names that texts use: the spec's enums and sorts."""
    found: dict[str, Any] = dict(machine.sorts)
    kinds: list[Any] = [field.kind for field in machine.spec.fields]
    kinds += [p.kind for action in machine.spec.actions for _, p in action.parameters]
    while kinds:
        match kinds.pop():
            case EnumOf(cls=cls):
                found[cls.__name__] = cls
            case Option(of=of):
                kinds.append(of)
            case MapOf(keys=keys, value=value):
                kinds += [*keys, value]
    return found


def _constant(e: Expr) -> str:
    if isinstance(e.kind, EnumOf):
        return f"{e.kind.cls.__name__}.{e.kind.members[e.data].name}"
    if isinstance(e.kind, SortOf):
        return f"{e.kind.name}({e.data})"
    return str(e.data)


def _key(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _domain(bound: Expr) -> str:
    match bound.kind:
        case Range(top=top):
            return f"range({top + 1})"
        case Bool():
            return "(False, True)"
    return said_kind(bound.kind)
