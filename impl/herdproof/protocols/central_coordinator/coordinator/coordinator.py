"""
The coordinator's core: one broker's part in system B, with no socket, clock, thread or chance.

It takes one event and its time, and answers with what must now happen, in order. Every broker has
one; it does nothing but answer Consults until its broker is `Elected`, and forgets everything, its
channels first, when it is `Deposed`. Its shell owes it what `events.py` says, and:

1. every `Ask` performed, in order, over one ZooKeeper session, and answered, be it by a refusal;
2. watch events and answers in the order in which ZooKeeper sent them;
3. where that session's connection was lost for a moment, a `Fired` for every watch that was left;
4. a `Tick` no later than `WakeAt` asked for: who is given none for `leadership_lease_ms` is taken
   for paused, and steps down.

Here the parts are joined: what a part decides for itself stands in its own file (below
`members` and `rebalancing`, `commits.py`, `offsets.py`, `topics.py`, `store.py`, …).

Source: `002`, `001` and `000`, as PROTOCOLS.md rules (section B).
"""

from __future__ import annotations

from collections import Counter, deque
from functools import partial
from typing import ClassVar, assert_never

from herdproof.consuming.offsets import Offset
from herdproof.consuming.subscription import Subscription
from herdproof.protocols.central_coordinator.coordinator.commits import Commits
from herdproof.protocols.central_coordinator.coordinator.context import Context
from herdproof.protocols.central_coordinator.coordinator.directory import Directory
from herdproof.protocols.central_coordinator.coordinator.groups import Flag, Group
from herdproof.protocols.central_coordinator.coordinator.members.membership import Membership
from herdproof.protocols.central_coordinator.coordinator.members.walk import Walk
from herdproof.protocols.central_coordinator.coordinator.offsets import Offsets
from herdproof.protocols.central_coordinator.coordinator.outbox import ignore
from herdproof.protocols.central_coordinator.coordinator.pings import PingScheduler
from herdproof.protocols.central_coordinator.coordinator.socket_server import Channel, SocketServer
from herdproof.protocols.central_coordinator.coordinator.store import Store
from herdproof.protocols.central_coordinator.coordinator.topics import TopicListeners
from herdproof.protocols.central_coordinator.events import (
    Answered,
    Closed,
    CoordinatorEffect,
    CoordinatorEvent,
    Deposed,
    Elected,
    Fired,
    Opened,
    Received,
    StepDown,
    Tick,
    WakeAt,
)
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.steps import (
    CLOSED,
    LEFT,
    CoordinationStep,
    CoordinatorAction,
)
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    Consult,
    ErrorCode,
    Frame,
    Leave,
    LeaveResponse,
    PingResponse,
    Register,
    StartResponse,
    StopResponse,
)
from herdproof.zookeeper.operations import (
    Answer,
    Data,
    Get,
    Refusal,
    Sync,
)

EXPIRE = 32
"""Number of watchers that expire in one event: most are members who are lost, or pinged again."""

_SETTINGS = Settings()
_PATHS = Paths()

_HANDLED: dict[type[PingResponse | StopResponse | StartResponse], CoordinatorAction] = {
    PingResponse: "handle_ping_response",
    StopResponse: "handle_stop_response",
    StartResponse: "handle_start_response",
}


class Coordinator:
    """
    One broker's coordinator; its fields may be read at any time.

    The names of the documents: this class has coordinatorStartup, handleNewSession, socketServer
    and pingScheduler, and by property the four maps and queues; `membership` has handleNewGroup and
    handleGroupMemberChange, `rebalancer` the requestHandlers and rebalance, `topics` the listeners.
    """

    store_class: ClassVar[type[Store]] = Store
    commits_class: ClassVar[type[Commits]] = Commits
    membership_class: ClassVar[type[Membership]] = Membership
    """Classes that these parts are made by; a subclass may name others."""

    def __init__(
        self, broker_id: int, settings: Settings = _SETTINGS, paths: Paths = _PATHS
    ) -> None:
        self.settings = settings
        self.paths = paths
        self.context = context = Context(broker_id, settings, paths)
        self.outbox = context.outbox
        self.purgatory = context.purgatory
        self.groups = context.groups
        self.interests = context.interests
        self.is_ready = False
        """Topics are read, and the names of the groups that are stored."""
        self.taken_ms: int | None = None
        """When the last event was taken."""
        self.wake_ms: int | None = None
        """The time of the last `WakeAt`, until its `Tick` comes."""
        self._join_parts()

    def _join_parts(self) -> None:
        """Make the parts, and tell each whom it has to tell what."""
        context = self.context
        self.socket_server = context.server = SocketServer(context, self.handle_failure)
        self.store = context.store = self.store_class(context, self._refused_by_the_fence)
        self.offsets = context.offsets = Offsets(context)
        self.topics = context.topics = TopicListeners(
            context, self.handle_topic_change, self._topics_read
        )
        self.ping_scheduler = PingScheduler(context)
        self.commits = self.commits_class(context)
        self.membership = self.membership_class(context, self.ping_scheduler)
        self.walk = Walk(
            context, self.membership.visit, self.membership.recovery.has_room, self._check_ready
        )
        self.rebalancer = self.membership.rebalancer
        self.directory = Directory(context)

    @property
    def epoch(self) -> int | None:
        """The epoch that it coordinates in; None while it does not."""
        return self.context.epoch if self.context.leads else None

    @property
    def groups_being_rebalanced(self) -> dict[str, Flag]:
        """For each group, whether it is being rebalanced, and whether anything changed since."""
        return self.rebalancer.groups_being_rebalanced

    @property
    def consumer_groups_per_topic(self) -> dict[str, dict[str, int]]:
        """For each topic, the groups that name it (with the number of their members that do)."""
        return self.interests.consumer_groups_per_topic

    @property
    def groups_with_wildcard_topics(self) -> dict[str, Counter[Subscription]]:
        """The groups that have wildcards."""
        return self.interests.groups_with_wildcard_topics

    @property
    def rebalance_request_q(self) -> list[deque[Group]]:
        """For each request handler, the groups that are to be rebalanced."""
        return self.rebalancer.rebalance_request_q

    # ── One event ───────────────────────────────────────────────────────────────────────────

    def receive(self, event: CoordinatorEvent, now_ms: int) -> list[CoordinatorEffect]:
        """Take one event at this time; answer with what must now happen, in order."""
        self.outbox.begin(now_ms)
        self._check_pause(event, now_ms)
        self.taken_ms = now_ms
        self._take(event)
        self.rebalancer.run()
        self._ask_to_be_woken(now_ms)
        return self.outbox.effects

    def _take(self, event: CoordinatorEvent) -> None:
        match event:
            case Received(channel=number):  # first, as most are
                if number in self.socket_server.channels:
                    self._receive(number, event.frame, legacy=event.legacy)
            case Elected(epoch=epoch):
                self.coordinator_startup(epoch)
            case Deposed():
                self.handle_deposed()
            case Opened(channel=channel):
                self.socket_server.opened(channel)
            case Closed(channel=number):
                self.handle_closed(number)
            case Answered(number=number, answer=answer):
                self.outbox.answered(number, answer)
            case Fired(watched=watched):
                self._fired(watched.path)
            case Tick():
                self._tick()
            case _:
                assert_never(event)

    def _tick(self) -> None:
        """Go on with what waits, then with what is due; as much as fits into one event."""
        self.wake_ms = None
        self.outbox.go_on()
        self.socket_server.run()
        self.membership.admission.go_on()
        self.purgatory.expire(self.outbox.now_ms, EXPIRE)
        self.ping_scheduler.run(self.outbox.now_ms)
        self.context.matches.run()
        self.rebalancer.tick()

    def _check_pause(self, event: CoordinatorEvent, now_ms: int) -> None:
        """Who was paused may have been deposed, and would be the last to know."""
        paused_ms = 0 if self.taken_ms is None else now_ms - self.taken_ms
        if paused_ms <= self.settings.leadership_lease_ms:
            return
        if self.epoch is not None and not isinstance(event, Deposed | Elected):
            self.step_down(f"paused for {paused_ms} ms")

    def _ask_to_be_woken(self, now_ms: int) -> None:
        """
        Ask for a tick when something is due, unless one comes by then anyway.

        What is overdue is asked for once: a shell that replaces its alarm at every event would
        never come to give it while many events come.
        """
        next_ms = now_ms if self._is_busy() else self._due_ms(now_ms)
        if next_ms is not None and (self.wake_ms is None or max(next_ms, now_ms) < self.wake_ms):
            self.wake_ms = next_ms
            self.outbox.emit(WakeAt(next_ms))

    def _due_ms(self, now_ms: int) -> int | None:
        """When something is due that waits for its time, if anything is."""
        due_ms = []
        if self.context.leads:
            due_ms.append(now_ms + max(self.settings.leadership_lease_ms // 3, 1))
        for waits in (self.purgatory, self.ping_scheduler):
            if (due := waits.due()) is not None:
                due_ms.append(due)
        return min(due_ms, default=None)

    def _is_busy(self) -> bool:
        """True if something waits for no more than the next tick."""
        return (
            self.rebalancer.is_busy()
            or self.context.matches.is_busy()
            or bool(self.outbox.waiting or self.socket_server.held)
            or bool(self.membership.admission.reopening)
        )

    # ── Leadership ──────────────────────────────────────────────────────────────────────────

    def coordinator_startup(self, epoch: int) -> None:
        """This broker was elected: read topics and groups, and listen."""
        if self.epoch is not None:
            self.handle_new_session("elected anew")
        self.context.epoch = epoch
        self.context.leads = True
        self.membership.elected_ms = self.membership.expiry.elected_ms = self.outbox.now_ms
        self.outbox.emit(CoordinationStep(action="coordinator_startup", epoch=epoch))
        self.outbox.report(What.COORDINATOR_STARTUP, epoch=epoch)
        self._read_all()

    def _read_all(self) -> None:
        """Read what there is; but first, the server that is read from must not lag behind."""
        self.outbox.ask(Sync(), self._synced)

    def _synced(self, answer: Answer) -> None:
        if isinstance(answer, Refusal):
            self._read_all_later(answer)
            return
        self.topics.start()
        self.walk.start()

    def _read_all_later(self, answer: Refusal) -> None:
        """ZooKeeper did not answer: try again."""
        self.outbox.report(What.ZOOKEEPER_TROUBLE, task="startup", why=answer.why.value)
        due_ms = self.outbox.now_ms + self.settings.zookeeper_backoff_ms
        self.purgatory.watch(("startup", 0), due_ms, self._read_all)

    def _topics_read(self) -> None:
        for group in list(self.groups.values()):
            self.rebalancer.resume(group)
        self._check_ready()

    def _check_ready(self) -> None:
        """Tell, once, that topics are read, and which groups there are: each is read when asked."""
        if not self.is_ready and self.walk.number is not None and self.topics.are_read:
            self.is_ready = True
            self.outbox.report(
                What.COORDINATOR_READY, epoch=self.epoch or 0, topics=len(self.topics.topics),
                groups=self.walk.number, ms=self.outbox.now_ms - self.membership.elected_ms,
            )  # fmt: skip

    def handle_deposed(self) -> None:
        """The election says that this broker coordinates no more, or may not."""
        self.handle_new_session("deposed")

    def step_down(self, why: str) -> None:
        """This broker finds out by itself that it cannot coordinate."""
        self.handle_new_session(why)
        self.outbox.emit(StepDown(why))

    def _refused_by_the_fence(self) -> None:
        self.step_down("a write was refused by the fence: another epoch has begun")

    def _doubt(self, why: str) -> None:
        """A peer claims a later epoch: ask ZooKeeper, since anybody could claim that."""
        path = self.paths.election.epoch
        self.outbox.ask(Sync(path), ignore)
        self.outbox.ask(Get(path), partial(self._epoch_read, why))

    def _epoch_read(self, why: str, answer: Answer) -> None:
        """Step down, unless the epoch is still this one."""
        if not isinstance(answer, Data) or answer.stat.version != self.epoch:
            self.step_down(why)

    def handle_new_session(self, why: str) -> None:
        """Close every channel, then forget everything."""
        if self.epoch is not None:
            self.outbox.emit(CoordinationStep(action="step_down", epoch=self.epoch))
        self.socket_server.close_all(why)
        if self.epoch is not None:
            self.outbox.report(What.STEPPED_DOWN, epoch=self.epoch, why=why)
        for part in (
            self.purgatory.clear_all, self.ping_scheduler.clear, self.store.clear,
            self.offsets.clear, self.topics.clear, self.membership.clear, self.directory.clear,
            self.walk.clear, self.context.matches.clear, self.outbox.forget,
        ):  # fmt: skip
            part()
        self.context.leads = False
        self.is_ready = False

    # ── Frames ──────────────────────────────────────────────────────────────────────────────

    def _receive(self, number: int, frame: Frame, *, legacy: bool) -> None:
        """Take a frame that came over an open channel."""
        server = self.socket_server
        is_ahead = self.context.leads and frame.epoch > self.context.epoch
        if is_ahead:
            self._doubt(f"a consumer has seen epoch {frame.epoch}, later than {self.epoch}")
        match frame.message:
            case Register() if not server.channels[number].registers:
                self.membership.admission.register(number, frame, legacy=legacy)
            case _ if is_ahead:
                server.accuse(number, f"has seen epoch {frame.epoch}")
            case Consult():
                self.directory.consult(number, frame, legacy=legacy)
            case _ if legacy:
                server.accuse(number, "speaks the legacy form without having registered")
            case Commit() as commit:
                self.commits.handle_commit(number, frame, commit)
            case Leave():
                self.handle_leave(number, frame)
            case PingResponse() | StopResponse() | StartResponse() as response:
                self._handle_response(number, frame, response)
            case other:
                server.accuse(number, f"sends a {type(other).__name__}, which is not a consumer's")

    def handle_closed(self, number: int) -> None:
        """A channel is closed, and not by this coordinator."""
        channel = self.socket_server.forget(number)
        if channel is not None:
            self._tell_gone(channel, "handle_closed", CLOSED)
            self.membership.gone(channel, CLOSED)

    def handle_leave(self, number: int, frame: Frame) -> None:
        """A consumer fetches nothing any more, by its own word: its group waits for no lease."""
        channel = self.socket_server.channels[number]
        member = channel.member
        error = ErrorCode.NOT_REGISTERED
        generation = 0
        if member is not None:
            error = ErrorCode.NONE
            generation = self.groups[member.group].generation
            member.may_fetch = False
        response = LeaveResponse(error)
        self.socket_server.respond(number, response, frame, generation=generation, error=error)
        self.handle_failure(number, LEFT, "handle_closed")

    def handle_failure(self, number: int, why: str, action: CoordinatorAction = "fail") -> None:
        """A channel has failed: close it, and do without its member."""
        channel = self.socket_server.channels[number]
        self._tell_gone(channel, action, why)
        self.socket_server.close(number, why)
        self.membership.gone(channel, why)

    def _tell_gone(self, channel: Channel, action: CoordinatorAction, why: str) -> None:
        if channel.member is not None:
            self.outbox.emit(channel.member.step(action, outcome=why))

    def _handle_response(
        self, number: int, frame: Frame, message: PingResponse | StopResponse | StartResponse
    ) -> None:
        """A member answers a request."""
        server = self.socket_server
        if frame.error is ErrorCode.STALE_EPOCH and self.epoch is not None:
            self._doubt(f"a consumer refuses epoch {self.epoch} as stale")
            server.accuse(number, "refuses this epoch")
            return
        member = server.channels[number].member
        outstanding = server.answered(number, frame)
        if outstanding is None:
            return
        assert member is not None, "only members are sent requests"
        group = self.groups[member.group]
        error = frame.error
        reported: tuple[Offset, ...] = ()
        if isinstance(message, StartResponse):
            error = error or message.error_code
        else:
            reported = message.offsets or ()
        action, outcome = _HANDLED[type(message)], error.name if error else ""
        self.outbox.emit(member.step(action, frame.generation, reported, outcome))
        if isinstance(message, StartResponse):
            self.rebalancer.started(group, member, outstanding.generation, error)
        elif error is not ErrorCode.NONE:
            server.accuse(number, f"answers {error.name}")
        else:
            self.commits.note(member, frame.generation, reported)
            if isinstance(message, StopResponse):
                self.rebalancer.stopped(group, member)
        server.go_on(number)

    # ── Topics ──────────────────────────────────────────────────────────────────────────────

    def _fired(self, path: str) -> None:
        """A watch fired; one that a former leadership left is of no interest."""
        self.directory.fired(path)
        if self.topics.has_started:
            self.topics.fired(path)

    def handle_topic_change(self, topic: str) -> None:
        """A topic has appeared or changed: rebalance every group that is interested in it."""
        groups = list(self.interests.groups_of(topic, self.context.matches.wants))
        self.outbox.report(
            What.TOPICS_CHANGED, topic=topic, partitions=len(self.topics.topics.get(topic, ())),
            groups=len(groups),
        )  # fmt: skip
        for name in groups:
            self.rebalancer.request(self.groups[name])
