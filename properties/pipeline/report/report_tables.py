"""Small tables as an audit writes them, for the tests of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from herdproof.pipeline.report.reading import ALL_TABLES

S = 10**9
HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"
"""What a name in a trace may be, where somebody wants a report to run it."""
SENTENCE = "At no time do two members of a group consume the same partition."

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def write(directory: Path, rows: Rows) -> Path:
    """Write these rows as the tables of a directory, each in two files; the empty ones as well."""
    for name, of in rows.items():
        place = directory / name
        place.mkdir(parents=True)
        half = len(of) // 2
        for number, part in enumerate((of[:half], of[half:])):
            pq.write_table(ALL_TABLES[name].filled(part), place / f"part-{number}.parquet")
        (place / "_SUCCESS").touch()
    return directory


def owned(
    run: str, group: str, partition: int, consumer: str, begin: float, end: float | None,
    known: bool = True, generation: int = 1,
) -> dict[str, Any]:  # fmt: skip
    """A row of ownership, its times in seconds."""
    return {
        "run": run, "group": group, "topic": "orders", "partition": str(partition),
        "consumer": consumer, "from_ns": int(begin * S),
        "to_ns": None if end is None else int(end * S),
        "ended": "open" if end is None else "stopped", "known": known, "epoch": 1,
        "generation": generation,
    }  # fmt: skip


def generation(run: str, group: str, number: int, begun: float, settled: float) -> dict[str, Any]:
    """A row of generations."""
    return {
        "run": run, "group": group, "epoch": 1, "generation": number, "coordinator": "broker1",
        "begun_ns": int(begun * S), "written_ns": int((begun + settled) / 2 * S),
        "settled_ns": int(settled * S), "members": 2, "partitions": 3, "outcome": "settled",
    }  # fmt: skip


def verdict(run: str, group: str, name: str, said: str, why: str = "") -> dict[str, Any]:
    """A row of verdicts."""
    return {
        "run": run, "group": group, "protocol": "central_coordinator", "property": name,
        "verdict": said, "why": why or None, "checked": 120,
    }  # fmt: skip


def unread(
    run: str, group: str, partition: int, begin: float, end: float, why: str, who: str = "",
    since: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A row of unread, its times in seconds; `since`: of an interval that began before."""
    first = begin if since is None else since
    return {
        "run": run, "group": group, "topic": "orders", "partition": str(partition),
        "from_ns": int(begin * S), "until_ns": int(end * S), "seconds": end - begin, "why": why,
        "who": who or None, "certain": why != "election", "since_ns": int(first * S),
        "whole_s": end - first,
    }  # fmt: skip


STORY = [
    f"{12 * S}|broker1|c1|Stop, generation 1",
    f"{12 * S + 40_000_000}|broker1||it does not wait for the answer",
    f"{12 * S + 90_000_000}|broker1|c2|Start orders-0 at 17, generation 2",
    f"{12 * S + 120_000_000}|c2||delivers orders-0 from 17 on",
    f"{12 * S + 130_000_000}|c1||still delivers orders-0",
]


def violation(run: str, group: str, at: float = 12.13) -> dict[str, Any]:
    """A row of violations: two consumers at once."""
    return {
        "run": run, "group": group, "property": "exclusive", "sentence": SENTENCE,
        "time_ns": int(at * S), "place": "c2.jsonl, line 7",
        "told": "c1 and c2 both consume orders-0", "story": STORY,
    }  # fmt: skip


TAKEN = {"send_stop": 12, "write_owners": 4, "fall_behind": 0, "elect": None}


def audit() -> dict[str, list[dict[str, Any]]]:
    """Two groups of one run: `billing`, where two consume at once, and `mail`, which is sound."""
    run = "monday"
    sound = [
        owned(run, "mail", p, f"m{p % 2 + 1}", 3 + p / 10, None) for p in range(4)
    ]  # fmt: skip
    broken = [
        owned(run, "billing", 0, "c1", 2, 12.6),
        owned(run, "billing", 0, "c2", 12.12, 60, generation=2),
        owned(run, "billing", 1, "c1", 2, 30),
        owned(run, "billing", 1, "c3", 31, None, generation=3),
        owned(run, "billing", 2, "c2", 2.5, 20, known=False),
    ]
    names = ("exclusive", "fenced_commit", "monotone", "settles")
    latencies = [0.02 * 1.5**k for k in range(14)]
    return {
        "generations": [
            generation(run, "billing", 1, 1, 2), generation(run, "billing", 2, 11.9, 12.2),
            generation(run, "billing", 3, 29, 31), generation(run, "mail", 1, 2, 3),
        ],
        "memberships": [
            {"run": run, "group": "billing", "member": f"1-{k}", "consumer": f"c{k}",
             "joined_ns": k * S, "left_ns": None, "how": "open"} for k in (1, 2, 3)
        ],
        "ownership": sound + broken,
        "commits": [
            {"run": run, "group": "billing", "topic": "orders", "partition": "0", "offset": k,
             "consumer": "c1", "epoch": 1, "generation": 1, "time_ns": (3 + k) * S,
             "outcome": "refused" if k == 7 else "accepted"} for k in range(9)
        ],
        "unread": [
            unread(run, "billing", 1, 30, 30.4, "election", "broker1"),
            unread(run, "billing", 1, 30.4, 37, "lease", "c1", since=30),
            unread(run, "billing", 2, 31, 31.2, "stop", "c2"),
            unread(run, "billing", 0, 50, 50.1, "stop", "c2"),
            unread(run, "mail", 0, 20, 60, "nobody"),
        ],
        "violations": [violation(run, "billing")],
        "verdicts": [
            *(verdict(run, "mail", name, "holds") for name in names),
            verdict(run, "billing", "exclusive", "violated"),
            verdict(run, "billing", "fenced_commit", "holds"),
            verdict(run, "billing", "monotone", "unknown", "late lines: 3"),
            verdict(run, "billing", "settles", "not observable", "a trace shows no end"),
        ],
        "coverage": [
            {"run": run, "group": group, "protocol": "central_coordinator", "action": action,
             "taken": n}
            for group in ("billing", "mail")
            for action, n in TAKEN.items()
        ],
        "figures": [
            *({"run": run, "group": "billing", "name": "rebalance_latency_s", "time_ns": k * S,
               "about": f"generation {k}", "value": v, "unit": "s"}
              for k, v in enumerate(latencies)),
            {"run": run, "group": "mail", "name": "partition_downtime_s", "time_ns": 5 * S,
             "about": "orders-1", "value": 0.0, "unit": "s"},
            {"run": run, "group": "billing", "name": "churn", "time_ns": None, "about": None,
             "value": 5.0, "unit": "count"},
        ],
        "quarantine": [
            {"run": run, "group": "billing", "reason": "malformed", "why": f"no JSON at {k}",
             "place": f"c1.jsonl, line {k}", "time_ns": None, "raw": b'{"schema":1,\xff'}
            for k in range(5)
        ],
    }  # fmt: skip


def hostile() -> dict[str, list[dict[str, Any]]]:
    """The same, every text of it replaced by one that a browser must not run."""
    kept = {"verdict", "unit", "outcome", "ended", "reason"}

    def changed(column: str, value: Any) -> Any:
        if isinstance(value, str) and column not in kept:
            return f"{value} {HOSTILE}"
        if isinstance(value, list):
            return [f"{line} {HOSTILE}" for line in value]
        return HOSTILE.encode() if isinstance(value, bytes) else value

    return {
        name: [{c: changed(c, v) for c, v in row.items()} for row in rows]
        for name, rows in audit().items()
    }


def many(groups: int) -> dict[str, list[dict[str, Any]]]:
    """So many groups, of which the last but one is broken."""
    rows = audit()
    names = [f"group-{k:04}" for k in range(groups)]
    broken = names[-2]
    return {
        **rows,
        "generations": [generation("monday", g, 1, 1, 2) for g in names],
        "ownership": [owned("monday", g, p, f"c{p}", 2, 50) for g in names for p in range(3)],
        "verdicts": [
            verdict("monday", g, n, "violated" if (g, n) == (broken, "exclusive") else "holds")
            for g in names for n in ("exclusive", "fenced_commit", "monotone")
        ],
        "violations": [violation("monday", broken)],
        "commits": [], "memberships": [], "quarantine": [],
    }  # fmt: skip
