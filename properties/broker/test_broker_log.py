"""The log in memory: what is written can be read, and what is wrong has Kafka's error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
)
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.record import MemoryRecords

from herdproof.broker.answering import BrokerNode
from herdproof.broker.codec import KafkaError, RequestHead, read_answer, write_answer
from herdproof.broker.log import MemoryLog
from herdproof.broker.records import Records
from herdproof.broker.settings import RecordLimits
from herdproof.broker.topics import TopicApis
from herdproof.shells.configuration import BadConfiguration
from properties.broker.served import batch, in_a_loop, request_of

GZIP = 1


class Asked:
    """A log, asked as a handler is; answers go through the wire's bytes."""

    def __init__(self, **limits: int) -> None:
        self.limits = RecordLimits(**limits)
        self.log = MemoryLog(self.limits)
        self.log.create("t", 2)
        here = BrokerNode(1, "127.0.0.1", 9)
        self._handlers = {
            **Records(self.log, self.limits).handlers(),
            **TopicApis(self.log, self.limits, here).handlers(),
        }

    def ask_later(self, body: Any, version: int) -> asyncio.Future[Any]:
        """The answer to a request, once it is there."""
        handler = self._handlers[body.API_KEY]
        assert handler.versions[0] <= version <= handler.versions[1]
        head = RequestHead(body.API_KEY, version, 1)
        found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def reply(answer: Any) -> None:
            found.set_result(answer and read_answer(head, write_answer(head, answer)[4:]))

        handler.answer(request_of(body, version), reply)
        return found

    def ask(self, body: Any, version: int) -> Any:
        """The answer to a request that is answered at once."""
        return self.ask_later(body, version).result()

    def produce(self, records: bytes | None, version: int = 9, acks: int = -1) -> Any:
        """What became of a batch for the first partition."""
        made = ProduceRequest.TopicProduceData
        part = made.PartitionProduceData(index=0, records=records)
        body = ProduceRequest(
            version=version, acks=acks, topic_data=[made(name="t", partition_data=[part])]
        )
        return self.ask(body, version).responses[0].partition_responses[0]

    def fetching(
        self,
        offset: int,
        version: int = 12,
        *,
        wait_ms: int = 0,
        topic: str = "t",
        most: int = 10**6,
    ) -> Any:
        """A Fetch of the first partition."""
        made = FetchRequest.FetchTopic
        part = made.FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=most, current_leader_epoch=-1
        )
        return FetchRequest(
            version=version, max_wait_ms=wait_ms, min_bytes=1, max_bytes=most,
            topics=[made(
                topic=topic, partitions=[part],
                topic_id=self.log.topics[topic].id if topic in self.log.topics else None,
            )],
        )  # fmt: skip

    def fetch(self, offset: int, version: int = 12, **more: Any) -> Any:
        """What is fetched at once."""
        answer = self.ask(self.fetching(offset, version, **more), version)
        return answer.responses[0].partitions[0]

    def list_offset(self, timestamp: int, version: int = 7) -> tuple[int, int, int]:
        """The error, offset and time that ListOffsets finds."""
        made = ListOffsetsRequest.ListOffsetsTopic
        part = made.ListOffsetsPartition(
            partition_index=0, timestamp=timestamp, current_leader_epoch=-1
        )
        body = ListOffsetsRequest(version=version, topics=[made(name="t", partitions=[part])])
        found = self.ask(body, version).topics[0].partitions[0]
        return found.error_code, found.offset, found.timestamp


def with_log(test: Callable[[Asked], None], **limits: int) -> None:
    """Run a test in a loop, with a log of two partitions."""

    @in_a_loop
    async def whole() -> None:
        """Make the log where there is a loop."""
        test(Asked(**limits))

    whole()


def values(records: bytes) -> list[tuple[int, bytes]]:
    """The records that were fetched: their offsets and values."""
    found, read = MemoryRecords(records), []
    while (each := found.next_batch()) is not None:
        read += [(record.offset, record.value) for record in each]
    return read


def test_what_was_produced_is_fetched_with_its_offsets_in_every_version() -> None:
    """Batches are kept as they come, compressed ones, too; only their offsets are written."""

    def test(log: Asked) -> None:
        for version in range(3, 10):
            assert log.produce(batch(b"a", b"b", compression=GZIP), version).error_code == 0
        for version in range(4, 16):
            part = log.fetch(3, version)
            assert part.high_watermark == 14
            assert values(part.records)[:3] == [(2, b"a"), (3, b"b"), (4, b"a")]

    with_log(test)


def test_a_fetch_gives_whole_batches_up_to_its_limit_and_one_at_least() -> None:
    """A limit below one batch's size is no reason to stand still."""

    def test(log: Asked) -> None:
        for value in (b"a" * 100, b"b" * 100, b"c" * 100):
            log.produce(batch(value))

        assert [offset for offset, _ in values(log.fetch(0, most=1).records)] == [0]
        assert [offset for offset, _ in values(log.fetch(0, most=400).records)] == [0, 1]
        assert values(log.fetch(3).records) == []
        assert log.fetch(4).error_code == KafkaError.OFFSET_OUT_OF_RANGE
        assert log.fetch(-1).error_code == KafkaError.OFFSET_OUT_OF_RANGE
        assert log.fetch(0, topic="x").error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        assert log.fetch(0, 13, topic="x").error_code == KafkaError.UNKNOWN_TOPIC_ID

    with_log(test)


@in_a_loop
async def test_a_fetch_waits_for_records_and_no_longer_than_it_wants() -> None:
    """It is answered when they come, when its time is over, and when its topic goes."""
    log = Asked()
    comes = log.ask_later(log.fetching(0, wait_ms=30_000), 12)
    assert not comes.done()
    log.produce(batch(b"a"))
    assert values(comes.result().responses[0].partitions[0].records) == [(0, b"a")]

    ends = log.ask_later(log.fetching(1, wait_ms=50), 12)
    assert values((await ends).responses[0].partitions[0].records) == []

    goes = log.ask_later(log.fetching(1, wait_ms=30_000), 12)
    log.log.delete(log.log.topics["t"])
    assert goes.result().responses[0].partitions[0].error_code == 3


@in_a_loop
async def test_no_more_fetches_wait_than_may() -> None:
    """One more is answered at once, with what there is."""
    log = Asked(max_waiting_fetches=1)
    waits = log.ask_later(log.fetching(0, wait_ms=100), 12)

    assert log.ask_later(log.fetching(0, wait_ms=100), 12).done()
    assert not waits.done()
    await waits


BAD = {
    "nothing": (None, KafkaError.INVALID_RECORD),
    "too little": (b"\0" * 60, KafkaError.INVALID_RECORD),
    "a flipped bit": (batch(b"abc")[:-2] + b"!!", KafkaError.CORRUPT_MESSAGE),
    "two batches": (batch(b"a") * 2, KafkaError.INVALID_RECORD),
    "another format": (batch(b"a")[:16] + b"\1" + batch(b"a")[17:],
                       KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "a batch too large": (batch(b"a" * 3_000), KafkaError.MESSAGE_TOO_LARGE),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_batch_is_refused_with_kafkas_error(what: str) -> None:
    """And nothing of it is kept."""

    def test(log: Asked) -> None:
        records, error = BAD[what]
        assert log.produce(records).error_code == error
        assert log.log.bytes == 0

    with_log(test, max_batch_bytes=2_000)


def test_what_goes_beyond_the_memory_is_refused_until_a_topic_is_deleted() -> None:
    """The producer hears at once that it cannot be, and why."""

    def test(log: Asked) -> None:
        while (part := log.produce(batch(b"a" * 100))).error_code == 0:
            pass
        assert part.error_code == KafkaError.POLICY_VIOLATION
        assert "records.max_bytes" in part.error_message
        assert log.log.bytes <= 2_000
        log.log.delete(log.log.topics["t"])
        log.log.create("t", 1)
        assert log.produce(batch(b"a" * 100)).error_code == 0

    with_log(test, max_bytes=2_000)


def test_an_idempotent_batch_that_comes_twice_is_kept_once() -> None:
    """A copy gets the offset of the first; a gap, an old epoch, a new beginning are Kafka's."""

    def test(log: Asked) -> None:
        def sent(epoch: int, sequence: int, *them: bytes) -> tuple[int, int]:
            part = log.produce(batch(*them, producer=7, epoch=epoch, sequence=sequence))
            return part.error_code, part.base_offset

        assert sent(0, 0, b"a", b"b") == (0, 0)
        assert sent(0, 2, b"c") == (0, 2)
        assert sent(0, 0, b"a", b"b") == (0, 0)
        assert sent(0, 2, b"c") == (0, 2)
        assert sent(0, 4, b"e") == (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert sent(1, 3, b"d") == (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert sent(1, 0, b"d") == (0, 3)
        assert sent(0, 3, b"d") == (KafkaError.INVALID_PRODUCER_EPOCH, -1)
        assert log.log.topics["t"].partitions[0].next_offset == 4

    with_log(test)


def test_sequence_numbers_begin_anew_after_the_largest() -> None:
    """After 2^31 - 1 comes 0."""

    def test(log: Asked) -> None:
        last = 2**31 - 1
        sent = [
            log.produce(batch(b"a", producer=7, epoch=0, sequence=number)).error_code
            for number in (last - 1, last, 0, last)
        ]
        assert sent == [0, 0, 0, 0]
        assert log.log.topics["t"].partitions[0].next_offset == 3

    with_log(test)


def test_producers_get_ids_and_transactions_are_refused() -> None:
    """Each a new one; who has one gets its next epoch; a transactional id is an error for good."""

    def test(log: Asked) -> None:
        for version in range(6):
            first = log.ask(InitProducerIdRequest(version=version, transactional_id=None), version)
            second = log.ask(InitProducerIdRequest(version=version, transactional_id=None), version)
            assert first.producer_id != second.producer_id
        again = InitProducerIdRequest(
            version=3, transactional_id=None, producer_id=first.producer_id, producer_epoch=4
        )
        assert log.ask(again, 3).producer_epoch == 5
        refused = log.ask(InitProducerIdRequest(version=3, transactional_id="x"), 3)
        assert refused.error_code == KafkaError.INVALID_REQUEST

    with_log(test)


def test_offsets_are_found_by_what_is_asked_for() -> None:
    """The beginning, the end, the first record from a time on, the youngest."""

    def test(log: Asked) -> None:
        log.produce(batch(b"a", b"b", timestamp=1_000))
        log.produce(batch(b"c", b"d", timestamp=2_000))
        log.produce(batch(b"e", b"f", timestamp=1_500, compression=GZIP))
        for version in range(1, 8):
            assert log.list_offset(-1, version)[:2] == (0, 6)
            assert log.list_offset(-2, version)[:2] == (0, 0)
            assert log.list_offset(1_001, version) == (0, 1, 1_001)
            assert log.list_offset(1_002, version) == (0, 2, 2_000)
            assert log.list_offset(9_000, version) == (0, -1, -1)
        assert log.list_offset(-3) == (0, 3, 2_001)

    with_log(test)


def test_there_is_one_leader_epoch_and_it_has_not_ended() -> None:
    """Epoch 0 ends where the log does; of a later one nothing is known."""

    def test(log: Asked) -> None:
        log.produce(batch(b"a"))
        made = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        for version in (2, 3, 4):
            ends = []
            for epoch, believed in ((0, -1), (3, -1), (0, 3)):
                part = made.OffsetForLeaderPartition(
                    partition=0, leader_epoch=epoch, current_leader_epoch=believed
                )
                body = OffsetForLeaderEpochRequest(
                    version=version, topics=[made(topic="t", partitions=[part])]
                )
                found = log.ask(body, version).topics[0].partitions[0]
                ends.append((found.error_code, found.end_offset))
            assert ends == [(0, 1), (0, -1), (KafkaError.UNKNOWN_LEADER_EPOCH, -1)]

    with_log(test)


# ── Topics ──────────────────────────────────────────────────────────────────────────────────


def created(
    log: Asked, version: int = 7, *, name: str = "u", **more: Any
) -> tuple[int, str | None]:
    """What became of a topic that was to be created."""
    wanted: dict[str, Any] = {"num_partitions": 3, "replication_factor": 1, **more}
    topic = CreateTopicsRequest.CreatableTopic(name=name, assignments=[], **wanted)
    body = CreateTopicsRequest(version=version, topics=[topic])
    result = log.ask(body, version).topics[0]
    return result.error_code, result.error_message


def test_topics_are_created_extended_and_deleted_in_every_version() -> None:
    """Under their names, and with their ids."""

    def test(log: Asked) -> None:
        grown = CreatePartitionsRequest.CreatePartitionsTopic
        for version in range(2, 8):
            assert created(log, version) == (0, None)
            more = CreatePartitionsRequest(topics=[grown(name="u", count=5, assignments=None)])
            assert log.ask(more, min(version - 2, 3)).results[0].error_code == 0
            assert len(log.log.topics["u"].partitions) == 5
            of_one = DeleteTopicsRequest.DeleteTopicState(name="u")
            gone = DeleteTopicsRequest(topic_names=["u"], topics=[of_one])
            assert log.ask(gone, version - 1).responses[0].error_code == 0
            assert "u" not in log.log.topics
        by_id = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=log.log.topics["t"].id)
        assert log.ask(DeleteTopicsRequest(topics=[by_id]), 6).responses[0].name == "t"

    with_log(test)


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"name": "t"}, KafkaError.TOPIC_ALREADY_EXISTS),
        ({"name": "no/slash"}, KafkaError.INVALID_TOPIC_EXCEPTION),
        ({"name": ".."}, KafkaError.INVALID_TOPIC_EXCEPTION),
        ({"num_partitions": 0}, KafkaError.INVALID_PARTITIONS),
        ({"num_partitions": 200}, KafkaError.INVALID_PARTITIONS),
        ({"replication_factor": 2}, KafkaError.INVALID_REPLICATION_FACTOR),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_kafkas_error(
    wanted: dict[str, Any], error: KafkaError
) -> None:
    """And a sentence that says why."""

    def test(log: Asked) -> None:
        code, why = created(log, **wanted)
        assert code == error
        assert why
        assert list(log.log.topics) == ["t"]

    with_log(test, max_partitions=100)


def test_the_cluster_and_the_configurations_are_told_in_every_version() -> None:
    """One broker; a topic's few configurations; nothing of a topic that there is not."""

    def test(log: Asked) -> None:
        for version in (0, 1):
            told = log.ask(DescribeClusterRequest(version=version), version)
            assert [(each.broker_id, each.port) for each in told.brokers] == [(1, 9)]
        made = DescribeConfigsRequest.DescribeConfigsResource
        asked = [made(resource_type=kind, resource_name=name, configuration_keys=None)
                 for kind, name in ((2, "t"), (4, "1"), (2, "x"), (8, "1"))]  # fmt: skip
        for version in range(1, 5):
            told = log.ask(DescribeConfigsRequest(version=version, resources=asked), version)
            assert [each.error_code for each in told.results] == [0, 0, 3, 42]
            assert "retention.ms" in {each.name for each in told.results[0].configs}

    with_log(test)


def test_a_limit_below_1_is_refused() -> None:
    """It is named, with what it must be."""
    with pytest.raises(BadConfiguration, match=r"records.max_bytes is 0: it is at least 1"):
        RecordLimits(max_bytes=0)
