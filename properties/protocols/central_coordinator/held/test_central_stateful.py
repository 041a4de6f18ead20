"""
The spec's actions drive the real cores of system B: Hypothesis picks them, step by step.

Every action of the spec is a rule, generated. The gated world makes it happen to the cores that the
services run, which must then be where the spec is; where one waits, what is fair must come.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import settings

from herdproof.conformance.adapter import controlled
from herdproof.conformance.holding.held import Held
from herdproof.conformance.walks.stateful import stateful
from herdproof.conformance.walks.walk import Walked, walk
from herdproof.protocols.central_coordinator.held.adapter import CentralCores
from herdproof.protocols.central_coordinator.held.flawed import consumer_with, coordinator_with
from herdproof.protocols.central_coordinator.simulated.gated import GatedCentral
from herdspec.language.surface import sizes_of_sorts
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR, HELD
from herdspec.protocols.central_coordinator.spec import Member, Partition, Phase
from herdspec.protocols.election.spec import Broker

SIZES = {"Broker": (1, 2), "Member": (1, 2), "Partition": (1, 2)}
ALONE = {"Broker": 1, "Member": 1, "Partition": 1}

CentralHeld: Any = stateful(HELD, CentralCores, **SIZES)
CentralHeld.settings = settings(max_examples=40, stateful_step_count=10, derandomize=True)


def flawed(**cores: Any) -> type[CentralCores]:
    """The adapter with other cores."""

    class Flawed(CentralCores):
        """Cores with a mistake."""

        world_of = staticmethod(partial(GatedCentral, **cores))

    return Flawed


def walked(adapter: type[CentralCores], sizes: Any = ALONE, runs: int = 60) -> Walked:
    """Random walks, the same each time."""
    return walk(HELD, adapter, sizes, runs=runs, steps=200, shorten=0)


def test_every_action_is_offered() -> None:
    """Or is named with why it never comes; none is forgotten."""
    offered = {a.name for a in controlled(CENTRAL_COORDINATOR, CentralCores)}

    assert {a.name for a in CENTRAL_COORDINATOR.actions} - offered == {*CentralCores.absent}
    assert {*CentralCores.absent} == {"refuse"}


@pytest.mark.parametrize(
    "flaw", ["no_barrier", "no_start", "lost_trigger", "deposed_goes_on", "owners_written_late",
             "empty_group_hangs"],
)  # fmt: skip
def test_a_mistaken_coordinator_is_found(flaw: str) -> None:
    """By some hundreds of steps; one broker, one member, and one partition are enough."""
    found = walked(flawed(coordinator=coordinator_with(frozenset({flaw}))))

    print(f"{flaw}: {found.steps} steps, {found.difference and found.difference.why}")
    assert found.difference is not None


@pytest.mark.parametrize("flaw", ["reconnects_fetching", "stop_not_answered"])
def test_a_mistaken_consumer_is_found(flaw: str) -> None:
    """By some hundreds of steps."""
    found = walked(flawed(consumer=consumer_with(frozenset({flaw}))))

    print(f"{flaw}: {found.steps} steps, {found.difference and found.difference.why}")
    assert found.difference is not None


class Swapped(CentralCores):
    """Two actions of the adapter are swapped."""

    elect = CentralCores.coordinator_startup  # type: ignore[attr-defined]
    coordinator_startup = CentralCores.elect  # type: ignore[attr-defined]


class Idle(CentralCores):
    """One action brings nothing about, and does not say so."""

    def register(self, *_: Any) -> None:
        """Nobody connects."""


class Constant(CentralCores):
    """What is seen is always the same."""

    def observe(self) -> dict[str, Any]:
        """As in the beginning."""
        if not hasattr(self, "first"):
            self.first = super().observe()
        return self.first


@pytest.mark.parametrize("mistaken", [Swapped, Idle, Constant])
def test_a_mistaken_adapter_is_found(mistaken: type[CentralCores]) -> None:
    """It cannot pass for one that is right."""
    assert walked(mistaken, runs=5).difference is not None


def test_the_group_settles_while_one_waits() -> None:
    """Whoever waits, and lets the members answer, sees the rebalance through to its end."""
    with Held(HELD, CentralCores, **ALONE) as held, sizes_of_sorts(held.machine.sizes):
        b, m = Broker(0), Member(0)
        held.offer("elect", b)
        held.offer("coordinator_startup", b)
        held.offer("register", m, b, set())
        held.offer("handle_register", m, b)
        for kind in ("stop", "start"):
            held.wait()
            held.offer(f"handle_{kind}", m)
            held.offer(f"handle_{kind}_response", m, b)
        held.wait()

        assert held.code is not None, "it lives within `with`"
        look = held.code.observe()
        assert look["phase"][b] is Phase.IDLE
        assert look["acked"][m] == look["generation"] == 1


def test_a_write_of_a_past_epoch_is_refused_and_its_sender_steps_down() -> None:
    """Owners that are written late, when another broker was elected; the plan is still returned."""
    sizes = ALONE | {"Broker": 2}
    with Held(HELD, CentralCores, **sizes) as held, sizes_of_sorts(held.machine.sizes):
        b, m = Broker(0), Member(0)
        held.offer("elect", b)
        held.offer("coordinator_startup", b)
        held.offer("register", m, b, {Partition(0)})
        held.offer("handle_register", m, b)
        held.wait()
        held.offer("handle_stop", m)
        held.offer("handle_stop_response", m, b)
        held.offer("lose_session", b)
        held.offer("elect", Broker(1))

        assert held.offer("write_owners", b)
        assert not held.offer("serve_owners", b)
        assert held.offer("refuse_stale", b)
        assert held.offer("answered", b)
        assert held.code is not None, "it lives within `with`"
        look = held.code.observe()
        assert look["generation"] == 0
        assert not look["election.leads"][b]


def test_a_group_stays_queued_by_whoever_came_while_a_lease_was_waited_for() -> None:
    """To the spec nobody is in the group, which is idle; to the core it is queued for the lease."""
    sizes = ALONE | {"Member": 2}
    with Held(HELD, CentralCores, **sizes) as held, sizes_of_sorts(held.machine.sizes):
        b, m, n, p = Broker(0), Member(0), Member(1), Partition(0)
        held.offer("elect", b)
        held.offer("coordinator_startup", b)
        held.offer("register", n, b, {p})
        held.offer("handle_register", n, b)
        held.wait()
        held.offer("handle_stop", n)
        held.offer("handle_stop_response", n, b)
        held.wait()
        held.offer("doubt", b)
        held.offer("coordinator_startup", b)
        held.offer("begin_rebalance", b, False)
        held.offer("register", m, b, {p})
        held.offer("handle_register", m, b)

        assert held.offer("on_lost_connection", n)
        held.wait()
        assert held.code is not None, "it lives within `with`"
        assert held.code.observe()["phase"][b] is Phase.STOPPING


def test_entries_that_are_seen_later_are_seen() -> None:
    """An interest is missing from the first looks, as nobody is in the books; then it is there."""
    with Held(HELD, CentralCores, **ALONE) as held, sizes_of_sorts(held.machine.sizes):
        entry = "interest"
        held.offer("register", Member(0), Broker(0), set())
        assert entry in held.report.unseen

        held.offer("elect", Broker(0))
        held.offer("coordinator_startup", Broker(0))
        held.offer("handle_register", Member(0), Broker(0))
        assert not any(name.startswith(entry) for name in held.report.unseen)


@pytest.mark.long
def test_the_cores_do_what_the_spec_allows_for_long() -> None:
    """A thousand runs; prints what a pass does not show."""
    found = walked(CentralCores, SIZES, runs=1_000)

    print("\n".join([f"{found.steps} steps in {found.seconds:.0f} s", *found.gaps]))
    assert found.holds, found.difference or found.unknown
