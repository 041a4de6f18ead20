"""
Groups of unmodified clients at `herdproof broker`, held against the spec and the contract.

The traces of all brokers of a run are replayed and audited, as users do. What members got is judged
with them: who was told what, and what is stored, is the brokers' word; which partitions a member
has, and what it gets, its own (`broker_member.py`). Tenures are judged as system B's are
(`central_judgement.py`): no two members have one partition, who begins does so at what is stored,
nothing is stored that nobody got, and within a tenure offsets go up by one.

Who is evicted hears of it late: what it gets from then on is nobody's tenure (the assumption
`evicted_has_stopped`). Java's console consumer tells neither times nor tenures: those are its
coordinator's word, its records count as got from the outset, and where each begins has to be what
its coordinator told.
"""

from __future__ import annotations

import shutil
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from herdproof.conformance.traces.line import TraceLine, read_files
from herdproof.protocols.group_protocol.tracing import CONSUMER, GROUP_PROTOCOL
from herdproof.protocols.implementation import implementation
from integration.broker.broker_group import BrokerGroup
from integration.central_coordinator.central_judgement import (
    Place,
    Seen,
    Tenure,
    assert_in_order,
    judge_tenures,
    tenures,
)
from integration.trace_judgement import Counts, judge_traces

ID_LENGTH = len("-00000000-0000-0000-0000-000000000000")
"""The length of what a member id has after the client id, or the instance id."""
HOLD = 6
"""So many sentences hold at least, of any run's coordinators."""
EVICTS = ("expire", "handle_leave_group")
FOR_EVER = float("inf")


def judge_group(group: BrokerGroup, *traces: Path) -> Counts:
    """
    The traces are as they may be, and so is what the group got; how often what was done.

    The group has ended, and so have brokers that are several.
    """
    traces = snapshots(traces)
    seen = judge_traces(GROUP_PROTOCOL, traces, hold=HOLD)
    brokers = Brokers(traces, group.name)
    judge_members(group, brokers)
    return seen


def snapshots(traces: Sequence[Path]) -> tuple[Path, ...]:
    """Copies of the traces, to which a broker that still runs appends nothing."""
    copies = tuple(trace.with_suffix(".whole.ndjson") for trace in traces)
    for trace, copy in zip(traces, copies, strict=True):
        shutil.copyfile(trace, copy)
    return copies


# ── What brokers tell ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, order=True)
class Heard:
    """A member is told its assignment, at some time and of some generation."""

    at: float
    generation: int
    member: str


class Brokers:
    """The words of all brokers of a run on one group, in the order of their clocks."""

    def __init__(self, traces: Sequence[Path], group: str) -> None:
        read = read_files(traces, implementation("group_protocol").table.formats)
        lines = [line for line in read if line.group == group and line.role != CONSUMER]
        self.lines: list[TraceLine] = sorted(lines, key=lambda line: (line.time_ns, line.sequence))
        self.owners: dict[int, dict[Place, str]] = {}
        """By generation, whose client's or instance's each partition is."""
        self.heard: dict[str, list[Heard]] = defaultdict(list)
        """By client or instance id, what its member was told."""
        self.fetched: dict[Place, set[int]] = defaultdict(set)
        """All offsets that were told; 0, where none was stored."""
        self.committed: dict[Place, list[tuple[float, int]]] = defaultdict(list)
        """Offsets that were stored, or found so by the next coordinator, each with its time."""
        self._sent: dict[tuple[str, int], list[list[Any]]] = {}
        for line in self.lines:
            self._take(line)

    def _take(self, line: TraceLine) -> None:
        told, at = line.arguments, seconds(line)
        match line.action:
            case "share_out" | "answer_syncs" | "found" if told.get("owners"):
                known = self.owners.setdefault(told["generation"], {})
                for member, topic, partition in told["owners"]:
                    known[topic, partition] = stem_of(member)
            case "flush_offsets":
                self._sent[line.node, told["number"]] = told["offsets"]
            case "answered" if told["outcome"] == "done":
                self._store(at, self._sent.pop((line.node, told["number"]), ()))
            case "handle_offset_fetch":
                for topic, partition, offset in told.get("offsets", ()):
                    self.fetched[topic, partition].add(max(offset, 0))
        if line.action == "found":
            self._store(at, told.get("offsets", ()))
        if line.action == "answer_syncs":
            self._hears(at, told["generation"], told["members"])
        if line.action == "handle_sync_group" and told["outcome"] == "told":
            self._hears(at, told["generation"], [told["member"]])

    def _store(self, at: float, offsets: Iterable[Sequence[Any]]) -> None:
        for topic, partition, offset in offsets:
            self.committed[topic, partition].append((at, offset))

    def _hears(self, at: float, generation: int, members: Iterable[str]) -> None:
        for member in members:
            self.heard[stem_of(member)].append(Heard(at, generation, member))

    def told_before(self, stem: str, at: float) -> Heard:
        """The last assignment that a client or instance was told by then."""
        heard = self.heard[stem]
        place = bisect_right(heard, at, key=lambda each: each.at)
        assert place, f"{stem} has partitions at {at:.3f}, of which no broker has told it"
        return heard[place - 1]

    def evicted(self, heard: Heard) -> float:
        """The time from which on it was no member any more, as far as brokers tell."""
        for line in self.lines:
            told = line.arguments
            if seconds(line) <= heard.at:
                continue
            is_named = line.action in EVICTS and told.get("member") == heard.member
            is_left_out = line.action == "complete_join" and heard.member not in told["members"]
            replaced = line.action == "replace_member" and told.get("instance") == stem_of(
                heard.member
            )
            if is_named or is_left_out or replaced:
                return seconds(line)
        return FOR_EVER

    def joins_again(self, heard: Heard) -> float:
        """The time at which it asked to join anew."""
        return next(
            (
                seconds(line) for line in self.lines
                if line.action == "handle_join_group" and seconds(line) > heard.at
                and line.arguments.get("member") == heard.member
            ),
            FOR_EVER,
        )  # fmt: skip


def seconds(line: TraceLine) -> float:
    """The time of a line, by the clock that members have, too."""
    return line.time_ns / 1e9


def stem_of(member: str) -> str:
    """The client id, or the instance id, that a member id begins with."""
    return member[:-ID_LENGTH]


# ── What members tell ───────────────────────────────────────────────────────────────────────


class Told(Protocol):
    """A group, with what its members have told (`BrokerGroup`)."""

    topic: str
    told: list[dict[str, Any]]
    printed: dict[str, list[tuple[int, int]]]
    stems: dict[str, str]


def judge_members(group: Told, brokers: Brokers) -> int:
    """Hold all that Python's members have told, and Java's printed; how often hands changed."""
    lines = [Seen.read(line) for line in group.told]
    late = [seen for seen in lines if seen.event == "stray"]
    mine = []
    for tenure in tenures(seen for seen in lines if seen.event != "stray"):
        stem = group.stems[tenure.consumer]
        heard = brokers.told_before(stem, tenure.since)
        owner = brokers.owners[heard.generation].get(tenure.place)
        assert owner == stem, f"{tenure}; in generation {heard.generation} it is {owner}'s"
        evicted = brokers.evicted(heard)
        late += [record for record in tenure.records if record.at > evicted]
        mine.append(cut(tenure, stem, heard.generation, evicted))
    assert any(tenure.records for tenure in mine), "nobody got anything in a tenure"
    assert_in_order(mine)
    for life, printed in group.printed.items():
        assert_begins_as_told(life, group, brokers)
        late += [
            Seen(
                event="record", consumer=life, at=0.0, place=(group.topic, partition), offset=offset
            )
            for partition, offset in printed
        ]
    silent = {group.stems[life] for life in group.printed}
    mine += [tenure for stem in sorted(silent) for tenure in tenures_by_word(stem, brokers)]
    return judge_tenures(mine, brokers.committed, late)


def cut(tenure: Tenure, stem: str, generation: int, evicted: float) -> Tenure:
    """A tenure of this client's or instance's, which ends where its member was evicted."""
    return replace(
        tenure, consumer=stem, until=min(tenure.until, evicted),
        records=[
            replace(record, consumer=stem, generation=generation)
            for record in tenure.records if record.at <= evicted
        ],
    )  # fmt: skip


def tenures_by_word(stem: str, brokers: Brokers) -> Iterator[Tenure]:
    """The tenures of a client that tells of none, as brokers tell: until it joins again."""
    for heard in brokers.heard[stem]:
        until = min(brokers.joins_again(heard), brokers.evicted(heard), seconds(brokers.lines[-1]))
        for place, owner in brokers.owners[heard.generation].items():
            if owner == stem:
                yield Tenure(consumer=stem, place=place, since=heard.at, until=until)


def assert_begins_as_told(life: str, group: Told, brokers: Brokers) -> None:
    """Each partition's offsets go up by one, or begin anew with one that its client was told."""
    by_place: dict[Place, list[int]] = defaultdict(list)
    for partition, offset in group.printed[life]:
        by_place[group.topic, partition].append(offset)
    times = len(brokers.heard[group.stems[life]])
    for place, offsets in by_place.items():
        begins = [b for a, b in pairwise([-2, *offsets]) if b != a + 1]
        untold = set(begins) - brokers.fetched[place]
        assert not untold, f"{life} begins {place} at {sorted(untold)}, of which nobody told it"
        assert len(begins) <= times, f"{life} begins {place} {len(begins)} times"
