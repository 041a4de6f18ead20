"""
A simulated broker: elector, coordinator and store, the very cores that the real one runs.

What a real shell owes the core it does: all that the core wants done, in order; who is in doubt
about a write, or cannot load, steps down and stands again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol, TypeAlias

from herdproof.protocols.election.elector import Elector, LeaderChanged, LinkChanged, Resign, Stand
from herdproof.protocols.election.gate import Shell
from herdproof.protocols.group_protocol.client.core.events import (
    ClientResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    Node,
)
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.effects import (
    GroupAnswer,
    GroupEffect,
    StoredClassicGroup,
    StoreGroup,
)
from herdproof.protocols.group_protocol.messages import Error
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.simulated.eyes import GroupEyes
from herdproof.protocols.group_protocol.stores.port import WriteOutcome
from herdproof.protocols.group_protocol.stores.zookeeper import GroupPaths, ZooKeeperGroupStore
from herdproof.simulator.clock import Clock
from herdproof.simulator.kafka import Kafka
from herdproof.simulator.network import Connection, Pipe
from herdproof.simulator.process import World
from herdproof.simulator.session import SimulatedClient, SimulatedService
from herdproof.simulator.session_process import SessionProcess
from herdproof.zookeeper import operations as zk

STAND_AGAIN_MS = 300.0
"""Time that a broker that stepped down waits before it stands again."""

LATE_MS = 900.0
"""Longest delay with which the core hears of the election."""

Frame: TypeAlias = tuple[int, Any]
"""A request or a response, with the number that its client gave it."""


class GroupBrokerWorld(World, Protocol):
    """World of a simulated broker, as far as it needs one."""

    coordinator: type[GroupCoordinator]
    eyes: GroupEyes
    paths: GroupPaths
    service: SimulatedService
    settings: GroupSettings
    kafka: Kafka
    zookeeper_timeout_ms: int

    def leader(self) -> Node | None:
        """The broker that the election's node names, if any."""

    def nodes(self) -> list[Node]:
        """The brokers."""


class SimulatedGroupBroker(SessionProcess):
    """One broker's process; `number` is its id, `life` how many began before."""

    def __init__(self, world: GroupBrokerWorld, number: int, life: int, clock: Clock) -> None:
        super().__init__(world, f"broker{number}", clock)
        self.here = world
        self.number = number
        ids = Random(f"{world.chance.random()}/{number}/{life}")
        self.core = world.coordinator(world.settings, lambda: f"{ids.getrandbits(64):x}")
        self.election = Shell(
            Elector(f"{number}", world.paths.election),
            elected=partial(self._soon, self._elected), deposed=partial(self._soon, self._deposed),
        )  # fmt: skip
        self.callers: dict[int, tuple[int, int]] = {}
        """Of each request that is not answered: its channel, and its number there."""
        self._last_caller = self._channels = 0
        self._teller = Pipe(self.timeline, lambda: 0.0)
        self._now_ms = 0
        self.client = SimulatedClient(
            world.service, self, world.zookeeper_timeout_ms,
            on_link=self._link_changed, on_watch=self._watch_fired, on_lost=self._watch_lost,
        )  # fmt: skip
        self.store = ZooKeeperGroupStore(self._submit, world.paths)
        self.post("election", self._elect, Stand())

    def tick(self) -> None:
        """The core's deadline has come."""
        self._give("tick", self.core.tick)

    # ── The core ────────────────────────────────────────────────────────────────────────────

    def _give(self, event: object, take: Any, *arguments: object) -> None:
        """Give the core something, and carry out what it wants done."""
        self._now_ms = max(self._now_ms, self.clock.now_ms())
        effects: Sequence[GroupEffect] = list(take(self._now_ms, *arguments))
        self.world.note(self, event, effects)
        for effect in effects:
            match effect:
                case GroupAnswer(caller=caller, response=response):
                    self._answer(caller, response)
                case StoreGroup(token=token):
                    self.store.write(effect, partial(self._written, token))
        if self.core.next_deadline is not None:
            self.wake_at(self.core.next_deadline)

    def _answer(self, caller: int, response: ClientResponse) -> None:
        channel, number = self.callers.pop(caller)
        if channel in self.ends:
            connection, end = self.ends[channel]
            connection.send(end, (number, response))

    def _written(self, token: int, written: WriteOutcome) -> None:
        if not written.is_known:
            self._step_down()
        else:
            self._give(("stored", token), self.core.stored, token, written is WriteOutcome.DONE)

    # ── The election, and ZooKeeper ─────────────────────────────────────────────────────────

    def _elect(self, event: Stand | Resign | LinkChanged | LeaderChanged) -> None:
        self.election.post(event)
        self._run_election()

    def _run_election(self) -> None:
        while self.election.inbox:
            self.election.take()
            while self.election.outbox:
                self.election.release(self._submit_for_election)

    def _submit_for_election(self, operation: zk.Operation, answer: Any) -> None:
        def answered(told: zk.Answer) -> None:
            answer(told)
            self._run_election()

        self.client.submit(operation, answered)

    def _submit(self, operation: zk.Operation, answer: Any) -> None:
        self.client.submit(operation, answer, coordinates=True)

    def _soon(self, happen: Any, epoch: int) -> None:
        """Another thread carries the election: it tells the core a little later, in order."""
        chance = self.world.chance
        late_ms = LATE_MS if chance.random() < 0.3 else 3.0
        self._teller.put(late_ms * chance.random(), self.post, "election", happen, epoch)

    def _elected(self, epoch: int) -> None:
        self.here.eyes.coordinates(self.name, epoch)
        self._give(("elected", epoch), self.core.load, epoch)
        self.store.load(epoch, self._loaded)

    def _loaded(self, groups: Mapping[str, StoredClassicGroup] | None) -> None:
        if groups is None:
            self._step_down()
        else:
            self._give("loaded", self.core.lead, groups)

    def _deposed(self, epoch: int) -> None:
        del epoch
        self._give("deposed", self.core.resign)

    def _step_down(self) -> None:
        """Resign and stand again later: nobody knows whether something was done."""
        self._give("in doubt", self.core.resign)
        self.timeline.after(0, self.post, "election", self._elect, Resign())
        self.timeline.after(STAND_AGAIN_MS, self.post, "election", self._elect, Stand())

    def _link_changed(self, link: zk.Link, session: int) -> None:
        self._elect(LinkChanged(link, session))

    def _watch_fired(self, watched: zk.Watched) -> None:
        if watched.path == self.here.paths.election.leader:
            self._elect(LeaderChanged())

    def _watch_lost(self, watched: zk.Watched) -> None:
        raise AssertionError(f"{self.name} leaves no watch of its own: {watched}")

    # ── The network ─────────────────────────────────────────────────────────────────────────

    def accept(self, connection: Connection) -> int:
        """The kernel accepts a member's connection."""
        self._channels += 1
        self.ends[self._channels] = (connection, connection.server)
        return self._channels

    def opened(self, channel: int) -> None:
        """A member connected."""

    def refused(self, channel: int) -> None:
        """A broker connects to nobody."""
        raise AssertionError(f"{self.name} never asked for a connection ({channel})")

    def received(self, channel: int, frame: Frame) -> None:
        """A member sent a request."""
        self.post(f"channel {channel}", self._take, channel, frame)

    def closed(self, channel: int) -> None:
        """
        A connection is over: what came over it and is not read yet never is.

        So the spec assumes it: of the requests of one client, none is read after a later one.
        """
        self._waiting.pop(f"channel {channel}", None)
        self.ends.pop(channel, None)

    def _take(self, channel: int, frame: Frame) -> None:
        number, request = frame
        self._last_caller += 1
        self.callers[self._last_caller] = (channel, number)
        if isinstance(request, FindCoordinatorRequest):
            leader = self.here.leader()
            error = Error.COORDINATOR_NOT_AVAILABLE if leader is None else Error.NONE
            self._answer(self._last_caller, FindCoordinatorResponse(error, leader))
            return
        if isinstance(request, MetadataRequest):
            topics = tuple(self.here.kafka.topics.items())
            self._answer(self._last_caller, MetadataResponse(tuple(self.here.nodes()), topics))
            return
        self._give(request, self.core.handle, self._last_caller, request)
