"""
The deterministic world of system B: brokers, consumers, ZooKeeper, Kafka, and what goes wrong.

    outcome = Run(seed=7).run()
    print(outcome)

One seed is one run. Brokers and consumers run the very cores that the services run; faults are on
unless a configuration says otherwise; the contract is watched at every step, and a run ends where
a promise is broken. Its last part is quiet: there the groups have to settle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TypeAlias

from herdproof.garbage import few_collections
from herdproof.protocols.central_coordinator.client.server_cluster import Address
from herdproof.protocols.central_coordinator.held.flawed import consumer_with, coordinator_with
from herdproof.protocols.central_coordinator.judged.world_end import RunEnd
from herdproof.protocols.central_coordinator.judged.world_fields import Fields
from herdproof.protocols.central_coordinator.judged.world_promises import PROMISED, PromiseBroken
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.simulated.broker import SimulatedBroker
from herdproof.protocols.central_coordinator.simulated.consumer import SimulatedConsumer
from herdproof.protocols.central_coordinator.simulated.faults import strike
from herdproof.protocols.central_coordinator.simulated.random_runs import (
    Config,
    DrawnMember,
    Fault,
    draw_faults,
    draw_lateness,
    draw_members,
)
from herdproof.protocols.central_coordinator.simulated.story import Line, digest, story
from herdproof.protocols.election.held.flawed import elector_with
from herdproof.simulator.clock import Clock, Timeline
from herdproof.simulator.kafka import IDS, TOPICS, Kafka
from herdproof.simulator.network import Lateness, Network, Side
from herdproof.simulator.process import Process
from herdproof.simulator.session import (
    Open,
    SimulatedClient,
    SimulatedService,
)

Observe: TypeAlias = Callable[[Process, object, Sequence[object]], None]
"""Told after every event of a core: whose, the event, and what it led to."""

DEFAULT = Config()

PRODUCE_MS = 900.0
"""Every so often, about, a record is produced somewhere."""


@dataclass(frozen=True)
class Violation:
    """A promise that was broken: its name, when (true ms), and how."""

    promise: str
    time_ms: float
    how: str


@dataclass(frozen=True)
class RunOutcome:
    """Result of a run."""

    seed: int
    config: Config
    faults: tuple[Fault, ...]
    violation: Violation | None
    counts: dict[str, int]
    """Numbers of what happened, by name: "elected", "generations", "delivered again" …"""
    log: list[Line] = field(repr=False)

    @property
    def digest(self) -> str:
        """A number of all that happened: two runs with the same one were the same."""
        return digest(self.log)

    def __str__(self) -> str:
        if self.violation is None:
            return f"Seed {self.seed}: no promise was broken."
        lines = [
            f"Seed {self.seed} breaks {self.violation.promise}: "
            f'"{PROMISED[self.violation.promise]}"',
            "",
            *story(self.log),
            f"{self.violation.time_ms / 1000:9.3f} s  ✗  {self.violation.how}",
        ]
        return "\n".join(lines)


class Run:
    """One run; `faults` take the place of those that the seed would draw."""

    def __init__(
        self, seed: int, config: Config = DEFAULT, faults: Sequence[Fault] | None = None,
        observe: Observe | None = None,
    ) -> None:  # fmt: skip
        self.seed = seed
        self.config = config
        self.coordinator = coordinator_with(config.coordinator_flaws)
        self.consumer = consumer_with(config.consumer_flaws)
        self.elector = elector_with(config.elector_flaws)
        self.faults = draw_faults(config, seed) if faults is None else tuple(faults)
        self.chance = Random(f"{seed}/world")
        self.fate = Random(f"{seed}/fate")
        """Random stream of the fault that strikes: its own, whichever struck before."""
        self.timeline = Timeline()
        self.network = Network(self.timeline, Random(f"{seed}/network"), draw_lateness(seed))
        self.service = SimulatedService(self.timeline, self.network, Random(f"{seed}/zookeeper"))
        self.kafka = Kafka(self.service)
        self.paths = Paths()
        settings = Random(f"{seed}/settings")
        self.zookeeper_timeout_ms = settings.choice(config.zookeeper_timeouts_ms)
        self.settings = draw_settings(config, self.zookeeper_timeout_ms, settings)
        self.fields = Fields(self.timeline, self.paths.election.epoch, config.watches)
        self.log: list[Line] = []
        self.observe = observe
        self.brokers: list[SimulatedBroker] = []
        self.consumers: list[SimulatedConsumer] = []
        self.addresses = tuple(Address(f"broker{n + 1}", 1) for n in range(config.brokers))
        self.quiet = False
        """Nothing goes wrong any more, and nothing is produced."""
        self._lives = 0
        self._producing = Random(f"{seed}/records")
        self._writers: dict[SimulatedClient, SimulatedBroker] = {}
        self.service.wrote = self._wrote

    @property
    def quiet_since_ms(self) -> float:
        """When the quiet part begins."""
        return self.config.duration_ms - self.config.quiet_ms

    def run(self) -> RunOutcome:
        """Live through the whole of it, or up to where a promise is broken."""
        violation = None
        try:
            with few_collections():
                self._live()
        except PromiseBroken as broken:
            violation = Violation(broken.promise, self.timeline.now, str(broken))
        return RunOutcome(self.seed, self.config, self.faults, violation, self._counted(), self.log)

    def note(self, who: Process, event: object, effects: Sequence[object]) -> None:
        """Something happened to a process."""
        self.log.append((self.timeline.now, who.name, event, effects))
        if self.observe is not None:
            self.observe(who, event, effects)

    # ── Who takes part ──────────────────────────────────────────────────────────────────────

    def start_broker(self, number: int) -> None:
        """A broker's process starts, in the place of the one that was."""
        broker = SimulatedBroker(self, number, self._clock())
        self._writers[broker.client] = broker
        if number > len(self.brokers):
            self.brokers.append(broker)
        else:
            self.brokers[number - 1] = broker

    def start_consumer(self, number: int, member: DrawnMember) -> None:
        """A consumer's process starts, in the place of the one that was."""
        self._lives += 1
        consumer = SimulatedConsumer(self, number, self._lives, member, self._clock())
        if number > len(self.consumers):
            self.consumers.append(consumer)
        else:
            self.consumers[number - 1] = consumer

    def _listener(self, number: int) -> Side | None:
        broker = self.brokers[number - 1]
        return broker if broker.alive else None

    def _clock(self) -> Clock:
        drift = self.config.drift
        return Clock(
            self.timeline,
            start_ms=self.chance.uniform(1_000.0, 1_000_000.0),
            rate=self.chance.uniform(1 - drift, 1 + drift),
        )

    # ── The run ─────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Everybody who takes part from the beginning starts; what is to happen is planned."""
        config, timeline = self.config, self.timeline
        election = self.paths.election
        self.kafka.prepare((IDS, TOPICS, election.epoch, self.paths.coordinators, "/consumers"))
        for topic, partitions in config.topics:
            self.kafka.create_topic(topic, partitions, start=self.chance.choice((0, 0, 100)))
        for number in range(1, config.brokers + 1):
            self.network.listening[f"broker{number}", 1] = partial(self._listener, number)
            self.start_broker(number)
        for number, member in enumerate(draw_members(config, self.seed), start=1):
            self.start_consumer(number, member)
        for fault in self.faults:
            timeline.at(fault.at_ms, self.strike, fault)
        timeline.after(PRODUCE_MS, self._produce)

    def settle(self, until_ms: float) -> None:
        """From now on nothing goes wrong; by then, every group must have settled."""
        quiet_since_ms, self.quiet = self.timeline.now, True
        self.network.lateness = Lateness()
        self.timeline.run_until(until_ms)
        end = RunEnd(self.fields, self.brokers, self.consumers, self.kafka.logs)
        end.judge(quiet_since_ms, self.config.settle_ms)

    def _live(self) -> None:
        self.begin()
        self.timeline.run_until(self.quiet_since_ms)
        self.settle(self.config.duration_ms)

    def strike(self, fault: Fault) -> None:
        """Let something go wrong, or change, now."""
        self.log.append((self.timeline.now, "", fault, ()))
        self.fields.counts[fault.kind.name] += 1
        self.fate = Random(f"{self.seed}/fate/{fault.identity}")
        strike(self, fault)

    def _produce(self) -> None:
        chance, timeline = self._producing, self.timeline
        if self.quiet:
            return
        partitions = list(self.kafka.logs)
        self.kafka.append(partitions[chance.randrange(len(partitions))], chance.randrange(1, 3))
        timeline.after(2 * PRODUCE_MS * chance.random(), self._produce)

    def _wrote(self, client: SimulatedClient, opened: Open) -> None:
        self.fields.wrote(self._writers[client], opened.operation, coordinates=opened.coordinates)

    def _counted(self) -> dict[str, int]:
        return {**self.fields.counts, "fenced writes": self.service.fenced}


def draw_settings(config: Config, zookeeper_timeout_ms: int, chance: Random) -> Settings:
    """A coordinator's settings, some of them small now and then."""
    return Settings(
        leadership_lease_ms=zookeeper_timeout_ms,
        failover_grace_ms=chance.choice((0, 1_000, 2_000)),
        request_handlers=chance.choice((1, 4)),
        max_rebalance_retries=chance.choice((0, 1, 4)),
        offset_flush_ms=chance.choice((0, 200, 1_000)),
        rebalance_backoff_max_ms=2_000,
        max_transaction_bytes=chance.choice((4_096, 512 * 1024)),
        max_session_timeout_ms=config.session_timeout_ms,
    )
