"""
System B in the deterministic world: its promises hold under faults, and each flaw breaks one.

Seeds are not chosen: a flaw's test takes them from 0 on until one catches it, within a limit. A run
that fails here is told as a story; `shrink(seed, config)` makes it small.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from unittest.mock import Mock, patch

import pytest

from herdproof.protocols.central_coordinator.events import Closed, Report, Shutdown
from herdproof.protocols.central_coordinator.held.flawed import CONSUMERS as CONSUMER_FLAWS
from herdproof.protocols.central_coordinator.held.flawed import COORDINATORS as COORDINATOR_FLAWS
from herdproof.protocols.central_coordinator.judged.world_end import RunEnd
from herdproof.protocols.central_coordinator.judged.world_promises import (
    AT_AN_END,
    PROMISED,
    SHARES_ARE_EVEN,
    PromiseBroken,
)
from herdproof.protocols.central_coordinator.simulated.consumer import SimulatedConsumer
from herdproof.protocols.central_coordinator.simulated.random_runs import (
    TROUBLE,
    Config,
    Fault,
    Kind,
    draw_faults,
)
from herdproof.protocols.central_coordinator.simulated.shrink import (
    NothingToShrink,
    shorter,
    shrink,
)
from herdproof.protocols.central_coordinator.simulated.world import Run, RunOutcome, Violation
from herdproof.simulator.kafka import Log
from herdspec.protocols.contract.spec import Stage

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

    by: set[str]
    config: Config = field(default_factory=Config)
    seeds: int = 60


NOT_DONE = {"complete", "settles"}
TWO_CONSUME = {"exclusive", "who_consumes_owns"}
LATE_PINGS = Config(kinds=frozenset({Kind.CUT, Kind.PART, Kind.PAUSE_CONSUMER}), faults=25)
LATE_FENCE = replace(
    WORLDS["sessions that end"], watches=frozenset({"only_the_present_epoch_writes"})
)
LATE_DEPOSED = Config(
    kinds=frozenset({Kind.EXPIRE, Kind.PART, Kind.CUT, Kind.JOIN}), faults=25,
    watches=frozenset({"exclusive"}),
)  # fmt: skip
"""Nobody minds a deposed coordinator until two consume, to which it may lead."""
ONE_FENCE = Config(
    kinds=frozenset({Kind.EXPIRE, Kind.CUT, Kind.JOIN}), faults=25, hides_epochs=True,
    coordinator_flaws=frozenset({"deposed_goes_on", "unfenced"}),
    watches=frozenset({"members_follow_no_older_epoch"}),
)  # fmt: skip
"""Every other fence is down: a consumer's own is the last."""
OLD_OWNERS = Config(
    kinds=frozenset({Kind.EXPIRE, Kind.PART, Kind.CUT, Kind.JOIN}), faults=25,
    consumer_flaws=frozenset({"reconnects_fetching"}),
    watches=frozenset({"exclusive_fenced"}),
)  # fmt: skip
"""Consumers come back with what they consumed before, and speak of it."""
CUT_OFTEN = Config(
    consumers=5, kinds=frozenset({Kind.CUT, Kind.PAUSE_CONSUMER, Kind.ADD_PARTITIONS}), faults=120
)
"""Members come back while others are being stopped."""

OF_COORDINATORS = {
    "no_barrier": Caught(TWO_CONSUME),
    "lost_trigger": Caught(NOT_DONE, replace(WORLDS["consumers in trouble"]), 80),
    "flag_stuck": Caught(NOT_DONE, LOST_MEMBERS, 80),
    "no_start": Caught(NOT_DONE),
    "stale_offsets": Caught({"a_start_says_what_is_stored"}),
    "deposed_goes_on": Caught(TWO_CONSUME, LATE_DEPOSED),
    "owners_written_late": Caught({"a_start_says_what_is_stored"}),
    "partial_failover": Caught(TWO_CONSUME),
    "no_lease": Caught(TWO_CONSUME),
    "unfenced": Caught({"only_the_present_epoch_writes"}, LATE_FENCE),
    "stale_commit": Caught({"exclusive_fenced"}, OLD_OWNERS),
    "adopts_meanwhile": Caught({"who_consumes_owns"}, CUT_OFTEN),
}
NOT_HUNTED = {
    "empty_group_hangs": "whoever joins the group sets it going again",
    "stop_keeps_ack": "it takes a write that fails when the plan has come to be the old one again",
    "member_by_id": "two are given one partition, which no two consumed in 240 runs",
    "brought_by_id": "what a process brings of an older registration of its own is stored already",
}
"""What the checkers found and chance seldom does (`test_central_flawed.py` shows it), and why."""
OF_CONSUMERS = {
    "no_lease": Caught(TWO_CONSUME, LATE_PINGS, 120),
    "reconnects_fetching": Caught(TWO_CONSUME),
    "stop_not_answered": Caught(NOT_DONE),
    "ignores_epoch": Caught({"members_follow_no_older_epoch"}, ONE_FENCE),
    "resumes_too_late": Caught(TWO_CONSUME, Config(faults=40)),
}


def first_caught(config: Config, seeds: int) -> RunOutcome | None:
    """The first run, by seed, that breaks a promise."""
    outcomes = (Run(seed, config).run() for seed in range(seeds))
    return next((outcome for outcome in outcomes if outcome.violation), None)


def test_every_flaw_of_the_cores_is_hunted() -> None:
    """Every flaw that a core can be made to have is in one of the tables."""
    assert OF_COORDINATORS.keys() | NOT_HUNTED.keys() == COORDINATOR_FLAWS.keys()
    assert not OF_COORDINATORS.keys() & NOT_HUNTED.keys()
    assert OF_CONSUMERS.keys() == CONSUMER_FLAWS.keys()


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
    outcome: RunOutcome | None, caught: Caught, flaw: str, report: Callable[[str], None]
) -> None:
    """A run broke one of the promises that it may break, and its story ends by saying how."""
    assert outcome is not None, f"the {flaw} was not caught by {caught.seeds} seeds"
    assert outcome.violation is not None
    assert outcome.violation.promise in caught.by, str(outcome)
    assert str(outcome).endswith(outcome.violation.how)
    report(f"simulator: the {flaw} is caught by seed {outcome.seed}: {outcome.violation.how}")


def test_a_coordinator_that_goes_on_is_caught_when_it_is_deposed() -> None:
    """Long before two consume, the first coordinator that is deposed and closes nothing is told."""
    outcome = first_caught(Config(coordinator_flaws=frozenset({"deposed_goes_on"})), 10)

    assert outcome is not None
    assert outcome.violation is not None
    assert outcome.violation.promise == "who_does_not_lead_commands_nobody"


@pytest.mark.parametrize("world", [
    LOST_MEMBERS, LATE_PINGS, LATE_FENCE, LATE_DEPOSED, ONE_FENCE, OLD_OWNERS
])  # fmt: skip
def test_the_worlds_of_the_flaws_break_nothing_by_themselves(world: Config) -> None:
    """It is the flaw that breaks a promise, not the world in which it is hunted."""
    assert failures(world, range(8)) == []


CHANGES = [
    Fault(15_150, Kind.ADD_TOPIC, broker=1, consumer=1, for_ms=0),
    Fault(15_500, Kind.JOIN, broker=1, consumer=1, for_ms=0),
]


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
def test_every_kind_of_fault_does_something(kind: Kind) -> None:
    """Of every kind, a fault that strikes both brokers and two consumers changes the run."""
    config = Config(duration_ms=30_000, quiet_ms=10_000, settle_ms=10_000, watches=frozenset())
    faults = [Fault(14_900 + 100 * k, kind, broker=k, consumer=k, for_ms=4_000) for k in (1, 2)]

    without = Run(4, config, CHANGES).run()
    struck = Run(4, config, [*faults, *CHANGES]).run()

    assert [line for line in struck.log if line[1]] != [line for line in without.log if line[1]]


@pytest.mark.parametrize("earlier", [Kind.DRIFT, Kind.CUT, Kind.SLOW_ZOOKEEPER])
def test_a_fault_strikes_alike_whatever_struck_before(earlier: Kind) -> None:
    """What chance leaves to a fault is its own, so that a plan can lose one without the rest."""
    config = Config(duration_ms=20_000, quiet_ms=4_000, watches=frozenset())
    before = Fault(14_000, earlier, broker=1, consumer=1, for_ms=1_000)

    for seed in range(4):
        alone, after = Run(seed, config, CHANGES), Run(seed, config, [before, *CHANGES])
        alone.run()
        after.run()
        assert alone.kafka.topics == after.kafka.topics
        assert [c.member for c in alone.consumers] == [c.member for c in after.consumers]


def test_the_other_side_hears_of_a_killed_process_and_not_of_a_failed_host() -> None:
    """A killed broker's kernel tells its consumers at once; when its host fails, nothing does."""
    heard = {}
    for kind in (Kind.KILL_BROKER, Kind.CRASH_HOST):
        faults = [Fault(15_000, kind, broker=k, consumer=1, for_ms=4_000) for k in (1, 2)]
        outcome = Run(
            4, Config(duration_ms=30_000, quiet_ms=10_000, settle_ms=10_000), faults
        ).run()
        heard[kind] = sum(
            isinstance(event, Closed) and 15_000 < time_ms < 15_050
            for time_ms, _, event, _ in outcome.log
        )

        assert not [
            event for time_ms, who, event, _ in outcome.log
            if who.startswith("broker") and 15_000 < time_ms < 19_000
        ]  # fmt: skip

    assert heard == {Kind.KILL_BROKER: 3, Kind.CRASH_HOST: 0}


def test_a_consumer_that_leaves_is_closed_by_its_user() -> None:
    """A consumer that leaves is told so by its user: it says goodbye and is no more."""
    leaves = Fault(15_000, Kind.LEAVE, broker=1, consumer=2, for_ms=4_000)
    config = Config(duration_ms=30_000, quiet_ms=10_000, settle_ms=10_000)

    outcome = Run(4, config, [leaves]).run()

    events = [event for time_ms, who, event, _ in outcome.log if who == "c2" and time_ms >= 15_000]
    assert isinstance(events[0], Shutdown) or Shutdown() in events[:2]


@pytest.fixture(scope="module")
def settled() -> Run:
    """A run that has settled, without faults."""
    run = Run(4, Config(duration_ms=30_000, faults=0))
    assert run.run().violation is None
    return run


def judge(run: Run) -> None:
    """Judge the end of a run anew: no group is said to be stable before it is looked at."""
    for group in run.fields.groups.values():
        group.seen.amend("stage", (), Stage.OPEN)
    end = RunEnd(run.fields, run.brokers, run.consumers, run.kafka.logs)
    end.judge(run.quiet_since_ms, run.config.settle_ms)


def everywhere(run: Run, field: str, value: object) -> AbstractContextManager[object]:
    """Every entry of a field is this, in the group."""
    entries = run.fields.of("g1").seen.entries[field]
    return patch.dict(entries, dict.fromkeys(entries, value))


@contextmanager
def greedy(run: Run, consumer: SimulatedConsumer) -> Iterator[None]:
    """One consumer consumes everything that its group does, and owns it, too."""
    group = run.fields.of(consumer.group)
    own = dict.fromkeys(group.seen.entries["owner"])
    with patch.dict(group.fetching, {consumer: own}), everywhere(run, "owner", consumer):
        yield


UNSETTLED: dict[str, tuple[str, Callable[[Run], AbstractContextManager[object]]]] = {
    "nobody leads": ("settles", lambda run: patch.object(run, "brokers", [])),
    "changed late": ("settles", lambda run: patch.object(run.fields, "last_change_ms", 29_000.0)),
    "a partition is nobody's": (
        "complete", lambda run: patch.dict(run.fields.of("g1").fetching, clear=True),
    ),
    "owned by another": ("complete", lambda run: everywhere(run, "owner", "c9")),
    "a record is left": (
        "settles",
        lambda run: patch.dict(
            run.kafka.logs, {p: Log(0, log.end + 1) for p, log in run.kafka.logs.items()}
        ),
    ),
    "a commit is left": ("settles", lambda run: everywhere(run, "committed", 1)),
    "one has too much": (SHARES_ARE_EVEN, lambda run: greedy(run, run.consumers[0])),
}  # fmt: skip


@pytest.mark.parametrize("what", UNSETTLED)
def test_what_has_not_settled_is_told(settled: Run, what: str) -> None:
    """At a run's end, whatever is not as it has to be is told by its promise."""
    promise, tamper = UNSETTLED[what]
    judge(settled)

    with tamper(settled), pytest.raises(PromiseBroken) as broken:
        judge(settled)

    assert broken.value.promise == promise


def test_two_brokers_lead_in_one_epoch_where_epochs_are_not_counted() -> None:
    """An elector that does not count the epoch up wins one that is not its own."""
    config = Config(
        elector_flaws=frozenset({"uncounted_epoch"}),
        watches=frozenset({"one_coordinator", "an_epoch_is_won_by_one"}),
    )
    assert first_caught(config, 10) is not None


# ── What is assumed ─────────────────────────────────────────────────────────────────────────


def test_exclusive_needs_clocks_within_the_bound() -> None:
    """With clocks that drift by more than the leases allow for, two consume one partition."""
    watches = frozenset({"exclusive"})
    config = replace(LATE_PINGS, drift=0.4, watches=watches)

    assert first_caught(config, 60) is not None
    assert failures(replace(config, drift=0.02), range(12)) == []


def test_exclusive_needs_a_shell_that_looks_at_the_lease() -> None:
    """A consumer that wakes from a pause and delivers before it has looked at its lease breaks it.

    Its commits are refused all the same: of all promises, only this one is broken.
    """
    config = Config(kinds=frozenset({Kind.PAUSE_CONSUMER}), checks_lease=False)
    fenced = replace(config, watches=frozenset(PROMISED.keys() - TWO_CONSUME))

    outcome = first_caught(config, 20)

    assert outcome is not None
    assert outcome.violation is not None
    assert outcome.violation.promise in TWO_CONSUME
    assert failures(fenced, range(12)) == []


WHEREVER_IT_CONSUMES = TWO_CONSUME | {
    "nobody_is_past_the_unfinished", "only_finished_is_committed",
    "who_begins_does_so_at_the_stored_offset",
}  # fmt: skip
"""What depends on who consumes, and from where on."""
FENCED = frozenset(PROMISED.keys() - AT_AN_END - WHEREVER_IT_CONSUMES)


@pytest.mark.parametrize("flaw", sorted(CONSUMER_FLAWS.keys() - {"ignores_epoch"}))
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
        "from herdproof.protocols.central_coordinator.simulated.world import Run\n"
        "from herdproof.protocols.central_coordinator.simulated.random_runs import Config\n"
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


WRITES_LINES = {
    ("traces",), *(("traces", name) for name in ("chained", "file", "line", "repeated", "tracer")),
}  # fmt: skip
"""Modules by which cores tell what they do."""


def test_the_world_takes_no_step_of_a_spec() -> None:
    """Of specs the simulator needs what is promised, and nothing that runs, solves or replays."""
    program = (
        "import sys; from herdproof.protocols.central_coordinator.simulated.shrink import shrink; "
        "print([name for name in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    loaded = [name.split(".") for name in ast.literal_eval(told.stdout)]
    checks = {tuple(name[2:3]) for name in loaded if name[:2] == ["herdspec", "check"]}
    assert checks == {(), ("observation",)}
    of_code = {tuple(name[2:]) for name in loaded if name[:2] == ["herdproof", "conformance"]}
    assert of_code == {(), ("flawed",), *WRITES_LINES}


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


def breaks(seed: int, faults: tuple[Fault, ...]) -> str | None:
    """Which promise a plan breaks."""
    violation = Run(seed, FLAWED, faults).run().violation
    return violation.promise if violation else None


def test_a_failing_run_is_made_small() -> None:
    """A failing seed keeps only the faults without which that promise would not be broken."""
    outcome = first_caught(FLAWED, 20)
    assert outcome is not None
    assert outcome.violation is not None
    promise = outcome.violation.promise

    small = shrink(outcome.seed, FLAWED)

    faults = small.faults
    assert breaks(outcome.seed, faults) == promise
    for number in range(len(faults)):
        fewer = faults[:number] + faults[number + 1 :]
        assert breaks(outcome.seed, fewer) != promise
    assert Run(small.seed, FLAWED, faults).run().digest == small.digest


def test_a_run_is_made_small_for_the_promise_that_it_broke() -> None:
    """A plan that breaks another promise is not taken for a smaller one."""
    needed = draw_faults(Config(), 5)[3]

    def run(seed: int, config: Config, faults: tuple[Fault, ...] | None = None) -> Mock:
        faults = draw_faults(config, seed) if faults is None else faults
        promise = "exclusive" if needed in faults else "settles"
        violation = Violation(promise, 0.0, "")
        return Mock(run=lambda: RunOutcome(seed, config, faults, violation, {}, []))

    with patch("herdproof.protocols.central_coordinator.simulated.shrink.Run", run):
        small = shrink(5)

    assert small.faults == (needed,)
    assert small.violation is not None
    assert small.violation.promise == "exclusive"


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

    promise = outcome.violation.promise
    assert told.startswith(f'Seed {outcome.seed} breaks {promise}: "{PROMISED[promise]}"')
    assert "StartFetchers" in told
    assert "PingResponse" not in told
    assert any(isinstance(effect, Report) for _, _, _, effects in outcome.log for effect in effects)
