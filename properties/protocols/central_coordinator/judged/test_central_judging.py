"""
Groups of the central coordinator, judged by the contract's own properties.

Clean runs break none, and leave none open that has happened; mistakes and plants are found by the
contract's names; and whatever is deleted from a clean run, nothing is ever violated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import properties.protocols.central_coordinator.simulated.test_central_simulator as simulator
from herdproof.protocols.central_coordinator.judged.judge import NAMES, Judged, judge
from herdproof.protocols.central_coordinator.simulated.chance import Config
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT
from herdproof.protocols.central_coordinator.traces.lines import CentralStep as Line
from herdproof.protocols.central_coordinator.traces.runs import traced
from herdspec.check.observation.observed import Ruling
from properties.pipeline.pipeline_plants import PLANTS
from properties.pipeline.pipeline_traces import Trace, run_of, trace
from properties.pipeline.test_pipeline_judge import OF_CONSUMERS, OF_COORDINATORS, OF_MUTANTS, Shown
from properties.protocols.central_coordinator.held.central_mutants import (
    LOST_MEMBERS,
    MUTANTS,
    PAUSES,
    SESSIONS_END,
)


def groups(lines: Trace) -> list[str]:
    """The groups of a run."""
    return sorted({line.group for line in lines} - {""})


def broken(found: Judged) -> set[str]:
    """The promises that were violated; each judgement must say the same."""
    ruled = {name for name, j in found.rulings.items() if j.ruling is Ruling.VIOLATED}
    assert ruled == {*found.violations}
    return ruled


# ── What is clean ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seeds", [range(k, k + 15) for k in range(0, 60, 15)], ids=str)
def test_in_clean_runs_everything_holds(seeds: range) -> None:
    """Faults and all: of each group, each promise is seen to hold."""
    for seed in seeds:
        for group in groups(run_of(seed)):
            found = judge(run_of(seed), group)
            assert broken(found) == set(), (seed, group, found.violations)
            assert {name: j.ruling for name, j in found.rulings.items()} == dict.fromkeys(
                NAMES, Ruling.HOLDS
            ), (seed, group)


@pytest.mark.parametrize("world", [LOST_MEMBERS, SESSIONS_END, PAUSES])
def test_in_harder_worlds_nothing_is_violated(world: Config) -> None:
    """Members that are lost, sessions that end, pauses."""
    for seed in range(3):
        for group in groups(run_of(seed, world)):
            assert broken(judge(run_of(seed, world), group)) == set(), (seed, group)


def test_the_order_of_the_input_does_not_matter() -> None:
    """Files come in any order."""
    lines = run_of(2)
    mixed = Random(1).sample(lines, len(lines))
    for group in groups(lines):
        assert judge(mixed, group).rulings == judge(lines, group).rulings


# ── Mistakes ────────────────────────────────────────────────────────────────────────────────

FOUND: Mapping[str, set[str]] = {
    "no_barrier": {"exclusive", "who_consumes_owns"},
    "lost_trigger": {"complete"},
    "no_start": {"complete"},
    "stale_offsets": {
        "a_start_says_what_is_stored", "who_begins_does_so_at_the_stored_offset"
    },
    "deposed_goes_on": {"exclusive", "who_consumes_owns"},
    "owners_written_late": {"a_start_says_what_is_stored", "complete", "who_consumes_owns"},
    "partial_failover": {"exclusive", "who_consumes_owns"},
    "no_lease": {"exclusive", "who_consumes_owns"},
    "unfenced": {"only_the_present_epoch_writes", "stored_as_taken"},
    "stale_commit": {"exclusive_fenced", "who_consumes_owns"},
    "consumer no_lease": {"exclusive", "who_consumes_owns"},
    "consumer reconnects_fetching": {"exclusive", "who_consumes_owns"},
    "consumer ignores_epoch": {
        "committed_offsets_never_go_back", "exclusive", "members_follow_no_older_epoch",
        "only_the_present_epoch_writes", "stored_as_taken",
        "who_begins_does_so_at_the_stored_offset", "who_consumes_owns",
    },
    "mutant fence_of_any_epoch": {"only_the_present_epoch_writes", "stored_as_taken"},
    "mutant first_answer_is_enough": {"complete", "exclusive", "who_consumes_owns"},
    "mutant owners_written_early": {
        "exclusive_fenced", "owners_change_with_the_generation", "who_consumes_owns"
    },
    "mutant point_written_first": {
        "a_start_says_what_is_stored", "complete", "exclusive_fenced", "who_consumes_owns"
    },
    "mutant grace_for_a_lease": {"exclusive", "who_consumes_owns"},
    "mutant offsets_go_back": {"committed_offsets_never_go_back"},
    # What rests on the last word of a process that was killed; a start for another connection of
    # the same consumer; balance, which the contract does not speak of.
    "mutant lease_of_who_acknowledged": set(),
    "mutant start_by_consumer_id": set(),
    "mutant shares_rounded_up": set(),
    "mutant unstored_reset": {"a_resolved_start_is_stored_first"},
}  # fmt: skip
"""What the contract finds of each mistake that a trace shows."""


def mistakes() -> Iterator[tuple[str, Any]]:
    """Each mistake that a trace shows, and how to make its lines."""
    for name, shown in OF_COORDINATORS.items():
        if isinstance(shown, Shown):
            config = simulator.OF_COORDINATORS[name].config
            flaws = config.coordinator_flaws | {name}
            yield name, (shown.seed, replace(config, coordinator_flaws=flaws), None)
    for name, shown in OF_CONSUMERS.items():
        if isinstance(shown, Shown):
            config = simulator.OF_CONSUMERS[name].config
            flawed = replace(config, consumer_flaws=frozenset({name}))
            yield f"consumer {name}", (shown.seed, flawed, None)
    for mutant in MUTANTS:
        shown = OF_MUTANTS[mutant.name]
        if isinstance(shown, Shown):
            yield f"mutant {mutant.name}", (shown.seed, mutant.world, mutant)


MISTAKES = dict(mistakes())


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found_by_the_names_of_the_contract(name: str) -> None:
    """Twenty of the twenty-three that the audit's sentences find."""
    seed, config, mutant = MISTAKES[name]
    config = replace(config, watches=frozenset())
    if mutant is None:
        lines = traced(seed, config).lines
    else:
        with mutant.planted():
            lines = traced(seed, config).lines

    found = [judge(lines, group) for group in groups(lines)]

    assert set().union(*map(broken, found)) == FOUND[name]


PLANTED: Mapping[str, str] = {
    "it_has_not_stopped": "exclusive",
    "somebody_else_commits": "exclusive_fenced",
    "a_commit_of_the_past": "exclusive_fenced",
    "a_command_of_the_past": "members_follow_no_older_epoch",
    "a_stored_offset_goes_back": "committed_offsets_never_go_back",
    "a_write_of_the_past": "only_the_present_epoch_writes",
    "two_in_one_epoch": "one_coordinator",
    "it_never_asked": "a_resolved_start_is_stored_first",
    "its_start_was_not_stored": "a_resolved_start_is_stored_first",
    "a_consumer_begins_too_far": "who_begins_does_so_at_the_stored_offset",
    "more_is_stored_than_finished": "only_finished_is_committed",
    "a_ping_of_the_deposed": "who_does_not_lead_commands_nobody",
    "a_ping_that_nobody_tells_of": "who_does_not_lead_commands_nobody",
    "started_before_it_is_written": "a_start_says_what_is_stored",
    "a_start_goes_back": "a_start_says_what_is_stored",
    "it_wants_something_else": "complete",
    "a_partition_was_forgotten": "complete",
}
"""Planted violations of the audit's sentences that the contract has, by the plant's name."""
OF_PLANTS = {plant.__name__: plant for many in PLANTS.values() for plant in many}


def planted(name: str) -> tuple[int, Trace]:
    """The first run in which something can be planted."""
    for seed in range(16):
        found = OF_PLANTS[name](trace(seed))
        if found is not None:
            return seed, found
    raise AssertionError(f"no run for {name}")


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name: str) -> None:
    """By the contract's name for it, or the protocol's own."""
    seed, lines = planted(name)
    others = [line for line in run_of(seed) if line.group not in ("", "g1")]
    assert PLANTED[name] in broken(judge([*lines, *others], "g1"))


WITH_ALL_LINES = {"a_ping_that_nobody_tells_of"}
"""What no longer is one, if another line of its coordinator is missing: that could have told."""


@pytest.mark.parametrize("name", sorted(PLANTED.keys() - WITH_ALL_LINES))
def test_what_is_planted_is_found_where_other_lines_are_missing(name: str) -> None:
    """Those of other groups; and those of this one after the violation, if no tail was cut."""
    seed, lines = planted(name)
    known = {line.place for line in lines}
    others = [line for line in run_of(seed) if line.group not in ("", "g1")]
    assert not known & {line.place for line in others}
    whole = judge([*lines, *Random(seed).sample(others, len(others) // 2)], "g1")
    assert PLANTED[name] in broken(whole)

    line, _ = whole.violations[PLANTED[name]]
    cut = [x for x in lines if x.time_ns <= line.time_ns or x.group not in ("", "g1")]

    assert PLANTED[name] in broken(judge(cut, "g1", complete=True))


# ── Lines that are missing ──────────────────────────────────────────────────────────────────


def deleted(lines: Trace, kind: str, chance: Random) -> Trace:
    """A run of which something is missing."""
    role, node = chance.choice(sorted({(x.role, x.node) for x in lines}))
    own = [x for x in lines if (x.role, x.node) == (role, node)]
    at = chance.randrange(len(own))
    gone: list[Line]
    match kind:
        case "line":
            gone = [chance.choice(lines)]
        case "lines":
            gone = chance.sample(lines, chance.randint(2, 30))
        case "one in a hundred":
            gone = [x for x in lines if chance.random() < 0.01]
        case "tail":
            gone = own[at:]
        case "file":
            gone = own
        case _:
            gone = own[at : at + chance.randint(2, 40)]
    names = {id(x) for x in gone}
    return [x for x in lines if id(x) not in names]


@pytest.mark.parametrize("kind", ["line", "lines", "one in a hundred", "tail", "file", "piece"])
def test_whatever_is_deleted_from_a_clean_run_nothing_is_violated(kind: str) -> None:
    """Single lines, many, tails, whole files, pieces of one process."""
    chance = Random(kind)
    for seed in range(30):
        left = deleted(run_of(seed), kind, chance)
        for group in groups(left):
            found = judge(left, group)
            assert broken(found) == set(), (kind, seed, group, found.violations)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["line", "lines", "one in a hundred", "tail", "file", "piece"])
def test_many_deletions_violate_nothing(kind: str) -> None:
    """Ten times as many, of runs with harder faults too."""
    chance = Random(f"many {kind}")
    for seed in range(150):
        for world in (DEFAULT, PAUSES):
            left = deleted(run_of(seed, world), kind, chance)
            for group in groups(left):
                assert broken(judge(left, group)) == set(), (kind, seed, group)


def test_what_a_missing_line_could_have_told_is_unknown() -> None:
    """Of a consumer without a trace nobody knows what it consumes, and nothing else is in doubt."""
    lines = [x for x in run_of(0) if (x.role, x.node) != ("consumer", "c1")]
    found = judge(lines, "g1").rulings
    assert found["exclusive"].ruling is Ruling.UNKNOWN
    assert "consumes" in found["exclusive"].why
    for name in ("one_coordinator", "stored_as_taken", "owners_change_with_the_generation"):
        assert found[name].ruling is Ruling.HOLDS


def test_what_is_missing_is_named_where_it_is_bridged() -> None:
    """Two heartbeats of a consumer: what is known before and after them holds."""
    lines = run_of(0)
    pings = [x for x in lines if x.action == "handle_ping" and x.group == "g1"][5:7]
    found = judge([x for x in lines if x not in pings], "g1").rulings
    for name in (
        "exclusive", "who_consumes_owns", "nobody_is_past_the_unfinished",
        "a_resolved_start_is_stored_first", "members_follow_no_older_epoch",
    ):  # fmt: skip
        assert found[name].ruling is Ruling.HOLDS
        assert found[name].why == "2 lines are missing, of which others tell"
    assert found["complete"].why != ""
