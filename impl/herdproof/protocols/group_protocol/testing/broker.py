"""
A broker in this process for tests of one's own consumers: a log in memory, and our coordinator.

    with LocalBroker() as broker:
        broker.create_topic("orders", partitions=3)
        broker.produce("orders", b"one", b"two")
        broker.fault("lose_answer", api="OffsetCommit", client="a")
        …  # consumers bootstrap from broker.bootstrap
        broker.advance(45)

It speaks Kafka's wire at a port of the loopback, from a thread of its own. The coordinator's clock
stands still until the test advances it: no session ends because a machine is slow, and each ends
when the test says so. The clients' clocks are their own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar

from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import LeaveGroupRequest
from kafka.record import MemoryRecordsBuilder

from herdproof.broker.alone import AloneBroker
from herdproof.broker.codec import KafkaRequest, RequestHead
from herdproof.broker.log import LogRefused
from herdproof.broker.metrics import BrokerMetrics
from herdproof.broker.server import BrokerServer
from herdproof.broker.settings import KafkaListener, RecordLimits
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.effects import GroupEffect, TopicPartition
from herdproof.protocols.group_protocol.server.cores import core_with
from herdproof.protocols.group_protocol.server.shell import GroupShell
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.testing.clock import START_MS, HeldClock
from herdproof.protocols.group_protocol.testing.errors import BadBrokerUse, FaultNeverCame
from herdproof.protocols.group_protocol.testing.exchanges import (
    Exchanges,
    ExchangesPort,
    WireExchange,
)
from herdproof.protocols.group_protocol.testing.faults import WireFault, check_api, fault_of
from herdproof.protocols.group_protocol.testing.happened import (
    Happened,
    TermBegan,
    WatchedStore,
    assigned_to,
)

if TYPE_CHECKING:
    from herdproof.protocols.group_protocol.judged.delivered import GroupVerdict

T = TypeVar("T")
NODE_ID = 1
SETTINGS = GroupSettings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1)
"""A group begins with its first member, since time may never pass; sessions may be short."""
LEAVES_BY_NAME = 3
"""The version of LeaveGroup from which on an administrator can remove static members, too."""
LONGEST_S = 7 * 24 * 3600
"""The most that passes at once: the broker's thread has to do what is due by then."""
PATIENCE_S = 10.0
"""The time for which the broker's own thread is waited for, which never takes as long."""


class RecordPlace(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int


PLACE = RecordPlace._fields


@dataclass(frozen=True, slots=True)
class GroupNow:
    """A group as its coordinator has it now."""

    state: str
    generation: int
    members: Mapping[str, Sequence[TopicPartition]]
    """The assignment of each member, by the client's name."""
    offsets: Mapping[TopicPartition, int]
    """The committed offsets."""


class LocalBroker:
    """
    One broker, as long as the context lasts; `bootstrap` is where clients find it.

    `bug` is one of Kafka's historical ones, such as KAFKA-9801, that its coordinator is to have.
    """

    def __init__(
        self, topics: Mapping[str, int] | None = None, *, settings: GroupSettings = SETTINGS,
        records: RecordLimits | None = None, bug: str | None = None,
    ) -> None:  # fmt: skip
        self.bootstrap = ""
        self._topics = dict(topics or {})
        self._settings = settings
        self._limits = records or RecordLimits()
        self._coordinator = core_with(bug)
        self._clock = HeldClock()
        self._happened = Happened(self._clock.now_ms)
        self._exchanges = Exchanges(
            self._clock.now_ms, self._happened.asked, self._happened.answered
        )
        self._began: Future[None] = Future()
        self._over: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread | None = None

    # ── Beginning and end ───────────────────────────────────────────────────────────────────

    def __enter__(self) -> Self:
        return self.start()

    def start(self) -> Self:
        """Begin to serve; `close` is owed from now on. A broker lives once."""
        if self._thread is not None or self._began.done():
            raise BadBrokerUse("this broker has begun already: make another one")
        self._thread = threading.Thread(target=self._live, name="herdproof-broker", daemon=True)
        self._thread.start()
        try:
            self._began.result(PATIENCE_S)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()
        if kind is None:
            self.check_faults()

    def close(self) -> None:
        """End every connection, the port and the thread; again, if it has ended, does nothing."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if not self._began.cancel() and self._began.exception() is None:
            self._loop.call_soon_threadsafe(self._over.set)
        thread.join(PATIENCE_S)

    def check_faults(self) -> None:
        """Raise `FaultNeverCame` if a fault that must come has struck nothing."""
        for fault in self._exchanges.faults:
            if fault.must_come and not fault.struck:
                asked = dict.fromkeys(f"{e.client} {e.api}" for e in self._exchanges.history)
                raise FaultNeverCame(
                    f"the fault {fault} never came: {fault.seen} such requests did (asked were "
                    f"{', '.join(sorted(asked)) or 'none at all'})"
                )

    def _live(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as problem:
            if not self._began.done():
                self._began.set_exception(problem)

    async def _serve(self) -> None:
        """Serve until it is over."""
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        listener = KafkaListener(port=0, close_timeout_ms=50)
        make_port = partial(ExchangesPort, exchanges=self._exchanges)
        async with BrokerServer(listener, None, BrokerMetrics(), make_port) as server:
            self._alone = AloneBroker(server, NODE_ID, self._limits)
            self._shell = GroupShell(
                self._settings, WatchedStore(self._happened), fail=server.fail,
                knows_partition=self._alone.log.has,
                observe=self._observe, clock=self._clock, coordinator=self._coordinator,
            )  # fmt: skip
            self._happened.topics = self._alone.log.topics
            here = await self._alone.open(listener, self._topics, self._shell)
            self._epoch = 0
            self._elect()
            self.bootstrap = f"{here.host}:{here.port}"
            if self._began.set_running_or_notify_cancel():
                self._began.set_result(None)
                await self._over.wait()
            for connection in list(self._exchanges.connections):
                connection.abort()

    def _observe(self, core: GroupCoordinator, _effects: Sequence[GroupEffect]) -> None:
        self._core = core

    def _elect(self) -> None:
        self._epoch += 1
        self._happened.note(TermBegan(self._epoch))
        self._shell.elected(self._epoch)

    def _do(self, deed: Callable[[], T]) -> T:
        """Have something done in the broker's own thread."""
        if self._thread is None:
            raise BadBrokerUse(
                "this broker has ended, or not begun: use it within its test, or its `with`"
            )
        done: Future[T] = Future()

        def do() -> None:
            try:
                done.set_result(deed())
            except BaseException as problem:
                done.set_exception(problem)

        self._loop.call_soon_threadsafe(do)
        return done.result(PATIENCE_S)

    # ── Topics and records ──────────────────────────────────────────────────────────────────

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic; raises `BadBrokerUse` if that cannot be."""
        self._do(partial(self._create, name, partitions))

    def _create(self, name: str, partitions: int) -> None:
        try:
            self._alone.log.create(name, partitions)
        except LogRefused as refused:
            raise BadBrokerUse(f"topic {name!r} cannot be created: {refused}") from None

    def produce(
        self, topic: str, *values: bytes | str, partition: int | None = None,
        key: bytes | None = None,
    ) -> list[RecordPlace]:  # fmt: skip
        """Append records, to one partition or to all in turn; where they stand."""
        return self._do(partial(self._produce, topic, values, partition, key))

    def _produce(
        self, topic: str, values: Sequence[bytes | str], partition: int | None, key: bytes | None
    ) -> list[RecordPlace]:
        logged = self._alone.log.topics.get(topic)
        if logged is None:
            raise BadBrokerUse(f"there is no topic {topic!r}: create_topic({topic!r}) comes first")
        if partition is not None and not 0 <= partition < len(logged.partitions):
            raise BadBrokerUse(f"topic {topic!r} has no partition {partition}")
        places = []
        for count, value in enumerate(values):
            number = count % len(logged.partitions) if partition is None else partition
            data = value.encode() if isinstance(value, str) else value
            if not isinstance(data, bytes):
                raise BadBrokerUse(f"a record of {topic!r} is text or bytes, and not {value!r}")
            offset = self._alone.log.append(logged.partitions[number], batch_of(key, data))
            places.append(RecordPlace(topic, number, offset))
        return places

    # ── Time, and what goes wrong ───────────────────────────────────────────────────────────

    def advance(self, seconds: float) -> None:
        """
        Let time pass for the coordinator, at once: what is due by then is done in its order.

        Whoever is not heard of meanwhile is nobody's session any more, and nobody can be heard of
        within an instant: `advance(45)` ends every session of up to 45 s. See `expire` for one.
        """
        if seconds < 0:
            raise BadBrokerUse(f"advance({seconds}): time does not go back")
        if not seconds <= LONGEST_S:
            raise BadBrokerUse(f"advance({seconds}): {LONGEST_S} seconds, a week, is the most")
        self._do(partial(self._clock.advance, round(seconds * 1000)))

    def expire(self, client: str) -> None:
        """
        Remove a client's members from their groups, as if their sessions had ended; no time passes.

        It is carried out by the LeaveGroup of an administrator, from which the same follows.
        """
        self._do(partial(self._expire, client))

    def _expire(self, client: str) -> None:
        found = [
            (group.name, member)
            for group in self._core.groups.values()
            for member in group.members.values()
            if member.client_id == client
        ]
        if not found:
            raise BadBrokerUse(f"expire({client!r}): this client has no member in any group")
        for group, member in found:
            leaving = LeaveGroupRequest(
                version=LEAVES_BY_NAME, group_id=group,
                members=[LeaveGroupRequest.MemberIdentity(
                    member_id=member.member_id, group_instance_id=member.group_instance_id
                )],
            )  # fmt: skip
            head = RequestHead(ApiKey.LeaveGroup, LEAVES_BY_NAME, 0)
            self._shell.ask(KafkaRequest(head, "", "", leaving), lambda _answer: None)

    def fault(
        self, does: str, *, api: str, client: str | None = None, nth: int = 1, times: int = 1,
        error: str | None = None, seconds: float = 0.0, must_come: bool = True,
    ) -> WireFault:  # fmt: skip
        """
        Have something happen to the nth request of a kind from now on, and to `times` from there.

        `does` is drop, delay (by `seconds`), repeat, error (which one) or lose_answer; `api` one of
        Kafka's names (JoinGroup, OffsetCommit …); `client` a `client.id`, if only its requests
        count. A fault that must come and does not fails the test.
        """
        made = fault_of(
            does, self._apis(), api=api, client=client, nth=nth, times=times, error=error,
            seconds=seconds, must_come=must_come,
        )  # fmt: skip
        self._do(partial(self._exchanges.faults.append, made))
        return made

    def _apis(self) -> list[str]:
        return self._do(self._exchanges.apis)

    def cut(self, client: str | None = None) -> None:
        """Break every connection of a client, or of all."""
        self._do(partial(self._cut, client))

    def _cut(self, client: str | None) -> None:
        connections = self._exchanges.connections
        ending = [each for each, whose in connections.items() if client in (None, whose)]
        if not ending:
            raise BadBrokerUse(
                f"cut({client!r}): connected are "
                f"{', '.join(sorted(map(repr, set(connections.values())))) or 'none'}"
            )
        for connection in ending:
            connection.abort()

    def failover(self) -> None:
        """Depose the coordinator and elect another one, which reads what is stored."""
        self._do(self._fail_over)

    def _fail_over(self) -> None:
        self._shell.deposed()
        self._elect()

    # ── What can be seen ────────────────────────────────────────────────────────────────────

    @property
    def history(self) -> Sequence[WireExchange]:
        """All requests and their answers, in the order in which they came; the last 50,000."""
        return self._do(lambda: tuple(self._exchanges.history))

    def asked(self, api: str, client: str | None = None) -> list[WireExchange]:
        """The exchanges of one kind, of one client or of all."""
        check_api(api, self._apis())
        return [e for e in self.history if e.api == api and client in (None, e.client)]

    @property
    def occasions(self) -> int:
        """Times that its `bug` has made a difference so far: while it is 0, nothing is shown."""
        return self._do(lambda: getattr(self._core, "occasions", 0))  # bugs are not imported here

    # ── What was delivered, and what comes of it ────────────────────────────────────────────

    def delivered(self, member: str, record: Any) -> None:
        """
        Say that the consumer of this `client.id` was given a record, before it is committed.

        A record is one of confluent-kafka's, kafka-python's or aiokafka's, or where it stands.
        """
        topic, partition, offset = place_of(record)
        self._do(partial(self._happened.delivered, member, (topic, partition), offset))

    def undelivered(self, group: str, topic: str) -> Mapping[TopicPartition, Sequence[int]]:
        """The offsets of a topic's records that nobody of a group was given, by partition."""
        if topic not in self._do(lambda: list(self._alone.log.topics)):
            raise BadBrokerUse(f"undelivered of topic {topic!r}: there is no such topic")
        return self._do(partial(self._happened.undelivered, group, topic))

    def judge(
        self, group: str | None = None, *, fenced: bool = False,
        reset: Literal["earliest", "latest"] = "earliest",
    ) -> GroupVerdict:  # fmt: skip
        """
        Hold all that happened to a group (None: the only one) against the contract.

        `fenced`: who reads on in a partition that was given to another counts no more, if its
        commits are refused; else both count. `reset` is where the consumers begin with nothing
        committed.
        """
        from herdproof.protocols.group_protocol.judged.delivered import judged

        return judged(self._do(lambda: list(self._happened.events)), group, fenced, reset)

    def group(self, name: str) -> GroupNow:
        """A group as it is now; one that there is not is Dead, as DescribeGroups has it."""
        return self._do(partial(self._group, name))

    def _group(self, name: str) -> GroupNow:
        group = self._core.groups.get(name)
        if group is None:
            return GroupNow("Dead", 0, {}, {})
        members = {m.client_id: assigned_to(m.assignment) for m in group.members.values()}
        offsets = {where: stored.offset for where, stored in group.offsets.items()}
        return GroupNow(group.state.value, group.generation, members, offsets)


def place_of(record: Any) -> RecordPlace:
    """Where a client's record stands; raises `BadBrokerUse` for what is none."""
    if isinstance(record, tuple) and len(record) == len(PLACE):
        return RecordPlace(*record)
    is_text = isinstance(record, (str, bytes))  # which has a `partition`, too
    told: list[Any] = [None if is_text else getattr(record, name, None) for name in PLACE]
    told = [each() if callable(each) else each for each in told]
    if not isinstance(told[0], str) or not all(isinstance(each, int) for each in told[1:]):
        raise BadBrokerUse(
            f"delivered {record!r}: say a client's record, or (topic, partition, offset)"
        )
    return RecordPlace(*told)


def batch_of(key: bytes | None, value: bytes) -> bytes:
    """One record, as a producer sends it."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=len(value) + 1024)
    builder.append(timestamp=START_MS, key=key, value=value, headers=[])
    builder.close()
    return bytes(builder.buffer())
