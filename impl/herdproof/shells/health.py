"""
Health: what a service answers to whoever looks after it, over HTTP, beside its metrics.

`/healthz` says whether it lives: 200 while its loop turns. `/ready` says whether it does its work,
or knows who does: 200 with a sentence, else 503 with the reason. `/metrics` is for Prometheus; all
else is 404.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

TURNS_S = 2.0
"""A loop that takes longer for a turn is held by something."""


class Condition(NamedTuple):
    """The condition of a service: well or not, and a sentence without its end."""

    is_well: bool
    said: str


def starting() -> Condition:
    """The condition of a service before it says so itself."""
    return Condition(False, "it is starting")


def serving() -> Condition:
    """The condition of a service that depends on nobody."""
    return Condition(True, "it serves")


@dataclass
class Health:
    """A service's own word; `ready` is asked from a thread of the metrics'."""

    ready: Callable[[], Condition] = starting
    loop: asyncio.AbstractEventLoop | None = None
    """The loop that has to turn, once there is one."""

    def alive(self) -> Condition:
        """The condition of the loop: it turns; before there is one, the process lives at least."""
        if self.loop is None:
            return starting()._replace(is_well=True)
        turned = threading.Event()
        with suppress(RuntimeError):  # it has ended
            self.loop.call_soon_threadsafe(turned.set)
        if not turned.wait(TURNS_S):
            return Condition(False, f"its loop has not turned for {TURNS_S:g} s")
        return Condition(True, "it lives")


class Page(NamedTuple):
    """An answer over HTTP."""

    status: str
    kind: str
    body: bytes


def page(path: str, accept: str, registry: CollectorRegistry, health: Health) -> Page:
    """The page under a path, for who accepts such types; health may take `TURNS_S`."""
    conditions: dict[str, Callable[[], Condition]] = {
        "/healthz": health.alive,
        "/ready": health.ready,
    }
    path = path.partition("?")[0]
    if path == "/metrics":
        encode, kind = choose_encoder(accept)
        return Page("200 OK", kind, encode(registry))
    if path not in conditions:
        status, said = "404 Not Found", "there are /metrics, /healthz and /ready"
    else:
        is_well, said = conditions[path]()
        status = "200 OK" if is_well else "503 Service Unavailable"
    return Page(status, "text/plain; charset=utf-8", f"{said}\n".encode())
