"""
A simulated member: a simple client of the group protocol, with an application that consumes.

It does what clients owe: it stops consuming, and commits what is finished, before it joins anew; it
begins where its SyncGroup and OffsetFetch say. Who was paused may consume on for a while as what it
is no longer: nothing that it says then is accepted. A broker that does not coordinate is left for
the next; a request that is not answered in time ends its connection, with all that is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from random import Random
from typing import Protocol, TypeAlias

from herdproof.consuming.consumer_protocol import (
    read_assignment,
    write_assignment,
    write_subscription,
)
from herdproof.consuming.offsets import NamedPartition
from herdproof.protocols.group_protocol.coordinator.groups import CONSUMER
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.messages import (
    NO_OFFSET,
    Error,
    GroupProtocol,
    GroupRequest,
    GroupResponse,
    GroupToFetch,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    PartitionToCommit,
    SyncGroupRequest,
    SyncGroupResponse,
    TopicToCommit,
)
from herdproof.protocols.group_protocol.simulated.broker import Frame
from herdproof.protocols.group_protocol.simulated.chance import GroupRunConfig
from herdproof.protocols.group_protocol.simulated.eyes import GroupEyes
from herdproof.simulator.clock import Clock
from herdproof.simulator.kafka import Kafka
from herdproof.simulator.process import Process, World

GROUP = "g"
THINKS_MS = (80.0, 420.0)
"""How long the application thinks about a record, or waits before it asks again."""
HEARTBEAT_MS = 1_000.0
COMMIT_MS = 1_500.0
BACKOFF_MS = 200.0
REQUEST_MS = 2_500.0
"""How long a request is waited for that is not parked."""

Heard: TypeAlias = Callable[[GroupResponse], None]
OVER = (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.FENCED_INSTANCE_ID)
"""Whoever hears this is no member, or not of this generation."""
ELSEWHERE = (Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE)
"""Whoever hears this looks for the coordinator elsewhere."""


class JoinState(Enum):
    """How far a member is with its group."""

    UNJOINED = "unjoined"
    REBALANCING = "rebalancing"
    STABLE = "stable"


class GroupMemberWorld(World, Protocol):
    """What a member needs of its world."""

    config: GroupRunConfig
    eyes: GroupEyes
    kafka: Kafka
    names: dict[str, str]

    def hosts(self) -> list[str]:
        """The brokers' names."""


class SimulatedGroupMember(Process):
    """One member's process; `number` is its place in the world, `life` how many began before."""

    def __init__(self, world: GroupMemberWorld, number: int, life: int, clock: Clock) -> None:
        super().__init__(world, f"c{number}.{life}", clock)
        self.here = world
        self.number = number
        self.chance = Random(f"{world.chance.random()}/{number}/{life}")
        self.state = JoinState.UNJOINED
        self.member_id = ""
        self.generation = -1
        self.leads_over: dict[str, int] | None = None
        """The topics that it has shared out as the leader."""
        self.positions: dict[TopicPartition, int] = {}
        self.fresh: dict[TopicPartition, int] = {}
        """Of what is consumed: the offset behind what is finished, and not committed yet."""
        self.held: tuple[TopicPartition, int, int] | None = None
        """The record that the application has taken: partition, offset, generation."""
        self.leaving = False
        self._host = number
        self._channel = self._numbers = self._tries = 0
        self._is_open = False
        self._sent: dict[int, tuple[GroupRequest, Heard]] = {}
        self._unsent: list[tuple[int, GroupRequest]] = []
        world.eyes.enters(self.name)
        self._later(300.0, self._rejoin)
        self._later(300.0, self._think)
        self._later(HEARTBEAT_MS, self._beat)
        self._later(COMMIT_MS, self._commit_now_and_then)

    def tick(self) -> None:
        """It has no alarm of its own."""

    def kill(self) -> None:
        """The process is no more."""
        if self.alive:
            super().kill()
            self.here.eyes.stops(self.name)

    def leave(self) -> None:
        """Its user closes it."""
        self.leaving = True
        self.post("application", self._leave)

    def consumes(self, where: TopicPartition) -> bool:
        """Whether it hands out records of a partition."""
        return self.alive and where in self.positions

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

    def _ask(self, request: GroupRequest, heard: Heard, patience_ms: float = REQUEST_MS) -> None:
        """Send a request, over a new connection if there is none."""
        self._numbers += 1
        number = self._numbers
        self._sent[number] = (request, heard)
        if not self._channel:
            self._connect()
        if self._is_open:
            self._send(number, request)
        else:
            self._unsent.append((number, request))
        self.timeline.after(patience_ms, self.post, "timer", self._lose_patience, number)

    def _connect(self) -> None:
        hosts = self.here.hosts()
        self._tries += 1
        self._channel = self._tries
        host = hosts[self._host % len(hosts)]
        connection = self.world.network.connect(self, self._channel, host, 1)
        if connection is not None:
            self.ends[self._channel] = (connection, connection.client)

    def _send_waiting(self, channel: int) -> None:
        if channel == self._channel:
            self._is_open = True
            unsent, self._unsent = self._unsent, []
            for number, request in unsent:
                self._send(number, request)

    def _send(self, number: int, request: GroupRequest) -> None:
        connection, end = self.ends[self._channel]
        connection.send(end, (number, request))

    def _hear(self, channel: int, frame: Frame) -> None:
        number, response = frame
        if channel == self._channel and number in self._sent:
            _, heard = self._sent.pop(number)
            assert not isinstance(response, GroupRequest)
            heard(response)

    def _lose_patience(self, number: int) -> None:
        if number in self._sent:
            self._hang_up()

    def _lost(self, channel: int) -> None:
        if channel == self._channel:
            self._hang_up()

    def _hang_up(self) -> None:
        """Leave this broker for the next; what was asked is not answered any more."""
        connection, _ = self.ends.pop(self._channel, (None, None))
        if connection is not None:
            connection.cut(0.0, 0.0)
        self._channel, self._is_open = 0, False
        self._host += 1
        self._unsent.clear()
        sent, self._sent = self._sent, {}
        if any(
            isinstance(request, JoinGroupRequest | SyncGroupRequest) for request, _ in sent.values()
        ):
            self._rejoin_later()
        for request, heard in sent.values():
            if isinstance(request, OffsetFetchRequest):
                self._again(self._fetch)
            elif isinstance(request, OffsetCommitRequest):
                heard(OffsetCommitResponse())

    # ── Joining ─────────────────────────────────────────────────────────────────────────────

    def _rejoin_later(self) -> None:
        self.state = JoinState.UNJOINED
        self._again(self._rejoin)

    def _again(self, deed: Callable[[], None]) -> None:
        self.timeline.after(BACKOFF_MS * (0.5 + self.chance.random()), self.post, "group", deed)

    def _rejoin(self) -> None:
        """Stop, commit what is finished, then join."""
        if self.leaving or self.state is not JoinState.UNJOINED:
            return
        self.state = JoinState.REBALANCING
        self._finish()
        if self.fresh and self.generation >= 0:
            self._commit(self._stop_and_join)
        else:
            self._stop_and_join()

    def _stop_and_join(self) -> None:
        self._stop()
        if not self.leaving:
            self._join()

    def _stop(self) -> None:
        if self.positions:
            self.here.eyes.stops(self.name)
        self.positions.clear()
        self.fresh.clear()
        self.held = None

    def _join(self) -> None:
        config = self.here.config
        topics = tuple(sorted(self.here.kafka.topics))
        request = JoinGroupRequest(
            version=9, client_id=self.name, group_id=GROUP, member_id=self.member_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms, protocol_type=CONSUMER,
            protocols=(GroupProtocol("range", write_subscription(topics)),),
        )  # fmt: skip
        self._ask(request, self._joined, config.rebalance_timeout_ms + 5_000)

    def _joined(self, told: GroupResponse) -> None:
        assert isinstance(told, JoinGroupResponse)
        if told.member_id:
            self.here.names[told.member_id] = self.name
        if told.error is Error.MEMBER_ID_REQUIRED:
            self.member_id = told.member_id
            self._join()
        elif told.error:
            self._refused(told.error)
        else:
            self.member_id, self.generation = told.member_id, told.generation_id
            self.here.eyes.joins(self.name, told.generation_id, told.leader)
            self._sync(told)

    def _sync(self, told: JoinGroupResponse) -> None:
        """Ask for the assignment; the leader shares the partitions out, in turn."""
        shares: dict[str, list[TopicPartition]] = {m.member_id: [] for m in told.members}
        self.leads_over = dict(self.here.kafka.topics) if shares else None
        ids = sorted(shares)
        for place, where in enumerate(self._partitions() if ids else ()):
            shares[ids[place % len(ids)]].append(where)
        request = SyncGroupRequest(
            version=5, group_id=GROUP, generation_id=self.generation, member_id=self.member_id,
            assignments=tuple(MemberAssignment(m, write_assignment(w)) for m, w in shares.items()),
        )  # fmt: skip
        self._ask(request, self._synced, self.here.config.rebalance_timeout_ms + 5_000)

    def _partitions(self) -> list[TopicPartition]:
        topics = self.here.kafka.topics
        return [(topic, number) for topic in sorted(topics) for number in range(topics[topic])]

    def _synced(self, told: GroupResponse) -> None:
        assert isinstance(told, SyncGroupResponse)
        if told.error:
            self._refused(told.error)
            return
        self.state = JoinState.STABLE
        self.assigned = read_assignment(told.assignment)
        self._fetch()

    def _refused(self, error: Error) -> None:
        """Whatever it was asking for, it begins anew."""
        if error in OVER:
            self.generation = -1
        if error is Error.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if error in ELSEWHERE:
            self._hang_up()
        if self.state is not JoinState.UNJOINED:
            self._rejoin_later()

    def _fetch(self) -> None:
        """Ask where to begin."""
        if self.state is JoinState.STABLE and not self.positions and self.assigned:
            generation = self.generation
            request = OffsetFetchRequest(version=9, groups=(GroupToFetch(GROUP, None),))
            self._ask(request, partial(self._fetched, generation))

    def _fetched(self, generation: int, told: GroupResponse) -> None:
        assert isinstance(told, OffsetFetchResponse)
        if generation != self.generation or self.state is not JoinState.STABLE or self.positions:
            return
        (group,) = told.groups
        if group.error:
            if group.error in ELSEWHERE:
                self._hang_up()
            self._again(self._fetch)
            return
        found = {(t.name, p.partition): p.offset for t in group.topics for p in t.partitions}
        starts = {where: found.get(where, NO_OFFSET) for where in self.assigned}
        self.here.eyes.begins(self.name, self.generation, starts)
        for where, offset in starts.items():
            if offset == NO_OFFSET:
                self.here.eyes.resolves(self.name, where, 0)
            self.positions[where] = max(offset, 0)

    # ── Being a member ──────────────────────────────────────────────────────────────────────

    def _beat(self) -> None:
        """Send heartbeats, and have a look at the topics as the leader."""
        if self.leaving:
            return
        self._later(HEARTBEAT_MS, self._beat, at_least_ms=HEARTBEAT_MS / 2)
        if self.state is not JoinState.STABLE:
            return
        if self.leads_over is not None and self.leads_over != self.here.kafka.topics:
            self.state = JoinState.UNJOINED
            self._rejoin()
            return
        request = HeartbeatRequest(
            version=4, group_id=GROUP, generation_id=self.generation, member_id=self.member_id
        )
        self._ask(request, partial(self._beaten, self.generation))

    def _beaten(self, generation: int, told: GroupResponse) -> None:
        assert isinstance(told, HeartbeatResponse)
        self._heard_of_membership(generation, told.error)

    def _heard_of_membership(self, generation: int, error: Error) -> None:
        """Something was said of a generation: if it is still that, it may be over."""
        if generation == self.generation and self.state is JoinState.STABLE and error:
            if error is Error.COORDINATOR_LOAD_IN_PROGRESS:
                return
            if error in ELSEWHERE:
                self._hang_up()
                return
            self._refused(error)

    def _leave(self) -> None:
        self._finish()
        self._stop()
        if self.member_id:
            leaving = LeavingMember(self.member_id)
            request = LeaveGroupRequest(version=5, group_id=GROUP, members=(leaving,))
            self._ask(request, _ignore)

    # ── Consuming ───────────────────────────────────────────────────────────────────────────

    def _think(self) -> None:
        """The application asks for the next record, and so has finished with the last."""
        if self.leaving:
            return
        self._finish()
        self._deliver()
        self._later(THINKS_MS[1], self._think, at_least_ms=THINKS_MS[0])

    def _deliver(self) -> None:
        logs = self.here.kafka.logs
        ready = [
            where
            for where, position in self.positions.items()
            if position < logs[NamedPartition(where[0], str(where[1]))].end
        ]
        if ready and self.state is JoinState.STABLE:
            where = ready[self.chance.randrange(len(ready))]
            self.held = (where, self.positions[where], self.generation)

    def _finish(self) -> None:
        if self.held is None:
            return
        (where, offset, _), self.held = self.held, None
        self.positions[where] = self.fresh[where] = offset + 1
        self.here.eyes.finishes(self.name, where, offset)

    def _commit_now_and_then(self) -> None:
        if self.leaving:
            return
        self._later(COMMIT_MS, self._commit_now_and_then, at_least_ms=COMMIT_MS / 2)
        is_committing = any(isinstance(r, OffsetCommitRequest) for r, _ in self._sent.values())
        if self.state is JoinState.STABLE and self.fresh and not is_committing:
            self._commit(None)

    def _commit(self, then: Callable[[], None] | None) -> None:
        """Commit what is finished, and go on when it is answered, or not in time."""
        self.here.eyes.commits(self.name, self.fresh)
        topics: dict[str, list[PartitionToCommit]] = {}
        for (topic, number), offset in self.fresh.items():
            topics.setdefault(topic, []).append(PartitionToCommit(number, offset))
        request = OffsetCommitRequest(
            version=9, group_id=GROUP, generation_id=self.generation, member_id=self.member_id,
            topics=tuple(TopicToCommit(name, tuple(found)) for name, found in topics.items()),
        )  # fmt: skip
        self._ask(request, partial(self._committed, self.generation, then))

    def _committed(
        self, generation: int, then: Callable[[], None] | None, told: GroupResponse
    ) -> None:
        assert isinstance(told, OffsetCommitResponse)
        if then is not None:
            then()
            return
        errors = [each.error for topic in told.topics for each in topic.partitions if each.error]
        for error in errors[:1]:
            self._heard_of_membership(generation, error)

    def _later(
        self, at_most_ms: float, happen: Callable[[], None], *, at_least_ms: float = 0.0
    ) -> None:
        wait_ms = at_least_ms + (at_most_ms - at_least_ms) * self.chance.random()
        self.timeline.after(wait_ms, self.post, "application", happen)


def _ignore(told: GroupResponse) -> None:
    """Go on with nothing, whatever was answered."""
    del told
