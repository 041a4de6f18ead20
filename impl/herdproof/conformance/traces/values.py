"""
Values of a trace as values of a spec: names become elements, numbers become ranks.

A line is written in the code's own terms. Elements of a sort have the names that the code uses; the
first name that appears is the sort's first element. A number of a *scale* (an offset, an epoch, a
term) becomes its rank among all that the trace tells of its scale, as a spec only compares them;
whatever is the scale's zero, or below it, is 0.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from herdproof.conformance.traces.standing import Standing
from herdspec.check.running.run import said
from herdspec.language.specification import Specification, sort_classes
from herdspec.language.surface import Sort
from herdspec.language.types import (
    Bool,
    ChannelOf,
    EnumOf,
    MachineOf,
    MapOf,
    Nat,
    Option,
    OptionalRecord,
    Range,
    RecordOf,
    Rich,
    SetOf,
    SortOf,
    Table,
)
from herdspec.language.types import said as said_kind


class NoValue(Exception):
    """Something in a line that no value of the spec can be made of; says what to write."""


@dataclass(frozen=True)
class Scale:
    """
    Numbers that the spec only compares: fields, and `action.parameter`, that have them.

    A scale may have ranks of its own for each of some keys (offsets, for each partition): whoever
    looks numbers up by hand gives the key.
    """

    of: Sequence[str] = ()
    zero: int = 0
    """The number that is 0 in the spec (-1, say, for offsets of which none is stored)."""
    counted: bool = False
    """True if numbers go up one by one, and keep their distances: the smallest told is 1."""


def number_paths(spec: Specification) -> Iterator[str]:
    """The names of a spec's numbers, as a `Scale` has them."""
    for name, kind in spec.rich.items():
        yield from _number_paths(kind, name)
    for action in spec.actions:
        for name, parameter in action.parameters:
            yield from _number_paths(parameter.kind, f"{action.name}.{name}")


def _number_paths(kind: Any, path: str) -> Iterator[str]:
    """The paths of numbers in a value of a type; its path is made as `Values.value` makes it."""
    inner: Iterable[tuple[Any, str]] = ()
    match kind:
        case Nat() | Range():
            yield path
        case Option() | OptionalRecord():
            inner = [(kind.of, path)]
        case RecordOf(parts=parts):
            inner = [(of, f"{path}.{name}") for name, of in parts]
        case MachineOf():
            inner = [(of, f"{path}.{name}") for name, of in kind.shape.rich.items()]
        case ChannelOf(item=item):
            inner = [(item, path)]
        case SetOf(keys=keys, record=record):
            inner = [(record, path)] if record is not None else [(k, f"{path}[]") for k in keys]
        case Table(keys=keys, value=value) | MapOf(keys=keys, value=value):
            inner = [*((key, f"{path}[]") for key in keys), (value, path)]
    for of, at in inner:
        yield from _number_paths(of, at)


See = Callable[[Any], Any]
"""A function that sees one value in a state."""


class Claim(NamedTuple):
    """One value that a line shows: how it is called, where it is in a state, what it must be."""

    label: str
    see: See
    wanted: Any


class Values:
    """
    Makes values; gathers names and numbers first, until `settle`.

    `fixed` are the names of the sorts whose elements are known beforehand, in their order.
    """

    def __init__(
        self, spec: Specification, fixed: Mapping[str, Sequence[str]], scales: Mapping[str, Scale]
    ) -> None:
        self.spec = spec
        self._classes = sort_classes(spec)
        self._fixed = frozenset(fixed)
        self.names = {
            sort: {name: k for k, name in enumerate(fixed.get(sort, ()))} for sort in spec.sorts
        }
        """By sort, the names of its elements, in their order."""
        self.lately: set[tuple[str, str]] = set()
        """Sort and name of each element that was looked up; whoever reads it empties it."""
        self._scales = scales
        self._scale_of = {path: name for name, scale in scales.items() for path in scale.of}
        self._numbers: dict[tuple[str, Hashable], list[int]] = defaultdict(list)
        self._settled = False
        self.standing: dict[str, Standing] = {}
        """By sort, which elements stand for what, where that comes and goes."""

    def settle(self) -> None:
        """From now on no name is new, and ranks are known."""
        self._settled = True
        for (name, key), numbers in self._numbers.items():
            zero = self._scales[name].zero
            self._numbers[name, key] = sorted({n for n in numbers if n > zero})

    def element(self, sort: str, name: Any) -> Any:
        """The element that the code calls so; an element is itself."""
        if isinstance(name, Sort):
            return name
        if not isinstance(name, str):
            raise NoValue(
                f"{name!r} is no {sort}: write the name that the code has for it, as text"
            )
        known = self.names[sort]
        if name not in known:
            if sort in self._fixed:
                raise NoValue(
                    f"{name!r} is none of the map's names of {sort} ({', '.join(known)}):"
                    f" add it to TraceMap(names=…), or leave {sort} out of it"
                )
            if self._settled:
                raise NoValue(
                    f"{name!r} is no {sort} that the table finds in a line: give it in"
                    f" TraceMap(names=…)"
                )
            known[name] = len(known)
        self.lately.add((sort, name))
        return self._classes[sort](known[name])

    def rank(self, scale: str, number: Any, key: Hashable = None) -> int:
        """The rank of a number among all of its scale, of those of its key."""
        if type(number) is not int:
            raise NoValue(f"{number!r} has no rank among the numbers of {scale}: write an integer")
        numbers = self._numbers[scale, key]
        if not self._settled:
            numbers.append(number)
            return 0
        if number <= self._scales[scale].zero:
            return 0
        if self._scales[scale].counted:
            return max(0, number - numbers[0] + 1) if numbers else 0
        return 1 + bisect_left(numbers, number)

    def named(self, text: str) -> str:
        """A text about the spec's elements, with the code's names for them."""
        for sort, names in self.names.items():
            by = list(names)

            def name(found: re.Match[str], by: list[str] = by) -> str:
                k = int(found[1]) - 1
                return by[k] if k < len(by) else found[0]

            text = re.sub(rf"\b{sort.lower()}(\d+)\b", name, text)
        return text

    # ── Values ──────────────────────────────────────────────────────────────────────────────

    def value(self, kind: Rich | MapOf, told: Any, path: str) -> Any:
        """A value of a type; `path` names it: `field`, `field.part`, `action.parameter`."""
        match kind:
            case Option() | OptionalRecord():
                return None if told is None else self.value(kind.of, told, path)
            case SortOf(name=sort):
                return self.element(sort, told)
            case Bool():
                if isinstance(told, bool):
                    return told
                raise NoValue(f"`{path}` is {told!r}: write true or false")
            case Nat() | Range():
                return self._number(kind, told, path)
            case EnumOf(cls=cls):
                return _member(cls, told, path)
            case RecordOf(cls=made, parts=parts):
                told = self._object(told, path, [name for name, _ in parts])
                return made(**{n: self.value(of, told[n], f"{path}.{n}") for n, of in parts})
            case SetOf() | ChannelOf():
                return self._several(kind, told, path)
            case Table() | MapOf():
                return {
                    key: self.value(kind.value, inner, path)
                    for key, _, inner in self.entries(kind.keys, told, path)
                }
        raise NoValue(f"`{path}` is a {said_kind(kind)}, which no line can show as a whole")

    def _number(self, kind: Nat | Range, told: Any, path: str) -> int:
        if type(told) is not int:
            raise NoValue(f"`{path}` is {told!r}: write an integer")
        if path in self._scale_of:
            return self.rank(self._scale_of[path], told)
        if told < 0 or (isinstance(kind, Range) and told > kind.top):
            most = f"up to {kind.top}" if isinstance(kind, Range) else "of at least 0"
            raise NoValue(
                f"`{path}` is {told}: write a number {most}, or make it a rank by"
                f" TraceMap(ranks={{…: Scale([{path!r}])}})"
            )
        return told

    def _several(self, kind: SetOf | ChannelOf, told: Any, path: str) -> Any:
        if not isinstance(told, list):
            raise NoValue(f"`{path}` is {told!r}: write a list")
        if isinstance(kind, ChannelOf):
            return [self.value(kind.item, item, path) for item in told]
        if kind.record is not None:
            return {self.value(kind.record, item, path) for item in told}
        return {self._key(kind.keys, item, path) for item in told}

    def _object(self, told: Any, path: str, names: Sequence[str]) -> dict[str, Any]:
        if not isinstance(told, dict) or set(told) != set(names):
            raise NoValue(f"`{path}` is {told!r}: write an object with {', '.join(names)}")
        return told

    def entries(self, keys: Sequence[Any], told: Any, path: str) -> Iterator[tuple[Any, str, Any]]:
        """Entries of a map: the key, how it is written, and what is told of it."""
        if isinstance(told, dict):
            pairs = list(told.items())
        elif isinstance(told, list) and all(isinstance(p, list) and len(p) == 2 for p in told):
            pairs = [(key, inner) for key, inner in told]
        else:
            raise NoValue(
                f"`{path}` is {told!r}: write an object from keys to values, or a list of pairs"
            )
        for key, inner in pairs:
            shown = ", ".join(map(str, key)) if isinstance(key, list) else str(key)
            yield self._key(keys, key, path), shown, inner

    def _key(self, keys: Sequence[Any], told: Any, path: str) -> Any:
        if len(keys) == 1:
            if isinstance(keys[0], Range) and isinstance(told, str) and told.isdecimal():
                told = int(told)  # the key of an object is a text
            return self.value(keys[0], told, f"{path}[]")
        if not isinstance(told, list) or len(told) != len(keys):
            wanted = ", ".join(map(said_kind, keys))
            raise NoValue(f"a key of `{path}` is {told!r}: write a list of {wanted}")
        return tuple(
            self.value(kind, part, f"{path}[]") for kind, part in zip(keys, told, strict=True)
        )

    # ── What a line shows ───────────────────────────────────────────────────────────────────

    def claims(self, name: str, told: Any) -> list[Claim]:
        """The claims about a field, or about a part's field (`part.field`)."""
        kinds: Mapping[str, Rich] = self.spec.rich
        *parts, last = name.split(".")
        for part in parts:
            kind = kinds.get(part)
            if not isinstance(kind, MachineOf):
                raise self._no_field(name)
            kinds = kind.shape.rich
        if last not in kinds:
            raise self._no_field(name)
        return list(self._claims(kinds[last], told, name, name, attrgetter(name)))

    def _no_field(self, name: str) -> NoValue:
        known = ", ".join(self.spec.rich)
        return NoValue(
            f"`{name}` is no field of {self.spec.name}, which has {known}: write one of these, or"
            f" say by Row(seen=…) which fields a line shows"
        )

    def _claims(self, kind: Rich, told: Any, label: str, path: str, see: See) -> Iterator[Claim]:
        if isinstance(kind, MachineOf):
            if not isinstance(told, dict) or not told.keys() <= kind.shape.rich.keys():
                known = ", ".join(kind.shape.rich)
                raise NoValue(f"`{label}` is {told!r}: write an object of some of {known}")
            for name, inner in told.items():
                of = kind.shape.rich[name]
                yield from self._claims(
                    of, inner, f"{label}.{name}", f"{path}.{name}", _field(see, name)
                )
        elif isinstance(kind, Table):
            for key, shown, inner in self.entries(kind.keys, told, path):
                at = f"{label}[{shown}]"
                yield from self._claims(kind.value, inner, at, path, _entry(see, key))
        else:
            yield Claim(label, see, self.value(kind, told, path))


def _member(cls: type[Any], told: Any, path: str) -> Any:
    for member in cls:
        if told in (member.value, member.name) and not isinstance(told, bool):
            return member
    known = ", ".join(repr(member.value) for member in cls)
    raise NoValue(f"`{path}` is {told!r}: write one of {known}")


def _field(see: See, name: str) -> See:
    return lambda state: getattr(see(state), name)


def _entry(see: See, key: Any) -> See:
    return lambda state: see(state)[key]


def unlike(claims: Sequence[Claim], state: Any) -> list[str]:
    """Where a state is not as a line shows it: a sentence for each value."""
    return [
        f"{label}: the spec has {said(see(state))}, the trace {said(wanted)}"
        for label, see, wanted in claims
        if see(state) != wanted
    ]
