"""A port to listen on, with the limits and the TLS of the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from herdproof.errors import WorldError
from herdproof.shells.configuration import Listener
from herdproof.shells.tls import Tls, server_context

BACKLOG = 1024
"""Connections that wait to be accepted: after a failover all consumers come at once."""


class CannotListen(WorldError):
    """The address to listen on is not to be had."""


async def listen(
    connection: Callable[[], asyncio.Protocol], limits: Listener, tls: Tls | None
) -> asyncio.Server:
    """Open the port, in the running loop; raises `CannotListen` and `BadTls`."""
    secured: dict[str, Any] = {} if tls is None else {
        "ssl": server_context(tls),
        "ssl_handshake_timeout": limits.frame_timeout_ms / 1000,
        "ssl_shutdown_timeout": limits.close_timeout_ms / 1000,
    }  # fmt: skip
    try:
        return await asyncio.get_running_loop().create_server(
            connection, limits.host, limits.port, backlog=BACKLOG, **secured
        )
    except OSError as problem:
        raise CannotListen(
            f"{limits.host}:{limits.port} cannot be listened on "
            f"({problem.strerror or problem}): choose another --port (0 takes a free one), or "
            f"end what has it."
        ) from problem
