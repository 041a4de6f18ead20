"""
The corrected protocol where all partitions are of one topic: range shares them out.

With several partitions of a topic consumers exchange partitions: each may wait for a node of the
other's. `settles` is looked at here, too.
"""

from __future__ import annotations

from herdspec import each, initial, require, specification
from herdspec.protocols.self_rebalancing.properties import PROMISES, complete, settles
from herdspec.protocols.self_rebalancing.spec import Member, Partition, SelfRebalancing, Session
from herdspec.protocols.self_rebalancing.values import Rank


class OneTopic(SelfRebalancing):
    """Consumers of one topic rebalance by themselves."""

    place: dict[Partition, Rank] = each(0)  # the partition's number

    @initial
    def numbered(
        self, there: set[Partition], order: dict[Member, Rank], numbers: dict[Partition, Rank]
    ) -> None:
        """Partitions are numbered, and come in this order; threads are ordered by their names."""
        require(all(m == c or order[m] != order[c] for m in Member for c in Member))
        require(all(order[m] == 0 or any(order[c] + 1 == order[m] for c in Member) for m in Member))
        require(all(p == q or numbers[p] != numbers[q] for p in Partition for q in Partition))
        require(
            all(
                numbers[p] == 0 or any(numbers[q] + 1 == numbers[p] for q in Partition)
                for p in Partition
            )
        )
        require(
            all(
                p not in there or q in there or numbers[p] < numbers[q]
                for p in Partition
                for q in Partition
            )
        )
        for p in Partition:
            self.exists[p] = p in there
            self.place[p] = numbers[p]
        for m in Member:
            self.rank[m] = order[m]


def in_turn(self: OneTopic, m: Member, p: Partition, mine: bool) -> bool:
    """Each thread gets as many partitions, and the first ones one more; of two, as range does."""
    threads = sum(1 for c in Member if self.registered[c])
    before = sum(1 for c in Member if self.registered[c] and self.rank[c] < self.rank[m])
    return mine == (self.seen[m, p] and self.place[p] % threads == before)


def register_for_all(self: OneTopic, m: Member, wanted: set[Partition]) -> None:
    """{m} starts: its node in ids says that it wants the topic, {wanted}."""
    require(self.session[m] == Session.NONE)
    require(all(p in wanted for p in Partition))
    for p in Partition:
        self.interest[m, p] = True
    self.due[m] = True
    self.begin_session(m)


ONE_TOPIC = (
    specification(OneTopic, *PROMISES, complete, settles)
    .drop("OneTopic", "threads_in_order")
    .replace("OneTopic", agrees=in_turn, register=register_for_all)
)
"""The corrected protocol, as range shares out one topic."""
