"""State of a partition that a consumer consumes: PartitionTopicInfo of the documents."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PartitionTopicInfo:
    """A partition that is consumed here; `fetchedOffset` is its fetcher's own."""

    queue: int
    """The number of the queue that its records go to."""
    consumed_offset: int
    """The first offset that the application has not finished with; `NO_OFFSET`: not resolved."""
