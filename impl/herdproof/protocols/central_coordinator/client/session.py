"""
One consumer's session, running: the core carried by a thread with an asyncio loop.

The loop gives the core what connections tell beside what every member's session does.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from functools import partial
from typing import assert_never
from weakref import WeakSet

from herdproof.consuming.fetching.streams import Streams
from herdproof.consuming.listener import ListenerThread
from herdproof.consuming.membership import (
    AllKnownBrokersNotAvailable,
    Observe,
    RegistrationRefused,
    host_ports,
    ignore_event,
)
from herdproof.consuming.session import MemberSession
from herdproof.errors import HerdError
from herdproof.protocols.central_coordinator.client.client_channel import ClientChannel
from herdproof.protocols.central_coordinator.client.consumer import ConsumerCore, ConsumerPhase
from herdproof.protocols.central_coordinator.client.reports import What
from herdproof.protocols.central_coordinator.client.topic_registry import Consumption
from herdproof.protocols.central_coordinator.events import (
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    ConsumerEvent,
    Failed,
    Received,
    Report,
    Send,
    Subscribe,
    Tick,
    WakeAt,
)
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode, Frame
from herdproof.shells.clock import now_ms
from herdproof.who_listens import Listening, who_listens

log = logging.getLogger(__name__)


_FAILURES: dict[str, type[HerdError]] = {
    "AllKnownBrokersNotAvailable": AllKnownBrokersNotAvailable,
    "RegistrationRefused": RegistrationRefused,
}


class ConsumerSession(MemberSession[ConsumerCore, ErrorCode]):
    """A consumer's core with its thread, which has an asyncio loop."""

    stale = ErrorCode.STALE_GENERATION
    unsent = ErrorCode.NOT_REGISTERED
    unanswered = ErrorCode.NOT_STORED

    def __init__(
        self, core: ConsumerCore, streams: Streams, *, listener: ListenerThread | None = None,
        tls: ssl.SSLContext | None = None, observe: Observe = ignore_event,
    ) -> None:  # fmt: skip
        super().__init__(core, streams, listener, observe)
        self._tls = tls
        self._channels: dict[int, ClientChannel] = {}
        self._wake: asyncio.TimerHandle | None = None
        self._left = asyncio.Event()
        self._ended_by = ""
        """While the core is told that a connection is over: what the network says of it."""

    @property
    def consumption(self) -> Consumption:
        """The assignment that is consumed here."""
        return self.core.consumption

    def start(self) -> None:
        """Consult, register, and answer from now on."""
        if self._twins():
            self.troubles.tell(
                TWIN,
                f"another consumer of this process has its id in group {self.core.group!r}, so "
                f"that both look like one: give each an id of its own",
            )
        HERE.add(self)
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        self.post(Subscribe())

    def _hand_over(self, event: ConsumerEvent) -> None:
        self._loop.call_soon_threadsafe(self._give, event)

    def _stop_waiting(self) -> None:
        with self._lock:
            if not self._over:
                self._loop.call_soon_threadsafe(self._left.set)

    def _reason(self, outcome: ErrorCode) -> str | None:
        if outcome is ErrorCode.NONE:
            return None
        return _WHY_NOT.get(outcome, f"the coordinator refused the commit: {outcome.name}")

    # ── The loop ────────────────────────────────────────────────────────────────────────────

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._until_left())

    def _after_the_end(self) -> None:
        self._loop.close()
        HERE.discard(self)
        for twin in self._twins():
            twin.troubles.mend(TWIN, "no other consumer of this process has its id")

    def _twins(self) -> list[ConsumerSession]:
        """Who else of this process consumes under the same id, in the same group and cluster."""
        mine, known = (self.core.group, self.core.consumer_id), set(self.core.server_cluster.known)
        return [
            each
            for each in list(HERE)
            if each is not self
            and (each.core.group, each.core.consumer_id) == mine
            and known & set(each.core.server_cluster.known)
        ]

    async def _until_left(self) -> None:
        await self._left.wait()
        for channel in list(self._channels.values()):
            channel.close()
        deadline = self._loop.time() + 1.0
        while self._channels and self._loop.time() < deadline:
            await asyncio.sleep(0.005)  # so that what was sent last has left
        await asyncio.sleep(0)  # so that who was dialling has ended

    def _give(self, event: ConsumerEvent) -> None:
        if self._left.is_set():
            return
        try:
            super()._give(event)
        except Exception as problem:
            self._failed(problem)
            self._left.set()
        if self.core.phase in (ConsumerPhase.CLOSED, ConsumerPhase.FAILED):
            self._left.set()

    # ── Effects ─────────────────────────────────────────────────────────────────────────────

    def _carry_out_own(
        self, effect: Connect | Send | Close | WakeAt | Failed | Report | CoordinationStep
    ) -> None:  # fmt: skip
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
            case Failed(error=error_name, why=why):
                self._streams.end(_FAILURES.get(error_name, HerdError)(why))
            case Report():
                self._tell(effect)
            case CoordinationStep():
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

    def _tell(self, report: Report) -> None:
        """Log what the core reports; a trouble with its coordinator is over once it registers."""
        said = dict(report.details)
        why = str(said.get("why", "")) + (f" ({self._ended_by})" if self._ended_by else "")
        match report.what:
            case What.REGISTERED:
                self.troubles.mend(COORDINATOR, "it is registered")
            case What.BROKER_NOT_AVAILABLE:
                address = str(said["broker"])
                explain = partial(unanswered, address, why, speaks_tls=self._tls is not None)
                self.troubles.tell_why(f"{COORDINATOR} {address}", explain)
            case _ if report.what in TROUBLES:
                lasts = report.what not in EVENTS
                name = f"{COORDINATOR} {report.what}" if lasts else report.what
                self.troubles.tell(name, f"{TROUBLES[report.what]}{why}", lasts=lasts)
            case _:
                log.debug("consumer %s: %s%s", self.core.consumer_id, report.what, why)

    # ── What channels tell ──────────────────────────────────────────────────────────────────

    def connected(self, number: int) -> None:
        """A connection stands."""
        self._give(Connected(number))

    def failed(self, number: int, why: str) -> None:
        """A connection cannot be had."""
        self._channels.pop(number, None)
        self._ended_by = why
        self._give(ConnectFailed(number))
        self._ended_by = ""

    def received(self, number: int, frame: Frame) -> None:
        """A frame came."""
        self._give(Received(number, frame))

    def closed(self, number: int, why: str) -> None:
        """A connection is over."""
        self._channels.pop(number, None)
        self._ended_by = why
        self._give(Closed(number))
        self._ended_by = ""


_WHY_NOT = {
    ErrorCode.NOT_REGISTERED: "the commit was not sent: this consumer has no coordinator at present"
    " (it looks for one); what it had is delivered again, here or elsewhere",
    ErrorCode.STALE_GENERATION: "the commit was refused: the partition is not (or no longer) this"
    " consumer's; its records are delivered again by whom it has now",
    ErrorCode.NOT_STORED: "nobody knows whether the commit was stored: no answer came; commit again"
    " if the partition is still this consumer's",
}
"""Why a commit was not stored."""

HERE: WeakSet[ConsumerSession] = WeakSet()
"""The sessions of this process that run."""
TWIN = "twin"
"""Name of the trouble that two consumers have one id."""

COORDINATOR = "coordinator"
"""Name of the troubles that are over with a registration, and those that belong to it."""

TROUBLES: Mapping[str, str] = {
    What.LOST_CONNECTION: "it consults the brokers again, since ",
    What.NO_COORDINATOR: "no broker coordinates at present",
    What.ILLEGAL_STATE: "it was told to start while it fetches something else",
    What.START_NOT_STORED: "the start of a partition was refused, so it is not consumed",
}
"""Reports that are told loudly, and the beginnings of their sentences."""
EVENTS = (What.ILLEGAL_STATE, What.START_NOT_STORED)
"""The reports of what does not last."""


def unanswered(address: str, why: str, *, speaks_tls: bool) -> str:
    """Why nobody at an address says who coordinates: who listens there instead, if that is it."""
    [(host, port)] = host_ports("coordinators", address)
    found = who_listens(host, port)
    if found in (Listening.KAFKA, Listening.ZOOKEEPER):
        return (
            f"{found.said(address)}, where a coordinator is looked for: coordinators are their own "
            f"addresses, bootstrap_servers and zookeeper those of Kafka and ZooKeeper"
        )
    reason = found.misfit(speaks_tls=speaks_tls) or why
    return f"the coordinator at {address} cannot be consulted: {reason}"
