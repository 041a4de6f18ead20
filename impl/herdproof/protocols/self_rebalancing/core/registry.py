"""
The registry of what a connector consumes: topicRegistry, and its threads' queues.

Queues and streams are there from the beginning, one for each thread of a topic (of a wildcard: one
for each thread, whatever the topic); a rebalance only says whose partitions' records go into them.

Source: `004` (Create partition information object; Summary).
"""

from __future__ import annotations

from collections.abc import Mapping

from herdproof.consuming.assignment import Partition
from herdproof.consuming.fetching.topic_info import PartitionTopicInfo
from herdproof.consuming.offsets import NO_OFFSET, NamedPartition, Offset
from herdproof.protocols.self_rebalancing.registries.registrations import ConsumerRegistration


class TopicRegistry:
    """The partitions that are consumed here; `generation` counts the starts of fetchers."""

    def __init__(self, registration: ConsumerRegistration) -> None:
        self.is_wildcard = registration.is_wildcard
        pairs = [
            ("" if self.is_wildcard else topic, thread)
            for topic, threads in registration.subscription
            for thread in range(threads)
        ]
        self.topic_thread_id_and_queues = {pair: queue for queue, pair in enumerate(pairs)}
        """(topic, thread) → the number of its queue; of a wildcard, the topic is empty."""
        self.topic_registry: dict[str, dict[str, PartitionTopicInfo]] = {}
        self.generation = 0
        self.is_fetching = False

    def fill(self, offsets: Mapping[Partition, int], threads: Mapping[Partition, int]) -> None:
        """These partitions are consumed from now on, each by a thread, from an offset on."""
        self.generation += 1
        self.topic_registry = {}
        for (topic, partition), offset in sorted(offsets.items(), key=in_order):
            pair = ("" if self.is_wildcard else topic, threads[topic, partition])
            info = PartitionTopicInfo(self.topic_thread_id_and_queues[pair], offset)
            self.topic_registry.setdefault(topic, {})[partition] = info

    def clear(self) -> None:
        """Nothing is consumed any more."""
        self.topic_registry = {}

    def find(self, topic: str, partition: str) -> PartitionTopicInfo | None:
        """The knowledge of a partition; None if it is not consumed here."""
        return self.topic_registry.get(topic, {}).get(partition)

    def all_partition_infos(self) -> dict[Partition, PartitionTopicInfo]:
        """allPartitionInfos: what the fetchers are given."""
        return {
            (topic, partition): info
            for topic, infos in self.topic_registry.items()
            for partition, info in infos.items()
        }

    def consumed(self) -> dict[Partition, int]:
        """The consumedOffset of every partition whose start is known."""
        return {
            partition: info.consumed_offset
            for partition, info in self.all_partition_infos().items()
            if info.consumed_offset != NO_OFFSET
        }

    def is_current(self, generation: int | None) -> bool:
        """Tells whether this is the number of the last start; what comes of another one is late."""
        return generation is None or generation == self.generation

    def partitions(self) -> tuple[NamedPartition, ...]:
        """The partitions that are consumed here, in order."""
        return tuple(NamedPartition(*partition) for partition in self.all_partition_infos())

    def starts(self) -> tuple[Offset, ...]:
        """Where fetching begins; `NO_OFFSET` where the reset decides."""
        infos = self.all_partition_infos()
        return tuple(Offset(*partition, info.consumed_offset) for partition, info in infos.items())

    def queues(self) -> tuple[int, ...]:
        """The queue of each partition, in the order of `starts`."""
        return tuple(info.queue for info in self.all_partition_infos().values())

    def stream_count(self) -> int:
        """The number of streams, and so of queues."""
        return len(self.topic_thread_id_and_queues)


def in_order(item: tuple[Partition, int]) -> tuple[str, int]:
    """The key to sort partitions by: by topic, then by number."""
    (topic, partition), _ = item
    return topic, int(partition)
