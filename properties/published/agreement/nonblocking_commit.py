"""
Non-blocking atomic commitment, and the same with the mistake that its authors planted.

After `specifications/acp/ACP_NB.tla` and `ACP_NB_WRONG_TLC.tla` of the TLA+ examples (Charpov), at
the constants of their models: two participants. Both are variants of `atomic_commit.py`: here who
hears a decision forwards it to all others *before* it decides. In the wrong one it decides first,
and forwards whatever it has decided, even that it has not; the manifest declares a "safety
failure", of AC1.
"""

from __future__ import annotations

from herdspec import action, require, specification
from properties.published.agreement.atomic_commit import (
    ATOMIC_COMMIT,
    AtomicCommit,
    Decision,
    Forward,
    Participant,
    ac1,
)

AC1_ALONE = specification(AtomicCommit, ac1)


@action
def forward(self: AtomicCommit, p: Participant, to: Participant) -> None:
    """{p} forwards to {to} what it is going to decide."""
    require(p != to and self.alive[p])
    require(self.forwarded[p, p] != Forward.NOTHING)
    require(self.forwarded[p, to] == Forward.NOTHING)
    self.forwarded[p, to] = self.forwarded[p, p]


@action
def hear_from_another(self: AtomicCommit, p: Participant, source: Participant) -> None:
    """{p} hears from {source} what to decide."""
    require(p != source and self.alive[p])
    require(self.forwarded[p, p] == Forward.NOTHING)
    require(self.forwarded[source, p] != Forward.NOTHING)
    self.forwarded[p, p] = self.forwarded[source, p]


@action
def hear_from_the_coordinator(self: AtomicCommit, p: Participant) -> None:
    """{p} hears from the coordinator what to decide."""
    require(self.alive[p] and self.forwarded[p, p] == Forward.NOTHING)
    require(self.told[p] != Decision.NONE)
    self.forwarded[p, p] = Forward.COMMIT if self.told[p] == Decision.COMMIT else Forward.ABORT


def decide(self: AtomicCommit, p: Participant) -> None:
    """{p} has forwarded the decision to all, and decides so."""
    require(self.alive[p])
    require(all(self.forwarded[p, q] != Forward.NOTHING for q in Participant))
    self.decision[p] = Decision.COMMIT if self.forwarded[p, p] == Forward.COMMIT else Decision.ABORT


@action
def abort_on_timeout(self: AtomicCommit, p: Participant) -> None:
    """All that could tell {p} a decision have died before they told it: it aborts."""
    require(self.alive[p] and self.decision[p] == Decision.NONE and not self.coordinator_alive)
    require(all(not self.alive[q] or self.told[q] == Decision.NONE for q in Participant))
    require(
        all(
            self.alive[q] or not self.alive[r] or self.forwarded[q, r] == Forward.NOTHING
            for q in Participant
            for r in Participant
        )
    )
    self.decision[p] = Decision.ABORT


NONBLOCKING_COMMIT = ATOMIC_COMMIT.replace("NonblockingCommit", decide=decide).add(
    "NonblockingCommit",
    forward=forward,
    hear_from_another=hear_from_another,
    hear_from_the_coordinator=hear_from_the_coordinator,
    abort_on_timeout=abort_on_timeout,
)

# ── The mistake ─────────────────────────────────────────────────────────────────────────────


@action
def forward_too_late(self: AtomicCommit, p: Participant, to: Participant) -> None:
    """{p} forwards to {to} what it has decided."""
    require(p != to and self.alive[p])
    require(self.forwarded[p, to] == Forward.NOTHING)
    match self.decision[p]:
        case Decision.NONE:
            self.forwarded[p, to] = Forward.UNDECIDED
        case Decision.COMMIT:
            self.forwarded[p, to] = Forward.COMMIT
        case Decision.ABORT:
            self.forwarded[p, to] = Forward.ABORT


@action
def decide_too_early(self: AtomicCommit, p: Participant, source: Participant) -> None:
    """{p} decides what {source} has forwarded."""
    require(p != source and self.alive[p] and self.decision[p] == Decision.NONE)
    require(self.forwarded[source, p] != Forward.NOTHING)
    match self.forwarded[source, p]:
        case Forward.COMMIT:
            self.decision[p] = Decision.COMMIT
        case Forward.ABORT:
            self.decision[p] = Decision.ABORT


WRONG_COMMIT = AC1_ALONE.add(
    "WrongCommit",
    forward=forward_too_late,
    decide_on_forward=decide_too_early,
    abort_on_timeout=abort_on_timeout,
)
