"""
ConsumerCoordinator: what a consumer is a member for: topics, assignors, offsets, and its poll.

Source: `003` (ConsumerCoordinator.poll; commits); *ours*: commits before a join, and that nothing
is handed out while one is awaited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from herdproof.consuming.consumer_protocol import (
    read_assignment,
    write_assignment,
    write_subscription,
)
from herdproof.consuming.events import Assigned, Revoked, StartFetchers, StopFetchers
from herdproof.consuming.offsets import NO_OFFSET, NamedPartition
from herdproof.protocols.group_protocol.client.assignors.assignor import (
    AssignorFailed,
    MemberSubscription,
    PartitionAssignor,
    RebalanceProtocol,
    checked_plan,
    chosen,
    read_member,
)
from herdproof.protocols.group_protocol.client.core.abstract_coordinator import AbstractCoordinator
from herdproof.protocols.group_protocol.client.core.context import ClientContext, Timer
from herdproof.protocols.group_protocol.client.core.events import (
    Fail,
    MetadataResponse,
    NoOffsetForPartition,
)
from herdproof.protocols.group_protocol.client.core.futures import RequestFuture
from herdproof.protocols.group_protocol.client.core.inherited import (
    topics_shared_out,
    write_with_topics,
)
from herdproof.protocols.group_protocol.client.core.metadata import Metadata
from herdproof.protocols.group_protocol.client.core.network import ConsumerNetworkClient
from herdproof.protocols.group_protocol.client.core.offset_requests import OffsetRequests
from herdproof.protocols.group_protocol.client.core.states import Generation, MemberState
from herdproof.protocols.group_protocol.client.core.subscriptions import (
    SubscriptionState,
    places,
)
from herdproof.protocols.group_protocol.coordinator.groups import CONSUMER
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.messages import GroupProtocol, JoinGroupResponse


class ConsumerCoordinator(AbstractCoordinator):
    """A consumer's part in its group; in `assign` mode it has none, and commits all the same."""

    offsets_class: ClassVar[type[OffsetRequests]] = OffsetRequests

    def __init__(
        self, context: ClientContext, client: ConsumerNetworkClient, metadata: Metadata,
        subscriptions: SubscriptionState, assignors: Sequence[PartitionAssignor],
    ) -> None:  # fmt: skip
        super().__init__(context, client)
        self.cluster = metadata
        self.subscriptions = subscriptions
        self.assignors = tuple(assignors)
        self.offsets = self.offsets_class(self)
        self.joined_topics: tuple[str, ...] = ()
        """Topics that it wanted when it joined."""
        self.assignment_snapshot: Mapping[str, int] | None = None
        """The topics that it has assigned as the leader; None: it does not lead."""
        self.user_at_work = False
        self.was_held_back = False
        """Nothing was handed out even before the present event."""
        self._awaited_calls = 0
        """Revocations that the rebalance listener has not returned from."""
        self._listened: RequestFuture[None] | None = None
        """Future that waits until the rebalance listener has returned."""
        self._prepared: RequestFuture[None] | None = None
        self._fetch_future: RequestFuture[Mapping[TopicPartition, int]] | None = None
        self._fetch_from_ms = self._commit_from_ms = 0

    # ── Poll ────────────────────────────────────────────────────────────────────────────────

    def poll(self) -> bool:
        """ConsumerCoordinator.poll: False while there is anything to wait for, or no time left."""
        if self.subscriptions.partitions_auto_assigned():
            self.poll_heartbeat(self.context.now_ms)
            if self.coordinator_unknown() and not self.ensure_coordinator_ready():
                return False
            if self.rejoin_needed_or_pending() and not self.ensure_active_group():
                return False
        elif self.cluster.update_requested and not self.client.has_ready_nodes():
            self.cluster.maybe_update()
            return False
        self.maybe_auto_commit_offsets_async(self.context.now_ms)
        return True

    def update_fetch_positions(self) -> bool:
        """Begin where the group left off: OffsetFetch into SubscriptionState; False until then."""
        if self.subscriptions.is_consuming:
            return True
        missing = self.subscriptions.missing()
        if not missing:
            self._start_fetchers()
            return True
        if self._fetch_future is None:
            ready = self.ensure_coordinator_ready()
            if not ready or self.context.now_ms < self._fetch_from_ms:
                return False
            self._fetch_future = self.offsets.fetch_committed(missing)
        future = self._fetch_future
        if not future.is_done:
            return False
        self._fetch_future = None
        if not future.succeeded:
            self._fetch_from_ms = self.context.after_backoff()
            return False
        for where in missing:
            state = self.subscriptions.assignment[where]
            state.position = state.committed = future.value.get(where, NO_OFFSET)
        if self._lacks_a_reset(missing):
            return False
        self._start_fetchers()
        return True

    def _lacks_a_reset(self, missing: Sequence[TopicPartition]) -> bool:
        """NONE: where nothing is stored, the user is told, and nothing is consumed."""
        if self.settings.auto_offset_reset is not None:
            return False
        for where in missing:
            state = self.subscriptions.assignment[where]
            if state.position == NO_OFFSET:
                state.position = None
                self._fetch_from_ms = self.context.after_backoff()
                why = f"nothing is committed of {where[0]}-{where[1]}: commit where to begin"
                what = f"{why}, or set auto_offset_reset to other than none"
                self.context.emit(Fail(NoOffsetForPartition(what)))
                return True
        return False

    def _start_fetchers(self) -> None:
        subscriptions = self.subscriptions
        subscriptions.generation += 1
        subscriptions.is_consuming = True
        if not subscriptions.by_hand:
            self._tell_positions()
        self.context.emit(
            StartFetchers(subscriptions.starts(), subscriptions.generation, subscriptions.queues()),
            Assigned(subscriptions.named()),
        )

    def _tell_positions(self) -> None:
        """It consumes all that it has in its generation: from where."""
        begins = {where: self._position(where) for where in self.subscriptions.assignment}
        self.context.step("update_fetch_positions", self.generation, offsets=begins)

    def _position(self, where: TopicPartition) -> int:
        position = self.subscriptions.assignment[where].position
        return NO_OFFSET if position is None else position

    def maybe_auto_commit_offsets_async(self, now_ms: int) -> None:
        """Commit what is finished, if it is time; in both modes."""
        if self.settings.auto_commit and now_ms >= self._commit_from_ms and self.is_committable():
            self._commit_from_ms = now_ms + self.settings.auto_commit_interval_ms
            self.offsets.commit_fresh()

    def is_committable(self) -> bool:
        """True if there is a coordinator, and a generation to commit in or no need of one."""
        if self.subscriptions.by_hand:
            return self.ensure_coordinator_ready()
        return self.state is MemberState.STABLE and not self.coordinator_unknown()

    # ── The protocol ────────────────────────────────────────────────────────────────────────

    def protocol_type(self) -> str:
        """Kafka's name for groups of consumers."""
        return CONSUMER

    def metadata(self) -> tuple[GroupProtocol, ...]:
        """Of each assignor, in order: the topics that are wanted, and what it adds to them."""
        topics = self.joined_topics = self.subscriptions.topics(self.cluster.topics)
        owned = self.kept()
        return tuple(
            GroupProtocol(
                assignor.name,
                write_subscription(
                    topics, assignor.subscription_user_data(topics),
                    owned if assignor.protocol is RebalanceProtocol.COOPERATIVE else None,
                    self.generation.generation_id,
                ),
            )
            for assignor in self.assignors
        )  # fmt: skip

    def perform_assignment(self, told: JoinGroupResponse) -> RequestFuture[dict[str, bytes]]:
        """
        The chosen assignor's plan, for the topics as they are now; its exception fails it.

        A static leader that has come back is told to leave the assignment as it is: no plan.
        """
        future: RequestFuture[dict[str, bytes]] = RequestFuture()
        try:
            members = {each.member_id: read_member(each) for each in told.members}
        except AssignorFailed as problem:
            future.fail(problem)
            return future
        wanted = sorted({topic for member in members.values() for topic in member.topics})
        if self.subscriptions.metadata_topics() is not None:
            self.cluster.want(tuple(wanted))

        self.cluster.fresh().add_listener(
            partial(
                self._assign, protocol=told.protocol_name, wanted=wanted, future=future,
                members=None if told.skip_assignment else members, me=told.member_id,
            )
        )  # fmt: skip
        return future

    def _assign(
        self, done: RequestFuture[MetadataResponse], protocol: str | None,
        members: Mapping[str, MemberSubscription] | None, wanted: Sequence[str],
        future: RequestFuture[dict[str, bytes]], me: str,
    ) -> None:  # fmt: skip
        if done.error is not None:
            future.fail(done.error)
            return
        topics = {t: self.cluster.topics[t] for t in wanted if t in self.cluster.topics}
        try:
            assignor = chosen(self.assignors, protocol)
            plan = {} if members is None else checked_plan(assignor, topics, members)
        except AssignorFailed as problem:
            future.fail(problem)
            return
        self.assignment_snapshot = topics
        parts = {member: write_assignment(places) for member, places in plan.items()}
        if members is not None and self.settings.group_instance_id is not None:
            parts[me] = write_with_topics([*plan.get(me, ())], topics)
        future.complete(parts)

    def joined(self, told: JoinGroupResponse) -> None:
        """Who leads now."""
        if told.member_id != told.leader:
            self.assignment_snapshot = None
            self.cluster.want(self.subscriptions.metadata_topics())

    def look_at_topics(self) -> None:
        """The leader joins again when partitions appear; whoever has a pattern, when topics do."""
        if self.state is not MemberState.STABLE:
            return
        topics, snapshot = self.cluster.topics, self.assignment_snapshot
        is_other = self.subscriptions.topics(topics) != self.joined_topics or (
            snapshot is not None and self.partitions_changed(snapshot, topics)
        )
        if is_other and not self.rejoin_needed:
            self.context.step("update_metadata", self.generation)
            self.request_rejoin()

    def partitions_changed(self, snapshot: Mapping[str, int], topics: Mapping[str, int]) -> bool:
        """True if assigned topics have other numbers of partitions, or wanted ones have come up."""
        wanted = topics if self.cluster.wanted is None else self.cluster.wanted
        now = {topic: topics[topic] for topic in wanted if topic in topics}
        return any(snapshot.get(topic) != count for topic, count in now.items()
                   if topic in snapshot or self.cluster.wanted is not None)  # fmt: skip

    # ── Before and after a join ─────────────────────────────────────────────────────────────

    def on_join_prepare(self) -> bool:
        """
        Give the partitions up: what is finished is committed, and the listener told, before others
        may have them. It waits for the application, which may be at work on a record.
        """
        if self._prepared is None:
            if self.subscriptions.is_consuming and (self.user_at_work or not self.was_held_back):
                return False
            if self._awaited_calls or (self.is_cooperative() and self.generation.protocol):
                return not self._awaited_calls
            self._prepared = self.give_up(is_member=self.state is MemberState.STABLE)
        if not self._prepared.is_done:
            return False
        self._prepared = None
        return True

    def is_cooperative(self) -> bool:
        """True if partitions are kept through a rebalance, unless they are taken away by it."""
        return all(a.protocol is RebalanceProtocol.COOPERATIVE for a in self.assignors)

    def give_up(self, *, is_member: bool) -> RequestFuture[None]:
        """Consume no more; commit, where a commit would be taken, then tell the listener."""
        done: RequestFuture[None] = RequestFuture()
        revoked = self.subscriptions.partitions()
        self._stop_fetchers()

        stopped = partial(self._stopped, revoked=revoked, done=done)
        if is_member and self.settings.auto_commit and self.is_committable():
            self.offsets.commit_fresh().add_listener(stopped)
        else:
            stopped(None)
        return done

    def _stopped(
        self, _committed: object, revoked: tuple[NamedPartition, ...], done: RequestFuture[None]
    ) -> None:
        self._listened = done
        self._tell_revoked(revoked)
        if not self._awaited_calls:
            self._revoked(done)

    def listener_returned(self) -> None:
        """The rebalance listener has returned from a revocation."""
        self._awaited_calls = max(0, self._awaited_calls - 1)
        if not self._awaited_calls and self._listened is not None:
            self._revoked(self._listened)

    def _tell_revoked(self, revoked: tuple[NamedPartition, ...]) -> None:
        if revoked:
            self._awaited_calls += self.settings.listens
            self.context.emit(Revoked(revoked))

    def _revoked(self, done: RequestFuture[None]) -> None:
        self._listened = None
        self.subscriptions.revoke()
        self._fetch_future = None
        done.complete(None)

    def _stop_fetchers(self) -> None:
        if self.subscriptions.is_consuming:
            self.subscriptions.is_consuming = False
            self.context.emit(StopFetchers())

    def places(self, assignment: bytes) -> Sequence[TopicPartition]:
        """The partitions of an assignment."""
        return read_assignment(assignment)

    def kept(self) -> Sequence[TopicPartition]:
        """The partitions that it has: none, unless it is cooperative and still a member."""
        return tuple(self.subscriptions.assignment)

    def is_lost(self) -> None:
        """Others may have the partitions already: nothing of them is committed any more."""
        revoked = self.subscriptions.partitions()
        self._stop_fetchers()
        self._tell_revoked(revoked)
        self.subscriptions.revoke()
        self._fetch_future = None

    def on_join_complete(self, generation: Generation, assignment: bytes) -> None:
        """Take the assignment; the listener is told once every partition's start is known."""
        partitions = self.places(assignment)
        if self.assignment_snapshot is not None:
            self.assignment_snapshot = topics_shared_out(assignment) or self.assignment_snapshot
        assignor = chosen(self.assignors, generation.protocol)
        assignor.on_assignment(partitions, generation.generation_id)
        self._commit_from_ms = self.context.now_ms + self.settings.auto_commit_interval_ms
        owned, given = self.subscriptions.assignment, set(partitions)
        if self.subscriptions.is_consuming and given == set(owned):
            self._tell_positions()
            return
        if self.subscriptions.is_consuming:
            if self.settings.auto_commit:
                self.offsets.commit_fresh()
            self._stop_fetchers()
        lost = [where for where in owned if where not in given]
        self._tell_revoked(places(lost))
        self.subscriptions.assign_from_subscribed(partitions)
        self._fetch_future = None  # it was asked for what was assigned before
        if lost:
            self.request_rejoin()  # others get them in the generation after

    def next_deadline(self, timer: Timer | None) -> int | None:
        """When something is to be done, if nothing comes before."""
        times = [super().next_deadline(timer), self.cluster.next_deadline()]
        if timer is not None and not self.subscriptions.is_consuming:
            times.append(self._fetch_from_ms)
        if self.settings.auto_commit and self.subscriptions.fresh():
            times.append(self._commit_from_ms)
        return min((time for time in times if time is not None), default=None)
