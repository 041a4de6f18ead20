"""
A real group that rebalances by itself, held against the contract.

What ZooKeeper has done (its own log), what ours have reported and theirs have printed fills the
contract's fields, as in the simulator (`judged/eyes.py`), each at its time; the contract's own
properties judge. Of each promise that breaks it is said who did it: a member of Kafka 0.8 keeps no
lease, counts no claims, and commits and deletes what it believes to own.

From when to when a member consumes: ours from the start of their fetchers until they have stopped,
theirs from the first record that they print until they release the partition. Whose partition was
another's, or whose process was no more, before it had stopped, consumed until its last record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Any, Self, TypeAlias

from herdproof.consuming.assignment import Partition
from herdproof.consuming.kafka_nodes import read_offset
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.protocols.self_rebalancing.judged.eyes import ContractEyes
from herdproof.simulator.tree import TreeNode
from herdproof.zookeeper.operations import Create, Delete, Set
from herdspec.check.observation.observed import Violation
from integration.flow import Place
from integration.zookeeper.zookeeper_log import Transaction, Write

MOMENT_S = 0.3
"""What is told so shortly after an end was under way before it."""
A_LITTLE_S = 1e-6
"""Who gives a partition back has stopped before."""
CONSEQUENCE_S = 8.0
"""For so long what a member of Kafka 0.8 did to a partition may have consequences: two sessions."""
OPERATOR = "the operator"
FOR_EVER = float("inf")
Step: TypeAlias = tuple[float, int, str, str, Callable[[], None]]
"""When, what comes first if it is at one time, who did what, and what that is of the fields."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of `rebalancing_programs.py`."""

    event: str
    member: str
    at: float
    offsets: tuple[Offset, ...] = ()
    generation: int = 0

    @classmethod
    def read(cls, member: str, told: Mapping[str, Any]) -> Self:
        """The line that is this JSON."""
        offsets = tuple(Offset(topic, str(p), n) for topic, p, n in told.get("partitions", ()))
        return cls(
            event=told["event"], member=member, at=told["at"], offsets=offsets,
            generation=told.get("generation", 0),
        )  # fmt: skip

    @property
    def place(self) -> tuple[Place, int]:
        """Of a record."""
        [offset] = self.offsets
        return (offset.topic, int(offset.partition)), offset.offset


@dataclass(frozen=True)
class Printed:
    """What one of theirs has printed, and when that was seen."""

    at: float
    member: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a scenario has seen."""

    group: str
    lines: Sequence[Line]
    printed: Sequence[Printed]
    values: Mapping[str, tuple[Place, int]]
    produced: Sequence[tuple[Place, int]]
    theirs: Sequence[str]
    deaths: Mapping[str, float]
    deeds: Sequence[tuple[float, str]]
    operator: int
    """The session of whoever has stored where partitions begin."""
    done: Sequence[Transaction]


@dataclass(kw_only=True)
class Consumption:
    """For how long a member consumed a partition, and what it got; `last` is of its tenure."""

    member: str
    partition: Partition
    since: float
    until: float
    start: int | None
    """Where it began; None if it has not told."""
    records: list[tuple[float, int]] = field(default_factory=list)

    def __str__(self) -> str:
        numbers = [offset for _, offset in self.records]
        had = f"{numbers[0]} to {numbers[-1]}" if numbers else "nothing"
        return (
            f"{self.member} had {'-'.join(self.partition)} from {self.since:.3f} to "
            f"{self.until:.3f}, and got {had}"
        )


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A promise that was broken: by whom, when and how, and of what."""

    promise: str
    at: float
    who: str
    what: str
    of: Mapping[str, Any]

    def __str__(self) -> str:
        named = ", ".join(f"{name} = {value}" for name, value in self.of.items())
        return f"{self.at:.3f} {self.promise}: {self.who} {self.what} ({named})"


@dataclass(kw_only=True)
class Judged:
    """What there was, and what of it is whose."""

    owed: list[Finding] = field(default_factory=list)
    """What no member of Kafka 0.8 did."""
    theirs: dict[str, list[Finding]] = field(default_factory=lambda: defaultdict(list))
    """By promise, what members of Kafka 0.8 did, or what followed from that."""
    strays: list[str] = field(default_factory=list)
    """Records that one of theirs got of a partition that was not its own: a split brain."""
    lost: list[str] = field(default_factory=list)
    disorder: list[str] = field(default_factory=list)
    records: int = 0
    """How many were produced."""
    again: int = 0
    hands: int = 0

    @property
    def owes_nothing(self) -> bool:
        """Whether everything is as it should be, but for what members of Kafka 0.8 did."""
        return not (self.owed or self.lost or self.disorder)

    @property
    def is_clean(self) -> bool:
        """Whether everything is as it should be, whoever did it."""
        return self.owes_nothing and not self.theirs

    def __str__(self) -> str:
        told = [
            f"{self.records} records, {self.again} of them again, {self.hands} changes of hands",
            *(f"owed: {finding}" for finding in self.owed[:12]),
            *(f"lost: {record}" for record in self.lost[:12]),
            *(f"disorder: {what}" for what in self.disorder[:12]),
        ]
        told += [f"split brain: {stray}" for stray in self.strays[:12]]
        for promise, found in sorted(self.theirs.items()):
            told.append(f"{promise}, by 0.8: {len(found)} times, as {found[0]}")
        return "\n".join(told)


# ── What ZooKeeper has done ─────────────────────────────────────────────────────────────────


class Ledger:
    """The group's nodes, transaction by transaction, and whose each session is."""

    def __init__(self, evidence: Evidence) -> None:
        self.group = evidence.group
        self.names: dict[int, str] = {}
        self.history: dict[Partition, list[tuple[float, str | None]]] = defaultdict(list)
        """From when on whose each partition was."""
        self.steps: list[tuple[float, str, str, dict[str, TreeNode]]] = []
        """When, who, what, and the nodes after it."""
        self.fouls: list[tuple[float, Partition, str, str]] = []
        """When, of which partition, who has deleted another's node."""
        self._nodes: dict[str, TreeNode] = {}
        self.starts: list[tuple[float, Partition, int]] = []
        """When, of which partition, the operator has stored where it begins."""
        self._operator = evidence.operator
        self._last = 0.0
        self._said: dict[str, list[Line]] = defaultdict(list)
        for line in evidence.lines:
            self._said[line.member].append(line)
        for done in evidence.done:
            self._take(done)

    def owner(self, partition: Partition, at: float) -> str | None:
        """Whose a partition was."""
        owners = [owner for since, owner in self.history[partition] if since <= at]
        return owners[-1] if owners else None

    def end(self, member: str, partition: Partition, since: float) -> float:
        """Until when a member owned a partition that it owned then."""
        return next(
            (at for at, owner in self.history[partition] if at > since and owner != member),
            FOR_EVER,
        )

    def _at(self, done: Transaction) -> float:
        """
        When it was done: the log has whole milliseconds, within which causes come before effects.

        Who deletes an owner has stopped before; who stores an offset has said so.
        """
        said = [
            line.at for line in self._said.get(self.names.get(done.session, ""), ())
            if line.event in ("stops", "stores") and done.at <= line.at < done.at + 0.001
            and any(is_effect(line, write) for write in done.writes)
        ]  # fmt: skip
        self._last = max([self._last, done.at, *(at + A_LITTLE_S for at in said)])
        return self._last

    def _take(self, done: Transaction) -> None:
        at = self._at(done)
        before = dict(self._nodes)
        told = [text for write in done.writes if (text := self._write(write, done.session, at))]
        if done.is_end:
            gone = [path for path, node in self._nodes.items() if node.owner == done.session]
            for path in gone:
                del self._nodes[path]
            told += [f"loses {path}, as its session ends" for path in gone]
        if not told:
            return
        who = self.names.get(done.session, f"session {done.session:#x}")
        who = OPERATOR if done.session == self._operator else who
        self.steps.append((at, who, "; ".join(told), dict(self._nodes)))
        for path in sorted({path for path in before.keys() | self._nodes.keys() if is_owner(path)}):
            now, was = self._nodes.get(path), before.get(path)
            if (now and now.owner) != (was and was.owner):
                owner = self.names.get(now.owner) if now else None
                self.history[partition_of(path)].append((at, owner))

    def _write(self, write: Write, session: int, at: float) -> str:
        path = write.path
        above = f"/consumers/{self.group}/"
        if not path.startswith((above, f"/herdproof/claims/{self.group}/")):
            return ""
        node = self._nodes.get(path)
        match write:
            case Create(data=data, ephemeral=ephemeral):
                self._nodes[path] = TreeNode(data, session if ephemeral else 0)
                if session == self._operator and path.startswith(f"{above}offsets/") and data:
                    self.starts.append((at, partition_of(path), read_offset(data)))
                if path.startswith(f"{above}ids/"):
                    name = path.rpartition("/")[2].removeprefix(f"{self.group}_")
                    self.names[session] = name
                return f"creates {path}"
            case Set(data=data):
                assert node is not None, f"{path} stands, or nothing could be set"
                self._nodes[path] = node._replace(data=data, version=node.version + 1)
                return f"sets {path} to {data.decode(errors='replace')[:20]}"
            case Delete():
                if is_owner(path) and node is not None and node.owner not in (0, session):
                    who, whose = (self.names.get(s, "?") for s in (session, node.owner))
                    self.fouls.append((at, partition_of(path), who, f"deletes the node of {whose}"))
                self._nodes.pop(path, None)
                return f"deletes {path}"


def is_owner(path: str) -> bool:
    """Whether it is the path of a partition's owner."""
    return path.split("/")[3:4] == ["owners"] and path.count("/") == 5


def is_effect(line: Line, write: Write) -> bool:
    """Whether this is written after that was said."""
    if line.event == "stops":
        return isinstance(write, Delete) and is_owner(write.path)
    return not isinstance(write, Delete) and any(
        write.path.endswith(f"/offsets/{o.topic}/{o.partition}")
        and write.data == str(o.offset).encode()
        for o in line.offsets
    )


def partition_of(path: str) -> Partition:
    """The partition whose node this is."""
    _, topic, partition = path.rsplit("/", 2)
    return topic, partition


# ── Who has consumed what ───────────────────────────────────────────────────────────────────


def consumed_by_ours(evidence: Evidence, ledger: Ledger) -> Iterator[Consumption]:
    """From the starts of fetchers, and the records of each."""
    by_member: dict[str, list[Line]] = defaultdict(list)
    for line in evidence.lines:
        by_member[line.member].append(line)
    for member, lines in by_member.items():
        dead = evidence.deaths.get(member, FOR_EVER)
        for number, begun in enumerate(lines):
            if begun.event != "begins":
                continue
            later = lines[number + 1 :]
            stopped = min(next((e.at for e in later if e.event == "stops"), dead), dead)
            for start in begun.offsets:
                partition = (start.topic, start.partition)
                place = (start.topic, int(start.partition))
                records = [
                    (line.at, line.place[1]) for line in later
                    if line.event == "record" and line.generation == begun.generation
                    and line.place[0] == place
                ]  # fmt: skip
                yield ended(
                    Consumption(
                        member=member, partition=partition, since=begun.at, until=stopped,
                        start=start.offset, records=records,
                    ),
                    ledger.end(member, partition, begun.at),
                )  # fmt: skip


def ended(consumption: Consumption, lost: float) -> Consumption:
    """With its end: what it says, or its last record, if the partition was lost before."""
    until, records = consumption.until, consumption.records
    if until == FOR_EVER or lost < until:
        until = max([consumption.since, *(at for at, _ in records)])
    consumption.records = under_way(records, until)
    consumption.until = max([until, *(at for at, _ in consumption.records)])
    return consumption


def under_way(records: Iterable[tuple[float, int]], end: float) -> list[tuple[float, int]]:
    """Records with their times: what is told a moment after an end was under way before it."""
    return [(min(at, end) if at - end < MOMENT_S else at, offset) for at, offset in records]


def consumed_by_theirs(evidence: Evidence, ledger: Ledger) -> Iterator[Consumption]:
    """From what they have printed, by the claims in which they had the partitions."""
    found: dict[tuple[str, Partition, float], list[tuple[float, int]]] = {}
    for printed in evidence.printed:
        if printed.value in evidence.values:
            (topic, number), offset = evidence.values[printed.value]
            partition = (topic, str(number))
            claims = [
                since for since, owner in ledger.history[partition]
                if owner == printed.member and since <= printed.at
            ]  # fmt: skip
            key = (printed.member, partition, claims[-1] if claims else printed.at)
            found.setdefault(key, []).append((printed.at, offset))
    for (member, partition, since), records in found.items():
        lost = ledger.end(member, partition, since) - A_LITTLE_S
        kept = under_way(records, lost)
        has_died = evidence.deaths.get(member, FOR_EVER) < lost
        until = kept[-1][0] if has_died or lost == FOR_EVER else max(lost, kept[-1][0])
        yield Consumption(
            member=member, partition=partition, since=kept[0][0], until=until, start=None,
            records=kept,
        )  # fmt: skip


# ── The contract's fields ───────────────────────────────────────────────────────────────────


class RealEyes(ContractEyes):
    """Notes of each promise that breaks who did what."""

    def __init__(self) -> None:
        super().__init__()
        self.findings: list[Finding] = []
        self.now, self.who, self.what = 0.0, "", ""

    def breaks(self, found: Violation) -> None:
        """The step in hand breaks a promise."""
        self.findings.append(
            Finding(
                promise=found.promise.name,
                at=self.now,
                who=self.who,
                what=self.what,
                of=dict(found.of),
            )
        )

    def starts(self, consumption: Consumption) -> None:
        """A member consumes from where it says; one that does not say, from its first record on."""
        member, partition, start = consumption.member, consumption.partition, consumption.start
        if start is not None:
            self.begins(member, [Offset(*partition, start)])
            return
        first = consumption.records[0][1]
        stored = self.seen.get("committed", partition)
        self.begins(member, [Offset(*partition, first if stored else NO_OFFSET)])
        if not stored:
            self.resolves(member, partition, first)

    def skips(self, partition: Partition, offset: int) -> None:
        """What lies before a start that the operator stores counts as finished."""
        self._finished(partition, offset + 1)

    def gets(self, member: str, partition: Partition, offset: int) -> None:
        """A record is delivered; nobody tells when the application is done with it."""
        self.delivers(member, partition, offset)
        self.finishes(member, partition, offset)


def steps_of_lines(evidence: Evidence, eyes: RealEyes) -> Iterator[Step]:
    """What ours have told beside their records."""
    for line in evidence.lines:
        offsets = {(o.topic, o.partition): o.offset for o in line.offsets}
        if line.event == "claims":
            act = partial(eyes.claims, line.member, offsets)
            yield line.at, 3, line.member, "knows its claims", act
        for partition, offset in offsets.items():
            if line.event == "resolves":
                act = partial(eyes.resolves, line.member, partition, offset)
                yield line.at, 3, line.member, "has looked up where to begin", act
            elif line.event == "stores":
                act = partial(eyes.stores, line.member, partition, offset)
                yield line.at, 3, line.member, "is about to commit", act


def steps_of(consumption: Consumption, eyes: RealEyes) -> Iterator[Step]:
    """Of what happens at one time, what ends comes before what begins."""
    member, partition = consumption.member, consumption.partition
    name = "-".join(partition)
    yield consumption.since, 4, member, f"begins {name}", partial(eyes.starts, consumption)
    for at, offset in consumption.records:
        what = f"gets {offset} of {name}"
        yield at, 5, member, what, partial(eyes.gets, member, partition, offset)
    what = f"has stopped with {name}"
    yield consumption.until, 6, member, what, partial(eyes.ceases, member, partition)


def judge(evidence: Evidence) -> Judged:
    """Hold all of it to the contract, and say who did what is not as it should be."""
    ledger, eyes, found = Ledger(evidence), RealEyes(), Judged()
    own = [*consumed_by_ours(evidence, ledger)]
    had = [*own, *consumed_by_theirs(evidence, ledger)]
    sessions = dict(ledger.names)
    steps: list[Step] = [
        *((at, 2, who, what, partial(eyes.nodes, nodes, sessions))
          for at, who, what, nodes in ledger.steps),
        *((at, 1, OPERATOR, "says where to begin", partial(eyes.skips, partition, offset))
          for at, partition, offset in ledger.starts),
        *steps_of_lines(evidence, eyes),
        *(step for consumption in had for step in steps_of(consumption, eyes)),
    ]  # fmt: skip
    for partition in sorted({(t, str(n)) for (t, n), _ in evidence.produced} | {*ledger.history}):
        eyes.seen.add("Partition", partition)
    for member in sorted({*ledger.names.values(), *(c.member for c in had)}):
        eyes.seen.add("Member", member)
    for at, _, who, what, act in sorted(steps, key=itemgetter(0, 1)):
        eyes.now, eyes.who, eyes.what = at, who, what
        act()
    sort_out(eyes.findings, evidence, ledger, had, found)
    judge_records(evidence, had, found)
    return found


def sort_out(
    findings: Iterable[Finding], evidence: Evidence, ledger: Ledger, had: Iterable[Consumption],
    found: Judged,
) -> None:  # fmt: skip
    """Of each finding: is it what a member of Kafka 0.8 did, or what followed from that?"""
    theirs = frozenset(evidence.theirs)
    fouls = [(at, partition) for at, partition, who, _ in ledger.fouls if who in theirs]
    for consumption in had:
        for at, offset in consumption.records if consumption.member in theirs else ():
            owner = ledger.owner(consumption.partition, at)
            if owner != consumption.member:
                fouls.append((at, consumption.partition))
                name = "-".join(consumption.partition)
                told = f"{at:.3f} {consumption.member} gets {offset} of {name}, which is {owner}'s"
                found.strays.append(told)
    for finding in findings:
        of = finding.of.get("p")
        old = [m for m in finding.of.values() if isinstance(m, str) and m in theirs]
        stray = any(ledger.owner(of, finding.at) != m for m in old) if of else bool(old)
        follows = any(p == of and 0 <= finding.at - at < CONSEQUENCE_S for at, p in fouls)
        if finding.who == OPERATOR:
            continue
        if finding.who in theirs or stray or follows:
            found.theirs[finding.promise].append(finding)
            if finding.promise == "committed_offsets_never_go_back" and of:
                fouls.append((finding.at, of))
        else:
            found.owed.append(finding)


def judge_records(evidence: Evidence, had: Sequence[Consumption], found: Judged) -> None:
    """Each record arrives; within a tenure in order, and none is left out."""
    got: dict[tuple[Partition, int], int] = defaultdict(int)
    for consumption in had:
        for _, offset in consumption.records:
            got[consumption.partition, offset] += 1
        for (_, one), (_, two) in pairwise(consumption.records):
            if two != one + 1:
                found.disorder.append(f"{two} after {one}: {consumption}")
    for (topic, number), offset in sorted(evidence.produced):
        if not got[(topic, str(number)), offset]:
            found.lost.append(f"{topic}-{number} {offset}")
    found.records = len(evidence.produced)
    found.again = sum(times - 1 for times in got.values() if times > 1)
    by_partition: dict[Partition, list[Consumption]] = defaultdict(list)
    for consumption in sorted(had, key=lambda consumption: consumption.since):
        by_partition[consumption.partition].append(consumption)
    found.hands = sum(
        a.member != b.member for of_one in by_partition.values() for a, b in pairwise(of_one)
    )
