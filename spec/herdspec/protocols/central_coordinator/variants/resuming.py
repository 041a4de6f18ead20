"""
Members that go on consuming when their connection is lost, and resume their registration.

A consumer whose connection is lost may consume until its lease is over, and its partitions are
given to nobody before. Here it uses that time to find the present coordinator, and asks it to
*resume* its registration: a Register that names the generation in which it consumes (`resume`). A
coordinator that knows the owners that ZooKeeper names, and finds that this is their generation,
*adopts* it: it counts it among its members, and as one that follows the present Start. No Stop, no
Start, and a rebalance that finds that nothing has changed is not necessary. Whoever consumes in
another generation, or has been told to stop, is refused: it lets go, and registers anew.

Nothing has to be known of who was struck, or by whom: what a registration that is adopted owns is
what ZooKeeper says, and before its lease is over nobody else is given that. A member may give its
connection up itself, since its coordinator is silent and another one leads: then it is `cut`, as if
it had broken; whoever had it in its books may be paused, and learn of that much later.

Source: *ours*. PROTOCOLS.md (section B, ruling 2) has members register anew, and stopped.

Assumed: as of members that return, and nothing more.
Not modelled: as of those. A member that is refused, and asks once more; interests that change with
a connection: who resumes names those that it registered with.
"""

from __future__ import annotations

from herdspec import Nat, action, command, require, weak
from herdspec.protocols.central_coordinator.spec import Kind, Message, Phase
from herdspec.protocols.central_coordinator.variants.returning import Broker as Broker
from herdspec.protocols.central_coordinator.variants.returning import Member as Member
from herdspec.protocols.central_coordinator.variants.returning import Partition as Partition
from herdspec.protocols.central_coordinator.variants.returning import ReturningMembers

handle_new_register = ReturningMembers.handle_register


class ResumingMembers(ReturningMembers):
    """A central coordinator that adopts whoever consumes as ZooKeeper says."""

    @action(kind=command)
    def resume(self, m: Member, b: Broker) -> None:
        """{m}, whose connection is lost, consumes on, connects to {b}, and asks to resume."""
        require(self.via[m] is not None and not self.link[m] and self.books[m] is None)
        require(self.may_resume(m))
        self.reconnect(m, b)

    @action(fair=weak)
    def handle_register(self, m: Member, b: Broker) -> None:
        """{b} takes {m} into its books, and whom it says to have stopped; or refuses it."""
        require(len(self.up[m]) > 0 and self.up[m][0].generation == 0)
        handle_new_register(self, m, b)

    @action(fair=weak)
    def handle_resume(self, m: Member, b: Broker) -> None:
        """{b} adopts {m}, which consumes as ZooKeeper says; or refuses it."""
        require(self.via[m] == b and len(self.up[m]) > 0)
        require(self.up[m][0].kind == Kind.REGISTER and self.up[m][0].generation > 0)
        require(self.phase[b] != Phase.WRITING)
        generation = self.up[m][0].generation
        self.up[m].clear()
        if self.adopts(m, b, generation):
            self.adopt(m, b, generation)
            self.handle_group_member_change(b)
        else:
            self.link[m] = False
            self.barred[m] = self.at[m]

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def adopt(self, m: Member, b: Broker, generation: Nat) -> None:
        """A member that follows the present Start, though another has sent it."""
        self.books[m] = b
        self.term[m] = self.election.token[b]
        self.acked[m] = generation

    def lease_is_over(self, m: Member) -> bool:
        """As before; who asks to resume is waited for no longer than who does not."""
        return (
            (not self.link[m] or self.asks_to_resume(m))
            and all(not self.fetching[m, p] for p in Partition)
            and all(x.kind != Kind.START for x in self.down[m])
        )

    def asks_to_resume(self, m: Member) -> bool:
        """It is connected, but in nobody's books, and consumes."""
        return self.books[m] is None and self.at[m] > 0

    def may_resume(self, m: Member) -> bool:
        """It follows a Start, and was not told to stop since."""
        return self.at[m] > self.barred[m]

    def adopts(self, m: Member, b: Broker, generation: Nat) -> bool:
        """It accepts the member, which consumes in the present generation, as the fence shows."""
        return (
            self.accepts(m, b)
            and self.election.token[b] == self.election.epoch
            and generation == self.generation
        )

    def reconnect(self, m: Member, b: Broker) -> None:
        """Over another connection it says in which generation it consumes."""
        self.hang_up(m)
        self.via[m] = b
        self.link[m] = True
        self.up[m].append(Message(kind=Kind.REGISTER, generation=self.at[m]))
