"""
A group's judging: its rows are the same however often they are drained, and it keeps what is live.

Lines are those of simulated runs.
"""

from __future__ import annotations

import pickle
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdproof.pipeline.audit.protocols import auditor
from herdproof.pipeline.judging.gaps import last_lines
from herdproof.pipeline.judging.judging import Judging
from herdproof.pipeline.spark.tables import TABLES, Rows
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.traces.connections import REMEMBERED
from herdproof.protocols.central_coordinator.tracing import CENTRAL
from properties.pipeline.pipeline_traces import Trace, judged, trace

S = 1_000_000_000


@cache
def lines_of(seed: int) -> Trace:
    """A simulated run's group, in order."""
    return auditor(CENTRAL).order(trace(seed))


def judging_of(lines: Trace) -> Judging:
    """Who judges it, before the first line."""
    judging = auditor(CENTRAL).judging("r", "g")
    judging.foresee(lines, len(lines))
    return judging


def added(rows: Rows, more: Rows) -> Rows:
    """Rows of two parts."""
    return {table: [*rows.get(table, []), *more.get(table, [])] for table in {*rows, *more}}


def everything(rows: Rows) -> dict[str, list[Any]]:
    """The rows, without tables that have none."""
    return {table: list(found) for table, found in rows.items() if found}


@given(seed=st.integers(0, 5), cuts=st.lists(st.integers(0, 900), max_size=6), how=st.randoms())
@settings(max_examples=40, deadline=None)
def test_what_is_drained_on_the_way_is_what_comes_at_the_end(
    seed: int, cuts: list[int], how: Random
) -> None:
    """Drained anywhere, and pickled there: the rows are the same, in the same order."""
    lines = lines_of(seed)
    last = last_lines(lines)
    whole, parts = judging_of(lines), judging_of(lines)
    rows: Rows = {}
    for number, line in enumerate(lines):
        for judging in (whole, parts):
            judging.take(line)
            if number in last:
                judging.leave(line)
        if number in cuts:
            rows = added(rows, parts.drain())
            if how.random() < 0.5:
                parts = pickle.loads(pickle.dumps(parts))

    assert everything(added(rows, parts.close())) == everything(whole.close())


def test_it_keeps_what_is_live_and_not_the_past() -> None:
    """
    Ten times as long a run does not make it ten times as large.

    The numbers of connections are known again when they are drawn twice, however long after: so
    many of them are kept, and no more.
    """
    sizes = []
    for minutes in (1, 10):
        config = Config(
            duration_ms=minutes * 60_000 + 25_000, faults=14 * minutes, consumers=3,
            kinds=frozenset(Config().kinds),
        )  # fmt: skip
        lines = auditor(CENTRAL).order(trace(1, config=config))
        judging = judging_of(lines)
        for line in lines:
            judging.take(line)
        judging.drain()
        numbers = judging._judge._connections._known  # type: ignore[attr-defined]
        assert 0 < len(numbers) < REMEMBERED
        numbers.clear()
        sizes.append((len(lines), len(pickle.dumps(judging))))

    (few, small), (many, large) = sizes
    assert many > 5 * few
    assert large < 1.8 * small, sizes  # more topics have appeared, with more partitions


def test_rows_are_filled_and_their_times_are_the_lines() -> None:
    """Intervals, generations and memberships begin and end at lines, or when a lease ends."""
    rows = judged(trace(3))
    times = {line.time_ns for line in trace(3)}

    for row in rows["ownership"]:
        assert row["from_ns"] in times
        assert row["to_ns"] in times or row["ended"] in ("lease_over", "open")
        assert row["from_offset"] is None or row["from_offset"] <= row["to_offset"]
    assert {row["written_ns"] for row in rows["generations"]} <= {*times, None}
    assert {row["joined_ns"] for row in rows["memberships"]} <= times
    for name, table in TABLES.items():
        assert table.filled(rows[name]).num_rows == len(rows[name])


@pytest.mark.parametrize("seed", range(6))
def test_figures_are_what_the_rows_say(seed: int) -> None:
    """Totals are sums of what occurred; what began is what is told of it."""
    rows = judged(trace(seed))
    total = {row["name"]: row["value"] for row in rows["figures"] if row["time_ns"] is None}

    def each(name: str) -> list[float]:
        return [r["value"] for r in rows["figures"] if r["name"] == name and r["time_ns"]]

    assert (total["redelivered_total"] or 0) == sum(each("redelivered"))
    assert total["partition_downtime_total_s"] == pytest.approx(sum(each("partition_downtime_s")))
    assert total["zombies"] == len(each("zombie_s"))
    assert total["commit_regressions"] == len(each("commit_regression"))
    begun = [row for row in rows["generations"] if row["begun_ns"] is not None]
    assert total["rebalances"] == len(begun)
    assert total["members_joined"] == len(rows["memberships"])
    refused = [row for row in rows["commits"] if row["outcome"] == "refused"]
    assert total["commits_refused"] == len(refused)
