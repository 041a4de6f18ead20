"""
The client's core as a whole: it takes one event, and answers with what must now happen.

    core = GroupConsumer(settings, nodes, assignors)
    effects = core.receive(SubscribeTo(named({"orders": 1})), now_ms)

`updateAssignmentMetadataIfNeeded`, `poll`, and whatever else may wait in the document, waits here
for the next event: a `Poll` stays open until it has come about, or its time is up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from herdproof.consuming.events import (
    CommitAsked,
    Committed,
    Consumed,
    Resolved,
    RevocationHandled,
    Shutdown,
    Tick,
    WakeAt,
)
from herdproof.consuming.offsets import Offset, number_of
from herdproof.protocols.group_protocol.client.assignors.assignor import PartitionAssignor
from herdproof.protocols.group_protocol.client.core.consumer_coordinator import ConsumerCoordinator
from herdproof.protocols.group_protocol.client.core.context import (
    FOR_EVER_MS,
    ClientContext,
    Timer,
)
from herdproof.protocols.group_protocol.client.core.events import (
    AssignTo,
    ClientEffect,
    ClientEvent,
    CommitResult,
    Disconnected,
    EndClient,
    Node,
    Poll,
    Polled,
    RequestAnswered,
    SubscribeTo,
)
from herdproof.protocols.group_protocol.client.core.futures import RequestFuture
from herdproof.protocols.group_protocol.client.core.metadata import Metadata
from herdproof.protocols.group_protocol.client.core.network import ConsumerNetworkClient
from herdproof.protocols.group_protocol.client.core.settings import ClientSettings
from herdproof.protocols.group_protocol.client.core.states import NO_MEMBER, MemberState
from herdproof.protocols.group_protocol.client.core.subscriptions import SubscriptionState


class GroupConsumer:
    """One client; `nodes` are the brokers that it knows at first."""

    coordinator_class: ClassVar[type[ConsumerCoordinator]] = ConsumerCoordinator

    def __init__(
        self, settings: ClientSettings, nodes: Sequence[Node],
        assignors: Sequence[PartitionAssignor],
    ) -> None:  # fmt: skip
        self.settings = settings
        self.context = ClientContext(settings)
        self.client = ConsumerNetworkClient(self.context, nodes)
        self.metadata = Metadata(self.context, self.client)
        self.subscriptions = SubscriptionState()
        self.coordinator = self.coordinator_class(
            self.context, self.client, self.metadata, self.subscriptions, assignors
        )
        self.has_ended = False
        self._closing = False
        self._timer: Timer | None = None
        self._wakes_ms: int | None = None

    @property
    def consumer_id(self) -> str:
        """The name that its group knows it by."""
        return self.settings.client_id

    @property
    def delivers_until_ms(self) -> int:
        """
        Nothing is handed out once the clock shows this.

        That is the end of the lease; while a join is awaited, it is now, so that the application
        is at work on nothing when the partitions are given up.
        """
        if self._closing or not self.subscriptions.is_consuming:
            return 0
        return FOR_EVER_MS if self.subscriptions.by_hand else self.lease_until_ms()

    def lease_until_ms(self) -> int:
        """As long as that the coordinator counts this member for certain."""
        coordinator = self.coordinator
        if coordinator.state is not MemberState.STABLE or coordinator.rejoin_needed:
            return 0
        return coordinator.heartbeat.lease_until_ms

    def receive(self, event: ClientEvent, now_ms: int) -> list[ClientEffect]:
        """Take one event; answer with what must now happen, in order."""
        self.coordinator.was_held_back = self.delivers_until_ms <= self.context.now_ms
        self.context.now_ms = max(self.context.now_ms, now_ms)
        if not self.has_ended:
            self._handle(event)
            self._go_on()
            self._set_alarm()
        return self.context.take()

    def _handle(self, event: ClientEvent) -> None:
        match event:
            case SubscribeTo(subscription):
                self.subscriptions.subscribe(subscription)
                cooperates = self.coordinator.is_cooperative()
                self.context.step("subscribe", NO_MEMBER, is_cooperative=cooperates)
                self.metadata.want(self.subscriptions.metadata_topics())
                self.coordinator.heartbeat.poll(self.context.now_ms)
                self._poll(Poll(self.settings.max_poll_interval_ms))
            case AssignTo(partitions):
                self.subscriptions.assign(partitions)
                self.metadata.want(self.subscriptions.metadata_topics())
                self._poll(Poll(self.settings.max_poll_interval_ms))
            case Poll():
                self._poll(event)
            case RequestAnswered(number, response):
                self.client.answered(number, response)
            case Disconnected(node):
                self.coordinator.coordinator_lost(node)
                self.client.disconnected(node)
            case Consumed(offset, generation):
                if generation in (None, self.subscriptions.generation):
                    self._consumed(offset)
            case Resolved(offset, generation):
                self.coordinator.offsets.resolved(offset, generation)
            case RevocationHandled():
                self.coordinator.listener_returned()
            case CommitAsked():
                self._commit(event)
            case Shutdown():
                self._close()
            case Tick():
                pass

    # ── Poll ────────────────────────────────────────────────────────────────────────────────

    def _poll(self, poll: Poll) -> None:
        if self._closing or not (self.subscriptions.by_hand or self.subscriptions.subscription):
            return
        self.coordinator.user_at_work = poll.at_work
        self._timer = Timer.of(poll.timeout_ms, self.context.now_ms)
        self.coordinator.poll_heartbeat(self.context.now_ms)

    def update_assignment_metadata_if_needed(self) -> bool:
        """The assignment first, then, with the time that is left, the positions."""
        if not self.coordinator.poll():
            return False
        return self.coordinator.update_fetch_positions()

    def _go_on(self) -> None:
        """Give up what is late, let the heartbeat thread have its turn, and the poll its own."""
        for node in self.client.late():
            self.coordinator.coordinator_lost(node)
        if self._closing:
            return
        self.metadata.maybe_update()
        self.coordinator.look_at_topics()
        self.coordinator.run_heartbeat_thread()
        self.coordinator.offsets.store_starts()
        if self._timer is not None:
            done = self.update_assignment_metadata_if_needed()
            is_over = not self._timer.remaining_time_at_least_zero(self.context.now_ms)
            if done or is_over:
                self._timer = None
                self.context.emit(Polled(done))

    def _set_alarm(self) -> None:
        times = [
            self.coordinator.next_deadline(self._timer),
            self.coordinator.offsets.next_deadline(),
        ]
        now_ms = self.context.now_ms  # what is due already waits for something else
        soonest = min((time for time in times if time is not None and time > now_ms), default=None)
        if soonest is not None and soonest != self._wakes_ms:
            self.context.emit(WakeAt(soonest))
        self._wakes_ms = soonest

    def _consumed(self, offset: Offset) -> None:
        """The application has finished with what is before."""
        if self.subscriptions.consumed(offset) and not self.subscriptions.by_hand:
            where = offset.topic, number_of(offset.partition)
            generation = self.coordinator.generation
            self.context.step("consume", generation, offsets={where: offset.offset})

    # ── Commits, and the end ────────────────────────────────────────────────────────────────

    def _commit(self, asked: CommitAsked) -> None:
        if asked.offsets is None:
            future = self.coordinator.offsets.commit_fresh()
        else:
            offsets = {(o.topic, number_of(o.partition)): o.offset for o in asked.offsets}
            is_present = asked.generation in (None, self.subscriptions.generation)
            if not is_present or any(o not in self.subscriptions.assignment for o in offsets):
                self.context.emit(Committed(asked.number, CommitResult.REFUSED))
                return
            for offset in asked.offsets:
                self._consumed(offset)
            future = self.coordinator.offsets.commit(offsets)
        future.add_listener(partial(self._committed, number=asked.number))

    def _committed(self, done: RequestFuture[CommitResult], number: int) -> None:
        self.context.emit(Committed(number, done.value))

    def _close(self) -> None:
        """Stop, commit, leave the group; then all connections end."""
        if self._closing:
            return
        self._closing, self._timer = True, None
        is_member = self.subscriptions.by_hand or (
            self.coordinator.state is MemberState.STABLE
            and not self.coordinator.coordinator_unknown()
        )
        given_up = self.coordinator.give_up(is_member=is_member)
        given_up.add_listener(self._leave)

    def _leave(self, _given_up: object) -> None:
        generation = self.coordinator.generation.over
        asked = self.coordinator.maybe_leave_group()
        if not self.subscriptions.by_hand:
            self.context.step("close", generation)
        if asked is None:
            self._end()
        else:
            asked.add_listener(self._end)

    def _end(self, _left: object = None) -> None:
        self.has_ended = True
        self.context.emit(EndClient())
