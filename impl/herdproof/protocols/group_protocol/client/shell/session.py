"""
One client of the group protocol, running: the core carried by a thread of its own.

That thread is the heartbeat thread as well: the application's threads, and the listener's, are
others, so that whatever they are at work on holds no heartbeat up. The core is given one event at a
time, which is what the document's locks are for.

The application polls while it waits for records, and whenever it has asked for one since it was
looked at last. One that has taken no record yet counts as polling: it is at work on nothing.
"""

from __future__ import annotations

import logging
import threading
from queue import Empty, SimpleQueue
from typing import assert_never

from herdproof.broker.sasl import LoginFailed
from herdproof.consuming.events import Report, Shutdown, Tick, WakeAt
from herdproof.consuming.fetching.fetchers import KafkaUnusable
from herdproof.consuming.fetching.streams import Streams
from herdproof.consuming.listener import ListenerThread
from herdproof.consuming.membership import Observe, ignore_event
from herdproof.consuming.session import MemberSession
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.events import (
    AssignTo,
    ClientEvent,
    ClientResponse,
    CommitResult,
    Disconnected,
    EndClient,
    Fail,
    HangUp,
    Node,
    Poll,
    Polled,
    RequestAnswered,
    SendRequest,
    SubscribeTo,
)
from herdproof.protocols.group_protocol.client.core.subscriptions import SubscriptionState
from herdproof.protocols.group_protocol.client.shell.connections import BrokerConnections
from herdproof.protocols.group_protocol.client.shell.security import Security
from herdproof.protocols.group_protocol.steps import GroupStep
from herdproof.shells.clock import now_ms

log = logging.getLogger(__name__)

LOOK_S = 0.1
"""Longest time between two looks at whether the application polls."""
POLL_MS = 1_000
"""Time in which each poll of the application may bring its assignment about."""
WHY_NOT = {
    CommitResult.REFUSED: "the commit was refused: the partition is not (or no longer) this"
    " consumer's; its records are delivered again by whom it has now",
    CommitResult.REBALANCING: "the commit was not taken: the group is in a rebalance; what was"
    " finished before is committed already, or its records are delivered again",
    CommitResult.NOT_SENT: "the commit was not taken: nobody is known who coordinates the group"
    " (it is looked for)",
    CommitResult.UNKNOWN: "nobody knows whether the commit was stored: no answer came; commit"
    " again if the partition is still this consumer's",
}
"""Why a commit was not stored."""


class GroupSession(MemberSession[GroupConsumer, CommitResult]):
    """A client's core with its thread, whose events wait in `_inbox`."""

    stale = CommitResult.REFUSED
    unsent = CommitResult.NOT_SENT
    unanswered = CommitResult.UNKNOWN

    def __init__(
        self, core: GroupConsumer, first: SubscribeTo | AssignTo, streams: Streams, *,
        security: Security | None = None, listener: ListenerThread | None = None,
        observe: Observe = ignore_event,
    ) -> None:  # fmt: skip
        super().__init__(core, streams, listener, observe)
        self._first = first
        self._inbox: SimpleQueue[ClientEvent] = SimpleQueue()
        self._wakes_ms: int | None = None
        self._is_to_end = threading.Event()
        self._asked = 0
        self._connections = BrokerConnections(
            core.consumer_id, security or Security(), self._answered, self._ended, self._refused
        )

    @property
    def consumption(self) -> SubscriptionState:
        """The state of what is consumed here, once fetchers run."""
        return self.core.subscriptions

    def start(self) -> None:
        """Look for the coordinator, join, and take part from now on."""
        self._inbox.put(self._first)
        self._thread.start()

    def _hand_over(self, event: ClientEvent) -> None:
        self._inbox.put(event)

    def _stop_waiting(self) -> None:
        self._is_to_end.set()
        self.post(Tick())

    def _reason(self, outcome: CommitResult) -> str | None:
        return WHY_NOT.get(outcome)

    # ── The thread ──────────────────────────────────────────────────────────────────────────

    def _live(self) -> None:
        while not (self.core.has_ended or self._is_to_end.is_set()):
            self._give(self._next())

    def _after_the_end(self) -> None:
        self._connections.close()

    def _give(self, event: ClientEvent) -> None:
        """Tell the core that the application polls, if it does, before the event."""
        asked, at_work = self._streams.polls()
        if not at_work or asked != self._asked:
            super()._give(Poll(POLL_MS, at_work=at_work))
        self._asked = asked
        super()._give(event)

    def _next(self) -> ClientEvent:
        """The next event; a `Tick` if it is time before one comes."""
        left_s = LOOK_S
        if self._wakes_ms is not None:
            left_s = min(left_s, (self._wakes_ms - now_ms()) / 1000)
        try:
            return self._inbox.get(timeout=left_s) if left_s > 0 else self._inbox.get_nowait()
        except Empty:
            if self._wakes_ms is not None and now_ms() >= self._wakes_ms:
                self._wakes_ms = None  # an alarm goes off once: the core sets the next one
            return Tick()

    # ── What the connections tell, from threads of theirs ───────────────────────────────────

    def _answered(self, number: int, response: ClientResponse) -> None:
        self.post(RequestAnswered(number, response))

    def _ended(self, node: Node, why: str) -> None:
        address = f"{node.host}:{node.port}"
        self.troubles.tell(address, f"{address} is gone: {why}", lasts=False)
        self.post(Disconnected(node))

    def _refused(self, node: Node, why: LoginFailed) -> None:
        self.fail(KafkaUnusable(f"{node.host}:{node.port}: {why}; see kafka's sasl settings"))

    # ── Effects ─────────────────────────────────────────────────────────────────────────────

    def _receive(self, event: ClientEvent) -> None:
        """A connection that has ended is forgotten before the core asks for another one."""
        if isinstance(event, Disconnected):
            self._connections.hang_up(event.node)
        super()._receive(event)

    def _carry_out_own(
        self, effect: SendRequest | HangUp | Polled | WakeAt | Fail | EndClient | Report | GroupStep
    ) -> None:
        match effect:
            case SendRequest(number, node, request):
                self._connections.send(number, node, request)
            case HangUp(node):
                self._connections.hang_up(node)
            case WakeAt(time_ms):
                self._wakes_ms = time_ms
            case Fail(error):
                self._streams.end(error)
                self._inbox.put(Shutdown())
            case EndClient():
                self._wakes_ms = None
            case Report():
                why = str(dict(effect.details).get("why", ""))
                self.troubles.tell(effect.what, why, lasts=False)
            case Polled() | GroupStep():
                pass  # the application waits for records, not for the poll; steps are observed
            case _:
                assert_never(effect)
