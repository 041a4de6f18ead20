"""
A real ZooKeeper and a real Kafka for tests of one's own code, each with a network to be broken.

Either *embedded* (child processes of the test: a Java is needed) or in *Docker* (by testcontainers:
an engine is needed). What a test may do to them is the same for both. The fixtures
`herdproof_zookeeper` and `herdproof_kafka` of the pytest plugin (`herdproof.testing`) hand them
out; each test finds them running and mended.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Protocol, Self

from herdproof.errors import CallerError, WorldError
from herdproof.ports import LOOPBACK, free_ports
from herdproof.servers import ServerFailed, eventually
from herdproof.zookeeper.client import Client
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Children, Delete, Names
from herdproof.zookeeper.proxy import FaultProxy

ZOOKEEPER_IMAGE = "zookeeper:3.9"
"""The image of ZooKeeper in Docker, where the setting names no other; it listens at 2181."""
KAFKA_IMAGE = "apache/kafka:3.9.1"
"""
The image of Kafka in Docker. Another one must read the variables of this one (`_kafka_settings`),
be its own controller, and do without a ZooKeeper.
"""
EMBEDDED, DOCKER = "embedded", "docker"
READY_WITHIN_S = 120.0
"""The seconds that a service may take to serve; an image was pulled before."""
PATIENCE_S = 2.0
"""The seconds for which a connection through a proxy waits for a server that starts again."""


class DockerMissing(WorldError):
    """Docker, or what Python needs for it, cannot be used here."""


class ServerProcess(Protocol):
    """A server that a test may break: a child process, or a container."""

    def kill(self) -> None:
        """End it at once, as a crash would."""

    def restart(self) -> None:
        """Start it again on its data (killed first, if it runs), and wait until it serves."""

    def pause(self) -> None:
        """Stop it in its tracks."""

    def resume(self) -> None:
        """Let it go on."""

    def alive(self) -> bool:
        """Tells whether it runs, or is paused."""


class Service:
    """
    A running server and a network to it, both of which a test may break.

    `proxy` forwards to the server, and does what networks do (`herdproof.zookeeper.proxy`): clients
    that are to feel it connect to `proxy.hosts`. All addresses stay the same over `restart`.
    """

    def __init__(self, process: ServerProcess, proxy: FaultProxy) -> None:
        self._process = process
        self._paused = False
        self.proxy = proxy

    def kill(self) -> None:
        """End the server at once, as a crash would; its data stay."""
        self._process.kill()
        self._paused = False

    def restart(self) -> None:
        """Start the server again on its data (killed first, if it runs); wait until it serves."""
        if self._paused:
            self.resume()
        self._process.restart()

    def pause(self) -> None:
        """Stop the server in its tracks: its connections stay, nothing answers."""
        self._process.pause()
        self._paused = True

    def resume(self) -> None:
        """Let a paused server go on."""
        self._process.resume()
        self._paused = False

    def mend(self) -> None:
        """Undo what a test did to server and network: the next one finds both as new."""
        if self._paused:
            self.resume()
        if not self._process.alive():
            self._process.restart()
        self.proxy.accept()
        self.proxy.thaw()
        self.proxy.cut()


class ZooKeeperService(Service):
    """A ZooKeeper of one server; `hosts` is its own address, `proxy.hosts` the breakable one."""

    def __init__(self, process: ServerProcess, proxy: FaultProxy, hosts: str) -> None:
        super().__init__(process, proxy)
        self.hosts = hosts

    def mend(self) -> None:
        """Undo what a test did, the nodes that it left included."""
        super().mend()
        _remove_nodes(self.hosts)


class KafkaService(Service):
    """
    A Kafka of one broker; `bootstrap` is its own address, `proxy.hosts` the breakable one.

    A client that begins at `proxy.hosts` stays behind the proxy: the broker tells it no other
    address. Topics stay from test to test.
    """

    def __init__(self, process: ServerProcess, proxy: FaultProxy, bootstrap: str) -> None:
        super().__init__(process, proxy)
        self.bootstrap = bootstrap

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic; returns when it can be written to. Raises `KafkaRefused`."""
        from herdproof.kafka.topics import Topics

        Topics(self.bootstrap).create(name, partitions, 1)


# ── Which one ───────────────────────────────────────────────────────────────────────────────


@contextmanager
def zookeeper_service(
    where: str = EMBEDDED, image: str = ZOOKEEPER_IMAGE
) -> Iterator[ZooKeeperService]:
    """
    A ZooKeeper for as long as the context lasts: `embedded`, or in `docker` from this image.

    Raises what `EmbeddedZooKeeper` raises, or `DockerMissing` or `ServerFailed`.
    """
    with ExitStack() as stack:
        if checked(where) == DOCKER:
            (port,) = free_ports(1)
            serves = partial(_zookeeper_serves, port)
            process: ServerProcess = stack.enter_context(Container(image, {2181: port}, {}, serves))
        else:
            server = stack.enter_context(EmbeddedZooKeeper())
            process, port = _Only(server), int(server.hosts.rpartition(":")[2])
        proxy = stack.enter_context(FaultProxy(LOOPBACK, port, patience_s=PATIENCE_S))
        yield ZooKeeperService(process, proxy, f"{LOOPBACK}:{port}")


@contextmanager
def kafka_service(where: str = EMBEDDED, image: str = KAFKA_IMAGE) -> Iterator[KafkaService]:
    """
    A Kafka for as long as the context lasts: `embedded`, or in `docker` from this image.

    The embedded one has a ZooKeeper of its own, the other one none. Raises what `EmbeddedKafka` and
    `EmbeddedZooKeeper` raise, or `DockerMissing` or `ServerFailed`.
    """
    from herdproof.kafka.embedded import EmbeddedKafka
    from herdproof.kafka.topics import Topics

    with ExitStack() as stack:
        port, behind = free_ports(2)
        # A second listener, which the broker says is at the proxy: whoever comes through the proxy
        # is told to come through it again.
        proxy = stack.enter_context(FaultProxy(LOOPBACK, behind, patience_s=PATIENCE_S))
        at = f"{LOOPBACK}:{port}"
        if checked(where) == DOCKER:
            ports = {9092: port, 9094: behind}
            serves = partial(Topics(at).served_by, 1, ())
            process: ServerProcess = stack.enter_context(
                Container(image, ports, _kafka_settings(at, proxy.hosts), serves)
            )
        else:
            zookeeper = stack.enter_context(EmbeddedZooKeeper())
            settings = {
                "listeners": f"PLAINTEXT://{at},FAULTS://{LOOPBACK}:{behind}",
                "advertised.listeners": f"PLAINTEXT://{at},FAULTS://{proxy.hosts}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,FAULTS:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
            }
            process = stack.enter_context(
                EmbeddedKafka(zookeeper.hosts, port=port, settings=settings)
            )
        yield KafkaService(process, proxy, at)


def checked(where: str) -> str:
    """Where services are to run; raises `HerdError` for what is neither."""
    if where not in (EMBEDDED, DOCKER):
        raise CallerError(f"herdproof_services is {where!r}: write {EMBEDDED!r} or {DOCKER!r}")
    return where


class _Only:
    """The only server of an embedded ZooKeeper."""

    def __init__(self, zookeeper: EmbeddedZooKeeper) -> None:
        self.kill = partial(zookeeper.kill, 0)
        self.restart = partial(zookeeper.restart, 0)
        self.pause = partial(zookeeper.pause, 0)
        self.resume = partial(zookeeper.resume, 0)
        self.alive = partial(zookeeper.alive, 0)


# ── In Docker ───────────────────────────────────────────────────────────────────────────────


class Container:
    """
    A server in a container; a context manager, which removes it.

    `ports` are those inside, with the ports of loopback at which they are reached, which stay the
    same when it starts again; `environment` are its variables; `serves` tells whether it does.
    """

    def __init__(
        self,
        image: str,
        ports: Mapping[int, int],
        environment: Mapping[str, str],
        serves: Callable[[], bool],
    ) -> None:
        self.image = image
        self._serves = serves
        self._container = _described(image)
        self._container.ports.update({f"{p}/tcp": (LOOPBACK, here) for p, here in ports.items()})
        self._container.with_envs(**environment)

    def __enter__(self) -> Self:
        """Start it and wait until it serves."""
        try:
            self._container.start()
        except Exception as error:  # docker-py's and requests' own kinds, whose common base it is
            raise DockerMissing(
                f"a container of {self.image} cannot be started: {_first_line(error)}"
            ) from error
        try:
            self._await_ready()
        except BaseException:
            self._container.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._container.stop()

    def kill(self) -> None:
        """By SIGKILL; its files stay."""
        self._wrapped.kill()
        self._wrapped.wait()

    def restart(self) -> None:
        """Start it again on its files."""
        if self.alive():
            self.kill()
        self._wrapped.start()
        self._await_ready()

    def pause(self) -> None:
        """Stop it in its tracks."""
        self._wrapped.pause()

    def resume(self) -> None:
        """Let it go on."""
        self._wrapped.unpause()

    def alive(self) -> bool:
        """Tells whether it runs, or is paused."""
        self._wrapped.reload()
        return self._wrapped.status in ("running", "paused")

    @property
    def _wrapped(self) -> Any:
        return self._container.get_wrapped_container()

    def _await_ready(self) -> None:
        """Wait until it serves; raises `ServerFailed`, at once if it has ended."""

        def ready() -> bool:
            if not self.alive():
                raise ServerFailed(f"{self.image} ended at once:{self._said()}")
            return self._serves()

        if not eventually(ready, READY_WITHIN_S):
            raise ServerFailed(
                f"{self.image} did not serve within {READY_WITHIN_S:g} s:{self._said()}"
            )

    def _said(self) -> str:
        """Its last lines, on lines of their own."""
        lines = self._wrapped.logs(tail=8).decode(errors="replace").splitlines()
        return "".join(f"\n  {line}" for line in lines or ["(it said nothing)"])


def _described(image: str) -> Any:
    """A container that is not started yet; raises `DockerMissing`."""
    try:
        from testcontainers.core.container import DockerContainer
    except ImportError as error:
        raise DockerMissing(
            f"{error.name} is not installed, which runs services in Docker: run"
            f" `pip install 'herdproof[testing]'`, or set herdproof_services to {EMBEDDED}"
        ) from error
    try:
        container = DockerContainer(image)
        container.get_docker_client().client.ping()
    except Exception as error:  # docker-py's and requests' own kinds, whose common base it is
        raise DockerMissing(
            f"no Docker engine answers ({_first_line(error)}): start Docker, or set"
            f" herdproof_services to {EMBEDDED}"
        ) from error
    return container


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _kafka_settings(at: str, proxied: str) -> dict[str, str]:
    """
    The variables of a single broker that is its own controller, as Kafka's own image has it.

    Where clients reach it is no address within the container: it has one for itself, too, at which
    it marks the ends of transactions.
    """
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": (
            "PLAINTEXT://:9092,CONTROLLER://:9093,FAULTS://:9094,BROKERS://localhost:9095"
        ),
        "KAFKA_ADVERTISED_LISTENERS": (
            f"PLAINTEXT://{at},FAULTS://{proxied},BROKERS://localhost:9095"
        ),
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,FAULTS:PLAINTEXT,BROKERS:PLAINTEXT"
        ),
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKERS",
        # One that was killed is let in again only when its session is over.
        "KAFKA_BROKER_SESSION_TIMEOUT_MS": "4000",
        "KAFKA_BROKER_HEARTBEAT_INTERVAL_MS": "500",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    }


# ── ZooKeeper's state ───────────────────────────────────────────────────────────────────────


def _zookeeper_serves(port: int) -> bool:
    """Tells whether the ZooKeeper at a port of loopback serves clients."""
    with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1.0) as line:
        line.sendall(b"srvr")
        return b"Mode: " in b"".join(iter(lambda: line.recv(65536), b""))
    return False


def _remove_nodes(hosts: str) -> None:
    """Remove every node but ZooKeeper's own."""
    with Client(
        hosts, session_timeout_s=10.0, on_link=lambda _l, _s: None, on_watch=lambda _w: None
    ) as client:
        _remove_below(client, "/")


def _remove_below(client: Client, path: str) -> None:
    found = client.perform(Children(path))
    for name in found.names if isinstance(found, Names) else ():
        if (below := f"{path.rstrip('/')}/{name}") != "/zookeeper":
            _remove_below(client, below)
            client.perform(Delete(below))
