"""On random specs: search finds what exploration finds, and what is proved of any order holds."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from herdspec import Specification, UsageError, from_source
from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED
from herdspec.check.exploration.explore import explore
from herdspec.check.proof.prove import SolverAnswer, prove
from herdspec.check.proof.suggest import Candidates
from herdspec.check.simulation.search import search
from herdspec.language import graph as g
from herdspec.language.surface import Expectation
from properties.language.random_specs import sources

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
FAULTS, BOUND, DEPTH, FEW = 1, 2, 4, 20_000
MEMORY_BYTES = 1 << 22


def read(text: str) -> Specification:
    """The spec in a text."""
    return from_source(text, "Random")


SUMS = ("number", "plus", "minus", "mod", "div", "count")


def counts(spec: Specification) -> bool:
    """Whether a spec counts elements or adds numbers, which an abstract order knows nothing of."""
    formulas = [e for a in spec.actions for e in (a.guard, a.defined, *a.updates.values())]
    every = [*formulas, *(p.formula for p in spec.properties)]
    return any(g.leaves(e, op) for e in every for op in SUMS)


@settings(max_examples=40, suppress_health_check=QUIET)
@given(text=sources())
def test_search_agrees_with_exploration(text: str) -> None:
    """What breaks within four steps of a random spec is found by both, equally short."""
    spec = read(text)
    sizes = dict.fromkeys(spec.sorts, 2)
    try:
        seen = explore(
            spec, sizes, faults=FAULTS, bound=BOUND, symmetry=False, memory_bytes=MEMORY_BYTES
        )
    except UsageError:
        with pytest.raises(UsageError):  # it has no initial state, for both of them
            search(spec, sizes, faults=FAULTS, bound=BOUND, depth=DEPTH)
        return
    kinds = (Expectation.ALWAYS, Expectation.STEP)
    asked = {p.name for p in spec.properties if p.expectation in kinds} | {EVERY_VALUE_IS_DEFINED}
    if seen.truncated or not asked - {EVERY_VALUE_IS_DEFINED}:
        return
    wanted = {
        name: len(story.steps)
        for name, story in seen.violations.items()
        if name in asked and len(story.steps) <= DEPTH
    }
    found = search(spec, sizes, faults=FAULTS, bound=BOUND, depth=DEPTH)

    assert not found.unknown
    assert {name: len(story.steps) for name, story in found.violations.items()} == wanted


@settings(max_examples=25, suppress_health_check=QUIET)
@given(text=sources())
def test_what_is_proved_of_any_order_is_seen_of_naturals(text: str) -> None:
    """No promise of a random spec that is proved of any order is broken in any reached state."""
    spec = read(text)
    if counts(spec.for_proof):
        return
    try:
        proof = prove(spec, order=True, resources=FEW * 100)
    except UsageError:
        return  # it speaks of numbers that no abstract order counts to
    if not proof.promises or not proof.proved:
        return
    seen = explore(
        spec, dict.fromkeys(spec.sorts, 2), faults=FAULTS, bound=BOUND, memory_bytes=MEMORY_BYTES
    )

    assert not seen.violations.keys() & set(proof.promises)
    assert EVERY_VALUE_IS_DEFINED not in seen.violations


@settings(max_examples=15, suppress_health_check=QUIET)
@given(text=sources())
def test_conjuncts_that_exclude_a_state_are_true_of_reached_ones(text: str) -> None:
    """What would exclude a counterexample of a random spec is broken in no reached state."""
    spec = read(text)
    try:
        proof = prove(spec, resources=FEW * 100)
    except UsageError:
        return  # it counts, which proofs do not know
    failed = [o.counterexample for o in proof.obligations if o.outcome is SolverAnswer.FAILED]
    shown = next((c for c in failed if c), None)
    if shown is None:
        return
    try:
        candidates = Candidates.of(spec)
    except UsageError:
        return  # it has no initial state
    for candidate in list(candidates.excluding(shown, 2))[:5]:
        assert candidates.true_everywhere(candidate)
