"""The services of `herdproof.testing`: the same to a test, whether embedded or in Docker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from herdproof.kafka.topics import KafkaRefused, TopicRecord, Topics
from herdproof.services import (
    DOCKER,
    EMBEDDED,
    KafkaService,
    ZooKeeperService,
    kafka_service,
    zookeeper_service,
)
from herdproof.zookeeper.operations import Create, Created, Data, Exists, Found, Get
from integration.clients import connected, eventually

pytestmark = pytest.mark.real

PATIENCE_S = 60.0
"""The seconds that a step of a transaction may take."""
WHERE = [EMBEDDED, pytest.param(DOCKER, marks=pytest.mark.docker)]


@pytest.fixture(params=WHERE)
def zookeeper(request: pytest.FixtureRequest, on_docker: bool) -> Iterator[ZooKeeperService]:
    """A ZooKeeper of its own: embedded, and in Docker where there is one."""
    if request.param == EMBEDDED:
        with zookeeper_service() as service:
            yield service
        return
    if not on_docker:
        pytest.skip("no Docker here")
    from integration.docker.images import zookeeper_image

    with zookeeper_service(DOCKER, zookeeper_image()) as service:
        yield service


@pytest.fixture(scope="module")
def kafka_in_docker() -> Iterator[KafkaService]:
    """A Kafka in Docker, from an image that reads what Kafka's own does."""
    from integration.docker.images import kraft_image

    with kafka_service(DOCKER, kraft_image()) as service:
        yield service


@pytest.fixture(params=WHERE)
def kafka(request: pytest.FixtureRequest, on_docker: bool) -> Iterator[KafkaService]:
    """A Kafka: embedded, as the plugin has it, and in Docker where there is one."""
    if request.param == EMBEDDED:
        yield request.getfixturevalue("herdproof_kafka")
        return
    if not on_docker:
        pytest.skip("no Docker here")
    service: KafkaService = request.getfixturevalue("kafka_in_docker")
    yield service
    service.mend()


def test_a_zookeeper_is_broken_and_mended(zookeeper: ZooKeeperService) -> None:
    """It keeps its data over a crash; afterwards it runs, without nodes, behind a whole network."""
    with connected(zookeeper.hosts) as client:
        assert client.perform(Create("/a", b"kept")) == Created("/a")
        assert client.perform(Create("/a/b")) == Created("/a/b")

    zookeeper.kill()
    zookeeper.restart()
    with connected(zookeeper.proxy.hosts) as client:
        kept = client.perform(Get("/a"))
    zookeeper.pause()
    zookeeper.proxy.refuse()
    zookeeper.mend()
    with connected(zookeeper.proxy.hosts) as client:
        left = client.perform(Exists("/a"))

    assert isinstance(kept, Data)
    assert kept.data == b"kept"
    assert left == Found(None)


def test_a_dead_zookeeper_is_mended(zookeeper: ZooKeeperService) -> None:
    """A test that leaves it dead leaves a running one to the next."""
    zookeeper.kill()

    zookeeper.mend()

    with connected(zookeeper.hosts) as client:
        assert client.perform(Create("/a")) == Created("/a")


def test_the_fixture_is_a_fresh_zookeeper(herdproof_zookeeper: ZooKeeperService) -> None:
    """A test that names the fixture has a server without nodes; what is cut is felt."""
    service = herdproof_zookeeper
    with connected(service.proxy.hosts) as client:
        assert client.perform(Exists("/a")) == Found(None)
        assert client.perform(Create("/a")) == Created("/a")
        met = service.proxy.connections
        service.proxy.cut()
        service.proxy.wait_connections(met + 1)


def test_the_fixture_is_fresh_again(herdproof_zookeeper: ZooKeeperService) -> None:
    """What another test has left is gone."""
    with connected(herdproof_zookeeper.hosts) as client:
        assert client.perform(Exists("/a")) == Found(None)


def test_a_kafka_is_reached_through_its_proxy_alone(kafka: KafkaService) -> None:
    """A client that begins at the proxy stays behind it, and feels when the network is gone."""
    kafka.create_topic("told", partitions=2)
    through, hasty = Topics(kafka.proxy.hosts), Topics(kafka.proxy.hosts, 3.0)

    before = kafka.proxy.bytes_to_server
    large = b"one" * 100_000  # the broker's address in its answer counts, not only the first one
    through.produce("told", [TopicRecord(large, None, 0)])
    passed = kafka.proxy.bytes_to_server - before
    kafka.proxy.refuse()
    kafka.proxy.cut()
    with pytest.raises(KafkaRefused):
        hasty.produce("told", [TopicRecord(b"two", None, 0)])
    kafka.mend()
    through.produce("told", [TopicRecord(b"three", None, 1)])

    assert passed > len(large)
    found = {record.value for record in Topics(kafka.bootstrap).read("told")}
    assert {large, b"three"} <= found


def test_a_kafka_serves_transactions_and_groups(kafka: KafkaService) -> None:
    """What is written here in a transaction is read by a group's member behind the proxy."""
    kafka.create_topic("paid")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "till"})

    producer.init_transactions(PATIENCE_S)
    for value in (b"one", b"two"):  # the second begins when the first has its mark
        producer.begin_transaction()
        producer.produce("paid", value)
        producer.commit_transaction(PATIENCE_S)

    settings = {"bootstrap.servers": kafka.proxy.hosts, "group.id": "books"}
    member = Consumer({**settings, "auto.offset.reset": "earliest"})
    read: list[bytes | None] = []

    def has_read_both() -> bool:
        message = member.poll(1.0)
        if message is not None and message.error() is None:
            read.append(message.value())
        return len(read) == 2

    try:
        member.subscribe(["paid"])
        eventually(has_read_both)
    finally:
        member.close()
    assert read == [b"one", b"two"]


def test_a_kafka_that_crashed_is_mended(kafka: KafkaService) -> None:
    """A broker that a test killed serves again, with its topics."""
    kafka.create_topic("kept")
    Topics(kafka.bootstrap).produce("kept", [TopicRecord(b"one", None, 0)])

    kafka.kill()
    kafka.mend()

    eventually(lambda: [r.value for r in Topics(kafka.bootstrap).read("kept")] == [b"one"])


def test_a_kafka_that_was_paused_is_mended(kafka: KafkaService) -> None:
    """A broker that a test stopped in its tracks goes on, and is written to again."""
    kafka.create_topic("slept")

    kafka.pause()
    kafka.mend()
    Topics(kafka.bootstrap).produce("slept", [TopicRecord(b"one", None, 0)])

    eventually(lambda: [r.value for r in Topics(kafka.bootstrap).read("slept")] == [b"one"])
