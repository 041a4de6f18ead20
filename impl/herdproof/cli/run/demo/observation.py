"""
Observations of a demonstration, from the consumers' own deliveries and nothing else.

A consumer says of each record when it asked for it and when it had it, by the machine's monotonic
clock, which all processes share. So a *tenure* (what one process had of a partition in one
generation) surely lasted from its first record's arrival until it asked for its last one: two that
overlap are two readers at once, beyond doubt, however long a process was paused amid a line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

SILENT_S = 0.5
"""A partition to which records flow, and of which none came for longer, has no reader."""
BEFORE_S = 0.3
"""Time by which a silence may begin earlier than its cause: at the last record before it."""


class Delivery(NamedTuple):
    """A record that a process was given; `number` is its place among those of its partition."""

    reader: str
    """The consumer, by its number."""
    life: int
    """Which of its processes: the first, or one that was started later."""
    partition: int
    number: int
    generation: int
    asked_s: float
    had_s: float


@dataclass(slots=True)
class TimeRead:
    """A time for which a partition was read without a pause by one consumer."""

    reader: str
    since_s: float
    until_s: float


class Silence(NamedTuple):
    """A time in which nobody read a partition."""

    partition: int
    since_s: float
    until_s: float

    @property
    def lasted_s(self) -> float:
        """Its length."""
        return self.until_s - self.since_s


@dataclass(slots=True)
class Had:
    """A tenure, as far as it is beyond doubt."""

    first_had_s: float
    last_asked_s: float

    def overlaps(self, other: Had) -> bool:
        """Tells whether both had the partition at once."""
        return self._began_before(other) and other._began_before(self)

    def _began_before(self, other: Had) -> bool:
        return self.first_had_s < other.last_asked_s


Tenancy = tuple[str, int, int]
"""A consumer, its life and a generation."""


class Observations:
    """Records that were sent and delivered of each partition, so far."""

    def __init__(self, partitions: int) -> None:
        self.partitions = range(partitions)
        self.deliveries = 0
        self._sent: dict[int, set[int]] = defaultdict(set)
        self._delivered: dict[int, set[int]] = defaultdict(set)
        self._had: dict[int, dict[Tenancy, Had]] = defaultdict(dict)
        self._stretches: dict[int, dict[Tenancy, list[TimeRead]]] = defaultdict(dict)
        self._times: list[float] = []

    def sent(self, partition: int, number: int) -> None:
        """Note a record that Kafka has acknowledged."""
        self._sent[partition].add(number)

    def delivered(self, delivery: Delivery) -> None:
        """Note a delivery; those of one process come in its order, of several in any."""
        partition, had_s = delivery.partition, delivery.had_s
        self.deliveries += 1
        self._times.append(had_s)
        self._delivered[partition].add(delivery.number)
        tenancy = (delivery.reader, delivery.life, delivery.generation)
        had = self._had[partition].setdefault(tenancy, Had(had_s, delivery.asked_s))
        had.last_asked_s = delivery.asked_s
        stretches = self._stretches[partition].setdefault(tenancy, [])
        if stretches and had_s - stretches[-1].until_s <= SILENT_S:
            stretches[-1].until_s = had_s
        else:
            stretches.append(TimeRead(delivery.reader, had_s, had_s))

    # ── What the contract cares about ───────────────────────────────────────────────────────

    @property
    def read_by_two(self) -> int:
        """The number of times that two processes surely had one partition at once."""
        return sum(
            a[:2] != b[:2] and had.overlaps(other)
            for of_one in self._had.values()
            for (a, had), (b, other) in combinations(of_one.items(), 2)
        )

    @property
    def lost(self) -> int:
        """Records that nobody was given, though a later one of their partition was delivered."""
        return sum(
            number < max(self._delivered[partition], default=-1)
            for partition in self.partitions
            for number in self._sent[partition] - self._delivered[partition]
        )

    @property
    def waiting(self) -> int:
        """Records that are acknowledged and were given to nobody so far, whatever came later."""
        return sum(len(self._sent[p] - self._delivered[p]) for p in self.partitions)

    @property
    def again(self) -> int:
        """Deliveries of records that had been delivered before."""
        return self.deliveries - sum(map(len, self._delivered.values()))

    @property
    def acknowledged(self) -> int:
        """Records that were sent, as Kafka has acknowledged."""
        return sum(map(len, self._sent.values()))

    # ── Who reads what ──────────────────────────────────────────────────────────────────────

    @property
    def all_are_read(self) -> bool:
        """True if each partition was delivered to somebody."""
        return all(self._delivered[partition] for partition in self.partitions)

    def rate(self, now_s: float, over_s: float = 2.0) -> float:
        """Records a second, over the last few."""
        since = now_s - over_s
        self._times = [time for time in self._times if time > since]
        return len(self._times) / over_s

    def stretches(self, partition: int) -> list[TimeRead]:
        """Who read it when, by when that began."""
        found = [stretch for own in self._stretches[partition].values() for stretch in own]
        return sorted(found, key=lambda stretch: stretch.since_s)

    def reader(self, partition: int, now_s: float) -> TimeRead | None:
        """Who reads it now; None if nobody does."""
        last = max(self.stretches(partition), key=lambda s: s.until_s, default=None)
        return last if last is not None and now_s - last.until_s <= SILENT_S else None

    def silences(self, partition: int, since_s: float, now_s: float) -> list[Silence]:
        """When nobody read it, from a moment on until now."""
        return list(_between(partition, self.stretches(partition), since_s, now_s))


def _between(
    partition: int, stretches: Iterable[TimeRead], since_s: float, now_s: float
) -> Iterator[Silence]:
    """The silences before, between and after these, which come as they began."""
    covered = since_s
    for stretch in stretches:
        if stretch.since_s - covered > SILENT_S:
            yield Silence(partition, covered, stretch.since_s)
        covered = max(covered, stretch.until_s)
    if now_s - covered > SILENT_S:
        yield Silence(partition, covered, now_s)


def longest_after(at_s: float, next_s: float, silences: Iterable[Silence]) -> Silence | None:
    """The longest that began after an act and before the next; None if there was none."""
    own = [silence for silence in silences if at_s <= silence.since_s + BEFORE_S < next_s]
    return max(own, key=lambda silence: silence.lasted_s, default=None)
