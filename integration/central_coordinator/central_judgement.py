"""
What must hold of system B's deliveries, judged from what consumers reported and ZooKeeper showed.

A tenure is the time for which one consumer had one partition: from the assignment until the
listener has returned, if a Stop ended it; else (a lost connection, a death) until the last record
that was delivered, after which the lease alone keeps the others out. Tenures, and what ZooKeeper
showed, fill the fields of the contract, whose properties judge (`judge_tenures`, `judge_points`).
What it does not speak of is judged here: that each record arrives, in order, and how much again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeAlias

from herdproof.conformance.traces.replay import conform_files
from herdproof.protocols.central_coordinator.traces.trace_map import map_of
from herdspec.check.conformance.conform import Verdict
from herdspec.check.observation.inconclusive import UNKNOWN, among
from herdspec.check.observation.observed import Observed
from herdspec.check.observation.watches import watches_of
from herdspec.protocols.contract.properties import CONTRACT

Place = tuple[str, int]
"""A topic and a partition."""
Shown: TypeAlias = Mapping[Place, Sequence[tuple[float, int]]]
"""When ZooKeeper showed which offset of each place, as they changed."""
Step: TypeAlias = tuple[float, int, Callable[["PlaceFields"], None]]
"""When something happens at a place, what comes first if it is at one time, and what it is."""


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
    committed: Shown
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
    judge_points(evidence.points)
    had = tenures(evidence.seen)
    hands = judge_tenures(had, evidence.committed)
    assert_all_delivered(evidence.produced, evidence.seen)
    assert_in_order(had)
    again = assert_bounded_again(had, behind_s)
    assert_all_stored(had, evidence.committed)
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


# ── What the contract judges ────────────────────────────────────────────────────────────────

OF_PLACES = watches_of(
    CONTRACT,
    {"generation": 0, "owner": None, "consumes": False, "position": 0, "finished": 0,
     "committed": 0},
)  # fmt: skip
"""What consumers and ZooKeeper tell of a place; its generation is that of the records there."""

OF_POINTS = watches_of(CONTRACT, {"epoch": 0, "generation": 0})
"""What ZooKeeper shows of a group."""


def judge_points(points: Iterable[tuple[float, int, int]]) -> None:
    """The contract holds of the epochs and generations that ZooKeeper showed."""
    seen = Observed(OF_POINTS)
    for at, epoch, generation in points:
        seen.set("epoch", (), epoch)
        seen.set("generation", (), generation)
        assert_kept(seen, f"ZooKeeper shows epoch {epoch}, generation {generation} at {at:.3f}")


def judge_tenures(
    all_tenures: Iterable[Tenure], committed: Shown = MappingProxyType({}),
    beside: Iterable[Seen] = (),
) -> int:  # fmt: skip
    """
    The contract holds of each place's tenures; how many times one changed hands.

    Records `beside` them were got by who had no tenure any more, or nobody knows in which.
    """
    hands, others = 0, defaultdict(list)
    for record in beside:
        others[record.place].append(record)
    for place, of_one in by_place(all_tenures).items():
        steps = [*_shown(place, committed.get(place, ())), *(s for t in of_one for s in _steps(t))]
        steps += [(r.at, 0, partial(PlaceFields.gets_beside, record=r)) for r in others[place]]
        fields = PlaceFields(place)
        for _, _, step in sorted(steps, key=itemgetter(0, 1)):
            step(fields)
        hands += sum(a.consumer != b.consumer for a, b in pairwise(of_one))
    return hands


def _steps(tenure: Tenure) -> Iterator[Step]:
    """What happens in a tenure: of what happens at one time, what ends comes before what begins."""
    if tenure.since < tenure.until:
        yield tenure.since, 2, lambda fields: fields.begins(tenure)
        yield tenure.until, 1, lambda fields: fields.ends(tenure)
        for record in tenure.records:
            yield record.at, 0, partial(PlaceFields.gets, record=record)


def _shown(place: Place, shown: Iterable[tuple[float, int]]) -> Iterator[Step]:
    for at, offset in shown:
        yield at, 3, partial(PlaceFields.shows, offset=offset)


class PlaceFields:
    """
    What happens at one place, as steps of the contract's fields.

    What is delivered counts as finished: nobody tells when the application is done with it. What
    ZooKeeper showed last may have been followed by more.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.seen = Observed(OF_PLACES)
        self.seen.add("Partition", place)
        self._has: dict[str, Tenure] = {}
        self._delivered: set[int] = set()

    def begins(self, tenure: Tenure) -> None:
        """A consumer has it, and begins with the first record that it gets."""
        m, seen = tenure.consumer, self.seen
        self._has[m] = tenure
        seen.add("Member", m)
        if tenure.records:
            first = tenure.records[0]
            self._is_of(first)
            stored = seen.get("committed", self.place)
            maybe = among(range(stored, max(stored, first.offset) + 1))
            seen.suppose("committed", self.place, maybe)
        else:
            seen.forget("generation", ())
            seen.forget("owner", self.place)
        position = tenure.records[0].offset if tenure.records else UNKNOWN
        seen.set("position", (m, self.place), position)
        seen.set("consumes", (m, self.place), True)
        self._kept(f"{m} begins")

    def gets(self, record: Seen) -> None:
        """A record is delivered."""
        self._finishes(record)
        self._is_of(record)
        self.seen.set("position", (record.consumer, self.place), record.offset + 1)
        self._kept(f"{record.consumer} gets {record.offset}")

    def gets_beside(self, record: Seen) -> None:
        """A record is delivered to somebody who does not have the place."""
        self._finishes(record)
        self._kept(f"{record.consumer} gets {record.offset} beside")

    def _finishes(self, record: Seen) -> None:
        finished = self.seen.get("finished", self.place)
        self._delivered.add(record.offset)
        while finished in self._delivered:
            finished += 1
        self.seen.set("finished", self.place, finished)

    def _is_of(self, record: Seen) -> None:
        """In this generation, its consumer is the owner."""
        self.seen.set("generation", (), record.generation)
        self.seen.set("owner", self.place, record.consumer)

    def ends(self, tenure: Tenure) -> None:
        """A consumer has it no more."""
        self.seen.set("consumes", (tenure.consumer, self.place), False)
        self.seen.set("position", (tenure.consumer, self.place), 0)
        self._kept(f"{tenure.consumer} ends")
        del self._has[tenure.consumer]

    def shows(self, offset: int) -> None:
        """ZooKeeper shows another offset."""
        self.seen.set("committed", self.place, offset)
        self._kept(f"{offset} is stored, {self.seen.get('finished', self.place)} are finished")

    def _kept(self, what: str) -> None:
        assert_kept(self.seen, f"{what}; " + "; ".join(map(str, self._has.values())))


def assert_kept(seen: Observed, what: str) -> None:
    """Of the step in hand no promise of the contract is broken."""
    seen.step()
    broken = {found.promise.name: found.promise.sentence for found in seen.broken()}
    assert not broken, f"{what}: {broken}"


# ── What it does not speak of ───────────────────────────────────────────────────────────────


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


def assert_all_stored(all_tenures: Iterable[Tenure], committed: Shown) -> None:
    """Each place has an offset."""
    for place in by_place(all_tenures):
        assert committed.get(place), f"no offset of {place} was stored"
