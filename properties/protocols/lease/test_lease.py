"""A lease under clocks that drift: its size, its proof, its bound, and what breaks it."""

from __future__ import annotations

from functools import cache

import pytest

from herdspec import Specification
from herdspec.check.exploration.exploration import Exploration
from herdspec.check.exploration.explore import explore
from herdspec.check.mutation.mutate import mutate
from herdspec.check.proof.prove import Prover, SolverAnswer, provable, prove
from herdspec.check.refinement.refine import (
    refine_by_exploration,
    refine_by_proof,
    refine_by_running,
)
from herdspec.protocols.lease.accepted_mutants import SURVIVORS
from herdspec.protocols.lease.contract import LEASE
from herdspec.protocols.lease.flaws import FLAWS
from herdspec.protocols.lease.properties import (
    ANY_CLOCKS,
    LEASE_CLOCKS,
    LEMMAS,
    NOTICING,
    POSSIBLE,
    lengths_keep_the_bound,
)
from herdspec.protocols.lease.refinement import REFINEMENT, REFINEMENT_ANY

BOUND = 16


@cache
def explored(members: int) -> Exploration:
    """The lease with so many holders; clocks go far enough that nothing is cut."""
    return explore(LEASE_CLOCKS, {"Member": members}, faults=1, bound=BOUND)


@pytest.mark.parametrize(
    ("members", "states", "steps", "depth"),
    [(1, 2_408, 12_580, 23), (2, 1_448_168, 13_760_162, 36)],
)
def test_the_size_of_the_world_is_pinned(members: int, states: int, steps: int, depth: int) -> None:
    """Every state of this size keeps what a lease is for, and the lemmas; nobody gets stuck."""
    found = explored(members)

    assert (found.states, found.generated, found.depth) == (states, steps, depth)
    assert found.complete
    assert not found.violations
    assert found.dropped == 0
    assert found.deadlock is None
    assert {*found.witnesses} == {p.name for p in POSSIBLE}
    assert all(found.taken.values())


# ── Its proof ───────────────────────────────────────────────────────────────────────────────


def test_it_is_proved_for_any_drift_below_the_bound() -> None:
    """For any number of holders, and whatever lengths keep the bound, no action is vacuous."""
    found = prove(ANY_CLOCKS)

    assert found.proved
    assert (found.vacuous, found.unsure) == ([], [])


@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda p: p.name)
def test_each_lemma_is_needed(lemma: object) -> None:
    """Without it something else is kept no longer, or the refinement is not proved."""
    name = frozenset({lemma.name})  # type: ignore[attr-defined]
    without = prove(ANY_CLOCKS, leave_out=name)
    refined = refine_by_proof(REFINEMENT_ANY, leave_out=name, assume=True)

    assert not (without.proved and refined.proved)


def test_without_the_bound_it_fails() -> None:
    """A length that grows beyond the bound lets a lease end under its holder."""
    spec = ANY_CLOCKS
    prover = Prover(spec, [p for p in provable(spec) if p.name != lengths_keep_the_bound.name])
    end = spec.action("end")
    promise = spec.promise("no_lease_ends_before_its_holder_has_stopped")

    assert prover.shrunk(prover.after(end, promise), None) is not None


# ── Its contract ────────────────────────────────────────────────────────────────────────────


def test_it_keeps_the_contract_of_a_lease() -> None:
    """Proved for any number of holders and any lengths, and seen with one holder."""
    proved = refine_by_proof(REFINEMENT_ANY, assume=True)
    seen = refine_by_exploration(REFINEMENT, {"Member": 1}, faults=1, bound=BOUND)

    assert [o.action for o in proved.obligations if o.outcome is not SolverAnswer.PROVED] == []
    assert seen.exploration is not None
    assert not seen.exploration.violations
    assert not seen.exploration.missing
    assert (seen.idle, seen.still) == ([], False)
    assert refine_by_running(REFINEMENT, {"Member": 2}, walks=4, length=40) is None


def test_the_contract_is_proved() -> None:
    """Whoever keeps it owes nobody anything of its sentences."""
    assert prove(LEASE).proved


# ── What goes wrong ─────────────────────────────────────────────────────────────────────────

MUST_CONTAIN = {
    "wall_clock": {"set_back"},
    "no_drift_margin": {"grantor_ticks", "holder_ticks"},
    "a_tick_too_long": {"grantor_ticks", "holder_ticks"},
    "counted_from_the_answer": {"learn", "grantor_ticks"},
    "answered_by_another": {"hear", "learn"},
}
"""What each shortest story must tell."""


@pytest.mark.parametrize("name", FLAWS)
def test_a_flaw_breaks_just_what_is_declared(name: str) -> None:
    """The shortest story of a lease that ends under its holder, as long as declared."""
    flaw = FLAWS[name]
    assert flaw.sizes is not None
    found = explore(flaw.spec, flaw.sizes, faults=flaw.faults, bound=flaw.bound)

    shown = {n: (len(s.steps), s.steps[-1].action.name) for n, s in found.violations.items()}
    assert shown == {n: (f.steps, f.last) for n, f in flaw.failures.items()}
    assert found.complete
    (story,) = found.violations.values()
    assert {step.action.name for step in story.steps} >= MUST_CONTAIN[name]


def test_every_mistake_is_noticed_or_has_a_reason() -> None:
    """With one holder no mistake survives without a reason, and no reason is stale."""
    small: Specification = NOTICING
    found = mutate(small, {"Member": 1}, faults=1, bound=BOUND, reasons=SURVIVORS)

    assert not found.holes
    assert not found.stale
    assert len(found.killed) == 28
