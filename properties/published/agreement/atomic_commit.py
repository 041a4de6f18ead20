"""
Atomic commitment with a simple broadcast: safe, but a crash can leave participants undecided.

After `specifications/acp/ACP_SB.tla` of the TLA+ examples (Charpov, after Babaoğlu and Toueg,
"Non-Blocking Atomic Commitment", 1993), at the constants of `ACP_SB_TLC.cfg`: three participants.
`nonblocking_commit.py` makes the non-blocking protocol, and the wrong one, from it.
"""

from __future__ import annotations

from enum import Enum

from herdspec import Sort, Spec, action, always, each, initial, require, sometimes, specification


class Participant(Sort):
    """Who votes, and carries out the decision."""


class Vote(Enum):
    """What the coordinator has heard of a participant's vote."""

    WAITING = "waiting"
    YES = "yes"
    NO = "no"


class Decision(Enum):
    """What somebody has decided, or told."""

    NONE = "none"
    COMMIT = "commit"
    ABORT = "abort"


class Forward(Enum):
    """What one participant has forwarded to another (in the variants of `nonblocking_commit`)."""

    NOTHING = "nothing"
    UNDECIDED = "undecided"
    COMMIT = "commit"
    ABORT = "abort"


class AtomicCommit(Spec):
    """A coordinator asks for votes, decides, and tells one participant after the other."""

    votes_yes: dict[Participant, bool] = each(False)  # the participant's vote, chosen beforehand
    alive: dict[Participant, bool] = each(True)
    decision: dict[Participant, Decision] = each(Decision.NONE)
    vote_sent: dict[Participant, bool] = each(False)
    forwarded: dict[tuple[Participant, Participant], Forward] = each(Forward.NOTHING)
    asked: dict[Participant, bool] = each(False)  # the coordinator's part, from here on
    heard: dict[Participant, Vote] = each(Vote.WAITING)
    told: dict[Participant, Decision] = each(Decision.NONE)
    decided: Decision = Decision.NONE
    coordinator_alive: bool = True

    @initial
    def choose_votes(self, votes_yes: dict[Participant, bool]) -> None:
        """Every participant has its vote."""
        self.votes_yes = votes_yes

    # ── The coordinator ─────────────────────────────────────────────────────────────────────

    @action
    def ask(self, p: Participant) -> None:
        """The coordinator asks {p} for its vote."""
        require(self.coordinator_alive and not self.asked[p])
        self.asked[p] = True

    def waits_for(self, p: Participant) -> bool:
        """The coordinator has asked all, and waits for this vote."""
        return (
            self.coordinator_alive
            and self.decided == Decision.NONE
            and all(self.asked[q] for q in Participant)
            and self.heard[p] == Vote.WAITING
        )

    @action
    def hear(self, p: Participant) -> None:
        """The coordinator hears the vote of {p}."""
        require(self.waits_for(p) and self.vote_sent[p])
        self.heard[p] = Vote.YES if self.votes_yes[p] else Vote.NO

    @action
    def detect_fault(self, p: Participant) -> None:
        """{p} has died without a vote: the coordinator decides to abort."""
        require(self.waits_for(p) and not self.alive[p] and not self.vote_sent[p])
        self.decided = Decision.ABORT

    @action
    def decide_commit(self) -> None:
        """All have voted yes: the coordinator decides to commit."""
        require(self.coordinator_alive and self.decided == Decision.NONE)
        require(all(self.heard[p] == Vote.YES for p in Participant))
        self.decided = Decision.COMMIT

    @action
    def decide_abort(self, p: Participant) -> None:
        """All have voted, {p} with no: the coordinator decides to abort."""
        require(self.coordinator_alive and self.decided == Decision.NONE)
        require(all(self.heard[q] != Vote.WAITING for q in Participant))
        require(self.heard[p] == Vote.NO)
        self.decided = Decision.ABORT

    @action
    def tell(self, p: Participant) -> None:
        """The coordinator tells {p} what it has decided."""
        require(self.coordinator_alive and self.decided != Decision.NONE)
        require(self.told[p] == Decision.NONE)
        self.told[p] = self.decided

    @action
    def coordinator_dies(self) -> None:
        """The coordinator dies."""
        require(self.coordinator_alive)
        self.coordinator_alive = False

    # ── The participants ────────────────────────────────────────────────────────────────────

    @action
    def send_vote(self, p: Participant) -> None:
        """{p} sends its vote."""
        require(self.alive[p] and self.asked[p])
        self.vote_sent[p] = True

    @action
    def abort_on_vote(self, p: Participant) -> None:
        """{p} has voted no, and aborts."""
        require(self.alive[p] and self.decision[p] == Decision.NONE)
        require(self.vote_sent[p] and not self.votes_yes[p])
        self.decision[p] = Decision.ABORT

    @action
    def abort_unasked(self, p: Participant) -> None:
        """The coordinator has died without asking {p}, which aborts."""
        require(self.alive[p] and self.decision[p] == Decision.NONE)
        require(not self.coordinator_alive and not self.asked[p])
        self.decision[p] = Decision.ABORT

    @action
    def decide(self, p: Participant) -> None:
        """{p} decides what the coordinator has told."""
        require(self.alive[p] and self.decision[p] == Decision.NONE)
        require(self.told[p] != Decision.NONE)
        self.decision[p] = self.told[p]

    @action
    def die(self, p: Participant) -> None:
        """{p} dies."""
        require(self.alive[p])
        self.alive[p] = False


@always
def ac1(s: AtomicCommit) -> bool:
    """Nobody commits where another aborts (AC1)."""
    return not any(
        s.decision[p] == Decision.COMMIT and s.decision[q] == Decision.ABORT
        for p in Participant
        for q in Participant
    )


@always
def ac2(s: AtomicCommit) -> bool:
    """Who commits does so because all voted yes (AC2)."""
    return all(
        s.votes_yes[q] or s.decision[p] != Decision.COMMIT for p in Participant for q in Participant
    )


@always
def ac3_1(s: AtomicCommit) -> bool:
    """Who aborts does so because somebody voted no or died (the safe half of AC3)."""
    return (
        all(s.decision[p] != Decision.ABORT for p in Participant)
        or any(not s.votes_yes[q] or not s.alive[q] for q in Participant)
        or not s.coordinator_alive
    )


@sometimes
def all_commit(s: AtomicCommit) -> bool:
    """All commit."""
    return all(s.decision[p] == Decision.COMMIT for p in Participant)


ATOMIC_COMMIT = specification(AtomicCommit, ac1, ac2, ac3_1, all_commit)
