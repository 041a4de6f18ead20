"""
A session with a real ZooKeeper, typed: its one connection at a time, and one order of all it tells.

This module and `kazoo_frames.py`, which has kazoo's words for ours, are the only ones that import
kazoo (`properties/rules/test_house_rules.py`).

What a client promises, beyond what kazoo does:

**One order.** `on_link`, `on_watch` and every `answer` are called by one thread, one after
another, in the order in which the connection learned of them. So, as ZooKeeper itself promises, a
watch comes before any answer that shows its change, and answers come in the order in which their
operations were submitted; one that is refused here, unsent (a malformed path, another session),
waits for its turn. When the connection breaks, its open operations are answered `CONNECTION_LOSS`
first, then comes SUSPENDED. When the server says that the session has expired, LOST comes (always
after a SUSPENDED), then CONNECTED with a new session. A callback must not wait for a further
answer.

**Nothing is sent later.** An operation goes out on the connection that `on_link` last told of, or
not at all: kazoo would keep it and send it on the next connection, perhaps in another session. The
check and the hand-over to the connection's thread happen under one lock, which that thread holds
while it changes its state, so no race is left between them. What was handed over when the
connection breaks is answered `CONNECTION_LOSS`, whether it had been sent or not.

**No stale first read.** Before the first read on each connection, a sync is sent on that
connection: the server, perhaps another than before, first catches up with the leader. (ZooKeeper's
sync is not a quorum round: a leader that is cut off and does not know it yet still answers it.)

**A dead connection is noticed.** kazoo pings a silent server after about a third of the session's
time-out, and gives the connection up when two thirds have passed; but it counts every request as a
ping, answered or not, so while requests go out it notices nothing. This client therefore also
gives up a connection on which an operation has waited two thirds of the time-out for its answer.

This leans on undocumented parts of kazoo 2.11 (all in `_Connection`, `_Handler` and `Reply`); each
promise has its test in `integration/zookeeper/test_zookeeper_client.py`.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol import serialization as frames
from kazoo.protocol.states import KeeperState

from herdproof.errors import CallerError, WorldError
from herdproof.troubles import Troubles
from herdproof.zookeeper.courier import Courier
from herdproof.zookeeper.kazoo_frames import (
    CHANGES,
    LINKS,
    OPEN,
    OWN,
    READS,
    Reply,
    answer_of,
    frame_of,
)
from herdproof.zookeeper.operations import (
    Answer,
    Link,
    Operation,
    Refusal,
    Watched,
    Why,
    misfitting,
)
from herdproof.zookeeper.outage import Outage, Quietly
from herdproof.zookeeper.waiting import Doorbell, ready

log = logging.getLogger(__name__)

_RECONNECTING = {
    "max_tries": -1,
    "delay": 0.05,
    "backoff": 2,
    "max_jitter": 0.4,
    "max_delay": 0.5,
}
"""kazoo's delays, in seconds, between rounds through the servers; without end."""

_SILENCE = 2 / 3
"""The part of a session's time-out after which an unanswered operation ends the connection."""

_HANDSHAKE, _HANDSHAKE_S = 1 / 3, 5.0
"""
The time for a handshake's answer: a part of a session's time-out, and seconds at least.

kazoo waits for a single server's as long as the session lives, which is then lost.
"""

_UNSENT = Refusal(Why.CONNECTION_LOSS)
"""The answer to what is not sent, or will not be heard of."""


class ZooKeeperUnreachable(WorldError):
    """No server answered in time, or the list of servers cannot be read."""


class WouldDeadlock(CallerError):
    """`perform` was called in a callback, whose thread is the one that brings the answer."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Who a session speaks for; with it, what the session creates only this user can change."""

    user: str
    password: str = field(repr=False)


class Client:
    """
    A session with the ZooKeeper at `hosts` ("host:port,host:port/chroot"); see the module's
    promises.

    `session_timeout_s`, in seconds, is asked for; the server decides (`negotiated_timeout_s`).
    `on_link` gets each change of the link with the id of the session that it is about; `on_watch`
    gets each watch that fired. The server forgets watches with their connection, which SUSPENDED
    tells: read again after CONNECTED. After an expiry the client opens a new session by itself. A
    client is started once; `close` and `abandon` are for ever.

    With a `digest`, the nodes that it creates can be read by all and changed by that user alone;
    nodes that stand keep the ACL that they have. What an ACL forbids is refused, BAD_ARGUMENTS.

    That no server is reached is one of the `troubles`, which are logged.
    """

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_s: float,
        on_link: Callable[[Link, int], None],
        on_watch: Callable[[Watched], None],
        digest: Digest | None = None,
        troubles: Troubles | None = None,
    ) -> None:
        self._hosts = hosts
        self._acl = OPEN if digest is None else OWN
        self._timeout_s = session_timeout_s
        self._on_link = on_link
        self._on_watch = on_watch
        self._courier = Courier(self._look_around)
        self._told = _Told()
        self._zxid = 0
        self._connected = threading.Event()
        self._ended = False
        self._starts_or_ends = threading.Lock()
        self._open_lock = threading.Lock()
        self._open: deque[_Open] = deque()
        self._last_event: object = None
        try:
            self._connection = _Connection(hosts, session_timeout_s, digest=digest)
        except ValueError as problem:
            raise ZooKeeperUnreachable(
                f"{hosts!r} names no ZooKeeper ({problem}): write host:port,host:port."
            ) from problem
        self._outage = Outage(hosts, self._connection.hosts, troubles or Troubles(log))
        self._connection.handler.deliver = self._courier.put
        self._connection.add_listener(self._link_changed)

    @property
    def link(self) -> Link:
        """The link that `on_link` last told of; LOST before the first."""
        return self._told.link

    @property
    def session(self) -> int:
        """The id of the session that `on_link` last told of; 0 before the first."""
        return self._told.session

    @property
    def password(self) -> bytes:
        """That session's password: whoever has both can take the session over, or end it."""
        return self._told.password

    @property
    def last_zxid(self) -> int:
        """
        The transaction id in the last reply that was delivered; 0 before the first.

        Read within an `answer` callback, it is that answer's own, unless the answer is a refusal
        without a reply (CONNECTION_LOSS, SESSION_EXPIRED, or arguments that were never sent). A
        write's is the id of its transaction, a read's that of the last transaction that the server
        knew.
        """
        return self._zxid

    @property
    def negotiated_timeout_s(self) -> float:
        """The time-out that the server granted the session, in seconds; 0 before the first."""
        return self._connection.negotiated_timeout_s

    def start(self, timeout_s: float = 10.0) -> None:
        """
        Connect; returns once CONNECTED is being told, or raises `ZooKeeperUnreachable`.

        So it does at once when another thread closes the client meanwhile.
        """
        with self._starts_or_ends:
            if not self._ended:
                self._courier.start()
                self._connection.start_async()
        connected = self._connected.wait(timeout_s)
        if self._ended:
            raise ZooKeeperUnreachable(f"No ZooKeeper of {self._hosts} had answered at the end.")
        if not connected:
            self.abandon()
            raise ZooKeeperUnreachable(
                f"No ZooKeeper of {self._hosts} answered within {timeout_s:g} s: check the "
                f"address, and that most of its servers run (`herdproof zookeeper` starts one)."
            )

    def close(self) -> None:
        """End the session: its ephemeral nodes go at once. No more links or watches are told."""
        self._end(patience_s=2.0)

    def abandon(self) -> None:
        """Drop the connection as a crash would: the session lives on until the server ends it."""
        self._end(patience_s=0.0)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def submit(
        self,
        operation: Operation,
        answer: Callable[[Answer], None],
        *,
        session: int | None = None,
    ) -> None:
        """
        Send an operation; `answer` is called exactly once, by the thread of the callbacks.

        While the link is not CONNECTED, or is not in `session` (if one is named), nothing is sent
        and the answer is a refusal, CONNECTION_LOSS; of a malformed path, in any case, it is
        BAD_ARGUMENTS. Both come in their turn. (Before `start` and after `close`, when there is no
        such thread, `answer` is called before `submit` returns.)
        """
        told, connection = self._told, self._connection
        refusal = misfitting(operation)
        if refusal is None and session not in {None, told.session}:
            refusal = _UNSENT
        watcher, acl = self._watch_fired, self._acl
        frame = None if refusal else frame_of(operation, connection.rooted, watcher, acl)
        entry = _Open(answer, told.connection, time.monotonic())
        # Under one lock, the order of the line is the order of sending. So only what is not sent
        # ever waits for its turn: a reply that did would be late for a watch.
        with connection.state_lock:
            with self._open_lock:
                self._open.append(entry)
            replied = partial(self._replied, operation, entry)
            if frame is not None and not connection.send(frame, replied, told.connection):
                refusal = _UNSENT
            if refusal is not None:
                self._note(entry, refusal)
        self._deliver_in_turn()

    def perform(
        self, operation: Operation, timeout_s: float = 10.0, *, session: int | None = None
    ) -> Answer:
        """
        Send an operation and wait for its answer: CONNECTION_LOSS if none came in time.

        Raises `WouldDeadlock` when a callback of this client calls it.
        """
        if self._courier.is_this_thread():
            raise WouldDeadlock(
                f"perform({operation}) in a callback of its client would wait for itself: "
                f"use submit() there."
            )
        answered: Future[Answer] = Future()
        self.submit(operation, answered.set_result, session=session)
        try:
            return answered.result(timeout_s)
        except TimeoutError:
            return _UNSENT

    def _replied(self, operation: Operation, entry: _Open, result: Any) -> None:
        """Run by the connection's thread."""
        connection = self._connection
        self._note(entry, answer_of(operation, result, connection.unchroot), connection.last_zxid)
        self._deliver_in_turn()

    def _note(self, entry: _Open, answer: Answer, zxid: int | None = None) -> None:
        """Keep an operation's answer, unless it has one (kazoo can report a failure twice)."""
        if isinstance(answer, Refusal) and answer.why in {Why.CONNECTION_LOSS, Why.SESSION_EXPIRED}:
            zxid = None
        with self._open_lock:
            entry.told = entry.told or (answer, zxid)

    def _deliver_in_turn(self) -> None:
        """Have the answers delivered for which no earlier operation still waits."""
        mine: list[Callable[[], None]] = []
        with self._open_lock:
            while self._open and (told := self._open[0].told) is not None:
                errand = partial(self._deliver, self._open.popleft().answer, *told)
                if not self._courier.take(errand):
                    mine.append(errand)
        for run in mine:
            run()

    def _deliver(self, tell: Callable[[Answer], None], answer: Answer, zxid: int | None) -> None:
        """Run by the courier."""
        if zxid is not None:
            self._zxid = zxid
        tell(answer)

    def _link_changed(self, state: str) -> None:
        """Run by the connection's thread, under the connection's lock."""
        connection = self._connection
        session, password = connection.identity
        told = _Told(LINKS[state], session, password, connection.number)
        self._courier.put(partial(self._tell_link, told))

    def _tell_link(self, told: _Told) -> None:
        """Run by the courier."""
        if self._ended:
            return
        self._told = told
        if told.link is Link.CONNECTED:
            self._connected.set()
        self._on_link(told.link, told.session)

    def _watch_fired(self, event: Any) -> None:
        """
        The one watcher of every path, run by the courier.

        kazoo calls it with a NONE event when it forgets a watch (the link tells that already), and
        twice with one event if a node that was deleted was watched for its data and for its
        children.
        """
        change = CHANGES.get(event.type)
        if change is None or event is self._last_event or self._ended:
            return
        self._last_event = event
        self._on_watch(Watched(event.path, change))

    def _look_around(self) -> None:
        """Run by the courier every now and then."""
        if not self._ended:
            self._outage.look(is_connected=self._told.link is Link.CONNECTED)
        self._give_up_a_silent_connection()

    def _give_up_a_silent_connection(self) -> None:
        """Hang up if an operation has waited too long."""
        with self._open_lock:
            oldest = self._open[0] if self._open else None
        limit_s = self.negotiated_timeout_s * _SILENCE
        if oldest is None or time.monotonic() - oldest.since < limit_s:
            return
        log.warning("%s left an operation without answer for %.3g s", self._hosts, limit_s)
        self._connection.hang_up(only=oldest.connection)

    def _end(self, patience_s: float) -> None:
        """End the connection and answer whatever is open; a second time, nothing happens."""
        with self._starts_or_ends:
            self._ended = True
        self._connected.set()  # whoever waits to be connected waits in vain
        self._connection.end(patience_s)
        with self._open_lock:
            left = list(self._open)
        for entry in left:
            self._note(entry, _UNSENT)
        self._deliver_in_turn()
        self._courier.stop()
        self._told = replace(self._told, link=Link.LOST, connection=_NO_CONNECTION)


def expire_session(hosts: str, session: int, password: bytes, timeout_s: float = 10.0) -> None:
    """
    End a session at the server, from outside, as an expiry would: its ephemeral nodes go at once.

    Its own client learns of it only when it next hears from the server. `hosts` is the server
    itself, not a proxy that may cut us off. A session that is gone already is left in peace.
    Raises `ZooKeeperUnreachable`.
    """
    usurper = _Connection(hosts, timeout_s, identity=(session, password))
    connected = usurper.start_async().wait(timeout_s)
    ended = usurper.end(timeout_s if connected else 0.0)
    if not ended:
        raise ZooKeeperUnreachable(
            f"No ZooKeeper of {hosts} answered within {timeout_s:g} s, so session {session:#x} was "
            f"not ended: check the address, and that most of its servers run."
        )


_NO_CONNECTION = -1
"""The number of no connection; real ones count from 1."""


@dataclass(frozen=True, slots=True)
class _Told:
    """The link that the owner was last told of, and the number of the connection it was about."""

    link: Link = Link.LOST
    session: int = 0
    password: bytes = field(default=b"", repr=False)
    connection: int = _NO_CONNECTION


@dataclass(eq=False, slots=True)
class _Open:
    """An operation in the line, and when (monotonic clock, seconds) it was submitted."""

    answer: Callable[[Answer], None]
    connection: int
    since: float
    told: tuple[Answer, int | None] | None = None
    """Its answer, with the transaction id of the reply if there was one; kept until its turn."""


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """
    Brings every callback to one place, in order, where kazoo has two threads that race.

    What is told of a reply only puts things on the courier's queue, as do watches.
    """

    def __init__(self) -> None:
        super().__init__()
        self.deliver: Callable[[Callable[[], None]], None] = lambda errand: errand()
        self.waiting: Callable[[], bool] = lambda: False

    @property
    def running(self) -> bool:
        """Never: results are told at once."""
        return False

    def start(self) -> None:
        """No threads of its own."""

    def stop(self) -> None:
        """No threads of its own."""

    def dispatch_callback(self, callback: Any) -> None:
        """A watch fired, or was forgotten."""
        self.deliver(partial(callback.func, *callback.args))

    def select(self, *sockets: Any, **until: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """The sockets that can be read, and written."""
        return ready(*sockets, **until)

    def create_socket_pair(self) -> tuple[Doorbell, Doorbell]:
        """The line by which a submitter wakes the connection's thread."""
        bell = Doorbell(self.waiting)
        return bell, bell


class _Connection(KazooClient):  # type: ignore[misc]
    """kazoo's client, with numbered connections: what is sent goes out on a given one or never."""

    def __init__(
        self, hosts: str, session_timeout_s: float, identity: tuple[int, bytes] | None = None,
        digest: Digest | None = None,
    ) -> None:  # fmt: skip
        self.number = 0
        self.negotiated_timeout_s = 0.0
        self._synced = False
        # Held by the connection's thread while it changes state and answers what is open; held by
        # `send` between its look at the state and its entry in the queue, and by `Client.submit`
        # around that. Nobody waits for anything else while holding it.
        self.state_lock = threading.RLock()
        super().__init__(
            hosts=hosts,
            timeout=session_timeout_s,
            client_id=identity,
            auth_data=[("digest", f"{digest.user}:{digest.password}")] if digest else None,
            handler=_Handler(),
            connection_retry=dict(_RECONNECTING),
            command_retry={"max_tries": 1},
            logger=Quietly(logging.getLogger("herdproof.zookeeper.kazoo")),
        )
        self.handler.waiting = lambda: bool(self._queue)
        self._shake_hands = self._connection._invoke
        self._connection._invoke = self._note_the_timeout

    @property
    def identity(self) -> tuple[int, bytes]:
        """The session's id and password; (0, …) without a session."""
        return self._session_id or 0, self._session_passwd

    def rooted(self, path: str) -> str:
        """A path as the server knows it."""
        return (self.chroot + path).rstrip("/") or "/" if self.chroot else path

    def send(self, frame: Any, replied: Callable[[Any], None], number: int) -> bool:
        """Send on connection `number`, or answer `False` if it is not the one that stands."""
        with self.state_lock:
            if self._state != KeeperState.CONNECTED or self.number != number:
                return False
            asked = [(frame, Reply(replied))]
            if isinstance(frame, READS) and not self._synced:
                self._synced = True
                asked.insert(0, (frames.Sync(self.rooted("/")), Reply(lambda _: None)))
            self._queue.extend(asked)
            is_first = len(self._queue) <= len(asked)
        if is_first:  # who is behind others is seen once the last of these is sent
            self._ring()
        return True

    def hang_up(self, only: int | None = None) -> None:
        """Break the connection (or that one only), as if the network had."""
        with self.state_lock:
            line = self._connection._socket
            if line is not None and only in {None, self.number}:
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)

    def end(self, patience_s: float) -> bool:
        """
        End the connection, and the session too if the server says so within `patience_s`.

        Answers whether it did; with no patience, it is not asked.
        """
        if self._stopped.is_set():
            return False
        self._stopped.set()
        with self.state_lock:
            ask = patience_s > 0 and self._state == KeeperState.CONNECTED
            if ask:
                self._queue.append((frames.CloseInstance, None))
        if ask:
            self._ring()
        stopped = self._connection.connection_stopped
        ended = ask and stopped.wait(patience_s)
        deadline = time.monotonic() + self._session_timeout / 1000 + 1
        while not stopped.wait(0.01) and time.monotonic() < deadline:
            self.hang_up()
        if stopped.is_set():
            self._connection.stop()
            self._connection.close()
        return bool(ended)

    def _ring(self) -> None:
        """Wake the connection's thread; after its end there is nobody to wake."""
        bell = self._connection._write_sock
        with contextlib.suppress(OSError):
            if bell is not None:
                bell.send(b"\0")

    def _session_callback(self, state: str) -> None:
        """Run by the connection's thread at every change of its state."""
        with self.state_lock:
            if state == KeeperState.CONNECTED:
                self.number += 1
                self._synced = False
            if state == KeeperState.CLOSED and not self._stopped.is_set():
                log.error("The connection's thread ended and will not reconnect: make a new one.")
            super()._session_callback(state)

    def _note_the_timeout(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        """Run for the first exchange on a connection, whose reply kazoo does not keep."""
        if isinstance(request, frames.Connect):
            timeout = min(timeout, max(request.time_out / 1000 * _HANDSHAKE, _HANDSHAKE_S))
        reply = self._shake_hands(timeout, request, xid)
        if isinstance(request, frames.Connect) and reply[0].time_out > 0:
            self.negotiated_timeout_s = reply[0].time_out / 1000
        return reply
