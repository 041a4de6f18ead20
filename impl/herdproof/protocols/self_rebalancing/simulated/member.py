"""
A simulated member: the very core that the real one runs, with fetchers and an application.

What its shell owes the core it does as the real one: it hands out nothing while `may_deliver` says
no, drops what an old assignment has delivered, and answers its own user's listener late.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Protocol, assert_never

from herdproof.consuming.assignment import Partition
from herdproof.consuming.events import (
    Answered,
    Ask,
    Assigned,
    CommitAsked,
    Committed,
    Consumed,
    Deliver,
    Fired,
    Report,
    Resolved,
    RevocationHandled,
    Revoked,
    Shutdown,
    StartFetchers,
    StopFetchers,
    Subscribe,
    Tick,
    WakeAt,
)
from herdproof.consuming.offsets import NO_OFFSET, NamedPartition, Offset, OffsetReset
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.core.events import (
    ConnectorEffect,
    ConnectorEvent,
    EndSession,
    LinkTold,
)
from herdproof.protocols.self_rebalancing.registries.registrations import ConsumerRegistration
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings
from herdproof.protocols.self_rebalancing.simulated.eyes import Eyes
from herdproof.protocols.self_rebalancing.steps import ConnectorStep
from herdproof.simulator.clock import Clock
from herdproof.simulator.kafka import Kafka
from herdproof.simulator.process import Process, World
from herdproof.simulator.session import SimulatedClient, SimulatedService
from herdproof.simulator.session_process import SessionProcess
from herdproof.zookeeper.operations import Answer, Link, Watched

THINKS_MS = (80.0, 420.0)
"""The time for which the application thinks about a record, or waits before it asks again."""
COMMIT_EVERY = 20
"""The application commits by itself after so many records."""


class MemberWorld(World, Protocol):
    """The part of its world that a member needs."""

    seed: int
    connector: type[ConsumerConnector]
    service: SimulatedService
    kafka: Kafka
    eyes: Eyes
    timeout_ms: int

    def look(self) -> None:
        """Have the eyes see what ZooKeeper keeps."""


class SimulatedMember(SessionProcess):
    """One member's process; `number` is its place in the world, `life` how many began before."""

    def __init__(
        self, world: MemberWorld, number: int, life: int, wants: ConsumerRegistration,
        settings: ConnectorSettings, clock: Clock,
    ) -> None:  # fmt: skip
        super().__init__(world, f"c{number}.{life}", clock)
        self.here = world
        self.number = number
        self.wants = wants
        self.settings = settings
        self.chance = Random(f"{world.chance.random()}/{number}/{life}")
        self.core = world.connector("g", f"g_{self.name}", wants, settings)
        self.generation = 0
        self.fetches = False
        """Fetchers run, whether or not anything may be handed out."""
        self.positions: dict[Partition, int] = {}
        """The next offset to deliver, of each partition that is fetched."""
        self.ready_ms: dict[Partition, float] = {}
        """When the first records of a partition will have been fetched; absent: not yet asked."""
        self.held: tuple[Partition, int, int] | None = None
        """The record that the application has taken: partition, offset, generation."""
        self.finished = 0
        self.leaving = False
        world.eyes.enters(self.name, wants)
        self.client = SimulatedClient(
            world.service, self, world.timeout_ms,
            on_link=self._link_changed, on_watch=self._watch_fired, on_lost=self._watch_lost,
        )  # fmt: skip
        self.post("application", self._begin)

    def give(self, event: ConnectorEvent) -> None:
        """Give the core an event, and carry its effects out."""
        effects = self.core.receive(event, self.clock.now_ms())
        self.world.note(self, event, effects)
        self.here.eyes.claims(self.name, self.core.rebalances.owned.tokens())
        for effect in effects:
            self._carry_out(effect)

    def tick(self) -> None:
        """The core asked to be woken."""
        self.give(Tick())

    def may_deliver(self) -> bool:
        """Tells whether its application may get a record now."""
        return self.alive and not self.core.has_ended and self.core.may_deliver(self.clock.now_ms())

    # ── What can happen to it ───────────────────────────────────────────────────────────────

    def kill(self) -> None:
        """The process is no more; its session lives on for a while."""
        if self.alive:
            self.here.eyes.dies(self.name)
            super().kill()

    @property
    def speaks(self) -> bool:
        """A connector that has ended closes its session."""
        return super().speaks and not self.core.has_ended

    def leave(self) -> None:
        """Its user closes it."""
        self.leaving = True
        self.post("application", self._leave)

    def _leave(self) -> None:
        self._finish()
        self.give(Shutdown())

    def _end(self) -> None:
        """The process ends in order: its session with it, if the service can be told."""
        self.here.eyes.dies(self.name)
        Process.kill(self)
        (self.client.close if self.client.stands else self.client.abandon)()
        self.here.look()

    # ── ZooKeeper ───────────────────────────────────────────────────────────────────────────

    def _link_changed(self, link: Link, session: int) -> None:
        self.give(LinkTold(link, session, self.here.timeout_ms))

    def _watch_fired(self, watched: Watched) -> None:
        self.give(Fired(watched))

    def _watch_lost(self, watched: Watched) -> None:
        raise AssertionError(f"{self.name} reads anew when it is back: {watched}")

    def _answered(self, number: int, answer: Answer) -> None:
        self.give(Answered(number, answer))

    # ── Effects ─────────────────────────────────────────────────────────────────────────────

    def _carry_out(self, effect: ConnectorEffect) -> None:
        match effect:
            case Ask(number, operation):
                self.client.submit(operation, partial(self._answered, number))
            case WakeAt(time_ms):
                self.wake_at(time_ms)
            case StopFetchers():
                self.fetches = False
                self.positions.clear()
                self.ready_ms.clear()
                self.here.eyes.stops(self.name)
            case StartFetchers(partitions, generation):
                self._start_fetchers(partitions, generation)
            case Deliver(NamedPartition(topic, partition), generation):
                if generation == self.generation and (topic, partition) in self.positions:
                    self.ready_ms[topic, partition] = self.timeline.now
            case Revoked():
                if self.settings.listens:
                    slow = self.chance.random() < 0.1
                    self._later(3_000.0 if slow else 60.0, self.give, RevocationHandled())
            case ConnectorStep(action="commit", partitions=(Offset(topic, partition, offset), *_)):
                self.here.eyes.stores(self.name, (topic, partition), offset)
            case EndSession():
                self._end()
            case Committed() | Assigned() | Report() | ConnectorStep():
                pass
            case _:
                assert_never(effect)

    def _later(self, at_most_ms: float, happen: object, *arguments: object) -> None:
        self.timeline.after(
            at_most_ms * self.chance.random(), self.post, "application", happen, *arguments
        )

    # ── Fetchers and application ────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        self.give(Subscribe())
        self._later(100.0, self._ask_for_a_record)

    def _start_fetchers(self, starts: tuple[Offset, ...], generation: int) -> None:
        self.here.look()
        self.generation, self.fetches = generation, True
        self.positions.clear()
        self.ready_ms.clear()
        self.here.eyes.begins(self.name, starts)
        for start in starts:
            partition = (start.topic, start.partition)
            if start.offset == NO_OFFSET:
                self._later(120.0, self._resolve, partition, generation)
            else:
                self.positions[partition] = start.offset
                self.ready_ms[partition] = self.timeline.now + 80.0 * self.chance.random()

    def _resolve(self, partition: Partition, generation: int) -> None:
        """A fetcher has looked up where a partition begins that had no offset."""
        if generation != self.generation or not self.core.registry.is_fetching:
            return
        offset = self.here.kafka.reset(NamedPartition(*partition), OffsetReset.SMALLEST)
        self.positions[partition] = offset
        self.here.eyes.resolves(self.name, partition, offset)
        self.give(Resolved(Offset(*partition, offset), generation))

    def _ask_for_a_record(self) -> None:
        """The application asks for the next record, and so has finished with the last."""
        if self.leaving or self.core.has_ended:
            return
        self._finish()
        if self.may_deliver():
            self._deliver()
        low, high = THINKS_MS
        thinks = low + (high - low) * self.chance.random()
        self.timeline.after(thinks, self.post, "application", self._ask_for_a_record)

    def _finish(self) -> None:
        if self.held is None:
            return
        (partition, offset, generation), self.held = self.held, None
        self.here.eyes.finishes(self.name, partition, offset)
        self.finished += 1
        self.give(Consumed(Offset(*partition, offset + 1), generation))
        if self.finished % COMMIT_EVERY == 0:
            self.give(CommitAsked(self.finished))

    def _deliver(self) -> None:
        """Hand over a record of a partition that has one, whichever."""
        now, logs = self.timeline.now, self.here.kafka.logs
        ready = [
            partition
            for partition, ready_ms in self.ready_ms.items()
            if ready_ms <= now and self.positions[partition] < logs[NamedPartition(*partition)].end
        ]
        if not ready:
            return
        partition = ready[self.chance.randrange(len(ready))]
        offset = self.positions[partition]
        self.positions[partition] = offset + 1
        self.held = (partition, offset, self.generation)
        self.here.eyes.delivers(self.name, partition, offset)
