"""
The *run* reading: the spec's own Python, one state at a time.

Everything that another reading finds is replayed here; stories are told by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from herdspec.check.running.turns import every_turn
from herdspec.engine.ground import FAULTS, LARGEST, Ground, Number
from herdspec.language import graph as g
from herdspec.language.specification import (
    Action,
    DeclaredProperty,
    Specification,
    sort_classes,
    specification,
)
from herdspec.language.surface import Disabled, Expectation, Spec, Undefined, sizes_of_sorts
from herdspec.language.types import Bool, MachineOf, MapOf, Rich, SetOf, Shape, Table
from herdspec.language.values import BEYOND, OUTSIDE, Plain, decode, encode

NOT_THERE = (KeyError, IndexError, AttributeError, TypeError, ZeroDivisionError)
"""Errors that Python raises where a value is absent, empty or out of its range, or 0 divides."""

INITIALLY = "Initially: "
"""The beginning of a story's line that shows its initial state."""


@dataclass(frozen=True)
class Step:
    """
    An action taken, with its arguments, and the state that it led to.

    `undefined` says why it has no meaning, if it has none; then it led nowhere.
    """

    action: Action
    arguments: tuple[Any, ...]
    state: Spec
    undefined: str = ""

    @property
    def sentence(self) -> str:
        """The action's sentence about these arguments."""
        names = [name for name, _ in self.action.parameters]
        return self.action.sentence.format(**dict(zip(names, self.arguments, strict=True)))

    @property
    def label(self) -> str:
        """The action's name and arguments, as a call."""
        return f"{self.action.name}({', '.join(map(written, self.arguments))})"


def written(value: Any) -> str:
    """An argument as one would write it: a member by its name."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{written(k)}: {written(v)}' for k, v in value.items())}}}"
    if isinstance(value, set):
        return f"{{{', '.join(sorted(map(written, value)))}}}"
    return repr(value)


class Machine:
    """A spec at given sizes, run as plain Python."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.spec = ground.spec
        self.sizes = ground.sizes
        self.sorts = sort_classes(self.spec)
        self.plain = Plain(self.sorts, self.sizes)
        self.turns: Callable[[], AbstractContextManager[None]] = nullcontext

    def initial(self) -> Spec:
        """The declared initial state; that of all, where nothing else starts."""
        return self.state(tuple(slot.initial for slot in self.ground.slots.values()))

    def starts(self) -> Iterator[Spec]:
        """Every initial state that keeps the axioms, in order: one for each choice of a start."""
        axioms = [p for p in self.spec.properties if p.expectation is Expectation.AXIOM]
        for made in self._made():
            if all(self.holds(p, made) for p in axioms):
                yield made

    def _made(self) -> Iterator[Spec]:
        if not self.spec.starts:
            yield self.initial()
        for start in self.spec.starts:
            for numbers in self.ground.each([p.kind for _, p in start.parameters]):
                arguments = self.arguments(start, numbers)
                made = self._begun(start, arguments)
                if made is not None:
                    yield made

    def _begun(self, start: Action, arguments: tuple[Any, ...]) -> Spec | None:
        """The initial state that a choice makes; one that has no meaning is refused."""
        from herdspec.check.running.undefined import undefined_start  # it runs machines itself

        try:
            return self.take(self.initial(), start.name, arguments)
        except Undefined as error:
            raise undefined_start(self, start, arguments) from error

    def at_every_turn(self) -> Machine:
        """This machine, its `all` and `any` not stopping at the turn that decides: slower."""
        made = copy(self)
        made.turns = every_turn
        return made

    def elements(self, sort: str) -> list[Any]:
        """A sort's elements at this size."""
        return [self.sorts[sort](i) for i in range(self.sizes[sort])]

    def take(self, state: Spec, action: str, arguments: tuple[Any, ...]) -> Spec | None:
        """
        The state after an action, or None where it is not possible; `state` is untouched.

        Raises `Undefined` where the action looks at a value that is not there.
        """
        after = state.copy()
        with sizes_of_sorts(self.sizes), self.turns():
            try:
                self.method(after, action, arguments)
            except (Disabled, AssertionError):  # an `assert` is a guard that mypy reads
                if self._partial and after != state:  # what was written before had its meaning?
                    self._typed_numbers(action, after)
                return None
            except NOT_THERE as error:
                raise Undefined(f"{action}: {type(error).__name__}: {error}") from error
        if self._partial and not self._in_range(self._typed_numbers(action, after)):
            raise Undefined(f"{action}: a number has left its range")
        return after

    def method(self, state: Spec, action: str, arguments: tuple[Any, ...]) -> None:
        """Call an action of the spec, or of one of its parts, on a state."""
        owner: Any = state
        *path, name = action.split(".")
        kinds = self.spec.rich
        for part in path:
            owner, kind = getattr(owner, part), kinds[part]
            if isinstance(kind, Table):
                key, arguments = arguments[: len(kind.keys)], arguments[len(kind.keys) :]
                owner, kind = owner[key[0] if len(key) == 1 else key], kind.value
            assert isinstance(kind, MachineOf), "a part of a path is a machine"
            kinds = kind.shape.rich
        getattr(owner, name)(*arguments)

    @cached_property
    def _partial(self) -> bool:
        """Tells whether some step may have no meaning that Python itself would not refuse."""
        return any(a.defined is not g.TRUE for a in (*self.spec.actions, *self.spec.starts))

    def _typed_numbers(self, action: str, state: Spec) -> tuple[int, ...]:
        """
        A state's numbers; `Undefined` where Python has let an absent value stand for a plain one.

        Numbers' ranges are not looked at: those bind at the end of a step.
        """
        if not self._has_its_keys(self.spec.rich, state):
            raise Undefined(f"{action}: an entry was assigned at no key of its map")
        try:
            numbers = self.numbers(state)
        except (*NOT_THERE, ValueError) as error:
            raise Undefined(f"{action}: an absent value was assigned") from error
        slots = zip(numbers, self.ground.slots.values(), strict=True)
        if any(n == OUTSIDE and isinstance(slot.kind, Bool) for n, slot in slots):
            raise Undefined(f"{action}: an absent value was put into a set")
        return numbers

    def _has_its_keys(self, kinds: Mapping[str, Rich], state: Spec) -> bool:
        """Tells whether every map is from its own keys: Python lets any be assigned."""
        for name, kind in kinds.items():
            value = state.__dict__[name]
            if isinstance(kind, Table):
                if len(value) != len(self.plain.keys(kind.keys)):
                    return False
                machines = [*value.values()] if isinstance(kind.value, MachineOf) else []
                kind = kind.value
            else:
                machines = [value] if isinstance(kind, MachineOf) else []
            if isinstance(kind, MachineOf) and not all(
                self._has_its_keys(kind.shape.rich, m) for m in machines
            ):
                return False
        return True

    def _in_range(self, numbers: tuple[int, ...]) -> bool:
        slots = self.ground.slots.values()
        return all(
            n >= 0 and (slot.is_bounded or n < slot.values or n == BEYOND or slot.field == FAULTS)
            for n, slot in zip(numbers, slots, strict=True)
        )

    def holds(self, promise: DeclaredProperty, *states: Spec) -> bool:
        """Tells whether a property holds of a state (of two, for a step)."""
        return bool(self.evaluated(promise, *states))

    def evaluated(self, promise: DeclaredProperty, *given: Any) -> Any:
        """The value of a property's Python; without a meaning, it fails (of a pair: is due)."""
        with sizes_of_sorts(self.sizes), self.turns():
            try:
                return promise.python(*given)
            except (*NOT_THERE, AssertionError):
                return (True, False) if promise.expectation is Expectation.LEADS_TO else False

    @cached_property
    def choices(self) -> list[tuple[Action, tuple[Any, ...]]]:
        """Every action with every choice of arguments, in the order in which ties are broken."""
        return [
            (action, self.arguments(action, numbers))
            for action in self.spec.actions
            for numbers in self.ground.choices(action)
        ]

    def arguments(self, action: Action, numbers: tuple[Number, ...]) -> tuple[Any, ...]:
        """The plain values behind an instance's numbers."""
        sets = sets_among(action, self.spec.shape)
        return tuple(
            self._argument(name, p.kind, number, sets)
            for (name, p), number in zip(action.parameters, numbers, strict=True)
        )

    def arguments_numbers(self, action: Action, arguments: tuple[Any, ...]) -> tuple[Number, ...]:
        """
        The reverse of `arguments`: the numbers of an instance with these plain values.

        Raises `KeyError`, `TypeError` or `ValueError` for a value that is none of its parameter's.
        """
        sets = sets_among(action, self.spec.shape)
        found: list[Number] = []
        for (name, p), value in zip(action.parameters, arguments, strict=True):
            if isinstance(p.kind, MapOf):
                (column,) = self.plain.lists(_of_python(name, p.kind, sets), value)
                found.append(tuple(column))
            else:
                found.append(encode(p.kind, value))
        return tuple(found)

    def _argument(self, name: str, kind: Any, number: Number, sets: set[str]) -> Any:
        if not isinstance(kind, MapOf):
            assert isinstance(number, int), "a plain parameter is one number"
            return decode(kind, number, self.sorts)
        assert isinstance(number, tuple), "a map is a number for each key"
        return self.plain.build(_of_python(name, kind, sets), [list(number)])

    def steps(self, state: Spec, by: str | None = None) -> Iterator[Step]:
        """Every step (by this action, if one is named) that is possible and has a meaning."""
        for action, arguments in self.choices:
            if by is not None and action.name != by:
                continue
            try:
                after = self.take(state, action.name, arguments)
            except Undefined:
                continue
            if after is not None:
                yield Step(action, arguments, after)

    def numbers(self, state: Spec, faults: int = 0) -> tuple[int, ...]:
        """A state as the numbers of the ground spec's slots."""
        found: list[int] = []
        for name, kind in self.spec.rich.items():
            for column in self.plain.lists(kind, state.__dict__[name]):
                found += column
        return (*found, faults)

    def flat(self, state: Spec) -> dict[str, Any]:
        """A state's flat fields as plain values: maps as dicts from their keys."""
        found: dict[str, Any] = {}
        lists: dict[str, list[list[int]]] = {}
        for slot, number in zip(self.ground.slots.values(), self.numbers(state), strict=True):
            lists.setdefault(slot.field, [[]])[0].append(number)
        for f in self.spec.fields:
            kind = Table(f.kind.keys, f.kind.value) if isinstance(f.kind, MapOf) else f.kind
            found[f.name] = self.plain.build(kind, lists[f.name])
        return found

    def state(self, numbers: tuple[int, ...]) -> Spec:
        """The reverse of `numbers`, the count of faults left aside."""
        lists: dict[str, list[int]] = {}
        for (name, _), number in zip(self.ground.slots, numbers, strict=True):
            lists.setdefault(name, []).append(number)
        made = object.__new__(self.spec.state)
        made.__dict__.update(self.plain.apart(self.spec.rich, [*lists.values()][:-1]))
        return made


def machine(spec: type[Spec] | Specification, **sizes: int) -> Machine:
    """
    A spec at these sizes, to be run by hand: the actions of its states are methods to call.

    `machine(Lock, Client=2).initial()` is a `Lock`. Where an action loops over a sort, take it with
    `Machine.take`, which knows how many elements there are. Raises `UsageError` for a missing size.
    """
    made = spec if isinstance(spec, Specification) else specification(spec)
    return Machine(Ground(made, sizes, bound=LARGEST, faults=0))


def _of_python(name: str, kind: MapOf, sets: set[str]) -> SetOf | Table:
    """The type of a parameter in Python that is a map to the readings: a set, or a dict."""
    return SetOf(kind.keys) if name in sets else Table(kind.keys, kind.value)


def sets_among(action: Action, shape: Shape) -> set[str]:
    """Which of an action's parameters are sets to Python: the others are dicts."""
    function = shape.methods.get(action.name)
    if function is None or not any(isinstance(p.kind, MapOf) for _, p in action.parameters):
        return set()
    parameters = function.tree.args.args[1:]
    kinds = {p.arg: function.annotation(p, p.annotation) for p in parameters}
    return {name for name, kind in kinds.items() if isinstance(kind, SetOf)}


def difference(before: Spec, after: Spec, prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """The changes between two states: entry → (old, new)."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, old in before.__dict__.items():
        new = after.__dict__[name]
        entries = [(f"{prefix}{name}", old, new)]
        if isinstance(old, Mapping):
            entries = [(f"{prefix}{name}[{said_key(k)}]", old[k], new[k]) for k in old]
        for entry, a, b in entries:
            if isinstance(a, Spec):
                found.update(difference(a, b, f"{entry}."))
            elif a != b:
                found[entry] = (a, b)
    return found


def entries(state: Spec, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """
    A state's entries, maps entry by entry: `held`, `lease[client1]`.

    Those of a part that is a machine of its own come after its name: `election.holder`.
    """
    for name, value in state.__dict__.items():
        inner = [(f"{prefix}{name}", value)]
        if isinstance(value, Mapping):
            inner = [(f"{prefix}{name}[{said_key(key)}]", v) for key, v in value.items()]
        for entry, v in inner:
            if isinstance(v, Spec):
                yield from entries(v, f"{entry}.")
            else:
                yield entry, v


def said_key(key: Any) -> str:
    """A map's key as stories print it."""
    return ", ".join(map(said_key, key)) if isinstance(key, tuple) else said(key)


def said(value: Any) -> str:
    """A value as stories print it."""
    if isinstance(value, set):
        return f"{{{', '.join(sorted(map(said, value)))}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(said, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(said, value))})"
    if is_dataclass(value) and not isinstance(value, type):
        inner = ", ".join(f"{f.name}={said(getattr(value, f.name))}" for f in fields(value))
        return f"{type(value).__name__}({inner})"
    if isinstance(value, Enum):
        return (value.value if isinstance(value.value, str) else value.name).lower()
    return str(value) if isinstance(value, int) else str(value).lower()


def changed(before: Spec, step: Step) -> tuple[str, ...]:
    """The changes of a step, entry by entry; or why it has no meaning."""
    if step.undefined:
        return (step.undefined,)
    changes = difference(before, step.state).items()
    return tuple(f"{entry}: {said(a)} → {said(b)}" for entry, (a, b) in changes)


def told(steps: list[Step], initial: Spec, initially: str = "") -> list[str]:
    """A path as numbered sentences, each with what it changed, after how it began."""
    lines, before = [f"{INITIALLY}{initially}"] if initially else [], initial
    for number, step in enumerate(steps, start=1):
        lines.append(f"{number:3}. {step.sentence}  [{step.label}]")
        lines.append(f"       {', '.join(changed(before, step)) or 'nothing changes'}")
        before = step.state
    return lines
