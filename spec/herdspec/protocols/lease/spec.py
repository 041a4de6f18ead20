"""
A lease under clocks that drift: the holder stops before the grantor may count it as over.

The grantor (ZooKeeper, or a coordinator) counts for how long it has not heard of a holder, and ends
the lease after `timeout`. The holder sends requests; once one is answered it may deliver until its
own clock has gone `lease` on *from the sending*: whatever the grantor has heard, it has heard
later. So neither clock is ever compared with the other, and no message has to be fast.

Two clocks go differently. Lengths are counted in what the slowest clock that is allowed shows: in
one tick of the grantor's it advances by `slowest`, and a holder's clock by `tick` in one of its
own. A holder's clock that drifts by d loses at most that part: `slowest` is (1 - d) · `tick`. How
far a holder's clock is `behind` such a slowest one, since any moment, is a leaky bucket: the
grantor's ticks fill it, the holder's empty it, and clocks that drift no more than that never have
more in it than a tick of each. How fast a holder's clock may be, nobody has to bound: that one
stops too early.

The bound is that `lease`, the tick of each, and what the grantor counts too `late`, are together
no longer than `timeout`. Of a drift d and a time-out T by the grantor's clock that says, but for
the ticks: lease <= (1 - d) · T - late.

Source: *ours*, after Gray and Cheriton, "Leases" (SOSP 1989).

Assumed: clocks drift by less than the bound, and are never set; what the grantor counts of a
request that it answers begins at most `late` before the request was sent; a holder that is over its
lease by its own clock delivers nothing.
Not modelled: how long messages are under way (any time), more than one request of a holder under
way, who may be granted a lease.
"""

from __future__ import annotations

from enum import Enum

from herdspec import Nat, Spec, action, command, each, fault, require
from herdspec.protocols.group import Member as Member
from herdspec.protocols.lease.accepted_mutants import SURVIVORS as SURVIVORS  # `mutate` looks here


class Request(Enum):
    """State of a holder's request."""

    NONE = "none"
    SENT = "sent"
    HEARD = "heard"


class LeaseClocks(Spec):
    """A grantor's clock, and one clock of each holder."""

    # How long everything lasts, as the slowest clock shows it; no action changes these.
    timeout: Nat = 8  # what the grantor waits for
    lease: Nat = 4  # for how long a holder delivers, by its own clock
    late: Nat = 1  # by how much the grantor may count from too early
    tick: Nat = 2  # a tick of a holder's clock
    slowest: Nat = 1  # what the slowest clock advances by during one of the grantor's

    granted: dict[Member, bool] = each(False)  # the grantor has not ended it
    waited: dict[Member, Nat] = each(0)  # for how long the grantor has not heard of the holder
    request: dict[Member, Request] = each(Request.NONE)
    since_sent: dict[Member, Nat] = each(0)  # by its own clock, since it was sent
    answered: dict[Member, bool] = each(False)  # one was
    since: dict[Member, Nat] = each(0)  # by its own clock, since the last of these was sent
    behind: dict[Member, Nat] = each(0)  # by how much the slowest clock would be ahead

    # ── Leases ──────────────────────────────────────────────────────────────────────────────

    @action(kind=command)
    def grant(self, m: Member) -> None:
        """{m} is granted a lease, and has yet to learn that it holds one."""
        require(not self.granted[m])
        self.granted[m] = True
        self.waited[m] = 0

    @action
    def end(self, m: Member) -> None:
        """The grantor has not heard of {m} for its time-out: the lease is over."""
        require(self.granted[m] and self.waited[m] >= self.timeout)
        self.granted[m] = False

    @action(kind=command)
    def give_back(self, m: Member, told: bool) -> None:
        """{m} stops, and gives its lease back, if the grantor is told ({told})."""
        if told:
            self.granted[m] = False
        self.request[m] = Request.NONE
        self.answered[m] = False

    # ── Requests ────────────────────────────────────────────────────────────────────────────

    @action
    def ask(self, m: Member) -> None:
        """{m} sends a request, and looks at its clock."""
        require(self.request[m] == Request.NONE)
        self.request[m] = Request.SENT
        self.since_sent[m] = 0

    @action
    def hear(self, m: Member) -> None:
        """The grantor hears of {m}, or has heard of it a little earlier; it answers."""
        require(self.granted[m] and self.request[m] == Request.SENT)
        self.request[m] = Request.HEARD
        self.waited[m] = min(self.waited[m], self.late)

    @action
    def learn(self, m: Member) -> None:
        """{m} is answered: its lease is as long as if it had begun with the sending."""
        require(self.request[m] == Request.HEARD)
        self.request[m] = Request.NONE
        self.answered[m] = True
        self.since[m] = self.counted(m)

    @action(kind=fault)
    def lose(self, m: Member) -> None:
        """The request of {m}, or its answer, is lost."""
        require(self.request[m] != Request.NONE)
        self.request[m] = Request.NONE

    # ── Clocks ──────────────────────────────────────────────────────────────────────────────

    @action
    def grantor_ticks(self) -> None:
        """The grantor's clock ticks, if no holder's is too slow for that."""
        require(all(self.behind[m] <= self.tick for m in Member))
        for m in Member:
            self.behind[m] = self.behind[m] + self.slowest
            self.waited[m] = min(self.waited[m] + self.slowest, self.timeout)

    @action
    def holder_ticks(self, m: Member) -> None:
        """The clock of {m} ticks."""
        self.behind[m] = self.behind[m] - min(self.behind[m], self.tick)
        self.since[m] = min(self.since[m] + self.tick, self.lasts())
        self.since_sent[m] = min(self.since_sent[m] + self.tick, self.lasts())

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def lasts(self) -> Nat:
        """For how long a holder delivers once it has sent what is answered."""
        return self.lease

    def counted(self, m: Member) -> Nat:
        """Where the lease of an answered request begins: with its sending."""
        return self.since_sent[m]

    def may_deliver(self, m: Member) -> bool:
        """By its own clock, the holder's lease is not over."""
        return self.answered[m] and self.since[m] < self.lasts()


class AnyClocks(LeaseClocks):
    """Leases with clocks, whatever the lengths: for proofs."""

    @action(kind=command)
    def lengthen(self, timeout: bool, lease: bool, late: bool, tick: bool, slowest: bool) -> None:
        """Before anything begins, lengths grow within the bound: to any ratio of two of them."""
        require(all(not self.granted[m] and not self.answered[m] for m in Member))
        require(all(self.request[m] == Request.NONE for m in Member))
        self.timeout = self.timeout + (1 if timeout else 0)
        self.lease = self.lease + (1 if lease else 0)
        self.late = self.late + (1 if late else 0)
        self.tick = self.tick + (1 if tick else 0)
        self.slowest = self.slowest + (1 if slowest else 0)
        require(self.lease + self.tick + self.slowest + self.late <= self.timeout)
