"""A group at a broker that stands for Kafka, and what is written by a front that looks on."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random

from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)

from herdproof.broker.answering import BrokerNode
from herdproof.broker.metrics import BrokerMetrics
from herdproof.broker.observing import ObservedFront
from herdproof.broker.server import BrokerServer
from herdproof.broker.settings import KafkaListener
from herdproof.consuming.consumer_protocol import (
    read_assignment,
    write_assignment,
    write_subscription,
)
from herdproof.protocols.group_protocol.server.translation import VERSIONS
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.tracing import AnswersTracer
from properties.broker.served import Served, WireClient, client_of, served

TOPIC, PARTITIONS = "t", 4
ID_REQUIRED, UNKNOWN_MEMBER = 79, 25


@asynccontextmanager
async def looked_on(stream: io.StringIO, run: str = "r") -> AsyncIterator[Served]:
    """The front of a Kafka; every member may commit for any partition, as there."""
    settings = GroupSettings(commits="as_kafka", group_initial_rebalance_delay_ms=0)
    async with served({TOPIC: PARTITIONS}, groups=settings) as kafka:
        listener = KafkaListener(port=0)
        async with BrokerServer(listener, None, BrokerMetrics()) as server:
            behind = [(kafka.here.host, kafka.here.port)]
            see = AnswersTracer(run, stream)
            front = ObservedFront(server, behind, listener, VERSIONS, see)
            there = Served(server, kafka.alone, kafka.groups, BrokerNode(0, *await front.open()))
            try:
                yield there
            finally:
                for client in there.clients:
                    await client.hang_up()


class WireMember:
    """A member of the group, by frames."""

    def __init__(self, client: WireClient, group: str = "g") -> None:
        self._client = client
        self._group = group
        self.member_id = ""
        self.generation = -1
        self.own: list[tuple[str, int]] = []

    async def join(self) -> None:
        """Join until it knows what it is assigned; whoever leads shares in turn."""
        while True:
            joined = await self._client.ask(self._join(), 5)
            if joined.error_code in (ID_REQUIRED, UNKNOWN_MEMBER):
                self.member_id = joined.member_id if joined.error_code == ID_REQUIRED else ""
                continue
            self.generation = joined.generation_id
            if not joined.error_code and await self._sync([m.member_id for m in joined.members]):
                return

    def _join(self) -> JoinGroupRequest:
        made = JoinGroupRequest.JoinGroupRequestProtocol
        return JoinGroupRequest(
            version=5, group_id=self._group, session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000, member_id=self.member_id, protocol_type="consumer",
            protocols=[made(name="range", metadata=write_subscription([TOPIC]))],
        )  # fmt: skip

    async def _sync(self, members: list[str]) -> bool:
        made = SyncGroupRequest.SyncGroupRequestAssignment
        shares = [
            made(
                member_id=member,
                assignment=write_assignment(
                    (TOPIC, n) for n in range(PARTITIONS) if n % len(members) == place
                ),
            )
            for place, member in enumerate(sorted(members))
        ]
        request = SyncGroupRequest(
            version=3, group_id=self._group, generation_id=self.generation,
            member_id=self.member_id, assignments=shares,
        )  # fmt: skip
        synced = await self._client.ask(request, 3)
        if synced.error_code:
            return False
        self.own = read_assignment(synced.assignment)
        return True

    async def beat(self) -> int:
        """A heartbeat; its error."""
        request = HeartbeatRequest(
            version=3, group_id=self._group, generation_id=self.generation,
            member_id=self.member_id,
        )  # fmt: skip
        return int((await self._client.ask(request, 3)).error_code)

    async def commit(self, offsets: Mapping[int, int]) -> list[int]:
        """A commit of the topic's partitions; the error of each."""
        of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
        part = of_topic.OffsetCommitRequestPartition
        parts = [part(partition_index=n, committed_offset=o) for n, o in offsets.items()]
        request = OffsetCommitRequest(
            version=5, group_id=self._group, generation_id_or_member_epoch=self.generation,
            member_id=self.member_id, topics=[of_topic(name=TOPIC, partitions=parts)],
        )  # fmt: skip
        answer = await self._client.ask(request, 5)
        return [each.error_code for topic in answer.topics for each in topic.partitions]

    async def fetch(self) -> dict[int, int]:
        """The offsets that are stored."""
        of_topic = OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [of_topic(name=TOPIC, partition_indexes=[*range(PARTITIONS)])]
        request = OffsetFetchRequest(version=5, group_id=self._group, topics=topics)
        answer = await self._client.ask(request, 5)
        return {
            each.partition_index: each.committed_offset
            for topic in answer.topics for each in topic.partitions
        }  # fmt: skip

    async def leave(self) -> None:
        """Leave."""
        request = LeaveGroupRequest(version=2, group_id=self._group, member_id=self.member_id)
        await self._client.ask(request, 2)


async def a_life(member: WireMember, chance: Random, finished: dict[int, int], turns: int) -> None:
    """Join, work and commit for so many turns, join anew where that is asked; then leave."""
    await member.join()
    for _ in range(turns):
        error = 0
        match chance.choice(("beat", "commit", "commit", "fetch", "again")):
            case "beat":
                error = await member.beat()
            case "commit" if member.own:
                _, number = chance.choice(member.own)
                finished[number] = finished.get(number, 0) + 1
                (error,) = await member.commit({number: finished[number]})
            case "fetch":
                await member.fetch()
            case "again" if chance.random() < 0.3:
                await member.join()
        if error:
            await member.join()
    await member.leave()


def answers_of(seed: int, members: int = 3, turns: int = 20) -> list[str]:
    """The lines about members that come, work and go, who commit what is theirs alone."""
    return asyncio.run(_answers_of(seed, members, turns))


async def _answers_of(seed: int, members: int, turns: int) -> list[str]:
    stream, finished = io.StringIO(), dict[int, int]()
    async with looked_on(stream) as there:
        lives = [
            a_life(WireMember(await client_of(there)), Random(f"{seed} {n}"), finished, turns)
            for n in range(members)
        ]
        await asyncio.gather(*lives)
    return stream.getvalue().splitlines()


def stolen() -> list[str]:
    """The lines about two members, of which one commits what is the other's."""
    return asyncio.run(_stolen())


async def _stolen() -> list[str]:
    stream = io.StringIO()
    async with looked_on(stream) as there:
        await two_of_which_one_steals([WireMember(await client_of(there)) for _ in range(2)])
    return stream.getvalue().splitlines()


async def two_of_which_one_steals(members: Sequence[WireMember]) -> None:
    """Both commit what is their own; then the first one what is the other's, and it is taken."""
    first, second = members
    await first.join()
    joining = asyncio.ensure_future(second.join())
    while not await first.beat():
        await asyncio.sleep(0)
    await first.join()
    await joining
    for member in members:
        assert await member.commit({n: 5 for _, n in member.own}) == [0, 0]
    (_, number), *_ = second.own
    assert await first.commit({number: 9}) == [0]
