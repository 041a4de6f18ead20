"""What the client's core does, mechanism by mechanism, under the document's names."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from herdproof.consuming.events import (
    Assigned,
    CommitAsked,
    Committed,
    Consumed,
    Deliver,
    Resolved,
    RevocationHandled,
    Revoked,
    Shutdown,
    StartFetchers,
    StopFetchers,
)
from herdproof.consuming.offsets import NO_OFFSET, NamedPartition, Offset
from herdproof.consuming.subscription import named
from herdproof.protocols.group_protocol.client.assignors.assignor import (
    AssignorFailed,
    MemberSubscription,
    PlainAssignor,
    Plan,
)
from herdproof.protocols.group_protocol.client.assignors.sticky import CooperativeStickyAssignor
from herdproof.protocols.group_protocol.client.core.events import (
    AssignTo,
    CommitResult,
    EndClient,
    Fail,
    FindCoordinatorRequest,
    HangUp,
    MetadataRequest,
    ModesMixed,
    NoOffsetForPartition,
    SendRequest,
    SubscribeTo,
)
from herdproof.protocols.group_protocol.client.core.settings import (
    BadClientSettings,
    ClientSettings,
)
from herdproof.protocols.group_protocol.client.core.states import (
    NEXT,
    MemberState,
    transition,
)
from herdproof.protocols.group_protocol.held.drafted_client import HABITS, printed_client
from herdproof.protocols.group_protocol.messages import (
    NO_GENERATION,
    Error,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from properties.protocols.group_protocol.client.client_world import (
    NODES,
    ClientAlone,
)
from properties.protocols.group_protocol.coordinator.group_world import GROUP, TOPIC

FIRST = Offset(TOPIC, "0", 5)
PLACE = (TOPIC, 0)


# ── Finding the coordinator ─────────────────────────────────────────────────────────────────


def test_the_coordinator_is_looked_up_at_the_least_loaded_node() -> None:
    """Metadata is under way at the first node: the second has fewer InFlightRequests."""
    client = ClientAlone()
    client.holds = (MetadataRequest, FindCoordinatorRequest)

    client.subscribed()

    asked = {type(send.request): send.node for send in client.held}
    assert asked == {MetadataRequest: NODES[0], FindCoordinatorRequest: NODES[1]}


def test_a_poll_ends_without_a_coordinator_and_the_next_one_awaits_the_same_answer() -> None:
    """ensureCoordinatorReady: False when the look-up has not ended in time."""
    client = ClientAlone()
    client.holds = (FindCoordinatorRequest,)
    client.subscribed()

    assert client.poll(50) is None
    client.wait(100)
    assert client.poll(0) is False
    assert len(client.sent(FindCoordinatorRequest)) == 1


def test_a_node_that_does_not_answer_is_left_for_another() -> None:
    """Its connection ends when the time is up, and with the back-off the other one is asked."""
    client = ClientAlone(request_timeout_ms=1_000)
    client.holds = (FindCoordinatorRequest,)
    client.subscribed().poll(60_000)
    (asked,) = client.held

    client.wait(1_200)

    assert HangUp(asked.node) in client.done
    assert client.held[-1].node != asked.node


# ── Joining ─────────────────────────────────────────────────────────────────────────────────


def test_a_join_goes_through_its_states() -> None:
    """JoinGroup for an id, then with it; SyncGroup as the leader; assignment, then listener."""
    client = ClientAlone().stable()

    joins, (sync,) = client.sent(JoinGroupRequest), client.sent(SyncGroupRequest)
    assert [bool(join.member_id) for join in joins] == [False, True]
    assert (joins[1].session_timeout_ms, joins[1].rebalance_timeout_ms) == (10_000, 60_000)
    assert [each.member_id for each in sync.assignments] == [joins[1].member_id]
    places = tuple(NamedPartition(TOPIC, str(number)) for number in range(3))
    kinds = [e for e in client.done if isinstance(e, StartFetchers | Assigned)]
    assert [type(effect) for effect in kinds] == [StartFetchers, Assigned]
    assert client.effects(Assigned) == [Assigned(places)]
    assert client.core.coordinator.generation.protocol == "range"


def test_the_state_follows_its_table() -> None:
    """Whatever is not there is refused."""
    for before, after in product(MemberState, MemberState):
        if after in NEXT[before]:
            assert transition(before, after) is after
        else:
            with pytest.raises(AssertionError, match="does not go from"):
                transition(before, after)


def test_one_join_future_lives_through_several_polls_and_is_reset_when_it_has_ended() -> None:
    """Out of time: False, with the join pending; no heartbeat is sent meanwhile."""
    client = ClientAlone()
    client.holds = (JoinGroupRequest,)
    client.subscribed()

    polls = [client.poll(10)]
    client.wait(6_000)
    polls.append(client.poll(0))
    assert len(client.held) == 1
    assert client.core.coordinator.state is MemberState.REBALANCING
    assert client.sent(HeartbeatRequest) == []
    client.holds = ()
    client.let_through()
    client.poll(60_000)
    client.wait(200)

    assert (*polls, client.poll()) == (None, False, True)
    assert client.core.coordinator.join_future is None
    assert not client.core.coordinator.rejoin_needed_or_pending()


def test_a_join_is_awaited_for_five_seconds_longer_than_the_rebalance() -> None:
    """Then its connection is given up, and the coordinator looked up."""
    client = ClientAlone(max_poll_interval_ms=3_000)
    client.holds = (JoinGroupRequest,)
    client.subscribed()
    (join,) = client.held

    early = [e for e in client.wait(7_800) if isinstance(e, HangUp)]
    late = [e for e in client.wait(300) if isinstance(e, HangUp)]

    assert (early, late) == ([], [HangUp(join.node)])
    assert client.core.coordinator.coordinator_unknown()
    assert client.core.coordinator.state is MemberState.UNJOINED


def test_the_answer_to_a_join_that_nobody_waits_for_is_none() -> None:
    """JoinGroupResponseHandler: UnjoinedGroupException, unless the state is REBALANCING."""
    client = ClientAlone()
    client.holds = (JoinGroupRequest,)
    client.subscribed()
    future = client.core.coordinator.join_future
    client.core.coordinator.state = MemberState.UNJOINED
    client.answer(client.held[0], JoinGroupResponse(generation_id=1, member_id="m", leader="m"))

    assert future is not None
    assert type(future.error).__name__ == "UnjoinedGroup"


@pytest.mark.parametrize("error", [Error.COORDINATOR_LOAD_IN_PROGRESS, Error.NOT_COORDINATOR])
def test_a_refused_join_is_sent_again_after_the_back_off(error: Error) -> None:
    """Flaws 86 and 87: an answer with an error completes the future, and the next one waits."""
    client = ClientAlone()
    client.holds = (JoinGroupRequest,)
    client.subscribed().poll(60_000)
    client.answer(client.held[0], JoinGroupResponse(error=error))

    at_once = len(client.sent(JoinGroupRequest))
    client.wait(200)

    assert (at_once, len(client.sent(JoinGroupRequest))) == (1, 2)


def test_the_printed_client_joins_again_at_once() -> None:
    """Flaw 87: as often as it is refused, at one and the same time."""
    client = ClientAlone(client=printed_client("no_back_off"))
    client.holds = (JoinGroupRequest,)
    client.subscribed().poll(60_000)
    for _ in range(5):
        refused = JoinGroupResponse(error=Error.COORDINATOR_LOAD_IN_PROGRESS)
        client.answer(client.held[0], refused)

    assert len(client.sent(JoinGroupRequest)) == 6


def test_an_error_that_stays_is_told_to_the_application() -> None:
    """As that the group has another kind of protocol."""
    client = ClientAlone()
    client.holds = (JoinGroupRequest,)
    client.subscribed()
    client.answer(
        client.held[0], JoinGroupResponse(error=Error.INCONSISTENT_GROUP_PROTOCOL)
    )  # fmt: skip

    (fail,) = client.effects(Fail)
    assert str(fail.error) == (
        "JoinGroup was refused by the group's coordinator: INCONSISTENT_GROUP_PROTOCOL"
    )


class Raises(PlainAssignor):
    """An assignor that has no idea."""

    name = "raises"

    def assign(self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Plan:
        """Nobody gets anything."""
        raise LookupError(f"{len(topics)} and {len(members)}")


def test_an_assignors_exception_fails_the_join() -> None:
    """performAssignment: the application is told, nobody is assigned anything, and it tries on."""
    client = ClientAlone(assignors=[Raises()]).subscribed()

    (fail,) = client.effects(Fail)
    assert isinstance(fail.error, AssignorFailed)
    assert str(fail.error) == "the assignor raises raised LookupError('1 and 1')"
    assert client.sent(SyncGroupRequest) == []
    assert client.core.coordinator.state is MemberState.UNJOINED


def test_a_lost_answer_makes_no_ghost() -> None:
    """Flaw 89: the first JoinGroup only asks for an id."""
    client = ClientAlone()
    client.holds = (JoinGroupRequest,)
    client.subscribed()
    client.lose(is_read=True)
    client.holds = ()
    client.poll(60_000)
    client.wait(1_000)

    assert len(client.world.group().members) == 1


def test_the_printed_client_leaves_a_ghost() -> None:
    """Its first JoinGroup makes a member: with its answer lost, that is nobody."""
    client = ClientAlone(client=printed_client("ghost_member"))
    client.holds = (JoinGroupRequest,)
    client.subscribed()
    client.lose(is_read=True)
    client.holds = ()
    client.poll(60_000)
    client.wait(1_000)

    assert len(client.world.group().members) == 2


@pytest.mark.parametrize(("habit", "is_noticed"), [("", True), ("rejoin_flag_lost", False)])
def test_a_partition_that_appears_during_a_join_is_not_forgotten(
    habit: str, is_noticed: bool
) -> None:
    """Flaw 88: the printed client's success resets rejoinNeeded."""
    client = ClientAlone(
        client=printed_client(habit) if habit else ClientAlone().core.__class__,
        metadata_max_age_ms=500,
    )  # fmt: skip
    client.holds = (SyncGroupRequest,)
    client.subscribed().poll(60_000)
    client.topics[TOPIC] = 4
    client.wait(1_000)
    client.holds = ()
    client.let_through()
    for _ in range(5):
        client.poll(60_000)
        client.wait(1_000)

    assert len(client.core.subscriptions.assignment) == (4 if is_noticed else 3)


def test_what_was_asked_for_before_a_join_says_nothing_of_what_it_brings() -> None:
    """
    A cooperative member keeps what it has through a join, and is given more by it.

    Else a partition of which something is stored would begin where the reset finds it.
    """
    client = ClientAlone(assignors=[CooperativeStickyAssignor()])
    client.world.commit(None, p0=3, p1=7)
    client.topics[TOPIC] = 1
    client.holds = (OffsetFetchRequest,)
    client.stable()
    client.holds = (OffsetFetchRequest, JoinGroupRequest)
    client.topics[TOPIC] = 2
    client.core.coordinator.request_rejoin()
    client.poll(60_000)
    assert [type(send.request) for send in client.held] == [OffsetFetchRequest, JoinGroupRequest]
    client.holds = ()
    client.let_through()
    client.wait(100)

    begun = client.effects(StartFetchers)[-1]
    assert {(start.partition, start.offset) for start in begun.partitions} == {("0", 3), ("1", 7)}


# ── Before a join ───────────────────────────────────────────────────────────────────────────


def test_partitions_are_given_up_when_the_application_is_at_work_on_nothing() -> None:
    """Nothing is handed out, then all is committed, the listener told, and JoinGroup sent."""
    client = ClientAlone(listens=True).stable()
    client.give(Resolved(FIRST, 1), Consumed(Offset(TOPIC, "0", 7), 1))
    client.core.coordinator.request_rejoin()
    joins = len(client.sent(JoinGroupRequest))

    client.poll(60_000, at_work=True)
    waits = client.effects(StopFetchers) == []
    client.done.clear()
    client.poll(60_000)
    told = [type(effect) for effect in client.done if not isinstance(effect, SendRequest)]
    held_up = client.sent(JoinGroupRequest)
    client.give(RevocationHandled())

    assert waits
    assert held_up == []
    assert StopFetchers in told
    assert Revoked in told
    assert len(client.sent(JoinGroupRequest)) > joins - joins
    assert client.world.committed(0) == [7]


# ── Offsets ─────────────────────────────────────────────────────────────────────────────────


def test_positions_are_those_that_are_stored() -> None:
    """updateFetchPositions: OffsetFetch into SubscriptionState, then fetchers."""
    client = ClientAlone()
    client.world.commit(None, p1=9)
    client.stable()

    (fetch,), (start,) = client.sent(OffsetFetchRequest), client.effects(StartFetchers)
    assert fetch.groups[0].topics[0].partitions == (0, 1, 2)
    assert [offset.offset for offset in start.partitions] == [NO_OFFSET, 9, NO_OFFSET]


def test_a_poll_that_fails_updates_no_positions() -> None:
    """UpdateAssignmentMetadataIfNeeded."""
    client = ClientAlone()
    client.holds = (SyncGroupRequest,)
    client.subscribed()

    assert client.poll(0) is False
    assert client.sent(OffsetFetchRequest) == []


def test_a_start_that_the_reset_has_found_is_stored_before_anything_of_it_is_delivered() -> None:
    """And stored again, if that failed."""
    client = ClientAlone().stable()
    client.holds = (OffsetCommitRequest,)
    client.give(Resolved(FIRST, 1))
    early = client.effects(Deliver)
    client.lose()
    client.holds = ()
    client.poll(60_000)
    client.wait(500)

    assert early == []
    assert client.effects(Deliver) == [Deliver(NamedPartition(TOPIC, "0"), 1)]
    assert client.world.committed(0) == [5]


def test_none_is_an_error_to_the_user() -> None:
    """Where nothing is stored; nothing is fetched."""
    client = ClientAlone(auto_offset_reset=None).subscribed()

    (fail,) = client.effects(Fail)
    assert isinstance(fail.error, NoOffsetForPartition)
    assert client.effects(StartFetchers) == []


@pytest.mark.parametrize("by_hand", [False, True])
def test_what_is_finished_is_committed_now_and_then(by_hand: bool) -> None:
    """MaybeAutoCommitOffsetsAsync in both modes; by hand with generation -1."""
    client = ClientAlone()
    client.world.commit(None, p0=3, p1=3, p2=3)
    client.give(AssignTo((PLACE,)) if by_hand else SubscribeTo(named({TOPIC: 1})))
    client.poll(60_000)
    client.wait(100)
    client.give(Consumed(FIRST, 1))
    client.wait(6_000)
    client.poll()
    client.poll()

    (commit,) = client.sent(OffsetCommitRequest)
    assert (commit.generation_id == NO_GENERATION) is by_hand
    assert client.world.committed(0) == [5]


def test_a_commit_has_an_answer() -> None:
    """STORED; REFUSED of a former assignment; REBALANCING amid a join."""
    client = ClientAlone().stable()
    client.give(CommitAsked(1, (FIRST,), 1), CommitAsked(2, (FIRST,), 0))
    client.holds = (JoinGroupRequest,)
    client.core.coordinator.request_rejoin()
    client.poll(60_000)
    client.poll(60_000)
    client.core.subscriptions.assign_from_subscribed([PLACE])
    client.give(CommitAsked(3, (FIRST,), 1))

    assert {told.number: told.outcome for told in client.effects(Committed)} == {
        1: CommitResult.STORED, 2: CommitResult.REFUSED, 3: CommitResult.REBALANCING,
    }  # fmt: skip


# ── Modes, and the end ──────────────────────────────────────────────────────────────────────


def test_assign_mode_awaits_metadata_and_joins_no_group() -> None:
    """awaitMetadataUpdate: False as long as no node is ready."""
    client = ClientAlone()
    client.holds = (MetadataRequest,)
    client.give(AssignTo((PLACE,)))
    waits = client.poll(0)
    client.holds = ()
    client.let_through()

    client.poll(60_000)
    client.wait(100)

    assert waits is False
    assert client.poll() is True
    assert client.sent(JoinGroupRequest) == []
    assert client.core.subscriptions.partitions() == (NamedPartition(TOPIC, "0"),)


def test_subscribe_and_assign_exclude_each_other() -> None:
    """Whichever came first."""
    with pytest.raises(ModesMixed, match="assigned by hand"):
        ClientAlone().give(AssignTo((PLACE,)), SubscribeTo(named({TOPIC: 1})))
    with pytest.raises(ModesMixed, match="has subscribed"):
        ClientAlone().give(SubscribeTo(named({TOPIC: 1})), AssignTo((PLACE,)))


def test_whoever_closes_commits_and_leaves() -> None:
    """Then all connections end; also with a join under way, which is given up before."""
    client = ClientAlone().stable()
    client.give(Resolved(FIRST, 1), Consumed(Offset(TOPIC, "0", 7), 1), Shutdown())
    joining = ClientAlone()
    joining.holds = (JoinGroupRequest,)
    joining.subscribed().give(Shutdown())

    assert client.effects(EndClient) == joining.effects(EndClient) == [EndClient()]
    assert len(client.sent(LeaveGroupRequest)) == 1
    assert client.world.group().members == {}
    assert client.world.committed(0) == [7]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"retry_backoff_ms": 0}, "retry_backoff_ms is 0: at least 1"),
        ({"heartbeat_interval_ms": 16_000}, "at most a third of the session timeout"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields: dict[str, Any], why: str) -> None:
    """The setting is named, with what it must be."""
    with pytest.raises(BadClientSettings, match=why):
        ClientSettings(group_id=GROUP, **fields)


def test_every_printed_habit_has_a_client() -> None:
    """By the name of the spec's flaw, where that has one."""
    from herdspec.protocols.group_protocol.flaws import PRINTED

    assert set(HABITS) == {*PRINTED, "no_back_off"}
