"""
Which topics each wildcard means, found out in portions, and remembered.

To match a name can take a millisecond (a regex is a stranger's), and a plan asks for each topic and
each wildcard. So nobody is a member before its wildcard has been matched with every topic, and no
topic is known before it has been matched with every wildcard: plans then look up what was found.
From one tick to the next no more than a portion is matched, however many events come meanwhile.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, TypeAlias

from herdproof.consuming.subscription import Named, Subscription, Wildcard

if TYPE_CHECKING:
    from herdproof.consuming.assignment import Wants

PORTION = 2_000_000
"""How many steps of matching (`Pattern.steps`) are taken until the next tick: some 10 ms."""

Then: TypeAlias = Callable[[], None]


class Matches:
    """A row for each wildcard that somebody has: its streams of each topic, in their order."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        """The place of each topic in the rows; one that is gone keeps it."""
        self.rows: dict[Wildcard, array[int]] = {}
        self._names: list[str] = []
        self._held: Counter[Wildcard] = Counter()
        self._open: deque[tuple[deque[Wildcard], Then]] = deque()
        """The rows that are to be brought up to date, and what is done then."""
        self._left = PORTION

    def clear(self) -> None:
        """No topic is known, and nobody has a wildcard."""
        for table in (self.topics, self.rows, self._names, self._held, self._open):
            table.clear()

    # ── Who is matched with what ────────────────────────────────────────────────────────────

    def hold(self, subscription: Subscription, then: Then) -> None:
        """Somebody subscribes so: go on once that is matched with every topic there is."""
        if not isinstance(subscription, Wildcard):
            then()
            return
        self._held[subscription] += 1
        self.rows.setdefault(subscription, array("H"))
        self._match((subscription,), then)

    def drop(self, subscription: Subscription) -> None:
        """Somebody who has subscribed so is gone."""
        if not isinstance(subscription, Wildcard):
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
        """Whether a topic is wanted; of what is not matched yet it is assumed."""
        row = self.rows.get(subscription) if isinstance(subscription, Wildcard) else None
        place = self.topics.get(topic, -1)
        return row is None or not 0 <= place < len(row) or row[place] > 0

    def row(self, wants: Wants, topics: Sequence[str]) -> Iterable[int]:
        """How many streams a subscription wants of each of these topics."""
        if isinstance(wants, Named):
            return map(dict(wants.topics).get, topics, repeat(0))
        row = self.rows.get(wants) if isinstance(wants, Wildcard) else None
        if row is None or len(row) < len(self._names):
            return map(wants.streams, topics)
        return map(row.__getitem__, map(self.topics.__getitem__, topics))

    # ── In portions ─────────────────────────────────────────────────────────────────────────

    def is_busy(self) -> bool:
        """Whether something is to be matched: the next tick goes on."""
        return bool(self._open)

    def run(self) -> None:
        """Match a portion of what is to be matched."""
        self._left = PORTION
        self._go_on()

    def _match(self, wildcards: Iterable[Wildcard], then: Then) -> None:
        self._open.append((deque(wildcards), then))
        if len(self._open) == 1:
            self._go_on()

    def _go_on(self) -> None:
        while self._open:
            wildcards, then = self._open[0]
            while wildcards:
                if not self._extend(wildcards[0]):
                    return
                wildcards.popleft()
            self._open.popleft()
            then()

    def _extend(self, wildcard: Wildcard) -> bool:
        """Match a wildcard with the topics that it lacks; False if the portion did not do."""
        row = self.rows.get(wildcard)
        while row is not None and len(row) < len(self._names):
            if self._left <= 0:
                return False
            topic = self._names[len(row)]
            self._left -= wildcard.pattern.steps(topic)
            row.append(wildcard.streams(topic))
        return True
