"""
Copied segments of a Kafka log: record batches in, records out, in the order of their offsets.

Batches are read by kafka-python, in every format and compression that Kafka has had. What cannot be
read becomes a row of its own, with the reason, and is never an exception: a batch whose checksum or
content is wrong, a file that ends within a batch, an offset that was there before.

A transaction's records are told with what became of it (`committed`, `aborted`, or `open` where the
log ends before that): a partition is read twice for that, the first time for its markers alone.

Source: the Kafka 3.9 documentation (Message Format), KIP-98.
"""

from __future__ import annotations

import re
import struct
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeAlias

from herdproof.errors import CallerError
from herdproof.pipeline.offsets import TOPIC

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"

RAW_MOST = 64 * 1024
"""The most bytes that are kept of what cannot be read."""

DIRECTORY = re.compile(rf"{TOPIC}-([0-9]+)")
SEGMENT = re.compile(r"[0-9]{20}\.log")

_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8
_HEAD_BYTES = 12
"""A batch's offset and length, which every format has."""
_MAGIC_AT = 16
_LEAST_BYTES = 14
"""The bytes that a batch of the oldest format has at least behind its head."""

_MS = 1_000_000

File: TypeAlias = tuple[str, Callable[[], bytes]]
"""A segment's name, and what reads it."""


class LogRecord(NamedTuple):
    """A record of the log; or, with a `reason`, something that is none, as it was read."""

    partition: int
    offset: int
    time_ns: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    transaction: str | None = None
    reason: str | None = None
    why: str | None = None

    @property
    def place(self) -> str:
        """Where it stands."""
        return place_of(self.partition, self.offset)


def place_of(partition: int, offset: int) -> str:
    """Where a record stands."""
    return f"{TOPIC}-{partition}@{offset}"


class TwoCopies(CallerError):
    """A partition's segments are there from two brokers: one of them is to be named."""


# ── Files ───────────────────────────────────────────────────────────────────────────────────


def partitions_of(paths: Iterable[str]) -> dict[int, list[str]]:
    """
    The segments among these files, by partition, in the order of the log.

    Kafka names them by their first offset; other files are left out. Raises `TwoCopies`.
    """
    where: dict[int, str] = {}
    found: dict[int, list[str]] = {}
    for text in sorted(paths, key=lambda path: (PurePosixPath(path).name, path)):
        path = PurePosixPath(text)
        partition = DIRECTORY.fullmatch(path.parent.name)
        if partition is None or not SEGMENT.fullmatch(path.name):
            continue
        number, parent = int(partition[1]), str(path.parent)
        if where.setdefault(number, parent) != parent:
            raise TwoCopies(
                f"{TOPIC}-{number} is there twice, in {where[number]} and in {parent}: name one "
                f"broker's log directory"
            )
        found.setdefault(number, []).append(text)
    return dict(sorted(found.items()))


def read_partition(partition: int, files: Sequence[File]) -> Iterator[LogRecord]:
    """All records of a partition's segments, in the order of its log."""
    markers = Markers(files)
    expected = 0
    for name, load in files:
        for at, raw, batch, trouble in _batches(load):
            offset = expected if batch is None else max(expected, int(batch.base_offset))
            records, why = ([], trouble) if batch is None else _records(batch)
            if why:
                told, damaged = f"{why} ({name}, byte {at})", bytes(raw[:RAW_MOST])
                yield LogRecord(partition, offset, value=damaged, reason="malformed", why=told)
                continue
            if batch is None or _is_control(batch):
                continue
            became = markers.outcome(batch)
            for record in records:
                yield _record(partition, record, became, expected)
                expected = max(expected, record.offset + 1)


def _record(partition: int, record: Any, became: str | None, expected: int) -> LogRecord:
    """A record, unless its offset was there before."""
    time_ms = record.timestamp
    time_ns = None if time_ms is None or time_ms < 0 else time_ms * _MS
    read = LogRecord(partition, record.offset, time_ns, record.key, record.value, became)
    if record.offset >= expected:
        return read
    why = f"offset {record.offset} comes after {expected - 1}: two copies of a part of the log"
    return read._replace(reason="duplicate", why=why)


# ── Batches ─────────────────────────────────────────────────────────────────────────────────


def _batches(load: Callable[[], bytes]) -> Iterator[tuple[int, memoryview, Any, str]]:
    """
    Each batch with the byte where it begins and its bytes; or None, and what is wrong.

    After a length that cannot be, nothing more of the file can be found.
    """
    try:
        data = load()
    except OSError as problem:
        yield 0, memoryview(b""), None, f"the file cannot be read: {problem.strerror or problem}"
        return
    view, at = memoryview(data), 0
    while at < len(data):
        left = len(data) - at
        length = _LENGTH.unpack_from(data, at + _LENGTH_AT)[0] if left >= _HEAD_BYTES else -1
        if length < _LEAST_BYTES or length > left - _HEAD_BYTES:
            rest = view[at:]
            if any(rest):  # Kafka fills a segment beforehand with zeros, if it is told to
                yield at, rest, None, _cut_off(left, length)
            return
        end = at + _HEAD_BYTES + length
        raw = view[at:end]
        batch, why = _batch(raw)
        yield at, raw, batch, why
        at = end


def _cut_off(left: int, length: int) -> str:
    if left < _HEAD_BYTES or length >= _LEAST_BYTES:
        return f"the file ends within a batch, {left} bytes after its beginning"
    return f"no batch is {length} bytes long; {left} bytes are left of the file"


def _batch(raw: memoryview) -> tuple[Any, str]:
    """A batch whose checksum is right; or None, and why not."""
    magic = raw[_MAGIC_AT]
    if magic > 2:
        return None, f"a batch of format {magic} is not known"
    try:
        batch = _memory_records()(raw).next_batch()
        return (batch, "") if batch.validate_crc() else (None, "a batch's checksum is wrong")
    except Exception as problem:  # whatever a library makes of bytes that are no batch
        return None, f"this is no batch ({type(problem).__name__}: {problem})"


@cache
def _memory_records() -> Any:
    """Kafka-python's reader of batches; to load it takes the whole client, and warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return import_module("kafka.record").MemoryRecords


def _records(batch: Any) -> tuple[list[Any], str]:
    """All records of a batch; or none, and why."""
    try:
        return list(batch), ""
    except Exception as problem:  # of decompression, above all
        return [], f"a batch cannot be read ({type(problem).__name__}: {problem})"


def _is_control(batch: Any) -> bool:
    """Tells whether a batch is a transaction's marker."""
    return batch.magic > 1 and bool(batch.is_control_batch)


class Markers:
    """Where each transactional producer has ended its transactions, and how."""

    def __init__(self, files: Sequence[File]) -> None:
        self._ends: dict[int, list[tuple[int, str]]] = {}
        for _, load in files:
            for _, _, batch, _ in _batches(load):
                if batch is not None and _is_control(batch):
                    self._note(batch)

    def _note(self, batch: Any) -> None:
        for record in _records(batch)[0]:
            if record.commit or record.abort:
                how = COMMITTED if record.commit else ABORTED
                self._ends.setdefault(batch.producer_id, []).append((record.offset, how))

    def outcome(self, batch: Any) -> str | None:
        """The outcome of a batch's transaction; None if it is of none."""
        if batch.magic < 2 or not batch.is_transactional:
            return None
        ends = self._ends.get(batch.producer_id, [])
        index = bisect_left(ends, (batch.base_offset,))
        return ends[index][1] if index < len(ends) else OPEN
