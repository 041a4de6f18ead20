"""Larger protocols are proved: mypyvy's lock server and Paxos, and a consumer group."""

from __future__ import annotations

from functools import cache

import pytest

from herdspec import Specification, require
from herdspec.check.exploration.explore import explore
from herdspec.check.proof.prove import Proof, SolverAnswer, leave_one_out, needs_lemmas, prove
from properties.group_spec import BARE, GROUP, INVARIANTS, LEMMAS, STEPS, Group, Member, Partition
from properties.published.agreement.mypyvy_paxos import PAXOS, Node, Paxos, Quorum, Round, Value
from properties.published.exclusion.mypyvy_lockserv import LOCK_SERVICE

PROTOCOLS = {"lock service": LOCK_SERVICE, "paxos": PAXOS, "group": GROUP}
OBLIGATIONS = {"lock service": 9 * 6, "paxos": 6 * 7, "group": 17 + 21 * 14}
SIZES = {
    "lock service": {"Node": 3},
    "paxos": {"Round": 2, "Value": 2, "Quorum": 1, "Node": 2},
    "group": {"Member": 2, "Partition": 1},
}


@cache
def proof(name: str) -> Proof:
    """The proof of one of `PROTOCOLS`."""
    return prove(PROTOCOLS[name])


def failing(spec: Specification) -> set[tuple[str, str | None]]:
    """The promises that are not inductive, and by which action."""
    found = prove(spec).obligations
    return {(o.promise, o.action) for o in found if o.outcome is not SolverAnswer.PROVED}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_it_is_proved(name: str) -> None:
    """Each obligation is proved for any size, no action is vacuous, and z3 can always decide."""
    assert proof(name).proved
    assert len(proof(name).obligations) == OBLIGATIONS[name]
    assert proof(name).warnings == ()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_promise_alone_is_not_inductive(name: str) -> None:
    """Without its lemmas the first promise fails induction: the lemmas are what proves it."""
    assert needs_lemmas(PROTOCOLS[name], proof(name).promises[0])


@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_is_proved_holds_in_every_state_of_a_small_size(name: str) -> None:
    """Exploration of a small size breaks nothing, and shows what must be possible."""
    found = explore(PROTOCOLS[name], SIZES[name], faults=1, bound=2)

    assert not found.violations
    assert not found.missing
    assert found.states > 20


# ── The group ───────────────────────────────────────────────────────────────────────────────


def test_the_group_is_as_large_as_it_says() -> None:
    """14 actions, 4 invariants, 4 step promises, 13 lemmas."""
    sizes = (len(GROUP.actions), len(INVARIANTS), len(STEPS), len(LEMMAS))

    assert sizes == (14, 4, 4, 13)


def test_the_group_is_proved_of_any_order_of_generations() -> None:
    """Nothing of the group needs arithmetic: generations may be any total order."""
    found = prove(GROUP, order=True)

    assert found.proved
    assert found.order


def test_the_groups_invariants_alone_are_not_inductive() -> None:
    """Without lemmas all invariants fail but what a guard says by itself."""
    assert {promise for promise, _ in failing(BARE)} == {
        "one_member_per_generation",
        "who_is_up_to_date_owns_what_it_holds",
        "only_owners_commit",
        "no_member_goes_back",
    }


def test_a_counterexample_has_no_more_elements_than_it_needs() -> None:
    """Two members that hold one partition are shown with one partition."""
    shown = {o.promise: o.counterexample for o in prove(BARE).obligations if o.counterexample}

    assert shown["one_member_per_generation"].sizes == {"Member": 2, "Partition": 1}


NOT_NEEDED = {
    "no_commit_is_of_an_unannounced_generation",
    "a_leaver_asks_for_nothing",
    "who_joins_joins_a_round",
}
"""What stands for its own sake."""


@pytest.mark.long
def test_ten_of_the_groups_lemmas_are_needed() -> None:
    """Leaving each lemma out breaks another promise, but for three that stand for themselves."""
    found = leave_one_out(GROUP)

    assert {p.name for p in LEMMAS if not found[p.name]} == NOT_NEEDED


def test_leave_one_out_tells_what_a_lemma_is_needed_for() -> None:
    """Each published invariant of the lock server is needed, and it is told for what."""
    found = leave_one_out(LOCK_SERVICE)

    assert all(found[p.name] for p in LOCK_SERVICE.properties if p.lemma)
    assert "mutex" in found["held_or_granted"]
    assert found["mutex"] == ("held_or_returned",)


# ── They can fail ───────────────────────────────────────────────────────────────────────────


def test_an_unfenced_commit_is_not_proved() -> None:
    """A coordinator that does not compare generations accepts a commit of who does not own."""

    def accept_commit(self: Group, m: Member, p: Partition) -> None:
        """The coordinator accepts any commit of a registered {m} for {p}."""
        require(self.commits[m, p] and self.registered[m])
        self.commits[m, p] = False
        self.committed[p] = self.commit_epoch[m, p]
        if self.owner[p] != m:
            self.foreign = True

    unfenced = GROUP.replace("Unfenced", accept_commit=accept_commit)
    shown = [o.counterexample for o in prove(unfenced).obligations if o.counterexample]

    assert failing(unfenced) == {
        ("only_owners_commit", "accept_commit"),
        ("commits_never_go_back", "accept_commit"),
    }
    assert [c.sizes for c in shown] == [{"Member": 1, "Partition": 1}] * 2


def test_paxos_without_a_quorums_votes_is_not_proved() -> None:
    """A decision by one vote is no quorum's, and the lemma that says so fails."""

    def decide(self: Paxos, r: Round, v: Value, q: Quorum, n: Node) -> None:
        """{v} is decided in round {r} by the vote of {n} alone."""
        require(self.voted[n, r, v] and self.member[n, q])
        self.decided[r, v] = True

    assert ("decisions_are_a_quorums", "decide") in failing(PAXOS.replace("Hasty", decide=decide))
