"""
One self-rebalancing consumer, running: the core carried by a thread, on ZooKeeper's client.

What ZooKeeper's client tells, and what fetchers, listener and application do, waits in one queue.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from queue import Empty, SimpleQueue
from typing import assert_never

from herdproof.consuming.events import (
    Answered,
    Ask,
    Fired,
    Report,
    Shutdown,
    Subscribe,
    Tick,
    WakeAt,
)
from herdproof.consuming.fetching.streams import Streams
from herdproof.consuming.listener import ListenerThread
from herdproof.consuming.membership import Observe, ignore_event
from herdproof.consuming.offsets import NamedPartition
from herdproof.consuming.session import MemberSession
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.core.events import (
    CommitOutcome,
    ConnectorEvent,
    EndSession,
    LinkTold,
)
from herdproof.protocols.self_rebalancing.core.registry import TopicRegistry
from herdproof.protocols.self_rebalancing.reports import What
from herdproof.protocols.self_rebalancing.steps import ConnectorStep
from herdproof.shells.clock import now_ms
from herdproof.zookeeper.client import Client, ZooKeeperUnreachable
from herdproof.zookeeper.operations import Answer, Link, Watched

log = logging.getLogger(__name__)

CONNECT_S = 5.0
"""The time that one attempt to get a session lasts; there is always another one."""
QUIET = (What.REGISTERED,)
WHY_NOT = {
    CommitOutcome.REFUSED: "the commit was refused: the partition is not (or no longer) this"
    " consumer's, or its offset was changed by somebody else; its records are delivered again by"
    " whom it has now",
    CommitOutcome.NOT_SENT: "the commit was not sent: there is no connection to ZooKeeper at"
    " present (it is looked for)",
    CommitOutcome.UNKNOWN: "nobody knows whether the commit was stored: no answer came; commit"
    " again if the partition is still this consumer's",
}
"""Why a commit was not stored."""


class ConnectorSession(MemberSession[ConsumerConnector, CommitOutcome]):
    """A connector's core with its thread, whose events wait in `_inbox`."""

    stale = CommitOutcome.REFUSED
    unsent = CommitOutcome.NOT_SENT
    unanswered = CommitOutcome.UNKNOWN

    def __init__(
        self, core: ConsumerConnector, zookeeper: str, streams: Streams, *,
        listener: ListenerThread | None = None, observe: Observe = ignore_event,
    ) -> None:  # fmt: skip
        super().__init__(core, streams, listener, observe)
        self._hosts = zookeeper
        self.client = self._new_client()
        self._inbox: SimpleQueue[ConnectorEvent] = SimpleQueue()
        self._wakes_ms: int | None = None
        self._is_to_end = threading.Event()

    @property
    def consumption(self) -> TopicRegistry:
        """The registry of what is consumed here, once fetchers run."""
        return self.core.registry

    def start(self) -> None:
        """Look for ZooKeeper, register, and take part from now on."""
        self._inbox.put(Subscribe())
        self._thread.start()

    def partitions(self) -> tuple[NamedPartition, ...]:
        """The partitions that are consumed here, in order."""
        return super().partitions() if self.core.registry.is_fetching else ()

    def _hand_over(self, event: ConnectorEvent) -> None:
        self._inbox.put(event)

    def _stop_waiting(self) -> None:
        self._is_to_end.set()
        self.post(Tick())

    def _reason(self, outcome: CommitOutcome) -> str | None:
        return WHY_NOT.get(outcome)

    # ── The thread ──────────────────────────────────────────────────────────────────────────

    def _live(self) -> None:
        self._connect()
        while not (self.core.has_ended or self._is_to_end.is_set()):
            self._give(self._next())

    def _after_the_end(self) -> None:
        self.client.close()

    def _new_client(self) -> Client:
        return Client(
            self._hosts,
            session_timeout_s=self.core.context.settings.zookeeper_session_timeout_ms / 1000,
            on_link=self._link_changed,
            on_watch=self._watch_fired,
            troubles=self.troubles,
        )

    def _connect(self) -> None:
        """Start the session with ZooKeeper; as long as there is none, look for one."""
        while not self._is_to_end.is_set():
            try:
                self.client.start(CONNECT_S)
            except ZooKeeperUnreachable:  # which the client itself has told
                self.client = self._new_client()
                self._drop_out_if_closed()
            else:
                return

    def _drop_out_if_closed(self) -> None:
        """While there is no ZooKeeper, only the end is waited for: nobody has to be told of it."""
        waiting = [self._inbox.get() for _ in range(self._inbox.qsize())]
        if any(isinstance(event, Shutdown) for event in waiting):
            self._is_to_end.set()
        for event in waiting:
            if not isinstance(event, LinkTold):
                self._inbox.put(event)

    def _next(self) -> ConnectorEvent:
        """The next event; a `Tick` if it is time before one comes."""
        try:
            if self._wakes_ms is None:
                return self._inbox.get()
            left_ms = self._wakes_ms - now_ms()
            return self._inbox.get(timeout=left_ms / 1000) if left_ms > 0 else self._at_once()
        except Empty:
            self._wakes_ms = None  # an alarm goes off once: the core sets the next one, or none
            return Tick()

    def _at_once(self) -> ConnectorEvent:
        """It is time already: what waits comes first, and is told what time it is."""
        return self._inbox.get_nowait()

    # ── What ZooKeeper tells, from its client's thread ──────────────────────────────────────

    def _link_changed(self, link: Link, session: int) -> None:
        timeout_ms = round(self.client.negotiated_timeout_s * 1000)
        self.post(LinkTold(link, session, timeout_ms))

    def _watch_fired(self, watched: Watched) -> None:
        self.post(Fired(watched))

    def _answered(self, number: int, answer: Answer) -> None:
        self.post(Answered(number, answer))

    # ── Effects ─────────────────────────────────────────────────────────────────────────────

    def _carry_out_own(self, effect: Ask | WakeAt | EndSession | Report | ConnectorStep) -> None:
        match effect:
            case Ask(number, operation):
                session = self.core.context.session
                self.client.submit(operation, partial(self._answered, number), session=session)
            case WakeAt(time_ms):
                self._wakes_ms = time_ms
            case EndSession():
                self._wakes_ms = None
            case Report():
                self._report(effect)
            case ConnectorStep():
                pass  # for whoever observes
            case _:
                assert_never(effect)

    def _report(self, report: Report) -> None:
        """Log what the core reports."""
        why = str(dict(report.details).get("why", ""))
        if report.what in QUIET:
            self.troubles.mend(What.NOT_REGISTERED, why)
            log.info("consumer %s: %s", self.core.consumer_id, why)
        else:
            lasts = report.what == What.NOT_REGISTERED
            self.troubles.tell(report.what, f"{report.what}: {why}", lasts=lasts)
