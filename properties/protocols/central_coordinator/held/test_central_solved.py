"""The coordinators' cores in states that z3 picks: of one that has just begun, at five members."""

from __future__ import annotations

from typing import Any

import pytest

from herdproof.conformance.solver.solved import NOT_LOADABLE, Solved, solved
from herdproof.protocols.central_coordinator.held.mistaken import cores
from herdspec.check.proof.prove import Proof, prove
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR, HELD

pytestmark = pytest.mark.xdist_group("central coordinator solved")

PUT = {
    "elect", "coordinator_startup", "lose_session", "doubt", "restart", "register",
    "handle_register", "time_out", "cut", "appear", "begin_rebalance", "send_ping", "produce",
}  # fmt: skip
"""What is allowed in some state into which cores can be put."""


def run(*flaws: str, most: int, proof: Proof | None = None, **sizes: Any) -> Solved:
    """States for each case, so many; without a proof, of what the promises alone say."""
    spec = CENTRAL_COORDINATOR if proof else HELD
    return solved(
        spec, cores(frozenset(flaws)), most=most, seconds=300, settling=2, looking=0, proof=proof,
        **{"Broker": 3, "Member": 5, "Partition": 3, **sizes},
    )  # fmt: skip


def all_loaded(found: Solved) -> bool:
    """Whether every state that was picked was loaded, and what is left out is named."""
    left = {t.ended for t in found.tallies if t.ended}
    return left == {NOT_LOADABLE} and all(t.loaded == t.picked for t in found.tallies)


def test_cores_that_have_just_begun_do_as_the_spec_does() -> None:
    """Whatever is stored, and whoever registers: none differs, of five members."""
    found = run(most=2)

    assert found.standing == "agrees", "\n".join(found.lines)
    assert all_loaded(found)
    allowed = {t.case.action.name for t in found.tallies if t.loaded and t.case.allowed}
    assert allowed == PUT


def test_a_wrong_core_differs_in_such_states() -> None:
    """Who goes on though it was deposed is noticed where it steps down."""
    found = run("deposed_goes_on", most=3, Broker=2, Member=2, Partition=2)

    assert found.questions or found.differences, "\n".join(found.lines)


@pytest.mark.long
def test_cores_do_as_the_spec_does_in_states_that_satisfy_all_that_is_proved() -> None:
    """With every promise and lemma as a hypothesis, two hundred states of each case."""
    found = run(most=200, proof=prove(CENTRAL_COORDINATOR))

    assert found.standing == "agrees", "\n".join(found.lines)
    assert all_loaded(found)
