"""What a stream keeps: lines in any parts give what a judge says who has them all."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from herdproof.link.central_runs import traced
from herdproof.pipeline import audit_work
from herdproof.pipeline.audit_work import judge_bucket, protocol_work, read_records
from herdproof.pipeline.following import Bucket, Came
from herdproof.pipeline.judge import judge
from herdproof.pipeline.numbers import Numbers
from herdproof.pipeline.protocols import read_line
from herdproof.pipeline.stream_work import follow_part, replay_groups, unpack
from herdproof.pipeline.tables import TABLES, Row, Rows

LATE_NS = 3_000_000_000
MANY = "central_coordinator"


@cache
def lines_of(seed: int) -> tuple[Any, ...]:
    """The lines of a run, in the order of time."""
    read = [read_line(p.line.written(), p.where) for p in traced(seed).lines]
    return tuple(sorted(read, key=lambda line: line.time_ns))


def groups_of(lines: Sequence[Any]) -> list[str]:
    """The groups that lines are about."""
    return sorted({line.group for line in lines} - {""})


def canonical(rows: Rows) -> dict[str, list[str]]:
    """Rows that can be compared; tables without rows are left out."""
    return {
        table: sorted(json.dumps(row, sort_keys=True, default=repr) for row in some)
        for table, some in rows.items()
        if some
    }


def in_parts(lines: Sequence[Any], cuts: Random, late_ns: int = LATE_NS) -> dict[str, Rows]:
    """Lines, as they come, in parts; by group, the rows that stand at the end."""
    bucket = Bucket(MANY, lines[0].run)
    done: dict[str, Rows] = {}
    opened: dict[str, Rows] = {}
    rest = list(lines)
    while rest:
        size = cuts.randint(1, 200)
        part, rest = rest[:size], rest[size:]
        own: dict[str, list[Came]] = {}
        common, numbers = [], Numbers()
        for line in part:
            came = Came(line, line.written().encode())
            if line.shared:
                numbers.note(line.role, line.node, line.sequence, line.time_ns)
            if line.group:
                own.setdefault(line.group, []).append(came)
            else:
                common.append(came)
        bucket = pickle.loads(pickle.dumps(bucket))
        for found in bucket.take(own, common, [numbers.packed], late_ns):
            for table, some in found.rows.items():
                done.setdefault(found.group, {}).setdefault(table, []).extend(some)
            if found.opened is not None:
                opened[found.group] = found.opened
    return {
        group: {
            table: [*done[group].get(table, ()), *last.get(table, ())]
            for table in {*done[group], *last}
        }
        for group, last in opened.items()
    }


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 14])
def test_lines_that_are_not_late_give_what_the_judge_says(seed: int) -> None:
    """However they were delayed (by less than the bound) and cut into parts."""
    lines, chance = lines_of(seed), Random(seed)
    delayed = sorted(lines, key=lambda line: line.time_ns + chance.random() * LATE_NS * 0.99)

    found = in_parts(delayed, chance)

    for group in groups_of(lines):
        own = [line for line in lines if line.group in ("", group)]
        wanted = judge(MANY, own[0].run, group, own, replay=False)
        assert canonical(found[group]) == canonical(wanted)


def test_a_line_that_comes_twice_is_told_as_such_and_changes_nothing_else() -> None:
    """A duplicate is no late line, though its time is over."""
    lines = list(lines_of(1))
    again = lines[100]
    (group,) = groups_of(lines)

    found = in_parts([*lines, again], Random(1))[group]

    assert [row["reason"] for row in found.pop("quarantine")] == ["duplicate"]
    wanted = judge(MANY, again.run, group, lines, replay=False)
    assert canonical(found) == canonical(wanted)


def test_a_late_line_leaves_unknown_what_it_could_have_changed() -> None:
    """It goes to quarantine; no sentence is said to hold any more."""
    lines = list(lines_of(1))
    late = lines.pop(next(n for n, x in enumerate(lines) if x.action == "handle_start"))
    (group,) = groups_of(lines)

    found = in_parts([*lines, late], Random(1))[group]

    (row,) = found["quarantine"]
    assert (row["reason"], row["place"], row["time_ns"]) == ("late", late.place, late.time_ns)
    assert row["raw"] == late.written().encode()
    assert "holds" not in {row["verdict"] for row in found["verdicts"]}


@pytest.mark.parametrize("parts", [True, False])
def test_a_missing_line_of_a_coordinator_is_noticed_though_it_has_two_groups(parts: bool) -> None:
    """Its numbers run through both groups' lines: neither group alone shows what is missing."""
    lines = list(lines_of(3))
    missing = next(n for n, x in enumerate(lines) if x.action == "finish_rebalance")
    gone = lines.pop(missing)
    groups = groups_of(lines)
    assert len(groups) == 2
    why = f"of {gone.node}, lines {gone.sequence} to {gone.sequence}"

    if parts:
        found = in_parts(lines, Random(3))
    else:
        numbers = Numbers()
        for line in lines:
            if line.shared:
                numbers.note(line.role, line.node, line.sequence, line.time_ns)
        gaps = numbers.gaps()
        assert [text for _, text, _ in gaps] == [why]
        found = {
            group: judge(
                MANY, gone.run, group, [x for x in lines if x.group in ("", group)],
                replay=False, missing=gaps,
            )
            for group in groups
        }  # fmt: skip

    for group in groups:
        assert why in {row["why"] for row in found[group]["verdicts"]}
        assert "holds" not in {row["verdict"] for row in found[group]["verdicts"]}


@pytest.mark.parametrize("seed", range(20))
def test_numbers_are_without_a_gap_however_they_are_noted(seed: int) -> None:
    """By several readers, in any order, with a restart, some lines twice."""
    chance = Random(seed)
    tick = 10_000_000
    lines = [(n, n * tick) for n in range(1, 40)] + [(n, (100 + n) * tick) for n in range(1, 30)]
    noted = [Numbers() for _ in range(3)]
    for number, time_ns in lines + lines[:5]:
        chance.choice(noted).note("coordinator", "b", number, time_ns)

    whole = Numbers()
    for one in chance.sample(noted, 3):
        whole.add(one.packed)
    for before in (20, 110, 140):
        assert whole.gaps() == []
        whole.compact(before * tick)
    assert whole.gaps() == []
    lacking = Numbers()
    for number, time_ns in lines[:10] + lines[12:]:
        lacking.note("coordinator", "b", number, time_ns)
    assert lacking.gaps() == [(13 * tick, "of b, lines 11 to 12", 10 * tick)]


def test_a_part_of_a_stream_can_be_made_again() -> None:
    """The same state and the same rows give the same rows: what was cut short is repeated."""
    lines, work = lines_of(1), protocol_work()
    (group,) = groups_of(lines)
    rows = [
        (0, MANY, "1", x.group, x.time_ns, "f", n, x.written().encode(), None, None)
        for n, x in enumerate(lines, start=1)
    ]

    def part(state: bytes | None, some: Sequence[Any]) -> tuple[Any, bytes | None]:
        return follow_part((MANY, "1", 0), some, state, work, LATE_NS, keep=True)

    first, state = part(None, rows[:300])
    assert part(None, rows[:300])[0] == first
    second, _ = part(state, rows[300:])
    assert part(state, rows[300:])[0] == second

    stands = [row for row in first if not row[3]] + second
    found = tables_of([row for row in stands if row[4] != "lines"])
    replayed = replayed_of([row for row in stands if row[4] == "lines"])
    wanted = judge(MANY, "1", group, [work.read(r[7].decode(), f"f:{r[6]}") for r in rows])
    assert sum(row["lines"] for row in found.pop("counted")) == len(lines)
    for table, some in replayed.items():
        found.setdefault(table, []).extend(some)
    as_told = {table: TABLES[table].filled(some).to_pylist() for table, some in wanted.items()}
    assert canonical(found) == canonical(as_told)


@pytest.mark.parametrize("seed", [1, 3])
def test_a_group_that_is_too_long_to_be_held_is_judged_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line by line, as they come sorted from the shuffle, whatever the parts are."""
    monkeypatch.setattr(audit_work, "LONG_PART", 37)
    monkeypatch.setattr(audit_work, "CLOCK_BACK_NS", 1_000_000_000)
    records = [("file:/f", 0, n, x.written().encode()) for n, x in enumerate(lines_of(seed))]
    columns = zip(("source", "block", "position", "raw"), zip(*records, strict=True), strict=True)
    batch = pa.RecordBatch.from_pydict({name: list(values) for name, values in columns})
    work = protocol_work()
    read = pa.Table.from_batches(read_records([batch], work, 1, {}))
    ordered = read.sort_by([(name, "ascending") for name in audit_work.ORDER]).to_batches()

    whole = _by_table(judge_bucket(ordered, work, replay=False))
    parts = _by_table(judge_bucket(ordered, replace(work, long=100), replay=True))

    told = [row["verdict"] for row in parts["verdicts"] if row["property"] == "conforms"]
    assert told == ["unknown"] * len(groups_of(lines_of(seed)))
    parts["verdicts"] = [row for row in parts["verdicts"] if row["property"] != "conforms"]
    for found in (whole, parts):
        found["counted"] = [{**row, "seconds": 0} for row in found["counted"]]
    assert sum(row["lines"] for row in whole["counted"]) == len(records)
    assert canonical(parts) == canonical(whole)


def arrow(rows: Sequence[Any]) -> Any:
    """Packed rows as Spark hands them over."""
    names = ("protocol", "run", "group", "open", "table", "lines", "payload")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return pa.RecordBatch.from_pydict(columns)


def tables_of(rows: Sequence[Any]) -> dict[str, list[Row]]:
    """Packed rows, unpacked."""
    return _by_table(unpack([arrow(rows)], later=False))


def replayed_of(rows: Sequence[Any]) -> dict[str, list[Row]]:
    """Packed lines, replayed."""
    return _by_table(replay_groups([arrow(rows)], protocol_work()))


def _by_table(batches: Any) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            found.setdefault(row["table"], []).append(row[row["table"]])
    return found
