"""SASL with unmodified clients: by itself, and in front of a Kafka that asks for it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from herdproof import Consumer as Own
from herdproof.consumer import KafkaUnusable
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.ports import free_ports
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from integration.commands import Command
from properties.broker.served import WireClient, in_a_loop

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER, PASSWORD = "alice", "wonderland"
JAAS = "org.apache.kafka.common.security"
GROUPS = "[groups]\ngroup_initial_rebalance_delay_ms = 0\n"


@pytest.fixture(scope="module")
def guarded(zookeeper: EmbeddedZooKeeper) -> Iterator[tuple[EmbeddedKafka, str]]:
    """A Kafka that asks for SASL at a second address, which it is."""
    port, sasl_port = free_ports(2)
    of = "listener.name.sasl_plaintext"
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{of}.plain.sasl.jaas.config": (
            f'{JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        ),
        **{
            f"{of}.{name.lower()}.sasl.jaas.config": f"{JAAS}.scram.ScramLoginModule required;"
            for name in MECHANISMS[1:]
        },
    }
    with EmbeddedKafka(f"{zookeeper.hosts}/sasl", port=port, settings=settings) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4_096)
            upsertion = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
            for done in admin.alter_user_scram_credentials([upsertion]).values():
                done.result(30)
        yield kafka, f"127.0.0.1:{sasl_port}"


@pytest.fixture(scope="module", params=["by itself", "in front of Kafka"])
def ground(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """A broker of either plane that asks for SASL, and a topic."""
    topic, tmp_path = f"orders-{uuid.uuid4()}", tmp_path_factory.mktemp("sasl")
    settings = tmp_path / "broker.toml"
    if request.param == "by itself":
        users = tmp_path / "users.toml"
        users.write_text(f'{USER} = "{PASSWORD}"\n')
        settings.write_text(f'{GROUPS}[sasl]\nusers_file = "{users}"\n')
        arguments = ["--topic", f"{topic}:2"]
    else:
        kafka, address = request.getfixturevalue("guarded")
        kafka.create_topic(topic, 2)
        password = tmp_path / "password"
        password.write_text(f"{PASSWORD}\n")
        login = f'user = "{USER}"\npassword_file = "{password}"\nmechanism = "SCRAM-SHA-256"\n'
        settings.write_text(f"{GROUPS}[kafka]\n{login}")
        arguments = ["--in-front-of", address]
    command = ("broker", "--port", "0", "--config", str(settings), *arguments)
    with Command(tmp_path / "complaints", *command) as running:
        (line,) = running.await_lines(1)
        yield line.removeprefix("listening "), topic
        assert "Traceback" not in running.complaints


def librdkafka(bootstrap: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    """What librdkafka is told."""
    return {
        "bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT", "log_level": 0,
        "sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": password,
    }  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_that_log_in_consume_as_a_group(ground: tuple[str, str], mechanism: str) -> None:
    """Librdkafka writes, reads as a group and commits; kafka-python goes on behind that."""
    bootstrap, topic = ground
    of_client, group = librdkafka(bootstrap, mechanism), f"g-{mechanism}"
    values = [f"{mechanism} {number}".encode() for number in range(10)]
    producer = Producer(of_client)
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(30) == 0

    consumer = Consumer({
        **of_client, "group.id": group, "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "range", "enable.auto.commit": False,
    })  # fmt: skip
    consumer.subscribe([topic])
    read: set[bytes] = set()
    while not set(values) <= read:
        (message,) = consumer.consume(1, timeout=30)
        read.add(message.value() or b"")
    consumer.commit(asynchronous=False)
    consumer.close()

    producer.produce(topic, b"more", partition=1)
    assert producer.flush(30) == 0
    other = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism, sasl_plain_username=USER, sasl_plain_password=PASSWORD,
        partition_assignment_strategy=[RangePartitionAssignor], consumer_timeout_ms=20_000,
    )  # fmt: skip
    assert next(other).value == b"more"
    other.close()


SETTINGS = ("security.protocol", "sasl.mechanism", "sasl.username", "sasl.password")


def ours(bootstrap: str, mechanism: str, password: str = PASSWORD) -> Own:
    """Our client of the group protocol, which is told who it is by librdkafka's settings."""
    told = librdkafka(bootstrap, mechanism, password)
    return Own(
        f"ours-{uuid.uuid4()}", protocol="group_protocol", bootstrap_servers=bootstrap,
        auto_offset_reset="smallest", kafka={name: told[name] for name in SETTINGS},
    )  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_client_logs_in_on_all_its_connections(ground: tuple[str, str], mechanism: str) -> None:
    """To join, to commit and to fetch, by the same settings."""
    consumes(*ground, mechanism)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_client_logs_in_at_a_real_kafka(
    guarded: tuple[EmbeddedKafka, str], mechanism: str
) -> None:
    """Of Kafka 3.9.1, to which nothing of ours stands in between."""
    kafka, bootstrap = guarded
    topic = f"orders-{uuid.uuid4()}"
    kafka.create_topic(topic, 1)

    consumes(bootstrap, topic, mechanism)


def consumes(bootstrap: str, topic: str, mechanism: str) -> None:
    """Our client gets a record, and has it committed."""
    producer = Producer(librdkafka(bootstrap, mechanism))
    producer.produce(topic, b"a record", partition=0)
    assert producer.flush(30) == 0

    with ours(bootstrap, mechanism) as consumer:
        consumer.subscribe(topic)
        record = consumer.poll(30)
        assert record is not None
        consumer.commit(record)

        assert consumer.committed((topic, record.partition)) == record.offset + 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_client_ends_with_a_sentence_where_its_password_is_wrong(
    ground: tuple[str, str], mechanism: str
) -> None:
    """At once, and once: nothing is tried again."""
    bootstrap, topic = ground
    with ours(bootstrap, mechanism, "wrong") as consumer:
        consumer.subscribe(topic)
        with pytest.raises(KafkaUnusable) as told:
            consumer.poll(30)

        assert str(told.value).count("\n") == 0
        assert any(word in str(told.value) for word in ("does not let in alice", "uthentication"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_with_a_wrong_password_learns_nothing(
    ground: tuple[str, str], mechanism: str
) -> None:
    """Nor does one that does not log in."""
    bootstrap, _ = ground
    without: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
    for told in (librdkafka(bootstrap, mechanism, "wrong"), without):
        with pytest.raises(KafkaException):
            AdminClient(told).list_topics(timeout=2)


@pytest.mark.parametrize("token", [None, b"\0alice\0wrong", b"n,,n=alice,r=abc"])
@in_a_loop
async def test_groups_open_once_the_log_in_is_over(
    ground: tuple[str, str], token: bytes | None
) -> None:
    """Neither before it, nor after one that failed, nor in the middle of one."""
    host, port = ground[0].split(":")
    client = WireClient(*await asyncio.open_connection(host, int(port)))
    if token is not None:
        is_plain = token.startswith(b"\0")
        mechanism = "PLAIN" if is_plain else "SCRAM-SHA-256"
        shaken = await client.ask(SaslHandshakeRequest(version=1, mechanism=mechanism), 1)
        assert shaken.error_code == 0
        told = await client.ask(SaslAuthenticateRequest(version=1, auth_bytes=token), 1)
        assert bool(told.error_code) == is_plain
    client.send(ListGroupsRequest(version=0), 0)
    assert await client.ends()
    await client.hang_up()


@in_a_loop
async def test_groups_are_told_of_to_who_has_logged_in(ground: tuple[str, str]) -> None:
    """The same connection, the same request, after the right password."""
    host, port = ground[0].split(":")
    client = WireClient(*await asyncio.open_connection(host, int(port)))
    await client.ask(SaslHandshakeRequest(version=1, mechanism="PLAIN"), 1)
    await client.ask(
        SaslAuthenticateRequest(version=1, auth_bytes=f"\0{USER}\0{PASSWORD}".encode()), 1
    )
    assert (await client.ask(ListGroupsRequest(version=0), 0)).error_code == 0
    await client.hang_up()
