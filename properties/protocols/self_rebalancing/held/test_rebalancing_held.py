"""
The spec's actions drive the real cores of system A: step by step, edge by edge, along its stories.

The adapter's gates let a step go when the spec takes it; the cores are those that consumers run.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings

from herdproof.conformance.adapter import Adapter, check_adapter, controlled
from herdproof.conformance.graphs.edges import BEHIND, REFUSED, Coverage, cover
from herdproof.conformance.holding.held import Held
from herdproof.conformance.stories import OnTheCode, on_the_code
from herdproof.conformance.story_tests import stories
from herdproof.conformance.walks.stateful import stateful
from herdproof.conformance.walks.walk import Walked, walk
from herdproof.protocols.self_rebalancing.entry import adapter
from herdproof.protocols.self_rebalancing.held.adapter import RebalancingCores, cores
from herdproof.protocols.self_rebalancing.held.flawed import FLAWS, connector_with
from herdspec.check.exploration.exploration import Story
from herdspec.check.exploration.explore import Explorer
from herdspec.check.liveness.liveness import liveness
from herdspec.check.running.run import machine
from herdspec.protocols.flaws import Flaw
from herdspec.protocols.self_rebalancing.flaws import DRAFTED
from herdspec.protocols.self_rebalancing.plan import BOUND, PROTOCOL
from herdspec.protocols.self_rebalancing.properties import HELD, NOTICING
from herdspec.protocols.self_rebalancing.spec import Member, Partition

RebalancingHeld: Any = stateful(HELD, RebalancingCores, Member=(1, 2), Partition=(1, 2))
RebalancingHeld.settings = settings(max_examples=30, stateful_step_count=25, derandomize=True)

RebalancingStories: Any = stories(
    NOTICING, RebalancingCores, faults=1, bound=BOUND, Member=2, Partition=1
)


class RebalancingEdges(RebalancingCores):
    """The same, and nothing is offered that the spec forbids: walks do that."""

    offered = ()


def flawed(*flaws: str) -> type[RebalancingCores]:
    """The adapter with cores that have these mistakes, held to the spec that has none."""
    members = {"connector": connector_with(frozenset(flaws))}
    return type("FlawedEdges", (RebalancingEdges,), members)


def covered(members: int, faults: int, code: type[Adapter] = RebalancingEdges) -> Coverage:
    """The edges at so many members, one partition; told."""
    found = cover(HELD, code, faults=faults, bound=BOUND, Member=members, Partition=1)
    print("\n".join(found.lines))
    return found


def walked(code: type[Adapter], members: int = 2, runs: int = 60) -> Walked:
    """Random walks, the same each time."""
    return walk(HELD, code, {"Member": members, "Partition": 2}, runs=runs, steps=100, shorten=0)


# ── The cores do what the spec says ─────────────────────────────────────────────────────────


def test_every_action_is_offered() -> None:
    """Nothing is silent, nothing is absent."""
    offered = [action.name for action in controlled(HELD, RebalancingCores)]

    assert offered == [action.name for action in HELD.actions]


@pytest.mark.parametrize(("members", "faults", "edges"), [(1, 2, 2_826), (2, 0, 5_070)])
def test_every_edge_is_taken(members: int, faults: int, edges: int) -> None:
    """Of these graphs none is left."""
    found = covered(members, faults)

    assert found.mismatch is None
    assert (found.covered, found.edges) == (edges, edges)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_edges_with_a_fault_are_taken_and_the_rest_is_named() -> None:
    """
    All but two in a thousand.

    Who has lost its watches, and reads anew what has changed, has no further reason to rebalance:
    the spec's watches last as long as the session.
    """
    found = covered(2, 1)

    assert found.mismatch is None
    assert (found.covered, found.edges) == (113_982, 114_198)
    left = Counter[str]()
    for missed in found.missed:
        left[missed.reason] += missed.edges
    assert left == {REFUSED: 88, BEHIND: 128}
    assert {missed.action for missed in found.missed if missed.reason == REFUSED} == {
        "close_fetchers"
    }


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_cores_do_what_the_spec_allows_for_long() -> None:
    """Three members, too; prints what a pass does not show."""
    for members, runs in ((2, 1_000), (3, 300)):
        found = walked(RebalancingCores, members, runs)
        print("\n".join([f"{found.steps} steps in {found.seconds:.0f} s", *found.gaps]))
        assert found.holds, found.difference or found.unknown


def test_nobody_claims_while_it_backs_off() -> None:
    """A node that was in the way goes when the attempt has failed: that is no reason to claim."""
    mine, other, p, q = Member(0), Member(1), Partition(0), Partition(1)
    reads = ("close_fetchers", "commit_offsets", "release", "read_topics", "read_ids")
    with Held(HELD, RebalancingCores, Member=2, Partition=2) as held:

        def offer(*steps: tuple[Any, ...]) -> None:
            assert all(held.offer(*step) for step in steps)

        offer(("appear", q), ("register", other, {p, q}), *((step, other) for step in reads))
        offer(("claim", other, p), ("claim", other, q), ("read_offsets", other))
        offer(("start_fetchers", other), ("register", mine, {p, q}))
        offer(*((step, mine) for step in reads), ("refuse_claim", mine, p), ("fail_attempt", mine))
        offer(*((step, other) for step in reads[:3]))

        assert [vars(carried.state)["owner"] for carried in held.states] == [{p: None, q: None}]


# ── What is mistaken is found ───────────────────────────────────────────────────────────────

AMID = {"stale_start": (2, 0), "retries_exhausted": (2, 0), "pulled_before_owned": (2, 0)}
"""The mistakes that one member alone does not show: members and faults of a graph that does."""
IN_STORIES = ("zombie_commit", "zombie_release")
"""Two members and a fault show these: that graph is large, so their stories are below."""


@pytest.mark.parametrize("flaw", [flaw for flaw in FLAWS if flaw not in IN_STORIES])
def test_a_mistaken_core_leaves_the_graph(flaw: str) -> None:
    """Some edge leads elsewhere, and its story is told."""
    found = covered(*AMID.get(flaw, (1, 2)), flawed(flaw))

    assert found.mismatch is not None
    assert "in the spec" in found.mismatch.story


class Swapped(RebalancingCores):
    """Two actions of the adapter are swapped."""

    def cut(self, m: Member) -> None:
        """It is killed."""
        self.world.kill(m.index)

    def kill(self, m: Member) -> None:
        """It is cut off."""
        self.world.cut(m.index)


class Idle(RebalancingCores):
    """One action brings nothing about, and does not say so."""

    def release(self, m: Member) -> None:
        """Nothing is released."""


class Constant(RebalancingCores):
    """What is seen is always the same."""

    def observe(self) -> dict[str, Any]:
        """As in the beginning."""
        if not hasattr(self, "first"):
            self.first = super().observe()
        return self.first


@pytest.mark.parametrize("mistaken", [Swapped, Idle, Constant])
def test_a_mistaken_adapter_is_found(mistaken: type[RebalancingCores]) -> None:
    """It cannot pass for one that is right."""
    assert walked(mistaken).difference is not None


# ── Variants ────────────────────────────────────────────────────────────────────────────────

VARIANTS: dict[str, Flaw] = {**PROTOCOL.flaws(), "drafted": DRAFTED}
NOT_IN_THE_CORE = ("fetched_for_consumed", "sharers_not_dragged_in")
"""The one is a mistake of shells; the other no core can be made to have."""
GOES_BACK = "committed_offsets_never_go_back"
UNSTORED = "what_is_finished_is_stored_at_a_release"
SAFER = {
    "stale_start": (GOES_BACK,),
    "zombie_commit": (GOES_BACK, UNSTORED),
    "drafted": (GOES_BACK, UNSTORED),
}
"""
Where a core stops short of its variant, which writes whatever it has.

The core does not write again what it has stored; its writes check the version of the offset's node.
"""


def stories_of(flaw: Flaw) -> dict[str, Story]:
    """By what a variant breaks, its shortest story."""
    sizes = dict(flaw.sizes or {})
    found = dict(Explorer(flaw.spec, sizes, flaw.faults, flaw.bound).run().violations)
    if "settles" in flaw.failures:
        found |= liveness(flaw.spec, sizes, faults=flaw.faults, bound=flaw.bound).violations
    return found


def replayed(name: str, code: type[Adapter]) -> dict[str, OnTheCode]:
    """By what a variant breaks, what comes of its story on a core."""
    at = machine(VARIANTS[name].spec, **dict(VARIANTS[name].sizes or {}))
    return {
        broken: on_the_code(at, code, story.steps, story.initial)
        for broken, story in stories_of(VARIANTS[name]).items()
    }


def test_which_variants_have_no_core() -> None:
    """All the others have: one that is made to have their mistake."""
    assert tuple(name for name in VARIANTS if adapter(name) is None) == NOT_IN_THE_CORE


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in NOT_IN_THE_CORE])
def test_cores_follow_the_stories_of_their_variant(name: str) -> None:
    """The mistake in the spec is the one in the core: both come to where a promise is broken."""
    code = adapter(name)
    assert code is not None
    check_adapter(VARIANTS[name].spec, code)

    came = replayed(name, code)

    for broken, outcome in came.items():
        print(f"{name}, {broken}: {outcome.line}")
    assert came.keys() == VARIANTS[name].failures.keys()
    safer = SAFER.get(name, ())
    assert [broken for broken, outcome in came.items() if not outcome.follows] == [*safer]


@pytest.mark.parametrize("name", [*IN_STORIES, "split_brain", "lost_wake_up"])
def test_the_right_core_does_not_follow_them(name: str) -> None:
    """It refuses, or is seen to be elsewhere."""
    right = cores(frozenset(), VARIANTS[name].spec)

    assert not any(outcome.follows for outcome in replayed(name, right).values())
