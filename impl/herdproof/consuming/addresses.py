"""Addresses as arguments: "host:port", several as a list or with commas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from herdproof.errors import CallerError


class BadArgument(CallerError):
    """An argument that nothing good can come of: the message names it, and says what it must be."""


def host_ports(argument: str, given: str | Sequence[str]) -> list[tuple[str, int]]:
    """The addresses in an argument; `BadArgument` names what is none."""
    found = list(_host_ports(argument, given.split(",") if isinstance(given, str) else given))
    if not found:
        raise BadArgument(f"{argument} is empty: give at least one host:port")
    return found


def _host_ports(argument: str, texts: Sequence[str]) -> Iterator[tuple[str, int]]:
    for text in texts:
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise BadArgument(f"{argument}: {text!r} is no address: it must be host:port")
        yield host.removeprefix("[").removesuffix("]"), int(port)
