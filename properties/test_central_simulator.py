"""
System B in the deterministic world: its promises hold under faults, and each flaw breaks one.

Seeds are not chosen: a flaw's test takes them from 0 on until one catches it, within a limit. A run
that fails here is told as a story; `shrink(seed, config)` makes it small.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from herdproof.central_coordinator.consumer import FLAWS as CONSUMER_FLAWS
from herdproof.central_coordinator.events import Report
from herdproof.central_coordinator.flaws import FLAWS as COORDINATOR_FLAWS
from herdproof.simulator.central import Outcome, Run
from herdproof.simulator.chance import TROUBLE, Config, Kind, draw_faults
from herdproof.simulator.contract import Sentence
from herdproof.simulator.shrink import NothingToShrink, shorter, shrink

CONSUMERS = frozenset({
    Kind.KILL_CONSUMER, Kind.PAUSE_CONSUMER, Kind.CUT, Kind.PART, Kind.JOIN, Kind.LEAVE,
})  # fmt: skip
BROKERS = TROUBLE - CONSUMERS
LOST_MEMBERS = Config(
    kinds=frozenset({Kind.KILL_CONSUMER, Kind.CUT, Kind.PAUSE_CONSUMER, Kind.JOIN}), faults=25
)
ENDINGS = frozenset({Kind.EXPIRE, Kind.KILL_CONSUMER, Kind.ADD_PARTITIONS})


def failures(config: Config, seeds: range) -> list[str]:
    """The stories of the runs that break a promise."""
    outcomes = (Run(seed, config).run() for seed in seeds)
    return [str(outcome) for outcome in outcomes if outcome.violation]


# ── The promises hold ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_no_promise_is_broken_whatever_goes_wrong(first: int) -> None:
    """Under every kind of fault no promise of the contract is broken, and the groups settle."""
    assert failures(Config(), range(first, first + 8)) == []


WORLDS = {
    "without faults": Config(faults=0),
    "larger": Config(brokers=3, consumers=5, faults=40),
    "consumers in trouble": Config(kinds=CONSUMERS, faults=40),
    "brokers in trouble": Config(kinds=BROKERS, faults=30),
    "sessions that end": Config(kinds=ENDINGS, faults=30, late_election_ms=2_000),
}


@pytest.mark.parametrize("world", WORLDS)
def test_no_promise_is_broken_in_other_worlds(world: str) -> None:
    """Nor with more members, more faults, or faults of some kinds alone."""
    assert failures(WORLDS[world], range(6)) == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("world", ["mixed", *WORLDS])
def test_no_promise_is_broken_for_long(world: str) -> None:
    """Nor in many more runs."""
    config = WORLDS.get(world, Config())
    assert failures(config, range(1_000, 2_000 if world == "mixed" else 1_300)) == []


def test_everything_that_should_be_seen_happens(report: Callable[[str], None]) -> None:
    """The runs see elections, rebalances, redelivery, fenced writes, and every kind of fault."""
    seen: Counter[str] = Counter()
    began = time.process_time()
    configs = {Config(): 20, WORLDS["sessions that end"]: 8, LOST_MEMBERS: 16}
    for config, seeds in configs.items():
        for seed in range(seeds):
            seen.update(Run(seed, config).run().counts)
    seconds = time.process_time() - began

    for kind in Kind:
        assert seen[kind.name], f"{kind.name} never struck"
    for what, least in {
        "elected": 60, "generations": 90, "delivered": 1_000, "delivered again": 50,
        "commits accepted": 50, "fenced writes": 1, "stepped down": 1, "rebalance_failed": 1,
        "rebalance_unnecessary": 1, "lease_over": 20, "ping_retried": 5, "stepped_down": 20,
        "registration_refused": 5, "ConsumerRebalanceFailedException": 1,
    }.items():  # fmt: skip
        assert seen[what] >= least, f"{what} happened {seen[what]} times"
    speed = sum(configs.values()) / seconds
    report(f"simulator: {speed:.0f} runs of 60 s a second of CPU, 3 consumers, 2 brokers")


# ── Each flaw breaks one ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Caught:
    """Which promises a flaw may break, in which world, and within how many seeds."""

    by: set[Sentence]
    config: Config = field(default_factory=Config)
    seeds: int = 60


NOT_DONE = {Sentence.COMPLETE, Sentence.SETTLES}
LATE_PINGS = Config(kinds=frozenset({Kind.CUT, Kind.PART, Kind.PAUSE_CONSUMER}), faults=25)
LATE_FENCE = replace(WORLDS["sessions that end"], watches=frozenset({Sentence.FENCED_WRITE}))
ONE_FENCE = Config(
    kinds=frozenset({Kind.EXPIRE, Kind.CUT, Kind.JOIN}), faults=25, hides_epochs=True,
    coordinator_flaws=frozenset({"deposed_goes_on", "unfenced"}),
    watches=frozenset({Sentence.FENCED_COMMAND}),
)  # fmt: skip
"""Every other fence is down: a consumer's own is the last."""

OF_COORDINATORS = {
    "no_barrier": Caught({Sentence.EXCLUSIVE}),
    "lost_trigger": Caught(NOT_DONE, replace(WORLDS["consumers in trouble"]), 80),
    "flag_stuck": Caught(NOT_DONE, LOST_MEMBERS, 80),
    "no_start": Caught(NOT_DONE),
    "stale_offsets": Caught({Sentence.MONOTONE}),
    "deposed_goes_on": Caught({Sentence.EXCLUSIVE}, seeds=120),
    "owners_written_late": Caught({Sentence.WRITTEN_FIRST}),
    "partial_failover": Caught({Sentence.EXCLUSIVE}),
    "no_lease": Caught({Sentence.EXCLUSIVE}),
    "unfenced": Caught({Sentence.FENCED_WRITE}, LATE_FENCE),
}
OF_CONSUMERS = {
    "no_lease": Caught({Sentence.EXCLUSIVE}, LATE_PINGS, 120),
    "reconnects_fetching": Caught({Sentence.EXCLUSIVE}),
    "stop_not_answered": Caught(NOT_DONE),
    "ignores_epoch": Caught({Sentence.FENCED_COMMAND}, ONE_FENCE),
}


def first_caught(config: Config, seeds: int) -> Outcome | None:
    """The first run, by seed, that breaks a promise."""
    outcomes = (Run(seed, config).run() for seed in range(seeds))
    return next((outcome for outcome in outcomes if outcome.violation), None)


def test_every_flaw_of_the_cores_is_hunted() -> None:
    """Every flaw that a core can be told to have is in one of the two tables."""
    assert frozenset(OF_COORDINATORS) == COORDINATOR_FLAWS
    assert frozenset(OF_CONSUMERS) == CONSUMER_FLAWS


@pytest.mark.parametrize("flaw", OF_COORDINATORS)
def test_a_coordinators_flaw_is_caught(flaw: str, report: Callable[[str], None]) -> None:
    """A coordinator with a mistake of the drafts breaks the promise that the flaw is about."""
    caught = OF_COORDINATORS[flaw]
    config = replace(caught.config, coordinator_flaws=frozenset({flaw}))

    outcome = first_caught(config, caught.seeds)

    assert_caught(outcome, caught, f"coordinator's {flaw}", report)


@pytest.mark.parametrize("flaw", OF_CONSUMERS)
def test_a_consumers_flaw_is_caught(flaw: str, report: Callable[[str], None]) -> None:
    """A consumer with a mistake of the drafts breaks the promise that the flaw is about."""
    caught = OF_CONSUMERS[flaw]
    config = replace(caught.config, consumer_flaws=frozenset({flaw}))

    outcome = first_caught(config, caught.seeds)

    assert_caught(outcome, caught, f"consumer's {flaw}", report)


def assert_caught(
    outcome: Outcome | None, caught: Caught, flaw: str, report: Callable[[str], None]
) -> None:
    """A run broke one of the promises that it may break, and its story ends by saying how."""
    assert outcome is not None, f"the {flaw} was not caught by {caught.seeds} seeds"
    assert outcome.violation is not None
    assert outcome.violation.sentence in caught.by, str(outcome)
    assert str(outcome).endswith(outcome.violation.how)
    report(f"simulator: the {flaw} is caught by seed {outcome.seed}: {outcome.violation.how}")


@pytest.mark.parametrize("world", [LOST_MEMBERS, LATE_PINGS, LATE_FENCE, ONE_FENCE])
def test_the_worlds_of_the_flaws_break_nothing_by_themselves(world: Config) -> None:
    """It is the flaw that breaks a promise, not the world in which it is hunted."""
    assert failures(world, range(8)) == []


def test_two_brokers_lead_in_one_epoch_where_epochs_are_not_counted() -> None:
    """An elector that does not count the epoch up makes two coordinators of one epoch."""
    config = Config(
        elector_flaws=frozenset({"uncounted_epoch"}),
        watches=frozenset({Sentence.ONE_COORDINATOR}),
    )
    assert first_caught(config, 10) is not None


# ── What is assumed ─────────────────────────────────────────────────────────────────────────


def test_exclusive_needs_clocks_within_the_bound() -> None:
    """With clocks that drift by more than the leases allow for, two consume one partition."""
    watches = frozenset({Sentence.EXCLUSIVE})
    config = replace(LATE_PINGS, drift=0.4, watches=watches)

    assert first_caught(config, 60) is not None
    assert failures(replace(config, drift=0.02), range(12)) == []


def test_exclusive_needs_a_shell_that_looks_at_the_lease() -> None:
    """A consumer that wakes from a pause and delivers before it has looked at its lease breaks it.

    Its commits are refused all the same: of all promises, only this one is broken.
    """
    config = Config(kinds=frozenset({Kind.PAUSE_CONSUMER}), checks_lease=False)
    fenced = replace(config, watches=frozenset(Sentence) - {Sentence.EXCLUSIVE})

    outcome = first_caught(config, 20)

    assert outcome is not None
    assert outcome.violation is not None
    assert outcome.violation.sentence is Sentence.EXCLUSIVE
    assert failures(fenced, range(12)) == []


FENCED = frozenset({
    Sentence.FENCED_COMMIT, Sentence.FENCED_WRITE, Sentence.FENCED_COMMAND, Sentence.WRITTEN_FIRST,
    Sentence.MONOTONE, Sentence.ONE_COORDINATOR, Sentence.STORED_FIRST,
})  # fmt: skip


@pytest.mark.parametrize("flaw", sorted(CONSUMER_FLAWS - {"ignores_epoch"}))
def test_the_fenced_promises_need_no_assumption(flaw: str) -> None:
    """
    Whatever clocks and consumers do, nothing is accepted from who does not own.

    Even if clocks drift by a lot, consumers deliver after a pause, and have a flaw: fetch on when
    their connection is lost and commit over the next one, for example.
    """
    config = Config(
        consumer_flaws=frozenset({flaw}), watches=FENCED, checks_lease=False, drift=0.4, faults=25
    )
    assert failures(config, range(12)) == []


# ── One seed is one run ─────────────────────────────────────────────────────────────────────


def test_one_seed_is_one_run() -> None:
    """The same seed tells the same story, to the last event; another one tells another."""
    digests = [Run(seed).run().digest for seed in (7, 7, 8)]

    assert digests[0] == digests[1]
    assert digests[1] != digests[2]


def test_one_seed_is_one_run_in_every_process() -> None:
    """So it does in another process, whose sets and dictionaries hash otherwise."""
    program = (
        "from herdproof.simulator.central import Run\n"
        "from herdproof.simulator.chance import Config\n"
        "print([Run(seed, Config(consumers=5, faults=30)).run().digest for seed in range(6)])"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout.strip()
        for hash_seed in ("1", "2", "3")
    }  # fmt: skip

    assert len(digests) == 1


def test_the_world_knows_nothing_of_the_spec() -> None:
    """The simulator runs without a module of the spec: neither can copy from the other."""
    program = (
        "import sys; from herdproof.simulator.shrink import shrink; "
        "print([name for name in sys.modules if name.split('.')[0] == 'herdspec'])"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert told.stdout.strip() == "[]"


def test_a_run_can_be_observed() -> None:
    """Whoever observes is told every event of every core, in the order of the log."""
    observed: list[object] = []
    outcome = Run(
        1, Config(duration_ms=30_000, faults=3, quiet_ms=20_000, settle_ms=15_000),
        observe=lambda _who, event, _effects: observed.append(event),
    ).run()  # fmt: skip

    assert observed == [event for _, who, event, _ in outcome.log if who]
    assert len(observed) > 100


# ── Small stories ───────────────────────────────────────────────────────────────────────────

FLAWED = Config(coordinator_flaws=frozenset({"no_start"}))


def test_a_failing_run_is_made_small() -> None:
    """A failing seed keeps only the faults without which no promise would be broken."""
    outcome = first_caught(FLAWED, 20)
    assert outcome is not None
    assert outcome.violation is not None

    small = shrink(outcome.seed, FLAWED, most_runs=80)

    assert small.violation is not None
    assert small.violation.sentence is outcome.violation.sentence
    assert len(small.faults) < len(draw_faults(FLAWED, outcome.seed)) // 2
    assert Run(small.seed, FLAWED, small.faults).run().digest == small.digest


def test_what_breaks_nothing_cannot_be_made_small() -> None:
    """Shrinking a run in which nothing went wrong is refused."""
    with pytest.raises(NothingToShrink, match="Seed 3 breaks no promise"):
        shrink(3)


def test_shorter_plans_are_shorter() -> None:
    """Every plan that is tried has fewer faults, or the same with one of them shorter."""
    plan = draw_faults(Config(), 5)
    for tried in shorter(plan):
        if len(tried) == len(plan):
            changed = [(a, b) for a, b in zip(plan, tried, strict=True) if a != b]
            assert len(changed) == 1
            assert changed[0][1].for_ms < changed[0][0].for_ms
        else:
            assert len(tried) < len(plan)
            assert set(tried) < set(plan)


def test_a_story_says_what_happened_and_leaves_out_what_always_does() -> None:
    """A story tells the faults, who started and stopped, and the breach; but no pings."""
    outcome = first_caught(Config(coordinator_flaws=frozenset({"no_barrier"})), 60)
    assert outcome is not None
    assert outcome.violation is not None

    told = str(outcome)

    assert told.startswith(f'Seed {outcome.seed} breaks: "{outcome.violation.sentence.value}"')
    assert "StartFetchers" in told
    assert "PingResponse" not in told
    assert any(isinstance(effect, Report) for _, _, _, effects in outcome.log for effect in effects)
