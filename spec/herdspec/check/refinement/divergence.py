"""
Divergence of a spec and a mutant: the nearest state from which their steps differ.

The reachable states of the original are looked at, nearest first, with the instances of both. Steps
that change nothing, which only one of the two can take, are told apart from those that do: no
property of a state or of a step notices them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from herdspec.check.exploration.explore import Explorer
from herdspec.check.running.run import Machine, Step, difference, said
from herdspec.check.verdict import few
from herdspec.engine.columns import Column, Columns
from herdspec.engine.ground import FAULTS, Ground, GroundAction, Number
from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import Action, DeclaredProperty, Specification
from herdspec.language.surface import Spec, Undefined

ROWS = 1 << 15
"""States that are compared at one time."""
BEGINNING = -1
"""Where two specs differ that have other initial states."""


class StepComparison:
    """The reachable states of an original, to compare its steps from each with a mutant's."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.ground = explorer.ground
        self.instances = _by_call(self.ground)
        self.starts = _starts(explorer.machine)

    def first_difference(self, other: Ground) -> Difference | None:
        """Where the other takes other steps, nearest to the start; None where it never does."""
        if other.slots != self.ground.slots:
            raise UsageError("a mutant has the fields of its original")
        if _starts(Machine(other)) != self.starts:
            return Difference(BEGINNING)
        theirs = _by_call(other)
        pairs = [
            (self.instances.get(call), theirs.get(call))
            for call in {**self.instances, **theirs}
            if not _same(self.instances.get(call), theirs.get(call))
        ]
        rows, found = self.explorer.rows, None
        for low in range(0, len(rows) if pairs else 0, ROWS):
            columns = Columns(self.explorer.packing, rows[low : low + ROWS])
            for one, two in pairs:
                here = self._first(columns, low, one, two)
                found = here if found is None else found.nearer(here)
            if found is not None and found.telling is not None:
                break
        return found

    def _first(
        self, columns: Columns, low: int, one: GroundAction | None, two: GroundAction | None
    ) -> Difference | None:
        """The first of these states from which one instance does not do what the other does."""
        may, might = _possible(columns, one), _possible(columns, two)
        differs = may != might
        telling = differs & ~self._idle(columns, one, may) & ~self._idle(columns, two, might)
        if one is not None and two is not None:
            both = (may == 1) & (might == 1)
            for key in {**one.updates, **two.updates}:
                slot = self.ground.slots[key]
                a, b = (columns.of(i.updates.get(key, slot.expr)) for i in (one, two))
                if slot.is_bounded:  # all that lies beyond the bound is dropped alike
                    a, b = (np.minimum(v.astype(np.int64), slot.values) for v in (a, b))
                telling |= both & (a != b)
        if not (differs | telling).any():
            return None
        return Difference(low + int(np.argmax(telling)) if telling.any() else None)

    def _idle(self, columns: Columns, instance: GroundAction | None, possible: Column) -> Column:
        """Where an instance is possible and changes nothing but the count of faults."""
        idle: Column = possible == 1
        for key, new in instance.updates.items() if instance is not None else ():
            slot = self.ground.slots[key]
            if slot.field != FAULTS:
                idle = idle & (columns.of(new) == columns.of(slot.expr))
        return idle


@dataclass(frozen=True)
class Difference:
    """
    The number of the first state where a step differs that changes something.

    None: there are only steps that change nothing, which one of the two can take.
    """

    telling: int | None

    def nearer(self, other: Difference | None) -> Difference:
        """The one that is nearer to the start."""
        states = [d.telling for d in (self, other) if d is not None and d.telling is not None]
        return Difference(min(states, default=None))


Call = tuple[str, tuple[Number, ...]]
"""An action's name, and the numbers of its arguments."""


def _starts(machine: Machine) -> list[tuple[int, ...]]:
    """All initial states, as numbers."""
    return [machine.numbers(state) for state in machine.starts()]


def _by_call(ground: Ground) -> dict[Call, GroundAction]:
    return {(i.action.name, i.arguments): i for i in ground.instances}


def _parts(instance: GroundAction) -> tuple[Expr, ...]:
    """Everything that must hold for a step."""
    return instance.guard, instance.defined, instance.fits


def _same(one: GroundAction | None, two: GroundAction | None) -> bool:
    """Tells whether two instances are the same formulas."""
    if one is None or two is None:
        return one is two
    return _parts(one) == _parts(two) and dict(one.updates) == dict(two.updates)


def _possible(columns: Columns, instance: GroundAction | None) -> Column:
    """Where an instance leads somewhere, as a number: where it is undefined is told apart, too."""
    if instance is None:
        return np.zeros(len(columns.rows), np.uint8)
    guard, defined, fits = (columns.of(part) for part in _parts(instance))
    leads: Column = np.where(defined, np.where(fits, np.uint8(1), np.uint8(5)), np.uint8(3))
    return guard * leads


@dataclass(frozen=True)
class DivergenceRenderer:
    """Says in words how two machines differ in what they do from one state."""

    original: Machine
    mutant: Machine
    spec: Specification

    def first(self, state: Spec, taken: int) -> tuple[str, str]:
        """The first step that only one can take, or that leads elsewhere; and what is missing."""
        twin = self.mutant.state(self.original.numbers(state, taken))
        for action, arguments in self._choices():
            if action.disturbs and taken >= self.original.ground.faults:
                continue
            call = Step(action, arguments, state).label
            one = _moved(self.original, state, action.name, arguments)
            two = _moved(self.mutant, twin, action.name, arguments)
            if one is None and two is not None:
                wanted = f"no property forbids {call} there"
                return f"it can {call}, the original cannot", self._missing(wanted, state, two)
            if one is not None and two is None:
                wanted = f"no property asks that {call} is possible there"
                return f"it cannot {call}, the original can", self._missing(wanted, state, one)
            if one is not None and two is not None and (words := self._otherwise(one, two)):
                wanted = f"no property says what {call} leads to there"
                return f"{call} leads to {', '.join(words)}", self._missing(wanted, one, two)
            meaning = [_is_undefined(m, s, action.name, arguments)
                       for m, s in ((self.original, state), (self.mutant, twin))]  # fmt: skip
            if meaning[0] != meaning[1]:
                return _without_meaning(call, mutant=meaning[1])
        raise AssertionError("run and explore disagree: the plain Python sees no difference")

    def _choices(self) -> Iterator[tuple[Action, tuple[Any, ...]]]:
        """Every call of either: a part's action is its own where no joint action calls it."""
        known = {a.name for a in self.original.spec.actions}
        yield from self.original.choices
        yield from (c for c in self.mutant.choices if c[0].name not in known)

    @staticmethod
    def _otherwise(one: Spec, two: Spec) -> list[str]:
        return [
            f"{entry}: {said(b)} instead of {said(a)}"
            for entry, (a, b) in difference(one, two).items()
        ]

    def _missing(self, wanted: str, one: Spec, two: Spec) -> str:
        """The words for what no property says, and for which of them read what changes."""
        changed = list(dict.fromkeys(entry.partition("[")[0] for entry in difference(one, two)))
        readers = [
            p.name.replace("_", " ")
            for p in self.spec.properties
            if any(_reads(p, name) for name in changed)
        ]
        if not readers:
            return f"{wanted}; none reads {', '.join(changed)}"
        return f"{wanted}; those that read {', '.join(changed)}: {few(readers)}"


def _without_meaning(call: str, *, mutant: bool) -> tuple[str, str]:
    """The words for a step that has no meaning in one alone, and is not possible in the other."""
    looks = f"looks at a value that is not there, by {call}"
    differs = f"it {looks}, the original cannot" if mutant else f"it cannot, the original {looks}"
    return differs, "the original has steps without a meaning, so that no further one is noticed"


def _is_undefined(machine: Machine, state: Spec, action: str, arguments: Any) -> bool:
    """Tells whether a step looks at a value that is not there, or leaves a range."""
    if all(a.name != action for a in machine.spec.actions):
        return False
    try:
        machine.take(state, action, arguments)
    except Undefined:
        return True
    return False


def _moved(machine: Machine, state: Spec, action: str, arguments: Any) -> Spec | None:
    """The state after a step; one that changes nothing, or has no meaning, counts as none."""
    if all(a.name != action for a in machine.spec.actions):
        return None
    try:
        after = machine.take(state, action, arguments)
    except Undefined:
        return None
    return None if after is None or not difference(state, after) else after


def _reads(promise: DeclaredProperty, name: str) -> bool:
    """Tells whether a property reads a field, or a flat part of it."""
    formulas = [e for e in (promise.formula, promise.goal) if e is not None]
    read = {x.data for e in formulas for op in ("field", "after") for x in g.leaves(e, op)}
    return any(f"{field}.".startswith(f"{name}.") for field in read)
