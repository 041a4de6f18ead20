"""
Finds out who listens at an address that does not answer as it should, to say so in one sentence.

Nothing is known of what any protocol of ours speaks: only of what stands beside it. The other
direction, from the first bytes that a stranger sends, is `stranger`.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from enum import Enum

PATIENCE_S = 1.0
"""The time for which each question waits; all are asked at the same time."""

_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 0x48455244, -1)
"""Kafka's ApiVersions, version 0, from a client without a name; with its correlation id."""
_HELLO = b"\x16\x03"
"""The beginning of a handshake of TLS, whoever sends it."""
_ALERT = b"\x15\x03"
"""The beginning of an alert of TLS."""
_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ")
_FIRST_REQUESTS = (18, 3)
"""The first requests of a client of Kafka's: ApiVersions, or Metadata of an old one."""


class Listening(Enum):
    """Who listens at an address; the value says it of one."""

    NOBODY = "nobody listens at {}"
    UNRESOLVED = "the host name of {} is not resolved (is it written right?)"
    KAFKA = "Kafka itself answers at {}"
    TLS = "who listens at {} speaks TLS"
    ZOOKEEPER = "ZooKeeper answers at {}"
    SOMEBODY = "who listens at {} is neither Kafka nor ZooKeeper, and speaks no TLS"

    @property
    def is_somebody(self) -> bool:
        """Tells whether anybody listens there."""
        return self not in (Listening.NOBODY, Listening.UNRESOLVED)

    def said(self, address: str) -> str:
        """A sentence without its end."""
        return self.value.format(address)

    def misfit(self, *, speaks_tls: bool) -> str:
        """Why nobody is understood there who does, or does not, speak TLS; "" if that is not it."""
        if self is Listening.NOBODY:
            return "nobody listens there"
        if self is Listening.UNRESOLVED:
            return "its host name is not resolved (is it written right?)"
        if self is Listening.TLS:
            return "" if speaks_tls else "it speaks TLS, and this consumer does not"
        return "it speaks no TLS, and this consumer does" if speaks_tls else ""


def who_listens(host: str, port: int, patience_s: float = PATIENCE_S) -> Listening:
    """Ask at an address, in every language that is known; takes `patience_s` seconds or so."""

    def answer(asks: Callable[[socket.socket], bool]) -> bool:
        with closing(socket.create_connection((host, port), patience_s)) as line:
            line.settimeout(patience_s)
            try:
                return asks(line)
            except OSError:
                return False

    with ThreadPoolExecutor(len(_LANGUAGES), "herdproof-who-listens") as threads:
        asked = {found: threads.submit(answer, asks) for found, asks in _LANGUAGES.items()}
    try:
        spoken = [found for found, each in asked.items() if each.result()]
    except (socket.gaierror, ValueError):  # ValueError: no such host name can be
        return Listening.UNRESOLVED
    except OSError:
        return Listening.NOBODY
    return spoken[0] if spoken else Listening.SOMEBODY


def stranger(first: bytes) -> str:
    """Who speaks to us, by its first bytes; "" where that cannot be told."""
    if first.startswith(_HELLO):
        return "a client that speaks TLS"
    if first.startswith(_METHODS):
        return "a client of HTTP"
    if len(first) >= 8:
        size, api, version = struct.unpack(">ihh", first[:8])
        if 8 <= size < 2**16 and api in _FIRST_REQUESTS and 0 <= version < 32:
            return "a client of Kafka"
    return ""


# ── The questions ───────────────────────────────────────────────────────────────────────────


def _is_kafka(line: socket.socket) -> bool:
    line.sendall(_API_VERSIONS)
    head = line.recv(8)
    return len(head) == 8 and head[4:] == _API_VERSIONS[8:12]


def _is_tls(line: socket.socket) -> bool:
    line.sendall(_client_hello())
    return line.recv(2) in (_HELLO, _ALERT)  # it shakes hands, or answers, if only to refuse


def _client_hello() -> bytes:
    """Returns what a client of TLS says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    said = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):  # nobody answers here
        context.wrap_bio(ssl.MemoryBIO(), said).do_handshake()
    return said.read()


def _is_zookeeper(line: socket.socket) -> bool:
    line.sendall(b"srvr")
    return line.recv(9).startswith((b"Zookeeper", b"This ZooK", b"srvr is n"))


_LANGUAGES: dict[Listening, Callable[[socket.socket], bool]] = {
    Listening.KAFKA: _is_kafka,
    Listening.TLS: _is_tls,
    Listening.ZOOKEEPER: _is_zookeeper,
}
