"""
The audit of one group of one run: its lines in, in any order; rows of all tables out.

    rows = judge("central_coordinator", "monday", "orders-readers", lines)
    TABLES["ownership"].filled(rows["ownership"])

`lines` are the group's own and those of its run that concern all groups (`group` is empty).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from herdproof.conformance.traces.ordering import Ordered
from herdproof.pipeline.audit.auditor import Auditor, Replayed
from herdproof.pipeline.audit.protocols import auditors
from herdproof.pipeline.judging.events import Event, Missing, Resumed
from herdproof.pipeline.judging.findings import TOLD_BY
from herdproof.pipeline.judging.history import History
from herdproof.pipeline.spark.tables import TABLES, Row, Rows

CONFORMS = "conforms"
"""The name of the verdict on a replay."""

Missed = tuple[int, str] | tuple[int, str, int]
"""The time of the first line after a gap, what is missing, and the time of the last one before."""

RAW = 64 * 1024
"""At most so many bytes of a record go to quarantine."""


def judge(
    protocol: str, run: str, group: str, lines: Sequence[Any], *, replay: bool = True,
    alone: bool = False, missing: Sequence[Missed] = (),
) -> Rows:  # fmt: skip
    """
    Judge one group of one run; the same rows for any order of its lines.

    `alone` says that the run has no other group: then a gap in a coordinator's numbers is one, and
    not another group's lines. `missing` says which lines are missing that others know of.
    """
    auditor = auditors()[protocol]
    found = auditor.ordered(lines)
    gaps = gaps_of(found, alone=alone, missing=missing)
    rows = history_rows(auditor, run, group, found.lines, gaps)
    rows["quarantine"] = [duplicate(run, group, line) for line in found.twice]
    if replay:
        add_replay(rows, auditor, run, group, found.lines, [gap.why for gap in gaps])
    return {table: rows.get(table, []) for table in TABLES}


def history_rows(
    auditor: Auditor, run: str, group: str, lines: Sequence[Any], gaps: Sequence[Gap]
) -> Rows:
    """Tables, figures and the contract's verdicts of lines that are in order."""
    history = History(run, group, auditor.name, auditor.observable)
    tell, feed = auditor.teller(run, group).tell, history.feed
    before: dict[int, list[Event]] = {}
    for gap in gaps:
        if gap.begin < len(lines):
            missing = gap.at(lines[gap.begin], Missing, lasting=True)
            before.setdefault(gap.begin, []).append(missing)
    for gap in gaps:
        if gap.end < len(lines):
            before.setdefault(gap.end, []).append(gap.at(lines[gap.end], Resumed))
    for index, line in enumerate(lines):
        if index in before:
            for event in before[index]:
                feed(event)
        for event in tell(line):
            feed(event)
    for gap in gaps:
        if gap.begin >= len(lines):
            history.unsure(gap.why, gap.role)
    return history.close()


class Gap(NamedTuple):
    """Lines that are missing: after which line they can have been, and before which."""

    begin: int
    end: int
    why: str
    role: str = ""

    def at(self, line: Any, made: type[Any], **told: Any) -> Any:
        """The event of its beginning, or its end, at a line."""
        return made(
            time_ns=line.time_ns, place=line.place, node=line.node, why=self.why, role=self.role,
            **told,
        )  # fmt: skip


def gaps_of(found: Ordered[Any], *, alone: bool, missing: Iterable[Missed]) -> list[Gap]:
    """Where lines are missing, as their own numbers tell, and others."""
    gaps = []
    for index, missed in found.gaps.items():
        line = found.lines[index]
        if is_gap(line, alone=alone):
            role = line.role if line.role in TOLD_BY else ""
            gaps.append(Gap(_after_last(found.lines, index), index, missed, role))
    for until_ns, why, *since in missing:
        begin = _index(found.lines, since[0] + 1) if since else 0
        gaps.append(Gap(begin, _index(found.lines, until_ns), why))
    return gaps


def _after_last(lines: Sequence[Any], index: int) -> int:
    """The place after the last line of the same node before one."""
    node = (lines[index].role, lines[index].node)
    before = range(index - 1, -1, -1)
    return next((k + 1 for k in before if (lines[k].role, lines[k].node) == node), 0)


def _index(lines: Sequence[Any], time_ns: int) -> int:
    """The first line that is not before a time."""
    return next((k for k, line in enumerate(lines) if line.time_ns >= time_ns), len(lines))


def is_gap(line: Any, *, alone: bool) -> bool:
    """Whether numbers that are not there are missing, and not another group's."""
    return alone or not line.shared


def duplicate(run: str, group: str, line: Any) -> Row:
    """The quarantine's row of a line that is there twice."""
    return {
        "run": run, "group": group, "reason": "duplicate",
        "why": f"{line.role or 'node'} {line.node} has told line {line.sequence} already",
        "place": line.place, "time_ns": line.time_ns, "raw": line.written().encode()[:RAW],
    }  # fmt: skip


def add_replay(
    rows: Rows, auditor: Auditor, run: str, group: str, lines: Sequence[Any],
    missing: Sequence[str] = (),
) -> None:  # fmt: skip
    """
    The verdict of the spec, and how often its actions were taken.

    Where lines are missing (and why), nobody knows whether what differs does so for that alone.
    """
    replayed = auditor.replay(lines)
    if missing:
        replayed = replace(replayed, verdict="unknown", told=f"lines are missing: {missing[0]}")
    who = {"run": run, "group": group}
    verdict: Mapping[str, str] = {"conforms": "holds", "differs": "violated"}
    rows.setdefault("verdicts", []).append(
        {
            **who, "protocol": auditor.name, "property": CONFORMS,
            "verdict": verdict.get(replayed.verdict, "unknown"), "why": replayed.told or None,
            "checked": replayed.lines,
        }
    )  # fmt: skip
    rows["coverage"] = [
        {**who, "protocol": auditor.name, "action": action, "taken": replayed.taken[action]}
        for action in sorted(replayed.taken)
    ]
    if replayed.verdict == "differs":
        rows.setdefault("violations", []).append(_differs(who, replayed, lines))


def _differs(who: Mapping[str, str], replayed: Replayed, lines: Sequence[Any]) -> Row:
    """The violation that a replay found, with the lines before it as its story."""
    before = lines[max(0, replayed.lines - 11) : replayed.lines + 1]
    names = [line.node.replace("|", "¦") for line in before]
    return {
        **who, "property": CONFORMS, "sentence": "The code does what its spec allows.",
        "time_ns": replayed.time_ns, "place": replayed.place, "told": replayed.told,
        "story": [
            f"{line.time_ns}|{name}||{line.action}"
            for line, name in zip(before, names, strict=True)
        ],
    }  # fmt: skip
