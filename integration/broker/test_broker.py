"""
Unmodified clients at `herdproof broker`: by itself, and in front of a real Kafka.

confluent-kafka, kafka-python, aiokafka and Java's console consumer share partitions as one group
(`range` everywhere: their defaults have no assignor in common), restart one by one, are killed, and
paused for longer than their sessions last.
"""

from __future__ import annotations

import signal
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.topics import TopicRecord, Topics
from herdproof.ports import PortInUse, free_ports, refuse_a_port_in_use
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from integration.broker.broker_group import DEFAULT, JAVA, PYTHON, BrokerGroup
from integration.broker.broker_judgement import judge_group
from integration.broker.broker_member import SESSION_MS
from integration.clients import eventually
from integration.commands import Command
from properties.protocols.group_protocol.testing.wired import WiredClient

PARTITIONS = 8
UNKNOWN_MEMBER_ID = 25
SETTINGS = """
[groups]
group_initial_rebalance_delay_ms = 0
group_min_session_timeout_ms = 500
"""
ALL = (*PYTHON, JAVA)


@contextmanager
def broker(folder: Path, *arguments: str) -> Iterator[str]:
    """A broker, and what to bootstrap from."""
    settings = folder / "broker.toml"
    settings.write_text(SETTINGS)
    command = ("broker", "--port", "0", "--config", str(settings), *arguments)
    with Command(folder / "complaints", *command) as running:
        (line,) = running.await_lines(1)
        yield line.removeprefix("listening ")
        assert "Traceback" not in running.complaints


def traced(trace: Path) -> tuple[str, ...]:
    """The options by which a broker writes its trace, all of a test as one run."""
    return "--trace", str(trace), "--run", "monday"


@dataclass(frozen=True)
class Ground:
    """A broker, and a topic that nobody else uses."""

    bootstrap: str
    topic: str
    trace: Path
    """The broker's."""

    def group(self, name: str, session_ms: int = SESSION_MS) -> BrokerGroup:
        """A group of clients that read the topic."""
        return BrokerGroup(self.bootstrap, name, self.topic, PARTITIONS, session_ms=session_ms)


PLANES = ("by itself", "in front of Kafka")
AT_LENGTH = [*PLANES, pytest.param("in front of Kafka 4", marks=pytest.mark.long)]


@contextmanager
def ground_of(request: pytest.FixtureRequest, folder: Path) -> Iterator[Ground]:
    """A broker, traced, of the plane that is the fixture's parameter, with a topic."""
    topic = f"orders-{uuid.uuid4()}"
    if request.param == PLANES[0]:
        plane = ("--topic", f"{topic}:{PARTITIONS}")
    else:
        asked = "kafka" if request.param == PLANES[1] else "kraft"
        kafka: EmbeddedKafka = request.getfixturevalue(asked)
        kafka.create_topic(topic, PARTITIONS)
        plane = ("--in-front-of", kafka.bootstrap)
    trace = folder / "broker.ndjson"
    with broker(folder, *plane, *traced(trace)) as address:
        yield Ground(address, topic, trace)


@pytest.fixture(params=AT_LENGTH)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    """A broker of either plane, with a topic; a long one in front of either Kafka."""
    with ground_of(request, tmp_path) as made:
        yield made


@pytest.mark.timeout(240)
def test_unmodified_clients_share_partitions_as_one_group(ground: Ground) -> None:
    """
    All kinds of clients in one group get every record, each partition's one of them.

    One is killed and one is paused for longer than its session lasts: the others take over, and
    take back what is theirs when both are there again.
    """
    with ground.group("mixed") as group:
        for kind in ALL:
            group.start(kind, kind)
        owners = group.settle(*ALL)
        assert sorted(owners) == list(range(PARTITIONS))

        killed, paused = PYTHON[:2]
        group.kill(killed)
        group.pause(paused)
        group.settle(*(kind for kind in ALL if kind not in (killed, paused)))
        group.resume(paused)
        group.start(killed, killed)
        group.settle(*ALL)

        assert group.lost() == []
    judge_group(group, ground.trace)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_rolling_restart_loses_nothing(ground: Ground) -> None:
    """Each member leaves and comes back, one after the other, whoever leads the group then."""
    with ground.group("rolling") as group:
        for kind in ALL:
            group.start(kind, kind)
        group.settle(*ALL)
        for kind in ALL:
            group.leave(kind)
            group.settle(*(other for other in ALL if other != kind))
            group.start(kind, kind)
            group.settle(*ALL)

        assert group.lost() == []
    judge_group(group, ground.trace)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("leader", ALL)
def test_each_kind_of_client_can_lead(ground: Ground, leader: str) -> None:
    """Whoever joins first assigns everybody's partitions; then it is killed, and another leads."""
    with ground.group(f"led-by-{leader}") as group:
        group.start(leader, leader)
        group.settle(leader)
        for kind in ALL:
            if kind != leader:
                group.start(kind, kind)
        group.settle(*ALL)
        group.kill(leader)
        group.settle(*(kind for kind in ALL if kind != leader))

        assert group.lost() == []
    judge_group(group, ground.trace)


@pytest.mark.timeout(240)
def test_groups_outlive_the_broker_that_coordinates_them(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """
    Of two brokers one is killed: the other has its groups, members and offsets, and goes on.

    The one that was killed is started again, as whoever minds processes does: its ports are what
    some clients know Kafka's brokers by, and look for nowhere else.
    """
    topic = f"orders-{uuid.uuid4()}"
    kafka.create_topic(topic, PARTITIONS)
    with EmbeddedZooKeeper() as zookeeper, ExitStack() as stack:
        ports = {number: two_ports_in_a_row() for number in (1, 2)}

        traces: list[Path] = []

        def start(number: int) -> Command:
            folder = tmp_path / f"{number}"
            traces.append(tmp_path / f"{number}-{len(traces)}.ndjson")
            began = standing(
                folder, kafka, zookeeper.hosts, number, ports[number], *traced(traces[-1])
            )
            stack.enter_context(began).await_lines(1)
            return began

        first, _ = start(1), start(2)
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        with BrokerGroup(bootstrap, "survives", topic, PARTITIONS) as group:
            for kind in PYTHON:
                group.start(kind, kind)
            group.settle(*PYTHON)
            second = f"127.0.0.1:{ports[2]}"
            committed = offsets(second, "survives", topic)
            first.end(signal.SIGKILL)
            after = offsets(second, "survives", topic)
            start(1)
            group.settle(*PYTHON)

            assert group.lost() == []
            assert all(after[number] >= offset > 0 for number, offset in committed.items())
    assert judge_group(group, *traces)["found", ""] >= 1


def two_ports_in_a_row() -> int:
    """The first of two free ports."""
    while True:
        (port,) = free_ports(1)
        with suppress(PortInUse):
            refuse_a_port_in_use(port + 1)
            return port


def standing(
    folder: Path, kafka: EmbeddedKafka, zookeeper: str, number: int, port: int, *told: str,
    session_ms: int = 2_000,
) -> Command:  # fmt: skip
    """A broker in front of Kafka that stands for election."""
    folder.mkdir(exist_ok=True)
    settings = folder / "broker.toml"
    settings.write_text(f"{SETTINGS}[zookeeper]\nsession_timeout_ms = {session_ms}\n")
    return Command(
        folder / "complaints", "broker", "--in-front-of", kafka.bootstrap, "--port", str(port),
        "--zookeeper", zookeeper, "--broker-id", str(number), "--config", str(settings), *told,
    )  # fmt: skip


def offsets(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """What is committed for a topic's partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return {each.partition: each.offset for each in consumer.committed(asked, 30)}
    finally:
        consumer.close()


# Java's client has range and cooperative-sticky, aiokafka roundrobin alone.
CLASHES = {
    JAVA: ("aiokafka", "InconsistentGroupProtocol"),
    "aiokafka": (JAVA, "protocols are incompatible with those of existing members"),
}
"""By who is there first: whose defaults have no assignor in common with its, and what that says."""
UNDISTURBED_MS = 30_000
"""A session that does not end because a machine is slow."""


@pytest.mark.skipif("aiokafka" not in PYTHON, reason="aiokafka is not installed")
@pytest.mark.parametrize("first", CLASHES)
@pytest.mark.timeout(240)
def test_who_has_no_assignor_in_common_is_told_so(first: str, tmp_path: Path) -> None:
    """The clients' defaults: the one that comes second ends, and the others go on undisturbed."""
    second, says = CLASHES[first]
    with (
        broker(tmp_path, "--topic", f"orders:{PARTITIONS}") as bootstrap,
        BrokerGroup(bootstrap, "defaults", "orders", PARTITIONS, DEFAULT, UNDISTURBED_MS) as group,
    ):
        group.start(first, first)
        group.settle(first)
        group.start("confluent-kafka", "confluent-kafka")  # whose defaults go with either's
        before = group.settle(first, "confluent-kafka")
        group.start(second, second)

        assert says in group.await_end(second)
        assert group.settle(first, "confluent-kafka") == before
        assert group.lost() == []


def test_topics_are_made_and_read_through_the_broker(ground: Ground) -> None:
    """An administrator's deeds, a producer's records and a reader's without a group."""
    topics = Topics(ground.bootstrap, 30.0)
    name = f"made-{ground.topic}"
    topics.create(name, 2)
    try:
        topics.add_partitions(name, 3)
        written = topics.produce(
            name, [TopicRecord(b"%d" % n, partition=n % 3) for n in range(30)], compression="lz4"
        )
        read = topics.read(name)
        assert [(each.partition, each.offset) for each in read] == sorted(
            (each.partition, each.offset) for each in written
        )
        assert {each.value for each in read} == {b"%d" % n for n in range(30)}
    finally:
        topics.delete(name)


def test_the_broker_serves_tls_and_metrics_and_ends_by_a_signal(tmp_path: Path) -> None:
    """Nobody gets in without TLS, Prometheus is told of it, and SIGTERM is no failure."""
    authority, files = trustme.CA(), {name: tmp_path / name for name in ("chain", "key", "ca")}
    server = authority.issue_cert("localhost")
    server.cert_chain_pems[0].write_to_path(files["chain"])
    server.private_key_pem.write_to_path(files["key"])
    authority.cert_pem.write_to_path(files["ca"])
    (metrics_port,) = free_ports(1)
    settings = tmp_path / "broker.toml"
    settings.write_text(
        f'[tls]\ncertificate = "{files["chain"]}"\nkey = "{files["key"]}"\n'
        f'[listener]\nadvertised_host = "localhost"\n[metrics]\nport = {metrics_port}\n'
    )
    command = ("broker", "--port", "0", "--config", str(settings), "--topic", "t:3")
    with Command(tmp_path / "complaints", *command) as running:
        (line,) = running.await_lines(1)
        bootstrap = line.removeprefix("listening ")
        secured = {"security.protocol": "ssl", "ssl.ca.location": str(files["ca"])}
        client = AdminClient({"bootstrap.servers": bootstrap, **secured})
        assert len(client.list_topics(timeout=30).topics["t"].partitions) == 3
        plain = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        with pytest.raises(KafkaException):
            plain.list_topics(timeout=1)
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as page:
            figures = page.read()
        assert b'herdproof_requests_total{request="Metadata"}' in figures
        assert b"herdproof_leads 1.0" in figures
        assert b"herdproof_zookeeper_connected" not in figures

        assert running.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(("bug", "error"), [((), 0), (("--bug", "KAFKA-14201"), UNKNOWN_MEMBER_ID)])
def test_the_command_has_a_bug_if_it_is_to(
    tmp_path: Path, bug: tuple[str, ...], error: int
) -> None:
    """By the wire alone: who assigns by hand, and has an instance id, commits; or does not."""
    with broker(tmp_path, "--topic", "t:2", *bug) as bootstrap:
        by_hand = WiredClient(bootstrap, "s", "s1")
        eventually(lambda: by_hand.commit(1) == 0)  # it may not coordinate at once

        assert by_hand.commit(2) == error
        by_hand.close()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--topic", "t:1", "--in-front-of", "a:1"], "a real Kafka's topics are created there"),
        (["--bug", "KAFKA-1"], "there is no bug 'KAFKA-1': one of KAFKA-2557"),
        (["--topic", "t"], "write NAME:PARTITIONS"),
        (["--topic", "no/slash:1", "--port", "0"], "a topic's name is"),
        (["--in-front-of", "127.0.0.1:1", "--port", "0"], "No Kafka answers at 127.0.0.1:1"),
        (["--host", "0.0.0.0"], "set listener.advertised_host"),
    ],
)
def test_a_broker_that_cannot_be_is_refused_in_a_sentence(arguments: list[str], why: str) -> None:
    """Whoever asks for one is told what was wrong, and exits by 2."""
    done = CliRunner().invoke(app, ["broker", *arguments])

    assert done.exit_code == 2, done.stderr
    assert why in " ".join(done.stderr.split())
