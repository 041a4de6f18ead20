"""
Reliable broadcast with Byzantine processes: one round of echoes among four, one of them faulty.

After `specifications/bcastByz/bcastByz.tla` of the TLA+ examples (Konnov, Tran, Widder; the
algorithm is Srikanth's and Toueg's, 1987), at the constants of `bcastByz.cfg`: N = 4, T = F = 1.
Which process is faulty, and which have heard the broadcaster, is chosen at the start. A step of a
process receives any set of echoes that were sent (a faulty process' echo is always there), and acts
on what it then knows.
"""

from __future__ import annotations

from enum import Enum

from herdspec import (
    Sort,
    Spec,
    action,
    always,
    each,
    empty,
    initial,
    require,
    sometimes,
    specification,
)

MANY = 3
"""N - T: so many echoes, and some correct process has sent one of them to all."""
SOME = 2
"""N - 2T: so many echoes, and one of them is a correct process'."""


class Process(Sort):
    """A process. There are four."""


class Place(Enum):
    """Where a process stands."""

    UNHEARD = "V0"
    HEARD = "V1"
    SENT = "SE"
    ACCEPTED = "AC"


class Rule(Enum):
    """Why a process takes a step."""

    HEARD = "it has heard the broadcaster"
    ECHOED = "it has some echoes"
    ACCEPTS = "it has many echoes"
    ACCEPTS_LATER = "it has sent its echo, and has many"


class ByzantineBroadcast(Spec):
    """If a correct process accepts a message, all do."""

    place: dict[Process, Place] = each(Place.UNHEARD)
    got: set[tuple[Process, Process]] = empty()  # (p, q): p has received q's echo
    sent: set[Process] = empty()
    faulty: dict[Process, bool] = each(False)

    @initial
    def start(self, faulty: Process, heard: set[Process]) -> None:
        """One process is faulty, and some have heard the broadcaster."""
        for p in Process:
            self.faulty[p] = p == faulty
            self.place[p] = Place.HEARD if p in heard else Place.UNHEARD

    def count(self, p: Process) -> int:
        """How many echoes a process has received."""
        return sum(1 for q in Process if (p, q) in self.got)

    @action
    def take(self, p: Process, rule: Rule, echoes: set[Process]) -> None:
        """{p} receives the echoes of {echoes}, and acts because {rule}."""
        require(not self.faulty[p])
        require(all(q not in echoes or q in self.sent or self.faulty[q] for q in Process))
        for q in Process:
            if q in echoes:
                self.got.add((p, q))
        match rule:
            case Rule.HEARD:
                require(self.place[p] == Place.HEARD)
                self.echo(p)
            case Rule.ECHOED:
                require(self.place[p] in (Place.UNHEARD, Place.HEARD))
                require(self.count(p) >= SOME and self.count(p) < MANY)
                self.echo(p)
            case Rule.ACCEPTS:
                require(self.place[p] in (Place.UNHEARD, Place.HEARD) and self.count(p) >= MANY)
                self.echo(p)
                self.place[p] = Place.ACCEPTED
            case Rule.ACCEPTS_LATER:
                require(self.place[p] == Place.SENT and self.count(p) >= MANY)
                self.place[p] = Place.ACCEPTED

    def echo(self, p: Process) -> None:
        """A process sends its echo to all."""
        self.place[p] = Place.SENT
        self.sent.add(p)

    @action
    def stay(self) -> None:
        """Nothing happens."""


@always
def echoes_come_from_senders(s: ByzantineBroadcast) -> bool:
    """Whose echo was received has sent it, or is faulty."""
    return all((p, q) not in s.got or q in s.sent or s.faulty[q] for p in Process for q in Process)


@sometimes
def all_accept(s: ByzantineBroadcast) -> bool:
    """All correct processes accept."""
    return all(s.faulty[p] or s.place[p] == Place.ACCEPTED for p in Process)


BYZANTINE_BROADCAST = specification(ByzantineBroadcast, echoes_come_from_senders, all_accept)
