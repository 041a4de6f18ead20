"""The lease under clocks that drift, seen as the contract of a lease: whatever the lengths."""

from __future__ import annotations

from herdspec.check.refinement.refine import STUTTER, Refinement
from herdspec.protocols.lease.contract import LEASE
from herdspec.protocols.lease.properties import ANY_CLOCKS, LEASE_CLOCKS
from herdspec.protocols.lease.spec import LeaseClocks, Member


def granted(s: LeaseClocks, m: Member) -> bool:
    """The grantor has not ended it."""
    return s.granted[m]


def delivers(s: LeaseClocks, m: Member) -> bool:
    """By the holder's clock it is not over."""
    return s.may_deliver(m)


ACTIONS: dict[str, tuple[str, ...]] = {
    "grant": ("grant",),
    "end": ("expire",),
    "give_back": ("give_back", "stop"),
    "learn": ("begin", STUTTER),
    "holder_ticks": ("stop", STUTTER),
}
REFINEMENT = Refinement(LEASE_CLOCKS, LEASE, (granted, delivers), ACTIONS)
"""At small lengths, as it is explored."""
REFINEMENT_ANY = Refinement(ANY_CLOCKS, LEASE, (granted, delivers), ACTIONS)
"""Whatever the lengths, as it is proved."""
