"""
States that follow from picked ones: the code is led there, and each step on the way is compared.

Code that is in the middle of something has more inside than the spec's state tells; no `load` can
make that up. But steps lead there: what was picked satisfies what is proved, so each state that
follows does, too, and the numbers and the sizes in it are those that z3 picked. The next step is
always one of a case of which the fewest states were had, so that all cases have their turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from herdproof.conformance.adapter import method_of
from herdproof.conformance.holding.held import Held
from herdproof.conformance.holding.solve import Interval, Solver, known
from herdproof.conformance.solver.cases import GuardCase
from herdproof.conformance.solver.found import Tally
from herdproof.conformance.solver.picks import Picked, Picker
from herdspec.engine.ground import SlotKey
from herdspec.language.surface import ActionKind, Spec

STEPS = 100
"""The number of steps that are taken from one picked state, refusals included."""
STANDS = 4
"""The number of times that a state of a fault, or a refusal, counts: it leads nowhere, or back."""


class Onward:
    """Leads code on from where it was put."""

    def __init__(self, held: Held, picker: Picker, tallies: list[Tally], chance: Random) -> None:
        self.held = held
        self.picker = picker
        self.chance = chance
        self.tallies = tallies
        self._waits = not all(hasattr(held.adapter, method_of(a)) for a in held.adapter.silent)
        self._solvers: dict[GuardCase, Solver] = {}

    def rest(self) -> None:
        """Let the code do what only it can take, where it may have; raises `Differs`."""
        if self._waits and len(self.held.states) > 1:
            self.held.wait()

    def next(self) -> Iterator[tuple[Tally, Picked]]:
        """Each next question to the code, until it is where nobody knows, or had its steps."""
        at: Spec | None = None
        asked: set[GuardCase] = set()
        for _ in range(STEPS):
            if len(self.held.states) != 1:
                return
            if self.held.states[0].state is not at:
                at, asked = self.held.states[0].state, set()
            found = self._least(at, asked)
            if found is None:
                return
            asked.add(found[1].case)
            yield found

    def _least(self, state: Spec, asked: set[GuardCase]) -> tuple[Tally, Picked] | None:
        """A question of a case of which there are the fewest states, of those that are given."""
        left = [t for t in self.tallies if t.case not in asked]
        self.chance.shuffle(left)
        numbers = known(self.held.machine, state)
        for tally in sorted(left, key=_weight):
            arguments = self._arguments(tally.case, numbers)
            if arguments is not None:
                return tally, self.picker.known(tally.case, state, arguments)
        return None

    def _arguments(
        self, case: GuardCase, numbers: Mapping[SlotKey, Interval]
    ) -> tuple[Any, ...] | None:
        """Arguments with which a case is given in the state of these numbers, chosen at random."""
        solver = self._solvers.get(case)
        if solver is None:
            action = replace(case.action, guard=case.formula)
            solver = self._solvers[case] = Solver(self.held.machine, action)
        found = solver.solve_among(numbers, {}, self.chance)
        if not isinstance(found, tuple):
            return None
        return self.held.machine.arguments(case.action, found)


def _weight(tally: Tally) -> int:
    """The number of states that a case had; many times over, where little goes on from there."""
    leads = tally.case.allowed and tally.case.action.kind is not ActionKind.FAULT
    return (tally.picked + tally.led) * (1 if leads else STANDS)
