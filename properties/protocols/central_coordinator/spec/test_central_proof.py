"""
The central coordinator is proved, for any number of members, partitions and brokers.

With the assumption `lease` every promise is; without it all but two, which then fail. Every lemma
is needed: without it some step breaks something. That the lemmas hold in every state of a small
size is seen where those are explored (`test_central_coordinator.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from herdspec import Specification, require
from herdspec.check.exploration.exploration import Exploration
from herdspec.check.exploration.explore import explore
from herdspec.check.proof import induction, smtlib
from herdspec.check.proof.prove import Proof, Prover, SolverAnswer, provable, prove, prover_of
from herdspec.language.surface import Expectation
from herdspec.protocols.central_coordinator.mistakes import (
    accept_any_epoch,
    any_version,
    offsets_of_the_past,
    step_down_and_go_on,
    whatever_comes_last,
)
from herdspec.protocols.central_coordinator.properties import (
    CENTRAL_COORDINATOR,
    HELD,
    LEMMAS,
    LEMMAS_OF_THE_LEASE,
    OF_THE_LEASE,
    PROMISES,
    gone_at_once,
    without_lease,
)
from herdspec.protocols.central_coordinator.spec import CentralCoordinator, Member, Phase
from herdspec.protocols.election.spec import Broker

SPECS = {"with the lease": CENTRAL_COORDINATOR, "without": without_lease()}
PROVED = {
    "with the lease": {p.name for p in (*PROMISES, *LEMMAS, *LEMMAS_OF_THE_LEASE)},
    "without": {p.name for p in (*PROMISES, *LEMMAS)} - {p.name for p in OF_THE_LEASE},
}


@cache
def proof(name: str) -> Proof:
    """The proof of one of `SPECS`."""
    return prove(SPECS[name])


# ── It is proved ────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(300)  # half a minute of processor time, where others want it, too
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


@pytest.mark.timeout(300)  # it proves what the test before has not
@pytest.mark.parametrize("name", SPECS)
def test_nothing_is_left_out_of_the_proof(name: str) -> None:
    """Each promise and each lemma is asked of the initial states and of every action."""
    spec, found = SPECS[name].for_proof, proof(name)
    always = [p for p in provable(spec) if p.expectation is Expectation.ALWAYS]
    asked = {(o.promise, o.action) for o in found.obligations}

    assert {*found.promises} == PROVED[name]
    assert found.not_asked == ()
    assert {(p, a.name) for p in found.promises for a in spec.actions} <= asked
    assert {(p.name, start.name) for p in always for start in spec.starts} <= asked
    assert [start.name for start in spec.starts] == ["some_topics"]


def at_will(self: CentralCoordinator, m: Member) -> bool:
    """However many of its commits are under way."""
    return True


@pytest.mark.long
@pytest.mark.timeout(300)
def test_however_many_commits_are_under_way_it_is_proved() -> None:
    """That the last commit was read before the next one is sent, is a bound of explorations."""
    assert prove(CENTRAL_COORDINATOR.replace("AtWill", may_commit=at_will)).proved


# ── What it needs ───────────────────────────────────────────────────────────────────────────

NEEDED = {
    "epochs_are_won_by_one": ("only_the_present_epoch_writes", "serve_offsets"),
    "one_request_at_a_time": ("who_has_stopped_does_not_fetch", "handle_start"),
    "books_are_true": ("one_request_at_a_time", "send_stop"),
    "nobody_follows_an_older_epoch": ("members_follow_no_older_epoch", "handle_stop"),
    "who_does_not_lead_has_noted_nothing": ("one_write_at_a_time", "coordinator_startup"),
    "who_has_stopped_does_not_fetch": ("who_is_started_does_not_follow_yet", "serve_owners"),
    "offsets_are_of_finished_records": ("only_finished_is_committed", "serve_offsets"),
    "who_is_started_does_not_follow_yet": ("complete", "handle_start_response"),
    "one_write_at_a_time": ("what_is_missed_is_remembered", "coordinator_startup"),
    "what_is_missed_is_remembered": ("complete", "finish_rebalance"),
}
"""For each lemma what is no longer kept without it, and by which action."""
NEEDED_WITH_THE_LEASE = NEEDED | {
    "generations_have_been": ("nobody_goes_back", "send_start"),
    "nobody_goes_back": ("starts_are_told_once", "handle_register"),
    "starts_are_told_once": ("a_start_is_at_the_stored_offset", "serve_offsets"),
    "who_fetches_owns": ("exclusive", "handle_start"),
    "what_is_noted_is_its_owners": ("a_start_is_at_the_stored_offset", "serve_offsets"),
    "nobody_fetches_while_owners_are_written": ("who_fetches_owns", "serve_owners"),
}


def breaks(spec: Specification, lemma: str, promise: str, action: str) -> bool:
    """Whether, of a small size, some step breaks a promise where all but this lemma held."""
    spec = spec.for_proof
    prover = Prover(spec, [p for p in provable(spec) if p.name != lemma])
    step = next(a for a in spec.actions if a.name == action)
    return prover.shrunk(prover.after(step, spec.promise(promise)), None) is not None


def test_each_lemma_is_asked_whether_it_is_needed() -> None:
    """The tables name every lemma."""
    assert [*NEEDED] == [p.name for p in LEMMAS]
    assert [*NEEDED_WITH_THE_LEASE] == [p.name for p in (*LEMMAS, *LEMMAS_OF_THE_LEASE)]


@pytest.mark.parametrize("lemma", NEEDED_WITH_THE_LEASE)
def test_each_lemma_is_needed(lemma: str) -> None:
    """Without it a step breaks a promise or another lemma; with it, it does not."""
    promise, action = NEEDED_WITH_THE_LEASE[lemma]

    assert breaks(CENTRAL_COORDINATOR, lemma, promise, action)
    assert not breaks(CENTRAL_COORDINATOR, "", promise, action)


@pytest.mark.parametrize("lemma", NEEDED)
def test_each_lemma_is_needed_without_the_lease_too(lemma: str) -> None:
    """The variant has no lemma to spare either."""
    assert breaks(without_lease(), lemma, *NEEDED[lemma])


HARD = frozenset({
    "nobody_fetches_while_owners_are_written", "what_is_missed_is_remembered", "who_fetches_owns",
    "one_write_at_a_time", "offsets_are_of_finished_records", "starts_are_told_once",
    "who_has_stopped_does_not_fetch",
})  # fmt: skip
"""Promises that with few resources are not proved after every action."""


def test_models_settle_what_matching_drowns_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few resources each way of asking z3 proves what the other does not."""
    spec = CENTRAL_COORDINATOR.for_proof
    prover = prover_of(spec, resources=induction.AT_FIRST)
    kept = []
    for way in induction.WAYS:
        monkeypatch.setattr(induction, "WAYS", (way,))
        kept.append({q.name for q in prover.questions() if q.promise in HARD and prover.keeps(q)})

    by_models, by_matching = kept
    assert by_models - by_matching
    assert by_matching - by_models


# ── It can fail ─────────────────────────────────────────────────────────────────────────────


def reset_the_flag(self: CentralCoordinator, b: Broker) -> None:
    """{b} gives up, and resets the flag as if it were done."""
    require(self.phase[b] == Phase.STOPPING or self.phase[b] == Phase.STARTING)
    self.phase[b] = Phase.IDLE


MISTAKES: dict[str, tuple[dict[str, Callable[..., object]], str, str]] = {
    "no lease": (
        {"lease_is_over": gone_at_once},
        "nobody_fetches_while_owners_are_written",
        "write_owners",
    ),
    "no fence": (
        {"fenced_write": any_version},
        "only_the_present_epoch_writes",
        "serve_owners",
    ),
    "any epoch": (
        {"accepts": accept_any_epoch},
        "nobody_follows_an_older_epoch",
        "handle_register",
    ),
    "any offset": ({"accepts_offset": offsets_of_the_past}, "exclusive_fenced", "handle_commit"),
    "as it comes": (
        {"merged": whatever_comes_last},
        "committed_offsets_never_go_back",
        "serve_offsets",
    ),
    "deposed": (
        {"step_down": step_down_and_go_on},
        "who_does_not_lead_commands_nobody",
        "step_down",
    ),
    "given up": ({"fail_rebalance": reset_the_flag}, "complete", "fail_rebalance"),
}
"""Mistakes, and a promise or lemma that is not kept then, by which action."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_not_proved(name: str) -> None:
    """The obligation that the mistake concerns is refuted, with a counterexample to show."""
    functions, promise, action = MISTAKES[name]
    spec = CENTRAL_COORDINATOR.replace("Mistaken", **functions).for_proof
    step = next(a for a in spec.actions if a.name == action)
    answer = prover_of(spec).step(step, spec.promise(promise))

    assert answer.outcome is SolverAnswer.FAILED
    assert answer.counterexample is not None


# ── Without the lease ───────────────────────────────────────────────────────────────────────


def unleased(brokers: int, faults: int) -> Exploration:
    """All promises, without the assumption, at two members and one partition."""
    spec = HELD.replace("Unleased", lease_is_over=gone_at_once)
    sizes = {"Member": 2, "Partition": 1, "Broker": brokers}
    return explore(spec, sizes, faults=faults, bound=5 + faults)


def ends(found: Exploration) -> dict[str, tuple[int, str]]:
    """How long each story is, and its last action."""
    stories = found.violations.items()
    return {name: (len(s.steps), s.steps[-1].action.name) for name, s in stories}


def test_without_the_lease_two_members_consume_one_partition() -> None:
    """Ruling 2: who is given away before its lease is over fetches on, beside its successor."""
    assert ends(unleased(brokers=1, faults=1)) == {"exclusive": (26, "handle_start")}


@pytest.mark.long
def test_without_the_lease_a_start_of_the_past_is_at_an_offset_of_the_past() -> None:
    """A deposed coordinator's Start is overtaken by what its successor's members commit."""
    assert ends(unleased(brokers=2, faults=2)) == {
        "exclusive": (26, "handle_start"),
        "a_start_is_at_the_stored_offset": (32, "serve_offsets"),
    }


# ── A second opinion ────────────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SPECS)
def test_a_second_solver_agrees(name: str) -> None:
    """Of every obligation cvc5 says what z3 says, and gives up on none."""
    prover = prover_of(SPECS[name].for_proof)
    seconds = smtlib.recheck(prover, proof(name))

    assert seconds
    assert [s.script.name for s in seconds if not s.agrees] == []
