"""The types of a spec's values: bools, naturals, enums, sorts, optional values, total maps."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


@dataclass(frozen=True, slots=True)
class Bool:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Nat:
    """A natural number: unbounded in *run* and *prove*, bounded in *explore*."""


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
    """A value of a type, or its absence."""

    of: Bool | Nat | EnumOf | SortOf


@dataclass(frozen=True, slots=True)
class MapOf:
    """A total map from a sort."""

    key: SortOf
    value: Bool | Nat | EnumOf | SortOf | Option


Scalar = Bool | Nat | EnumOf | SortOf | Option
Type = Scalar | MapOf

BOOL = Bool()
NAT = Nat()


def said(kind: Type) -> str:
    """How an error message names a type."""
    match kind:
        case Bool():
            return "bool"
        case Nat():
            return "Nat"
        case EnumOf(cls=cls):
            return cls.__name__
        case SortOf(name=name):
            return name
        case Option(of=of):
            return f"Optional[{said(of)}]"
        case MapOf(key=key, value=value):
            return f"dict[{said(key)}, {said(value)}]"
