"""A group that rebalances by itself in containers, beside three ZooKeeper servers and brokers."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from testcontainers.core.container import DockerContainer

from integration.central_coordinator.central_docker import KAFKA, Services
from integration.docker import containers
from integration.self_rebalancing.rebalancing_herd import PROGRAM, RebalancingHerd

SENDS = {
    signal.SIGKILL: containers.kill,
    signal.SIGTERM: containers.ask_to_end,
    signal.SIGSTOP: containers.pause,
    signal.SIGCONT: containers.resume,
}


class RebalancingContainers(RebalancingHerd):
    """Members in containers of one image; containers share the machine's clock."""

    def __init__(self, folder: Path, services: Services, group: str) -> None:
        super().__init__(
            folder, group, f"{group}-topic",
            bootstrap=services.kafka.bootstrap, zookeeper=services.zookeeper.hosts,
        )  # fmt: skip
        self._services = services
        self._stack = ExitStack()
        self._containers: dict[str, DockerContainer] = {}

    def launch(self, name: str, told: Mapping[str, object], log: Path) -> None:
        """This suite's program, as the entry point of a container."""
        inside = {
            "bootstrap_servers": self._services.kafka.bootstrap_inside,
            "zookeeper": self._services.zookeeper.hosts_inside, "kafka": KAFKA,
            "trace": None,
        }  # fmt: skip
        program = PROGRAM.read_text(encoding="utf-8")
        container = DockerContainer(
            self._services.image, network=self._services.network,
            entrypoint=["python3", "-c", program, json.dumps({**told, **inside})],
        )  # fmt: skip
        self._stack.callback(container.stop)
        self._containers[name] = container.start()
        containers.follow(container, self.minder, name, log)

    def send(self, name: str, number: signal.Signals) -> None:
        """By the engine."""
        SENDS[number](self._containers[name])

    def end(self) -> None:
        """Kill them, wait until `docker logs` has told everything, and remove them."""
        for container in self._containers.values():
            containers.kill_if_it_runs(container)
        self.eventually(
            lambda: all(self.minder.ended(name) is not None for name in self._containers)
        )
        self._containers.clear()
        self._stack.close()
        super().end()
