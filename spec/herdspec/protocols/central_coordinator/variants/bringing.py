"""
Members that come back say, beside which of their registrations are over, where those stopped.

Whose connection is lost has finished records that no answer has reported yet. As long as a Register
names its former registrations alone (`returning.py`), whoever owns those partitions next is given
these records again. Here the process remembers where each registration's fetchers stopped (`left`),
and a coordinator that learns that the owner of a partition is over takes that offset from it, as if
the owner had reported it: it is stored before the partition is given away.

Only the owner in the present generation is asked for it, and in its own life (`brings`): what
another registration has finished before is older than what is stored, or was said already. While
owners are on their way to ZooKeeper, a Register that says so waits: an offset that is noted then
would be stored after the next owner's Start.

Source: *ours*. PROTOCOLS.md (section B, ruling 2) has members say nothing of the past.

Assumed: as of members that return, and nothing more.
Not modelled: as of those. What a Register says of a registration stays so until that begins anew,
and then `left` is 0, so it is read where it is heard.
"""

from __future__ import annotations

from herdspec import Nat, action, each, require, weak
from herdspec.protocols.central_coordinator.spec import Phase
from herdspec.protocols.central_coordinator.variants.returning import Broker as Broker
from herdspec.protocols.central_coordinator.variants.returning import Member as Member
from herdspec.protocols.central_coordinator.variants.returning import Partition as Partition
from herdspec.protocols.central_coordinator.variants.returning import ReturningMembers

handle_returning_register = ReturningMembers.handle_register
handle_stop_only = ReturningMembers.handle_stop
connect_only = ReturningMembers.connect
let_go_of_all = ReturningMembers.let_go


class BringingMembers(ReturningMembers):
    """A central coordinator that is told where registrations that are over have stopped."""

    left: dict[tuple[Member, Partition], Nat] = each(0)  # where its fetchers stopped

    @action(fair=weak)
    def handle_stop(self, m: Member) -> None:
        """{m} closes its fetchers, and answers with the offsets that it has consumed."""
        self.remember(m)
        handle_stop_only(self, m)

    @action(fair=weak)
    def handle_register(self, m: Member, b: Broker) -> None:
        """{b} takes {m} into its books, and whom it says to have stopped, and where; or refuses."""
        require(self.phase[b] != Phase.WRITING or all(self.over[m, n] == 0 for n in Member))
        if self.accepts(m, b):
            self.bring(m, b)
        handle_returning_register(self, m, b)

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def bring(self, m: Member, b: Broker) -> None:
        """A coordinator takes from a Register where owners that are over have stopped."""
        if any(self.brings_stale(m, p) for p in Partition):
            self.stale_commit_accepted = True
        for p in Partition:
            self.noted[b, p] = self.merged(self.noted[b, p], self.brought(m, p))

    def brought(self, m: Member, p: Partition) -> Nat:
        """Where the partition's owner has stopped, if the Register says that it has."""
        owner = self.owner[p]
        is_said = owner is not None and self.brings(owner, p, self.over[m, owner])
        return self.left[owner, p] if owner is not None and is_said else 0

    def brings(self, n: Member, p: Partition, generation: Nat) -> bool:
        """Who was said to have stopped owns the partition, in that generation and in that life."""
        return self.names_owner(n, p, generation)

    def brings_stale(self, m: Member, p: Partition) -> bool:
        """An offset that is brought, and should not be."""
        owner = self.owner[p]
        return (
            owner is not None
            and self.brought(m, p) > 0
            and not self.names_owner(owner, p, self.over[m, owner])
        )

    def connect(self, m: Member, b: Broker) -> None:
        """Another registration has stopped nowhere yet."""
        connect_only(self, m, b)
        for p in Partition:
            self.left[m, p] = 0

    def let_go(self, m: Member) -> None:
        """Where it closes its fetchers is remembered."""
        self.remember(m)
        let_go_of_all(self, m)

    def remember(self, m: Member) -> None:
        """Its fetchers stop here; those that have stopped before, did elsewhere."""
        for p in Partition:
            self.left[m, p] = self.position[m, p] if self.fetching[m, p] else self.left[m, p]
