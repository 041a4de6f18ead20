"""
A simulated broker: elector and coordinator, the very cores that the real one runs, on one session.

What `herdproof.protocols.central_coordinator.server.server` owes the cores it does: events one at a
time, answers and watches in ZooKeeper's order, everything that was asked in a connection answered
before it is told that the connection is lost.
"""

from __future__ import annotations

import json
from typing import Protocol, TypeAlias, assert_never

from herdproof.protocols.central_coordinator.coordinator.coordinator import Coordinator
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
from herdproof.protocols.central_coordinator.judged.world_fields import Fields
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.simulated.consumer import SimulatedConsumer
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    CommitResponse,
    ErrorCode,
    Frame,
    PingResponse,
    Register,
    Start,
    StopResponse,
)
from herdproof.protocols.election.elector import Elector, LeaderChanged, LinkChanged, Resign, Stand
from herdproof.protocols.election.gate import Shell
from herdproof.simulator.clock import Clock
from herdproof.simulator.network import Connection, Pipe
from herdproof.simulator.process import World
from herdproof.simulator.session import (
    FIRES,
    SimulatedClient,
    SimulatedService,
)
from herdproof.simulator.session_process import SessionProcess
from herdproof.zookeeper.operations import Answer, Create, Link, Operation, Refusal, Watched, Why

STAND_AGAIN_MS = 300.0
"""Time for which a broker that stepped down waits before it stands again."""

SILENCE_MS = 10_000.0
"""Longest time until it is noticed that a host is no more."""

REGISTER_AGAIN_MS = 500.0
"""Time until a broker tries again where another session holds the node that it wants."""


Says: TypeAlias = PingResponse | StopResponse | Commit
"""Messages that tell a coordinator how far their sender is."""


class BrokerWorld(World, Protocol):
    """Interface of the world for a broker."""

    config: Config
    coordinator: type[Coordinator]
    elector: type[Elector]
    fields: Fields
    service: SimulatedService
    settings: Settings
    paths: Paths
    zookeeper_timeout_ms: int


class SimulatedBroker(SessionProcess):
    """One broker's process; `number` is its id."""

    def __init__(self, world: BrokerWorld, number: int, clock: Clock) -> None:
        super().__init__(world, f"broker{number}", clock)
        self.here = world
        self.number = number
        self.broker = str(number)
        self.core = world.coordinator(number, world.settings, world.paths)
        elector = world.elector(self.broker, world.paths.election)
        self.election = Shell(elector, elected=self._elected, deposed=self._deposed)
        self.channels = 0
        self.known: set[int] = set()
        """The channels that the core has been told of, and not that they are closed."""
        self.commits: dict[tuple[int, int], Commit] = {}
        """Commits that are not answered yet, by channel and correlation id."""
        self.registers: dict[tuple[str, int], SimulatedConsumer] = {}
        """Who has asked to be registered, by its id and its number for that."""
        self.client = SimulatedClient(
            world.service, self, world.zookeeper_timeout_ms,
            on_link=self._link_changed, on_watch=self._watch_fired, on_lost=self._watch_lost,
        )  # fmt: skip
        self._stands = False
        self._teller = Pipe(self.timeline, lambda: 0.0)

    @property
    def leads(self) -> bool:
        """True if it believes that it coordinates."""
        return self.alive and self.election.core.leads

    def give(self, event: CoordinatorEvent) -> None:
        """Give the coordinator's core an event, and carry its effects out."""
        effects = self.core.receive(event, self.clock.now_ms())
        self.world.note(self, event, effects)
        for effect in effects:
            self._carry_out(effect)
        if isinstance(event, Deposed) or any(isinstance(effect, StepDown) for effect in effects):
            self.here.fields.deposed(self, self._open_channels())

    def tick(self) -> None:
        """The core asked to be woken."""
        self.give(Tick())

    def crash(self) -> None:
        """Its host is no more: whoever is connected to it hears nothing, for long."""
        for connection, _ in self.ends.values():
            connection.cut(SILENCE_MS * self.world.chance.random(), 0)
        self.kill()

    # ── The election, and ZooKeeper ─────────────────────────────────────────────────────────

    def _elect(self, event: Stand | Resign | LinkChanged | LeaderChanged) -> None:
        self.election.post(event)
        self._run_election()

    def _run_election(self) -> None:
        election = self.election
        while election.inbox:
            election.take()
            while election.outbox:
                election.release(self._submit_for_election)

    def _submit_for_election(self, operation: Operation, answer: object) -> None:
        assert callable(answer)

        def answered(told: Answer) -> None:
            answer(told)
            self._run_election()

        self.client.submit(operation, answered)

    def _elected(self, epoch: int) -> None:
        self.here.fields.coordinates(self.broker, epoch)
        self.here.fields.counts["elected"] += 1
        self._tell(Elected(epoch))

    def _deposed(self, epoch: int) -> None:
        self._tell(Deposed(epoch))

    def _tell(self, event: Elected | Deposed) -> None:
        """Another thread carries the election: it tells the core a little later, in order."""
        chance = self.world.chance
        late = self.here.config.late_election_ms if chance.random() < 0.25 else 3.0
        self._teller.put(late * chance.random(), self.post, "election", self.give, event)

    def _link_changed(self, link: Link, session: int) -> None:
        self.world.note(self, (link, session), ())
        self._elect(LinkChanged(link, session))
        if link is Link.CONNECTED:
            paths = self.here.paths
            for path in (paths.broker(self.broker), paths.coordinator(self.broker)):
                self._register(path, session)

    def _register(self, path: str, session: int) -> None:
        """Create an ephemeral node of this broker's, as soon as an earlier life's is gone."""
        if self.client.session != session or self.client.link is not Link.CONNECTED:
            return
        address = json.dumps({"host": self.name, "port": 1}).encode()

        def answered(answer: Answer) -> None:
            node = self.here.service.zookeeper.snapshot().nodes.get(path)
            mine = node is not None and node.owner == session
            if mine and not self._stands:
                self._stand()
            if answer == Refusal(Why.NODE_EXISTS) and not mine:
                self.timeline.after(
                    REGISTER_AGAIN_MS, self.post, "registration", self._register, path, session
                )

        self.client.submit(Create(path, address, ephemeral=True), answered)

    def _stand(self) -> None:
        """It is known to the others: now it takes part."""
        self._stands = True
        self.give(Tick())
        self._elect(Stand())

    def _watch_fired(self, watched: Watched) -> None:
        if watched.path == self.here.paths.election.leader:
            self._elect(LeaderChanged())
        left = {(watched.path, kind) for kind in FIRES[watched.change]} & self.client.watches
        if left:
            self.client.watches -= left
            self.give(Fired(watched))

    def _watch_lost(self, watched: Watched) -> None:
        self.give(Fired(watched))

    # ── The network ─────────────────────────────────────────────────────────────────────────

    def accept(self, connection: Connection) -> int:
        """The kernel accepts a consumer's connection."""
        self.channels += 1
        self.ends[self.channels] = (connection, connection.server)
        return self.channels

    def opened(self, channel: int) -> None:
        """A consumer connected."""
        self.post(f"channel {channel}", self._open, channel)

    def refused(self, channel: int) -> None:
        """A broker connects to nobody."""
        raise AssertionError(f"{self.name} never asked for a connection ({channel})")

    def received(self, channel: int, frame: Frame) -> None:
        """A consumer sent a frame."""
        self.post(f"channel {channel}", self._take, channel, frame)

    def closed(self, channel: int) -> None:
        """A connection is over."""
        self.post(f"channel {channel}", self._forget, channel)

    def _open(self, channel: int) -> None:
        self.give(Opened(channel))  # it may step down before it takes this one in
        self.known.add(channel)

    def _open_channels(self) -> list[int]:
        """The channels that the core knows of and has not closed."""
        ends = {channel: self.ends[channel][1] for channel in self.known & self.ends.keys()}
        return [channel for channel, end in ends.items() if not (end.over or end.hung_up)]

    def _forget(self, channel: int) -> None:
        self.ends.pop(channel, None)
        self.known.discard(channel)
        self.give(Closed(channel))

    def _take(self, channel: int, frame: Frame) -> None:
        message = frame.message
        if isinstance(message, PingResponse | StopResponse | Commit) and message.offsets:
            self._hear(channel, frame.generation, message)
            if isinstance(message, Commit):
                self.commits[channel, frame.correlation_id] = message
        elif isinstance(message, Register) and (speaker := self._speaker(channel)):
            self.registers[message.consumer_id, frame.correlation_id] = speaker
            for one in message.brought or ():
                speaker.fields.hears(self, speaker, one.generation, "reported", one.offsets)
        self.give(Received(channel, frame))

    def _hear(self, channel: int, generation: int, message: Says) -> None:
        speaker = self._speaker(channel)
        if speaker is not None and message.offsets:
            field = "committing" if isinstance(message, Commit) else "reported"
            speaker.fields.hears(self, speaker, generation, field, message.offsets)

    def _speaker(self, channel: int) -> SimulatedConsumer | None:
        """Whose connection it is; None where it has gone."""
        side = self.ends[channel][0].client.side if channel in self.ends else None
        assert side is None or isinstance(side, SimulatedConsumer)
        return side

    # ── Effects ─────────────────────────────────────────────────────────────────────────────

    def _carry_out(self, effect: CoordinatorEffect) -> None:
        match effect:
            case Send(channel, frame):
                self._send(channel, frame)
            case WakeAt(time_ms):
                self.wake_at(time_ms)
            case Ask(number, operation):
                self.client.submit(
                    operation, lambda answer: self.give(Answered(number, answer)), coordinates=True
                )
            case Close(channel):
                if channel in self.ends:
                    connection, end = self.ends[channel]
                    connection.close(end)
            case StepDown():
                self.here.fields.counts["stepped down"] += 1
                self.timeline.after(0, self.post, "election", self._step_down)
            case Report(what):
                self.here.fields.counts[what] += 1
            case CoordinationStep(action="handle_register" | "handle_resume", outcome="accepted"):
                self.here.fields.counts["offsets brought"] += len(effect.brought)
                speaker = self.registers[effect.consumer, effect.connection]
                speaker.fields.admits(speaker, effect.member)
            case CoordinationStep():
                pass  # for whoever observes
            case _:
                assert_never(effect)

    def _step_down(self) -> None:
        self._elect(Resign())
        self.timeline.after(STAND_AGAIN_MS, self.post, "election", self._elect, Stand())

    def _send(self, channel: int, frame: Frame) -> None:
        if channel not in self.ends:
            return
        message, speaker = frame.message, self._speaker(channel)
        assert speaker is not None
        if isinstance(message, Start):
            speaker.fields.commands(self, speaker, frame.generation, message.partitions)
        elif isinstance(message, CommitResponse):
            asked = self.commits.pop((channel, frame.correlation_id), None)
            if asked is not None and message.error_code is ErrorCode.NONE:
                speaker.fields.confirms(self, speaker, asked.offsets)
        connection, end = self.ends[channel]
        connection.send(end, frame)
