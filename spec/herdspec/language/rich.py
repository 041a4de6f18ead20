"""
Rich values taken apart: a record, a set, a channel or a machine is a family of flat expressions.

A field `inbox: dict[Node, Annotated[list[Message], Capacity(2)]]` is, to every reading, the flat
fields `inbox.0.kind`, `inbox.0.sender`, `inbox.1.kind`, …: maps from nodes to optional values. The
cells of a channel are filled from the first; an optional record is absent in all of its parts.

For proofs a channel has another form (`relational`): a map from *tags* to messages, and which tags
are in flight. It knows no order, so it allows more than the channel does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.types import (
    BOOL,
    INT,
    NAT,
    ChannelOf,
    Item,
    Key,
    MachineOf,
    MapOf,
    Nat,
    Option,
    OptionalRecord,
    Range,
    RecordOf,
    Rich,
    Scalar,
    SetOf,
    SortOf,
    Table,
    Type,
    is_scalar,
)

Fields = Mapping[str, Expr]
"""The expression that each flat field stands for, by name."""
TAG = SortOf("Tag")
"""Identifies a message in flight, where channels are relational."""


def parts(kind: Rich, name: str = "", relational: bool = False) -> Iterator[tuple[str, Type]]:
    """The flat fields of a rich one, in order: names that begin with its own, and their types."""
    match kind:
        case Table(keys=keys, value=value):
            for inner, flat in parts(value, name, relational):
                yield inner, lifted(keys, flat)
        case SetOf(keys=keys):
            yield name, MapOf(keys, BOOL)
        case RecordOf(parts=named):
            for part, inside in named:
                yield from parts(inside, f"{name}.{part}")
        case OptionalRecord(of=of):
            for inner, flat in parts(of, name):
                assert is_scalar(flat), "the parts of a record are scalars"
                yield inner, Option(flat)
        case ChannelOf() if relational:
            yield from parts(in_flight(kind)[0], f"{name}.sent")
            yield from parts(in_flight(kind)[1], f"{name}.message")
        case ChannelOf(capacity=capacity):
            for cell in range(capacity):
                yield from parts(optional(kind.item), f"{name}.{cell}")
        case MachineOf(shape=shape):
            for field, written in shape.rich.items():
                yield from parts(written, joined(name, field), relational)
        case _:
            yield name, kind


def in_flight(kind: ChannelOf) -> tuple[Table, Table]:
    """A channel in relational form: which tags are in flight, and the message of each."""
    return Table((TAG,), BOOL), Table((TAG,), kind.item)


def lifted(keys: tuple[Key, ...], flat: Type) -> MapOf:
    """The maps from these keys to values of a flat type, as one map."""
    if isinstance(flat, MapOf):
        return MapOf((*keys, *flat.keys), flat.value)
    return MapOf(keys, flat)


def optional(item: Scalar | RecordOf) -> Item:
    """The type of an item that may be absent."""
    return OptionalRecord(item) if isinstance(item, RecordOf) else Option(item)


def joined(prefix: str, name: str) -> str:
    """A part's flat name; the state as a whole has none."""
    return f"{prefix}.{name}" if prefix else name


@dataclass(frozen=True)
class Struct:
    """A rich value: its flat expressions by their names below it."""

    kind: Rich
    parts: Mapping[str, Expr]

    def part(self, name: str) -> Expr | Struct:
        """A record's part."""
        assert isinstance(self.kind, RecordOf), "only records have named parts"
        return self.below(f".{name}", dict(self.kind.parts)[name])

    def below(self, prefix: str, kind: Rich) -> Expr | Struct:
        """The value of this type whose flat names begin so."""
        if is_scalar(kind):
            return self.parts[prefix]
        return Struct(kind, {inner: self.parts[prefix + inner] for inner, _ in parts(kind)})

    def each(self, kind: Rich, change: Callable[[Expr], Expr]) -> Struct:
        """A value of another type, every flat expression of this one changed."""
        return Struct(kind, {name: change(e) for name, e in self.parts.items()})

    @property
    def present(self) -> Expr:
        """The condition that an optional record is there."""
        first = next(iter(self.parts.values()))
        assert isinstance(first.kind, Option), "asked of optional records only"
        return g.negate(g.eq(first, g.none(first.kind)))

    @property
    def held(self) -> Struct:
        """The record that an optional one is, where it is there."""
        assert isinstance(self.kind, OptionalRecord), "asked of optional records only"
        return self.each(self.kind.of, g.the)

    @property
    def flat(self) -> tuple[Expr, ...]:
        """All flat expressions, in order."""
        return tuple(self.parts.values())


Value = Expr | Struct


def record(kind: RecordOf, given: Mapping[str, Value]) -> Struct:
    """A record of these parts."""
    found: dict[str, Expr] = {}
    for name, _ in kind.parts:
        value = given[name]
        inner = {"": value} if isinstance(value, Expr) else value.parts
        found.update({f".{name}{suffix}": e for suffix, e in inner.items()})
    return Struct(kind, found)


def absent(kind: Option | OptionalRecord) -> Value:
    """The absence of an optional value."""
    if isinstance(kind, Option):
        return g.none(kind)
    inner = dict(parts(kind))
    return Struct(kind, {name: g.none(t) for name, t in inner.items() if isinstance(t, Option)})


def empty(kind: SetOf | ChannelOf) -> Struct:
    """No element, no message (in cells)."""
    found: dict[str, Expr] = {}
    for name, flat in parts(kind):
        if isinstance(flat, MapOf):
            found[name] = g.lam(tuple(g.fresh("x", k) for k in flat.keys), g.FALSE)
        else:
            assert isinstance(flat, Option), "the cells of a channel are optional"
            found[name] = g.none(flat)
    return Struct(kind, found)


def choose(test: Expr, a: Value, b: Value) -> Value:
    """One of two values of one type."""
    if isinstance(a, Expr) and isinstance(b, Expr):
        return g.ite(test, a, b)
    assert isinstance(a, Struct), "both of one type"
    assert isinstance(b, Struct), "both of one type"
    return Struct(a.kind, {name: g.ite(test, e, b.parts[name]) for name, e in a.parts.items()})


def equal(a: Value, b: Value) -> Expr:
    """The condition that two values of one type are equal."""
    if isinstance(a, Expr) and isinstance(b, Expr):
        return g.same(a, b)
    assert isinstance(a, Struct), "both of one type"
    assert isinstance(b, Struct), "both of one type"
    return g.conj(*(g.same(e, b.parts[name]) for name, e in a.parts.items()))


def within(kind: Type, e: Expr) -> Expr:
    """The condition that a value is one of its type: numbers may have left their range."""
    match kind:
        case MapOf(keys=keys, value=value):
            bounds = tuple(g.fresh("k", k) for k in keys)
            found = within(value, g.select(e, *bounds))
            for bound in reversed(bounds):
                found = g.forall(bound, found)
            return found
        case Option(of=of) if isinstance(e.kind, Option):
            return g.disj(g.eq(e, g.none(e.kind)), within(of, g.the(e)))
        case Nat() | Range():
            low = g.le(g.const(NAT, 0), e) if e.kind == INT else g.TRUE
            return g.conj(low, g.le(e, g.const(NAT, kind.top))) if isinstance(kind, Range) else low
    return g.TRUE


@dataclass(frozen=True)
class Place:
    """Where a value stands in a state: a name, and the indices taken so far."""

    name: str
    indices: tuple[Expr, ...]
    kind: Rich

    def attribute(self, name: str) -> Place:
        """A record's part, or a machine's field; KeyError (the known ones) for another name."""
        match self.kind:
            case RecordOf(parts=named):
                known: Mapping[str, Rich] = dict(named)
            case MachineOf(shape=shape):
                known = shape.rich
            case _:
                known = {}
        if name not in known:
            raise KeyError(", ".join(known))
        return Place(joined(self.name, name), self.indices, known[name])

    def entry(self, indices: tuple[Expr, ...]) -> Place:
        """An entry of a table."""
        assert isinstance(self.kind, Table), "only tables have entries"
        return replace(self, indices=(*self.indices, *indices), kind=self.kind.value)

    def below(self, name: str, kind: Rich) -> Place:
        """Something that is kept under a further name."""
        return replace(self, name=f"{self.name}.{name}", kind=kind)

    def names(self, relational: bool = False) -> list[str]:
        """The flat fields that it touches."""
        return [name for name, _ in parts(self.kind, self.name, relational)]

    def read(self, fields: Fields, relational: bool = False) -> Value:
        """The value that stands there."""
        if is_scalar(self.kind):
            return g.select(fields[self.name], *self.indices)
        found = {
            name.removeprefix(self.name): g.select(fields[name], *self.indices)
            for name in self.names(relational)
        }
        return Struct(self.kind, found)

    def write(self, fields: dict[str, Expr], value: Value) -> None:
        """Put a value of the same type there."""
        inner = {"": value} if isinstance(value, Expr) else value.parts
        for suffix, e in inner.items():
            name = self.name + suffix
            if self.indices:
                fields[name] = g.store(fields[name], self.indices, e)
            else:
                fields[name] = e
