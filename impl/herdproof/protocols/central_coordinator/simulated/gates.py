"""Parts of the gated world of system B: cores behind their gates, and connections."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from herdproof.consuming.assignment import Partition
from herdproof.protocols.central_coordinator.client.consumer import ConsumerCore
from herdproof.protocols.central_coordinator.client.server_cluster import Address
from herdproof.protocols.central_coordinator.client.settings import ConsumerSettings
from herdproof.protocols.central_coordinator.coordinator.coordinator import Coordinator
from herdproof.protocols.central_coordinator.coordinator.groups import Group, Phase
from herdproof.protocols.central_coordinator.coordinator.socket_server import Channel
from herdproof.protocols.central_coordinator.events import (
    Answered,
    Ask,
    Close,
    Closed,
    ConsumerEvent,
    CoordinatorEvent,
    Received,
    Send,
    StepDown,
    Tick,
)
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.wire.messages import (
    Frame,
    Ping,
    Start,
)
from herdproof.protocols.election.gated import Impossible
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.names import lineage
from herdproof.zookeeper.operations import (
    Answer,
    Check,
    Create,
    Done,
    Get,
    Multi,
    Operation,
    Refusal,
    Why,
)

GROUP = "g"
NOWHERE = "nowhere"
"""A topic that never exists: so that one may be interested in nothing that does."""
_SETTINGS = Settings(failover_grace_ms=1, zookeeper_retries=0)


def topic_of(p: int) -> str:
    """The topic whose only partition this is."""
    return f"t{p}"


class Gates:
    """Gates at which a coordinator's core waits: handlers' queues, barriers, unsent requests."""

    def __init__(self, core: Coordinator) -> None:
        self.core = core
        self.handles = False
        self.passes = False
        self.sends: int | None = None
        """The channel whose next request may be sent."""
        self.uneven = False
        """True if shares are taken for uneven, whatever they are."""
        self.planned: dict[Partition, str] | None = None
        """Who is to get what, by registration, whatever the core would plan."""
        self.new: Group | None = None
        """A new group for which nothing was planned; nobody has looked yet if that is so."""
        vars(core.membership)["handle_new_group"] = self.handle_new_group
        rebalancer, server = vars(core.rebalancer), vars(core.socket_server)
        rebalancer["run"] = self.run
        rebalancer["plan"] = self.plan
        rebalancer["_why_necessary"] = self.why_necessary
        rebalancer["_check_stopped"] = self.check_stopped
        rebalancer["_check_started"] = self.check_started
        server["_send_next"] = self.send_next
        vars(core.ping_scheduler)["ping"] = self.ping

    def run(self) -> None:
        """The handlers work on their queues, if they may."""
        if self.handles:
            type(self.core.rebalancer).run(self.core.rebalancer)

    def handle_new_group(self, group: Group) -> None:
        """A group is seen for the first time: a handler looks if there is anything to consume."""
        if self.handles or self.core.rebalancer.plan(group):
            type(self.core.membership).handle_new_group(self.core.membership, group)
        else:
            self.new = group

    def look_at_new(self) -> None:
        """Look at the new group, if anybody is in it still, and no rebalance of it runs."""
        group = self.new
        if group is not None and group.phase in (Phase.IDLE, Phase.QUEUED, Phase.WAITING):
            self.new = None
            if group.members:
                look = self.core.rebalancer.request if self.uneven else self.handle_new_group
                look(group)

    def why_necessary(self, group: Group, plan: dict[Partition, str]) -> str | None:
        """Why a rebalance is necessary: as the core sees it, or for shares that are uneven."""
        if self.uneven:
            return "shares are uneven"
        return type(self.core.rebalancer)._why_necessary(self.core.rebalancer, group, plan)

    def plan(self, group: Group) -> dict[Partition, str]:
        """Who is to get what: as the core plans it, unless a plan is given."""
        if self.planned is not None:
            return self.planned
        return type(self.core.rebalancer).plan(self.core.rebalancer, group)

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

    def ping(self, number: int) -> bool:
        """A member is pinged, if it may be: nobody is because it has just resumed."""
        scheduler = self.core.ping_scheduler
        return number == self.sends and type(scheduler).ping(scheduler, number)


class GatedConnection:
    """A connection of one life of a member to a broker, and what is on its way over it."""

    def __init__(self, member: int, life: int, broker: int, near: int, far: int) -> None:
        self.member, self.life, self.broker = member, life, broker
        self.near, self.far = near, far
        """Its numbers, at the consumer and at the coordinator."""
        self.stands = True
        """Once it is broken, nothing new is carried; each end still reads what was sent to it."""
        self.up: deque[Frame] = deque()
        self.down: deque[Frame] = deque()
        self.start: Start | None = None
        """The last Start that was sent."""
        self.lags = False
        """Its last frame was sent before its sender heard that a write was done."""

    def close_near(self) -> None:
        """The consumer's end is closed: it reads nothing more."""
        self.stands, self.start = False, None
        self.down.clear()

    def close_far(self) -> None:
        """The coordinator's end is closed: it reads nothing more."""
        self.stands = False
        self.up.clear()


@dataclass
class Request:
    """A write that a broker has sent to ZooKeeper, and what came of it (None: nothing yet)."""

    ask: Ask
    step: CoordinationStep
    answer: Answer | None = None

    @property
    def is_done(self) -> bool:
        """True if ZooKeeper did it, and its sender does not know yet."""
        return isinstance(self.answer, Done)


class GatedBroker:
    """One broker: its core, its session, and what waits for it."""

    def __init__(self, core: Coordinator, session: int, channels: int = 0) -> None:
        self.core = core
        self.gates = Gates(core)
        self.session = session
        self.channels = channels
        self.token = 0
        """The epoch that it took up last."""
        self.won = 0
        self.connections: dict[int, GatedConnection] = {}
        self.request: Request | None = None
        """Its write that is under way, if that is a step of the protocol."""
        self.reads: dict[str, Ask] = {}
        """Topics that are to be read, by path."""
        self.answers: deque[tuple[int, Any]] = deque()
        self.busy = False
        self.starts = False
        self.outwaited = False
        """A lease that its queued group has waited for is over; until a rebalance begins."""
        self.is_deposed = False
        """True if it was told that it leads no more, whatever its core made of that."""

    @property
    def coordinates(self) -> bool:
        """True if it goes on as a coordinator."""
        return self.core.epoch is not None

    @property
    def leads(self) -> bool:
        """True if it believes that it coordinates, and was not told otherwise."""
        return self.coordinates and not self.is_deposed

    @property
    def group(self) -> Group | None:
        """The group as it knows it."""
        return self.core.groups.get(GROUP)


class GatedMember:
    """One member: its core, its connection, and how often it registered."""

    def __init__(self, core: ConsumerCore) -> None:
        self.core = core
        self.connection: GatedConnection | None = None
        self.life = 0
        self.now_ms = 0
        self.commits = 0

    def is_fetching(self, p: int) -> bool:
        """True if it fetches a partition."""
        consumption = self.core.consumption
        return not consumption.fetcher_stopped and consumption.find(topic_of(p), "0") is not None

    def position(self, p: int) -> int:
        """The first record of a partition that it has not consumed; 0 where it fetches nothing."""
        info = self.core.consumption.find(topic_of(p), "0")
        return info.consumed_offset if info is not None and self.is_fetching(p) else 0


class CentralParts:
    """The parts of the world, and what they do to each other at once."""

    consumers: ClassVar[ConsumerSettings] = ConsumerSettings(brings=False)
    """Members of the verified spec, and of those that resume: neither brings any offset."""

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
        self.epoch = 0
        self.seat: int | None = None
        self.elected: int | None = None
        self.registered: dict[str, tuple[int, int]] = {}
        """Of each registration, the member and its life."""
        self.brokers = [GatedBroker(self._core(b), self.zookeeper.open()) for b in range(brokers)]
        known = tuple(Address(f"broker{b}", 1) for b in range(brokers))
        self.members = [
            GatedMember(consumer(GROUP, name, f'{{"{NOWHERE}": 1}}', self.consumers, known, m))
            for m, name in enumerate(map(self.consumer_id, range(members)))
        ]
        for p in there:
            self.appear(p)

    def consumer_id(self, process: int) -> str:
        """The id that a consumer's process goes by."""
        return f"c{process}"

    def appear(self, p: int) -> None:
        """A topic appears, with its partition; its offset is stored from the beginning."""
        self._expect(not self.exists(p), "it is there")
        self.make(self.paths.offset(GROUP, topic_of(p), "0"), b"0")
        self.make(self.paths.topic(topic_of(p)), b'{"partitions": {"0": [1]}}')

    def exists(self, p: int) -> bool:
        """True if a partition is there."""
        return self.paths.topic(topic_of(p)) in self.zookeeper.snapshot().nodes

    def booked(self, b: int) -> Iterator[tuple[GatedConnection, Channel]]:
        """The connections of a broker's members, and what it knows of each."""
        broker = self.brokers[b]
        for member in broker.group.members.values() if broker.group else ():
            channel = broker.core.socket_server.channels[member.channel]
            yield broker.connections[member.channel], channel

    # ── Inside: ZooKeeper ───────────────────────────────────────────────────────────────────

    def _prepare(self) -> None:
        """Make what an operator makes, and what is kept of a group that was there before."""
        paths = self.paths
        known = (paths.group(GROUP), paths.offsets(GROUP), paths.topics, paths.election.epoch)
        for path in known:
            self.make(path)

    def make(self, path: str, data: bytes = b"") -> None:
        """Make a node, and what is missing above it."""
        for above in [*lineage(path)][:0:-1]:
            self.operate(Create(above))
        self.operate(Create(path, data))

    def operate(self, operation: Operation) -> None:
        """An operator does something in ZooKeeper."""
        self.zookeeper.perform(self._operator, operation)

    def _core(self, b: int) -> Coordinator:
        return self.coordinator(b, _SETTINGS, self.paths)

    def _answer(self, b: int, ask: Ask) -> None:
        """ZooKeeper does what a broker asks, and tells it."""
        broker = self.brokers[b]
        self._give(b, Answered(ask.number, self._perform(broker, ask.operation)))

    def _perform(self, broker: GatedBroker, operation: Operation) -> Answer:
        return self.zookeeper.perform(broker.session, operation)

    def _request(self, b: int, action: str = "") -> Request:
        """A broker's write that is under way; `action`: it is this step, and not served yet."""
        request = self.brokers[b].request
        self._expect(request is not None, "no write is under way")
        assert request is not None
        if action:
            is_sent = request.answer is None and request.step.action == action
            self._expect(is_sent, "no such write is on its way")
        return request

    def _is_fenced_off(self, b: int, request: Request) -> bool:
        """True if a write checks the epoch, and its broker's is over."""
        operation = request.ask.operation
        writes = operation.operations if isinstance(operation, Multi) else ()
        checks = any(isinstance(write, Check) for write in writes)
        return checks and self.brokers[b].token != self.epoch

    def _hears(self, b: int, answer: Answer) -> None:
        """A broker hears what came of its write."""
        request = self._request(b)
        self.brokers[b].request = None
        self._give(b, Answered(request.ask.number, answer))

    def _lose(self, b: int) -> None:
        """A broker hears no more of its write than that its link broke."""
        self._hears(b, Refusal(Why.CONNECTION_LOSS))

    # ── Inside: coordinators ────────────────────────────────────────────────────────────────

    def _give(self, b: int, event: CoordinatorEvent) -> None:
        """Give a core an event, and what that leads to at once."""
        broker = self.brokers[b]
        steps: dict[int, CoordinationStep] = {}
        todo: deque[CoordinatorEvent] = deque([event])
        while todo:
            for effect in broker.core.receive(todo.popleft(), 0):
                match effect:
                    case CoordinationStep(number=number) if number:
                        steps[number] = effect
                    case Ask(number, operation):
                        if number in steps and not self._is_stored(steps[number]):
                            assert broker.request is None, "a store writes one after the other"
                            broker.request = Request(effect, steps[number])
                        elif self._is_awaited(broker, operation):
                            broker.reads[operation.path] = effect  # type: ignore[union-attr]
                        else:
                            todo.append(Answered(number, self._perform(broker, operation)))
                    case Send(channel, frame):
                        self._send(broker, channel, frame)
                    case Close(channel):
                        broker.connections.pop(channel).close_far()
                    case StepDown() if self.seat != b:
                        broker.won = 0
                    case _:
                        pass  # time stands still; whoever wants to know looks
        if not broker.coordinates:
            broker.request = None
            broker.reads.clear()
        if isinstance(event, Closed) and event.channel in broker.connections:
            broker.connections.pop(event.channel).close_far()

    def _is_stored(self, step: CoordinationStep) -> bool:
        """True if this writes offsets once more that are stored, as its answer was lost."""
        nodes = self.zookeeper.snapshot().nodes
        return step.action == "flush_offsets" and all(
            int(nodes[self.paths.offset(GROUP, o.topic, o.partition)].data) >= o.offset
            for o in step.partitions
        )

    def _is_awaited(self, broker: GatedBroker, operation: Operation) -> bool:
        """True if this reads a topic of which the broker is told later."""
        above = f"{self.paths.topics}/"
        is_topic = isinstance(operation, Get) and operation.path.startswith(above)
        return is_topic and not broker.starts

    def _send(self, broker: GatedBroker, channel: int, frame: Frame) -> None:
        connection = broker.connections[channel]
        is_copy = isinstance(frame.message, Ping) and frame.message.num_retries > 0
        if connection.stands and not is_copy:
            connection.down.append(frame)
            request = broker.request
            connection.lags = request is not None and request.is_done
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
                    self.end_lease(b, registration)

    def end_lease(self, b: int, registration: str) -> None:
        """A broker has waited for long enough for a registration that is gone."""
        group = self.brokers[b].group
        assert group is not None, "it has ghosts"
        was_waiting = group.phase is Phase.WAITING and not group.members
        if group.phase in (Phase.QUEUED, Phase.WAITING):
            self.brokers[b].outwaited = True
        self._due(b, ("lease", f"{GROUP} {registration}"))
        if was_waiting:
            self._handle(b)  # to see that nobody is there

    def _handle(self, b: int) -> None:
        """A broker's handlers work on their queues."""
        gates = self.brokers[b].gates
        gates.handles = True
        self._let(b, gates.look_at_new)
        gates.handles = False

    def _is_gone(self, m: int) -> bool:
        """True if a member has let go, or fetches no more and gets no Start: its lease is over."""
        member = self.members[m]
        connection = member.connection
        if connection is None:
            return True
        starts = any(isinstance(frame.message, Start) for frame in connection.down)
        fetches = any(map(member.is_fetching, self.partitions))
        asks = member.core.consumption.generation > 0 and not self._booked(m, connection.broker)
        return not ((connection.stands and not asks) or starts or fetches)

    # ── Inside: consumers and connections ───────────────────────────────────────────────────

    def _tell(self, m: int, event: ConsumerEvent) -> None:
        """Give a consumer's core an event, and carry its effects out."""
        member = self.members[m]
        for effect in member.core.receive(event, member.now_ms):
            connection = member.connection
            match effect:
                case Send(channel, frame) if connection and channel == connection.near:
                    if connection.stands:
                        connection.up.append(frame)
                case Close(channel) if connection and channel == connection.near:
                    self._hang_up(member)

    def _hang_up(self, member: GatedMember) -> None:
        """A member closes its end; a broker that has nobody in its books over it learns at once."""
        connection, member.connection = member.connection, None
        assert connection is not None, "it has one"
        connection.close_near()
        core = self.brokers[connection.broker].core
        channel = core.socket_server.channels.get(connection.far)
        if channel is not None and channel.member is None:
            self._give(connection.broker, Closed(connection.far))

    def _stands(self, m: int) -> GatedConnection | None:
        connection = self.members[m].connection
        return connection if connection is not None and connection.stands else None

    def connection(self, m: int) -> GatedConnection | None:
        """A member's connection, as long as it reads it, or a broker that has it in its books."""
        known = (c for b in range(len(self.brokers)) for c, _ in self.booked(b) if c.member == m)
        return self.members[m].connection or next(known, None)

    def _booked(self, m: int, b: int) -> GatedConnection | None:
        """The connection over which a broker has a member in its books."""
        return next((c for c, _ in self.booked(b) if c.member == m), None)

    def _hear(self, m: int, b: int, kind: type[Any]) -> None:
        """A broker takes the next frame of a member."""
        connection = self.connection(m)
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
