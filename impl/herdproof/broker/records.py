"""
Records by the log in memory: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, InitProducerId.

A Fetch waits until there are as many bytes as it wants, or its time is over; it never waits where
there is an error to tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import (
    FetchResponse,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.producer import InitProducerIdResponse, ProduceResponse

from herdproof.broker.answering import Handler, Handlers, Reply, at_once
from herdproof.broker.batches import BadBatch
from herdproof.broker.codec import KafkaError, KafkaRequest
from herdproof.broker.log import LEADER_EPOCH, LoggedTopic, MemoryLog, PartitionLog
from herdproof.broker.settings import RecordLimits

TOPIC_IDS_FROM = 13
"""The version from which Fetch names topics by their ids."""
MOST_WAIT_MS = 60_000
"""No Fetch waits longer."""
ALL_ACKS = (-1, 0, 1)
LATEST, EARLIEST, YOUNGEST = -1, -2, -3
"""The marks that ListOffsets asks for instead of a time."""
NOWHERE = -1
"""An offset, or a time, that there is not."""


class Records:
    """The records of the log in memory, in the loop that it lives in."""

    def __init__(self, log: MemoryLog, limits: RecordLimits) -> None:
        self._log = log
        self._limits = limits
        self._waiting = 0

    def handlers(self) -> Handlers:
        """Who answers."""
        return {
            ApiKey.Produce: Handler((3, 9), self._produce),
            ApiKey.Fetch: Handler((4, 15), self._fetch),
            ApiKey.ListOffsets: Handler((1, 7), at_once(self._list_offsets)),
            ApiKey.InitProducerId: Handler((0, 5), at_once(self._init_producer)),
            ApiKey.OffsetForLeaderEpoch: Handler((2, 4), at_once(self._epoch_ends)),
        }

    # ── Produce ─────────────────────────────────────────────────────────────────────────────

    def _produce(self, request: KafkaRequest, reply: Reply) -> None:
        """Take batches; whoever wants no acknowledgement gets no answer."""
        acks = request.body.acks
        answer = ProduceResponse(
            version=request.head.version,
            responses=[
                ProduceResponse.TopicProduceResponse(
                    name=topic.name,
                    partition_responses=[
                        self._append(topic.name, part.index, part.records, acks)
                        for part in topic.partition_data
                    ],
                )
                for topic in request.body.topic_data
            ],
        )
        reply(answer if acks else None)

    def _append(self, topic: str, index: int, records: bytes | None, acks: int) -> Any:
        """Take one partition's batch; what became of it."""
        error, offset, why = KafkaError.NONE, NOWHERE, None
        partition = self._log.partition(topic, index)
        if acks not in ALL_ACKS:
            error = KafkaError.INVALID_REQUIRED_ACKS
        elif partition is None:
            error = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        else:
            try:
                offset = self._log.append(partition, records)
            except BadBatch as bad:
                error, why = bad.error, str(bad)
        kind = ProduceResponse.TopicProduceResponse.PartitionProduceResponse
        return kind(
            index=index, error_code=error, base_offset=offset, error_message=why,
            log_start_offset=NOWHERE if error else 0,
        )  # fmt: skip

    def _init_producer(self, request: KafkaRequest) -> ApiMessage:
        """Give an idempotent producer its id; transactions are not offered."""
        body, version = request.body, request.head.version
        if body.transactional_id is not None:
            return InitProducerIdResponse(version=version, error_code=KafkaError.INVALID_REQUEST)
        if body.producer_id >= 0 and 0 <= body.producer_epoch < 2**15 - 1:
            known, epoch = body.producer_id, body.producer_epoch + 1
        else:
            known, epoch = self._log.new_producer(), 0
        return InitProducerIdResponse(version=version, producer_id=known, producer_epoch=epoch)

    # ── Fetch ───────────────────────────────────────────────────────────────────────────────

    def _fetch(self, request: KafkaRequest, reply: Reply) -> None:
        """Give records, at once if there are enough or there is no time to wait."""
        gathered = FoundNow(self._log, request)
        wait_ms = min(request.body.max_wait_ms, MOST_WAIT_MS)
        is_full = self._waiting >= self._limits.max_waiting_fetches
        if gathered.is_enough or wait_ms <= 0 or is_full:
            reply(gathered.answer())
            return
        self._waiting += 1
        FetchWaiting(self, self._log, request, reply, gathered, wait_ms)

    def waited(self) -> None:
        """A Fetch that waited is answered."""
        self._waiting -= 1

    # ── Offsets ─────────────────────────────────────────────────────────────────────────────

    def _list_offsets(self, request: KafkaRequest) -> ApiMessage:
        """Where partitions begin and end, or were at a time."""
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        return ListOffsetsResponse(
            version=request.head.version,
            topics=[
                kind(name=topic.name, partitions=[self._found(topic.name, part)
                                                  for part in topic.partitions])
                for topic in request.body.topics
            ],
        )  # fmt: skip

    def _found(self, topic: str, asked: Any) -> Any:
        """The offset that is asked for of one partition."""
        made = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
        partition = self._log.partition(topic, asked.partition_index)
        error = wrong_epoch(partition, asked.current_leader_epoch)
        if error or partition is None:
            return made(partition_index=asked.partition_index, error_code=error)
        offset, timestamp = looked_up(partition, asked.timestamp)
        return made(
            partition_index=asked.partition_index, offset=offset, timestamp=timestamp,
            leader_epoch=NOWHERE if offset == NOWHERE else LEADER_EPOCH,
        )  # fmt: skip

    def _epoch_ends(self, request: KafkaRequest) -> ApiMessage:
        """Where leaders' epochs end: there is one, and it goes on."""
        made = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        return OffsetForLeaderEpochResponse(
            version=request.head.version,
            topics=[
                made(topic=topic.topic, partitions=[self._epoch_end(topic.topic, part)
                                                    for part in topic.partitions])
                for topic in request.body.topics
            ],
        )  # fmt: skip

    def _epoch_end(self, topic: str, asked: Any) -> Any:
        """Where an epoch ends in one partition."""
        made = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset
        partition = self._log.partition(topic, asked.partition)
        error = wrong_epoch(partition, asked.current_leader_epoch)
        if error or partition is None:
            return made(partition=asked.partition, error_code=error)
        if asked.leader_epoch != LEADER_EPOCH:
            return made(partition=asked.partition)
        return made(
            partition=asked.partition, leader_epoch=LEADER_EPOCH, end_offset=partition.next_offset
        )


def wrong_epoch(partition: PartitionLog | None, epoch: int) -> KafkaError:
    """The error of a partition and the epoch that a client believes its leader to be in."""
    if partition is None:
        return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    return KafkaError.UNKNOWN_LEADER_EPOCH if epoch > LEADER_EPOCH else KafkaError.NONE


def looked_up(partition: PartitionLog, timestamp: int) -> tuple[int, int]:
    """The offset and time that ListOffsets asks for."""
    if timestamp == LATEST:
        return partition.next_offset, NOWHERE
    if timestamp == EARLIEST:
        return 0, NOWHERE
    if timestamp == YOUNGEST:
        return partition.youngest() or (NOWHERE, NOWHERE)
    return partition.first_since(timestamp) or (NOWHERE, NOWHERE)


class FoundNow:
    """The result of a Fetch by now: `is_enough` if it need not wait for more."""

    def __init__(self, log: MemoryLog, request: KafkaRequest) -> None:
        self._version = request.head.version
        self._left = request.body.max_bytes
        self._bytes = 0
        self._is_wrong = False
        self.partitions: list[PartitionLog] = []
        """The partitions that it may wait for."""
        self._error = KafkaError.NONE
        self._topics: list[Any] = []
        if request.body.session_id:
            self._error = KafkaError.FETCH_SESSION_ID_NOT_FOUND
        else:
            self._topics = [self._topic(log, topic) for topic in request.body.topics]
        self.is_enough = (
            bool(self._error) or self._is_wrong or self._bytes >= request.body.min_bytes
            or not self.partitions
        )  # fmt: skip
        self.missing = request.body.min_bytes - self._bytes

    def answer(self) -> ApiMessage:
        """The answer."""
        return FetchResponse(version=self._version, error_code=self._error, responses=self._topics)

    def _topic(self, log: MemoryLog, asked: Any) -> Any:
        """The records found of one topic."""
        made = FetchResponse.FetchableTopicResponse
        unknown = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        topic: LoggedTopic | None
        if self._version >= TOPIC_IDS_FROM:
            topic, unknown = log.by_id(asked.topic_id), KafkaError.UNKNOWN_TOPIC_ID
        else:
            topic = log.topics.get(asked.topic)
        partitions = [self._partition(log, topic, part, unknown) for part in asked.partitions]
        if self._version >= TOPIC_IDS_FROM:
            return made(topic_id=asked.topic_id, partitions=partitions)
        return made(topic=asked.topic, partitions=partitions)

    def _partition(
        self, log: MemoryLog, topic: LoggedTopic | None, asked: Any, unknown: KafkaError
    ) -> Any:
        """The records found of one partition."""
        made = FetchResponse.FetchableTopicResponse.PartitionData
        partition = None if topic is None else log.partition(topic.name, asked.partition)
        error = unknown if topic is None else wrong_epoch(partition, asked.current_leader_epoch)
        if partition is not None and not error and not (
            0 <= asked.fetch_offset <= partition.next_offset
        ):  # fmt: skip
            error = KafkaError.OFFSET_OUT_OF_RANGE
        if error or partition is None:
            self._is_wrong = True
            return made(
                partition_index=asked.partition, error_code=error, high_watermark=NOWHERE,
                aborted_transactions=None, records=b"",
            )  # fmt: skip
        self.partitions.append(partition)
        return made(
            partition_index=asked.partition, high_watermark=partition.next_offset,
            last_stable_offset=partition.next_offset, log_start_offset=0,
            aborted_transactions=None, records=b"".join(self._records(partition, asked)),
        )  # fmt: skip

    def _records(self, partition: PartitionLog, asked: Any) -> Iterator[bytes]:
        """Whole batches, as many as are allowed; the first of all in any case."""
        left = asked.partition_max_bytes
        for batch in partition.since(asked.fetch_offset):
            size = len(batch.data)
            if self._bytes and size > min(left, self._left):
                return
            self._bytes += size
            left -= size
            self._left -= size
            yield batch.data


class FetchWaiting:
    """A Fetch that waits for records."""

    def __init__(
        self, records: Records, log: MemoryLog, request: KafkaRequest, reply: Reply,
        gathered: FoundNow, wait_ms: int,
    ) -> None:  # fmt: skip
        self._records = records
        self._log = log
        self._request = request
        self._reply = reply
        self._missing = gathered.missing
        self._partitions = gathered.partitions
        for partition in self._partitions:
            partition.waiting[self] = None
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(wait_ms / 1000, self.gone)

    def appended(self, size: int) -> None:
        """Count bytes that have come."""
        self._missing -= size
        if self._missing <= 0:
            self.gone()

    def gone(self) -> None:
        """Wait no longer."""
        self._timer.cancel()
        for partition in self._partitions:
            partition.waiting.pop(self, None)
        self._records.waited()
        self._reply(FoundNow(self._log, self._request).answer())
