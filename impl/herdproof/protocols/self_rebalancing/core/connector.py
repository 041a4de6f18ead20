"""
The consumer connector's core: one member of a group that rebalances by itself.

It takes one event and answers with what must now happen, in order (`events.py`). Here are its
session with ZooKeeper (registration, lease, expiry), what the application consumes and commits, and
the time; the rebalances are `ZKRebalanceListener`'s.

Source: `004` (consumer connector); Kafka 0.8.2, `ZookeeperConsumerConnector`, and its
`ZKSessionExpireListener`; the lease is *ours*.
"""

from __future__ import annotations

from functools import partial
from typing import assert_never

from herdproof.consuming import group_nodes
from herdproof.consuming.assignment import Partition
from herdproof.consuming.events import (
    Answered,
    CommitAsked,
    Committed,
    Consumed,
    Deliver,
    Fired,
    Resolved,
    RevocationHandled,
    Shutdown,
    Subscribe,
    Tick,
    WakeAt,
)
from herdproof.consuming.offsets import NamedPartition, Offset
from herdproof.protocols.self_rebalancing.core.context import (
    ConnectorContext,
    Round,
    ignore_answer,
    is_made,
    reason,
)
from herdproof.protocols.self_rebalancing.core.events import (
    CommitOutcome,
    ConnectorEffect,
    ConnectorEvent,
    EndSession,
    LinkTold,
)
from herdproof.protocols.self_rebalancing.core.lease import SessionLease
from herdproof.protocols.self_rebalancing.core.rebalance import ZKRebalanceListener
from herdproof.protocols.self_rebalancing.core.registry import TopicRegistry
from herdproof.protocols.self_rebalancing.registries.paths import GroupDirs
from herdproof.protocols.self_rebalancing.registries.registrations import (
    ConsumerRegistration,
    encoded,
)
from herdproof.protocols.self_rebalancing.reports import What
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Create,
    Delete,
    Exists,
    Found,
    Link,
    Names,
    Refusal,
    Sync,
    Why,
)


class ConsumerConnector:
    """One member; `delivers_until_ms` may be read at any time."""

    listener: type[ZKRebalanceListener] = ZKRebalanceListener

    def __init__(
        self, group: str, consumer_id: str, registration: ConsumerRegistration,
        settings: ConnectorSettings,
    ) -> None:  # fmt: skip
        self.context = ConnectorContext(GroupDirs(group), consumer_id, registration, settings)
        self.registry = TopicRegistry(registration)
        self.rebalances = self.listener(self.context, self.registry, self._register)
        self.lease = SessionLease()
        self.link = Link.LOST
        self.has_started = False
        self.is_registered = False
        self.has_ended = False
        self.register_again_ms: int | None = None
        self._commits_at_ms: int | None = None
        self._asked: set[int] = set()
        """The user's commits that are not answered yet."""

    @property
    def consumer_id(self) -> str:
        """The name of its registration."""
        return self.context.consumer_id

    @property
    def delivers_until_ms(self) -> int:
        """Its shell hands out no record once its clock shows this."""
        return self.lease.until_ms

    def may_deliver(self, now_ms: int) -> bool:
        """Tells whether a record may be handed out now."""
        return self.registry.is_fetching and now_ms < self.lease.until_ms

    def receive(self, event: ConnectorEvent, now_ms: int) -> list[ConnectorEffect]:
        """Take one event; answer with what must now happen, in order."""
        if self.has_ended:
            return []
        self.context.now_ms, self.context.until_ms = now_ms, self.delivers_until_ms
        self._end_what_is_over()
        self._take(event)
        self._keep_time()
        return self.context.take()

    def _take(self, event: ConnectorEvent) -> None:
        match event:
            case Subscribe():
                self.has_started = True
                self._register()
            case LinkTold(link, session, timeout_ms):
                self._link_told(link, session, timeout_ms)
            case Answered(number, answer):
                self.context.answered(number, answer)
            case Fired(watched):
                self._fired(watched.path)
            case Consumed(offset, generation):
                self.consumed(offset, generation)
            case Resolved(offset, generation):
                self.resolved(offset, generation)
            case CommitAsked():
                self.commit(event)
            case RevocationHandled():
                self.rebalances.revocation_handled()
            case Shutdown():
                self.rebalances.is_closing = True
            case Tick():
                pass
            case _:
                assert_never(event)

    # ── The session ─────────────────────────────────────────────────────────────────────────

    def _link_told(self, link: Link, session: int, timeout_ms: int) -> None:
        if link is not Link.CONNECTED:
            self._cut_off(link)
            return
        self.link = link
        self.lease.begin(timeout_ms, self.context.now_ms)
        is_new, had_one = session != self.context.session, self.context.session != 0
        self.context.session = session
        if is_new:
            self.is_registered = False
            self.lease.end()
        if is_new and had_one:
            self.rebalances.handle_new_session()
        if not self.is_registered:
            self._register()
        else:
            self.context.step("reconnect")
            self.rebalances.reconnected()

    def _cut_off(self, link: Link) -> None:
        """ZooKeeper cannot be heard; the lease runs on, unless the session is known to be over."""
        self.link = link
        self.context.cut_off()
        self.rebalances.cut_off()
        self.register_again_ms = None
        for number in sorted(self._asked):
            self.context.emit(Committed(number, CommitOutcome.UNKNOWN))
        self._asked.clear()
        if link is Link.LOST and self.context.session:
            self.lease.end()
            self.context.report(What.SESSION_LOST, "the server says that the session has expired")
            self.suspend()

    def _end_what_is_over(self) -> None:
        """When the lease ends: whatever is told then, that ZooKeeper was silent comes before it."""
        if self.registry.is_fetching and self.context.now_ms >= self.lease.until_ms:
            why = "ZooKeeper was silent for too long: the session may end"
            self.context.report(What.LEASE_OVER, why)
            self.suspend()
            self.rebalances.is_due = True

    def suspend(self) -> None:
        """Deliver nothing any more: the session may end."""
        if self.registry.is_fetching:
            self.context.step("suspend")
            self.rebalances.close_fetchers_for_queues()

    # ── The registration ────────────────────────────────────────────────────────────────────

    def _register(self) -> None:
        """Create the node below `ids`, unless the group is another protocol's."""
        self.register_again_ms = None
        was_registered, self.is_registered = self.is_registered, False
        if not self.has_started or self.link is not Link.CONNECTED:
            return
        handle = partial(self._strangers_listed, was_registered)
        self.context.ask(Children(self.context.dirs.subscriptions), handle)

    def _strangers_listed(self, was_registered: bool, answer: Answer) -> None:
        """Who is a coordinator's stays so: this member waits, and its node is not in the way."""
        dirs = self.context.dirs
        if isinstance(answer, Names) and answer.names:
            if was_registered:
                self.context.ask(Delete(dirs.id(self.consumer_id)), ignore_answer)
            self._register_later(group_nodes.refusal(dirs.group, answer.names, dirs.subscriptions))
        elif isinstance(answer, Names) or answer == Refusal(Why.NO_NODE):
            self._create_id()
        else:
            self._register_later(f"{dirs.subscriptions} cannot be read: {reason(answer)}")

    def _create_id(self) -> None:
        data = encoded(self.context.registration)
        self.context.step("register", subscription=data.decode())
        path = self.context.dirs.id(self.consumer_id)
        self.context.ask(Create(path, data, ephemeral=True), self._registered)

    def _registered(self, answer: Answer) -> None:
        path = self.context.dirs.id(self.consumer_id)
        if not isinstance(answer, Refusal):
            self._is_registered()
        elif answer.why is Why.NODE_EXISTS:
            self.context.ask(Exists(path), self._looked_for)
        elif answer.why is Why.NO_NODE:
            round_ = Round(self.context, self._register_again)
            round_.make_parents(path, self._prepared)
            round_.close()
        else:
            self._register_later(reason(answer))

    def _prepared(self, answer: Answer) -> None:
        if answer == Refusal(Why.NO_NODE):
            self._register_later(
                "the nodes above it can neither be found nor created: is there the chroot that the "
                "address of ZooKeeper names, and may this user write there?"
            )
        elif not is_made(answer):
            self._register_later(reason(answer))

    def _register_again(self) -> None:
        """The nodes above are made, or it was said why not."""
        if self.register_again_ms is None:
            self._register()

    def _looked_for(self, answer: Answer) -> None:
        """A node of this name stands; if it is of an earlier session, that soon ends."""
        stat = answer.stat if isinstance(answer, Found) else None
        if stat is not None and stat.ephemeral_owner == self.context.session:
            self._is_registered()
        elif stat is None:
            self._register()
        elif stat.ephemeral_owner:
            self._register_later(
                "another consumer has this id, or this one's last session has not ended yet; each "
                "needs an id of its own"
            )
        else:
            self._register_later("a persistent node has that name: whoever has made it deletes it")

    def _register_later(self, why: str) -> None:
        self.register_again_ms = self.context.now_ms + self.context.settings.rebalance_backoff_ms
        path = self.context.dirs.id(self.consumer_id)
        self.context.report(What.NOT_REGISTERED, f"{path} cannot be created: {why}")

    def _is_registered(self) -> None:
        self.context.report(What.REGISTERED, "its node below ids stands")
        self.is_registered = True
        self.rebalances.registered()

    def _fired(self, path: str) -> None:
        self.rebalances.fired(path)

    # ── What the application does ───────────────────────────────────────────────────────────

    def consumed(self, offset: Offset, generation: int | None) -> None:
        """The application has finished with the records before this one."""
        info = self.registry.find(offset.topic, offset.partition)
        if info is not None and self.registry.is_current(generation):
            info.consumed_offset = max(info.consumed_offset, offset.offset)

    def resolved(self, offset: Offset, generation: int | None) -> None:
        """The fetchers know where a partition begins: that is stored before it is delivered."""
        info = self.registry.find(offset.topic, offset.partition)
        fetches = self.registry.is_fetching and self.registry.is_current(generation)
        if info is None or not fetches or self.link is not Link.CONNECTED:
            return
        info.consumed_offset = offset.offset
        partition = (offset.topic, offset.partition)
        deliver = Deliver(NamedPartition(*partition), self.registry.generation)
        self.rebalances.offsets.reset(
            partition, offset.offset, partial(self._start_stored, deliver)
        )

    def _start_stored(self, deliver: Deliver, is_stored: bool) -> None:
        if is_stored:
            self.context.emit(deliver)

    def commit(self, asked: CommitAsked) -> None:
        """The user's commit: of these offsets, or of all that is consumed."""
        offsets = self._offsets_of(asked)
        if self.link is not Link.CONNECTED:
            self.context.emit(Committed(asked.number, CommitOutcome.NOT_SENT))
        elif offsets is None:
            self.context.emit(Committed(asked.number, CommitOutcome.REFUSED))
        else:
            self._asked.add(asked.number)
            self.rebalances.offsets.store(offsets, partial(self._user_committed, asked.number))

    def _offsets_of(self, asked: CommitAsked) -> dict[Partition, int] | None:
        """The offsets to be stored; None where they are not of this assignment."""
        if asked.offsets is None:
            return self.registry.consumed()
        if not self.registry.is_current(asked.generation):
            return None
        if any(self.registry.find(o.topic, o.partition) is None for o in asked.offsets):
            return None
        for offset in asked.offsets:
            self.consumed(offset, asked.generation)
        return {(o.topic, o.partition): o.offset for o in asked.offsets}

    def _user_committed(self, number: int, is_stored: bool) -> None:
        self._asked.discard(number)
        outcome = CommitOutcome.STORED if is_stored else CommitOutcome.REFUSED
        self.context.emit(Committed(number, outcome))

    # ── The end ─────────────────────────────────────────────────────────────────────────────

    def _close(self) -> None:
        """Close, once no step of an attempt is under way; at once, where ZooKeeper is not heard."""
        is_cut_off = self.link is not Link.CONNECTED
        if not self._closes and (is_cut_off or self.rebalances.may_be_left):
            self._closes = True
            self.shutdown()
        if self._closes and is_cut_off:
            self._end(False)
        elif self._closes and not (self.rebalances.revocations or self._asked or self._submits):
            self._submits = True
            automatic = self.context.settings.auto_commit_enable
            offsets = self.registry.consumed() if automatic else {}
            self.rebalances.offsets.store(offsets, self._end)

    _closes = _submits = False
    """The end has begun; and the user's listener has returned."""

    def shutdown(self) -> None:
        """Close the fetchers, submit the offsets, and end the session: with it, all it owns."""
        self.context.step("shutdown")
        self.rebalances.close_fetchers_for_queues()
        self.rebalances.owned.waits.clear()

    def _end(self, is_stored: bool) -> None:
        del is_stored
        self.has_ended = True
        self.context.emit(EndSession())

    # ── Time ────────────────────────────────────────────────────────────────────────────────

    def _keep_time(self) -> None:
        """Do what is due, and say when to be woken."""
        now = self.context.now_ms
        self._end_what_is_over()
        if self.link is Link.CONNECTED and self.lease.is_due(now):
            self.lease.asked(now)
            self.context.ask(Sync(), self._synced)
        if self.register_again_ms is not None and now >= self.register_again_ms:
            self._register()
        if self.rebalances.is_closing:
            self._close()
        else:
            self.rebalances.keep_time()
        self._commit_by_itself()
        self._wake()

    def _synced(self, answer: Answer) -> None:
        if not isinstance(answer, Refusal):
            self.lease.answered()
        self.lease.sent_ms = None

    def _commit_by_itself(self) -> None:
        """Every so often, while something is consumed."""
        settings, now = self.context.settings, self.context.now_ms
        if not (settings.auto_commit_enable and self.registry.is_fetching):
            self._commits_at_ms = None
        elif self._commits_at_ms is None:
            self._commits_at_ms = now + settings.auto_commit_interval_ms
        elif now >= self._commits_at_ms and self.link is Link.CONNECTED:
            self._commits_at_ms = now + settings.auto_commit_interval_ms
            self.rebalances.offsets.store(self.registry.consumed(), ignore_outcome)

    def _wake(self) -> None:
        lease_ms = self.lease.until_ms if self.registry.is_fetching else None
        sync_ms = self.lease.asks_at_ms if self.lease.sent_ms is None else None
        connected = self.link is Link.CONNECTED
        due = [
            lease_ms,
            sync_ms if connected else None,
            self.register_again_ms,
            self.rebalances.wakes_ms,
            self._commits_at_ms if connected else None,
        ]
        times = [time_ms for time_ms in due if time_ms is not None]
        if times and not self.has_ended:
            self.context.emit(WakeAt(max(min(times), self.context.now_ms + 1)))


def ignore_outcome(is_stored: bool) -> None:
    """Ignore what comes of a commit that nobody waits for."""
    del is_stored
