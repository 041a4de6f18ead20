"""
Even shares: what every range assignor promises of a topic, whoever judges it.

>>> shares_are_even(5, {"C1": 3, "C2": 2}, {"C1": 2, "C2": 2})
True
>>> uneven_share(5, {"C1": 4, "C2": 1}, {"C1": 2, "C2": 2})
'C1'
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

M = TypeVar("M", bound=Hashable)


def shares_are_even(partitions: int, shares: Mapping[M, int], threads: Mapping[M, int]) -> bool:
    """Each thread has as many partitions of a topic as any other, or one more or less."""
    return uneven_share(partitions, shares, threads) is None


def uneven_share(partitions: int, shares: Mapping[M, int], threads: Mapping[M, int]) -> M | None:
    """A member that has more partitions of a topic, or fewer, than its threads may share out."""
    every = sum(threads.values())
    if not every:
        return None
    least, most = partitions // every, -(-partitions // every)
    for member, many in threads.items():
        if not many * least <= shares.get(member, 0) <= many * most:
            return member
    return None
