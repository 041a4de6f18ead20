"""What `herdproof.zookeeper.proxy` promises, between a real client and a real ZooKeeper."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from herdproof.errors import HerdError
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import (
    Create,
    Created,
    Exists,
    Found,
    Get,
    Link,
    Refusal,
    Set,
    Sync,
    Synced,
    Why,
)
from herdproof.zookeeper.proxy import FaultProxy, NothingSwallowed
from integration.clients import TestClient, connected, eventually, new_root

pytestmark = pytest.mark.real


@pytest.fixture
def root(zookeeper: EmbeddedZooKeeper) -> str:
    """A node for this test alone."""
    return new_root(zookeeper)


@pytest.fixture
def remote(proxy: FaultProxy) -> Iterator[TestClient]:
    """A client behind the proxy."""
    with connected(proxy.hosts) as client:
        yield client


@pytest.fixture
def direct(zookeeper: EmbeddedZooKeeper) -> Iterator[TestClient]:
    """A client with a direct line to the server."""
    with connected(zookeeper.hosts) as client:
        yield client


def test_it_passes_on_and_counts(remote: TestClient, proxy: FaultProxy, root: str) -> None:
    """Without a fault it is invisible; it counts connections and bytes in both directions."""
    to_server, to_client = proxy.bytes_to_server, proxy.bytes_to_client

    assert remote.perform(Create(f"{root}/a", b"x" * 10_000)) == Created(f"{root}/a")

    assert proxy.connections == 1
    assert proxy.refused == 0
    assert proxy.bytes_to_server - to_server > 10_000
    assert proxy.bytes_to_client > to_client


def test_cut_breaks_connections_and_lets_new_ones_through(
    remote: TestClient, proxy: FaultProxy
) -> None:
    """After a cut the client reconnects, with its session."""
    session = remote.session

    proxy.cut()

    eventually(lambda: proxy.connections == 2)
    remote.await_link(Link.CONNECTED)
    assert remote.session == session


def test_refuse_closes_new_connections_only(remote: TestClient, proxy: FaultProxy) -> None:
    """While it refuses, connections that stand are left alone, new ones are closed at once."""
    proxy.refuse()

    with socket.create_connection(("127.0.0.1", proxy.port)) as newcomer:
        assert newcomer.recv(1) == b""

    assert proxy.refused == 1
    assert remote.perform(Sync()) == Synced()


def test_accept_can_be_limited(proxy: FaultProxy) -> None:
    """It can let in a given number of connections, and no more."""
    proxy.accept(1)

    assert _asks(proxy) == b"imok"
    assert _asks(proxy) == b""
    proxy.accept()
    assert _asks(proxy) == b"imok"


def test_a_frozen_connection_stands_and_passes_nothing_on(
    remote: TestClient, direct: TestClient, proxy: FaultProxy, root: str
) -> None:
    """What is sent while it is frozen arrives when it thaws, in order, on the same connection."""
    proxy.freeze()
    remote.ask(Create(f"{root}/a"), Create(f"{root}/a/b"))

    assert direct.perform(Exists(f"{root}/a")) == Found(None)
    assert remote.link is Link.CONNECTED
    proxy.thaw()

    eventually(lambda: remote.diary.answers == [Created(f"{root}/a"), Created(f"{root}/a/b")])
    assert proxy.connections == 1


def test_one_direction_can_be_frozen_alone(
    remote: TestClient, direct: TestClient, proxy: FaultProxy, root: str
) -> None:
    """With only the way back frozen, requests are carried out; their replies come later."""
    proxy.freeze(to_server=False)
    remote.ask(Create(f"{root}/a"))

    eventually(lambda: direct.perform(Exists(f"{root}/a")) != Found(None))
    assert remote.diary.answers == []
    proxy.thaw()

    eventually(lambda: remote.diary.answers == [Created(f"{root}/a")])


def test_a_frozen_network_holds_the_end_of_a_connection_too(
    zookeeper: EmbeddedZooKeeper, proxy: FaultProxy
) -> None:
    """The server does not see that a client hung up until the network thaws."""
    with socket.create_connection(("127.0.0.1", proxy.port)) as client:
        eventually(lambda: proxy.connections == 1)
        proxy.freeze()
        client.sendall(b"ruok")

    assert proxy.bytes_to_server == 0
    proxy.thaw()
    eventually(lambda: proxy.bytes_to_server == 4)


def test_swallowed_replies_are_those_to_requests(
    remote: TestClient, direct: TestClient, proxy: FaultProxy, root: str
) -> None:
    """Watches are swallowed too, but only replies to requests count; nothing comes through."""
    remote.perform(Get(root, watch=True))
    proxy.swallow_replies()
    direct.perform(Set(root, b"1"))
    with pytest.raises(NothingSwallowed, match="0 of 1 replies"):
        proxy.wait_swallowed_reply(timeout_s=0.05)

    remote.ask(Create(f"{root}/a"), Create(f"{root}/b"))
    proxy.wait_swallowed_reply(replies=2)

    assert direct.perform(Exists(f"{root}/b")) != Found(None)
    proxy.cut()
    eventually(lambda: remote.diary.answers == [Refusal(Why.CONNECTION_LOSS)] * 2)
    assert remote.diary.watches == []
    remote.await_link(Link.CONNECTED)
    assert remote.perform(Sync()) == Synced()


def test_a_server_that_is_not_there_is_a_closed_connection(zookeeper: EmbeddedZooKeeper) -> None:
    """A connection for which no server is found is closed, and waiting for more has an end."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with FaultProxy("127.0.0.1", port) as proxy:
        assert _asks(proxy) == b""
        proxy.wait_connections(1)
        with pytest.raises(HerdError, match="Fewer than 2 connections"):
            proxy.wait_connections(2, timeout_s=0.05)


def _asks(proxy: FaultProxy) -> bytes:
    """The server's answer, through the proxy, to "are you ok?": nothing if the line is closed."""
    with socket.create_connection(("127.0.0.1", proxy.port)) as line:
        try:
            line.sendall(b"ruok")
            return line.recv(4)
        except ConnectionError:
            return b""
