"""
The audit of one group of `__consumer_offsets`: its records in, rows of all tables out.

This source shows what coordinators wrote, not what members did, and compaction erases most of it:
no promise can be seen to hold here. Those can be seen to be broken whose fields it fills.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from herdproof.pipeline.audit.auditor import Malformed
from herdproof.pipeline.offsets import TOPIC
from herdproof.pipeline.offsets import events as e
from herdproof.pipeline.offsets.fields import PROMISED, UNLIKE, WATCHES, OffsetsFields, Words
from herdproof.pipeline.offsets.records import read_key
from herdproof.pipeline.offsets.rows import OffsetsRows
from herdproof.pipeline.offsets.segments import RAW_MOST, LogRecord
from herdproof.pipeline.spark.tables import TABLES, Row, Rows
from herdspec.check.observation.observed import Ruling, Violation
from herdspec.language.specification import Promise

_COMPACTED = "compaction erases history: none of what is left violates it"


REFUTABLE = frozenset(p.name for p in WATCHES.promises if not WATCHES.missing(p))
"""Promises of which this source can show that they are violated."""


def _unseen(promise: Promise) -> str:
    if promise.name in UNLIKE:
        return UNLIKE[promise.name]
    missing = WATCHES.missing(promise)
    return f"{', '.join(missing)}: not in this log" if missing else _COMPACTED


OBSERVABLE: Mapping[str, str] = {p.name: _unseen(p) for p in PROMISED}
"""By promise of the contract, why this source cannot show that it holds."""


def judge_records(run: str, group: str, records: Iterable[LogRecord]) -> Rows:
    """Judge one group, from its records in the order of the log."""
    judge = Judge(run, group)
    for record in records:
        judge.feed(record)
    found = judge.close()
    return {table: found.get(table, []) for table in TABLES}


class Judge:
    """Judges one group, record by record; rows that are finished can be drained at any time."""

    def __init__(self, run: str, group: str) -> None:
        self.run = run
        self.group = group
        self.set_aside = 0
        self._teller = e.Teller()
        self._fields = OffsetsFields()
        self._rows = OffsetsRows(run, group)
        self._violations: dict[str, int] = {}

    def feed(self, record: LogRecord) -> None:
        """Take the group's next record."""
        if record.reason is not None:
            self._set_aside(record, record.reason, record.why or "")
            return
        told: Iterable[e.Event]
        try:
            told = self._teller.tell(record)
        except Malformed as wrong:
            self._set_aside(record, wrong.reason, wrong.why)
            told = [self._teller.lose(record)]
        seen = self._fields.seen
        for event in told:
            self._rows.take(event)
            for words in self._fields.take(event):
                seen.step()
                if broken := seen.broken():
                    for violation in {v.promise.name: v for v in broken}.values():
                        self._violated(violation, event, words)

    def _violated(self, found: Violation, event: e.Event, words: Words) -> None:
        name = found.promise.name
        self._violations[name] = self._violations.get(name, 0) + 1
        self._rows.row(
            "violations", property=name, sentence=found.promise.sentence, time_ns=event.time_ns,
            place=event.place, told=words(), story=self._rows.story(found.of.values()),
        )  # fmt: skip

    def drain(self) -> Rows:
        """The rows that were finished since the last time."""
        return self._rows.drain()

    def close(self) -> Rows:
        """The last rows, verdicts among them."""
        judged = {j.promise.name: j.held + j.open for j in self._fields.seen.judgements()}
        for name in OBSERVABLE:
            verdict, why = self._verdict(name)
            self._rows.row(
                "verdicts", protocol=TOPIC, property=name, verdict=verdict, why=why,
                checked=judged.get(name, 0),
            )  # fmt: skip
        return self._rows.close()

    def _verdict(self, name: str) -> tuple[str, str]:
        """That nothing here violates a promise does not say that it holds."""
        doubts, count = self._fields.doubts, self._violations.get(name)
        if count is not None:
            return Ruling.VIOLATED.value, "once" if count == 1 else f"{count} times"
        if name in REFUTABLE and (doubted := WATCHES.needs[name] & doubts.keys()):
            return Ruling.UNKNOWN.value, doubts[min(doubted)]
        return Ruling.NOT_OBSERVABLE.value, OBSERVABLE[name]

    def _set_aside(self, record: LogRecord, reason: str, why: str) -> None:
        self.set_aside += 1
        self._rows.row("quarantine", **_aside(record, reason, why))


def quarantined(run: str, group: str, record: LogRecord, reason: str, why: str) -> Row:
    """The quarantine's row of a record."""
    return {"run": run, "group": group, **_aside(record, reason, why)}


def _aside(record: LogRecord, reason: str, why: str) -> Row:
    return {
        "reason": reason, "why": why, "place": record.place, "time_ns": record.time_ns,
        "raw": raw_of(record),
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
