"""The *prove* reading: induction for any number of elements, and what it says when it fails."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import pytest

from herdspec import (
    Nat,
    Sort,
    Spec,
    Specification,
    UpTo,
    UsageError,
    action,
    always,
    axiom,
    each,
    initial,
    lemma,
    require,
    specification,
    step,
)
from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED
from herdspec.check.exploration.explore import explore
from herdspec.check.proof.proof_verdict import proved
from herdspec.check.proof.prove import (
    DEFINED,
    RESOURCES,
    Obligation,
    Proof,
    Prover,
    SolverAnswer,
    provable,
    prove,
)
from herdspec.check.verdict import Mark, Standing, standing_of
from herdspec.protocols.election.contract import CONTRACT
from herdspec.protocols.election.flaws import AT_ONCE, FLAWS
from herdspec.protocols.election.properties import ELECTION, LEMMAS, SHAPE
from herdspec.protocols.election.refinement import REFINEMENT
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
    return [o for o in proof.obligations if o.outcome is not SolverAnswer.PROVED]


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
    assert only.outcome is SolverAnswer.FAILED
    shown = only.counterexample
    assert shown is not None
    assert shown.sizes == {"Client": 2}
    taker = shown.arguments["c"]
    (other,) = {"client1", "client2"} - {taker}
    assert (shown.before[f"granted[{taker}]"], shown.before[f"holds[{other}]"]) == ("True", "True")
    assert shown.lines[0] == f"a state with 2 clients, c = {taker}"
    changed = {entry for entry, value in shown.before.items() if value != "False"}
    assert changed == {"free", f"granted[{taker}]", f"holds[{other}]"}, "no more than is needed"
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

    assert prove(specification(LockServer, it_was_free)).of("it_was_free") is SolverAnswer.FAILED


# ── What is not known is said ───────────────────────────────────────────────────────────────


def test_what_z3_gives_up_is_unknown() -> None:
    """With hardly any resources nothing is proved, nothing is refuted, and the reason is told."""
    proof = prove(LOCK_SERVER, resources=1)

    assert not proof.proved
    assert proof.of("one_client_at_a_time") is SolverAnswer.UNKNOWN
    assert {o.outcome for o in failed(proof)} == {SolverAnswer.UNKNOWN}
    assert all(o.reason for o in failed(proof))


def test_a_contradiction_is_reported_as_vacuous() -> None:
    """A lemma that nothing satisfies would prove anything: every action is reported as vacuous."""

    @lemma
    def it_is_here_and_not_here(s: LockServer) -> bool:
        """The server has the lock, and has it not."""
        return s.free and not s.free

    proof = prove(BARE.with_properties(it_is_here_and_not_here))

    assert proof.of("one_client_at_a_time") is SolverAnswer.PROVED
    assert proof.vacuous == [a.name for a in BARE.actions]
    assert proof.contradiction == ("it_is_here_and_not_here",)
    assert not proof.proved
    assert "no state keeps all of it_is_here_and_not_here" in notes(proof)


def test_lemmas_that_contradict_each_other_are_named() -> None:
    """Two lemmas that no state keeps both of are named; a third one is not."""

    @lemma
    def somebody_holds_it(s: LockServer) -> bool:
        """Somebody holds the lock."""
        return any(s.holds[c] for c in Client)

    @lemma
    def nobody_does(s: LockServer) -> bool:
        """Nobody holds the lock."""
        return not any(s.holds[c] for c in Client)

    proof = prove(BARE.with_properties(somebody_holds_it, nobody_does))

    assert set(proof.contradiction) == {"somebody_holds_it", "nobody_does"}


def test_an_action_that_z3_cannot_judge_is_unknown_not_vacuous() -> None:
    """Where z3 gives up on an action, nobody says that it is impossible: the answer is unknown."""
    proof = prove(LOCK_SERVER, resources=1)
    findings = proved("lock", proof)

    assert not proof.vacuous
    assert proof.unsure == [a.name for a in LOCK_SERVER.actions]
    assert not proof.proved
    assert findings[-1].mark is Mark.UNKNOWN
    assert standing_of(findings) is Standing.UNKNOWN


def notes(proof: Proof) -> set[str]:
    """What verdicts say beside a proof."""
    return {f.note for f in proved("spec", proof)}


def test_an_action_that_the_lemmas_exclude_is_vacuous() -> None:
    """An action that no state allows that keeps the lemmas is reported, and only that one."""

    @lemma
    def nobody_holds_it(s: LockServer) -> bool:
        """Nobody holds the lock."""
        return not any(s.holds[c] for c in Client)

    assert prove(BARE.with_properties(nobody_holds_it)).vacuous == ["give_back"]


class Lamp(Spec):
    """A lamp that nobody can light."""

    lit: bool = False

    @action
    def flicker(self) -> None:
        """It flickers, where it is lit."""
        require(self.lit)


@always
def it_is_dark(s: Lamp) -> bool:
    """The lamp is not lit."""
    return not s.lit


def test_a_system_that_cannot_move_is_not_proved() -> None:
    """Where every obligation holds because no step is possible, nothing is proved."""
    proof = prove(specification(Lamp, it_is_dark))

    assert not failed(proof)
    assert proof.vacuous == ["flicker"]
    assert not proof.proved
    assert standing_of(proved("lamp", proof)) is Standing.FAILS


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

    assert proof.of("numbers_grow") is SolverAnswer.PROVED
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


class Poll(Spec):
    """Somebody counts, and nobody looks at the count."""

    agrees: dict[Peer, bool] = each(True)
    sum: Nat = 0
    open: bool = True

    @action
    def count(self) -> None:
        """It is counted who agrees."""
        require(self.open)
        self.sum = sum(1 for x in Peer if self.agrees[x])
        self.open = False


@always
def it_stays_open(s: Poll) -> bool:
    """The poll stays open (it does not)."""
    return s.open


@always
def the_sum_is_small(s: Poll) -> bool:
    """The sum is at most two (there may be more)."""
    return s.sum <= 2


def test_a_count_that_no_promise_speaks_of_is_no_obstacle() -> None:
    """An action that counts is refused only where a promise is about the count."""
    (only,) = failed(prove(specification(Poll, it_stays_open)))

    assert only.counterexample is not None
    assert only.counterexample.after["sum"] in ("0", "1")
    with pytest.raises(UsageError, match="no meaning for any number of elements"):
        prove(specification(Poll, the_sum_is_small))


# ── Initial states, axioms, definedness ─────────────────────────────────────────────────────


class Site(Sort):
    """Somewhere."""


class Walk(Spec):
    """Somebody walks along roads that never change."""

    road: dict[tuple[Site, Site], bool] = each(False)
    home: Site | None = None
    at: Site | None = None
    steps: Annotated[Nat, UpTo(2)] = 0

    @initial
    def begin(self, road: dict[tuple[Site, Site], bool], home: Site) -> None:
        """Any roads, and any home."""
        self.road = road
        self.home = home
        self.at = home

    @action
    def walk(self, a: Site, b: Site) -> None:
        """From {a} to {b}."""
        require(self.at == a and self.road[a, b] and self.steps < 2)
        self.at = b
        self.steps = self.steps + 1

    @action
    def go_home(self) -> None:
        """Home, whatever the roads."""
        require(self.at is not None)
        self.at = self.home


@axiom
def roads_lead_both_ways(s: Walk) -> bool:
    """Every road leads both ways."""
    return all(not s.road[a, b] or s.road[b, a] for a in Site for b in Site)


@always
def it_is_somewhere(s: Walk) -> bool:
    """It is at some place."""
    return s.at is not None and s.home is not None


@always
def whoever_stays_is_home(s: Walk) -> bool:
    """Before the first step it is at home."""
    return s.steps > 0 or s.at == s.home


@step
def there_is_a_way_back(before: Walk, after: Walk) -> bool:
    """Wherever it walks to, a road leads back (or it has gone home)."""
    return after.at == after.home or all(
        before.at != a or after.at != b or after.road[b, a] for a in Site for b in Site
    )


WALK = (roads_lead_both_ways, it_is_somewhere, whoever_stays_is_home, there_is_a_way_back)


def test_initial_methods_begin_and_axioms_are_assumed() -> None:
    """What holds after each initial method, and is kept, is proved; axioms are not asked."""
    proof = prove(specification(Walk, *WALK))

    assert proof.proved
    assert "roads_lead_both_ways" not in proof.promises
    assert [o.action for o in proof.obligations if o.promise == "it_is_somewhere"] == [
        "begin", "walk", "go_home"
    ]  # fmt: skip


def test_without_the_axiom_the_step_fails() -> None:
    """What needs the axiom fails without it."""
    proof = prove(specification(Walk, *WALK[1:]))

    assert [(o.promise, o.action) for o in failed(proof)] == [("there_is_a_way_back", "walk")]


def test_an_initial_method_that_breaks_a_promise_is_named() -> None:
    """A promise that an initial method breaks fails there, with the state that it makes."""

    @always
    def it_is_nowhere(s: Walk) -> bool:
        """It is nowhere (it is at home)."""
        return s.at is None

    first = failed(prove(specification(Walk, *WALK, it_is_nowhere)))[0]

    assert first.action == "begin"
    assert first.counterexample is not None
    assert first.counterexample.before["at"] == "site1"
    assert first.counterexample.arguments["home"] == "site1"


def test_axioms_that_no_initial_state_keeps_are_reported() -> None:
    """Axioms that no initial state satisfies would prove anything, and are told."""

    @axiom
    def it_has_no_home(s: Walk) -> bool:
        """It has no home (it has one)."""
        return s.home is None

    proof = prove(specification(Walk, it_has_no_home, it_is_somewhere))

    assert proof.begins is SolverAnswer.FAILED
    assert not proof.proved
    assert "no initial state of @initial begin keeps the axioms" in notes(proof)


def test_that_steps_are_defined_is_proved() -> None:
    """A bounded natural that is never taken out of its range is proved so, as an obligation."""
    asked = [o for o in prove(specification(Walk, *WALK)).obligations if o.promise == DEFINED]

    assert [(o.action, o.outcome) for o in asked] == [("walk", SolverAnswer.PROVED)]
    assert DEFINED == EVERY_VALUE_IS_DEFINED


def test_a_step_that_is_not_defined_fails() -> None:
    """Without the guard, the step that leaves the range of a natural fails, and is shown."""

    def walk(self: Walk, a: Site, b: Site) -> None:
        """From {a} to {b}, however far."""
        require(self.at == a and self.road[a, b])
        self.at = b
        self.steps = self.steps + 1

    proof = prove(specification(Walk, *WALK).replace("Far", walk=walk))
    (only,) = failed(proof)

    assert (only.promise, only.action) == (DEFINED, "walk")
    assert only.counterexample is not None
    assert only.counterexample.before["steps"] == "2"
    assert [f.row for f in proved("far", proof) if f.mark is Mark.UNKNOWN] == [DEFINED]


# ── The election ────────────────────────────────────────────────────────────────────────────


@cache
def election() -> Proof:
    """The proof of the election, without what is known to fail."""
    return prove(ELECTION, leave_out=frozenset(AT_ONCE))


def breakers(promise: str, spec: Specification, *without: str) -> set[str]:
    """The actions that break a promise of a spec if these are no hypotheses."""
    prover = Prover(spec, [p for p in provable(spec) if p.name not in without], RESOURCES)
    of = spec.promise(promise)
    return {a.name for a in spec.actions if not prover.keeps(prover.after(a, of))}


def test_the_election_is_proved_for_any_number_of_brokers() -> None:
    """Every promise and every lemma of the verified election is inductive, and none is vacuous."""
    proof = election()

    assert proof.proved
    assert not failed(proof)
    assert len(proof.promises) == 7 + len(LEMMAS)
    assert len(proof.obligations) == 14 + 29 * 18


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
        "what_it_is_told_of_its_node_is_true",
    },
    "what_it_is_told_of_its_node_is_true": set(),
    **{promise.name: set() for promise in SHAPE},
}
"""
What is not inductive without each lemma; that of the node is the refinement's (`test_refine`).

Those of a state's shape no other needs: they say into which states code is put.
"""


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
    assert len(proof.obligations) == 4 + 6 * 5
    assert REFINEMENT.abstract is CONTRACT
