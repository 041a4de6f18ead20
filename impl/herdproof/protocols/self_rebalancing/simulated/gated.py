"""
Consumers of system A, of which a test decides what comes when: cores behind gates, sessions.

A step of a rebalance waits until the test lets it go; then ZooKeeper, simulated, does all that the
core asks, but for claims, each of which waits for the test as well. Who is cut off is paused, and
hears nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partialmethod

from herdproof.conformance.adapter import Refused
from herdproof.conformance.gates import GatedProcess, StepGates
from herdproof.consuming import events
from herdproof.consuming.events import Answered, Ask, Fired
from herdproof.consuming.offsets import Offset
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.core.events import (
    ConnectorEffect,
    ConnectorEvent,
    EndSession,
    LinkTold,
)
from herdproof.protocols.self_rebalancing.core.phases import RebalancePhase
from herdproof.protocols.self_rebalancing.registries import paths
from herdproof.protocols.self_rebalancing.registries.registrations import ConsumerRegistration
from herdproof.protocols.self_rebalancing.reports import What
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings
from herdproof.protocols.self_rebalancing.steps import ConnectorStep
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import Create, Link, Multi, Operation, Refusal, Why

DIRS = paths.GroupDirs("g")
PHASES = {
    "commit_offsets": "COMMITTING", "release": "RELEASING", "read_topics": "TOPICS",
    "read_ids": "IDS", "start_fetchers": "STARTING",
}  # fmt: skip
"""The phase while a step waits at its gate, if it is not the core's."""
STEPS = (*PHASES, "read_offsets")
"""The steps of a rebalance that wait at a gate."""


def named(p: int) -> tuple[str, str]:
    """A partition's topic, and its number in that."""
    return f"t{p}", "0"


def owner(p: int) -> str:
    """The path of a partition's owner node."""
    return DIRS.owner(named(p))


def claimed(operation: Operation) -> str:
    """The owner node that an operation claims; empty if it claims none."""
    first = operation.operations[0] if isinstance(operation, Multi) else None
    return first.path if isinstance(first, Create) else ""


class GatedConsumer(GatedProcess[ConsumerConnector]):
    """A consumer's process, and its session."""

    is_dead = is_cut = holds = refuses = False
    """Killed; cut off; ZooKeeper does nothing of what it asks, or refuses all."""
    was_amid = is_blind = is_unlike = False
    """Its connection was lost amid an attempt; or its watches; its reasons are not the spec's."""
    losses = commits = session = 0

    def __init__(self, zookeeper: ZooKeeper, core: ConsumerConnector) -> None:
        super().__init__(core, core.rebalances, STEPS, polled=["synced_rebalance"])
        self.zookeeper, self.rebalances = zookeeper, core.rebalances
        self.later = StepGates(core.rebalances.read, (), polled=["renew_watches"])
        """The steps of readers that watch too late."""
        self.asks: list[Ask] = []
        """Operations asked for, and not done."""
        self.late: dict[str, Answered] = {}
        """Answers that have not come, by the owner node that was claimed."""
        self.fetched: dict[tuple[str, str], int] = {}
        self.give(events.Subscribe())
        self.begin_session()

    def begin_session(self) -> None:
        """Begin a new session, and tell the core."""
        self.session = self.zookeeper.open()
        self.was_amid = self.is_blind = self.is_unlike = False
        self.connect()

    def connect(self) -> None:
        """Tell the core that it is connected."""
        self.is_cut = False
        timeout_ms = self.core.context.settings.zookeeper_session_timeout_ms
        self.give(LinkTold(Link.CONNECTED, self.session, timeout_ms))

    def lose(self, link: Link) -> None:
        """Tell the core that its connection, or its session, is lost; so is what it has asked."""
        self.asks, self.late, self.gates.waits, self.is_blind = [], {}, "", True
        self.zookeeper.lose_connection(self.session)
        self.zookeeper.take_events(self.session)
        self.give(LinkTold(link, self.session, 0))

    def perform(self, effect: ConnectorEffect) -> Iterator[ConnectorEvent]:
        """Do what the core asks of ZooKeeper, unless it has to wait."""
        match effect:
            case Ask(_, operation) if self._waits(operation):
                self.asks.append(effect)
            case Ask():
                yield from self._done(effect)
            case events.StartFetchers(starts):
                self.fetched = {(o.topic, o.partition): o.offset for o in starts}
            case events.StopFetchers():
                self.fetched = {}
            case ConnectorStep(action="start_fetchers"):
                self.losses = 0
            case events.Report(What.COMMIT_REFUSED):
                self.is_unlike = True
            case EndSession():
                self.zookeeper.close(self.session)

    def _waits(self, operation: Operation) -> bool:
        is_claiming = self.rebalances.phase is RebalancePhase.CLAIMING
        return self.is_cut or self.holds or (is_claiming and bool(claimed(operation)))

    def _done(self, ask: Ask) -> Iterator[ConnectorEvent]:
        """Have ZooKeeper do what was asked; yields what it sends."""
        if self.refuses:
            yield Answered(ask.number, Refusal(Why.BAD_ARGUMENTS))
            return
        answer = self.zookeeper.perform(self.session, ask.operation)
        yield from map(Fired, self.zookeeper.take_events(self.session))
        yield Answered(ask.number, answer)

    def serve(self, wanted: Callable[[Operation], object]) -> None:
        """Have ZooKeeper do these of the operations that wait."""
        while ask := next((ask for ask in self.asks if wanted(ask.operation)), None):
            self.asks.remove(ask)
            self.give(*self._done(ask))

    def swallow(self, claim: str) -> None:
        """Have ZooKeeper do a claim, and lose its answer with the connection."""
        ask = next(ask for ask in self.asks if claimed(ask.operation) == claim)
        answer = self.zookeeper.perform(self.session, ask.operation)
        self.late[claim] = Answered(ask.number, answer)
        self.asks.remove(ask)
        self.is_cut = True

    def go_on(self, step: str) -> None:
        """Let a step go on, as far as it can."""
        self.let(step, events.Tick())

    @property
    def phase(self) -> str:
        """The name of the step that is under way, or waits at its gate."""
        if self.was_amid:
            return "BACKING_OFF"
        return PHASES.get(self.gates.waits, self.rebalances.phase.name)

    @property
    def watched(self) -> Set[str]:
        """The nodes that it watches."""
        kept = self.zookeeper.snapshot().sessions[self.session]
        return (kept.data_watches - {DIRS.ids}) | (kept.child_watches & {DIRS.ids})

    @property
    def topics(self) -> Set[str]:
        """The nodes of its topics."""
        return {paths.topic_path(t) for t, _ in self.core.context.registration.subscription}


class GatedRebalancing:
    """A group on a simulated ZooKeeper: consumers, topics, records, under the actions' names."""

    def __init__(
        self, connector: type[ConsumerConnector], settings: ConnectorSettings,
        order: Sequence[int], there: Sequence[bool],
    ) -> None:  # fmt: skip
        self.connector, self.settings = connector, settings
        self.order, self.partitions = order, range(len(there))
        self.ends, self.finished = [1 for _ in there], [0 for _ in there]
        self.consumers: dict[int, GatedConsumer] = {}
        self.zookeeper = ZooKeeper()
        self.operator = self.zookeeper.open()
        for path in (DIRS.ids, f"{paths.BROKER_IDS}/0", paths.TOPICS):
            self.zookeeper.make(self.operator, path)
        for p, exists in enumerate(there):
            self.zookeeper.make(self.operator, owner(p).rpartition("/")[0])
            self.zookeeper.make(self.operator, DIRS.offset(named(p)), b"0")
            self.zookeeper.make(self.operator, DIRS.claim(named(p)))
            if exists:
                self.appear(p)

    def is_connected(self, m: int) -> bool:
        """Tells whether a consumer lives, and its session too, and it is not cut off."""
        consumer = self.consumers.get(m)
        if consumer is None or consumer.is_dead or consumer.is_cut:
            return False
        return self.zookeeper.alive(consumer.session)

    def notify(self) -> None:
        """Have watches tell whoever is connected what has happened."""
        for m, consumer in self.consumers.items():
            if self.is_connected(m):
                consumer.give(*map(Fired, self.zookeeper.take_events(consumer.session)))

    # ── Consumers, topics, sessions ─────────────────────────────────────────────────────────

    def register(self, m: int, wanted: Iterable[int]) -> None:
        """A process starts, under a name of its rank."""
        topics = sorted(named(p)[0] for p in wanted)
        registration = ConsumerRegistration(tuple((topic, 1) for topic in topics))
        name = f"c{self.order[m]}"
        core = self.connector(DIRS.group, name, registration, self.settings)
        self.consumers[m] = GatedConsumer(self.zookeeper, core)

    def shutdown(self, m: int) -> None:
        """Its user closes it."""
        consumer = self.consumers[m]
        if not consumer.rebalances.may_be_left:
            raise Refused("it goes on first")
        consumer.give(events.Shutdown())
        if consumer.core.has_ended:
            del self.consumers[m]

    def kill(self, m: int) -> None:
        """Its process is no more."""
        self.consumers[m].is_dead = True

    def expire_dead(self, m: int) -> None:
        """End the session of a consumer that is dead."""
        self.zookeeper.expire(self.consumers.pop(m).session)

    def appear(self, p: int) -> None:
        """A topic appears; who watches some of its topics still has a reason of its own."""
        for consumer in self.consumers.values():
            if consumer.topics & consumer.watched < consumer.topics:
                consumer.is_unlike = True
        path = paths.topic_path(named(p)[0])
        self.zookeeper.make(self.operator, path, b'{"partitions": {"0": [1]}}')

    def cut(self, m: int) -> None:
        """It is paused, or cut off: it does not know yet."""
        self.consumers[m].is_cut = True

    def suspend(self, m: int) -> None:
        """Its lease is over."""
        consumer = self.consumers[m]
        consumer.now_ms = max(consumer.now_ms, consumer.core.delivers_until_ms)
        consumer.give(events.Tick())

    def reconnect(self, m: int) -> None:
        """It goes on; who rests, or has lost its connection, learns that this stands again."""
        consumer = self.consumers[m]
        if consumer.phase == "RESTING":
            consumer.lose(Link.SUSPENDED)
        consumer.is_cut = False
        if consumer.core.link is not Link.CONNECTED:
            consumer.connect()

    def expire(self, m: int) -> None:
        """Its session's time-out has passed, and ZooKeeper ends it."""
        consumer = self.consumers[m]
        consumer.now_ms += self.settings.zookeeper_session_timeout_ms
        self.zookeeper.expire(consumer.session)

    def handle_new_session(self, m: int) -> None:
        """It learns of that, and has a new one."""
        self.consumers[m].lose(Link.LOST)
        self.consumers[m].begin_session()

    # ── The rebalance ───────────────────────────────────────────────────────────────────────

    def close_fetchers(self, m: int) -> None:
        """An attempt begins, if there is a reason to; a back-off is over."""
        consumer = self.consumers[m]
        may_refuse = consumer.is_unlike or consumer.phase == "CLAIMING"
        if consumer.phase == "BACKING_OFF":
            consumer.now_ms += self.settings.rebalance_backoff_ms
        consumer.give(events.Tick())
        consumer.look("synced_rebalance", events.Tick())
        if may_refuse and consumer.gates.waits != "commit_offsets":
            raise Refused("it has no reason to")
        consumer.was_amid, consumer.is_unlike = False, consumer.is_blind

    def let(self, m: int, step: str) -> None:
        """Let a step of a consumer go, if that is connected."""
        if not self.is_connected(m):
            raise Refused("it is not connected")
        self.consumers[m].go_on(step)

    commit_offsets = partialmethod(let, step="commit_offsets")
    read_topics = partialmethod(let, step="read_topics")
    read_offsets = partialmethod(let, step="read_offsets")
    start_fetchers = partialmethod(let, step="start_fetchers")

    def release(self, m: int) -> None:
        """Owner nodes go."""
        consumer = self.consumers[m]
        if consumer.gates.waits:
            consumer.go_on("release")
        consumer.serve(lambda _: True)

    def read_ids(self, m: int) -> set[int]:
        """Who is there is read; returns what is the member's."""
        self.let(m, "read_ids")
        consumer = self.consumers[m]
        consumer.is_blind &= not {DIRS.ids, *consumer.topics} <= consumer.watched
        own = consumer.rebalances.read.context().own()
        return {p for p in self.partitions if named(p) in own}

    def claim(self, m: int, p: int) -> None:
        """Its claim is done, or refused."""
        self.consumers[m].serve(lambda asked: claimed(asked) == owner(p))

    refuse_claim = claim

    def swallow_claim(self, m: int, p: int) -> None:
        """Its claim is done, and it does not know yet."""
        self.consumers[m].swallow(owner(p))

    def recall(self, m: int, p: int) -> None:
        """It learns that it owns a partition: by a late answer, or as it is about to release it."""
        consumer = self.consumers[m]
        if consumer.phase == "CLAIMING":
            consumer.give(consumer.late.pop(owner(p)))
            return
        consumer.holds = True
        if consumer.gates.waits:
            consumer.go_on("release")
        of_p = (owner(p), DIRS.claim(named(p)))
        consumer.serve(lambda asked: not isinstance(asked, Multi) and asked.path in of_p)
        consumer.holds = False

    def fail_attempt(self, m: int) -> None:
        """ZooKeeper refuses what is asked for the attempt; else the connection is lost amid it."""
        consumer = self.consumers[m]
        is_asking = consumer.phase == "IDS" or consumer.asks
        if is_asking and not (consumer.is_cut or consumer.late):
            consumer.refuses = True
            consumer.go_on("read_ids") if consumer.gates.waits else consumer.serve(claimed)
            consumer.refuses = False
            return
        consumer.was_amid, consumer.losses = True, consumer.losses + 1
        consumer.lose(Link.SUSPENDED)
        if not consumer.is_cut:
            consumer.connect()

    # ── Records and offsets ─────────────────────────────────────────────────────────────────

    def produce(self, p: int) -> None:
        """A record is appended."""
        self.ends[p] += 1

    def pull(self, m: int, p: int) -> None:
        """A fetcher has the next record."""
        self.consumers[m].fetched[named(p)] += 1

    def finish(self, m: int, p: int) -> None:
        """The application has finished with it."""
        consumer = self.consumers[m]
        then = consumer.fetched[named(p)]
        consumer.give(events.Consumed(Offset(*named(p), then), consumer.core.registry.generation))
        self.finished[p] = max(self.finished[p], then)

    def commit(self, m: int) -> None:
        """Its user commits."""
        consumer = self.consumers[m]
        consumer.commits += 1
        consumer.give(events.CommitAsked(consumer.commits))
