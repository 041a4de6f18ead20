"""What a stream keeps: lines in any parts give what a judge says who has them all."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from random import Random
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from msgspec.structs import replace as altered

from herdproof.pipeline.audit import audit_work
from herdproof.pipeline.audit.audit_work import judge_bucket
from herdproof.pipeline.audit.following import Bucket, Came, FollowedGroup
from herdproof.pipeline.audit.judge import judge
from herdproof.pipeline.audit.numbers import Numbers
from herdproof.pipeline.audit.protocols import auditor, read_line
from herdproof.pipeline.audit.stream_work import follow_part, replay_groups, unpack
from herdproof.pipeline.audit.work import protocol_work
from herdproof.pipeline.judging.gaps import MissingNumbers
from herdproof.pipeline.judging.unread import UNKNOWN
from herdproof.pipeline.spark.packets import ORDER, pack_records, packets_of
from herdproof.pipeline.spark.tables import TABLES, Row, Rows
from herdproof.protocols.central_coordinator.simulated.traced import traced
from properties.pipeline.pipeline_traces import numbers_of

LATE_NS = 3_000_000_000
MANY = "central_coordinator"


@cache
def lines_of(seed: int) -> tuple[Any, ...]:
    """The lines of a run, in the order of time."""
    read = [read_line(line.written(), line.place) for line in traced(seed).lines]
    return tuple(sorted(read, key=lambda line: line.time_ns))


def groups_of(lines: Sequence[Any]) -> list[str]:
    """The groups that lines are about."""
    return sorted({line.group for line in lines} - {""})


def canonical(rows: Rows) -> dict[str, list[str]]:
    """
    Rows that can be compared; tables without rows are left out.

    How many instances of a promise were decided depends on when a partition is first heard of,
    which a stream knows later: `checked` is left out.
    """
    return {
        table: sorted(
            json.dumps({**row, "checked": 0}, sort_keys=True, default=repr) for row in some
        )
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
        common, numbers = [], numbers_of(part)
        for line in part:
            came = Came(line, line.written().encode())
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


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5, 14, 2333])
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


def test_a_late_line_is_one_that_is_missing() -> None:
    """It goes to quarantine; what it could have told is not known from then on."""
    lines = list(lines_of(1))
    late = lines.pop(next(n for n, x in enumerate(lines) if x.action == "handle_start"))
    (group,) = groups_of(lines)

    found = in_parts([*lines, late], Random(1))[group]

    (row,) = found["quarantine"]
    assert (row["reason"], row["place"], row["time_ns"]) == ("late", late.place, late.time_ns)
    assert row["raw"] == late.written().encode()
    verdicts = {row["property"]: (row["verdict"], row["why"]) for row in found["verdicts"]}
    assert verdicts["exclusive"][0] == "unknown"
    assert late.place in verdicts["exclusive"][1]
    assert verdicts["one_coordinator"][0] == "holds"


def with_gaps(seed: int, chance: Random) -> list[Any]:
    """A run of which some lines are lost, none of them far from those before and after it."""
    lines = list(lines_of(seed))
    of: dict[tuple[str, str], list[Any]] = {}
    for line in lines:
        of.setdefault((line.role, line.node), []).append(line)
    lost = []
    for own in chance.sample([own for own in of.values() if len(own) > 9], 3):
        first = chance.randrange(1, len(own) - 3)
        before, *some, after = own[first - 1 : first + chance.randint(1, 2) + 1]
        if after.time_ns - before.time_ns < LATE_NS // 2 and after.sequence > before.sequence:
            lost += some
    return [line for line in lines if line not in lost]


def redelivered(rows: Rows) -> list[str]:
    """The figures of what was delivered again, taken out of the rows; their sum is left out."""
    figures = rows["figures"]
    again = [row for row in figures if row["name"] in ("redelivered", "redelivered_total")]
    rows["figures"] = [row for row in figures if row not in again]
    return canonical({"figures": [row for row in again if row["name"] == "redelivered"]}).get(
        "figures", []
    )


def unread(rows: Rows) -> list[Any]:
    """The times without a reader whose cause is known, taken out of the rows."""
    return [row for row in rows.pop("unread", []) if row["why"] != UNKNOWN and row["until_ns"]]


def disagree(found: list[Any], wanted: list[Any]) -> list[tuple[Any, Any]]:
    """Two rows that say different causes of one partition at one time."""
    where = ("topic", "partition")
    return [
        (one, other)
        for one, other in product(found, wanted)
        if all(one[name] == other[name] for name in where)
        and max(one["from_ns"], other["from_ns"]) < min(one["until_ns"], other["until_ns"])
        and one["why"] != other["why"]
    ]


def left_open(found: Rows, wanted: Rows) -> dict[str, str]:
    """
    Verdicts that a stream leaves open, and says why, where a judge says another thing.

    They are taken out of the rows of both.
    """
    said = {row["property"]: (row["verdict"], row["why"]) for row in wanted["verdicts"]}
    opened = {
        row["property"]: row["why"]
        for row in found["verdicts"]
        if row["verdict"] == "unknown"
        and row["why"]
        and said[row["property"]] != ("unknown", row["why"])
    }
    for rows in (found, wanted):
        rows["verdicts"] = [row for row in rows["verdicts"] if row["property"] not in opened]
    return opened


def agree(seed: int) -> list[str]:
    """A run with gaps, followed and judged: all is the same, but for what the stream left open."""
    chance = Random(seed)
    lines = with_gaps((1, 2, 3, 4, 14)[seed % 5], chance)

    found = in_parts(come(lines, chance, LATE_NS // 2), chance)

    opened: list[str] = []
    gaps = numbers_of(lines).gaps()
    for group in groups_of(lines):
        own = [line for line in lines if line.group in ("", group)]
        wanted = judge(MANY, own[0].run, group, own, replay=False, missing=gaps, fills=False)
        again, wanted_again = redelivered(found[group]), redelivered(wanted)
        assert set(again) <= set(wanted_again)
        assert disagree(unread(found[group]), unread(wanted)) == []
        assert wanted["violations"] == []
        opened += left_open(found[group], wanted)
        assert canonical(found[group]) == canonical(wanted), seed
    return opened


@pytest.mark.parametrize(
    "seed", [*range(12), 22, 24, 39, 42, 48, 51, 100, 199, 215, 1039, 1110, 3099]
)
def test_what_is_missing_is_doubted_from_where_it_can_have_been(seed: int) -> None:
    """
    As the judge does who fills nothing in: a line after a gap has come when the line before it is
    told.

    Nothing is violated by these runs, however long after what is missing it would have shown. Who
    is silent for longer than lines wait may have ended, for all that a stream knows: what was
    delivered again it may find less of. Why nobody reads it may know for other times than the
    judge; where both know it, they agree. Nothing else differs.
    """
    assert agree(seed) == []


@pytest.mark.parametrize("seed", [1032, 1101])
def test_of_who_is_silent_for_long_while_lines_are_missing_less_is_known(seed: int) -> None:
    """He may have ended, for all that a stream knows, which says so; a judge sees him go on."""
    assert 1 <= len(agree(seed)) <= 2


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_of_hundreds_of_draws_few_leave_anything_open() -> None:
    """And in all others a stream says what the judge does."""
    opened = [seed for seed in range(3_000, 3_300) if agree(seed)]

    assert len(opened) < 15, opened


def without_a_stop() -> list[Any]:
    """A run without the line in which a consumer stops: the next one gets what it had."""
    stop = next(x for x in lines_of(1) if (x.node, x.sequence) == ("c3", 7))
    assert stop.action == "handle_stop"
    return [line for line in lines_of(1) if line is not stop]


def test_a_line_that_is_missing_makes_no_false_violation() -> None:
    """
    That who lost a partition had stopped is in no line, and known to be.

    The next line says all that it consumes then; what it is interested in, none says again.
    """
    lines = without_a_stop()
    (group,) = groups_of(lines)

    found = in_parts(lines, Random(1))[group]

    verdicts = {row["property"]: (row["verdict"], row["why"]) for row in found["verdicts"]}
    assert verdicts["exclusive"] == ("holds", "1 line is missing; before and after that it holds")
    assert verdicts["complete"][0] == "unknown"
    assert "of c3, lines 7 to 7" in verdicts["complete"][1]
    assert verdicts["one_coordinator"] == ("holds", None)
    assert "violations" not in found


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 14])
def test_nor_does_one_whose_successor_comes_later_than_lines_wait(seed: int) -> None:
    """Who is not heard for so long may have said anything: line by line, and nothing waits."""
    for lines in (lines_of(seed), without_a_stop()):
        one_by_one = Mock(randint=Mock(return_value=1))
        early = [line for line in lines if line.time_ns < 5_000_000_000]

        for found in in_parts(early, one_by_one, late_ns=0).values():
            assert not found.get("violations")


@pytest.mark.parametrize("seed", range(4))
def test_a_clock_that_is_set_back_disturbs_no_order(seed: int) -> None:
    """A process's lines are told by their numbers, wherever a part of the stream ends."""
    last = Random(seed).randrange(20, 40)
    came = [
        Came(altered(line, time_ns=line.time_ns - LATE_NS // 3 * (line.sequence > last)), b"")
        for line in lines_of(1)
        if line.node == "c2"
    ]
    following = FollowedGroup(MANY, "1", "g1")
    told = []

    for one in came:
        assert following.take([one]) == []
        told += following.tell(one.line.time_ns - LATE_NS // 2)[1]
    told += following.ended()[1]

    assert [one.line for one in told] == auditor(MANY).order([one.line for one in came])


def come(lines: Sequence[Any], chance: Random, most_ns: int) -> list[Any]:
    """Lines as they come, delayed by so much at most; a coordinator's own in their order."""
    came_ns: dict[str, int] = {}
    at: list[int] = []
    for line in lines:
        came = line.time_ns + chance.randrange(most_ns)
        if line.shared:
            came = came_ns[line.node] = max(came, came_ns.get(line.node, 0))
        at.append(came)
    return [lines[n] for n in sorted(range(len(lines)), key=at.__getitem__)]


def without_a_finish(*, chained: bool) -> tuple[list[Any], Any]:
    """A run of two groups without one line of their coordinator, and that line."""
    lines = [x if chained else altered(x, after=None) for x in lines_of(3)]
    gone = lines.pop(next(n for n, x in enumerate(lines) if x.action == "finish_rebalance"))
    assert len(groups_of(lines)) == 2
    return lines, gone


def in_parts_or_whole(lines: Sequence[Any], *, parts: bool) -> dict[str, Rows]:
    """By group, the rows of a run, followed as it comes or judged whole."""
    if parts:
        return in_parts(lines, Random(3))
    gaps = numbers_of(lines).gaps()
    return {
        group: judge(
            MANY, lines[0].run, group, [x for x in lines if x.group in ("", group)],
            replay=False, missing=gaps,
        )
        for group in groups_of(lines)
    }  # fmt: skip


@pytest.mark.parametrize("parts", [True, False])
def test_a_missing_line_of_a_coordinator_is_noticed_though_it_has_two_groups(parts: bool) -> None:
    """Its numbers run through both groups' lines: without `after` it may be of either."""
    lines, gone = without_a_finish(chained=False)
    why = f"of {gone.node}, lines {gone.sequence} to {gone.sequence}"

    found = in_parts_or_whole(lines, parts=parts)

    for group in groups_of(lines):
        assert any(why in (row["why"] or "") for row in found[group]["verdicts"])
        told = {row["property"]: (row["verdict"], row["why"]) for row in found[group]["verdicts"]}
        assert told["complete"] == ("holds", "1 line is missing; before and after that it holds")
        assert told["exclusive"] == ("holds", None)


@pytest.mark.parametrize("parts", [True, False])
def test_of_the_other_group_nothing_is_open_if_lines_say_which_they_come_after(parts: bool) -> None:
    """The next line of the group that lost one comes after it; that of the other one does not."""
    lines, gone = without_a_finish(chained=True)
    why = f"of {gone.node}, lines {gone.sequence} to {gone.sequence}"

    found = in_parts_or_whole(lines, parts=parts)

    whole = in_parts_or_whole(lines_of(3), parts=parts)
    for group in groups_of(lines):
        is_told = any(why in (row["why"] or "") for row in found[group]["verdicts"])
        assert is_told == (group == gone.group)
        assert (canonical(found[group]) == canonical(whole[group])) == (group != gone.group)


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
    why = "of b, lines 11 to 12"
    assert lacking.gaps() == [MissingNumbers(13 * tick, why, 10 * tick, "coordinator", "b", 11, 12)]


def test_a_process_whose_first_line_is_missing_counts_from_one_all_the_same() -> None:
    """What is missing of it later is not taken for numbers of the process before it."""
    tick = 10_000_000
    lines = [(n, n * tick) for n in range(1, 40)] + [(n, (100 + n) * tick) for n in range(1, 30)]
    lacking = Numbers()
    for number, time_ns in lines:
        if time_ns not in (101 * tick, 110 * tick):
            lacking.note("coordinator", "b", number, time_ns)

    whose = ("coordinator", "b")
    assert lacking.gaps() == [
        MissingNumbers(102 * tick, "of b, lines 1 to 1", 39 * tick, *whose, 1, 1),
        MissingNumbers(111 * tick, "of b, lines 10 to 10", 109 * tick, *whose, 10, 10),
    ]


def test_a_part_of_a_stream_can_be_made_again() -> None:
    """The same state and the same rows give the same rows: what was cut short is repeated."""
    lines, work = lines_of(1), protocol_work()
    (group,) = groups_of(lines)
    here, there = records_of(lines[:300]), records_of(lines[300:], 300)

    def part(state: bytes | None, some: Any) -> tuple[Any, bytes | None]:
        packets = packets_of(pack_records([some], work, 1, {}))
        return follow_part((MANY, "1", 0), packets, state, work, LATE_NS, keep=True)

    first, state = part(None, here)
    assert part(None, here)[0] == first
    second, _ = part(state, there)
    assert part(state, there)[0] == second

    stands = [row for row in first if not row[3]] + second
    found = tables_of([row for row in stands if row[4] != "lines"])
    replayed = replayed_of([row for row in stands if row[4] == "lines"])
    told = [work.read(x.written(), f"/f:{n}") for n, x in enumerate(lines, start=1)]
    wanted = judge(MANY, "1", group, told)
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
    lines, work = list(lines_of(seed)), protocol_work()
    Random(seed).shuffle(lines)
    some = [records_of(lines[at : at + 500], at) for at in range(0, len(lines), 500)]
    read = pa.Table.from_batches(pack_records(some, work, 1, {}))
    ordered = read.sort_by([(name, "ascending") for name in ORDER]).to_batches()

    whole = _by_table(judge_bucket(ordered, work, replay=False))
    parts = _by_table(judge_bucket(ordered, replace(work, long=100), replay=True))

    told = [row["verdict"] for row in parts["verdicts"] if row["property"] == "conforms"]
    assert told == ["unknown"] * len(groups_of(lines_of(seed)))
    parts["verdicts"] = [row for row in parts["verdicts"] if row["property"] != "conforms"]
    for found in (whole, parts):
        found["counted"] = [{**row, "seconds": 0} for row in found["counted"]]
    assert sum(row["lines"] for row in whole["counted"]) == len(lines)
    assert canonical(parts) == canonical(whole)


def records_of(lines: Sequence[Any], before: int = 0) -> Any:
    """Lines as records of a file in which so many stand before them."""
    return pa.RecordBatch.from_pydict(
        {
            "source": ["file:/f"] * len(lines),
            "block": [0] * len(lines),
            "position": [before + n for n in range(1, len(lines) + 1)],
            "raw": [line.written().encode() for line in lines],
        }
    )


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
            found.setdefault(row["table"], []).extend(
                pa.ipc.open_stream(row["payload"]).read_all().to_pylist()
            )
    return found
