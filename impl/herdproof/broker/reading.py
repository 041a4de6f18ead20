"""
Messages of Kafka's wire read strictly, by the schemas that kafka-python has.

kafka-python's own reader takes whatever can be read somehow: a negative count is an empty list,
null stands where none may, bytes are left over, and a varint, or a tag in each of a hundred
thousand structs, may keep it busy for hours. This one makes the same objects, of the same classes,
in one pass, and refuses the rest: no length is believed that is longer than what is there.

Source: Kafka's protocol guide; the rules of its generated readers (`MessageDataGenerator`).
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from herdproof.errors import PeerError

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value from a place in a frame; gives it and the place behind it."""

FIXED = {
    "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d",
    "bool": "?",
}  # fmt: skip
VARINT_BYTES = 5
"""An unsigned 32-bit number has no more."""
ABSENT, PRESENT = 0xFF, 0x01
"""The byte before a struct that may be null."""


class MalformedRequest(PeerError):
    """A request that is not what its type and version say."""


def read_message(
    kind: Any, version: int, data: bytes, at: int, *, may_leave: bool = False
) -> Any:  # fmt: skip
    """
    The message that a frame holds from a place to its end; raises `MalformedRequest`.

    With `may_leave`, bytes may follow it, of which nothing is known.
    """
    try:
        message, end = message_reader(kind, version)(data, at)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise MalformedRequest(f"{kind.__name__} {version} cannot be read: {problem}") from None
    if end != len(data) and not may_leave:
        left = len(data) - end
        raise MalformedRequest(f"{left} bytes follow the {kind.__name__} {version}")
    message._header = None  # that of a request stands apart
    return message


def read_first(kind: Any, version: int, data: bytes, at: int, field: str) -> Any:
    """One field of a message, and none behind it; raises `MalformedRequest`."""
    for each in kind._struct.untagged_fields(version):
        try:
            value, at = _reader(each, version, kind.flexible_version_q(version))(data, at)
        except (struct.error, IndexError, UnicodeDecodeError) as problem:
            raise MalformedRequest(f"{kind.__name__} {version} has no {field}: {problem}") from None
        if each.name == field:
            return value
    raise KeyError(field)


@cache
def message_reader(kind: Any, version: int) -> Read:
    """The reader of a message of this version, made when the first one comes."""
    return _struct(kind._struct, kind, version, kind.flexible_version_q(version))


def read_string(data: bytes, at: int) -> tuple[str | None, int]:
    """A string that may be null, as it stands in the head of every request."""
    return _plain_text(data, at)


def skip_tags(data: bytes, at: int) -> int:
    """The place behind tagged fields of which none is known."""
    return _no_tags(None, data, at)


def _reader(field: Any, version: int, compact: bool, *, is_item: bool = False) -> Read:
    """The reader of one field; the null of a list's own field, said of its items, is not meant."""
    nullable = field.nullable_for_version_q(version) and not is_item
    if field.is_array():
        item = _reader(field.array_of, version, compact, is_item=True)
        return _array(item, compact, nullable)
    if field.is_struct():
        read = _struct(field, field.data_class, version, compact)
        return _nullable_struct(read) if nullable else read
    kind = field.type_str.removeprefix("[]")
    if kind in FIXED:
        return _fixed(FIXED[kind])
    if kind in _OTHERS:
        return _OTHERS[kind]
    return _blob(_length(compact, "i" if kind in ("bytes", "records") else "h"), nullable,
                 _text if kind == "string" else bytes)  # fmt: skip


def _fixed(form: str) -> Read:
    """A number, or a truth."""
    packed = struct.Struct(">" + form)
    size, unpack = packed.size, packed.unpack_from

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return unpack(data, at)[0], at + size

    return read


def _uuid(data: bytes, at: int) -> tuple[uuid.UUID | None, int]:
    """A UUID; that of zeros is none."""
    end = _behind(data, at, 16)
    found = uuid.UUID(bytes=data[at:end])
    return found if found.int else None, end


def _bits(data: bytes, at: int) -> tuple[set[int] | None, int]:
    """The set of the bits of a number; that of the highest alone is none."""
    number, at = _bit_number(data, at)
    found = {bit for bit in range(32) if number >> bit & 1}
    return None if found == {31} else found, at


_bit_number = _fixed("I")
_OTHERS: dict[str, Read] = {"uuid": _uuid, "bitfield": _bits}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number in as many bytes as it needs."""
    value = shift = 0
    for place in range(at, at + VARINT_BYTES):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise MalformedRequest(f"the number at byte {at} has more than {VARINT_BYTES} bytes")


def _length(compact: bool, form: str) -> Read:
    """A length or a count; -1 says null."""
    if not compact:
        return _fixed(form)

    def read(data: bytes, at: int) -> tuple[int, int]:
        value, at = _varint(data, at)
        return value - 1, at

    return read


def _behind(data: bytes, at: int, length: int) -> int:
    """The place behind so many bytes, which must be there."""
    if length > len(data) - at:
        raise MalformedRequest(f"{length} bytes or items from byte {at} on, and the frame is over")
    return at + length


def _check_null(nullable: bool, length: int, at: int) -> None:
    """Refuse a negative length, but for the null that -1 says, where there may be one."""
    if length != -1 or not nullable:
        raise MalformedRequest(f"the length before byte {at} is {length}")


def _text(data: bytes) -> str:
    return str(data, "utf-8")


def _blob(length_of: Read, nullable: bool, make: Callable[[bytes], Any]) -> Read:
    """A string, bytes or records."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        length, at = length_of(data, at)
        if length < 0:
            _check_null(nullable, length, at)
            return None, at
        end = _behind(data, at, length)
        return make(data[at:end]), end

    return read


_plain_text = _blob(_length(False, "h"), True, _text)


def _array(item: Read, compact: bool, nullable: bool) -> Read:
    """A list; each item has one byte at least."""
    count_of = _length(compact, "i")

    def read(data: bytes, at: int) -> tuple[Any, int]:
        count, at = count_of(data, at)
        if count < 0:
            _check_null(nullable, count, at)
            return None, at
        _behind(data, at, count)
        items = []
        for _ in range(count):
            value, at = item(data, at)
            items.append(value)
        return items, at

    return read


def _struct(field: Any, kind: Any, version: int, flexible: bool) -> Read:
    """A struct: its fields in order, then those that have a tag."""
    parts = [(each.name, _reader(each, version, flexible))
             for each in field.untagged_fields(version)]  # fmt: skip
    tagged = {
        each.tag: (each.name, _reader(each, version, compact=True))
        for each in field.fields.values()
        if each.for_version_q(version) and each.tagged_field_q(version)
    }
    tags = _tags(tagged) if flexible else None

    def read(data: bytes, at: int) -> tuple[Any, int]:
        item = object.__new__(kind)
        item._version, item.tags, item.unknown_tags = version, None, None
        for name, part in parts:
            value, at = part(data, at)
            setattr(item, name, value)
        return item, at if tags is None else tags(item, data, at)

    return read


def _nullable_struct(read: Read) -> Read:
    """A struct behind a byte that says whether there is one."""

    def read_if_there(data: bytes, at: int) -> tuple[Any, int]:
        if data[at] == ABSENT:
            return None, at + 1
        if data[at] != PRESENT:
            raise MalformedRequest(f"byte {at} says neither that a struct follows nor that none")
        return read(data, at + 1)

    return read_if_there


def _tags(known: dict[int, tuple[str, Read]]) -> Callable[[Any, bytes, int], int]:
    """Tagged fields, in the order of their tags; those that are not known are passed over."""

    def read(item: Any, data: bytes, at: int) -> int:
        if data[at] == 0:
            return at + 1
        count, at = _varint(data, at)
        last = -1
        for _ in range(count):
            tag, at = _varint(data, at)
            size, at = _varint(data, at)
            end = _behind(data, at, size)
            if tag <= last:
                raise MalformedRequest(f"tag {tag} comes after tag {last}")
            if tag in known:
                name, part = known[tag]
                value, behind = part(data, at)
                if behind != end:
                    raise MalformedRequest(f"{name} has {behind - at} bytes, and {size} were said")
                item.tags = {*(item.tags or ()), name}
                setattr(item, name, value)
            last, at = tag, end
        return at

    return read


_no_tags = _tags({})
