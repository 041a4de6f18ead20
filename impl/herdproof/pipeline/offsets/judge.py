"""
The audit of one group of `__consumer_offsets`: its records in, rows of all tables out.

This source shows what coordinators wrote, not what members did, and compaction erases most of it:
no promise can be seen to hold here. Those can be seen to be broken whose fields it fills.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from herdproof.errors import Malformed
from herdproof.pipeline.judging.changes import Changes
from herdproof.pipeline.judging.group import GroupJudging
from herdproof.pipeline.judging.plain import PlainJudge
from herdproof.pipeline.offsets import TOPIC
from herdproof.pipeline.offsets.events import Began, Event, EventDecoder
from herdproof.pipeline.offsets.fields import PROMISED, UNLIKE, WATCHES, OffsetsFields
from herdproof.pipeline.offsets.records import read_key
from herdproof.pipeline.offsets.segments import RAW_MOST, LogRecord
from herdproof.pipeline.spark.tables import TABLES, Row, Rows
from herdspec.check.observation.observed import Judgement, Ruling
from herdspec.language.specification import DeclaredProperty

_COMPACTED = "compaction erases history: none of what is left violates it"

REFUTABLE = frozenset(p.name for p in WATCHES.promises if not WATCHES.missing(p))
"""Promises of which this source can show that they are violated."""


def _unseen(promise: DeclaredProperty) -> str:
    if promise.name in UNLIKE:
        return UNLIKE[promise.name]
    missing = WATCHES.missing(promise)
    return f"{', '.join(missing)}: not in this log" if missing else _COMPACTED


OBSERVABLE: Mapping[str, str] = {p.name: _unseen(p) for p in PROMISED}
"""By promise of the contract, why this source cannot show that it holds."""

_UNMEASURED = frozenset({"rebalances_failed", "zombies", "commits_refused", "redelivered_total"})
_DOWNTIME = "partition_downtime_total_s"
"""Figures that this source cannot tell; downtime it can, of groups of KIP-848."""


def judge_records(run: str, group: str, records: Iterable[LogRecord]) -> Rows:
    """Judge one group, from its records in the order of the log."""
    judge = OffsetsJudging(run, group)
    for record in records:
        judge.feed(record)
    found = judge.close()
    return {table: found.get(table, []) for table in TABLES}


class OffsetsJudging:
    """Judges one group, record by record; rows that are finished can be drained at any time."""

    def __init__(self, run: str, group: str) -> None:
        self.run = run
        self.group = group
        self.set_aside = 0
        self._teller = EventDecoder()
        self._judging = GroupJudging(run, group, TOPIC, OffsetsJudge(), {})
        self._unmeasured = {*_UNMEASURED, _DOWNTIME}
        self._aside: list[Row] = []

    def feed(self, record: LogRecord) -> None:
        """Take the group's next record."""
        if record.reason is not None:
            self._set_aside(record, record.reason, record.why or "")
            return
        told: Iterable[Event]
        try:
            told = self._teller.tell(record)
        except Malformed as wrong:
            self._set_aside(record, wrong.reason, wrong.why)
            told = [self._teller.lose(record)]
        for event in told:
            if isinstance(event, Began):
                self._unmeasured.discard(_DOWNTIME)
            self._judging.take(event)

    def drain(self) -> Rows:
        """The rows that were finished since the last time."""
        rows = self._judging.drain()
        if self._aside:
            rows["quarantine"], self._aside = self._aside, []
        return rows

    def close(self) -> Rows:
        """The last rows, verdicts among them; what this log does not tell is no figure."""
        rows = self._judging.close()
        rows["figures"] = [r for r in rows["figures"] if r["name"] not in self._unmeasured]
        rows["quarantine"], self._aside = self._aside, []
        return rows

    def _set_aside(self, record: LogRecord, reason: str, why: str) -> None:
        self.set_aside += 1
        self._aside.append(quarantined(self.run, self.group, record, reason, why))


class OffsetsJudge(PlainJudge):
    """Fills the contract's fields with what records tell."""

    def __init__(self) -> None:
        super().__init__(WATCHES)
        self._fields = OffsetsFields(self.seen)

    def listen(self, tells: Changes) -> None:
        """From now on, tables are told what changes, and what the contract has no field for."""
        super().listen(tells)
        self._fields.tells = tells

    def take(self, line: Event) -> bool:
        """The next event; whether it broke something."""
        return self._fields.take(line)

    def judgements(self) -> list[Judgement]:
        """The judgements on promises: that nothing here violates one does not say that it holds."""
        found = {j.promise.name: j for j in self.seen.judgements()}
        return [self._ruled(found.get(p.name), p) for p in PROMISED]

    def _ruled(self, found: Judgement | None, promise: DeclaredProperty) -> Judgement:
        unseen = Judgement(
            promise=promise, ruling=Ruling.NOT_OBSERVABLE, why=OBSERVABLE[promise.name]
        )
        if found is None or promise.name not in REFUTABLE:
            return unseen
        if found.ruling is Ruling.VIOLATED:
            return found
        doubts = self._fields.doubts
        if doubted := WATCHES.needs[promise.name] & doubts.keys():
            return replace(found, ruling=Ruling.UNKNOWN, why=doubts[min(doubted)])
        return replace(unseen, held=found.held, open=found.open)


def quarantined(run: str, group: str, record: LogRecord, reason: str, why: str) -> Row:
    """The quarantine's row of a record."""
    return {
        "run": run, "group": group, "reason": reason, "why": why, "place": record.place,
        "time_ns": record.time_ns, "raw": raw_of(record),
    }  # fmt: skip


def raw_of(record: LogRecord) -> bytes | None:
    """A record's bytes: its key's and its value's, each behind its length (-1: there is none)."""
    if record.reason == "malformed" and record.key is None:
        return record.value  # of a file: it never was a record
    parts = (record.key, record.value)
    sized = [(-1 if part is None else len(part)).to_bytes(4, "big", signed=True) for part in parts]
    raw = b"".join(size + (part or b"") for size, part in zip(sized, parts, strict=True))
    return raw[:RAW_MOST]


def group_of(record: LogRecord) -> str:
    """The group of a record; or `Malformed`."""
    return read_key(record.key).group
