"""
One of two specs that are compared, lowered to a size: its calls, its states, and what both call
the same.

The two may stand in two files, and be of two days: elements, numbers and truth values are compared
as they are, members of enums by their names. A field compares if it has values of one kind, at the
same places.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herdspec.check.exploration.explore import Explorer
from herdspec.check.exploration.numpy_engine import truths
from herdspec.check.running.refusal import refusal
from herdspec.check.running.run import Step, said
from herdspec.engine.columns import Columns, Words
from herdspec.engine.ground import FAULTS, GroundAction, Number
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Action
from herdspec.language.surface import Spec
from herdspec.language.types import BOOL, EnumOf, MapOf, Option, is_number
from herdspec.language.types import said as type_said
from herdspec.language.values import decode

NAMED = 1 << 40
"""From here on numbers stand for names: no other value is so large."""

Label = tuple[str, tuple[str, ...], tuple[Any, ...]]
"""An action, the types of its parameters, and its arguments: numbers, members of enums by name."""


@dataclass(frozen=True)
class Side:
    """One of the two, lowered; `names` are the numbers of named values, the same for both."""

    explorer: Explorer
    names: dict[Any, int]
    _codes: dict[Any, NDArray[np.int64]] = field(default_factory=dict)

    @cached_property
    def calls(self) -> dict[Label, tuple[Action, tuple[Number, ...]]]:
        """Every choice of every action, by label."""
        ground = self.explorer.ground
        every = [(a, n) for a in ground.spec.actions for n in ground.choices(a)]
        return {label_of(*call): call for call in every}

    @cached_property
    def instances(self) -> dict[Label, GroundAction]:
        """Every choice of every action that is not plainly impossible, by label."""
        every = {label: self.explorer.ground.instance(*call) for label, call in self.calls.items()}
        return {label: i for label, i in every.items() if self._guard(i) is not g.FALSE}

    @cached_property
    def signatures(self) -> set[tuple[str, tuple[str, ...]]]:
        """Its actions with the types of their parameters."""
        return {(a.name, _types(a)) for a in self.explorer.ground.spec.actions}

    @cached_property
    def taken(self) -> Any:
        """The key of the slot that counts what disturbs."""
        return next(key for key in self.explorer.ground.slots if key[0] == FAULTS)

    @cached_property
    def starts(self) -> list[Spec]:
        """All initial states within the bounds."""
        return [s for s in self.every_start if self.explorer.within(s, 0)]

    @cached_property
    def every_start(self) -> list[Spec]:
        """All initial states."""
        return list(self.explorer.machine.starts())

    def pack(self, state: Spec) -> Words:
        """A state of the plain Python as a row."""
        return self.explorer.packing.pack(self.explorer.machine.numbers(state))

    def read(self, rows: Words, keys: list[Any]) -> NDArray[Any]:
        """These slots of rows, as columns; members of an enum by a number that is theirs."""
        read = [self.codes(key)[self.explorer.packing.read(rows, key)] for key in keys]
        return np.stack(read, axis=1) if read else np.zeros((len(rows), 0), np.int64)

    def codes(self, key: Any) -> NDArray[np.int64]:
        """For each number of a slot one that means the same on both sides."""
        found = self._codes.get(key)
        if found is None:
            slot = self.explorer.ground.slots[key]
            every = range(max(slot.values, slot.initial + 1))
            found = np.array([self.known(_word(slot.kind, n)) for n in every], np.int64)
            self._codes[key] = found
        return found

    def said(self, key: Any, code: int) -> str:
        """The value behind a slot's code."""
        number = int(np.flatnonzero(self.codes(key) == code)[0])
        kind = self.explorer.ground.slots[key].kind
        return said(decode(kind, number, self.explorer.machine.sorts))

    def known(self, word: Any) -> int:
        """A number is its own; what has a name gets one."""
        if isinstance(word, int):
            return word
        return self.names.setdefault(word, NAMED + len(self.names))

    def possible(self, columns: Columns, instance: GroundAction) -> NDArray[np.bool_]:
        """Where the guard holds, whatever the budget of faults says."""
        return self.guarded(columns, instance) & truths(columns, instance.defined)

    def guarded(self, columns: Columns, instance: GroundAction) -> NDArray[np.bool_]:
        """Where the guard holds, be it that the step has no meaning."""
        return truths(columns, self._guard(instance))

    def _guard(self, instance: GroundAction) -> Expr:
        return self.explorer.ground.of_instance(instance.action.guard, instance)

    def affordable(self, columns: Columns, instance: GroundAction) -> NDArray[np.bool_]:
        """Where the budget of faults allows the step."""
        taken = self.explorer.packing.read(columns.rows, self.taken)
        within: NDArray[np.bool_] = taken + instance.action.disturbs <= self.explorer.ground.faults
        return within

    def step(self, state: Spec, label: Label) -> Step:
        """The step by a label, which must be possible, in plain Python."""
        machine = self.explorer.machine
        action, numbers = self.calls[label]
        arguments = machine.arguments(action, numbers)
        after = machine.take(state, action.name, arguments)
        assert after is not None, f"run and columns disagree: {label} is not possible in Python"
        return Step(action, arguments, after)

    def refuses(self, state: Spec, label: Label) -> tuple[str, ...]:
        """Why a step is not possible."""
        machine = self.explorer.machine
        action, numbers = self.calls[label]
        return refusal(machine, state, action, machine.arguments(action, numbers)).lines


def label_of(action: Action, arguments: tuple[Number, ...]) -> Label:
    """The name of a call on both sides."""
    kinds = [p.kind for _, p in action.parameters]
    words = tuple(
        tuple(_word(k.value, m) for m in n)
        if isinstance(k, MapOf) and isinstance(n, tuple)
        else _word(k, n)
        for k, n in zip(kinds, arguments, strict=True)
    )
    return action.name, _types(action), words


def _types(action: Action) -> tuple[str, ...]:
    return tuple(_type(p.kind) for _, p in action.parameters)


def _type(kind: Any) -> str:
    """A type as both sides know it: the order of an enum's members counts where it is a key."""
    keys = kind.keys if isinstance(kind, MapOf) else ()
    members = [m.name for k in keys if isinstance(k, EnumOf) for m in k.members]
    return " ".join([type_said(kind), *members])


def _word(kind: Any, number: Any) -> Any:
    """The word for a number of a type on both sides: a member's name, else the number."""
    match kind:
        case Option(of=of) if number:
            inner = _word(of, number - 1)
            return number if isinstance(inner, int) else inner
        case EnumOf(members=members):
            return members[number].name
    return number


def shared(old: Side, new: Side) -> tuple[list[Any], tuple[str, ...]]:
    """The slots that both have and that compare; and the fields that both have and that do not."""
    slots, others = old.explorer.ground.slots, new.explorer.ground.slots
    names = {key[0] for key in slots} & {key[0] for key in others} - {FAULTS}
    apart = {name for name in names if not _alike(name, old, new)}
    keys = [key for key in slots if key in others and key[0] in names - apart]
    return keys, tuple(sorted(apart))


def _alike(name: str, old: Side, new: Side) -> bool:
    """Tells whether a field's values can be compared: of one kind, and at the same places."""
    kinds = [
        next(f.kind for f in s.explorer.ground.spec.fields if f.name == name) for s in (old, new)
    ]
    places = [{key for key in s.explorer.ground.slots if key[0] == name} for s in (old, new)]
    return places[0] == places[1] and _values(kinds[0]) == _values(kinds[1])


def _values(kind: Any) -> Any:
    """The values of a type, and its keys: the two specs may stand in two files."""
    match kind:
        case MapOf(keys=keys, value=value):
            return [_type(MapOf((key,), BOOL)) for key in keys], _values(value)
        case Option(of=of):
            return "optional", _values(of)
    return "number" if is_number(kind) else type_said(kind)
