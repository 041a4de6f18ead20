"""
The connectors' cores behind gates, on a simulated ZooKeeper, as an adapter of system A's spec.

A step of a rebalance waits until the test lets it go; then all is answered that it asks, but for
claims, each of which is a step. Who is cut off is paused, and hears nothing. What comes of that is
the next step's: a connection that was lost (`fail_attempt`, or `reconnect` of who rests), a session
that is over, or nothing (`reconnect` amid an attempt, which a late answer may follow: `recall`).

What cannot be seen, by name: `due` and watches of who has lost its watches with a connection, until
it has read again (the spec's last as long as the session), `due` of who was refused a commit (it
has a reason of its own) and of who backs off, `token`, `fetched` and `consumed` of what an earlier
attempt, or session, has left.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from herdproof.conformance.adapter import Adapter, Refused
from herdproof.conformance.gates import Gates
from herdproof.consuming.events import (
    Answered,
    Ask,
    CommitAsked,
    Consumed,
    Fired,
    Report,
    Shutdown,
    StartFetchers,
    Subscribe,
    Tick,
)
from herdproof.consuming.kafka_nodes import read_offset
from herdproof.consuming.offsets import Offset
from herdproof.consuming.topic_info import PartitionTopicInfo
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.core.events import ConnectorEvent, EndSession, LinkTold
from herdproof.protocols.self_rebalancing.core.rebalance import RebalancePhase
from herdproof.protocols.self_rebalancing.registries.paths import (
    BROKER_IDS,
    TOPICS,
    GroupDirs,
    parents,
    topic_path,
)
from herdproof.protocols.self_rebalancing.registries.registrations import ConsumerRegistration
from herdproof.protocols.self_rebalancing.reports import What
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings
from herdproof.protocols.self_rebalancing.steps import Step
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import Answer, Create, Link, Multi, Operation, Refusal, Why
from herdspec.protocols.self_rebalancing.spec import RETRIES, Member, Partition, Rebalance, Session

DIRS = GroupDirs("g")
TIMEOUT_MS = 6_000
SETTINGS = ConnectorSettings(rebalance_max_retries=RETRIES, auto_commit_interval_ms=2**40)
PHASES = {
    "commit_offsets": Rebalance.COMMITTING, "release": Rebalance.RELEASING,
    "read_topics": Rebalance.TOPICS, "read_ids": Rebalance.IDS,
    "read_offsets": Rebalance.CLAIMING, "start_fetchers": Rebalance.STARTING,
}  # fmt: skip
"""The steps that wait at a gate, and the spec's phase meanwhile."""
CONNECTED, SUSPENDED = Session.CONNECTED, Session.SUSPENDED
LEAVES = (Rebalance.BACKING_OFF, Rebalance.COMMITTING, Rebalance.RELEASING)
"""The phases in which something of what was before may be left."""


def named(p: Partition) -> tuple[str, str]:
    """A partition's topic, and its number in that."""
    return f"t{p.index}", "0"


def claims(operation: Operation, p: Partition | None = None) -> bool:
    """Whether this claims a partition, or this one."""
    first = operation.operations[0] if isinstance(operation, Multi) else None
    return isinstance(first, Create) and (p is None or first.path == DIRS.owner(named(p)))


class GatedConsumer:
    """A consumer's process, and its session."""

    def __init__(self, zookeeper: ZooKeeper, core: ConsumerConnector) -> None:
        self.zookeeper, self.core = zookeeper, core
        self.gates = Gates(core.rebalances, PHASES, polled=["synced_rebalance"])
        self.is_dead = self.is_cut = self.was_lost = False
        """Killed; cut off; its connection was lost amid an attempt."""
        self.hears = True
        """It rebalances for the reasons that the spec knows, and for no others."""
        self.losses = 0
        """How many attempts in a row were lost with a connection."""
        self.asks: list[Ask] = []
        """What was asked, and is not done."""
        self.late: dict[str, Answered] = {}
        """Answers that have not come, by the node that was claimed."""
        self.holds = self.refuses = False
        """ZooKeeper does nothing of what is asked now, or refuses it."""
        self.fetched: dict[tuple[str, str], int] = {}
        self.now_ms = self.commits = 0
        self.give(Subscribe())
        self.begin_session()

    def begin_session(self) -> None:
        """It has a new session, and learns of it."""
        self.session = self.zookeeper.open()
        self.is_cut, self.was_lost, self.hears = False, False, True
        self.connect()

    def connect(self) -> None:
        """It learns that it is connected."""
        self.give(LinkTold(Link.CONNECTED, self.session, TIMEOUT_MS))

    def lose(self, link: Link) -> None:
        """It learns that its connection, or its session, is lost; so is what it has asked."""
        for lost in (self.asks, self.late, self.gates):
            lost.clear()
        self.hears = False
        self.zookeeper.lose_connection(self.session)
        self.zookeeper.take_events(self.session)
        self.give(LinkTold(link, self.session, TIMEOUT_MS))

    def give(self, *events: ConnectorEvent) -> None:
        """Give the core these events; what it asks of ZooKeeper is done, unless it has to wait."""
        todo = deque(events)
        while todo:
            for effect in self.core.receive(todo.popleft(), self.now_ms):
                match effect:
                    case Ask(_, operation) if self._waits(operation):
                        self.asks.append(effect)
                    case Ask():
                        todo += self._done(effect)
                    case StartFetchers(starts):
                        self.fetched = {(o.topic, o.partition): o.offset for o in starts}
                    case Step(action="start_fetchers"):
                        self.losses = 0
                    case Report(What.COMMIT_REFUSED):
                        self.hears = False
                    case EndSession():
                        self.zookeeper.close(self.session)

    def _waits(self, operation: Operation) -> bool:
        is_claiming = self.core.rebalances.phase is RebalancePhase.CLAIMING
        return self.is_cut or self.holds or (is_claiming and claims(operation))

    def _done(self, ask: Ask) -> Iterator[ConnectorEvent]:
        """What ZooKeeper sends when it has done what was asked."""
        answer: Answer = Refusal(Why.BAD_ARGUMENTS)
        if not self.refuses:
            answer = self.zookeeper.perform(self.session, ask.operation)
        yield from map(Fired, self.zookeeper.take_events(self.session))
        yield Answered(ask.number, answer)

    def serve(self, wanted: Callable[[Operation], bool]) -> None:
        """ZooKeeper does these of the operations that wait."""
        while ask := next((ask for ask in self.asks if wanted(ask.operation)), None):
            self.asks.remove(ask)
            self.give(*self._done(ask))

    def let(self, step: str) -> None:
        """A step goes on, as far as it can."""
        self.gates.let(step)
        self.give(Tick())

    @property
    def phase(self) -> Rebalance:
        """How far it is, as the spec has it."""
        if self.was_lost:
            return Rebalance.BACKING_OFF
        return PHASES.get(self.gates.waits, Rebalance[self.core.rebalances.phase.name])

    def watches(self) -> tuple[bool, ...]:
        """Whether it watches ids, and each of its topics."""
        kept = self.zookeeper.snapshot().sessions[self.session]
        topics = [topic for topic, _ in self.core.context.registration.subscription]
        of_topics = [topic_path(topic) in kept.data_watches for topic in topics]
        return DIRS.ids in kept.child_watches, *of_topics

    def is_in_doubt(self, p: Partition) -> bool:
        """Whether its session has a partition, and it does not know."""
        claim = self.core.rebalances.owned.claims.get(named(p))
        node = self.zookeeper.snapshot().nodes.get(DIRS.owner(named(p)))
        return (
            claim is not None
            and not claim.token
            and node is not None
            and (node.owner == self.session)
        )


class RebalancingCores(Adapter):
    """Consumers, each with a real core; the test decides what comes when."""

    timeout = None
    offered: ClassVar[tuple[str, ...]] = (
        "suspend", "commit_offsets", "release", "read_topics", "read_ids", "claim", "refuse_claim",
        "recall", "read_offsets", "start_fetchers",
    )  # fmt: skip
    chosen: ClassVar = {"read_ids": ("mine",)}
    reluctant: ClassVar[tuple[str, ...]] = ("close_fetchers", "shutdown")
    """Without watches it has no reason, since it reads anew; claims under way are waited for."""
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
        self.zookeeper = ZooKeeper()
        self.operator = self.zookeeper.open()
        self.order = order
        self.consumers: list[GatedConsumer | None] = [None for _ in order]
        self.members: dict[int, int] = {}
        """Whose each session is."""
        self.ends, self.finished = [1 for _ in there], [0 for _ in there]
        self._make(DIRS.ids)
        self._make(f"{BROKER_IDS}/0")
        self._make(TOPICS)
        for k, exists in enumerate(there):
            partition = named(Partition(k))
            self._make(DIRS.owner(partition).rpartition("/")[0])
            self._make(DIRS.offset(partition), b"0")
            self._make(DIRS.claim(partition))
            if exists:
                self.appear(Partition(k))

    def _make(self, path: str, data: bytes = b"") -> None:
        for above in parents(path):
            self.zookeeper.perform(self.operator, Create(above))
        self.zookeeper.perform(self.operator, Create(path, data))

    def _of(self, m: Member, *sessions: Session) -> GatedConsumer:
        """A consumer, if its session is one of these."""
        consumer = self.consumers[m.index]
        if consumer is None or self._session(consumer) not in sessions:
            raise Refused("its session is not so")
        return consumer

    def _session(self, consumer: GatedConsumer | None) -> Session:
        if consumer is None:
            return Session.NONE
        if consumer.is_dead:
            return Session.DEAD
        if not self.zookeeper.alive(consumer.session):
            return Session.EXPIRED
        return Session.SUSPENDED if consumer.is_cut else Session.CONNECTED

    # ── Consumers, topics, sessions ─────────────────────────────────────────────────────────

    def register(self, m: Member, wanted: set[Partition]) -> None:
        """A process starts, under a name of its rank."""
        topics = sorted(named(p)[0] for p in wanted)
        registration = ConsumerRegistration(tuple((topic, 1) for topic in topics))
        name = f"c{self.order[m.index]}"
        core = type(self).connector(DIRS.group, name, registration, SETTINGS)
        self.consumers[m.index] = consumer = GatedConsumer(self.zookeeper, core)
        self.members[consumer.session] = m.index

    def shutdown(self, m: Member) -> None:
        """Its user closes it."""
        consumer = self._of(m, CONNECTED)
        if not consumer.core.rebalances.may_be_left:
            raise Refused("it goes on first")
        consumer.give(Shutdown())
        if consumer.core.has_ended:
            self.consumers[m.index] = None

    def kill(self, m: Member) -> None:
        """Its process is no more."""
        self._of(m, CONNECTED, SUSPENDED).is_dead = True

    def expire_dead(self, m: Member) -> None:
        """Nor is its session."""
        self.zookeeper.expire(self._of(m, Session.DEAD).session)
        self.consumers[m.index] = None

    def appear(self, p: Partition) -> None:
        """A topic appears; who watches some of its topics still has a reason of its own."""
        for consumer in self.consumers:
            if consumer is not None and not all(consumer.watches()[1:]):
                consumer.hears = consumer.hears and not any(consumer.watches()[1:])
        self._make(topic_path(named(p)[0]), b'{"partitions": {"0": [1]}}')

    def cut(self, m: Member) -> None:
        """It is paused, or cut off: it does not know yet."""
        self._of(m, CONNECTED).is_cut = True

    def suspend(self, m: Member) -> None:
        """Its lease is over."""
        consumer = self._of(m, SUSPENDED)
        if not consumer.core.registry.is_fetching:
            raise Refused("it fetches nothing")
        consumer.now_ms = max(consumer.now_ms, consumer.core.delivers_until_ms)
        consumer.give(Tick())

    def reconnect(self, m: Member) -> None:
        """It goes on; who rests, or has lost its connection, learns that this stands again."""
        consumer = self._of(m, SUSPENDED)
        if consumer.phase is Rebalance.RESTING:
            consumer.lose(Link.SUSPENDED)
        consumer.is_cut = False
        if consumer.core.link is not Link.CONNECTED:
            consumer.connect()

    def expire(self, m: Member) -> None:
        """ZooKeeper ends its session."""
        self.zookeeper.expire(self._of(m, SUSPENDED).session)

    def handle_new_session(self, m: Member) -> None:
        """It learns of that, and has a new one."""
        consumer = self._of(m, Session.EXPIRED)
        consumer.lose(Link.LOST)
        consumer.begin_session()
        self.members[consumer.session] = m.index

    # ── The rebalance ───────────────────────────────────────────────────────────────────────

    def close_fetchers(self, m: Member) -> None:
        """An attempt begins, if there is a reason to; a back-off is over."""
        consumer = self._of(m, CONNECTED)
        if consumer.phase is Rebalance.BACKING_OFF:
            consumer.now_ms += SETTINGS.rebalance_backoff_ms
            consumer.give(Tick())
        was_waiting, watches = consumer.gates.waits, all(consumer.watches())
        consumer.gates.look("synced_rebalance")
        consumer.give(Tick())
        if was_waiting or consumer.gates.waits != "commit_offsets":
            raise Refused("it has no reason to")
        consumer.was_lost, consumer.hears = False, consumer.hears or watches

    def release(self, m: Member) -> None:
        """Owner nodes go; none may be in doubt."""
        consumer = self._of(m, CONNECTED)
        if any(map(consumer.is_in_doubt, Partition)):
            raise Refused("it has to recall something before")
        if consumer.phase is Rebalance.RELEASING and not consumer.gates.waits:
            consumer.serve(lambda _: True)
        else:
            consumer.let("release")

    def read_ids(self, m: Member) -> set[Partition]:
        """Who is there is read; returns what is the member's."""
        consumer = self._of(m, CONNECTED)
        consumer.let("read_ids")
        return {p for p in Partition if named(p) in consumer.core.rebalances.owned.claims}

    def claim(self, m: Member, p: Partition) -> None:
        """Its claim is done."""
        self._claiming(m, p, is_free=True).serve(lambda operation: claims(operation, p))

    def refuse_claim(self, m: Member, p: Partition) -> None:
        """Its claim is refused, by a node of somebody else."""
        consumer = self._claiming(m, p, is_free=False)
        if consumer.is_in_doubt(p):
            raise Refused("the node is its own")
        consumer.serve(lambda operation: claims(operation, p))

    def swallow_claim(self, m: Member, p: Partition) -> None:
        """Its claim is done, and it does not know yet."""
        consumer = self._claiming(m, p, is_free=True)
        ask = next(ask for ask in consumer.asks if claims(ask.operation, p))
        answer = self.zookeeper.perform(consumer.session, ask.operation, answered=False)
        consumer.late[DIRS.owner(named(p))] = Answered(ask.number, answer)
        consumer.asks.remove(ask)
        consumer.is_cut = True

    def _claiming(self, m: Member, p: Partition, *, is_free: bool) -> GatedConsumer:
        """A consumer that has claimed a partition, if that is free or not."""
        consumer = self._of(m, CONNECTED)
        if not any(claims(ask.operation, p) for ask in consumer.asks):
            raise Refused("it does not claim it")
        if (DIRS.owner(named(p)) in self.zookeeper.snapshot().nodes) is is_free:
            raise Refused("the partition is not so")
        return consumer

    def recall(self, m: Member, p: Partition) -> None:
        """It learns that it owns a partition: by a late answer, or as it is about to release it."""
        consumer, path = self._of(m, CONNECTED), DIRS.owner(named(p))
        if path in consumer.late:
            consumer.give(consumer.late.pop(path))
            return
        if consumer.phase is not Rebalance.RELEASING or not consumer.is_in_doubt(p):
            raise Refused("it has no doubt")
        consumer.holds = True
        if consumer.gates.waits:
            consumer.let("release")
        of_p = (path, DIRS.claim(named(p)))
        consumer.serve(lambda asked: not isinstance(asked, Multi) and asked.path in of_p)
        consumer.holds = False

    def fail_attempt(self, m: Member) -> None:
        """ZooKeeper refuses what is asked for the attempt; else the connection is lost amid it."""
        consumer = self._of(m, CONNECTED, SUSPENDED)
        if consumer.phase in (Rebalance.RESTING, Rebalance.BACKING_OFF):
            raise Refused("there is no attempt")
        can = not (consumer.is_cut or consumer.late)
        if can and (consumer.phase is Rebalance.IDS or consumer.asks):
            consumer.refuses = True
            consumer.let("read_ids") if consumer.gates.waits else consumer.serve(claims)
            consumer.refuses = False
            return
        consumer.was_lost, consumer.losses = True, consumer.losses + 1
        consumer.lose(Link.SUSPENDED)
        if not consumer.is_cut:
            consumer.connect()

    # ── Records and offsets ─────────────────────────────────────────────────────────────────

    def produce(self, p: Partition) -> None:
        """A record is appended."""
        self.ends[p.index] += 1

    def pull(self, m: Member, p: Partition) -> None:
        """A fetcher has the next record."""
        consumer, info = self._fetching(m, p)
        if not consumer.fetched[named(p)] == info.consumed_offset < self.ends[p.index]:
            raise Refused("there is none, or it has it")
        consumer.fetched[named(p)] += 1

    def finish(self, m: Member, p: Partition) -> None:
        """The application has finished with it."""
        consumer, info = self._fetching(m, p)
        then = consumer.fetched[named(p)]
        if then == info.consumed_offset:
            raise Refused("it has none")
        consumer.give(Consumed(Offset(*named(p), then), consumer.core.registry.generation))
        self.finished[p.index] = max(self.finished[p.index], info.consumed_offset)

    def _fetching(self, m: Member, p: Partition) -> tuple[GatedConsumer, PartitionTopicInfo]:
        consumer = self._of(m, CONNECTED, SUSPENDED, Session.EXPIRED)
        info = consumer.core.registry.find(*named(p))
        if info is None or not consumer.core.registry.is_fetching:
            raise Refused("it does not fetch it")
        return consumer, info

    def commit(self, m: Member) -> None:
        """Its user commits."""
        consumer = self._of(m, CONNECTED)
        consumer.commits += 1
        consumer.give(CommitAsked(consumer.commits))

    # ── What is seen ────────────────────────────────────────────────────────────────────────

    def observe(self) -> dict[str, Any]:
        """Nodes, sessions, cores; before, watches have told whoever is connected."""
        for consumer in self.consumers:
            if self._session(consumer) is CONNECTED and consumer is not None:
                consumer.give(*map(Fired, self.zookeeper.take_events(consumer.session)))
        nodes = self.zookeeper.snapshot().nodes
        owners = {p: nodes.get(DIRS.owner(named(p))) for p in Partition}
        look: dict[str, Any] = {
            "exists": {p: topic_path(named(p)[0]) in nodes for p in Partition},
            "owner": {p: node and Member(self.members[node.owner]) for p, node in owners.items()},
            "version": {p: nodes[DIRS.claim(named(p))].version for p in Partition},
            "committed": {p: read_offset(nodes[DIRS.offset(named(p))].data) for p in Partition},
            "end": {p: self.ends[p.index] for p in Partition},
            "finished": {p: self.finished[p.index] for p in Partition},
            "rank": {m: self.order[m.index] for m in Member},
            "session": {m: self._session(self.consumers[m.index]) for m in Member},
            "registered": {m: DIRS.id(f"c{self.order[m.index]}") in nodes for m in Member},
        }
        for m in Member:
            consumer = self.consumers[m.index]
            if consumer is not None and not consumer.is_dead:
                self._see(look, m, consumer)
        return look

    def _see(self, look: dict[str, Any], m: Member, consumer: GatedConsumer) -> None:
        """What a consumer knows and does, and what ZooKeeper keeps for it."""
        core, phase = consumer.core, consumer.phase
        seen: dict[str, Any] = {
            "phase": phase,
            "attempts": min(core.rebalances.attempts + consumer.losses, RETRIES),
        }
        if consumer.hears:
            of_ids, *of_topics = consumer.watches()
            seen |= {"watches_ids": of_ids, "watches_topics": all(of_topics)}
            if phase is not Rebalance.BACKING_OFF and look["session"][m] is CONNECTED:
                seen["due"] = core.rebalances.is_due
        for name, value in seen.items():
            look.setdefault(name, {})[m] = value
        for p in Partition:
            for name, value in self._seen_of(consumer, phase, p):
                look.setdefault(name, {})[m, p] = value

    def _seen_of(
        self, consumer: GatedConsumer, phase: Rebalance, p: Partition
    ) -> Iterator[tuple[str, Any]]:
        """The same, of one partition."""
        core, (topic, _) = consumer.core, named(p)
        registry, rebalances = core.registry, core.rebalances
        claim, info = rebalances.owned.claims.get(named(p)), registry.find(*named(p))
        wants = bool(core.context.registration.threads(topic))
        kept = self.zookeeper.snapshot().sessions[consumer.session]
        path = DIRS.owner(named(p))
        yield "interest", wants
        yield "waits", path in rebalances.owned.waits and path in kept.data_watches
        yield "planned", claim is not None
        yield "registry", info is not None
        yield "fetching", info is not None and registry.is_fetching
        if wants and phase is Rebalance.IDS:
            yield "seen", bool(rebalances.read.partitions[topic])
        if claim is not None or phase not in LEAVES:
            yield "token", claim.token if claim else 0
        if info is not None:
            yield "consumed", info.consumed_offset
            fetches = registry.is_fetching
            yield "fetched", consumer.fetched[named(p)] if fetches else info.consumed_offset
        elif phase not in LEAVES:
            read = rebalances.offsets.stored.get(named(p)) if phase is Rebalance.STARTING else None
            for name in ("fetched", "consumed"):
                yield name, read.offset if read else 0

    # ── Going back ──────────────────────────────────────────────────────────────────────────

    def snapshot(self) -> bytes:
        """All of it."""
        return pickle.dumps(vars(self), pickle.HIGHEST_PROTOCOL)

    def restore(self, snapshot: bytes) -> None:
        """Be there again."""
        vars(self).update(pickle.loads(snapshot))


def _step(name: str) -> Callable[[RebalancingCores, Member], None]:
    def step(self: RebalancingCores, m: Member) -> None:
        self._of(m, CONNECTED).let(name)

    return step


for _name in ("commit_offsets", "read_topics", "read_offsets", "start_fetchers"):
    setattr(RebalancingCores, _name, _step(_name))
