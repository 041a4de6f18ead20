"""
Record batches, as producers send them and consumers get them: kept as they come.

Only the head of a batch is read; its offset and leader's epoch, which no checksum covers, are
written into it. Records within are looked at for one end, to find the first from a time on.

Source: Kafka's protocol guide (record batches, magic 2).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatch

from herdproof.broker.codec import KafkaError
from herdproof.errors import PeerError

BATCH_HEAD = struct.Struct(">qiibIhiqqqhii")
PLACE = struct.Struct(">q")
LEADER_EPOCH = struct.Struct(">i")
LEADER_EPOCH_AT = 12
LENGTH_AT_LEAST = BATCH_HEAD.size - LEADER_EPOCH_AT
"""A batch's length counts what follows it."""
CHECKED_FROM = 21
"""Where that begins which the checksum covers."""
MAGIC = 2
COMPRESSIONS = range(5)
COMPRESSION_BITS, TRANSACTIONAL_BIT, CONTROL_BIT = 0x07, 0x10, 0x20
NO_PRODUCER = -1


class BadBatch(PeerError):
    """A batch that is refused, with Kafka's error for it."""

    def __init__(self, error: KafkaError, why: str) -> None:
        super().__init__(why)
        self.error = error


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """A batch whose records have their offsets."""

    data: bytes
    base_offset: int
    last_offset: int
    max_timestamp: int

    def first_since(self, timestamp: int) -> tuple[int, int]:
        """
        The offset and time of the first record from a time on, which there is.

        That of the whole batch if it is compressed: what unpacks to a thousand times its size is
        not unpacked here. A consumer begins a little early then.
        """
        batch = DefaultRecordBatch(self.data)
        if not batch.compression_type:
            for record in batch:
                if record.timestamp >= timestamp:
                    return record.offset, record.timestamp
        return self.base_offset, self.max_timestamp


@dataclass(frozen=True, slots=True)
class ProducedBatch:
    """A batch as its producer sent it."""

    data: bytes
    count: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int

    def placed(self, base_offset: int, leader_epoch: int) -> RecordBatch:
        """The batch from this offset on."""
        data = bytearray(self.data)
        PLACE.pack_into(data, 0, base_offset)
        LEADER_EPOCH.pack_into(data, LEADER_EPOCH_AT, leader_epoch)
        last = base_offset + self.count - 1
        return RecordBatch(bytes(data), base_offset, last, self.max_timestamp)


def read_batch(data: bytes | None, max_bytes: int) -> ProducedBatch:
    """The one batch that a producer sends to a partition at a time; raises `BadBatch`."""
    if data is None or len(data) < BATCH_HEAD.size:
        raise BadBatch(KafkaError.INVALID_RECORD, "no batch of records was sent")
    if len(data) > max_bytes:
        raise BadBatch(
            KafkaError.MESSAGE_TOO_LARGE, f"a batch of {len(data)} bytes; {max_bytes} are the limit"
        )
    (
        _offset, length, _epoch, magic, checksum, attributes, last_delta, _first_timestamp,
        max_timestamp, producer_id, producer_epoch, base_sequence, count,
    ) = BATCH_HEAD.unpack_from(data)  # fmt: skip
    if magic != MAGIC:
        raise BadBatch(
            KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"records of format {magic}, not {MAGIC}"
        )
    if length != len(data) - LEADER_EPOCH_AT:
        raise BadBatch(KafkaError.INVALID_RECORD, "more or less than one batch was sent")
    if crc32c(memoryview(data)[CHECKED_FROM:]) != checksum:
        raise BadBatch(KafkaError.CORRUPT_MESSAGE, "the batch is not the one that was checksummed")
    if count < 1 or last_delta != count - 1:
        raise BadBatch(KafkaError.INVALID_RECORD, f"{count} records, the last at {last_delta}")
    if attributes & COMPRESSION_BITS not in COMPRESSIONS:
        raise BadBatch(KafkaError.UNSUPPORTED_COMPRESSION_TYPE, "no such compression is known")
    if attributes & (TRANSACTIONAL_BIT | CONTROL_BIT):
        raise BadBatch(KafkaError.INVALID_RECORD, "transactions are not offered")
    if producer_id != NO_PRODUCER and (producer_epoch < 0 or base_sequence < 0):
        raise BadBatch(KafkaError.INVALID_RECORD, "an idempotent batch without epoch or sequence")
    return ProducedBatch(data, count, max_timestamp, producer_id, producer_epoch, base_sequence)
