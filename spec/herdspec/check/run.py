"""
The *run* reading: the spec's own Python, one state at a time.

Everything that another reading finds is replayed here; stories are told by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from herdspec.engine.ground import FAULTS, Ground
from herdspec.language.specification import Action, Promise, decode, encode, sort_classes
from herdspec.language.surface import Disabled, Each, Spec, sizes_of_sorts
from herdspec.language.types import MapOf


@dataclass(frozen=True)
class Step:
    """An action taken, with its arguments, and the state that it led to."""

    action: Action
    arguments: tuple[Any, ...]
    state: Spec

    @property
    def sentence(self) -> str:
        """The action's sentence about these arguments."""
        names = [name for name, _ in self.action.parameters]
        return self.action.sentence.format(**dict(zip(names, self.arguments, strict=True)))

    @property
    def label(self) -> str:
        """The action's name and arguments, as a call."""
        return f"{self.action.name}({', '.join(map(repr, self.arguments))})"


class Machine:
    """A spec at given sizes, run as plain Python."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.spec = ground.spec
        self.sizes = ground.sizes
        self.sorts = sort_classes(self.spec)

    def initial(self) -> Spec:
        """The state that everything starts from."""
        state = object.__new__(self.spec.state)
        for f in self.spec.fields:
            start = getattr(self.spec.state, f.name)
            if isinstance(f.kind, MapOf) and isinstance(start, Each):
                elements = self.elements(f.kind.key.name)
                state.__dict__[f.name] = dict.fromkeys(elements, start.value)
            else:
                state.__dict__[f.name] = start
        return state

    def elements(self, sort: str) -> list[Any]:
        """A sort's elements at this size."""
        return [self.sorts[sort](i) for i in range(self.sizes[sort])]

    def take(self, state: Spec, action: str, arguments: tuple[Any, ...]) -> Spec | None:
        """The state after an action, or None where it is not possible; `state` is untouched."""
        after = state.copy()
        with sizes_of_sorts(self.sizes):
            try:
                getattr(after, action)(*arguments)
            except (Disabled, AssertionError):  # an `assert` is a guard that mypy reads
                return None
        return after

    def holds(self, promise: Promise, *states: Spec) -> bool:
        """Whether a property holds of a state (of two, for a step)."""
        with sizes_of_sorts(self.sizes):
            return promise.python(*states)

    @cached_property
    def choices(self) -> list[tuple[Action, tuple[Any, ...]]]:
        """Every action with every choice of arguments, in the order in which ties are broken."""
        return [
            (action, self.arguments(action, numbers))
            for action in self.spec.actions
            for numbers in self.ground.choices(action)
        ]

    def arguments(self, action: Action, numbers: tuple[int, ...]) -> tuple[Any, ...]:
        """The plain values behind an instance's numbers."""
        kinds = (p.kind for _, p in action.parameters)
        return tuple(
            decode(kind, number, self.sorts) for kind, number in zip(kinds, numbers, strict=True)
        )

    def steps(self, state: Spec) -> Iterator[Step]:
        """Every step that is possible, in order."""
        for action, arguments in self.choices:
            after = self.take(state, action.name, arguments)
            if after is not None:
                yield Step(action, arguments, after)

    def numbers(self, state: Spec, faults: int = 0) -> tuple[int, ...]:
        """A state as the numbers of the ground spec's slots."""
        found = []
        for slot in self.ground.slots.values():
            if slot.field == FAULTS:
                found.append(faults)
                continue
            value = getattr(state, slot.field)
            if slot.index is not None:
                value = list(value.values())[slot.index]
            found.append(encode(slot.kind, value))
        return tuple(found)

    def state(self, numbers: tuple[int, ...]) -> Spec:
        """The reverse of `numbers`, the count of faults left aside."""
        state = self.initial()
        for (name, index), number in zip(self.ground.slots, numbers, strict=True):
            if name == FAULTS:
                continue
            slot = self.ground.slots[name, index]
            value = decode(slot.kind, number, self.sorts)
            if index is None:
                state.__dict__[name] = value
            else:
                state.__dict__[name][list(state.__dict__[name])[index]] = value
        return state


def difference(before: Spec, after: Spec) -> dict[str, tuple[Any, Any]]:
    """What changed between two states: entry → (old, new)."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, old in before.__dict__.items():
        new = after.__dict__[name]
        if isinstance(old, Mapping):
            for key in old:
                if old[key] != new[key]:
                    found[f"{name}[{key}]"] = (old[key], new[key])
        elif old != new:
            found[name] = (old, new)
    return found


def said(value: Any) -> str:
    """A value as stories print it."""
    return str(getattr(value, "value", value)).lower() if not isinstance(value, int) else str(value)


def told(steps: list[Step], initial: Spec) -> list[str]:
    """A path as numbered sentences, each with what it changed."""
    lines, before = [], initial
    for number, step in enumerate(steps, start=1):
        changes = difference(before, step.state)
        what = ", ".join(f"{entry}: {said(a)} → {said(b)}" for entry, (a, b) in changes.items())
        lines.append(f"{number:3}. {step.sentence}  [{step.label}]")
        lines.append(f"       {what or 'nothing changes'}")
        before = step.state
    return lines
