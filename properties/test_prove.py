"""The *prove* reading: induction for any number of elements, and what it says when it fails."""

from __future__ import annotations

from functools import cache

import pytest

from herdspec import (
    Nat,
    Sort,
    Spec,
    Specification,
    action,
    always,
    each,
    lemma,
    require,
    specification,
    step,
)
from herdspec.check.explore import explore
from herdspec.check.prove import RESOURCES, Obligation, Outcome, Proof, Prover, provable, prove
from herdspec.protocols.election_contract import CONTRACT, REFINEMENT
from herdspec.protocols.election_flaws import AT_ONCE, FLAWS
from herdspec.protocols.election_properties import ELECTION, LEMMAS
from properties.specs import (
    LOCK_SERVER,
    Client,
    LockServer,
    a_grant_takes_the_servers_lock,
    one_client_at_a_time,
)

BARE = specification(LockServer, one_client_at_a_time)


def failed(proof: Proof) -> list[Obligation]:
    """What was not proved."""
    return [o for o in proof.obligations if o.outcome is not Outcome.PROVED]


# ── A lock server ───────────────────────────────────────────────────────────────────────────


def test_a_lock_server_is_proved() -> None:
    """With its lemma, the lock server's promises hold for any number of clients."""
    proof = prove(LOCK_SERVER)

    assert proof.proved
    assert set(proof.promises) == {
        "one_client_at_a_time", "a_grant_takes_the_servers_lock", "the_lock_is_in_one_place"
    }  # fmt: skip
    assert len(proof.obligations) == 2 + 6 * 3


def test_the_property_alone_is_not_inductive() -> None:
    """Without its lemma the promise fails, and two states and their difference are shown."""
    (only,) = failed(prove(BARE))

    assert (only.promise, only.action) == ("one_client_at_a_time", "take")
    assert only.outcome is Outcome.FAILED
    shown = only.counterexample
    assert shown is not None
    assert shown.sizes == {"Client": 2}
    taker = shown.arguments["c"]
    (other,) = {"client1", "client2"} - {taker}
    assert (shown.before[f"granted[{taker}]"], shown.before[f"holds[{other}]"]) == ("True", "True")
    assert shown.lines[0] == f"a state with 2 clients, c = {taker}"
    assert shown.lines[-3:] == [
        "the step changes",
        f"    granted[{taker}]: True → False",
        f"    holds[{taker}]: False → True",
    ]


def test_a_step_promise_is_proved_for_the_step_that_it_is_about() -> None:
    """A promise about steps is asked of each action; it needs nothing of the initial state."""
    proof = prove(specification(LockServer, a_grant_takes_the_servers_lock))

    assert proof.proved
    assert [o.action for o in proof.obligations] == [a.name for a in LOCK_SERVER.actions]


def test_a_step_promise_that_fails_shows_the_step() -> None:
    """A promise about steps that some step breaks fails for that action alone."""

    @step
    def nobody_takes_it(before: LockServer, after: LockServer) -> bool:
        """Nobody takes it."""
        return all(before.holds[c] or not after.holds[c] for c in Client)

    assert [o.action for o in failed(prove(specification(LockServer, nobody_takes_it)))] == ["take"]


def test_a_step_promise_about_the_state_before_is_asked_too() -> None:
    """A promise about steps that names only the state before is no hypothesis of itself."""

    @step
    def it_was_free(before: LockServer, after: LockServer) -> bool:
        """The server had the lock."""
        return before.free

    assert prove(specification(LockServer, it_was_free)).of("it_was_free") is Outcome.FAILED


# ── What is not known is said ───────────────────────────────────────────────────────────────


def test_what_z3_gives_up_is_unknown() -> None:
    """With hardly any resources nothing is proved, nothing is refuted, and the reason is told."""
    proof = prove(LOCK_SERVER, resources=1)

    assert not proof.proved
    assert proof.of("one_client_at_a_time") is Outcome.UNKNOWN
    assert {o.outcome for o in failed(proof)} == {Outcome.UNKNOWN}
    assert all(o.reason for o in failed(proof))


def test_a_contradiction_is_reported_as_vacuous() -> None:
    """A lemma that nothing satisfies would prove anything: every action is reported as vacuous."""

    @lemma
    def it_is_here_and_not_here(s: LockServer) -> bool:
        """The server has the lock, and has it not."""
        return s.free and not s.free

    proof = prove(BARE.with_properties(it_is_here_and_not_here))

    assert proof.of("one_client_at_a_time") is Outcome.PROVED
    assert proof.vacuous == [a.name for a in BARE.actions]
    assert not proof.proved


def test_an_action_that_the_lemmas_exclude_is_vacuous() -> None:
    """An action that no state allows that keeps the lemmas is reported, and only that one."""

    @lemma
    def nobody_holds_it(s: LockServer) -> bool:
        """Nobody holds the lock."""
        return not any(s.holds[c] for c in Client)

    assert prove(BARE.with_properties(nobody_holds_it)).vacuous == ["give_back"]


class Peer(Sort):
    """One of many."""


class Quorum(Spec):
    """It takes four."""

    done: bool = False
    n: Nat = 0
    last: Nat | None = None
    agrees: dict[Peer, bool] = each(False)

    @action
    def agree(self, a: Peer) -> None:
        """{a} agrees."""
        self.agrees[a] = True

    @action
    def finish(self, a: Peer, b: Peer, c: Peer, d: Peer) -> None:
        """Four that agree finish."""
        require(a != b and a != c and a != d and b != c and b != d and c != d)
        require(self.agrees[a] and self.agrees[b] and self.agrees[c] and self.agrees[d])
        self.done = True
        self.last = self.n

    @action
    def set_flag(self, done: bool) -> None:
        """A parameter with the name of a field."""
        require(done and not self.done)
        self.n = self.n + 1


@always
def one_agrees_when_it_is_done(s: Quorum) -> bool:
    """Whoever finished had agreed."""
    return not s.done or any(s.agrees[x] for x in Peer)


def test_an_action_that_takes_many_is_not_vacuous() -> None:
    """An action for which four are needed is possible, though small models have three at most."""
    proof = prove(specification(Quorum, one_agrees_when_it_is_done))

    assert proof.proved
    assert not proof.vacuous


def test_numbers_are_not_negative() -> None:
    """No counterexample has a number below zero, also where it may be absent."""

    @always
    def none_is_negative(s: Quorum) -> bool:
        """The last number is one of those that there have been."""
        return s.last is None or s.last != s.n + 1

    @step
    def numbers_grow(before: Quorum, after: Quorum) -> bool:
        """A number is never above one that comes later."""
        return before.n <= after.n

    proof = prove(specification(Quorum, none_is_negative, numbers_grow))

    assert proof.of("numbers_grow") is Outcome.PROVED
    shown = [o.counterexample for o in failed(proof) if o.counterexample]
    assert not any("-" in value for c in shown for value in [*c.before.values(), *c.after.values()])


def test_a_parameter_is_not_the_field_of_its_name() -> None:
    """A parameter that is named as a field is another thing in a proof too."""

    @step
    def it_counts_only_when_done(before: Quorum, after: Quorum) -> bool:
        """It counts only when it is done (it counts when it is not)."""
        return before.n == after.n or before.done

    (only,) = failed(prove(specification(Quorum, it_counts_only_when_done)))

    assert only.action == "set_flag"


def test_the_initial_state_is_asked_too() -> None:
    """An invariant that does not hold at the start fails there, and a state is shown."""

    @always
    def somebody_asks(s: LockServer) -> bool:
        """Somebody asks."""
        return any(s.asked[c] for c in Client)

    first = failed(prove(specification(LockServer, somebody_asks)))[0]

    assert first.action is None
    assert first.counterexample is not None
    assert first.counterexample.before["asked[client1]"] == "False"


# ── The election ────────────────────────────────────────────────────────────────────────────


@cache
def election() -> Proof:
    """The proof of the election, without what is known to fail."""
    return prove(ELECTION, leave_out=frozenset(AT_ONCE))


def breakers(promise: str, spec: Specification, *without: str) -> set[str]:
    """The actions that break a promise of a spec if these are no hypotheses."""
    prover = Prover(spec, [p for p in provable(spec) if p.name not in without], RESOURCES)
    found = [prover.step(action, spec.promise(promise)) for action in spec.actions]
    return {o.action or "" for o in found if o.outcome is Outcome.FAILED}


def test_the_election_is_proved_for_any_number_of_brokers() -> None:
    """Every promise and every lemma of the verified election is inductive, and none is vacuous."""
    proof = election()

    assert proof.proved
    assert not failed(proof)
    assert len(proof.promises) == 7 + len(LEMMAS)
    assert len(proof.obligations) == 9 + 29 * 13


def test_one_coordinator_at_a_time_is_not_inductive() -> None:
    """What nobody can promise without clocks fails, by the steps that make a second one lead."""
    assert breakers("one_coordinator_at_a_time", ELECTION) == {"handle_create", "handle_recall"}


NEEDED = {
    "no_epoch_is_given_to_two": {"one_coordinator_per_epoch"},
    "the_present_epoch_is_its_winners": {
        "only_the_present_epoch_writes",
        "a_broker_deletes_only_its_own_node",
    },
    "epochs_given_have_been": {
        "epochs_begin_at_one",
        "no_epoch_is_given_to_two",
        "the_present_epoch_is_its_winners",
    },
    "epochs_begin_at_one": {
        "one_coordinator_per_epoch",
        "tokens_grow",
        "a_broker_deletes_only_its_own_node",
    },
    "who_is_not_connected_asks_nothing": {
        "only_who_is_sure_leads",
        "no_epoch_is_given_to_two",
        "what_it_is_told_of_its_node_is_true",
    },
    "what_it_is_told_of_its_node_is_true": set(),
}
"""What is not inductive without each lemma; the last one is the refinement's (`test_refine`)."""


def test_every_lemma_is_accounted_for() -> None:
    """The table of what each lemma is needed for names all lemmas."""
    assert set(NEEDED) == {promise.name for promise in LEMMAS}


@pytest.mark.parametrize("without", [name for name, broken in NEEDED.items() if broken])
def test_no_lemma_can_be_left_out(without: str) -> None:
    """Each lemma is needed: without it, some promise or other lemma is not inductive."""
    for promise in NEEDED[without]:
        assert breakers(promise, ELECTION, without, *AT_ONCE), promise


def test_what_is_proved_holds_in_every_state_of_a_small_size() -> None:
    """Two brokers and two faults: exploration finds no state that breaks what was proved."""
    found = explore(ELECTION, {"Broker": 2}, faults=2)

    assert found.complete
    assert not set(election().promises) & found.violations.keys()


def test_a_flaw_is_not_proved() -> None:
    """The unfenced write fails in the proof as it does in exploration, by the same action."""
    spec = FLAWS["unfenced_write"].spec

    assert breakers("only_the_present_epoch_writes", spec, *AT_ONCE) == {"write"}


def test_the_contract_is_proved() -> None:
    """The contract of elections keeps its own promises, for any number of brokers."""
    proof = prove(CONTRACT)

    assert proof.proved
    assert len(proof.obligations) == 3 + 6 * 4
    assert REFINEMENT.abstract is CONTRACT
