"""
Counts the edges of a spec that a replay visits, so coarsely that any size has finitely many.

An edge is an action, and what it found and what it left of those whom it names: their flags and
phases, whether an optional value is there (and is one of them), whether a number is zero, how long
a channel is. Who they are does not matter, nor what the others are like. So runs of all sizes can
be held against each other, and a campaign that goes on finds fewer and fewer new ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from itertools import product
from typing import Any

from herdspec.language.specification import Specification
from herdspec.language.surface import Sort
from herdspec.language.types import (
    Bool,
    ChannelOf,
    EnumOf,
    MachineOf,
    Nat,
    Option,
    OptionalRecord,
    Range,
    Rich,
    SetOf,
    Shape,
    SortOf,
    Table,
)

Read = Callable[[Any, tuple[Any, ...]], Any]
"""A function that reads the part of a state which an action with these arguments sees."""

CHOICES_KEPT = 4096
"""The number of choices of arguments that are kept with the entries that they name."""


class Edges:
    """Tells the edges of one spec; made once, used for all runs."""

    def __init__(self, specification: Specification) -> None:
        self._fields = [*_fields(specification.shape, "")]
        self._named: dict[tuple[str, Any], str] = {}
        self._entries = lru_cache(CHOICES_KEPT)(self._entries_of)

    def edge(self, before: Any, action: str, arguments: tuple[Any, ...], after: Any) -> str:
        """The name of a step's edge: a digest, the same in every process."""
        named = tuple(a for a in arguments if isinstance(a, Sort))
        entries = self._entries(named)
        seen = tuple(entry(state) for entry in entries for state in (before, after))
        known = self._named.get((action, seen))
        if known is None:
            told = repr((action, seen)).encode()
            known = self._named[action, seen] = blake2b(told, digest_size=8).hexdigest()
        return known

    def _entries_of(self, named: tuple[Any, ...]) -> list[Callable[[Any], Any]]:
        """Readers of the entries that these elements name, and of whatever is in no map."""
        found = []
        for path, kind in self._fields:
            value = _value(kind.value if isinstance(kind, Table) else kind, named)
            if not isinstance(kind, Table):
                found.append(_reader(path, (), value))
                continue
            for key in product(*(_keys(k, named) for k in kind.keys)):
                found.append(_reader(path, key, value))
        return found


def _fields(shape: Shape, prefix: str) -> list[tuple[tuple[str, ...], Rich]]:
    """Every field of a spec and of its parts, with the way to it."""
    found: list[tuple[tuple[str, ...], Rich]] = []
    for name, kind in shape.rich.items():
        path = f"{prefix}{name}"
        if isinstance(kind, MachineOf):
            found += _fields(kind.shape, f"{path}.")
        else:
            found.append((tuple(path.split(".")), kind))
    return found


def _reader(path: tuple[str, ...], key: tuple[Any, ...], value: Callable[[Any], Any]) -> Any:
    """Reads one entry of a state."""
    *parts, last = path
    at = key[0] if len(key) == 1 else key

    def read(state: Any) -> Any:
        for part in parts:
            state = getattr(state, part)
        found = getattr(state, last)
        return value(found[at] if key else found)

    return read


def _keys(kind: Any, named: tuple[Any, ...]) -> list[Any]:
    """The values of a key that are looked at: of a sort, those that are named."""
    match kind:
        case SortOf(name=name):
            return list(dict.fromkeys(a for a in named if type(a).__name__ == name))
        case EnumOf():
            return list(kind.members)
        case Bool():
            return [False, True]
    return []


def _value(kind: Any, named: tuple[Any, ...]) -> Callable[[Any], Any]:
    """The reader of a value."""
    match kind:
        case Bool():
            return bool
        case Nat() | Range():
            return lambda value: value != 0
        case EnumOf():
            return _name
        case SortOf():
            return lambda value: _who(value, named)
        case Option(of=of):
            inner = _value(of, named)
            return lambda value: None if value is None else ("some", inner(value))
        case OptionalRecord():
            return lambda value: value is not None
        case ChannelOf():
            return len
        case SetOf():
            return lambda value: len(value) > 0
    return _nothing  # a record: its numbers say nothing that could be compared


def _nothing(value: Any) -> None:
    del value


def _name(value: Enum) -> str:
    return value.name


def _who(value: Any, named: tuple[Any, ...]) -> int | str:
    """One of those who are named, by number; or another."""
    return named.index(value) if value in named else "another"


class VisitedEdges:
    """The edges that one run took; give it to a replay as its watch."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self.actions: dict[str, str] = {}
        """By edge, its action."""
        self.counts: Counter[str] = Counter()
        """By action, how often it was taken."""

    def __call__(self, before: Any, action: str, arguments: tuple[Any, ...], after: Any) -> None:
        """The spec has taken a step."""
        self.counts[action] += 1
        self.actions.setdefault(self._edges.edge(before, action, arguments, after), action)
