"""A port with TLS among strangers: what is before the handshake is bounded, and told."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import sys
from asyncio import constants
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from prometheus_client import CollectorRegistry

from herdproof.shells import listening
from herdproof.shells.configuration import Listener
from herdproof.shells.listening import CannotListen, listen
from herdproof.shells.logs import fields_of
from herdproof.shells.metrics import MetricsPortTaken, MetricsServer
from herdproof.shells.tls import Tls


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_a_host_that_is_not_this_machine_is_what_to_change(host: str) -> None:
    """No other port would help there."""
    with pytest.raises(CannotListen, match="address of this machine") as refused:
        asyncio.run(listen(asyncio.Protocol, Listener(host=host, port=0), None))
    assert "--port" not in str(refused.value)
    with pytest.raises(MetricsPortTaken, match="address of this machine"):
        MetricsServer(CollectorRegistry(), host, 0)


class Echo(asyncio.Protocol):
    """It says what it was told; `made` are those that there were."""

    made: list[Echo]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is in."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        Echo.made.append(self)

    def data_received(self, data: bytes) -> None:
        """Somebody says something."""
        self.transport.write(data)


class Secured:
    """A port with TLS, and a client that trusts it."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        server = authority.issue_cert("localhost")
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        server.cert_chain_pems[0].write_to_path(certificate)
        server.private_key_pem.write_to_path(key)
        self.tls = Tls(certificate=str(certificate), key=str(key))
        self.client = ssl.create_default_context()
        authority.configure_trust(self.client)
        self.port = 0
        Echo.made = []

    @asynccontextmanager
    async def listening(self, **limits: int) -> AsyncIterator[None]:
        """It listens."""
        settings = {"frame_timeout_ms": 5_000, "close_timeout_ms": 200, **limits}
        server = await listen(Echo, Listener(port=0, **settings), self.tls)  # type: ignore[arg-type]
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for each in Echo.made:
                each.transport.abort()
            await asyncio.sleep(0.01)

    async def echoed(self, said: bytes) -> bytes:
        """What a friend is answered."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.client, server_hostname="localhost"
        )
        writer.write(said)
        answer = await asyncio.wait_for(reader.readexactly(len(said)), 5)
        writer.transport.abort()
        return answer

    async def stranger(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Somebody who has connected, and has said nothing yet."""
        return await asyncio.open_connection("127.0.0.1", self.port)


@pytest.fixture
def secured(tmp_path: Path) -> Secured:
    """A port with TLS."""
    return Secured(tmp_path)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why handshakes failed, as it was logged."""
    records = [r for r in caplog.records if r.getMessage() == "TLS handshake failed"]
    assert all(str(fields_of(r)["peer"]).startswith("127.0.0.1:") for r in records)
    return [str(fields_of(r)["why"]) for r in records]


def test_who_shakes_hands_is_let_in(secured: Secured) -> None:
    """Whatever comes right behind the handshake is heard, too."""

    async def meet() -> None:
        """Shake hands nine times at once, and be answered each time."""
        async with secured.listening():
            assert await asyncio.gather(*(secured.echoed(bytes([n]) * 5_000) for n in range(9)))
        assert len(Echo.made) == 9

    asyncio.run(meet())


def test_a_failed_handshake_is_logged(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    """Who speaks no TLS, or trusts nobody here, is named with the reason."""

    async def meet() -> None:
        """Fail to shake hands, as a stranger."""
        async with secured.listening():
            reader, writer = await secured.stranger()
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.transport.abort()
            with pytest.raises(ssl.SSLError):
                await asyncio.open_connection(
                    "127.0.0.1", secured.port, ssl=ssl.create_default_context()
                )
            await asyncio.sleep(0.05)

    asyncio.run(meet())

    no_tls, no_trust = told(caplog)
    assert no_tls == "HTTP_REQUEST"
    assert no_trust
    assert Echo.made == []


def test_who_is_silent_is_given_up(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    """A handshake has to be done in time."""

    async def meet() -> None:
        """Say nothing, as a stranger."""
        async with secured.listening(frame_timeout_ms=200):
            reader, writer = await secured.stranger()
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.transport.abort()

    asyncio.run(meet())

    assert len(told(caplog)) == 1


def test_a_crowd_that_never_shakes_hands_keeps_nobody_out(
    secured: Secured, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only so many are waited for, and it is the oldest who go; a friend is let in at once."""
    monkeypatch.setattr(listening, "HANDSHAKES", 8)

    async def meet() -> None:
        """Come after forty strangers that never shake hands."""
        async with secured.listening():
            crowd = [await secured.stranger() for _ in range(40)]
            assert await asyncio.wait_for(secured.echoed(b"hello"), 5) == b"hello"
            ended = [asyncio.ensure_future(reader.read()) for reader, _ in crowd]
            await asyncio.sleep(0.2)
            assert sum(not each.done() for each in ended) <= 8
            for each, (_, writer) in zip(ended, crowd, strict=True):
                each.cancel()
                writer.transport.abort()
            await asyncio.gather(*ended, return_exceptions=True)

    asyncio.run(meet())

    assert (
        told(caplog).count("more connections came than there may be handshakes at once")
        >= 40 + 1 - 8
    )


def test_without_tls_nobody_waits_at_the_door() -> None:
    """A connection is its owner's as soon as it stands."""
    Echo.made = []

    async def meet() -> None:
        """Talk to a port without TLS."""
        server = await listen(Echo, Listener(port=0), None)
        port: Any = server.sockets[0].getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), 5):
            while not Echo.made:
                await asyncio.sleep(0.001)
        server.close()
        Echo.made[0].transport.abort()
        await asyncio.sleep(0.01)

    asyncio.run(meet())


BACKLOG_AT = 28
"""Where `tcp_info` of a port on Linux has how many may wait to be accepted."""


def waits(server: asyncio.Server) -> int:
    """The number of connections that may wait to be accepted."""
    told = server.sockets[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BACKLOG_AT + 4)
    return int.from_bytes(told[BACKLOG_AT:], sys.byteorder)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how many may wait")
def test_who_waits_while_files_are_lacking_is_let_in_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may open no more files accepts nobody for a while, and then goes on."""
    Echo.made = []
    accept, lacking = socket.socket.accept, [True]

    def failing(port: socket.socket) -> object:
        if lacking:
            raise OSError(errno.EMFILE, "too many open files")
        return accept(port)

    async def waited() -> bytes:
        """Say something to a port that accepts nobody yet; what is heard."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, _told: None)
        server = await listen(Echo, Listener(port=0), None)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(b"hello")
        await asyncio.sleep(0.1)
        assert not Echo.made
        lacking.clear()
        async with asyncio.timeout(10):
            heard = await reader.readexactly(5)
        assert waits(server) > listening.AT_ONCE
        writer.close()
        server.close()
        return heard

    monkeypatch.setattr(constants, "ACCEPT_RETRY_DELAY", 0.3)
    monkeypatch.setattr(socket.socket, "accept", failing)
    assert asyncio.run(waited()) == b"hello"
