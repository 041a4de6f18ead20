"""
The *refine* reading: every step of one spec is, seen through a map, a step of another.

A `Refinement` maps the concrete state to the abstract one, field by field, and names for each
concrete action the abstract actions that it may be (`STUTTER`: none, the abstract state stays); an
action without an entry must stutter. Parameters of the same name are handed on (those of what makes
an initial state, too), further ones of the abstract action are found: there is some choice of them.
One formula per concrete action says so;
it is evaluated on every explored step, and proved for any number of elements with the concrete
invariants as hypotheses. So that no map passes by collapsing everything, each abstract action must
be the meaning of some reachable step that changes the abstract state or could, and what the
abstract spec calls possible (`sometimes`) must be seen through the map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from random import Random
from typing import Any

from herdspec.check.cache import Memory
from herdspec.check.explore import Exploration, Explorer, Progress
from herdspec.check.prove import RESOURCES, Obligation, Prover, provable
from herdspec.check.recall import Recall
from herdspec.check.run import Machine, Step
from herdspec.engine.ground import LARGEST, Ground
from herdspec.engine.smt import initial_values
from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import Action, Promise, Specification
from herdspec.language.surface import Expectation, Spec, sizes_of_sorts
from herdspec.language.translate import read_off
from herdspec.language.types import BOOL, EnumOf, MapOf, Rich, SetOf, SortOf, Table

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
        missing = set(self.abstract.rich) ^ {f.__name__ for f in self.fields}
        if missing:
            raise UsageError(f"the map and the abstract fields differ in: {', '.join(missing)}")

    @cached_property
    def image(self) -> dict[Expr, Expr]:
        """Each flat abstract field as an expression over the concrete state."""
        kinds = {f.name: f.kind for f in self.abstract.fields}
        leaves = {f.name: g.field(f.name, f.kind) for f in self.concrete.fields}
        found = {}
        for f in self.fields:
            kind = self.abstract.rich[f.__name__]
            read = read_off(f, kind, self.concrete.shape, leaves, self.concrete.names)
            for suffix, e in read.items():
                name = f.__name__ + suffix
                found[g.field(name, kinds[name])] = e
        return found

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
        free = [(n, p, p.kind) for n, p in abstract.parameters if n not in given]
        sought = {p: g.fresh(n, kind) for n, p, kind in free if isinstance(kind, SortOf)}
        few = [p for _, p, kind in free if not isinstance(kind, SortOf)]
        found = g.disj(
            *(self._is(action, abstract, fixed | sought | c) for c in choices(abstract, few))
        )
        for element in sought.values():
            found = g.exists(element, found)
        return found

    def _is(self, action: Action, abstract: Action, arguments: dict[Expr, Expr]) -> Expr:
        by = {**self.image, **arguments}
        guard = g.substitute(abstract.guard, by)
        new = {name: g.substitute(e, by) for name, e in abstract.updates.items()}
        return g.conj(guard, self._leads_to(action, new))

    def _leads_to(self, action: Action, new: Mapping[str, Expr]) -> Expr:
        """The image after the step is what the abstract action made of the image before it."""
        kinds = {f.name: f.kind for f in self.concrete.fields}  # a sum is wider than its field
        step = {g.field(n, kinds[n]): e for n, e in action.updates.items()}
        return g.conj(
            *(
                g.same(g.substitute(before, step), new.get(leaf.data, before))
                for leaf, before in self.image.items()
            )
        )

    def starts(self) -> Iterator[tuple[Action | None, Expr]]:
        """
        For each way to start, that what comes of it is mapped to an abstract initial state.

        The formula speaks of the parameters of the start; None: the declared initial state.
        """
        declared = initial_values(self.concrete)
        for start in self.concrete.starts or (None,):
            updates = start.updates if start else {}
            made = {g.field(n, e.kind): g.substitute(e, declared) for n, e in updates.items()}
            mapped = {x: g.substitute(e, {**declared, **made}) for x, e in self.image.items()}
            guard = g.substitute(start.guard, declared) if start else g.TRUE
            yield start, g.implies(guard, self._is_a_start(start, mapped))

    def _is_a_start(self, concrete: Action | None, mapped: Mapping[Expr, Expr]) -> Expr:
        """Whether these values of the abstract fields are an initial state of the abstract spec."""
        declared, found = initial_values(self.abstract), []
        given = dict(concrete.parameters) if concrete else {}
        for start in self.abstract.starts or (None,):
            parameters = start.parameters if start else ()
            named = {p: given[n] for n, p in parameters if n in given}
            updates = start.updates if start else {}
            made = {g.field(n, e.kind): g.substitute(e, declared) for n, e in updates.items()}
            there = {**declared, **made}
            guard = g.substitute(start.guard, declared) if start else g.TRUE
            same = (g.same(e, there[x]) for x, e in mapped.items())
            claim = g.substitute(g.conj(guard, *same), named)
            found.append(_some(claim, start, [(n, p) for n, p in parameters if n not in given]))
        return g.disj(*found)

    def seen(self) -> list[Promise]:
        """What the abstract spec calls possible, as possibilities of the concrete one."""
        return [
            replace(p, name=f"contract: {p.name}", formula=g.substitute(p.formula, self.image))
            for p in self.abstract.properties
            if p.expectation is Expectation.SOMETIMES
        ]


def _some(e: Expr, start: Action | None, parameters: list[tuple[str, Expr]]) -> Expr:
    """A formula for some choice of a start's parameters."""
    for name, parameter in parameters:
        if isinstance(parameter.kind, MapOf):
            what = f"the start {start.name if start else ''} chooses a whole map, {name}"
            raise UsageError(f"{what}, that is no parameter of the other spec's start")
        bound = g.fresh(name, parameter.kind)
        e = g.exists(bound, g.substitute(e, {parameter: bound}))
    return e


def choices(abstract: Action, free: list[Expr]) -> list[dict[Expr, Expr]]:
    """Every choice of abstract parameters, of few values each, that no concrete action gives."""
    values = []
    for p in free:
        if p.kind == BOOL:
            values.append([g.TRUE, g.FALSE])
        elif isinstance(p.kind, EnumOf):
            values.append([g.const(p.kind, k) for k in range(len(p.kind.members))])
        else:
            raise UsageError(f"{abstract.name}'s parameter {p.data} is no parameter of the step")
    return [dict(zip(free, chosen, strict=True)) for chosen in product(*values)]


@dataclass
class Refined:
    """The answer of one check: by exploration, by proof, or both."""

    refinement: Refinement
    exploration: Exploration | None = None
    idle: list[str] = field(default_factory=list)
    obligations: list[Obligation] = field(default_factory=list)


def refine_by_exploration(
    refinement: Refinement, sizes: Mapping[str, int], *, faults: int, bound: int | None = None,
    progress: Progress | None = None,
) -> Refined:  # fmt: skip
    """
    Check every step at these sizes; a step that has no meaning is the violation `refines`.

    `bound` is the largest natural (by default one more than the faults). `idle` lists the abstract
    actions that no reachable step means.
    """
    spec = replace(refinement.concrete, properties=tuple(refinement.seen()))
    explorer = Explorer(spec, sizes, faults, bound)
    explorer.obliges("refines", {a.name: refinement.formula(a) for a in spec.actions})
    for abstract in refinement.abstract.actions:
        explorer.witnesses(abstract.name, _occasions(refinement, abstract.name))
    if not all(starts_as(explorer.ground, start, e) for start, e in refinement.starts()):
        raise UsageError("the initial state is not mapped to the initial state of the contract")
    found = explorer.run(progress)
    idle = [a.name for a in refinement.abstract.actions if a.name not in explorer.witnessed]
    return Refined(refinement, found, idle)


def starts_as(ground: Ground, start: Action | None, claim: Expr) -> bool:
    """Whether a claim about a start holds for every choice of its parameters at these sizes."""
    if start is None:
        return ground.lower(claim, {}) is g.TRUE
    instances = [i for i in ground.starts if i.action.name == start.name]
    return all(ground.of_instance(claim, i) is g.TRUE for i in instances)


def refine_by_running(
    refinement: Refinement, sizes: Mapping[str, int], *, walks: int = 100, length: int = 50,
    seed: int = 0,
) -> Step | None:  # fmt: skip
    """
    Walk the concrete spec's plain Python at random: the first step without a meaning, if any.

    The functions of the map are called as they are, and the abstract spec's own Python takes its
    steps: nothing of the graph is used. None: every step of every walk had its meaning.
    """
    return Walk(refinement, dict(sizes), Random(seed)).run(walks, length)


class Walk:
    """Random walks of a concrete spec beside its abstract one."""

    def __init__(self, refinement: Refinement, sizes: dict[str, int], chance: Random) -> None:
        self.refinement = refinement
        self.chance = chance
        self.concrete = Machine(Ground(refinement.concrete, sizes, LARGEST, faults=0))
        self.abstract = Machine(Ground(refinement.abstract, sizes, LARGEST, faults=0))

    def run(self, walks: int, length: int) -> Step | None:
        """The first step without a meaning, if there is one."""
        starts = list(self.concrete.starts())
        for _ in range(walks):
            state = self.chance.choice(starts)
            for _ in range(length):
                step = self.step(state)
                if step is None:
                    break
                if not self.means(state, step):
                    return step
                state = step.state
        return None

    def step(self, state: Spec) -> Step | None:
        """Some possible step: what disturbs is tried last, but for one time in five."""
        calm = self.chance.random() < 0.8
        choices = list(self.concrete.choices)
        self.chance.shuffle(choices)
        choices.sort(key=lambda choice: calm and choice[0].disturbs)
        for action, arguments in choices:
            after = self.concrete.take(state, action.name, arguments)
            if after is not None:
                return Step(action, arguments, after)
        return None

    def means(self, before: Spec, step: Step) -> bool:
        """Whether a step is one of its action's meanings."""
        seen, wanted = self.image(before), self.image(step.state)
        for name in self.refinement.actions.get(step.action.name, (STUTTER,)):
            if name == STUTTER and seen == wanted:
                return True
            if name != STUTTER and any(s == wanted for s in self.taken(seen, name, step)):
                return True
        return False

    def taken(self, seen: Spec, name: str, step: Step) -> Iterator[Spec]:
        """What the abstract action makes of a state, with the parameters that the step gives."""
        given = dict(zip((n for n, _ in step.action.parameters), step.arguments, strict=True))
        action = self.refinement.abstract.action(name)
        for numbers in self.abstract.ground.choices(action):
            arguments = self.abstract.arguments(action, numbers)
            chosen = dict(zip((n for n, _ in action.parameters), arguments, strict=True))
            if all(given.get(n, value) == value for n, value in chosen.items()):
                after = self.abstract.take(seen, name, arguments)
                if after is not None:
                    yield after

    def image(self, state: Spec) -> Spec:
        """The abstract state that a concrete one is mapped to."""
        made = self.abstract.initial()
        with sizes_of_sorts(self.concrete.sizes):
            for read in self.refinement.fields:
                kind = self.refinement.abstract.rich[read.__name__]
                made.__dict__[read.__name__] = self._read(read, kind, state)
        return made

    def _read(self, read: Callable[..., Any], kind: Rich, state: Spec) -> Any:
        if not isinstance(kind, Table | SetOf):
            return read(state)
        keys = self.abstract.plain.keys(kind.keys)
        found = {k: read(state, *(k if len(kind.keys) > 1 else (k,))) for k in keys}
        return {k for k, inside in found.items() if inside} if isinstance(kind, SetOf) else found


def _occasions(refinement: Refinement, name: str) -> dict[str, Expr]:
    """For each concrete action that may mean the abstract one: when it does."""
    return {
        concrete: refinement.meaning(refinement.concrete.action(concrete), name)
        for concrete, meanings in refinement.actions.items()
        if name in meanings
    }


def refine_by_proof(
    refinement: Refinement, *, leave_out: frozenset[str] = frozenset(),
    resources: int = RESOURCES, memory: Memory | None = None,
) -> Refined:  # fmt: skip
    """
    Prove for any size that every step has its meaning; concrete invariants are hypotheses.

    What the `memory` knows is not proved again.
    """
    spec = refinement.concrete
    prover = Prover(spec, [p for p in provable(spec) if p.name not in leave_out], resources)
    recall = Recall(prover, memory)
    found = Refined(refinement)
    for _, claim in refinement.starts():
        found.obligations.append(recall.holds("refines", None, claim))
    for action in spec.actions:
        found.obligations.append(recall.holds("refines", action, refinement.formula(action)))
    return found
