"""
AssignmentContext, from which a member plans, and the plan that follows, for the whole group.

Every member plans for all by itself, so what it reads must lead each to the same plan: threads are
ordered by their names as texts, UTF-16 unit by unit as Java does (`-10` comes before `-2`),
partitions as numbers, and a topic is shared out by range among the threads that want it.

Source: `004` (rebalance(), steps 1 to 3); Kafka 0.8.2, `AssignmentContext`, `RangeAssignor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from herdproof.consuming.assignment import Partition, range_assign
from herdproof.protocols.self_rebalancing.registries.registrations import ConsumerRegistration


@dataclass(frozen=True, slots=True, order=False)
class ConsumerThreadId:
    """A thread of a member; its text is what an owner node says."""

    consumer: str
    thread: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.thread}"

    @property
    def in_order(self) -> bytes:
        """The key to sort threads by."""
        return str(self).encode("utf-16-be", "surrogatepass")


@dataclass(frozen=True, slots=True)
class AssignmentContext:
    """Partitions of the topics that a member wants, and the registrations of the whole group."""

    consumer_id: str
    partitions_for_topic: Mapping[str, Sequence[str]]
    registrations: Mapping[str, ConsumerRegistration]

    def consumers_for_topic(self, topic: str) -> list[ConsumerThreadId]:
        """The threads that want a topic, in order."""
        threads = [
            ConsumerThreadId(consumer, thread)
            for consumer, registration in self.registrations.items()
            for thread in range(registration.threads(topic))
        ]
        return sorted(threads, key=lambda thread: thread.in_order)

    def plan(self) -> dict[Partition, ConsumerThreadId]:
        """The thread of each partition of these topics, for the whole group."""
        return {
            (topic, partition): thread
            for topic in sorted(self.partitions_for_topic)
            for partition, thread in range_assign(
                self.partitions_for_topic[topic], self.consumers_for_topic(topic)
            ).items()
        }

    def own(self) -> dict[Partition, int]:
        """The partitions that the plan gives to the member itself, each with its thread."""
        return {
            partition: thread.thread
            for partition, thread in self.plan().items()
            if thread.consumer == self.consumer_id
        }
