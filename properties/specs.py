"""Small specs that the suites share: a counter, a lock server, two-phase commit.

Two-phase commit is the textbook model (Gray and Lamport, "Consensus on Transaction Commit"; the
TLA+ examples and Stateright check it too), so that its numbers of states are known from elsewhere.
"""

from __future__ import annotations

from enum import Enum

from herdspec import (
    Nat,
    Sort,
    Spec,
    action,
    always,
    command,
    each,
    fault,
    lemma,
    recoverable,
    require,
    sometimes,
    specification,
    step,
)

# ── A counter ───────────────────────────────────────────────────────────────────────────────


class Counter(Spec):
    """A counter that counts to three."""

    n: Nat = 0

    @action
    def tick(self) -> None:
        """It counts."""
        require(self.n < 3)
        self.n = self.n + 1


@always
def never_above_three(s: Counter) -> bool:
    """It never counts above three."""
    return s.n <= 3


@always
def never_above_one(s: Counter) -> bool:
    """It never counts above one (it does)."""
    return s.n <= 1


@sometimes
def it_gets_to_three(s: Counter) -> bool:
    """It gets to three."""
    return s.n == 3


@sometimes
def it_gets_to_four(s: Counter) -> bool:
    """It gets to four (it does not)."""
    return s.n == 4


@recoverable
def it_can_get_to_three(s: Counter) -> bool:
    """From wherever it is, it can get to three."""
    return s.n == 3


@recoverable
def it_can_get_to_zero(s: Counter) -> bool:
    """From wherever it is, it can get back to zero (it cannot)."""
    return s.n == 0


@step
def it_counts_by_one(before: Counter, after: Counter) -> bool:
    """It counts by one."""
    return after.n == before.n + 1


@step
def it_never_counts_to_two(before: Counter, after: Counter) -> bool:
    """No step leads to two (one does)."""
    return after.n != 2


# ── A lock server ───────────────────────────────────────────────────────────────────────────


class Client(Sort):
    """Somebody who wants the lock."""


class LockServer(Spec):
    """A server hands one lock to its clients, by messages."""

    free: bool = True  # the server has the lock
    asked: dict[Client, bool] = each(False)  # a request is on its way
    granted: dict[Client, bool] = each(False)  # a grant is on its way
    holds: dict[Client, bool] = each(False)
    returned: dict[Client, bool] = each(False)  # the lock is on its way back

    @action(kind=command)
    def ask(self, c: Client) -> None:
        """{c} asks for the lock."""
        require(not self.asked[c])
        self.asked[c] = True

    @action
    def grant(self, c: Client) -> None:
        """The server grants the lock to {c}."""
        require(self.free and self.asked[c])
        self.free = False
        self.asked[c] = False
        self.granted[c] = True

    @action
    def take(self, c: Client) -> None:
        """{c} gets the lock."""
        require(self.granted[c])
        self.granted[c] = False
        self.holds[c] = True

    @action
    def give_back(self, c: Client) -> None:
        """{c} gives the lock back."""
        require(self.holds[c])
        self.holds[c] = False
        self.returned[c] = True

    @action
    def accept(self, c: Client) -> None:
        """The server has the lock again."""
        require(self.returned[c])
        self.returned[c] = False
        self.free = True

    @action(kind=fault)
    def lose_request(self, c: Client) -> None:
        """A request of {c} is lost."""
        require(self.asked[c])
        self.asked[c] = False


def has_it(s: LockServer, c: Client) -> bool:
    """The lock is with this client, or on its way from or to it."""
    return s.granted[c] or s.holds[c] or s.returned[c]


@always
def one_client_at_a_time(s: LockServer) -> bool:
    """At most one client holds the lock."""
    return all(not (s.holds[a] and s.holds[b]) for a in Client for b in Client if a != b)


@step
def a_grant_takes_the_servers_lock(before: LockServer, after: LockServer) -> bool:
    """What is granted is taken from the server."""
    return all(before.granted[c] or not after.granted[c] or before.free for c in Client)


@sometimes
def a_client_holds_it_while_another_asks(s: LockServer) -> bool:
    """A client holds the lock, and another has asked for it."""
    return any(s.holds[a] and s.asked[b] for a in Client for b in Client if a != b)


@recoverable
def the_server_gets_its_lock_back(s: LockServer) -> bool:
    """The server can get its lock back."""
    return s.free


@lemma
def the_lock_is_in_one_place(s: LockServer) -> bool:
    """The lock is with the server, or with one client in one way."""
    return all(
        not (s.free and has_it(s, a))
        and not (s.granted[a] and s.holds[a])
        and not (s.granted[a] and s.returned[a])
        and not (s.holds[a] and s.returned[a])
        for a in Client
    ) and all(not (has_it(s, a) and has_it(s, b)) for a in Client for b in Client if a != b)


LOCK_SERVER = specification(
    LockServer,
    one_client_at_a_time,
    a_grant_takes_the_servers_lock,
    a_client_holds_it_while_another_asks,
    the_server_gets_its_lock_back,
    the_lock_is_in_one_place,
)

# ── Two-phase commit ────────────────────────────────────────────────────────────────────────


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
    """A transaction manager gets resource managers to commit together, or not at all."""

    phase: dict[Manager, Phase] = each(Phase.WORKING)
    decision: Decision = Decision.NONE
    known: dict[Manager, bool] = each(False)  # the transaction manager knows that it is prepared
    prepared: dict[Manager, bool] = each(False)  # its message "prepared" was sent
    commit: bool = False  # the message "commit" was sent
    abort: bool = False  # the message "abort" was sent

    @action
    def receive_prepared(self, m: Manager) -> None:
        """The transaction manager learns that {m} is prepared."""
        require(self.decision == Decision.NONE and self.prepared[m])
        self.known[m] = True

    @action
    def decide_commit(self) -> None:
        """The transaction manager commits."""
        require(self.decision == Decision.NONE and all(self.known[m] for m in Manager))
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
        self.prepared[m] = True

    @action
    def choose_abort(self, m: Manager) -> None:
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
def managers_agree(s: TwoPhaseCommit) -> bool:
    """No resource manager commits while another aborts."""
    return not any(
        s.phase[a] == Phase.ABORTED and s.phase[b] == Phase.COMMITTED
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


TWO_PHASE_COMMIT = specification(TwoPhaseCommit, managers_agree, all_commit, all_abort)
