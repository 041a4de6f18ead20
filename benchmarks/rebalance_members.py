"""
Simulated members of groups over real sockets: of `herdproof coordinator`, and of Kafka's.

They do what each protocol asks of a consumer, and fetch nothing. What they are assigned they tell
their `Gathering`, which knows when a group has settled.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from benchmarks import kafka_wire as kafka
from benchmarks.central_wire import ConsumerEnd
from benchmarks.kafka_wire import Api, Error
from herdproof.consuming.offsets import OffsetReset
from herdproof.consuming.subscription import named
from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    Frame,
    Register,
    RegisterResponse,
    Start,
)

Address = tuple[str, int]

MAX_PING_RETRIES = 3
AGAIN_S = 0.1
"""How long a member of Kafka's waits where its coordinator is not ready (retry.backoff.ms)."""
TRANSIENT = {
    Error.COORDINATOR_LOAD_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR,
}  # fmt: skip


class Owner(Protocol):
    """Whose the members are, and what they are all told to do alike."""

    topic: str
    partitions: int
    interval_s: float
    session_timeout_ms: int
    patience_s: float
    last_asked: float
    """When a member last asked to be part of the next assignment."""

    def lost(self, member: Member) -> None:
        """A member's connection is over."""


class Gathering:
    """
    One group, as its members see it: when the last of them was told its part of one assignment.

    It counts only if all of one generation was given away, each partition once: a wrong assignment
    has no speed.
    """

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.size = 0
        self._all = list(range(partitions))
        self._generation = self._past = (0, 0)
        self._told: dict[str, list[int]] = {}
        self.settled: asyncio.Future[float]

    def expect(self, more: int) -> None:
        """From now on there are so many more members, and a later assignment is waited for."""
        self.size += more
        self._past = self._generation
        self.settled = asyncio.get_running_loop().create_future()

    def assigned(self, member: str, generation: tuple[int, int], partitions: list[int]) -> None:
        """A member was told its part; generations are ordered, an epoch stands before."""
        if generation > self._generation:
            self._generation, self._told = generation, {}
        if generation == self._generation:
            self._told[member] = partitions
        if len(self._told) == self.size and self._generation > self._past and self._whole():
            self._past = self._generation
            if not self.settled.done():
                self.settled.set_result(time.monotonic())

    def _whole(self) -> bool:
        """Whether every partition has exactly one owner."""
        return sorted(p for told in self._told.values() for p in told) == self._all


class Member(ABC, asyncio.Protocol):
    """One member, and its connection."""

    def __init__(self, owner: Owner, group: Gathering, name: str) -> None:
        self.owner = owner
        self.group = group
        self.name = name
        self.accepted: asyncio.Future[bool]
        """Whether the coordinator took it, over the present connection."""
        self.over: asyncio.Future[None]
        """Done when the connection is."""
        self._transport: asyncio.Transport

    async def connect(self, address: Address) -> None:
        """Connect, and ask to be a member; then await `accepted`. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        self.accepted, self.over = loop.create_future(), loop.create_future()
        await loop.create_connection(lambda: self, *address)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is connected, and begins."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.begin()

    def connection_lost(self, _why: Exception | None) -> None:
        """The connection is over."""
        self.over.set_result(None)
        self.answered(False)
        if self.accepted.result():
            self.owner.lost(self)

    @abstractmethod
    def begin(self) -> None:
        """Say the first thing."""

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Bytes came."""

    def leave(self) -> None:
        """Be a member no more: for this the connection is closed, soon."""
        self._transport.close()

    def answered(self, accepted: bool) -> None:
        """The coordinator took it, or not; what it says first counts."""
        if not self.accepted.done():
            self.accepted.set_result(accepted)


# ── Of herdproof coordinator ────────────────────────────────────────────────────────────────


class CentralMember(Member):
    """A consumer of system B that answers at once what it is asked."""

    epoch = 0

    def begin(self) -> None:
        """Register."""
        self._end = ConsumerEnd()
        owner = self.owner
        owner.last_asked = time.monotonic()
        register = Frame(
            Register(
                self.group.name, self.name, named({owner.topic: 1}).text(), False,
                OffsetReset.SMALLEST, int(1000 * owner.interval_s), MAX_PING_RETRIES,
                owner.session_timeout_ms,
            ),
            correlation_id=1, epoch=self.epoch, client_id=self.name,
        )  # fmt: skip
        self._transport.write(self._end.encode(register))

    def data_received(self, data: bytes) -> None:
        """Answer what comes."""
        for frame in self._end.feed(data):
            self.epoch = max(self.epoch, frame.epoch)
            self._transport.write(self._end.answer(frame, epoch=self.epoch))
            match frame.message:
                case Start(partitions=partitions):
                    numbers = [int(each.partition) for each in partitions]
                    self.group.assigned(self.name, (frame.epoch, frame.generation), numbers)
                case RegisterResponse(error_code=error):
                    self.answered(error is ErrorCode.NONE)


# ── Of Kafka's group coordinator ────────────────────────────────────────────────────────────


class KafkaMember(Member):
    """
    A consumer of Kafka's classic group protocol: it joins, syncs, and sends heartbeats.

    As in Kafka's own client, the next heartbeat is an interval after the last answer. Who lost its
    connection is a member still, and says so to whoever coordinates now.
    """

    _member = ""
    _generation = -1
    _assigned: Sequence[int] = ()
    _terms = 0
    """By how many connections it was taken for a member."""
    _timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Join, or go on."""
        self._buffer = bytearray()
        self._asked: dict[int, Callable[[bytes], None]] = {}
        self._correlation_id = 0
        if self._assigned:
            self._beat()
        else:
            self._join()

    def connection_lost(self, why: Exception | None) -> None:
        """The connection is over; nothing is sent over it any more."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(why)

    def data_received(self, data: bytes) -> None:
        """Give each answer to who waits for it."""
        self._buffer += data
        for correlation_id, body in kafka.split(self._buffer):
            self._asked.pop(correlation_id)(body)

    def _ask(self, api: Api, body: bytes, then: Callable[[bytes], None]) -> None:
        self._correlation_id += 1
        self._asked[self._correlation_id] = then
        self._transport.write(kafka.request(api, self._correlation_id, self.name, body))

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something later, unless it leaves before."""
        self._timer = asyncio.get_running_loop().call_later(seconds, what)

    def leave(self) -> None:
        """Leave: whoever only closes its connection is a member until its session ends."""
        if self._timer is not None:
            self._timer.cancel()
        body = kafka.leave_group(self.group.name, self._member)
        self._ask(Api.LEAVE_GROUP, body, lambda _told: self._transport.close())

    # ── Joining ─────────────────────────────────────────────────────────────────────────────

    def _join(self) -> None:
        self.owner.last_asked = time.monotonic()
        timeout_ms = self.owner.session_timeout_ms
        rebalance_ms = int(1000 * self.owner.patience_s)
        topics = (self.owner.topic,)
        body = kafka.join_group(self.group.name, self._member, topics, timeout_ms, rebalance_ms)
        self._ask(Api.JOIN_GROUP, body, self._joined)

    def _joined(self, data: bytes) -> None:
        joined = kafka.joined_group(data)
        match joined.error:
            case Error.NONE:
                self._member, self._generation = joined.member, joined.generation
                self._is_taken()
                leads = joined.leader == joined.member
                self._sync(self._planned(joined.members) if leads else {})
            case Error.MEMBER_ID_REQUIRED:
                self._member = joined.member
                self._join()
            case error:
                self._join_again(error)

    def _planned(self, members: Iterable[str]) -> dict[str, bytes]:
        """The range assignor's plan, by member."""
        names = sorted(members)
        each, more = divmod(self.owner.partitions, len(names))
        plan, begin = {}, 0
        for place, name in enumerate(names):
            end = begin + each + (place < more)
            plan[name] = kafka.assignment(self.owner.topic, range(begin, end))
            begin = end
        return plan

    def _sync(self, plan: dict[str, bytes]) -> None:
        body = kafka.sync_group(self.group.name, self._generation, self._member, plan)
        self._ask(Api.SYNC_GROUP, body, self._synced)

    def _synced(self, data: bytes) -> None:
        error, partitions = kafka.synced_group(data)
        if error:
            self._join_again(error)
            return
        self._assigned = partitions
        self._tell()
        self._later(self.owner.interval_s, self._beat)

    def _tell(self) -> None:
        """Say what it is assigned, and since how many coordinators."""
        self.group.assigned(self.name, (self._terms, self._generation), list(self._assigned))

    def _join_again(self, error: Error) -> None:
        """The coordinator wants it to join once more, now or a little later."""
        if error is Error.UNKNOWN_MEMBER_ID:
            self._member = ""
        if error in TRANSIENT:
            self._later(AGAIN_S, self._join)
        else:
            self._join()

    # ── Staying ─────────────────────────────────────────────────────────────────────────────

    def _beat(self) -> None:
        body = kafka.heartbeat(self.group.name, self._generation, self._member)
        self._ask(Api.HEARTBEAT, body, self._heard)

    def _heard(self, data: bytes) -> None:
        error = kafka.heard(data)
        if not self.accepted.done() and error in TRANSIENT:
            self._later(AGAIN_S, self._beat)
        elif error:
            self._join_again(error)
        else:
            if self._is_taken():
                self._tell()
            self._later(self.owner.interval_s, self._beat)

    def _is_taken(self) -> bool:
        """Note that it is taken for a member; whether that is the first time by this connection."""
        is_first = not self.accepted.done()
        self._terms += is_first
        self.answered(True)
        return is_first
