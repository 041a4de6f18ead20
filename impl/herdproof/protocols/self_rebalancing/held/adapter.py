"""
The connectors' cores behind gates, on a simulated ZooKeeper, as an adapter of system A's spec.

A step of a rebalance waits until the test lets it go; then all is done that it asks, but for
claims, each of which is a step. Who is cut off is paused, and hears nothing. What comes of that is
the next step's: a connection that was lost (`fail_attempt`, or `reconnect` of who rests), a session
that is over, or nothing (`reconnect` amid an attempt, which a late answer may follow: `recall`).

What cannot be seen, by name: `due` and watches of who has lost its watches with a connection, until
it has read again (the spec's last as long as the session), `due` of who was refused a commit (it
has a reason of its own) and of who backs off, `token`, `fetched` and `consumed` of what an earlier
attempt, or session, has left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partialmethod
from typing import Any, ClassVar

from herdproof.conformance.adapter import PickledAdapter, Refused, varied
from herdproof.conformance.gates import StepGates
from herdproof.consuming import events
from herdproof.consuming.events import Answered, Ask, Fired
from herdproof.consuming.kafka_nodes import read_offset
from herdproof.consuming.offsets import Offset
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.core.events import ConnectorEvent, EndSession, LinkTold
from herdproof.protocols.self_rebalancing.core.rebalance import RebalancePhase
from herdproof.protocols.self_rebalancing.held.flawed import connector_with
from herdproof.protocols.self_rebalancing.registries import paths
from herdproof.protocols.self_rebalancing.registries.registrations import ConsumerRegistration
from herdproof.protocols.self_rebalancing.reports import What
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings
from herdproof.protocols.self_rebalancing.steps import Step
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import Create, Link, Multi, Operation, Refusal, Why
from herdspec.language.specification import Specification
from herdspec.protocols.self_rebalancing.properties import HELD
from herdspec.protocols.self_rebalancing.spec import RETRIES, Member, Partition, Rebalance, Session

DIRS = paths.GroupDirs("g")
SETTINGS = ConnectorSettings(rebalance_max_retries=RETRIES, auto_commit_interval_ms=2**40)
PHASES = {
    "commit_offsets": Rebalance.COMMITTING, "release": Rebalance.RELEASING,
    "read_topics": Rebalance.TOPICS, "read_ids": Rebalance.IDS,
    "start_fetchers": Rebalance.STARTING,
}  # fmt: skip
"""The spec's phase while a step waits at its gate, if it is not the core's."""
STEPS = (*PHASES, "read_offsets")
LEAVES = (Rebalance.BACKING_OFF, Rebalance.COMMITTING, Rebalance.RELEASING)
"""The phases in which something of what was before may be left."""


def named(p: Partition) -> tuple[str, str]:
    """A partition's topic, and its number in that."""
    return f"t{p.index}", "0"


def owner(p: Partition) -> str:
    """The path of a partition's owner node."""
    return DIRS.owner(named(p))


def claimed(operation: Operation) -> str:
    """The owner node that an operation claims; empty if it claims none."""
    first = operation.operations[0] if isinstance(operation, Multi) else None
    return first.path if isinstance(first, Create) else ""


class GatedConsumer:
    """A consumer's process, and its session."""

    is_dead = is_cut = holds = refuses = False
    """Killed; cut off; ZooKeeper does nothing of what it asks, or refuses all."""
    was_amid = is_blind = is_unlike = False
    """Its connection was lost amid an attempt; or its watches; its reasons are not the spec's."""
    losses = now_ms = commits = session = 0

    def __init__(self, zookeeper: ZooKeeper, core: ConsumerConnector) -> None:
        self.zookeeper, self.core, self.rebalances = zookeeper, core, core.rebalances
        self.gates = StepGates(core.rebalances, STEPS, polled=["synced_rebalance"])
        self.later = StepGates(core.rebalances.read, (), polled=["renew_watches"])
        """What readers do that watch too late."""
        self.asks: list[Ask] = []
        """What was asked, and is not done."""
        self.late: dict[str, Answered] = {}
        """Answers that have not come, by the owner node that was claimed."""
        self.fetched: dict[tuple[str, str], int] = {}
        self.give(events.Subscribe())
        self.begin_session()

    def begin_session(self) -> None:
        """It has a new session, and learns of it."""
        self.session = self.zookeeper.open()
        self.was_amid = self.is_blind = self.is_unlike = False
        self.connect()

    def connect(self) -> None:
        """It learns that it is connected."""
        self.is_cut = False
        self.give(LinkTold(Link.CONNECTED, self.session, SETTINGS.zookeeper_session_timeout_ms))

    def lose(self, link: Link) -> None:
        """It learns that its connection, or its session, is lost; so is what it has asked."""
        self.asks, self.late, self.gates.waits, self.is_blind = [], {}, "", True
        self.zookeeper.lose_connection(self.session)
        self.zookeeper.take_events(self.session)
        self.give(LinkTold(link, self.session, 0))

    def give(self, *some: ConnectorEvent) -> None:
        """Give the core these events; what it asks of ZooKeeper is done, unless it has to wait."""
        todo = deque(some)
        while todo:
            for effect in self.core.receive(todo.popleft(), self.now_ms):
                match effect:
                    case Ask(_, operation) if self._waits(operation):
                        self.asks.append(effect)
                    case Ask():
                        todo += self._done(effect)
                    case events.StartFetchers(starts):
                        self.fetched = {(o.topic, o.partition): o.offset for o in starts}
                    case events.StopFetchers():
                        self.fetched = {}
                    case Step(action="start_fetchers"):
                        self.losses = 0
                    case events.Report(What.COMMIT_REFUSED):
                        self.is_unlike = True
                    case EndSession():
                        self.zookeeper.close(self.session)

    def _waits(self, operation: Operation) -> bool:
        is_claiming = self.rebalances.phase is RebalancePhase.CLAIMING
        return self.is_cut or self.holds or (is_claiming and bool(claimed(operation)))

    def _done(self, ask: Ask) -> Iterator[ConnectorEvent]:
        """What ZooKeeper sends when it has done what was asked."""
        if self.refuses:
            yield Answered(ask.number, Refusal(Why.BAD_ARGUMENTS))
            return
        answer = self.zookeeper.perform(self.session, ask.operation)
        yield from map(Fired, self.zookeeper.take_events(self.session))
        yield Answered(ask.number, answer)

    def serve(self, wanted: Callable[[Operation], object]) -> None:
        """ZooKeeper does these of the operations that wait."""
        while ask := next((ask for ask in self.asks if wanted(ask.operation)), None):
            self.asks.remove(ask)
            self.give(*self._done(ask))

    def let(self, step: str) -> None:
        """A step goes on, as far as it can."""
        self.gates.let(step)
        self.give(events.Tick())

    @property
    def phase(self) -> Rebalance:
        """How far it is, as the spec has it."""
        if self.was_amid:
            return Rebalance.BACKING_OFF
        return PHASES.get(self.gates.waits, Rebalance[self.rebalances.phase.name])

    @property
    def watched(self) -> Set[str]:
        """The nodes that it watches."""
        kept = self.zookeeper.snapshot().sessions[self.session]
        return (kept.data_watches - {DIRS.ids}) | (kept.child_watches & {DIRS.ids})

    @property
    def topics(self) -> Set[str]:
        """The nodes of its topics."""
        return {paths.topic_path(t) for t, _ in self.core.context.registration.subscription}


class RebalancingCores(PickledAdapter):
    """Consumers, each with a real core; the test decides what comes when."""

    timeout = None
    offered: ClassVar[tuple[str, ...]] = (
        "commit_offsets", "read_topics", "read_ids", "read_offsets", "start_fetchers",
    )  # fmt: skip
    chosen: ClassVar = {"read_ids": ("mine",)}
    reluctant: ClassVar[tuple[str, ...]] = ("close_fetchers", "shutdown")
    """Who has lost its watches reads anew, and has no reason to; claims under way are awaited."""
    connector: ClassVar[type[ConsumerConnector]] = ConsumerConnector
    switches: ClassVar[frozenset[str]] = frozenset()
    """The mistakes of the cores."""

    def begin(self, Member: int, Partition: int) -> None:  # noqa: N803 - sorts
        """So many consumers, which are not there yet, and partitions, the first of which is."""
        self._begin(range(Member), [k == 0 for k in range(Partition)])

    def start(self, state: Any) -> None:
        """Begin with the partitions that are there in this initial state, and this order."""
        self._begin([*state.rank.values()], [*state.exists.values()])

    def _begin(self, order: Sequence[int], there: Sequence[bool]) -> None:
        self.order, self.ends, self.finished = order, [1 for _ in there], [0 for _ in there]
        self.consumers: dict[int, GatedConsumer] = {}
        self.zookeeper = ZooKeeper()
        self.operator = self.zookeeper.open()
        for path in (DIRS.ids, f"{paths.BROKER_IDS}/0", paths.TOPICS):
            self.zookeeper.make(self.operator, path)
        for p, exists in zip(map(Partition, range(len(there))), there, strict=True):
            self.zookeeper.make(self.operator, owner(p).rpartition("/")[0])
            self.zookeeper.make(self.operator, DIRS.offset(named(p)), b"0")
            self.zookeeper.make(self.operator, DIRS.claim(named(p)))
            if exists:
                self.appear(p)

    # ── Consumers, topics, sessions ─────────────────────────────────────────────────────────

    def register(self, m: Member, wanted: set[Partition]) -> None:
        """A process starts, under a name of its rank."""
        topics = sorted(named(p)[0] for p in wanted)
        registration = ConsumerRegistration(tuple((topic, 1) for topic in topics))
        name = f"c{self.order[m.index]}"
        core = type(self).connector(DIRS.group, name, registration, SETTINGS)
        self.consumers[m.index] = GatedConsumer(self.zookeeper, core)

    def shutdown(self, m: Member) -> None:
        """Its user closes it."""
        consumer = self.consumers[m.index]
        if not consumer.rebalances.may_be_left:
            raise Refused("it goes on first")
        consumer.give(events.Shutdown())
        if consumer.core.has_ended:
            del self.consumers[m.index]

    def kill(self, m: Member) -> None:
        """Its process is no more."""
        self.consumers[m.index].is_dead = True

    def expire_dead(self, m: Member) -> None:
        """Nor is its session."""
        self.zookeeper.expire(self.consumers.pop(m.index).session)

    def appear(self, p: Partition) -> None:
        """A topic appears; who watches some of its topics still has a reason of its own."""
        for consumer in self.consumers.values():
            if consumer.topics & consumer.watched < consumer.topics:
                consumer.is_unlike = True
        path = paths.topic_path(named(p)[0])
        self.zookeeper.make(self.operator, path, b'{"partitions": {"0": [1]}}')

    def cut(self, m: Member) -> None:
        """It is paused, or cut off: it does not know yet."""
        self.consumers[m.index].is_cut = True

    def suspend(self, m: Member) -> None:
        """Its lease is over."""
        consumer = self.consumers[m.index]
        consumer.now_ms = max(consumer.now_ms, consumer.core.delivers_until_ms)
        consumer.give(events.Tick())

    def reconnect(self, m: Member) -> None:
        """It goes on; who rests, or has lost its connection, learns that this stands again."""
        consumer = self.consumers[m.index]
        if consumer.phase is Rebalance.RESTING:
            consumer.lose(Link.SUSPENDED)
        consumer.is_cut = False
        if consumer.core.link is not Link.CONNECTED:
            consumer.connect()

    def expire(self, m: Member) -> None:
        """Its session's time-out has passed, and ZooKeeper ends it."""
        consumer = self.consumers[m.index]
        consumer.now_ms += SETTINGS.zookeeper_session_timeout_ms
        self.zookeeper.expire(consumer.session)

    def handle_new_session(self, m: Member) -> None:
        """It learns of that, and has a new one."""
        self.consumers[m.index].lose(Link.LOST)
        self.consumers[m.index].begin_session()

    # ── The rebalance ───────────────────────────────────────────────────────────────────────

    def close_fetchers(self, m: Member) -> None:
        """An attempt begins, if there is a reason to; a back-off is over."""
        consumer = self.consumers[m.index]
        may_refuse = consumer.is_unlike or consumer.phase is Rebalance.CLAIMING
        if consumer.phase is Rebalance.BACKING_OFF:
            consumer.now_ms += SETTINGS.rebalance_backoff_ms
        consumer.give(events.Tick())
        consumer.gates.look("synced_rebalance")
        consumer.give(events.Tick())
        if may_refuse and consumer.gates.waits != "commit_offsets":
            raise Refused("it has no reason to")
        consumer.was_amid, consumer.is_unlike = False, consumer.is_blind

    def _let(self, m: Member, step: str) -> None:
        if self._session(m) is not Session.CONNECTED:
            raise Refused("it is not connected")
        self.consumers[m.index].let(step)

    commit_offsets = partialmethod(_let, step="commit_offsets")
    read_topics = partialmethod(_let, step="read_topics")
    read_offsets = partialmethod(_let, step="read_offsets")
    start_fetchers = partialmethod(_let, step="start_fetchers")

    def release(self, m: Member) -> None:
        """Owner nodes go."""
        consumer = self.consumers[m.index]
        if consumer.gates.waits:
            consumer.let("release")
        consumer.serve(lambda _: True)

    def read_ids(self, m: Member) -> set[Partition]:
        """Who is there is read; returns what is the member's."""
        self._let(m, "read_ids")
        consumer = self.consumers[m.index]
        consumer.is_blind &= not {DIRS.ids, *consumer.topics} <= consumer.watched
        return {p for p in Partition if named(p) in consumer.rebalances.read.context().own()}

    def claim(self, m: Member, p: Partition) -> None:
        """Its claim is done, or refused."""
        self.consumers[m.index].serve(lambda asked: claimed(asked) == owner(p))

    refuse_claim = claim

    def swallow_claim(self, m: Member, p: Partition) -> None:
        """Its claim is done, and it does not know yet."""
        consumer = self.consumers[m.index]
        ask = next(ask for ask in consumer.asks if claimed(ask.operation) == owner(p))
        answer = self.zookeeper.perform(consumer.session, ask.operation)
        consumer.late[owner(p)] = Answered(ask.number, answer)
        consumer.asks.remove(ask)
        consumer.is_cut = True

    def recall(self, m: Member, p: Partition) -> None:
        """It learns that it owns a partition: by a late answer, or as it is about to release it."""
        consumer = self.consumers[m.index]
        if consumer.phase is Rebalance.CLAIMING:
            consumer.give(consumer.late.pop(owner(p)))
            return
        consumer.holds = True
        if consumer.gates.waits:
            consumer.let("release")
        of_p = (owner(p), DIRS.claim(named(p)))
        consumer.serve(lambda asked: not isinstance(asked, Multi) and asked.path in of_p)
        consumer.holds = False

    def fail_attempt(self, m: Member) -> None:
        """ZooKeeper refuses what is asked for the attempt; else the connection is lost amid it."""
        consumer = self.consumers[m.index]
        is_asking = consumer.phase is Rebalance.IDS or consumer.asks
        if is_asking and not (consumer.is_cut or consumer.late):
            consumer.refuses = True
            consumer.let("read_ids") if consumer.gates.waits else consumer.serve(claimed)
            consumer.refuses = False
            return
        consumer.was_amid, consumer.losses = True, consumer.losses + 1
        consumer.lose(Link.SUSPENDED)
        if not consumer.is_cut:
            consumer.connect()

    # ── Records and offsets ─────────────────────────────────────────────────────────────────

    def produce(self, p: Partition) -> None:
        """A record is appended."""
        self.ends[p.index] += 1

    def pull(self, m: Member, p: Partition) -> None:
        """A fetcher has the next record."""
        self.consumers[m.index].fetched[named(p)] += 1

    def finish(self, m: Member, p: Partition) -> None:
        """The application has finished with it."""
        consumer = self.consumers[m.index]
        then = consumer.fetched[named(p)]
        consumer.give(events.Consumed(Offset(*named(p), then), consumer.core.registry.generation))
        self.finished[p.index] = max(self.finished[p.index], then)

    def commit(self, m: Member) -> None:
        """Its user commits."""
        consumer = self.consumers[m.index]
        consumer.commits += 1
        consumer.give(events.CommitAsked(consumer.commits))

    # ── What is seen ────────────────────────────────────────────────────────────────────────

    def observe(self) -> dict[str, Any]:
        """Nodes, sessions, cores; before, watches have told whoever is connected."""
        sessions = {m: self._session(m) for m in Member}
        for m, consumer in self.consumers.items():
            if sessions[Member(m)] is Session.CONNECTED:
                consumer.give(*map(Fired, self.zookeeper.take_events(consumer.session)))
        nodes = self.zookeeper.snapshot().nodes
        whose = {consumer.session: Member(m) for m, consumer in self.consumers.items()}
        owners = {p: nodes.get(owner(p)) for p in Partition}
        look: dict[str, Any] = {
            "exists": {p: paths.topic_path(named(p)[0]) in nodes for p in Partition},
            "owner": {p: node and whose[node.owner] for p, node in owners.items()},
            "version": {p: nodes[DIRS.claim(named(p))].version for p in Partition},
            "committed": {p: read_offset(nodes[DIRS.offset(named(p))].data) for p in Partition},
            "end": {p: self.ends[p.index] for p in Partition},
            "finished": {p: self.finished[p.index] for p in Partition},
            "rank": {m: self.order[m.index] for m in Member},
            "session": sessions,
            "registered": {m: DIRS.id(f"c{self.order[m.index]}") in nodes for m in Member},
        }
        for m, consumer in self.consumers.items():
            if not consumer.is_dead:
                self._see(look, Member(m), consumer)
        return look

    def _session(self, m: Member) -> Session:
        consumer = self.consumers.get(m.index)
        if consumer is None or consumer.is_dead:
            return Session.DEAD if consumer else Session.NONE
        if not self.zookeeper.alive(consumer.session):
            return Session.EXPIRED
        return Session.SUSPENDED if consumer.is_cut else Session.CONNECTED

    def _see(self, look: dict[str, Any], m: Member, consumer: GatedConsumer) -> None:
        """What a consumer knows and does, and what ZooKeeper keeps for it."""
        phase, rebalances = consumer.phase, consumer.rebalances
        failures = rebalances.attempts + consumer.losses
        seen: dict[str, Any] = {"phase": phase, "attempts": min(failures, RETRIES)}
        if not consumer.is_blind:
            seen["watches_ids"] = DIRS.ids in consumer.watched
            seen["watches_topics"] = consumer.topics <= consumer.watched
        is_hidden = consumer.is_unlike or phase is Rebalance.BACKING_OFF
        if look["session"][m] is Session.CONNECTED and not is_hidden:
            seen["due"] = rebalances.is_due
        for name, value in seen.items():
            look.setdefault(name, {})[m] = value
        for p in Partition:
            for name, value in seen_of(consumer, phase, p):
                look.setdefault(name, {})[m, p] = value


def seen_of(consumer: GatedConsumer, phase: Rebalance, p: Partition) -> Iterator[tuple[str, Any]]:
    """What a consumer knows of a partition, and does with it: fields and their values."""
    registry, rebalances = consumer.core.registry, consumer.rebalances
    claim, info = rebalances.owned.claims.get(named(p)), registry.find(*named(p))
    wants = paths.topic_path(named(p)[0]) in consumer.topics
    yield "interest", wants
    yield "waits", owner(p) in rebalances.owned.waits and owner(p) in consumer.watched
    yield "registry", info is not None
    yield "fetching", named(p) in consumer.fetched and consumer.core.may_deliver(consumer.now_ms)
    if phase is not Rebalance.OFFSETS:
        yield "planned", claim is not None
    if wants and phase is Rebalance.IDS:
        yield "seen", bool(rebalances.read.partitions[named(p)[0]])
    if claim is not None or phase not in LEAVES:
        yield "token", claim.token if claim else 0
    at = info.consumed_offset if info else 0
    if phase is Rebalance.STARTING:
        stored = rebalances.offsets.stored.get(named(p))
        at = stored.offset if stored else 0
    if info is not None or phase not in (*LEAVES, Rebalance.CLAIMING):
        yield "consumed", at
        if info is not None or named(p) not in consumer.fetched:  # flawed, it may fetch on
            yield "fetched", consumer.fetched.get(named(p), at)


def start_at_once(self: RebalancingCores, m: Member) -> None:
    """Everything is claimed, and its offsets were read before."""
    for step in ("read_offsets", "start_fetchers"):
        self._let(m, step)


def renew_watches(self: RebalancingCores, m: Member) -> None:
    """It watches what it has read."""
    consumer = self.consumers[m.index]
    consumer.later.look("renew_watches")
    consumer.give(events.Tick())


def refuse_claim(self: RebalancingCores, m: Member, p: Partition) -> None:
    """A claim whose answer did not come is sent once more, as the client of Kafka 0.8 does."""
    late = self.consumers[m.index].late.pop(owner(p), None)
    if late is None:
        self.claim(m, p)
    else:
        self.consumers[m.index].give(Answered(late.number, Refusal(Why.NODE_EXISTS, 0)))


def pull_at_once(self: RebalancingCores, m: Member) -> None:
    """It pulls, whatever is in its way."""
    consumer = self.consumers[m.index]
    consumer.gates.waits = ""
    consumer.gates.look("claims_wait")
    consumer.give(events.Tick())


VARIED: Mapping[str, Mapping[str, Callable[..., None]]] = {
    "stale_start": {"start_fetchers": start_at_once},
    "lost_wake_up": {"renew_watches": renew_watches},
    "self_conflict": {"refuse_claim": refuse_claim},
    "pulled_before_owned": {"read_offsets": pull_at_once},
}
"""What actions do to cores with a mistake, if that is something else."""


def cores(switches: frozenset[str], spec: Specification) -> type[RebalancingCores]:
    """The adapter of cores with these mistakes, for a variant of the spec that has them, too."""
    methods = {name: do for flaw in sorted(switches) for name, do in VARIED.get(flaw, {}).items()}
    code = type("RebalancingCores", (RebalancingCores,), methods)
    return varied(code, HELD, spec, connector=connector_with(switches), switches=switches)
