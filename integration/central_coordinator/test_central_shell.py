"""The coordinator's shell in this process, on a real ZooKeeper: its session, and how it ends."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from herdproof.protocols.central_coordinator.coordinator.coordinator import Coordinator
from herdproof.protocols.central_coordinator.events import Received
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.central_coordinator.server.configuration import Configuration
from herdproof.protocols.central_coordinator.server.metrics import Metrics
from herdproof.protocols.central_coordinator.server.server import Server
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode
from herdproof.protocols.election.elector import Elector
from herdproof.protocols.election.shell import ElectionOver
from herdproof.protocols.election.zookeeper_session import ZooKeeperSession
from herdproof.shells.configuration import BadConfiguration, Listener, ZooKeeperSection
from herdproof.shells.listening import CannotListen
from herdproof.zookeeper.client import Digest, ZooKeeperUnreachable
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Create,
    Created,
    Data,
    Exists,
    Found,
    Get,
    Link,
    Names,
    NodeChange,
    Operation,
    Refusal,
    Set,
    Watched,
    Why,
)
from herdproof.zookeeper.proxy import FaultProxy
from integration.central_coordinator.wire_client import ConnectionOver, WireClient
from integration.clients import connected, new_root

pytestmark = pytest.mark.real

PATHS = Paths()
PATIENCE_S = 20.0
"""How long a test waits for what must come; only a failing test waits that long."""
LEADERSHIP_LEASE_MS = 1_000
"""Who is paused for longer steps down."""


@pytest.fixture
def chroot(zookeeper: EmbeddedZooKeeper) -> str:
    """A part of ZooKeeper of the test's own."""
    return new_root(zookeeper)


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until it holds; fail if that takes too long."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, "it did not come about"
        await asyncio.sleep(0.005)


@dataclass
class Owner:
    """Whose the session is: it writes down what it is told."""

    told: list[Any] = field(default_factory=list)

    def elected(self, epoch: int) -> None:
        """Write it down."""
        self.told.append(("elected", epoch))

    def deposed(self, epoch: int) -> None:
        """Write it down."""
        self.told.append(("deposed", epoch))

    def fired(self, watched: Watched) -> None:
        """Write it down."""
        self.told.append(watched)

    def linked(self, link: Link) -> None:
        """Write it down."""
        self.told.append(link)

    def over(self) -> None:
        """Write it down."""
        self.told.append("over")

    def asked(self, operation: Operation, answer: Answer, seconds: float) -> None:
        """Nothing that a test wants to know."""

    @property
    def watches(self) -> list[Watched]:
        """The watches that fired."""
        return [each for each in self.told if isinstance(each, Watched)]


def play(hosts: str, scene: Callable[[ZooKeeperSession, Owner], Awaitable[None]]) -> Owner:
    """Play a scene with a session, close it, and answer with what its owner was told."""
    owner = Owner()

    async def run() -> None:
        """What the loop runs."""
        settings = ZooKeeperSection(hosts=hosts, session_timeout_ms=4_000)
        keeper = ZooKeeperSession(settings, 1, PATHS.election, owner)
        await keeper.start(PATIENCE_S)
        try:
            await scene(keeper, owner)
        finally:
            await keeper.close()

    asyncio.run(run())
    return owner


# ── The session ─────────────────────────────────────────────────────────────────────────────


def test_a_lost_connection_s_watches_are_said_to_have_fired(proxy: FaultProxy, chroot: str) -> None:
    """Who left a watch on a connection that broke reads anew, once; then watches work again."""

    async def scene(keeper: ZooKeeperSession, owner: Owner) -> None:
        """The scene."""
        assert await keeper.ask(Create("/x")) == Created("/x")
        assert isinstance(await keeper.ask(Get("/x", watch=True)), Data)
        assert isinstance(await keeper.ask(Children("/x", watch=True)), Names)

        proxy.cut()
        await eventually(lambda: len(owner.watches) == 2)
        assert set(owner.watches) == {
            Watched("/x", NodeChange.DATA), Watched("/x", NodeChange.CHILDREN),
        }  # fmt: skip
        await keeper.ask(Get("/x", watch=True))
        await keeper.ask(Set("/x", b"changed"))
        await keeper.ask(Set("/x", b"changed again"))

        assert owner.watches[2:] == [Watched("/x", NodeChange.DATA)]
        proxy.cut()
        await eventually(lambda: owner.told.count(Link.CONNECTED) == 3)
        assert len(owner.watches) == 3  # none was left

    play(proxy.hosts + chroot, scene)


def test_watches_are_told_to_who_left_them(zookeeper: EmbeddedZooKeeper, chroot: str) -> None:
    """The elector's watch is its own; on the same node the owner may have one, too."""

    async def scene(keeper: ZooKeeperSession, owner: Owner) -> None:
        """The scene."""
        keeper.stand()
        await eventually(lambda: ("elected", 1) in owner.told)
        keeper.resign()
        await eventually(lambda: ("deposed", 1) in owner.told)
        while await keeper.ask(Exists(PATHS.election.leader)) != Found(None):
            pass  # its deletion comes after the deposition
        await keeper.ask(Exists(PATHS.election.leader, watch=True))
        assert owner.watches == []
        keeper.stand()
        await eventually(lambda: ("elected", 2) in owner.told)
        assert owner.watches == [Watched(PATHS.election.leader, NodeChange.CREATED)]

    told = play(zookeeper.hosts + chroot, scene).told
    assert told[-2:] == [("deposed", 2), "over"]


def test_who_is_gone_is_answered(zookeeper: EmbeddedZooKeeper, chroot: str) -> None:
    """What is asked of a session that is over, or not begun, is refused: nobody waits."""

    async def run() -> None:
        """What the loop runs."""
        settings = ZooKeeperSection(hosts=zookeeper.hosts + chroot)
        keeper = ZooKeeperSession(settings, 1, PATHS.election, Owner())
        lost = Refusal(Why.CONNECTION_LOSS)
        assert await asyncio.wait_for(keeper.ask(Get("/")), PATIENCE_S) == lost
        await keeper.start(PATIENCE_S)
        await keeper.close()
        assert await asyncio.wait_for(keeper.ask(Get("/")), PATIENCE_S) == lost

    asyncio.run(run())


def test_a_user_s_nodes_are_its_own(zookeeper: EmbeddedZooKeeper, chroot: str) -> None:
    """With a digest what is created can be read by all, and changed by that user alone."""
    hosts = zookeeper.hosts + chroot
    with connected(hosts, digest=Digest("herd", "secret")) as owner, connected(hosts) as stranger:
        owner.perform(Create("/x", b"1"))

        assert stranger.perform(Set("/x", b"2")) == Refusal(Why.BAD_ARGUMENTS)
        found = stranger.perform(Get("/x"))
        assert isinstance(found, Data)
        assert found.data == b"1"
        with connected(hosts, digest=Digest("herd", "wrong")) as impostor:
            assert impostor.perform(Set("/x", b"2")) == Refusal(Why.BAD_ARGUMENTS)
        with connected(hosts, digest=Digest("herd", "secret")) as colleague:
            assert not isinstance(colleague.perform(Set("/x", b"2")), Refusal)


# ── How a server goes on, and ends ──────────────────────────────────────────────────────────


def serve(hosts: str, scene: Callable[[Server, WireClient], Awaitable[None]], **more: Any) -> None:
    """Play a scene with a server and one connection to it."""

    async def run() -> None:
        """What the loop runs."""
        configuration = Configuration(
            broker_id=1, listener=Listener(port=0), zookeeper=ZooKeeperSection(hosts=hosts),
            coordinator=Settings(leadership_lease_ms=LEADERSHIP_LEASE_MS),
        )  # fmt: skip
        async with Server(configuration, Metrics(), **more) as server:
            client = await asyncio.to_thread(WireClient, server.address[1])
            with client:
                await asyncio.wait_for(scene(server, client), 3 * PATIENCE_S)

    asyncio.run(run())


def test_who_was_paused_steps_down_and_stands_again(
    zookeeper: EmbeddedZooKeeper, chroot: str
) -> None:
    """A coordinator that was paused closes its channels, resigns, and stands anew, a bit later."""

    async def scene(server: Server, client: WireClient) -> None:
        """The scene."""
        await eventually(lambda: server.epoch == 1)
        time.sleep(2 * LEADERSHIP_LEASE_MS / 1000)  # the loop itself is paused
        with pytest.raises(ConnectionOver):
            await asyncio.to_thread(client.take)
        await eventually(lambda: server.epoch == 2)

    serve(zookeeper.hosts + chroot, scene)


def test_an_epoch_that_was_edited_by_hand_is_followed_by_another(
    zookeeper: EmbeddedZooKeeper, chroot: str
) -> None:
    """The fence refuses the leader's next write: it gives its node up, and wins the next epoch."""
    hosts = zookeeper.hosts + chroot

    async def scene(server: Server, client: WireClient) -> None:
        """The scene."""
        await eventually(lambda: server.epoch == 1)
        with connected(hosts) as operator:
            assert not isinstance(operator.perform(Set(PATHS.election.epoch, b"2")), Refusal)
        with pytest.raises(ConnectionOver):
            await asyncio.to_thread(client.register, "g", "c")
        await eventually(lambda: server.epoch == 3)
        with WireClient(server.address[1]) as again:
            assert await asyncio.to_thread(again.register, "g", "c") is ErrorCode.NONE
        await asyncio.sleep(1.5)
        assert server.epoch == 3

    serve(hosts, scene)


def test_a_server_whose_lease_outlives_its_session_does_not_start(
    zookeeper: EmbeddedZooKeeper, chroot: str
) -> None:
    """What counts is the session that ZooKeeper grants, not the one that is asked for."""
    asked = ZooKeeperSection(hosts=zookeeper.hosts + chroot, session_timeout_ms=600)

    async def run(lease_ms: int) -> None:
        """What the loop runs."""
        configuration = Configuration(
            broker_id=1, listener=Listener(port=0), zookeeper=asked,
            coordinator=Settings(leadership_lease_ms=lease_ms),
        )  # fmt: skip
        async with Server(configuration, Metrics()):
            pass

    with pytest.raises(BadConfiguration, match="lasts only 600 ms"):
        asyncio.run(run(601))
    asyncio.run(run(600))


def test_a_server_without_zookeeper_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that ZooKeeper is not reached, and listens no more."""
    monkeypatch.setattr("herdproof.protocols.central_coordinator.server.server.CONNECT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def run() -> None:
        """What the loop runs."""
        configuration = Configuration(
            broker_id=1,
            listener=Listener(port=port),
            zookeeper=ZooKeeperSection(hosts="127.0.0.1:1"),
        )
        with pytest.raises(ZooKeeperUnreachable, match=r"127\.0\.0\.1:1 answered"):
            async with Server(configuration, Metrics()):
                pass

    asyncio.run(run())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)


def test_a_port_that_is_taken_is_named(zookeeper: EmbeddedZooKeeper) -> None:
    """A coordinator that cannot listen where it should says where, and what to do."""

    async def run() -> None:
        """What the loop runs."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            configuration = Configuration(broker_id=1, listener=Listener(port=port))
            with pytest.raises(CannotListen, match=rf"127\.0\.0\.1:{port} .*--port"):
                async with Server(configuration, Metrics()):
                    pass

    asyncio.run(run())


def test_a_failed_core_ends_the_server(
    zookeeper: EmbeddedZooKeeper, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody thought of ends the whole broker: channels closed, node gone, and raised."""
    receive = Coordinator.receive

    def fail(core: Coordinator, event: Any, now_ms: int) -> Any:
        if isinstance(event, Received):
            raise RuntimeError("nobody thought of this")
        return receive(core, event, now_ms)

    monkeypatch.setattr(Coordinator, "receive", fail)

    async def scene(server: Server, client: WireClient) -> None:
        """The scene."""
        with pytest.raises(ConnectionOver):
            await asyncio.to_thread(client.consult)
        await server.until_it_ends()

    with pytest.raises(RuntimeError, match="nobody thought of this"):
        serve(zookeeper.hosts + chroot, scene)
    with connected(zookeeper.hosts + chroot) as onlooker:
        assert onlooker.perform(Exists(PATHS.coordinator("1"))) == Found(None)


def test_a_failed_elector_ends_the_server(
    zookeeper: EmbeddedZooKeeper, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker whose elector has failed could never lead again: it ends, and says so."""

    async def scene(server: Server, client: WireClient) -> None:
        """The scene."""
        monkeypatch.setattr(Elector, "resign", None)
        server._keeper.resign()
        await server.until_it_ends()

    with pytest.raises(ElectionOver, match="its log says why"):
        serve(zookeeper.hosts + chroot, scene)


def test_an_observer_s_trouble_is_its_own(
    zookeeper: EmbeddedZooKeeper, chroot: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Who observes is told every event with its effects; if it fails, that is logged, no more."""
    seen: list[Any] = []

    def observe(core: Coordinator, event: Any, effects: Any) -> None:
        seen.append((event, effects))
        raise RuntimeError("the disk is full")

    async def scene(server: Server, client: WireClient) -> None:
        """The scene."""
        assert (await asyncio.to_thread(client.consult)).error_code == 0

    serve(zookeeper.hosts + chroot, scene, observe=observe)

    assert any(isinstance(event, Received) for event, _ in seen)
    assert "the disk is full" in caplog.text
