"""Types and values of the spec language: elements, initial values, copies, keys."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from properties.oracle.source import Source, SpecClass


class NoMeaning(Exception):
    """A look at what is absent, or a number out of its range."""


class Impossible(Exception):
    """A guard fails: the step is not possible."""


class Element(NamedTuple):
    """An element of a sort."""

    sort: str
    number: int


class Member(NamedTuple):
    """A member of an enum."""

    enum: str
    name: str


class Record(NamedTuple):
    """A value of a frozen dataclass, by its fields in order."""

    kind: str
    parts: tuple[Any, ...]


class Unset:
    """The value of a field that no declaration gives one; an initial method must."""


UNSET = Unset()


@dataclass
class Instance:
    """A state of a spec: the values of its fields, parts included."""

    spec: SpecClass
    fields: dict[str, Any]


@dataclass(frozen=True)
class Type:
    """A type: its kind, its name or limit, and the types within it."""

    kind: str
    name: str = ""
    inner: tuple[Type, ...] = ()
    limit: int | None = None


class World:
    """A source with a number of elements of each sort."""

    def __init__(self, source: Source, sizes: dict[str, int]) -> None:
        self.source = source
        self.sizes = sizes
        self.types: dict[str, dict[str, Type]] = {}

    def fields(self, spec: SpecClass) -> dict[str, Type]:
        """The types of a spec's fields."""
        if spec.name not in self.types:
            found = {name: self.type(note) for name, (note, _) in spec.fields.items()}
            self.types[spec.name] = found
        return self.types[spec.name]

    def type(self, note: ast.expr) -> Type:
        """What an annotation stands for."""
        if isinstance(note, ast.Constant) and isinstance(note.value, str):
            return self.type(ast.parse(note.value, mode="eval").body)
        if isinstance(note, ast.BinOp):
            sides = (note.left, note.right)
            some = next(s for s in sides if not (isinstance(s, ast.Constant) and s.value is None))
            return Type("optional", inner=(self.type(some),))
        if isinstance(note, ast.Subscript):
            return self._generic(ast.unparse(note.value), note.slice)
        return self._plain(ast.unparse(note))

    def _plain(self, name: str) -> Type:
        source = self.source
        kinds = {"bool": "bool", "Nat": "nat", "int": "nat"}
        if name in kinds:
            return Type(kinds[name])
        if name in source.names:
            return self.type(source.names[name])
        groups = {
            "sort": source.sorts, "enum": source.enums, "record": source.records,
            "part": source.specs,
        }  # fmt: skip
        return Type(next(kind for kind, group in groups.items() if name in group), name)

    def _generic(self, name: str, inside: ast.expr) -> Type:
        parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
        if name == "Annotated":
            base = self.type(parts[0])
            return Type(base.kind, base.name, base.inner, self._limit(parts[1]))
        kinds = {"dict": "map", "set": "set", "frozenset": "set", "list": "list", "tuple": "tuple"}
        return Type(kinds[name], inner=tuple(self.type(p) for p in parts))

    def _limit(self, call: ast.expr) -> int:
        assert isinstance(call, ast.Call)
        given = call.args[0]
        if isinstance(given, ast.Name):
            given = self.source.names[given.id]
        assert isinstance(given, ast.Constant)
        assert isinstance(given.value, int)
        return given.value

    def domain(self, kind: Type) -> list[Any]:
        """All values of a finite type."""
        match kind.kind:
            case "bool":
                return [False, True]
            case "nat":
                assert kind.limit is not None, "only a bounded natural has a domain"
                return list(range(kind.limit + 1))
            case "sort":
                return [Element(kind.name, k) for k in range(self.sizes[kind.name])]
            case "enum":
                return [Member(kind.name, m) for m in self.source.enums[kind.name]]
            case "optional":
                return [None, *self.domain(kind.inner[0])]
            case "tuple":
                return [tuple(v) for v in product(*(self.domain(t) for t in kind.inner))]
            case "record":
                inner = [self.type(note) for note, _ in self.source.records[kind.name].values()]
                return [Record(kind.name, v) for v in product(*map(self.domain, inner))]
            case "set":
                few = self.domain(kind.inner[0])
                chosen = product([False, True], repeat=len(few))
                return [{v for v, c in zip(few, c, strict=True) if c} for c in chosen]
            case "map":
                keys, values = map(self.domain, kind.inner)
                every = product(values, repeat=len(keys))
                return [dict(zip(keys, v, strict=True)) for v in every]
        raise AssertionError(f"{kind.kind} has no domain")

    def check(self, kind: Type, value: Any) -> None:
        """Raise where a value has no meaning at this type: a number out of range, an absence."""
        match kind.kind:
            case "optional":
                if value is not None:
                    self.check(kind.inner[0], value)
            case "nat":
                if value is None or value < 0 or (kind.limit is not None and value > kind.limit):
                    raise NoMeaning(f"{value} is out of range")
            case "record" if value is not None:
                inner = [self.type(note) for note, _ in self.source.records[kind.name].values()]
                for t, v in zip(inner, value.parts, strict=True):
                    self.check(t, v)
            case "tuple":
                for t, v in zip(kind.inner, value, strict=True):
                    self.check(t, v)
            case "map":
                for v in value.values():
                    self.check(kind.inner[1], v)
            case "set" | "list":
                for v in value:
                    self.check(kind.inner[0], v)
            case "part":
                for name, t in self.fields(value.spec).items():
                    self.check(t, value.fields[name])
            case _:
                if value is None:
                    raise NoMeaning("an absent value where there must be one")


def copied(value: Any) -> Any:
    """A value that shares nothing that can change with another."""
    if isinstance(value, Instance):
        return Instance(value.spec, {k: copied(v) for k, v in value.fields.items()})
    if isinstance(value, dict):
        return {k: copied(v) for k, v in value.items()}
    if isinstance(value, set):
        return set(value)
    if isinstance(value, list):
        return list(value)
    return value


def key(value: Any) -> Hashable:
    """What two equal values, and no others of the same type, have in common."""
    if isinstance(value, Instance):
        return tuple(key(v) for v in value.fields.values())
    if isinstance(value, dict):
        return frozenset((k, key(v)) for k, v in value.items())
    if isinstance(value, set):
        return frozenset(value)
    if isinstance(value, list):
        return tuple(value)
    return value  # type: ignore[no-any-return]


def leaves(value: Any, kind: Type, world: World) -> Iterator[tuple[str, int, int]]:
    """What a search bounds in a value: `nat` and the number, `list`, the length, the capacity."""
    if kind.kind == "nat" and kind.limit is None:
        yield "nat", value, 0
    elif kind.kind == "optional" and value is not None:
        yield from leaves(value, kind.inner[0], world)
    elif kind.kind in ("list", "set"):
        if kind.kind == "list":
            yield "list", len(value), kind.limit or 0
        for v in value:
            yield from leaves(v, kind.inner[0], world)
    elif kind.kind == "map":
        for v in value.values():
            yield from leaves(v, kind.inner[1], world)
    elif kind.kind == "record":
        notes = [note for note, _ in world.source.records[kind.name].values()]
        for note, v in zip(notes, value.parts, strict=True):
            yield from leaves(v, world.type(note), world)
    elif kind.kind == "part":
        for name, t in world.fields(value.spec).items():
            yield from leaves(value.fields[name], t, world)
