"""The simulated world of the group protocol: clean as it is, and not with a mistake in it."""

from __future__ import annotations

from collections import Counter

import pytest

from herdproof.protocols.group_protocol.client.assignors.assignor import PartitionAssignor
from herdproof.protocols.group_protocol.client.assignors.plain import RoundRobinAssignor
from herdproof.protocols.group_protocol.client.assignors.sticky import (
    CooperativeStickyAssignor,
    StickyAssignor,
)
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.effects import GroupAnswer
from herdproof.protocols.group_protocol.held.drafted_client import DraftedClient, printed_client
from herdproof.protocols.group_protocol.held.flawed import (
    CommitsWhatItHad,
    TakesAnyCommit,
    TakesAnyMembersCommit,
    TellsBeforeStoring,
)
from herdproof.protocols.group_protocol.judged.eyes import JUDGED, judged_group_run
from herdproof.protocols.group_protocol.messages import (
    Error,
    HeartbeatResponse,
    JoinGroupResponse,
    SyncGroupResponse,
)
from herdproof.protocols.group_protocol.simulated.random_runs import (
    OF_ANYBODY,
    GroupRunConfig,
    Mishap,
)
from herdproof.protocols.group_protocol.simulated.world import GroupRun
from herdspec.check.observation.observed import Ruling

SEEDS = range(300)
BLOCK = 25
BLOCKS = range(SEEDS.start, SEEDS.stop, BLOCK)
SEARCHED = range(200)
CALM = GroupRunConfig(kinds=(), late=0.0)
HAPPENS = (
    "deposed", "in doubt", "loaded", f"JoinGroupResponse {Error.UNKNOWN_MEMBER_ID.name}",
    "JoinGroupResponse NONE", "SyncGroupResponse NONE", "HeartbeatResponse NOT_COORDINATOR",
    "SyncGroupResponse REBALANCE_IN_PROGRESS", "HeartbeatResponse REBALANCE_IN_PROGRESS",
    "JoinGroupResponse COORDINATOR_LOAD_IN_PROGRESS",
)  # fmt: skip
"""What brokers go through and members are answered in runs, again and again."""


def broken_first(
    coordinator: type[GroupCoordinator], client: type[GroupConsumer] = GroupConsumer
) -> set[str]:
    """What is broken in the first run in which anything is."""
    for seed in SEARCHED:
        found = judged_group_run(seed, coordinator=coordinator, client=client)
        if found.broken:
            return found.broken
    return set()


@pytest.mark.parametrize("first", BLOCKS)
def test_nothing_goes_wrong_whatever_goes_wrong(first: int) -> None:
    """Every sentence of the contract that can be seen is kept, and each group settles."""
    for seed in range(first, first + BLOCK):
        found = judged_group_run(seed)
        assert not found.broken, "\n".join(found.story)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(SEEDS.stop, 10_000, 970))
def test_nothing_goes_wrong_in_many_more_runs(first: int) -> None:
    """The same, of ten thousand seeds."""
    for seed in range(first, first + 970):
        found = judged_group_run(seed)
        assert not found.broken, "\n".join(found.story)


def test_one_seed_is_one_run() -> None:
    """Two lives of it are the same, and another one is another."""
    digests = []
    for seed in (7, 7, 8):
        run = GroupRun(seed)
        run.live()
        digests.append(run.digest)

    assert digests[0] == digests[1] != digests[2]


def test_every_sentence_is_judged() -> None:
    """None of them is unknown at the end of a run."""
    rulings = judged_group_run(1).rulings

    assert set(rulings) == set(JUDGED)
    assert {ruling.ruling for ruling in rulings.values()} == {Ruling.HOLDS}


def test_much_goes_on_in_runs() -> None:
    """Brokers are elected again and again, members thrown out, and groups loaded half-way."""
    seen = Counter(dict.fromkeys(HAPPENS, 0))
    for seed in range(30):
        run = GroupRun(seed)
        run.live()
        for _, _, event, effects in run.log:
            seen.update(name for name in (event, *map(answered, effects)) if name in HAPPENS)
        if min(seen.values()) >= 10:
            return
    raise AssertionError(f"ten times each was wanted: {seen}")


def answered(effect: object) -> str:
    """What a member is told of its generation, and with which error; of other effects nothing."""
    match effect:
        case GroupAnswer(
            response=JoinGroupResponse() | SyncGroupResponse() | HeartbeatResponse() as told
        ):
            return f"{type(told).__name__} {told.error.name}"
        case _:
            return ""


def test_without_trouble_a_group_is_stable_within_seconds() -> None:
    """And stays so: there are no more generations than it takes for all to come."""
    found = judged_group_run(3, CALM)

    assert not found.broken
    assert max(member.generation for member in found.run.members) <= 3


def test_each_mishap_happens() -> None:
    """None of those that can be drawn never is."""
    drawn = {trouble.kind for seed in range(30) for trouble in GroupRun(seed).troubles}

    assert drawn == set(OF_ANYBODY) == set(Mishap) - {Mishap.START_TWICE}


def test_a_generation_that_is_told_before_it_is_stored_is_found() -> None:
    """Kafka does so: after a failover it is handed out again."""
    assert "what_is_handed_out_is_stored" in broken_first(TellsBeforeStoring)


def test_a_commit_of_who_is_no_member_is_found() -> None:
    """Who was paused overwrites what its successor has committed."""
    assert "committed_offsets_never_go_back" in broken_first(TakesAnyCommit)


def test_a_commit_for_a_partition_of_another_member_is_found() -> None:
    """Kafka takes it: a client that commits what it had, under its new generation, is enough."""
    found = broken_first(TakesAnyMembersCommit, CommitsWhatItHad)

    assert found & {"exclusive_fenced", "committed_offsets_never_go_back"}


@pytest.mark.parametrize(
    "assignor", [RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor]
)
def test_nothing_goes_wrong_with_other_assignors(assignor: type[PartitionAssignor]) -> None:
    """Also where members keep their partitions through a rebalance."""
    for seed in range(12):
        found = judged_group_run(seed, assignors=lambda: (assignor(),))
        assert not found.broken, "\n".join(found.story)


@pytest.mark.parametrize(
    ("habit", "broken"),
    [
        ("join_future_never_reset", {"settles"}),
        ("errors_complete_nothing", {"settles"}),
        ("ghost_member", {"who_consumes_owns", "exclusive_fenced"}),
        ("leave_while_processing", {"only_one_is_handed_records"}),
        ("joins_with_partitions", {"only_one_is_handed_records"}),
    ],
)
def test_the_printed_clients_habits_are_found(habit: str, broken: set[str]) -> None:
    """Each alone; those that cost time alone, or one rare moment, have tests of their own."""
    found: set[str] = set()
    for seed in range(40):
        found |= judged_group_run(seed, client=printed_client(habit)).broken
        if broken <= found:
            return
    raise AssertionError(f"{habit} has broken {found}")


def test_the_printed_client_is_found() -> None:
    """With all its habits: the first run that goes on for long enough."""
    assert "settles" in broken_first(GroupCoordinator, DraftedClient)


def test_a_client_that_commits_what_it_had_does_no_harm() -> None:
    """Here such a commit is refused."""
    for seed in range(40):
        found = judged_group_run(seed, client=CommitsWhatItHad)
        assert not found.broken, "\n".join(found.story)
