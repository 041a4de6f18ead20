"""SubscriptionState: what the user wants, what is assigned, and how far each partition is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from herdproof.consuming.offsets import NO_OFFSET, NamedPartition, Offset, number_of, text_of
from herdproof.consuming.subscription import Named, Subscription
from herdproof.protocols.group_protocol.client.core.events import ModesMixed
from herdproof.protocols.group_protocol.effects import TopicPartition


@dataclass(slots=True)
class PartitionState:
    """An assigned partition."""

    position: int | None = None
    """The first offset that the application has not finished with; None: not looked up yet."""
    committed: int = NO_OFFSET
    """The offset that is stored, as far as was heard."""


class SubscriptionState:
    """Either topics whose partitions the group shares, or partitions assigned by hand."""

    def __init__(self) -> None:
        self.subscription: Subscription | None = None
        self.by_hand = False
        self.assignment: dict[TopicPartition, PartitionState] = {}
        self.generation = 0
        """Of the fetchers: another one with each start."""
        self.is_consuming = False
        """Fetchers run."""

    # ── What the user wants ─────────────────────────────────────────────────────────────────

    def subscribe(self, subscription: Subscription) -> None:
        """The group shares these topics' partitions."""
        if self.by_hand:
            raise ModesMixed("partitions were assigned by hand: make another consumer to subscribe")
        self.subscription = subscription

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are assigned by hand."""
        if self.subscription is not None:
            raise ModesMixed("the consumer has subscribed: make another one to assign by hand")
        self.by_hand = True
        self.assignment = {where: PartitionState() for where in sorted(set(partitions))}

    def partitions_auto_assigned(self) -> bool:
        """True if the group shares partitions, and nobody assigns them by hand."""
        return self.subscription is not None

    def topics(self, existing: Mapping[str, int]) -> tuple[str, ...]:
        """The topics that are wanted: by name, or of those that exist."""
        if self.by_hand:
            return tuple(dict.fromkeys(topic for topic, _ in self.assignment))
        if isinstance(self.subscription, Named):
            return tuple(topic for topic, _ in self.subscription.topics)
        wants = self.subscription
        return tuple(t for t in sorted(existing) if wants is not None and wants.streams(t))

    def metadata_topics(self) -> tuple[str, ...] | None:
        """The topics that have to be known; None: all."""
        wants = self.subscription
        return None if wants is not None and wants.is_wildcard else self.topics({})

    # ── What is assigned ────────────────────────────────────────────────────────────────────

    def assign_from_subscribed(self, partitions: Iterable[TopicPartition]) -> None:
        """The group assigns these; what was assigned before keeps its position."""
        former = self.assignment
        self.assignment = {
            where: former.get(where, PartitionState()) for where in sorted(set(partitions))
        }

    def revoke(self) -> None:
        """Nothing is assigned any more."""
        if not self.by_hand:
            self.assignment = {}

    def missing(self) -> list[TopicPartition]:
        """The partitions of which nobody knows yet where they begin."""
        return [where for where, state in self.assignment.items() if state.position is None]

    def consumed(self, offset: Offset) -> bool:
        """The application has finished with what is before; whether it had not before."""
        state = self.assignment.get((offset.topic, number_of(offset.partition)))
        if state is None or state.position is None or state.position >= offset.offset:
            return False
        state.position = offset.offset
        return True

    def finished(self) -> dict[TopicPartition, int]:
        """By partition, the first offset that the application has not finished with."""
        return {
            where: state.position
            for where, state in self.assignment.items()
            if state.position is not None and state.position != NO_OFFSET
        }

    def fresh(self) -> dict[TopicPartition, int]:
        """The offsets that are finished and not stored yet, as far as was heard."""
        return {
            where: offset
            for where, offset in self.finished().items()
            if offset > self.assignment[where].committed
        }

    # ── What a session shows of it ──────────────────────────────────────────────────────────

    def named(self) -> tuple[NamedPartition, ...]:
        """The partitions that are assigned, in order."""
        return places(self.assignment)

    def partitions(self) -> tuple[NamedPartition, ...]:
        """The partitions that are consumed here, in order."""
        return self.named() if self.is_consuming else ()

    def stream_count(self) -> int:
        """The number of streams, and so of queues, that the subscription has."""
        wants = self.subscription
        if isinstance(wants, Named):
            return sum(count for _, count in wants.topics)
        return 1 if wants is None else wants.count

    def starts(self) -> tuple[Offset, ...]:
        """Where fetchers are to begin."""
        return tuple(
            Offset(topic, text_of(number), NO_OFFSET if s.position is None else s.position)
            for (topic, number), s in self.assignment.items()
        )

    def queues(self) -> tuple[int, ...]:
        """For each partition that is assigned its queue: those of a topic take turns."""
        first: dict[str, int] = {}
        streams: dict[str, int] = {}
        wants = self.subscription
        if isinstance(wants, Named):
            queue = 0
            for topic, count in wants.topics:
                first[topic], streams[topic] = queue, count
                queue += count
        many = 1 if wants is None or isinstance(wants, Named) else wants.count
        turns: dict[str, int] = {}
        found = []
        for topic, _ in self.assignment:
            turn = turns[topic] = turns.get(topic, -1) + 1
            found.append(first.get(topic, 0) + turn % streams.get(topic, many))
        return tuple(found)


def places(partitions: Iterable[TopicPartition]) -> tuple[NamedPartition, ...]:
    """Partitions as the consuming parts call them."""
    return tuple(NamedPartition(topic, text_of(number)) for topic, number in partitions)
