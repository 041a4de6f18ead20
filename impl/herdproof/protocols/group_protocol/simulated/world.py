"""
The deterministic world of the group protocol: brokers, members, ZooKeeper, and what goes wrong.

    run = GroupRun(seed=7)
    run.live()

One seed is one run: `digest` is the same, whenever it is lived through. Brokers run the very cores
that the real ones run. The last part of a run is quiet: there the group has to settle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from herdproof.protocols.election.elector import read_leader
from herdproof.protocols.group_protocol.client.assignors.assignor import PartitionAssignor
from herdproof.protocols.group_protocol.client.assignors.named import ASSIGNORS
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.events import Node
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.simulated.broker import SimulatedGroupBroker
from herdproof.protocols.group_protocol.simulated.eyes import GroupEyes
from herdproof.protocols.group_protocol.simulated.member import GROUP, SimulatedGroupMember
from herdproof.protocols.group_protocol.simulated.random_runs import (
    GroupRunConfig,
    GroupTrouble,
    Mishap,
    draw_group_settings,
    draw_group_troubles,
)
from herdproof.protocols.group_protocol.stores.zookeeper import GroupPaths, read_groups
from herdproof.simulator.clock import Clock, Timeline
from herdproof.simulator.kafka import IDS, TOPICS, Kafka
from herdproof.simulator.log import Line, digest
from herdproof.simulator.network import Lateness, Network
from herdproof.simulator.process import Process
from herdproof.simulator.session import HOST, Open, SimulatedClient, SimulatedService

Observes = Callable[[Process, object, Sequence[object]], None]
"""Told of a process of a broker, of what its core was given, and of what that has led to."""
DEFAULT = GroupRunConfig()
NOBODY = GroupEyes()


def node_of(number: int) -> Node:
    """A broker, as clients know it."""
    return Node(number, f"broker{number}", 1)


PRODUCE_MS = 700.0
"""Every so often, about, a record is produced somewhere."""
MOST_PARTITIONS = 6


class GroupRun:
    """One run; `troubles` take the place of those that the seed would draw."""

    def __init__(
        self, seed: int, config: GroupRunConfig = DEFAULT, eyes: GroupEyes = NOBODY,
        coordinator: type[GroupCoordinator] = GroupCoordinator,
        troubles: Sequence[GroupTrouble] | None = None,
        client: type[GroupConsumer] = GroupConsumer,
        assignors: Callable[[], tuple[PartitionAssignor, ...]] | None = None,
        observe: Observes | None = None,
    ) -> None:  # fmt: skip
        self.seed = seed
        self.config = config
        self.eyes = eyes
        self.coordinator = coordinator
        self.client = client
        self.assignors = assignors or (lambda: (ASSIGNORS[config.assignor](),))
        self.observe = observe
        self.troubles = draw_group_troubles(config, seed) if troubles is None else tuple(troubles)
        self.settings = draw_group_settings(config, seed)
        self.zookeeper_timeout_ms = config.zookeeper_timeout_ms
        self.paths = GroupPaths()
        self.chance = Random(f"{seed}/world")
        self.timeline = Timeline()
        self.network = Network(self.timeline, Random(f"{seed}/network"), Lateness())
        self.service = SimulatedService(self.timeline, self.network, Random(f"{seed}/zookeeper"))
        self.service.wrote = self._wrote
        self.kafka = Kafka(self.service)
        self.log: list[Line] = []
        self.names: dict[str, str] = {}
        """Of each member id, the member that it was given to."""
        self.brokers: list[SimulatedGroupBroker] = []
        self.members: list[SimulatedGroupMember] = []
        self.twice: set[str] = set()
        """The names under which two processes have run at a time."""
        self.quiet = False
        self._lives = 0
        self._producing = Random(f"{seed}/records")

    @property
    def digest(self) -> str:
        """A number of all that happened: two runs with the same one were the same."""
        return digest(self.log, type(None))

    def live(self) -> None:
        """Live through the whole of it."""
        self.begin()
        self.timeline.run_until(self.config.duration_ms - self.config.quiet_ms)
        self.quiet = True
        self.timeline.run_until(self.config.duration_ms)

    def begin(self) -> None:
        """Everybody who takes part from the beginning starts; what is to happen is planned."""
        self.kafka.prepare((f"{IDS}/0", TOPICS, self.paths.election.epoch))
        self.kafka.create_topic("logs", 2)
        self.kafka.create_topic("orders", 3)
        self.eyes.partitions(self.kafka.topics)
        for number in range(1, self.config.brokers + 1):
            self.start_broker(number)
            self.network.listening[f"broker{number}", 1] = self._listener(number)
        for number in range(1, self.config.members + 1):
            self.start_member(number, f"till-{number}" if number <= self.config.statics else None)
        for trouble in self.troubles:
            self.timeline.at(trouble.at_ms, self.strike, trouble)
        self.timeline.after(PRODUCE_MS, self._produce)

    def nodes(self) -> list[Node]:
        """The brokers."""
        return [node_of(number) for number in range(1, self.config.brokers + 1)]

    def leader(self) -> Node | None:
        """The broker that the election's node names, if any."""
        nodes = self.service.zookeeper.snapshot().nodes
        leader = nodes.get(self.paths.election.leader)
        return None if leader is None else node_of(int(read_leader(leader.data)[0]))

    def note(self, who: Process, event: object, effects: Sequence[object]) -> None:
        """Something happened to a process."""
        self.log.append((self.timeline.now, who.name, event, effects))
        if self.observe is not None:
            self.observe(who, event, effects)

    def consumed_by(self) -> dict[TopicPartition, list[str]]:
        """Who consumes each partition."""
        return {
            (topic, number): [m.name for m in self.members if m.consumes((topic, number))]
            for topic, partitions in self.kafka.topics.items()
            for number in range(partitions)
        }

    # ── Who takes part ──────────────────────────────────────────────────────────────────────

    def start_broker(self, number: int) -> None:
        """A broker's process starts, in the place of the one that was."""
        self._lives += 1
        broker = SimulatedGroupBroker(self, number, self._lives, self._clock())
        if number > len(self.brokers):
            self.brokers.append(broker)
        else:
            self.brokers[number - 1] = broker

    def start_member(self, number: int, instance: str | None = None) -> None:
        """A member's process starts, in the place of the one that was; under a name, if static."""
        self._lives += 1
        member = SimulatedGroupMember(self, number, self._lives, self._clock(), instance)
        if number > len(self.members):
            self.members.append(member)
        else:
            self.members[number - 1] = member

    def _listener(self, number: int) -> Callable[[], SimulatedGroupBroker | None]:
        def listener() -> SimulatedGroupBroker | None:
            broker = self.brokers[number - 1]
            return broker if broker.alive else None

        return listener

    def _clock(self) -> Clock:
        return Clock(
            self.timeline,
            start_ms=self.chance.uniform(1_000_000.0, 2_000_000.0),
            rate=self.chance.uniform(1 - self.config.drift, 1 + self.config.drift),
        )

    def _wrote(self, client: SimulatedClient, opened: Open) -> None:
        nodes = self.service.zookeeper.snapshot().nodes
        won = nodes[self.paths.election.epoch]
        if won.version:
            self.eyes.epoch(won.version, f"broker{won.data.decode()}")
        if opened.coordinates:
            groups = read_groups(self.paths, {path: node.data for path, node in nodes.items()})
            if GROUP in groups:
                self.eyes.stored(client.host.name, groups[GROUP], self.names)

    def _produce(self) -> None:
        if self.quiet:
            return
        chance = self._producing
        partitions = list(self.kafka.logs)
        self.kafka.append(partitions[chance.randrange(len(partitions))], chance.randrange(1, 3))
        self.timeline.after(2 * PRODUCE_MS * chance.random(), self._produce)

    # ── What goes wrong ─────────────────────────────────────────────────────────────────────

    def strike(self, trouble: GroupTrouble) -> None:
        """Let something go wrong, or change, now; what cannot happen now does nothing."""
        self.log.append((self.timeline.now, "", trouble, ()))
        STRIKES[trouble.kind](self, trouble)

    def kill_broker(self, trouble: GroupTrouble) -> None:
        """A broker's process is no more; another one starts later."""
        broker = self.brokers[trouble.broker - 1]
        if broker.alive:
            broker.kill()
            self.timeline.after(trouble.for_ms, self.start_broker, trouble.broker)

    def pause_broker(self, trouble: GroupTrouble) -> None:
        """A broker's process stands still."""
        self._pause(self.brokers[trouble.broker - 1], trouble.for_ms)

    def part_broker(self, trouble: GroupTrouble) -> None:
        """Nothing gets through between a broker and ZooKeeper."""
        broker = self.brokers[trouble.broker - 1]
        if broker.alive:
            until = self.timeline.now + trouble.for_ms
            self.network.part(broker.name, HOST, until)
            broker.client.parted(until)

    def cut_broker(self, trouble: GroupTrouble) -> None:
        """A broker's connection to ZooKeeper breaks."""
        self._client(trouble).cut()

    def lose_reply(self, trouble: GroupTrouble) -> None:
        """The next transaction is done, and its reply lost."""
        self._client(trouble).swallows = True

    def expire(self, trouble: GroupTrouble) -> None:
        """The service ends a broker's session."""
        self.service.expire(self._client(trouble), told=trouble.for_ms % 2 == 0)

    def lag(self, trouble: GroupTrouble) -> None:
        """The server that a broker is connected to applies nothing for a while."""
        session, zookeeper = self._client(trouble).session, self.service.zookeeper
        if session and zookeeper.alive(session):
            zookeeper.fall_behind(session)
            self.timeline.after(trouble.for_ms, self._catch_up, session)

    def slow(self, trouble: GroupTrouble) -> None:
        """Every operation takes longer."""
        self.service.slow_down(self.timeline.now + trouble.for_ms, by_ms=600.0)

    def drift(self, trouble: GroupTrouble) -> None:
        """A clock drifts otherwise."""
        rate = self.chance.uniform(1 - self.config.drift, 1 + self.config.drift)
        self.brokers[trouble.broker - 1].clock.drift(rate)

    def kill(self, trouble: GroupTrouble) -> None:
        """A member's process is no more; another one starts later."""
        member = self.members[trouble.member - 1]
        if member.alive:
            member.kill()
            self.timeline.after(trouble.for_ms, self._come_back, member)

    def pause(self, trouble: GroupTrouble) -> None:
        """A member's process stands still."""
        self._pause(self.members[trouble.member - 1], trouble.for_ms)

    def part(self, trouble: GroupTrouble) -> None:
        """Nothing gets through between a member and a broker."""
        member = self.members[trouble.member - 1]
        until = self.timeline.now + trouble.for_ms
        self.network.part(member.name, f"broker{trouble.broker}", until)

    def leave(self, trouble: GroupTrouble) -> None:
        """A member is closed by its user, who opens it again later."""
        member = self.members[trouble.member - 1]
        if member.alive and not member.leaving:
            member.leave()
            self.timeline.after(trouble.for_ms, self._come_back, member)

    def join(self, trouble: GroupTrouble) -> None:
        """One more member joins, at most twice a run."""
        del trouble
        self._start_another(None)

    def start_twice(self, trouble: GroupTrouble) -> None:
        """A static member is started once more, while it still runs: one of both is to end."""
        member = self.members[trouble.member - 1]
        if member.alive and not member.leaving and member.instance is not None:
            self.twice.add(member.instance)
            self._start_another(member.instance)

    def _start_another(self, instance: str | None) -> None:
        if len(self.members) < self.config.members + 2:
            self.start_member(len(self.members) + 1, instance)

    def add_partitions(self, trouble: GroupTrouble) -> None:
        """A topic gets another partition."""
        topic = ("logs", "orders")[trouble.for_ms % 2]
        if self.kafka.topics[topic] < MOST_PARTITIONS:
            self.kafka.add_partitions(topic, 1)
            self.eyes.partitions(self.kafka.topics)

    def _client(self, trouble: GroupTrouble) -> SimulatedClient:
        return self.brokers[trouble.broker - 1].client

    def _come_back(self, member: SimulatedGroupMember) -> None:
        if self.members[member.number - 1] is member:
            member.kill()
            self.start_member(member.number, member.instance)

    def _catch_up(self, session: int) -> None:
        self.service.zookeeper.catch_up(session)
        self.service.send_events()

    def _pause(self, process: SimulatedGroupBroker | SimulatedGroupMember, for_ms: int) -> None:
        if process.alive and not process.paused:
            process.pause()
            self.timeline.after(for_ms, process.resume)


STRIKES: Mapping[Mishap, Callable[[GroupRun, GroupTrouble], None]] = {
    kind: getattr(GroupRun, kind.name.lower()) for kind in Mishap
}
