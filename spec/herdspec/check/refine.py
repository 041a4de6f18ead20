"""
The *refine* reading: every step of one spec is, seen through a map, a step of another.

A `Refinement` maps the concrete state to the abstract one, field by field, and names for each
concrete action the abstract actions that it may be (`STUTTER`: none, the abstract state stays); an
action without an entry must stutter. Parameters of the same name are handed on, further ones of the
abstract action are found (there is some choice of them). One formula per concrete action says so;
it is evaluated on every explored step, and proved for any number of elements with the concrete
invariants as hypotheses. So that no map passes by collapsing everything, each abstract action must
be the meaning of some reachable step that changes the abstract state or could, and what the
abstract spec calls possible (`sometimes`) must be seen through the map.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import z3

from herdspec.check.explore import Exploration, Explorer, Progress
from herdspec.check.prove import RESOURCES, Obligation, Prover, provable
from herdspec.engine.smt import initial_values
from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import Action, Promise, Specification
from herdspec.language.surface import Expectation
from herdspec.language.translate import read_off
from herdspec.language.types import BOOL, EnumOf, MapOf

STUTTER = "stutter"
"""The abstract state stays as it is."""


@dataclass(frozen=True)
class Refinement:
    """A map from one spec's states and actions to another's."""

    concrete: Specification
    abstract: Specification
    fields: tuple[Callable[..., Any], ...]
    """Per abstract field, by its name: a function of the concrete state (and of an element)."""
    actions: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        known = {a.name for a in self.abstract.actions} | {STUTTER}
        for name, meanings in self.actions.items():
            self.concrete.action(name)
            if not set(meanings) <= known:
                raise UsageError(f"{name} means {meanings}, but the abstract actions are {known}")
        missing = {f.name for f in self.abstract.fields} ^ {f.__name__ for f in self.fields}
        if missing:
            raise UsageError(f"the map and the abstract fields differ in: {', '.join(missing)}")

    @cached_property
    def image(self) -> dict[Expr, Expr]:
        """Each abstract field as an expression over the concrete state."""
        kinds = {f.name: f.kind for f in self.abstract.fields}
        return {
            g.field(f.__name__, kinds[f.__name__]): read_off(
                f, kinds[f.__name__], self.concrete.methods, self._leaves, self.concrete.names
            )
            for f in self.fields
        }

    @property
    def _leaves(self) -> dict[str, Expr]:
        return {f.name: g.field(f.name, f.kind) for f in self.concrete.fields}

    def formula(self, action: Action) -> Expr:
        """That one concrete action is one of its meanings, over the state before it."""
        meanings = self.actions.get(action.name, (STUTTER,))
        return g.disj(*(self.meaning(action, name) for name in meanings))

    def meaning(self, action: Action, name: str) -> Expr:
        """That one concrete action is this abstract one."""
        if name == STUTTER:
            return self._leads_to(action, {})
        abstract = self.abstract.action(name)
        given = dict(action.parameters)
        fixed = {p: given[n] for n, p in abstract.parameters if n in given}
        free = [p for n, p in abstract.parameters if n not in given]
        return g.disj(
            *(self._is(action, abstract, fixed | choice) for choice in choices(abstract, free))
        )

    def _is(self, action: Action, abstract: Action, arguments: dict[Expr, Expr]) -> Expr:
        by = {**self.image, **arguments}
        guard = g.substitute(abstract.guard, by)
        new = {name: g.substitute(e, by) for name, e in abstract.updates.items()}
        return g.conj(guard, self._leads_to(action, new))

    def _leads_to(self, action: Action, new: Mapping[str, Expr]) -> Expr:
        """The image after the step is what the abstract action made of the image before it."""
        step = {g.field(n, e.kind): e for n, e in action.updates.items()}
        return g.conj(
            *(
                same(g.substitute(before, step), new.get(leaf.data, before))
                for leaf, before in self.image.items()
            )
        )

    def starts(self) -> Expr:
        """The concrete initial state is mapped to the abstract one."""
        concrete, abstract = initial_values(self.concrete), initial_values(self.abstract)
        return g.conj(
            *(same(g.substitute(e, concrete), abstract[leaf]) for leaf, e in self.image.items())
        )

    def seen(self) -> list[Promise]:
        """What the abstract spec calls possible, as possibilities of the concrete one."""
        return [
            replace(p, name=f"contract: {p.name}", formula=g.substitute(p.formula, self.image))
            for p in self.abstract.properties
            if p.expectation is Expectation.SOMETIMES
        ]


def choices(abstract: Action, free: list[Expr]) -> list[dict[Expr, Expr]]:
    """Every choice of the abstract parameters that the concrete action does not give."""
    values = []
    for p in free:
        if p.kind == BOOL:
            values.append([g.TRUE, g.FALSE])
        elif isinstance(p.kind, EnumOf):
            values.append([g.const(p.kind, k) for k in range(len(p.kind.members))])
        else:
            raise UsageError(f"{abstract.name}'s parameter {p.data} is no parameter of the step")
    return [dict(zip(free, chosen, strict=True)) for chosen in product(*values)]


def same(a: Expr, b: Expr) -> Expr:
    """Equality of values or, entry by entry, of maps."""
    if isinstance(a.kind, MapOf):
        x = g.fresh("x", a.kind.key)
        return g.forall(x, g.eq(g.select(a, x), g.select(b, x)))
    return g.eq(a, b)


@dataclass
class Refined:
    """The answer of one check: by exploration, by proof, or both."""

    refinement: Refinement
    exploration: Exploration | None = None
    idle: list[str] = field(default_factory=list)
    obligations: list[Obligation] = field(default_factory=list)


def refine_by_exploration(
    refinement: Refinement, sizes: Mapping[str, int], *, faults: int,
    progress: Progress | None = None,
) -> Refined:  # fmt: skip
    """
    Check every step at these sizes; a step that has no meaning is the violation `refines`.

    `idle` lists the abstract actions that no reachable step means.
    """
    spec = replace(refinement.concrete, properties=tuple(refinement.seen()))
    explorer = Explorer(spec, sizes, faults)
    explorer.obliges("refines", {a.name: refinement.formula(a) for a in spec.actions})
    for abstract in refinement.abstract.actions:
        explorer.witnesses(abstract.name, _occasions(refinement, abstract.name))
    if explorer.ground.lower(refinement.starts(), {}) is not g.TRUE:
        raise UsageError("the initial state is not mapped to the initial state of the contract")
    found = explorer.run(progress)
    idle = [a.name for a in refinement.abstract.actions if a.name not in explorer.witnessed]
    return Refined(refinement, found, idle)


def _occasions(refinement: Refinement, name: str) -> dict[str, Expr]:
    """For each concrete action that may mean the abstract one: when it does."""
    return {
        concrete: refinement.meaning(refinement.concrete.action(concrete), name)
        for concrete, meanings in refinement.actions.items()
        if name in meanings
    }


def refine_by_proof(refinement: Refinement, *, leave_out: frozenset[str] = frozenset(),
                    resources: int = RESOURCES) -> Refined:  # fmt: skip
    """Prove for any size that every step has its meaning; concrete invariants are hypotheses."""
    spec = refinement.concrete
    prover = Prover(spec, [p for p in provable(spec) if p.name not in leave_out], resources)
    found = Refined(refinement)
    solver = prover.fresh_solver()
    solver.add(z3.Not(prover.emit.formula(refinement.starts())))
    found.obligations.append(prover.answer("refines", None, solver))
    for action in spec.actions:
        found.obligations.append(prover.holds("refines", action, refinement.formula(action)))
    return found
