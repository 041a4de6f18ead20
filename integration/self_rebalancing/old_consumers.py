"""Real consumers of Kafka 0.8.2.2, and its own plans: processes of its jars."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from herdproof.java import find_java
from herdproof.kafka.jars import CONSUMERS_VERSION, kafka_jars
from herdproof.servers import Servers

SETTINGS = {
    "auto.offset.reset": "smallest",
    "auto.commit.interval.ms": "500",
    "rebalance.backoff.ms": "300",
    "rebalance.max.retries": "20",
    "zookeeper.session.timeout.ms": "4000",
    "zookeeper.connection.timeout.ms": "10000",
    "fetch.wait.max.ms": "50",
}


def classpath() -> str:
    """The jars of 0.8.2.2, each byte for byte as it is pinned."""
    return os.pathsep.join(map(str, kafka_jars(version=CONSUMERS_VERSION)))


def plans(hosts: str, members: Iterable[tuple[str, str]]) -> list[str]:
    """What 0.8.2.2's RangeAssignor plans for these members, "group" and "consumer": a line each."""
    command = [find_java().path, "-cp", classpath(), str(Path(__file__).with_name("Plans.java"))]
    asked = "".join(f"{group} {consumer}\n" for group, consumer in members)
    done = subprocess.run(
        [*command, hosts], input=asked, capture_output=True, text=True, timeout=100, check=True
    )
    return done.stdout.splitlines()


class OldConsumers:
    """Console consumers of one group, each by a name; they are killed at the latest at the end."""

    def __init__(
        self, hosts: str, group: str, topic: str, *, is_pattern: bool = False,
        settings: Mapping[str, str] = SETTINGS,
    ) -> None:  # fmt: skip
        self._servers = Servers("Consumer of Kafka 0.8")
        self._settings = {"zookeeper.connect": hosts, "group.id": group, **settings}
        self._arguments = ["--zookeeper", hosts, "--whitelist" if is_pattern else "--topic", topic]

    def start(self, name: str) -> None:
        """One more consumer; `consumer.id` is its name."""
        home = self._servers.home(name)
        config = self.settings(name)
        settings = {**self._settings, "consumer.id": name}
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        logging = home / "log4j.properties"
        logging.write_text(
            "log4j.rootLogger=INFO, e\nlog4j.appender.e=org.apache.log4j.FileAppender\n"
            f"log4j.appender.e.File={home / 'consumer.log'}\n"
            "log4j.appender.e.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.e.layout.ConversionPattern=%d %p %m%n\n"
        )
        self._servers.launch(
            name,
            [
                find_java().path, "-XX:TieredStopAtLevel=1", "-Xmx128m",
                f"-Dlog4j.configuration=file:{logging}", "-cp", classpath(),
                "kafka.tools.ConsoleConsumer", *self._arguments, "--consumer.config", str(config),
            ],
        )  # fmt: skip

    def settings(self, name: str) -> Path:
        """The file of its settings, with which its command ends."""
        return self._servers.home(name) / "consumer.properties"

    def values(self, name: str) -> list[str]:
        """What it has printed so far: the values of the records that it got."""
        log = self._servers.home(name) / "server.log"
        return log.read_text().splitlines() if log.exists() else []

    def kill(self, name: str) -> None:
        """It is no more (SIGKILL)."""
        self._servers.kill(name)

    def ask_to_end(self, name: str) -> None:
        """It closes (SIGTERM)."""
        self._servers.ask_to_end(name)

    def pause(self, name: str) -> None:
        """It stands still (SIGSTOP)."""
        self._servers.pause(name)

    def resume(self, name: str) -> None:
        """It goes on (SIGCONT)."""
        self._servers.resume(name)

    def send(self, name: str, number: signal.Signals) -> None:
        """It gets one of these four signals."""
        {
            signal.SIGKILL: self.kill, signal.SIGTERM: self.ask_to_end,
            signal.SIGSTOP: self.pause, signal.SIGCONT: self.resume,
        }[number](name)  # fmt: skip

    def close(self) -> None:
        """All are killed."""
        self._servers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._servers.close()
