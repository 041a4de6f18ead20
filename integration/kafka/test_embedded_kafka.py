"""What `herdproof.kafka.embedded` promises: a real, obedient, mortal broker; and its topics."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from herdproof.errors import HerdError
from herdproof.java import JavaMissing
from herdproof.kafka import embedded
from herdproof.kafka.embedded import BrokerIdInUse, EmbeddedKafka
from herdproof.kafka.topics import KafkaRefused, TopicRecord, Topics
from herdproof.ports import PortInUse
from herdproof.servers import ServerFailed
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Children, Data, Exists, Found, Get, Names
from integration.clients import TestClient, connected, eventually

pytestmark = pytest.mark.real

SESSION_MS = 3000
"""How long a dead broker's id stands: short, since tests wait for its end."""

OWNER = """
import signal
from herdproof.kafka.embedded import EmbeddedKafka
kafka = EmbeddedKafka({zookeeper!r}).start()
kafka.pause()
print(kafka.bootstrap, kafka.directory, flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def breakable(kafka: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    """A second broker of the cluster."""
    with EmbeddedKafka(kafka.zookeeper, broker_id=2, session_timeout_ms=SESSION_MS) as broker:
        yield broker


@pytest.fixture
def second(breakable: EmbeddedKafka) -> EmbeddedKafka:
    """That broker, which runs whatever became of it in the test before."""
    if not breakable.alive():
        breakable.restart()
    return breakable


@pytest.fixture
def client(kafka: EmbeddedKafka) -> Iterator[TestClient]:
    """A client of the ZooKeeper beside it."""
    with connected(kafka.zookeeper) as onlooker:
        yield onlooker


def told(client: TestClient, path: str) -> Any:
    """What a node's JSON says."""
    found = client.perform(Get(path))
    assert isinstance(found, Data)
    return json.loads(found.data)


def brokers(client: TestClient) -> set[str]:
    """The ids that stand in ZooKeeper."""
    found = client.perform(Children("/brokers/ids"))
    assert isinstance(found, Names)
    return set(found.names)


def replicas(client: TestClient, topic: str) -> dict[str, list[int]]:
    """Which brokers hold each partition of a topic, as ZooKeeper has it."""
    partitions: dict[str, list[int]] = told(client, f"/brokers/topics/{topic}")["partitions"]
    return partitions


def test_zookeeper_says_where_it_listens(kafka: EmbeddedKafka, client: TestClient) -> None:
    """Its id stands in ZooKeeper, with the address at which clients reach it."""
    node = told(client, f"/brokers/ids/{kafka.broker_id}")

    assert f"{node['host']}:{node['port']}" == kafka.bootstrap
    assert node["endpoints"] == [f"PLAINTEXT://{kafka.bootstrap}"]


def test_zookeeper_has_a_topic_with_the_partitions_that_are_added(
    kafka: EmbeddedKafka, client: TestClient
) -> None:
    """A new topic stands in ZooKeeper with its partitions, and so do those that are added."""
    kafka.create_topic("growing", 2)
    assert replicas(client, "growing") == {"0": [1], "1": [1]}

    kafka.add_partitions("growing", 3)

    assert replicas(client, "growing") == {"0": [1], "1": [1], "2": [1]}
    assert kafka.topics.partitions()["growing"] == 3


def test_a_broker_serves_no_topic_that_it_does_not_know(kafka: EmbeddedKafka) -> None:
    """A broker that answers serves what it knows, and no more."""
    kafka.create_topic("known", 1)

    eventually(lambda: kafka.topics.served_by(kafka.broker_id, {"known"}))  # it has 1 s to answer
    assert not kafka.topics.served_by(kafka.broker_id, {"known", "absent"})


def test_a_deleted_topic_goes(kafka: EmbeddedKafka, client: TestClient) -> None:
    """A topic that is deleted goes from ZooKeeper too."""
    kafka.create_topic("fleeting", 1)

    kafka.topics.delete("fleeting")

    eventually(lambda: client.perform(Exists("/brokers/topics/fleeting")) == Found(None))


def test_what_is_written_can_be_read(kafka: EmbeddedKafka) -> None:
    """Records come back, each partition's in the order in which they were written, with offsets."""
    kafka.create_topic("written", 3)

    first = kafka.topics.produce(
        "written", [TopicRecord(b"a", b"key", 1), TopicRecord(b"b", None, 0)]
    )
    more = kafka.produce("written", b"c", b"d", partition=1)

    assert first == [TopicRecord(b"a", b"key", 1, 0), TopicRecord(b"b", None, 0, 0)]
    assert more == [TopicRecord(b"c", None, 1, 1), TopicRecord(b"d", None, 1, 2)]
    assert kafka.read("written") == [first[1], first[0], *more]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read_by_the_broker(kafka: EmbeddedKafka, codec: str) -> None:
    """The broker has what it needs for each codec: it stores a topic in another than was sent."""
    topic, other = f"in-{codec}", "gzip" if codec != "gzip" else "zstd"
    kafka.topics.create(topic, 1, settings={"compression.type": other})

    written = kafka.topics.produce(topic, [TopicRecord(b"x" * 1000, None, 0)], compression=codec)

    assert kafka.read(topic) == written


@pytest.mark.parametrize(
    ("deed", "why"),
    [
        pytest.param(lambda k: k.create_topic("there", 1), "already exists", id="twice"),
        pytest.param(lambda k: k.create_topic("wide", 1, 9), "[Rr]eplication factor", id="wide"),
        pytest.param(lambda k: k.add_partitions("there", 1), "currently has 2", id="fewer"),
        pytest.param(lambda k: k.produce("there", b"", partition=7), "partition", id="no part"),
        pytest.param(
            lambda k: k.produce("absent", b"", partition=0), "absent.*[Uu]nknown", id="write"
        ),
        pytest.param(lambda k: k.read("absent"), "absent.*[Uu]nknown", id="read"),
        pytest.param(lambda k: k.topics.delete("absent"), "[Uu]nknown|not host", id="delete"),
    ],
)
def test_what_kafka_refuses_is_an_error_with_its_reason(
    kafka: EmbeddedKafka, deed: Callable[[EmbeddedKafka], None], why: str
) -> None:
    """A refusal is an error of ours that names the broker and has Kafka's reason."""
    if "there" not in kafka.topics.partitions():
        kafka.create_topic("there", 2)

    with pytest.raises(KafkaRefused, match=f"{kafka.bootstrap}.*{why}"):
        deed(kafka)


def test_a_silent_kafka_is_given_up(kafka: EmbeddedKafka) -> None:
    """Where nobody answers, each call ends after its limit."""
    nobody = Topics("127.0.0.1:1", timeout_s=0.3)

    with pytest.raises(KafkaRefused, match="did not list the topics"):
        nobody.partitions()
    with pytest.raises(KafkaRefused, match="did not create topic 't'"):
        nobody.create("t", 1)
    with pytest.raises(KafkaRefused, match="did not tell of topic 't'"):
        nobody.produce("t", [TopicRecord(b"")])


def test_a_killed_broker_comes_back_with_its_records(
    second: EmbeddedKafka, client: TestClient, report: Callable[[str], None]
) -> None:
    """A killed broker, restarted at once, waits for its old session and has what it confirmed."""
    second.topics.create("alone", 1, placed=[[2]])
    written = second.produce("alone", b"a", b"b", partition=0)

    second.kill()
    assert not second.alive()
    began = time.monotonic()
    second.restart()
    report(f"embedded Kafka: a killed broker back after {time.monotonic() - began:.2f} s")

    assert brokers(client) == {"1", "2"}
    assert second.read("alone") == written
    second.topics.delete("alone")  # which no other broker has


def test_a_paused_broker_is_forgotten_until_it_is_resumed(
    kafka: EmbeddedKafka, second: EmbeddedKafka, client: TestClient
) -> None:
    """Past its session a paused broker loses its id and what it leads; resumed, it is back."""
    kafka.topics.create("doubled", 1, placed=[[2, 1]])
    before = kafka.produce("doubled", b"before", partition=0)

    second.pause()
    assert second.alive()
    assert not kafka.topics.served_by(2, ())  # broker 1 answers for it
    eventually(lambda: brokers(client) == {"1"})
    assert not second.topics.served_by(2, (), timeout_s=0.2)
    after = kafka.produce("doubled", b"after", partition=0)
    second.resume()

    eventually(lambda: brokers(client) == {"1", "2"})
    eventually(lambda: second.topics.served_by(2, {"doubled"}))
    assert second.read("doubled") == [*before, *after]
    second.topics.delete("doubled")


def test_a_broker_that_is_shut_down_takes_its_id_out(
    second: EmbeddedKafka, client: TestClient
) -> None:
    """A broker that ends in order leaves ZooKeeper at once."""
    second.shut_down()

    assert not second.alive()
    assert brokers(client) == {"1"}


def test_an_id_in_use_is_named(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second broker with one id is refused, and nothing of it stays."""
    monkeypatch.setattr(embedded, "FORGETTING_S", 0.1)
    usurper = EmbeddedKafka(kafka.zookeeper, broker_id=kafka.broker_id)

    with pytest.raises(BrokerIdInUse, match=r"Broker 1 stands in .*choose another broker_id"):
        usurper.start()

    assert not usurper.directory.exists()


def test_it_dies_with_an_owner_that_is_killed(zookeeper: EmbeddedZooKeeper) -> None:
    """An owner that is killed takes its broker along, even a paused one, and its data."""
    program = OWNER.format(zookeeper=f"{zookeeper.hosts}/owned/by-another")
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        bootstrap, directory = owner.stdout.readline().split()
        assert listens(bootstrap)
        with connected(zookeeper.hosts) as client:
            assert told(client, "/owned/by-another/brokers/ids/1")["port"] == port_of(bootstrap)

        owner.kill()

    eventually(lambda: not Path(directory).exists())
    assert not listens(bootstrap)


def test_a_broker_that_does_not_come_up_shows_its_last_words(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    """A broker that ends at once leaves its last log lines in the error, and nothing else."""
    broker = EmbeddedKafka(f"{zookeeper.hosts}/wrong", settings={"num.io.threads": "none"})

    with pytest.raises(ServerFailed, match=r"(?s)Kafka broker 1 ended at once:.*num\.io\.threads"):
        broker.start()

    assert not broker.directory.exists()
    with pytest.raises(HerdError, match="not running"):
        broker.kill()


def test_a_port_in_use_is_named() -> None:
    """A port that somebody else listens on is named, with how to find out who."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"Port {port} on 127.0.0.1 is in use .*choose another"):
            EmbeddedKafka("127.0.0.1:1", port=port).start()


def test_a_missing_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Java, one sentence says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(JavaMissing, match="install Java 17 or newer"):
        EmbeddedKafka("127.0.0.1:1").start()


def port_of(address: str) -> int:
    """The port of `host:port`."""
    return int(address.rpartition(":")[2])


def listens(address: str) -> bool:
    """Whether somebody accepts connections there (a paused process does, too)."""
    try:
        socket.create_connection(("127.0.0.1", port_of(address)), timeout=1.0).close()
    except OSError:
        return False
    return True
