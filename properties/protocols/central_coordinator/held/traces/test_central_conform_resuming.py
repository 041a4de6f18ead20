"""
Traces in which members resume conform to the variant that lets them, and the contract judges them.

The commands choose the map by what lines say: where nobody has resumed, the verified spec is
replayed, as ever.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from msgspec.structs import replace as changed

from herdproof.conformance.traces.line import read_texts
from herdproof.conformance.traces.replay import conform_lines as conform
from herdproof.pipeline.campaign.runs import Asked
from herdproof.protocols.central_coordinator.client.consumer import ConsumerCore
from herdproof.protocols.central_coordinator.judged.judge import judge
from herdproof.protocols.central_coordinator.simulated.random_runs import Config, Kind
from herdproof.protocols.central_coordinator.simulated.traced import Traced, traced
from herdproof.protocols.central_coordinator.simulated.world import Run
from herdproof.protocols.central_coordinator.traces.lines import FORMATS, CentralStep
from herdproof.protocols.central_coordinator.traces.trace_map import MAP, conform_lines, map_of
from herdproof.protocols.central_coordinator.tracing import CENTRAL
from herdproof.protocols.implementation import implementation
from herdspec.check.conformance.conform import Verdict
from herdspec.check.observation.observed import Ruling

SEEDS = range(1, 8)
RESUMED = 1
"""A seed of a run in which members resume, at the same coordinator and at the next one."""
NOBODY = 0
"""One in which nobody does."""
CUT_OFF = Config(
    consumers=5, kinds=frozenset({Kind.CUT, Kind.PAUSE_CONSUMER, Kind.ADD_PARTITIONS}), faults=120
)
PAUSES = Config(kinds=frozenset({Kind.PAUSE_BROKER}), zookeeper_timeouts_ms=(1_500,), faults=8)
LOST_COMMITS = Config(
    brokers=1, consumers=2, kinds=frozenset({Kind.CUT, Kind.PART, Kind.PAUSE_CONSUMER}), faults=25
)


@cache
def run(seed: int) -> list[CentralStep]:
    """The lines of a run, faults included."""
    return traced(seed, Config(brings=0)).lines


def adopted(lines: list[CentralStep]) -> list[CentralStep]:
    """The lines that tell of who was adopted."""
    return [x for x in lines if x.action == "handle_resume" and x.outcome == "accepted"]


def test_runs_in_which_members_resume_conform() -> None:
    """Every line is explained, by the variant's own actions."""
    outcomes = {seed: conform_lines(run(seed)) for seed in SEEDS}

    assert {s: o.reason for s, o in outcomes.items() if o.verdict is not Verdict.CONFORMS} == {}
    assert all(adopted(run(seed)) and "handle_resume" in outcomes[seed].covered for seed in SEEDS)


def test_where_nobody_resumes_the_verified_spec_is_replayed() -> None:
    """A run that needs no more is held to no less."""
    assert not adopted(run(NOBODY))
    assert map_of().chosen(run(NOBODY)) is map_of()
    assert map_of().chosen(run(RESUMED)).specification.state.__name__ == "ResumingMembers"


def test_the_verified_spec_explains_no_member_that_resumes() -> None:
    """In it, who has lost its connection comes back as another."""
    lines = run(RESUMED)

    outcome = conform(lines, replace(map_of(), variant=None), invariants=False)

    assert outcome.verdict is Verdict.DIFFERS
    assert MAP.table["handle_resume"].action is None


def test_what_was_proved_holds_in_every_state_of_a_run() -> None:
    """Promises and lemmas of the variant, evaluated where the replay comes."""
    outcome = conform_lines(run(RESUMED), invariants=True)

    assert outcome.verdict is Verdict.CONFORMS, outcome.reason


@pytest.mark.parametrize("seed", SEEDS)
def test_the_contract_judges_members_that_resume(seed: int) -> None:
    """Nothing is broken by who consumes on, and is a member again; and little stays open."""
    lines = run(seed)
    for group in {line.group for line in lines if line.group}:
        judged = judge(lines, group, complete=True)

        assert judged.violations == {}
        assert judged.rulings["exclusive"].ruling is Ruling.HOLDS
        assert judged.rulings["complete"].ruling is Ruling.HOLDS


def test_who_consumes_beside_another_is_found() -> None:
    """A trace whose member goes on for an hour after its connection was lost, and is replaced."""
    lines = run(RESUMED)
    told = [
        changed(x, until_ns=x.time_ns + 3_600 * 10**9) if x.action == "on_lost_connection" else x
        for x in lines
    ]

    found = [judge(told, group, complete=True) for group in {x.group for x in told if x.group}]

    assert any("exclusive" in judged.violations for judged in found)


@pytest.mark.parametrize("seed", [2, 8])
def test_who_is_adopted_amid_the_stops_without_one_is_found(seed: int) -> None:
    """The flaw `adopts_meanwhile`: the simulator's contract breaks, and the trace differs."""
    ran = flawed(seed)

    assert ran.outcome.violation is not None
    assert ran.outcome.violation.promise == "who_consumes_owns"
    assert conform_lines(ran.lines).verdict is Verdict.DIFFERS


def flawed(seed: int) -> Traced:
    """A run of coordinators that do not stop whom they adopt."""
    return traced(seed, replace(CUT_OFF, coordinator_flaws=frozenset({"adopts_meanwhile"})))


@pytest.mark.parametrize("seed", [0])
def test_who_asks_and_consumes_whatever_its_clock_says_is_found(seed: int) -> None:
    """The flaw `resumes_too_late`, where coordinators are slow to answer."""
    config = Config(faults=40, consumer_flaws=frozenset({"resumes_too_late"}))

    outcome = Run(seed, config).run()

    assert outcome.violation is not None
    assert outcome.violation.promise in ("who_consumes_owns", "exclusive")


@pytest.mark.parametrize("seed", [4, 17, 23])
def test_members_of_a_paused_coordinator_resume_while_it_is(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Its connections stand, and it strikes nobody: to the spec these have broken, and it has heard.

    A member that does not look out is adopted by nobody here: its lease ends first.
    """
    lines = traced(seed, PAUSES).lines
    begun = [x for x in lines if x.action == "coordinator_startup"]

    assert {x.node for x in adopted(lines)} - {begun[0].node}
    assert conform_lines(lines).verdict is Verdict.CONFORMS
    monkeypatch.setattr(ConsumerCore, "_silent_from_ms", lambda _: None)
    assert not adopted(traced(seed, PAUSES).lines)


def test_a_commit_that_was_lost_with_its_connection_is_nothing() -> None:
    """The registration goes on, and its user learns that the commit is in doubt."""
    lines = traced(1003, LOST_COMMITS).lines
    heard = {(x.consumer, x.connection, x.partitions) for x in lines if x.action == "handle_commit"}
    lost = [
        x
        for x in lines
        if x.action == "commit"
        and (x.consumer, x.connection) in {(y.consumer, y.connection) for y in adopted(lines)}
        and (x.consumer, x.connection, x.partitions) not in heard
    ]

    assert lost
    assert conform_lines(lines).verdict is Verdict.CONFORMS


@pytest.mark.parametrize(
    ("seed", "mix"),
    [(17, "usual/mixed"), (127, "usual/mixed"), (309, "usual/brokers")],
    ids=["a commit is not stored", "a commit is said again", "an answer to a ping is lost"],
)
def test_what_came_to_nothing_is_nothing(
    seed: int, mix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Pings in the spec say how far a member is, where its user alone may say so.

    In these runs that happens if no consumer looks out for another coordinator.
    """
    monkeypatch.setattr(ConsumerCore, "_silent_from_ms", lambda _: None)
    lines = of_mix(seed, mix)

    assert adopted(lines)
    assert conform_lines(lines).verdict is Verdict.CONFORMS


def test_a_start_that_was_sent_before_its_connection_ended_may_be_carried_out() -> None:
    """A rebalance that fails amid its Starts waits for nobody, whoever has stopped before."""
    assert conform_lines(of_mix(20_073, "larger/pings")).verdict is Verdict.CONFORMS


def test_a_commit_that_was_stored_and_is_not_found_differs() -> None:
    """Who adopts has read less than was written: that is no commit that came to nothing."""
    lines = of_mix(17, "usual/mixed")
    line, flush = next(
        (x, flush)
        for x in adopted(lines)
        for flush in done(lines)
        for (topic, number, offset) in flush.partitions
        if offset > 1 and flush.time_ns < x.time_ns and (topic, number, offset) in x.partitions
    )
    stored = set(flush.partitions)
    less = tuple((t, n, 0 if (t, n, o) in stored else o) for t, n, o in line.partitions)

    retold = [changed(x, partitions=less) if x is line else x for x in lines]
    outcome = conform_lines(retold)

    assert outcome.verdict is Verdict.DIFFERS


def of_mix(seed: int, mix: str) -> list[CentralStep]:
    """The lines of a run, as `herdproof verify` and `campaign` make it."""
    simulated = implementation(CENTRAL).simulates()
    assert simulated is not None
    ran = simulated.run(Asked(CENTRAL, seed, seed, mix))
    return read_texts(ran.texts, ran.place, FORMATS)


def done(lines: list[CentralStep]) -> list[CentralStep]:
    """Writes of offsets of which it is told that they were done."""
    answered = {(x.node, x.number) for x in lines if x.action == "answered" and x.outcome == "done"}
    return [x for x in lines if x.action == "flush_offsets" and (x.node, x.number) in answered]
