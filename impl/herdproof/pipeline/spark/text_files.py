"""
Text files of this machine, read by Python itself: whole, or in parts by several processes.

Where Spark's workers are on this machine, too, they read lines in this way: through Java, a line
costs twice what it costs to read and pack it. What a line is, is the same as to Spark: it ends with
a newline, and the mark of a text's byte order is of no line.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, cast

import pyarrow as pa

from herdproof.pipeline.spark.sources import NoSource

PACKED = frozenset({".bz2", ".deflate", ".lz4", ".snappy", ".zst"})
"""Of files that are packed, those that Spark alone reads."""

MARK_OF_ORDER = b"\xef\xbb\xbf"
"""Byte order mark that a text file may begin with; it is of no line."""

PART_BYTES = 16 * 1024 * 1024
"""The length of a part of a file, which goes on to the end of its last line."""


class TextPart(NamedTuple):
    """A part of a file, from the beginning of a line to the end of one."""

    path: str
    begin: int
    size: int
    lines_before: int


def is_readable(path: str) -> bool:
    """True if a file of lines is on this machine, and packed in no way but gzip's."""
    return "://" not in path and Path(path).suffix not in PACKED


@contextmanager
def told_as_source(path: str) -> Iterator[None]:
    """Within this context, what cannot be read is said in a sentence."""
    try:
        yield
    except (OSError, EOFError, zlib.error, pa.ArrowException) as problem:
        raise NoSource(f"{path} cannot be read: {problem}") from problem


def lines_of(path: str) -> Iterator[bytes]:
    """A text file's lines."""
    with _opened(path) as file:
        yield from _lines(file, sys.maxsize)


def parts_of(paths: Iterable[str]) -> tuple[list[TextPart], int]:
    """These files in parts, and the number of lines in all; raises `NoSource`."""
    parts, count = list[TextPart](), 0
    for path in paths:
        with told_as_source(path), _opened(path) as file:
            # What is packed can be read from its beginning alone: it is one part.
            own, lines = _whole(path, file) if path.endswith(".gz") else _parts(path, file)
        parts += own
        count += lines
    return parts, count


def _whole(path: str, file: IO[bytes]) -> tuple[list[TextPart], int]:
    lines = sum(1 for _ in file)
    return [TextPart(path, 0, sys.maxsize, 0)] if lines else [], lines


def _parts(path: str, file: IO[bytes]) -> tuple[list[TextPart], int]:
    parts, lines = list[TextPart](), 0
    while block := file.read(PART_BYTES):
        block += file.readline()
        parts.append(TextPart(path, file.tell() - len(block), len(block), lines))
        lines += block.count(b"\n") + (not block.endswith(b"\n"))
    return parts, lines


def records_of(part: TextPart) -> Iterator[tuple[str, int, bytes]]:
    """The records of a part: the file, the number of the line there, and the line."""
    with _opened(part.path) as file:
        file.seek(part.begin)
        for number, line in enumerate(_lines(file, part.size), start=part.lines_before + 1):
            yield part.path, number, line


def _opened(path: str) -> IO[bytes]:
    """The file, as it is unpacked."""
    if path.endswith(".gz"):
        return cast("IO[bytes]", gzip.open(path))
    return Path(path).open("rb")


def _lines(file: IO[bytes], size: int) -> Iterator[bytes]:
    """The lines of so many bytes from here on."""
    is_first = file.tell() == 0
    for line in file:
        own = line.removeprefix(MARK_OF_ORDER) if is_first else line
        is_first = False
        yield own.removesuffix(b"\n")
        size -= len(line)
        if size <= 0:
            return
