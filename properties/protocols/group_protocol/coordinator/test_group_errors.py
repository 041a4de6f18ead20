"""Each error that a group coordinator gives is Kafka's in the same situation: one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from herdproof.protocols.group_protocol.messages import (
    VERSIONS,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    Error,
    GroupProtocol,
    GroupRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    PartitionToCommit,
    SyncGroupRequest,
    SyncGroupResponse,
    TopicToCommit,
    TopicToFetch,
)
from herdproof.protocols.group_protocol.settings import BadGroupSettings, GroupSettings
from properties.protocols.group_protocol.coordinator.group_world import (
    GROUP,
    QUICK,
    REBALANCE_MS,
    SESSION_MS,
    TOPIC,
    CoordinatorAlone,
    commit_of,
    errors_of,
    fetch_of,
    join_of,
    wants,
)

Situation = Callable[[CoordinatorAlone], Error]


def join(world: CoordinatorAlone, member_id: str = "", **fields: object) -> Error:
    """The error that a join is answered with."""
    return world.answer(join_of(member_id, **fields), JoinGroupResponse).error


def static(world: CoordinatorAlone, member_id: str = "") -> int:
    """A static member joins."""
    return world.ask(join_of(member_id, group_instance_id="i"))


def sync_of(joined: JoinGroupResponse) -> SyncGroupRequest:
    """A member asks for its assignment."""
    return SyncGroupRequest(
        version=5, group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id
    )


def sync(world: CoordinatorAlone, request: SyncGroupRequest) -> Error:
    """The error that a sync is answered with."""
    return world.answer(request, SyncGroupResponse).error


def commit(world: CoordinatorAlone, joined: JoinGroupResponse | None, **fields: object) -> Error:
    """The error that a commit of one partition is answered with."""
    request = replace(commit_of(joined, p0=1), **fields)  # type: ignore[arg-type]
    (error,) = errors_of(world.answer(request, OffsetCommitResponse))
    return error


def delete(world: CoordinatorAlone, name: str = GROUP) -> Error:
    """The error that the deletion of a group is answered with."""
    told = world.answer(DeleteGroupsRequest(version=2, groups=(name,)), DeleteGroupsResponse)
    return told.results[0].error


def delete_offset(world: CoordinatorAlone, name: str = GROUP, topic: str = TOPIC) -> Error:
    """The error that the deletion of an offset is answered with."""
    request = OffsetDeleteRequest(group_id=name, topics=(TopicToFetch(topic, (0,)),))
    told = world.answer(request, OffsetDeleteResponse)
    return told.error or told.topics[0].partitions[0].error


def leave(world: CoordinatorAlone, member_id: str, instance: str | None = None) -> Error:
    """The error that the leave of a member is answered with."""
    return world.leave(LeavingMember(member_id, instance)).members[0].error


# ── Situations ──────────────────────────────────────────────────────────────────────────────


def of_a_static_member(deed: Callable[[CoordinatorAlone, str], Error]) -> Situation:
    """Somebody goes on under the member id that a static member had before it came back."""

    def situation(world: CoordinatorAlone) -> Error:
        caller = static(world)
        world.wait(0)
        joined = world.joined(caller)
        world.sync(joined, {joined.member_id: (0,)})
        world.joined(static(world))
        return deed(world, joined.member_id)

    return situation


def beside_a_stable_member(
    deed: Callable[[CoordinatorAlone, JoinGroupResponse], Error],
) -> Situation:
    """There is a stable group of one."""
    return lambda world: deed(world, world.stable(1)[0])


def while_members_rejoin(
    deed: Callable[[CoordinatorAlone, JoinGroupResponse], Error],
) -> Situation:
    """There was a stable group of one, and another one joins."""

    def situation(world: CoordinatorAlone) -> Error:
        (joined,) = world.stable(1)
        world.join()
        return deed(world, joined)

    return situation


def before_the_leader_assigns(
    deed: Callable[[CoordinatorAlone, JoinGroupResponse], Error],
) -> Situation:
    """The one member has joined, and not assigned."""

    def situation(world: CoordinatorAlone) -> Error:
        caller = world.join()
        world.wait(0)
        return deed(world, world.joined(caller))

    return situation


def of_another_type(deed: Callable[[CoordinatorAlone], Error]) -> Situation:
    """There is a stable group of one, which does not consume."""

    def situation(world: CoordinatorAlone) -> Error:
        caller = world.join(protocol_type="connect", protocols=(GroupProtocol("eager", b"x"),))
        world.wait(0)
        world.sync(world.joined(caller))
        return deed(world)

    return situation


def a_member_of_two(world: CoordinatorAlone) -> Error:
    """A member commits for the partition of the other."""
    return commit(world, world.stable(2)[1])


def too_long_a_metadata(world: CoordinatorAlone, joined: JoinGroupResponse | None) -> Error:
    """A member commits more beside its offset than is kept."""
    most = world.settings.offset_metadata_max_bytes
    partition = PartitionToCommit(0, 1, metadata="x" * (most + 1))
    return commit(world, joined, topics=(TopicToCommit(TOPIC, (partition,)),))


def heartbeat(world: CoordinatorAlone, request: HeartbeatRequest) -> Error:
    """The error that a heartbeat is answered with."""
    return world.answer(request, HeartbeatResponse).error


HEARTBEAT = HeartbeatRequest(version=4, group_id=GROUP, generation_id=1, member_id="stranger")
STRANGER = JoinGroupResponse(generation_id=1, member_id="stranger")

TABLE: Mapping[str, tuple[Error, Situation]] = {
    # JoinGroup
    "a join names no group": (
        Error.INVALID_GROUP_ID, lambda world: join(world, group_id="")),
    "a join asks for too short a session": (
        Error.INVALID_SESSION_TIMEOUT, lambda world: join(world, session_timeout_ms=5_999)),
    "a join asks for too long a session": (
        Error.INVALID_SESSION_TIMEOUT, lambda world: join(world, session_timeout_ms=1_800_001)),
    "a new member of today has no id yet": (
        Error.MEMBER_ID_REQUIRED, lambda world: join(world, version=4)),
    "a stranger joins a group that there is not": (
        Error.UNKNOWN_MEMBER_ID, lambda world: join(world, "stranger")),
    "a stranger joins": (
        Error.UNKNOWN_MEMBER_ID,
        beside_a_stable_member(lambda world, _: join(world, "stranger"))),
    "an unknown static member rejoins": (
        Error.UNKNOWN_MEMBER_ID,
        beside_a_stable_member(lambda world, it: join(world, it.member_id, group_instance_id="i"))),
    "a join of another type": (
        Error.INCONSISTENT_GROUP_PROTOCOL,
        beside_a_stable_member(lambda world, _: join(world, protocol_type="connect"))),
    "a join without a protocol in common": (
        Error.INCONSISTENT_GROUP_PROTOCOL,
        beside_a_stable_member(lambda world, _: join(world, protocols=(wants(name="sticky"),)))),
    "a first join without a protocol": (
        Error.INCONSISTENT_GROUP_PROTOCOL, lambda world: join(world, protocols=())),
    "a first join without a type": (
        Error.INCONSISTENT_GROUP_PROTOCOL, lambda world: join(world, protocol_type="")),
    "a join under the old id of a static member": (
        Error.FENCED_INSTANCE_ID,
        of_a_static_member(lambda world, old: join(world, old, group_instance_id="i"))),
    # SyncGroup
    "a sync names no group": (
        Error.INVALID_GROUP_ID,
        lambda world: sync(world, replace(sync_of(STRANGER), group_id=""))),
    "a sync of a group that there is not": (
        Error.UNKNOWN_MEMBER_ID, lambda world: sync(world, sync_of(STRANGER))),
    "a stranger syncs": (
        Error.UNKNOWN_MEMBER_ID,
        beside_a_stable_member(lambda world, _: sync(world, sync_of(STRANGER)))),
    "a sync of another generation": (
        Error.ILLEGAL_GENERATION,
        beside_a_stable_member(
            lambda world, it: sync(world, replace(sync_of(it), generation_id=2)))),
    "a sync of another type": (
        Error.INCONSISTENT_GROUP_PROTOCOL,
        beside_a_stable_member(
            lambda world, it: sync(world, replace(sync_of(it), protocol_type="connect")))),
    "a sync of another protocol": (
        Error.INCONSISTENT_GROUP_PROTOCOL,
        beside_a_stable_member(
            lambda world, it: sync(world, replace(sync_of(it), protocol_name="sticky")))),
    "a sync while members rejoin": (
        Error.REBALANCE_IN_PROGRESS,
        while_members_rejoin(lambda world, it: sync(world, sync_of(it)))),
    "a sync under the old id of a static member": (
        Error.FENCED_INSTANCE_ID,
        of_a_static_member(
            lambda world, old: sync(
                world, SyncGroupRequest(
                    group_id=GROUP, generation_id=1, member_id=old, group_instance_id="i")))),
    # Heartbeat
    "a heartbeat names no group": (
        Error.INVALID_GROUP_ID, lambda world: heartbeat(world, replace(HEARTBEAT, group_id=""))),
    "a heartbeat of a group that there is not": (
        Error.UNKNOWN_MEMBER_ID, lambda world: heartbeat(world, HEARTBEAT)),
    "a heartbeat of a stranger": (
        Error.UNKNOWN_MEMBER_ID,
        beside_a_stable_member(lambda world, _: world.heartbeat(STRANGER))),
    "a heartbeat of another generation": (
        Error.ILLEGAL_GENERATION,
        beside_a_stable_member(lambda world, it: world.heartbeat(it, generation_id=0))),
    "a heartbeat while members rejoin": (
        Error.REBALANCE_IN_PROGRESS, while_members_rejoin(lambda world, it: world.heartbeat(it))),
    "a heartbeat before the leader assigns": (
        Error.NONE, before_the_leader_assigns(lambda world, it: world.heartbeat(it))),
    "a heartbeat under the old id of a static member": (
        Error.FENCED_INSTANCE_ID,
        of_a_static_member(
            lambda world, old: world.heartbeat(
                replace(STRANGER, member_id=old), group_instance_id="i"))),
    # LeaveGroup
    "a leave names no group": (
        Error.INVALID_GROUP_ID,
        lambda world: world.answer(
            LeaveGroupRequest(group_id="", members=()), LeaveGroupResponse).error),
    "a leave of a group that there is not": (
        Error.UNKNOWN_MEMBER_ID, lambda world: leave(world, "stranger")),
    "a stranger leaves": (
        Error.UNKNOWN_MEMBER_ID, beside_a_stable_member(lambda world, _: leave(world, "stranger"))),
    "nobody is made to leave": (
        Error.UNKNOWN_MEMBER_ID, beside_a_stable_member(lambda world, _: leave(world, ""))),
    "an unknown static member is made to leave": (
        Error.UNKNOWN_MEMBER_ID, beside_a_stable_member(lambda world, _: leave(world, "", "i"))),
    "a leave under the old id of a static member": (
        Error.FENCED_INSTANCE_ID, of_a_static_member(lambda world, old: leave(world, old, "i"))),
    "the one stranger that leaves as of old": (
        Error.UNKNOWN_MEMBER_ID,
        beside_a_stable_member(
            lambda world, _: world.leave(LeavingMember("stranger"), version=2).error)),
    # OffsetCommit
    "a commit of a group that there is not": (
        Error.GROUP_ID_NOT_FOUND, lambda world: commit(world, STRANGER)),
    "a commit of a group that there is not, as of old": (
        Error.ILLEGAL_GENERATION, lambda world: commit(world, STRANGER, version=8)),
    "a commit without any group": (Error.NONE, lambda world: commit(world, None)),
    "a commit without membership while there are members": (
        Error.UNKNOWN_MEMBER_ID, beside_a_stable_member(lambda world, _: commit(world, None))),
    "a commit of a stranger": (
        Error.UNKNOWN_MEMBER_ID, beside_a_stable_member(lambda world, _: commit(world, STRANGER))),
    "a commit of an old generation": (
        Error.ILLEGAL_GENERATION,
        beside_a_stable_member(lambda world, it: commit(world, it, generation_id=0))),
    "a member's commit without a generation": (
        Error.ILLEGAL_GENERATION,
        beside_a_stable_member(lambda world, it: commit(world, it, generation_id=-1))),
    "a commit while members rejoin": (
        Error.NONE, while_members_rejoin(lambda world, it: commit(world, it))),
    "a commit before the leader assigns": (
        Error.REBALANCE_IN_PROGRESS,
        before_the_leader_assigns(lambda world, it: commit(world, it))),
    "a commit under the old id of a static member": (
        Error.FENCED_INSTANCE_ID,
        of_a_static_member(
            lambda world, old: commit(
                world, replace(STRANGER, member_id=old), group_instance_id="i"))),
    "a commit for a partition of another member": (Error.ILLEGAL_GENERATION, a_member_of_two),
    "a commit with too much beside it": (
        Error.OFFSET_METADATA_TOO_LARGE, lambda world: too_long_a_metadata(world, None)),
    # OffsetDelete, DeleteGroups
    "offsets of no group are deleted": (
        Error.INVALID_GROUP_ID, lambda world: delete_offset(world, "")),
    "offsets of a group that there is not are deleted": (
        Error.GROUP_ID_NOT_FOUND, delete_offset),
    "offsets of a subscribed topic are deleted": (
        Error.GROUP_SUBSCRIBED_TO_TOPIC,
        beside_a_stable_member(lambda world, _: delete_offset(world))),
    "offsets of a topic that nobody subscribes to are deleted": (
        Error.NONE, beside_a_stable_member(lambda world, _: delete_offset(world, topic="other"))),
    "offsets of a group that does not consume are deleted": (
        Error.NON_EMPTY_GROUP, of_another_type(delete_offset)),
    "a group without a name is deleted": (
        Error.GROUP_ID_NOT_FOUND, lambda world: delete(world, "")),
    "a group that there is not is deleted": (Error.GROUP_ID_NOT_FOUND, delete),
    "a group with members is deleted": (
        Error.NON_EMPTY_GROUP, beside_a_stable_member(lambda world, _: delete(world))),
}  # fmt: skip


@pytest.mark.parametrize("situation", TABLE)
def test_the_error_is_kafkas(situation: str) -> None:
    """Whoever asks so is told so."""
    expected, happens = TABLE[situation]

    assert happens(CoordinatorAlone().elected()) is expected


def test_a_group_has_no_more_members_than_its_limit() -> None:
    """Neither while it is stable, nor while members join anew: then the last to come are left."""
    world = CoordinatorAlone(replace(QUICK, group_max_size=1)).elected()
    (joined,) = world.stable(1)

    assert join(world) is Error.GROUP_MAX_SIZE_REACHED
    caller = world.join(joined.member_id)
    assert world.joined(caller).generation_id == 2


def test_a_joining_group_counts_those_who_have_joined() -> None:
    """The limit is of those that joined in time, not of those that there were."""
    world = CoordinatorAlone(replace(QUICK, group_max_size=2)).elected()
    first, second = world.stable(2)
    world.leave(LeavingMember(second.member_id))

    callers = [world.ask(join_of(version=3)) for _ in range(2)]

    assert join(world, first.member_id) is Error.GROUP_MAX_SIZE_REACHED
    world.wait(REBALANCE_MS)
    assert [world.joined(caller).generation_id for caller in callers] == [2, 2]


def test_there_are_no_more_groups_than_the_limit() -> None:
    """One more is begun neither by who joins nor by who commits; those that there are go on."""
    world = CoordinatorAlone(replace(QUICK, max_groups=2)).elected()
    (joined,) = world.stable(1)
    assert committed(world, "offsets") is Error.NONE

    assert join(world, group_id="more") is Error.POLICY_VIOLATION
    assert committed(world, "more") is Error.POLICY_VIOLATION
    assert [*world.coordinator.groups] == [GROUP, "offsets"] == [*world.store.groups]
    assert world.heartbeat(joined) is Error.NONE
    assert committed(world, "offsets") is Error.NONE
    world.joined(world.join(joined.member_id))


def test_there_are_no_more_pending_members_than_the_limit() -> None:
    """In all groups together, until those have joined, left or given up, or their group is gone."""
    world = CoordinatorAlone(replace(QUICK, max_pending_members=2)).elected()

    def asks(group: str) -> JoinGroupResponse:
        return world.answer(join_of(group_id=group), JoinGroupResponse)

    full = Error.COORDINATOR_LOAD_IN_PROGRESS
    given, other = asks(GROUP), asks("other")
    assert (given.error, other.error) == 2 * (Error.MEMBER_ID_REQUIRED,)
    assert asks(GROUP).error is full
    world.ask(join_of(given.member_id))
    assert asks(GROUP).error is Error.MEMBER_ID_REQUIRED
    assert asks("other").error is full
    world.wait(SESSION_MS)
    assert asks("other").error is Error.MEMBER_ID_REQUIRED
    again = asks("other")
    assert asks("third").error is full
    leaving = LeaveGroupRequest(
        version=5, group_id="other", members=(LeavingMember(again.member_id),)
    )
    assert world.answer(leaving, LeaveGroupResponse).error is Error.NONE
    assert asks("third").error is Error.MEMBER_ID_REQUIRED
    world.answer(DeleteGroupsRequest(groups=("other",)), DeleteGroupsResponse)
    assert asks("third").error is Error.MEMBER_ID_REQUIRED
    world.resign()
    world.elected(2)
    assert asks("third").error is Error.MEMBER_ID_REQUIRED


def committed(world: CoordinatorAlone, group: str) -> Error:
    """What somebody is told who commits by hand in a group."""
    (error,) = errors_of(
        world.answer(replace(commit_of(None, p0=1), group_id=group), OffsetCommitResponse)
    )
    return error


# ── Who does not coordinate ─────────────────────────────────────────────────────────────────

REQUESTS: Mapping[str, GroupRequest] = {
    "JoinGroup": join_of(),
    "SyncGroup": sync_of(STRANGER),
    "Heartbeat": HEARTBEAT,
    "LeaveGroup": LeaveGroupRequest(version=5, group_id=GROUP, members=()),
    "OffsetCommit": commit_of(None, p0=1),
    "OffsetFetch": fetch_of(GROUP),
    "OffsetFetch 1": replace(fetch_of(GROUP, version=1), groups=()),
    "OffsetDelete": OffsetDeleteRequest(group_id=GROUP, topics=()),
    "DescribeGroups": DescribeGroupsRequest(groups=(GROUP,)),
    "ListGroups": ListGroupsRequest(),
    "DeleteGroups": DeleteGroupsRequest(groups=(GROUP,)),
}


def errors_told(answer: object) -> set[Error]:
    """All errors that a response names, wherever."""
    match answer:
        case OffsetCommitResponse():
            return set(errors_of(answer))
        case OffsetFetchResponse(groups=groups) | DescribeGroupsResponse(groups=groups):
            return {group.error for group in groups}
        case DeleteGroupsResponse(results=results):
            return {result.error for result in results}
        case _:
            return {answer.error}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", [name for name in REQUESTS if name not in ("OffsetFetch 1", "Heartbeat")]
)
def test_who_still_reads_its_groups_says_so(name: str) -> None:
    """Whatever is asked: it may know the answer soon."""
    world = CoordinatorAlone()
    world.coordinator.load(world.now_ms, 1)

    told = errors_told(world.answers[world.ask(REQUESTS[name])])

    assert told == {Error.COORDINATOR_LOAD_IN_PROGRESS}


def test_a_heartbeat_waits_until_the_groups_are_read() -> None:
    """Kafka takes it blindly: whoever is a member no longer would have its lease renewed."""
    world = CoordinatorAlone()
    world.coordinator.load(world.now_ms, 1)

    caller, other = world.ask(REQUESTS["Heartbeat"]), world.ask(REQUESTS["Heartbeat"])
    waits = caller not in world.answers
    world.elected()

    assert waits
    assert errors_told(world.answers[caller]) == {Error.NOT_COORDINATOR}
    world.coordinator.load(world.now_ms, 2)
    again = world.ask(REQUESTS["Heartbeat"])
    world.lead()
    assert errors_told(world.answers[again]) == {Error.UNKNOWN_MEMBER_ID}
    assert other in world.answers


def test_every_request_is_in_the_tables() -> None:
    """No request is forgotten here."""
    assert {type(request) for request in REQUESTS.values()} == set(VERSIONS)


def test_an_old_fetch_has_its_error_in_each_partition() -> None:
    """OffsetFetch 1 has no other room for it."""
    world = CoordinatorAlone()
    asked = replace(fetch_of(GROUP, version=1).groups[0], topics=(TopicToFetch(TOPIC, (0, 1)),))
    request = replace(fetch_of(GROUP, version=1), groups=(asked,))

    (group,) = world.answer(request, OffsetFetchResponse).groups

    assert group.error is Error.NONE
    assert {each.error for each in group.topics[0].partitions} == {Error.NOT_COORDINATOR}


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_there_is_not_is_dead_and_not_found(version: int) -> None:
    """DescribeGroups has an error for it from version 6."""
    world = CoordinatorAlone().elected()
    request = DescribeGroupsRequest(version=version, groups=("nothing",))

    (group,) = world.answer(request, DescribeGroupsResponse).groups

    assert group.state == "Dead"
    assert group.error is (Error.GROUP_ID_NOT_FOUND if version >= 6 else Error.NONE)
    assert bool(group.error_message) == (version >= 6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"group_min_session_timeout_ms": 0},
        {"group_max_session_timeout_ms": 5_999},
        {"group_initial_rebalance_delay_ms": -1},
        {"group_max_size": 0},
        {"offset_metadata_max_bytes": -1},
        {"offsets_retention_minutes": 0},
        {"offsets_retention_check_interval_ms": 0},
        {"group_new_member_join_timeout_ms": 0},
        {"max_groups": 0},
        {"max_pending_members": 0},
        {"commits": "any"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_setting_that_cannot_work_is_named(wrong: dict[str, object]) -> None:
    """With what it is, and what it may be."""
    (name,) = wrong

    with pytest.raises(BadGroupSettings, match=name) as refused:
        GroupSettings(**wrong)  # type: ignore[arg-type]

    assert str(next(iter(wrong.values()))) in str(refused.value)


def test_a_list_names_groups_in_order_by_state_and_type() -> None:
    """Filters do not mind case."""
    world = CoordinatorAlone().elected()
    world.stable(1)
    commit(world, None, group_id="alone")

    def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        told = world.answer(request, ListGroupsResponse)
        return [(group.group_id, group.state) for group in told.groups]

    both = [("alone", "Empty"), (GROUP, "Stable")]
    assert listed() == listed(types=("Classic",)) == both
    assert listed(states=("stable",)) == [(GROUP, "Stable")]
    assert listed(types=("consumer",)) == []
