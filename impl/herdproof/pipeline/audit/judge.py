"""
The audit of one group of one run: its lines in, in any order; rows of all tables out.

    rows = judge("central_coordinator", "monday", "orders-readers", lines)
    TABLES["ownership"].filled(rows["ownership"])

`lines` are the group's own and those of its run that concern all groups (`group` is empty).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from herdproof.conformance.traces.clocks import Setting
from herdproof.conformance.traces.ordering import Ordered
from herdproof.conformance.traces.repeated import with_repeated
from herdproof.pipeline.audit.auditor import Auditor, Replayed
from herdproof.pipeline.audit.protocols import auditors
from herdproof.pipeline.judging.apart import doubted, of_all, of_any
from herdproof.pipeline.judging.gaps import (
    Doubted,
    Filled,
    Gap,
    MissingNumbers,
    contested_in,
    doubted_in,
    gaps_of,
    last_lines,
)
from herdproof.pipeline.judging.judging import go_through
from herdproof.pipeline.spark.tables import TABLES, Row, Rows

CONFORMS = "conforms"
"""The name of the verdict on a replay."""

Lined: TypeAlias = tuple[Sequence[Any], Sequence[Gap]]
"""Lines in an order, and where some are missing."""

RAW = 64 * 1024
"""At most so many bytes of a record go to quarantine."""


def judge(
    protocol: str, run: str, group: str, lines: Sequence[Any], *, replay: bool = True,
    alone: bool = False, missing: Sequence[MissingNumbers] = (), fills: bool = True,
) -> Rows:  # fmt: skip
    """
    Judge one group of one run; the same rows for any order of its lines.

    `alone` says that the run has no other group: then a gap in a coordinator's numbers is one, and
    not another group's lines. `missing` says which lines are missing that others know of. Missing
    lines of which others tell are put into their places if it `fills`: who follows lines as they
    come cannot.
    """
    auditor = auditors()[protocol]
    found = auditor.ordered(with_repeated(lines))
    own: Lined = found.lines, gaps_of(found, alone=alone, missing=missing)
    allowed = auditor.settings(found)
    contested = contested_in(found)

    def orders() -> Iterator[Lined]:
        """Their own order, or those that their nodes' clocks allow."""
        if not allowed:
            yield own
        for clocks in allowed or ():
            lined, lost = by_clocks(auditor, found, missing, clocks)
            yield lined.lines, gaps_of(lined, alone=alone, missing=lost)

    def judged(lines: Sequence[Any], gaps: Sequence[Gap]) -> Rows:
        filled = (auditor.filled if fills else Filled)(lines, gaps, last_lines(lines))
        if (doubted := doubted_in(filled.own, contested)) is not None:
            filled = replace(filled, doubted=doubted)
        return go_through(auditor.judging(run, group), filled).close()

    rows = of_all(judged(*told) for told in orders())
    if replay:
        replays = (replayed(auditor, run, group, *told, contested) for told in orders())
        for table, more in of_any(replays).items():
            rows.setdefault(table, []).extend(more)
    if allowed is not None and not allowed:
        rows = doubted(rows)
    rows["quarantine"] = [duplicate(run, group, line) for line in found.twice]
    return {table: rows.get(table, []) for table in TABLES}


def by_clocks(
    auditor: Auditor, found: Ordered[Any], missing: Sequence[MissingNumbers], clocks: Setting
) -> tuple[Ordered[Any], list[MissingNumbers]]:
    """The lines in their order, and what is missing, if this is how the nodes' clocks stand."""
    ahead = {node: ns for node, ns in clocks.items() if ns}
    lines = [
        auditor.shifted(line, ahead[line.role, line.node])
        if (line.role, line.node) in ahead else line
        for line in found.lines
    ]  # fmt: skip
    return auditor.ordered(lines), [
        gap._replace(since_ns=gap.since_ns - ns, until_ns=gap.until_ns - ns)
        for gap in missing
        for ns in [ahead.get((gap.role, gap.node), 0)]
    ]


def replayed(
    auditor: Auditor, run: str, group: str, lines: Sequence[Any], gaps: Sequence[Gap],
    contested: Mapping[str, str],
) -> Rows:  # fmt: skip
    """Rows of a replay of these lines alone in the spec."""
    rows: Rows = {}
    missing = [gap.why for gap in gaps]
    doubt = doubted_in(lines, contested)
    add_replay(rows, auditor, run, group, lines, missing, doubted=doubt)
    return rows


def duplicate(run: str, group: str, line: Any) -> Row:
    """The quarantine's row of a line that is there twice."""
    return {
        "run": run, "group": group, "reason": "duplicate",
        "why": f"{line.role or 'node'} {line.node} has told line {line.sequence} already",
        "place": line.place, "time_ns": line.time_ns, "raw": line.written().encode()[:RAW],
    }  # fmt: skip


def add_replay(
    rows: Rows, auditor: Auditor, run: str, group: str, lines: Sequence[Any],
    missing: Sequence[str] = (), *, complete: bool = False, doubted: Doubted | None = None,
) -> None:  # fmt: skip
    """
    The verdict of the spec, and how often its actions were taken.

    Where lines are missing (and why), nobody knows whether what differs does so for that alone; nor
    where a node was not heard any more, unless the traces are known to be `complete`. Of lines that
    contradict each other those before are replayed, and may differ; more is unknown.
    """
    if doubted is None:
        replayed = auditor.replay(lines)
    elif doubted.at:
        replayed = auditor.replay(lines[: doubted.at])
    else:
        replayed = Replayed("unknown", doubted.why)
    if replayed.verdict == "differs" and not missing and not complete:
        cut = auditor.cut(lines, replayed.lines)
        missing = [cut] if cut else []
    if doubted is not None and replayed.verdict != "differs":
        replayed = replace(replayed, verdict="unknown", told=doubted.why)
    elif missing:
        replayed = replace(replayed, verdict="unknown", told=f"lines are missing: {missing[0]}")
    who = {"run": run, "group": group}
    verdict: Mapping[str, str] = {
        "conforms": "holds", "differs": "violated", "not observable": "not observable",
    }  # fmt: skip
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
