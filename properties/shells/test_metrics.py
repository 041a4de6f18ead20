"""The server of metrics among those who only hold it up."""

from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry, Gauge

from herdproof.shells import metrics
from herdproof.shells.metrics import READERS, MetricsServer


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    """A server of one figure."""
    registry = CollectorRegistry()
    Gauge("figure", "A figure.", registry=registry).set(7)
    with MetricsServer(registry, "127.0.0.1", 0) as server:
        yield server


def read(server: MetricsServer, accept: str = "*/*") -> tuple[str, str]:
    """What Prometheus reads, and of which kind it is."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/metrics", headers={"Accept": accept}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


def is_cut_off(peer: socket.socket, says: bytes, pause_s: float) -> bool:
    """Whether who says this again and again is cut off in the end."""
    since = time.monotonic()
    while time.monotonic() - since < 5:
        try:
            peer.sendall(says)
        except OSError:
            return True
        time.sleep(pause_s)
    return False


def test_slow_readers_hold_nobody_up(server: MetricsServer) -> None:
    """However many say half a request and no more: there is no thread for each, and no wait."""
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(10 * READERS):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 10))
            slow.sendall(b"GET / HTTP/1.1\r\nX: ")
        said, _ = read(server)

        assert "figure 7.0" in said
        assert threading.active_count() <= before + 1, "beside what looks at health"


def test_who_says_nothing_whole_is_given_up(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte every now and then is no reason to wait: what counts is the whole."""
    monkeypatch.setattr(metrics, "PATIENCE_S", 0.3)
    with socket.create_connection(("127.0.0.1", server.port), 10) as slow:
        assert is_cut_off(slow, b"G", 0.02)


def test_a_head_without_an_end_is_given_up(server: MetricsServer) -> None:
    """What is larger than any request is not kept."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as endless:
        assert is_cut_off(endless, bytes(100_000), 0)
        assert "figure" in read(server)[0]


def test_it_speaks_what_the_reader_understands(server: MetricsServer) -> None:
    """Prometheus asks for OpenMetrics; others get text. Nothing is written here."""
    assert read(server)[1].startswith("text/plain")
    said, kind = read(server, "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert said.endswith("# EOF\n")
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", data=b"x", timeout=10)
