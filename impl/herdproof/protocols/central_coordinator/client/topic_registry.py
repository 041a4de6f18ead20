"""
A consumer's partitions: `topicRegistry` and `topicThreadIdAndQueues` of the documents.

A subscription has streams, each read by a thread of the application from a queue of its own. A
partition's records go to one queue. The coordinator counts threads when it shares partitions out,
but a Start does not name them; a consumer shares its own partitions out by the same rule (range),
which gives each thread what the coordinator meant for it.

Source: `002` (handleStartRequest), `004` (the data), `000` (current consumed partition info).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from herdproof.consuming.fetching.topic_info import PartitionTopicInfo
from herdproof.consuming.offsets import NO_OFFSET, NamedPartition, Offset
from herdproof.consuming.subscription import Named, Subscription
from herdproof.protocols.central_coordinator.wire.partition import number_of

Registry = dict[str, dict[str, PartitionTopicInfo]]
"""topic → partition → what is known of it."""


@dataclass(slots=True)
class Consumption:
    """Assignment of a consumer, and the latest epoch that it has seen: it outlives connections."""

    subscription: Subscription
    consumer_id: str
    fetcher_stopped: bool = True
    generation: int = 0
    epoch: int = 0
    revocations: int = 0
    """Number of `Revoked` that the rebalance listener has been told of and not returned from."""
    topic_registry: Registry = field(default_factory=dict)
    topic_thread_id_and_queues: dict[tuple[str, str], int] = field(default_factory=dict)
    """(topic, thread id) → the number of its queue."""

    def __post_init__(self) -> None:
        if isinstance(self.subscription, Named):
            self.rebuild_threads(topic for topic, _ in self.subscription.topics)

    def rebuild_threads(self, topics: Iterable[str]) -> None:
        """
        Rebuild `topic_thread_id_and_queues` for these topics.

        By name every (topic, thread) has a queue of its own; a wildcard's threads have one each,
        for all topics. So a queue's number always means the same stream.
        """
        pairs = [
            (topic, thread)
            for topic in sorted(topics)
            for thread in range(self.subscription.streams(topic))
        ]
        self.topic_thread_id_and_queues = {
            (topic, f"{self.consumer_id}-{thread}"): (
                thread if self.subscription.is_wildcard else number
            )
            for number, (topic, thread) in enumerate(pairs)
        }

    def planned(self, partitions: Sequence[Offset]) -> Registry:
        """The registry for these partitions, each topic's shared out to its threads by range."""
        topics: dict[str, list[Offset]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition)
        return {topic: self._shared_out(topic, topics[topic]) for topic in sorted(topics)}

    def _shared_out(self, topic: str, own: list[Offset]) -> dict[str, PartitionTopicInfo]:
        own.sort(key=lambda partition: number_of(partition.partition))
        threads = self.subscription.streams(topic)
        each, extra = divmod(len(own), threads)
        shares = [thread for thread in range(threads) for _ in range(each + (thread < extra))]
        return {
            partition.partition: PartitionTopicInfo(
                queue=self.topic_thread_id_and_queues[topic, f"{self.consumer_id}-{thread}"],
                consumed_offset=partition.offset,
            )
            for partition, thread in zip(own, shares, strict=True)
        }

    def clear(self) -> None:
        """Consume nothing any more."""
        self.topic_registry = {}

    def find(self, topic: str, partition: str) -> PartitionTopicInfo | None:
        """The state of a partition; None if it is not consumed here."""
        return self.topic_registry.get(topic, {}).get(partition)

    def partitions(self) -> tuple[NamedPartition, ...]:
        """The partitions that are consumed here, in order."""
        return tuple(
            NamedPartition(topic, partition)
            for topic, infos in self.topic_registry.items()
            for partition in infos
        )

    def stream_count(self) -> int:
        """The number of streams, and so of queues, that the subscription has."""
        if isinstance(self.subscription, Named):
            return sum(count for _, count in self.subscription.topics)
        return self.subscription.count

    def consumed(self) -> tuple[Offset, ...]:
        """The consumed offset of every partition that has one."""
        return tuple(
            Offset(topic, partition, info.consumed_offset)
            for topic, infos in self.topic_registry.items()
            for partition, info in infos.items()
            if info.consumed_offset != NO_OFFSET
        )

    def starts(self) -> tuple[Offset, ...]:
        """Where fetching begins; `NO_OFFSET` where the reset decides."""
        return tuple(
            Offset(topic, partition, info.consumed_offset)
            for topic, infos in self.topic_registry.items()
            for partition, info in infos.items()
        )

    def queues(self) -> tuple[int, ...]:
        """The queue of each partition, in the order of `starts`."""
        return tuple(
            info.queue for infos in self.topic_registry.values() for info in infos.values()
        )
