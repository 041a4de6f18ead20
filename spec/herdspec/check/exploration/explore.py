"""
The *explore* reading: every reachable state at given sizes, breadth first.

States are packed (`herdspec.engine.columns`) and taken up to renaming where that is exact. Small
spaces are searched by columns of NumPy, others by code that LLVM compiles; both number the states
alike, by the least parent and then the first action, so that the first counterexample is a shortest
one and the same one. A successor beyond the bound of naturals is dropped, counted and said, and the
bound is raised by itself where nobody has fixed it (`bounds.py`); a search that ends at its memory
budget is *truncated*, never a pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from herdspec.check.exploration.bounds import TIMES, cuts_of, first_bound, raised
from herdspec.check.exploration.coverage import impossible, untaken
from herdspec.check.exploration.exploration import (
    EVERY_VALUE_IS_DEFINED,
    Edges,
    Exploration,
    Progress,
    Story,
    Untaken,
)
from herdspec.check.exploration.graph import edges_of, stuck_outside
from herdspec.check.exploration.numpy_engine import BATCH, CHUNK, NumPyEngine, step, truths
from herdspec.check.exploration.size import Estimate, Why, estimated_states, why
from herdspec.check.exploration.symmetry import packing_for
from herdspec.check.exploration.vacuity import vacuous
from herdspec.check.exploration.visited import Visited
from herdspec.check.running.retell import PathLink, StoryRenderer, first_instance
from herdspec.check.running.run import Machine
from herdspec.check.side_by_side import processors
from herdspec.check.stop import Stop
from herdspec.engine.columns import Columns, Words
from herdspec.engine.ground import Ground, GroundAction
from herdspec.engine.native import NO_PARENT, THREADS, Native, Unsupported, why_not
from herdspec.engine.native_emit import DEADLOCK, UNDEFINED, Checks
from herdspec.language import graph as g
from herdspec.language.errors import NothingWithin, UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import LIVE, Expectation, Property, Spec, always

if TYPE_CHECKING:
    from herdspec.check.exploration.checkpoint import Checkpoint

__all__ = [
    "BATCH", "CHUNK", "Edges", "Estimate", "Exploration", "Explorer", "Progress", "Story",
    "Untaken", "Why", "explore",
]  # fmt: skip

MEMORY_BYTES = 8 << 30
ENGINES = ("auto", "numpy", "native")
LARGE = 20_000
"""States from which on compiling pays for itself, if the levels still grow."""
STRIDE = 1 << 16
"""States that are expanded before anything else is looked after."""
WITNESS = "witness of "
"""Before the names of steps that are sought, which are no properties."""


def explore(
    spec: Specification,
    sizes: Mapping[str, int],
    *,
    faults: int,
    bound: int | None = None,
    symmetry: bool | None = None,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress | None = None,
    engine: str = "auto",
    threads: int | None = None,
    constraint: Property | Callable[..., bool] | None = None,
    save: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    estimates: Callable[[Estimate], None] | None = None,
    within: bool = False,
) -> Exploration:
    """
    Explore a spec; `faults` is the budget of what disturbs, `bound` the largest natural.

    By default the bound is one more than the budget, and is doubled while successors are dropped
    for it: at most four times, and for 20 seconds. A search that is put aside, or gone on with, has
    one bound. Properties that are violated get a shortest story each; the search goes on to the
    end, so that all of them are found.

    `symmetry`: taken where it is exact; True refuses where it is not, False does without.
    `engine`: `numpy`, `native`, or `auto` for the one that is likely to answer first.
    `threads`: of the native engine; one or two.
    `constraint`: a state of which it does not hold is looked at, but not gone on from.
    `save`: where a search is put aside that is truncated or interrupted; `resume`: go on with one.
    `within`: the bounds are meant, and nothing is asked of what lies beyond them.
    """

    def attempt(bound: int, seconds: float | None) -> Exploration | None:
        explorer = Explorer(
            spec, sizes, faults, bound, symmetry, memory_bytes, engine=engine, threads=threads,
            constraint=constraint, seconds=seconds,
        )  # fmt: skip
        found = explorer.run(progress, save=save, resume=resume, estimates=estimates)
        found.within = within
        return None if explorer.out_of_time else found

    first = first_bound(spec, faults) if bound is None else bound
    is_fixed = bound is not None or within or save is not None or resume is not None
    times = 0 if is_fixed else TIMES
    made: tuple[Exploration, tuple[int, ...]] = raised(first, attempt, is_cut_by_naturals, times)
    found, tried = made
    found.bounds_tried = tried
    return found


def is_cut_by_naturals(found: Exploration) -> bool:
    """Tells whether a larger bound of naturals would have kept successors that a search dropped."""
    known = any(not cut.is_channel for cut in found.cuts)
    return not found.truncated and bool(found.dropped) and (known or not found.cuts)


class Explorer:
    """One search. After `run`, `rows`, `edges` and `story` serve those who walk the graph."""

    def __init__(
        self, spec: Specification, sizes: Mapping[str, int], faults: int,
        bound: int | None = None, symmetry: bool | None = None, memory_bytes: int = MEMORY_BYTES,
        *, engine: str = "auto", threads: int | None = None,
        constraint: Property | Callable[..., bool] | None = None, seconds: float | None = None,
    ) -> None:  # fmt: skip
        if engine not in ENGINES:
            raise UsageError(f"there is no engine {engine!r}; choose one of {', '.join(ENGINES)}")
        if threads not in (None, 1, THREADS):
            raise UsageError(f"{threads} threads cannot be had; choose 1 or {THREADS}")
        bound = first_bound(spec, faults) if bound is None else bound
        self.ground = Ground(spec, dict(sizes), bound, faults)
        self.machine = Machine(self.ground)
        self.packing = packing_for(self.ground, symmetry)
        self.teller = StoryRenderer(self.machine, self.packing)
        self.memory_bytes = memory_bytes
        self.asked, self.threads = engine, threads
        self.seconds, self.out_of_time = seconds, False
        self.limit, named = self._constraint(constraint)
        self.result = Exploration(spec, sizes, faults, self.ground.bound, constraint=named)
        self.result.symmetric = self.packing.blocks > 1
        self.formulas = {p.name: self.ground.property(p) for p in spec.properties}
        self.keeps_edges = any(p.expectation is Expectation.RECOVERABLE for p in spec.properties)
        self.obligations: dict[str, Mapping[str, Expr]] = {}
        self.sought: dict[str, Mapping[str, Expr]] = {}
        self.firsts: dict[str, int] = {}
        self.levels: list[int] = []
        self.expanded = 0
        self.expected = 0  # how many states there will be, if that can be told
        self._before = Before(len(self.ground.instances))
        self._edges: Edges | None = None
        self._engine: NumPyEngine | Native = NumPyEngine(self.packing, Checks())

    def _constraint(self, given: Property | Callable[..., bool] | None) -> tuple[Expr, str]:
        """The spec's own constraints and a further one, as one formula, and their names."""
        found = self.promises(Expectation.CONSTRAINT)
        if given is not None:
            made = given if isinstance(given, Property) else always(given)
            found.append(self.ground.spec.with_properties(made).properties[-1])
            if found[-1].expectation not in (Expectation.ALWAYS, Expectation.CONSTRAINT):
                what = f"the constraint {found[-1].name} is no function of one state"
                raise UsageError(f"{what}: take one")
        limit = g.conj(*map(self.ground.property, found))
        return limit, " and ".join(p.name for p in found)

    def obliges(self, name: str, formulas: Mapping[str, Expr]) -> None:
        """Check a formula of each action (by name) before every step by it; call before `run`."""
        self.obligations[name] = formulas

    def witnesses(self, name: str, formulas: Mapping[str, Expr]) -> None:
        """Look for a step by one of these actions for which its formula holds."""
        self.sought[name] = formulas

    @property
    def witnessed(self) -> set[str]:
        """Of which of `witnesses` a step was found."""
        return {name for name in self.sought if WITNESS + name in self.firsts}

    @property
    def rows(self) -> Words:
        """All states, in the order in which they were found."""
        return self._engine.rows

    @property
    def visited(self) -> Visited:
        """The set of all states, to find their numbers again."""
        if isinstance(self._engine, Native):
            self._engine = self._by_columns(self._engine)
        return self._engine.visited

    def _by_columns(self, native: Native) -> NumPyEngine:
        made = NumPyEngine(self.packing, native.checks)
        made.load(native.rows, native.parents, native.by)
        return made

    # ── What is looked for ──────────────────────────────────────────────────────────────────

    def promises(self, *kinds: Expectation) -> list[DeclaredProperty]:
        """The spec's properties of these kinds."""
        return [p for p in self.ground.spec.properties if p.expectation in kinds]

    def checks(self) -> Checks:
        """Everything that the engines look for."""
        states = {}
        for p in self.promises(Expectation.ALWAYS, Expectation.SOMETIMES):
            formula = self.formulas[p.name]
            states[p.name] = (
                formula if p.expectation is Expectation.SOMETIMES else g.negate(formula)
            )
        instances = list(enumerate(self.ground.instances))
        steps = {k: self.step_formulas(k) for k, _ in instances}
        return Checks(
            {name: e for name, e in states.items() if e is not g.FALSE},
            {k: found for k, found in steps.items() if found},
            {k: g.negate(i.defined) for k, i in instances if i.defined is not g.TRUE},
            {k: i.fits for k, i in instances if i.fits is not g.TRUE},
            self.limit,
        )

    def step_formulas(self, number: int) -> dict[str, Expr]:
        """The formulas looked for before a step by an instance, over the slots before it."""
        instance = self.ground.instances[number]
        found = {
            p.name: g.negate(self.ground.after(self.formulas[p.name], instance))
            for p in self.promises(Expectation.STEP)
        }
        for name, formulas in self.obligations.items():
            if instance.action.name in formulas:
                formula = formulas[instance.action.name]
                found[name] = g.negate(self.ground.of_instance(formula, instance))
        for name, formulas in self.sought.items():
            if instance.action.name in formulas:
                formula = formulas[instance.action.name]
                found[WITNESS + name] = self.ground.of_instance(formula, instance)
        return {name: formula for name, formula in found.items() if formula is not g.FALSE}

    # ── The search ──────────────────────────────────────────────────────────────────────────

    def run(
        self,
        progress: Progress | None = None,
        *,
        save: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | None = None,
        estimates: Callable[[Estimate], None] | None = None,
    ) -> Exploration:
        """Search to the end, or to the memory budget; for the arguments see `explore`."""
        began = perf_counter()
        self._ends = None if self.seconds is None else began + self.seconds
        self._start(resume)
        with Stop(save is not None) as stop:
            while self.expanded < self.levels[-1] and not self.result.truncated:
                self._level(stop)
                if self.expanded < self.levels[-1]:
                    continue
                self._next_level(progress)
                if estimates:
                    self._estimate(estimates, perf_counter() - began)
            if save is not None and self.result.truncated:
                self._put_aside(save)
            stop.pass_on()
        if isinstance(self._engine, Native):
            self._engine.close()
        self._finish()
        self.result.seconds = perf_counter() - began
        return self.result

    @property
    def noted(self) -> set[str]:
        """The names of what was found so far: failures, witnesses."""
        return {*self._engine.firsts, *self._before.firsts, *self.firsts}

    def _start(self, resume: str | os.PathLike[str] | None) -> None:
        """Begin with the initial states, or with those of a checkpoint."""
        engine = NumPyEngine(self.packing, self.checks(), Visited(self.packing.words))
        if resume is None:
            engine.start(self._initial_rows())
            self.levels, self.expanded = [len(engine)], 0
        else:
            old = self._checkpoint(resume)
            engine.load(old.rows, old.parents, old.by)
            self.levels, self.expanded = old.levels, old.expanded
            self._before.taken, self.firsts = old.taken, dict(old.firsts)
            self._before.dropped, self._before.limited = old.dropped, old.limited
        self._engine = engine
        if self.asked == "native":
            self._to_native()
        else:
            self._to_native_if_large()

    def _initial_rows(self) -> Words:
        """The initial states; those beyond a bound are dropped, and counted."""
        initial = self.teller.initial
        rows = [begun.rows(self.packing) for begun in initial]
        self._before.dropped += initial.dropped
        if not rows:
            nowhere = f"{self.ground.spec.name} has no initial state here"
            if initial.dropped:
                raise NothingWithin(f"{nowhere}: all are beyond the bound {self.ground.bound}")
            raise UsageError(f"{nowhere}: no choice is possible")
        return np.concatenate(rows)

    def _level(self, stop: Stop) -> None:
        """Expand what is left of a level, until memory ends or somebody interrupts."""
        last = self.levels[-1]
        while self.expanded < last:
            end = min(self.expanded + STRIDE, last)
            reached = self._engine.search(self.expanded, end, self.expected)
            self.expanded = reached
            full = reached < end or self.bytes() > self.memory_bytes
            self.out_of_time = self._ends is not None and perf_counter() > self._ends
            if (full and self.expanded < len(self._engine)) or stop.wanted or self.out_of_time:
                self.result.truncated = True
                return

    def _next_level(self, progress: Progress | None) -> None:
        """One level is done: go on to what it led to, if anything."""
        states, last = len(self._engine), self.levels[-1]
        if states > last:
            self.levels.append(states)
            self.expected = estimated_states(np.diff([0, *self.levels]).tolist()) or 0
        if progress:
            progress(len(self.levels) - 1, states, states - last)
        self._to_native_if_large()

    def _estimate(self, estimates: Callable[[Estimate], None], seconds: float) -> None:
        if self.expected:
            left = max(self.expected - self.expanded, 0) / max(self.expanded, 1)
            estimates(Estimate(self.expected, seconds * left))

    def bytes(self) -> int:
        """Memory held for states, and wanted for edges where they are kept."""
        edges = 10 * int(self._taken().sum()) if self.keeps_edges else 0
        return self._engine.nbytes + edges

    # ── Engines ─────────────────────────────────────────────────────────────────────────────

    def _to_native_if_large(self) -> None:
        """Change engines where there is so much left to do that compiling costs less."""
        if self.asked != "auto" or isinstance(self._engine, Native) or self.result.note:
            return
        frontier = len(self._engine) - self.expanded
        if len(self._engine) >= LARGE and 8 * frontier >= len(self._engine):
            self._to_native()

    def _to_native(self) -> None:
        """Let the native engine go on; where it cannot, say why."""
        assert isinstance(self._engine, NumPyEngine), "one goes over to the native engine once"
        reason = why_not(self.packing)
        if not reason:
            try:
                native = self._compiled(self._engine.checks)
                native.load(self._engine.rows, self._engine.parents, self._engine.by)
            except (Unsupported, OSError, MemoryError) as error:
                reason = str(error) or "there is not enough memory"
        if reason:
            if self.asked == "native":
                raise UsageError(f"the native engine cannot explore this: {reason}; use another")
            self.result.note = f"searched with NumPy: {reason}"
            return
        self._before.add(self._engine)
        self._engine = native
        self.result.engine, self.result.threads = "native", self._threads()

    def _compiled(self, checks: Checks) -> Native:
        """The native engine, with as many threads as are wanted."""
        if self._threads() == 1:
            return Native(self.packing, checks, self.memory_bytes)
        from herdspec.engine.native_threads import Threaded  # only where there are two

        return Threaded(self.packing, checks, self.memory_bytes)

    def _threads(self) -> int:
        """The number of threads of the native engine: two where there are processors for them."""
        if self.threads is None:
            return min(THREADS, processors())
        return self.threads

    def _taken(self) -> NDArray[np.int64]:
        total: NDArray[np.int64] = self._before.taken + self._engine.taken
        return total

    def apply(
        self, columns: Columns, instance: GroundAction, source: NDArray[Any]
    ) -> tuple[NDArray[Any], Words]:
        """The successors by one instance; those without meaning or beyond a bound are left out."""
        return step(columns, instance, source[truths(columns, instance.defined)[source]])

    # ── Checkpoints ─────────────────────────────────────────────────────────────────────────

    def _checkpoint(self, path: str | os.PathLike[str]) -> Checkpoint:
        from herdspec.check.exploration import (
            checkpoint,  # what reads archives is not always wanted
        )

        return checkpoint.read(path, checkpoint.digest_of_search(self.packing, self.limit))

    def _put_aside(self, path: str | os.PathLike[str]) -> None:
        """Write what was found so far to a file."""
        from herdspec.check.exploration import checkpoint

        engine = self._engine
        found = checkpoint.Checkpoint(
            engine.rows, engine.parents, engine.by, self._taken(), self.levels, self.expanded,
            self._before.dropped + engine.dropped, self._before.limited + engine.limited,
            {**engine.firsts, **self._before.firsts, **self.firsts},
        )  # fmt: skip
        checkpoint.write(path, checkpoint.digest_of_search(self.packing, self.limit), found)

    # ── The end ─────────────────────────────────────────────────────────────────────────────

    def _finish(self) -> None:
        """Turn what was noted into counts and stories."""
        r, engine = self.result, self._engine
        self.firsts = {**engine.firsts, **self._before.firsts, **self.firsts}
        r.states = len(engine)
        r.orbits = self.packing.orbits(engine.rows)
        r.depth = len(self.levels) - 1 + (len(engine) > self.levels[-1])
        r.dropped = self._before.dropped + engine.dropped
        r.constrained = self._before.limited + engine.limited
        r.taken = {a.name: 0 for a in self.ground.spec.actions}
        for instance, count in zip(self.ground.instances, self._taken().tolist(), strict=True):
            r.taken[instance.action.name] += count
        r.generated = sum(r.taken.values())
        # Who has the result alone has the states with it, and frees them at once with the last name
        # for it: this search is not kept by them, as it would be by a circle, for the collector.
        packing, rows, taken, limit = self.packing, engine.rows, r.taken, self.limit
        r.find_untaken = lambda: untaken(packing, rows)
        r.find_why = lambda: why(packing, rows, taken)
        r.find_impossible = lambda: impossible(packing, rows, taken)
        r.find_vacuous = lambda: vacuous(packing, rows)
        r.find_cuts = lambda: cuts_of(packing, rows, limit)
        self._judge()

    def _judge(self) -> None:
        """Judge by the first states: violations, witnesses, what is missing or undecided."""
        r = self.result
        for p in self.promises(Expectation.RECOVERABLE):
            if not r.complete:
                r.undecided.append(p.name)
            elif (stuck := self._stuck(self.formulas[p.name])) is not None:
                r.violations[p.name] = self.story(stuck)
        r.undecided += [p.name for p in self.promises(*LIVE)]
        for p in self.promises(Expectation.ALWAYS, Expectation.SOMETIMES):
            if p.name in self.firsts:
                found = r.violations if p.expectation is Expectation.ALWAYS else r.witnesses
                found[p.name] = self.story(self.firsts[p.name])
            elif p.expectation is Expectation.SOMETIMES:
                r.missing.append(p.name)
        of_steps = [p.name for p in self.promises(Expectation.STEP)]
        for name in [*of_steps, *self.obligations]:
            if name in self.firsts:
                state = self.firsts[name]
                r.violations[name] = self.story(state, self._first_breaker(name, state))
        if UNDEFINED in self.firsts:
            r.violations[EVERY_VALUE_IS_DEFINED] = self._story_of_undefined()
        if DEADLOCK in self.firsts:
            r.deadlock = self.story(self.firsts[DEADLOCK])

    def _first_breaker(self, name: str, state: int) -> int:
        """The first instance whose step from a state breaks a promise about steps."""
        steps = self._engine.checks.steps
        formulas = {k: named[name] for k, named in steps.items() if name in named}
        return first_instance(self.packing, self.rows[state], formulas)

    def _story_of_undefined(self) -> Story:
        state, undefined = self.firsts[UNDEFINED], self._engine.checks.undefined
        number = first_instance(self.packing, self.rows[state], undefined, within=False)
        return self.teller.story_of_undefined(self._chain(state), self.ground.instances[number])

    def _stuck(self, formula: Expr) -> int | None:
        """The first state from which the protocol alone cannot reach the formula, if any."""
        assert self.edges is not None, "edges are kept where a property needs them"
        mine = np.array([i.by_protocol for i in self.ground.instances], bool)
        return stuck_outside(self.packing, self.rows, self.edges, formula, mine)

    @property
    def edges(self) -> Edges | None:
        """All edges, where they are kept (`keeps_edges`) and every state was expanded."""
        if self._edges is None and self.keeps_edges and self.levels and not self.result.truncated:
            self._edges = edges_of(self._engine, self.levels[-1], int(self._taken().sum()))
        return self._edges

    @edges.setter
    def edges(self, given: Edges | None) -> None:
        """Whoever has taken the edges over may let go of them here."""
        self._edges, self.keeps_edges = given, given is not None

    def _chain(self, state: int) -> list[PathLink]:
        """The states on a shortest path to one, from an initial one on."""
        parents, by = self._engine.parents, self._engine.by
        chain = [state]
        while parents[chain[-1]] != NO_PARENT:
            chain.append(int(parents[chain[-1]]))
        return [PathLink(tuple(self.rows[k].tolist()), int(by[k])) for k in reversed(chain)]

    def story(self, state: int, last: int | None = None) -> Story:
        """The shortest path to a state, in plain Python; `last` is a further instance to take."""
        return self.teller.story(self._chain(state), last)

    def row(self, state: Spec, faults: int) -> Words:
        """A state of the plain Python, packed and canonical."""
        return self.teller.row(state, faults)

    def within(self, state: Spec, faults: int) -> bool:
        """Tells whether a state of the plain Python is within the bounds of this search."""
        return self.teller.within(state, faults)


class Before:
    """Counts from before the present engine took over."""

    def __init__(self, instances: int) -> None:
        self.taken: NDArray[np.int64] = np.zeros(instances, np.int64)
        self.dropped = 0
        self.limited = 0
        self.firsts: dict[str, int] = {}

    def add(self, engine: NumPyEngine) -> None:
        """Count what an engine that is left has found."""
        self.taken = self.taken + engine.taken
        self.dropped += engine.dropped
        self.limited += engine.limited
        self.firsts = {**engine.firsts, **self.firsts}
