"""
Flaws of a lease: each is a rule of the holder's, or of the grantor's, that fails.

With one holder, and clocks of which the holder's may drift by half.
"""

from __future__ import annotations

from collections.abc import Callable

from herdspec import Nat, action, fault, require
from herdspec.language.specification import Specification
from herdspec.protocols.flaws import Failure, Flaw
from herdspec.protocols.lease.properties import HELD
from herdspec.protocols.lease.spec import LeaseClocks, Member, Request


@action(kind=fault)
def set_back(self: LeaseClocks, m: Member) -> None:
    """The clock on the wall of {m} is set to where it stood when the request was sent."""
    require(self.may_deliver(m))
    self.since[m] = 0


def as_many_ticks(self: LeaseClocks) -> Nat:
    """As many ticks of the holder's clock as the grantor waits for: each loses half, at worst."""
    return self.timeout + self.timeout


def a_tick_longer(self: LeaseClocks) -> Nat:
    """One tick more than the bound allows."""
    return self.lease + self.tick


def from_the_answer(self: LeaseClocks, m: Member) -> Nat:
    """The lease is counted from when the answer came."""
    return 0


def hear_and_tell_nobody(self: LeaseClocks, m: Member) -> None:
    """A server answers {m}; who ends leases is not told."""
    require(self.granted[m] and self.request[m] == Request.SENT)
    self.request[m] = Request.HEARD


def _flaw(steps: int, spec: Specification) -> Flaw:
    failures = {"no_lease_ends_before_its_holder_has_stopped": Failure(steps, "end")}
    return Flaw(spec, frozenset(), failures, faults=1, sizes={"Member": 1}, bound=16)


def _but(name: str, **functions: Callable[..., object]) -> Specification:
    return HELD.replace(name, **functions)


FLAWS = {
    "wall_clock": _flaw(17, HELD.add("WallClock", set_back=set_back)),
    "no_drift_margin": _flaw(16, _but("NoDriftMargin", lasts=as_many_ticks)),
    "a_tick_too_long": _flaw(16, _but("ATickTooLong", lasts=a_tick_longer)),
    "counted_from_the_answer": _flaw(16, _but("CountedFromTheAnswer", counted=from_the_answer)),
    "answered_by_another": _flaw(16, _but("AnsweredByAnother", hear=hear_and_tell_nobody)),
}
"""That a tick too long fails says that the bound is tight; the last one, what `late` is for."""
