"""
A real ZooKeeper as child processes: one server, or an ensemble, on this machine's loopback.

Made for tests and for trying things out: its data lies in a temporary directory that goes with it
(unless a directory is named), it does not wait for the disk, and it accepts sessions as short as
two ticks. It never outlives its owner, not even one that dies by `kill -9` (see
`herdproof.minder`).

    with EmbeddedZooKeeper() as zookeeper:
        print(zookeeper.hosts)

Source: the ZooKeeper 3.9 administrator's guide (configuration, four-letter words).
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from herdproof.errors import HerdError
from herdproof.minder import Minder
from herdproof.zookeeper.jars import find_java, zookeeper_jars
from herdproof.zookeeper.proxy import FaultProxy

LOOPBACK = "127.0.0.1"

_PORTS = range(15_000, 32_000)
"""
Below the range from which Linux, macOS and Windows take the ports of outgoing connections:
otherwise a client could be given the port of a server that is about to restart, or even connect to
itself.
"""

_LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n%throwable{8}
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""

_JVM_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Djava.net.preferIPv4Stack=true",
    "-Dlog4j2.disableJmx=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.preAllocSize=64",
)
"""For a quick start and little use of the disk; `preAllocSize` is in KiB (64 MiB by default)."""


class PortInUse(HerdError):
    """Another process listens on a port that was asked for."""


class ServerFailed(HerdError):
    """A server ended, or did not become ready in time; the message ends with its last log lines."""


class EmbeddedZooKeeper:
    """
    A running ZooKeeper of `servers` servers, numbered from 0.

    `tick_time_ms` is ZooKeeper's unit of time: sessions last at least two ticks, a follower may
    lag behind its leader by 15. `port` is the first server's client port, the others' follow it;
    without it, free ports are chosen. `directory` keeps the data; without it, they lie in a
    temporary directory that is removed. `heap_mb` is for each server. With `isolatable`, servers
    reach each other through proxies, so that `hold_back` works. Every wait is limited by
    `timeout_s`, in seconds.

    Raises `JavaMissing`, `JavaTooOld`, `JarsMissing`, `PortInUse` and `ServerFailed` when it
    starts.
    """

    def __init__(
        self,
        servers: int = 1,
        *,
        tick_time_ms: int = 200,
        port: int | None = None,
        directory: Path | None = None,
        heap_mb: int = 128,
        isolatable: bool = False,
        timeout_s: float = 30.0,
    ) -> None:
        self._tick_time_ms = tick_time_ms
        self._port = port
        self._kept = directory
        self._heap_mb = heap_mb
        self._isolatable = isolatable
        self._roads: dict[tuple[int, int], FaultProxy] = {}
        self._timeout_s = timeout_s
        self._count = servers
        self._ports: list[int] = []
        self._paused: set[int] = set()
        self._minder: Minder | None = None
        self._directory = Path()

    @property
    def server_hosts(self) -> tuple[str, ...]:
        """`host:port` of each server."""
        return tuple(f"{LOOPBACK}:{port}" for port in self._ports)

    @property
    def hosts(self) -> str:
        """All servers, as clients want them: `host:port,host:port`."""
        return ",".join(self.server_hosts)

    @property
    def directory(self) -> Path:
        """Where the servers' data and logs (`0/server.log`, …) lie."""
        return self._directory

    def start(self) -> Self:
        """Start all servers and wait until they serve."""
        java, jars = find_java(), zookeeper_jars()
        if self._port is not None:
            self._ports = [self._port + i for i in range(self._count)]
            for port in self._ports:
                _refuse_a_port_in_use(port)
        else:
            self._ports = _free_ports(self._count)
        self._directory = self._make_directory()
        self._minder = Minder(remove=None if self._kept else self._directory)
        try:
            self._configure()
            self._command = self._command_of(java.path, jars)
            for server in range(self._count):
                self._launch(server)
            self._await_ready(range(self._count))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kill all servers and remove the temporary directory."""
        while self._roads:
            self._roads.popitem()[1].stop()
        if self._minder is not None:
            self._minder.close()
            self._minder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def kill(self, server: int) -> None:
        """End a server at once (SIGKILL), as a crash would; its data stay for `restart`."""
        self._running().signal(_name(server), signal.SIGKILL)
        self._paused.discard(server)

    def restart(self, server: int) -> None:
        """Kill a server if it runs, start it again on its data, and wait until it serves."""
        if self.alive(server):
            self.kill(server)
        self._launch(server)
        self._await_ready([server])

    def pause(self, server: int) -> None:
        """Stop a server in its tracks (SIGSTOP): its connections stay, nothing answers."""
        self._running().signal(_name(server), signal.SIGSTOP)
        self._paused.add(server)

    def resume(self, server: int) -> None:
        """Let a paused server go on (SIGCONT)."""
        self._running().signal(_name(server), signal.SIGCONT)
        self._paused.discard(server)

    def hold_back(self, server: int) -> None:
        """
        Let nothing more from the leader reach a follower, which then serves stale reads.

        What the follower sends still reaches the leader; its writes and syncs wait for `let_go`.
        After 15 ticks both sides notice, and it serves nobody until then.
        """
        if not self._isolatable:
            raise HerdError("hold_back() needs EmbeddedZooKeeper(3, isolatable=True).")
        leader = self.leader()
        if server == leader:
            raise HerdError(f"Server {server} leads: only a follower can be held back.")
        self._roads[server, leader].freeze(to_server=False)

    def let_go(self, server: int) -> None:
        """Let a follower that was held back hear everything, in order."""
        for (traveller, _), road in self._roads.items():
            if traveller == server:
                road.thaw()

    def alive(self, server: int) -> bool:
        """Whether the server's process runs (or is paused)."""
        return self._running().ended(_name(server)) is None

    def mode(self, server: int) -> str | None:
        """`standalone`, `leader` or `follower`; `None` while it serves nobody."""
        for line in self.ask(server, "srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return None

    def leader(self) -> int:
        """The number of the server that leads; waits for an election to end."""
        leaders: list[int] = []

        def found() -> bool:
            serving = (s for s in range(self._count) if s not in self._paused)
            leaders[:] = [s for s in serving if self.mode(s) in {"leader", "standalone"}]
            return bool(leaders)

        if not _eventually(found, self._timeout_s):
            raise ServerFailed(
                f"No server of {self.hosts} led within {self._timeout_s:g} s: "
                f"a majority must run; see the logs in {self._directory}."
            )
        return leaders[0]

    def ask(self, server: int, word: str) -> str:
        """A server's answer to a four-letter word (`srvr`, `mntr`, `dump`, …), or "" if none."""
        with contextlib.suppress(OSError):
            address = (LOOPBACK, self._ports[server])
            with socket.create_connection(address, timeout=1.0) as line:
                line.sendall(word.encode())
                return b"".join(iter(lambda: line.recv(65536), b"")).decode()
        return ""

    def _running(self) -> Minder:
        """The minder of the servers; misuse if there is none."""
        if self._minder is None:
            raise HerdError("This ZooKeeper is not running: call start(), or use it in a `with`.")
        return self._minder

    def _make_directory(self) -> Path:
        """The directory of this run."""
        if self._kept is None:
            return Path(tempfile.mkdtemp(prefix="herdproof-zookeeper-"))
        self._kept.mkdir(parents=True, exist_ok=True)
        return self._kept.resolve()

    def _configure(self) -> None:
        """Write each server's files."""
        free = _free_ports(2 * self._count, taken=self._ports)
        quorum, election = free[: self._count], free[self._count :]
        (self._directory / "log4j2.properties").write_text(_LOGGING)
        for server, port in enumerate(self._ports):
            home = self._directory / _name(server)
            (home / "data").mkdir(parents=True, exist_ok=True)
            (home / "data" / "myid").write_text(str(server + 1))
            lines = [*_settings(self._tick_time_ms, port, home / "data")]
            if self._count > 1:
                lines += [
                    f"server.{peer + 1}={LOOPBACK}:{self._road(server, peer, quorum[peer])}:{vote}"
                    for peer, vote in enumerate(election)
                ]
            (home / "zoo.cfg").write_text("\n".join(lines) + "\n")

    def _road(self, server: int, peer: int, port: int) -> int:
        """The port at which a server finds its peer's quorum port: that itself, or a proxy's."""
        if not self._isolatable or server == peer:
            return port
        # A follower that is let in before its leader listens, and then thrown out, starts another
        # election, which the leader sits out for the whole of initLimit.
        self._roads[server, peer] = FaultProxy(LOOPBACK, port, patience_s=2.0).start()
        return self._roads[server, peer].port

    def _command_of(self, java: str, jars: Sequence[Path]) -> list[str]:
        """The command of a server, but for its configuration file."""
        return [
            java,
            *_JVM_FLAGS,
            f"-Xmx{self._heap_mb}m",
            f"-Dlog4j2.configurationFile={self._directory / 'log4j2.properties'}",
            "-cp",
            os.pathsep.join(map(str, jars)),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        ]

    def _launch(self, server: int) -> None:
        """Start a server's process."""
        home = self._directory / _name(server)
        self._running().start(
            _name(server), [*self._command, str(home / "zoo.cfg")], home / "server.log"
        )

    def _await_ready(self, servers: Sequence[int]) -> None:
        """Wait until each of these serves; raises `ServerFailed`."""

        def ready() -> bool:
            dead = next((s for s in servers if not self.alive(s)), None)
            if dead is not None:
                raise ServerFailed(
                    f"ZooKeeper server {dead} ended at once:{self._last_lines(dead)}"
                )
            return all(self.mode(s) is not None for s in servers)

        if not _eventually(ready, self._timeout_s):
            silent = next((s for s in servers if self.mode(s) is None), servers[0])
            raise ServerFailed(
                f"ZooKeeper server {silent} did not serve within {self._timeout_s:g} s "
                f"(a loaded machine may need a larger timeout_s):{self._last_lines(silent)}"
            )

    def _last_lines(self, server: int) -> str:
        """The end of a server's log, on lines of its own."""
        log = self._directory / _name(server) / "server.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "".join(f"\n  {line}" for line in lines[-8:] or ["(its log is empty)"])


def _name(server: int) -> str:
    """A server's name to the minder and in the directory."""
    return str(server)


def _settings(tick_time_ms: int, port: int, data: Path) -> tuple[str, ...]:
    """The lines of a server's configuration that do not depend on its peers."""
    return (
        f"tickTime={tick_time_ms}",
        "initLimit=50",
        "syncLimit=15",
        f"minSessionTimeout={2 * tick_time_ms}",
        "maxSessionTimeout=600000",
        f"dataDir={data}",
        f"clientPort={port}",
        f"clientPortAddress={LOOPBACK}",
        "maxClientCnxns=0",
        "admin.enableServer=false",
        "4lw.commands.whitelist=*",
    )


def _free_ports(count: int, taken: Sequence[int] = ()) -> list[int]:
    """Ports that nobody listens on, and that are not `taken`."""
    chosen = random.sample(_PORTS, len(_PORTS))
    free = (port for port in chosen if port not in taken and _bind(port) is None)
    return list(itertools.islice(free, count))


def _refuse_a_port_in_use(port: int) -> None:
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


def _eventually(holds: Callable[[], bool], timeout_s: float) -> bool:
    """Ask every 20 ms until it holds; `False` if it did not in time."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
