"""
The contract of a lease: it ends only after its holder has stopped. No clocks, no messages.

A session with ZooKeeper is such a lease, and so is what a coordinator grants to its consumers.
Under which clocks it can be kept is shown by `spec.py`, which refines this.

Assumed: nothing.
Not modelled: time.
"""

from __future__ import annotations

from herdspec.language.specification import specification
from herdspec.language.surface import Spec, action, always, each, require, sometimes, step
from herdspec.protocols.group import Member


class LeaseContract(Spec):
    """Leases that a grantor counts as its holders', and who of them acts on one."""

    granted: dict[Member, bool] = each(False)  # the grantor has not ended it
    delivers: dict[Member, bool] = each(False)  # the holder does what only a holder may

    @action
    def grant(self, m: Member) -> None:
        """{m} is granted a lease; it has yet to learn that it holds one."""
        require(not self.granted[m])
        self.granted[m] = True

    @action
    def begin(self, m: Member) -> None:
        """{m} knows that it holds its lease, and may deliver."""
        require(self.granted[m])
        self.delivers[m] = True

    @action
    def stop(self, m: Member) -> None:
        """{m} counts its lease as over, and has stopped."""
        self.delivers[m] = False

    @action
    def expire(self, m: Member) -> None:
        """The lease of {m}, which has stopped, ends."""
        require(self.granted[m] and not self.delivers[m])
        self.granted[m] = False

    @action
    def give_back(self, m: Member) -> None:
        """{m} stops, and gives its lease back."""
        self.delivers[m] = False
        self.granted[m] = False


@always
def who_delivers_holds_a_lease(s: LeaseContract) -> bool:
    """Whoever delivers holds a lease that has not ended."""
    return all(not s.delivers[m] or s.granted[m] for m in Member)


@step
def no_lease_ends_under_its_holder(before: LeaseContract, after: LeaseContract) -> bool:
    """A lease ends only after its holder has stopped, or as its holder gives it back."""
    return all(not before.granted[m] or after.granted[m] or not after.delivers[m] for m in Member)


@sometimes
def somebody_delivers(s: LeaseContract) -> bool:
    """A holder delivers."""
    return any(s.delivers[m] for m in Member)


LEASE = specification(
    LeaseContract, who_delivers_holds_a_lease, no_lease_ends_under_its_holder, somebody_delivers
)
"""Spec of what whoever assumes a lease is owed."""
