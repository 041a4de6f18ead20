"""
A lease that is safe only if clocks agree, and its fence, which needs no clock.

The assumption is a helper, `is_over`: in `LEASE` it is true at any time, in `CLOCKS_AGREE` only
once the client has stopped. What differs between the two is that one function, so a promise that
only the second keeps is kept by the assumption; `EXPECTED` says how the first breaks it.

Assumed: nothing of clocks in LEASE and UNFENCED; in CLOCKS_AGREE and CLOCKS_ALONE, that the server
counts a lease as over only after its client does.

Not modelled: renewals, and writes that are under way when a client stops.
"""

from __future__ import annotations

from herdspec import (
    Nat,
    Sort,
    Spec,
    action,
    always,
    each,
    lemma,
    require,
    sometimes,
    specification,
    step,
)
from herdspec.check.verdict import Failure


class Client(Sort):
    """Whoever wants to write."""


class Lease(Spec):
    """A server leases the right to write, to one client at a time, under a growing number."""

    holder: Client | None = None  # who has the lease, as the server knows
    believes: dict[Client, bool] = each(False)  # whose own clock says that it has the lease
    term: Nat = 0  # the number of the latest lease
    token: dict[Client, Nat] = each(0)  # the number of a client's latest lease
    written: Nat = 0  # the number that the last write brought along

    def is_over(self, c: Client) -> bool:
        """The server may count its holder's lease as over at any time: clocks promise nothing."""
        return self.holder == c

    def admits(self, c: Client) -> bool:
        """The fence: a write under an older lease than the last one's is refused."""
        return self.token[c] >= self.written

    @action(disturbs=True)
    def grant(self, c: Client) -> None:
        """The server leases to {c}, under a new number."""
        require(self.holder is None)
        self.holder = c
        self.term += 1
        self.token[c] = self.term
        self.believes[c] = True

    @action
    def stop(self, c: Client) -> None:
        """By its own clock the lease of {c} is over: it stops."""
        require(self.believes[c])
        self.believes[c] = False

    @action
    def expire(self) -> None:
        """By the server's clock the lease is over."""
        assert self.holder is not None
        require(self.is_over(self.holder))
        self.holder = None

    @action
    def write(self, c: Client) -> None:
        """{c} writes, and brings along the number of its lease."""
        require(self.believes[c] and self.admits(c))
        self.written = self.token[c]


def only_after_it_stopped(self: Lease, c: Client) -> bool:
    """The assumption: the server counts a lease as over only after its client does."""
    return not self.believes[c]


def any_write(self: Lease, c: Client) -> bool:
    """No fence: every write is accepted."""
    return True


@always
def one_client_at_a_time(s: Lease) -> bool:
    """At most one client believes that it has the lease."""
    return all(not (s.believes[a] and s.believes[b]) for a in Client for b in Client if a != b)


@step
def writes_never_go_back(before: Lease, after: Lease) -> bool:
    """A write under an older lease never follows one under a newer lease."""
    return before.written <= after.written


@sometimes
def the_lease_is_passed_on(s: Lease) -> bool:
    """A client has the lease that another one had before."""
    return any(s.believes[a] and s.token[b] > 0 for a in Client for b in Client if a != b)


@lemma
def whoever_believes_is_the_holder(s: Lease) -> bool:
    """Whoever believes that it has the lease is the server's holder."""
    return all(not s.believes[c] or s.holder == c for c in Client)


@lemma
def whoever_believes_has_the_latest_lease(s: Lease) -> bool:
    """Whoever believes that it has the lease has the latest, and no write is ahead of that."""
    return s.written <= s.term and all(not s.believes[c] or s.token[c] == s.term for c in Client)


LEMMAS = (whoever_believes_is_the_holder, whoever_believes_has_the_latest_lease)
"""What holds under the assumption only, and proves both promises there."""

LEASE = specification(Lease, one_client_at_a_time, writes_never_go_back, the_lease_is_passed_on)
UNFENCED = LEASE.replace("Unfenced", admits=any_write)
CLOCKS_AGREE = LEASE.replace("ClocksAgree", is_over=only_after_it_stopped).with_properties(*LEMMAS)
CLOCKS_ALONE = UNFENCED.replace("ClocksAlone", is_over=only_after_it_stopped).with_properties(
    *LEMMAS
)

TWO_BELIEVE = Failure(3, "grant")
"""Granted, over by the server's clock alone, granted to another."""
EXPECTED = {
    "LEASE": {"one_client_at_a_time": TWO_BELIEVE},
    "UNFENCED": {"one_client_at_a_time": TWO_BELIEVE, "writes_never_go_back": Failure(5, "write")},
}
MAY_END = True  # only so many leases are granted, and the last one ends
