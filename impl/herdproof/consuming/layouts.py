"""
Kafka's layouts of messages: fields by version, read without ever trusting a length.

A message is described by a line for each field: `name type`, then where it needs it the versions
that have it (`3+`, `1-1`), `null` where it may be absent, and `tag=0` where it is a tagged field.
From a "flexible" version on, lengths are varints and every struct ends in tagged fields, of which
unknown ones are skipped: that is how Kafka adds to a version without a new one.

No library is used here. Aiven's kio reads such layouts well, but reserves memory for as many
elements as a count claims, and garbage then ends the process; kafka-python reads a count below
zero as an empty array and null where none is allowed.

Source: apache/kafka, `clients/src/main/resources/common/message/README.md`.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from herdproof.errors import Malformed

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""A value at a place in bytes, and the place behind it."""

Values: TypeAlias = dict[str, Any]

LONGEST_VARINT_BYTES = 5

NEVER = 2**15
"""The first flexible version of what has none."""


class _Wrong(Exception):
    """A fault in some bytes, and the field that it is in."""

    def __init__(self, why: str, field: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.field = field


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    kind: str
    first: int = 0
    last: int = 2**15
    nullable: bool = False
    tag: int | None = None


class Layout:
    """A message, or a struct within one: its fields in every version from `first` to `last`."""

    def __init__(
        self, name: str, versions: tuple[int, int], flexible: int, fields: str,
        structs: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.first, self.last = versions
        self._flexible = flexible
        self._structs = {"": _fields(fields)}
        self._structs |= {struct: _fields(text) for struct, text in (structs or {}).items()}
        self._reads = {
            version: self._struct("", version) for version in range(self.first, self.last + 1)
        }

    def fields(self, struct: str = "") -> tuple[Field, ...]:
        """The fields of the message, or of a struct within it."""
        return self._structs[struct]

    def is_flexible(self, version: int) -> bool:
        """True if that version has varints and tagged fields."""
        return version >= self._flexible

    def read(self, data: bytes, at: int, version: int, *, longer: bool = False) -> Values:
        """
        The message that fills `data` from `at` on.

        Raises `Malformed` for whatever it is not; `longer` allows bytes behind it.
        """
        try:
            values, end = self._reads[version](data, at)
        except _Wrong as wrong:
            raise Malformed(
                "malformed", f"{self.name} v{version}: {wrong.field}{wrong.why}"
            ) from None
        if end != len(data) and not longer:
            more = f"{len(data) - end} bytes too many behind it"
            raise Malformed("malformed", f"{self.name} v{version}: {more}")
        made: Values = values
        return made

    # ── Readers, made once for each version ─────────────────────────────────────────────────

    def _struct(self, name: str, version: int) -> Read:
        """A reader of a struct."""
        flexible = self.is_flexible(version)
        mine = [f for f in self._structs[name] if f.first <= version <= f.last]
        fields = [(f.name, self._field(f, version)) for f in mine if f.tag is None]
        tagged = {f.tag: (f.name, self._field(f, version)) for f in mine if f.tag is not None}
        return partial(_read_struct, fields, tagged if flexible else None)

    def _field(self, field: Field, version: int) -> Read:
        flexible = self.is_flexible(version)
        if field.kind.startswith("[]"):
            element = self._one(field.kind[2:], version)
            return partial(_read_array, element, _COUNTS[flexible], field.nullable)
        if field.kind in _SIZES:
            return partial(
                _read_sized, _SIZES[field.kind][flexible], _MADE[field.kind], field.nullable
            )
        read = self._one(field.kind, version)
        return partial(_read_present, read) if field.nullable else read

    def _one(self, kind: str, version: int) -> Read:
        """A reader of what is never absent."""
        if kind in _SIZES:
            flexible = self.is_flexible(version)
            return partial(_read_sized, _SIZES[kind][flexible], _MADE[kind], False)
        return _FIXED[kind] if kind in _FIXED else self._struct(kind, version)


def _fields(text: str) -> tuple[Field, ...]:
    """Fields from their lines."""
    return tuple(_field_of(line.split()) for line in text.strip().splitlines())


def _field_of(words: list[str]) -> Field:
    name, kind, *rest = words
    first, last, nullable, tag = 0, 2**15, False, None
    for word in rest:
        if word == "null":
            nullable = True
        elif word.startswith("tag="):
            tag = int(word[4:])
        elif word.endswith("+"):
            first = int(word[:-1])
        else:
            first, last = map(int, word.split("-"))
    return Field(name, kind, first, last, nullable, tag)


# ── Reading ─────────────────────────────────────────────────────────────────────────────────


def _read_struct(
    fields: list[tuple[str, Read]], tagged: Mapping[int, tuple[str, Read]] | None,
    data: bytes, at: int,
) -> tuple[Values, int]:  # fmt: skip
    made: Values = {}
    name = ""
    try:
        for name, read in fields:
            made[name], at = read(data, at)
        if tagged is not None:
            for name, _ in tagged.values():
                made[name] = None
            name = "tagged fields"
            at = _read_tagged(tagged, made, data, at)
    except _Wrong as wrong:
        raise _Wrong(wrong.why, f"{name}: {wrong.field}") from None
    return made, at


def _read_tagged(tagged: Mapping[int, tuple[str, Read]], made: Values, data: bytes, at: int) -> int:
    """Tagged fields into `made`; those that are not known are skipped."""
    count, at = _varint(data, at)
    for _ in range(count):
        tag, at = _varint(data, at)
        size, at = _varint(data, at)
        end = at + size
        if end > len(data):
            raise _Wrong(_short(size, data, at))
        if tag in tagged:
            name, read = tagged[tag]
            made[name], at = read(data, at)
            if at != end:
                raise _Wrong(f"{name} takes another length than its {size} bytes")
        at = end
    return at


def _read_array(
    element: Read, counts: Read, nullable: bool, data: bytes, at: int
) -> tuple[list[Any] | None, int]:
    count, at = counts(data, at)
    if count < 0:
        if nullable and count == -1:
            return None, at
        raise _Wrong(f"a count is {count}")
    if count > len(data) - at:  # no element is shorter than a byte
        raise _Wrong(f"a count is {count}, and {len(data) - at} bytes are left")
    found = []
    for _ in range(count):
        value, at = element(data, at)
        found.append(value)
    return found, at


def _read_sized(
    sizes: Read, made: Callable[[bytes], Any], nullable: bool, data: bytes, at: int
) -> tuple[Any, int]:
    size, at = sizes(data, at)
    if size < 0:
        if nullable and size == -1:
            return None, at
        raise _Wrong(f"a length is {size}")
    end = at + size
    if end > len(data):
        raise _Wrong(_short(size, data, at))
    try:
        return made(data[at:end]), end
    except UnicodeDecodeError as problem:
        raise _Wrong(f"this is no UTF-8 ({problem.reason})") from None


def _read_present(read: Read, data: bytes, at: int) -> tuple[Any, int]:
    """A struct behind a byte that says whether it is there."""
    there, at = _INT8(data, at)
    return (None, at) if there < 0 else read(data, at)


def _number(layout: struct.Struct, data: bytes, at: int) -> tuple[int, int]:
    end = at + layout.size
    if end > len(data):
        raise _Wrong(_short(layout.size, data, at))
    return layout.unpack_from(data, at)[0], end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(LONGEST_VARINT_BYTES):
        if at + index >= len(data):
            raise _Wrong(_short(index + 1, data, at))
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise _Wrong(f"a varint is longer than {LONGEST_VARINT_BYTES} bytes")


def _compact(data: bytes, at: int) -> tuple[int, int]:
    """A compact length: one is added to it, so that 0 stands for what is absent."""
    value, at = _varint(data, at)
    return value - 1, at


def _uuid(data: bytes, at: int) -> tuple[str, int]:
    """A UUID as Kafka prints it."""
    end = at + 16
    if end > len(data):
        raise _Wrong(_short(16, data, at))
    return base64.urlsafe_b64encode(data[at:end]).decode().rstrip("="), end


def _short(needed: int, data: bytes, at: int) -> str:
    return f"{needed} bytes are needed, {max(0, len(data) - at)} are left"


_INT8, _INT16, _INT32, _INT64 = (
    partial(_number, struct.Struct(f)) for f in (">b", ">h", ">i", ">q")
)
_FIXED: Mapping[str, Read] = {
    "int8": _INT8, "int16": _INT16, "int32": _INT32, "int64": _INT64, "uuid": _uuid,
}  # fmt: skip
_COUNTS: tuple[Read, Read] = (_INT32, _compact)
_SIZES: Mapping[str, tuple[Read, Read]] = {
    "string": (_INT16, _compact), "bytes": (_INT32, _compact),
}  # fmt: skip
"""Before a flexible version, and from it on."""
_MADE: Mapping[str, Callable[[bytes], Any]] = {"string": bytes.decode, "bytes": bytes}


def version_of(data: bytes, what: str) -> int:
    """The two bytes with which keys, values and embedded messages begin; or `Malformed`."""
    try:
        return _INT16(data, 0)[0]
    except _Wrong as wrong:
        raise Malformed("malformed", f"{what} has no version: {wrong.why}") from None


VERSION_BYTES = 2
