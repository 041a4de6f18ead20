"""
A real Kafka 4 as a child process: a broker that is its own controller, without a ZooKeeper.

    with EmbeddedKRaft() as kafka:
        kafka.create_topic("t", partitions=2)

Source: the Kafka 4.3 documentation (KRaft, broker configs).
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from herdproof.kafka.embedded import FOR_TESTS, EmbeddedKafka
from herdproof.kafka.jars import KRAFT_VERSION
from herdproof.ports import LOOPBACK, free_ports
from herdproof.servers import ServerFailed


class EmbeddedKRaft(EmbeddedKafka):
    """
    One running broker that is its own controller; what can be done with it is as with the other.

    Raises `JavaMissing`, `JavaTooOld`, `JarsMissing`, `KafkaMissing`, `PortInUse` and
    `ServerFailed` when it starts.
    """

    version = KRAFT_VERSION

    def __init__(
        self,
        *,
        broker_id: int = 1,
        port: int | None = None,
        directory: Path | None = None,
        heap_mb: int = 256,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        super().__init__(
            "", broker_id=broker_id, port=port, directory=directory, heap_mb=heap_mb,
            settings=settings, timeout_s=timeout_s,
        )  # fmt: skip
        (self._controller_port,) = free_ports(1)

    def _prepare(self, java: Sequence[str], properties: Path) -> None:
        """Format its directory, unless that is one from before."""
        drawn = uuid.uuid4().bytes
        sound = bytes([drawn[0] & 0x7F, *drawn[1:]])  # a leading "-" would be taken for an option
        cluster = base64.urlsafe_b64encode(sound).decode().rstrip("=")
        command = [*java, "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        done = subprocess.run(
            [*command, "--cluster-id", cluster, "--config", str(properties)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=self._timeout_s,
        )  # fmt: skip
        if done.returncode:
            last = done.stdout.strip().splitlines()[-1:]
            raise ServerFailed(f"Kafka's storage was not formatted: {' '.join(last)}")

    def _launch(self) -> None:
        """Start the process; wait until it serves."""
        self._running().launch(self._name, self._command)
        self._running().await_ready(
            [self._name], lambda _name: self.topics.served_by(self.broker_id, set()),
            self._timeout_s,
        )  # fmt: skip

    def _own_settings(self) -> dict[str, str]:
        """`server.properties`, without the user's settings."""
        controller = f"{LOOPBACK}:{self._controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": self._name,
            "controller.quorum.voters": f"{self._name}@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._running().home(self._name) / "data"),
            **FOR_TESTS,
        }
