"""
The cores of system B in their gated world, as an adapter of the central coordinator's spec.

What cannot be seen, by name: `election.stale_write_accepted` and `stale_commit_accepted` (what the
properties alone look at), `term` but while requests are under way, `interest` and `acked` of whom
no coordinator knows, `stopped` but while Stops are out, `noted` and `sent` what is stored already,
`begin` of what a Start does not give, `dirty` while a lease is waited for (or was, until it was
over, or its member resumed), and of a flag that is clear where a topic concerns nobody, a group is
new, or a back-off was cut short, `barred` of whom a refusal may wait for. A group that nobody is in
counts as idle, whatever its core still waits for.

A ping that is sent before its sender hears of a new generation says the one before, where the spec
has it say ZooKeeper's: nobody reads it, so it is not compared.
A write of a commit is sent at once; another one waits for the answer to the one before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from herdproof.conformance.adapter import PickledAdapter, Refused, forwards
from herdproof.consuming.kafka_nodes import read_offset
from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.coordinator.groups import Group
from herdproof.protocols.central_coordinator.coordinator.groups import Phase as CorePhase
from herdproof.protocols.central_coordinator.coordinator.members.recovery import (
    read_owner,
    read_point,
)
from herdproof.protocols.central_coordinator.coordinator.rebalancing.necessity import Necessity
from herdproof.protocols.central_coordinator.coordinator.socket_server import Channel
from herdproof.protocols.central_coordinator.held.loaded import a_coordinator_has_just_begun, load
from herdproof.protocols.central_coordinator.simulated.gated import HIDDEN, GatedCentral
from herdproof.protocols.central_coordinator.simulated.gates import (
    GROUP,
    GatedConnection,
    Request,
    topic_of,
)
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.wire import messages
from herdproof.protocols.central_coordinator.wire.messages import Frame
from herdproof.protocols.election.gated import Impossible
from herdspec.protocols.central_coordinator.properties import HELD
from herdspec.protocols.central_coordinator.spec import (
    Asked,
    Kind,
    Member,
    Message,
    Partition,
    Phase,
    Write,
)
from herdspec.protocols.election.spec import Broker

AS_THE_SPEC = {CorePhase.WAITING: Phase.QUEUED, CorePhase.FLUSHING: Phase.STOPPING}
"""The spec's names for the core's phases that it has none of; others go by their own."""
WRITES = (
    "on_lost_connection", "time_out", "cut", "begin_rebalance", "abandon_rebalance", "requeue",
    "answered", "handle_stop_response", "handle_start_response", "handle_ping_response",
    "handle_commit",
)  # fmt: skip
"""
Within which a coordinator may write; of one whose epoch is over that is refused.

A group that nobody is in may be given up: then its last offsets are written.
"""
LOOKS = (
    "handle_register", "handle_closed", "fail", "topic_change_listener", "finish_rebalance",
    "fail_rebalance", "lose_answer",
)  # fmt: skip
"""After which the spec looks once more, and the core does not: nobody is left, or concerned."""


@forwards(HELD)
class CentralCores(PickledAdapter):
    """Coordinators and consumers, each with a real core; the test decides what comes when."""

    refusals = (Refused, Impossible)
    timeout = None
    offered: ClassVar[tuple[str, ...]] = (
        "write_owners", "serve_owners", "finish_rebalance", "handle_ping", "handle_stop",
        "handle_start", "requeue", "consume",
    )  # fmt: skip
    silent: ClassVar[tuple[str, ...]] = (
        "begin_rebalance", "send_stop", "send_start", "flush_offsets", "write_owners",
        "finish_rebalance", "abandon_rebalance", "fail_rebalance", "requeue", "step_down",
        "on_lost_connection", "serve_owners", "serve_offsets", "refuse_stale", "answered",
    )  # fmt: skip
    undue: ClassVar[tuple[str, ...]] = ("on_lost_connection",)
    absent: ClassVar = {
        "refuse": "nobody but the coordinators writes what they write",
    }
    pumped = True
    follows: ClassVar = {
        **dict.fromkeys(WRITES, ("flush_offsets", "step_down")),
        **dict.fromkeys(LOOKS, (
            "finish_rebalance", "requeue", "begin_rebalance", "fail_rebalance", "flush_offsets",
            "step_down",
        )),
    }  # fmt: skip
    """Writes are served at once; who hears that its epoch is over steps down at once."""
    reluctant: ClassVar[tuple[str, ...]] = (
        "begin_rebalance", "write_owners", "abandon_rebalance", "fail_rebalance",
        "handle_register", "flush_offsets",
    )  # fmt: skip
    """Leases are waited for before a rebalance begins, and before one is given up."""
    chosen: ClassVar = {"write_owners": ("plan",), "serve_owners": ("plan",)}
    switches: ClassVar[frozenset[str]] = frozenset()
    """The mistakes of the cores."""
    loadable = a_coordinator_has_just_begun
    world_of: ClassVar[Callable[..., GatedCentral]] = GatedCentral
    """Makes the world; another one for cores with a mistake."""

    def begin(self, Broker: int, Member: int, Partition: int) -> None:  # noqa: N803 - sorts
        """Begin with brokers, members, and partitions, the first of which is there."""
        self.world = type(self).world_of(Broker, Member, Partition, there=[0])

    def start(self, state: Any) -> None:
        """Begin with the partitions that are there in this initial state."""
        there = [p.index for p, exists in state.exists.items() if exists]
        world = self.world
        sizes = len(world.brokers), len(world.members), len(world.partitions)
        self.world = type(self).world_of(*sizes, there=there)

    def load(self, state: Any) -> None:
        """Be in a state in which whoever coordinates has just begun."""
        self.start(state)
        load(self.world, state)

    # ── The rebalance ───────────────────────────────────────────────────────────────────────

    def begin_rebalance(self, b: Broker, uneven: bool) -> None:
        """A handler takes the group; whether its shares are uneven is given."""
        world, group = self.world, self.world.brokers[b.index].group
        if group is None or self._phase(b) is not Phase.QUEUED:
            raise Refused("the group is not queued")
        if group.members:
            if group.ghosts:
                raise Refused("somebody who is gone may still fetch")
            if not uneven and self._is_only_uneven(b, group):
                raise Refused("shares are uneven")
        world.begin_rebalance(b.index, uneven=uneven)

    def _is_only_uneven(self, b: Broker, group: Group) -> bool:
        """True if all have started what they own, and the plan is another; or it gives nothing."""
        why = self.world.why_necessary(b.index)
        plan = self.world.brokers[b.index].core.rebalancer.plan(group)
        if why is not Necessity.MISMATCH:
            is_queued = group.phase is not CorePhase.IDLE
            return why is not None and is_queued and not (group.generation or plan)
        return all(member.acked == group.generation for member in group.members.values()) and all(
            owner.registration in group.members
            and group.members[owner.registration].subscription.streams(topic)
            for (topic, _), owner in group.owners.items()
        )

    def flush_offsets(self, b: Broker, again: bool) -> None:
        """Write what was told; no write is left undone."""
        if again:
            raise Refused("no write was left undone")
        self.world.flush_offsets(b.index)

    def write_owners(self, b: Broker) -> dict[Partition, Member]:
        """The barrier is passed; returns who is to own what, somebody where that is nobody."""
        return self._write_owners(b)

    def _write_owners(
        self, b: Broker, plan: dict[Partition, Member] | None = None
    ) -> dict[Partition, Member]:  # fmt: skip
        """The barrier is passed, and owners are written by this plan, or by the core's own."""
        broker = self.world.brokers[b.index]
        group = broker.group
        if group is None or not group.members or of_core(group.phase) is not Phase.STOPPING:
            raise Refused("nobody is stopped")
        if self._has_unwritten(b):
            raise Refused("offsets are written before")
        self.world.pass_barrier(b.index, self._of_those_wanted(b, plan) if plan else None)
        if broker.request is None:
            raise Refused("no generation is written")
        heirs = self._heirs(broker.request.step)
        return {p: heirs.get(p.index, Member(0)) for p in Partition}

    def _has_unwritten(self, b: Broker) -> bool:
        """True if offsets were told that are to be written before owners are."""
        return bool(self.world.brokers[b.index].core.offsets.unwritten.get(GROUP))

    def _of_those_wanted(self, b: Broker, plan: dict[Partition, Member]) -> dict[int, int]:
        """Of a plan, in which somebody stands for nobody, what members of a group want."""
        group = self.world.brokers[b.index].group
        known = self.world.brokers[b.index].core.topics.topics
        wants = [m.subscription for m in group.members.values()] if group else []
        return {
            p.index: m.index for p, m in plan.items()
            if (topic := topic_of(p.index)) in known and any(w.streams(topic) for w in wants)
        }  # fmt: skip

    def _heirs(self, step: CoordinationStep) -> dict[int, Member]:
        """Whom the owners that are sent name, by the partition's number."""
        return {
            int(topic.removeprefix("t")): Member(self.world.registered[one][0])
            for topic, _, one in step.owners
        }

    def serve_owners(self, b: Broker) -> dict[Partition, Member | None]:
        """ZooKeeper writes generation and owners; returns whom it names."""
        self.world.serve_owners(b.index)
        return self._owners()

    def finish_rebalance(self, b: Broker) -> None:
        """Everybody has started."""
        self._pass(b, CorePhase.STARTING)

    def abandon_rebalance(self, b: Broker) -> None:
        """Nobody is left; if the group was queued once more, that is seen at once, too."""
        self._pass(b, CorePhase.STOPPING)
        self.world.begin_rebalance(b.index)

    def _pass(self, b: Broker, phase: CorePhase) -> None:
        group = self.world.brokers[b.index].group
        if group is None or group.phase is not phase:
            raise Refused("the rebalance is not so far")
        self.world.pass_barrier(b.index)
        if group.phase is phase:
            raise Refused("somebody has not answered")

    # ── By itself ───────────────────────────────────────────────────────────────────────────

    def pump(self) -> None:
        """Every coordinator goes on, as far as it can without an answer."""
        self.world.go_on(steps_down="step_down" in self.silent)

    # ── What is seen ────────────────────────────────────────────────────────────────────────

    def observe(self) -> dict[str, Any]:
        """Nodes, cores, and connections."""
        world = self.world
        look: dict[str, Any] = defaultdict(dict)
        look |= {
            "seat": None if world.seat is None else Broker(world.seat),
            "exists": {p: world.exists(p.index) for p in Partition},
            "generation": self._generation(),
            "owner": self._owners(),
            "orphan": {p: self._is_orphan(p) for p in Partition},
            "committed": {p: self._committed(p) for p in Partition},
            "end": {p: world.ends[p.index] for p in Partition},
            "finished": {p: world.finished[p.index] for p in Partition},
            "election.epoch": world.epoch,
            "election.elected": None if world.elected is None else Broker(world.elected),
            "election.won": {b: world.brokers[b.index].won for b in Broker},
            "election.token": {b: world.brokers[b.index].token for b in Broker},
            "election.leads": {b: self._leads(b) for b in Broker},
        }
        self._see_consumers(look)
        self._see_books(look)
        for b in Broker:
            self._see_coordinator(look, b)
        return look

    def _leads(self, b: Broker) -> bool:
        """True if a broker's core is seen to lead."""
        return self.world.brokers[b.index].coordinates

    def _see_consumers(self, look: dict[str, Any]) -> None:
        """Look at what travels, and at what consumers know."""
        for m in Member:
            member = self.world.members[m.index]
            connection = member.connection
            core = member.core
            look["via"][m] = None if connection is None else Broker(connection.broker)
            look["seen"][m] = core.consumption.epoch
            look["at"][m] = core.consumption.generation
            connector = core.connector
            is_answered = connector is None or connector.registered or not connector.member
            if is_answered or (connection and connection.stands):
                look["barred"][m] = connector.barred if connector else 0
            for p in Partition:
                look["fetching"][m, p] = member.is_fetching(p.index)
                look["position"][m, p] = member.position(p.index)
            self._see_connection(look, m, self.world.connection(m.index))

    def _see_connection(
        self, look: dict[str, Any], m: Member, connection: GatedConnection | None
    ) -> None:
        look["link"][m] = connection is not None and connection.stands
        up, down = (connection.up, connection.down) if connection else ((), ())
        look["up"][m] = shown(up)
        if not (down and connection and connection.lags):
            look["down"][m] = shown(down)
        for frame in down:
            if not isinstance(frame.message, HIDDEN):
                look["term"][m] = frame.epoch
        given = numbers(connection.start.partitions) if connection and connection.start else {}
        reported, *_ = [*told(up, messages.PingResponse, messages.StopResponse), {}]
        commits = told(up, messages.Commit)
        for p in Partition:
            look["given"][m, p] = p.index in given
            look["reported"][m, p] = reported.get(p.index, 0)
            look["committing"][m, p] = [offsets.get(p.index, 0) for offsets in commits]
            if p.index in given:
                look["begin"][m, p] = given[p.index]

    def _see_books(self, look: dict[str, Any]) -> None:
        """Look at what coordinators have in their books of their members."""
        look["books"] = dict.fromkeys(Member)
        look["asked"] = dict.fromkeys(Member, Asked.NONE)
        look["heir"] = {(m, p): None for m in Member for p in Partition}
        for b in Broker:
            group = self.world.brokers[b.index].group
            for connection, channel in self.world.booked(b.index):
                m, member = Member(connection.member), channel.member
                assert group is not None and member is not None, "it is in the books"  # noqa: PT018
                look["books"][m] = b
                if channel.outstanding is not None:
                    look["asked"][m] = named(Asked, channel.outstanding.request)
                for p in Partition:
                    look["interest"][m, p] = bool(member.subscription.streams(topic_of(p.index)))
                if group.phase is CorePhase.STOPPING:
                    look["stopped"][m] = member.registration not in group.waiting
                if not stops(channel):
                    look["acked"][m] = member.acked

    def _see_coordinator(self, look: dict[str, Any], b: Broker) -> None:
        broker = self.world.brokers[b.index]
        self._see_write(look, b)
        look["phase"][b] = self._phase(b)
        flag = broker.core.groups_being_rebalanced.get(GROUP)
        if flag is not None and not self._has_waited(b) and (flag.dirty or self._heeds_all(b)):
            look["dirty"][b] = flag.dirty
        known = broker.core.offsets.known.get(GROUP, {})
        for p in Partition:
            topic = topic_of(p.index)
            look["knows"][b, p] = topic in broker.core.topics.topics
            if known.get((topic, "0"), 0) > look["committed"][p]:
                look["noted"][b, p] = known[topic, "0"]

    def _see_write(self, look: dict[str, Any], b: Broker) -> None:
        """Look at the write on its way to ZooKeeper; what was sent before only while another is."""
        request = self.world.brokers[b.index].request
        look["write"][b] = written(request)
        step = request.step if request and request.answer is None else None
        heirs = self._heirs(step) if step else {}
        sent = numbers(step.partitions) if step else {}
        for p in Partition:
            look["assigned"][b, p] = p.index in heirs
            if p.index in heirs:
                look["heir"][heirs[p.index], p] = b
            is_again = sent.get(p.index) == look["committed"][p]
            if (step is not None and not is_again) or (request and request.is_done):
                look["sent"][b, p] = sent.get(p.index, 0)

    def _has_waited(self, b: Broker) -> bool:
        """True if a queued group waits for leases, or has, or may have until a member resumed."""
        broker = self.world.brokers[b.index]
        group = broker.group
        return (
            group is not None
            and is_queued(group)
            and (
                bool(group.ghosts)
                or broker.outwaited
                or any(member.resumed for member in group.members.values())
            )
        )

    def _heeds_all(self, b: Broker) -> bool:
        """True if a coordinator's group heeds all that comes: it is not new, nor backs off."""
        group = self.world.brokers[b.index].group
        if group is None or group.phase is CorePhase.IDLE or self._is_new(b):
            return False
        if group.failures and group.phase is CorePhase.QUEUED:
            return False  # what comes during a back-off queues the group, and ends that
        subscriptions = [member.subscription for member in group.members.values()]
        return bool(subscriptions) and all(
            any(s.streams(topic_of(p.index)) for s in subscriptions) for p in Partition
        )

    def _is_new(self, b: Broker) -> bool:
        """True if nobody has looked yet if there is anything to consume for a new group."""
        broker = self.world.brokers[b.index]
        return broker.gates.new is not None and broker.gates.new is broker.group

    def _phase(self, b: Broker) -> Phase:
        """The phase of a coordinator; where nobody is in its group: idle, but for what runs."""
        group = self.world.brokers[b.index].group
        if group is None:
            return Phase.IDLE
        if group.phase is CorePhase.WAITING and not group.members:
            return Phase.IDLE
        if self.world.has_failed(b.index):
            return Phase.FAILED
        if group.phase is CorePhase.IDLE and self._is_new(b):
            return Phase.QUEUED
        return of_core(group.phase)

    # ── ZooKeeper's nodes ───────────────────────────────────────────────────────────────────

    def _generation(self) -> int:
        data = self.world.data(self.world.paths.group(GROUP))
        return read_point(data or b"")[0]

    def _registered(self, p: Partition) -> tuple[int, int] | None:
        """The owner of a partition, and its life."""
        data = self.world.data(self.world.paths.owner(GROUP, topic_of(p.index), "0"))
        return None if data is None else self.world.registered[read_owner(data).registration]

    def _owners(self) -> dict[Partition, Member | None]:
        found = {p: self._registered(p) for p in Partition}
        return {p: Member(owner[0]) if owner else None for p, owner in found.items()}

    def _is_orphan(self, p: Partition) -> bool:
        owner = self._registered(p)
        return owner is not None and owner[1] < self.world.members[owner[0]].life

    def _committed(self, p: Partition) -> int:
        data = self.world.data(self.world.paths.offset(GROUP, topic_of(p.index), "0"))
        return read_offset(data or b"0")


def is_queued(group: Group | None) -> bool:
    """True if it is a group that is queued for a rebalance."""
    return group is not None and of_core(group.phase) is Phase.QUEUED


def written(request: Request | None) -> Write:
    """The stage of a write."""
    if request is None:
        return Write.NONE
    if request.answer is not None:
        return Write.DONE if request.is_done else Write.REFUSED
    return Write.OWNERS if request.step.action == "write_owners" else Write.OFFSETS


def shown(frames: Any) -> list[Message]:
    """Frames under way, as the spec has them."""
    return [message(frame) for frame in frames if not isinstance(frame.message, HIDDEN)]


def message(frame: Frame) -> Message:
    """A frame, as the spec has it."""
    return Message(kind=named(Kind, frame.message), generation=frame.generation)


def named(kinds: type[Kind | Asked], message: object) -> Any:
    """The spec's name of a message; an answer as it calls the request."""
    return kinds[type(message).__name__.removesuffix("Response").upper()]


def of_core(phase: CorePhase) -> Phase:
    """A core's phase, as the spec has it."""
    return AS_THE_SPEC.get(phase) or Phase[phase.name]


def told(frames: Iterable[Frame], *kinds: type[Any]) -> list[dict[int, int]]:
    """The offsets that frames of these kinds tell, by the partition's number."""
    some = (frame.message for frame in frames if isinstance(frame.message, kinds))
    return [numbers(message.offsets or ()) for message in some]


def numbers(offsets: tuple[Offset, ...]) -> dict[int, int]:
    """Offsets by the partition's number."""
    return {int(offset.topic.removeprefix("t")): offset.offset for offset in offsets}


def stops(channel: Channel) -> bool:
    """True if a Stop is outstanding, or waits: from then on the books say that none follows."""
    waiting = [*channel.queue, *([channel.outstanding] if channel.outstanding else [])]
    return any(isinstance(one.request, messages.Stop) for one in waiting)
