"""What a service's HTTP port serves: its metrics, whether it lives, whether it is ready."""

from __future__ import annotations

import asyncio
import threading
import urllib.request
from collections.abc import Iterator
from urllib.error import HTTPError

import pytest
from prometheus_client import CollectorRegistry, Gauge

from herdproof.shells import health
from herdproof.shells.health import Condition, Health
from herdproof.shells.metrics import MetricsServer


@pytest.fixture
def own() -> Health:
    """A service's own word."""
    return Health()


@pytest.fixture
def server(own: Health) -> Iterator[MetricsServer]:
    """A server of one figure."""
    registry = CollectorRegistry()
    Gauge("herdproof_figure", "A figure.", registry=registry).set(7)
    with MetricsServer(registry, "127.0.0.1", 0, own) as server:
        yield server


def page(server: MetricsServer, path: str) -> tuple[int, str]:
    """The status and the text of a page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_figures_stand_under_their_path_alone(server: MetricsServer) -> None:
    """A monitor that asks for something else must not take figures for health."""
    assert "herdproof_figure 7.0" in page(server, "/metrics")[1]
    for path in ("/", "/health", "/metrics/x", "/favicon.ico"):
        assert page(server, path) == (404, "there are /metrics, /healthz and /ready\n")


def test_a_service_is_ready_when_it_says_so(server: MetricsServer, own: Health) -> None:
    """With its sentence, either way."""
    assert page(server, "/ready") == (503, "it is starting\n")
    own.ready = lambda: Condition(True, "it stands by: broker 2 leads")
    assert page(server, "/ready") == (200, "it stands by: broker 2 leads\n")
    own.ready = lambda: Condition(False, "nobody is known to lead")
    assert page(server, "/ready") == (503, "nobody is known to lead\n")


def test_a_service_lives_while_its_loop_turns(
    server: MetricsServer, own: Health, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process whose loop hangs, or has ended, is there, and of no use."""
    monkeypatch.setattr(health, "TURNS_S", 0.2)
    assert page(server, "/healthz")[0] == 200
    own.loop = asyncio.new_event_loop()
    turning = threading.Thread(target=own.loop.run_forever)
    turning.start()
    goes_on = threading.Event()
    try:
        assert page(server, "/healthz") == (200, "it lives\n")
        own.loop.call_soon_threadsafe(goes_on.wait, 10)
        assert page(server, "/healthz")[0] == 503
    finally:
        goes_on.set()
        own.loop.call_soon_threadsafe(own.loop.stop)
        turning.join()
        own.loop.close()
    assert page(server, "/healthz")[0] == 503
