"""The assumption `lease`, discharged: by the spec of a coordinator with clocks."""

from __future__ import annotations

import pytest

from herdspec import require
from herdspec.check.plans import FULL, plan_of
from herdspec.check.proof.prove import SolverAnswer, prove
from herdspec.check.refinement.refine import refine_by_exploration, refine_by_running
from herdspec.protocols.central_coordinator.kept import DISCHARGES
from herdspec.protocols.central_coordinator.plan import ALONE_TIMED, LENGTH
from herdspec.protocols.central_coordinator.spec import Asked, Kind, Member
from herdspec.protocols.central_coordinator.timed import (
    DISCHARGE,
    EXPLORED,
    TIMED,
    TimedCoordinator,
    untimed_ask,
)
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.lease.spec import Request


def test_whose_lease_is_over_has_stopped() -> None:
    """For any number of members, and whatever the clocks do within the bound, it is proved."""
    found = prove(TIMED)

    assert found.proved
    assert (found.vacuous, found.unsure) == ([], [])


def test_a_coordinator_with_clocks_does_what_the_assumption_allows() -> None:
    """At small lengths every step is one under the assumption, and every one of these is met."""
    seen = refine_by_exploration(DISCHARGE, ALONE_TIMED, faults=1, bound=LENGTH)

    assert seen.exploration is not None
    assert seen.exploration.states == 473_536
    assert not seen.exploration.violations
    assert seen.exploration.complete
    assert (seen.idle, seen.still, seen.exploration.missing) == ([], False, [])


def test_the_plain_python_does_so_too() -> None:
    """On random walks of two members."""
    sizes = {"Broker": 2, "Member": 2, "Partition": 2}
    assert refine_by_running(DISCHARGE, sizes, walks=4, length=40) is None


def end_at_will(self: TimedCoordinator, m: Member) -> None:
    """A coordinator waits for nobody's lease."""
    require(self.books[m] is None and self.clocks.granted[m])
    self.clocks.give_back(m, True)


def ask_without_a_lease(
    self: TimedCoordinator, m: Member, b: Broker, asked: Asked, kind: Kind
) -> None:
    """A request that is sent does not renew what the coordinator counts."""
    untimed_ask(self, m, b, asked, kind)
    require(self.clocks.request[m] == Request.SENT)


def hang_up_later(self: TimedCoordinator, m: Member) -> None:
    """The clock of {m} ticks, and nobody looks at it."""
    self.clocks.holder_ticks(m)


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        ("end_lease", end_at_will),
        ("ask", ask_without_a_lease),
        ("tick", hang_up_later),
    ],
)
def test_without_a_rule_of_the_lease_it_is_not_discharged(part: str, instead: object) -> None:
    """A rule that is broken leaves something unproved."""
    spec = TIMED.replace("Careless", **{part: instead})  # type: ignore[arg-type]

    assert any(o.outcome is not SolverAnswer.PROVED for o in prove(spec).obligations)


def test_verify_asks_for_what_discharges_it() -> None:
    """The plan proves the assumption, and looks at every step."""
    names = [check.name for check in plan_of("central_coordinator", FULL).checks]
    (discharge,) = DISCHARGES

    assert discharge.by in {("timed", p.name) for p in TIMED.properties}
    assert {p.name for p in TIMED.properties} <= {p.name for p in EXPLORED.properties}
    assert {"prove timed", f"refine timed to {DISCHARGE.abstract.name}"} <= {
        name.partition(":")[0] for name in names
    }
