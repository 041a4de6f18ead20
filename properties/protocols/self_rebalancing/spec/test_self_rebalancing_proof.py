"""
The self-rebalancing consumers are proved, and so is that they keep their contract.

With the assumption `session_lease` every promise is proved, for any number of members and
partitions, and whatever they plan; without it, all but two, which then fail. Every lemma is needed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from herdspec import Specification
from herdspec.check.exploration.exploration import Exploration
from herdspec.check.proof import smtlib
from herdspec.check.proof.prove import Proof, SolverAnswer, provable, prove, prover_of
from herdspec.check.refinement.refine import (
    Refinement,
    refine_by_exploration,
    refine_by_proof,
    refine_by_running,
)
from herdspec.language.surface import Expectation
from herdspec.protocols.contract.properties import CONTRACT
from herdspec.protocols.flaws import Flaw
from herdspec.protocols.self_rebalancing.complete import IN_ANY_ORDER
from herdspec.protocols.self_rebalancing.contract import (
    CLAIMED,
    CLAIMED_FENCED,
    NOT_MODELLED,
    SHOWN_BY_THE_PROTOCOL,
    WITHOUT_MEANING,
)
from herdspec.protocols.self_rebalancing.flaws import FLAWS, FOUND, READINGS
from herdspec.protocols.self_rebalancing.lemmas import what_is_owned_was_planned
from herdspec.protocols.self_rebalancing.properties import (
    LEMMAS,
    OF_THE_LEASE,
    PROMISES,
    PROVED,
    session_ends_at_will,
    without_lease,
)
from herdspec.protocols.self_rebalancing.refinement import REFINEMENT, REFINEMENT_FENCED
from herdspec.protocols.self_rebalancing.spec import SelfRebalancing
from properties.protocols.varied import breaks, changed

SPECS = {"with the lease": PROVED, "without": without_lease()}
KEPT = {
    "with the lease": {p.name for p in (*PROMISES, *LEMMAS)},
    "without": {p.name for p in (*PROMISES, *LEMMAS)} - {p.name for p in OF_THE_LEASE},
}
FORMS = {"strict": REFINEMENT, "fenced": REFINEMENT_FENCED}
ALL_FLAWS: dict[str, Flaw] = {**FLAWS, **READINGS, **FOUND}


@cache
def proof(name: str) -> Proof:
    """The proof of one of `SPECS`."""
    return prove(SPECS[name])


# ── It is proved ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", SPECS)
def test_it_is_proved_for_any_size(name: str) -> None:
    """Each obligation is proved, no action is vacuous, and z3 is given nothing that runs round."""
    found = proof(name)

    assert [
        (o.promise, o.action) for o in found.obligations if o.outcome is not SolverAnswer.PROVED
    ] == []
    assert (found.vacuous, found.unsure, found.begins) == ([], [], SolverAnswer.PROVED)
    assert found.proved
    assert found.warnings == ()


@pytest.mark.parametrize("name", SPECS)
def test_nothing_is_left_out_of_the_proof(name: str) -> None:
    """Each promise and each lemma is asked of the initial states and of every action."""
    spec, found = SPECS[name], proof(name)
    always = [p for p in provable(spec) if p.expectation is Expectation.ALWAYS]
    asked = {(o.promise, o.action) for o in found.obligations}

    assert {*found.promises} == KEPT[name]
    assert found.not_asked == ()
    assert {(p, a.name) for p in found.promises for a in spec.actions} <= asked
    assert {(p.name, start.name) for p in always for start in spec.starts} <= asked


def test_without_the_lease_two_promises_fail() -> None:
    """A session that ends at will breaks the one from which the other follows, and no more."""
    spec = PROVED.replace("AtWill", lease_is_over=session_ends_at_will)
    failed = [o for o in prove(spec).obligations if o.outcome is not SolverAnswer.PROVED]

    assert [(o.promise, o.action) for o in failed] == [("who_fetches_owns", "expire")]


NEEDED = {
    "tokens_are_of_claims": ("exclusive_fenced", "commit_offsets"),
    "owner_nodes_are_of_sessions": ("who_owns_is_not_deleted_by_others", "shutdown"),
    "what_is_claimed_is_owned": ("a_start_is_at_the_stored_offset", "start_fetchers"),
    "each_phase_has_its_beliefs": ("what_is_claimed_is_owned", "register"),
    "who_holds_a_partition_is_ahead": ("committed_offsets_never_go_back", "commit_offsets"),
}
"""For each lemma what is no longer kept without it, and by which action."""


def test_each_lemma_is_asked_whether_it_is_needed() -> None:
    """The table names every lemma but the one that the refinement alone needs."""
    assert [*NEEDED, what_is_owned_was_planned.name] == [p.name for p in LEMMAS]


@pytest.mark.parametrize("lemma", NEEDED)
def test_each_lemma_is_needed(lemma: str) -> None:
    """Without it a step breaks a promise or another lemma; with it, it does not."""
    promise, action = NEEDED[lemma]

    for spec in SPECS.values():
        assert breaks(spec, lemma, promise, action)
        assert not breaks(spec, "", promise, action)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SPECS)
def test_a_second_solver_agrees(name: str) -> None:
    """Of every obligation cvc5 says what z3 says, and gives up on none."""
    seconds = smtlib.recheck(prover_of(SPECS[name]), proof(name))

    assert seconds
    assert [s.script.name for s in seconds if not s.agrees] == []


def test_who_is_first_pulls_whoever_is_first() -> None:
    """Sentence 5, as far as it is proved: in any order of any number of threads."""
    found = prove(IN_ANY_ORDER)

    assert found.proved
    assert (found.vacuous, found.unsure) == ([], [])


@pytest.mark.parametrize(
    ("lemma", "action"),
    [
        ("a_plan_is_of_what_there_is", "appear"),
        ("who_rests_pulls_what_it_planned", "start_fetchers"),
    ],
)
def test_a_lemma_of_completeness_is_needed(lemma: str, action: str) -> None:
    """Without it this step may leave whoever is first without its partition."""
    assert breaks(IN_ANY_ORDER, lemma, "who_is_first_pulls", action)


# ── It keeps its contract ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", FORMS)
def test_every_step_is_one_of_the_contract(form: str) -> None:
    """Proved for any number of members and partitions, and seen at two members."""
    proved = refine_by_proof(FORMS[form], assume=True)
    seen = explored(FORMS[form], 1)

    assert [o.action for o in proved.obligations if o.outcome is not SolverAnswer.PROVED] == []
    assert not seen.violations
    assert not seen.missing
    assert seen.complete


def explored(through: Refinement, faults: int) -> Exploration:
    """A refinement, looked at with two members and one partition."""
    sizes = {"Member": 2, "Partition": 1, "Broker": 1}
    found = refine_by_exploration(through, sizes, faults=faults, bound=8).exploration
    assert found is not None
    return found


@pytest.mark.parametrize("form", FORMS)
def test_the_plain_python_refines_too(form: str) -> None:
    """On random walks, every step of the consumers' own Python is one of the contract's."""
    sizes = {"Member": 2, "Partition": 2, "Broker": 1}

    assert refine_by_running(FORMS[form], sizes, walks=4, length=30) is None


@pytest.mark.parametrize("form", FORMS)
def test_the_lemma_that_no_promise_needs_is_needed_for_the_contract(form: str) -> None:
    """Without it a release might forget a node, which is no step of the contract."""
    without = frozenset({what_is_owned_was_planned.name})
    found = refine_by_proof(FORMS[form], leave_out=without, assume=True)

    assert "release" in {
        o.action for o in found.obligations if o.outcome is not SolverAnswer.PROVED
    }


@pytest.mark.parametrize("contract", [CLAIMED, CLAIMED_FENCED], ids=["strict", "fenced"])
def test_the_contract_without_a_coordinator_is_proved(contract: Specification) -> None:
    """Whoever keeps it owes nobody anything of its sentences."""
    assert prove(contract).proved


def test_no_sentence_of_the_contract_is_lost() -> None:
    """Each is kept under its name, has no meaning here, or is asked of the protocol itself."""
    kept, known = ({p.name for p in spec.properties} for spec in (CLAIMED, CONTRACT))

    assert known - kept == WITHOUT_MEANING | SHOWN_BY_THE_PROTOCOL | NOT_MODELLED
    assert {p.name for p in ALL_FLAWS["split_brain"].spec.properties} >= SHOWN_BY_THE_PROTOCOL


# ── What does not ───────────────────────────────────────────────────────────────────────────

ENDS: dict[str, str | None] = {
    "split_brain": "expire",
    "stale_start": "start_fetchers",
    "zombie_commit": "commit_offsets",
    "zombie_release": "release",
    "lost_wake_up": None,
    "retries_exhausted": None,
    "self_conflict": None,
    "fetched_for_consumed": "shutdown",
    "released_before_stopped": "release",
    "pulled_before_owned": "start_fetchers",
    "no_commit_at_closing": None,
    "registry_before_owners": "release",
    "new_session_goes_on": "start_fetchers",
    "suspended_for_good": None,
}
"""The last action of the shortest story that the refinement alone finds; None: it only hangs."""


@pytest.mark.parametrize("name", ENDS)
def test_a_flaw_does_not_refine_the_contract(name: str) -> None:
    """The refinement finds it without any of the protocol's own properties; or it only hangs."""
    flaw = ALL_FLAWS[name]
    spec = changed(REFINEMENT.concrete, flaw.spec, SelfRebalancing)
    actions = {k: v for k, v in REFINEMENT.actions.items() if k in {a.name for a in spec.actions}}
    found = explored(replace(REFINEMENT, concrete=spec, actions=actions), flaw.faults)
    story = found.violations.get("refines")

    assert (story.steps[-1].action.name if story else None) == ENDS[name]


def test_every_flaw_is_asked() -> None:
    """But for the herd, which is of the corrected protocol; sharers need a second partition."""
    assert {*ENDS} == {*ALL_FLAWS} - {"herd_effect", "sharers_not_dragged_in"}
