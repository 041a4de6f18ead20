"""
Between plain Python values and the numbers of slots.

A scalar is one number: 0/1, a natural, an enum's position, a sort's index; an optional value is one
more than what it holds, 0 is absence. A rich value is a list of numbers for each of its flat parts
(`rich.parts`), an entry for each choice of the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from herdspec.language.rich import optional, parts
from herdspec.language.surface import Sort
from herdspec.language.types import (
    Bool,
    ChannelOf,
    EnumOf,
    Key,
    MachineOf,
    Option,
    OptionalRecord,
    Range,
    RecordOf,
    Rich,
    Scalar,
    SetOf,
    SortOf,
    Table,
    is_scalar,
)

Lists = list[list[int]]
"""One list for each flat part."""
BEYOND = 1 << 62
"""No slot holds so much: a channel that is longer than its capacity."""
OUTSIDE = -1
"""No slot holds so little: a set or a map holds what is no value of its type."""


def encode(kind: Scalar, value: Any) -> int:
    """A plain value as a number."""
    match kind:
        case Option(of=of):
            return 0 if value is None else _there(encode(of, value))
        case EnumOf(members=members):
            return members.index(value)
        case SortOf() if isinstance(value, Sort):
            return value.index
    return int(value)


def _there(number: int) -> int:
    """A number that is not absent: below zero it is none of its type, and no absence (0) either."""
    return 1 + number if number >= 0 else number


def decode(kind: Scalar, number: int, sorts: Mapping[str, type[Sort]]) -> Any:
    """The plain value that a number stands for; the reverse of `encode`."""
    return decoder(kind, sorts)(number)


def decoder(kind: Scalar, sorts: Mapping[str, type[Sort]]) -> Callable[[int], Any]:
    """The function that `decode` applies to the numbers of one kind."""
    match kind:
        case Option(of=of):
            inner = decoder(of, sorts)
            return lambda number: None if number == 0 else inner(number - 1)
        case EnumOf(members=members):
            return members.__getitem__
        case SortOf(name=name):
            return sorts[name]
        case Bool():
            return bool
    return int


@dataclass(frozen=True)
class Plain:
    """The plain values of a spec's types at given sizes."""

    sorts: Mapping[str, type[Sort]]
    sizes: Mapping[str, int]

    @cached_property
    def _domains(self) -> dict[tuple[Key, ...], list[Any]]:
        return {}

    def elements(self, kind: Key) -> list[Any]:
        """All values of a key's type, in order."""
        match kind:
            case Bool():
                return [False, True]
            case Range(top=top):
                return list(range(top + 1))
            case EnumOf(members=members):
                return list(members)
            case SortOf(name=name):
                return [self.sorts[name](k) for k in range(self.sizes[name])]

    def keys(self, kinds: tuple[Key, ...]) -> list[Any]:
        """All keys of a map: values, or tuples where there is more than one."""
        if kinds not in self._domains:
            found: list[Any] = list(product(*map(self.elements, kinds)))
            self._domains[kinds] = [k for (k,) in found] if len(kinds) == 1 else found
        return self._domains[kinds]

    def members(self, kind: SetOf) -> list[Any]:
        """All that could be in a set."""
        if kind.record is None:
            return self.keys(kind.keys)
        found = []
        for key in product(*map(self.elements, kind.keys)):
            lists = [[encode(k, v)] for k, v in zip(kind.keys, key, strict=True)]
            found.append(self.build(kind.record, lists))
        return found

    def lists(self, kind: Rich, value: Any) -> Lists:
        """A plain value as numbers."""
        match kind:
            case Table(keys=keys, value=of):
                columns = [self.lists(of, value[key]) for key in self.keys(keys)]
                found = [[n for c in column for n in c] for column in zip(*columns, strict=True)]
                if len(value) != len(columns):
                    found[0][0] = OUTSIDE
                return found
            case SetOf():
                within = [int(e in value) for e in self.members(kind)]
                return [within if sum(within) == len(value) else [OUTSIDE, *within[1:]]]
            case RecordOf(parts=named):
                return [c for part, of in named for c in self.lists(of, getattr(value, part))]
            case OptionalRecord(of=of):
                if value is None:
                    return [[0] for _ in parts(kind)]
                return [[_there(n) for n in column] for column in self.lists(of, value)]
            case ChannelOf():
                return self._cells(kind, value)
            case MachineOf(shape=shape):
                return [
                    c for f, of in shape.rich.items() for c in self.lists(of, value.__dict__[f])
                ]
        return [[encode(kind, value)]]

    def _cells(self, kind: ChannelOf, value: list[Any]) -> Lists:
        absent = [None] * (kind.capacity - len(value))
        of = optional(kind.item)
        found = [c for item in [*value, *absent][: kind.capacity] for c in self.lists(of, item)]
        if len(value) > kind.capacity:
            found[0] = [BEYOND]
        return found

    def build(self, kind: Rich, lists: Sequence[Sequence[int]]) -> Any:
        """The reverse of `lists`."""
        match kind:
            case Table(keys=keys, value=of):
                return self._table(keys, of, lists)
            case SetOf():
                members = zip(self.members(kind), lists[0], strict=True)
                return {member for member, inside in members if inside}
            case RecordOf(cls=cls, parts=named):
                given = self.apart(dict(named), lists)
                return cls(**given)
            case OptionalRecord(of=of):
                if any(column[0] == 0 for column in lists):
                    return None
                return self.build(of, [[n - 1 for n in column] for column in lists])
            case ChannelOf():
                width = len(lists) // kind.capacity
                cells = [lists[k : k + width] for k in range(0, len(lists), width)]
                built = [self.build(optional(kind.item), cell) for cell in cells]
                return [item for item in built if item is not None]
            case MachineOf(shape=shape):
                made = object.__new__(shape.state)
                made.__dict__.update(self.apart(shape.rich, lists))
                return made
        return decode(kind, lists[0][0], self.sorts)

    def _table(self, keys: tuple[Key, ...], of: Rich, lists: Sequence[Sequence[int]]) -> Any:
        names = self.keys(keys)
        if is_scalar(of):
            return dict(zip(names, map(decoder(of, self.sorts), lists[0]), strict=True))
        widths = [len(column) // len(names) for column in lists]
        return {
            key: self.build(
                of, [c[k * w : (k + 1) * w] for c, w in zip(lists, widths, strict=True)]
            )
            for k, key in enumerate(names)
        }

    def apart(self, named: Mapping[str, Rich], lists: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Several values one after the other, by name."""
        found, at = {}, 0
        for name, of in named.items():
            is_flat = is_scalar(of.value if isinstance(of, Table) else of)
            width = 1 if is_flat else sum(1 for _ in parts(of))
            found[name] = self.build(of, lists[at : at + width])
            at += width
        return found
