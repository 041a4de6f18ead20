"""
Lines that are missing, and that others tell of: what is put in their places is what was there.

The oracle is the run itself, from which the lines were deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from herdproof.conformance.traces.line import START
from herdproof.pipeline.judging.gaps import Filled, last_lines
from herdproof.protocols.central_coordinator.judged.judge import judge, lines_of
from herdproof.protocols.central_coordinator.judged.partners import PARTS, with_untold
from herdproof.protocols.central_coordinator.traces.lines import CentralStep as Line
from herdproof.protocols.central_coordinator.tracing import CONSUMER
from herdspec.check.observation.observed import Ruling
from properties.pipeline.pipeline_traces import Trace, run_of
from properties.protocols.central_coordinator.judged.test_central_judging import groups


def filled(lines: Trace, group: str = "g1") -> Filled:
    """A group's lines, where those are put that others tell of."""
    own, gaps = lines_of(lines, group)
    return with_untold(own, gaps, last_lines(own))


def said(line: Line) -> tuple[Any, ...]:
    """What a line says to its table; of a request's generation nobody tells, or needs it."""
    who = (line.role, line.node, line.action, line.consumer, line.connection, line.member)
    is_request = line.action in ("send_ping", "send_stop")
    generation = 0 if is_request else line.generation
    partitions = () if is_request else line.partitions
    epoch = line.epoch if line.role == CONSUMER else 0
    return (*who, generation, partitions, epoch, line.outcome)


def put(found: Filled) -> list[Line]:
    """The lines that were not there."""
    return [line for line in found.own if line.place.startswith("missing")]


@pytest.mark.parametrize("share", [0.003, 0.01, 0.03])
def test_what_is_put_in_is_what_was_deleted(share: float) -> None:
    """Of hundreds of missing lines those that are known are known rightly, and are most."""
    chance, known, missing = Random(str(share)), 0, 0
    for seed in range(30):
        lines = run_of(seed)
        gone = [x for x in lines if chance.random() < share]
        ids = {id(x) for x in gone}
        left = [x for x in lines if id(x) not in ids]
        for group in groups(lines):
            found = filled(left, group)
            deleted = Counter(said(x) for x in gone if x.group == group)
            new = Counter(said(x) for x in put(found))
            assert new <= deleted, (seed, group, new - deleted)
            assert sum(gap.lines for gap in found.closed) == new.total()
            known, missing = known + new.total(), missing + deleted.total()
    assert missing > 50
    assert known > missing * 0.5


def test_its_place_is_between_those_that_tell_of_it() -> None:
    """It stands between its process's lines, at a time that never goes back."""
    lines = run_of(3)
    whole = filled(lines).own
    exchange = [x for x in lines if x.group == "g1" and x.action.startswith("handle_st")]
    for gone in exchange:
        found = filled([x for x in lines if x is not gone])
        if not put(found):
            continue
        (new,) = put(found)
        at = next(k for k, x in enumerate(found.own) if x is new)
        assert neighbours(found.own, new) == neighbours(whole, gone)
        assert found.own[at - 1].time_ns <= new.time_ns
        assert at + 1 == len(found.own) or new.time_ns <= found.own[at + 1].time_ns


@pytest.mark.parametrize("role", ["consumer", "coordinator"])
def test_lines_that_are_missing_together_are_put_in_as_they_were_told(role: str) -> None:
    """Over each connection in the order in which its process did what they say."""
    chance, put_in = Random(role), 0
    for seed in range(6):
        lines = run_of(seed)
        own = [x for x in lines if x.role == role and x.group == "g1"]
        for at in range(0, len(own) - 6, 9):
            gone = [x for x in own[at : at + chance.randint(2, 6)] if x.node == own[at].node]
            ids = {id(x) for x in gone}
            new = put(filled([x for x in lines if id(x) not in ids]))
            if len(new) != len(gone):
                continue
            put_in += len(new)
            for connection in sorted({x.connection for x in gone}):
                wanted, found = (
                    [said(x) for x in some if x.connection == connection] for some in (gone, new)
                )
                assert found == wanted, (seed, [x.place for x in gone])
    assert put_in > 30


def neighbours(own: Sequence[Line], line: Line) -> list[str]:
    """The lines of its process before it, and after it."""
    process = [x for x in own if (x.role, x.node) == (line.role, line.node)]
    at = next(k for k, x in enumerate(process) if x is line)
    return [x.place for x in process[max(0, at - 1) : at + 2] if x is not line]


def test_an_answer_that_may_never_have_come_is_not_put_in() -> None:
    """Of the last exchange of a connection nobody can say that it was answered."""
    lines = run_of(0)
    of_group = [x for x in lines if x.group == "g1" and x.connection]
    last = [x for x in of_group if x.action == "handle_ping_response"]
    for connection in {x.connection for x in last}:
        own = [x for x in of_group if x.connection == connection]
        if own[-1].action == "handle_ping_response":
            found = filled([x for x in lines if x is not own[-1]])
            assert put(found) == []
            assert not found.closed


def test_a_gap_of_more_lines_than_others_tell_of_stays_one() -> None:
    """A heartbeat and a write are missing between two lines: which of them is where is unknown."""
    lines = run_of(0)
    own = [x for x in lines if x.role == "coordinator" and x.group == "g1"]
    for ping, write in pairwise(own):
        if ping.action in PARTS and write.action in ("flush_offsets", "write_owners"):
            assert ping.node == write.node
            gone = {id(ping), id(write)}
            found = filled([x for x in lines if id(x) not in gone])
            assert put(found) == []
            assert [gap.lines for gap in found.gaps] == [2]
            return
    raise AssertionError("no such neighbours")


def test_before_a_process_that_was_not_seen_to_begin_nobody_knows_how_much_is_missing() -> None:
    """Two lines are missing before its first one, and as many of its predecessor's are told of."""
    lines = run_of(57)
    own = [x for x in lines if (x.role, x.node) == (CONSUMER, "c1")]
    at = next(k for k, x in enumerate(own) if k and x.action == START)
    gone = {id(x) for x in own[at - 3 : at + 2]}

    found = filled([x for x in lines if id(x) not in gone])

    assert [gap.lines for gap in found.gaps] == [2]
    assert put(found) == []


def test_what_others_tell_of_is_named_as_missing() -> None:
    """The verdict says how many lines are missing, and of how many of them others tell."""
    lines = run_of(0)
    pings = [x for x in lines if x.action == "handle_ping" and x.group == "g1"][5:7]
    renewed = next(x for x in lines if x.action == "renew_lease" and x.group == "g1")
    found = judge([x for x in lines if x not in pings], "g1").rulings[
        "nobody_is_past_the_unfinished"
    ]
    assert found.why == "2 lines are missing, of which others tell"
    assert found.ruling is Ruling.HOLDS

    more = judge([x for x in lines if x not in (*pings, renewed)], "g1").rulings[
        "members_follow_no_older_epoch"
    ]

    assert more.ruling is Ruling.HOLDS
    assert more.why == (
        "3 lines are missing; but for 2 of which others tell, before and after that it holds"
    )


def test_what_a_start_gave_is_not_told_by_its_answer() -> None:
    """Where the Start and its obeying are both missing, nobody tells of what was given."""
    lines = run_of(0)
    start = next(x for x in lines if x.action == "send_start" and x.group == "g1" and x.partitions)
    of = [x for x in lines if x.connection == start.connection and x.generation == start.generation]
    gone = [x for x in of if x.action in ("send_start", "handle_start")]
    assert len(gone) == 2

    found = filled([x for x in lines if x not in gone])

    assert not {x.action for x in put(found)} & {"send_start", "handle_start"}
