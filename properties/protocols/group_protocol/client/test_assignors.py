"""Assignors: Range and RoundRobin are kafka-python's plans; the sticky ones keep their promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from herdproof.consuming.consumer_protocol import write_subscription
from herdproof.protocols.group_protocol.client.assignors.assignor import (
    AssignorFailed,
    MemberSubscription,
    PlainAssignor,
    Plan,
    checked_plan,
    chosen,
    read_member,
)
from herdproof.protocols.group_protocol.client.assignors.plain import (
    RangeAssignor,
    RoundRobinAssignor,
)
from herdproof.protocols.group_protocol.client.assignors.sticky import (
    CooperativeStickyAssignor,
    StickyAssignor,
    read_user_data,
    sticky_plan,
)
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.messages import JoinedMember

TOPICS = ("a", "b", "c", "d")
Members = dict[str, MemberSubscription]
Topics = dict[str, int]

topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6), max_size=len(TOPICS))
subscriptions = st.builds(
    MemberSubscription,
    topics=st.lists(st.sampled_from(TOPICS), unique=True, max_size=len(TOPICS)).map(tuple),
    group_instance_id=st.none(),
)
members = st.dictionaries(
    st.text("mnxyz", min_size=1, max_size=3), subscriptions, min_size=1, max_size=6
)
static = st.lists(
    st.text("ij", min_size=1, max_size=4), unique=True, min_size=6, max_size=6
)  # fmt: skip


def of_kafka_python(assignor: Any, topics: Topics, members: Members) -> dict[str, Any]:
    """
    What kafka-python (3.0.12) assigns, told of static members first.

    In any other order it forgets some: it groups members without having sorted them.
    """
    cluster = SimpleNamespace(
        topics=lambda: set(topics),
        partitions_for_topic=lambda t: set(range(topics[t])) if t in topics else None,
    )
    told = [
        SimpleNamespace(
            member_id=member, group_instance_id=each.group_instance_id,
            metadata=ConsumerProtocolSubscription(0, list(each.topics), each.user_data or b""),
        )
        for member, each in sorted(members.items(), key=lambda m: m[1].group_instance_id is None)
    ]  # fmt: skip
    plan = assignor.assign(cluster, told)
    return {
        member: sorted((t, n) for t, numbers in each.assigned_partitions for n in numbers)
        for member, each in plan.items()
    }


def some_static(members: Members, data: Any) -> None:
    """Make some of these members static ones."""
    for member, instance in zip(list(members), data.draw(static), strict=False):
        if data.draw(st.booleans()):
            members[member] = replace(members[member], group_instance_id=instance)


@given(topics, members, st.data())
@settings(max_examples=200, deadline=None)
def test_range_is_that_of_kafka_python(topics: Topics, members: Members, data: Any) -> None:
    """Whatever is subscribed to, by dynamic and static members alike."""
    some_static(members, data)

    plan = checked_plan(RangeAssignor(), topics, members)

    theirs = of_kafka_python(RangePartitionAssignor, topics, members)
    assert {m: sorted(p) for m, p in plan.items()} == theirs


@given(topics, members, st.data())
@settings(max_examples=200, deadline=None)
def test_round_robin_is_that_of_kafka_python(topics: Topics, members: Members, data: Any) -> None:
    """As long as all want the same; of others, kafka-python (3.0.12) raises KeyError."""
    some_static(members, data)
    wanted = next(iter(members.values())).topics
    alike = {member: replace(each, topics=wanted) for member, each in members.items()}

    plan = checked_plan(RoundRobinAssignor(), topics, alike)

    theirs = of_kafka_python(RoundRobinPartitionAssignor, topics, alike)
    assert {m: sorted(p) for m, p in plan.items()} == theirs


def test_round_robin_skips_who_does_not_want_a_topic() -> None:
    """The example in the documentation of Java's."""
    wants = {"C0": ("t0",), "C1": ("t0", "t1"), "C2": ("t0", "t1", "t2")}
    plan = RoundRobinAssignor().assign(
        {"t0": 1, "t1": 2, "t2": 3}, {m: MemberSubscription(t) for m, t in wants.items()}
    )

    assert plan == {
        "C0": [("t0", 0)],
        "C1": [("t1", 0)],
        "C2": [("t1", 1), ("t2", 0), ("t2", 1), ("t2", 2)],
    }


def is_fair(plan: Plan, members: Members) -> bool:
    """No partition can be moved to a member that has two less than its owner."""
    return all(
        len(plan[taker]) + 1 >= len(plan[giver])
        for giver in plan
        for topic, _ in plan[giver]
        for taker in members
        if topic in members[taker].topics
    )


def moved(before: Plan, after: Plan) -> set[TopicPartition]:
    """The partitions that had an owner, and have another one."""
    owner = {where: m for m, partitions in before.items() for where in partitions}
    return {w for m, partitions in after.items() for w in partitions if owner.get(w, m) != m}


@given(topics, members, st.data())
@settings(max_examples=200, deadline=None)
def test_sticky_plans_are_fair_and_keep_what_may_be_kept(
    topics: Topics, members: Members, data: Any
) -> None:
    """Complete and fair; whoever is there again has the same, if nothing else has changed."""
    first = checked_plan(StickyAssignor(), topics, members)
    had = {member: (1, tuple(partitions)) for member, partitions in first.items()}
    again = sticky_plan(topics, members, had)
    gone = data.draw(st.sampled_from(sorted(members)))
    left = {member: each for member, each in members.items() if member != gone}

    assert is_fair(first, members)
    assert moved(first, again) == set()
    if left:
        after = sticky_plan(topics, left, {m: had[m] for m in left})
        assert is_fair(after, left)
        stays = {m: p for m, p in first.items() if m in left}
        if len({each.topics for each in left.values()}) == 1:
            assert moved(stays, after) == set(), "who loses nobody's partitions keeps its own"


@given(topics, st.integers(1, 5), st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_a_new_member_moves_as_little_as_can_be(topics: Topics, old: int, new: int) -> None:
    """With equal subscriptions just as many partitions move as the new members are to have."""
    everybody = {f"m{n}": MemberSubscription(TOPICS) for n in range(old + new)}
    before = sticky_plan(topics, {m: everybody[m] for m in list(everybody)[:old]}, {})
    after = sticky_plan(topics, everybody, {m: (1, p) for m, p in before.items()})

    newcomers = list(everybody)[old:]
    assert len(moved(before, after)) == sum(len(after[m]) for m in newcomers)
    assert max(map(len, after.values())) - min(map(len, after.values())) <= 1


@given(topics, members)
@settings(max_examples=100, deadline=None)
def test_sticky_plans_are_as_even_as_kafka_pythons(topics: Topics, members: Members) -> None:
    """Which of the fair plans it is, each may decide: the promise is the same."""
    assert is_fair(of_kafka_python(StickyPartitionAssignor(), topics, members), members)
    assert is_fair(checked_plan(StickyAssignor(), topics, members), members)


JAVAS = bytes.fromhex("00000002000161000000010000000000016200000002000000000000000100000007")
"""What StickyAssignor of kafka-clients 3.9.1 writes of a-0, b-0 and b-1 in generation 7."""


def test_user_data_is_javas() -> None:
    """To the byte; kafka-python (3.0.12) writes a version before it, which Java does not read."""
    sticky, cooperative = StickyAssignor(), CooperativeStickyAssignor()
    fresh = sticky.subscription_user_data(("a",)), cooperative.subscription_user_data(("a",))
    sticky.on_assignment((("b", 1), ("a", 0), ("b", 0)), 7)
    cooperative.on_assignment((("a", 0),), 7)

    written = sticky.subscription_user_data(("a", "b"))

    assert written == JAVAS
    assert StickyAssignorUserData([("a", [0]), ("b", [0, 1])], 7).encode() == b"\0\1" + JAVAS
    assert read_user_data(written) == (7, (("a", 0), ("b", 0), ("b", 1)))
    assert read_user_data(JAVAS[:-4]) == (-1, (("a", 0), ("b", 0), ("b", 1)))
    assert read_user_data(b"no such thing") == (-1, ())
    assert fresh == (None, bytes.fromhex("ffffffff"))
    assert cooperative.subscription_user_data(("a",)) == bytes.fromhex("00000007")


def test_of_two_that_claim_a_partition_the_later_generation_had_it() -> None:
    """In one generation nobody had it: it is given anew."""
    both = {"m": MemberSubscription(("a",)), "n": MemberSubscription(("a",))}
    claimed = (("a", 0), ("a", 1))
    later = sticky_plan({"a": 2}, both, {"m": (3, claimed), "n": (4, (("a", 0),))})
    equal = sticky_plan({"a": 2}, both, {"m": (3, claimed), "n": (3, claimed)})

    assert later == {"m": [("a", 1)], "n": [("a", 0)]}
    assert sorted(map(len, equal.values())) == [1, 1]


@given(topics, st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_cooperative_members_get_nothing_that_another_one_still_has(
    topics: Topics, old: int
) -> None:
    """What moves is nobody's for one generation; in the next the plan is the sticky one."""
    everybody = {f"m{n}": MemberSubscription(TOPICS) for n in range(old + 1)}
    had = sticky_plan(topics, dict(list(everybody.items())[:old]), {})
    generation = 1
    for _ in range(2):
        owning = {
            m: MemberSubscription(TOPICS, None, tuple(had.get(m, ())), generation)
            for m in everybody
        }
        plan = checked_plan(CooperativeStickyAssignor(), topics, owning)
        assert moved(had, plan) == set()
        had, generation = plan, generation + 1

    assert sum(map(len, plan.values())) == sum(topics.values())
    assert max(map(len, plan.values())) - min(map(len, plan.values())) <= 1


class Own(PlainAssignor):
    """A user's own assignor, which does as it is told."""

    name = "own"

    def __init__(self, plan: Plan | Exception) -> None:
        self._plan = plan

    def assign(self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Plan:
        """What it was given."""
        del topics, members
        if isinstance(self._plan, Exception):
            raise self._plan
        return self._plan


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (ValueError("no idea"), r"raised ValueError\('no idea'\)"),
        ({"m": [("a", 0)], "n": [("a", 0), ("a", 1)]}, "a-0 twice: to m and to n"),
        ({"m": [("a", 0), ("a", 0), ("a", 1)]}, "a-0 twice: to m and to m"),
        ({"m": [("a", 0)]}, "a-1 to nobody"),
        ({"x": [("a", 0)]}, "a-0 to x, no member"),
        ({"m": [("a", 2)]}, "a-2, which is not there"),
        ({"n": [("b", 0)]}, "b-0 to n, which has not subscribed to b"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_in_a_sentence(
    plan: Plan | Exception, why: str
) -> None:  # fmt: skip
    """Whoever wrote the assignor is told what it did; a plan that can be is taken."""
    both = {"m": MemberSubscription(("a", "b")), "n": MemberSubscription(("a",))}
    with pytest.raises(AssignorFailed, match=f"^the assignor own (gives )?{why}$"):
        checked_plan(Own(plan), {"a": 2, "b": 1}, both)


def test_a_plan_of_a_users_own_is_taken() -> None:
    """One that gives everything to one member, and nothing to the other."""
    both = {"m": MemberSubscription(("a",)), "n": MemberSubscription(("a",))}
    own = Own({"m": [("a", 0), ("a", 1)]})

    assert checked_plan(own, {"a": 2}, both) == {"m": [("a", 0), ("a", 1)], "n": []}
    assert chosen((RangeAssignor(), own), "own") is own
    with pytest.raises(AssignorFailed, match="has chosen the assignor 'sticky'; here are own"):
        chosen((own,), "sticky")


@pytest.mark.parametrize("owned", [None, (), (("a", 0), ("a", 1), ("b", 0))])
def test_subscriptions_are_read_as_they_were_written(
    owned: Sequence[TopicPartition] | None,
) -> None:
    """By the leader, and by kafka-python."""
    data = write_subscription(("a", "b"), b"told", owned, 5)

    read = read_member(JoinedMember("m", None, data))

    since = 5 if owned is not None else -1
    assert read == MemberSubscription(("a", "b"), b"told", tuple(owned or ()), since)
    theirs = ConsumerProtocolSubscription.decode(data)
    assert (list(theirs.topics), theirs.user_data) == (["a", "b"], b"told")


def test_a_subscription_that_cannot_be_read_is_named() -> None:
    """By whose it is."""
    with pytest.raises(AssignorFailed, match="the subscription of member m cannot be read"):
        read_member(JoinedMember("m", None, b"\0"))
