"""
The live page, on this machine's loopback: one file of HTML, and what it shows, as JSON.

The page asks for nothing else, from nowhere else. With a snapshot put into it, it stands by itself:
so it is kept when the demonstration is over.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jinja2

from herdproof.cli.run.demo.plan import LEASE_S, SESSION_S
from herdproof.cli.run.demo.snapshot import Json
from herdproof.ports import LOOPBACK, refuse_a_port_in_use

WATCHED_S = 3.0
"""Who asked within so many seconds watches, and gets to see the end, within as many."""
HTML, JSON, TEXT = "text/html", "application/json", "text/plain"


def page(shown: Json | None = None) -> str:
    """The page: live, or of this snapshot."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([
            jinja2.PackageLoader("herdproof.cli.run.demo"),
            jinja2.PackageLoader("herdproof.report"),
        ]),
        autoescape=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    template = environment.get_template("demo.html.jinja")
    return template.render(snapshot=shown, session_s=SESSION_S, lease_s=LEASE_S)


class PageServer:
    """
    Serves the page in threads of its own until its context ends; port 0 chooses a free one.

    `asked` gives the snapshot, `report` says where the audit's page will be. Raises `PortInUse`.
    """

    def __init__(self, port: int, asked: Callable[[], Json], report: Path) -> None:
        if port:
            refuse_a_port_in_use(port)
        self._asked, self._report = asked, report
        self._watched_s = -WATCHED_S
        self._over = threading.Event()
        self._server = _Patient((LOOPBACK, port), partial(_Request, self.answer))
        self._thread = threading.Thread(target=self._server.serve_forever, name="page", daemon=True)
        self.url = f"http://{LOOPBACK}:{self._server.server_port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str) -> tuple[int, str, str]:
        """The status, the kind and the text of what is asked for."""
        match path.partition("?")[0]:
            case "/":
                return 200, HTML, page()
            case "/snapshot":
                self._watched_s = time.monotonic()
                return 200, JSON, json.dumps(self._asked())
            case "/report" if self._report.exists():
                self._over.set()
                return 200, HTML, self._report.read_text(encoding="utf-8")
            case _:
                return 404, TEXT, "there are /, /snapshot and, in the end, /report\n"

    def await_watchers(self) -> None:
        """Let a page that is being watched fetch the end, which it shows when nobody serves it."""
        if time.monotonic() - self._watched_s < WATCHED_S:
            self._over.wait(WATCHED_S)
            time.sleep(0.1)  # in which the answer is sent


class _Patient(ThreadingHTTPServer):
    """A server that says nothing of browsers that go away amid an answer."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A mistake of ours is told as ever."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Request(BaseHTTPRequestHandler):
    """One request; whatever is wrong with it is its sender's matter."""

    def __init__(self, answer: Callable[[str], tuple[int, str, str]], *given: Any) -> None:
        self._answer = answer
        super().__init__(*given)

    def do_GET(self) -> None:
        """Answer it."""
        status, kind, text = self._answer(self.path)
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody wants to read who looked at the page."""
