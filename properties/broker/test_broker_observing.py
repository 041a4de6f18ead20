"""A front that leaves groups to the Kafka behind it, which here is one of our own, and looks on."""

from __future__ import annotations

import io
import json
from typing import Any

from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest

from herdproof.broker.answering import BrokerNode
from herdproof.broker.metrics import BrokerMetrics
from herdproof.broker.observing import ObservedFront
from herdproof.broker.server import BrokerServer
from herdproof.broker.settings import KafkaListener
from herdproof.protocols.group_protocol.server.translation import VERSIONS
from herdproof.protocols.group_protocol.tracing import AnswersTracer
from properties.broker.served import Served, client_of, in_a_loop, served
from properties.broker.test_broker_connections import UNKNOWN_MEMBER, heartbeat


def join(version: int) -> JoinGroupRequest:
    """Somebody joins."""
    made = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        version=version, group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
        protocol_type="consumer", protocols=[made(name="range", metadata=b"\xff\0")],
    )  # fmt: skip


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    """What was written."""
    return [json.loads(line)["arguments"] for line in stream.getvalue().splitlines()[1:]]


@in_a_loop
async def test_what_kafka_answers_is_passed_on_and_written_down() -> None:
    """The group is Kafka's; the coordinator is found at the front; each answer is a line."""
    stream = io.StringIO()
    async with served() as kafka:
        listener = KafkaListener(port=0)
        async with BrokerServer(listener, None, BrokerMetrics()) as server:
            address = (kafka.here.host, kafka.here.port)
            front = ObservedFront(server, [address], listener, VERSIONS, AnswersTracer("r", stream))
            there = Served(server, kafka.alone, kafka.groups, BrokerNode(0, *await front.open()))
            client = await client_of(there)
            found = await client.ask(FindCoordinatorRequest(version=1, key="g", key_type=0), 1)
            joined = await client.ask(join(3), 3)
            beat = await client.ask(heartbeat(), 4)
            told = await client.ask(ApiVersionsRequest(version=0), 0)
            await client.hang_up()

    assert found.port not in (kafka.here.port, there.here.port)  # that of Kafka's only broker
    assert list(kafka.groups._core.groups) == ["g"]
    assert beat.error_code == UNKNOWN_MEMBER
    spoken = {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}
    assert spoken[ApiKey.JoinGroup] == (0, 9)
    first, second = lines(stream)
    assert (first["api"], first["version"]) == ("JoinGroup", 3)
    assert first["request"]["protocols"] == [{"name": "range", "metadata": "/wA="}]
    assert first["answer"]["member_id"] == joined.member_id
    whole = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(each["sequence"], each.get("group", "")) for each in whole] == [
        (1, ""), (2, "g"), (3, "g"),
    ]  # fmt: skip
    assert whole[1]["since_ns"] <= first["answered_ns"] <= whole[2]["since_ns"]
    assert second["request"]["member_id"] == HeartbeatRequest(version=4, member_id="m").member_id
    assert second["answer"]["error_code"] == UNKNOWN_MEMBER


@in_a_loop
async def test_what_is_spoken_of_groups_is_what_kafka_speaks() -> None:
    """A Kafka that has older versions than are read here is not asked in newer ones."""
    async with served() as kafka:
        front = ObservedFront(kafka.server, [], KafkaListener(), VERSIONS, print)
        spoken = front._in_common({ApiKey.JoinGroup: (2, 5), ApiKey.OffsetCommit: (0, 20)})

        assert spoken[ApiKey.JoinGroup] == (2, 5)
        assert spoken[ApiKey.OffsetCommit] == (2, 9)
        assert ApiKey.SyncGroup not in spoken
