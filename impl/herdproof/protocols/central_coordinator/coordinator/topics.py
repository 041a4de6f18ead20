"""
The listeners of topics and their partitions: what there is to be assigned.

Watches are one-shot, so every change leads to a read that leaves the next watch; whatever happened
between the two is seen by that read, which is compared with what was known. A watch that fires
while its node is being read leads to another read: which of the two is older nobody has to know.

Source: `002` (TopicChangeListener, TopicPartitionChangeListener; "topics only appear": Kafka 3.9
can delete them, so here they may go). Kafka 3.9 keeps a topic's partitions in its node's data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from herdproof.consuming.kafka_nodes import read_partitions
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.consuming.subscription import Named, Subscription
from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.coordinator.outbox import Question
from herdproof.protocols.central_coordinator.coordinator.rebalancing.matches import has_row
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.zookeeper.names import unquoted
from herdproof.zookeeper.operations import Answer, Children, Data, Get, Names, Refusal, Why

Changed = Callable[[str], None]
"""Told of a topic that has appeared, has more partitions, or is gone."""


class TopicListeners(CorePart):
    """The topics as ZooKeeper has them; `changed` is called after they were read first."""

    def __init__(self, context: Context, changed: Changed, read: Callable[[], None]) -> None:
        super().__init__(context)
        self.topics: dict[str, tuple[str, ...]] = {}
        """By name, the numbers of the partitions, as text, in order."""
        self.changes = 0
        """Number of times that the topics or their partitions have changed."""
        self.are_read = False
        """True if all topics have been read since startup; `read` is called when they are."""
        self.has_started = False
        self._reading: dict[str, bool] = {}
        """Paths that are being read, and whether a watch on them has fired since."""
        self._matching: dict[str, tuple[str, ...]] = {}
        """The partitions of topics that are being matched with wildcards."""
        self._changed = changed
        self._read = read

    def start(self) -> None:
        """Read all topics, and listen from then on."""
        self.has_started = True
        self._look(self._paths.topics)

    def of(self, subscriptions: Iterable[Subscription]) -> Mapping[str, tuple[str, ...]]:
        """The topics that these subscriptions may want; all of them if one has a row of its own."""
        names: set[str] = set()
        for subscription in subscriptions:
            if not isinstance(subscription, Named) or has_row(subscription):
                return self.topics
            names.update(topic for topic, _ in subscription.topics)
        return {topic: self.topics[topic] for topic in sorted(names & self.topics.keys())}

    def clear(self) -> None:
        """Nothing is known, and nothing is listened to."""
        self.topics.clear()
        self.changes += 1
        self._reading.clear()
        self._matching.clear()
        self.has_started = self.are_read = False

    def fired(self, path: str) -> bool:
        """A watch fired; whether it was one of these."""
        if path != self._paths.topics and not path.startswith(f"{self._paths.topics}/"):
            return False
        if path in self._reading:
            self._reading[path] = True
        else:
            self._look(path)
        return True

    def _look(self, path: str) -> None:
        """Read a node, and leave a watch on it."""
        self._purgatory.clear(("topics", path))
        self._reading[path] = False
        self._outbox.ask(*self._question(path))

    def _question(self, path: str) -> Question:
        """Ask for a node, and leave a watch on it."""
        if path == self._paths.topics:
            return Children(path, watch=True), self._listed
        topic = unquoted(path.rpartition("/")[2])
        return Get(path, watch=True), partial(self._described, topic)

    def _finish_look(self, path: str, answer: Answer) -> bool:
        """A read was answered; whether it counts, and is not done again."""
        if isinstance(answer, Refusal) and answer.why is not Why.NO_NODE:
            self._outbox.report(What.ZOOKEEPER_TROUBLE, task="topics", why=answer.why.value)
            self._look_later(path)
            return False
        if self._reading.pop(path):
            self._look(path)
            return False
        return True

    def _look_later(self, path: str) -> None:
        """Read a node again after a while."""
        backoff_ms = self._settings.zookeeper_backoff_ms
        self._after(backoff_ms, ("topics", path), partial(self._look, path))

    # ── Topics ──────────────────────────────────────────────────────────────────────────────

    def _listed(self, answer: Answer) -> None:
        """The topics' names have been read."""
        if not self._finish_look(self._paths.topics, answer):
            return
        if isinstance(answer, Names):
            self.topic_change_listener({unquoted(name) for name in answer.names})
        else:  # Kafka has not made the node yet
            self._look_later(self._paths.topics)
        self._check_read()

    def topic_change_listener(self, names: set[str]) -> None:
        """TopicChangeListener: listen to the topics that are new; one that goes tells itself."""
        found = map(self._paths.topic, sorted(names - self.topics.keys()))
        new = [path for path in found if path not in self._reading]
        self._reading.update(dict.fromkeys(new, False))
        self._outbox.ask_each(new, self._question)

    def _gone(self, topic: str) -> None:
        self._matching.pop(topic, None)
        if self.topics.pop(topic, None) is not None:
            self.changes += 1
            if self.are_read:
                self._changed(topic)

    # ── Partitions ──────────────────────────────────────────────────────────────────────────

    def _described(self, topic: str, answer: Answer) -> None:
        """A topic's node has been read."""
        if not self._finish_look(self._paths.topic(topic), answer):
            return
        if isinstance(answer, Data):
            partitions = read_partitions(answer.data)
            if partitions is None:
                self._outbox.report(What.BAD_TOPIC, topic=topic)
            else:
                is_new = topic not in self._matching
                self._matching[topic] = partitions
                if is_new:
                    self._context.matches.add(topic, partial(self._matched, topic))
        else:
            self._gone(topic)
        self._check_read()

    def _matched(self, topic: str) -> None:
        """It is known which wildcards mean a topic."""
        partitions = self._matching.pop(topic, None)
        if partitions is not None:  # it has not gone meanwhile
            self.topic_partition_change_listener(topic, partitions)
        self._check_read()

    def topic_partition_change_listener(self, topic: str, partitions: tuple[str, ...]) -> None:
        """TopicPartitionChangeListener: tell if the topic's partitions are not those known."""
        if self.topics.get(topic) != partitions:
            there = tuple(Offset(topic, number, NO_OFFSET) for number in partitions)
            self._outbox.emit(CoordinationStep(action="topic_change_listener", partitions=there))
            self.topics[topic] = partitions
            self.changes += 1
            if self.are_read:
                self._changed(topic)

    def _check_read(self) -> None:
        """Tell, once, that everything there is has been read."""
        if not self.are_read and not self._reading and not self._matching:
            self.are_read = True
            self._read()
