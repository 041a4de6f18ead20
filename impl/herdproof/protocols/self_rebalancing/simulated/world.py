"""
The deterministic world of system A: members on one ZooKeeper, one Kafka, and what goes wrong.

    run = RebalancingRun(seed=7)
    run.live()

One seed is one run: `digest` is the same, whenever it is lived through. Members run the very core
that the real ones run. The last part of a run is quiet: there the group has to settle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from herdproof.consuming.assignment import Partition
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.registries.registrations import ConsumerRegistration
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings
from herdproof.protocols.self_rebalancing.simulated.eyes import Eyes
from herdproof.protocols.self_rebalancing.simulated.member import SimulatedMember
from herdproof.protocols.self_rebalancing.simulated.random_runs import (
    SUBSCRIPTIONS,
    Trouble,
    TroubleKind,
    WorldConfig,
    draw_connector_settings,
    draw_members,
    draw_troubles,
)
from herdproof.protocols.self_rebalancing.steps import ConnectorStep
from herdproof.simulator.clock import Clock, Timeline
from herdproof.simulator.kafka import IDS, TOPICS, Kafka
from herdproof.simulator.log import Line, digest
from herdproof.simulator.network import Lateness, Network
from herdproof.simulator.process import Process
from herdproof.simulator.session import HOST, Open, SimulatedClient, SimulatedService

Observes = Callable[[Process, object, Sequence[object]], None]
"""Told of what a process does, before anything that it has decided is done."""

DEFAULT = WorldConfig()
NOBODY = Eyes()

PRODUCE_MS = 900.0
"""Every so often, about, a record is produced somewhere."""
TOPICS_ADDED = ("later", "lost", "over", "payments")
"""Topics that appear while a run goes on: some wildcards take some of them in."""
MOST_PARTITIONS = 8


class RebalancingRun:
    """One run; `troubles` take the place of those that the seed would draw."""

    def __init__(
        self, seed: int, config: WorldConfig = DEFAULT, eyes: Eyes = NOBODY,
        connector: type[ConsumerConnector] = ConsumerConnector,
        troubles: Sequence[Trouble] | None = None, member: type[SimulatedMember] = SimulatedMember,
        observe: Observes | None = None,
    ) -> None:  # fmt: skip
        self.seed = seed
        self.config = config
        self.eyes = eyes
        self.connector = connector
        self.member = member
        self.observe = observe
        self.troubles = draw_troubles(config, seed) if troubles is None else tuple(troubles)
        self.chance = Random(f"{seed}/world")
        self.fate = Random(f"{seed}/fate")
        self.timeline = Timeline()
        self.network = Network(self.timeline, Random(f"{seed}/network"), Lateness())
        self.service = SimulatedService(self.timeline, self.network, Random(f"{seed}/zookeeper"))
        self.service.wrote = self._wrote
        self.kafka = Kafka(self.service)
        settings = Random(f"{seed}/settings")
        self.timeout_ms = settings.choice(config.timeouts_ms)
        self.settings = draw_connector_settings(settings, self.timeout_ms)
        self.log: list[Line] = []
        self.members: list[SimulatedMember] = []
        self.quiet = False
        self._lives = 0
        self._producing = Random(f"{seed}/records")

    @property
    def digest(self) -> str:
        """A number of all that happened: two runs with the same one were the same."""
        return digest(self.log, ConnectorStep)

    def live(self) -> None:
        """Live through the whole of it."""
        self.begin()
        self.timeline.run_until(self.config.duration_ms - self.config.quiet_ms)
        self.quiet = True
        self.timeline.run_until(self.config.duration_ms)
        self.look()
        self.eyes.settled()

    def begin(self) -> None:
        """Everybody who takes part from the beginning starts; what is to happen is planned."""
        self.kafka.prepare((f"{IDS}/0", TOPICS))
        for topic, partitions in self.config.topics:
            self.kafka.create_topic(topic, partitions, start=self.chance.choice((0, 0, 100)))
        self.eyes.partitions(self.kafka.topics)
        for number, wants in enumerate(draw_members(self.config, self.seed), start=1):
            self.start_member(number, wants, self.settings)
        for trouble in self.troubles:
            self.timeline.at(trouble.at_ms, self.strike, trouble)
        self.timeline.after(PRODUCE_MS, self._produce)

    def note(self, who: Process, event: object, effects: Sequence[object]) -> None:
        """Something happened to a member."""
        self.log.append((self.timeline.now, who.name, event, effects))
        if self.observe is not None:
            self.observe(who, event, effects)
        self.look()

    def look(self) -> None:
        """
        Have the eyes see what ZooKeeper keeps.

        Whose lease is over has stopped, before anybody can see that it owns nothing any more.
        """
        for member in self.members:
            if member.fetches and not member.may_deliver():
                self.eyes.stops(member.name)
        names = {member.client.session: member.name for member in self.members}
        self.eyes.nodes(self.service.zookeeper.snapshot().nodes, names)

    def start_member(
        self, number: int, wants: ConsumerRegistration, settings: ConnectorSettings
    ) -> None:
        """A member's process starts, in the place of the one that was."""
        self._lives += 1
        clock = Clock(
            self.timeline,
            start_ms=self.chance.uniform(1_000.0, 1_000_000.0),
            rate=self.chance.uniform(1 - self.config.drift, 1 + self.config.drift),
        )
        member = self.member(self, number, self._lives, wants, settings, clock)
        if number > len(self.members):
            self.members.append(member)
        else:
            self.members[number - 1] = member

    def consumed_by(self) -> dict[Partition, list[str]]:
        """Who may deliver records of each partition that somebody wants."""
        living = [m for m in self.members if m.alive and not m.leaving]
        return {
            (topic, str(number)): [
                m.name for m in living if (topic, str(number)) in m.positions and m.may_deliver()
            ]
            for topic, partitions in self.kafka.topics.items()
            for number in range(partitions)
            if any(m.wants.threads(topic) for m in living)
        }

    def _wrote(self, client: SimulatedClient, opened: Open) -> None:
        del client, opened
        self.look()

    def _produce(self) -> None:
        if self.quiet:
            return
        chance = self._producing
        partitions = list(self.kafka.logs)
        self.kafka.append(partitions[chance.randrange(len(partitions))], chance.randrange(1, 3))
        self.timeline.after(2 * PRODUCE_MS * chance.random(), self._produce)

    # ── What goes wrong ─────────────────────────────────────────────────────────────────────

    def strike(self, trouble: Trouble) -> None:
        """Let something go wrong, or change, now; what cannot happen now does nothing."""
        self.log.append((self.timeline.now, "", trouble, ()))
        self.fate = Random(f"{self.seed}/fate/{trouble.at_ms}/{trouble.kind.name}")
        member = self.members[trouble.member - 1]
        if member.alive and not member.core.has_ended:
            STRIKES[trouble.kind](self, member, trouble.for_ms)

    def kill(self, member: SimulatedMember, for_ms: int) -> None:
        """A member's process is no more; another one starts later."""
        member.kill()
        self.timeline.after(for_ms, self.come_back, member)

    def come_back(self, member: SimulatedMember) -> None:
        """Another process takes the place of a member's, unless one has already."""
        if self.members[member.number - 1] is member:
            member.kill()
            self.start_member(member.number, member.wants, member.settings)

    def pause(self, member: SimulatedMember, for_ms: int) -> None:
        """A member's process stands still."""
        if not member.paused:
            member.pause()
            self.timeline.after(for_ms, member.resume)

    def part(self, member: SimulatedMember, for_ms: int) -> None:
        """Nothing gets through between a member and ZooKeeper."""
        until = self.timeline.now + for_ms
        self.network.part(member.name, HOST, until)
        member.client.parted(until)

    def cut(self, member: SimulatedMember, for_ms: int) -> None:
        """A member's connection breaks."""
        del for_ms
        member.client.cut()

    def lose_reply(self, member: SimulatedMember, for_ms: int) -> None:
        """The next transaction is done, and its reply lost."""
        del for_ms
        member.client.swallows = True

    def lag(self, member: SimulatedMember, for_ms: int) -> None:
        """The server that a member is connected to applies nothing for a while."""
        session, zookeeper = member.client.session, self.service.zookeeper
        if session and zookeeper.alive(session):
            zookeeper.fall_behind(session)
            self.timeline.after(for_ms, self.catch_up, session)

    def catch_up(self, session: int) -> None:
        """That server applies what it missed."""
        self.service.zookeeper.catch_up(session)
        self.service.send_events()

    def slow(self, member: SimulatedMember, for_ms: int) -> None:
        """Every operation takes longer."""
        del member
        self.service.slow_down(self.timeline.now + for_ms, by_ms=self.fate.choice((100, 1_500)))

    def expire(self, member: SimulatedMember, for_ms: int) -> None:
        """The service ends a session whose lease has not ended: no promise covers that."""
        del for_ms
        self.service.expire(member.client, told=self.fate.random() < 0.5)
        self.look()

    def drift(self, member: SimulatedMember, for_ms: int) -> None:
        """A clock drifts otherwise."""
        del for_ms
        member.clock.drift(self.fate.uniform(1 - self.config.drift, 1 + self.config.drift))

    def add_topic(self, member: SimulatedMember, for_ms: int) -> None:
        """A topic appears."""
        del member, for_ms
        self.kafka.create_topic(self.fate.choice(TOPICS_ADDED), self.fate.randint(1, 3))
        self.eyes.partitions(self.kafka.topics)

    def add_partitions(self, member: SimulatedMember, for_ms: int) -> None:
        """A topic gets more partitions."""
        del member, for_ms
        topic = self.fate.choice(list(self.kafka.topics))
        if self.kafka.topics[topic] < MOST_PARTITIONS:
            self.kafka.add_partitions(topic, self.fate.randint(1, 2))
            self.eyes.partitions(self.kafka.topics)

    def join(self, member: SimulatedMember, for_ms: int) -> None:
        """One more member joins, at most twice a run."""
        del for_ms
        number = len(self.members) + 1
        if number <= self.config.members + 2:
            wants = self.fate.choice((member.wants, *SUBSCRIPTIONS))
            self.start_member(number, wants, member.settings)

    def leave(self, member: SimulatedMember, for_ms: int) -> None:
        """A member is closed by its user, who opens it again later."""
        if not member.leaving:
            member.leave()
            self.timeline.after(for_ms, self.come_back, member)


STRIKES: Mapping[TroubleKind, Callable[[RebalancingRun, SimulatedMember, int], None]] = {
    kind: getattr(RebalancingRun, kind.name.lower()) for kind in TroubleKind
}
