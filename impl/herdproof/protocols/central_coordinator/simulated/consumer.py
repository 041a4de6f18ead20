"""
A simulated consumer: the very core that the real one runs, with an application that takes records.

Fetchers deliver after a while; the application thinks about each record, and finishes with it by
asking for the next. What its shell owes the core it does as `herdproof.consumer` does: it delivers
nothing while `may_deliver` says no, drops what an old assignment delivered, and answers its own
user's listener late.
"""

from __future__ import annotations

from random import Random
from typing import Protocol, assert_never

from msgspec.structs import replace

from herdproof.consuming.events import (
    Assigned,
    Consumed,
    Deliver,
    Resolved,
    RevocationHandled,
    Revoked,
    StartFetchers,
    StopFetchers,
)
from herdproof.consuming.offsets import NO_OFFSET, NamedPartition, Offset
from herdproof.protocols.central_coordinator.client.consumer import ConsumerCore
from herdproof.protocols.central_coordinator.client.server_cluster import Address
from herdproof.protocols.central_coordinator.client.settings import ConsumerSettings
from herdproof.protocols.central_coordinator.events import (
    Close,
    Closed,
    CommitAsked,
    Committed,
    Connect,
    Connected,
    ConnectFailed,
    ConsumerEffect,
    ConsumerEvent,
    Failed,
    Received,
    Report,
    Send,
    Shutdown,
    Subscribe,
    Tick,
    WakeAt,
)
from herdproof.protocols.central_coordinator.judged.world_fields import Fields
from herdproof.protocols.central_coordinator.simulated.random_runs import Config, DrawnMember
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    Frame,
    Ping,
    PingResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)
from herdproof.simulator.clock import Clock
from herdproof.simulator.kafka import Kafka
from herdproof.simulator.network import Connection
from herdproof.simulator.process import Process, World

THINKS_MS = (80.0, 420.0)
"""Time for which the application thinks about a record, or waits before it asks again."""

COMMIT_EVERY = 5
"""Where nothing is committed by itself the application commits after so many records."""


class ConsumerWorld(World, Protocol):
    """Interface of the world for a consumer."""

    config: Config
    consumer: type[ConsumerCore]
    fields: Fields
    kafka: Kafka
    addresses: tuple[Address, ...]
    seed: int


class SimulatedConsumer(Process):
    """One consumer's process; `number` is its place in the world, `life` how many began before."""

    def __init__(
        self, world: ConsumerWorld, number: int, life: int, member: DrawnMember, clock: Clock
    ) -> None:
        super().__init__(world, f"c{number}", clock)
        self.here = world
        self.number = number
        self.consumer_id = member.consumer_id
        self.member = member
        self.group = member.group
        self.fields = world.fields.of(member.group)
        self.chance = Random(f"{world.chance.random()}/{number}/{life}")
        config = world.config
        settings = ConsumerSettings(
            auto_commit=member.auto_commit,
            auto_offset_reset=member.reset,
            ping_interval_ms=config.ping_interval_ms,
            session_timeout_ms=config.session_timeout_ms,
            request_timeout_ms=config.session_timeout_ms // 2,
            backoff_max_ms=1_000,
            seek_ms=1_000,
            brings=Random(f"{world.seed}/brings/{number}/{life}").random() < config.brings,
            resumes=Random(f"{world.seed}/resumes/{number}/{life}").random() < config.resumes,
            listens=self.chance.random() < 0.3,
        )
        self.core = world.consumer(
            member.group, member.consumer_id, member.subscription, settings, world.addresses,
            self.chance.randrange(1_000),
        )  # fmt: skip
        self.generation = 0
        """Of the `StartFetchers` that was last carried out."""
        self.positions: dict[NamedPartition, int] = {}
        """The next offset to deliver, of each partition that is fetched."""
        self.ready_ms: dict[NamedPartition, float] = {}
        """When the first records of a partition will have been fetched; absent: not yet asked."""
        self.held: tuple[NamedPartition, int, int] | None = None
        """The record that the application has taken: partition, offset, generation."""
        self.finished = 0
        self.commits = 0
        self.leaving = False
        self.post("application", self._begin)

    def give(self, event: ConsumerEvent) -> None:
        """Give the core an event, and carry its effects out."""
        effects = self.core.receive(event, self.clock.now_ms())
        self.world.note(self, event, effects)
        for effect in effects:
            self._carry_out(effect)

    def tick(self) -> None:
        """The core asked to be woken."""
        self.give(Tick())

    def may_deliver(self) -> bool:
        """True if this process hands records to its application at this moment."""
        if not self.alive or self.paused:
            return False
        if self.here.config.checks_lease:
            return self.core.may_deliver(self.clock.now_ms())
        return not self.core.fetcher_stopped

    def leave(self) -> None:
        """The user closes the consumer."""
        self.leaving = True
        self.post("application", self.give, Shutdown())

    def kill(self) -> None:
        """The process is no more; what it had taken and not finished was never finished."""
        super().kill()
        self.held = None
        self.positions.clear()
        self.fields.stops(self)

    def woke(self) -> None:
        """Go on after a pause with what it fetched before, as far as it knows."""
        self.fields.wakes(self)

    # ── The network ─────────────────────────────────────────────────────────────────────────

    def accept(self, connection: Connection) -> int:
        """Nobody connects to a consumer."""
        raise AssertionError(f"{self.name} does not listen: {connection}")

    def opened(self, channel: int) -> None:
        """The connection stands."""
        self.post(f"channel {channel}", self.give, Connected(channel))

    def refused(self, channel: int) -> None:
        """The connection cannot be had."""
        self.ends.pop(channel, None)
        self.post(f"channel {channel}", self.give, ConnectFailed(channel))

    def received(self, channel: int, frame: Frame) -> None:
        """A frame came."""
        self.post(f"channel {channel}", self._take, channel, frame)

    def closed(self, channel: int) -> None:
        """The connection is over."""
        self.ends.pop(channel, None)
        self.post(f"channel {channel}", self.give, Closed(channel))

    def _take(self, channel: int, frame: Frame) -> None:
        self._obeying = frame if isinstance(frame.message, Ping | Stop | Start) else None
        self.give(Received(channel, frame))
        self._obeying = None
        if self.core.channel == channel:
            self.fields.sees(self, frame.epoch)

    _obeying: Frame | None = None
    """The coordinator's request that is being handled."""

    # ── Effects ─────────────────────────────────────────────────────────────────────────────

    def _carry_out(self, effect: ConsumerEffect) -> None:
        match effect:
            case Send(channel, frame):
                self._send(channel, frame)
            case WakeAt(time_ms):
                self.wake_at(time_ms)
            case Connect(channel, host, port):
                self._connect(channel, host, port)
            case Close(channel):
                if channel in self.ends:
                    connection, end = self.ends[channel]
                    connection.close(end)
            case StopFetchers():
                self.positions.clear()
                self.ready_ms.clear()
                self.fields.stops(self)
            case StartFetchers(partitions, generation):
                self._start_fetchers(partitions, generation)
            case Deliver(partition, generation):
                if generation == self.generation and partition in self.positions:
                    self.ready_ms[partition] = self.timeline.now
                    self.fields.is_stored(self, partition)
            case Revoked():
                if self.core.settings.listens:
                    slow = self.chance.random() < 0.1
                    self._later(3_000.0 if slow else 60.0, self.give, RevocationHandled())
            case Committed() | Assigned() | Report() | Failed() | CoordinationStep():
                pass
            case _:
                assert_never(effect)

    def _send(self, channel: int, frame: Frame) -> None:
        request = self._obeying
        answers = isinstance(frame.message, PingResponse | StopResponse | StartResponse)
        if request is not None and answers and frame.error is ErrorCode.NONE:
            self.fields.obeys(self, request.epoch)
        if self.here.config.hides_epochs:
            frame = replace(frame, epoch=0)
        if channel in self.ends:
            connection, end = self.ends[channel]
            connection.send(end, frame)

    def _connect(self, channel: int, host: str, port: int) -> None:
        connection = self.here.network.connect(self, channel, host, port)
        if connection is not None:
            self.ends[channel] = (connection, connection.client)

    def _later(self, at_most_ms: float, happen: object, *arguments: object) -> None:
        self.timeline.after(
            at_most_ms * self.chance.random(), self.post, "application", happen, *arguments
        )

    # ── Fetchers and application ────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        self.give(Subscribe())
        self._later(100.0, self._ask_for_a_record)

    def _start_fetchers(self, partitions: tuple[Offset, ...], generation: int) -> None:
        self.generation = generation
        self.positions.clear()
        self.ready_ms.clear()
        resolved = tuple(p for p in partitions if p.offset != NO_OFFSET)
        self.fields.starts(self, generation, partitions)
        for start in resolved:
            partition = NamedPartition(start.topic, start.partition)
            self.positions[partition] = start.offset
            self.ready_ms[partition] = self.timeline.now + 80.0 * self.chance.random()
        for start in partitions:
            if start.offset == NO_OFFSET:
                partition = NamedPartition(start.topic, start.partition)
                self._later(120.0, self._resolve, partition, generation)

    def _resolve(self, partition: NamedPartition, generation: int) -> None:
        """A fetcher has looked up where a partition begins that had no offset."""
        if generation != self.generation or self.core.fetcher_stopped:
            return
        offset = self.here.kafka.reset(partition, self.member.reset)
        self.positions[partition] = offset
        resolved = Offset(partition.topic, partition.partition, offset)
        self.fields.resolves(self, resolved)
        self.give(Resolved(resolved, generation))

    def _ask_for_a_record(self) -> None:
        """The application asks for the next record, and so has finished with the last."""
        if self.leaving:
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
        self.fields.finishes(self, partition, offset)
        self.finished += 1
        next_offset = Offset(partition.topic, partition.partition, offset + 1)
        self.give(Consumed(next_offset, generation))
        if self.finished % (COMMIT_EVERY if not self.member.auto_commit else 40) == 0:
            self._commit(None)
        elif self.chance.random() < 0.02:
            earlier = max(0, offset - self.chance.randrange(5))
            self._commit((Offset(partition.topic, partition.partition, earlier),))

    def _commit(self, offsets: tuple[Offset, ...] | None) -> None:
        """The user commits all that is finished, or something that was finished long ago."""
        self.commits += 1
        self.give(CommitAsked(self.commits, offsets))

    def _deliver(self) -> None:
        """Hand over a record of a partition that has one, whichever."""
        now, logs = self.timeline.now, self.here.kafka.logs
        ready = [
            partition
            for partition, ready_ms in self.ready_ms.items()
            if ready_ms <= now and self.positions[partition] < logs[partition].end
        ]
        if not ready:
            return
        partition = ready[self.chance.randrange(len(ready))] if len(ready) > 1 else ready[0]
        offset = self.positions[partition]
        self.positions[partition] = offset + 1
        self.held = (partition, offset, self.generation)
        self.fields.delivers(self, partition, offset)
