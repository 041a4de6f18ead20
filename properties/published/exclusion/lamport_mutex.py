"""
Lamport's distributed mutual exclusion: logical clocks, and a FIFO channel per pair of processes.

After `specifications/lamport_mutex/LamportMutex.tla` of the TLA+ examples (Merz; the algorithm is
Lamport's, "Time, Clocks and the Ordering of Events in a Distributed System", 1978), at the
constants of `MCLamportMutex.cfg`: three processes, clocks up to 6. TLC discards states beyond
that bound; here it is the bound of naturals, with the same effect: such a successor is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from herdspec import (
    Capacity,
    Nat,
    Spec,
    UpTo,
    action,
    always,
    each,
    empty,
    require,
    sometimes,
    specification,
)

PROCESSES = 3
Process = Annotated[Nat, UpTo(2)]
"""A process; ties between equal clocks go to the lesser number."""


class Kind(Enum):
    """What a message says."""

    REQUEST = "request"
    ACKNOWLEDGE = "acknowledge"
    RELEASE = "release"


@dataclass(frozen=True)
class Message:
    """A message; only requests carry their sender's clock, the others 0."""

    kind: Kind
    clock: Nat


class LamportMutex(Spec):
    """Processes enter the critical section one at a time, in the order of their requests."""

    clock: dict[Process, Nat] = each(1)
    asked: dict[tuple[Process, Process], Nat] = each(0)  # [p, q]: q's request, as p knows it
    agreed: set[tuple[Process, Process]] = empty()  # (p, q): q has acknowledged p's request
    network: dict[tuple[Process, Process], Annotated[list[Message], Capacity(3)]] = each(empty())
    inside: set[Process] = empty()

    @action
    def request(self, p: Process) -> None:
        """{p} asks for the critical section."""
        require(self.asked[p, p] == 0)
        self.asked[p, p] = self.clock[p]
        for q in range(PROCESSES):
            if q != p:
                self.network[p, q].append(Message(kind=Kind.REQUEST, clock=self.clock[p]))
                self.agreed.discard((p, q))
        self.agreed.add((p, p))

    @action
    def receive_request(self, p: Process, q: Process) -> None:
        """{p} receives a request of {q}, and acknowledges it."""
        require(p != q and len(self.network[q, p]) > 0)
        clock = self.network[q, p][0].clock
        require(self.network[q, p][0].kind == Kind.REQUEST)
        self.network[q, p].pop(0)
        self.asked[p, q] = clock
        self.clock[p] = (clock if clock > self.clock[p] else self.clock[p]) + 1
        self.network[p, q].append(Message(kind=Kind.ACKNOWLEDGE, clock=0))

    @action
    def receive_acknowledgement(self, p: Process, q: Process) -> None:
        """{p} receives an acknowledgement from {q}."""
        require(p != q and len(self.network[q, p]) > 0)
        require(self.network[q, p][0].kind == Kind.ACKNOWLEDGE)
        self.network[q, p].pop(0)
        self.agreed.add((p, q))

    @action
    def enter(self, p: Process) -> None:
        """{p} enters the critical section."""
        require(all((p, q) in self.agreed for q in range(PROCESSES)))
        require(all(q == p or self.beats(p, q) for q in range(PROCESSES)))
        self.inside.add(p)

    def beats(self, p: Process, q: Process) -> bool:
        """The process believes that its request goes before the other's."""
        return (
            self.asked[p, q] == 0
            or self.asked[p, p] < self.asked[p, q]
            or (self.asked[p, p] == self.asked[p, q] and p < q)
        )

    @action
    def leave(self, p: Process) -> None:
        """{p} leaves the critical section, and tells the others."""
        require(p in self.inside)
        self.inside.discard(p)
        self.asked[p, p] = 0
        for q in range(PROCESSES):
            self.agreed.discard((p, q))
            if q != p:
                self.network[p, q].append(Message(kind=Kind.RELEASE, clock=0))

    @action
    def receive_release(self, p: Process, q: Process) -> None:
        """{p} learns that {q} has left."""
        require(p != q and len(self.network[q, p]) > 0)
        require(self.network[q, p][0].kind == Kind.RELEASE)
        self.network[q, p].pop(0)
        self.asked[p, q] = 0


@always
def mutual_exclusion(s: LamportMutex) -> bool:
    """At most one process is in the critical section."""
    return all(
        not (p in s.inside and q in s.inside)
        for p in range(PROCESSES)
        for q in range(PROCESSES)
        if p != q
    )


@sometimes
def the_last_gets_in(s: LamportMutex) -> bool:
    """The process that loses all ties gets into the critical section, after another was there."""
    return 2 in s.inside and s.clock[2] > 4


LAMPORT_MUTEX = specification(LamportMutex, mutual_exclusion, the_last_gets_in)
