"""
Three ZooKeeper servers and three brokers that can be killed, paused and cut off.

A `Cluster` is made of Docker containers or of child processes; scenarios do not know which. What
the brokers report (`election_broker.py`) lies in one file for each run of a broker, in Docker too,
where `docker logs` writes it.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path

from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from herdproof.protocols.election.elector import ElectionPaths, read_leader
from herdproof.supervisor import Supervisor
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Create, Data, Get
from herdproof.zookeeper.proxy import FaultProxy
from integration.clients import TestClient
from integration.docker import containers
from integration.docker.engine import docker
from integration.docker.ensemble import SERVERS, Ensemble
from integration.docker.images import broker_image

BROKERS = ("broker-1", "broker-2", "broker-3")
SESSION_TIMEOUT_S = 4.0
PATIENCE_S = 45.0
"""How long a scenario waits for what must come; only a failing one waits that long."""
WRITES = "/writes"
PROGRAM = Path(__file__).with_name("election_broker.py")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a broker said; see `election_broker.py`."""

    event: str
    epoch: int
    broker: str
    at: float
    zxid: int = 0
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Coordinator:
    """Who leads, in which epoch, and when (Unix time in seconds) it was told so."""

    broker: str
    epoch: int
    at: float


class Cluster(ABC):
    """Where the brokers run; faults are for subclasses, what is seen of them is here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.minder = Supervisor()
        self._runs = count(1)
        self._logs: dict[str, list[Path]] = {broker: [] for broker in BROKERS}
        self._mute: set[str] = set()

    @property
    @abstractmethod
    def hosts(self) -> str:
        """The servers, for a client of the test's own."""

    @abstractmethod
    def launch(self, broker: str, log: Path) -> None:
        """Start a broker whose output goes to `log`, a file of its own for each run."""

    @abstractmethod
    def kill(self, broker: str) -> None:
        """End a broker by SIGKILL."""

    @abstractmethod
    def pause(self, broker: str) -> None:
        """Stop a broker in its tracks."""

    @abstractmethod
    def resume(self, broker: str) -> None:
        """Let a paused broker go on."""

    @abstractmethod
    def cut_off(self, broker: str) -> None:
        """Let nothing pass between a broker and ZooKeeper, and tell neither."""

    @abstractmethod
    def join_up(self, broker: str) -> None:
        """Give a broker that was cut off its network again."""

    @abstractmethod
    def kill_zookeeper_leader(self) -> int:
        """End the ZooKeeper server that leads by SIGKILL; its number."""

    @abstractmethod
    def restart_zookeeper(self, server: int) -> None:
        """Start a server that was killed again, on its data."""

    @abstractmethod
    def ask(self, server: int, word: str) -> str:
        """A server's answer to a four-letter word, "" if it does not serve."""

    def start(self, broker: str) -> None:
        """Start a broker."""
        log = self.folder / f"{broker}-{next(self._runs)}.jsonl"
        log.touch()
        self._logs[broker].append(log)
        self.launch(broker, log)

    @contextmanager
    def without(self, broker: str) -> Iterator[None]:
        """Meanwhile, do not expect this broker to know what goes on: it is dead or out of reach."""
        self._mute.add(broker)
        try:
            yield
        finally:
            self._mute.discard(broker)

    def reports(self, *brokers: str) -> list[Report]:
        """What these brokers (or all) reported, each one's in its order, over all its runs."""
        logs = [log for broker in brokers or BROKERS for log in self._logs[broker]]
        return [report for log in logs for report in read_reports(log)]

    def traces(self) -> list[Path]:
        """The trace of each run so far, a file for each."""
        logs = [log for broker in BROKERS for log in self._logs[broker]]
        return [copy_trace(log, log.with_suffix(".trace")) for log in logs]

    def believes(self, broker: str) -> int:
        """The epoch that a broker believes it leads in; 0 if in none."""
        last_run = read_reports(self._logs[broker][-1])
        told = [report for report in last_run if report.event in {"elected", "deposed"}]
        return told[-1].epoch if told and told[-1].event == "elected" else 0

    def coordinator(self, client: TestClient) -> Coordinator | None:
        """The one coordinator, if there is one, and all who can know that agree."""
        node = client.perform(Get(ElectionPaths().leader))
        broker, epoch = read_leader(node.data) if isinstance(node, Data) else ("", 0)
        expected = {name: epoch if name == broker else 0 for name in BROKERS}
        beliefs = {name: self.believes(name) for name in BROKERS if name not in self._mute}
        if not epoch or beliefs != {name: expected[name] for name in beliefs}:
            return None
        told = [r for r in self.reports(broker) if r.event == "elected" and r.epoch == epoch]
        return Coordinator(broker=broker, epoch=epoch, at=told[-1].at) if told else None

    def servers_serve(self) -> bool:
        """Whether all three servers do."""
        return all("Mode: " in self.ask(server, "srvr") for server in SERVERS)

    def said(self) -> str:
        """The end of what each broker said, for a failure's message."""
        ends = [
            f"--- {log.name}\n{log.read_text()[-1500:]}"
            for broker in BROKERS
            for log in self._logs[broker]
        ]
        return "\n".join(ends)


class Processes(Cluster):
    """Child processes on the embedded ensemble; each broker reaches it through its own proxies."""

    def __init__(self, folder: Path, zookeeper: EmbeddedZooKeeper, stack: ExitStack) -> None:
        super().__init__(folder)
        self.zookeeper = zookeeper
        self.networks = {
            broker: [stack.enter_context(network) for network in networks_to(zookeeper)]
            for broker in BROKERS
        }
        stack.callback(self.minder.close)  # which comes first: then nobody uses the proxies

    @property
    def hosts(self) -> str:
        """Not through the brokers' proxies."""
        return self.zookeeper.hosts

    def launch(self, broker: str, log: Path) -> None:
        """As a child of the minder's, which ends it should the tests die."""
        hosts = ",".join(network.hosts for network in self.networks[broker])
        self.minder.start(broker, [sys.executable, str(PROGRAM), hosts, *arguments(broker)], log)

    def kill(self, broker: str) -> None:
        """SIGKILL."""
        self.minder.signal(broker, signal.SIGKILL)

    def pause(self, broker: str) -> None:
        """SIGSTOP."""
        self.minder.signal(broker, signal.SIGSTOP)

    def resume(self, broker: str) -> None:
        """SIGCONT."""
        self.minder.signal(broker, signal.SIGCONT)

    def cut_off(self, broker: str) -> None:
        """Its proxies hold what arrives."""
        for network in self.networks[broker]:
            network.freeze()

    def join_up(self, broker: str) -> None:
        """Its proxies pass on what they held."""
        for network in self.networks[broker]:
            network.thaw()

    def kill_zookeeper_leader(self) -> int:
        """SIGKILL."""
        leader = self.zookeeper.leader()
        self.zookeeper.kill(leader)
        return leader + 1

    def restart_zookeeper(self, server: int) -> None:
        """On the same port."""
        self.zookeeper.restart(server - 1)

    def ask(self, server: int, word: str) -> str:
        """Ask it directly."""
        return self.zookeeper.ask(server - 1, word)


def arguments(broker: str) -> list[str]:
    """What a broker's program is told after its hosts."""
    return [broker, str(SESSION_TIMEOUT_S), WRITES, "failover"]


def networks_to(zookeeper: EmbeddedZooKeeper) -> list[FaultProxy]:
    """A proxy before each server."""
    addresses = [server.split(":") for server in zookeeper.server_hosts]
    return [FaultProxy(host, int(port)) for host, port in addresses]


class Containers(Cluster):
    """Docker containers: the servers in one network, the brokers each in a container of its own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        super().__init__(folder)
        self.network = stack.enter_context(Network())
        self._stack = stack
        self._brokers: dict[str, DockerContainer] = {}
        self._ensemble = Ensemble(self.network, stack)
        stack.callback(self.minder.close)

    @property
    def hosts(self) -> str:
        """The ports at which they are published."""
        return self._ensemble.hosts

    def launch(self, broker: str, log: Path) -> None:
        """From the broker's image, with this suite's program as its command."""
        program = ["python3", "-c", PROGRAM.read_text(encoding="utf-8")]
        container = DockerContainer(broker_image(), network=self.network, entrypoint=program)
        container.with_command([self._ensemble.hosts_inside, *arguments(broker)])
        self._stack.callback(container.stop)
        container.start()
        self._brokers[broker] = container
        containers.follow(container, self.minder, log.stem, log)

    def kill(self, broker: str) -> None:
        """`docker kill`."""
        containers.kill(self._brokers[broker])

    def pause(self, broker: str) -> None:
        """`docker pause`."""
        containers.pause(self._brokers[broker])

    def resume(self, broker: str) -> None:
        """`docker unpause`."""
        containers.resume(self._brokers[broker])

    def cut_off(self, broker: str) -> None:
        """`docker network disconnect`."""
        self._network("disconnect", broker)

    def join_up(self, broker: str) -> None:
        """`docker network connect`."""
        self._network("connect", broker)

    def _network(self, deed: str, broker: str) -> None:
        broker_id = containers.container_id(self._brokers[broker])
        docker("network", deed, self.network.name, broker_id)

    def kill_zookeeper_leader(self) -> int:
        """`docker kill`."""
        leader = self._ensemble.leader()
        self._ensemble.kill(leader)
        return leader

    def restart_zookeeper(self, server: int) -> None:
        """`docker start`, which keeps the container's data."""
        self._ensemble.start_again(server)

    def ask(self, server: int, word: str) -> str:
        """Ask it from inside."""
        return self._ensemble.ask(server, word)


@contextmanager
def running(make: Callable[[Path, ExitStack], Cluster]) -> Iterator[Cluster]:
    """A cluster whose servers serve and whose brokers stand; all of it is gone afterwards."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="herdproof-brokers-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        cluster = make(folder, stack)
        eventually(cluster, cluster.servers_serve)
        with TestClient(cluster.hosts) as client:
            client.perform(Create(WRITES))
        for broker in BROKERS:
            cluster.start(broker)
        yield cluster


def processes(folder: Path, stack: ExitStack) -> Cluster:
    """A cluster of child processes."""
    return Processes(folder, stack.enter_context(EmbeddedZooKeeper(servers=3)), stack)


def lines_of(log: Path) -> list[str]:
    """The lines in a broker's log: reports, its trace and others; an unfinished last one is not."""
    return log.read_text(encoding="utf-8").split("\n")[:-1]


def read_reports(log: Path) -> list[Report]:
    """The reports in a broker's log."""
    return [Report(**json.loads(line)) for line in lines_of(log) if line.startswith('{"event"')]


def copy_trace(log: Path, trace: Path) -> Path:
    """Copy the trace in a broker's log into a file of its own."""
    lines = [line + "\n" for line in lines_of(log) if line.startswith('{"schema"')]
    trace.write_text("".join(lines), encoding="utf-8")
    return trace


def eventually(cluster: Cluster, holds: Callable[[], bool]) -> None:
    """Wait until it holds; a failure shows what the brokers said last."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it did not come about\n{cluster.said()}"
        time.sleep(0.02)


def assert_fenced(reports: Sequence[Report]) -> None:
    """Each epoch is one broker's, and the accepted writes, in ZooKeeper's order, never go back."""
    of_epoch: dict[int, str] = {}
    for report in reports:
        assert of_epoch.setdefault(report.epoch, report.broker) == report.broker, report
    writes = sorted((r for r in reports if r.event == "wrote"), key=lambda report: report.zxid)
    for earlier, later in pairwise(writes):
        assert earlier.epoch <= later.epoch, f"{later} was accepted after {earlier}"
