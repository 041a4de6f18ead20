"""Ports of this machine's loopback: free ones for servers, and what to say of one in use."""

from __future__ import annotations

import errno
import itertools
import random
import socket
from collections.abc import Sequence

from herdproof.errors import WorldError

LOOPBACK = "127.0.0.1"

_PORTS = range(15_000, 32_000)
"""
Below the range from which Linux, macOS and Windows take the ports of outgoing connections:
otherwise a client could be given the port of a server that is about to restart, or even connect to
itself.
"""


class PortInUse(WorldError):
    """Another process listens on a port that was asked for."""


def free_ports(count: int, taken: Sequence[int] = ()) -> list[int]:
    """Ports that nobody listens on, and that are not `taken`."""
    chosen = random.sample(_PORTS, len(_PORTS))
    free = (port for port in chosen if port not in taken and _bind(port) is None)
    return list(itertools.islice(free, count))


def refuse_a_port_in_use(port: int) -> None:
    """Raises `PortInUse` unless a server could listen on that port."""
    problem = _bind(port)
    if problem is None:
        return
    if problem.errno != errno.EADDRINUSE:
        raise PortInUse(f"Port {port} on {LOOPBACK} cannot be used ({problem}): choose another.")
    raise PortInUse(
        f"Port {port} on {LOOPBACK} is in use (`ss -ltnp 'sport = :{port}'` shows by whom): "
        f"stop that process or choose another port."
    )


def _bind(port: int) -> OSError | None:
    """Try to listen on a port: `None`, or why not."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError as problem:
            return problem
    return None
