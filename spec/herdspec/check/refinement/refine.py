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
from herdspec.check.exploration.bounds import TIMES, first_bound, raised
from herdspec.check.exploration.explore import (
    Exploration,
    Explorer,
    Progress,
    Story,
    is_cut_by_naturals,
)
from herdspec.check.proof.proof_cache import ProofCache
from herdspec.check.proof.prove import RESOURCES, Obligation, Prover, SolverAnswer, provable
from herdspec.check.running.refusal import value
from herdspec.check.running.run import Machine, Step
from herdspec.check.running.starts import initially
from herdspec.engine.ground import LARGEST, Ground
from herdspec.engine.smt import initial_values
from herdspec.language import graph as g
from herdspec.language import rich
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.reading.translate import read_off
from herdspec.language.specification import Action, DeclaredProperty, Specification
from herdspec.language.surface import Expectation, Spec, sizes_of_sorts
from herdspec.language.types import BOOL, EnumOf, MapOf, Rich, SetOf, SortOf, Table, said

REFINES = "refines"
"""The name under which a step without a meaning is reported."""
STUTTER = "stutter"
"""The abstract state stays as it is."""


@dataclass(frozen=True)
class Refinement:
    """A map from one spec's states and actions to another's."""

    concrete: Specification
    abstract: Specification
    fields: tuple[Callable[..., Any] | str, ...]
    """
    Per abstract field, by its name: a function of the concrete state (and of an element).

    The name alone stands for the concrete spec's own field, of the same name and type.
    """
    actions: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        for spec in (self.concrete, self.abstract):
            if not isinstance(spec, Specification):
                name = getattr(spec, "__name__", repr(spec))
                raise UsageError(f"{name} is no specification: write specification({name}, …)")
        known = [*(a.name for a in self.abstract.actions), STUTTER]
        actions = [a.name for a in self.concrete.actions]
        for name, meanings in self.actions.items():
            if name not in actions:
                what = f"{self.concrete.name} has no action {name!r}"
                raise UsageError(f"{what}; it has {', '.join(actions)}")
            if not {*meanings} <= {*known}:
                what = f"{name} means {meanings!r}, but the abstract actions are"
                raise UsageError(f"{what} {', '.join(known)}: write a tuple of these")
        missing = {*self.abstract.rich} ^ {*self.kept, *(f.__name__ for f in self.functions)}
        if missing:
            what = "the map and the abstract fields differ in"
            raise UsageError(f"{what}: {', '.join(sorted(missing))}")
        ours, theirs = self.concrete.rich, self.abstract.rich
        for name in self.kept:
            if ours.get(name) != theirs[name]:
                what = f"{self.concrete.name} has no field {name} of the same type"
                raise UsageError(f"{what}: write a function for it")
        alone = [name for name in self.abstract.sorts if name not in self.concrete.sorts]
        if alone:
            what = f"{self.abstract.name} speaks of {', '.join(alone)}, but"
            raise UsageError(f"{what} {self.concrete.name} does not: use the same sorts")

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """The fields that are read off."""
        return [f for f in self.fields if not isinstance(f, str)]

    @property
    def kept(self) -> list[str]:
        """The fields that both specs have alike, and that are named alone."""
        return [f for f in self.fields if isinstance(f, str)]

    @cached_property
    def image(self) -> dict[Expr, Expr]:
        """Each flat abstract field as an expression over the concrete state."""
        mapped = {leaf: e for _, read, _ in self._read for leaf, e in read.items()}
        leaves = (g.field(f.name, f.kind) for f in self.abstract.fields)
        return {leaf: mapped.get(leaf, leaf) for leaf in leaves}

    @cached_property
    def is_defined(self) -> Expr:
        """The condition that the map is defined in a concrete state, with abstract values."""
        within = (rich.within(leaf.kind, e) for leaf, e in self.image.items())
        return g.conj(*(defined for _, _, defined in self._read), *within)

    @cached_property
    def _read(self) -> list[tuple[str, dict[Expr, Expr], Expr]]:
        """The functions of the map: the flat fields that each makes, and when it is defined."""
        kinds = {f.name: f.kind for f in self.abstract.fields}
        leaves = {f.name: g.field(f.name, f.kind) for f in self.concrete.fields}
        found = []
        for f in self.functions:
            kind = self.abstract.rich[f.__name__]
            read, defined = read_off(f, kind, self.concrete.shape, leaves, self.concrete.names)
            flat = {f.__name__ + suffix: e for suffix, e in read.items()}
            made = {g.field(name, kinds[name]): e for name, e in flat.items()}
            found.append((f.__name__, made, defined))
        return found

    def meanings(self, action: str) -> tuple[str, ...]:
        """The abstract actions that a concrete one may be."""
        return self.actions.get(action, (STUTTER,))

    def formula(self, action: Action) -> Expr:
        """
        The formula that one concrete action is one of its meanings, over the state before it.

        Where the map is defined before the step, it must be so after it, too.
        """
        found = g.disj(*(self.meaning(action, name) for name in self.meanings(action.name)))
        after = g.substitute(self.is_defined, self._step(action))
        return g.implies(self.is_defined, g.conj(found, after))

    def meaning(self, action: Action, name: str) -> Expr:
        """The formula that one concrete action is this abstract one."""
        if name == STUTTER:
            return self._leads_to(action, {})
        abstract = self.abstract.action(name)
        given = dict(action.parameters)
        fixed = {p: given[n] for n, p in abstract.parameters if n in given}
        for p, handed_on in fixed.items():
            if p.kind != handed_on.kind:
                what = f"{p.data} of {action.name} is a {said(handed_on.kind)}"
                raise UsageError(f"{what}, that of {name} a {said(p.kind)}: rename one of them")
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
        meant = g.substitute(g.conj(abstract.defined, abstract.fits), by)
        return g.conj(guard, meant, self._leads_to(action, new))

    def _leads_to(self, action: Action, new: Mapping[str, Expr]) -> Expr:
        """The image after the step is what the abstract action made of the image before it."""
        step = self._step(action)
        return g.conj(
            *(
                g.same(g.substitute(before, step), new.get(leaf.data, before))
                for leaf, before in self.image.items()
            )
        )

    def _step(self, action: Action) -> dict[Expr, Expr]:
        """The concrete fields after a concrete action."""
        kinds = {f.name: f.kind for f in self.concrete.fields}  # a sum is wider than its field
        return {g.field(n, kinds[n]): e for n, e in action.updates.items()}

    def moves(self, action: Action) -> Expr:
        """The formula that one concrete action changes what is seen through the map."""
        return g.negate(self._leads_to(action, {}))

    def starts(self) -> Iterator[tuple[Action | None, Expr]]:
        """
        For each way to start, that what comes of it is mapped to an abstract initial state.

        The formula speaks of the parameters of the start; None: the declared initial state.
        """
        declared = initial_values(self.concrete)
        for start in self.concrete.starts or (None,):
            updates = start.updates if start else {}
            made = {g.field(n, e.kind): g.substitute(e, declared) for n, e in updates.items()}
            there = {**declared, **made}
            mapped = {x: g.substitute(e, there) for x, e in self.image.items()}
            axioms = (p.formula for p in _axioms(self.concrete))
            given = [g.substitute(e, there) for e in axioms]
            if start:
                given += [g.substitute(e, declared) for e in (start.guard, start.defined)]
            claim = g.conj(g.substitute(self.is_defined, there), self._is_a_start(start, mapped))
            yield start, g.implies(g.conj(*given), claim)

    def _is_a_start(self, concrete: Action | None, mapped: Mapping[Expr, Expr]) -> Expr:
        """The condition that these values of the abstract fields are an initial abstract state."""
        declared, found = initial_values(self.abstract), []
        axioms = [g.substitute(p.formula, mapped) for p in _axioms(self.abstract)]
        given = dict(concrete.parameters) if concrete else {}
        for start in self.abstract.starts or (None,):
            parameters = start.parameters if start else ()
            named = {p: given[n] for n, p in parameters if n in given}
            updates = start.updates if start else {}
            made = {g.field(n, e.kind): g.substitute(e, declared) for n, e in updates.items()}
            there = {**declared, **made}
            guards = [start.guard, start.defined] if start else []
            guard = (g.substitute(e, declared) for e in guards)
            same = (g.same(e, there[x]) for x, e in mapped.items() if x in there)
            claim = g.substitute(g.conj(*guard, *same, *axioms), named)
            found.append(_some(claim, start, [(n, p) for n, p in parameters if n not in given]))
        return g.disj(*found)

    def seen(self) -> list[DeclaredProperty]:
        """The abstract spec's possibilities, as possibilities of the concrete one."""
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
    """
    The answer of one check: by exploration, by proof, or both.

    `idle` are the abstract actions that no explored step means; `still` says that no explored step
    changes what is seen through the map. `given` is what the proof rests on and was not proved.
    """

    refinement: Refinement
    exploration: Exploration | None = None
    idle: list[str] = field(default_factory=list)
    still: bool = False
    obligations: list[Obligation] = field(default_factory=list)
    given: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    """The invariants that the proof takes for proved elsewhere."""

    @property
    def proved(self) -> bool:
        """Tells whether it was proved, and all that the proof rests on."""
        all_of_them = all(o.outcome is SolverAnswer.PROVED for o in self.obligations)
        return bool(self.obligations) and all_of_them and not self.given


def refine_by_exploration(
    refinement: Refinement, sizes: Mapping[str, int], *, faults: int, bound: int | None = None,
    within: bool = False, progress: Progress | None = None,
) -> Refined:  # fmt: skip
    """
    Check every step at these sizes; a step (or start) without a meaning is the violation `refines`.

    `faults`, `bound` and `within` are as in `explore`.
    """

    def attempt(at: int, seconds: float | None) -> Refined | None:
        found = _explored(refinement, Bounded(sizes, faults, at, seconds), progress)
        if found is not None and found.exploration is not None:
            found.exploration.within = within
        return found

    def is_cut(found: Refined) -> bool:
        return found.exploration is not None and is_cut_by_naturals(found.exploration)

    first = first_bound(refinement.concrete, faults) if bound is None else bound
    found, tried = raised(first, attempt, is_cut, 0 if within or bound is not None else TIMES)
    assert found.exploration is not None, "it was explored"
    found.exploration.bounds_tried = tried
    return found


@dataclass(frozen=True)
class Bounded:
    """The bounds of one search: sizes, faults, the bound of naturals, seconds."""

    sizes: Mapping[str, int]
    faults: int
    bound: int
    seconds: float | None


def _explored(refinement: Refinement, at: Bounded, progress: Progress | None) -> Refined | None:
    """Every step within one bound; None where the time was not enough."""
    seen = tuple(refinement.seen())
    spec = replace(refinement.concrete, properties=(*_assumed(refinement.concrete), *seen))
    explorer = Explorer(spec, at.sizes, at.faults, at.bound, seconds=at.seconds)
    explorer.obliges(REFINES, {a.name: refinement.formula(a) for a in spec.actions})
    for abstract in refinement.abstract.actions:
        explorer.witnesses(abstract.name, _occasions(refinement, abstract.name))
    found = explorer.run(progress)
    if explorer.out_of_time:
        return None
    for start in unmapped(refinement, explorer.machine):
        found.violations[REFINES] = Story(start, [], initially=initially(explorer.machine, start))
        break
    idle = [a.name for a in refinement.abstract.actions if a.name not in explorer.witnessed]
    moved = any(story.steps for story in found.witnesses.values())
    still = not moved and not _moves(refinement, explorer)
    return Refined(refinement, found, idle, still)


def _assumed(spec: Specification) -> list[DeclaredProperty]:
    """The assumptions on a spec's initial states, and the bounds of searches."""
    limits = [p for p in spec.properties if p.expectation is Expectation.CONSTRAINT]
    return [*_axioms(spec), *limits]


def _axioms(spec: Specification) -> list[DeclaredProperty]:
    """The assumptions on a spec's initial states."""
    return [p for p in spec.properties if p.expectation is Expectation.AXIOM]


def _moves(refinement: Refinement, explored: Explorer) -> bool:
    """Tells whether some step changes what is seen, where no witness has shown it; or need not."""
    if not any(a.updates for a in refinement.abstract.actions):
        return True
    ground = explored.ground
    spec = replace(ground.spec, properties=tuple(_assumed(ground.spec)))
    explorer = Explorer(spec, ground.sizes, ground.faults, ground.bound)
    explorer.witnesses("moves", {a.name: refinement.moves(a) for a in spec.actions})
    explorer.run()
    return "moves" in explorer.witnessed


def unmapped(refinement: Refinement, machine: Machine) -> Iterator[Spec]:
    """The initial states that the map takes to no initial state of the abstract spec."""
    ground, declared = machine.ground, machine.initial()
    numbers = dict(zip(ground.slots, machine.numbers(declared), strict=True))
    for start, claim in refinement.starts():
        if start is None:
            if not value(ground.lower(claim, {}), numbers):
                yield declared
            continue
        for i in ground.starts:
            if i.action.name == start.name and not value(ground.of_instance(claim, i), numbers):
                made = machine.take(declared, start.name, machine.arguments(start, i.arguments))
                assert made is not None, "run and refine disagree: no such start is possible"
                yield made


def refine_by_running(
    refinement: Refinement, sizes: Mapping[str, int], *, walks: int = 100, length: int = 50,
    seed: int = 0,
) -> Step | None:  # fmt: skip
    """
    Walk the concrete spec's plain Python at random: the first step without a meaning, if any.

    The functions of the map are called as they are, and the abstract spec's own Python takes its
    steps: nothing of the graph is used. None: every step of every walk had its meaning.
    """
    return RefinementWalks(refinement, dict(sizes), Random(seed)).run(walks, length)


class RefinementWalks:
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
        """Tells whether a step is one of its action's meanings."""
        seen, wanted = self.image(before), self.image(step.state)
        for name in self.refinement.meanings(step.action.name):
            if name == STUTTER and seen == wanted:
                return True
            if name != STUTTER and any(s == wanted for s in self.taken(seen, name, step)):
                return True
        return False

    def taken(self, seen: Spec, name: str, step: Step) -> Iterator[Spec]:
        """The states that the abstract action leads to, with the parameters that the step gives."""
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
        made, own = self.abstract.initial(), vars(state.copy())
        vars(made).update({name: own[name] for name in self.refinement.kept})
        with sizes_of_sorts(self.concrete.sizes):
            for read in self.refinement.functions:
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
    resources: int = RESOURCES, memory: Memory | None = None, assume: bool = False,
) -> Refined:  # fmt: skip
    """
    Prove for any size that every step has its meaning.

    Hypotheses are the concrete invariants that are inductive together (all of them with `assume`,
    where another check proves them). What the `memory` knows is not proved again. Raises
    `UsageError` for channels, of whose order and length proofs know nothing.
    """
    spec = refinement.concrete
    for of in (spec, refinement.abstract):
        if of.for_proof is not of:
            what = f"{of.name} has channels, and no map of channels can be proved"
            raise UsageError(f"{what}: explore it (--no-prove)")
    always = [p for p in provable(spec) if p.expectation is Expectation.ALWAYS]
    known = [p for p in always if p.name not in leave_out]
    found = Refined(refinement)
    recall = ProofCache(Prover(spec, known, resources), memory)
    if assume:
        found.assumed = tuple(p.name for p in known)
    else:
        recall, found.given = _by_induction(spec, known, resources, memory)
    for _, claim in refinement.starts():
        found.obligations.append(recall.holds(REFINES, None, claim))
    for action in spec.actions:
        found.obligations.append(recall.holds(REFINES, action, refinement.formula(action)))
    return found


def _by_induction(
    spec: Specification, known: list[DeclaredProperty], resources: int, memory: Memory | None
) -> tuple[ProofCache, tuple[str, ...]]:
    """A prover whose hypotheses are proved, and what its answers rest on that is not."""
    while True:
        recall = ProofCache(Prover(spec, known, resources), memory)
        answers = map(recall.solve, recall.prover.questions())
        failed = {o.promise for o in answers if o.outcome is not SolverAnswer.PROVED}
        kept = [p for p in known if p.name not in failed]
        if len(kept) == len(known):
            return recall, tuple(failed)
        known = kept
