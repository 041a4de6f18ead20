"""
The audit of one group of `__consumer_offsets`: its records in, rows of all tables out.

This source shows what coordinators wrote, not what members did, and compaction erases most of it:
no sentence can be seen to hold here. Three of them can be seen to be violated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from herdproof.pipeline.audit.auditor import Malformed
from herdproof.pipeline.judging import events as e
from herdproof.pipeline.judging.history import History
from herdproof.pipeline.offsets import TOPIC
from herdproof.pipeline.offsets.events import Teller
from herdproof.pipeline.offsets.records import read_key
from herdproof.pipeline.offsets.segments import RAW_MOST, LogRecord
from herdproof.pipeline.spark.tables import TABLES, Row, Rows

_COMPACTED = "compaction erases history: none of what is left violates it"
_NO_COMMITTER = "a commit names neither its member nor its generation"
_NO_CONSUMER = "what consumers do, and are told, is not in this log"
_NO_EPOCH = "this log names no coordinator and no epoch"

OBSERVABLE: Mapping[str, str] = {
    "EXCLUSIVE": "what members consume is not in this log; nobody is given what another still has",
    "FENCED_COMMIT": _NO_COMMITTER,
    "FENCED_WRITE": _NO_EPOCH,
    "FENCED_COMMAND": _NO_CONSUMER,
    "COMMANDS_NOBODY": _NO_CONSUMER,
    "WRITTEN_FIRST": _NO_CONSUMER,
    "MONOTONE": _COMPACTED,
    "NOTHING_SKIPPED": _NO_CONSUMER,
    "ONLY_FINISHED": _NO_CONSUMER,
    "STORED_FIRST": _NO_CONSUMER,
    "COMPLETE": "how many partitions there are is not in this log; none is assigned twice",
    "ONE_COORDINATOR": _NO_EPOCH,
    "SETTLES": "a log cannot show what is left undone for ever",
}
"""By sentence of the contract, why this source cannot show that it holds."""

REFUTABLE = frozenset({"EXCLUSIVE", "MONOTONE", "COMPLETE"})
"""Sentences of which this source can show that they are violated."""


_UNMEASURED = frozenset({"rebalances_failed", "zombies", "commits_refused", "redelivered_total"})
_DOWNTIME = "partition_downtime_total_s"
"""Figures that this source cannot tell; downtime it can, of groups of KIP-848."""


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
        decides = {name: "" if name in REFUTABLE else why for name, why in OBSERVABLE.items()}
        self._history = History(run, group, TOPIC, decides)
        self._teller = Teller()
        self._rebalances = Rebalances()
        self._unmeasured = {*_UNMEASURED, _DOWNTIME}
        self._aside: list[Row] = []
        self.set_aside = 0

    def feed(self, record: LogRecord) -> None:
        """Take the group's next record."""
        if record.reason is not None:
            self._set_aside(record, record.reason, record.why or "")
            return
        try:
            told = self._teller.tell(record)
        except Malformed as wrong:
            self._set_aside(record, wrong.reason, wrong.why)
            missing = f"{record.place} cannot be read"
            time_ns = record.time_ns or 0
            self._history.feed(e.Missing(time_ns=time_ns, place=record.place, why=missing))
            return
        for event in told:
            if isinstance(event, e.Began):
                self._unmeasured.discard(_DOWNTIME)
            self._rebalances.feed(event)
            self._history.feed(event)

    def drain(self) -> Rows:
        """The rows that were finished since the last time."""
        rows = self._history.drain()
        if self._aside:
            rows["quarantine"], self._aside = self._aside, []
        return rows

    def close(self) -> Rows:
        """The last rows, verdicts among them."""
        rows = self._history.close()
        rows["verdicts"] = [_never_holds(row) for row in rows["verdicts"]]
        figures = [self._rebalances.counted(row) for row in rows["figures"]]
        rows["figures"] = [row for row in figures if row["name"] not in self._unmeasured]
        rows["quarantine"], self._aside = self._aside, []
        return rows

    def _set_aside(self, record: LogRecord, reason: str, why: str) -> None:
        self.set_aside += 1
        self._aside.append(quarantined(self.run, self.group, record, reason, why))


class Rebalances:
    """Counts rebalances of which a classic group tells nothing but the generation they made."""

    def __init__(self) -> None:
        self._begun = False
        self._generation: int | None = None
        self._untold = 0

    def feed(self, event: e.Event) -> None:
        """Take the next event."""
        if isinstance(event, e.Rebalance):
            self._begun = True
        elif isinstance(event, e.Assigned):
            if not self._begun and event.generation != self._generation:
                self._untold += 1
            self._begun, self._generation = False, event.generation

    def counted(self, figure: Row) -> Row:
        """The figure `rebalances` with these; any other as it is."""
        if figure["name"] != "rebalances":
            return figure
        return {**figure, "value": figure["value"] + self._untold}


def _never_holds(row: Row) -> Row:
    """A verdict: that nothing here violates a sentence does not say that it holds."""
    if row["verdict"] == "violated" or row["property"] not in REFUTABLE:
        return row
    if row["verdict"] == "unknown":
        return row
    return {**row, "verdict": "not observable", "why": OBSERVABLE[row["property"]]}


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
