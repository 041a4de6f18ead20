"""Our client's core: heartbeats, and what comes of their answers."""

from __future__ import annotations

import pytest

from herdproof.consuming.events import (
    StartFetchers,
    StopFetchers,
)
from herdproof.protocols.group_protocol.client.core.events import (
    FindCoordinatorRequest,
)
from herdproof.protocols.group_protocol.client.core.states import (
    MemberState,
)
from herdproof.protocols.group_protocol.held.drafted_client import printed_client
from herdproof.protocols.group_protocol.messages import (
    Error,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from properties.protocols.group_protocol.client.client_world import (
    SETTINGS,
    ClientAlone,
)


def test_no_heartbeat_unless_stable() -> None:
    """Rule 58: also after a join that has failed."""
    client = ClientAlone()
    client.holds = (JoinGroupRequest,)
    client.subscribed().wait(10_000)

    assert client.sent(HeartbeatRequest) == []


def test_heartbeats_wait_for_the_coordinator() -> None:
    """Rule 59: while it is unknown it is looked up, and none is sent."""
    client = ClientAlone().stable()
    client.holds = (FindCoordinatorRequest,)
    client.core.coordinator.mark_coordinator_unknown()
    before = len(client.sent(HeartbeatRequest))
    client.wait(5_000)

    assert len(client.sent(HeartbeatRequest)) == before
    assert len(client.held) == 1


def test_a_session_without_answers_makes_the_coordinator_unknown() -> None:
    """Rule 60; and nothing is handed out any more, before others may have the partitions."""
    client = ClientAlone().stable()
    client.holds = (HeartbeatRequest, FindCoordinatorRequest)
    handed_out_until = client.core.delivers_until_ms
    client.wait(9_900)
    known = client.core.coordinator.coordinator_unknown()
    client.wait(200)

    assert (known, client.core.coordinator.coordinator_unknown()) == (False, True)
    assert client.core.delivers_until_ms == handed_out_until < client.now_ms - 2_000


def test_an_application_that_does_not_poll_leaves_the_group() -> None:
    """Rule 61: its partitions are given up; when it polls again, it joins again."""
    client = ClientAlone(max_poll_interval_ms=8_000).stable()
    client.wait(7_900)
    before = len(client.sent(LeaveGroupRequest))
    client.wait(200)

    assert (before, len(client.sent(LeaveGroupRequest))) == (0, 1)
    assert client.effects(StopFetchers) == [StopFetchers()]
    assert client.world.group().members == {}
    client.poll(60_000)
    client.wait(100)
    assert client.core.coordinator.state is MemberState.STABLE


def test_the_printed_client_goes_on_after_it_has_left() -> None:
    """Flaw 90."""
    habit = printed_client("leave_while_processing")
    client = ClientAlone(client=habit, max_poll_interval_ms=8_000)
    client.stable().wait(8_100)

    assert len(client.sent(LeaveGroupRequest)) == 1
    assert client.effects(StopFetchers) == []
    assert client.core.delivers_until_ms > client.now_ms


def test_heartbeats_come_at_their_interval() -> None:
    """Rules 62 and 63: each is awaited, and the lease is that of the last one answered."""
    client = ClientAlone().stable()
    began_ms = client.now_ms
    client.wait(9_500)

    assert len(client.sent(HeartbeatRequest)) == 4
    assert client.core.delivers_until_ms == began_ms + 9_000 + SETTINGS.lease_ms


def test_a_lease_begins_with_a_heartbeat_that_follows_a_join_at_once() -> None:
    """
    Not with SyncGroup, whose answer may say anew what was decided long before.

    Until that heartbeat is answered nothing is handed out, although fetchers run.
    """
    client = ClientAlone()
    client.holds = (SyncGroupRequest, HeartbeatRequest)
    client.subscribed().wait(1_000)
    client.let_through()
    sent_ms = client.now_ms
    client.wait(500)

    (first,) = client.held
    assert isinstance(first.request, HeartbeatRequest)
    assert client.effects(StartFetchers)
    assert client.core.delivers_until_ms == 0
    client.let_through()
    assert client.core.delivers_until_ms == sent_ms + SETTINGS.lease_ms


@pytest.mark.parametrize(
    ("error", "keeps_id", "stops"),
    [
        (Error.REBALANCE_IN_PROGRESS, True, False),
        (Error.ILLEGAL_GENERATION, True, True),
        (Error.UNKNOWN_MEMBER_ID, False, True),
    ],
)
def test_a_heartbeat_says_when_to_join_again(error: Error, keeps_id: bool, stops: bool) -> None:
    """With its id, as long as that is known; what is lost is stopped at once."""
    client = ClientAlone().stable()
    client.holds = (HeartbeatRequest,)
    client.wait(3_000)
    client.answer(client.held[0], HeartbeatResponse(error=error))

    assert client.core.delivers_until_ms == 0
    assert bool(client.core.coordinator.generation.member_id) is keeps_id
    assert bool(client.effects(StopFetchers)) is stops
