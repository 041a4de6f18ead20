"""
The readings of one spec side by side: the plain Python, the columns and z3, on one state.

The suites compare them on arbitrary states (`test_readings_agree`) and construct by construct
(`test_language`). What is compared here raises `AssertionError` with the state where they differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import z3
from hypothesis import strategies as st

from herdspec import Specification
from herdspec.check.explore import Explorer
from herdspec.check.run import Machine
from herdspec.engine.columns import Columns
from herdspec.engine.ground import Ground
from herdspec.engine.smt import Emitter
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.surface import Expectation
from herdspec.language.types import BOOL, MapOf, Option, SortOf, Type

Numbers = tuple[int, ...]
"""A state as the numbers of its slots, the count of faults last."""
Call = tuple[str, Numbers]
"""An action's name and its arguments' numbers."""

FAULTS = 2


def explorer(spec: Specification, symmetry: bool = False) -> Explorer:
    """The columns of a spec at two elements of each sort and two faults."""
    return Explorer(spec, dict.fromkeys(spec.sorts, 2), FAULTS, symmetry=symmetry)


def states(ground: Ground) -> st.SearchStrategy[Numbers]:
    """Every well-typed state, reachable or not."""
    return st.tuples(*(st.integers(0, slot.values - 1) for slot in ground.slots.values()))


# ── Two readings of one state ───────────────────────────────────────────────────────────────


def by_python(machine: Machine, numbers: Numbers) -> dict[Call, Numbers]:
    """The successors within the bounds, as the plain Python takes them."""
    found = {}
    state, taken = machine.state(numbers), numbers[-1]
    for action in machine.spec.actions:
        for chosen in machine.ground.choices(action):
            after = machine.take(state, action.name, machine.arguments(action, chosen))
            if after is not None:
                found[action.name, chosen] = machine.numbers(after, taken + action.disturbs)
    slots = machine.ground.slots.values()
    return {
        call: after
        for call, after in found.items()
        if all(n < slot.values for n, slot in zip(after, slots, strict=True))
    }


def by_columns(ex: Explorer, rows: Sequence[Numbers]) -> list[dict[Call, Numbers]]:
    """The successors within the bounds, as the columns compute them."""
    columns = Columns(ex.packing, np.concatenate([ex.packing.pack(r) for r in rows]))
    found: list[dict[Call, Numbers]] = [{} for _ in rows]
    for instance in ex.ground.instances:
        possible = np.flatnonzero(columns.of(instance.guard))
        kept, made = ex.apply(columns, instance, possible)
        after = np.stack([ex.packing.read(made, key) for key in ex.ground.slots], axis=1).tolist()
        for source, row in zip(kept, after, strict=True):
            found[source][instance.action.name, instance.arguments] = tuple(row)
    return found


def compare_steps(ex: Explorer, rows: Sequence[Numbers]) -> None:
    """The plain Python and the columns take the same steps from these states."""
    for row, found in zip(rows, by_columns(ex, rows), strict=True):
        expected = by_python(ex.machine, row)
        assert found == expected, ex.machine.state(row)


def compare_properties(ex: Explorer, rows: Sequence[Numbers]) -> None:
    """The plain Python and the columns say the same of these states, and of steps from them."""
    columns = Columns(ex.packing, np.concatenate([ex.packing.pack(r) for r in rows]))
    instances = {(i.action.name, i.arguments): i for i in ex.ground.instances}
    for promise in ex.ground.spec.properties:
        formula = ex.formulas[promise.name]
        if promise.expectation is not Expectation.STEP:
            truth = columns.of(formula)
            for row, found in zip(rows, truth, strict=True):
                assert found == ex.machine.holds(promise, ex.machine.state(row)), promise.name
            continue
        for k, row in enumerate(rows):
            for call, made in by_python(ex.machine, row).items():
                expected = ex.machine.holds(promise, ex.machine.state(row), ex.machine.state(made))
                found = columns.of(ex.ground.after(formula, instances[call]))[k]
                assert found == expected, (promise.name, call)


# ── The third: z3 ───────────────────────────────────────────────────────────────────────────


class Solved:
    """What the formulas of proofs say of one state over a closed universe of two elements."""

    def __init__(self, ex: Explorer, row: Numbers) -> None:
        self.ground, self.machine, self.row = ex.ground, ex.machine, row
        spec = self.ground.spec
        self.emit = Emitter(spec)
        self.elements = {
            SortOf(n): [g.fresh(n, SortOf(n)) for _ in range(self.ground.sizes[n])]
            for n in spec.sorts
        }
        self.claims: dict[str, Any] = {}
        self.solver = z3.Solver(ctx=self.emit.context)
        self.solver.add(*self.universe(), *self.state())

    def universe(self) -> list[Any]:
        """There are these elements, and no others."""
        found = []
        for kind, elements in self.elements.items():
            terms = [self.emit.formula(e) for e in elements]
            x = z3.Const("x", self.emit.sort(kind))
            found += [z3.Distinct(*terms), z3.ForAll([x], z3.Or(*(x == t for t in terms)))]
        return found

    def state(self) -> list[Any]:
        """Every field has its value in the state."""
        fields = {f.name: g.field(f.name, f.kind) for f in self.ground.spec.fields}
        return self.equalities(fields, self.row)

    def equalities(self, fields: Mapping[str, Expr], row: Numbers) -> list[Any]:
        """Every entry of these fields has its value in this row."""
        found = []
        for slot, number in zip(self.ground.slots.values(), row, strict=True):
            if slot.field in fields:
                e = fields[slot.field]
                if isinstance(e.kind, MapOf):
                    e = g.select(e, self.elements[e.kind.key][slot.index or 0])
                found.append(self.emit.formula(e) == self.emit.formula(self.value(e.kind, number)))
        return found

    def value(self, kind: Type, number: int) -> Expr:
        """A slot's number as an expression over the elements."""
        if isinstance(kind, Option):
            return g.some(self.value(kind.of, number - 1)) if number else g.none(kind)
        if isinstance(kind, SortOf):
            return self.elements[kind][number]
        return g.boolean(bool(number)) if kind == BOOL else g.const(kind, number)

    def claim_steps(self) -> None:
        """Guards and updates are as the plain Python has them (bounds aside)."""
        before = self.machine.state(self.row)
        for action in self.ground.spec.actions:
            for chosen in self.ground.choices(action):
                given = zip(action.parameters, chosen, strict=True)
                by = {p: self.value(p.kind, n) for (_, p), n in given}
                after = self.machine.take(
                    before, action.name, self.machine.arguments(action, chosen)
                )
                guard = self.emit.formula(g.substitute(action.guard, by))
                name = f"{action.name}{chosen}"
                if after is None:
                    self.claims[name] = z3.Not(guard)
                    continue
                new = {n: g.substitute(e, by) for n, e in action.updates.items()}
                made = self.equalities(new, self.machine.numbers(after))
                self.claims[name] = z3.And(guard, *made)

    def claim_properties(self) -> None:
        """Properties are as true as the plain Python has them."""
        for promise in self.ground.spec.properties:
            if promise.expectation is not Expectation.STEP:
                truth = self.machine.holds(promise, self.machine.state(self.row))
                formula = self.emit.formula(promise.formula)
                self.claims[promise.name] = formula if truth else z3.Not(formula)

    def check(self) -> None:
        """No claim can be false."""
        self.solver.add(z3.Not(z3.And(*self.claims.values())))
        if (answer := self.solver.check()) == z3.unsat:
            return
        model = self.solver.model() if answer == z3.sat else None
        wrong = [n for n, c in self.claims.items() if model and not z3.is_true(model.eval(c))]
        raise AssertionError(f"z3 says {answer} of {wrong}: {self.machine.state(self.row)}")


def compare_with_z3(ex: Explorer, row: Numbers) -> None:
    """The formulas of proofs say of this state what the plain Python says."""
    solved = Solved(ex, row)
    assert solved.solver.check() == z3.sat, "the state itself is possible"
    solved.claim_steps()
    solved.claim_properties()
    solved.check()
