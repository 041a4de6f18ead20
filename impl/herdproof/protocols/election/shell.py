"""
One broker's part in the election, running: kazoo's session carried to the core and back.

    with ZkElection(hosts, "broker-1", on_elected=lead, on_deposed=stop) as election:
        election.stand()
        …
        answer = election.write(Set("/plan", b"…"), epoch=epoch)

All decisions are the core's (`elector.py`). One thread, the *carrier*, gives it one event at a time
(what ZooKeeper's client told, in the client's order; `stand` and `resign`, in the caller's) and
carries out what it answers, in order.

Source: system B's `ZkElection`, as PROTOCOLS.md rules (section Election).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from herdproof.errors import CallerError
from herdproof.protocols.election.elector import (
    Call,
    Effect,
    ElectionPaths,
    Elector,
    Event,
    LeaderChanged,
    LinkChanged,
    Resign,
    Stand,
)
from herdproof.protocols.election.gate import Observe, Shell, ignore_event
from herdproof.zookeeper.client import Client, Digest, ZooKeeperUnreachable
from herdproof.zookeeper.operations import (
    Answer,
    Check,
    Create,
    Created,
    Delete,
    Done,
    Link,
    Operation,
    Refusal,
    Set,
    Watched,
    Why,
)

log = logging.getLogger(__name__)

DEFAULT_PATHS = ElectionPaths()

_POLITENESS_S = 2.0
"""The time that `close` leaves for a leader's node to be deleted before it ends the session."""

_RETRY_S = 0.05
"""The time for which `prepare` waits for a connection between two attempts."""


def ignore_link(link: Link, session: int) -> None:
    """Whom an election tells of its link where its owner does not use the session."""


def ignore_watch(watched: Watched) -> None:
    """Whom an election tells of a watch where its owner left none."""


def ignore_end() -> None:
    """Whom an election tells that it is over where nobody wants to know."""


class NeverLed(CallerError):
    """A write was asked for under an epoch that nobody can have led in."""


class ElectionOver(CallerError):
    """The election was closed, or started before; each `ZkElection` is started once."""


class ZkElection:
    """
    One broker's elector on the ZooKeeper at `hosts` ("host:port,host:port").

    `on_elected(epoch)` and `on_deposed(epoch)` come in turns, with epochs that never go back, from
    the carrier. They must not block: nothing else is carried while they run, a deposition neither.
    (`write` may be called there.) `on_deposed` comes as soon as the broker cannot be sure that it
    leads, that is when its connection breaks or is silent; the same epoch may follow again if it
    comes back in time, or if it resigns and stands again at once. An exception in a callback is
    logged. One in `on_elected` makes the broker resign as well, since nobody does the leader's
    work: it is out until `stand` is called again.

    `session_timeout_s`, in seconds, bounds how long a dead leader keeps its place; a server may
    grant another one. `observe` is told each event with its effects; see `shell.Observe`.

    The owner may use the session (`client`) for reads, watches and writes of its own: it is told
    of each change of the link by `on_link`, and by `on_watch` of each watch that fired. `digest`
    is the client's. These two are called by the client's thread, not by the carrier: a deposition
    may come after the SUSPENDED that led to it. `on_over` is the carrier's last call: this
    broker's part has ended, by `close` or because the core failed (a log says so).
    """

    def __init__(
        self, hosts: str, broker: str, *, on_elected: Callable[[int], None],
        on_deposed: Callable[[int], None], session_timeout_s: float = 10.0,
        paths: ElectionPaths = DEFAULT_PATHS, observe: Observe | None = None,
        digest: Digest | None = None,
        on_link: Callable[[Link, int], None] = ignore_link,
        on_watch: Callable[[Watched], None] = ignore_watch,
        on_over: Callable[[], None] = ignore_end,
    ) -> None:  # fmt: skip
        self._core = Elector(broker, paths)
        self._on_elected = on_elected
        self._on_deposed = on_deposed
        self._observe = observe or ignore_event
        self._on_link = on_link
        self._on_watch = on_watch
        self._on_over = on_over
        self._shell = Shell(
            self._core,
            elected=self._tell_elected,
            deposed=self._tell_deposed,
            observe=self._tell_observer,
        )
        self._client = Client(
            hosts,
            session_timeout_s=session_timeout_s,
            on_link=self._link_changed,
            on_watch=self._watch_fired,
            digest=digest,
        )
        self._lock = threading.Lock()
        self._bell = threading.Event()
        self._carrier = threading.Thread(target=self._carry, name=f"election-{broker}", daemon=True)
        self._started = False
        self._closing = False
        self._patience_ends = 0.0
        self._over = False

    @property
    def broker(self) -> str:
        """This broker's id, which the leader's node names."""
        return self._core.broker

    @property
    def leads(self) -> bool:
        """Tells whether this broker believes that it leads; ask `write` for certainty."""
        return self._core.leads and not self._over

    @property
    def epoch(self) -> int:
        """The last epoch that this broker led in; 0 if it never did."""
        return self._core.token

    @property
    def client(self) -> Client:
        """The session, for reads, and for those who trace or disturb it."""
        return self._client

    def start(self, timeout_s: float = 10.0) -> None:
        """
        Connect, and see to it that the election's persistent nodes exist.

        Raises `ZooKeeperUnreachable`, or `ElectionOver` the second time or after `close`.
        """
        with self._lock:
            if self._started or self._closing:
                raise ElectionOver(f"The election of {self.broker} is over: make a new ZkElection.")
            self._started = True
        try:
            self._client.start(timeout_s)
            prepare(self._client, self._core.paths, timeout_s)
        except BaseException:
            self.abandon()
            raise
        with self._lock:
            if not self._closing:
                self._carrier.start()

    def stand(self) -> None:
        """Take part from now on, whatever happens to the session, until `resign` or `close`."""
        self._post(Stand())

    def resign(self) -> None:
        """Lead no more and stand no more; if this broker leads, its node is deleted."""
        self._post(Resign())

    def write(
        self, *operations: Create | Set | Delete | Check, timeout_s: float = 10.0,
        epoch: int | None = None,
    ) -> Done | Refusal:  # fmt: skip
        """
        Do these writes as one transaction, if `epoch` is still the present one.

        `epoch` is the one in which the write was decided (as `on_elected` told it): name it
        wherever the broker might have been elected anew in between. Without it, it is the last
        epoch that this broker led in. `Done` answers `operations`, in order.

        A refusal's index counts from 0 for the check of the epoch, from 1 for `operations`:
        `Refusal(BAD_VERSION, 0)` says that **another epoch has begun**, and that nothing of this
        one will be accepted any more. `CONNECTION_LOSS` says that nobody knows whether it was done
        (also after `timeout_s` seconds without an answer). Raises `NeverLed`.
        """
        if (self.epoch if epoch is None else epoch) < 1:
            raise NeverLed(
                f"{self.broker} cannot write under epoch {self.epoch if epoch is None else epoch}: "
                f"epochs count from 1; write once on_elected has told one."
            )
        answer = self._client.perform(self._core.fenced(*operations, epoch=epoch), timeout_s)
        assert isinstance(answer, Done | Refusal), f"a transaction was answered by {answer}"
        return answer

    def close(self) -> None:
        """
        Resign, wait a little for the node to be gone, and end the session. May be repeated.

        In a callback it returns at once, and the session ends soon after the callback.
        """
        self._end(_POLITENESS_S)
        if threading.current_thread() is self._carrier:
            return
        if self._carrier.is_alive():
            self._carrier.join(2 * _POLITENESS_S)
        self._client.close()

    def abandon(self) -> None:
        """Vanish as a crash would: the session, and a leader's node, stay until they expire."""
        self._client.abandon()
        self._end(0.0)
        if self._carrier.is_alive() and threading.current_thread() is not self._carrier:
            self._carrier.join(_POLITENESS_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    # ── What comes in, from any thread ──────────────────────────────────────────────────────

    def _post(self, event: Event) -> None:
        """Put an event into the inbox, until the end has begun."""
        with self._lock:
            if not self._closing:
                self._shell.post(event)
        self._bell.set()

    def _link_changed(self, link: Link, session: int) -> None:
        """The client's `on_link`."""
        self._shell.post(LinkChanged(link, session))
        self._bell.set()
        self._on_link(link, session)

    def _watch_fired(self, watched: Watched) -> None:
        """The client's `on_watch`; of what is watched, the leader's node is the core's."""
        if watched.path == self._core.paths.leader:
            self._shell.post(LeaderChanged())
            self._bell.set()
        self._on_watch(watched)

    def _submit(self, operation: Operation, answer: Callable[[Answer], None]) -> None:
        """Send a call of the core's, in the session in which the core decided on it, or never."""

        def answered(told: Answer) -> None:
            answer(told)
            self._bell.set()

        self._client.submit(operation, answered, session=self._core.session)

    def _end(self, patience_s: float) -> None:
        """Have the carrier end, at the latest in so many seconds; the first call counts."""
        with self._lock:
            if not self._closing:
                self._shell.post(Resign())
                self._patience_ends = time.monotonic() + patience_s
                self._closing = True
        self._bell.set()

    # ── The carrier ─────────────────────────────────────────────────────────────────────────

    def _carry(self) -> None:
        """The carrier's life. Should the core itself fail, this broker's part is over."""
        try:
            while not self._finished():
                self._bell.wait(self._patience_s())
                self._bell.clear()
                self._drain()
        except Exception:
            log.exception("The election of %s failed, and is over for it.", self.broker)
        finally:
            self._over = True
            if self._core.leads:
                self._tell_deposed(self._core.token)
            self._client.close()
            self._on_over()

    def _drain(self) -> None:
        """Take every event that waits, and submit every call that it leads to."""
        while self._shell.inbox:
            self._shell.take()
            while self._shell.outbox:
                self._shell.release(self._submit)

    def _patience_s(self) -> float | None:
        """The seconds to wait for a further event; without end unless closing."""
        return max(0.0, self._patience_ends - time.monotonic()) if self._closing else None

    def _finished(self) -> bool:
        """Tells whether the end was asked for, and there is nothing left to wait for."""
        if not self._closing or self._shell.inbox:
            return False
        at_rest = not self._core.stands and self._core.call is Call.NONE
        return at_rest or time.monotonic() >= self._patience_ends

    def _tell_elected(self, epoch: int) -> None:
        """Tell the owner; an owner that cannot lead resigns."""
        try:
            self._on_elected(epoch)
        except Exception:
            log.exception("on_elected(%d) of %s failed: it resigns.", epoch, self.broker)
            self._shell.post(Resign())

    def _tell_deposed(self, epoch: int) -> None:
        """Tell the owner."""
        try:
            self._on_deposed(epoch)
        except Exception:
            log.exception("on_deposed(%d) of %s failed.", epoch, self.broker)

    def _tell_observer(self, core: Elector, event: Event, effects: Sequence[Effect]) -> None:
        """Tell whoever observes, whose trouble is no reason to lead badly."""
        try:
            self._observe(core, event, effects)
        except Exception:
            log.exception("The observer of %s failed at %s.", self.broker, event)


def prepare(client: Client, paths: ElectionPaths, timeout_s: float = 10.0) -> None:
    """
    Create the election's persistent nodes where they are missing; others may do so at once.

    The version of a new epoch node is 0, so the first epoch is 1. Raises `ZooKeeperUnreachable`.
    """
    deadline = time.monotonic() + timeout_s
    for path in [*parents(paths.leader), *parents(paths.epoch), paths.epoch]:
        while (answer := client.perform(Create(path), timeout_s)) != Created(path):
            if answer == Refusal(Why.NODE_EXISTS):
                break
            if answer != Refusal(Why.CONNECTION_LOSS) or time.monotonic() > deadline:
                raise ZooKeeperUnreachable(
                    f"The election's node {path} could not be created: {answer}. Check the "
                    f"address (its chroot must exist), and that most of its servers run."
                )
            time.sleep(_RETRY_S)


def parents(path: str) -> Iterable[str]:
    """The paths above a path, the root excepted, from the top."""
    names = path.split("/")[1:-1]
    return ("/" + "/".join(names[: depth + 1]) for depth in range(len(names)))
