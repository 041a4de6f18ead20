"""Compares what is seen of code with states of its spec: fields, or single entries of maps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from herdproof.conformance.adapter import Adapter, AdapterError
from herdspec.check.running.run import Machine, said, said_key
from herdspec.language.surface import Spec, twin
from herdspec.language.types import MachineOf, Rich, Table
from herdspec.language.values import OUTSIDE

Look = Mapping[str, Any]
"""Fields (a part's as `part.field`) with their values; of a map, a mapping of some entries."""

Path = tuple[Any, ...]
"""Where a single value is within a field: keys of maps, names of a part's fields."""

_HOLDERS = frozenset({list, tuple, set, frozenset})
"""Types of values that hold others, beside maps."""

NOTHING_SEEN = "nothing was seen of the code"
"""Why nothing can be said."""


class Seen:
    """Compares looks at the code with states; keeps which fields were ever seen."""

    def __init__(self, machine: Machine, adapter: type[Adapter]) -> None:
        self.machine = machine
        self.adapter = adapter
        self.kinds = dict(_kinds(machine.spec.rich, ""))
        self.fields: set[str] = set()
        """The fields of which something was seen."""
        self._missing: dict[str, dict[Path, str]] = {}
        """Of maps that were seen in part, the entries that were never seen, with their names."""

        self.unseen = self._unseen()
        """The fields of which nothing was ever seen, and the single entries of maps."""

        self._trusted: dict[str, set[type]] = {name: set() for name in self.kinds}
        """Of each field the types that were found right, of its values and within them."""

    def _unseen(self) -> tuple[str, ...]:
        found = []
        for name in self.kinds:
            if name not in self.fields:
                found.append(name)
            found += sorted(self._missing.get(name, {}).values())
        return tuple(found)

    def note(self, look: Look) -> None:
        """Keep what is seen; raises `AdapterError` for a field that is none."""
        if not isinstance(look, Mapping):
            raise AdapterError(
                f"{self.adapter.__name__}.observe returned {look!r}: return a dict from the names"
                f" of fields to their values"
            )
        if not look.keys() <= self.fields:
            self._note_fields(look)
        for name, missing in self._missing.items():
            if missing and name in look:
                now = missing.keys() & set(_shown(self.kinds[name], look[name]))
                for path in now:
                    del missing[path]
                if now:
                    self.unseen = self._unseen()

    def _note_fields(self, look: Look) -> None:
        for name in look:
            if name not in self.kinds:
                raise AdapterError(
                    f"{self.adapter.__name__} observes {name!r}, which is no field of"
                    f" {self.machine.spec.name}; its fields: {', '.join(self.kinds)}"
                )
        for name in look.keys() - self.fields:
            kind, theirs = self.kinds[name], look[name]
            if not isinstance(kind, Table) or not isinstance(theirs, Mapping):
                self.fields.add(name)
            elif next(_shown(kind, theirs), None) is not None:  # of a map without entries, nothing
                self.fields.add(name)
                self._missing[name] = dict(self._entries_of(kind, name))
        self.unseen = self._unseen()

    def _entries_of(self, kind: Rich, label: str) -> Iterator[tuple[Path, str]]:
        """Every single value of a field that can be seen: where it is, and its name."""
        if isinstance(kind, Table):
            inner: list[tuple[Any, Rich, str]] = [
                (key, kind.value, f"[{said_key(key)}]") for key in self._keys(kind)
            ]
        elif isinstance(kind, MachineOf):
            inner = [(name, of, f".{name}") for name, of in kind.shape.rich.items()]
        else:
            yield (), label
            return
        for step, of, said_ in inner:
            for path, name in self._entries_of(of, f"{label}{said_}"):
                yield (step, *path), name

    def _keys(self, kind: Table) -> Collection[Any]:
        return self.machine.plain.keys(kind.keys)

    def agrees(self, state: Spec, look: Look) -> bool:
        """Tells whether a state is as the code is seen to be."""
        fields = state.__dict__
        for name, theirs in look.items():
            ours = fields[name] if name in fields else field(state, name)
            if ours != theirs and not _partly(ours, theirs):
                return False
        return True

    def unlike(self, state: Spec, look: Look) -> list[str]:
        """Where the code is seen to be otherwise: a line for each entry."""
        return [
            f"{entry}: {said(ours)} in the spec, {said(theirs)} in the code"
            for name, look_at in look.items()
            for entry, ours, theirs in _entries(name, field(state, name), look_at)
        ]

    def fields_unlike(self, state: Spec, look: Look) -> list[str]:
        """The fields in which the code is seen to be otherwise."""
        return [n for n, seen in look.items() if any(_entries(n, field(state, n), seen))]

    def trust(self, look: Look) -> None:
        """
        Raise `AdapterError` for a value of a new type that agrees, but is none of its field.

        `mock.ANY` is equal to everything: who shows it has shown nothing.
        """
        for name, theirs in look.items():
            if not _are_of(self._trusted[name], theirs):
                self._check(name, self.kinds[name], theirs)
                self._trusted[name].update(_leaves(theirs))

    def check(self, look: Look) -> None:
        """Raise `AdapterError` for a value that a field cannot have: it would never agree."""
        for name, theirs in look.items():
            self._check(name, self.kinds[name], theirs)

    def _check(self, name: str, kind: Rich, theirs: Any) -> None:
        if isinstance(kind, Table) and isinstance(theirs, Mapping):
            keys = self.machine.plain.keys(kind.keys)
            for key, value in theirs.items():
                if key not in keys:
                    raise AdapterError(
                        f"{self.adapter.__name__} observes {name}[{said_key(key)}], and {name} has"
                        f" no such key; its keys: {', '.join(map(said_key, keys[:8]))}"
                    )
                self._check(f"{name}[{said_key(key)}]", kind.value, value)
            return
        if isinstance(kind, MachineOf) and isinstance(theirs, Mapping):
            for inner, value in theirs.items():
                if inner not in kind.shape.rich:
                    raise AdapterError(
                        f"{self.adapter.__name__} observes {name}.{inner}, which is no field"
                    )
                self._check(f"{name}.{inner}", kind.shape.rich[inner], value)
            return
        if not self.is_value(kind, theirs):
            raise AdapterError(
                f"{self.adapter.__name__} observes {name} = {theirs!r}"
                f" ({type(theirs).__name__}), which no state of {self.machine.spec.name} has:"
                f" return a value of the field's type"
            )

    def is_value(self, kind: Rich, value: Any) -> bool:
        """Tells whether a plain value is one of a type, at these sizes."""
        plain = self.machine.plain
        try:
            lists = plain.lists(kind, value)
            return all(n >= 0 for column in lists for n in column if n != OUTSIDE) and (
                plain.build(kind, lists) == value
            )
        except Exception:  # whatever its own methods raise: it is no value of the spec's
            return False


def _are_of(known: set[type], value: Any) -> bool:
    """True if a value, or all that a map, a set or a list holds, is of these types."""
    kind = type(value)
    if kind is dict:
        value = value.values()
    elif kind not in _HOLDERS:
        return kind in known
    return known.issuperset(map(type, value)) or all(_are_of(known, each) for each in value)


def _leaves(value: Any) -> Iterator[type]:
    """The types of a value, or of all that a map, a set or a list holds."""
    if type(value) is dict:
        value = value.values()
    elif type(value) not in _HOLDERS:
        if not isinstance(value, Mapping | list | tuple | set | frozenset):
            yield type(value)
        return
    for each in value:
        yield from _leaves(each)


def _kinds(rich: Mapping[str, Rich], prefix: str) -> Iterator[tuple[str, Rich]]:
    """Every field with its type; those of a part as `part.field`."""
    for name, kind in rich.items():
        if isinstance(kind, MachineOf):
            yield from _kinds(kind.shape.rich, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", kind


def _shown(kind: Rich | None, theirs: Any) -> Iterator[Path]:
    """Where the single values are that a look at a field shows."""
    theirs = theirs.__dict__ if isinstance(theirs, Spec) else theirs
    if not isinstance(kind, Table | MachineOf) or not isinstance(theirs, Mapping):
        yield ()
        return
    for step, inner in theirs.items():
        of = kind.value if isinstance(kind, Table) else kind.shape.rich.get(step)
        for path in _shown(of, inner):
            yield (step, *path)


def saw_nothing(rich: Mapping[str, Rich], unseen: Collection[str]) -> bool:
    """Tells whether of no field (of a part neither) anything was ever seen."""
    return {name for name, _ in _kinds(rich, "")} <= {*unseen}


def field(state: Spec, name: str) -> Any:
    """A field of a state, or of one of its parts."""
    value: Any = state
    for part in name.split("."):
        value = value.__dict__[part]
    return value


def replaced(state: Spec, look: Look) -> Spec:
    """A copy of a state with what is seen put in: fields, or entries of maps."""
    made = state.copy()
    for name, seen in look.items():
        *parts, last = name.split(".")
        owner = field(made, ".".join(parts)) if parts else made
        owner.__dict__[last] = _put(owner.__dict__[last], seen)
    return made


def _put(ours: Any, seen: Any) -> Any:
    """A value with the entries that are seen put in."""
    if isinstance(ours, Spec) and isinstance(seen, Mapping):
        return replaced(ours, seen)
    if isinstance(ours, Mapping) and isinstance(seen, Mapping):
        return {
            key: _put(value, seen[key]) if key in seen else value for key, value in ours.items()
        }
    return twin(seen)


def unlike_initially(state: Spec, initial: Spec) -> dict[str, Any]:
    """The entries of a state that are not as initially, as `replaced` takes them."""
    found: dict[str, Any] = {}
    for name, value in state.__dict__.items():
        first = initial.__dict__[name]
        if value == first:
            continue
        if isinstance(value, Spec):
            inner = unlike_initially(value, first)
            found |= {f"{name}.{part}": of for part, of in inner.items()}
        elif isinstance(value, Mapping):
            found[name] = {
                key: unlike_initially(v, first[key]) if isinstance(v, Spec) else v
                for key, v in value.items()
                if v != first[key]
            }
        else:
            found[name] = value
    return found


def _partly(ours: Any, theirs: Any) -> bool:
    """Tells whether the entries seen of a map (or of a map of parts) are as they should be."""
    if not isinstance(theirs, Mapping):
        return False
    if isinstance(ours, Spec):
        ours = ours.__dict__
    if not isinstance(ours, Mapping):
        return False
    return all(
        key in ours and (ours[key] == value or _partly(ours[key], value))
        for key, value in theirs.items()
    )


def _entries(name: str, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    """The entries in which two values differ: name, ours, theirs."""
    if isinstance(ours, Spec) and isinstance(theirs, Mapping):
        for key, value in theirs.items():
            yield from _entries(f"{name}.{key}", ours.__dict__[key], value)
    elif isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key, value in theirs.items():
            yield from _entries(f"{name}[{said_key(key)}]", ours[key], value)
    elif ours != theirs:
        yield name, ours, theirs
