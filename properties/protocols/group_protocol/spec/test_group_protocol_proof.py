"""
The group protocol is proved, and proved and seen to keep its contract.

With the assumption `evicted_has_stopped` every promise is proved, for any number of members,
partitions and brokers; without it, all but two, which then fail. Every lemma is needed.
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
from herdspec.protocols.group_protocol.flaws import FOUND, KAFKAS, PRINTED
from herdspec.protocols.group_protocol.plan import BOUND
from herdspec.protocols.group_protocol.properties import (
    GROUP_PROTOCOL,
    LEMMAS,
    LEMMAS_OF_STOPPING,
    OF_STOPPING,
    PROMISES,
    gone_at_once,
    without_stopping,
)
from herdspec.protocols.group_protocol.refinement import (
    REFINEMENT,
    REFINEMENT_FENCED,
    REFINEMENT_FENCED_ALONE,
)
from herdspec.protocols.group_protocol.seen import SEEN_LEMMAS, SEEN_LEMMAS_OF_STOPPING
from herdspec.protocols.group_protocol.spec import GroupProtocol
from herdspec.protocols.group_protocol.stored_members import (
    SHOWN_BY_THE_PROTOCOL,
    STORED_MEMBERS,
    STORED_MEMBERS_FENCED,
)
from properties.protocols.varied import breaks, changed

SPECS = {"with the assumption": GROUP_PROTOCOL, "without": without_stopping()}
KEPT = {
    "with the assumption": {p.name for p in (*PROMISES, *LEMMAS, *LEMMAS_OF_STOPPING)},
    "without": {p.name for p in (*PROMISES, *LEMMAS) if p not in OF_STOPPING},
}
ALL_FLAWS: dict[str, Flaw] = {**PRINTED, **KAFKAS, **FOUND}


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


def test_without_the_assumption_what_the_two_promises_need_fails() -> None:
    """Where the evicted may consume on, it has what is not its own any more."""
    (needed,) = LEMMAS_OF_STOPPING
    spec = GROUP_PROTOCOL.replace("AtOnce", has_stopped=gone_at_once)

    assert breaks(spec, "", needed.name, "expire")
    assert not breaks(GROUP_PROTOCOL, "", needed.name, "expire")


NEEDED = {
    "epochs_are_won_by_one": ("one_coordinator", "load_group"),
    "memory_is_a_coordinators": ("nobody_is_expelled_who_waits", "load_group"),
    "each_answer_is_awaited": ("a_start_is_at_the_stored_offset", "answer_syncs"),
    "generations_have_been": ("generations_never_go_back", "on_join_leader"),
    "each_generation_has_one_leader": ("one_leader", "on_join_leader"),
    "each_state_has_its_members": ("complete", "answer_syncs"),
    "each_state_has_its_write": ("what_is_given_is_owned", "answer_syncs"),
    "all_wait_while_the_generation_is_stored": (
        "what_was_taken_is_stored_at_the_handover",
        "store_generation",
    ),
    "what_is_listed_is_owned": ("complete", "answer_syncs"),
    "offsets_are_of_finished_records": ("only_finished_is_committed", "store_offsets"),
    "who_has_its_assignment_has_all_of_it": ("owners_are_ahead", "commit"),
    "owners_are_ahead": ("committed_offsets_never_go_back", "store_offsets"),
    "what_is_given_is_owned": ("who_consumes_owns", "store_assignment"),
}
"""For each lemma what is no longer kept without it, and by which action."""


def test_each_lemma_is_asked_whether_it_is_needed() -> None:
    """The table names every lemma."""
    assert [*NEEDED] == [p.name for p in (*LEMMAS, *LEMMAS_OF_STOPPING)]


@pytest.mark.parametrize("lemma", NEEDED)
def test_each_lemma_is_needed(lemma: str) -> None:
    """Without it a step breaks a promise or another lemma; with it, it does not."""
    promise, action = NEEDED[lemma]

    assert breaks(GROUP_PROTOCOL, lemma, promise, action)
    assert not breaks(GROUP_PROTOCOL, "", promise, action)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SPECS)
def test_a_second_solver_agrees(name: str) -> None:
    """Of every obligation cvc5 says what z3 says, and gives up on none."""
    seconds = smtlib.recheck(prover_of(SPECS[name]), proof(name))

    assert seconds
    assert [s.script.name for s in seconds if not s.agrees] == []


# ── It keeps its contract ───────────────────────────────────────────────────────────────────

FORMS = {"strict": REFINEMENT, "fenced": REFINEMENT_FENCED}


@pytest.mark.parametrize("form", FORMS)
def test_every_step_is_proved_to_be_one_of_the_contract(form: str) -> None:
    """For any size; the lemmas of what is seen are proved with all the others."""
    found = refine_by_proof(FORMS[form])

    assert [o.action for o in found.obligations if o.outcome is not SolverAnswer.PROVED] == []
    assert found.given == ()


@pytest.mark.long
@pytest.mark.parametrize("lemma", [p.name for p in (*SEEN_LEMMAS, *SEEN_LEMMAS_OF_STOPPING)])
def test_each_lemma_of_what_is_seen_is_needed(lemma: str) -> None:
    """Without it a step is not proved to be one of the contract's."""
    found = refine_by_proof(REFINEMENT, leave_out=frozenset({lemma}), assume=True)

    assert any(o.outcome is not SolverAnswer.PROVED for o in found.obligations)


def seen(through: Refinement, brokers: int, members: int, faults: int) -> Exploration:
    """A refinement, looked at with one partition."""
    sizes = {"Broker": brokers, "Member": members, "Partition": 1}
    found = refine_by_exploration(through, sizes, faults=faults, bound=BOUND).exploration
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("through", "brokers", "faults", "size"),
    [
        pytest.param(REFINEMENT, 2, 1, (1_234_209, 3_171_950), id="strict"),
        pytest.param(REFINEMENT_FENCED, 2, 1, None, id="fenced"),
        pytest.param(
            REFINEMENT_FENCED_ALONE,
            1,
            2,
            (11_653_130, 32_892_478),
            marks=[pytest.mark.long, pytest.mark.timeout(900)],
            id="fenced, two faults",
        ),
        pytest.param(
            REFINEMENT_FENCED,
            2,
            2,
            None,
            marks=[pytest.mark.long, pytest.mark.timeout(900)],
            id="fenced, two brokers and two faults",
        ),
    ],
)
def test_every_step_is_one_of_the_contract(
    through: Refinement, brokers: int, faults: int, size: tuple[int, int] | None
) -> None:
    """Seen with two members, whatever happens; states and steps are pinned that the page tells."""
    found = seen(through, brokers, 2, faults)

    assert not found.violations
    assert not found.missing
    assert found.complete
    assert size in (None, (found.states, found.generated))


@pytest.mark.parametrize("through", [REFINEMENT, REFINEMENT_FENCED], ids=["strict", "fenced"])
def test_the_plain_python_refines_too(through: Refinement) -> None:
    """On random walks, every step of the protocol's own Python is one of the contract's."""
    sizes = {"Broker": 2, "Member": 2, "Partition": 2}

    assert refine_by_running(through, sizes, walks=4, length=30) is None


@pytest.mark.parametrize(
    "contract", [STORED_MEMBERS, STORED_MEMBERS_FENCED], ids=["strict", "fenced"]
)
def test_the_contract_of_stored_members_is_proved(contract: Specification) -> None:
    """Whoever keeps it owes nobody anything of its sentences."""
    assert prove(contract).proved


def test_no_sentence_of_the_contract_is_lost() -> None:
    """Each is kept under its name, or is asked of the protocol itself."""
    kept, known = ({p.name for p in spec.properties} for spec in (STORED_MEMBERS, CONTRACT))

    assert known - kept == SHOWN_BY_THE_PROTOCOL
    assert {p.name for p in GROUP_PROTOCOL.properties} >= {"complete", "settles"}


# ── What does not ───────────────────────────────────────────────────────────────────────────

ENDS: dict[str, str | None] = {
    "join_future_never_reset": None,
    "errors_complete_nothing": None,
    "rejoin_flag_lost": "update_metadata",
    "ghost_member": "handle_join_group",
    "leave_while_processing": "poll_time_out",
    "joins_with_partitions": "initiate_join_group",
    "commit_by_generation": "handle_offset_commit",
    "generation_unstored": "load_group",
    "evicted_goes_on": "update_fetch_positions",
    "expels_who_waits": None,
    "new_member_expires": "expire_new_member",
    "unfenced": "store_generation",
    "late_join": "update_fetch_positions",
}
"""The last action of the shortest story that the refinement alone finds; None: there is none."""


@pytest.mark.parametrize("name", ENDS)
def test_a_flaw_does_not_refine_the_contract(name: str) -> None:
    """The refinement finds it without any of the protocol's own properties; or it cannot."""
    flaw = ALL_FLAWS[name]
    assert flaw.sizes is not None
    spec = changed(REFINEMENT.concrete, flaw.spec, GroupProtocol)
    actions = {k: v for k, v in REFINEMENT.actions.items() if k in {a.name for a in spec.actions}}
    through = replace(REFINEMENT, concrete=spec, actions=actions)
    found = seen(through, flaw.sizes["Broker"], flaw.sizes["Member"], min(flaw.faults, 1))
    story = found.violations.get("refines")

    assert (story.steps[-1].action.name if story else None) == ENDS[name]


def test_every_flaw_is_asked() -> None:
    """The table names every flaw."""
    assert {*ENDS} == {*ALL_FLAWS}
