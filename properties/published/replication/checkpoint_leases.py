"""
Checkpoint leases in a replicated log: an optimisation that looked right, and its counterexample.

After `specifications/CheckpointCoordination/CheckpointCoordination.tla` of the TLA+ examples
(Helwer, for RingMaster), at the constants of `MCCheckpointCoordinationFailure.cfg`: three nodes, a
majority of two, a log of three places, the last of which stays free (the model's constraint). A
leader lets one node at a time take a checkpoint, by a lease that it writes into the log. The
optimisation is to replace a lease as soon as its holder has become leader, who takes no checkpoint.
Its README tells of "a 12-step error trace for a very subtle bug introduced by an attempted
optimization". Places of the log are counted from 0 here, from 1 there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from herdspec import Nat, Sort, Spec, UpTo, action, always, each, require, specification

MAJORITY = 2
PLACES = 3
Place = Annotated[Nat, UpTo(2)]
"""A place of the log."""
Position = Annotated[Nat, UpTo(3)]
"""A place of the log, or its end."""


class Node(Sort):
    """A replica. There are three."""


@dataclass(frozen=True)
class Lease:
    """The right to take a checkpoint: whose it is, and where in the log it was given."""

    node: Node
    place: Position


class CheckpointLeases(Spec):
    """Replicas take checkpoints one at a time, and the leader takes none."""

    up: dict[Node, bool] = each(True)
    path: dict[tuple[Node, Node], bool] = each(True)  # messages get from one to the other
    leader: Node | None = None
    log: dict[tuple[Node, Place], Node | None] = each(None)  # who was given a lease there
    executed: dict[Node, Position] = each(0)  # how much of its log a node has executed
    told: dict[Node, Position] = each(0)  # until where a node told that it has a checkpoint
    lease: dict[Node, Lease | None] = each(None)  # the last lease that a node knows of
    may: dict[Node, bool] = each(False)  # the node believes that it may take a checkpoint
    takes: dict[Node, bool] = each(False)  # it takes one
    timed_out: Position = 0  # leases before this place have timed out
    saved: dict[Place, Node | None] = each(None)  # the log of the last checkpoint
    saved_until: Position = 0

    # ── What the actions ask ────────────────────────────────────────────────────────────────

    def reaches(self, source: Node, target: Node) -> bool:
        """A message gets from one node to another."""
        return self.up[source] and self.up[target] and self.path[source, target]

    def connected(self, a: Node, b: Node) -> bool:
        """Messages get both ways."""
        return self.reaches(a, b) and self.reaches(b, a)

    def has_quorum(self, n: Node) -> bool:
        """The node is connected with a majority, itself included."""
        return sum(1 for m in Node if self.connected(n, m)) >= MAJORITY

    def is_open(self, place: Place) -> bool:
        """No log has anything at this place."""
        return all(self.log[n, place] is None for n in Node)

    def end(self) -> Position:
        """The first place at which no log has anything; the last place is always free."""
        return 0 if self.is_open(0) else 1 if self.is_open(1) else 2

    def may_replace(self, leader: Node) -> bool:
        """The last lease that the leader knows of has timed out, or its checkpoint is taken."""
        lease = self.lease[leader]
        return (
            lease is None
            or lease.place < self.timed_out
            or (self.connected(leader, lease.node) and lease.place < self.told[lease.node])
        )

    # ── The world ───────────────────────────────────────────────────────────────────────────

    @action
    def fail(self, n: Node) -> None:
        """{n} fails, and loses what it did not write down."""
        self.up[n] = False
        if self.leader == n:
            self.leader = None
        self.executed[n] = 0
        self.forget(n)

    def forget(self, n: Node) -> None:
        """A node loses its lease and its checkpoint in the making."""
        self.told[n] = 0
        self.lease[n] = None
        self.may[n] = False
        self.takes[n] = False

    @action
    def recover(self, n: Node) -> None:
        """{n} recovers, from the last checkpoint and its own log after that."""
        require(not self.up[n])
        self.up[n] = True
        for place in range(PLACES):
            if place < self.saved_until:
                self.log[n, place] = self.saved[place]
        self.executed[n] = self.saved_until
        self.forget(n)

    @action
    def cut(self, source: Node, target: Node) -> None:
        """No message gets from {source} to {target} any more."""
        require(source != target)
        self.path[source, target] = False

    @action
    def mend(self, source: Node, target: Node) -> None:
        """Messages get from {source} to {target} again."""
        self.path[source, target] = True

    # ── The replicated log ──────────────────────────────────────────────────────────────────

    @action
    def elect(self, n: Node) -> None:
        """{n}, which takes no checkpoint and has executed the whole log, becomes leader."""
        require(self.leader is None and self.up[n] and not self.takes[n] and self.has_quorum(n))
        require(self.executed[n] == self.end())
        self.leader = n
        self.may[n] = False

    @action
    def give(self, leader: Node, to: Node) -> None:
        """The leader {leader} gives {to} a lease, and writes it into the logs that it reaches."""
        require(self.leader == leader and self.has_quorum(leader))
        require(leader != to and self.connected(leader, to) and self.may_replace(leader))
        place = self.end()
        require(place < PLACES - 1)
        for n in Node:
            if self.reaches(leader, n):
                self.log[n, place] = to
        self.lease[leader] = Lease(node=to, place=place)

    @action
    def propagate(self, source: Node, target: Node) -> None:
        """{target} gets what its log lacks from {source}."""
        require(self.reaches(source, target))
        for place in range(PLACES):
            if self.log[target, place] is None:
                self.log[target, place] = self.log[source, place]

    @action
    def execute(self, n: Node, place: Place) -> None:
        """{n} executes its log's place {place}: a lease, which may be its own."""
        require(self.up[n] and not self.takes[n] and self.executed[n] == place)
        node = self.log[n, place]
        assert node is not None
        late = place < self.timed_out
        self.may[n] = self.leader != n and node == n and not late
        if self.leader != n:
            self.lease[n] = None if late else Lease(node=node, place=place)
        self.executed[n] = place + 1

    # ── Checkpoints ─────────────────────────────────────────────────────────────────────────

    @action
    def begin(self, n: Node) -> None:
        """{n} begins a checkpoint."""
        require(self.may[n])
        self.takes[n] = True

    @action
    def finish(self, n: Node) -> None:
        """{n} has taken its checkpoint."""
        require(self.takes[n])
        self.forget(n)
        self.told[n] = self.executed[n]
        for place in range(PLACES):
            self.saved[place] = self.log[n, place] if place < self.executed[n] else None
        self.saved_until = self.executed[n]

    @action
    def time_out(self) -> None:
        """The oldest lease times out."""
        require(
            any(
                self.log[n, p] is not None and p == self.timed_out
                for n in Node
                for p in range(PLACES)
            )
        )
        self.timed_out = self.timed_out + 1
        for n in Node:
            lease = self.lease[n]
            if lease is not None and lease.place < self.timed_out:
                self.may[n] = False
                self.takes[n] = False


@always
def the_leader_takes_none(s: CheckpointLeases) -> bool:
    """The leader neither takes a checkpoint nor may."""
    return all(s.leader != n or not (s.may[n] or s.takes[n]) for n in Node)


@always
def the_leader_knows(s: CheckpointLeases) -> bool:
    """Whoever takes a checkpoint, or may, has the lease that the leader knows of."""
    return all(
        s.leader != n
        or not (s.may[m] or s.takes[m])
        or any(s.lease[n] == Lease(node=m, place=p) for p in range(PLACES))
        for n in Node
        for m in Node
    )


@always
def one_at_a_time(s: CheckpointLeases) -> bool:
    """At most one node may take a checkpoint, and at most one takes one."""
    return all(
        not (s.may[a] and s.may[b]) and not (s.takes[a] and s.takes[b])
        for a in Node
        for b in Node
        if a != b
    )


@always
def who_takes_one_has_a_lease(s: CheckpointLeases) -> bool:
    """Who takes a checkpoint may; who may has a lease of its own that has not timed out."""
    return all(
        (not s.takes[n] or s.may[n])
        and (
            not s.may[n]
            or any(s.lease[n] == Lease(node=n, place=p) and p >= s.timed_out for p in range(PLACES))
        )
        for n in Node
    )


@always
def logs_agree(s: CheckpointLeases) -> bool:
    """Logs do not contradict each other."""
    return all(
        s.log[a, p] is None or s.log[b, p] is None or s.log[a, p] == s.log[b, p]
        for a in Node
        for b in Node
        for p in range(PLACES)
    )


def may_replace_its_own(self: CheckpointLeases, leader: Node) -> bool:
    """A lease may be replaced, too, if it is the leader's own: the optimisation."""
    lease = self.lease[leader]
    return (
        lease is None
        or lease.place < self.timed_out
        or (self.connected(leader, lease.node) and lease.place < self.told[lease.node])
        or lease.node == leader
    )


CHECKPOINT_LEASES = specification(
    CheckpointLeases,
    the_leader_takes_none,
    the_leader_knows,
    one_at_a_time,
    who_takes_one_has_a_lease,
    logs_agree,
)
OPTIMISED = CHECKPOINT_LEASES.replace("OptimisedLeases", may_replace=may_replace_its_own)
