"""
The *simulate* reading: millions of random steps, at sizes that no exhaustive search reaches.

`walks.py` moves thousands of walkers through the spec at once. What breaks a property on the way is
walked again in the plain Python, shortened (steps that the failure does not need are left out, and
the rest is run again), and told. Nothing that a simulation does not find is thereby shown: it says
"nothing found in N steps", never "holds".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herdspec.check.exploration.bounds import first_bound
from herdspec.check.exploration.exploration import Story
from herdspec.check.exploration.initial import Initial
from herdspec.check.running.run import Machine, Step
from herdspec.check.running.starts import initially
from herdspec.check.running.undefined import undefined_step
from herdspec.check.simulation.walks import Herd, Walk, Watched
from herdspec.engine.ground import Ground
from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation, Spec, Undefined

LENGTH = 100
"""The number of steps that a walk has at most, where nobody says."""
MOST_WALKERS = 1 << 16
MOST_GUARDS = 1 << 27
"""The most guards that are evaluated side by side: a byte each."""

Progress = Callable[[int], None]
"""Told now and then: steps taken."""


@dataclass
class Simulation:
    """
    The result of random walks.

    `distinct` is an estimate (about 1 % off) of the number of different states; `unseen` are
    `sometimes` without a witness, `unjudged` the properties that walks cannot judge; `dropped`
    counts steps beyond the bound of naturals or of channels.
    """

    spec: Specification
    sizes: Mapping[str, int]
    faults: int
    bound: int
    seed: int
    steps: int = 0
    walks: int = 0
    seconds: float = 0.0
    distinct: int = 0
    dropped: int = 0
    taken: dict[str, int] = field(default_factory=dict)
    untaken: dict[str, list[int]] = field(default_factory=dict)
    """Lines of branches that no step covered, by action."""
    seen: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    violations: dict[str, Story] = field(default_factory=dict)
    deadlock: Story | None = None
    witnesses: dict[str, Story] = field(default_factory=dict)
    """Of what was `seen`: a story to it, if that was asked for."""

    @property
    def verdict(self) -> str:
        """The verdict in words: what was found, or that nothing was found in so many steps."""
        found = [name.replace("_", " ") for name in self.violations]
        found += ["a state without a next step"] * (self.deadlock is not None)
        said = ", ".join(found) if found else "nothing"
        return f"found in {self.steps:,} steps of {self.walks:,} walks: {said}"


def simulate(
    spec: Specification,
    sizes: Mapping[str, int],
    *,
    faults: int,
    bound: int | None = None,
    steps: int = 1_000_000,
    seed: int = 0,
    length: int = LENGTH,
    walkers: int | None = None,
    weights: Mapping[str, float] | None = None,
    witnesses: bool = False,
    progress: Progress | None = None,
) -> Simulation:
    """
    Walk at least `steps` random steps; the same arguments walk the same walks.

    `faults` is the budget of what disturbs, in each walk; `bound` the largest natural (by default
    one more than the budget); `weights` make actions likelier or, at 0, impossible. `walkers` walk
    side by side: by default so many that each can walk its full length. With `witnesses`, a story
    is told to each `sometimes` that was seen, too.
    """
    known = [a.name for a in spec.actions]
    asked = dict(weights or {})
    _check(steps, length, asked, known)
    bound = first_bound(spec, faults) if bound is None else bound
    ground = Ground(spec, dict(sizes), bound, faults)
    machine = Machine(ground)
    starts = starts_of(machine)
    herd = Herd(
        ground, starts, watched(ground), length=length, seed=seed,
        walkers=walkers or walkers_for(steps, length, len(ground.instances)), asked=asked,
    )  # fmt: skip
    begun = perf_counter()
    while herd.steps < steps and not herd.is_stuck:
        herd.round()
        if progress:
            progress(herd.steps)
    found = _result(herd, machine, starts, seed, perf_counter() - begun)
    if witnesses:
        seen = herd.found.seen.items()
        found.witnesses = {n: Retold(machine, starts, n).story(walk) for n, walk in seen}
    return found


def _check(steps: int, length: int, weights: Mapping[str, float], known: Sequence[str]) -> None:
    if steps < 1 or length < 1:
        raise UsageError(f"{steps} steps in walks of {length}: simulate at least 1 of each")
    for name, weight in weights.items():
        if name not in known:
            raise UsageError(f"there is no action {name!r} to weigh; known: {', '.join(known)}")
        if not 0 <= weight < float("inf"):
            raise UsageError(f"the weight {weight} of {name}: give a number of at least 0")


def walkers_for(steps: int, length: int, instances: int = 1) -> int:
    """The number of walkers, a power of two, that can walk full lengths in what memory there is."""
    wanted = max(1, min(steps // length, MOST_WALKERS, MOST_GUARDS // max(1, instances)))
    return int(1 << (wanted.bit_length() - 1))


def starts_of(machine: Machine) -> NDArray[np.int64]:
    """
    All initial states within the bounds of which the axioms hold: a row of numbers for each choice.

    Raises `UsageError` if there is none.
    """
    found = [begun.numbers(machine.ground) for begun in Initial(machine)]
    if not found:
        raise UsageError(f"{machine.spec.name} has no initial state here: no walk can begin")
    return np.concatenate(found)


def watched(ground: Ground) -> Watched:
    """The formulas looked at on the way: everything that one state or one step can show."""

    def formulas(kind: Expectation) -> dict[str, Any]:
        promises = [p for p in ground.spec.properties if p.expectation is kind]
        return {p.name: ground.property(p) for p in promises}

    return Watched(
        formulas(Expectation.ALWAYS), formulas(Expectation.SOMETIMES), formulas(Expectation.STEP),
        g.conj(*formulas(Expectation.CONSTRAINT).values()),
    )  # fmt: skip


def _result(
    herd: Herd, machine: Machine, starts: NDArray[np.int64], seed: int, seconds: float
) -> Simulation:
    spec, ground = machine.spec, machine.ground
    made = Simulation(spec, ground.sizes, ground.faults, ground.bound, seed)
    made.steps, made.walks, made.seconds = herd.steps, herd.walks, seconds
    made.distinct, made.dropped = herd.distinct.estimate(), herd.dropped
    made.taken = {a.name: 0 for a in spec.actions} | herd.taken
    made.untaken = {
        name: [spec.action(name).branches[k].line for k in sorted(left)]
        for name, left in herd.uncovered.items()
    }
    kinds = {p.name: p.expectation for p in spec.properties}
    made.seen = [n for n, k in kinds.items() if n in herd.found.seen]
    made.unseen = [
        n for n, k in kinds.items() if k is Expectation.SOMETIMES and n not in herd.found.seen
    ]
    looked = (Expectation.ALWAYS, Expectation.STEP, Expectation.SOMETIMES)
    assumed = (Expectation.AXIOM, Expectation.CONSTRAINT)
    made.unjudged = [n for n, k in kinds.items() if k not in (*looked, *assumed)]
    for name, walk in herd.found.walks.items():
        story = Retold(machine, starts, name).story(walk)
        if name == Herd.DEADLOCK:
            made.deadlock = story
        else:
            made.violations[name] = story
    return made


# ── Telling a walk again ────────────────────────────────────────────────────────────────────


class Retold:
    """Walks that show one failure or `sometimes`, run in the plain Python and shortened there."""

    def __init__(self, machine: Machine, starts: NDArray[np.int64], name: str) -> None:
        self.machine = machine.at_every_turn()
        self.starts = starts
        self.name = name
        ground = machine.ground
        self.slots = list(ground.slots.values())
        known = {p.name: p for p in machine.spec.properties}
        self.promise: DeclaredProperty | None = known.get(name)

    def story(self, walk: Walk) -> Story:
        """The walk, without the steps that what it shows does not need."""
        instances = [self.machine.ground.instances[k] for k in walk.instances]
        calls = [(i.action, self.machine.arguments(i.action, i.arguments)) for i in instances]
        begun = self.machine.state(tuple(self.starts[walk.start].tolist()))
        found = self.run(begun, calls)
        if found is None:
            raise AssertionError(f"run and simulate disagree: Python does not show {self.name}")
        steps = self.shortened(begun, found)
        if self.name == Herd.DEFINED:
            *others, last = steps
            steps = [*others, undefined_step(self.machine, last.state, last.action, last.arguments)]
        return Story(begun, steps, initially=initially(self.machine, begun))

    def shortened(self, begun: Spec, steps: list[Step]) -> list[Step]:
        """Leave out ever smaller parts, as long as the rest still shows it."""
        width = max(1, len(steps) // 2)
        while width:
            low = 0
            while low < len(steps):
                rest = [*steps[:low], *steps[low + width :]]
                found = self.run(begun, [(s.action, s.arguments) for s in rest])
                if found is not None and len(found) < len(steps):
                    steps = found
                else:
                    low += width
            width //= 2
        return steps

    def run(self, begun: Spec, calls: Sequence[tuple[Any, tuple[Any, ...]]]) -> list[Step] | None:
        """The steps to what is to be shown; calls that are not possible are left out."""
        present, taken = begun, 0
        steps: list[Step] = []
        if self.shows(present, taken):
            return steps
        for action, arguments in calls:
            faults = taken + action.disturbs
            if faults > self.machine.ground.faults:
                continue
            try:
                after = self.machine.take(present, action.name, arguments)
            except Undefined:
                if self.name == Herd.DEFINED:  # it is named last, and changes nothing
                    return [*steps, Step(action, arguments, present)]
                continue
            if after is None or not self.within(after, faults) or not self.goes_on(present):
                continue
            steps.append(Step(action, arguments, after))
            if self.breaks(present, after) or self.shows(after, faults):
                return steps
            present, taken = after, faults
        return None

    def shows(self, state: Spec, taken: int) -> bool:
        """Tells whether a state shows the failure, or is the witness."""
        if self.name == Herd.DEADLOCK:
            return self.goes_on(state) and not self.possible(state, taken)
        promise = self.promise
        kinds = (Expectation.ALWAYS, Expectation.SOMETIMES)
        if promise is None or promise.expectation not in kinds:
            return False
        return self.machine.holds(promise, state) is (promise.expectation is kinds[1])

    def goes_on(self, state: Spec) -> bool:
        """Tells whether the spec's constraints let walks go on from a state."""
        kept = (p for p in self.machine.spec.properties if p.expectation is Expectation.CONSTRAINT)
        return all(self.machine.holds(p, state) for p in kept)

    def breaks(self, before: Spec, after: Spec) -> bool:
        """Tells whether a step shows the failure."""
        promise = self.promise
        if promise is None or promise.expectation is not Expectation.STEP:
            return False
        return not self.machine.holds(promise, before, after)

    def possible(self, state: Spec, taken: int) -> bool:
        """Tells whether any step is possible, be it beyond a bound or without a meaning."""
        for action, arguments in self.machine.choices:
            if taken + action.disturbs > self.machine.ground.faults:
                continue
            try:
                if self.machine.take(state, action.name, arguments) is not None:
                    return True
            except Undefined:
                return True
        return False

    def within(self, state: Spec, faults: int) -> bool:
        """Tells whether a state is within the bounds of the walks."""
        numbers = self.machine.numbers(state, faults)
        return all(n < slot.values for n, slot in zip(numbers, self.slots, strict=True))
