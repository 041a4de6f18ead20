"""The images of this suite do what the other tests build on."""

import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from herdproof.kafka.topics import TopicRecord, Topics
from herdproof.ports import free_ports
from herdproof.servers import eventually
from herdproof.zookeeper.operations import Data, Get
from integration.clients import connected
from integration.docker.containers import ask_to_end, container_id
from integration.docker.engine import docker
from integration.docker.ensemble import Ensemble
from integration.docker.images import (
    alone_image,
    broker_image,
    kafka_image,
    users_image,
    zookeeper_image,
)
from integration.docker.ports import LOOPBACK, address, publish_on, publish_on_loopback

pytestmark = [pytest.mark.docker, pytest.mark.real]

READY_WITHIN_SECONDS = 60


@pytest.fixture
def ensemble(on_docker: bool) -> Iterator[list[str]]:
    """Three servers in containers of one network: their addresses."""
    if not on_docker:
        pytest.skip("no Docker here")
    with ExitStack() as stack:
        yield Ensemble(stack.enter_context(Network()), stack).hosts.split(",")


def ask(server: str, word: str) -> str:
    """What a ZooKeeper server answers to one of its four-letter words, or nothing yet."""
    host, port = server.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    except OSError:
        return ""


def modes(servers: list[str]) -> list[str]:
    """What each server says that it is, sorted: leader, follower, or nothing yet."""
    answers = [ask(server, "srvr") for server in servers]
    return sorted(answer.partition("Mode: ")[2].partition("\n")[0] for answer in answers)


def test_three_servers_in_docker_are_an_ensemble(ensemble: list[str]) -> None:
    """Three servers in Docker become one leader and two followers, reached on loopback."""
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while modes(ensemble) != ["follower", "follower", "leader"] and time.monotonic() < deadline:
        time.sleep(0.1)

    assert modes(ensemble) == ["follower", "follower", "leader"]
    assert [ask(server, "ruok") for server in ensemble] == ["imok"] * 3
    assert all(server.startswith(f"{LOOPBACK}:") for server in ensemble)


@pytest.fixture
def kafka_in_docker(on_docker: bool) -> Iterator[tuple[str, str]]:
    """A broker and a ZooKeeper in containers of one network: their addresses."""
    if not on_docker:
        pytest.skip("no Docker here")
    (port,) = free_ports(1)
    with Network() as network:
        server = DockerContainer(zookeeper_image(), network=network).with_network_aliases("zk")
        broker = DockerContainer(kafka_image(), network=network).with_network_aliases("kafka")
        broker.with_env("KAFKA_ZOOKEEPER", "zk:2181").with_env("KAFKA_HOST", "kafka")
        broker.with_env("KAFKA_ADVERTISED", f"{LOOPBACK}:{port}")
        with publish_on_loopback(server, 2181), publish_on(broker, 9092, port):
            yield f"{LOOPBACK}:{port}", address(server, 2181)


def test_a_kafka_in_docker_is_reached_on_loopback(kafka_in_docker: tuple[str, str]) -> None:
    """A broker in Docker is what ZooKeeper says that it is, and clients here write and read."""
    bootstrap, zookeeper = kafka_in_docker
    topics = Topics(bootstrap)

    assert eventually(lambda: topics.served_by(1, ()), READY_WITHIN_SECONDS)
    topics.create("t", 2)
    written = topics.produce("t", [TopicRecord(b"here", partition=1)])

    assert topics.read("t") == written == [TopicRecord(b"here", partition=1, offset=0)]
    with connected(zookeeper) as client:
        told = client.perform(Get("/brokers/ids/1"))
    assert isinstance(told, Data)
    broker = json.loads(told.data)
    assert f"{broker['host']}:{broker['port']}" == bootstrap


def test_the_brokers_image_runs_the_command(on_docker: bool) -> None:
    """The broker's image runs `herdproof elect` with nothing but what it holds."""
    if not on_docker:
        pytest.skip("no Docker here")
    with DockerContainer(broker_image(), command="elect --help") as broker:
        code = broker.get_wrapped_container().wait(timeout=READY_WITHIN_SECONDS)["StatusCode"]
        said, complained = (part.decode() for part in broker.get_logs())

    assert code == 0, complained
    assert "herdproof elect" in said


def test_a_broker_for_tests_in_any_language_serves_clients_here(on_docker: bool) -> None:
    """What a client outside writes, a consumer outside reads in a group, and commits."""
    if not on_docker:
        pytest.skip("no Docker here")
    (port,) = free_ports(1)
    broker = DockerContainer(alone_image(), command="--topic orders:3")
    broker.with_env("ADVERTISED", f"{LOOPBACK}:{port}")
    with publish_on(broker, 9092, port):
        assert eventually(lambda: serves(f"{LOOPBACK}:{port}"), READY_WITHIN_SECONDS)

        assert first_read(f"{LOOPBACK}:{port}", "orders") == b"here"


@pytest.mark.long
def test_the_users_image_coordinates(on_docker: bool) -> None:
    """Told by its environment alone, as docs/operating.md says, and by nobody privileged."""
    if not on_docker:
        pytest.skip("no Docker here")
    with Network() as network:
        server = DockerContainer(zookeeper_image(), network=network).with_network_aliases("zk")
        coordinator = DockerContainer(users_image(), network=network)
        coordinator.with_env("HERDPROOF_COORDINATOR_BROKER_ID", "1")
        coordinator.with_env("HERDPROOF_COORDINATOR_ZOOKEEPER", "zk:2181")
        coordinator.with_env("HERDPROOF_COORDINATOR_ADVERTISED_HOST", LOOPBACK)
        with publish_on_loopback(server, 2181), publish_on_loopback(coordinator, 9192, 9193):
            where = address(coordinator, 9193)
            assert eventually(lambda: told(where, "ready") is not None, READY_WITHIN_SECONDS)
            assert told(where, "ready") == "it leads in epoch 1\n"
            user = docker("exec", container_id(coordinator), "id", "--user", "--name")
            assert user == "herdproof"
            with connected(address(server, 2181)) as client:
                node = client.perform(Get("/herdproof/coordinators/1"))
            assert isinstance(node, Data)
            assert json.loads(node.data) == {"host": LOOPBACK, "port": 9192}
            assert eventually(lambda: health(coordinator) == "healthy", READY_WITHIN_SECONDS)

            ask_to_end(coordinator)
            ended = coordinator.get_wrapped_container().wait(timeout=READY_WITHIN_SECONDS)
            assert ended["StatusCode"] == 0


def told(where: str, what: str) -> str | None:
    """What a service says of itself; None while it is not so, or cannot be asked."""
    try:
        with urllib.request.urlopen(f"http://{where}/{what}", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


def health(container: DockerContainer) -> str:
    """What the image's own look says."""
    return docker("inspect", "--format", "{{.State.Health.Status}}", container_id(container))


def serves(bootstrap: str) -> bool:
    """Whether a broker by itself can be asked."""
    return Topics(bootstrap).served_by(1, ("orders",))


def first_read(bootstrap: str, topic: str) -> bytes:
    """What the one member of a group reads of a topic to which a record is written."""
    Topics(bootstrap).produce(topic, [TopicRecord(b"here", partition=1)])
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest",
    })  # fmt: skip
    try:
        consumer.subscribe([topic])
        message = consumer.poll(READY_WITHIN_SECONDS)
        assert message is not None
        consumer.commit(message=message, asynchronous=False)
        return bytes(message.value() or b"")
    finally:
        consumer.close()
