"""Says that no ZooKeeper is reached, soon and with the reason, and that one is again."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from herdproof.troubles import Troubles
from herdproof.who_listens import Listening, who_listens

SOON_S = 1.5
"""An outage that is shorter is nobody's trouble; to find out why takes a second more."""
ASKED = 3
"""The number of servers that are asked who they are."""


class Outage:
    """
    One client's view: `look` is called every now and then, by one thread.

    `servers` are those of `hosts`, taken apart.
    """

    def __init__(self, hosts: str, servers: Sequence[tuple[str, int]], troubles: Troubles) -> None:
        self._hosts = hosts
        self._servers = servers[:ASKED]
        self._troubles = troubles
        self._due: float | None = None
        self._was_connected = False

    def look(self, *, is_connected: bool) -> None:
        """Tell of an outage that lasts, or that it is over."""
        now = time.monotonic()
        if is_connected:
            if not self._was_connected:
                self._troubles.mend(ZOOKEEPER, f"ZooKeeper at {self._hosts} is reached")
            self._due = None
        elif self._due is None:
            self._due = now + SOON_S
        elif now >= self._due:
            self._troubles.tell_why(ZOOKEEPER, self._why)
        self._was_connected = is_connected

    def _why(self) -> str:
        return f"ZooKeeper at {self._hosts} is not reached: {reason(self._servers)}; it is tried on"


ZOOKEEPER = "zookeeper"
"""The name of the trouble."""


def reason(servers: Sequence[tuple[str, int]]) -> str:
    """Why no session can be had: who listens there instead, if anybody does."""
    said = []
    for host, port in servers:
        found = who_listens(host, port)
        address = f"{host}:{port}"
        if found is Listening.ZOOKEEPER:
            return f"it answers at {address}, but opens no session (do most of its servers run?)"
        said.append(found.said(address))
        if found.is_somebody:
            break
    return said[-1] if said else "no address is named"


class Quietly(logging.LoggerAdapter):  # type: ignore[type-arg]
    """kazoo's logger: what it says of each attempt is for who looks for a mistake."""

    def __init__(self, log: logging.Logger) -> None:
        super().__init__(log, {})

    def log(self, level: int, msg: object, *args: object, **more: Any) -> None:
        """Write it, for debugging alone unless it is an error."""
        quiet = level if level >= logging.ERROR else min(level, logging.DEBUG)
        super().log(quiet, msg, *args, **more)
