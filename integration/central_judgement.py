"""
What must hold of system B's deliveries, judged from what consumers reported and ZooKeeper showed.

A tenure is the time for which one consumer had one partition: from the assignment until the
listener has returned, if a Stop ended it; else (a lost connection, a death) until the last record
that was delivered, after which the lease alone keeps the others out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A line of `central_programs.py`; `at` is monotonic, in seconds."""

    event: str
    consumer: str
    at: float
    place: Place = ("", -1)
    offset: int = -1
    generation: int = 0
    places: tuple[Place, ...] = ()
    stopped: bool = False

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> Self:
        """The line that is this JSON."""
        return cls(
            event=line["event"],
            consumer=line["consumer"],
            at=line["at"],
            place=(line.get("topic", ""), line.get("partition", -1)),
            offset=line.get("offset", -1),
            generation=line.get("generation", 0),
            places=tuple((topic, int(number)) for topic, number in line.get("partitions", ())),
            stopped=line.get("stopped", False),
        )


@dataclass(kw_only=True)
class Tenure:
    """For how long one consumer had one partition, and what was delivered to it."""

    consumer: str
    place: Place
    since: float
    until: float
    records: list[Seen] = field(default_factory=list)
    stopped: bool = False
    """Whether a Stop ended it."""

    @property
    def last(self) -> int:
        """The last offset that was delivered; -1 if none was."""
        return self.records[-1].offset if self.records else -1

    def __str__(self) -> str:
        topic, partition = self.place
        generations = sorted({record.generation for record in self.records})
        return (
            f"{self.consumer} had {topic}-{partition} from {self.since:.3f} to {self.until:.3f} "
            f"({len(self.records)} records to {self.last}, generations {generations})"
        )


def tenures(seen: Iterable[Seen]) -> list[Tenure]:
    """The tenures in what consumers reported, each one's in its order."""
    ended: list[Tenure] = []
    has: dict[str, dict[Place, Tenure]] = defaultdict(dict)
    for line in seen:
        own = has[line.consumer]
        match line.event:
            case "assigned":
                ended += own.values()
                has[line.consumer] = {
                    place: Tenure(consumer=line.consumer, place=place, since=line.at, until=line.at)
                    for place in line.places
                }
            case "revoked":
                for tenure in own.values():
                    if line.stopped:
                        tenure.until, tenure.stopped = line.at, True
                ended += own.values()
                has[line.consumer] = {}
            case _:
                assert line.place in own, f"{line} came without an assignment"
                own[line.place].records.append(line)
                own[line.place].until = line.at
    return [*ended, *(tenure for own in has.values() for tenure in own.values())]


def by_place(all_tenures: Iterable[Tenure]) -> dict[Place, list[Tenure]]:
    """Each place's tenures, as they began."""
    found: dict[Place, list[Tenure]] = defaultdict(list)
    for tenure in sorted(all_tenures, key=lambda tenure: tenure.since):
        found[tenure.place].append(tenure)
    return found


def assert_exclusive(all_tenures: Iterable[Tenure]) -> int:
    """No two consumers ever have one partition at a time; how many times it changed hands."""
    hands = 0
    for of_one in by_place(all_tenures).values():
        for earlier, later in pairwise(of_one):
            assert earlier.until <= later.since, f"two have it at once: {earlier}; {later}"
            hands += earlier.consumer != later.consumer
            if earlier.records and later.records:
                assert earlier.records[-1].generation < later.records[0].generation, (
                    f"generations went back: {earlier}; {later}"
                )
    return hands


def assert_all_delivered(produced: Collection[tuple[Place, int]], seen: Iterable[Seen]) -> None:
    """Each record that was acknowledged to its producer was delivered, once at least."""
    delivered = {(line.place, line.offset) for line in seen if line.event == "record"}
    lost = sorted(set(produced) - delivered)
    assert not lost, f"{len(lost)} of {len(produced)} records were lost, as {lost[:5]}"


def assert_in_order(all_tenures: Iterable[Tenure]) -> None:
    """Within a tenure offsets go up, and none is left out."""
    for tenure in all_tenures:
        for earlier, later in pairwise(tenure.records):
            assert later.offset == earlier.offset + 1, f"{later} after {earlier}"


def assert_bounded_again(all_tenures: Iterable[Tenure], behind_s: float) -> int:
    """
    What is delivered again was delivered shortly before; how many records that were.

    After a Stop only the record at hand comes again; after anything else what was delivered within
    `behind_s` seconds of the end, for its offset may not have been stored.
    """
    again = 0
    for of_one in by_place(all_tenures).values():
        latest: list[Seen] = []
        for earlier, later in pairwise(of_one):
            latest = earlier.records or latest
            if not later.records:
                continue
            twice = [record for record in latest if record.offset >= later.records[0].offset]
            again += len(twice)
            if earlier.stopped:
                assert len(twice) <= 1, f"{len(twice)} again after a Stop: {earlier}; {later}"
            elif twice:
                behind = earlier.until - twice[0].at
                assert behind <= behind_s, f"{behind:.1f} s again: {earlier}; {later}"
    return again


def assert_never_back(committed: Mapping[Place, Sequence[int]]) -> None:
    """Offsets, as ZooKeeper showed them one after the other, only go up."""
    for place, offsets in committed.items():
        assert list(offsets) == sorted(offsets), f"{place} went back: {offsets}"
