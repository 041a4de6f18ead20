"""
One consumer's session, running: the core carried by a thread with an asyncio loop.

The loop gives the core one event at a time (what connections, fetchers, listener, application and
clock tell) and carries out what it answers, in order, before the next. All decisions are the
core's. Before each event the core is told what the application has finished with meanwhile: so
every answer has the latest offsets, and a record costs no wake-up.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import assert_never

from herdproof.consuming.events import (
    Assigned,
    Deliver,
    RevocationHandled,
    Revoked,
    StartFetchers,
    StopFetchers,
)
from herdproof.consuming.fetchers import Fetchers
from herdproof.consuming.listener import ListenerThread
from herdproof.consuming.offsets import NamedPartition, Offset
from herdproof.consuming.streams import Streams
from herdproof.errors import HerdError, PeerError, WorldError
from herdproof.protocols.central_coordinator.client.client_channel import ClientChannel
from herdproof.protocols.central_coordinator.client.consumer import ConsumerCore, ConsumerPhase
from herdproof.protocols.central_coordinator.client.reports import What
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
from herdproof.protocols.central_coordinator.steps import Step
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode, Frame
from herdproof.protocols.central_coordinator.wire.partition import number_of
from herdproof.record import TopicPartition
from herdproof.shells.clock import now_ms

log = logging.getLogger(__name__)

Observe = Callable[[ConsumerCore, ConsumerEvent, Sequence[ConsumerEffect]], None]
"""Told after every event: the core as it is now, the event, and what it led to."""

TELL_AGAIN_S = 30.0
"""How long the same trouble is told no louder than for debugging."""


class AllKnownBrokersNotAvailable(WorldError):
    """No known broker could be consulted, and the consumer is set to give up then."""


class RegistrationRefused(PeerError):
    """The coordinator refused this consumer, for a reason that no other attempt can change."""


class SessionFailed(HerdError):
    """The consumer failed, by a mistake of Herdproof's own: its log has the rest."""


_FAILURES: dict[str, type[HerdError]] = {
    "AllKnownBrokersNotAvailable": AllKnownBrokersNotAvailable,
    "RegistrationRefused": RegistrationRefused,
}


def ignore_event(
    core: ConsumerCore, event: ConsumerEvent, effects: Sequence[ConsumerEffect]
) -> None:
    """Who observes a session that nobody observes."""


def by_number(partition: NamedPartition) -> TopicPartition:
    """A partition of the wire as applications call it."""
    return TopicPartition(partition.topic, number_of(partition.partition))


class ConsumerSession:
    """A consumer's core with its thread; `fetchers` are made by whoever makes the session."""

    def __init__(
        self, core: ConsumerCore, streams: Streams, *, listener: ListenerThread | None = None,
        tls: ssl.SSLContext | None = None, observe: Observe = ignore_event,
    ) -> None:  # fmt: skip
        self.core = core
        self.fetchers: Fetchers | None = None
        self._streams = streams
        self._listener = listener
        self._tls = tls
        self._observe = observe
        self._channels: dict[int, ClientChannel] = {}
        self._commits: dict[int, Future[ErrorCode]] = {}
        self._numbers = 0
        self._told: dict[str, float] = {}
        self._wake: asyncio.TimerHandle | None = None
        self._lock = threading.Lock()
        self._over = False
        self._left = asyncio.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"herdproof-{core.consumer_id}", daemon=True
        )

    def start(self) -> None:
        """Consult, register, and answer from now on."""
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        self.post(Subscribe())

    def post(self, event: ConsumerEvent) -> None:
        """Tell the core, from any thread; after the end, nobody."""
        with self._lock:
            if not self._over:
                self._loop.call_soon_threadsafe(self._give, event)

    def fail(self, error: HerdError) -> None:
        """End it with this error, which the application gets."""
        self._streams.end(error)
        self.post(Shutdown())

    def commit(
        self, offsets: tuple[Offset, ...] | None, generation: int | None
    ) -> Future[ErrorCode]:
        """Commit these offsets of a generation, or all that is consumed; its answer, later."""
        answer: Future[ErrorCode] = Future()
        with self._lock:
            if self._over:
                answer.set_result(ErrorCode.NOT_REGISTERED)
                return answer
            self._numbers += 1
            self._commits[self._numbers] = answer
            asked = CommitAsked(self._numbers, offsets, generation)
            self._loop.call_soon_threadsafe(self._give, asked)
        return answer

    def close(self, timeout_s: float) -> None:
        """Leave the group, with a last commit; after `timeout_s` seconds just end."""
        self._streams.end()
        self.post(Shutdown())
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._stop_waiting()
            self._thread.join(1.0)

    # ── The loop ────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._until_left())
        finally:
            with self._lock:
                self._over = True
            self._streams.stop()
            self._streams.end()
            for answer in self._commits.values():
                answer.set_result(ErrorCode.NOT_STORED)
            self._loop.close()

    async def _until_left(self) -> None:
        await self._left.wait()
        for channel in list(self._channels.values()):
            channel.close()
        deadline = self._loop.time() + 1.0
        while self._channels and self._loop.time() < deadline:
            await asyncio.sleep(0.005)  # so that what was sent last has left
        await asyncio.sleep(0)  # so that who was dialling has ended

    def _stop_waiting(self) -> None:
        with self._lock:
            if not self._over:
                self._loop.call_soon_threadsafe(self._left.set)

    def _give(self, event: ConsumerEvent) -> None:
        """Give the core an event, after what was consumed before it; the only way in."""
        if self._left.is_set():
            return
        try:
            for consumed in self._streams.consumed():
                self._receive(consumed)
            self._receive(event)
        except Exception as problem:
            log.exception("The core of consumer %s failed.", self.core.consumer_id)
            self._streams.stop()
            self._streams.end(SessionFailed(f"the consumer failed: {problem!r}; see its log"))
            self._left.set()
        if self.core.phase in (ConsumerPhase.CLOSED, ConsumerPhase.FAILED):
            self._left.set()

    def _receive(self, event: ConsumerEvent) -> None:
        effects = self.core.receive(event, now_ms())
        self._observe(self.core, event, effects)
        self._streams.hand_out_until(self.core.delivers_until_ms)
        for effect in effects:
            self._carry_out(effect)

    # ── Effects ─────────────────────────────────────────────────────────────────────────────

    def _carry_out(self, effect: ConsumerEffect) -> None:
        """Do what the core wants done."""
        match effect:
            case Connect(number, host, port):
                self._channels[number] = ClientChannel(self, number, host, port, self._tls)
            case Send(channel=number, frame=frame):
                if channel := self._channels.get(number):
                    channel.send(frame)
            case Close(channel=number):
                self._close(number)
            case WakeAt(time_ms=time_ms):
                self._wake_at(time_ms)
            case StopFetchers() | StartFetchers() | Deliver():
                self._fetch(effect)
            case Revoked() | Assigned():
                self._tell_listener(effect)
            case Committed(number=number, error=error):
                if answer := self._commits.pop(number, None):
                    answer.set_result(error)
            case Failed(error=error_name, why=why):
                self._streams.end(_FAILURES.get(error_name, HerdError)(why))
            case Report():
                self._tell(effect.what, str(dict(effect.details).get("why", "")))
            case Step():
                pass  # for whoever observes
            case _:
                assert_never(effect)

    def _close(self, number: int) -> None:
        if channel := self._channels.get(number):
            if not channel.stands:
                del self._channels[number]
            channel.close()

    def _wake_at(self, time_ms: int) -> None:
        """Replace the one alarm."""
        if self._wake is not None:
            self._wake.cancel()
        delay_s = max(0, time_ms - now_ms()) / 1000
        self._wake = self._loop.call_later(delay_s, self._give, Tick())

    def _fetch(self, effect: StopFetchers | StartFetchers | Deliver) -> None:
        """The streams first: what they drop need not be fetched no more before it is dropped."""
        assert self.fetchers is not None, "they are made before the session is started"
        match effect:
            case StopFetchers():
                self._streams.stop()
            case StartFetchers():
                self._streams.begin(effect, is_open=self._listener is None)
        self.fetchers.order(effect)

    def _tell_listener(self, effect: Revoked | Assigned) -> None:
        if self._listener is None:
            return
        partitions = [by_number(partition) for partition in effect.partitions]
        if isinstance(effect, Revoked):
            self._listener.revoked(partitions, lambda: self.post(RevocationHandled()))
        else:
            generation = self.core.consumption.generation
            self._listener.assigned(partitions, lambda: self._streams.open(generation))

    def _tell(self, what: str, why: str) -> None:
        """Log what the core reports; the same trouble only once in a while."""
        now = time.monotonic()
        loud = what in TROUBLES and now - self._told.get(what, -TELL_AGAIN_S) >= TELL_AGAIN_S
        if loud:
            self._told[what] = now
        quiet = logging.INFO if what == What.REGISTERED else logging.DEBUG
        level = logging.WARNING if loud else quiet
        log.log(level, "consumer %s: %s%s", self.core.consumer_id, TROUBLES.get(what, what), why)

    # ── What channels tell ──────────────────────────────────────────────────────────────────

    def connected(self, number: int) -> None:
        """A connection stands."""
        self._give(Connected(number))

    def failed(self, number: int, why: str) -> None:
        """A connection cannot be had."""
        self._channels.pop(number, None)
        self._tell(CONNECTION, why)
        self._give(ConnectFailed(number))

    def received(self, number: int, frame: Frame) -> None:
        """A frame came."""
        self._give(Received(number, frame))

    def closed(self, number: int, why: str) -> None:
        """A connection is over."""
        self._channels.pop(number, None)
        if why:
            self._tell(CONNECTION, why)
        self._give(Closed(number))


CONNECTION = "connection"

TROUBLES = {
    CONNECTION: "",
    What.LOST_CONNECTION: "it consults the brokers again, since ",
    What.BROKER_NOT_AVAILABLE: "a known broker cannot be consulted: ",
    What.NO_COORDINATOR: "no broker coordinates at present",
    What.ILLEGAL_STATE: "it was told to start while it fetches something else",
    What.START_NOT_STORED: "the start of a partition was refused, so it is not consumed",
}
"""What is told loudly, and how its sentence begins."""
