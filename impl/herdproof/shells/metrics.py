"""Metrics of a process, served as Prometheus reads them."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server

from herdproof.errors import WorldError
from herdproof.shells.health import Health, pages


class MetricsPortTaken(WorldError):
    """The metrics cannot be served where they should be."""


class MetricsServer:
    """Serves a registry, and its service's health, over HTTP; port 0 chooses a free one."""

    def __init__(
        self, registry: CollectorRegistry, host: str, port: int, health: Health | None = None
    ) -> None:
        try:
            served: tuple[WSGIServer, threading.Thread] = start_http_server(
                port, addr=host, registry=registry
            )
        except OSError as problem:
            raise MetricsPortTaken(
                f"metrics cannot be served on {host}:{port}: {problem.strerror or problem}; choose "
                f"another --metrics-port."
            ) from problem
        self._server, self._thread = served
        self._server.set_app(pages(registry, health or Health()))
        self.port: int = self._server.server_port

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
