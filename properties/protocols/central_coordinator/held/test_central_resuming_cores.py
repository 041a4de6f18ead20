"""
What system B's cores do by default is what its variant says whose members resume.

They are held to it as to the verified spec: by edges, walks, and stories, and so are the cores that
have the variant's known mistakes. Chance seldom leads to where somebody may resume; so the walks
begin with a member that consumes.
"""

from __future__ import annotations

from typing import Any

import pytest

from herdproof.conformance.adapter import Adapter, check_adapter, controlled
from herdproof.conformance.holding.held import Held
from herdproof.conformance.stories import on_the_code
from herdproof.conformance.story_tests import stories
from herdproof.conformance.walks.walk import Walked, walk
from herdproof.protocols.central_coordinator.entry import RESUMED, adapter
from herdproof.protocols.central_coordinator.held.adapter import CentralCores
from herdproof.protocols.central_coordinator.held.resuming import (
    ResumingCores,
    resuming_cores,
)
from herdspec.check.exploration.explore import Explorer
from herdspec.check.running.run import machine
from herdspec.language.surface import sizes_of_sorts
from herdspec.protocols.central_coordinator.spec import Member, Partition, Phase
from herdspec.protocols.central_coordinator.variants.resuming_flaws import RESUMING_FLAWS
from herdspec.protocols.central_coordinator.variants.resuming_properties import (
    RESUMING,
    RESUMING_HELD,
)
from herdspec.protocols.election.spec import Broker
from properties.protocols.central_coordinator.held.test_central_edges import check_taken, covered

ALONE: dict[str, Any] = {"Broker": 1, "Member": 1, "Partition": 1}
TWO = ALONE | {"Member": 2}
TWO_OF_ALL = {"Broker": 2, "Member": 2, "Partition": 2}


def consuming(held: Held, number: int = 0) -> tuple[Broker, Member, Partition]:
    """A member alone in its group, which was given a partition."""
    with sizes_of_sorts(held.machine.sizes):
        b, m, p = Broker(0), Member(number), Partition(0)
        held.offer("elect", b)
        held.offer("coordinator_startup", b)
        held.offer("register", m, b, {p})
        held.offer("handle_register", m, b)
        rebalanced(held, m)
    return b, m, p


def rebalanced(held: Held, *members: Member) -> None:
    """These are stopped, and started again."""
    for kind in ("stop", "start"):
        held.wait()
        for m in members:
            held.offer(f"handle_{kind}", m)
            held.offer(f"handle_{kind}_response", m, Broker(0))
    held.wait()


def lost(held: Held) -> None:
    """Its connection breaks, and its coordinator knows."""
    b, m, _ = consuming(held)
    held.offer("cut", m)
    held.offer("handle_closed", m, b)


def taken(held: Held, *steps: tuple[Any, ...]) -> None:
    """The code takes all of these steps."""
    for name, *arguments in steps:
        assert held.offer(name, *arguments), name


def walked(code: type[CentralCores] = ResumingCores, runs: int = 12) -> Walked:
    """Random walks from there, the same each time."""
    return walk(RESUMING_HELD, code, TWO, runs=runs, steps=60, shorten=0, first=lost)


def test_the_adapter_offers_all_that_the_variant_adds() -> None:
    """But for Registers that name others; nothing is absent by oversight."""
    check_adapter(RESUMING, ResumingCores)
    offered = {action.name for action in controlled(RESUMING, ResumingCores)}

    assert {a.name for a in RESUMING.actions} - offered == {*ResumingCores.absent}
    assert {*ResumingCores.absent} == {"refuse", "register_again"}


def test_a_member_resumes_and_is_not_stopped() -> None:
    """Its group is idle again, without a Stop or a Start, and it consumes meanwhile."""
    with Held(RESUMING_HELD, ResumingCores, **ALONE) as held, sizes_of_sorts(held.machine.sizes):
        b, m, p = consuming(held)
        taken(
            held, ("produce", p), ("cut", m), ("handle_closed", m, b), ("consume", m, p),
            ("resume", m, b), ("handle_resume", m, b),
        )  # fmt: skip
        held.wait()

        assert held.code is not None, "it lives within `with`"
        look = held.code.observe()
        assert (look["fetching"][m, p], look["position"][m, p]) == (True, 1)
        assert (look["books"][m], look["acked"][m], look["generation"]) == (b, 1, 1)
        assert look["phase"][b] is Phase.IDLE  # its lease is not waited for any more
        assert look["down"][m] == []


def test_who_consumes_in_a_former_generation_is_refused() -> None:
    """It was given nothing, so that nobody has waited for it; it lets go, and may not ask again."""
    with Held(RESUMING_HELD, ResumingCores, **TWO) as held, sizes_of_sorts(held.machine.sizes):
        b, m, p = consuming(held)
        n = Member(1)
        taken(held, ("register", n, b, set()), ("handle_register", n, b))
        rebalanced(held, m, n)
        taken(held, ("cut", n), ("handle_closed", n, b), ("begin_rebalance", b, True))
        rebalanced(held, m)
        taken(held, ("resume", n, b), ("handle_resume", n, b))

        assert held.code is not None, "it lives within `with`"
        look = held.code.observe()
        assert (look["at"][n], look["generation"]) == (2, 3)
        assert (look["books"][n], look["link"][n], look["fetching"][m, p]) == (None, False, True)
        assert not held.offer("resume", n, b)


def test_who_was_stopped_does_not_ask_to_resume() -> None:
    """Though its coordinator has not heard its answer: it has let go of what it consumed."""
    with Held(RESUMING_HELD, ResumingCores, **ALONE) as held, sizes_of_sorts(held.machine.sizes):
        b, m, _ = consuming(held)
        taken(held, ("cut", m), ("handle_closed", m, b), ("resume", m, b), ("handle_resume", m, b))
        taken(held, ("begin_rebalance", b, True), ("send_stop", m, b), ("handle_stop", m))
        taken(held, ("fail", m, b))

        assert not held.offer("resume", m, b)


def test_a_rebalance_that_has_lost_whoever_resumed_is_abandoned() -> None:
    """Once its lease is over: it consumed, and has not read its Stop."""
    with Held(RESUMING_HELD, ResumingCores, **ALONE) as held, sizes_of_sorts(held.machine.sizes):
        b, m, p = consuming(held)
        taken(held, ("cut", m), ("handle_closed", m, b), ("resume", m, b), ("handle_resume", m, b))
        taken(held, ("begin_rebalance", b, True), ("send_stop", m, b), ("cut", m))
        taken(held, ("handle_closed", m, b))
        held.wait()

        assert held.code is not None, "it lives within `with`"
        look = held.code.observe()
        assert (look["phase"][b], look["fetching"][m, p]) == (Phase.IDLE, False)


def test_a_coordinator_waits_for_the_lease_of_who_asks_another_broker() -> None:
    """It is still consuming; once it is refused there, it lets go, and is waited for no more."""
    sizes = TWO | {"Broker": 2}
    with Held(RESUMING_HELD, ResumingCores, **sizes) as held, sizes_of_sorts(held.machine.sizes):
        b, m, p = consuming(held)
        other, n = Broker(1), Member(1)
        taken(held, ("cut", m), ("handle_closed", m, b), ("resume", m, other))
        taken(held, ("register", n, b, {p}), ("handle_register", n, b))
        held.wait()
        assert held.code is not None, "it lives within `with`"
        assert held.code.observe()["phase"][b] is Phase.QUEUED

        taken(held, ("handle_resume", m, other))
        held.wait()

        look = held.code.observe()
        assert (look["phase"][b], look["fetching"][m, p]) == (Phase.STOPPING, False)


def test_a_group_is_queued_once_more_by_whoever_comes_while_a_lease_is_waited_for() -> None:
    """
    Its coordinator started anew, so that nobody is in the group, which counts as idle.

    Whoever registers then queues it in the spec; in the code it is queued already, for the lease of
    a former member, whose end is seen before a rebalance begins.
    """
    with Held(RESUMING_HELD, ResumingCores, **TWO_OF_ALL) as held:
        b, m, _ = consuming(held)
        with sizes_of_sorts(held.machine.sizes):
            n = Member(1)
            taken(held, ("doubt", b), ("coordinator_startup", b), ("register", n, b, set()))
            held.wait()
            taken(held, ("handle_register", n, b), ("on_lost_connection", m))


def test_walks_from_where_somebody_may_resume_go_where_the_spec_does() -> None:
    """Members resume, are adopted, and refused."""
    found = walked()

    print(f"{found.steps} steps", *found.gaps, sep="\n")
    assert found.holds, found.difference or found.unknown
    assert found.report.taken.keys() >= {"resume", "handle_resume", "on_lost_connection"}


@pytest.mark.long
@pytest.mark.parametrize("flaw", RESUMING_FLAWS)
def test_such_walks_find_the_known_mistakes(flaw: str) -> None:
    """They lead out of the spec that has not that mistake."""
    found = walked(resuming_cores(frozenset({flaw}), RESUMING_HELD), runs=500)

    print(f"{flaw}: {found.steps} steps, {found.difference and found.difference.why}")
    assert found.difference is not None


def test_edges_near_where_a_member_resumes_are_taken() -> None:
    """Some two thousand, drawn by chance: everywhere the code goes where the spec does."""
    found = covered(2, ResumingCores, RESUMING, part=0.025, seed=13, near=RESUMED)

    assert found.mismatch is None
    assert 0.025 <= found.covered / found.edges < 0.026
    assert found.taken["resume"] > 20
    assert found.taken["handle_resume"] > 10


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_edges_are_taken_and_the_rest_is_named() -> None:
    """All that can be reached with a fault, as of the verified spec."""
    check_taken(1, 10_161, ResumingCores, RESUMING_HELD)


ResumingStories: Any = stories(RESUMING, ResumingCores, faults=1, bound=5, **ALONE)


# ── Known mistakes ──────────────────────────────────────────────────────────────────────────


def mistaken(name: str) -> type[Adapter]:
    """Cores that have a mistake, as the entry has them for the variant that has it, too."""
    code = adapter(name)
    assert code is not None, "the cores can have it"
    return code


def beside(name: str) -> Held:
    """Two members with a mistake, beside the variant that has it."""
    return Held(RESUMING_FLAWS[name].spec, mistaken(name), **TWO)


def both_consume(held: Held) -> bool:
    """Seen in the code, and so in the spec: two members consume one partition."""
    assert held.code is not None, "it lives within `with`"
    return [*held.code.observe()["fetching"].values()] == [True, True]


def test_who_is_adopted_amid_the_stops_and_not_stopped_is_consumed_beside() -> None:
    """`adopts_meanwhile`: the core goes with its variant, to where `exclusive` is broken."""
    with beside("adopts_meanwhile") as held, sizes_of_sorts(held.machine.sizes):
        b, m, p = consuming(held, 1)
        n = Member(0)
        taken(
            held, ("register", n, b, {p}), ("handle_register", n, b), ("begin_rebalance", b, False),
            ("send_stop", m, b), ("send_stop", n, b), ("fail", m, b), ("resume", m, b),
            ("handle_stop", n), ("handle_stop_response", n, b), ("handle_resume", m, b),
            ("write_owners", b), ("serve_owners", b), ("answered", b), ("send_start", n, b),
            ("handle_start", n),
        )  # fmt: skip

        assert both_consume(held)


def test_who_consumes_until_it_is_answered_is_consumed_beside() -> None:
    """`resumes_too_late`: its lease is over by the clock, and what it had is given to another."""
    with beside("resumes_too_late") as held, sizes_of_sorts(held.machine.sizes):
        b, m, p = consuming(held)
        n = Member(1)
        taken(
            held, ("cut", m), ("handle_closed", m, b), ("register", n, b, {p}),
            ("handle_register", n, b), ("resume", m, b), ("time_out", m),
            ("begin_rebalance", b, False), ("send_stop", n, b), ("handle_stop", n),
            ("handle_stop_response", n, b), ("write_owners", b), ("serve_owners", b),
            ("answered", b), ("send_start", n, b), ("handle_start", n),
        )  # fmt: skip

        assert both_consume(held)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) for name in RESUMING_FLAWS]
)
def test_the_shortest_story_of_a_mistake_is_taken_along(name: str) -> None:
    """As far as the cores go: they wait for leases before they stop anybody, the spec need not."""
    flaw = RESUMING_FLAWS[name]
    assert flaw.sizes is not None
    found = Explorer(flaw.spec, flaw.sizes, flaw.faults, flaw.bound).run()
    story = found.violations["exclusive"]

    at = machine(flaw.spec, **flaw.sizes)
    came = on_the_code(at, mistaken(name), story.steps, story.initial)

    print(came.line)
    assert not came.difference


@pytest.mark.long
def test_the_cores_do_what_the_variant_allows_for_long() -> None:
    """Five hundred walks; prints what a pass does not show."""
    found = walk(RESUMING_HELD, ResumingCores, TWO_OF_ALL, runs=500, steps=200, first=lost)

    print("\n".join([f"{found.steps} steps in {found.seconds:.0f} s", *found.gaps]))
    assert found.holds, found.difference or found.unknown
