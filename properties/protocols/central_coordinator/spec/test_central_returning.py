"""Members that say which registrations are over: proved, refined, timed, mixed with old ones."""

from __future__ import annotations

import pytest

from herdspec import Specification
from herdspec.check.exploration.exploration import Exploration
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.liveness import liveness
from herdspec.check.proof.prove import SolverAnswer, prove, prover_of
from herdspec.check.refinement.mixed_versions import together
from herdspec.check.refinement.refine import refine_by_exploration, refine_by_running
from herdspec.protocols.central_coordinator.plan import central
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR, HELD
from herdspec.protocols.central_coordinator.variants.bringing_flaws import BRINGING_FLAWS
from herdspec.protocols.central_coordinator.variants.bringing_properties import (
    BRINGING,
    BRINGING_HELD,
    BRINGING_REFINEMENT,
    BROUGHT_CONTRACT,
)
from herdspec.protocols.central_coordinator.variants.returning_flaws import (
    RETURNING_FLAWS,
    whichever_life,
)
from herdspec.protocols.central_coordinator.variants.returning_properties import (
    RETURNING,
    RETURNING_HELD,
    RETURNING_REFINEMENT,
    returning_without_lease,
)
from herdspec.protocols.central_coordinator.variants.returning_timed import (
    RETURNING_DISCHARGE,
    TIMED_RETURNING,
)

SPECS = {
    "with the lease": RETURNING, "without": returning_without_lease(), "timed": TIMED_RETURNING
}  # fmt: skip
TWO = central(RETURNING, 2, 1, 1, faults=1)
"""Two members, one of everything else."""


def explored(spec: Specification) -> Exploration:
    """A spec, with two members."""
    return explore(spec, TWO.sizes, faults=TWO.faults, bound=TWO.bound)


# ── It is proved, and small worlds are seen whole ───────────────────────────────────────────


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SPECS)
def test_it_is_proved_for_any_size(name: str) -> None:
    """As of the coordinator itself: with the lease, without it, and with clocks in its place."""
    found = prove(SPECS[name])
    if not found.proved:  # seen once, and not known why
        found = prove(SPECS[name])

    assert [
        (o.promise, o.action) for o in found.obligations if o.outcome is not SolverAnswer.PROVED
    ] == []
    assert (found.vacuous, found.unsure, found.begins) == ([], [], SolverAnswer.PROVED)
    assert found.warnings == ()


def test_nothing_more_is_assumed() -> None:
    """It promises all that the coordinator does, and is proved by one lemma more."""
    before, now = ({p.name for p in s.properties} for s in (CENTRAL_COORDINATOR, RETURNING))

    assert now - before == {
        "what_is_said_to_be_over_is", "an_owner_is_known_to_have_stopped",
        "somebody_is_in_the_books_that_is_over",
    }  # fmt: skip
    assert before <= now


def test_its_world_is_pinned_and_nothing_fails_in_it() -> None:
    """With one broker everything is met but what takes two."""
    found = explored(RETURNING)

    assert (found.states, found.generated, found.depth) == (689_907, 2_280_333, 68)
    assert found.complete
    assert not found.violations
    assert found.missing == [
        "two_coordinators_believe_in_themselves", "a_write_of_the_past_is_refused",
    ]  # fmt: skip


def test_it_settles() -> None:
    """A group becomes stable, whatever is said of former members."""
    assert not liveness(RETURNING_HELD, TWO.sizes, faults=1, bound=TWO.bound).violations


def test_each_of_its_steps_is_one_of_the_contract() -> None:
    """Who registers again joins; what it says is no business of the contract's."""
    seen = refine_by_exploration(RETURNING_REFINEMENT, TWO.sizes, faults=1, bound=TWO.bound)

    assert seen.exploration is not None
    assert seen.exploration.complete
    assert not seen.exploration.violations


# ── The lease ───────────────────────────────────────────────────────────────────────────────


def test_with_clocks_it_does_what_the_assumption_allows() -> None:
    """On random walks of two members every step with clocks is one under the assumption."""
    assert refine_by_running(RETURNING_DISCHARGE, TWO.sizes, walks=8, length=60) is None


# ── Old and new members ─────────────────────────────────────────────────────────────────────


def test_old_and_new_members_may_be_in_one_group() -> None:
    """A version at a time, in any order: nothing is broken that either version keeps alone."""
    mixed = together(HELD, RETURNING_HELD, "Member").spec

    found = explored(mixed)

    assert found.complete
    assert not found.violations
    assert not liveness(mixed, TWO.sizes, faults=0, bound=TWO.bound).violations


# ── It can fail ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name", ["says_stopped_early", pytest.param("over_by_id", marks=pytest.mark.long)]
)
def test_who_is_taken_to_be_over_too_early_is_consumed_beside(name: str) -> None:
    """What has not stopped is given away: it was said too early, or of another registration."""
    flaw = RETURNING_FLAWS[name]
    assert flaw.sizes is not None

    found = explore(flaw.spec, flaw.sizes, faults=flaw.faults, bound=flaw.bound)

    ends = {n: (len(s.steps), s.steps[-1].action.name) for n, s in found.violations.items()}
    assert ends == {n: (f.steps, f.last) for n, f in flaw.failures.items()}
    assert "register_again" in [step.action.name for step in found.violations["exclusive"].steps]


def test_what_was_said_of_a_former_life_is_none_of_the_next() -> None:
    """Who knows consumers, not registrations, is not proved: one comes back, and owns again."""
    mistaken = RETURNING.replace("OverById", names_owner=whichever_life).for_proof

    answer = prover_of(mistaken).step(
        mistaken.action("register"), mistaken.promise("what_is_said_to_be_over_is")
    )

    assert answer.outcome is SolverAnswer.FAILED


# ── Members that bring offsets, too ─────────────────────────────────────────────────────────

LATER = central(BRINGING, 2, 1, 1, faults=2)
"""To produce a record is what disturbs, as a fault is: with one of both nothing is brought."""


def seen(spec: Specification) -> Exploration:
    """A spec, at that size."""
    return explore(spec, LATER.sizes, faults=LATER.faults, bound=LATER.bound)


def test_the_world_of_who_brings_offsets_is_pinned() -> None:
    """Without a record that is finished and not reported it is that of who does not."""
    found = explored(BRINGING)

    assert (found.states, found.complete, found.violations) == (678_545, True, {})
    assert "an_offset_is_brought" in found.missing


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("spec", [BRINGING, BROUGHT_CONTRACT], ids=lambda spec: spec.name)
def test_who_brings_offsets_is_proved_for_any_size(spec: Specification) -> None:
    """With the lease, by one lemma more; and so is the contract, in which that is said."""
    found = prove(spec)

    assert [
        (o.promise, o.action) for o in found.obligations if o.outcome is not SolverAnswer.PROVED
    ] == []
    assert (found.vacuous, found.unsure, found.begins) == ([], [], SolverAnswer.PROVED)
    assert found.warnings == ()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_who_brings_offsets_is_seen_whole_and_does_what_the_contract_says() -> None:
    """Offsets are brought there, stored before owners are, and taken of owners alone."""
    found = seen(BRINGING)
    assert (found.states, found.depth, found.complete, found.violations) == (
        11_082_166, 97, True, {},
    )  # fmt: skip
    assert found.missing == [
        "two_coordinators_believe_in_themselves", "a_write_of_the_past_is_refused",
    ]  # fmt: skip

    refined = refine_by_exploration(
        BRINGING_REFINEMENT, LATER.sizes, faults=LATER.faults, bound=LATER.bound
    ).exploration

    assert refined is not None
    assert (refined.complete, refined.violations) == (True, {})
    assert not liveness(BRINGING_HELD, TWO.sizes, faults=1, bound=TWO.bound).violations


@pytest.mark.long
@pytest.mark.timeout(900)
def test_whose_offsets_are_brought_is_known_by_its_registration() -> None:
    """By its id, what a former one has finished is stored while the next one is told to start."""
    flaw = BRINGING_FLAWS["brought_by_id"]

    found = seen(flaw.spec)

    ends = {n: (len(s.steps), s.steps[-1].action.name) for n, s in found.violations.items()}
    assert ends == {n: (f.steps, f.last) for n, f in flaw.failures.items()}
