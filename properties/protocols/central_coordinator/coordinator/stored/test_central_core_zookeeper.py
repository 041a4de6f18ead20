"""
The coordinator's core: startup, failover, deposition, and what it keeps in ZooKeeper.

References: PROTOCOLS.md, Election (its ruling), section B (coordinatorStartup, rulings 2 and 10).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.coordinator.groups import Phase
from herdproof.protocols.central_coordinator.events import (
    Close,
    Deposed,
    StepDown,
    Tick,
)
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire.messages import Commit, ErrorCode, Ping
from herdproof.zookeeper.names import quoted, unquoted
from herdproof.zookeeper.operations import (
    Answer,
    Check,
    Children,
    Create,
    Get,
    Multi,
    Operation,
    Refusal,
    Set,
    Sync,
    Why,
    is_path,
)
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    LEASE_MS,
    PATHS,
    Consumer,
    World,
    elected,
)

LOST = Refusal(Why.CONNECTION_LOSS)


def writes_owners(operation: Operation) -> bool:
    """Whether an operation writes a group's generation."""
    return isinstance(operation, Multi) and any(
        isinstance(write, Set | Create) and write.path == PATHS.group(GROUP) and write.data
        for write in operation.operations
    )


def spoiled(choose: Callable[[Operation], bool], answer: Answer) -> Callable[..., Answer | None]:
    """Answers the operations that are chosen in ZooKeeper's place: they are not done."""
    return lambda operation: answer if choose(operation) else None


# ── What is kept ────────────────────────────────────────────────────────────────────────────


def test_what_is_kept_and_where() -> None:
    """Generation, owners, offsets and subscriptions stand under the documented paths."""
    w = elected(partitions=1)
    w.register("a", session_timeout_ms=7_000)
    w.advance(3_000)

    assert json.loads(w.stored("/herdproof/groups/g") or b"") == {
        "generation": 1, "epoch": 1, "owners_parts": 1, "session_timeout_ms": 7_000,
    }  # fmt: skip
    assert json.loads(w.stored("/consumers/g/owners/t/0") or b"") == {
        "consumer": "a", "member": "1-1", "generation": 1,
    }  # fmt: skip
    assert w.stored("/consumers/g/offsets/t/0") == b"0"
    assert w.stored("/herdproof/groups/g/subscriptions/a") == b'{"t": 1}'


@given(st.text(min_size=1))
@example("a%2Fb")
@example("..")
def test_every_name_can_be_a_nodes(name: str) -> None:
    """Any group or consumer has a node of its own: quoted names are names, and can be read."""
    node = quoted(name)

    assert is_path(f"/a/{node}/b")
    assert "/" not in node
    assert unquoted(node) == name


def test_odd_names_are_kept_apart() -> None:
    """A group whose name is no node's has its own nodes, and is found again at a failover."""
    w = elected(partitions=1)
    w.register("c/1", group="a/b")
    w.register("..", group="..")
    w.depose()
    w.elect()

    assert w.core.groups.keys() == {"a/b", ".."}
    assert w.core.groups["a/b"].expected.keys() == {"c/1"}


# ── Startup ─────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_read_before_the_server_has_caught_up() -> None:
    """The first thing a new coordinator asks for is a sync: a lagging server is no source."""
    w = World()
    w.topic("t", 2)
    w.zookeeper.fall_behind(w.session)
    w.topic("u", 2)

    w.elect()

    assert isinstance(w.asked[0], Sync)
    assert w.core.topics.topics.keys() == {"t", "u"}


def failed_over(**switches: Any) -> tuple[World, Consumer, Consumer]:
    """A new coordinator, and the two consumers of the former, who know nothing of it yet."""
    w = elected(**switches)
    a, b = w.register("a"), w.register("b")
    w.depose()
    w.elect()
    return w, a, b


def test_a_new_coordinator_knows_the_groups() -> None:
    """Topics, groups, subscriptions and owners are read, and every group is queued."""
    w, _, _ = failed_over()

    group = w.core.groups[GROUP]
    assert w.core.topics.topics == {"t": ("0", "1", "2", "3")}
    assert group.generation == 2
    assert {owner.consumer_id for owner in group.owners.values()} == {"a", "b"}
    assert group.expected.keys() == {"a", "b"}
    assert w.core.consumer_groups_per_topic == {"t": {GROUP: 2}}
    assert w.core.groups_being_rebalanced[GROUP].is_set
    assert group.phase is Phase.WAITING
    assert w.told(What.COORDINATOR_READY)[-1]["groups"] == 1


def test_a_new_coordinator_waits_for_the_leases_of_those_it_does_not_know() -> None:
    """Until the former owners' leases are over, nothing is given to those who are back."""
    w, a, _ = failed_over()  # b does not come back, and goes on fetching for a while
    a.fetches = {}
    back = w.register("a")

    w.advance(LEASE_MS - 1)
    assert not back.fetches

    for consumer in w.consumers.values():
        consumer.fetches = {}
    w.advance(1)
    assert len(back.fetches) == 4
    assert w.children(PATHS.subscriptions(GROUP)) == ("a",)


def test_the_flaw_partial_failover_gives_away_what_another_still_fetches() -> None:
    """Rebalancing on those who have reconnected makes two fetch one partition."""
    w, a, b = failed_over(flaws=["partial_failover"])
    a.fetches = {}

    back = w.register("a")

    assert b.fetches.keys() < back.fetches.keys()


def test_a_group_waits_for_its_known_consumers_but_not_for_ever() -> None:
    """The first rebalance after a failover waits for all who were known, at most the grace."""
    settings = Settings(failover_grace_ms=20_000)
    w, a, b = failed_over(settings=settings)
    a.fetches = b.fetches = {}
    again = w.register("a")
    w.advance(10_000)
    assert not again.fetches

    late = w.register("b")
    assert len(again.fetches) == len(late.fetches) == 2

    w.depose()
    w.elect()
    again, late = w.register("a"), late
    w.advance(19_999)
    assert not again.fetches
    w.advance(1)
    assert len(again.fetches) == 4


def test_known_consumers_have_their_places_before_strangers() -> None:
    """
    "Known registrations are reconnected first."
    Reference: PROTOCOLS.md, system B, the open problems.
    """
    w, _, _ = failed_over(
        settings=Settings(max_members_per_group=2, failover_grace_ms=LEASE_MS + 2)
    )

    assert w.register("stranger").error is ErrorCode.GROUP_FULL
    assert w.register("a").error is ErrorCode.NONE
    assert w.register("stranger").error is ErrorCode.GROUP_FULL
    w.advance(LEASE_MS + 2)

    assert w.register("stranger").error is ErrorCode.NONE


def test_who_is_back_is_not_counted_twice() -> None:
    """The maps have a known consumer once, before it is back, and once it is."""
    w, _, _ = failed_over()
    a = w.register("a", '{"u": 1}')
    assert w.core.consumer_groups_per_topic == {"t": {GROUP: 1}, "u": {GROUP: 1}}

    w.advance(LEASE_MS)
    assert w.core.consumer_groups_per_topic == {"u": {GROUP: 1}}
    w.close(a)
    assert not w.core.consumer_groups_per_topic


def test_the_generation_goes_on_from_the_former_one() -> None:
    """Generations never go back, whoever coordinates."""
    w, a, b = failed_over()
    a.fetches = b.fetches = {}
    back = w.register("a")
    w.advance(LEASE_MS)

    assert back.generation == w.generation() == 3


def test_what_was_read_is_not_tried_to_be_created() -> None:
    """A new coordinator knows which nodes stand: none of its writes is refused."""
    w, _, _ = failed_over()
    w.consumers.clear()
    w.refused.clear()
    back = w.register("a")
    w.advance(LEASE_MS)
    w.send(back, Commit(tuple(Offset("t", number, 9) for number in "0123")))

    assert w.stored(PATHS.offset(GROUP, "t", "3")) == b"9"
    assert not w.refused


def test_owners_that_are_not_understood_are_waited_for_as_long_as_any_lease_may_last() -> None:
    """Who stands there from elsewhere may fetch for the longest time that is allowed."""
    w = World(Settings(max_session_timeout_ms=20_000, drift=0))
    w.topic("t", 1)
    w.make(PATHS.owner(GROUP, "t", "0"), b"c1-0")
    w.make(PATHS.group(GROUP), b"no JSON")
    w.elect()
    a = w.register("a")

    w.advance(19_999)
    assert not a.fetches
    w.advance(1)
    assert len(a.fetches) == 1


@pytest.mark.parametrize("which", [Sync, Children, Get, Multi, "group"])
def test_a_startup_whose_reads_fail_is_gone_on_with(which: Any) -> None:
    """Operations without an answer are asked again, until topics and groups are read, or one is."""
    w = elected()
    w.register("a").fetches = {}
    w.depose()
    w.spoil = spoiled(
        lambda operation: (
            operation == Get(PATHS.group(GROUP))
            if which == "group"
            else isinstance(operation, which)
        ),
        LOST,
    )
    w.elect()
    w.advance(2_000)
    nobody_waits = (Multi, "group")  # a group is read when it is asked for, and so until it is
    assert which in nobody_waits or not w.told(What.COORDINATOR_READY)[1:]
    assert which is Multi or not any(group.loaded for group in w.core.groups.values())

    w.spoil = lambda _: None
    w.advance(LEASE_MS)
    assert w.told(What.COORDINATOR_READY)[1:]
    a = w.register("a")
    w.advance(1_000)

    assert len(a.fetches) == 4
    assert w.generation() == 2


def test_a_group_that_was_read_meanwhile_is_not_read_again() -> None:
    """A read that failed would be repeated; whoever else has asked for it has spared that."""
    w = elected()
    reads = []
    w.spoil = spoiled(lambda o: isinstance(o, Get) and o.path == PATHS.group(GROUP), LOST)
    a = w.register("a")

    def counted(operation: Operation) -> None:
        if isinstance(operation, Get) and operation.path == PATHS.group(GROUP):
            reads.append(operation)

    w.core.membership.visit(GROUP)
    w.consult()
    w.spoil = counted
    w.core.rebalancer.resume(w.core.groups[GROUP])  # as when the last topic has been read
    w.consult()
    w.advance(10_000)

    assert len(reads) == 1
    assert a.fetches


# ── Who is deposed ──────────────────────────────────────────────────────────────────────────


def test_who_is_deposed_closes_every_channel_first() -> None:
    """Deposed: all channels are closed before anything else, and everything is forgotten."""
    w = elected()
    consumers = [w.register("a"), w.register("b"), w.register("c", group="other")]
    stranger = w.open()
    w.hold()
    w.send(consumers[0], Commit((Offset("t", "0", 1),)))

    effects = w.give(Deposed(1))

    closed = [effect.channel for effect in effects[:4] if isinstance(effect, Close)]
    assert closed == [*(c.channel for c in consumers), stranger]
    core = w.core
    assert core.epoch is None
    for what in (core.groups, core.groups_being_rebalanced, core.consumer_groups_per_topic,
                 core.groups_with_wildcard_topics, core.socket_server.channels,
                 core.ping_scheduler.queue, core.purgatory.watchers, core.store.jobs,
                 core.offsets.known, core.topics.topics, core.outbox.asked):  # fmt: skip
        assert not what

    w.effects.clear()
    w.release_all()
    w.advance(60_000)
    assert not w.effects


def test_the_flaw_deposed_goes_on_keeps_consumers_attached() -> None:
    """A deposed coordinator whose scheduler goes on pings as if nothing had been."""
    w = elected(flaws=["deposed_goes_on"])
    a = w.register("a")
    w.depose()

    w.advance(10_000)

    assert a.count(Ping) == 10
    assert not a.closed


def test_a_write_that_the_fence_refuses_deposes() -> None:
    """Another epoch has begun: every channel is closed, then the broker steps down."""
    w = elected()
    a, b = w.register("a"), w.register("b")
    w.zookeeper.perform(w.operator, Set(PATHS.election.epoch, b"2"))
    w.effects.clear()

    w.send(a, Commit((Offset("t", "0", 7),)))

    kinds = [type(effect) for effect in w.effects if isinstance(effect, Close | StepDown)]
    assert kinds == [Close, Close, StepDown]
    assert a.closed
    assert b.closed
    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"0"
    assert w.core.epoch is None


def test_the_flaw_unfenced_writes_on() -> None:
    """Without the check a deposed coordinator overwrites what its successor has written."""
    w = elected(flaws=["unfenced"])
    a = w.register("a")
    w.zookeeper.perform(w.operator, Set(PATHS.election.epoch, b"2"))

    w.send(a, Commit((Offset("t", "0", 7),)))

    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"7"
    assert not w.stepped_down


def test_every_write_is_fenced_by_the_epoch() -> None:
    """Whatever happens, each write of a coordinator checks the epoch node first."""
    w = elected(partitions=3)
    epoch = w.core.epoch
    a = w.register("a")
    w.register("b")
    w.advance(3_000)
    w.send(a, Commit((Offset("t", "0", 7),)))
    w.close(a)
    w.advance(LEASE_MS)

    writes = [o for o in w.asked if not isinstance(o, Get | Children | Sync)]
    assert len(writes) > 5
    for write in writes:
        assert isinstance(write, Multi)
        assert write.operations[0] == Check(PATHS.election.epoch, epoch or 0)


def test_who_was_paused_closes_every_channel_before_anything_else() -> None:
    """After more than the leadership lease without an event it steps down, whatever comes."""
    w = elected(settings=Settings(leadership_lease_ms=4_000))
    a = w.register("a")
    a.mute = True

    w.now_ms += 4_001
    effects = w.give(Tick())

    assert [type(e) for e in effects if not isinstance(e, Close | StepDown)] != []
    assert isinstance(effects[0], Close)
    assert w.stepped_down == ["paused for 4001 ms"]
    assert a.count(Ping) == 0


def test_who_is_idle_is_not_taken_for_paused() -> None:
    """A coordinator without consumers asks to be woken often enough."""
    w = World(Settings(leadership_lease_ms=4_000))
    w.elect()

    w.advance(100_000)

    assert not w.stepped_down


def test_a_second_term_begins_from_nothing() -> None:
    """Elected again, it reads everything anew, but names no registration a second time."""
    w = elected()
    w.register("a").fetches = {}
    w.depose()
    w.topic("u", 1)
    w.elect()
    w.advance(LEASE_MS)
    a = w.register("a", '{"t": 1, "u": 1}')
    w.advance(1_000)

    assert len(a.fetches) == 5
    assert list(w.core.groups[GROUP].members) == ["3-2"]
