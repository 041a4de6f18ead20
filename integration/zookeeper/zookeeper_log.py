"""
What a real ZooKeeper has done: its transaction log, read back in order.

Every write of every session stands there, with its session and the leader's clock: what was done,
in the order in which it was done, whoever had looked on or not.

Source: ZooKeeper 3.9, `FileTxnLog`, `zookeeper.jute` (module org.apache.zookeeper.txn).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from herdproof.zookeeper.operations import Create, Delete, Set

CREATES = {1: True, 15: True, 19: False, 21: False}
"""Types of creations, and whether such a node may be ephemeral."""
DELETES, SET, MULTI, CLOSE = (2, 20), 5, 14, -11
Write = Create | Delete | Set


@dataclass(frozen=True, slots=True)
class Transaction:
    """
    One transaction; of a session's end, `is_end`: its ephemeral nodes go with it.

    One that is refused has written nothing; of those only several operations in one are logged.
    """

    zxid: int
    at: float
    """In seconds of the machine's clock."""
    session: int
    writes: tuple[Write, ...] = ()
    is_end: bool = False
    is_refused: bool = False


def transactions(directory: Path, servers: int = 1) -> list[Transaction]:
    """What the ensemble in this directory has done, as a majority of its servers has it."""
    found: dict[int, Transaction] = {}
    seen: Counter[int] = Counter()
    for server in range(servers):
        own = {t.zxid: t for log in logs(directory / str(server)) for t in read(log.read_bytes())}
        found |= own
        seen.update([*own])
    return [found[zxid] for zxid in sorted(found) if seen[zxid] > servers // 2]


def logs(home: Path) -> list[Path]:
    """A server's logs, the oldest first."""
    return sorted(home.glob("data/version-2/log.*"), key=lambda log: int(log.suffix[1:], 16))


def read(data: bytes) -> Iterator[Transaction]:
    """The transactions of a log, up to where it is unwritten, or being written."""
    place = 16  # after the file's header
    while place + 12 <= len(data):
        _, length = struct.unpack_from(">qi", data, place)
        end = place + 12 + length
        if not length or end >= len(data) or data[end] != ord("B"):
            return
        yield one(Fields(data[place + 12 : end]))
        place = end + 1


def one(fields: Fields) -> Transaction:
    """One transaction, with its header."""
    session, _, zxid, ms, kind = fields.take(">qiqqi")
    writes = tuple(written(kind, fields))
    return Transaction(
        zxid, ms / 1000, session, writes, is_end=kind == CLOSE,
        is_refused=kind == MULTI and not writes,
    )  # fmt: skip


def written(kind: int, fields: Fields) -> Iterator[Write]:
    """What a transaction of a kind has written; what changes no data is left out."""
    if kind in CREATES:
        path, data = fields.text(), fields.buffer()
        for _ in range(max(fields.take(">i")[0], 0)):
            fields.take(">i"), fields.text(), fields.text()
        yield Create(path, data, ephemeral=bool(CREATES[kind] and fields.take(">?")[0]))
    elif kind in DELETES:
        yield Delete(fields.text())
    elif kind == SET:
        path, data = fields.text(), fields.buffer()
        yield Set(path, data, fields.take(">i")[0] - 1)
    elif kind == MULTI:
        parts = [(fields.take(">i")[0], fields.buffer()) for _ in range(fields.take(">i")[0])]
        if all(part != -1 for part, _ in parts):  # else it was refused as a whole
            for part, data in parts:
                yield from written(part, Fields(data))


class Fields:
    """What stands in a record, field after field."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def take(self, form: str) -> tuple[int, ...]:
        """Numbers."""
        found = struct.unpack_from(form, self._data, self._place)
        self._place += struct.calcsize(form)
        return found

    def buffer(self) -> bytes:
        """Bytes with their length before them; none, where that is negative."""
        length = max(self.take(">i")[0], 0)
        self._place += length
        return self._data[self._place - length : self._place]

    def text(self) -> str:
        """A text."""
        return self.buffer().decode()
