"""Ours beside Kafka 0.8.2.2's own: the same plans, and one group of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import pytest

from herdproof import Consumer
from herdproof.errors import HerdError
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.jars import CONSUMERS_VERSION, kafka_jars
from herdproof.protocols.self_rebalancing.registries.context import (
    AssignmentContext,
    ConsumerThreadId,
)
from herdproof.protocols.self_rebalancing.registries.filters import cleaned
from herdproof.protocols.self_rebalancing.registries.registrations import (
    ConsumerRegistration,
    SubscriptionPattern,
    encoded,
    parsed,
)
from herdproof.zookeeper.client import Client
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Children, Create, Data, Get, Names
from integration.clients import eventually
from integration.self_rebalancing.old_consumers import OldConsumers, plans
from integration.trace_judgement import audited, violated

pytestmark = pytest.mark.real

GROUPS = 120
TOPICS = {
    "orders": 7,
    "orders2": 3,
    "pay.ments": 12,
    "logs": 1,
    "empty": 0,
    "__consumer_offsets": 4,
}
FILTERS = ["orders", "orders.*", "logs, orders2", " 'pay.*' ", ".*", "[lo].*", "(?:x|logs)", r"\w+"]
NAMES = ["g_a-1-0a", "g_a-10-0a", "g_a-2-0a", "g_B-1-ff", "g_b-1-ff", "plain"]

_names = count(1)


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    """The jars are fetched before any time limit runs; a test that needs them says why not."""
    with suppress(HerdError):
        kafka_jars(version=CONSUMERS_VERSION)


@pytest.fixture
def look(zookeeper: EmbeddedZooKeeper) -> Iterator[Client]:
    """An operator's session."""

    def ignore(*told: object) -> None:
        del told

    with Client(zookeeper.hosts, session_timeout_s=10, on_link=ignore, on_watch=ignore) as client:
        yield client


def random_group(chance: Random) -> dict[str, ConsumerRegistration]:
    """Members with subscriptions of all kinds."""
    static, white, black = SubscriptionPattern
    members = {}
    for name in chance.sample(NAMES, chance.randint(1, 5)):
        if chance.random() < 0.5:
            topics = chance.sample(sorted(TOPICS), chance.randint(1, 3))
            wanted = tuple(sorted((topic, chance.randint(1, 12)) for topic in topics))
            members[name] = ConsumerRegistration(wanted, static, 1)
        else:
            regex = cleaned(chance.choice(FILTERS))
            lists = chance.choice([white, black])
            members[name] = ConsumerRegistration(((regex, chance.randint(1, 12)),), lists, 1)
    return members


def make(look: Client, path: str, data: bytes = b"") -> None:
    """A persistent node with those above it."""
    names = path.split("/")[1:]
    for depth in range(1, len(names)):
        look.perform(Create("/" + "/".join(names[:depth])))
    look.perform(Create(path, data))


def test_every_member_plans_as_0_8_2_2_does() -> None:
    """Of random groups, each member's own part is what 0.8.2.2's own RangeAssignor gives it."""
    chance = Random(8)
    groups = {f"g{number}": random_group(chance) for number in range(GROUPS)}
    asked = [(group, member) for group, members in groups.items() for member in members]

    def ignore(*told: object) -> None:
        del told

    with (
        EmbeddedZooKeeper() as own,
        Client(own.hosts, session_timeout_s=10, on_link=ignore, on_watch=ignore) as look,
    ):
        for topic, partitions in TOPICS.items():
            described = {"version": 1, "partitions": {str(n): [0] for n in range(partitions)}}
            make(look, f"/brokers/topics/{topic}", json.dumps(described).encode())
        for group, members in groups.items():
            for member, registration in members.items():
                make(look, f"/consumers/{group}/ids/{member}", encoded(registration))
        theirs = plans(own.hosts, asked)

    assert len(theirs) == len(asked)
    for (group, member), told in zip(asked, theirs, strict=True):
        wanted = groups[group][member].topics_of(TOPICS)
        there = {topic: tuple(map(str, range(TOPICS[topic]))) for topic in wanted}
        own_part = AssignmentContext(member, there, groups[group]).own()
        ours = {
            f"{topic} {partition} {ConsumerThreadId(member, thread)}"
            for (topic, partition), thread in own_part.items()
        }
        assert ours == {triple for triple in told.split(";") if triple}, (group, member, told)


class MixedGroup:
    """A group of both kinds on one topic, whose values say where they belong."""

    def __init__(self, kafka: EmbeddedKafka, zookeeper: str, look: Client, trace: Path) -> None:
        self.trace = trace
        self.kafka, self.zookeeper, self.look = kafka, zookeeper, look
        self.name = f"mixed-{next(_names)}"
        self.topic = f"{self.name}-topic"
        kafka.create_topic(self.topic, 6)
        self.produced = 0

    def ours(self) -> Consumer:
        """One of ours, which has subscribed."""
        consumer = Consumer(
            self.name, protocol="self_rebalancing", zookeeper=self.zookeeper,
            bootstrap_servers=self.kafka.bootstrap, auto_offset_reset="smallest",
            session_timeout_s=4, rebalance_backoff_s=0.3, auto_commit_interval_s=0.5,
            trace=self.trace, run="monday",
        )  # fmt: skip
        consumer.subscribe(self.topic)
        return consumer

    def produce(self, records: int) -> None:
        """So many records more in each partition."""
        numbers = range(self.produced, self.produced + records)
        for partition in range(6):
            values = [f"{partition}/{number}".encode() for number in numbers]
            self.kafka.produce(self.topic, *values, partition=partition)
        self.produced += records

    @property
    def owners(self) -> dict[str, str]:
        """The owner of each partition, as ZooKeeper has it."""
        above = f"/consumers/{self.name}/owners/{self.topic}"
        listed = self.look.perform(Children(above))
        names = listed.names if isinstance(listed, Names) else ()
        found = {name: self.look.perform(Get(f"{above}/{name}")) for name in names}
        return {name: d.data.decode() for name, d in found.items() if isinstance(d, Data)}

    @property
    def is_whole(self) -> bool:
        """Whether every partition has an owner."""
        return len(self.owners) == 6

    def offsets(self) -> dict[int, int]:
        """The stored offset of each partition that has one."""
        above = f"/consumers/{self.name}/offsets/{self.topic}"
        found = {n: self.look.perform(Get(f"{above}/{n}")) for n in range(6)}
        return {n: int(d.data) for n, d in found.items() if isinstance(d, Data)}


def drain(consumer: Consumer, into: list[str]) -> bool:
    """Take what it gets at present; always True, to be said beside what is waited for."""
    while (record := consumer.poll(0.05)) is not None:
        into.append((record.value or b"").decode())
    return True


@pytest.fixture
def mixed(
    kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, look: Client, tmp_path: Path
) -> MixedGroup:
    """A group with a topic of its own."""
    return MixedGroup(kafka, zookeeper.hosts, look, tmp_path / "ours.ndjson")


@pytest.mark.timeout(240)
def test_one_group_of_theirs_and_ours(mixed: MixedGroup, tmp_path: Path) -> None:
    """
    They share, take over from each other in both directions, and nothing is lost.

    Theirs write no trace: of ours, which has told of what it did, nothing is violated.
    """
    got: list[str] = []
    with OldConsumers(mixed.zookeeper, mixed.name, mixed.topic) as theirs, mixed.ours() as own:
        theirs.start("old1")
        theirs.start("old2")
        eventually(lambda: drain(own, got) and len(set(mixed.owners.values())) == 3)
        registered = mixed.look.perform(Children(f"/consumers/{mixed.name}/ids"))
        assert isinstance(registered, Names)
        for name in registered.names:
            node = mixed.look.perform(Get(f"/consumers/{mixed.name}/ids/{name}"))
            assert isinstance(node, Data)
            assert parsed(node.data).threads(mixed.topic) == 1, node.data
        eventually(lambda: mixed.is_whole and len(own.assignment) == 2)
        mixed.produce(20)
        everything = {f"{p}/{n}" for p in range(6) for n in range(20)}
        eventually(
            lambda: (
                drain(own, got)
                or {*got, *theirs.values("old1"), *theirs.values("old2")} >= everything
            )
        )

        theirs.kill("old1")
        eventually(lambda: drain(own, got) and (mixed.is_whole and len(own.assignment) == 3))
        theirs.ask_to_end("old2")
        eventually(lambda: drain(own, got) and len(own.assignment) == 6)
        mixed.produce(10)
        eventually(lambda: drain(own, got) and {f"{p}/29" for p in range(6)} <= set(got))
        own.close()
        assert mixed.offsets() == dict.fromkeys(range(6), 30)

        theirs.start("old3")
        eventually(lambda: mixed.is_whole)
        mixed.produce(5)
        last = {f"{p}/{n}" for p in range(6) for n in range(30, 35)}
        eventually(lambda: last <= set(theirs.values("old3")))
        assert set(theirs.values("old3")) == last, "it goes on where ours have stopped"
    summary = audited(tmp_path / "tables", mixed.trace)
    assert not violated(summary)
    assert "holds" in summary.verdicts["only_the_latest_claim_stores"]


@pytest.mark.timeout(240)
def test_one_of_theirs_that_wakes_as_a_zombie_harms_nothing_of_ours_for_good(
    mixed: MixedGroup,
) -> None:
    """
    One of theirs, paused beyond its session, wakes and does what the draft allows.

    What it may do is its own doing (it overwrites offsets, deletes nodes): in the end every
    partition has an owner, and everything flows.
    """
    got: list[str] = []
    with OldConsumers(mixed.zookeeper, mixed.name, mixed.topic) as theirs, mixed.ours() as own:
        theirs.start("old1")
        eventually(lambda: drain(own, got) and (mixed.is_whole and len(own.assignment) == 3))
        theirs.pause("old1")
        eventually(lambda: drain(own, got) and len(own.assignment) == 6)
        mixed.produce(10)
        eventually(lambda: drain(own, got) and {f"{p}/9" for p in range(6)} <= set(got))
        theirs.resume("old1")
        eventually(lambda: drain(own, got) and (mixed.is_whole and len(own.assignment) == 3))
        mixed.produce(10)
        everything = {f"{p}/{n}" for p in range(6) for n in range(20)}
        eventually(lambda: drain(own, got) and {*got, *theirs.values("old1")} >= everything)
