"""Three ZooKeeper servers, each in a container, of which any can be killed or paused."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from herdproof.ports import free_ports
from herdproof.servers import eventually
from integration.docker import containers
from integration.docker.images import zookeeper_image
from integration.docker.ports import LOOPBACK, publish_on

SERVERS = (1, 2, 3)
PORT = 2181
PATIENCE_S = 60.0
"""How long servers may take to serve; only a failing test waits that long."""


class Ensemble:
    """
    The servers, in one network, as `zk1`, `zk2` and `zk3`; `stack` removes them.

    A server that was killed comes back at its old port.
    """

    def __init__(self, network: Network, stack: ExitStack) -> None:
        self._ports = dict(zip(SERVERS, free_ports(len(SERVERS)), strict=True))
        self._servers = {server: self._start(server, network, stack) for server in SERVERS}

    def _start(self, server: int, network: Network, stack: ExitStack) -> DockerContainer:
        container = DockerContainer(zookeeper_image(), network=network)
        container.with_network_aliases(f"zk{server}")
        ensemble = " ".join(f"server.{n}=zk{n}:2888:3888;{PORT}" for n in SERVERS)
        container.with_env("ZOO_ID", str(server)).with_env("ZOO_SERVERS", ensemble)
        stack.callback(container.stop)
        return publish_on(container, PORT, self._ports[server]).start()

    @property
    def hosts(self) -> str:
        """The servers, for clients here."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self._ports.values())

    @property
    def hosts_inside(self) -> str:
        """The servers, for clients in the network."""
        return ",".join(f"zk{server}:{PORT}" for server in SERVERS)

    def leader(self, other_than: int = 0) -> int:
        """The server that leads; 0 if none does, or only the one that is not to be asked."""
        servers = [server for server in SERVERS if server != other_than]
        return next((s for s in servers if "Mode: leader" in self.ask(s, "srvr")), 0)

    def serves(self) -> bool:
        """Whether all servers do."""
        return all("Mode: " in self.ask(server, "srvr") for server in SERVERS)

    def await_serving(self) -> None:
        """Wait until all servers do."""
        self._await(self.serves)

    def await_leader(self, other_than: int) -> None:
        """Wait until another one leads than this, which is dead or paused."""
        self._await(lambda: self.leader(other_than) != 0)

    def _await(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds; a failure shows what the servers said last."""
        if not eventually(holds, PATIENCE_S):
            logs = [s.get_wrapped_container().logs(tail=15) for s in self._servers.values()]
            raise AssertionError("\n---\n".join(log.decode() for log in logs))

    def kill(self, server: int) -> None:
        """By SIGKILL."""
        containers.kill(self._servers[server])

    def copy_logs(self, to: Path) -> None:
        """Copy what each has logged of transactions, as `zookeeper_log.transactions` wants it."""
        for number, server in enumerate(self._servers.values()):
            folder = to / str(number) / "data"
            folder.mkdir(parents=True)
            containers.copy_out(server, "/data", folder)

    def pause(self, server: int) -> None:
        """Stop it in its tracks; do not `ask` it then."""
        containers.pause(self._servers[server])

    def resume(self, server: int) -> None:
        """Let it go on."""
        containers.resume(self._servers[server])

    def start_again(self, server: int) -> None:
        """Start one that was killed, on its data."""
        containers.start_again(self._servers[server])

    def ask(self, server: int, word: str) -> str:
        """A server's answer to a four-letter word, asked from inside; "" if it does not serve."""
        question = f"exec 3<>/dev/tcp/127.0.0.1/{PORT}; printf {word} >&3; cat <&3"
        container = self._servers[server].get_wrapped_container()
        answer = container.exec_run(["bash", "-c", question])
        return answer.output.decode() if answer.exit_code == 0 else ""
