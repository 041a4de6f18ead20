"""
The coordinators' cores in states that z3 picks, at five members.

They are put into states of a coordinator that has just begun, and led on from there.
"""

from __future__ import annotations

from typing import Any

import pytest

from herdproof.conformance.solver.found import IMPOSSIBLE, NOT_LOADABLE, Solved
from herdproof.conformance.solver.solved import solved
from herdproof.protocols.central_coordinator.held.mistaken import cores
from herdspec.check.proof.prove import Proof, prove
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR, HELD

pytestmark = pytest.mark.xdist_group("central coordinator solved")

PUT = {
    "elect", "coordinator_startup", "lose_session", "doubt", "restart", "register",
    "handle_register", "time_out", "cut", "appear", "begin_rebalance", "send_ping", "produce",
}  # fmt: skip
"""What is allowed in some state into which cores can be put."""


def run(*flaws: str, most: int, proof: Proof | None = None, **wishes: Any) -> Solved:
    """States for each case, so many; without a proof, of what the promises alone say."""
    spec = CENTRAL_COORDINATOR if proof else HELD
    return solved(
        spec, cores(frozenset(flaws)), most=most, settling=2, looking=0, proof=proof,
        **{"seconds": 300, "Broker": 3, "Member": 5, "Partition": 3, **wishes},
    )  # fmt: skip


def all_loaded(found: Solved) -> bool:
    """Whether every state that was picked was loaded, and what is left out is named."""
    left = {t.ended for t in found.tallies if t.ended}
    return left <= {NOT_LOADABLE, IMPOSSIBLE} and all(t.loaded == t.picked for t in found.tallies)


def led_to(found: Solved) -> set[str]:
    """The actions that were taken in states to which the cores were led, where none is loaded."""
    led = (t for t in found.tallies if t.led and t.case.allowed)
    return {t.case.action.name for t in led} - PUT


def test_cores_that_have_just_begun_do_as_the_spec_does() -> None:
    """Whatever is stored, and whoever registers: none differs, of five members."""
    found = run(most=2, leading=3)

    assert found.standing == "agrees", "\n".join(found.lines)
    assert all_loaded(found)
    allowed = {t.case.action.name for t in found.tallies if t.loaded and t.case.allowed}
    assert allowed == PUT
    assert led_to(found), "\n".join(found.lines)


def test_a_wrong_core_differs_in_such_states() -> None:
    """Who goes on though it was deposed is noticed where it steps down."""
    found = run("deposed_goes_on", most=3, leading=0, Broker=2, Member=2, Partition=2)

    assert found.questions or found.differences, "\n".join(found.lines)


DEEP = {
    "write_owners", "serve_owners", "answered", "send_start", "handle_start_response",
    "finish_rebalance", "consume", "commit", "handle_commit", "serve_offsets",
}  # fmt: skip
"""What comes once a rebalance is through."""


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_cores_do_as_the_spec_does_in_states_that_satisfy_all_that_is_proved() -> None:
    """With every promise and lemma as a hypothesis: a thousand states, from Register to commit."""
    found = run(
        most=20, leading=40, seconds=3_600, proof=prove(CENTRAL_COORDINATOR),
        Broker=2, Partition=5,
    )  # fmt: skip

    assert found.standing == "agrees", "\n".join(found.lines)
    assert all_loaded(found)
    assert found.states >= 1_000
    assert led_to(found) >= DEEP
