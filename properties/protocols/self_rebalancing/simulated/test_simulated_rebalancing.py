"""Groups of self-rebalancing consumers in the simulated world: disturbed, and still in order."""

import pytest

from herdproof.pipeline.campaign.judged import JudgedRun
from herdproof.protocols.self_rebalancing.entry import IMPLEMENTATION
from herdproof.protocols.self_rebalancing.held.flawed import FLAWS, FLAWS_OF_SHELLS, connector_with
from herdproof.protocols.self_rebalancing.judged.eyes import (
    FENCED,
    OF_THE_LEASE,
    ContractEyes,
    judged,
)
from herdproof.protocols.self_rebalancing.simulated.random_runs import TroubleKind, WorldConfig
from herdproof.protocols.self_rebalancing.simulated.world import RebalancingRun
from herdspec.check.observation.observed import Ruling
from herdspec.check.verdict import Mark

SEEDS, AT_ONCE = 300, 20
STORMY = WorldConfig(troubles=25)
SHORT = WorldConfig(duration_ms=30_000, quiet_ms=15_000, troubles=6)
SESSIONS_END = WorldConfig(
    troubles=40,
    kinds=frozenset({TroubleKind.EXPIRE, TroubleKind.PAUSE, TroubleKind.KILL}),
    topics=(("orders", 3),),
)

PAUSES = WorldConfig(
    troubles=30, kinds=frozenset({TroubleKind.PAUSE, TroubleKind.PART, TroubleKind.CUT}),
    timeouts_ms=(2_000,),
    topics=(("orders", 3),),
)  # fmt: skip
"""Few partitions, and members that are not heard of for long."""

CAUGHT: dict[str, tuple[str, WorldConfig, int]] = {
    "split_brain": ("exclusive", PAUSES, 0),
    "stale_start": ("who_begins_does_so_at_the_stored_offset", PAUSES, 1),
    "zombie_commit": ("committed_offsets_never_go_back", PAUSES, 0),
    "zombie_release": ("exclusive", PAUSES, 2),
    "lost_wake_up": ("settles", STORMY, 2),
    "retries_exhausted": ("settles", STORMY, 2),
    "self_conflict": ("settles", STORMY, 0),
    "released_before_stopped": ("who_consumes_owns", STORMY, 0),
    "pulled_before_owned": ("exclusive", STORMY, 1),
    "registry_before_owners": ("exclusive", STORMY, 9),
    "suspended_for_good": ("settles", STORMY, 4),
}
"""By mistake: a promise that it breaks, and the run in which it does."""
SEEN_STEP_BY_STEP = {"no_commit_at_closing", "new_session_goes_on"}
"""Mistakes of which the tests of single stories tell."""


def of(found: JudgedRun[RebalancingRun]) -> str:
    """What came of a run, for a failure's message."""
    return f"seed {found.run.seed}: {found.violations[:3]}, not consumed by one: {found.unsettled}"


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_a_disturbed_group_keeps_the_contract_and_settles(first: int) -> None:
    """Killed, paused, cut off, late: no promise is broken, and all that is wanted is consumed."""
    for seed in range(first, first + AT_ONCE):
        found = judged(seed)
        assert not found.broken, of(found)
        assert {ruling.ruling for ruling in found.rulings.values()} == {Ruling.HOLDS}


@pytest.mark.parametrize("config", [STORMY, PAUSES], ids=["stormy", "pauses"])
def test_where_more_goes_wrong_a_group_settles_as_well(config: WorldConfig) -> None:
    """Nearly twice as much goes wrong; or members are not heard of for longer than a session."""
    for seed in range(100, 110):
        found = judged(seed, config)
        assert not found.broken, of(found)


@pytest.mark.parametrize("seed", range(200, 206))
def test_what_is_fenced_holds_whatever_becomes_of_sessions(seed: int) -> None:
    """Where sessions end before their leases do, the fenced promises hold all the same."""
    found = judged(seed, SESSIONS_END)

    assert not found.broken - OF_THE_LEASE, of(found)


def test_without_the_assumption_two_may_consume_one_partition() -> None:
    """A session that ends under its lease: that is the assumption `session_lease`, and needed."""
    assert any("exclusive" in judged(seed, SESSIONS_END).broken for seed in range(200, 206))


def test_a_seed_is_a_run() -> None:
    """The same seed tells the same story, whoever looks; another one tells another."""
    runs = [
        RebalancingRun(5, SHORT),
        RebalancingRun(5, SHORT, ContractEyes()),
        RebalancingRun(6, SHORT),
    ]
    for run in runs:
        run.live()

    assert runs[0].digest == runs[1].digest != runs[2].digest


def test_the_eyes_see_what_they_judge() -> None:
    """Partitions pass from member to member, and offsets are stored: nothing holds in vain."""
    found = judged(1, STORMY)
    seen = (
        found.violations,
        found.rulings["exclusive"].held,
        found.rulings["committed_offsets_never_go_back"].held,
    )

    assert seen[0] == []
    assert min(seen[1:]) > 20


@pytest.mark.parametrize("flaw", CAUGHT)
def test_a_mistake_of_the_core_is_seen(flaw: str) -> None:
    """A core with one habit of the draft breaks a promise in a run that the others survive."""
    promise, config, seed = CAUGHT[flaw]

    assert promise in judged(seed, config, connector_with(frozenset({flaw}))).broken
    assert not judged(seed, config).broken


def test_the_draft_breaks_nearly_everything() -> None:
    """With all habits of the draft together, no run is in order."""
    drafted = connector_with(
        frozenset({
            "split_brain", "stale_start", "zombie_commit", "zombie_release", "lost_wake_up",
            "retries_exhausted", "self_conflict", "new_session_goes_on", "suspended_for_good",
        })
    )  # fmt: skip
    broken = set[str]().union(*(judged(seed, STORMY, drafted).broken for seed in range(6)))

    assert {"exclusive", "settles"} <= broken


def test_every_mistake_is_told_of() -> None:
    """Each mistake is hunted here, or in a story; and the promises are the contract's."""
    promises = {promise for promise, _, _ in CAUGHT.values()}

    assert CAUGHT.keys() | SEEN_STEP_BY_STEP == FLAWS.keys()
    assert promises <= OF_THE_LEASE | FENCED | {"settles"}


def test_kinds_of_trouble_are_told_in_sentences() -> None:
    """Each trouble of a run can be printed."""
    texts = [str(trouble) for trouble in RebalancingRun(3, STORMY).troubles]

    assert all(text.endswith(".") and "{" not in text for text in texts)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1_000, 11_000, AT_ONCE))
def test_many_runs(first: int) -> None:
    """Ten thousand runs keep the contract, and settle."""
    for seed in range(first, first + AT_ONCE):
        found = judged(seed)
        assert not found.broken, of(found)


def test_a_broken_run_is_told() -> None:
    """What went wrong, what was broken and by whom, in order of time."""
    promise, config, seed = CAUGHT["split_brain"]
    found = judged(seed, config, connector_with(frozenset({"split_brain"})))

    assert found.story[0] == f"Seed {seed}."
    assert any(promise in line for line in found.story)
    assert any("is paused for" in line for line in found.story)


def test_verify_looks_at_the_code() -> None:
    """`herdproof verify` has a row for the simulated runs, which passes."""
    check, *_ = IMPLEMENTATION.checks_for("self_rebalancing")
    (finding,) = check.run(lambda _what, _share: None).findings

    assert finding.mark is Mark.CONFORMS, finding.story


def test_a_shell_that_counts_what_it_hands_out_is_seen() -> None:
    """Consumed and fetched offset taken for each other: what is unfinished is committed."""
    found = judged(0, STORMY, member=FLAWS_OF_SHELLS["fetched_for_consumed"])

    assert "only_finished_is_committed" in found.broken
