"""The fields that a class declares: their types, and the flat fields with their start values."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from herdspec.language.errors import SpecError
from herdspec.language.reading.source import read_type
from herdspec.language.rich import lifted, parts
from herdspec.language.surface import Each, Empty, Spec
from herdspec.language.types import (
    Bool,
    ChannelOf,
    EnumOf,
    MachineOf,
    Nat,
    Option,
    OptionalRecord,
    Range,
    RecordOf,
    Rich,
    Scalar,
    SetOf,
    Table,
    Type,
    is_scalar,
)

ANY = object()
"""The initial value of what may be anything at first (the messages of no tag, in proofs)."""


@dataclass(frozen=True)
class Field:
    """A flat part of the state, with the value it starts with (for a map: of each entry)."""

    name: str
    kind: Type
    initial: Any


Declared = tuple[Rich, Any, tuple[str, int]]
"""A field's type, what it was initialised with, and its place."""
_MISSING = object()


def declared(cls: type[Spec], names: Mapping[str, Any]) -> dict[str, Declared]:
    """The fields of a class and its bases below `Spec`, by name."""
    file = inspect.getsourcefile(defined(cls)) or "<unknown>"
    found = {}
    for base in reversed(cls.__mro__[: cls.__mro__.index(Spec)]):
        for name, hint in vars(base).get("__annotations__", {}).items():
            kind = _roomy(_field_type(base, name, hint, names, file), getattr(cls, "__room__", 0))
            place = (file, _line_of_field(base, name))
            found[name] = (kind, vars(base).get(name, _MISSING), place)
    return found


def _roomy(kind: Rich, room: int) -> Rich:
    """A type whose channels hold so many items at least."""
    match kind:
        case ChannelOf(capacity=capacity):
            return replace(kind, capacity=max(capacity, room))
        case Table(value=value):
            inner: Any = _roomy(value, room)
            return replace(kind, value=inner)
    return kind


def defined(cls: type[Spec]) -> type[Spec]:
    """The class that a class statement made: variants have none of their own."""
    return cls.__mro__[cls.__mro__.index(Spec) - 1]


def _field_type(cls: type[Spec], name: str, hint: Any, names: Mapping[str, Any], file: str) -> Rich:
    line = _line_of_field(cls, name)

    def refuse(what: str) -> SpecError:
        advice = (
            "use bool, Nat, an Enum, a Sort, a frozen dataclass, Optional of these, a set or dict "
            "from these, a channel, or another Spec"
        )
        return SpecError(file, line, f"the field `{name}`: {what}", advice)

    if isinstance(hint, str):
        module = vars(sys.modules[cls.__module__])
        try:
            hint = eval(hint, {**module, **names})
        except SpecError as error:  # of a word inside of it, which knows no place
            raise SpecError(file, line, error.construct, error.advice) from None
        except Exception as error:
            raise refuse(str(error)) from None
    return read_type(hint, refuse, names)


def place_of(cls: type[Spec]) -> tuple[str, int]:
    """The file and the line of the class statement that a class comes from."""
    return inspect.getsourcefile(defined(cls)) or "<unknown>", cls.__statement__.lineno


def _line_of_field(cls: type[Spec], name: str) -> int:
    statement: ast.ClassDef = cls.__statement__
    for s in statement.body:
        if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name) and s.target.id == name:
            return s.lineno
    return statement.lineno


def flat_fields(declarations: Mapping[str, Declared], relational: bool) -> Iterator[Field]:
    """The flat fields of all that is declared, in order."""
    for name, (kind, value, place) in declarations.items():
        yield from start(name, kind, value, place, relational)


def start(
    name: str, kind: Rich, value: Any, place: tuple[str, int], relational: bool
) -> Iterator[Field]:
    """The flat fields of a declared one, with their start values checked against the types."""

    def refuse(advice: str) -> SpecError:
        if value is _MISSING:
            return SpecError(*place, f"the field `{name}` without initial value", "give it one")
        return SpecError(*place, f"the initial value {value!r} of `{name}`", advice)

    match kind:
        case MachineOf(shape=shape) if value is _MISSING:
            known = shape.state.__specification__.names
            for f in flat_fields(declared(shape.state, known), relational):
                yield replace(f, name=f"{name}.{f.name}")
        case Table(keys=keys, value=of):
            if not isinstance(value, Each) and not isinstance(of, MachineOf):
                raise refuse("write each(value) for a dict")
            inner = value.value if isinstance(value, Each) else value
            for f in start(name, of, inner, place, relational):
                yield replace(f, kind=lifted(keys, f.kind))
        case SetOf() | ChannelOf():
            if not isinstance(value, Empty) and value not in ([], set()):
                raise refuse("write empty(): sets and channels start without elements")
            for flat, t in parts(kind, name, relational):
                inflight = isinstance(kind, ChannelOf) and relational and ".message" in flat
                yield Field(flat, t, ANY if inflight else None if isinstance(t, Option) else False)
        case RecordOf(parts=named) if isinstance(value, kind.cls):
            for part, of in named:
                yield from start(f"{name}.{part}", of, getattr(value, part), place, relational)
        case OptionalRecord(of=of):
            yield from _optional_start(name, of, value, place)
        case _ if is_scalar(kind) and _starts_with(kind, value):
            yield Field(name, kind, value)
        case _ if isinstance(value, Each):
            raise refuse("write the value itself for anything but a dict")
        case Nat() if isinstance(value, int):
            raise refuse("start with 0, 1, 2, …")
        case Range(top=top) if isinstance(value, int):
            raise refuse(f"start with a number from 0 to {top}")
        case _:
            raise refuse("start with a constant; elements can be chosen by an @initial method only")


def _optional_start(name: str, of: RecordOf, value: Any, place: tuple[str, int]) -> Iterator[Field]:
    if value is None:
        for flat, t in parts(OptionalRecord(of), name):
            yield Field(flat, t, None)
    else:
        for f in start(name, of, value, place, relational=False):
            assert is_scalar(f.kind), "the parts of a record are scalars"
            yield Field(f.name, Option(f.kind), f.initial)


def _starts_with(kind: Scalar, value: Any) -> bool:
    """Tells whether this is a start value of the type."""
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    match kind:
        case Bool():
            return isinstance(value, bool)
        case Nat():
            return number
        case Range(top=top):
            return number and value <= top
        case EnumOf(cls=cls):
            return isinstance(value, cls)
        case Option(of=of):
            return value is None or _starts_with(of, value)
    return False
