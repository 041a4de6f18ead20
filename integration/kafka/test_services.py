"""The services of `herdproof.testing`: the same to a test, whether embedded or in Docker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from herdproof.kafka.topics import KafkaRefused, TopicRecord, Topics
from herdproof.services import (
    DOCKER,
    EMBEDDED,
    KafkaService,
    ZooKeeperService,
    zookeeper_service,
)
from herdproof.zookeeper.operations import Create, Created, Data, Exists, Found, Get
from integration.clients import connected, eventually

pytestmark = pytest.mark.real

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


def test_a_kafka_is_reached_through_its_proxy_alone(herdproof_kafka: KafkaService) -> None:
    """A client that begins at the proxy stays behind it, and feels when the network is gone."""
    service = herdproof_kafka
    service.create_topic("told", partitions=2)
    through = Topics(service.proxy.hosts, 3.0)

    before = service.proxy.bytes_to_server
    large = b"one" * 100_000  # the broker's address in its answer counts, not only the first one
    through.produce("told", [TopicRecord(large, None, 0)])
    passed = service.proxy.bytes_to_server - before
    service.proxy.refuse()
    service.proxy.cut()
    with pytest.raises(KafkaRefused):
        through.produce("told", [TopicRecord(b"two", None, 0)])
    service.mend()
    through.produce("told", [TopicRecord(b"three", None, 1)])

    assert passed > len(large)
    found = {record.value for record in Topics(service.bootstrap).read("told")}
    assert {large, b"three"} <= found


def test_a_kafka_that_crashed_is_mended(herdproof_kafka: KafkaService) -> None:
    """A broker that a test killed serves again, with its topics."""
    herdproof_kafka.create_topic("kept")
    Topics(herdproof_kafka.bootstrap).produce("kept", [TopicRecord(b"one", None, 0)])

    herdproof_kafka.kill()
    herdproof_kafka.mend()

    eventually(
        lambda: [r.value for r in Topics(herdproof_kafka.bootstrap).read("kept")] == [b"one"]
    )
