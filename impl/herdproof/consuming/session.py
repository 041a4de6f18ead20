"""
A member's core, running: what the sessions of all protocols do alike.

One thread gives the core one event at a time (what its network, fetchers, listener, application and
clock tell) and carries out what it answers, in order, before the next. All decisions are the
core's. Before each event the core is told what the application has finished with meanwhile: so
every answer has the latest offsets, and a record costs no wake-up.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from enum import Enum
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

from herdproof.consuming.events import (
    Assigned,
    CommitAsked,
    Committed,
    Deliver,
    RevocationHandled,
    Revoked,
    Shutdown,
    StartFetchers,
    StopFetchers,
)
from herdproof.consuming.fetching.fetchers import Fetchers, KafkaUnusable
from herdproof.consuming.fetching.standstill import Standstill
from herdproof.consuming.fetching.streams import Streams
from herdproof.consuming.listener import ListenerThread
from herdproof.consuming.membership import Observe, SessionFailed, by_number
from herdproof.consuming.offsets import NamedPartition, Offset, number_of
from herdproof.errors import HerdError
from herdproof.shells.clock import now_ms
from herdproof.troubles import Troubles

log = logging.getLogger(__name__)

STUCK_S = 30.0
"""Longest standstill of the fetchers; each of their requests is given up long before."""
LOOK_S = 10.0
"""Most time that counts between two looks at the fetchers."""

Outcome = TypeVar("Outcome", bound=Enum)


class MemberCore(Protocol):
    """Interface of a member's core, in every protocol."""

    @property
    def consumer_id(self) -> str:
        """The id that its group knows it by."""

    @property
    def delivers_until_ms(self) -> int:
        """Its shell hands out no record once its clock shows this."""

    def receive(self, event: Any, now_ms: int) -> Sequence[Any]:
        """Take one event; answer with what must now happen, in order."""


class Consuming(Protocol):
    """Assignment of a member at present."""

    generation: int

    def partitions(self) -> tuple[NamedPartition, ...]:
        """The partitions that are consumed here, in order."""

    def stream_count(self) -> int:
        """The number of streams, and so of queues, that the subscription has."""


Core = TypeVar("Core", bound=MemberCore)


class MemberSession(ABC, Generic[Core, Outcome]):
    """
    A core with its thread; `fetchers` are made by whoever makes the session.

    `Outcome` is what comes of a commit. Events are those of the core, whatever its protocol.
    """

    stale: Outcome
    """Outcome of a commit of a partition that is not this consumer's."""
    unsent: Outcome
    """Outcome of a commit after the end."""
    unanswered: Outcome
    """Outcome of a commit that the end has overtaken."""

    def __init__(
        self, core: Core, streams: Streams, listener: ListenerThread | None, observe: Observe
    ) -> None:
        self.core = core
        self.fetchers: Fetchers | None = None
        self._streams = streams
        self._listener = listener
        self._observe = observe
        self._commits: dict[int, Future[Outcome]] = {}
        self._numbers = 0
        self.troubles = Troubles(log, f"consumer {core.consumer_id}: ")
        self._standstill = Standstill(LOOK_S)
        self._is_stuck = False
        self._lock = threading.Lock()
        self._over = False
        self._thread = threading.Thread(
            target=self._run, name=f"herdproof-{core.consumer_id}", daemon=True
        )

    # ── What each protocol has of its own ───────────────────────────────────────────────────

    @property
    @abstractmethod
    def consumption(self) -> Consuming:
        """The assignment that is consumed here."""

    @abstractmethod
    def _hand_over(self, event: Any) -> None:
        """Have the thread `_give` an event, after those before."""

    @abstractmethod
    def _stop_waiting(self) -> None:
        """Have the thread end, whatever it waits for."""

    @abstractmethod
    def _live(self) -> None:
        """The thread's life; when this returns, it ends."""

    @abstractmethod
    def _carry_out_own(self, effect: Any) -> None:
        """Do what the core wants done that only this protocol's wants."""

    @abstractmethod
    def _reason(self, outcome: Outcome) -> str | None:
        """Why a commit of which this came was not stored; None if it was."""

    # ── What others ask for ─────────────────────────────────────────────────────────────────

    def post(self, event: Any) -> None:
        """Tell the core, from any thread; after the end, nobody."""
        with self._lock:
            if not self._over:
                self._hand_over(event)

    def fail(self, error: HerdError) -> None:
        """End it with this error, which the application gets."""
        self._streams.end(error)
        self.post(Shutdown())

    def commit(self, offsets: tuple[Offset, ...] | None, generation: int | None) -> Future[Outcome]:
        """Commit these offsets of a generation, or all that is consumed; its answer, later."""
        answer: Future[Outcome] = Future()
        with self._lock:
            if self._over:
                answer.set_result(self.unsent)
                return answer
            self._numbers += 1
            self._commits[self._numbers] = answer
            self._hand_over(CommitAsked(self._numbers, offsets, generation))
        return answer

    def why_not(self, outcome: Enum | None) -> tuple[Enum, str] | None:
        """Why a commit was not stored of which this came (None: no answer); None if it was."""
        found = self.unanswered if outcome is None else outcome
        assert isinstance(found, type(self.unanswered)), f"a commit was answered by {found}"
        reason = self._reason(found)
        return None if reason is None else (found, reason)

    def is_own_thread(self) -> bool:
        """True in the thread that carries the core, in which nobody may wait for it."""
        return threading.current_thread() is self._thread

    def close(self, timeout_s: float) -> None:
        """Leave the group, with a last commit; after `timeout_s` seconds just end."""
        self._streams.end()
        self.post(Shutdown())
        if self.is_own_thread() or not self._thread.is_alive():
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._stop_waiting()
            self._thread.join(1.0)

    def partitions(self) -> tuple[NamedPartition, ...]:
        """The partitions that are consumed here, in order."""
        return self.consumption.partitions()

    def name_of(self, topic: str, number: int) -> str | None:
        """The text of a partition by its number; None if it is not consumed here."""
        of_topic = (p.partition for p in self.partitions() if p.topic == topic)
        return next((name for name in of_topic if number_of(name) == number), None)

    def stream_count(self) -> int:
        """The number of streams, and so of queues, that the subscription has."""
        return self.consumption.stream_count()

    # ── The thread ──────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            self._live()
        except Exception as problem:
            self._failed(problem)
        finally:
            with self._lock:
                self._over = True
            self._streams.stop()
            self._streams.end()
            for answer in self._commits.values():
                answer.set_result(self.unanswered)
            self._after_the_end()

    def _failed(self, problem: Exception) -> None:
        """Tell of a mistake of our own; called while that is handled."""
        log.exception("The core of consumer %s failed.", self.core.consumer_id)
        self._streams.end(SessionFailed(f"the consumer failed: {problem!r}; see its log"))

    def _after_the_end(self) -> None:
        """Let go of what the thread has used."""

    def _give(self, event: Any) -> None:
        """Give the core an event, after what was consumed before it; the only way in."""
        self._look_at_fetchers()
        for consumed in self._streams.consumed():
            self._receive(consumed)
        self._receive(event)

    def _look_at_fetchers(self) -> None:
        """End it where they read nothing any more: a member is as healthy as its reader."""
        if self.fetchers is None or self._is_stuck:
            return
        stood_s = self._standstill.lasts_s(self.fetchers.rounds)
        if self.fetchers.rounds and stood_s > STUCK_S:
            self._is_stuck = True
            self.fail(
                KafkaUnusable(
                    f"the fetchers have stood still for {stood_s:.0f} s, in Kafka's client: this "
                    f"consumer has left, and others of its group go on with its partitions; make "
                    f"a new one, and look at the brokers if it comes again"
                )
            )

    def _receive(self, event: Any) -> None:
        effects = self.core.receive(event, now_ms())
        self._observe(self.core, event, effects)
        self._streams.hand_out_until(self.core.delivers_until_ms)
        for effect in effects:
            self._carry_out(effect)

    # ── Effects ─────────────────────────────────────────────────────────────────────────────

    def _carry_out(self, effect: Any) -> None:
        """Do what the core wants done."""
        match effect:
            case StopFetchers() | StartFetchers() | Deliver():
                self._fetch(effect)
            case Revoked() | Assigned():
                self._tell_listener(effect)
            case Committed(number, outcome):
                if answer := self._commits.pop(number, None):
                    answer.set_result(cast(Outcome, outcome))
            case _:
                self._carry_out_own(effect)

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
            self._listener.revoked(partitions, partial(self.post, RevocationHandled()))
        else:
            generation = self.consumption.generation
            self._listener.assigned(partitions, partial(self._streams.open, generation))
