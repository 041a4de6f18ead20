"""
The coordinator connector: what a consumer does while it has a connection to its coordinator.

It registers, and from then on answers: a ping with the consumed offsets, a Stop when its fetchers
are closed, a Start when they run. It holds the *lease*: the coordinator gives this consumer's
partitions away only once it is over, and nothing may be delivered after that. And it carries the
application's commits.

The lease begins, when a new request is read, at the time at which the answer to the one before was
sent (the Register, for the first). The coordinator can have sent the new request only after that
answer, so its own count, from its sending, ends later. A copy of a ping has its correlation id and
renews nothing: it may have been on its way for long.

A registration may go on over another connection (`take_over`): its lease is what it was, until a
new request comes. To ask for that does not renew it.

Source: `000` (Connector) and `002` (On Consumer Handling Coordinator Request), as PROTOCOLS.md
rules (section B: 2, 7 and 8).
"""

from __future__ import annotations

from msgspec.structs import replace

from herdproof.consuming.events import Assigned, Deliver, Revoked, StartFetchers, StopFetchers
from herdproof.consuming.offsets import NamedPartition, Offset
from herdproof.protocols.central_coordinator.client.pending import Pending, Unstored
from herdproof.protocols.central_coordinator.client.refusals import ADVICE, refusal_of
from herdproof.protocols.central_coordinator.client.reports import What
from herdproof.protocols.central_coordinator.client.settings import ConsumerSettings
from herdproof.protocols.central_coordinator.client.topic_registry import Consumption, Registry
from herdproof.protocols.central_coordinator.events import (
    CommitAsked,
    Committed,
    ConsumerEffect,
    Report,
    Send,
)
from herdproof.protocols.central_coordinator.steps import ConsumerAction, CoordinationStep
from herdproof.protocols.central_coordinator.wire.errors import WireError
from herdproof.protocols.central_coordinator.wire.messages import (
    Brought,
    Commit,
    CommitResponse,
    ErrorCode,
    Frame,
    Leave,
    LeaveResponse,
    Message,
    Ping,
    PingResponse,
    Register,
    RegisterResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)

Effects = list[ConsumerEffect]

IDS = 2**31
"""Correlation ids are below it."""

IDS_OF_A_CONNECTION = 2**12
"""Each connection begins its own that much later: traces know one by its Register's."""


class Lost(Exception):
    """
    The connection is of no use any more: `on_lost_connection`, for this reason.

    `code` is the coordinator's refusal, `answer` what it is sent before the connection is closed.
    """

    def __init__(
        self, why: str, code: ErrorCode = ErrorCode.NONE, answer: Effects | None = None
    ) -> None:
        super().__init__(why)
        self.why = why
        self.code = code
        self.answer = answer or []


class Connector:
    """
    One connection to the coordinator, from its Register to its end.

    `number` tells it from all others of consumers that go by the same id, as far as traces go.
    """

    def __init__(
        self, channel: int, consumption: Consumption, settings: ConsumerSettings,
        now_ms: int, number: int = 0,
    ) -> None:  # fmt: skip
        self.channel = channel
        self.consumption = consumption
        self.settings = settings
        self.group = ""
        self.connection: int | None = None
        """The correlation id of its Register; None before that, and once it is given up."""
        self.registered = False
        """Its registration is accepted, and the connection stands."""
        self.member = ""
        """Name of this registration at the coordinator; empty where it has not said."""
        self.leaving = False
        self.answered_ms = now_ms
        self.heard_ms = now_ms
        """When the coordinator has said something, or was first asked to."""
        self.lease_ends_ms = now_ms + settings.session_timeout_ms
        self.last_request: int | None = None
        self.barred = 0
        """The generation of the last Stop: Starts up to it are old."""
        self._unanswered = False
        self._stop: Frame | None = None
        self._last_stop: tuple[int, StopResponse] | None = None
        self._stopped_at: tuple[Offset, ...] = ()
        """Where the fetchers were when they were stopped, until others begin."""
        self._request_deadline_ms = now_ms + settings.request_timeout_ms
        self._correlation_id = number * IDS_OF_A_CONNECTION % IDS
        self._pending: dict[int, Pending] = {}
        self._unstored: dict[NamedPartition, Unstored] = {}
        self.is_told = True
        """Nothing that the lease depends on has changed since the last step."""
        self._told_until_ms = 0
        """Until when records may be delivered, as that step told it."""
        self._leave_until_ms: int | None = None
        """Until when the answer to the Leave is waited for; None before that is sent."""
        self._ignored = False
        """The last commit was not answered: nor is anything else waited for."""
        self._left = False

    # ── Steps ───────────────────────────────────────────────────────────────────────────────

    @property
    def delivers_until_ms(self) -> int:
        """Until when records may be delivered: not at all while no fetcher runs."""
        return 0 if self.consumption.fetcher_stopped else self.lease_ends_ms

    def tell_lease(self) -> list[CoordinationStep]:
        """Tell of a lease that ends at another time than the last step told."""
        self.is_told = True
        same = self._told_until_ms == self.delivers_until_ms
        return [] if same else self._step("renew_lease")

    def give_up(
        self, until_ms: int, generation: int = 0, left: tuple[Offset, ...] = ()
    ) -> list[CoordinationStep]:
        """
        Tell, once, of the last step over this connection, and until when is delivered after.

        Of who may register anew, where its fetchers have stopped, too.
        """
        told = self.lose_touch(until_ms, generation, left)
        self.connection = None
        return told

    def lose_touch(
        self, until_ms: int, generation: int = 0, left: tuple[Offset, ...] = ()
    ) -> list[CoordinationStep]:
        """Tell that the connection is gone, while something is delivered until then."""
        told = self._step("on_lost_connection", generation if left else 0, left)
        return [replace(step, until_ms=until_ms) for step in told]

    def _step(
        self, action: ConsumerAction, generation: int = 0,
        partitions: tuple[Offset, ...] | None = None, *, of: Frame | None = None,
        outcome: str = "", subscription: str = "",
    ) -> list[CoordinationStep]:  # fmt: skip
        """A step over this connection; to answer a copy `of` a request is none."""
        if self.connection is None or (of is not None and not self._unanswered):
            return []
        self.is_told, self._told_until_ms = True, self.delivers_until_ms
        step = CoordinationStep(
            action=action, group=self.group, consumer=self.consumption.consumer_id,
            connection=self.connection, epoch=(of or self.consumption).epoch,
            generation=generation, partitions=partitions or (), subscription=subscription,
            outcome=outcome, until_ms=self._told_until_ms,
        )  # fmt: skip
        return [step]

    # ── Time ────────────────────────────────────────────────────────────────────────────────

    def deadline_ms(self) -> int:
        """When `tick` is due at the latest."""
        return min(
            self.lease_ends_ms if self.registered else self._request_deadline_ms,
            *(pending.deadline_ms for pending in self._pending.values()),
            *(unstored.retry_ms for unstored in self._unstored.values() if self.registered),
            self.lease_ends_ms if self._leave_until_ms is None else self._leave_until_ms,
            self.lease_ends_ms,
        )

    def check_lease(self, now_ms: int) -> Effects:
        """`Lost` if the lease is over, or the Register unanswered for too long."""
        if now_ms >= self.lease_ends_ms:
            raise Lost("no new request came within session_timeout")
        if not self.registered and now_ms >= self._request_deadline_ms:
            raise Lost("the coordinator did not answer the Register")
        return []

    def tick(self, now_ms: int) -> Effects:
        """Give up what was not answered in time; try again what was not stored."""
        effects: Effects = []
        for number, pending in list(self._pending.items()):
            if now_ms >= pending.deadline_ms:
                self._ignored = self.leaving
                effects += self._settle(number, ErrorCode.NOT_STORED, now_ms)
        if self._leave_until_ms is not None and now_ms >= self._leave_until_ms:
            self._left = True
        for partition, unstored in list(self._unstored.items()):
            if now_ms >= unstored.retry_ms and self.registered:
                del self._unstored[partition]
                effects += self._commit((unstored.offset,), now_ms, resolved=True)
        return effects

    # ── The coordinator's frames ────────────────────────────────────────────────────────────

    def register(
        self, group: str, topic_count: str, former: tuple[str, ...] | None = None,
        brought: tuple[Brought, ...] | None = None,
    ) -> Effects:  # fmt: skip
        """
        The first request; `former` registrations have stopped (None: of version 1), and where.

        Who has taken over another connection asks to resume its registration.
        """
        settings, resumes = self.settings, bool(self.member)
        request = self._request(
            Register(
                group_id=group,
                consumer_id=self.consumption.consumer_id,
                topic_count=topic_count,
                auto_commit=settings.auto_commit,
                auto_offset_reset=settings.auto_offset_reset,
                ping_interval_ms=settings.ping_interval_ms,
                max_ping_retries=settings.max_ping_retries,
                session_timeout_ms=settings.session_timeout_ms,
                former=former,
                resumes=self.member if resumes else None,
                brought=None if resumes else brought,
            ),
            generation=self.consumption.generation if resumes else 0,
        )
        self.group, self.connection = group, self._correlation_id
        action: ConsumerAction = "resume" if resumes else "register"
        generation = request[0].frame.generation
        return [*self._step(action, generation, subscription=topic_count), *request]

    def take_over(self, lost: Connector) -> None:
        """Go on, over this connection, with the registration of one that is lost."""
        assert lost.connection is not None, "it was registered"
        self.member, self.barred = lost.member, lost.barred
        self.lease_ends_ms = lost.lease_ends_ms
        self._unstored = lost._unstored
        self._correlation_id = lost.connection - 1  # the Register has the same as before

    def handle(self, frame: Frame, now_ms: int) -> Effects:
        """Take one frame of the coordinator; `Lost` if that ends the connection."""
        self.heard_ms = now_ms
        self._check_epoch(frame)
        message = frame.message
        if isinstance(message, RegisterResponse) and not self.registered:
            return self.handle_register_response(message)
        if not self.registered:
            raise Lost(f"a {type(message).__name__} came before the Register was answered")
        if isinstance(message, CommitResponse):
            return self._settle(frame.correlation_id, message.error_code, now_ms)
        if isinstance(message, LeaveResponse) and self._leave_until_ms is not None:
            self._left = True
            return []
        if isinstance(message, Ping | Stop | Start):
            self._renew_lease(frame.correlation_id)
            self.is_told = False
        match message:
            case Ping():
                return self.handle_ping_request(frame, now_ms)
            case Stop():
                return self.handle_stop_request(frame, now_ms)
            case Start():
                return self.handle_start_request(frame, message, now_ms)
            case _:
                raise Lost(f"a {type(message).__name__} came, which nobody asked for")

    def handle_register_response(self, response: RegisterResponse) -> Effects:
        """Accepted; or refused: `Lost`."""
        code, name = response.error_code, response.member or ""
        if code is ErrorCode.NONE and self.member not in ("", name):
            raise Lost(f"it asked to resume {self.member}, not {name}", ErrorCode.ILLEGAL_STATE)
        if code is not ErrorCode.NONE:
            advice = ADVICE.get(code, "")
            raise Lost(f"the registration was refused: {code.name}{advice}", code)
        self.registered, self.member = True, name
        return [Report(What.REGISTERED, details=(("channel", self.channel),))]

    def handle_ping_request(self, frame: Frame, now_ms: int) -> Effects:
        """Alive, with the consumed offsets if auto_commit."""
        offsets = self._own_offsets()
        step = self._step("handle_ping", self.consumption.generation, offsets, of=frame)
        return [*step, *self._answer(frame, PingResponse(offsets), now_ms)]

    def handle_stop_request(self, frame: Frame, now_ms: int) -> Effects:
        """
        Close the fetchers and clear the queues; idempotent, and always answered.

        The answer says that nothing is delivered any more. A rebalance listener is heard before.
        """
        if self._last_stop is not None and self._last_stop[0] == frame.correlation_id:
            return self._answer(frame, self._last_stop[1], now_ms)
        self.barred = frame.generation
        self._stop = frame
        return self.stop_fetching() + self._after_revocation(now_ms)

    def handle_start_request(self, frame: Frame, start: Start, now_ms: int) -> Effects:
        """Consume what was assigned; `ILLEGAL_STATE` while fetchers run for something else."""
        effects, code = self._start(frame.generation, start)
        outcome = code.name if code else ""
        step = self._step(
            "handle_start", frame.generation, start.partitions, of=frame, outcome=outcome
        )
        return [*step, *effects, *self._answer(frame, StartResponse(code), now_ms, code)]

    # ── The application ─────────────────────────────────────────────────────────────────────

    def handle_consumed(self, offset: Offset, generation: int | None) -> Effects:
        """The consumed offset advances; for a record of a past assignment it does not."""
        info = self.consumption.find(offset.topic, offset.partition)
        if info is not None and self._is_current(generation):
            info.consumed_offset = max(info.consumed_offset, offset.offset)
        return []

    def handle_resolved(self, offset: Offset, generation: int | None, now_ms: int) -> Effects:
        """
        A start was resolved by reset: it is stored before the first delivery.

        Else who comes next would resolve anew, and skip what was processed in between but failed.
        """
        info = self.consumption.find(offset.topic, offset.partition)
        if info is None or self.consumption.fetcher_stopped or not self._is_current(generation):
            return []
        info.consumed_offset = offset.offset
        if not self.registered:  # it is stored once it is again
            self._unstored[NamedPartition(offset.topic, offset.partition)] = Unstored(offset, 0)
            return []
        return self._commit((offset,), now_ms, resolved=True)

    def handle_commit(self, asked: CommitAsked, now_ms: int) -> Effects:
        """The user's commit: a frame of its own, to be answered."""
        named = asked.offsets or ()
        infos = [self.consumption.find(offset.topic, offset.partition) for offset in named]
        if None in infos or not self._is_current(asked.generation):
            return [Committed(asked.number, ErrorCode.STALE_GENERATION)]
        for info, offset in zip(infos, named, strict=True):
            assert info is not None, "looked at above"
            # Who commits a record says that it is finished with.
            info.consumed_offset = max(info.consumed_offset, offset.offset)
        offsets = self.consumption.consumed() if asked.offsets is None else named
        if not offsets:
            return [Committed(asked.number, ErrorCode.NONE)]
        return self._commit(offsets, now_ms, asked=asked.number)

    def handle_revocation_handled(self, now_ms: int) -> Effects:
        """The listener has returned: now the Stop is answered, or the last offsets are sent."""
        return self._after_revocation(now_ms)

    # ── The end ─────────────────────────────────────────────────────────────────────────────

    def leave(self, now_ms: int) -> Effects:
        """The user closes the consumer: fetch no more, and commit what was consumed."""
        self.leaving = True
        return self.stop_fetching() + self._after_revocation(now_ms)

    def take_leave(self, now_ms: int) -> Effects:
        """
        Say `Leave`, once, when nothing is outstanding any more of what `leave` began.

        Nothing is fetched here from then on: the coordinator gives the partitions away at once.
        """
        commits = any(not pending.resolved for pending in self._pending.values())
        waits = self.consumption.revocations or commits
        if waits or not self.registered or self._leave_until_ms is not None:
            return []
        self._leave_until_ms = now_ms + self.settings.request_timeout_ms
        self._left = self._ignored
        step = self.give_up(self.delivers_until_ms)
        return [*step, *self._request(Leave(), self.consumption.generation)]

    def has_left(self) -> bool:
        """True if the coordinator has answered the Leave, or there is nobody to wait for."""
        return self._left or not self.registered

    def stop_fetching(self) -> Effects:
        """Close all fetchers and clear their queues, and tell the listener."""
        consumption = self.consumption
        if consumption.fetcher_stopped:
            return []
        consumption.fetcher_stopped = True
        self.is_told = False
        self._unstored.clear()
        revoked = consumption.partitions()
        if revoked and self.settings.listens:
            consumption.revocations += 1
        return [StopFetchers(), *([Revoked(revoked)] if revoked else [])]

    def may_resume(self) -> bool:
        """It was given something in the present generation, or nothing; and was not stopped."""
        return bool(self.member) and not self.consumption.fetcher_stopped

    def consume_on(self) -> None:
        """The connection is gone; what is consumed goes on until the lease is over."""
        self.registered = False
        for pending in self._pending.values():
            if pending.resolved and pending.generation == self.consumption.generation:
                [offset] = pending.offsets
                partition = NamedPartition(offset.topic, offset.partition)
                self._unstored[partition] = Unstored(offset, 0)

    def abandon(self) -> Effects:
        """The connection is gone, and with it the answers to what was asked over it."""
        abandoned, self._pending = self._pending, {}
        return [
            Committed(pending.asked, ErrorCode.NOT_STORED)
            for pending in abandoned.values()
            if pending.asked is not None
        ]

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    def _check_epoch(self, frame: Frame) -> None:
        """Whoever coordinates in a past epoch is refused, and told so."""
        seen = self.consumption.epoch
        if frame.epoch < seen:
            refusal = refusal_of(frame.message)
            raise Lost(
                f"epoch {frame.epoch} is over: {seen} has been seen",
                answer=[] if refusal is None else [self._response(frame, *refusal)],
            )
        self.consumption.epoch = max(seen, frame.epoch)

    def _renew_lease(self, correlation_id: int) -> None:
        new = correlation_id != self.last_request
        if new:
            self.lease_ends_ms = self.answered_ms + self.settings.session_timeout_ms
        self.last_request = correlation_id
        self._unanswered = self._unanswered or new

    def _answer(
        self, frame: Frame, message: Message, now_ms: int, error: ErrorCode = ErrorCode.NONE
    ) -> Effects:
        """Answer a request; the time of its first answer is where the next lease begins."""
        if self._unanswered:
            self.answered_ms, self._unanswered = now_ms, False
        return [self._response(frame, message, error)]

    def _response(self, frame: Frame, message: Message, error: ErrorCode) -> Send:
        response = Frame(
            message,
            correlation_id=frame.correlation_id,
            epoch=self.consumption.epoch,
            generation=self.consumption.generation,
            error=error,
        )
        return Send(self.channel, response)

    def _request(self, message: Message, generation: int) -> list[Send]:
        """A request of this consumer's own."""
        self._correlation_id = (self._correlation_id + 1) % IDS
        request = Frame(
            message,
            correlation_id=self._correlation_id,
            epoch=self.consumption.epoch,
            generation=generation,
            client_id=self.consumption.consumer_id,
        )
        return [Send(self.channel, request)]

    def _after_revocation(self, now_ms: int) -> Effects:
        """Once no listener is busy: answer the Stop that waits, commit for the last time."""
        if self.consumption.revocations:
            return []
        effects: Effects = []
        if self._stop is not None:
            offsets = self._own_offsets()
            answer = StopResponse(offsets)
            self._stopped_at = offsets or ()
            self._last_stop = (self._stop.correlation_id, answer)
            generation = self.consumption.generation
            effects += self._step("handle_stop", generation, offsets, of=self._stop)
            effects += self._answer(self._stop, answer, now_ms)
            self._stop = None
            self.consumption.clear()
        if self.leaving and self.registered:
            if offsets := self._own_offsets():
                effects += self._commit(offsets, now_ms)
            self.consumption.clear()
        return effects

    def _commit(
        self, offsets: tuple[Offset, ...], now_ms: int, asked: int | None = None,
        *, resolved: bool = False,
    ) -> Effects:  # fmt: skip
        generation = self.consumption.generation
        effects: Effects = [*self._step("commit", generation, offsets)]
        effects += self._request(Commit(offsets), generation)
        self._pending[self._correlation_id] = Pending(
            offsets=offsets,
            generation=generation,
            deadline_ms=now_ms + self.settings.request_timeout_ms,
            asked=asked,
            resolved=resolved,
        )
        return effects

    def _settle(self, correlation_id: int, code: ErrorCode, now_ms: int) -> Effects:
        """A Commit was answered, or is taken for not stored."""
        pending = self._pending.pop(correlation_id, None)
        if pending is None:
            return []  # it was given up before
        if pending.asked is not None:
            return [Committed(pending.asked, code)]
        if pending.resolved and pending.generation == self.consumption.generation:
            return self._settle_start(pending.offsets[0], code, now_ms)
        return []

    def _settle_start(self, offset: Offset, code: ErrorCode, now_ms: int) -> Effects:
        """Let a resolved start's records be delivered if it is stored."""
        partition = NamedPartition(offset.topic, offset.partition)
        if self.consumption.fetcher_stopped:
            return []
        if code is ErrorCode.NONE:
            return [Deliver(partition, self.consumption.generation)]
        if code is ErrorCode.NOT_STORED:
            self._unstored[partition] = Unstored(offset, now_ms + self.settings.backoff_max_ms)
            return []
        # Another generation has begun: a Stop is on its way.
        return [Report(What.START_NOT_STORED, details=(("code", code.name),))]

    def _start(self, generation: int, start: Start) -> tuple[Effects, ErrorCode]:
        """Carry a Start out, if it can be."""
        consumption = self.consumption
        if self.leaving:
            return [], ErrorCode.ILLEGAL_STATE
        if generation <= self.barred:
            return [], ErrorCode.STALE_GENERATION  # a Stop of that generation came after it
        if not all(consumption.subscription.streams(p.topic) for p in start.partitions):
            return [], ErrorCode.INVALID_SUBSCRIPTION
        if consumption.subscription.is_wildcard:
            consumption.rebuild_threads({partition.topic for partition in start.partitions})
        try:
            planned = consumption.planned(start.partitions)
        except WireError:
            return [], ErrorCode.MALFORMED
        if not consumption.fetcher_stopped:
            return self._start_again(generation, planned)
        consumption.topic_registry = planned
        return self._start_fetching(generation), ErrorCode.NONE

    def _start_again(self, generation: int, planned: Registry) -> tuple[Effects, ErrorCode]:
        """A Start while fetchers run: only for what they fetch, and they go on where they are."""
        consumption = self.consumption
        now = {topic: infos.keys() for topic, infos in consumption.topic_registry.items()}
        if now != {topic: infos.keys() for topic, infos in planned.items()}:
            return [Report(What.ILLEGAL_STATE)], ErrorCode.ILLEGAL_STATE
        if generation == consumption.generation:
            return [], ErrorCode.NONE
        return [StopFetchers(), *self._start_fetching(generation)], ErrorCode.NONE

    def _start_fetching(self, generation: int) -> Effects:
        consumption = self.consumption
        consumption.generation = generation
        consumption.fetcher_stopped = False
        self._stopped_at = ()
        return [
            StartFetchers(consumption.starts(), generation, consumption.queues()),
            Assigned(consumption.partitions()),
        ]

    def _is_current(self, generation: int | None) -> bool:
        return generation is None or generation == self.consumption.generation

    def where_it_stops(self) -> tuple[Offset, ...]:
        """As it would answer a Stop now, or has answered the last one."""
        return self._own_offsets() or self._stopped_at

    def _own_offsets(self) -> tuple[Offset, ...] | None:
        return self.consumption.consumed() if self.settings.auto_commit else None
