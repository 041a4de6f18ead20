"""
The contract of an election: epochs, and who may write. No ZooKeeper, no messages.

Protocols that need a coordinator are composed with this contract, not with the election itself;
that the verified election refines it is checked (`refinement.py`).

The fenced form of "one coordinator": two brokers may believe at one time that they lead, but never
in one epoch, and nothing that the older one does is accepted any more.
"""

from __future__ import annotations

from herdspec.language.specification import specification
from herdspec.language.surface import (
    Nat,
    Spec,
    action,
    always,
    each,
    fault,
    lemma,
    require,
    sometimes,
    step,
)
from herdspec.protocols.election.spec import Broker


class ElectionContract(Spec):
    """Brokers win epochs, one broker each; only who has the present epoch may write."""

    epoch: Nat = 0  # the present epoch; 0 before the first
    elected: Broker | None = None  # who won it
    won: dict[Broker, Nat] = each(0)  # an epoch that the broker won and may yet take up; 0: none
    token: dict[Broker, Nat] = each(0)  # the last epoch that the broker took up; 0: none
    leads: dict[Broker, bool] = each(False)  # the broker believes that it leads
    stale_write_accepted: bool = False  # a write of somebody else was accepted

    @action
    def elect(self, b: Broker) -> None:
        """{b} wins a new epoch."""
        self.epoch = self.epoch + 1
        self.elected = b
        self.won[b] = self.epoch

    @action
    def take_up(self, b: Broker, leading: bool, kept: bool) -> None:
        """{b} takes up the epoch that it won."""
        require(self.won[b] > 0)
        self.token[b] = self.won[b]
        self.leads[b] = leading
        if not kept:
            self.won[b] = 0

    @action
    def step_down(self, b: Broker, kept: bool) -> None:
        """{b} leads no more."""
        self.leads[b] = False
        if not kept:
            self.won[b] = 0

    @action
    def give_up(self, b: Broker) -> None:
        """{b} will not take up what it won."""
        self.won[b] = 0

    @action
    def write(self, b: Broker) -> None:
        """{b} writes, in the present epoch."""
        require(self.token[b] > 0 and self.token[b] == self.epoch)
        if self.elected != b:
            self.stale_write_accepted = True

    @action(kind=fault)
    def restart(self, b: Broker) -> None:
        """{b} starts anew and knows nothing."""
        self.won[b] = 0
        self.token[b] = 0
        self.leads[b] = False


# ── Promises ────────────────────────────────────────────────────────────────────────────────


@always
def one_coordinator_per_epoch(s: ElectionContract) -> bool:
    """At most one broker leads in any epoch."""
    return all(
        not (s.leads[a] and s.leads[b] and s.token[a] == s.token[b])
        for a in Broker
        for b in Broker
        if a != b
    )


@always
def an_epoch_is_taken_up_by_one(s: ElectionContract) -> bool:
    """No two brokers have taken up the same epoch, at whatever time."""
    return all(
        s.token[a] == 0 or s.token[a] != s.token[b] for a in Broker for b in Broker if a != b
    )


@always
def only_the_present_epoch_writes(s: ElectionContract) -> bool:
    """A write is accepted only from the coordinator of the current epoch."""
    return not s.stale_write_accepted


@step
def epochs_grow(before: ElectionContract, after: ElectionContract) -> bool:
    """The epoch never goes back."""
    return before.epoch <= after.epoch


@sometimes
def a_broker_leads(s: ElectionContract) -> bool:
    """A broker leads."""
    return any(s.leads[b] for b in Broker)


@sometimes
def an_older_coordinator_still_believes_it_leads(s: ElectionContract) -> bool:
    """Two brokers lead, each in an epoch of its own."""
    return any(s.leads[a] and s.leads[b] for a in Broker for b in Broker if a != b)


@lemma
def epochs_are_won_by_one(s: ElectionContract) -> bool:
    """No epoch was won by two, none lies ahead, and the present one is its winner's."""
    return all(
        s.won[a] <= s.epoch
        and s.token[a] <= s.epoch
        and (s.won[a] == 0 or s.won[a] != s.epoch or s.elected == a)
        and (s.token[a] == 0 or s.token[a] != s.epoch or s.elected == a)
        and (not s.leads[a] or s.token[a] > 0)
        for a in Broker
    ) and all(
        s.won[a] == 0 or (s.won[a] != s.won[b] and s.won[a] != s.token[b])
        for a in Broker
        for b in Broker
        if a != b
    )


CONTRACT = specification(
    ElectionContract,
    one_coordinator_per_epoch,
    an_epoch_is_taken_up_by_one,
    only_the_present_epoch_writes,
    epochs_grow,
    a_broker_leads,
    an_older_coordinator_still_believes_it_leads,
    epochs_are_won_by_one,
)
