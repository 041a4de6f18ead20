"""
Facts from the tables of a directory, as far as a reader wants to know them.

All that grows with the number of groups is counted; details are kept of the worst ones, and every
limit says so where it cuts something off. `Facts` is plain data: the page, the JSON and the test
report are made of it alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from herdproof.pipeline.audit.summary import DUPLICATE
from herdproof.pipeline.report.availability import LONG_S, UnreadFacts, availability_of
from herdproof.pipeline.report.campaigns import Campaign, campaign_of
from herdproof.pipeline.report.figures import FigureValues, figures_of, unseen
from herdproof.pipeline.report.reading import Subject, Tables, of_subjects
from herdproof.protocols.sentences import OLD_NAMES

CONFORMS = "conforms"
HOLDS, VIOLATED, NOT_OBSERVABLE, UNKNOWN = "holds", "violated", "not observable", "unknown"
VERDICTS = (VIOLATED, UNKNOWN, NOT_OBSERVABLE, HOLDS)
"""The worst first."""

COLUMNS = 12
"""Groups that have a column of their own in the matrix."""
DETAILED = 6
"""Groups whose timeline is drawn."""
LISTED = 50
"""Groups that have a line in the list of groups."""
STORIES = 24
"""Violations that are told; the others are counted."""
INTERVALS, MARKS = 3_000, 100
"""Intervals and violations of one group that are drawn."""
BEFORE_NS, AFTER_NS = 30 * 10**9, 15 * 10**9
"""Time around its first violation that is drawn of a group too long to be drawn as a whole."""
EXAMPLES = 3
"""Of each reason for quarantine."""
RAW = 300
"""Bytes of a quarantined record that are shown."""


@dataclass(frozen=True)
class PropertyFacts:
    """A property of a protocol, and in how many groups it came to which verdict."""

    protocol: str
    name: str
    sentence: str
    groups: Mapping[str, int]
    checked: int

    @property
    def worst(self) -> str:
        """The worst verdict that there is."""
        return next((v for v in VERDICTS if self.groups.get(v)), UNKNOWN)


@dataclass(frozen=True)
class GroupFacts:
    """A group of a run: what it came to, and how much happened."""

    run: str
    group: str
    verdicts: Mapping[str, int]
    violations: int
    generations: int
    members: int
    commits: int
    refused: int
    quarantined: int

    @property
    def subject(self) -> Subject:
        """Its run and its name."""
        return self.run, self.group

    @property
    def worst(self) -> str:
        """The worst verdict of its properties."""
        return next((v for v in VERDICTS if self.verdicts.get(v)), UNKNOWN)


@dataclass(frozen=True)
class Cell:
    """The verdict on one property for one group."""

    verdict: str
    why: str
    checked: int


@dataclass(frozen=True)
class DeliveryInterval:
    """In which a consumer could deliver a partition's records; no end: it still can."""

    partition: str
    consumer: str
    begin_ns: int
    end_ns: int | None
    ended: str
    known: bool
    generation: int | None


@dataclass(frozen=True)
class GenerationBegun:
    """When a generation's owners were stored (or when it was begun, where they never were)."""

    number: int | None
    epoch: int | None
    time_ns: int
    outcome: str


@dataclass(frozen=True)
class History:
    """Intervals that are drawn of one group."""

    run: str
    group: str
    intervals: Sequence[DeliveryInterval]
    generations: Sequence[GenerationBegun]
    violations_ns: Sequence[int]
    cut: str
    """The part of it that is shown, where not all is."""


@dataclass(frozen=True)
class ViolationFacts:
    """A promise that was broken, and the story of it."""

    run: str
    group: str
    property: str
    sentence: str
    time_ns: int | None
    place: str
    told: str
    story: Sequence[str]


@dataclass(frozen=True)
class Action:
    """An action of a spec, and how often replays took it."""

    protocol: str
    action: str
    taken: int
    supposed: bool
    """Some replay took it where no line named it; nobody counted how often."""

    @property
    def never(self) -> bool:
        """True if no replay took the action."""
        return not self.taken and not self.supposed


@dataclass(frozen=True)
class Quarantined:
    """Why records were not audited: how many, and some of them."""

    reason: str
    records: int
    examples: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Facts:
    """All that is told."""

    source: str
    runs: int
    groups: int
    verdicts: Mapping[str, int]
    rows: Mapping[str, int]
    span_ns: tuple[int, int] | None
    promises: Sequence[PropertyFacts]
    listed: Sequence[GroupFacts]
    """The worst groups, the worst first."""
    matrix: Mapping[Subject, Mapping[tuple[str, str], Cell]]
    """By run and group, by protocol and property, what was found."""
    histories: Sequence[History]
    violations: Mapping[str, int]
    stories: Sequence[ViolationFacts]
    figures: Sequence[FigureValues]
    unseen: Mapping[str, int]
    """Figures that are not observable, by how many groups."""
    coverage: Sequence[Action]
    quarantine: Sequence[Quarantined]
    campaign: Campaign | None = field(default=None)
    availability: UnreadFacts | None = field(default=None)

    @property
    def outage_s(self) -> float:
        """For how long a partition had no reader, where that was long; else 0."""
        longest = 0.0 if self.availability is None else self.availability.longest_s
        return longest if longest >= LONG_S else 0.0

    @property
    def worst(self) -> str:
        """The verdict on all of it; what cannot be observed is no doubt, and no proof either."""
        if (
            self.violations
            or self.verdicts.get(VIOLATED)
            or (self.campaign and self.campaign.broken)
        ):
            return VIOLATED
        is_open = self.verdicts.get(UNKNOWN) or any(q.reason != DUPLICATE for q in self.quarantine)
        return HOLDS if self.verdicts.get(HOLDS) and not is_open else UNKNOWN


def facts_of(directory: Path) -> Facts:
    """The facts in the tables of a directory; raises `NoTables`."""
    tables = Tables(directory)
    groups = _groups(tables)
    worst = sorted(groups, key=_badness)
    shown = [group.subject for group in worst[:COLUMNS]]
    sums = sum((Counter(group.verdicts) for group in groups), Counter[str]())
    violations = tables.counts("violations", "property")
    return Facts(
        source=directory.name, runs=len({group.run for group in groups}),
        groups=sum(bool(group.group) for group in groups),
        verdicts={v: sums[v] for v in VERDICTS if sums[v]},
        rows={name: sum(tables.counts(name, "run").values()) for name in _TOLD if name in tables},
        span_ns=_span(tables),
        promises=_promises(tables), listed=worst[:LISTED], matrix=_matrix(tables, shown),
        histories=_histories(tables, [g.subject for g in worst if g.group][:DETAILED]),
        violations={str(name): count for (name,), count in violations.most_common()},
        stories=_stories(tables), figures=figures_of(tables), unseen=unseen(tables),
        coverage=_coverage(tables), quarantine=_quarantine(tables), campaign=campaign_of(tables),
        availability=availability_of(tables),
    )  # fmt: skip


def facts_json(facts: Facts) -> dict[str, Any]:
    """Facts as JSON."""
    plain = asdict(facts)
    plain["matrix"] = [
        {
            "run": run, "group": group,
            "verdicts": [
                {"protocol": protocol, "property": name, **cell}
                for (protocol, name), cell in sorted(cells.items())
            ],
        }
        for (run, group), cells in plain["matrix"].items()
    ]  # fmt: skip
    return {"command": "report", "worst": facts.worst, **plain}


_TOLD = ("generations", "memberships", "ownership", "commits", "violations", "quarantine")


# ── Groups ──────────────────────────────────────────────────────────────────────────────────


def _groups(tables: Tables) -> list[GroupFacts]:
    """
    Every group that any table tells of; what concerns all groups of a run has no name.

    A record that could not be read belongs to nobody, and is none's.
    """
    by = "run", "group"
    counted = {name: tables.counts(name, *by) for name in _TOLD}
    refused = Counter[Any]()
    for (run, group, outcome), count in tables.counts("commits", *by, "outcome").items():
        refused[run, group] += count if outcome == "refused" else 0
    verdicts: dict[Any, Counter[str]] = defaultdict(Counter)
    for (run, group, verdict), count in tables.counts("verdicts", *by, "verdict").items():
        verdicts[run, group][str(verdict)] += count
    found = {*verdicts, *(s for of in counted.values() for s in of)} - {(None, None)}
    return [
        GroupFacts(
            run=str(subject[0] or ""),
            group=str(subject[1] or ""),
            verdicts=dict(verdicts[subject]),
            violations=counted["violations"][subject],
            generations=counted["generations"][subject],
            members=counted["memberships"][subject],
            commits=counted["commits"][subject],
            refused=refused[subject],
            quarantined=counted["quarantine"][subject],
        )
        for subject in sorted(found, key=str)
    ]


def _badness(group: GroupFacts) -> tuple[Any, ...]:
    """Sorts the worst groups first."""
    verdicts = group.verdicts
    return (
        -bool(group.violations or verdicts.get(VIOLATED)), -group.violations,
        -verdicts.get(UNKNOWN, 0), -group.quarantined, -group.refused, -group.generations,
        group.run, group.group,
    )  # fmt: skip


def _span(tables: Tables) -> tuple[int, int] | None:
    """From the first thing that is told to the last."""
    found = [
        span
        for span in (
            tables.span("ownership", "from_ns", "to_ns"),
            tables.span("generations", "begun_ns", "settled_ns"),
            tables.span("memberships", "joined_ns", "left_ns"),
            tables.span("commits", "time_ns", "time_ns"),
        )
        if span
    ]
    return (min(a for a, _ in found), max(b for _, b in found)) if found else None


# ── Verdicts ────────────────────────────────────────────────────────────────────────────────


def _promises(tables: Tables) -> list[PropertyFacts]:
    """Each property once, the broken ones first."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (protocol, name, verdict), count in tables.counts(
        "verdicts", "protocol", "property", "verdict"
    ).items():
        counts[str(protocol), str(name)][str(verdict)] += count
    checked = tables.sums("verdicts", "checked", "protocol", "property")
    said = {str(n): str(s or "") for n, s in tables.counts("violations", "property", "sentence")}
    promises = [
        PropertyFacts(
            protocol,
            name,
            _sentence(protocol, name, said.get(name, "")),
            dict(of),
            int(checked[protocol, name]),
        )
        for (protocol, name), of in counts.items()
    ]
    return sorted(promises, key=lambda p: (_rank(p.worst), p.protocol, p.name))


def _sentence(protocol: str, name: str, said: str) -> str:
    """The promise of a property; as long as that is of use, with the name that it had before."""
    if name in OLD_NAMES:
        return f"now: {', '.join(OLD_NAMES[name])}"
    text = said or promised(protocol).get(name, "")
    former = [old for old, names in OLD_NAMES.items() if name in names]
    return f"{text} (was {', '.join(former)})" if former else text


@cache
def promised(protocol: str) -> Mapping[str, str]:
    """The promises of a source's properties, where no violation says them."""
    from herdproof.pipeline.offsets import TOPIC
    from herdproof.protocols.implementation import auditors

    conforms = {CONFORMS: "The code does what its spec allows."}
    if protocol == TOPIC:
        from herdproof.pipeline.offsets.fields import PROMISED

        return {promise.name: promise.sentence for promise in PROMISED}
    return {**conforms, **(auditors()[protocol].sentences if protocol in auditors() else {})}


def _matrix(
    tables: Tables, subjects: Sequence[Subject]
) -> dict[Subject, dict[tuple[str, str], Cell]]:
    """The verdict on each property for each of these groups; the worst, where there are two."""
    matrix: dict[Subject, dict[tuple[str, str], Cell]] = {subject: {} for subject in subjects}
    for row in tables.rows("verdicts", of_subjects(subjects)):
        cells = matrix[row["run"], row["group"]]
        at = str(row["protocol"]), str(row["property"])
        cell = Cell(str(row["verdict"]), row["why"] or "", row["checked"] or 0)
        if at not in cells or _rank(cell.verdict) < _rank(cells[at].verdict):
            cells[at] = cell
    return matrix


def _rank(verdict: str) -> int:
    """The rank of a verdict, the worst first; one that is none is unknown."""
    return VERDICTS.index(verdict if verdict in VERDICTS else UNKNOWN)


def _stories(tables: Tables) -> list[ViolationFacts]:
    """Some violations of each property, the earliest of a group first."""
    kept: dict[str, list[ViolationFacts]] = defaultdict(list)
    names = len(tables.counts("violations", "property")) or 1
    each = max(1, STORIES // names)
    columns = ("run", "group", "property", "sentence", "time_ns", "place", "told", "story")
    for batch in tables.batches("violations", columns, largest=1_024):
        for row in batch.to_pylist():
            kept[str(row["property"])].append(_violation(row))
        for name, found in kept.items():
            kept[name] = sorted(found, key=_earliest)[:each]
    return [violation for name in sorted(kept) for violation in kept[name]][:STORIES]


def _earliest(violation: ViolationFacts) -> tuple[Any, ...]:
    """Sorts violations by time; the story of an early one is the simplest."""
    return violation.time_ns is None, violation.time_ns or 0, violation.run, violation.group


def _violation(row: Mapping[str, Any]) -> ViolationFacts:
    texts = {name: str(row[name] or "") for name in ("run", "group", "property", "sentence")}
    return ViolationFacts(
        **texts, time_ns=row["time_ns"], place=row["place"] or "", told=row["told"] or "",
        story=[line for line in row["story"] or [] if line],
    )  # fmt: skip


# ── Histories ───────────────────────────────────────────────────────────────────────────────


def _histories(tables: Tables, subjects: Sequence[Subject]) -> list[History]:
    """The histories to draw of these groups: of those that have something to draw."""
    found = (_history(tables, subject) for subject in subjects)
    return [history for history in found if history.intervals]


def _history(tables: Tables, subject: Subject) -> History:
    """A group's intervals and marks; of one that is too long, the part that matters most."""
    where = of_subjects([subject])
    times = _numbers(tables, "violations", "time_ns", where)[:MARKS]
    begins = _numbers(tables, "ownership", "from_ns", where)
    shown, cut, low = where, "", 0
    if len(begins) > INTERVALS:
        low, high = begins[0], begins[INTERVALS]
        if times:
            low, high = times[0] - BEFORE_NS, times[0] + AFTER_NS
        lasts = pc.field("to_ns").is_null() | (pc.field("to_ns") >= low)
        shown = where & (pc.field("from_ns") < high) & lasts
        cut = f"of {len(begins):,} intervals, " + (
            "those around the first violation" if times else f"the first {INTERVALS:,}"
        )
    begun = shown & pc.field("from_ns").is_valid()
    intervals = [_interval(row) for row in tables.rows("ownership", begun, INTERVALS)]
    end = max((i.end_ns or i.begin_ns for i in intervals), default=0)
    generations = [
        GenerationBegun(row["generation"], row["epoch"], time_ns, row["outcome"] or "")
        for row in tables.rows("generations", where, INTERVALS)
        for time_ns in [row["begun_ns"] if row["written_ns"] is None else row["written_ns"]]
        if time_ns is not None and (not cut or low <= time_ns <= end)
    ]
    return History(
        *subject, sorted(intervals, key=lambda i: (i.begin_ns, i.partition, i.consumer)),
        sorted(generations, key=lambda g: (g.time_ns, g.number or 0)), times, cut,
    )  # fmt: skip


def _numbers(tables: Tables, name: str, column: str, where: Any) -> list[int]:
    """The values of a column in order, without nulls."""
    batches = tables.batches(name, [column], where & pc.field(column).is_valid())
    return sorted(value for batch in batches for value in batch.column(column).to_pylist())


def _interval(row: Mapping[str, Any]) -> DeliveryInterval:
    return DeliveryInterval(
        f"{row['topic']}-{row['partition']}", row["consumer"] or "", row["from_ns"], row["to_ns"],
        row["ended"] or "", row["known"] is not False, row["generation"],
    )  # fmt: skip


# ── Coverage and quarantine ─────────────────────────────────────────────────────────────────


def _coverage(tables: Tables) -> list[Action]:
    """The number of times that each action was taken in all replays together."""
    taken = tables.sums("coverage", "taken", "protocol", "action")
    uncounted = tables.counts("coverage", "protocol", "action", where=~pc.field("taken").is_valid())
    found = [Action(str(at[0]), str(at[1]), int(n), at in uncounted) for at, n in taken.items()]
    return sorted(found, key=lambda a: (a.protocol, -a.taken, not a.supposed, a.action))


def _quarantine(tables: Tables) -> list[Quarantined]:
    """The reasons, the commonest first, with the first examples that come."""
    counts = tables.counts("quarantine", "reason")
    examples: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    wanted = {str(reason) for (reason,) in counts}
    columns = ("run", "group", "reason", "why", "place", "time_ns", "raw")
    for batch in tables.batches("quarantine", columns, largest=256) if wanted else ():
        for row in batch.to_pylist():
            found = examples[str(row["reason"])]
            if len(found) < EXAMPLES:
                found.append({**row, "raw": _readable(row["raw"])})
        if all(len(examples[r]) >= min(EXAMPLES, counts[r,]) for r in wanted):
            break
    return [
        Quarantined(str(reason), n, examples[str(reason)]) for (reason,), n in counts.most_common()
    ]


def unjudged(tables: Tables) -> dict[str, int]:
    """The number of records that nobody could judge, by the reason."""
    counts = tables.counts("quarantine", "reason")
    return {str(reason): n for (reason,), n in counts.items() if reason != DUPLICATE}


def _readable(raw: bytes | None) -> str:
    """A record's beginning as text; bytes that are none are told as such."""
    if raw is None:
        return ""
    text = raw[:RAW].decode("utf-8", errors="backslashreplace")
    return f"{text}… ({len(raw):,} bytes)" if len(raw) > RAW else text
