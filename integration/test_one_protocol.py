"""One group after another protocol's: on real ZooKeeper and Kafka, every record once."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from herdproof import Consumer
from herdproof.cli import app
from herdproof.consuming.offsets import OffsetReset
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.record import Record
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from integration.central_coordinator.coordinators import Coordinator
from integration.clients import eventually

pytestmark = pytest.mark.real

RECORDS, PARTITIONS, A_TURN = 60, 4, 80

_names = count(1)


class Turns:
    """A group whose members are of one protocol, and then of the other."""

    def __init__(self, kafka: EmbeddedKafka, zookeeper: str, coordinator: Coordinator) -> None:
        self.group = f"turns-{next(_names)}"
        self.topic = f"{self.group}-topic"
        self.got: list[Record] = []
        self.zookeeper = zookeeper
        self._bootstrap = kafka.bootstrap
        self._own: dict[str, dict[str, Any]] = {
            "self_rebalancing": {"zookeeper": zookeeper, "rebalance_backoff_s": 0.2},
            "central": {"coordinators": f"127.0.0.1:{coordinator.port}", "ping_interval_s": 0.5},
        }
        kafka.create_topic(self.topic, PARTITIONS)
        for partition in range(PARTITIONS):
            values = [f"{partition}/{number}".encode() for number in range(RECORDS)]
            kafka.produce(self.topic, *values, partition=partition)

    def member(self, protocol: str) -> Consumer:
        """A member of this protocol, which has subscribed."""
        consumer = Consumer(
            self.group, protocol=protocol, bootstrap_servers=self._bootstrap,
            auto_offset_reset=OffsetReset.SMALLEST.name.lower(), session_timeout_s=4,
            **self._own[protocol],
        )  # fmt: skip
        consumer.subscribe(self.topic)
        return consumer

    def said(self, command: str) -> dict[str, Any]:
        """What `herdproof groups` says of the group."""
        own = [self.group] if command == "describe" else []
        done = CliRunner().invoke(
            app, ["groups", command, *own, "--zookeeper", self.zookeeper, "--json", "-"]
        )
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        found = told.get("groups", [told])
        return next(group for group in found if group["group"] == self.group)

    def take(self, consumer: Consumer, number: int = A_TURN) -> None:
        """The next records are finished with, and stored."""
        for _ in range(number):
            record = consumer.poll(20)
            assert record is not None, f"{len(self.got)} records came, and no more"
            self.got.append(record)
        consumer.commit(self.got[-1])


@pytest.fixture
def turns(kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Any:
    """A group with a topic of its own, and a coordinator beside."""
    with Coordinator(tmp_path, zookeeper.hosts) as coordinator:
        yield Turns(kafka, zookeeper.hosts, coordinator)


def test_a_group_changes_its_protocol_when_it_has_ended(turns: Turns) -> None:
    """Members that rebalance by themselves, a coordinator's, the first again: every record once."""
    for protocol in ("self_rebalancing", "central", "self_rebalancing"):
        with turns.member(protocol) as own:
            turns.take(own)
            assert turns.said("list")["protocol"] == protocol
            assert len(turns.said("describe")["partitions"]) == PARTITIONS
        assert turns.said("list")["protocol"] == protocol

    places = [(record.partition, record.offset) for record in turns.got]
    assert sorted(places) == [(p, n) for p in range(PARTITIONS) for n in range(RECORDS)]


@pytest.mark.parametrize("first", ["self_rebalancing", "central"])
def test_whoever_comes_second_is_kept_out_until_the_group_has_ended(
    turns: Turns, first: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It owns nothing and says why; when the others have closed, it goes on from their offsets."""
    other = "central" if first == "self_rebalancing" else "self_rebalancing"
    with turns.member(first) as early:
        turns.take(early)
        with turns.member(other) as late:
            eventually(lambda: "members" in caplog.text and "another group" in caplog.text)
            assert late.assignment == ()
            assert len(early.assignment) == PARTITIONS
            early.close()
            turns.take(late, RECORDS * PARTITIONS - A_TURN)

    assert len({(record.partition, record.offset) for record in turns.got}) == len(turns.got)
