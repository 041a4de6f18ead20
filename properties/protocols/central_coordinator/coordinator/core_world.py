"""
A coordinator's core in a test's hand: its ZooKeeper, its clock, and consumers that do as told.

ZooKeeper's answers come at once unless `held`; a consumer answers at once unless it is `mute`.
Every method takes as many events as follow from what it does: nothing happens by itself.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from herdproof.consuming.offsets import Offset, OffsetReset
from herdproof.protocols.central_coordinator.coordinator.groups import Phase
from herdproof.protocols.central_coordinator.events import (
    Answered,
    Ask,
    Close,
    Closed,
    CoordinatorEffect,
    CoordinatorEvent,
    Deposed,
    Elected,
    Fired,
    Opened,
    Received,
    Report,
    Send,
    StepDown,
    Tick,
    WakeAt,
)
from herdproof.protocols.central_coordinator.held.flawed import coordinator_with
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.wire.messages import (
    Consult,
    ErrorCode,
    Frame,
    Message,
    Ping,
    PingResponse,
    Register,
    RegisterResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.names import lineage
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Get,
    Multi,
    Names,
    Operation,
    Refusal,
    Set,
)

PATHS = Paths()
SETTINGS = Settings()
GROUP = "g"
LEASE_MS = 5_250
"""The session timeout of scripted consumers, with the clocks' drift."""
ENDLESS = 20_000
"""A core that takes so many events without an end, or ticks at one time, goes round for ever."""


@dataclass(slots=True)
class Consumer:
    """What a scripted consumer has been told, and what it does about it."""

    channel: int
    consumer_id: str
    mute: bool = False
    """It answers nothing."""
    fetches: dict[tuple[str, str], int] = field(default_factory=dict)
    """What it consumes, and its next offset."""
    generation: int = 0
    requests: list[Message] = field(default_factory=list)
    """Everything that it was sent."""
    frames: list[Frame] = field(default_factory=list)
    unanswered: deque[Frame] = field(default_factory=deque)
    closed: bool = False
    error: ErrorCode | None = None
    """The answer to its Register, if it has one."""

    def last(self, kind: type[Message]) -> Message:
        """The last message of a kind that it was sent."""
        return next(m for m in reversed(self.requests) if isinstance(m, kind))

    def count(self, kind: type[Message]) -> int:
        """How many messages of a kind it was sent."""
        return sum(isinstance(m, kind) for m in self.requests)

    def answer(self, frame: Frame) -> Message | None:
        """What a well-behaved consumer answers."""
        offsets = tuple(Offset(t, p, o) for (t, p), o in self.fetches.items())
        match frame.message:
            case Ping():
                return PingResponse(offsets)
            case Stop():
                self.fetches = {}
                return StopResponse(offsets)
            case Start(partitions=partitions):
                self.fetches = {(o.topic, o.partition): max(o.offset, 0) for o in partitions}
                self.generation = frame.generation
                return StartResponse(ErrorCode.NONE)
        return None


class World:
    """One coordinator, elected on request, at a time that only `advance` moves."""

    def __init__(
        self, settings: Settings = SETTINGS, flaws: Iterable[str] = (), broker_id: int = 1
    ) -> None:
        self.zookeeper = ZooKeeper()
        self.operator = self.zookeeper.open()
        for path in ("/herdproof", "/herdproof/election", PATHS.election.epoch, "/brokers",
                     "/brokers/topics", "/brokers/ids"):  # fmt: skip
            self.zookeeper.perform(self.operator, Create(path))
        self.session = self.zookeeper.open()
        self.core = coordinator_with(frozenset(flaws))(broker_id, settings)
        self.now_ms = 1_000_000
        self.wake_ms: int | None = None
        self.consumers: dict[int, Consumer] = {}
        self.reports: list[Report] = []
        self.stepped_down: list[str] = []
        self.effects: list[CoordinatorEffect] = []
        """All effects that there ever were, but for the steps."""
        self.steps: list[CoordinationStep] = []
        """All steps that there ever were."""
        self.held: deque[Ask] | None = None
        """Questions that wait for `release`, if they are held."""
        self.asked: list[Operation] = []
        self.refused: list[Operation] = []
        """Writes that ZooKeeper did not do."""
        self.channel = 0
        self.spoil: Callable[[Operation], Answer | None] = lambda _: None
        """Answers an operation in ZooKeeper's place, if it likes."""
        self._inbox: deque[CoordinatorEvent] = deque()

    # ── Events ──────────────────────────────────────────────────────────────────────────────

    def give(self, event: CoordinatorEvent) -> list[CoordinatorEffect]:
        """Give the core an event, and all that follows from it; all effects but for the steps."""
        effects: list[CoordinatorEffect] = []
        self._inbox.append(event)
        for _ in range(ENDLESS):
            for watched in self.zookeeper.take_events(self.session):
                self._inbox.append(Fired(watched))
            if not self._inbox:
                return effects
            told = self.core.receive(self._inbox.popleft(), self.now_ms)
            self.steps += [effect for effect in told if isinstance(effect, CoordinationStep)]
            told = [effect for effect in told if not isinstance(effect, CoordinationStep)]
            effects += told
            self.effects += told
            for effect in told:
                self._carry_out(effect)
        raise AssertionError(f"{event} leads to one event after the other, without an end")

    def _carry_out(self, effect: CoordinatorEffect) -> None:
        match effect:
            case Ask():
                self.asked.append(effect.operation)
                if self.held is None:
                    self._perform(effect)
                else:
                    self.held.append(effect)
            case Send(channel=channel, frame=frame) if channel in self.consumers:
                self._hear(self.consumers[channel], frame)
            case Close(channel=channel):
                if channel in self.consumers:
                    self.consumers[channel].closed = True
            case WakeAt(time_ms=time_ms):
                self.wake_ms = time_ms
            case StepDown(why=why):
                self.stepped_down.append(why)
            case Report():
                self.reports.append(effect)
            case _:
                pass

    def _perform(self, ask: Ask) -> None:
        answer = self.spoil(ask.operation)
        if answer is None:
            answer = self.zookeeper.perform(self.session, ask.operation)
        if isinstance(answer, Refusal) and isinstance(ask.operation, Multi):
            self.refused.append(ask.operation)
        for watched in self.zookeeper.take_events(self.session):
            self._inbox.append(Fired(watched))
        self._inbox.append(Answered(ask.number, answer))

    def hold(self) -> None:
        """Let ZooKeeper answer nothing from now on, until `release`."""
        self.held = deque()

    def release(self, count: int = 1) -> None:
        """Let ZooKeeper answer the oldest questions that are held."""
        assert self.held is not None
        for _ in range(count):
            self._perform(self.held.popleft())
            self._drain()

    def release_all(self) -> None:
        """Let ZooKeeper answer all that is held, and hold nothing any more."""
        held, self.held = self.held or deque(), None
        for ask in held:
            self._perform(ask)
        self._drain()

    def _drain(self) -> None:
        if self._inbox:
            self.give(self._inbox.popleft())

    def _hear(self, consumer: Consumer, frame: Frame) -> None:
        consumer.requests.append(frame.message)
        consumer.frames.append(frame)
        if isinstance(frame.message, RegisterResponse):
            consumer.error = frame.message.error_code
        elif isinstance(frame.message, Ping | Stop | Start):
            consumer.unanswered.append(frame)
            if not consumer.mute:
                self._inbox.extend(self._answers(consumer))

    def _answers(self, consumer: Consumer) -> Iterable[CoordinatorEvent]:
        while consumer.unanswered:
            yield self._answer(consumer)

    def _answer(self, consumer: Consumer) -> CoordinatorEvent:
        frame = consumer.unanswered.popleft()
        message = consumer.answer(frame)
        assert message is not None
        answer = Frame(message, frame.correlation_id, frame.epoch, consumer.generation)
        return Received(consumer.channel, answer)

    def answer(self, consumer: Consumer) -> None:
        """Let a mute consumer answer what it was asked first."""
        self.give(self._answer(consumer))

    def speak(self, consumer: Consumer) -> None:
        """Let a consumer answer, from now on, and what it has not answered yet."""
        consumer.mute = False
        self._inbox.extend(self._answers(consumer))
        self._drain()

    def send(self, consumer: Consumer, message: Message, **header: int) -> None:
        """Let a consumer send a request of its own."""
        frame = Frame(message, **{"generation": consumer.generation, **header})  # type: ignore[arg-type]
        self.give(Received(consumer.channel, frame))

    def advance(self, ms: int) -> None:
        """Let time pass, with a tick whenever the core has asked for one."""
        end_ms = self.now_ms + ms
        ticks = 0
        while self.wake_ms is not None and self.wake_ms <= end_ms:
            ticks = ticks + 1 if self.wake_ms <= self.now_ms else 0
            assert ticks < ENDLESS, "it asks for one tick after the other, without an end"
            self.now_ms = max(self.now_ms, self.wake_ms)
            self.wake_ms = None
            self.give(Tick())
        self.now_ms = end_ms

    # ── What happens ────────────────────────────────────────────────────────────────────────

    def elect(self) -> int:
        """Elect the coordinator; answers with its epoch."""
        self.zookeeper.perform(self.operator, Set(PATHS.election.epoch, b"1"))
        found = self.zookeeper.perform(self.operator, Get(PATHS.election.epoch))
        assert isinstance(found, Data)
        self.give(Elected(found.stat.version))
        return found.stat.version

    def depose(self) -> None:
        """Somebody else is elected, and this coordinator is told of it."""
        self.zookeeper.perform(self.operator, Set(PATHS.election.epoch, b"2"))
        assert self.core.epoch is not None
        self.give(Deposed(self.core.epoch))

    def topic(self, name: str, partitions: int) -> None:
        """Make a topic, or give it more partitions."""
        described = {"version": 3, "partitions": {str(n): [1] for n in range(partitions)}}
        data = json.dumps(described).encode()
        there = self.stored(PATHS.topic(name)) is not None
        write = Set(PATHS.topic(name), data) if there else Create(PATHS.topic(name), data)
        self.zookeeper.perform(self.operator, write)
        self._tell_of_watches()

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self.zookeeper.perform(self.operator, Delete(PATHS.topic(name)))
        self._tell_of_watches()

    def make(self, path: str, data: bytes = b"") -> None:
        """Make a node, and what is above it."""
        for above in reversed([*lineage(path)][1:]):
            self.zookeeper.perform(self.operator, Create(above))
        assert isinstance(self.zookeeper.perform(self.operator, Create(path, data)), Created)
        self._tell_of_watches()

    def _tell_of_watches(self) -> None:
        for watched in self.zookeeper.take_events(self.session):
            self.give(Fired(watched))

    def open(self) -> int:
        """Open a channel."""
        self.channel += 1
        self.give(Opened(self.channel))
        return self.channel

    def register(
        self, consumer_id: str, topics: str = '{"t": 1}', *, group: str = GROUP,
        mute: bool = False, epoch: int = 0, generation: int = 0, legacy: bool = False,
        **changed: object,
    ) -> Consumer:  # fmt: skip
        """Let a consumer connect and register."""
        consumer = Consumer(self.open(), consumer_id, mute)
        self.consumers[consumer.channel] = consumer
        values: dict[str, object] = {
            "group_id": group, "consumer_id": consumer_id, "topic_count": topics,
            "auto_commit": True, "auto_offset_reset": OffsetReset.SMALLEST,
            "ping_interval_ms": 1_000, "max_ping_retries": 2, "session_timeout_ms": 5_000,
        }  # fmt: skip
        register = Register(**{**values, **changed})  # type: ignore[arg-type]
        frame = Frame(register, correlation_id=7, epoch=epoch, generation=generation)
        self.give(Received(consumer.channel, frame, legacy))
        return consumer

    def close(self, consumer: Consumer) -> None:
        """Let a consumer's connection break."""
        self.give(Closed(consumer.channel))

    def consult(self) -> Message:
        """Ask the broker who coordinates."""
        consumer = Consumer(self.open(), "")
        self.consumers[consumer.channel] = consumer
        self.give(Received(consumer.channel, Frame(Consult(), 3)))
        return consumer.requests[-1]

    # ── What is so ──────────────────────────────────────────────────────────────────────────

    def stored(self, path: str) -> bytes | None:
        """The data of a node, or None."""
        found = self.zookeeper.perform(self.operator, Get(path))
        return found.data if isinstance(found, Data) else None

    def children(self, path: str) -> tuple[str, ...]:
        """The names of a node's children."""
        found = self.zookeeper.perform(self.operator, Children(path))
        return found.names if isinstance(found, Names) else ()

    def owners(self, group: str = GROUP) -> dict[tuple[str, str], str]:
        """The consumer of each partition, by ZooKeeper."""
        return {
            (topic, number): json.loads(self.stored(PATHS.owner(group, topic, number)) or b"")[
                "consumer"
            ]
            for topic in self.children(PATHS.owners(group))
            for number in self.children(PATHS.owners_of(group, topic))
        }

    def generation(self, group: str = GROUP) -> int:
        """The group's generation, by ZooKeeper; 0 if there is none."""
        return int(json.loads(self.stored(PATHS.group(group)) or b"{}").get("generation", 0))

    def told(self, what: str) -> list[dict[str, str | int]]:
        """The details of every report of this name."""
        return [dict(report.details) for report in self.reports if report.what == what]

    def fetchers(self) -> dict[tuple[str, str], list[str]]:
        """Who fetches each partition."""
        fetch: dict[tuple[str, str], list[str]] = {}
        for consumer in self.consumers.values():
            for partition in consumer.fetches:
                fetch.setdefault(partition, []).append(consumer.consumer_id)
        return fetch


def elected(partitions: int = 4, **switches: Any) -> World:
    """An elected coordinator, and topic "t"; the switches are those of `World`."""
    world = World(**switches)
    world.topic("t", partitions)
    world.elect()
    return world


def phase(world: World, group: str = GROUP) -> Phase:
    """How far a group's rebalance is."""
    return world.core.groups[group].phase


def settled(world: World, *consumers: Consumer) -> bool:
    """Whether the group is stable, and exactly these consumers share all partitions of "t"."""
    fetchers = world.fetchers()
    return (
        phase(world) is Phase.IDLE
        and not world.core.groups_being_rebalanced[GROUP].is_set
        and all(len(who) == 1 for who in fetchers.values())
        and len(fetchers) == len(world.core.topics.topics["t"])
        and {who for [who] in fetchers.values()} == {c.consumer_id for c in consumers}
        and {p: [who] for p, who in world.owners().items()} == fetchers
    )


def sent(world: World, consumer: Consumer) -> list[type]:
    """The kinds of the coordinator's requests to a consumer, but for pings."""
    return [type(m) for m in consumer.requests if isinstance(m, Stop | Start)]
