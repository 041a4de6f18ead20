"""
The *explore* reading: every reachable state at given sizes, breadth first.

States are packed (`herdspec.engine.columns`) and taken up to renaming where that is exact; a level
is expanded by whole columns. Breadth first makes the first counterexample a shortest one; ties go
to the least parent, then to the first action. A successor beyond the bound of naturals is dropped,
counted and said; a search that ends at its memory budget is *truncated*, never a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herdspec.check.run import Machine, Step, told
from herdspec.check.visited import Visited
from herdspec.engine.columns import Columns, Key, Packing, Words
from herdspec.engine.ground import Ground, Instance
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Promise, Specification
from herdspec.language.surface import Expectation, Spec

CHUNK = 1 << 15
"""States that are expanded at one time."""
BATCH = 1 << 21
"""Successors that are numbered at one time."""
MEMORY_BYTES = 8 << 30


@dataclass(frozen=True)
class Story:
    """A path from the initial state, replayed in the plain Python."""

    initial: Spec
    steps: list[Step]

    @property
    def lines(self) -> list[str]:
        """The path as numbered sentences."""
        return told(self.steps, self.initial)

    @property
    def labels(self) -> list[str]:
        """The actions, as calls."""
        return [step.label for step in self.steps]


@dataclass(frozen=True)
class Edges:
    """The explored graph: three columns of one length (state, instance, state)."""

    source: NDArray[np.uint32]
    instance: NDArray[np.uint16]
    target: NDArray[np.uint32]


@dataclass
class Exploration:
    """What was found; `states` are representatives, `orbits` counts all that they stand for."""

    spec: Specification
    sizes: Mapping[str, int]
    faults: int
    bound: int
    states: int = 0
    orbits: int = 0
    generated: int = 0
    depth: int = 0
    dropped: int = 0
    truncated: bool = False
    symmetric: bool = False
    taken: dict[str, int] = field(default_factory=dict)
    violations: dict[str, Story] = field(default_factory=dict)
    witnesses: dict[str, Story] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    deadlock: Story | None = None

    @property
    def size(self) -> str:
        """The size and the bounds, as verdicts say them."""
        sorts = ", ".join(f"{n} {name.lower()}s" for name, n in self.sizes.items())
        return f"{sorts}, {self.faults} faults, naturals up to {self.bound}"

    @property
    def complete(self) -> bool:
        """Whether every state was seen."""
        return not self.truncated and not self.dropped


class Batch:
    """Successors that wait to be numbered; their rank is their parent, then their instance."""

    def __init__(self, words: int) -> None:
        self._rows: list[Words] = [np.zeros((0, words), np.uint64)]
        self._ranks: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        self.size = 0

    def take(self, parents: NDArray[np.int64], number: int, rows: Words) -> None:
        """Add the successors by one instance."""
        self._rows.append(rows)
        self._ranks.append(parents << 16 | number)
        self.size += len(rows)

    def columns(self) -> tuple[Words, NDArray[np.int64]]:
        """All rows, and their ranks."""
        return np.concatenate(self._rows), np.concatenate(self._ranks)


Progress = Callable[[int, int, int], None]
"""Told after each level: depth, states, states still to expand."""


def explore(
    spec: Specification,
    sizes: Mapping[str, int],
    *,
    faults: int,
    bound: int | None = None,
    symmetry: bool = True,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress | None = None,
) -> Exploration:
    """
    Explore a spec; `faults` is the budget of what disturbs, `bound` the largest natural.

    By default the bound is one more than the budget. Properties that are violated get a shortest
    story each; the search goes on to the end, so that all of them are found.
    """
    return Explorer(spec, sizes, faults, bound, symmetry, memory_bytes).run(progress)


class Explorer:
    """One search. After `run`, `rows`, `edges` and `path` serve those who walk the graph."""

    def __init__(
        self, spec: Specification, sizes: Mapping[str, int], faults: int,
        bound: int | None = None, symmetry: bool = True, memory_bytes: int = MEMORY_BYTES,
    ) -> None:  # fmt: skip
        self.ground = Ground(spec, dict(sizes), faults + 1 if bound is None else bound, faults)
        self.machine = Machine(self.ground)
        self.packing = Packing(self.ground, symmetry)
        self.memory_bytes = memory_bytes
        self.result = Exploration(spec, sizes, faults, self.ground.bound)
        self.result.symmetric = self.packing.blocks > 1
        self.result.taken = {a.name: 0 for a in spec.actions}
        self.visited = Visited(self.packing.words)
        self.parents: list[NDArray[np.int64]] = []
        self.by: list[NDArray[np.uint16]] = []
        self.firsts: dict[str, int] = {}
        self.step_breaks: dict[str, tuple[int, int]] = {}
        self.obligations: dict[str, Mapping[str, Expr]] = {}
        self.sought: dict[str, Mapping[str, Expr]] = {}
        self.witnessed: set[str] = set()
        self._of_steps: dict[int, dict[str, Expr]] = {}
        self.formulas = {p.name: self.ground.property(p) for p in spec.properties}
        self.keeps_edges = any(p.expectation is Expectation.RECOVERABLE for p in spec.properties)
        self.edge_parts: list[Edges] = []
        self.edges: Edges | None = None

    def obliges(self, name: str, formulas: Mapping[str, Expr]) -> None:
        """Check a formula of each action (by name) before every step by it; call before `run`."""
        self.obligations[name] = formulas

    def witnesses(self, name: str, formulas: Mapping[str, Expr]) -> None:
        """Look for a step by one of these actions for which its formula holds."""
        self.sought[name] = formulas

    @property
    def rows(self) -> Words:
        """All states, in the order in which they were found."""
        return self.visited.rows

    # ── The search ──────────────────────────────────────────────────────────────────────────

    def run(self, progress: Progress | None = None) -> Exploration:
        """Search to the end, or to the memory budget."""
        start = self.packing.pack(self.machine.numbers(self.machine.initial()))
        self.visited.merge(self.packing.canonical(start), np.zeros(1, np.int64))
        self.parents.append(np.array([-1], np.int64))
        self.by.append(np.array([0], np.uint16))
        first, last = 0, 1
        while first < last:
            self.check_states(first, last)
            self.level(first, last)
            first, last = last, len(self.visited)
            self.result.depth += first < last
            if progress:
                progress(self.result.depth, last, last - first)
            if self.bytes() > self.memory_bytes:
                self.result.truncated = first < last
                break
        return self.finish()

    def bytes(self) -> int:
        """Memory held for states and edges."""
        edges = sum(10 * len(part.source) for part in self.edge_parts)
        return self.visited.nbytes + 10 * len(self.visited) + edges

    def level(self, first: int, last: int) -> None:
        """Expand the states of one level, and add what is new."""
        batch = Batch(self.packing.words)
        for low in range(first, last, CHUNK):
            columns = Columns(self.packing, self.visited.rows[low : min(low + CHUNK, last)])
            for source, number, made in self.successors(columns):
                batch.take(source + low, number, made)
            if batch.size > BATCH:
                self.add(batch)
                batch = Batch(self.packing.words)
        self.add(batch)

    def add(self, batch: Batch) -> None:
        """Number what was generated, and keep what is new of it."""
        if not batch.size:
            return
        rows, rank = batch.columns()
        merged = self.visited.merge(rows, rank)
        self.parents.append(merged.ranks >> 16)
        self.by.append((merged.ranks & 0xFFFF).astype(np.uint16))
        if self.keeps_edges:
            self.edge_parts.append(
                Edges(
                    (rank >> 16).astype(np.uint32),
                    (rank & 0xFFFF).astype(np.uint16),
                    merged.numbers.astype(np.uint32),
                )
            )

    def successors(self, columns: Columns) -> Iterator[tuple[NDArray[Any], int, Words]]:
        """For each instance that is possible somewhere: from which states, its number, to which."""
        moved = np.zeros(len(columns.rows), bool)
        low = self.visited.position(columns.rows)
        for number, instance in enumerate(self.ground.instances):
            possible = columns.of(instance.guard)
            source = np.flatnonzero(possible)
            if not len(source):
                continue
            moved |= possible
            kept, made = self.apply(columns, instance, source)
            self.result.dropped += len(source) - len(kept)
            self.result.generated += len(kept)
            self.result.taken[instance.action.name] += len(kept)
            self.check_steps(columns, instance, kept, low, number)
            yield kept, number, self.packing.canonical(made)
        if not moved.all() and self.result.deadlock is None:
            self.firsts.setdefault("deadlock", low + int(np.flatnonzero(~moved)[0]))

    def apply(
        self, columns: Columns, instance: Instance, source: NDArray[Any]
    ) -> tuple[NDArray[Any], Words]:
        """The successors by one instance; those beyond the bound are left out."""
        values: dict[Key, Any] = {}
        for key, new in instance.updates.items():
            plain = new.op == "const"
            values[key] = int(new.data) if plain else columns.of(new)[source]
        within = np.ones(len(source), bool)
        for key, value in values.items():
            if self.ground.slots[key].is_bounded:
                within &= value <= self.ground.slots[key].values - 1
        made = columns.rows[source]
        for key, value in values.items():
            self.packing.write(made, key, value)
        if within.all():
            return source, made
        return source[within], made[within]

    # ── Properties ──────────────────────────────────────────────────────────────────────────

    def promises(self, *kinds: Expectation) -> list[Promise]:
        """The spec's properties of these kinds."""
        return [p for p in self.ground.spec.properties if p.expectation in kinds]

    def check_states(self, first: int, last: int) -> None:
        """Note the first state that breaks an invariant, or witnesses a possibility."""
        for low in range(first, last, CHUNK):
            columns = Columns(self.packing, self.visited.rows[low : min(low + CHUNK, last)])
            for p in self.promises(Expectation.ALWAYS, Expectation.SOMETIMES):
                if p.name in self.firsts:
                    continue
                truth = columns.of(self.formulas[p.name])
                hits = truth if p.expectation is Expectation.SOMETIMES else ~truth
                if hits.any():
                    self.firsts[p.name] = low + int(np.argmax(hits))

    def check_steps(
        self, columns: Columns, instance: Instance, source: NDArray[Any], low: int, number: int
    ) -> None:
        """Note the first step by this instance that breaks a step promise."""
        if not len(source):
            return
        for name, kept in self.step_formulas(number).items():
            bad = source[~columns.of(kept)[source]] if kept is not g.TRUE else source[:0]
            if len(bad):
                found = (low + int(bad[0]), number)
                self.step_breaks[name] = min(self.step_breaks.get(name, found), found)
        for name, formulas in self.sought.items():
            formula = formulas.get(instance.action.name)
            if name not in self.witnessed and formula is not None:
                seen = columns.of(self.ground.of_instance(formula, instance))[source]
                if seen.any():
                    self.witnessed.add(name)

    def step_formulas(self, number: int) -> dict[str, Expr]:
        """What must hold before each step by an instance, over slots."""
        if number not in self._of_steps:
            instance = self.ground.instances[number]
            found = {
                p.name: self.ground.after(self.formulas[p.name], instance)
                for p in self.promises(Expectation.STEP)
            }
            for name, formulas in self.obligations.items():
                if instance.action.name in formulas:
                    formula = formulas[instance.action.name]
                    found[name] = self.ground.of_instance(formula, instance)
            self._of_steps[number] = found
        return self._of_steps[number]

    def recover(self, formula: Expr) -> int | None:
        """The first state from which the protocol alone cannot reach the formula, if any."""
        assert self.edges is not None, "edges are kept where a property needs them"
        reached = np.zeros(len(self.visited), bool)
        for low in range(0, len(self.visited), CHUNK):
            columns = Columns(self.packing, self.visited.rows[low : low + CHUNK])
            reached[low : low + CHUNK] = columns.of(formula)
        protocol = np.array([i.by_protocol for i in self.ground.instances])
        mine = protocol[self.edges.instance]
        source, target = self.edges.source[mine], self.edges.target[mine]
        count = -1
        while count != (count := int(reached.sum())):
            reached[source[reached[target]]] = True
        return None if count == len(reached) else int(np.argmin(reached))

    # ── The end ─────────────────────────────────────────────────────────────────────────────

    def finish(self) -> Exploration:
        """Turn what was noted into stories."""
        r = self.result
        r.states = len(self.visited)
        r.orbits = self.packing.orbits(self.visited.rows)
        if self.keeps_edges and not r.truncated:
            self.edges = self._edges()
        for p in self.promises(Expectation.RECOVERABLE):
            if not r.complete:
                r.undecided.append(p.name)
            elif (stuck := self.recover(self.formulas[p.name])) is not None:
                r.violations[p.name] = self.story(stuck)
        for p in self.promises(Expectation.ALWAYS, Expectation.SOMETIMES):
            if p.name in self.firsts:
                found = r.violations if p.expectation is Expectation.ALWAYS else r.witnesses
                found[p.name] = self.story(self.firsts[p.name])
            elif p.expectation is Expectation.SOMETIMES:
                r.missing.append(p.name)
        for name, (state, number) in self.step_breaks.items():
            r.violations[name] = self.story(state, number)
        if "deadlock" in self.firsts:
            r.deadlock = self.story(self.firsts["deadlock"])
        return r

    def _edges(self) -> Edges:
        """All edges, in the order in which they were found."""
        parts, self.edge_parts = self.edge_parts, []
        if not parts:
            empty = np.zeros(0, np.uint32)
            return Edges(empty, empty.astype(np.uint16), empty)
        return Edges(
            np.concatenate([p.source for p in parts]),
            np.concatenate([p.instance for p in parts]),
            np.concatenate([p.target for p in parts]),
        )

    def story(self, state: int, last: int | None = None) -> Story:
        """
        The shortest path to a state, replayed from the initial state in the plain Python.

        The search kept representatives; each step is one whose canonical form is the next of them,
        so that the labels are those of one consistent run. `last` is a further instance to take.
        """
        parents = np.concatenate(self.parents)
        chain = [state]
        while parents[chain[-1]] >= 0:
            chain.append(int(parents[chain[-1]]))
        present, taken = self.machine.initial(), 0
        steps: list[Step] = []
        for target in reversed(chain[:-1]):
            step, taken = self._step_to(present, taken, self.visited.rows[target])
            steps.append(step)
            present = step.state
        if last is not None:
            steps.append(self._step_by(present, taken, state, self.ground.instances[last]))
        return Story(self.machine.initial(), steps)

    def _step_to(self, present: Spec, taken: int, row: NDArray[np.uint64]) -> tuple[Step, int]:
        for step in self.machine.steps(present):
            faults = taken + step.action.disturbs
            if self.within(step.state, faults) and np.array_equal(
                self.row(step.state, faults)[0], row
            ):
                return step, faults
        raise AssertionError("run and explore disagree: no step of the Python leads to this state")

    def _step_by(self, present: Spec, taken: int, state: int, instance: Instance) -> Step:
        """The step of the plain Python that is, up to renaming, this instance from this state."""
        columns = Columns(self.packing, self.visited.rows[state : state + 1])
        _, made = self.apply(columns, instance, np.array([0]))
        wanted = self.packing.canonical(made)[0]
        for step in self.machine.steps(present):
            faults = taken + step.action.disturbs
            same = step.action.name == instance.action.name and self.within(step.state, faults)
            if same and np.array_equal(self.row(step.state, faults)[0], wanted):
                return step
        raise AssertionError("run and explore disagree: the last step is not possible in Python")

    def within(self, state: Spec, faults: int) -> bool:
        """Whether a state of the plain Python is within the bounds of this search."""
        numbers = self.machine.numbers(state, faults)
        slots = self.ground.slots.values()
        return all(n < slot.values for n, slot in zip(numbers, slots, strict=True))

    def row(self, state: Spec, faults: int) -> Words:
        """A state of the plain Python, packed and canonical."""
        return self.packing.canonical(self.packing.pack(self.machine.numbers(state, faults)))
