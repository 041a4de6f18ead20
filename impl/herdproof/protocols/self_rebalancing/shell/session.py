"""
One self-rebalancing consumer, running: the core carried by a thread, on ZooKeeper's client.

The thread gives the core one event at a time (what ZooKeeper, fetchers, listener, application and
clock tell) and carries out what it answers, in order, before the next. All decisions are the
core's. Before each event the core is told what the application has finished with meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from functools import partial
from queue import Empty, SimpleQueue
from typing import assert_never

from herdproof.consuming.events import (
    Answered,
    Ask,
    Assigned,
    CommitAsked,
    Deliver,
    Fired,
    Report,
    RevocationHandled,
    Revoked,
    Shutdown,
    StartFetchers,
    StopFetchers,
    Subscribe,
    Tick,
    WakeAt,
)
from herdproof.consuming.fetchers import Fetchers
from herdproof.consuming.listener import ListenerThread
from herdproof.consuming.membership import Observe, SessionFailed, by_number, ignore_event
from herdproof.consuming.offsets import NamedPartition, Offset, number_of
from herdproof.consuming.streams import Streams
from herdproof.errors import HerdError
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.core.events import (
    CommitOutcome,
    Committed,
    ConnectorEffect,
    ConnectorEvent,
    EndSession,
    LinkTold,
)
from herdproof.protocols.self_rebalancing.reports import What
from herdproof.protocols.self_rebalancing.steps import Step
from herdproof.shells.clock import now_ms
from herdproof.zookeeper.client import Client, ZooKeeperUnreachable
from herdproof.zookeeper.operations import Answer, Link, Watched

log = logging.getLogger(__name__)

CONNECT_S = 5.0
"""How long a server is waited for before it is said that there is none; it is tried on."""
TELL_AGAIN_S = 30.0
"""How long the same trouble is told no louder than for debugging."""

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


class ConnectorSession:
    """A connector's core with its thread; `fetchers` are made by whoever makes the session."""

    stale = CommitOutcome.REFUSED
    """What comes of a commit of a partition that is not this consumer's."""

    def __init__(
        self, core: ConsumerConnector, zookeeper: str, streams: Streams, *,
        listener: ListenerThread | None = None, observe: Observe = ignore_event,
    ) -> None:  # fmt: skip
        self.core = core
        self.fetchers: Fetchers | None = None
        self._hosts = zookeeper
        self._streams = streams
        self._listener = listener
        self._observe = observe
        self.client = self._new_client()
        self._inbox: SimpleQueue[ConnectorEvent] = SimpleQueue()
        self._commits: dict[int, Future[CommitOutcome]] = {}
        self._numbers = 0
        self._told: dict[str, float] = {}
        self._wakes_ms: int | None = None
        self._lock = threading.Lock()
        self._over = False
        self._is_to_end = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"herdproof-{core.consumer_id}", daemon=True
        )

    # ── What others ask for ─────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Look for ZooKeeper, register, and take part from now on."""
        self._inbox.put(Subscribe())
        self._thread.start()

    def post(self, event: ConnectorEvent) -> None:
        """Tell the core, from any thread; after the end, nobody."""
        if not self._over:
            self._inbox.put(event)

    def fail(self, error: HerdError) -> None:
        """End it with this error, which the application gets."""
        self._streams.end(error)
        self.post(Shutdown())

    def commit(
        self, offsets: tuple[Offset, ...] | None, generation: int | None
    ) -> Future[CommitOutcome]:
        """Commit these offsets of a generation, or all that is consumed; its answer, later."""
        answer: Future[CommitOutcome] = Future()
        with self._lock:
            if self._over:
                answer.set_result(CommitOutcome.NOT_SENT)
                return answer
            self._numbers += 1
            self._commits[self._numbers] = answer
            self._inbox.put(CommitAsked(self._numbers, offsets, generation))
        return answer

    def why_not(self, outcome: Enum | None) -> tuple[Enum, str] | None:
        """Why a commit was not stored; None if it was."""
        found = CommitOutcome.UNKNOWN if outcome is None else outcome
        assert isinstance(found, CommitOutcome), f"a commit was answered by {found}"
        return None if found is CommitOutcome.STORED else (found, WHY_NOT[found])

    def close(self, timeout_s: float) -> None:
        """Leave the group, with a last commit; after `timeout_s` seconds just end."""
        self._streams.end()
        self.post(Shutdown())
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            return
        self._thread.join(timeout_s)
        self._is_to_end.set()
        self.post(Tick())
        self._thread.join(1.0)

    def partitions(self) -> tuple[NamedPartition, ...]:
        """What is consumed here, in order."""
        return self.core.registry.partitions() if self.core.registry.is_fetching else ()

    def name_of(self, topic: str, number: int) -> str | None:
        """The text of a partition by its number; None if it is not consumed here."""
        of_topic = [p.partition for p in self.partitions() if p.topic == topic]
        return next((name for name in of_topic if number_of(name) == number), None)

    def stream_count(self) -> int:
        """How many streams, and so queues, the subscription has."""
        return self.core.registry.stream_count()

    # ── The thread ──────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            self._connect()
            while not (self.core.has_ended or self._is_to_end.is_set()):
                self._give(self._next())
        except Exception as problem:
            log.exception("The core of consumer %s failed.", self.core.consumer_id)
            self._streams.end(SessionFailed(f"the consumer failed: {problem!r}; see its log"))
        finally:
            with self._lock:
                self._over = True
            self._streams.stop()
            self._streams.end()
            for answer in self._commits.values():
                answer.set_result(CommitOutcome.UNKNOWN)
            self.client.close()

    def _new_client(self) -> Client:
        return Client(
            self._hosts,
            session_timeout_s=self.core.context.settings.zookeeper_session_timeout_ms / 1000,
            on_link=self._link_changed,
            on_watch=self._watch_fired,
        )

    def _connect(self) -> None:
        """Start the session with ZooKeeper; as long as there is none, look for one."""
        while not self._is_to_end.is_set():
            try:
                self.client.start(CONNECT_S)
            except ZooKeeperUnreachable as problem:
                self._warn("connection", f"{problem} It is tried on.")
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

    def _give(self, event: ConnectorEvent) -> None:
        """Give the core an event, after what was consumed before it; the only way in."""
        for consumed in self._streams.consumed():
            self._receive(consumed)
        self._receive(event)

    def _receive(self, event: ConnectorEvent) -> None:
        effects = self.core.receive(event, now_ms())
        self._observe(self.core, event, effects)
        self._streams.hand_out_until(self.core.delivers_until_ms)
        for effect in effects:
            self._carry_out(effect)

    # ── What ZooKeeper tells, from its client's thread ──────────────────────────────────────

    def _link_changed(self, link: Link, session: int) -> None:
        timeout_ms = round(self.client.negotiated_timeout_s * 1000)
        self.post(LinkTold(link, session, timeout_ms))

    def _watch_fired(self, watched: Watched) -> None:
        self.post(Fired(watched))

    def _answered(self, number: int, answer: Answer) -> None:
        self.post(Answered(number, answer))

    # ── Effects ─────────────────────────────────────────────────────────────────────────────

    def _carry_out(self, effect: ConnectorEffect) -> None:
        """Do what the core wants done."""
        match effect:
            case Ask(number, operation):
                session = self.core.context.session
                self.client.submit(operation, partial(self._answered, number), session=session)
            case WakeAt(time_ms):
                self._wakes_ms = time_ms
            case StopFetchers() | StartFetchers() | Deliver():
                self._fetch(effect)
            case Revoked() | Assigned():
                self._tell_listener(effect)
            case Committed(number, outcome):
                if answer := self._commits.pop(number, None):
                    answer.set_result(outcome)
            case EndSession():
                self._wakes_ms = None
            case Report():
                self._report(effect)
            case Step():
                pass  # for whoever observes
            case _:
                assert_never(effect)

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
            handled: Callable[[], None] = partial(self.post, RevocationHandled())
            self._listener.revoked(partitions, handled)
        else:
            generation = self.core.registry.generation
            self._listener.assigned(partitions, partial(self._streams.open, generation))

    def _report(self, report: Report) -> None:
        """Log what the core reports."""
        why = str(dict(report.details).get("why", ""))
        if report.what in QUIET:
            log.info("consumer %s: %s", self.core.consumer_id, why)
        else:
            self._warn(report.what, f"{report.what}: {why}")

    def _warn(self, what: str, why: str) -> None:
        """Log a trouble; the same only once in a while."""
        now = time.monotonic()
        is_loud = now - self._told.get(what, -TELL_AGAIN_S) >= TELL_AGAIN_S
        if is_loud:
            self._told[what] = now
        level = logging.WARNING if is_loud else logging.DEBUG
        log.log(level, "consumer %s: %s", self.core.consumer_id, why)
