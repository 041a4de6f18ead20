"""
A simulated Kafka: topics whose partitions are append-only logs, and what it says of them in
ZooKeeper.

A record is its topic, partition and offset; nothing else of it matters here. Topics and partitions
only appear, as in Kafka 3.9 with ZooKeeper, where a deleted topic is another matter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from herdproof.consuming.offsets import NamedPartition, OffsetReset
from herdproof.simulator.session import SimulatedService
from herdproof.zookeeper.operations import Create, Operation, Refusal, Set, Why

TOPICS = "/brokers/topics"
IDS = "/brokers/ids"


@dataclass(slots=True)
class Log:
    """One partition: its records have the offsets from `start` up to before `end`."""

    start: int
    end: int


class Kafka:
    """The cluster: its topics, and an operator's session by which it writes to ZooKeeper."""

    def __init__(self, service: SimulatedService) -> None:
        self._service = service
        self._operator = service.zookeeper.open()
        self.logs: dict[NamedPartition, Log] = {}
        self.topics: dict[str, int] = {}
        """The number of partitions of each topic."""

    def prepare(self, paths: tuple[str, ...]) -> None:
        """Make persistent nodes where they are missing, parents first."""
        for path in paths:
            names = path.split("/")[1:]
            for depth in range(len(names)):
                self._write(Create("/" + "/".join(names[: depth + 1])))

    def create_topic(self, topic: str, partitions: int, start: int = 0) -> None:
        """A topic appears, whose logs begin at offset `start`; one that exists stays as it is."""
        if topic in self.topics:
            return
        self.topics[topic] = partitions
        self._add_logs(topic, range(partitions), start)
        self._write(Create(f"{TOPICS}/{topic}", self._described(topic)))

    def add_partitions(self, topic: str, more: int) -> None:
        """A topic gets so many partitions more."""
        before = self.topics[topic]
        self.topics[topic] = before + more
        self._add_logs(topic, range(before, before + more), 0)
        self._write(Set(f"{TOPICS}/{topic}", self._described(topic)))

    def append(self, partition: NamedPartition, records: int) -> None:
        """Records are produced."""
        self.logs[partition].end += records

    def reset(self, partition: NamedPartition, rule: OffsetReset) -> int:
        """Where a consumer begins that has no stored offset."""
        log = self.logs[partition]
        return log.start if rule is OffsetReset.SMALLEST else log.end

    def _add_logs(self, topic: str, numbers: range, start: int) -> None:
        for number in numbers:
            self.logs[NamedPartition(topic, str(number))] = Log(start, start)

    def _described(self, topic: str) -> bytes:
        partitions = {str(number): [1] for number in range(self.topics[topic])}
        return json.dumps({"version": 3, "partitions": partitions}).encode()

    def _write(self, operation: Operation) -> None:
        answer = self._service.zookeeper.perform(self._operator, operation)
        if isinstance(answer, Refusal) and answer.why is not Why.NODE_EXISTS:
            raise AssertionError(f"the operator cannot {operation}: {answer}")
        self._service.send_events()
