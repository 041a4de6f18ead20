"""Members that resume their registrations: proved, refined, timed, mixed with those of before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from herdspec import Specification
from herdspec.check.exploration.exploration import Exploration
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.liveness import liveness
from herdspec.check.plans import CheckConfig
from herdspec.check.proof.prove import SolverAnswer, prove
from herdspec.check.refinement.mixed_versions import together
from herdspec.check.refinement.refine import refine_by_exploration, refine_by_running
from herdspec.check.verdict import Mark
from herdspec.protocols.central_coordinator.plan import central, resumed
from herdspec.protocols.central_coordinator.variants.resuming_flaws import (
    ADOPTS_ANY_GENERATION,
    RESUMING_FLAWS,
)
from herdspec.protocols.central_coordinator.variants.resuming_properties import (
    RESUMED_CONTRACT,
    RESUMING,
    RESUMING_HELD,
    RESUMING_REFINEMENT,
    resuming_without_lease,
)
from herdspec.protocols.central_coordinator.variants.resuming_timed import (
    RESUMING_DISCHARGE,
    TIMED_RESUMING,
)
from herdspec.protocols.central_coordinator.variants.returning_properties import (
    RETURNING,
    RETURNING_HELD,
)

SPECS = {
    "with the lease": RESUMING, "without": resuming_without_lease(), "timed": TIMED_RESUMING,
    "the contract": RESUMED_CONTRACT,
}  # fmt: skip
TWO = central(RESUMING, 2, 1, 1, faults=1)
"""Two members, one of everything else."""
ALONE = central(RESUMING, 1, 1, 2, faults=1)
"""One member, and two brokers: one may take over from the other."""


def explored(spec: Specification, at: CheckConfig) -> Exploration:
    """A spec, at a size."""
    return explore(spec, at.sizes, faults=at.faults, bound=at.bound)


# ── It is proved, and small worlds are seen whole ───────────────────────────────────────────


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SPECS)
def test_it_is_proved_for_any_size(name: str) -> None:
    """With the lease, without it, and with clocks in its place; the contract's sentences, too."""
    found = prove(SPECS[name])

    assert [
        (o.promise, o.action) for o in found.obligations if o.outcome is not SolverAnswer.PROVED
    ] == []
    assert (found.vacuous, found.unsure, found.begins) == ([], [], SolverAnswer.PROVED)
    assert found.warnings == ()


def test_nothing_more_is_assumed() -> None:
    """It promises all that is promised to members that return; of the lemmas one says less."""
    before, now = ({p.name for p in s.properties} for s in (RETURNING, RESUMING))

    assert now - before == {
        "who_resumes_says_its_generation", "a_group_is_stable_that_nobody_has_stopped",
        "somebody_consumes_and_asks_to_resume",
    }  # fmt: skip
    assert before - now == {"nobody_goes_back"}


@pytest.mark.parametrize(
    ("at", "pinned", "missing"),
    [
        (
            TWO, (804_625, 2_692_024, 68),
            {"two_coordinators_believe_in_themselves", "a_write_of_the_past_is_refused"},
        ),
        (
            ALONE, (6_503, 19_476, 31),
            {"an_owner_is_known_to_have_stopped", "somebody_is_in_the_books_that_is_over"},
        ),
    ],
    ids=["two members", "two brokers"],
)  # fmt: skip
def test_its_worlds_are_pinned_and_nothing_fails_in_them(
    at: CheckConfig, pinned: tuple[int, int, int], missing: set[str]
) -> None:
    """In both somebody is adopted, whose group is stable though nobody was stopped."""
    found = explored(RESUMING, at)

    assert (found.states, found.generated, found.depth) == pinned
    assert found.complete
    assert not found.violations
    assert set(found.missing) == missing


def test_it_settles() -> None:
    """A group becomes stable, whoever resumes."""
    assert not liveness(RESUMING_HELD, TWO.sizes, faults=1, bound=TWO.bound).violations


@pytest.mark.parametrize("at", [TWO, ALONE], ids=["two members", "two brokers"])
def test_each_of_its_steps_is_one_of_the_contract(at: CheckConfig) -> None:
    """Who is adopted is readmitted, and was known to consume in the present generation."""
    seen = refine_by_exploration(RESUMING_REFINEMENT, at.sizes, faults=1, bound=at.bound)

    assert seen.exploration is not None
    assert seen.exploration.complete
    assert not seen.exploration.violations


def test_verify_misses_nothing_in_it() -> None:
    """At the size of its plan all that should be possible is; as the contract, and with clocks."""
    explored, _, _, seen, _, timed = resumed()

    for check in (explored, seen, timed):
        marks = {finding.mark for finding in check.run(lambda *_: None).findings}
        assert marks == {Mark.EXHAUSTED}, check.name


def test_with_clocks_it_does_what_the_assumption_allows() -> None:
    """On random walks of two members every step with clocks is one under the assumption."""
    assert refine_by_running(RESUMING_DISCHARGE, TWO.sizes, walks=8, length=60) is None


# ── Members of before, and members that resume ──────────────────────────────────────────────


@pytest.mark.timeout(600)
def test_members_that_cannot_resume_may_be_in_the_group() -> None:
    """A version at a time, in any order: nothing is broken that either version keeps alone."""
    mixed = together(RETURNING_HELD, RESUMING_HELD, "Member").spec

    found = explored(mixed, TWO)

    assert found.complete
    assert not found.violations
    assert not liveness(mixed, TWO.sizes, faults=0, bound=TWO.bound).violations


# ── It can fail ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name", ["adopts_meanwhile", pytest.param("resumes_too_late", marks=pytest.mark.long)]
)
def test_who_is_adopted_too_late_is_consumed_beside(name: str) -> None:
    """What is given away is still consumed: its owner's lease has ended, or it was not stopped."""
    flaw = RESUMING_FLAWS[name]
    assert flaw.sizes is not None

    found = explore(flaw.spec, flaw.sizes, faults=flaw.faults, bound=flaw.bound)

    ends = {n: (len(s.steps), s.steps[-1].action.name) for n, s in found.violations.items()}
    assert ends == {n: (f.steps, f.last) for n, f in flaw.failures.items()}
    assert "resume" in [step.action.name for step in found.violations["exclusive"].steps]


def test_who_is_adopted_in_another_generation_is_no_step_of_the_contract() -> None:
    """It would be counted as one that follows a Start which it has never seen."""
    mistaken = replace(RESUMING_REFINEMENT, concrete=ADOPTS_ANY_GENERATION)

    seen = refine_by_exploration(mistaken, TWO.sizes, faults=1, bound=TWO.bound)

    assert seen.exploration is not None
    [story] = seen.exploration.violations.values()
    assert story.steps[-1].action.name == "handle_resume"
