"""
A real ZooKeeper as child processes: one server, or an ensemble, on this machine's loopback.

Made for tests and for trying things out: its data lies in a temporary directory that goes with it
(unless a directory is named), it does not wait for the disk, and it accepts sessions as short as
two ticks. It never outlives its owner, not even one that dies by `kill -9` (see
`herdproof.supervisor`).

    with EmbeddedZooKeeper() as zookeeper:
        print(zookeeper.hosts)

Source: the ZooKeeper 3.9 administrator's guide (configuration, four-letter words).
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from herdproof.errors import CallerError
from herdproof.java import QUICK_START, find_java
from herdproof.ports import LOOPBACK, free_ports, refuse_a_port_in_use
from herdproof.servers import Embedded, ServerFailed, Servers, eventually
from herdproof.zookeeper.jars import zookeeper_jars
from herdproof.zookeeper.proxy import FaultProxy

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
    *QUICK_START,
    "-Dlog4j2.disableJmx=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.preAllocSize=64",
)
"""Little use of the disk; `preAllocSize` is in KiB (64 MiB by default)."""


class EmbeddedZooKeeper(Embedded):
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
        self._servers: Servers | None = None
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
                refuse_a_port_in_use(port)
        else:
            self._ports = free_ports(self._count)
        self._servers = Servers("ZooKeeper server", self._kept)
        self._directory = self._servers.directory
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
        if self._servers is not None:
            self._servers.close()
            self._servers = None

    def kill(self, server: int) -> None:
        """End a server at once (SIGKILL), as a crash would; its data stay for `restart`."""
        self._running().kill(_name(server))

    def restart(self, server: int) -> None:
        """Kill a server if it runs, start it again on its data, and wait until it serves."""
        if self.alive(server):
            self.kill(server)
        self._launch(server)
        self._await_ready([server])

    def pause(self, server: int) -> None:
        """Stop a server in its tracks (SIGSTOP): its connections stay, nothing answers."""
        self._running().pause(_name(server))

    def resume(self, server: int) -> None:
        """Let a paused server go on (SIGCONT)."""
        self._running().resume(_name(server))

    def hold_back(self, server: int) -> None:
        """
        Let nothing more from the leader reach a follower, which then serves stale reads.

        What the follower sends still reaches the leader; its writes and syncs wait for `let_go`.
        After 15 ticks both sides notice, and it serves nobody until then.
        """
        if not self._isolatable:
            raise CallerError("hold_back() needs EmbeddedZooKeeper(3, isolatable=True).")
        leader = self.leader()
        if server == leader:
            raise CallerError(f"Server {server} leads: only a follower can be held back.")
        self._roads[server, leader].freeze(to_server=False)

    def let_go(self, server: int) -> None:
        """Let a follower that was held back hear everything, in order."""
        for (traveller, _), road in self._roads.items():
            if traveller == server:
                road.thaw()

    def alive(self, server: int) -> bool:
        """Tells whether the server's process runs (or is paused)."""
        return self._running().alive(_name(server))

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
            paused = self._running().paused
            serving = (s for s in range(self._count) if not paused(_name(s)))
            leaders[:] = [s for s in serving if self.mode(s) in {"leader", "standalone"}]
            return bool(leaders)

        if not eventually(found, self._timeout_s):
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

    def _running(self) -> Servers:
        """The servers; misuse if there are none."""
        if self._servers is None:
            raise CallerError("This ZooKeeper is not running: call start(), or use it in a `with`.")
        return self._servers

    def _configure(self) -> None:
        """Write each server's files."""
        free = free_ports(2 * self._count, taken=self._ports)
        quorum, election = free[: self._count], free[self._count :]
        (self._directory / "log4j2.properties").write_text(_LOGGING)
        for server, port in enumerate(self._ports):
            home = self._running().home(_name(server))
            (home / "data").mkdir(exist_ok=True)
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
        home = self._running().home(_name(server))
        self._running().launch(_name(server), [*self._command, str(home / "zoo.cfg")])

    def _await_ready(self, servers: Sequence[int]) -> None:
        """Wait until each of these serves; raises `ServerFailed`."""
        self._running().await_ready(
            [_name(server) for server in servers],
            lambda name: self.mode(int(name)) is not None,
            self._timeout_s,
        )


def _name(server: int) -> str:
    """A server's name among the processes and in the directory."""
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
