"""
The readings of one spec side by side: the plain Python, the columns and z3, on one state.

The suites compare them on arbitrary states (`test_readings_agree`) and construct by construct
(`test_language`). What is compared here raises `AssertionError` with the state where they differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import z3
from hypothesis import strategies as st

from herdspec.check.exploration.explore import Explorer
from herdspec.check.running.run import Machine
from herdspec.engine.columns import Columns
from herdspec.engine.ground import Ground, GroundAction
from herdspec.engine.python_emit import Overflows, Scripts, Step
from herdspec.engine.smt import Emitter
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import LIVE, Expectation, Undefined
from herdspec.language.types import BOOL, MapOf, Option, SortOf
from herdspec.language.values import BEYOND, decode

Numbers = tuple[int, ...]
"""A state as the numbers of its slots, the count of faults last."""
Call = tuple[str, tuple[Any, ...]]
UNDEFINED: Numbers = (-1,)
"""Stands for the state after a step that looks at what is not there."""
"""An action's name and its arguments' numbers."""

FAULTS = 2
SCRIPTS: WeakKeyDictionary[Explorer, tuple[Scripts, list[tuple[GroundAction, Step]]]]
SCRIPTS = WeakKeyDictionary()
"""The emitted Python of each explorer's instances: examples share it."""


def explorer(spec: Specification, symmetry: bool | None = False) -> Explorer:
    """The columns of a spec at two elements of each sort and two faults."""
    return Explorer(spec, dict.fromkeys(spec.sorts, 2), FAULTS, symmetry=symmetry)


def states(ground: Ground) -> st.SearchStrategy[Numbers]:
    """Every state of the right types, reachable or not."""
    drawn = st.tuples(*(st.integers(0, slot.values - 1) for slot in ground.slots.values()))
    machine = Machine(ground)
    # Of a channel with gaps, and of a half record, only what makes sense is left.
    return drawn.map(lambda row: machine.numbers(machine.state(row), row[-1]))


# ── Two readings of one state ───────────────────────────────────────────────────────────────


def by_python(machine: Machine, numbers: Numbers) -> dict[Call, Numbers]:
    """The successors within the bounds, as the plain Python takes them."""
    found = {}
    state, taken = machine.state(numbers), numbers[-1]
    for action in machine.spec.actions:
        for chosen in machine.ground.choices(action):
            try:
                after = machine.take(state, action.name, machine.arguments(action, chosen))
            except Undefined:
                if taken + action.disturbs <= machine.ground.faults:
                    found[action.name, chosen] = UNDEFINED
                continue
            if after is not None:
                found[action.name, chosen] = machine.numbers(after, taken + action.disturbs)
    slots = machine.ground.slots.values()
    return {
        call: after
        for call, after in found.items()
        if after is UNDEFINED or all(n < s.values for n, s in zip(after, slots, strict=True))
    }


def by_columns(ex: Explorer, rows: Sequence[Numbers]) -> list[dict[Call, Numbers]]:
    """The successors within the bounds, as the columns compute them."""
    columns = Columns(ex.packing, np.concatenate([ex.packing.pack(r) for r in rows]))
    found: list[dict[Call, Numbers]] = [{} for _ in rows]
    for instance in ex.ground.instances:
        possible, defined = columns.of(instance.guard), columns.of(instance.defined)
        for source in np.flatnonzero(possible & ~defined):
            found[source][instance.action.name, instance.arguments] = UNDEFINED
        kept, made = ex.apply(columns, instance, np.flatnonzero(possible & defined))
        after = np.stack([ex.packing.read(made, key) for key in ex.ground.slots], axis=1).tolist()
        for source, row in zip(kept, after, strict=True):
            found[source][instance.action.name, instance.arguments] = tuple(row)
    return found


def by_script(
    ex: Explorer, rows: Sequence[Numbers]
) -> tuple[list[dict[Call, Numbers]], list[set[Call]]]:
    """What the emitted Python leads to (no budget binds it), and what overflows a channel."""
    if ex not in SCRIPTS:
        scripts = Scripts(ex.ground)
        steps = [(i, scripts.step(i.action.name, i.arguments)) for i in ex.ground.instances]
        SCRIPTS[ex] = scripts, steps
    scripts, steps = SCRIPTS[ex]
    found: list[dict[Call, Numbers]] = [{} for _ in rows]
    overflows: list[set[Call]] = [set() for _ in rows]
    for instance, step in steps:
        call = (instance.action.name, instance.arguments)
        for k, row in enumerate(rows):
            try:
                after = step(scripts.apart(row))
            except Overflows:
                overflows[k].add(call)
                continue
            if after is not None:
                *numbers, _ = map(int, chain.from_iterable(after))
                found[k][call] = (*numbers, row[-1] + instance.action.disturbs)
    return found, overflows


def compare_scripts(
    ex: Explorer, rows: Sequence[Numbers], columns: list[dict[Call, Numbers]]
) -> None:
    """The emitted Python takes the steps that the columns take, if within the bound."""
    slots = ex.ground.slots.values()
    for k, (found, overflows) in enumerate(zip(*by_script(ex, rows), strict=True)):
        expected = {call: after for call, after in columns[k].items() if after != UNDEFINED}
        within = {
            call: after
            for call, after in found.items()
            if all(n < s.values for n, s in zip(after, slots, strict=True))
        }
        assert within == expected, ex.machine.state(rows[k])
        assert not overflows & expected.keys(), ex.machine.state(rows[k])


def compare_steps(ex: Explorer, rows: Sequence[Numbers]) -> None:
    """The plain Python, the columns and the emitted Python take the same steps from these."""
    overflowing = too_full(ex, rows)
    columns = by_columns(ex, rows)
    compare_scripts(ex, rows, columns)
    for k, (row, found) in enumerate(zip(rows, columns, strict=True)):
        expected = by_python(ex.machine, row)
        # A message too many is beyond the bound, even if the same step takes it out again.
        for call in overflowing[k] & expected.keys():
            if expected[call] != UNDEFINED:  # what has no meaning has none, however full
                del expected[call]
        assert found == expected, ex.machine.state(row)


def too_full(ex: Explorer, rows: Sequence[Numbers]) -> list[set[Call]]:
    """Which calls overflow a channel on the way, as the columns see it."""
    columns = Columns(ex.packing, np.concatenate([ex.packing.pack(r) for r in rows]))
    found: list[set[Call]] = [set() for _ in rows]
    for instance in ex.ground.instances:
        for k in np.flatnonzero(~columns.of(instance.fits)):
            found[k].add((instance.action.name, instance.arguments))
    return found


def compare_properties(ex: Explorer, rows: Sequence[Numbers]) -> None:
    """The plain Python and the columns say the same of these states, and of steps from them."""
    columns = Columns(ex.packing, np.concatenate([ex.packing.pack(r) for r in rows]))
    instances = {(i.action.name, i.arguments): i for i in ex.ground.instances}
    for promise in ex.ground.spec.properties:
        if promise.expectation in LIVE:
            compare_cases(ex, promise, rows, columns)
            continue
        formula = ex.ground.property(promise)
        if promise.expectation is not Expectation.STEP:
            truth = columns.of(formula)
            for row, found in zip(rows, truth, strict=True):
                assert found == ex.machine.holds(promise, ex.machine.state(row)), promise.name
            continue
        for k, row in enumerate(rows):
            for call, made in by_python(ex.machine, row).items():
                if made is UNDEFINED:
                    continue
                expected = ex.machine.holds(promise, ex.machine.state(row), ex.machine.state(made))
                found = columns.of(ex.ground.after(formula, instances[call]))[k]
                assert found == expected, (promise.name, call)


def compare_cases(
    ex: Explorer, promise: DeclaredProperty, rows: Sequence[Numbers], columns: Columns
) -> None:
    """The plain Python and the columns say the same of a promise about behaviours, case by case."""
    for chosen, premise, goal in ex.ground.cases(promise):
        kinds = [p.kind for _, p in promise.parameters]
        given = [decode(k, n, ex.machine.sorts) for k, n in zip(kinds, chosen, strict=True)]  # type: ignore[arg-type]
        for k, row in enumerate(rows):
            said = ex.machine.evaluated(promise, ex.machine.state(row), *given)
            found = [bool(columns.of(e)[k]) for e in (premise, goal)]
            if said is False:  # the whole has no meaning here, or an `eventually` is not there yet
                assert not found[-1], promise.name
            else:
                assert found == list(said if isinstance(said, tuple) else (True, said))


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
        self.too_full = too_full(ex, [row])[0]
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
                    at = (self.value(k, n) for k, n in zip(e.kind.keys, slot.index, strict=True))
                    e = g.select(e, *at)
                found.append(self.emit.formula(e) == self.emit.formula(self.value(e.kind, number)))
        return found

    def value(self, kind: Any, number: Any) -> Any:
        """A slot's number as an expression over the elements."""
        if isinstance(kind, MapOf):
            bounds = tuple(g.fresh("x", k) for k in kind.keys)
            made = g.lam(bounds, self.value(kind.value, number[0]))
            for index, n in zip(self.ground.indices(kind), number, strict=True):
                at = tuple(self.value(k, i) for k, i in zip(kind.keys, index, strict=True))
                made = g.store(made, at, self.value(kind.value, n))
            return made
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
                guard = self.emit.formula(g.substitute(action.guard, by))
                name = f"{action.name}{chosen}"
                arguments = self.machine.arguments(action, chosen)
                try:
                    after = self.machine.take(before, action.name, arguments)
                except Undefined:
                    defined = self.emit.formula(g.substitute(action.defined, by))
                    self.claims[name] = z3.And(guard, z3.Not(defined))
                    continue
                if after is None:
                    self.claims[name] = z3.Not(guard)
                    continue
                new = {n: g.substitute(e, by) for n, e in action.updates.items()}
                numbers = self.machine.numbers(after)
                if BEYOND in numbers or (action.name, chosen) in self.too_full:
                    fits = self.emit.formula(g.substitute(action.fits, by))
                    self.claims[name] = z3.And(guard, z3.Not(fits))
                    continue
                self.claims[name] = z3.And(guard, *self.equalities(new, numbers))

    def claim_properties(self) -> None:
        """Properties are as true as the plain Python has them."""
        for promise in self.ground.spec.properties:
            if promise.expectation in (Expectation.ALWAYS, Expectation.SOMETIMES):
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
