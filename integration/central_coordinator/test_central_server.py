"""
`herdproof coordinator` as a process, on a real ZooKeeper: found, spoken to, broken, taken over.

What consumers do is scripted (`wire_client.py`), so that each byte is the test's own. Each test has
a part of ZooKeeper to itself, a chroot, but for the one that needs a real Kafka.
"""

from __future__ import annotations

import json
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.consuming.assignment import Partition
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.protocols.central_coordinator import admin
from herdproof.protocols.central_coordinator.coordinator.groups import Owner
from herdproof.protocols.central_coordinator.coordinator.members.recovery import (
    owner_data,
    point_data,
)
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.central_coordinator.stored_groups import StoredGroups
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    CommitResponse,
    ErrorCode,
    Frame,
    Ping,
    Start,
)
from herdproof.protocols.election.shell import parents
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import (
    Create,
    Data,
    Delete,
    Exists,
    Found,
    Get,
    Refusal,
    Set,
    Why,
)
from herdproof.zookeeper.proxy import FaultProxy
from integration.central_coordinator.coordinators import SESSION_MS, Coordinator
from integration.central_coordinator.wire_client import ConnectionOver, WireClient
from integration.clients import TestClient, connected, eventually, new_root

pytestmark = pytest.mark.real

PATHS = Paths()
BOTH = (("orders", "0"), ("orders", "1"))


def furnished(zookeeper: EmbeddedZooKeeper) -> str:
    """A new part of ZooKeeper, in which Kafka has a topic of two partitions."""
    root = new_root(zookeeper)
    with connected(zookeeper.hosts + root) as client:
        for path in (PATHS.brokers, PATHS.broker_ids, PATHS.topics):
            client.perform(Create(path))
        client.perform(Create(PATHS.topic("orders"), b'{"partitions": {"0": [1], "1": [1]}}'))
    return root


@pytest.fixture
def chroot(zookeeper: EmbeddedZooKeeper) -> str:
    """A part of ZooKeeper of the test's own."""
    return furnished(zookeeper)


@pytest.fixture(scope="module")
def shared(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Coordinator, str]]:
    """A coordinator that leads, for tests that do not end it, and where its ZooKeeper is."""
    hosts = zookeeper.hosts + furnished(zookeeper)
    with Coordinator(tmp_path_factory.mktemp("shared"), hosts) as broker:
        eventually(lambda: leads(broker, 1))
        yield broker, hosts


@pytest.fixture
def hosts(zookeeper: EmbeddedZooKeeper, chroot: str) -> str:
    """Where that is."""
    return zookeeper.hosts + chroot


def groups(hosts: str, *arguments: str) -> tuple[int, str]:
    """The exit code of `herdproof groups`, and what it says: on stdout, or why it refuses."""
    done = CliRunner().invoke(app, ["groups", *arguments, "--zookeeper", hosts])
    return done.exit_code, done.stderr if done.exit_code else done.stdout


def told(hosts: str, *arguments: str) -> Any:
    """What `herdproof groups` says as JSON."""
    code, said = groups(hosts, *arguments, "--json", "-")
    assert code == 0, said
    return json.loads(said)


def stored(client: TestClient) -> StoredGroups:
    """The groups, as an operator in this process sees them."""
    return StoredGroups(lambda operations: [client.perform(each) for each in operations])


def stands(client: TestClient, path: str) -> bool:
    """Whether a node stands."""
    return client.perform(Exists(path)) != Found(None)


def is_closed(client: WireClient) -> bool:
    """Whether the coordinator closes the connection, whatever it says before; waits for it."""
    try:
        while True:
            client.take()
    except ConnectionOver:
        return True


def leads(broker: Coordinator, broker_id: int) -> bool:
    """Whether the broker of this id leads, by the word of this one, if it has one already."""
    with WireClient(broker.port) as client:
        try:
            return client.consult().coordinator_id == broker_id
        except ConnectionOver:  # it was paused, and closes what came meanwhile
            return False


@contextmanager
def joined(broker: Coordinator, group: str = "g") -> Iterator[tuple[WireClient, Frame]]:
    """A member of a group, with the Start that it got; it is gone at the end."""
    with WireClient(broker.port) as client:
        assert client.register(group, "c1") is ErrorCode.NONE
        yield client, client.started()


def launched(stack: ExitStack, folder: Path, hosts: str, broker_id: int = 1) -> Coordinator:
    """A coordinator's process that may not be there yet, and that ends with the stack."""
    broker = Coordinator(folder, hosts, broker_id)
    stack.push(broker)
    return broker


# ── One coordinator ─────────────────────────────────────────────────────────────────────────


def test_a_consumer_is_found_started_stored_and_let_go(hosts: str, tmp_path: Path) -> None:
    """From Consult to a clean shutdown: what is said, stored, counted and logged."""
    with Coordinator(tmp_path, hosts) as broker, WireClient(broker.port) as client:
        eventually(lambda: client.consult().coordinator_id == 1)
        [listed] = client.consult().brokers
        assert (listed.id, listed.host, listed.port) == (1, "127.0.0.1", broker.port)

        assert client.register("g", "c1") is ErrorCode.NONE
        start = client.started()
        assert start.message == Start(tuple(Offset(*p, NO_OFFSET) for p in BOTH))
        client.offsets = (Offset(*BOTH[0], 5), Offset(*BOTH[1], 7))
        client.answer_until(Ping)
        commit = Commit((Offset(*BOTH[0], 6),))
        answer = client.ask(commit, start.epoch, start.generation)
        assert answer.message == CommitResponse(ErrorCode.NONE)

        with client.answering():
            described = told(hosts, "describe", "g")
            code, said = groups(hosts, "delete", "g")
        assert (code, "has members (c1)" in said) == (2, True)
        assert (described["members"], described["epoch"]) == ({"c1": '{"orders": 1}'}, start.epoch)
        assert described["subscriptions"] == {"c1": "orders"}
        assert described["generation"] == start.generation
        assert [(p["owner"], p["offset"]) for p in described["partitions"]] == [
            ("c1", 6),
            ("c1", 7),
        ]

        counted = broker.metrics()
        assert 'herdproof_frames_received_total{message="Commit"} 1.0' in counted
        assert {"herdproof_connections 1.0", "herdproof_leads 1.0"} <= set(counted)
        [done] = broker.logged("rebalance_done")
        assert (done["group"], done["partitions"], done["level"]) == ("g", 2, "info")

        assert broker.end(signal.SIGTERM) == 0
        assert is_closed(client)

    assert "Traceback" not in broker.complaints
    with connected(hosts) as onlooker:
        assert not stands(onlooker, PATHS.coordinator("1"))
        assert not stands(onlooker, PATHS.election.leader)


def test_nobody_s_trouble_is_another_s(shared: tuple[Coordinator, str]) -> None:
    """Garbage, silence and crowds end the connections that they come over; a member stays."""
    broker, _ = shared
    with joined(broker, "quiet") as (member, _), member.answering():
        for garbage in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", broker.port), 10) as other:
                other.sendall(garbage)
                refusal = other.makefile("rb").read()
                assert refusal[13:15] == ErrorCode.MALFORMED.to_bytes(2, "big")
        with socket.create_connection(("127.0.0.1", broker.port), 10) as half:
            half.sendall(b"\x00\x00\x00\x20half")
            assert half.recv(100) == b""
        crowd = [WireClient(broker.port) for _ in range(8)]
        assert len(broker.await_logged("channel_refused", 3)) == 3
        for one in crowd:
            one.socket.close()
        lost = [line for line in broker.logged("member_lost") if line["group"] == "quiet"]
        counted = broker.metrics()

    assert lost == []
    assert 'herdproof_connections_cut_total{reason="malformed frame"} 2.0' in counted
    assert 'herdproof_connections_cut_total{reason="a client of HTTP"} 1.0' in counted
    assert 'herdproof_connections_cut_total{reason="no whole frame in time"} 1.0' in counted


def test_a_group_goes_on_from_where_an_operator_put_it(shared: tuple[Coordinator, str]) -> None:
    """Offsets of a group that has gone empty are reset; who comes then starts from there."""
    broker, hosts = shared
    with connected(hosts) as onlooker:
        here = stored(onlooker)
        with joined(broker) as (client, first):
            client.offsets = tuple(Offset(*p, 50) for p in BOTH)
            client.answer_until(Ping)
            eventually(lambda: here.read("g").offsets == dict.fromkeys(BOTH, 50))
        eventually(lambda: not here.read("g").members)

        admin.reset_offsets(here, here.read("g"), dict.fromkeys(BOTH, 3))

        with joined(broker) as (_, start):
            assert start.message == Start(tuple(Offset(*p, 3) for p in BOTH))
            assert start.generation > first.generation


def test_a_node_that_somebody_deletes_is_there_again(shared: tuple[Coordinator, str]) -> None:
    """Who can be consulted stays known: a registration that is deleted is made again."""
    broker, hosts = shared
    path = PATHS.coordinator("1")
    with connected(hosts) as onlooker:
        node = onlooker.perform(Get(path))
        assert isinstance(node, Data)
        assert json.loads(node.data) == {"host": "127.0.0.1", "port": broker.port}

        onlooker.perform(Delete(path))

        eventually(lambda: stands(onlooker, path))
        assert onlooker.perform(Get(path)) != node


# ── Another coordinator ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "paused"])
def test_another_takes_over(
    hosts: str, tmp_path: Path, number: signal.Signals, report: Callable[[str], None]
) -> None:
    """A leader dies or is paused: the other one goes on where it stood, in a later epoch."""
    with ExitStack() as stack, connected(hosts) as onlooker:
        brokers = {broker_id: launched(stack, tmp_path, hosts, broker_id) for broker_id in (1, 2)}
        eventually(lambda: any(leads(brokers[1], broker_id) for broker_id in brokers))
        leader = 1 if leads(brokers[1], 1) else 2
        first, second, other = brokers[leader], brokers[3 - leader], 3 - leader
        eventually(lambda: first.page("/ready") == (200, "it leads in epoch 1\n"))
        second.await_logged("metrics on ")
        by = f"stands by: broker {leader} leads"
        eventually(lambda: second.page("/ready") == (200, f"it {by}\n"))
        assert second.logged(by)
        with joined(first) as (old, start):
            old.offsets = (Offset(*BOTH[0], 9),)
            old.answer_until(Ping)
            eventually(lambda: stored(onlooker).read("g").offsets.get(BOTH[0]) == 9)

            first.signal(number)
            since = time.monotonic()
            eventually(lambda: leads(second, other))
            with joined(second) as (_, started):
                seconds = time.monotonic() - since
            assert started.epoch > start.epoch
            assert started.generation > start.generation
            assert isinstance(started.message, Start)
            assert Offset(*BOTH[0], 9) in started.message.partitions
            if number is signal.SIGSTOP:
                first.signal(signal.SIGCONT)
                assert is_closed(old)
                eventually(lambda: leads(first, other))
    report(
        f"coordinator {'killed' if number is signal.SIGKILL else 'paused'}: the next Start after "
        f"{seconds:.1f} s (sessions and lease of {SESSION_MS / 1000:g} s)"
    )


def test_who_comes_back_too_soon_waits_until_it_can_be_known(hosts: str, tmp_path: Path) -> None:
    """While a former life's session holds its node it stays out, or is ended; then it serves."""
    path = PATHS.coordinator("1")
    with ExitStack() as stack, connected(hosts) as former_life:
        for above in parents(path):
            former_life.perform(Create(above))
        former_life.perform(Create(path, b"former", ephemeral=True))
        brokers = [launched(stack, tmp_path, hosts) for _ in range(2)]
        for broker in brokers:
            broker.await_logged("another session holds this broker's node")
            assert broker.lines == []
        assert not stands(former_life, PATHS.election.leader)
        assert brokers[0].end(signal.SIGTERM) == 0
        former_life.perform(Delete(path))
        assert brokers[1].port
        eventually(lambda: leads(brokers[1], 1))


def test_who_is_cut_off_from_zookeeper_leads_no_more(
    chroot: str, hosts: str, proxy: FaultProxy, tmp_path: Path
) -> None:
    """Without ZooKeeper it closes every channel; with it, it is known and elected anew."""
    with Coordinator(tmp_path, proxy.hosts + chroot) as broker, connected(hosts) as onlooker:
        eventually(lambda: leads(broker, 1))
        with joined(broker) as (client, start):
            proxy.freeze()
            assert is_closed(client)
            eventually(lambda: broker.page("/ready") == (503, "ZooKeeper is not reached\n"))
            assert broker.page("/healthz")[0] == 200
            [told] = broker.await_logged("ZooKeeper at")
            assert told["level"] == "warning"
        eventually(lambda: not stands(onlooker, PATHS.coordinator("1")))
        proxy.thaw()
        proxy.cut()

        eventually(lambda: leads(broker, 1))
        broker.await_logged("recovered after")
        assert stands(onlooker, PATHS.coordinator("1"))
        with joined(broker) as (_, started):
            assert started.epoch > start.epoch


# ── TLS and ACLs ────────────────────────────────────────────────────────────────────────────


def test_tls_and_acls_keep_strangers_out(hosts: str, tmp_path: Path) -> None:
    """With TLS nobody without a certificate gets in; its nodes are its user's alone to change."""
    authority = trustme.CA()
    server, consumer = authority.issue_cert("localhost"), authority.issue_cert("consumer")
    files = {name: tmp_path / f"{name}.pem" for name in ("certificate", "key", "authority")}
    server.cert_chain_pems[0].write_to_path(files["certificate"])
    server.private_key_pem.write_to_path(files["key"])
    authority.cert_pem.write_to_path(files["authority"])
    (tmp_path / "password").write_text("secret\n")
    settings = (
        f'user = "herd"\npassword_file = "{tmp_path / "password"}"\n[tls]\n'
        f'certificate = "{files["certificate"]}"\nkey = "{files["key"]}"\n'
        f'client_authority = "{files["authority"]}"\n'
    )
    known, unknown = ssl.create_default_context(), ssl.create_default_context()
    for context in (known, unknown):
        authority.configure_trust(context)
    consumer.configure_cert(known)

    with Coordinator(tmp_path, hosts, settings=settings) as broker:
        for stranger in (None, unknown):
            with pytest.raises((ConnectionOver, OSError)), WireClient(broker.port, stranger) as no:
                no.consult()
        with WireClient(broker.port, known) as client:
            eventually(lambda: client.consult().coordinator_id == 1)
            assert client.register("g", "c1") is ErrorCode.NONE
            client.started()
        broker.await_logged("group_empty")
        assert broker.end(signal.SIGINT) == 130

    reset = ("reset-offsets", "g", "--topic", "orders", "--to", "4")
    code, said = groups(hosts, *reset)
    assert (code, "belong to another user" in said) == (2, True)
    with connected(hosts) as client_of_nobody:
        assert stored(client_of_nobody).read("g").offsets == {}
        forbidden = Set(PATHS.election.epoch, b"stranger")
        assert client_of_nobody.perform(forbidden) == Refusal(Why.BAD_ARGUMENTS)
    code, said = groups(hosts, *reset, "--config", str(tmp_path / "1.toml"))
    assert code == 0, said
    assert [p["offset"] for p in told(hosts, "describe", "g")["partitions"]] == [4, 4]


# ── Beside Kafka ────────────────────────────────────────────────────────────────────────────


def test_operators_see_how_far_a_group_is_behind(kafka: EmbeddedKafka) -> None:
    """Lag is Kafka's end less the offset; a reset goes to what Kafka has; a deletion is one."""
    topic, group = "lagging", "behind"
    kafka.create_topic(topic, 2)
    kafka.produce(topic, *[b"record"] * 5, partition=0)
    offsets: dict[Partition, int] = {(topic, "0"): 3}
    with connected(kafka.zookeeper) as client:
        nodes = {PATHS.group(group): point_data(1, 1, 1, 1_000)}
        nodes |= {PATHS.owner(group, topic, n): owner_data(Owner("c", "1-1"), 1) for n in "01"}
        nodes |= {PATHS.offset(group, *p): str(at).encode() for p, at in offsets.items()}
        for path, data in nodes.items():
            for above in parents(path):
                client.perform(Create(above))
            client.perform(Create(path, data))
    at, brokers = kafka.zookeeper, ("--bootstrap-servers", kafka.bootstrap)

    lag = told(at, "lag", group, *brokers)
    assert [(p["offset"], p["end"], p["lag"]) for p in lag["partitions"]] == [
        (3, 5, 2), (None, 0, None),
    ]  # fmt: skip
    assert lag["lag"] == 2
    reset = ("reset-offsets", group, "--topic", topic, *brokers, "--to")
    dry = told(at, *reset, "latest", "--dry-run")
    assert [(p["offset"], p["becomes"]) for p in dry["offsets"]] == [(3, 5), (None, 0)]
    assert not dry["done"]
    code, said = groups(at, *reset, "6", "--partition", "0")
    assert (code, "has the offsets 0 to 5" in said) == (2, True)
    assert told(at, *reset, "earliest", "--partition", "0")["done"]
    assert [p["offset"] for p in told(at, "describe", group)["partitions"]] == [0, None]
    assert groups(at, "delete", group)[0] == 0
    assert group not in {g["group"] for g in told(at, "list")["groups"]}
