"""
Our client of the group protocol, as an application uses it: at `herdproof broker`, and at Kafka.

Alone, and in one group with confluent-kafka and kafka-python, whichever of them leads.
"""

from __future__ import annotations

import ssl
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from herdproof import Consumer
from herdproof.conformance.traces.line import read_files
from herdproof.conformance.traces.replay import conform_lines
from herdproof.consumer import CommitFailed, Misused, RebalanceListener
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.kraft import EmbeddedKRaft
from herdproof.kafka.topics import TopicRecord, Topics
from herdproof.protocols.group_protocol.client.assignors.assignor import PlainAssignor
from herdproof.protocols.group_protocol.client.core.events import Fenced, NoOffsetForPartition
from herdproof.protocols.group_protocol.traces.trace_map import map_of
from herdproof.record import Record
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdspec.check.conformance.conform import Verdict
from integration.broker.broker_group import OURS, PYTHON, BrokerGroup
from integration.broker.test_broker import broker
from integration.clients import eventually
from integration.commands import Command

pytestmark = pytest.mark.real

PARTITIONS = 4
LEADERS = [OURS, *(pytest.param(kind, marks=pytest.mark.long) for kind in PYTHON)]

KAFKAS = ["kafka", "kraft"]
"""Fixtures of real Kafkas, 3.9.1 and 4.3.1: their coordinators are in Scala, and in Java."""


@dataclass
class OwnGround:
    """A broker of ours, a topic with ten records in each partition, and members of groups."""

    bootstrap: str
    topic: str
    stack: ExitStack

    def member(self, group: str, *, by_hand: Sequence[int] = (), **more: Any) -> Consumer:
        """A consumer that has subscribed, or to which these partitions are assigned by hand."""
        arguments = {
            "auto_offset_reset": "smallest", "session_timeout_s": 2, "assignors": "range", **more
        }  # fmt: skip
        consumer = self.stack.enter_context(
            Consumer(
                group, protocol="group_protocol", bootstrap_servers=self.bootstrap, **arguments
            )
        )
        if by_hand:
            consumer.assign((self.topic, number) for number in by_hand)
        else:
            consumer.subscribe(self.topic)
        return consumer


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker by itself."""
    with broker(tmp_path_factory.mktemp("broker")) as bootstrap:
        yield bootstrap


@pytest.fixture
def ground(address: str) -> Iterator[OwnGround]:
    """That broker, with a topic of the test's own."""
    topics, name = Topics(address, 30.0), f"orders-{uuid.uuid4()}"
    topics.create(name, PARTITIONS)
    records = [TopicRecord(b"%d" % n, partition=n % PARTITIONS) for n in range(40)]
    topics.produce(name, records)
    with ExitStack() as stack:
        yield OwnGround(address, name, stack)


def take(consumers: Sequence[Consumer], number: int) -> list[Record]:
    """The next records of any of these, so many; all of them are finished with."""
    records: list[Record] = []

    def enough() -> bool:
        for consumer in consumers:
            while (record := consumer.poll(0.02)) is not None:
                records.append(record)
        return len(records) >= number

    eventually(enough)
    return records


def numbers(consumer: Consumer) -> list[int]:
    """The partitions that a consumer has."""
    return [place.partition for place in consumer.assignment]


def test_partitions_are_shared_and_taken_over(ground: OwnGround) -> None:
    """A second member gets half of them, and the first all, once the second has left."""
    first = ground.member("shared")
    assert len(take([first], 40)) == 40
    second = ground.member("shared")

    eventually(lambda: take([first, second], 0) == [] and len(numbers(second)) == 2)
    shared = numbers(first), numbers(second)
    second.close()
    eventually(lambda: take([first], 0) == [] and len(numbers(first)) == PARTITIONS)

    assert sorted(shared[0] + shared[1]) == list(range(PARTITIONS))


def test_nothing_is_taken_away_from_an_application_at_work(ground: OwnGround) -> None:
    """
    A record is finished with, and committed, before its partition is another's.

    Who is at work on one holds the others up; the listener is told before the others go on.
    """
    told: list[str] = []

    class Tells(RebalanceListener):
        """Notes what it is told."""

        def on_assigned(self, partitions: Sequence[Any]) -> None:
            """So many have come."""
            told.append(f"+{len(partitions)}")

        def on_revoked(self, partitions: Sequence[Any]) -> None:
            """So many have gone."""
            told.append(f"-{len(partitions)}")

    first = ground.member("at-work", listener=Tells())
    record = first.poll(30)
    second = ground.member("at-work")
    held_up = second.poll(1.0)
    got = take([first, second], 39)

    assert record is not None
    assert held_up is None
    assert told[:3] == ["+4", "-4", "+2"]
    assert sorted((r.partition, r.offset) for r in [record, *got]) == [
        (partition, offset) for partition in range(PARTITIONS) for offset in range(10)
    ]


def test_commits_say_what_came_of_them(ground: OwnGround) -> None:
    """Stored, or refused since the partition is another's by now."""
    first = ground.member("commits", auto_commit=False)
    record = first.poll(30)
    assert record is not None
    first.commit(record)
    stored = first.committed((record.topic, record.partition))
    first.poll(30)
    second = ground.member("commits", auto_commit=False)
    take([first, second], 38)

    assert stored == record.offset + 1
    with pytest.raises(CommitFailed, match="the partition is not"):
        second.commit(record)
    refused = second.commit_async(record).exception(30)
    assert isinstance(refused, CommitFailed)


def test_partitions_assigned_by_hand_are_read_with_the_groups_offsets(ground: OwnGround) -> None:
    """Without a generation; `subscribe` and `assign` exclude each other."""
    reader = ground.member("by-hand", by_hand=[1, 3])
    assert {record.partition for record in take([reader], 20)} == {1, 3}
    assert reader.commit_async().result(30) is None
    reader.close()
    again = ground.member("by-hand", by_hand=[1], auto_offset_reset="none")

    assert again.poll(1.0) is None
    assert again.committed((ground.topic, 1)) == 10
    with pytest.raises(Misused):
        again.subscribe(ground.topic)


def test_without_a_reset_a_missing_offset_is_an_error(ground: OwnGround) -> None:
    """The application is told of which partition, and what to do."""
    consumer = ground.member("no-reset", auto_offset_reset="none")

    with pytest.raises(NoOffsetForPartition, match=r"nothing is committed of orders-.*-0: commit"):
        consumer.poll(30)


def test_an_assignor_of_ones_own_that_raises_is_told_of(ground: OwnGround) -> None:
    """By the member that leads."""

    class Raises(PlainAssignor):
        """Has no idea."""

        name = "raises"

        def assign(self, topics: Any, members: Any) -> Any:
            """It has none for anybody."""
            raise LookupError(f"{len(topics)} topic, {len(members)} member")

    consumer = ground.member("own-assignor", assignors=[Raises()])

    with pytest.raises(Exception, match=r"raises raised LookupError\('1 topic, 1 member'\)"):
        consumer.poll(30)


def test_who_is_at_work_for_too_long_leaves_and_comes_back(ground: OwnGround) -> None:
    """Meanwhile the others have its partitions."""
    slow = ground.member("slow", max_poll_interval_s=1.0, heartbeat_interval_s=0.1)
    record = slow.poll(30)
    other = ground.member("slow")

    eventually(lambda: take([other], 0) == [] and len(numbers(other)) == PARTITIONS)
    eventually(lambda: take([slow, other], 0) == [] and len(numbers(slow)) == 2)

    assert record is not None


def test_cooperative_members_keep_what_is_theirs(ground: OwnGround, tmp_path: Path) -> None:
    """The first one is told of no partition that it keeps; what both trace conforms."""
    lost: list[int] = []

    class Notes(RebalanceListener):
        """Notes what is taken away."""

        def on_revoked(self, partitions: Sequence[Any]) -> None:
            """These have gone."""
            lost.extend(place.partition for place in partitions)

    named: dict[str, Any] = {"assignors": "cooperative-sticky", "run": "monday"}
    traces = [tmp_path / name for name in ("first", "second")]
    first = ground.member("cooperative", listener=Notes(), trace=traces[0], **named)
    take([first], 40)
    second = ground.member("cooperative", trace=traces[1], **named)
    eventually(lambda: take([first, second], 0) == [] and len(numbers(second)) == 2)
    eventually(lambda: take([first, second], 0) == [] and len(numbers(first)) == 2)

    assert len(lost) == 2
    assert sorted(numbers(first) + lost) == list(range(PARTITIONS))
    first.close()
    second.close()
    outcome = conform_lines(read_files(traces, map_of().formats), map_of())
    assert outcome.verdict is Verdict.CONFORMS, (outcome.mismatch, outcome.reason)


def test_the_command_joins_too(ground: OwnGround, tmp_path: Path) -> None:
    """`herdproof consume --protocol group_protocol`, until so many records have come."""
    options = ("--bootstrap-servers", ground.bootstrap, "--reset", "smallest")
    command = ("consume", "told", ground.topic, "--protocol", "group_protocol", *options)
    with Command(tmp_path / "told", *command, "--max-records", "40") as running:
        lines = running.await_lines(40)
    assert len(lines) == 40


def test_nothing_of_a_client_outlives_it(ground: OwnGround) -> None:
    """No thread, and so no connection."""
    before = set(threading.enumerate())
    consumer = ground.member("gone")
    consumer.poll(30)

    consumer.close()

    eventually(lambda: {t for t in threading.enumerate() if t.is_alive()} <= before)


@pytest.mark.long
@pytest.mark.parametrize("by_context", [True, False])
def test_a_client_speaks_tls(tmp_path: Path, by_context: bool) -> None:
    """By librdkafka's own settings alone, or with the coordinator by a context of its own."""
    authority, files = trustme.CA(), {name: tmp_path / name for name in ("chain", "key", "ca")}
    server = authority.issue_cert("localhost")
    server.cert_chain_pems[0].write_to_path(files["chain"])
    server.private_key_pem.write_to_path(files["key"])
    authority.cert_pem.write_to_path(files["ca"])
    settings = tmp_path / "broker.toml"
    settings.write_text(
        f'[tls]\ncertificate = "{files["chain"]}"\nkey = "{files["key"]}"\n'
        '[listener]\nadvertised_host = "localhost"\n'
        "[groups]\ngroup_initial_rebalance_delay_ms = 0\n"
    )
    command = ("broker", "--port", "0", "--config", str(settings), "--topic", "t:1")
    secured = {"security.protocol": "ssl", "ssl.ca.location": str(files["ca"])}
    with Command(tmp_path / "complaints", *command) as running:
        (line,) = running.await_lines(1)
        with Consumer(
            "secret", protocol="group_protocol", bootstrap_servers=line.removeprefix("listening "),
            auto_offset_reset="smallest", kafka=secured,
            tls=ssl.create_default_context(cafile=str(files["ca"])) if by_context else None,
        ) as consumer:  # fmt: skip
            consumer.subscribe("t")
            eventually(lambda: numbers(consumer) == [0])


def comes_back(ground: OwnGround) -> None:
    """A static member that closes and comes back has what it had, with no rebalance between."""
    told: list[str] = []

    class Notes(RebalanceListener):
        """Notes what the one that stays is told."""

        def on_revoked(self, partitions: Sequence[Any]) -> None:
            """So many have gone."""
            told.append(f"-{len(partitions)}")

    static: dict[str, Any] = {"session_timeout_s": 10, "heartbeat_interval_s": 0.1}
    first = ground.member("tills", group_instance_id="till-1", **static)
    second = ground.member("tills", group_instance_id="till-2", listener=Notes(), **static)
    eventually(
        lambda: (
            take([first, second], 0) == []
            and [len(numbers(member)) for member in (first, second)] == [2, 2]
        )
    )
    had, before = numbers(first), list(told)
    first.close()
    again = ground.member("tills", group_instance_id="till-1", **static)
    eventually(lambda: take([again, second], 0) == [] and numbers(again) == had)

    assert told == before
    ground.member("tills", group_instance_id="till-1", **static)
    with pytest.raises(Fenced, match="another consumer has come with group_instance_id 'till-1'"):
        for _ in again:
            pass


def test_a_static_member_comes_back_to_what_it_had(ground: OwnGround) -> None:
    """At a broker of ours; who is twice under one name is told."""
    comes_back(ground)


@pytest.mark.parametrize("version", KAFKAS)
def test_a_static_member_comes_back_to_what_it_had_at_a_real_kafka(
    version: str, request: pytest.FixtureRequest
) -> None:
    """Kafka says who leads, and that it is to leave the assignment as it is."""
    kafka: EmbeddedKafka = request.getfixturevalue(version)
    topic = f"orders-{uuid.uuid4()}"
    kafka.create_topic(topic, PARTITIONS)
    with ExitStack() as stack:
        comes_back(OwnGround(kafka.bootstrap, topic, stack))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("leader", LEADERS)
@pytest.mark.parametrize("version", ["kafka", pytest.param("kraft", marks=pytest.mark.long)])
def test_ours_and_others_are_one_group_on_a_real_kafka(
    zookeeper: EmbeddedZooKeeper, version: str, leader: str
) -> None:
    """
    Two of ours with confluent-kafka and kafka-python share partitions at Kafka 3.9.1, and 4.3.1.

    Whoever is there first leads; it is killed, and comes back as another one. In Kafka 4 another
    coordinator answers, to which a SyncGroup is no sign of life.
    """
    settings = {"group.min.session.timeout.ms": "500"}
    with (
        EmbeddedKRaft(settings=settings)
        if version == "kraft"
        else EmbeddedKafka(f"{zookeeper.hosts}/ours-{uuid.uuid4()}", settings=settings)
    ) as kafka:
        topic = "orders"
        kafka.create_topic(topic, 8)
        with BrokerGroup(kafka.bootstrap, f"led-by-{leader}", topic, 8) as group:
            group.start(leader, leader)
            group.settle(leader)
            names = {leader: leader, OURS: OURS, "another": OURS}
            names |= {kind: kind for kind in PYTHON[:2]}
            for name, kind in names.items():
                if name != leader:
                    group.start(name, kind)
            group.settle(*names)
            group.kill(leader)
            group.pause("another")
            group.settle(*(name for name in names if name not in (leader, "another")))
            group.resume("another")
            group.start(leader, leader)
            group.settle(*names)

            assert group.lost() == []
