"""A client that writes single requests over a socket and reads the answers, for tests."""

from __future__ import annotations

import socket
import struct
from typing import Any

from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)

from herdproof.broker.codec import RequestHead, framed, read_answer
from herdproof.consuming.consumer_protocol import write_assignment, write_subscription

SIZE = struct.Struct(">i")
PATIENCE_S = 10.0
"""How long a test waits for what must come; only a failing test waits that long."""


class WiredClient:
    """A client of this name; `member_id` and `generation` are what it was told last."""

    def __init__(self, bootstrap: str, name: str = "a", instance: str | None = None) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.name = name
        self.instance = instance
        self.group = "g"
        self.topics = ["t"]
        self.member_id = ""
        self.generation = -1
        self.is_leader = False

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def send(self, request: Any, version: int) -> RequestHead:
        """Send a request."""
        head = RequestHead(request.API_KEY, version, 7)
        request.API_VERSION = version
        request.with_header(correlation_id=7, client_id=self.name)
        self.socket.sendall(framed(bytes(request.encode(header=True))))
        return head

    def receive(self, head: RequestHead) -> Any:
        """The answer to the oldest request that has none; raises `ConnectionError`."""
        (size,) = SIZE.unpack(self._read(SIZE.size))
        return read_answer(head, self._read(size))

    def ask(self, request: Any, version: int | None = None) -> Any:
        """Send a request, and wait for its answer."""
        return self.receive(
            self.send(request, NEWEST[request.API_KEY] if version is None else version)
        )

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker has ended the connection")
            data += more
        return data

    # ── A member of a group ─────────────────────────────────────────────────────────────────

    def joining(self, rebalance_ms: int = 60_000, session_ms: int = 45_000) -> JoinGroupRequest:
        """A JoinGroup, as a consumer of its topics sends it."""
        made = JoinGroupRequest.JoinGroupRequestProtocol
        return JoinGroupRequest(
            group_id=self.group, session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms,
            member_id=self.member_id, group_instance_id=self.instance, protocol_type="consumer",
            protocols=[made(name="range", metadata=write_subscription(self.topics))], reason=None,
        )  # fmt: skip

    def join(self, version: int = 9) -> Any:
        """Join, under the id that is required if one is; the answer."""
        told = self.ask(self.joining(), version)
        self.take(told)
        if told.error_code == MEMBER_ID_REQUIRED:
            return self.join(version)
        return told

    def take(self, told: Any) -> None:
        """Take what a JoinGroup was answered."""
        self.member_id, self.generation = told.member_id, told.generation_id
        self.is_leader = told.leader == told.member_id

    def sync(self, assigned: dict[str, list[tuple[str, int]]] | None = None) -> Any:
        """Ask for the assignment; a leader says whose is what, by member id."""
        made = SyncGroupRequest.SyncGroupRequestAssignment
        assignments = [
            made(member_id=member, assignment=write_assignment(partitions))
            for member, partitions in (assigned or {}).items()
        ]
        return self.ask(SyncGroupRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id,
            group_instance_id=self.instance, protocol_type="consumer", protocol_name="range",
            assignments=assignments,
        ))  # fmt: skip

    def own(self, *partitions: int, version: int = 9) -> None:
        """Be the only member, and own these partitions of topic `t`."""
        assert self.join(version).error_code == 0
        told = self.sync({self.member_id: [("t", number) for number in partitions]})
        assert told.error_code == 0

    def heartbeat(self) -> int:
        """Send a heartbeat; its error."""
        told = self.ask(HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id,
            group_instance_id=self.instance,
        ))  # fmt: skip
        return int(told.error_code)

    def commit(self, offset: int, partition: int = 0, topic_name: str = "t") -> int:
        """Commit an offset; its error."""
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        part = topic.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        told = self.ask(OffsetCommitRequest(
            group_id=self.group, generation_id_or_member_epoch=self.generation,
            member_id=self.member_id, group_instance_id=self.instance,
            topics=[topic(name=topic_name, partitions=[part])],
        ))  # fmt: skip
        return int(told.topics[0].partitions[0].error_code)


MEMBER_ID_REQUIRED = 79
NEWEST = {8: 8, 11: 9, 12: 4, 14: 5}
"""The versions in which a member's requests are sent: commit, join, heartbeat, sync."""
