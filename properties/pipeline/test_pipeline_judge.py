"""
The audit's judge: clean traces violate nothing, and every planted violation is found by its name.

Traces are of simulated runs: the very cores that the services run, each with its tracer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace as altered

import properties.protocols.central_coordinator.simulated.test_central_simulator as simulator
from herdproof.conformance.traces.ordering import ordered
from herdproof.pipeline.audit.judge import CONFORMS, judge
from herdproof.pipeline.audit.protocols import auditor
from herdproof.pipeline.judging.findings import SENTENCES, TOLD_BY
from herdproof.pipeline.spark.tables import TABLES
from herdproof.protocols.central_coordinator.held.flawed import CONSUMERS as CONSUMER_FLAWS
from herdproof.protocols.central_coordinator.held.flawed import COORDINATORS as COORDINATOR_FLAWS
from herdproof.protocols.central_coordinator.simulated.chance import Config
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT
from herdproof.protocols.central_coordinator.traces.auditor import OBSERVABLE
from herdproof.protocols.central_coordinator.traces.lines import CentralStep as Line
from herdproof.protocols.central_coordinator.traces.runs import traced
from herdproof.protocols.central_coordinator.tracing import CENTRAL
from properties.pipeline.pipeline_plants import PLANTS, Plant
from properties.pipeline.pipeline_traces import (
    Trace,
    changed,
    judged,
    of_group,
    run_of,
    trace,
    violated,
)
from properties.protocols.central_coordinator.held.central_mutants import (
    LOST_MEMBERS,
    MUTANTS,
    PAUSES,
    SESSIONS_END,
)

SEEDS = range(16)


def verdicts(rows: Mapping[str, Any]) -> dict[str, str]:
    """The verdict on each sentence."""
    return {row["property"]: row["verdict"] for row in rows["verdicts"]}


# ── What is clean ───────────────────────────────────────────────────────────────────────────


def assert_clean(seeds: range, config: Config = DEFAULT) -> None:
    """No sentence is violated in these runs, nor is any left open."""
    for seed in seeds:
        lines = run_of(seed, config)
        for group in sorted({line.group for line in lines} - {""}):
            rows = judged(of_group(lines, group), group)
            assert violated(rows) == set(), rows["violations"][:1]
            assert "unknown" not in verdicts(rows).values(), (seed, rows["verdicts"])


def test_runs_of_the_verified_cores_violate_nothing() -> None:
    """Faults and all; and every sentence that a trace can show is seen to hold."""
    assert_clean(SEEDS)
    held = [verdicts(judged(trace(seed))) for seed in range(6)]

    for sentence, why in OBSERVABLE.items():
        seen = {verdict[sentence] for verdict in held}
        assert seen == ({"not observable"} if why else {"holds"}), sentence


@pytest.mark.parametrize("world", [LOST_MEMBERS, SESSIONS_END, PAUSES])
def test_nor_do_those_of_harder_worlds(world: Config) -> None:
    """Members that are lost, sessions that end, pauses."""
    assert_clean(range(3), world)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_many_runs_violate_nothing() -> None:
    """Three hundred."""
    assert_clean(range(300))


# ── What is planted ─────────────────────────────────────────────────────────────────────────

MOST = 3
"""Each plant is tried on so many runs."""


@pytest.mark.parametrize(
    ("sentence", "plant"),
    [(sentence, plant) for sentence, plants in PLANTS.items() for plant in plants],
    ids=lambda x: x if isinstance(x, str) else x.__name__,
)
def test_a_planted_violation_is_found_by_its_name(sentence: str, plant: Plant) -> None:
    """One line tells something else: exactly that sentence is violated, and told with its story."""
    tried = 0
    for seed in SEEDS:
        lines = trace(seed)
        planted = plant(lines)
        if planted is None:
            continue
        rows = judged(planted)
        assert violated(rows) == {sentence}, f"seed {seed}"
        for row in rows["violations"]:
            assert row["sentence"] == SENTENCES[sentence]
            assert len(row["story"]) > 1
            assert all(len(step.split("|")) == 4 for step in row["story"]), row["story"]
            assert row["place"].startswith(f"seed {seed}, line ")
        tried += 1
        if tried == MOST:
            return
    raise AssertionError(f"only {tried} runs have something that could be changed so")


def test_every_sentence_that_a_trace_shows_has_a_planted_violation() -> None:
    """None of them is only claimed to be checked."""
    assert set(PLANTS) == {sentence for sentence, why in OBSERVABLE.items() if not why}
    assert set(OBSERVABLE) == set(SENTENCES)


# ── What is drafted, and what is mistaken ───────────────────────────────────────────────────


@dataclass(frozen=True)
class Shown:
    """What a mistake's trace violates, with this seed of the world in which it is hunted."""

    by: set[str]
    seed: int


LIVENESS = "what is left undone for ever is not in a trace"

OF_COORDINATORS: dict[str, Shown | str] = {
    "no_barrier": Shown({"EXCLUSIVE"}, 8),
    "lost_trigger": Shown({"COMPLETE"}, 0),
    "flag_stuck": LIVENESS,
    "no_start": Shown({"COMPLETE"}, 1),
    "stale_offsets": Shown({"MONOTONE"}, 1),
    "deposed_goes_on": Shown({"EXCLUSIVE"}, 0),
    "owners_written_late": Shown({"WRITTEN_FIRST", "FENCED_COMMIT"}, 0),
    "partial_failover": Shown({"EXCLUSIVE"}, 4),
    "no_lease": Shown({"EXCLUSIVE"}, 6),
    "unfenced": Shown({"FENCED_WRITE"}, 1),
    "stale_commit": Shown({"FENCED_COMMIT"}, 5),
    "empty_group_hangs": LIVENESS,
    "stop_keeps_ack": LIVENESS,
    "member_by_id": "chance seldom shows it; its replay differs (`test_central_flawed.py`)",
}
OF_CONSUMERS: dict[str, Shown | str] = {
    "no_lease": Shown({"EXCLUSIVE"}, 19),
    "reconnects_fetching": Shown({"EXCLUSIVE"}, 1),
    "stop_not_answered": LIVENESS,
    "ignores_epoch": Shown({"FENCED_COMMAND", "FENCED_WRITE", "EXCLUSIVE"}, 1),
}

OF_MUTANTS: dict[str, Shown | str] = {
    "fence_of_any_epoch": Shown({"FENCED_WRITE"}, 1),
    "deposed_keeps_channels": "its coordinator breaks down over the next answer",
    "answers_of_the_past": "its coordinator breaks down over such an answer",
    "pause_unnoticed": "the contract lets it: the fence holds. Its replay differs",
    "first_answer_is_enough": Shown({"EXCLUSIVE"}, 0),
    "owners_written_early": Shown({"FENCED_COMMIT"}, 1),
    "dirty_is_cleared_first": LIVENESS,
    "two_handlers": "one rebalance after the other, whoever runs them: nothing is wrong in a trace",
    "lost_are_waited_for": LIVENESS,
    "point_written_first": Shown({"WRITTEN_FIRST", "FENCED_COMMIT"}, 3),
    "lease_of_who_acknowledged": Shown({"EXCLUSIVE"}, 1),
    "grace_for_a_lease": Shown({"EXCLUSIVE"}, 4),
    "delivers_after_the_lease": "a delivery is in no trace, and the lease is told as it should be",
    "replaced_watchers_fire": "what is waited for too short a time only fails sooner",
    "start_by_consumer_id": Shown({"COMPLETE"}, 5),
    "shares_rounded_up": Shown({"COMPLETE"}, 0),
    "stale_partitions": "its coordinator does not tell of partitions that it does not look at",
    "wildcards_forgotten": LIVENESS,
    "offsets_go_back": Shown({"MONOTONE"}, 0),
    "commit_answered_early": "the answer to a commit is in no trace",
    "one_offset_too_far": "its consumer tells a record that is finished, and it is not",
    "unstored_reset": Shown({"STORED_FIRST"}, 2),
    "fetches_after_stop": "its consumer tells that it has stopped, and it has not",
    "length_in_characters": "a frame's bytes are in no trace",
}
"""What shows each mistake in a trace; or why nothing does."""


def shown(found: Shown, world: Config) -> None:
    """The run's trace violates one of these, and nothing is violated without the mistake."""
    lines = []
    for line in traced(found.seed, replace(world, watches=frozenset())).lines:
        lines.append(altered(line))
    every: set[str] = set()
    for group in {line.group for line in lines} - {""}:
        every |= violated(judged(of_group(lines, group), group))

    assert found.by & every, every


@pytest.mark.parametrize("flaw", [f for f, by in OF_COORDINATORS.items() if isinstance(by, Shown)])
def test_a_drafted_coordinator_is_found(flaw: str) -> None:
    """By what its trace tells, whatever the simulator's own monitors say."""
    by, world = OF_COORDINATORS[flaw], simulator.OF_COORDINATORS[flaw].config
    assert isinstance(by, Shown)
    shown(by, replace(world, coordinator_flaws=world.coordinator_flaws | {flaw}))


@pytest.mark.parametrize("flaw", [f for f, by in OF_CONSUMERS.items() if isinstance(by, Shown)])
def test_a_drafted_consumer_is_found(flaw: str) -> None:
    """So is a consumer."""
    by, world = OF_CONSUMERS[flaw], simulator.OF_CONSUMERS[flaw].config
    assert isinstance(by, Shown)
    shown(by, replace(world, consumer_flaws=frozenset({flaw})))


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if isinstance(OF_MUTANTS[m.name], Shown)], ids=lambda m: m.name
)
def test_a_mutant_is_found(mutant: Any) -> None:
    """So is every mutant that a trace can show."""
    by = OF_MUTANTS[mutant.name]
    assert isinstance(by, Shown)
    with mutant.planted():
        shown(by, mutant.world)


def test_every_mistake_is_accounted_for() -> None:
    """Each is found, or it is said why no trace shows it."""
    assert OF_COORDINATORS.keys() == COORDINATOR_FLAWS.keys()
    assert OF_CONSUMERS.keys() == CONSUMER_FLAWS.keys()
    assert OF_MUTANTS.keys() == {mutant.name for mutant in MUTANTS}


# ── Order, doubles, gaps ────────────────────────────────────────────────────────────────────


def same_apart_from(rows: Mapping[str, Any], *tables: str) -> dict[str, Any]:
    """The rows without those of some tables."""
    return {name: found for name, found in rows.items() if name not in tables}


def test_the_order_of_the_input_is_of_no_matter() -> None:
    """The same lines give the same rows, in the same order; many of them tell the same time."""
    tick = 20_000_000
    lines = [altered(line, time_ns=line.time_ns // tick * tick) for line in trace(3)]
    mixed = list(lines)
    Random(1).shuffle(mixed)

    assert judged(mixed) == judged(lines)


def test_a_line_that_is_there_twice_counts_once() -> None:
    """The second one is in quarantine; everything else is as if it were not there."""
    lines = trace(3)
    again = [altered(line, place=f"{line.place}, again") for line in lines[100:140]]

    rows, once = judged([*lines, *again]), judged(lines)

    assert len(rows["quarantine"]) == 40
    assert {row["reason"] for row in rows["quarantine"]} == {"duplicate"}
    assert {row["place"] for row in rows["quarantine"]} == {line.place for line in again}
    assert same_apart_from(rows, "quarantine") == same_apart_from(once, "quarantine")
    assert rows["quarantine"][0]["raw"].decode() in {line.written() for line in again}


def skewed(lines: Trace, most_ns: int, seed: int) -> Trace:
    """The trace of nodes whose clocks are apart."""
    chance = Random(seed)
    apart = {
        node: chance.randrange(-most_ns, most_ns) + 5 * most_ns
        for node in sorted({line.node for line in lines})
    }
    return [
        altered(
            line, time_ns=line.time_ns + apart[line.node],
            until_ns=line.until_ns and line.until_ns + apart[line.node],
        )
        for line in lines
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_what_causes_a_line_comes_before_it_whatever_the_clocks_say(seed: int) -> None:
    """Clocks are two seconds apart: by messages and generations the order is found all the same."""
    lines = trace(seed, config=replace(DEFAULT, faults=0))
    apart = skewed(lines, 2_000_000_000, seed)

    rows = judged(apart)

    assert violated(rows) == set()
    assert verdicts(rows) == verdicts(judged(lines))
    assert auditor(CENTRAL).order(apart) != ordered(apart).lines, "time alone says otherwise"


def without(lines: Trace, which: Line) -> Trace:
    """The trace without a line."""
    return [line for line in lines if line is not which]


CONSUMERS_TELL = set(TOLD_BY["consumer"])


def test_a_missing_line_leaves_unknown_what_it_could_have_told() -> None:
    """Without what a consumer said of its Stop nobody knows: nothing holds, or is violated."""
    lines = trace(1)
    stop = next(x for x in lines if x.action == "handle_stop" and x.partitions)

    rows = judged(without(lines, stop))

    found = verdicts(rows)
    assert {found[sentence] for sentence in CONSUMERS_TELL} == {"unknown"}
    assert {found[s] for s in SENTENCES if s not in CONSUMERS_TELL} == {"holds", "not observable"}
    whys = {row["why"] for row in rows["verdicts"] if row["verdict"] == "unknown"}
    assert whys == {f"of {stop.node}, lines {stop.sequence} to {stop.sequence}"}
    assert {row["known"] for row in rows["ownership"]} == {True, False}


@pytest.mark.parametrize("role", ["consumer", "coordinator"])
def test_no_missing_line_violates_anything(role: str) -> None:
    """Whichever line is taken away."""
    lines = trace(2)
    own = [line for line in lines if line.role == role]
    for which in own[:: len(own) // 40]:
        rows = judged(without(lines, which), alone=True)
        assert violated(rows) == set(), (which.place, rows["violations"][:1])
        later = [x for x in own if x.node == which.node and x.time_ns > which.time_ns]
        if any(x.sequence == which.sequence + 1 for x in later):
            told = {verdicts(rows)[sentence] for sentence in TOLD_BY[role]}
            assert told <= {"unknown", "not observable"}, which.place


def test_who_has_asked_in_a_missing_line_is_not_said_to_have_asked_for_nothing() -> None:
    """What c1 has said first, and asked to be stored, is missing: it speaks again much later."""
    lines = trace(14)
    asks = next(x for x in lines if (x.role, x.node, x.sequence) == ("consumer", "c1", 7))
    assert asks.action == "commit"

    assert violated(judged(without(lines, asks))) == set()


def test_what_happens_far_from_a_gap_is_judged_all_the_same() -> None:
    """A violation is one, whether lines are missing before it or after it."""
    lines = trace(1)
    planted = PLANTS["WRITTEN_FIRST"][0](lines)
    assert planted is not None
    (row, *_) = judged(planted)["violations"]
    for which in planted[20::60]:
        if abs(which.time_ns - row["time_ns"]) > 5_000_000_000:
            assert "WRITTEN_FIRST" in violated(judged(without(planted, which), alone=True))


def test_a_coordinators_gap_is_another_groups_line_or_is_not() -> None:
    """A coordinator numbers the lines of all groups: only who is alone knows of a gap."""
    lines = trace(1)
    flush = next(line for line in lines if line.action == "send_ping")
    gap = without(lines, flush)

    assert "unknown" not in verdicts(judged(gap)).values()
    assert verdicts(judged(gap, alone=True))["FENCED_COMMIT"] == "unknown"
    told = judged(gap, missing=[(flush.time_ns, "somebody knows")])
    assert {r["why"] for r in told["verdicts"] if r["verdict"] == "unknown"} == {"somebody knows"}


@pytest.mark.parametrize("role", ["consumer", "coordinator"])
def test_who_has_no_trace_is_noticed(role: str) -> None:
    """Where those of one role did not trace, what only they could tell is unknown."""
    lines = [line for line in trace(1) if line.role != role]

    found = verdicts(judged(lines))

    assert violated(judged(lines)) == set()
    assert "holds" not in {found[sentence] for sentence in TOLD_BY[role]}
    others = {"consumer": "ONE_COORDINATOR", "coordinator": "FENCED_COMMAND"}
    assert found[others[role]] == "holds"


# ── Rows ────────────────────────────────────────────────────────────────────────────────────


def test_the_rows_are_those_of_the_tables() -> None:
    """Every table can be filled, and is, but for what went wrong."""
    rows = judged(trace(1), replay=True)

    assert rows.keys() == TABLES.keys()
    for name, table in TABLES.items():
        assert table.filled(rows[name]).num_rows == len(rows[name])
    assert {name for name, found in rows.items() if not found} == {"violations", "quarantine"}


def test_a_replay_that_differs_is_a_violation() -> None:
    """What the contract lets pass, the spec may not."""
    lines = trace(0)
    start = next(line for line in reversed(lines) if line.action == "send_stop")
    planted = changed(lines, start, generation=start.generation + 1)

    rows, clean = judged(planted, replay=True), judged(lines, replay=True)

    assert violated(rows) == {CONFORMS}
    assert rows["violations"][0]["place"] == start.place
    assert "the generation" in rows["violations"][0]["told"]
    assert verdicts(clean)[CONFORMS] == "holds"
    taken = {row["action"]: row["taken"] for row in clean["coverage"]}
    stops = sum(line.action == "send_stop" for line in lines)
    assert taken["send_stop"] == stops > 3


def test_a_replay_of_what_is_not_whole_is_unknown() -> None:
    """Where lines are missing, that it differs says nothing."""
    lines = trace(1)
    stop = next(x for x in lines if x.action == "handle_stop" and x.partitions)

    rows = judged(without(lines, stop), replay=True)

    assert verdicts(rows)[CONFORMS] == "unknown"
    assert violated(rows) == set()


def test_a_group_of_nobody_is_judged_too() -> None:
    """Lines that concern all groups, where there is no group: elections, and nothing else."""
    lines = [line for line in trace(1) if not line.group]

    rows = judge(CENTRAL, "1", "", lines, replay=False)

    assert verdicts(rows)["ONE_COORDINATOR"] == "holds"
    assert verdicts(rows)["EXCLUSIVE"] == "not observable"
