"""
A coordinator running beside a Kafka broker: the core's shell on asyncio.

    async with Server(configuration) as server:
        await server.until_it_ends()

One loop gives the core one event at a time (what the connections, ZooKeeper and the clock tell) and
carries out what it answers, in order, before the next. All decisions about the protocol are the
core's. Should the core itself fail, the server ends: nobody knows what state it is in, and another
broker takes over as if this one had crashed.

Source: `socketServer`, `pingScheduler` and `coordinatorStartup` of `002`, of which the core has all
that is not a socket or a clock.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self, assert_never

from herdproof.protocols.central_coordinator.coordinator.coordinator import Coordinator
from herdproof.protocols.central_coordinator.events import (
    Answered,
    Ask,
    Close,
    Closed,
    CoordinatorEffect,
    CoordinatorEvent,
    Deposed,
    Elected,
    Fired,
    Opened,
    Received,
    Report,
    Send,
    StepDown,
    Tick,
    WakeAt,
)
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.central_coordinator.reports import VOCABULARY
from herdproof.protocols.central_coordinator.server.channels import ServerChannel
from herdproof.protocols.central_coordinator.server.configuration import Configuration, check_lease
from herdproof.protocols.central_coordinator.server.metrics import Metrics
from herdproof.protocols.central_coordinator.server.twins import Twins
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.wire.errors import FrameError
from herdproof.protocols.central_coordinator.wire.messages import Frame
from herdproof.protocols.election.leader_watch import LeaderWatch
from herdproof.protocols.election.registration import Registration
from herdproof.protocols.election.shell import ElectionOver
from herdproof.protocols.election.zookeeper_session import ZooKeeperSession
from herdproof.shells.clock import now_ms
from herdproof.shells.configuration import BadConfiguration
from herdproof.shells.health import Condition
from herdproof.shells.listening import listen
from herdproof.shells.logs import fields
from herdproof.troubles import Troubles
from herdproof.zookeeper.operations import Answer, Link, Operation, Watched

log = logging.getLogger(__name__)

Observe = Callable[[Coordinator, CoordinatorEvent, Sequence[CoordinatorEffect]], None]
"""Told after every event: the core as it is now, the event, and what it led to."""

CONNECT_S = 30.0
"""Longest time that ZooKeeper may take to be reached at the start."""
CLOSED_AT_ONCE = 64
"""Number of connections that are closed in one round of the loop."""
HEAD_BYTES = 512
"""Bytes of a frame beside what a Start says of partitions; generous."""
STAND_AGAIN_S = 1.0
"""Time for which a coordinator that had to step down stays out of the election."""


def ignore_event(
    core: Coordinator, event: CoordinatorEvent, effects: Sequence[CoordinatorEffect]
) -> None:
    """Who observes a server that nobody observes."""


class Server:
    """
    One broker's coordinator, made in the loop that it lives in.

    In its context it listens (at `address`) and stands for election. Entering raises
    `CannotListen`, `BadTls`, `ZooKeeperUnreachable` or `BadConfiguration` (`check_lease`), and
    returns when the coordinator is known to the others: a broker that comes back at once after a
    crash waits until its former session has ended. `metrics` are its figures; `observe` is told
    every event, see `Observe`. Raises `BadConfiguration`.
    """

    def __init__(
        self, configuration: Configuration, metrics: Metrics, observe: Observe = ignore_event
    ) -> None:
        broker_id = configuration.broker_id
        if broker_id is None or not 0 <= broker_id < 2**15:
            given = "not given" if broker_id is None else broker_id
            raise BadConfiguration(
                f"broker_id is {given}: set it to the id of the Kafka broker that this "
                f"coordinator stands beside, 0 to 32767 (--broker-id)."
            )
        paths = Paths()
        self.metrics = metrics
        self.address = ("", 0)
        self._configuration = configuration
        self._limits, self._tls = configuration.listener, configuration.tls
        self._observe = observe
        self._core = Coordinator(broker_id, sendable(configuration), paths=paths)
        self._loop = asyncio.get_running_loop()
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._keeper = ZooKeeperSession(configuration.zookeeper, broker_id, paths.election, self)
        self._registration = Registration(
            paths.coordinator(str(broker_id)), self._advertised, self._keeper.ask,
            lambda: self._keeper.session,
        )  # fmt: skip
        self._registering: asyncio.Task[None] | None = None
        self._listening: asyncio.Server | None = None
        self._channels: dict[int, ServerChannel] = {}
        self._last_channel = 0
        self._epoch = 0
        self._wake: asyncio.TimerHandle | None = None
        self._to_close: deque[Close] = deque()
        self._closes_later = False
        """The loop was asked to close the next portion of them."""
        self._closing = False
        self._twins = Twins(Troubles(log))
        self._leader = ""
        """Who leads, as far as it is known here; "" if that is nobody else."""
        self._leader_watch = LeaderWatch(
            paths.election.leader, str(broker_id), self._keeper.submit, self._led_by
        )
        self._is_linked = False
        metrics.health.ready = self._condition
        metrics.health.loop = self._loop
        metrics.group_states.groups = self._core.groups

    @property
    def epoch(self) -> int:
        """The epoch that it leads in; 0 while it does not lead."""
        return self._epoch

    async def until_it_ends(self) -> None:
        """Wait until the server ends by itself, which it does by failing; raises why."""
        await self._failed

    def give(self, event: CoordinatorEvent) -> None:
        """Give the core an event and carry out what it answers; the only way in."""
        if self._failed.done():
            return
        since = time.perf_counter()
        try:
            effects = self._core.receive(event, now_ms())
            self.metrics.coordinator.event_seconds.observe(time.perf_counter() - since)
            if self._observe is not ignore_event:
                self._tell_observer(event, effects)
            self._carry_out(effects)
            if self._to_close and not self._closes_later:
                self._close_some()
        except Exception as problem:
            log.exception("The coordinator's core failed: this broker ends.")
            self._fail(problem)

    def _fail(self, problem: Exception) -> None:
        """Nothing can be relied on any more: close every channel, and have the server end."""
        if not self._failed.done():
            self._failed.set_exception(problem)
        for channel in list(self._channels.values()):
            channel.close()

    def _tell_observer(self, event: CoordinatorEvent, effects: Sequence[CoordinatorEffect]) -> None:
        """Tell whoever observes, whose trouble is no reason to coordinate badly."""
        try:
            self._observe(self._core, event, effects)
        except Exception:
            log.exception("The observer of the coordinator failed at %s.", event)

    # ── Its life ────────────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        try:
            await self._listen()
            await self._keeper.start(CONNECT_S)
            check_lease(self._configuration, self._keeper.session_timeout_ms)
            self._registering = self._loop.create_task(self._registration.keep())
            await self._registration.wait_registered()
        except BaseException:
            await self._end()
            raise
        self.give(Tick())
        self._keeper.stand()
        self._leader_watch.look()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._end()

    async def _listen(self) -> None:
        """Open the port."""
        limits = self._limits
        self._listening = await listen(lambda: ServerChannel(self, limits), limits, self._tls)
        self.address = self._listening.sockets[0].getsockname()[:2]

    def _advertised(self) -> bytes:
        """The address that consumers are to connect to."""
        host = self._limits.advertised_host or self._limits.host
        port = self._limits.advertised_port or self.address[1]
        return json.dumps({"host": host, "port": port}).encode()

    async def _end(self) -> None:
        """Listen no more, resign, have every channel closed, and end the session."""
        self._closing = True
        self._leader_watch.rest()
        if self._listening is not None:
            self._listening.close()
        if self._registering is not None:
            self._registering.cancel()
        await self._keeper.close()  # a leader is told that it is deposed, and closes every channel
        if self._wake is not None:
            self._wake.cancel()
        for channel in list(self._channels.values()):
            channel.close()
        while self._channels:  # which `close_timeout_ms` bounds
            await asyncio.sleep(0.005)
        if not self._failed.cancel():
            self._failed.exception()  # `until_it_ends` raised it, or nobody asked

    # ── What channels tell ──────────────────────────────────────────────────────────────────

    def opened(self, channel: ServerChannel) -> None:
        """Somebody connected."""
        self._last_channel += 1
        channel.number = self._last_channel
        self._channels[channel.number] = channel
        self.metrics.connections.set(len(self._channels))
        if self._closing:
            channel.abort()
        self.give(Opened(channel.number))

    def received(self, channel: ServerChannel, frame: Frame, legacy: bool) -> None:
        """A frame came."""
        self.metrics.received(frame)
        self.give(Received(channel.number, frame, legacy))

    def cut(self, channel: ServerChannel, reason: str, error: FrameError | None) -> None:
        """A channel ended itself."""
        self.metrics.cut(reason)
        why = reason if error is None else f"{reason}: {error}"
        log.warning("connection ended", extra=of(channel, why=why))

    def closed(self, channel: ServerChannel) -> None:
        """A connection is over."""
        del self._channels[channel.number]
        self.metrics.connections.set(len(self._channels))
        self.give(Closed(channel.number))

    # ── What ZooKeeper tells ────────────────────────────────────────────────────────────────

    def elected(self, epoch: int) -> None:
        """This broker leads."""
        self._epoch = epoch
        self.metrics.coordinator.elected(epoch)
        self.give(Elected(epoch))

    def deposed(self, epoch: int) -> None:
        """It leads no more."""
        self._epoch = 0
        self.metrics.coordinator.deposed()
        self.give(Deposed(epoch))
        self._leader_watch.look_soon()

    def fired(self, watched: Watched) -> None:
        """A watch fired, or may have."""
        if watched.path == self._registration.path:
            self._registration.look_again()
        self._leader_watch.fired(watched)
        self.give(Fired(watched))

    def linked(self, link: Link) -> None:
        """ZooKeeper is reached, or no more."""
        self._is_linked = link is Link.CONNECTED
        self.metrics.zookeeper.linked(self._is_linked)
        self._registration.look_again()
        log.info("the link to ZooKeeper is %s", link.value, extra=fields(link=link.value))

    def _led_by(self, broker: str) -> None:
        """Another broker leads, or nobody does ("")."""
        if broker != self._leader and broker and not self._epoch:
            log.info("stands by: broker %s leads", broker)
        self._leader = broker

    def _condition(self) -> Condition:
        """The condition of the server: well if it leads, or can tell who does."""
        if not self._is_linked:
            return Condition(False, "ZooKeeper is not reached")
        if self._epoch:
            return Condition(True, f"it leads in epoch {self._epoch}")
        if self._leader:
            return Condition(True, f"it stands by: broker {self._leader} leads")
        return Condition(False, "; ".join(self._registration.troubles) or "nobody is known to lead")

    def over(self) -> None:
        """The session has ended: by this server, or because the elector failed."""
        if not self._closing:
            self._fail(ElectionOver("The election has ended for this broker; its log says why."))

    def asked(self, operation: Operation, answer: Answer, seconds: float) -> None:
        """ZooKeeper answered."""
        self.metrics.zookeeper.asked(operation, answer, seconds)

    # ── Effects ─────────────────────────────────────────────────────────────────────────────

    def _carry_out(self, effects: Sequence[CoordinatorEffect]) -> None:
        """Do what the core wants done, in order."""
        for effect in effects:
            match effect:
                case CoordinationStep():
                    pass  # for whoever observes
                case Send(channel=number, frame=frame):
                    if (channel := self._channels.get(number)) and channel.send(frame):
                        self.metrics.sent(frame)
                case Close():
                    self._to_close.append(effect)
                case WakeAt(time_ms=time_ms):
                    self._wake_at(time_ms)
                case Ask(number=number, operation=operation):
                    self._keeper.submit(operation, partial(self._answered, number))
                case StepDown(why=why):
                    self._step_down(why)
                case Report():
                    self._report(effect)
                case _:
                    assert_never(effect)

    def _answered(self, number: int, answer: Answer) -> None:
        """ZooKeeper has answered what the core asked under this number."""
        self.give(Answered(number, answer))

    def _close_some(self) -> None:
        """Close a portion of what is to be closed: who is deposed closes very many."""
        for _ in range(min(CLOSED_AT_ONCE, len(self._to_close))):
            effect = self._to_close.popleft()
            if channel := self._channels.get(effect.channel):
                log.info("connection closed", extra=of(channel, why=effect.why))
                channel.close()
        self._closes_later = bool(self._to_close)
        if self._closes_later:
            self._loop.call_soon(self._close_some)

    def _wake_at(self, time_ms: int) -> None:
        """Replace the one alarm."""
        if self._wake is not None:
            self._wake.cancel()
        self._wake = self._loop.call_later(max(0, time_ms - now_ms()) / 1000, self.give, Tick())

    def _step_down(self, why: str) -> None:
        """Resign, and stand again a little later."""
        log.warning("it steps down: %s", why, extra=fields(why=why))
        self._keeper.resign()
        self._loop.call_later(STAND_AGAIN_S, self._keeper.stand)

    def _report(self, report: Report) -> None:
        """Log and count what the core has to say."""
        self.metrics.reported(report)
        self._twins.reported(report)
        VOCABULARY.log(log, report.what, report.group, report.details)


def sendable(configuration: Configuration) -> Settings:
    """The core's settings, by which no Start is larger than a frame may be."""
    core, most = configuration.coordinator, configuration.listener.max_frame_bytes - HEAD_BYTES
    return replace(core, max_start_bytes=max(1, min(core.max_start_bytes, most)))


def of(channel: ServerChannel, **more: str) -> dict[str, Any]:
    """A channel's fields in a log."""
    return fields(channel=channel.number, peer=channel.peer, **more)
