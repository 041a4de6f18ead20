"""The plan that every self-rebalancing member makes for all, as Kafka 0.8 makes it."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from herdproof.consuming.assignment import Partition
from herdproof.protocols.self_rebalancing.registries.context import (
    AssignmentContext,
    ConsumerThreadId,
)
from herdproof.protocols.self_rebalancing.registries.registrations import (
    ConsumerRegistration,
    SubscriptionPattern,
)

TOPICS = ("t0", "t1", "u")
STATIC = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1).map(
    lambda topics: ConsumerRegistration(tuple(sorted(topics.items())))
)
WILDCARDS = st.builds(
    lambda regex, threads, lists: ConsumerRegistration(((regex, threads),), lists),
    st.sampled_from(["t.*", "u", ".*"]), st.integers(1, 12),
    st.sampled_from([SubscriptionPattern.WHITE_LIST, SubscriptionPattern.BLACK_LIST]),
)  # fmt: skip
GROUPS = st.dictionaries(
    st.sampled_from(["g_a-1-00", "g_a-10-00", "g_b-1-00", "g_\uffee", "g_\U0001f404"]),
    STATIC | WILDCARDS, min_size=1,
)  # fmt: skip
PARTITIONS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 25)).map(
    lambda topics: {topic: tuple(map(str, range(count))) for topic, count in topics.items()}
)


def java_compared(one: str, other: str) -> int:
    """`String.compareTo`, literally: the first UTF-16 unit that differs, else the length."""
    units = [text.encode("utf-16-be", "surrogatepass") for text in (one, other)]
    chars = [[u[i] << 8 | u[i + 1] for i in range(0, len(u), 2)] for u in units]
    for mine, theirs in zip(*chars, strict=False):
        if mine != theirs:
            return int(mine - theirs)
    return len(chars[0]) - len(chars[1])


def range_assignor(
    me: str, topics: Mapping[str, tuple[str, ...]], group: Mapping[str, ConsumerRegistration]
) -> dict[Partition, str]:
    """0.8.2's RangeAssignor for one member, line by line: by positions, not by dealing out."""
    found: dict[Partition, str] = {}
    for topic, partitions in topics.items():
        threads = [f"{c}-{i}" for c, r in group.items() for i in range(r.threads(topic))]
        mine = [thread for thread in threads if thread.rpartition("-")[0] == me]
        for thread in mine:
            position = sum(java_compared(other, thread) < 0 for other in threads)
            each, extra = divmod(len(partitions), len(threads))
            start = each * position + min(position, extra)
            parts = each + (0 if position + 1 > extra else 1)
            found |= {(topic, p): thread for p in partitions[start : start + parts]}
    return found


@given(GROUPS, PARTITIONS)
def test_each_member_plans_as_0_8_does(
    group: dict[str, ConsumerRegistration], topics: dict[str, tuple[str, ...]]
) -> None:
    """What a member takes for its own is what 0.8's RangeAssignor gives it."""
    for member in group:
        own = AssignmentContext(member, topics, group).own()
        as_text = {p: str(ConsumerThreadId(member, thread)) for p, thread in own.items()}
        assert as_text == range_assignor(member, topics, group)


@given(GROUPS, PARTITIONS)
def test_the_members_parts_are_the_whole(
    group: dict[str, ConsumerRegistration], topics: dict[str, tuple[str, ...]]
) -> None:
    """Members that read the same share everything that is wanted, and nothing twice."""
    own = [AssignmentContext(member, topics, group).own() for member in group]
    shared = [partition for each in own for partition in each]
    wanted = [
        (topic, p)
        for topic, partitions in topics.items()
        if any(registration.threads(topic) for registration in group.values())
        for p in partitions
    ]

    assert sorted(shared) == sorted(wanted)


def test_threads_are_ordered_as_texts() -> None:
    """Thread 10 comes before thread 2, and gets its partitions before it."""
    context = AssignmentContext(
        "c", {"t": tuple("0123")}, {"c": ConsumerRegistration((("t", 11),))}
    )

    assert [thread.thread for thread in context.consumers_for_topic("t")][:4] == [0, 1, 10, 2]
    assert context.own() == {("t", "0"): 0, ("t", "1"): 1, ("t", "2"): 10, ("t", "3"): 2}


def test_the_worked_example_of_the_document() -> None:
    """Five partitions, two consumers with two threads each; the misprinted P4 is P4."""
    both = ConsumerRegistration((("t", 2),))
    plan = AssignmentContext("C1", {"t": tuple("01234")}, {"C1": both, "C2": both}).plan()

    assert [str(thread) for thread in plan.values()] == ["C1-0", "C1-0", "C1-1", "C2-0", "C2-1"]


def test_fewer_partitions_than_threads_leave_threads_idle() -> None:
    """Threads beyond the partitions have nothing; so may whole members."""
    group = {"a": ConsumerRegistration((("t", 2),)), "b": ConsumerRegistration((("t", 2),))}

    assert AssignmentContext("b", {"t": ("0", "1")}, group).own() == {}


def test_a_topic_that_nobody_wants_is_planned_for_nobody() -> None:
    """Partitions without a thread are left out of the plan."""
    context = AssignmentContext(
        "a", {"t": ("0",), "u": ("0",)}, {"a": ConsumerRegistration((("u", 1),))}
    )

    assert context.plan() == {("u", "0"): ConsumerThreadId("a", 0)}
