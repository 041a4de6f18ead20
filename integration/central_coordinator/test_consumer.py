"""
The consumer on real Kafka: its fetchers beside a played coordinator, and all of it together.

The quotations are from PROTOCOLS.md: the contract, and section B.
"""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from herdproof import Consumer
from herdproof.consumer import RebalanceListener
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.protocols.central_coordinator.events import ConsumerEvent, Received
from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    Frame,
    Ping,
    PingResponse,
    Start,
    Stop,
    StopResponse,
)
from herdproof.record import Record, TopicPartition
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from integration.central_coordinator.played_coordinator import PlayedCoordinator
from integration.clients import eventually
from integration.commands import Command

pytestmark = pytest.mark.real

_names = count(1)


@pytest.fixture
def topic(kafka: EmbeddedKafka) -> str:
    """A topic of the test's own with two partitions, each with records 0 to 99."""
    name = f"consumed-{next(_names)}"
    kafka.create_topic(name, 2)
    for partition in range(2):
        produce(kafka, name, partition, range(100))
    return name


@pytest.fixture
def coordinator() -> Iterator[PlayedCoordinator]:
    """A coordinator that says what the test lets it."""
    with PlayedCoordinator() as played:
        yield played


class Made:
    """The consumers that a test makes; they are closed after it."""

    def __init__(self, kafka: EmbeddedKafka, stack: ExitStack) -> None:
        self._kafka = kafka
        self._stack = stack

    def __call__(self, brokers: str, topics: Any, group: str = "g", **more: Any) -> Consumer:
        """A consumer that has subscribed."""
        arguments = {"auto_offset_reset": "smallest", **more}
        observe = arguments.pop("observe", None)
        consumer = Consumer(
            group, coordinators=brokers, bootstrap_servers=self._kafka.bootstrap, **arguments
        )
        consumer._observe = observe or consumer._observe
        self._stack.enter_context(consumer)
        consumer.subscribe(topics)
        return consumer


@pytest.fixture
def consumer(kafka: EmbeddedKafka) -> Iterator[Made]:
    """Makes consumers."""
    with ExitStack() as stack:
        yield Made(kafka, stack)


def produce(kafka: EmbeddedKafka, topic: str, partition: int, numbers: range) -> None:
    """Append records whose values say which they are."""
    values = [f"{partition}/{number}".encode() for number in numbers]
    kafka.produce(topic, *values, partition=partition)


def take(consumer: Consumer, number: int) -> list[Record]:
    """The next records, so many."""
    records: list[Record] = []
    while len(records) < number:
        record = consumer.poll(20)
        assert record is not None, f"record {len(records) + 1} of {number} did not come"
        records.append(record)
    return records


def values(records: Sequence[Record]) -> dict[int, list[str]]:
    """The values of each partition, in the order in which they came."""
    by_partition: dict[int, list[str]] = defaultdict(list)
    for record in records:
        by_partition[record.partition].append((record.value or b"").decode())
    return dict(by_partition)


def numbered(partition: int, numbers: range) -> list[str]:
    """The values that `produce` gives these records."""
    return [f"{partition}/{number}" for number in numbers]


# ── Fetchers, beside a coordinator that is played ───────────────────────────────────────────


def test_partitions_are_fetched_from_the_offsets_of_the_start(
    coordinator: PlayedCoordinator, consumer: Made, topic: str
) -> None:
    """
    "fetch these, each from its offset on": nothing before, nothing left out, in order.
    Reference: B, Start.
    """
    reader = consumer(coordinator.address, topic)
    coordinator.await_registrations(1)

    coordinator.ask(Start((Offset(topic, "0", 10), Offset(topic, "1", 95))), generation=1)
    records = take(reader, 95)

    assert values(records) == {0: numbered(0, range(10, 100)), 1: numbered(1, range(95, 100))}
    first = next(record for record in records if record.partition == 0)
    assert (first.topic, first.offset, first.key) == (topic, 10, None)
    assert first.timestamp_ms is not None
    # All but the last are finished with.
    answer = coordinator.ask(Ping(0), generation=1).message
    assert isinstance(answer, PingResponse)
    assert answer.offsets is not None
    assert sum(offset.offset for offset in answer.offsets) == 199


@pytest.mark.parametrize(("reset", "begin"), [("smallest", 0), ("largest", 100)])
def test_without_an_offset_it_begins_where_the_reset_says(
    coordinator: PlayedCoordinator, consumer: Made, kafka: EmbeddedKafka, topic: str,
    reset: str, begin: int,
) -> None:  # fmt: skip
    """
    "A start that was resolved by reset is stored before the first delivery."
    Reference: the contract, 4.
    """
    reader = consumer(coordinator.address, topic, auto_offset_reset=reset)
    coordinator.await_registrations(1)
    coordinator.commit_code = None

    coordinator.ask(Start((Offset(topic, "0", NO_OFFSET),)), generation=1)
    coordinator.until(lambda: coordinator.commits, "the commit of the start")
    produce(kafka, topic, 0, range(100, 103))
    assert reader.poll(0.3) is None
    assert coordinator.commits == [(Offset(topic, "0", begin),)]

    coordinator.commit_code = ErrorCode.NONE
    coordinator.cut()  # the commit was not answered: who comes next has what was stored
    coordinator.await_registrations(2)
    coordinator.ask(Start((Offset(topic, "0", begin),)), generation=2)
    assert values(take(reader, 3))[0] == numbered(0, range(begin, begin + 3))


def test_an_offset_out_of_range_is_reset_and_stored(
    coordinator: PlayedCoordinator, consumer: Made, topic: str
) -> None:
    """
    "The reset applies to an offset that is out of range or not stored."
    Reference: B, Wire format.
    """
    reader = consumer(coordinator.address, topic)
    coordinator.await_registrations(1)

    offsets = (Offset(topic, "0", 1_000), Offset(topic, "1", 99))
    coordinator.ask(Start(offsets), generation=1)

    assert values(take(reader, 101)) == {0: numbered(0, range(100)), 1: ["1/99"]}
    assert coordinator.commits == [(Offset(topic, "0", 0),)]


def test_what_is_taken_away_is_fetched_no_more_and_what_comes_back_from_its_offset(
    coordinator: PlayedCoordinator, consumer: Made, topic: str
) -> None:
    """
    Stop and Start, many times over: no record of a partition that is another's, and no gap.

    A client of Kafka's that still had records of the assignment before would show them here.
    """
    reader = consumer(coordinator.address, topic)
    coordinator.await_registrations(1)
    for generation in range(1, 9):
        partition, begin = generation % 2, 5 * generation
        start = Start((Offset(topic, str(partition), begin),))
        coordinator.ask(start, generation=generation)
        assert values(take(reader, 10)) == {
            partition: numbered(partition, range(begin, begin + 10))
        }
        stop = coordinator.ask(Stop(), generation=generation).message
        assert isinstance(stop, StopResponse)
        assert stop.offsets == (Offset(topic, str(partition), begin + 9),)
        assert reader.poll(0) is None


def test_a_stream_that_is_not_read_holds_up_no_other(
    coordinator: PlayedCoordinator, consumer: Made, kafka: EmbeddedKafka, topic: str
) -> None:
    """A queue takes so much and no more; then its fetching is paused, and goes on without a gap."""
    produce(kafka, topic, 1, range(100, 5_000))
    produce(kafka, topic, 0, range(100, 5_000))
    reader = consumer(coordinator.address, {topic: 2}, max_queued_records=200)
    coordinator.await_registrations(1)
    coordinator.ask(Start((Offset(topic, "0", 0), Offset(topic, "1", 0))), generation=1)

    most = 0
    for partition, stream in enumerate(reader.streams()):
        records = [stream.poll(20) for _ in range(5_000)]
        assert None not in records
        assert values([record for record in records if record]) == {
            partition: numbered(partition, range(5_000))
        }
        most = max(most, reader._streams.waiting(1))
    assert 200 <= most <= 2 * 200 + 1


def test_a_topic_that_does_not_exist_yet_is_waited_for(
    coordinator: PlayedCoordinator, consumer: Made, kafka: EmbeddedKafka
) -> None:
    """What Kafka does not know is asked for again; nothing else is held up by it."""
    name = f"consumed-{next(_names)}"
    reader = consumer(coordinator.address, name)
    coordinator.await_registrations(1)
    coordinator.ask(Start((Offset(name, "0", NO_OFFSET),)), generation=1)
    eventually(lambda: any(f"has no topic {name!r}" in each for each in reader.troubles))
    assert reader.poll(0) is None

    kafka.create_topic(name, 1)
    produce(kafka, name, 0, range(1))

    assert values(take(reader, 1)) == {0: ["0/0"]}
    eventually(lambda: reader.troubles == ())


# ── All of it, beside a real coordinator ────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def real_coordinator(
    zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A coordinator beside that Kafka, in a process of its own: where it listens."""
    arguments = ("--zookeeper", zookeeper.hosts, "--broker-id", str(kafka.broker_id), "--port", "0")
    complaints = tmp_path_factory.mktemp("coordinator") / "log"
    with Command(complaints, "coordinator", *arguments) as command:
        [listening, *_] = command.await_lines(1)
        yield listening.split()[-1]
        assert command.end(signal.SIGTERM) == 0, command.complaints


QUICK: dict[str, Any] = {"session_timeout_s": 2.0, "ping_interval_s": 0.3}
"""For tests that wait for a lease's end."""


def test_two_share_a_topic_and_go_on_where_others_stopped(
    real_coordinator: str, consumer: Made, topic: str
) -> None:
    """
    "Every partition of a subscribed topic is assigned to exactly one live member; a new owner
    starts at or before the first offset not yet processed."
    Reference: the contract, 4 and 5.
    """
    group = f"g-{topic}"
    first = consumer(real_coordinator, topic, group, **QUICK)
    early = take(first, 60)
    second = consumer(real_coordinator, topic, group, **QUICK)
    eventually(lambda: len(second.assignment) == len(first.assignment) == 1)
    assert set(first.assignment).isdisjoint(second.assignment)

    seen = values(early)
    for member in (first, second):
        while (record := member.poll(1)) is not None:
            seen.setdefault(record.partition, []).append((record.value or b"").decode())
    for partition in range(2):
        # Only the record that was being processed at the rebalance may come twice.
        assert sorted(set(seen[partition])) == sorted(numbered(partition, range(100)))
        assert len(seen[partition]) <= 101

    first.close()
    second.close()
    third = consumer(real_coordinator, topic, group, **QUICK)
    eventually(lambda: len(third.assignment) == 2)
    assert third.poll(0.5) is None


def test_a_closed_consumer_costs_its_group_no_lease(
    real_coordinator: str, consumer: Made, topic: str
) -> None:
    """What it had goes to the others at once, though its lease would run for minutes."""
    group = f"g-{topic}"
    patient = {"session_timeout_s": 200.0, "ping_interval_s": 1.0}
    first = consumer(real_coordinator, topic, group, **patient)
    second = consumer(real_coordinator, topic, group, **patient)
    eventually(lambda: len(second.assignment) == len(first.assignment) == 1)

    first.close()

    eventually(lambda: len(second.assignment) == 2)
    assert values(take(second, 200)) == {p: numbered(p, range(100)) for p in range(2)}


def test_a_user_commits_and_the_next_one_begins_there(
    real_coordinator: str, consumer: Made, topic: str
) -> None:
    """
    "A user's `commit` is an explicit frame": without auto_commit nothing else is stored.
    Reference: B, ruling 8.
    """
    group = f"g-{topic}"
    settings = {**QUICK, "auto_commit": False}
    first = consumer(real_coordinator, {topic: 1}, group, **settings)
    records = take(first, 30)
    assert first.commit_async(records[19]).result(30) is None
    stored = {record.partition: record.offset + 1 for record in records[:20]}
    first.close()

    second = consumer(real_coordinator, {topic: 1}, group, **settings)

    began: dict[int, int] = {}
    for record in take(second, 150):
        began.setdefault(record.partition, record.offset)
    assert began[records[19].partition] == stored[records[19].partition]
    other = 1 - records[19].partition
    assert began[other] == 0  # the start that was resolved is all that is stored of it


class Told(RebalanceListener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, tuple[TopicPartition, ...]]] = []

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Write it down."""
        self.told.append(("assigned", tuple(partitions)))

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Write it down."""
        self.told.append(("revoked", tuple(partitions)))


def test_a_pattern_takes_in_a_topic_that_appears(
    real_coordinator: str, consumer: Made, kafka: EmbeddedKafka, topic: str
) -> None:
    """Topics that match are consumed as they appear, and the listener hears of each change."""
    told = Told()
    reader = consumer(real_coordinator, f"^{topic}(-later)?", f"g-{topic}", listener=told, **QUICK)
    take(reader, 200)

    later = f"{topic}-later"
    kafka.create_topic(later, 1)
    produce(kafka, later, 0, range(3))

    # The record that was at hand during the rebalance was not finished with: it comes once more.
    assert sorted(record.topic for record in take(reader, 4)) == [topic, later, later, later]
    both = (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert told.told[:2] == [("assigned", both), ("revoked", both)]
    assert ("assigned", (*both, TopicPartition(later, 0))) in told.told


def test_an_application_goes_where_it_wants_and_pauses_what_it_wants(
    real_coordinator: str, consumer: Made, topic: str
) -> None:
    """`seek` back and on, `pause` and `resume`, on real Kafka; what is stored never goes back."""
    reader = consumer(real_coordinator, topic, f"g-{topic}", **QUICK)
    take(reader, 120)
    first, second = reader.assignment

    reader.pause(second)
    reader.seek(first, 10)
    assert values(take(reader, 90)) == {0: numbered(0, range(10, 100))}
    assert (reader.position(first), reader.poll(0.5), reader.paused) == (100, None, (second,))
    assert reader.lags()[first] == 0
    reader.commit()
    assert reader.committed(first) == 100

    reader.seek(second, 40)
    reader.resume(second)
    records = take(reader, 30)
    assert values(records) == {1: numbered(1, range(40, 70))}
    assert reader.lags() == {first: 0, second: 30}
    reader.seek(second, 97)
    assert values(take(reader, 3)) == {1: numbered(1, range(97, 100))}
    assert (records[0].topic, records[0].partition) in reader.assignment


def test_the_frames_of_a_consumer_can_be_observed(
    real_coordinator: str, consumer: Made, topic: str
) -> None:
    """One seam tells every event of the core, for traces."""
    frames: list[Frame] = []

    def observe(core: object, event: ConsumerEvent, effects: object) -> None:
        if isinstance(event, Received):
            frames.append(event.frame)

    take(consumer(real_coordinator, topic, f"g-{topic}", observe=observe, **QUICK), 1)

    kinds = [type(frame.message).__name__ for frame in frames]
    assert kinds[:4] == ["ConsultResponse", "RegisterResponse", "Stop", "Start"]
    [epoch] = {frame.epoch for frame in frames}
    assert epoch > 0


# ── The command ─────────────────────────────────────────────────────────────────────────────


def test_a_killed_consumer_is_taken_over_and_no_record_is_lost(
    real_coordinator: str, kafka: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    """`herdproof consume`: kill one of two, and the other gets all that was not finished with."""
    arguments = (
        "consume", f"g-{topic}", topic, "--coordinators", real_coordinator, "--bootstrap-servers",
        kafka.bootstrap, "--reset", "smallest", "--json", "--session-timeout", "2",
        "--ping-interval", "0.3",
    )  # fmt: skip
    with (
        Command(tmp_path / "a", *arguments, "--id", "a") as a,
        Command(tmp_path / "b", *arguments, "--id", "b") as b,
    ):
        a.await_complaint(f"assigned: {topic}-0\n")
        b.await_complaint(f"assigned: {topic}-1\n")
        eventually(lambda: len(a.lines) + len(b.lines) >= 200)

        assert a.end(signal.SIGKILL) == -signal.SIGKILL
        produce(kafka, topic, 0, range(100, 150))
        b.await_complaint(f"assigned: {topic}-0 {topic}-1\n")
        expected = {f"{p}/{n}" for p, top in ((0, 150), (1, 100)) for n in range(top)}
        eventually(lambda: printed(a) | printed(b) == expected)

        assert b.end(signal.SIGINT) == 130
        assert "revoked" in b.complaints
        assert "Traceback" not in b.complaints


def printed(command: Command) -> set[str]:
    """The values of the records that a command has printed."""
    return {json.loads(line)["value"] for line in list(command.lines)}


def test_the_command_ends_after_as_many_records_as_are_wanted(
    real_coordinator: str, kafka: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    """`--max-records`: each is finished with, so the next call goes on behind them."""
    arguments = (
        "consume", f"g-{topic}", topic, "--coordinators", real_coordinator, "--bootstrap-servers",
        kafka.bootstrap, "--reset", "earliest", "--max-records", "150", "--session-timeout", "2",
        "--ping-interval", "0.3",
    )  # fmt: skip
    with Command(tmp_path / "first", *arguments) as first:
        assert first.wait() == 0, first.complaints
    assert len(first.lines) == 150
    with Command(tmp_path / "second", *arguments) as second:
        rest = second.await_lines(50)
        assert second.end(signal.SIGTERM) == 0
    assert set(rest).isdisjoint(first.lines)
    assert rest[0].startswith(f"{topic}-")
    assert "@" in rest[0]


def test_the_command_says_that_no_broker_answers(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """With --gives-up, one sentence with the addresses, and the exit code of what is missing."""
    arguments = ("consume", "g", "t", "--gives-up", "--coordinators", "127.0.0.1:1")
    with Command(tmp_path / "log", *arguments, "--bootstrap-servers", kafka.bootstrap) as command:
        assert command.wait() == 2
    assert "none of the known brokers (127.0.0.1:1) answers" in command.complaints
    assert "Traceback" not in command.complaints
