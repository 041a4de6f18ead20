"""
Judges whether a property fails along one path: a story that is replayed.

Nothing is searched here but for `recoverable`, where failing means that something can *not* be
reached: from the path's last state the protocol's own steps are followed, in plain Python, up to a
cap; beyond it nobody knows. A path that goes on for ever (`back`) is judged as such: its loop must
close, and be fair to every instance of every action with a fairness mark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED
from herdspec.check.running.run import Machine, Step
from herdspec.check.verdict import ALWAYS_A_STEP, counted
from herdspec.engine.columns import Columns, Packing
from herdspec.engine.ground import GroundAction
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import DeclaredProperty
from herdspec.language.surface import ActionKind, Expectation, Spec

CAP = 20_000
"""The number of states that are looked at for a way to recover."""

NONE = ""
"""The name of no property: of a path that somebody took, and that need only be possible."""

Judged = tuple[bool | None, str]
"""True if the property fails (None: unknown), and what there is to say."""


@dataclass(frozen=True)
class PathProperty:
    """A property that a path is told of: `name`, and whether the path goes `back` for ever."""

    machine: Machine
    name: str
    back: int | None = None

    def check_known(self, where: str) -> None:
        """`UsageError` if the spec has no such property."""
        if self.name not in (NONE, ALWAYS_A_STEP, EVERY_VALUE_IS_DEFINED) and not self._found():
            known = ", ".join(p.name for p in self.machine.spec.properties)
            what = f"{self.machine.spec.name} has no property {self.name!r}"
            raise UsageError(f"{where}: {what}; it has {known or 'none'}")

    def _found(self) -> bool:
        return any(p.name == self.name for p in self.machine.spec.properties)

    @property
    def promise(self) -> DeclaredProperty:
        """The property."""
        return self.machine.spec.promise(self.name)


def judge(made: PathProperty, initial: Spec, steps: Sequence[Step]) -> Judged:
    """Judge whether the property fails along this path."""
    states = [initial, *(step.state for step in steps)]
    if made.name == ALWAYS_A_STEP:
        return _deadlocked(made.machine, states[-1], steps)
    if made.name in (NONE, EVERY_VALUE_IS_DEFINED):
        return False, "every step has a meaning"
    return _JUDGES.get(made.promise.expectation, _for_ever)(made, states, steps)


def _deadlocked(machine: Machine, state: Spec, steps: Sequence[Step]) -> Judged:
    """No step is possible at the end, within the budget of what disturbs."""
    left = machine.ground.faults - sum(step.action.disturbs for step in steps)
    for step in machine.steps(state):
        if left > 0 or not step.action.disturbs:
            return False, f"{step.label} is possible at the end"
    return True, "there is no next step"


def _always(made: PathProperty, states: Sequence[Spec], steps: Sequence[Step]) -> Judged:
    del steps
    for number, state in enumerate(states):
        if not made.machine.holds(made.promise, state):
            return True, f"after {counted(number, 'step')}" if number else "from the start"
    return False, "in every state of the story"


def _step(made: PathProperty, states: Sequence[Spec], steps: Sequence[Step]) -> Judged:
    for number, (before, after) in enumerate(pairwise(states), start=1):
        if not made.machine.holds(made.promise, before, after):
            return True, f"in step {number}, {steps[number - 1].label}"
    return False, "in every step of the story"


def _sometimes(made: PathProperty, states: Sequence[Spec], steps: Sequence[Step]) -> Judged:
    del steps
    for number, state in enumerate(states):
        if made.machine.holds(made.promise, state):
            return False, f"it is shown after {counted(number, 'step')}"
    return True, "no state of the story shows it"


def _recoverable(made: PathProperty, states: Sequence[Spec], steps: Sequence[Step]) -> Judged:
    """The protocol's own steps, from the last state, breadth first."""
    del steps
    machine, todo = made.machine, [states[-1]]
    seen, cut = {machine.numbers(states[-1])}, False
    highest = [slot.values for slot in machine.ground.slots.values()]
    for state in todo:
        if machine.holds(made.promise, state):
            return False, f"it can be reached again ({counted(len(seen), 'state')} looked at)"
        for step in machine.steps(state):
            numbers = machine.numbers(step.state)
            if step.action.kind is not ActionKind.STEP or numbers in seen:
                continue
            if any(n >= top for n, top in zip(numbers, highest, strict=True)):
                cut = True
                continue
            seen.add(numbers)
            todo.append(step.state)
        if len(seen) > CAP:
            cut = True
            break
    if cut:
        return None, f"unknown: not reached within {len(seen):,} states and the bound of naturals"
    return True, f"none of the {counted(len(seen), 'state')} that can follow by itself has it"


# ── For ever ────────────────────────────────────────────────────────────────────────────────


def _for_ever(made: PathProperty, states: Sequence[Spec], steps: Sequence[Step]) -> Judged:
    """Judge whether the path loops, fairly, without what must come."""
    machine, back = made.machine, made.back
    if back is None:
        return None, "unknown: the story ends, so that what comes after it is not told"
    rows = [machine.numbers(state) for state in states]
    highest = [slot.values for slot in machine.ground.slots.values()]
    if any(n >= top for row in rows for n, top in zip(row, highest, strict=True)):
        return None, "unknown: the story leaves the bound of naturals"
    if rows[back] != rows[-1]:
        return False, f"the story does not come back to where it was after step {back}"
    packing = Packing(machine.ground, symmetry=False)
    seen = Columns(packing, np.concatenate([packing.pack(row) for row in rows]))
    if (unfair := _unfair(machine, seen, back, steps)) is not None:
        return False, f"the story is not fair to {unfair}, which is always possible again"
    for _, premise, goal in machine.ground.cases(made.promise):
        if made.promise.expectation is Expectation.EVENTUALLY_ALWAYS:
            if not _truth(seen, goal)[back:].all():
                return True, "again and again it is not so"
            continue
        wanted = np.flatnonzero(_truth(seen, premise))
        if made.promise.expectation is Expectation.EVENTUALLY:
            wanted = np.zeros(1, np.int64)  # it is due from the start
        reached = np.flatnonzero(_truth(seen, goal))
        if not len(wanted) or (len(reached) and reached[-1] >= back):
            continue  # never due, or brought about in every turn of the loop
        if len(reached) and wanted[-1] <= reached[-1]:
            continue
        due = f"due after {counted(int(wanted[-1]), 'step')}, it" if wanted[-1] else "it"
        return True, f"{due} never comes"
    return False, "along the story it comes whenever it is due"


def _truth(seen: Columns, formula: Expr) -> np.typing.NDArray[np.bool_]:
    return np.broadcast_to(np.asarray(seen.of(formula), bool), (len(seen.rows),))


def _unfair(machine: Machine, seen: Columns, back: int, steps: Sequence[Step]) -> str | None:
    """The first instance to which the loop is not fair: possible, and never taken."""
    owed: dict[object, list[GroundAction]] = {}
    for instance in machine.ground.instances:
        if instance.action.fair is not None:
            owed.setdefault(instance.owed_to, []).append(instance)
    for several in owed.values():
        action = several[0].action
        calls = [machine.arguments(action, i.arguments) for i in several]
        ways = np.array([_meets(seen, i)[back:] for i in several])
        taken = [
            (step.action.name, step.arguments) == (action.name, call) and bool(way[k])
            for call, way in zip(calls, ways, strict=True)
            for k, step in enumerate(steps[back:])
        ]
        possible = ways.any(axis=0)
        assert action.fair is not None, "only what is fair is owed anything"
        if not any(taken) and (possible.any() if action.fair.is_strong else possible.all()):
            label = Step(action, calls[0], machine.initial()).label
            return f"any {action.name}" if action.fair.is_of_any else label
    return None


def _meets(seen: Columns, instance: GroundAction) -> np.typing.NDArray[np.bool_]:
    """Where a step by an instance is possible, and meets the demand that it is owed."""
    possible = _truth(seen, instance.guard)
    if instance.action.fair is None or not instance.action.fair.is_of_any:
        return possible
    slots = seen.packing.ground.slots  # of several choices, one that changes nothing is none
    moves = [seen.of(new) != seen.of(slots[key].expr) for key, new in instance.updates.items()]
    moved = np.any([np.broadcast_to(m, len(seen.rows)) for m in moves], axis=0)
    return np.asarray(possible & moved, bool)


_JUDGES: dict[Expectation, Callable[[PathProperty, Sequence[Spec], Sequence[Step]], Judged]] = {
    Expectation.ALWAYS: _always,
    Expectation.STEP: _step,
    Expectation.SOMETIMES: _sometimes,
    Expectation.RECOVERABLE: _recoverable,
}
