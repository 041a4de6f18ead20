"""
Members that come back say which of their former registrations are over: nobody waits for those.

A consumer whose connection is lost closes its fetchers, and registers anew over another one. Its
coordinator, or the next, cannot know that it has stopped, and waits for the lease of who has let go
long ago. Here a Register of version 2 names registrations of its sender's process that have
stopped (`register_again`). Who takes it need not wait for their leases (`is_free`): for what they
own in a generation that was there when that was said, and in none that comes later, as if they were
named by it. A registration that has ended does not begin again, so what was said of it stays true,
whoever hears of it, and however late.

A Register of version 1 (`register`) says nothing, and whose registration nobody says to be over is
waited for, as before; so is a consumer that has died.

Source: *ours*. PROTOCOLS.md (section B, ruling 2) has everybody waited for; `Leave` says the same
while the connection stands.

Assumed: as of the central coordinator, and nothing more.
Not modelled: as of the central coordinator. Which registrations are one consumer's: whoever has let
go may be named by anybody who registers. Where its fetchers stopped: what was not reported before
is read again.
"""

from __future__ import annotations

from herdspec import Nat, action, command, each, require, weak
from herdspec.protocols.central_coordinator.spec import CentralCoordinator
from herdspec.protocols.election.spec import Broker as Broker
from herdspec.protocols.group import Member as Member
from herdspec.protocols.group import Partition as Partition

silent_register = CentralCoordinator.register
silent_handle_register = CentralCoordinator.handle_register
silent_is_free = CentralCoordinator.is_free
silent_forget_answers = CentralCoordinator.forget_answers
silent_reset = CentralCoordinator.reset


class ReturningMembers(CentralCoordinator):
    """A central coordinator that is told which registrations are over."""

    over: dict[tuple[Member, Member], Nat] = each(0)  # up to which generation, by a Register
    known_over: dict[tuple[Broker, Member], Nat] = each(0)  # and by who has taken that

    @action(kind=command)
    def register_again(
        self, m: Member, b: Broker, wanted: set[Partition], former: set[Member]
    ) -> None:
        """{m} connects to {b} and registers, interested in {wanted}: {former} have stopped."""
        require(any(n in former for n in Member))
        require(all(n not in former or (n != m and self.has_stopped(n)) for n in Member))
        silent_register(self, m, b, wanted)
        for n in Member:
            self.over[m, n] = self.generation if n in former else 0

    @action(fair=weak)
    def handle_register(self, m: Member, b: Broker) -> None:
        """{b} takes {m} into its books, and whom it says to have stopped; or refuses it."""
        silent_handle_register(self, m, b)
        for n in Member:
            if self.books[m] == b and self.over[m, n] > 0:
                self.learn_of(n, b, self.over[m, n])
            self.over[m, n] = 0

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def has_stopped(self, n: Member) -> bool:
        """Its fetchers are closed, and it reads nothing more."""
        return self.via[n] is None

    def learn_of(self, n: Member, b: Broker, generation: Nat) -> None:
        """A coordinator has been told that a registration is over."""
        self.known_over[b, n] = max(self.known_over[b, n], generation)

    def is_free(self, p: Partition, b: Broker) -> bool:
        """Nobody fetches it, or its owner is known to have stopped."""
        owner = self.owner[p]
        return silent_is_free(self, p, b) or (
            owner is not None and self.names_owner(owner, p, self.known_over[b, owner])
        )

    def names_owner(self, n: Member, p: Partition, generation: Nat) -> bool:
        """Whoever was said to have stopped in this generation is the partition's owner."""
        return generation > 0 and self.owns(n, p, generation)

    def forget_answers(self, m: Member) -> None:
        """Nobody will read what the consumer has sent: nor what its Register says."""
        silent_forget_answers(self, m)
        for n in Member:
            self.over[m, n] = 0

    def reset(self, b: Broker) -> None:
        """Close every channel, clear all state: what was said to it is forgotten."""
        silent_reset(self, b)
        for n in Member:
            self.known_over[b, n] = 0
