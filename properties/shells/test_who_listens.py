"""Who listens at an address is found out from what it answers, and a stranger from what it says."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
import trustme

from herdproof.who_listens import Listening, stranger, who_listens
from herdproof.zookeeper.outage import reason
from integration.central_coordinator.played_coordinator import PlayedCoordinator

PATIENCE_S = 0.3


@contextmanager
def listener(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Somebody who listens, and does so with each connection; its port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def take() -> None:
        with suppress(OSError):
            while True:
                line = listening.accept()[0]
                threading.Thread(target=one, args=(line,), daemon=True).start()

    def one(line: socket.socket) -> None:
        with suppress(OSError), line:
            serve(line)

    threading.Thread(target=take, daemon=True).start()
    with listening:
        yield int(listening.getsockname()[1])


def as_kafka(line: socket.socket) -> None:
    """Answers ApiVersions, and ends what it does not understand."""
    request = line.recv(100)
    if request[4:6] == b"\x00\x12":
        line.sendall(b"\x00\x00\x00\x0a" + request[8:12] + b"\x00\x00" + bytes(4))


def as_zookeeper(line: socket.socket) -> None:
    """Answers one of the four-letter words."""
    if line.recv(100) == b"srvr":
        line.sendall(b"Zookeeper version: 3.9")


def as_tls(line: socket.socket) -> None:
    """Speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    context.wrap_socket(line, server_side=True).close()


def as_silence(line: socket.socket) -> None:
    """Reads, and answers nothing."""
    while line.recv(100):
        pass


def as_gone(line: socket.socket) -> None:
    """Hangs up at once."""


@pytest.mark.parametrize(
    ("serve", "found"),
    [
        (as_kafka, Listening.KAFKA),
        (as_zookeeper, Listening.ZOOKEEPER),
        (as_tls, Listening.TLS),
        (as_silence, Listening.SOMEBODY),
        (as_gone, Listening.SOMEBODY),
    ],
)
def test_who_listens_is_found_out(serve: Callable[[socket.socket], None], found: Listening) -> None:
    """By what it answers to whom; who answers nothing holds nobody up."""
    with listener(serve) as port:
        assert who_listens("127.0.0.1", port, PATIENCE_S) is found


def test_nobody_listens(unused_port: int) -> None:
    """Where nothing listens."""
    assert who_listens("127.0.0.1", unused_port, PATIENCE_S) is Listening.NOBODY


@pytest.mark.parametrize("host", ["no such host", "no-such-host.invalid", "a" * 300])
def test_a_name_that_is_not_resolved_is_called_so(host: str) -> None:
    """Who misspells a host must not look for a server that is down."""
    found = who_listens(host, 9092, PATIENCE_S)
    assert found is Listening.UNRESOLVED
    assert not found.is_somebody
    assert found.misfit(speaks_tls=True) == found.misfit(speaks_tls=False) != ""
    assert (
        reason([(host, 2181)])
        == f"the host name of {host}:2181 is not resolved (is it written right?)"
    )


def test_a_coordinator_is_neither() -> None:
    """Ours are known by their own words alone."""
    with PlayedCoordinator() as coordinator:
        assert who_listens("127.0.0.1", coordinator.port, PATIENCE_S) is Listening.SOMEBODY


@pytest.fixture
def unused_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.mark.parametrize(
    ("first", "who"),
    [
        (b"\x00\x00\x00\x0a\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff", "a client of Kafka"),
        (b"\x16\x03\x01\x02\x00\x01", "a client that speaks TLS"),
        (b"GET /metrics HTTP/1.1\r\n", "a client of HTTP"),
        (b"\x00\x00", ""),
        (b"", ""),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff", ""),
    ],
)
def test_a_stranger_is_known_by_its_first_bytes(first: bytes, who: str) -> None:
    """As far as they tell."""
    assert stranger(first) == who
