"""
The *run* reading of one state at a time, compiled: for long traces.

A state is lists of numbers (`engine/python_emit.py`); `Seen` lets whoever knows the spec's own
state read it by the same names, and call its helpers. What it says is what the plain Python says,
which the suites compare step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from itertools import chain, islice
from typing import Any, ClassVar

from herdspec.check.running.run import Machine
from herdspec.engine.ground import LARGEST, Ground, SlotKey
from herdspec.engine.python_emit import Numbers, Scripts, Slot, Step
from herdspec.language.graph import Expr
from herdspec.language.rich import parts
from herdspec.language.specification import Specification
from herdspec.language.surface import Spec
from herdspec.language.types import (
    MachineOf,
    MapOf,
    Option,
    Rich,
    Shape,
    Table,
    is_number,
    is_scalar,
)
from herdspec.language.values import Plain, decode, encode

PLANS = 1024
"""The number of choices of arguments that are kept compiled where one of them is a map."""
KEPT_VALUES = 1024
"""The number of values of several numbers (a channel's messages) that are kept, of each entry."""


class GeneratedSpec:
    """A spec at given sizes, its steps compiled as they are asked for."""

    def __init__(self, specification: Specification, sizes: Mapping[str, int]) -> None:
        self.machine = Machine(Ground(specification, sizes, bound=LARGEST, faults=1))
        ground = self.machine.ground
        self._actions = {a.name: a for a in specification.actions}
        self._steps: dict[str, dict[tuple[Any, ...], Step]] = {name: {} for name in self._actions}
        self._scripts = Scripts(ground)
        self.slots = self._scripts.slots
        """Where the number of each slot is."""
        self._planned = lru_cache(PLANS)(self._scripts.step)
        self._changes: dict[tuple[str, tuple[Any, ...]], tuple[Slot, ...]] = {}
        views = _Views(ground, self.machine.plain, self.slots)
        self._seen = views.of(specification.state, specification.shape, "")

    def initial(self, changes: Mapping[tuple[str, Any], int]) -> Any:
        """The declared initial state, but for these entries of maps to numbers."""
        numbers = self._scripts.apart(s.initial for s in self.machine.ground.slots.values())
        for (name, element), number in changes.items():
            field, place = self.slots[name, (element.index,)]
            numbers[field][place] = number
        return self._seen(numbers)

    def plain(self, seen: Any) -> Spec:
        """The reverse of `of`."""
        return self.machine.state(tuple(chain.from_iterable(seen.numbers)))

    def of(self, state: Spec) -> Any:
        """A state of the spec's own Python, as it is seen here."""
        return self._seen(self._scripts.apart(self.machine.numbers(state)))

    def key(self, seen: Any) -> Hashable:
        """The key that tells a state apart from others."""
        return tuple(map(tuple, seen.numbers))

    def take(self, before: Any, action: str, arguments: tuple[Any, ...]) -> Any:
        """The state after; None where it is not possible. Raises `Overflows`."""
        try:
            step = self._steps[action][arguments]
        except KeyError:
            if action not in self._steps:
                return None  # a variant that does without it
            step = self._scripts.step(action, self._numbers(action, arguments))
            self._steps[action][arguments] = step
        except TypeError:  # a map or a set among the arguments
            step = self._planned(action, self._numbers(action, arguments))
        after = step(before.numbers)
        if after is None:
            return None
        seen = _new(self._seen)
        _keep(seen, after)
        return seen

    def changed(
        self, action: str, arguments: tuple[Any, ...], before: Any, after: Any
    ) -> list[Slot]:
        """The slots whose numbers a step has changed."""
        try:
            slots = self._changes.get((action, arguments))
        except TypeError:  # a map or a set among the arguments
            slots = self._scripts.changes(action, self._numbers(action, arguments))
        if slots is None:
            slots = self._scripts.changes(action, self._numbers(action, arguments))
            self._changes[action, arguments] = slots
        was, became = before.numbers, after.numbers
        return [(f, place) for f, place in slots if was[f][place] != became[f][place]]

    def truth(self, formula: Expr) -> Callable[[Any], bool]:
        """A formula over the ground spec's slots, as a function of a state."""
        holds = self._scripts.truth(formula)
        return lambda seen: holds(seen.numbers)

    def _numbers(self, action: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        kinds = (p.kind for _, p in self._actions[action].parameters)
        return tuple(map(self._number, kinds, arguments))

    def _number(self, kind: Any, argument: Any) -> Any:
        if not isinstance(kind, MapOf):
            return encode(kind, argument)
        keys = self.machine.plain.keys(kind.keys)
        if isinstance(argument, set | frozenset):
            return tuple(int(key in argument) for key in keys)
        return tuple(encode(kind.value, argument[key]) for key in keys)


class _Seen:
    """The common part of all views of a state."""

    __slots__ = ("numbers",)
    numbers: Numbers

    def __init__(self, numbers: Numbers) -> None:
        _keep(self, numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Seen) and self.numbers == other.numbers

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name}: a view of a state is read only")


_new, _keep = object.__new__, _Seen.__dict__["numbers"].__set__
"""Both make a view without a call of Python's own: each step of a trace makes one."""


class _Views:
    """Makes the classes of views."""

    def __init__(self, ground: Ground, plain: Plain, slots: Mapping[SlotKey, Slot]) -> None:
        self._ground = ground
        self._plain = plain
        self._slots = slots

    def of(self, state: type[Spec], shape: Shape, prefix: str) -> type[Any]:
        """A subclass of a spec's state whose fields are read from numbers."""
        fields = {
            name: property(self._reader(kind, f"{prefix}{name}"))
            for name, kind in shape.rich.items()
        }
        return type(f"Seen{state.__name__}", (_Seen, state), fields, variant=True)

    def _reader(self, kind: Rich, name: str) -> Callable[[Any], Any]:
        """The function that a property calls for a field."""
        if isinstance(kind, MachineOf):
            inner = self.of(kind.shape.state, kind.shape, f"{name}.")
            return lambda seen: inner(seen.numbers)
        if isinstance(kind, Table):
            keys = zip(self._plain.keys(kind.keys), self._ground.indices(kind), strict=True)
            return self._entries(kind.value, name, dict(keys))
        return self._value_of(self._value(kind, name, ()))

    def _entries(
        self, kind: Any, name: str, indices: Mapping[Any, tuple[int, ...]]
    ) -> Callable[[Any], Any]:
        """The reader of a map whose entries are looked at one by one."""
        known = self._known(kind)
        if known is None and not is_number(kind):
            read = {key: self._value(kind, name, index) for key, index in indices.items()}
            entries = type("Entries", (_Entries,), {"read": read, "__slots__": ()})
            return _viewed(entries, None)
        slots = {key: self._slots[name, index] for key, index in indices.items()}
        field = next((field for field, _ in slots.values()), 0)
        places = {key: place for key, (_, place) in slots.items()}
        base, made = (_Numbers, {}) if known is None else (_Known, {"known": known})
        entries = type("Entries", (base,), {"read": places, **made, "__slots__": ()})
        return _viewed(entries, field)

    def _known(self, kind: Any) -> list[Any] | None:
        """The values of a kind, by number; None where there may be many of them."""
        inner = kind
        while isinstance(inner, Option):
            inner = inner.of
        if not is_scalar(kind) or is_number(inner):
            return None
        return [decode(kind, n, self._plain.sorts) for n in range(self._ground.values(kind))]

    @staticmethod
    def _value_of(value: Callable[[Numbers], Any]) -> Callable[[Any], Any]:
        return lambda seen: value(seen.numbers)

    def _value(self, kind: Any, name: str, index: tuple[int, ...]) -> Callable[[Numbers], Any]:
        """The reader of one value."""
        if is_scalar(kind):
            field, place = self._slots[name, index]
            known = self._known(kind)
            if known is not None:
                return lambda numbers: known[numbers[field][place]]
            if is_number(kind):
                return lambda numbers: numbers[field][place]
            return lambda numbers: decode(kind, numbers[field][place], self._plain.sorts)
        return self._built(kind, name, index)

    def _built(self, kind: Any, name: str, index: tuple[int, ...]) -> Callable[[Numbers], Any]:
        """The reader of a value of several numbers; what was built once is kept."""
        flats = [(flat, self._ground.indices(of)) for flat, of in parts(kind, name)]
        slots = [self._slots[flat, (*index, *inner)] for flat, of in flats for inner in of]
        widths = [len(of) for _, of in flats]

        @lru_cache(KEPT_VALUES)
        def build(gathered: tuple[int, ...]) -> Any:
            one_by_one = iter(gathered)
            return self._plain.build(kind, [[*islice(one_by_one, w)] for w in widths])

        return lambda numbers: build(tuple([numbers[field][place] for field, place in slots]))


class _Entries(Mapping[Any, Any]):
    """A map's entries, each read when it is asked for; `_viewed` makes them."""

    __slots__ = ("_numbers",)
    _numbers: Any
    read: ClassVar[Mapping[Any, Any]]

    def __getitem__(self, key: Any) -> Any:
        return self.read[key](self._numbers)

    def __iter__(self) -> Any:
        return iter(self.read)

    def __len__(self) -> int:
        return len(self.read)


class _Numbers(_Entries):
    """A map to naturals: `read` has their places in its list."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return self._numbers[self.read[key]]


class _Known(_Entries):
    """A map to values of which there are few: `known`, by their numbers."""

    __slots__ = ()
    known: ClassVar[list[Any]]

    def __getitem__(self, key: Any) -> Any:
        return self.known[self._numbers[self.read[key]]]


_look_at = _Entries.__dict__["_numbers"].__set__


def _viewed(entries: type[_Entries], field: int | None) -> Callable[[Any], Any]:
    """The function that makes the view of a map, of all numbers of a state or of one field's."""

    def of_field(seen: Any) -> Any:
        made = _new(entries)  # as it is with states: no call of Python's own
        _look_at(made, seen.numbers[field])
        return made

    def of_all(seen: Any) -> Any:
        made = _new(entries)
        _look_at(made, seen.numbers)
        return made

    return of_all if field is None else of_field
