"""
Layouts as values: how a field, a struct, an array is read and written, and what it is called.

Both forms are tables of these (`legacy.BODIES`, `version1.BODIES`); the codecs and the tables of
docs/wire.md are read off them, so that they cannot differ.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from herdproof.consuming.offsets import OffsetReset
from herdproof.protocols.central_coordinator.wire import primitives
from herdproof.protocols.central_coordinator.wire.errors import Unsendable, WireError
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode
from herdproof.protocols.central_coordinator.wire.primitives import (
    ByteReader,
    ByteWriter,
    malformed,
    unsendable,
)

T = TypeVar("T")
Member = TypeVar("Member", bound=Enum)


class FieldKind(Protocol[T]):
    """Layout of values of one sort in a frame."""

    @property
    def label(self) -> str:
        """The name of this kind in docs/wire.md."""

    @property
    def least_bytes(self) -> int:
        """The least that a value takes."""

    def read(self, reader: ByteReader) -> T:
        """The next value; `WireError` if there is none."""

    def write(self, writer: ByteWriter, value: T) -> None:
        """Write a value; `Unsendable` if it does not fit."""


@dataclass(frozen=True, slots=True)
class Number:
    """A signed integer, perhaps within narrower bounds than its bytes allow."""

    name: str
    layout: struct.Struct
    least: int | None = None
    most: int | None = None

    @property
    def label(self) -> str:
        """Its type, and its bounds where it has any."""
        if self.least is None:
            return self.name
        if self.most is None:
            return f"{self.name} ≥ {self.least}"
        return f"{self.name} from {self.least} to {self.most}"

    @property
    def least_bytes(self) -> int:
        """The bytes of the number."""
        return self.layout.size

    def read(self, reader: ByteReader) -> int:
        """The next number; `WireError` if it is cut off or out of bounds."""
        start = reader.offset
        value = reader.number(self.layout)
        if not self._in_bounds(value):
            raise malformed(f"{value} is not {self.label}", start)
        return value

    def write(self, writer: ByteWriter, value: int) -> None:
        """Write a number; `Unsendable` if it is out of bounds."""
        writer.number(self.layout, value)
        if not self._in_bounds(value):
            raise unsendable(f"{value} is not {self.label}")

    def _in_bounds(self, value: int) -> bool:
        return not (
            (self.least is not None and value < self.least)
            or (self.most is not None and value > self.most)
        )


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    label: str = "string"
    least_bytes: int = 2

    def read(self, reader: ByteReader) -> str:
        """The next string; `WireError` if it is cut off or not UTF-8."""
        return reader.string()

    def write(self, writer: ByteWriter, value: str) -> None:
        """Write a string; `Unsendable` if it is too long."""
        writer.string(value)


@dataclass(frozen=True, slots=True)
class Bool:
    """One byte, 0 or 1; anything else is malformed."""

    label: str = "bool"
    least_bytes: int = 1

    def read(self, reader: ByteReader) -> bool:
        """The next truth value; `WireError` if it is neither 0 nor 1."""
        start = reader.offset
        value = reader.number(primitives.INT8)
        if value not in (0, 1):
            raise malformed(f"{value} is no bool, which is 0 or 1", start)
        return value == 1

    def write(self, writer: ByteWriter, value: bool) -> None:
        """Write a truth value."""
        writer.number(primitives.INT8, 1 if value else 0)


@dataclass(frozen=True, slots=True)
class Coded:
    """An error code; one that we do not know is malformed, since we could not act upon it."""

    label: str = "int16, an error code"
    least_bytes: int = 2
    layout: ClassVar[struct.Struct] = primitives.INT16

    def read(self, reader: ByteReader) -> ErrorCode:
        """The next code; `WireError` if it is none of ours."""
        start = reader.offset
        return _member(ErrorCode, reader.number(primitives.INT16), start)

    def write(self, writer: ByteWriter, value: ErrorCode) -> None:
        """Write a code."""
        writer.number(primitives.INT16, value)


@dataclass(frozen=True, slots=True)
class Reset:
    """`smallest` or `largest`, as a string."""

    label: str = "string, `smallest` or `largest`"
    least_bytes: int = 2

    def read(self, reader: ByteReader) -> OffsetReset:
        """The next one; `WireError` if it is neither."""
        start = reader.offset
        return _member(OffsetReset, reader.string(), start)

    def write(self, writer: ByteWriter, value: OffsetReset) -> None:
        """Write it."""
        writer.string(value.value)


def _member(choice: type[Member], value: int | str, start: int) -> Member:
    try:
        return choice(value)
    except ValueError:
        numbers = issubclass(choice, IntEnum)
        known = "" if numbers else f", but {' or '.join(str(c.value) for c in choice)}"
        raise malformed(f"{value!r} is no {choice.__name__}{known}", start) from None


@dataclass(frozen=True, slots=True)
class StructField:
    """A field of a struct: an attribute of its class."""

    name: str
    kind: FieldKind[Any]


@dataclass(frozen=True, slots=True)
class Struct(Generic[T]):
    """The fields of a class, one after another."""

    of: type[T]
    fields: tuple[StructField, ...] = ()

    @property
    def label(self) -> str:
        """Its fields."""
        return "; ".join(f"`{field.name}` {field.kind.label}" for field in self.fields)

    @property
    def least_bytes(self) -> int:
        """The least that its fields take."""
        return sum(field.kind.least_bytes for field in self.fields)

    def read(self, reader: ByteReader) -> T:
        """The next one; `WireError` names the field that is wrong."""
        return self.read_beside(reader, {})

    def read_beside(self, reader: ByteReader, beside: Mapping[str, Any]) -> T:
        """The next one, given those of its attributes that are not sent here."""
        values = dict(beside)
        for field in self.fields:
            try:
                values[field.name] = field.kind.read(reader)
            except WireError as error:
                raise error.within(field.name) from None
        return self.of(**values)

    def write(self, writer: ByteWriter, value: T) -> None:
        """Write one; `Unsendable` names the field that does not fit."""
        for field in self.fields:
            try:
                field.kind.write(writer, getattr(value, field.name))
            except Unsendable as error:
                raise error.within(field.name) from None


@dataclass(frozen=True, slots=True)
class Array(Generic[T]):
    """A count and as many elements."""

    element: FieldKind[T]
    counted: Number

    @property
    def label(self) -> str:
        """Its count and its elements."""
        return f"{self.counted.name} count of [{self.element.label}]"

    @property
    def least_bytes(self) -> int:
        """The size of an empty one."""
        return self.counted.least_bytes

    def read(self, reader: ByteReader) -> tuple[T, ...]:
        """The elements; `WireError` names the one that is wrong."""
        count = reader.count(self.counted.layout, self.element.least_bytes)
        elements = []
        for index in range(count):
            try:
                elements.append(self.element.read(reader))
            except WireError as error:
                raise error.within(f"[{index}]") from None
        return tuple(elements)

    def write(self, writer: ByteWriter, value: tuple[T, ...]) -> None:
        """Write the elements; `Unsendable` if they are too many to be counted."""
        self.counted.write(writer, len(value))
        for index, element in enumerate(value):
            try:
                self.element.write(writer, element)
            except Unsendable as error:
                raise error.within(f"[{index}]") from None


@dataclass(frozen=True, slots=True)
class Perhaps(Generic[T]):
    """The last field of a body: None where nothing follows."""

    kind: FieldKind[T]
    least_bytes: int = 0

    @property
    def label(self) -> str:
        """That of what is there or not."""
        return f"absent, or {self.kind.label}"

    def read(self, reader: ByteReader) -> T | None:
        """The value, if any byte is left."""
        return self.kind.read(reader) if reader.left else None

    def write(self, writer: ByteWriter, value: T | None) -> None:
        """Write the value, if there is one."""
        if value is not None:
            self.kind.write(writer, value)


INT8 = Number("int8", primitives.INT8)
INT16 = Number("int16", primitives.INT16)
INT32 = Number("int32", primitives.INT32)
INT64 = Number("int64", primitives.INT64)
STRING = Text()
BOOL = Bool()
ERROR_CODE = Coded()
OFFSET_RESET = Reset()
