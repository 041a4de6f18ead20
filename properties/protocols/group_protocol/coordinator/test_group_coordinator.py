"""What a group coordinator does: members, generations, timers, static members, fail-over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from herdproof.conformance.graphs.graph import explored
from herdproof.protocols.group_protocol.coordinator.states import (
    NEXT,
    GroupState,
    mermaid,
    transition,
)
from herdproof.protocols.group_protocol.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    Error,
    JoinGroupResponse,
    LeavingMember,
    SyncGroupResponse,
)
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdspec.protocols.group_protocol.plan import BOUND
from herdspec.protocols.group_protocol.properties import HELD
from herdspec.protocols.group_protocol.values import GroupState as SpecState
from properties.protocols.group_protocol.coordinator.group_world import (
    GROUP,
    QUICK,
    REBALANCE_MS,
    SESSION_MS,
    CoordinatorAlone,
    join_of,
    share,
    wants,
)

DELAYED = GroupSettings()
PAIRS = [(before, after) for before in GroupState for after in GroupState]


def elected(settings: GroupSettings = QUICK, *, holds: bool = False) -> CoordinatorAlone:
    """A coordinator that leads."""
    return CoordinatorAlone(settings, holds).elected()


# ── States ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].value}-{pair[1].value}")
def test_a_group_goes_only_where_the_table_says(pair: tuple[GroupState, GroupState]) -> None:
    """Whatever else the core were about to do is a mistake of its own."""
    before, after = pair

    if after in NEXT[before]:
        assert transition(before, after) is after
    else:
        with pytest.raises(AssertionError, match=before.value):
            transition(before, after)


def test_the_specs_group_goes_where_the_table_says() -> None:
    """From each state to each that the table has, and to no other, but where it is loaded."""
    seen = explored(HELD, {"Broker": 1, "Member": 2, "Partition": 1}, faults=1, bound=BOUND)
    assert seen.edges is not None
    names = [state.name for state in SpecState]
    state = seen.packing.read(seen.rows, ("state", ()))
    steps = {
        (names[before], names[after])
        for instance, before, after in zip(
            seen.edges.instance, state[seen.edges.source], state[seen.edges.target], strict=True
        )
        if before != after and seen.ground.instances[instance].action.name != "load_group"
    }

    assert steps == {
        (before.name, after.name) for before in NEXT for after in NEXT[before] if before != after
    }


def test_the_diagram_is_drawn_from_the_table() -> None:
    """It has each arrow, and none that leads nowhere new."""
    arrows = mermaid().splitlines()[1:]

    assert len(arrows) == sum(len(after - {before}) for before, after in NEXT.items())
    assert "  CompletingRebalance --> Stable" in arrows


# ── Joining ─────────────────────────────────────────────────────────────────────────────────


def test_an_empty_group_waits_for_more_to_join() -> None:
    """Three seconds; three more for as long as somebody new has come, up to the time-out."""
    world = elected(DELAYED)
    first = world.join()

    world.wait(2_999)
    second = world.join()
    world.wait(3_000)
    assert first not in world.answers
    world.wait(1)

    assert {world.joined(caller).generation_id for caller in (first, second)} == {1}


def test_nobody_waits_for_more_beyond_the_rebalance_timeout() -> None:
    """However many keep coming."""
    world = elected(DELAYED)
    first = world.join(rebalance_timeout_ms=7_000)

    for _ in range(3):
        world.wait(2_300)
        assert first not in world.answers
        world.join(rebalance_timeout_ms=7_000)
    world.wait(100)

    assert world.joined(first).generation_id == 1


def test_the_leader_learns_of_all_members_and_nobody_else_of_any() -> None:
    """With what each said of itself in the protocol that was chosen."""
    joined = elected().stable(3)

    leader, *others = joined
    assert [each.member_id for each in leader.members] == sorted(j.member_id for j in joined)
    assert {each.metadata for each in leader.members} == {wants().metadata}
    assert all(other.members == () and other.leader == leader.member_id for other in others)


def test_the_protocol_is_the_one_that_most_like_best_of_those_that_all_know() -> None:
    """Whoever knows more than the others cannot outvote them for it."""
    world = elected()
    likes = [("sticky", "range"), ("range", "sticky"), ("new", "range", "sticky")]

    callers = [world.join(protocols=tuple(wants(name=name) for name in names)) for names in likes]
    world.wait(0)

    assert {world.joined(caller).protocol_name for caller in callers} == {"range"}


def test_a_member_that_missed_the_answer_gets_it_again() -> None:
    """Without a rebalance; the leader of a stable group has a reason, and gets one."""
    world = elected()
    leader, follower = world.stable(2)

    again = world.joined(world.join(follower.member_id))
    assert again == follower
    assert world.group().state is GroupState.STABLE

    world.join(leader.member_id)
    assert world.heartbeat(follower) is Error.REBALANCE_IN_PROGRESS


def test_a_member_that_wants_something_else_begins_a_rebalance() -> None:
    """What it says of itself counts from the next generation."""
    world = elected()
    leader, follower = world.stable(2)

    caller = world.join(follower.member_id, protocols=(wants("other"),))
    assert world.heartbeat(leader) is Error.REBALANCE_IN_PROGRESS
    world.join(leader.member_id)

    assert world.joined(caller).generation_id == 2


def test_who_does_not_rejoin_in_time_is_a_member_no_longer() -> None:
    """The others go on without it when the longest rebalance time-out is over."""
    world = elected()
    leader, follower = world.stable(2)
    caller = world.join(leader.member_id)

    for _ in range(REBALANCE_MS // 5_000 - 1):
        world.wait(5_000)
        world.heartbeat(follower)
    assert caller not in world.answers
    world.wait(5_000)

    assert [each.member_id for each in world.joined(caller).members] == [leader.member_id]
    assert world.heartbeat(follower) is Error.UNKNOWN_MEMBER_ID


def test_a_join_that_is_tried_again_on_another_connection_takes_the_place_of_the_first() -> None:
    """Both are answered; the first is told to join anew, though nobody may be listening."""
    world = elected()
    leader, follower = world.stable(2)

    first = world.join(leader.member_id)
    second = world.join(leader.member_id)
    world.join(follower.member_id)

    assert world.answered(first, JoinGroupResponse).error is Error.REBALANCE_IN_PROGRESS
    assert world.joined(second).generation_id == 2


def test_an_id_that_nobody_joins_with_is_forgotten() -> None:
    """After the session time-out that was asked for; those who wait go on."""
    world = elected()
    (leader,) = world.stable(1)
    pending = world.answer(join_of(), JoinGroupResponse).member_id
    caller = world.join(leader.member_id)
    assert caller not in world.answers

    world.wait(SESSION_MS)

    assert world.joined(caller).generation_id == 2
    assert world.answer(join_of(pending), JoinGroupResponse).error is Error.UNKNOWN_MEMBER_ID


def test_a_new_member_is_waited_for_five_minutes() -> None:
    """Whoever has never been answered may be long gone, and cannot be told from one that waits."""
    world = elected()
    (leader,) = world.stable(1)
    caller = world.join(rebalance_timeout_ms=3_600_000)

    for _ in range(60):
        assert caller not in world.answers
        world.wait(5_000)
        world.heartbeat(leader)

    assert world.answered(caller, JoinGroupResponse).error is Error.UNKNOWN_MEMBER_ID


# ── Assignments ─────────────────────────────────────────────────────────────────────────────


def test_nobody_knows_its_part_before_the_leader_has_assigned() -> None:
    """Then each knows its own; who is left out has nothing."""
    world = elected()
    callers = [world.join() for _ in range(3)]
    world.wait(0)
    leader, second, third = (world.joined(caller) for caller in callers)

    waiting = [world.sync(second), world.sync(third)]
    assert not set(waiting) & set(world.answers)
    first = world.sync(leader, {leader.member_id: (0,), second.member_id: (1, 2)})

    parts = [world.synced(caller).assignment for caller in (first, *waiting)]
    assert parts == [share(0), share(1, 2), b""]


def test_who_never_asks_for_its_part_is_a_member_no_longer() -> None:
    """So long as a rebalance may take, the others wait for nothing; then all join anew."""
    world = elected()
    callers = [world.join() for _ in range(2)]
    world.wait(0)
    leader, silent = (world.joined(caller) for caller in callers)
    world.sync(leader, {leader.member_id: (0,)})

    for _ in range(REBALANCE_MS // 5_000):
        assert world.heartbeat(leader) is Error.NONE
        assert world.heartbeat(silent) is Error.NONE
        world.wait(5_000)

    assert world.heartbeat(leader) is Error.REBALANCE_IN_PROGRESS
    assert world.heartbeat(silent) is Error.UNKNOWN_MEMBER_ID


def test_a_rebalance_that_comes_before_the_assignments_sends_all_back_to_join() -> None:
    """Whoever waits for its part is told so."""
    world = elected()
    callers = [world.join() for _ in range(2)]
    world.wait(0)
    leader, follower = (world.joined(caller) for caller in callers)
    waiting = world.sync(follower)

    world.leave(LeavingMember(leader.member_id))

    assert world.synced(waiting).error is Error.REBALANCE_IN_PROGRESS
    assert world.group().leader == follower.member_id


# ── Sessions ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("alive", ["heartbeat", "commit"])
def test_a_member_that_is_heard_of_stays(alive: str) -> None:
    """By its heartbeats, or its commits; without either it is a member no longer."""
    world = elected()
    (joined,) = world.stable(1)

    for _ in range(5):
        world.wait(SESSION_MS - 1)
        if alive == "heartbeat":
            assert world.heartbeat(joined) is Error.NONE
        else:
            assert world.commit(joined, p0=1) == [Error.NONE]
    world.wait(SESSION_MS)

    assert world.group().state is GroupState.EMPTY
    assert world.group().generation == 2


def test_a_member_that_waits_for_the_others_needs_no_heartbeat() -> None:
    """It cannot send one."""
    world = elected()
    leader, follower = world.stable(2)
    caller = world.join(leader.member_id)

    for _ in range(REBALANCE_MS // 5_000 - 1):
        world.wait(5_000)
        assert world.heartbeat(follower) is Error.REBALANCE_IN_PROGRESS
    world.join(follower.member_id)

    assert world.joined(caller).generation_id == 2


def test_a_shorter_session_counts_from_when_it_is_asked_for() -> None:
    """A timer that was set for the longer one is not waited for."""
    world = elected()
    caller = world.join(session_timeout_ms=60_000)
    world.wait(0)
    leader = world.joined(caller)
    world.sync(leader)
    leader = world.joined(world.join(leader.member_id, session_timeout_ms=SESSION_MS))
    world.sync(leader)

    world.wait(SESSION_MS)

    assert world.group().state is GroupState.EMPTY


def test_who_asks_for_its_assignment_anew_is_heard_of() -> None:
    """Its session goes on from there: our client may consume for as long as that."""
    world = elected()
    (joined,) = world.stable(1)
    world.wait(SESSION_MS - 1)
    world.sync(joined)

    world.wait(SESSION_MS - 1)

    assert world.heartbeat(joined) is Error.NONE


# ── Static members ──────────────────────────────────────────────────────────────────────────


def static_and_dynamic(world: CoordinatorAlone) -> tuple[JoinGroupResponse, JoinGroupResponse]:
    """A stable group of a static leader and a follower."""
    callers = [world.join(group_instance_id="i"), world.join()]
    world.wait(0)
    leader, follower = (world.joined(caller) for caller in callers)
    world.sync(leader, {leader.member_id: (0,), follower.member_id: (1,)})
    world.sync(follower)
    return leader, follower


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_static_member_that_comes_back_has_what_it_had(version: int) -> None:
    """Without a rebalance; a leader is told from version 9 that it need not assign."""
    world = elected()
    leader, follower = static_and_dynamic(world)

    again = world.joined(world.join(version=version, group_instance_id="i"))

    assert again.generation_id == leader.generation_id
    assert again.member_id != leader.member_id
    assert again.skip_assignment == bool(again.members) == (version == 9)
    assert again.leader == (again.member_id if version == 9 else leader.member_id)
    assert world.synced(world.sync(again)).assignment == share(0)
    assert world.commit(again, p0=1) == [Error.NONE]
    assert world.heartbeat(follower) is Error.NONE


def test_two_with_one_instance_id_fence_each_other_while_they_wait() -> None:
    """The later one is the member."""
    world = elected(DELAYED)
    first = world.join(group_instance_id="i")
    second = world.join(group_instance_id="i")

    world.wait(3_000)

    assert world.answered(first, JoinGroupResponse).error is Error.FENCED_INSTANCE_ID
    assert [each.member_id for each in world.joined(second).members] == ["i-2"]


def test_a_static_member_that_likes_another_protocol_begins_a_rebalance() -> None:
    """If that changes which one is chosen."""
    world = elected()
    caller = world.join(group_instance_id="i")
    world.wait(0)
    leader = world.joined(caller)
    world.sync(leader, {leader.member_id: (0,)})

    again = world.joined(world.join(group_instance_id="i", protocols=(wants(name="new"), wants())))

    assert (again.generation_id, again.protocol_name) == (2, "new")


def test_a_static_member_does_not_leave_by_not_rejoining() -> None:
    """Only when its session is over; its place in the next generation is kept."""
    world = elected()
    leader, follower = static_and_dynamic(world)
    caller = world.join(follower.member_id, protocols=(wants("other"),))

    for _ in range(REBALANCE_MS // 5_000):
        world.wait(5_000)
        world.heartbeat(leader)

    told = world.joined(caller)
    assert told.leader == follower.member_id
    assert leader.member_id in [each.member_id for each in told.members]


def test_a_static_member_can_be_made_to_leave_by_its_name() -> None:
    """By an administrator, who does not know its member id."""
    world = elected()
    leader, _ = static_and_dynamic(world)

    told = world.leave(LeavingMember("", "i"), LeavingMember("stranger"))

    assert [each.error for each in told.members] == [Error.NONE, Error.UNKNOWN_MEMBER_ID]
    assert world.heartbeat(leader) is Error.UNKNOWN_MEMBER_ID


def test_a_static_member_whose_new_id_is_not_stored_keeps_the_old_one() -> None:
    """Whoever came is told of an error, and may try again."""
    world = elected(holds=True)
    callers = [world.join(group_instance_id="i")]
    world.wait(0)
    world.store_next()
    leader = world.joined(callers[0])
    world.sync(leader, {leader.member_id: (0,)})
    world.store_next()

    caller = world.join(group_instance_id="i", session_timeout_ms=6_000)
    world.store_next(ok=False)

    assert world.answered(caller, JoinGroupResponse).error is Error.UNKNOWN_SERVER_ERROR
    assert world.heartbeat(leader, group_instance_id="i") is Error.NONE
    assert world.group().members[leader.member_id].session_timeout_ms == SESSION_MS


# ── Storing, and fail-over ──────────────────────────────────────────────────────────────────


def test_a_generation_is_told_when_it_is_stored() -> None:
    """And an assignment; whatever comes in between waits, and is then answered in order."""
    world = elected(holds=True)
    caller = world.join()
    world.wait(0)
    assert caller not in world.answers
    world.store_next()
    joined = world.joined(caller)

    sync = world.sync(joined, {joined.member_id: (0,)})
    late = world.sync(joined)
    assert not {sync, late} & set(world.answers)
    world.store_next()

    assert world.synced(sync) == world.synced(late) == SyncGroupResponse(
        protocol_type="consumer", protocol_name="range", assignment=share(0)
    )  # fmt: skip


def test_what_cannot_be_stored_is_told_and_tried_again() -> None:
    """The generation that was not stored is never used again."""
    world = elected(holds=True)
    caller = world.join()
    world.wait(0)
    world.store_next(ok=False)
    told = world.answered(caller, JoinGroupResponse)
    assert told.error is Error.UNKNOWN_SERVER_ERROR

    caller = world.join(told.member_id)
    world.store_next()

    assert world.joined(caller).generation_id == 2


def test_an_assignment_that_cannot_be_stored_is_nobodys() -> None:
    """All who wait for it are told, and join anew."""
    world = elected(holds=True)
    caller = world.join()
    world.wait(0)
    world.store_next()
    joined = world.joined(caller)

    sync = world.sync(joined, {joined.member_id: (0,)})
    world.store_next(ok=False)

    assert world.synced(sync).error is Error.UNKNOWN_SERVER_ERROR
    assert world.heartbeat(joined) is Error.REBALANCE_IN_PROGRESS


def test_the_next_coordinator_goes_on_where_the_last_one_stood() -> None:
    """Members, assignments, offsets and the owners of partitions are what they were."""
    world = elected()
    leader, follower = world.stable(2)
    world.commit(leader, p0=7)

    world.resign()
    world.elected(2)

    assert world.heartbeat(leader) is world.heartbeat(follower) is Error.NONE
    assert world.synced(world.sync(follower)).assignment == share(1)
    assert world.committed(0) == [7]
    assert world.commit(follower, p0=3, p1=4) == [Error.ILLEGAL_GENERATION, Error.NONE]


def test_the_next_coordinator_takes_the_assignments_of_a_generation_that_was_joined() -> None:
    """Whoever was told of the generation syncs there."""
    world = elected()
    caller = world.join()
    world.wait(0)
    joined = world.joined(caller)

    world.resign()
    world.elected(2)
    sync = world.sync(joined, {joined.member_id: (0,)})

    assert world.synced(sync).assignment == share(0)


def test_a_generation_that_was_not_stored_was_never_handed_out() -> None:
    """The next coordinator may use it for another."""
    world = elected(holds=True)
    caller = world.join()
    world.wait(0)

    world.resign()

    assert world.answered(caller, JoinGroupResponse).error is Error.NOT_COORDINATOR
    assert world.elected(2).coordinator.groups == {}


def test_the_sessions_of_the_next_coordinator_begin_when_it_is_elected() -> None:
    """Nobody is thrown out for what the last one missed."""
    world = elected()
    (joined,) = world.stable(1)
    world.resign()
    world.wait(10 * SESSION_MS)

    world.elected(2)
    world.wait(SESSION_MS - 1)
    assert world.heartbeat(joined) is Error.NONE
    world.wait(SESSION_MS)

    assert world.heartbeat(joined) is Error.UNKNOWN_MEMBER_ID


def test_a_group_that_is_too_large_for_the_next_coordinator_is_made_smaller() -> None:
    """The limit was lowered: all join anew, and the last to come are left out."""
    world = elected()
    first, second = world.stable(2)
    smaller = CoordinatorAlone(replace(QUICK, group_max_size=1), store=world.store).elected(2)

    smaller.join(first.member_id)
    told = smaller.answer(join_of(second.member_id), JoinGroupResponse)

    assert told.error is Error.GROUP_MAX_SIZE_REACHED


def test_who_hears_of_a_change_after_its_end_does_nothing() -> None:
    """A write may be reported to a coordinator that was deposed, and elected again."""
    world = elected(holds=True)
    world.join()
    world.wait(0)
    token = world.waiting[0].token
    world.resign()
    world.elected(2)

    assert world.coordinator.stored(world.now_ms, token, True) == []


# ── What is told of a group ─────────────────────────────────────────────────────────────────


def test_a_stable_group_is_described_with_what_its_members_say() -> None:
    """While they join anew, without."""
    world = elected()
    leader, _ = world.stable(2)
    request = DescribeGroupsRequest(version=6, groups=(GROUP,))

    (stable,) = world.answer(request, DescribeGroupsResponse).groups
    world.join(leader.member_id)
    (preparing,) = world.answer(request, DescribeGroupsResponse).groups

    assert (stable.state, stable.protocol_type, stable.protocol_data) == (
        "Stable", "consumer", "range",
    )  # fmt: skip
    assert [(m.metadata, m.assignment) for m in stable.members] == [
        (wants().metadata, share(0)), (wants().metadata, share(1)),
    ]  # fmt: skip
    assert (preparing.state, preparing.protocol_data) == ("PreparingRebalance", "")
    assert [m.metadata for m in preparing.members] == [b"", b""]


def test_the_page_shows_the_states_as_they_are() -> None:
    """What is printed there is the diagram of the table."""
    page = (Path(__file__).parents[4] / "docs" / "group_protocol.md").read_text(encoding="utf-8")

    assert f"<!-- states: drawn -->\n```mermaid\n{mermaid()}\n```\n<!-- end -->" in page
