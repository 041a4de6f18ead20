"""Members that resume, or bring offsets where they do not: both at once are proved, and refined."""

from __future__ import annotations

import pytest

from herdspec import Specification
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.liveness import liveness
from herdspec.check.proof.prove import SolverAnswer, prove
from herdspec.check.refinement.refine import refine_by_exploration, refine_by_running
from herdspec.protocols.central_coordinator.plan import central
from herdspec.protocols.central_coordinator.variants.bringing_properties import BRINGING
from herdspec.protocols.central_coordinator.variants.bringing_resumed_properties import (
    BRINGING_RESUMED,
    BRINGING_RESUMED_HELD,
    BRINGING_RESUMED_REFINEMENT,
    CONTRACT_OF_BOTH,
)
from herdspec.protocols.central_coordinator.variants.resuming_properties import RESUMING

TWO = central(BRINGING_RESUMED, 2, 1, 1, faults=1)
"""Two members, one of everything else; with one fault nobody brings anything that is not known."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("spec", [BRINGING_RESUMED, CONTRACT_OF_BOTH], ids=lambda spec: spec.name)
def test_it_is_proved_for_any_size(spec: Specification) -> None:
    """All that is promised of either is promised of both."""
    found = prove(spec)

    assert [
        (o.promise, o.action) for o in found.obligations if o.outcome is not SolverAnswer.PROVED
    ] == []
    assert (found.vacuous, found.unsure, found.begins) == ([], [], SolverAnswer.PROVED)
    assert found.warnings == ()


def test_nothing_more_is_assumed_or_promised_than_of_each() -> None:
    """Its properties are those of the two variants."""
    each = [{p.name for p in s.properties} for s in (BRINGING, RESUMING)]

    assert {p.name for p in BRINGING_RESUMED.properties} == set.union(*each) - {"nobody_goes_back"}


def test_a_world_of_two_members_is_seen_whole() -> None:
    """Nothing fails, and in the end a group is stable."""
    found = explore(BRINGING_RESUMED, TWO.sizes, faults=1, bound=TWO.bound)

    assert (found.states, found.generated, found.depth) == (793_263, 2_661_248, 68)
    assert found.complete
    assert not found.violations
    assert not liveness(BRINGING_RESUMED_HELD, TWO.sizes, faults=1, bound=TWO.bound).violations


def test_each_of_its_steps_is_one_of_the_contract() -> None:
    """With a fault all are seen; with two, on random walks, offsets that are brought, too."""
    seen = refine_by_exploration(BRINGING_RESUMED_REFINEMENT, TWO.sizes, faults=1, bound=TWO.bound)

    assert seen.exploration is not None
    assert seen.exploration.complete
    assert not seen.exploration.violations
    assert refine_by_running(BRINGING_RESUMED_REFINEMENT, TWO.sizes, walks=4, length=60) is None
