"""
Looks for a run that ends in a counterexample to induction: can that state be reached?

A promise that is not inductive may well hold: the state before the step that breaks it need not be
reachable. So the spec is explored at the counterexample's own size, for a few seconds; where that
is too large, short runs are searched. A run that breaks the promise is a counterexample; none is
no proof, since a larger size or more faults may have one. A promise that fails initially is broken
by a run without a step, from an initial state of that size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from herdspec.check.exploration.bounds import beyond, first_bound, raised
from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED, Exploration, Story
from herdspec.check.exploration.explore import Explorer, is_cut_by_naturals
from herdspec.check.proof.induction import DEFINED, Obligation, SolverAnswer
from herdspec.check.running.run import Machine
from herdspec.check.running.starts import initially
from herdspec.check.verdict import bounds_of, counted
from herdspec.engine.ground import Ground
from herdspec.language.errors import UsageError
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation

SECONDS = 5.0
"""The seconds for which one size is explored at most."""
MOST_SIZES = 2
"""At how many sizes is looked."""
LARGEST = 4
"""Sizes with more elements of a sort are not looked at."""
MOST_STARTS = 1_000
"""Where there are more initial states, none that breaks a promise is looked for."""
DEPTH, RESOURCES = 6, 5_000_000
"""The length of runs that are searched where exploration ends early; z3's limit for each."""


@dataclass(frozen=True)
class Reached:
    """A run that breaks a promise, or what came of looking for one."""

    sentence: str
    story: Story | None = None
    machine: Machine | None = None
    """The spec at the size and the bounds within which the run was found."""


def look_for_runs(
    spec: Specification, obligations: list[Obligation], faults: int
) -> dict[str, Reached]:
    """
    For each promise that is not inductive: a run that breaks it, or how far was looked.

    The runs have so many faults at most. Of one that fails initially, an initial state without it,
    where there are not too many to look at.
    """
    found: dict[str, Reached] = {}
    for number, (sizes, names) in enumerate(_by_size(spec, obligations).items()):
        at = dict(sizes)
        if number >= MOST_SIZES or max(at.values(), default=1) > LARGEST:
            far = f"no run to it was looked for with {_said(at)}"
            found |= dict.fromkeys(names, Reached(far))
        else:
            found |= _looked(spec, at, faults, names)
    return found | _begun(spec, obligations, faults)


Sizes = tuple[tuple[str, int], ...]


def _by_size(spec: Specification, obligations: list[Obligation]) -> dict[Sizes, list[str]]:
    """The promises that some step may break, by the size of their first counterexample."""
    found: dict[Sizes, list[str]] = {}
    for name, shown in _broken(spec, obligations):
        sizes = tuple((sort, max(1, shown.get(sort, 1))) for sort in spec.sorts)
        found.setdefault(sizes, []).append(name)
    return found


def _broken(
    spec: Specification, obligations: list[Obligation]
) -> Iterator[tuple[str, Mapping[str, int]]]:
    actions, seen = {a.name for a in spec.actions}, set[str]()
    for o in obligations:
        if o.outcome is SolverAnswer.FAILED and o.action in actions and o.promise not in seen:
            seen.add(o.promise)
            yield o.promise, o.counterexample.sizes if o.counterexample else {}


def _looked(
    spec: Specification, sizes: Mapping[str, int], faults: int, names: list[str]
) -> dict[str, Reached]:
    """The runs to these promises' counterexamples at this size; short ones where it ends early."""
    ends = (Expectation.AXIOM, Expectation.CONSTRAINT)
    only = tuple(p for p in spec.properties if p.name in names or p.expectation in ends)
    bare = replace(spec, properties=only)

    def attempt(bound: int, left: float | None) -> Exploration | None:
        explorer = Explorer(bare, sizes, faults, bound, seconds=min(left or SECONDS, SECONDS))
        explored = explorer.run()
        return None if explorer.out_of_time and left is not None else explored

    try:
        explored, _ = raised(first_bound(spec, faults), attempt, is_cut_by_naturals)
    except UsageError as error:
        return dict.fromkeys(names, Reached(f"whether it can be reached is not known: {error}"))
    found = {}
    for name in names:
        story = explored.violations.get(EVERY_VALUE_IS_DEFINED if name == DEFINED else name)
        if story is None and not explored.complete and name != DEFINED:
            story = _searched(bare, explored, name)
        found[name] = Reached(_unreached(explored))
        if story is not None:
            ground = Ground(spec, explored.sizes, explored.bound, explored.faults)
            found[name] = Reached("", story, Machine(ground))
    return found


def _begun(spec: Specification, obligations: list[Obligation], faults: int) -> dict[str, Reached]:
    """The runs without a step that break what fails initially."""
    actions, found = {a.name for a in spec.actions}, dict[str, Reached]()
    for o in obligations:
        shown = o.counterexample
        begins = o.outcome is SolverAnswer.FAILED and o.action not in actions
        if not begins or shown is None or o.promise in (DEFINED, *found):
            continue
        sizes = {sort: max(1, shown.sizes.get(sort, 1)) for sort in spec.sorts}
        bound = max(first_bound(spec, faults), *shown.numbers.values(), 1)
        try:
            machine = Machine(Ground(spec, sizes, bound, faults))
            story = _without(machine, spec.promise(o.promise))
        except UsageError:  # too large a number, or a start without a meaning: no run is known
            continue
        if story is not None:
            found[o.promise] = Reached("", story, machine)
    return found


def _without(machine: Machine, promise: DeclaredProperty) -> Story | None:
    """The first initial state without this promise, as a story of no steps."""
    states = [*islice(machine.starts(), MOST_STARTS + 1)]
    if len(states) > MOST_STARTS:
        return None
    found = next((state for state in states if not machine.holds(promise, state)), None)
    return None if found is None else Story(found, [], initially=initially(machine, found))


def _searched(spec: Specification, explored: Exploration, name: str) -> Story | None:
    """A short run that breaks a promise, if there is one."""
    from herdspec.check.simulation.search import search

    result = search(
        spec, explored.sizes, faults=explored.faults, depth=DEPTH, bound=explored.bound,
        only=frozenset({name}), resources=RESOURCES,
    )  # fmt: skip
    return result.violations.get(name)


def _unreached(explored: Exploration) -> str:
    """Says that no run was found, and how far was looked."""
    size = bounds_of(explored)
    spec = explored.spec
    if explored.complete and not spec.sorts and not any(a.disturbs for a in spec.actions):
        return (
            "this state is unreachable: exploring every state there is shows no run that breaks "
            "the promise; a lemma is missing"
        )
    if explored.complete:
        return (
            f"this state may be unreachable: exploring {size} shows no run that breaks the "
            "promise, so a lemma is missing, or it takes more to break it"
        )
    within = f" within {beyond(explored.cuts, explored.bound)}" if explored.dropped else ""
    return (
        f"whether this state can be reached is not known: {counted(explored.states, 'state')} "
        f"({size}) and all runs of {DEPTH} steps do not break the promise{within}"
    )


def _said(sizes: Mapping[str, int]) -> str:
    return ", ".join(counted(n, name.lower()) for name, n in sizes.items())
