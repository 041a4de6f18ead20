"""
As much of Kafka's wire as members of groups need who do nothing with what they fetch.

Requests are functions to bytes, without their size and header; answers are read by functions from
bytes. Each is in the last version before the "flexible" ones, which all of Kafka 2.4 to 3.9 speak.

Source: Kafka's protocol guide (FindCoordinator v1, JoinGroup v5, Heartbeat v3, LeaveGroup v2,
SyncGroup v3, OffsetCommit v7, OffsetFetch v5, Fetch v11), and for what a consumer puts into them
the schemas ConsumerProtocolSubscription and -Assignment, v0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")
HEADER = struct.Struct(">hhi")
"""Of a request: which it is, its version, and the correlation id that its answer repeats."""


class Api(IntEnum):
    """Which request."""

    FETCH = 1
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14


VERSIONS = {
    Api.FIND_COORDINATOR: 1, Api.JOIN_GROUP: 5, Api.HEARTBEAT: 3, Api.LEAVE_GROUP: 2,
    Api.SYNC_GROUP: 3, Api.OFFSET_COMMIT: 7, Api.OFFSET_FETCH: 5, Api.FETCH: 11,
}  # fmt: skip


class Error(IntEnum):
    """What an answer may say; another one is a ValueError."""

    NONE = 0
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    MEMBER_ID_REQUIRED = 79


@dataclass(frozen=True, slots=True)
class Joined:
    """JoinGroup's answer; `members`, with what each subscribes to, are told the leader alone."""

    error: Error
    generation: int
    leader: str
    member: str
    members: Mapping[str, bytes]


# ── What both directions are made of ────────────────────────────────────────────────────────


def string(text: str) -> bytes:
    """A string."""
    data = text.encode()
    return INT16.pack(len(data)) + data


NO_STRING = INT16.pack(-1)
"""A string that is not there: here the group_instance_id, which only static members have."""


def blob(data: bytes) -> bytes:
    """Bytes."""
    return INT32.pack(len(data)) + data


class Reader:
    """Reads an answer from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int16(self) -> int:
        """The next int16."""
        (value,) = INT16.unpack_from(self._data, self._at)
        self._at += INT16.size
        return int(value)

    def int32(self) -> int:
        """The next int32."""
        (value,) = INT32.unpack_from(self._data, self._at)
        self._at += INT32.size
        return int(value)

    def string(self) -> str:
        """The next string; "" for one that is not there."""
        return self._take(self.int16()).decode()

    def blob(self) -> bytes:
        """The next bytes; none for those that are not there."""
        return self._take(self.int32())

    def _take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + max(0, size)
        return self._data[begin : self._at]


# ── Requests ────────────────────────────────────────────────────────────────────────────────


def request(api: Api, correlation_id: int, client: str, body: bytes) -> bytes:
    """A whole request."""
    return blob(HEADER.pack(api, VERSIONS[api], correlation_id) + string(client) + body)


def find_coordinator(group: str) -> bytes:
    """Who coordinates a group?"""
    return string(group) + b"\0"


def join_group(
    group: str, member: str, topics: Iterable[str], session_timeout_ms: int, rebalance_ms: int
) -> bytes:
    """To become a member ("" has none of Kafka's ids yet), or to remain one."""
    return b"".join(
        (
            *(string(group), INT32.pack(session_timeout_ms), INT32.pack(rebalance_ms)),
            *(string(member), NO_STRING, string("consumer")),
            *(INT32.pack(1), string("range"), blob(subscription(topics))),
        )
    )


def sync_group(group: str, generation: int, member: str, plan: Mapping[str, bytes]) -> bytes:
    """To hear what one is assigned; the leader says what everybody is."""
    of_each = (string(each) + blob(assigned) for each, assigned in plan.items())
    return b"".join((heartbeat(group, generation, member), INT32.pack(len(plan)), *of_each))


def heartbeat(group: str, generation: int, member: str) -> bytes:
    """To say that one is alive."""
    return string(group) + INT32.pack(generation) + string(member) + NO_STRING


def leave_group(group: str, member: str) -> bytes:
    """To be a member no more."""
    return string(group) + string(member)


def offset_commit(
    group: str, generation: int, member: str, topic: str, offsets: Mapping[int, int]
) -> bytes:
    """To commit an offset for each of these partitions."""
    each = [
        INT32.pack(partition) + INT64.pack(offset) + INT32.pack(-1) + string("")
        for partition, offset in offsets.items()
    ]
    head = heartbeat(group, generation, member) + INT32.pack(1) + string(topic)
    return b"".join((head, INT32.pack(len(each)), *each))


def offset_fetch(group: str, topic: str, partitions: Iterable[int]) -> bytes:
    """To hear what is committed for these partitions."""
    numbers = [INT32.pack(partition) for partition in partitions]
    head = string(group) + INT32.pack(1) + string(topic)
    return b"".join((head, INT32.pack(len(numbers)), *numbers))


def fetch(topic: str, partition: int, offset: int, most: int) -> bytes:
    """To get records of one partition, at once, with no session."""
    head = INT32.pack(-1) + INT32.pack(0) + INT32.pack(1) + INT32.pack(most) + b"\0"
    session = INT32.pack(0) + INT32.pack(-1)
    place = INT32.pack(partition) + INT32.pack(-1) + INT64.pack(offset) + INT64.pack(-1)
    topics = INT32.pack(1) + string(topic) + INT32.pack(1) + place + INT32.pack(most)
    return head + session + topics + INT32.pack(0) + string("")


def subscription(topics: Iterable[str]) -> bytes:
    """What a consumer tells the leader."""
    names = [string(topic) for topic in topics]
    return b"".join((INT16.pack(0), INT32.pack(len(names)), *names, INT32.pack(-1)))


def assignment(topic: str, partitions: Iterable[int]) -> bytes:
    """What the leader tells a consumer."""
    numbers = [INT32.pack(partition) for partition in partitions]
    head = INT16.pack(0) + INT32.pack(1) + string(topic)
    return b"".join((head, INT32.pack(len(numbers)), *numbers, INT32.pack(-1)))


# ── Answers ─────────────────────────────────────────────────────────────────────────────────


def split(data: bytearray) -> Iterator[tuple[int, bytes]]:
    """Take whole answers off the beginning: the correlation id and the body of each."""
    while len(data) >= INT32.size:
        end = INT32.size + INT32.unpack_from(data)[0]
        if len(data) < end:
            return
        with memoryview(data) as view:
            (correlation_id,) = INT32.unpack_from(view, INT32.size)
            body = bytes(view[2 * INT32.size : end])
        del data[:end]
        yield correlation_id, body


def found_coordinator(data: bytes) -> tuple[Error, tuple[str, int]]:
    """Where the coordinator listens, if there is no error."""
    answer = after_throttle(data)
    error = Error(answer.int16())
    answer.string()
    answer.int32()
    return error, (answer.string(), answer.int32())


def joined_group(data: bytes) -> Joined:
    """JoinGroup's answer."""
    answer = after_throttle(data)
    error, generation, _protocol = Error(answer.int16()), answer.int32(), answer.string()
    leader, member = answer.string(), answer.string()
    members = {}
    for _ in range(answer.int32()):
        name, _instance = answer.string(), answer.string()
        members[name] = answer.blob()
    return Joined(error, generation, leader, member, members)


def synced_group(data: bytes) -> tuple[Error, list[int]]:
    """SyncGroup's answer: the partitions of the one topic."""
    answer = after_throttle(data)
    error, assigned = Error(answer.int16()), Reader(answer.blob())
    return error, [] if error else partitions_of(assigned)


def partitions_of(assigned: Reader) -> list[int]:
    """The partitions of an assignment that names one topic at most."""
    assigned.int16()
    if not assigned.int32():
        return []
    assigned.string()
    return [assigned.int32() for _ in range(assigned.int32())]


def heard(data: bytes) -> Error:
    """The answer to a Heartbeat, and to a LeaveGroup."""
    return Error(after_throttle(data).int16())


def after_throttle(data: bytes) -> Reader:
    """An answer behind its throttle_time_ms."""
    answer = Reader(data)
    answer.int32()
    return answer
