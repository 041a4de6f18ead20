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

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from herdproof.conformance.adapter import PickledAdapter, forwards, varied
from herdproof.consuming.events import Answered, Tick
from herdproof.consuming.kafka_nodes import read_offset
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.held.flawed import connector_with
from herdproof.protocols.self_rebalancing.registries import paths
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings
from herdproof.protocols.self_rebalancing.simulated.gated import (
    DIRS,
    GatedConsumer,
    GatedRebalancing,
    named,
    owner,
)
from herdproof.zookeeper.operations import Refusal, Why
from herdspec.language.specification import Specification
from herdspec.protocols.self_rebalancing.properties import HELD
from herdspec.protocols.self_rebalancing.spec import RETRIES, Member, Partition, Rebalance, Session

SETTINGS = ConnectorSettings(rebalance_max_retries=RETRIES, auto_commit_interval_ms=2**40)
LEAVES = (Rebalance.BACKING_OFF, Rebalance.COMMITTING, Rebalance.RELEASING)
"""The phases in which something of what was before may be left."""


@forwards(HELD)
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
        """Begin with consumers, which are not there yet, and partitions, the first of which is."""
        self._begin(range(Member), [k == 0 for k in range(Partition)])

    def start(self, state: Any) -> None:
        """Begin with the partitions that are there in this initial state, and this order."""
        self._begin([*state.rank.values()], [*state.exists.values()])

    def _begin(self, order: Sequence[int], there: Sequence[bool]) -> None:
        self.world = GatedRebalancing(type(self).connector, SETTINGS, order, there)

    def read_ids(self, m: Member) -> set[Partition]:
        """Who is there is read; returns what is the member's."""
        return {Partition(p) for p in self.world.read_ids(m.index)}

    # ── What is seen ────────────────────────────────────────────────────────────────────────

    def observe(self) -> dict[str, Any]:
        """Nodes, sessions, cores; before, watches have told whoever is connected."""
        world, sessions = self.world, {m: self._session(m) for m in Member}
        world.notify()
        nodes = world.zookeeper.snapshot().nodes
        whose = {consumer.session: Member(m) for m, consumer in world.consumers.items()}
        owners = {p: nodes.get(owner(p.index)) for p in Partition}
        look: dict[str, Any] = {
            "exists": {p: paths.topic_path(named(p.index)[0]) in nodes for p in Partition},
            "owner": {p: node and whose[node.owner] for p, node in owners.items()},
            "version": {p: nodes[DIRS.claim(named(p.index))].version for p in Partition},
            "committed": {
                p: read_offset(nodes[DIRS.offset(named(p.index))].data) for p in Partition
            },
            "end": {p: world.ends[p.index] for p in Partition},
            "finished": {p: world.finished[p.index] for p in Partition},
            "rank": {m: world.order[m.index] for m in Member},
            "session": sessions,
            "registered": {m: DIRS.id(f"c{world.order[m.index]}") in nodes for m in Member},
        }
        for m, consumer in world.consumers.items():
            if not consumer.is_dead:
                self._see(look, Member(m), consumer)
        return look

    def _session(self, m: Member) -> Session:
        consumer = self.world.consumers.get(m.index)
        if consumer is None or consumer.is_dead:
            return Session.DEAD if consumer else Session.NONE
        if not self.world.zookeeper.alive(consumer.session):
            return Session.EXPIRED
        return Session.SUSPENDED if consumer.is_cut else Session.CONNECTED

    def _see(self, look: dict[str, Any], m: Member, consumer: GatedConsumer) -> None:
        """Note what a consumer knows and does, and what ZooKeeper keeps for it."""
        phase, rebalances = Rebalance[consumer.phase], consumer.rebalances
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
    """The fields of a partition at a consumer, with their values: what it knows and does."""
    registry, rebalances = consumer.core.registry, consumer.rebalances
    of, node = named(p.index), owner(p.index)
    claim, info = rebalances.owned.claims.get(of), registry.find(*of)
    wants = paths.topic_path(of[0]) in consumer.topics
    yield "interest", wants
    yield "waits", node in rebalances.owned.waits and node in consumer.watched
    yield "registry", info is not None
    yield "fetching", of in consumer.fetched and consumer.core.may_deliver(consumer.now_ms)
    if phase is not Rebalance.OFFSETS:
        yield "planned", claim is not None
    if wants and phase is Rebalance.IDS:
        yield "seen", bool(rebalances.read.partitions[of[0]])
    if claim is not None or phase not in LEAVES:
        yield "token", claim.token if claim else 0
    at = info.consumed_offset if info else 0
    if phase is Rebalance.STARTING:
        stored = rebalances.offsets.stored.get(of)
        at = stored.offset if stored else 0
    if info is not None or phase not in (*LEAVES, Rebalance.CLAIMING):
        yield "consumed", at
        if info is not None or of not in consumer.fetched:  # flawed, it may fetch on
            yield "fetched", consumer.fetched.get(of, at)


def start_at_once(self: RebalancingCores, m: Member) -> None:
    """Everything is claimed, and its offsets were read before."""
    for step in ("read_offsets", "start_fetchers"):
        self.world.let(m.index, step)


def renew_watches(self: RebalancingCores, m: Member) -> None:
    """It watches what it has read."""
    consumer = self.world.consumers[m.index]
    consumer.later.look("renew_watches")
    consumer.give(Tick())


def refuse_claim(self: RebalancingCores, m: Member, p: Partition) -> None:
    """A claim whose answer did not come is sent once more, as the client of Kafka 0.8 does."""
    late = self.world.consumers[m.index].late.pop(owner(p.index), None)
    if late is None:
        self.world.claim(m.index, p.index)
    else:
        self.world.consumers[m.index].give(Answered(late.number, Refusal(Why.NODE_EXISTS, 0)))


def pull_at_once(self: RebalancingCores, m: Member) -> None:
    """It pulls, whatever is in its way."""
    consumer = self.world.consumers[m.index]
    consumer.gates.waits = ""
    consumer.look("claims_wait", Tick())


VARIED: Mapping[str, Mapping[str, Callable[..., None]]] = {
    "stale_start": {"start_fetchers": start_at_once},
    "lost_wake_up": {"renew_watches": renew_watches},
    "self_conflict": {"refuse_claim": refuse_claim},
    "pulled_before_owned": {"read_offsets": pull_at_once},
}
"""Methods of actions that cores with a mistake take otherwise."""


def cores(switches: frozenset[str], spec: Specification) -> type[RebalancingCores]:
    """The adapter of cores with these mistakes, for a variant of the spec that has them, too."""
    if not switches and {a.name for a in spec.actions} == {a.name for a in HELD.actions}:
        return RebalancingCores
    methods = {name: do for flaw in sorted(switches) for name, do in VARIED.get(flaw, {}).items()}
    code = type("RebalancingCores", (RebalancingCores,), methods)
    return varied(code, HELD, spec, connector=connector_with(switches), switches=switches)
