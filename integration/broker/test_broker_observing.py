"""`herdproof broker --observe` in front of a real Kafka: its coordinator, seen from outside."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kafka.protocol.metadata import FindCoordinatorRequest
from typer.testing import CliRunner, Result

from herdproof.cli import app
from herdproof.consuming.consumer_protocol import read_assignment
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.jars import KRAFT_VERSION, VERSION
from herdproof.kafka.kraft import EmbeddedKRaft
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from integration.broker.broker_group import PYTHON, BrokerGroup
from integration.broker.test_broker import PARTITIONS, broker
from properties.broker.observed_group import TOPIC, WireMember, two_of_which_one_steals
from properties.broker.served import WireClient


@contextmanager
def kafka_of(
    version: str, zookeeper: EmbeddedZooKeeper, **settings: str
) -> Iterator[EmbeddedKafka]:
    """A Kafka of this version with settings of its own."""
    told = {name.replace("_", "."): value for name, value in settings.items()}
    with (
        EmbeddedKRaft(settings=told)
        if version == KRAFT_VERSION
        else EmbeddedKafka(f"{zookeeper.hosts}/observed", settings=told)
    ) as kafka:
        yield kafka


KAFKAS = (VERSION, KRAFT_VERSION)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", KAFKAS)
def test_a_group_of_kafkas_own_is_seen_as_it_is(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, version: str
) -> None:
    """
    Unmodified clients, one killed, one paused beyond its session: what they are told fits.

    It conforms; to the verified protocol, too, unless a client commits under its next generation
    what it had before (aiokafka does, if that begins at the wrong moment), which Kafka takes.
    """
    topic, file = f"orders-{uuid.uuid4()}", tmp_path / "seen.jsonl"
    with ExitStack() as stack:
        kafka = stack.enter_context(
            kafka_of(version, zookeeper, group_min_session_timeout_ms="500")
        )
        kafka.create_topic(topic, PARTITIONS)
        arguments = ("--in-front-of", kafka.bootstrap, "--observe", str(file))
        address = stack.enter_context(broker(tmp_path, *arguments))
        group = stack.enter_context(BrokerGroup(address, "observed", topic, PARTITIONS))
        killed, paused = PYTHON[:2]
        for kind in PYTHON:
            group.start(kind, kind)
        group.settle(*PYTHON)
        group.kill(killed)
        group.settle(*PYTHON[1:])
        group.pause(paused)
        group.start("another", killed)
        group.settle("another", *PYTHON[2:])
        group.resume(paused)
        group.settle("another", *PYTHON[1:])
        assert group.lost() == []

    seen = [json.loads(line)["arguments"] for line in file.read_text().splitlines()[1:]]
    assert {each["api"] for each in seen} >= {"JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"}
    assert_generations_rise(seen)
    owners = assigned(seen)
    assert len(owners) >= 2
    assert sorted(owners[max(owners)]) == [(topic, number) for number in range(PARTITIONS)]
    replayed = conform(file)
    assert replayed.exit_code == 0, replayed.output
    audited = audit(file, tmp_path)
    if "known to do otherwise" not in replayed.output:
        assert audited.exit_code == 0, audited.output
    else:
        assert "take_commit of kafka was not possible" in replayed.output
        assert violated(tmp_path) <= {"exclusive_fenced", "committed_offsets_never_go_back"}


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", KAFKAS)
def test_kafka_takes_a_commit_of_what_another_member_owns(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, version: str
) -> None:
    """
    Only member and generation are looked at there (PR 9656); the audit tells it from outside.

    Replayed, it is known of Kafka, and no step of the verified protocol.
    """
    file = tmp_path / "seen.ndjson"
    with ExitStack() as stack:
        kafka = stack.enter_context(
            kafka_of(version, zookeeper, group_initial_rebalance_delay_ms="0")
        )
        kafka.create_topic(TOPIC, 4)
        arguments = ("--in-front-of", kafka.bootstrap, "--observe", str(file))
        address = stack.enter_context(broker(tmp_path, *arguments))
        asyncio.run(steal(address))

    audited = audit(file, tmp_path)
    assert audited.exit_code == 1, audited.output
    assert "for p t-" in audited.output
    assert violated(tmp_path) == {"exclusive_fenced"}
    replayed = conform(file)
    assert replayed.exit_code == 0, replayed.output
    assert "commit_by_generation" in replayed.output
    assert "known to do otherwise" in replayed.output


async def steal(address: str) -> None:
    """Two members, of which one commits what is the other's."""
    host, _, port = address.rpartition(":")
    each = [WireClient(*await asyncio.open_connection(host, int(port))) for _ in range(2)]
    wanted = FindCoordinatorRequest(version=1, key="g", key_type=0)
    while (await each[0].ask(wanted, 1)).error_code:  # the first to ask has the log of groups made
        await asyncio.sleep(0.1)
    await two_of_which_one_steals([WireMember(client) for client in each])
    for client in each:
        await client.hang_up()


def audit(file: Path, folder: Path) -> Result:
    """The verdict on what was observed."""
    return CliRunner().invoke(app, ["audit", str(file), "--out", str(folder / "tables")])


def conform(file: Path) -> Result:
    """The replay of what was observed."""
    return CliRunner().invoke(app, ["conform", str(file)])


def violated(folder: Path) -> set[str]:
    """What is violated by the tables."""
    verdicts = pq.read_table(folder / "tables" / "verdicts").to_pylist()
    return {row["property"] for row in verdicts if row["verdict"] == "violated"}


def assert_generations_rise(seen: list[dict[str, Any]]) -> None:
    """What one member is told never goes back."""
    told: dict[str, int] = defaultdict(int)
    for each in seen:
        if each["api"] == "JoinGroup" and not each["answer"]["error_code"]:
            member, generation = each["answer"]["member_id"], each["answer"]["generation_id"]
            assert generation >= told[member]
            told[member] = generation


def assigned(seen: list[dict[str, Any]]) -> dict[int, dict[tuple[str, int], str]]:
    """By generation, whose each partition is; it is nobody else's."""
    owners: dict[int, dict[tuple[str, int], str]] = defaultdict(dict)
    for each in seen:
        if each["api"] == "SyncGroup" and not each["answer"]["error_code"]:
            generation, member = each["request"]["generation_id"], each["request"]["member_id"]
            for where in read_assignment(base64.b64decode(each["answer"]["assignment"])):
                assert owners[generation].setdefault(where, member) == member
    return owners
