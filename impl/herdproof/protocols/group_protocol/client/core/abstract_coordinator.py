"""
AbstractCoordinator: finds the group's coordinator, joins the group, and stays in it by heartbeats.

What blocks in the document is left and entered again here: each of its loops is one step, which
answers False while something is under way. `ConsumerCoordinator` says what is joined for.

Source: `003` (the whole flow of joining); *ours*: what its drafts leave out, the back-off, and the
lease of `Heartbeat`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from herdproof.errors import HerdError
from herdproof.protocols.group_protocol.client.core.context import ClientContext, Timer
from herdproof.protocols.group_protocol.client.core.events import (
    CoordinatorUnknown,
    Fail,
    Fenced,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    Node,
    RefusedBy,
    RequestLost,
    UnjoinedGroup,
)
from herdproof.protocols.group_protocol.client.core.futures import RequestFuture, failed
from herdproof.protocols.group_protocol.client.core.heartbeat import Heartbeat
from herdproof.protocols.group_protocol.client.core.network import ConsumerNetworkClient
from herdproof.protocols.group_protocol.client.core.states import (
    NO_MEMBER,
    Generation,
    MemberState,
    transition,
)
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.messages import (
    Error,
    GroupProtocol,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from herdproof.protocols.group_protocol.steps import ClientAction

ELSEWHERE = frozenset({Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE})
"""Whoever hears this has to look the coordinator up again."""
PASSING = ELSEWHERE | {
    Error.COORDINATOR_LOAD_IN_PROGRESS, Error.REBALANCE_IN_PROGRESS, Error.ILLEGAL_GENERATION,
    Error.UNKNOWN_MEMBER_ID, Error.MEMBER_ID_REQUIRED, Error.UNKNOWN_SERVER_ERROR,
}  # fmt: skip
"""Refusals that another attempt may not meet; of all others the application is told."""
JOIN_FAILED: Mapping[Error, ClientAction] = {
    Error.MEMBER_ID_REQUIRED: "learn_member_id", Error.UNKNOWN_MEMBER_ID: "reset_generation",
    Error.FENCED_INSTANCE_ID: "reset_generation",
    Error.ILLEGAL_GENERATION: "join_again", Error.REBALANCE_IN_PROGRESS: "join_again",
}  # fmt: skip
"""The step that it is to fail to join; by any other error, or none, the join is lost."""


class AbstractCoordinator(ABC):
    """A member of a group, whatever it is a member for; `003`'s names throughout."""

    join_group_version: ClassVar[int] = 9
    """From 4 on the first JoinGroup only asks for a member id."""

    def __init__(self, context: ClientContext, client: ConsumerNetworkClient) -> None:
        self.context = context
        self.settings = context.settings
        self.client = client
        self.coordinator: Node | None = None
        self.state = MemberState.UNJOINED
        self.generation = NO_MEMBER
        self.rejoin_needed = True
        self.needs_join_prepare = True
        self.is_fenced = False
        """Another one is the static member that this one was: it never joins again."""
        self.join_future: RequestFuture[bytes] | None = None
        self.find_future: RequestFuture[Node] | None = None
        self.heartbeat = Heartbeat(self.settings)
        self.heartbeat_started = self.heartbeat_enabled = False
        self._heartbeat_future: RequestFuture[HeartbeatResponse] | None = None
        self._lookup_from_ms = 0
        self._join_from_ms = 0

    # ── What it is a member for ─────────────────────────────────────────────────────────────

    @abstractmethod
    def protocol_type(self) -> str:
        """The group's protocol type, in Kafka's sense."""

    @abstractmethod
    def metadata(self) -> tuple[GroupProtocol, ...]:
        """The protocols by which it can be assigned, with what it says of itself in each."""

    @abstractmethod
    def perform_assignment(self, told: JoinGroupResponse) -> RequestFuture[dict[str, bytes]]:
        """The leader's assignment to each member, by the chosen protocol; or why it cannot."""

    @abstractmethod
    def on_join_prepare(self) -> bool:
        """Get ready to be assigned anew; False while that is under way."""

    @abstractmethod
    def on_join_complete(self, generation: Generation, assignment: bytes) -> None:
        """Take the assignment."""

    @abstractmethod
    def places(self, assignment: bytes) -> Sequence[TopicPartition]:
        """The partitions of an assignment."""

    @abstractmethod
    def kept(self) -> Sequence[TopicPartition]:
        """The partitions that it has while it joins."""

    @abstractmethod
    def is_lost(self) -> None:
        """The partitions are no longer this member's."""

    # ── The coordinator ─────────────────────────────────────────────────────────────────────

    def coordinator_unknown(self) -> bool:
        """True if no coordinator of the group is known."""
        return self.coordinator is None

    def ensure_coordinator_ready(self) -> bool:
        """Have the coordinator looked up; False as long as it is unknown."""
        if self.coordinator_unknown() and self.context.now_ms >= self._lookup_from_ms:
            self.lookup_coordinator()
        return not self.coordinator_unknown()

    def lookup_coordinator(self) -> RequestFuture[Node]:
        """Ask the least loaded node who coordinates; once at a time."""
        if self.find_future is not None:
            return self.find_future
        found = self.find_future = RequestFuture()
        request = FindCoordinatorRequest(self.settings.group_id)
        node = self.client.least_loaded_node()
        asked = self.client.send(node, request, FindCoordinatorResponse)
        asked.add_listener(partial(self._found_coordinator, found=found))
        return found

    def _found_coordinator(
        self, done: RequestFuture[FindCoordinatorResponse], found: RequestFuture[Node]
    ) -> None:
        self.find_future = None
        told = done.value if done.succeeded else None
        if told is not None and told.node is not None:
            self.coordinator = told.node.as_coordinator
            self.heartbeat.received(self.context.now_ms)
            found.complete(self.coordinator)
            return
        self._lookup_from_ms = self.context.after_backoff()
        if told is None:
            found.fail(CoordinatorUnknown("who coordinates the group could not be asked"))
        else:
            self._may_be_final("FindCoordinator", told.error)
            found.fail(RefusedBy("FindCoordinator", told.error))

    def mark_coordinator_unknown(self) -> None:
        """Nobody is known who coordinates: what was asked of the former one is given up."""
        former, self.coordinator = self.coordinator, None
        if former is not None:
            self._lookup_from_ms = self.context.after_backoff()
            self.client.hang_up(former)

    def coordinator_lost(self, node: Node) -> None:
        """A connection is over: if it was the coordinator's, that is looked up again."""
        if node == self.coordinator:
            self.coordinator = None
            self._lookup_from_ms = self.context.after_backoff()

    # ── Joining ─────────────────────────────────────────────────────────────────────────────

    def rejoin_needed_or_pending(self) -> bool:
        """True if it has to join, or is about to have joined."""
        return self.rejoin_needed or self.join_future is not None

    def request_rejoin(self) -> None:
        """It has to join again."""
        self.rejoin_needed = True

    def ensure_active_group(self) -> bool:
        """Have the group joined; False while that is under way."""
        self.start_heartbeat_thread_if_needed()
        return self.join_group_if_needed()

    def join_group_if_needed(self) -> bool:
        """One turn of the document's loop: False if it is out of time, or has to wait."""
        while self.rejoin_needed_or_pending():
            if self.coordinator_unknown() and self.join_future is None:
                return False
            if self.needs_join_prepare:
                if not self.on_join_prepare():
                    return False
                self.needs_join_prepare = False
            if self.join_future is None and not self.may_join():
                return False
            future = self.initiate_join_group()
            if not future.is_done:
                return False
            self.reset_join_group_future()
            if not future.succeeded:
                self.join_failed(future.error)
            elif self.state is MemberState.STABLE:  # else it was reset since, by a heartbeat
                self.needs_join_prepare = True
                self.on_join_complete(self.generation, future.value)
        return True

    def may_join(self) -> bool:
        """True if the back-off after a failure is over, and the member has not been replaced."""
        return not self.is_fenced and self.context.now_ms >= self._join_from_ms

    def reset_join_group_future(self) -> None:
        """The next join is another one."""
        self.join_future = None

    def join_failed(self, error: HerdError | None) -> None:
        """Try again after a while; whoever was only told its member id, at once."""
        self.rejoin_needed = True
        required = isinstance(error, RefusedBy) and error.error is Error.MEMBER_ID_REQUIRED
        self._join_from_ms = self.context.now_ms if required else self.context.after_backoff()
        if not isinstance(error, RefusedBy | RequestLost | CoordinatorUnknown | UnjoinedGroup):
            assert error is not None
            self.context.emit(Fail(error))

    def initiate_join_group(self) -> RequestFuture[bytes]:
        """Send JoinGroup, unless one is pending: its future is reused by every poll until then."""
        if self.join_future is None:
            self.disable_heartbeat_thread()
            self.state = transition(self.state, MemberState.REBALANCING)
            self.rejoin_needed = False  # what is told from now on is of later
            self.context.step("initiate_join_group", self.generation.over, owners=self.kept())
            self.join_future = self.send_join_group_request()
            self.join_future.add_listener(self._join_ended)
        return self.join_future

    def _join_ended(self, done: RequestFuture[bytes]) -> None:
        if self.state is not MemberState.REBALANCING:
            return
        if done.succeeded:
            self.state = transition(self.state, MemberState.STABLE)
            self.enable_heartbeat_thread()
            places = self.places(done.value)
            self.context.step("on_join_complete", self.generation, owners=places)
        else:
            self.state = transition(self.state, MemberState.UNJOINED)
            error = done.error.error if isinstance(done.error, RefusedBy) else Error.NONE
            failed, why = JOIN_FAILED.get(error, "lose"), error.name if error else ""
            self.context.step(failed, self.generation.over, outcome=why)

    def send_join_group_request(self) -> RequestFuture[bytes]:
        """Ask to be a member of the next generation."""
        if self.coordinator is None:
            return failed(CoordinatorUnknown("nobody is known who coordinates the group"))
        settings = self.settings
        request = JoinGroupRequest(
            version=self.join_group_version, client_id=settings.client_id,
            group_id=settings.group_id, session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self.generation.member_id, protocol_type=self.protocol_type(),
            protocols=self.metadata(), group_instance_id=settings.group_instance_id,
        )  # fmt: skip
        future: RequestFuture[bytes] = RequestFuture()
        asked = self.client.send(
            self.coordinator, request, JoinGroupResponse, settings.join_group_timeout_ms
        )
        asked.add_listener(partial(self.join_group_response_handler, future=future))
        return future

    def join_group_response_handler(
        self, done: RequestFuture[JoinGroupResponse], future: RequestFuture[bytes]
    ) -> None:
        """JoinGroupResponseHandler: the generation; then SyncGroup, as leader or as follower."""
        if done.error is not None:
            future.fail(done.error)
            return
        told = done.value
        if told.error:
            self.join_group_refused(told, future)
        elif self.state is not MemberState.REBALANCING:
            future.fail(UnjoinedGroup("the answer to a JoinGroup came when nobody waited for it"))
        else:
            self.generation = Generation(told.generation_id, told.member_id, told.protocol_name)
            self.joined(told)
            if told.member_id == told.leader:
                self.context.step("on_join_leader", self.generation)
                self.on_join_leader(told).chain(future)
            else:
                self.context.step("on_join_follower", self.generation)
                self.on_join_follower().chain(future)

    @abstractmethod
    def joined(self, told: JoinGroupResponse) -> None:
        """The generation is known, and who leads."""

    def join_group_refused(self, told: JoinGroupResponse, future: RequestFuture[bytes]) -> None:
        """An answer with an error completes the future as well."""
        if told.error is Error.MEMBER_ID_REQUIRED:
            self.generation = Generation(member_id=told.member_id)
        self._refused("JoinGroup", told.error, self.generation)
        future.fail(RefusedBy("JoinGroup", told.error))

    def on_join_leader(self, told: JoinGroupResponse) -> RequestFuture[bytes]:
        """Assign, and send that with SyncGroup; should it fail, the join has failed."""
        future: RequestFuture[bytes] = RequestFuture()

        self.perform_assignment(told).add_listener(partial(self._assigned, future=future))
        return future

    def _assigned(
        self, done: RequestFuture[dict[str, bytes]], future: RequestFuture[bytes]
    ) -> None:
        if done.succeeded:
            self.send_sync_group_request(done.value).chain(future)
        else:
            assert done.error is not None
            future.fail(done.error)

    def on_join_follower(self) -> RequestFuture[bytes]:
        """Send SyncGroup without assignments."""
        return self.send_sync_group_request({})

    def send_sync_group_request(self, assignments: dict[str, bytes]) -> RequestFuture[bytes]:
        """Ask for the assignment; the leader brings those of all."""
        if self.coordinator is None:
            return failed(CoordinatorUnknown("nobody is known who coordinates the group"))
        request = SyncGroupRequest(
            version=5, client_id=self.settings.client_id, group_id=self.settings.group_id,
            generation_id=self.generation.generation_id, member_id=self.generation.member_id,
            protocol_type=self.protocol_type(), protocol_name=self.generation.protocol,
            group_instance_id=self.settings.group_instance_id,
            assignments=tuple(MemberAssignment(m, data) for m, data in assignments.items()),
        )  # fmt: skip
        future: RequestFuture[bytes] = RequestFuture()
        asked = self.client.send(
            self.coordinator, request, SyncGroupResponse, self.settings.join_group_timeout_ms
        )
        asked.add_listener(partial(self.sync_group_response_handler, future=future))
        return future

    def sync_group_response_handler(
        self, done: RequestFuture[SyncGroupResponse], future: RequestFuture[bytes]
    ) -> None:
        """SyncGroupResponseHandler: the assignment, or another attempt."""
        if done.error is not None:
            future.fail(done.error)
            return
        told = done.value
        if told.error:
            self._refused("SyncGroup", told.error, self.generation)
            future.fail(RefusedBy("SyncGroup", told.error))
        else:
            self.heartbeat.reset_timeouts(self.context.now_ms)
            future.complete(told.assignment)

    # ── Being told that it is a member no longer ────────────────────────────────────────────

    def refused(self, what: str, error: Error, generation: Generation) -> None:
        """
        A request of that generation was refused; if that is over, nothing follows from it.

        While a join is under way, the answer to that says what this member is.
        """
        if error in ELSEWHERE:
            self._refused(what, error, generation)
        elif generation == self.generation and self.state is MemberState.STABLE:
            self.context.step("refused", generation, outcome=error.name)
            self._refused(what, error, generation)

    def _refused(self, what: str, error: Error, generation: Generation) -> None:
        if error in ELSEWHERE:
            self.mark_coordinator_unknown()
        elif error is Error.UNKNOWN_MEMBER_ID:
            self.reset_generation(NO_MEMBER)
        elif error is Error.ILLEGAL_GENERATION:
            self.reset_generation(generation.over)
        elif error is Error.REBALANCE_IN_PROGRESS:
            self.request_rejoin()
        elif error is Error.FENCED_INSTANCE_ID:
            self.is_fenced = True
            self.reset_generation(NO_MEMBER)
            self.context.emit(Fail(Fenced(self.settings.group_instance_id)))
        else:
            self._may_be_final(what, error)

    def _may_be_final(self, what: str, error: Error) -> None:
        if error not in PASSING:
            self.context.emit(Fail(RefusedBy(what, error)))

    def reset_generation(self, generation: Generation) -> None:
        """It is in no generation any more: what it had is others', or may be."""
        self.generation = generation
        self.heartbeat.ends_lease()
        self.request_rejoin()
        if self.state is MemberState.STABLE:
            self.state = transition(self.state, MemberState.UNJOINED)
        self.is_lost()

    def maybe_leave_group(self) -> RequestFuture[LeaveGroupResponse] | None:
        """
        Send LeaveGroup, where it is known by whom and to whom; it is in no group any more.

        A static member sends none: it may come back within its session, and have the same again.
        """
        asked = None
        is_static = self.settings.group_instance_id is not None
        if self.coordinator is not None and self.generation.member_id and not is_static:
            if self.join_future is not None and not self.join_future.is_done:
                self.client.hang_up(self.coordinator)  # else it would wait behind the JoinGroup
            request = LeaveGroupRequest(
                version=5, client_id=self.settings.client_id, group_id=self.settings.group_id,
                members=(LeavingMember(self.generation.member_id),),
            )  # fmt: skip
            asked = self.client.send(self.coordinator, request, LeaveGroupResponse)
        self.reset_generation(NO_MEMBER)
        return asked

    # ── The heartbeat thread ────────────────────────────────────────────────────────────────

    def start_heartbeat_thread_if_needed(self) -> None:
        """From the first join on there is one; while a join is under way it is paused."""
        self.heartbeat_started = True

    def disable_heartbeat_thread(self) -> None:
        """No heartbeats until it is enabled."""
        self.heartbeat_enabled = False

    def enable_heartbeat_thread(self) -> None:
        """Heartbeats again."""
        self.heartbeat_enabled = True

    def poll_heartbeat(self, now_ms: int) -> None:
        """The application has polled: the poll timer begins anew."""
        self.heartbeat.poll(now_ms)

    def run_heartbeat_thread(self) -> None:
        """One round of the heartbeat thread: the six rules, in the document's order."""
        now_ms = self.context.now_ms
        if not (self.heartbeat_started and self.heartbeat_enabled):
            return
        if self.state is not MemberState.STABLE:
            self.disable_heartbeat_thread()
        elif self.coordinator_unknown():
            self.ensure_coordinator_ready()
        elif self.heartbeat.session_timeout_expired(now_ms):
            self.context.step("session_time_out", self.generation)
            self.mark_coordinator_unknown()
        elif self.heartbeat.poll_timeout_expired(now_ms):
            self.poll_timed_out()
        elif self._heartbeat_future is None and self.heartbeat.should_heartbeat(now_ms):
            self.heartbeat.sent(now_ms)
            self.send_heartbeat_request()

    def poll_timed_out(self) -> None:
        """The application has not polled in time: stop, and leave the group to the others."""
        self.context.report(
            "left", "the application has not asked for records within max_poll_interval_ms; its "
            "partitions are left to others, and it joins again when it asks",
        )  # fmt: skip
        self.context.step("poll_time_out", self.generation.over)
        self.maybe_leave_group()

    def send_heartbeat_request(self) -> None:
        """Tell the coordinator that this member is alive."""
        assert self.coordinator is not None
        generation, sent_ms = self.generation, self.context.now_ms
        request = HeartbeatRequest(
            version=4, client_id=self.settings.client_id, group_id=self.settings.group_id,
            generation_id=generation.generation_id, member_id=generation.member_id,
            group_instance_id=self.settings.group_instance_id,
        )  # fmt: skip
        asked = self.client.send(self.coordinator, request, HeartbeatResponse)
        self._heartbeat_future = asked
        handler = partial(self.heartbeat_response_handler, generation=generation, sent_ms=sent_ms)
        asked.add_listener(handler)

    def heartbeat_response_handler(
        self, done: RequestFuture[HeartbeatResponse], generation: Generation, sent_ms: int
    ) -> None:
        """The receive time is set, and the next round begins; or it has to join again."""
        self._heartbeat_future = None
        if not done.succeeded or generation != self.generation:
            return
        error = done.value.error
        if error in (Error.NONE, Error.REBALANCE_IN_PROGRESS):
            self.heartbeat.received(self.context.now_ms)
            self.heartbeat.is_counted(sent_ms)
        if error:
            self.refused("Heartbeat", error, generation)

    # ── Time ────────────────────────────────────────────────────────────────────────────────

    def next_deadline(self, timer: Timer | None) -> int | None:
        """When something is to be done, if nothing comes before; `timer` is that of the poll."""
        times = [t for t in (self.client.next_deadline(),) if t is not None]
        if timer is not None:
            times.append(timer.ends_ms)
            if self.coordinator_unknown() and self.find_future is None:
                times.append(self._lookup_from_ms)
            elif self.join_future is None and self.rejoin_needed and not self.may_join():
                times.append(self._join_from_ms)
        if self.heartbeat_started and self.heartbeat_enabled:
            times += self._heartbeat_times()
        return min(times, default=None)

    def _heartbeat_times(self) -> list[int]:
        if self.coordinator_unknown():
            return [self._lookup_from_ms] if self.find_future is None else []
        beat = self.heartbeat
        due = [beat.next_due_ms] if self._heartbeat_future is None else []
        return [beat.session_expires_ms, beat.poll_expires_ms, *due]
