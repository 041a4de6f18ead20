"""
Groups and their members: how they come, how they go, and what is kept of those who are gone.

A member whose channel is closed may go on fetching until its lease is over. Until then it is one of
its group's *ghosts*, for whom rebalances wait; if it was told to fetch nothing, or says itself that
it does not (`Leave`, or the Register of its process's next connection), it is gone at once.
A group is forgotten once nobody belongs to it; what ZooKeeper keeps of it is read again if somebody
comes back.

Source: `002` (On Consumer Add/Delete, On Coordinator Failover), PROTOCOLS.md, rulings 2 and 5.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.coordinator.groups import (
    Flag,
    Group,
    LeaseHolder,
    Phase,
    Registered,
)
from herdproof.protocols.central_coordinator.coordinator.members.admission import Admission
from herdproof.protocols.central_coordinator.coordinator.members.expiry import Expiry
from herdproof.protocols.central_coordinator.coordinator.members.recovery import Recovery, ghosts_of
from herdproof.protocols.central_coordinator.coordinator.pings import PingScheduler
from herdproof.protocols.central_coordinator.coordinator.rebalancing.rebalance import Rebalancer
from herdproof.protocols.central_coordinator.coordinator.socket_server import Channel
from herdproof.protocols.central_coordinator.coordinator.store import StoreResult
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.steps import OVER
from herdproof.shells.expiry import Key


class Membership(CorePart):
    """All groups."""

    rebalancer_class: ClassVar[type[Rebalancer]] = Rebalancer
    """Class that its rebalancer is made by; a subclass may name another."""
    admission_class: ClassVar[type[Admission]] = Admission
    """Class that lets its members in; a subclass may name another."""

    def __init__(self, context: Context, pings: PingScheduler) -> None:
        super().__init__(context)
        self.elected_ms = 0
        self.expiry = Expiry(context, self._retire, self._expired)
        self.recovery = Recovery(context, self._loaded)
        self.rebalancer = self.rebalancer_class(context, self.recovery, self._reopened)
        self.admission = self.admission_class(
            context, self.group_of, self._admitted, self._forget_consumer
        )
        self._interests = context.interests
        self._server = context.server
        self._store = context.store
        self._offsets = context.offsets
        self._topics = context.topics
        self._pings = pings

    def clear(self) -> None:
        """There are no groups, and nobody registers."""
        self._groups.clear()
        self._interests.clear()
        self.recovery.clear()
        self.rebalancer.clear()
        self.admission.clear()
        self.expiry.clear()

    # ── Groups ──────────────────────────────────────────────────────────────────────────────

    def visit(self, name: str) -> None:
        """A stored group's turn has come: read it, and rebalance it if anybody is there."""
        group = self.group_of(name)
        group.visited = True
        self.rebalancer.request(group)

    def group_of(self, name: str) -> Group:
        """A group; one that is not known is read from ZooKeeper."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name)
            self.rebalancer.groups_being_rebalanced[name] = Flag()
            self.recovery.load(group)
        return group

    def _loaded(self, group: Group, ok: bool) -> None:
        """A group has been read, or could not be."""
        if not ok:
            load = partial(self.recovery.load, group)
            self._after(self._settings.zookeeper_backoff_ms, ("load", group.name), load)
            return
        self._purgatory.clear(("load", group.name))  # somebody else may have asked meanwhile
        group.loaded = True
        if group.recovered:
            self._offsets.forget(group.name)
        else:
            group.recovered = True
            self._take_over(group)
        self.admission.group_loaded(group)
        self.rebalancer.resume(group)
        self._retire(group)

    def _take_over(self, group: Group) -> None:
        """Wait for the consumers whom a former coordinator knew, and for the leases it granted."""
        timeout_ms = group.session_timeout_ms or self._settings.max_session_timeout_ms
        until_ms = self.elected_ms + self._settings.lease_ms(timeout_ms)
        if until_ms > self._outbox.now_ms:
            for ghost in ghosts_of(group, until_ms).values():
                self._wait_for_lease(group, ghost)
        for member in group.joining.values():
            group.expected.pop(member.consumer_id, None)
        for subscription in group.expected.values():
            if subscription is not None:
                self._interests.follow(group.name, subscription)
        if group.expected:
            due_ms = self.elected_ms + self._settings.failover_grace_ms
            self._purgatory.watch(("grace", group.name), due_ms, partial(self._grace_over, group))

    def _grace_over(self, group: Group) -> None:
        """Who has not reconnected by now is not waited for."""
        for consumer_id in list(group.expected):
            self._expect_no_more(group, consumer_id)
            self._forget_consumer(group, consumer_id)
        self.rebalancer.resume(group)
        self._retire(group)

    def _expect_no_more(self, group: Group, consumer_id: str) -> None:
        """A known consumer is back, or has stayed away for too long."""
        subscription = group.expected.pop(consumer_id, None)
        if subscription is not None:
            self._interests.unfollow(group.name, subscription)
        if not group.expected:
            self._purgatory.clear(("grace", group.name))

    def _forget_consumer(self, group: Group, consumer_id: str) -> None:
        """A registration is gone for good; with the consumer's last one, so is its subscription."""
        if group.loaded and not group.holds(consumer_id):
            path = self._paths.subscription(group.name, consumer_id)
            changes: dict[str, bytes | None] = {path: None}
            if group.is_deserted() and self._store.is_known(group.name, path):
                # It is empty from now on: see `expiry.py`.
                changes[self._paths.subscriptions(group.name)] = b""
            self._store.write(group.name, changes, partial(self._removed, group))

    def _removed(self, group: Group, outcome: StoreResult) -> None:
        del outcome  # one that stays is a consumer that the next coordinator waits for in vain
        self._retire(group)

    def _reopened(self, group: Group) -> None:
        self.admission.reopened(group)
        self._retire(group)

    def _retire(self, group: Group) -> None:
        """Forget a group that nobody belongs to any more, once all is written."""
        name = group.name
        if self._groups.get(name) is not group or not group.is_deserted():
            return
        if group.phase is not Phase.IDLE or not group.loaded:
            return
        if not self._offsets.is_written(name):
            if self._offsets.unwritten.get(name) and self._store.is_idle(name):
                self._offsets.flush(name, partial(self._flushed, group))
            return
        if group.visited and not group.dated:
            group.dated = True
            if self.expiry.takes(group):
                return
        for kind in ("rebalance", "load", "grace", "retire"):
            self._purgatory.clear((kind, name))
        del self._groups[name], self.rebalancer.groups_being_rebalanced[name]
        self._offsets.forget(name)
        self._store.forget(name)
        if not group.visited:
            self._outbox.report(What.GROUP_EMPTY, name, generation=group.generation)

    def _expired(self, group: Group) -> None:
        """Nothing may stand of a group any more; who has registered meanwhile begins anew."""
        self._store.forget(group.name)
        if group.is_deserted():
            group.loaded = True
            self._retire(group)
        else:
            self.recovery.load(group)

    def _flushed(self, group: Group, done: bool) -> None:
        """The last offsets of a group that nobody belongs to are written, or could not be."""
        if done:
            self._retire(group)
        else:
            retire = partial(self._retire, group)
            self._after(self._settings.zookeeper_backoff_ms, ("retire", group.name), retire)

    # ── Members ─────────────────────────────────────────────────────────────────────────────

    def _admitted(self, group: Group, member: Registered) -> None:
        """A consumer is a member from now on."""
        group.visited = False
        self._interests.follow(group.name, member.subscription)
        self._pings.schedule(member.channel, self._outbox.now_ms, member.ping_interval_ms)
        what = What.MEMBER_RESUMED if member.resumed else What.MEMBER_JOINED
        self._outbox.report(
            what, group.name, consumer=member.consumer_id, member=member.registration,
            members=len(group.members),
        )  # fmt: skip
        self._expect_no_more(group, member.consumer_id)
        self.rebalancer.member_joined(group, member)
        if group.generation == 0 and len(group.members) == 1:
            self.handle_new_group(group)
        else:
            self.handle_group_member_change(group)
        if member.resumed:
            self._lease_goes_on(group, member)
        self._end_former(group, member)  # of this one the barrier knows by now
        self.rebalancer.resume(group)  # it may have waited for this one to come back

    def handle_new_group(self, group: Group) -> None:
        """A group is seen for the first time: rebalance it if there is anything to consume."""
        if not self._topics.are_read or self.rebalancer.planner.plans_any(group):
            self.rebalancer.request(group)  # 3.1; 3.2: otherwise its flag stays clear

    def _lease_goes_on(self, group: Group, member: Registered) -> None:
        """Who was taken for gone is back: its lease is a member's, and is renewed now."""
        ghost = group.ghosts.pop(member.registration, None)
        if ghost is not None:
            self._purgatory.clear(lease_of(group, ghost))
        self._pings.ping(member.channel)

    def _end_former(self, group: Group, member: Registered) -> None:
        """Nobody waits for what a consumer's process says to have stopped."""
        for one in self._former(group, member):
            if isinstance(one, LeaseHolder):
                self._purgatory.clear(lease_of(group, one))
                self._lease_over(group, one)
            else:
                one.may_fetch = False
                self._server.fail(one.channel, OVER)

    def _former(self, group: Group, member: Registered) -> list[LeaseHolder | Registered]:
        """The registrations that a member says to have stopped, as far as they are waited for."""
        named: dict[str, LeaseHolder | Registered] = {**group.members, **group.ghosts}
        found = (named[name] for name in member.former if name in named)
        return [one for one in found if one.consumer_id == member.consumer_id and one != member]

    def handle_group_member_change(self, group: Group) -> None:
        """A member has come or gone: rebalance the group if anybody is left."""
        if group.members:  # otherwise 2.1: do nothing
            self.rebalancer.request(group)  # 2.2

    def gone(self, channel: Channel, why: str) -> None:
        """A channel is closed: its member is gone, though it may fetch until its lease is over."""
        self.admission.closed(channel.number)
        member = channel.member
        if member is None:
            return
        group = self._groups[member.group]
        del group.members[member.registration]
        self._interests.unfollow(group.name, member.subscription)
        self._context.matches.drop(member.subscription)
        until_ms = channel.sent_ms + self._settings.lease_ms(member.session_timeout_ms)
        haunts = member.may_fetch and until_ms > self._outbox.now_ms
        if haunts:
            self._keep_lease(group, member, until_ms)
        self._outbox.report(
            What.MEMBER_LOST, group.name, consumer=member.consumer_id, member=member.registration,
            why=why, members=len(group.members),
            lease_ms=until_ms - self._outbox.now_ms if haunts else 0,
        )  # fmt: skip
        self._forget_consumer(group, member.consumer_id)
        self.rebalancer.member_lost(group, member, why)
        self.handle_group_member_change(group)
        self._retire(group)

    def _keep_lease(self, group: Group, member: Registered, until_ms: int) -> None:
        """Whoever is gone may fetch until then: what it has is given to nobody before."""
        self._wait_for_lease(group, LeaseHolder(member.registration, member.consumer_id, until_ms))

    def _wait_for_lease(self, group: Group, ghost: LeaseHolder) -> None:
        group.ghosts[ghost.registration] = ghost
        over = partial(self._lease_over, group, ghost)
        self._purgatory.watch(lease_of(group, ghost), ghost.until_ms, over)

    def _lease_over(self, group: Group, ghost: LeaseHolder) -> None:
        """A registration that is gone fetches no more: its partitions may be given away."""
        del group.ghosts[ghost.registration]
        self._outbox.report(
            What.LEASE_OVER, group.name, consumer=ghost.consumer_id, member=ghost.registration
        )
        self._forget_consumer(group, ghost.consumer_id)
        self.rebalancer.resume(group)
        self._retire(group)


def lease_of(group: Group, ghost: LeaseHolder) -> Key:
    """The key by which the end of a lease is waited for."""
    return ("lease", f"{group.name} {ghost.registration}")
