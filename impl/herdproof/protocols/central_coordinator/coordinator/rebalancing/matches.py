"""
Which topics each subscription means, found out in portions, and remembered.

To match a name can take a millisecond (a regex is a stranger's), and a plan asks for each topic and
each subscription. So nobody is a member before its wildcard has been matched with every topic, and
no topic is known before it has been matched with every wildcard: plans then look up what was found.
From one tick to the next no more than a portion is matched, however many events come meanwhile.
A subscription that names very many topics is looked up like a wildcard.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from herdproof.consuming.subscription import Named, Subscription, Wildcard

PORTION = 500_000
"""Number of steps of matching (`Pattern.steps`) taken until the next tick: 3 to 10 ms."""
MANY = 64
"""Who names so many topics has a row, like a wildcard."""

Then: TypeAlias = Callable[[], None]


class Matches:
    """A row for each subscription with very many topics: its streams of each, in their order."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        """The place of each topic in the rows; one that is gone keeps it."""
        self.rows: dict[Subscription, array[int]] = {}
        self._names: list[str] = []
        self._held: Counter[Subscription] = Counter()
        self._open: deque[tuple[deque[Subscription], Then]] = deque()
        """The rows that are to be brought up to date, and what is done then."""
        self._left = PORTION

    def clear(self) -> None:
        """No topic is known, and nobody has a wildcard."""
        for table in (self.topics, self.rows, self._names, self._held, self._open):
            table.clear()

    # ── Who is matched with what ────────────────────────────────────────────────────────────

    def hold(self, subscription: Subscription, then: Then) -> None:
        """Somebody subscribes so: go on once that is matched with every topic there is."""
        if not has_row(subscription):
            then()
            return
        self._held[subscription] += 1
        self.rows.setdefault(subscription, array("H"))
        self._match((subscription,), then)

    def drop(self, subscription: Subscription) -> None:
        """Somebody who has subscribed so is gone."""
        if not has_row(subscription):
            return
        self._held[subscription] -= 1
        if not self._held[subscription]:
            del self._held[subscription], self.rows[subscription]

    def add(self, topic: str, then: Then) -> None:
        """A topic has appeared: go on once it is matched with every wildcard there is."""
        if topic in self.topics:
            then()
            return
        self.topics[topic] = len(self._names)
        self._names.append(topic)
        self._match(self.rows, then)

    # ── What was found ──────────────────────────────────────────────────────────────────────

    def wants(self, subscription: Subscription, topic: str) -> bool:
        """True if a topic is wanted; of what is not matched yet it is assumed."""
        row = self.rows.get(subscription)
        place = self.topics.get(topic, -1)
        return row is None or not 0 <= place < len(row) or row[place] > 0

    def columns(
        self, subscriptions: Sequence[Subscription], topics: Sequence[str]
    ) -> Iterator[tuple[int, ...]]:
        """Topic by topic, how many streams each of these subscriptions wants of it."""
        width = len(self._names)
        table = array("H")
        for subscription in subscriptions:
            table.extend(self._row(subscription))
        for topic in topics:
            yield tuple(table[self.topics[topic] :: width])

    def _row(self, subscription: Subscription) -> array[int]:
        """A subscription's streams of each topic there was, in their order."""
        row = self.rows.get(subscription)
        if row is not None and len(row) == len(self._names):
            return row
        if not isinstance(subscription, Named):
            return array("H", map(subscription.streams, self._names))
        row = array("H", bytes(2 * len(self._names)))
        for topic, streams in subscription.topics:
            if topic in self.topics:
                row[self.topics[topic]] = streams
        return row

    # ── In portions ─────────────────────────────────────────────────────────────────────────

    def is_busy(self) -> bool:
        """True if something is to be matched: the next tick goes on."""
        return bool(self._open)

    def run(self) -> None:
        """Match a portion of what is to be matched."""
        self._left = PORTION
        self._go_on()

    def _match(self, subscriptions: Iterable[Subscription], then: Then) -> None:
        self._open.append((deque(subscriptions), then))
        if len(self._open) == 1:
            self._go_on()

    def _go_on(self) -> None:
        while self._open:
            subscriptions, then = self._open[0]
            while subscriptions:
                if not self._extend(subscriptions[0]):
                    return
                subscriptions.popleft()
            self._open.popleft()
            then()

    def _extend(self, subscription: Subscription) -> bool:
        """Match one with the topics that it lacks; False if the portion did not do."""
        row = self.rows.get(subscription)
        while row is not None and len(row) < len(self._names):
            if self._left <= 0:
                return False
            topic = self._names[len(row)]
            self._left -= subscription.steps(topic)
            row.append(subscription.streams(topic))
        return True


def has_row(subscription: Subscription) -> bool:
    """True if what a subscription means is remembered topic by topic."""
    return isinstance(subscription, Wildcard) or len(subscription.topics) >= MANY
