"""What a group coordinator keeps of offsets: who commits, who fetches, what is forgotten."""

from __future__ import annotations

from dataclasses import replace

from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    Error,
    GroupToFetch,
    LeavingMember,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TopicToFetch,
)
from properties.protocols.group_protocol.coordinator.group_world import (
    GROUP,
    QUICK,
    TOPIC,
    CoordinatorAlone,
    commit_of,
    errors_of,
    fetch_of,
)

DAY_MS = 24 * 3_600_000
RETENTION_MS = 7 * DAY_MS
CHECK_MS = 600_000


def elected(*, holds: bool = False) -> CoordinatorAlone:
    """A coordinator that leads."""
    return CoordinatorAlone(QUICK, holds).elected()


def test_an_offset_is_told_when_it_is_stored() -> None:
    """To who committed it, and to who asks for it: that waits for what was asked before."""
    world = elected(holds=True)
    first = world.ask(commit_of(None, p0=1))
    second = world.ask(commit_of(None, p0=2))
    fetch = world.ask(fetch_of(GROUP))

    world.store_next()
    assert errors_of(world.answered(first, OffsetCommitResponse)) == [Error.NONE]
    assert not {second, fetch} & set(world.answers)
    world.store_next()

    told = world.answered(fetch, OffsetFetchResponse)
    assert told.groups[0].topics[0].partitions[0].offset == 2


def test_an_offset_that_cannot_be_stored_is_not_committed() -> None:
    """Whoever committed it is told what Kafka says of one that is too large."""
    world = elected(holds=True)
    caller = world.ask(commit_of(None, p0=1))
    world.store_next(ok=False)

    told = errors_of(world.answered(caller, OffsetCommitResponse))

    assert told == [Error.INVALID_COMMIT_OFFSET_SIZE]
    assert world.committed(0) == [-1]


def test_a_partition_that_nobody_has_been_assigned_yet_is_its_last_owners() -> None:
    """Cooperative members commit what they give up; a failover in between changes nothing."""
    world = elected()
    leader, follower = world.stable(2)
    caller = world.join(leader.member_id)
    world.join(follower.member_id)
    leader = world.joined(caller)
    follower = replace(follower, generation_id=leader.generation_id)
    world.sync(leader, {leader.member_id: (), follower.member_id: (1,)})

    assert world.commit(follower, p0=5) == [Error.ILLEGAL_GENERATION]
    world.resign()
    world.elected(2)

    assert world.commit(follower, p0=5) == [Error.ILLEGAL_GENERATION]
    assert world.commit(leader, p0=5, p1=5) == [Error.NONE, Error.ILLEGAL_GENERATION]


def test_a_partition_whose_last_owner_is_gone_is_anybodys() -> None:
    """Once others have been assigned theirs without it."""
    world = elected()
    leader, follower = world.stable(2)
    world.leave(LeavingMember(leader.member_id))
    joined = world.joined(world.join(follower.member_id))
    world.sync(joined, {joined.member_id: (1,)})

    assert world.commit(joined, p0=5) == [Error.NONE]


def test_a_lenient_coordinator_lets_any_member_commit_anything() -> None:
    """As Kafka does."""
    world = CoordinatorAlone(replace(QUICK, commits="as_kafka")).elected()
    _, follower = world.stable(2)

    assert world.commit(follower, p0=5) == [Error.NONE]


def test_who_assigns_by_hand_commits_to_a_group_without_members() -> None:
    """Such a group has no type, until somebody joins it."""
    world = elected()

    assert world.commit(None, p0=5) == [Error.NONE]
    assert world.group().protocol_type is None
    assert world.stable(1)[0].generation_id == 1
    assert world.committed(0) == [5]


def test_several_groups_are_fetched_at_once() -> None:
    """Each with what was asked for, or all there is; a group that there is not has nothing."""
    world = elected()
    world.commit(None, p0=5, p2=6)
    some = GroupToFetch(GROUP, (TopicToFetch(TOPIC, (2, 3)), TopicToFetch("other", (0,))))
    request = OffsetFetchRequest(
        version=9, groups=(some, GroupToFetch(GROUP, None), GroupToFetch("no", None))
    )

    groups = world.answer(request, OffsetFetchResponse).groups

    found = [[[(p.partition, p.offset) for p in t.partitions] for t in g.topics] for g in groups]
    assert found == [[[(2, 6), (3, -1)], [(0, -1)]], [[(0, 5), (2, 6)]], []]
    assert [group.error for group in groups] == [Error.NONE] * 3


def test_a_deleted_group_has_no_offsets_when_it_comes_again() -> None:
    """Nor after a failover."""
    world = elected()
    world.commit(None, p0=5)

    told = world.answer(DeleteGroupsRequest(groups=(GROUP, GROUP)), DeleteGroupsResponse)
    assert [result.error for result in told.results] == [Error.NONE]
    world.stable(1)

    assert world.committed(0) == [-1]
    world.resign()
    assert world.elected(2).committed(0) == [-1]


def test_a_deleted_offset_is_gone() -> None:
    """Those that nobody committed are as gone as that."""
    world = elected()
    world.commit(None, p0=5, p1=6)
    request = OffsetDeleteRequest(group_id=GROUP, topics=(TopicToFetch(TOPIC, (0, 7)),))

    told = world.answer(request, OffsetDeleteResponse)

    assert [each.error for each in told.topics[0].partitions] == [Error.NONE, Error.NONE]
    assert world.committed(0, 1) == [-1, 6]


# ── Retention ───────────────────────────────────────────────────────────────────────────────


def test_the_offsets_of_a_group_without_members_are_kept_for_a_week_after_the_last_left() -> None:
    """However old they are; then the group goes with them."""
    world = elected()
    (joined,) = world.stable(1)
    world.commit(joined, p0=5)
    for _ in range(200):
        world.wait(9_000)
        world.heartbeat(joined)
    world.leave(LeavingMember(joined.member_id))

    world.wait(RETENTION_MS - CHECK_MS)
    assert world.committed(0) == [5]
    world.wait(2 * CHECK_MS)

    assert GROUP not in world.coordinator.groups
    assert world.store.groups == {}


def test_the_offsets_of_a_simple_consumer_are_kept_for_a_week_after_each_commit() -> None:
    """Those that it goes on committing stay."""
    world = elected()
    world.commit(None, p0=5, p1=6)
    world.wait(RETENTION_MS // 2)
    world.commit(None, p1=7)

    world.wait(RETENTION_MS // 2 + CHECK_MS)

    assert world.committed(0, 1) == [-1, 7]


def test_a_commit_may_say_how_long_it_is_to_be_kept() -> None:
    """As up to OffsetCommit 4."""
    world = elected()
    world.answer(
        replace(commit_of(None, p0=5), version=4, retention_time_ms=CHECK_MS), OffsetCommitResponse
    )

    world.wait(2 * CHECK_MS)

    assert world.coordinator.groups == {}


def test_the_offsets_of_what_a_group_consumes_are_kept() -> None:
    """As long as it does; those of a topic that it has given up are not."""
    world = elected()
    (joined,) = world.stable(1)
    request = commit_of(joined, p0=5)
    other = replace(request.topics[0], name="other")
    world.answer(replace(request, topics=(*request.topics, other)), OffsetCommitResponse)
    group = world.group()
    group.members[joined.member_id].session_timeout_ms = 2 * RETENTION_MS
    world.heartbeat(joined)

    world.wait(RETENTION_MS + CHECK_MS)

    assert group.state is GroupState.STABLE
    assert list(group.offsets) == [(TOPIC, 0)]
