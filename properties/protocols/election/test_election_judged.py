"""
Traces of elections, judged by the election's contract.

Clean runs break nothing, whatever is deleted from them; and what is wrong is found by the
contract's names.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from random import Random

import pytest
from msgspec.structs import replace

from herdproof.conformance.traces.line import START, read_files
from herdproof.conformance.traces.ordering import ordered
from herdproof.pipeline.judging.gaps import Filled, gaps_of, last_lines
from herdproof.pipeline.judging.judging import go_through
from herdproof.protocols.election.judged.judge import ElectionJudge
from herdproof.protocols.election.traces.trace_map import untraced
from herdproof.protocols.election.tracing import FORMATS, ElectorLine
from herdproof.protocols.implementation import auditors
from herdspec.check.observation.observed import Ruling
from properties.protocols.election.test_conform import walk

TAKEN_UP = "an_epoch_is_taken_up_by_one"
TWO = "one_coordinator_per_epoch"
STALE = "only_the_present_epoch_writes"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[list[ElectorLine]]:
    """Elections in which all kinds of things happen."""
    found = []
    for seed in range(6):
        path = tmp_path_factory.mktemp("election") / "trace"
        walk(path, seed, brokers=3, steps=200)
        found.append(ordered(read_files([path], formats=FORMATS)).lines)
    return found


def judged(lines: Sequence[ElectorLine]) -> dict[str, Ruling]:
    """What came of each promise; the judge is pickled on its way."""
    found = ordered(lines)
    gaps = gaps_of(found, alone=True, missing=())
    judge, broken = ElectionJudge(), set[str]()

    def note(_: ElectorLine) -> None:
        broken.update(found.promise.name for found in judge.broken())

    go_through(judge, Filled(found.lines, gaps, last_lines(found.lines)), note)
    again = pickle.loads(pickle.dumps(judge))
    rulings = {j.promise.name: j.ruling for j in again.judgements()}
    assert broken == {name for name, ruling in rulings.items() if ruling is Ruling.VIOLATED}
    return rulings


def broken(lines: Sequence[ElectorLine]) -> set[str]:
    """What is violated."""
    return {name for name, ruling in judged(lines).items() if ruling is Ruling.VIOLATED}


def test_in_clean_runs_everything_that_happens_holds(runs: list[list[ElectorLine]]) -> None:
    """But ZooKeeper's epoch is in no line."""
    for lines in runs:
        assert broken(lines) == set()
    found = judged(runs[2])
    assert {found[name] for name in (TAKEN_UP, TWO, STALE)} == {Ruling.HOLDS}
    assert found["epochs_grow"] is Ruling.NOT_OBSERVABLE


def test_whatever_is_deleted_from_a_clean_run_nothing_is_violated(
    runs: list[list[ElectorLine]],
) -> None:
    """Lines, tails, whole nodes; and where nothing is known of who leads, nothing holds."""
    chance = Random(1)
    for lines in runs:
        for _ in range(60):
            match chance.randrange(3):
                case 0:
                    left = chance.sample(lines, chance.randrange(len(lines)))
                case 1:
                    left = lines[: chance.randrange(len(lines))]
                case _:
                    node = chance.choice(lines).node
                    left = [line for line in lines if line.node != node]
            assert broken(left) == set()


def test_of_a_leader_without_a_trace_the_replay_knows_nothing(
    runs: list[list[ElectorLine]],
) -> None:
    """As `conform` has it: who found it to lead has done nothing wrong."""
    auditor, tried = auditors()["election"], 0
    for lines in runs:
        assert auditor.replay(lines).verdict == "conforms"
        for node in {line.node for line in lines}:
            alone = [line for line in lines if line.node == node]
            found, missing = auditor.replay(alone), next(untraced(alone), None)
            if missing is not None and found.lines >= missing.upto:
                tried += 1
                assert (found.verdict, found.place) == ("unknown", "")
                assert "is of nobody whose trace is here" in found.told
    assert tried > 5


def leading(lines: Sequence[ElectorLine]) -> list[ElectorLine]:
    """The first line of each who leads, by epochs."""
    found = {line.state.token: line for line in reversed(lines) if line.state.leads}
    return [found[epoch] for epoch in sorted(found)]


def with_epoch(lines: Sequence[ElectorLine], node: str, old: int, new: int) -> list[ElectorLine]:
    """A node that calls the epoch that it leads in by another number."""
    return [
        replace(line, seen=replace(line.state, token=new))
        if line.node == node and line.state.token == old
        else line
        for line in lines
    ]


def test_who_takes_up_anothers_epoch_is_found_however_late(runs: list[list[ElectorLine]]) -> None:
    """Whoever has led in it, and whether or not that one still does."""
    tried = 0
    for lines in runs:
        first, *later = leading(lines)
        for other in later:
            if other.node != first.node:
                tried += 1
                old, new = other.state.token, first.state.token
                assert TAKEN_UP in broken(with_epoch(lines, other.node, old, new))
    assert tried > 5


def test_two_who_lead_in_one_epoch_at_a_time_are_found(runs: list[list[ElectorLine]]) -> None:
    """Of whom each is the coordinator, as it believes."""
    lines = runs[2]
    one = leading(lines)[0]
    two = replace(one, node="another", sequence=2, time_ns=one.time_ns + 1)
    begins = replace(
        next(x for x in lines if x.action == START), node="another", time_ns=one.time_ns
    )

    assert broken([*lines, begins, two]) == {TAKEN_UP, TWO}


def test_a_process_that_takes_up_its_nodes_former_epoch_is_found(
    runs: list[list[ElectorLine]],
) -> None:
    """It has begun anew, and cannot know what it won before."""
    lines = runs[2]
    one, last = leading(lines)[-1], lines[-1]
    start = next(line for line in lines if line.action == START and line.node == one.node)
    again = [
        replace(start, time_ns=last.time_ns + 10**9),
        replace(one, sequence=2, time_ns=last.time_ns + 2 * 10**9),
    ]

    assert broken([*lines, *again]) == {TAKEN_UP}


def test_a_write_of_a_past_epoch_is_found(runs: list[list[ElectorLine]]) -> None:
    """It was sent when another epoch had been taken up, and was done."""
    lines = runs[2]
    first, *_, last = leading(lines)
    write = next(
        x for x in lines
        if x.action == "write" and x.arguments.answered is not None
        and x.arguments.answered.outcome == "done"
    )  # fmt: skip
    assert write.arguments.answered is not None
    told = replace(write.arguments.answered, epoch=first.state.token)
    late = replace(
        write, arguments=replace(write.arguments, answered=told), node="late", sequence=1,
        time_ns=last.time_ns + 2, since_ns=last.time_ns + 1,
        seen=replace(write.state, leads=False),
    )  # fmt: skip

    assert broken([*lines, late]) == {STALE}
    assert broken([*lines, replace(late, since_ns=first.time_ns)]) == set()


def test_after_a_gap_it_is_known_again_who_leads(runs: list[list[ElectorLine]]) -> None:
    """And a run whose last word on that is missing is not known to hold."""
    lines = runs[2]
    own = [line for line in lines if line.node == leading(lines)[0].node]
    left = [line for line in lines if line is not own[len(own) // 2]]

    assert judged(left)[TWO] is Ruling.HOLDS
