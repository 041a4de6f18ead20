"""A static member: it comes back under its own name, and whoever has it twice is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from herdproof import Consumer
from herdproof.consuming.consumer_protocol import write_assignment
from herdproof.consuming.events import Revoked, Shutdown, StopFetchers
from herdproof.protocols.group_protocol.client.assignors.assignor import (
    MemberSubscription,
    PlainAssignor,
    Plan,
)
from herdproof.protocols.group_protocol.client.core.events import EndClient, Fail, Fenced
from herdproof.protocols.group_protocol.client.core.inherited import topics_shared_out
from herdproof.protocols.group_protocol.client.core.settings import BadClientSettings
from herdproof.protocols.group_protocol.client.core.states import MemberState
from herdproof.protocols.group_protocol.client.shell import wire
from herdproof.protocols.group_protocol.client.shell.connections import NotSpoken, version_for
from herdproof.protocols.group_protocol.messages import (
    GroupRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from herdproof.protocols.group_protocol.testing.broker import LocalBroker
from properties.protocols.group_protocol.client.client_world import ClientAlone
from properties.protocols.group_protocol.coordinator.group_world import TOPIC


def static_member(**more: Any) -> ClientAlone:
    """A client that is called "till-1" whenever it comes."""
    return ClientAlone(group_instance_id="till-1", **more)


def back_again(former: ClientAlone, **more: Any) -> ClientAlone:
    """Another process of that name, at the same coordinator."""
    made = static_member(**more)
    made.world = former.world
    return made.stable()


def test_whatever_it_asks_it_asks_under_its_name() -> None:
    """It is a member with its first JoinGroup, since nobody has to learn its id before."""
    client = static_member().stable()
    client.wait(4_000)

    (join,) = client.sent(JoinGroupRequest)
    assert join.member_id == ""
    for kind in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest):
        assert {asked.group_instance_id for asked in client.sent(kind)} == {"till-1"}


def test_it_sends_no_farewell_and_comes_back_to_what_it_had() -> None:
    """Neither when it closes, nor when its user is late: the group does not rebalance."""
    client = static_member().stable()
    generation, had = client.core.coordinator.generation, [*client.core.subscriptions.assignment]
    client.give(Shutdown())
    again = back_again(client)

    assert client.effects(EndClient) != []
    assert client.sent(LeaveGroupRequest) == []
    assert [*again.core.subscriptions.assignment] == had
    assert again.core.coordinator.generation.generation_id == generation.generation_id
    assert again.core.coordinator.generation.member_id != generation.member_id


def test_who_is_late_with_polling_sends_no_farewell_either() -> None:
    """It gives up what it has; its session says when the others get that."""
    client = static_member(max_poll_interval_ms=5_000).stable()

    client.wait(6_000)

    assert client.core.coordinator.state is MemberState.UNJOINED
    assert client.effects(StopFetchers) != []
    assert client.sent(LeaveGroupRequest) == []


def test_a_leader_that_comes_back_leaves_the_assignment_as_it_is() -> None:
    """It is told to skip it (KIP-814), and goes on looking at the topics that it has assigned."""

    class Counts(PlainAssignor):
        """Counts its plans."""

        name = "counts"
        plans = 0

        def assign(
            self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]
        ) -> Plan:  # fmt: skip
            """Everything is the first one's."""
            Counts.plans += 1
            return {min(members): [(t, n) for t, count in topics.items() for n in range(count)]}

    client = static_member(assignors=[Counts()]).stable()

    again = back_again(client, assignors=[Counts()])

    (sync,) = again.sent(SyncGroupRequest)
    assert Counts.plans == 1
    assert sync.assignments == ()
    assert again.core.coordinator.assignment_snapshot == again.topics


def test_a_static_leader_leaves_word_of_the_topics_that_it_shared_out() -> None:
    """In its own part alone, where its next life finds it: partitions that came since are new."""
    client = static_member().stable()
    client.give(Shutdown())
    again = static_member()
    again.world, again.topics = client.world, {TOPIC: 4}
    again.stable()

    first, skipped, second = [*client.sent(SyncGroupRequest), *again.sent(SyncGroupRequest)]
    assert [topics_shared_out(each.assignment) for each in first.assignments] == [{TOPIC: 3}]
    assert skipped.assignments == ()
    assert [topics_shared_out(each.assignment) for each in second.assignments] == [{TOPIC: 4}]


@pytest.mark.parametrize("words", [None, b"", b"\xff", b"[1]", b'{"t": "many"}'])
def test_words_of_others_are_no_list_of_topics(words: bytes | None) -> None:
    """An assignor may have put anything there; so may an empty assignment, or a broken one."""
    assert topics_shared_out(write_assignment([("t", 0)], words)) is None
    assert topics_shared_out(b"") is None
    assert topics_shared_out(b"\0") is None


def test_who_finds_another_one_under_its_name_ends_and_says_so() -> None:
    """Its heartbeat is fenced: it loses what it has at once, and never joins again."""
    first = static_member().stable()
    back_again(first)

    first.wait(4_000)
    first.poll(1_000)
    first.wait(2_000)

    (failed,) = first.effects(Fail)
    assert isinstance(failed.error, Fenced)
    assert str(failed.error) == (
        "another consumer has come with group_instance_id 'till-1': give each its own"
    )
    assert first.effects(Revoked) != []
    assert first.core.subscriptions.assignment == {}
    assert len(first.sent(JoinGroupRequest)) == 1


@pytest.mark.parametrize("request_", [
    JoinGroupRequest(
        group_id="g", session_timeout_ms=1, rebalance_timeout_ms=1, member_id="",
        protocol_type="consumer", protocols=(), group_instance_id="till-1",
    ),
    SyncGroupRequest(group_id="g", generation_id=1, member_id="m", group_instance_id="till-1"),
    HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id="till-1"),
    OffsetCommitRequest(group_id="g", generation_id=1, member_id="m", group_instance_id="till-1"),
], ids=lambda request: type(request).__name__)  # fmt: skip
def test_nobody_is_asked_who_would_not_read_the_name(request_: GroupRequest) -> None:
    """A version without room for it would make a member of it that is not static."""
    api = wire.api_of(request_)
    oldest = wire.oldest_for(request_)

    assert version_for(api, {api: (0, oldest)}, oldest) == oldest
    with pytest.raises(NotSpoken):
        version_for(api, {api: (0, oldest - 1)}, oldest)


@pytest.mark.parametrize("name", ["", "a b", "..", "a" * 250])
def test_a_name_must_be_one_that_kafka_takes(name: str) -> None:
    """It is refused in a sentence."""
    with pytest.raises(BadClientSettings, match="group_instance_id is"):
        ClientAlone(group_instance_id=name)


def test_a_consumer_that_comes_back_has_its_partitions_without_a_rebalance() -> None:
    """At a broker, over the wire, beside another member: the generation is the same."""
    with LocalBroker({"orders": 4}) as broker, ExitStack() as stack:
        broker.produce("orders", *[b"%d" % n for n in range(8)])

        def member(name: str) -> Consumer:
            """One that has its part of the group."""
            made = Consumer(
                "tills", consumer_id=name, group_instance_id=name, protocol="group_protocol",
                bootstrap_servers=broker.bootstrap, auto_offset_reset="smallest",
            )  # fmt: skip
            made.subscribe("orders")
            return stack.enter_context(made)

        first, second = member("till-1"), member("till-2")
        both = (first, second)
        await_that(lambda: [(c.poll(0.01), len(c.assignment))[1] for c in both] == [2, 2])
        before, had = broker.group("tills"), first.assignment
        first.close()
        again = member("till-1")
        await_that(lambda: again.poll(0.01) is None and len(again.assignment) == 2)

        after = broker.group("tills")
        assert (after.generation, after.members) == (before.generation, before.members)
        assert again.assignment == had


def await_that(done: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
