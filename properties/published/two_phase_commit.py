"""
Two-phase commit: a transaction manager, resource managers, and a set of messages that only grows.

After `specifications/transaction_commit/TwoPhase.tla` of the TLA+ examples (Lamport; the paper is
Gray and Lamport, "Consensus on Transaction Commit"), which is also Stateright's `examples/2pc.rs`.
Known for 3, 5, 6, 7, 8 and 9 resource managers: 288, 8,832, 50,816, 296,448, 1,745,408 and
10,340,352 states.
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
    require,
    sometimes,
    specification,
)


class Manager(Sort):
    """A resource manager."""


class Phase(Enum):
    """What a resource manager has come to."""

    WORKING = "working"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Decision(Enum):
    """What the transaction manager has decided."""

    NONE = "none"
    COMMITTED = "committed"
    ABORTED = "aborted"


class TwoPhaseCommit(Spec):
    """Resource managers commit together, or not at all."""

    phase: dict[Manager, Phase] = each(Phase.WORKING)
    decision: Decision = Decision.NONE
    known: set[Manager] = empty()  # the transaction manager knows that they are prepared
    prepared: set[Manager] = empty()  # the messages "prepared" that were sent
    commit: bool = False  # the message "commit" was sent
    abort: bool = False  # the message "abort" was sent

    @action
    def receive_prepared(self, m: Manager) -> None:
        """The transaction manager learns that {m} is prepared."""
        require(self.decision == Decision.NONE and m in self.prepared)
        self.known.add(m)

    @action
    def decide_commit(self) -> None:
        """The transaction manager commits."""
        require(self.decision == Decision.NONE and all(m in self.known for m in Manager))
        self.decision = Decision.COMMITTED
        self.commit = True

    @action
    def decide_abort(self) -> None:
        """The transaction manager aborts."""
        require(self.decision == Decision.NONE)
        self.decision = Decision.ABORTED
        self.abort = True

    @action
    def prepare(self, m: Manager) -> None:
        """{m} is prepared, and says so."""
        require(self.phase[m] == Phase.WORKING)
        self.phase[m] = Phase.PREPARED
        self.prepared.add(m)

    @action
    def choose_to_abort(self, m: Manager) -> None:
        """{m} aborts by itself."""
        require(self.phase[m] == Phase.WORKING)
        self.phase[m] = Phase.ABORTED

    @action
    def receive_commit(self, m: Manager) -> None:
        """{m} is told to commit."""
        require(self.commit)
        self.phase[m] = Phase.COMMITTED

    @action
    def receive_abort(self, m: Manager) -> None:
        """{m} is told to abort."""
        require(self.abort)
        self.phase[m] = Phase.ABORTED


@always
def consistent(s: TwoPhaseCommit) -> bool:
    """No resource manager has aborted while another has committed."""
    return all(
        not (s.phase[a] == Phase.ABORTED and s.phase[b] == Phase.COMMITTED)
        for a in Manager
        for b in Manager
    )


@sometimes
def all_commit(s: TwoPhaseCommit) -> bool:
    """All resource managers commit."""
    return all(s.phase[m] == Phase.COMMITTED for m in Manager)


@sometimes
def all_abort(s: TwoPhaseCommit) -> bool:
    """All resource managers abort."""
    return all(s.phase[m] == Phase.ABORTED for m in Manager)


TWO_PHASE_COMMIT = specification(TwoPhaseCommit, consistent, all_commit, all_abort)
