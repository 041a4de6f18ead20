"""Connections of Kafka's wire: one answer after the other, and each one's trouble its own."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from random import Random

import pytest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import FetchRequest, HeartbeatRequest
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from kafka.protocol.producer import ProduceRequest

from herdproof.broker.connection import KafkaConnection
from properties.broker.frames import any_request, mutated
from properties.broker.served import SIZE, Served, batch, client_of, in_a_loop, served

FEW_OBJECTS = 500
"""No more than that may be left of so many frames."""
UNKNOWN_MEMBER, UNSUPPORTED_VERSION, UNKNOWN_TOPIC = 25, 35, 3


def fetch(topic: str, *, wait_ms: int, min_bytes: int = 1, offset: int = 0) -> FetchRequest:
    """A Fetch of one partition."""
    of_topic = FetchRequest.FetchTopic
    part = of_topic.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1_000, current_leader_epoch=-1
    )
    return FetchRequest(
        version=11, max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=10_000,
        topics=[of_topic(topic=topic, partitions=[part])],
    )  # fmt: skip


def produce(topic: str, records: bytes, acks: int = -1) -> ProduceRequest:
    """A Produce to one partition."""
    made = ProduceRequest.TopicProduceData
    part = made.PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        version=8, acks=acks, timeout_ms=1_000,
        topic_data=[made(name=topic, partition_data=[part])],
    )  # fmt: skip


def heartbeat() -> HeartbeatRequest:
    """A heartbeat of a stranger."""
    return HeartbeatRequest(version=4, group_id="g", generation_id=1, member_id="m")


@in_a_loop
async def test_requests_are_answered_one_at_a_time_and_in_order() -> None:
    """A Fetch that waits holds up what its client sent after it, and nobody else's."""
    async with served() as there:
        client, other = await client_of(there), await client_of(there)
        client.send(fetch("t", wait_ms=300), 11)
        for _ in range(200):
            client.send(heartbeat(), 4)
        heard = await other.ask(heartbeat(), 4)
        fetched = await client.answer()
        answers = [await client.answer() for _ in range(200)]

        assert heard.error_code == UNKNOWN_MEMBER
        assert fetched.responses[0].partitions[0].error_code == 0
        assert {answer.error_code for answer in answers} == {UNKNOWN_MEMBER}


@in_a_loop
async def test_a_produce_without_acknowledgement_has_no_answer() -> None:
    """With acks 0 the next answer is that to the next request; the record is there."""
    async with served() as there:
        client = await client_of(there)
        client.write(b"")
        unanswered = produce("t", batch(b"a"), acks=0)
        client.send(unanswered, 8)
        client._asked.clear()
        fetched = await client.ask(fetch("t", wait_ms=0), 11)

        assert b"a" in fetched.responses[0].partitions[0].records


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("a negative length", SIZE.pack(-1)),
        ("a length beyond the limit", SIZE.pack(2**31 - 1)),
        ("an empty frame", SIZE.pack(0)),
        ("no whole head", SIZE.pack(7) + b"\0" * 7),
        ("an unknown type", SIZE.pack(10) + b"\x01\0\0\0\0\0\0\1\xff\xff"),
        ("a type that is not spoken", SIZE.pack(10) + b"\0\x1c\0\0\0\0\0\1\xff\xff"),
        ("an unknown version", SIZE.pack(10) + b"\0\x0c\0\x63\0\0\0\1\xff\xff"),
        ("a negative version", SIZE.pack(10) + b"\0\x0c\xff\xff\0\0\0\1\xff\xff"),
        ("a malformed body", SIZE.pack(12) + b"\0\x0c\0\0\0\0\0\1\xff\xff\0\7"),
    ],
)
@in_a_loop
async def test_what_cannot_be_answered_ends_its_connection_alone(what: str, data: bytes) -> None:
    """The connection ends; another one does not notice."""
    async with served() as there:
        client, other = await client_of(there), await client_of(there)
        assert (await other.ask(heartbeat(), 4)).error_code == UNKNOWN_MEMBER
        client.write(data)

        assert await client.ends()
        assert (await other.ask(heartbeat(), 4)).error_code == UNKNOWN_MEMBER


@in_a_loop
async def test_an_api_versions_of_the_future_is_answered_and_the_connection_stays() -> None:
    """Error 35 in version 0; the client asks again in a version that is spoken."""
    async with served() as there:
        client = await client_of(there)
        client.write(SIZE.pack(10) + b"\0\x12\0\x63\0\0\0\1\xff\xff")
        (size,) = SIZE.unpack(await client.read(4))
        refusal = await client.read(size)
        told = await client.ask(ApiVersionsRequest(version=0), 0)

        assert int.from_bytes(refusal[4:6]) == UNSUPPORTED_VERSION
        spoken = {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}
        assert spoken[ApiKey.JoinGroup] == (0, 9)
        assert spoken[ApiKey.OffsetCommit] == (2, 9)
        assert spoken[ApiKey.OffsetFetch] == (1, 9)
        assert spoken[ApiKey.FindCoordinator] == (0, 6)
        assert spoken[ApiKey.Produce][0] == 0  # or librdkafka does not compress


@pytest.mark.parametrize("begun", [b"", b"\0", SIZE.pack(100) + b"\0" * 50])
@in_a_loop
async def test_a_first_request_has_to_come_whole_in_time(begun: bytes) -> None:
    """Whoever says nothing, or trickles, is not waited for."""
    async with served(frame_timeout_ms=100) as there:
        client = await client_of(there)
        client.write(begun)

        assert await client.ends()


@in_a_loop
async def test_a_request_that_trickles_ends_its_connection() -> None:
    """A byte now and then makes no request, even where one was answered before."""

    async def trickle() -> None:
        """Say a byte now and then."""
        for byte in SIZE.pack(1_000) + bytes(1_000):
            client.write(bytes([byte]))
            await asyncio.sleep(0.02)

    async with served(frame_timeout_ms=200) as there:
        client = await client_of(there)
        await client.ask(heartbeat(), 4)
        trickling = asyncio.create_task(trickle())

        assert await client.ends()
        trickling.cancel()


@in_a_loop
async def test_an_idle_connection_is_closed_and_one_that_waits_is_not() -> None:
    """What waits for an answer is not idle, however long."""
    async with served(idle_timeout_ms=200) as there:
        idle, waits = await client_of(there), await client_of(there)
        await idle.ask(heartbeat(), 4)
        waits.send(fetch("t", wait_ms=1_000), 11)

        assert await idle.ends()
        assert (await waits.answer()).responses


@in_a_loop
async def test_one_connection_too_many_is_closed_at_once() -> None:
    """Those that are there stay."""
    async with served(max_connections=2) as there:
        clients = [await client_of(there) for _ in range(2)]
        for client in clients:
            await client.ask(heartbeat(), 4)

        assert await (await client_of(there)).ends()
        for client in clients:
            await client.ask(heartbeat(), 4)


@in_a_loop
async def test_a_client_that_does_not_read_gets_no_more_and_holds_up_nobody() -> None:
    """Its answers are not heaped up: the next request is taken when it has read."""
    async with served(max_unsent_bytes=1_000) as there:
        client, other = await client_of(there), await client_of(there)
        await other.ask(produce("t", batch(os.urandom(500_000))), 8)
        for _ in range(40):
            client.send(fetch("t", wait_ms=0), 11)
        for _ in range(20):
            await other.ask(heartbeat(), 4)
        unsent = [each._transport.get_write_buffer_size() for each in connections(there)]
        read = [await client.answer() for _ in range(40)]

        assert max(unsent) < 2_000_000  # two answers at most, of forty
        assert {len(each.responses[0].partitions[0].records) > 500_000 for each in read} == {True}


def connections(there: Served) -> list[KafkaConnection]:
    """The open connections."""
    return list(there.server._connections.values())


@in_a_loop
async def test_a_client_that_hangs_up_is_forgotten_while_its_request_waits() -> None:
    """Its connection does not stand for as long as others keep it waiting."""
    async with served() as there:
        client = await client_of(there)
        client.send(fetch("t", wait_ms=60_000), 11)
        while not connections(there) or connections(there)[0].is_idle:
            await asyncio.sleep(0.01)
        await client.hang_up()
        async with asyncio.timeout(5):
            while connections(there):
                await asyncio.sleep(0.01)


@in_a_loop
async def test_the_coordinator_is_found_in_every_version() -> None:
    """By one key, or by several; there is none of transactions."""
    async with served() as there:
        client = await client_of(there)
        for version in range(7):
            named = {"key": "g"} if version < 4 else {"coordinator_keys": ["g", "h"]}
            answer = await client.ask(FindCoordinatorRequest(version=version, **named), version)
            found = [answer] if version < 4 else answer.coordinators
            assert [(each.error_code, each.port) for each in found] == [(0, there.here.port)] * (
                1 if version < 4 else 2
            )
        refused = await client.ask(FindCoordinatorRequest(version=1, key="t", key_type=1), 1)
        assert refused.error_code == 42


@in_a_loop
async def test_every_version_of_metadata_tells_of_the_topics() -> None:
    """All of them, those that are asked for, and that there is no such one."""
    async with served({"t": 2, "u": 1}) as there:
        client = await client_of(there)
        for version in range(13):
            every = MetadataRequest(version=version, topics=None if version else [])
            told = await client.ask(every, version)
            assert {each.name: len(each.partitions) for each in told.topics} == {"t": 2, "u": 1}
            made = MetadataRequest.MetadataRequestTopic
            asked = MetadataRequest(version=version, topics=[made(name="u"), made(name="x")])
            told = await client.ask(asked, version)
            assert [each.error_code for each in told.topics] == [0, UNKNOWN_TOPIC]


# ── Fuzzing ─────────────────────────────────────────────────────────────────────────────────


class NoTransport(asyncio.Transport):
    """A transport that nothing leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False
        self.written = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Count what is written."""
        self.written += len(data)

    def close(self) -> None:
        """End."""
        self.is_closed = True

    abort = close

    def pause_reading(self) -> None:
        """Nothing comes that is not fed."""

    resume_reading = pause_reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""


async def feed(there: Served, data: bytes) -> NoTransport:
    """Let a connection come, say this, and go."""
    (listening,) = there.server._listening
    connection = listening._protocol_factory()  # type: ignore[attr-defined]
    transport = NoTransport()
    connection.connection_made(transport)
    connection.data_received(data)
    for _ in range(2):
        await asyncio.sleep(0)
    connection.connection_lost(None)
    return transport


def objects() -> int:
    """The number of objects that there are, but for rubbish."""
    gc.collect()
    return len(gc.get_objects())


async def fuzz(there: Served, frames: int, seed: int) -> int:
    """
    Feed frames with something wrong in them; how many were answered all the same.

    After a tenth of them objects are counted: from then on there should be no more.
    """
    chance = Random(seed)
    (port,) = {each._door for each in [there.server._listening[0]._protocol_factory()]}  # type: ignore[attr-defined]
    spoken = [(api, *port.handlers[api].versions) for api in sorted(port.handlers)]
    whole = [
        any_request(chance, api, version)
        for api, oldest, newest in spoken
        for version in range(oldest, newest + 1)
        for _ in range(5)
    ]
    answered = 0
    for sent in range(frames):
        if sent == frames // 10:
            there.objects = objects()
        frame = mutated(chance, chance.choice(whole))
        data = SIZE.pack(len(frame)) + frame
        if chance.random() < 0.1:
            data = mutated(chance, data)
        answered += (await feed(there, data)).written > 0
    return answered


@pytest.mark.parametrize(
    "frames",
    [100_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(3_000)])],
)
@in_a_loop
async def test_no_frame_makes_the_broker_fail(
    frames: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever comes is answered, or ends its connection: no exception, and nothing is left."""
    caplog.set_level(logging.ERROR)
    async with served() as there:
        answered = await fuzz(there, frames, seed=16)
        client = await client_of(there)

        assert (await client.ask(heartbeat(), 4)).error_code == UNKNOWN_MEMBER
        assert 0.02 < answered / frames < 0.9
        assert len(connections(there)) == 1
        assert not there.server._failed.done()
        assert objects() - there.objects < FEW_OBJECTS

    assert [record.getMessage() for record in caplog.records] == []
