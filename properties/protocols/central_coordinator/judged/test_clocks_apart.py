"""
Traces of nodes whose clocks are apart, or stand still: what only times would show is not violated.

Runs are simulated, so that all nodes have one clock; a test sets each node's to another time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from herdproof.conformance.traces.clocks import leads
from herdproof.pipeline.audit.protocols import auditor
from herdproof.pipeline.judging.apart import APART, of_all, of_any
from herdproof.pipeline.spark.tables import Rows
from herdproof.protocols.central_coordinator.traces.lines import Messages
from herdproof.protocols.central_coordinator.tracing import CENTRAL
from properties.pipeline.judging.pipeline_plants import PLANTS
from properties.pipeline.judging.test_pipeline_following import in_parts
from properties.pipeline.pipeline_traces import Trace, judged, of_group, run_of, trace, violated

SECOND = 1_000_000_000
NODES = 9
"""More than the nodes of any of these runs."""
BEGIN_NS = 1000 * SECOND
"""No clock is before its run began."""


def apart(lines: Trace, ahead_s: Mapping[str, float]) -> Trace:
    """The trace of nodes whose clocks are ahead by so much."""
    return [
        replace(
            line, time_ns=line.time_ns + ahead, until_ns=line.until_ns and line.until_ns + ahead
        )
        for line in lines
        for ahead in [BEGIN_NS + int(ahead_s[line.node] * SECOND)]
    ]  # fmt: skip


def in_steps(lines: Trace, step_s: int = 3) -> Trace:
    """The trace of nodes whose clocks are apart by so much, from node to node."""
    nodes = sorted({line.node for line in lines})
    return apart(lines, {node: step_s * (k - 3) for k, node in enumerate(nodes)})


def at_one_time(lines: Trace) -> Trace:
    """The trace of clocks that stand still."""
    return [
        replace(line, time_ns=BEGIN_NS, until_ns=line.until_ns and line.until_ns + ahead)
        for line in lines
        for ahead in [BEGIN_NS - line.time_ns]
    ]


def decided(rows: Mapping[str, Sequence[Mapping[str, object]]]) -> set[object]:
    """The sentences that are said to hold, or to be violated."""
    return {row["property"] for row in rows["verdicts"] if row["verdict"] in ("holds", "violated")}


def groups_of(lines: Trace) -> list[str]:
    """The groups that lines are about."""
    return sorted({line.group for line in lines} - {""})


@given(
    seed=st.integers(0, 11),
    ahead_s=st.lists(st.integers(-10, 10), min_size=NODES, max_size=NODES),
)
@settings(max_examples=25, deadline=None)
def test_clocks_that_are_apart_violate_nothing_and_lose_no_line(
    seed: int, ahead_s: list[int]
) -> None:
    """Each node's clock is off by up to ten seconds: as if all had one."""
    lines = run_of(seed)
    nodes = sorted({line.node for line in lines})
    moved = apart(lines, dict(zip(nodes, ahead_s, strict=False)))

    for group in groups_of(moved):
        own = of_group(moved, group)
        rows = judged(own, group)

        assert violated(rows) == set(), rows["violations"][:1]
        assert rows["quarantine"] == []
        assert len(auditor(CENTRAL).order(own)) == len(own)


@pytest.mark.parametrize("seed", range(6))
def test_clocks_that_stand_still_violate_nothing_and_lose_no_line(seed: int) -> None:
    """
    A node's processes are known by their first lines, as its file has them.

    First lines that say the same at the same time are one line.
    """
    still = at_one_time(run_of(seed))
    for group in groups_of(still):
        own = of_group(still, group)
        rows = judged(own, group)

        assert decided(rows) == set()
        assert rows["violations"] == []
        raw = Counter(line.written().encode() for line in own)
        for row in rows["quarantine"]:
            raw[row["raw"]] -= 1
        assert min(raw.values()) >= 1, "what is put aside is there all the same"
        assert {b'"action":"(start)"' in row["raw"] for row in rows["quarantine"]} <= {True}


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_of_clocks_that_are_apart_violates_nothing(seed: int) -> None:
    """Who follows lines waits for the slowest clock; he knows no other order than that of times."""
    moved = sorted(in_steps(run_of(seed)), key=lambda line: line.time_ns)

    found = in_parts(moved, Random(seed), late_ns=60 * SECOND)

    for rows in found.values():
        assert rows.get("violations", []) == []
        assert decided(rows) == set()


EXPLAINED = ("it_has_not_stopped", "a_ping_that_nobody_tells_of")
"""Plants that are none, if two lines of different nodes, a moment apart, come in turn."""


@pytest.mark.parametrize("promise", [p for p in PLANTS if PLANTS[p][0].__name__ not in EXPLAINED])
def test_what_is_violated_in_every_order_is_violated(promise: str) -> None:
    """Clocks that are apart excuse nothing that they do not explain."""
    planted = next(
        found for seed in range(16) if (found := PLANTS[promise][0](trace(seed))) is not None
    )

    assert promise in violated(judged(in_steps(planted)))


@pytest.mark.parametrize("plant", EXPLAINED)
def test_what_the_first_order_explains_does_not_hold(plant: str) -> None:
    """In one order nothing is wrong, in another one it is: nobody knows."""
    [(promise, made)] = [
        (p, m) for p, all_of in PLANTS.items() for m in all_of if m.__name__ == plant
    ]
    planted = [lines for seed in range(16) if (lines := made(trace(seed))) is not None][:2]

    for lines in planted:
        rows = judged(in_steps(lines))["verdicts"]
        assert {row["verdict"] for row in rows if row["property"] == promise} <= {
            "unknown", "violated"
        }  # fmt: skip


def test_what_another_order_explains_is_unknown() -> None:
    """Where clocks stand still, nobody knows what came first; and it is said why."""
    planted = next(
        found
        for seed in range(16)
        if (found := PLANTS["only_the_present_epoch_writes"][0](trace(seed))) is not None
    )
    assert "only_the_present_epoch_writes" in violated(judged(planted))

    rows = judged(at_one_time(planted))

    assert violated(rows) == set()
    assert ("unknown", APART) in {(row["verdict"], row["why"]) for row in rows["verdicts"]}


def test_settings_are_those_in_which_whatever_is_heard_was_said_before() -> None:
    """And the clocks of the simulation are among what they allow: apart as they were set."""
    lines = in_steps(trace(1))
    found = auditor(CENTRAL).ordered(lines)
    allowed = auditor(CENTRAL).settings(found)
    assert allowed

    bounds = leads(found.lines, Messages(), lambda _: True)
    for clocks in allowed:
        assert all(clocks[b] - clocks[a] <= most + 1 for (a, b), most in bounds.items())
    nodes = sorted({line.node for line in lines})
    one, other = (("consumer", node) for node in nodes[-2:])
    differences = [clocks[other] - clocks[one] for clocks in allowed]
    assert min(differences) <= 3 * SECOND <= max(differences)


def said(**verdicts: str) -> Rows:
    """Rows that say so of sentences, with a violation of each that is violated."""
    rows = [
        {"property": name, "verdict": verdict, "why": None} for name, verdict in verdicts.items()
    ]
    return {
        "verdicts": [dict(row) for row in rows],
        "violations": [dict(row) for row in rows if row["verdict"] == "violated"],
    }


def told(rows: Rows) -> tuple[dict[str, str], list[str]]:
    """The verdicts by sentence, and what is told to be violated."""
    verdicts = {row["property"]: row["verdict"] for row in rows["verdicts"]}
    return verdicts, [row["property"] for row in rows["violations"]]


def test_what_not_every_order_says_is_unknown() -> None:
    """Whichever of them comes first, and whatever the others say instead."""
    orders = [said(a="holds", b="violated", c="holds"), said(a="holds", b="violated", c="violated")]

    for either in (orders, orders[::-1]):
        assert told(of_all(iter([{**rows} for rows in either]))) == (
            {"a": "holds", "b": "violated", "c": "unknown"}, ["b"],
        )  # fmt: skip


def test_the_spec_explains_lines_if_it_does_so_in_the_first_order() -> None:
    """Others are asked for where it does not; what none explains differs."""
    never: Iterator[Rows] = (pytest.fail("nobody asks for it") for _ in "x")
    explained, differs = said(conforms="holds"), said(conforms="violated")

    assert told(of_any(chain([explained], never)))[0] == {"conforms": "holds"}
    assert told(of_any(iter([differs, said(conforms="violated")])))[1] == ["conforms"]
    assert told(of_any(iter([differs, explained]))) == ({"conforms": "unknown"}, [])
