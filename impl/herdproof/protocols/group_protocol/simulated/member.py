"""
A simulated member: the very core that the real client runs, with fetchers and an application.

What its shell owes the core it does as the real one: a connection for each node, requests in order;
nothing is handed out once the core's time is over; the application polls when it has finished with
a record, and now and then is at work on one for longer than it may be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Protocol, assert_never

from herdproof.consuming import events as consuming
from herdproof.consuming.offsets import (
    NO_OFFSET,
    NamedPartition,
    Offset,
    OffsetReset,
    number_of,
    text_of,
)
from herdproof.consuming.subscription import named
from herdproof.protocols.group_protocol.client.assignors.assignor import PartitionAssignor
from herdproof.protocols.group_protocol.client.core import events
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.settings import ClientSettings
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
)
from herdproof.protocols.group_protocol.simulated.broker import Frame
from herdproof.protocols.group_protocol.simulated.eyes import GroupEyes
from herdproof.protocols.group_protocol.simulated.random_runs import GroupRunConfig
from herdproof.protocols.group_protocol.steps import GroupStep
from herdproof.simulator.clock import Clock
from herdproof.simulator.kafka import Kafka
from herdproof.simulator.process import Process, World

GROUP = "g"
THINKS_MS = (80.0, 420.0)
"""Range of the time that the application thinks about a record, or waits before it asks again."""
POLLS_MS = 500
LISTENS_SHARE = 0.5
"""Share of the members that have a rebalance listener."""


class GroupMemberWorld(World, Protocol):
    """World of a simulated member, as far as it needs one."""

    client: type[GroupConsumer]
    config: GroupRunConfig
    eyes: GroupEyes
    kafka: Kafka
    names: dict[str, str]
    quiet: bool

    def nodes(self) -> list[events.Node]:
        """The brokers."""

    def assignors(self) -> tuple[PartitionAssignor, ...]:
        """A member's assignors, in order."""


class SimulatedGroupMember(Process):
    """
    One member's process; `number` is its place in the world, `life` how many began before.

    `instance` is its name as a static member: its `group.instance.id`.
    """

    def __init__(
        self, world: GroupMemberWorld, number: int, life: int, clock: Clock,
        instance: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(world, f"c{number}.{life}", clock)
        self.here = world
        self.number = number
        self.chance = Random(f"{world.chance.random()}/{number}/{life}")
        self.settings = ClientSettings(
            group_id=GROUP, client_id=self.name, heartbeat_interval_ms=1_000,
            session_timeout_ms=world.config.session_timeout_ms, request_timeout_ms=2_500,
            max_poll_interval_ms=world.config.rebalance_timeout_ms, retry_backoff_ms=200,
            auto_commit_interval_ms=1_500, metadata_max_age_ms=2_000,
            auto_offset_reset=OffsetReset.SMALLEST, group_instance_id=instance,
            listens=self.chance.random() < LISTENS_SHARE,
        )  # fmt: skip
        self.core = world.client(self.settings, world.nodes(), world.assignors())
        self.fetchers = 0
        """The generation of the fetchers; 0: none run."""
        self.positions: dict[TopicPartition, int] = {}
        """The next offset to deliver, of each partition that may be delivered."""
        self.held: tuple[TopicPartition, int, int] | None = None
        """The record that the application has taken: partition, offset, generation of fetchers."""
        self._resolved: dict[TopicPartition, Callable[[], None]] = {}
        """Callbacks to call once the start of a partition is stored."""
        self.leaving = False
        self._channels: dict[events.Node, int] = {}
        self._open: set[int] = set()
        self._unsent: dict[int, list[events.SendRequest]] = {}
        self._last_channel = 0
        world.eyes.enters(self.name)
        self._later(300.0, self._begin)

    @property
    def generation(self) -> int:
        """The generation that it is in."""
        return self.core.coordinator.generation.generation_id

    @property
    def instance(self) -> str | None:
        """Its name, if it is a static member."""
        return self.settings.group_instance_id

    def give(self, event: events.ClientEvent) -> None:
        """Give the core an event, and carry its effects out."""
        effects = self.core.receive(event, self.clock.now_ms())
        self.world.note(self, event, effects)
        for effect in effects:
            self._carry_out(effect)

    def tick(self) -> None:
        """The core asked to be woken."""
        self.give(consuming.Tick())

    def kill(self) -> None:
        """The process is no more."""
        if self.alive:
            super().kill()
            self.here.eyes.stops(self.name)

    def leave(self) -> None:
        """Its user closes it, once."""
        if not self.leaving:
            self.leaving = True
            self.post("application", self._leave)

    def consumes(self, where: TopicPartition) -> bool:
        """True if it hands out records of a partition."""
        subscriptions = self.core.subscriptions
        return self.alive and subscriptions.is_consuming and where in subscriptions.assignment

    # ── The network ─────────────────────────────────────────────────────────────────────────

    def opened(self, channel: int) -> None:
        """Its connection stands."""
        self.post(f"channel {channel}", self._send_waiting, channel)

    def refused(self, channel: int) -> None:
        """Nobody listens there."""
        self.post(f"channel {channel}", self._lost, channel)

    def received(self, channel: int, frame: Frame) -> None:
        """A response came."""
        self.post(f"channel {channel}", self._hear, channel, frame)

    def closed(self, channel: int) -> None:
        """The connection is over."""
        self.post(f"channel {channel}", self._lost, channel)

    def accept(self, connection: object) -> int:
        """Nobody connects to a member."""
        raise AssertionError(f"{self.name} listens to nobody: {connection}")

    def _send(self, send: events.SendRequest) -> None:
        """Send a request, over a new connection if there is none."""
        if isinstance(send.request, JoinGroupRequest):
            send = replace(send, request=self._as_spoken(send.request))
        if send.node not in self._channels:
            self._connect(send.node)
        channel = self._channels[send.node]
        if channel in self._open:
            connection, end = self.ends[channel]
            connection.send(end, (send.number, send.request))
        else:
            self._unsent.setdefault(channel, []).append(send)
        if isinstance(send.request, OffsetCommitRequest):
            said = {
                (topic.name, p.partition): p.offset
                for topic in send.request.topics for p in topic.partitions
            }  # fmt: skip
            self.here.eyes.commits(self.name, said)

    def _as_spoken(self, request: JoinGroupRequest) -> JoinGroupRequest:
        """A JoinGroup in the version that members speak here, if that is not their own."""
        version = self.here.config.join_version
        if version is None:
            return request
        timeout_ms = request.rebalance_timeout_ms if version else None
        return replace(request, version=version, rebalance_timeout_ms=timeout_ms)

    def _connect(self, node: events.Node) -> None:
        self._last_channel += 1
        self._channels[node] = self._last_channel
        connection = self.world.network.connect(self, self._last_channel, node.host, node.port)
        if connection is not None:
            self.ends[self._last_channel] = (connection, connection.client)

    def _send_waiting(self, channel: int) -> None:
        if channel in self._channels.values():
            self._open.add(channel)
            connection, end = self.ends[channel]
            for send in self._unsent.pop(channel, []):
                connection.send(end, (send.number, send.request))

    def _hear(self, channel: int, frame: Frame) -> None:
        number, response = frame
        if channel not in self._channels.values():
            return
        if isinstance(response, JoinGroupResponse) and response.member_id:
            self.here.names[response.member_id] = self.name
            self.here.eyes.named(response.member_id, self.name)
            if not response.error:
                self.here.eyes.joins(self.name, response.generation_id, response.leader)
        self.give(events.RequestAnswered(number, response))

    def _lost(self, channel: int) -> None:
        for node in [node for node, its in self._channels.items() if its == channel]:
            self._hang_up(node)
            self.give(events.Disconnected(node))

    def _hang_up(self, node: events.Node) -> None:
        channel = self._channels.pop(node, 0)
        self._open.discard(channel)
        self._unsent.pop(channel, None)
        connection, _ = self.ends.pop(channel, (None, None))
        if connection is not None:
            connection.cut(0.0, 0.0)

    # ── Effects ─────────────────────────────────────────────────────────────────────────────

    def _carry_out(self, effect: events.ClientEffect) -> None:
        match effect:
            case events.SendRequest():
                self._send(effect)
            case events.HangUp(node):
                self._hang_up(node)
            case consuming.WakeAt(time_ms):
                self.wake_at(time_ms)
            case consuming.StopFetchers():
                self.fetchers = 0
                self.positions.clear()
                self.here.eyes.stops(self.name)
            case consuming.StartFetchers():
                self._start_fetchers(effect)
            case consuming.Deliver(NamedPartition(topic, partition), generation):
                if generation == self.fetchers:
                    self._resolved[topic, number_of(partition)]()
            case consuming.Revoked():
                if self.settings.listens:
                    slow = self.chance.random() < 0.1
                    self._later(
                        3_000.0 if slow else 60.0, partial(self.give, consuming.RevocationHandled())
                    )
            case events.Fail(events.Fenced()):
                self.here.eyes.fenced(self.name)
                self._later(60.0, self.leave)
            case events.Fail(error):
                raise AssertionError(f"{self.name} is told of {error}")
            case events.EndClient():
                self.kill()
            case (
                events.Polled()
                | consuming.Committed()
                | consuming.Assigned()
                | consuming.Report()
                | GroupStep()
            ):
                pass
            case _:
                assert_never(effect)

    def _start_fetchers(self, start: consuming.StartFetchers) -> None:
        self.fetchers = start.generation
        self._resolved = {}
        starts = {(o.topic, number_of(o.partition)): o.offset for o in start.partitions}
        self.here.eyes.begins(self.name, self.generation, starts)
        for where, offset in starts.items():
            if offset == NO_OFFSET:
                self._later(120.0, partial(self._resolve, where, start.generation))
            else:
                self.positions[where] = offset

    def _resolve(self, where: TopicPartition, fetchers: int) -> None:
        """A fetcher has looked up where a partition begins that had no offset."""
        if fetchers != self.fetchers:
            return
        place = NamedPartition(where[0], text_of(where[1]))
        offset = self.here.kafka.reset(place, OffsetReset.SMALLEST)
        self._resolved[where] = partial(self.positions.__setitem__, where, offset)
        self.here.eyes.resolves(self.name, where, offset)
        self.give(consuming.Resolved(Offset(place.topic, place.partition, offset), fetchers))

    # ── The application ─────────────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        self.give(events.SubscribeTo(named(dict.fromkeys(sorted(self.here.kafka.topics), 1))))
        self._later(300.0, self._think)

    def _think(self) -> None:
        """The application asks for the next record, and so has finished with the last."""
        if self.leaving:
            return
        self._finish()
        self.give(events.Poll(POLLS_MS))
        self._deliver()
        low, high = THINKS_MS
        late = (
            self.held is not None
            and not self.here.quiet
            and self.chance.random() < self.here.config.late
        )
        longest_ms = 1.4 * self.settings.max_poll_interval_ms if late else high
        self._later(longest_ms, self._think, at_least_ms=low)

    def may_deliver(self, where: TopicPartition) -> bool:
        """True if its application may get a record of a partition now."""
        in_time = self.clock.now_ms() < self.core.delivers_until_ms
        return self.alive and in_time and where in self.positions

    def _deliver(self) -> None:
        logs = self.here.kafka.logs
        ready = [
            where
            for where, position in self.positions.items()
            if self.may_deliver(where)
            and position < logs[NamedPartition(where[0], str(where[1]))].end
        ]
        if ready:
            where = ready[self.chance.randrange(len(ready))]
            self.held = (where, self.positions[where], self.fetchers)
            self.positions[where] += 1
            self.here.eyes.delivers(self.name, where)
            self.give(events.Poll(POLLS_MS, at_work=True))

    def _finish(self) -> None:
        if self.held is None:
            return
        (where, offset, fetchers), self.held = self.held, None
        self.here.eyes.finishes(self.name, where, offset)
        self.give(consuming.Consumed(Offset(where[0], text_of(where[1]), offset + 1), fetchers))

    def _leave(self) -> None:
        self._finish()
        self.give(consuming.Shutdown())

    def _later(
        self, at_most_ms: float, happen: Callable[[], None], *, at_least_ms: float = 0.0
    ) -> None:  # fmt: skip
        wait_ms = at_least_ms + (at_most_ms - at_least_ms) * self.chance.random()
        self.timeline.after(wait_ms, self.post, "application", happen)
