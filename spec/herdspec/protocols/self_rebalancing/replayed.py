"""
The spec as traces are replayed in it: partitions are released, and offsets stored, one by one.

The spec's own steps release, and store, all partitions of a member at once; a consumer asks
ZooKeeper for one after the other. What an application finishes is stored in the same step.
"""

from __future__ import annotations

from herdspec import action, require
from herdspec.language.specification import Specification
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.self_rebalancing.spec import Rebalance, SelfRebalancing, Session


@action
def store(self: SelfRebalancing, m: Member, p: Partition) -> None:
    """The application of {m} has finished with a record of {p}, and that is stored."""
    require(self.session[m] != Session.NONE and self.session[m] != Session.EXPIRED)
    require(self.registry[m, p] and self.accepts_commit(m, p))
    self.consumed[m, p] = self.consumed[m, p] + 1
    self.fetched[m, p] = self.consumed[m, p]
    self.finished[p] = max(self.finished[p], self.consumed[m, p])
    self.end[p] = max(self.end[p], self.consumed[m, p])
    self.committed[p] = self.consumed[m, p]


@action
def give_back(self: SelfRebalancing, m: Member, p: Partition) -> None:
    """(2) {m} deletes its owner node of {p}: one after the other, not all at once."""
    self.does(m, Rebalance.RELEASING)
    require(self.owner[p] is not None and self.may_release(m, p))
    self.delete_owner(p)


def in_replays(spec: Specification) -> Specification:
    """A spec, or a variant of it, in which partitions are released and stored by themselves."""
    return spec.add(f"{spec.name}InReplays", store=store, give_back=give_back)
