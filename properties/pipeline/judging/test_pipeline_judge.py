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
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as altered

import properties.protocols.central_coordinator.simulated.test_central_simulator as simulator
from herdproof.conformance.traces.ordering import ordered
from herdproof.pipeline.audit.judge import CONFORMS, judge
from herdproof.pipeline.audit.protocols import auditor
from herdproof.pipeline.judging.changes import OF_CONSUMERS as OF_CONSUMERS_FIGURES
from herdproof.pipeline.judging.gaps import MissingNumbers
from herdproof.pipeline.spark.tables import TABLES
from herdproof.protocols.central_coordinator.held.flawed import CONSUMERS as CONSUMER_FLAWS
from herdproof.protocols.central_coordinator.held.flawed import COORDINATORS as COORDINATOR_FLAWS
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.simulated.traced import traced
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT
from herdproof.protocols.central_coordinator.traces.lines import CentralStep as Line
from herdproof.protocols.central_coordinator.tracing import CENTRAL
from herdspec.protocols.central_coordinator.properties import OF_ITS_OWN
from herdspec.protocols.contract.properties import PROMISES
from properties.pipeline.judging.pipeline_plants import ALSO, PLANTS, Plant
from properties.pipeline.pipeline_traces import (
    Trace,
    changed,
    deleted,
    judged,
    numbers_of,
    of_group,
    run_of,
    trace,
    violated,
)
from properties.protocols.central_coordinator.mutated.central_mutants import (
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


def left_open(seed: int, config: Config = DEFAULT) -> set[str]:
    """The sentences that are left open in a run; none is violated."""
    found: set[str] = set()
    lines = run_of(seed, config)
    for group in sorted({line.group for line in lines} - {""}):
        rows = judged(of_group(lines, group), group)
        assert violated(rows) == set(), rows["violations"][:1]
        found |= {name for name, verdict in verdicts(rows).items() if verdict == "unknown"}
    return found


def assert_clean(seeds: range, config: Config = DEFAULT) -> None:
    """No sentence is violated in these runs, nor is any left open."""
    assert {seed: found for seed in seeds if (found := left_open(seed, config))} == {}


def test_runs_of_the_verified_cores_violate_nothing() -> None:
    """Faults and all; and every promise that a trace can show is seen to hold."""
    assert_clean(SEEDS)
    for seed in range(6):
        found = verdicts(judged(trace(seed)))
        assert found.pop("settles") == "not observable"
        assert set(found.values()) == {"holds"}
        assert found.keys() >= {p.name for p in (*PROMISES, *OF_ITS_OWN)}


@pytest.mark.parametrize("world", [LOST_MEMBERS, SESSIONS_END, PAUSES])
def test_nor_do_those_of_harder_worlds(world: Config) -> None:
    """Members that are lost, sessions that end, pauses."""
    assert_clean(range(3), world)


OPEN = {
    # Epoch 2 was counted by somebody who never came to tell that he coordinates.
    201: {"what_is_said_is_of_the_present_generation", "who_does_not_lead_commands_nobody"},
    # Offsets were sent and not answered, and nobody has read since whether they are stored.
    254: {"committed_offsets_never_go_back", "stored_as_taken"},
}
"""By seed, what a complete trace leaves open."""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_runs_violate_nothing() -> None:
    """Three hundred, nearly all of which leave nothing open."""
    assert {seed: found for seed in range(300) if (found := left_open(seed))} == OPEN


# ── What is planted ─────────────────────────────────────────────────────────────────────────

MOST = 3
"""Each plant is tried on so many runs."""


@pytest.mark.parametrize(
    ("promise", "plant"),
    [(promise, plant) for promise, plants in PLANTS.items() for plant in plants],
    ids=lambda x: x if isinstance(x, str) else x.__name__,
)
def test_a_planted_violation_is_found_by_its_name(promise: str, plant: Plant) -> None:
    """One line tells something else: that promise is violated, and told with its story."""
    tried = 0
    for seed in SEEDS:
        lines = trace(seed)
        planted = plant(lines)
        if planted is None:
            continue
        rows = judged(planted)
        found = violated(rows)
        assert promise in found, f"seed {seed}"
        assert found <= {promise, *ALSO[plant.__name__]}, f"seed {seed}"
        for row in rows["violations"]:
            assert row["sentence"]
            assert row["told"]
            assert len(row["story"]) > 1
            assert all(len(step.split("|")) == 4 for step in row["story"]), row["story"]
            assert row["place"].startswith(f"seed {seed}, line ")
        tried += 1
        if tried == MOST:
            return
    raise AssertionError(f"only {tried} runs have something that could be changed so")


def test_what_has_a_plant_is_promised() -> None:
    """Under this name, by the contract or by the protocol."""
    assert PLANTS.keys() <= verdicts(judged(trace(0))).keys()


# ── What is drafted, and what is mistaken ───────────────────────────────────────────────────


@dataclass(frozen=True)
class Shown:
    """What a mistake's trace violates, with this seed of the world in which it is hunted."""

    by: set[str]
    seed: int


LIVENESS = "what is left undone for ever is not in a trace"

OF_COORDINATORS: dict[str, Shown | str] = {
    "no_barrier": Shown({"exclusive", "who_consumes_owns"}, 0),
    "lost_trigger": Shown({"complete"}, 6),
    "flag_stuck": LIVENESS,
    "no_start": Shown({"complete", "shares_are_even"}, 1),
    "stale_offsets": Shown(
        {"a_start_says_what_is_stored", "who_begins_does_so_at_the_stored_offset"}, 1
    ),
    "deposed_goes_on": Shown({"exclusive", "who_consumes_owns"}, 0),
    "owners_written_late": Shown(
        {"a_start_says_what_is_stored", "complete", "who_consumes_owns"}, 0
    ),
    "partial_failover": Shown({"exclusive", "who_consumes_owns"}, 4),
    "no_lease": Shown({"exclusive", "who_consumes_owns"}, 6),
    "unfenced": Shown({"only_the_present_epoch_writes", "stored_as_taken"}, 1),
    "stale_commit": Shown({"exclusive", "exclusive_fenced", "who_consumes_owns"}, 5),
    "empty_group_hangs": LIVENESS,
    "stop_keeps_ack": LIVENESS,
    "adopts_meanwhile": Shown({"exclusive", "who_consumes_owns"}, 2),
    "brought_by_id": "what a process brings of an older registration of its own is stored already",
    "member_by_id": "chance seldom shows it; its replay differs (`test_central_flawed.py`)",
}
OF_CONSUMERS: dict[str, Shown | str] = {
    "no_lease": Shown({"exclusive", "who_consumes_owns"}, 19),
    "reconnects_fetching": Shown({"exclusive", "who_consumes_owns"}, 1),
    "stop_not_answered": LIVENESS,
    "ignores_epoch": Shown(
        {
            "committed_offsets_never_go_back",
            "exclusive",
            "exclusive_fenced",
            "members_follow_no_older_epoch",
            "only_the_present_epoch_writes",
            "stored_as_taken",
            "who_consumes_owns",
        },
        1,
    ),
    "resumes_too_late": "its consumer tells that its lease holds, and it does not",
}

OF_MUTANTS: dict[str, Shown | str] = {
    "fence_of_any_epoch": Shown({"only_the_present_epoch_writes", "stored_as_taken"}, 1),
    "deposed_keeps_channels": "its coordinator breaks down over the next answer",
    "answers_of_the_past": "its coordinator breaks down over such an answer",
    "pause_unnoticed": "the contract lets it: the fence holds. Its replay differs",
    "first_answer_is_enough": Shown({"exclusive", "who_consumes_owns"}, 0),
    "owners_written_early": Shown(
        {"exclusive_fenced", "owners_change_with_the_generation", "who_consumes_owns"}, 1
    ),
    "dirty_is_cleared_first": LIVENESS,
    "two_handlers": "one rebalance after the other, whoever runs them: nothing is wrong in a trace",
    "lost_are_waited_for": LIVENESS,
    "point_written_first": "owners written in several transactions are told as one write",
    "lease_of_who_acknowledged": "it rests on the last word of who was killed: that may be cut off",
    "grace_for_a_lease": Shown({"exclusive", "who_consumes_owns"}, 22),
    "delivers_after_the_lease": "a delivery is in no trace, and the lease is told as it should be",
    "replaced_watchers_fire": "what is waited for too short a time only fails sooner",
    "start_by_consumer_id": Shown({"shares_are_even"}, 5),
    "shares_rounded_up": Shown({"shares_are_even"}, 0),
    "stale_partitions": "its coordinator does not tell of partitions that it does not look at",
    "wildcards_forgotten": LIVENESS,
    "offsets_go_back": Shown({"committed_offsets_never_go_back"}, 0),
    "commit_answered_early": "the answer to a commit is in no trace",
    "one_offset_too_far": "its consumer tells a record that is finished, and it is not",
    "unstored_reset": Shown({"a_resolved_start_is_stored_first"}, 2),
    "fetches_after_stop": "its consumer tells that it has stopped, and it has not",
    "length_in_characters": "a frame's bytes are in no trace",
    "says_stopped_early": "its consumer tells that it has stopped, and it has not",
    "over_by_id": Shown({"exclusive", "who_consumes_owns"}, 3),
    "over_before_the_barrier": "who is not stopped has nothing to stop. Its replay differs",
}
"""What shows each mistake in a trace; or why nothing does."""


def shown(found: Shown, world: Config) -> None:
    """What the run's trace violates, in one group or another."""
    lines = []
    for line in traced(found.seed, replace(world, watches=frozenset())).lines:
        lines.append(altered(line))
    every: set[str] = set()
    for group in {line.group for line in lines} - {""}:
        every |= violated(judged(of_group(lines, group), group))

    assert every == found.by


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


def test_two_lines_of_one_number_that_say_different_things_decide_nothing() -> None:
    """Whichever comes first, nobody knows which is so: what holds without the two is unknown."""
    lines = trace(3)
    which = next(line for line in lines[100:] if line.group)
    other = altered(which, action="reconnect", place=f"{which.place}, again")

    for several in ([*lines, other], [other, *lines]):
        rows = judged(several, replay=True)
        verdicts = {str(row["property"]): row for row in rows["verdicts"]}

        assert [row["reason"] for row in rows["quarantine"]] == ["duplicate"]
        assert "holds" not in {row["verdict"] for row in verdicts.values()}
        assert "contradict each other" in str(verdicts["conforms"]["why"])


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


TOLD = "1 line is missing, of which others tell"


def test_a_missing_line_leaves_unknown_what_it_could_have_told() -> None:
    """Without what a consumer said of its Stop only its coordinator knows; all else holds."""
    lines = trace(1)
    stop = next(x for x in lines if x.action == "handle_stop" and x.partitions)

    known = judged(without(lines, stop))
    rows = judged(without(lines, stop), fills=False)

    whys = {row["property"]: (row["verdict"], row["why"]) for row in known["verdicts"]}
    assert whys["exclusive"] == ("holds", TOLD)
    assert {row["known"] for row in known["ownership"]} == {True}
    found = {row["property"]: (row["verdict"], row["why"]) for row in rows["verdicts"]}
    assert found["exclusive"] == ("holds", "1 line is missing; before and after that it holds")
    assert found["stored_as_taken"] == found["one_coordinator"] == ("holds", None)
    assert {row["known"] for row in rows["ownership"]} == {True, False}


@pytest.mark.parametrize("role", ["consumer", "coordinator"])
def test_no_missing_line_violates_anything(role: str) -> None:
    """Whichever line is taken away; what it could have told is unknown, or named as missing."""
    lines = trace(2)
    own = [line for line in lines if line.role == role]
    for which in own[:: len(own) // 40]:
        rows = judged(without(lines, which), alone=True)
        assert violated(rows) == set(), (which.place, rows["violations"][:1])
        later = [x for x in own if x.node == which.node and x.time_ns > which.time_ns]
        if any(x.sequence == which.sequence + 1 for x in later):
            told = {(row["verdict"], row["why"]) for row in rows["verdicts"]}
            assert any(verdict == "unknown" or "missing" in (why or "") for verdict, why in told)


LOSSES = ["lines", "one in a hundred", "tail", "file", "piece"]


@given(seed=st.integers(0, 40), kind=st.sampled_from(LOSSES), chance=st.randoms())
@settings(max_examples=60, deadline=None)
def test_whatever_is_deleted_nothing_is_violated(seed: int, kind: str, chance: Random) -> None:
    """Lines, tails, whole files: of a clean run, what is left over violates nothing."""
    left = deleted(run_of(seed), kind, chance)
    numbers = numbers_of(sorted(left, key=lambda line: line.time_ns))
    for group in sorted({line.group for line in left} - {""}):
        rows = judged(of_group(left, group), group, missing=numbers.gaps())
        assert violated(rows) == set(), rows["violations"][:1]


@pytest.mark.parametrize("kind", ["tail", "file"])
def test_nor_does_the_replay_say_that_what_is_cut_differs(kind: str) -> None:
    """Whose lines end may have gone on: whether the rest conforms is then not known."""
    chance = Random(kind)
    for seed in range(6):
        left = deleted(run_of(seed), kind, chance)
        for group in sorted({line.group for line in left} - {""}):
            gaps = numbers_of(sorted(left, key=lambda line: line.time_ns)).gaps()
            rows = judged(of_group(left, group), group, missing=gaps, replay=True)
            assert violated(rows) == set(), (seed, group, rows["violations"])


@pytest.mark.parametrize("promise", PLANTS)
def test_what_is_planted_is_found_where_later_lines_are_missing(promise: str) -> None:
    """
    What came after the violation is of no matter, if whoever was heard before it is heard on.

    The draw leaves each coordinator's first lines: who has only begun may have led at any time.
    """
    plant = PLANTS[promise][0]
    lines = next(found for seed in SEEDS if (found := plant(trace(seed))) is not None)
    first_ns = min(r["time_ns"] for r in judged(lines)["violations"] if r["property"] == promise)
    after = [line for line in lines if line.time_ns > first_ns + 3_000_000_000]
    gone = Random(f"{promise} 5").sample(after, len(after) // 2)

    assert promise in violated(judged([line for line in lines if line not in gone]))


def test_who_commits_by_hand_and_has_no_trace_violates_nothing() -> None:
    """His coordinator tells that each commit was its owner's; what he consumed nobody can see."""
    lines = run_of(0)
    who = next(x.consumer for x in lines if (x.action, x.outcome) == ("handle_commit", "accepted"))
    rows = judged(of_group([x for x in lines if (x.role, x.node) != ("consumer", who)]))

    found = verdicts(rows)
    assert violated(rows) == set()
    assert found["exclusive_fenced"] == found["stored_as_taken"] == "holds"
    assert found["exclusive"] == "unknown"
    totals = {row["name"]: row["value"] for row in rows["figures"] if row["time_ns"] is None}
    assert [totals[name] for name in OF_CONSUMERS_FIGURES] == [None, None, None]
    assert totals["members_joined"] > 0


def test_who_has_asked_in_a_missing_line_is_not_said_to_have_asked_for_nothing() -> None:
    """What c1 has said first, and asked to be stored, is missing: it speaks again much later."""
    lines = trace(14)
    asks = next(x for x in lines if (x.role, x.node, x.sequence) == ("consumer", "c1", 7))
    assert asks.action == "commit"

    assert violated(judged(without(lines, asks))) == set()


def test_what_happens_far_from_a_gap_is_judged_all_the_same() -> None:
    """A violation is one, whether lines are missing before it or after it."""
    lines = trace(1)
    planted = PLANTS["a_start_says_what_is_stored"][0](lines)
    assert planted is not None
    (row, *_) = judged(planted)["violations"]
    for which in planted[20::60]:
        if abs(which.time_ns - row["time_ns"]) > 5_000_000_000:
            rows = judged(without(planted, which), alone=True)
            assert "a_start_says_what_is_stored" in violated(rows)


def test_a_coordinators_gap_is_another_groups_line_or_is_not() -> None:
    """A coordinator numbers the lines of all groups: only who is alone knows of a gap."""
    lines = trace(1)
    ping = next(line for line in lines if line.action == "send_ping")
    gap = without(lines, ping)
    assert {row["why"] for row in judged(gap)["verdicts"]} == {None, NEVER}
    assert TOLD in {row["why"] for row in judged(gap, alone=True)["verdicts"]}
    at = ping.time_ns
    missed = MissingNumbers(
        at, "somebody knows", at, ping.role, ping.node, ping.sequence, ping.sequence
    )
    told = judged(gap, missing=[missed])
    assert TOLD in {row["why"] for row in told["verdicts"]}


NEVER = "a trace cannot show what is left undone for ever"


@pytest.mark.parametrize("role", ["consumer", "coordinator"])
def test_who_has_no_trace_is_noticed(role: str) -> None:
    """Where those of one role did not trace, what only they could tell is unknown."""
    lines = [line for line in trace(1) if line.role != role]

    found = verdicts(judged(lines))

    assert violated(judged(lines)) == set()
    assert found["who_consumes_owns"] == "unknown"
    others = {"consumer": "one_coordinator", "coordinator": "members_follow_no_older_epoch"}
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


def test_a_line_that_the_spec_has_no_terms_for_leaves_its_replay_unknown() -> None:
    """A consumer's line with a coordinator's action names no broker; the sentences are judged."""
    lines = trace(0)
    strange = next(x for x in lines if x.action == "handle_ping")

    rows = judged(changed(lines, strange, action="begin_rebalance"), replay=True)

    found = verdicts(rows)
    assert found.pop(CONFORMS) == "unknown"
    assert "holds" in found.values()


def test_a_group_of_nobody_is_judged_too() -> None:
    """Lines that concern all groups, where there is no group: elections, and nothing else."""
    lines = [line for line in trace(1) if not line.group]

    rows = judge(CENTRAL, "1", "", lines, replay=False)

    assert verdicts(rows)["one_coordinator"] == "holds"
    assert verdicts(rows)["exclusive"] == "not observable"
