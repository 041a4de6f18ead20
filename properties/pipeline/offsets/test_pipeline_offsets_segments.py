"""
Copied log segments are read whole, and what cannot be read of them is told.

Reference: the Kafka 3.9 documentation, Message Format
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdproof.pipeline.offsets.segments import (
    LogRecord,
    TwoCopies,
    partitions_of,
    read_partition,
)
from herdproof.pipeline.offsets.source import find_segments, read_segments
from herdproof.pipeline.spark.sources import NoSource
from properties.pipeline.offsets.offset_records import batch, marker, write_segment

PAIRS = [(b"k%d" % n, b"v" * n if n % 3 else None) for n in range(7)]
MS = 1_000_000
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def read(*segments: bytes) -> list[LogRecord]:
    """What partition 3 holds, of these segments."""
    files = [(f"segment {n}", lambda data=data: data) for n, data in enumerate(segments)]
    return list(read_partition(3, files))


def plain(records: list[LogRecord]) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offsets, keys and values of what could be read."""
    return [(r.offset, r.key, r.value) for r in records if r.reason is None]


# ── Batches ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("magic", "codec"),
    [
        *((0, codec) for codec in ("none", "gzip", "snappy")),
        *((1, codec) for codec in ("none", "gzip", "snappy", "lz4")),
        *((2, codec) for codec in CODECS),
    ],
)
def test_batches_of_every_format_and_compression_are_read(magic: int, codec: str) -> None:
    """Formats 0 and 1 are older brokers'; zstd came with 2, lz4 as everybody has it with 1."""
    found = read(batch(PAIRS, magic=magic, compression=CODECS[codec]))

    assert plain(found) == [(n, k, v) for n, (k, v) in enumerate(PAIRS)]
    assert [r.place for r in found[:2]] == ["__consumer_offsets-3@0", "__consumer_offsets-3@1"]
    times = [None if magic == 0 else (1_700_000_000_000 + n) * MS for n in range(len(PAIRS))]
    assert [r.time_ns for r in found] == times
    assert {r.transaction for r in found} == {None}


def test_segments_are_read_one_after_the_other_with_the_gaps_of_compaction() -> None:
    """An offset that is not there was compacted away."""
    found = read(batch(PAIRS[:2], 0), batch(PAIRS[2:3], 40) + batch(PAIRS[3:], 100))

    assert [r.offset for r in found] == [0, 1, 40, 100, 101, 102, 103]
    assert all(r.reason is None for r in found)


def test_what_became_of_a_transaction_is_told_though_it_spans_segments() -> None:
    """By the first marker of its producer behind it; markers themselves are no records."""
    first = batch([(b"a", b"1")], 0, producer=7) + batch([(b"b", b"1")], 1, producer=8)
    second = batch([(b"c", b"1")], 2) + marker(3, 8, committed=False)
    third = marker(4, 7, committed=True) + batch([(b"d", b"1")], 5, producer=7)

    found = read(first, second, third)

    assert [(r.key, r.transaction) for r in found] == [
        (b"a", "committed"), (b"b", "aborted"), (b"c", None), (b"d", "open"),
    ]  # fmt: skip


# ── What is wrong with them ─────────────────────────────────────────────────────────────────


def test_a_file_may_end_anywhere() -> None:
    """Whole batches are read; the rest is one row, with its bytes and where they were."""
    first, second = batch(PAIRS[:2], 0), batch(PAIRS[2:], 2)
    whole = first + second
    for end in range(len(first) + 8, len(whole)):  # before, all bytes of the offset are zero
        *records, last = read(whole[:end])

        assert [r.offset for r in records] == [0, 1]
        assert (last.reason, last.offset, last.value) == ("malformed", 2, whole[len(first) : end])
        assert last.why == (
            f"the file ends within a batch, {end - len(first)} bytes after its beginning "
            f"(segment 0, byte {len(first)})"
        )


def test_a_batch_whose_checksum_is_wrong_is_set_aside_and_the_next_one_is_read() -> None:
    """One bad bit costs one batch."""
    first, second = bytearray(batch(PAIRS[:2], 0)), batch(PAIRS[2:], 2)
    first[-1] ^= 1

    damaged, *records = read(bytes(first) + second)

    assert (damaged.reason, damaged.value) == ("malformed", bytes(first))
    assert "checksum" in (damaged.why or "")
    assert [r.offset for r in records] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, 13])
def test_after_a_length_that_cannot_be_nothing_more_is_looked_for(length: int) -> None:
    """And nobody looks for it for ever."""
    first, second = batch(PAIRS[:2], 0), bytearray(batch(PAIRS[2:], 2))
    second[8:12] = length.to_bytes(4, "big", signed=True)

    found = read(first + bytes(second))

    assert [r.reason for r in found] == [None, None, "malformed"]
    assert f"no batch is {length} bytes long" in (found[-1].why or "")


def test_zeros_behind_the_last_batch_are_nothing() -> None:
    """A broker that is told to reserves a segment's space beforehand (log.preallocate)."""
    found = read(batch(PAIRS, 0) + bytes(4096))

    assert [r.reason for r in found] == [None] * len(PAIRS)


def test_an_unknown_format_is_set_aside() -> None:
    """A later Kafka's batch is not guessed at."""
    data = bytearray(batch(PAIRS, 0))
    data[16] = 3

    (found,) = read(bytes(data))

    assert found.reason == "malformed"
    assert "format 3" in (found.why or "")


def test_an_offset_that_was_there_before_is_a_duplicate() -> None:
    """A copy made while Kafka cleaned holds a part of the log twice."""
    found = read(batch(PAIRS[:3], 0), batch(PAIRS[:2], 1))

    assert [(r.offset, r.reason) for r in found] == [
        (0, None), (1, None), (2, None), (1, "duplicate"), (2, "duplicate"),
    ]  # fmt: skip
    assert found[3].key == b"k0"


def test_a_file_that_cannot_be_read_is_told() -> None:
    """The others are read."""

    def denied() -> bytes:
        raise PermissionError(13, "Permission denied")

    files: list[tuple[str, Callable[[], bytes]]] = [
        ("first", denied), ("second", lambda: batch(PAIRS, 0)),
    ]  # fmt: skip
    damaged, *records = read_partition(0, files)

    assert "Permission denied (first" in (damaged.why or "")
    assert len(records) == len(PAIRS)


@settings(max_examples=150)
@given(data=st.binary(max_size=200), codec=st.sampled_from(list(CODECS.values())))
def test_garbage_never_raises(data: bytes, codec: int) -> None:
    """Neither as a file, nor behind a batch, nor as what was compressed."""
    whole = batch(PAIRS, 0, compression=codec)
    broken = bytearray(whole)
    broken[61:] = data[: len(whole) - 61].ljust(len(whole) - 61, b"\x00")

    for segment in (data, whole + data, bytes(broken)):
        for record in read(segment):
            assert record.reason is None or record.why


# ── Files ───────────────────────────────────────────────────────────────────────────────────


def test_segments_are_found_by_their_names_in_the_order_of_the_log(tmp_path: Path) -> None:
    """Indexes, snapshots, deleted and half-cleaned segments are not read, nor other topics."""
    late = write_segment(tmp_path, b"", 1, 500)
    early = write_segment(tmp_path, b"", 1, 90)
    other = write_segment(tmp_path, b"", 0)
    for suffix in (".index", ".timeindex", ".snapshot", ".log.deleted", ".log.swap"):
        early.with_suffix(suffix).write_bytes(b"")
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / early.name).write_bytes(b"")

    assert find_segments([str(tmp_path)]) == {0: [str(other)], 1: [str(early), str(late)]}
    assert find_segments([str(early.parent)]) == {1: [str(early), str(late)]}
    with pytest.raises(NoSource, match="no segment of __consumer_offsets"):
        find_segments([str(tmp_path / "orders-0")])


def test_a_partition_of_two_brokers_is_refused() -> None:
    """Which of two copies is to be believed is the user's to say."""
    name = "__consumer_offsets-4/00000000000000000000.log"

    with pytest.raises(TwoCopies, match=r"__consumer_offsets-4 is there twice, in a/"):
        partitions_of([f"a/{name}", f"b/{name}"])


def test_partitions_become_batches_of_rows(tmp_path: Path) -> None:
    """What Spark's workers do with the names of files."""
    import pyarrow as pa

    path = write_segment(tmp_path, batch(PAIRS, 0) + b"rest", 5)
    named = pa.RecordBatch.from_pylist([{"partition": 5, "paths": [str(path)]}])

    (found,) = read_segments([named])

    rows = found.to_pylist()
    assert [r["offset"] for r in rows] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert rows[1]["place"] == "__consumer_offsets-5@1"
    assert (rows[1]["key"], rows[1]["value"], rows[1]["reason"]) == (b"k1", b"v", None)
    assert (rows[-1]["value"], rows[-1]["reason"]) == (b"rest", "malformed")
