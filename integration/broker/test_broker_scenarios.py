"""
Groups at `herdproof broker`, in what happens to groups seldom, and at the hands of operators.

Cooperative groups of unmodified clients; Kafka's own `kafka-consumer-groups` and `herdproof
groups`, in front of a real Kafka; and a coordinator that is paused for longer than its session with
ZooKeeper lasts.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka.protocol.metadata import FindCoordinatorRequest
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.topics import TopicRecord, Topics
from herdproof.ports import free_ports
from herdproof.protocols.group_protocol.server.standing import PATHS
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Delete
from herdproof.zookeeper.proxy import FaultProxy
from integration.broker.broker_group import JAVA, OURS, PYTHON, BrokerGroup, java_with_tools
from integration.broker.broker_judgement import judge_group
from integration.broker.test_broker import traced
from integration.clients import connected, eventually, new_root
from integration.commands import Command
from properties.protocols.group_protocol.testing.wired import WiredClient

PARTITIONS = 8
COOPERATIVE = (*(kind for kind in PYTHON if kind != "aiokafka"), JAVA, OURS)
"""The clients that have a cooperative assignor."""
GROUPS_OWN = "[groups]\ngroup_initial_rebalance_delay_ms = 0\ngroup_min_session_timeout_ms = 500\n"
SESSION_MS = 2_000
"""With ZooKeeper; `LONG_MS`: where it is not to end."""
LONG_MS = 30_000
COORDINATOR_LOAD_IN_PROGRESS = 14
NOT_COORDINATOR = 16
PATIENCE_S = 30.0


def started(folder: Path, *arguments: str, settings: str = GROUPS_OWN) -> Command:
    """A broker that has begun to start."""
    folder.mkdir(exist_ok=True)
    (folder / "broker.toml").write_text(settings)
    options = ("--port", "0", "--config", str(folder / "broker.toml"))
    return Command(folder / "complaints", "broker", *options, *arguments)


def address(broker: Command) -> str:
    """Where it listens, once it does."""
    return broker.await_lines(1)[0].removeprefix("listening ")


# ── Cooperative groups ──────────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.timeout(240)
def test_cooperative_clients_keep_what_is_theirs(tmp_path: Path) -> None:
    """
    Clients of four makes rebalance step by step: who stays keeps what the newcomer does not get.

    One is killed, and what it had is given to the others, who keep the rest.
    """
    trace = tmp_path / "broker.ndjson"
    with (
        started(tmp_path, "--topic", f"orders:{PARTITIONS}", *traced(trace)) as broker,
        BrokerGroup(
            address(broker), "cooperative", "orders", PARTITIONS, "cooperative-sticky"
        ) as group,
    ):
        there: list[str] = []
        owners: dict[int, str] = {}
        for kind in COOPERATIVE:
            group.start(kind, kind)
            there.append(kind)
            before, owners = owners, group.settle(*there, evenly=True)
            assert all(owner in (before.get(n, kind), kind) for n, owner in owners.items())
        killed, *left = there
        group.kill(killed)
        after = group.settle(*left, evenly=True)

        assert all(after[n] == owner for n, owner in owners.items() if owner != killed)
        assert group.lost() == []
    judge_group(group, trace)


# ── Kafka's own administrator ───────────────────────────────────────────────────────────────


class Administrator:
    """`kafka-consumer-groups` of Kafka 3.9.1, as operators run it."""

    def __init__(self, bootstrap: str) -> None:
        self._command = [
            *java_with_tools(), "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            "--bootstrap-server", bootstrap,
        ]  # fmt: skip

    def does(self, *options: str) -> list[list[str]]:
        """The words of each line that it prints."""
        done = subprocess.run(
            [*self._command, *options], capture_output=True, text=True, timeout=60
        )
        assert not done.returncode, done.stdout + done.stderr
        return [line.split() for line in done.stdout.splitlines() if line.strip()]


@contextmanager
def member(bootstrap: str, topic: str) -> Iterator[Consumer]:
    """A consumer of the group `billing` that has read all of a topic's ten records."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "billing", "client.id": "reader",
        "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0,
    })  # fmt: skip
    consumer.subscribe([topic])
    for _ in range(10):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert not message.error()
    consumer.commit(asynchronous=False)
    try:
        yield consumer
    finally:
        consumer.close()


@pytest.mark.long
@pytest.mark.timeout(240)
def test_kafkas_own_administrator_does_all_its_deeds(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """List, describe, reset, delete offsets and delete, in front of a real Kafka."""
    topic = "administered"
    kafka.create_topic(topic, 2)
    with started(tmp_path, "--in-front-of", kafka.bootstrap) as broker:
        bootstrap = address(broker)
        Topics(bootstrap).produce(
            topic, [TopicRecord(b"%d" % n, partition=n % 2) for n in range(10)]
        )
        administrator = Administrator(bootstrap)
        with member(bootstrap, topic):
            assert ["billing"] in administrator.does("--list")
            described = administrator.does("--describe", "--group", "billing")
            assert {tuple(line[:6]) for line in described[1:]} == {
                ("billing", topic, f"{n}", "5", "5", "0") for n in range(2)
            }
            members = administrator.does("--describe", "--group", "billing", "--members")
            assert members[1][3:5] == ["reader", "2"]
            state = administrator.does("--describe", "--group", "billing", "--state")
            assert state[1][-2:] == ["Stable", "1"]
        resetting = ("--group", "billing", "--topic", topic, "--to-offset", "2", "--execute")
        [reset] = administrator.does("--reset-offsets", *resetting)  # all in one line
        assert reset[4:] == ["billing", topic, "0", "2", "billing", topic, "1", "2"]
        assert committed(bootstrap, topic) == [2, 2]
        administrator.does("--delete-offsets", "--group", "billing", "--topic", f"{topic}:0")
        assert committed(bootstrap, topic) == [-1001, 2]
        administrator.does("--delete", "--group", "billing")
        assert ["billing"] not in administrator.does("--list")


def committed(bootstrap: str, topic: str, group: str = "billing") -> list[int]:
    """What is committed for the topic's two partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        asked = [TopicPartition(topic, number) for number in range(2)]
        return [each.offset for each in consumer.committed(asked, PATIENCE_S)]
    finally:
        consumer.close()


# ── Our own ─────────────────────────────────────────────────────────────────────────────────


def operator_does(*arguments: str) -> tuple[int, str]:
    """The exit code of `herdproof groups`, and what it says: on stdout, or why it refuses."""
    done = CliRunner().invoke(app, ["groups", *arguments])
    return done.exit_code, done.stderr if done.exit_code else done.stdout


@pytest.mark.timeout(240)
def test_herdproof_groups_has_them_too(
    kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    """List, describe and lag; reset and delete by the broker that coordinates, or without any."""
    topic, hosts = "operated", f"{zookeeper.hosts}{new_root(zookeeper)}"
    kafka.create_topic(topic, 2)
    at, of_kafka = ("--zookeeper", hosts), ("--bootstrap-servers", kafka.bootstrap)
    resetting = ("reset-offsets", "billing", *of_kafka, "--topic", topic, "--to")
    behind = ("--in-front-of", kafka.bootstrap, *at)

    def told(*arguments: str) -> dict[str, Any]:
        code, said = operator_does(*arguments, *at, "--json", "-")
        assert code == 0, said
        return dict(json.loads(said))

    (metrics_port,) = free_ports(1)
    with started(tmp_path / "1", *behind, "--metrics-port", f"{metrics_port}") as broker:
        bootstrap = address(broker)
        Topics(bootstrap).produce(
            topic, [TopicRecord(b"%d" % n, partition=n % 2) for n in range(10)]
        )
        with member(bootstrap, topic):
            [listed] = told("list")["groups"]
            assert (listed["group"], listed["protocol"]) == ("billing", "group_protocol")
            assert (listed["members"], listed["partitions"]) == (1, 2)
            assert listed["generation"] > 0
            described = told("describe", "billing")
            assert [*described["subscriptions"].values()] == [topic]
            assert described["partitions"] == [
                {"topic": topic, "partition": f"{n}", "owner": owner, "offset": 5}
                for n, owner in enumerate(2 * [*described["members"]])
            ]
            assert told("lag", "billing", *of_kafka)["lag"] == 0
            refused, why = operator_does(*resetting, "2", *at)
            assert (refused, "has members" in why) == (2, True), why
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as page:
                figures = page.read().decode().splitlines()
            for line in ("leads 1.0", "epoch 1.0", "zookeeper_connected 1.0", "members 1.0"):
                assert f"herdproof_{line}" in figures
            assert any("zookeeper_seconds_count" in line for line in figures)
        eventually(lambda: not told("describe", "billing")["members"])
        assert told(*resetting, "2")["done"]
        assert committed(bootstrap, topic) == [2, 2]
        broker.end(signal.SIGTERM)
    assert told(*resetting, "3")["done"]
    with started(tmp_path / "2", *behind) as broker:
        assert committed(address(broker), topic) == [3, 3]
        deleted, said = operator_does("delete", "billing", *at)
        assert deleted == 0, said
        assert told("list")["groups"] == []
        assert committed(address(broker), topic) == 2 * [-1001]


# ── A zombie ────────────────────────────────────────────────────────────────────────────────


def leads(bootstrap: str) -> bool:
    """Whether a broker says that it coordinates the group itself."""
    client = WiredClient(bootstrap)
    try:
        told = client.ask(
            FindCoordinatorRequest(key_type=0, coordinator_keys=[client.group]), 4
        ).coordinators[0]
    finally:
        client.close()
    return not told.error_code and f"{told.host}:{told.port}" == bootstrap


def is_loading(bootstrap: str) -> bool:
    """True if a broker that coordinates has not read the group yet."""
    client = WiredClient(bootstrap)
    try:
        return client.heartbeat() == COORDINATOR_LOAD_IN_PROGRESS
    finally:
        client.close()


def await_that_leads(bootstrap: str) -> None:
    """Wait until a broker coordinates, and has read the group."""
    deadline = time.monotonic() + PATIENCE_S
    while not leads(bootstrap) or is_loading(bootstrap):
        assert time.monotonic() < deadline, "it is not elected"
        time.sleep(0.05)


def test_a_coordinator_that_was_paused_for_too_long_commands_nobody(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    """
    It goes on where it was stopped, with requests that came meanwhile, and another one leads.

    It stores nothing, begins no generation, and says to whoever asks that it does not coordinate.
    """
    hosts = f"{zookeeper.hosts}{new_root(zookeeper)}"
    with ExitStack() as stack, ThreadPoolExecutor() as meanwhile:
        zombie = stack.enter_context(standing(tmp_path / "1", hosts, "1"))
        await_that_leads(address(zombie))
        second = stack.enter_context(standing(tmp_path / "2", hosts, "2"))
        address(second)

        def client(broker: Command, name: str) -> WiredClient:
            made = WiredClient(address(broker), name)
            stack.callback(made.close)
            return made

        member = client(zombie, "a")
        member.own(0, 1)
        assert member.commit(5) == 0
        zombie.send(signal.SIGSTOP)
        asked = [
            meanwhile.submit(error_of, partial(member.commit, 3)),
            meanwhile.submit(error_of, partial(joined, client(zombie, "newcomer"))),
        ]
        await_that_leads(address(second))
        successor = client(second, "a")
        successor.member_id, successor.generation = member.member_id, member.generation
        assert successor.commit(9) == 0
        zombie.send(signal.SIGCONT)

        assert all(each.result() for each in asked)
        assert not leads(address(zombie))
        assert error_of(partial(joined, client(zombie, "later"))) == NOT_COORDINATOR
        assert successor.heartbeat() == 0
        assert committed(address(second), "t", "g") == [9, -1001]


def test_a_coordinator_that_has_not_heard_of_its_successor_stores_nothing(
    zookeeper: EmbeddedZooKeeper, proxy: FaultProxy, tmp_path: Path
) -> None:
    """
    Its session lives, and it goes on in good faith: the epoch alone keeps what it writes away.

    An operator takes the election's node from it, while nothing that ZooKeeper says gets through.
    Its write arrives there, after its successor's; what is stored, the next coordinator loads.
    """
    root = new_root(zookeeper)
    with ExitStack() as stack, ThreadPoolExecutor() as meanwhile:
        behind, direct = proxy.hosts + root, zookeeper.hosts + root
        zombie = stack.enter_context(standing(tmp_path / "1", behind, "1", LONG_MS))
        await_that_leads(address(zombie))
        second = stack.enter_context(standing(tmp_path / "2", direct, "2", LONG_MS))
        address(second)
        member = WiredClient(address(zombie))
        stack.callback(member.close)
        member.own(0, 1)
        assert member.commit(5) == 0

        proxy.swallow_replies()
        with connected(zookeeper.hosts) as operator:
            operator.perform(Delete(root + PATHS.election.leader))
        await_that_leads(address(second))
        successor = WiredClient(address(second))
        stack.callback(successor.close)
        successor.member_id, successor.generation = member.member_id, member.generation
        assert successor.commit(9) == 0
        assert leads(address(zombie))
        asked = meanwhile.submit(error_of, partial(member.commit, 3))
        proxy.wait_swallowed_reply()
        proxy.cut()
        assert asked.result() != 0
        second.send(signal.SIGTERM)
        await_that_leads(address(zombie))

        assert committed(address(zombie), "t", "g") == [9, -1001]


def standing(folder: Path, hosts: str, number: str, session_ms: int = SESSION_MS) -> Command:
    """A broker by itself that stands for election."""
    settings = f"{GROUPS_OWN}[zookeeper]\nsession_timeout_ms = {session_ms}\n"
    options = ("--topic", "t:2", "--zookeeper", hosts, "--broker-id", number)
    return started(folder, *options, settings=settings)


def joined(client: WiredClient) -> int:
    """The error that a newcomer's JoinGroup is answered."""
    return int(client.join(3).error_code)


def error_of(ask: Callable[[], int]) -> int:
    """The error that a request is answered; one where its connection is ended instead."""
    try:
        return ask()
    except ConnectionError:
        return -1
