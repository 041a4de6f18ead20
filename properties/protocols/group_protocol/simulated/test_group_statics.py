"""Static members in the simulated world: they come back, run twice, and are replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from herdproof.conformance.flawed import with_parts
from herdproof.conformance.traces.line import TraceLine
from herdproof.conformance.traces.replay import conform_lines
from herdproof.protocols.group_protocol.bugs.statics import Kafka8500, Kafka8715, Kafka10284
from herdproof.protocols.group_protocol.campaign import MIXES
from herdproof.protocols.group_protocol.client.core import consumer_coordinator
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.consumer_coordinator import ConsumerCoordinator
from herdproof.protocols.group_protocol.client.core.futures import RequestFuture
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.judged.eyes import judged_group_run
from herdproof.protocols.group_protocol.messages import Error
from herdproof.protocols.group_protocol.simulated.traced import traced_groups
from herdproof.protocols.group_protocol.traces.static_members import is_stored_for
from herdproof.protocols.group_protocol.traces.trace_map import map_of
from herdspec.check.conformance.conform import Outcome, Verdict
from properties.protocols.group_protocol.coordinator.group_world import TracedAlone, join_of
from properties.protocols.group_protocol.judged.test_group_judging import verdicts
from properties.protocols.group_protocol.simulated.java_coordinator import JavaCoordinator
from properties.unrepeated import unrepeated

STATIC = MIXES["static"]
HURRIED = replace(STATIC, rebalance_timeout_ms=3_000)
"""Nobody waits for a static member for as long as its session."""
APPEARS_UNSEEN = 37
"""A run in which a partition appears while the leader, which is static, is away."""
FENCED_AT_ITS_JOIN = 13
"""A run in which a former life's JoinGroup is refused."""
BACK_AT_ONCE = 52
"""A run in which a static member comes back before its first generation, and waits for it."""
BACK_AFTER_A_FAILOVER = (857, 885)
"""Runs in which a member comes back to a Stable group late in the session that was left to it."""
STORED_UNHEARD = (227, 442, 577)
"""Runs in which a leader's next life is stored by a coordinator that ends before it hears of it."""
BLOCK = 10
COORDINATORS = [GroupCoordinator, JavaCoordinator]


class CountsFromSyncGroup(ConsumerCoordinator):
    """A lease begins with SyncGroup, and the first heartbeat is sent an interval later."""

    def send_sync_group_request(self, assignments: dict[str, bytes]) -> RequestFuture[bytes]:
        """Ask for the assignment, and count from when that was sent."""
        future = super().send_sync_group_request(assignments)
        future.add_listener(partial(self._synced, sent_ms=self.context.now_ms))
        return future

    def _synced(self, done: RequestFuture[bytes], sent_ms: int) -> None:
        if done.succeeded:
            self.heartbeat.is_counted(sent_ms)
            self.heartbeat.sent(self.context.now_ms)


def conform(lines: list[TraceLine], *, invariants: bool = False) -> Outcome:
    """The trace, replayed in the variant with static members; no line tells another one again."""
    return conform_lines(unrepeated(lines), map_of(), invariants=invariants)


@pytest.mark.parametrize("coordinator", COORDINATORS)
@pytest.mark.parametrize("first", range(0, 30, BLOCK))
def test_nothing_goes_wrong_whoever_comes_back(
    first: int, coordinator: type[GroupCoordinator]
) -> None:
    """Killed, closed, started twice, within their sessions and after: the contract is kept."""
    for seed in range(first, first + BLOCK):
        found = judged_group_run(seed, STATIC, coordinator)
        assert not found.broken, "\n".join(found.story)


@pytest.mark.parametrize("coordinator", COORDINATORS)
@pytest.mark.parametrize("seed", BACK_AFTER_A_FAILOVER)
def test_who_is_told_its_assignment_anew_is_not_expelled_within_its_lease(
    seed: int, coordinator: type[GroupCoordinator]
) -> None:
    """Else two are handed records of one partition; be SyncGroup a sign of life, or not."""
    found = judged_group_run(seed, STATIC, coordinator)

    assert not found.broken, "\n".join(found.story)


@pytest.mark.parametrize("seed", BACK_AFTER_A_FAILOVER)
def test_a_lease_that_begins_with_sync_group_is_found(seed: int) -> None:
    """Where the coordinator is as Kafka's in Java, it may be over before its holder thinks so."""
    counts_from_sync = with_parts(GroupConsumer, coordinator_class=CountsFromSyncGroup)

    found = judged_group_run(seed, STATIC, JavaCoordinator, client=counts_from_sync)

    assert found.broken == {"only_one_is_handed_records"}
    assert not judged_group_run(seed, STATIC, client=counts_from_sync).broken


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("coordinator", COORDINATORS)
@pytest.mark.parametrize("first", range(30, 1_030, 250))
def test_nothing_goes_wrong_in_many_more_runs_of_statics(
    first: int, coordinator: type[GroupCoordinator]
) -> None:
    """The same, of a thousand seeds, each replayed, too."""
    for seed in range(first, first + 250):
        found = judged_group_run(seed, STATIC, coordinator)
        assert not found.broken, "\n".join(found.story)
        lines = traced_groups(seed, config=STATIC, clients=True, coordinator=coordinator)
        assert conform(lines).verdict is Verdict.CONFORMS, seed


def test_much_happens_to_static_members() -> None:
    """They come back in a Stable group and in a rebalance, and are waited for in vain, fenced."""
    seen: Counter[str] = Counter()
    for line in lines_of(10):
        of = line.arguments
        if line.action == "replace_member":
            seen["stored" if "number" in of else "back"] += 1
        if of.get("outcome") == Error.FENCED_INSTANCE_ID.name:
            seen[line.action] += 1

    assert seen["stored"] > 10
    assert seen["back"] - seen["stored"] > 5
    assert seen["heartbeat"] > 2


def lines_of(runs: int) -> Iterator[TraceLine]:
    """The coordinators' lines of some runs."""
    for seed in range(runs):
        yield from traced_groups(seed, config=HURRIED)


# ── Mistakes ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bug", "broken", "seed"),
    [
        (Kafka8500, "settles", 0),
        (Kafka8715, "owners_change_with_the_generation", 25),
        (Kafka10284, "only_who_runs_twice_is_fenced", 0),
    ],
)
def test_a_bug_of_static_members_is_found(
    bug: type[GroupCoordinator], broken: str, seed: int
) -> None:  # fmt: skip
    """Kafka's own, of which each has had its issue; the run is clean without it."""
    assert broken in judged_group_run(seed, STATIC, coordinator=bug).broken
    assert not judged_group_run(seed, STATIC).broken


def test_a_leader_knows_what_its_former_life_has_shared_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who takes all for known that is there when it comes back leaves a partition to nobody."""
    assert not judged_group_run(APPEARS_UNSEEN, STATIC).broken

    monkeypatch.setattr(consumer_coordinator, "topics_shared_out", lambda _assignment: None)
    assert judged_group_run(APPEARS_UNSEEN, STATIC).broken == {"settles"}


def test_the_audit_holds_their_lines_to_the_contract() -> None:
    """By lines alone: nothing is violated, but where a next life is told and never stored."""
    for seed in range(3):
        assert "violated" not in verdicts(traced_groups(seed, config=STATIC)).values()
        flawed = verdicts(traced_groups(seed, config=STATIC, coordinator=Kafka10284))
        assert flawed["owners_change_with_the_generation"] == "violated"


# ── Replays ─────────────────────────────────────────────────────────────────────────────────


def test_what_static_members_do_their_variant_allows() -> None:
    """With what is promised of them in every state."""
    for seed in range(6):
        outcome = conform(traced_groups(seed, config=STATIC), invariants=True)
        assert outcome.verdict is Verdict.CONFORMS, (seed, str(outcome.mismatch)[:2000])


def test_a_rebalance_goes_on_without_a_static_member() -> None:
    """It is counted all the same, and is a step of its own."""
    late = 0
    for seed in range(6):
        outcome = conform(traced_groups(seed, config=HURRIED))
        assert outcome.verdict is Verdict.CONFORMS, (seed, str(outcome.mismatch)[:2000])
        late += "complete_join_late" in outcome.inferred | outcome.named.keys()

    assert late > 0


def test_lines_of_static_clients_conform() -> None:
    """Beside their coordinators': what a next life is told is known; who is fenced has no id."""
    for seed in (*range(6), FENCED_AT_ITS_JOIN, BACK_AT_ONCE):
        outcome = conform(traced_groups(seed, config=STATIC, clients=True))
        assert outcome.verdict is Verdict.CONFORMS, (seed, str(outcome.mismatch)[:2000])


@pytest.mark.parametrize("seed", STORED_UNHEARD)
def test_who_led_has_led_although_only_its_next_life_is_found(seed: int) -> None:
    """The next coordinator finds the next life leading, which nobody was told is stored."""
    outcome = conform(traced_groups(seed, config=STATIC, clients=True))

    assert outcome.verdict is Verdict.CONFORMS, str(outcome.mismatch)[:2000]


@pytest.mark.parametrize("role", ["on_join_leader", "on_join_follower"])
def test_a_false_role_before_a_next_life_that_nobody_heard_of_differs(role: str) -> None:
    """The next life that is found leads, but not whoever followed; and the former one has led."""
    lines, told = with_a_next_life_unheard_of()
    of = [line for line in lines if line.arguments.get("generation") == told["generation"]]
    one = next(line for line in of if line.action == role)
    (one.action,) = {"on_join_leader", "on_join_follower"} - {role}

    assert conform(lines).verdict is Verdict.DIFFERS


def test_a_found_leader_whom_no_return_made_one_differs() -> None:
    """Who was to lead once it was stored, another line says; the one that is found is not it."""
    lines, told = with_a_next_life_unheard_of()
    told["leader"] = next(name for name in told["members"] if name != told["leader"])

    assert conform(lines).verdict is Verdict.DIFFERS


def with_a_next_life_unheard_of() -> tuple[list[TraceLine], dict[str, Any]]:
    """A trace, and what its line tells that asks for the next life to be stored."""
    lines = traced_groups(STORED_UNHEARD[0], config=STATIC, clients=True)
    return lines, next(line.arguments for line in lines if is_stored_for(line))


@pytest.mark.parametrize(("bug", "seed"), [(Kafka8500, 0), (Kafka10284, 0)])
def test_a_bug_of_static_members_differs(bug: type[GroupCoordinator], seed: int) -> None:
    """The variant does not allow it."""
    lines = traced_groups(seed, config=STATIC, coordinator=bug)

    assert conform(lines).verdict is Verdict.DIFFERS


def test_a_former_life_that_is_not_refused_differs() -> None:
    """Its heartbeat is fenced; a line that says otherwise is none of the variant's."""
    for seed in range(10):
        lines = traced_groups(seed, config=STATIC)
        fenced = [line for line in lines if line.arguments.get("outcome") == "FENCED_INSTANCE_ID"]
        beats = [line for line in fenced if line.action == "heartbeat"]
        if beats:
            beats[0].arguments["outcome"] = "NONE"
            assert conform(lines).verdict is Verdict.DIFFERS
            return
    raise AssertionError("nobody was fenced")


def test_a_next_life_that_gets_another_ones_partitions_differs() -> None:
    """What is stored in the place of a former life is what that had."""
    for seed in range(10):
        lines = traced_groups(seed, config=STATIC)
        stored = [
            line for line in lines if line.action == "replace_member" and "number" in line.arguments
        ]
        if len(stored) > 1 and stored[0].arguments.get("owners"):
            del stored[0].arguments["owners"][0]
            assert conform(lines).verdict is Verdict.DIFFERS
            return
    raise AssertionError("nobody came back")


def test_a_line_of_a_return_that_is_missing_is_unknown() -> None:
    """Whichever of both it is: who came, or what was to be stored; unless it is told once more."""
    lines = traced_groups(0, config=STATIC, clients=True)
    returns = [k for k, line in enumerate(lines) if line.action == "replace_member"]
    for gone in returns:
        left = [line for k, line in enumerate(lines) if k != gone]
        outcome = conform(left)
        assert outcome.verdict is Verdict.UNKNOWN, str(outcome.mismatch)[:2000]
        assert conform_lines(left, map_of(), invariants=False).verdict is Verdict.CONFORMS

    assert returns


def test_who_comes_back_alone_conforms() -> None:
    """One static member, twice: the second time it has the first one's place."""
    alone = TracedAlone().traced()
    for _ in range(2):
        alone.ask(join_of(group_instance_id="rack-1"))

    assert alone.outcome().verdict is Verdict.CONFORMS, str(alone.outcome().mismatch)[:2000]
