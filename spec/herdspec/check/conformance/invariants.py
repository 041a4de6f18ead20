"""
Promises about single states, evaluated in every state of a replay.

After a step only those are looked at that speak of what it has changed: by field where the spec's
own Python takes the steps, by slot where they are compiled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

from herdspec.check.conformance.follow import Steps
from herdspec.check.conformance.possible import CandidateState
from herdspec.check.running.generated import GeneratedSpec
from herdspec.check.running.run import Machine
from herdspec.engine.python_emit import Slot
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation

Broken = Sequence[str]
"""A line for each promise that is broken, and one for the state."""


def invariants_of(spec: Specification, failing: Collection[str] = ()) -> list[DeclaredProperty]:
    """The promises of a spec about every state, lemmas included, but for those known to fail."""
    return [
        p for p in spec.properties if p.expectation is Expectation.ALWAYS and p.name not in failing
    ]


class Invariants:
    """Which promises a replay's states break."""

    def __init__(self, steps: Steps, promises: Sequence[DeclaredProperty]) -> None:
        self._steps = steps
        self._machine: Machine = steps.machine
        self._promises = promises
        self._found: _BySlots | _ByFields = (
            _BySlots(steps, promises)
            if isinstance(steps, GeneratedSpec)
            else _ByFields(steps, promises)
        )

    def begun(self, state: Any) -> Broken:
        """The promises that an initial state breaks."""
        return self._broken(state)

    def after(self, action: str, arguments: tuple[Any, ...], before: Any, after: Any) -> Broken:
        """The promises that the state after a step breaks, if the one before breaks none."""
        if self._found.kept(action, arguments, before, after):
            return ()
        return self._broken(after)

    def _broken(self, state: Any) -> Broken:
        plain = self._steps.plain(state)
        broken = [p for p in self._promises if not self._machine.holds(p, plain)]
        if not broken:
            return ()
        return (*(f"{p.name}: {p.sentence}" for p in broken), f"in the state {plain}")


class _ByFields:
    """Looks at the promises that read a field which the action updates."""

    def __init__(self, steps: Steps, promises: Sequence[DeclaredProperty]) -> None:
        self._steps = steps
        reads = [(p, {leaf.data for leaf in g.leaves(p.formula, "field")}) for p in promises]
        self._of = {
            action.name: [p for p, fields in reads if fields & action.updates.keys()]
            for action in steps.machine.spec.actions
        }

    def kept(self, action: str, arguments: tuple[Any, ...], before: Any, after: Any) -> bool:
        """Tells whether a step keeps them."""
        del arguments, before
        promises = self._of[action]
        if not promises:
            return True
        plain = self._steps.plain(after)
        return all(self._steps.machine.holds(p, plain) for p in promises)


class _BySlots:
    """Looks at the conjuncts that read a slot which the step has changed; compiled."""

    def __init__(self, steps: GeneratedSpec, promises: Sequence[DeclaredProperty]) -> None:
        self._steps = steps
        self._parts: dict[Slot, list[Expr]] | None = None
        self._promises = promises
        self._truths: dict[Slot, Callable[[Any], bool]] = {}

    def kept(self, action: str, arguments: tuple[Any, ...], before: Any, after: Any) -> bool:
        """Tells whether a step keeps them."""
        truths = self._truths
        for slot in self._steps.changed(action, arguments, before, after):
            truth = truths.get(slot)
            if truth is None:
                truth = truths[slot] = self._truth(slot)
            if not truth(after):
                return False
        return True

    def _truth(self, slot: Slot) -> Callable[[Any], bool]:
        """All that is promised of a slot."""
        ground = self._steps.machine.ground
        if self._parts is None:
            self._parts = defaultdict(list)
            for promise in self._promises:
                formula = ground.property(promise)
                for part in formula.args if formula.op == "and" else (formula,):
                    for leaf in g.leaves(part, "slot"):
                        self._parts[self._steps.slots[leaf.data]].append(part)
        return self._steps.truth(g.conj(*self._parts.get(slot, ())))


class InvariantsOfSets:
    """Invariants evaluated in sets of states, of a spec without rich fields (`possible.py`)."""

    def __init__(self, machine: Machine, promises: Sequence[DeclaredProperty]) -> None:
        self._machine = machine
        positions = {f.name: k for k, f in enumerate(machine.spec.fields)}
        self._promises = [
            (p, tuple(sorted(positions[leaf.data] for leaf in g.leaves(p.formula, "field"))))
            for p in promises
        ]
        self._known: dict[tuple[str, tuple[int, ...]], bool] = {}
        """By promise and the numbers of the fields that it reads, whether it holds."""
        self._whole: dict[tuple[int, ...], Broken] = {}

    def broken(self, carried: CandidateState) -> Broken:
        """The promises that a state breaks."""
        found = self._whole.get(carried.key)
        if found is None:
            found = self._whole[carried.key] = self._broken(carried)
        return found

    def _broken(self, carried: CandidateState) -> Broken:
        broken = []
        for promise, positions in self._promises:
            key = promise.name, tuple(carried.key[k] for k in positions)
            holds = self._known.get(key)
            if holds is None:
                holds = self._known[key] = self._machine.holds(promise, carried.state)
            if not holds:
                broken.append(f"{promise.name}: {promise.sentence}")
        return (*broken, f"in the state {carried.state}") if broken else ()
