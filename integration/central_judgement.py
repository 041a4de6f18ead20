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
from pathlib import Path
from typing import Any, Self

from herdproof.conformance.traces.replay import conform_files
from herdproof.protocols.central_coordinator.traces.trace_map import map_of
from herdspec.check.conformance.conform import Verdict

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
    handed_over: bool = False
    """Whether a Stop ended it, and the coordinator that sent it went on with this consumer."""

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


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a scenario has seen."""

    seen: Sequence[Seen]
    """What consumers reported, each one's in its order."""
    produced: Mapping[tuple[Place, int], float]
    """When each record was acknowledged to its producer."""
    committed: Mapping[Place, Sequence[tuple[float, int]]]
    """When ZooKeeper showed which offset, as they changed."""
    points: Sequence[tuple[float, int, int]]
    """When ZooKeeper showed which epoch and generation, as they changed."""


def judge(evidence: Evidence, *, epochs: int, generations: int, behind_s: float) -> str:
    """
    Hold all of it to the contract; what there was, in words.

    So many epochs and generations there must have been between the first record and the last:
    without failovers and rebalances nothing was tried. `behind_s`: see `assert_bounded_again`.
    """
    records = [line.at for line in evidence.seen if line.event == "record"]
    during = [p for p in evidence.points if records and min(records) < p[0] < max(records)]
    assert len({epoch for _, epoch, _ in during}) >= epochs, f"few failovers: {during}"
    assert len({number for *_, number in during}) >= generations, f"few rebalances: {during}"
    had = tenures(evidence.seen)
    assert_all_delivered(evidence.produced, evidence.seen)
    assert_in_order(had)
    hands = assert_exclusive(had)
    again = assert_bounded_again(had, behind_s)
    assert_never_back(evidence.committed)
    assert_stored_is_not_delivered_again(had, evidence.committed)
    assert_only_delivered_is_stored(had, evidence.committed)
    return (
        f"{len(evidence.produced)} records, {again} of them again, {hands} changes of hands, "
        f"{during[-1][1] - during[0][1]} failovers, {during[-1][2] - during[0][2]} generations"
    )


def judge_traces(traces: Sequence[Path]) -> str:
    """What coordinators and consumers traced is a run of the specification; how long that took."""
    outcome = conform_files(traces, map_of())
    told = f"{outcome.matched} of {outcome.lines} traced lines are as they may be; {outcome}"
    assert outcome.verdict is not Verdict.DIFFERS, f"it is no run of the specification: {told}"
    assert outcome.verdict is Verdict.CONFORMS, f"nobody knows whether it conforms: {told}"
    return f"{outcome.lines} traced lines conform, judged in {outcome.seconds:.1f} s"


def tenures(seen: Iterable[Seen]) -> list[Tenure]:
    """The tenures in what consumers reported, each one's in its order."""
    ended: list[Tenure] = []
    has: dict[str, dict[Place, Tenure]] = defaultdict(dict)
    stopped: dict[str, list[Tenure]] = defaultdict(list)
    is_lost: dict[str, bool] = defaultdict(bool)
    for line in seen:
        own = has[line.consumer]
        match line.event:
            case "assigned":
                for tenure in stopped.pop(line.consumer, ()):
                    tenure.handed_over = not is_lost[line.consumer]
                is_lost[line.consumer] = False
                ended += own.values()
                has[line.consumer] = {
                    place: Tenure(consumer=line.consumer, place=place, since=line.at, until=line.at)
                    for place in line.places
                }
            case "lost":
                is_lost[line.consumer] = True
            case "revoked":
                if line.stopped and not is_lost[line.consumer]:
                    stopped[line.consumer] = list(own.values())
                    for tenure in own.values():
                        tenure.until = line.at
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

    After a Stop whose answer was taken only the record at hand comes again; after anything else
    (a coordinator may die with the answers, too) what was delivered within `behind_s` seconds of
    the end, for its offset may not have been stored.
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
            if earlier.handed_over:
                assert len(twice) <= 1, f"{len(twice)} again after a Stop: {earlier}; {later}"
            elif twice:
                behind = earlier.until - twice[0].at
                assert behind <= behind_s, f"{behind:.1f} s again: {earlier}; {later}"
    return again


def assert_never_back(committed: Mapping[Place, Sequence[tuple[float, int]]]) -> None:
    """Offsets, as ZooKeeper showed them one after the other, only go up."""
    for place, shown in committed.items():
        offsets = [offset for _, offset in shown]
        assert offsets == sorted(offsets), f"{place} went back: {offsets}"


def assert_stored_is_not_delivered_again(
    all_tenures: Iterable[Tenure], committed: Mapping[Place, Sequence[tuple[float, int]]]
) -> None:
    """Who gets a partition begins at or after each offset that was stored before."""
    for tenure in all_tenures:
        stored = [offset for at, offset in committed.get(tenure.place, ()) if at < tenure.since]
        if tenure.records and stored:
            first = tenure.records[0].offset
            assert first >= stored[-1], f"{stored[-1]} was stored, {first} came again: {tenure}"


def assert_only_delivered_is_stored(
    all_tenures: Iterable[Tenure], committed: Mapping[Place, Sequence[tuple[float, int]]]
) -> None:
    """Each place has an offset, and none lies beyond what was delivered there."""
    for place, of_one in by_place(all_tenures).items():
        last = max(tenure.last for tenure in of_one)
        assert committed.get(place), f"no offset of {place} was stored"
        stored = committed[place][-1][1]
        assert stored <= last + 1, f"{place}: {stored} is stored, {last} was the last delivered"
