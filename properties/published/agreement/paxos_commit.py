"""
Paxos Commit: a transaction that commits although any minority of the acceptors fails.

After `specifications/transaction_commit/PaxosCommit.tla` of the TLA+ examples (Gray and Lamport),
at the constants of its model: two resource managers, three acceptors, ballots 0 and 1. Each
resource manager has its own instance of Paxos; the messages are sets that only grow. A majority
is named by the acceptor that it leaves out; which one a decision rests on is a choice, because TLC
counts it as one. Where TLA+ writes ballot -1 for "never voted", the vote here is `NONE` and its
ballot 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from herdspec import (
    Nat,
    Sort,
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

Ballot = Annotated[Nat, UpTo(1)]
"""The resource manager proposes in ballot 0, a leader in the later ones."""
BALLOTS = 2


class Manager(Sort):
    """A resource manager; it is also the name of its instance of Paxos."""


class Acceptor(Sort):
    """An acceptor; it votes in all instances. There are three."""


class Phase(Enum):
    """What a resource manager has come to."""

    WORKING = "working"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Vote(Enum):
    """What is proposed, and voted, about a resource manager."""

    NONE = "none"
    PREPARED = "prepared"
    ABORTED = "aborted"


@dataclass(frozen=True)
class Question:
    """Phase 1a: who has voted what about this resource manager?"""

    about: Manager
    ballot: Ballot


@dataclass(frozen=True)
class Answer:
    """Phase 1b: an acceptor's last vote; it will vote in no ballot before `ballot`."""

    about: Manager
    ballot: Ballot
    voted_in: Ballot
    vote: Vote
    by: Acceptor


@dataclass(frozen=True)
class Proposal:
    """Phase 2a: vote for this."""

    about: Manager
    ballot: Ballot
    vote: Vote


@dataclass(frozen=True)
class Voted:
    """Phase 2b: an acceptor has voted."""

    about: Manager
    ballot: Ballot
    vote: Vote
    by: Acceptor


class PaxosCommit(Spec):
    """Resource managers commit together, or not at all, whatever one acceptor does."""

    phase: dict[Manager, Phase] = each(Phase.WORKING)
    promised: dict[tuple[Manager, Acceptor], Ballot] = each(0)
    voted_in: dict[tuple[Manager, Acceptor], Ballot] = each(0)
    vote: dict[tuple[Manager, Acceptor], Vote] = each(Vote.NONE)
    questions: set[Question] = empty()
    answers: set[Answer] = empty()
    proposals: set[Proposal] = empty()
    votes: set[Voted] = empty()
    commit: bool = False  # the message "commit" was sent
    abort: bool = False  # the message "abort" was sent

    @action
    def prepare(self, m: Manager) -> None:
        """{m} is prepared, and proposes so in its own ballot."""
        require(self.phase[m] == Phase.WORKING)
        self.phase[m] = Phase.PREPARED
        self.proposals.add(Proposal(about=m, ballot=0, vote=Vote.PREPARED))

    @action
    def choose_to_abort(self, m: Manager) -> None:
        """{m} aborts by itself, and proposes so in its own ballot."""
        require(self.phase[m] == Phase.WORKING)
        self.phase[m] = Phase.ABORTED
        self.proposals.add(Proposal(about=m, ballot=0, vote=Vote.ABORTED))

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

    @action
    def ask(self, m: Manager, ballot: Ballot) -> None:
        """A leader asks the acceptors about {m} in ballot {ballot}."""
        require(ballot > 0)
        self.questions.add(Question(about=m, ballot=ballot))

    @action
    def propose(self, m: Manager, ballot: Ballot, without: Acceptor) -> None:
        """A leader hears of all but {without}, and proposes about {m} in ballot {ballot}."""
        require(ballot > 0)
        require(
            all(Proposal(about=m, ballot=ballot, vote=vote) not in self.proposals for vote in Vote)
        )
        require(all(a == without or self.answered(m, ballot, a) for a in Acceptor))
        self.proposals.add(Proposal(about=m, ballot=ballot, vote=self.highest(m, ballot, without)))

    def answered(self, m: Manager, ballot: Ballot, a: Acceptor) -> bool:
        """The acceptor has answered a leader's question."""
        return any(
            Answer(about=m, ballot=ballot, voted_in=last, vote=vote, by=a) in self.answers
            for last in range(BALLOTS)
            for vote in Vote
        )

    def tells(
        self, m: Manager, ballot: Ballot, without: Acceptor, last: Ballot, vote: Vote
    ) -> bool:
        """An acceptor of the majority has answered that it voted so."""
        return any(
            Answer(about=m, ballot=ballot, voted_in=last, vote=vote, by=a) in self.answers
            for a in Acceptor
            if a != without
        )

    def highest(self, m: Manager, ballot: Ballot, without: Acceptor) -> Vote:
        """The vote of the highest ballot that the majority tells of; if there is none, abort."""
        return (
            Vote.PREPARED
            if any(
                self.tells(m, ballot, without, last, Vote.PREPARED)
                and not any(
                    later > last and self.tells(m, ballot, without, later, Vote.ABORTED)
                    for later in range(BALLOTS)
                )
                for last in range(BALLOTS)
            )
            else Vote.ABORTED
        )

    @action
    def answer(self, a: Acceptor, m: Manager, ballot: Ballot) -> None:
        """{a} promises ballot {ballot} about {m}, and tells its last vote."""
        require(Question(about=m, ballot=ballot) in self.questions)
        require(self.promised[m, a] < ballot)
        self.promised[m, a] = ballot
        self.answers.add(
            Answer(about=m, ballot=ballot, voted_in=self.voted_in[m, a], vote=self.vote[m, a], by=a)
        )

    @action
    def vote_for(self, a: Acceptor, m: Manager, ballot: Ballot, vote: Vote) -> None:
        """{a} votes {vote} about {m} in ballot {ballot}."""
        require(Proposal(about=m, ballot=ballot, vote=vote) in self.proposals)
        require(self.promised[m, a] <= ballot)
        self.promised[m, a] = ballot
        self.voted_in[m, a] = ballot
        self.vote[m, a] = vote
        self.votes.add(Voted(about=m, ballot=ballot, vote=vote, by=a))

    def decided(self, m: Manager, vote: Vote, ballot: Ballot, without: Acceptor) -> bool:
        """All acceptors but one have voted so about this resource manager, in this ballot."""
        return all(
            a == without or Voted(about=m, ballot=ballot, vote=vote, by=a) in self.votes
            for a in Acceptor
        )

    @action
    def decide_commit(
        self, ballot: dict[Manager, Ballot], without: dict[Manager, Acceptor]
    ) -> None:
        """All are known to be prepared: they shall commit."""
        require(all(self.decided(m, Vote.PREPARED, ballot[m], without[m]) for m in Manager))
        self.commit = True

    @action
    def decide_abort(self, m: Manager, ballot: Ballot, without: Acceptor) -> None:
        """{m} is known to have aborted: all shall abort."""
        require(self.decided(m, Vote.ABORTED, ballot, without))
        self.abort = True


@always
def consistent(s: PaxosCommit) -> bool:
    """No resource manager has aborted while another has committed."""
    return all(
        not (s.phase[a] == Phase.ABORTED and s.phase[b] == Phase.COMMITTED)
        for a in Manager
        for b in Manager
    )


@always
def one_proposal_in_a_ballot(s: PaxosCommit) -> bool:
    """About a resource manager, one thing is proposed in one ballot."""
    return all(
        not (
            Proposal(about=m, ballot=ballot, vote=Vote.PREPARED) in s.proposals
            and Proposal(about=m, ballot=ballot, vote=Vote.ABORTED) in s.proposals
        )
        for m in Manager
        for ballot in range(BALLOTS)
    )


@sometimes
def all_commit(s: PaxosCommit) -> bool:
    """All resource managers commit."""
    return all(s.phase[m] == Phase.COMMITTED for m in Manager)


PAXOS_COMMIT = specification(PaxosCommit, consistent, one_proposal_in_a_ballot, all_commit)
