"""Intervals without a reader: planted outages have their causes; what is missing is unknown."""

from __future__ import annotations

import pickle
from collections import Counter
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from herdproof.pipeline.judging.unread import (
    CAUSES,
    MOMENTS,
    NOT_OBSERVABLE,
    UNKNOWN,
    UnreadPartitions,
)
from herdproof.protocols.central_coordinator.simulated.random_runs import Config, Fault, Kind
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT
from properties.pipeline.pipeline_traces import deleted, judged, numbers_of, of_group
from properties.pipeline.report.unread_truth import Truth, lived

S = 1_000_000_000
P = ("orders", "0")
ONE_TOPIC = Config(topics=(("orders", 4),), zookeeper_timeouts_ms=(4_000,))
SHORT_S = 0.05
"""What is shorter is not held against the truth: a record at hand is finished meanwhile."""


def planted(*faults: Fault) -> list[Any]:
    """The intervals of a run in which nothing else goes wrong, after its beginning."""
    rows = judged(of_group(lived(5, ONE_TOPIC, faults).lines))["unread"]
    return [row for row in rows if row["from_ns"] > 5 * S and row["whole_s"] > 1]


def by_cause(rows: list[Any]) -> Counter[str]:
    """The longest that one partition was not read for each cause."""
    each: Counter[tuple[str, str]] = Counter()
    for row in rows:
        each[row["partition"], row["why"]] += row["seconds"]
    found: Counter[str] = Counter()
    for (_, why), seconds in each.items():
        found[why] = max(found[why], seconds)
    return found


def fault(kind: Kind, *, broker: int = 1, consumer: int = 1, for_ms: int = 15_000) -> Fault:
    """Something that goes wrong ten seconds after the beginning."""
    return Fault(10_000, kind, broker, consumer, for_ms)


# ── Planted outages ─────────────────────────────────────────────────────────────────────────


def test_an_election_is_named() -> None:
    """
    The leader dies: until the next one is elected, nobody was heard to lead.

    Who would resume reads on while its lease holds, and is missed for a shorter time.
    """
    rows = planted(fault(Kind.KILL_BROKER))

    elections = [row for row in rows if row["why"] == "election"]
    assert {row["partition"] for row in elections} == {"0", "1", "2", "3"}
    shortest, *_, longest = sorted(row["seconds"] for row in elections)
    assert 1.5 < shortest < 2.5
    assert 3.5 < longest < 4.5
    assert {row["who"] for row in elections} == {"broker1"}
    assert not any(row["certain"] for row in elections), "its trace could have been cut"


def test_a_lease_is_named_with_its_member() -> None:
    """A consumer dies: its partitions wait for its lease, those of others are read meanwhile."""
    rows = planted(fault(Kind.KILL_CONSUMER))

    leases = [row for row in rows if row["why"] == "lease"]
    assert {row["who"] for row in leases} == {"c1"}
    assert len({row["partition"] for row in leases}) == 2
    assert 2.5 < by_cause(rows)["lease"] < 4.5
    assert 0 < by_cause(rows)["silent"] < 1.1, "a ping's interval at most"


def test_a_leader_that_dies_with_a_consumer_costs_both() -> None:
    """First nobody leads, then the next one waits for the lease that its own election began."""
    found = by_cause(planted(fault(Kind.KILL_BROKER), fault(Kind.KILL_CONSUMER)))

    assert [why for why, _ in found.most_common(2)] == ["election", "lease"]
    assert min(found["election"], found["lease"]) > 3


def test_a_stop_that_is_not_answered_is_named() -> None:
    """Another one leaves while a consumer is paused: the others have stopped for its answer."""
    pause = fault(Kind.PAUSE_CONSUMER, consumer=2, for_ms=2_500)
    leave = Fault(10_100, Kind.LEAVE, 1, 1, 15_000)

    stops = [row for row in planted(pause, leave) if row["why"] == "stop"]

    assert stops
    assert {row["who"] for row in stops} == {"c2"}
    assert max(row["seconds"] for row in stops) > 1.5


def test_a_group_that_everybody_has_left_has_nobody() -> None:
    """That is no fault of the coordinator's."""
    found = by_cause(planted(*(fault(Kind.LEAVE, consumer=c) for c in (1, 2, 3))))

    assert found["nobody"] > 14
    assert found["lease"] == 0


# ── Against the cores ───────────────────────────────────────────────────────────────────────


@cache
def truth_of(seed: int) -> Truth:
    """A run with faults."""
    return lived(seed, DEFAULT)


def wrong(rows: list[Any], truth: Truth) -> list[str]:
    """Rows that say what was not so."""
    found = []
    for row in rows:
        if row["why"] == UNKNOWN or not row["certain"] or row["seconds"] < SHORT_S:
            continue
        then = truth.at(row["from_ns"] + int(row["seconds"] * S / 2))
        is_read = (row["topic"], row["partition"]) in then.read
        if is_read or row["why"] not in then.causes:
            found.append(f"{row} but {sorted(then.causes)}{' and it is read' * is_read}")
    return found


@pytest.mark.parametrize("seed", range(6))
def test_causes_are_what_the_leaders_core_waits_for(seed: int) -> None:
    """With all lines, and with little that is not known."""
    truth = truth_of(seed)

    rows = judged(of_group(truth.lines))["unread"]

    assert wrong(rows, truth) == []
    known = sum(row["seconds"] for row in rows if row["why"] != UNKNOWN)
    assert known > 0.7 * sum(row["seconds"] for row in rows)
    assert {row["why"] for row in rows} <= CAUSES.keys()


@given(
    seed=st.integers(0, 11),
    kind=st.sampled_from(["line", "lines", "one in a hundred", "some"]),
    chance=st.integers(0, 10**6),
)
@settings(max_examples=40, deadline=None)
@example(seed=8, kind="one in a hundred", chance=164)  # owners written while a line is missing
@example(seed=11, kind="lines", chance=17330)  # of a Start that was obeyed others tell, not when
def test_without_some_lines_a_cause_is_unknown_and_never_wrong(
    seed: int, kind: str, chance: int
) -> None:
    """What is missing makes rows unknown or uncertain; those that are certain are so."""
    truth = truth_of(seed)
    left = deleted(truth.lines, kind, Random(chance))

    rows = judged(of_group(left), missing=numbers_of(left).gaps())["unread"]

    assert wrong(rows, truth) == []


def test_lines_of_the_coordinator_that_are_missing_are_unknown() -> None:
    """It waits for a lease, and forty of its lines are not there: so why it waits is not known."""
    truth = lived(5, ONE_TOPIC, [fault(Kind.KILL_CONSUMER)])
    own = [x for x in truth.lines if x.role == "coordinator" and x.time_ns > 10 * S]
    gone = {id(line) for line in own[:12]}
    left = [line for line in truth.lines if id(line) not in gone]

    rows = judged(of_group(left), missing=numbers_of(left).gaps())["unread"]

    long = [row for row in rows if row["from_ns"] > 9 * S and row["seconds"] > 1]
    assert long
    assert {row["why"] for row in long} <= {UNKNOWN, "silent"}


# ── Stretches ───────────────────────────────────────────────────────────────────────────────


def test_whole_intervals_are_cut_where_their_causes_change() -> None:
    """Every row of one interval has its beginning and its length; the last may have no end."""
    rows = judged(of_group(truth_of(1).lines))["unread"]

    whole: dict[Any, list[Any]] = {}
    for row in rows:
        whole.setdefault((row["topic"], row["partition"], row["since_ns"]), []).append(row)
    assert len(whole) < len(rows)
    for parts in whole.values():
        assert parts[0]["from_ns"] == parts[0]["since_ns"]
        assert sum(part["seconds"] for part in parts) == pytest.approx(parts[0]["whole_s"])
        assert [p["until_ns"] for p in parts[:-1]] == [p["from_ns"] for p in parts[1:]]


def test_where_nobody_tells_causes_they_are_not_observable() -> None:
    """And never a guess."""
    unread = UnreadPartitions()
    unread.begin(P, 10, 10, "reader")

    assert [(part.why, part.who) for part in unread.end(P, 30)] == [(NOT_OBSERVABLE, None)]


def test_a_doubt_lasts_until_it_is_over() -> None:
    """Whoever may read it makes that time unknown, and no other."""
    unread = UnreadPartitions()
    unread.stands(0, "lease", ("c1",))
    unread.begin(P, 10, 10, "reader")
    unread.doubt(P, 20)
    unread.is_sure(P, 25)

    found = unread.end(P, 30)

    assert [(part.from_ns, part.until_ns, part.why) for part in found] == [
        (10, 20, "lease"), (20, 25, UNKNOWN), (25, 30, "lease"),
    ]  # fmt: skip


def test_only_the_last_changes_are_remembered() -> None:
    """A partition that nobody reads for ever makes nothing grow; what is forgotten is unknown."""
    unread = UnreadPartitions()
    unread.begin(P, 0, 0, "unassigned")
    sizes = []
    for turn in range(1, 3 * MOMENTS):
        unread.stands(turn * S, ("stop", "start")[turn % 2])
        sizes.append(len(pickle.dumps(unread)))

    found = unread.end(P, 3 * MOMENTS * S)

    assert sizes[-1] < 1.1 * sizes[2 * MOMENTS]
    assert (found[0].why, found[-1].why) == (UNKNOWN, "start")
    assert len(found) == MOMENTS + 1


def test_that_nothing_was_delivered_again_is_not_seen() -> None:
    """A sum of nothing is null: what came after the last offset that was told, nobody tells."""
    rows = judged(of_group(lived(5, ONE_TOPIC, ()).lines))["figures"]

    assert {r["value"] for r in rows if r["name"] == "redelivered_total"} == {None}
