"""The page's server, and the page that is kept: they show the snapshot, whatever is in it."""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdproof.cli.run.demo.page import PageServer, page
from herdproof.cli.run.demo.snapshot import snapshot
from herdproof.ports import LOOPBACK, PortInUse, free_ports
from properties.demo.canned import HOSTILE, scene


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    """A server of the canned scene, whose report is not there yet."""
    with PageServer(0, lambda: snapshot(scene()), tmp_path / "report.html") as running:
        yield running


def got(url: str) -> tuple[str, str]:
    """The kind and the text of what is served there."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_the_page_and_its_snapshot_are_served(server: PageServer) -> None:
    """The page comes without a snapshot, and asks for it."""
    kind, text = got(server.url)
    told_kind, told = got(f"{server.url}snapshot")

    assert kind.startswith("text/html")
    assert '<script type="application/json" id="snapshot">null</script>' in text
    assert told_kind.startswith("application/json")
    assert json.loads(told) == snapshot(scene())


def test_the_report_is_served_once_it_is_there(server: PageServer, tmp_path: Path) -> None:
    """Before, and for anything else, there is nothing."""
    for path in ("report", "etc/passwd"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            got(server.url + path)
    (tmp_path / "report.html").write_text("the report", encoding="utf-8")

    assert got(f"{server.url}report")[1] == "the report"


def test_nothing_listens_when_it_is_closed(tmp_path: Path) -> None:
    """Its port is free again; one that is in use is refused in a sentence."""
    [port] = free_ports(1)
    with PageServer(port, dict, tmp_path) as running:
        assert running.url == f"http://{LOOPBACK}:{port}/"
        with pytest.raises(PortInUse, match=f"Port {port} on .* is in use"):
            PageServer(port, dict, tmp_path)

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port), timeout=5)


def test_who_does_not_watch_is_not_waited_for(server: PageServer) -> None:
    """Without a question the end comes at once; who has the report already is not waited for."""
    server.await_watchers()
    got(f"{server.url}snapshot")
    server.answer("/report")  # not there yet: nobody has it

    assert not server._over.is_set()


def test_a_page_that_is_kept_has_its_snapshot() -> None:
    """It is in it as JSON, which no text within can leave."""
    shown = snapshot(scene())
    text = page(shown)

    [found] = re.findall(r'<script type="application/json" id="snapshot">(.*?)</script>', text)
    assert json.loads(found) == shown
    assert HOSTILE in shown["acts"][1]["told"]
    assert "<img src=x" not in text


def test_the_page_asks_for_nothing_from_elsewhere() -> None:
    """No address stands in it but the name of SVG, and its policy forbids the rest."""
    text = page()

    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in text
