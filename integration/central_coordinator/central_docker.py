"""
System B in containers: three ZooKeeper servers, three Kafka brokers with a coordinator each, and
consumers, several to a process; any of them can be killed or paused.

ZooKeeper and Kafka are reached here on ports of loopback; coordinators and consumers only by each
other, in the containers' network. Containers share the machine's monotonic clock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from integration.central_coordinator.central_cluster import PROGRAM, SESSION_S, SETTINGS, Herd
from integration.docker import containers
from integration.docker.brokers import Brokers
from integration.docker.ensemble import Ensemble
from integration.docker.images import broker_image

WIRE = 9192
TRACES = "/var/traces"
"""Where they trace in their containers."""
KAFKA = {"topic.metadata.refresh.interval.ms": 1_000, "socket.timeout.ms": 10_000}
"""What consumers tell Kafka's client: to notice soon that another broker leads a partition."""


class Services:
    """ZooKeeper and Kafka in a network; `stack` removes all of it."""

    def __init__(self, stack: ExitStack) -> None:
        self.image = broker_image()
        self.network = stack.enter_context(Network())
        self.zookeeper = Ensemble(self.network, stack)
        self.zookeeper.await_serving()
        self.kafka = Brokers(self.network, self.zookeeper, SESSION_S, stack)


class Containers(Herd):
    """Coordinators and consumers in containers of one image, each life in a new one."""

    def __init__(self, folder: Path, services: Services, group: str, topics: str) -> None:
        super().__init__(
            folder, group, topics,
            bootstrap=services.kafka.bootstrap, zookeeper=services.zookeeper.hosts,
        )  # fmt: skip
        self._services = services
        self._stack = ExitStack()
        self._now: dict[str, DockerContainer] = {}
        self._lives: dict[str, DockerContainer] = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._stack.close()
        super().__exit__(kind, error, trace)

    def wire(self, broker: str) -> str:
        """By its name in the network."""
        return f"coordinator-{broker}:{WIRE}"

    def launch_coordinator(self, broker: str, flaw: str, log: Path) -> None:
        """The command; with a flaw, this suite's program."""
        host, _, port = self.wire(broker).partition(":")
        settings = f'{SETTINGS}[listener]\nadvertised_host = "{host}"\n'
        container = DockerContainer(self._services.image, network=self._services.network)
        if flaw:
            container.with_kwargs(entrypoint=[*_program(), "coordinator", flaw])
        container.with_network_aliases(host)
        container.with_copy_into_container(settings.encode(), "/etc/herdproof.toml")
        hosts = self._services.zookeeper.hosts_inside
        where = ["--host", "0.0.0.0", "--port", port, "--zookeeper", hosts]
        traced = ["--trace", f"{TRACES}/coordinator.trace"]
        arguments = ["--config", "/etc/herdproof.toml", "--broker-id", broker, *where, *traced]
        container.with_command(arguments if flaw else ["coordinator", *arguments])
        self._run(broker, container, log)

    def launch_consumers(self, process: str, told: Mapping[str, Any], log: Path) -> None:
        """This suite's program."""
        bootstrap = self._services.kafka.bootstrap_inside
        told = {**told, "bootstrap_servers": bootstrap, "kafka": KAFKA, "traces": TRACES}
        program = [*_program(), "consumers", json.dumps(told)]
        network = self._services.network
        container = DockerContainer(self._services.image, network=network, entrypoint=program)
        self._run(process, container, log)

    def kill(self, process: str) -> None:
        """`docker kill`."""
        containers.kill(self._now[process])

    def pause(self, process: str) -> None:
        """`docker pause`."""
        containers.pause(self._now[process])

    def resume(self, process: str) -> None:
        """`docker unpause`."""
        containers.resume(self._now[process])

    def end(self) -> None:
        """Kill them, wait until `docker logs` has told everything, and fetch their traces."""
        for container in self._now.values():
            containers.kill_if_it_runs(container)
        self.eventually(lambda: all(self.minder.ended(life) is not None for life in self._lives))
        for life, container in self._lives.items():
            folder = self.traces / life
            folder.mkdir(parents=True)
            containers.copy_out(container, TRACES, folder)

    def _run(self, process: str, container: DockerContainer, log: Path) -> None:
        self._stack.callback(container.stop)
        container.with_copy_into_container(b"", f"{TRACES}/.keep")
        container.start()
        self._now[process] = self._lives[log.stem] = container
        containers.follow(container, self.minder, log.stem, log)


def _program() -> list[str]:
    """This suite's program, as an entry point."""
    return ["python3", "-c", PROGRAM.read_text(encoding="utf-8")]
