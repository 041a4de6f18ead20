"""
A group's history: what it says is the same however often it is drained, and it keeps what is live.

Events are those of simulated runs, or made up where a rule is tested by itself.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdproof.pipeline.audit.protocols import auditor as auditor_of
from herdproof.pipeline.judging import events as e
from herdproof.pipeline.judging.findings import SENTENCES
from herdproof.pipeline.judging.history import History
from herdproof.pipeline.spark.tables import TABLES, Rows
from herdproof.protocols.central_coordinator.simulated.chance import Config
from herdproof.protocols.central_coordinator.traces.auditor import OBSERVABLE
from herdproof.protocols.central_coordinator.tracing import CENTRAL
from properties.pipeline.pipeline_traces import trace

S = 1_000_000_000
P = ("orders", "0")
Q = ("orders", "1")


def history(observable: Mapping[str, str] = OBSERVABLE) -> History:
    """A history of nothing yet."""
    return History("r", "g", CENTRAL, observable)


def told(*events: e.Event, observable: Mapping[str, str] = OBSERVABLE) -> Rows:
    """All rows of these events."""
    one = history(observable)
    for event in events:
        one.feed(event)
    return one.close()


def verdict(rows: Rows, sentence: str) -> tuple[str, str | None]:
    """What a sentence came to, and why."""
    (row,) = [row for row in rows["verdicts"] if row["property"] == sentence]
    return row["verdict"], row["why"]


def violations(rows: Rows) -> list[str]:
    """The sentences that are violated, in their order."""
    return [row["property"] for row in rows.get("violations", [])]


def figure(rows: Rows, name: str) -> list[float]:
    """The values of a figure."""
    return [row["value"] for row in rows["figures"] if row["name"] == name]


# ── Draining ────────────────────────────────────────────────────────────────────────────────


@cache
def events_of(seed: int) -> Sequence[e.Event]:
    """What a simulated run tells of its group."""
    auditor = auditor_of(CENTRAL)
    return auditor.events(auditor.order(trace(seed)))


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
    events = events_of(seed)
    whole, parts = history(), history()
    rows: Rows = {}
    for number, event in enumerate(events):
        whole.feed(event)
        parts.feed(event)
        if number in cuts:
            rows = added(rows, parts.drain())
            if how.random() < 0.5:
                parts = pickle.loads(pickle.dumps(parts))

    assert everything(added(rows, parts.close())) == everything(whole.close())


def test_a_history_keeps_what_is_live_and_not_the_past() -> None:
    """Ten times as long a run does not make it ten times as large."""
    sizes = []
    for minutes in (1, 10):
        config = Config(
            duration_ms=minutes * 60_000 + 25_000, faults=14 * minutes, consumers=3,
            kinds=frozenset(Config().kinds),
        )  # fmt: skip
        auditor = auditor_of(CENTRAL)
        lines = auditor.order(trace(1, config=config))
        one, teller = history(), auditor.teller("r", "g1")
        for line in lines:
            for event in teller.tell(line):
                one.feed(event)
        one.drain()
        sizes.append((len(lines), len(pickle.dumps((one, teller)))))

    (few, small), (many, large) = sizes
    assert many > 5 * few
    assert large < 1.8 * small, sizes  # more topics have appeared, with more partitions


# ── Intervals ───────────────────────────────────────────────────────────────────────────────


def began(at: int, consumer: str, offset: int, until: int, partition: e.Partition = P) -> e.Began:
    """A consumer begins a partition, until some second."""
    return e.Began(
        time_ns=at * S, place=f"at {at}", node=consumer, consumer=consumer, partition=partition,
        offset=offset, until_ns=until * S, epoch=1, generation=1,
    )  # fmt: skip


def ended(at: int, consumer: str, offset: int | None = None, how: str = "stopped") -> e.Ended:
    """It ends it."""
    return e.Ended(
        time_ns=at * S, place=f"at {at}", node=consumer, consumer=consumer, partition=P, how=how,
        offset=offset,
    )  # fmt: skip


def renewed(at: int, consumer: str, until: int) -> e.Renewed:
    """Its lease is longer."""
    return e.Renewed(
        time_ns=at * S, place=f"at {at}", node=consumer, consumer=consumer, until_ns=until * S
    )


def reported(at: int, consumer: str, offset: int, asks: bool = False) -> e.Reported:
    """It has finished up to there."""
    return e.Reported(
        time_ns=at * S, place=f"at {at}", node=consumer, consumer=consumer, partition=P,
        offset=offset, asks=asks,
    )  # fmt: skip


def intervals(rows: Rows) -> list[tuple[Any, ...]]:
    """Who had the partition, from when to when (s), from and to which offset, how it ended."""
    return [
        (
            row["consumer"], row["from_ns"] // S, row["to_ns"] and row["to_ns"] // S,
            row["from_offset"], row["to_offset"], row["ended"], row["known"],
        )
        for row in rows["ownership"]
    ]  # fmt: skip


def test_intervals_and_what_is_measured_of_them() -> None:
    """One hands over to another after two seconds, and it begins three records earlier."""
    rows = told(
        began(10, "a", 5, 20), renewed(12, "a", 22), reported(13, "a", 9), ended(14, "a", 9),
        began(16, "b", 6, 30), renewed(40, "z", 99),
    )  # fmt: skip

    assert intervals(rows) == [
        ("a", 10, 14, 5, 9, "stopped", True),
        ("b", 16, 30, 6, None, "lease_over", True),
    ]
    assert figure(rows, "partition_downtime_s") == [2.0]
    assert figure(rows, "redelivered") == [3.0]
    assert figure(rows, "redelivered_total") == [3.0]
    assert violations(rows) == []
    assert verdict(rows, "EXCLUSIVE") == ("holds", None)


def test_a_lease_that_is_over_ends_an_interval() -> None:
    """When the next one begins; or when its own process wakes up, which comes too late."""
    rows = told(
        began(10, "a", 5, 20), began(21, "b", 5, 40), ended(25, "a", 5),
        ended(50, "b", 7, "lost_connection"),
    )  # fmt: skip

    assert intervals(rows) == [
        ("a", 10, 20, 5, None, "lease_over", True),
        ("b", 21, 40, 5, 7, "lease_over", True),
    ]
    assert figure(rows, "partition_downtime_s") == [1.0]


def test_two_at_once() -> None:
    """The lease of the first one holds; the story tells both beginnings."""
    rows = told(began(10, "a", 5, 20), began(15, "b", 5, 25))

    (row,) = rows["violations"]
    assert (row["property"], row["time_ns"], row["place"]) == ("EXCLUSIVE", 15 * S, "at 15")
    assert row["told"] == "orders-0 is consumed by a and by b"
    assert [step.split("|")[1] for step in row["story"]] == ["a", "b"]
    assert verdict(rows, "EXCLUSIVE") == ("violated", "once")


def test_a_zombie_that_wakes_up_and_goes_on() -> None:
    """Its lease was over, another one has begun, and it says that it may deliver again."""
    quiet = told(began(10, "a", 5, 20), began(21, "b", 5, 30), renewed(31, "a", 40))
    loud = told(began(10, "a", 5, 20), began(21, "b", 5, 30), renewed(29, "a", 40))

    assert violations(quiet) == []
    assert violations(loud) == ["EXCLUSIVE"]


def test_a_member_that_is_counted_as_gone_too_early_is_a_zombie() -> None:
    """It could deliver for four seconds more."""
    member: dict[str, Any] = {"member": "1-1", "consumer": "a"}
    story = [
        e.Joined(time_ns=9 * S, place="", node="b1", connection=None, **member),
        began(10, "a", 5, 20), began(10, "a", 5, 20, Q),
        e.Left(time_ns=16 * S, place="", node="b1", how="failed", **member),
    ]  # fmt: skip

    for later in ([renewed(30, "z", 99)], [began(30, "b", 5, 40), began(30, "b", 5, 40, Q)]):
        rows = told(*story, *later)
        assert figure(rows, "zombies") == [1]
        assert figure(rows, "zombie_s") == [4.0]
        (row,) = rows["memberships"]
        assert (row["joined_ns"], row["left_ns"], row["how"]) == (9 * S, 16 * S, "failed")
    assert figure(told(*story), "zombies") == [0], "nobody knows what becomes of it"


# ── Doubt ───────────────────────────────────────────────────────────────────────────────────


def test_what_is_open_when_something_is_missing_is_not_known() -> None:
    """The interval is marked, nobody is accused, nothing is said to hold; what follows is known."""
    one = history()
    for event in [began(10, "a", 5, 99), reported(11, "a", 7)]:
        one.feed(event)
    one.unsure("a line came late")
    for later in [began(15, "b", 9, 25), ended(16, "b", 9), began(17, "b", 9, 25)]:
        one.feed(later)
    rows = one.close()

    assert violations(rows) == []
    assert [(row[0], row[-1]) for row in intervals(rows)] == [
        ("b", True), ("a", False), ("b", True),
    ]  # fmt: skip
    assert verdict(rows, "EXCLUSIVE") == ("unknown", "a line came late")
    assert verdict(rows, "ONE_COORDINATOR") == ("unknown", "a line came late")
    assert verdict(rows, "SETTLES")[0] == "not observable"


def test_a_violation_remains_one_in_spite_of_doubt() -> None:
    """What was seen was seen."""
    one = history()
    for event in (began(10, "a", 5, 20), began(15, "b", 5, 25)):
        one.feed(event)
    one.unsure("a line came late")

    assert verdict(one.close(), "EXCLUSIVE") == ("violated", "once")


def test_nothing_is_violated_while_lines_are_missing() -> None:
    """Of what those tell whose lines are missing; afterwards everything counts again."""
    missing = e.Missing(time_ns=12 * S, place="", why="of a, line 7", role="consumer", lasting=True)
    resumed = e.Resumed(time_ns=30 * S, place="", why="of a, line 7", role="consumer")

    rows = told(
        missing, began(13, "a", 5, 25), began(15, "b", 5, 25),
        e.Elected(time_ns=16 * S, place="", node="1", epoch=1),
        e.Elected(time_ns=17 * S, place="", node="2", epoch=1),
        resumed, began(31, "c", 5, 60), began(32, "d", 5, 60),
    )  # fmt: skip

    assert violations(rows) == ["ONE_COORDINATOR", "EXCLUSIVE"]
    assert verdict(rows, "FENCED_COMMAND") == ("unknown", "of a, line 7")
    assert verdict(rows, "FENCED_WRITE") == (
        "not observable", "nothing happened that it speaks of",
    )  # fmt: skip


def test_what_a_source_cannot_decide_is_never_said_to_hold() -> None:
    """Nor that it is violated."""
    nothing = dict.fromkeys(SENTENCES, "this log does not tell")

    rows = told(began(10, "a", 5, 20), began(15, "b", 5, 25), observable=nothing)

    assert violations(rows) == []
    assert {(r["verdict"], r["why"]) for r in rows["verdicts"]} == {
        ("not observable", "this log does not tell")
    }


# ── Generations ─────────────────────────────────────────────────────────────────────────────


def test_generations_and_their_latency() -> None:
    """One that settles after three seconds, one that fails, one that is superseded."""
    at: dict[str, Any] = {"place": "", "node": "1", "epoch": 1}
    rows = told(
        e.Rebalance(time_ns=10 * S, **at),
        e.Assigned(time_ns=12 * S, generation=1, owners=((P, "1-1"), (Q, "1-1")), members=1, **at),
        e.Settled(time_ns=13 * S, generation=1, **at),
        e.Rebalance(time_ns=20 * S, **at),
        e.RebalanceFailed(time_ns=21 * S, **at),
        e.Rebalance(time_ns=22 * S, **at),
        e.Assigned(time_ns=23 * S, generation=2, owners=((P, "1-1"),), members=1, **at),
        e.Rebalance(time_ns=24 * S, **at),
    )  # fmt: skip

    told_of = [
        (row["generation"], row["begun_ns"], row["written_ns"], row["settled_ns"], row["outcome"])
        for row in rows["generations"]
    ]
    assert told_of == [
        (1, 10 * S, 12 * S, 13 * S, "settled"),
        (None, 20 * S, None, None, "failed"),
        (2, 22 * S, 23 * S, None, "superseded"),
        (None, 24 * S, None, None, "open"),
    ]
    assert rows["generations"][0]["partitions"] == 2
    assert figure(rows, "rebalance_latency_s") == [3.0]
    assert (figure(rows, "rebalances"), figure(rows, "rebalances_failed")) == ([4], [1])


@pytest.mark.parametrize(
    ("owners", "trouble"),
    [
        (((P, "x"), (Q, "y")), ""),
        (((P, "x"),), "orders-1 is nobody's"),
        (((P, "x"), (Q, "x")), "x has 2 of the 2 partitions of orders for 1 of 2 threads"),
        (((P, "x"), (Q, "z")), "orders-1 is z's, who does not want it"),
        (((P, "x"), (Q, "y"), (("b", "0"), "y")), "y has b-0, which nobody wants"),
    ],
)
def test_what_is_not_complete(owners: tuple[tuple[e.Partition, str], ...], trouble: str) -> None:
    """Every partition of a subscribed topic, shared out evenly; judged when the group settles."""
    at: dict[str, Any] = {"place": "", "node": "1", "epoch": 1, "generation": 1}
    shares = (("orders", ("0", "1"), (("x", 1), ("y", 1))),)
    rows = told(
        e.Assigned(time_ns=12 * S, owners=owners, members=2, subscribed=shares, **at),
        e.Settled(time_ns=13 * S, **at),
    )

    assert [row["told"] for row in rows.get("violations", [])] == ([trouble] if trouble else [])


def test_what_changes_before_a_group_settles_is_for_the_next_generation() -> None:
    """A member that joins meanwhile has nothing, and that is right."""
    at: dict[str, Any] = {"place": "", "node": "1", "epoch": 1, "generation": 1}
    shares = (("orders", ("0", "1"), (("x", 1), ("y", 1))),)
    rows = told(
        e.Assigned(time_ns=12 * S, owners=((P, "x"),), members=2, subscribed=shares, **at),
        e.Joined(time_ns=12 * S, place="", node="1", member="z", consumer="c"),
        e.Settled(time_ns=13 * S, **at),
    )

    assert violations(rows) == []


# ── Rows ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(3))
def test_all_rows_fit_their_tables(seed: int) -> None:
    """Whatever a run tells."""
    rows = told(*events_of(seed))

    for name, found in rows.items():
        assert TABLES[name].filled(found).num_rows == len(found)
    assert len(rows["verdicts"]) == len(SENTENCES)
    churn = figure(rows, "members_joined")[0] + figure(rows, "members_left")[0]
    assert figure(rows, "churn")[0] == pytest.approx(churn * 60 / 60, rel=0.1)
    latencies = [
        (row["settled_ns"] - row["begun_ns"]) / S
        for row in rows["generations"]
        if row["outcome"] == "settled"
    ]
    assert figure(rows, "rebalance_latency_s") == latencies
