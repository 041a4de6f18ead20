"""
Cores held to the variant of the spec whose members resume: what they do by default.

What cannot be seen, beside what cannot be of the others: `over` and `known_over`, what Registers
say of former registrations. Here a consumer's next registration is the same member, whose former
ones are over in the spec whether that is said or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from herdproof.conformance.adapter import forwards, varied
from herdproof.protocols.central_coordinator.held.adapter import CentralCores, is_queued
from herdproof.protocols.central_coordinator.held.mistaken import mistaken
from herdspec.language.specification import Specification
from herdspec.protocols.central_coordinator.spec import Member
from herdspec.protocols.central_coordinator.variants.resuming_properties import RESUMING_HELD
from herdspec.protocols.election.spec import Broker


@forwards(RESUMING_HELD)
class ResumingCores(CentralCores):
    """Coordinators that adopt, and consumers that consume on without a connection."""

    absent: ClassVar = {
        **CentralCores.absent,
        "register_again": "whoever comes back is the same member, and names nobody else",
    }
    follows: ClassVar = {
        **CentralCores.follows, "handle_resume": CentralCores.follows["handle_register"],
    }  # fmt: skip
    undue = (*CentralCores.undue, "begin_rebalance", "abandon_rebalance")
    """Leases are waited for before: that of who asks a broker to resume ends by the answer."""
    offered = (*CentralCores.offered, "resume")
    reluctant = (*CentralCores.reluctant, "handle_resume", "commit")
    """Who has resumed commits once it knows of that, by the next request."""

    def _has_waited(self, b: Broker) -> bool:
        """As a rebalance is not due, a group may be queued long after what it waited for."""
        return is_queued(self.world.brokers[b.index].group)


def goes_by_the_clock(self: CentralCores, m: Member) -> None:
    """Coordinators find that a lease is over; whose it is does not look at its clock."""
    world = self.world
    for b, broker in enumerate(world.brokers):
        for registration in [*broker.group.ghosts] if broker.group else ():
            if world.registered[registration][0] == m.index:
                world.end_lease(b, registration)


OWN_STEPS: Mapping[str, Mapping[str, Any]] = {"resumes_too_late": {"time_out": goes_by_the_clock}}
"""By mistake, what the actions of its variant are that are not the same."""


def resuming_cores(switches: frozenset[str], spec: Specification) -> type[CentralCores]:
    """The adapter of cores with these mistakes, for a variant of this variant, or for itself."""
    if not switches:
        return ResumingCores
    steps = {name: step for s in switches for name, step in OWN_STEPS.get(s, {}).items()}
    return varied(ResumingCores, RESUMING_HELD, spec, **mistaken(switches), **steps)
