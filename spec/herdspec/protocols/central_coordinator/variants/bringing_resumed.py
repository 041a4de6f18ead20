"""
Members that resume, and that bring offsets where they do not: what the code does by default.

A consumer whose connection is lost asks to resume (`resuming.py`). Who does not, or is refused,
registers anew, and says which of its registrations have stopped, and where (`bringing.py`). Both
are one spec here, so that a run in which both happen can be replayed in it.

Source: *ours*, as of those two.

Assumed: as of those two, and nothing more.
Not modelled: as of those two. A Register that resumes brings nothing: in the generation of who is
adopted, nothing is owned by what it was before.
"""

from __future__ import annotations

from herdspec import action, require, weak
from herdspec.protocols.central_coordinator.variants.bringing import BringingMembers
from herdspec.protocols.central_coordinator.variants.bringing import Broker as Broker
from herdspec.protocols.central_coordinator.variants.bringing import Member as Member
from herdspec.protocols.central_coordinator.variants.bringing import Partition as Partition
from herdspec.protocols.central_coordinator.variants.resuming import ResumingMembers

handle_bringing_register = BringingMembers.handle_register


class BringingResumers(BringingMembers, ResumingMembers):
    """A central coordinator that adopts who resumes, and is told where others have stopped."""

    @action(fair=weak)
    def handle_register(self, m: Member, b: Broker) -> None:
        """{b} takes {m} into its books, and whom it says to have stopped, and where; or refuses."""
        require(len(self.up[m]) > 0 and self.up[m][0].generation == 0)
        handle_bringing_register(self, m, b)
