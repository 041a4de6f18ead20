"""
Big-endian numbers and strings, read from bytes and written to bytes.

A `ByteReader` never reads beyond its bytes and never allocates for what they do not hold: a count
is checked against the bytes that are left before anything is made of it.

Source: system B's draft `002`; string = int16 length + UTF-8 (PROTOCOLS.md, Wire format of B).
"""

from __future__ import annotations

import struct
from functools import lru_cache

from herdproof.protocols.central_coordinator.wire.errors import Unsendable, WireError
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode

INT8 = struct.Struct(">b")
INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")

LONGEST_STRING_BYTES = 2**15 - 1


def malformed(why: str, offset: int) -> WireError:
    """The error of bytes that are no encoding of what they should be."""
    return WireError(ErrorCode.MALFORMED, why, offset)


def unsendable(why: str) -> Unsendable:
    """The error of a value that no bytes can stand for."""
    return Unsendable(ErrorCode.MALFORMED, why)


class ByteReader:
    """Reads values from the front of `data`, one after another."""

    __slots__ = ("_data", "offset")

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self._data = data
        self.offset = offset

    @property
    def left(self) -> int:
        """The number of bytes that have not been read."""
        return len(self._data) - self.offset

    def number(self, layout: struct.Struct) -> int:
        """The next number in this layout; `WireError` if the bytes end before it does."""
        try:
            (value,) = layout.unpack_from(self._data, self.offset)
        except struct.error:
            raise self._cut_off(layout.size) from None
        self.offset += layout.size
        number: int = value
        return number

    def string(self) -> str:
        """The next string; `WireError` if it is cut off, of negative length, or not UTF-8."""
        start = self.offset
        length = self.number(INT16)
        if length < 0:
            raise malformed(f"a string's length is {length}, it cannot be negative", start)
        if length > self.left:
            raise self._cut_off(length)
        end = self.offset + length
        try:
            text = self._data[self.offset : end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise malformed(f"is not UTF-8 ({error.reason})", self.offset + error.start) from None
        self.offset = end
        return text

    def count(self, layout: struct.Struct, least_bytes: int) -> int:
        """
        The number of elements that follow, of at least `least_bytes` each.

        `WireError` if it is negative, or more than the bytes that are left can hold.
        """
        start = self.offset
        count = self.number(layout)
        if count < 0:
            raise malformed(f"a count is {count}, it cannot be negative", start)
        if count * least_bytes > self.left:
            needed = f"{count} elements need at least {count * least_bytes} bytes"
            raise malformed(f"{needed}, {self.left} are left", start)
        return count

    def end(self) -> None:
        """`WireError` if anything is left: a longer body than expected is another body."""
        if self.left:
            raise malformed(f"{self.left} bytes too many at its end", self.offset)

    def _cut_off(self, needed: int) -> WireError:
        return malformed(f"needs {needed} bytes, {self.left} are left", self.offset)


@lru_cache(maxsize=1024)
def string_bytes(value: str) -> bytes:
    """
    A string's bytes behind their length; `Unsendable` if it is too long or has no UTF-8.

    The same topics and partitions are said to one member after another.
    """
    try:
        data = value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise unsendable(f"has no UTF-8 ({error.reason})") from None
    if len(data) > LONGEST_STRING_BYTES:
        raise unsendable(f"takes {len(data)} bytes, {LONGEST_STRING_BYTES} are the most")
    return INT16.pack(len(data)) + data


class ByteWriter:
    """Writes values one after another."""

    __slots__ = ("_data",)

    def __init__(self, begun: bytes = b"") -> None:
        self._data = bytearray(begun)

    def number(self, layout: struct.Struct, value: int) -> None:
        """A number in this layout; `Unsendable` if it is outside its range."""
        try:
            self._data += layout.pack(value)
        except struct.error:
            bits = 8 * layout.size
            raise unsendable(f"{value!r} is no integer of {bits} bits") from None

    def string(self, value: str) -> None:
        """A string; `Unsendable` if it is too long or has no UTF-8 (a lone surrogate)."""
        self._data += string_bytes(value)

    def written(self) -> bytes:
        """All that was written."""
        return bytes(self._data)
