"""
The gated world of system B: real cores, and everything between them waits until it is let go.

Each method is one thing that can happen. Coordinators and consumers are the cores that the services
run; frames wait in their connections, offsets' writes and watches in ZooKeeper, and what a core has
queued (a group for its handler, a request behind another) stays there until a method takes it out.
So two cores are seen between any two steps, and go on in any order. Time stands still but for what
a method says is due. Methods take indices (0-based); what cannot happen now raises `Impossible`.

Done at once, where the real thing may take longer: consulting and connecting; the reads of a group
and, at the start, of the topics; the writes of subscriptions and of owners, with their answers. The
answers to Registers and Commits reach their consumer with the next request. A connection that is
closed loses what is on its way. Whoever is gone loses its lease once it fetches no more.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

from herdproof.central_coordinator.consumer import ConsumerCore
from herdproof.central_coordinator.consumer import Phase as ConsumerPhase
from herdproof.central_coordinator.consumer_settings import ConsumerSettings
from herdproof.central_coordinator.coordinator import Coordinator
from herdproof.central_coordinator.events import (
    Answered,
    Ask,
    Close,
    Closed,
    CommitAsked,
    Connect,
    Connected,
    Consumed,
    ConsumerEvent,
    CoordinatorEvent,
    Deposed,
    Elected,
    Fired,
    Opened,
    Received,
    Send,
    StepDown,
    Subscribe,
    Tick,
)
from herdproof.central_coordinator.groups import Group, Phase
from herdproof.central_coordinator.paths import Paths
from herdproof.central_coordinator.server_cluster import Address
from herdproof.central_coordinator.settings import Settings
from herdproof.central_coordinator.socket_server import Channel
from herdproof.central_coordinator.steps import Step
from herdproof.central_coordinator.store import lineage
from herdproof.simulator.gated import Impossible
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.wire import subscription
from herdproof.wire.messages import (
    BrokerInfo,
    Commit,
    CommitResponse,
    ConsultResponse,
    ErrorCode,
    Frame,
    Offset,
    Ping,
    PingResponse,
    Register,
    RegisterResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)
from herdproof.zookeeper.operations import (
    Answer,
    Create,
    Get,
    Multi,
    Operation,
    Refusal,
    Set,
    Why,
)

GROUP = "g"
NOWHERE = "nowhere"
"""A topic that never exists: so that one may be interested in nothing that does."""
HIDDEN = (RegisterResponse, CommitResponse)
"""Frames that reach their consumer with the next request."""

_SETTINGS = Settings(failover_grace_ms=1, zookeeper_retries=0)
_CONSUMER = ConsumerSettings()


def topic_of(p: int) -> str:
    """The topic whose only partition this is."""
    return f"t{p}"


class Gates:
    """What of a coordinator's core waits: its handlers' queues, barriers, and unsent requests."""

    def __init__(self, core: Coordinator) -> None:
        self.core = core
        self.handles = False
        self.passes = False
        self.sends: int | None = None
        """The channel whose next request may be sent."""
        rebalancer, server = vars(core.rebalancer), vars(core.socket_server)
        rebalancer["run"] = self.run
        rebalancer["_check_stopped"] = self.check_stopped
        rebalancer["_check_started"] = self.check_started
        server["_send_next"] = self.send_next

    def run(self) -> None:
        """The handlers work on their queues, if they may."""
        if self.handles:
            type(self.core.rebalancer).run(self.core.rebalancer)

    def check_stopped(self, group: Group) -> None:
        """The barrier: passed by nobody, unless it is let go."""
        if self.passes:
            type(self.core.rebalancer)._check_stopped(self.core.rebalancer, group)

    def check_started(self, group: Group) -> None:
        """The end of a rebalance: passed by nobody, unless it is let go."""
        if self.passes:
            type(self.core.rebalancer)._check_started(self.core.rebalancer, group)

    def send_next(self, channel: Channel) -> None:
        """A request that waits is sent, if it may be."""
        if channel.number == self.sends:
            self.sends = None
            type(self.core.socket_server)._send_next(self.core.socket_server, channel)


class Connection:
    """A connection of one life of a member to a broker, and what is on its way over it."""

    def __init__(self, member: int, life: int, broker: int, near: int, far: int) -> None:
        self.member, self.life, self.broker = member, life, broker
        self.near, self.far = near, far
        """Its numbers, at the consumer and at the coordinator."""
        self.stands = True
        self.up: deque[Frame] = deque()
        self.down: deque[Frame] = deque()
        self.start: Start | None = None
        """The last Start that was sent."""
        self.reported: tuple[Offset, ...] = ()
        """The offsets that were last told."""
        self.withdrawn = False
        """Its member's books say that it follows no Start, though it was sent no Stop."""

    def break_off(self) -> None:
        """It stands no more, and what was on its way is lost."""
        self.stands = False
        self.up.clear()
        self.down.clear()
        self.start, self.reported = None, ()


class Broker:
    """One broker: its core, its session, and what waits for it."""

    def __init__(self, core: Coordinator, session: int, channels: int = 0) -> None:
        self.core = core
        self.gates = Gates(core)
        self.session = session
        self.channels = channels
        self.token = 0
        """The epoch that it took up last."""
        self.won = 0
        self.connections: dict[int, Connection] = {}
        self.writes: deque[Ask] = deque()
        """Offsets that are to be written."""
        self.reads: dict[str, Ask] = {}
        """Topics that are to be read, by path."""
        self.answers: deque[tuple[int, Any]] = deque()
        self.busy = False
        self.starts = False

    @property
    def leads(self) -> bool:
        """Whether it believes that it coordinates."""
        return self.core.epoch is not None

    @property
    def group(self) -> Group | None:
        """What it knows of the group."""
        return self.core.groups.get(GROUP)


class Member:
    """One member: its core, its connection, and how often it registered."""

    def __init__(self, core: ConsumerCore) -> None:
        self.core = core
        self.connection: Connection | None = None
        self.life = 0
        self.now_ms = 0
        self.commits = 0

    def is_fetching(self, p: int) -> bool:
        """Whether it fetches a partition."""
        consumption = self.core.consumption
        return not consumption.fetcher_stopped and consumption.find(topic_of(p), "0") is not None

    def position(self, p: int) -> int:
        """The first record of a partition that it has not consumed; 0 where it fetches nothing."""
        info = self.core.consumption.find(topic_of(p), "0")
        return info.consumed_offset if info is not None and self.is_fetching(p) else 0


class GatedCentral:
    """So many brokers, members, and partitions, of which `there` exist from the beginning."""

    def __init__(
        self, brokers: int, members: int, partitions: int, *, there: Collection[int] = (),
        coordinator: type[Coordinator] = Coordinator, consumer: type[ConsumerCore] = ConsumerCore,
    ) -> None:  # fmt: skip
        self.coordinator = coordinator
        self.paths = Paths()
        self.zookeeper = ZooKeeper()
        self._operator = self.zookeeper.open()
        self._prepare()
        self.partitions = range(partitions)
        self.ends = [0 for _ in self.partitions]
        self.finished = [0 for _ in self.partitions]
        self.loses = False
        """Whether writes are lost on their way to ZooKeeper."""
        self.epoch = 0
        self.seat: int | None = None
        self.elected: int | None = None
        self.registered: dict[str, tuple[int, int]] = {}
        """Of each registration, the member and its life."""
        self.brokers = [Broker(self._core(b), self.zookeeper.open()) for b in range(brokers)]
        known = tuple(Address(f"broker{b}", 1) for b in range(brokers))
        self.members = [
            Member(consumer(GROUP, f"c{m}", f'{{"{NOWHERE}": 1}}', _CONSUMER, known, m))
            for m in range(members)
        ]
        for p in there:
            self.appear(p)

    # ── Who coordinates ─────────────────────────────────────────────────────────────────────

    def elect(self, b: int) -> None:
        """A broker wins the next epoch."""
        self._expect(self.seat is None and not self.brokers[b].leads, "somebody leads")
        self.epoch += 1
        self._operate(Set(self.paths.election.epoch, str(b).encode()))
        self.seat = self.elected = b
        self.brokers[b].won = self.epoch

    def coordinator_startup(self, b: int) -> None:
        """A broker hears that it was elected, and reads what there is."""
        broker = self.brokers[b]
        self._expect(not broker.leads and broker.won > 0, "it was not elected, or leads already")
        broker.token = broker.won
        broker.starts = True
        self.zookeeper.take_events(broker.session)
        self._give(b, Elected(broker.won))
        broker.starts = False
        self.end_leases()

    def lose_session(self, b: int) -> None:
        """Its session is over; it does not know."""
        self._expect(self.seat == b, "it has no session that owns the leader's node")
        self.brokers[b].won = 0
        self.seat = None

    def doubt(self, b: int) -> None:
        """It is not sure that its session lives, and steps down."""
        self._expect(self.brokers[b].leads and self.seat == b, "it has nothing to doubt")
        self._give(b, Deposed(self.brokers[b].token))

    def step_down(self, b: int) -> None:
        """It hears that it coordinates no more."""
        self._expect(self.brokers[b].leads and self.seat != b, "it need not step down")
        self.brokers[b].won = 0
        self._give(b, Deposed(self.brokers[b].token))

    def restart(self, b: int) -> None:
        """Its process is killed and starts anew."""
        old = self.brokers[b]
        for connection in [*old.connections.values()]:
            connection.break_off()
        self.zookeeper.lose_connection(old.session)
        self.brokers[b] = Broker(self._core(b), self.zookeeper.open(), old.channels)
        if self.seat == b:
            self.seat = None
        self.end_leases()

    # ── Consumers and topics come and go ────────────────────────────────────────────────────

    def register(self, m: int, b: int, wanted: Collection[int]) -> None:
        """A member, of a subscription to these partitions' topics, connects and registers."""
        member, broker = self.members[m], self.brokers[b]
        self._expect(member.connection is None, "it is connected")
        core = member.core
        topics = sorted([NOWHERE, *map(topic_of, wanted)])
        core.topic_count = "{" + ", ".join(f'"{topic}": 1' for topic in topics) + "}"
        core.consumption.subscription = subscription.parse(core.topic_count)
        core.consumption.rebuild_threads(topics)
        if core.phase is ConsumerPhase.IDLE:
            self._tell(m, Subscribe())
        else:
            assert core._deadline_ms is not None, "it waits before it consults again"
            member.now_ms = max(member.now_ms, core._deadline_ms)
            self._tell(m, Tick())
        self._tell(m, Connected(core.channels))
        brokers = (BrokerInfo(f"broker{b}:1", b, f"broker{b}", 1),)
        answer = Frame(ConsultResponse(ErrorCode.NONE, b, brokers), correlation_id=1)
        self._tell(m, Received(core.channels, answer))
        member.life += 1
        broker.channels += 1
        connection = Connection(m, member.life, b, core.channels, broker.channels)
        member.connection = broker.connections[broker.channels] = connection
        self._give(b, Opened(broker.channels))
        self._tell(m, Connected(core.channels))
        self.end_leases()

    def handle_register(self, m: int, b: int) -> None:
        """A broker takes a Register."""
        self._hear(m, b, Register)
        broker = self.brokers[b]
        while broker.core.membership.admission.applicants and broker.writes:
            self._write(b)  # a subscription is written after them
        self._request_for_nothing(b)
        for registration, member in broker.group.members.items() if broker.group else ():
            connection = broker.connections[member.channel]
            self.registered[registration] = connection.member, connection.life

    def _request_for_nothing(self, b: int) -> None:
        """
        A first member came, for whom there is nothing to consume: have it rebalanced all the same.

        The core waits until there is (3.2 of `002`), where the spec rebalances.
        """
        core, group = self.brokers[b].core, self.brokers[b].group
        if group is None or group.generation or len(group.members) != 1:
            return
        [registration] = group.members
        if registration not in self.registered and not core.rebalancer.plan(group):
            self._let(b, partial(core.rebalancer.request, group))

    def on_lost_connection(self, m: int) -> None:
        """A member learns that its connection is closed."""
        connection = self.members[m].connection
        self._expect(connection is not None and not connection.stands, "its connection stands")
        assert connection is not None
        self._tell(m, Closed(connection.near))
        self.members[m].connection = None
        self.end_leases()

    def time_out(self, m: int) -> None:
        """A member hears nothing until its lease is over."""
        member = self.members[m]
        connector = member.core.connector
        self._expect(self._stands(m) is not None and connector is not None, "it is not connected")
        assert connector is not None
        member.now_ms = max(member.now_ms, connector.lease_ends_ms)
        self._tell(m, Tick())
        if member.core.connector is None:
            member.connection = None
        self.end_leases()

    def cut(self, m: int) -> None:
        """A member's connection breaks, and neither side knows."""
        connection = self._stands(m)
        self._expect(connection is not None, "it has no connection")
        assert connection is not None
        self._break(connection)
        self.end_leases()

    def handle_closed(self, m: int, b: int) -> None:
        """A broker learns that a member's connection is closed."""
        connection = self._booked(m, b)
        self._expect(connection is not None and not connection.stands, "its connection stands")
        assert connection is not None
        self._give(b, Closed(connection.far))
        self.end_leases()

    def fail(self, m: int, b: int) -> None:
        """A request to a member, and all of its copies, were not answered in time."""
        connection = self._booked(m, b)
        self._expect(connection is not None and connection.stands, "its connection is closed")
        assert connection is not None
        server = self.brokers[b].core.socket_server
        self._expect(server.channels[connection.far].is_busy(), "nothing is asked of it")
        while connection.far in server.channels:
            self._due(b, ("request", connection.far))
        self.end_leases()

    def appear(self, p: int) -> None:
        """A topic appears, with its partition; its offset is stored from the beginning."""
        self._expect(not self.exists(p), "it is there")
        self._make(self.paths.offset(GROUP, topic_of(p), "0"), b"0")
        self._make(self.paths.topic(topic_of(p)), b'{"partitions": {"0": [1]}}')

    def topic_change_listener(self, b: int, p: int) -> None:
        """A broker hears of a topic that is new, and reads it."""
        broker, path = self.brokers[b], self.paths.topic(topic_of(p))
        for watched in self.zookeeper.take_events(broker.session):
            self._give(b, Fired(watched))
        ask = broker.reads.pop(path, None)
        self._expect(ask is not None, "no watch has fired for it")
        assert ask is not None
        self._answer(b, ask)

    # ── The rebalance ───────────────────────────────────────────────────────────────────────

    def why_necessary(self, b: int) -> str | None:
        """Why a broker would rebalance its group now; None where it would not."""
        core, group = self.brokers[b].core, self.brokers[b].group
        if group is None or not group.members:
            return None
        return core.rebalancer._why_necessary(group, core.rebalancer.plan(group))

    def has_failed(self, b: int) -> bool:
        """Whether a rebalance has failed, and is tried again after a while."""
        return ("rebalance", GROUP) in self.brokers[b].core.purgatory.watchers

    def begin_rebalance(self, b: int) -> None:
        """A handler takes the group; who was expected back is so no longer."""
        broker = self.brokers[b]
        if ("grace", GROUP) in broker.core.purgatory.watchers:
            self._due(b, ("grace", GROUP))
        self._handle(b)

    def send(self, m: int, b: int, kind: type[Ping | Stop | Start]) -> None:
        """The request that waits for a member is sent."""
        connection = self._booked(m, b)
        self._expect(connection is not None, "it is not in its books")
        assert connection is not None
        broker = self.brokers[b]
        channel = broker.core.socket_server.channels[connection.far]
        self._expect(channel.outstanding is None, "another request is outstanding")
        queue = channel.queue
        self._expect(bool(queue) and isinstance(queue[0].request, kind), "none waits for it")
        broker.gates.sends = connection.far
        self._let(b, partial(broker.gates.send_next, channel))
        broker.gates.sends = None

    def send_ping(self, m: int, b: int) -> None:
        """It is time to ask a member whether it lives."""
        connection = self._booked(m, b)
        self._expect(connection is not None, "it is not in its books")
        assert connection is not None
        broker = self.brokers[b]
        channel = broker.core.socket_server.channels[connection.far]
        self._expect(not channel.is_busy() and not channel.queue, "a request is outstanding")
        scheduler = broker.core.ping_scheduler
        later = [entry for entry in scheduler.queue if entry[1] != connection.far]
        scheduler.queue = [(0, connection.far)]
        broker.gates.sends = connection.far
        self._give(b, Tick())
        broker.gates.sends = None
        scheduler.queue = sorted([*scheduler.queue, *later])

    def pass_barrier(self, b: int) -> None:
        """A rebalance goes on, if nobody fetches, or if everybody has started."""
        broker = self.brokers[b]
        group = broker.group
        self._expect(group is not None, "nobody is in the group")
        assert group is not None
        gates, phase = broker.gates, group.phase
        check = gates.check_stopped if phase is Phase.STOPPING else gates.check_started
        gates.passes = True
        self._let(b, partial(check, group))
        gates.passes = False

    def flush_offsets(self, b: int) -> None:
        """The offsets that were told are written."""
        broker = self.brokers[b]
        while broker.writes or ("flush", 0) in broker.core.purgatory.watchers:
            if broker.writes:
                self._write(b)
            else:
                self._due(b, ("flush", 0))

    def fail_rebalance(self, b: int) -> None:
        """
        A rebalance fails: before its owners are written, by a connection to ZooKeeper that is lost.

        While Starts are out it fails as it does where another member is lost.
        """
        broker, group = self.brokers[b], self.brokers[b].group
        self._expect(group is not None and bool(group.members), "nobody is in the group")
        assert group is not None
        if group.phase is Phase.STARTING:
            self._let(b, partial(broker.core.rebalancer.fail, group, "another was lost"))
            return
        may = group.phase is Phase.STOPPING and not group.waiting and not group.ghosts
        self._expect(may, "its writes are not due")
        self.loses = True
        self.pass_barrier(b)
        while broker.writes:
            self._write(b)
        self.loses = False
        if not group.loaded:  # it may register others then, as it may before
            self._let(b, partial(broker.core.membership.recovery.load, group))

    def requeue(self, b: int) -> None:
        """The back-off of a rebalance that failed is over."""
        self._expect(self.has_failed(b), "no rebalance has failed")
        self._due(b, ("rebalance", GROUP))

    # ── What is heard ───────────────────────────────────────────────────────────────────────

    def handle_request(self, m: int, kind: type[Ping | Stop | Start]) -> None:
        """A member takes the next request, and the answers before it."""
        connection = self._stands(m)
        self._expect(connection is not None, "it has no connection")
        assert connection is not None
        shown = [f for f in connection.down if not isinstance(f.message, HIDDEN)]
        self._expect(bool(shown) and isinstance(shown[0].message, kind), "no such request came")
        while True:
            frame = connection.down.popleft()
            self._tell(m, Received(connection.near, frame))
            if frame is shown[0]:
                return

    def handle_response(
        self, m: int, b: int, kind: type[PingResponse | StopResponse | StartResponse | Commit]
    ) -> None:
        """A broker takes the next answer, or commit, of a member."""
        self._expect(self._booked(m, b) is not None, "it is not in its books")
        self._hear(m, b, kind)

    # ── Records and offsets ─────────────────────────────────────────────────────────────────

    def produce(self, p: int) -> None:
        """A record is appended."""
        self.ends[p] += 1

    def consume(self, m: int, p: int) -> None:
        """The application of a member finishes with its next record."""
        member = self.members[m]
        self._expect(member.is_fetching(p), "it does not fetch it")
        then = member.position(p) + 1
        self._expect(then <= self.ends[p], "there is no record")
        generation = member.core.consumption.generation
        self._tell(m, Consumed(Offset(topic_of(p), "0", then), generation))
        self.finished[p] = max(self.finished[p], then)

    def commit(self, m: int) -> None:
        """The user of a member commits what it has consumed."""
        member = self.members[m]
        self._expect(any(map(member.is_fetching, self.partitions)), "it fetches nothing")
        member.commits += 1
        self._tell(m, CommitAsked(member.commits))

    # ── What it looks like ──────────────────────────────────────────────────────────────────

    def exists(self, p: int) -> bool:
        """Whether a partition is there."""
        return self.paths.topic(topic_of(p)) in self.zookeeper.snapshot().nodes

    def data(self, path: str) -> bytes | None:
        """The data of a node; None where none stands."""
        node = self.zookeeper.snapshot().nodes.get(path)
        return None if node is None else node.data

    def booked(self, b: int) -> Iterator[tuple[Connection, Channel]]:
        """The connections of a broker's members, and what it knows of each."""
        broker = self.brokers[b]
        for member in broker.group.members.values() if broker.group else ():
            channel = broker.core.socket_server.channels[member.channel]
            yield broker.connections[member.channel], channel

    def snapshot(self) -> bytes:
        """All of the world."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)

    # ── Inside: ZooKeeper ───────────────────────────────────────────────────────────────────

    def _prepare(self) -> None:
        """What an operator makes, and what is kept of a group that was there before."""
        paths = self.paths
        known = (paths.group(GROUP), paths.offsets(GROUP), paths.topics, paths.election.epoch)
        for path in known:
            self._make(path)

    def _make(self, path: str, data: bytes = b"") -> None:
        """Make a node, and what is missing above it."""
        for above in [*lineage(path)][:0:-1]:
            self._operate(Create(above))
        self._operate(Create(path, data))

    def _operate(self, operation: Operation) -> None:
        self.zookeeper.perform(self._operator, operation)

    def _core(self, b: int) -> Coordinator:
        return self.coordinator(b, _SETTINGS, self.paths)

    def _answer(self, b: int, ask: Ask) -> None:
        """ZooKeeper does what a broker asks, and tells it."""
        broker = self.brokers[b]
        self._give(b, Answered(ask.number, self._perform(broker, ask.operation)))

    def _perform(self, broker: Broker, operation: Operation) -> Answer:
        if self.loses and isinstance(operation, Multi):
            return Refusal(Why.CONNECTION_LOSS)
        return self.zookeeper.perform(broker.session, operation)

    def _write(self, b: int) -> None:
        self._answer(b, self.brokers[b].writes.popleft())

    # ── Inside: coordinators ────────────────────────────────────────────────────────────────

    def _give(self, b: int, event: CoordinatorEvent) -> None:
        """Give a core an event, and what that leads to at once."""
        broker = self.brokers[b]
        steps: dict[int, str] = {}
        todo: deque[CoordinatorEvent] = deque([event])
        while todo:
            for effect in broker.core.receive(todo.popleft(), 0):
                match effect:
                    case Step(action=action, number=number) if number:
                        steps[number] = action
                    case Ask(number, operation):
                        if steps.get(number) == "flush_offsets":
                            broker.writes.append(effect)
                        elif self._is_awaited(broker, operation):
                            broker.reads[operation.path] = effect  # type: ignore[union-attr]
                        else:
                            todo.append(Answered(number, self._perform(broker, operation)))
                    case Send(channel, frame):
                        self._send(broker, channel, frame)
                    case Close(channel):
                        broker.connections.pop(channel).break_off()
                    case StepDown() if self.seat != b:
                        broker.won = 0
                    case _:
                        pass  # time stands still; whoever wants to know looks
        if not broker.leads:
            broker.writes.clear()
            broker.reads.clear()
        if isinstance(event, Closed):
            broker.connections.pop(event.channel, None)

    def _is_awaited(self, broker: Broker, operation: Operation) -> bool:
        """Whether this reads a topic of which the broker is told later."""
        above = f"{self.paths.topics}/"
        is_topic = isinstance(operation, Get) and operation.path.startswith(above)
        return is_topic and not broker.starts

    def _send(self, broker: Broker, channel: int, frame: Frame) -> None:
        connection = broker.connections[channel]
        if connection.stands:
            connection.down.append(frame)
            if isinstance(frame.message, Start):
                connection.start = frame.message

    def _let(self, b: int, happen: Callable[[], None]) -> None:
        """Have a core do within an event what it would do by itself."""
        self.brokers[b].core.purgatory.watch(("gate", 0), -1, happen)
        self._give(b, Tick())

    def _due(self, b: int, key: tuple[str, int | str]) -> None:
        """A core's watcher is due."""
        _, happen = self.brokers[b].core.purgatory.watchers.pop(key)
        self._let(b, happen)

    def end_leases(self) -> None:
        """Whoever is gone and fetches no more has no lease."""
        for b, broker in enumerate(self.brokers):
            group = broker.group
            for registration in [*group.ghosts] if group else ():
                member, life = self.registered[registration]
                if life < self.members[member].life or self._is_gone(member):
                    assert group is not None, "it has ghosts"
                    was_waiting = group.phase is Phase.WAITING and not group.members
                    self._due(b, ("lease", f"{GROUP} {registration}"))
                    if was_waiting:
                        self._handle(b)  # to see that nobody is there

    def _handle(self, b: int) -> None:
        """A broker's handlers work on their queues."""
        self.brokers[b].gates.handles = True
        self._give(b, Tick())
        self.brokers[b].gates.handles = False

    def _is_gone(self, m: int) -> bool:
        fetches = any(map(self.members[m].is_fetching, self.partitions))
        return self._stands(m) is None and not fetches

    # ── Inside: consumers and connections ───────────────────────────────────────────────────

    def _tell(self, m: int, event: ConsumerEvent) -> None:
        """Give a consumer's core an event, and carry its effects out."""
        member = self.members[m]
        for effect in member.core.receive(event, member.now_ms):
            connection = member.connection
            if isinstance(effect, Connect) or connection is None or not connection.stands:
                continue
            match effect:
                case Send(channel, frame) if channel == connection.near:
                    connection.up.append(frame)
                    if isinstance(frame.message, PingResponse | StopResponse | Commit):
                        connection.reported = frame.message.offsets or ()
                case Close(channel) if channel == connection.near:
                    self._break(connection)
                    member.connection = None

    def _break(self, connection: Connection) -> None:
        """A connection breaks; a broker that has nobody in its books over it does not mind."""
        connection.break_off()
        core = self.brokers[connection.broker].core
        channel = core.socket_server.channels.get(connection.far)
        if channel is not None and channel.member is None:
            self._give(connection.broker, Closed(connection.far))

    def _stands(self, m: int) -> Connection | None:
        connection = self.members[m].connection
        return connection if connection is not None and connection.stands else None

    def _booked(self, m: int, b: int) -> Connection | None:
        """The connection over which a broker has a member in its books."""
        return next((c for c, _ in self.booked(b) if c.member == m), None)

    def _hear(self, m: int, b: int, kind: type[Any]) -> None:
        """A broker takes the next frame of a member."""
        connection = self._stands(m)
        self._expect(connection is not None and connection.broker == b, "it is not connected there")
        assert connection is not None
        up = connection.up
        self._expect(bool(up) and isinstance(up[0].message, kind), "no such frame came")
        self._give(b, Received(connection.far, up.popleft()))
        self.end_leases()

    @staticmethod
    def _expect(is_so: bool, why: str) -> None:
        if not is_so:
            raise Impossible(f"this cannot happen now: {why}")


__all__ = ["GROUP", "Broker", "Connection", "GatedCentral", "Member", "topic_of"]
