"""
The types of a spec's values.

Two levels. *Flat* types are all that the readings know: scalars, optional scalars, and total maps
from scalars to these. *Rich* types are what a spec is written with: records, sets, channels and
machines beside the flat ones. `rich.py` takes a rich value apart into flat ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeGuard


@dataclass(frozen=True, slots=True)
class Bool:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Nat:
    """A natural number: unbounded in *run* and *prove*, bounded in *explore*."""


@dataclass(frozen=True, slots=True)
class Range:
    """A natural number up to `top`, in every reading: to leave it is undefined."""

    top: int


@dataclass(frozen=True, slots=True)
class EnumOf:
    """One of an `Enum`'s members, in their order of definition."""

    cls: type[Enum]

    @property
    def members(self) -> tuple[Enum, ...]:
        """The members, in order."""
        return tuple(self.cls)


@dataclass(frozen=True, slots=True)
class SortOf:
    """An element of a sort: a symmetric set whose size is chosen by the reading."""

    name: str
    cls: type[Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Option:
    """A value of a type, or its absence (a part of an optional record may be optional itself)."""

    of: Scalar


Key = Bool | Range | EnumOf | SortOf
"""The types that a map may be from, and that a quantifier may range over."""
Scalar = Bool | Nat | Range | EnumOf | SortOf | Option


@dataclass(frozen=True, slots=True)
class MapOf:
    """A total map from one or more keys (a relation, where the values are bools)."""

    keys: tuple[Key, ...]
    value: Scalar


Type = Scalar | MapOf
"""A flat type."""


@dataclass(frozen=True, slots=True)
class RecordOf:
    """A frozen dataclass: named parts that are scalars, optional scalars or records."""

    cls: type[Any]
    parts: tuple[tuple[str, Scalar | RecordOf], ...]


@dataclass(frozen=True, slots=True)
class OptionalRecord:
    """A record, or its absence: flat, each of its parts is optional, and all are or none."""

    of: RecordOf


Item = Scalar | RecordOf | OptionalRecord
"""The types of an entry of a map, or of a message."""


@dataclass(frozen=True, slots=True)
class SetOf:
    """A finite set; of `record`s, of tuples (more than one key), or of plain values."""

    keys: tuple[Key, ...]
    record: RecordOf | None = None


@dataclass(frozen=True, slots=True)
class ChannelOf:
    """A first-in-first-out sequence of at most `capacity` items; more is beyond the bound."""

    item: Scalar | RecordOf
    capacity: int


@dataclass(frozen=True, eq=False)
class Shape:
    """The shape of a spec, as others need to know it: its fields' types, methods' texts, class."""

    name: str
    rich: Mapping[str, Rich]
    methods: Mapping[str, Any]
    state: type[Any]
    seen: dict[Any, Any] = field(default_factory=dict)
    """Values from outside that its texts use (`outside.Seen`)."""
    translations: dict[Any, Any] = field(default_factory=dict)
    """The meanings of its texts, and of its properties' (`reading.shared.Translation`)."""
    inherited: Mapping[Any, Any] = field(default_factory=dict)
    """The translations of the spec that it is a variant of, with the same fields and names."""
    replaced: frozenset[Any] = frozenset()
    """The functions of that spec which are others here, or gone."""


@dataclass(frozen=True, slots=True)
class MachineOf:
    """A spec's state; as a field, that of a part of a composed spec."""

    shape: Shape

    @property
    def name(self) -> str:
        """The spec's name."""
        return self.shape.name


Value = Item | SetOf | ChannelOf | MachineOf


@dataclass(frozen=True, slots=True)
class Table:
    """A total map from keys to rich values."""

    keys: tuple[Key, ...]
    value: Value


Rich = Value | Table
"""A type as a spec's author writes it."""

BOOL = Bool()
NAT = Nat()
INT = Range(-1)
"""A difference of naturals: it may be compared; what is stored must not be negative."""


def is_number(kind: Any) -> TypeGuard[Nat | Range]:
    """Tells whether values of this type are numbers, which compare with each other."""
    return isinstance(kind, Nat | Range)


def is_scalar(kind: Any) -> TypeGuard[Scalar]:
    """Tells whether one number can hold a value of this type."""
    return isinstance(kind, Bool | Nat | Range | EnumOf | SortOf | Option)


def is_key(kind: Any) -> TypeGuard[Key]:
    """Tells whether a map may be from this type: it has finitely many values at each size."""
    return isinstance(kind, Bool | Range | EnumOf | SortOf)


def said(kind: Rich | Type) -> str:
    """The words in which an error message names a type."""
    match kind:
        case Bool():
            return "bool"
        case Nat():
            return "Nat"
        case Range(top=top):
            return f"number up to {top}" if top >= 0 else "difference of numbers"
        case EnumOf(cls=cls) | RecordOf(cls=cls):
            return cls.__name__
        case SortOf(name=name):
            return name
        case Option(of=of) | OptionalRecord(of=of):
            return f"Optional[{said(of)}]"
        case MapOf(keys=keys, value=value) | Table(keys=keys, value=value):
            return f"dict[{_said_of(keys)}, {said(value)}]"
        case SetOf(keys=keys, record=record):
            return f"set[{said(record) if record else _said_of(keys)}]"
        case ChannelOf(item=item, capacity=capacity):
            return f"channel of {capacity} {said(item)}"
        case MachineOf(shape=shape):
            return shape.name


def _said_of(keys: tuple[Key, ...]) -> str:
    inner = ", ".join(map(said, keys))
    return inner if len(keys) == 1 else f"tuple[{inner}]"
