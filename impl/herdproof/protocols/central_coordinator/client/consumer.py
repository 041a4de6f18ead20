"""
The core of system B's consumer, with no socket, clock or thread inside.

It knows some brokers. It *consults* them in turns until one names the coordinator, connects to it,
registers, and from then on only answers (`connector.py`). When the connection is lost it consults
again. Until its lease is over it consumes on meanwhile, and asks whoever coordinates then to
*resume* its registration; then, or where it is refused, it closes its fetchers, and registers anew.

A shell owes it what `events.py` says, and beside:

1. a consumer's effects are carried out before it takes its next event; `StopFetchers` is done when
   nothing is delivered any more;
2. nothing is delivered while `may_deliver` says no: a process that was paused may find its lease
   over before it has taken the `Tick` that tells so;
3. a record is `Consumed` when the application asks for the next one, not when it is delivered.

Source: `000` and `002` (On Consumer Startup), as PROTOCOLS.md rules (section B).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import ClassVar, assert_never

from herdproof.consuming import subscription
from herdproof.consuming.events import Consumed, Resolved, RevocationHandled
from herdproof.protocols.central_coordinator.client.connector import Connector, Effects, Lost
from herdproof.protocols.central_coordinator.client.former import FormerRegistrations
from herdproof.protocols.central_coordinator.client.lookout import Lookout
from herdproof.protocols.central_coordinator.client.reports import What
from herdproof.protocols.central_coordinator.client.server_cluster import Address, ServerCluster
from herdproof.protocols.central_coordinator.client.settings import ConsumerSettings
from herdproof.protocols.central_coordinator.client.topic_registry import Consumption, Registry
from herdproof.protocols.central_coordinator.events import (
    Close,
    Closed,
    CommitAsked,
    Committed,
    Connect,
    Connected,
    ConnectFailed,
    ConsumerEffect,
    ConsumerEvent,
    Failed,
    Received,
    Report,
    Send,
    Shutdown,
    Subscribe,
    Tick,
    WakeAt,
)
from herdproof.protocols.central_coordinator.wire.messages import (
    Consult,
    ConsultResponse,
    ErrorCode,
    Frame,
)


class ConsumerPhase(Enum):
    """Stages of a consumer's run."""

    IDLE = "idle"
    """Not started."""
    BACKING_OFF = "backing off"
    """Waiting before it consults again."""
    CONSULTING = "consulting"
    """Connecting to a broker, or waiting for its ConsultResponse."""
    CONNECTING = "connecting"
    """Connecting to the coordinator."""
    REGISTERING = "registering"
    REGISTERED = "registered"
    LEAVING = "leaving"
    """Closed by the user; its last commit, or its Leave, is not yet answered."""
    CLOSED = "closed"
    FAILED = "failed"


NEXT: Mapping[ConsumerPhase, frozenset[ConsumerPhase]] = {
    ConsumerPhase.IDLE: frozenset({ConsumerPhase.CONSULTING, ConsumerPhase.CLOSED}),
    ConsumerPhase.BACKING_OFF: frozenset({ConsumerPhase.CONSULTING, ConsumerPhase.CLOSED}),
    ConsumerPhase.CONSULTING: frozenset(
        {
            ConsumerPhase.CONSULTING,
            ConsumerPhase.CONNECTING,
            ConsumerPhase.BACKING_OFF,
            ConsumerPhase.FAILED,
            ConsumerPhase.CLOSED,
        }
    ),
    ConsumerPhase.CONNECTING: frozenset(
        {
            ConsumerPhase.CONNECTING,
            ConsumerPhase.REGISTERING,
            ConsumerPhase.BACKING_OFF,
            ConsumerPhase.CLOSED,
        }
    ),
    ConsumerPhase.REGISTERING: frozenset(
        {
            ConsumerPhase.CONNECTING,
            ConsumerPhase.REGISTERED,
            ConsumerPhase.BACKING_OFF,
            ConsumerPhase.FAILED,
            ConsumerPhase.CLOSED,
        }
    ),
    ConsumerPhase.REGISTERED: frozenset(
        {
            ConsumerPhase.CONNECTING,
            ConsumerPhase.BACKING_OFF,
            ConsumerPhase.LEAVING,
            ConsumerPhase.CLOSED,
        }
    ),
    ConsumerPhase.LEAVING: frozenset({ConsumerPhase.CLOSED}),
    ConsumerPhase.CLOSED: frozenset(),
    ConsumerPhase.FAILED: frozenset(),
}
"""Which phase may follow which."""

SEEKS_FOR_MS = 30_000
"""The time for which a consumer that has lost its coordinator looks for the next one often."""

ASKS_AGAIN = frozenset({ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.STALE_EPOCH})
"""Where it was refused so, or not answered, another coordinator may let a registration resume."""

PERMANENT = frozenset(
    {ErrorCode.INVALID_SUBSCRIPTION, ErrorCode.INVALID_TIMEOUTS, ErrorCode.UNKNOWN_VERSION}
)
"""Refusals of a registration that no other attempt can change: the consumer fails."""


class ConsumerCore:
    """
    One consumer of a group. Its fields may be read at any time.

    `topic_count` is the subscription's text (`InvalidSubscription`); `brokers` are where
    coordinators listen; `start_index` says which is consulted first, and spreads this consumer's
    waits: give each consumer a random one.
    """

    connector_class: ClassVar[type[Connector]] = Connector
    """Class that its connectors are made by; a subclass may name another."""

    def __init__(
        self, group: str, consumer_id: str, topic_count: str, settings: ConsumerSettings,
        brokers: Sequence[Address], start_index: int = 0,
    ) -> None:  # fmt: skip
        self.group = group
        self.consumer_id = consumer_id
        self.topic_count = topic_count
        self.settings = settings
        self.server_cluster = ServerCluster(brokers, start_index)
        self.consumption = Consumption(subscription.parse(topic_count), consumer_id)
        self.lookout = Lookout(self.consumption, settings, self.server_cluster, self._next_channel)
        self.phase = ConsumerPhase.IDLE
        self.connector: Connector | None = None
        self.kept: Connector | None = None
        """The lost connection, while its lease holds, and no other connection stands."""
        self.channel: int | None = None
        """The connection of the present phase; None where it has none."""
        self.channels = 0
        """Number of connections that were asked for: the number of the last one."""
        self.failures = 0
        """Attempts in a row that did not end in a registration."""
        self.unavailable = 0
        """Known brokers that failed in a row."""
        self.former = FormerRegistrations(brings=settings.brings)
        self._spread = (start_index % 1_000) / 1_000
        self._number = start_index * 7_919  # a prime, so that few others get near
        self._consulted: Address | None = None
        self._silent: Address | None = None
        """The coordinator that was given up as silent, until another lets this one register."""
        self._asked_ms = 0
        """When the last connection was asked for."""
        self._deadline_ms: int | None = None
        self._backed_off_ms = 0
        """When the back-off is over."""
        self._lease_over_ms = 0
        """When the lease of the last registration is, or was."""
        self._seeks_until_ms = 0
        """Until when the coordinator that it has lost is sought more often than by the back-off."""
        self._wakes_ms: int | None = None

    def receive(self, event: ConsumerEvent, now_ms: int) -> list[ConsumerEffect]:
        """Take one event; answer with what must now happen, in order."""
        effects: Effects = []
        # First of all: who was paused must not go on as if nothing had happened.
        if self.connector is not None:
            effects += self._through(Connector.check_lease, now_ms)
        elif self.kept is not None and now_ms >= self.kept.lease_ends_ms:
            effects += self._lets_go()
        effects += self._take(event, now_ms)
        if self.phase is ConsumerPhase.LEAVING and self.connector:
            effects += self.connector.take_leave(now_ms)
            if self.connector.has_left():
                effects += self._end(ConsumerPhase.CLOSED)
        if self.connector is not None and not self.connector.is_told:
            effects += self.connector.tell_lease()
        if isinstance(event, Tick):
            self._wakes_ms = None
        effects += self._look_out(now_ms)
        return effects + self._wake()

    def may_deliver(self, now_ms: int) -> bool:
        """True if records may reach the application now: fetchers run, and the lease holds."""
        return now_ms < self.delivers_until_ms

    @property
    def delivers_until_ms(self) -> int:
        """Until when records may reach the application; 0 while no fetcher runs."""
        holder = self._holder
        return 0 if holder is None else holder.delivers_until_ms

    @property
    def _holder(self) -> Connector | None:
        """Whose lease counts."""
        return self.connector or self.kept

    @property
    def fetcher_stopped(self) -> bool:
        """True if no fetcher runs."""
        return self.consumption.fetcher_stopped

    @property
    def topic_registry(self) -> Registry:
        """The assignment that is consumed: topic → partition → its queue and consumed offset."""
        return self.consumption.topic_registry

    @property
    def topic_thread_id_and_queues(self) -> Mapping[tuple[str, str], int]:
        """The queue of each (topic, thread id)."""
        return self.consumption.topic_thread_id_and_queues

    # ── What the documents name ─────────────────────────────────────────────────────────────

    def on_startup(self, now_ms: int) -> Effects:
        """Consumer.onStartup: consult the known brokers, from the start index on."""
        return self._consult(now_ms) if self.phase is ConsumerPhase.IDLE else []

    def on_lost_connection(
        self, why: str, now_ms: int, last_words: Sequence[ConsumerEffect] = (), *,
        may_resume: bool = False, following: Address | None = None,
    ) -> Effects:  # fmt: skip
        """
        Consumer.onLostConnection: consult again after a while; but close the fetchers first.

        Those of who `may_resume` run on, as long as its lease holds. A coordinator that it is
        `following` instead is connected to at once.
        """
        connector = self.connector
        assert connector is not None, "there is a connector wherever a connection can be lost"
        if connector.registered:
            self._seeks_until_ms = now_ms + SEEKS_FOR_MS
        if self.lookout.looks and self._consulted is not None:
            self._silent = self._consulted
            self.server_cluster.go_on_after(self._silent)
        self.connector, self.kept = None, connector
        goes_on = may_resume and self._goes_on(connector, now_ms)
        if goes_on:
            connector.consume_on()
            effects: Effects = [*connector.lose_touch(self.delivers_until_ms)]
        else:
            effects = self._lets_go()
        effects += [*last_words, *self._hang_up(why), *connector.abandon()]
        effects += [self._report(What.LOST_CONNECTION, why)]
        if self.phase is ConsumerPhase.LEAVING:
            return effects + self._end(ConsumerPhase.CLOSED)
        if following is not None and not self._winds_up(now_ms):
            return effects + self._connect_to(following, now_ms)
        return effects + self._back_off(now_ms, seeks=goes_on)

    def _goes_on(self, connector: Connector, now_ms: int) -> bool:
        """True if what it consumes may be consumed on, to be resumed at the next coordinator."""
        is_asked = self.settings.resumes and self.phase is not ConsumerPhase.LEAVING
        return is_asked and connector.may_resume() and now_ms < connector.lease_ends_ms

    def _lets_go(self) -> Effects:
        """Do without the registration of a connection that is lost."""
        connector, self.kept = self.kept, None
        assert connector is not None, "who calls has looked"
        generation, left = self.consumption.generation, connector.where_it_stops()
        effects = self._let_go(connector)
        if connector.member:
            self.former.add(connector.member, generation, left)
        self._lease_over_ms = connector.lease_ends_ms
        return [*connector.give_up(self.delivers_until_ms, generation, left), *effects]

    def _let_go(self, connector: Connector) -> Effects:
        """Fetch nothing of the assignment that this connection brought, and forget it."""
        effects = connector.stop_fetching()
        self.consumption.clear()
        self.consumption.generation = 0
        return effects

    # ── Events ──────────────────────────────────────────────────────────────────────────────

    def _take(self, event: ConsumerEvent, now_ms: int) -> Effects:
        match event:
            case Subscribe():
                return self.on_startup(now_ms)
            case Shutdown():
                return self._shut_down(now_ms)
            case Tick():
                return self._tick(now_ms)
            case Connected() | ConnectFailed() | Received() | Closed():
                if event.channel == self.lookout.channel:
                    return self._hear_lookout(event, now_ms)
                # Of a connection that was given up, nothing is wanted.
                return self._hear(event, now_ms) if event.channel == self.channel else []
            case Consumed(offset, generation):
                return self._through(lambda c, _: c.handle_consumed(offset, generation), now_ms)
            case Resolved(offset, generation):
                return self._through(
                    lambda c, now: c.handle_resolved(offset, generation, now), now_ms
                )
            case CommitAsked():
                if self.phase not in (ConsumerPhase.REGISTERED, ConsumerPhase.LEAVING):
                    return [Committed(event.number, ErrorCode.NOT_REGISTERED)]
                return self._through(lambda c, now: c.handle_commit(event, now), now_ms)
            case RevocationHandled():
                self.consumption.revocations = max(0, self.consumption.revocations - 1)
                if self.phase is ConsumerPhase.BACKING_OFF and not self.consumption.revocations:
                    self._deadline_ms = self._backed_off_ms
                return self._through(Connector.handle_revocation_handled, now_ms)
            case _:
                assert_never(event)

    def _hear(self, event: Connected | ConnectFailed | Received | Closed, now_ms: int) -> Effects:
        """Something of the present connection."""
        if isinstance(event, ConnectFailed | Closed):
            self.channel = None
        if self.phase is ConsumerPhase.CONSULTING:
            return self._hear_broker(event, now_ms)
        if self.phase is ConsumerPhase.CONNECTING:
            return self._hear_coordinator(event, now_ms)
        if isinstance(event, Closed):
            return self.on_lost_connection("the connection was closed", now_ms, may_resume=True)
        if isinstance(event, Received):
            frame = event.frame
            effects = self._through(lambda c, now: c.handle(frame, now), now_ms)
            if (
                self.phase is ConsumerPhase.REGISTERING
                and self.connector
                and self.connector.registered
            ):
                self._enter(ConsumerPhase.REGISTERED)
                self.failures = 0
                self._silent = None
                self.former.understood()
            return effects
        return []

    def _hear_broker(
        self, event: Connected | ConnectFailed | Received | Closed, now_ms: int
    ) -> Effects:
        """Step 2 of onStartup: a broker is asked who coordinates."""
        match event:
            case Connected(channel):
                consult = Frame(
                    Consult(), correlation_id=1, epoch=self.consumption.epoch,
                    client_id=self.consumer_id,
                )  # fmt: skip
                return [Send(channel, consult)]
            case Received(frame=Frame(message=ConsultResponse() as answer)):
                if answer.error_code is ErrorCode.NONE:
                    return self._take_over(answer, now_ms)
                return self._broker_failed(f"it answered {answer.error_code.name}", now_ms)
            case Received(frame=Frame(message=message)):
                return self._broker_failed(f"it answered a {type(message).__name__}", now_ms)
            case ConnectFailed():
                return self._broker_failed("no connection could be had", now_ms)
            case Closed():
                return self._broker_failed("it closed the connection", now_ms)

    def _take_over(self, answer: ConsultResponse, now_ms: int) -> Effects:
        """The answer's brokers are the known ones from now on; its coordinator is connected to."""
        self.unavailable = 0
        self.server_cluster.take_over(answer.coordinator_id, answer.brokers)
        effects = self._hang_up("consulted")
        coordinator = self.server_cluster.coordinator()
        if coordinator is None:
            return [
                *effects,
                self._report(What.NO_COORDINATOR, ""),
                *self._back_off(now_ms, seeks=True),
            ]
        return effects + self._connect_to(coordinator, now_ms)

    def _hear_coordinator(
        self, event: Connected | ConnectFailed | Received | Closed, now_ms: int
    ) -> Effects:
        """Step 3: the coordinator is connected to; then this consumer registers."""
        if not isinstance(event, Connected):
            why = f"the coordinator at {self._consulted} cannot be connected to"
            return [*self._hang_up(why), self._report(What.LOST_CONNECTION, why),
                    *self._back_off(now_ms, seeks=True)]  # fmt: skip
        self._enter(ConsumerPhase.REGISTERING)
        self._deadline_ms = None
        self.connector = self.connector_class(
            event.channel, self.consumption, self.settings, now_ms, self._number + event.channel
        )
        if self.kept is not None:
            self.connector.take_over(self.kept)
            self.kept = None
        said = self.former.said(is_busy=self.consumption.revocations > 0)
        return self.connector.register(self.group, self.topic_count, *said)

    # ── A coordinator that is silent ────────────────────────────────────────────────────────

    def _look_out(self, now_ms: int) -> Effects:
        """While its coordinator says nothing, ask other brokers who coordinates."""
        silent_from_ms = self._silent_from_ms()
        if silent_from_ms is None or now_ms < silent_from_ms:
            return self.lookout.rest(silent_from_ms)
        assert self._consulted is not None, "that is the coordinator"
        return self.lookout.look(now_ms, self._consulted)

    def _silent_from_ms(self) -> int | None:
        """From when on the coordinator is silent; None where there is none that could be."""
        connector, settings = self.connector, self.settings
        if connector is not None and connector.registered:
            is_leaving = self.phase is ConsumerPhase.LEAVING
            return None if is_leaving else connector.heard_ms + settings.silence_ms
        if connector is None and self.phase is not ConsumerPhase.CONNECTING:
            return None
        since_ms = self._asked_ms if connector is None else connector.heard_ms
        return since_ms + (0 if self._consulted == self._silent else settings.patience_ms)

    def _hear_lookout(
        self, event: Connected | ConnectFailed | Received | Closed, now_ms: int
    ) -> Effects:
        """Follow another coordinator once it says itself that it is, in a later epoch."""
        effects, answer = self.lookout.hear(event, now_ms)
        if answer is None:
            return effects
        self.server_cluster.take_over(answer.coordinator_id, answer.brokers)
        coordinator = self.server_cluster.coordinator()
        assert coordinator is not None, "it has listed itself"
        why = f"the coordinator is silent, and {coordinator} has taken its place"
        if self.phase is ConsumerPhase.BACKING_OFF:  # it was asleep: its lease is over, too
            return effects
        if self.connector is None:
            return [*effects, *self._hang_up(why), *self._connect_to(coordinator, now_ms)]
        return effects + self.on_lost_connection(
            why, now_ms, may_resume=True, following=coordinator
        )

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    def _tick(self, now_ms: int) -> Effects:
        if self.connector is not None:
            return self._through(Connector.tick, now_ms)
        if self._deadline_ms is None or now_ms < self._deadline_ms:
            return []
        match self.phase:
            case ConsumerPhase.BACKING_OFF if self._winds_up(now_ms):
                self._deadline_ms = self._lease_over_ms
                return []
            case ConsumerPhase.BACKING_OFF:
                return self._consult(now_ms)
            case ConsumerPhase.CONSULTING:
                return self._broker_failed("it did not answer in time", now_ms)
            case ConsumerPhase.CONNECTING:
                assert self.channel is not None, "a connection is asked for"
                return self._hear_coordinator(ConnectFailed(self.channel), now_ms)
            case _:
                return []

    def _shut_down(self, now_ms: int) -> Effects:
        if self.phase in (ConsumerPhase.CLOSED, ConsumerPhase.FAILED, ConsumerPhase.LEAVING):
            return []
        if self.phase is not ConsumerPhase.REGISTERED:
            return self._end(ConsumerPhase.CLOSED)
        self._enter(ConsumerPhase.LEAVING)
        return self._through(Connector.leave, now_ms)

    def _through(self, handle: Callable[[Connector, int], Effects], now_ms: int) -> Effects:
        """Effects of an event that the connector handles; that may be the connection's end."""
        holder = self._holder
        if holder is None:
            return []
        try:
            return handle(holder, now_ms)
        except Lost as lost:
            # Once more, as an older coordinator understands it: first without resuming.
            is_older = lost.code is ErrorCode.UNKNOWN_VERSION
            if is_older and (holder.member or self.former.say_less()):
                pass
            elif lost.code in PERMANENT:
                return self._fail("RegistrationRefused", lost.why)
            may_resume = not holder.registered and lost.code in ASKS_AGAIN
            return self.on_lost_connection(lost.why, now_ms, lost.answer, may_resume=may_resume)

    def _enter(self, phase: ConsumerPhase) -> None:
        assert phase in NEXT[self.phase], f"{phase} cannot follow {self.phase}"
        self.phase = phase

    def _consult(self, now_ms: int) -> Effects:
        self._enter(ConsumerPhase.CONSULTING)
        return self._connect(self.server_cluster.next(), now_ms)

    def _connect_to(self, coordinator: Address, now_ms: int) -> Effects:
        self._enter(ConsumerPhase.CONNECTING)
        return self._connect(coordinator, now_ms)

    def _connect(self, address: Address, now_ms: int) -> Effects:
        self.channel = self._next_channel()
        self._consulted = address
        self._asked_ms, self._deadline_ms = now_ms, now_ms + self.settings.request_timeout_ms
        return [Connect(self.channel, address.host, address.port)]

    def _next_channel(self) -> int:
        self.channels += 1
        return self.channels

    def _broker_failed(self, why: str, now_ms: int) -> Effects:
        """The next known broker, if there is one that has not failed in this round."""
        self.unavailable += 1
        effects = [*self._hang_up(why), self._report(What.BROKER_NOT_AVAILABLE, why)]
        known = self.server_cluster.known
        if self.unavailable < len(known):
            return effects + self._consult(now_ms)
        self.unavailable = 0
        if self.settings.gives_up:
            everyone = ", ".join(map(str, known))
            return effects + self._fail(
                "AllKnownBrokersNotAvailable",
                f"none of the known brokers ({everyone}) answers; of {self._consulted}: {why}",
            )
        return effects + self._back_off(now_ms)

    def _back_off(self, now_ms: int, *, seeks: bool = False) -> Effects:
        """Wait before the next round; not for long while who answered knows of nobody yet."""
        self._enter(ConsumerPhase.BACKING_OFF)
        self.failures += 1
        seeks = seeks and now_ms < self._seeks_until_ms
        wait_ms = self.settings.backoff_after(self.failures, self._spread, seeks=seeks)
        self._backed_off_ms = now_ms + wait_ms
        self._deadline_ms = self._backed_off_ms
        return []

    def _winds_up(self, now_ms: int) -> bool:
        """
        A rebalance listener is busy, and the lease of what it winds up is not over.

        Once it has returned, that can be said to have stopped; who registers before has to be
        waited for until the lease is over, and would not be given anything earlier.
        """
        winds_up = self.consumption.revocations > 0 and self.kept is None
        return winds_up and now_ms < self._lease_over_ms

    def _hang_up(self, why: str) -> Effects:
        channel, self.channel = self.channel, None
        return [] if channel is None else [Close(channel, why)]

    def _fail(self, error: str, why: str) -> Effects:
        return [*self._end(ConsumerPhase.FAILED), Failed(error, why)]

    def _end(self, phase: ConsumerPhase) -> Effects:
        """Nothing more happens here."""
        connector = self._holder
        self.connector = self.kept = None
        self._deadline_ms = None
        self._enter(phase)
        effects: Effects = []
        if connector is not None:
            effects += connector.stop_fetching()
            effects += connector.give_up(self.delivers_until_ms)
        effects += self._hang_up("the consumer is closed")
        return effects + (connector.abandon() if connector else [])

    def _report(self, what: What, why: str) -> Report:
        details = (("consumer", self.consumer_id), ("broker", str(self._consulted)), ("why", why))
        return Report(what, self.group, details)

    def _wake(self) -> Effects:
        """Ask for a `Tick` where none is due early enough."""
        dues = (
            self.connector.deadline_ms() if self.connector else self._deadline_ms,
            self.kept.lease_ends_ms if self.kept is not None else None,
            self.lookout.due_ms,
        )
        due = min((due for due in dues if due is not None), default=None)
        if due is None or (self._wakes_ms is not None and self._wakes_ms <= due):
            return []
        self._wakes_ms = due
        return [WakeAt(due)]
