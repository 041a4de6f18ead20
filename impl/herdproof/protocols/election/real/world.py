"""
The election on a real ZooKeeper, with real faults, one thing at a time.

The same brokers as in the simulated world (`herdproof.protocols.election.simulated`): the very
cores in the very gates. Here each has a real client, and a TCP proxy of its own as its network. The
methods are named alike, and each returns when what it names *has happened*: the answer lies in the
inbox, the client has noticed the break, the watch events of others have arrived. So plans are
deterministic.

Everything that clients tell is brought to the one thread that drives (`Mail`); nothing reaches a
core until a method says so. A connection that is cut finds its proxy frozen: the client's next
attempt hangs in there, and goes on when the plan lets it.

Not to be had on one server: one that lags (an ensemble has that). A plan's `pause` stops only the
gate; what a stopped process does is tested elsewhere. The server notices a broken connection a
little later than its client: a `picture` may need a moment to be right.
"""

from __future__ import annotations

import queue
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import ClassVar, Self

from herdproof.errors import CallerError, NotInTime, WorldError
from herdproof.protocols.election.elector import (
    NOBODY_KNOWS,
    Call,
    ElectionPaths,
    Elector,
    LeaderChanged,
    LinkChanged,
    OperationAnswered,
)
from herdproof.protocols.election.gate import Observe, Shell, ignore_event
from herdproof.protocols.election.gated import GatedElection, Impossible
from herdproof.protocols.election.simulated import SimulatedElection
from herdproof.simulator.tree import TreeNode
from herdproof.simulator.zookeeper import ServiceSnapshot as Service
from herdproof.simulator.zookeeper import SessionState as Known
from herdproof.zookeeper.client import Client, expire_session
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import (
    Answer,
    Create,
    Data,
    Delete,
    Done,
    Exists,
    Get,
    Link,
    Multi,
    Operation,
    Refusal,
    Set,
    Sync,
)
from herdproof.zookeeper.proxy import FaultProxy

SESSION_TIMEOUT_S = 30.0
"""A time-out in which no session expires within a plan unless the plan says so."""

_LOOK_AGAIN_S = 0.002
"""The time between two looks at something that nobody tells us of."""


class Mail:
    """Messages of other threads, run by the thread that drives, in the order in which they came."""

    def __init__(self, patience_s: float) -> None:
        self.patience_s = patience_s
        self._errands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def put(self, errand: Callable[[], None]) -> None:
        """Have something done by the thread that drives."""
        self._errands.put(errand)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Run what comes until it holds; `what` is what to say if it does not in time."""
        deadline = time.monotonic() + self.patience_s
        while not holds():
            self._run_one(deadline, what)

    def poll_until(self, holds: Callable[[], bool], what: str) -> None:
        """Looks again and again until something holds that nobody tells us of."""
        deadline = time.monotonic() + self.patience_s
        while not holds():
            self._run_one(deadline, what, _LOOK_AGAIN_S)

    def _run_one(self, deadline: float, what: str, at_most_s: float | None = None) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise NotInTime(f"{what}: not within {self.patience_s:g} s")
        try:
            errand = self._errands.get(timeout=left if at_most_s is None else at_most_s)
        except queue.Empty:
            return
        errand()


class ProxiedSession:
    """One client through a proxy, and the links that it has told so far (`news`)."""

    def __init__(
        self,
        hosts: str,
        mail: Mail,
        watched: Callable[[ProxiedSession, str], None] = lambda *_: None,
    ) -> None:
        self.news: list[tuple[Link, int]] = [(Link.LOST, 0)]
        self.client = Client(
            hosts,
            session_timeout_s=SESSION_TIMEOUT_S,
            on_link=lambda link, session: mail.put(partial(self.news.append, (link, session))),
            on_watch=lambda seen: mail.put(partial(watched, self, seen.path)),
        )
        self._mail = mail

    @property
    def link(self) -> Link:
        """The link that was told last."""
        return self.news[-1][0]

    def submit(self, operation: Operation, answer: Callable[[Answer], None]) -> None:
        """Send an operation; its answer comes by mail."""
        self.client.submit(operation, lambda told: self._mail.put(partial(answer, told)))


@dataclass
class RealBroker:
    """One broker: its elector behind its gate, its client, its network."""

    name: str
    proxy: FaultProxy
    service: ProxiedSession
    shell: Shell
    session: int = 0
    cut_off: bool = False
    """True if this world has broken its network (what the server sees is another thing)."""
    met: int = 0
    """The number of connections that its network had met when it was broken."""
    paused: bool = False
    passwords: dict[int, bytes] = field(default_factory=dict)
    """Of all its sessions: with one, the session can be ended at the server."""


_ID = re.compile(r"0x[0-9a-f]+")
_SESSION = re.compile(r"^\t(0x[0-9a-f]+)$", re.MULTILINE)
_CONNECTED = re.compile(r"\bsid=(0x[0-9a-f]+)")


@dataclass(frozen=True)
class Lists:
    """Lists of the server's: living sessions, sessions with a connection, watches by session."""

    sessions: frozenset[int]
    connected: frozenset[int]
    watches: Mapping[int, frozenset[str]]


def read_lists(dump: str, cons: str, wchc: str) -> Lists:
    """
    The server's answers to three of its words.

    `dump` lists connections, too, but now and then keeps one that has been closed.
    """
    sessions = dump.partition("ephemeral nodes dump:")[0]
    watches: dict[int, frozenset[str]] = {}
    session = 0
    for line in wchc.splitlines():
        if _ID.fullmatch(line):
            session = int(line, 16)
        elif line.startswith("\t"):
            watches[session] = watches.get(session, frozenset()) | {line.strip()}
    return Lists(
        frozenset(int(found, 16) for found in _SESSION.findall(sessions)),
        frozenset(int(found, 16) for found in _CONNECTED.findall(cons)),
        watches,
    )


NEEDS_A_TIMEOUT = "needs a whole session time-out"
"""An expiry that the broker is half told of; paused brokers (integration/) go through it."""


class RealElection(GatedElection[RealBroker]):
    """
    `size` brokers (0-based) on a running ZooKeeper; a context manager.

    `reset` begins anew below another node, with new cores on the clients that are there. Each wait
    is limited by `patience_s`, in seconds. A step that is not possible raises `Impossible`,
    `NothingWaits` or `NotInTime`.
    """

    absent: ClassVar[Mapping[str, str]] = {
        "fall_behind": "needs a server that lags",
        "catch_up": "needs a server that lags",
        "expire_told": NEEDS_A_TIMEOUT,
    }
    """Actions that one server, disturbed from outside, cannot be made to take, and why."""
    reluctant: ClassVar[Collection[str]] = ()
    """Actions that are possible at times only."""

    def __init__(
        self, zookeeper: EmbeddedZooKeeper, size: int, *, root: str = "/link",
        observe: Observe = ignore_event, patience_s: float = 20.0,
    ) -> None:  # fmt: skip
        if not root.startswith("/"):
            raise CallerError(f"{root!r} is no path: begin it with a slash.")
        self.zookeeper = zookeeper
        self.size = size
        self.observe = observe
        self.mail = Mail(patience_s)
        self.elector: type[Elector] = Elector
        self.brokers: list[RealBroker] = []
        self.lagging: set[int] = set()
        """The brokers whose server lags: here none ever."""
        self.readers: list[ProxiedSession] = []
        """At each broker's server, a client that has no part, where servers can lag."""
        self.stale_write_accepted = False
        self.outsider = ProxiedSession(self.hosts_of(self.truth), self.mail)
        self._root = root
        self._resets = 0
        self._picture = SimulatedElection(size)
        self._place()

    @property
    def truth(self) -> int:
        """The number of the server that is never behind."""
        return 0

    def server_of(self, b: int) -> int:
        """The number of the server that a broker is connected to."""
        del b
        return 0

    def hosts_of(self, server: int) -> str:
        """A server's address."""
        return self.zookeeper.server_hosts[server]

    # ── Its life ────────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Self:
        self.outsider.client.start()
        self._root = f"{self._root}-{self.outsider.client.session:x}"  # nobody else's
        try:
            for b in range(self.size):
                self.brokers.append(self._broker(b))
            self.reset()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End all clients and proxies, and remove the nodes."""
        self._clear()
        for broker in self.brokers:
            if broker.cut_off:
                broker.service.client.abandon()
            broker.service.client.close()
            broker.proxy.stop()
        self.outsider.client.close()

    def reset(self, elector: type[Elector] = Elector) -> None:
        """Begin anew: other nodes, new cores of this class; clients only where needed."""
        self._clear()
        self.elector = elector
        self.stale_write_accepted = False
        self._place()
        nodes = [Create(path) for path in (self.root, self.paths.epoch, self.written)]
        made = self.outsider.client.perform(Multi(tuple(nodes)))
        if not isinstance(made, Done):
            raise WorldError(f"{self.root} could not be made ({made}): is ZooKeeper empty?")
        for broker in self.brokers:
            if broker.cut_off:
                broker.proxy.accept()
                broker.proxy.thaw()
        for broker in self.brokers:
            self._connected(broker)
            broker.shell = self._start(broker)

    def _place(self) -> None:
        """Where the nodes of this run are."""
        self._resets += 1
        self.root = f"{self._root}-{self._resets}"
        self.paths = ElectionPaths(f"{self.root}/leader", f"{self.root}/epoch")
        self.written = f"{self.root}/written"

    def _clear(self) -> None:
        """Remove the nodes of the last run, and with them what was watched."""
        nodes = [Delete(path) for path in (self.paths.epoch, self.written, self.root)]
        for operation in (Delete(self.paths.leader), Multi(tuple(nodes))):
            self.outsider.submit(operation, lambda _: None)

    def _broker(self, b: int) -> RealBroker:
        host, port = self.hosts_of(self.server_of(b)).split(":")
        proxy, name = FaultProxy(host, int(port)).start(), f"broker{b + 1}"
        service = ProxiedSession(proxy.hosts, self.mail, self._watched)
        broker = RealBroker(name, proxy, service, Shell(Elector(name, self.paths)))
        service.client.start()
        return broker

    def _connected(self, broker: RealBroker) -> None:
        """Wait until the broker's client has a session, and note it."""
        service = broker.service
        self.mail.until(lambda: service.link is Link.CONNECTED, f"{broker.name} connected")
        broker.cut_off = broker.paused = False
        broker.session = service.news[-1][1]
        broker.passwords[broker.session] = service.client.password
        self._read_once(broker)

    def _read_once(self, broker: RealBroker) -> None:
        """Have the client's sync before its first read on a connection done with."""
        self._performed(broker.service, Exists(self.root))

    def _start(self, broker: RealBroker) -> Shell:
        """A new process: a core that knows nothing, told of its first session."""
        shell = Shell(self.elector(broker.name, self.paths), observe=self.observe)
        shell.give(LinkChanged(Link.CONNECTED, broker.session))
        return shell

    # ── What users ask for ──────────────────────────────────────────────────────────────────

    def write(self, b: int) -> None:
        """The broker's application writes as the core bids it; ZooKeeper accepts, or refuses."""
        broker = self.brokers[b]
        operation = broker.shell.core.fenced(Set(self.written, broker.name.encode()))
        answer = self._performed(broker.service, operation)
        if _nobody_knows(answer):
            raise Impossible(f"{broker.name} could not write: its connection is gone")
        if isinstance(answer, Done) and self.winner() != broker.name:
            self.stale_write_accepted = True

    # ── What the elector does with what its inbox holds ─────────────────────────────────────

    def handle_suspended(self, b: int) -> None:
        """Say what the client said when its connection broke; what still waits comes too late."""
        broker = self.brokers[b]
        if broker.service.link is not Link.SUSPENDED:
            raise Impossible(f"{broker.name}'s connection stands: cut it first")
        broker.shell.give(LinkChanged(Link.SUSPENDED, broker.session))
        while broker.shell.inbox:
            broker.shell.take()
        broker.shell.outbox.clear()

    def handle_reconnected(self, b: int) -> None:
        """The network works again, and the client comes back with its session."""
        broker = self.brokers[b]
        self._mend(broker)
        if broker.service.news[-1] != (Link.CONNECTED, broker.session):
            raise Impossible(f"{broker.name} came back as {broker.service.news[-1]}")
        broker.shell.give(LinkChanged(Link.CONNECTED, broker.session))

    def handle_lost(self, b: int) -> None:
        """One connection is let through, on which the client learns that its session is over."""
        broker = self.brokers[b]
        broker.proxy.wait_connections(broker.met + 1, self.mail.patience_s)
        broker.proxy.refuse()
        broker.proxy.thaw()
        service = broker.service
        self.mail.until(lambda: service.link is Link.LOST, f"{broker.name} learns of its expiry")
        broker.proxy.freeze()
        broker.proxy.accept()
        broker.shell.give(LinkChanged(Link.LOST, broker.session))

    def handle_new_session(self, b: int) -> None:
        """The network works again, and the client opens a new session."""
        broker = self.brokers[b]
        before = broker.session
        self._mend(broker)
        if broker.service.news[-1][1] == before:
            raise Impossible(f"{broker.name} came back with its old session")
        self._connected(broker)
        broker.shell.give(LinkChanged(Link.CONNECTED, broker.session))

    # ── What ZooKeeper does with a call ─────────────────────────────────────────────────────

    def expire_orphan(self) -> None:
        """The server ends the session that owns the leader's node, whose broker has a later one."""
        leader = self.read(self.paths.leader)
        owner = leader.stat.ephemeral_owner if leader else 0
        if not owner or any(owner == broker.session for broker in self.brokers):
            raise Impossible("no former session owns the leader's node: restart its owner first")
        self._expire(next(b for b in self.brokers if owner in b.passwords), owner)

    # ── Faults ──────────────────────────────────────────────────────────────────────────────

    def cut(self, b: int) -> None:
        """The connection breaks, and the client has noticed; its next one goes nowhere."""
        broker = self.brokers[b]
        if broker.cut_off:
            return
        broker.cut_off = True
        service = broker.service
        broker.proxy.freeze()
        broker.met = broker.proxy.connections + broker.proxy.refused
        broker.proxy.cut()
        self.mail.until(lambda: service.link is Link.SUSPENDED, f"{broker.name} was suspended")

    def expire(self, b: int) -> None:
        """The server ends the session of a broker that is cut off, and so does not know."""
        broker = self.brokers[b]
        self.cut(b)
        self._expire(broker, broker.session)

    def restart(self, b: int) -> None:
        """The client is dropped as by a crash, the core with it; new ones take their place."""
        broker = self.brokers[b]
        broker.service.client.abandon()
        broker.proxy.cut()
        broker.proxy.accept()
        broker.proxy.thaw()
        broker.service = ProxiedSession(broker.proxy.hosts, self.mail, self._watched)
        broker.service.client.start(self.mail.patience_s)
        self._connected(broker)
        broker.shell = self._start(broker)

    # ── What an outsider sees ───────────────────────────────────────────────────────────────

    def read(self, path: str, reader: ProxiedSession | None = None) -> Data | None:
        """A node, read by a client that has no part in the election; `None` if none stands."""
        answer = self._performed(reader or self.outsider, Get(path))
        return answer if isinstance(answer, Data) else None

    def winner(self) -> str:
        """The broker that won the present epoch, "" before the first: the epoch node's data."""
        epoch = self.read(self.paths.epoch)
        return epoch.data.decode() if epoch else ""

    def picture(self) -> SimulatedElection:
        """
        The world as it is now: a simulated one that is in the same state.

        The cores are these, inboxes and all; the nodes are as an outsider reads them, sessions,
        connections and watches as the server itself lists them.
        """
        picture, servers = self._picture, {self.truth, *map(self.server_of, range(self.size))}
        lists = {server: self._lists(server) for server in servers}
        sessions: dict[int, Known] = {}
        for b, (shown, broker) in enumerate(zip(picture.brokers, self.brokers, strict=True)):
            here, session = lists[self.server_of(b)], broker.session
            sessions[session] = Known(
                session in lists[self.truth].sessions,
                here.watches.get(session, frozenset()),
                view=self._nodes(self.readers[b]) if b in self.lagging else None,
            )
            shown.shell, shown.session, shown.paused = broker.shell, session, broker.paused
            shown.former = tuple(s for s in broker.passwords if s != session)
            shown.connected = session in here.connected
        picture.paths = self.paths
        picture.zookeeper.restore(Service(self._nodes(self.outsider), sessions, zxid=0))
        picture.stale_write_accepted = self.stale_write_accepted
        return picture

    def _lists(self, server: int) -> Lists:
        ask = self.zookeeper.ask
        return read_lists(*(ask(server, word) for word in ("dump", "cons", "wchc")))

    def _nodes(self, reader: ProxiedSession) -> dict[str, TreeNode]:
        """The two nodes as a client that has no part in the election reads them."""
        read = {path: self.read(path, reader) for path in (self.paths.leader, self.paths.epoch)}
        return {
            path: TreeNode(data.data, data.stat.ephemeral_owner, version=data.stat.version)
            for path, data in read.items()
            if data is not None
        }

    # ── Inside ──────────────────────────────────────────────────────────────────────────────

    def _watched(self, service: ProxiedSession, path: str) -> None:
        """Run as mail: a watch fired; those of former runs and clients are nobody's."""
        for broker in self.brokers:
            if broker.service is service and path == self.paths.leader:
                broker.shell.post(LeaderChanged())

    def _performed(self, service: ProxiedSession, operation: Operation) -> Answer:
        answers: list[Answer] = []
        service.submit(operation, answers.append)
        self.mail.until(lambda: bool(answers), f"{operation} answered")
        return answers[0]

    def _await_watches(self) -> None:
        """
        Wait until every watch event that was sent has arrived.

        Each session gets its events before the answers to what it asks later; a sync is answered
        when its server knows all that was done before.
        """
        asked = [x for b, x in enumerate(self.brokers) if not (x.cut_off or b in self.lagging)]
        answers: list[Answer] = []
        for broker in asked:
            broker.service.submit(Sync(), answers.append)
        self.mail.until(lambda: len(answers) == len(asked), "every broker asked was answered")

    def _serve(self, b: int, call: Call) -> None:
        self._expect(b, call)
        broker = self.brokers[b]
        ask = broker.shell.release(broker.service.submit)
        answer = self._answer_to(broker, ask.number)
        if _nobody_knows(answer):
            raise Impossible(f"{broker.name} got no answer to {ask.operation}: {answer}")

    def _answer_to(self, broker: RealBroker, number: int) -> Answer:
        """Wait until the answer to a call is in the inbox."""
        found: list[Answer] = []

        def there() -> bool:
            waits = (e for e in broker.shell.inbox if isinstance(e, OperationAnswered))
            found[:] = [e.answer for e in waits if e.number == number]
            return bool(found)

        self.mail.until(there, f"{broker.name}'s call {number} was answered")
        return found[0]

    def _swallow(self, b: int, call: Call) -> None:
        self._expect(b, call)
        broker = self.brokers[b]
        broker.proxy.swallow_replies()
        ask = broker.shell.release(broker.service.submit)
        broker.proxy.wait_swallowed_reply(timeout_s=self.mail.patience_s)
        self.cut(b)
        self._answer_to(broker, ask.number)  # that nobody knows
        self._await_watches()

    def _expire(self, broker: RealBroker, session: int) -> None:
        """End a session at the server; wait until its node is gone and who watched was told."""
        password = broker.passwords[session]
        expire_session(self.hosts_of(self.truth), session, password, self.mail.patience_s)

        def gone() -> bool:
            leader = self.read(self.paths.leader)
            return leader is None or leader.stat.ephemeral_owner != session

        self.mail.poll_until(gone, f"the node of session {session:#x} is gone")
        self._await_watches()

    def _mend(self, broker: RealBroker) -> None:
        """Let the client's attempt through, and wait until it is connected."""
        broker.proxy.thaw()
        service = broker.service
        self.mail.until(lambda: service.link is Link.CONNECTED, f"{broker.name} is back")
        broker.cut_off = False
        self._read_once(broker)


def _nobody_knows(answer: Answer) -> bool:
    return isinstance(answer, Refusal) and answer.why in NOBODY_KNOWS
