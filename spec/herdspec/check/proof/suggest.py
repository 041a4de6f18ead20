"""
Strengthening: lemmas that make a promise inductive, found from the spec's own words.

A promise that always holds may still fail induction, from a state that is never reached. What
excludes such states is a lemma. Candidates (`candidates.py`) that are true in every state reached
at a small size are thinned out (*Houdini*: whatever is not kept by some step, given all others,
goes) over a small universe, where z3 answers at once; of what is left, only what the promises need
is kept; and that is then proved for any number of elements. No guess is ever believed: what is
suggested has been proved, or is not suggested.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
import z3

from herdspec.check.exploration.explore import Explorer
from herdspec.check.proof.candidates import (
    Bits,
    Candidate,
    Pool,
    any_states,
    atoms_of,
    merged,
    templates,
)
from herdspec.check.proof.counterexample import Counterexample
from herdspec.check.proof.induction import FEW, RESOURCES, Prover, SolverAnswer, provable
from herdspec.check.proof.small import Small, Universe
from herdspec.check.proof.universe import entries, expand
from herdspec.engine.columns import Columns, Packing
from herdspec.engine.ground import FAULTS, Ground
from herdspec.engine.order import OrderEmitter
from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import Action, DeclaredProperty, Specification
from herdspec.language.surface import Expectation

SIZE = 2
"""Elements of each sort in the states that candidates must be true in."""
BUDGET_FAULTS = 2
MEMORY_BYTES = 64 << 20
"""The memory for exploring candidates; a search that is cut serves as well, it refutes less."""
MOST_ROWS = 20_000
SHOWN = 3
"""The number of conjuncts shown that would exclude a counterexample."""
ROUNDS = 20
"""The number of times that a lemma which holds of few elements only is given up for another."""

WEAKENED = 3
"""The number of times that given-up candidates are replaced by longer ones, which say less."""
MOST_CANDIDATES = 2_000
"""With more candidates than this z3 would take too long."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Suggestion:
    """The result of a search for lemmas: `conjuncts` make the promises inductive, if `found`."""

    spec: Specification
    goals: tuple[str, ...]
    found: bool
    conjuncts: tuple[Candidate, ...]
    tried: int
    """The number of candidates that were true in every reached state."""
    states: int
    sizes: Mapping[str, int]
    seconds: float

    @property
    def lemmas(self) -> Specification:
        """The spec with the conjuncts as lemmas, as proofs and explorations take them."""
        promise = self.spec.promise(self.goals[0])
        made = tuple(
            replace(
                promise, name=f"suggested_{k}", formula=c.formula, sentence=f"{c.text}.",
                lemma=True, expectation=Expectation.ALWAYS,
            )
            for k, c in enumerate(self.conjuncts, start=1)
        )  # fmt: skip
        return replace(self.spec, properties=(*self.spec.properties, *made))

    @property
    def lines(self) -> list[str]:
        """The conjuncts as lemmas to paste into the spec's file."""
        state = self.spec.state.__name__
        found: list[str] = []
        for k, c in enumerate(self.conjuncts, start=1):
            found += [
                "@lemma", f"def suggested_{k}(s: {state}) -> bool:",
                '    """Say here in words why this holds."""', f"    return {c.text}", "",
            ]  # fmt: skip
        return found


# ── Candidates of one spec ──────────────────────────────────────────────────────────────────


class Candidates:
    """The candidates of a spec that are true in every state reached at a small size."""

    def __init__(self, explorer: Explorer) -> None:
        self.spec = explorer.ground.spec
        self.explorer = explorer
        self.pools = [Pool.of(self.atoms, variables) for variables in templates(self.spec)]

    @staticmethod
    def of(spec: Specification, size: int = SIZE) -> Candidates:
        """Explore a small size of a spec, for what its candidates must be true of."""
        bare = replace(spec, properties=_speaking(spec))
        sizes = dict.fromkeys(spec.sorts, size)
        explorer = Explorer(bare, sizes, BUDGET_FAULTS, memory_bytes=MEMORY_BYTES)
        explorer.run()
        return Candidates(explorer)

    @cached_property
    def atoms(self) -> list[Expr]:
        """The spec's words; those that proofs have too, where channels are another thing."""
        shared = set(self.spec.fields) & set(self.spec.for_proof.fields)
        fields = {g.field(f.name, f.kind) for f in shared}
        return [a for a in atoms_of(self.spec) if g.leaves(a, "field") <= fields]

    @property
    def states(self) -> int:
        """The number of reached states."""
        return len(self.explorer.rows)

    @cached_property
    def rows(self) -> Any:
        """The reached states that are looked at; at most `MOST_ROWS`, evenly chosen."""
        rows = self.explorer.rows
        if len(rows) <= MOST_ROWS:
            return rows
        return rows[np.linspace(0, len(rows) - 1, MOST_ROWS).astype(int)]

    def true(self, width: int, given_up: Collection[Candidate] = ()) -> list[Candidate]:
        """Candidates of up to so many literals, the simplest first; not those given up."""
        found: list[Candidate] = []
        for pool, false, ever in self.truths:
            found += pool.clauses(false, ever, width, given_up)
        return sorted(found, key=lambda c: c.weight)

    @cached_property
    def truths(self) -> list[tuple[Pool, Bits, Bits]]:
        """Of each pool: where its literals are false among reached states, and among any."""
        anything = Packing(self.explorer.ground, symmetry=False)
        rows = any_states(self.explorer.ground, anything)
        return [
            (
                pool,
                pool.false_in(self.explorer.packing, self.rows),
                pool.false_in(anything, rows),
            )
            for pool in self.pools
        ]

    def true_everywhere(self, candidate: Candidate) -> bool:
        """Tells whether a candidate is true in all reached states, not only in those looked at."""
        formula = self.explorer.ground.lower(candidate.formula, {})
        rows = self.explorer.rows
        parts = range(0, len(rows), MOST_ROWS)
        return all(
            Columns(self.explorer.packing, rows[k : k + MOST_ROWS]).of(formula).all() for k in parts
        )

    def explain(self, shown: Counterexample) -> Counterexample:
        """The counterexample, with the simplest candidates that are false in its first state."""
        for width in (2, 3):
            found = list(self.excluding(shown, width))[:SHOWN]
            if found:
                texts = tuple(c.text for c in found)
                return replace(shown, excluded_by=texts, seen=self.states)
        return shown

    def excluding(self, shown: Counterexample, width: int) -> Iterable[Candidate]:
        """The candidates that are false in a counterexample's first state, the simplest first."""
        state = state_of(self.spec, shown)
        if state is not None:
            ground, row = state
            columns = Columns(Packing(ground, symmetry=False), row)
            for c in self.true(width):
                false = not columns.of(ground.lower(c.formula, {})).all()
                if false and self.true_everywhere(c):
                    yield c


def _speaking(spec: Specification) -> tuple[DeclaredProperty, ...]:
    """Properties whose words are of use; those that cost an exploration nothing."""
    kinds = (Expectation.ALWAYS, Expectation.STEP, Expectation.SOMETIMES)
    return tuple(p for p in spec.properties if p.expectation in kinds)


def state_of(spec: Specification, shown: Counterexample) -> tuple[Ground, Any] | None:
    """A counterexample's first state at its own size, or None if its numbers are too large."""
    largest = max(shown.numbers.values(), default=0)
    try:
        ground = Ground(spec, dict(shown.sizes), max(largest, 1), 0)
        slots = ground.slots
    except UsageError:
        return None
    numbers = []
    for slot in slots.values():
        # A channel's entries are others in proofs; no candidate speaks of them.
        known = 0 if slot.field == FAULTS else shown.numbers.get((slot.field, slot.index), 0)
        numbers.append(known)
    packing = Packing(ground, symmetry=False)
    return ground, packing.pack(numbers)


# ── Houdini ─────────────────────────────────────────────────────────────────────────────────


class Houdini:
    """Candidates over one small universe, before a step and after it."""

    def __init__(
        self, spec: Specification, promises: Sequence[DeclaredProperty], prover: Prover
    ) -> None:
        self.spec = spec
        self.promises = promises
        self.emit = prover.emit
        self.small = Small(spec, prover.emit, [*prover.axioms, *prover.always], FEW)
        self.universe: Universe = self.small.at((min(3, SIZE + 1),) * len(spec.sorts))
        self.solver = self.universe.solver
        self.after: dict[Expr, Expr] = {
            g.field(f.name, f.kind): g.node("after", f.kind, data=f.name) for f in spec.fields
        }
        self.solver.add(z3.Or(*(self.taken(a) for a in spec.actions)))
        self.before: dict[Candidate, Any] = {}
        self.broken: dict[Candidate, Any] = {}
        self.goals = {p.name: self.mark(f"breaks {p.name}") for p in promises}
        for p in promises:
            self.refuse(self.goals[p.name], self.later(p.formula))

    def mark(self, name: str) -> Any:
        """A switch."""
        return z3.FreshConst(z3.BoolSort(self.emit.context), name)

    def later(self, formula: Expr) -> Expr:
        """A formula about the state after the step (a step promise is about both)."""
        if g.leaves(formula, "after"):
            return formula
        return g.substitute(formula, self.after)

    def formula(self, e: Expr) -> list[Any]:
        """An expression over the universe."""
        return self.small.formulas(e, self.universe.elements)

    def refuse(self, mark: Any, formula: Expr) -> None:
        """Where the mark is set, the formula is false."""
        self.solver.add(*(z3.Implies(mark, f) for f in self.formula(g.negate(formula))))

    def taken(self, action: Action) -> Any:
        """The formula that this action leads from the state before to the state after."""
        parts = [*self.formula(action.guard), *self.formula(action.defined)]
        for leaf, later in self.after.items():
            new = action.updates.get(leaf.data, leaf)
            pairs = zip(self.entries(later), self.entries(new), strict=True)
            for made, value in pairs:
                parts += [self.emit.formula(made) == self.emit.formula(value)]
                if isinstance(self.emit, OrderEmitter):
                    parts += self.emit.facts(value)
        return z3.And(*parts)

    def entries(self, e: Expr) -> list[Expr]:
        """The entries of a value over the universe."""
        elements = self.universe.elements
        return [expand(entry, elements) for _, entry in entries(e, elements)]

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Take candidates in: each with a switch to assume it, and one to break it."""
        for c in candidates:
            if c not in self.before:
                self.before[c], self.broken[c] = self.mark("assumed"), self.mark("broken")
                self.solver.add(*(z3.Implies(self.before[c], f) for f in self.formula(c.formula)))
                self.refuse(self.broken[c], self.later(c.formula))

    def kept(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The largest set of these that every step keeps, given the promises and the set itself."""
        kept = list(candidates)
        self.add(kept)
        while kept:
            some = self.mark("some")
            self.solver.add(z3.Implies(some, z3.Or(*(self.broken[c] for c in kept))))
            answer = self.solver.check(some, *(self.before[c] for c in kept))
            if answer == z3.unsat:
                return kept
            if answer == z3.unknown:
                return []
            model = self.solver.model()
            gone = {c for c in kept if z3.is_true(model.eval(self.broken[c]))}
            gone |= {c for c in kept if self.false_after(model, c)}
            kept = [c for c in kept if c not in gone]
        return kept

    def false_after(self, model: z3.ModelRef, candidate: Candidate) -> bool:
        """Tells whether a candidate is false in a model's state after the step."""
        (formula, *_) = self.formula(self.later(candidate.formula))
        return bool(z3.is_false(model.eval(formula, model_completion=True)))

    def core(self, broken: Any, candidates: Sequence[Candidate]) -> list[Candidate] | None:
        """Which candidates keep something from being broken; None if all do not suffice."""
        marks = [self.before[c] for c in candidates]
        if self.solver.check(broken, *marks) != z3.unsat:
            return None
        named = {str(m) for m in self.solver.unsat_core()}
        return [c for c, m in zip(candidates, marks, strict=True) if str(m) in named]

    def needed(self, candidates: Sequence[Candidate]) -> list[Candidate] | None:
        """The candidates of an inductive set that promises need, and what these need in turn."""
        found: dict[Candidate, None] = {}
        todo = list(self.goals.values())
        while todo:
            core = self.core(todo.pop(), candidates)
            if core is None:
                return None
            todo += [self.broken[c] for c in core if c not in found]
            found.update(dict.fromkeys(core))
        return self.fewest(sorted(found, key=lambda c: c.weight))

    def fewest(self, candidates: list[Candidate]) -> list[Candidate]:
        """None of these can be left out; the most complicated ones were tried first."""
        kept, before = list(candidates), -1
        while len(kept) != before:  # what kept another one may go when that one is gone
            before = len(kept)
            for c in reversed(list(kept)):
                rest = [k for k in kept if k is not c]
                if self.inductive(rest):
                    kept = rest
        return kept

    def inductive(self, candidates: Sequence[Candidate]) -> bool:
        """Tells whether every step keeps the promises and these, from where they hold."""
        some = self.mark("some")
        goals = [*self.goals.values(), *(self.broken[c] for c in candidates)]
        self.solver.add(z3.Implies(some, z3.Or(*goals)))
        marks = [self.before[c] for c in candidates]
        return bool(self.solver.check(some, *marks) == z3.unsat)


# ── The search ──────────────────────────────────────────────────────────────────────────────


def suggest(
    spec: Specification, *, leave_out: frozenset[str] = frozenset(), size: int = SIZE,
    resources: int = RESOURCES, order: bool = False, tell: Tell | None = None,
) -> Suggestion:  # fmt: skip
    """
    Look for lemmas that make all promises of a spec inductive, but for those left out.

    First among candidates of up to two literals, then of three. What is returned as `found` is
    proved for any number of elements, is true in every state reached with `size` elements of each
    sort, and no part of it can be left out (over a small universe).
    """
    begun = perf_counter()
    relational = spec.for_proof
    promises = [p for p in provable(relational) if p.name not in leave_out]
    if not promises:
        raise UsageError(f"{spec.name} has no promise to find lemmas for")
    candidates = Candidates.of(spec, size)
    search = Strengthening(relational, promises, candidates, resources, order, tell)
    found = search.found()
    return Suggestion(
        relational, tuple(p.name for p in promises), found is not None,
        tuple(merged(found or ())), search.tried, candidates.states,
        dict(candidates.explorer.ground.sizes), perf_counter() - begun,
    )  # fmt: skip


class Strengthening:
    """The search for the fewest candidates that make promises inductive."""

    def __init__(
        self, spec: Specification, promises: Sequence[DeclaredProperty], candidates: Candidates,
        resources: int, order: bool, tell: Tell | None,
    ) -> None:  # fmt: skip
        self.spec = spec
        self.promises = promises
        self.candidates = candidates
        self.resources = resources
        self.order = order
        self.tell = tell or (lambda _: None)
        self.prover = Prover(spec, promises, resources, order=order)
        self.houdini = Houdini(spec, promises, self.prover)
        self.tried = 0

    def found(self) -> list[Candidate] | None:
        """Lemmas of two literals, else of three; longer ones in place of those given up."""
        for width in (2, 3):
            given_up: set[Candidate] = set()
            for _ in range(WEAKENED):
                pool = self.candidates.true(width, given_up)
                if len(pool) > MOST_CANDIDATES:
                    break
                needed, kept = self.proved(self.kept(pool, width))
                gone = set(pool) - set(kept)
                if needed is not None or not gone:
                    break
                given_up |= gone
            if needed is not None:
                return needed
        return None

    def kept(self, pool: Sequence[Candidate], width: int) -> list[Candidate]:
        """The candidates that every initial state has, and every step keeps."""
        self.tried = max(self.tried, len(pool))
        self.tell(f"{len(pool):,} candidates of up to {width} literals are true where we looked")
        kept = self.houdini.kept([c for c in pool if initially(self.prover, c)])
        self.tell(f"{len(kept):,} of them are kept by every step")
        return kept

    def proved(self, kept: list[Candidate]) -> tuple[list[Candidate] | None, list[Candidate]]:
        """
        The fewest of these that make the promises inductive, for any size; None if none do.

        Beside it: what is left of them, without those that hold of few elements only.
        """
        for _ in range(ROUNDS):
            needed = self.houdini.needed(kept)
            if needed is None:
                break
            wrong = [c for c in needed if not self.candidates.true_everywhere(c)]
            wrong = wrong or unproved(self.spec, self.promises, needed, self.resources, self.order)
            if not wrong:
                return needed, kept
            kept = self.houdini.kept([c for c in kept if c not in wrong])
        return None, kept


def initially(prover: Prover, candidate: Candidate) -> bool:
    """Tells whether a candidate holds in every initial state, of any size."""
    return all(map(prover.keeps, prover.initially(promised(prover.spec, candidate))))


def promised(spec: Specification, candidate: Candidate) -> DeclaredProperty:
    """A candidate as a lemma."""
    like = provable(spec)[0]
    return replace(
        like, name=candidate.text, formula=candidate.formula, expectation=Expectation.ALWAYS,
        lemma=True,
    )  # fmt: skip


def unproved(
    spec: Specification, promises: Sequence[DeclaredProperty], needed: Sequence[Candidate],
    resources: int, order: bool,
) -> list[Candidate]:  # fmt: skip
    """
    The candidates that are not kept among any number of elements; all, if a promise is not.

    Then what holds of a small universe does not hold of all, and other candidates are needed.
    """
    lemmas = {c: promised(spec, c) for c in needed}
    prover = Prover(spec, [*promises, *lemmas.values()], resources, order=order)
    steps = [(a, p) for a in spec.actions for p in promises]
    bad = [
        c for c, p in lemmas.items()
        if any(prover.step(a, p).outcome is not SolverAnswer.PROVED for a in spec.actions)
    ]  # fmt: skip
    if not bad and any(prover.step(a, p).outcome is not SolverAnswer.PROVED for a, p in steps):
        return list(needed) or []
    return bad


__all__ = ["Candidate", "Candidates", "Houdini", "Suggestion", "suggest"]
