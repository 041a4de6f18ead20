"""The broker in front of a Kafka, which here is one of our own: what goes on, and what does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeClusterRequest, ListGroupsRequest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)

from herdproof.broker.answering import COORDINATORS_FROM, BrokerNode
from herdproof.broker.codec import RequestHead, messages, write_answer
from herdproof.broker.front import HIDDEN, FrontBroker, nodes_of
from herdproof.broker.metrics import BrokerMetrics
from herdproof.broker.server import BrokerServer
from herdproof.broker.settings import KafkaListener
from herdproof.broker.upstream import NoKafkaBehind, UpstreamLink, ask_kafka, link
from herdproof.ports import free_ports
from herdproof.protocols.group_protocol.server.shell import GroupShell
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.stores.memory import MemoryGroupStore
from properties.broker.served import SIZE, Served, WireClient, batch, client_of, in_a_loop, served
from properties.broker.test_broker_connections import fetch, heartbeat, produce

UNKNOWN_MEMBER = 25


@asynccontextmanager
async def fronted(there: Served, **limits: Any) -> AsyncIterator[Served]:
    """A front of that broker, on free ports."""
    listener = KafkaListener(port=0, **limits)
    async with BrokerServer(listener, None, BrokerMetrics()) as server:
        groups = GroupShell(
            GroupSettings(group_initial_rebalance_delay_ms=0), MemoryGroupStore(), fail=server.fail
        )
        groups.elected(epoch=1)
        kafka = [(there.here.host, there.here.port)]
        broker = FrontBroker(server, kafka, listener, groups, 3)
        host, port = await broker.open()
        front = Served(server, there.alone, groups, BrokerNode(0, host, port))
        front.front = broker
        try:
            yield front
        finally:
            for client in front.clients:
                await client.hang_up()


async def to_broker(front: Served, client: WireClient) -> WireClient:
    """A client at the port that the front has for Kafka's broker."""
    told = await client.ask(MetadataRequest(version=9, topics=[]), 9)
    (node,) = (each for each in told.brokers if each.node_id < COORDINATORS_FROM)
    return await client_of(replace(front, here=BrokerNode(1, node.host, node.port)))


@in_a_loop
async def test_no_answer_tells_where_kafka_is() -> None:
    """Metadata and DescribeCluster, in every version, name ports of ours: a broker's, groups'."""
    async with served() as kafka, fronted(kafka) as front:
        client = await client_of(front)
        nodes = set()
        for version in range(13):
            asked = MetadataRequest(version=version, topics=[])
            told = (await client.ask(asked, version)).brokers
            nodes |= {(each.node_id, each.port) for each in told}
        for version in (0, 1):
            asked = DescribeClusterRequest(version=version)
            told = (await client.ask(asked, version)).brokers
            nodes |= {(each.broker_id, each.port) for each in told}
        coordinator = (COORDINATORS_FROM + 3, front.here.port)
        for version in range(7):
            named = {"key": "g"} if version < 4 else {"coordinator_keys": ["g"]}
            answer = await client.ask(FindCoordinatorRequest(version=version, **named), version)
            told = [answer] if version < 4 else answer.coordinators
            assert {(each.node_id, each.port) for each in told} == {coordinator}

        ((broker, port),) = nodes - {coordinator}
        assert coordinator in nodes
        assert broker == kafka.here.node_id
        assert port not in (kafka.here.port, front.here.port)


@in_a_loop
async def test_what_is_announced_is_what_both_speak_and_can_be_passed_on_unread() -> None:
    """Nothing with addresses in it, no groups of other kinds; the groups' versions are ours."""
    async with served() as kafka, fronted(kafka) as front:
        client = await client_of(front)
        told = await client.ask(ApiVersionsRequest(version=3), 3)
        spoken = {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}

        assert spoken[ApiKey.Produce] == (0, 9)
        assert spoken[ApiKey.Fetch][1] <= 15
        assert spoken[ApiKey.JoinGroup] == (0, 9)
        assert not HIDDEN & set(spoken)
        assert not told.finalized_features


@in_a_loop
async def test_kafka_4s_versions_are_cut_to_what_can_be_passed_on() -> None:
    """Produce 13, Fetch 18, KIP-848, share groups, streams groups, offsets in transactions."""
    async with served() as kafka, fronted(kafka) as front:
        broker = FrontBroker(front.server, [], KafkaListener(), front.groups, 3)
        every = dict.fromkeys(range(100), (0, 18))
        spoken = broker._in_common({**every, ApiKey.Produce: (3, 13)})

        assert spoken[ApiKey.Produce] == (3, 9)
        assert spoken[ApiKey.Fetch] == (0, 15)
        assert spoken[ApiKey.Metadata] == (0, messages()[ApiKey.Metadata][0].max_version)
        assert not {25, 28, 68, 69, *range(76, 80), *range(83, 93)} & set(spoken)
        assert spoken[ApiKey.OffsetCommit] == (2, 9)
        assert spoken[99] == (0, 18)


@in_a_loop
async def test_records_go_through_and_groups_do_not() -> None:
    """What is produced at the front lies in Kafka; a group that joins there is not known to it."""
    async with served() as kafka, fronted(kafka) as front:
        bootstrapped = await client_of(front)
        client = await to_broker(front, bootstrapped)
        produced = await client.ask(produce("t", batch(b"a")), 8)
        client.send(produce("t", batch(b"b"), acks=0), 8)
        client._asked.pop()
        fetched = await client.ask(fetch("t", wait_ms=0), 11)
        made = JoinGroupRequest.JoinGroupRequestProtocol
        joined = await client.ask(
            JoinGroupRequest(
                version=0, group_id="g", session_timeout_ms=6_000, member_id="",
                protocol_type="consumer", protocols=[made(name="range", metadata=b"")],
            ), 0,
        )  # fmt: skip
        ours = await bootstrapped.ask(ListGroupsRequest(version=4), 4)
        theirs = await (await client_of(kafka)).ask(ListGroupsRequest(version=4), 4)

        assert produced.responses[0].partition_responses[0].error_code == 0
        assert kafka.alone.log.topics["t"].partitions[0].next_offset == 2
        assert b"b" in fetched.responses[0].partitions[0].records
        assert joined.error_code == 0
        assert [each.group_id for each in ours.groups] == ["g"]
        assert theirs.groups == []


@in_a_loop
async def test_answers_come_in_order_whoever_gives_them() -> None:
    """A heartbeat behind a Fetch that waits in Kafka is answered after it."""
    async with served() as kafka, fronted(kafka) as front:
        client = await to_broker(front, await client_of(front))
        client.send(fetch("t", wait_ms=200), 11)
        client.send(heartbeat(), 4)
        client.send(fetch("t", wait_ms=0), 11)

        assert (await client.answer()).responses
        assert (await client.answer()).error_code == UNKNOWN_MEMBER
        assert (await client.answer()).responses


@in_a_loop
async def test_an_answer_that_is_larger_than_what_may_be_unsent_goes_through() -> None:
    """Kafka is read as fast as the client reads, and no faster."""
    async with served() as kafka, fronted(kafka, max_unsent_bytes=10_000) as front:
        client = await to_broker(front, await client_of(front))
        records = batch(bytes(range(256)) * 3_000)
        await client.ask(produce("t", records), 8)
        for _ in range(5):
            client.send(fetch("t", wait_ms=0), 11)
        await asyncio.sleep(0.1)
        fetched = [await client.answer() for _ in range(5)]

        assert {len(each.responses[0].partitions[0].records) for each in fetched} == {len(records)}


class Passed:
    """A client's connection, of which nothing is known but what was passed on over it."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.answers = 0

    def reply_part(self, part: bytes) -> None:
        """A part of an answer."""
        self.parts.append(part)

    def reply_nothing(self) -> None:
        """An answer is over."""
        self.answers += 1


ANSWERS = st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=4)


@given(ANSWERS, st.lists(st.integers(0, 64), max_size=9))
def test_answers_are_passed_on_in_whatever_parts_they_come(
    answers: list[bytes], cuts: list[int]
) -> None:
    """No byte is lost, and no answer's size goes out alone, which would wake the client for it."""
    whole = b"".join(SIZE.pack(len(each)) + each for each in answers)
    ends = sorted({*(cut for cut in cuts if cut < len(whole)), len(whole)})
    client = Passed()
    upstream = UpstreamLink(client)  # type: ignore[arg-type] # it is asked for no more than that

    for begin, end in pairwise([0, *ends]):
        upstream.data_received(whole[begin:end])

    assert b"".join(client.parts) == whole
    assert client.answers == len(answers)
    starts = accumulate(SIZE.size + len(each) for each in answers)
    sent = {0, *accumulate(map(len, client.parts))}
    assert not {start + SIZE.size for start in (0, *starts)} & sent


def test_an_answer_that_comes_whole_is_passed_on_in_one_piece_and_is_no_copy() -> None:
    """So that a fetch costs as few wake-ups as there can be."""
    answer = SIZE.pack(65_536) + bytes(65_536)
    client = Passed()

    UpstreamLink(client).data_received(answer)  # type: ignore[arg-type] # no more is asked for

    assert [part is answer for part in client.parts] == [True]


@in_a_loop
async def test_a_kafka_that_goes_ends_its_clients_connections_and_no_others() -> None:
    """Who only asked about groups notices nothing; who comes later is told by an end, too."""
    async with served() as kafka:
        listening = kafka.server._listening[0]
        async with fronted(kafka) as front:
            client = await client_of(front)
            reader = await to_broker(front, client)
            member = await to_broker(front, client)
            await reader.ask(fetch("t", wait_ms=0), 11)
            await member.ask(heartbeat(), 4)
            listening.close()
            for connection in list(kafka.server._connections.values()):
                connection.abort()

            assert await reader.ends()
            assert (await member.ask(heartbeat(), 4)).error_code == UNKNOWN_MEMBER
            member.send(fetch("t", wait_ms=0), 11)
            assert await member.ends()


@pytest.mark.parametrize("api", [ApiKey.AddOffsetsToTxn, ApiKey.ConsumerGroupHeartbeat])
@in_a_loop
async def test_what_is_hidden_is_not_passed_on_either(api: int) -> None:
    """Who asks for it all the same is shown the door."""
    async with served() as kafka, fronted(kafka) as front:
        client = await client_of(front)
        client.write(SIZE.pack(10) + api.to_bytes(2) + b"\0\0\0\0\0\1\xff\xff")

        assert await client.ends()


def test_a_coordinator_of_transactions_is_theirs_with_our_address() -> None:
    """In one answer for each key, or one for all; where there is an error, there is no address."""
    theirs = {"node_id": 3, "host": "theirs", "port": 1}
    nobody = {"error_code": 15, "node_id": -1, "host": "", "port": -1}
    for version in (2, 4):
        _, kind = messages()[ApiKey.FindCoordinator]
        several = [kind.Coordinator(key="x", **theirs), kind.Coordinator(key="y", **nobody)]
        answer = kind(version=version, coordinators=several, **(theirs if version == 2 else {}))
        head = RequestHead(ApiKey.FindCoordinator, version, 1)
        assert write_answer(head, answer)
        assert [each.host for _, each in nodes_of(head, answer)] == ["theirs"]


@in_a_loop
async def test_a_kafka_that_does_not_answer_is_named() -> None:
    """With what to do; and a client's connection to nobody is an error of the world's."""
    nobody = ("127.0.0.1", free_ports(1)[0])
    with pytest.raises(NoKafkaBehind, match=f"127.0.0.1:{nobody[1]}.*check that it runs"):
        await ask_kafka([nobody], RequestHead(ApiKey.ApiVersions, 0, 0), {})
    with pytest.raises(OSError, match="Connect call failed"):
        await link(None, [nobody])  # type: ignore[arg-type]


@in_a_loop
async def test_a_broker_that_kafka_gets_has_a_port_and_lists_no_groups() -> None:
    """A tool that asks every broker for its groups is told of each once."""
    async with served() as kafka, fronted(kafka) as front:
        assert front.front is not None
        client = await client_of(front)
        await client.ask(heartbeat(), 4)
        joined = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        body = JoinGroupRequest(
            version=0, group_id="g", session_timeout_ms=6_000, member_id="",
            protocol_type="consumer", protocols=[joined],
        )  # fmt: skip
        await client.ask(body, 0)
        await front.front._heard({7: (kafka.here.host, kafka.here.port)})
        host, port = front.front._advertised(7)
        other = await client_of(replace(front, here=BrokerNode(7, host, port)))

        assert (await other.ask(ListGroupsRequest(version=4), 4)).groups == []
        assert len((await client.ask(ListGroupsRequest(version=4), 4)).groups) == 1
        assert (await other.ask(fetch("t", wait_ms=0), 11)).responses


@in_a_loop
async def test_a_coordinator_that_is_another_broker_is_named_among_kafkas() -> None:
    """A client that takes a coordinator's address from Metadata alone finds it there, too."""
    async with served() as kafka, fronted(kafka) as front:
        elsewhere = BrokerNode(2**30 + 2, "elsewhere", 7)
        vars(front.groups)["coordinator"] = lambda _here: elsewhere
        client = await client_of(front)
        found = await client.ask(FindCoordinatorRequest(version=1, key="g"), 1)
        told = await client.ask(MetadataRequest(version=5, topics=[]), 5)
        cluster = await client.ask(DescribeClusterRequest(version=1), 1)

        assert (found.node_id, found.host, found.port) == (2**30 + 2, "elsewhere", 7)
        assert (2**30 + 2, "elsewhere") in {(each.node_id, each.host) for each in told.brokers}
        assert {each.broker_id for each in cluster.brokers} == {1, 2**30 + 2}


@in_a_loop
async def test_a_heartbeat_goes_to_our_coordinator_at_every_port() -> None:
    """A client may ask at the port that it bootstrapped from, too."""
    async with served() as kafka, fronted(kafka) as front:
        client = await client_of(front)
        asked = HeartbeatRequest(version=0, group_id="g", generation_id=1, member_id="m")

        assert (await client.ask(asked, 0)).error_code == UNKNOWN_MEMBER
