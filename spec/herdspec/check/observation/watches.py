"""
Clauses as straight Python: what an observed state's changes are held against.

Of each clause there are three slow functions over an instance: whether it may hold (what was told
last may have changed), whether it may as it was told, and whether it certainly does so. And there
is one fast function for each field, in which all clauses that watch it are inlined: plain Python,
which leaves a clause to the slow functions where it meets a value that is not known (`Doubt`).

In the code, `s_FIELD` are the entries as they are, `o_FIELD` those before the step that it has
changed, and `d_SORT` the elements seen of a sort; `k0`, `k1`, … are the parts of the changed key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from types import CodeType
from typing import Any, NamedTuple

from herdspec.check.observation.clauses import LEAVES, Clause, Place, clauses_of, needs
from herdspec.check.observation.inconclusive import READ, Doubt
from herdspec.engine.python_emit import PYTHON_TEXTS
from herdspec.language import graph as g
from herdspec.language.declared import Field
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation
from herdspec.language.types import (
    BOOL,
    Bool,
    EnumOf,
    MapOf,
    Option,
    Range,
    SortOf,
    Type,
    is_number,
)

JUDGED = (Expectation.ALWAYS, Expectation.STEP)
"""Expectations of which a violation can be seen as it happens."""


def word(field: str) -> str:
    """A field's name in emitted code: one of a part has a dot."""
    return field.replace(".", "__")


def keys_of(field: Field) -> tuple[Type, ...]:
    """The types of the parts of a field's key; none, where it is no map."""
    return field.kind.keys if isinstance(field.kind, MapOf) else ()


@dataclass(frozen=True)
class Watches:
    """Promises, compiled for a source that fills some of the spec's fields."""

    fields: Mapping[str, Field]
    initial: Mapping[str, Any]
    """By field that the source fills, what its entries are before anything is said of them."""
    promises: tuple[DeclaredProperty, ...]
    clauses: tuple[Clause, ...]
    """Of those promises whose fields are all filled."""
    sorts: tuple[str, ...]
    constants: Mapping[str, Any]
    slow: Mapping[str, CodeType]
    on: Mapping[str, CodeType]
    """By field."""
    of_state: Mapping[str, CodeType]
    """By field."""
    on_new: Mapping[str, CodeType]
    """By sort."""
    blocks: tuple[tuple[int, Place], ...]
    """The blocks of the fast functions by their numbers: a clause, and what it reads."""
    needs: Mapping[str, frozenset[str]]
    """By a promise's name, the fields that it speaks of."""
    steps: Mapping[str, tuple[tuple[int, Place], ...]]
    """By field, the clauses about steps that watch it, and which entries."""

    def keyed_by(self, sort: str) -> tuple[tuple[str, tuple[Type, ...], int], ...]:
        """The fields that have elements of a sort in their keys: the types of these, and where."""
        return self._by_sort[sort]

    @cached_property
    def _by_sort(self) -> dict[str, tuple[tuple[str, tuple[Type, ...], int], ...]]:
        return {
            sort: tuple(
                (name, kinds, kinds.index(SortOf(sort)))
                for name in self.initial
                if SortOf(sort) in (kinds := keys_of(self.fields[name]))
            )
            for sort in self.sorts
        }

    def missing(self, promise: DeclaredProperty) -> list[str]:
        """The fields of a promise that this source does not fill."""
        return sorted(self.needs[promise.name] - self.initial.keys())


def watches_of(
    spec: Specification, initial: Mapping[str, Any], promises: Iterable[DeclaredProperty] = ()
) -> Watches:
    """Compile promises of a spec (all but lemmas, if none is given) for these fields."""
    chosen = tuple(promises) or tuple(p for p in spec.properties if not p.lemma)
    fields = {f.name: f for f in spec.fields}
    if unknown := sorted(initial.keys() - fields.keys()):
        raise UsageError(f"{spec.name} has no field {unknown[0]!r}; it has {', '.join(fields)}")
    judged = [p for p in chosen if p.expectation in JUDGED and needs(p) <= initial.keys()]
    clauses = tuple(c for p in judged for c in clauses_of(p))
    emitter = _Emitter(clauses, fields, initial)
    slow = {name: code for k, c in enumerate(clauses) for name, code in emitter.slow(k, c)}
    on, of_state, on_new = (
        {name: code for name in names if (code := emit(name)) is not None}
        for names, emit in (
            (initial, lambda name: emitter.on_field(fields[name])),
            (initial, lambda name: emitter.of_state(fields[name])),
            (spec.sorts, emitter.on_new),
        )
    )
    return Watches(
        fields, initial, chosen, clauses, spec.sorts, emitter.constants, slow, on, of_state,
        on_new, tuple(emitter.blocks),
        {p.name: needs(p) for p in chosen},
        {
            name: tuple(
                (k, place)
                for k, c in enumerate(clauses) if c.is_step
                for place in c.watched.get(name, ())
            )
            for name in initial
        },
    )  # fmt: skip


class _Emitter:
    """Makes the functions, and numbers their blocks."""

    def __init__(
        self, clauses: Sequence[Clause], fields: Mapping[str, Field], initial: Mapping[str, Any]
    ) -> None:
        self.constants: dict[str, Any] = {}
        self.blocks: list[tuple[int, Place]] = []
        self._clauses = clauses
        self._fields = fields
        self._initial = initial

    def slow(self, number: int, clause: Clause) -> Iterable[tuple[str, CodeType]]:
        """A clause in plain Python, as told; and the three where that is in doubt, or fails."""
        arguments = ", ".join(_name(b) for b in clause.bounds)
        plain = _AsTold(self.constants, clause)
        parts = [
            line
            for part in _parts(clause)
            for line in (
                "try:", f"    if {plain.of(part)}: return True", "except Doubt: pass"
            )
        ]  # fmt: skip
        head = f"plain_{number}({arguments})"
        yield f"plain_{number}", _function(head, [*parts, "return False"])
        for name, seen, negated in (
            ("may", "untold", False), ("told", "as_told", False), ("sure", "as_told", True)
        ):  # fmt: skip
            text = _Kleene(self.constants, clause, seen).may(clause.body, not negated)
            text = f"not {text}" if negated else text
            name = f"{name}_{number}"
            yield name, _function(f"{name}({arguments})", [f"return {text}"])

    def on_field(self, field: Field) -> CodeType | None:
        """The code that a changed entry is held against; `old` is its value before the step."""
        return self._watch(f"on_{word(field.name)}(key, old)", field, self._clauses)

    def of_state(self, field: Field) -> CodeType | None:
        """The code that an entry is held against once it is known, though nothing has happened."""
        states = [c for c in self._clauses if not c.is_step]
        return self._watch(f"is_{word(field.name)}(key)", field, states)

    def _watch(self, head: str, field: Field, clauses: Iterable[Clause]) -> CodeType | None:
        """The clauses that watch a field; those that need not be looked at together are."""
        by_guard: dict[tuple[str, ...], list[tuple[int, list[str]]]] = {}
        has_changed = head.startswith("on_")
        for clause in clauses:
            for place in clause.watched.get(field.name, ()):
                guard = self._guard(field, clause, place, has_changed=has_changed)
                block = self._block(clause, place, field.name)
                by_guard.setdefault(guard, []).append((self._clauses.index(clause), block))
        if not by_guard:
            return None
        keys = _keys(len(keys_of(field)))
        lines = [
            f"now = s_{word(field.name)}[key]",
            *([f"{', '.join(keys)} = key"] if keys else []),
        ]
        return _function(head, [*lines, *_guarded(by_guard)])

    def _guard(
        self, field: Field, clause: Clause, place: Place, *, has_changed: bool
    ) -> tuple[str, ...]:
        """Tests of an entry by which it need not be looked at: it is right, or has become so."""
        wish = clause.wishes.get(field.name)
        is_one = {b for b in place if b in clause.bounds} == {*clause.bounds}
        kind = field.kind.value if isinstance(field.kind, MapOf) else field.kind
        easy = [
            value
            for value in _few_of(kind)
            if (is_one or wish is bool(value)) and clause.is_easy(field.name, place, kind, value)
        ]
        texts = ", ".join(_constant(self.constants, value) for value in easy)
        found = [f"now in ({texts},)"] if easy else []
        if has_changed and wish is not None and not (kind == BOOL and wish in easy):
            found.append("old <= now" if wish else "now <= old")
        return tuple(found)

    def on_new(self, sort: str) -> CodeType | None:
        """The code that a new element is held against."""
        lines = []
        kind = SortOf(sort)
        for clause in self._clauses:
            for bound in clause.minds(kind, self._initial):
                lines += self._block(clause, (bound,))
        return _function(f"new_{sort}(key)", ["k0 = key", *lines]) if lines else None

    def _block(self, clause: Clause, place: Place, field: str = "") -> list[str]:
        """One clause, for the instances that read an entry."""
        number, block = self._clauses.index(clause), len(self.blocks)
        self.blocks.append((number, place))
        body = _loops(_Plain(self.constants, clause, place, field), number, clause, place)
        return ["try:", *_indented(body), "except Doubt:", f"    doubt({block}, key)"]


def _guarded(
    by_guard: Mapping[tuple[str, ...], Sequence[tuple[int, list[str]]]],
) -> Iterable[str]:
    """Blocks of clauses (by numbers), each behind its tests; one that meets a doubt says no."""
    tests = {test: None for guard in by_guard for test in guard}
    names = {test: f"g{number}" for number, test in enumerate(tests)}
    if tests:
        yield f"{' = '.join(names.values())} = False"
        yield "try:"
        yield from _indented(f"{name} = {test}" for test, name in names.items())
        yield "except Doubt: pass"
    for guard, blocks in by_guard.items():
        lines = [line for _, block in blocks for line in block]
        if guard:
            held = "; ".join(f"held[{number}] += 1" for number, _ in blocks)
            yield f"if {' or '.join(names[test] for test in guard)}: {held}"
            yield "else:"
            lines = _indented(lines)
        yield from lines


def _few_of(kind: Type) -> Sequence[Any]:
    """The values of a type that are worth a test of their own."""
    match kind:
        case Bool():
            return (False, True)
        case EnumOf(members=members):
            return members
        case Option():
            return (None,)
    return (0,) if is_number(kind) else ()


def _loops(reader: _Plain, number: int, clause: Clause, place: Place) -> list[str]:
    """The instances that read an entry, one by one."""
    parts = [_Part(reader.of(e), _bounds_in(e, clause), _size(e)) for e in _parts(clause)]
    bound = {b for b in place if b in clause.bounds}
    for key, e in zip(_keys(len(place)), place, strict=True):
        if e is not None and e not in bound:  # an instance that reads another entry
            parts.insert(0, _Part(f"as_told({reader.of(e)}) != {key}", _bounds_in(e, clause), 0))
    return _nested(reader, number, clause, parts, bound, is_inside=False)


class _Part(NamedTuple):
    """Of what a clause is a disjunction: its text, the bounds that it speaks of, and its size."""

    text: str
    bounds: frozenset[Expr]
    size: int


def _bounds_in(e: Expr, clause: Clause) -> frozenset[Expr]:
    return frozenset(g.leaves(e, "var") & {*clause.bounds})


def _nested(
    reader: _Plain, number: int, clause: Clause, parts: Sequence[_Part], bound: set[Expr],
    *, is_inside: bool,
) -> list[str]:  # fmt: skip
    """
    Loops over the bounds that are left, each part before the loops that it does not depend on.

    The bound that most depends on comes first: what holds for it need not be looked at further.
    """
    ready = [part.text for part in parts if part.bounds <= bound]
    left = [b for b in clause.bounds if b not in bound]
    if left:
        parts = [part for part in parts if not part.bounds <= bound]
        first = max(left, key=lambda b: sum(p.size for p in parts if p.bounds <= {*bound, b}))
        body = _nested(reader, number, clause, parts, {*bound, first}, is_inside=True)
        lines = [f"for {reader.of(first)} in {reader.domain(first)}:", *_indented(body)]
    else:
        lines = [f"found({number}, ({''.join(f'{reader.of(b)}, ' for b in clause.bounds)}))"]
    if not ready:
        return lines
    holds = ["else:", f"    held[{number}] += 1"] if is_inside or not left else []
    return [f"if not ({' or '.join(ready)}):", *_indented(lines), *holds]


def _parts(clause: Clause) -> list[Expr]:
    """Of what a clause is a disjunction, the simplest first: what decides it need be known."""
    parts = clause.body.args if clause.body.op == "or" else (clause.body,)
    return sorted(parts, key=_size)


def _size(e: Expr) -> int:
    return 1 + sum(map(_size, e.args))


def _in(depth: int, text: str) -> str:
    return "    " * depth + text


def _indented(lines: Iterable[str]) -> list[str]:
    return [_in(1, line) for line in lines]


def _constant(constants: dict[str, Any], value: Any) -> str:
    """A constant's text; enumerations, and their members, get names."""
    match value:
        case type():
            name = f"c_{value.__name__}"
        case Enum():
            name = f"c_{type(value).__name__}_{value.name}"
        case _:
            return repr(value)
    constants[name] = value
    return name


def _keys(width: int) -> list[str]:
    return [f"k{n}" for n in range(width)]


def _name(variable: Expr) -> str:
    return f"v{variable.key}"


def _function(head: str, lines: Iterable[str]) -> CodeType:
    text = "\n    ".join([f"def {head}:", *lines])
    module = compile(text, f"<{head}>", "exec")
    return next(c for c in module.co_consts if isinstance(c, CodeType))


class _Logic:
    """The common part of both readings of an expression."""

    def __init__(self, constants: dict[str, Any], clause: Clause) -> None:
        self._constants = constants
        self._clause = clause

    def domain(self, bound: Expr) -> str:
        """The domain of a variable."""
        match bound.kind:
            case SortOf(name=name):
                return f"d_{name}"
            case Bool():
                return "(False, True)"
            case Range(top=top):
                return f"range({top + 1})"
            case EnumOf(cls=cls):
                return _constant(self._constants, cls)
        raise AssertionError(f"nothing to range over: {bound.kind}")

    def constant(self, e: Expr) -> str:
        """A constant, as the state has it."""
        value = e.kind.members[e.data] if isinstance(e.kind, EnumOf) else e.data
        return _constant(self._constants, value)

    def entry(self, table: Expr, key: str) -> str:
        """An entry before or after a step."""
        if table.op == "field" and self._clause.is_step:
            name = word(table.data)
            return f"(o_{name}[{key}] if {key} in o_{name} else s_{name}[{key}])"
        assert table.op in LEAVES, f"not an entry of a state: {table.op}"
        return f"s_{word(table.data)}[{key}]"


class _Plain(_Logic):
    """Plain Python, for an entry that has changed."""

    def __init__(
        self, constants: dict[str, Any], clause: Clause, place: Place = (), field: str = ""
    ) -> None:
        super().__init__(constants, clause)
        self._field = field
        self._names: dict[Expr, str] = {}
        for name, bound in zip(_keys(len(place)), place, strict=True):
            if bound is not None and bound in clause.bounds:
                self._names.setdefault(bound, name)
        self._changed = tuple(_keys(len(place)))

    def of(self, e: Expr) -> str:
        """The expression's text."""
        match e.op:
            case "const":
                return self.constant(e)
            case "var":
                return self._names.get(e) or _name(e)
            case "field" | "after":
                return self.entry(e, "()")
            case "select":
                return self.entry(e.args[0], self._key([self.of(k) for k in e.args[1:]]))
            case "any" if (point := _one_point(e)) is not None:
                value, rest = point
                there = f"({_name(e.args[0])} := {self.of(value)}) in {self.domain(e.args[0])}"
                return f"({there} and {self.of(rest)})"
            case "all" | "any":
                bound, body = e.args
                return f"{e.op}({self.of(body)} for {_name(bound)} in {self.domain(bound)})"
            case "number":
                *bounds, body = e.args
                ranges = " ".join(f"for {_name(b)} in {self.domain(b)}" for b in bounds)
                return f"sum(bool({self.of(body)}) {ranges})"
        return _TEXTS[e.op](e, [self.of(a) for a in e.args])

    def entry(self, table: Expr, key: str) -> str:
        """An entry before or after a step."""
        if table.data == self._field and key == ("key" if self._changed else "()"):
            return "old" if table.op == "field" and self._clause.is_step else "now"
        return super().entry(table, key)

    def _key(self, parts: list[str]) -> str:
        if tuple(parts) == self._changed:
            return "key"
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


class _AsTold(_Plain):
    """Plain Python, in which what was told last is still so."""

    def entry(self, table: Expr, key: str) -> str:
        """An entry before or after a step."""
        return f"as_told({super().entry(table, key)})"


def _one_point(e: Expr) -> tuple[Expr, Expr] | None:
    """Of "some element is this and …": this, and the rest."""
    bound, body = e.args
    for part in body.args if body.op == "and" else ():
        if part.op == "eq":
            for one, other in (part.args, part.args[::-1]):
                itself = one.args[0] if one.op == "some" else one
                if itself is bound and bound not in g.leaves(other, "var"):
                    return other, g.conj(*(p for p in body.args if p is not part))
    return None


_TEXTS: dict[str, Callable[[Expr, list[str]], str]] = {
    **PYTHON_TEXTS,
    "some": lambda _, args: args[0],
    "the": lambda _, args: args[0],
}
"""Emitters of plain Python, by operator."""


class _Kleene(_Logic):
    """The reading of a formula whose entries need not be known: may it hold?"""

    def __init__(self, constants: dict[str, Any], clause: Clause, seen: str) -> None:
        super().__init__(constants, clause)
        self._seen = seen

    def may(self, e: Expr, yes: bool = True) -> str:
        """The text that asks whether it may hold; or whether it may not."""
        match e.op:
            case "const":
                return repr(bool(e.data) == yes)
            case "not":
                return self.may(e.args[0], not yes)
            case "and" | "or":
                joined = " and " if (e.op == "and") == yes else " or "
                return f"({joined.join(self.may(a, yes) for a in e.args)})"
            case "all" | "any":
                bound, body = e.args
                word = "all" if (e.op == "all") == yes else "any"
                return f"{word}({self.may(body, yes)} for {_name(bound)} in {self.domain(bound)})"
            case "eq" | "le":
                return self._compared(e, yes)
            case "ite":
                test, a, b = e.args
                first = f"{self.may(test)} and {self.may(a, yes)}"
                return f"({first} or {self.may(test, False)} and {self.may(b, yes)})"
        return f"{'may_be' if yes else 'may_not_be'}({self.term(e)})"

    def _compared(self, e: Expr, yes: bool) -> str:
        a, b = map(self.term, e.args)
        names = ("may_equal", "may_differ") if e.op == "eq" else ("may_be_at_most", "may_exceed")
        text = f"{names[not yes]}({a}, {b})"
        entry = self._same_entry(*e.args)
        if entry is None:
            return text
        changed, key = entry  # one that the step has not changed is, unknown or not, what it was
        is_changed = f"{key} in o_{word(changed)}"
        return f"(not {is_changed} or {text})" if yes else f"({is_changed} and {text})"

    def _same_entry(self, a: Expr, b: Expr) -> tuple[str, str] | None:
        """The entry that is read twice, before and after a step."""
        tables = [x.args[0] if x.op == "select" else x for x in (a, b)]
        if {x.op for x in tables} != {*LEAVES} or len({x.data for x in tables}) != 1:
            return None
        if a.args[1:] != b.args[1:] or any(k.op != "var" for k in a.args[1:]):
            return None
        keys = [_name(k) for k in a.args[1:]]
        return tables[0].data, keys[0] if len(keys) == 1 else f"({', '.join(keys)})"

    def term(self, e: Expr) -> str:
        """The text of the value that it may be."""
        match e.op:
            case "const":
                return self.constant(e)
            case "var":
                return _name(e)
            case "some" | "the":
                return self.term(e.args[0])
            case "field" | "after":
                return f"{self._seen}({self.entry(e, '()')})"
            case "select":
                return self._select(e)
            case "ite" if e.kind != BOOL:
                test, a, b = e.args
                both = f"{self.may(test)}, {self.may(test, False)}"
                return f"chosen({both}, {self.term(a)}, {self.term(b)})"
            case "count":
                return self._between([self.may(a, True) for a in e.args], e.args)
            case "number":
                return self._number(e)
            case "add" | "plus" | "minus" | "mod" | "div":
                names = [f"x{n}" for n in range(len(e.args))]
                plain = _TEXTS[e.op](e, names)
                operands = ", ".join(map(self.term, e.args))
                return f"lifted(lambda {', '.join(names)}: {plain}, {operands})"
        assert e.kind == BOOL, f"no value that may be unknown: {e.op}"
        return f"truth({self.may(e)}, {self.may(e, False)})"

    def _select(self, e: Expr) -> str:
        table, *key = e.args
        if all(k.op == "var" for k in key):
            names = [_name(k) for k in key]
            at = names[0] if len(names) == 1 else f"({', '.join(names)})"
            return f"{self._seen}({self.entry(table, at)})"
        names = [f"x{n}" for n in range(len(key))]
        at = names[0] if len(names) == 1 else f"({', '.join(names)})"
        looked_up = f"lambda {', '.join(names)}: {self._seen}({self.entry(table, at)})"
        return f"lifted({looked_up}, {', '.join(map(self.term, key))})"

    def _between(self, may: list[str], args: Iterable[Expr]) -> str:
        sure = [f"(not {self.may(a, False)})" for a in args]
        return f"between({' + '.join(sure)}, {' + '.join(f'bool({m})' for m in may)})"

    def _number(self, e: Expr) -> str:
        *bounds, body = e.args
        ranges = " ".join(f"for {_name(b)} in {self.domain(b)}" for b in bounds)
        sure = f"sum(not {self.may(body, False)} {ranges})"
        return f"between({sure}, sum(bool({self.may(body)}) {ranges}))"


SPACE: Mapping[str, Any] = {**READ, "Doubt": Doubt}
"""The names that all emitted code knows."""
