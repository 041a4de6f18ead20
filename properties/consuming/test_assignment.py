"""
Range assignment: the documents' worked example, and what any assignor owes its users.

Reference: PROTOCOLS.md, section A (Assignment) and the contract (Complete).
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof.consuming.assignment import assign, range_assign
from herdproof.consuming.subscription import Named, Subscription, Wildcard

TOPICS = ("events", "orders", "payments", "other")

named = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 4), min_size=1).map(
    lambda streams: Named(tuple(sorted(streams.items())))
)
wildcards = st.builds(
    Wildcard, st.sampled_from(["ev.*", ".*", "o.*", "no such"]), st.integers(1, 3), st.booleans()
)
members = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 99).map(str), st.one_of(named, wildcards)),
    unique_by=lambda member: member[1],
    max_size=8,
)
topics = st.dictionaries(
    st.sampled_from(TOPICS), st.integers(0, 12).map(lambda n: tuple(map(str, range(n))))
)


def test_the_worked_example() -> None:
    """The worked example: P0 C1_0, P1 C1_0, P2 C1_1, P3 C2_0, P4 C2_1."""
    partitions = [("t", str(number)) for number in range(5)]
    threads = ["C1_0", "C1_1", "C2_0", "C2_1"]

    plan = range_assign(partitions, threads)

    assert [plan[partition] for partition in partitions] == ["C1_0", "C1_0", "C1_1", "C2_0", "C2_1"]


def test_the_worked_example_by_members() -> None:
    """The same with members: the first has the first three partitions, the second the rest."""
    two_streams = Named((("t", 2),))

    plan = assign({"t": tuple("01234")}, [("C2", "m2", two_streams), ("C1", "m1", two_streams)])

    assert [plan["t", number] for number in "01234"] == ["m1", "m1", "m1", "m2", "m2"]


@pytest.mark.parametrize(("partitions", "threads"), [(0, 3), (3, 0), (2, 5), (7, 3), (6, 3)])
def test_fewer_partitions_leave_threads_idle(partitions: int, threads: int) -> None:
    """Fewer partitions than threads leave threads idle: the last ones, and only then."""
    plan = range_assign(range(partitions), range(threads))

    busy = sorted(set(plan.values()))
    assert busy == list(range(min(partitions, threads)))


@given(st.integers(0, 60), st.integers(1, 20))
def test_the_first_threads_get_one_more(partitions: int, threads: int) -> None:
    """The first `partitions % threads` threads get one more, and each gets a run of them."""
    plan = range_assign(range(partitions), range(threads))

    shares = Counter(plan.values())
    each, more = divmod(partitions, threads)
    assert [shares[thread] for thread in range(threads)] == [
        each + (thread < more) for thread in range(threads)
    ]
    assert [plan[partition] for partition in range(partitions)] == sorted(plan.values())


def interested(member: tuple[str, str, Subscription], topic: str) -> bool:
    """Whether a member wants a topic."""
    return member[2].streams(topic) > 0


@given(topics, members)
def test_every_partition_has_exactly_one_interested_member(
    topics: dict[str, tuple[str, ...]], members: list[tuple[str, str, Subscription]]
) -> None:
    """Every partition of a subscribed topic is assigned to exactly one interested member."""
    plan = assign(topics, members)

    by_name = {member[1]: member for member in members}
    wanted = {
        (topic, number)
        for topic, numbers in topics.items()
        for number in numbers
        if any(interested(member, topic) for member in members)
    }
    assert plan.keys() == wanted
    assert all(interested(by_name[name], topic) for (topic, _), name in plan.items())


@given(topics, members)
def test_each_topic_is_laid_out_over_its_threads(
    topics: dict[str, tuple[str, ...]], members: list[tuple[str, str, Subscription]]
) -> None:
    """No thread is made, and the plan is the one of all threads in their order."""
    plan = assign(topics, members)

    for topic, numbers in topics.items():
        threads = [
            (name, thread)
            for _, name, wants in sorted(members, key=lambda member: member[:2])
            for thread in range(wants.streams(topic))
        ]
        shares = range_assign(numbers, threads)
        assert {n: plan.get((topic, n)) for n in numbers if threads} == {
            number: name for number, (name, _) in shares.items()
        }


@given(topics, members)
def test_threads_are_balanced(
    topics: dict[str, tuple[str, ...]], members: list[tuple[str, str, Subscription]]
) -> None:
    """Threads are balanced: of one topic, no thread has two more than another."""
    plan = assign(topics, members)

    for topic, numbers in topics.items():
        threads = sum(member[2].streams(topic) for member in members)
        if not threads:
            continue
        least, odd = divmod(len(numbers), threads)
        shares = Counter(name for (of, _), name in plan.items() if of == topic)
        for member in members:
            streams = member[2].streams(topic)
            assert least * streams <= shares[member[1]] <= (least + (odd > 0)) * streams


@given(
    topics, members.flatmap(lambda members: st.tuples(st.just(members), st.permutations(members)))
)
def test_the_plan_does_not_depend_on_who_came_first(
    topics: dict[str, tuple[str, ...]],
    orders: tuple[list[tuple[str, str, Subscription]], list[tuple[str, str, Subscription]]],
) -> None:
    """The same topics and members give the same plan, in whatever order they are told."""
    members, shuffled = orders

    assert assign(dict(reversed(topics.items())), shuffled) == assign(topics, members)
