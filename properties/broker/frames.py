"""Messages of Kafka's wire with anything in them, by kafka-python's schemas, and their frames."""

from __future__ import annotations

import uuid
from random import Random
from typing import Any

from herdproof.broker.codec import RequestHead, messages, write_request

NUMBERS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}
WORDS = ("", "t", "orders", "größer", "consumer", "range", "m" * 40)


def any_request(chance: Random, api: int, version: int) -> bytes:
    """A frame of this request, with anything in it."""
    kind, _ = messages()[api]
    head = RequestHead(api, version, chance.randrange(2**31))
    return write_request(head, any_message(chance, kind, version))


def any_message(chance: Random, kind: Any, version: int) -> Any:
    """A message of this version, with anything in it."""
    return kind(version=version, **fields(chance, kind._struct, version))


def fields(chance: Random, struct: Any, version: int) -> dict[str, Any]:
    """Something for each field of a struct; those with a tag now and then."""
    return {
        field.name: value(chance, field, version)
        for field in struct.fields.values()
        if field.for_version_q(version)
        and (not field.tagged_field_q(version) or chance.random() < 0.3)
    }


def value(chance: Random, field: Any, version: int, *, is_item: bool = False) -> Any:
    """Something for one field; null where that may be, now and then."""
    if field.nullable_for_version_q(version) and not is_item and chance.random() < 0.3:
        return None
    if field.is_array():
        items = range(chance.randrange(3))
        return [value(chance, field.array_of, version, is_item=True) for _ in items]
    if field.is_struct():
        return field.data_class(**fields(chance, field, version))
    return plain(chance, field.type_str.removeprefix("[]"))


def plain(chance: Random, kind: str) -> Any:
    """Something of a plain type."""
    if kind in NUMBERS:
        bits = NUMBERS[kind]
        number = chance.choice((0, 1, 3, chance.getrandbits(bits - 1)))
        return number if kind == "uint16" or chance.random() < 0.7 else -number
    match kind:
        case "bool":
            return chance.random() < 0.5
        case "float64":
            return chance.random()
        case "uuid":
            return uuid.UUID(int=chance.getrandbits(128) | 1)
        case "string":
            return chance.choice(WORDS)
        case "bitfield":
            return {3, chance.randrange(31)}
        case _:
            return chance.randbytes(chance.choice((0, 3, 70)))


def mutated(chance: Random, frame: bytes) -> bytes:
    """A frame with something wrong in it, most probably."""
    data = bytearray(frame)
    for _ in range(chance.choice((1, 1, 2, 8))):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[place : place + chance.choice((1, 2, 4, 30))]
            case 2:
                data[place:place] = chance.randbytes(chance.choice((1, 2, 4)))
            case 3:
                data[place : place + 4] = chance.choice(
                    (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xfe", b"\0")
                )
            case _:
                data[place : place + 12] = b"\xff" * 12
    return bytes(data)
