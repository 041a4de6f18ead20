"""
Cores with known mistakes: how they are made, and what those do that the checkers alone found.

What the drafts' mistakes lead to is shown where the right behaviour is (`test_central_core*.py`,
`test_central_consumer*.py`), in the simulator and in traces. Here are those that the checkers found
in the spec while it was written, each put into the core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.client.consumer import ConsumerCore
from herdproof.protocols.central_coordinator.coordinator.coordinator import Coordinator
from herdproof.protocols.central_coordinator.coordinator.groups import Phase
from herdproof.protocols.central_coordinator.held.flawed import (
    CONSUMERS,
    COORDINATORS,
    FOUND,
    IgnoresEpoch,
    NoBarrier,
    NoLease,
    ReconnectsFetching,
    Unfenced,
    consumer_with,
    coordinator_with,
)
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.simulated.random_runs import Config, Kind
from herdproof.protocols.central_coordinator.simulated.traced import traced
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT, Run
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.traces.trace_map import conform_lines
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    CommitResponse,
    ErrorCode,
    Start,
    Stop,
)
from herdproof.protocols.election.elector import Elector
from herdproof.protocols.election.held.flawed import (
    FLAWS,
    NoSync,
    NoWatch,
    elector_with,
    simulated_with,
)
from herdproof.protocols.election.simulated import SimulatedElection
from herdproof.zookeeper.operations import Multi, Operation, Refusal, Why
from herdspec.check.conformance.conform import Verdict
from herdspec.protocols.central_coordinator import flaws as spec
from herdspec.protocols.central_coordinator.variants.bringing_flaws import BRINGING_FLAWS
from herdspec.protocols.central_coordinator.variants.resuming_flaws import RESUMING_FLAWS
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    PATHS,
    Consumer,
    World,
    elected,
    phase,
    sent,
    settled,
)
from properties.protocols.central_coordinator.held.central_variants import conform_variant

VARIANTS = {**spec.FLAWS, **spec.FOUND}

# ── How they are made ───────────────────────────────────────────────────────────────────────


def test_cores_without_a_flaw_are_the_cores_themselves() -> None:
    """Without flaws nothing stands between a test and what runs in production."""
    none = frozenset[str]()

    assert elector_with(none) is Elector
    assert coordinator_with(none) is Coordinator
    assert consumer_with(none) is ConsumerCore
    assert type(simulated_with(none, 1)) is SimulatedElection


def test_flaws_can_be_combined_each_in_its_part() -> None:
    """Several flaws make one core; each is in the part that makes the mistake, and in no other."""
    core = coordinator_with(frozenset({"no_barrier", "no_lease", "unfenced"}))(1)
    assert isinstance(core.rebalancer, NoBarrier)
    assert isinstance(core.membership, NoLease)
    assert isinstance(core.store, Unfenced)

    consumer = consumer_with(frozenset({"reconnects_fetching", "ignores_epoch"}))
    assert issubclass(consumer, ReconnectsFetching)
    assert issubclass(consumer.connector_class, IgnoresEpoch)

    world = simulated_with(frozenset({"no_watch", "no_sync"}), 1)
    assert isinstance(world, NoSync)
    assert isinstance(world.brokers[0].shell.core, NoWatch)

    assert type(Coordinator(1).store) is not type(core.store)


@pytest.mark.parametrize("make", [elector_with, coordinator_with, consumer_with])
def test_an_unknown_flaw_is_refused(make: Callable[[frozenset[str]], type]) -> None:
    """A flaw that is misspelt would be a test that cannot fail; the known one beside it is not."""
    with pytest.raises(ValueError, match=r"^no such flaw: no_laese$"):
        make(frozenset({"no_laese"}))
    with pytest.raises(ValueError, match=r"^no such flaw: no_laese$"):
        simulated_with(frozenset({"no_sync", "no_laese"}), 1)


def test_every_flaw_of_the_spec_can_be_put_into_a_core() -> None:
    """Each variant of the spec has a core that makes the same mistake, by the same name."""
    assert FOUND.keys() == spec.FOUND.keys()
    of_forms = RESUMING_FLAWS.keys() | BRINGING_FLAWS.keys()
    assert spec.FLAWS.keys() | spec.FOUND.keys() | of_forms == {
        *COORDINATORS, *(CONSUMERS.keys() - {"stop_not_answered"})
    }  # fmt: skip
    assert all(issubclass(flawed, Elector) for flawed in FLAWS.values())


# ── What the checkers found ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("flaw", FOUND)
def test_a_run_without_faults_does_not_show_what_the_checkers_found(flaw: str) -> None:
    """Where nothing goes wrong the group settles, with rebalances: only a checker sees it."""
    for seed in range(3):
        config = replace(DEFAULT, faults=0, coordinator_flaws=frozenset({flaw}))
        outcome = Run(seed, config).run()

        assert outcome.violation is None, str(outcome)
        assert outcome.counts[What.REBALANCE_DONE] > 0
        assert outcome.counts["commits accepted"] > 0


def left_alone(flaw: str) -> World:
    """A group whose only member goes while it has not answered its Stop."""
    w = elected(flaws=[flaw] if flaw else [])
    a = w.register("a", mute=True)
    assert phase(w) is Phase.STOPPING
    w.close(a)
    w.advance(60_000)
    return w


def test_a_group_that_has_lost_all_its_members_is_forgotten() -> None:
    """Its rebalance is abandoned, and its flag cleared: PROTOCOLS.md, B, ruling 4."""
    assert left_alone("").core.groups == {}


def test_the_flaw_empty_group_hangs_waits_for_whoever_comes_next() -> None:
    """Nobody is left to answer, and the flag stays set (`empty_group_hangs`)."""
    w = left_alone("empty_group_hangs")

    assert phase(w) is Phase.STOPPING
    assert w.core.groups_being_rebalanced[GROUP].is_set
    assert settled(w, w.register("b"))


def failed_after_the_stop(flaw: str) -> tuple[World, Consumer]:
    """One member: it has stopped for another that is gone again, and the owners' write failed."""

    def lost(operation: Operation) -> Refusal | None:
        group = PATHS.group(GROUP)
        writes = operation.operations if isinstance(operation, Multi) else ()
        return Refusal(Why.CONNECTION_LOSS) if any(w.path == group for w in writes) else None

    w = elected(flaws=[flaw] if flaw else [])
    a = w.register("a")
    assert settled(w, a)
    b = w.register("b", mute=True)
    assert sent(w, a) == [Stop, Start, Stop]
    w.spoil = lost
    w.close(b)
    assert w.told(What.REBALANCE_FAILED)
    w.spoil = lambda _: None
    w.advance(60_000)
    return w, a


def test_who_has_stopped_for_a_rebalance_that_failed_is_started_again() -> None:
    """Though the owners are as they were: PROTOCOLS.md, B, ruling 3."""
    w, a = failed_after_the_stop("")

    assert settled(w, a)


def test_the_flaw_stop_keeps_ack_leaves_it_stopped() -> None:
    """It "has acknowledged the present Start", and is sent no other (`stop_keeps_ack`)."""
    w, a = failed_after_the_stop("stop_keeps_ack")

    assert phase(w) is Phase.IDLE
    assert w.told(What.REBALANCE_UNNECESSARY)
    assert a.fetches == {}


def returned_during_the_write(flaw: str) -> tuple[World, Consumer, Consumer]:
    """Two members, of whom one comes back as another one while the owners are being written."""
    w = elected(flaws=[flaw] if flaw else [])
    a = w.register("a")
    w.hold()
    b = w.register("b")
    while phase(w) is not Phase.WRITING:
        w.release()
    a.mute = True  # so that the Starts are under way for a while
    w.close(b)
    back = w.register("b")
    w.release_all()
    assert phase(w) is Phase.STARTING
    return w, a, back


def starts(consumer: Consumer) -> list[set[tuple[str, str]]]:
    """The partitions of each Start that a consumer was sent."""
    asked = [m for m in consumer.requests if isinstance(m, Start)]
    return [{(p.topic, p.partition) for p in start.partitions} for start in asked]


def test_who_comes_back_owns_nothing_of_what_it_owned() -> None:
    """It is another registration, started with nothing: PROTOCOLS.md, B, ruling 5."""
    w, a, back = returned_during_the_write("")

    assert starts(back) == [set()]
    w.speak(a)
    assert settled(w, a, back)


def test_the_flaw_member_by_id_hands_over_what_is_taken_for_free() -> None:
    """The Start of the new registration names what the former one owns (`member_by_id`)."""
    w, _, back = returned_during_the_write("member_by_id")

    owned = {p for p, consumer in w.owners().items() if consumer == "b"}
    assert starts(back) == [owned] != [set()]


COMES_BACK = Config(
    kinds=frozenset({Kind.CUT}), faults=120, watches=frozenset(), resumes=0, brings=0
)
"""Connections break so often that consumers come back while owners are being written."""


@pytest.mark.parametrize("seed", [5, 9, 10])
def test_a_core_with_member_by_id_follows_its_own_variant_of_the_spec(seed: int) -> None:
    """What a Start gives differs from the verified spec; from its own variant nothing does."""
    config = replace(COMES_BACK, coordinator_flaws=frozenset({"member_by_id"}))
    lines = traced(seed, config).lines

    verified = conform_lines(lines)
    assert verified.verdict is Verdict.DIFFERS
    assert verified.mismatch is not None
    assert "what is given: the spec has set()" in "\n".join(verified.mismatch.lines)
    own = conform_variant(lines, "member_by_id")
    assert own.verdict is Verdict.CONFORMS
    assert conform_lines(traced(seed, COMES_BACK).lines).verdict is Verdict.CONFORMS


USUAL = replace(DEFAULT, watches=frozenset(), resumes=0, brings=0)
"""Nobody resumes, or brings offsets: the flaws' variants are of the verified spec."""
DEPOSED = Config(
    kinds=frozenset({Kind.EXPIRE, Kind.PART, Kind.CUT, Kind.JOIN}), faults=25, watches=frozenset(),
    resumes=0,
    brings=0,
)  # fmt: skip
LATE = Config(
    kinds=frozenset({Kind.CUT, Kind.PART, Kind.PAUSE_CONSUMER}), faults=25, watches=frozenset(),
    resumes=0,
    brings=0,
)  # fmt: skip
FOLLOWED: dict[str, tuple[Config, tuple[int, ...]]] = {
    "no_barrier": (USUAL, (0, 1)),
    "lost_trigger": (USUAL, (2, 6)),
    "no_start": (USUAL, (1, 3)),
    "stale_offsets": (USUAL, (6, 7)),
    "deposed_goes_on": (DEPOSED, (0, 2, 7)),
    "owners_written_late": (USUAL, (0, 1)),
    "partial_failover": (DEPOSED, (0, 2)),
    "no_lease": (LATE, (0, 2)),
    "reconnects_fetching": (LATE, (5, 7)),
    "unfenced": (DEPOSED, (14,)),
}
"""Flaws that show in traces: the world in which they do, and seeds whose runs differ."""
NOT_KNOWN_AGAIN = {"no_start": (USUAL, 2)}
"""Runs in which a consumer comes back while its former connection is still in the books: another
member, of which the variants, which know no ids, cannot say that it is the same consumer."""
UNSEEN: dict[str, tuple[Config, str]] = {
    "flag_stuck": (LATE, "that nobody tries again is no step: only `settles` misses one"),
    "empty_group_hangs": (COMES_BACK, "that nobody abandons a rebalance is no step either"),
    "stop_keeps_ack": (COMES_BACK, "it takes a write that fails when the plan is the old one"),
    "stale_commit": (DEPOSED, "who speaks of the past has stopped, as long as leases hold"),
    "ignores_epoch": (USUAL, "a coordinator that is deposed closes its channels before"),
}
"""Flaws that these runs do not show, and why; they are runs of their variants all the same."""


def traced_with(flaw: str, config: Config, seed: int) -> list[CentralStep]:
    """The trace of a run of cores with this flaw, the coordinator's and the consumer's."""
    flaws = frozenset({flaw})
    if flaw in COORDINATORS:
        config = replace(config, coordinator_flaws=flaws)
    if flaw in CONSUMERS:
        config = replace(config, consumer_flaws=flaws)
    return traced(seed, config).lines


@pytest.mark.parametrize(
    ("flaw", "seed"), [(flaw, seed) for flaw, (_, seeds) in FOLLOWED.items() for seed in seeds]
)
def test_a_flawed_core_follows_its_own_variant_and_not_the_verified_spec(
    flaw: str, seed: int
) -> None:
    """Each of these runs differs from the verified spec, and conforms to the flawed one."""
    lines = traced_with(flaw, FOLLOWED[flaw][0], seed)

    assert conform_lines(lines).verdict is Verdict.DIFFERS
    own = conform_variant(lines, flaw)
    assert own.verdict is Verdict.CONFORMS, own.mismatch


@pytest.mark.parametrize("flaw", UNSEEN)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_flaw_that_no_trace_shows_conforms_to_its_variant(flaw: str, seed: int) -> None:
    """Nothing is told that the verified spec does not allow; the variant allows it, too."""
    lines = traced_with(flaw, UNSEEN[flaw][0], seed)

    assert conform_lines(lines).verdict is Verdict.CONFORMS
    own = conform_variant(lines, flaw)
    assert own.verdict is Verdict.CONFORMS, own.mismatch


@pytest.mark.parametrize("flaw", NOT_KNOWN_AGAIN)
def test_who_comes_back_too_early_is_not_known_again(flaw: str) -> None:
    """The cores know its id; in the variant it is somebody else, and that is the difference."""
    config, seed = NOT_KNOWN_AGAIN[flaw]
    own = conform_variant(traced_with(flaw, config, seed), flaw)

    assert own.verdict is Verdict.DIFFERS
    assert own.mismatch is not None
    shown = "\n".join(own.mismatch.lines)
    assert "what is given: the spec has set()" in shown or "the trace idle" in shown


@pytest.mark.parametrize(("flaw", "other"), [("no_lease", "no_start"), ("no_barrier", "no_lease")])
def test_a_flawed_core_does_not_follow_another_flaws_variant(flaw: str, other: str) -> None:
    """That a run conforms to its variant says something: to another one it does not."""
    config, (seed, *_) = FOLLOWED[flaw]

    found = conform_variant(traced_with(flaw, config, seed), other)
    assert found.verdict is Verdict.DIFFERS


def test_every_variant_names_its_switch() -> None:
    """A variant and the switch of the cores that make the same mistake have one name."""
    for name, flaw in VARIANTS.items():
        assert flaw.switches == {name}


@pytest.mark.parametrize(
    ("flaw", "error"),
    [("", ErrorCode.STALE_GENERATION), ("stale_commit", ErrorCode.NONE)],
)
def test_a_commit_of_a_past_generation_is_refused_but_for_the_flaw(
    flaw: str, error: ErrorCode
) -> None:
    """An owner of the past may say nothing any more; with `stale_commit` it may."""
    w = elected(flaws=[flaw] if flaw else [])
    a = w.register("a")
    past = a.generation
    b = w.register("b")
    ((topic, number), _), *_ = b.fetches.items()

    w.send(a, Commit((Offset(topic, number, 77),)), generation=past)

    answer = a.requests[-1]
    assert isinstance(answer, CommitResponse)
    assert answer.error_code is error
    stored = w.stored(PATHS.offset(GROUP, topic, number))
    assert (stored == b"77") == (error is ErrorCode.NONE)
