"""
Assigns partitions to consumers: Kafka 0.8's range assignment, topic by topic.

The topic's partitions, in order, are laid out over the consumer threads that are interested in it,
in order: each thread gets a run of them, and the first `partitions % threads` threads get one more.
The worked example of the documents, five partitions for two consumers with two threads each:

>>> range_assign(["P0", "P1", "P2", "P3", "P4"], ["C1_0", "C1_1", "C2_0", "C2_1"])
{'P0': 'C1_0', 'P1': 'C1_0', 'P2': 'C1_1', 'P3': 'C2_0', 'P4': 'C2_1'}

It promises that the shares of a topic are even:

>>> shares_are_even(5, {"C1": 3, "C2": 2}, {"C1": 2, "C2": 2})
True
>>> uneven_share(5, {"C1": 4, "C2": 1}, {"C1": 2, "C2": 2})
'C2'

Source: `004` (the document misprints the last P4 as P3), and `002`, step 1.3 of rebalance.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

P = TypeVar("P")
T = TypeVar("T")


class Wants(Hashable, Protocol):
    """A subscription: how many streams of a topic are wanted (`consuming.subscription`)."""

    def streams(self, topic: str) -> int:
        """The number of streams of this topic that are wanted; 0 if it is not subscribed to."""


Partition = tuple[str, str]
"""A topic's name and the partition's number, as text."""


def range_assign(partitions: Sequence[P], threads: Sequence[T]) -> dict[P, T]:
    """The thread of each partition; both are in order. Without a thread nothing is assigned."""
    if not threads:
        return {}
    each, first = divmod(len(partitions), len(threads))
    plan = {}
    begin = 0
    for index, thread in enumerate(threads):
        end = begin + each + (index < first)
        if begin == end:
            break  # no later thread gets more
        for partition in partitions[begin:end]:
            plan[partition] = thread
        begin = end
    return plan


def shares_are_even(partitions: int, shares: Mapping[T, int], threads: Mapping[T, int]) -> bool:
    """Each thread has as many partitions of a topic as any other, or one more or less."""
    return uneven_share(partitions, shares, threads) is None


def uneven_share(partitions: int, shares: Mapping[T, int], threads: Mapping[T, int]) -> T | None:
    """A member that has more partitions of a topic, or fewer, than its threads may share out."""
    every = sum(threads.values())
    if not every:
        return None
    least, most = partitions // every, -(-partitions // every)
    for member, many in threads.items():
        if not many * least <= shares.get(member, 0) <= many * most:
            return member
    return None


Columns: TypeAlias = Callable[[Sequence[Any], Sequence[str]], Iterable[tuple[int, ...]]]
"""Topic by topic, how many streams each of these subscriptions wants of it."""
Member: TypeAlias = tuple[str, str, Wants]
"""A consumer id, its registration, and what it wants."""
Share: TypeAlias = list[tuple[Partition, str]]
"""The member of each partition of one topic."""


def columns_of(subscriptions: Sequence[Wants], topics: Sequence[str]) -> Iterable[tuple[int, ...]]:
    """The numbers of streams that these subscriptions want, by topic, each asked one by one."""
    return (tuple(wants.streams(topic) for wants in subscriptions) for topic in topics)


def assign(
    topics: Mapping[str, Sequence[str]], members: Iterable[Member], columns: Columns = columns_of
) -> dict[Partition, str]:
    """
    The member of each partition that anybody wants.

    `topics` has each topic's partitions in order. Threads are ordered by consumer id, then by
    registration: two that share a consumer id stay apart, and the same members give the same plan
    whoever came first.
    """
    return {place: name for share in shares(topics, members, columns) for place, name in share}


def shares(
    topics: Mapping[str, Sequence[str]], members: Iterable[Member], columns: Columns
) -> Iterator[Share]:
    """
    The shares that `assign` puts together, topic by topic, so that it can be done in portions.

    No thread is made: a member may want a thousand of each topic. Topics that are wanted alike
    share who wants them, since most groups have one list of them.
    """
    in_order = sorted(members, key=lambda member: member[:2])
    subscriptions = {id(wants): wants for _, _, wants in in_order}
    place = {key: number for number, key in enumerate(subscriptions)}
    who = [(registration, place[id(wants)]) for _, registration, wants in in_order]
    names = sorted(topics)
    wanted = columns([*subscriptions.values()], names)
    threads: dict[tuple[int, ...], list[tuple[str, int]]] = {}
    for topic, streams in zip(names, wanted, strict=True):
        if streams not in threads:
            threads[streams] = [(name, streams[at]) for name, at in who if streams[at]]
        yield [*_laid_out(topic, topics[topic], threads[streams])]


def _laid_out(
    topic: str, partitions: Sequence[str], threads: Sequence[tuple[str, int]]
) -> Iterator[tuple[Partition, str]]:
    """The member of each partition of one topic, by the number of each member's threads."""
    if not threads:
        return
    each, first = divmod(len(partitions), sum(count for _, count in threads))
    begin = before = 0
    for member, count in threads:
        before += count
        end = before * each + min(before, first)
        for partition in partitions[begin:end]:
            yield (topic, partition), member
        begin = end
        if end == len(partitions):
            return  # no later thread gets more
