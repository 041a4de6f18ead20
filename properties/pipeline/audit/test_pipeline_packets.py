"""Records on their way to their judges: none is lost, and each comes where its group is."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from herdproof.pipeline.audit.work import protocol_work
from herdproof.pipeline.spark import packets as packets_module
from herdproof.pipeline.spark.packets import (
    LINES,
    MALFORMED,
    NUMBERS,
    ORDER,
    PACKET_COLUMNS,
    SLICE_NS,
    Packet,
    bucket_of,
    pack_records,
    packets_of,
)
from herdproof.protocols.central_coordinator.simulated.traced import traced

BUCKETS = 3
WORK = protocol_work()
BROKEN = (b"no json", None, b"\xff", b'{"protocol":"x"}')


def records(seed: int) -> list[tuple[str, int, int | None, bytes | None]]:
    """Two runs' lines in two files, and a third's records that are none."""
    told: list[tuple[str, int, int | None, bytes | None]] = [
        (f"file:/a%20{run}", 0, None, line.written().encode())
        for run in (seed, seed + 2)
        for line in traced(run).lines
    ]
    return [*told, *(("topic-0@", 0, at, raw) for at, raw in enumerate(BROKEN, start=7))]


def packed(some: list[tuple[Any, ...]], size: int) -> list[Packet]:
    """Their packets, of batches of so many records."""
    batches = [
        pa.RecordBatch.from_arrays(
            [
                pa.array(column, kind)
                for column, kind in zip(zip(*part, strict=True), KINDS, strict=True)
            ],
            names=["source", "block", "position", "raw"],
        )
        for part in (some[at : at + size] for at in range(0, len(some), size))
    ]
    return list(packets_of(pack_records(batches, WORK, BUCKETS, {})))


KINDS = (pa.string(), pa.int64(), pa.int64(), pa.binary())


@pytest.mark.parametrize(("size", "at_once"), [(10_000, 20_000), (100, 350), (1, 1)])
def test_every_record_arrives_once_where_its_group_is(
    size: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What concerns all groups is in every bucket; whatever is read and packed at once."""
    monkeypatch.setattr(packets_module, "AT_ONCE", at_once)
    some = records(1)
    arrived: Counter[tuple[str, int, bytes | None]] = Counter()
    for packet in packed(some, size):
        if packet.kind == LINES:
            source, own = packet.records()
            for line, (position, raw) in zip(packet.lines(WORK), own, strict=True):
                assert (line.protocol, line.run, line.group) == packet[1:4]
                assert line.time_ns // SLICE_NS == packet.slice
                assert line.place == f"{source}:{position}"
                if line.group:
                    where = bucket_of(line.protocol, line.run, line.group, BUCKETS)
                    assert packet.bucket == where
                if line.group or packet.bucket == 0:
                    arrived[source, position, raw] += 1
                else:
                    arrived["again", position, raw] += 1
        elif packet.kind == MALFORMED:
            assert packet.protocol is None
            arrived.update(bad[:3] for bad in packet.bad())

    numbers: Counter[str] = Counter()
    wanted: Counter[tuple[str, int, bytes | None]] = Counter()
    for source, _, at, bytes_ in some:
        numbers[source] += 1
        name = source.replace("file:", "").replace("%20", " ")
        wanted[name, at or numbers[source], bytes_] += 1
        if bytes_ and b'"action"' in bytes_ and b'"group"' not in bytes_:
            wanted["again", at or numbers[source], bytes_] += BUCKETS - 1
    assert arrived == wanted


def test_what_is_malformed_comes_with_its_reason() -> None:
    """In the words of who read it."""
    (packet,) = packed([*records(1)][-len(BROKEN) :], 10)

    reasons = [(at, reason, why) for _, at, _, reason, why in packet.bad()]
    assert [reason for _, reason, _ in reasons] == ["malformed"] * 3 + ["unknown_protocol"]
    assert reasons[1] == (8, "malformed", "it has no value")
    assert "UTF-8" in reasons[2][2]


def test_the_numbers_of_all_groups_lines_are_in_every_bucket() -> None:
    """A line is known to be missing wherever a group of its run is."""
    told = [p for p in packed(records(1), 500) if p.kind == NUMBERS]

    assert {(p.bucket, p.run) for p in told} == {(b, r) for b in range(BUCKETS) for r in "13"}


def test_a_packets_columns_are_what_spark_is_told() -> None:
    """In the order in which they arrive, and the order of a bucket is one of them."""
    assert tuple(PACKET_COLUMNS) == Packet._fields
    assert set(ORDER) < set(PACKET_COLUMNS)


def test_slices_come_in_the_order_of_time_however_lines_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a long group can be followed though it does not fit in memory."""
    monkeypatch.setattr(packets_module, "SLICE_NS", 5_000_000_000)
    some = records(1)[: -len(BROKEN)]
    Random(1).shuffle(some)

    found = sorted(
        (p for p in packed(some, 300) if p.kind == LINES and p.run == "1" and p.bucket == 0),
        key=lambda p: (p.group, p.slice),
    )
    times: dict[tuple[str | None, int], list[int]] = {}
    for packet in found:
        own = times.setdefault((packet.group, packet.slice), [])
        own += [line.time_ns for line in packet.lines(WORK)]
    assert len(times) > 4, "the run is no longer than a slice or two"
    for (before, early), (after, late) in pairwise(times.items()):
        assert before[0] != after[0] or max(early) < min(late)
