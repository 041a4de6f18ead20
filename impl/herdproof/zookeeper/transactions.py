"""
Transactions on ZooKeeper's wire, written and read in one pass.

kazoo makes several objects for each operation of a transaction, there and back, which is a good
part of what a commit of many offsets costs. So these frames are our own; kazoo sends them, and
hands over what is answered.

Source: ZooKeeper 3.9, `zookeeper.jute` (MultiHeader, CreateRequest, DeleteRequest, SetDataRequest,
CheckVersionRequest, Stat), `MultiOperationRecord` and `MultiResponse`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, assert_never

from herdproof.zookeeper.operations import Check, Create, Delete, Set, Stat

Result: TypeAlias = str | Stat | int | None
"""The path of what was created, the metadata of what was set, an error's code, or nothing."""

EPHEMERAL = 1
CREATE, DELETE, SET, CHECK, ERROR = 1, 2, 5, 13, -1
"""The types of operations, and of what stands for an operation that was not done."""

INT = struct.Struct(">i")
HEADER = struct.Struct(">i?i")
"""Before each operation, and each result: its type, whether all are over, and an error."""
STAT = struct.Struct(">qqqqiiiqiiq")

CREATE_HEAD, DELETE_HEAD, SET_HEAD, CHECK_HEAD = (
    HEADER.pack(kind, False, -1) for kind in (CREATE, DELETE, SET, CHECK)
)
END = HEADER.pack(-1, True, -1)
NULL = INT.pack(-1)


class TransactionFrame:
    """
    A transaction as kazoo sends it; `rooted` gives a path as the server knows it.

    What it creates gets the access list `acl`, of kazoo's entries.
    """

    type = 14

    def __init__(
        self, operations: Sequence[Create | Delete | Set | Check],
        rooted: Callable[[str], str], acl: Sequence[Any],
    ) -> None:  # fmt: skip
        self._operations = operations
        self._rooted = rooted
        self._acl = acl

    def serialize(self) -> bytes:
        """The bytes of all operations."""
        parts: list[bytes] = []
        for operation in self._operations:
            path = written_path(self._rooted(operation.path))
            match operation:
                case Set(_, data, version):
                    parts += (SET_HEAD, path, INT.pack(len(data)), data, INT.pack(version))
                case Create(_, data, is_ephemeral):
                    flags = INT.pack(EPHEMERAL if is_ephemeral else 0)
                    parts += (CREATE_HEAD, path, written(data), written_acl(self._acl), flags)
                case Delete(_, version):
                    parts += (DELETE_HEAD, path, INT.pack(version))
                case Check(_, version):
                    parts += (CHECK_HEAD, path, INT.pack(version))
                case _:
                    assert_never(operation)
        return b"".join((*parts, END))

    @staticmethod
    def deserialize(data: bytes, at: int) -> list[Result]:
        """The results of all operations, from a place in a frame on."""
        found: list[Result] = []
        while True:
            kind, is_over, _ = HEADER.unpack_from(data, at)
            at += HEADER.size
            if is_over:
                return found
            if kind == SET:
                found.append(read_stat(data, at))
                at += STAT.size
            elif kind == CREATE:
                path, at = read_text(data, at)
                found.append(path)
            elif kind == ERROR:
                found.append(INT.unpack_from(data, at)[0])
                at += INT.size
            elif kind in (DELETE, CHECK):
                found.append(None)
            else:
                raise ValueError(f"a result of type {kind} in a transaction")


def written(data: bytes) -> bytes:
    """Bytes behind their length."""
    return INT.pack(len(data)) + data


@lru_cache(maxsize=4096)
def written_path(path: str) -> bytes:
    """A path behind its length; the same ones are written again and again."""
    return written(path.encode())


def written_text(text: str) -> bytes:
    """A text behind its length; an empty one is null, as kazoo has it."""
    return written(text.encode()) if text else NULL


def written_acl(acl: Sequence[Any]) -> bytes:
    """An access list: who may do what."""
    entries = (
        INT.pack(each.perms) + written_text(each.id.scheme) + written_text(each.id.id)
        for each in acl
    )
    return b"".join((INT.pack(len(acl)), *entries))


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """A text behind its length, and the place behind it."""
    (length,) = INT.unpack_from(data, at)
    at += INT.size
    return str(data[at : at + length], "utf-8"), at + length


def read_stat(data: bytes, at: int) -> Stat:
    """A node's metadata."""
    (
        czxid, mzxid, _ctime, mtime, version, cversion, _aversion, owner, length, children, _pzxid,
    ) = STAT.unpack_from(data, at)  # fmt: skip
    return Stat(
        czxid=czxid, mzxid=mzxid, version=version, cversion=cversion, ephemeral_owner=owner,
        data_length=length, num_children=children, modified_ms=mtime,
    )  # fmt: skip
