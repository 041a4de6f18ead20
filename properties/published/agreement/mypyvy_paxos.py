"""
Single-decree Paxos and its inductive invariant, in this language.

Published as `examples/paxos_epr.pyv` of github wilcoxjay/mypyvy (cd80557), after Padon, Losa, Sagiv
and Shoham, *Paxos made EPR*, OOPSLA 2017. Rounds are a sort with a total order, quorums a sort of
which any two share a node. Proposing is one transition there, with a round `none` for "nobody in
the quorum has voted"; here it is two actions, and no such round is needed.
"""

from __future__ import annotations

from herdspec import (
    Sort,
    Spec,
    action,
    always,
    axiom,
    each,
    initial,
    lemma,
    require,
    sometimes,
    specification,
)


class Round(Sort):
    """A ballot."""


class Value(Sort):
    """What may be decided."""


class Quorum(Sort):
    """A majority of the nodes."""


class Node(Sort):
    """An acceptor."""


class Paxos(Spec):
    """Nodes agree on one value, round by round."""

    # What never changes
    upto: dict[tuple[Round, Round], bool] = each(False)  # the order of rounds
    member: dict[tuple[Node, Quorum], bool] = each(False)

    asked: dict[Round, bool] = each(False)  # 1a: who joins this round?
    joined: dict[tuple[Node, Round], bool] = each(False)  # 1b
    left: dict[tuple[Node, Round], bool] = each(False)  # joined a later one
    proposed: dict[tuple[Round, Value], bool] = each(False)
    voted: dict[tuple[Node, Round, Value], bool] = each(False)
    decided: dict[tuple[Round, Value], bool] = each(False)

    @initial
    def begin(
        self,
        upto: dict[tuple[Round, Round], bool],
        member: dict[tuple[Node, Quorum], bool],
    ) -> None:
        """Any order of rounds, and any quorums."""
        self.upto = upto
        self.member = member

    @action
    def ask(self, r: Round) -> None:
        """Round {r} is begun."""
        self.asked[r] = True

    @action
    def join(self, n: Node, r: Round) -> None:
        """{n} joins round {r}, and leaves all before it."""
        require(self.asked[r] and not self.left[n, r])
        self.joined[n, r] = True
        self.left = {
            (m, q): self.left[m, q] or (m == n and not self.upto[r, q]) for m in Node for q in Round
        }

    @action
    def propose(self, r: Round, q: Quorum, v: Value) -> None:
        """{v} is proposed in round {r}: nobody of the quorum {q} has voted before."""
        require(all(not self.proposed[r, w] for w in Value))
        require(all(self.joined[n, r] or not self.member[n, q] for n in Node))
        require(
            all(
                not (self.member[n, q] and not self.upto[r, s] and self.voted[n, s, w])
                for n in Node
                for s in Round
                for w in Value
            )
        )
        self.proposed[r, v] = True

    @action
    def propose_again(self, r: Round, q: Quorum, last: Round, v: Value) -> None:
        """{v} is proposed in round {r}: the last vote in the quorum {q} is for it, in {last}."""
        require(all(not self.proposed[r, w] for w in Value))
        require(all(self.joined[n, r] or not self.member[n, q] for n in Node))
        require(not self.upto[r, last])
        require(any(self.member[n, q] and self.voted[n, last, v] for n in Node))
        require(
            all(
                not (self.member[n, q] and not self.upto[r, s] and self.voted[n, s, w])
                or self.upto[s, last]
                for n in Node
                for s in Round
                for w in Value
            )
        )
        self.proposed[r, v] = True

    @action
    def vote(self, n: Node, r: Round, v: Value) -> None:
        """{n} votes for {v} in round {r}."""
        require(not self.left[n, r] and self.proposed[r, v])
        self.voted[n, r, v] = True

    @action
    def decide(self, r: Round, v: Value, q: Quorum) -> None:
        """{v} is decided in round {r}: the quorum {q} has voted for it."""
        require(all(self.voted[n, r, v] or not self.member[n, q] for n in Node))
        self.decided[r, v] = True


# ── What is assumed ─────────────────────────────────────────────────────────────────────────


@axiom
def rounds_are_in_order(s: Paxos) -> bool:
    """The rounds are totally ordered."""
    return (
        all(s.upto[a, a] for a in Round)
        and all(
            not (s.upto[a, b] and s.upto[b, c]) or s.upto[a, c]
            for a in Round
            for b in Round
            for c in Round
        )
        and all(not (s.upto[a, b] and s.upto[b, a]) or a == b for a in Round for b in Round)
        and all(s.upto[a, b] or s.upto[b, a] for a in Round for b in Round)
    )


@axiom
def quorums_intersect(s: Paxos) -> bool:
    """Any two quorums share a node."""
    return all(any(s.member[n, p] and s.member[n, q] for n in Node) for p in Quorum for q in Quorum)


# ── What is promised ────────────────────────────────────────────────────────────────────────


@always
def one_value_is_decided(s: Paxos) -> bool:
    """No two values are decided."""
    return all(
        not (s.decided[a, v] and s.decided[b, w]) or v == w
        for a in Round
        for b in Round
        for v in Value
        for w in Value
    )


@lemma
def one_proposal_a_round(s: Paxos) -> bool:
    """In one round one value is proposed."""
    return all(
        not (s.proposed[r, v] and s.proposed[r, w]) or v == w
        for r in Round
        for v in Value
        for w in Value
    )


@lemma
def votes_are_for_proposals(s: Paxos) -> bool:
    """Nodes vote only for what was proposed."""
    return all(not s.voted[n, r, v] or s.proposed[r, v] for n in Node for r in Round for v in Value)


@lemma
def decisions_are_a_quorums(s: Paxos) -> bool:
    """For what was decided, all of some quorum have voted."""
    return all(
        not s.decided[r, v]
        or any(all(s.voted[n, r, v] or not s.member[n, q] for n in Node) for q in Quorum)
        for r in Round
        for v in Value
    )


@lemma
def who_joins_has_left_before(s: Paxos) -> bool:
    """Who has joined a round has left all earlier ones."""
    return all(
        not s.joined[n, r] or s.upto[r, q] or s.left[n, q]
        for n in Node
        for r in Round
        for q in Round
    )


@lemma
def nothing_else_can_be_chosen(s: Paxos) -> bool:
    """Once a value is proposed, in each quorum somebody will never vote for another one earlier."""
    return all(
        s.upto[b, a]
        or not s.proposed[b, w]
        or v == w
        or any(s.member[n, q] and s.left[n, a] and not s.voted[n, a, v] for n in Node)
        for a in Round
        for b in Round
        for v in Value
        for w in Value
        for q in Quorum
    )


@sometimes
def something_is_decided(s: Paxos) -> bool:
    """Something is decided."""
    return any(s.decided[r, v] for r in Round for v in Value)


PAXOS = specification(
    Paxos, rounds_are_in_order, quorums_intersect, one_value_is_decided, one_proposal_a_round,
    votes_are_for_proposals, decisions_are_a_quorums, who_joins_has_left_before,
    nothing_else_can_be_chosen, something_is_decided,
)  # fmt: skip
