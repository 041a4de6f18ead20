"""
The election's spec: the size of its world, what it promises, and what its flaws are known to break.

The quotations are from PROTOCOLS.md, section Election.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from herdspec import Specification, action, require
from herdspec.check.exploration.explore import Exploration, explore
from herdspec.check.plans import QUICK, usual
from herdspec.check.running.run import Machine
from herdspec.check.verdict import Standing
from herdspec.check.verify import verify
from herdspec.engine.ground import Ground
from herdspec.language.surface import ActionKind
from herdspec.protocols.election.flaws import AT_ONCE, DRAFTED, FLAWS
from herdspec.protocols.election.plan import PROTOCOL
from herdspec.protocols.election.properties import ELECTION, POSSIBLE, PROMISES
from herdspec.protocols.election.spec import Answer, Broker, Call, Election, Link
from herdspec.protocols.flaws import Flaw

ONE, TWO = Broker(0), Broker(1)
WIN = "stand serve_look handle_look serve_read handle_read serve_create handle_create"
"""What a broker does that stands where nobody else does, and wins."""


@cache
def explored(brokers: int, faults: int) -> Exploration:
    """The verified election at this size."""
    return explore(ELECTION, {"Broker": brokers}, faults=faults)


@cache
def flawed(name: str) -> Exploration:
    """A flaw, at the size for which its failures are declared."""
    flaw = ALL_FLAWS[name]
    return explore(flaw.spec, {"Broker": 2}, faults=flaw.faults)


ALL_FLAWS: dict[str, Flaw] = {"drafted": DRAFTED, **FLAWS}


class Play:
    """Two brokers in the plain Python, taken step by step."""

    def __init__(self, spec: Specification = ELECTION) -> None:
        self.machine = Machine(Ground(spec, {"Broker": 2}, 9, 9))
        self.state: Any = self.machine.initial()

    def __call__(self, who: Broker, actions: str) -> Play:
        """Let a broker take these actions, one after the other; each must be possible."""
        for name in actions.split():
            after = self.machine.take(self.state, name, (who,))
            assert after is not None, f"{name} is not possible in {self.state}"
            self.state = after
        return self


# ── The size of its world ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("brokers", "faults", "representatives", "states", "steps", "depth"),
    [
        (1, 1, 146, 146, 302, 18),
        (2, 1, 1_958, 3_904, 6_358, 26),
        (2, 2, 22_225, 44_386, 90_832, 34),
        (2, 3, 147_826, 295_536, 723_486, 42),
        (3, 1, 15_088, 86_160, 64_530, 32),
        (3, 2, 269_815, 1_590_417, 1_402_274, 42),
    ],
)
def test_the_size_of_the_world_is_pinned(
    brokers: int, faults: int, representatives: int, states: int, steps: int, depth: int
) -> None:
    """A changed count is a changed protocol: somebody must say why."""
    found = explored(brokers, faults)

    assert (found.states, found.orbits) == (representatives, states)
    assert (found.generated, found.depth) == (steps, depth)
    assert found.complete
    assert found.symmetric == (brokers > 1)


def test_the_size_of_the_world_at_three_brokers_and_three_faults_is_pinned() -> None:
    """Three brokers and three faults are exhausted, and only what is declared fails."""
    found = explore(ELECTION, {"Broker": 3}, faults=3)

    assert (found.states, found.orbits) == (2_960_757, 17_637_184)
    assert (found.generated, found.depth) == (18_016_242, 50)
    assert found.complete
    assert set(found.violations) == set(AT_ONCE)
    assert not found.missing


# ── What it promises ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("brokers", "faults"), [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2)])
def test_only_what_is_declared_fails(brokers: int, faults: int) -> None:
    """Every promise holds but the one that nobody can keep without clocks; nothing is undecided."""
    found = explored(brokers, faults)

    assert set(found.violations) == set(AT_ONCE)
    assert found.undecided == []
    assert found.deadlock is None


def test_what_nobody_can_promise_fails_as_declared() -> None:
    """Two brokers lead at a time after 15 steps, the last of which is to learn of a victory."""
    assert shortest(explored(2, 2)) == declared(AT_ONCE)


@pytest.mark.parametrize("promise", POSSIBLE, ids=lambda p: p.name)
def test_what_must_be_possible_is(promise: Any) -> None:
    """Each noun of the issue is witnessed at two brokers and two faults, by a story."""
    assert promise.name in explored(2, 2).witnesses


def test_every_action_is_taken() -> None:
    """No action of the spec is idle at two brokers and two faults."""
    assert all(explored(2, 2).taken.values())


def test_the_properties_are_the_ones_that_the_issue_names() -> None:
    """One coordinator per epoch; epochs grow; the present epoch writes; a leader can be elected."""
    assert {
        "one_coordinator_per_epoch",
        "epochs_grow",
        "only_the_present_epoch_writes",
        "a_leader_can_still_be_elected",
    } <= {p.name for p in PROMISES}
    assert all(p in [q.python for q in ELECTION.properties] for p in PROMISES)


# ── What PROTOCOLS.md says ──────────────────────────────────────────────────────────────────


def test_it_tries_to_become_leader_and_watches_who_is() -> None:
    """
    "At start it tries to become leader; if somebody else is, it watches the node and tries again
    when its data goes."
    Reference: PROTOCOLS.md, section Election.
    """
    play = Play()(ONE, WIN)(TWO, "stand serve_look handle_look")
    assert play.state.watch[TWO]
    assert not play.state.leads[TWO]

    play(ONE, "expire")

    assert play.state.due[TWO]
    play(TWO, WIN.replace("stand", "look"))
    assert play.state.leads[TWO]


def test_the_node_names_the_broker() -> None:
    """
    "`ZkElection` on `/consumers/coordinator`, an ephemeral node whose data is the broker id."
    Reference: PROTOCOLS.md, section Election.
    """
    assert Play()(ONE, WIN).state.holder == ONE
    assert Play()(ONE, WIN)(ONE, "expire").state.holder is None


def test_winning_makes_it_lead() -> None:
    """
    "On winning it calls its owner's `coordinatorStartup`."
    Reference: PROTOCOLS.md, section Election.
    """
    play = Play()(ONE, WIN.removesuffix(" handle_create"))
    assert not play.state.leads[ONE]

    assert play(ONE, "handle_create").state.leads[ONE]


def test_a_new_session_elects_again() -> None:
    """
    "`handleNewSession` after an expiry: clear all coordinator state, register the expiration
    listener again, elect again."
    Reference: PROTOCOLS.md, section Election.
    """
    play = Play()(ONE, WIN)(ONE, "expire handle_suspended handle_lost")
    assert play.state.link[ONE] == Link.LOST

    play(ONE, "handle_new_session")

    assert not play.state.leads[ONE]
    assert (play.state.call[ONE], play.state.answer[ONE]) == (Call.LOOK, Answer.NONE)


def test_watches_are_one_shot() -> None:
    """
    "Watches are one-shot: between a watch firing and the next read the node may have gone and come
    back."
    Reference: PROTOCOLS.md, section Election.
    """
    play = Play()(ONE, WIN)(TWO, "stand serve_look handle_look")(ONE, "resign serve_delete")
    assert not play.state.watch[TWO]
    assert play.state.due[TWO]

    play(ONE, "handle_delete " + WIN)

    assert play.state.holder == ONE
    assert play.state.due[TWO]


def test_the_draft_has_no_fencing() -> None:
    """
    "The draft has no fencing: a leader that was paused still believes it leads after its session
    expired."
    Reference: PROTOCOLS.md, section Election.
    """
    win = "stand serve_look handle_look serve_create handle_create"
    play = Play(DRAFTED.spec)(ONE, win)(ONE, "pause expire")(TWO, win)(ONE, "resume")

    assert play.state.leads[ONE]
    assert play.state.leads[TWO]
    assert "only_the_present_epoch_writes" in flawed("drafted").violations


def test_the_epoch_is_counted_up_with_the_node() -> None:
    """
    "A persistent epoch node, incremented in the same ZooKeeper transaction (`multi`) that creates
    the ephemeral leader node."
    Reference: PROTOCOLS.md, section Election.
    """
    play = Play()(ONE, WIN.removesuffix(" serve_create handle_create"))
    assert (play.state.holder, play.state.epoch) == (None, 0)

    play(ONE, "serve_create")

    assert (play.state.holder, play.state.epoch) == (ONE, 1)


def test_every_write_checks_the_epoch() -> None:
    """
    "Every ZooKeeper write of a coordinator is a `multi` with a version check on that epoch node."
    Reference: PROTOCOLS.md, section Election.
    """
    play = Play()(ONE, WIN)(ONE, "pause expire")(TWO, WIN)
    play(ONE, "resume handle_suspended handle_lost handle_new_session")
    assert play.state.token[ONE] < play.state.epoch

    play(ONE, "write")

    assert not play.state.stale_write_accepted
    assert not ELECTION.promise("only_the_present_epoch_writes").lemma


def test_whose_node_it_is_tells_its_owner_and_not_its_data() -> None:
    """
    '"Is it mine?" is answered by the node's ephemeral owner, never by its data.'
    Reference: PROTOCOLS.md, section Election.
    """
    play = Play()(ONE, WIN)(ONE, "restart stand serve_look")

    assert play.state.holder == ONE
    assert play.state.answer[ONE] == Answer.OTHERS


def test_the_world_takes_its_faults_from_a_budget() -> None:
    """All faults count against the budget, and so does a resignation; nothing else does."""
    faults = {a.name for a in ELECTION.actions if a.kind is ActionKind.FAULT}

    assert {a.name for a in ELECTION.actions if a.disturbs} == faults | {"resign"}


# ── What its flaws break ────────────────────────────────────────────────────────────────────


def shortest(found: Exploration) -> dict[str, tuple[int, str]]:
    """Of each violation: its steps, and its last action."""
    return {
        name: (len(story.steps), story.steps[-1].action.name)
        for name, story in found.violations.items()
    }


def declared(failures: Any) -> dict[str, tuple[int, str]]:
    """The same, as it is declared."""
    return {name: (failure.steps, failure.last) for name, failure in failures.items()}


@pytest.mark.parametrize("name", ALL_FLAWS)
def test_a_flaw_breaks_what_it_is_declared_to_break(name: str) -> None:
    """Each flaw, and the draft, breaks just what is declared, as early and by the same action."""
    found = flawed(name)

    assert shortest(found) == declared(ALL_FLAWS[name].failures)
    assert found.complete


@pytest.mark.parametrize("name", FLAWS)
def test_a_flaw_breaks_more_than_the_verified_election(name: str) -> None:
    """No flaw passes for the verified election: each breaks a promise that it keeps."""
    assert flawed(name).violations.keys() - AT_ONCE.keys()


@pytest.mark.parametrize("name", ALL_FLAWS)
def test_a_flaw_is_named_by_a_switch_of_the_core(name: str) -> None:
    """Each flaw names the switches of the implementation's core that put it there."""
    assert ALL_FLAWS[name].switches
    assert name == "drafted" or name in ALL_FLAWS[name].switches


def test_the_drafts_shortest_counterexample_is_pinned() -> None:
    """The draft's stale write, label by label: the first broker writes in the second one's time."""
    story = flawed("drafted").violations["only_the_present_epoch_writes"]

    assert story.labels == [
        "stand(broker1)",
        "stand(broker2)",
        "serve_look(broker1)",
        "handle_look(broker1)",
        "resign(broker1)",
        "serve_look(broker2)",
        "handle_look(broker2)",
        "serve_create(broker1)",
        "handle_create(broker1)",
        "serve_delete(broker1)",
        "serve_create(broker2)",
        "write(broker1)",
    ]
    assert story.lines[-2:] == [
        " 12. broker1 writes to ZooKeeper under the last epoch that it led in.  [write(broker1)]",
        "       stale_write_accepted: False → True",
    ]


def test_the_drafts_shortest_way_to_two_coordinators_is_pinned() -> None:
    """The draft's two coordinators, label by label: one session expires, and nobody tells it."""
    assert flawed("drafted").violations["one_coordinator_at_a_time"].labels == [
        "stand(broker1)",
        "stand(broker2)",
        "serve_look(broker1)",
        "handle_look(broker1)",
        "serve_look(broker2)",
        "handle_look(broker2)",
        "serve_create(broker1)",
        "handle_create(broker1)",
        "expire(broker1)",
        "serve_create(broker2)",
        "handle_create(broker2)",
    ]


# ── Its plan ────────────────────────────────────────────────────────────────────────────────


def nap_for_ever(self: Election, b: Broker) -> None:
    """{b} does what it never can."""
    require(self.paused[b] and not self.paused[b])
    self.paused[b] = True


def test_an_action_of_a_protocol_that_is_never_possible_turns_verify_red() -> None:
    """The verified spec's actions must all be possible, though it declares failures."""
    idle = ELECTION.add("Idle", nap_for_ever=action(nap_for_ever))
    whole = usual(replace(PROTOCOL, verified=lambda: idle), QUICK)

    report = verify(replace(whole, checks=whole.checks[:1]))

    wrong = {f.row for f in report.findings if f.standing is Standing.FAILS}
    assert wrong == {"every action is possible"}
