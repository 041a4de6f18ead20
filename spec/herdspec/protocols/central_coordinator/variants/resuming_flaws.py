"""Flaws of registrations that are resumed and should not be: one mistake each."""

from __future__ import annotations

from collections.abc import Mapping

from herdspec import Nat, Specification, action, each, fault, require, specification
from herdspec.protocols.central_coordinator.variants.resuming import (
    Broker,
    Member,
    ResumingMembers,
)
from herdspec.protocols.central_coordinator.variants.resuming_properties import (
    RESUMING,
    RESUMING_HELD,
)
from herdspec.protocols.flaws import Failure, Flaw

lease_is_over = ResumingMembers.lease_is_over
adopt = ResumingMembers.adopt


class ResumesTooLate(ResumingMembers):
    """Who has asked to resume consumes until it is answered, whatever its clock says."""

    expired: dict[Member, bool] = each(False)

    @action(kind=fault)
    def time_out(self, m: Member) -> None:
        """The lease of {m} ends; it has asked to resume, and waits for the answer."""
        require(self.link[m] and self.asks_to_resume(m))
        self.expired[m] = True

    def lease_is_over(self, m: Member) -> bool:
        """A coordinator goes by the clock."""
        return lease_is_over(self, m) or (self.expired[m] and self.books[m] is None)


def adopt_without_a_stop(self: ResumingMembers, m: Member, b: Broker, generation: Nat) -> None:
    """Whoever is adopted need not be stopped: not even by a rebalance that has begun."""
    adopt(self, m, b, generation)
    self.stopped[m] = True


def whichever_generation(self: ResumingMembers, m: Member, b: Broker, generation: Nat) -> bool:
    """Who is adopted is a member that was given something; since when, nobody looks at."""
    return self.accepts(m, b) and self.election.token[b] == self.election.epoch


def _flaw(name: str, spec: Specification, failures: Mapping[str, Failure], faults: int) -> Flaw:
    sizes = {"Broker": 1, "Member": 2, "Partition": 1}
    return Flaw(spec, frozenset({name}), dict(failures), faults, sizes, bound=6, form="resuming")


RESUMING_FLAWS = {
    "resumes_too_late": _flaw(
        "resumes_too_late",
        specification(ResumesTooLate, *(p.python for p in RESUMING_HELD.properties)),
        {"exclusive": Failure(28, "handle_start")},
        faults=2,
    ),
    "adopts_meanwhile": _flaw(
        "adopts_meanwhile",
        RESUMING_HELD.replace("AdoptsMeanwhile", adopt=adopt_without_a_stop),
        {"exclusive": Failure(28, "handle_start")},
        faults=1,
    ),
}
"""A member whose lease has ended; a coordinator that adopts what it is giving away."""
ADOPTS_ANY_GENERATION = RESUMING.replace("AdoptsAnyGeneration", adopts=whichever_generation)
"""A coordinator that takes whoever comes back for one that follows the present Start."""
