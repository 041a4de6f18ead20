"""The connector's core: one rebalance, step by step, and what sets it off."""

import pytest

from herdproof.consuming.events import (
    Assigned,
    RevocationHandled,
    Revoked,
    StartFetchers,
    StopFetchers,
    Tick,
)
from herdproof.consuming.offsets import NO_OFFSET
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.core.events import EndSession
from herdproof.protocols.self_rebalancing.core.phases import RebalancePhase
from herdproof.protocols.self_rebalancing.registries.registrations import (
    ConsumerRegistration,
    SubscriptionPattern,
)
from herdproof.protocols.self_rebalancing.settings import (
    BadConnectorSettings,
    ConnectorSettings,
)
from herdproof.protocols.self_rebalancing.steps import ConnectorStep
from herdproof.zookeeper.operations import Create, Set
from properties.protocols.self_rebalancing.core.connectors import DIRS, Group, described, shares

T = [("t", str(number)) for number in range(5)]
ATTEMPT = [
    "close_fetchers", "commit_offsets", "read_topics", "read_ids", "claim", "answered",
    "read_offsets", "start_fetchers",
]  # fmt: skip


def test_one_member_takes_everything() -> None:
    """A member alone registers as 0.8 does, and owns and fetches every partition."""
    group = Group({"t": 2})
    only = group.member("g_host-1-0a1b2c3d", {"t": 2})
    group.settle()

    assert group.data(DIRS.id("g_host-1-0a1b2c3d")) == (
        b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"0"}'
    )
    assert group.owners() == {"0": "g_host-1-0a1b2c3d-0", "1": "g_host-1-0a1b2c3d-1"}
    assert only.fetches() == {T[0]: NO_OFFSET, T[1]: NO_OFFSET}
    assert only.told(StartFetchers)[-1].queues == (0, 1)


def test_the_steps_come_in_their_order() -> None:
    """A member that alone takes one partition, whose nodes stand, takes each step once."""
    group = Group({"t": 1})
    group.member("a")
    group.settle()
    group.members[0].close()
    second = group.member("b")
    group.settle()

    assert second.actions() == ["register", *ATTEMPT]


def test_who_owns_something_stops_stores_and_releases_before_it_plans() -> None:
    """Stopped before offsets are stored, before nodes are deleted, before the plan is made."""
    group = Group({"t": 2})
    first = group.member("a")
    group.settle()
    first.resolve("t", "0", 0)
    group.settle()
    first.consume("t", "0", 7)
    first.forget()
    group.member("b")
    group.settle()

    effects = [
        e for e in first.effects if not isinstance(e, ConnectorStep) or e.action != "answered"
    ]
    kinds = [e.action if isinstance(e, ConnectorStep) else type(e).__name__ for e in effects]
    kinds = [kind for kind in kinds if kind not in ("Ask", "WakeAt", "Report")]
    assert kinds[:9] == [
        "close_fetchers", "StopFetchers", "Revoked", "commit_offsets", "commit", "release",
        "release", "read_topics", "read_ids",
    ]  # fmt: skip
    assert group.stored("t", "0") == 7


def test_two_members_share() -> None:
    """Members plan alike: each has its run of partitions, and each partition one owner."""
    group = Group({"t": 5})
    members = [group.member("a"), group.member("b")]
    group.settle()

    assert shares(members) == [3, 2]
    assert group.owners() == {"0": "a-0", "1": "a-0", "2": "a-0", "3": "b-0", "4": "b-0"}


def test_a_claim_that_is_refused_waits_for_the_node_in_its_way() -> None:
    """A newcomer whose plan is early waits for the owner, and claims when the node has gone."""
    group = Group({"t": 2})
    first = group.member("a")
    group.settle()
    second = group.member("b")
    group.settle(second)

    assert second.fetches() == {}
    assert "refuse_claim" in second.actions()
    assert second.core.rebalances.owned.is_waiting
    group.settle()
    assert (first.fetches(), second.fetches()) == ({T[0]: NO_OFFSET}, {T[1]: NO_OFFSET})
    assert second.actions().count("read_ids") == 1


def test_a_new_owner_begins_where_the_old_one_stopped() -> None:
    """The offset is read after the claim, so it is the one that the old owner stored."""
    group = Group({"t": 1})
    first = group.member("b")
    group.settle()
    first.resolve("t", "0", 0)
    group.settle()
    first.consume("t", "0", 7)
    second = group.member("a")
    group.settle(second)
    assert second.fetches() == {}
    group.settle()

    assert (first.fetches(), second.fetches()) == ({}, {T[0]: 7})


def test_partly_overlapping_subscriptions_drag_everybody_in() -> None:
    """Consumers of {t,u}, {t,v} and {u,v} all rebalance when one of them comes."""
    group = Group({"t": 1, "u": 1, "v": 1})
    a, b = group.member("a", {"t": 1, "u": 1}), group.member("b", {"t": 1, "v": 1})
    group.settle()
    a.forget()
    b.forget()
    c = group.member("c", {"u": 1, "v": 1})
    group.settle()

    assert [m.actions().count("start_fetchers") for m in (a, b, c)] == [1, 1, 1]
    assert sorted([*a.fetches(), *b.fetches(), *c.fetches()]) == [
        ("t", "0"),
        ("u", "0"),
        ("v", "0"),
    ]


@pytest.mark.parametrize("leaves", ["closes", "expires"])
def test_what_a_member_leaves_is_taken_over(leaves: str) -> None:
    """Whether a member closes or its session ends, the others have its partitions."""
    group = Group({"t": 4})
    first, second = group.member("a"), group.member("b")
    group.settle()
    if leaves == "closes":
        first.close()
    else:
        first.is_cut = True
        group.zookeeper.expire(first.session)
    group.settle()

    assert sorted(second.fetches()) == T[:4]


def test_a_partition_that_is_added_is_shared_out() -> None:
    """The topic's data is watched: a partition more is planned and consumed."""
    group = Group({"t": 1})
    members = [group.member("a"), group.member("b")]
    group.settle()
    group.write(Set("/brokers/topics/t", described(4)))
    group.settle()

    assert shares(members) == [2, 2]


def test_a_topic_that_is_not_there_yet_is_awaited() -> None:
    """A subscribed topic that does not exist is watched, and consumed when it appears."""
    group = Group({})
    only = group.member("a")
    group.settle()
    assert only.fetches() == {}
    group.write(Create("/brokers/topics/t", described(1)))
    group.settle()

    assert only.fetches() == {T[0]: NO_OFFSET}


def test_a_topic_that_is_deleted_is_no_end() -> None:
    """A topic whose node goes is no longer consumed, and is again when it is back."""
    group = Group({"t": 1, "u": 1})
    only = group.member("a", {"t": 1, "u": 1})
    group.settle()
    group.delete("/brokers/topics/t")
    group.settle()
    assert list(only.fetches()) == [("u", "0")]
    group.write(Create("/brokers/topics/t", described(1)))
    group.settle()

    assert list(only.fetches()) == [("t", "0"), ("u", "0")]


def test_a_white_list_takes_new_topics_in() -> None:
    """The topics are watched for wildcards; what its filter does not allow stays out."""
    group = Group({"orders": 1, "other": 1})
    wants = ConsumerRegistration((("orders.*", 2),), SubscriptionPattern.WHITE_LIST)
    only = group.member("a", wants)
    group.settle()
    assert list(only.fetches()) == [("orders", "0")]
    group.write(Create("/brokers/topics/orders2", described(2)))
    group.settle()

    assert list(only.fetches()) == [("orders", "0"), ("orders2", "0"), ("orders2", "1")]
    assert only.told(StartFetchers)[-1].queues == (0, 0, 1)


def test_without_a_broker_nothing_is_consumed() -> None:
    """While no broker is there nothing is planned; /brokers/ids is watched for as long as that."""
    group = Group({"t": 1}, has_brokers=False)
    only = group.member("a")
    group.settle()
    assert (only.fetches(), group.owners()) == ({}, {})
    group.write(Create("/brokers/ids/0"))
    group.settle()
    assert only.fetches() == {T[0]: NO_OFFSET}
    only.forget()
    group.write(Create("/brokers/ids/1"))
    group.settle()

    assert only.actions() == []


def test_what_changes_during_an_attempt_leads_to_another_one() -> None:
    """A change that comes when the plan is read already is not forgotten."""
    group = Group({"t": 4})
    first = group.member("a")
    while first.core.rebalances.phase is not RebalancePhase.CLAIMING:
        first.carry()
    second = group.member("b")
    group.settle()

    assert shares([first, second]) == [2, 2]
    assert first.actions().count("read_ids") == 2


def test_who_waits_on_an_old_plan_makes_way_for_a_new_one() -> None:
    """A member that waits for others' nodes plans anew when the group has changed."""
    group = Group({"t": 2})
    session = group.stranger(DIRS.owner(T[0]), b"x-0")
    first = group.member("b")
    group.settle()
    assert first.core.rebalances.owned.is_waiting
    second = group.member("a")
    group.settle()
    assert first.fetches() == {T[1]: NO_OFFSET}
    assert second.core.rebalances.owned.is_waiting
    group.zookeeper.close(session)
    group.settle()

    assert second.fetches() == {T[0]: NO_OFFSET}


def test_claims_that_wait_for_long_are_reported_and_wait_on() -> None:
    """An owner that does not let go is reported as an exhausted rebalance, and is no end."""
    group = Group({"t": 1})
    session = group.stranger(DIRS.owner(T[0]), b"x-0")
    only = group.member("a")
    group.settle()
    group.pass_time(7_900)
    assert "ConsumerRebalanceFailedException" not in only.reports()
    group.pass_time(200)
    assert only.reports().count("ConsumerRebalanceFailedException") == 1
    group.zookeeper.close(session)
    group.settle()

    assert only.fetches() == {T[0]: NO_OFFSET}


def test_exhausted_retries_are_reported_and_are_no_end() -> None:
    """Attempts that fail back off; after four it is said so, and the fifth may succeed."""
    group = Group({"t": 1})
    session = group.stranger("/consumers/g/owners/t")
    only = group.member("a")
    group.settle()
    assert only.reports() == ["registered", "attempt_failed"]
    group.pass_time(1_900)
    assert only.actions().count("fail_attempt") == 1
    group.pass_time(6_000)
    assert only.reports().count("attempt_failed") == 4
    assert only.reports().count("ConsumerRebalanceFailedException") == 1
    group.zookeeper.close(session)
    group.pass_time(2_000)

    assert only.fetches() == {T[0]: NO_OFFSET}
    assert only.core.rebalances.attempts == 0


def test_closing_stores_what_is_consumed_and_leaves_nothing() -> None:
    """A member that closes stores its offsets; its nodes go with its session."""
    group = Group({"t": 1})
    only = group.member("a")
    group.settle()
    only.resolve("t", "0", 0)
    group.settle()
    only.consume("t", "0", 9)
    only.close()
    group.settle()

    assert (group.stored("t", "0"), group.owners()) == (9, {})
    assert group.data(DIRS.id("a")) is None
    assert only.told(EndSession) == [EndSession()]


def test_closing_amid_an_attempt_waits_for_its_end() -> None:
    """A member that is claiming closes after that, and begins nothing new."""
    group = Group({"t": 1})
    only = group.member("a")
    while only.core.rebalances.phase is not RebalancePhase.CLAIMING:
        only.carry()
    only.close()
    assert not only.has_left
    group.settle()

    assert only.has_left
    assert only.fetches() == {}


def test_closing_without_a_connection_is_the_end_at_once() -> None:
    """Where ZooKeeper cannot be heard, nothing can be stored, and nothing is waited for."""
    group = Group({"t": 1})
    only = group.member("a")
    group.settle()
    only.cut()
    only.close()

    assert only.told(EndSession) == [EndSession()]


def test_nothing_is_given_back_before_the_listener_has_returned() -> None:
    """With a listener, offsets are stored and nodes deleted only when it has returned."""
    group = Group({"t": 2})
    first = group.member("a", settings=ConnectorSettings(listens=True))
    group.settle()
    first.resolve("t", "1", 0)
    group.settle()
    second = group.member("b")
    group.settle()
    assert first.told(Revoked)[-1].partitions == first.told(Assigned)[0].partitions
    assert second.fetches() == {}
    first.consume("t", "1", 4)
    first.give(RevocationHandled())
    group.settle()

    assert second.fetches() == {T[1]: 4}


def test_closing_waits_for_the_listener_too() -> None:
    """What the listener commits when the consumer closes is stored."""
    group = Group({"t": 1})
    only = group.member("a", settings=ConnectorSettings(listens=True, auto_commit_enable=False))
    group.settle()
    only.resolve("t", "0", 0)
    group.settle()
    only.close()
    group.settle()
    assert not only.has_left
    only.consume("t", "0", 3)
    only.commit(1)
    only.give(RevocationHandled())
    group.settle()

    assert (only.has_left, group.stored("t", "0")) == (True, 3)


def test_a_registration_that_was_deleted_is_made_again() -> None:
    """A member whose node an operator deletes registers again, and has its share again."""
    group = Group({"t": 2})
    first, second = group.member("a"), group.member("b")
    group.settle()
    group.delete(DIRS.id("a"))
    group.settle()

    assert group.data(DIRS.id("a")) is not None
    assert shares([first, second]) == [1, 1]


def test_a_registration_of_an_earlier_life_is_waited_for() -> None:
    """Where another session still has a node of this name, it is created when that has gone."""
    group = Group({"t": 1})
    session = group.stranger(DIRS.id("a"), b"{}")
    only = group.member("a")
    group.settle()
    assert only.reports() == ["not_registered"]
    group.zookeeper.close(session)
    group.pass_time(2_000)

    assert only.fetches() == {T[0]: NO_OFFSET}


def test_a_member_that_has_not_started_does_nothing() -> None:
    """Before the user subscribes, nothing is asked for, whatever time it is."""
    core = ConsumerConnector("g", "a", ConsumerRegistration((("t", 1),)), ConnectorSettings())

    assert core.receive(Tick(), 1) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("zookeeper_session_timeout_ms", 0),
        ("auto_commit_interval_ms", 0),
        ("rebalance_max_retries", -1),
        ("rebalance_backoff_ms", -1),
    ],
)
def test_a_setting_that_cannot_work_is_named(name: str, value: int) -> None:
    """A setting out of its range is refused by its name."""
    with pytest.raises(BadConnectorSettings, match=f"{name} is {value}"):
        ConnectorSettings(**{name: value})  # type: ignore[arg-type]


def test_fetchers_that_do_not_run_are_not_closed() -> None:
    """Who consumes nothing closes nothing, and its listener hears nothing."""
    group = Group({})
    only = group.member("a", settings=ConnectorSettings(listens=True))
    group.settle()

    assert (only.told(StopFetchers), only.told(Revoked), only.told(Assigned)) == ([], [], [])
